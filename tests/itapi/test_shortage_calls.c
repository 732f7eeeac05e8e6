/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call that makes something, while one allocation after the other fails: it succeeds or
 * returns IT_ERR_RESOURCES, and a failed call leaves nothing behind.
 */
#include "fixture.h"
#include "shortage.h"

static struct node node, peer; /* peer listens */
static const char *interface;
static char memory[4096];
static it_net_addr_t address;
static it_path_t path;
static it_conn_qual_t qualifier;
static it_lmr_triplet_t whole;
static it_rmr_context_t context;
static it_event_t asked;
static size_t size; /* of an EVD or S-RQ, larger each time */

/* What the call under test makes or uses. */
static union {
    it_ia_handle_t ia;
    it_ia_info_t *info;
    it_pz_handle_t pz;
    it_lmr_handle_t lmr;
    it_rmr_handle_t rmr;
    it_evd_handle_t evd;
    it_listen_handle_t listen;
    it_srq_handle_t srq;
} made;
static it_ia_handle_t second; /* an IA for a single call */
static it_evd_handle_t aevd;

/* --- interfaces, memory --- */

static it_status_t ia_create(void)
{
    return it_ia_create(interface, 2, 1, &made.ia);
}

static void ia_free(void)
{
    ok(it_ia_free(made.ia));
}

static it_status_t ia_query(void)
{
    return it_ia_query(node.ia, &made.info);
}

static void info_free(void)
{
    it_ia_info_free(made.info);
}

static it_status_t pz_create(void)
{
    return it_pz_create(node.ia, &made.pz);
}

static void pz_free(void)
{
    ok(it_pz_free(made.pz));
}

static it_status_t lmr_create10(void)
{
    return it_lmr_create10(node.pz, memory, sizeof(memory), EVERYTHING, IT_LMR_FLAG_NONE, 0,
                           &made.lmr, &context);
}

static it_status_t lmr_create20(void)
{
    return it_lmr_create20(node.pz, memory, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                           IT_LMR_FLAG_NONE, 0, &made.lmr, &context);
}

static it_status_t lmr_create21(void)
{
    return it_lmr_create21(node.pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE, EVERYTHING,
                           IT_LMR_FLAG_NONE, 0, &made.lmr, &context);
}

static it_status_t lmr_create_unlinked(void)
{
    return it_lmr_create_unlinked(node.pz, 4, IT_LMR_FLAG_NONE, 0, &made.lmr);
}

static void lmr_free(void)
{
    ok(it_lmr_free(made.lmr));
}

static it_status_t rmr_create10(void)
{
    return it_rmr_create10(node.pz, &made.rmr);
}

static it_status_t rmr_create20(void)
{
    return it_rmr_create20(node.pz, IT_RMR_TYPE_DEFAULT, &made.rmr);
}

static void rmr_free(void)
{
    ok(it_rmr_free(made.rmr));
}

/* --- event dispatchers --- */

static it_status_t make_evd(it_ia_handle_t ia, it_event_type_t stream, it_evd_flags_t flags)
{
    int fd;

    return it_evd_create(ia, stream, flags, 8, 0, NULL, &made.evd, &fd);
}

static it_status_t evd_create(void)
{
    return make_evd(node.ia, IT_SOFTWARE_EVENT_STREAM, IT_EVD_CREATE_FD);
}

static it_status_t evd_create_dto(void)
{
    return make_evd(node.ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0);
}

static it_status_t evd_create_aevd(void)
{
    return make_evd(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, IT_EVD_CREATE_FD);
}

static void evd_free(void)
{
    ok(it_evd_free(made.evd));
}

static void software_evd(void)
{
    ok(evd_create());
}

static void dto_evd(void)
{
    ok(evd_create_dto());
}

static it_status_t evd_modify(void)
{
    size += 64;
    return it_evd_modify(made.evd, IT_EVD_PARAM_QUEUE_SIZE,
                         &(it_evd_param_t){ .sevd_queue_size = size });
}

static it_status_t evd_modify_aevd(void)
{
    return it_evd_modify(made.evd, IT_EVD_PARAM_AEVD_HANDLE, &(it_evd_param_t){ .aevd = aevd });
}

/* The first callback of an IA makes a thread. */
static void evd_of_a_new_ia(void)
{
    ok(it_ia_create(interface, 2, 1, &second));
    ok(make_evd(second, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0));
}

static void nothing(it_evd_handle_t evd, void *arg)
{
    (void)evd;
    (void)arg;
}

static it_status_t evd_callback_attach(void)
{
    return it_evd_callback_attach(made.evd, nothing, NULL);
}

static void second_free(void)
{
    ok(it_ia_free(second));
}

/* --- endpoints --- */

static it_status_t ep_rc_create(void)
{
    it_ep_attributes_t attributes = node_attributes(&node);

    return it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, IT_EP_NO_FLAG,
                           &attributes, &node.ep);
}

static void ep_free(void)
{
    ok(it_ep_free(node.ep));
}

static void endpoint(void)
{
    node_endpoint(&node);
}

static it_status_t ep_connect(void)
{
    return it_ep_connect(node.ep, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0);
}

/* The endpoint is freed with its pending request. */
static void ep_end(void)
{
    it_event_t event;

    ep_free();
    while (it_evd_dequeue(peer.asked, &event) == IT_SUCCESS)
        it_reject(event.conn_req.cn_est_id, NULL, 0);
    while (it_evd_dequeue(node.connections, &event) == IT_SUCCESS)
        ;
}

/* The peer's endpoint has a request to accept. */
static void request(void)
{
    endpoint();
    node_endpoint(&peer);
    ok(ep_connect());
    asked = expect(peer.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
}

static it_status_t ep_accept(void)
{
    return it_ep_accept(peer.ep, asked.conn_req.cn_est_id, NULL, 0);
}

static it_status_t accept_with_rmr(void)
{
    return itx_ep_accept_with_rmr(peer.ep, asked.conn_req.cn_est_id, &whole, &context);
}

/* Ends the active side first: if the passive one ends before it has answered, the other may
 * reconnect with the older revision. */
static void both_end(void)
{
    it_event_t event;

    it_reject(asked.conn_req.cn_est_id, NULL, 0); /* unless it was accepted */
    ep_end();
    ok(it_ep_free(peer.ep));
    while (it_evd_dequeue(peer.connections, &event) == IT_SUCCESS)
        ;
}

static it_status_t listen_create(void)
{
    it_conn_qual_t any = { .type = IT_IANA_PORT };

    return it_listen_create(node.ia, 0, node.asked, IT_LISTEN_NO_FLAG, &any, &made.listen);
}

static void listen_free(void)
{
    ok(it_listen_free(made.listen));
}

/* --- shared receive queues --- */

static it_status_t srq_create(void)
{
    return it_srq_create(node.pz, 1, 8, &made.srq);
}

static void srq_free(void)
{
    ok(it_srq_free(made.srq));
}

static void shared_queue(void)
{
    ok(srq_create());
}

static it_status_t srq_modify(void)
{
    size += 64;
    return it_srq_modify(made.srq, IT_SRQ_PARAM_MAX_RECV_DTO,
                         &(it_srq_param_t){ .max_recv_dtos = size });
}

static it_status_t ep_rc_create_srq(void)
{
    it_ep_attributes_t attributes = node_attributes(&node);

    node.ep = NULL;
    attributes.srv.rc.srq = made.srq;
    return it_ep_rc_create(node.pz, node.requests, node.receives, node.connections, IT_EP_SRQ,
                           &attributes, &node.ep);
}

static void srq_end(void)
{
    if (node.ep)
        ep_free();
    srq_free();
}

/* --- all of them --- */

static const struct shortage_row rows[] = {
    { "it_ia_create", ia_create, NULL, ia_free, false, FX_SOFTRDMA },
    { "it_ia_query", ia_query, NULL, info_free, false, 0 },
    { "it_pz_create", pz_create, NULL, pz_free, false, 0 },
    { "it_lmr_create10", lmr_create10, NULL, lmr_free, false, 0 },
    { "it_lmr_create20", lmr_create20, NULL, lmr_free, false, 0 },
    { "it_lmr_create21", lmr_create21, NULL, lmr_free, false, 0 },
    { "it_lmr_create_unlinked", lmr_create_unlinked, NULL, lmr_free, false, FX_LINK },
    { "it_rmr_create10", rmr_create10, NULL, rmr_free, false, FX_RMR },
    { "it_rmr_create20", rmr_create20, NULL, rmr_free, false, FX_RMR },
    { "it_evd_create", evd_create, NULL, evd_free, false, 0 },
    { "it_evd_create of DTOs", evd_create_dto, NULL, evd_free, false, 0 },
    { "it_evd_create of an AEVD", evd_create_aevd, NULL, evd_free, false, 0 },
    { "it_evd_modify of DTOs", evd_modify, dto_evd, evd_free, true, FX_SOFTRDMA },
    { "it_evd_modify into an AEVD", evd_modify_aevd, software_evd, evd_free, true, 0 },
    { "it_evd_callback_attach", evd_callback_attach, evd_of_a_new_ia, second_free, true, 0 },
    { "it_ep_rc_create", ep_rc_create, NULL, ep_free, false, 0 },
    { "it_ep_rc_create with an S-RQ", ep_rc_create_srq, shared_queue, srq_end, true, FX_SRQ },
    { "it_ep_connect", ep_connect, endpoint, ep_end, true, 0 },
    { "it_ep_accept", ep_accept, request, both_end, true, 0 },
    { "itx_ep_accept_with_rmr", accept_with_rmr, request, both_end, true, 0 },
    { "it_listen_create", listen_create, NULL, listen_free, false, 0 },
    { "it_srq_create", srq_create, NULL, srq_free, false, FX_SRQ },
    { "it_srq_modify", srq_modify, shared_queue, srq_free, true, FX_SRQ_RESIZE },
};
#define ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static void open_all(const char *name)
{
    struct buffer buffer;

    interface = name;
    node_open(&node, name);
    node_open(&peer, name);
    node_listen(&peer);
    address = node_address(&peer, IT_IPV4);
    path = path_to(&node, &address);
    qualifier = towards(&peer.qualifier);
    buffer = buffer_make(&peer, 4096, EVERYTHING);
    whole = segment(&buffer, 0, 4096);
    ok(it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 8, 0, NULL,
                     &aevd, NULL));
}

/* The loop variable names interface _i / ROWS and row _i % ROWS. */
START_TEST(refused_for_want_of_memory)
{
    shortage_needed();
    size = 64;
    open_all(fx_interface(_i / ROWS));
    shortage_run(&rows[_i % ROWS]);
    node_close(&node);
    node_close(&peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shortage_calls");
    TCase *tc = tc_case(suite, "memory", NULL, NULL);

    tcase_set_timeout(tc, 60);
    shortage_add(tc, refused_for_want_of_memory, rows, ROWS);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call that takes a handle, with invalid handles: NULL, freed, of another kind, garbage. Each
 * call returns its own code, and the process survives. The script status.tap checks that no call is
 * missing here.
 */
#include "fixture.h"

#include <sys/wait.h>

/* Valid arguments for all but the handle under test. */
static struct {
    struct node node;
    it_lmr_handle_t lmr;
    it_rmr_handle_t rmr; /* NULL where the interface has none, as for srq */
    it_srq_handle_t srq;
    it_ep_attributes_t attributes;
    it_lmr_triplet_t segment;
} good;

static char memory[4096];

#define FLAGS(type) ((type)0)

/* One function per handle argument: it passes the invalid handle. */
#define CALL(name, expression)         \
    static it_status_t name(void *bad) \
    {                                  \
        return expression;             \
    }

static union {
    it_ia_info_t *info;
    it_handle_type_enum_t type;
    it_context_t context;
    it_pz_handle_t pz;
    it_pz_param_t pz_param;
    it_lmr_handle_t lmr;
    it_lmr_param_t lmr_param;
    it_rmr_handle_t rmr;
    it_rmr_param_t rmr_param;
    it_evd_handle_t evd;
    it_evd_param_t evd_param;
    it_event_t event;
    it_ep_handle_t ep;
    it_ep_param_t ep_param;
    it_listen_handle_t listen;
    it_listen_param_t listen_param;
    it_srq_handle_t srq;
    it_srq_param_t srq_param;
    it_addr_handle_t ah;
    it_addr_param_t ah_param;
    it_ud_svc_req_handle_t ud;
    it_ud_svc_req_param_t ud_param;
    it_path_t path;
    it_net_addr_t address;
    int number;
    size_t size;
} out;

static it_rmr_context_t context;
static it_conn_qual_t qualifier = { .type = IT_IANA_PORT };
static it_path_t path;
static it_net_addr_t address = { .addr_type = IT_IPV4 };
static it_io_addr_t io_addr;
static size_t count = 1, total;

static void nothing(it_evd_handle_t evd, void *arg)
{
    (void)evd;
    (void)arg;
}

CALL(ia_free, it_ia_free(bad))
CALL(ia_query, it_ia_query(bad, &out.info))
CALL(get_handle_type, it_get_handle_type(bad, &out.type))
CALL(get_consumer_context, it_get_consumer_context(bad, &out.context))
CALL(set_consumer_context, it_set_consumer_context(bad, (it_context_t){ .index = 1 }))
CALL(pz_create, it_pz_create(bad, &out.pz))
CALL(pz_free, it_pz_free(bad))
CALL(pz_query, it_pz_query(bad, IT_PZ_PARAM_ALL, &out.pz_param))
CALL(lmr_create10,
     it_lmr_create10(bad, memory, 64, IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &out.lmr, &context))
CALL(lmr_create20, it_lmr_create20(bad, memory, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                                   IT_LMR_FLAG_NONE, 0, &out.lmr, &context))
CALL(lmr_create21, it_lmr_create21(bad, memory, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                                   IT_LMR_FLAG_NONE, 0, &out.lmr, &context))
CALL(lmr_create_unlinked, it_lmr_create_unlinked(bad, 1, IT_LMR_FLAG_NONE, 0, &out.lmr))
CALL(lmr_free, it_lmr_free(bad))
CALL(lmr_query, it_lmr_query(bad, IT_LMR_PARAM_ALL, &out.lmr_param))
CALL(lmr_modify, it_lmr_modify(bad, IT_LMR_PARAM_MEM_PRIV, &out.lmr_param))
CALL(lmr_flush_to_mem, it_lmr_flush_to_mem(&(it_lmr_triplet_t){ .lmr = bad, .length = 1 }, 1))
CALL(lmr_refresh_from_mem,
     it_lmr_refresh_from_mem(&(it_lmr_triplet_t){ .lmr = bad, .length = 1 }, 1))
CALL(lmr_link, it_lmr_link(bad, memory, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL,
                           good.node.ep, 0, BOTH, &context))
CALL(lmr_link_ep, it_lmr_link(good.lmr, memory, NULL, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_LOCAL, bad,
                              0, BOTH, &context))
CALL(lmr_unlink, it_lmr_unlink(bad, good.node.ep, 0, BOTH))
CALL(lmr_unlink_ep, it_lmr_unlink(good.lmr, bad, 0, BOTH))
CALL(mem_map, it_mem_map(bad, memory, 0, 64, &io_addr, &out.size))
CALL(mem_unmap, it_mem_unmap(bad, NULL, 64))
CALL(rmr_create10, it_rmr_create10(bad, &out.rmr))
CALL(rmr_create20, it_rmr_create20(bad, IT_RMR_TYPE_DEFAULT, &out.rmr))
CALL(rmr_free, it_rmr_free(bad))
CALL(rmr_query, it_rmr_query(bad, IT_RMR_PARAM_ALL, &out.rmr_param))
CALL(rmr_link, it_rmr_link(bad, good.lmr, memory, 64, IT_ADDR_MODE_ABSOLUTE, IT_PRIV_REMOTE_READ,
                           good.node.ep, 0, BOTH, &context))
CALL(rmr_bind10,
     it_rmr_bind10(bad, good.lmr, memory, 64, IT_PRIV_REMOTE_READ, good.node.ep, 0, BOTH, &context))
CALL(rmr_link_lmr, it_rmr_link(good.rmr, bad, memory, 64, IT_ADDR_MODE_ABSOLUTE,
                               IT_PRIV_REMOTE_READ, good.node.ep, 0, BOTH, &context))
CALL(rmr_link_ep, it_rmr_link(good.rmr, good.lmr, memory, 64, IT_ADDR_MODE_ABSOLUTE,
                              IT_PRIV_REMOTE_READ, bad, 0, BOTH, &context))
CALL(rmr_unlink, it_rmr_unlink(bad, good.node.ep, 0, BOTH))
CALL(rmr_unlink_ep, it_rmr_unlink(good.rmr, bad, 0, BOTH))
CALL(evd_create, it_evd_create(bad, IT_SOFTWARE_EVENT_STREAM, FLAGS(it_evd_flags_t), 4, 0, NULL,
                               &out.evd, NULL))
CALL(evd_create_aevd, it_evd_create(good.node.ia, IT_SOFTWARE_EVENT_STREAM, FLAGS(it_evd_flags_t),
                                    4, 0, bad, &out.evd, NULL))
CALL(evd_free, it_evd_free(bad))
CALL(evd_query, it_evd_query(bad, IT_EVD_PARAM_ALL, &out.evd_param))
CALL(evd_modify, it_evd_modify(bad, IT_EVD_PARAM_THRESHOLD, &out.evd_param))
CALL(evd_dequeue, it_evd_dequeue(bad, &out.event))
CALL(evd_dequeue_n, it_evd_dequeue_n(bad, 1, &out.event, &(int){ 0 }))
CALL(evd_wait, it_evd_wait(bad, 0, &out.event, NULL))
CALL(evd_post_se, it_evd_post_se(bad, NULL))
CALL(evd_callback_attach, it_evd_callback_attach(bad, nothing, NULL))
CALL(evd_callback_detach, it_evd_callback_detach(bad))
CALL(aevd_wait, itx_aevd_wait(bad, 0, 1, &out.event, &total))
CALL(ep_rc_create, it_ep_rc_create(bad, good.node.requests, good.node.receives,
                                   good.node.connections, IT_EP_NO_FLAG, &good.attributes, &out.ep))
CALL(ep_rc_create_req, it_ep_rc_create(good.node.pz, bad, good.node.receives, good.node.connections,
                                       IT_EP_NO_FLAG, &good.attributes, &out.ep))
CALL(ep_rc_create_recv,
     it_ep_rc_create(good.node.pz, good.node.requests, bad, good.node.connections, IT_EP_NO_FLAG,
                     &good.attributes, &out.ep))
CALL(ep_rc_create_conn, it_ep_rc_create(good.node.pz, good.node.requests, good.node.receives, bad,
                                        IT_EP_NO_FLAG, &good.attributes, &out.ep))
CALL(ep_ud_create,
     it_ep_ud_create(bad, good.node.requests, good.node.receives, &good.attributes, 0, &out.ep))
CALL(ep_ud_create_req,
     it_ep_ud_create(good.node.pz, bad, good.node.receives, &good.attributes, 0, &out.ep))
CALL(ep_ud_create_recv,
     it_ep_ud_create(good.node.pz, good.node.requests, bad, &good.attributes, 0, &out.ep))
CALL(ep_free, it_ep_free(bad))
CALL(ep_query, it_ep_query(bad, IT_EP_PARAM_ALL, &out.ep_param))
CALL(ep_modify, it_ep_modify(bad, IT_EP_PARAM_MAX_ORD, &good.attributes))
CALL(ep_reset, it_ep_reset(bad))
CALL(ep_connect, it_ep_connect(bad, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY, NULL, 0))
CALL(ep_accept, it_ep_accept(bad, 1, NULL, 0))
CALL(ep_disconnect, it_ep_disconnect(bad, NULL, 0))
CALL(listen_create,
     it_listen_create(bad, 0, good.node.asked, IT_LISTEN_NO_FLAG, &qualifier, &out.listen))
CALL(listen_create_evd,
     it_listen_create(good.node.ia, 0, bad, IT_LISTEN_NO_FLAG, &qualifier, &out.listen))
CALL(listen_at, itx_listen_create(bad, 0, good.node.asked, IT_LISTEN_NO_FLAG, &out.address,
                                  &qualifier, &out.listen))
CALL(listen_at_evd, itx_listen_create(good.node.ia, 0, bad, IT_LISTEN_NO_FLAG, &out.address,
                                      &qualifier, &out.listen))
CALL(listen_free, it_listen_free(bad))
CALL(listen_query, it_listen_query(bad, IT_LISTEN_PARAM_ALL, &out.listen_param))
CALL(reject, it_reject((it_cn_est_identifier_t)(uintptr_t)bad, NULL, 0))
CALL(handoff, it_handoff(&qualifier, 0, (it_cn_est_identifier_t)(uintptr_t)bad))
CALL(socket_convert, it_socket_convert(0, bad, IT_SC_DEFAULT, NULL, 0))
CALL(socket_convert_more,
     itx_socket_convert(0, bad, IT_SC_DEFAULT, &(struct itx_conversion){ .initiator = 1 }))
CALL(srq_create, it_srq_create(bad, 1, 1, &out.srq))
CALL(srq_free, it_srq_free(bad))
CALL(srq_modify, it_srq_modify(bad, IT_SRQ_PARAM_LOW_WATERMARK, &out.srq_param))
CALL(srq_query, it_srq_query(bad, IT_SRQ_PARAM_ALL, &out.srq_param))
CALL(post_send, it_post_send(bad, &good.segment, 1, 0, BOTH))
CALL(post_send_and_unlink, it_post_send_and_unlink(bad, &good.segment, 1, 0, BOTH, 0))
CALL(post_sendto, it_post_sendto(bad, &good.segment, 1, 0, BOTH, NULL))
CALL(post_recv, it_post_recv(bad, &good.segment, 1, 0, BOTH))
CALL(post_recvfrom, it_post_recvfrom(bad, &good.segment, 1, 0, BOTH))
CALL(post_rdma_write, it_post_rdma_write(bad, &good.segment, 1, 0, BOTH, 0, 0))
CALL(post_rdma_read, it_post_rdma_read(bad, &good.segment, 1, 0, BOTH, 0, 0))
CALL(post_rdma_read_to_rmr, it_post_rdma_read_to_rmr(bad, NULL, 0, 0, BOTH, 0, 0))
CALL(post_atomic, it_post_atomic(bad, IT_FETCH_AND_ADD, 1, 0, &good.segment, 0, BOTH, 0, 0))
CALL(get_pathinfo, it_get_pathinfo(bad, 0, &address, &count, &total, &out.path))
CALL(address_handle_create, it_address_handle_create(bad, &path, FLAGS(it_ah_flags_t), &out.ah))
CALL(address_handle_free, it_address_handle_free(bad))
CALL(address_handle_modify, it_address_handle_modify(bad, IT_ADDR_PARAM_PATH, &out.ah_param))
CALL(address_handle_query, it_address_handle_query(bad, IT_ADDR_PARAM_ALL, &out.ah_param))
CALL(ud_service_request_handle_create,
     it_ud_service_request_handle_create(&qualifier, bad, &path, NULL, 0, &out.ud))
CALL(ud_service_request, it_ud_service_request(bad))
CALL(ud_service_request_handle_query,
     it_ud_service_request_handle_query(bad, IT_UD_PARAM_ALL, &out.ud_param))
CALL(ud_service_request_handle_free, it_ud_service_request_handle_free(bad))
CALL(ud_service_reply,
     it_ud_service_reply((it_ud_svc_req_identifier_t)(uintptr_t)bad, IT_UD_SVC_REQ_REJECTED,
                         (it_remote_ep_info_t){ 0, 0 }, NULL, 0))
CALL(counters, itx_counters(bad, NULL, &out.size))
CALL(bind_ep, itx_bind_ep_to_device(bad, 1))
CALL(accept_with, itx_ep_accept_with_rmr(bad, 1, &good.segment, &context))
CALL(connect_with, itx_ep_connect_with_rmr(bad, &path, NULL, &qualifier, IT_CONNECT_FLAG_TWO_WAY,
                                           NULL, 0, &good.segment, &context))
CALL(context_for, itx_get_rmr_context_for_ep(bad, good.lmr, &context))
CALL(context_for_lmr, itx_get_rmr_context_for_ep(good.node.ep, bad, &context))

enum kind { IA, PZ, LMR, RMR, EVD, EP, LISTEN, SRQ, AH, UD, ANY, REQUEST, NO_KIND };
#define LAST_KIND SRQ /* the last kind with valid handles */

#define ROW(function, kind, status)                        \
    {                                                      \
#function, function, kind, IT_ERR_INVALID_##status \
    }
static const struct {
    const char *name;
    it_status_t (*call)(void *);
    enum kind kind;
    it_status_t status;
} rows[] = {
    ROW(ia_free, IA, IA),
    ROW(ia_query, IA, IA),
    ROW(get_handle_type, ANY, HANDLE),
    ROW(get_consumer_context, ANY, HANDLE),
    ROW(set_consumer_context, ANY, HANDLE),
    ROW(pz_create, IA, IA),
    ROW(pz_free, PZ, PZ),
    ROW(pz_query, PZ, PZ),
    ROW(lmr_create10, PZ, PZ),
    ROW(lmr_create20, PZ, PZ),
    ROW(lmr_create21, PZ, PZ),
    ROW(lmr_create_unlinked, PZ, PZ),
    ROW(lmr_free, LMR, LMR),
    ROW(lmr_query, LMR, LMR),
    ROW(lmr_modify, LMR, LMR),
    ROW(lmr_flush_to_mem, LMR, LMR),
    ROW(lmr_refresh_from_mem, LMR, LMR),
    ROW(lmr_link, LMR, LMR),
    ROW(lmr_link_ep, EP, EP),
    ROW(lmr_unlink, LMR, LMR),
    ROW(lmr_unlink_ep, EP, EP),
    ROW(mem_map, IA, IA),
    ROW(mem_unmap, IA, IA),
    ROW(rmr_create10, PZ, PZ),
    ROW(rmr_create20, PZ, PZ),
    ROW(rmr_free, RMR, RMR),
    ROW(rmr_query, RMR, RMR),
    ROW(rmr_link, RMR, RMR),
    ROW(rmr_bind10, RMR, RMR),
    ROW(rmr_link_lmr, LMR, LMR),
    ROW(rmr_link_ep, EP, EP),
    ROW(rmr_unlink, RMR, RMR),
    ROW(rmr_unlink_ep, EP, EP),
    ROW(evd_create, IA, IA),
    ROW(evd_free, EVD, EVD),
    ROW(evd_query, EVD, EVD),
    ROW(evd_modify, EVD, EVD),
    ROW(evd_dequeue, EVD, EVD),
    ROW(evd_dequeue_n, EVD, EVD),
    ROW(evd_wait, EVD, EVD),
    ROW(evd_post_se, EVD, EVD),
    ROW(evd_callback_attach, EVD, EVD),
    ROW(evd_callback_detach, EVD, EVD),
    ROW(aevd_wait, EVD, AEVD),
    ROW(ep_rc_create, PZ, PZ),
    ROW(ep_rc_create_req, EVD, REQ_EVD),
    ROW(ep_rc_create_recv, EVD, RECV_EVD),
    ROW(ep_rc_create_conn, EVD, CONN_EVD),
    ROW(ep_ud_create, PZ, PZ),
    ROW(ep_ud_create_req, EVD, REQ_EVD),
    ROW(ep_ud_create_recv, EVD, RECV_EVD),
    ROW(ep_free, EP, EP),
    ROW(ep_query, EP, EP),
    ROW(ep_modify, EP, EP),
    ROW(ep_reset, EP, EP),
    ROW(ep_connect, EP, EP),
    ROW(ep_accept, EP, EP),
    ROW(ep_disconnect, EP, EP),
    ROW(listen_create, IA, IA),
    ROW(listen_create_evd, EVD, CONN_EVD),
    ROW(listen_at, IA, IA),
    ROW(listen_at_evd, EVD, CONN_EVD),
    ROW(listen_free, LISTEN, LISTEN),
    ROW(listen_query, LISTEN, LISTEN),
    ROW(reject, REQUEST, CN_EST_ID),
    ROW(handoff, REQUEST, CN_EST_ID),
    ROW(socket_convert, EP, EP),
    ROW(socket_convert_more, EP, EP),
    ROW(srq_create, PZ, PZ),
    ROW(srq_free, SRQ, SRQ),
    ROW(srq_modify, SRQ, SRQ),
    ROW(srq_query, SRQ, SRQ),
    ROW(post_send, EP, EP),
    ROW(post_send_and_unlink, EP, EP),
    ROW(post_sendto, EP, EP),
    ROW(post_recv, EP, HANDLE),
    ROW(post_recvfrom, EP, EP),
    ROW(post_rdma_write, EP, EP),
    ROW(post_rdma_read, EP, EP),
    ROW(post_rdma_read_to_rmr, EP, EP),
    ROW(post_atomic, EP, EP),
    ROW(get_pathinfo, IA, IA),
    ROW(address_handle_create, PZ, PZ),
    ROW(address_handle_free, AH, AH),
    ROW(address_handle_modify, AH, AH),
    ROW(address_handle_query, AH, AH),
    ROW(ud_service_request_handle_create, EVD, CONN_EVD),
    ROW(ud_service_request, UD, UD_SVC),
    ROW(ud_service_request_handle_query, UD, UD_SVC),
    ROW(ud_service_request_handle_free, UD, UD_SVC),
    ROW(ud_service_reply, REQUEST, UD_SVC_REQ_ID),
    ROW(counters, ANY, HANDLE),
    ROW(bind_ep, EP, EP),
    ROW(accept_with, EP, EP),
    ROW(connect_with, EP, EP),
    ROW(context_for, EP, EP),
    ROW(context_for_lmr, LMR, LMR),
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void open_good(const char *name)
{
    node_open(&good.node, name);
    node_endpoint(&good.node);
    node_listen(&good.node);
    good.attributes = node_attributes(&good.node);
    ok(it_lmr_create(good.node.pz, memory, NULL, sizeof(memory), IT_ADDR_MODE_ABSOLUTE,
                     IT_PRIV_LOCAL, IT_LMR_FLAG_NONE, 0, &good.lmr, NULL));
    good.rmr = NULL;
    if (good.node.info->rmr_types_supported)
        ok(it_rmr_create(good.node.pz, IT_RMR_TYPE_DEFAULT, &good.rmr));
    good.srq = NULL;
    if (good.node.info->srq_support)
        ok(it_srq_create(good.node.pz, 1, 4, &good.srq));
    good.segment.lmr = good.lmr;
    good.segment.addr.abs = memory;
    good.segment.length = 16;
}

static void *good_handle(enum kind kind)
{
    void *handles[NO_KIND] = {
        [IA] = good.node.ia, [PZ] = good.node.pz,        [LMR] = good.lmr,
        [RMR] = good.rmr,    [SRQ] = good.srq,           [EVD] = good.node.asked,
        [EP] = good.node.ep, [LISTEN] = good.node.listen
    };

    return handles[kind];
}

/* A call that needs a second object, of a kind that the interface lacks. */
static bool lacks_company(size_t row)
{
    return !good.rmr && (rows[row].call == rmr_link_lmr || rows[row].call == rmr_link_ep ||
                         rows[row].call == rmr_unlink_ep);
}

static void check_row(size_t row, void *bad, const char *what)
{
    it_status_t status;

    if (lacks_company(row))
        return;
    status = rows[row].call(bad);
    ck_assert_msg(status == rows[row].status, "%s with %s: %s, not %s", rows[row].name, what,
                  itx_status_name(status), itx_status_name(rows[row].status));
}

START_TEST(null_and_garbage)
{
    static const uintptr_t garbage[] = {
        1, 8, 0x10, 0x11, 0xdeadbeef, UINTPTR_MAX, UINTPTR_MAX - 15, (uintptr_t)1 << 63, 0xfffff0
    };
    struct tc_rng rng = tc_rng(7);

    open_good(IFACE);
    for (size_t row = 0; row < ROWS; row++) {
        check_row(row, NULL, "NULL");
        check_row(row, memory, "a pointer");
        for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++)
            check_row(row, (void *)garbage[i], "garbage");
        for (int i = 0; i < 100; i++)
            check_row(row, (void *)(uintptr_t)(tc_rand(&rng) | 1ull << 60), "garbage");
    }
    node_close(&good.node);
}
END_TEST

START_TEST(other_kinds)
{
    open_good(IFACE);
    for (size_t row = 0; row < ROWS; row++) {
        for (enum kind kind = IA; kind <= LAST_KIND; kind++) {
            if (!good_handle(kind) || kind == rows[row].kind || rows[row].kind == ANY ||
                (kind == SRQ && rows[row].call == post_recv))
                continue;
            check_row(row, good_handle(kind), "a handle of another kind");
        }
    }
    node_close(&good.node);
}
END_TEST

/* Handles that were valid, also after new objects have taken their places. */
START_TEST(freed)
{
    void *old[NO_KIND] = { NULL };

    open_good(IFACE);
    for (enum kind kind = IA; kind <= LAST_KIND; kind++)
        old[kind] = good_handle(kind);
    node_close(&good.node);
    open_good(IFACE);
    for (size_t row = 0; row < ROWS; row++) {
        enum kind kind = rows[row].kind == ANY ? EVD : rows[row].kind;

        if (old[kind])
            check_row(row, old[kind], "a freed handle");
    }
    node_close(&good.node);
}
END_TEST

/* An invalid AEVD argument has its own code; NULL means no AEVD. */
START_TEST(aevd_argument)
{
    open_good(IFACE);
    is(IT_ERR_INVALID_AEVD, evd_create_aevd(memory));
    is(IT_ERR_INVALID_AEVD, evd_create_aevd(good.node.ia));
    is(IT_ERR_INVALID_AEVD, evd_create_aevd(good.node.asked));
    ok(evd_create_aevd(NULL));
    node_close(&good.node);
}
END_TEST

/* In the child of a fork every older handle is dead, of whatever kind, and every call says so, even
 * when the child has handles of its own. */
static void check_dead(void *const old[], bool anew)
{
    for (size_t row = 0; row < ROWS; row++) {
        void *handle = old[rows[row].kind];
        it_status_t status;

        if (!handle && anew) /* an interface without such objects: a handle that never existed */
            continue;
        status = rows[row].call(handle ? handle : old[IA]);
        if (status == IT_ERR_IA_CATASTROPHE)
            continue;
        fprintf(stderr, "# %s in the child%s: %s\n", rows[row].name, anew ? ", later" : "",
                itx_status_name(status));
        _exit(1);
    }
}

static void live_anew(const char *name, void *const old[])
{
    it_ia_handle_t ia;

    check_dead(old, false);
#ifndef ITAL_TSAN /* TSan does not follow the threads of a forked child */
    if (it_ia_create(name, 2, 1, &ia) != IT_SUCCESS)
        _exit(2);
    check_dead(old, true);
    if (it_ia_free(ia) != IT_SUCCESS)
        _exit(3);
#else
    (void)name;
    (void)ia;
#endif
    _exit(0);
}

START_TEST(dead)
{
    void *old[NO_KIND + 1] = { NULL };
    int status = -1;
    pid_t child;

    open_good(IFACE);
    for (enum kind kind = IA; kind <= LAST_KIND; kind++)
        old[kind] = good_handle(kind);
    old[ANY] = good.node.asked;
    tc_await_quiet_for_fork();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        live_anew(IFACE, old);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %x", status);
    node_close(&good.node); /* the parent's handles are alive */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_handles");
    TCase *tc = tc_case(suite, "none", NULL, NULL);

    add_each(tc, null_and_garbage, other_kinds, freed, aevd_argument, dead);
    return tc_main(suite);
}

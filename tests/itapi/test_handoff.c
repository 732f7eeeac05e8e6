/* SPDX-License-Identifier: BSD-3-Clause */
/* it_handoff: connection requests that go to another listen point of the adapter, and every way in
 * which that fails. */
#include "opened.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#define ROOM 2

/* pair.b listens at two points: its own qualifier, and `there`. */
static it_evd_handle_t there;
static it_conn_qual_t qualifier;
static it_listen_handle_t listen_there;

static void open_two(const char *name, it_listen_flags_t flags)
{
    pair_open(&pair, name);
    ok(it_evd_create(pair.b.ia, IT_CM_REQ_EVENT_STREAM, IT_EVD_OVERFLOW_DEFAULT, ROOM,
                     IT_THRESHOLD_DISABLE, NULL, &there, NULL));
    qualifier = (it_conn_qual_t){ .type = IT_IANA_PORT };
    ok(it_listen_create(pair.b.ia, 0, there, flags, &qualifier, &listen_there));
}

static it_cn_est_identifier_t ask_with(const char *data)
{
    return pair_ask(&pair, pair_family(&pair), data, data ? strlen(data) : 0).conn_req.cn_est_id;
}

START_TEST(another_listen_point_accepts)
{
    it_cn_est_identifier_t id;
    it_event_t first, event;

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    first = pair_ask(&pair, pair_family(&pair), "please", 6);
    id = first.conn_req.cn_est_id;
    ok(it_handoff(&qualifier, 0, id));
    event = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_uint_ne(event.conn_req.cn_est_id, id);
    ck_assert(event.conn_req.private_data_present);
    ck_assert_mem_eq(event.conn_req.private_data, "please", 6);
    ck_assert_int_eq(event.conn_req.conn_qual.type, IT_IANA_PORT);
    ck_assert_uint_eq(event.conn_req.conn_qual.conn_qual.port, qualifier.conn_qual.port);
    ck_assert_uint_eq(event.conn_req.rdma_read_ird, first.conn_req.rdma_read_ird);
    ck_assert_uint_eq(event.conn_req.rdma_read_ord, first.conn_req.rdma_read_ord);
    ck_assert_uint_eq(event.conn_req.spigot_id, first.conn_req.spigot_id);
    ck_assert_mem_eq(&event.conn_req.source_addr, &first.conn_req.source_addr,
                     sizeof(it_net_addr_t));
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(pair.b.ep, id, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(id, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_handoff(&qualifier, 0, id));
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect(pair.b.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
    expect_nothing(pair.b.asked);
}
END_TEST

START_TEST(there_and_back_and_rejected)
{
    it_cn_est_identifier_t id;

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    id = ask_with(NULL);
    for (int i = 0; i < 20; i++) {
        ok(it_handoff(&qualifier, 0, id));
        id = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;
        ok(it_handoff(&pair.b.qualifier, 0, id));
        id = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;
    }
    ok(it_handoff(&pair.b.qualifier, 0, id)); /* to its own listen point */
    id = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;
    ok(it_reject(id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
}
END_TEST

START_TEST(errors)
{
    it_conn_qual_t wrong = { .type = IT_VIA_DISCRIMINATOR };
    it_cn_est_identifier_t id;

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    id = ask_with(NULL);
    is(IT_ERR_INVALID_CN_EST_ID, it_handoff(&qualifier, 0, id + 1));
    is(IT_ERR_INVALID_CN_EST_ID, it_handoff(&qualifier, 0, 0));
    is(IT_ERR_FAULT, it_handoff(NULL, 0, id));
    is(IT_ERR_INVALID_SPIGOT, it_handoff(&qualifier, 4711, id));
    is(IT_ERR_INVALID_SPIGOT, it_handoff(&qualifier, SIZE_MAX, id));
    is(IT_ERR_INVALID_CONN_QUAL, it_handoff(&wrong, 0, id));
    wrong = (it_conn_qual_t){ .type = IT_IANA_PORT };
    is(IT_ERR_INVALID_CONN_QUAL, it_handoff(&wrong, 0, id)); /* port 0 */
    wrong.conn_qual.port = htons(1);                         /* without a listener */
    is(IT_ERR_INVALID_CONN_QUAL, it_handoff(&wrong, 0, id));
    ok(it_listen_free(listen_there));
    is(IT_ERR_INVALID_CONN_QUAL, it_handoff(&qualifier, 0, id));
    ok(it_ep_accept(pair.b.ep, id, NULL, 0)); /* no failed handoff consumed the request */
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}
END_TEST

START_TEST(by_a_pair_of_ports)
{
    it_conn_qual_t both = { .type = IT_IANA_LR_PORT };

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    both.conn_qual.lr_port.local = qualifier.conn_qual.port;
    ok(it_handoff(&both, 0, ask_with(NULL)));
    ok(it_ep_accept(pair.b.ep, expect(there, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id, NULL,
                    0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}
END_TEST

static it_conn_qual_t service_of(uint16_t port)
{
    it_conn_qual_t service = { .type = IT_IB_SERVICEID };

    service.conn_qual.serviceid = htobe64(UINT64_C(0x01060000) | ntohs(port));
    return service;
}

/* By the service ID of the target (from a port that was free a moment ago: RoCE has no others), and
 * by the service ID of the target's port. */
START_TEST(by_a_service_id)
{
    it_conn_qual_t service = { .type = IT_IANA_PORT }, of_port;
    it_listen_handle_t listen;
    it_event_t event;

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    ok(it_listen_create(pair.b.ia, 0, there, IT_LISTEN_NO_FLAG, &service, &listen));
    ok(it_listen_free(listen));
    service = service_of(service.conn_qual.port);
    ok(it_listen_create(pair.b.ia, 0, there, IT_LISTEN_CONN_QUAL_INPUT, &service, &listen));
    ok(it_handoff(&service, 0, ask_with(NULL)));
    event = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_int_eq(event.conn_req.conn_qual.type, IT_IB_SERVICEID);
    ck_assert_uint_eq(event.conn_req.conn_qual.conn_qual.serviceid, service.conn_qual.serviceid);
    of_port = service_of(qualifier.conn_qual.port);
    ok(it_handoff(&of_port, 0, event.conn_req.cn_est_id));
    event = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_int_eq(event.conn_req.conn_qual.type, IT_IANA_PORT);
    ck_assert_uint_eq(event.conn_req.conn_qual.conn_qual.port, qualifier.conn_qual.port);
    of_port = service_of(htons(1));
    is(IT_ERR_INVALID_CONN_QUAL, it_handoff(&of_port, 0, event.conn_req.cn_est_id));
    ok(it_ep_accept(pair.b.ep, event.conn_req.cn_est_id, NULL, 0));
    expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT);
}
END_TEST

START_TEST(flags_of_the_target_count)
{
    it_event_t event;

    open_two(IFACE, IT_LISTEN_SUPPRESS_IRD_ORD);
    ok(it_handoff(&qualifier, 0, ask_with("x")));
    event = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT);
    ck_assert_uint_eq(event.conn_req.rdma_read_ird, 0);
    ok(it_reject(event.conn_req.cn_est_id, NULL, 0));
}
END_TEST

/* Requests beyond the capacity of the target's EVD wait there, and appear as it is drained. */
START_TEST(full_evd)
{
    enum { COUNT = 5 };
    it_ep_handle_t eps[COUNT];
    it_cn_est_identifier_t ids[COUNT];

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    for (int i = 0; i < COUNT; i++) {
        ids[i] = ask_with(NULL);
        eps[i] = pair.a.ep;
        node_endpoint(&pair.a);
    }
    for (int i = 0; i < COUNT; i++)
        ok(it_handoff(&qualifier, 0, ids[i]));
    for (int i = 0; i < COUNT; i++) {
        it_cn_est_identifier_t id = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;

        ok(it_ep_accept(pair.b.ep, id, NULL, 0));
        ck_assert_ptr_eq(expect(pair.a.connections, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep,
                         eps[i]);
        node_endpoint(&pair.b);
    }
    expect_nothing(there);
}
END_TEST

/* The target's backlog is full: the caller keeps the request. */
START_TEST(full_listen_point)
{
    char path[300], text[300];
    enum { BACKLOG = ROOM };
    it_cn_est_identifier_t ids[BACKLOG + 1];
    FILE *file;

    snprintf(path, sizeof(path), "%s/ital.conf", tc_tempdir());
    snprintf(text, sizeof(text),
             "[ital]\ndefault_interfaces = no\n[interface %s]\nprovider = softrdma\nbacklog = 1\n",
             IFACE);
    file = fopen(path, "we");
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    setenv("ITAL_CONF", path, 1);
    open_two(IFACE, IT_LISTEN_NO_FLAG);
    for (int i = 0; i <= BACKLOG; i++) {
        ids[i] = ask_with(NULL);
        node_endpoint(&pair.a);
    }
    for (int i = 0; i < BACKLOG; i++) {
        ok(it_handoff(&qualifier, 0, ids[i]));
        ids[i] = expect(there, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;
    }
    is(IT_ERR_RESOURCES, it_handoff(&qualifier, 0, ids[BACKLOG]));
    ok(it_reject(ids[0], NULL, 0));
    ok(it_handoff(&qualifier, 0, ids[BACKLOG])); /* the request was still valid */
    ok(it_ep_accept(pair.b.ep, expect(there, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id, NULL,
                    0));
}
END_TEST

/* Rejects each pending request, of this round or late from an earlier one, whose peer may have
 * left. */
static void reject_what_came(const char *round, bool wait)
{
    it_event_t event;
    bool met = false;

    while (!met) {
        it_status_t status = wait ? (event = next(there), IT_SUCCESS)
                                  : it_evd_dequeue(there, &event);

        if (status != IT_SUCCESS)
            break;
        met = !strcmp((const char *)event.conn_req.private_data, round);
        status = it_reject(event.conn_req.cn_est_id, NULL, 0);
        ck_assert_msg(status == IT_SUCCESS ||
                          (status == IT_ERR_INVALID_CN_EST_ID && !(met && wait)),
                      "%s", itx_status_name(status));
    }
}

/* The peer gives up before or while requests move: a dead identifier or no event. */
START_TEST(withdrawn)
{
    unsigned long rounds = tc_count(50);
    struct tc_rng rng = tc_rng(1);

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    for (unsigned long i = 0; i < rounds; i++) {
        enum { BEFORE, MEANWHILE, NEVER } when = (int)tc_below(&rng, 3);
        it_cn_est_identifier_t id;
        it_status_t status;
        char round[24];

        snprintf(round, sizeof(round), "%lu", i);
        id = pair_ask(&pair, pair_family(&pair), round, strlen(round) + 1).conn_req.cn_est_id;
        if (when == BEFORE) {
            ok(it_ep_free(pair.a.ep));
            node_endpoint(&pair.a);
        }
        status = it_handoff(&qualifier, 0, id);
        ck_assert_msg(status == IT_SUCCESS ||
                          (when == BEFORE && status == IT_ERR_INVALID_CN_EST_ID),
                      "%s", itx_status_name(status));
        if (when == MEANWHILE) {
            ok(it_ep_free(pair.a.ep));
            node_endpoint(&pair.a);
        }
        reject_what_came(round, when == NEVER);
        if (when == NEVER) {
            expect(pair.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
            ok(it_ep_reset(pair.a.ep));
        }
    }
}
END_TEST

static it_cn_est_identifier_t contested;
static pthread_barrier_t start;

static void *hand_off(void *arg)
{
    pthread_barrier_wait(&start);
    *(it_status_t *)arg = it_handoff(&qualifier, 0, contested);
    return NULL;
}

/* Two threads hand off one request: one of them succeeds. */
START_TEST(contested_request)
{
    unsigned long rounds = tc_count(100);

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        it_status_t status[2];
        pthread_t thread;

        contested = ask_with(NULL);
        pthread_create(&thread, NULL, hand_off, &status[0]);
        if (i % 2) {
            hand_off(&status[1]);
        } else {
            pthread_barrier_wait(&start);
            status[1] = it_reject(contested, NULL, 0);
        }
        pthread_join(thread, NULL);
        ck_assert_msg((status[0] == IT_SUCCESS) != (status[1] == IT_SUCCESS), "%s and %s",
                      itx_status_name(status[0]), itx_status_name(status[1]));
        if (i % 2 || status[0] == IT_SUCCESS)
            ok(it_reject(next(there).conn_req.cn_est_id, NULL, 0));
        expect(pair.a.connections, IT_CM_MSG_CONN_PEER_REJECT_EVENT);
        ok(it_ep_reset(pair.a.ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

static void *free_listen(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    ok(it_listen_free(listen_there));
    return NULL;
}

/* The target is freed meanwhile: the handoff is refused; or the request is in the target's EVD and
 * valid; or it is dropped with the target. It is dropped by a reset: the peer asks once more, in
 * the same way, at the first listen point. */
START_TEST(target_that_goes)
{
    unsigned long rounds = tc_count(50);

    open_two(IFACE, IT_LISTEN_NO_FLAG);
    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        it_event_type_t heard;
        it_status_t status;
        pthread_t thread;
        it_event_t event;

        contested = ask_with(NULL);
        pthread_create(&thread, NULL, free_listen, NULL);
        hand_off(&status);
        pthread_join(thread, NULL);
        if (status != IT_SUCCESS) {
            is(IT_ERR_INVALID_CONN_QUAL, status);
            ok(it_reject(contested, NULL, 0));
        } else if (it_evd_dequeue(there, &event) == IT_SUCCESS) {
            ok(it_reject(event.conn_req.cn_est_id, NULL, 0));
        } else {
            event = expect(pair.b.asked, IT_CM_REQ_CONN_REQUEST_EVENT);
            ok(it_reject(event.conn_req.cn_est_id, NULL, 0));
        }
        heard = next(pair.a.connections).event_number;
        ck_assert(heard == IT_CM_MSG_CONN_PEER_REJECT_EVENT ||
                  heard == IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        ok(it_ep_reset(pair.a.ep));
        qualifier = (it_conn_qual_t){ .type = IT_IANA_PORT };
        ok(it_listen_create(pair.b.ia, 0, there, IT_LISTEN_NO_FLAG, &qualifier, &listen_there));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_handoff");
    TCase *tc = tc_case(suite, "handoff", NULL, fx_close);

    tcase_set_timeout(tc, tc_timeout_ms(120000) / 1000.0);
    add_each(tc, another_listen_point_accepts, there_and_back_and_rejected, errors);
    add_where(tc, FX_PORT_PAIRS, by_a_pair_of_ports);
    add_where(tc, FX_SERVICE_IDS, by_a_service_id);
    add_where(tc, FX_DEPTHS_SUPPRESSED, flags_of_the_target_count);
    add_each(tc, full_evd);
    add_where(tc, FX_SOFTRDMA, full_listen_point);
    add_each(tc, withdrawn, contested_request, target_that_goes);
    return tc_main(suite);
}

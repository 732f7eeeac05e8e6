/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states between UNCONNECTED and CONNECTED as a consumer of IT-API sees them, in both roles,
 * with a slow peer: what is refused there, and each way out. The sources of itapi are linked over
 * the fake kal, where the peer answers when the test orders it: no provider of this host has
 * three-way connections, without which there is no ACTIVE2.
 */
#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include "fake_kal.h"
#include "tc.h"

#include <arpa/inet.h>

#define BOTH ((it_dto_flags_t)(IT_COMPLETION_FLAG | IT_NOTIFY_FLAG))

#define is(expected, call)                                                                   \
    do {                                                                                     \
        it_status_t is_ = (call);                                                            \
        ck_assert_msg(is_ == (expected), "%s gives %s, not %s", #call, itx_status_name(is_), \
                      #expected);                                                            \
    } while (0)
#define ok(call) is(IT_SUCCESS, call)

static it_ia_handle_t ia;
static it_pz_handle_t pz;
static it_evd_handle_t dto, messages, requests;
static it_listen_handle_t listen_point;
static it_ep_handle_t ep;
static it_cn_est_identifier_t arrived; /* the identifier from the peer's accept */
static uint64_t receives;              /* posted to ep */

static it_event_t expect(it_evd_handle_t evd, it_event_type_t number)
{
    it_event_t event;

    ok(it_evd_wait(evd, tc_timeout_ms(10000) * 1000ull, &event, NULL));
    ck_assert_msg(event.event_number == number, "%s came, not %s",
                  itx_event_name(event.event_number), itx_event_name(number));
    return event;
}

static void expect_nothing(it_evd_handle_t evd)
{
    it_event_t event;

    fk_drain();
    is(IT_ERR_QUEUE_EMPTY, it_evd_dequeue(evd, &event));
}

static it_ep_state_rc_t state(void)
{
    it_ep_param_t params;

    ok(it_ep_query(ep, IT_EP_PARAM_STATE, &params));
    return params.ep_state.rc;
}

static it_evd_handle_t make_evd(it_event_type_t stream)
{
    it_evd_handle_t evd;

    ok(it_evd_create(ia, stream, (it_evd_flags_t)0, 64, IT_THRESHOLD_DISABLE, NULL, &evd, NULL));
    return evd;
}

static void open_fake(void)
{
    it_ep_attributes_t attributes = { .max_request_dtos = 8,
                                      .max_recv_dtos = 8,
                                      .srv.rc.rdma_read_ord = 2 };
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT };

    fk_reset();
    fk.attr.features |= RI_FEATURE_CONNECTION_SET_B; /* sockets are converted there */
    fk.attr.max_send_wr = fk.attr.max_recv_wr = 100;
    fk.attr.max_send_sge = fk.attr.max_recv_sge = 4;
    fk.attr.max_read_sge = fk.attr.max_write_sge = 4;
    fk.attr.max_ord = 4;
    ok(it_ia_create("fake0", 2, 1, &ia));
    ok(it_pz_create(ia, &pz));
    dto = make_evd(IT_DTO_EVENT_STREAM);
    messages = make_evd(IT_CM_MSG_EVENT_STREAM);
    requests = make_evd(IT_CM_REQ_EVENT_STREAM);
    ok(it_listen_create(ia, 0, requests, (it_listen_flags_t)0, &qualifier, &listen_point));
    ok(it_ep_rc_create(pz, dto, dto, messages, IT_EP_NO_FLAG, &attributes, &ep));
    receives = 0;
}

static void close_fake(void)
{
    ok(it_ia_free(ia));
    ck_assert_uint_eq(fk.violations, 0);
    ck_assert_uint_eq(fk.connections + fk.qps, 0);
}

/* --- into a state --- */

static void tell(enum ri_connection_event_type type)
{
    struct ri_connection_event event = { .size = sizeof(event), .type = type };

    fk_connection_event(fk.connection, &event);
}

static it_status_t connect_ep(it_cn_est_flags_t flags)
{
    it_conn_qual_t qualifier = { .type = IT_IANA_PORT, .conn_qual.port = htons(9) };
    it_path_t path = { .timeout = IT_TIMEOUT_INFINITE };

    path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
    path.u.iwarp.raddr.ipv4.s_addr = htonl(INADDR_LOOPBACK);
    return it_ep_connect(ep, &path, NULL, &qualifier, flags, NULL, 0);
}

/* A peer's connection request. */
static it_cn_est_identifier_t ask(void)
{
    struct ri_connect_request request = { .size = sizeof(request) };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(8) };

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&request.local, &address, sizeof(address));
    memcpy(&request.peer, &address, sizeof(address));
    fk_request(fk.listener, &request);
    return expect(requests, IT_CM_REQ_CONN_REQUEST_EVENT).conn_req.cn_est_id;
}

static it_status_t convert(const char *message)
{
    return it_socket_convert(42, ep, IT_SC_DEFAULT, (const unsigned char *)message,
                             message ? strlen(message) : 0);
}

static void into_active1(void)
{
    ok(connect_ep(IT_CONNECT_FLAG_TWO_WAY));
}

static void into_active1_by_socket(void)
{
    ok(convert(NULL));
}

static void into_active1_three_way(void)
{
    ok(connect_ep(IT_CONNECT_FLAG_THREE_WAY));
}

static void into_active2(void)
{
    into_active1_three_way();
    tell(RI_CONNECTION_ACCEPTED);
    arrived = expect(messages, IT_CM_MSG_CONN_ACCEPT_ARRIVAL_EVENT).conn.cn_est_id;
}

/* The confirmation was sent. */
static void into_active2_confirmed(void)
{
    into_active2();
    ok(it_ep_accept(ep, arrived, NULL, 0));
}

static void into_passive(void)
{
    ok(it_ep_accept(ep, ask(), NULL, 0));
}

static void into_wait(void)
{
    ok(convert("go"));
}

static const struct {
    void (*enter)(void);
    it_ep_state_rc_t state;
} waiting[] = {
    { into_active1, IT_EP_STATE_ACTIVE1_CONNECTION_PENDING },
    { into_active1_by_socket, IT_EP_STATE_ACTIVE1_CONNECTION_PENDING },
    { into_active1_three_way, IT_EP_STATE_ACTIVE1_CONNECTION_PENDING },
    { into_active2, IT_EP_STATE_ACTIVE2_CONNECTION_PENDING },
    { into_active2_confirmed, IT_EP_STATE_ACTIVE2_CONNECTION_PENDING },
    { into_passive, IT_EP_STATE_PASSIVE_CONNECTION_PENDING },
    { into_wait, IT_EP_STATE_PASSIVE_WAIT_RDMA_TRANS_REQ },
};
#define WAITING (int)(sizeof(waiting) / sizeof(waiting[0]))

/* With one Receive posted before, and one in the state. */
static void enter(int which)
{
    ok(it_post_recv(ep, NULL, 0, ++receives, BOTH));
    waiting[which].enter();
    ok(it_post_recv(ep, NULL, 0, ++receives, BOTH));
    ck_assert_int_eq(state(), waiting[which].state);
}

static void expect_flushed(void)
{
    for (uint64_t i = 1; i <= receives; i++) {
        it_dto_cmpl_event_t done = expect(dto, IT_DTO_RC_RECV_CMPL_EVENT).dto_cmpl;

        ck_assert_uint_eq(done.cookie, i);
        ck_assert_int_eq(done.dto_status, IT_DTO_ERR_FLUSHED);
    }
    expect_nothing(dto);
}

/* Expects the one event and checks the state after it; a reset makes the EP as new. */
static void expect_over(it_event_type_t number)
{
    ck_assert_ptr_eq(expect(messages, number).conn.ep, ep);
    expect_nothing(messages);
    ck_assert_int_eq(state(), IT_EP_STATE_NONOPERATIONAL);
    expect_flushed();
    ok(it_ep_reset(ep));
    ck_assert_int_eq(state(), IT_EP_STATE_UNCONNECTED);
    expect_nothing(messages);
}

/* --- what is refused, and what is allowed --- */

START_TEST(calls)
{
    it_ep_attributes_t attributes = { .srv.rc.rdma_read_ord = 1 };
    it_cn_est_identifier_t other;
    it_ep_param_t params;

    enter(_i);
    other = ask();
    is(IT_ERR_INVALID_EP_STATE, connect_ep(IT_CONNECT_FLAG_TWO_WAY));
    is(IT_ERR_INVALID_EP_STATE, convert(NULL));
    is(IT_ERR_INVALID_EP_STATE, convert("go"));
    is(IT_ERR_INVALID_EP_STATE, it_ep_accept(ep, other, NULL, 0));
    is(IT_ERR_CANNOT_RESET, it_ep_reset(ep));
    is(IT_ERR_INVALID_EP_STATE, it_ep_modify(ep, IT_EP_PARAM_MAX_ORD, &attributes));
    is(IT_ERR_INVALID_EP_STATE, it_post_send(ep, NULL, 0, 1, BOTH));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_write(ep, NULL, 0, 1, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_read(ep, NULL, 0, 1, BOTH, 0, 0));
    if (waiting[_i].enter == into_active2_confirmed) { /* its identifier was used */
        is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(ep, arrived, NULL, 0));
        is(IT_ERR_INVALID_CN_EST_ID, it_reject(arrived, NULL, 0));
    }
    ok(it_ep_query(ep, IT_EP_PARAM_ALL, &params));
    ck_assert_int_eq(params.ep_state.rc, waiting[_i].state);
    expect_nothing(messages);
    expect_nothing(dto);
    ok(it_reject(other, NULL, 0));
}
END_TEST

/* --- ways out --- */

/* The peer answers at last. Posts are accepted from then on. */
START_TEST(goes_on)
{
    enter(_i);
    if (waiting[_i].enter == into_active2)
        ok(it_ep_accept(ep, arrived, NULL, 0));
    ck_assert_int_eq(state(), waiting[_i].state);
    fk_establish(fk.connection);
    ck_assert_ptr_eq(expect(messages, IT_CM_MSG_CONN_ESTABLISHED_EVENT).conn.ep, ep);
    ck_assert_int_eq(state(), IT_EP_STATE_CONNECTED);
    ok(it_post_send(ep, NULL, 0, 1, BOTH));
    expect_nothing(messages);
}
END_TEST

START_TEST(peer_rejects)
{
    bool is_active2 = waiting[_i].state == IT_EP_STATE_ACTIVE2_CONNECTION_PENDING;

    enter(_i);
    tell(RI_CONNECTION_REJECTED);
    if (!is_active2) {
        expect_over(IT_CM_MSG_CONN_PEER_REJECT_EVENT);
        return;
    }
    expect_nothing(messages); /* it has accepted already: no event in this state */
    ck_assert_int_eq(state(), waiting[_i].state);
}
END_TEST

START_TEST(fails_below)
{
    static const enum ri_connection_event_type types[] = { RI_CONNECTION_FAILED,
                                                           RI_CONNECTION_DISCONNECTED };

    for (int i = 0; i < 2; i++, receives = 0) {
        enter(_i);
        tell(types[i]);
        expect_over(IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
        if (waiting[_i].state == IT_EP_STATE_ACTIVE2_CONNECTION_PENDING)
            is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(ep, arrived, NULL, 0));
    }
}
END_TEST

START_TEST(abandoned)
{
    enter(_i);
    ok(it_ep_disconnect(ep, NULL, 0));
    is(IT_ERR_INVALID_EP_STATE, it_ep_disconnect(ep, NULL, 0));
    expect_over(IT_CM_MSG_CONN_DISCONNECT_EVENT);
}
END_TEST

START_TEST(freed)
{
    enter(_i);
    ok(it_ep_free(ep));
    expect_nothing(messages);
    expect_nothing(dto);
    ck_assert_uint_eq(fk.qps, 0);
}
END_TEST

/* The third leg is a rejection. The EP has ended; its own consumer gets no event. */
START_TEST(rejects_what_arrived)
{
    enter(3);
    ok(it_reject(arrived, NULL, 0));
    ck_assert_uint_eq(fk.rejects, 1);
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(arrived, NULL, 0));
    ck_assert_int_eq(state(), IT_EP_STATE_NONOPERATIONAL);
    expect_nothing(messages);
    expect_flushed();
    ok(it_ep_reset(ep));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("states on the way to a connection");
    TCase *tc = tc_case(suite, "delayed peer", open_fake, close_fake);

    tc_add_loops(tc, 0, WAITING, calls, goes_on, peer_rejects, fails_below, abandoned, freed);
    tcase_add_test(tc, rejects_what_arrived);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * Connections of ual over a fake kal: calls and news in every state, messages once and in order, one-shot requests. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "world.h"

#include <string.h>

static struct ri_connection_event news(enum ri_connection_event_type type)
{
    return (struct ri_connection_event){ .size = sizeof(struct ri_connection_event), .type = type };
}

static void tell(enum ri_connection_event_type type)
{
    struct ri_connection_event event = news(type);

    fk_connection_event(fk.connection, &event);
}

static enum ual_status accept_it(struct ual_ep *which, ual_handle request)
{
    return ual_ep_accept(which, request, true, "yes", 3);
}

/* --- active side --- */

START_TEST(active)
{
    struct sockaddr_storage local, peer;
    struct ri_connection_event event;
    struct ual_connection_event got;
    struct sockaddr_in here = address(99);

    fails(ual_ep_addresses(ep, &local, &peer), UAL_ERR_INVALID_STATE);
    ok(connect_to(ep, false));
    expect_state(ep, UAL_EP_ACTIVE1);
    fails(connect_to(ep, false), UAL_ERR_INVALID_STATE);
    ok(ual_ep_addresses(ep, &local, &peer));
    ck_assert_uint_eq(((struct sockaddr_in *)&peer)->sin_port, htons(4791));
    ck_assert_uint_eq(fk.connection->param.ird, 3);
    ck_assert_uint_eq(fk.connection->param.ord, 4);
    ck_assert_uint_eq(fk.connection->param.deadline, RI_NO_DEADLINE);
    ck_assert(fk.connection->param.negotiate_depths);
    ck_assert_uint_eq(fk.connection->private_data_length, 5);
    event = news(RI_CONNECTION_ESTABLISHED);
    event.private_data = "welcome";
    event.private_data_length = 7;
    event.ird = 2;
    event.ord = 1;
    event.depths_valid = true;
    memcpy(&event.local, &here, sizeof(here));
    fk_connection_event(fk.connection, &event);
    got = expect(connect_evd, UAL_ESTABLISHED);
    ck_assert_uint_eq(got.ep, ual_handle_of(ep));
    ck_assert_uint_eq(got.request, 0);
    ck_assert(got.depths_valid);
    ck_assert_uint_eq(got.ird, 2);
    ck_assert_uint_eq(got.ord, 1);
    ck_assert_uint_eq(ep->attr.ird, 3); /* as asked for, for the next connection */
    ck_assert_uint_eq(got.private_data_length, 7);
    ck_assert_int_eq(memcmp(got.private_data, "welcome", 8), 0);
    ok(ual_ep_addresses(ep, &local, &peer));
    ck_assert_uint_eq(((struct sockaddr_in *)&local)->sin_port, htons(99));
    ck_assert_uint_eq(((struct sockaddr_in *)&peer)->sin_port, htons(4791));
    expect_state(ep, UAL_EP_CONNECTED);
}
END_TEST

START_TEST(bad_connects)
{
    struct sockaddr_in to = address(1);
    struct ual_connect connect = { .destination = (struct sockaddr *)&to };
    static const char data[600];

    connect.private_data = data;
    connect.private_data_length = 509;
    fails(ual_ep_connect(ep, &connect), UAL_ERR_LIMIT);
    connect.private_data = NULL;
    connect.private_data_length = 1;
    fails(ual_ep_connect(ep, &connect), UAL_ERR_INVALID_ARGUMENT);
    connect.private_data_length = 0;
    connect.destination = NULL;
    fails(ual_ep_connect(ep, &connect), UAL_ERR_INVALID_ARGUMENT);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_THREE_WAY;
    fails(connect_to(ep, true), UAL_ERR_NOT_SUPPORTED);
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(connect_that_does_not_start)
{
    static const enum fk_call calls[] = { FK_CONNECTION_CREATE, FK_CONNECT };

    for (int i = 0; i < 2; i++) {
        fk_fail(calls[i], KAL_ERR_UNREACHABLE);
        fails(connect_to(ep, false), UAL_ERR_UNREACHABLE);
        expect_state(ep, UAL_EP_UNCONNECTED);
        ck_assert_uint_eq(fk.connections, 0);
    }
    expect_nothing(connect_evd);
    establish(ep);
}
END_TEST

static const struct refusal {
    enum ri_connection_event_type type;
    enum ri_connection_reason reason;
    enum ual_connection_message message;
    uint16_t private_data_length;
} refusals[] = {
    { RI_CONNECTION_REJECTED, RI_REASON_OTHER, UAL_PEER_REJECTED, 3 },
    { RI_CONNECTION_FAILED, RI_REASON_TIMEOUT, UAL_NONPEER_REJECTED, 0 },
    { RI_CONNECTION_FAILED, RI_REASON_REFUSED, UAL_NONPEER_REJECTED, 0 },
};

START_TEST(refused)
{
    struct ri_recv_wr receive = { .cookie = 77 };
    struct ri_connection_event event = news(refusals[_i].type);
    struct ual_connection_event got;

    ok(ual_post_recv(ep, &receive));
    ok(connect_to(ep, false));
    event.reason = refusals[_i].reason;
    event.private_data = "bad";
    event.private_data_length = 3;
    fk_connection_event(fk.connection, &event);
    got = expect(connect_evd, refusals[_i].message);
    ck_assert_int_eq(got.reason, refusals[_i].reason);
    ck_assert_uint_eq(got.private_data_length, refusals[_i].private_data_length);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
    fails(connect_to(ep, false), UAL_ERR_INVALID_STATE);
    fails(ual_ep_disconnect(ep, NULL, 0), UAL_ERR_INVALID_STATE);
    ok(ual_ep_reset(ep));
    establish(ep);
}
END_TEST

START_TEST(long_private_data)
{
    static char data[508];
    struct ri_connection_event event = news(RI_CONNECTION_REJECTED);
    struct ual_connection_event got;

    memset(data, 'x', sizeof(data));
    ok(connect_to(ep, false));
    event.private_data = data;
    event.private_data_length = sizeof(data);
    fk_connection_event(fk.connection, &event);
    got = expect(connect_evd, UAL_PEER_REJECTED);
    ck_assert_uint_eq(got.private_data_length, UAL_PRIVATE_DATA_MAX);
    ck_assert_int_eq(memcmp(got.private_data, data, UAL_PRIVATE_DATA_MAX), 0);
}
END_TEST

/* --- passive side --- */

START_TEST(passive)
{
    struct ual_request_event request = ask();
    struct ual_connection_event got;

    ck_assert_uint_eq(request.listen, ual_handle_of(listen_point));
    ck_assert_uint_eq(request.ird, 11);
    ck_assert_uint_eq(request.ord, 12);
    ck_assert(request.depths_valid);
    ck_assert_uint_eq(request.private_data_length, 6);
    ck_assert_int_eq(memcmp(request.private_data, "please", 7), 0);
    ck_assert_uint_eq(((struct sockaddr_in *)&request.peer)->sin_port, htons(8));
    ck_assert_uint_eq(((struct sockaddr_in *)&request.local)->sin_port, htons(7));
    ck_assert_ptr_eq(ual_request_ia(request.request), ia);
    ok(accept_it(ep, request.request));
    expect_state(ep, UAL_EP_PASSIVE);
    ck_assert_ptr_null(ual_request_ia(request.request));
    ck_assert_uint_eq(fk.connection->private_data_length, 3);
    fk_establish(fk.connection);
    got = expect(connect_evd, UAL_ESTABLISHED);
    ck_assert_uint_eq(got.request, request.request);
    ck_assert_uint_eq(((struct sockaddr_in *)&got.peer)->sin_port, htons(8));
    expect_state(ep, UAL_EP_CONNECTED);
    fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
    expect(connect_evd, UAL_DISCONNECTED);
    ok(ual_ep_reset(ep));
    ok(connect_to(ep, false));
    fk_establish(fk.connection);
    got = expect(connect_evd, UAL_ESTABLISHED);
    ck_assert_uint_eq(got.request, 0); /* the next connection accepted nothing */
}
END_TEST

START_TEST(passive_peer_speaks_first)
{
    struct ual_request_event request = ask();
    struct ual_connection_event got;

    ok(accept_it(ep, request.request));
    fk.connection->info.ird = 5;
    fk.connection->info.depths_valid = true;
    fk.qp->state = RI_QPS_RTS;
    fk_qp_event(fk.qp, RI_EVENT_ESTABLISHED, 0);
    tell(RI_CONNECTION_ESTABLISHED); /* should kal say so too */
    got = expect(connect_evd, UAL_ESTABLISHED);
    ck_assert_uint_eq(got.ird, 5);
    ck_assert_uint_eq(got.request, request.request);
    expect_nothing(connect_evd);
    expect_state(ep, UAL_EP_CONNECTED);
}
END_TEST

START_TEST(passive_ends_before_first_message)
{
    static const enum ri_event_type types[] = { RI_EVENT_LLP_CLOSED, RI_EVENT_LLP_RESET,
                                                RI_EVENT_INTEGRITY };
    struct ual_request_event request = ask();

    ok(accept_it(ep, request.request));
    fk_end(fk.qp, types[_i]);
    expect(connect_evd, UAL_NONPEER_REJECTED);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    expect_nothing(connect_evd);
    expect_nothing(affiliated_evd);
}
END_TEST

START_TEST(requests_work_once)
{
    struct ual_request_event request = ask();
    struct ual_ep *other = make_ep();

    ok(accept_it(ep, request.request));
    fails(accept_it(other, request.request), UAL_ERR_INVALID_HANDLE);
    fails(ual_reject(request.request, NULL, 0), UAL_ERR_INVALID_HANDLE);
    expect_state(other, UAL_EP_UNCONNECTED);
    request = ask();
    ok(ual_reject(request.request, "no", 2));
    ck_assert_uint_eq(fk.rejects, 1);
    ck_assert_uint_eq(fk.connections, 1); /* that of `ep` */
    fails(ual_reject(request.request, NULL, 0), UAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, request.request), UAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, ual_handle_of(other)), UAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, 0), UAL_ERR_INVALID_HANDLE);
    fails(ual_reject(0, NULL, 0), UAL_ERR_INVALID_HANDLE);
}
END_TEST

static ual_handle claimed;
static struct ual_ep *second;

static void decide_again(void)
{
    fk.during_accept = NULL;
    fails(ual_reject(claimed, NULL, 0), UAL_ERR_INVALID_HANDLE);
    fails(accept_it(second, claimed), UAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_eq(ual_request_ia(claimed), ia); /* not used up yet */
}

START_TEST(requests_are_decided_by_one)
{
    claimed = ask().request;
    second = make_ep();
    fk.during_accept = decide_again;
    fk_fail(FK_ACCEPT, KAL_ERR_NO_RESOURCES);
    fails(accept_it(ep, claimed), UAL_ERR_NO_RESOURCES);
    ck_assert_ptr_null(fk.during_accept);
    ok(accept_it(second, claimed)); /* free again */
}
END_TEST

static void peer_ends_meanwhile(void)
{
    fk.during_accept = NULL;
    tell(RI_CONNECTION_FAILED);
    fk_settle();
}

/* The attempt ends with a message while the call is inside kal: the call has then succeeded, and nothing is said twice. */
START_TEST(end_during_accept)
{
    struct ual_request_event request = ask();

    fk.during_accept = peer_ends_meanwhile;
    fk_fail(FK_ACCEPT, KAL_ERR_NO_RESOURCES);
    ok(accept_it(ep, request.request));
    expect(connect_evd, UAL_NONPEER_REJECTED);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    expect_nothing(connect_evd);
    ck_assert_ptr_null(ual_request_ia(request.request));
    ok(ual_ep_reset(ep));
    ck_assert_uint_eq(fk_connections(), 0);
    establish(ep);
}
END_TEST

START_TEST(requests_survive_failures)
{
    struct ual_request_event request = ask();
    static const char data[600];

    fk_fail(FK_ACCEPT, KAL_ERR_NO_RESOURCES);
    fails(accept_it(ep, request.request), UAL_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_UNCONNECTED);
    fk_fail(FK_REJECT, KAL_ERR_NO_RESOURCES);
    fails(ual_reject(request.request, NULL, 0), UAL_ERR_NO_RESOURCES);
    fails(ual_ep_accept(ep, request.request, true, data, 509), UAL_ERR_LIMIT);
    fails(ual_ep_accept(ep, request.request, true, NULL, 1), UAL_ERR_INVALID_ARGUMENT);
    fails(ual_reject(request.request, data, 509), UAL_ERR_LIMIT);
    fails(ual_reject(request.request, NULL, 1), UAL_ERR_INVALID_ARGUMENT);
    ok(connect_to(ep, false));
    fails(accept_it(ep, request.request), UAL_ERR_INVALID_STATE);
    ok(ual_ep_disconnect(ep, NULL, 0));
    expect(connect_evd, UAL_DISCONNECTED);
    ok(ual_ep_reset(ep));
    ok(ual_listen_free(listen_point)); /* undecided requests stay valid */
    ok(accept_it(ep, request.request));
}
END_TEST

START_TEST(withdrawn)
{
    struct ual_request_event request = ask();

    fk_withdraw(fk.connection, _i);
    fk_settle();
    if (_i == 1)
        ck_assert_ptr_null(ual_request_ia(request.request));
    fails(_i == 2 ? ual_reject(request.request, NULL, 0) : accept_it(ep, request.request),
          UAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_null(ual_request_ia(request.request));
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert(tc_until(fk_connections() == 0, 10000));
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(full_request_evd)
{
    struct ri_connect_request request = { .size = sizeof(request) };
    struct ual_event event;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 6; i++)
            fk_request(fk.listener, &request);
        ck_assert(tc_until((fk_settle(), fk_connections()) == 4, 10000));
        for (int i = 0; i < 4; i++) {
            event = next_event(request_evd);
            ck_assert_uint_eq(event.request.private_data_length, 0);
            ok(ual_reject(event.request.request, NULL, 0));
        }
        expect_nothing(request_evd);
        ck_assert_uint_eq(fk_connections(), 0);
    }
    ask();
}
END_TEST

/* The last messages of an endpoint have room however small the EVD is and whatever waits in it. */
START_TEST(full_connection_evd)
{
    struct ual_evd *usual = connect_evd, *small = make_evd(UAL_STREAM_CONNECTION, 1);
    struct ual_ep *eps[3];

    connect_evd = small;
    for (int i = 0; i < 3; i++) {
        eps[i] = make_ep();
        ok(connect_to(eps[i], false));
        fk_establish(fk.connection);
        fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
    }
    fk_settle();
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(expect(small, UAL_ESTABLISHED).ep, ual_handle_of(eps[i]));
        ck_assert_uint_eq(expect(small, UAL_DISCONNECTED).ep, ual_handle_of(eps[i]));
    }
    connect_evd = usual;
}
END_TEST

START_TEST(suppressed_depths)
{
    struct sockaddr_in any = address(0);
    struct ual_request_event request;

    ok(ual_listen_free(listen_point));
    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&any, false, NULL, &listen_point));
    request = ask();
    ck_assert(!request.depths_valid);
    ck_assert_uint_eq(request.ird, 0);
    ok(accept_it(ep, request.request));
    ck_assert(!fk.connection->param.negotiate_depths);
}
END_TEST

/* --- three-way --- */

static ual_handle arrive(void)
{
    struct ual_connection_event got;

    ok(connect_to(ep, true));
    ck_assert(fk.connection->param.three_way);
    tell(RI_CONNECTION_ACCEPTED);
    got = expect(connect_evd, UAL_ACCEPT_ARRIVED);
    expect_state(ep, UAL_EP_ACTIVE2);
    ck_assert_uint_ne(got.request, 0);
    ck_assert_ptr_eq(ual_request_ia(got.request), ia);
    return got.request;
}

START_TEST(three_way)
{
    ual_handle arrived = arrive();
    struct ual_ep *other = make_ep();

    fails(accept_it(other, arrived), UAL_ERR_INVALID_HANDLE);
    fk_fail(FK_CONFIRM, KAL_ERR_NO_RESOURCES);
    fails(accept_it(ep, arrived), UAL_ERR_NO_RESOURCES);
    ok(accept_it(ep, arrived));
    fails(accept_it(ep, arrived), UAL_ERR_INVALID_HANDLE);
    ck_assert_uint_eq(fk.confirms, 1);
    fk_establish(fk.connection);
    expect(connect_evd, UAL_ESTABLISHED);
    expect_state(ep, UAL_EP_CONNECTED);
}
END_TEST

START_TEST(three_way_rejected)
{
    ual_handle arrived = arrive();

    fk_fail(FK_REJECT, KAL_ERR_NO_RESOURCES);
    fails(ual_reject(arrived, NULL, 0), UAL_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_ACTIVE2);
    ok(ual_reject(arrived, NULL, 0));
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    fails(ual_reject(arrived, NULL, 0), UAL_ERR_INVALID_HANDLE);
    expect_nothing(connect_evd);
    ok(ual_ep_reset(ep));
    establish(ep);
}
END_TEST

START_TEST(three_way_ends)
{
    ual_handle arrived = arrive();

    switch (_i) {
    case 0:
        tell(RI_CONNECTION_FAILED);
        expect(connect_evd, UAL_NONPEER_REJECTED);
        break;
    case 1:
        ok(ual_ep_disconnect(ep, NULL, 0));
        expect(connect_evd, UAL_DISCONNECTED);
        break;
    default: ok(ual_ep_free(ep));
    }
    ck_assert_ptr_null(ual_request_ia(arrived));
    fails(ual_reject(arrived, NULL, 0), UAL_ERR_INVALID_HANDLE);
}
END_TEST

/* --- ends --- */

static const struct end {
    enum ri_event_type type;
    enum ual_connection_message message;
    bool affiliated;
} ends[] = {
    { RI_EVENT_LLP_CLOSED, UAL_DISCONNECTED, false },
    { RI_EVENT_LLP_CLOSED_BUSY, UAL_DISCONNECTED, false },
    { RI_EVENT_LLP_RESET, UAL_BROKEN, false },
    { RI_EVENT_LLP_LOST, UAL_BROKEN, false },
    { RI_EVENT_LOCAL_ERROR, UAL_BROKEN, false },
    { RI_EVENT_RECV_LENGTH, UAL_BROKEN, false },
    { RI_EVENT_RESPONSE_ERROR, UAL_BROKEN, false },
    { RI_EVENT_TERMINATE_RECEIVED, UAL_BROKEN, true },
    { RI_EVENT_INTEGRITY, UAL_BROKEN, true },
    { RI_EVENT_REMOTE_OPERATION, UAL_BROKEN, true },
    { RI_EVENT_BAD_OPCODE, UAL_BROKEN, true },
    { RI_EVENT_NO_RECEIVE, UAL_BROKEN, true },
    { RI_EVENT_WRITE_ACCESS, UAL_BROKEN, true },
    { RI_EVENT_READ_ACCESS, UAL_BROKEN, true },
    { RI_EVENT_RECV_ACCESS, UAL_BROKEN, true },
    { RI_EVENT_INVALIDATE_ACCESS, UAL_BROKEN, true },
    { RI_EVENT_QP_FATAL, UAL_BROKEN, true },
    { RI_EVENT_QP_OVERFLOW, UAL_BROKEN, true },
};
#define ENDS ((int)(sizeof(ends) / sizeof(*ends)))

START_TEST(peer_ends)
{
    struct ual_event event;

    establish(ep);
    fk_end(fk.qp, ends[_i].type);
    fk_end(fk.qp, RI_EVENT_LLP_RESET); /* late and second: nobody hears of it */
    tell(RI_CONNECTION_DISCONNECTED);
    expect(connect_evd, ends[_i].message);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    expect_nothing(connect_evd);
    if (ends[_i].affiliated) {
        event = next_event(affiliated_evd);
        ck_assert_int_eq(event.async.type, ends[_i].type);
        ck_assert_uint_eq(event.async.cause, ual_handle_of(ep));
    }
    expect_nothing(affiliated_evd);
}
END_TEST

START_TEST(own_disconnect)
{
    establish(ep);
    ok(ual_ep_disconnect(ep, "bye", 3));
    ck_assert_uint_eq(fk.disconnects, 1);
    ck_assert_uint_eq(fk.connection->private_data_length, 0); /* no place for it */
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    fails(ual_ep_disconnect(ep, NULL, 0), UAL_ERR_INVALID_STATE);
    expect_nothing(connect_evd); /* not before the end */
    fk_end(fk.qp, ends[_i].type);
    expect(connect_evd, UAL_DISCONNECTED);
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    expect_nothing(connect_evd);
    ck_assert_uint_eq(fk.aborts, 0);
}
END_TEST

START_TEST(explained_terminates)
{
    static const uint16_t codes[] = { 0x0100, 0x0102, 0x1101, 0x1202, 0x1205, 0x0205, 0x2002 };
    struct ual_event event;

    establish(ep);
    fk_qp_event(fk.qp, RI_EVENT_TERMINATE_RECEIVED, codes[_i]);
    expect(connect_evd, UAL_BROKEN);
    if (_i >= 5) {
        event = next_event(affiliated_evd);
        ck_assert_int_eq(event.async.type, RI_EVENT_TERMINATE_RECEIVED);
    }
    expect_nothing(affiliated_evd);
}
END_TEST

START_TEST(affiliated_alone)
{
    struct ual_event event;

    establish(ep);
    fk_qp_event(fk.qp, RI_EVENT_QP_SOFT_WATERMARK, 0);
    event = next_event(affiliated_evd);
    ck_assert_int_eq(event.async.type, RI_EVENT_QP_SOFT_WATERMARK);
    expect_state(ep, UAL_EP_CONNECTED);
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(disconnect_that_cannot_start)
{
    establish(ep);
    fk_fail(FK_DISCONNECT, KAL_ERR_NO_RESOURCES);
    ok(ual_ep_disconnect(ep, NULL, 0));
    expect(connect_evd, UAL_DISCONNECTED);
    ck_assert_uint_eq(fk.aborts, 1);
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(providers_own_manager)
{
    struct ri_recv_wr receive = { .cookie = 3 };

    establish(ep);
    ok(ual_post_recv(ep, &receive));
    tell(_i ? RI_CONNECTION_FAILED : RI_CONNECTION_DISCONNECTED);
    expect(connect_evd, _i ? UAL_BROKEN : UAL_DISCONNECTED);
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
}
END_TEST

/* --- abort, reset, free, in every state --- */

enum where {
    IN_UNCONNECTED,
    IN_ACTIVE1,
    IN_ACTIVE2,
    IN_PASSIVE,
    IN_CONNECTED,
    IN_DISCONNECTING,
    IN_NONOPERATIONAL,
    WHERES
};

static void go(enum where where)
{
    switch (where) {
    case IN_UNCONNECTED: break;
    case IN_ACTIVE1: ok(connect_to(ep, false)); break;
    case IN_ACTIVE2: arrive(); break;
    case IN_PASSIVE: ok(accept_it(ep, ask().request)); break;
    case IN_CONNECTED: establish(ep); break;
    case IN_DISCONNECTING:
        establish(ep);
        ok(ual_ep_disconnect(ep, NULL, 0));
        break;
    default:
        establish(ep);
        fk_end(fk.qp, RI_EVENT_LLP_RESET);
        expect(connect_evd, UAL_BROKEN);
    }
}

START_TEST(disconnect_everywhere)
{
    struct ri_recv_wr receive = { .cookie = 8 };
    enum where where = (enum where)_i;

    ok(ual_post_recv(ep, &receive));
    go(where);
    if (where == IN_ACTIVE1 || where == IN_ACTIVE2 || where == IN_PASSIVE) {
        ok(ual_ep_disconnect(ep, NULL, 0));
        expect_state(ep, UAL_EP_NONOPERATIONAL);
        expect(connect_evd, UAL_DISCONNECTED);
        ck_assert_uint_eq(fk.connections, 0);
        ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
    } else if (where != IN_CONNECTED) {
        fails(ual_ep_disconnect(ep, NULL, 0), UAL_ERR_INVALID_STATE);
    }
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(reset_everywhere)
{
    enum where where = (enum where)_i;
    struct ri_recv_wr receive = { .cookie = 8 };

    ok(ual_post_recv(ep, &receive));
    go(where);
    switch (where) {
    case IN_DISCONNECTING:
        ok(ual_ep_reset(ep));
        expect(connect_evd, UAL_DISCONNECTED);
        ck_assert_uint_eq(fk.aborts, 1);
        break;
    case IN_UNCONNECTED:
    case IN_NONOPERATIONAL: ok(ual_ep_reset(ep)); break;
    default: fails(ual_ep_reset(ep), UAL_ERR_INVALID_STATE); return;
    }
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED); /* stays for the consumer */
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert_uint_eq(fk.connections, 0);
    expect_nothing(connect_evd);
    establish(ep);
}
END_TEST

START_TEST(reset_that_fails)
{
    go(IN_NONOPERATIONAL);
    fk_fail(FK_QP_IDLE, KAL_ERR_NO_RESOURCES);
    fails(ual_ep_reset(ep), UAL_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    ok(ual_ep_reset(ep));
    expect_state(ep, UAL_EP_UNCONNECTED);
}
END_TEST

START_TEST(free_everywhere)
{
    ual_handle handle = ual_handle_of(ep);

    go((enum where)_i);
    if (fk.connection)
        tell(
            RI_CONNECTION_FAILED); /* may come before the free or not at all: nothing is left of it */
    fk_qp_event(fk.qp, RI_EVENT_INTEGRITY, 0);
    ok(ual_ep_free(ep));
    ck_assert_ptr_null(ual_lookup_any(handle));
    ck_assert_uint_eq(fk.qps, 0);
    ck_assert_uint_eq(fk.connections, 0);
    expect_nothing(connect_evd);
    expect_nothing(affiliated_evd);
    ok(ual_evd_free(connect_evd));
    ok(ual_pz_free(pz));
}
END_TEST

START_TEST(free_purges_queued_messages)
{
    struct ual_ep *other = make_ep();
    struct ual_connection_event got;

    establish(other);
    fk_end(fk.qp, RI_EVENT_INTEGRITY);
    fk_settle();
    ok(ual_ep_free(other));
    expect_nothing(affiliated_evd);
    ok(connect_to(ep, false));
    tell(RI_CONNECTION_FAILED);
    got = expect(connect_evd, UAL_NONPEER_REJECTED); /* the first in the queue is of `ep` */
    ck_assert_uint_eq(got.ep, ual_handle_of(ep));
}
END_TEST

/* --- races --- */

static pthread_barrier_t start;

static void *disconnecting(void *arg)
{
    static const enum ual_status answers[2] = { UAL_OK, UAL_ERR_INVALID_STATE };
    enum ual_status status;

    (void)arg;
    pthread_barrier_wait(&start);
    status = ual_ep_disconnect(ep, NULL, 0);
    return (void *)&answers[status == UAL_OK ? 0 : 1];
}

static void *ending(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    return NULL;
}

static void *aborting(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    fk_establish(fk.connection);
    return NULL;
}

/* Disconnect against the peer's end, and against ESTABLISHED: exactly one end each time, and the endpoint works on. */
START_TEST(race_of_ends)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_connection_event got;
        pthread_t threads[2];
        void *answer;

        establish(ep);
        pthread_create(&threads[0], NULL, disconnecting, NULL);
        pthread_create(&threads[1], NULL, ending, NULL);
        pthread_join(threads[0], &answer);
        pthread_join(threads[1], NULL);
        got = next_event(connect_evd).connection;
        ck_assert(got.message ==
                  (*(enum ual_status *)answer == UAL_OK ? UAL_DISCONNECTED : UAL_BROKEN));
        expect_nothing(connect_evd);
        expect_state(ep, UAL_EP_NONOPERATIONAL);
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

START_TEST(race_of_abort)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        enum ual_connection_message message;
        pthread_t threads[2];

        ok(connect_to(ep, false));
        fk_hold(true); /* the connection lives until both have started */
        pthread_create(&threads[1], NULL, aborting, NULL);
        pthread_barrier_wait(&start);
        pthread_join(threads[1], NULL);
        pthread_create(&threads[0], NULL, disconnecting, NULL);
        pthread_barrier_wait(&start);
        fk_hold(false);
        pthread_join(threads[0], NULL);
        message = next_event(connect_evd).connection.message;
        if (message == UAL_ESTABLISHED) {
            fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
            message = next_event(connect_evd).connection.message;
        }
        ck_assert_int_eq(message, UAL_DISCONNECTED);
        expect_nothing(connect_evd);
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

static void *accepting(void *arg)
{
    ual_handle request = *(ual_handle *)arg;

    pthread_barrier_wait(&start);
    return accept_it(ep, request) == UAL_OK ? ep : NULL;
}

/* A consumer that accepts while the peer withdraws: either it is too late, or the endpoint hears of it. */
START_TEST(race_of_withdrawal)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_request_event request = ask();
        pthread_t thread;
        void *accepted;

        fk_hold(true);
        fk_withdraw(fk.connection, true);
        fk.connection->withdrawn = i % 2;
        pthread_create(&thread, NULL, accepting, &request.request);
        pthread_barrier_wait(&start);
        fk_hold(false);
        pthread_join(thread, &accepted);
        if (accepted) {
            expect(connect_evd, UAL_NONPEER_REJECTED);
            ok(ual_ep_reset(ep));
        }
        expect_nothing(connect_evd);
        expect_state(ep, UAL_EP_UNCONNECTED);
        ck_assert(tc_until((fk_settle(), fk_connections()) == 0, 10000));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

static void *rejecting(void *arg)
{
    ual_handle request = *(ual_handle *)arg;

    pthread_barrier_wait(&start);
    return ual_reject(request, NULL, 0) == UAL_OK ? ep : NULL;
}

/* Two threads decide about one request: one of them does. */
START_TEST(race_of_decisions)
{
    unsigned long rounds = tc_count(300);

    pthread_barrier_init(&start, NULL, 2);
    for (unsigned long i = 0; i < rounds; i++) {
        struct ual_request_event request = ask();
        void *accepted, *rejected;
        pthread_t threads[2];

        pthread_create(&threads[0], NULL, accepting, &request.request);
        pthread_create(&threads[1], NULL, rejecting, &request.request);
        pthread_join(threads[0], &accepted);
        pthread_join(threads[1], &rejected);
        ck_assert_int_eq(!accepted + !rejected, 1);
        expect_state(ep, accepted ? UAL_EP_PASSIVE : UAL_EP_UNCONNECTED);
        ck_assert_uint_eq(fk_connections(), accepted ? 1 : 0);
        if (accepted) {
            ok(ual_ep_disconnect(ep, NULL, 0));
            expect(connect_evd, UAL_DISCONNECTED);
        }
        ok(ual_ep_reset(ep));
    }
    pthread_barrier_destroy(&start);
}
END_TEST

/* Free while news comes from below: no message afterwards, nothing left. */
START_TEST(race_of_free)
{
    unsigned long rounds = tc_count(300);

    for (unsigned long i = 0; i < rounds; i++) {
        establish(ep);
        fk_end(fk.qp, RI_EVENT_INTEGRITY);
        if (i % 2)
            tell(RI_CONNECTION_DISCONNECTED);
        ok(ual_ep_free(ep));
        expect_nothing(connect_evd);
        expect_nothing(affiliated_evd);
        ep = make_ep();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");
    TCase *set_up = tcase_create("set-up"), *end = tcase_create("ends"),
          *race = tcase_create("races");

    tcase_add_checked_fixture(set_up, open_world, close_world);
    tcase_add_test(set_up, active);
    tcase_add_test(set_up, bad_connects);
    tcase_add_test(set_up, connect_that_does_not_start);
    tcase_add_loop_test(set_up, refused, 0, 3);
    tcase_add_test(set_up, long_private_data);
    tcase_add_test(set_up, passive);
    tcase_add_test(set_up, passive_peer_speaks_first);
    tcase_add_loop_test(set_up, passive_ends_before_first_message, 0, 3);
    tcase_add_test(set_up, requests_work_once);
    tcase_add_test(set_up, requests_are_decided_by_one);
    tcase_add_test(set_up, end_during_accept);
    tcase_add_test(set_up, requests_survive_failures);
    tcase_add_loop_test(set_up, withdrawn, 0, 3);
    tcase_add_test(set_up, full_request_evd);
    tcase_add_test(set_up, full_connection_evd);
    tcase_add_test(set_up, suppressed_depths);
    tcase_add_test(set_up, three_way);
    tcase_add_test(set_up, three_way_rejected);
    tcase_add_loop_test(set_up, three_way_ends, 0, 3);
    suite_add_tcase(suite, set_up);
    tcase_add_checked_fixture(end, open_world, close_world);
    tcase_add_loop_test(end, peer_ends, 0, ENDS);
    tcase_add_loop_test(end, own_disconnect, 0, ENDS);
    tcase_add_loop_test(end, explained_terminates, 0, 7);
    tcase_add_test(end, affiliated_alone);
    tcase_add_test(end, disconnect_that_cannot_start);
    tcase_add_loop_test(end, providers_own_manager, 0, 2);
    tcase_add_loop_test(end, disconnect_everywhere, 0, WHERES);
    tcase_add_loop_test(end, reset_everywhere, 0, WHERES);
    tcase_add_test(end, reset_that_fails);
    tcase_add_loop_test(end, free_everywhere, 0, WHERES);
    tcase_add_test(end, free_purges_queued_messages);
    suite_add_tcase(suite, end);
    tcase_add_checked_fixture(race, open_world, close_world);
    tcase_set_timeout(race, 60);
    tcase_add_test(race, race_of_ends);
    tcase_add_test(race, race_of_abort);
    tcase_add_test(race, race_of_withdrawal);
    tcase_add_test(race, race_of_decisions);
    tcase_add_test(race, race_of_free);
    suite_add_tcase(suite, race);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of ual over a fake kal, set-up: both sides and the three-way one, messages once and
 * in order, requests decided once.
 */
#include "ia_fixture.h"

/* --- active side --- */

START_TEST(active)
{
    struct sockaddr_storage local, peer;
    struct ri_connection_event event;
    struct ual_connection_event got;
    struct sockaddr_in here = address(99);

    fails(ual_ep_addresses(ep, &local, &peer), RI_ERR_INVALID_STATE);
    ok(connect_to(ep, false));
    expect_state(ep, UAL_EP_ACTIVE1);
    fails(connect_to(ep, false), RI_ERR_INVALID_STATE);
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
    ck_assert_uint_eq(ep->attr.ird, 3); /* the requested value, for the next connection */
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
    fails(ual_ep_connect(ep, &connect), RI_ERR_LIMIT);
    connect.private_data = NULL;
    connect.private_data_length = 1;
    fails(ual_ep_connect(ep, &connect), RI_ERR_INVALID_ARGUMENT);
    connect.private_data_length = 0;
    connect.destination = NULL;
    fails(ual_ep_connect(ep, &connect), RI_ERR_INVALID_ARGUMENT);
    fk.attr.features &= ~(uint64_t)RI_FEATURE_THREE_WAY;
    fails(connect_to(ep, true), RI_ERR_NOT_SUPPORTED);
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

START_TEST(connect_that_does_not_start)
{
    static const enum fk_call calls[] = { FK_CONNECTION_CREATE, FK_CONNECT };

    for (int i = 0; i < 2; i++) {
        fk_fail(calls[i], RI_ERR_UNREACHABLE);
        fails(connect_to(ep, false), RI_ERR_UNREACHABLE);
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
    fails(connect_to(ep, false), RI_ERR_INVALID_STATE);
    fails(ual_ep_disconnect(ep, NULL, 0), RI_ERR_INVALID_STATE);
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
    ck_assert_uint_eq(got.request, 0); /* the next connection has no request */
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
    tell(RI_CONNECTION_ESTABLISHED); /* even if kal reports it too */
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
    fails(accept_it(other, request.request), ITAL_ERR_INVALID_HANDLE);
    fails(ual_reject(request.request, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    expect_state(other, UAL_EP_UNCONNECTED);
    request = ask();
    ok(ual_reject(request.request, "no", 2));
    ck_assert_uint_eq(fk.rejects, 1);
    ck_assert_uint_eq(fk.connections, 1); /* the connection of `ep` */
    fails(ual_reject(request.request, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, request.request), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, ual_handle_of(other)), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(other, 0), ITAL_ERR_INVALID_HANDLE);
    fails(ual_reject(0, NULL, 0), ITAL_ERR_INVALID_HANDLE);
}
END_TEST

static ual_handle claimed;
static struct ual_ep *second;

static void decide_again(void)
{
    fk.during_accept = NULL;
    fails(ual_reject(claimed, NULL, 0), ITAL_ERR_INVALID_HANDLE);
    fails(accept_it(second, claimed), ITAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_eq(ual_request_ia(claimed), ia); /* not decided yet */
}

START_TEST(requests_are_decided_by_one)
{
    claimed = ask().request;
    second = make_ep();
    fk.during_accept = decide_again;
    fk_fail(FK_ACCEPT, RI_ERR_NO_RESOURCES);
    fails(accept_it(ep, claimed), RI_ERR_NO_RESOURCES);
    ck_assert_ptr_null(fk.during_accept);
    ok(accept_it(second, claimed)); /* available again */
}
END_TEST

static void peer_ends_meanwhile(void)
{
    fk.during_accept = NULL;
    tell(RI_CONNECTION_FAILED);
    fk_drain();
}

/* The attempt ends with a message while the call is inside kal: the call then succeeds, and the end
 * is reported once. */
START_TEST(end_during_accept)
{
    struct ual_request_event request = ask();

    fk.during_accept = peer_ends_meanwhile;
    fk_fail(FK_ACCEPT, RI_ERR_NO_RESOURCES);
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

    fk_fail(FK_ACCEPT, RI_ERR_NO_RESOURCES);
    fails(accept_it(ep, request.request), RI_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_UNCONNECTED);
    fk_fail(FK_REJECT, RI_ERR_NO_RESOURCES);
    fails(ual_reject(request.request, NULL, 0), RI_ERR_NO_RESOURCES);
    fails(ual_ep_accept(ep, request.request, true, data, 509), RI_ERR_LIMIT);
    fails(ual_ep_accept(ep, request.request, true, NULL, 1), RI_ERR_INVALID_ARGUMENT);
    fails(ual_reject(request.request, data, 509), RI_ERR_LIMIT);
    fails(ual_reject(request.request, NULL, 1), RI_ERR_INVALID_ARGUMENT);
    ok(connect_to(ep, false));
    fails(accept_it(ep, request.request), RI_ERR_INVALID_STATE);
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
    fk_drain();
    if (_i == 1)
        ck_assert_ptr_null(ual_request_ia(request.request));
    fails(_i == 2 ? ual_reject(request.request, NULL, 0) : accept_it(ep, request.request),
          ITAL_ERR_INVALID_HANDLE);
    ck_assert_ptr_null(ual_request_ia(request.request));
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert(tc_until(fk_connections() == 0, 10000));
    expect_nothing(connect_evd);
}
END_TEST

/* Requests for which the EVD has no room wait in kal, and appear as it is dequeued: none is lost,
 * no overflow. */
START_TEST(full_request_evd)
{
    static const char names[] = "0123456789";
    struct ual_event event;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 10; i++)
            fk_request(fk.listener,
                       &(struct ri_connect_request){ .size = sizeof(struct ri_connect_request),
                                                     .private_data = names + i,
                                                     .private_data_length = 1 });
        fk_drain();
        ck_assert_uint_eq(fk.waiting, 6); /* no identifier, no connection in ual */
        ck_assert_uint_eq(fk_connections(), 4);
        ck_assert(!ual_evd_overflowed(request_evd));
        for (int i = 0; i < 10; i++) {
            event = next_event(request_evd);
            fk_drain();
            ck_assert_uint_eq(event.request.private_data[0], names[i]);
            ck_assert_uint_eq(fk.waiting, i < 6 ? 5 - i : 0);
            ok(ual_reject(event.request.request, NULL, 0));
        }
        expect_nothing(request_evd);
        ck_assert_uint_eq(fk_connections(), 0);
    }
    ask();
}
END_TEST

/* Undecided requests take no room in the EVD: what was dequeued may stay undecided. */
START_TEST(undecided_requests_take_no_room)
{
    struct ri_connect_request request = { .size = sizeof(request) };
    struct ual_event events[9];

    for (int i = 0; i < 9; i++) {
        fk_request(fk.listener, &request);
        fk_drain();
        events[i] = next_event(request_evd);
    }
    ck_assert_uint_eq(fk.waiting, 0);
    ck_assert_uint_eq(fk_connections(), 9);
    for (int i = 0; i < 9; i++)
        ok(ual_reject(events[i].request.request, NULL, 0));
}
END_TEST

/* Two listen points on one EVD: the one that waits gets room, also if it is the younger one. */
START_TEST(full_request_evd_of_two)
{
    struct ri_connect_request request = { .size = sizeof(request) };
    struct sockaddr_in here = { .sin_family = AF_INET };
    struct ual_listen *younger;
    struct ual_event event;

    for (int i = 0; i < 4; i++)
        fk_request(fk.listener, &request);
    fk_drain();
    ok(ual_listen_create(ia, 0, request_evd, (struct sockaddr *)&here, true, NULL, &younger));
    fk_request(fk.listener, &request); /* that of the second */
    fk_drain();
    ck_assert_uint_eq(fk.waiting, 1);
    for (int i = 0; i < 5; i++) {
        event = next_event(request_evd);
        fk_drain();
        ck_assert_uint_eq(event.request.listen == ual_handle_of(younger), i == 4);
        ok(ual_reject(event.request.request, NULL, 0));
    }
    ok(ual_listen_free(younger));
}
END_TEST

/* The last messages of an endpoint have room, however small the EVD is and whatever it has
 * queued. */
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
    fk_drain();
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

START_TEST(three_way)
{
    ual_handle arrived = arrive();
    struct ual_ep *other = make_ep();

    fails(accept_it(other, arrived), ITAL_ERR_INVALID_HANDLE);
    fk_fail(FK_CONFIRM, RI_ERR_NO_RESOURCES);
    fails(accept_it(ep, arrived), RI_ERR_NO_RESOURCES);
    ok(accept_it(ep, arrived));
    fails(accept_it(ep, arrived), ITAL_ERR_INVALID_HANDLE);
    ck_assert_uint_eq(fk.confirms, 1);
    fk_establish(fk.connection);
    expect(connect_evd, UAL_ESTABLISHED);
    expect_state(ep, UAL_EP_CONNECTED);
}
END_TEST

START_TEST(three_way_rejected)
{
    ual_handle arrived = arrive();

    fk_fail(FK_REJECT, RI_ERR_NO_RESOURCES);
    fails(ual_reject(arrived, NULL, 0), RI_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_ACTIVE2);
    ok(ual_reject(arrived, NULL, 0));
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    fails(ual_reject(arrived, NULL, 0), ITAL_ERR_INVALID_HANDLE);
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
    fails(ual_reject(arrived, NULL, 0), ITAL_ERR_INVALID_HANDLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");
    TCase *set_up = tc_case(suite, "set-up", open_ia, close_ia);

    tc_add_tests(set_up, active, bad_connects, connect_that_does_not_start);
    tcase_add_loop_test(set_up, refused, 0, 3);
    tc_add_tests(set_up, long_private_data, passive, passive_peer_speaks_first);
    tcase_add_loop_test(set_up, passive_ends_before_first_message, 0, 3);
    tc_add_tests(set_up, requests_work_once, requests_are_decided_by_one, end_during_accept,
                 requests_survive_failures);
    tcase_add_loop_test(set_up, withdrawn, 0, 3);
    tc_add_tests(set_up, full_request_evd, undecided_requests_take_no_room, full_request_evd_of_two,
                 full_connection_evd, suppressed_depths, three_way, three_way_rejected);
    tcase_add_loop_test(set_up, three_way_ends, 0, 3);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Socket conversion over a fake kal: what ual passes on, the states of both roles, calls that fail,
 * every outcome of a conversion that has begun.
 */
#include "ia_fixture.h"

#include "base/clock.h"

static void open_converting(void)
{
    fk_reset();
    fk.attr.features |= RI_FEATURE_CONNECTION_SET_B;
    open_adapter();
    ep = make_ep();
}

static struct ual_convert as(bool initiator)
{
    return (struct ual_convert){
        .fd = 42,
        .initiator = initiator,
        .startup_frames = true,
        .message = initiator ? NULL : "login ok",
        .message_length = initiator ? 0 : 8,
        .timeout_us = UINT64_MAX,
    };
}

static enum ri_status convert(bool initiator)
{
    struct ual_convert how = as(initiator);

    return ual_ep_convert(ep, &how);
}

static enum ual_ep_state pending(bool initiator)
{
    return initiator ? UAL_EP_ACTIVE1 : UAL_EP_PASSIVE_WAIT_REQUEST;
}

START_TEST(what_is_passed_on)
{
    struct ual_convert how = as(_i);

    how.octets_read = _i ? NULL : "MPA";
    how.octets_read_length = _i ? 0 : 3;
    ok(ual_ep_convert(ep, &how));
    expect_state(ep, pending(_i));
    ck_assert_int_eq(fk.converted.fd, 42);
    ck_assert_int_eq(fk.converted.initiator, _i);
    ck_assert(fk.converted.startup_frames);
    ck_assert_uint_eq(fk.converted.last_message_length, _i ? 0 : 8);
    ck_assert_uint_eq(fk.converted.octets_read_length, _i ? 0 : 3);
    ck_assert_uint_eq(fk.converted.ird, 3);
    ck_assert_uint_eq(fk.converted.ord, 4);
    ck_assert_uint_eq(fk.converted.deadline, RI_NO_DEADLINE);
    ck_assert_ptr_eq(fk.connection->qp, fk.qp);
}
END_TEST

START_TEST(its_own_time_out)
{
    struct ual_convert how = as(true);
    uint64_t before = clock_now();

    how.timeout_us = 1000;
    ok(ual_ep_convert(ep, &how));
    ck_assert_uint_ge(fk.converted.deadline, before + 1000 * CLOCK_NS_PER_US);
    ck_assert_uint_le(fk.converted.deadline, clock_now() + 1000 * CLOCK_NS_PER_US);
}
END_TEST

/* Addresses and depths are those of the socket and of the endpoint; it ends like any connection. */
START_TEST(established_and_ended)
{
    struct sockaddr_in here = address(99), there = address(77);
    struct sockaddr_storage local, peer;
    struct ual_connection_event got;

    ok(convert(_i));
    memcpy(&fk.connection->info.local, &here, sizeof(here));
    memcpy(&fk.connection->info.peer, &there, sizeof(there));
    fk_establish(fk.connection);
    got = expect(connect_evd, UAL_ESTABLISHED);
    ck_assert_uint_eq(got.request, 0);
    ck_assert(!got.depths_valid);
    ck_assert_uint_eq(ep->ord, 4);
    expect_state(ep, UAL_EP_CONNECTED);
    ok(ual_ep_addresses(ep, &local, &peer));
    ck_assert_uint_eq(((struct sockaddr_in *)&local)->sin_port, htons(99));
    ck_assert_uint_eq(((struct sockaddr_in *)&peer)->sin_port, htons(77));
    fails(convert(_i), RI_ERR_INVALID_STATE);
    ok(ual_ep_disconnect(ep, NULL, 0));
    ck_assert_uint_eq(fk.disconnects, 1);
    fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
    expect(connect_evd, UAL_DISCONNECTED);
    ok(ual_ep_reset(ep));
    ok(convert(!_i)); /* a second conversion, in the other role */
}
END_TEST

START_TEST(calls_that_fail)
{
    static const struct {
        enum fk_call call;
        enum ri_status status;
    } table[] = {
        { FK_CONNECTION_CREATE, RI_ERR_NO_RESOURCES },
        { FK_CONVERT, RI_ERR_INVALID_ARGUMENT },
        { FK_CONVERT, RI_ERR_PERMISSION },
        { FK_CONVERT, RI_ERR_UNREACHABLE },
        { FK_CONVERT, RI_ERR_LIMIT },
        { FK_CONVERT, ITAL_ERR_QUOTA },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        fk_fail(table[i].call, table[i].status);
        fails(convert(i & 1), table[i].status);
        expect_state(ep, UAL_EP_UNCONNECTED);
        ck_assert_uint_eq(fk.connections, 0);
    }
    expect_nothing(connect_evd);
    establish(ep); /* the endpoint can still be used */
}
END_TEST

START_TEST(where_there_is_none)
{
    fails(convert(true), RI_ERR_NOT_SUPPORTED);
    expect_state(ep, UAL_EP_UNCONNECTED);
}
END_TEST

START_TEST(on_a_dead_adapter)
{
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    fails(convert(true), RI_ERR_DEVICE);
}
END_TEST

static const struct {
    enum ri_connection_event_type type;
    enum ri_connection_reason reason;
    enum ual_connection_message message;
} ends[] = {
    { RI_CONNECTION_FAILED, RI_REASON_TIMEOUT, UAL_NONPEER_REJECTED },
    { RI_CONNECTION_FAILED, RI_REASON_PROTOCOL, UAL_NONPEER_REJECTED },
    { RI_CONNECTION_REJECTED, RI_REASON_OTHER, UAL_PEER_REJECTED },
};

START_TEST(fails_later)
{
    bool initiator = _i & 1;
    struct ri_connection_event event = news(ends[_i / 2].type);
    struct ri_recv_wr receive = { .cookie = 77 };
    struct ual_connection_event got;

    ok(ual_post_recv(ep, &receive));
    ok(convert(initiator));
    fails(convert(initiator), RI_ERR_INVALID_STATE);
    fails(connect_to(ep, false), RI_ERR_INVALID_STATE);
    fails(ual_ep_reset(ep), RI_ERR_INVALID_STATE);
    event.reason = ends[_i / 2].reason;
    fk_connection_event(fk.connection, &event);
    got = expect(connect_evd, ends[_i / 2].message);
    ck_assert_int_eq(got.reason, ends[_i / 2].reason);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED);
    expect_nothing(connect_evd);
    ok(ual_ep_reset(ep));
    ck_assert_uint_eq(fk.connections, 0);
}
END_TEST

/* The responder of revision 2 in the peer-to-peer model gets ESTABLISHED with the peer's first
 * FPDU. */
START_TEST(established_by_the_queue_pair)
{
    ok(convert(false));
    fk.qp->state = RI_QPS_RTS;
    fk_qp_event(fk.qp, RI_EVENT_ESTABLISHED, 0);
    expect(connect_evd, UAL_ESTABLISHED);
    expect_state(ep, UAL_EP_CONNECTED);
    fk_end(fk.qp, RI_EVENT_LLP_RESET);
    expect(connect_evd, UAL_BROKEN);
}
END_TEST

START_TEST(abandoned)
{
    bool initiator = _i & 1;

    ok(convert(initiator));
    switch (_i / 2) {
    case 0:
        ok(ual_ep_disconnect(ep, NULL, 0));
        expect(connect_evd, UAL_DISCONNECTED);
        expect_state(ep, UAL_EP_NONOPERATIONAL);
        ck_assert_uint_eq(fk.connections, 0);
        break;
    case 1: ok(ual_ep_free(ep)); break;
    case 2: break; /* it_ia_free, by the fixture */
    }
    expect_nothing(connect_evd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ual, socket conversion");
    TCase *t = tc_case(suite, "convert", open_converting, close_ia);

    tcase_add_loop_test(t, what_is_passed_on, 0, 2);
    tcase_add_test(t, its_own_time_out);
    tcase_add_loop_test(t, established_and_ended, 0, 2);
    tc_add_tests(t, calls_that_fail, on_a_dead_adapter);
    tcase_add_test(tc_case(suite, "without", open_ia, close_ia), where_there_is_none);
    tcase_add_loop_test(t, fails_later, 0, 6);
    tcase_add_test(t, established_by_the_queue_pair);
    tcase_add_loop_test(t, abandoned, 0, 6);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of ual over a fake kal, their end: by the peer, by this side; disconnect, reset and
 * free in every state.
 */
#include "ia_fixture.h"

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
    fk_end(fk.qp, RI_EVENT_LLP_RESET); /* late and second: not reported */
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
    ck_assert_uint_eq(fk.connection->private_data_length, 0); /* it has no place for private data */
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    fails(ual_ep_disconnect(ep, NULL, 0), RI_ERR_INVALID_STATE);
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
    static const uint16_t codes[] = { 0x0100, 0x0102, 0x1101, 0x1201, 0x1202, 0x1205, 0x2002 };
    struct ual_event event;
    bool explained = _i % 2;

    establish(ep);
    fk_qp_post(fk.qp, &(struct ri_event){ .size = sizeof(struct ri_event),
                                          .type = RI_EVENT_TERMINATE_RECEIVED,
                                          .terminate_code = codes[_i / 2],
                                          .explained = explained });
    expect(connect_evd, UAL_BROKEN);
    if (!explained) { /* no completion explains it */
        event = next_event(affiliated_evd);
        ck_assert_int_eq(event.async.type, RI_EVENT_TERMINATE_RECEIVED);
        ck_assert_uint_eq(event.async.terminate_code, codes[_i / 2]);
    }
    expect_nothing(affiliated_evd);
}
END_TEST

/* One line at level warning names the peer and the reason; an end that this side requested is not
 * logged as a warning. */
static const struct {
    struct ri_event event;
    bool disconnected; /* this side, before the end */
    unsigned int warnings;
    const char *says;
} logged_ends[] = {
    { { .type = RI_EVENT_READ_ACCESS, .terminate_code = 0x1201, .detail = "no Reads here" },
      false,
      1,
      "no Reads here, Terminate 0x1201" },
    { { .type = RI_EVENT_TERMINATE_RECEIVED, .terminate_code = 0x1202, .detail = "no receive" },
      false,
      1,
      "the peer reports: no receive, Terminate 0x1202" },
    { { .type = RI_EVENT_LLP_LOST, .detail = "%s%n" }, false, 1, "%s%n" },
    { { .type = RI_EVENT_LLP_LOST }, false, 0, NULL },
    { { .type = RI_EVENT_LLP_CLOSED, .detail = "in order" }, false, 0, NULL },
    { { .type = RI_EVENT_LLP_RESET, .detail = "aborted by the consumer" }, true, 0, NULL },
    { { .type = RI_EVENT_QP_RQ_LIMIT_REACHED, .detail = "no end" }, false, 0, NULL },
};
#define LOGGED_ENDS ((int)(sizeof(logged_ends) / sizeof(logged_ends[0])))

START_TEST(why_it_ended_is_logged)
{
    struct ri_event event = logged_ends[_i].event;

    event.size = sizeof(event);
    establish(ep);
    fk.logged[RI_LOG_WARNING] = 0;
    if (logged_ends[_i].disconnected)
        ok(ual_ep_disconnect(ep, NULL, 0));
    fk_qp_post(fk.qp, &event);
    event =
        (struct ri_event){ .size = sizeof(event), .type = RI_EVENT_LLP_RESET, .detail = "late" };
    fk_qp_post(fk.qp, &event);
    next_event(connect_evd);
    fk_drain();
    if (logged_ends[_i].event.type ==
        RI_EVENT_QP_RQ_LIMIT_REACHED) { /* the next event is the end */
        ck_assert_uint_eq(fk.logged[RI_LOG_WARNING], 1);
        ck_assert_ptr_nonnull(strstr(fk.last_line, "late"));
        return;
    }
    ck_assert_uint_eq(fk.logged[RI_LOG_WARNING], logged_ends[_i].warnings);
    if (logged_ends[_i].says) {
        ck_assert_msg(strstr(fk.last_line, logged_ends[_i].says) != NULL, "%s", fk.last_line);
        ck_assert_msg(strstr(fk.last_line, "127.0.0.1:") != NULL, "%s", fk.last_line);
    }
}
END_TEST

START_TEST(affiliated_alone)
{
    struct ual_event event;

    establish(ep);
    fk_qp_event(fk.qp, RI_EVENT_QP_RQ_LIMIT_REACHED, 0);
    event = next_event(affiliated_evd);
    ck_assert_int_eq(event.async.type, RI_EVENT_QP_RQ_LIMIT_REACHED);
    expect_state(ep, UAL_EP_CONNECTED);
    expect_nothing(connect_evd);
}
END_TEST

START_TEST(disconnect_that_cannot_start)
{
    establish(ep);
    fk_fail(FK_DISCONNECT, RI_ERR_NO_RESOURCES);
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
        fails(ual_ep_disconnect(ep, NULL, 0), RI_ERR_INVALID_STATE);
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
    default: fails(ual_ep_reset(ep), RI_ERR_INVALID_STATE); return;
    }
    ck_assert_int_eq(next_event(dto_evd).wc.status, RI_WC_FLUSHED); /* not lost */
    expect_state(ep, UAL_EP_UNCONNECTED);
    ck_assert_uint_eq(fk.connections, 0);
    expect_nothing(connect_evd);
    establish(ep);
}
END_TEST

START_TEST(reset_that_fails)
{
    go(IN_NONOPERATIONAL);
    fk_fail(FK_QP_IDLE, RI_ERR_NO_RESOURCES);
    fails(ual_ep_reset(ep), RI_ERR_NO_RESOURCES);
    expect_state(ep, UAL_EP_NONOPERATIONAL);
    ok(ual_ep_reset(ep));
    expect_state(ep, UAL_EP_UNCONNECTED);
}
END_TEST

START_TEST(free_everywhere)
{
    ual_handle handle = ual_handle_of(ep);

    go((enum where)_i);
    /* comes before the free or not at all: nothing remains */
    if (fk.connection)
        tell(RI_CONNECTION_FAILED);
    fk_qp_event(fk.qp, RI_EVENT_INTEGRITY, 0);
    ok(ual_ep_free(ep));
    ck_assert_ptr_null(ual_lookup_any(handle));
    ck_assert_uint_eq(fk.qps, 0);
    ck_assert_uint_eq(fk.connections, 0);
    expect_nothing(connect_evd);
    expect_nothing(affiliated_evd);
    ok(ual_evd_free(connect_evd));
    ok(ual_pd_free(pz));
}
END_TEST

START_TEST(free_purges_queued_messages)
{
    struct ual_ep *other = make_ep();
    struct ual_connection_event got;

    establish(other);
    fk_end(fk.qp, RI_EVENT_INTEGRITY);
    fk_drain();
    ok(ual_ep_free(other));
    expect_nothing(affiliated_evd);
    ok(connect_to(ep, false));
    tell(RI_CONNECTION_FAILED);
    got = expect(connect_evd, UAL_NONPEER_REJECTED); /* the first event is of `ep` */
    ck_assert_uint_eq(got.ep, ual_handle_of(ep));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ends of connections");
    TCase *end = tc_case(suite, "ends", open_ia, close_ia);

    tc_add_loops(end, 0, ENDS, peer_ends, own_disconnect);
    tcase_add_loop_test(end, explained_terminates, 0, 14);
    tcase_add_loop_test(end, why_it_ended_is_logged, 0, LOGGED_ENDS);
    tc_add_tests(end, affiliated_alone, disconnect_that_cannot_start);
    tcase_add_loop_test(end, providers_own_manager, 0, 2);
    tc_add_loops(end, 0, WHERES, disconnect_everywhere, reset_everywhere);
    tcase_add_test(end, reset_that_fails);
    tcase_add_loop_test(end, free_everywhere, 0, WHERES);
    tcase_add_test(end, free_purges_queued_messages);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints that wait for a peer: PASSIVE between the Reply and the first FPDU, ACTIVE1 between the
 * Request and the Reply. The peer delays every octet, leaves, or sends what does not belong there;
 * or the consumer gives up. What the octets of a start-up mean: the other test_startup programs.
 */
#include "startup_fixture.h"

#include <poll.h>

static const struct waiting {
    it_ep_state_rc_t state;
    bool passive;
} waiting[] = {
    { IT_EP_STATE_PASSIVE_CONNECTION_PENDING, true },
    { IT_EP_STATE_ACTIVE1_CONNECTION_PENDING, false },
};
#define WAITING (int)(sizeof(waiting) / sizeof(waiting[0]))

static void open_for(const struct waiting *w, const char *options)
{
    if (w->passive)
        fixture_passive(options);
    else
        fixture_active(options);
}

/* One Receive is posted before (cookie 1) and one in the state (cookie 2). */
static void enter(const struct waiting *w)
{
    if (w->passive) {
        ask(enhanced(REQUEST, F_C, W_A | 4, W_C | W_D | 4, ""));
        accept_it("");
        hear(fixture.fd, enhanced(REPLY, F_C, W_A | DEPTH, W_D | 4, ""));
    } else {
        connect_it("");
    }
    post_receive(2);
    ck_assert_int_eq(node_state(fixture.node.ep), w->state);
}

/* What the peer has to send for the connection to be there. */
static struct octets awaited(const struct waiting *w)
{
    return w->passive ? write0_fpdu() : enhanced(REPLY, F_C, W_A | DEPTH, W_D | DEPTH, "");
}

static void expect_flushed(void)
{
    for (it_dto_cookie_t cookie = 1; cookie <= 2; cookie++)
        expect_done(fixture.node.receives, IT_DTO_RC_RECV_CMPL_EVENT, cookie, IT_DTO_ERR_FLUSHED);
}

/* One event says so; after a reset the same endpoint connects to a peer that keeps the rules. */
static void expect_over(const struct waiting *w, it_event_type_t number)
{
    it_ep_handle_t ep = fixture.node.ep;

    ck_assert_ptr_eq(expect(fixture.node.connections, number).conn.ep, ep);
    ck_assert_int_eq(node_state(ep), IT_EP_STATE_NONOPERATIONAL);
    expect_flushed();
    expect_no_event(fixture.node.connections);
    expect_no_event(fixture.node.affiliated);
    ok(it_ep_reset(ep));
    ck_assert_int_eq(node_state(ep), IT_EP_STATE_UNCONNECTED);
    if (w->passive) {
        close(fixture.fd);
        ask(request(F_C, 1, ""));
        ok(it_ep_accept(ep, fixture.asked.conn_req.cn_est_id, NULL, 0));
        hear(fixture.fd, reply(F_C, 1, ""));
        expect_established();
    }
}

/* ---- the peer takes its time ---- */

START_TEST(every_octet_is_late)
{
    const struct waiting *w = &waiting[_i];
    struct octets last = awaited(w);

    open_for(w, "");
    enter(w);
    for (size_t i = 0; i < last.length; i++) {
        ck_assert_int_eq(node_state(fixture.node.ep), w->state);
        expect_no_event(fixture.node.connections);
        is(IT_ERR_INVALID_EP_STATE, it_post_send(fixture.node.ep, NULL, 0, 9, BOTH));
        say(fixture.fd, part(last, i, 1));
        until_read(fixture.fd);
    }
    expect_established();
    expect_no_event(fixture.node.connections);
}
END_TEST

START_TEST(calls_that_do_not_belong_there)
{
    const struct waiting *w = &waiting[_i];
    it_ep_attributes_t attributes = { .srv.rc.rdma_read_ord = 1 };
    it_cn_est_identifier_t answered;

    open_for(w, "");
    enter(w);
    answered = w->passive ? fixture.asked.conn_req.cn_est_id : 1;
    is(IT_ERR_INVALID_CN_EST_ID, it_ep_accept(fixture.node.ep, answered, NULL, 0));
    is(IT_ERR_INVALID_CN_EST_ID, it_reject(answered, NULL, 0));
    is(IT_ERR_CANNOT_RESET, it_ep_reset(fixture.node.ep));
    is(IT_ERR_INVALID_EP_STATE, it_ep_modify(fixture.node.ep, IT_EP_PARAM_MAX_ORD, &attributes));
    is(IT_ERR_INVALID_EP_STATE, it_post_send(fixture.node.ep, NULL, 0, 9, BOTH));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_write(fixture.node.ep, NULL, 0, 9, BOTH, 0, 0));
    is(IT_ERR_INVALID_EP_STATE, it_post_rdma_read(fixture.node.ep, NULL, 0, 9, BOTH, 0, 0));
    ck_assert_int_eq(node_state(fixture.node.ep), w->state);
    hear_nothing(fixture.fd); /* the peer notices none of them */
    say(fixture.fd, awaited(w));
    expect_established();
}
END_TEST

/* ---- the peer leaves ---- */

/* Rounds: by state, FIN or RST, with the octets of the awaited message sent or not. */
START_TEST(peer_leaves)
{
    const struct waiting *w = &waiting[_i / 4];
    struct octets most = awaited(w);

    /* Behind a FIN the active side asks once more, by revision 1. */
    open_for(w, w->passive ? "" : "connect_timeout = 1500ms\n");
    enter(w);
    if (_i & 1) {
        say(fixture.fd, part(most, 0, most.length - 1));
        until_read(fixture.fd);
    }
    if (_i & 2)
        reset(&fixture.fd);
    else
        say_last(fixture.fd, nothing());
    expect_over(w, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
}
END_TEST

START_TEST(peer_says_nothing)
{
    const struct waiting *w = &waiting[_i];

    open_for(w, w->passive ? "request_timeout = 150ms\n" : "connect_timeout = 300ms\n");
    enter(w);
    expect_over(w, IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
}
END_TEST

/* ---- the peer sends something else ---- */

static struct octets with_octet(struct octets what, size_t at, uint8_t value)
{
    what.at[at] = value;
    return what;
}

#define WRONG_FRAMES 8

static struct octets wrong_frame(int which)
{
    struct octets ulpdu = tagged(OP_WRITE, 0, 0, NULL, 0);

    switch (which) {
    case 0: return request(F_C, 1, ""); /* its length of an FPDU is "MP" */
    case 1: return octets("GET / HTTP/1.1\r\nHost: here\r\nAccept: everything\r\n\r\n", 50);
    case 2: return terminate_fpdu(0x2007);
    case 3: return with_octet(write0_fpdu(), 19, 0xff); /* the CRC is wrong */
    case 4: return fpdu("", 0);
    case 5: return fpdu(ulpdu.at, 5); /* shorter than a header */
    case 6: ulpdu.at[0] ^= 3; break;  /* DDP's version */
    default: ulpdu.at[1] = 0x4f;      /* an opcode that is none */
    }
    return fpdu(ulpdu.at, ulpdu.length);
}

START_TEST(passive_hears_a_wrong_frame)
{
    fixture_passive("");
    enter(&waiting[0]);
    say_last(fixture.fd, wrong_frame(_i));
    expect_over(&waiting[0], IT_CM_MSG_CONN_NONPEER_REJECT_EVENT);
}
END_TEST

/* ---- the consumer gives up ---- */

START_TEST(consumer_disconnects)
{
    const struct waiting *w = &waiting[_i];

    open_for(w, "");
    enter(w);
    ok(it_ep_disconnect(fixture.node.ep, NULL, 0));
    hear_end(fixture.fd);
    is(IT_ERR_INVALID_EP_STATE, it_ep_disconnect(fixture.node.ep, NULL, 0));
    expect_over(w, IT_CM_MSG_CONN_DISCONNECT_EVENT);
}
END_TEST

START_TEST(consumer_frees)
{
    const struct waiting *w = &waiting[_i];

    open_for(w, "");
    enter(w);
    ok(it_ep_free(fixture.node.ep));
    fixture.node.ep = NULL;
    hear_end(fixture.fd);
    expect_no_event(fixture.node.connections);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("endpoints that wait for a peer");
    TCase *tc = tc_case(suite, "states", NULL, fixture_close);

    tc_add_loops(tc, 0, WAITING, every_octet_is_late, calls_that_do_not_belong_there);
    tcase_add_loop_test(tc, peer_leaves, 0, 4 * WAITING);
    tcase_add_loop_test(tc, peer_says_nothing, 0, WAITING);
    tcase_add_loop_test(tc, passive_hears_a_wrong_frame, 0, WRONG_FRAMES);
    tc_add_loops(tc, 0, WAITING, consumer_disconnects, consumer_frees);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every cell of the endpoint's table (ual/policy/ep_fsm.c) that can be asked for, on an endpoint
 * that stands in that state: by the consumer's call, or by news from a connection or a QP of the
 * fake kal. The table says what has to come of it; test_ep_fsm holds the table against the
 * specification. A row that nobody walks has to stand in `rows_left`, with its reason.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "datagrams.h"

#include <stdio.h>

static struct ual_ep *walker; /* ep or ud */

static enum ep_fsm_state state_now(void)
{
    struct ual_ep_private *inside = ual_ep_inside(walker);
    enum ep_fsm_state state;

    spinlock_lock(&inside->lock);
    state = inside->state;
    spinlock_unlock(&inside->lock);
    return state;
}

/* --- into a state --- */

static bool is_ud_state(enum ep_fsm_state state)
{
    return state == EP_UD_OPERATIONAL || state == EP_UD_NONOPERATIONAL;
}

static void open_for(enum ep_fsm_state state)
{
    fk_reset();
    fk.attr.features |= RI_FEATURE_UD | RI_FEATURE_CONNECTION_SET_B;
    fk.attr.max_ud_send = 1000;
    open_adapter();
    ep = make_ep();
    walker = ep;
    if (is_ud_state(state)) {
        ok(create_ud(&ud));
        walker = ud;
    }
}

static enum ual_status convert(bool initiator)
{
    struct ual_convert how = {
        .fd = 42,
        .initiator = initiator,
        .startup_frames = true,
        .message = initiator ? NULL : "login ok",
        .message_length = initiator ? 0 : 8,
        .timeout_us = UINT64_MAX,
    };

    return ual_ep_convert(ep, &how);
}

/* ACTIVE2 not: apply() takes the endpoint there, for the identifier. */
static void bring(enum ep_fsm_state state)
{
    switch (state) {
    case EP_UNCONNECTED:
    case EP_UD_OPERATIONAL:
    case EP_ACTIVE2: break;
    case EP_ACTIVE1: ok(connect_to(ep, false)); break;
    case EP_PASSIVE: ok(accept_it(ep, ask().request)); break;
    case EP_CONNECTED: establish(ep); break;
    case EP_NONOPERATIONAL:
        establish(ep);
        fk_end(fk.qp, RI_EVENT_LLP_CLOSED);
        expect(connect_evd, UAL_DISCONNECTED);
        break;
    case EP_WAIT_REQUEST: ok(convert(false)); break;
    case EP_DISCONNECTING:
        establish(ep);
        ok(ual_ep_disconnect(ep, NULL, 0));
        break;
    case EP_UD_NONOPERATIONAL:
        fk_qp_event(fk.qp, RI_EVENT_QP_FATAL, 0);
        fk_drain();
        break;
    case EP_FSM_STATES: break;
    }
}

/* --- what happens to it there --- */

struct asked {
    bool possible;
    bool refusable; /* a call, with its answer */
    enum ual_status status;
};

static struct asked called(enum ual_status status)
{
    return (struct asked){ true, true, status };
}

static struct asked accept_a_request(void)
{
    struct ual_request_event request = ask();
    enum ual_status status = accept_it(ep, request.request);

    if (status != UAL_OK)
        ok(ual_reject(request.request, NULL, 0));
    return called(status);
}

/* The QP does not go back to IDLE: the row of the call, without the one of its outcome. */
static struct asked reset_in_vain(void)
{
    const struct ep_row *row = ep_fsm_step(state_now(), EP_RESET);
    enum ual_status status;

    fk_fail(FK_QP_IDLE, KAL_ERR_NO_RESOURCES);
    status = ual_ep_reset(walker);
    if (row)
        fails(status, UAL_ERR_NO_RESOURCES);
    else
        fk_fail(FK_QP_IDLE, KAL_OK);
    return called(row ? UAL_OK : status);
}

static struct asked news_of_connection(enum ep_fsm_state state, enum ri_connection_event_type type)
{
    if (state == EP_UNCONNECTED || is_ud_state(state))
        return (struct asked){ 0 };
    tell(type);
    fk_drain();
    return (struct asked){ .possible = true };
}

static struct asked news_of_qp(enum ep_fsm_state state)
{
    fk_qp_event(fk.qp, is_ud_state(state) ? RI_EVENT_QP_FATAL : RI_EVENT_LLP_RESET, 0);
    fk_drain();
    return (struct asked){ .possible = true };
}

/* A call that the provider refuses at once takes the endpoint there and back. */
static struct asked not_started(enum ep_fsm_state state)
{
    if (state == EP_ACTIVE1) {
        fk_fail(FK_CONNECT, KAL_ERR_NO_RESOURCES);
        fails(connect_to(ep, false), UAL_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    if (state == EP_PASSIVE) {
        struct ual_request_event request = ask();

        fk_fail(FK_ACCEPT, KAL_ERR_NO_RESOURCES);
        fails(accept_it(ep, request.request), UAL_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    if (state == EP_WAIT_REQUEST) {
        fk_fail(FK_CONVERT, KAL_ERR_NO_RESOURCES);
        fails(convert(false), UAL_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    return (struct asked){ 0 };
}

static struct asked call(enum ep_fsm_state state, enum ep_stimulus stimulus, ual_handle arrived)
{
    bool ud_state = is_ud_state(state);

    switch (stimulus) {
    case EP_CONNECT: return ud_state ? (struct asked){ 0 } : called(connect_to(ep, false));
    case EP_ACCEPT: return ud_state ? (struct asked){ 0 } : accept_a_request();
    case EP_CONFIRM: return arrived ? called(accept_it(ep, arrived)) : (struct asked){ 0 };
    case EP_REJECT: return arrived ? called(ual_reject(arrived, NULL, 0)) : (struct asked){ 0 };
    case EP_DISCONNECT:
        return ud_state ? (struct asked){ 0 } : called(ual_ep_disconnect(ep, NULL, 0));
    case EP_CONVERT_INITIATE:
    case EP_CONVERT_RESPOND:
        return ud_state ? (struct asked){ 0 } : called(convert(stimulus == EP_CONVERT_INITIATE));
    case EP_RESET: return reset_in_vain();
    case EP_RESET_DONE:
        return ep_fsm_step(state, EP_RESET) ? called(ual_ep_reset(walker)) : (struct asked){ 0 };
    default: return (struct asked){ 0 };
    }
}

static struct asked apply(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    ual_handle arrived = state == EP_ACTIVE2 ? arrive() : 0;

    ck_assert_int_eq(state_now(), state);
    switch (stimulus) {
    case EP_ACCEPT_ARRIVED: return news_of_connection(state, RI_CONNECTION_ACCEPTED);
    case EP_ESTABLISHED: return news_of_connection(state, RI_CONNECTION_ESTABLISHED);
    case EP_PEER_REJECTED: return news_of_connection(state, RI_CONNECTION_REJECTED);
    case EP_FAILED: return news_of_connection(state, RI_CONNECTION_FAILED);
    case EP_ENDED: return news_of_connection(state, RI_CONNECTION_DISCONNECTED);
    case EP_BROKEN: return news_of_qp(state);
    default: return call(state, stimulus, arrived);
    }
}

/* --- what the table says of it --- */

static void expect_row(enum ep_fsm_state state, enum ep_stimulus stimulus,
                       const struct asked *asked)
{
    const struct ep_row *row = ep_fsm_step(state, stimulus), *behind = NULL;

    if (asked->refusable)
        fails(asked->status, row ? UAL_OK : UAL_ERR_INVALID_STATE);
    if (row && (row->work & EP_ABORT)) /* the attempt ends inside the call */
        behind = ep_fsm_step(row->next, EP_ABORTED);
    if (row && row->message)
        expect(connect_evd, row->message);
    if (row && stimulus == EP_RESET_DONE && ep_fsm_step(state, EP_RESET)->message)
        expect(connect_evd, ep_fsm_step(state, EP_RESET)->message);
    if (behind)
        expect(connect_evd, behind->message);
    expect_nothing(connect_evd);
    ck_assert_int_eq(state_now(), behind ? behind->next : row ? row->next : state);
    ck_assert_int_eq(atomic_load(&walker->state), ep_fsm_public(state_now()));
}

static bool walked[EP_FSM_STATES][EP_STIMULI];

/* RESET_DONE comes after RESET's row, which may lead elsewhere. */
static enum ep_fsm_state row_of(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    const struct ep_row *reset = ep_fsm_step(state, EP_RESET);

    return stimulus == EP_RESET_DONE && reset ? reset->next : state;
}

static void walk(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    struct asked asked = { 0 };

    open_for(state);
    if (stimulus == EP_NOT_STARTED) {
        asked = not_started(state);
    } else if (state == EP_DISCONNECTING && stimulus == EP_ABORTED) {
        ok(connect_to(ep, false));
        ok(ual_ep_disconnect(ep, NULL, 0));
        asked.possible = true;
    } else {
        bring(state);
        asked = apply(state, stimulus);
    }
    if (asked.possible) {
        if (stimulus == EP_RESET_DONE && state == EP_DISCONNECTING) { /* by way of another state */
            expect(connect_evd, ep_fsm_step(state, EP_RESET)->message);
            expect_nothing(connect_evd);
            ck_assert_int_eq(state_now(), EP_UNCONNECTED);
        } else {
            expect_row(state, stimulus, &asked);
            walked[state][stimulus] = true;
        }
        walked[row_of(state, stimulus)][stimulus] = true;
    }
    close_ia();
}

/* --- the whole --- */

static const struct {
    enum ep_fsm_state state;
    enum ep_stimulus stimulus;
} rows_left[] = {
    /* a confirmation that cannot be started leaves the identifier: nothing is fed */
    { EP_ACTIVE2, EP_NOT_STARTED },
};

static bool is_left(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    for (size_t i = 0; i < sizeof(rows_left) / sizeof(rows_left[0]); i++)
        if (rows_left[i].state == state && rows_left[i].stimulus == stimulus)
            return true;
    return false;
}

START_TEST(every_row_on_a_living_endpoint)
{
    unsigned rows = 0, rows_walked = 0, cells = 0;

    for (int state = 0; state < EP_FSM_STATES; state++)
        for (int stimulus = 0; stimulus < EP_STIMULI; stimulus++)
            walk((enum ep_fsm_state)state, (enum ep_stimulus)stimulus);
    for (int i = 0; i < EP_FSM_STATES * EP_STIMULI; i++) {
        enum ep_fsm_state state = (enum ep_fsm_state)(i / EP_STIMULI);
        enum ep_stimulus stimulus = (enum ep_stimulus)(i % EP_STIMULI);
        bool row = ep_fsm_step(state, stimulus);

        cells += walked[state][stimulus];
        rows += row;
        rows_walked += row && walked[state][stimulus];
        if (row)
            ck_assert_msg(walked[state][stimulus] != is_left(state, stimulus),
                          "%s in %s is %s rows_left", ep_fsm_stimulus_name(stimulus),
                          ep_fsm_state_name(state),
                          walked[state][stimulus] ? "walked, and in" : "not walked, nor in");
    }
    printf("# cells walked: %u of %d; rows of the table: %u of %u\n", cells,
           EP_FSM_STATES * EP_STIMULI, rows_walked, rows);
    fflush(stdout);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the endpoint's table on endpoints");
    TCase *tc = tcase_create("walk");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_row_on_a_living_endpoint);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}

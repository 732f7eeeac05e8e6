/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every reachable cell of the endpoint's table (ual/policy/ep_fsm.c), on an endpoint in that state:
 * by the consumer's call, or by an event of a connection or a QP of the fake kal. The table says
 * what has to follow; test_ep_fsm compares the table with the specification. `cells_left` lists the
 * cells that this test does not reach, with the reason.
 */
#include "datagrams.h"

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

static enum ri_status convert(bool initiator)
{
    struct ual_convert how = {
        .fd = 42,
        .initiator = initiator,
        .startup_frames = true,
        .message = initiator ? NULL : "login ok",
        .message_length = initiator ? 0 : 8,
        .timeout_us = UINT64_MAX,
    };

    return ual_ep_convert(walker, &how);
}

/* All states but ACTIVE2: apply() takes the endpoint there, for the identifier. */
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

/* --- stimuli --- */

struct asked {
    bool possible;
    bool refusable; /* a call with its status; whether it is refused if the table has no row */
    enum ri_status status, refusal;
};

static struct asked called(enum ri_status status)
{
    return (struct asked){ true, true, status, RI_ERR_INVALID_STATE };
}

/* Calls with the identifier of an accept that arrived. It is dead if it was of an earlier
 * attempt. */
static struct asked called_by_identifier(enum ri_status status)
{
    return (struct asked){ true, true, status, ITAL_ERR_INVALID_HANDLE };
}

static const struct asked not_possible = { 0 };

static struct asked accept_a_request(void)
{
    struct ual_request_event request = ask();
    enum ri_status status = accept_it(walker, request.request);

    if (status != RI_OK)
        ok(ual_reject(request.request, NULL, 0));
    return called(status);
}

/* The QP does not return to IDLE: applies the row of the call, not that of its outcome. */
static struct asked reset_in_vain(void)
{
    const struct ep_row *row = ep_fsm_step(state_now(), EP_RESET);
    enum ri_status status;

    fk_fail(FK_QP_IDLE, RI_ERR_NO_RESOURCES);
    status = ual_ep_reset(walker);
    if (row)
        fails(status, RI_ERR_NO_RESOURCES);
    else
        fk_fail(FK_QP_IDLE, RI_OK);
    return called(row ? RI_OK : status);
}

static struct asked news_of_qp(enum ri_event_type type)
{
    fk_qp_event(fk.qp, type, 0);
    fk_drain();
    return (struct asked){ .possible = true };
}

static struct asked news_of_connection(enum ep_fsm_state state, enum ri_connection_event_type type)
{
    if (state == EP_UNCONNECTED || is_ud_state(state))
        return type == RI_CONNECTION_DISCONNECTED ? news_of_qp(RI_EVENT_LLP_CLOSED) : not_possible;
    tell(type);
    fk_drain();
    return (struct asked){ .possible = true };
}

/* The connection is established during the call, and the call also fails. */
static void establish_now(void)
{
    fk_establish(fk.connection);
    fk_drain();
}

static void fail_now(void)
{
    establish_now();
    tell(RI_CONNECTION_FAILED);
    fk_drain();
}

/* The event came first: the consumer gets it, and the call has succeeded. */
static struct asked not_started_behind_news(enum ep_fsm_state state)
{
    struct ual_request_event request = ask();

    fk.during_accept = state == EP_CONNECTED ? establish_now : fail_now;
    fk_fail(FK_ACCEPT, RI_ERR_NO_RESOURCES);
    ok(accept_it(ep, request.request));
    expect(connect_evd, UAL_ESTABLISHED);
    if (state == EP_NONOPERATIONAL)
        expect(connect_evd, UAL_BROKEN);
    return (struct asked){ .possible = true };
}

/* A call that the provider refuses at once takes the endpoint to the state and back. */
static struct asked not_started(enum ep_fsm_state state)
{
    if (state == EP_CONNECTED || state == EP_NONOPERATIONAL)
        return not_started_behind_news(state);
    if (state == EP_ACTIVE1) {
        fk_fail(FK_CONNECT, RI_ERR_NO_RESOURCES);
        fails(connect_to(ep, false), RI_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    if (state == EP_PASSIVE) {
        struct ual_request_event request = ask();

        fk_fail(FK_ACCEPT, RI_ERR_NO_RESOURCES);
        fails(accept_it(ep, request.request), RI_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    if (state == EP_WAIT_REQUEST) {
        fk_fail(FK_CONVERT, RI_ERR_NO_RESOURCES);
        fails(convert(false), RI_ERR_NO_RESOURCES);
        return (struct asked){ .possible = true };
    }
    return (struct asked){ 0 };
}

static void break_now(void)
{
    fk.during_destroy = NULL;
    news_of_qp(RI_EVENT_LLP_RESET);
}

/* The attempt is aborted. NONOPERATIONAL: its end came first, and is reported once. */
static struct asked aborted(enum ep_fsm_state state)
{
    ok(connect_to(ep, false));
    if (state == EP_NONOPERATIONAL)
        fk.during_destroy = break_now;
    ok(ual_ep_disconnect(ep, NULL, 0));
    if (state == EP_NONOPERATIONAL)
        expect(connect_evd, UAL_DISCONNECTED);
    return (struct asked){ .possible = true };
}

static struct asked call(enum ep_fsm_state state, enum ep_stimulus stimulus, ual_handle arrived)
{
    switch (stimulus) {
    case EP_CONNECT: return called(connect_to(walker, false));
    case EP_ACCEPT: return accept_a_request();
    case EP_CONFIRM: return called_by_identifier(accept_it(walker, arrived));
    case EP_REJECT:
        return is_ud_state(state) ? not_possible
                                  : called_by_identifier(ual_reject(arrived, NULL, 0));
    case EP_DISCONNECT: return called(ual_ep_disconnect(walker, NULL, 0));
    case EP_CONVERT_INITIATE:
    case EP_CONVERT_RESPOND: return called(convert(stimulus == EP_CONVERT_INITIATE));
    case EP_RESET: return reset_in_vain();
    case EP_RESET_DONE:
        return ep_fsm_step(state, EP_RESET) ? called(ual_ep_reset(walker)) : not_possible;
    default: return not_possible;
    }
}

static struct asked apply(enum ep_fsm_state state, enum ep_stimulus stimulus, ual_handle arrived)
{
    if (state == EP_ACTIVE2)
        arrived = arrive();
    ck_assert_int_eq(state_now(), state);
    switch (stimulus) {
    case EP_ACCEPT_ARRIVED: return news_of_connection(state, RI_CONNECTION_ACCEPTED);
    case EP_ESTABLISHED: return news_of_connection(state, RI_CONNECTION_ESTABLISHED);
    case EP_PEER_REJECTED: return news_of_connection(state, RI_CONNECTION_REJECTED);
    case EP_FAILED: return news_of_connection(state, RI_CONNECTION_FAILED);
    case EP_ENDED: return news_of_connection(state, RI_CONNECTION_DISCONNECTED);
    case EP_BROKEN: return news_of_qp(is_ud_state(state) ? RI_EVENT_QP_FATAL : RI_EVENT_LLP_RESET);
    default: return call(state, stimulus, arrived);
    }
}

/* --- what the table says --- */

static void expect_row(enum ep_fsm_state state, enum ep_stimulus stimulus,
                       const struct asked *asked)
{
    const struct ep_row *row = ep_fsm_step(state, stimulus), *behind = NULL;

    if (asked->refusable)
        fails(asked->status, row ? RI_OK : asked->refusal);
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

/* RESET_DONE follows RESET's row, which may lead to another state. */
static enum ep_fsm_state row_of(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    const struct ep_row *reset = ep_fsm_step(state, EP_RESET);

    return stimulus == EP_RESET_DONE && reset ? reset->next : state;
}

/* An earlier identifier of this endpoint. */
static ual_handle earlier_identifier(void)
{
    ual_handle arrived = arrive();

    ok(ual_reject(arrived, NULL, 0));
    ok(ual_ep_reset(ep));
    expect_nothing(connect_evd);
    return arrived;
}

static void walk(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    bool by_identifier = stimulus == EP_CONFIRM || stimulus == EP_REJECT;
    struct asked asked = not_possible;

    open_for(state);
    if (stimulus == EP_NOT_STARTED) {
        asked = not_started(state);
    } else if (stimulus == EP_ABORTED &&
               (state == EP_DISCONNECTING || state == EP_NONOPERATIONAL)) {
        asked = aborted(state);
    } else {
        ual_handle arrived = by_identifier ? earlier_identifier() : 0;

        bring(state);
        asked = apply(state, stimulus, arrived);
    }
    if (asked.possible) {
        if (stimulus == EP_RESET_DONE && state == EP_DISCONNECTING) { /* through another state */
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

/* --- the whole table --- */

#define IN(state) (1u << EP_##state)
#define ALL       ((1u << EP_FSM_STATES) - 1)
#define UD        (IN(UD_OPERATIONAL) | IN(UD_NONOPERATIONAL))

static const struct {
    enum ep_stimulus stimulus;
    unsigned states;
    const char *why;
} cells_left[] = {
    { EP_REJECT, UD, "an identifier names its endpoint, and one of datagrams has none" },
    { EP_NOT_STARTED, IN(UNCONNECTED) | UD, "no attempt was begun" },
    { EP_NOT_STARTED, IN(ACTIVE2),
      "a provider whose connect fails has told of no answer; of a confirmation that fails the "
      "identifier stays" },
    { EP_NOT_STARTED, IN(DISCONNECTING), "calls on one endpoint take turns" },
    { EP_RESET_DONE,
      IN(ACTIVE1) | IN(ACTIVE2) | IN(PASSIVE) | IN(CONNECTED) | IN(WAIT_REQUEST) |
          IN(UD_OPERATIONAL),
      "a reset is refused there, and calls on one endpoint take turns" },
    { EP_RESET_DONE, IN(DISCONNECTING), "a reset leads out of it before it is done" },
    { EP_ABORTED, ALL & ~(IN(DISCONNECTING) | IN(NONOPERATIONAL)),
      "the call that abandons an attempt has left them, and calls on one endpoint take turns" },
    { EP_ACCEPT_ARRIVED, IN(UNCONNECTED) | UD, "there is no connection that could tell" },
    { EP_ESTABLISHED, IN(UNCONNECTED) | UD, "there is no connection that could tell" },
    { EP_PEER_REJECTED, IN(UNCONNECTED) | UD, "there is no connection that could tell" },
    { EP_FAILED, IN(UNCONNECTED) | UD, "there is no connection that could tell" },
};

static const char *why_left(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    for (size_t i = 0; i < sizeof(cells_left) / sizeof(cells_left[0]); i++)
        if (cells_left[i].stimulus == stimulus && (cells_left[i].states & 1u << state))
            return cells_left[i].why;
    return NULL;
}

START_TEST(every_cell_on_a_living_endpoint)
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
        ck_assert_msg(walked[state][stimulus] != !!why_left(state, stimulus),
                      "%s in %s is %s cells_left", ep_fsm_stimulus_name(stimulus),
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
    TCase *tc = tc_case(suite, "walk", NULL, NULL);

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_cell_on_a_living_endpoint);
    return tc_main(suite);
}

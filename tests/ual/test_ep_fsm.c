/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The endpoint state machine, every cell, against a table transcribed from the specification by
 * hand. Columns are states, as in the specification's table; DISCONNECTING lasts from this side's
 * disconnect to the end.
 */
#include "tc.h"

#include "ual/policy/ep_fsm.h"

#define STATES 10
static const char *const states[STATES] = {
    "UNCONNECTED",    "ACTIVE1",      "ACTIVE2",       "PASSIVE",        "CONNECTED",
    "NONOPERATIONAL", "WAIT_REQUEST", "DISCONNECTING", "UD OPERATIONAL", "UD NONOPERATIONAL",
};

/* A cell: "" refused or ignored; else the next state and, after a blank, the event. */
static const struct line {
    enum ep_stimulus stimulus;
    const char *cell[STATES];
} expected[] = {
    { EP_CONNECT, { "ACTIVE1", "", "", "", "", "", "", "", "", "" } },
    { EP_ACCEPT, { "PASSIVE", "", "", "", "", "", "", "", "", "" } },
    { EP_CONFIRM, { "", "", "ACTIVE2", "", "", "", "", "", "", "" } },
    { EP_REJECT, { "", "", "NONOPERATIONAL", "", "", "", "", "", "", "" } },
    { EP_DISCONNECT,
      { "", "DISCONNECTING", "DISCONNECTING", "DISCONNECTING", "DISCONNECTING", "", "DISCONNECTING",
        "", "", "" } },
    { EP_RESET,
      { "UNCONNECTED", "", "", "", "", "NONOPERATIONAL", "", "NONOPERATIONAL DISCONNECTED", "",
        "UD NONOPERATIONAL" } },
    { EP_CONVERT_INITIATE, { "ACTIVE1", "", "", "", "", "", "", "", "", "" } },
    { EP_CONVERT_RESPOND, { "WAIT_REQUEST", "", "", "", "", "", "", "", "", "" } },
    { EP_NOT_STARTED,
      { "", "UNCONNECTED", "ACTIVE2", "UNCONNECTED", "", "", "UNCONNECTED", "", "", "" } },
    { EP_RESET_DONE,
      { "UNCONNECTED", "", "", "", "", "UNCONNECTED", "", "", "", "UD OPERATIONAL" } },
    { EP_ABORTED, { "", "", "", "", "", "", "", "NONOPERATIONAL DISCONNECTED", "", "" } },
    { EP_ACCEPT_ARRIVED, { "", "ACTIVE2 ACCEPT_ARRIVED", "", "", "", "", "", "", "", "" } },
    { EP_ESTABLISHED,
      { "", "CONNECTED ESTABLISHED", "CONNECTED ESTABLISHED", "CONNECTED ESTABLISHED", "", "",
        "CONNECTED ESTABLISHED", "", "", "" } },
    { EP_PEER_REJECTED,
      { "", "NONOPERATIONAL PEER_REJECTED", "", "NONOPERATIONAL PEER_REJECTED", "", "",
        "NONOPERATIONAL PEER_REJECTED", "NONOPERATIONAL DISCONNECTED", "", "" } },
    { EP_FAILED,
      { "", "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL NONPEER_REJECTED",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL BROKEN", "",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL DISCONNECTED", "", "" } },
    { EP_ENDED,
      { "", "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL NONPEER_REJECTED",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL DISCONNECTED", "",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL DISCONNECTED", "", "" } },
    { EP_BROKEN,
      { "", "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL NONPEER_REJECTED",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL BROKEN", "",
        "NONOPERATIONAL NONPEER_REJECTED", "NONOPERATIONAL DISCONNECTED", "UD NONOPERATIONAL",
        "" } },
};

static const char *message_name(enum ual_connection_message message)
{
    switch (message) {
    case UAL_ACCEPT_ARRIVED: return "ACCEPT_ARRIVED";
    case UAL_ESTABLISHED: return "ESTABLISHED";
    case UAL_DISCONNECTED: return "DISCONNECTED";
    case UAL_PEER_REJECTED: return "PEER_REJECTED";
    case UAL_NONPEER_REJECTED: return "NONPEER_REJECTED";
    case UAL_BROKEN: return "BROKEN";
    case UAL_SERVICE_REPLY: break; /* not of an endpoint */
    }
    return NULL;
}

static void show(const struct ep_row *row, char *text, size_t size)
{
    if (!row)
        snprintf(text, size, "%s", "");
    else if (row->message)
        snprintf(text, size, "%s %s", states[row->next], message_name(row->message));
    else
        snprintf(text, size, "%s", states[row->next]);
}

START_TEST(X031_every_cell)
{
    ck_assert_uint_eq(sizeof(expected) / sizeof(*expected), EP_STIMULI);
    ck_assert_uint_eq(STATES, EP_FSM_STATES);
    for (size_t i = 0; i < EP_STIMULI; i++) {
        ck_assert_int_eq(expected[i].stimulus, (int)i);
        for (int state = 0; state < STATES; state++) {
            char got[80];

            show(ep_fsm_step((enum ep_fsm_state)state, expected[i].stimulus), got, sizeof(got));
            ck_assert_msg(!strcmp(got, expected[i].cell[state]), "%s in %s: \"%s\", not \"%s\"",
                          ep_fsm_stimulus_name(expected[i].stimulus), states[state], got,
                          expected[i].cell[state]);
        }
    }
}
END_TEST

START_TEST(work_of_rows)
{
    for (int state = 0; state < STATES; state++) {
        for (int i = 0; i < EP_STIMULI; i++) {
            enum ep_stimulus stimulus = (enum ep_stimulus)i;
            const struct ep_row *row = ep_fsm_step((enum ep_fsm_state)state, stimulus);
            unsigned int work = 0;

            if (!row)
                continue;
            /* Outstanding work flushes on entry to NONOPERATIONAL, whatever the cause. */
            if (stimulus == EP_RESET)
                work = EP_REWIND;
            else if (stimulus == EP_DISCONNECT)
                work = state == UAL_EP_CONNECTED ? EP_CLOSE : EP_ABORT;
            else if (row->next == EP_NONOPERATIONAL && stimulus != EP_ABORTED)
                work = EP_FLUSH;
            ck_assert_msg(row->work == work, "%s in %s: work %u, not %u",
                          ep_fsm_stimulus_name(stimulus), states[state], row->work, work);
        }
    }
}
END_TEST

/* Whatever the stimuli are, an established connection ends with one event, and none follows before
 * a reset. */
static void explore(enum ep_fsm_state state, int established, int ends, bool seen[STATES][2][3])
{
    if (seen[state][established][ends])
        return;
    seen[state][established][ends] = true;
    for (int i = 0; i < EP_STIMULI; i++) {
        const struct ep_row *row = ep_fsm_step(state, (enum ep_stimulus)i);
        int est = established, count = ends;

        if (!row)
            continue;
        if (row->message == UAL_ESTABLISHED) {
            ck_assert_int_eq(established, 0);
            est = 1;
        }
        if (row->message == UAL_DISCONNECTED || row->message == UAL_BROKEN)
            count++;
        ck_assert_msg(count <= 1, "%s in %s: a second end",
                      ep_fsm_stimulus_name((enum ep_stimulus)i), states[state]);
        if (row->next == EP_UNCONNECTED) {
            ck_assert_msg(!established || count == 1, "%s in %s: no end",
                          ep_fsm_stimulus_name((enum ep_stimulus)i), states[state]);
            est = count = 0;
        }
        explore(row->next, est, count, seen);
    }
}

START_TEST(one_end_per_connection)
{
    bool seen[STATES][2][3] = { 0 };

    explore(EP_UNCONNECTED, 0, 0, seen);
    for (int state = 0; state < STATES; state++) {
        bool reached = false;

        for (int i = 0; i < 6; i++)
            reached |= seen[state][i / 3][i % 3];
        if (state >= EP_UD_OPERATIONAL) /* UD has a machine of its own, without connections */
            reached = !reached;
        ck_assert_msg(reached, "%s is never reached", states[state]);
    }
}
END_TEST

START_TEST(names_and_numbers)
{
    for (int state = 0; state < STATES; state++) {
        enum ual_ep_state seen = ep_fsm_public((enum ep_fsm_state)state);

        ck_assert_str_eq(ep_fsm_state_name((enum ep_fsm_state)state), states[state]);
        ck_assert_int_eq(seen, state < UAL_EP_STATE_COUNT   ? state
                               : state == EP_UD_OPERATIONAL ? UAL_EP_CONNECTED
                                                            : UAL_EP_NONOPERATIONAL);
    }
    for (int i = 0; i < EP_STIMULI; i++)
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(ep_fsm_stimulus_name((enum ep_stimulus)i),
                             ep_fsm_stimulus_name((enum ep_stimulus)j));
    ck_assert_ptr_null(ep_fsm_step((enum ep_fsm_state)STATES, EP_CONNECT));
    ck_assert_ptr_null(ep_fsm_step(EP_UNCONNECTED, EP_STIMULI));
    ck_assert_ptr_null(ep_fsm_step((enum ep_fsm_state) - 1, EP_CONNECT));
    ck_assert_str_eq(ep_fsm_state_name((enum ep_fsm_state)STATES), "?");
    ck_assert_str_eq(ep_fsm_stimulus_name(EP_STIMULI), "?");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("endpoint state machine");
    TCase *tc = tc_case(suite, "table", NULL, NULL);

    tc_add_tests(tc, X031_every_cell, work_of_rows, one_end_per_connection, names_and_numbers);
    return tc_main(suite);
}

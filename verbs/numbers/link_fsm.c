/* SPDX-License-Identifier: BSD-3-Clause
 * The table of link_fsm.h. */
#include "link_fsm.h"

#include <stdbool.h>

struct entry {
    bool counts;
    struct link_step step;
};

#define STEP(next_state, what)                                     \
    {                                                              \
        .counts = true, .step = { LINK_##next_state, LINK_##what } \
    }

/* clang-format off */
static const struct entry table[LINK_STATES][LINK_STIMULI] = {
    [LINK_IDLE] = {
        [LINK_AWAIT]            = STEP(AWAITING,   DO_SEARCH),
        [LINK_CONNECT]          = STEP(CONNECTING, DO_CONNECT),
    },
    [LINK_AWAITING] = {
        [LINK_ACCEPTED]         = STEP(ACCEPTING,  NOTHING),
        [LINK_OUT_OF_TIME]      = STEP(FAILED,     DO_FAIL),
        [LINK_REQUEST]          = STEP(AWAITING,   DO_SEARCH),
    },
    [LINK_ACCEPTING] = {
        [LINK_ESTABLISHED]      = STEP(OPEN,       DO_OPEN),
        [LINK_ATTEMPT_FAILED]   = STEP(AWAITING,   DO_SEARCH),
        [LINK_CONNECTION_ENDED] = STEP(ENDED,      DO_END),
        [LINK_OUT_OF_TIME]      = STEP(FAILED,     DO_FAIL),
    },
    [LINK_CONNECTING] = {
        [LINK_ESTABLISHED]      = STEP(OPEN,       DO_OPEN),
        [LINK_ATTEMPT_FAILED]   = STEP(PAUSED,     DO_PAUSE),
        [LINK_CONNECTION_ENDED] = STEP(ENDED,      DO_END),
        [LINK_OUT_OF_TIME]      = STEP(FAILED,     DO_FAIL),
        [LINK_REQUEST]          = STEP(CONNECTING, DO_REFUSE),
    },
    [LINK_PAUSED] = {
        [LINK_OUT_OF_TIME]      = STEP(FAILED,     DO_FAIL),
        [LINK_PAUSE_OVER]       = STEP(CONNECTING, DO_CONNECT),
        [LINK_REQUEST]          = STEP(PAUSED,     DO_REFUSE),
    },
    [LINK_OPEN] = {
        [LINK_CONNECTION_ENDED] = STEP(ENDED,      DO_END),
        [LINK_REQUEST]          = STEP(OPEN,       DO_REFUSE),
    },
    [LINK_ENDED] = {
        [LINK_OUT_OF_TIME]      = STEP(FAILED,     DO_BURY),
        [LINK_REQUEST]          = STEP(ENDED,      DO_REFUSE),
    },
    [LINK_FAILED] = {
        [LINK_REQUEST]          = STEP(FAILED,     DO_REFUSE),
    },
};
/* clang-format on */

struct link_step link_fsm(enum link_state state, enum link_stimulus stimulus)
{
    const struct entry *entry = &table[state][stimulus];

    return entry->counts ? entry->step : (struct link_step){ state, LINK_NOTHING };
}

const char *link_state_name(enum link_state state)
{
    static const char *const names[LINK_STATES] = {
        [LINK_IDLE] = "idle",
        [LINK_AWAITING] = "awaiting the peer",
        [LINK_ACCEPTING] = "accepting",
        [LINK_CONNECTING] = "connecting",
        [LINK_PAUSED] = "between two attempts",
        [LINK_OPEN] = "open",
        [LINK_ENDED] = "ended",
        [LINK_FAILED] = "failed",
    };

    return names[state];
}

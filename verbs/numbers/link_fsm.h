/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The states of a QP's connection by numbers, as a pure table.
 *
 *           RTR, the peer is larger                    RTR, this side is larger
 *        +--------------------------- IDLE ------------------------------+
 *        v                                                               v
 *     AWAITING <---- failed -----+                   +--- failed ---> CONNECTING
 *        |                       |                   v                   ^ |
 *        +--- one accepted ---> ACCEPTING         PAUSED --- time over --+ |
 *                                |                                         |
 *                                +---- established ---> OPEN <-------------+
 *                                                        |
 *                                                      ended
 *                                                        v
 *     AWAITING, ACCEPTING, CONNECTING, PAUSED          ENDED
 *        | out of time
 *        v
 *      FAILED
 *
 * A connection that ends between its hand-over and its establishment is ENDED, too. RESET takes
 * every state to IDLE, ERR to FAILED; the program's call does that by itself, for it waits until
 * nothing runs.
 */
#ifndef ITAL_VERBS_NUMBERS_LINK_FSM_H
#define ITAL_VERBS_NUMBERS_LINK_FSM_H

enum link_state {
    LINK_IDLE = 0,
    LINK_AWAITING,   /* the peer's request */
    LINK_ACCEPTING,  /* the peer's request was accepted */
    LINK_CONNECTING, /* an attempt of this side is under way */
    LINK_PAUSED,     /* until the next attempt */
    LINK_OPEN,
    LINK_ENDED,
    LINK_FAILED,
    LINK_STATES
};

/* Taken in this order where several wait. */
enum link_stimulus {
    LINK_AWAIT = 0, /* RTR; the peer initiates */
    LINK_CONNECT,   /* RTR; this side initiates */
    LINK_ACCEPTED,  /* a request was found that fits */
    LINK_ESTABLISHED,
    LINK_ATTEMPT_FAILED,
    LINK_CONNECTION_ENDED,
    LINK_OUT_OF_TIME,
    LINK_PAUSE_OVER,
    LINK_REQUEST, /* one is parked */
    LINK_STIMULI
};

enum link_action {
    LINK_NOTHING = 0,
    LINK_DO_SEARCH,  /* among the parked requests */
    LINK_DO_CONNECT, /* make an attempt */
    LINK_DO_PAUSE,   /* set the time of the next attempt */
    LINK_DO_OPEN,    /* post what was held */
    LINK_DO_FAIL,    /* complete what was held in error */
    LINK_DO_END,
    LINK_DO_REFUSE, /* the parked requests */
    LINK_ACTIONS
};

struct link_step {
    enum link_state next;
    enum link_action action;
};

/* A stimulus that means nothing in that state leaves it, with LINK_NOTHING. */
struct link_step link_fsm(enum link_state state, enum link_stimulus stimulus);
const char *link_state_name(enum link_state state);

#endif

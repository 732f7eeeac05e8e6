/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The states of a QP's connection by numbers: a pure table.
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
 *        | out of time                                   | out of time
 *        +------------------> FAILED <-------------------+
 *
 * A connection that ends between hand-over and establishment goes to ENDED, too. RESET takes every
 * state to IDLE, ERR to FAILED. The program's call makes these two changes itself, because it waits
 * until nothing of the link runs.
 */
#ifndef ITAL_VERBS_NUMBERS_LINK_FSM_H
#define ITAL_VERBS_NUMBERS_LINK_FSM_H

enum link_state {
    LINK_IDLE = 0,
    LINK_AWAITING,   /* waits for the peer's request */
    LINK_ACCEPTING,  /* has accepted the peer's request */
    LINK_CONNECTING, /* an attempt to connect is under way */
    LINK_PAUSED,     /* waits to make the next attempt */
    LINK_OPEN,
    LINK_ENDED,
    LINK_FAILED,
    LINK_STATES
};

/* If several are pending, the first of this order is handled first. */
enum link_stimulus {
    LINK_AWAIT = 0, /* RTR; the peer initiates */
    LINK_CONNECT,   /* RTR; this side initiates */
    LINK_ACCEPTED,  /* a matching request was found */
    LINK_ESTABLISHED,
    LINK_ATTEMPT_FAILED,
    LINK_CONNECTION_ENDED,
    LINK_OUT_OF_TIME,
    LINK_PAUSE_OVER,
    LINK_REQUEST, /* a request is parked */
    LINK_STIMULI
};

enum link_action {
    LINK_NOTHING = 0,
    LINK_DO_SEARCH,  /* search the parked requests */
    LINK_DO_CONNECT, /* start an attempt */
    LINK_DO_PAUSE,   /* set the time of the next attempt */
    LINK_DO_OPEN,    /* post the held requests */
    LINK_DO_FAIL,    /* complete the held requests in error */
    LINK_DO_END,     /* complete the held requests in error, or wait a while */
    LINK_DO_BURY,    /* the QP goes to ERR */
    LINK_DO_REFUSE,  /* refuse the parked requests */
    LINK_ACTIONS
};

struct link_step {
    enum link_state next;
    enum link_action action;
};

/* A stimulus without an entry for the state leaves it unchanged, with LINK_NOTHING. */
struct link_step link_fsm(enum link_state state, enum link_stimulus stimulus);
const char *link_state_name(enum link_state state);

#endif

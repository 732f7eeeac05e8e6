/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoint state machine: a pure table. A step looks up (state, stimulus) and says what the next
 * state is, which message the consumer gets, and what the caller has to do to the QP and the
 * connection. ep_connect.c does it.
 */
#ifndef ITAL_UAL_EP_FSM_H
#define ITAL_UAL_EP_FSM_H

#include "ual_policy.h"

/* The states of enum ual_ep_state by the same numbers, and those that the consumer sees as one of
 * them. */
enum ep_fsm_state {
    EP_UNCONNECTED = UAL_EP_UNCONNECTED,
    EP_ACTIVE1 = UAL_EP_ACTIVE1,
    EP_ACTIVE2 = UAL_EP_ACTIVE2,
    EP_PASSIVE = UAL_EP_PASSIVE,
    EP_CONNECTED = UAL_EP_CONNECTED,
    EP_NONOPERATIONAL = UAL_EP_NONOPERATIONAL,
    EP_WAIT_REQUEST = UAL_EP_PASSIVE_WAIT_REQUEST,
    EP_DISCONNECTING,     /* own disconnect under way: its end is not reported yet */
    EP_UD_OPERATIONAL,    /* datagrams: seen as CONNECTED */
    EP_UD_NONOPERATIONAL, /* seen as NONOPERATIONAL */
    EP_FSM_STATES
};

enum ep_stimulus {
    /* calls of the consumer; refused where the table has no row */
    EP_CONNECT,
    EP_ACCEPT,  /* with the identifier of a request */
    EP_CONFIRM, /* accept with the identifier of an arrived accept (three-way) */
    EP_REJECT,  /* reject with the identifier of an arrived accept */
    EP_DISCONNECT,
    EP_RESET,
    EP_CONVERT_INITIATE, /* socket conversion */
    EP_CONVERT_RESPOND,
    /* results of these calls */
    EP_NOT_STARTED, /* the call failed at once: no event will follow */
    EP_RESET_DONE,
    EP_ABORTED, /* the attempt is abandoned */
    /* events of the connection and the QP; ignored where the table has no row */
    EP_ACCEPT_ARRIVED,
    EP_ESTABLISHED,
    EP_PEER_REJECTED,
    EP_FAILED,
    EP_ENDED,  /* both directions closed in order */
    EP_BROKEN, /* ended in any other way */
    EP_STIMULI
};

enum ep_work {
    /* Put the QP into ERROR, unless the provider has: outstanding work completes flushed */
    EP_FLUSH = 1u << 0,
    EP_ABORT = 1u << 1,  /* abandon the attempt, flush, then report EP_ABORTED */
    EP_CLOSE = 1u << 2,  /* start the orderly close */
    EP_REWIND = 1u << 3, /* drop the connection, QP to IDLE, then report EP_RESET_DONE */
};

struct ep_row {
    bool listed;
    enum ep_fsm_state next;
    enum ual_connection_message message; /* 0: none */
    unsigned int work;                   /* OR of enum ep_work */
};

/* The row, or NULL where the stimulus is refused or ignored. Values out of range: NULL. */
const struct ep_row *ep_fsm_step(enum ep_fsm_state state, enum ep_stimulus stimulus);
enum ual_ep_state ep_fsm_public(enum ep_fsm_state state);
const char *ep_fsm_state_name(enum ep_fsm_state state);
const char *ep_fsm_stimulus_name(enum ep_stimulus stimulus);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The endpoint state machine. The table is the documentation: see ep_fsm.h for its columns. */
#include "ep_fsm.h"

#define ROW(stimulus, next_, message_, work_) \
    [EP_##stimulus] = { true, EP_##next_, (enum ual_connection_message)(message_), (work_) }

/*
 * A consumer's call without a row gets RI_ERR_INVALID_STATE. An event without a row is late or
 * impossible, and is dropped. Freeing is possible in every state and ends the machine.
 *
 * The first of ENDED, BROKEN and DISCONNECT ends CONNECTED. Later ones have no row in
 * NONOPERATIONAL and one row in DISCONNECTING. So each connection has exactly one of DISCONNECTED
 * and BROKEN. While the own disconnect is under way every end is an end in order.
 */
static const struct ep_row table[EP_FSM_STATES][EP_STIMULI] = {
    [EP_UNCONNECTED] = {
        ROW(CONNECT, ACTIVE1, 0, 0),
        ROW(ACCEPT, PASSIVE, 0, 0),
        ROW(CONVERT_INITIATE, ACTIVE1, 0, 0),
        ROW(CONVERT_RESPOND, WAIT_REQUEST, 0, 0),
        ROW(RESET, UNCONNECTED, 0, EP_REWIND),
        ROW(RESET_DONE, UNCONNECTED, 0, 0),
    },
    [EP_ACTIVE1] = {
        ROW(NOT_STARTED, UNCONNECTED, 0, 0),
        ROW(DISCONNECT, DISCONNECTING, 0, EP_ABORT),
        ROW(ACCEPT_ARRIVED, ACTIVE2, UAL_ACCEPT_ARRIVED, 0),
        ROW(ESTABLISHED, CONNECTED, UAL_ESTABLISHED, 0),
        ROW(PEER_REJECTED, NONOPERATIONAL, UAL_PEER_REJECTED, EP_FLUSH),
        ROW(FAILED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(ENDED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
    },
    [EP_ACTIVE2] = {
        ROW(CONFIRM, ACTIVE2, 0, 0), /* the connection is there when ESTABLISHED says so */
        ROW(NOT_STARTED, ACTIVE2, 0, 0),
        ROW(REJECT, NONOPERATIONAL, 0, EP_FLUSH),
        ROW(DISCONNECT, DISCONNECTING, 0, EP_ABORT),
        ROW(ESTABLISHED, CONNECTED, UAL_ESTABLISHED, 0),
        ROW(FAILED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(ENDED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
    },
    [EP_PASSIVE] = {
        ROW(NOT_STARTED, UNCONNECTED, 0, 0),
        ROW(DISCONNECT, DISCONNECTING, 0, EP_ABORT),
        ROW(ESTABLISHED, CONNECTED, UAL_ESTABLISHED, 0),
        ROW(PEER_REJECTED, NONOPERATIONAL, UAL_PEER_REJECTED, EP_FLUSH), /* three-way */
        ROW(FAILED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        /* before the peer's first message */
        ROW(ENDED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
    },
    [EP_CONNECTED] = {
        ROW(DISCONNECT, DISCONNECTING, 0, EP_CLOSE),
        ROW(ENDED, NONOPERATIONAL, UAL_DISCONNECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_BROKEN, EP_FLUSH),
        ROW(FAILED, NONOPERATIONAL, UAL_BROKEN, EP_FLUSH), /* a provider's own connection manager */
    },
    [EP_NONOPERATIONAL] = {
        ROW(RESET, NONOPERATIONAL, 0, EP_REWIND),
        ROW(RESET_DONE, UNCONNECTED, 0, 0),
    },
    [EP_WAIT_REQUEST] = {
        ROW(NOT_STARTED, UNCONNECTED, 0, 0),
        ROW(DISCONNECT, DISCONNECTING, 0, EP_ABORT),
        ROW(ESTABLISHED, CONNECTED, UAL_ESTABLISHED, 0),
        ROW(PEER_REJECTED, NONOPERATIONAL, UAL_PEER_REJECTED, EP_FLUSH),
        ROW(FAILED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(ENDED, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_NONPEER_REJECTED, EP_FLUSH),
    },
    [EP_DISCONNECTING] = {
        ROW(ABORTED, NONOPERATIONAL, UAL_DISCONNECTED, 0),
        ROW(PEER_REJECTED, NONOPERATIONAL, UAL_DISCONNECTED, EP_FLUSH),
        ROW(FAILED, NONOPERATIONAL, UAL_DISCONNECTED, EP_FLUSH),
        ROW(ENDED, NONOPERATIONAL, UAL_DISCONNECTED, EP_FLUSH),
        ROW(BROKEN, NONOPERATIONAL, UAL_DISCONNECTED, EP_FLUSH),
        ROW(RESET, NONOPERATIONAL, UAL_DISCONNECTED, EP_REWIND), /* does not wait for the peer */
    },
    /* Nobody is connected: nothing is told, and the provider has put the QP into ERROR when it
     * speaks. */
    [EP_UD_OPERATIONAL] = {
        ROW(BROKEN, UD_NONOPERATIONAL, 0, 0),
    },
    [EP_UD_NONOPERATIONAL] = {
        ROW(RESET, UD_NONOPERATIONAL, 0, EP_REWIND),
        ROW(RESET_DONE, UD_OPERATIONAL, 0, 0),
    },
};

const struct ep_row *ep_fsm_step(enum ep_fsm_state state, enum ep_stimulus stimulus)
{
    const struct ep_row *row;

    if ((unsigned int)state >= EP_FSM_STATES || (unsigned int)stimulus >= EP_STIMULI)
        return NULL;
    row = &table[state][stimulus];
    return row->listed ? row : NULL;
}

enum ual_ep_state ep_fsm_public(enum ep_fsm_state state)
{
    switch (state) {
    case EP_DISCONNECTING:
    case EP_UD_NONOPERATIONAL: return UAL_EP_NONOPERATIONAL;
    case EP_UD_OPERATIONAL: return UAL_EP_CONNECTED;
    default: return (enum ual_ep_state)state;
    }
}

static const char *const state_names[EP_FSM_STATES] = {
    [EP_UNCONNECTED] = "UNCONNECTED",
    [EP_ACTIVE1] = "ACTIVE1",
    [EP_ACTIVE2] = "ACTIVE2",
    [EP_PASSIVE] = "PASSIVE",
    [EP_CONNECTED] = "CONNECTED",
    [EP_NONOPERATIONAL] = "NONOPERATIONAL",
    [EP_WAIT_REQUEST] = "WAIT_REQUEST",
    [EP_DISCONNECTING] = "DISCONNECTING",
    [EP_UD_OPERATIONAL] = "UD OPERATIONAL",
    [EP_UD_NONOPERATIONAL] = "UD NONOPERATIONAL",
};

static const char *const stimulus_names[EP_STIMULI] = {
    [EP_CONNECT] = "connect",
    [EP_ACCEPT] = "accept",
    [EP_CONFIRM] = "confirm",
    [EP_REJECT] = "reject",
    [EP_DISCONNECT] = "disconnect",
    [EP_RESET] = "reset",
    [EP_CONVERT_INITIATE] = "convert, initiator",
    [EP_CONVERT_RESPOND] = "convert, responder",
    [EP_NOT_STARTED] = "not started",
    [EP_RESET_DONE] = "reset done",
    [EP_ABORTED] = "aborted",
    [EP_ACCEPT_ARRIVED] = "accept arrived",
    [EP_ESTABLISHED] = "established",
    [EP_PEER_REJECTED] = "rejected by the peer",
    [EP_FAILED] = "failed",
    [EP_ENDED] = "ended in order",
    [EP_BROKEN] = "broken",
};

const char *ep_fsm_state_name(enum ep_fsm_state state)
{
    return (unsigned int)state < EP_FSM_STATES ? state_names[state] : "?";
}

const char *ep_fsm_stimulus_name(enum ep_stimulus stimulus)
{
    return (unsigned int)stimulus < EP_STIMULI ? stimulus_names[stimulus] : "?";
}

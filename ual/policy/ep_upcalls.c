/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Upcalls about an endpoint. They come from two sides: the connection (before ESTABLISHED) and the
 * QP (afterwards). Their order does not matter: the second report of the same fact has no row.
 */
#include "connect.h"

#include <string.h>

/* --- upcalls about the connection --- */

static enum ep_stimulus stimulus_of(enum ri_connection_event_type type)
{
    switch (type) {
    case RI_CONNECTION_ACCEPTED: return EP_ACCEPT_ARRIVED;
    case RI_CONNECTION_ESTABLISHED: return EP_ESTABLISHED;
    case RI_CONNECTION_REJECTED: return EP_PEER_REJECTED;
    case RI_CONNECTION_FAILED: return EP_FAILED;
    case RI_CONNECTION_DISCONNECTED: return EP_ENDED;
    default: return EP_STIMULI; /* nothing for the endpoint */
    }
}

static void describe(struct ual_connection_event *details, const struct ri_connection_event *event)
{
    *details = (struct ual_connection_event){
        .reason = event->reason,
        .local = event->local,
        .peer = event->peer,
    };
    if (event->type == RI_CONNECTION_ESTABLISHED || event->type == RI_CONNECTION_ACCEPTED) {
        details->depths_valid = event->depths_valid;
        details->ird = event->ird;
        details->ord = event->ord;
    }
    if (event->private_data && event->type != RI_CONNECTION_FAILED) {
        details->private_data_length = event->private_data_length < UAL_PRIVATE_DATA_MAX
                                           ? event->private_data_length
                                           : UAL_PRIVATE_DATA_MAX;
        memcpy(details->private_data, event->private_data, details->private_data_length);
    }
}

/* Stores the identifier before the message that carries it. */
static bool prepare_arrival(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_request *arrival = ual_request_arrival(ep), *surplus = arrival;

    if (!arrival)
        return false;
    spinlock_lock(&inside->lock);
    if (inside->state == EP_ACTIVE1 && !inside->arrival) {
        inside->arrival = arrival;
        surplus = NULL;
    }
    spinlock_unlock(&inside->lock);
    ual_request_forget_arrival(surplus);
    return true;
}

static void connection_event(void *context, const struct ri_connection_event *event)
{
    enum ep_stimulus stimulus = stimulus_of(event->type);
    struct ual_connection_event details;
    struct ual_ep *ep = context;

    if (stimulus == EP_STIMULI)
        return;
    describe(&details, event);
    if (stimulus == EP_ACCEPT_ARRIVED && !prepare_arrival(ep)) {
        stimulus = EP_FAILED;
        details.reason = RI_REASON_RESOURCES;
    }
    ual_ep_feed_event(ep, stimulus, &details);
}

const struct ual_conn_upcalls ual_ep_upcalls = { .event = connection_event };

/* --- upcalls about the QP --- */

enum ending {
    NO_ENDING,
    ENDING_IN_ORDER,
    ENDING_BROKEN,
    ENDING_UNEXPLAINED /* by any completion */
};

static enum ending ending_of(enum ri_event_type type)
{
    switch (type) {
    case RI_EVENT_LLP_CLOSED:
    case RI_EVENT_LLP_CLOSED_BUSY: return ENDING_IN_ORDER;
    case RI_EVENT_LLP_RESET:
    case RI_EVENT_LLP_LOST:
    case RI_EVENT_LOCAL_ERROR: /* the request's completion */
    case RI_EVENT_RECV_LENGTH: /* the receive's */
    case RI_EVENT_RESPONSE_ERROR: /* the read's */ return ENDING_BROKEN;
    case RI_EVENT_TERMINATE_RECEIVED:
    case RI_EVENT_INTEGRITY:
    case RI_EVENT_REMOTE_OPERATION:
    case RI_EVENT_BAD_OPCODE:
    case RI_EVENT_NO_RECEIVE:
    case RI_EVENT_WRITE_ACCESS:
    case RI_EVENT_READ_ACCESS:
    case RI_EVENT_RECV_ACCESS:
    case RI_EVENT_INVALIDATE_ACCESS:
    case RI_EVENT_QP_FATAL:
    case RI_EVENT_QP_OVERFLOW: return ENDING_UNEXPLAINED;
    default: return NO_ENDING;
    }
}

/* A peer's Terminate may fail a request of this side: then its completion reports that. Sends and
 * Writes have mostly completed before. */
static bool explained(const struct ri_event *event)
{
    return event->type == RI_EVENT_TERMINATE_RECEIVED && event->explained;
}

/* An end in order, and one that this side asked for, is no error. */
static enum ri_log_level level_of_end(const struct ep_row *row)
{
    bool trouble = row->message == UAL_BROKEN || row->message == UAL_NONPEER_REJECTED;

    return trouble ? RI_LOG_WARNING : RI_LOG_INFO;
}

/* The peer-to-peer model: the peer's first message has arrived. The connection has the details. */
static void established_by_peer(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ri_connection_event info = { .size = sizeof(info), .type = RI_CONNECTION_ESTABLISHED };
    struct ual_connection_event details;
    struct ual_conn *connection;

    spinlock_lock(&inside->lock);
    connection = inside->connection;
    if (connection)
        inside->readers++;
    spinlock_unlock(&inside->lock);
    if (!connection)
        return;
    ual_conn_query(connection, &info);
    spinlock_lock(&inside->lock);
    inside->readers--;
    spinlock_unlock(&inside->lock);
    describe(&details, &info);
    ual_ep_feed(ep, EP_ESTABLISHED, &details, NULL);
}

void ual_ep_qp_event(struct ual_qp *qp, const struct ri_event *event)
{
    struct ual_ep *ep = (struct ual_ep *)qp; /* its first member */
    enum ending ending = ending_of(event->type);
    const struct ep_row *row = NULL;

    if (event->type == RI_EVENT_ESTABLISHED) {
        established_by_peer(ep);
        return;
    }
    if (ending != NO_ENDING)
        ual_ep_feed(ep, ending == ENDING_IN_ORDER ? EP_ENDED : EP_BROKEN, NULL, &row);
    if (row && event->detail && !ual_ep_is_ud(ep))
        ual_ep_log_end(ep, event, level_of_end(row));
    if (event->type >= RI_EVENT_QP_FATAL ||
        (ending == ENDING_UNEXPLAINED && row && row->message == UAL_BROKEN && !explained(event)))
        ual_ia_affiliated_event(ual_ia_of(ual_ep_device(ep)), event, ep->qp.object.handle);
}

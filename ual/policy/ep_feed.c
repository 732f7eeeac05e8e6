/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What happens to an endpoint becomes a stimulus of the state machine (ep_fsm.c), and its row a
 * message and work on the QP.
 *
 * A message is pushed under the endpoint's lock, together with its transition. So messages are
 * queued in the order of the states, whatever threads the upcalls come from. The work on the QP is
 * done outside the lock: a flush before the message (ual_ep_feed_event), everything else after it,
 * under `control`.
 */
#include "connect.h"

#include "base/trace.h"

#include <sched.h>

static void push_message(struct ual_ep_private *inside, enum ual_connection_message message,
                         const struct ual_connection_event *details)
{
    struct ual_ep *ep = &inside->ep;
    struct ual_event event = { .stream = UAL_STREAM_CONNECTION };
    struct ual_connection_event *c = &event.connection;
    enum ri_status status;

    if (!ep->connect_evd)
        return;
    if (details)
        *c = *details;
    c->message = message;
    c->ep = ep->qp.object.handle;
    c->local = address_storage(&inside->local);
    c->peer = address_storage(&inside->peer);
    if (message == UAL_ESTABLISHED)
        c->request = inside->accepted_id;
    else if (message == UAL_ACCEPT_ARRIVED && inside->arrival)
        c->request = inside->arrival->object.handle;
    status = ual_evd_push_message(ep->connect_evd, &event, &inside->first, &inside->end);
    if (status == RI_ERR_QUEUE_FULL)
        kal_log(RI_LOG_ERROR,
                "%s: no room for connection message %d of an endpoint; make its connect EVD larger",
                ual_device_name(ual_ep_device(ep)), (int)message);
    else if (status != RI_OK)
        kal_log(RI_LOG_ERROR,
                "%s: no memory for connection message %d of an endpoint, whose earlier ones were "
                "not taken yet; take them sooner, or free memory",
                ual_device_name(ual_ep_device(ep)), (int)message);
}

static void take_addresses(struct ual_ep_private *inside,
                           const struct ual_connection_event *details)
{
    if (details->local.ss_family)
        inside->local = address_keep(&details->local);
    if (details->peer.ss_family)
        inside->peer = address_keep(&details->peer);
}

/* Under the lock: the inner transition, which the consumer does not see yet. *stale: an identifier
 * that ends with it. */
static const struct ep_row *advance(struct ual_ep_private *inside, enum ep_stimulus stimulus,
                                    struct ual_request **stale)
{
    const struct ep_row *row = ep_fsm_step(inside->state, stimulus);

    *stale = NULL;
    if (!row)
        return NULL;
    if (inside->state == EP_ACTIVE2 && row->next != EP_ACTIVE2) {
        *stale = inside->arrival;
        inside->arrival = NULL;
    }
    inside->state = row->next;
    return row;
}

/* With MPA revision 1, and without an exchange of depths, nothing is agreed: the endpoint's own ORD
 * counts. Under the lock. */
static void take_depths(struct ual_ep_private *inside, const struct ep_row *row,
                        const struct ual_connection_event *details)
{
    struct ual_ep *ep = &inside->ep;

    if (row->next == EP_UNCONNECTED)
        ep->ord = ep->attr.ord;
    if (row->message != UAL_ESTABLISHED || !details)
        return;
    inside->agreed_ord = details->depths_valid ? details->ord : UINT32_MAX;
    ep->ord = details->depths_valid ? details->ord : ep->attr.ord;
}

/* Under the lock: makes the transition visible to the consumer. */
static void announce(struct ual_ep_private *inside, const struct ep_row *row,
                     const struct ual_connection_event *details)
{
    int before = atomic_load_explicit(&inside->ep.state, memory_order_relaxed);
    int after = (int)ep_fsm_public(row->next);

    if (before != after)
        TRACE3(state, inside->ep.qp.object.handle, before, after);
    take_depths(inside, row, details); /* before the state lets posts through */
    atomic_store_explicit(&inside->ep.state, after, memory_order_release);
    if (details)
        take_addresses(inside, details);
    if (row->message)
        push_message(inside, row->message, details);
}

bool ual_ep_feed(struct ual_ep *ep, enum ep_stimulus stimulus,
                 const struct ual_connection_event *details, const struct ep_row **out)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_request *stale;
    const struct ep_row *row;

    spinlock_lock(&inside->lock);
    row = advance(inside, stimulus, &stale);
    if (row)
        announce(inside, row, details);
    spinlock_unlock(&inside->lock);
    ual_request_forget_arrival(stale);
    if (row && out)
        *out = row;
    return row != NULL;
}

/*
 * An event of the connection. A consumer that has its message finds a QP that flushes: where the
 * row asks for it, the QP enters ERROR between the two halves. No other transition comes in
 * between: only a reset leaves NONOPERATIONAL, and it destroys the connection first, which waits
 * for this upcall.
 */
void ual_ep_feed_event(struct ual_ep *ep, enum ep_stimulus stimulus,
                       const struct ual_connection_event *details)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_request *stale;
    const struct ep_row *row;

    spinlock_lock(&inside->lock);
    row = advance(inside, stimulus, &stale);
    if (row && (row->work & EP_FLUSH)) {
        spinlock_unlock(&inside->lock);
        ual_qp_set_state(&ep->qp, RI_QPS_ERROR);
        spinlock_lock(&inside->lock);
    }
    if (row)
        announce(inside, row, details);
    spinlock_unlock(&inside->lock);
    ual_request_forget_arrival(stale);
}

bool ual_ep_takes(struct ual_ep *ep, enum ep_stimulus stimulus)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    const struct ep_row *row;

    spinlock_lock(&inside->lock);
    row = ep_fsm_step(inside->state, stimulus);
    spinlock_unlock(&inside->lock);
    return row != NULL;
}

/* Returns when no upcall uses it any more. */
struct ual_conn *ual_ep_take_connection(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_conn *connection;

    spinlock_lock(&inside->lock);
    connection = inside->connection;
    inside->connection = NULL;
    while (inside->readers) {
        spinlock_unlock(&inside->lock);
        sched_yield();
        spinlock_lock(&inside->lock);
    }
    spinlock_unlock(&inside->lock);
    return connection;
}

void ual_ep_drop_connection(struct ual_ep *ep)
{
    struct ual_conn *connection = ual_ep_take_connection(ep);

    if (connection)
        ual_conn_free(connection);
}

void ual_ep_set_connection(struct ual_ep *ep, struct ual_conn *connection)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);

    spinlock_lock(&inside->lock);
    inside->connection = connection;
    spinlock_unlock(&inside->lock);
}

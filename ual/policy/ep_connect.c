/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections of endpoints: the consumer's calls and the upcalls become stimuli of the state machine (ep_fsm.c), its rows
 * become messages and work on the QP.
 *
 * A message is pushed under the endpoint's lock together with the transition it belongs to, so messages are queued in
 * the order of the states whatever threads the upcalls come from. The work is done outside the lock: a flush before
 * the message (feed_from_connection), everything else after it, under `control`. News
 * comes from two sides, connection_event (before ESTABLISHED) and qp_event (afterwards); which of them speaks first
 * does not matter: what comes second has no row.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "connect.h"

#include "base/clock.h"
#include "base/trace.h"

#include <stdlib.h>
#include <string.h>

/* --- transitions --- */

static void push_message(struct ual_ep_private *inside, enum ual_connection_message message,
                         const struct ual_connection_event *details)
{
    struct ual_ep *ep = &inside->ep;
    struct ual_event event = { .stream = UAL_STREAM_CONNECTION };
    struct ual_connection_event *c = &event.connection;
    enum ual_status status;

    if (!ep->connect_evd)
        return;
    if (details)
        *c = *details;
    c->message = message;
    c->ep = ep->object.handle;
    c->local = address_storage(&inside->local);
    c->peer = address_storage(&inside->peer);
    if (message == UAL_ESTABLISHED)
        c->request = inside->accepted_id;
    else if (message == UAL_ACCEPT_ARRIVED && inside->arrival)
        c->request = inside->arrival->object.handle;
    status = ual_evd_push_message(ep->connect_evd, &event, &inside->first, &inside->end);
    if (status == UAL_ERR_FULL)
        kal_log(RI_LOG_ERROR,
                "%s: no room for connection message %d of an endpoint; make its connect EVD larger",
                ep->object.device->name, (int)message);
    else if (status != UAL_OK)
        kal_log(RI_LOG_ERROR,
                "%s: no memory for connection message %d of an endpoint, whose earlier ones were "
                "not taken yet; take them sooner, or free memory",
                ep->object.device->name, (int)message);
}

static void take_addresses(struct ual_ep_private *inside,
                           const struct ual_connection_event *details)
{
    if (details->local.ss_family)
        inside->local = address_keep(&details->local);
    if (details->peer.ss_family)
        inside->peer = address_keep(&details->peer);
}

/* Under the lock: the transition inside, of which nobody hears yet. *stale: an identifier that died with it. */
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

/* MPA revision 1 and connections without an exchange of depths agree on nothing: the endpoint's own counts. Under the lock. */
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

/* Under the lock: what the consumer sees of it. */
static void announce(struct ual_ep_private *inside, const struct ep_row *row,
                     const struct ual_connection_event *details)
{
    int before = atomic_load_explicit(&inside->ep.state, memory_order_relaxed);
    int after = (int)ep_fsm_public(row->next);

    if (before != after)
        TRACE3(state, inside->ep.object.handle, before, after);
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
 * News about the connection. Who has the message finds a QP that flushes, so where the row asks for it the QP is put into
 * ERROR between the two halves. Nothing comes in between: NONOPERATIONAL is left by a reset only, which destroys the
 * connection first and so waits for this upcall.
 */
static void feed_from_connection(struct ual_ep *ep, enum ep_stimulus stimulus,
                                 const struct ual_connection_event *details)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_request *stale;
    const struct ep_row *row;

    spinlock_lock(&inside->lock);
    row = advance(inside, stimulus, &stale);
    if (row && (row->work & EP_FLUSH)) {
        spinlock_unlock(&inside->lock);
        ual_ep_modify_qp(ep, RI_QPS_ERROR);
        spinlock_lock(&inside->lock);
    }
    if (row)
        announce(inside, row, details);
    spinlock_unlock(&inside->lock);
    ual_request_forget_arrival(stale);
}

static bool takes(struct ual_ep *ep, enum ep_stimulus stimulus)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    const struct ep_row *row;

    spinlock_lock(&inside->lock);
    row = ep_fsm_step(inside->state, stimulus);
    spinlock_unlock(&inside->lock);
    return row != NULL;
}

/* Afterwards nobody looks at it any more. */
static struct kal_connection *take_connection(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct kal_connection *connection;

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
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct kal_connection *connection = take_connection(ep);

    if (connection)
        kal_connection_destroy(connection);
    free(inside->accepted);
    inside->accepted = NULL;
}

/*
 * Memory for what an attempt that begins is told of first; where there is none the call that begins
 * it fails. The end of what is established needs none: it has inside->end, unless an earlier end is
 * still queued there. Under control.
 */
static enum ual_status provide_first(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct node *node, *surplus;

    if (!ep->connect_evd)
        return UAL_OK;
    node = ual_evd_node(ep->connect_evd, NULL);
    if (!node || ual_evd_own_is_queued(ep->connect_evd, &inside->end)) {
        ual_evd_drop_node(node);
        return UAL_ERR_NO_RESOURCES;
    }
    spinlock_lock(&inside->lock);
    surplus = inside->first;
    inside->first = node;
    spinlock_unlock(&inside->lock);
    ual_evd_drop_node(surplus);
    return UAL_OK;
}

static void set_connection(struct ual_ep *ep, struct kal_connection *connection)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);

    spinlock_lock(&inside->lock);
    inside->connection = connection;
    spinlock_unlock(&inside->lock);
}

static uint16_t depth(uint32_t value)
{
    return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

/* --- connect --- */

static struct ri_connect_param connect_param(const struct ual_ep *ep,
                                             const struct ual_connect *connect)
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .source = connect->source,
        .destination = connect->destination,
        .service_id = connect->service_id,
        .deadline = RI_NO_DEADLINE,
        .private_data = connect->private_data,
        .private_data_length = connect->private_data_length,
        .ird = depth(ep->attr.ird),
        .ord = depth(ep->attr.ord),
        .negotiate_depths = connect->negotiate_depths,
        .three_way = connect->three_way,
        .retry_count = connect->retry_count,
        .rnr_retry_count = connect->rnr_retry_count,
        .max_cm_retries = connect->max_cm_retries,
        .local_ack_timeout = connect->local_ack_timeout,
        .local_cm_timeout = connect->local_cm_timeout,
        .remote_cm_timeout = connect->remote_cm_timeout,
        .tuned = connect->tuned,
    };

    if (connect->timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        param.deadline = clock_after(clock_now(), connect->timeout_us * CLOCK_NS_PER_US);
    return param;
}

static enum ual_status check_connect(const struct ual_ep *ep, const struct ual_connect *connect)
{
    const struct ri_rnic_attr *attr = ual_device_attr(ep->object.device);

    if (!connect->destination || (connect->private_data_length && !connect->private_data))
        return UAL_ERR_INVALID_ARGUMENT;
    if (connect->private_data_length > attr->connect_private_data)
        return UAL_ERR_LIMIT;
    if (connect->three_way && !(attr->features & RI_FEATURE_THREE_WAY))
        return UAL_ERR_NOT_SUPPORTED;
    return ual_device_alive(ep->object.device);
}

/*
 * The call failed at once. The state goes back, unless the connection ended meanwhile and its message
 * is on the way: then the consumer hears from that, and the call has succeeded.
 */
static enum ual_status not_started(struct ual_ep *ep, enum ual_status status)
{
    if (!ual_ep_feed(ep, EP_NOT_STARTED, NULL, NULL))
        return UAL_OK;
    ual_ep_drop_connection(ep);
    return status;
}

static enum ual_status start_connect(struct ual_ep *ep, const struct ual_connect *connect)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ri_connect_param param = connect_param(ep, connect);
    struct ual_device *device = ep->object.device;
    struct kal_connection *connection;
    enum ual_status status;

    spinlock_lock(&inside->lock);
    inside->accepted_id = 0;
    address_set(&inside->local, connect->source);
    address_set(&inside->peer, connect->destination);
    spinlock_unlock(&inside->lock);
    status = provide_first(ep);
    if (status == UAL_OK)
        status = ual_status_of_kal(
            kal_connection_create(device->rnic, ual_ep_lane(ep), ep, &connection));
    if (status != UAL_OK)
        return not_started(ep, status);
    set_connection(ep, connection);
    status = ual_status_of_kal(kal_connect(connection, ep->qp, &param));
    return status == UAL_OK ? UAL_OK : not_started(ep, status);
}

enum ual_status ual_ep_connect(struct ual_ep *ep, const struct ual_connect *connect)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = check_connect(ep, connect);

    if (status != UAL_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    status = ual_ep_feed(ep, EP_CONNECT, NULL, NULL) ? start_connect(ep, connect)
                                                     : UAL_ERR_INVALID_STATE;
    pthread_mutex_unlock(&inside->control);
    return status;
}

/* --- accept, reject --- */

static struct ri_connect_param accept_param(const struct ual_ep *ep, bool negotiate,
                                            const void *private_data, uint16_t length)
{
    return (struct ri_connect_param){
        .size = sizeof(struct ri_connect_param),
        .deadline = RI_NO_DEADLINE,
        .private_data = private_data,
        .private_data_length = length,
        .ird = depth(ep->attr.ird),
        .ord = depth(ep->attr.ord),
        .negotiate_depths = negotiate,
    };
}

/* Third leg. The identifier is used up on success; ESTABLISHED or the failure of the leg follows as an event. */
static enum ual_status confirm(struct ual_ep *ep, struct ual_request *request,
                               const struct ri_connect_param *param)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status;

    if (request->ep != ep) {
        ual_request_unclaim(request, false);
        return UAL_ERR_INVALID_HANDLE;
    }
    if (!ual_ep_feed(ep, EP_CONFIRM, NULL, NULL)) {
        ual_request_unclaim(request, false);
        return UAL_ERR_INVALID_STATE;
    }
    status = provide_first(ep);
    if (status == UAL_OK)
        status = ual_status_of_kal(kal_confirm(inside->connection, param));
    if (status != UAL_OK) {
        ual_request_unclaim(request, false);
        return status;
    }
    spinlock_lock(&inside->lock);
    if (inside->arrival == request)
        inside->arrival = NULL;
    spinlock_unlock(&inside->lock);
    ual_request_consume_arrival(request);
    return UAL_OK;
}

enum ual_status ual_request_decided(enum kal_status status)
{
    return status == KAL_ERR_INVALID_STATE ? UAL_ERR_INVALID_HANDLE : ual_status_of_kal(status);
}

static enum ual_status start_accept(struct ual_ep *ep, struct ual_request *request,
                                    const struct ri_connect_param *param)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status;

    spinlock_lock(&inside->lock);
    inside->accepted_id = request->object.handle;
    inside->local = request->ends->local;
    inside->peer = request->ends->peer;
    inside->connection = request->connection;
    spinlock_unlock(&inside->lock);
    status = provide_first(ep);
    if (status == UAL_OK && !ual_request_attach(request, ep))
        status = UAL_ERR_INVALID_HANDLE;
    if (status == UAL_OK) {
        kal_place(request->connection, ual_ep_lane(ep));
        status = ual_request_decided(kal_accept(request->connection, ep->qp, param));
    }
    if (status != UAL_OK && ual_ep_feed(ep, EP_NOT_STARTED, NULL, NULL)) {
        take_connection(ep);
        ual_request_attach(request, NULL);
        ual_request_unclaim(request, status == UAL_ERR_INVALID_HANDLE);
        return status;
    }
    ual_request_consume_accepted(request);
    inside->accepted = request;
    return UAL_OK;
}

static enum ual_status accept_claimed(struct ual_ep *ep, struct ual_request *request,
                                      bool negotiate, const void *private_data, uint16_t length)
{
    struct ri_connect_param param = accept_param(ep, negotiate && request->negotiate, private_data,
                                                 length);
    enum ual_status status = UAL_OK;

    if (request->arrival)
        return confirm(ep, request, &param);
    if (request->object.device != ep->object.device || request->datagram)
        status = UAL_ERR_INVALID_HANDLE;
    else if (!ual_ep_feed(ep, EP_ACCEPT, NULL, NULL))
        status = UAL_ERR_INVALID_STATE;
    if (status == UAL_OK)
        return start_accept(ep, request, &param);
    ual_request_unclaim(request, false);
    return status;
}

enum ual_status ual_ep_accept(struct ual_ep *ep, ual_handle handle, bool negotiate,
                              const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = ual_device_alive(ep->object.device);
    struct ual_request *request;

    if (status != UAL_OK)
        return status;
    if (length && !private_data)
        return UAL_ERR_INVALID_ARGUMENT;
    if (length > ual_device_attr(ep->object.device)->accept_private_data)
        return UAL_ERR_LIMIT;
    pthread_mutex_lock(&inside->control);
    request = ual_request_claim(handle);
    status = request ? accept_claimed(ep, request, negotiate, private_data, length)
                     : ual_lookup_failed();
    pthread_mutex_unlock(&inside->control);
    return status;
}

static enum ual_status reject_arrival(struct ual_request *request, const void *private_data,
                                      uint16_t length)
{
    struct ual_ep *ep = request->ep;
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = UAL_ERR_INVALID_HANDLE;

    pthread_mutex_lock(&inside->control);
    if (takes(ep, EP_REJECT))
        status = ual_status_of_kal(kal_reject(inside->connection, private_data, length));
    if (status == UAL_OK) {
        ual_ep_modify_qp(ep, RI_QPS_ERROR);
        spinlock_lock(&inside->lock);
        inside->arrival = NULL;
        spinlock_unlock(&inside->lock);
        ual_ep_feed(ep, EP_REJECT, NULL, NULL);
        ual_request_consume_arrival(request);
    } else {
        ual_request_unclaim(request, false);
    }
    pthread_mutex_unlock(&inside->control);
    return status;
}

static enum ual_status reject_claimed(struct ual_request *request, const void *private_data,
                                      uint16_t length)
{
    enum ual_status status = ual_device_alive(request->object.device);

    if (status == UAL_OK && request->datagram)
        status = UAL_ERR_INVALID_HANDLE;
    if (status == UAL_OK && length > ual_device_attr(request->object.device)->reject_private_data)
        status = UAL_ERR_LIMIT;
    if (status != UAL_OK) {
        ual_request_unclaim(request, false);
        return status;
    }
    if (request->arrival)
        return reject_arrival(request, private_data, length);
    status = ual_request_decided(kal_reject(request->connection, private_data, length));
    if (status == UAL_OK)
        ual_request_consume_rejected(request);
    else
        ual_request_unclaim(request, status == UAL_ERR_INVALID_HANDLE);
    return status;
}

enum ual_status ual_reject(ual_handle handle, const void *private_data, uint16_t length)
{
    struct ual_request *request;

    if (length && !private_data)
        return UAL_ERR_INVALID_ARGUMENT;
    request = ual_request_claim(handle);
    return request ? reject_claimed(request, private_data, length) : ual_lookup_failed();
}

/* --- disconnect --- */

static void abort_attempt(struct ual_ep *ep)
{
    ual_ep_drop_connection(ep);
    ual_ep_modify_qp(ep, RI_QPS_ERROR);
    ual_ep_feed(ep, EP_ABORTED, NULL, NULL);
}

/* The end follows as an upcall; where the close cannot be started the connection is cut and has ended here. */
static void start_close(struct ual_ep *ep, const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);

    if (length > ual_device_attr(ep->object.device)->disconnect_private_data)
        length = 0; /* delivery is not promised, and this transport has no place for it */
    if (kal_disconnect(inside->connection, ep->qp, length ? private_data : NULL, length) == KAL_OK)
        return;
    ual_ep_modify_qp(ep, RI_QPS_ERROR);
    ual_ep_feed(ep, EP_ENDED, NULL, NULL);
}

enum ual_status ual_ep_disconnect(struct ual_ep *ep, const void *private_data, uint16_t length)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = ual_device_alive(ep->object.device);
    const struct ep_row *row;

    if (status != UAL_OK)
        return status;
    if (length && !private_data)
        return UAL_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&inside->control);
    if (!ual_ep_feed(ep, EP_DISCONNECT, NULL, &row))
        status = UAL_ERR_INVALID_STATE;
    else if (row->work & EP_CLOSE)
        start_close(ep, private_data, length);
    else
        abort_attempt(ep);
    pthread_mutex_unlock(&inside->control);
    return status;
}

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

/* The identifier is there before the message that carries it. */
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

static struct ual_ep *ep_of_context(void *connection_context)
{
    struct ual_object *object = connection_context;

    return object->type == UAL_EP ? connection_context : ual_request_route(connection_context);
}

void ual_ep_connection_event(void *connection_context, const struct ri_connection_event *event)
{
    struct ual_object *object = connection_context;
    struct ual_ep *ep = object->type == UAL_UD_REQUEST ? NULL : ep_of_context(connection_context);
    enum ep_stimulus stimulus = stimulus_of(event->type);
    struct ual_connection_event details;

    if (object->type == UAL_UD_REQUEST)
        ual_ud_request_event((struct ual_ud_request *)object, event);
    if (!ep || stimulus == EP_STIMULI)
        return;
    describe(&details, event);
    if (stimulus == EP_ACCEPT_ARRIVED && !prepare_arrival(ep)) {
        stimulus = EP_FAILED;
        details.reason = RI_REASON_RESOURCES;
    }
    feed_from_connection(ep, stimulus, &details);
}

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

/* A peer's Terminate may fail a request of ours: then its completion tells. Sends and Writes have mostly completed before. */
static bool explained(const struct ri_event *event)
{
    return event->type == RI_EVENT_TERMINATE_RECEIVED && event->explained;
}

/* An end in order, or one that this side asked for, is no trouble. */
static enum ri_log_level level_of_end(const struct ep_row *row)
{
    bool trouble = row->message == UAL_BROKEN || row->message == UAL_NONPEER_REJECTED;

    return trouble ? RI_LOG_WARNING : RI_LOG_INFO;
}

/* The peer-to-peer model: the peer's first message is there. The connection knows the rest. */
static void established_by_peer(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ri_connection_event info = { .size = sizeof(info), .type = RI_CONNECTION_ESTABLISHED };
    struct ual_connection_event details;
    struct kal_connection *connection;

    spinlock_lock(&inside->lock);
    connection = inside->connection;
    if (connection)
        inside->readers++;
    spinlock_unlock(&inside->lock);
    if (!connection)
        return;
    kal_connection_info(connection, &info);
    spinlock_lock(&inside->lock);
    inside->readers--;
    spinlock_unlock(&inside->lock);
    describe(&details, &info);
    ual_ep_feed(ep, EP_ESTABLISHED, &details, NULL);
}

void ual_ep_qp_event(void *qp_context, const struct ri_event *event)
{
    struct ual_ep *ep = (struct ual_ep *)ual_handle_object((ual_handle)qp_context);
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
        ual_ia_affiliated_event(ep->object.device, event, ep->object.handle);
}

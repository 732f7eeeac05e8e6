/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection verbs of set A over channels of messages: see rnicpi_set_a.h. */
#include "rnicpi_set_a.h"
#include "rnicpi_util.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE UINT64_C(30000000000) /* ns; unless the user gives a deadline */

/* What a connection has to tell, in this order. */
enum { DUE_RESOLVED = 1, DUE_REQUEST = 2, DUE_ESTABLISHED = 4, DUE_END = 8 };

static uint64_t deadline_of(const struct ri_mem_connection *c, const struct ri_connect_param *param)
{
    return param && param->deadline != RI_NO_DEADLINE ? param->deadline
                                                      : c->set->carrier->now() + PATIENCE;
}

/* ---- life ---- */

static bool connection_report(struct ri_deferred *deferred);
static void end_silently(struct ri_mem_connection *c, enum ri_event_type cause, uint16_t code,
                         bool explained);

void ri_set_a_open(struct ri_set_a *set, struct ri_mem_rnic *rnic, const struct ri_carrier *carrier)
{
    assert(!rnic->attr->disconnect_private_data); /* no message has it */
    set->rnic = rnic;
    set->carrier = carrier;
    TAILQ_INIT(&set->connections);
    rnic->set_a = set;
}

static struct ri_mem_connection *connection_new(struct ri_set_a *set, void *context)
{
    struct ri_mem_connection *c = calloc(1, set->carrier->connection_size);

    if (!c)
        return NULL;
    c->base = (struct ri_connection){ set->rnic->base.ops, context };
    c->set = set;
    c->deferred.make = connection_report;
    c->deadline = RI_NO_DEADLINE;
    return c;
}

void ri_set_a_drop(struct ri_mem_connection *c)
{
    if (c->set->carrier->release)
        c->set->carrier->release(c);
    free(c);
}

struct ri_mem_connection *ri_set_a_incoming(struct ri_set_a *set, struct ri_mem_listener *listener)
{
    struct ri_mem_connection *c = connection_new(set, NULL);

    if (!c)
        return NULL;
    c->destroyed = true; /* nobody has heard of it */
    c->listener = listener;
    c->datagram = listener->datagram;
    c->state = RI_CM_GREETING;
    c->deadline = deadline_of(c, NULL);
    return c;
}

void ri_set_a_opened(struct ri_mem_connection *c)
{
    c->open = true;
    TAILQ_INSERT_TAIL(&c->set->connections, c, link);
}

static void undecided_no_more(struct ri_mem_connection *c)
{
    if (c->listener && c->state == RI_CM_UNDECIDED)
        c->listener->undecided--;
    c->listener = NULL;
}

void ri_set_a_closed(struct ri_mem_connection *c)
{
    struct ri_mem_rnic *rnic = c->set->rnic;
    bool last;

    pthread_mutex_lock(&rnic->lock);
    TAILQ_REMOVE(&c->set->connections, c, link);
    c->open = false;
    undecided_no_more(c); /* the listener does not find it any more when it goes */
    last = c->destroyed;
    if (last)
        ri_upcall_cancel(&rnic->upcalls, &c->deferred, NULL);
    pthread_mutex_unlock(&rnic->lock);
    if (last)
        ri_set_a_drop(c);
}

static void close_channel(struct ri_mem_connection *c)
{
    if (!c->open || c->closing)
        return;
    c->closing = true;
    c->set->carrier->close(c);
}

/* ---- what is reported ---- */

static void report(struct ri_mem_connection *c, uint32_t what)
{
    if (c->destroyed && what != DUE_REQUEST)
        return; /* nobody has heard of it */
    c->due |= what;
    ri_upcall_defer(&c->set->rnic->upcalls, &c->deferred);
}

/* {request} The host keeps nothing of it. The peer may have left while it was told, and the channel
 * may be closed. */
static void forget_request(struct ri_mem_connection *c)
{
    struct ri_mem_rnic *rnic = c->set->rnic;

    rnic->count[RI_MEM_OTHERS]--;
    c->destroyed = true;
    end_silently(c, 0, 0, false);
    ri_upcall_cancel(&rnic->upcalls, &c->deferred, NULL);
    c->due = 0;
}

/* False: the connection is gone. */
static bool report_request(struct ri_mem_connection *c)
{
    struct ri_mem_rnic *rnic = c->set->rnic;
    struct ri_mem_listener *listener = c->listener;
    const struct ri_connect_request request = { .size = sizeof(request),
                                                .local = c->local,
                                                .peer = c->peer,
                                                .private_data = c->data_length ? c->data : NULL,
                                                .private_data_length = c->data_length,
                                                .ird = c->ird,
                                                .ord = c->ord,
                                                .depths_valid = c->negotiate,
                                                .datagram = c->datagram };
    void *context = NULL;

    rnic->count[RI_MEM_OTHERS]++;
    c->destroyed = false;
    rnic->upcalls.about = listener;
    pthread_mutex_unlock(&rnic->lock);
    rnic->host->connection_request(rnic->host, listener->base.context, &c->base, &request,
                                   &context);
    pthread_mutex_lock(&rnic->lock);
    c->base.context = context;
    if (context)
        return true;
    forget_request(c);
    if (c->open)
        return true;
    ri_set_a_drop(c);
    return false;
}

static void report_event(struct ri_mem_connection *c, const struct ri_connection_event *event)
{
    struct ri_connection_event full = *event;
    struct ri_mem_rnic *rnic = c->set->rnic;

    full.size = sizeof(full);
    full.local = c->local;
    full.peer = c->peer;
    full.private_data = full.private_data_length ? c->data : NULL;
    pthread_mutex_unlock(&rnic->lock);
    rnic->host->connection_event(rnic->host, c->base.context, &full);
    pthread_mutex_lock(&rnic->lock);
}

/* The first of what there is to tell. */
static bool connection_report(struct ri_deferred *deferred)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)((char *)deferred -
                                                               offsetof(struct ri_mem_connection,
                                                                        deferred));
    uint32_t what = c->due & -c->due;

    c->due &= ~what;
    switch (what) {
    case DUE_RESOLVED:
        report_event(c, &(struct ri_connection_event){ .type = RI_CONNECTION_RESOLVED });
        break;
    case DUE_REQUEST:
        if (!report_request(c))
            return false;
        break;
    case DUE_ESTABLISHED:
        report_event(c, &(struct ri_connection_event){ .type = RI_CONNECTION_ESTABLISHED,
                                                       .private_data_length = c->data_length,
                                                       .ird = c->ird,
                                                       .ord = c->ord,
                                                       .depths_valid = c->negotiate });
        break;
    case DUE_END: report_event(c, &c->end); break;
    default: break;
    }
    return c->due;
}

/* ---- the end ---- */

/* Without an event: the QP, if it was in use, the channel, the state. */
static void end_silently(struct ri_mem_connection *c, enum ri_event_type cause, uint16_t code,
                         bool explained)
{
    struct ri_mem_qp *qp = c->qp;

    undecided_no_more(c);
    c->due &= ~(uint32_t)DUE_REQUEST;
    c->state = RI_CM_ENDED;
    c->deadline = RI_NO_DEADLINE;
    c->qp = NULL;
    close_channel(c);
    if (!qp)
        return;
    qp->connection = NULL;
    if (qp->state == RI_QPS_RTS)
        ri_mem_qp_end(qp, cause, code, explained);
}

static void end_with(struct ri_mem_connection *c, enum ri_connection_event_type type,
                     enum ri_connection_reason reason)
{
    end_silently(c, 0, 0, false);
    c->end = (struct ri_connection_event){ .type = type,
                                           .reason = reason,
                                           .private_data_length = c->data_length };
    report(c, DUE_END);
}

void ri_set_a_end(struct ri_mem_connection *c, enum ri_event_type cause, uint16_t code,
                  bool explained)
{
    bool was = c->state == RI_CM_CONNECTED;

    if (c->state == RI_CM_ENDED)
        return;
    end_silently(c, cause, code, explained);
    c->data_length = 0;
    c->end = (struct ri_connection_event){ .type = was ? RI_CONNECTION_DISCONNECTED
                                                       : RI_CONNECTION_FAILED };
    report(c, DUE_END);
}

void ri_set_a_left(struct ri_mem_connection *c)
{
    c->data_length = 0;
    if (c->state == RI_CM_GREETING)
        end_silently(c, 0, 0, false);
    else if (c->state == RI_CM_CONNECTING)
        end_with(c, RI_CONNECTION_FAILED, RI_REASON_REFUSED);
    else if (c->datagram && c->state == RI_CM_UNDECIDED && !c->destroyed)
        close_channel(c); /* who answers does not hear of it: the answer is lost */
    else
        ri_set_a_end(c, 0, 0, false);
}

uint64_t ri_set_a_expire(struct ri_set_a *set)
{
    uint64_t next = RI_NO_DEADLINE;
    struct ri_mem_connection *c;

    TAILQ_FOREACH(c, &set->connections, link)
    {
        if (c->deadline == RI_NO_DEADLINE)
            continue;
        if (c->deadline > set->carrier->now())
            next = c->deadline < next ? c->deadline : next;
        else if (c->state == RI_CM_GREETING)
            end_silently(c, 0, 0, false);
        else
            end_with(c, RI_CONNECTION_FAILED, RI_REASON_TIMEOUT);
    }
    return next;
}

void ri_set_a_listens(struct ri_set_a *set, struct ri_mem_listener *listener)
{
    listener->undecided = 0;
    set->rnic->count[RI_MEM_OTHERS]++;
}

void ri_set_a_forget(struct ri_set_a *set, struct ri_mem_listener *listener)
{
    struct ri_mem_connection *c;

    set->rnic->count[RI_MEM_OTHERS]--;
    ri_upcall_cancel(&set->rnic->upcalls, NULL, listener);
    TAILQ_FOREACH(c, &set->connections, link)
    {
        if (c->listener != listener)
            continue;
        if (c->state != RI_CM_GREETING && !c->destroyed) {
            c->listener = NULL;
            continue; /* the user decides */
        }
        ri_upcall_cancel(&set->rnic->upcalls, &c->deferred, NULL);
        end_silently(c, 0, 0, false);
    }
}

uint32_t ri_set_a_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                           uint64_t *next_deadline)
{
    struct ri_mem_rnic *rnic = ri_mem_rnic_of_lane(lane);
    uint64_t next, never;

    pthread_mutex_lock(&rnic->lock);
    next = ri_set_a_expire(rnic->set_a);
    pthread_mutex_unlock(&rnic->lock);
    *next_deadline = next;
    return ri_mem_progress(lane, first, budget, &never);
}

void ri_set_a_part(struct ri_mem_qp *qp)
{
    if (qp->connection && qp->state == RI_QPS_RTS)
        ri_set_a_end(qp->connection, 0, 0, false);
    if (qp->connection)
        qp->connection->qp = NULL;
    qp->connection = NULL;
}

/* ---- messages ---- */

/* `most`: what ri_rnic_attr states; a message has no more room, whatever it states. */
static bool is_too_long(uint32_t length, uint32_t most)
{
    return length > most || length > RI_MAX_PRIVATE_DATA;
}

/* Octets of private data that the attributes state for a message of that type. */
static uint32_t most_data(const struct ri_mem_connection *c, uint32_t type)
{
    const struct ri_rnic_attr *most = c->set->rnic->attr;

    switch (type) {
    case RI_CM_REQUEST:
        return c->datagram ? most->service_request_private_data : most->connect_private_data;
    case RI_CM_ACCEPT: return most->accept_private_data;
    case RI_CM_REJECT: return most->reject_private_data;
    case RI_CM_REPLY: return most->service_reply_private_data;
    default: return 0;
    }
}

static struct ri_cm_message message_of(const struct ri_mem_connection *c, uint32_t type,
                                       const void *data, uint16_t length)
{
    struct ri_cm_message message = { .type = type,
                                     .length = length,
                                     .ird = c->ird,
                                     .ord = c->ord,
                                     .negotiate = c->negotiate,
                                     .source = c->local,
                                     .destination = c->peer };

    if (length)
        memcpy(message.data, data, length);
    return message;
}

static uint16_t smaller(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

static void keep_data(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    c->data_length = (uint16_t)message->length;
    memcpy(c->data, message->data, message->length);
}

static void on_request(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    struct ri_mem_listener *listener = c->listener;

    if (!listener || listener->undecided >= listener->backlog) {
        c->listener = NULL;
        end_silently(c, 0, 0, false);
        return;
    }
    listener->undecided++;
    keep_data(c, message);
    c->state = RI_CM_UNDECIDED;
    c->deadline = RI_NO_DEADLINE;
    c->ird = message->ird;
    c->ord = message->ord;
    c->negotiate = message->negotiate;
    c->local = message->destination;
    c->peer = message->source;
    report(c, DUE_REQUEST);
}

static void established(struct ri_mem_connection *c)
{
    c->state = RI_CM_CONNECTED;
    c->deadline = RI_NO_DEADLINE;
    report(c, DUE_ESTABLISHED);
}

static void on_accept(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    struct ri_cm_message ready = message_of(c, RI_CM_READY, NULL, 0);
    struct ri_mem_qp *qp = c->qp;

    if (!qp || qp->state != RI_QPS_IDLE || !c->set->carrier->send(c, &ready)) {
        end_with(c, RI_CONNECTION_FAILED, RI_REASON_OTHER);
        return;
    }
    keep_data(c, message);
    if (c->negotiate) {
        c->ird = smaller(c->ird, message->ord);
        c->ord = smaller(c->ord, message->ird);
    }
    qp->ird = c->ird;
    qp->ord = c->ord;
    qp->state = RI_QPS_RTS;
    established(c);
}

static void on_reply(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    keep_data(c, message);
    end_silently(c, 0, 0, false);
    c->end = (struct ri_connection_event){ .type = RI_CONNECTION_SERVICE_REPLY,
                                           .private_data_length = c->data_length,
                                           .service_status = message->status,
                                           .remote_qpn = message->qpn,
                                           .remote_qkey = message->qkey,
                                           .path = c->path };
    report(c, DUE_END);
}

void ri_set_a_message(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    if (is_too_long(message->length, most_data(c, message->type)))
        ri_set_a_left(c);
    else if (message->type == RI_CM_REQUEST && c->state == RI_CM_GREETING)
        on_request(c, message);
    else if (message->type == RI_CM_READY && c->state == RI_CM_ACCEPTED)
        established(c);
    else if (message->type == RI_CM_ACCEPT && c->state == RI_CM_CONNECTING && !c->datagram)
        on_accept(c, message);
    else if (message->type == RI_CM_REPLY && c->state == RI_CM_CONNECTING && c->datagram)
        on_reply(c, message);
    else if (message->type == RI_CM_REJECT && c->state == RI_CM_CONNECTING) {
        keep_data(c, message);
        end_with(c, RI_CONNECTION_REJECTED, RI_REASON_OTHER);
    } else
        ri_set_a_left(c); /* no peer of ours sends that */
}

/* ---- verbs ---- */

enum ri_status ri_mem_connection_create(struct ri_rnic *base, void *context,
                                        struct ri_connection **out)
{
    struct ri_mem_rnic *rnic = (struct ri_mem_rnic *)base;
    struct ri_mem_connection *c = connection_new(rnic->set_a, context);

    if (!c)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&rnic->lock);
    rnic->count[RI_MEM_OTHERS]++;
    pthread_mutex_unlock(&rnic->lock);
    *out = &c->base;
    return RI_OK;
}

enum ri_status ri_mem_connection_destroy(struct ri_connection *base)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    struct ri_mem_rnic *rnic = c->set->rnic;
    bool last;

    pthread_mutex_lock(&rnic->lock);
    end_silently(c, 0, 0, false);
    ri_upcall_cancel(&rnic->upcalls, &c->deferred, NULL);
    c->destroyed = true;
    last = !c->open;
    rnic->count[RI_MEM_OTHERS]--;
    pthread_mutex_unlock(&rnic->lock);
    if (last)
        ri_set_a_drop(c);
    return RI_OK;
}

enum ri_status ri_mem_resolve(struct ri_connection *base, const struct ri_connect_param *param)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    uint16_t port;
    enum ri_status status = c->set->carrier->port_of(param->destination, param->service_id, false,
                                                     &port);

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&c->set->rnic->lock);
    report(c, DUE_RESOLVED);
    pthread_mutex_unlock(&c->set->rnic->lock);
    return RI_OK;
}

void ri_set_a_from(struct ri_mem_connection *c, struct ri_cm_message *request, uint16_t port)
{
    ri_address_set_port(&c->local, port);
    request->source = c->local;
}

/* Under the lock. A peer that is not there is reported later, as a network would. */
static enum ri_status start(struct ri_mem_connection *c, const struct ri_connect_param *param,
                            uint16_t port)
{
    const struct ri_carrier *carrier = c->set->carrier;
    enum ri_connection_reason reason = RI_REASON_OTHER;
    struct ri_cm_message message;
    enum ri_status status;

    ri_address_copy(&c->local, param->source ? param->source : carrier->source);
    ri_address_copy(&c->peer, param->destination);
    c->ird = param->ird;
    c->ord = param->ord;
    c->negotiate = param->negotiate_depths;
    message = message_of(c, RI_CM_REQUEST, param->private_data, param->private_data_length);
    status = carrier->start(c, port, &message, &reason);
    if (status != RI_OK)
        return status;
    if (reason == RI_REASON_REFUSED && c->datagram) {
        on_reply(c, &(struct ri_cm_message){ .status = RI_SERVICE_NOT_SUPPORTED });
    } else if (reason != RI_REASON_OTHER) {
        end_with(c, RI_CONNECTION_FAILED, reason);
    } else {
        c->state = RI_CM_CONNECTING;
        c->deadline = deadline_of(c, param);
    }
    return RI_OK;
}

/* What connect and accept ask for, which become messages of that type. */
static bool is_beyond(const struct ri_mem_connection *c, uint32_t type,
                      const struct ri_connect_param *param)
{
    const struct ri_rnic_attr *most = c->set->rnic->attr;

    return is_too_long(param->private_data_length, most_data(c, type)) ||
           param->ird > most->max_ird || param->ord > most->max_ord;
}

static bool is_free(const struct ri_mem_qp *qp)
{
    return qp->type == RI_QP_RC && qp->state == RI_QPS_IDLE && !qp->connection;
}

static void join(struct ri_mem_connection *c, struct ri_mem_qp *qp)
{
    c->qp = qp;
    qp->connection = c;
}

enum ri_status ri_mem_connect(struct ri_connection *base, struct ri_qp *ri_qp,
                              const struct ri_connect_param *param)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    struct ri_mem_qp *qp = (struct ri_mem_qp *)ri_qp;
    uint16_t port;
    enum ri_status status = c->set->carrier->port_of(param->destination, param->service_id, false,
                                                     &port);

    if (status != RI_OK)
        return status;
    if (param->three_way)
        return RI_ERR_NOT_SUPPORTED;
    if (is_beyond(c, RI_CM_REQUEST, param))
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->set->rnic->lock);
    status = c->state == RI_CM_NEW && is_free(qp) ? start(c, param, port) : RI_ERR_INVALID_STATE;
    if (status == RI_OK && c->state == RI_CM_CONNECTING)
        join(c, qp);
    pthread_mutex_unlock(&c->set->rnic->lock);
    return status;
}

enum ri_status ri_mem_service_request(struct ri_connection *base,
                                      const struct ri_connect_param *param)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    uint16_t port;
    enum ri_status status = c->set->carrier->port_of(param->destination, param->service_id, true,
                                                     &port);

    if (status != RI_OK)
        return status;
    if (is_too_long(param->private_data_length, c->set->rnic->attr->service_request_private_data))
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->set->rnic->lock);
    c->datagram = true;
    status = c->state == RI_CM_NEW ? start(c, param, port) : RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&c->set->rnic->lock);
    return status;
}

/* The depths are decided here: none is larger than what the other side has. */
enum ri_status ri_mem_accept(struct ri_connection *base, struct ri_qp *ri_qp,
                             const struct ri_connect_param *param)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    struct ri_mem_qp *qp = (struct ri_mem_qp *)ri_qp;
    enum ri_status status = RI_ERR_INVALID_STATE;
    struct ri_cm_message message;
    uint16_t peers;
    bool agree;

    if (is_beyond(c, RI_CM_ACCEPT, param))
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->set->rnic->lock);
    agree = c->negotiate && param->negotiate_depths;
    if (c->state == RI_CM_UNDECIDED && !c->datagram && is_free(qp)) {
        peers = c->ird;
        c->ird = agree ? smaller(param->ird, c->ord) : param->ird;
        c->ord = agree ? smaller(param->ord, peers) : param->ord;
        message = message_of(c, RI_CM_ACCEPT, param->private_data, param->private_data_length);
        status = c->set->carrier->send(c, &message) ? RI_OK : RI_ERR_INVALID_STATE;
    }
    if (status == RI_OK) {
        undecided_no_more(c);
        c->state = RI_CM_ACCEPTED;
        c->deadline = deadline_of(c, param);
        c->data_length = 0;
        join(c, qp);
        qp->ird = c->ird;
        qp->ord = c->ord;
        qp->state = RI_QPS_RTS;
    }
    pthread_mutex_unlock(&c->set->rnic->lock);
    return status;
}

/* The last message of an undecided request. */
static enum ri_status answer(struct ri_mem_connection *c, const struct ri_cm_message *message,
                             bool datagram)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&c->set->rnic->lock);
    if (c->state == RI_CM_UNDECIDED && c->datagram == datagram) {
        if (c->open && !c->closing)
            c->set->carrier->send(c, message);
        end_silently(c, 0, 0, false);
        status = RI_OK;
    }
    pthread_mutex_unlock(&c->set->rnic->lock);
    return status;
}

enum ri_status ri_mem_reject(struct ri_connection *base, const void *data, uint16_t length)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    struct ri_cm_message message;

    if (is_too_long(length, most_data(c, RI_CM_REJECT)))
        return RI_ERR_LIMIT;
    message = message_of(c, RI_CM_REJECT, data, length);
    return answer(c, &message, false);
}

enum ri_status ri_mem_service_reply(struct ri_connection *base,
                                    const struct ri_service_reply *reply)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    struct ri_cm_message message;

    if (is_too_long(reply->private_data_length, most_data(c, RI_CM_REPLY)))
        return RI_ERR_LIMIT;
    message = message_of(c, RI_CM_REPLY, reply->private_data, reply->private_data_length);
    message.status = reply->status;
    if (reply->status == RI_SERVICE_VALID) {
        message.qpn = ((struct ri_mem_qp *)reply->qp)->number;
        message.qkey = reply->qkey;
    }
    return answer(c, &message, true);
}

enum ri_status ri_mem_disconnect(struct ri_connection *base, const void *data, uint16_t length)
{
    struct ri_mem_connection *c = (struct ri_mem_connection *)base;
    enum ri_status status = RI_OK;

    (void)data;
    if (length)
        return RI_ERR_LIMIT;
    pthread_mutex_lock(&c->set->rnic->lock);
    if (c->state == RI_CM_CONNECTED)
        ri_set_a_end(c, 0, 0, false);
    else if (c->state == RI_CM_CONNECTING || c->state == RI_CM_ACCEPTED)
        end_silently(c, 0, 0, false);
    else
        status = RI_ERR_INVALID_STATE;
    pthread_mutex_unlock(&c->set->rnic->lock);
    return status;
}

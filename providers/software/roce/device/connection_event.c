/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the connection manager says, noted under its lock and reported in the lane.
 */
#include "connection.h"

#include "providers/software/core/post.h"

#include <stdlib.h>
#include <utlist.h>

/* --- noting: under cm.lock --- */

/* Messages have private data of fixed length, filled up by zeros: all zeros means none. */
static uint16_t data_length(const uint8_t *octets, uint32_t length)
{
    uint8_t any = 0;

    for (uint32_t i = 0; i < length; i++)
        any |= octets[i];
    return any ? (uint16_t)length : 0;
}

static void keep_opening(struct roce_connection *c, const struct cm_message *message,
                         uint32_t header)
{
    uint32_t length = message->private_len - header;

    c->opening_length = data_length(message->private_data + header, length);
    memcpy(c->opening, message->private_data + header, length);
}

/* Addresses of rdma_cm, or of the packet where there is no header. Returns its length. */
static uint32_t take_addresses(struct roce_connection *c, const struct cm_message *message,
                               uint64_t service_id)
{
    struct cma_header header;
    enum cma_port_space space;
    uint16_t port;

    if (!cma_split_service_id(service_id, &space, &port) ||
        cma_get(message->private_data, message->private_len, &header) != CMA_OK) {
        roce_gid_address(c->cm.address.own, 0, &c->local);
        roce_gid_address(c->cm.address.peer, 0, &c->peer);
        return 0;
    }
    roce_gid_address(c->cm.address.own, port, &c->local);
    roce_gid_address(c->cm.address.peer, header.source_port, &c->peer);
    return CMA_HEADER_LEN;
}

static void note_req(struct roce_connection *c, const struct cm_message *message)
{
    const struct cm_req *req = &message->req;

    c->qp_type = req->transport_service_type == CM_TRANSPORT_UC ? RI_QP_UC : RI_QP_RC;
    c->peer_ird = req->responder_resources;
    c->peer_ord = req->initiator_depth;
    c->numbers = (struct ri_connection_numbers){
        .size = sizeof(c->numbers),
        .destination_qpn = req->local_qpn,
        .receive_psn = roce_random_psn(),
        .send_psn = req->starting_psn,
        .path_mtu = bth_mtu_octets(req->path_mtu),
        .timeout = req->primary.local_ack_timeout,
        .retry_count = req->retry_count,
        .rnr_retry = req->rnr_retry_count,
        .srq = req->srq,
        .path = { .size = sizeof(c->numbers.path),
                  .global = 1,
                  .hop_limit = NET_HOP_LIMIT_DEFAULT,
                  .traffic_class = req->primary.traffic_class },
    };
    memcpy(c->numbers.path.destination_gid, c->cm.address.peer, GID_LEN);
    memcpy(c->numbers.path.source_gid, c->cm.address.own, GID_LEN);
    keep_opening(c, message, take_addresses(c, message, req->service_id));
}

static void note_request(struct roce_connection *c, const struct cm_event *event)
{
    c->listener = container_of(event->service, struct roce_listener, service);
    c->datagram = event->service->datagram;
    if (c->datagram)
        keep_opening(c, event->message,
                     take_addresses(c, event->message, event->message->sidr_req.service_id));
    else
        note_req(c, event->message);
    roce_add_report(c, REPORT_REQUEST);
}

/* M-011, M-040, M-041 */
static void note_rep(struct roce_connection *c, const struct cm_message *message)
{
    const struct cm_rep *rep = &message->rep;

    if (rep->responder_resources < c->ord)
        c->ord = rep->responder_resources;
    if (rep->initiator_depth < c->ird)
        c->ird = rep->initiator_depth;
    c->numbers.destination_qpn = rep->local_qpn;
    c->numbers.send_psn = rep->starting_psn;
    c->numbers.path_mtu = bth_mtu_octets(c->cm.path_mtu);
    if (!c->own_ack_timeout)
        c->numbers.timeout = cm_ack_timeout((uint8_t)(c->cm.ack_timeout - 1u),
                                            rep->target_ack_delay);
    c->numbers.rnr_retry = rep->rnr_retry_count;
    c->numbers.srq = rep->srq;
    keep_opening(c, message, 0);
    roce_add_report(c, REPORT_REP);
}

static void note_refusal(struct roce_connection *c, const struct cm_message *message)
{
    c->by_rep_refused = !message;
    c->reason = CM_REJ_STALE_CONN;
    if (message && message->attribute_id == CM_REJ) {
        c->reason = message->rej.reason;
        keep_opening(c, message, 0);
    }
    if (message && message->attribute_id == CM_DREQ)
        c->reason = CM_REJ_TIMEOUT;
    roce_decided(c);
    roce_add_report(c, REPORT_FAILED);
}

void roce_cm_event(struct cm_manager *manager, struct cm_conn *conn, const struct cm_event *event)
{
    struct roce_connection *c = container_of(conn, struct roce_connection, cm);
    const struct cm_message *message = event->message;

    (void)manager;
    switch (event->type) {
    case CM_EVENT_REQUEST: note_request(c, event); break;
    case CM_EVENT_REP: note_rep(c, message); break;
    case CM_EVENT_ESTABLISHED:
        c->opening_length = 0;
        if (message)
            keep_opening(c, message, 0);
        roce_add_report(c, REPORT_ESTABLISHED);
        break;
    case CM_EVENT_REJECTED: note_refusal(c, message); break;
    case CM_EVENT_UNREACHABLE:
        c->reason = 0;
        roce_decided(c);
        roce_add_report(c, REPORT_FAILED);
        break;
    case CM_EVENT_DISCONNECTED:
        c->closing_length = 0;
        if (message) {
            c->closing_length = data_length(message->private_data, message->private_len);
            memcpy(c->closing, message->private_data, message->private_len);
        }
        roce_add_report(c, REPORT_DISCONNECTED);
        break;
    case CM_EVENT_TIMEWAIT_EXIT: roce_add_report(c, REPORT_TIME_WAIT_EXIT); break;
    case CM_EVENT_SIDR_REP:
        c->reply = message->sidr_rep;
        keep_opening(c, message, 0);
        roce_add_report(c, REPORT_SIDR_REP);
        break;
    case CM_EVENT_SILENT: roce_report_no_answer(c->device, &c->cm); break;
    }
}

struct cm_conn *roce_cm_make(struct cm_manager *manager, struct cm_service *service)
{
    struct roce_listener *listener = container_of(service, struct roce_listener, service);
    struct roce_connection *c = roce_connection_new(listener->device);

    (void)manager;
    return c ? &c->cm : NULL;
}

void roce_cm_done(struct cm_manager *manager, struct cm_conn *conn)
{
    (void)manager;
    free(container_of(conn, struct roce_connection, cm));
}

/* --- telling: in the lane, no lock held --- */

static struct ri_connection_event event_of(const struct roce_connection *c,
                                           enum ri_connection_event_type type)
{
    return (struct ri_connection_event){ .size = sizeof(struct ri_connection_event),
                                         .type = type,
                                         .ird = c->ird,
                                         .ord = c->ord,
                                         .depths_valid = !c->datagram,
                                         .local = c->local,
                                         .peer = c->peer };
}

static void give_opening(const struct roce_connection *c, struct ri_connection_event *event)
{
    event->private_data_length = c->opening_length;
    event->private_data = c->opening_length ? c->opening : NULL;
}

static void report(struct roce_connection *c, const struct ri_connection_event *event)
{
    const struct ri_host *host = c->device->core.host;

    host->connection_event(host, c->base.context, event);
}

static void report_request(struct roce_connection *c, struct roce_listener *listener)
{
    const struct ri_host *host = c->device->core.host;
    const struct ri_connect_request request = {
        .size = sizeof(request),
        .local = c->local,
        .peer = c->peer,
        .private_data = c->opening_length ? c->opening : NULL,
        .private_data_length = c->opening_length,
        .ird = c->peer_ird,
        .ord = c->peer_ord,
        .depths_valid = !c->datagram,
        .datagram = c->datagram,
        .qp_type = c->qp_type,
        .numbers = c->datagram ? NULL : &c->numbers,
    };

    host->connection_request(host, listener->base.context, &c->base, &request, &c->base.context);
}

static void report_opening(struct roce_connection *c, enum ri_connection_event_type type)
{
    struct ri_connection_event event = event_of(c, type);

    if (type == RI_CONNECTION_ACCEPTED && c->external)
        event.numbers = &c->numbers;
    give_opening(c, &event);
    report(c, &event);
}

static enum ri_connection_reason reason_of(uint16_t reason)
{
    switch (reason) {
    case 0:
    case CM_REJ_TIMEOUT: return RI_REASON_TIMEOUT;
    case CM_REJ_INVALID_SERVICE_ID: return RI_REASON_REFUSED;
    case CM_REJ_STALE_CONN: return RI_REASON_STALE;
    case CM_REJ_NO_QP:
    case CM_REJ_NO_EEC:
    case CM_REJ_NO_RESOURCES: return RI_REASON_RESOURCES;
    case CM_REJ_INSUFFICIENT_RESP_RESOURCES: return RI_REASON_READ_DEPTH;
    case CM_REJ_INVALID_GID: return RI_REASON_UNREACHABLE;
    case CM_REJ_UNSUPPORTED:
    case CM_REJ_INVALID_TRANSPORT_TYPE:
    case CM_REJ_INVALID_MTU: return RI_REASON_PARAMETERS;
    default: return RI_REASON_OTHER;
    }
}

/* A request that nobody hears leaves the QP as it is: its consumer may try again. */
static void report_failure(struct roce_connection *c, struct roce_qp *qp)
{
    bool by_consumer = c->reason == CM_REJ_CONSUMER_DEFINED && !c->cm.passive;
    struct ri_connection_event event = event_of(c, by_consumer ? RI_CONNECTION_REJECTED
                                                               : RI_CONNECTION_FAILED);

    event.reason = reason_of(c->reason);
    event.reject_code = c->by_rep_refused ? 0 : c->reason;
    if (by_consumer)
        give_opening(c, &event);
    if (!c->reason && !c->cm.passive && !c->cm.silent)
        roce_report_no_answer(c->device, &c->cm);
    if (qp && (c->cm.passive || event.reason != RI_REASON_REFUSED))
        roce_break_qp(qp);
    report(c, &event);
}

/* A DREQ does not overtake the requests before it (M-035): packets are out of the sockets. */
static void report_end(struct roce_connection *c, struct roce_qp *qp)
{
    struct ri_connection_event event = event_of(c, RI_CONNECTION_DISCONNECTED);

    event.private_data_length = c->closing_length;
    event.private_data = c->closing_length ? c->closing : NULL;
    if (qp && roce_is_local(qp) && lane_inside(qp->core.lane))
        local_take_last(&qp->core);
    if (qp && !c->outlives_qp)
        roce_break_qp(qp);
    report(c, &event);
}

static void report_reply(struct roce_connection *c)
{
    struct ri_connection_event event = event_of(c, RI_CONNECTION_SERVICE_REPLY);

    event.service_status = c->reply.status;
    event.remote_qpn = c->reply.qpn;
    event.remote_qkey = c->reply.q_key;
    if (c->reply.status == CM_SIDR_SUCCESS)
        event.path = &c->numbers.path;
    give_opening(c, &event);
    report(c, &event);
}

/* The peer has accepted. Two-way: the QP goes to RTS, and the third leg leaves at once. */
static void take_rep(struct roce_connection *c, struct roce_qp *qp)
{
    struct roce_cm *cm = &c->device->cm;
    enum ri_status status = RI_ERR_INVALID_STATE;
    bool confirmed = false;

    if (c->three_way || c->external) {
        report_opening(c, RI_CONNECTION_ACCEPTED);
        return;
    }
    if (qp)
        status = roce_open_qp(c, qp);
    pthread_mutex_lock(&cm->lock);
    if (status == RI_OK)
        confirmed = cm_conn_confirm(&c->cm, NULL, 0, clock_now());
    else
        cm_conn_reject(&c->cm, CM_REJ_NO_RESOURCES, NULL, 0, NULL, 0, clock_now());
    pthread_mutex_unlock(&cm->lock);
    if (confirmed) {
        report_opening(c, RI_CONNECTION_ESTABLISHED);
    } else if (status != RI_OK) {
        c->reason = CM_REJ_NO_RESOURCES;
        c->by_rep_refused = true;
        report_failure(c, qp);
    } /* else the failure is among the reports */
}

static void report_one(struct roce_connection *c, enum roce_report kind, struct roce_qp *qp,
                       struct roce_listener *listener)
{
    struct ri_connection_event event;

    switch (kind) {
    case REPORT_RESOLVED:
        event = event_of(c, RI_CONNECTION_RESOLVED);
        event.path = &c->numbers.path;
        report(c, &event);
        break;
    case REPORT_REQUEST: report_request(c, listener); break;
    case REPORT_REP: take_rep(c, qp); break;
    case REPORT_ESTABLISHED: report_opening(c, RI_CONNECTION_ESTABLISHED); break;
    case REPORT_FAILED: report_failure(c, qp); break;
    case REPORT_SIDR_REP: report_reply(c); break;
    case REPORT_DISCONNECTED: report_end(c, qp); break;
    case REPORT_TIME_WAIT_EXIT:
        event = event_of(c, RI_CONNECTION_TIME_WAIT_EXIT);
        report(c, &event);
        break;
    case REPORT_KINDS: break;
    }
}

/* The host has no memory for a request: it keeps nothing of it. Under cm.lock. */
static void drop_if_unwanted(struct roce_connection *c, enum roce_report kind)
{
    if (kind == REPORT_REQUEST && !c->base.context) {
        c->reports = 0;
        if (!c->datagram)
            cm_conn_reject(&c->cm, CM_REJ_NO_RESOURCES, NULL, 0, NULL, 0, clock_now());
        roce_connection_release(c);
    }
}

/* A request that the host does not know: it is withdrawn, or has to wait. Under cm.lock. */
static bool is_put_off(struct roce_connection *c)
{
    struct roce_listener *listener = c->listener;

    if (!listener)
        return false;
    if (c->reports & 1u << REPORT_FAILED) {
        c->reports = 0;
        roce_connection_release(c);
        return true;
    }
    if (listener->shown >= listener->limit)
        return true;
    listener->shown++;
    c->shown_by = listener;
    return false;
}

/* Under cm.lock, which is released meanwhile. */
static void deliver_one(struct roce_cm *cm, struct roce_connection *c)
{
    enum roce_report kind = (enum roce_report)__builtin_ctz(c->reports);
    struct roce_listener *listener = c->listener;
    struct roce_qp *qp = c->qp;

    c->reports &= ~(1u << kind);
    c->listener = NULL;
    c->upcalls++;
    if (listener)
        listener->upcalls++;
    if (qp)
        atomic_fetch_add(&qp->core.upcalls, 1);
    pthread_mutex_unlock(&cm->lock);
    report_one(c, kind, qp, listener);
    pthread_mutex_lock(&cm->lock);
    if (qp)
        atomic_fetch_sub(&qp->core.upcalls, 1);
    if (listener)
        listener->upcalls--;
    c->upcalls--;
    pthread_cond_broadcast(&cm->reported);
    if (c->reports && !c->listed)
        roce_add_report(c, (enum roce_report)__builtin_ctz(c->reports));
    drop_if_unwanted(c, kind);
}

void roce_cm_deliver(struct roce_rnic *device)
{
    struct roce_cm *cm = &device->cm;
    struct roce_connection *c;

    if (likely(!atomic_load_explicit(&cm->has_reports, memory_order_acquire)))
        return;
    pthread_mutex_lock(&cm->lock);
    while ((c = cm->reporting)) {
        DL_DELETE(cm->reporting, c);
        c->listed = false;
        if (!is_put_off(c))
            deliver_one(cm, c);
    }
    atomic_store(&cm->has_reports, false);
    pthread_mutex_unlock(&cm->lock);
}

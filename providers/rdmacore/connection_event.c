/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connection verbs (set A) over librdmacm: the events. All of this runs in the lane. An event is
 * acknowledged after the upcall: the destruction of its identifier waits for that.
 */
#include "connection.h"

#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <infiniband/ib.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static_assert(offsetof(struct rdma_ud_param, private_data) ==
                      offsetof(struct rdma_conn_param, private_data) &&
                  offsetof(struct rdma_ud_param, private_data_len) ==
                      offsetof(struct rdma_conn_param, private_data_len),
              "private data of connections and datagrams are at the same place");

/* ---- reports ---- */

static void copy_address(struct sockaddr_storage *to, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET)
        memcpy(to, from, sizeof(struct sockaddr_in));
    else if (from->sa_family == AF_INET6)
        memcpy(to, from, sizeof(struct sockaddr_in6));
    else if (from->sa_family == AF_IB)
        service_gid_address(from, to);
}

static void take_addresses(const struct connection *c, struct ri_connection_event *event)
{
    copy_address(&event->local, rdma_get_local_addr(c->id));
    copy_address(&event->peer, rdma_get_peer_addr(c->id));
}

static void report_event(struct connection *c, const struct ri_connection_event *event)
{
    c->rnic->host->connection_event(c->rnic->host, c->base.context, event);
}

static const char *const reason_text[] = {
    [RI_REASON_OTHER] = "no reason is given",
    [RI_REASON_TIMEOUT] = "no answer in time; check that the peer's host is up and reachable",
    [RI_REASON_UNREACHABLE] = "no path to that address; check the address and the fabric",
    [RI_REASON_REFUSED] = "nobody listens there; start the server, or correct address and port",
    [RI_REASON_STALE] = "the peer thinks that an old connection is still there; try again",
    [RI_REASON_READ_DEPTH] = "the read depths do not fit",
    [RI_REASON_RESOURCES] = "out of resources, here or at the peer",
    [RI_REASON_PARAMETERS] = "the connection managers do not agree on the parameters",
    [RI_REASON_PROTOCOL] = "the peer does not speak the protocol",
    [RI_REASON_POLICY] = "not permitted",
};

/* The attempt ended without a connection. Under lock. */
static void failed(struct connection *c, struct ri_connection_event *out,
                   enum ri_connection_reason reason, int status)
{
    c->state = CONNECTION_ENDED;
    out->type = RI_CONNECTION_FAILED;
    out->reason = reason;
    ri_log(c->rnic->host, RI_LOG_WARNING, "connection %s: %s (status %d)",
           c->passive ? "of a peer" : "to a peer", reason_text[reason], status);
}

static void failed_errno(struct connection *c, struct ri_connection_event *out, int error)
{
    failed(c, out, rdmacore_errno_reason(error), -error);
}

static bool is_active(const struct connection *c)
{
    return c->state >= CONNECTION_ADDRESS && c->state <= CONNECTION_CONFIRMED;
}

/* ---- next steps of the active side. Under lock; true: there is something to report ---- */

static bool resolved_address(struct connection *c, struct ri_connection_event *out)
{
    int error;

    if (!connection_on_device(c->rnic, c->id)) {
        ri_log(c->rnic->host, RI_LOG_WARNING,
               "that address is reached over %s, not over %s; give a source address of this "
               "interface, or use the other one",
               c->id->verbs ? c->id->verbs->device->name : "another device", c->rnic->device);
        failed(c, out, RI_REASON_UNREACHABLE, 0);
        return true;
    }
    c->state = CONNECTION_ROUTE;
    error = rdmacore_errno(rdmacore->resolve_route(c->id, connection_patience(c)));
    if (error)
        failed_errno(c, out, error);
    return error != 0;
}

static bool resolved_route(struct connection *c, struct ri_connection_event *out)
{
    int error;

    if (c->resolving) {
        c->resolving = false;
        c->state = CONNECTION_RESOLVED;
        out->type = RI_CONNECTION_RESOLVED;
        return true;
    }
    c->state = CONNECTION_CONNECTING;
    if (c->datagram)
        error = service_ask(c);
    else
        error = connection_has_qp(c) ? connection_request(c) : EINVAL;
    if (error)
        failed_errno(c, out, error);
    return error != 0;
}

static void take_depths(struct connection *c, const struct rdma_conn_param *param,
                        struct ri_connection_event *out)
{
    if (!c->passive) { /* what the peer can serve, and the most that it will request */
        if (param->initiator_depth < c->ord)
            c->ord = param->initiator_depth;
        if (param->responder_resources < c->ird)
            c->ird = param->responder_resources;
    }
    out->ird = c->ird;
    out->ord = c->ord;
    out->depths_valid = true;
}

static void take_private_data(const struct connection *c, const struct rdma_conn_param *param,
                              struct ri_connection_event *out)
{
    out->private_data_length = connection_data_length(c, param->private_data,
                                                      param->private_data_len);
    out->private_data = out->private_data_length ? param->private_data : NULL;
}

static void open_now(struct connection *c, struct ri_connection_event *out)
{
    c->state = CONNECTION_OPEN;
    if (!c->external) {
        c->wake_room = c->qp->sq.size + CONNECTION_WAKES <= c->rnic->attr.max_send_wr;
        c->qp->ird = c->ird;
        c->qp->ord = c->ord;
    }
    out->type = RI_CONNECTION_ESTABLISHED;
    out->ird = c->ird;
    out->ord = c->ord;
    out->depths_valid = true;
}

static bool answered(struct connection *c, const struct rdma_conn_param *param,
                     struct ri_connection_event *out)
{
    int error;

    if (c->state != CONNECTION_CONNECTING || !connection_has_qp(c)) { /* abandoned meanwhile */
        rdmacore->reject(c->id, NULL, 0);
        return false;
    }
    take_depths(c, param, out);
    take_private_data(c, param, out);
    if (c->three_way || c->external) {
        c->state = CONNECTION_ANSWERED;
        out->type = RI_CONNECTION_ACCEPTED;
        return true;
    }
    error = connection_establish(c);
    if (error)
        failed_errno(c, out, error);
    else
        open_now(c, out);
    return true;
}

static bool established(struct connection *c, const struct rdma_conn_param *param,
                        struct ri_connection_event *out)
{
    if ((c->state != CONNECTION_CONNECTING && c->state != CONNECTION_ACCEPTING) ||
        !connection_has_qp(c))
        return false;
    if (!c->passive) {
        take_depths(c, param, out);
        take_private_data(c, param, out);
    }
    if (!c->external)
        qp_connected(c->qp);
    open_now(c, out);
    return true;
}

/* A peer that has accepted and leaves before the third leg sends a reject, too. The consumer knows
 * of its acceptance, so this attempt fails: it is not rejected. */
static bool refused(struct connection *c, const struct rdma_cm_event *event,
                    struct ri_connection_event *out)
{
    bool accepted = c->state == CONNECTION_ANSWERED || c->state == CONNECTION_CONFIRMED;

    if (c->state == CONNECTION_ENDED || c->state >= CONNECTION_OPEN)
        return false;
    if (!c->rnic->iwarp && event->status > 0)
        out->reject_code = (uint16_t)event->status;
    if (rdmacore_consumer_rejected(c->rnic, event->status) && !accepted) {
        c->state = CONNECTION_ENDED;
        out->type = RI_CONNECTION_REJECTED;
        take_private_data(c, &event->param.conn, out);
    } else {
        failed(c, out, rdmacore_reject_reason(event->status), event->status);
    }
    return true;
}

static bool could_not(struct connection *c, int status, bool silence,
                      struct ri_connection_event *out)
{
    enum ri_connection_reason reason = silence
                                           ? RI_REASON_TIMEOUT
                                           : rdmacore_errno_reason(status < 0 ? -status : status);

    if (c->state == CONNECTION_ENDED)
        return false;
    failed(c, out, reason, status);
    return true;
}

/* Handles the peer's disconnect, or its answer to ours. A peer's disconnect is answered, because it
 * would be repeated otherwise. */
static bool disconnected(struct connection *c, struct ri_connection_event *out)
{
    if (c->state == CONNECTION_ENDED)
        return false;
    if (c->state == CONNECTION_OPEN && !c->rnic->iwarp)
        rdmacore->disconnect(c->id);
    c->state = CONNECTION_ENDED;
    c->waits = true;
    out->type = RI_CONNECTION_DISCONNECTED;
    return true;
}

static bool waited(struct connection *c, struct ri_connection_event *out)
{
    bool first = c->waits;

    c->waits = false;
    out->type = RI_CONNECTION_TIME_WAIT_EXIT;
    return first;
}

/* Under lock. The QP may then be used without the lock: its destruction waits for release_qp. */
static struct qp *acquire_qp(struct qp *qp)
{
    if (qp)
        atomic_fetch_add(&qp->upcalls, 1);
    return qp;
}

static void release_qp(struct qp *qp)
{
    atomic_fetch_sub(&qp->upcalls, 1);
}

/*
 * The cause of an end may be reported elsewhere: by an event of the device (read before this), or
 * by the completion of a failed request. If the peer's request was refused, only the state of the
 * QP shows it; on InfiniBand an orderly end does not change that state.
 */
static void find_cause(struct connection *c)
{
    struct qp *qp = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_OPEN)
        qp = acquire_qp(c->qp);
    pthread_mutex_unlock(&c->lock);
    if (!qp)
        return;
    if (atomic_load(&qp->state) == RI_QPS_RTS)
        /* under the CQs' locks: a thread that has polled a failure is counted in upcalls */
        qp_collect(qp);
    while (atomic_load(&qp->upcalls) > 1)
        sched_yield(); /* that thread reports the failure first */
    if (!c->rnic->iwarp && atomic_load(&qp->state) == RI_QPS_RTS && qp_has_failed(qp))
        qp_end(qp, RI_EVENT_QP_FATAL, "the device has put the QP into error");
    release_qp(qp);
}

static bool removed(struct connection *c, struct ri_connection_event *out)
{
    if (c->state == CONNECTION_ENDED)
        return false;
    failed(c, out, RI_REASON_OTHER, -ENODEV);
    return true;
}

/* True: the event answers a service request, or says why there is no answer. */
static bool is_answer(const struct connection *c, const struct rdma_cm_event *event)
{
    return c->datagram && c->state == CONNECTION_CONNECTING &&
           (event->event == RDMA_CM_EVENT_ESTABLISHED ||
            (event->event == RDMA_CM_EVENT_UNREACHABLE && event->status > 0));
}

static bool step(struct connection *c, const struct rdma_cm_event *event,
                 struct ri_connection_event *out)
{
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        return c->state == CONNECTION_ADDRESS && resolved_address(c, out);
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return c->state == CONNECTION_ROUTE && resolved_route(c, out);
    case RDMA_CM_EVENT_CONNECT_RESPONSE: return answered(c, &event->param.conn, out);
    case RDMA_CM_EVENT_ESTABLISHED: return established(c, &event->param.conn, out);
    case RDMA_CM_EVENT_REJECTED: return refused(c, event, out);
    case RDMA_CM_EVENT_UNREACHABLE: return could_not(c, event->status, true, out);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return could_not(c, -EHOSTUNREACH, false, out);
    case RDMA_CM_EVENT_CONNECT_ERROR: return could_not(c, event->status, false, out);
    case RDMA_CM_EVENT_DISCONNECTED: return disconnected(c, out);
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return removed(c, out);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: return waited(c, out);
    default: return false; /* ADDR_CHANGE: nothing to do */
    }
}

/* An attempt that nobody heard has not moved the QP beyond INIT. Its receives stay, and the
 * consumer may try again with it. */
static bool was_not_heard(const struct connection *c, const struct ri_connection_event *out)
{
    return !c->passive && out->type == RI_CONNECTION_FAILED && out->reason == RI_REASON_REFUSED;
}

static bool ends_qp(const struct connection *c, const struct ri_connection_event *out)
{
    return c->state == CONNECTION_ENDED && !was_not_heard(c, out) &&
           out->type != RI_CONNECTION_TIME_WAIT_EXIT &&
           !(c->outlives && out->type == RI_CONNECTION_DISCONNECTED);
}

/* The connection's event reports its end. */
static void end_and_release_qp(struct qp *qp)
{
    atomic_store(&qp->ended, true);
    qp_to_error(qp);
    release_qp(qp);
}

/*
 * siw sends its MPA Reply before it can receive, and may leave the initiator's first octets unread
 * until more arrive (docs/interop.md, defect 2). Nothing shows whether the peer has read them. So
 * the initiator sends a few empty Writes, 20, 100, 420 and 1700 ms after the connection was
 * established.
 */
#define FIRST_WAKE (20 * CLOCK_NS_PER_MS)

/* Without extra room in the queue such a Write could take the place of a consumer's request. */
static bool may_wake(const struct connection *c)
{
    return c->rnic->drowsy && !c->passive && c->wake_room;
}

static void set_wake(struct connection *c)
{
    struct rnic *rnic = c->rnic;

    c->wake.deadline = clock_after(clock_now(), FIRST_WAKE << 2 * c->wakes);
    rnic->host->timer_set(rnic->host, rnic->lane.base.context, &c->wake);
}

/* siw posts by write(2) in the calling thread: a stream that was reset raises SIGPIPE (defect 18).
 * The consumer did not post this and must not get the signal. */
static void write_nothing(struct qp *qp)
{
    struct ibv_send_wr nothing = { .wr_id = (uintptr_t)&qp->filler, .opcode = IBV_WR_RDMA_WRITE };
    const struct timespec at_once = { 0 };
    sigset_t pending, pipe, before;
    struct ibv_send_wr *bad;

    sigpending(&pending);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    spinlock_lock(&qp->sq.lock);
    /* Refused if the queue is full: then the queued requests have the same effect. */
    if (atomic_load(&qp->state) == RI_QPS_RTS)
        ibv_post_send(qp->ibv, &nothing, &bad);
    spinlock_unlock(&qp->sq.lock);
    if (!sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wake(struct ri_timer *timer)
{
    struct connection *c = container_of(timer, struct connection, wake);
    bool again = false;
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_OPEN && c->qp) {
        write_nothing(c->qp);
        again = ++c->wakes < CONNECTION_WAKES;
    }
    pthread_mutex_unlock(&c->lock);
    if (again)
        set_wake(c);
    pthread_setcancelstate(cancel, NULL);
}

static void on_connection(struct connection *c, const struct rdma_cm_event *event)
{
    struct ri_connection_event out = { .size = sizeof(out) };
    struct ri_connection_numbers numbers;
    struct rnic *rnic = c->rnic;
    struct ri_ah_attr path;
    struct qp *qp;
    bool report;

    /* The cause of the end is reported on another descriptor, which is read first. */
    if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
        rdmacore_async_ready(rnic, 0);
        find_cause(c);
    }
    pthread_mutex_lock(&c->lock);
    report = c->id != NULL;
    if (report && is_answer(c, event))
        service_answered(c, event, &out, &path);
    else
        report = report && step(c, event, &out);
    if (report)
        take_addresses(c, &out);
    if (report && out.type == RI_CONNECTION_RESOLVED && service_path(c, &path))
        out.path = &path;
    if (report && out.type == RI_CONNECTION_ACCEPTED && connection_numbers(c, &numbers))
        out.numbers = &numbers;
    qp = ends_qp(c, &out) ? acquire_qp(c->qp) : NULL;
    pthread_mutex_unlock(&c->lock);
    if (qp)
        end_and_release_qp(qp);
    if (report && (c->state == CONNECTION_RESOLVED || c->state >= CONNECTION_OPEN))
        rnic->host->timer_cancel(rnic->host, rnic->lane.base.context, &c->deadline);
    if (report && out.type == RI_CONNECTION_ESTABLISHED && may_wake(c))
        set_wake(c);
    if (report)
        report_event(c, &out);
}

/* Destroying the identifier tells the peer that the attempt has ended. In the lane no other thread
 * has an event of it. This comes last and without a lock: iWARP drivers keep the identifier until
 * their own time-out. */
static void give_up(struct connection *c)
{
    struct rdma_cm_id *id = connection_take_id(c);

    if (id)
        rdmacore->destroy_id(id);
}

/* The deadline of the attempt or of a disconnect has expired, or, after confirm, the third leg is
 * due. */
static void expired(struct connection *c)
{
    struct ri_connection_event out = { .size = sizeof(out) };
    struct qp *closed = NULL;
    bool report = false, over = false;
    int error;

    pthread_mutex_lock(&c->lock);
    if (c->state == CONNECTION_CONFIRMED) {
        error = connection_has_qp(c) ? connection_establish(c) : EINVAL;
        if (error)
            failed_errno(c, &out, error);
        else
            open_now(c, &out);
        take_addresses(c, &out);
        report = true;
    } else if (is_active(c)) {
        failed(c, &out, RI_REASON_TIMEOUT, -ETIMEDOUT);
        take_addresses(c, &out);
        report = over = true;
    } else if (c->state == CONNECTION_CLOSING) {
        c->state = CONNECTION_ENDED;
        c->waits = true;
        out.type = RI_CONNECTION_DISCONNECTED;
        take_addresses(c, &out);
        closed = acquire_qp(c->qp);
        report = over = true;
    }
    pthread_mutex_unlock(&c->lock);
    if (closed)
        end_and_release_qp(closed);
    if (report)
        report_event(c, &out);
    if (over)
        give_up(c);
}

static void deadline_over(struct ri_timer *timer)
{
    int cancel;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    expired(container_of(timer, struct connection, deadline));
    pthread_setcancelstate(cancel, NULL);
}

/* ---- requests ---- */

/* Drops a request for which there is no object. */
static void drop_request(struct connection *c)
{
    rdmacore->reject(c->id, NULL, 0);
    rdmacore->destroy_id(c->id);
    connection_free(c);
}

static void on_request(struct rnic *rnic, struct listener *listener,
                       const struct rdma_cm_event *event)
{
    struct ri_connect_request request = { .size = sizeof(request) };
    struct ri_connection_numbers numbers;
    /* the parameters of datagrams begin in the same way */
    const struct rdma_conn_param *param = &event->param.conn;
    struct connection *c = connection_new(rnic);

    if (!c) {
        rdmacore->reject(event->id, NULL, 0);
        rdmacore->destroy_id(event->id);
        return;
    }
    c->id = event->id;
    c->id->context = c;
    c->passive = true;
    c->state = CONNECTION_REQUEST;
    /* a wildcard address receives requests of other devices, too */
    if (!connection_on_device(rnic, c->id)) {
        drop_request(c);
        return;
    }
    c->datagram = c->id->ps == RDMA_PS_UDP;
    if (!c->datagram) {
        c->peer_ord =
            param->responder_resources; /* librdmacm exchanges the two: restore the peer's values */
        c->peer_ird = param->initiator_depth;
    }
    copy_address(&request.local, rdma_get_local_addr(c->id));
    copy_address(&request.peer, rdma_get_peer_addr(c->id));
    request.port = c->id->port_num ? c->id->port_num - 1u : 0;
    request.datagram = c->datagram;
    request.private_data_length = connection_data_length(c, param->private_data,
                                                         param->private_data_len);
    request.private_data = request.private_data_length ? param->private_data : NULL;
    request.ird = c->peer_ird;
    request.ord = c->peer_ord;
    request.depths_valid = !c->datagram;
    if (!c->datagram && !rnic->iwarp && connection_numbers(c, &numbers))
        request.numbers = &numbers;
    rnic->host->connection_request(rnic->host, listener->base.context, &c->base, &request,
                                   &c->base.context);
    if (!c->base.context)
        drop_request(c);
}

void connection_ready(void *arg, uint32_t events)
{
    struct rnic *rnic = arg;
    struct rdma_cm_event *event;
    int cancel;

    (void)events;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (!rdmacore->get_cm_event(rnic->cm, &event)) {
        struct listener *listener = listener_of(event->id->context);

        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
            on_request(rnic, listener_of(event->listen_id->context), event);
        else if (!listener && event->id->context) /* no context: the guard, see open_guard */
            on_connection(event->id->context, event);
        /* The event may be of an attempt that the manager led to another device; this RNIC ignores
         * it. */
        if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL && connection_on_device(rnic, event->id))
            rdmacore_failed(rnic, RI_EVENT_DEVICE_GONE, "the connection manager reports it");
        rdmacore->ack_cm_event(event);
    }
    pthread_setcancelstate(cancel, NULL);
}

const struct connection_timers connection_timers = { .expired = deadline_over, .wake = wake };

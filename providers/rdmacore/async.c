/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reports of the device: asynchronous events, and the completion channel. An event is acknowledged
 * after its upcall, so that the destroy calls of verbs wait for it. But a CQ is not to be used
 * during its destruction: cq_enter. If a channel fails, the device was removed.
 */
#include "connection.h"

#include <errno.h>
#include <utlist.h>

/* A QP whose end is not reported yet; its count of upcalls keeps it alive. NULL: there is none. */
static struct qp *next_to_lose(struct rnic *rnic)
{
    struct qp *qp;

    pthread_mutex_lock(&rnic->lock);
    DL_FOREACH (rnic->all, qp)
        if (!qp->lost)
            break;
    if (qp) {
        qp->lost = true;
        atomic_fetch_add(&qp->upcalls, 1);
    }
    pthread_mutex_unlock(&rnic->lock);
    return qp;
}

void rdmacore_failed(struct rnic *rnic, enum ri_event_type type, const char *detail)
{
    struct ri_event event = { .size = sizeof(event), .type = type, .detail = detail };
    struct qp *qp;

    if (atomic_exchange(&rnic->failed, true))
        return;
    while ((qp = next_to_lose(rnic)) != NULL) {
        qp_lost(qp, detail);
        atomic_fetch_sub(&qp->upcalls, 1);
    }
    rnic->host->rnic_event(rnic->host, rnic->base.context, &event);
}

static void port_event(struct rnic *rnic, enum ri_event_type type, int port)
{
    struct ri_event event = { .size = sizeof(event), .type = type, .port = (uint32_t)port - 1 };

    rnic->host->rnic_event(rnic->host, rnic->base.context, &event);
}

static void cq_event(struct rnic *rnic, const struct ibv_cq *ibv)
{
    struct ri_event event = { .size = sizeof(event),
                              .type = RI_EVENT_CQ_ERROR,
                              .detail = "the device reports an error or overrun of the CQ" };
    struct cq *cq = ibv->cq_context;

    if (!cq_enter(cq))
        return;
    rnic->host->cq_error(rnic->host, cq->base.context, &event);
    cq_leave(cq);
}

static void srq_event(struct rnic *rnic, const struct ibv_srq *ibv, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };
    struct srq *srq = ibv->srq_context;

    if (type == RI_EVENT_SRQ_LIMIT_REACHED)
        atomic_store(&srq->limit, 0);
    rnic->host->srq_event(rnic->host, srq->base.context, &event);
}

/* The QP goes on; only one that is connected by numbers has asked. */
static void qp_event(struct qp *qp, enum ri_event_type type)
{
    struct ri_event event = { .size = sizeof(event), .type = type };
    struct rnic *rnic = qp->rnic;

    if (!qp->numbered)
        return;
    atomic_fetch_add(&qp->upcalls, 1);
    rnic->host->qp_event(rnic->host, qp->base.context, &event);
    atomic_fetch_sub(&qp->upcalls, 1);
}

/* A message arrived before the last leg of the set-up: informs the connection manager, or, of a QP
 * that is connected by numbers, the consumer. */
static void established(struct rnic *rnic, struct qp *qp)
{
    bool alone;

    pthread_mutex_lock(&rnic->lock);
    if (qp->connection && qp->connection->id)
        rdmacore->notify(qp->connection->id, IBV_EVENT_COMM_EST);
    alone = !qp->connection;
    pthread_mutex_unlock(&rnic->lock);
    if (alone)
        qp_event(qp, RI_EVENT_COMMUNICATION_ESTABLISHED);
}

/*
 * A failed request reports the end: no further event is needed. siw fails an empty Write of this
 * provider's own (connection_event.c) where the peer's end arrives meanwhile (docs/interop.md,
 * defect 24); the end is the peer's then, and rdma_cm reports it.
 */
static void fatal(struct qp *qp)
{
    qp_collect(qp);
    if (!qp->rnic->drowsy || !atomic_load(&qp->filler_status))
        qp_end(qp, RI_EVENT_QP_FATAL, "the device reports a QP error");
}

/* Counted as an upcall: the destruction of the QP waits for it before the device's QP goes. */
static void qp_failed(const struct ibv_async_event *event)
{
    struct qp *qp = event->element.qp->qp_context;

    atomic_fetch_add(&qp->upcalls, 1);
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL: fatal(qp); break;
    case IBV_EVENT_QP_REQ_ERR:
        qp_end(qp, RI_EVENT_REMOTE_OPERATION, "a request of the peer was not valid");
        break;
    default: /* QP_ACCESS_ERR: the device does not report the kind of access */
        qp_end(qp, RI_EVENT_WRITE_ACCESS, "a request of the peer had no right to the memory");
        break;
    }
    atomic_fetch_sub(&qp->upcalls, 1);
}

static void dispatch(struct rnic *rnic, const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: cq_event(rnic, event->element.cq); break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: qp_failed(event); break;
    case IBV_EVENT_COMM_EST: established(rnic, event->element.qp->qp_context); break;
    case IBV_EVENT_SQ_DRAINED:
        qp_event(event->element.qp->qp_context, RI_EVENT_SEND_QUEUE_DRAINED);
        break;
    case IBV_EVENT_SRQ_ERR: srq_event(rnic, event->element.srq, RI_EVENT_SRQ_FATAL); break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        srq_event(rnic, event->element.srq, RI_EVENT_SRQ_LIMIT_REACHED);
        break;
    case IBV_EVENT_PORT_ACTIVE: port_event(rnic, RI_EVENT_PORT_UP, event->element.port_num); break;
    case IBV_EVENT_PORT_ERR: port_event(rnic, RI_EVENT_PORT_DOWN, event->element.port_num); break;
    case IBV_EVENT_DEVICE_FATAL:
        rdmacore_failed(rnic, RI_EVENT_RNIC_FATAL,
                        "its driver reports a fatal error, or it was removed");
        break;
    case IBV_EVENT_GID_CHANGE:
        port_event(rnic, RI_EVENT_GID_CHANGE, event->element.port_num);
        break;
    default: break; /* paths and port tables concern the connection manager */
    }
}

void rdmacore_async_ready(void *arg, uint32_t events)
{
    struct rnic *rnic = arg;
    struct ibv_async_event event;
    int cancel, error;

    (void)events;
    if (!rnic->lane.events)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (!rdmacore->get_async_event(rnic->verbs, &event)) {
        dispatch(rnic, &event);
        rdmacore->ack_async_event(&event);
    }
    error = errno;
    pthread_setcancelstate(cancel, NULL);
    if (error == EAGAIN || error == EINTR)
        return;
    rnic->host->unwatch(rnic->host, rnic->lane.events);
    rnic->lane.events = NULL;
    rdmacore_failed(rnic, RI_EVENT_DEVICE_GONE, "its channel of events has ended");
}

void rdmacore_cq_ready(void *arg, uint32_t events)
{
    struct rnic *rnic = arg;
    struct ibv_cq *ibv;
    void *context;
    int cancel, error;

    (void)events;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    while (!rdmacore->get_cq_event(rnic->channel, &ibv, &context)) {
        cq_fired(context);
        rdmacore->ack_cq_events(ibv, 1);
    }
    error = errno;
    pthread_setcancelstate(cancel, NULL);
    if (error == EAGAIN || error == EINTR)
        return;
    /* The device was removed: the descriptor stays readable for ever. */
    rnic->host->unwatch(rnic->host, rnic->lane.completions);
    rnic->lane.completions = NULL;
    rdmacore_failed(rnic, RI_EVENT_DEVICE_GONE, "its channel of completions has ended");
}

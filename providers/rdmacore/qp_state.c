/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: their states, and the end of a connection. The connection verbs lead to RTS, or
 * numbers.c.
 *
 *   ours      the device's
 *   IDLE      INIT (iWARP: IDLE); RTR and RTS while a connection is set up
 *   INIT, RTR the same
 *   RTS       RTS; by numbers also SQD, SQE
 *   ERROR     ERR, or about to be
 */
#include "connection.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>

#define SWEEP_AFTER (1000 * CLOCK_NS_PER_MS) /* a device has flushed all by then, or never will */

int qp_access(const struct qp *qp)
{
    return (qp->flags & RI_QP_READ_ENABLE ? IBV_ACCESS_REMOTE_READ : 0) |
           (qp->flags & RI_QP_WRITE_ENABLE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (qp->flags & RI_QP_ATOMIC_ENABLE ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
           (qp->rnic->windows && (qp->flags & RI_QP_BIND_ENABLE) ? IBV_ACCESS_MW_BIND : 0);
}

int qp_to_init(struct qp *qp, uint8_t port)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = port,
        .qp_access_flags = (unsigned int)qp_access(qp),
        .qkey = qp->qkey,
    };
    int mask = IBV_QP_STATE | (int)(qp->datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

    if (!qp->rnic->iwarp)
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return rdmacore_errno(rdmacore->modify_qp(qp->ibv, &attr, mask));
}

int qp_to_state(struct qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = { .qp_state = state };

    return rdmacore_errno(rdmacore->modify_qp(qp->ibv, &attr, IBV_QP_STATE));
}

/* Under both locks, so a thread that posts a list has the same state for all of it. */
void qp_set_state(struct qp *qp, enum ri_qp_state state)
{
    int own = (int)state;

    spinlock_lock(&qp->sq.lock);
    spinlock_lock(&qp->rq.lock);
    if (qp->datagram && state <= RI_QPS_RTS)
        own = (int)state + DATAGRAM_IDLE;
    else if (state == RI_QPS_INIT || state == RI_QPS_RTR)
        own = state == RI_QPS_INIT ? STATE_INIT : STATE_RTR;
    atomic_store_explicit(&qp->state, own, memory_order_relaxed);
    spinlock_unlock(&qp->rq.lock);
    spinlock_unlock(&qp->sq.lock);
}

void qp_connected(struct qp *qp)
{
    enum ri_qp_state state = qp_state(qp);

    if (state == RI_QPS_IDLE || state == RI_QPS_INIT)
        qp_set_state(qp, RI_QPS_RTS);
}

/* True: the device has no request left. Flushed requests that are not polled yet do not count. */
static bool is_empty(struct wq *wq, struct cq *cq)
{
    bool empty;

    spinlock_lock(&cq->lock);
    empty = atomic_load(&wq->tail) == wq_completed(wq);
    spinlock_unlock(&cq->lock);
    return empty;
}

static bool is_idle(struct qp *qp)
{
    return is_empty(&qp->sq, qp->send_cq) && is_empty(&qp->rq, qp->recv_cq);
}

void qp_to_error(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;

    if (atomic_load(&qp->state) == RI_QPS_ERROR)
        return;
    qp_set_state(qp, RI_QPS_ERROR);
    qp_to_state(qp, IBV_QPS_ERR); /* refused if the QP is in ERROR already or the device is gone */
    if (is_idle(qp))
        return;
    qp->sweep.deadline = clock_after(clock_now(), SWEEP_AFTER);
    rnic->host->timer_set(rnic->host, rnic->lane.base.context, &qp->sweep);
}

/* First takes the completions that the device has, then flushes all other requests. */
void qp_flush(struct qp *qp)
{
    cq_drain(qp->send_cq, NULL);
    if (qp->recv_cq != qp->send_cq)
        cq_drain(qp->recv_cq, NULL);
    wq_abandon(&qp->sq, qp->send_cq);
    wq_abandon(&qp->rq, qp->recv_cq);
    cq_fire(qp->send_cq);
    cq_fire(qp->recv_cq);
}

void qp_collect(struct qp *qp)
{
    cq_drain(qp->send_cq, NULL);
    if (qp->recv_cq != qp->send_cq)
        cq_drain(qp->recv_cq, NULL);
    cq_fire(qp->send_cq);
    cq_fire(qp->recv_cq);
}

bool qp_has_failed(struct qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    return !rdmacore->query_qp(qp->ibv, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR;
}

void qp_swept(struct ri_timer *timer)
{
    struct qp *qp = container_of(timer, struct qp, sweep);

    if (atomic_load(&qp->cut))
        qp_request_failed(qp);
    if (atomic_load(&qp->state) == RI_QPS_ERROR && !is_idle(qp))
        qp_flush(qp);
}

/* iWARP: the stream ends with the QP. InfiniBand: the peer must be told, unless the connection
 * outlives its QP. */
void qp_notify_peer(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;

    pthread_mutex_lock(&rnic->lock);
    if (qp->connection && qp->connection->id && !rnic->iwarp && !qp->connection->outlives)
        rdmacore->disconnect(qp->connection->id);
    pthread_mutex_unlock(&rnic->lock);
}

void qp_end(struct qp *qp, enum ri_event_type type, const char *detail)
{
    struct rnic *rnic = qp->rnic;
    struct ri_event event = { .size = sizeof(event), .type = type, .detail = detail };

    if (atomic_exchange(&qp->ended, true))
        return;
    qp_to_error(qp);
    rnic->host->qp_event(rnic->host, qp->base.context, &event);
    /* Only after this side has ended: the peer's answer is an orderly end, which another thread may
     * report at once. */
    qp_notify_peer(qp);
}

void qp_lost(struct qp *qp, const char *detail)
{
    qp_end(qp, RI_EVENT_LLP_LOST, detail);
    qp_to_error(qp);
    qp_flush(qp);
}

void qp_request_failed(struct qp *qp)
{
    /* SQE: what is behind it is flushed, receives go on */
    if (qp->unreliable && !qp_has_failed(qp)) {
        atomic_store(&qp->failing, false);
        return;
    }
    qp_end(qp, RI_EVENT_LOCAL_ERROR, "a work request failed; its completion tells");
}

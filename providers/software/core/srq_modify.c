/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared receive queues: modify. Resizing deepens the QPs' queues first, then the SRQ
 * (srq.c).
 */
#include "core.h"

static struct srq *srq_of(struct ri_srq *base)
{
    return container_of(base, struct srq, base);
}

static enum ri_status deepen_qp(struct qp *qp, uint32_t depth)
{
    struct wq larger;
    enum ri_status status = wq_open(&larger, true, depth, 0);

    if (status != RI_OK)
        return status;
    qp_hold(qp);
    spinlock_lock(&qp->recv_cq->lock);
    wq_exchange(&qp->rq, &larger);
    spinlock_unlock(&qp->recv_cq->lock);
    qp_unhold(qp);
    wq_close(&larger);
    return RI_OK;
}

/* As in an upcall: destroy waits. False: destroy has begun already. */
static bool acquire_qp(struct qp *qp)
{
    bool kept;

    spinlock_lock(&qp->life.lock);
    kept = !qp->life.destroyed;
    if (kept)
        atomic_fetch_add(&qp->upcalls, 1);
    spinlock_unlock(&qp->life.lock);
    return kept;
}

static struct qp *shallow_qp(const struct srq *srq, uint32_t depth)
{
    struct qp *qp = srq->qps;

    while (qp && qp->rq.depth >= depth)
        qp = qp->srq_next;
    return qp;
}

static enum ri_status set_depth(struct srq *srq, uint32_t depth, struct wq *larger)
{
    spinlock_assert_held(&srq->queue.posting);
    if (atomic_load(&srq->outstanding) > depth)
        return RI_ERR_BUSY;
    if (larger->depth)
        wq_exchange(&srq->queue, larger);
    srq->queue.depth = depth;
    return RI_OK;
}

/* Under qps_lock; all QPs are deep enough. */
static enum ri_status deepen_srq(struct srq *srq, uint32_t depth)
{
    struct wq larger = { .depth = 0 };
    enum ri_status status = RI_OK;

    if (depth > srq->queue.depth)
        status = wq_open(&larger, true, depth, srq->queue.max_sge);
    if (status != RI_OK)
        return status;
    spinlock_lock(&srq->queue.posting);
    status = set_depth(srq, depth, &larger);
    spinlock_unlock(&srq->queue.posting);
    wq_close(&larger);
    return status;
}

/* One QP after the other, then the SRQ. Work that other threads left to tx of that QP meanwhile
 * is done here, without the lock. */
static enum ri_status resize(struct srq *srq, uint32_t depth)
{
    enum ri_status status = RI_OK;
    struct qp *qp;
    bool kept;

    if (!depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (depth > srq->rnic->attr.max_srq_wr)
        return RI_ERR_LIMIT;
    do {
        pthread_mutex_lock(&srq->qps_lock);
        qp = shallow_qp(srq, depth);
        status = qp ? deepen_qp(qp, depth) : deepen_srq(srq, depth);
        kept = qp && acquire_qp(qp);
        pthread_mutex_unlock(&srq->qps_lock);
        if (kept) {
            qp_deliver(qp);
            atomic_fetch_sub(&qp->upcalls, 1);
        }
    } while (qp && status == RI_OK);
    return status;
}

enum ri_status core_srq_modify(struct ri_srq *base, uint32_t mask, const struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);
    enum ri_status status = RI_OK;

    if (mask & ~(RI_SRQM_MAX_WR | RI_SRQM_LIMIT))
        return RI_ERR_INVALID_ARGUMENT;
    if (mask & RI_SRQM_MAX_WR)
        status = resize(srq, attr->max_wr);
    if (status == RI_OK && (mask & RI_SRQM_LIMIT)) {
        spinlock_lock(&srq->queue.posting);
        srq->limit = attr->limit;
        spinlock_unlock(&srq->queue.posting);
    }
    return status;
}

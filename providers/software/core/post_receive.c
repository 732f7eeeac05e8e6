/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts of receives. Posts to the send queue are the wire's.
 */
#include "core.h"

#include <utlist.h>

static inline __attribute__((always_inline)) enum ri_status append_receives(struct qp *qp,
                                                                            struct ri_recv_wr *wr,
                                                                            struct ri_recv_wr **bad)
{
    enum ri_status status = RI_OK;
    struct wqe *wqe;

    spinlock_assert_held(&qp->rq.posting);
    for (; wr; wr = wr->next) {
        status = wq_take(&qp->rq, wr->sg_list, wr->num_sge, qp->rq.max_sge, &wqe);
        if (status != RI_OK) {
            *bad = wr;
            break;
        }
        wqe->cookie = wr->cookie;
        wqe->flags = (uint16_t)wr->flags;
        wq_publish(&qp->rq);
    }
    return status;
}

/* A message waits for this post, or there is an SRQ. Under posting, which it releases. */
static __attribute__((noinline)) enum ri_status post_specially(struct qp *qp, struct ri_recv_wr *wr,
                                                               struct ri_recv_wr **bad)
{
    enum ri_status status;

    spinlock_assert_held(&qp->rq.posting);
    contract(qp->rq.special);
    if (qp->srq) {
        spinlock_unlock(&qp->rq.posting);
        *bad = wr;
        return RI_ERR_INVALID_ARGUMENT;
    }
    qp->rq.special = false;
    status = append_receives(qp, wr, bad);
    spinlock_unlock(&qp->rq.posting);
    qp_wire(qp)->receive_posted(qp);
    tx_run(qp); /* flushes, if the connection has ended */
    qp_deliver(qp);
    return status;
}

/* A receive of one element, without others behind it: as append_receives(). False: nothing has
 * changed. Under posting. */
static inline bool append_single(struct qp *qp, const struct ri_recv_wr *wr)
{
    struct wq *rq = &qp->rq;
    const uint32_t index = atomic_load_explicit(&rq->posted, memory_order_relaxed);
    struct wqe *wqe = wq_slot(rq, index);

    spinlock_assert_held(&rq->posting);
    if (wr->next || wr->num_sge != 1 || unlikely(!rq->max_sge) ||
        unlikely(index - atomic_load_explicit(&rq->freed, memory_order_acquire) >= rq->depth))
        return false;
    wqe->cookie = wr->cookie;
    wqe->length = wr->sg_list->length;
    wqe->byte_len = 0;
    wqe->num_sge = 1;
    wqe->vendor_error = 0;
    wqe->status = RI_WC_SUCCESS;
    wqe->wc_flags = 0;
    wqe->flags = (uint16_t)wr->flags;
    wqe->sges[0] = *wr->sg_list;
    atomic_store_explicit(&wqe->done, false, memory_order_relaxed);
    wq_publish_at(rq, index);
    return true;
}

enum ri_status core_post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;
    enum ri_qp_state state;

    spinlock_lock(&qp->rq.posting);
    if (unlikely(qp->rq.special))
        return post_specially(qp, wr, bad);
    if (unlikely(!wr) || !append_single(qp, wr))
        status = append_receives(qp, wr, bad);
    /* Read under posting: see qp_flush(). */
    state = qp_state(qp);
    spinlock_unlock(&qp->rq.posting);
    if (unlikely(state != RI_QPS_RTS) && state != RI_QPS_IDLE) {
        tx_run(qp); /* flushes */
        qp_deliver(qp);
    }
    return status;
}

/* Several QPs may wait for one post: those that get none mark the queue again. The pass reports
 * what other threads leave to tx meanwhile. */
static __attribute__((noinline)) void notify_qps(struct srq *srq)
{
    struct qp *qp;

    pthread_mutex_lock(&srq->qps_lock);
    DL_FOREACH2 (srq->qps, qp, srq_next)
        qp_wire(qp)->receive_posted(qp);
    pthread_mutex_unlock(&srq->qps_lock);
}

enum ri_status core_post_srq_recv(struct ri_srq *base, struct ri_recv_wr *wr,
                                  struct ri_recv_wr **bad)
{
    struct srq *srq = container_of(base, struct srq, base);
    bool awaited;
    enum ri_status status = srq_post(srq, wr, bad, &awaited);

    if (unlikely(awaited))
        notify_qps(srq);
    return status;
}

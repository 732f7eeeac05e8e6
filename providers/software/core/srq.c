/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared receive queues: a ring from which many QPs take. Posts and QPs of several threads share
 * one lock, held for the copy of one request.
 *
 * DEPTH limits the outstanding requests: posted and not yet polled. The rq of each QP is as deep as
 * the SRQ, so that all requests that one QP took and that were not polled fit into it. Resizing
 * deepens the QPs' queues first, then the SRQ.
 *
 * LIMIT: once armed, the first QP that leaves fewer requests than that disarms it, and one event is
 * reported.
 */
#include "qp.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct srq *srq_of(struct ri_srq *base)
{
    return container_of(base, struct srq, base);
}

/* --- taking --- */

static void copy_request(struct qp *qp, const struct wqe *from)
{
    struct wqe *to = wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.posted, memory_order_relaxed));

    spinlock_assert_held(&qp->srq->queue.posting);
    to->cookie = from->cookie;
    to->length = from->length;
    to->num_sge = from->num_sge;
    to->flags = from->flags;
    to->byte_len = 0;
    to->vendor_error = 0;
    to->status = RI_WC_SUCCESS;
    to->wc_flags = 0;
    atomic_store_explicit(&to->done, false, memory_order_relaxed);
    memcpy(qp->srq_sges, from->sges, from->num_sge * sizeof(from->sges[0]));
}

static bool fell_below(struct srq *srq)
{
    uint32_t left = atomic_load_explicit(&srq->queue.posted, memory_order_relaxed) -
                    atomic_load_explicit(&srq->queue.next, memory_order_relaxed);

    spinlock_assert_held(&srq->queue.posting);
    if (left >= srq->limit)
        return false;
    srq->limit = 0;
    return true;
}

bool srq_take(struct srq *srq, struct qp *qp)
{
    struct wq *queue = &srq->queue;
    bool taken, low = false;

    spinlock_lock(&queue->posting);
    taken = wq_pending(queue);
    if (taken) {
        uint32_t next = atomic_load_explicit(&queue->next, memory_order_relaxed);

        copy_request(qp, wq_slot(queue, next));
        atomic_store_explicit(&queue->next, next + 1, memory_order_relaxed);
        atomic_store_explicit(&queue->freed, next + 1, memory_order_relaxed);
        low = fell_below(srq);
    }
    spinlock_unlock(&queue->posting);
    if (taken)
        wq_publish(&qp->rq);
    if (low)
        atomic_store(&srq->low_pending, true);
    return taken;
}

void srq_deliver(struct srq *srq)
{
    const struct ri_host *host = srq->rnic->host;
    const struct ri_event event = {
        .size = sizeof(event),
        .type = RI_EVENT_SRQ_LIMIT_REACHED,
        .detail = "fewer receives are posted than the limit of the SRQ",
    };

    spinlock_assert_not_held(&srq->queue.posting);
    if (!srq_has_pending_events(srq))
        return;
    atomic_fetch_add(&srq->upcalls, 1);
    if (atomic_exchange(&srq->low_pending, false))
        host->srq_event(host, srq->base.context, &event);
    atomic_fetch_sub(&srq->upcalls, 1);
}

/* --- QPs --- */

enum ri_status srq_attach(struct srq *srq, struct qp *qp)
{
    enum ri_status status;

    qp->srq_sges = malloc(MAX_SGE * sizeof(*qp->srq_sges));
    if (!qp->srq_sges)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&srq->qps_lock);
    status = wq_open(&qp->rq, true, srq->queue.depth, 0);
    if (status == RI_OK) {
        qp->srq = srq;
        qp->rq.special = true;
        qp->recv_pd = srq->pd;
        if (qp->pd != srq->pd)
            atomic_fetch_add(&srq->pd->streams, 1);
        DL_APPEND2(srq->qps, qp, srq_prev, srq_next);
    }
    pthread_mutex_unlock(&srq->qps_lock);
    return status;
}

void srq_detach(struct srq *srq, struct qp *qp)
{
    uint32_t unpolled;

    srq_deliver(srq);
    pthread_mutex_lock(&srq->qps_lock);
    DL_DELETE2(srq->qps, qp, srq_prev, srq_next);
    if (qp->pd != srq->pd)
        atomic_fetch_sub(&srq->pd->streams, 1);
    unpolled = atomic_load(&qp->rq.posted) - atomic_load(&qp->rq.freed);
    atomic_fetch_sub(&srq->outstanding, unpolled);
    pthread_mutex_unlock(&srq->qps_lock);
}

/* --- operations --- */

enum ri_status core_srq_create(struct ri_pd *base, struct ri_srq_attr *attr, struct ri_srq **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = RI_ERR_LIMIT;
    struct srq *srq;

    if (!attr->max_wr)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_wr > rnic->attr.max_srq_wr || attr->max_sge > rnic->attr.max_srq_sge)
        return RI_ERR_LIMIT;
    if (atomic_fetch_add(&rnic->srqs, 1) >= rnic->attr.max_srq)
        goto uncount;
    status = RI_ERR_NO_RESOURCES;
    srq = calloc(1, sizeof(*srq));
    if (!srq)
        goto uncount;
    status = wq_open(&srq->queue, true, attr->max_wr, attr->max_sge ? attr->max_sge : 1);
    if (status != RI_OK)
        goto free_srq;
    srq->base.ops = rnic->user;
    srq->base.context = attr->context;
    srq->rnic = rnic;
    srq->pd = pd;
    srq->limit = attr->limit;
    pthread_mutex_init(&srq->qps_lock, NULL);
    atomic_fetch_add(&pd->users, 1);
    attr->max_sge = srq->queue.max_sge;
    *out = &srq->base;
    return RI_OK;

free_srq:
    free(srq);
uncount:
    atomic_fetch_sub(&rnic->srqs, 1);
    return status;
}

enum ri_status core_srq_query(struct ri_srq *base, struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);

    spinlock_lock(&srq->queue.posting);
    attr->max_wr = srq->queue.depth;
    attr->max_sge = srq->queue.max_sge;
    attr->limit = srq->limit;
    attr->context = srq->base.context;
    spinlock_unlock(&srq->queue.posting);
    return RI_OK;
}

enum ri_status core_srq_destroy(struct ri_srq *base)
{
    struct srq *srq = srq_of(base);
    bool used;

    pthread_mutex_lock(&srq->qps_lock);
    used = srq->qps;
    pthread_mutex_unlock(&srq->qps_lock);
    if (used)
        return RI_ERR_BUSY;
    while (atomic_load(&srq->upcalls))
        sched_yield();
    atomic_fetch_sub(&srq->pd->users, 1);
    atomic_fetch_sub(&srq->rnic->srqs, 1);
    pthread_mutex_destroy(&srq->qps_lock);
    wq_close(&srq->queue);
    free(srq);
    return RI_OK;
}

static enum ri_status append(struct srq *srq, const struct ri_recv_wr *wr)
{
    struct wqe *wqe;
    enum ri_status status;

    spinlock_assert_held(&srq->queue.posting);
    if (atomic_load_explicit(&srq->outstanding, memory_order_acquire) >= srq->queue.depth)
        return RI_ERR_QUEUE_FULL;
    status = wq_take(&srq->queue, wr->sg_list, wr->num_sge, srq->queue.max_sge, &wqe);
    if (status != RI_OK)
        return status;
    wqe->cookie = wr->cookie;
    wqe->flags = (uint16_t)wr->flags;
    atomic_fetch_add_explicit(&srq->outstanding, 1, memory_order_relaxed);
    wq_publish(&srq->queue);
    return RI_OK;
}

enum ri_status srq_post(struct srq *srq, struct ri_recv_wr *wr, struct ri_recv_wr **bad,
                        bool *awaited)
{
    enum ri_status status = RI_OK;

    spinlock_lock(&srq->queue.posting);
    *awaited = srq->queue.special;
    srq->queue.special = false;
    for (; wr; wr = wr->next) {
        status = append(srq, wr);
        if (status != RI_OK) {
            *bad = wr;
            break;
        }
    }
    spinlock_unlock(&srq->queue.posting);
    return status;
}

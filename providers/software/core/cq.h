/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ring of a CQ, for the files that write completions into it (cq.c, tx_single.c) and take them
 * out (poll.c). All under the CQ's lock.
 */
#ifndef ITAL_SOFTRDMA_CQ_H
#define ITAL_SOFTRDMA_CQ_H

#include "qp.h"

#include "base/compiler.h"
#include "base/trace.h"

/* The queues of a QP: index of qp.cq_wait and of cq.queued. */
#define CQ_SENDS    0
#define CQ_RECEIVES 1

/* Marked completions are rare. */
static inline bool cq_marked(const struct ri_wc *wc)
{
    return unlikely(ri_wc_is_marked(wc));
}

/* cq_deliver() tells the consumer. */
static inline void cq_fire(struct cq *cq)
{
    spinlock_assert_held(&cq->lock);
    cq->arming.kind = RI_NOT_ARMED;
    atomic_store_explicit(&cq->consumer, CONSUMER_WAITS, memory_order_relaxed);
    atomic_fetch_or_explicit(&cq->to_report, CQ_FIRED, memory_order_relaxed);
}

/* If the ring is empty and no queue waits for room, the next overflow is a new one, which the
 * consumer is told. Under the lock. */
void cq_end_overflow(struct cq *cq);

/* Push the next completion, filled in as a plain one. Under the lock; there is room. */
static inline __attribute__((always_inline)) struct ri_wc *cq_push(
    struct cq *cq, const struct qp *qp, struct wq *wq, const struct wqe *wqe, uint32_t index,
    uint32_t byte_len, enum ri_wc_opcode opcode, bool shared)
{
    uint32_t tail = ri_ring_tail(&cq->ring);
    struct cq_entry *entry = &cq->entries[tail & cq->ring.mask];
    /* Members that are never set are 0 from the beginning. */
    struct ri_wc *wc = &entry->wc;

    spinlock_assert_held(&cq->lock);
    contract(ri_ring_room(&cq->ring));
    wc->context = qp->base.context;
    wc->cookie = wqe->cookie;
    wc->byte_len = byte_len;
    wc->status = RI_WC_SUCCESS;
    wc->opcode = (uint8_t)opcode;
    wc->flags = 0;
    if (wqe->flags & RI_WR_NOTIFY) {
        wc->flags = RI_WC_NOTIFY;
        cq->marked++;
    }
    wc->immediate = wc->vendor_error = wc->immediate_high = 0;
    entry->wq = wq;
    entry->index = index;
    entry->shared = shared;
    ri_ring_put(&cq->ring, tail);
    TRACE3(complete, qp->qpn, wqe->cookie, wqe->status);
    return wc;
}

#endif

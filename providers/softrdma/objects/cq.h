/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ring of a CQ, for those who write completions into it (cq.c, tx_alone.c). All under the CQ's lock.
 */
#ifndef ITAL_SOFTRDMA_CQ_H
#define ITAL_SOFTRDMA_CQ_H

#include "providers/softrdma/softrdma.h"

#include "base/trace.h"

#define CQ_NOT_ARMED (-1)

static inline uint32_t cq_count(const struct cq *cq)
{
    return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
           atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/* The next completion of the ring, as if it were plain. Under the lock, and there is room. */
static inline __attribute__((always_inline)) struct ri_wc *cq_push(
    struct cq *cq, const struct qp *qp, struct wq *wq, const struct wqe *wqe, uint32_t index,
    uint32_t byte_len, enum ri_wc_opcode opcode, bool shared)
{
    uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    struct cq_entry *entry = &cq->ring[tail & cq->mask];
    struct ri_wc *wc = &entry->wc; /* what nobody sets in it is 0 from the beginning */

    wc->context = qp->base.context;
    wc->cookie = wqe->cookie;
    wc->byte_len = byte_len;
    wc->status = RI_WC_SUCCESS;
    wc->opcode = (uint8_t)opcode;
    wc->flags = 0;
    if (wqe->flags & RI_WR_NOTIFY) {
        wc->flags = RI_WC_NOTIFY;
        cq->notable++;
    }
    wc->immediate = wc->vendor_error = wc->immediate_high = 0;
    entry->wq = wq;
    entry->index = index;
    entry->shared = shared;
    atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
    TRACE3(complete, qp->qpn, wqe->cookie, wqe->status);
    return wc;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts: requests into their slots. Plain ones need neither checks nor operands.
 */
#ifndef ITAL_SOFTWARE_POST_H
#define ITAL_SOFTWARE_POST_H

#include "qp.h"

#include "base/trace.h"

/* Octets of a short request. */
#define POST_SHORT 256u

/* What a post has appended. */
struct posted {
    uint32_t requests;
    uint32_t shorts;       /* plain ones with no more octets than POST_SHORT ... */
    uint32_t short_octets; /* ... and what they have together */
    uint32_t answered;     /* Reads and atomics */
    uint32_t elements;     /* of the others, and ... */
    uint32_t others;
    uint64_t octets; /* ... their octets */
    bool asked;      /* RI_WR_COALESCE of the last one */
};

/* Appends the list as far as it goes; *posted counts what was appended. *bad and a status: the
 * first request that was not. In IDLE none is. Under sq.posting. */
enum ri_status post_append(struct qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad,
                           struct posted *posted);

#define PLAIN_FLAGS (RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_NOTIFY | RI_WR_COALESCE)

/* A Send or a Write of one element, without fences. */
static inline bool post_is_plain(const struct ri_send_wr *wr)
{
    return (wr->opcode == RI_WR_SEND || wr->opcode == RI_WR_RDMA_WRITE) && wr->num_sge == 1 &&
           !(wr->flags & ~PLAIN_FLAGS);
}

/* A single Send or Write of one element that is not empty, short, without RI_WR_COALESCE. */
static inline bool post_is_short(const struct ri_send_wr *wr)
{
    return !wr->next && (wr->opcode == RI_WR_SEND || wr->opcode == RI_WR_RDMA_WRITE) &&
           wr->num_sge == 1 && !(wr->flags & ~(RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_NOTIFY)) &&
           wr->sg_list->length - 1 < POST_SHORT;
}

/* A single Read into one element that is not empty, without fences. */
static inline bool post_is_single_read(const struct ri_send_wr *wr)
{
    return wr->opcode == RI_WR_RDMA_READ && !wr->next && wr->num_sge == 1 &&
           !(wr->flags & ~(RI_WR_SIGNALED | RI_WR_NOTIFY)) && wr->sg_list->length;
}

/* The slot at `index`, the next one, filled and published; NULL: the queue is full. `octets` is the
 * length of the element, `mark` one of WQE_ANSWERED and WQE_SHORT, or 0. Under posting. */
static inline __attribute__((always_inline)) struct wqe *post_plain(struct qp *qp,
                                                                    const struct ri_send_wr *wr,
                                                                    uint32_t octets, uint32_t index,
                                                                    uint16_t mark)
{
    struct wqe *wqe = wq_slot(&qp->sq, index);

    spinlock_assert_held(&qp->sq.posting);
    if (index - atomic_load_explicit(&qp->sq.freed, memory_order_acquire) >= qp->sq.depth)
        return NULL;
    wqe->cookie = wr->cookie;
    wqe->length = octets;
    wqe->remote_addr = wr->rdma.remote_addr;
    wqe->rkey = wr->rdma.rkey;
    wqe->num_sge = 1;
    wqe->vendor_error = 0;
    wqe->status = RI_WC_SUCCESS;
    wqe->wc_flags = 0;
    wqe->flags = wr->flags | mark;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->sges[0] = *wr->sg_list;
    atomic_store_explicit(&wqe->done, false, memory_order_relaxed);
    wq_publish_at(&qp->sq, index);
    TRACE3(post, qp->qpn, wr->cookie, wr->opcode);
    return wqe;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How completions are counted for completion counters. The program need not poll for that, so a
 * counter takes the completions out of the provider's CQ when it is read, and keeps for the program
 * what it is to see.
 *
 * A counter counts each request, but a provider completes only signaled ones. So all send requests
 * of a counted QP are signaled, those that the program signals are marked (RI_WR_NOTIFY), and the
 * successful completion of one without the mark is counted and dropped. A QP without a counter is
 * posted to, and a CQ without a counted QP polled, as ever.
 *
 * Locks, in this order: the mutex of the ibv_context (attach, detach), that of a counter (its
 * CQs), the spinlock of a CQ's counting (its QPs and its ring).
 */
#ifndef ITAL_VERBS_COUNTING_H
#define ITAL_VERBS_COUNTING_H

#include "ibverbs_private.h"

/* Kinds of completions that have counters of their own. */
enum vb_counted {
    VB_COUNTED_SEND,
    VB_COUNTED_RECV,
    VB_COUNTED_READ,
    VB_COUNTED_WRITE,
    VB_COUNTED_KINDS
};

/* What a CQ adds to. */
struct vb_count {
    bool of_octets;             /* else of completions */
    atomic_ullong done, failed; /* failed: completions in error */
};

/* A QP with a counter. */
struct vb_qp_counting {
    ual_handle handle;
    struct vb_count *count[VB_COUNTED_KINDS]; /* NULL: none; written under the CQ's lock */
    bool sends, receives;                     /* it is among those of its send CQ, its receive CQ */
    struct vb_qp_counting *next_sender, *next_receiver;
};

/* The CQ of the completions of that kind. */
static inline struct vb_cq *vb_counted_cq(const struct vb_qp *qp, enum vb_counted kind)
{
    const struct ibv_qp *ibv = &qp->ibv.qp_base;

    return vb_cq_of(kind == VB_COUNTED_RECV ? ibv->recv_cq : ibv->send_cq);
}

/* The CQ counts from now on. 0 or ENOMEM. Under the context's mutex, as all but the last two. */
int vb_cq_counting_open(struct vb_cq *cq);
/* Room for that many completions more than the program sees. 0 or an error number. */
int vb_cq_counting_reserve(struct vb_cq *cq, uint32_t requests);
void vb_cq_counting_unreserve(struct vb_cq *cq, uint32_t requests);
/* The completions of the QP's sends, or of its receives, are counted, or no longer. */
void vb_cq_counting_enter(struct vb_cq *cq, struct vb_qp_counting *qp, bool receives);
void vb_cq_counting_leave(struct vb_cq *cq, struct vb_qp_counting *qp, bool receives);
void vb_cq_counting_set(struct vb_cq *cq, struct vb_qp_counting *qp, enum vb_counted kind,
                        struct vb_count *count);
/* Drops the completions of the QP that the program has not polled. */
void vb_cq_counting_forget(struct vb_cq *cq, ual_handle qp);
/* Counts what has completed. Returns how many completions that were. */
uint32_t vb_cq_counting_take(struct vb_cq *cq);

#endif

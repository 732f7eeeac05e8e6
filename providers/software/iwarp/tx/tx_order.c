/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit: when a request may start, or the peer is asked for an acknowledgement; the end of a
 * request that fails here. Inside tx only.
 */
#include "request.h"
#include "providers/software/iwarp/codec/terminate.h"

static uint32_t reads_outstanding(const struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed) -
           atomic_load_explicit(&qp->reads.ord_out, memory_order_acquire);
}

/* Fences, and the depth of outstanding Reads and atomics (RFC 5040 6.1, RFC 7306 5.2): later
 * requests wait, too. */
static bool may_start(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    uint32_t reads;

    if (!(wqe->flags & TX_MAY_WAIT))
        return true;
    reads = reads_outstanding(qp);
    if ((wqe->flags & RI_WR_READ_FENCE) && reads)
        return false;
    if ((wqe->flags & RI_WR_LOCAL_FENCE) &&
        (reads || atomic_load_explicit(&qp->core.sq.sent, memory_order_relaxed) != index))
        return false;
    return !wqe_is_answered(wqe) || !reads ||
           reads <
               qp->core.attr.ord + atomic_load_explicit(&qp->reads.ack_asked, memory_order_relaxed);
}

/* A thread that stalls the queue checks again after a fence. rx_finish_answered() has a fence
 * between removing a Read and reading the queue. So one of the two sees the other. */
bool tx_must_wait(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    tx_assert_inside(&qp->core);
    if (may_start(qp, wqe, index))
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return !may_start(qp, wqe, index);
}

/*
 * The peer executes no Send or Write before it has fetched the sources of the Reads before it. What
 * it cannot fetch at once it leaves unread behind, so two ends that read much from each other and
 * then write would wait for each other. So none of that is sent: an end of this kind keeps
 * READS_AHEAD octets.
 */
static bool reads_too_far(const struct iwarp_qp *qp)
{
    uint32_t out = atomic_load_explicit(&qp->reads.ord_out, memory_order_acquire);
    uint64_t octets = 0;

    for (; out != atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed); out++)
        octets += qp->reads.ord_ring[out & (qp->reads.ord_size - 1)].size;
    return octets > READS_AHEAD;
}

bool tx_is_far_ahead(struct iwarp_qp *qp, const struct wqe *wqe)
{
    tx_assert_inside(&qp->core);
    if (wqe_is_answered(wqe) || wqe_is_local(wqe))
        return false;
    if (reads_too_far(qp)) {
        atomic_thread_fence(memory_order_seq_cst); /* as in tx_must_wait() */
        if (reads_too_far(qp))
            return true;
    }
    qp->tx.long_reads = reads_outstanding(qp) || qp->core.rnic->attr.max_ord > READS_MANY;
    return false;
}

/*
 * The request for an acknowledgement is an empty Read behind the Sends and Writes: its answer means
 * that they were taken. One at a time; one is due when the queue is empty, or after so many
 * requests that a full queue does not wait for the last of them.
 */
#define ACK_AFTER 16u

bool tx_ack_is_due(const struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    return qp->tx.unasked && qp_is_acknowledged(&qp->core) && !qp->tx.message_begun &&
           !qp->tx.response_begun && (qp->tx.unasked >= ACK_AFTER || !wq_pending(&qp->core.sq)) &&
           !atomic_load_explicit(&qp->reads.ack_asked, memory_order_acquire) &&
           reads_outstanding(qp) <= qp->core.attr.ord && qp_state(&qp->core) == RI_QPS_RTS;
}

void tx_end_locally(struct iwarp_qp *qp, struct wqe *wqe, enum ri_wc_status status)
{
    const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                .terminate_value = TERMINATE_LOCAL,
                                .wqe = wqe,
                                .status = status,
                                .detail = "a work request failed locally" };

    tx_assert_inside(&qp->core);
    iwarp_terminate(qp, &end, NULL);
}

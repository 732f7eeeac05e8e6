/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, memory that is released: output that names it is copied, and a message under way that
 * would read it cannot continue.
 */
#include "fpdu.h"
#include "transmit.h"

static bool touches(const struct memory_range *range, const void *octets, size_t length)
{
    uintptr_t at = (uintptr_t)octets, start = (uintptr_t)range->memory;

    return length && at < start + range->length && start < at + length;
}

static void detach_batch(struct iwarp_qp *qp, const struct memory_range *range)
{
    const struct tx_batch *batch = &qp->tx.batch;
    bool touched = false;

    tx_assert_inside(&qp->core);
    for (uint32_t i = batch->first; i < batch->count && !touched; i++)
        touched = touches(range, batch->iov[i].iov_base, batch->iov[i].iov_len);
    if (touched)
        tx_own_batch(qp, QP_NO_MEMORY("the output of a deregistered region"));
}

/* The message under way cannot continue if it would read there. */
static void detach_message(struct iwarp_qp *qp, const struct memory_range *range)
{
    const struct wqe *wqe = wq_slot(&qp->core.sq,
                                    atomic_load_explicit(&qp->core.sq.next, memory_order_relaxed));

    tx_assert_inside(&qp->core);
    if (!qp->tx.message_begun || wqe_is_answered(wqe))
        return;
    for (uint32_t i = qp->tx.cursor_sge; i < wqe->num_sge; i++)
        if (touches(range, (const void *)(uintptr_t)wqe->sges[i].addr, wqe->sges[i].length))
            qp->tx.source_gone = true;
}

static bool may_detach(const struct iwarp_qp *qp)
{
    return qp->stream && !qp->core.tx.stopped;
}

static void detach_inside(struct iwarp_qp *qp, const struct memory_range *range)
{
    if (!may_detach(qp))
        return;
    detach_batch(qp, range);
    detach_message(qp, range);
}

static void leave_and_run(struct iwarp_qp *qp)
{
    tx_leave(&qp->core);
    tx_run(&qp->core);
    qp_deliver(&qp->core);
}

void tx_detach(struct iwarp_qp *qp, const struct memory_range *range)
{
    tx_enter(&qp->core);
    detach_inside(qp, range);
    leave_and_run(qp);
}

void tx_detach_output(struct iwarp_qp *qp, const struct memory_range *range)
{
    tx_enter(&qp->core);
    if (may_detach(qp))
        detach_batch(qp, range);
    leave_and_run(qp);
}

/* Leaves tx without the work that other threads left meanwhile: it may end the connection, which
 * takes rx. */
void tx_detach_in_pass(struct iwarp_qp *qp, const struct memory_range *range)
{
    while (!tx_try_enter(&qp->core)) {
        if (atomic_load(&qp->core.tx.stopped))
            return;
        tx_assert_outside(&qp->core);
        sched_yield();
    }
    detach_inside(qp, range);
    if (qp->stream)
        lane_mark_ready(qp->stream);
    atomic_store(&qp->core.tx.wanted, true);
    tx_leave_work(&qp->core);
}

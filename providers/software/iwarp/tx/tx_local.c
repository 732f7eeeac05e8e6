/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, requests that send nothing: bind, fast register, local invalidate. They are executed in
 * their turn, between the messages of the queue. They are complete when all octets before them are
 * in the socket, or acknowledged (RI_QPM_ACKNOWLEDGED).
 *
 * A request that revokes an STag cannot wait inside tx for the last access to it (see
 * rx/rx_invalidate.c). It revokes the STag, names the entry in tx.unquiet, calls the lane and
 * stalls the queue. The next pass makes the entry quiet, clears the name and runs tx.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "providers/software/core/regions.h"
#include "request.h"

enum outcome { OUTCOME_DONE, OUTCOME_WAIT, OUTCOME_FAILED };

static enum outcome wait_for_lane(struct iwarp_qp *qp, struct stag_entry *entry)
{
    atomic_store(&qp->tx.unquiet, entry);
    lane_call(qp->stream);
    return OUTCOME_WAIT;
}

static enum outcome invalidate(struct iwarp_qp *qp, const struct wqe *wqe)
{
    uint32_t stag = (uint32_t)wqe->operand;

    if (qp->tx.local_revoked) { /* it is quiet now */
        qp->tx.local_revoked = false;
        return OUTCOME_DONE;
    }
    switch (invalidate_begin(&qp->core, stag, false)) {
    case INVALIDATE_DONE: return OUTCOME_DONE;
    case INVALIDATE_REVOKED:
        qp->tx.local_revoked = true;
        return wait_for_lane(qp, stag_find(&qp->core.rnic->stags, stag));
    default: return OUTCOME_FAILED;
    }
}

/* Also called again when the window was revoked and is quiet: the rules are checked again. */
static enum outcome bind_window(struct iwarp_qp *qp, const struct wqe *wqe)
{
    struct stag_entry *window;

    switch (mw_bind(&qp->core, wqe, &window)) {
    case BIND_DONE: return OUTCOME_DONE;
    case BIND_REVOKED: return wait_for_lane(qp, window);
    default: return OUTCOME_FAILED;
    }
}

static enum outcome execute(struct iwarp_qp *qp, const struct wqe *wqe)
{
    switch (wqe->opcode) {
    case RI_WR_BIND_WINDOW: return bind_window(qp, wqe);
    case RI_WR_FAST_REGISTER:
        return mr_fast_register(&qp->core, wqe) ? OUTCOME_DONE : OUTCOME_FAILED;
    default: return invalidate(qp, wqe);
    }
}

/* RDMAC: a refusal for a window is a bind error, one for a region an error of memory management. */
static enum ri_wc_status refusal(struct iwarp_qp *qp, const struct wqe *wqe)
{
    const struct stag_entry *entry = stag_find(&qp->core.rnic->stags, (uint32_t)wqe->operand);

    return wqe->opcode == RI_WR_BIND_WINDOW || (entry && entry->kind != STAG_REGION)
               ? RI_WC_BIND
               : RI_WC_MM_OPERATION;
}

bool tx_local(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index)
{
    enum outcome outcome;

    tx_assert_inside(&qp->core);
    if (atomic_load(&qp->tx.unquiet) || tx_must_wait(qp, wqe, index))
        return false;
    outcome = execute(qp, wqe);
    if (outcome == OUTCOME_FAILED)
        tx_end_locally(qp, wqe, refusal(qp, wqe));
    if (outcome != OUTCOME_DONE)
        return false;
    wqe->length = 0; /* octets transferred */
    wqe->end = qp->tx.position;
    atomic_store_explicit(&qp->core.sq.next, index + 1, memory_order_release);
    qp->tx.unasked += qp_is_acknowledged(&qp->core);
    tx_finish_accepted(qp);
    return true;
}

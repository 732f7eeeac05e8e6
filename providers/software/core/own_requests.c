/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests that send nothing: see own_requests.h.
 */
#include "own_requests.h"
#include "tx.h"

static enum own_outcome wait_for_lane(struct own_requests *own, struct stag_entry *entry)
{
    atomic_store(&own->unquiet, entry);
    return OWN_REQUEST_WAITS;
}

static enum own_outcome invalidate(struct qp *qp, struct own_requests *own, struct wqe *wqe)
{
    uint32_t stag = (uint32_t)wqe->operand;

    if (wqe->flags & WQE_REVOKED) /* it is quiet now */
        return OWN_REQUEST_DONE;
    switch (invalidate_begin(qp, stag, false)) {
    case INVALIDATE_DONE: return OWN_REQUEST_DONE;
    case INVALIDATE_REVOKED:
        wqe->flags |= WQE_REVOKED;
        return wait_for_lane(own, stag_find(&qp->rnic->stags, stag));
    default: return OWN_REQUEST_REFUSED;
    }
}

/* Also called again when the window was revoked and is quiet: the rules are checked again. */
static enum own_outcome bind_window(struct qp *qp, struct own_requests *own, const struct wqe *wqe)
{
    struct stag_entry *window;

    switch (mw_bind(qp, wqe, &window)) {
    case BIND_DONE: return OWN_REQUEST_DONE;
    case BIND_REVOKED: return wait_for_lane(own, window);
    default: return OWN_REQUEST_REFUSED;
    }
}

enum own_outcome own_execute(struct qp *qp, struct own_requests *own, struct wqe *wqe)
{
    tx_assert_inside(qp);
    contract(wqe_is_local(wqe));
    if (atomic_load(&own->unquiet))
        return OWN_REQUEST_WAITS;
    switch (wqe->opcode) {
    case RI_WR_BIND_WINDOW: return bind_window(qp, own, wqe);
    case RI_WR_FAST_REGISTER:
        return mr_fast_register(qp, wqe) ? OWN_REQUEST_DONE : OWN_REQUEST_REFUSED;
    default: return invalidate(qp, own, wqe);
    }
}

enum ri_wc_status own_refusal(const struct qp *qp, const struct wqe *wqe)
{
    const struct stag_entry *entry = stag_find(&qp->rnic->stags, (uint32_t)wqe->operand);

    return wqe->opcode == RI_WR_BIND_WINDOW || (entry && entry->kind != STAG_REGION)
               ? RI_WC_BIND
               : RI_WC_MM_OPERATION;
}

bool own_make_quiet(struct qp *qp, struct own_requests *own)
{
    struct stag_entry *entry = atomic_load(&own->unquiet);

    if (!entry)
        return false;
    lane_assert_run(qp->lane);
    tx_assert_outside(qp);
    invalidate_quiet(qp->rnic, entry);
    atomic_store(&own->unquiet, NULL);
    return true;
}

void own_forget(struct own_requests *own)
{
    atomic_store(&own->unquiet, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, requests that send nothing (core/own_requests.h). They are executed in their turn,
 * between the messages of the queue. They are complete when all octets before them are in the
 * socket, or acknowledged (RI_QPM_ACKNOWLEDGED).
 */
#include "request.h"

bool tx_local(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index)
{
    enum own_outcome outcome;

    tx_assert_inside(&qp->core);
    if (tx_must_wait(qp, wqe, index))
        return false;
    outcome = own_execute(&qp->core, &qp->tx.own, wqe);
    if (outcome == OWN_REQUEST_REFUSED)
        tx_end_locally(qp, wqe, own_refusal(&qp->core, wqe));
    else if (outcome == OWN_REQUEST_WAITS)
        lane_call(qp->stream);
    if (outcome != OWN_REQUEST_DONE)
        return false;
    wqe->length = 0; /* octets transferred */
    wqe->end = qp->tx.position;
    atomic_store_explicit(&qp->core.sq.next, index + 1, memory_order_release);
    qp->tx.unasked += qp_is_acknowledged(&qp->core);
    tx_finish_accepted(qp);
    return true;
}

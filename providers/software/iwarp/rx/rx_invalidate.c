/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, invalidation inside a pass, which waits for the last access (core/invalidate.c).
 * Responses to the peer copy, or name the memory in a batch, while they are counted in `users`.
 * Output of the PD's QPs that refers to a region's memory is copied (tx_detach_in_pass). That
 * waits, with rx of one QP held, for a thread inside tx of such a QP. A thread inside tx locks rx
 * of its QP only when the connection ends, and has released the memory by then (tx.stopped), so it
 * is not waited for. Two passes, each with an rx lock, therefore never wait for each other.
 */
#include "rx.h"

bool invalidate_now(struct iwarp_qp *qp, uint32_t stag, bool remote, enum invalidate_result *result)
{
    rx_assert_held(qp->stream);
    lane_assert_run(qp->core.lane);
    *result = invalidate_begin(&qp->core, stag, remote);
    if (*result == INVALIDATE_REVOKED) {
        invalidate_quiet(qp->core.rnic, stag_find(&qp->core.rnic->stags, stag));
        *result = INVALIDATE_DONE;
    }
    return *result == INVALIDATE_DONE;
}

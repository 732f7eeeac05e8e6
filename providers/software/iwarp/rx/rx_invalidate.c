/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, invalidation inside a pass: waits for the last access to a revoked entry.
 *
 * The STag is revoked first, so no new access finds it. Accesses under way end like this:
 * - Placement happens inside passes, and the passes of one lane do not overlap. A thread that runs
 *   the pass and is not placing knows that its lane places nothing; it waits for the other lanes
 *   (core/quiescence.c). So invalidate_quiet() must be called in a pass; requests of the consumer
 *   wait for one (tx_local.c).
 * - Responses to the peer copy, or name the memory in a batch, while they are counted in `users`,
 *   which is waited for.
 * - Output of the PD's QPs that refers to a region's memory is copied (tx_detach_in_pass). That
 *   waits, with rx of one QP held, for a thread inside tx of such a QP. A thread inside tx locks rx
 *   of its QP only when the connection ends, and has released the memory by then (tx.stopped), so
 *   it is not waited for. Two passes, each with an rx lock, therefore never wait for each other.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rx.h"

/* The lock is not held meanwhile. While the entry is REVOKED only its state changes. */
void invalidate_quiet(struct iwarp_qp *qp, struct stag_entry *entry)
{
    struct memory_range range = { NULL, 0 };
    const struct pd *pd = NULL;
    uint32_t use;

    rx_assert_held(qp->stream);
    lane_assert_run(qp->core.lane);
    spinlock_lock(&entry->lock);
    use = entry->use;
    if (entry->kind == STAG_REGION && entry->state == STAG_IS_REVOKED) {
        range = (struct memory_range){ entry->memory, entry->length };
        pd = entry->pd;
    }
    spinlock_unlock(&entry->lock);
    stag_wait_users(entry);
    lanes_leave(qp->core.rnic, pd, LEAVE_MEMORY, &range);
    spinlock_lock(&entry->lock);
    if (entry->use == use && entry->state == STAG_IS_REVOKED)
        entry->state = STAG_IS_INVALID;
    spinlock_unlock(&entry->lock);
}

bool invalidate_now(struct iwarp_qp *qp, uint32_t stag, bool remote, enum invalidate_result *result)
{
    *result = invalidate_begin(&qp->core, stag, remote);
    if (*result == INVALIDATE_REVOKED) {
        invalidate_quiet(qp, stag_find(&qp->core.rnic->stags, stag));
        *result = INVALIDATE_DONE;
    }
    return *result == INVALIDATE_DONE;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, invalidation inside a pass: how the last access to what was revoked ends.
 *
 * An STag is revoked first: no new access finds it. Those under way end like this:
 *   - placement happens inside passes, and the passes of one lane do not overlap: whoever is the
 *     pass, and is not placing, knows that his lane places nothing, and waits for the other lanes
 *     (llp/quiescence.c). So invalidate_quiet() belongs into a pass; requests of the consumer wait
 *     for one (tx_local.c);
 *   - answers to the peer copy under `users`, which is waited for;
 *   - output of the PD's QPs that names a region's memory is copied (tx_detach_in_pass). That waits
 *     for whoever is inside tx of such a QP, with rx of one QP held. Who is inside tx wants rx of
 *     its QP only when the connection ends, and has let go of the memory then (tx.stopped): it is
 *     not waited for. So two passes, each with an rx, do not wait for each other.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rx.h"

static void detach(struct qp *qp, void *range)
{
    tx_detach_in_pass(qp, range);
}

/* The lock is not held meanwhile; nothing but its state changes while the entry is REVOKED. */
void invalidate_quiet(struct qp *qp, struct stag_entry *entry)
{
    struct memory_range range = { NULL, 0 };
    const struct pd *pd = NULL;
    uint32_t use;

    spinlock_lock(&entry->lock);
    use = entry->use;
    if (entry->kind == STAG_REGION && entry->state == STAG_IS_REVOKED) {
        range = (struct memory_range){ entry->memory, entry->length };
        pd = entry->pd;
    }
    spinlock_unlock(&entry->lock);
    stag_wait_users(entry);
    lanes_leave_memory(qp->rnic, pd, detach, &range);
    spinlock_lock(&entry->lock);
    if (entry->use == use && entry->state == STAG_IS_REVOKED)
        entry->state = STAG_IS_INVALID;
    spinlock_unlock(&entry->lock);
}

bool invalidate_now(struct qp *qp, uint32_t stag, bool remote, enum invalidate_result *result)
{
    *result = invalidate_begin(qp, stag, remote);
    if (*result == INVALIDATE_REVOKED) {
        invalidate_quiet(qp, stag_find(&qp->rnic->stags, stag));
        *result = INVALIDATE_DONE;
    }
    return *result == INVALIDATE_DONE;
}

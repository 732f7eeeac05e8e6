/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Invalidation: who may, and how the last access ends.
 *
 * An STag is revoked first: no new access finds it. Those under way end like this:
 *   - placement happens inside passes, and the passes of one lane do not overlap: whoever is the pass, and is not placing, knows
 *     that his lane places nothing, and waits for the other lanes (lanes.c). So invalidate_quiet() belongs into a pass;
 *     requests of the consumer wait for one (tx_local.c);
 *   - answers to the peer copy under `users`, which is waited for;
 *   - output of the PD's QPs that names a region's memory is copied (tx_detach_in_pass). That waits for whoever is inside
 *     tx of such a QP, with rx of one QP held. Who is inside tx wants rx of its QP only when the connection ends, and has let
 *     go of the memory then (qp.stopped): it is not waited for. So two passes, each with an rx, do not wait for each other.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"

/* --- the rules --- */

/* A bound window is its QP's; anything else its PD's. */
static bool in_scope(const struct stag_entry *entry, const struct qp *qp)
{
    if (entry->kind == STAG_NARROW && entry->state == STAG_IS_VALID)
        return atomic_load(&entry->scope) == qp;
    return entry->pd == qp->pd;
}

/* A window that is not bound has no rights, and loses none. */
static bool has_remote_rights(const struct stag_entry *entry)
{
    return (entry->kind != STAG_REGION && entry->state != STAG_IS_VALID) ||
           (atomic_load(&entry->access) & REMOTE_RIGHTS);
}

/*
 * What several streams may use, no peer of one of them invalidates. Windows: narrow ones are their QP's. Regions: there
 * is no fast registration, so all are made by a verb and are the PD's; its QPs are counted under the lock that revokes.
 */
static bool is_shared(const struct qp *qp, const struct stag_entry *entry)
{
    switch (entry->kind) {
    case STAG_NARROW: return false;
    case STAG_WIDE: return true;
    default: return !qp->rnic->options.remote_invalidate || atomic_load(&entry->pd->streams) != 1;
    }
}

/* C-119 to C-122 in their order. Under the entry's lock. */
static enum invalidate_result judge(const struct qp *qp, const struct stag_entry *entry,
                                    bool remote)
{
    if (!in_scope(entry, qp))
        return INVALIDATE_SCOPE;
    if (remote && (!has_remote_rights(entry) || !(qp->flags & RI_QP_INVALIDATE_ENABLE)))
        return INVALIDATE_ACCESS;
    if (entry->bound || (remote && is_shared(qp, entry)))
        return INVALIDATE_KIND;
    return INVALIDATE_DONE;
}

enum invalidate_result invalidate_begin(struct qp *qp, uint32_t stag, bool remote)
{
    struct stag_entry *entry;
    enum invalidate_result result;

    if (!stag && remote) /* it exists, for consumers that are privileged, and is nobody else's */
        return qp->flags & RI_QP_INVALIDATE_ENABLE ? INVALIDATE_KIND : INVALIDATE_ACCESS;
    entry = stag_lock_named(&qp->rnic->stags, stag);
    if (!entry)
        return INVALIDATE_STAG;
    result = judge(qp, entry, remote);
    if (result == INVALIDATE_DONE) {
        stag_withdraw(entry);
        if (entry->state == STAG_IS_REVOKED)
            result = INVALIDATE_REVOKED;
    }
    spinlock_unlock(&entry->lock);
    return result;
}

/* --- the end of the last access --- */

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

/* --- what the peer names --- */

enum stag_result qp_enter_remote(struct qp *qp, uint32_t stag, uint32_t access, uint64_t to,
                                 uint64_t length, uint8_t **memory, struct stag_entry **entry)
{
    struct stag_table *stags = &qp->rnic->stags;
    struct stag_hint *hint = &qp->answer_hint;
    enum stag_result result = stag_enter_hinted(stags, hint, stag, qp->pd, access, to, length,
                                                memory, entry);

    if (result == STAG_PD)
        result = stag_enter_hinted(stags, hint, stag, qp, access, to, length, memory, entry);
    return result;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Invalidation: the rules, the revocation, the end of the last access.
 *
 * The STag is revoked first, so no new access finds it. Accesses under way end like this:
 * - Placement inside a pass: the passes of one lane do not overlap. A thread that runs the pass
 *   and is not placing knows that its lane places nothing; it waits for the other lanes
 *   (quiescence.c). So invalidate_quiet() is called in a pass, and requests of the consumer wait
 *   for one.
 * - Accesses outside a pass are counted in `users`, which is waited for.
 * - Output that names memory of a region is the wire's (wire.leave).
 */
#include "quiescence.h"
#include "regions.h"

/* --- the rules --- */

/* A bound window belongs to its QP; any other object to its PD. */
static bool in_scope(const struct stag_entry *entry, const struct qp *qp)
{
    if (entry->kind == STAG_NARROW && entry->state == STAG_IS_VALID)
        return atomic_load(&entry->scope) == qp;
    return entry->pd == qp->pd;
}

/* A window that is not bound has no rights to lose. */
static bool has_remote_rights(const struct stag_entry *entry)
{
    return (entry->kind != STAG_REGION && entry->state != STAG_IS_VALID) ||
           (atomic_load(&entry->access) & REMOTE_RIGHTS);
}

/*
 * A peer does not invalidate what other streams may use. Windows: a narrow one belongs to
 * its QP. Regions: a fast-registered one belongs to the QP that registered it. Other regions belong
 * to the PD, whose QPs are counted under the lock that revokes.
 */
static bool is_shared(const struct qp *qp, const struct stag_entry *entry)
{
    spinlock_assert_held(&entry->lock);
    switch (entry->kind) {
    case STAG_NARROW: return false;
    case STAG_WIDE: return true;
    default:
        return !qp->rnic->options.remote_invalidate ||
               (entry->registrar != qp->qpn && atomic_load(&entry->pd->streams) != 1);
    }
}

/* C-119 to C-122 in their order. Under the entry's lock. */
static enum invalidate_result check_invalidate(const struct qp *qp, const struct stag_entry *entry,
                                               bool remote)
{
    spinlock_assert_held(&entry->lock);
    if (!in_scope(entry, qp))
        return INVALIDATE_SCOPE;
    if (remote && (!has_remote_rights(entry) || !qp_allows(qp, RI_QP_INVALIDATE_ENABLE)))
        return INVALIDATE_ACCESS;
    if (entry->bound || (remote && is_shared(qp, entry)))
        return INVALIDATE_KIND;
    return INVALIDATE_DONE;
}

enum invalidate_result invalidate_begin(struct qp *qp, uint32_t stag, bool remote)
{
    struct stag_entry *entry;
    enum invalidate_result result;

    /* STag 0 exists for privileged consumers, and no peer may name it. */
    if (!stag && remote)
        return qp_allows(qp, RI_QP_INVALIDATE_ENABLE) ? INVALIDATE_KIND : INVALIDATE_ACCESS;
    entry = stag_lock_named(&qp->rnic->stags, stag);
    if (!entry)
        return INVALIDATE_STAG;
    result = check_invalidate(qp, entry, remote);
    if (result == INVALIDATE_DONE) {
        stag_withdraw(entry);
        if (entry->state == STAG_IS_REVOKED)
            result = INVALIDATE_REVOKED;
    }
    spinlock_unlock(&entry->lock);
    return result;
}

/* The lock is not held meanwhile. While the entry is REVOKED only its state changes. */
void invalidate_quiet(struct rnic *rnic, struct stag_entry *entry)
{
    struct memory_range range = { NULL, 0 };
    const struct pd *pd = NULL;
    uint32_t use;

    spinlock_lock(&entry->lock);
    use = entry->use;
    if (entry->kind == STAG_REGION && entry->state == STAG_IS_REVOKED) {
        range = (struct memory_range){ entry->memory, entry->length };
        pd = entry->pd;
    } else if (rnic->wires[WIRE_LOCAL]) {
        pd = entry->pd; /* its peers may be accessing the window by themselves */
    }
    spinlock_unlock(&entry->lock);
    stag_wait_users(entry);
    lanes_leave(rnic, pd, LEAVE_MEMORY, &range);
    spinlock_lock(&entry->lock);
    if (entry->use == use && entry->state == STAG_IS_REVOKED)
        entry->state = STAG_IS_INVALID;
    spinlock_unlock(&entry->lock);
}

/* --- STags that the peer names --- */

enum stag_result qp_enter_remote(struct qp *qp, struct stag_hint *hint, uint32_t stag,
                                 uint32_t access, uint64_t to, uint64_t length, uint8_t **memory,
                                 struct stag_entry **entry)
{
    struct stag_table *stags = &qp->rnic->stags;
    enum stag_result result = stag_enter_hinted(stags, hint, stag, qp->pd, access, to, length,
                                                memory, entry);

    if (result == STAG_PD)
        result = stag_enter_hinted(stags, hint, stag, qp, access, to, length, memory, entry);
    return result;
}

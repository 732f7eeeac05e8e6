/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory windows (RDMAC 7.10). A window is one entry of the STag table, INVALID until a request
 * binds it to a part of a region. Its name is the index that it was allocated with and the key of
 * the last bind, so consumers know it when they post. A narrow window is usable over the QP that
 * bound it, a wide one over every QP of its PD. A wide window may be bound again without an
 * invalidate in between: the old binding ends first.
 */
#include "regions.h"
#include "tx.h"

#include <stdlib.h>
#include <utlist.h>

struct mw {
    struct ri_mw base;
    struct rnic *rnic;
    struct pd *pd;
    struct stag_entry *entry;
    struct mw *prev, *next; /* under pd->windows_lock */
};

/* --- allocate and free --- */

enum ri_status core_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                struct ri_mw **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = RI_ERR_LIMIT;
    struct mw *mw;

    if (atomic_fetch_add(&rnic->mws, 1) >= rnic->attr.max_mw)
        goto uncount;
    status = RI_ERR_NO_RESOURCES;
    mw = calloc(1, sizeof(*mw));
    if (!mw)
        goto uncount;
    mw->base.ops = pd->base.ops;
    mw->base.context = context;
    mw->rnic = rnic;
    mw->pd = pd;
    mw->entry = stag_allocate(&rnic->stags, pd, narrow ? STAG_NARROW : STAG_WIDE, stag);
    if (!mw->entry)
        goto free_mw;
    atomic_fetch_add(&pd->users, 1);
    pthread_mutex_lock(&pd->windows_lock);
    DL_APPEND(pd->windows, mw);
    pthread_mutex_unlock(&pd->windows_lock);
    *out = &mw->base;
    return RI_OK;

free_mw:
    free(mw);
uncount:
    atomic_fetch_sub(&rnic->mws, 1);
    return status;
}

enum ri_status core_mw_free(struct ri_mw *base)
{
    struct mw *mw = container_of(base, struct mw, base);

    /* Revoked while mw_unbind_qp still finds it: it names its QP, which may be destroyed. */
    stag_revoke(mw->entry);
    pthread_mutex_lock(&mw->pd->windows_lock);
    DL_DELETE(mw->pd->windows, mw);
    pthread_mutex_unlock(&mw->pd->windows_lock);
    mr_drop_entry(mw->rnic, mw->entry);
    atomic_fetch_sub(&mw->pd->users, 1);
    atomic_fetch_sub(&mw->rnic->mws, 1);
    free(mw);
    return RI_OK;
}

void mw_unbind_qp(struct qp *qp)
{
    struct pd *pd = qp->pd;
    struct mw *mw;

    tx_assert_inside(qp);
    if (!atomic_load(&qp->windows))
        return;
    pthread_mutex_lock(&pd->windows_lock);
    DL_FOREACH (pd->windows, mw) {
        struct stag_entry *entry = mw->entry;

        spinlock_lock(&entry->lock);
        if (entry->kind == STAG_NARROW && entry->state == STAG_IS_VALID &&
            atomic_load(&entry->scope) == qp) {
            stag_withdraw(entry);
            entry->state = STAG_IS_INVALID; /* only this QP used it */
        }
        spinlock_unlock(&entry->lock);
    }
    pthread_mutex_unlock(&pd->windows_lock);
}

/* --- bind --- */

/* An entry outlives its window and its region. The turn of the request finds out if they were
 * freed after the post. */
enum ri_status mw_describe_bind(const struct ri_send_wr *wr, struct wqe *wqe)
{
    struct stag_entry *entry;

    if (!wr->bind.mw || !wr->bind.mr || (wr->bind.access & ~(uint32_t)REMOTE_RIGHTS))
        return RI_ERR_INVALID_ARGUMENT;
    entry = container_of(wr->bind.mw, struct mw, base)->entry;
    spinlock_lock(&entry->lock);
    wqe->operand = (entry->name & ~UINT32_C(0xff)) | (wr->bind.new_key & 0xff);
    wqe->bind.use = entry->use;
    spinlock_unlock(&entry->lock);
    wqe->bind.access = wr->bind.access | (wr->bind.zero_based ? RI_ACCESS_ZERO_BASED : 0);
    wqe->rkey = mr_stag(wr->bind.mr);
    wqe->remote_addr = wr->bind.addr;
    wqe->length = wr->bind.length;
    return RI_OK;
}

static bool may_bind(const struct qp *qp, const struct stag_entry *window,
                     const struct stag_entry *region, const struct wqe *wqe)
{
    uint32_t local = atomic_load(&region->access), wanted = wqe->bind.access;

    spinlock_assert_held(&window->lock);
    spinlock_assert_held(&region->lock);
    return qp_allows(qp, RI_QP_BIND_ENABLE) && window->pd == qp->pd && region->pd == qp->pd &&
           region->kind == STAG_REGION && region->state == STAG_IS_VALID &&
           (local & RI_ACCESS_BIND) && !(local & RI_ACCESS_ZERO_BASED) &&
           (!(wanted & (RI_ACCESS_REMOTE_WRITE | RI_ACCESS_REMOTE_ATOMIC)) ||
            (local & RI_ACCESS_LOCAL_WRITE)) &&
           (!(wanted & RI_ACCESS_REMOTE_READ) || (local & RI_ACCESS_LOCAL_READ)) && wqe->length &&
           !checked_wraps(wqe->remote_addr, wqe->length) &&
           checked_inside(wqe->remote_addr, wqe->length, region->base, region->length);
}

/* Under both locks; the window is INVALID. */
static void expose(struct qp *qp, struct stag_entry *window, struct stag_entry *region,
                   const struct wqe *wqe)
{
    bool narrow = window->kind == STAG_NARROW;

    spinlock_assert_held(&window->lock);
    spinlock_assert_held(&region->lock);
    contract(window->state == STAG_IS_INVALID);
    window->region = region;
    region->bound++;
    if (narrow)
        atomic_fetch_add(&qp->windows, 1);
    atomic_store_explicit(&window->scope, narrow ? (const void *)qp : qp->pd, memory_order_relaxed);
    atomic_store_explicit(&window->access, wqe->bind.access, memory_order_relaxed);
    window->base = wqe->bind.access & RI_ACCESS_ZERO_BASED ? 0 : wqe->remote_addr;
    window->length = wqe->length;
    window->memory = region->memory + (wqe->remote_addr - region->base);
    window->file = region->file;
    stag_publish(window, (uint32_t)wqe->operand);
}

/* Under the window's lock. If the request is refused, a wide window that is bound keeps its
 * binding. */
static enum bind_result bind_window(struct qp *qp, struct stag_entry *window, const struct wqe *wqe)
{
    struct stag_entry *region;
    bool may, done;

    spinlock_assert_held(&window->lock);
    if (window->use != wqe->bind.use || !window->name || window->pd != qp->pd ||
        (window->kind == STAG_NARROW && window->state == STAG_IS_VALID))
        return BIND_REFUSED;
    region = stag_lock_named(&qp->rnic->stags, wqe->rkey);
    if (!region)
        return BIND_REFUSED;
    may = may_bind(qp, window, region, wqe);
    done = may && window->state == STAG_IS_INVALID;
    if (done)
        expose(qp, window, region, wqe);
    spinlock_unlock(&region->lock);
    if (may && !done)
        stag_withdraw(window);
    return done ? BIND_DONE : may ? BIND_REVOKED : BIND_REFUSED;
}

enum bind_result mw_bind(struct qp *qp, const struct wqe *wqe, struct stag_entry **entry)
{
    struct stag_entry *window = stag_find(&qp->rnic->stags, (uint32_t)wqe->operand);
    enum bind_result result;

    tx_assert_inside(qp);
    *entry = window;
    if (!window)
        return BIND_REFUSED;
    spinlock_lock(&window->lock);
    result = bind_window(qp, window, wqe);
    spinlock_unlock(&window->lock);
    return result;
}

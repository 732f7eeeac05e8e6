/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory windows: type 2 is narrow, type 1 wide. Their life, and the requests that bind and unbind
 * them.
 *
 * Keys of wide windows. A bind of type 1 takes the key after the one that the device has, and some
 * devices count keys themselves. The caller's key increases with every bind that it posts,
 * including those that never reach the device (the QP had ended) or are flushed by it. `device_key`
 * is the device's key: each posted bind increases it, and each failed bind takes back what it had
 * counted (slot.length). If the caller's key is ahead, fillers (binds of length 0) are posted first
 * until both are equal again. A filler uses a slot of the QP that is never freed. None of their
 * completions reaches the caller; but a request behind a failed one is flushed, and gets its
 * status.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_OF(stag) ((stag) >> 8)

/* ---- the windows, and the QPs on which they are bound ---- */

struct mw *rdmacore_window(struct rnic *rnic, uint32_t stag)
{
    uint32_t index = INDEX_OF(stag);
    struct mw *mw;

    spinlock_lock(&rnic->windows_lock);
    HASH_FIND(hh, rnic->table, &index, sizeof(index), mw);
    spinlock_unlock(&rnic->windows_lock);
    return mw;
}

void rdmacore_window_bound(struct mw *mw, struct qp *qp)
{
    struct rnic *rnic = mw->pd->rnic;

    spinlock_lock(&rnic->windows_lock);
    mw->bound = qp;
    spinlock_unlock(&rnic->windows_lock);
}

bool rdmacore_window_unbound(struct mw *mw)
{
    struct rnic *rnic = mw->pd->rnic;
    bool bound;

    spinlock_lock(&rnic->windows_lock);
    bound = mw->bound != NULL;
    mw->bound = NULL;
    spinlock_unlock(&rnic->windows_lock);
    return bound;
}

void rdmacore_windows_leave(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;
    struct mw *mw, *next;

    spinlock_lock(&rnic->windows_lock);
    HASH_ITER (hh, rnic->table, mw, next)
        if (mw->bound == qp)
            mw->bound = NULL;
    spinlock_unlock(&rnic->windows_lock);
}

/* False: out of memory. */
static bool remember(struct rnic *rnic, struct mw *mw)
{
    mw->index = INDEX_OF(mw->ibv->rkey);
    spinlock_lock(&rnic->windows_lock);
    HASH_ADD(hh, rnic->table, index, sizeof(mw->index), mw);
    spinlock_unlock(&rnic->windows_lock);
    return mw->hh.tbl != NULL;
}

static void forget(struct rnic *rnic, struct mw *mw)
{
    spinlock_lock(&rnic->windows_lock);
    HASH_DELETE(hh, rnic->table, mw);
    spinlock_unlock(&rnic->windows_lock);
}

/* ---- life ---- */

enum ri_status rdmacore_mw_allocate(struct ri_pd *base, bool narrow, void *context, uint32_t *stag,
                                    struct ri_mw **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    struct mw *mw;
    int error;

    if (!(rnic->attr.features & (narrow ? RI_FEATURE_MW_NARROW : RI_FEATURE_MW_WIDE)))
        return RI_ERR_NOT_SUPPORTED;
    mw = calloc(1, sizeof(*mw));
    if (!mw)
        return RI_ERR_NO_RESOURCES;
    mw->ibv = rdmacore->alloc_mw(pd->ibv, narrow ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
    if (!mw->ibv) {
        error = errno;
        free(mw);
        return rdmacore_status(error);
    }
    mw->base.ops = rnic->base.ops;
    mw->base.context = context;
    mw->pd = pd;
    mw->narrow = narrow;
    atomic_init(&mw->device_key, (uint8_t)mw->ibv->rkey);
    if (!remember(rnic, mw)) {
        rdmacore->dealloc_mw(mw->ibv);
        free(mw);
        return RI_ERR_NO_RESOURCES;
    }
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&rnic->mws, 1);
    *stag = mw->ibv->rkey;
    *out = &mw->base;
    return RI_OK;
}

enum ri_status rdmacore_mw_free(struct ri_mw *base)
{
    struct mw *mw = container_of(base, struct mw, base);
    struct rnic *rnic = mw->pd->rnic;
    int error = rdmacore_errno(rdmacore->dealloc_mw(mw->ibv));

    if (!rdmacore_destroyed(rnic, error))
        return rdmacore_status(error);
    forget(rnic, mw);
    atomic_fetch_sub(&mw->pd->users, 1);
    atomic_fetch_sub(&rnic->mws, 1);
    free(mw);
    return RI_OK;
}

/* ---- posts ---- */

void window_describe(const struct ri_send_wr *wr, struct ibv_send_wr *raw, uint32_t *stag)
{
    const struct mw *mw = container_of(wr->bind.mw, struct mw, base);

    *stag = (mw->ibv->rkey & ~UINT32_C(0xff)) | (wr->bind.new_key & 0xff);
    raw->bind_mw.mw = mw->ibv;
    raw->bind_mw.rkey = *stag;
    raw->bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = container_of(wr->bind.mr, struct mr, base)->ibv,
        .addr = wr->bind.addr,
        .length = wr->bind.length,
        .mw_access_flags = (unsigned int)rdmacore_access(wr->bind.access, false),
    };
}

static bool in_queue(int rc)
{
    return !rc || post_is_queued(rc);
}

/* The verb increases the key itself. Returns its result. */
static int bind_once(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind)
{
    uint8_t key = atomic_load(&mw->device_key);
    int rc;

    mw->ibv->rkey = (mw->ibv->rkey & ~UINT32_C(0xff)) | key;
    rc = ibv_bind_mw(qp->ibv, mw->ibv, bind);
    if (in_queue(rc))
        atomic_fetch_add(&mw->device_key, 1);
    return rc;
}

/* Binds to length 0. The region is not checked, but some drivers read its key. */
static struct ibv_mw_bind to_nothing(struct mw *mw, uint64_t wr_id, unsigned int flags)
{
    return (struct ibv_mw_bind){ .wr_id = wr_id, .send_flags = flags, .bind_info.mr = &mw->region };
}

/* Posts fillers until the next bind makes `key`. *taken: the number of keys that they took. */
static int catch_up(struct qp *qp, struct mw *mw, uint8_t key, uint32_t *taken)
{
    int rc = 0;

    while (in_queue(rc) && (uint8_t)(atomic_load(&mw->device_key) + 1) != key) {
        struct ibv_mw_bind bind = to_nothing(mw, (uintptr_t)&qp->filler, 0);

        rc = bind_once(qp, mw, &bind);
        *taken += in_queue(rc);
    }
    return rc;
}

static int bind_wide(struct qp *qp, struct mw *mw, const struct ibv_send_wr *raw)
{
    struct slot *slot = (struct slot *)(uintptr_t)raw->wr_id;
    struct ibv_mw_bind bind = { .wr_id = raw->wr_id,
                                .send_flags = raw->send_flags,
                                .bind_info = raw->bind_mw.bind_info };
    uint32_t taken = 1;
    int rc;

    mw->region = *bind.bind_info.mr;
    rc = catch_up(qp, mw, (uint8_t)raw->bind_mw.rkey, &taken);
    slot->length = taken; /* set before the completion can arrive */
    if (in_queue(rc))
        rc = bind_once(qp, mw, &bind);
    if (in_queue(rc))
        mw->was_bound = true;
    return rc;
}

static int unbind_wide(struct qp *qp, struct mw *mw, const struct ibv_send_wr *raw)
{
    struct ibv_mw_bind bind = to_nothing(mw, raw->wr_id, raw->send_flags);

    ((struct slot *)(uintptr_t)raw->wr_id)->length = 1;
    return bind_once(qp, mw, &bind);
}

/* An unbound window cannot be invalidated, but some drivers do not check that. They get an STag
 * that names nothing, so they fail the request. */
#define NO_STAG UINT32_C(0xffffff00)

static int invalidate(struct qp *qp, const struct ri_send_wr *wr, struct ibv_send_wr *raw)
{
    struct mw *mw = rdmacore_window(qp->rnic, wr->invalidate_stag);
    struct ibv_send_wr *bad;

    if (mw && !mw->narrow && mw->was_bound)
        return unbind_wide(qp, mw, raw);
    if (mw && (!mw->narrow || !rdmacore_window_unbound(mw)))
        raw->invalidate_rkey = NO_STAG;
    return ibv_post_send(qp->ibv, raw, &bad);
}

int window_post(struct qp *qp, const struct ri_send_wr *wr, struct ibv_send_wr *raw)
{
    struct ibv_send_wr *bad;
    struct mw *mw;
    int rc;

    if (wr->opcode == RI_WR_LOCAL_INVALIDATE)
        return invalidate(qp, wr, raw);
    mw = container_of(wr->bind.mw, struct mw, base);
    if (!mw->narrow)
        return bind_wide(qp, mw, raw);
    rc = ibv_post_send(qp->ibv, raw, &bad);
    if (!in_queue(rc))
        return rc;
    mw->ibv->rkey = raw->bind_mw.rkey;
    rdmacore_window_bound(mw, qp);
    return rc;
}

void window_failed(struct rnic *rnic, const struct slot *slot)
{
    struct mw *mw = slot->length ? rdmacore_window(rnic, slot->stag) : NULL;

    if (mw && !mw->narrow)
        atomic_fetch_sub(&mw->device_key, (uint8_t)slot->length);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * Memory windows: link and unlink are work requests of a QP, each link with a key of its own. */
#include "memory.h"

#include <stdlib.h>
#include <utlist.h>

struct ual_mw {
    struct ual_object object;
    struct ual_pd *pd;
    struct ri_mw *mw;
    bool narrow;
    struct ual_link link;             /* its lock guards `last` and `before` */
    struct ual_mw_state last, before; /* the state that belongs to link's */
    struct ual_mw *prev, *next;       /* of the IA */
};

enum ri_status ual_mw_create(struct ual_pd *pd, bool narrow, struct ual_mw **out)
{
    struct ual_device *device = pd->object.device;
    enum ri_status status = ual_device_alive(device);
    struct ual_mw *mw;
    uint32_t stag;

    if (status != RI_OK)
        return status;
    if (!(ual_device_attr(device)->features & (narrow ? RI_FEATURE_MW_NARROW : RI_FEATURE_MW_WIDE)))
        return RI_ERR_NOT_SUPPORTED;
    mw = calloc(1, sizeof(*mw));
    if (!mw)
        return RI_ERR_NO_RESOURCES;
    mw->object.device = device;
    mw->pd = pd;
    mw->narrow = narrow;
    status = kal_mw_create(rnic_of(device), pd->pd, narrow, mw, &stag, &mw->mw);
    if (status != RI_OK)
        goto free_mw;
    status = ual_handle_take(&mw->object, UAL_MW, device);
    if (status != RI_OK)
        goto destroy_window;
    mw->last = (struct ual_mw_state){ .narrow = narrow, .stag = stag };
    ual_link_init(&mw->link, &mw->object);
    status = ual_link_add(&mw->link, stag, false);
    if (status != RI_OK)
        goto drop_handle;
    atomic_fetch_add(&pd->users, 1);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_APPEND(device_inside(device)->mws, mw);
    pthread_mutex_unlock(&device_inside(device)->lock);
    *out = mw;
    return RI_OK;
drop_handle:
    ual_handle_drop(&mw->object);
destroy_window:
    kal_mw_destroy(rnic_of(device), mw->mw);
free_mw:
    free(mw);
    return status;
}

enum ri_status ual_mw_free(struct ual_mw *mw)
{
    struct ual_device *device = mw->object.device;
    enum ri_status status = kal_mw_destroy(rnic_of(device), mw->mw);

    if (status != RI_OK)
        return status;
    ual_link_remove(&mw->link);
    ual_handle_drop(&mw->object);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_DELETE(device_inside(device)->mws, mw);
    pthread_mutex_unlock(&device_inside(device)->lock);
    atomic_fetch_sub(&mw->pd->users, 1);
    free(mw);
    return RI_OK;
}

struct ual_pd *ual_mw_pd(const struct ual_mw *mw)
{
    return mw->pd;
}

/* The link that counts: the last one, or the one before it if that was refused. Under lock. */
static const struct ual_mw_state *current(const struct ual_mw *mw)
{
    spinlock_assert_held(&mw->link.lock);
    return mw->link.last.stag == mw->last.stag ? &mw->last : &mw->before;
}

/* A narrow window's link ends with the QP of the link. Under lock. */
static bool linked(const struct ual_mw *mw)
{
    spinlock_assert_held(&mw->link.lock);
    return ual_link_open(&mw->link) && (!mw->narrow || ual_lookup_any(current(mw)->qp));
}

void ual_mw_query(struct ual_mw *mw, struct ual_mw_state *state)
{
    spinlock_lock(&mw->link.lock);
    *state = *current(mw);
    state->linked = linked(mw);
    spinlock_unlock(&mw->link.lock);
}

/* Under lock. */
static void take_link(struct ual_mw *mw, struct ual_qp *qp, const struct ual_mw_link *link,
                      uint32_t stag)
{
    spinlock_assert_held(&mw->link.lock);
    mw->before = *current(mw);
    mw->last = (struct ual_mw_state){
        .narrow = mw->narrow,
        .mr = link->mr->object.handle,
        .qp = qp->object.handle,
        .addr = link->addr,
        .length = link->length,
        .access = link->access,
        .note = link->note,
        .stag = stag,
    };
    ual_link_posted(&mw->link, stag);
}

/* Under lock. */
static uint32_t next_stag(const struct ual_mw *mw, const struct ual_mw_link *link)
{
    uint32_t next = ual_link_next(&mw->link);

    spinlock_assert_held(&mw->link.lock);
    return link->keyed ? (next & ~UINT32_C(0xff)) | link->key : next;
}

enum ri_status ual_mw_link(struct ual_mw *mw, struct ual_qp *qp, const struct ual_mw_link *link,
                           uint64_t cookie, uint16_t wr_flags, uint32_t *stag)
{
    struct ri_send_wr wr = {
        .cookie = cookie,
        .opcode = RI_WR_BIND_WINDOW,
        .flags = wr_flags,
        .bind = {
            .mw = mw->mw,
            .mr = link->mr->region->mr,
            .addr = (uintptr_t)link->addr,
            .length = link->length,
            .access = link->access & ~(uint32_t)RI_ACCESS_ZERO_BASED,
            .zero_based = !!(link->access & RI_ACCESS_ZERO_BASED),
        },
    };
    struct ri_send_wr *bad;
    enum ri_status status;
    uint32_t next;

    spinlock_lock(&mw->link.lock);
    next = next_stag(mw, link);
    wr.bind.new_key = next & 0xff;
    status = ual_qp_post_send(qp, &wr, &bad);
    if (status == RI_OK) {
        take_link(mw, qp, link, next);
        *stag = next;
    }
    spinlock_unlock(&mw->link.lock);
    return status;
}

enum ri_status ual_mw_unlink(struct ual_mw *mw, struct ual_qp *qp, uint64_t cookie,
                             uint16_t wr_flags)
{
    enum ri_status status = RI_ERR_ACCESS;

    spinlock_lock(&mw->link.lock);
    if (!mw->narrow || !linked(mw) || current(mw)->qp == qp->object.handle)
        status = ual_link_post_unlink(&mw->link, qp, cookie, wr_flags);
    if (status == RI_OK && !mw->narrow)
        mw->link.key++; /* the provider uses one key for the unbinding */
    spinlock_unlock(&mw->link.lock);
    return status;
}

enum ri_status ual_mw_post_read(struct ual_mw *mw, struct ual_qp *qp, struct ri_send_wr *wr)
{
    return ual_link_post_read(&mw->link, qp, wr);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the region or window of an STag, for completions; has the state of links. The table of a
 * device is in stripes, each with its own lock, which is held for a look-up only. */
#include "memory.h"

#define INDEX_OF(stag) ((stag) >> 8)

static struct ual_stripe *stripe_of(struct ual_device *device, uint32_t index)
{
    return &device_inside(device)->stripes[index % UAL_STRIPES];
}

void ual_link_init(struct ual_link *link, struct ual_object *object)
{
    spinlock_init(&link->lock);
    link->object = object;
}

enum ri_status ual_link_add(struct ual_link *link, uint32_t stag, bool opened)
{
    struct ual_stripe *stripe = stripe_of(link->object->device, INDEX_OF(stag));

    spinlock_lock(&link->lock);
    link->last = (struct ual_link_state){ .stag = stag, .opened = opened };
    link->before = (struct ual_link_state){ .stag = stag };
    link->key = (uint8_t)stag;
    spinlock_unlock(&link->lock);
    spinlock_lock(&stripe->lock);
    link->index = INDEX_OF(stag);
    HASH_ADD(hh, stripe->links, index, sizeof(link->index), link);
    spinlock_unlock(&stripe->lock);
    return link->hh.tbl ? RI_OK : RI_ERR_NO_RESOURCES;
}

void ual_link_remove(struct ual_link *link)
{
    struct ual_stripe *stripe = stripe_of(link->object->device, link->index);

    spinlock_lock(&stripe->lock);
    if (link->hh.tbl)
        HASH_DELETE(hh, stripe->links, link);
    spinlock_unlock(&stripe->lock);
}

enum ri_status ual_link_post_unlink(struct ual_link *link, struct ual_qp *qp, uint64_t cookie,
                                    uint16_t wr_flags)
{
    struct ri_send_wr wr = {
        .cookie = cookie,
        .opcode = RI_WR_LOCAL_INVALIDATE,
        .flags = wr_flags,
        .invalidate_stag = link->last.stag,
    };
    struct ri_send_wr *bad;
    enum ri_status status = ual_qp_post_send(qp, &wr, &bad);

    if (status == RI_OK)
        link->last.closing = true;
    return status;
}

enum ri_status ual_link_post_read(struct ual_link *link, struct ual_qp *qp, struct ri_send_wr *wr)
{
    struct ri_send_wr *bad;
    enum ri_status status;

    spinlock_lock(&link->lock);
    status = ual_qp_post_send(qp, wr, &bad);
    /* a signaled request reports by its completion */
    if (status == RI_OK && !(wr->flags & RI_WR_SIGNALED))
        link->last.closing = true;
    spinlock_unlock(&link->lock);
    return status;
}

/* The table at struct ual_link, for one of its links. */
static void correct(struct ual_link_state *state, const struct ri_wc *wc)
{
    bool unlink = wc->opcode == RI_WC_LOCAL_INVALIDATE || wc->opcode == RI_WC_RDMA_READ;

    if (wc->flags & RI_WC_WITH_INVALIDATE)
        state->opened = false;
    else if (wc->status == RI_WC_SUCCESS)
        state->opened &= !unlink;
    else if (unlink)
        state->closing = false;
    else
        state->opened = false;
}

static void follow(struct ual_link *link, const struct ri_wc *wc)
{
    bool refused = wc->status != RI_WC_SUCCESS && wc->opcode == RI_WC_BIND_WINDOW;

    spinlock_lock(&link->lock);
    if (link->before.stag == wc->invalidated_stag)
        correct(&link->before, wc);
    if (link->last.stag == wc->invalidated_stag) {
        correct(&link->last, wc);
        if (refused)
            link->last = link->before;
    }
    spinlock_unlock(&link->lock);
}

ual_handle ual_memory_of(struct ual_device *device, const struct ri_wc *wc)
{
    uint32_t index = INDEX_OF(wc->invalidated_stag);
    struct ual_stripe *stripe = stripe_of(device, index);
    struct ual_link *link;
    ual_handle handle = 0;

    spinlock_lock(&stripe->lock);
    HASH_FIND(hh, stripe->links, &index, sizeof(index), link);
    if (link) { /* the link stays while it is in the table */
        handle = link->object->handle;
        follow(link, wc);
    }
    spinlock_unlock(&stripe->lock);
    return handle;
}

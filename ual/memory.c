/* SPDX-License-Identifier: BSD-3-Clause
 * Which region or window an STag names, for completions that tell of one; the state of links. The table of an IA is in
 * stripes, each with a lock of its own that is held for a look-up only. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "memory.h"

#define INDEX_OF(stag) ((stag) >> 8)

static struct ual_stripe *stripe_of(struct ual_ia *ia, uint32_t index)
{
    return &ia->stripes[index % UAL_STRIPES];
}

enum ual_status ual_link_add(struct ual_link *link, struct ual_object *object, uint32_t stag,
                             bool opened)
{
    struct ual_stripe *stripe = stripe_of(object->ia, INDEX_OF(stag));

    spinlock_init(&link->lock);
    link->object = object;
    link->index = INDEX_OF(stag);
    link->stag = stag;
    link->opened = opened;
    link->closing = false;
    spinlock_lock(&stripe->lock);
    HASH_ADD(hh, stripe->links, index, sizeof(link->index), link);
    spinlock_unlock(&stripe->lock);
    return link->hh.tbl ? UAL_OK : UAL_ERR_NO_RESOURCES;
}

void ual_link_remove(struct ual_link *link)
{
    struct ual_stripe *stripe = stripe_of(link->object->ia, link->index);

    spinlock_lock(&stripe->lock);
    if (link->hh.tbl)
        HASH_DELETE(hh, stripe->links, link);
    spinlock_unlock(&stripe->lock);
}

enum ual_status ual_link_post_unlink(struct ual_link *link, struct ual_ep *ep, uint64_t cookie,
                                     uint16_t wr_flags)
{
    struct ri_send_wr wr = {
        .cookie = cookie,
        .opcode = RI_WR_LOCAL_INVALIDATE,
        .flags = wr_flags,
        .invalidate_stag = link->stag,
    };
    enum ual_status status = ual_post_send(ep, &wr);

    if (status == UAL_OK)
        link->closing = true;
    return status;
}

/* The table at struct ual_link. */
static void follow(struct ual_link *link, const struct ri_wc *wc)
{
    spinlock_lock(&link->lock);
    if (link->stag == wc->invalidated_stag) {
        if (wc->flags & RI_WC_WITH_INVALIDATE)
            link->opened = false;
        else if (wc->status == RI_WC_SUCCESS)
            link->opened &= wc->opcode != RI_WC_LOCAL_INVALIDATE;
        else if (wc->opcode == RI_WC_LOCAL_INVALIDATE)
            link->closing = false;
        else
            link->opened = false;
    }
    spinlock_unlock(&link->lock);
}

ual_handle ual_memory_of(const struct ri_wc *wc)
{
    struct ual_ia *ia = ((const struct ual_object *)wc->context)->ia;
    uint32_t index = INDEX_OF(wc->invalidated_stag);
    struct ual_stripe *stripe = stripe_of(ia, index);
    struct ual_link *link;
    ual_handle handle = 0;

    spinlock_lock(&stripe->lock);
    HASH_FIND(hh, stripe->links, &index, sizeof(index), link);
    if (link) { /* stays while it is in the table */
        handle = link->object->handle;
        follow(link, wc);
    }
    spinlock_unlock(&stripe->lock);
    return handle;
}

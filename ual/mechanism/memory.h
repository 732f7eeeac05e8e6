/* SPDX-License-Identifier: BSD-3-Clause
 * What regions and windows share: the state of their link, and the table that finds them by
 * STag. */
#ifndef ITAL_UAL_MEMORY_H
#define ITAL_UAL_MEMORY_H

#include "mechanism_private.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/*
 * Linked: `opened` and not `closing`. The posts set what they asked for; a completion that tells of
 * the same STag, and so of the same link, corrects it where that did not happen (a suppressed
 * success tells nothing, a failure always does):
 *   link posted      opened, not closing     failed   not opened; the link before counts again
 *   unlink posted    closing                 failed   not closing
 *   Read posted, quiet, that unlinks its sink: as unlink
 *   unlinked by the peer, or as the sink of a Read    not opened
 * The link before the last is kept because a refused link takes nothing away: what it was to
 * replace is still there. (When several are refused in a row, what was before all of them is
 * forgotten.) `lock` is held across the post, so that the last link is the last one in the work
 * queue too. Upcalls do not take it.
 */
struct ual_link_state {
    uint32_t stag;
    bool opened, closing;
};

struct ual_link {
    struct spinlock lock;
    struct ual_object *object;
    uint32_t index; /* STag without its key: the table's key; constant while in the table */
    uint8_t key;    /* of the link that was posted last */
    struct ual_link_state last, before;
    UT_hash_handle hh;
};

void ual_link_init(struct ual_link *link, struct ual_object *object);
/* Into the table, with that STag; RI_ERR_NO_RESOURCES. An index may be there twice for a moment,
 * when it is used again by the provider before the old object left: the newer one is found. */
enum ri_status ual_link_add(struct ual_link *link, uint32_t stag, bool opened);
void ual_link_remove(struct ual_link *link);

/* Under lock. */
static inline bool ual_link_open(const struct ual_link *link)
{
    spinlock_assert_held(&link->lock);
    return link->last.opened && !link->last.closing;
}
/* The STag that the next link shall have. Under lock. */
static inline uint32_t ual_link_next(const struct ual_link *link)
{
    spinlock_assert_held(&link->lock);
    return (link->last.stag & ~UINT32_C(0xff)) | ((link->key + 1u) & 0xff);
}
/* A link with that STag was posted. Under lock. */
static inline void ual_link_posted(struct ual_link *link, uint32_t stag)
{
    spinlock_assert_held(&link->lock);
    link->before = link->last;
    link->last = (struct ual_link_state){ .stag = stag, .opened = true };
    link->key = (uint8_t)stag;
}
/* Post a local invalidate of the last link. Under lock. */
enum ri_status ual_link_post_unlink(struct ual_link *link, struct ual_qp *qp, uint64_t cookie,
                                    uint16_t wr_flags);
/* Post a Read that unlinks its sink. Takes the lock. */
enum ri_status ual_link_post_read(struct ual_link *link, struct ual_qp *qp, struct ri_send_wr *wr);

struct ual_mr_record {
    struct ual_mr mr; /* first: what the front end sees */
    struct ual_link link;
    struct ual_mr_record *prev, *next;
};

#endif

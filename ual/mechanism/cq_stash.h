/* SPDX-License-Identifier: BSD-3-Clause
 * The stash of a CQ: adds the arm kinds and the peeking that a provider's CQ lacks. */
#ifndef ITAL_UAL_CQ_STASH_H
#define ITAL_UAL_CQ_STASH_H

#include "rnicpi.h"

struct ual_cq_stash;

/* What the stash calls, with the context of ual_cq_stash_open. */
struct ual_cq_stash_upper {
    /* The stash was armed and fires. No lock is held. */
    void (*fired)(void *context);
    /* The CQ below has answered more to a poll than was asked for; `asked` are taken. A lock is
     * held. */
    void (*reported_more)(void *context, uint32_t told, uint32_t asked);
};

/* True: a CQ of that RNIC needs a stash for all arm kinds and for cq_peek. */
bool ual_cq_stash_needed(const struct ri_rnic_attr *attr);
/*
 * Over `below`, for `depth` completions. tells_solicited: RI_WC_SOLICITED is reliable below; else
 * every receive counts as marked, because one that was solicited must not be missed. NULL: no
 * memory.
 */
struct ual_cq_stash *ual_cq_stash_open(struct ri_cq *below, uint32_t depth, bool tells_solicited,
                                       const struct ual_cq_stash_upper *upper, void *context);
/* No thread may use it any more. */
void ual_cq_stash_close(struct ual_cq_stash *stash);
/* The CQ for poll, arm and cq_peek, with the full semantics of rnicpi.h. A full stash counts as the
 * awaited completion, because nothing behind it can be seen. */
struct ri_cq *ual_cq_stash_cq(struct ual_cq_stash *stash);
/* The CQ below has fired. Upcall. */
void ual_cq_stash_fired(struct ual_cq_stash *stash);
/* Removes the completions of that context; the CQ below has none. */
void ual_cq_stash_forget(struct ual_cq_stash *stash, const void *context);
/*
 * Call before the CQ below is resized, one thread at a time. The stash grows; or, for a smaller
 * size, checks that its completions would fit, and keeps its size: if the CQ refuses the new size,
 * the stash is not smaller than before. RI_ERR_NO_RESOURCES, RI_ERR_BUSY.
 */
enum ri_status ual_cq_stash_resize(struct ual_cq_stash *stash, uint32_t depth);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The stash of a CQ: what a provider's CQ lacks of arm kinds and of peeking. */
#ifndef ITAL_UAL_CQ_STASH_H
#define ITAL_UAL_CQ_STASH_H

#include "rnicpi.h"

struct ual_cq_stash;

/* Does a CQ of that RNIC need one for all arm kinds and for cq_peek? */
bool ual_cq_stash_needed(const struct ri_rnic_attr *attr);
/*
 * Over `below`, for `depth` completions. fired(context) is called, with no lock held, when the
 * stash was armed and fires. tells_solicited: RI_WC_SOLICITED is reliable below; else every receive
 * counts as marked, because one that was solicited must not be missed. NULL: no memory.
 */
struct ual_cq_stash *ual_cq_stash_open(struct ri_cq *below, uint32_t depth, bool tells_solicited,
                                       void (*fired)(void *context), void *context);
/* No thread uses it. */
void ual_cq_stash_close(struct ual_cq_stash *stash);
/* What poll, arm and cq_peek go to. Full semantics of rnicpi.h; a full stash counts as all that is
 * waited for, as nothing behind it can be seen. */
struct ri_cq *ual_cq_stash_cq(struct ual_cq_stash *stash);
/* The CQ below has fired. Upcall. */
void ual_cq_stash_fired(struct ual_cq_stash *stash);
/* No completion of that context is polled any more; below there is none. */
void ual_cq_stash_forget(struct ual_cq_stash *stash, const void *context);
/*
 * Before the CQ below is resized, one thread at a time. It grows, or says whether the completions
 * that are there would fit and stays as large as it is: a CQ that is refused the new size then has
 * no smaller stash than it had. RI_ERR_NO_RESOURCES, RI_ERR_BUSY.
 */
enum ri_status ual_cq_stash_resize(struct ual_cq_stash *stash, uint32_t depth);

#endif

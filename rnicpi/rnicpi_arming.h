/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_arming.h - which completions fire an armed completion queue, arming itself, and the list
 * of work queues that wait for room; for each provider that keeps its completion queues itself. All
 * inline; no allocation, no lock. A whole completion queue in memory: rnicpi_cq.h.
 */
#ifndef RNICPI_ARMING_H
#define RNICPI_ARMING_H

#include "rnicpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- completions and arming ---- */

/* Does the completion fire a CQ that is armed for solicited ones? */
static inline bool ri_wc_is_solicited(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_SOLICITED) || wc->status != RI_WC_SUCCESS;
}

/* Does the completion fire a CQ that is armed for marked ones? cq_peek counts these. */
static inline bool ri_wc_is_marked(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_NOTIFY) || ri_wc_is_solicited(wc);
}

#define RI_NOT_ARMED (-1)

/* How a CQ is armed. Under the lock of the CQ. */
struct ri_arming {
    int kind;       /* enum ri_arm, or RI_NOT_ARMED */
    uint32_t count; /* RI_ARM_NTH */
};

/* RI_ERR_INVALID_ARGUMENT: there is no such kind, or a CQ of that depth never has so many. */
static inline enum ri_status ri_arming_check(enum ri_arm kind, uint32_t count, uint32_t depth)
{
    bool good = (unsigned int)kind < RI_ARM_NTH ||
                (kind == RI_ARM_NTH && count >= 1 && count <= depth);

    return good ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* Does this completion fire? It has just arrived, and `entries` are in the CQ with it. */
static inline bool ri_arming_wants(const struct ri_arming *arming, const struct ri_wc *wc,
                                   uint32_t entries)
{
    switch (arming->kind) {
    case RI_ARM_NEXT: return true;
    case RI_ARM_SOLICITED: return ri_wc_is_solicited(wc);
    case RI_ARM_NOTIFY_MARKED: return ri_wc_is_marked(wc);
    case RI_ARM_NTH: return entries >= arming->count;
    default: return false;
    }
}

/* ---- work queues that wait for room ---- */

/*
 * RI_FEATURE_CQ_HOLDS_OVERFLOW: a completion that does not fit stays in its work queue, which goes
 * onto the CQ's list. While the work queue is on the list none of its completions enters the CQ, so
 * that later ones do not overtake. Under the lock of the CQ.
 */
struct ri_queued {
    struct ri_queued *next;
    /* Blocked. Also set for a queue that is on no list any more and whose completions stay out. */
    bool on;
};

struct ri_queued_list {
    struct ri_queued *first, *last; /* oldest first */
};

static inline void ri_queued_add(struct ri_queued_list *list, struct ri_queued *queued)
{
    queued->on = true;
    queued->next = NULL;
    if (list->last)
        list->last->next = queued;
    else
        list->first = queued;
    list->last = queued;
}

/* False: it is not on the list. */
static inline bool ri_queued_remove(struct ri_queued_list *list, struct ri_queued *queued)
{
    struct ri_queued *before = NULL, *at = list->first;

    for (; at && at != queued; at = at->next)
        before = at;
    if (!at)
        return false;
    if (before)
        before->next = queued->next;
    else
        list->first = queued->next;
    if (list->last == queued)
        list->last = before;
    queued->next = NULL;
    queued->on = false;
    return true;
}

#ifdef __cplusplus
}
#endif

#endif

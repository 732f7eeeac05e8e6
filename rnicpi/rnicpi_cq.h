/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_cq.h - completion queues, for providers. Three pieces that can be used alone, all inline:
 * what a completion is for an armed CQ, arming itself, and the list of those that wait for room.
 * And a whole CQ in memory built of them (librnicpi.a), for providers whose device or protocol
 * engine has none that could be polled: poll, arm and cq_peek of it stand in the operation table as
 * they are, with RI_FEATURE_CQ_ARM_NOTIFY, _CQ_ARM_NTH, _CQ_PEEK and _CQ_HOLDS_OVERFLOW set.
 */
#ifndef RNICPI_CQ_H
#define RNICPI_CQ_H

#include <pthread.h>

#include "rnicpi.h"
#include "rnicpi_ring.h"

/* ---- 1. completions and arming ---- */

/* Does the completion fire a CQ that is armed for solicited ones? */
static inline bool ri_wc_is_solicited(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_SOLICITED) || wc->status != RI_WC_SUCCESS;
}

/* And one that is armed for marked ones? cq_peek counts these. */
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

/* RI_ERR_INVALID_ARGUMENT: no such kind, or a count that a CQ of that depth never has. */
static inline enum ri_status ri_arming_check(enum ri_arm kind, uint32_t count, uint32_t depth)
{
    bool good = (unsigned int)kind < RI_ARM_NTH ||
                (kind == RI_ARM_NTH && count >= 1 && count <= depth);

    return good ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* Does this completion, which has just come as the `entries`-th that is there, fire? */
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

/* ---- 2. who waits for room ---- */

/*
 * RI_FEATURE_CQ_HOLDS_OVERFLOW: a completion that does not fit stays where it is, and its work
 * queue goes onto the CQ's list. While a work queue is held nothing of it enters the CQ, so that
 * what comes later does not overtake. Under the lock of the CQ.
 */
struct ri_queued {
    struct ri_queued *next;
    bool on; /* held back; also one that is on no list any more and shall stay out */
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

/* ---- 3. a CQ in memory: librnicpi.a ---- */

struct ri_cq_entry;

/*
 * Embed as first member, or use as it is: `base` is what cq_create gives the host. Everything else
 * is the library's. Thread safe. Lock order: whatever the provider holds when it calls, then the
 * CQ's lock, then what ri_cq_source.next takes.
 */
struct ri_mem_cq {
    struct ri_cq base;
    const struct ri_host *host;
    pthread_mutex_t lock;
    struct ri_ring ring;
    struct ri_cq_entry *entries;
    struct ri_arming arming;
    uint32_t marked; /* entries that are: ri_wc_is_marked */
    uint32_t sources;
    struct ri_queued_list queued;
    bool overflowed; /* told, and there was no moment since with room for all */
    atomic_uint to_report, upcalls;
    atomic_uint collects, delivered; /* how often; delivered: up to which of them */
};

/*
 * Where completions come from: a QP has one for its send and one for its receive queue. A
 * completion stays with its source until there is room for it, so nothing is ever lost and nothing
 * allocated.
 */
struct ri_cq_source {
    struct ri_queued queued; /* first; the library's */
    struct ri_mem_cq *cq;
    /* Fill in the next completion that is ready, and go on behind it; false: none is. wc NULL: only
     * say whether there is one. Under the CQ's lock: calls nothing of this header. */
    bool (*next)(struct ri_cq_source *source, struct ri_wc *wc);
    /* The completion was polled: what it covers is free. May be NULL. Under the CQ's lock as well.
     */
    void (*polled)(struct ri_cq_source *source, const struct ri_wc *wc);
};

/* For cq_create: attr->depth 1 .. 2^31. RI_ERR_INVALID_ARGUMENT, RI_ERR_NO_RESOURCES. ops:
 * ri_open.user. */
enum ri_status ri_mem_cq_open(struct ri_mem_cq *cq, const struct ri_host *host,
                              const struct ri_user_ops *ops, const struct ri_cq_attr *attr);
/* For cq_destroy. RI_ERR_BUSY: sources are left, or a ri_cq_collect was not followed by its
 * ri_cq_deliver yet. Waits for upcalls of other threads. */
enum ri_status ri_mem_cq_close(struct ri_mem_cq *cq);
/* For cq_resize. RI_ERR_INVALID_ARGUMENT, RI_ERR_BUSY: below the content, RI_ERR_NO_RESOURCES. One
 * that is armed by RI_ARM_NTH for more than `depth` fires when it is full from then on. Settles. */
enum ri_status ri_mem_cq_resize(struct ri_mem_cq *cq, uint32_t depth);

/* For qp_create and qp_destroy. After remove no completion of the source is polled, and none of its
 * functions runs. Whoever collects from the source has settled before it is removed. */
void ri_cq_source_add(struct ri_cq_source *source, struct ri_mem_cq *cq);
void ri_cq_source_remove(struct ri_cq_source *source);

/*
 * Move what the source has ready into its CQ. False: there is no room for all; the rest follows
 * when completions are polled. A provider whose connections are to end then (RI_EVENT_QP_OVERFLOW)
 * ends them. Any lock of the provider's may be held.
 */
bool ri_cq_collect(struct ri_cq_source *source);
/*
 * Tell the host what collect, poll or remove have brought about: cq_event, cq_error. No lock held.
 * Each ri_cq_collect is followed by one, in the same thread. In between the source stays: it alone
 * keeps the CQ from being closed under the call. ri_mem_cq_close answers RI_ERR_BUSY where it finds
 * that one is still owed.
 */
void ri_cq_deliver(struct ri_mem_cq *cq);

/* ri_user_ops.poll, .arm and .cq_peek. */
uint32_t ri_mem_cq_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc);
enum ri_status ri_mem_cq_arm(struct ri_cq *cq, enum ri_arm kind, uint32_t count);
enum ri_status ri_mem_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *marked);

#endif

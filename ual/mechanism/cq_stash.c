/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The stash of a CQ, for a provider that can fire only at the next completion. When the CQ below
 * fires, its completions move to a ring here, where they are counted and checked. Only the awaited
 * completion fires upwards. The consumer polls the ring first, which keeps the order.
 *
 * The lock is held across poll and arm of the provider. An upcall from one of these may not wait
 * for it: it sets `pending`, and the lock's holder does the work after the unlock.
 */
#include "cq_stash.h"

#include "base/compiler.h"
#include "base/spinlock.h"

#include <stdlib.h>
#include <string.h>

#define ALL_KINDS (RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_PEEK)
#define UNARMED   (-1)

struct ual_cq_stash {
    struct ri_cq base; /* first: the CQ that is polled */
    struct ri_cq *below;
    const struct ual_cq_stash_upper *upper;
    void *context;
    bool tells_solicited;
    atomic_bool pending;  /* the CQ below has fired */
    struct spinlock lock; /* what follows */
    struct ri_wc *ring;
    uint32_t depth, head, count;
    uint32_t marked;
    int armed;       /* enum ri_arm, or UNARMED */
    uint32_t wanted; /* RI_ARM_NTH */
};

bool ual_cq_stash_needed(const struct ri_rnic_attr *attr)
{
    return (attr->features & ALL_KINDS) != ALL_KINDS;
}

static struct ual_cq_stash *stash_of(struct ri_cq *base)
{
    return (struct ual_cq_stash *)base; /* its first member */
}

/* --- the ring; under the lock --- */

static bool is_solicited(const struct ual_cq_stash *stash, const struct ri_wc *wc)
{
    bool unknown = !stash->tells_solicited && wc->opcode >= RI_WC_RECV;

    return (wc->flags & RI_WC_SOLICITED) || wc->status != RI_WC_SUCCESS || unknown;
}

static bool is_marked(const struct ual_cq_stash *stash, const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_NOTIFY) || is_solicited(stash, wc);
}

static bool wants(const struct ual_cq_stash *stash, const struct ri_wc *wc)
{
    switch (stash->armed) {
    case RI_ARM_NEXT: return true;
    case RI_ARM_SOLICITED: return is_solicited(stash, wc);
    case RI_ARM_NOTIFY_MARKED: return is_marked(stash, wc);
    case RI_ARM_NTH: return stash->count >= stash->wanted;
    default: return false;
    }
}

/* The free places behind the newest without a wrap. */
static uint32_t room(const struct ual_cq_stash *stash, uint32_t *tail)
{
    *tail = (stash->head + stash->count) % stash->depth;
    return *tail >= stash->head && stash->count < stash->depth ? stash->depth - *tail
                                                               : stash->head - *tail;
}

/* From the CQ below, but never more than asked for. */
static uint32_t poll_below(struct ual_cq_stash *stash, uint32_t count, struct ri_wc *wc)
{
    uint32_t got = stash->below->ops->poll(stash->below, count, wc);

    if (likely(got <= count))
        return got;
    stash->upper->reported_more(stash->context, got, count);
    return count;
}

/* Moves the completions below to the ring, as far as they fit. True: the stash fires. */
static bool drain(struct ual_cq_stash *stash)
{
    bool fires = false;
    uint32_t tail, fits, got;

    do {
        fits = room(stash, &tail);
        got = fits ? poll_below(stash, fits, &stash->ring[tail]) : 0;
        for (uint32_t i = 0; i < got; i++) {
            stash->count++;
            stash->marked += is_marked(stash, &stash->ring[tail + i]);
            fires |= wants(stash, &stash->ring[tail + i]);
        }
    } while (got);
    fires |= stash->armed != UNARMED && stash->count == stash->depth;
    if (fires)
        stash->armed = UNARMED;
    return fires;
}

/* From now on the awaited completion also fires below; those that had arrived were checked. */
static bool watch(struct ual_cq_stash *stash)
{
    bool fires = drain(stash);

    if (stash->armed == UNARMED)
        return fires;
    stash->below->ops->arm(stash->below, RI_ARM_NEXT, 0);
    return drain(stash) || fires;
}

/* --- the lock --- */

static void lock(struct ual_cq_stash *stash)
{
    spinlock_lock(&stash->lock);
}

static void unlock(struct ual_cq_stash *stash, bool fires)
{
    for (;;) {
        spinlock_unlock(&stash->lock);
        if (fires)
            stash->upper->fired(stash->context);
        atomic_thread_fence(memory_order_seq_cst);
        if (likely(!atomic_load(&stash->pending)) || !spinlock_try(&stash->lock))
            return;
        atomic_store(&stash->pending, false);
        fires = watch(stash);
    }
}

void ual_cq_stash_fired(struct ual_cq_stash *stash)
{
    atomic_store(&stash->pending, true);
    /* As in unlock(): this thread gets the lock, or the holder sees `pending`. */
    atomic_thread_fence(memory_order_seq_cst);
    if (!spinlock_try(&stash->lock))
        return;
    atomic_store(&stash->pending, false);
    unlock(stash, watch(stash));
}

/* --- operations --- */

static uint32_t take(struct ual_cq_stash *stash, uint32_t count, struct ri_wc *wc)
{
    uint32_t taken = 0;

    for (; taken < count && stash->count; taken++, stash->count--) {
        wc[taken] = stash->ring[stash->head];
        stash->marked -= is_marked(stash, &wc[taken]);
        stash->head = (stash->head + 1) % stash->depth;
    }
    return taken;
}

static uint32_t poll_stash(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct ual_cq_stash *stash = stash_of(base);
    uint32_t taken;

    lock(stash);
    taken = take(stash, count, wc);
    if (taken < count || !count)
        taken += poll_below(stash, count - taken, wc ? wc + taken : NULL);
    unlock(stash, false);
    return taken;
}

static enum ri_status arm_stash(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    struct ual_cq_stash *stash = stash_of(base);
    bool fires;

    if ((unsigned int)kind > RI_ARM_NTH || (kind == RI_ARM_NTH && !count))
        return RI_ERR_INVALID_ARGUMENT;
    lock(stash);
    drain(stash); /* completions that have arrived do not fire, except for the n-th */
    stash->armed = (int)kind;
    stash->wanted = count;
    fires = kind == RI_ARM_NTH && stash->count >= count;
    if (fires)
        stash->armed = UNARMED;
    unlock(stash, watch(stash) || fires);
    return RI_OK;
}

static enum ri_status peek_stash(struct ri_cq *base, uint32_t *total, uint32_t *notify)
{
    struct ual_cq_stash *stash = stash_of(base);
    bool fires;

    lock(stash);
    fires = drain(stash);
    *total = stash->count;
    *notify = stash->count == stash->depth ? stash->depth : stash->marked;
    unlock(stash, fires);
    return RI_OK;
}

static const struct ri_user_ops stash_ops = {
    .size = sizeof(stash_ops),
    .abi_major = RI_ABI_MAJOR,
    .poll = poll_stash,
    .arm = arm_stash,
    .cq_peek = peek_stash,
};

/* --- life --- */

struct ual_cq_stash *ual_cq_stash_open(struct ri_cq *below, uint32_t depth, bool tells_solicited,
                                       const struct ual_cq_stash_upper *upper, void *context)
{
    struct ual_cq_stash *stash = calloc(1, sizeof(*stash));

    if (!stash)
        return NULL;
    stash->ring = calloc(depth, sizeof(*stash->ring));
    if (!stash->ring) {
        free(stash);
        return NULL;
    }
    stash->base.ops = &stash_ops;
    stash->below = below;
    stash->depth = depth;
    stash->tells_solicited = tells_solicited;
    stash->armed = UNARMED;
    stash->upper = upper;
    stash->context = context;
    return stash;
}

void ual_cq_stash_close(struct ual_cq_stash *stash)
{
    free(stash->ring);
    free(stash);
}

struct ri_cq *ual_cq_stash_cq(struct ual_cq_stash *stash)
{
    return &stash->base;
}

void ual_cq_stash_forget(struct ual_cq_stash *stash, const void *context)
{
    uint32_t left = 0;

    lock(stash);
    for (uint32_t i = 0; i < stash->count; i++) {
        const struct ri_wc *wc = &stash->ring[(stash->head + i) % stash->depth];

        if (wc->context == context)
            stash->marked -= is_marked(stash, wc);
        else
            stash->ring[(stash->head + left++) % stash->depth] = *wc;
    }
    stash->count = left;
    unlock(stash, false);
}

static enum ri_status grow(struct ual_cq_stash *stash, uint32_t depth)
{
    struct ri_wc *ring = calloc(depth, sizeof(*ring)), *old;

    if (!ring)
        return RI_ERR_NO_RESOURCES;
    lock(stash);
    for (uint32_t i = 0; i < stash->count; i++)
        ring[i] = stash->ring[(stash->head + i) % stash->depth];
    old = stash->ring;
    stash->ring = ring;
    stash->depth = depth;
    stash->head = 0;
    unlock(stash, drain(stash));
    free(old);
    return RI_OK;
}

/* More than the CQ will hold can never arrive: full is enough. True: the stash fires. Under the
 * lock. */
static bool lower_wanted(struct ual_cq_stash *stash, uint32_t depth)
{
    if (stash->armed != RI_ARM_NTH)
        return false;
    if (stash->wanted > depth)
        stash->wanted = depth;
    if (stash->count < stash->wanted)
        return false;
    stash->armed = UNARMED;
    return true;
}

enum ri_status ual_cq_stash_resize(struct ual_cq_stash *stash, uint32_t depth)
{
    bool fires, fits;

    if (depth > stash->depth)
        return grow(stash, depth);
    lock(stash);
    fires = drain(stash);
    fits = stash->count <= depth;
    if (fits)
        fires |= lower_wanted(stash, depth);
    unlock(stash, fires);
    return fits ? RI_OK : RI_ERR_BUSY;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Polling and arming a completion queue. When a consumer polls and finds no more, its coalesced
 * posts are sent (coalesced.h). When the ring gets room, blocked queues are retried
 * (cq.c).
 */
#include "core.h"
#include "cq.h"
#include "sanitizer.h"

static struct cq *cq_of(struct ri_cq *base)
{
    return container_of(base, struct cq, base);
}

static inline bool has_blocked(const struct cq *cq)
{
    return atomic_load_explicit(&cq->blocked, memory_order_relaxed) != 0;
}

void cq_retry_blocked(struct cq *cq)
{
    spinlock_assert_not_held(&cq->lock);
    /* A queue that blocks again goes to the end: each gets one turn, sends and receives
     * alternately. */
    uint32_t turns = atomic_load_explicit(&cq->blocked, memory_order_relaxed);

    for (uint32_t turn = 0; turn < turns; turn++) {
        int which = turn & 1 ? CQ_RECEIVES : CQ_SENDS;
        struct qp *qp = cq_take_blocked(cq, &which);

        if (!qp)
            break;
        qp_retire(qp, which == CQ_RECEIVES ? &qp->rq : &qp->sq);
        cq_retried(cq);
        qp_deliver(qp);
        atomic_fetch_sub(&qp->upcalls, 1);
    }
}

/* A completion was polled. It covers all requests up to its own: unsignalled ones before it are
 * free, too. */
static inline void free_slots(const struct cq_entry *entry)
{
    struct wq *wq = entry->wq;

    atomic_store_explicit(&wq->freed, entry->index + 1, memory_order_release);
    if (unlikely(entry->shared))
        srq_polled(container_of(wq, struct qp, rq)->srq);
}

static inline __attribute__((always_inline)) uint32_t take(struct cq *cq, uint32_t count,
                                                           struct ri_wc *wc, bool *emptied)
{
    uint32_t head = ri_ring_head(&cq->ring);
    const uint32_t there = ri_ring_tail(&cq->ring) - head;
    const uint32_t taken = there < count ? there : count, end = head + taken;

    spinlock_assert_held(&cq->lock);
    *emptied = there <= count;
    if (likely(taken)) {
        do {
            const struct cq_entry *entry = &cq->entries[head & cq->ring.mask];

            *wc++ = entry->wc;
            if (unlikely(cq->marked) && cq_marked(&entry->wc))
                cq->marked--;
            free_slots(entry);
        } while (++head != end);
        ri_ring_take_to(&cq->ring, end);
        tx_note_taken(cq);
    }
    return taken;
}

/* The consumer polled outside of a pass: a consumer that streams makes no pass for long. */
static void note_seen(struct cq *cq, const struct lane *lane)
{
    atomic_store_explicit(&cq->seen, atomic_load_explicit(&lane->passes, memory_order_relaxed),
                          memory_order_relaxed);
}

/* Coalesced posts wait neither for a pass nor for the end of another thread's pass. */
static __attribute__((noinline)) void poll_without_pass(struct cq *cq)
{
    const struct lane *home = atomic_load_explicit(&cq->home, memory_order_relaxed);

    if (home)
        note_seen(cq, home);
    tx_note_poll_at(cq);
}

/* Another thread holds the lock, or queues are blocked. */
static __attribute__((noinline)) uint32_t poll_slowly(struct cq *cq, uint32_t count,
                                                      struct ri_wc *wc)
{
    bool emptied;
    uint32_t taken;

    spinlock_assert_not_held(&cq->lock);
    spinlock_lock(&cq->lock);
    if (cq->rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_taken(cq, count);
    taken = take(cq, count, wc, &emptied);
    cq_end_overflow(cq);
    spinlock_unlock(&cq->lock);
    if (has_blocked(cq)) {
        cq_retry_blocked(cq);
        spinlock_lock(&cq->lock);
        if (cq->rnic->options.sanitizers != SANITIZER_OFF)
            sanitizer_taken(cq, count - taken);
        taken += take(cq, count - taken, wc + taken, &emptied);
        cq_end_overflow(cq);
        spinlock_unlock(&cq->lock);
    }
    if (emptied)
        poll_without_pass(cq);
    return taken;
}

uint32_t core_poll_slowly(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    return poll_slowly(cq_of(base), count, wc);
}

/* lane: the one that feeds the CQ, NULL for several. Returns `taken`, so that the caller needs
 * no stack frame. */
static __attribute__((noinline)) uint32_t send_gathered(struct cq *cq, struct lane *lane,
                                                        uint32_t taken)
{
    if (lane) {
        note_seen(cq, lane);
        tx_send_all_coalesced(lane, cq);
    } else {
        tx_note_poll_everywhere(cq->rnic);
    }
    return taken;
}

uint32_t core_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct cq *cq = cq_of(base);
    uint32_t taken;
    bool emptied;

    if (unlikely(ri_ring_is_empty(&cq->ring))) {
        if (unlikely(has_blocked(cq)))
            return poll_slowly(cq, count, wc);
        if (!count)
            poll_without_pass(cq);
        return 0;
    }
    if (unlikely(!spinlock_try_blind(&cq->lock)))
        return poll_slowly(cq, count, wc);
    if (unlikely(has_blocked(cq))) {
        spinlock_unlock(&cq->lock);
        return poll_slowly(cq, count, wc);
    }
    taken = take(cq, count, wc, &emptied);
    /* No queue is blocked: as cq_end_overflow(). */
    if (emptied)
        atomic_store_explicit(&cq->overflowed, false, memory_order_relaxed);
    spinlock_unlock(&cq->lock);
    if (emptied) {
        struct lane *lane = atomic_load_explicit(&cq->lane, memory_order_relaxed);

        if (unlikely(!lane) || tx_has_coalesced(lane))
            return send_gathered(cq, lane, taken);
    }
    return taken;
}

enum ri_status core_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    struct cq *cq = cq_of(base);
    enum ri_status status;

    spinlock_lock(&cq->lock);
    status = ri_arming_check(kind, count, cq->ring.depth);
    if (status != RI_OK)
        goto unlock;
    cq->arming = (struct ri_arming){ (int)kind, count };
    atomic_store_explicit(&cq->consumer, CONSUMER_ARMED, memory_order_relaxed);
    atomic_store_explicit(&cq->dry, 0, memory_order_relaxed);
    cq->hits = 0;
    if (kind == RI_ARM_NTH && ri_ring_count(&cq->ring) >= count)
        cq_fire(cq);
    spinlock_unlock(&cq->lock);
    tx_note_poll_at(cq); /* a consumer that waits needs its posts sent */
    cq_deliver(cq);
    return RI_OK;

unlock:
    spinlock_unlock(&cq->lock);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues: a ring under a spinlock.
 *
 * Nothing is lost when a CQ is full (RI_FEATURE_CQ_HOLDS_OVERFLOW): cq_push() refuses, the completion stays in its
 * work queue, and the QP is put on the CQ's list of blocked queues. While a queue is on the list everything
 * that it pushes is refused, so that what comes later does not overtake. Who makes room (poll, purge) takes
 * queues off the list, oldest first, and has them retired again with the lock dropped; qp->upcalls is counted
 * from before the lock is dropped, so that qp_destroy waits.
 *
 * Firing is noted under the lock (fired, overflow_noted) and told by cq_settle() with no lock held.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"

#include <stdlib.h>
#include <string.h>

#define SEND      0
#define RECEIVE   1
#define NOT_ARMED (-1)

static struct cq *cq_of(struct ri_cq *base)
{
    return container_of(base, struct cq, base);
}

static int which_queue(const struct ri_wc *wc)
{
    return wc->opcode >= RI_WC_RECV ? RECEIVE : SEND;
}

static struct wq *queue_of(struct qp *qp, int which)
{
    return which == RECEIVE ? &qp->rq : &qp->sq;
}

static bool solicited(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_SOLICITED) || wc->status != RI_WC_SUCCESS;
}

static bool notable(const struct ri_wc *wc)
{
    return (wc->flags & RI_WC_NOTIFY) || solicited(wc);
}

/* ---- the ring; under the lock ---- */

static uint32_t count_of(const struct cq *cq)
{
    return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
           atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static void fire(struct cq *cq)
{
    cq->armed = NOT_ARMED;
    atomic_store_explicit(&cq->consumer, CONSUMER_WAITS, memory_order_relaxed);
    atomic_store_explicit(&cq->fired, true, memory_order_relaxed);
}

static void fire_if_wanted(struct cq *cq, const struct ri_wc *wc)
{
    bool wanted = false;

    switch (cq->armed) {
    case RI_ARM_NEXT: wanted = true; break;
    case RI_ARM_SOLICITED: wanted = solicited(wc); break;
    case RI_ARM_NOTIFY_MARKED: wanted = notable(wc); break;
    case RI_ARM_NTH: wanted = count_of(cq) >= cq->armed_count; break;
    default: break;
    }
    if (wanted)
        fire(cq);
}

/* Also when it runs empty: an overflow after that is a new one. */
static void set_head(struct cq *cq, uint32_t head)
{
    atomic_store_explicit(&cq->head, head, memory_order_release);
    if (head == atomic_load_explicit(&cq->tail, memory_order_relaxed))
        atomic_store_explicit(&cq->overflowed, false, memory_order_relaxed);
}

/* ---- blocked queues; under the lock ---- */

static void block(struct cq *cq, struct qp *qp, int which)
{
    qp->blocked[which] = true;
    qp->blocked_next[which] = NULL;
    if (cq->blocked_tail[which])
        cq->blocked_tail[which]->blocked_next[which] = qp;
    else
        cq->blocked_head[which] = qp;
    cq->blocked_tail[which] = qp;
    atomic_fetch_add_explicit(&cq->blocked, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&cq->overflowed, memory_order_relaxed)) {
        atomic_store_explicit(&cq->overflowed, true, memory_order_relaxed);
        atomic_store_explicit(&cq->overflow_noted, true, memory_order_relaxed);
    }
}

static void unblock(struct cq *cq, struct qp *qp, int which)
{
    struct qp *before = NULL, *at = cq->blocked_head[which];

    for (; at && at != qp; at = at->blocked_next[which])
        before = at;
    if (!at)
        return;
    if (before)
        before->blocked_next[which] = qp->blocked_next[which];
    else
        cq->blocked_head[which] = qp->blocked_next[which];
    if (cq->blocked_tail[which] == qp)
        cq->blocked_tail[which] = before;
    qp->blocked_next[which] = NULL;
    qp->blocked[which] = false;
    atomic_fetch_sub_explicit(&cq->blocked, 1, memory_order_relaxed);
}

/* Let blocked queues go on while there is room. No lock held. */
static void retry_blocked(struct cq *cq)
{
    /* A queue that blocks again goes to the end: each gets one turn, sends and receives alternately. */
    uint32_t turns = atomic_load_explicit(&cq->blocked, memory_order_relaxed);

    for (uint32_t turn = 0; turn < turns; turn++) {
        int which = turn & 1 ? RECEIVE : SEND;
        struct qp *qp = NULL;

        spinlock_lock(&cq->lock);
        if (count_of(cq) < cq->depth) {
            if (!cq->blocked_head[which])
                which = !which;
            qp = cq->blocked_head[which];
        }
        if (qp) {
            unblock(cq, qp, which);
            atomic_fetch_add(&qp->upcalls, 1);
        }
        spinlock_unlock(&cq->lock);
        if (!qp)
            break;
        qp_retire(qp, queue_of(qp, which));
        qp_settle(qp);
        atomic_fetch_sub(&qp->upcalls, 1);
    }
}

/* ---- for the QP ---- */

bool cq_push(struct cq *cq, struct qp *qp, struct wq *wq, const struct ri_wc *wc, uint32_t index)
{
    int which = wq->receive ? RECEIVE : SEND;
    bool room;

    spinlock_lock(&cq->lock);
    room = !qp->blocked[which] && count_of(cq) < cq->depth;
    if (room) {
        uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
        struct cq_entry *entry = &cq->ring[tail & cq->mask];

        entry->wc = *wc;
        entry->qp = qp;
        entry->index = index;
        cq->notable += notable(wc);
        atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
        fire_if_wanted(cq, wc);
    } else if (!qp->blocked[which]) {
        block(cq, qp, which);
    }
    spinlock_unlock(&cq->lock);
    return room;
}

void cq_settle(struct cq *cq)
{
    const struct ri_host *host = cq->rnic->host;
    bool fired = atomic_load_explicit(&cq->fired, memory_order_relaxed);
    bool overflow = atomic_load_explicit(&cq->overflow_noted, memory_order_relaxed);

    if (!fired && !overflow)
        return;
    atomic_fetch_add(&cq->upcalls, 1);
    if (overflow && atomic_exchange(&cq->overflow_noted, false)) {
        const struct ri_event event = {
            .size = sizeof(event),
            .type = RI_EVENT_CQ_OVERFLOW,
            .detail = "the completion queue is full; completions wait in their queue pairs",
        };

        host->cq_error(host, cq->base.context, &event);
    }
    if (fired && atomic_exchange(&cq->fired, false))
        host->cq_event(host, cq->base.context);
    atomic_fetch_sub(&cq->upcalls, 1);
}

/* The others keep their order; the ring is closed up from the oldest on. What a retry in another thread still
 * pushes for the QP is refused: its queues stay marked as blocked. */
void cq_purge(struct cq *cq, struct qp *qp)
{
    uint32_t head, tail, to;
    bool retry;

    spinlock_lock(&cq->lock);
    head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    to = tail;
    for (uint32_t from = tail; from != head;) {
        struct cq_entry *entry = &cq->ring[--from & cq->mask];

        if (entry->qp == qp) {
            cq->notable -= notable(&entry->wc);
            continue;
        }
        to--;
        if (to != from)
            cq->ring[to & cq->mask] = *entry;
    }
    set_head(cq, to);
    for (int which = SEND; which <= RECEIVE; which++)
        if ((which == RECEIVE ? qp->recv_cq : qp->send_cq) == cq) {
            unblock(cq, qp, which);
            qp->blocked[which] = true;
        }
    retry = atomic_load_explicit(&cq->blocked, memory_order_relaxed) && count_of(cq) < cq->depth;
    spinlock_unlock(&cq->lock);
    if (retry)
        retry_blocked(cq);
}

/* ---- operations ---- */

static uint32_t take(struct cq *cq, uint32_t count, struct ri_wc *wc)
{
    uint32_t head, taken;

    spinlock_lock(&cq->lock);
    head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    taken = count_of(cq);
    if (taken > count)
        taken = count;
    for (uint32_t i = 0; i < taken; i++) {
        const struct cq_entry *entry = &cq->ring[(head + i) & cq->mask];

        wc[i] = entry->wc;
        cq->notable -= notable(&entry->wc);
        /* The completion covers all requests up to its own: unsignalled ones before it are free too. */
        int which = which_queue(&entry->wc);

        atomic_store_explicit(&queue_of(entry->qp, which)->freed, entry->index + 1,
                              memory_order_release);
        if (which == RECEIVE && entry->qp->srq)
            srq_polled(entry->qp->srq);
    }
    if (taken) {
        set_head(cq, head + taken);
        tx_note_taken(cq);
    }
    spinlock_unlock(&cq->lock);
    return taken;
}

uint32_t softrdma_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct cq *cq = cq_of(base);
    uint32_t taken;

    if (atomic_load_explicit(&cq->head, memory_order_acquire) ==
            atomic_load_explicit(&cq->tail, memory_order_acquire) &&
        !atomic_load_explicit(&cq->blocked, memory_order_relaxed))
        return 0;
    taken = take(cq, count, wc);
    if (atomic_load_explicit(&cq->blocked, memory_order_relaxed)) {
        retry_blocked(cq);
        taken += take(cq, count - taken, wc + taken);
    }
    if (atomic_load_explicit(&cq->head, memory_order_relaxed) ==
        atomic_load_explicit(&cq->tail, memory_order_relaxed))
        tx_note_look(cq->rnic->lane);
    return taken;
}

enum ri_status softrdma_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    struct cq *cq = cq_of(base);

    if ((unsigned int)kind > RI_ARM_NTH || (kind == RI_ARM_NTH && (!count || count > cq->depth)))
        return RI_ERR_INVALID_ARGUMENT;
    spinlock_lock(&cq->lock);
    cq->armed = kind;
    cq->armed_count = count;
    atomic_store_explicit(&cq->consumer, CONSUMER_ARMED, memory_order_relaxed);
    atomic_store_explicit(&cq->dry, 0, memory_order_relaxed);
    cq->hits = 0;
    if (kind == RI_ARM_NTH && count_of(cq) >= count)
        fire(cq);
    spinlock_unlock(&cq->lock);
    tx_note_look(cq->rnic->lane); /* who waits holds nothing back */
    cq_settle(cq);
    return RI_OK;
}

enum ri_status softrdma_cq_peek(struct ri_cq *base, uint32_t *total, uint32_t *notify)
{
    struct cq *cq = cq_of(base);

    spinlock_lock(&cq->lock);
    *total = count_of(cq);
    *notify = cq->notable;
    spinlock_unlock(&cq->lock);
    return RI_OK;
}

enum ri_status softrdma_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr, struct ri_cq **out)
{
    struct rnic *rnic = container_of(base, struct rnic, base);
    enum ri_status status = RI_ERR_NO_RESOURCES;
    uint32_t slots = 1;
    struct cq *cq;

    if (!attr->depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->depth > rnic->attr.max_cqe)
        return RI_ERR_LIMIT;
    if (atomic_fetch_add(&rnic->cqs, 1) >= rnic->attr.max_cq) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq)
        goto uncount;
    while (slots < attr->depth)
        slots <<= 1;
    cq->ring = calloc(slots, sizeof(*cq->ring));
    if (!cq->ring)
        goto free_cq;
    cq->base.ops = rnic->user;
    cq->base.context = attr->context;
    cq->rnic = rnic;
    spinlock_init(&cq->lock);
    cq->mask = slots - 1;
    cq->depth = attr->depth;
    cq->armed = NOT_ARMED;
    *out = &cq->base;
    return RI_OK;

free_cq:
    free(cq);
uncount:
    atomic_fetch_sub(&rnic->cqs, 1);
    return status;
}

enum ri_status softrdma_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = cq_of(base);

    if (atomic_load(&cq->users))
        return RI_ERR_BUSY;
    while (atomic_load(&cq->upcalls))
        sched_yield();
    atomic_fetch_sub(&cq->rnic->cqs, 1);
    free(cq->ring);
    free(cq);
    return RI_OK;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue in memory: see rnicpi_cq.h. Upcalls are noted under the lock and made with
 * no lock held. */
#include "rnicpi_cq.h"

#include <sched.h>
#include <stdlib.h>

#define REPORT_FIRED    1u
#define REPORT_OVERFLOW 2u

struct ri_cq_entry {
    struct ri_wc wc;
    struct ri_cq_source *source;
};

static struct ri_mem_cq *cq_of(struct ri_cq *base)
{
    return (struct ri_mem_cq *)base; /* its first member */
}

/* ---- under the lock ---- */

static void fire(struct ri_mem_cq *cq)
{
    cq->arming.kind = RI_NOT_ARMED;
    atomic_fetch_or(&cq->to_report, REPORT_FIRED);
}

static void push(struct ri_mem_cq *cq, struct ri_cq_source *source)
{
    uint32_t tail = ri_ring_tail(&cq->ring);
    struct ri_cq_entry *entry = &cq->entries[tail & cq->ring.mask];

    entry->wc = (struct ri_wc){ .context = NULL };
    entry->source = source;
    source->next(source, &entry->wc);
    cq->marked += ri_wc_is_marked(&entry->wc);
    ri_ring_put(&cq->ring, tail);
    if (ri_arming_wants(&cq->arming, &entry->wc, ri_ring_count(&cq->ring)))
        fire(cq);
}

static bool collect(struct ri_mem_cq *cq, struct ri_cq_source *source)
{
    while (source->next(source, NULL)) {
        if (!ri_ring_room(&cq->ring)) {
            ri_queued_add(&cq->queued, &source->queued);
            if (!cq->overflowed)
                atomic_fetch_or(&cq->to_report, REPORT_OVERFLOW);
            cq->overflowed = true;
            return false;
        }
        push(cq, source);
    }
    return true;
}

/* Each source gets one turn. A source that cannot move all its completions goes to the end. */
static void let_in(struct ri_mem_cq *cq)
{
    const struct ri_queued *last = cq->queued.last;
    struct ri_queued *queued;

    while ((queued = cq->queued.first) && ri_ring_room(&cq->ring)) {
        ri_queued_remove(&cq->queued, queued);
        collect(cq, (struct ri_cq_source *)queued);
        if (queued == last)
            break;
    }
}

static uint32_t take(struct ri_mem_cq *cq, uint32_t count, struct ri_wc *wc)
{
    uint32_t head = ri_ring_head(&cq->ring), taken = 0;

    for (; taken < count && head != ri_ring_tail(&cq->ring); head++, taken++) {
        struct ri_cq_entry *entry = &cq->entries[head & cq->ring.mask];

        wc[taken] = entry->wc;
        cq->marked -= ri_wc_is_marked(&entry->wc);
        if (entry->source->polled)
            entry->source->polled(entry->source, &entry->wc);
    }
    ri_ring_take_to(&cq->ring, head);
    return taken;
}

/* Completions were taken or dropped. When the CQ is empty and no source is queued, the overflow
 * is over: the next one is reported again. */
static void made_room(struct ri_mem_cq *cq)
{
    let_in(cq);
    if (!cq->queued.first && ri_ring_is_empty(&cq->ring))
        cq->overflowed = false;
}

/* The other entries keep their order. The ring is closed up towards the newest entry. */
static void drop_entries(struct ri_mem_cq *cq, const struct ri_cq_source *source)
{
    uint32_t head = ri_ring_head(&cq->ring), to = ri_ring_tail(&cq->ring);

    for (uint32_t from = to; from != head;) {
        struct ri_cq_entry *entry = &cq->entries[--from & cq->ring.mask];

        if (entry->source == source)
            cq->marked -= ri_wc_is_marked(&entry->wc);
        else
            cq->entries[--to & cq->ring.mask] = *entry;
    }
    ri_ring_take_to(&cq->ring, to);
}

/* ---- with no lock held ---- */

static void notify_host(struct ri_mem_cq *cq)
{
    static const struct ri_event overflow = {
        .size = sizeof(overflow),
        .type = RI_EVENT_CQ_OVERFLOW,
        .detail = "the completion queue is full; completions wait in their queue pairs",
    };
    unsigned int to_report;

    if (!atomic_load_explicit(&cq->to_report, memory_order_relaxed))
        return;
    atomic_fetch_add(&cq->upcalls, 1);
    to_report = atomic_exchange(&cq->to_report, 0);
    if (to_report & REPORT_OVERFLOW)
        cq->host->cq_error(cq->host, cq->base.context, &overflow);
    if (to_report & REPORT_FIRED)
        cq->host->cq_event(cq->host, cq->base.context);
    atomic_fetch_sub(&cq->upcalls, 1);
}

/* ---- sources ---- */

void ri_cq_source_add(struct ri_cq_source *source, struct ri_mem_cq *cq)
{
    source->cq = cq;
    source->queued = (struct ri_queued){ NULL, false };
    pthread_mutex_lock(&cq->lock);
    cq->sources++;
    pthread_mutex_unlock(&cq->lock);
}

void ri_cq_source_remove(struct ri_cq_source *source)
{
    struct ri_mem_cq *cq = source->cq;

    pthread_mutex_lock(&cq->lock);
    ri_queued_remove(&cq->queued, &source->queued);
    /* Another thread may still collect from it: that stays out. */
    source->queued.on = true;
    drop_entries(cq, source);
    cq->sources--;
    made_room(cq);
    pthread_mutex_unlock(&cq->lock);
    notify_host(cq);
}

bool ri_cq_collect(struct ri_cq_source *source)
{
    struct ri_mem_cq *cq = source->cq;
    bool all;

    pthread_mutex_lock(&cq->lock);
    atomic_fetch_add(&cq->collects, 1);
    all = !source->queued.on && collect(cq, source);
    pthread_mutex_unlock(&cq->lock);
    return all;
}

/* Threads deliver concurrently: the count never goes back. */
void ri_cq_deliver(struct ri_mem_cq *cq)
{
    unsigned int up_to = atomic_load(&cq->collects), before = atomic_load(&cq->delivered);

    notify_host(cq);
    while ((int)(up_to - before) > 0 &&
           !atomic_compare_exchange_weak(&cq->delivered, &before, up_to))
        ;
}

/* ---- operations ---- */

uint32_t ri_mem_cq_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct ri_mem_cq *cq = cq_of(base);
    uint32_t taken;

    if (!count || ri_ring_is_empty(&cq->ring))
        return 0;
    pthread_mutex_lock(&cq->lock);
    taken = take(cq, count, wc);
    let_in(cq);
    taken += take(cq, count - taken, wc + taken);
    made_room(cq);
    pthread_mutex_unlock(&cq->lock);
    notify_host(cq);
    return taken;
}

enum ri_status ri_mem_cq_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    struct ri_mem_cq *cq = cq_of(base);
    enum ri_status status;

    pthread_mutex_lock(&cq->lock);
    status = ri_arming_check(kind, count, cq->ring.depth);
    if (status == RI_OK) {
        cq->arming = (struct ri_arming){ (int)kind, count };
        if (kind == RI_ARM_NTH && ri_ring_count(&cq->ring) >= count)
            fire(cq);
    }
    pthread_mutex_unlock(&cq->lock);
    notify_host(cq);
    return status;
}

enum ri_status ri_mem_cq_peek(struct ri_cq *base, uint32_t *total, uint32_t *marked)
{
    struct ri_mem_cq *cq = cq_of(base);

    pthread_mutex_lock(&cq->lock);
    *total = ri_ring_count(&cq->ring);
    *marked = cq->marked;
    pthread_mutex_unlock(&cq->lock);
    return RI_OK;
}

/* ---- life ---- */

enum ri_status ri_mem_cq_open(struct ri_mem_cq *cq, const struct ri_host *host,
                              const struct ri_user_ops *ops, const struct ri_cq_attr *attr)
{
    struct ri_cq_entry *entries;

    if (!attr->depth || attr->depth > UINT32_C(1) << 31)
        return RI_ERR_INVALID_ARGUMENT;
    entries = calloc(ri_ring_slots(attr->depth), sizeof(*entries));
    if (!entries)
        return RI_ERR_NO_RESOURCES;
    *cq = (struct ri_mem_cq){ .base = { ops, attr->context },
                              .host = host,
                              .entries = entries,
                              .arming.kind = RI_NOT_ARMED };
    ri_ring_init(&cq->ring, attr->depth);
    pthread_mutex_init(&cq->lock, NULL);
    return RI_OK;
}

enum ri_status ri_mem_cq_close(struct ri_mem_cq *cq)
{
    bool busy;

    pthread_mutex_lock(&cq->lock);
    busy = cq->sources || atomic_load(&cq->delivered) != atomic_load(&cq->collects);
    pthread_mutex_unlock(&cq->lock);
    if (busy)
        return RI_ERR_BUSY;
    while (atomic_load(&cq->upcalls))
        sched_yield();
    pthread_mutex_destroy(&cq->lock);
    free(cq->entries);
    return RI_OK;
}

/* The CQ never has more completions than its depth, so it fires when it is full. Under the lock. */
static void rearm(struct ri_mem_cq *cq)
{
    if (cq->arming.kind != RI_ARM_NTH)
        return;
    if (cq->arming.count > cq->ring.depth)
        cq->arming.count = cq->ring.depth;
    if (ri_ring_count(&cq->ring) >= cq->arming.count)
        fire(cq);
}

enum ri_status ri_mem_cq_resize(struct ri_mem_cq *cq, uint32_t depth)
{
    struct ri_cq_entry *fresh, *old = NULL;
    enum ri_status status = RI_ERR_BUSY;
    struct ri_ring ring;

    if (!depth || depth > UINT32_C(1) << 31)
        return RI_ERR_INVALID_ARGUMENT;
    ri_ring_init(&ring, depth);
    fresh = calloc(ri_ring_slots(depth), sizeof(*fresh));
    if (!fresh)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&cq->lock);
    if (ri_ring_count(&cq->ring) <= depth) {
        for (uint32_t at = ri_ring_head(&cq->ring); at != ri_ring_tail(&cq->ring); at++)
            fresh[at & ring.mask] = cq->entries[at & cq->ring.mask];
        old = cq->entries;
        cq->entries = fresh;
        cq->ring.mask = ring.mask;
        cq->ring.depth = depth;
        let_in(cq);
        rearm(cq);
        fresh = old;
        status = RI_OK;
    }
    pthread_mutex_unlock(&cq->lock);
    free(fresh);
    notify_host(cq);
    return status;
}

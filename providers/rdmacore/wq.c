/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rings of shadow slots, and the flushing of what is left in them: see qp.h.
 */
#include "qp.h"

#include "rnicpi_ring.h"

#include <stdlib.h>

bool wq_open(struct wq *wq, struct qp *qp, uint32_t size, bool receive)
{
    const uint32_t slots = ri_ring_slots(size);

    wq->slots = calloc(slots, sizeof(*wq->slots));
    if (!wq->slots)
        return false;
    for (uint32_t i = 0; i < slots; i++) {
        wq->slots[i].qp = qp;
        wq->slots[i].wq = wq;
        wq->slots[i].link = &wq->slots[(i + 1) & (slots - 1)];
    }
    spinlock_init(&wq->lock);
    wq->receive = receive;
    wq->size = size;
    wq->mask = slots - 1;
    wq->next = wq->slots;
    atomic_init(&wq->limit, size);
    return true;
}

void wq_close(struct wq *wq)
{
    free(wq->slots);
}

static void complete_flushed(struct cq *cq, const struct slot *slot, bool silent)
{
    struct ri_wc wc = {
        .context = slot->qp->base.context,
        .cookie = slot->cookie,
        .status = RI_WC_FLUSHED,
        .opcode = slot->opcode,
        .flags = slot->flags & SLOT_NOTIFY ? RI_WC_NOTIFY : 0,
        .invalidated_stag = slot->flags & SLOT_STAG ? slot->stag : 0,
    };

    cq_stash(cq, &wc, slot->qp, slot->wq, silent);
}

void wq_flush(struct wq *wq, struct cq *cq)
{
    uint32_t tail = atomic_load_explicit(&wq->tail, memory_order_acquire);

    for (uint32_t at = wq_completed(wq); at != tail; at++) {
        const struct slot *slot = &wq->slots[at & wq->mask];

        if (!(slot->flags & SLOT_SOFT))
            break;
        complete_flushed(cq, slot, wq_was_reported(wq, slot->flags));
        wq->pending++;
    }
}

void wq_soften(struct wq *wq, struct cq *cq, struct slot *slot)
{
    spinlock_lock(&cq->lock);
    slot->flags |= SLOT_SOFT;
    wq_flush(wq, cq);
    spinlock_unlock(&cq->lock);
}

void wq_abandon(struct wq *wq, struct cq *cq)
{
    uint32_t tail;

    spinlock_lock(&wq->lock);
    spinlock_lock(&cq->lock);
    tail = atomic_load_explicit(&wq->tail, memory_order_relaxed);
    for (uint32_t at = wq_completed(wq); at != tail; at++) {
        struct slot *slot = &wq->slots[at & wq->mask];

        if (slot->flags & SLOT_STAG)
            window_failed(slot->qp->rnic, slot);
        slot->flags |= SLOT_SOFT;
    }
    wq_flush(wq, cq);
    spinlock_unlock(&cq->lock);
    spinlock_unlock(&wq->lock);
}

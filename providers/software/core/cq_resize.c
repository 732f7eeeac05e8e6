/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Resize of a completion queue while completions arrive and are polled.
 */
#include "core.h"
#include "cq.h"

#include <stdlib.h>

/* Positions do not change; the ring gets other slots. Under the lock. */
static struct cq_entry *exchange(struct cq *cq, struct cq_entry *fresh, uint32_t depth)
{
    struct cq_entry *old = cq->entries;
    const uint32_t mask = ri_ring_slots(depth) - 1;

    spinlock_assert_held(&cq->lock);
    for (uint32_t at = ri_ring_head(&cq->ring); at != ri_ring_tail(&cq->ring); at++)
        fresh[at & mask] = old[at & cq->ring.mask];
    cq->entries = fresh;
    cq->ring.mask = mask;
    cq->ring.depth = depth;
    /* The smaller ring never has more than its depth, so it fires when it is full. */
    if (cq->arming.kind == RI_ARM_NTH && cq->arming.count > depth)
        cq->arming.count = depth;
    if (cq->arming.kind == RI_ARM_NTH && ri_ring_count(&cq->ring) >= cq->arming.count)
        cq_fire(cq);
    return old;
}

/* Blocked queues are retried. */
enum ri_status core_cq_resize(struct ri_cq *base, uint32_t *depth)
{
    struct cq *cq = container_of(base, struct cq, base);
    enum ri_status status = RI_ERR_BUSY;
    struct cq_entry *entries;

    if (!*depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (*depth > cq->rnic->attr.max_cqe)
        return RI_ERR_LIMIT;
    entries = calloc(ri_ring_slots(*depth), sizeof(*entries));
    if (!entries)
        return RI_ERR_NO_RESOURCES;
    spinlock_lock(&cq->lock);
    if (ri_ring_count(&cq->ring) <= *depth) {
        entries = exchange(cq, entries, *depth);
        status = RI_OK;
    }
    spinlock_unlock(&cq->lock);
    free(entries);
    if (status != RI_OK)
        return status;
    cq_retry_blocked(cq);
    cq_deliver(cq);
    return RI_OK;
}

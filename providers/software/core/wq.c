/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A work queue: slots of one size in one allocation, a power of two of them, of which `depth` may
 * be taken.
 */
#include "qp.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_ALIGNMENT 64u /* of large queues */
#define SMALL_SLOTS    16u /* up to here memory of an idle QP counts for more */

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t size = 1;

    while (size < at_least)
        size <<= 1;
    return size;
}

enum ri_status wq_open(struct wq *wq, bool receive, uint32_t depth, uint32_t max_sge)
{
    size_t octets, alignment;
    uint32_t slots;

    if (depth > MAX_WR || max_sge > MAX_SGE)
        return RI_ERR_LIMIT;
    slots = power_of_two(depth);
    alignment = slots > SMALL_SLOTS ? SLOT_ALIGNMENT : alignof(max_align_t);
    memset(wq, 0, sizeof(*wq));
    spinlock_init(&wq->posting);
    wq->mask = slots - 1;
    wq->depth = depth;
    wq->max_sge = max_sge;
    wq->receive = receive;
    wq->stride = sizeof(struct wqe) + max_sge * sizeof(struct ri_sge);
    wq->stride = (wq->stride + alignment - 1) & ~(alignment - 1);
    if (!checked_mul(wq->stride, (size_t)slots, &octets) ||
        !checked_add(octets, slots > SMALL_SLOTS ? alignment : 0, &octets))
        return RI_ERR_NO_RESOURCES;
    /* Not aligned_alloc: large queues get their pages when they are used. */
    wq->allocation = calloc(1, octets);
    if (!wq->allocation)
        return RI_ERR_NO_RESOURCES;
    wq->slots = (uint8_t *)(((uintptr_t)wq->allocation + alignment - 1) &
                            ~(uintptr_t)(alignment - 1));
    return RI_OK;
}

void wq_exchange(struct wq *wq, struct wq *larger)
{
    uint32_t posted = atomic_load(&wq->posted);
    struct wq old = { .slots = wq->slots, .allocation = wq->allocation, .stride = wq->stride };
    size_t octets = wq->stride < larger->stride ? wq->stride : larger->stride; /* except padding */

    for (uint32_t index = atomic_load(&wq->freed); index != posted; index++)
        memcpy(wq_slot(larger, index), wq_slot(wq, index), octets);
    wq->slots = larger->slots;
    wq->allocation = larger->allocation;
    wq->stride = larger->stride;
    wq->mask = larger->mask;
    wq->depth = larger->depth;
    larger->slots = old.slots;
    larger->allocation = old.allocation;
    larger->stride = old.stride;
}

void wq_close(struct wq *wq)
{
    free(wq->allocation);
    wq->allocation = NULL;
    wq->slots = NULL;
}

enum ri_status wq_take(struct wq *wq, const struct ri_sge *sges, uint32_t num_sge, uint32_t limit,
                       struct wqe **out)
{
    uint32_t posted = atomic_load_explicit(&wq->posted, memory_order_relaxed);
    uint64_t length = 0;
    struct wqe *wqe;

    spinlock_assert_held(&wq->posting);
    if (num_sge > limit || num_sge > wq->max_sge)
        return RI_ERR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < num_sge; i++)
        length += sges[i].length; /* MAX_SGE of 32 bits: no overflow */
    if (length > UINT32_MAX)
        return RI_ERR_LIMIT;
    /* Acquire: the thread that polled the completion no longer reads the slot. */
    if (posted - atomic_load_explicit(&wq->freed, memory_order_acquire) >= wq->depth)
        return RI_ERR_QUEUE_FULL;
    wqe = wq_slot(wq, posted);
    wqe->length = length;
    wqe->num_sge = num_sge;
    wqe->byte_len = 0;
    wqe->vendor_error = 0;
    wqe->status = RI_WC_SUCCESS;
    wqe->wc_flags = 0;
    atomic_store_explicit(&wqe->done, false, memory_order_relaxed);
    if (likely(num_sge == 1))
        wqe->sges[0] = *sges;
    else if (num_sge)
        memcpy(wqe->sges, sges, num_sge * sizeof(*sges));
    *out = wqe;
    return RI_OK;
}

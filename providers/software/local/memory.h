/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies between the consumer's memory and what the ends share.
 */
#ifndef ITAL_SOFTWARE_LOCAL_MEMORY_H
#define ITAL_SOFTWARE_LOCAL_MEMORY_H

#include "local.h"
#include "providers/software/core/guard.h"

/* From the consumer's memory. False: it could not be read (guard.h). */
static inline bool local_fetch(const struct local_qp *qp, uint32_t stag, uint8_t *to,
                               const uint8_t *from, uint32_t octets, enum memory_use use)
{
    if (unlikely(qp->core->rnic->options.guard))
        return guard_read(qp->core, stag, to, from, octets, use);
    memcpy(to, from, octets);
    return true;
}

/* To the consumer's memory. */
static inline bool local_place(const struct local_qp *qp, uint32_t stag, uint8_t *to,
                               const uint8_t *from, uint32_t octets, enum memory_use use)
{
    if (unlikely(qp->core->rnic->options.guard))
        return guard_write(qp->core, stag, to, from, octets, use);
    memcpy(to, from, octets);
    return true;
}

/* Consumers poll memory for the last octets of a Write, and memcpy promises no order. So the octets
 * from the last 8-octet boundary on are stored last, with release order. */
static inline void local_store(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    uintptr_t end = (uintptr_t)to + octets, boundary = (end - 1) & ~(uintptr_t)7;
    uint32_t head = boundary > (uintptr_t)to ? (uint32_t)(boundary - (uintptr_t)to) : 0;
    uint64_t word;

    copy_short(to, from, head);
    if (octets - head == 8 && boundary >= (uintptr_t)to) {
        memcpy(&word, from + head, sizeof(word));
        __atomic_store_n((uint64_t *)(void *)(to + head), word, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t i = head; i < octets; i++)
        __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

/* local_place() where a consumer may poll the memory. octets > 0. */
static inline bool local_place_seen(const struct local_qp *qp, uint32_t stag, uint8_t *to,
                                    const uint8_t *from, uint32_t octets, enum memory_use use)
{
    uint32_t tail = (uint32_t)(((uintptr_t)to + octets - 1) & 7) + 1;

    if (likely(!qp->core->rnic->options.guard)) {
        local_store(to, from, octets);
        return true;
    }
    tail = tail < octets ? tail : octets;
    if (!guard_write(qp->core, stag, to, from, octets - tail, use))
        return false;
    atomic_thread_fence(memory_order_release);
    return guard_write(qp->core, stag, to + octets - tail, from + octets - tail, tail, use);
}

#endif

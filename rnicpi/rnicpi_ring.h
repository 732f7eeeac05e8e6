/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_ring.h - the positions of a ring of requests or completions, for providers. All inline; no
 * allocation, no lock.
 *
 * Positions count up for ever, modulo 2^32. The slot of a position is position & mask. The slots
 * are the user's own array, of ri_ring_slots(depth) elements. One thread at a time puts and one
 * takes, under one lock each or one for both. Any thread may ask whether the ring is empty.
 */
#ifndef RNICPI_RING_H
#define RNICPI_RING_H

#ifdef __cplusplus
#error "rnicpi_ring.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ri_ring {
    uint32_t mask;  /* slots - 1; slots is a power of two */
    uint32_t depth; /* entries at most, 1 .. slots */
    atomic_uint head;
    atomic_uint tail; /* tail - head entries */
};

/* How many slots the array of a ring of that depth has: the next power of two. depth: 1 .. 2^31. */
static inline uint32_t ri_ring_slots(uint32_t depth)
{
    uint32_t slots = 1;

    while (slots < depth)
        slots <<= 1;
    return slots;
}

/* Empty. The positions begin at 0. */
static inline void ri_ring_init(struct ri_ring *ring, uint32_t depth)
{
    ring->mask = ri_ring_slots(depth) - 1;
    ring->depth = depth;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
}

/* Positions of the oldest entry and behind the newest one. Under the lock. */
static inline uint32_t ri_ring_head(const struct ri_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed);
}

static inline uint32_t ri_ring_tail(const struct ri_ring *ring)
{
    return atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* Entries in the ring; free places. Under the lock. */
static inline uint32_t ri_ring_count(const struct ri_ring *ring)
{
    return ri_ring_tail(ring) - ri_ring_head(ring);
}

static inline uint32_t ri_ring_room(const struct ri_ring *ring)
{
    return ring->depth - ri_ring_count(ring);
}

/* Without the lock, so the answer may be out of date at once. An entry that is seen may be read. */
static inline bool ri_ring_is_empty(const struct ri_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* The slot at `tail` is filled: the entry can be taken. */
static inline void ri_ring_put(struct ri_ring *ring, uint32_t tail)
{
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

/* Entries before `head` were taken: their slots may be filled again. */
static inline void ri_ring_take_to(struct ri_ring *ring, uint32_t head)
{
    atomic_store_explicit(&ring->head, head, memory_order_release);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A pass of a lane: each wire has a turn. The host never runs two passes of one lane at once.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "coalesced.h"
#include "lane.h"

/* What the pass is for: its consumer looks. Inside the pass. */
static void note_consumer(struct lane *lane, struct cq *first, uint32_t pass)
{
    if (atomic_load_explicit(&lane->armed, memory_order_relaxed))
        atomic_store_explicit(&lane->armed, LANE_NOT_ARMED, memory_order_relaxed);
    tx_note_pass(first, lane);
    atomic_store_explicit(&first->seen, pass, memory_order_relaxed);
}

/* The second wire has its turn whatever the first one found: it may be the one that is awaited. */
static inline uint32_t serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    const struct wire *network = lane->rnic->wires[WIRE_NETWORK];
    const struct wire *local = lane->rnic->wires[WIRE_LOCAL];
    uint32_t done = 0;

    if (likely(network != NULL))
        done = network->serve(lane, first, budget);
    if (unlikely(local != NULL))
        done += local->serve(lane, first, budget);
    return done;
}

uint32_t softrdma_progress(struct ri_lane *base, struct ri_cq *first_base, uint32_t budget,
                           uint64_t *next_deadline)
{
    struct lane *lane = container_of(base, struct lane, base);
    struct cq *first = first_base ? container_of(first_base, struct cq, base) : NULL;
    uint32_t work_done, pass;

    *next_deadline = atomic_load_explicit(&lane->coalesce.wake_at, memory_order_relaxed);
    atomic_store_explicit(&lane->runner, (unsigned long)pthread_self(), memory_order_relaxed);
    pass = atomic_fetch_add(&lane->passes, 1) + 1;
    if (first)
        note_consumer(lane, first, pass);
    tx_note_poll(lane, first);
    if (unlikely(atomic_load_explicit(&lane->freed, memory_order_relaxed) != NULL))
        lane_free_qps(lane);
    work_done = serve(lane, first, budget);
    atomic_store_explicit(&lane->runner, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->passes,
                          atomic_load_explicit(&lane->passes, memory_order_relaxed) + 1,
                          memory_order_release);
    return work_done;
}

/* Under lane->lock. */
static bool is_idle(const struct lane *lane)
{
    for (int slot = 0; slot < WIRE_SLOTS; slot++)
        if (lane->rnic->wires[slot] && !lane->rnic->wires[slot]->is_idle(lane))
            return false;
    return !lane->coalesce.qps;
}

/* A descriptor reports what arrives. Only work that the lane itself has left keeps the host awake.
 */
bool softrdma_lane_arm(struct ri_lane *base)
{
    struct lane *lane = container_of(base, struct lane, base);
    enum lane_armed armed = LANE_NOT_ARMED;

    spinlock_lock(&lane->lock);
    if (is_idle(lane))
        armed = tx_choose_sleep(lane);
    atomic_store_explicit(&lane->armed, armed, memory_order_relaxed);
    spinlock_unlock(&lane->lock);
    return armed != LANE_NOT_ARMED;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A pass of a lane in which each wire of the RNIC has a turn; whether a lane may sleep.
 */
#include "progress.h"

/* The second wire has its turn whatever the first one found: it may be the one that is awaited. */
static inline uint32_t serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    const struct wire *network = lane->rnic->wires[WIRE_NETWORK];
    const struct wire *local = lane->rnic->wires[WIRE_LOCAL];
    uint32_t done = 0;

    lane_assert_run(lane);
    if (unlikely(atomic_load_explicit(&lane->freed, memory_order_relaxed) != NULL))
        lane_free_qps(lane);
    if (likely(network != NULL))
        done = network->serve(lane, first, budget);
    if (unlikely(local != NULL))
        done += local->serve(lane, first, budget);
    return done;
}

uint32_t core_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                       uint64_t *next_deadline)
{
    return lane_pass(base, first, budget, next_deadline, serve);
}

static bool is_idle(const struct lane *lane)
{
    spinlock_assert_held(&lane->lock);
    for (int slot = 0; slot < WIRE_SLOTS; slot++)
        if (lane->rnic->wires[slot] && !lane->rnic->wires[slot]->is_idle(lane))
            return false;
    return !lane->coalesce.qps;
}

/* A descriptor reports what arrives. Only work that the lane itself has left keeps the host awake.
 */
bool core_lane_arm(struct ri_lane *base)
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

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A pass of a lane. The host never runs two passes of one lane at once.
 */
#ifndef ITAL_SOFTWARE_PROGRESS_H
#define ITAL_SOFTWARE_PROGRESS_H

#include "coalesced.h"
#include "lane.h"

/* What the pass is for: its consumer looks. Inside the pass. */
static inline void lane_note_consumer(struct lane *lane, struct cq *first, uint32_t pass)
{
    lane_assert_run(lane);
    if (atomic_load_explicit(&lane->armed, memory_order_relaxed))
        atomic_store_explicit(&lane->armed, LANE_NOT_ARMED, memory_order_relaxed);
    tx_note_pass(first, lane);
    atomic_store_explicit(&first->seen, pass, memory_order_relaxed);
}

/* ri_user_ops.progress, around `serve`: a constant, so that it is compiled into it. */
static inline __attribute__((always_inline)) uint32_t lane_pass(
    struct ri_lane *base, struct ri_cq *first_base, uint32_t budget, uint64_t *next_deadline,
    uint32_t (*serve)(struct lane *lane, struct cq *first, uint32_t budget))
{
    struct lane *lane = container_of(base, struct lane, base);
    struct cq *first = first_base ? container_of(first_base, struct cq, base) : NULL;
    uint32_t work_done, pass;

    contract(!atomic_load(&lane->runner));
    *next_deadline = atomic_load_explicit(&lane->coalesce.wake_at, memory_order_relaxed);
    atomic_store_explicit(&lane->runner, (unsigned long)pthread_self(), memory_order_relaxed);
    pass = atomic_fetch_add(&lane->passes, 1) + 1;
    if (first)
        lane_note_consumer(lane, first, pass);
    tx_note_poll(lane, first);
    work_done = serve(lane, first, budget);
    atomic_store_explicit(&lane->runner, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->passes,
                          atomic_load_explicit(&lane->passes, memory_order_relaxed) + 1,
                          memory_order_release);
    return work_done;
}

#endif

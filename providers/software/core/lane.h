/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane of the RNIC: what all wires share. progress.c runs a pass, coalesced.c keeps the list
 * of QPs that one has to visit, quiescence.c waits for the end of passes. A wire has a part of its
 * own in it.
 */
#ifndef ITAL_SOFTWARE_LANE_H
#define ITAL_SOFTWARE_LANE_H

#include "rnic.h"

struct cq;
struct qp;

/* QPs that a pass has to visit, and how a thread sleeps meanwhile (coalesced.c). Atomic members:
 * written under the lane's lock, read by hints without it. */
struct lane_coalesce {
    /* Under the lock. */
    struct qp *qps;
    atomic_uint count;
    /* Changes with each poll of a consumer. */
    atomic_uint polls;
    /* A thread that sleeps for the lane wakes by then, in ns; RI_NO_DEADLINE: is to be woken. */
    atomic_ullong wake_at;
    /* Posts waited since wake_at was chosen. Under the lock. */
    bool waited;
};

/* Whether a thread may sleep for the lane, and then not beyond coalesce.wake_at. */
enum lane_armed { LANE_NOT_ARMED, LANE_ARMED, LANE_ARMED_SHORTLY };

struct lane {
    struct ri_lane base;
    struct rnic *rnic;

    struct spinlock lock;
    /* Of wires other than the network's, whose part follows in the same memory. */
    void *parts[WIRE_SLOTS];
    /* Connected QPs, in the order of their numbers. Under the lock. */
    struct qp *connected;
    uint64_t numbers;
    /* Freed in a later pass, when no thread can hold them. Written under the lock. */
    _Atomic(struct qp *) freed;

    /* A change means: there are QPs to be freed, or the network's wire has changed what its next
     * pass looks at. Written under the lock. */
    atomic_uint version;
    /* enum lane_armed. Written under the lock. */
    atomic_uchar armed;
    struct lane_coalesce coalesce;

    /* Written by the pass, read by any thread: pthread_t of its thread, 0 outside a pass; a
     * number that is odd inside a pass; empty RDMA Writes received on its connections; a number
     * that is odd while the pass places nothing because it waits for other lanes
     * (quiescence.c). */
    atomic_ulong runner;
    atomic_uint passes;
    atomic_ullong empty_writes;
    atomic_uint quiets;
};

static inline uint32_t lane_polls(const struct lane *lane)
{
    return atomic_load_explicit(&lane->coalesce.polls, memory_order_relaxed);
}
/* Is the calling thread the pass? */
static inline bool lane_inside(const struct lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}
static inline void lane_assert_run(const struct lane *lane)
{
    (void)lane;
    contract(lane_inside(lane));
}

/* --- lanes.c --- */

enum ri_status lanes_create(struct rnic *rnic);
/* Nothing runs any more. Open connections are reset. */
void lanes_destroy(struct rnic *rnic);
void lanes_count(struct rnic *rnic, uint32_t *connections, uint32_t *closing);
uint64_t lanes_empty_writes(const struct rnic *rnic);
/* Free the QPs that were destroyed before this pass: when `version` has changed, at the latest
 * when a pass begins to serve. Of the pass; or nothing runs. */
void lane_free_qps(struct lane *lane);
enum ri_status core_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                              struct ri_lane **out);

/* --- progress.c --- */

uint32_t core_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                       uint64_t *next_deadline);
bool core_lane_arm(struct ri_lane *base);

#endif

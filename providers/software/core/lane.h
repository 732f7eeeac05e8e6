/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane of the RNIC. lane.c decides which streams are served when, llp/ready.c keeps the list of
 * streams to be served, tx/ the QPs with coalesced posts and the spare memory of batches.
 */
#ifndef ITAL_SOFTRDMA_LANE_H
#define ITAL_SOFTRDMA_LANE_H

#include "rnic.h"

struct cq;
struct qp;
struct stream;
struct tx_memory;

/* Coalesced posts (tx/tx_coalesce.c). Atomic members: written under the lane's lock, read by
 * hints without it. */
struct lane_coalesce {
    /* The QPs that have coalesced posts. Under the lock. */
    struct qp *qps;
    atomic_uint count;
    /* Changes with each poll of a consumer. */
    atomic_uint looks;
    /* Who sleeps for the lane wakes by then, in ns; RI_NO_DEADLINE: is to be woken. */
    atomic_ullong wake_at;
    /* Posts waited since wake_at was chosen. Under the lock. */
    bool waited;
};

/* Whether a thread may sleep for the lane, and then not beyond coalesce.wake_at. */
enum lane_armed { LANE_NOT_ARMED, LANE_ARMED, LANE_ARMED_SHORTLY };

/* Of the thread that runs the pass. */
struct lane_pass {
    /* Its copy of the streams that are served without asking epoll, and the version of that
     * copy. */
    struct stream *served[POLLED_MAX];
    uint32_t served_count, served_version, served_first, served_streams;
    /* Times that one of several polled streams brought something. */
    uint32_t heard;
    /* The receive buffer. */
    uint8_t *ring;
};

struct lane {
    struct ri_lane base;
    struct rnic *rnic;

    struct spinlock lock;
    /* Under the lock: all streams, those to be served, those that were active last. */
    struct stream *streams, *ready;
    uint32_t stream_count, closing_count;
    struct stream *polled[POLLED_MAX];
    uint32_t polled_count, polled_clock;
    /* The stream that was ready last; numbers given to streams. */
    struct stream *latest;
    uint64_t numbers;
    /* Freed in a later pass, when no thread can hold them. */
    struct stream *freed_streams;
    struct qp *freed_qps;
    /* QPs that keep the memory of a batch (tx/tx_memory.c). */
    struct qp *keepers[TX_KEEPERS];
    uint32_t keeper_clock;

    /* Written under the lock. A change means: the polled or ready streams, or the objects to be
     * freed, have changed. armed: enum lane_armed. */
    atomic_uint version;
    atomic_uchar armed;
    struct lane_coalesce coalesce;

    struct lane_pass pass;
    /* Written by the pass, read by any thread: pthread_t of its thread, 0 outside a pass; a
     * number that is odd inside a pass; empty RDMA Writes received on its connections; a number
     * that is odd while the pass places nothing because it waits for other lanes
     * (llp/quiescence.c). */
    atomic_ulong runner;
    atomic_uint passes;
    atomic_ullong empty_writes;
    atomic_uint quiets;

    /* Unused memory of batches. Any thread. */
    _Atomic(struct tx_memory *) spares[TX_SPARES];
};

static inline uint32_t lane_looks(const struct lane *lane)
{
    return atomic_load_explicit(&lane->coalesce.looks, memory_order_relaxed);
}
/* Is the calling thread the pass? */
static inline bool lane_inside(const struct lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

#endif

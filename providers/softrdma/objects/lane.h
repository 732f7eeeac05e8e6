/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane of the RNIC. lane.c decides who is served when, llp/ready.c keeps the list of streams to
 * be served, tx/ the QPs whose posts wait for others and the spare memory of batches.
 */
#ifndef ITAL_SOFTRDMA_LANE_H
#define ITAL_SOFTRDMA_LANE_H

#include "rnic.h"

struct cq;
struct qp;
struct stream;
struct tx_memory;

/* Posts that wait for others (tx/tx_coalesce.c). Atomic members: written under the lane's lock, but
 * for looks. */
struct lane_coalesce {
    /* The QPs that have some. Under the lock. */
    struct qp *qps;
    atomic_uint count;
    /* Changes when a consumer looks. */
    atomic_uint looks;
};

/* The thread inside a pass. */
struct lane_pass {
    /* Its copy of what is served without asking epoll, of which version. */
    struct stream *served[POLLED_MAX];
    uint32_t served_count, served_version, served_first, served_streams;
    /* Times that one of several polled streams brought something. */
    uint32_t heard;
    /* What is read lies here. */
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
    /* The last one that was ready; numbers given to streams. */
    struct stream *latest;
    uint64_t numbers;
    /* Freed in a later pass, when no thread can hold them. */
    struct stream *freed_streams;
    struct qp *freed_qps;
    /* QPs that keep the memory of a batch (tx/tx_memory.c). */
    struct qp *keepers[TX_KEEPERS];
    uint32_t keeper_clock;

    /* Written under the lock: changed means that polled, ready or what is to be freed have changed;
     * somebody may sleep. */
    atomic_uint version;
    atomic_bool armed;
    struct lane_coalesce coalesce;

    struct lane_pass pass;
    /* Written by the pass, read by any thread: pthread_t of its thread, 0 outside; odd inside a
     * pass; empty RDMA Writes received on its connections; odd while the pass places nothing,
     * because it waits for other lanes (llp/quiescence.c). */
    atomic_ulong runner;
    atomic_uint passes;
    atomic_ullong empty_writes;
    atomic_uint quiets;

    /* Memory of batches that nobody uses. Any thread. */
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

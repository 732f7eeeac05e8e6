/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane of the RNIC. lane.c decides who is served when, llp/ready.c keeps the list of streams to be served, tx/ the QPs whose posts
 * wait for others and the spare memory of batches.
 */
#ifndef ITAL_SOFTRDMA_LANE_H
#define ITAL_SOFTRDMA_LANE_H

#include "rnic.h"

struct cq;
struct qp;
struct stream;
struct tx_memory;

struct lane {
    struct ri_lane base;
    struct rnic *rnic;
    struct spinlock lock;
    struct stream *streams, *ready;
    uint32_t stream_count, closing_count;
    struct stream *hot[HOT_MAX];
    uint32_t hot_count, hot_clock;
    uint32_t heard; /* times that one of several hot streams brought something; of the pass */
    struct stream *latest; /* that was ready */
    uint64_t numbers;      /* given to streams */
    atomic_uint version;   /* of hot[] and ready: changed means copy again */
    struct stream *graves;
    struct qp *qp_graves;
    /* tx_gather.c */
    struct qp *gathered;        /* QPs that gather */
    atomic_uint gathered_count; /* of them; written under the lock */
    atomic_bool armed;          /* somebody may sleep; set under the lock */
    atomic_uint looks;          /* changes when a consumer looks */
    /* of the thread inside a pass */
    struct stream *served[HOT_MAX];
    uint32_t served_count, served_version, served_first, served_streams;
    atomic_ulong runner;        /* pthread_t, 0 outside a pass */
    atomic_uint passes;         /* odd inside a pass */
    atomic_ullong empty_writes; /* received on its connections; written by the pass */
    atomic_uint
        quiets; /* odd while the pass places nothing: it waits for other lanes (llp/quiescence.c) */
    uint8_t *ring;
    _Atomic(struct tx_memory *) spares[TX_SPARES];
    struct qp *keepers[TX_KEEPERS]; /* see tx_memory.c; under the lock */
    uint32_t keeper_clock;
};

static inline uint32_t lane_looks(const struct lane *lane)
{
    return atomic_load_explicit(&lane->looks, memory_order_relaxed);
}
/* Is the calling thread the pass? */
static inline bool lane_inside(const struct lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

#endif

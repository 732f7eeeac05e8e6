/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lanes: who is served when (lane.c), and what concerns all of an RNIC (lanes.c).
 */
#ifndef ITAL_SOFTRDMA_LANE_H
#define ITAL_SOFTRDMA_LANE_H

#include "rnic.h"

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
    atomic_uint quiets; /* odd while the pass places nothing: it waits for other lanes (lanes.c) */
    uint8_t *ring;
    _Atomic(struct tx_memory *) spares[TX_SPARES];
    struct qp *keepers[TX_KEEPERS]; /* see tx_memory.c; under the lock */
    uint32_t keeper_clock;
};

static inline uint32_t lane_looks(const struct lane *lane)
{
    return atomic_load_explicit(&lane->looks, memory_order_relaxed);
}
enum ri_status lane_create(struct rnic *rnic, struct lane **lane);
void lane_destroy(struct lane *lane);
enum ri_status softrdma_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out);
uint32_t softrdma_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                           uint64_t *next_deadline);
bool softrdma_lane_arm(struct ri_lane *base);
/* Have the stream served in the next pass. Any thread. */
void lane_mark_ready(struct stream *stream);
void lane_mark_ready_locked(struct stream *stream); /* under lane->lock */
/* The same, and who sleeps for the lane is woken. */
void lane_call(struct stream *stream);
/* After it returned no pass that began before is still going on (unless the caller is inside it). */
void lane_wait_pass(struct lane *lane);
/* Call `visit` for each connected QP of the PD on this lane; it stays alive meanwhile. No lock held. */
void lane_visit_qps(struct lane *lane, const struct pd *pd, void (*visit)(struct qp *qp, void *arg),
                    void *arg);
/* Is the calling thread the pass? */
static inline bool lane_inside(const struct lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

/* lanes.c: all of an RNIC's. */
enum ri_status lanes_create(struct rnic *rnic);
void lanes_destroy(struct rnic *rnic);
/* After what was revoked: wait until no pass of any lane places into it any more, then call `visit` for each connected QP of the PD
 * (NULL: for none). The caller is in no pass, or in one and places nothing; with one rx at most, of a QP of that pass. */
void lanes_leave_memory(struct rnic *rnic, const struct pd *pd,
                        void (*visit)(struct qp *qp, void *arg), void *arg);
void lanes_count(struct rnic *rnic, uint32_t *streams, uint32_t *closing);
uint64_t lanes_empty_writes(const struct rnic *rnic);
/* A consumer looks at a CQ that several lanes feed, or none yet. */
void lanes_note_look(struct rnic *rnic);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The lanes of an IA together: their life, the place of endpoints, which of them feed an EVD. The
 * rules: lanes.c. */
#ifndef ITAL_UAL_LANES_H
#define ITAL_UAL_LANES_H

#include "lane.h"

#include "base/spinlock.h"

/* What the provider has, each with its background thread. Stop and close as the single lane's. */
enum ual_status ual_lanes_open(struct ual_ia *ia, uint64_t spin_ns);
void ual_lanes_stop(struct ual_ia *ia);
void ual_lanes_close(struct ual_ia *ia);
/* After stop: have who runs the first lane run the others, too, until `end`; where there is no
 * memory for it they are run by the next only. */
void ual_lanes_join_begin(struct ual_ia *ia);
void ual_lanes_join_end(struct ual_ia *ia);
/* One run of each but the first. */
void ual_lanes_run_others(struct ual_ia *ia);

/*
 * The lanes that may bring events to an EVD: those of its endpoints; for one of another stream than
 * DTO the first, too, where listen points are. An EVD that nobody uses yet is fed by the first.
 */
struct feed {
    struct ual_ia *ia;
    _Atomic(struct ual_lane *) only; /* the one lane that does; NULL: several do */
    _Atomic(atomic_uint *) takes;    /* the first one's, see ual_lane_takes */
    atomic_uint_least64_t lanes;     /* bits by index */
    atomic_uint turn;                /* whose turn it is to be polled first; not exact */
    struct spinlock lock;
    atomic_uint *users; /* by lane, written under lock; NULL where the IA has one lane */
};

enum ual_status feed_open(struct feed *feed, struct ual_ia *ia, enum ual_stream stream);
void feed_close(struct feed *feed);
/* A user of the EVD is on that lane; it is no more. */
void feed_add(struct feed *feed, uint32_t lane);
void feed_remove(struct feed *feed, uint32_t lane);
static inline struct ual_lane *feed_only(const struct feed *feed)
{
    return atomic_load_explicit(&feed->only, memory_order_relaxed);
}
/* The lowest one. */
struct ual_lane *feed_first(const struct feed *feed);
/* ual_lane_poll of each in turn until one did something. */
uint32_t feed_poll(struct feed *feed, struct ri_cq *first);
/* A run of all for a consumer that will not come again by itself; in_turn, look: as
 * ual_lane_poll_in_turn. */
void feed_poll_all(struct feed *feed, struct ri_cq *first, bool in_turn, bool look);
/* A consumer is about to sleep: where? One in which no other consumer does, if there is such a
 * lane. */
struct ual_lane *feed_place_to_sleep(const struct feed *feed);
/* ... and it sleeps there: in the others somebody else has to. */
void feed_entrust_others(const struct feed *feed, const struct ual_lane *own);

/* A lane for an endpoint with these EVDs, by index; it counts there until it leaves. */
uint32_t ual_lanes_place(struct ual_ia *ia, const struct feed *receives,
                         const struct feed *requests);
void ual_lanes_leave(struct ual_ia *ia, uint32_t lane);

#endif

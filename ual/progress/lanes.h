/* SPDX-License-Identifier: BSD-3-Clause
 * The lanes of an RNIC together: open and close, placement of QPs, and which lanes feed a consumer.
 * Rules: lanes.c. */
#ifndef ITAL_UAL_LANES_H
#define ITAL_UAL_LANES_H

#include "lane.h"
#include "processors.h"

#include "base/spinlock.h"

#define UAL_LANES_MOST 64u /* further lanes of a provider are not used */

struct ual_lanes {
    struct kal_rnic *rnic;
    struct ual_lane *lane[UAL_LANES_MOST]; /* `count` of them; constant while they are open */
    uint32_t count;
    struct spinlock place_lock;
    uint32_t placed[UAL_LANES_MOST];         /* number of QPs on each; under place_lock */
    struct ri_watch *joined[UAL_LANES_MOST]; /* between join_begin and join_end */
    /* A lane has lost its descriptors, and the RNIC reports nothing more. Any thread. */
    void (*failed)(void *context, const struct ri_event *event);
    void *context;
};

/* Opens the provider's lanes, each with its background thread; rnic, failed and context must be
 * set. Stop and close are those of a single lane. ITAL_ERR_CONFIGURATION: see processors.h. */
enum ri_status ual_lanes_open(struct ual_lanes *lanes, const struct ual_progress *progress);
void ual_lanes_stop(struct ual_lanes *lanes);
void ual_lanes_close(struct ual_lanes *lanes);
/* After stop: a thread that runs the first lane also runs the others, until `end`. Without memory
 * for it only ual_lanes_run_others runs them. */
void ual_lanes_join_begin(struct ual_lanes *lanes);
void ual_lanes_join_end(struct ual_lanes *lanes);
/* One run of each but the first. */
void ual_lanes_run_others(struct ual_lanes *lanes);
/* The first: listen points, timers, what is not placed. */
static inline struct ual_lane *ual_lanes_first(const struct ual_lanes *lanes)
{
    return lanes->lane[0];
}

/*
 * The lanes that may bring events to a consumer (an EVD, a CQ, a channel): those of the QPs that
 * use it, and the first one if requested. Without users the first lane feeds it.
 */
struct feed {
    struct ual_lanes *all;
    _Atomic(struct ual_lane *) only; /* the only lane that feeds; NULL: several do */
    _Atomic(atomic_uint *) takes;    /* of the first lane, see ual_lane_takes */
    atomic_uint_least64_t lanes;     /* bits by index */
    atomic_uint turn;                /* index of the lane to poll first; approximate */
    struct spinlock lock;
    atomic_uint *users; /* by lane, written under lock; NULL where the IA has one lane */
    struct feed *above; /* that this one is part of; under lock */
};

/* with_first: the first lane always feeds it, for listen points. */
enum ri_status feed_open(struct feed *feed, struct ual_lanes *all, bool with_first);
void feed_close(struct feed *feed);
/* Adds, or removes, a user on that lane. */
void feed_add(struct feed *feed, uint32_t lane);
void feed_remove(struct feed *feed, uint32_t lane);
/* Until feed_part, the lanes that feed `part` also feed `above`; only one at a time. Any thread. */
void feed_join(struct feed *part, struct feed *above);
void feed_part(struct feed *part);
static inline struct ual_lane *feed_only(const struct feed *feed)
{
    return atomic_load_explicit(&feed->only, memory_order_relaxed);
}
/* The lane with the lowest index. */
struct ual_lane *feed_first(const struct feed *feed);
/* ual_lane_poll of each in turn until one did something. */
uint32_t feed_poll(struct feed *feed, struct ri_cq *first);
/* Runs all of them, for a consumer that will not call again; in_turn, look: as
 * ual_lane_poll_in_turn. */
void feed_poll_all(struct feed *feed, struct ri_cq *first, bool in_turn, bool check_epoll);
/* The lane in which a consumer sleeps: one without another sleeping consumer, if there is one. */
struct ual_lane *feed_place_to_sleep(const struct feed *feed);
/* Ensures that another thread sleeps in each of the lanes but this one. NULL: in all of them. */
void feed_delegate_others(const struct feed *feed, const struct ual_lane *own);

/* Selects a lane for a QP whose completions go to these feeds, and counts the QP there. Returns its
 * index. */
uint32_t ual_lanes_place(struct ual_lanes *lanes, const struct feed *receives,
                         const struct feed *requests);
void ual_lanes_leave(struct ual_lanes *lanes, uint32_t lane);

#endif

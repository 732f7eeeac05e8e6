/* SPDX-License-Identifier: BSD-3-Clause
 * The lanes of an RNIC together: their life, the place of QPs, which of them feed a consumer. The
 * rules: lanes.c. */
#ifndef ITAL_UAL_LANES_H
#define ITAL_UAL_LANES_H

#include "lane.h"

#include "base/spinlock.h"

#define UAL_LANES_MOST 64u /* of those that a provider has, the rest is not used */

struct ual_lanes {
    struct kal_rnic *rnic;
    struct ual_lane *lane[UAL_LANES_MOST]; /* count of them, constant while they are open */
    uint32_t count;
    struct spinlock place_lock;
    uint32_t placed[UAL_LANES_MOST];         /* QPs on each; under place_lock */
    struct ri_watch *joined[UAL_LANES_MOST]; /* between join_begin and join_end */
    /* A lane has lost its descriptors: the RNIC reports nothing more. Any thread. */
    void (*failed)(void *context, const struct ri_event *event);
    void *context;
};

/* What the provider has, each with its background thread; rnic, failed and context are set. Stop
 * and close as the single lane's. */
enum ual_status ual_lanes_open(struct ual_lanes *lanes, uint64_t spin_ns);
void ual_lanes_stop(struct ual_lanes *lanes);
void ual_lanes_close(struct ual_lanes *lanes);
/* After stop: have who runs the first lane run the others, too, until `end`; where there is no
 * memory for it they are run by the next only. */
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
 * use it, and the first where that was asked for. What nobody uses yet is fed by the first.
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

/* with_first: listen points, on the first lane, feed it in any case. */
enum ual_status feed_open(struct feed *feed, struct ual_lanes *all, bool with_first);
void feed_close(struct feed *feed);
/* A user is on that lane; it is no more. */
void feed_add(struct feed *feed, uint32_t lane);
void feed_remove(struct feed *feed, uint32_t lane);
/* What feeds `part` feeds `above`, too, until feed_part; one at a time. Any thread. */
void feed_join(struct feed *part, struct feed *above);
void feed_part(struct feed *part);
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
void feed_poll_all(struct feed *feed, struct ri_cq *first, bool in_turn, bool check_epoll);
/* A consumer is about to sleep: where? One in which no other consumer does, if there is such a
 * lane. */
struct ual_lane *feed_place_to_sleep(const struct feed *feed);
/* ... and it sleeps there: in the others somebody else has to. NULL: in no lane, in all of them
 * somebody else has to. */
void feed_delegate_others(const struct feed *feed, const struct ual_lane *own);

/* A lane for a QP whose completions go to these, by index; it counts there until it leaves. */
uint32_t ual_lanes_place(struct ual_lanes *lanes, const struct feed *receives,
                         const struct feed *requests);
void ual_lanes_leave(struct ual_lanes *lanes, uint32_t lane);

#endif

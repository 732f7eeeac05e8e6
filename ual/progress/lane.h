/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lane: a set of descriptors, timers and connections that one thread at a time runs. lane.c: which
 * thread runs it. lane_wait.c: how threads wait for it.
 */
#ifndef ITAL_UAL_LANE_H
#define ITAL_UAL_LANE_H

#include "kal.h"

#include <pthread.h>
#include <stdatomic.h>

/* --- the run: one non-blocking pass; see the block comment in lane.c --- */

struct ual_lane;
struct ual_lanes;
struct ual_waiter;
struct ual_processors;
enum ri_status ual_lane_open(struct ual_lanes *lanes, uint32_t index, uint64_t spin_ns,
                             const struct ual_processors *processors, struct ual_lane **lane);
/* Ends the background thread: from here on runs come from the caller only. */
void ual_lane_stop(struct ual_lane *lane);
/* After stop and after the provider's close; no watch or timer may be left. */
void ual_lane_close(struct ual_lane *lane);
struct ri_lane *ual_lane_provider(struct ual_lane *lane);
/* A QP is placed on it, or leaves. Any thread, with no lock that a run takes. */
void ual_lane_add_qp(struct ual_lane *lane);
void ual_lane_drop_qp(struct ual_lane *lane);
/* One run, which serves `first` first (NULL: none). Returns at once if another thread runs the
 * lane. */
void ual_lane_run(struct ual_lane *lane, struct ri_cq *first);
/* A run for a consumer that found its EVD empty: skips epoll on most calls. Returns the units
 * of work done. [data] */
uint32_t ual_lane_poll(struct ual_lane *lane, struct ri_cq *first);
/* The same, but after a run that another thread has begun: that run may bring what woke the caller.
 * check_epoll: polls epoll in any case. */
uint32_t ual_lane_poll_in_turn(struct ual_lane *lane, struct ri_cq *first, bool check_epoll);
/* Keeps runs out, for tear-down. Does not nest. */
void ual_lane_pause(struct ual_lane *lane);
void ual_lane_resume(struct ual_lane *lane);
/* True in the thread that is inside a run of this lane. */
bool ual_lane_inside(const struct ual_lane *lane);
/* True: this thread is in a run of any lane, or is a background thread. Takes a leaf lock. */
bool ual_lane_inside_any(void);
void ual_lane_forked(void); /* in a forked child, which has no lanes; stores only */

/* Fills in what is seen of it, with no QPs. Any thread; as it is at this moment. */
void ual_lane_snapshot(struct ual_lane *lane, struct kal_lane_seen *seen);

/* The kal_upper half that lanes supply; lane_context is struct ual_lane. */
enum ri_status ual_lane_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                              void *arg, struct ri_watch **watch);
enum ri_status ual_lane_rewatch(struct ri_watch *watch, uint32_t events);
void ual_lane_unwatch(struct ri_watch *watch);
void ual_lane_timer_set(void *lane_context, struct ri_timer *timer);
void ual_lane_timer_cancel(void *lane_context, struct ri_timer *timer);
void ual_lane_wake(void *lane_context);

/* --- waiting --- */

/* Set when the waiter is woken or made the sleeper: it checks again. The thread that sets it also
 * wakes the waiter. */
#define WAITER_CHECK 1u
/* The waiter sleeps in epoll_wait, not on its word. Cleared when it steps aside. */
#define WAITER_SLEEPER 2u

/*
 * Adaptive spin: skip it where completions arrive late or the sender needs this core; retry at
 * least 1 in 16. The first spin after a miss is twice as long, which is more than a wake-up takes.
 * Otherwise two threads that wait for each other would keep missing each other once both sleep.
 */
struct adaptive_spin {
    atomic_uint misses, skip;
};
#define SPIN_MISSES_MOST 4u
static inline bool adaptive_spin_due(struct adaptive_spin *habit)
{
    unsigned int skip = atomic_load_explicit(&habit->skip, memory_order_relaxed);

    if (skip)
        atomic_store_explicit(&habit->skip, skip - 1, memory_order_relaxed);
    return !skip;
}
static inline uint64_t adaptive_spin_time(struct adaptive_spin *habit, uint64_t spin_ns)
{
    return atomic_load_explicit(&habit->misses, memory_order_relaxed) ? 2 * spin_ns : spin_ns;
}
static inline void adaptive_spin_record(struct adaptive_spin *habit, bool hit)
{
    unsigned int misses = atomic_load_explicit(&habit->misses, memory_order_relaxed);

    misses = hit ? 0 : misses < SPIN_MISSES_MOST ? misses + 1 : misses;
    atomic_store_explicit(&habit->misses, misses, memory_order_relaxed);
    atomic_store_explicit(&habit->skip, misses < 2 ? 0 : 1u << misses, memory_order_relaxed);
}

/* A thread that waits, on its stack. */
struct ual_waiter {
    struct ual_lane *lane; /* where it sleeps; from wait_begin on */
    atomic_uint word;      /* futex of those that are not the sleeper; the two bits below */
    pthread_t thread;
    /* Its epoll deadline while it sleeps there, else 0; under the sleep lock */
    uint64_t sleep_until;
    /* its last sleep ended with a run that did work, for any EVD; used by this thread only */
    bool served;
    /* in the lane's list of waiters that sleep on their words */
    struct ual_waiter *prev, *next;
    /* in the list of what it waits for (waiters.h) */
    struct ual_waiter *prev_of_owner, *next_of_owner;
};

/* Sets the waiter up and registers it, before the object that it waits for knows it. From here
 * until wait_end the lane may rely on this thread. */
void ual_lane_wait_begin(struct ual_lane *lane, struct ual_waiter *waiter);
/* Clears earlier wakes. Before the CQ is armed, in each round. */
void ual_lane_wait_reset(struct ual_waiter *waiter);
/* Arms the lane. If work is left, runs it once (first: the waiter's CQ) and returns false: the
 * caller checks and calls again. True: the thread may sleep. */
bool ual_lane_wait_arm(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first);
/* Sleeps until it is woken, readiness or a timer (then it has run the lane), the deadline
 * (CLOCK_MONOTONIC ns) or a signal: EINTR; in all other cases 0. */
int ual_lane_wait_sleep(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first,
                        uint64_t deadline);
/* Ends a wait for whatever reason: another waiter becomes the sleeper, if there is one. */
void ual_lane_wait_end(struct ual_lane *lane, struct ual_waiter *waiter);
/* Makes a waiter check its EVD again. The caller ensures that the waiter exists. Any thread;
 * leaf. */
void ual_lane_wake_waiter(struct ual_waiter *waiter);
/* For a consumer that sleeps in another lane: from now on a waiter of this lane, else its
 * background thread, sleeps in its epoll set. Any thread, with no lock held. */
void ual_lane_delegate(struct ual_lane *lane);
/* True: a consumer sleeps in its epoll set. Read without a lock, so approximate. */
bool ual_lane_has_waiter(const struct ual_lane *lane);
/* A counter that a thread increments when it takes completions without polling: it counts as a
 * poll. */
atomic_uint *ual_lane_takes(struct ual_lane *lane);
uint64_t ual_lane_spin_ns(const struct ual_lane *lane);
/* True: the program closed the lane's descriptors, and with them those of the EVDs that it feeds.
 * None of them is used or closed any more. */
bool ual_lane_is_broken(const struct ual_lane *lane);
/* The epoll set of the lane: readable while there is something to run for. Only to be added to
 * another set. */
int ual_lane_epoll_fd(const struct ual_lane *lane);
/* Call before the set is added to another one, and release after: the kernel limits the paths to a
 * socket (100, over all sets that contain it), and would refuse the consumer's set. */
bool ual_lane_take_listener(struct ual_lane *lane);
void ual_lane_give_listener(struct ual_lane *lane);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Declarations that the files of the lane share: the struct, the run (lane.c), the sleep
 * (lane_sleep.c). Rules: lane.c, lane_wait.c.
 */
#ifndef ITAL_UAL_LANE_PRIVATE_H
#define ITAL_UAL_LANE_PRIVATE_H

#include "lane.h"
#include "timers.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/spinlock.h"

#include <sys/epoll.h>

#define EVENTS_PER_RUN  64
#define RUN_BUDGET      256 /* units of provider work in one run */
#define DIRECT_WATCHES  6   /* with at most so many the provider reads the sockets itself */
#define POLLS_PER_EPOLL 64  /* then, busy polls between two polls of epoll and timers */

struct ri_watch {
    struct ual_lane *lane;
    ri_ready_fn ready;
    union {
        void *arg;
        /* list of removed watches, whose ready is not called any more */
        struct ri_watch *next_dead;
    };
    struct spinlock busy; /* held while ready runs */
    int fd;
    atomic_bool dead;
};

struct ual_lane {
    struct ual_lanes *lanes; /* all lanes of its RNIC */
    struct ri_lane *provider;
    uint64_t spin_ns;
    int epoll_fd, kick_fd;
    _Atomic enum {
        DESCRIPTORS_OURS,
        DESCRIPTORS_LOST, /* closed by the program: the numbers may belong to other files */
        DESCRIPTORS_TOLD, /* also reported to the IA */
    } descriptors;
    /* timerfd: when the background thread checks whether consumers still run the lane */
    int watch_fd;

    atomic_int running;
    atomic_uint takers;               /* threads that wait for the run to end */
    atomic_ulong runner;              /* pthread_t inside the run, 0 none */
    atomic_uint runs;                 /* polls by consumers */
    atomic_uint takes;                /* completions taken without a poll, approximately */
    unsigned int polls;               /* busy polls since epoll was polled last; under running */
    atomic_uint_least64_t put_off_at; /* CLOCK_NEVER: not at present */
    atomic_bool was_put_off;          /* since the background thread set watch_fd */
    atomic_uint_least64_t provider_deadline;
    atomic_uint watches;
    atomic_uint listeners; /* descriptors of EVDs that watch the epoll set */
    /* Consumers poll, but perhaps rarely: the next poll runs epoll and timers */
    atomic_bool epoll_due;

    struct spinlock sleep_lock;
    _Atomic(struct ual_waiter *) sleeper; /* written under sleep_lock */
    unsigned int sleep_epoch;             /* changes when a consumer's sleep begins or ends */
    struct ual_waiter *waiting;           /* waiters that sleep on their words */

    struct spinlock timer_lock;
    struct timers timers;
    struct ri_timer *expiring; /* the timer whose `expired` runs */

    struct spinlock dead_lock;
    _Atomic(struct ri_watch *) dead;
    unsigned int dead_count; /* under dead_lock */
    atomic_uint fetchers;    /* threads that sleep in epoll or handle events from it */

    pthread_t thread;
    struct ual_waiter background;
    atomic_uint background_word;
    bool dedicated;   /* the background thread polls all the time while there are QPs */
    atomic_uint qps;  /* placed on this lane */
    atomic_bool busy; /* it does so now, and has the sleeper's place when no consumer has it;
                       * written under sleep_lock */
    bool deep;        /* under sleep_lock */
    bool alone;       /* on one processor; written by the background thread only */
    struct adaptive_spin after_work_spin;
    atomic_bool stop;

    struct ual_lane *prev, *next; /* of all lanes of the process (lane.c) */
};

/* --- lane_list.c: the lanes of the process, their descriptors --- */

void ual_lane_enlist(struct ual_lane *lane);
void ual_lane_delist(struct ual_lane *lane);
/* RI_ERR_NO_RESOURCES: what is open is to be closed nevertheless. */
enum ri_status ual_lane_open_descriptors(struct ual_lane *lane);
void ual_lane_close_descriptors(struct ual_lane *lane);

/* --- lane.c: the run --- */

/* Call when no thread has fetched an event that names them. */
void ual_lane_free_dead_watches(struct ual_lane *lane);
/* Admission to a run: try, or wait. Runs never block, so this is short; yield lets a descheduled
 * runner continue. */
static inline bool ual_lane_run_try(struct ual_lane *lane)
{
    if (atomic_load_explicit(&lane->running, memory_order_relaxed) ||
        atomic_exchange_explicit(&lane->running, 1, memory_order_acquire))
        return false;
    atomic_store_explicit(&lane->runner, (unsigned long)pthread_self(), memory_order_relaxed);
    return true;
}
void ual_lane_run_take(struct ual_lane *lane);
/* The calling thread is the run. */
static inline void ual_lane_assert_run(const struct ual_lane *lane)
{
    (void)lane;
    contract(atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
             (unsigned long)pthread_self());
}
/* After a run by another thread: the sleeper handles the work that is left, but must be woken for
 * it. Inside that run. */
void ual_lane_pass_on_remaining(struct ual_lane *lane);
static inline void ual_lane_run_drop(struct ual_lane *lane)
{
    ual_lane_assert_run(lane);
    if (unlikely(atomic_load_explicit(&lane->dead, memory_order_relaxed) != NULL))
        ual_lane_free_dead_watches(lane);
    atomic_store_explicit(&lane->runner, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->running, 0, memory_order_release);
}
/* Inside a run: epoll and timers, or only one of them; then the provider. */
void ual_lane_poll_epoll(struct ual_lane *lane, bool drain);
void ual_lane_dispatch(struct ual_lane *lane, const struct epoll_event *events, long count,
                       bool drain);
void ual_lane_dispatch_timers(struct ual_lane *lane);
static inline void ual_lane_count_poll(struct ual_lane *lane)
{
    lane->polls = 0;
    atomic_store_explicit(&lane->epoll_due, false, memory_order_relaxed);
}
/* Returns the units of work done. */
static inline uint32_t ual_lane_run_provider(struct ual_lane *lane, struct ri_cq *first)
{
    uint64_t next = RI_NO_DEADLINE;
    uint32_t work = lane->provider->ops->progress(lane->provider, first, RUN_BUDGET, &next);

    atomic_store_explicit(&lane->provider_deadline, next, memory_order_relaxed);
    return work;
}
enum epoll_mode { EPOLL_SKIP, EPOLL_POLL, EPOLL_POLL_AND_DRAIN /* the sleeper only */ };
static inline uint32_t ual_lane_run_pass(struct ual_lane *lane, struct ri_cq *first,
                                         enum epoll_mode mode)
{
    if (mode != EPOLL_SKIP)
        ual_lane_poll_epoll(lane, mode == EPOLL_POLL_AND_DRAIN);
    return ual_lane_run_provider(lane, first);
}
/* Is it time to poll epoll and run timers? weight: the number of polls that this one counts as. */
static inline bool ual_lane_epoll_is_due(struct ual_lane *lane, unsigned int weight)
{
    return (lane->polls += weight) >= POLLS_PER_EPOLL ||
           atomic_load_explicit(&lane->epoll_due, memory_order_relaxed) ||
           atomic_load_explicit(&lane->watches, memory_order_relaxed) > DIRECT_WATCHES;
}
/* Wakes the thread that sleeps in epoll; the second call undoes that. Any thread. */
void ual_lane_kick(struct ual_lane *lane);
void ual_lane_drain_kick(struct ual_lane *lane);
/* A system call on a descriptor of the lane failed with errno. Unless the error may pass, the lane
 * is broken and the IA dead; also if the lane was found broken before. No lock may be held but
 * `running`. */
void ual_lane_check(struct ual_lane *lane);
bool ual_lane_sleeps_beyond(struct ual_lane *lane, uint64_t deadline);

/* Sets watch_fd to expire at `when`, which wakes the background thread if it waits for it. Any
 * thread. */
void ual_lane_set_watch(struct ual_lane *lane, uint64_t when);

/* --- lane_sleep.c: for the sleeper, consumer or background thread --- */

/* The result of a sleep in epoll. Its events name watches, which are not freed before
 * ual_lane_end_fetch. */
struct fetched {
    struct epoll_event events[EVENTS_PER_RUN];
    long count;
};
/* Called inside a run: a thread that becomes the sleeper later arms in a run of its own before it
 * sleeps. */
bool ual_lane_is_sleeper(const struct ual_lane *lane, const struct ual_waiter *waiter);
/* True: the waiter displaced the background thread, which is still in epoll_wait. */
bool ual_lane_background_lags(struct ual_lane *lane, const struct ual_waiter *waiter);
/* Whether this run may drain the kick. Called inside it. */
enum epoll_mode ual_lane_epoll_mode_of(struct ual_lane *lane, const struct ual_waiter *waiter);
/* For the sleeper, which may not sleep while work is left: waits until it can run the lane. True:
 * armed; false: it has run. */
bool ual_lane_arm_or_run(struct ual_lane *lane, const struct ual_waiter *waiter,
                         struct ri_cq *first);
/* Block in epoll_wait until readiness, a kick, the deadline or an earlier one of the lane. 0 or
 * EINTR. After 0 the caller runs the fetched events, or calls ual_lane_end_fetch. */
int ual_lane_sleep_in_epoll(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t deadline,
                            struct fetched *fetched);
/* A run with the events that a sleep fetched. */
uint32_t ual_lane_run_fetched(struct ual_lane *lane, const struct ual_waiter *waiter,
                              struct ri_cq *first, const struct fetched *fetched);
void ual_lane_end_fetch(struct ual_lane *lane);
/* Makes one of `waiting` the sleeper. Under sleep_lock, so that it cannot leave its stack frame
 * meanwhile. */
void ual_lane_make_sleeper(struct ual_lane *lane, struct ual_waiter *next);

/* --- lane_background.c --- */

/* Start the progress thread; it waits for background_word before it touches the provider's lane. */
enum ri_status ual_lane_start_background(struct ual_lane *lane);
/* Wakes it wherever it sleeps: what it checks there has changed before. Any thread. */
void ual_lane_rouse_background(struct ual_lane *lane);

/* Changes while consumers take completions, by a poll or without one. */
static inline unsigned int ual_lane_polls(const struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->runs, memory_order_relaxed) +
           atomic_load_explicit(&lane->takes, memory_order_relaxed);
}

#endif

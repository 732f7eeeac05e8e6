/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of a lane: the run, and which thread runs. lane_wait.c has the waits of consumers,
 * lane_background.c the background thread.
 *
 * A RUN is one non-blocking pass: dispatch ready descriptors and timers (not on every busy poll),
 * then the provider's progress(). `running` admits one thread; it is never held across a blocking
 * call, a consumer callback or a return to the consumer. A thread that finds it taken returns,
 * because another one does the work.
 *
 * WHO RUNS. Consumers that poll or wait run the lane on their own core. The background thread
 * serves those that never call. Invariant: one of these holds.
 * - A thread (the `sleeper`: a waiting consumer or the background thread) sleeps in epoll_wait with
 *   every descriptor of the lane in the set. The set is level-triggered, so nothing unread is
 *   missed.
 * - The background thread sleeps with a deadline (watch_fd), 50 us doubling to 1 ms while other
 *   threads run or come and go. Threads that poll all the time postpone the deadline. When no
 *   thread was seen for a whole interval it finds a sleeper: a consumer that waits on its word,
 *   else itself. Events after the last poll wait for less than 2 ms (lane_pace.h). While one
 *   consumer sleeps through a whole interval the background thread sleeps without deadline
 *   (`deep`); a thread that leaves the place of the sleeper empty wakes it then. So an idle process
 *   has no cost and a busy one no wake-ups.
 *
 * DESCRIPTORS of EVDs may contain the lane's epoll set (notifier.h): then traffic wakes a consumer
 * outside of the library, and its dequeue is a poll like others. The lane does not depend on this.
 *
 * LOCKS. `running` (a try-lock, over all of a run), sleep_lock (the sleeper), timer_lock,
 * dead_lock: leaves, a few instructions each. From outside a run, unwatch and timer_cancel wait for
 * a running callback of the same object (watch->busy, `expiring`), so their caller may hold no lock
 * that such a callback waits for. A watch is freed at the end of a run when no fetched event can
 * name it: no thread sleeps in epoll or has returned from it with events (`fetchers`). A sleeper
 * that stays there for long is kicked when DEAD_MOST watches wait to be freed.
 */
#include "lane_pace.h"
#include "lane_private.h"

#include "base/sanitizer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LISTENERS_MOST 4 /* each may be in several epoll sets of the consumer */

/* --- the run --- */

void ual_lane_run_take(struct ual_lane *lane)
{
    if (ual_lane_run_try(lane))
        return;
    atomic_fetch_add_explicit(&lane->takers, 1, memory_order_relaxed);
    for (unsigned int spins = 0; !ual_lane_run_try(lane); spins++) {
        if (spins < 100)
            spinlock_pause();
        else
            sched_yield();
    }
    atomic_fetch_sub_explicit(&lane->takers, 1, memory_order_relaxed);
}

void ual_lane_free_dead_watches(struct ual_lane *lane)
{
    struct ri_watch *watch, *next;

    /* A thread that fetches after this finds none of the listed watches in the set. */
    spinlock_lock(&lane->dead_lock);
    watch = NULL;
    if (!atomic_load(&lane->fetchers)) {
        watch = atomic_exchange_explicit(&lane->dead, NULL, memory_order_relaxed);
        lane->dead_count = 0;
    }
    spinlock_unlock(&lane->dead_lock);
    sanitizer_ignore_begin();
    for (; watch; watch = next) {
        next = watch->next_dead;
        free(watch);
    }
    sanitizer_ignore_end();
}

void ual_lane_drain_kick(struct ual_lane *lane)
{
    uint64_t count;

    while (syscall(SYS_read, lane->kick_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* No thread sleeps in epoll, so the kick is not needed: a later sleeper checks first. If it stayed,
 * a consumer's descriptor that contains the lane's set would remain readable. */
static void drain_stray_kick(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    if (!atomic_load_explicit(&lane->sleeper, memory_order_relaxed) &&
        !lane->background.sleep_until)
        ual_lane_drain_kick(lane);
    spinlock_unlock(&lane->sleep_lock);
}

/* Under running. */
void ual_lane_dispatch(struct ual_lane *lane, const struct epoll_event *events, long count,
                       bool drain)
{
    ual_lane_assert_run(lane);
    /* The kernel orders the writes of ual_lane_watch before this; the counter makes the order
     * known to the compiler. */
    if (count > 0)
        atomic_load_explicit(&lane->watches, memory_order_acquire);
    sanitizer_ignore_begin();
    for (long i = 0; i < count; i++) {
        struct ri_watch *watch = events[i].data.ptr;

        if (!watch) {
            if (drain)
                ual_lane_drain_kick(lane);
            else
                drain_stray_kick(lane);
            continue;
        }
        spinlock_lock(&watch->busy);
        if (!atomic_load_explicit(&watch->dead, memory_order_acquire))
            watch->ready(watch->arg, events[i].events);
        spinlock_unlock(&watch->busy);
    }
    sanitizer_ignore_end();
}

/* Under running. */
static void dispatch_descriptors(struct ual_lane *lane, bool drain)
{
    struct epoll_event events[EVENTS_PER_RUN];
    long count = -1;

    ual_lane_assert_run(lane);
    if (!ual_lane_is_broken(lane))
        count = syscall(SYS_epoll_pwait, lane->epoll_fd, events, EVENTS_PER_RUN, 0, NULL, 0);
    if (unlikely(count < 0) || ual_lane_is_broken(lane)) {
        ual_lane_check(lane);
        return;
    }
    ual_lane_dispatch(lane, events, count, drain);
}

/* Under running. */
void ual_lane_dispatch_timers(struct ual_lane *lane)
{
    uint64_t now;

    ual_lane_assert_run(lane);
    spinlock_lock(&lane->timer_lock);
    if (timers_next(&lane->timers) == RI_NO_DEADLINE) {
        spinlock_unlock(&lane->timer_lock);
        return;
    }
    now = clock_now();
    for (;;) {
        struct ri_timer *timer = timers_expired(&lane->timers, now);

        lane->expiring = timer;
        spinlock_unlock(&lane->timer_lock);
        if (!timer)
            return;
        sanitizer_ignore_begin();
        timer->expired(timer);
        sanitizer_ignore_end();
        spinlock_lock(&lane->timer_lock);
    }
}

void ual_lane_poll_epoll(struct ual_lane *lane, bool drain)
{
    ual_lane_count_poll(lane);
    dispatch_descriptors(lane, drain);
    ual_lane_dispatch_timers(lane);
}

void ual_lane_kick(struct ual_lane *lane)
{
    uint64_t one = 1;

    if (!ual_lane_is_broken(lane))
        syscall(SYS_write, lane->kick_fd, &one, sizeof(one));
}

bool ual_lane_sleeps_beyond(struct ual_lane *lane, uint64_t deadline)
{
    const struct ual_waiter *sleeper;
    bool beyond;

    spinlock_lock(&lane->sleep_lock);
    sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);
    beyond = sleeper && sleeper->sleep_until > deadline;
    spinlock_unlock(&lane->sleep_lock);
    return beyond;
}

void ual_lane_pass_on_remaining(struct ual_lane *lane)
{
    uint64_t deadline;

    if (!atomic_load_explicit(&lane->sleeper, memory_order_relaxed) ||
        atomic_load_explicit(&lane->busy, memory_order_relaxed))
        return; /* a background thread that polls all the time finds the work by itself */
    deadline = atomic_load_explicit(&lane->provider_deadline, memory_order_relaxed);
    if (!lane->provider->ops->lane_arm(lane->provider) ||
        (deadline != RI_NO_DEADLINE && ual_lane_sleeps_beyond(lane, deadline)))
        ual_lane_kick(lane);
}

void ual_lane_run(struct ual_lane *lane, struct ri_cq *first)
{
    if (!ual_lane_run_try(lane))
        return;
    ual_lane_run_pass(lane, first, EPOLL_POLL);
    ual_lane_pass_on_remaining(lane);
    ual_lane_run_drop(lane);
}

void ual_lane_set_watch(struct ual_lane *lane, uint64_t when)
{
    struct itimerspec at = { .it_value = clock_left(0, when) };

    if (!ual_lane_is_broken(lane) &&
        timerfd_settime(lane->watch_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        ual_lane_check(lane);
}

/*
 * Postpones the background thread's check, because consumers poll. In a virtual machine setting a
 * timer takes several microseconds. After a pass that did no work the consumer waits anyway; one
 * that did work has something to answer, so it comes first unless the time is nearly over. Under
 * running.
 */
static void put_watch_off(struct ual_lane *lane, bool worked)
{
    uint64_t at = atomic_load_explicit(&lane->put_off_at, memory_order_relaxed), now;

    if (at == CLOCK_NEVER)
        return;
    now = clock_now();
    if (now < at || (worked && now < at + PACE_PUT_OFF_SPARE))
        return;
    atomic_store_explicit(&lane->was_put_off, true, memory_order_relaxed);
    atomic_store_explicit(&lane->put_off_at, now + PACE_PUT_OFF_EVERY, memory_order_relaxed);
    ual_lane_set_watch(lane, now + PACE_PUT_OFF);
}

/* Under running, which it releases. */
static uint32_t poll_inside(struct ual_lane *lane, struct ri_cq *first)
{
    ual_lane_assert_run(lane);
    /* An EVD without a CQ is fed by epoll: connection requests, ends of connections. */
    bool due = ual_lane_epoll_is_due(lane, first ? 1 : POLLS_PER_EPOLL / 8);
    uint32_t work = ual_lane_run_pass(lane, first, due ? EPOLL_POLL : EPOLL_SKIP);

    if (unlikely(due))
        put_watch_off(lane, work != 0);
    else if (work && lane->polls >= POLLS_PER_EPOLL / 2)
        lane->polls = POLLS_PER_EPOLL; /* in the next poll, while the peer answers */
    ual_lane_pass_on_remaining(lane);
    atomic_store_explicit(&lane->runs, atomic_load_explicit(&lane->runs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    ual_lane_run_drop(lane);
    return work;
}

uint32_t ual_lane_poll(struct ual_lane *lane, struct ri_cq *first)
{
    if (ual_lane_run_try(lane))
        return poll_inside(lane, first);
    if (first) /* a poll for one CQ does not delay the work that waits for epoll */
        first->ops->poll(first, 0, NULL);
    return 0;
}

uint32_t ual_lane_poll_in_turn(struct ual_lane *lane, struct ri_cq *first, bool check_epoll)
{
    ual_lane_run_take(lane);
    if (check_epoll)
        atomic_store_explicit(&lane->epoll_due, true, memory_order_relaxed);
    return poll_inside(lane, first);
}

void ual_lane_pause(struct ual_lane *lane)
{
    ual_lane_run_take(lane);
}

void ual_lane_resume(struct ual_lane *lane)
{
    ual_lane_run_drop(lane);
}

/* --- questions --- */

atomic_uint *ual_lane_takes(struct ual_lane *lane)
{
    return &lane->takes;
}

uint64_t ual_lane_spin_ns(const struct ual_lane *lane)
{
    return lane->spin_ns;
}

int ual_lane_epoll_fd(const struct ual_lane *lane)
{
    return lane->epoll_fd;
}

bool ual_lane_take_listener(struct ual_lane *lane)
{
    if (atomic_fetch_add(&lane->listeners, 1) < LISTENERS_MOST)
        return true;
    atomic_fetch_sub(&lane->listeners, 1);
    return false;
}

void ual_lane_give_listener(struct ual_lane *lane)
{
    atomic_fetch_sub(&lane->listeners, 1);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sleep of a lane's one sleeper in epoll, be it a waiting consumer or the background thread.
 * Rules: lane_wait.c.
 */
#include "lane_private.h"

#include "base/futex.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <utlist.h>

#define SLEEP_MOST (5 * CLOCK_NS_PER_S)

bool ual_lane_is_sleeper(const struct ual_lane *lane, const struct ual_waiter *waiter)
{
    return atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == waiter;
}

bool ual_lane_background_lags(struct ual_lane *lane, const struct ual_waiter *waiter)
{
    bool lags;

    if (waiter == &lane->background)
        return false;
    spinlock_lock(&lane->sleep_lock);
    lags = lane->background.sleep_until != 0;
    spinlock_unlock(&lane->sleep_lock);
    return lags;
}

/* The kick is not drained while the background thread still needs it to leave epoll_wait. */
enum epoll_mode ual_lane_epoll_mode_of(struct ual_lane *lane, const struct ual_waiter *waiter)
{
    return ual_lane_is_sleeper(lane, waiter) && !ual_lane_background_lags(lane, waiter)
               ? EPOLL_POLL_AND_DRAIN
               : EPOLL_POLL;
}

bool ual_lane_arm_or_run(struct ual_lane *lane, const struct ual_waiter *waiter,
                         struct ri_cq *first)
{
    bool armed;

    ual_lane_run_take(lane);
    armed = lane->provider->ops->lane_arm(lane->provider);
    if (!armed)
        ual_lane_run_pass(lane, first, ual_lane_epoll_mode_of(lane, waiter));
    ual_lane_run_drop(lane);
    return armed;
}

static uint64_t next_timer(struct ual_lane *lane)
{
    uint64_t next;

    spinlock_lock(&lane->timer_lock);
    next = timers_next(&lane->timers);
    spinlock_unlock(&lane->timer_lock);
    return next;
}

/* False: the waiter is not the sleeper any more. */
static bool note_sleep(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t until)
{
    bool sleeper;

    spinlock_lock(&lane->sleep_lock);
    sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == waiter;
    waiter->sleep_until = sleeper ? until : 0;
    spinlock_unlock(&lane->sleep_lock);
    return sleeper;
}

/* A sleeper is not woken when the program closes the descriptors, and then no kick reaches it. So
 * it wakes every SLEEP_MOST and checks. */
static uint64_t earliest(struct ual_lane *lane, uint64_t deadline)
{
    uint64_t timer = next_timer(lane);
    uint64_t provider = atomic_load_explicit(&lane->provider_deadline, memory_order_relaxed);
    uint64_t check = clock_after(clock_now(), SLEEP_MOST);

    deadline = check < deadline ? check : deadline;
    deadline = timer < deadline ? timer : deadline;
    return provider < deadline ? provider : deadline;
}

void ual_lane_end_fetch(struct ual_lane *lane)
{
    atomic_fetch_sub(&lane->fetchers, 1);
}

/* EINTR: a handler ran, or none did (the process was stopped and continued). */
static long wait_in_epoll(struct ual_lane *lane, uint64_t until, struct fetched *fetched)
{
    uint64_t now = until == CLOCK_NEVER ? 0 : clock_now();
    struct timespec left = clock_left(now, until);
    long count = syscall(SYS_epoll_pwait2, lane->epoll_fd, fetched->events, EVENTS_PER_RUN,
                         until == CLOCK_NEVER ? NULL : &left, NULL, 0);

    /* Linux before 5.11, or a container's system call filter. */
    if (count < 0 && (errno == ENOSYS || errno == EPERM))
        count = syscall(SYS_epoll_pwait, lane->epoll_fd, fetched->events, EVENTS_PER_RUN,
                        clock_poll_ms(now, until), NULL, 0);
    return count;
}

/*
 * EINTR: a handler ran. SIGSTOP and SIGCONT, or a debugger that attaches, end epoll_wait with EINTR
 * although no handler runs. The kernel restarts ppoll in these cases, with the time that is left.
 */
static long wait_until_handler(struct ual_lane *lane, uint64_t until, struct fetched *fetched)
{
    struct pollfd set = { .fd = lane->epoll_fd, .events = POLLIN };
    struct timespec left = clock_left(until == CLOCK_NEVER ? 0 : clock_now(), until);
    long ready = syscall(SYS_ppoll, &set, 1, until == CLOCK_NEVER ? NULL : &left, NULL, 0);

    if (ready <= 0)
        return ready;
    return syscall(SYS_epoll_pwait, lane->epoll_fd, fetched->events, EVENTS_PER_RUN, 0, NULL, 0);
}

int ual_lane_sleep_in_epoll(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t deadline,
                            struct fetched *fetched)
{
    bool interrupted;
    uint64_t until;

    fetched->count = 0;
    atomic_fetch_add(&lane->fetchers, 1);
    /* Stored before the deadlines are read (ual_lane_timer_set), then stored exactly: otherwise
     * every later timer would kick. */
    if (!note_sleep(lane, waiter, deadline))
        return 0;
    until = earliest(lane, deadline);
    if (until != deadline && !note_sleep(lane, waiter, until))
        return 0;
    fetched->count = waiter == &lane->background ? wait_in_epoll(lane, until, fetched)
                                                 : wait_until_handler(lane, until, fetched);
    interrupted = fetched->count < 0 && errno == EINTR;
    if (fetched->count < 0 || ual_lane_is_broken(lane)) {
        ual_lane_check(lane);
        fetched->count = 0;
    }
    note_sleep(lane, waiter, 0);
    if (!interrupted)
        return 0;
    ual_lane_end_fetch(lane);
    return EINTR;
}

uint32_t ual_lane_run_fetched(struct ual_lane *lane, const struct ual_waiter *waiter,
                              struct ri_cq *first, const struct fetched *fetched)
{
    uint32_t work;

    ual_lane_run_take(lane);
    ual_lane_count_poll(lane);
    ual_lane_dispatch(lane, fetched->events, fetched->count,
                      ual_lane_epoll_mode_of(lane, waiter) == EPOLL_POLL_AND_DRAIN);
    ual_lane_end_fetch(lane);
    ual_lane_dispatch_timers(lane);
    work = ual_lane_run_provider(lane, first);
    ual_lane_run_drop(lane);
    return work;
}

void ual_lane_make_sleeper(struct ual_lane *lane, struct ual_waiter *next)
{
    DL_DELETE(lane->waiting, next);
    lane->sleep_epoch++;
    atomic_store_explicit(&lane->sleeper, next, memory_order_relaxed);
    atomic_fetch_or(&next->word, WAITER_SLEEPER | WAITER_CHECK);
    futex_wake(&next->word, 1);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of a lane: the run, and who runs. How consumers wait: lane_wait.c; the background thread: lane_background.c.
 *
 * A RUN is one non-blocking pass: dispatch ready descriptors and timers (not on every busy poll), then the
 * provider's progress(). `running` admits one thread; it is never held across a blocking call, a
 * consumer callback or a return to the consumer. Who cannot get it leaves: somebody is doing the work.
 *
 * WHO RUNS. Consumers that poll or wait run the lane on their own core. The background thread serves those that
 * never call in. Invariant: either a thread (`sleeper`: a waiting consumer or the background thread) sleeps in
 * epoll_wait with every descriptor of the lane in the set (level-triggered, so nothing unread is missed),
 * or the background thread sleeps with a deadline (watch_fd), 50 us doubling to 1 ms while others run or come and go, which
 * those who poll all the time put off before it comes, and
 * finds a sleeper when a whole interval saw nobody: a consumer that waits on its word (made the sleeper), else itself.
 * What comes after the last poll waits for less than 2 ms (lane_pace.h). While one consumer sleeps through a whole interval the
 * background thread sleeps without deadline (`deep`); who leaves the place of the sleeper empty wakes it then, so an idle
 * process costs nothing and a busy one no wake-up.
 *
 * DESCRIPTORS of EVDs may hold the lane's epoll set (notifier.h): then a consumer outside of the library wakes with the
 * traffic, and its dequeue is a poll like others. The lane does not know of it and does not rely on it.
 *
 * CLOSED DESCRIPTORS. Somebody else in the process may close them. The system call that finds out makes the lane broken and the IA dead
 * (ual_lane_check); the numbers may be others' by then and are not used again. Where a new lane has got one of them no call would find
 * out: its opening marks the old one. So what was fetched from a set counts only if the lane is whole afterwards.
 *
 * LOCKS. `running` (a try-lock, then everything of a run), sleep_lock (who sleeps), timer_lock, dead_lock: leaves,
 * a few instructions each. unwatch and timer_cancel from outside a run wait for a running callback of theirs
 * (watch->busy, `expiring`), so their caller holds no lock that such a callback waits for; a watch is freed at the end of
 * a run, when no fetched event can name it: nobody sleeps in epoll or comes from there with events in hand (`fetchers`). A
 * sleeper that stays there for long is kicked when DEAD_MOST watches wait for it.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane_pace.h"
#include "lane_private.h"

#include "base/cpus.h"
#include "base/futex.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utlist.h>

#define LISTENERS_MOST 4 /* each may be in several sets of the consumer's */

static struct spinlock lanes_lock; /* leaf */
static struct ual_lane *lanes;     /* of the process */

/* --- the run --- */

bool ual_lane_inside(const struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

void ual_lane_run_take(struct ual_lane *lane)
{
    for (unsigned int spins = 0; !ual_lane_run_try(lane); spins++) {
        if (spins < 100)
            spinlock_pause();
        else
            sched_yield();
    }
}

void ual_lane_free_dead_watches(struct ual_lane *lane)
{
    struct ri_watch *watch, *next;

    /* Who fetches after this looks at a set in which those on the list are no more. */
    spinlock_lock(&lane->dead_lock);
    watch = NULL;
    if (!atomic_load(&lane->fetchers)) {
        watch = atomic_exchange_explicit(&lane->dead, NULL, memory_order_relaxed);
        lane->dead_count = 0;
    }
    spinlock_unlock(&lane->dead_lock);
    for (; watch; watch = next) {
        next = watch->next_dead;
        free(watch);
    }
}

void ual_lane_drain_kick(struct ual_lane *lane)
{
    uint64_t count;

    while (syscall(SYS_read, lane->kick_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* Nobody sleeps in epoll, so nobody needs it: whoever will looks first. Else it stays, and a descriptor of a
 * consumer that holds the lane's set would stay readable. */
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
    /* The kernel orders what watch wrote before this; the language knows of it by the counter. */
    if (count > 0)
        atomic_load_explicit(&lane->watches, memory_order_acquire);
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
}

bool ual_lane_is_broken(const struct ual_lane *lane)
{
    return __builtin_expect(atomic_load_explicit(&lane->descriptors, memory_order_acquire), 0);
}

/* Under lanes_lock, as is the tracking of a new lane: what that has got is not forgotten here. */
static void lose_descriptors(struct ual_lane *lane)
{
    if (ual_lane_is_broken(lane))
        return;
    ual_fork_forget(lane->epoll_fd);
    ual_fork_forget(lane->kick_fd);
    ual_fork_forget(lane->watch_fd);
    atomic_store(&lane->descriptors, DESCRIPTORS_LOST);
}

void ual_lane_check(struct ual_lane *lane)
{
    const struct ri_event event = {
        .size = sizeof(event),
        .type = RI_EVENT_RNIC_FATAL,
        .detail = "something in this process closed descriptors that are not its own, as closefrom "
                  "does; keep it from those that were open before",
    };

    if (!ual_lane_is_broken(lane) && errno != EBADF && errno != EINVAL)
        return;
    spinlock_lock(&lanes_lock);
    lose_descriptors(lane);
    spinlock_unlock(&lanes_lock);
    if (atomic_exchange(&lane->descriptors, DESCRIPTORS_TOLD) != DESCRIPTORS_TOLD)
        ual_ia_rnic_event(lane->ia, &event);
}

/* Under running. */
static void dispatch_descriptors(struct ual_lane *lane, bool drain)
{
    struct epoll_event events[EVENTS_PER_RUN];
    long count = -1;

    if (!ual_lane_is_broken(lane))
        count = syscall(SYS_epoll_pwait, lane->epoll_fd, events, EVENTS_PER_RUN, 0, NULL, 0);
    if (__builtin_expect(count < 0, 0) || ual_lane_is_broken(lane)) {
        ual_lane_check(lane);
        return;
    }
    ual_lane_dispatch(lane, events, count, drain);
}

/* Under running. */
void ual_lane_dispatch_timers(struct ual_lane *lane)
{
    uint64_t now;

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
        timer->expired(timer);
        spinlock_lock(&lane->timer_lock);
    }
}

void ual_lane_look(struct ual_lane *lane, bool drain)
{
    ual_lane_note_look(lane);
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

/* After a run by somebody else: what it left behind is the sleeper's, who does not know. Under running. */
static void pass_on_rest(struct ual_lane *lane)
{
    uint64_t deadline;

    if (!atomic_load_explicit(&lane->sleeper, memory_order_relaxed))
        return;
    deadline = atomic_load_explicit(&lane->provider_deadline, memory_order_relaxed);
    if (!lane->provider->ops->lane_arm(lane->provider) ||
        (deadline != RI_NO_DEADLINE && ual_lane_sleeps_beyond(lane, deadline)))
        ual_lane_kick(lane);
}

void ual_lane_run(struct ual_lane *lane, struct ri_cq *first)
{
    if (!ual_lane_run_try(lane))
        return;
    ual_lane_run_pass(lane, first, LOOK);
    pass_on_rest(lane);
    ual_lane_run_drop(lane);
}

void ual_lane_set_watch(struct ual_lane *lane, uint64_t when)
{
    struct itimerspec at = { .it_value = clock_left(0, when) };

    if (!ual_lane_is_broken(lane) &&
        timerfd_settime(lane->watch_fd, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        ual_lane_check(lane);
}

/* The background thread need not look: consumers do. Under running. */
static void put_watch_off(struct ual_lane *lane)
{
    uint64_t at = atomic_load_explicit(&lane->put_off_at, memory_order_relaxed), now;

    if (at == CLOCK_NEVER)
        return;
    now = clock_now();
    if (now < at)
        return;
    atomic_store_explicit(&lane->was_put_off, true, memory_order_relaxed);
    atomic_store_explicit(&lane->put_off_at, now + PACE_PUT_OFF_EVERY, memory_order_relaxed);
    ual_lane_set_watch(lane, now + PACE_PUT_OFF);
}

/* Under running, which it drops. */
static uint32_t poll_inside(struct ual_lane *lane, struct ri_cq *first)
{
    /* Who polls an EVD without a CQ waits for what epoll brings: requests, ends of connections. */
    bool look = ual_lane_poll_looks(lane, first ? 1 : POLLS_PER_EPOLL / 8);
    uint32_t pieces = ual_lane_run_pass(lane, first, look ? LOOK : LOOK_NOT);

    if (look)
        put_watch_off(lane);
    pass_on_rest(lane);
    atomic_store_explicit(&lane->runs, atomic_load_explicit(&lane->runs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    ual_lane_run_drop(lane);
    return pieces;
}

uint32_t ual_lane_poll(struct ual_lane *lane, struct ri_cq *first)
{
    if (ual_lane_run_try(lane))
        return poll_inside(lane, first);
    if (first) /* it is served; what waits for this look is not held up by that */
        first->ops->poll(first, 0, NULL);
    return 0;
}

uint32_t ual_lane_poll_in_turn(struct ual_lane *lane, struct ri_cq *first, bool look)
{
    ual_lane_run_take(lane);
    if (look)
        atomic_store_explicit(&lane->look_due, true, memory_order_relaxed);
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

/* --- every lane of the process: asked by who logs and who opens one --- */

bool ual_lane_inside_any(void)
{
    const struct ual_lane *lane;

    spinlock_lock(&lanes_lock);
    DL_FOREACH (lanes, lane)
        if (ual_lane_inside(lane) || pthread_equal(lane->thread, pthread_self()))
            break;
    spinlock_unlock(&lanes_lock);
    return lane != NULL;
}

/* In the child of a fork: stores only. */
void ual_lane_forked(void)
{
    spinlock_init(&lanes_lock);
    lanes = NULL;
}

static void enlist(struct ual_lane *lane)
{
    spinlock_lock(&lanes_lock);
    DL_APPEND(lanes, lane);
    spinlock_unlock(&lanes_lock);
}

static void delist(struct ual_lane *lane)
{
    spinlock_lock(&lanes_lock);
    DL_DELETE(lanes, lane);
    spinlock_unlock(&lanes_lock);
}

/* --- open and close --- */

static bool has_number(const struct ual_lane *lane, int fd)
{
    return lane->epoll_fd == fd || lane->kick_fd == fd || lane->watch_fd == fd;
}

/* A lane that has one of these numbers as well has lost its own descriptors. */
static void take_numbers(const struct ual_lane *fresh)
{
    struct ual_lane *lane;

    spinlock_lock(&lanes_lock);
    DL_FOREACH (lanes, lane)
        if (has_number(lane, fresh->epoll_fd) || has_number(lane, fresh->kick_fd) ||
            has_number(lane, fresh->watch_fd))
            lose_descriptors(lane);
    ual_fork_track(fresh->epoll_fd);
    ual_fork_track(fresh->kick_fd);
    ual_fork_track(fresh->watch_fd);
    spinlock_unlock(&lanes_lock);
}

static enum ual_status open_descriptors(struct ual_lane *lane)
{
    struct epoll_event event = { .events = EPOLLIN };

    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lane->watch_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (lane->epoll_fd < 0 || lane->kick_fd < 0 || lane->watch_fd < 0 ||
        epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->kick_fd, &event) < 0) {
        kal_log(RI_LOG_ERROR, "cannot open descriptors for a lane: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        return UAL_ERR_NO_RESOURCES;
    }
    take_numbers(lane);
    return UAL_OK;
}

static void close_descriptors(struct ual_lane *lane)
{
    if (ual_lane_is_broken(lane))
        return;
    ual_fork_forget(lane->epoll_fd);
    ual_fork_forget(lane->kick_fd);
    ual_fork_forget(lane->watch_fd);
    if (lane->epoll_fd >= 0)
        close(lane->epoll_fd);
    if (lane->kick_fd >= 0)
        close(lane->kick_fd);
    if (lane->watch_fd >= 0)
        close(lane->watch_fd);
}

enum ual_status ual_lane_open(struct ual_ia *ia, struct kal_rnic *rnic, uint32_t index,
                              uint64_t spin_ns, struct ual_lane **out)
{
    struct ual_lane *lane = calloc(1, sizeof(*lane));
    enum ual_status status;

    if (!lane)
        return UAL_ERR_NO_RESOURCES;
    lane->ia = ia;
    lane->epoll_fd = lane->kick_fd = lane->watch_fd = -1;
    lane->spin_ns = cpus_quota() >= 2 ? spin_ns : 0;
    atomic_init(&lane->provider_deadline, RI_NO_DEADLINE);
    atomic_init(&lane->put_off_at, CLOCK_NEVER);
    status = open_descriptors(lane);
    if (status != UAL_OK)
        goto close;
    status = ual_lane_start_background(lane);
    if (status != UAL_OK)
        goto close;
    /* Last, because the provider's lane cannot be unmade; the thread waits for it. */
    status = ual_status_of_kal(kal_lane_open(rnic, index, lane, &lane->provider));
    if (status != UAL_OK)
        goto stop;
    enlist(lane);
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    *out = lane;
    return UAL_OK;
stop:
    ual_lane_stop(lane);
close:
    close_descriptors(lane);
    free(lane);
    return status;
}

void ual_lane_stop(struct ual_lane *lane)
{
    atomic_store(&lane->stop, true);
    ual_lane_set_watch(lane, 1); /* long past */
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    ual_lane_kick(lane);
    pthread_join(lane->thread, NULL);
}

void ual_lane_close(struct ual_lane *lane)
{
    delist(lane);
    ual_lane_free_dead_watches(lane);
    close_descriptors(lane);
    free(lane);
}

struct ri_lane *ual_lane_provider(struct ual_lane *lane)
{
    return lane->provider;
}

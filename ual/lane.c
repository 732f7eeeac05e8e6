/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress of a lane.
 *
 * A RUN is one non-blocking pass: dispatch ready descriptors and timers (not on every busy poll), then the
 * provider's progress(). `running` admits one thread; it is never held across a blocking call, a
 * consumer callback or a return to the consumer. Who cannot get it leaves: somebody is doing the work.
 *
 * WHO RUNS. Consumers that poll or wait run the lane on their own core. The background thread serves those that
 * never call in. Invariant: either a thread (`sleeper`: a waiting consumer or the background thread) sleeps in
 * epoll_wait with every descriptor of the lane in the set (level-triggered, so nothing unread is missed),
 * or the background thread sleeps with a deadline, 50 us doubling to 1 ms while others run, and becomes the
 * sleeper when a whole interval saw no run. While one consumer sleeps through a whole interval the background
 * thread sleeps without deadline (`deep`); who leaves the wait wakes it then, so an idle process costs nothing
 * and a busy one no wake-up.
 *
 * BEFORE SLEEPING, in this order: register as waiter (wait_begin: sleeper or on a word; then the EVD's list), arm the
 * CQ, arm the lane (when that says that work is left: run once, look, come again), fence, look at the ring, sleep. A
 * completion that is pushed before the look is seen by it; one pushed later finds the CQ armed and the waiter
 * registered, and its waker sets WAITER_LOOK and kicks epoll (an eventfd in the set) or the futex. A wake that comes
 * before the sleep is not lost: the word differs, and the eventfd stays readable, because only the
 * sleeper drains it (a run by somebody else must not: the sleeper would find nothing and sleep on).
 * The background thread sleeps in epoll only while it is the sleeper (looked at under sleep_lock, with sleep_until): a
 * consumer that displaced it and left again has not left it there, unarmed and unknown to timer_set.
 *
 * LEAVING a wait (event, time-out, signal, abort) hands the sleep to a registered waiter: WAITER_SLEEPER and WAITER_LOOK
 * enter its word in one step, so nobody sees one without the other, and it arms before it sleeps in epoll. Where there is
 * none the background thread's deadline covers. A thread that runs the lane while another sleeps in epoll, and leaves
 * work behind (arming says so) or an earlier deadline, kicks the sleeper.
 *
 * LOCKS. `running` (a try-lock, then everything of a run), sleep_lock (who sleeps), timer_lock, dead_lock: leaves,
 * a few instructions each. unwatch and timer_cancel from outside a run wait for a running callback of theirs
 * (watch->busy, `expiring`), so their caller holds no lock that such a callback waits for; a watch is freed at the end of
 * a run, when no fetched event can name it.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane.h"
#include "timers.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/spinlock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#define EVENTS_PER_RUN  64
#define RUN_BUDGET      256 /* pieces of provider work in one run */
#define DIRECT_WATCHES  6   /* up to here the provider reads its few sockets itself */
#define POLLS_PER_EPOLL 64  /* busy polls between looks at epoll and timers then */
#define INTERVAL_FIRST  (50 * CLOCK_NS_PER_US)
#define INTERVAL_LAST   (1 * CLOCK_NS_PER_MS)

struct ri_watch {
    struct ual_lane *lane;
    int fd;
    ri_ready_fn ready;
    void *arg;
    struct spinlock busy; /* held while ready runs */
    atomic_bool dead;
    struct ri_watch *next_dead;
};

struct ual_lane {
    struct ri_lane *provider;
    uint64_t spin_ns;
    int epoll_fd, kick_fd;

    atomic_int running;
    atomic_ulong runner; /* pthread_t inside the run, 0 none */
    atomic_uint runs;    /* runs by consumers */
    unsigned int polls;  /* busy polls since the last look at epoll; under running */
    atomic_uint_least64_t provider_deadline;
    atomic_uint watches;
    atomic_bool
        look_due; /* others poll, but maybe seldom: the next poll looks at epoll and timers */

    struct spinlock sleep_lock;
    _Atomic(struct ual_waiter *) sleeper; /* written under sleep_lock */
    unsigned int sleep_epoch;             /* changes when a consumer's sleep begins or ends */
    struct ual_waiter *waiting;           /* those that sleep on their words */

    struct spinlock timer_lock;
    struct timers timers;
    struct ri_timer *expiring; /* its `expired` runs */

    struct spinlock dead_lock;
    _Atomic(struct ri_watch *) dead;

    pthread_t thread;
    struct ual_waiter background;
    atomic_uint background_word;
    bool deep; /* under sleep_lock */
    atomic_bool stop;
};

/* --- the run --- */

bool ual_lane_inside(const struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->runner, memory_order_relaxed) ==
           (unsigned long)pthread_self();
}

static bool run_try(struct ual_lane *lane)
{
    if (atomic_load_explicit(&lane->running, memory_order_relaxed) ||
        atomic_exchange_explicit(&lane->running, 1, memory_order_acquire))
        return false;
    atomic_store_explicit(&lane->runner, (unsigned long)pthread_self(), memory_order_relaxed);
    return true;
}

/* Runs never block, so this is short; a descheduled runner is let on by the yield. */
static void run_take(struct ual_lane *lane)
{
    for (unsigned int spins = 0; !run_try(lane); spins++) {
        if (spins < 100)
            spinlock_pause();
        else
            sched_yield();
    }
}

static void free_dead_watches(struct ual_lane *lane)
{
    struct ri_watch *watch, *next;

    spinlock_lock(&lane->dead_lock);
    watch = atomic_exchange_explicit(&lane->dead, NULL, memory_order_relaxed);
    spinlock_unlock(&lane->dead_lock);
    for (; watch; watch = next) {
        next = watch->next_dead;
        free(watch);
    }
}

static void run_drop(struct ual_lane *lane)
{
    if (__builtin_expect(atomic_load_explicit(&lane->dead, memory_order_relaxed) != NULL, 0))
        free_dead_watches(lane);
    atomic_store_explicit(&lane->runner, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->running, 0, memory_order_release);
}

static void drain_kick(struct ual_lane *lane)
{
    uint64_t count;

    while (syscall(SYS_read, lane->kick_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* Under running. */
static void dispatch_descriptors(struct ual_lane *lane, bool drain)
{
    struct epoll_event events[EVENTS_PER_RUN];
    long count = syscall(SYS_epoll_pwait, lane->epoll_fd, events, EVENTS_PER_RUN, 0, NULL, 0);

    /* The kernel orders what watch wrote before this; the language knows of it by the counter. */
    if (count > 0)
        atomic_load_explicit(&lane->watches, memory_order_acquire);
    for (long i = 0; i < count; i++) {
        struct ri_watch *watch = events[i].data.ptr;

        if (!watch) {
            if (drain)
                drain_kick(lane);
            continue;
        }
        spinlock_lock(&watch->busy);
        if (!atomic_load_explicit(&watch->dead, memory_order_acquire))
            watch->ready(watch->arg, events[i].events);
        spinlock_unlock(&watch->busy);
    }
}

/* Under running. */
static void dispatch_timers(struct ual_lane *lane)
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

enum look { LOOK_NOT, LOOK, LOOK_AND_DRAIN /* the sleeper only */ };

static void run_pass(struct ual_lane *lane, struct ri_cq *first, enum look look)
{
    uint64_t next = RI_NO_DEADLINE;

    if (look != LOOK_NOT) {
        lane->polls = 0;
        atomic_store_explicit(&lane->look_due, false, memory_order_relaxed);
        dispatch_descriptors(lane, look == LOOK_AND_DRAIN);
        dispatch_timers(lane);
    }
    lane->provider->ops->progress(lane->provider, first, RUN_BUDGET, &next);
    atomic_store_explicit(&lane->provider_deadline, next, memory_order_relaxed);
}

static void kick(struct ual_lane *lane)
{
    uint64_t one = 1;

    syscall(SYS_write, lane->kick_fd, &one, sizeof(one));
}

static bool sleeps_beyond(struct ual_lane *lane, uint64_t deadline)
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
        (deadline != RI_NO_DEADLINE && sleeps_beyond(lane, deadline)))
        kick(lane);
}

void ual_lane_run(struct ual_lane *lane, struct ri_cq *first)
{
    if (!run_try(lane))
        return;
    run_pass(lane, first, LOOK);
    pass_on_rest(lane);
    run_drop(lane);
}

void ual_lane_poll(struct ual_lane *lane, struct ri_cq *first)
{
    bool look;

    if (!run_try(lane))
        return;
    look = ++lane->polls >= POLLS_PER_EPOLL ||
           atomic_load_explicit(&lane->look_due, memory_order_relaxed) ||
           atomic_load_explicit(&lane->watches, memory_order_relaxed) > DIRECT_WATCHES;
    run_pass(lane, first, look ? LOOK : LOOK_NOT);
    pass_on_rest(lane);
    atomic_store_explicit(&lane->runs, atomic_load_explicit(&lane->runs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    run_drop(lane);
}

void ual_lane_pause(struct ual_lane *lane)
{
    run_take(lane);
}

void ual_lane_resume(struct ual_lane *lane)
{
    run_drop(lane);
}

/* --- waiting --- */

void ual_lane_wait_begin(struct ual_lane *lane, struct ual_waiter *waiter)
{
    struct ual_waiter *displaced;
    bool sleeper;

    waiter->thread = pthread_self();
    waiter->sleep_until = 0;
    spinlock_lock(&lane->sleep_lock);
    displaced = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);
    sleeper = !displaced || displaced == &lane->background;
    atomic_init(&waiter->word, sleeper ? WAITER_SLEEPER : 0);
    if (sleeper) {
        atomic_store_explicit(&lane->sleeper, waiter, memory_order_relaxed);
        lane->sleep_epoch++;
    } else {
        DL_APPEND(lane->waiting, waiter);
    }
    spinlock_unlock(&lane->sleep_lock);
    if (sleeper && displaced)
        kick(lane); /* the background thread leaves epoll_wait */
}

void ual_lane_wait_reset(struct ual_waiter *waiter)
{
    atomic_fetch_and(&waiter->word, ~WAITER_LOOK);
}

/* For the sleeper, who must not sleep over work: waits for the run, unlike others. */
static bool arm_or_run(struct ual_lane *lane, struct ri_cq *first)
{
    bool armed;

    run_take(lane);
    armed = lane->provider->ops->lane_arm(lane->provider);
    if (!armed)
        run_pass(lane, first, LOOK_AND_DRAIN);
    run_drop(lane);
    return armed;
}

bool ual_lane_wait_arm(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first)
{
    bool armed = !(atomic_load(&waiter->word) & WAITER_SLEEPER) || arm_or_run(lane, first);

    atomic_thread_fence(memory_order_seq_cst);
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

/* False: the waiter is not the sleeper (any more). */
static bool note_sleep(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t until)
{
    bool sleeper;

    spinlock_lock(&lane->sleep_lock);
    sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == waiter;
    waiter->sleep_until = sleeper ? until : 0;
    spinlock_unlock(&lane->sleep_lock);
    return sleeper;
}

static uint64_t earliest(struct ual_lane *lane, uint64_t deadline)
{
    uint64_t timer = next_timer(lane);
    uint64_t provider = atomic_load_explicit(&lane->provider_deadline, memory_order_relaxed);

    deadline = timer < deadline ? timer : deadline;
    return provider < deadline ? provider : deadline;
}

static long wait_in_epoll(struct ual_lane *lane, uint64_t until)
{
    uint64_t now = until == CLOCK_NEVER ? 0 : clock_now();
    struct timespec left = clock_left(now, until);
    struct epoll_event event;
    long count = syscall(SYS_epoll_pwait2, lane->epoll_fd, &event, 1,
                         until == CLOCK_NEVER ? NULL : &left, NULL, 0);

    if (count < 0 &&
        (errno == ENOSYS || errno == EPERM)) /* before Linux 5.11, or an old container filter */
        count = syscall(SYS_epoll_pwait, lane->epoll_fd, &event, 1, clock_poll_ms(now, until), NULL,
                        0);
    return count;
}

/* Block in epoll_wait until readiness, a kick, the deadline or an earlier one of the lane. 0 or EINTR. */
static int sleep_in_epoll(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t deadline)
{
    uint64_t until;
    int rc = 0;

    /* Noted before the deadlines are read: see timer_set. And then exactly, or every later timer would kick. */
    if (!note_sleep(lane, waiter, deadline))
        return 0;
    until = earliest(lane, deadline);
    if (until != deadline && !note_sleep(lane, waiter, until))
        return 0;
    if (wait_in_epoll(lane, until) < 0)
        rc = errno == EINTR ? EINTR : 0;
    note_sleep(lane, waiter, 0);
    return rc;
}

int ual_lane_wait_sleep(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first,
                        uint64_t deadline)
{
    unsigned int word = atomic_load(&waiter->word);
    int rc;

    if (word & WAITER_LOOK)
        return 0;
    if (!(word & WAITER_SLEEPER)) {
        /* Never without a deadline: the kernel would restart such a wait after a handler with SA_RESTART. */
        rc = futex_wait(&waiter->word, 0, deadline == CLOCK_NEVER ? CLOCK_NEVER - 1 : deadline);
        return rc == EINTR ? EINTR : 0;
    }
    rc = sleep_in_epoll(lane, waiter, deadline);
    if (rc != 0)
        return rc;
    run_take(lane);
    run_pass(lane, first, LOOK_AND_DRAIN);
    run_drop(lane);
    return 0;
}

/* Under sleep_lock, so that the heir cannot leave its stack frame meanwhile. */
static void make_sleeper(struct ual_lane *lane, struct ual_waiter *heir)
{
    DL_DELETE(lane->waiting, heir);
    atomic_fetch_or(&heir->word, WAITER_SLEEPER | WAITER_LOOK);
    futex_wake(&heir->word, 1);
}

void ual_lane_wait_end(struct ual_lane *lane, struct ual_waiter *waiter)
{
    bool wake_background = false, stray = false;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) != waiter) {
        DL_DELETE(lane->waiting, waiter);
    } else {
        struct ual_waiter *heir = lane->waiting;

        lane->sleep_epoch++;
        if (heir) {
            make_sleeper(lane, heir);
        } else if (lane->deep) {
            lane->deep = false;
            wake_background = true;
        } else {
            /* Displaced, but we drained its kick before it saw it: it has to find out now. (One that has not noted
             * its sleep yet finds out by itself.) */
            stray = lane->background.sleep_until != 0;
        }
        atomic_store_explicit(&lane->sleeper, heir, memory_order_relaxed);
    }
    spinlock_unlock(&lane->sleep_lock);
    if (stray)
        kick(lane);
    if (wake_background) {
        atomic_fetch_add(&lane->background_word, 1);
        futex_wake(&lane->background_word, 1);
    }
}

void ual_lane_wake_waiter(struct ual_lane *lane, struct ual_waiter *waiter)
{
    unsigned int word = atomic_fetch_or(&waiter->word, WAITER_LOOK);

    if (pthread_equal(waiter->thread, pthread_self()))
        return; /* it runs the lane itself and looks afterwards */
    /* Who is made the sleeper after this finds WAITER_LOOK before it sleeps in epoll. */
    if (word & WAITER_SLEEPER)
        kick(lane);
    else
        futex_wake(&waiter->word, 1);
}

uint64_t ual_lane_spin_ns(const struct ual_lane *lane)
{
    return lane->spin_ns;
}

/* --- the background thread --- */

static bool is_sleeper(struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == &lane->background;
}

/* Sleeper until a consumer displaces it, others run the lane, or it has to stop. */
static void serve_in_epoll(struct ual_lane *lane)
{
    while (!atomic_load(&lane->stop) && is_sleeper(lane)) {
        unsigned int runs = atomic_load_explicit(&lane->runs, memory_order_relaxed);

        if (!arm_or_run(lane, NULL))
            continue;
        sleep_in_epoll(lane, &lane->background, CLOCK_NEVER);
        if (atomic_load_explicit(&lane->runs, memory_order_relaxed) != runs)
            return; /* consumers poll: leave the bytes to them */
        if (run_try(lane)) {
            run_pass(lane, NULL, is_sleeper(lane) ? LOOK_AND_DRAIN : LOOK);
            run_drop(lane);
        }
    }
}

/* Give the sleep away if it is still ours. */
static void leave_epoll(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == &lane->background)
        atomic_store_explicit(&lane->sleeper, NULL, memory_order_relaxed);
    spinlock_unlock(&lane->sleep_lock);
}

enum duty { DUTY_WATCH, DUTY_SERVE, DUTY_DEEP };

/* After an interval: what does the background thread do next? */
static enum duty next_duty(struct ual_lane *lane, unsigned int epoch, bool others_run)
{
    enum duty duty = DUTY_WATCH;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed)) {
        if (lane->sleep_epoch == epoch) {
            lane->deep = true;
            duty = DUTY_DEEP;
        }
    } else if (!others_run) {
        atomic_store_explicit(&lane->sleeper, &lane->background, memory_order_relaxed);
        duty = DUTY_SERVE;
    }
    spinlock_unlock(&lane->sleep_lock);
    return duty;
}

static void *background(void *arg)
{
    struct ual_lane *lane = arg;
    uint64_t interval = INTERVAL_FIRST;

    while (!atomic_load(&lane->background_word))
        futex_wait(&lane->background_word, 0, CLOCK_NEVER);
    while (!atomic_load(&lane->stop)) {
        unsigned int word = atomic_load(&lane->background_word);
        unsigned int runs = atomic_load_explicit(&lane->runs, memory_order_relaxed);
        unsigned int epoch;

        spinlock_lock(&lane->sleep_lock);
        epoch = lane->sleep_epoch;
        spinlock_unlock(&lane->sleep_lock);
        futex_wait(&lane->background_word, word, clock_now() + interval);
        if (atomic_load(&lane->stop))
            break;
        switch (next_duty(lane, epoch,
                          atomic_load_explicit(&lane->runs, memory_order_relaxed) != runs)) {
        case DUTY_WATCH:
            interval = interval * 2 < INTERVAL_LAST ? interval * 2 : INTERVAL_LAST;
            atomic_store_explicit(&lane->look_due, true, memory_order_relaxed);
            break;
        case DUTY_SERVE:
            serve_in_epoll(lane);
            leave_epoll(lane);
            interval = INTERVAL_FIRST;
            break;
        case DUTY_DEEP:
            futex_wait(&lane->background_word, word, CLOCK_NEVER);
            interval = INTERVAL_FIRST;
            break;
        }
    }
    return NULL;
}

/* --- descriptors and timers (struct kal_upper) --- */

enum ri_status ual_lane_watch(void *lane_context, int fd, uint32_t events, ri_ready_fn ready,
                              void *arg, struct ri_watch **out)
{
    struct ual_lane *lane = lane_context;
    struct ri_watch *watch = calloc(1, sizeof(*watch));
    struct epoll_event event = { .events = events, .data.ptr = watch };

    if (!watch)
        return RI_ERR_NO_RESOURCES;
    *watch = (struct ri_watch){ .lane = lane, .fd = fd, .ready = ready, .arg = arg };
    /* All this before the add: ready may come, and take the watch away, before this call returns. */
    *out = watch;
    atomic_fetch_add_explicit(&lane->watches, 1, memory_order_release);
    ual_fork_track(fd);
    if (epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        kal_log(RI_LOG_ERROR, "cannot watch descriptor %d: %s", fd, strerrordesc_np(errno));
        ual_fork_forget(fd);
        atomic_fetch_sub_explicit(&lane->watches, 1, memory_order_relaxed);
        *out = NULL;
        free(watch);
        return RI_ERR_NO_RESOURCES;
    }
    return RI_OK;
}

enum ri_status ual_lane_rewatch(struct ri_watch *watch, uint32_t events)
{
    struct ual_lane *lane = watch->lane;
    struct epoll_event event = { .events = events, .data.ptr = watch };
    int fd = watch->fd;

    /* As in watch: what becomes ready by this call may take the watch away before it returns. */
    atomic_fetch_add_explicit(&lane->watches, 0, memory_order_release);
    if (epoll_ctl(lane->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        return RI_ERR_INVALID_STATE;
    return RI_OK;
}

void ual_lane_unwatch(struct ri_watch *watch)
{
    struct ual_lane *lane = watch->lane;

    epoll_ctl(lane->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    ual_fork_forget(watch->fd);
    atomic_fetch_sub_explicit(&lane->watches, 1, memory_order_relaxed);
    atomic_store_explicit(&watch->dead, true, memory_order_release);
    if (!ual_lane_inside(lane)) {
        spinlock_lock(&watch->busy); /* a ready that has begun ends before we return */
        spinlock_unlock(&watch->busy);
    }
    spinlock_lock(&lane->dead_lock);
    watch->next_dead = atomic_load_explicit(&lane->dead, memory_order_relaxed);
    atomic_store_explicit(&lane->dead, watch, memory_order_relaxed);
    spinlock_unlock(&lane->dead_lock);
}

void ual_lane_timer_set(void *lane_context, struct ri_timer *timer)
{
    struct ual_lane *lane = lane_context;
    uint64_t deadline = timer->deadline;

    spinlock_lock(&lane->timer_lock);
    timers_set(&lane->timers, timer);
    spinlock_unlock(&lane->timer_lock);
    /* The sleeper notes sleep_until before it reads the timers: it sees this one, or we see that it sleeps. */
    if (sleeps_beyond(lane, deadline))
        kick(lane);
}

void ual_lane_timer_cancel(void *lane_context, struct ri_timer *timer)
{
    struct ual_lane *lane = lane_context;
    bool busy;

    /* A running `expired` may have set the timer again, or be about to: until both are seen off under the lock. */
    do {
        spinlock_lock(&lane->timer_lock);
        timers_remove(&lane->timers, timer);
        busy = lane->expiring == timer && !ual_lane_inside(lane);
        spinlock_unlock(&lane->timer_lock);
        if (busy)
            sched_yield();
    } while (busy);
}

void ual_lane_wake(void *lane_context)
{
    kick(lane_context);
}

/* --- open and close --- */

static enum ual_status start_background(struct ual_lane *lane)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&lane->thread, NULL, background, lane);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        kal_log(RI_LOG_ERROR, "cannot start the progress thread: %s", strerrordesc_np(error));
        return UAL_ERR_NO_RESOURCES;
    }
    pthread_setname_np(lane->thread, "ital-lane");
    return UAL_OK;
}

static enum ual_status open_descriptors(struct ual_lane *lane)
{
    struct epoll_event event = { .events = EPOLLIN };

    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    lane->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lane->epoll_fd < 0 || lane->kick_fd < 0 ||
        epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, lane->kick_fd, &event) < 0) {
        kal_log(RI_LOG_ERROR, "cannot open descriptors for a lane: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        return UAL_ERR_NO_RESOURCES;
    }
    ual_fork_track(lane->epoll_fd);
    ual_fork_track(lane->kick_fd);
    return UAL_OK;
}

static void close_descriptors(struct ual_lane *lane)
{
    ual_fork_forget(lane->epoll_fd);
    ual_fork_forget(lane->kick_fd);
    if (lane->epoll_fd >= 0)
        close(lane->epoll_fd);
    if (lane->kick_fd >= 0)
        close(lane->kick_fd);
}

enum ual_status ual_lane_open(struct ual_ia *ia, struct kal_rnic *rnic, uint32_t index,
                              uint64_t spin_ns, struct ual_lane **out)
{
    struct ual_lane *lane = calloc(1, sizeof(*lane));
    enum ual_status status;

    (void)ia;
    if (!lane)
        return UAL_ERR_NO_RESOURCES;
    lane->epoll_fd = lane->kick_fd = -1;
    lane->spin_ns = spin_ns;
    atomic_init(&lane->provider_deadline, RI_NO_DEADLINE);
    status = open_descriptors(lane);
    if (status != UAL_OK)
        goto close;
    status = start_background(lane);
    if (status != UAL_OK)
        goto close;
    /* Last, because the provider's lane cannot be unmade; the thread waits for it. */
    status = ual_status_of_kal(kal_lane_open(rnic, index, lane, &lane->provider));
    if (status != UAL_OK)
        goto stop;
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
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    kick(lane);
    pthread_join(lane->thread, NULL);
}

void ual_lane_close(struct ual_lane *lane)
{
    free_dead_watches(lane);
    close_descriptors(lane);
    free(lane);
}

struct ri_lane *ual_lane_provider(struct ual_lane *lane)
{
    return lane->provider;
}

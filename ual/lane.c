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
 * or the background thread sleeps with a deadline, 50 us doubling to 400 us while others run or come and go, and
 * finds a sleeper when a whole interval saw nobody: a consumer that waits on its word (made the sleeper), else itself.
 * So what comes after the last poll waits for two intervals at most. While one consumer sleeps through a whole interval the
 * background thread sleeps without deadline (`deep`); who leaves the place of the sleeper empty wakes it then, so an idle
 * process costs nothing and a busy one no wake-up.
 *
 * POLLING TAKES THE SLEEPER OUT. Whatever arrives wakes who sleeps in epoll, also what a polling consumer is about to
 * read. So a sleeper that wakes and sees that others polled closely while it slept (POLLS_LEAST and more, POLL_GAP apart at
 * most) runs nothing and STEPS ASIDE: it gives up the place (leave_place: the background thread gets its deadline back),
 * and sleeps on its word like every waiter that is not the sleeper. Its CQ is armed, so whoever polls its event wakes it.
 * The background thread that wakes and sees a poll goes back to its deadline at once. Who polls leaves nothing behind for
 * a sleeper then; timers are looked at by every 64th poll, and by the next one after an interval has passed (look_due).
 * Completions that are taken without a poll count as polls here (`takes`): a consumer that streams finds them for long, and
 * what it has gathered would wake the sleeper with each batch.
 * A consumer that begins to wait takes the place if it is empty or the background thread's, polling or not: it may be the
 * one that polled until now.
 *
 * AFTER SERVING, before it sleeps again, the background thread looks on for the time `spin` (linger), as a consumer does in
 * a wait: a peer that writes or reads often is not to pay for a wake-up each time. Not with one processor only, by
 * affinity mask or quota, and seldom where it was in vain (spin_habit).
 *
 * BEFORE SLEEPING, in this order: register as waiter (wait_begin: sleeper or on a word; then the EVD's list), arm the
 * CQ, arm the lane (when that says that work is left: run once, look, come again), fence, look at the ring, sleep. A
 * completion that is pushed before the look is seen by it; one pushed later finds the CQ armed and the waiter
 * registered, and its waker sets WAITER_LOOK and kicks epoll (an eventfd in the set) or the futex. A wake that comes
 * before the sleep is not lost: the word differs, and the eventfd stays readable, because only the
 * sleeper drains it (a run by somebody else must not: the sleeper would find nothing and sleep on), or who runs while
 * nobody is the sleeper or sleeps in epoll (looked at and drained under sleep_lock: who takes the place later looks first).
 * Whether a run is the sleeper's is asked inside it: who takes the place over arms in a later one. The sleeper does not drain
 * while a background thread that it displaced is still in epoll_wait: the kick has to get that one out, too.
 * A waiter that steps aside loses WAITER_SLEEPER under sleep_lock, in one step of its word; a waker that still saw it has
 * set WAITER_LOOK before, and one that did not wakes the futex; in either case the waiter looks before it sleeps again.
 * The background thread sleeps in epoll only while it is the sleeper (looked at under sleep_lock, with sleep_until): a
 * consumer that displaced it and left again has not left it there, unarmed and unknown to timer_set.
 *
 * LEAVING a wait (event, time-out, signal, abort) hands the sleep to a registered waiter: WAITER_SLEEPER and WAITER_LOOK
 * enter its word in one step, so nobody sees one without the other, and it arms before it sleeps in epoll. Where there is
 * none the background thread's deadline covers. A thread that runs the lane while another sleeps in epoll, and leaves
 * work behind (arming says so) or an earlier deadline, kicks the sleeper.
 *
 * DESCRIPTORS of EVDs may hold the lane's epoll set (notifier.h): then a consumer outside of the library wakes with the
 * traffic, and its dequeue is a poll like others. The lane does not know of it and does not rely on it.
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

#include "lane.h"
#include "timers.h"

#include "base/clock.h"
#include "base/cpus.h"
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
#define INTERVAL_LAST   (400 * CLOCK_NS_PER_US) /* the takeover may need two */
#define POLL_GAP        (20 * CLOCK_NS_PER_US)  /* polls that come closer than that are polling */
#define POLLS_LEAST     4                       /* fewer tell nothing */
#define LISTENERS_MOST  4                       /* each may be in several sets of the consumer's */
#define DEAD_MOST       64 /* watches that wait to be freed while somebody sleeps in epoll */

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
    atomic_uint runs;    /* polls by consumers */
    atomic_uint takes;   /* completions that were there without a poll; not exact */
    unsigned int polls;  /* busy polls since the last look at epoll; under running */
    atomic_uint_least64_t provider_deadline;
    atomic_uint watches;
    atomic_uint listeners; /* descriptors of EVDs that hold the set */
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
    unsigned int dead_count; /* under dead_lock */
    atomic_uint fetchers;    /* threads that sleep in epoll, or have events from there in hand */

    pthread_t thread;
    struct ual_waiter background;
    atomic_uint background_word;
    bool deep;       /* under sleep_lock */
    bool may_linger; /* the background thread's, as is the habit */
    struct spin_habit linger_habit;
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

/* Nobody sleeps in epoll, so nobody needs it: whoever will looks first. Else it stays, and a descriptor of a
 * consumer that holds the lane's set would stay readable. */
static void drain_stray_kick(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    if (!atomic_load_explicit(&lane->sleeper, memory_order_relaxed) &&
        !lane->background.sleep_until)
        drain_kick(lane);
    spinlock_unlock(&lane->sleep_lock);
}

/* Under running. */
static void dispatch(struct ual_lane *lane, const struct epoll_event *events, long count,
                     bool drain)
{
    /* The kernel orders what watch wrote before this; the language knows of it by the counter. */
    if (count > 0)
        atomic_load_explicit(&lane->watches, memory_order_acquire);
    for (long i = 0; i < count; i++) {
        struct ri_watch *watch = events[i].data.ptr;

        if (!watch) {
            if (drain)
                drain_kick(lane);
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

/* Under running. */
static void dispatch_descriptors(struct ual_lane *lane, bool drain)
{
    struct epoll_event events[EVENTS_PER_RUN];

    dispatch(lane, events,
             syscall(SYS_epoll_pwait, lane->epoll_fd, events, EVENTS_PER_RUN, 0, NULL, 0), drain);
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

/* The provider's part. Returns the pieces of work that it did. */
static uint32_t run_provider(struct ual_lane *lane, struct ri_cq *first)
{
    uint64_t next = RI_NO_DEADLINE;
    uint32_t pieces = lane->provider->ops->progress(lane->provider, first, RUN_BUDGET, &next);

    atomic_store_explicit(&lane->provider_deadline, next, memory_order_relaxed);
    return pieces;
}

static void note_look(struct ual_lane *lane)
{
    lane->polls = 0;
    atomic_store_explicit(&lane->look_due, false, memory_order_relaxed);
}

static uint32_t run_pass(struct ual_lane *lane, struct ri_cq *first, enum look look)
{
    if (look != LOOK_NOT) {
        note_look(lane);
        dispatch_descriptors(lane, look == LOOK_AND_DRAIN);
        dispatch_timers(lane);
    }
    return run_provider(lane, first);
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

/* Under running. weight: how many of the polls without a look this one stands for. */
static bool poll_looks(struct ual_lane *lane, unsigned int weight)
{
    return (lane->polls += weight) >= POLLS_PER_EPOLL ||
           atomic_load_explicit(&lane->look_due, memory_order_relaxed) ||
           atomic_load_explicit(&lane->watches, memory_order_relaxed) > DIRECT_WATCHES;
}

/* Under running, which it drops. */
static uint32_t poll_inside(struct ual_lane *lane, struct ri_cq *first)
{
    /* Who polls an EVD without a CQ waits for what epoll brings: requests, ends of connections. */
    bool look = poll_looks(lane, first ? 1 : POLLS_PER_EPOLL / 8);
    uint32_t pieces = run_pass(lane, first, look ? LOOK : LOOK_NOT);

    pass_on_rest(lane);
    atomic_store_explicit(&lane->runs, atomic_load_explicit(&lane->runs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    run_drop(lane);
    return pieces;
}

uint32_t ual_lane_poll(struct ual_lane *lane, struct ri_cq *first)
{
    return run_try(lane) ? poll_inside(lane, first) : 0;
}

uint32_t ual_lane_poll_in_turn(struct ual_lane *lane, struct ri_cq *first, bool look)
{
    run_take(lane);
    if (look)
        atomic_store_explicit(&lane->look_due, true, memory_order_relaxed);
    return poll_inside(lane, first);
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

/* The background thread leaves epoll_wait, where it would be woken first. If it takes long the kick stays, and the waiter comes
 * here again. */
static void await_displaced(struct ual_lane *lane)
{
    bool asleep = true;

    for (int i = 0; i < 64 && asleep; i++) {
        sched_yield();
        spinlock_lock(&lane->sleep_lock);
        asleep = lane->background.sleep_until != 0;
        spinlock_unlock(&lane->sleep_lock);
    }
}

void ual_lane_wait_begin(struct ual_lane *lane, struct ual_waiter *waiter)
{
    struct ual_waiter *displaced;
    bool sleeper, in_epoll = false;

    waiter->thread = pthread_self();
    waiter->sleep_until = 0;
    waiter->served = false;
    spinlock_lock(&lane->sleep_lock);
    displaced = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);
    sleeper = !displaced || displaced == &lane->background;
    atomic_init(&waiter->word, sleeper ? WAITER_SLEEPER : 0);
    if (sleeper) {
        atomic_store_explicit(&lane->sleeper, waiter, memory_order_relaxed);
        lane->sleep_epoch++;
        in_epoll = displaced && displaced->sleep_until;
    } else {
        DL_APPEND(lane->waiting, waiter);
    }
    spinlock_unlock(&lane->sleep_lock);
    if (in_epoll) {
        kick(lane);
        await_displaced(lane);
    }
}

void ual_lane_wait_reset(struct ual_waiter *waiter)
{
    atomic_fetch_and(&waiter->word, ~WAITER_LOOK);
}

/* Asked inside a run: who takes the sleep over from now on arms in a run of its own before it sleeps. */
static bool is_sleeper(const struct ual_lane *lane, const struct ual_waiter *waiter)
{
    return atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == waiter;
}

/* Displaced, and still in epoll_wait. */
static bool background_lags(struct ual_lane *lane, const struct ual_waiter *waiter)
{
    bool lags;

    if (waiter == &lane->background)
        return false;
    spinlock_lock(&lane->sleep_lock);
    lags = lane->background.sleep_until != 0;
    spinlock_unlock(&lane->sleep_lock);
    return lags;
}

/* May a look drain the kick? Asked inside a run. Not while the kick has to bring the background thread out of epoll_wait, too. */
static enum look look_of(struct ual_lane *lane, const struct ual_waiter *waiter)
{
    return is_sleeper(lane, waiter) && !background_lags(lane, waiter) ? LOOK_AND_DRAIN : LOOK;
}

/* For the sleeper, who must not sleep over work: waits for the run, unlike others. */
static bool arm_or_run(struct ual_lane *lane, const struct ual_waiter *waiter, struct ri_cq *first)
{
    bool armed;

    run_take(lane);
    armed = lane->provider->ops->lane_arm(lane->provider);
    if (!armed)
        run_pass(lane, first, look_of(lane, waiter));
    run_drop(lane);
    return armed;
}

bool ual_lane_wait_arm(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first)
{
    bool armed = !(atomic_load(&waiter->word) & WAITER_SLEEPER) || arm_or_run(lane, waiter, first);

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

/* What a sleep in epoll found. The events name watches: until let_go these are not freed. */
struct fetched {
    struct epoll_event events[EVENTS_PER_RUN];
    long count;
};

static void let_go(struct ual_lane *lane)
{
    atomic_fetch_sub(&lane->fetchers, 1);
}

static long wait_in_epoll(struct ual_lane *lane, uint64_t until, struct fetched *fetched)
{
    uint64_t now = until == CLOCK_NEVER ? 0 : clock_now();
    struct timespec left = clock_left(now, until);
    long count = syscall(SYS_epoll_pwait2, lane->epoll_fd, fetched->events, EVENTS_PER_RUN,
                         until == CLOCK_NEVER ? NULL : &left, NULL, 0);

    if (count < 0 &&
        (errno == ENOSYS || errno == EPERM)) /* before Linux 5.11, or an old container filter */
        count = syscall(SYS_epoll_pwait, lane->epoll_fd, fetched->events, EVENTS_PER_RUN,
                        clock_poll_ms(now, until), NULL, 0);
    return count;
}

/* Block in epoll_wait until readiness, a kick, the deadline or an earlier one of the lane. 0 or EINTR. With 0 the caller
 * runs what was fetched, or lets go of it. */
static int sleep_in_epoll(struct ual_lane *lane, struct ual_waiter *waiter, uint64_t deadline,
                          struct fetched *fetched)
{
    uint64_t until;

    fetched->count = 0;
    atomic_fetch_add(&lane->fetchers, 1);
    /* Noted before the deadlines are read: see timer_set. And then exactly, or every later timer would kick. */
    if (!note_sleep(lane, waiter, deadline))
        return 0;
    until = earliest(lane, deadline);
    if (until != deadline && !note_sleep(lane, waiter, until))
        return 0;
    fetched->count = wait_in_epoll(lane, until, fetched);
    if (fetched->count < 0 && errno == EINTR) {
        note_sleep(lane, waiter, 0);
        let_go(lane);
        return EINTR;
    }
    note_sleep(lane, waiter, 0);
    return 0;
}

/* A run with the events that a sleep fetched. */
static uint32_t run_fetched(struct ual_lane *lane, const struct ual_waiter *waiter,
                            struct ri_cq *first, const struct fetched *fetched)
{
    uint32_t pieces;

    run_take(lane);
    note_look(lane);
    dispatch(lane, fetched->events, fetched->count, look_of(lane, waiter) == LOOK_AND_DRAIN);
    let_go(lane);
    dispatch_timers(lane);
    pieces = run_provider(lane, first);
    run_drop(lane);
    return pieces;
}

/* Changes while consumers look for completions: those who poll, and those who find what is there. */
static unsigned int consumers_looks(const struct ual_lane *lane)
{
    return atomic_load_explicit(&lane->runs, memory_order_relaxed) +
           atomic_load_explicit(&lane->takes, memory_order_relaxed);
}

static bool was_kicked(const struct fetched *fetched)
{
    for (long i = 0; i < fetched->count; i++)
        if (!fetched->events[i].data.ptr)
            return true;
    return false;
}

/* While this thread slept from `since` on, consumers polled, and closely. */
static bool others_poll(struct ual_lane *lane, unsigned int looks, uint64_t since)
{
    int polls = (int)(consumers_looks(lane) - looks);

    return polls >= POLLS_LEAST && clock_now() - since < (unsigned int)polls * POLL_GAP;
}

static void wake_background(struct ual_lane *lane)
{
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
}

/*
 * The sleeper gives its place to nobody: the background thread gets its deadline back. Under sleep_lock. Afterwards, without
 * it, settle_background.
 */
enum background_needs { NEEDS_NOTHING, NEEDS_DEADLINE, NEEDS_KICK };
static enum background_needs leave_place(struct ual_lane *lane)
{
    lane->sleep_epoch++;
    atomic_store_explicit(&lane->sleeper, NULL, memory_order_relaxed);
    if (lane->deep) {
        lane->deep = false;
        return NEEDS_DEADLINE;
    }
    /* Displaced, but we drained its kick before it saw it: it has to find out now. (One that has not noted its sleep
     * yet finds out by itself.) */
    return lane->background.sleep_until ? NEEDS_KICK : NEEDS_NOTHING;
}

static void settle_background(struct ual_lane *lane, enum background_needs needs)
{
    if (needs == NEEDS_KICK)
        kick(lane);
    else if (needs == NEEDS_DEADLINE)
        wake_background(lane);
}

/* From the sleeper to one that sleeps on its word. */
static void step_aside(struct ual_lane *lane, struct ual_waiter *waiter)
{
    enum background_needs needs = NEEDS_NOTHING;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == waiter) {
        needs = leave_place(lane);
        atomic_fetch_and(&waiter->word, ~WAITER_SLEEPER);
        DL_APPEND(lane->waiting, waiter);
    }
    spinlock_unlock(&lane->sleep_lock);
    settle_background(lane, needs);
}

static int sleep_on_word(struct ual_waiter *waiter, uint64_t deadline)
{
    /* Never without a deadline: the kernel would restart such a wait after a handler with SA_RESTART. */
    int rc = futex_wait(&waiter->word, 0, deadline == CLOCK_NEVER ? CLOCK_NEVER - 1 : deadline);

    return rc == EINTR ? EINTR : 0;
}

int ual_lane_wait_sleep(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first,
                        uint64_t deadline)
{
    unsigned int word = atomic_load(&waiter->word);
    unsigned int looks = consumers_looks(lane);
    struct fetched fetched;
    uint64_t since;

    waiter->served = false;
    if (word & WAITER_LOOK)
        return 0;
    if (!(word & WAITER_SLEEPER))
        return sleep_on_word(waiter, deadline);
    if (background_lags(lane, waiter))
        await_displaced(lane); /* the kick would wake this thread at once */
    since = clock_now();
    if (sleep_in_epoll(lane, waiter, deadline, &fetched) != 0)
        return EINTR;
    if (fetched.count > 0 && others_poll(lane, looks, since)) {
        let_go(lane); /* what is readable is theirs, and so is what a kick told of */
        if (was_kicked(&fetched))
            drain_kick(lane);
        step_aside(lane, waiter);
        return 0;
    }
    waiter->served = run_fetched(lane, waiter, first, &fetched) != 0;
    return 0;
}

/* Under sleep_lock, so that the heir cannot leave its stack frame meanwhile. */
static void make_sleeper(struct ual_lane *lane, struct ual_waiter *heir)
{
    DL_DELETE(lane->waiting, heir);
    lane->sleep_epoch++;
    atomic_store_explicit(&lane->sleeper, heir, memory_order_relaxed);
    atomic_fetch_or(&heir->word, WAITER_SLEEPER | WAITER_LOOK);
    futex_wake(&heir->word, 1);
}

void ual_lane_wait_end(struct ual_lane *lane, struct ual_waiter *waiter)
{
    enum background_needs needs = NEEDS_NOTHING;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) != waiter)
        DL_DELETE(lane->waiting, waiter);
    else if (lane->waiting)
        make_sleeper(lane, lane->waiting);
    else
        needs = leave_place(lane);
    spinlock_unlock(&lane->sleep_lock);
    settle_background(lane, needs);
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

/* --- the background thread --- */

/* A look by the background thread. Returns the pieces of work; 0 also when somebody else runs. */
static uint32_t look_once(struct ual_lane *lane)
{
    enum look look = LOOK_NOT;
    uint32_t pieces;

    if (!run_try(lane))
        return 0;
    if (poll_looks(lane, 1))
        look = look_of(lane, &lane->background);
    pieces = run_pass(lane, NULL, look);
    run_drop(lane);
    return pieces;
}

/* After it served somebody: look without sleeping for a while, because more may follow. */
static void linger(struct ual_lane *lane, unsigned int looks)
{
    uint64_t now = clock_now();
    uint64_t until = clock_after(now, spin_habit_time(&lane->linger_habit, lane->spin_ns));
    bool hit = false;

    if (!lane->spin_ns || !lane->may_linger || !spin_habit_try(&lane->linger_habit))
        return;
    while (now < until && !atomic_load(&lane->stop) && is_sleeper(lane, &lane->background) &&
           consumers_looks(lane) == looks) {
        bool found = look_once(lane);

        now = clock_now();
        if (found)
            until = clock_after(now, lane->spin_ns);
        hit |= found;
        spinlock_pause();
    }
    spin_habit_note(&lane->linger_habit, hit);
}

/* Sleeper until a consumer displaces it, others run the lane, or it has to stop. */
static void serve_in_epoll(struct ual_lane *lane)
{
    struct fetched fetched;

    lane->may_linger = cpus_in_mask() >= 2;
    while (!atomic_load(&lane->stop) && is_sleeper(lane, &lane->background)) {
        unsigned int looks = consumers_looks(lane);

        if (!arm_or_run(lane, &lane->background, NULL))
            continue;
        if (sleep_in_epoll(lane, &lane->background, CLOCK_NEVER, &fetched) != 0)
            continue;
        if (consumers_looks(lane) != looks) {
            let_go(lane);
            return; /* consumers poll: leave the bytes to them */
        }
        if (run_fetched(lane, &lane->background, NULL, &fetched))
            linger(lane, looks);
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

/* After an interval: what does the background thread do next? A consumer that slept and left is active, too. */
static enum duty next_duty(struct ual_lane *lane, unsigned int epoch, bool others_run)
{
    enum duty duty = DUTY_WATCH;

    spinlock_lock(&lane->sleep_lock);
    others_run |= lane->sleep_epoch != epoch;
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed)) {
        if (lane->sleep_epoch == epoch) {
            lane->deep = true;
            duty = DUTY_DEEP;
        }
    } else if (!others_run && lane->waiting) {
        make_sleeper(lane, lane->waiting); /* who stepped aside for them */
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
        unsigned int looks = consumers_looks(lane);
        unsigned int epoch;

        spinlock_lock(&lane->sleep_lock);
        epoch = lane->sleep_epoch;
        spinlock_unlock(&lane->sleep_lock);
        futex_wait(&lane->background_word, word, clock_now() + interval);
        if (atomic_load(&lane->stop))
            break;
        switch (next_duty(lane, epoch, consumers_looks(lane) != looks)) {
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
    bool many;

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
    many = ++lane->dead_count % DEAD_MOST == 0 && atomic_load(&lane->fetchers);
    spinlock_unlock(&lane->dead_lock);
    if (many)
        kick(lane);
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
    lane->spin_ns = cpus_quota() >= 2 ? spin_ns : 0;
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

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting consumers of a lane.
 *
 * POLLING TAKES THE SLEEPER OUT. Readiness wakes the thread that sleeps in epoll, even where a
 * polling consumer is about to read. A sleeper that wakes and sees that others polled closely while
 * it slept (POLLS_LEAST and more, POLL_GAP apart at most) runs nothing and STEPS ASIDE: it leaves
 * the sleeper's place (leave_place: the background thread gets its deadline back) and sleeps on its
 * word like every waiter that is not the sleeper. Its CQ is armed, so the thread that polls its
 * event wakes it. The background thread returns to its deadline at once when it wakes and sees a
 * poll. Polling threads leave no work for a sleeper then: every 64th poll runs the timers, and so
 * does the first poll after an interval (epoll_due). Completions that are taken without a poll
 * count as polls here (`takes`): a streaming consumer finds completions for long, and its batches
 * would wake the sleeper each. (They are counted in batches: a step aside too early or too late
 * costs a deadline of the background thread, or a run.) A consumer that begins to wait becomes the
 * sleeper if the place is empty or the background thread's, polling or not: it may be the one that
 * polled until now.
 *
 * BEFORE SLEEPING, in this order: register as waiter (wait_begin: sleeper or on a word; then the
 * EVD's list), arm the CQ, arm the lane (if that reports work: run once, check, start again),
 * fence, check the ring, sleep. The check sees a completion that was pushed before it. One pushed
 * later finds the CQ armed and the waiter registered; its waker sets WAITER_CHECK and kicks epoll
 * (an eventfd in the set) or the futex. A wake before the sleep is not lost: the word differs, and
 * the eventfd stays readable. The eventfd is drained only by the sleeper, or by a run under
 * sleep_lock while there is no sleeper, or none in epoll; another run that drained it would let the
 * sleeper sleep on. A run asks inside itself whether it is the sleeper's: a thread that becomes the
 * sleeper arms in a later run. The sleeper does not drain while a background thread that it
 * displaced is still in epoll_wait: the kick has to end that wait, too. A waiter that steps aside
 * loses WAITER_SLEEPER under sleep_lock, in one step of its word. A waker that still saw the bit
 * has set WAITER_CHECK before; one that did not wakes the futex. In either case the waiter checks
 * before it sleeps again. The background thread sleeps in epoll only while it is the sleeper
 * (tested under sleep_lock, with sleep_until): a consumer that displaced it and left again has not
 * left it there, unarmed and unknown to timer_set.
 *
 * LEAVING a wait (event, time-out, signal, abort) makes a registered waiter the sleeper:
 * WAITER_SLEEPER and WAITER_CHECK enter its word in one step, so nobody sees one without the other,
 * and it arms before it sleeps in epoll. Without a waiter the background thread's deadline covers.
 * A thread that runs the lane while another sleeps in epoll kicks the sleeper if it leaves work
 * behind (arming reports that) or an earlier deadline.
 */
#include "lane_private.h"

#include "base/futex.h"

#include <errno.h>
#include <sched.h>
#include <utlist.h>

/* A consumer is polling if its polls come at most POLL_GAP apart, and POLLS_LEAST of them did. */
#define POLL_GAP    (20 * CLOCK_NS_PER_US)
#define POLLS_LEAST 4

/* Waits until the background thread has left epoll_wait, where it would be woken first. If that
 * takes long the kick stays, and the waiter comes here again. */
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

/* Under sleep_lock. */
static bool is_busy(const struct ual_lane *lane)
{
    spinlock_assert_held(&lane->sleep_lock);
    return atomic_load_explicit(&lane->busy, memory_order_relaxed);
}

void ual_lane_wait_begin(struct ual_lane *lane, struct ual_waiter *waiter)
{
    struct ual_waiter *displaced;
    bool sleeper, in_epoll = false;

    waiter->lane = lane;
    waiter->thread = pthread_self();
    waiter->sleep_until = 0;
    waiter->served = false;
    spinlock_lock(&lane->sleep_lock);
    displaced = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);
    sleeper = !displaced || (displaced == &lane->background && !is_busy(lane));
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
        ual_lane_kick(lane);
        await_displaced(lane);
    }
}

void ual_lane_wait_reset(struct ual_waiter *waiter)
{
    atomic_fetch_and(&waiter->word, ~WAITER_CHECK);
}

bool ual_lane_wait_arm(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first)
{
    bool armed = !(atomic_load(&waiter->word) & WAITER_SLEEPER) ||
                 ual_lane_arm_or_run(lane, waiter, first);

    atomic_thread_fence(memory_order_seq_cst);
    return armed;
}

static bool was_kicked(const struct fetched *fetched)
{
    for (long i = 0; i < fetched->count; i++)
        if (!fetched->events[i].data.ptr)
            return true;
    return false;
}

/* True: consumers polled closely while this thread slept, from `since` on. */
static bool others_poll(struct ual_lane *lane, unsigned int before, uint64_t since)
{
    int polls = (int)(ual_lane_polls(lane) - before);

    return polls >= POLLS_LEAST && clock_now() - since < (unsigned int)polls * POLL_GAP;
}

static void wake_background(struct ual_lane *lane)
{
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
}

/*
 * Leaves the place of the sleeper to a background thread that polls all the time. Else leaves it
 * empty and gives that thread a deadline. Under sleep_lock. The caller then calls
 * resume_background without the lock.
 */
enum background_needs { NEEDS_NOTHING, NEEDS_DEADLINE, NEEDS_KICK };
static enum background_needs leave_place(struct ual_lane *lane)
{
    lane->sleep_epoch++;
    atomic_store_explicit(&lane->sleeper, is_busy(lane) ? &lane->background : NULL,
                          memory_order_relaxed);
    if (lane->deep) {
        lane->deep = false;
        return NEEDS_DEADLINE;
    }
    /* The background thread was displaced, and this thread drained its kick first: kick again. (If
     * it has not stored its sleep yet, it notices by itself that it is displaced.) */
    return lane->background.sleep_until ? NEEDS_KICK : NEEDS_NOTHING;
}

static void resume_background(struct ual_lane *lane, enum background_needs needs)
{
    if (needs == NEEDS_KICK)
        ual_lane_kick(lane);
    else if (needs == NEEDS_DEADLINE)
        wake_background(lane);
}

/* The sleeper becomes a waiter that sleeps on its word. */
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
    resume_background(lane, needs);
}

static int sleep_on_word(struct ual_waiter *waiter, uint64_t deadline)
{
    /* Always with a deadline: after a handler with SA_RESTART the kernel restarts a wait without
     * one. */
    int rc = futex_wait(&waiter->word, 0, deadline == CLOCK_NEVER ? CLOCK_NEVER - 1 : deadline);

    return rc == EINTR ? EINTR : 0;
}

int ual_lane_wait_sleep(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first,
                        uint64_t deadline)
{
    unsigned int word = atomic_load(&waiter->word);
    unsigned int before = ual_lane_polls(lane);
    struct fetched fetched;
    uint64_t since;

    waiter->served = false;
    if (word & WAITER_CHECK)
        return 0;
    if (!(word & WAITER_SLEEPER))
        return sleep_on_word(waiter, deadline);
    if (ual_lane_background_lags(lane, waiter))
        await_displaced(lane); /* its kick would wake this thread at once */
    since = clock_now();
    if (ual_lane_sleep_in_epoll(lane, waiter, deadline, &fetched) != 0)
        return EINTR;
    if (fetched.count > 0 && (atomic_load(&lane->busy) || others_poll(lane, before, since))) {
        ual_lane_end_fetch(lane); /* the polling threads handle what was fetched */
        if (was_kicked(&fetched))
            ual_lane_drain_kick(lane);
        step_aside(lane, waiter);
        return 0;
    }
    waiter->served = ual_lane_run_fetched(lane, waiter, first, &fetched) != 0;
    return 0;
}

void ual_lane_wait_end(struct ual_lane *lane, struct ual_waiter *waiter)
{
    enum background_needs needs = NEEDS_NOTHING;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) != waiter)
        DL_DELETE(lane->waiting, waiter);
    else if (lane->waiting && !is_busy(lane))
        ual_lane_make_sleeper(lane, lane->waiting);
    else
        needs = leave_place(lane);
    spinlock_unlock(&lane->sleep_lock);
    resume_background(lane, needs);
}

void ual_lane_wake_waiter(struct ual_waiter *waiter)
{
    unsigned int word = atomic_fetch_or(&waiter->word, WAITER_CHECK);

    if (pthread_equal(waiter->thread, pthread_self()))
        return; /* it runs the lane itself and checks afterwards */
    /* A waiter that becomes the sleeper after this finds WAITER_CHECK before it sleeps in epoll. */
    if (word & WAITER_SLEEPER)
        ual_lane_kick(waiter->lane);
    else
        futex_wake(&waiter->word, 1);
}

void ual_lane_delegate(struct ual_lane *lane)
{
    bool wake = false;

    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed)) {
        /* the sleeper has armed, or arms before it sleeps */
    } else if (lane->waiting) {
        ual_lane_make_sleeper(lane, lane->waiting);
    } else {
        atomic_store_explicit(&lane->sleeper, &lane->background, memory_order_relaxed);
        wake = true;
    }
    spinlock_unlock(&lane->sleep_lock);
    if (wake) {
        wake_background(lane);
        ual_lane_set_watch(lane, 1); /* a time in the past: it expires at once */
    }
}

void ual_lane_snapshot(struct ual_lane *lane, struct kal_lane_seen *seen)
{
    const struct ual_waiter *sleeper, *waiter;

    *seen = (struct kal_lane_seen){ .polls = ual_lane_polls(lane),
                                    .descriptors = atomic_load(&lane->watches) };
    spinlock_lock(&lane->sleep_lock);
    sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);
    for (waiter = lane->waiting; waiter; waiter = waiter->next)
        seen->waiters++;
    spinlock_unlock(&lane->sleep_lock);
    if (sleeper && sleeper != &lane->background)
        seen->waiters++;
    seen->runner = ual_lane_is_broken(lane)       ? KAL_LANE_NOBODY
                   : !sleeper                     ? KAL_LANE_POLLED
                   : sleeper != &lane->background ? KAL_LANE_WAITER
                                                  : KAL_LANE_THREAD;
}

bool ual_lane_has_waiter(const struct ual_lane *lane)
{
    const struct ual_waiter *sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);

    return sleeper && sleeper != &lane->background;
}

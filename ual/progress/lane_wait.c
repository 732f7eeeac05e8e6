/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting consumers of a lane.
 *
 * POLLING TAKES THE SLEEPER OUT. Whatever arrives wakes who sleeps in epoll, also what a polling
 * consumer is about to read. So a sleeper that wakes and sees that others polled closely while it
 * slept (POLLS_LEAST and more, POLL_GAP apart at most) runs nothing and STEPS ASIDE: it gives up
 * the place (leave_place: the background thread gets its deadline back), and sleeps on its word
 * like every waiter that is not the sleeper. Its CQ is armed, so whoever polls its event wakes it.
 * The background thread that wakes and sees a poll goes back to its deadline at once. Who polls
 * leaves nothing behind for a sleeper then; timers are looked at by every 64th poll, and by the
 * next one after an interval has passed (look_due). Completions that are taken without a poll count
 * as polls here (`takes`): a consumer that streams finds them for long, and what it has gathered
 * would wake the sleeper with each batch. (They are told several at a time: a step aside too early
 * or too late costs the deadline of the background thread, or a run.) A consumer that begins to
 * wait takes the place if it is empty or the background thread's, polling or not: it may be the one
 * that polled until now.
 *
 * BEFORE SLEEPING, in this order: register as waiter (wait_begin: sleeper or on a word; then the
 * EVD's list), arm the CQ, arm the lane (when that says that work is left: run once, look, come
 * again), fence, look at the ring, sleep. A completion that is pushed before the look is seen by
 * it; one pushed later finds the CQ armed and the waiter registered, and its waker sets WAITER_LOOK
 * and kicks epoll (an eventfd in the set) or the futex. A wake that comes before the sleep is not
 * lost: the word differs, and the eventfd stays readable, because only the sleeper drains it (a run
 * by somebody else must not: the sleeper would find nothing and sleep on), or who runs while nobody
 * is the sleeper or sleeps in epoll (looked at and drained under sleep_lock: who takes the place
 * later looks first). Whether a run is the sleeper's is asked inside it: who takes the place over
 * arms in a later one. The sleeper does not drain while a background thread that it displaced is
 * still in epoll_wait: the kick has to get that one out, too. A waiter that steps aside loses
 * WAITER_SLEEPER under sleep_lock, in one step of its word; a waker that still saw it has set
 * WAITER_LOOK before, and one that did not wakes the futex; in either case the waiter looks before
 * it sleeps again. The background thread sleeps in epoll only while it is the sleeper (looked at
 * under sleep_lock, with sleep_until): a consumer that displaced it and left again has not left it
 * there, unarmed and unknown to timer_set.
 *
 * LEAVING a wait (event, time-out, signal, abort) hands the sleep to a registered waiter:
 * WAITER_SLEEPER and WAITER_LOOK enter its word in one step, so nobody sees one without the other,
 * and it arms before it sleeps in epoll. Where there is none the background thread's deadline
 * covers. A thread that runs the lane while another sleeps in epoll, and leaves work behind (arming
 * says so) or an earlier deadline, kicks the sleeper.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane_private.h"

#include "base/futex.h"

#include <errno.h>
#include <sched.h>
#include <utlist.h>

#define POLL_GAP    (20 * CLOCK_NS_PER_US) /* polls that come closer than that are polling */
#define POLLS_LEAST 4                      /* fewer tell nothing */

/* The background thread leaves epoll_wait, where it would be woken first. If it takes long the kick
 * stays, and the waiter comes here again. */
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

    waiter->lane = lane;
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
        ual_lane_kick(lane);
        await_displaced(lane);
    }
}

void ual_lane_wait_reset(struct ual_waiter *waiter)
{
    atomic_fetch_and(&waiter->word, ~WAITER_LOOK);
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

/* While this thread slept from `since` on, consumers polled, and closely. */
static bool others_poll(struct ual_lane *lane, unsigned int looks, uint64_t since)
{
    int polls = (int)(ual_lane_looks(lane) - looks);

    return polls >= POLLS_LEAST && clock_now() - since < (unsigned int)polls * POLL_GAP;
}

static void wake_background(struct ual_lane *lane)
{
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
}

/*
 * The sleeper gives its place to nobody: the background thread gets its deadline back. Under
 * sleep_lock. Afterwards, without it, settle_background.
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
    /* Displaced, but we drained its kick before it saw it: it has to find out now. (One that has
     * not noted its sleep yet finds out by itself.) */
    return lane->background.sleep_until ? NEEDS_KICK : NEEDS_NOTHING;
}

static void settle_background(struct ual_lane *lane, enum background_needs needs)
{
    if (needs == NEEDS_KICK)
        ual_lane_kick(lane);
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
    /* Never without a deadline: the kernel would restart such a wait after a handler with
     * SA_RESTART. */
    int rc = futex_wait(&waiter->word, 0, deadline == CLOCK_NEVER ? CLOCK_NEVER - 1 : deadline);

    return rc == EINTR ? EINTR : 0;
}

int ual_lane_wait_sleep(struct ual_lane *lane, struct ual_waiter *waiter, struct ri_cq *first,
                        uint64_t deadline)
{
    unsigned int word = atomic_load(&waiter->word);
    unsigned int looks = ual_lane_looks(lane);
    struct fetched fetched;
    uint64_t since;

    waiter->served = false;
    if (word & WAITER_LOOK)
        return 0;
    if (!(word & WAITER_SLEEPER))
        return sleep_on_word(waiter, deadline);
    if (ual_lane_background_lags(lane, waiter))
        await_displaced(lane); /* the kick would wake this thread at once */
    since = clock_now();
    if (ual_lane_sleep_in_epoll(lane, waiter, deadline, &fetched) != 0)
        return EINTR;
    if (fetched.count > 0 && others_poll(lane, looks, since)) {
        ual_lane_let_go(lane); /* what is readable is theirs, and so is what a kick told of */
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
    else if (lane->waiting)
        ual_lane_make_sleeper(lane, lane->waiting);
    else
        needs = leave_place(lane);
    spinlock_unlock(&lane->sleep_lock);
    settle_background(lane, needs);
}

void ual_lane_wake_waiter(struct ual_waiter *waiter)
{
    unsigned int word = atomic_fetch_or(&waiter->word, WAITER_LOOK);

    if (pthread_equal(waiter->thread, pthread_self()))
        return; /* it runs the lane itself and looks afterwards */
    /* Who is made the sleeper after this finds WAITER_LOOK before it sleeps in epoll. */
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
        /* has armed, or arms before it sleeps */
    } else if (lane->waiting) {
        ual_lane_make_sleeper(lane, lane->waiting);
    } else {
        atomic_store_explicit(&lane->sleeper, &lane->background, memory_order_relaxed);
        wake = true;
    }
    spinlock_unlock(&lane->sleep_lock);
    if (wake)
        wake_background(lane);
}

bool ual_lane_has_waiter(const struct ual_lane *lane)
{
    const struct ual_waiter *sleeper = atomic_load_explicit(&lane->sleeper, memory_order_relaxed);

    return sleeper && sleeper != &lane->background;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event dispatcher, waiting: check, spin for a while, sleep in a lane. How threads wait in lanes:
 * lane_wait.c, lanes.c. Notification Events end a wait (notifier.h). Other events are taken when
 * the wait begins, and when it ends for another reason: so no wait fails while an event is queued.
 */
#include "evd_private.h"

#include "base/clock.h"
#include "base/cpus.h"

#include <errno.h>
#include <sched.h>

#define SPINS_UNASKED 4u  /* rounds before the affinity mask is read, which is a system call */
#define ALONE_FOR     64u /* waits after it had one processor */

static bool passed(uint64_t deadline)
{
    return deadline != CLOCK_NEVER && clock_now() >= deadline;
}

static bool take_if_reached(struct ual_evd *evd, struct ual_event *event)
{
    return evd_is_reached(evd) && ual_evd_take(evd, event);
}

/* The notifier was raised since `seen`. The CQ has fired for it, so it is armed again. */
static bool take_if_raised(struct ual_evd *evd, unsigned int *seen, struct ual_event *event)
{
    unsigned int raises = atomic_load(&evd->notifier.raises);

    if (raises == *seen)
        return false;
    *seen = raises;
    if (take_if_reached(evd, event))
        return true;
    ual_evd_arm(evd);
    return take_if_reached(evd, event);
}

/* The mask had one processor lately: this wait yields from its first round on. */
static bool was_alone(struct ual_evd *evd)
{
    const unsigned char left = atomic_load_explicit(&evd->alone, memory_order_relaxed);

    if (left)
        atomic_store_explicit(&evd->alone, (unsigned char)(left - 1), memory_order_relaxed);
    return left;
}

static bool is_alone(struct ual_evd *evd)
{
    const bool alone = cpus_in_mask() < 2;

    atomic_store_explicit(&evd->alone, alone ? ALONE_FOR : 0, memory_order_relaxed);
    return alone;
}

/* Polls for a while before sleeping: a wake-up costs more than a short spin. Work done for other
 * EVDs prolongs the spin: more of it is likely, and nobody else runs the lane. */
static bool spin(struct ual_evd *evd, uint64_t deadline, struct ual_event *event)
{
    uint64_t spin_ns = ual_lane_spin_ns(feed_first(&evd->feed)), now, until;
    unsigned int rounds = 0,
                 seen = atomic_load(&evd->notifier.raises) - 1; /* the first check is due */
    bool alone = was_alone(evd), useful = false;

    if (!spin_ns || !adaptive_spin_due(&evd->adaptive_spin))
        return false;
    /* Tells the provider that this consumer waits: posts are not held back for a next poll. */
    ual_evd_arm(evd);
    now = clock_now();
    until = clock_after(now, adaptive_spin_time(&evd->adaptive_spin, spin_ns));
    do {
        uint32_t work_done = ual_evd_poll_lanes(evd);

        if (take_if_raised(evd, &seen, event)) {
            adaptive_spin_record(&evd->adaptive_spin, true);
            return true;
        }
        if (++rounds == SPINS_UNASKED && !alone)
            alone = is_alone(evd);
        if (alone)
            sched_yield(); /* the peer may need this very core */
        now = clock_now();
        if (work_done)
            until = clock_after(now, spin_ns);
        useful |= work_done != 0;
    } while (now < until && now < deadline && !waiters_aborting(&evd->notifier.waiters));
    adaptive_spin_record(&evd->adaptive_spin, useful);
    return false;
}

/* Each round checks the clock and `aborting`: in a lane that is busy for other EVDs this thread may
 * never sleep. */
static enum ri_status sleep_for_event(struct ual_evd *evd, struct ual_waiter *waiter,
                                      uint64_t deadline, struct ual_event *event)
{
    struct ual_lane *lane = waiter->lane;
    enum ri_status status;

    for (;;) {
        bool armed;
        int rc = 0;

        ual_lane_wait_reset(waiter);
        ual_evd_arm(evd);
        feed_delegate_others(&evd->feed, lane);
        armed = ual_lane_wait_arm(lane, waiter, ual_evd_first(evd));
        if (take_if_reached(evd, event))
            return RI_OK;
        if (waiters_aborting(&evd->notifier.waiters)) /* after the reset: abort wakes once */
            return ITAL_ERR_ABORTED;
        status = ual_evd_found_nothing(evd, event);
        if (status != ITAL_ERR_EMPTY)
            return status;
        status = evd_may_wait(evd);
        if (status != RI_OK)
            return status;
        if (armed) {
            rc = ual_lane_wait_sleep(lane, waiter, ual_evd_first(evd), deadline);
            if (take_if_reached(evd, event))
                return RI_OK;
            if (waiter->served && spin(evd, deadline, event)) /* more may follow that work */
                return RI_OK;
        }
        if (rc == EINTR)
            return ITAL_ERR_INTERRUPTED;
        if (passed(deadline))
            return RI_ERR_TIMED_OUT;
    }
}

static enum ri_status sleep_until(struct ual_evd *evd, uint64_t deadline, struct ual_event *event)
{
    struct ual_waiter waiter;
    enum ri_status status;

    ual_lane_wait_begin(feed_place_to_sleep(&evd->feed), &waiter);
    waiters_add(&evd->notifier.waiters, &waiter);
    status = sleep_for_event(evd, &waiter, deadline, event);
    waiters_remove(&evd->notifier.waiters, &waiter, status == RI_OK);
    ual_lane_wait_end(waiter.lane, &waiter);
    return status;
}

enum ri_status evd_may_wait(struct ual_evd *evd)
{
    unsigned int flags = atomic_load(&evd->overflow_flags);
    bool needs_reset = (flags & UAL_EVD_OVERFLOW_NOTIFY) && !(flags & UAL_EVD_OVERFLOW_RESETS);

    if (notifier_is_muted(&evd->notifier) || (needs_reset && ual_evd_overflowed(evd)))
        return RI_ERR_INVALID_STATE;
    return RI_OK;
}

/* Takes an event if one is queued. Else enters: freeing the EVD waits for this thread from then on
 * (*inside), and the wait goes on. */
static enum ri_status begin_wait(struct ual_evd *evd, uint64_t timeout_us, struct ual_event *event,
                                 size_t *more, bool *inside)
{
    enum ri_status status = waiters_refusal(&evd->notifier.waiters);

    *inside = false;
    if (status != RI_OK)
        return status;
    if (!ual_evd_take(evd, event))
        status = ITAL_ERR_EMPTY;
    if (status != RI_OK && timeout_us == 0)
        status = ual_evd_dequeue(evd, event);
    if (status == RI_OK) {
        if (more)
            *more = ual_evd_count_left(evd);
        return RI_OK;
    }
    if (timeout_us == 0 && status != ITAL_ERR_EMPTY)
        return status;
    status = evd_may_wait(evd);
    if (status != RI_OK)
        return status;
    if (timeout_us == 0)
        return RI_ERR_TIMED_OUT;
    status = waiters_enter(&evd->notifier.waiters);
    *inside = status == RI_OK;
    return status;
}

static enum ri_status go_on_waiting(struct ual_evd *evd, uint64_t timeout_us,
                                    struct ual_event *event, size_t *more)
{
    enum ri_status status = RI_OK;
    uint64_t deadline = CLOCK_NEVER;

    if (timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        deadline = clock_after(clock_now(), timeout_us * CLOCK_NS_PER_US);
    if (!spin(evd, deadline, event))
        status = sleep_until(evd, deadline, event);
    if ((status == RI_ERR_TIMED_OUT || status == ITAL_ERR_INTERRUPTED ||
         status == RI_ERR_INVALID_STATE) &&
        ual_evd_take(evd, event))
        status = RI_OK;
    if (status == RI_OK && more)
        *more = ual_evd_count_left(evd);
    waiters_leave(&evd->notifier.waiters); /* from here on the EVD may be gone */
    return status;
}

enum ri_status ual_evd_wait(struct ual_evd *evd, uint64_t timeout_us, struct ual_event *event,
                            size_t *more)
{
    bool inside;
    enum ri_status status = begin_wait(evd, timeout_us, event, more, &inside);

    return inside ? go_on_waiting(evd, timeout_us, event, more) : status;
}

enum ri_status ual_evd_wait_refusal(struct ual_evd *evd)
{
    return waiters_refusal(&evd->notifier.waiters);
}

/*
 * Waits that begin. Nothing else keeps the EVD alive between the look-up of its handle and
 * waiters_enter. So such a wait counts itself in the current one of two counters. A thread that
 * frees an EVD hides its handle, then twice makes the other counter current and waits until the old
 * one is 0. A wait that found the handle earlier is in one of the two. New waits count in the other
 * one, so this ends.
 */
static atomic_uint beginning[2];
static atomic_uint current;
static pthread_mutex_t flip_lock = PTHREAD_MUTEX_INITIALIZER;

void ual_evd_drain_waits(void)
{
    pthread_mutex_lock(&flip_lock);
    for (int i = 0; i < 2; i++) {
        unsigned int old = atomic_fetch_add(&current, 1) & 1;

        while (atomic_load(&beginning[old]))
            sched_yield(); /* for one poll of the lane at most */
    }
    pthread_mutex_unlock(&flip_lock);
}

void ual_evd_fork_lock(void)
{
    pthread_mutex_lock(&flip_lock);
}

/* The child has not the parent's threads, whose waits would stay counted. */
void ual_evd_fork_unlock(bool child)
{
    for (int i = 0; child && i < 2; i++)
        atomic_store(&beginning[i], 0);
    pthread_mutex_unlock(&flip_lock);
}

enum ri_status ual_evd_wait_on(ual_handle handle, uint64_t timeout_us, struct ual_event *event,
                               size_t *more)
{
    atomic_uint *counter = &beginning[atomic_load(&current) & 1];
    enum ri_status status;
    struct ual_evd *evd;
    bool inside = false;

    atomic_fetch_add(counter, 1);
    /* The look-up is no part of the addition's order: one of this and the hiding sees the other. */
    atomic_thread_fence(memory_order_seq_cst);
    evd = ual_lookup(handle, UAL_EVD);
    status = evd ? begin_wait(evd, timeout_us, event, more, &inside) : ual_lookup_failed();
    atomic_fetch_sub(counter, 1);
    return inside ? go_on_waiting(evd, timeout_us, event, more) : status;
}

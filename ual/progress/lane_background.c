/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The background thread of a lane: serves consumers that never call.
 *
 * AFTER SERVING, before it sleeps again, the background thread polls for the time `spin`
 * (spin_after_work), as a consumer does in a wait: a peer that writes or reads often does not pay
 * for a wake-up each time, and one that streams does not wake it inside its own system calls. With
 * one processor in the affinity mask it yields between two polls, because the consumer or the peer
 * may need this very one; with a quota below two it does not poll. After polls in vain it does so
 * rarely (adaptive_spin).
 *
 * DEDICATED (option `progress`): while the lane has QPs the background thread polls it all the
 * time, so what arrives does not wait for a consumer's call or a wake-up. It is to have a processor
 * of its own (processors.c). Then `busy` is set, and the thread has the sleeper's place whenever no
 * consumer has it: a consumer that begins to wait does not displace it but sleeps on its word, with
 * its CQ armed, and is woken as by any thread that polls. One that sleeps in epoll already steps
 * aside at its next wake-up. Nothing is passed on to a sleeper then, because the next pass finds
 * it; so the thread makes one more run when it ends, which passes on what is left. A thread that
 * needs the run goes first (`takers`). The number of QPs is exact and costs nothing on the data
 * path.
 */
#include "lane_pace.h"
#include "lane_private.h"

#include "base/cpus.h"
#include "base/futex.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* Passes in vain, of a thread that polls all the time. On a processor of its own a yield returns at
 * once; where it has none, others do not wait for the end of its time slice. */
#define YIELD_EVERY 64u

/* One pass of the background thread. Returns the units of work done; 0 also while another thread
 * runs the lane. */
static uint32_t poll_once(struct ual_lane *lane)
{
    enum epoll_mode mode = EPOLL_SKIP;
    uint32_t work;

    if (!ual_lane_run_try(lane))
        return 0;
    if (ual_lane_epoll_is_due(lane, 1))
        mode = ual_lane_epoll_mode_of(lane, &lane->background);
    work = ual_lane_run_pass(lane, NULL, mode);
    ual_lane_run_drop(lane);
    return work;
}

/* Whether the background thread is to poll all the time. */
static bool is_due(struct ual_lane *lane)
{
    return lane->dedicated && atomic_load(&lane->qps) && !atomic_load(&lane->stop) &&
           !ual_lane_is_broken(lane);
}

static void begin_busy(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    atomic_store(&lane->busy, true);
    lane->deep = false;
    if (!atomic_load_explicit(&lane->sleeper, memory_order_relaxed))
        atomic_store_explicit(&lane->sleeper, &lane->background, memory_order_relaxed);
    spinlock_unlock(&lane->sleep_lock);
}

static void end_busy(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    atomic_store(&lane->busy, false);
    if (ual_lane_is_sleeper(lane, &lane->background)) {
        if (lane->waiting)
            ual_lane_make_sleeper(lane, lane->waiting);
        else
            atomic_store_explicit(&lane->sleeper, NULL, memory_order_relaxed);
    }
    spinlock_unlock(&lane->sleep_lock);
    ual_lane_run_take(lane); /* behind the runs that passed nothing on */
    ual_lane_run_pass(lane, NULL, EPOLL_POLL);
    ual_lane_pass_on_remaining(lane);
    ual_lane_run_drop(lane);
}

static void poll_all_the_time(struct ual_lane *lane)
{
    unsigned int in_vain = 0;

    begin_busy(lane);
    while (is_due(lane)) {
        if (!atomic_load_explicit(&lane->takers, memory_order_relaxed) && poll_once(lane))
            continue;
        if (++in_vain % YIELD_EVERY)
            spinlock_pause();
        else
            sched_yield();
    }
    end_busy(lane);
}

/* After work for a consumer: polls without sleeping for a while, because more may follow. */
static void spin_after_work(struct ual_lane *lane, unsigned int polls)
{
    uint64_t now = clock_now();
    uint64_t until = clock_after(now, adaptive_spin_time(&lane->after_work_spin, lane->spin_ns));
    bool hit = false;

    if (!lane->spin_ns || !adaptive_spin_due(&lane->after_work_spin))
        return;
    while (now < until && !atomic_load(&lane->stop) &&
           ual_lane_is_sleeper(lane, &lane->background) && ual_lane_polls(lane) == polls) {
        bool found = poll_once(lane);

        now = clock_now();
        if (found)
            until = clock_after(now, lane->spin_ns);
        hit |= found;
        if (lane->alone)
            sched_yield();
        else
            spinlock_pause();
    }
    adaptive_spin_record(&lane->after_work_spin, hit);
}

/* The sleeper until a consumer displaces it, other threads run the lane, or it must stop. True:
 * consumers take completions without it. */
static bool serve_in_epoll(struct ual_lane *lane)
{
    struct fetched fetched;

    lane->alone = cpus_in_mask() < 2;
    while (!atomic_load(&lane->stop) && !ual_lane_is_broken(lane) && !is_due(lane) &&
           ual_lane_is_sleeper(lane, &lane->background)) {
        unsigned int polls = ual_lane_polls(lane);

        if (!ual_lane_arm_or_run(lane, &lane->background, NULL))
            continue;
        if (ual_lane_sleep_in_epoll(lane, &lane->background, CLOCK_NEVER, &fetched) != 0)
            continue;
        if (ual_lane_polls(lane) != polls) {
            ual_lane_end_fetch(lane);
            return true; /* leave the octets to them */
        }
        if (ual_lane_run_fetched(lane, &lane->background, NULL, &fetched))
            spin_after_work(lane, polls);
    }
    return false;
}

/* Leaves the place of the sleeper, if this thread still has it. */
static void leave_epoll(struct ual_lane *lane)
{
    spinlock_lock(&lane->sleep_lock);
    if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed) == &lane->background)
        atomic_store_explicit(&lane->sleeper, NULL, memory_order_relaxed);
    spinlock_unlock(&lane->sleep_lock);
}

enum duty { DUTY_WATCH, DUTY_SERVE, DUTY_DEEP };

/* After an interval: decides what the background thread does next. A consumer that slept and left
 * counts as active. */
static enum duty next_duty(struct ual_lane *lane, unsigned int epoch, bool others_run)
{
    enum duty duty = DUTY_WATCH;

    spinlock_lock(&lane->sleep_lock);
    others_run |= lane->sleep_epoch != epoch;
    if (ual_lane_is_sleeper(lane, &lane->background)) {
        duty = DUTY_SERVE; /* it was delegated */
    } else if (atomic_load_explicit(&lane->sleeper, memory_order_relaxed)) {
        if (lane->sleep_epoch == epoch) {
            lane->deep = true;
            duty = DUTY_DEEP;
        }
    } else if (!others_run && lane->waiting) {
        ual_lane_make_sleeper(lane, lane->waiting); /* it stepped aside for the polling threads */
    } else if (!others_run) {
        atomic_store_explicit(&lane->sleeper, &lane->background, memory_order_relaxed);
        duty = DUTY_SERVE;
    }
    spinlock_unlock(&lane->sleep_lock);
    return duty;
}

/*
 * Sleeps through an interval, or longer if consumers postpone its end. `stop`, and what is_due asks
 * for, are checked after watch_fd is set; the thread that changes them does it in the reverse
 * order.
 */
static void watch(struct ual_lane *lane, uint64_t until, bool may_put_off)
{
    uint64_t expirations;
    long got = sizeof(expirations);

    atomic_store_explicit(&lane->was_put_off, false, memory_order_relaxed);
    ual_lane_set_watch(lane, until);
    /* Delegated before the time was set. */
    if (ual_lane_is_sleeper(lane, &lane->background) || is_due(lane))
        return;
    atomic_store_explicit(&lane->put_off_at, may_put_off ? until - PACE_LAST / 2 : CLOCK_NEVER,
                          memory_order_relaxed);
    while (!atomic_load(&lane->stop) && !ual_lane_is_broken(lane) &&
           (got = syscall(SYS_read, lane->watch_fd, &expirations, sizeof(expirations))) < 0 &&
           errno == EINTR)
        ;
    if (got != sizeof(expirations) || ual_lane_is_broken(lane)) {
        errno = got < 0 ? errno : EBADF; /* the number is another file's by now */
        ual_lane_check(lane);
    }
    atomic_store_explicit(&lane->put_off_at, CLOCK_NEVER, memory_order_relaxed);
}

/* Returns the interval after it. */
static uint64_t serve(struct ual_lane *lane, struct pace *pace)
{
    uint64_t began = clock_now();
    bool left = serve_in_epoll(lane);
    uint64_t served = clock_now() - began;

    leave_epoll(lane);
    return left ? pace_after_leaving(pace, served) : pace_after_service(pace, served);
}

/* The interval after one that began then, with so many polls in it. */
static uint64_t watch_on(struct ual_lane *lane, struct pace *pace, uint64_t interval,
                         unsigned int polls, uint64_t began)
{
    atomic_store_explicit(&lane->epoll_due, true, memory_order_relaxed);
    return atomic_load_explicit(&lane->was_put_off, memory_order_relaxed)
               ? pace_after_put_off(pace)
               : pace_next(pace, interval, polls, clock_now() - began);
}

static void *background(void *arg)
{
    struct ual_lane *lane = arg;
    struct pace pace = { 0 };
    uint64_t interval = PACE_FIRST;

    sanitizer_ignore_begin();
    while (!atomic_load(&lane->background_word))
        futex_wait(&lane->background_word, 0, CLOCK_NEVER);
    while (!atomic_load(&lane->stop)) {
        unsigned int word = atomic_load(&lane->background_word);
        unsigned int polls = ual_lane_polls(lane);
        unsigned int epoch;
        uint64_t began;

        if (is_due(lane)) {
            poll_all_the_time(lane);
            pace = (struct pace){ 0 };
            interval = PACE_FIRST;
            continue;
        }
        spinlock_lock(&lane->sleep_lock);
        epoch = lane->sleep_epoch;
        spinlock_unlock(&lane->sleep_lock);
        began = clock_now();
        watch(lane, began + interval, interval >= PACE_LAST);
        if (atomic_load(&lane->stop))
            break;
        if (ual_lane_is_broken(lane)) { /* its descriptors are closed */
            futex_wait(&lane->background_word, word, CLOCK_NEVER);
            continue;
        }
        if (is_due(lane))
            continue;
        polls = ual_lane_polls(lane) - polls;
        switch (next_duty(lane, epoch, polls)) {
        case DUTY_WATCH: interval = watch_on(lane, &pace, interval, polls, began); break;
        case DUTY_SERVE: interval = serve(lane, &pace); break;
        case DUTY_DEEP:
            futex_wait(&lane->background_word, word, CLOCK_NEVER);
            interval = pace_short(&pace);
            break;
        }
    }
    sanitizer_ignore_end();
    return NULL;
}

void ual_lane_rouse_background(struct ual_lane *lane)
{
    ual_lane_set_watch(lane, 1); /* a time in the past: it expires at once */
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    ual_lane_kick(lane);
}

void ual_lane_add_qp(struct ual_lane *lane)
{
    if (atomic_fetch_add(&lane->qps, 1) == 0 && lane->dedicated)
        ual_lane_rouse_background(lane);
}

void ual_lane_drop_qp(struct ual_lane *lane)
{
    atomic_fetch_sub(&lane->qps, 1);
}

enum ri_status ual_lane_start_background(struct ual_lane *lane)
{
    int error = thread_start(&lane->thread, "ital-lane", 0, background, lane);

    if (error) {
        kal_log(RI_LOG_ERROR,
                "cannot start the progress thread: %s; allow more threads (RLIMIT_NPROC, pids.max) "
                "or free memory",
                strerrordesc_np(error));
        return RI_ERR_NO_RESOURCES;
    }
    return RI_OK;
}

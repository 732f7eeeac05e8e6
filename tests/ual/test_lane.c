/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: which thread runs the lane, which one sleeps for it, and that no event waits for a
 * sleeping thread.
 */
#include "lane_one.h"

#include "base/cpus.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

static bool read_by(pthread_t thread)
{
    return atomic_load(&lf_reader) == (unsigned long)thread;
}

/* While time passes the threads sleep at most `slack` times more. Before that they may finish
 * what they do. */
static void expect_rest(const pid_t *threads, size_t count, unsigned int slack)
{
    uint64_t end = tc_deadline(10000);
    unsigned long before[8], extra;

    do {
        extra = 0;
        for (size_t i = 0; i < count; i++)
            before[i] = lf_sleeps(threads[i]);
        lf_pass(300000);
        for (size_t i = 0; i < count; i++)
            extra += lf_sleeps(threads[i]) - before[i];
    } while (extra > slack && !tc_expired(end));
    ck_assert_uint_le(extra, slack);
}

/* --- the background thread --- */

START_TEST(serves_when_nobody_calls)
{
    for (uint64_t i = 0; i < 20; i++) {
        lf_send(feed, i);
        ck_assert(lf_records_reach((unsigned int)i + 1));
        ck_assert(!read_by(pthread_self()));
    }
    for (uint64_t i = 0; i < 20; i++)
        ck_assert_uint_eq(lf_take(evd), i);
}
END_TEST

START_TEST(takes_over_when_polling_stops)
{
    struct ual_event event;

    for (unsigned int round = 0; round < 20; round++) {
        uint64_t end = clock_now() + 3 * MS;

        while (clock_now() < end)
            fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
        lf_send(feed, round);
        ck_assert(lf_records_reach(round + 1));
        ck_assert_uint_eq(lf_take(evd), round);
    }
    ck_assert(!read_by(pthread_self()));
}
END_TEST

/* This thread, and those that it makes. */
static void stay_on_one_processor(void)
{
    cpu_set_t all, one;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* With spinning enabled it polls for a while after it served a thread, and then sleeps; on one
 * processor, too, where others may leave it little of the time. */
START_TEST(lingers_after_serving)
{
    const unsigned int spin = _i == 1 ? 1000 : 50, polls = _i == 1 ? 20 : 100;
    unsigned int runs;
    pid_t background;

    if (cpus_quota() < 2) /* it does not poll then */
        return;
    teardown();
    if (_i == 1)
        stay_on_one_processor();
    lf_open(spin * MS);
    evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    feed = lf_pipe(evd);
    background = lf_background();
    lf_pass(5000);
    runs = atomic_load(&lf_runs);
    lf_send(feed, 1);
    ck_assert(lf_records_reach(1));
    ck_assert(tc_until(atomic_load(&lf_runs) > runs + polls, 10000));
    lf_send(feed, 2);
    ck_assert(lf_records_reach(2));
    expect_rest(&background, 1, 1);
    ck_assert_uint_eq(lf_take(evd), 1);
    ck_assert_uint_eq(lf_take(evd), 2);
}
END_TEST

START_TEST(an_idle_lane_sleeps)
{
    pid_t background = lf_background();

    ck_assert_int_ne(background, 0);
    expect_rest(&background, 1, 1);
    lf_send(feed, 1);
    ck_assert(lf_records_reach(1));
    expect_rest(&background, 1, 1);
}
END_TEST

START_TEST(a_waited_on_lane_sleeps)
{
    struct lf_waiter first, second;
    pid_t threads[3] = { lf_background() };

    lf_wait_start(&first, evd, FOR_EVER);
    lf_wait_start(&second, evd, FOR_EVER);
    threads[1] = first.tid;
    threads[2] = second.tid;
    expect_rest(threads, 3, 2);
    ual_evd_abort(evd);
    lf_wait_join(&first, ITAL_ERR_ABORTED);
    lf_wait_join(&second, ITAL_ERR_ABORTED);
}
END_TEST

static void poll_for(uint64_t ns)
{
    uint64_t end = clock_now() + ns;
    struct ual_event event;

    while (clock_now() < end)
        fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
}

/* A thread polls too seldom for the timer check at every 64th poll, yet too often for the
 * background thread. */
START_TEST(a_seldom_poll_looks_at_timers)
{
    struct ri_timer timer = { .expired = fired };
    struct ual_event event;
    unsigned int polls = 0;

    poll_for(10 * MS); /* makes the background thread's intervals the longest */
    timer.deadline = clock_now() + 3 * MS;
    ual_lane_timer_set(lf_lane, &timer);
    while (!atomic_load(&fires)) {
        fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
        ck_assert_uint_lt(++polls, 45);
        lf_pass(500);
    }
}
END_TEST

/*
 * The background thread does not wake twice a millisecond to check the pollers. It wakes now and
 * then, when no poller is on a processor at the time of its check.
 */
START_TEST(who_polls_all_the_time_is_left_alone)
{
    enum { ROUNDS = 6, WINDOW_MS = 40, WAKES_MOST = WINDOW_MS };
    pid_t background = lf_background();
    struct ual_event event;
    unsigned long wakes;

    for (int i = 0; i < ROUNDS; i++) {
        /* From now on there is mostly no sleeper: the background thread has its deadline. */
        fails(ual_evd_wait(evd, 1000, &event, NULL), RI_ERR_TIMED_OUT);
        poll_for(10 * MS);
        wakes = lf_sleeps(background);
        poll_for(WINDOW_MS * MS);
        ck_assert_uint_le(lf_sleeps(background) - wakes, WAKES_MOST);
    }
    lf_send(feed, 1);
    ck_assert(lf_records_reach(1));
    ck_assert(!read_by(pthread_self()));
    ck_assert_uint_eq(lf_take(evd), 1);
}
END_TEST

START_TEST(a_lane_that_cannot_open_leaves_nothing)
{
    struct ual_lane *lane = NULL;
    int fds = tc_fd_count(), threads = tc_thread_count();

    atomic_store(&lf_lane_fails, true);
    ck_assert_int_ne(ual_lane_open(lf_lanes, 0, 0, &(struct ual_processors){ .count = 0 }, &lane),
                     RI_OK);
    ck_assert_ptr_null(lane);
    ck_assert_int_eq(tc_fd_count(), fds);
    ck_assert(tc_until(tc_thread_count() == threads, 10000)); /* qemu ends a joined one later */
}
END_TEST

/* --- sleepers --- */

START_TEST(a_waiting_consumer_is_the_sleeper)
{
    struct lf_waiter waiter;
    pid_t threads[2] = { lf_background() };

    lf_wait_start(&waiter, evd, FOR_EVER);
    threads[1] = waiter.tid;
    expect_rest(threads, 2, 1); /* the background thread has left epoll */
    lf_send(feed, 9);
    lf_wait_join(&waiter, RI_OK);
    ck_assert_uint_eq(waiter.cookie, 9);
    ck_assert(read_by(waiter.thread));
}
END_TEST

/* Polls, with one record per round for the polled EVD, until `rounds` of them have come back. */
static void poll_busily(struct ual_evd *polled, struct lf_pipe *pipe, unsigned long rounds)
{
    struct ual_event event;

    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t end = clock_now() + 20 * CLOCK_NS_PER_US;
        uint64_t limit = tc_deadline(10000);

        while (clock_now() < end) /* closely */
            (void)ual_evd_dequeue(evd, &event);
        lf_send(pipe, i);
        while (ual_evd_dequeue(polled, &event) != RI_OK)
            ck_assert(!tc_expired(limit));
        ck_assert_uint_eq(event.wc.cookie, i);
    }
}

/* One thread waits where no event comes while another polls: events for the other do not wake it,
 * its own event does, and it sleeps in epoll again when polling has stopped. */
START_TEST(a_sleeper_steps_aside_while_others_poll)
{
    struct ual_evd *quiet = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *quiet_feed = lf_pipe(quiet);
    unsigned long rounds = tc_count(4000), before;
    struct lf_waiter waiter;
    pid_t threads[2];

    lf_wait_start(&waiter, quiet, FOR_EVER);
    before = lf_sleeps(waiter.tid);
    poll_busily(evd, feed, rounds);
    /* Otherwise it would wake for all of them; it does for some, where the poller loses its
     * processor. */
    ck_assert_uint_lt(lf_sleeps(waiter.tid) - before, rounds / 3 + 10);
    ck_assert(!atomic_load(&waiter.done));
    if (_i == 0) { /* the poller reads it from the pipe and wakes the waiter */
        struct ual_event event;
        uint64_t limit = tc_deadline(10000);

        lf_send(quiet_feed, 7);
        while (!atomic_load(&waiter.done)) {
            (void)ual_evd_dequeue(evd, &event);
            ck_assert(!tc_expired(limit));
        }
        lf_wait_join(&waiter, RI_OK);
    } else {
        threads[0] = lf_background();
        threads[1] = waiter.tid;
        expect_rest(threads, 2, 1);
        lf_send(quiet_feed, 7);
        lf_wait_join(&waiter, RI_OK);
        ck_assert(read_by(waiter.thread));
    }
    ck_assert_uint_eq(waiter.cookie, 7);
    lf_pipe_close(quiet_feed);
}
END_TEST

/* A thread that stepped aside gets events that come before the end of polling is noticed. */
START_TEST(polling_that_stops_strands_nobody)
{
    struct ual_evd *quiet = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *quiet_feed = lf_pipe(quiet);

    for (unsigned long i = 0; i < tc_count(100); i++) {
        struct lf_waiter waiter;
        struct ri_timer timer = { .expired = fired };
        unsigned int before = atomic_load(&fires);

        lf_wait_start(&waiter, quiet, FOR_EVER);
        poll_busily(evd, feed, 50);
        if (i % 2) {
            timer.deadline = clock_now() + 100 * CLOCK_NS_PER_US;
            ual_lane_timer_set(lf_lane, &timer);
            ck_assert(tc_until(atomic_load(&fires) != before, 10000));
        }
        lf_send(quiet_feed, i);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
    }
    lf_pipe_close(quiet_feed);
}
END_TEST

static void nothing(int number)
{
    (void)number;
}

static void handle_signals(int flags)
{
    struct sigaction action = { .sa_handler = nothing, .sa_flags = flags };

    sigaction(SIGUSR1, &action, NULL);
}

/* Repeats the signal: one that comes just before the thread sleeps has no effect. */
static void interrupt(struct lf_waiter *waiter)
{
    for (uint64_t end = tc_deadline(10000); !atomic_load(&waiter->done) && !tc_expired(end);
         lf_pass(1000))
        pthread_kill(waiter->thread, SIGUSR1);
    lf_wait_join(waiter, ITAL_ERR_INTERRUPTED);
}

/* The sleeper leaves by event, time-out, signal; then the thread that relied on it serves the
 * lane. */
START_TEST(leaving_hands_the_sleep_over)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *other_feed = lf_pipe(other);
    struct lf_waiter first, second;
    pid_t threads[2];

    handle_signals(0);
    lf_wait_start(&first, evd, _i == 1 ? tc_timeout_ms(200) * 1000ull : FOR_EVER);
    lf_wait_start(&second, other, FOR_EVER);
    if (_i == 0)
        lf_send(feed, 1);
    if (_i == 2)
        interrupt(&first);
    else
        lf_wait_join(&first, _i == 0 ? RI_OK : RI_ERR_TIMED_OUT);
    ck_assert(!atomic_load(&second.done));
    threads[0] = lf_background();
    threads[1] = second.tid;
    expect_rest(threads, 2, 1);
    lf_send(other_feed, 2);
    lf_wait_join(&second, RI_OK);
    ck_assert_uint_eq(second.cookie, 2);
    ck_assert(read_by(second.thread));
    lf_send(feed, 3); /* no waiter: the background thread again */
    ck_assert(lf_records_reach(_i == 0 ? 3 : 2));
    lf_pipe_close(other_feed);
}
END_TEST

/* As the sleeper or not, with a time-out or not, with SA_RESTART or not. */
START_TEST(a_signal_ends_every_wait)
{
    struct lf_waiter first, second;
    uint64_t timeout = _i & 1 ? FOR_EVER : 3600000000;

    handle_signals(_i & 2 ? SA_RESTART : 0);
    lf_wait_start(&first, evd, timeout);
    lf_wait_start(&second, evd, timeout);
    interrupt(&second);
    interrupt(&first);
}
END_TEST

static void ignore(void *arg, uint32_t events)
{
    (void)arg;
    (void)events;
}

/* 0: the lane has work left whenever it is armed; 1: something is ready whenever the thread goes to
 * sleep. */
START_TEST(traffic_for_others_does_not_stretch_a_wait)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 4096, 0);
    struct lf_pipe *other_feed = lf_pipe(other);
    struct ri_watch *watch = NULL;
    struct ual_event event;
    uint64_t from;
    int fds[2];

    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    if (_i == 1)
        ck_assert_int_eq(ual_lane_watch(lf_lane, fds[1], EPOLLOUT, ignore, NULL, &watch), RI_OK);
    else
        atomic_store(&lf_lazy, 1);
    if (_i == 0)
        lf_flood_start(other_feed);
    for (int i = 0; i < 5; i++) {
        from = clock_now();
        fails(ual_evd_wait(evd, 20000, &event, NULL), RI_ERR_TIMED_OUT);
        ck_assert_uint_ge(clock_now() - from, 20 * MS);
        ck_assert_uint_lt(clock_now() - from, tc_timeout_ms(5000) * MS);
    }
    if (_i == 0)
        lf_flood_stop();
    if (watch)
        ual_lane_unwatch(watch);
    lf_pipe_close(other_feed);
}
END_TEST

/* Work that one run leaves is done by the next run, whichever thread sleeps. */
START_TEST(nothing_is_left_behind)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *other_feed = lf_pipe(other);
    struct lf_waiter waiter;
    struct ual_event event;

    atomic_store(&lf_lazy, 1);
    lf_wait_start(&waiter, other, FOR_EVER);
    for (uint64_t i = 0; i < 30; i++)
        lf_send(feed, i);
    lf_send(other_feed, 99);
    (void)ual_evd_dequeue(evd, &event); /* one record at most */
    lf_wait_join(&waiter, RI_OK);
    ck_assert(lf_records_reach(31));
    lf_pipe_close(other_feed);
}
END_TEST

/* The same where no descriptor signals it to the sleeper. */
START_TEST(nothing_unseen_is_left_behind)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_waiter waiter;
    struct ual_event event;

    for (uint64_t i = 0; i < 10; i++) {
        lf_wait_start(&waiter, evd, FOR_EVER);
        lf_complete_in(evd, i, 3);
        fails(ual_evd_dequeue(other, &event), ITAL_ERR_EMPTY);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
    }
}
END_TEST

/* A run by a poller sets a deadline that the sleeper does not know yet. */
START_TEST(a_deadline_of_the_provider_reaches_the_sleeper)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_waiter waiter;
    struct ual_event event;

    for (int i = 0; i < 10; i++) {
        lf_wait_start(&waiter, evd, FOR_EVER);
        lf_complete_at(evd, 5, clock_now() + 2 * MS);
        fails(ual_evd_dequeue(other, &event), ITAL_ERR_EMPTY);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, 5);
    }
}
END_TEST

/* A consumer displaces the background thread and leaves at once: the background thread must not
 * stay asleep in epoll, without regard to timers. On one core, with a preemptible background
 * thread, so that the consumer runs between any two of its steps. */
START_TEST(a_displaced_background_thread_comes_back)
{
    struct sched_param param = { 0 };
    struct ual_event event;
    cpu_set_t one;

    stay_on_one_processor();
    ck_assert_int_eq(sched_getaffinity(0, sizeof(one), &one), 0);
    sched_setaffinity(lf_background(), sizeof(one), &one);
    sched_setscheduler(lf_background(), SCHED_IDLE, &param);
    for (unsigned long i = 0; i < tc_count(2000); i++) {
        struct ri_timer timer = { .expired = fired };
        unsigned int before = atomic_load(&fires);

        if (i % 2)
            lf_pass(i % 200);
        fails(ual_evd_wait(evd, 1, &event, NULL), RI_ERR_TIMED_OUT);
        if (i % 4)
            lf_pass(i % 4 *
                    30); /* the background thread runs on, and sleeps before the timer is set */
        timer.deadline = clock_now() + (i % 3) * CLOCK_NS_PER_US * 30;
        ual_lane_timer_set(lf_lane, &timer);
        for (uint64_t end = tc_deadline(10000); atomic_load(&fires) == before; lf_pass(20))
            ck_assert_msg(!tc_expired(end), "a timer did not fire");
        ual_lane_timer_cancel(lf_lane, &timer);
    }
}
END_TEST

START_TEST(wake_makes_somebody_run)
{
    for (int i = 0; i < 50; i++) {
        unsigned int before = atomic_load(&lf_runs);

        ual_lane_wake(lf_lane);
        ck_assert(tc_until(atomic_load(&lf_runs) != before, 10000));
        if (i % 5 == 0)
            lf_pass(2000);
    }
}
END_TEST

START_TEST(nobody_runs_a_paused_lane)
{
    struct ual_event event;
    unsigned int before;

    ck_assert(!ual_lane_inside(lf_lane));
    ual_lane_pause(lf_lane);
    ck_assert(ual_lane_inside(lf_lane));
    before = atomic_load(&lf_runs);
    lf_send(feed, 4);
    ck_assert(tc_until(tc_asleep(lf_background()) == false, 10000)); /* it wants to */
    fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
    lf_pass(20000);
    ck_assert_uint_eq(atomic_load(&lf_runs), before);
    ck_assert_uint_eq(atomic_load(&lf_records), 0);
    ual_lane_resume(lf_lane);
    ck_assert(lf_records_reach(1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the lane runs when it has to");
    TCase *background = tcase_create("background thread"), *sleepers = tcase_create("sleepers");

    lf_add_cases(suite, (TCase *[]){ background, sleepers }, 2, setup, teardown);
    tcase_add_loop_test(background, lingers_after_serving, 0, 2);
    tc_add_tests(background, serves_when_nobody_calls, takes_over_when_polling_stops,
                 an_idle_lane_sleeps, a_waited_on_lane_sleeps, a_seldom_poll_looks_at_timers,
                 who_polls_all_the_time_is_left_alone, a_lane_that_cannot_open_leaves_nothing);
    tcase_add_test(sleepers, a_waiting_consumer_is_the_sleeper);
    tcase_add_loop_test(sleepers, a_sleeper_steps_aside_while_others_poll, 0, 2);
    tcase_add_test(sleepers, polling_that_stops_strands_nobody);
    tcase_add_loop_test(sleepers, leaving_hands_the_sleep_over, 0, 3);
    tcase_add_loop_test(sleepers, a_signal_ends_every_wait, 0, 4);
    tcase_add_loop_test(sleepers, traffic_for_others_does_not_stretch_a_wait, 0, 2);
    tc_add_tests(sleepers, nothing_is_left_behind, nothing_unseen_is_left_behind,
                 a_deadline_of_the_provider_reaches_the_sleeper,
                 a_displaced_background_thread_comes_back, wake_makes_somebody_run,
                 nobody_runs_a_paused_lane);
    return tc_main(suite);
}

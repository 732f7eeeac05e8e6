/* SPDX-License-Identifier: BSD-3-Clause */
/* What a lane serves besides its CQs: timers, and watched descriptors. */
#include "lane_one.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

/* --- timers --- */

/* 0: the background thread; 1: a waiting consumer; 2: a polling consumer. */
START_TEST(timers_fire_whoever_runs)
{
    struct lf_waiter waiter;
    struct ual_event event;
    struct ri_timer timers[3];
    uint64_t now;

    if (_i == 1)
        lf_wait_start(&waiter, evd, FOR_EVER);
    else
        lf_pass(5000);
    now = clock_now();
    for (int i = 0; i < 3;
         i++) /* each earlier than the last, while a thread sleeps until that one */
        timers[i] = (struct ri_timer){ .expired = fired,
                                       .deadline = now + (30 - 10 * (uint64_t)i) * MS };
    for (int i = 0; i < 3; i++)
        ual_lane_timer_set(lf_lane, &timers[i]);
    if (_i == 2)
        while (atomic_load(&fires) < 3 && clock_now() < now + tc_timeout_ms(10000) * MS)
            (void)ual_evd_dequeue(evd, &event);
    ck_assert(tc_until(atomic_load(&fires) == 3, 10000));
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(order[i], timers[2 - i].deadline);
    if (_i == 1) {
        lf_send(feed, 1);
        lf_wait_join(&waiter, RI_OK);
    }
}
END_TEST

START_TEST(a_moved_timer_fires_once)
{
    struct ri_timer timer = { .expired = fired, .deadline = clock_now() + 3600000 * MS };

    ual_lane_timer_set(lf_lane, &timer);
    timer.deadline = clock_now() + 5 * MS;
    ual_lane_timer_set(lf_lane, &timer);
    ck_assert(tc_until(atomic_load(&fires) == 1, 10000));
    lf_pass(10000);
    ck_assert_uint_eq(atomic_load(&fires), 1);
    ual_lane_timer_cancel(lf_lane, &timer);
    timer.deadline = clock_now() + 20 * MS;
    ual_lane_timer_set(lf_lane, &timer);
    ual_lane_timer_cancel(lf_lane, &timer);
    lf_pass(40000);
    ck_assert_uint_eq(atomic_load(&fires), 1);
}
END_TEST

static struct {
    struct ri_timer timer;
    atomic_bool inside, cancelled, early;
} stubborn;

/* Sets itself again, and takes a while. */
static void stay(struct ri_timer *timer)
{
    atomic_store(&stubborn.inside, true);
    timer->deadline = clock_now() + 3600000 * MS;
    ual_lane_timer_set(lf_lane, timer);
    for (int i = 0; i < 50 && !atomic_load(&stubborn.cancelled); i++)
        lf_pass(1000);
    if (atomic_load(&stubborn.cancelled))
        atomic_store(&stubborn.early, true);
    ual_lane_timer_set(lf_lane, timer);
    atomic_store(&stubborn.inside, false);
}

START_TEST(cancel_waits_for_a_running_callback)
{
    stubborn.timer.expired = stay;
    stubborn.timer.deadline = clock_now();
    ual_lane_timer_set(lf_lane, &stubborn.timer);
    ck_assert(tc_until(atomic_load(&stubborn.inside), 10000));
    ual_lane_timer_cancel(lf_lane, &stubborn.timer);
    atomic_store(&stubborn.cancelled, true);
    ck_assert(!atomic_load(&stubborn.inside));
    ck_assert(!atomic_load(&stubborn.early));
    ck_assert_ptr_null(stubborn.timer.host_private[2]); /* not in the heap */
}
END_TEST

static void cancel_itself(struct ri_timer *timer)
{
    ual_lane_timer_cancel(lf_lane, timer);
    fired(timer);
}

START_TEST(a_callback_may_cancel_its_own_timer)
{
    struct ri_timer timer = { .expired = cancel_itself, .deadline = clock_now() };

    ual_lane_timer_set(lf_lane, &timer);
    ck_assert(tc_until(atomic_load(&fires) == 1, 10000));
}
END_TEST

/* --- descriptors --- */

struct guarded {
    int fds[2];
    struct ri_watch *watch;
    atomic_bool alive, inside;
    pthread_t owner; /* the thread whose runs `count` counts */
    unsigned int count;
};

static atomic_uint readies;

static void check_alive(void *arg, uint32_t events)
{
    struct guarded *guarded = arg;

    (void)events;
    if (!atomic_load(&guarded->alive))
        ck_abort_msg("ready after unwatch returned");
    atomic_store(&guarded->inside, true);
    atomic_fetch_add(&readies, 1);
    sched_yield();
    atomic_store(&guarded->inside, false);
}

static void *watch_and_unwatch(void *arg)
{
    (void)arg;
    for (unsigned long i = 0; i < tc_count(3000); i++) {
        struct guarded *guarded = calloc(1, sizeof(*guarded));

        ck_assert_int_eq(pipe2(guarded->fds, O_CLOEXEC), 0);
        ck_assert_int_eq(write(guarded->fds[1], "x", 1), 1);
        atomic_store(&guarded->alive, true);
        ck_assert_int_eq(ual_lane_watch(lf_lane, guarded->fds[0], EPOLLIN, check_alive, guarded,
                                        &guarded->watch),
                         RI_OK);
        if (i % 4)
            lf_pass(i % 4 * 20);
        ual_lane_unwatch(guarded->watch);
        if (atomic_load(&guarded->inside))
            ck_abort_msg("unwatch returned while ready ran");
        atomic_store(&guarded->alive, false);
        close(guarded->fds[0]);
        close(guarded->fds[1]);
        free(guarded);
    }
    return NULL;
}

START_TEST(watch_and_unwatch_during_dispatch)
{
    struct ual_event event;
    pthread_t threads[3];

    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, watch_and_unwatch, NULL);
    for (size_t i = 0; i < 3; i++)
        while (pthread_tryjoin_np(threads[i], NULL))
            (void)ual_evd_wait(evd, 100, &event, NULL);
    ck_assert_uint_gt(atomic_load(&readies), 0);
}
END_TEST

static void unwatch_itself(void *arg, uint32_t events)
{
    struct guarded *guarded = arg;

    (void)events;
    ual_lane_unwatch(guarded->watch);
    atomic_fetch_add(&readies, 1);
}

/* Also before watch has returned. */
START_TEST(unwatch_from_its_own_callback)
{
    for (unsigned int i = 0; i < 500; i++) {
        struct guarded guarded = { .alive = true };

        ck_assert_int_eq(pipe2(guarded.fds, O_CLOEXEC), 0);
        ck_assert_int_eq(write(guarded.fds[1], "x", 1), 1);
        ck_assert_int_eq(ual_lane_watch(lf_lane, guarded.fds[0], EPOLLIN, unwatch_itself, &guarded,
                                        &guarded.watch),
                         RI_OK);
        ck_assert(tc_until(atomic_load(&readies) == i + 1, 10000));
        close(guarded.fds[0]);
        close(guarded.fds[1]);
    }
}
END_TEST

START_TEST(rewatch_changes_what_is_awaited)
{
    struct guarded guarded = { .alive = true };

    ck_assert_int_eq(pipe2(guarded.fds, O_CLOEXEC), 0);
    ck_assert_int_eq(
        ual_lane_watch(lf_lane, guarded.fds[1], 0, unwatch_itself, &guarded, &guarded.watch),
        RI_OK);
    lf_pass(5000);
    ck_assert_uint_eq(atomic_load(&readies), 0);
    ck_assert_int_eq(ual_lane_rewatch(guarded.watch, EPOLLOUT), RI_OK);
    ck_assert(tc_until(atomic_load(&readies) == 1, 10000));
    ck_assert_int_eq(ual_lane_watch(lf_lane, -1, EPOLLIN, unwatch_itself, &guarded, &guarded.watch),
                     RI_ERR_NO_RESOURCES);
    close(guarded.fds[0]);
    close(guarded.fds[1]);
}
END_TEST

static void count_own(void *arg, uint32_t events)
{
    struct guarded *guarded = arg;

    (void)events;
    if (pthread_equal(pthread_self(), guarded->owner))
        guarded->count++;
}

/* How often that many polls of this thread find `busy` ready. The background thread may run too: in
 * turn. */
static unsigned int found_in_polls(const struct guarded *busy, unsigned int polls)
{
    unsigned int before = busy->count;

    for (unsigned int i = 0; i < polls; i++)
        ual_lane_poll_in_turn(lf_lane, NULL, false);
    return busy->count - before;
}

/* Every poll serves the few active ones among many. */
START_TEST(busy_ones_among_many_are_seen)
{
    static struct guarded guarded[12];

    for (size_t i = 0; i < 12; i++) {
        guarded[i] = (struct guarded){ .alive = true, .owner = pthread_self() };
        ck_assert_int_eq(pipe2(guarded[i].fds, O_CLOEXEC), 0);
        ck_assert_int_eq(ual_lane_watch(lf_lane, guarded[i].fds[0], EPOLLIN, count_own, &guarded[i],
                                        &guarded[i].watch),
                         RI_OK);
    }
    ck_assert_int_eq(write(guarded[3].fds[1], "x", 1), 1);
    ck_assert_int_eq(write(guarded[9].fds[1], "x", 1), 1);
    ck_assert_uint_eq(found_in_polls(&guarded[3], 1000), 1000);
    ck_assert_uint_eq(found_in_polls(&guarded[9], 1000), 1000);
    for (size_t i = 0; i < 12; i++) {
        ual_lane_unwatch(guarded[i].watch);
        close(guarded[i].fds[0]);
        close(guarded[i].fds[1]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the lane looks after timers and descriptors");
    TCase *timers = tcase_create("timers"), *watches = tcase_create("descriptors");

    lf_add_cases(suite, (TCase *[]){ timers, watches }, 2, setup, teardown);
    tcase_add_loop_test(timers, timers_fire_whoever_runs, 0, 3);
    tc_add_tests(timers, a_moved_timer_fires_once, cancel_waits_for_a_running_callback,
                 a_callback_may_cancel_its_own_timer);
    tc_add_tests(watches, watch_and_unwatch_during_dispatch, unwatch_from_its_own_callback,
                 rewatch_changes_what_is_awaited, busy_ones_among_many_are_seen);
    return tc_main(suite);
}

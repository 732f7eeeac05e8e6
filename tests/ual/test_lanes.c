/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An IA of several lanes: placement of endpoints, which thread runs which lane, and that no event
 * of another lane waits for a sleeping thread.
 */
#include "lane_fake.h"

#include "ual/progress/lane_private.h"

#include <poll.h>

#define LANES 2u

static struct ual_evd *evd;
static struct lf_pipe *feeds[LANES]; /* both of evd */

static void setup(void)
{
    lf_open_lanes(LANES, 0);
    evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    for (uint32_t i = 0; i < LANES; i++)
        feeds[i] = lf_pipe_on(evd, i);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < LANES; i++)
        lf_pipe_close(feeds[i]);
    lf_close();
}

/* --- placement --- */

static uint32_t place(struct ual_evd *of)
{
    uint32_t lane = ual_lanes_place(lf_lanes, ual_evd_feed(of), ual_evd_feed(of));

    feed_add((struct feed *)ual_evd_feed(of), lane);
    return lane;
}

static void leave(struct ual_evd *of, uint32_t lane)
{
    feed_remove((struct feed *)ual_evd_feed(of), lane);
    ual_lanes_leave(lf_lanes, lane);
}

START_TEST(few_endpoints_of_an_evd_stay_together)
{
    struct ual_evd *one, *two;

    lf_open_lanes(LANES, 0);
    one = lf_evd(UAL_STREAM_DTO, 64, 0);
    two = lf_evd(UAL_STREAM_DTO, 64, 0);
    ck_assert_uint_eq(place(one), 0);
    ck_assert_uint_eq(place(one), 0);
    ck_assert_uint_eq(place(two), 1);
    ck_assert_uint_eq(place(two), 1);
    ck_assert_ptr_eq(feed_only(ual_evd_feed(one)), lf_lanes->lane[0]);
    ck_assert_ptr_eq(feed_only(ual_evd_feed(two)), lf_lanes->lane[1]);
    for (int i = 0; i < 2; i++) {
        leave(one, 0);
        leave(two, 1);
    }
    ck_assert_ptr_eq(feed_only(ual_evd_feed(two)), lf_lanes->lane[0]); /* as without users */
    ck_assert_uint_eq(lf_lanes->placed[0] + lf_lanes->placed[1], 0);
    lf_close();
}
END_TEST

START_TEST(many_endpoints_of_an_evd_spread)
{
    uint32_t lanes[64];

    lf_open_lanes(4, 0);
    evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    for (uint32_t i = 0; i < 64; i++)
        lanes[i] = place(evd);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_ge(lf_lanes->placed[i], 8);
    ck_assert_ptr_null(feed_only(ual_evd_feed(evd)));
    for (uint32_t i = 0; i < 64; i++)
        leave(evd, lanes[i]);
    lf_close();
}
END_TEST

/* --- which thread runs --- */

/* Polls busily, which keeps background threads away. */
static uint64_t poll_for(struct ual_evd *of)
{
    uint64_t end = tc_deadline(10000);
    struct ual_event event;

    while (ual_evd_dequeue(of, &event) != RI_OK)
        ck_assert(!tc_expired(end));
    return event.wc.cookie;
}

START_TEST(who_polls_runs_every_lane_that_feeds)
{
    struct ual_event event;
    unsigned int own = 0;

    for (uint64_t i = 0; i < 100; i++) {
        for (int polls = 0; polls < 200; polls++)
            fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
        lf_send(feeds[i % LANES], i);
        ck_assert_uint_eq(poll_for(evd), i);
        own += i % LANES == 1 && atomic_load(&lf_reader) == (unsigned long)pthread_self();
    }
    ck_assert_uint_ge(own, 10); /* of 50 */
}
END_TEST

/* --- which thread sleeps --- */

static bool consumer_sleeps_in(uint32_t lane)
{
    return ual_lane_has_waiter(lf_lanes->lane[lane]);
}

START_TEST(any_lane_wakes_who_waits)
{
    struct lf_waiter waiter;

    for (uint64_t i = 0; i < 40; i++) {
        lf_wait_start(&waiter, evd, FOR_EVER);
        ck_assert(tc_until(consumer_sleeps_in(0), 10000));
        lf_send(feeds[i % LANES], i);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, i);
    }
}
END_TEST

/* Not only after the intervals in which the background thread checks whether others run. */
START_TEST(the_other_lane_is_entrusted_at_once)
{
    struct ual_lane *other = lf_lanes->lane[1];
    struct ual_event event;

    for (int round = 0; round < 50; round++) {
        uint64_t end = tc_deadline(10000);

        do { /* until its background thread leaves the events to the polling thread */
            lf_send(feeds[1], 1);
            ck_assert_uint_eq(poll_for(evd), 1);
            ck_assert(!tc_expired(end));
        } while (atomic_load(&other->sleeper));
        fails(ual_evd_wait(evd, 20, &event, NULL), RI_ERR_TIMED_OUT);
        ck_assert_ptr_nonnull(atomic_load(&other->sleeper));
        ck_assert(!consumer_sleeps_in(1));
    }
}
END_TEST

/* The background thread of the other lane waits for the end of an interval, a long one here. It
 * sleeps in epoll before that end. */
static bool background_sleeps(struct ual_lane *lane)
{
    bool sleeps;

    spinlock_lock(&lane->sleep_lock);
    sleeps = atomic_load(&lane->sleeper) && lane->background.sleep_until;
    spinlock_unlock(&lane->sleep_lock);
    return sleeps;
}

START_TEST(who_is_entrusted_sleeps_at_once)
{
    struct ual_lane *other = lf_lanes->lane[1];
    uint64_t far = clock_now() + 100 * CLOCK_NS_PER_S;
    uint64_t end = tc_deadline(10000);
    bool sleeps;

    do {
        ck_assert(!tc_expired(end));
        lf_send(feeds[1], 1);
        ck_assert_uint_eq(poll_for(evd), 1);
        ual_lane_set_watch(other, far);
        lf_pass(5000); /* an interval of its own ends in that time, and it is the sleeper */
    } while (atomic_load(&other->sleeper));
    ual_lane_delegate(other);
    sleeps = tc_until(background_sleeps(other), 10000);
    ual_lane_set_watch(other, 1);
    ck_assert(sleeps);
}
END_TEST

START_TEST(who_waits_together_sleeps_in_different_lanes)
{
    struct lf_waiter waiters[2];

    for (uint64_t round = 0; round < 20; round++) {
        lf_wait_start(&waiters[0], evd, FOR_EVER);
        lf_wait_start(&waiters[1], evd, FOR_EVER);
        ck_assert(tc_until(consumer_sleeps_in(0) && consumer_sleeps_in(1), 10000));
        lf_send(feeds[round % LANES], 2 * round);
        lf_send(feeds[round % LANES], 2 * round + 1);
        lf_wait_join(&waiters[0], RI_OK);
        lf_wait_join(&waiters[1], RI_OK);
        ck_assert_uint_eq(waiters[0].cookie + waiters[1].cookie, 4 * round + 1);
    }
}
END_TEST

START_TEST(abort_reaches_who_sleeps_in_any_lane)
{
    struct lf_waiter waiters[3];

    for (int i = 0; i < 3; i++)
        lf_wait_start(&waiters[i], evd, FOR_EVER);
    ual_evd_abort(evd);
    for (int i = 0; i < 3; i++)
        lf_wait_join(&waiters[i], ITAL_ERR_ABORTED);
}
END_TEST

START_TEST(the_descriptor_tells_of_any_lane)
{
    struct ual_evd *with_fd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct lf_pipe *pipes[LANES] = { lf_pipe_on(with_fd, 0), lf_pipe_on(with_fd, 1) };
    struct pollfd fd = { .fd = ual_evd_fd(with_fd), .events = POLLIN };
    struct tc_rng rng = tc_rng(1);
    struct ual_event event;

    fails(ual_evd_dequeue(with_fd, &event), ITAL_ERR_EMPTY);
    for (uint64_t i = 0; i < 200; i++) {
        enum ri_status status;

        lf_send(pipes[tc_below(&rng, LANES)], i);
        do {
            ck_assert_int_eq(poll(&fd, 1, (int)tc_timeout_ms(10000)), 1);
            status = ual_evd_dequeue(with_fd, &event);
        } while (status == ITAL_ERR_EMPTY);
        ck_assert_uint_eq(event.wc.cookie, i);
    }
    for (uint32_t i = 0; i < LANES; i++)
        lf_pipe_close(pipes[i]);
}
END_TEST

/* --- what lanes share --- */

static void *work_on_one_lane(void *arg)
{
    struct lf_pipe *pipe = arg;
    struct ual_event event;

    for (uint64_t i = 0; i < 300; i++) {
        lf_send(pipe, i);
        if (i % 2) {
            ok(ual_evd_wait(pipe->evd, FOR_EVER, &event, NULL));
            ck_assert_uint_eq(event.wc.cookie, i);
        } else {
            ck_assert_uint_eq(poll_for(pipe->evd), i);
        }
    }
    return NULL;
}

/* Every lock of the first lane is taken. */
START_TEST(no_lock_is_shared)
{
    struct ual_lane *first = lf_lanes->lane[0];
    struct ual_evd *apart = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *pipe = lf_pipe_on(apart, 1);
    struct timespec until;
    pthread_t thread;

    ual_lane_pause(first);
    spinlock_lock(&first->sleep_lock);
    spinlock_lock(&first->timer_lock);
    spinlock_lock(&first->dead_lock);
    pthread_mutex_lock(&lf_ia->lock);
    ck_assert_int_eq(pthread_create(&thread, NULL, work_on_one_lane, pipe), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += tc_timeout_ms(10000) / 1000;
    ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &until), 0);
    pthread_mutex_unlock(&lf_ia->lock);
    spinlock_unlock(&first->dead_lock);
    spinlock_unlock(&first->timer_lock);
    spinlock_unlock(&first->sleep_lock);
    ual_lane_resume(first);
    lf_pipe_close(pipe);
}
END_TEST

/* --- the end --- */

START_TEST(joined_lanes_are_run_by_who_runs_the_first)
{
    struct ual_waiter waiter = { .served = false };

    ual_lanes_stop(lf_lanes);
    ual_lanes_join_begin(lf_lanes);
    ual_lane_wait_begin(lf_lane, &waiter);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t end = tc_deadline(10000);

        lf_send(feeds[1], i);
        while (atomic_load(&lf_records) <= i) {
            ck_assert(!tc_expired(end));
            ual_lane_wait_reset(&waiter);
            if (ual_lane_wait_arm(lf_lane, &waiter, NULL))
                ual_lane_wait_sleep(lf_lane, &waiter, NULL, end);
        }
    }
    ual_lane_wait_end(lf_lane, &waiter);
    ual_lanes_join_end(lf_lanes);
    for (uint32_t i = 0; i < LANES; i++)
        lf_pipe_close(feeds[i]);
    while (lf_ia->evds)
        ok(ual_evd_free(lf_ia->evds));
    ual_lanes_close(lf_lanes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("several lanes");
    TCase *tc = tc_case(suite, "places", NULL, NULL);

    tc_add_tests(tc, few_endpoints_of_an_evd_stay_together, many_endpoints_of_an_evd_spread);
    tc = tc_case(suite, "running and sleeping", setup, teardown);
    tcase_set_timeout(tc, 60);
    tc_add_tests(tc, who_polls_runs_every_lane_that_feeds, any_lane_wakes_who_waits,
                 the_other_lane_is_entrusted_at_once, who_is_entrusted_sleeps_at_once,
                 who_waits_together_sleeps_in_different_lanes, abort_reaches_who_sleeps_in_any_lane,
                 the_descriptor_tells_of_any_lane, no_lock_is_shared);
    tc = tc_case(suite, "closing", setup, NULL);
    tcase_add_test(tc, joined_lanes_are_run_by_who_runs_the_first);
    return tc_main(suite);
}

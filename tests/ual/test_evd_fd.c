/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of event dispatchers: readable while there is an event, signalled by the traffic
 * itself, no lasting spurious wake-ups.
 */
#include "evd_checks.h"

#include <sched.h>
#include <sys/epoll.h>

START_TEST(readable_while_events_are_queued)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, UAL_EVD_FD);

    ck_assert_int_ge(ual_evd_fd(evd), 0);
    for (int round = 0; round < 3; round++) {
        ck_assert(!readable(evd));
        post(evd, 1);
        post(evd, 2);
        ck_assert(readable(evd));
        dequeue(evd);
        ck_assert(readable(evd));
        dequeue(evd);
        expect_empty(evd);
    }
    ck_assert_int_eq(ual_evd_fd(lf_evd(UAL_STREAM_SOFTWARE, 8, 0)), -1);
}
END_TEST

START_TEST(readable_by_traffic_that_nobody_waits_for)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);
    unsigned int records = atomic_load(&lf_records);
    struct ual_event event;

    for (uint64_t i = 0; i < 50; i++) {
        expect_lowered(evd, records + (unsigned int)i);
        lf_send(feed, i);
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
        ok(ual_evd_dequeue(evd, &event));
        ck_assert_uint_eq(event.wc.cookie, i);
        expect_empty(evd);
    }
    lf_pipe_close(feed);
}
END_TEST

static bool read_here(void)
{
    return atomic_load(&lf_reader) == (unsigned long)pthread_self();
}

/* Sends events until the descriptor listens to the traffic itself: the consumer then wakes and
 * reads, not the background thread. */
static void come_to_listen(struct ual_evd *evd, struct lf_pipe *feed, bool alone)
{
    unsigned int records = atomic_load(&lf_records);
    struct ual_event event;
    uint64_t limit = tc_deadline(20000);

    for (unsigned int row = 0; row < 20; row = read_here() ? row + 1 : 0) {
        ck_assert_msg(!tc_expired(limit), "the background thread goes on reading");
        lf_send(feed, row);
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
        if (alone) /* no other event ever came: it is there whichever thread runs the lane */
            ok(ual_evd_dequeue(evd, &event));
        else
            for (limit = tc_deadline(20000); ual_evd_dequeue(evd, &event) != RI_OK;)
                ck_assert(!tc_expired(limit));
        ck_assert_uint_eq(event.wc.cookie, row);
        expect_empty(evd);
        expect_lowered(evd, ++records);
    }
}

START_TEST(a_polled_descriptor_is_woken_by_the_traffic)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);

    come_to_listen(evd, feed, true);
    lf_pipe_close(feed);
}
END_TEST

/* Events for another EVD wake the consumer a few times at most, and the other EVD is served. */
START_TEST(traffic_for_others_does_not_go_on_waking)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *feed = lf_pipe(evd), *other_feed = lf_pipe(other);
    struct ual_event event;
    unsigned int in_vain = 0;

    come_to_listen(evd, feed, false);
    for (uint64_t i = 0; i < 50; i++) {
        unsigned int before = atomic_load(&lf_records);
        uint64_t limit = tc_deadline(10000);

        lf_send(other_feed, i);
        while (atomic_load(&lf_records) == before) {
            ck_assert(!tc_expired(limit));
            if (tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(1)) > 0) {
                in_vain++;
                expect_empty(evd);
            }
        }
        ok(ual_evd_wait(other, tc_timeout_ms(10000) * 1000ull, &event, NULL));
        ck_assert_uint_eq(event.wc.cookie, i);
    }
    ck_assert_uint_le(in_vain, 2);
    come_to_listen(evd, feed, false); /* again */
    lf_pipe_close(feed);
    lf_pipe_close(other_feed);
}
END_TEST

/* The kernel limits the paths from a socket through a consumer's epoll set. There are more
 * descriptors than that: if each listened, the set would refuse one. */
START_TEST(many_descriptors_fit_in_a_set)
{
    enum { MANY = 110, ROUNDS = 40 };
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct lf_pipe *feeds[MANY];
    struct ual_event event;

    for (unsigned int i = 0; i < MANY; i++) {
        struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);

        feeds[i] = lf_pipe(evd);
        for (unsigned int round = 0; round < ROUNDS; round++) {
            uint64_t limit = tc_deadline(10000);

            lf_send(feeds[i], round);
            ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, limit), 0);
            while (ual_evd_dequeue(evd, &event) != RI_OK)
                ck_assert(!tc_expired(limit));
            expect_empty(evd);
        }
    }
    for (unsigned int i = 0; i < MANY; i++) {
        struct epoll_event wanted = { .events = EPOLLIN };

        ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, ual_evd_fd(feeds[i]->evd), &wanted), 0);
    }
    for (unsigned int i = 0; i < MANY; i++)
        lf_pipe_close(feeds[i]);
    close(set);
}
END_TEST

/* A wake-up of the lane without a sleeper does not keep a listening descriptor readable. */
START_TEST(a_stray_wake_does_not_stay_readable)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);

    for (int i = 0; i < 20; i++) {
        uint64_t limit = tc_deadline(10000);

        come_to_listen(evd, feed, false);
        ual_lane_wake(lf_lane);
        while (readable(evd)) {
            expect_empty(evd);
            ck_assert(!tc_expired(limit));
        }
    }
    lf_pipe_close(feed);
}
END_TEST

/* A run of the background thread that delivered something may raise the descriptor after the
 * consumer has taken that; finding the queue empty clears it. */
static bool rests(struct ual_evd *evd)
{
    expect_empty(evd);
    return !readable(evd);
}

/* A consumer polls by dequeuing: events that its own run delivered and that it took at once leave
 * the descriptor cleared, and armed. */
START_TEST(own_runs_leave_the_descriptor_right)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);
    unsigned int own = 0;
    struct ual_event event;

    for (uint64_t i = 0; i < 300; i++) {
        uint64_t end = clock_now() + 50 * CLOCK_NS_PER_US, limit = tc_deadline(10000);
        uint64_t records = 1 + i % 2;

        while (clock_now() < end)
            expect_empty(evd);
        for (uint64_t record = 0; record < records; record++)
            lf_send(feed, record);
        while (ual_evd_dequeue(evd, &event) != RI_OK)
            ck_assert(!tc_expired(limit));
        own += records == 1 && read_here() && !readable(evd);
        if (records == 2) {
            ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
            while (ual_evd_dequeue(evd, &event) != RI_OK)
                ck_assert(!tc_expired(limit));
            ck_assert_uint_eq(event.wc.cookie, 1);
        }
        if (i % 3 == 0) { /* without a dequeue that finds the queue empty */
            lf_complete(evd, 9);
            ck_assert(readable(evd));
            ok(ual_evd_dequeue(evd, &event));
            ck_assert_uint_eq(event.wc.cookie, 9);
        }
        ck_assert(tc_until(rests(evd), 10000));
    }
    ck_assert_uint_gt(own, 50);
    lf_pipe_close(feed);
}
END_TEST

/* Yields, so that another thread can run on a single processor too. */
static void spin_politely(void)
{
    static _Thread_local unsigned int spins;

    if (++spins % 1024 == 0)
        sched_yield();
}

struct poster {
    struct ual_evd *evd;
    atomic_ulong wanted, posted;
};

static void *post_wanted(void *arg)
{
    struct poster *poster = arg;

    for (unsigned long i = 1; i <= tc_count(5000); i++) {
        while (atomic_load(&poster->wanted) < i)
            spin_politely();
        post(poster->evd, i);
        atomic_store(&poster->posted, i);
    }
    return NULL;
}

/* The event is dequeued, and the queue is found empty, before its post has raised the descriptor:
 * the next dequeue clears it. */
START_TEST(who_is_faster_than_the_descriptor_lowers_it_later)
{
    struct poster poster = { .evd = lf_evd(UAL_STREAM_SOFTWARE, 8, UAL_EVD_FD) };
    struct ual_event event;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, post_wanted, &poster), 0);
    for (unsigned long i = 1; i <= tc_count(5000); i++) {
        atomic_store(&poster.wanted, i);
        while (ual_evd_dequeue(poster.evd, &event) != RI_OK)
            spin_politely();
        expect_empty(poster.evd);
        while (atomic_load(&poster.posted) < i)
            spin_politely();
        expect_empty(poster.evd);
        ck_assert_msg(!readable(poster.evd), "round %lu: readable, and stays so", i);
    }
    pthread_join(thread, NULL);
}
END_TEST

/* A consumer that calls only when an event is queued, for long, never finds the queue empty. It is
 * not polling, and arming tells the provider so. _i: 0, others ran the lane; 1, its own runs
 * deliver. */
START_TEST(who_finds_all_by_a_descriptor_does_not_poll)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct ual_event event;

    atomic_store(&lf_untold, 0);
    lf_complete(evd, 0); /* the CQ fires, and does not again until it is armed */
    ok(ual_evd_dequeue(evd, &event));
    for (uint64_t i = 1; i < 100; i++) {
        uint64_t limit = tc_deadline(10000);

        if (_i)
            lf_complete_in(evd, i, 1);
        else
            lf_complete(evd, i);
        while (ual_evd_dequeue(evd, &event) != RI_OK)
            ck_assert(!tc_expired(limit));
        ck_assert_uint_eq(event.wc.cookie, i);
    }
    ck_assert_uint_lt(atomic_load(&lf_untold), 16); /* softrdma: TX_HITS */
    expect_empty(evd);
    ck_assert(!readable(evd));
}
END_TEST

START_TEST(a_waiter_that_leaves_raises_no_descriptor)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, UAL_EVD_FD);
    struct lf_waiter first, second;

    lf_wait_start(&first, evd, 50000);
    lf_wait_start(&second, evd, FOR_EVER);
    lf_wait_join(&first, RI_ERR_TIMED_OUT);
    ck_assert(!readable(evd));
    post(evd, 1);
    lf_wait_join(&second, RI_OK);
}
END_TEST

static unsigned long total;
static atomic_ulong taken_so_far;

/* Two events at a time, close together, after all earlier ones were taken. */
static void *produce_pairs(void *arg)
{
    struct ual_evd *evd = arg;
    struct tc_rng rng = tc_rng(4);

    for (unsigned long i = 0; i < total; i++) {
        if (i % 2 == 0) {
            if (!tc_until(atomic_load(&taken_so_far) == i, 10000))
                ck_abort_msg("event %lu of %lu is queued, and the descriptor is not readable",
                             atomic_load(&taken_so_far), i);
            for (uint64_t pause = tc_below(&rng, 8000); pause; pause--)
                __asm__ volatile("");
        }
        if (ual_evd_stream(evd) == UAL_STREAM_DTO)
            lf_complete(evd, i);
        else
            post(evd, i);
    }
    return NULL;
}

/* A consumer takes one event each time the descriptor is readable, and never checks for more. */
START_TEST(one_event_per_poll_gets_all)
{
    struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 4096, UAL_EVD_FD);
    struct ual_event event;
    pthread_t producer;

    total = 2 * tc_count(20000);
    pthread_create(&producer, NULL, produce_pairs, evd);
    for (unsigned long taken = 0; taken < total;) {
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(20000)), 0);
        if (ual_evd_dequeue(evd, &event) != RI_OK)
            continue;
        ck_assert_uint_eq(_i ? event.wc.cookie : (uintptr_t)event.software, taken);
        atomic_store(&taken_so_far, ++taken);
    }
    pthread_join(producer, NULL);
    expect_empty(evd);
    ck_assert(!readable(evd));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors of event dispatchers");
    TCase *descriptor = tcase_create("descriptor");

    lf_add_cases(suite, &descriptor, 1, setup, teardown);
    tc_add_tests(
        descriptor, readable_while_events_are_queued, readable_by_traffic_that_nobody_waits_for,
        a_polled_descriptor_is_woken_by_the_traffic, traffic_for_others_does_not_go_on_waking,
        many_descriptors_fit_in_a_set, a_stray_wake_does_not_stay_readable,
        own_runs_leave_the_descriptor_right, who_is_faster_than_the_descriptor_lowers_it_later,
        a_waiter_that_leaves_raises_no_descriptor);
    tc_add_loops(descriptor, 0, 2, who_finds_all_by_a_descriptor_does_not_poll,
                 one_event_per_poll_gets_all);
    return tc_main(suite);
}

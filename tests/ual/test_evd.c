/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatchers: order, room, descriptors, waiters, the end. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane_fake.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define CROWD 6

static void setup(void)
{
    lf_open(0);
}

static void teardown(void)
{
    lf_close();
}

static bool readable(struct ual_evd *evd)
{
    return tc_wait_fd(ual_evd_fd(evd), POLLIN, 0) > 0;
}

static void post(struct ual_evd *evd, uintptr_t number)
{
    ok(ual_evd_post(evd, (void *)number));
}

static uintptr_t dequeue(struct ual_evd *evd)
{
    struct ual_event event;

    ok(ual_evd_dequeue(evd, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_SOFTWARE);
    ck_assert_uint_eq(event.evd, ual_handle_of(evd));
    return (uintptr_t)event.software;
}

static void expect_empty(struct ual_evd *evd)
{
    struct ual_event event;

    fails(ual_evd_dequeue(evd, &event), UAL_ERR_EMPTY);
}

/* --- queue --- */

START_TEST(first_in_first_out_up_to_its_size)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 5, 0);
    struct ual_event event;
    size_t more = 99;

    expect_empty(evd);
    for (uintptr_t i = 0; i < 5; i++)
        post(evd, i);
    fails(ual_evd_post(evd, NULL), UAL_ERR_FULL);
    ck_assert(!ual_evd_overflowed(evd)); /* refused, nothing is lost */
    ck_assert_uint_eq(dequeue(evd), 0);
    post(evd, 5);
    ok(ual_evd_wait(evd, 0, &event, &more));
    ck_assert_uint_eq((uintptr_t)event.software, 1);
    ck_assert_uint_eq(more, 4);
    for (uintptr_t i = 2; i < 6; i++)
        ck_assert_uint_eq(dequeue(evd), i);
    expect_empty(evd);
    fails(ual_evd_wait(evd, 0, &event, &more), UAL_ERR_TIMED_OUT);
    fails(ual_evd_wait(evd, 1000, &event, &more), UAL_ERR_TIMED_OUT);
    ck_assert_uint_eq(more, 4);
}
END_TEST

START_TEST(completions_keep_their_order)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct ual_event event;
    size_t more;

    fails(ual_evd_post(evd, NULL), UAL_ERR_INVALID_ARGUMENT);
    for (uint64_t i = 0; i < 5; i++)
        lf_complete(evd, i);
    for (uint64_t i = 0; i < 5; i++) {
        ok(ual_evd_wait(evd, FOR_EVER, &event, &more));
        ck_assert_int_eq(event.stream, UAL_STREAM_DTO);
        ck_assert_uint_eq(event.evd, ual_handle_of(evd));
        ck_assert_uint_eq(event.wc.cookie, i);
        ck_assert_uint_eq(more, 4 - i);
    }
    expect_empty(evd);
}
END_TEST

START_TEST(bad_attributes)
{
    static const struct {
        struct ual_evd_attr attr;
        enum ual_status status;
    } bad[] = {
        { { .stream = UAL_STREAM_DTO, .size = 0 }, UAL_ERR_INVALID_ARGUMENT },
        { { .stream = UAL_STREAM_DTO, .size = 4097 }, UAL_ERR_LIMIT },
        { { .stream = UAL_STREAM_SOFTWARE, .size = (1u << 20) + 1 }, UAL_ERR_LIMIT },
        { { .stream = UAL_STREAM_NOTIFICATION, .size = 1 }, UAL_ERR_NOT_SUPPORTED },
        { { .stream = UAL_STREAM_DTO, .size = 1, .threshold = 2 }, UAL_ERR_NOT_SUPPORTED },
        { { .stream = UAL_STREAM_DTO, .size = 1, .flags = UAL_EVD_NOTIFICATIONS },
          UAL_ERR_NOT_SUPPORTED },
    };
    struct ual_evd_attr async = { .stream = UAL_STREAM_AFFILIATED, .size = 1 };
    struct ual_evd *evd = NULL, *first;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fails(ual_evd_create(lf_ia, &bad[i].attr, &evd), bad[i].status);
    ck_assert_ptr_null(evd);
    ok(ual_evd_create(lf_ia, &async, &first));
    ck_assert(ual_evd_bound(first));
    fails(ual_evd_create(lf_ia, &async, &evd), UAL_ERR_EXISTS);
    ok(ual_evd_free(first));
    ok(ual_evd_create(lf_ia, &async, &first));
}
END_TEST

static bool message(struct ual_evd *evd, ual_handle ep, enum ual_connection_message which)
{
    struct ual_event event = { .connection = { .message = which, .ep = ep } };

    return ual_evd_push(evd, &event);
}

START_TEST(bound_endpoints_have_places_in_reserve)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_CONNECTION, 1, 0);

    ual_evd_bind(evd, 0);
    ck_assert(ual_evd_bound(evd));
    fails(ual_evd_free(evd), UAL_ERR_BUSY);
    for (int i = 0; i < 3; i++)
        ck_assert(message(evd, 1, UAL_ESTABLISHED));
    ck_assert(!ual_evd_overflowed(evd));
    ck_assert(!message(evd, 1, UAL_ESTABLISHED));
    ck_assert(ual_evd_overflowed(evd));
    ual_evd_unbind(evd, 0);
    ok(ual_evd_free(evd));
}
END_TEST

START_TEST(purge_takes_one_source_only)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_CONNECTION, 16, 0);
    struct ual_event event;

    for (int i = 0; i < 12; i++)
        ck_assert(
            message(evd, (ual_handle)(i % 3) + 1, i < 6 ? UAL_ESTABLISHED : UAL_DISCONNECTED));
    ual_evd_purge(evd, 2);
    ual_evd_purge(evd, 77);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 1)
            continue;
        ok(ual_evd_dequeue(evd, &event));
        ck_assert_uint_eq(event.connection.ep, (ual_handle)(i % 3) + 1);
        ck_assert_int_eq(event.connection.message, i < 6 ? UAL_ESTABLISHED : UAL_DISCONNECTED);
    }
    expect_empty(evd);
}
END_TEST

START_TEST(an_overflow_is_told_on_the_affiliated_evd)
{
    struct ri_event overflow = { .size = sizeof(overflow), .type = RI_EVENT_CQ_OVERFLOW };
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 4, 0);
    struct ual_evd *affiliated = lf_evd(UAL_STREAM_AFFILIATED, 4, 0);
    struct ual_event event;

    ual_evd_cq_error(evd, &overflow);
    ck_assert(ual_evd_overflowed(evd));
    ok(ual_evd_dequeue(affiliated, &event));
    ck_assert_int_eq(event.async.type, RI_EVENT_CQ_OVERFLOW);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(evd));
}
END_TEST

/* --- descriptor --- */

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
    struct ual_event event;

    for (uint64_t i = 0; i < 50; i++) {
        ck_assert(!readable(evd));
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

/* Traffic that a consumer waits for in poll wakes the consumer, not a thread that tells it. */
static void come_to_listen(struct ual_evd *evd, struct lf_pipe *feed, bool alone)
{
    struct ual_event event;
    uint64_t limit = tc_deadline(20000);

    for (unsigned int row = 0; row < 20; row = read_here() ? row + 1 : 0) {
        ck_assert_msg(!tc_expired(limit), "the background thread goes on reading");
        lf_send(feed, row);
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
        if (alone) /* nothing but this ever came: whoever runs the lane, it is there */
            ok(ual_evd_dequeue(evd, &event));
        else
            for (limit = tc_deadline(20000); ual_evd_dequeue(evd, &event) != UAL_OK;)
                ck_assert(!tc_expired(limit));
        ck_assert_uint_eq(event.wc.cookie, row);
        expect_empty(evd);
        ck_assert(!readable(evd));
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

/* What comes for another EVD wakes the consumer a few times in vain at most, and the others are served. */
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

/* More descriptors than the kernel allows paths from a socket by way of a set of the consumer's: each would listen, if it
 * could, and the set would refuse one that listens. */
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
            while (ual_evd_dequeue(evd, &event) != UAL_OK)
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

/* A wake of the lane that nobody sleeps for does not keep a listening descriptor readable. */
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

/* A consumer that polls by dequeuing: what its own run brought and it took at once leaves the descriptor down, and armed. */
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
        while (ual_evd_dequeue(evd, &event) != UAL_OK)
            ck_assert(!tc_expired(limit));
        own += records == 1 && read_here() && !readable(evd);
        if (records == 2) {
            ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
            while (ual_evd_dequeue(evd, &event) != UAL_OK)
                ck_assert(!tc_expired(limit));
            ck_assert_uint_eq(event.wc.cookie, 1);
        }
        if (i % 3 == 0) { /* without a dequeue that finds nothing in between */
            lf_complete(evd, 9);
            ck_assert(readable(evd));
            ok(ual_evd_dequeue(evd, &event));
            ck_assert_uint_eq(event.wc.cookie, 9);
        }
        expect_empty(evd);
        ck_assert(!readable(evd));
    }
    ck_assert_uint_gt(own, 50);
    lf_pipe_close(feed);
}
END_TEST

/* On one processor, too, another thread gets on. */
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

/* The event is taken, and nothing more found, while its post has yet to raise the descriptor: later the next one lowers it. */
START_TEST(who_is_faster_than_the_descriptor_lowers_it_later)
{
    struct poster poster = { .evd = lf_evd(UAL_STREAM_SOFTWARE, 8, UAL_EVD_FD) };
    struct ual_event event;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, post_wanted, &poster), 0);
    for (unsigned long i = 1; i <= tc_count(5000); i++) {
        atomic_store(&poster.wanted, i);
        while (ual_evd_dequeue(poster.evd, &event) != UAL_OK)
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

/* A consumer that comes when what it waits for is there, for long, never finds nothing. It does not poll for that, which
 * providers are told by arming. _i: 0, others ran the lane; 1, its own runs bring it. */
START_TEST(who_finds_all_by_a_descriptor_does_not_poll)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, UAL_EVD_FD);
    struct ual_event event;

    atomic_store(&lf_untold, 0);
    lf_complete(evd, 0); /* fires: from here on nothing does until somebody arms */
    ok(ual_evd_dequeue(evd, &event));
    for (uint64_t i = 1; i < 100; i++) {
        uint64_t limit = tc_deadline(10000);

        if (_i)
            lf_complete_in(evd, i, 1);
        else
            lf_complete(evd, i);
        while (ual_evd_dequeue(evd, &event) != UAL_OK)
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
    lf_wait_join(&first, UAL_ERR_TIMED_OUT);
    ck_assert(!readable(evd));
    post(evd, 1);
    lf_wait_join(&second, UAL_OK);
}
END_TEST

static unsigned long total;

static void *produce(void *arg)
{
    struct ual_evd *evd = arg;
    struct tc_rng rng = tc_rng(3);

    for (unsigned long i = 0; i < total; i++) {
        if (ual_evd_stream(evd) == UAL_STREAM_DTO) {
            lf_complete(evd, i);
        } else {
            while (ual_evd_post(evd, (void *)(uintptr_t)i) != UAL_OK)
                sched_yield();
        }
        for (uint64_t pause = tc_below(&rng, 300); pause; pause--)
            __asm__ volatile("");
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static atomic_ulong taken_so_far;

/* Two events at a time, close together, when all is taken. */
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

/* A consumer that takes one event each time the descriptor is readable, and never asks whether there are more. */
START_TEST(one_event_per_poll_gets_all)
{
    struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 4096, UAL_EVD_FD);
    struct ual_event event;
    pthread_t producer;

    total = 2 * tc_count(20000);
    pthread_create(&producer, NULL, produce_pairs, evd);
    for (unsigned long taken = 0; taken < total;) {
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(20000)), 0);
        if (ual_evd_dequeue(evd, &event) != UAL_OK)
            continue;
        ck_assert_uint_eq(_i ? event.wc.cookie : (uintptr_t)event.software, taken);
        atomic_store(&taken_so_far, ++taken);
    }
    pthread_join(producer, NULL);
    expect_empty(evd);
    ck_assert(!readable(evd));
}
END_TEST

/* --- waiters --- */

START_TEST(one_event_returns_one_waiter)
{
    struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 64, 0);
    struct lf_waiter waiters[CROWD];
    unsigned int done;

    for (int i = 0; i < CROWD; i++)
        lf_wait_start(&waiters[i], evd, FOR_EVER);
    fails(ual_evd_free(evd), UAL_ERR_BUSY);
    for (unsigned int round = 1; round <= CROWD; round++) {
        if (_i)
            lf_complete(evd, round);
        else
            post(evd, round);
        ck_assert(tc_until(({
                               done = 0;
                               for (int i = 0; i < CROWD; i++)
                                   done += atomic_load(&waiters[i].done);
                               done;
                           }) == round,
                           10000));
    }
    for (int i = 0; i < CROWD; i++)
        lf_wait_join(&waiters[i], UAL_OK);
    expect_empty(evd);
}
END_TEST

/* As many events as waiters, at once: each gets one, though the CQ fires once; also where none of them is the sleeper,
 * who hands the sleep and a look over when it leaves. */
START_TEST(a_burst_returns_all_waiters)
{
    struct ual_evd *evd = lf_evd(_i % 2 ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 64, 0);
    struct ual_evd *other = lf_evd(UAL_STREAM_SOFTWARE, 1, 0);
    struct lf_waiter waiters[CROWD], sleeper;

    if (_i / 2)
        lf_wait_start(&sleeper, other, FOR_EVER);
    for (unsigned long round = 0; round < tc_count(50); round++) {
        for (int i = 0; i < CROWD; i++)
            lf_wait_start(&waiters[i], evd, FOR_EVER);
        for (uint64_t i = 0; i < CROWD; i++) {
            if (_i % 2)
                lf_complete(evd, i);
            else
                post(evd, i);
        }
        for (int i = 0; i < CROWD; i++)
            lf_wait_join(&waiters[i], UAL_OK);
        expect_empty(evd);
    }
    if (_i / 2) {
        post(other, 0);
        lf_wait_join(&sleeper, UAL_OK);
    }
}
END_TEST

static atomic_ulong taken_by_all;

static void *consume(void *arg)
{
    struct ual_evd *evd = arg;
    struct ual_event event;
    enum ual_status status;

    while ((status = ual_evd_wait(evd, FOR_EVER, &event, NULL)) == UAL_OK)
        atomic_fetch_add(&taken_by_all, 1);
    ck_assert_int_eq(status, UAL_ERR_ABORTED);
    return NULL;
}

START_TEST(a_crowd_loses_nothing)
{
    struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 4096, 0);
    pthread_t consumers[CROWD], producer;

    total = _i ? 4000 : tc_count(30000);
    for (int i = 0; i < CROWD; i++)
        pthread_create(&consumers[i], NULL, consume, evd);
    pthread_create(&producer, NULL, produce, evd);
    pthread_join(producer, NULL);
    ck_assert(tc_until(atomic_load(&taken_by_all) == total, 10000));
    ual_evd_abort(evd);
    for (int i = 0; i < CROWD; i++)
        pthread_join(consumers[i], NULL);
}
END_TEST

START_TEST(at_most_64_wait)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 1, 0);
    struct lf_waiter waiters[64];
    struct ual_event event;

    for (int i = 0; i < 64; i++)
        lf_wait_start(&waiters[i], evd, FOR_EVER);
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), UAL_ERR_WAITER_LIMIT);
    ual_evd_abort(evd);
    for (int i = 0; i < 64; i++)
        lf_wait_join(&waiters[i], UAL_ERR_ABORTED);
}
END_TEST

/* --- the end --- */

/* Who waits, in a call or by a descriptor, for what a dead device will never bring hears of it; what is there is still taken. */
START_TEST(death_releases_all)
{
    enum ual_stream stream = _i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE;
    struct ual_evd *evds[] = { lf_evd(stream, 64, 0), lf_evd(stream, 64, UAL_EVD_FD),
                               lf_evd(UAL_STREAM_SOFTWARE, 64, UAL_EVD_FD) };
    struct lf_waiter waiters[2][CROWD];
    struct ual_event event;

    expect_empty(evds[2]);
    ck_assert(!readable(evds[2]));
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < CROWD; i++)
            lf_wait_start(&waiters[e][i], evds[e], FOR_EVER);
    atomic_store(&lf_ia->dead, true);
    ual_evd_all_dead(lf_ia);
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < CROWD; i++)
            lf_wait_join(&waiters[e][i], UAL_ERR_DEAD);
    for (int look = 0; look < 2; look++) { /* it speaks until it is freed */
        ck_assert(readable(evds[2]));
        fails(ual_evd_dequeue(evds[2], &event), UAL_ERR_DEAD);
    }
    post(evds[2], 7);
    ok(ual_evd_dequeue(evds[2], &event));
    for (int e = 0; e < 3; e++) {
        fails(ual_evd_wait(evds[e], 0, &event, NULL), UAL_ERR_DEAD);
        fails(ual_evd_wait(evds[e], FOR_EVER, &event, NULL), UAL_ERR_DEAD);
    }
}
END_TEST

START_TEST(abort_returns_when_nobody_is_inside)
{
    lf_close();
    lf_open(_i ? 200000 : 0); /* waiters that spin first, or sleep at once */
    for (unsigned long round = 0; round < tc_count(300); round++) {
        struct ual_evd *evd = lf_evd(round % 2 ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 4,
                                     UAL_EVD_FD);
        const bool posted = round % 3 == 0 && round % 2 == 0;
        struct lf_waiter waiters[3];
        struct ual_event event;
        unsigned int by_event = 0;

        for (int i = 0; i < 3; i++) {
            lf_wait_start(&waiters[i], evd, FOR_EVER);
        }
        if (posted)
            ok(ual_evd_post(evd, NULL)); /* one leaves by itself meanwhile */
        ual_evd_abort(evd);
        fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), UAL_ERR_ABORTED);
        ok(ual_evd_free(
            evd)); /* at once: a waiter that still looks at it shows under ASan and TSan */
        for (int i = 0; i < 3; i++) {
            pthread_join(waiters[i].thread, NULL);
            ck_assert(waiters[i].status == UAL_ERR_ABORTED || waiters[i].status == UAL_OK);
            by_event += waiters[i].status == UAL_OK;
        }
        ck_assert_uint_le(by_event, posted);
    }
}
END_TEST

/* Abort also reaches a waiter that the traffic of others keeps from sleeping. */
static void *wait_once(void *arg)
{
    struct ual_event event;

    fails(ual_evd_wait(arg, FOR_EVER, &event, NULL), UAL_ERR_ABORTED);
    return NULL;
}

START_TEST(abort_on_a_busy_lane)
{
    struct ual_evd *other = lf_evd(UAL_STREAM_DTO, 4096, 0);
    struct lf_pipe *feed = lf_pipe(other);
    pthread_t waiter;

    atomic_store(&lf_lazy, 1);
    lf_flood_start(feed);
    for (int i = 0; i < 20; i++) {
        struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 4, 0);

        pthread_create(&waiter, NULL, wait_once, evd);
        lf_pass(1000);
        ual_evd_abort(evd);
        pthread_join(waiter, NULL);
    }
    lf_flood_stop();
    lf_pipe_close(feed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event dispatchers lose nothing");
    TCase *queue = tcase_create("queue"), *descriptor = tcase_create("descriptor");
    TCase *waiters = tcase_create("waiters"), *end = tcase_create("end");
    TCase *all[] = { queue, descriptor, waiters, end };

    for (size_t i = 0; i < 4; i++) {
        tcase_add_checked_fixture(all[i], setup, teardown);
        tcase_set_timeout(all[i], 60);
        suite_add_tcase(suite, all[i]);
    }
    tcase_add_test(queue, first_in_first_out_up_to_its_size);
    tcase_add_test(queue, completions_keep_their_order);
    tcase_add_test(queue, bad_attributes);
    tcase_add_test(queue, bound_endpoints_have_places_in_reserve);
    tcase_add_test(queue, purge_takes_one_source_only);
    tcase_add_test(queue, an_overflow_is_told_on_the_affiliated_evd);
    tcase_add_test(descriptor, readable_while_events_are_queued);
    tcase_add_test(descriptor, readable_by_traffic_that_nobody_waits_for);
    tcase_add_test(descriptor, a_polled_descriptor_is_woken_by_the_traffic);
    tcase_add_test(descriptor, traffic_for_others_does_not_go_on_waking);
    tcase_add_test(descriptor, many_descriptors_fit_in_a_set);
    tcase_add_test(descriptor, a_stray_wake_does_not_stay_readable);
    tcase_add_test(descriptor, own_runs_leave_the_descriptor_right);
    tcase_add_test(descriptor, who_is_faster_than_the_descriptor_lowers_it_later);
    tcase_add_loop_test(descriptor, who_finds_all_by_a_descriptor_does_not_poll, 0, 2);
    tcase_add_test(descriptor, a_waiter_that_leaves_raises_no_descriptor);
    tcase_add_loop_test(descriptor, one_event_per_poll_gets_all, 0, 2);
    tcase_add_loop_test(waiters, one_event_returns_one_waiter, 0, 2);
    tcase_add_loop_test(waiters, a_burst_returns_all_waiters, 0, 4);
    tcase_add_loop_test(waiters, a_crowd_loses_nothing, 0, 2);
    tcase_add_test(waiters, at_most_64_wait);
    tcase_add_loop_test(end, abort_returns_when_nobody_is_inside, 0, 2);
    tcase_add_loop_test(end, death_releases_all, 0, 2);
    tcase_add_test(end, abort_on_a_busy_lane);
    return tc_main(suite);
}

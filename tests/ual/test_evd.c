/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatchers: order, room, waiters, the end. Descriptors are in test_evd_fd.c. */
#include "evd_checks.h"

#include "ual/mechanism/mechanism_private.h"
#include "ual/policy/evd_private.h"

#include <sched.h>
#include <sys/epoll.h>

#define CROWD 6

/* --- queue --- */

START_TEST(first_in_first_out_up_to_its_size)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 5, 0);
    struct ual_event event;
    size_t more = 99;

    expect_empty(evd);
    for (uintptr_t i = 0; i < 5; i++)
        post(evd, i);
    fails(ual_evd_post(evd, NULL), RI_ERR_QUEUE_FULL);
    ck_assert(!ual_evd_overflowed(evd)); /* refused, nothing is lost */
    ck_assert_uint_eq(dequeue(evd), 0);
    post(evd, 5);
    ok(ual_evd_wait(evd, 0, &event, &more));
    ck_assert_uint_eq((uintptr_t)event.software, 1);
    ck_assert_uint_eq(more, 4);
    for (uintptr_t i = 2; i < 6; i++)
        ck_assert_uint_eq(dequeue(evd), i);
    expect_empty(evd);
    fails(ual_evd_wait(evd, 0, &event, &more), RI_ERR_TIMED_OUT);
    fails(ual_evd_wait(evd, 1000, &event, &more), RI_ERR_TIMED_OUT);
    ck_assert_uint_eq(more, 4);
}
END_TEST

START_TEST(completions_keep_their_order)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct ual_event event;
    size_t more;

    fails(ual_evd_post(evd, NULL), RI_ERR_INVALID_ARGUMENT);
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

/* A consumer that polls finds streaming completions, and the lane learns of all of them, but not
 * one by one. */
START_TEST(the_lane_hears_of_completions_that_are_there)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    const atomic_uint *takes = ual_lane_takes(lf_lane);
    unsigned int before = atomic_load(takes), heard = before, times = 0;
    struct ual_event event;

    for (uint64_t i = 0; i < 64; i++)
        lf_complete(evd, i);
    for (uint64_t i = 0; i < 64; i++) {
        ok(ual_evd_dequeue(evd, &event));
        ck_assert_uint_eq(event.wc.cookie, i);
        times += atomic_load(takes) != heard;
        heard = atomic_load(takes);
    }
    ck_assert_uint_eq(heard - before, 64);
    ck_assert_uint_le(times, 8);
    expect_empty(evd);
}
END_TEST

START_TEST(bad_attributes)
{
    static const struct {
        struct ual_evd_attr attr;
        enum ri_status status;
    } bad[] = {
        { { .stream = UAL_STREAM_DTO, .size = 0 }, RI_ERR_INVALID_ARGUMENT },
        { { .stream = UAL_STREAM_DTO, .size = 4097 }, RI_ERR_LIMIT },
        { { .stream = UAL_STREAM_SOFTWARE, .size = (1u << 20) + 1 }, RI_ERR_LIMIT },
        { { .stream = UAL_STREAM_DTO, .size = 1, .threshold = 2 }, RI_ERR_INVALID_ARGUMENT },
        { { .stream = UAL_STREAM_DTO, .size = 1, .flags = UAL_EVD_NOTIFICATIONS },
          RI_ERR_INVALID_ARGUMENT },
        { { .stream = UAL_STREAM_UNAFFILIATED, .size = 1, .flags = UAL_EVD_OVERFLOW_NOTIFY },
          RI_ERR_INVALID_ARGUMENT },
    };
    struct ual_evd_attr async = { .stream = UAL_STREAM_AFFILIATED, .size = 1 };
    struct ual_evd *evd = NULL, *first;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fails(ual_evd_create(lf_device, &bad[i].attr, &evd), bad[i].status);
    ck_assert_ptr_null(evd);
    ok(ual_evd_create(lf_device, &async, &first));
    ck_assert(ual_evd_bound(first));
    fails(ual_evd_create(lf_device, &async, &evd), ITAL_ERR_EXISTS);
    ok(ual_evd_free(first));
    ok(ual_evd_create(lf_device, &async, &first));
}
END_TEST

static bool message(struct ual_evd *evd, ual_handle ep, enum ual_connection_message which)
{
    struct ual_event event = { .connection = { .message = which, .ep = ep } };

    return ual_evd_push(evd, &event) == RI_OK;
}

START_TEST(bound_endpoints_have_places_in_reserve)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_CONNECTION, 1, 0);

    ual_evd_bind(evd, 0);
    ck_assert(ual_evd_bound(evd));
    fails(ual_evd_free(evd), RI_ERR_BUSY);
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

/* 8,000 endpoints with two events each are freed one after the other: each purge checks a few
 * events, however many are queued. */
START_TEST(purge_does_not_look_at_all_events)
{
    const ual_handle sources = 8000;
    struct ual_evd *evd = lf_evd(UAL_STREAM_CONNECTION, 2 * (uint32_t)sources, 0);
    struct ual_event event;

    for (ual_handle i = 0; i < 2 * sources; i++)
        ck_assert(message(evd, ((i % sources + 1) << 32) | 7,
                          i < sources ? UAL_ESTABLISHED : UAL_DISCONNECTED));
    for (ual_handle i = 0; i < sources; i += 2)
        ual_evd_purge(evd, ((i + 1) << 32) | 7);
    ck_assert_uint_le(evd->index.looked, 16 * sources / 2);
    for (ual_handle i = 1; i < 2 * sources; i += 2) { /* the others remain, in order */
        ok(ual_evd_dequeue(evd, &event));
        ck_assert_uint_eq(event.connection.ep >> 32, i % sources + 1);
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

    ual_cq_error(ual_evd_cq(evd), &overflow);
    ck_assert(ual_evd_overflowed(evd));
    ok(ual_evd_dequeue(affiliated, &event));
    ck_assert_int_eq(event.async.type, RI_EVENT_CQ_OVERFLOW);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(evd));
}
END_TEST

/* --- waiters --- */

static unsigned long total;

static void *produce(void *arg)
{
    struct ual_evd *evd = arg;
    struct tc_rng rng = tc_rng(3);

    for (unsigned long i = 0; i < total; i++) {
        if (ual_evd_stream(evd) == UAL_STREAM_DTO) {
            lf_complete(evd, i);
        } else {
            while (ual_evd_post(evd, (void *)(uintptr_t)i) != RI_OK)
                sched_yield();
        }
        for (uint64_t pause = tc_below(&rng, 300); pause; pause--)
            __asm__ volatile("");
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

START_TEST(one_event_returns_one_waiter)
{
    struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 64, 0);
    struct lf_waiter waiters[CROWD];
    unsigned int done;

    for (int i = 0; i < CROWD; i++)
        lf_wait_start(&waiters[i], evd, FOR_EVER);
    fails(ual_evd_free(evd), RI_ERR_BUSY);
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
        lf_wait_join(&waiters[i], RI_OK);
    expect_empty(evd);
}
END_TEST

/* As many events as waiters, at once: each waiter gets one although the CQ fires once, also if the
 * sleeper is not among them, which hands over the sleep and a poll when it leaves. */
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
            lf_wait_join(&waiters[i], RI_OK);
        expect_empty(evd);
    }
    if (_i / 2) {
        post(other, 0);
        lf_wait_join(&sleeper, RI_OK);
    }
}
END_TEST

static atomic_ulong taken_by_all;

static void *consume(void *arg)
{
    struct ual_evd *evd = arg;
    struct ual_event event;
    enum ri_status status;

    while ((status = ual_evd_wait(evd, FOR_EVER, &event, NULL)) == RI_OK)
        atomic_fetch_add(&taken_by_all, 1);
    ck_assert_int_eq(status, ITAL_ERR_ABORTED);
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
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), ITAL_ERR_WAITER_LIMIT);
    ual_evd_abort(evd);
    for (int i = 0; i < 64; i++)
        lf_wait_join(&waiters[i], ITAL_ERR_ABORTED);
}
END_TEST

/* --- the end --- */

/* A device dies: threads that wait for its events, in a call or by a descriptor, are released;
 * queued events can still be taken. */
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
    atomic_store(&lf_device->dead, true);
    ual_evd_all_dead(lf_ia);
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < CROWD; i++)
            lf_wait_join(&waiters[e][i], RI_ERR_DEVICE);
    for (int look = 0; look < 2; look++) { /* it reports that until it is freed */
        ck_assert(readable(evds[2]));
        fails(ual_evd_dequeue(evds[2], &event), RI_ERR_DEVICE);
    }
    post(evds[2], 7);
    ok(ual_evd_dequeue(evds[2], &event));
    for (int e = 0; e < 3; e++) {
        fails(ual_evd_wait(evds[e], 0, &event, NULL), RI_ERR_DEVICE);
        fails(ual_evd_wait(evds[e], FOR_EVER, &event, NULL), RI_ERR_DEVICE);
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
        fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), ITAL_ERR_ABORTED);
        /* freed at once: a waiter that still uses it shows under ASan and TSan */
        ok(ual_evd_free(evd));
        for (int i = 0; i < 3; i++) {
            pthread_join(waiters[i].thread, NULL);
            ck_assert(waiters[i].status == ITAL_ERR_ABORTED || waiters[i].status == RI_OK);
            by_event += waiters[i].status == RI_OK;
        }
        ck_assert_uint_le(by_event, posted);
    }
}
END_TEST

/* Abort also reaches a waiter that traffic for other EVDs keeps from sleeping. */
static void *wait_once(void *arg)
{
    struct ual_event event;

    fails(ual_evd_wait(arg, FOR_EVER, &event, NULL), ITAL_ERR_ABORTED);
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
    TCase *queue = tcase_create("queue"), *waiters = tcase_create("waiters");
    TCase *end = tcase_create("end");

    lf_add_cases(suite, (TCase *[]){ queue, waiters, end }, 3, setup, teardown);
    tc_add_tests(queue, first_in_first_out_up_to_its_size, completions_keep_their_order,
                 the_lane_hears_of_completions_that_are_there, bad_attributes,
                 bound_endpoints_have_places_in_reserve, purge_takes_one_source_only,
                 purge_does_not_look_at_all_events, an_overflow_is_told_on_the_affiliated_evd);
    tcase_add_loop_test(waiters, one_event_returns_one_waiter, 0, 2);
    tcase_add_loop_test(waiters, a_burst_returns_all_waiters, 0, 4);
    tcase_add_loop_test(waiters, a_crowd_loses_nothing, 0, 2);
    tcase_add_test(waiters, at_most_64_wait);
    tc_add_loops(end, 0, 2, abort_returns_when_nobody_is_inside, death_releases_all);
    tcase_add_test(end, abort_on_a_busy_lane);
    return tc_main(suite);
}

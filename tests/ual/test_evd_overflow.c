/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event dispatchers that overflow: who gets the event, how the overflow ends; thresholds and sizes
 * over a provider that can neither count nor resize.
 */
#include "evd_checks.h"

#include "ual/mechanism/mechanism_private.h"
#include "ual/policy/evd_private.h"

#include <sched.h>

static struct ual_evd *evd_with(enum ual_stream stream, uint32_t size, uint32_t flags)
{
    struct ual_evd_attr attr = { .stream = stream, .size = size, .flags = flags };
    struct ual_evd *evd;

    ok(ual_evd_create(lf_device, &attr, &evd));
    return evd;
}

static enum ri_status modify(struct ual_evd *evd, struct ual_evd_modify modify)
{
    return ual_evd_modify(evd, &modify);
}

static enum ri_status message(struct ual_evd *evd)
{
    struct ual_event event = { .connection = { .message = UAL_ESTABLISHED, .ep = 5 } };

    return ual_evd_push(evd, &event);
}

/* Expects the one event that reports an overflow of that EVD. */
static void expect_told(struct ual_evd *unaffiliated, struct ual_evd *of)
{
    struct ual_event event;

    ok(ual_evd_dequeue(unaffiliated, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_UNAFFILIATED);
    ck_assert_int_eq(event.async.type, RI_EVENT_CQ_OVERFLOW);
    ck_assert_uint_eq(event.async.cause, ual_handle_of(of));
    expect_empty(unaffiliated);
}

static void empty(struct ual_evd *evd)
{
    struct ual_event event;

    while (ual_evd_dequeue(evd, &event) == RI_OK)
        ;
}

/* --- who gets the event --- */

START_TEST(told_once_until_it_is_reset)
{
    struct ual_evd *unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 8, 0);
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 2, UAL_EVD_OVERFLOW_NOTIFY);

    for (int round = 0; round < 3; round++) {
        ok(message(evd));
        ok(message(evd));
        expect_empty(unaffiliated);
        for (int i = 0; i < 3; i++)
            fails(message(evd), RI_ERR_QUEUE_FULL);
        ck_assert(ual_evd_overflowed(evd));
        expect_told(unaffiliated, evd);
        empty(evd);
        ck_assert_msg(ual_evd_overflowed(evd), "dequeuing does not reset it");
        for (int i = 0; i < 3; i++)
            message(evd);
        expect_empty(unaffiliated);
        ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_RESET }));
        ck_assert(!ual_evd_overflowed(evd));
        empty(evd);
    }
}
END_TEST

START_TEST(told_once_for_each_time_where_it_resets_itself)
{
    struct ual_evd *unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 8, 0);
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 2,
                                   UAL_EVD_OVERFLOW_NOTIFY | UAL_EVD_OVERFLOW_RESETS);
    struct ual_event event;

    ok(message(evd));
    ok(message(evd));
    for (int round = 0; round < 3; round++) {
        fails(message(evd), RI_ERR_QUEUE_FULL);
        fails(message(evd), RI_ERR_QUEUE_FULL);
        ck_assert(ual_evd_overflowed(evd));
        expect_told(unaffiliated, evd);
        ok(ual_evd_wait(evd, FOR_EVER, &event, NULL)); /* waits go on */
        ck_assert(!ual_evd_overflowed(evd));
        ok(message(evd));
    }
}
END_TEST

START_TEST(nobody_hears_of_it_who_did_not_ask)
{
    struct ual_evd *unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 8, 0);
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 1, _i ? UAL_EVD_OVERFLOW_RESETS : 0);
    struct ual_event event;

    ok(message(evd));
    fails(message(evd), RI_ERR_QUEUE_FULL);
    ck_assert(ual_evd_overflowed(evd));
    expect_empty(unaffiliated);
    ok(ual_evd_wait(evd, FOR_EVER, &event, NULL));
    ck_assert(ual_evd_overflowed(evd) == !_i);
    fails(ual_evd_wait(evd, 1000, &event, NULL), RI_ERR_TIMED_OUT); /* not refused */
}
END_TEST

/* The EVD that would get the event may be missing, or full itself: the overflow is not reported. */
START_TEST(an_overflow_that_nobody_can_hear_of)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 1, UAL_EVD_OVERFLOW_NOTIFY);
    struct ual_evd *second = evd_with(UAL_STREAM_AFFILIATED, 1, UAL_EVD_OVERFLOW_NOTIFY);
    struct ual_evd *unaffiliated;
    struct ri_event report = { .size = sizeof(report), .type = RI_EVENT_CQ_OVERFLOW };

    ok(message(evd));
    fails(message(evd), RI_ERR_QUEUE_FULL);
    unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 1, 0);
    fails(message(evd), RI_ERR_QUEUE_FULL); /* still the same overflow */
    expect_empty(unaffiliated);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_RESET }));
    fails(message(evd), RI_ERR_QUEUE_FULL);
    for (int i = 0; i < 2; i++)
        ual_ia_affiliated_event(lf_ia, &report, 7);
    ck_assert(ual_evd_overflowed(second));
    ck_assert(ual_evd_overflowed(unaffiliated));
    expect_told(unaffiliated, evd);
    ok(ual_evd_free(unaffiliated));
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_RESET }));
    fails(message(evd), RI_ERR_QUEUE_FULL);
}
END_TEST

/* --- two threads --- */

static struct {
    struct ual_evd *evd;
    atomic_uint round, ended;
} both;

static void *push_with_the_other(void *arg)
{
    unsigned int rounds = *(unsigned int *)arg;

    for (unsigned int round = 1; round <= rounds; round++) {
        while (atomic_load(&both.round) < round)
            sched_yield();
        fails(message(both.evd), RI_ERR_QUEUE_FULL);
        atomic_fetch_add(&both.ended, 1);
    }
    return NULL;
}

START_TEST(told_once_by_two_threads)
{
    struct ual_evd *unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 8, 0);
    unsigned int rounds = (unsigned int)tc_count(3000);
    pthread_t other;

    both.evd = evd_with(UAL_STREAM_CONNECTION, 1, UAL_EVD_OVERFLOW_NOTIFY);
    ok(message(both.evd));
    ck_assert_int_eq(pthread_create(&other, NULL, push_with_the_other, &rounds), 0);
    for (unsigned int round = 1; round <= rounds; round++) {
        atomic_store(&both.round, round);
        fails(message(both.evd), RI_ERR_QUEUE_FULL);
        while (atomic_load(&both.ended) < round)
            sched_yield();
        expect_told(unaffiliated, both.evd);
        ok(modify(both.evd, (struct ual_evd_modify){ .mask = UAL_EVDM_RESET }));
    }
    pthread_join(other, NULL);
}
END_TEST

static void *push_for_ever(void *arg)
{
    while (!atomic_load((atomic_bool *)arg))
        message(both.evd);
    return NULL;
}

/* An EVD that resets itself is filled and drained at once: between two reported overflows an event
 * was taken, and afterwards it can overflow, and report, again. */
START_TEST(resets_itself_while_others_push)
{
    struct ual_evd *unaffiliated = evd_with(UAL_STREAM_UNAFFILIATED, 1u << 16, 0);
    unsigned long events = tc_count(20000), told = 0;
    struct ual_event event;
    atomic_bool over = false;
    pthread_t pushers[2];

    both.evd = evd_with(UAL_STREAM_CONNECTION, 1,
                        UAL_EVD_OVERFLOW_NOTIFY | UAL_EVD_OVERFLOW_RESETS);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&pushers[i], NULL, push_for_ever, &over), 0);
    for (unsigned long taken = 0; taken < events; taken++)
        ok(ual_evd_wait(both.evd, FOR_EVER, &event, NULL));
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(pushers[i], NULL);
    while (ual_evd_dequeue(unaffiliated, &event) == RI_OK)
        told++;
    ck_assert_uint_gt(told, 0);
    ck_assert_uint_le(told, events + 1);
    empty(both.evd);
    ck_assert(!ual_evd_overflowed(both.evd));
    ok(message(both.evd));
    fails(message(both.evd), RI_ERR_QUEUE_FULL);
    expect_told(unaffiliated, both.evd);
}
END_TEST

/* --- waits --- */

START_TEST(waits_are_refused_until_it_is_reset)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 2, UAL_EVD_OVERFLOW_NOTIFY | UAL_EVD_FD);
    struct ual_event event;
    struct lf_waiter waiter;

    for (int i = 0; i < 3; i++)
        message(evd);
    ok(ual_evd_wait(evd, FOR_EVER, &event, NULL)); /* what is queued is given */
    ck_assert(readable(evd));
    ok(ual_evd_wait(evd, 0, &event, NULL));
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), RI_ERR_INVALID_STATE);
    fails(ual_evd_wait(evd, 0, &event, NULL), RI_ERR_INVALID_STATE);
    expect_empty(evd);
    ok(message(evd)); /* it queues */
    ck_assert(readable(evd));
    ok(ual_evd_dequeue(evd, &event));
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_RESET }));
    fails(ual_evd_wait(evd, 0, &event, NULL), RI_ERR_TIMED_OUT);
    lf_wait_start(&waiter, evd, FOR_EVER);
    ok(message(evd));
    lf_wait_join(&waiter, RI_OK);
}
END_TEST

/* A change of the flags may make waits refused, or allowed again. */
START_TEST(waits_follow_the_flags)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_CONNECTION, 1, 0);
    struct ual_event event;
    struct lf_waiter waiter;

    ok(message(evd));
    fails(message(evd), RI_ERR_QUEUE_FULL);
    empty(evd);
    lf_wait_start(&waiter, evd, FOR_EVER);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_OVERFLOW,
                                            .overflow_flags = UAL_EVD_OVERFLOW_NOTIFY }));
    lf_wait_join(&waiter, RI_ERR_INVALID_STATE);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_OVERFLOW }));
    fails(ual_evd_wait(evd, 0, &event, NULL), RI_ERR_TIMED_OUT);
    fails(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_OVERFLOW, .overflow_flags = 1 }),
          RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* A CQ's overflow: completions that wait in the provider have room again as others are taken. */
START_TEST(waits_on_a_completion_queue)
{
    struct ri_event overflow = { .size = sizeof(overflow), .type = RI_EVENT_CQ_OVERFLOW };
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 4, UAL_EVD_OVERFLOW_NOTIFY);
    struct ual_event event;

    lf_complete(evd, 1);
    ual_cq_error(ual_evd_cq(evd), &overflow);
    ck_assert(ual_evd_overflowed(evd));
    ok(ual_evd_wait(evd, FOR_EVER, &event, NULL));
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), RI_ERR_INVALID_STATE);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_OVERFLOW,
                                            .overflow_flags = UAL_EVD_OVERFLOW_NOTIFY |
                                                              UAL_EVD_OVERFLOW_RESETS }));
    ck_assert(!ual_evd_overflowed(evd)); /* there is room again */
    fails(ual_evd_wait(evd, 0, &event, NULL), RI_ERR_TIMED_OUT);
}
END_TEST

/* --- a provider that can only fire at the next completion --- */

static void setup_poor(void)
{
    lf_features = 0;
    lf_open(0);
}

/* Full, not notifying, with a threshold: nothing to report, and no arm that stays pending. */
START_TEST(a_full_queue_that_does_not_notify)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 4, UAL_EVD_FD);

    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_THRESHOLD | UAL_EVDM_ENABLED,
                                            .threshold = 3 }));
    for (uint64_t i = 0; i < 8; i++)
        lf_complete(evd, _i ? i : LF_UNMARKED | i);
    ck_assert(!readable(evd));
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_ENABLED, .enabled = true }));
    ck_assert(readable(evd));
    for (uint64_t i = 0; i < 8; i++)
        ck_assert_uint_eq(lf_take(evd), _i ? i : LF_UNMARKED | i);
    expect_empty(evd);
    ck_assert(!readable(evd));
}
END_TEST

/* Its size does not change: a threshold that fits is reached although it is above the requested
 * size. */
START_TEST(a_smaller_size_that_the_provider_does_not_give)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 16, UAL_EVD_FD);

    fails(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_SIZE, .size = 17 }),
          RI_ERR_NOT_SUPPORTED);
    ck_assert_uint_eq(ual_evd_size(evd), 16);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_SIZE, .size = 4 }));
    ck_assert_uint_eq(ual_evd_size(evd), 16);
    ok(modify(evd, (struct ual_evd_modify){ .mask = UAL_EVDM_THRESHOLD, .threshold = 10 }));
    for (uint64_t i = 0; i < 9; i++)
        lf_complete(evd, i);
    ck_assert(!readable(evd));
    fails(modify(evd,
                 (struct ual_evd_modify){ .mask = UAL_EVDM_SIZE | UAL_EVDM_THRESHOLD, .size = 4 }),
          RI_ERR_BUSY);
    lf_complete(evd, 9);
    ck_assert(readable(evd));
    for (uint64_t i = 0; i < 10; i++)
        ck_assert_uint_eq(lf_take(evd), i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("overflow of event dispatchers");
    TCase *told = tcase_create("told"), *waits = tcase_create("waits");
    TCase *poor = tcase_create("over a stash");

    tc_add_tests(told, told_once_until_it_is_reset, told_once_for_each_time_where_it_resets_itself);
    tcase_add_loop_test(told, nobody_hears_of_it_who_did_not_ask, 0, 2);
    tc_add_tests(told, an_overflow_that_nobody_can_hear_of, told_once_by_two_threads,
                 resets_itself_while_others_push);
    tc_add_tests(waits, waits_are_refused_until_it_is_reset, waits_follow_the_flags,
                 waits_on_a_completion_queue);
    tcase_add_loop_test(poor, a_full_queue_that_does_not_notify, 0, 2);
    tcase_add_test(poor, a_smaller_size_that_the_provider_does_not_give);
    lf_add_cases(suite, (TCase *[]){ told, waits }, 2, setup, teardown);
    lf_add_cases(suite, &poor, 1, setup_poor, teardown);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Aggregate event dispatchers: their events, who is woken, members that join and leave, cost. */
#include "evd_checks.h"

#include "ual/policy/aevd.h"

#include <sys/epoll.h>

static struct ual_evd *aggregate(uint32_t flags)
{
    struct ual_evd_attr attr = { .stream = UAL_STREAM_NOTIFICATION, .flags = flags };
    struct ual_evd *made = NULL;

    ok(ual_evd_create(lf_device, &attr, &made));
    return made;
}

static struct ual_evd *member(struct ual_evd *of, enum ual_stream stream, uint32_t flags)
{
    struct ual_evd_attr attr = { .stream = stream, .size = 64, .flags = flags, .aggregate = of };
    struct ual_evd *made = NULL;

    ok(ual_evd_create(lf_device, &attr, &made));
    return made;
}

/* Expects the one event of a software member. */
static void expect_from(struct ual_evd *aevd, struct ual_evd *from, uintptr_t number)
{
    struct ual_event event;

    ok(ual_evd_dequeue(aevd, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_SOFTWARE);
    ck_assert_uint_eq(event.evd, ual_handle_of(from));
    ck_assert_uint_eq((uintptr_t)event.software, number);
}

static void expect_ready(struct ual_evd *aevd, struct ual_evd *ready)
{
    struct ual_event event;

    ok(ual_evd_dequeue(aevd, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_NOTIFICATION);
    ck_assert_uint_eq(event.evd, ual_handle_of(aevd));
    ck_assert_uint_eq(event.ready, ual_handle_of(ready));
}

/* --- events --- */

START_TEST(events_of_members_come_in_turn)
{
    struct ual_evd *aevd = aggregate(0);
    struct ual_evd *a = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_evd *b = member(aevd, UAL_STREAM_SOFTWARE, 0);

    for (uintptr_t round = 0; round < 3; round++) {
        expect_empty(aevd);
        post(b, 1);
        post(a, 2);
        post(b, 3);
        post(b, 4);
        expect_from(aevd, b, 1);
        expect_from(aevd, a, 2);
        expect_from(aevd, b, 3);
        ck_assert_uint_eq(dequeue(b), 4);
    }
    expect_empty(aevd);
}
END_TEST

START_TEST(completions_of_members_come)
{
    struct ual_evd *aevd, *dto, *other;
    struct ual_event event;

    lf_features = _i ? lf_features : 0;
    aevd = aggregate(0);
    dto = member(aevd, UAL_STREAM_DTO, 0);
    other = member(aevd, UAL_STREAM_DTO, 0);
    for (uint64_t round = 0; round < 20; round++) {
        for (uint64_t i = 0; i < 3; i++) {
            lf_complete(dto, i);
            lf_complete(other, 10 + i);
        }
        for (uint64_t i = 0; i < 6; i++) {
            ok(ual_evd_dequeue(aevd, &event));
            ck_assert_int_eq(event.stream, UAL_STREAM_DTO);
            ck_assert_uint_eq(event.evd, ual_handle_of(i % 2 ? other : dto));
            ck_assert_uint_eq(event.wc.cookie, i / 2 + (i % 2 ? 10 : 0));
        }
        expect_empty(aevd);
    }
}
END_TEST

START_TEST(a_notification_names_a_member_once)
{
    struct ual_evd *aevd = aggregate(UAL_EVD_NOTIFICATIONS);
    struct ual_evd *soft = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_evd *dto = member(aevd, UAL_STREAM_DTO, 0);
    struct ual_event event;

    for (int round = 0; round < 3; round++) {
        expect_empty(aevd);
        lf_complete(dto, 1);
        post(soft, 2);
        lf_complete(dto, 3);
        expect_ready(aevd, dto);
        expect_ready(aevd, soft);
        expect_empty(aevd);
        lf_complete(dto, 4); /* again, though the earlier ones are still queued */
        expect_ready(aevd, dto);
        while (ual_evd_dequeue(dto, &event) == RI_OK)
            ;
        ck_assert_uint_eq(dequeue(soft), 2);
    }
}
END_TEST

START_TEST(no_notification_of_a_member_that_is_empty_again)
{
    struct ual_evd *aevd = aggregate(UAL_EVD_NOTIFICATIONS);
    struct ual_evd *soft = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_evd *dto = member(aevd, UAL_STREAM_DTO, 0);
    struct ual_event event;

    post(soft, 1);
    lf_complete(dto, 2);
    dequeue(soft);
    ok(ual_evd_dequeue(dto, &event));
    expect_empty(aevd);
    lf_complete(dto, 3);
    expect_ready(aevd, dto);
}
END_TEST

START_TEST(a_real_event_can_be_taken_where_notifications_are_yielded)
{
    struct ual_evd *aevd = aggregate(UAL_EVD_NOTIFICATIONS);
    struct ual_evd *soft = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_event event;

    post(soft, 7);
    ok(ual_evd_dequeue(aevd, &event));
    ck_assert_uint_eq(event.ready, ual_handle_of(soft));
    ual_aevd_requeue(aevd, &event);
    ok(ual_aevd_take(aevd, &event));
    ck_assert_int_eq(event.stream, UAL_STREAM_SOFTWARE);
    fails(ual_aevd_take(aevd, &event), ITAL_ERR_EMPTY);
    expect_empty(aevd);
}
END_TEST

START_TEST(what_is_left_is_told)
{
    struct ual_evd *aevd = aggregate(0);
    struct ual_evd *a = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_evd *b = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_event event;
    size_t more = 99;

    post(a, 1);
    post(b, 2);
    ok(ual_evd_wait(aevd, 0, &event, &more));
    ck_assert_uint_eq(more, 1);
    ok(ual_evd_wait(aevd, 0, &event, &more));
    ck_assert_uint_eq(more, 0);
}
END_TEST

/* --- members --- */

START_TEST(what_is_queued_when_a_member_comes_is_heard_of)
{
    struct ual_evd *aevd = aggregate(0), *other = aggregate(0);
    struct ual_evd *soft = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_evd *dto = lf_evd(UAL_STREAM_DTO, 8, 0);
    struct ual_event event;

    post(soft, 1);
    lf_complete(dto, 2);
    ok(ual_evd_set_aggregate(soft, aevd));
    ok(ual_evd_set_aggregate(dto, aevd));
    ck_assert_ptr_eq(ual_evd_aggregate(soft), aevd);
    expect_from(aevd, soft, 1);
    ok(ual_evd_set_aggregate(dto, other));
    expect_empty(aevd);
    ok(ual_evd_dequeue(other, &event));
    ck_assert_uint_eq(event.wc.cookie, 2);
    ok(ual_evd_set_aggregate(dto, NULL));
    ok(ual_evd_set_aggregate(dto, NULL));
    lf_complete(dto, 3);
    expect_empty(other);
    ok(ual_evd_dequeue(dto, &event));
    ck_assert_ptr_null(ual_evd_aggregate(dto));
}
END_TEST

START_TEST(wrong_members_are_refused)
{
    struct ual_evd *aevd = aggregate(0), *other = aggregate(0);
    struct ual_evd *soft = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_evd_attr attr = { .stream = UAL_STREAM_NOTIFICATION, .aggregate = aevd };
    struct ual_evd *made = NULL;

    fails(ual_evd_create(lf_device, &attr, &made), RI_ERR_INVALID_ARGUMENT);
    fails(ual_evd_set_aggregate(other, aevd), RI_ERR_INVALID_ARGUMENT);
    fails(ual_evd_set_aggregate(aevd, aevd), RI_ERR_INVALID_ARGUMENT);
    fails(ual_evd_set_aggregate(soft, soft), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(ual_evd_aggregate(soft));
}
END_TEST

START_TEST(nobody_waits_on_a_member)
{
    struct ual_evd *aevd = aggregate(0), *soft = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_event event;
    struct lf_waiter waiter;

    lf_wait_start(&waiter, soft, FOR_EVER);
    fails(ual_evd_set_aggregate(soft, aevd), RI_ERR_BUSY);
    post(soft, 1);
    lf_wait_join(&waiter, RI_OK);
    ok(ual_evd_set_aggregate(soft, aevd));
    fails(ual_evd_wait(soft, 0, &event, NULL), RI_ERR_INVALID_STATE);
    fails(ual_evd_wait(soft, FOR_EVER, &event, NULL), RI_ERR_INVALID_STATE);
    ok(ual_evd_set_aggregate(soft, NULL));
    fails(ual_evd_wait(soft, 0, &event, NULL), RI_ERR_TIMED_OUT);
}
END_TEST

static atomic_bool taking, may_take;

static bool take_slowly(struct ual_evd *evd, struct ual_event *event)
{
    atomic_store(&taking, true);
    ck_assert(tc_until(atomic_load(&may_take), 20000));
    return ual_evd_take_listed(evd, event);
}

static void *take_one(void *aevd)
{
    struct ual_event event;

    ok(ual_evd_dequeue(aevd, &event));
    return NULL;
}

static void *leave_aggregate(void *evd)
{
    ok(ual_evd_set_aggregate(evd, NULL));
    return NULL;
}

static void no_routine(ual_handle evd, void (*routine)(void), void *arg)
{
    (void)evd;
    (void)routine;
    (void)arg;
}

/* An EVD that leaves its aggregate waits for a thread that dequeues from it. Meanwhile another
 * thread adds it to another aggregate, or attaches a callback: then no thread may wait on it. */
START_TEST(who_has_left_does_not_admit_waits_on_a_member)
{
    struct ual_evd *aevd = aggregate(0), *other = aggregate(0);
    struct ual_evd *soft = member(aevd, UAL_STREAM_SOFTWARE, 0);
    pthread_t taker, leaver;
    struct ual_event event;

    post(soft, 1);
    soft->take = take_slowly;
    ck_assert_int_eq(pthread_create(&taker, NULL, take_one, aevd), 0);
    ck_assert(tc_until(atomic_load(&taking), 10000));
    ck_assert_int_eq(pthread_create(&leaver, NULL, leave_aggregate, soft), 0);
    ck_assert(tc_until(!ual_evd_aggregate(soft), 10000));
    if (_i)
        ok(ual_evd_callback_attach(soft, no_routine, NULL, NULL));
    else
        ok(ual_evd_set_aggregate(soft, other));
    soft->take = ual_evd_take_listed;
    atomic_store(&may_take, true);
    pthread_join(taker, NULL);
    pthread_join(leaver, NULL);
    fails(ual_evd_wait(soft, 0, &event, NULL), _i ? ITAL_ERR_EXISTS : RI_ERR_INVALID_STATE);
}
END_TEST

START_TEST(an_aggregate_is_freed_after_its_members_and_a_member_at_any_time)
{
    struct ual_evd *aevd = aggregate(0);
    struct ual_evd *soft = member(aevd, UAL_STREAM_SOFTWARE, 0);
    struct ual_evd *dto = member(aevd, UAL_STREAM_DTO, 0);

    post(soft, 1);
    lf_complete(dto, 1);
    fails(ual_evd_free(aevd), RI_ERR_BUSY);
    ok(ual_evd_free(soft));
    fails(ual_evd_free(aevd), RI_ERR_BUSY);
    ok(ual_evd_free(dto));
    expect_empty(aevd);
    ok(ual_evd_free(aevd));
}
END_TEST

/* --- waiting --- */

START_TEST(a_waiter_is_woken_by_any_member)
{
    struct ual_evd *aevd = aggregate(0);
    struct ual_evd *members[3];
    struct lf_pipe *feeds[3];

    for (int i = 0; i < 3; i++) {
        members[i] = member(aevd, UAL_STREAM_DTO, 0);
        feeds[i] = lf_pipe_on(members[i], (uint32_t)i % 2);
    }
    for (uint64_t round = 0; round < 60; round++) {
        struct lf_waiter waiter;

        lf_wait_start(&waiter, aevd, FOR_EVER);
        lf_send(feeds[round % 3], round);
        lf_wait_join(&waiter, RI_OK);
        ck_assert_uint_eq(waiter.cookie, round);
    }
    for (int i = 0; i < 3; i++)
        lf_pipe_close(feeds[i]);
}
END_TEST

/* An aggregate runs a member's lane as long as it is a member. */
START_TEST(lanes_follow_the_members)
{
    struct ual_evd *aevd = aggregate(0), *dto = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *feed = lf_pipe_on(dto, 1), *second;
    const struct feed *lanes = ual_evd_feed(aevd);

    ck_assert_ptr_eq(feed_only(lanes), lf_lanes->lane[0]);
    ok(ual_evd_set_aggregate(dto, aevd));
    ck_assert_ptr_eq(feed_only(lanes), lf_lanes->lane[1]);
    second = lf_pipe_on(dto, 0);
    ck_assert_ptr_null(feed_only(lanes));
    ok(ual_evd_set_aggregate(dto, NULL));
    ck_assert_ptr_eq(feed_only(lanes), lf_lanes->lane[0]);
    lf_pipe_close(feed);
    lf_pipe_close(second);
}
END_TEST

START_TEST(a_poll_runs_the_lanes_of_the_members)
{
    struct ual_evd *aevd = aggregate(0);
    struct lf_pipe *feeds[2];
    struct ual_event event;

    for (uint32_t i = 0; i < 2; i++)
        feeds[i] = lf_pipe_on(member(aevd, UAL_STREAM_DTO, 0), i);
    for (uint64_t round = 0; round < 50; round++) {
        lf_send(feeds[round % 2], round);
        ck_assert(tc_until(ual_evd_dequeue(aevd, &event) == RI_OK, 10000));
        ck_assert_uint_eq(event.wc.cookie, round);
    }
    for (int i = 0; i < 2; i++)
        lf_pipe_close(feeds[i]);
}
END_TEST

START_TEST(abort_ends_a_wait)
{
    struct ual_evd *aevd = aggregate(0);
    struct lf_waiter waiters[3];

    member(aevd, UAL_STREAM_DTO, 0);
    for (int i = 0; i < 3; i++)
        lf_wait_start(&waiters[i], aevd, FOR_EVER);
    fails(ual_evd_free(aevd), RI_ERR_BUSY);
    ual_evd_abort(aevd);
    for (int i = 0; i < 3; i++)
        lf_wait_join(&waiters[i], ITAL_ERR_ABORTED);
}
END_TEST

/* --- descriptors --- */

START_TEST(a_descriptor_in_a_set_is_readable_while_members_have_events)
{
    struct ual_evd *aevd = aggregate(UAL_EVD_FD | (_i ? UAL_EVD_NOTIFICATIONS : 0));
    struct ual_evd *dto = member(aevd, UAL_STREAM_DTO, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe_on(dto, 1);
    struct epoll_event wanted = { .events = EPOLLIN };
    int inner = epoll_create1(EPOLL_CLOEXEC), outer = epoll_create1(EPOLL_CLOEXEC);
    struct ual_event event;

    ck_assert_int_eq(epoll_ctl(inner, EPOLL_CTL_ADD, ual_evd_fd(aevd), &wanted), 0);
    ck_assert_int_eq(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &wanted), 0);
    for (uint64_t round = 0; round < 50; round++) {
        expect_empty(aevd);
        ck_assert_int_eq(tc_wait_fd(outer, POLLIN, 0), 0);
        lf_send(feed, round);
        ck_assert_int_gt(tc_wait_fd(outer, POLLIN, tc_deadline(10000)), 0);
        ck_assert(tc_until(ual_evd_dequeue(aevd, &event) == RI_OK, 10000));
        if (_i)
            ok(ual_evd_dequeue(dto, &event));
        ck_assert_uint_eq(event.wc.cookie, round);
        while (ual_evd_dequeue(dto, &event) != ITAL_ERR_EMPTY)
            ;
        expect_empty(dto);
    }
    lf_pipe_close(feed);
    close(inner);
    close(outer);
}
END_TEST

/* --- cost --- */

/* Counts the member checks for 4 events of each of a few members, among many idle ones. */
static double looks_per_event(unsigned int members)
{
    struct ual_evd *aevd = aggregate(0), **made = calloc(members, sizeof(*made));
    const unsigned int busy = 4, rounds = 1000;
    struct ual_event event;
    uint64_t before;
    double looks;

    for (unsigned int i = 0; i < members; i++)
        made[i] = member(aevd, i % 2 ? UAL_STREAM_DTO : UAL_STREAM_SOFTWARE, 0);
    while (ual_evd_dequeue(aevd, &event) == RI_OK)
        ;
    before = aevd_polls(aevd);
    for (unsigned int round = 0; round < rounds; round++) {
        for (unsigned int i = 0; i < busy; i++) {
            struct ual_evd *evd = made[(round * 7 + i * 13) % members];

            if (ual_evd_stream(evd) == UAL_STREAM_DTO)
                lf_complete(evd, i);
            else
                post(evd, i);
        }
        for (unsigned int i = 0; i < busy; i++)
            ok(ual_evd_dequeue(aevd, &event));
    }
    looks = (double)(aevd_polls(aevd) - before) / (busy * rounds);
    for (unsigned int i = 0; i < members; i++)
        ok(ual_evd_free(made[i]));
    ok(ual_evd_free(aevd));
    free(made);
    return looks;
}

START_TEST(an_event_costs_the_same_with_a_thousand_members)
{
    double few = looks_per_event(10), many = looks_per_event(1000);

    fprintf(stderr, "# looks at members per event: %.3f of 10, %.3f of 1000\n", few, many);
    ck_assert(few <= 1.0);
    ck_assert(many <= 1.0);
}
END_TEST

/* A poll that finds nothing checks a few members in turn, and so finds events that did not
 * notify. */
START_TEST(what_did_not_notify_is_found_by_polling)
{
    struct ual_evd *aevd = aggregate(0), *last = NULL;
    struct ual_event event;
    unsigned int polls = 1;
    uint64_t before;

    for (int i = 0; i < 100; i++)
        last = member(aevd, UAL_STREAM_DTO, 0);
    expect_empty(aevd);
    ual_cq_arm(ual_evd_cq(last), RI_ARM_NEXT);
    notifier_unobserve(&last->notifier);
    lf_complete(last, 5);
    before = aevd_polls(aevd);
    while (ual_evd_dequeue(aevd, &event) != RI_OK)
        ck_assert_uint_lt(++polls, 10);
    ck_assert_uint_eq(event.wc.cookie, 5);
    ck_assert_uint_le(aevd_polls(aevd) - before, polls * 17);
}
END_TEST

/* An event arrives when the member was found empty and is not armed yet, so nothing reports it. It
 * has so many neighbours that no sweep finds it. _i: 0, the aggregate drained the member; 1,
 * another thread did. */
START_TEST(what_comes_before_the_arming_is_found)
{
    struct ual_evd *aevd = aggregate(0), *last = NULL;
    struct ual_event event;

    for (int i = 0; i < 100; i++)
        last = member(aevd, UAL_STREAM_DTO, 0);
    for (uint64_t i = 0; i < 100; i += 2) {
        lf_complete(last, i);
        lf_complete_before_arm(last, i + 1);
        ok(ual_evd_dequeue(_i ? last : aevd, &event));
        ck_assert_uint_eq(event.wc.cookie, i);
        ok(ual_evd_dequeue(aevd, &event));
        ck_assert_uint_eq(event.wc.cookie, i + 1);
    }
}
END_TEST

static void setup_lanes(void)
{
    lf_open_lanes(2, 0);
}

int main(void)
{
    Suite *suite = suite_create("aggregate event dispatchers");
    TCase *yields = tcase_create("what they yield"), *members = tcase_create("members");
    TCase *waits = tcase_create("waits"), *cost = tcase_create("cost");
    TCase *one_lane[] = { yields, members, cost }, *two_lanes[] = { waits };

    tcase_add_test(yields, events_of_members_come_in_turn);
    tcase_add_loop_test(yields, completions_of_members_come, 0, 2);
    tc_add_tests(yields, a_notification_names_a_member_once,
                 no_notification_of_a_member_that_is_empty_again,
                 a_real_event_can_be_taken_where_notifications_are_yielded, what_is_left_is_told);
    tc_add_tests(members, what_is_queued_when_a_member_comes_is_heard_of, wrong_members_are_refused,
                 nobody_waits_on_a_member);
    tcase_add_loop_test(members, who_has_left_does_not_admit_waits_on_a_member, 0, 2);
    tcase_add_test(members, an_aggregate_is_freed_after_its_members_and_a_member_at_any_time);
    tc_add_tests(waits, a_waiter_is_woken_by_any_member, lanes_follow_the_members,
                 a_poll_runs_the_lanes_of_the_members, abort_ends_a_wait);
    tcase_add_loop_test(waits, a_descriptor_in_a_set_is_readable_while_members_have_events, 0, 2);
    tc_add_tests(cost, an_event_costs_the_same_with_a_thousand_members,
                 what_did_not_notify_is_found_by_polling);
    tcase_add_loop_test(cost, what_comes_before_the_arming_is_found, 0, 2);
    lf_add_cases(suite, one_lane, sizeof(one_lane) / sizeof(one_lane[0]), setup, teardown);
    lf_add_cases(suite, two_lanes, sizeof(two_lanes) / sizeof(two_lanes[0]), setup_lanes, teardown);
    return tc_main(suite);
}

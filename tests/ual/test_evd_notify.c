/* SPDX-License-Identifier: BSD-3-Clause */
/* Which completions notify: notification criteria, thresholds, observers. */
#include "evd_checks.h"

#include "ual/policy/evd_private.h"
#include "ual/mechanism/mechanism_private.h"

#include <sys/eventfd.h>

/* A provider that can only fire at the next completion: ual does the counting. */
static void setup_poor(void)
{
    lf_features = RI_FEATURE_CQ_RESIZE;
    lf_open(0);
}

static void setup_able(void)
{
    lf_features |= RI_FEATURE_CQ_RESIZE;
    lf_open(0);
}

static struct ual_evd *evd_with(enum ual_stream stream, uint32_t size, uint32_t threshold,
                                uint32_t flags)
{
    struct ual_evd_attr attr = {
        .stream = stream, .size = size, .threshold = threshold, .flags = flags
    };
    struct ual_evd *evd;

    ok(ual_evd_create(lf_device, &attr, &evd));
    return evd;
}

/* --- a waiting thread --- */

struct sleeper {
    pthread_t thread;
    _Atomic pid_t tid;
    struct ual_evd *evd;
    enum ri_status status;
    struct ual_event event;
    size_t more;
};

static void *sleep_once(void *arg)
{
    struct sleeper *sleeper = arg;

    atomic_store(&sleeper->tid, gettid());
    sleeper->status = ual_evd_wait(sleeper->evd, FOR_EVER, &sleeper->event, &sleeper->more);
    return NULL;
}

static void sleeper_start(struct sleeper *sleeper, struct ual_evd *evd)
{
    *sleeper = (struct sleeper){ .evd = evd };
    ck_assert_int_eq(pthread_create(&sleeper->thread, NULL, sleep_once, sleeper), 0);
    ck_assert(tc_until(atomic_load(&sleeper->tid) && tc_asleep(atomic_load(&sleeper->tid)), 10000));
}

/* The wait returned the oldest event, with that many more queued. */
static void sleeper_got(struct sleeper *sleeper, uint64_t cookie, size_t more)
{
    pthread_join(sleeper->thread, NULL);
    ok(sleeper->status);
    ck_assert_uint_eq(sleeper->event.wc.cookie, cookie);
    ck_assert_uint_eq(sleeper->more, more);
}

static void drain(struct ual_evd *evd, unsigned int events)
{
    struct ual_event event;

    while (events--)
        ok(ual_evd_dequeue(evd, &event));
    expect_empty(evd);
}

/* --- what is a Notification Event --- */

static const uint64_t notifying[] = { 0, LF_SOLICITED, LF_FLUSHED };

START_TEST(only_notification_events_end_a_wait)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 64, 0, 0);
    struct lf_pipe *feed = lf_pipe(evd);
    struct sleeper sleeper;

    sleeper_start(&sleeper, evd);
    for (unsigned int i = 0; i < 20; i++)
        lf_send(feed, LF_UNMARKED | i);
    ck_assert(lf_records_reach(20));
    lf_send(feed, notifying[_i] | 20);
    sleeper_got(&sleeper, LF_UNMARKED | 0, 20);
    drain(evd, 20);
    lf_pipe_close(feed);
}
END_TEST

START_TEST(only_notification_events_raise_the_descriptor)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 64, 0, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);
    unsigned int sent = atomic_load(&lf_records);

    for (unsigned int round = 0; round < 20; round++, sent += 2) {
        lf_complete(evd, LF_UNMARKED | 1);
        lf_send(feed, LF_UNMARKED | 2);
        ck_assert(lf_records_reach(sent + 1));
        ck_assert(!readable(evd));
        lf_send(feed, notifying[_i] | 3);
        ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
        drain(evd, 3);
        expect_lowered(evd, sent + 2);
    }
    lf_pipe_close(feed);
}
END_TEST

/* One event each time that the descriptor is readable: it stays readable until the queue is
 * empty. */
START_TEST(the_descriptor_stays_raised_over_what_does_not_notify)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 64, 0, UAL_EVD_FD);
    struct ual_event event;

    lf_complete(evd, 1);
    lf_complete(evd, LF_UNMARKED | 2);
    for (unsigned int i = 0; i < 2; i++) {
        ck_assert(readable(evd));
        ok(ual_evd_dequeue(evd, &event));
    }
    expect_empty(evd);
    ck_assert(!readable(evd));
}
END_TEST

/* A wait that runs out before the completion is there is tried again with a longer time-out. */
START_TEST(a_wait_that_runs_out_takes_what_is_there)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 64, 0, 0);
    struct lf_pipe *feed = lf_pipe(evd);
    struct lf_waiter waiter;
    struct ual_event event;

    for (uint64_t us = 50000;; us *= 2) {
        lf_wait_start(&waiter, evd, us);
        lf_send(feed, LF_UNMARKED | 7);
        ck_assert(tc_until(atomic_load(&waiter.done), 20000));
        if (waiter.status == RI_OK || us > 10000000)
            break;
        lf_wait_join(&waiter, RI_ERR_TIMED_OUT);
        ck_assert(tc_until(ual_evd_dequeue(evd, &event) == RI_OK, 10000));
    }
    lf_wait_join(&waiter, RI_OK);
    ck_assert_uint_eq(waiter.cookie, LF_UNMARKED | 7);
    fails(ual_evd_wait(evd, 1, &event, NULL), RI_ERR_TIMED_OUT);
    lf_complete(evd, LF_UNMARKED | 8);
    ok(ual_evd_wait(evd, FOR_EVER, &event, NULL)); /* queued when the wait begins */
    lf_pipe_close(feed);
}
END_TEST

/* --- thresholds --- */

#define THRESHOLD 5u

START_TEST(a_threshold_counts_notification_events)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 64, THRESHOLD, UAL_EVD_FD);
    struct lf_pipe *feed = lf_pipe(evd);
    struct sleeper sleeper;
    unsigned int sent = 0;

    ck_assert_uint_eq(ual_evd_threshold(evd), THRESHOLD);
    sleeper_start(&sleeper, evd);
    for (unsigned int i = 0; i < THRESHOLD; i++) {
        for (unsigned int quiet = 0; quiet < 3; quiet++)
            lf_send(feed, LF_UNMARKED | sent++);
        ck_assert(lf_records_reach(sent));
        ck_assert(!readable(evd));
        lf_send(feed, sent++);
    }
    sleeper_got(&sleeper, LF_UNMARKED | 0, 4 * THRESHOLD - 1);
    ck_assert_int_gt(tc_wait_fd(ual_evd_fd(evd), POLLIN, tc_deadline(10000)), 0);
    drain(evd, 4 * THRESHOLD - 1);
    ck_assert(!readable(evd));
    lf_pipe_close(feed);
}
END_TEST

START_TEST(a_threshold_of_a_list_counts_all)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_SOFTWARE, 64, THRESHOLD, UAL_EVD_FD);
    struct sleeper sleeper;

    for (unsigned int round = 0; round < 5; round++) {
        sleeper_start(&sleeper, evd);
        for (unsigned int i = 0; i < THRESHOLD; i++) {
            ck_assert(!readable(evd));
            post(evd, i + 1);
        }
        ck_assert(readable(evd));
        pthread_join(sleeper.thread, NULL);
        ok(sleeper.status);
        ck_assert_uint_eq((uintptr_t)sleeper.event.software, 1);
        ck_assert_uint_eq(sleeper.more, THRESHOLD - 1);
        drain(evd, THRESHOLD - 1);
    }
}
END_TEST

/* What a full EVD holds back cannot be counted. */
START_TEST(a_full_queue_notifies_whatever_it_holds)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 4, 2, 0);
    struct ri_event overflow = { .size = sizeof(overflow), .type = RI_EVENT_CQ_OVERFLOW };
    struct sleeper sleeper;

    sleeper_start(&sleeper, evd);
    for (unsigned int i = 0; i < 4; i++)
        lf_complete(evd, LF_UNMARKED | i);
    ual_cq_error(ual_evd_cq(evd), &overflow);
    sleeper_got(&sleeper, LF_UNMARKED | 0, 3);
}
END_TEST

/* --- different criteria at once --- */

#define BATCHES 2000u

enum wish { WAITS, POLLS, USES_FD, WISHES };

static struct {
    struct ual_evd *evd;
    atomic_uint taken;
    atomic_bool done;
    int over; /* readable when the threshold is reached */
} mixed;

static void take_all(void)
{
    struct ual_event event;

    while (ual_evd_dequeue(mixed.evd, &event) == RI_OK)
        atomic_fetch_add(&mixed.taken, 1);
}

static void *consume(void *arg)
{
    enum wish wish = (enum wish)(uintptr_t)arg;
    struct pollfd fds[] = { { .fd = ual_evd_fd(mixed.evd), .events = POLLIN },
                            { .fd = mixed.over, .events = POLLIN } };
    struct tc_rng rng = tc_rng(wish);
    struct ual_event event;

    while (!atomic_load(&mixed.done)) {
        if (wish == WAITS && ual_evd_wait(mixed.evd, FOR_EVER, &event, NULL) == RI_OK)
            atomic_fetch_add(&mixed.taken, 1);
        if (wish == USES_FD)
            ck_assert_int_gt(poll(fds, 2, -1), 0);
        if (wish == POLLS)
            lf_pass((unsigned int)tc_below(&rng, 300));
        take_all();
    }
    return NULL;
}

static const unsigned int crowds[][WISHES] = {
    { 2, 0, 0 }, { 1, 1, 0 }, { 1, 0, 1 }, { 0, 1, 1 }, { 3, 1, 1 },
};

/* By the lane, or by a post outside it. */
static void produce(struct lf_pipe *feed, bool by_lane, uint64_t cookie)
{
    if (by_lane)
        lf_send(feed, cookie);
    else
        lf_complete(mixed.evd, cookie);
}

/* The last completion of each batch notifies: then all are taken, although pollers take events that
 * others wait for. */
static void produce_batches(struct lf_pipe *feed)
{
    struct tc_rng rng = tc_rng(99);
    unsigned int sent = 0;

    for (unsigned int batch = 0; batch < BATCHES; batch++) {
        bool by_lane = tc_below(&rng, 2);

        for (uint64_t quiet = tc_below(&rng, 4); quiet; quiet--)
            produce(feed, by_lane, LF_UNMARKED | sent++);
        produce(feed, by_lane, notifying[tc_below(&rng, 3)] | sent++);
        if (!tc_until(atomic_load(&mixed.taken) == sent, 20000))
            ck_abort_msg("%u of %u were taken", atomic_load(&mixed.taken), sent);
    }
}

START_TEST(consumers_of_different_wishes_miss_nothing)
{
    struct lf_pipe *feed;
    pthread_t threads[WISHES * 3];
    size_t count = 0;

    mixed.evd = evd_with(UAL_STREAM_DTO, 256, 0, UAL_EVD_FD);
    mixed.over = eventfd(0, EFD_CLOEXEC);
    feed = lf_pipe(mixed.evd);
    for (unsigned int wish = 0; wish < WISHES; wish++)
        for (unsigned int i = 0; i < crowds[_i][wish]; i++)
            ck_assert_int_eq(
                pthread_create(&threads[count++], NULL, consume, (void *)(uintptr_t)wish), 0);
    produce_batches(feed);
    atomic_store(&mixed.done, true);
    ck_assert_int_eq(eventfd_write(mixed.over, 1), 0);
    ual_evd_abort(mixed.evd);
    while (count)
        pthread_join(threads[--count], NULL);
    close(mixed.over);
    lf_pipe_close(feed);
}
END_TEST

/* --- observers --- */

struct counting {
    struct notifier_observer observer;
    atomic_uint raised;
};

static void count_raise(struct notifier_observer *observer)
{
    atomic_fetch_add(&((struct counting *)observer)->raised, 1);
}

static bool raised_reaches(struct counting *counting, unsigned int count)
{
    uint64_t limit = tc_deadline(10000);

    while (atomic_load(&counting->raised) < count && !tc_expired(limit))
        sched_yield();
    return atomic_load(&counting->raised) >= count;
}

START_TEST(an_observer_hears_of_what_comes_until_it_leaves)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct counting first = { .observer.raised = count_raise }, second = first;

    post(evd, 1);
    ok(notifier_observe(&evd->notifier, &first.observer));
    ck_assert_uint_eq(atomic_load(&first.raised), 0);
    ck_assert_msg(ual_evd_notify_again(evd), "what was there before the observer");
    fails(notifier_observe(&evd->notifier, &second.observer), ITAL_ERR_EXISTS);
    dequeue(evd);
    ck_assert(!ual_evd_notify_again(evd));
    post(evd, 2);
    ck_assert_uint_eq(atomic_load(&first.raised), 1);
    notifier_unobserve(&evd->notifier);
    post(evd, 3);
    ck_assert_uint_eq(atomic_load(&first.raised), 1);
    ok(notifier_observe(&evd->notifier, &second.observer));
    post(evd, 4);
    ck_assert_uint_eq(atomic_load(&second.raised), 1);
}
END_TEST

START_TEST(an_observed_completion_queue_raises_once_until_it_is_asked_again)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    struct lf_pipe *feed = lf_pipe(evd);
    struct counting counting = { .observer.raised = count_raise };
    struct ual_event event;

    ok(notifier_observe(&evd->notifier, &counting.observer));
    for (unsigned int round = 1; round <= 50; round++) {
        ck_assert(!ual_evd_notify_again(evd));
        lf_send(feed, round);
        ck_assert(raised_reaches(&counting, round));
        lf_complete(evd, 1000 + round);
        ck_assert_uint_eq(atomic_load(&counting.raised), round);
        ck_assert(ual_evd_notify_again(evd));
        while (ual_evd_dequeue(evd, &event) == RI_OK)
            ;
    }
    notifier_unobserve(&evd->notifier);
    lf_pipe_close(feed);
}
END_TEST

/* --- a threshold that changes while a thread arms --- */

static struct ri_user_ops arming_ops;
static const struct ri_user_ops *real_ops;
static struct ual_evd *armed;

/* Another thread's ual_evd_modify overtakes the first arm. */
static enum ri_status arm_late(struct ri_cq *cq, enum ri_arm kind, uint32_t count)
{
    const struct ual_evd_modify lower = { .mask = UAL_EVDM_THRESHOLD, .threshold = 1 };
    struct ual_evd *evd = armed;

    armed = NULL;
    if (evd)
        ok(ual_evd_modify(evd, &lower));
    return real_ops->arm(cq, kind, count);
}

START_TEST(a_threshold_that_is_lowered_while_a_thread_arms)
{
    struct ual_evd *evd = evd_with(UAL_STREAM_DTO, 16, 4, UAL_EVD_FD);
    struct ri_cq *cq = evd->cq->polled;

    real_ops = cq->ops;
    arming_ops = *real_ops;
    arming_ops.arm = arm_late;
    cq->ops = &arming_ops;
    armed = evd;
    expect_empty(evd);
    ck_assert_ptr_null(armed);
    ck_assert(!readable(evd));
    lf_complete(evd, 1);
    ck_assert(readable(evd));
    cq->ops = real_ops;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notification of event dispatchers");
    TCase *observers = tcase_create("observers");
    TCase *criteria = tcase_create("criteria"), *over_stash = tcase_create("criteria over a stash");
    TCase *cases[] = { criteria, observers };
    TCase *both[] = { criteria, over_stash };

    for (size_t i = 0; i < 2; i++) {
        tcase_add_loop_test(both[i], only_notification_events_end_a_wait, 0, 3);
        tcase_add_loop_test(both[i], only_notification_events_raise_the_descriptor, 0, 3);
        tc_add_tests(both[i], the_descriptor_stays_raised_over_what_does_not_notify,
                     a_wait_that_runs_out_takes_what_is_there,
                     a_threshold_counts_notification_events, a_threshold_of_a_list_counts_all,
                     a_full_queue_notifies_whatever_it_holds);
        tcase_add_test(both[i], a_threshold_that_is_lowered_while_a_thread_arms);
        tcase_add_loop_test(both[i], consumers_of_different_wishes_miss_nothing, 0, 5);
    }
    tc_add_tests(observers, an_observer_hears_of_what_comes_until_it_leaves,
                 an_observed_completion_queue_raises_once_until_it_is_asked_again);
    lf_add_cases(suite, cases, sizeof(cases) / sizeof(cases[0]), setup_able, teardown);
    lf_add_cases(suite, &over_stash, 1, setup_poor, teardown);
    return tc_main(suite);
}

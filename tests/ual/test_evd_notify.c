/* SPDX-License-Identifier: BSD-3-Clause
 * What notifies and what does not: notification criteria, thresholds, observers. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "evd_checks.h"

#include "ual/policy/evd_private.h"

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
    fails(notifier_observe(&evd->notifier, &second.observer), UAL_ERR_EXISTS);
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
        while (ual_evd_dequeue(evd, &event) == UAL_OK)
            ;
    }
    notifier_unobserve(&evd->notifier);
    lf_pipe_close(feed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notification of event dispatchers");
    TCase *observers = tcase_create("observers");
    TCase *cases[] = { observers };

    tcase_add_test(observers, an_observer_hears_of_what_comes_until_it_leaves);
    tcase_add_test(observers, an_observed_completion_queue_raises_once_until_it_is_asked_again);
    lf_add_cases(suite, cases, sizeof(cases) / sizeof(cases[0]), setup, teardown);
    return tc_main(suite);
}

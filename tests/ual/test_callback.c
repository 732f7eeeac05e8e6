/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks of event dispatchers: the thread that runs them, no event without one, attach and
 * detach from every place, ends.
 */
#include "evd_checks.h"

#include "ual/policy/callback.h"

#include <signal.h>
#include <sys/wait.h>

#define CYCLES 100000

/* What a routine of these tests does, and what it observed. */
static struct probe {
    struct ual_evd *evd;
    atomic_uint calls;
    atomic_ulong taken;
    _Atomic unsigned long thread; /* pthread_t of the last call */
    atomic_bool inside;
    atomic_bool may_return;
} probe;

typedef void (*routine_fn)(struct probe *);

static void run(ual_handle evd, void (*routine)(void), void *arg)
{
    struct probe *of = arg;

    ck_assert(!of->evd || evd == ual_handle_of(of->evd));
    atomic_fetch_add(&of->calls, 1);
    atomic_store(&of->thread, (unsigned long)pthread_self());
    ((routine_fn)routine)(of);
}

static void attach(struct ual_evd *evd, routine_fn routine)
{
    memset(&probe, 0, sizeof(probe));
    probe.evd = evd;
    ok(ual_evd_callback_attach(evd, run, (void (*)(void))routine, &probe));
}

static void detach(struct ual_evd *evd)
{
    struct ual_callback *running = NULL;

    ok(ual_evd_callback_detach(evd, &running));
    ual_callback_drain(running);
}

static void nothing(struct probe *of)
{
    (void)of;
}

static void drain(struct probe *of)
{
    struct ual_event event;

    while (ual_evd_dequeue(of->evd, &event) == RI_OK)
        atomic_fetch_add(&of->taken, 1);
}

static void stay(struct probe *of)
{
    atomic_store(&of->inside, true);
    ck_assert(tc_until(atomic_load(&of->may_return), 20000));
    atomic_store(&of->inside, false);
}

#define reaches(counter, count) tc_until(atomic_load(&(counter)) >= (count), 10000)

/* --- calls --- */

START_TEST(each_event_has_its_call)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);

    attach(evd, drain);
    for (unsigned int i = 1; i <= 100; i++) {
        post(evd, i);
        ck_assert(reaches(probe.taken, i));
    }
    ck_assert(!pthread_equal((pthread_t)atomic_load(&probe.thread), pthread_self()));
    detach(evd);
    post(evd, 1);
    ck_assert_uint_eq(dequeue(evd), 1);
}
END_TEST

/* No thread of the consumer calls in: the background thread delivers the completion. */
START_TEST(completions_have_their_calls)
{
    struct ual_evd *evd;
    struct lf_pipe *feed;

    lf_features = _i ? lf_features : 0;
    evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    feed = lf_pipe(evd);
    attach(evd, drain);
    for (unsigned int i = 1; i <= 100; i++) {
        lf_send(feed, i);
        ck_assert(reaches(probe.taken, i));
    }
    detach(evd);
    lf_pipe_close(feed);
}
END_TEST

START_TEST(a_routine_that_does_not_take_is_called_for_what_comes_later)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 64, 0);

    attach(evd, nothing);
    for (unsigned int i = 1; i <= 20; i++) {
        lf_complete(evd, i);
        ck_assert(reaches(probe.calls, i));
    }
    ck_assert_uint_eq(atomic_load(&probe.calls), 20);
    detach(evd);
}
END_TEST

START_TEST(what_is_queued_at_attaching_has_its_call)
{
    struct ual_evd *soft = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_evd *dto = lf_evd(UAL_STREAM_DTO, 8, 0);

    post(soft, 1);
    lf_complete(dto, 1);
    attach(soft, drain);
    ck_assert(reaches(probe.taken, 1));
    detach(soft);
    attach(dto, drain);
    ck_assert(reaches(probe.taken, 1));
    detach(dto);
}
END_TEST

START_TEST(an_aggregate_has_calls)
{
    struct ual_evd *aevd = lf_evd(UAL_STREAM_NOTIFICATION, 0, _i ? UAL_EVD_NOTIFICATIONS : 0);
    struct ual_evd *soft = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);

    ok(ual_evd_set_aggregate(soft, aevd));
    attach(aevd, drain);
    for (unsigned int i = 1; i <= 100; i++) {
        struct ual_event event;

        post(soft, i);
        ck_assert(reaches(probe.taken, i));
        if (_i)
            ok(ual_evd_dequeue(soft, &event));
    }
    detach(aevd);
}
END_TEST

/* One thread makes all calls, with all signals blocked and cancellation disabled. */
static void look_at_thread(struct probe *of)
{
    sigset_t blocked;
    int state;

    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    ck_assert_int_eq(sigismember(&blocked, SIGINT), 1);
    ck_assert_int_eq(sigismember(&blocked, SIGUSR1), 1);
    ck_assert_int_eq(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state), 0);
    ck_assert_int_eq(state, PTHREAD_CANCEL_DISABLE);
    pthread_cancel(pthread_self());
    pthread_testcancel();
    ck_assert(!ual_lane_inside(lf_lane));
    drain(of);
}

START_TEST(one_thread_without_signals_and_cancellation)
{
    struct ual_evd *one = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_evd *two = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    unsigned long thread;

    attach(one, look_at_thread);
    post(one, 1);
    ck_assert(reaches(probe.taken, 1));
    detach(one);
    thread = atomic_load(&probe.thread);
    attach(two, look_at_thread);
    post(two, 1);
    ck_assert(reaches(probe.taken, 1));
    detach(two);
    ck_assert(pthread_equal((pthread_t)atomic_load(&probe.thread), (pthread_t)thread));
}
END_TEST

static void leave_thread(struct probe *of)
{
    drain(of);
    if (atomic_load(&of->calls) % 2)
        pthread_exit(NULL);
}

START_TEST(a_routine_that_ends_the_thread_gets_another)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);

    attach(evd, leave_thread);
    for (unsigned int i = 1; i <= 10; i++) {
        post(evd, i);
        ck_assert(reaches(probe.taken, i));
    }
    detach(evd);
}
END_TEST

/* --- refusals --- */

START_TEST(wrong_attachments_are_refused)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    struct ual_evd *aevd = lf_evd(UAL_STREAM_NOTIFICATION, 0, 0);
    struct ual_callback *running = NULL;
    struct ual_event event;
    struct lf_waiter waiter;

    fails(ual_evd_callback_detach(evd, &running), RI_ERR_INVALID_STATE);
    lf_wait_start(&waiter, evd, FOR_EVER);
    fails(ual_evd_callback_attach(evd, run, (void (*)(void))nothing, &probe), RI_ERR_BUSY);
    post(evd, 1);
    lf_wait_join(&waiter, RI_OK);
    attach(evd, nothing);
    fails(ual_evd_callback_attach(evd, run, (void (*)(void))nothing, &probe), ITAL_ERR_EXISTS);
    fails(ual_evd_wait(evd, 0, &event, NULL), ITAL_ERR_EXISTS);
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), ITAL_ERR_EXISTS);
    fails(ual_evd_set_aggregate(evd, aevd), RI_ERR_INVALID_STATE);
    ck_assert_ptr_null(ual_evd_aggregate(evd));
    detach(evd);
    fails(ual_evd_wait(evd, 0, &event, NULL), RI_ERR_TIMED_OUT);
    ok(ual_evd_set_aggregate(evd, aevd));
    fails(ual_evd_callback_attach(evd, run, (void (*)(void))nothing, &probe), RI_ERR_INVALID_STATE);
}
END_TEST

/* --- detaching and freeing --- */

static void *detach_thread(void *arg)
{
    detach(((struct probe *)arg)->evd);
    ck_assert(!atomic_load(&((struct probe *)arg)->inside));
    return arg;
}

START_TEST(detaching_waits_for_a_routine_that_runs)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    pthread_t thread;

    attach(evd, stay);
    post(evd, 1);
    ck_assert(tc_until(atomic_load(&probe.inside), 10000));
    ck_assert_int_eq(pthread_create(&thread, NULL, detach_thread, &probe), 0);
    ck_assert(tc_until(!ual_evd_has_callback(evd), 10000));
    post(evd, 2); /* no more calls */
    atomic_store(&probe.may_return, true);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(atomic_load(&probe.calls), 1);
}
END_TEST

static void detach_inside(struct probe *of)
{
    struct ual_callback *running = NULL;

    ok(ual_evd_callback_detach(of->evd, &running));
    ck_assert_ptr_null(running);
    fails(ual_evd_callback_detach(of->evd, &running), RI_ERR_INVALID_STATE);
    atomic_store(&of->inside, true);
}

START_TEST(a_routine_detaches_itself)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);

    for (int round = 0; round < 20; round++) {
        attach(evd, detach_inside);
        post(evd, 1);
        ck_assert(tc_until(atomic_load(&probe.inside), 10000));
        ck_assert_uint_eq(dequeue(evd), 1);
    }
}
END_TEST

static void free_inside(struct probe *of)
{
    ok(ual_evd_free(of->evd));
    atomic_store(&of->inside, true);
}

START_TEST(a_routine_frees_its_evd)
{
    for (int round = 0; round < 20; round++) {
        struct ual_evd *evd = lf_evd(_i ? UAL_STREAM_SOFTWARE : UAL_STREAM_DTO, 8, 0);

        attach(evd, free_inside);
        if (_i)
            post(evd, 1);
        else
            lf_complete(evd, 1);
        ck_assert(tc_until(atomic_load(&probe.inside), 10000));
    }
}
END_TEST

static void *free_thread(void *evd)
{
    ok(ual_evd_free(evd));
    ck_assert(!atomic_load(&probe.inside));
    return NULL;
}

START_TEST(freeing_an_evd_waits_for_its_routine)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    pthread_t thread;

    attach(evd, stay);
    post(evd, 1);
    ck_assert(tc_until(atomic_load(&probe.inside), 10000));
    ck_assert_int_eq(pthread_create(&thread, NULL, free_thread, evd), 0);
    ck_assert(tc_until(!ual_evd_has_callback(evd), 10000));
    atomic_store(&probe.may_return, true);
    pthread_join(thread, NULL);
}
END_TEST

static void end_inside(struct probe *of)
{
    callbacks_end(lf_ia);
    ok(ual_evd_free(of->evd));
    atomic_store(&of->inside, true);
}

/* For example an IA that its callback frees. */
START_TEST(a_routine_ends_all_callbacks)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0), *other;

    other = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
    attach(evd, end_inside);
    ok(ual_evd_callback_attach(other, run, (void (*)(void))nothing, &probe));
    post(evd, 1);
    ck_assert(tc_until(atomic_load(&probe.inside), 10000));
    post(other, 1);
    detach(other);
    ck_assert_uint_eq(atomic_load(&probe.calls), 1);
}
END_TEST

START_TEST(death_is_told_by_a_call)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_DTO, 8, 0);
    const struct ri_event fatal = { .type = RI_EVENT_RNIC_FATAL };
    struct ual_event event;

    attach(evd, nothing);
    lf_lanes->failed(lf_lanes->context, &fatal);
    ck_assert(reaches(probe.calls, 1));
    fails(ual_evd_dequeue(evd, &event), RI_ERR_DEVICE);
    detach(evd);
}
END_TEST

/* Two threads that attach at the same time share one callback thread. */
static void *attach_thread(void *arg)
{
    ok(ual_evd_callback_attach(arg, run, (void (*)(void))stay, &probe));
    return NULL;
}

START_TEST(attached_at_the_same_time_they_share_a_thread)
{
    for (int round = 0; round < 30; round++) {
        struct ual_evd *evds[2];
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
            evds[i] = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);
        memset(&probe, 0, sizeof(probe));
        for (int i = 0; i < 2; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, attach_thread, evds[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 2; i++)
            post(evds[i], 1);
        ck_assert(tc_until(atomic_load(&probe.inside), 10000));
        lf_pass(1000);
        ck_assert_uint_eq(atomic_load(&probe.calls), 1); /* the other one waits */
        atomic_store(&probe.may_return, true);
        ck_assert(reaches(probe.calls, 2));
        for (int i = 0; i < 2; i++)
            ok(ual_evd_free(evds[i]));
        callbacks_end(lf_ia);
    }
}
END_TEST

/* --- fork --- */

static void fork_inside(struct probe *of)
{
    pid_t child;
    int status = -1;

    drain(of);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        callback_forked();
#if defined(ITAL_TSAN) || defined(__SANITIZE_ADDRESS__) /* the sanitizers cannot end such a child */
        _exit(0);
#endif
        return; /* the child's only thread ends, and with it the child */
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    atomic_store(&of->inside, true);
}

START_TEST(a_routine_forks_and_returns_in_both)
{
    struct ual_evd *evd = lf_evd(UAL_STREAM_SOFTWARE, 8, 0);

    attach(evd, fork_inside);
    post(evd, 1);
    ck_assert(tc_until(atomic_load(&probe.inside), 20000));
    detach(evd);
}
END_TEST

/* --- no event without its callback --- */

/* Each event is sent when the one before was taken, so the routine is about to return. Another
 * thread that polls takes some of them. */
static void spend(struct tc_rng *rng)
{
    uint64_t kind = tc_below(rng, 100);

    if (kind < 70)
        for (uint64_t i = tc_below(rng, 2000); i; i--)
            __asm__ volatile("");
    else if (kind < 99)
        sched_yield();
    else
        lf_pass((unsigned int)tc_below(rng, 100));
}

static atomic_bool polling;

static void *poll_now_and_then(void *arg)
{
    struct tc_rng rng = tc_rng(99);
    struct ual_event event;

    while (atomic_load(&polling)) {
        spend(&rng);
        if (ual_evd_dequeue(arg, &event) == RI_OK)
            atomic_fetch_add(&probe.taken, 1);
    }
    return NULL;
}

static void cycles(struct ual_evd *evd, struct ual_evd *of, struct lf_pipe *feed, bool disturb)
{
    struct tc_rng rng = tc_rng((uint64_t)disturb);
    unsigned long count = tc_count(CYCLES) / 4;
    pthread_t thread;

    attach(evd, drain);
    atomic_store(&polling, disturb);
    if (disturb)
        ck_assert_int_eq(pthread_create(&thread, NULL, poll_now_and_then, evd), 0);
    for (unsigned long i = 0; i < count; i++) {
        spend(&rng);
        if (feed)
            lf_send(feed, i);
        else
            lf_complete(of, i);
        ck_assert_msg(tc_until(atomic_load(&probe.taken) > i, 20000),
                      "event %lu had no callback; seed 0x%llx", i, (unsigned long long)tc_seed());
    }
    atomic_store(&polling, false);
    if (disturb)
        pthread_join(thread, NULL);
    fprintf(stderr, "# %lu events, %u calls\n", count, atomic_load(&probe.calls));
    detach(evd);
}

/* By a post; by a lane; from a member of an aggregate; while another thread polls. */
START_TEST(no_event_without_its_callback)
{
    struct ual_evd *dto = lf_evd(UAL_STREAM_DTO, 64, 0), *aevd;
    struct lf_pipe *feed = _i == 1 ? lf_pipe(dto) : NULL;

    aevd = _i == 2 ? lf_evd(UAL_STREAM_NOTIFICATION, 0, 0) : NULL;
    if (aevd)
        ok(ual_evd_set_aggregate(dto, aevd));
    cycles(aevd ? aevd : dto, dto, feed, _i == 3);
    if (feed)
        lf_pipe_close(feed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks of event dispatchers");
    TCase *calls = tcase_create("calls"), *refusals = tcase_create("refusals");
    TCase *ends = tcase_create("ends"), *stress = tcase_create("stress");
    TCase *cases[] = { calls, refusals, ends, stress };

    tcase_add_test(calls, each_event_has_its_call);
    tcase_add_loop_test(calls, completions_have_their_calls, 0, 2);
    tc_add_tests(calls, a_routine_that_does_not_take_is_called_for_what_comes_later,
                 what_is_queued_at_attaching_has_its_call);
    tcase_add_loop_test(calls, an_aggregate_has_calls, 0, 2);
    tc_add_tests(calls, one_thread_without_signals_and_cancellation,
                 a_routine_that_ends_the_thread_gets_another);
    tcase_add_test(refusals, wrong_attachments_are_refused);
    tc_add_tests(ends, detaching_waits_for_a_routine_that_runs, a_routine_detaches_itself);
    tcase_add_loop_test(ends, a_routine_frees_its_evd, 0, 2);
    tc_add_tests(ends, freeing_an_evd_waits_for_its_routine, a_routine_ends_all_callbacks,
                 death_is_told_by_a_call, attached_at_the_same_time_they_share_a_thread,
                 a_routine_forks_and_returns_in_both);
    tcase_add_loop_test(stress, no_event_without_its_callback, 0, 4);
    lf_add_cases(suite, cases, sizeof(cases) / sizeof(cases[0]), setup, teardown);
    return tc_main(suite);
}

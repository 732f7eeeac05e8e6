/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tracking of threads inside calls: a drain waits for calls that began before it, and for no
 * others.
 */
#include "lane_fake.h"

#include "ual/mechanism/mechanism_private.h"

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static atomic_bool inside, settling, left, stop;

static void reset(void)
{
    atomic_store(&inside, false);
    atomic_store(&settling, false);
    atomic_store(&left, false);
    atomic_store(&stop, false);
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    ck_assert_int_eq(pthread_create(thread, NULL, run, arg), 0);
}

/* Stays in a call until another thread is surely about to wait for it, and a while longer. */
static void *one_call(void *arg)
{
    (void)arg;
    ual_call_begin();
    atomic_store(&inside, true);
    while (!atomic_load(&settling))
        sched_yield();
    for (int i = 0; i < 200; i++)
        sched_yield();
    atomic_store(&left, true);
    ual_call_end();
    return NULL;
}

static void settle_beside_a_call(void)
{
    pthread_t thread;

    reset();
    start(&thread, one_call, NULL);
    while (!atomic_load(&inside))
        sched_yield();
    atomic_store(&settling, true);
    ual_calls_drain();
    ck_assert(atomic_load(&left));
    pthread_join(thread, NULL);
}

START_TEST(a_call_that_began_before_is_over)
{
    for (unsigned long i = 0; i < tc_count(50); i++)
        settle_beside_a_call();
}
END_TEST

/* The fast path relies on the kernel's membarrier; this tests the path without it. */
START_TEST(also_without_membarrier)
{
    struct sock_filter rules[] = {
        { .code = BPF_LD | BPF_W | BPF_ABS, .k = offsetof(struct seccomp_data, nr) },
        { .code = BPF_JMP | BPF_JEQ | BPF_K, .k = SYS_membarrier, .jf = 1 },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ERRNO | ENOSYS },
        { .code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW },
    };
    struct sock_fprog program = { .len = sizeof(rules) / sizeof(rules[0]), .filter = rules };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        tc_skip("no seccomp here");
    for (unsigned long i = 0; i < tc_count(50); i++)
        settle_beside_a_call();
    ual_call_begin();
    ck_assert_int_lt(atomic_load(&ual_caller.count), 0); /* each call has its own fence */
    ual_call_end();
}
END_TEST

static void *many_calls(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        ual_call_begin();
        atomic_store(&inside, true);
        ual_call_end();
    }
    return NULL;
}

START_TEST(calls_without_end_hold_nobody_up)
{
    pthread_t threads[3];

    reset();
    for (int i = 0; i < 3; i++)
        start(&threads[i], many_calls, NULL);
    while (!atomic_load(&inside))
        sched_yield();
    for (unsigned long i = 0; i < tc_count(50); i++)
        ual_calls_drain();
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* ThreadSanitizer ends a thread in the last round of destructors: its key is older than any here.
 * In the same round a release that has to grow a clock takes memory of the thread, which is freed:
 * SIGSEGV in SyncClock::Unshare, below __tsan_atomic64_store. */
#ifdef ITAL_TSAN
#define LATE_ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define LATE_ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

static pthread_key_t late;
static atomic_uint late_calls;

/* A destructor that makes a call, in every round of destructors. */
static void call_late(void *round)
{
    uintptr_t next = (uintptr_t)round + 1;

    ual_call_begin();
    atomic_fetch_add(&late_calls, 1);
    ual_call_end();
    if (next <= LATE_ROUNDS)
        pthread_setspecific(late, (void *)next);
}

static void *end_with_a_call(void *arg)
{
    (void)arg;
    ual_call_begin();
    ual_call_end();
    pthread_setspecific(late, (void *)1);
    return NULL;
}

START_TEST(threads_that_ended_are_forgotten)
{
    ck_assert_int_eq(pthread_key_create(&late, call_late), 0);
    for (unsigned long i = 0; i < tc_count(100); i++) {
        pthread_t threads[4];

        for (int t = 0; t < 4; t++)
            start(&threads[t], end_with_a_call, NULL);
        ual_calls_drain();
        for (int t = 0; t < 4; t++)
            pthread_join(threads[t], NULL);
        ual_calls_drain(); /* does not touch the ended threads' stacks */
    }
    ck_assert_uint_eq(atomic_load(&late_calls), 4 * LATE_ROUNDS * tc_count(100));
}
END_TEST

START_TEST(a_forked_child_waits_for_no_thread_of_its_parent)
{
    pthread_t thread;
    pid_t child;
    int status;

    reset();
    ok(ual_fork_prepare());
    ual_call_begin();
    ual_call_end();
    start(&thread, one_call, NULL);
    while (!atomic_load(&inside))
        sched_yield();
    child = fork();
    if (child == 0) {
        ual_calls_drain(); /* this thread sees the other one in its call for ever */
        _exit(0);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    atomic_store(&settling, true);
    pthread_join(thread, NULL);
}
END_TEST

/* --- the handles of a closed IA --- */

START_TEST(an_IA_that_closes_has_no_handles_and_gets_none)
{
    struct device_inside *ias = calloc(2, sizeof(*ias));
    struct ual_object objects[3] = { 0 }, late_one = { 0 };

    for (int i = 0; i < 3; i++)
        ok(ual_handle_take(&objects[i], UAL_EVD, &ias[i / 2].device));
    ck_assert(ual_handle_close_device(&ias[0].device));
    ck_assert(!ual_handle_close_device(&ias[0].device));
    ck_assert_ptr_null(ual_lookup(objects[0].handle, UAL_EVD));
    ck_assert_ptr_null(ual_lookup(objects[1].handle, UAL_EVD));
    ck_assert_ptr_eq(ual_lookup(objects[2].handle, UAL_EVD), &objects[2]);
    ck_assert_ptr_eq(ual_handle_object(objects[1].handle), &objects[1]);
    fails(ual_handle_take(&late_one, UAL_EVD, &ias[0].device), ITAL_ERR_ABORTED);
    ual_handle_show(&objects[0]);
    ck_assert_ptr_null(ual_lookup(objects[0].handle, UAL_EVD));
    for (int i = 0; i < 3; i++)
        ual_handle_drop(&objects[i]);
    free(ias);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("calls");
    TCase *settle = tc_case(suite, "settle", NULL, NULL);
    TCase *closing = tc_case(suite, "closing", NULL, NULL);

    tcase_set_timeout(settle, 30);
    tc_add_tests(settle, a_call_that_began_before_is_over, also_without_membarrier,
                 calls_without_end_hold_nobody_up, threads_that_ended_are_forgotten,
                 a_forked_child_waits_for_no_thread_of_its_parent);
    tc_add_tests(closing, an_IA_that_closes_has_no_handles_and_gets_none);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}

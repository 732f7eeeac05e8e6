/* SPDX-License-Identifier: BSD-3-Clause */
/* it_evd_wait: time-outs, signals, several waiters, the end of the adapter. */
#include "opened.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define MS 1000u

static it_evd_handle_t software(const struct node *end, size_t size)
{
    it_evd_handle_t evd;

    ok(it_evd_create(end->ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, size, 0, NULL, &evd,
                     NULL));
    return evd;
}

static it_evd_handle_t completions(const struct node *end)
{
    it_evd_handle_t evd;

    ok(it_evd_create(end->ia, IT_DTO_EVENT_STREAM, (it_evd_flags_t)0, 64, 0, NULL, &evd, NULL));
    return evd;
}

START_TEST(timeouts)
{
    static const uint64_t times[] = { 0, 1, 10, 100, 1 * MS, 20 * MS, 100 * MS };
    it_evd_handle_t evds[2];

    node_open(&node, IFACE);
    evds[0] = software(&node, 4);
    evds[1] = completions(&node);
    for (size_t i = 0; i < 2 * sizeof(times) / sizeof(times[0]); i++) {
        uint64_t start = tc_now_ns(), passed;
        it_event_t event;
        size_t more = 77;

        is(IT_ERR_TIMEOUT_EXPIRED, it_evd_wait(evds[i % 2], times[i / 2], &event, &more));
        passed = (tc_now_ns() - start) / 1000;
        ck_assert_uint_ge(passed, times[i / 2]);
        ck_assert_uint_lt(passed, times[i / 2] + (uint64_t)tc_timeout_ms(5000) * MS);
        ck_assert_uint_eq(more, 77);
    }
}
END_TEST

/* Large time-outs do not wrap into short ones. */
START_TEST(long_timeouts)
{
    static const uint64_t times[] = { IT_TIMEOUT_INFINITE, UINT64_MAX - 1, UINT64_MAX / 1000,
                                      UINT64_MAX / 1000 + 1, (uint64_t)1 << 62 };
    it_evd_handle_t evd;

    node_open(&node, IFACE);
    evd = software(&node, 4);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        it_event_t event;

        ok(it_evd_post_se(evd, NULL));
        ok(it_evd_wait(evd, times[i], &event, NULL));
    }
}
END_TEST

/* --- threads that wait --- */

struct waiter {
    pthread_t thread;
    it_evd_handle_t evd;
    uint64_t timeout;
    int rounds;
    _Atomic(pthread_t *) running;
    atomic_int tid;
    atomic_int done;
    it_status_t last;
    it_event_t event;
};

static void *wait_rounds(void *arg)
{
    struct waiter *waiter = arg;

    atomic_store(&waiter->tid, gettid());
    atomic_store(&waiter->running, &waiter->thread);
    for (int i = 0; i < waiter->rounds; i++) {
        waiter->last = it_evd_wait(waiter->evd, waiter->timeout, &waiter->event, NULL);
        if (waiter->last != IT_SUCCESS)
            break;
        atomic_fetch_add(&waiter->done, 1);
    }
    return NULL;
}

static void start(struct waiter *waiter, it_evd_handle_t evd, uint64_t timeout, int rounds)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->evd = evd;
    waiter->timeout = timeout;
    waiter->rounds = rounds;
    ck_assert_int_eq(pthread_create(&waiter->thread, NULL, wait_rounds, waiter), 0);
    ck_assert(tc_until(atomic_load(&waiter->running), PATIENCE));
}

static void join(struct waiter *waiter)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += tc_timeout_ms(PATIENCE) / 1000;
    ck_assert_msg(pthread_timedjoin_np(waiter->thread, NULL, &until) == 0,
                  "a waiting thread did not return");
}

START_TEST(woken_by_a_software_event)
{
    struct waiter waiter;

    node_open(&node, IFACE);
    for (unsigned long i = 0; i < tc_count(200); i++) {
        it_evd_handle_t evd = software(&node, 4);

        start(&waiter, evd, IT_TIMEOUT_INFINITE, 1);
        ok(it_evd_post_se(evd, &node));
        join(&waiter);
        is(IT_SUCCESS, waiter.last);
        ck_assert_ptr_eq(waiter.event.sw.data, &node);
        ok(it_evd_free(evd));
    }
}
END_TEST

/* Each event wakes one waiter; none is lost, none is delivered twice. */
START_TEST(several_waiters)
{
    enum { THREADS = 6, ROUNDS = 200 };
    struct waiter waiters[THREADS];
    it_evd_handle_t evd;

    node_open(&node, IFACE);
    evd = software(&node, THREADS * ROUNDS);
    for (int i = 0; i < THREADS; i++)
        start(&waiters[i], evd, IT_TIMEOUT_INFINITE, ROUNDS);
    for (int i = 0; i < THREADS * ROUNDS; i++)
        ok(it_evd_post_se(evd, NULL));
    for (int i = 0; i < THREADS; i++) {
        join(&waiters[i]);
        is(IT_SUCCESS, waiters[i].last);
        ck_assert_int_eq(atomic_load(&waiters[i].done), ROUNDS);
    }
    expect_nothing(evd);
}
END_TEST

/* Several threads on one SEVD of completions, others on another: each event reaches a thread. */
START_TEST(several_waiters_of_completions)
{
    enum { THREADS = 4, MESSAGES = 50 };
    struct waiter waiters[THREADS];
    struct buffer a, b;
    it_lmr_triplet_t one;
    int received = 0;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    one = segment(&b, 0, 64);
    for (int i = 0; i < MESSAGES; i++)
        ok(it_post_recv(pair.b.ep, &one, 1, (it_dto_cookie_t)i, BOTH));
    for (int i = 0; i < THREADS; i++)
        start(&waiters[i], pair.b.receives, IT_TIMEOUT_INFINITE, MESSAGES + 1);
    one = segment(&a, 0, 64);
    for (int i = 0; i < MESSAGES; i++) {
        ok(it_post_send(pair.a.ep, &one, 1, (it_dto_cookie_t)i, BOTH));
        expect_done(pair.a.requests, IT_DTO_SEND_CMPL_EVENT, (it_dto_cookie_t)i, IT_DTO_SUCCESS);
    }
    ck_assert(tc_until(({
                           received = 0;
                           for (int i = 0; i < THREADS; i++)
                               received += atomic_load(&waiters[i].done);
                           received == MESSAGES;
                       }),
                       PATIENCE));
    node_close(&pair.b); /* ends the waits */
    for (int i = 0; i < THREADS; i++) {
        join(&waiters[i]);
        /* One that was between two waits finds the EVD gone. */
        if (waiters[i].last != IT_ERR_INVALID_EVD)
            is(IT_ERR_ABORT, waiters[i].last);
    }
}
END_TEST

/* --- leaving --- */

static atomic_int signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static void handle_signal(int flags)
{
    struct sigaction action = { .sa_handler = count_signal, .sa_flags = flags };

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Sends signals until the thread has left; a signal that comes before the wait ends nothing. */
static void signal_until_done(struct waiter *waiter)
{
    uint64_t deadline = tc_deadline(PATIENCE);
    int rc;

    do {
        struct timespec until;

        pthread_kill(waiter->thread, SIGUSR1);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 2000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        rc = pthread_timedjoin_np(waiter->thread, NULL, &until);
    } while (rc == ETIMEDOUT && !tc_expired(deadline));
    ck_assert_int_eq(rc, 0);
}

START_TEST(interrupted)
{
    struct waiter waiter;
    it_evd_handle_t evd;

    handle_signal(_i % 2 ? SA_RESTART : 0); /* SA_RESTART makes no difference */
    node_open(&node, fx_interface(_i / 2));
    for (int kind = 0; kind < 2; kind++) {
        evd = kind ? completions(&node) : software(&node, 4);
        for (int i = 0; i < 20; i++) {
            start(&waiter, evd, IT_TIMEOUT_INFINITE, 1);
            signal_until_done(&waiter);
            is(IT_ERR_INTERRUPT, waiter.last);
        }
    }
    ck_assert_int_ge(atomic_load(&signals), 40);
}
END_TEST

/* A signal ends the wait of a thread that was not the one to be woken: the others are still
 * woken. */
START_TEST(interrupted_beside_others)
{
    struct waiter one, two;
    it_evd_handle_t evd, other;

    handle_signal(0);
    node_open(&node, IFACE);
    evd = software(&node, 4);
    other = completions(&node);
    for (int i = 0; i < 50; i++) {
        start(&one, other, IT_TIMEOUT_INFINITE, 1);
        start(&two, evd, IT_TIMEOUT_INFINITE, 1);
        signal_until_done(&one);
        ok(it_evd_post_se(evd, NULL));
        join(&two);
        is(IT_SUCCESS, two.last);
    }
}
END_TEST

static bool sleeps(const struct waiter *waiter)
{
    char state = 0;

    if (!tc_until(atomic_load(&waiter->tid), PATIENCE))
        return false;
    return tc_until((state = tc_thread_state(getpid(), atomic_load(&waiter->tid))) == 'S' || !state,
                    PATIENCE) &&
           state;
}

/* Another process stops this one, waits until it has stopped, and continues it. */
static void stop_and_continue(void)
{
    pid_t here = getpid(), other = fork();
    int status;

    ck_assert_int_ge(other, 0);
    if (other == 0) {
        uint64_t deadline = tc_deadline(PATIENCE);

        kill(here, SIGSTOP);
        while (tc_thread_state(here, here) != 'T' && !tc_expired(deadline))
            ;
        kill(here, SIGCONT);
        _exit(tc_expired(deadline));
    }
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_int_eq(status, 0);
}

/* A stop and SIGCONT, as by a debugger that attaches, ends neither the wait of the lane's sleeper
 * nor that of a thread beside it. */
START_TEST(a_stop_without_a_handler_ends_no_wait)
{
    struct waiter waiters[2];
    it_evd_handle_t evds[2];

    handle_signal(0); /* a handler for another signal: no EINTR from it */
    node_open(&node, fx_interface(_i));
    evds[0] = software(&node, 4);
    evds[1] = software(&node, 4);
    for (int i = 0; i < 2; i++)
        start(&waiters[i], evds[i], IT_TIMEOUT_INFINITE, 1);
    for (int round = 0; round < 5; round++) {
        ck_assert(sleeps(&waiters[0]) && sleeps(&waiters[1]));
        stop_and_continue();
    }
    for (int i = 0; i < 2; i++) {
        ck_assert(sleeps(&waiters[i]));
        ok(it_evd_post_se(evds[i], NULL));
        join(&waiters[i]);
        is(IT_SUCCESS, waiters[i].last);
    }
}
END_TEST

START_TEST(aborted_by_the_end_of_the_adapter)
{
    enum { THREADS = 5 };
    struct waiter waiters[THREADS];

    for (int round = 0; round < 10; round++) {
        it_evd_handle_t evds[2];

        node_open(&node, IFACE);
        evds[0] = software(&node, 4);
        evds[1] = completions(&node);
        for (int i = 0; i < THREADS; i++)
            start(&waiters[i], evds[i % 2], IT_TIMEOUT_INFINITE, 1);
        node_close(&node);
        for (int i = 0; i < THREADS; i++) {
            join(&waiters[i]);
            /* a thread that had not begun to wait finds the handle freed */
            ck_assert(waiters[i].last == IT_ERR_ABORT || waiters[i].last == IT_ERR_INVALID_EVD);
        }
    }
}
END_TEST

/* While a thread waits the SEVD is busy. If the thread had not begun to wait, the free succeeds:
 * then try again. */
START_TEST(busy_while_waited_on)
{
    struct waiter waiter;
    it_evd_handle_t evd;
    it_status_t status = IT_SUCCESS;

    node_open(&node, IFACE);
    for (int attempt = 0; attempt < 10000 && status == IT_SUCCESS; attempt++) {
        evd = software(&node, 4);
        start(&waiter, evd, IT_TIMEOUT_INFINITE, 1);
        status = it_evd_free(evd);
        if (status == IT_ERR_EVD_BUSY)
            ok(it_evd_post_se(evd, NULL));
        join(&waiter);
        if (status == IT_SUCCESS)
            ck_assert(waiter.last == IT_ERR_ABORT || waiter.last == IT_ERR_INVALID_EVD);
    }
    is(IT_ERR_EVD_BUSY, status);
    is(IT_SUCCESS, waiter.last);
    ok(it_evd_free(evd));
}
END_TEST

/* More waiters than the adapter supports are refused; the others are served. */
START_TEST(waiter_limit)
{
    enum { THREADS = 200 };
    static struct waiter waiters[THREADS];
    it_evd_handle_t evd;
    int refused = 0;

    node_open(&node, IFACE);
    evd = software(&node, THREADS);
    for (int i = 0; i < THREADS; i++)
        start(&waiters[i], evd, IT_TIMEOUT_INFINITE, 1);
    for (int i = 0; i < THREADS; i++)
        ok(it_evd_post_se(evd, NULL));
    for (int i = 0; i < THREADS; i++) {
        join(&waiters[i]);
        refused += waiters[i].last == IT_ERR_WAITER_LIMIT;
        ck_assert(waiters[i].last == IT_SUCCESS || waiters[i].last == IT_ERR_WAITER_LIMIT);
    }
    ck_assert_int_lt(refused, THREADS);
}
END_TEST

/* nmore is exact while no events arrive. */
START_TEST(how_many_more)
{
    struct buffer a, b;
    it_lmr_triplet_t one;
    it_event_t event;
    size_t more;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 4096, EVERYTHING);
    one = segment(&a, 0, 64);
    for (it_dto_cookie_t i = 0; i < 5; i++)
        ok(it_post_rdma_write(pair.a.ep, &one, 1, i, BOTH, address_in(&b, 0), b.context));
    for (it_dto_cookie_t i = 0; i < 5; i++) {
        ok(it_evd_wait(pair.a.requests, IT_TIMEOUT_INFINITE, &event, &more));
        ck_assert_uint_eq(event.dto_cmpl.cookie, i);
        ck_assert_uint_le(more, 4 - i);
    }
    ck_assert_uint_eq(more, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("it_wait");
    TCase *tc = tc_case(suite, "wait", NULL, fx_close);
    TCase *leave = tc_case(suite, "leave", NULL, fx_close);

    add_each(tc, timeouts, long_timeouts, woken_by_a_software_event, several_waiters,
             several_waiters_of_completions, how_many_more);
    tcase_add_loop_test(leave, interrupted, 0, 2 * (int)fx_interfaces());
    add_each(leave, interrupted_beside_others);
    tcase_add_loop_test(leave, a_stop_without_a_handler_ends_no_wait, 0, (int)fx_interfaces());
    add_each(leave, aborted_by_the_end_of_the_adapter, busy_while_waited_on, waiter_limit);
    return tc_main(suite);
}

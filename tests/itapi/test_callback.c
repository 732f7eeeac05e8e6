/* SPDX-License-Identifier: BSD-3-Clause */
/* Callbacks: called for each event; detached and freed from every place; forks; cancellation. */
#include "opened.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static struct probe {
    struct node *node;
    it_evd_handle_t evd;
    atomic_uint calls, taken;
    atomic_bool inside, may_return, done;
    it_status_t status;
} probe;

#define reaches(counter, count) tc_until(atomic_load(&(counter)) >= (count), PATIENCE)

static it_evd_handle_t software(it_ia_handle_t ia)
{
    it_evd_handle_t evd;

    ok(it_evd_create(ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, 8, 0, NULL, &evd, NULL));
    return evd;
}

static void attach(struct node *end, it_evd_handle_t evd, it_evd_callback_rtn_t routine)
{
    memset(&probe, 0, sizeof(probe));
    probe.node = end;
    probe.evd = evd;
    ok(it_evd_callback_attach(evd, routine, &probe));
}

static void drain(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;
    it_event_t event;

    ck_assert_ptr_eq(evd, of->evd);
    atomic_fetch_add(&of->calls, 1);
    while (it_evd_dequeue(evd, &event) == IT_SUCCESS)
        atomic_fetch_add(&of->taken, 1);
}

static void stay(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;

    (void)evd;
    atomic_fetch_add(&of->calls, 1);
    atomic_store(&of->inside, true);
    ck_assert(tc_until(atomic_load(&of->may_return), 2 * PATIENCE));
    atomic_store(&of->inside, false);
}

/* --- events --- */

/* Receives of one side, connection messages of the other; no thread dequeues or waits. */
START_TEST(called_for_completions)
{
    struct buffer a, b;
    it_lmr_triplet_t to, from;

    pair_connected(&pair, IFACE);
    a = buffer_make(&pair.a, 4096, IT_PRIV_LOCAL);
    b = buffer_make(&pair.b, 4096, IT_PRIV_LOCAL);
    to = segment(&b, 0, 64);
    from = segment(&a, 0, 64);
    attach(&pair.b, pair.b.receives, drain);
    for (unsigned int i = 0; i < 50; i++) {
        ok(it_post_recv((it_handle_t)pair.b.ep, &to, 1, i, BOTH));
        ok(it_post_send(pair.a.ep, &from, 1, i, (it_dto_flags_t)(BOTH | IT_SOLICITED_WAIT_FLAG)));
        ck_assert(reaches(probe.taken, i + 1));
        expect_done(pair.a.requests, IT_DTO_SEND_CMPL_EVENT, i, IT_DTO_SUCCESS);
    }
    ok(it_evd_callback_detach(pair.b.receives));
    attach(&pair.b, pair.b.connections, drain);
    ok(it_ep_disconnect(pair.a.ep, NULL, 0));
    ck_assert(reaches(probe.taken, 1));
}
END_TEST

/* --- errors --- */

START_TEST(errors)
{
    it_evd_handle_t evd, aevd, member;
    it_evd_param_t params;
    it_event_t event;
    size_t count;

    node_open(&node, IFACE);
    evd = software(node.ia);
    is(IT_ERR_FAULT, it_evd_callback_attach(evd, NULL, NULL));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_callback_detach(evd));
    attach(&node, evd, drain);
    is(IT_ERR_CALLBACK_EXISTS, it_evd_callback_attach(evd, drain, &probe));
    is(IT_ERR_CALLBACK_EXISTS, it_evd_wait(evd, 0, &event, NULL));
    is(IT_ERR_CALLBACK_EXISTS, it_evd_wait(evd, IT_TIMEOUT_INFINITE, &event, NULL));
    ok(it_evd_query(evd, IT_EVD_PARAM_CALLBACK, &params));
    ck_assert_int_eq(params.evd_callback, IT_TRUE);
    ok(it_evd_callback_detach(evd));
    ok(it_evd_query(evd, IT_EVD_PARAM_CALLBACK, &params));
    ck_assert_int_eq(params.evd_callback, IT_FALSE);
    ok(it_evd_create(node.ia, IT_AEVD_NOTIFICATION_EVENT_STREAM, (it_evd_flags_t)0, 0, 0, NULL,
                     &aevd, NULL));
    ok(it_evd_create(node.ia, IT_SOFTWARE_EVENT_STREAM, (it_evd_flags_t)0, 8, 0, aevd, &member,
                     NULL));
    is(IT_ERR_INVALID_EVD_STATE, it_evd_callback_attach(member, drain, &probe));
    attach(&node, aevd, drain);
    is(IT_ERR_CALLBACK_EXISTS, itx_aevd_wait(aevd, 0, 1, &event, &count));
    ok(it_evd_post_se(member, NULL));
    ck_assert(reaches(probe.taken, 1));
    ok(it_evd_callback_detach(aevd));
    ok(it_evd_free(member));
    attach(&node, aevd, drain);
    ok(it_evd_free(aevd)); /* with its callback */
    is(IT_ERR_INVALID_EVD, it_evd_callback_attach(aevd, drain, &probe));
}
END_TEST

struct waiter {
    pthread_t thread;
    it_evd_handle_t evd;
    it_status_t status;
};

static void *wait_thread(void *arg)
{
    struct waiter *waiter = arg;
    it_event_t event;

    waiter->status = it_evd_wait(waiter->evd, IT_TIMEOUT_INFINITE, &event, NULL);
    return NULL;
}

/* A thread that does not wait yet may be refused itself: then try again. */
START_TEST(refused_while_a_thread_waits)
{
    it_status_t status = IT_SUCCESS;

    node_open(&node, IFACE);
    for (int attempt = 0; attempt < 10000 && status == IT_SUCCESS; attempt++) {
        struct waiter waiter = { .evd = software(node.ia) };

        ck_assert_int_eq(pthread_create(&waiter.thread, NULL, wait_thread, &waiter), 0);
        sched_yield();
        status = it_evd_callback_attach(waiter.evd, drain, &probe);
        if (status != IT_SUCCESS) {
            ck_assert_int_eq(status, IT_ERR_EVD_WAIT);
            ok(it_evd_post_se(waiter.evd, NULL));
        }
        pthread_join(waiter.thread, NULL);
        ck_assert_int_eq(waiter.status, status == IT_SUCCESS ? IT_ERR_CALLBACK_EXISTS : IT_SUCCESS);
        ok(it_evd_free(waiter.evd));
    }
    ck_assert_int_eq(status, IT_ERR_EVD_WAIT);
}
END_TEST

/* --- freeing --- */

static void free_evd_inside(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;

    of->status = it_evd_free(evd);
    atomic_store(&of->done, true);
}

static void detach_inside(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;

    of->status = it_evd_callback_detach(evd);
    atomic_store(&of->done, true);
}

START_TEST(an_evd_is_detached_and_freed_inside)
{
    node_open(&node, IFACE);
    for (int i = 0; i < 20; i++) {
        it_evd_handle_t evd = software(node.ia);

        attach(&node, evd, detach_inside);
        ok(it_evd_post_se(evd, NULL));
        ck_assert(tc_until(atomic_load(&probe.done), PATIENCE));
        ok(probe.status);
        attach(&node, evd, free_evd_inside); /* called at once: an event is queued */
        ck_assert(tc_until(atomic_load(&probe.done), PATIENCE));
        ok(probe.status);
        is(IT_ERR_INVALID_EVD, it_evd_free(evd));
    }
}
END_TEST

static void free_ia_inside(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;

    (void)evd;
    atomic_store(&of->inside, true);
    if (!tc_until(atomic_load(&of->may_return), 2 * PATIENCE))
        return;
    of->status = it_ia_free(of->node->ia);
    atomic_store(&of->done, true);
}

static void *detach_thread(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = it_evd_callback_detach(waiter->evd);
    return NULL;
}

static void *free_thread(void *arg)
{
    struct waiter *waiter = arg;

    waiter->status = it_evd_free(waiter->evd);
    return NULL;
}

/* The IA is freed inside a callback while another thread waits for that callback, by detaching it
 * or by freeing its EVD. Neither waits for the other. */
START_TEST(an_ia_is_freed_inside)
{
    for (int round = 0; round < 12; round++) {
        struct waiter waiter = { 0 };
        it_evd_handle_t evd;

        node_open(&node, IFACE);
        evd = software(node.ia);
        attach(&node, evd, free_ia_inside);
        ok(it_evd_post_se(evd, NULL));
        ck_assert(tc_until(atomic_load(&probe.inside), PATIENCE));
        waiter.evd = evd;
        if (round % 3)
            ck_assert_int_eq(pthread_create(&waiter.thread, NULL,
                                            round % 3 == 1 ? detach_thread : free_thread, &waiter),
                             0);
        if (round % 2)
            sched_yield();
        atomic_store(&probe.may_return, true);
        ck_assert(tc_until(atomic_load(&probe.done), 2 * PATIENCE));
        ok(probe.status);
        if (round % 3) {
            pthread_join(waiter.thread, NULL);
            ck_assert(waiter.status == IT_SUCCESS || waiter.status == IT_ERR_INVALID_EVD);
        }
        is(IT_ERR_INVALID_IA, it_ia_free(node.ia));
        it_ia_info_free(node.info);
        node.ia = NULL;
    }
}
END_TEST

static void wait_inside(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;
    it_event_t event;

    (void)evd;
    atomic_store(&of->inside, true);
    of->status = it_evd_wait(of->node->connections, IT_TIMEOUT_INFINITE, &event, NULL);
    atomic_store(&of->done, true);
}

/* it_ia_free waits for a running callback, and ends the wait inside it. */
START_TEST(an_ia_is_freed_while_a_callback_runs)
{
    for (int round = 0; round < 10; round++) {
        it_evd_handle_t evd;

        node_open(&node, IFACE);
        evd = software(node.ia);
        attach(&node, evd, wait_inside);
        ok(it_evd_post_se(evd, NULL));
        ck_assert(tc_until(atomic_load(&probe.inside), PATIENCE));
        node_close(&node);
        ck_assert(atomic_load(&probe.done));
        ck_assert(probe.status == IT_ERR_ABORT || probe.status == IT_ERR_INVALID_EVD);
    }
}
END_TEST

/* --- the process --- */

#ifndef ITAL_TSAN /* TSan allows no new threads in such a child */
static int release_ends[2];

/* As stay, but it sleeps: see tc_await_quiet_for_fork. */
static void stay_asleep(it_evd_handle_t evd, void *arg)
{
    struct probe *of = arg;

    (void)evd;
    atomic_fetch_add(&of->calls, 1);
    atomic_store(&of->inside, true);
    ck_assert_int_eq(tc_wait_fd(release_ends[0], POLLIN, tc_deadline(2 * PATIENCE)), POLLIN);
    atomic_store(&of->inside, false);
}

/* A child has no callback thread; the parent's continues. */
START_TEST(forked)
{
    it_evd_handle_t evd;
    int status = -1;
    pid_t child;

    ck_assert_int_eq(pipe(release_ends), 0);
    node_open(&node, IFACE);
    evd = software(node.ia);
    attach(&node, evd, stay_asleep);
    ok(it_evd_post_se(evd, NULL));
    ck_assert(tc_until(atomic_load(&probe.inside), PATIENCE));
    tc_await_quiet_for_fork();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        struct node own;
        it_evd_handle_t again;

        is(IT_ERR_IA_CATASTROPHE, it_evd_callback_detach(evd));
        node_open(&own, IFACE);
        again = software(own.ia);
        attach(&own, again, drain);
        ok(it_evd_post_se(again, NULL));
        ck_assert(reaches(probe.taken, 1));
        node_close(&own);
        _exit(0);
    }
    ck_assert_int_eq(write(release_ends[1], "", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ok(it_evd_callback_detach(evd));
    ck_assert_uint_eq(atomic_load(&probe.calls), 1);
    node_close(&node);
    close(release_ends[0]);
    close(release_ends[1]);
}
END_TEST
#endif

static bool has_callback(it_evd_handle_t evd)
{
    it_evd_param_t params;

    ok(it_evd_query(evd, IT_EVD_PARAM_CALLBACK, &params));
    return params.evd_callback == IT_TRUE;
}

/* The calls are no cancellation points: the thread detaches, and waits for the routine. */
START_TEST(cancelled_while_detaching)
{
    struct waiter waiter = { .status = IT_ERR_ABORT };
    void *result = &waiter;

    node_open(&node, IFACE);
    waiter.evd = software(node.ia);
    attach(&node, waiter.evd, stay);
    ok(it_evd_post_se(waiter.evd, NULL));
    ck_assert(tc_until(atomic_load(&probe.inside), PATIENCE));
    ck_assert_int_eq(pthread_create(&waiter.thread, NULL, detach_thread, &waiter), 0);
    ck_assert(tc_until(!has_callback(waiter.evd), PATIENCE));
    pthread_cancel(waiter.thread);
    atomic_store(&probe.may_return, true);
    ck_assert_int_eq(pthread_join(waiter.thread, &result), 0);
    ok(waiter.status);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks");
    TCase *events = tc_case(suite, "events", NULL, fx_close);
    TCase *wrong = tc_case(suite, "errors", NULL, fx_close);
    TCase *ends = tc_case(suite, "freeing", NULL, fx_close);
    TCase *process = tc_case(suite, "process", NULL, fx_close);

    add_each(events, called_for_completions);
    add_each(wrong, errors, refused_while_a_thread_waits);
    tcase_set_timeout(ends, 60);
    add_each(ends, an_evd_is_detached_and_freed_inside, an_ia_is_freed_inside,
             an_ia_is_freed_while_a_callback_runs);
#ifndef ITAL_TSAN
    add_each(process, forked);
#endif
    add_each(process, cancelled_while_detaching);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that wait in a channel, with or without a device: what wakes them, and with which status;
 * no event is lost among many.
 */
#include "device_fixture.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>

static struct ual_channel *channel;
static struct ual_device *channel_device; /* the channel's, or NULL */
static struct ual_channel_item item;

static void setup_of_device(void)
{
    setup();
    channel_device = device;
    channel = make_channel(device);
}

static void setup_of_none(void)
{
    setup();
    channel_device = NULL;
    channel = make_channel(NULL);
}

static void teardown_channel(void)
{
    ok(ual_channel_free(channel));
    teardown();
}

/*
 * A lane's sleeper wakes every 5 s and polls, which would hide a lost wake-up. Here it sleeps until
 * it is woken.
 */
#define PERIODIC_S 4 /* the tests that time out do so earlier */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    const struct timespec *left = NULL;
    va_list list;
    long arg[6];

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_ppoll)
        left = (const struct timespec *)arg[2];
    if (number == SYS_epoll_pwait2)
        left = (const struct timespec *)arg[3];
    if (left && left->tv_sec >= PERIODIC_S)
        arg[number == SYS_ppoll ? 2 : 3] = 0;
    return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* --- one waiting thread --- */

static struct waiting {
    pthread_t thread;
    uint64_t timeout_us;
    atomic_int tid;
    atomic_bool over;
    enum ri_status status;
    struct ual_channel_event event;
} one;

static void *wait_here(void *arg)
{
    struct waiting *self = arg;

    atomic_store(&self->tid, gettid());
    self->status = ual_channel_get(channel, self->timeout_us, &self->event);
    atomic_store(&self->over, true);
    return NULL;
}

static void start(struct waiting *which, uint64_t timeout_us)
{
    which->timeout_us = timeout_us;
    atomic_store(&which->tid, 0);
    atomic_store(&which->over, false);
    ck_assert_int_eq(pthread_create(&which->thread, NULL, wait_here, which), 0);
}

/* It sleeps in the kernel: from now on only actions of the test end its wait. */
static void start_and_sleep(struct waiting *which, uint64_t timeout_us)
{
    start(which, timeout_us);
    ck_assert(tc_until(tc_asleep(atomic_load(&which->tid)), 10000));
}

static enum ri_status join(struct waiting *which)
{
    if (!tc_until(atomic_load(&which->over), 10000))
        ck_abort_msg("the thread still waits");
    pthread_join(which->thread, NULL);
    return which->status;
}

#define ROUNDS 10

START_TEST(woken_by_a_post)
{
    for (int i = 0; i < ROUNDS; i++) {
        start_and_sleep(&one, UINT64_MAX);
        ual_channel_post(channel, &item);
        ok(join(&one));
        ck_assert_ptr_eq(one.event.item, &item);
        ck_assert(!readable(channel));
    }
}
END_TEST

START_TEST(woken_by_a_cq)
{
    struct ual_cq *cq = make_cq(channel, &item);

    for (int i = 0; i < ROUNDS; i++) {
        start_and_sleep(&one, UINT64_MAX);
        fire(cq);
        ok(join(&one));
        ck_assert_ptr_eq(one.event.cq, cq);
    }
    ok(ual_cq_free(cq));
}
END_TEST

/* A lane delivers it, which the waiting thread runs itself if the device is its channel's. */
START_TEST(woken_by_an_asynchronous_event)
{
    ok(ual_async_to(device, channel));
    start_and_sleep(&one, UINT64_MAX);
    fk_rnic_event(RI_EVENT_PORT_DOWN, 3);
    ok(join(&one));
    ck_assert_int_eq(one.event.kind, UAL_ITEM_ASYNC);
    ck_assert_uint_eq(one.event.async.event.port, 3);
    ok(ual_async_to(device, NULL));
}
END_TEST

START_TEST(woken_by_free)
{
    struct waiting two = { 0 };

    start_and_sleep(&one, UINT64_MAX);
    start_and_sleep(&two, UINT64_MAX);
    ok(ual_channel_free(channel));
    fails(join(&one), ITAL_ERR_ABORTED);
    fails(join(&two), ITAL_ERR_ABORTED);
    channel = make_channel(NULL); /* for the teardown */
}
END_TEST

/* Nothing ends the loop of a thread that takes events. _i: an event is left, which is not taken. */
START_TEST(a_get_after_free_is_aborted)
{
    if (_i)
        ual_channel_post(channel, &item);
    ok(ual_channel_free(channel));
    tc_spoil_freed();
    fails(ual_channel_get(channel, 0, &one.event), ITAL_ERR_ABORTED);
    fails(ual_channel_get(channel, 1000, &one.event), ITAL_ERR_ABORTED);
    fails(ual_channel_get(channel, UINT64_MAX, &one.event), ITAL_ERR_ABORTED);
    channel = make_channel(NULL); /* for the teardown */
}
END_TEST

static atomic_uint gets;

/* Waits for a short while, or not at all, until the channel is freed. */
static void *get_until_aborted(void *arg)
{
    struct waiting *self = arg;

    do {
        self->status = ual_channel_get(channel, atomic_fetch_add(&gets, 1) % 2 * 50, &self->event);
    } while (self->status == ITAL_ERR_EMPTY || self->status == RI_ERR_TIMED_OUT);
    atomic_store(&self->over, true);
    return NULL;
}

#define FREED 40 /* more than are kept */

/* Wherever in its loop the thread is. */
START_TEST(free_may_meet_gets)
{
    struct tc_rng rng = tc_rng(0);

    for (int i = 0; i < FREED; i++) {
        unsigned int enough = atomic_load(&gets) + 1 + (unsigned int)tc_below(&rng, 4);

        atomic_store(&one.over, false);
        ck_assert_int_eq(pthread_create(&one.thread, NULL, get_until_aborted, &one), 0);
        ck_assert(tc_until(atomic_load(&gets) >= enough, 10000));
        ok(ual_channel_free(channel));
        fails(join(&one), ITAL_ERR_ABORTED);
        channel = make_channel(channel_device);
    }
}
END_TEST

START_TEST(woken_by_time)
{
    uint64_t before = clock_now();

    fails(ual_channel_get(channel, 20000, &one.event), RI_ERR_TIMED_OUT);
    ck_assert_uint_ge(clock_now() - before, 20 * CLOCK_NS_PER_MS);
    fails(ual_channel_get(channel, 1, &one.event), RI_ERR_TIMED_OUT);
    fails(ual_channel_get(channel, 0, &one.event), ITAL_ERR_EMPTY);
}
END_TEST

static void on_signal(int number)
{
    (void)number;
}

/* Also with SA_RESTART, and with a wait without a limit. */
START_TEST(woken_by_a_signal)
{
    struct sigaction action = { .sa_handler = on_signal };

    for (int round = 0; round < 4; round++) {
        action.sa_flags = round & 1 ? SA_RESTART : 0;
        ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
        start_and_sleep(&one, round & 2 ? UINT64_MAX : 3600 * 1000000ull);
        ck_assert_int_eq(pthread_kill(one.thread, SIGUSR1), 0);
        fails(join(&one), ITAL_ERR_INTERRUPTED);
    }
}
END_TEST

START_TEST(woken_by_the_failure_of_the_device)
{
    struct ual_channel *kept = channel;

    for (int i = 0; i < ROUNDS; i++) {
        struct waiting two = { 0 };
        struct ual_device *second;

        ok(ual_device_open("fake0", NULL, NULL, &second));
        channel = make_channel(second);
        start_and_sleep(&one, UINT64_MAX);
        start_and_sleep(&two, UINT64_MAX);
        if (i % 2)
            fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
        else
            fk_rnic_event_here(RI_EVENT_RNIC_FATAL);
        fails(join(&one), RI_ERR_DEVICE);
        fails(join(&two), RI_ERR_DEVICE);
        ok(ual_channel_free(channel));
        close_one(second);
    }
    channel = kept;
}
END_TEST

/* The death of another device does not end a shared channel. */
START_TEST(a_channel_of_none_outlives_a_device)
{
    start_and_sleep(&one, UINT64_MAX);
    fk_rnic_event(RI_EVENT_RNIC_FATAL, 0);
    fk_drain();
    ual_channel_post(channel, &item);
    ok(join(&one));
}
END_TEST

#define MOST 64 /* threads that may wait, docs/concurrency.md */

START_TEST(waiter_limit)
{
    static struct waiting waiting[MOST];
    static struct ual_channel_item items[MOST];
    bool seen[MOST] = { 0 };

    for (int i = 0; i < MOST; i++)
        start_and_sleep(&waiting[i], UINT64_MAX);
    fails(ual_channel_get(channel, UINT64_MAX, &one.event), ITAL_ERR_WAITER_LIMIT);
    fails(ual_channel_get(channel, 0, &one.event), ITAL_ERR_EMPTY); /* which does not wait */
    for (int i = 0; i < MOST; i++)
        ual_channel_post(channel, &items[i]);
    for (int i = 0; i < MOST; i++) {
        ok(join(&waiting[i]));
        ck_assert(!seen[waiting[i].event.item - items]);
        seen[waiting[i].event.item - items] = true;
    }
    fails(ual_channel_get(channel, 1, &one.event), RI_ERR_TIMED_OUT);
}
END_TEST

/* --- many --- */

#define PRODUCERS 3
#define CONSUMERS 3
#define EACH      8 /* items of a producer */

struct posted {
    struct ual_channel_item item;
    unsigned int owner;
    atomic_bool out; /* in the channel, or taken and not returned */
};

static struct posted posted[PRODUCERS][EACH];
static unsigned long rounds;
static atomic_ulong sent, fired, got_posted, got_fired;
static atomic_bool done;
static struct ual_cq *cqs[PRODUCERS];

static void pass_time(struct tc_rng *rng)
{
    for (uint64_t i = tc_below(rng, 4) ? tc_below(rng, 300) : 0; i; i--)
        __asm__ volatile("");
    if (tc_below(rng, 8) == 0)
        sched_yield();
}

/* Posts its items as they are returned and, now and then, fires its CQ. */
static void *produce(void *arg)
{
    struct posted *own = arg;
    unsigned int index = (unsigned int)((struct posted(*)[EACH])arg - posted);
    struct tc_rng rng = tc_rng(index);

    for (unsigned long i = 0; i < rounds; i++) {
        struct posted *next = &own[i % EACH];

        while (atomic_load(&next->out))
            sched_yield();
        atomic_store(&next->out, true);
        ual_channel_post(channel, &next->item);
        atomic_fetch_add(&sent, 1);
        if (tc_below(&rng, 4) == 0) {
            struct ri_wc wc;

            fire(cqs[index]);
            atomic_fetch_add(&fired, 1);
            while (ual_cq_poll(cqs[index], 1, &wc))
                ;
        }
        pass_time(&rng);
    }
    return NULL;
}

static void take(const struct ual_channel_event *event)
{
    if (event->kind == UAL_ITEM_CQ) {
        atomic_fetch_add(&got_fired, 1);
        return;
    }
    ck_assert_int_eq(event->kind, UAL_ITEM_POSTED);
    if (!atomic_exchange(&container_of(event->item, struct posted, item)->out, false))
        ck_abort_msg("an item was taken twice");
    atomic_fetch_add(&got_posted, 1);
}

/* Waits without a limit, for a short while, or not at all; an item of its own ends each
 * consumer. */
static struct ual_channel_item last[CONSUMERS];

static void *consume(void *arg)
{
    struct tc_rng rng = tc_rng(100 + (uint64_t)(uintptr_t)arg);
    static const uint64_t times[] = { UINT64_MAX, 200, 0 };

    for (;;) {
        struct ual_channel_event event;
        enum ri_status status = ual_channel_get(channel, times[tc_below(&rng, 3)], &event);

        if (status == RI_ERR_TIMED_OUT || status == ITAL_ERR_EMPTY ||
            status == ITAL_ERR_INTERRUPTED)
            continue;
        ok(status);
        if (event.kind == UAL_ITEM_POSTED && event.context == last)
            return NULL;
        take(&event);
        pass_time(&rng);
    }
}

static pthread_t consumers[CONSUMERS];

static void *interrupt(void *arg)
{
    struct tc_rng rng = tc_rng(200);

    (void)arg;
    while (!atomic_load(&done)) {
        pthread_kill(consumers[tc_below(&rng, CONSUMERS)], SIGUSR1);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
    return NULL;
}

START_TEST(many_producers_and_consumers_lose_nothing)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    pthread_t producers[PRODUCERS], interrupter;

    rounds = tc_count(5000);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    for (unsigned int i = 0; i < PRODUCERS; i++)
        cqs[i] = make_cq(channel, NULL);
    for (uintptr_t i = 0; i < CONSUMERS; i++)
        ck_assert_int_eq(pthread_create(&consumers[i], NULL, consume, (void *)i), 0);
    ck_assert_int_eq(pthread_create(&interrupter, NULL, interrupt, NULL), 0);
    for (unsigned int i = 0; i < PRODUCERS; i++)
        ck_assert_int_eq(pthread_create(&producers[i], NULL, produce, posted[i]), 0);
    for (unsigned int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    ck_assert(tc_until(atomic_load(&got_posted) == atomic_load(&sent), 20000));
    ck_assert(tc_until(atomic_load(&got_fired) == atomic_load(&fired), 20000));
    atomic_store(&done, true);
    pthread_join(interrupter, NULL);
    for (unsigned int i = 0; i < CONSUMERS; i++) {
        last[i].context = last;
        ual_channel_post(channel, &last[i]);
    }
    for (unsigned int i = 0; i < CONSUMERS; i++)
        pthread_join(consumers[i], NULL);
    ck_assert_uint_eq(atomic_load(&sent), PRODUCERS * rounds);
    expect_nothing(channel);
    for (unsigned int i = 0; i < PRODUCERS; i++)
        ok(ual_cq_free(cqs[i]));
}
END_TEST

static TCase *with_common_tests(TCase *tc)
{
    tc_add_tests(tc, woken_by_a_post, woken_by_a_cq, woken_by_an_asynchronous_event, woken_by_free,
                 woken_by_time, woken_by_a_signal, waiter_limit, free_may_meet_gets,
                 many_producers_and_consumers_lose_nothing);
    tcase_add_loop_test(tc, a_get_after_free_is_aborted, 0, 2);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("waiting in channels");
    TCase *tc;

    tc = with_common_tests(tc_case(suite, "of a device", setup_of_device, teardown_channel));
    tc_add_tests(tc, woken_by_the_failure_of_the_device);
    tc = with_common_tests(tc_case(suite, "of no device", setup_of_none, teardown_channel));
    tc_add_tests(tc, a_channel_of_none_outlives_a_device);
    return tc_main(suite);
}

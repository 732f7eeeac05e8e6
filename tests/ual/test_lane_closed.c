/* SPDX-License-Identifier: BSD-3-Clause
 * Descriptors of the lane are closed under it, as closefrom(3) does: the IA is dead, whoever waits hears of it, nobody spins. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane_one.h"

#include "ual/progress/lane_private.h"

#include <unistd.h>

static void close_descriptors(void)
{
    close(lf_lane->epoll_fd);
    close(lf_lane->kick_fd);
    close(lf_lane->watch_fd);
}

static uint64_t cpu_of_background(void)
{
    struct timespec time;
    clockid_t clock;

    ck_assert_int_eq(pthread_getcpuclockid(lf_lane->thread, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &time), 0);
    return (uint64_t)time.tv_sec * CLOCK_NS_PER_S + (uint64_t)time.tv_nsec;
}

static void expect_dead_and_at_rest(void)
{
    struct ual_event event;
    uint64_t before;

    ck_assert(tc_until(atomic_load(&lf_fatals) == 1, 20000));
    fails(ual_evd_dequeue(evd, &event), UAL_ERR_DEAD);
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), UAL_ERR_DEAD);
    ck_assert(tc_until(lf_asleep(lf_background()), 10000));
    before = cpu_of_background();
    lf_pass(300000);
    ck_assert_uint_lt(cpu_of_background() - before, 50 * MS);
    ck_assert_uint_eq(atomic_load(&lf_fatals), 1); /* told once */
}

START_TEST(under_a_sleeping_background_thread)
{
    ck_assert(tc_until(lf_asleep(lf_background()), 10000));
    close_descriptors();
    expect_dead_and_at_rest();
}
END_TEST

START_TEST(under_one_that_polls)
{
    uint64_t end = tc_now_ns() + 20 * MS;
    struct ual_event event;

    while (tc_now_ns() < end)
        fails(ual_evd_dequeue(evd, &event), UAL_ERR_EMPTY);
    close_descriptors();
    ck_assert(tc_until(ual_evd_dequeue(evd, &event) == UAL_ERR_DEAD, 10000));
    expect_dead_and_at_rest();
}
END_TEST

START_TEST(under_one_that_waits_for_ever)
{
    struct lf_waiter waiter;

    lf_wait_start(&waiter, evd, FOR_EVER);
    close_descriptors();
    lf_wait_join(&waiter, UAL_ERR_DEAD);
    expect_dead_and_at_rest();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors that somebody else closed");
    TCase *closed = tcase_create("closed");

    tc_add_tests(closed, under_a_sleeping_background_thread, under_one_that_polls,
                 under_one_that_waits_for_ever);
    lf_add_cases(suite, (TCase *[]){ closed }, 1, setup, teardown);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lane's descriptors are closed, as by closefrom(3): the IA is dead, waiters get that, no
 * thread spins.
 */
#include "lane_one.h"

#include "ual/progress/lane_private.h"

#include "base/futex.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
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
    fails(ual_evd_dequeue(evd, &event), RI_ERR_DEVICE);
    fails(ual_evd_wait(evd, FOR_EVER, &event, NULL), RI_ERR_DEVICE);
    ck_assert(tc_until(tc_asleep(lf_background()), 10000));
    before = cpu_of_background();
    lf_pass(300000);
    ck_assert_uint_lt(cpu_of_background() - before, 50 * MS);
    ck_assert_uint_eq(atomic_load(&lf_fatals), 1); /* reported once */
}

START_TEST(under_a_sleeping_background_thread)
{
    ck_assert(tc_until(tc_asleep(lf_background()), 10000));
    close_descriptors();
    expect_dead_and_at_rest();
}
END_TEST

START_TEST(under_one_that_polls)
{
    uint64_t end = tc_now_ns() + 20 * MS;
    struct ual_event event;

    while (tc_now_ns() < end)
        fails(ual_evd_dequeue(evd, &event), ITAL_ERR_EMPTY);
    close_descriptors();
    ck_assert(tc_until(ual_evd_dequeue(evd, &event) == RI_ERR_DEVICE, 10000));
    expect_dead_and_at_rest();
}
END_TEST

START_TEST(under_one_that_waits_for_ever)
{
    struct lf_waiter waiter;

    lf_wait_start(&waiter, evd, FOR_EVER);
    close_descriptors();
    lf_wait_join(&waiter, RI_ERR_DEVICE);
    expect_dead_and_at_rest();
}
END_TEST

/* --- reuse of the descriptor numbers --- */

#define OCTETS 64

static int octets_left(int fd)
{
    int count = -1;

    ck_assert_int_eq(ioctl(fd, FIONREAD, &count), 0);
    return count;
}

/* It sleeps until the consumer's wait ends: nothing of it touches a descriptor before that. */
static bool background_is_deep(void)
{
    bool deep;

    spinlock_lock(&lf_lane->sleep_lock);
    deep = lf_lane->deep;
    spinlock_unlock(&lf_lane->sleep_lock);
    return deep;
}

/* The consumer's own files get the numbers that the lane's had. That takes three calls: what reads
 * or sets one of the lane's descriptors between two of them meets the consumer's. */
START_TEST(its_numbers_are_let_alone_afterwards)
{
    static const char octets[OCTETS];
    struct lf_waiter waiter;
    unsigned long sleeps;
    int mine[2];

    ck_assert_int_eq(pipe2(mine, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(write(mine[1], octets, OCTETS), OCTETS);
    lf_wait_start(&waiter, evd, FOR_EVER); /* the end of its wait wakes the background thread */
    ck_assert(tc_until(background_is_deep(), 10000));
    ck_assert_int_eq(dup2(mine[0], lf_lane->epoll_fd), lf_lane->epoll_fd);
    ck_assert_int_eq(dup2(mine[1], lf_lane->kick_fd), lf_lane->kick_fd);
    ck_assert_int_eq(dup2(mine[0], lf_lane->watch_fd), lf_lane->watch_fd);
    lf_wait_join(&waiter, RI_ERR_DEVICE);
    sleeps = lf_sleeps(lf_background());
    atomic_fetch_add(&lf_lane->background_word, 1);
    futex_wake(&lf_lane->background_word, 1);
    ck_assert(tc_until(lf_sleeps(lf_background()) != sleeps && tc_asleep(lf_background()), 10000));
    ck_assert_int_eq(octets_left(mine[0]), OCTETS);
    ck_assert_uint_eq(atomic_load(&lf_fatals), 1);
    close(mine[0]);
    close(mine[1]);
}
END_TEST

static void never_ready(void *arg, uint32_t events)
{
    (void)arg;
    ck_abort_msg("events %u of a set that is not the lane's", events);
}

/* The consumer's own epoll set gets the number: nothing is added to it, changed in it, or removed
 * from it. */
START_TEST(a_set_with_its_number_stays_as_it_is)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct lf_pipe *other = lf_pipe(evd);
    struct ri_watch *watch = NULL;
    int mine, pipe[2];

    close_descriptors();
    expect_dead_and_at_rest();
    mine = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_int_eq(dup2(mine, lf_lane->epoll_fd), lf_lane->epoll_fd);
    ck_assert_int_eq(pipe2(pipe, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(ual_lane_watch(lf_lane, pipe[0], EPOLLIN, never_ready, NULL, &watch),
                     RI_ERR_INVALID_STATE);
    ck_assert_ptr_null(watch);
    ck_assert_int_eq(epoll_ctl(mine, EPOLL_CTL_ADD, pipe[0], &event), 0); /* not in the set */
    ck_assert_int_eq(epoll_ctl(mine, EPOLL_CTL_ADD, other->fds[0], &event), 0);
    ck_assert_int_eq(ual_lane_rewatch(other->watch, 0), RI_ERR_INVALID_STATE);
    lf_send(other, 1);
    ck_assert_int_eq(epoll_wait(mine, &event, 1, 0), 1);
    close(pipe[0]);
    close(pipe[1]);
    pipe[0] = dup(other->fds[0]);
    lf_pipe_close(other);
    ck_assert_int_eq(epoll_wait(mine, &event, 1, 0), 1);
    close(pipe[0]);
    close(mine);
}
END_TEST

/* A new interface adapter gets the same numbers: the old one must not serve its set. */
START_TEST(under_a_new_lane_that_gets_its_numbers)
{
    struct ual_ia *fresh = lf_make_ia();
    struct ual_lanes *lanes = ual_device_lanes(fresh->device);
    struct ual_event event;

    close_descriptors();
    lf_first_lane = 1;
    ok(ual_lanes_open(lanes, &(struct ual_progress){ 0 }));
    ck_assert_int_eq(ual_lanes_first(lanes)->epoll_fd, lf_lane->epoll_fd);
    ck_assert(tc_until(ual_evd_dequeue(evd, &event) == RI_ERR_DEVICE, 10000));
    expect_dead_and_at_rest();
    ck_assert(!atomic_load(&fresh->device->dead));
    ual_lanes_stop(lanes);
    ual_lanes_close(lanes);
    lf_free_ia(fresh);
}
END_TEST

/* The descriptor of an EVD is closed with the lane's: the file with its number is neither written
 * nor closed. */
START_TEST(an_evds_number_is_let_alone_afterwards)
{
    struct ual_evd *spoken = lf_evd(UAL_STREAM_SOFTWARE, 8, UAL_EVD_FD);
    int fd = ual_evd_fd(spoken), mine[2];
    struct ual_event event;

    close_descriptors();
    ck_assert(tc_until(ual_evd_dequeue(evd, &event) == RI_ERR_DEVICE, 10000));
    ck_assert_int_eq(pipe2(mine, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(mine[1], fd), fd);
    ck_assert_int_eq(dup2(mine[1], fd + 1), fd + 1); /* its eventfd */
    ok(ual_evd_post(spoken, NULL));
    ck_assert_int_eq(octets_left(mine[0]), 0);
    ok(ual_evd_free(spoken));
    ck_assert_int_eq(write(fd, "", 1), 1);
    ck_assert_int_eq(write(fd + 1, "", 1), 1);
    close(mine[0]);
    close(mine[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors that somebody else closed");
    TCase *closed = tcase_create("closed");

    tc_add_tests(closed, under_a_sleeping_background_thread, under_one_that_polls,
                 under_one_that_waits_for_ever, its_numbers_are_let_alone_afterwards,
                 a_set_with_its_number_stays_as_it_is, under_a_new_lane_that_gets_its_numbers,
                 an_evds_number_is_let_alone_afterwards);
    lf_add_cases(suite, (TCase *[]){ closed }, 1, setup, teardown);
    return tc_main(suite);
}

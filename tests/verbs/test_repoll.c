/* SPDX-License-Identifier: BSD-3-Clause */
/* repoll_create, repoll_ctl, repoll_wait: epoll sets with rsockets and other descriptors. */
#include "rsockets_pair.h"

#include "verbs/rsockets/repoll.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

static int set;

static void set_up_set(void)
{
    set_up();
    set = repoll_create(EPOLL_CLOEXEC);
    ck_assert_int_ge(set, 0);
    ck_assert_int_eq(fcntl(set, F_GETFD), FD_CLOEXEC);
}

static void tear_down_set(void)
{
    if (set >= 0)
        ck_assert_int_eq(rclose(set), 0);
    tear_down();
}

static int watch(int op, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.u64 = 0x100000000 + (unsigned)fd };

    return repoll_ctl(set, op, fd, &event);
}

static void expect_event(int fd, uint32_t events)
{
    struct epoll_event got = { .events = 0 };

    ck_assert_int_eq(repoll_wait(set, &got, 1, -1), 1);
    ck_assert_uint_eq(got.data.u64, 0x100000000 + (unsigned)fd);
    ck_assert_uint_eq(got.events, events);
}

static void expect_quiet(void)
{
    struct epoll_event got[4];

    ck_assert_int_eq(repoll_wait(set, got, 4, 0), 0);
    ck_assert_int_eq(repoll_wait(set, got, 4, 1), 0);
}

START_TEST(a_set_has_rsockets_and_other_descriptors)
{
    struct epoll_event got[4];
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    expect_quiet(); /* of nothing */
    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN), 0);
    ck_assert_int_eq(watch(EPOLL_CTL_ADD, ends[0], EPOLLIN), 0);
    fails(watch(EPOLL_CTL_ADD, server, EPOLLIN), EEXIST);
    fails(watch(EPOLL_CTL_ADD, ends[0], EPOLLIN), EEXIST);
    expect_quiet();
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    expect_event(ends[0], EPOLLIN);
    give(client, "abc", 3);
    ck_assert_int_eq(watch(EPOLL_CTL_DEL, ends[0], 0), 0);
    expect_event(server, EPOLLIN);
    expect_event(server, EPOLLIN); /* level-triggered */
    ck_assert_int_eq(watch(EPOLL_CTL_ADD, ends[0], EPOLLIN), 0);
    ck_assert_int_eq(repoll_wait(set, got, 4, -1), 2);
    expect(server, "abc", 3);
    expect_event(ends[0], EPOLLIN);

    ck_assert_int_eq(watch(EPOLL_CTL_DEL, ends[0], 0), 0);
    ck_assert_int_eq(watch(EPOLL_CTL_MOD, server, EPOLLOUT), 0);
    expect_event(server, EPOLLOUT);
    ck_assert_int_eq(repoll_ctl(set, EPOLL_CTL_DEL, server, NULL), 0);
    fails(repoll_ctl(set, EPOLL_CTL_DEL, server, NULL), ENOENT);
    fails(watch(EPOLL_CTL_MOD, server, EPOLLOUT), ENOENT);
    fails(watch(EPOLL_CTL_MOD, ends[0], EPOLLIN), ENOENT);
    expect_quiet();
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(one_shot_reports_once)
{
    give(client, "abc", 3);
    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN | EPOLLONESHOT), 0);
    expect_event(server, EPOLLIN);
    expect_quiet();
    ck_assert_int_eq(watch(EPOLL_CTL_MOD, server, EPOLLIN | EPOLLET), 0);
    expect_event(server, EPOLLIN);
    expect_event(server, EPOLLIN); /* an rsocket is level-triggered */
}
END_TEST

START_TEST(each_rsocket_has_its_turn)
{
    struct epoll_event first, second, both[2];

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLOUT), 0);
    ck_assert_int_eq(watch(EPOLL_CTL_ADD, client, EPOLLOUT), 0);
    ck_assert(tc_until(repoll_wait(set, both, 2, 0) == 2, WAIT_MS)); /* one may be ready first */
    ck_assert_int_eq(repoll_wait(set, &first, 1, -1), 1);
    ck_assert_int_eq(repoll_wait(set, &second, 1, -1), 1);
    ck_assert_uint_ne(first.data.u64, second.data.u64);
}
END_TEST

static int waited_set;

static void *wait_one(void *got)
{
    return (void *)(intptr_t)repoll_wait(waited_set, got, 1, -1);
}

/* By what arrives, by a new watch, by the end of the peer. The thread may not sleep yet: it returns
 * in any case. */
START_TEST(a_wait_is_ended)
{
    struct epoll_event got = { .events = 0 };
    pthread_t waiter;
    void *result;

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN), 0);
    waited_set = set;
    pthread_create(&waiter, NULL, wait_one, &got);
    if (_i == 0)
        give(client, "abc", 3);
    else if (_i == 1)
        ck_assert_int_eq(watch(EPOLL_CTL_ADD, client, EPOLLOUT), 0);
    else
        ck_assert_int_eq(rshutdown(client, SHUT_WR), 0);
    pthread_join(waiter, &result);
    ck_assert_int_eq((int)(intptr_t)result, 1);
    ck_assert_uint_eq(got.data.u64, 0x100000000 + (unsigned)(_i == 1 ? client : server));
    ck_assert_uint_eq(got.events & (EPOLLIN | EPOLLOUT), _i == 1 ? EPOLLOUT : EPOLLIN);
}
END_TEST

START_TEST(a_set_that_is_closed_ends_its_waits)
{
    struct epoll_event got;
    pthread_t waiter;
    void *result;
    int was = set;

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN), 0);
    waited_set = set;
    pthread_create(&waiter, NULL, wait_one, &got);
    set = -1;
    ck_assert_int_eq(rclose(was), 0);
    pthread_join(waiter, &result);
    ck_assert_int_le((int)(intptr_t)result, 0);
    fails(repoll_wait(was, &got, 1, 0), EINVAL);
    fails(rclose(was), EBADF);
    give(client, "abc", 3);
    expect(server, "abc", 3);
}
END_TEST

/* Its number may be that of the next rsocket, which nobody has asked for. */
START_TEST(a_closed_rsocket_leaves_the_set)
{
    int was = server, others[32], count = 0;

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN | EPOLLOUT), 0);
    expect_event(server, EPOLLOUT);
    close_both();
    join();
    while (server != was && client != was) { /* another descriptor of a connection has it */
        ck_assert_int_lt(count, 32);
        others[count++] = server;
        others[count++] = client;
        join();
    }
    give(client, "abc", 3);
    expect_quiet();
    fails(watch(EPOLL_CTL_DEL, was, 0), ENOENT);
    while (count)
        rclose(others[--count]);
}
END_TEST

START_TEST(a_listener_tells_of_requests)
{
    int asking, accepted;

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, listener, EPOLLIN), 0);
    expect_quiet();
    asking = begin_connect();
    expect_event(listener, EPOLLIN);
    accepted = raccept(listener, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    expect_quiet();
    rclose(asking);
    rclose(accepted);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    struct epoll_event event = { .events = EPOLLIN };
    int inner = repoll_create(0);

    fails(repoll_create(~0), EINVAL);
    fails(repoll_ctl(set, EPOLL_CTL_ADD, -1, &event), EBADF);
    fails(repoll_ctl(set, EPOLL_CTL_ADD, 1000000, &event), EBADF);
    fails(repoll_ctl(set, EPOLL_CTL_ADD, server, NULL), EINVAL);
    fails(repoll_ctl(set, 77, server, &event), EINVAL);
    fails(repoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL);
    fails(repoll_ctl(set, EPOLL_CTL_ADD, inner, &event), EINVAL);
    fails(repoll_ctl(server, EPOLL_CTL_ADD, client, &event), EINVAL);
    fails(repoll_wait(server, &event, 1, 0), EINVAL);
    fails(repoll_wait(set, &event, 0, 0), EINVAL);
    fails(repoll_wait(set, NULL, 1, 0), EINVAL);
    ck_assert_int_eq(rclose(inner), 0);
}
END_TEST

START_TEST(the_child_of_a_fork_makes_sets_of_its_own)
{
    pid_t child;
    int status;

    ck_assert_int_eq(watch(EPOLL_CTL_ADD, server, EPOLLIN), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        struct epoll_event event = { .events = EPOLLIN };
        int own, ends[2];

        if (repoll_wait(set, &event, 1, 0) != -1 || errno != EINVAL || pipe(ends))
            _exit(1);
        own = repoll_create(0);
        if (own < 0 || repoll_ctl(own, EPOLL_CTL_ADD, ends[0], &event) ||
            write(ends[1], "x", 1) != 1)
            _exit(2);
        _exit(repoll_wait(own, &event, 1, -1) == 1 ? 0 : 3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert(WIFEXITED(status));
    give(client, "abc", 3);
    expect_event(server, EPOLLIN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rsockets' epoll sets");
    TCase *tc = tc_case(suite, "repoll", set_up_set, tear_down_set);

    tc_add_tests(tc, a_set_has_rsockets_and_other_descriptors, one_shot_reports_once,
                 each_rsocket_has_its_turn, a_set_that_is_closed_ends_its_waits,
                 a_closed_rsocket_leaves_the_set, a_listener_tells_of_requests,
                 what_makes_no_sense_is_refused, the_child_of_a_fork_makes_sets_of_its_own);
    tcase_add_loop_test(tc, a_wait_is_ended, 0, 3);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Held pages while others act: a program that closes what is not its own, forked children, other
 * processes of the user that have the limit, other threads that release.
 */
#include "pin_hold_fixture.h"

#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- a program that closes what is not its own ---- */

/* The descriptor of the only ring. */
static int ring_number(void)
{
    char path[40], target[64];
    ssize_t length;

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        length = readlink(path, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "[io_uring]"))
            return fd;
    }
    ck_abort_msg("there is no ring");
    return -1;
}

/* A ring of the program's own under the number, with the first page of `at` in its first slot. */
static void put_own_ring(int number, char *at)
{
    struct iovec buffer = { at, page };
    struct io_uring_params params = { 0 };
    int fd = __real_io_uring_setup(1, &params);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(__real_io_uring_register((unsigned)fd, IORING_REGISTER_BUFFERS, &buffer, 1),
                     0);
    ck_assert_int_eq(dup3(fd, number, O_CLOEXEC), number);
    close(fd);
}

/* What ual's handlers of fork do. */
static pid_t fork_here(void)
{
    pid_t child;

    kal_host_fork_prepare(host);
    child = fork();
    if (child)
        kal_host_fork_parent(host);
    else
        kal_pins_fork_child(&host->held);
    ck_assert_int_ge(child, 0);
    return child;
}

static void expect_exit(pid_t child, int expected)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), expected);
}

/* Odd: the number gets a file. Else it gets a ring of the program's own. */
START_TEST(test_what_gets_the_number_of_a_closed_ring_is_not_touched)
{
    struct stat before, after;
    pid_t child;
    int number;

    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_int_eq(pin(8, 1), RI_OK);
    number = ring_number();
    if (_i % 2) {
        int fd = memfd_create("own", MFD_CLOEXEC);

        ck_assert_int_eq(dup3(fd, number, O_CLOEXEC), number);
        close(fd);
    } else {
        put_own_ring(number, area + 20 * page);
    }
    pin_await_held(_i % 2 ? 0 : page);
    ck_assert_int_eq(fstat(number, &before), 0);
    child = fork_here();
    if (child == 0)
        _exit(fcntl(number, F_GETFD) < 0);
    expect_exit(child, 0);
    unpin(0, 4); /* slot 0, which the other ring has, too */
    ck_assert_uint_eq(pin_held(), _i % 2 ? 0 : page);
    /* With a ring of its own; the lost one goes with its last pin */
    ck_assert_int_eq(pin(0, 4), RI_OK);
    pin_await_held((_i % 2 ? 4 : 5) * page);
    unpin(8, 1);
    ck_assert_uint_eq(atomic_load(&pins->ring_count), 1);
    unpin(0, 4);
    pin_await_held(_i % 2 ? 0 : page);
    pin_host_again(UINT64_MAX);
    ck_assert_int_eq(fstat(number, &after), 0);
    ck_assert(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
    ck_assert_uint_eq(pin_held(), _i % 2 ? 0 : page);
    close(number);
}
END_TEST

/* The numbers are free: nothing is closed, and a new pin has a new ring. */
START_TEST(test_a_ring_that_was_closed_is_followed_by_another)
{
    ck_assert_int_eq(close(ring_number()), 0);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_uint_eq(pin_rings(), 1);
    ck_assert_uint_eq(atomic_load(&pins->ring_count), 1);
    unpin(0, 4);
    check_nothing_is_pinned();
}
END_TEST

/* ---- fork ---- */

/* The child has a copy, and the parent's page stays where it is. */
START_TEST(test_after_a_fork_the_page_stays)
{
    uint64_t frame;
    pid_t child;

    memset(area, 'p', 4 * page);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    frame = pin_frame(area);
    child = fork_here();
    if (child == 0) {
        if (area[0] != 'p' || pin_rings() || pin_held())
            _exit(1);
        memset(area, 'c', 4 * page);
        _exit(0);
    }
    memset(area, 'q', 4 * page);
    ck_assert_uint_eq(pin_frame(area), frame);
    expect_exit(child, 0);
    ck_assert_int_eq(area[0], 'q');
    ck_assert_uint_eq(pin_frame(area), frame);
    unpin(0, 4);
    check_nothing_is_pinned();
    if (!frame)
        tc_skip("the kernel does not tell this user which page is where");
}
END_TEST

/* The parent dies without an unpin while its child lives on: the child holds nothing of it. So what
 * the user may pin is free again. */
START_TEST(test_a_child_that_lives_on_keeps_no_pages)
{
    const size_t few = 8;
    int ready[2], end[2];
    pid_t parent;
    char octet;

    pin_as_user((few + 2) * page);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
    parent = fork();
    ck_assert_int_ge(parent, 0);
    if (parent == 0) {
        if (pin(0, few) != RI_OK)
            _exit(1);
        if (fork_here() == 0) {
            ck_assert_int_eq(write(ready[1], "", 1), 1);
            ck_assert_int_eq(read(end[0], &octet, 1), 1);
            _exit(0);
        }
        ck_assert_int_eq(read(ready[0], &octet, 1), 1);
        _exit(0);
    }
    expect_exit(parent, 0);
    /* The grandchild lives; only the charge of the parent's ring is awaited */
    ck_assert_msg(kal_pin(pins, area, few * page, true, &refusal) == RI_OK, "%s", refusal.why);
    unpin(0, few);
    ck_assert_int_eq(write(end[1], "", 1), 1);
    pin_as_root();
}
END_TEST

/* ---- limits ---- */

/* A process that is killed leaves its charge for a moment: a pin of the same user waits for it. */
START_TEST(test_the_charge_of_a_killed_process_is_awaited)
{
    const size_t few = 8;
    char *many;
    int ready[2];
    pid_t child;
    char octet;

    pin_as_user(502 * page);
    many = mmap(NULL, 500 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(many, MAP_FAILED);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    for (unsigned long round = tc_count(20); round; round--) {
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            if (kal_pin(pins, many, 500 * page, true, &refusal) != RI_OK)
                _exit(1);
            ck_assert_int_eq(write(ready[1], "", 1), 1);
            for (;;)
                pause();
        }
        ck_assert_int_eq(read(ready[0], &octet, 1), 1);
        ck_assert_int_eq(pin(0, few), RI_ERR_NO_RESOURCES); /* it has everything */
        ck_assert(why_says("is used up by others"));
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert_msg(kal_pin(pins, many, 500 * page, true, &refusal) == RI_OK, "%s", refusal.why);
        kal_unpin(pins, many, 500 * page);
        pin_await_held(0);
        pin_host_again(UINT64_MAX); /* the next child needs room for a ring of its own */
    }
    pin_as_root();
}
END_TEST

START_TEST(test_a_charge_that_comes_back_is_awaited)
{
    atomic_store(&update_error, ENOMEM);
    atomic_store(&update_failures, 5);
    ck_assert_int_eq(kal_pin(pins, area, page, true, &refusal), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 6);
    unpin(0, 1);
    /* Not where the caller cannot wait: in a lane */
    atomic_store(&updates, 0);
    atomic_store(&update_failures, 1);
    ck_assert_int_eq(kal_pin(pins, area, page, false, &refusal), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    check_nothing_is_pinned();
}
END_TEST

/* The limit does not allow it to this process alone: there is nothing to wait for. */
START_TEST(test_a_hopeless_wish_is_refused_at_once)
{
    pin_as_user(4 * page);
    atomic_store(&updates, 0);
    ck_assert_int_eq(kal_pin(pins, area, 8 * page, true, &refusal), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    pin_as_root();
}
END_TEST

static void *unpin_soon(void *arg)
{
    (void)arg;
    if (!tc_until(atomic_load(&updates) >= 2, 5000))
        return "nobody waits";
    unpin(0, 4);
    return NULL;
}

/* A release by another thread of the process ends the wait: it may do so, the lock is free. */
START_TEST(test_a_thread_that_waits_lets_others_release)
{
    pthread_t thread;
    void *wrong;

    ck_assert_int_eq(pin(0, 4), RI_OK);
    atomic_store(&updates, 0);
    atomic_store(&update_error, ENOMEM);
    atomic_store(&update_failures, 3);
    ck_assert_int_eq(pthread_create(&thread, NULL, unpin_soon, NULL), 0);
    ck_assert_int_eq(kal_pin(pins, area + 8 * page, page, true, &refusal), RI_OK);
    ck_assert_int_eq(pthread_join(thread, &wrong), 0);
    ck_assert_msg(!wrong, "%s", (char *)wrong);
    ck_assert_uint_eq(asked_times, 1); /* it said no, and is not asked at each look */
    unpin(8, 1);
    check_nothing_is_pinned();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_hold_others");
    TCase *tc = tc_case(suite, "pin_hold_others", hold_setup, pin_teardown);

    tc_add_tests(tc, test_a_ring_that_was_closed_is_followed_by_another,
                 test_after_a_fork_the_page_stays, test_a_child_that_lives_on_keeps_no_pages,
                 test_the_charge_of_a_killed_process_is_awaited,
                 test_a_charge_that_comes_back_is_awaited, test_a_hopeless_wish_is_refused_at_once,
                 test_a_thread_that_waits_lets_others_release);
    tcase_add_loop_test(tc, test_what_gets_the_number_of_a_closed_ring_is_not_touched, 0, 2);
    return tc_main(suite);
}

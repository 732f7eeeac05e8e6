/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Held pages: io_uring's registered buffers. Linked with --wrap, so that a test can fail or count
 * the calls; without that they reach the kernel, and VmPin is looked at.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "pin_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_LIBURING
#include <liburing.h>

#define GIB (UINT64_C(1) << 30)

/* ---- the calls ---- */

/* How many more calls and allocations succeed before one fails; -1: all do. */
static long left = -1;
static int ring_error; /* of the next io_uring_setup; 0: none */
/* As many calls that pin fail with this error */
static atomic_int update_error, update_failures;
static atomic_uint updates; /* calls that pin */

static bool fails(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    left = -1;
    return true;
}

int __real_io_uring_setup(unsigned entries, struct io_uring_params *params);
int __real_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);

int __wrap_io_uring_setup(unsigned entries, struct io_uring_params *params);
int __wrap_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

int __wrap_io_uring_setup(unsigned entries, struct io_uring_params *params)
{
    int error = ring_error;

    ring_error = 0;
    if (error)
        return -error;
    return fails() ? -EMFILE : __real_io_uring_setup(entries, params);
}

static bool pins_pages(unsigned opcode, const void *arg)
{
    const struct io_uring_rsrc_update2 *update = arg;

    return opcode == IORING_REGISTER_BUFFERS_UPDATE &&
           ((const struct iovec *)(uintptr_t)update->data)->iov_len;
}

int __wrap_io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count)
{
    if (pins_pages(opcode, arg)) {
        atomic_fetch_add(&updates, 1);
        if (atomic_load(&update_failures) > 0) {
            atomic_fetch_sub(&update_failures, 1);
            return -atomic_load(&update_error);
        }
    }
    /* Emptying a slot cannot fail, as far as the caller can help it */
    if ((opcode != IORING_REGISTER_BUFFERS_UPDATE || pins_pages(opcode, arg)) && fails())
        return -ENOMEM;
    return __real_io_uring_register(fd, opcode, arg, count);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

static void setup(void)
{
    pin_setup();
    pin_use(KAL_PIN_HOLD);
    ck_assert_uint_eq(pin_rings(), 1);
    atomic_store(&updates, 0);
}

static enum ri_status pin_at(const void *at, size_t length)
{
    return kal_pin(pins, at, length, false, &refusal);
}

static void check_nothing_is_pinned(void)
{
    ck_assert_uint_eq(pins->used, 0);
    ck_assert_uint_eq(pins->blocks, 0);
    ck_assert_uint_eq(pins->live, 0);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    pin_await_held(0);
}

static bool why_says(const char *text)
{
    return strstr(refusal.why, text) != NULL;
}

/* ---- blocks ---- */

/* A block is released as a whole: what is pinned of it keeps the rest. But memory that is pinned
 * there anew is pinned again, because other pages may be mapped there by then. */
START_TEST(test_pages_that_wait_for_their_block_are_pinned_anew)
{
    uint64_t old, new;

    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(pin(6, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    unpin(0, 8);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 8 * page);
    pin_await_held(8 * page);
    /* The application may do this: its pin of these pages has ended */
    old = pin_frame(area);
    ck_assert_int_eq(madvise(area, 6 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(pin(0, 6), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    pin_await_held(14 * page);
    new = pin_frame(area);
    ck_assert(!old || old != new);
    unpin(6, 2);
    pin_await_held(6 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 6 * page);
    ck_assert(!new || new == pin_frame(area));
    unpin(0, 6);
    check_nothing_is_pinned();
}
END_TEST

/* One memory file of 2 MiB that is mapped side by side: much address space, few pages. */
static char *map_many(size_t length)
{
    const size_t step = 2u << 20;
    int fd = memfd_create("pin", MFD_CLOEXEC);
    char *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)step), 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    for (size_t done = 0; done < length; done += step)
        ck_assert_ptr_eq(mmap(at + done, step < length - done ? step : length - done,
                              PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                         at + done);
    close(fd);
    return at;
}

START_TEST(test_more_than_a_gibibyte_is_pinned_in_parts)
{
    const size_t length = 2 * GIB + 16 * page;
    char *many = map_many(length);

    if (pin_at(many, length) != RI_OK) {
        ck_assert_msg(why_says("limit of locked memory"), "%s", refusal.why);
        tc_skip("the limit of locked memory is too low");
    }
    ck_assert_uint_eq(atomic_load(&updates), 3);
    ck_assert_uint_eq(pins->blocks, 3);
    pin_await_held(length);
    /* A pin across an edge of two parts keeps both */
    ck_assert_int_eq(pin_at(many + GIB - page, 2 * page), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 3);
    kal_unpin(pins, many, length);
    pin_await_held(2 * GIB);
    kal_unpin(pins, many + GIB - page, 2 * page);
    check_nothing_is_pinned();
    /* The second part fails: the first is given back */
    left = 3; /* realloc, if any, calloc, the first part */
    atomic_store(&updates, 0);
    atomic_store(&update_error, EFAULT);
    ck_assert_int_eq(mprotect(many + GIB, page, PROT_READ), 0);
    left = -1;
    ck_assert_int_eq(pin_at(many, length), RI_ERR_PERMISSION);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    check_nothing_is_pinned();
    munmap(many, length);
}
END_TEST

START_TEST(test_a_full_ring_is_followed_by_another)
{
    const size_t count = 16384 + 10;
    char *many = mmap(NULL, 2 * count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    ck_assert_ptr_ne(many, MAP_FAILED);
    for (size_t i = 0; i < count; i++)
        if (pin_at(many + 2 * i * page, page) != RI_OK)
            tc_skip("%zu pages may not be pinned: %s", count, refusal.why);
    ck_assert_uint_eq(pin_rings(), 2);
    pin_await_held(count * page);
    /* Slots of the first ring are used again */
    for (size_t i = 100; i < 120; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    for (size_t i = 100; i < 120; i++)
        ck_assert_int_eq(pin_at(many + 2 * i * page, page), RI_OK);
    for (size_t i = 16384; i < count; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pin_rings(), 1);
    for (size_t i = 0; i < 16384; i++)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pin_rings(), 1);
    ck_assert_uint_eq(atomic_load(&pins->ring_count), 1);
    check_nothing_is_pinned();
    munmap(many, 2 * count * page);
}
END_TEST

START_TEST(test_the_end_of_the_host_closes_its_rings)
{
    ck_assert_int_eq(pin(0, 8), RI_OK);
    pin_host_again(UINT64_MAX); /* as if the program had forgotten its pin */
    ck_assert_uint_eq(pin_rings(), 0);
    pin_await_held(0);
}
END_TEST

/* ---- a program that closes what is not its own ---- */

/* The descriptor of the only ring. */
static int ring_number(void)
{
    char path[40], target[64];
    ssize_t length;

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        length = readlink(path, target, sizeof target - 1);
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

/* ---- mapping and pin part ---- */

/* The pin keeps the page that it was made for. The address has another one from then on. */
START_TEST(test_dontneed_under_a_pin_parts_it_from_its_mapping)
{
    uint64_t before, after;

    memset(area, 'a', 4 * page);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    before = pin_frame(area);
    ck_assert_int_eq(madvise(area, 4 * page, MADV_DONTNEED), 0);
    ck_assert_int_eq(area[0], 0);
    after = pin_frame(area);
    ck_assert(!before || before != after);
    pin_await_held(4 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 4 * page);
    /* A second pin nests, and so does not pin the new page; a pin after the end does */
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 1);
    unpin(0, 4);
    unpin(0, 4);
    check_nothing_is_pinned();
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&updates), 2);
    unpin(0, 4);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_munmap_under_a_pin)
{
    ck_assert_int_eq(pin(0, 8), RI_OK);
    ck_assert_int_eq(munmap(area + 2 * page, 4 * page), 0);
    pin_await_held(8 * page);
    unpin(0, 8);
    check_nothing_is_pinned();
    ck_assert_int_eq(pin(0, 8), RI_ERR_ADDRESS);
    ck_assert_str_eq(refusal.why, "not all of it is mapped");
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

/* ---- what cannot be held ---- */

START_TEST(test_a_read_only_mapping_is_named)
{
    ck_assert_int_eq(mprotect(area + 4 * page, page, PROT_READ), 0);
    ck_assert_int_eq(pin(0, 8), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a read-only mapping"), "%s", refusal.why);
    ck_assert_int_eq(mprotect(area + 4 * page, page, PROT_NONE), 0);
    ck_assert_int_eq(pin(0, 8), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a mapping that allows no access"), "%s", refusal.why);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_a_shared_file_is_named)
{
    char name[] = "./pin-XXXXXX"; /* the build folder: on a disk, other than perhaps /tmp */
    int fd = mkostemp(name, O_CLOEXEC);
    char *file;

    ck_assert_int_ge(fd, 0);
    unlink(name);
    ck_assert_int_eq(ftruncate(fd, (off_t)(4 * page)), 0);
    file = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    if (pin_at(file, 4 * page) == RI_OK)
        tc_skip("the build folder is in memory");
    ck_assert_int_eq(refusal.status, RI_ERR_PERMISSION);
    ck_assert_msg(why_says("a shared mapping of a file that is not in memory, ") &&
                      why_says("/pin-"),
                  "%s", refusal.why);
    munmap(file, 4 * page);
    /* A private mapping of it has pages of its own */
    file = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    ck_assert_int_eq(pin_at(file, 4 * page), RI_OK);
    kal_unpin(pins, file, 4 * page);
    munmap(file, 4 * page);
    close(fd);
    check_nothing_is_pinned();
}
END_TEST

START_TEST(test_memory_files_and_shared_memory_are_held)
{
    int fd = memfd_create("pin", MFD_CLOEXEC);
    char *at[2];

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)(4 * page)), 0);
    at[0] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at[1] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_ptr_ne(at[i], MAP_FAILED);
        ck_assert_int_eq(pin_at(at[i], 4 * page), RI_OK);
        pin_await_held(4 * page);
        kal_unpin(pins, at[i], 4 * page);
        munmap(at[i], 4 * page);
    }
    close(fd);
    check_nothing_is_pinned();
}
END_TEST

/* ---- io_uring is not there ---- */

static void explain(int error, long disabled, bool filtered)
{
    kal_pin_explain_ring(&refusal, error, disabled, 27, filtered);
}

START_TEST(test_why_there_is_no_ring)
{
    explain(EPERM, 2, true);
    ck_assert(why_says("kernel.io_uring_disabled = 2") && why_says("sysctl"));
    explain(EPERM, 1, false);
    ck_assert(why_says("kernel.io_uring_disabled = 1") && why_says("kernel.io_uring_group = 27"));
    explain(EPERM, 0, true);
    ck_assert(why_says("a seccomp filter forbids io_uring (Operation not permitted)"));
    explain(ENOSYS, -1, true);
    ck_assert(why_says("a seccomp filter"));
    ck_assert_int_eq(refusal.status, RI_ERR_PERMISSION);
    explain(ENOSYS, -1, false);
    ck_assert(why_says("built without io_uring"));
    explain(EOPNOTSUPP, 0, false);
    ck_assert(why_says("5.19"));
    explain(EMFILE, 0, false);
    ck_assert(why_says("ulimit -n"));
    ck_assert_int_eq(refusal.status, RI_ERR_NO_RESOURCES);
}
END_TEST

/* As containers have it. */
static void forbid_io_uring(int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(test_a_seccomp_filter_is_named)
{
    static const int errors[] = { EPERM, ENOSYS };

    forbid_io_uring(errors[_i]);
    pin_host_again(UINT64_MAX);
    ck_assert_int_eq(pin(0, 4), RI_ERR_PERMISSION);
    ck_assert_msg(why_says("seccomp") || why_says("kernel.io_uring_disabled"), "%s", refusal.why);
    check_nothing_is_pinned();
}
END_TEST

/* ---- every step fails once ---- */

START_TEST(test_a_failure_at_any_step_changes_nothing)
{
    unsigned failed = 0;
    enum ri_status status;

    for (long step = 0;; step++) {
        pin_host_again(UINT64_MAX); /* without a ring, without memory */
        ck_assert_uint_eq(pin_rings(), 0);
        left = step;
        status = pin(8, 4);
        if (status == RI_OK)
            status = pin(0, PIN_PAGES); /* two parts */
        if (left >= 0)
            break;
        failed++;
        ck_assert_int_eq(status, RI_ERR_NO_RESOURCES);
        ck_assert_uint_gt(strlen(refusal.why), 0);
        ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), pins->live * 4 * page);
        pin_await_held(pins->live * 4 * page);
        if (!pins->live)
            ck_assert_int_eq(pin(8, 4), RI_OK);
        ck_assert_int_eq(pin(0, PIN_PAGES), RI_OK);
        unpin(8, 4);
        unpin(0, PIN_PAGES);
        check_nothing_is_pinned();
    }
    left = -1;
    ck_assert_int_eq(status, RI_OK);
    unpin(8, 4);
    unpin(0, PIN_PAGES);
    check_nothing_is_pinned();
    /* Memory for table, block and ring; ring, sparse table, pages; block and pages twice more */
    ck_assert_uint_ge(failed, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_hold");
    TCase *tc = tc_case(suite, "pin_hold", setup, pin_teardown);

    tc_add_tests(tc, test_pages_that_wait_for_their_block_are_pinned_anew,
                 test_more_than_a_gibibyte_is_pinned_in_parts,
                 test_a_full_ring_is_followed_by_another, test_the_end_of_the_host_closes_its_rings,
                 test_a_ring_that_was_closed_is_followed_by_another,
                 test_dontneed_under_a_pin_parts_it_from_its_mapping, test_munmap_under_a_pin,
                 test_after_a_fork_the_page_stays, test_a_child_that_lives_on_keeps_no_pages,
                 test_the_charge_of_a_killed_process_is_awaited,
                 test_a_charge_that_comes_back_is_awaited, test_a_hopeless_wish_is_refused_at_once,
                 test_a_thread_that_waits_lets_others_release, test_a_read_only_mapping_is_named,
                 test_a_shared_file_is_named, test_memory_files_and_shared_memory_are_held,
                 test_why_there_is_no_ring, test_a_failure_at_any_step_changes_nothing);
    tcase_add_loop_test(tc, test_a_seccomp_filter_is_named, 0, 2);
    tcase_add_loop_test(tc, test_what_gets_the_number_of_a_closed_ring_is_not_touched, 0, 2);
    return tc_main(suite);
}

#else /* without liburing */

START_TEST(test_hold_is_refused_with_the_reason)
{
    pins = &host->held;
    ck_assert_int_eq(pin(0, 4), RI_ERR_PERMISSION);
    ck_assert_str_eq(refusal.why, "ital was built without liburing");
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin_hold");
    TCase *tc = tc_case(suite, "pin_hold", pin_setup, pin_teardown);

    tcase_add_test(tc, test_hold_is_refused_with_the_reason);
    return tc_main(suite);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for test programs: runner, deadlines, waiting, random numbers, temporary folders. What
 * nearly each test needs of libc comes with it, and is not included again. */
#ifndef ITAL_TESTS_TC_H
#define ITAL_TESTS_TC_H

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/*
 * Check writes the place of each assertion that held into a file and reads it again, for the report
 * of a test that crashes: half of the time of some tests under ThreadSanitizer. A sanitizer says
 * itself where a crash is.
 */
#ifdef ITAL_SANITIZERS
#define _mark_point(file, line) ((void)0)
#endif

/*
 * Runs the suites and prints one TAP line per test on the standard output; output of the tests
 * themselves goes to the standard error. Returns the exit status for main(). Each test runs in a
 * process of its own (CK_FORK=no: all in one, for debuggers).
 */
#define tc_main(...) tc_run((Suite *[]){ __VA_ARGS__, NULL })
int tc_run(Suite **suites);

/*
 * Ends the running test as skipped; give the reason as a printf format.  A skipped test counts as
 * skipped, never as passed.  As after a failure, checked teardowns do not run.
 */
#define tc_skip(...) ck_abort_msg("TC-SKIP: " __VA_ARGS__)

/*
 * Tests whose names are in the environment's TC_KEEP_OUT, separated by commas, are reported as
 * skipped and not run: for a machine that one of them would block. tc_admit returns the test itself
 * or a replacement that skips.
 */
const TTest *tc_admit(const TTest *test);
#undef tcase_add_test
#define tcase_add_test(tc, test) _tcase_add_test((tc), tc_admit(test), 0, 0, 0, 1)
#undef tcase_add_loop_test
#define tcase_add_loop_test(tc, test, begin, end) \
    _tcase_add_test((tc), tc_admit(test), 0, 0, (begin), (end))

/* A test case of the suite, with a checked fixture; either half may be NULL. */
TCase *tc_case(Suite *suite, const char *name, SFun setup, SFun teardown);

/*
 * A case's time-out is at least ten times what a test of it takes on a quiet machine. These, which
 * stand in the place of Check's, keep it. For a test that passed and took more than a tenth of it
 * tc_run prints "# time-out: 5.0 s of 40 s: TEST", and ./check shows those lines at its end.
 */
TCase *tc_case_create(const char *name);
void tc_case_timeout(TCase *tc, double seconds);
#define tcase_create(name)             tc_case_create(name)
#define tcase_set_timeout(tc, seconds) tc_case_timeout(tc, seconds)

/*
 * tc_add_tests: tcase_add_test of each. tc_add_loops: tcase_add_loop_test of each, with these
 * rounds. tc_add_rows: a loop test with one round for each row of an array.
 */
#define tc_add_tests(tc, ...) tc_add_loops(tc, 0, 1, __VA_ARGS__)
#define tc_add_loops(tc, begin, end, ...) \
    tc_add_list((tc), (begin), (end), (const TTest *const[]){ __VA_ARGS__, NULL })
#define tc_add_rows(tc, test, array) \
    tcase_add_loop_test(tc, test, 0, (int)(sizeof(array) / sizeof((array)[0])))
void tc_add_list(TCase *tc, int begin, int end, const TTest *const *tests);

/*
 * Time. Deadlines are nanoseconds of CLOCK_MONOTONIC; a time-out given in milliseconds is
 * multiplied by TEST_TIMEOUT_SCALE (sanitizers, valgrind). A deadline ends a test that fails: no
 * test needs one to pass. So those of 5 s and more are stretched sixfold, and so is the time-out of
 * a whole test, 20 s where it sets none: a loaded machine needs longer than a quiet one.
 * TC_PATIENCE stretches waits less. TC_IMPATIENT is an extended regular expression: in tests whose
 * whole name, "test" or "test[round]", matches, guards are three tenths of what is said, for a run
 * in which these are known to wait in vain.
 */
uint64_t tc_now_ns(void);
unsigned tc_timeout_ms(unsigned ms);
uint64_t tc_deadline(unsigned ms);
bool tc_expired(uint64_t deadline);
int tc_remaining_ms(uint64_t deadline); /* rounded up; 0 once expired: fits poll and epoll_wait */
struct timespec tc_timespec(uint64_t deadline); /* CLOCK_MONOTONIC, for condition variables */

/*
 * Waits with poll(2) until fd has one of the events or the deadline has passed.
 * Returns revents, 0 at the deadline, -1 on error.
 */
int tc_wait_fd(int fd, short events, uint64_t deadline);

/*
 * Evaluates cond, yielding the processor in between, until it is true or ms (stretched) have
 * passed; returns its last value. For what has no event to wait for, such as memory that a peer
 * writes.
 */
#define tc_until(cond, ms)                                             \
    ({                                                                 \
        uint64_t tc_until_end_ = tc_deadline(ms);                      \
        bool tc_until_ok_;                                             \
        while (!(tc_until_ok_ = (cond)) && !tc_expired(tc_until_end_)) \
            sched_yield();                                             \
        tc_until_ok_;                                                  \
    })

/* Two connected loopback TCP sockets, CLOEXEC, TCP_NODELAY; family AF_INET or AF_INET6.
 * Returns 0, or -1 with errno (then a test of IPv6 may skip). */
int tc_tcp_pair(int family, int fds[2]);

/*
 * Random numbers.  The program's seed comes from ITAL_TEST_SEED or from the kernel and is printed
 * at the start; a generator is the seed and a salt of the test's own, so that tests do not depend
 * on each other's order.  Not for several threads at once: one generator each.
 */
struct tc_rng {
    uint64_t state;
};
uint64_t tc_seed(void);
struct tc_rng tc_rng(uint64_t salt);
uint64_t tc_rand(struct tc_rng *rng);
uint64_t tc_below(struct tc_rng *rng, uint64_t n); /* 0 … n-1; n > 0 */
void tc_fill(struct tc_rng *rng, void *buf, size_t len);

/*
 * tc_netns: from now on the calling thread, and what it makes, is in a network name space of its
 * own, in which the loopback interface is up. False: it may not make one.
 * tc_label: gives the loopback interface there one more address, with the label "lo:1", or takes it
 * away again. False: that cannot be done.
 * tc_loopback_mtu: the MTU of that interface. False: likewise.
 * tc_is_member: has a socket there joined the group of IPv4? Host order.
 */
#define TC_LABEL_ADDRESS 0xc0000209u /* 192.0.2.9, host order */
bool tc_netns(void);
bool tc_label(bool there);
bool tc_loopback_mtu(int mtu);
bool tc_is_member(uint32_t group);

/* How often a loop runs: n; a tenth (at least 1) with TC_SHORT
 * set, ten times n with TC_LONG set. */
unsigned long tc_count(unsigned long n);
bool tc_long(void);

/* Paths.  The strings are valid until the program ends. */
const char *tc_tempdir(void);          /* a new empty folder; removed when the program ends */
const char *tc_provider_path(void);    /* folder with vp_softrdma.so of the build tree */
const char *tc_data(const char *name); /* tests/data/NAME in the source tree */
const char *tc_srcdir(void);           /* top of the source tree */
const char *tc_builddir(void);         /* top of the build tree */

/* Resources of this process, for leak tests: open descriptors, threads, memory. */
int tc_fd_count(void);
int tc_thread_count(void); /* a joined thread is not counted, though /proc may still list it */
/*
 * The state of a thread as in proc(5): 'R' runs, 'S' sleeps, 'T' is stopped; 0: no such thread.
 * tc_asleep: a thread of this process sleeps in the kernel; false if there is none.
 * tc_polls: it is in poll(2) or ppoll(2), without a time-out.
 */
char tc_thread_state(pid_t process, pid_t thread);
bool tc_asleep(pid_t thread);
/*
 * To be called before fork(2) where the child allocates memory: under AddressSanitizer it waits
 * until every other thread sleeps. GCC 12's AddressSanitizer does not hold the locks of its
 * allocator still over a fork. A thread that begins or allocates may have one of them, and then the
 * child waits for it for ever.
 */
void tc_await_quiet_for_fork(void);
bool tc_polls(pid_t thread);
/*
 * Compares the descriptors by what they refer to ("socket", "anon_inode:[eventpoll]", a path).
 * Returns what was added since `before`, "+...", and what was closed, "-...", valid until the next
 * call; NULL: no difference.
 */
#define TC_FDS       128
#define TC_FD_TARGET 96
struct tc_fds {
    size_t count;
    char target[TC_FDS][TC_FD_TARGET];
};
struct tc_fds tc_fds(void);
const char *tc_fds_differ(const struct tc_fds *before);
/* Octets of heap in use; in sanitizer builds without what is in quarantine. */
size_t tc_heap(void);
/* What one block of that length adds to it: ThreadSanitizer's heap rounds 65,000 up to 81,920. */
size_t tc_heap_cost(size_t octets);
/* Overwrites small blocks that this thread has freed last: who still uses one of them is found. */
void tc_spoil_freed(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* kald knows the process behind a client by what the kernel offers: SO_PEERPIDFD, else the pidfd of
 * its number, else the time at which it began. */
#include "kald_fixture.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A child that holds 12 endpoints. *fd: a copy of its socket. */
static pid_t start_client(int *fd)
{
    int ends[2], theirs, pidfd;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        theirs = kald_greeted(SELF, 12);
        write(ends[1], &theirs, sizeof(theirs));
        pause();
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &theirs, sizeof(theirs)), sizeof(theirs));
    close(ends[0]);
    pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    *fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
    if (*fd < 0)
        tc_skip("the kernel does not pass descriptors of another process");
    close(pidfd);
    return child;
}

static void end_child(pid_t child)
{
    int status;

    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
}

static const enum kald_lacks lacks[] = { KALD_LACKS_NOTHING, KALD_LACKS_PEERPIDFD,
                                         KALD_LACKS_PIDFDS };

/* It acts on the process, and what that held is free again: by a pidfd when it ends, else when the
 * last copy of its socket is closed. */
START_TEST(a_client_is_known_whatever_the_kernel_offers)
{
    pid_t child;
    int fd;

    kald_policy("1.conf", "limit pinned 1m\n");
    kald_lacks(lacks[_i]);
    kald_start(NULL);
    kald_lower_limit();
    child = start_client(&fd);
    ck_assert_uint_eq(kald_total(POLICY_ENDPOINTS, NULL), 12);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_OK);
    ck_assert_uint_eq(kald_soft_limit(child), KALD_LOW_LIMIT + (1 << 19));
    ck_assert_uint_eq(kald_soft_limit(0), KALD_LOW_LIMIT);
    end_child(child);
    if (lacks[_i] == KALD_LACKS_PIDFDS) {
        ck_assert_int_eq(kald_take_pinned(fd, 3 << 18, KALD_RAISE), KALD_DENIED);
        close(fd);
    } else {
        kald_expect_end(fd);
    }
    ck_assert(tc_until(kald_total(POLICY_ENDPOINTS, NULL) == 0, 10000));
}
END_TEST

/* In ticks since the system started. */
static unsigned long long start_of(pid_t process)
{
    unsigned long long start = 0;
    char path[40], text[1024];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", process);
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
    fclose(file);
    ck_assert_int_eq(sscanf(strrchr(text, ')') + 1,
                            " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                            "%*s %*s %llu",
                            &start),
                     1);
    return start;
}

/* A child of that number, which is free. */
static void start_again(pid_t number)
{
    struct clone_args args = { .exit_signal = SIGCHLD,
                               .set_tid = (uintptr_t)&number,
                               .set_tid_size = 1 };
    long child = syscall(SYS_clone3, &args, sizeof(args));

    if (!child) {
        for (;;)
            pause();
    }
    if (child < 0)
        tc_skip("the system gives no process a chosen number");
    ck_assert_int_eq(child, number);
}

/* Without a pidfd the number may be another process by now: its start tells. */
START_TEST(another_process_of_the_same_number_is_left_alone)
{
    unsigned long long start;
    pid_t child;
    int fd;

    kald_needs_root();
    kald_policy("1.conf", "limit pinned 1m\n");
    kald_lacks(KALD_LACKS_PIDFDS);
    kald_start(NULL);
    kald_lower_limit();
    child = start_client(&fd);
    start = start_of(child);
    do { /* until the tick is another one */
        end_child(child);
        start_again(child);
    } while (start_of(child) == start);
    ck_assert_int_eq(kald_take_pinned(fd, 1 << 19, KALD_RAISE), KALD_DENIED);
    ck_assert_uint_eq(kald_soft_limit(child), KALD_LOW_LIMIT);
    end_child(child);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kald/process");
    TCase *tc = kald_case(suite, "process");

    tc_add_rows(tc, a_client_is_known_whatever_the_kernel_offers, lacks);
    tcase_add_test(tc, another_process_of_the_same_number_is_left_alone);
    return tc_main(suite);
}

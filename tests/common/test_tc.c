/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the test helpers: results are distinguished, deadlines end waits, seeds are
 * reproducible. */
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

START_TEST(inner_pass)
{
    puts("ok 99 - a line of the test's own, not a result");
}
END_TEST

START_TEST(inner_fail)
{
    ck_assert_msg(_i < 0, "one <line> & %d more\nand a second", _i);
}
END_TEST

START_TEST(inner_takes)
{
    tc_wait_fd(-1, 0, tc_now_ns() + 1500u * 1000000u);
}
END_TEST

START_TEST(inner_skip)
{
    tc_skip("no %s here", "tape drive");
}
END_TEST

START_TEST(inner_crash)
{
    abort();
}
END_TEST

#ifndef ITAL_SANITIZERS /* these print the place of a crash themselves */
/* A null pointer that the compiler does not know. */
static int *volatile nowhere;

static void *__attribute__((noinline)) write_nowhere(void *arg)
{
    (void)arg;
    *nowhere = 1;
    return NULL;
}

START_TEST(inner_fault)
{
    write_nowhere(NULL);
}
END_TEST

START_TEST(inner_fault_of_a_thread)
{
    pthread_t thread;

    pthread_create(&thread, NULL, write_nowhere, NULL);
    pthread_setname_np(thread, "a thread");
    pthread_join(thread, NULL);
}
END_TEST

static void (*volatile nothing)(void);

START_TEST(inner_call_of_nothing)
{
    nothing();
    ck_abort_msg("no function was called"); /* so that the call is none in the last place, a jump */
}
END_TEST

/* More of the stack than there is. */
static int deep(int depth)
{
    volatile char frame[4096];

    frame[0] = (char)depth;
    return depth < 0 ? 0 : deep(depth + 1) + frame[0];
}

START_TEST(inner_deep)
{
    ck_assert_int_eq(deep(0), 0);
}
END_TEST

/* Whoever ends it leaves no record. */
START_TEST(inner_killed)
{
    raise(SIGKILL);
}
END_TEST
#endif

START_TEST(inner_early_exit)
{
    exit(3);
}
END_TEST

/* Says how long it would wait. */
START_TEST(inner_wait)
{
    ck_abort_msg("waits %u and %u ms", tc_timeout_ms(10000), tc_timeout_ms(1000));
}
END_TEST

/* The program runs itself as "test_tc inner" and reads what that printed. */
static int inner(void)
{
    Suite *s = suite_create("inner");
    TCase *t = tcase_create("case");

    tcase_add_test(t, inner_pass);
    tcase_add_loop_test(t, inner_fail, 0, 2);
    tcase_add_test(t, inner_skip);
    tcase_add_test(t, inner_crash);
    tcase_add_test(t, inner_early_exit);
    tcase_add_loop_test(t, inner_wait, 0, 3);
    suite_add_tcase(s, t);
    return tc_main(s);
}

static int taking(void)
{
    Suite *s = suite_create("takes");
    TCase *set = tc_case(s, "set", NULL, NULL), *ample = tc_case(s, "ample", NULL, NULL);

    tcase_set_timeout(set, 1.4);
    tcase_add_test(set, inner_takes);
    tcase_add_test(ample, inner_takes);
    return tc_main(s);
}

START_TEST(runner_tells_results_apart)
{
    static char text[65536];
    FILE *p = popen("exec /proc/$PPID/exe inner 2>/dev/null", "re");
    size_t n;
    int status;

    ck_assert_ptr_nonnull(p);
    n = fread(text, 1, sizeof(text) - 1, p);
    text[n] = '\0';
    status = pclose(p);
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    ck_assert_ptr_nonnull(strstr(text, "\nok 1 - inner: case: inner_pass\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnot ok 2 - inner: case: inner_fail\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n#   one <line> & 0 more\n#   and a second\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnot ok 3 - inner: case: inner_fail[1]\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nok 4 - inner: case: inner_skip # SKIP no tape drive here\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnot ok 5 - inner: case: inner_crash\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnot ok 6 - inner: case: inner_early_exit\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n1..9\n"));
    ck_assert_ptr_null(strstr(text, "ok 99"));
}
END_TEST

#ifndef ITAL_SANITIZERS
static int crashing(void)
{
    Suite *s = suite_create("inner");
    TCase *t = tcase_create("crashing");

    tcase_add_test(t, inner_fault);
    tcase_add_test(t, inner_killed);
    tcase_add_test(t, inner_crash);
    tcase_add_test(t, inner_pass);
    tcase_add_test(t, inner_deep);
    tcase_add_test(t, inner_fault_of_a_thread);
    tcase_add_test(t, inner_call_of_nothing);
    suite_add_tcase(s, t);
    return tc_main(s);
}

/* What stands in `text` behind that result, up to the next one. */
static const char *said_of(const char *text, const char *result)
{
    static char said[65536];
    const char *from = strstr(text, result);

    ck_assert_msg(from != NULL, "no %s in:\n%s", result, text);
    from += strlen(result);
    snprintf(said, sizeof(said), "%.*s", (int)strcspn(from, "\n"), from);
    for (from = strchr(from, '\n'); from && !strncmp(from + 1, "#   ", 4);
         from = strchr(from + 1, '\n'))
        snprintf(said + strlen(said), sizeof(said) - strlen(said), "\n%.*s",
                 (int)strcspn(from + 1, "\n"), from + 1);
    return said;
}

static void expect_place(const char *said, const char *head, const char *function)
{
    bool names = !system("addr2line --version >/dev/null 2>&1"); /* of functions that are static */

    ck_assert_msg(strstr(said, head) != NULL, "no \"%s\" in: %s", head, said);
    ck_assert_msg(strstr(said, "exe(+0x") != NULL, "no place in: %s", said);
    ck_assert_msg(!names || strstr(said, function), "%s is not in: %s", function, said);
}

/* Of each the signal, the thread and the functions; in the lines of the test that crashed. */
START_TEST(crashes_tell_their_place)
{
    static char text[1 << 20];
    FILE *p = popen("exec /proc/$PPID/exe crashing 2>/dev/null", "re");
    size_t n;

    ck_assert_ptr_nonnull(p);
    n = fread(text, 1, sizeof(text) - 1, p);
    text[n] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(p)), 1);
    expect_place(said_of(text, "not ok 1 - "), "#   signal 11 at address 0x0 in thread exe:\n",
                 "       write_nowhere");
    ck_assert_ptr_null(strstr(said_of(text, "not ok 2 - "), "signal 9 in"));
    ck_assert_ptr_null(strstr(said_of(text, "not ok 2 - "), "thread"));
    expect_place(said_of(text, "not ok 3 - "), "#   signal 6 in thread exe:\n",
                 "       inner_crash");
    ck_assert_ptr_nonnull(strstr(text, "\nok 4 - "));
    expect_place(said_of(text, "not ok 5 - "), "#   signal 11 at address 0x", "       deep");
    expect_place(said_of(text, "not ok 6 - "), "#   signal 11 at address 0x0 in thread a thread:\n",
                 "       write_nowhere");
#ifdef __x86_64__
    expect_place(said_of(text, "not ok 7 - "), "#   signal 11 at address 0x0 in thread",
                 "       inner_call_of_nothing");
#endif
    ck_assert_ptr_nonnull(strstr(text, "\n1..7\n"));
}
END_TEST

/* A process that a test has made is none of Check's: what it says is on the standard error. */
START_TEST(crash_of_a_test_s_child)
{
    static char text[65536];
    int fds[2], status;
    size_t length = 0;
    ssize_t got;
    pid_t child;

    ck_assert_int_eq(pipe(fds), 0);
    child = fork();
    if (!child) {
        dup2(fds[1], STDERR_FILENO);
        write_nowhere(NULL);
    }
    close(fds[1]);
    while ((got = read(fds[0], text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t)got;
    close(fds[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSEGV);
    ck_assert_msg(strstr(text, "signal 11 at address 0x0 in thread ") == text, "%s", text);
    ck_assert_msg(strstr(text, "(+0x") != NULL, "no place in: %s", text);
}
END_TEST
#endif

/* This program once more, as the command says; its status and what it prints. */
static int run_again(const char *command, char *text, size_t room)
{
    FILE *p = popen(command, "re");
    size_t n;

    ck_assert_ptr_nonnull(p);
    n = fread(text, 1, room - 1, p);
    text[n] = '\0';
    return WEXITSTATUS(pclose(p));
}

/* Names match as a whole; all runs of a loop test are skipped. */
START_TEST(kept_out_tests_are_skipped)
{
    static char text[65536];
    int status = run_again(
        "TC_KEEP_OUT=inner,inner_crash,inner_fail,inner_early exec /proc/$PPID/exe "
        "inner 2>/dev/null",
        text, sizeof(text));

    ck_assert_int_eq(status, 1);
    ck_assert_ptr_nonnull(strstr(text, "\nok 1 - inner: case: inner_pass\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nok 2 - inner: case: inner_fail # SKIP kept out by TC_KEEP_OUT\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nok 3 - inner: case: inner_fail[1] # SKIP kept out by TC_KEEP_OUT\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nok 5 - inner: case: inner_crash # SKIP kept out by TC_KEEP_OUT\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnot ok 6 - inner: case: inner_early_exit\n"));
    ck_assert_ptr_nonnull(strstr(text, "\n1..9\n"));
}
END_TEST

/* Round by round; names match as a whole. */
START_TEST(tests_that_wait_in_vain_are_impatient)
{
    static char text[65536];
    int status = run_again(
        "TEST_TIMEOUT_SCALE=2 TC_PATIENCE=4 TC_IMPATIENT='inner|inner_wait(\\[2\\])?|wait.*' exec "
        "/proc/$PPID/exe inner 2>/dev/null",
        text, sizeof(text));
    const char *found = text;
    unsigned guard, other;

    ck_assert_int_eq(status, 1);
    for (int round = 0; round < 3; round++) {
        found = strstr(found, "waits ");
        ck_assert_ptr_nonnull(found);
        ck_assert_int_eq(sscanf(found, "waits %u and %u ms", &guard, &other), 2);
        ck_assert_uint_eq(guard, round == 1 ? 80000 : 6000);
        ck_assert_uint_eq(other, 2000);
        found++;
    }
}
END_TEST

/* One case sets a time-out that is not ten times as long, the other has the default. */
START_TEST(a_time_out_near_what_is_needed_is_told)
{
    static char text[65536];
    int status = run_again(
        "CK_DEFAULT_TIMEOUT=1000 CK_TIMEOUT_MULTIPLIER=10 exec /proc/$PPID/exe takes "
        "2>/dev/null",
        text, sizeof(text));

    ck_assert_msg(status == 0, "%s", text);
    ck_assert_msg(strstr(text, "\n# time-out: ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, " s of 14 s: takes: set: inner_takes\n") != NULL, "%s", text);
    ck_assert_ptr_null(strstr(strstr(text, "\n# time-out: ") + 1, "\n# time-out: "));
}
END_TEST

START_TEST(deadline_ends_wait)
{
    int fds[2];
    uint64_t start = tc_now_ns();

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(tc_wait_fd(fds[0], POLLIN, tc_deadline(20)), 0);
    ck_assert_uint_ge(tc_now_ns() - start, 20u * 1000000u);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert_int_eq(tc_wait_fd(fds[0], POLLIN, tc_deadline(10000)), POLLIN);
    ck_assert(!tc_until(false, 5));
    ck_assert(tc_until(true, 0));
    ck_assert_int_eq(tc_remaining_ms(1), 0);
}
END_TEST

START_TEST(seed_repeats)
{
    struct tc_rng a = tc_rng(1), b = tc_rng(1), c = tc_rng(2);
    unsigned char x[13], y[13];

    tc_fill(&a, x, sizeof(x));
    tc_fill(&b, y, sizeof(y));
    ck_assert_mem_eq(x, y, sizeof(x));
    ck_assert_uint_ne(tc_rand(&a), tc_rand(&c));
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_lt(tc_below(&a, 7), 7);
}
END_TEST

START_TEST(tempdirs_are_new_and_empty)
{
    struct stat st;
    const char *a = tc_tempdir(), *b = tc_tempdir();

    ck_assert_str_ne(a, b);
    ck_assert_int_eq(stat(a, &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
}
END_TEST

START_TEST(tcp_pair_carries_bytes)
{
    int fds[2], before = tc_fd_count();
    char c = 0;

    ck_assert_int_eq(tc_tcp_pair(AF_INET, fds), 0);
    ck_assert_int_eq(tc_fd_count(), before + 2);
    ck_assert_int_eq(send(fds[0], "x", 1, MSG_NOSIGNAL), 1);
    ck_assert_int_eq(tc_wait_fd(fds[1], POLLIN, tc_deadline(10000)), POLLIN);
    ck_assert_int_eq(recv(fds[1], &c, 1, 0), 1);
    ck_assert_int_eq(c, 'x');
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_eq(tc_fd_count(), before);
}
END_TEST

START_TEST(descriptors_are_told_apart)
{
    struct tc_fds before = tc_fds();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), pair[2];

    ck_assert_str_eq(tc_fds_differ(&before), "+/dev/null");
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_str_eq(tc_fds_differ(&before), "+/dev/null, +socket, +socket");
    before = tc_fds();
    close(pair[0]);
    close(pair[1]);
    close(null);
    ck_assert_str_eq(tc_fds_differ(&before), "-/dev/null, -socket, -socket");
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_ptr_null(tc_fds_differ(&before)); /* under other numbers */
    close(null);
    close(pair[0]);
    close(pair[1]);
}
END_TEST

/* arg: the number of threads while the first one lives; 0 not known yet. */
static void *main_is_over(void *arg)
{
    atomic_int *all = arg;

    _exit(tc_until(*all && tc_thread_count() == *all - 1, 10000) ? 0 : 1);
}

/* The first thread of a process stays in /proc after its end, as any other joined thread may for a
 * moment. */
START_TEST(ended_threads_are_not_counted)
{
    static atomic_int all;
    pthread_t thread;
    pid_t child = fork();
    int status;

    if (!child) {
        if (pthread_create(&thread, NULL, main_is_over, &all))
            _exit(2);
        all = tc_thread_count(); /* a sanitizer may have one, too */
        pthread_exit(NULL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* Small blocks and a large one: the limits that tests set on the heap hold in every build. */
START_TEST(heap_counts_what_is_held)
{
    enum { PIECES = 1000, SMALL = 100, LARGE = 4 << 20, SLACK = 32768 };
    static void *pieces[PIECES];
    size_t before = tc_heap(), held;
    void *large = malloc(LARGE);

    ck_assert_ptr_nonnull(large);
    for (int i = 0; i < PIECES; i++)
        ck_assert_ptr_nonnull(pieces[i] = malloc(SMALL));
    held = tc_heap();
    ck_assert_uint_ge(held, before + LARGE + PIECES * SMALL);
    ck_assert_uint_le(held, before + LARGE + 2 * PIECES * SMALL + SLACK);
    free(large);
    ck_assert_uint_le(tc_heap(), held - LARGE + SLACK);
    for (int i = 0; i < PIECES; i++)
        free(pieces[i]);
    ck_assert_uint_le(tc_heap(), before + SLACK);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("test helpers");
    TCase *t = tcase_create("helpers");

    if (argc > 1 && !strcmp(argv[1], "inner"))
        return inner();
    if (argc > 1 && !strcmp(argv[1], "takes"))
        return taking();
#ifndef ITAL_SANITIZERS
    if (argc > 1 && !strcmp(argv[1], "crashing"))
        return crashing();
    tcase_add_test(t, crashes_tell_their_place);
    tcase_add_test(t, crash_of_a_test_s_child);
#endif
    tcase_add_test(t, runner_tells_results_apart);
    tcase_add_test(t, kept_out_tests_are_skipped);
    tcase_add_test(t, tests_that_wait_in_vain_are_impatient);
    tcase_add_test(t, a_time_out_near_what_is_needed_is_told);
    tcase_add_test(t, deadline_ends_wait);
    tcase_add_test(t, seed_repeats);
    tcase_add_test(t, tempdirs_are_new_and_empty);
    tcase_add_test(t, tcp_pair_carries_bytes);
    tcase_add_test(t, descriptors_are_told_apart);
    tcase_add_test(t, ended_threads_are_not_counted);
    tcase_add_test(t, heap_counts_what_is_held);
    suite_add_tcase(s, t);
    return tc_main(s);
}

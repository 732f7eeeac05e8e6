/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: it neither blocks nor floods, no loss is silent, and lanes write to no descriptor
 * (DESIGN 4). */
#include "kal/rnic/rnic.h"
#include "kal/report/log_private.h"
#include "base/clock.h"
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

/* ---- wrapped writes: those of kal, not those of the test ---- */

static _Thread_local bool lane; /* this thread is a lane's */
static atomic_uint lane_writes;
static atomic_bool endless; /* whoever writes a line finds another one behind it */
static atomic_uint endless_writes;
static uint64_t endless_until; /* what waits for its end fails then, and not for ever */

ssize_t __real_write(int fd, const void *data, size_t length);
ssize_t __wrap_write(int fd, const void *data, size_t length);
ssize_t __real_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

static void note(void)
{
    if (lane)
        lane_writes++;
    if (!endless)
        return;
    if (tc_expired(endless_until))
        endless = false;
    endless_writes++;
    log_ring_push(RI_LOG_DEBUG, "one more\n", 9);
}

static void begin_endless(void)
{
    endless_until = tc_deadline(10000);
    endless = true;
}

/* Others still log: what came before has not waited for their end. */
static void end_endless(void)
{
    ck_assert_msg(atomic_exchange(&endless, false), "it ends when nobody logs any more");
}

ssize_t __wrap_write(int fd, const void *data, size_t length)
{
    note();
    return __real_write(fd, data, length);
}

ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    note();
    return __real_pwritev2(fd, iov, count, offset, flags);
}

static bool in_lane(void)
{
    return lane;
}

/* Marks the calling thread as a lane's, or not. */
static void be_lane(bool yes)
{
    lane = yes;
    kal_log_lanes(in_lane);
}

/* ---- stderr, as a pipe ---- */

static int ends[2], saved_stderr, threads_before, fds_before;
static char path[4200], text[1 << 20];
static size_t used;

static void configure(const char *level, const char *sink)
{
    char target[4300];
    const char *why;

    snprintf(target, sizeof(target), "%s:%s", level, sink);
    ck_assert_msg(kal_log_configure(target, &why), "%s", target);
}

static void *nothing(void *arg)
{
    return arg;
}

static void setup(void)
{
    pthread_t first; /* makes sanitizers start their own threads */

    ck_assert_int_eq(pthread_create(&first, NULL, nothing, NULL), 0);
    pthread_join(first, NULL);
    kal_log_reset();
    threads_before = tc_thread_count();
    fds_before = tc_fd_count();
    saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    snprintf(path, sizeof(path), "%s/log", tc_tempdir());
    unlink(path);
    configure("debug", "stderr");
    used = 0;
    text[0] = '\0';
    lane_writes = 0;
}

static void teardown(void)
{
    be_lane(false);
    kal_log_reset();
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    if (ends[0] >= 0)
        close(ends[0]);
    /* QEMU's user emulation lets pthread_join return while the thread still runs its own code. */
    ck_assert(tc_until(tc_thread_count() <= threads_before, 10000));
    ck_assert_int_eq(tc_fd_count(), fds_before);
}

/* Fills the pipe. O_NONBLOCK belongs to the file description, so it is cleared again. */
static void fill(void)
{
    char octets[512];

    memset(octets, '.', sizeof(octets));
    fcntl(STDERR_FILENO, F_SETFL, O_WRONLY | O_NONBLOCK);
    for (size_t length = sizeof(octets); length; length /= 2)
        while (__real_write(STDERR_FILENO, octets, length) > 0)
            ;
    ck_assert_int_eq(errno, EAGAIN);
    fcntl(STDERR_FILENO, F_SETFL, O_WRONLY);
}

/* Appends what the pipe holds to `text`. */
static const char *slurp(void)
{
    struct pollfd p = { .fd = ends[0], .events = POLLIN };
    ssize_t got;

    while (poll(&p, 1, 0) == 1 && (p.revents & POLLIN) && used < sizeof(text) - 1) {
        got = read(ends[0], text + used, sizeof(text) - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
        text[used] = '\0';
    }
    return text;
}

static unsigned count(const char *in, const char *what)
{
    unsigned n = 0;

    for (const char *at = in; (at = strstr(at, what)); at++)
        n++;
    return n;
}

static const char *slurp_file(void)
{
    FILE *file = fopen(path, "re");

    ck_assert_ptr_nonnull(file);
    used = fread(text, 1, sizeof(text) - 1, file);
    text[used] = '\0';
    fclose(file);
    return text;
}

/* ---- rate ---- */

START_TEST(log_flood_of_one_cause_is_counted)
{
    configure("warning", path);
    for (int i = 0; i < 1500; i++)
        kal_log(RI_LOG_WARNING, "refused: peer %d", i);
    ck_assert_uint_eq(count(slurp_file(), "\n"), 20);
    ck_assert_ptr_nonnull(strstr(text, "peer 0\n"));
    kal_log_reset();
    ck_assert_uint_eq(count(slurp_file(), "\n"), 21);
    ck_assert_ptr_nonnull(
        strstr(text, "ital: warning: refused: peer 1499 (1480 more like this in the last "));
}
END_TEST

START_TEST(log_count_comes_though_nobody_logs_again)
{
    for (int i = 0; i < 100; i++)
        kal_log(RI_LOG_WARNING, "refused: peer %d", i);
    ck_assert_uint_eq(count(slurp(), "\n"), 20);
    ck_assert(tc_until(strstr(slurp(), "peer 99 (80 more like this in the last 5 s)\n"), 20000));
}
END_TEST

START_TEST(log_causes_have_rates_of_their_own)
{
    const struct {
        enum ri_log_level level;
        const char *interface;
    } rows[] = { { RI_LOG_WARNING, "a" }, { RI_LOG_WARNING, "b" }, { RI_LOG_ERROR, "a" } };

    configure("info", path);
    for (size_t row = 0; row < 3; row++) {
        struct kal_rnic rnic = { .provider_name = "p",
                                 .interface = (char *)(uintptr_t)rows[row].interface };

        for (int i = 0; i < 30; i++)
            kal_rnic_log(&rnic, rows[row].level, "refused: peer %d", i);
    }
    for (int i = 0; i < 15; i++)
        kal_log(RI_LOG_WARNING, "refused, too: peer %d", i);
    ck_assert_uint_eq(count(slurp_file(), "warning: a: refused: peer "), 20);
    ck_assert_uint_eq(count(text, "warning: b: refused: peer "), 20);
    ck_assert_uint_eq(count(text, "error: a: refused: peer "), 20);
    ck_assert_uint_eq(count(text, "warning: refused, too: peer "), 15);
}
END_TEST

/* An attempt that is repeated every few milliseconds: one line, and their number. Two peers in turn
 * are two lines. At level info each is a line. */
START_TEST(log_equal_lines_are_one_cause)
{
    configure("info", path);
    for (int i = 0; i < 28; i++)
        kal_log(RI_LOG_WARNING, "nobody listens at %s", i % 2 ? "b" : "a");
    for (int i = 0; i < 3; i++)
        kal_log(RI_LOG_INFO, "a fault");
    ck_assert_uint_eq(count(slurp_file(), "nobody listens at a\n"), 1);
    ck_assert_uint_eq(count(text, "nobody listens at b\n"), 1);
    ck_assert_uint_eq(count(text, "a fault\n"), 3);
    ck_assert_uint_eq(count(text, "\n"), 5);
    kal_log(RI_LOG_WARNING, "nobody listens at %s", "c");
    ck_assert_uint_eq(count(slurp_file(), "nobody listens at c\n"), 1);
    kal_log_reset();
    ck_assert_uint_eq(count(slurp_file(), " (26 more like this in the last "), 1);
    ck_assert_uint_eq(count(text, "\n"), 7);
}
END_TEST

/* More causes than the table has places for: each keeps its first lines, and suppressed lines are
 * reported. All of them are more than the ring holds, so each cause's are awaited: a writer thread
 * without a processor would let it become full. */
START_TEST(log_many_causes)
{
    char name[16];
    struct kal_rnic rnic = { .provider_name = "p", .interface = name };

    configure("info", path);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "if%d", i);
        for (int j = 0; j < 25; j++)
            kal_rnic_log(&rnic, RI_LOG_WARNING, "refused: peer %d", j);
        log_ring_stop();
    }
    kal_log_reset();
    ck_assert_uint_eq(count(slurp_file(), ": refused: peer "), 200 * 21);
    ck_assert_uint_eq(count(text, "are missing here"), 0);
    ck_assert_uint_eq(count(text, ": refused: peer 24 (5 more like this"), 200);
}
END_TEST

/* ---- order and place ---- */

START_TEST(log_line_is_there_on_return)
{
    for (int i = 0; i < 10; i++) {
        char line[64];

        kal_log(RI_LOG_ERROR, "line %d", i);
        snprintf(line, sizeof(line), "ital: error: line %d\n", i);
        ck_assert_ptr_nonnull(strstr(slurp(), line));
    }
    ck_assert_int_le(tc_thread_count(), threads_before); /* without another thread */
}
END_TEST

START_TEST(log_lane_writes_to_no_descriptor)
{
    be_lane(true);
    for (int i = 0; i < 15; i++)
        kal_log(RI_LOG_ERROR, "from a lane %d", i);
    ck_assert(tc_until(strstr(slurp(), "from a lane 14\n"), 10000));
    ck_assert_uint_eq(count(text, "\n"), 15);
    ck_assert_uint_eq(lane_writes, 0);
    be_lane(false);
    kal_log(RI_LOG_ERROR, "from a call");
    ck_assert_ptr_nonnull(strstr(slurp(), "from a call\n"));
}
END_TEST

#define BIT(signal) (1ull << ((signal)-1))

/* But for those of a fault of its own. */
START_TEST(log_thread_blocks_all_signals)
{
    const unsigned long long faults = BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGSEGV) |
                                      BIT(SIGSYS) | BIT(SIGTRAP);
    const unsigned long long of_libc = BIT(32) | BIT(33);
    unsigned long long blocked = 0;
    char name[300], line[200];
    FILE *status;
    bool found = false;

    be_lane(true);
    kal_log(RI_LOG_ERROR, "a line");
    ck_assert(tc_until(strstr(slurp(), "a line\n"), 10000));
    for (int tid = getpid(); tid < getpid() + 1000 && !found; tid++) {
        snprintf(name, sizeof(name), "/proc/self/task/%d/status", tid);
        status = tid == getpid() ? NULL : fopen(name, "re");
        while (status && fgets(line, sizeof(line), status)) {
            if (!strncmp(line, "Name:", 5))
                found = strstr(line, "ital-log") != NULL;
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1 && found)
                ck_assert_uint_eq(blocked | BIT(SIGKILL) | BIT(SIGSTOP) | of_libc, ~faults);
        }
        if (status)
            fclose(status);
    }
    ck_assert(found);
}
END_TEST

/* ---- a reader that does not read ---- */

/* An alarm ends the test if a write blocks. */
START_TEST(log_full_pipe_blocks_nobody)
{
    fill();
    be_lane(_i);
    for (int i = 0; i < 10; i++)
        kal_log(RI_LOG_ERROR, "line %d", i);
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
    ck_assert(tc_until(strstr(slurp(), "line 9\n"), 10000));
    ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < 9; i++) { /* in order, each once */
        char line[64];
        const char *first;

        snprintf(line, sizeof(line), "error: line %d\n", i);
        first = strstr(text, line);
        ck_assert_ptr_nonnull(first);
        snprintf(line, sizeof(line), "error: line %d\n", i + 1);
        ck_assert_ptr_nonnull(strstr(first, line));
        ck_assert_uint_eq(count(text, line), 1);
    }
    ck_assert_uint_eq(lane_writes, 0);
}
END_TEST

/* Level debug has no rate, so the ring fills. */
START_TEST(log_dropped_lines_are_counted)
{
    unsigned long long dropped = 0, sum = 0;
    const unsigned lines = 5000;
    unsigned gaps = 0;

    fill();
    for (unsigned i = 0; i < lines; i++)
        kal_log(RI_LOG_DEBUG, "line %u", i);
    ck_assert(tc_until(strstr(slurp(), "lines of the log are missing here"), 10000));
    kal_log(RI_LOG_DEBUG, "last words");
    ck_assert(tc_until(strstr(slurp(), "last words\n"), 10000));
    for (const char *at = text; (at = strstr(at, "ital: warning: ")); at++) {
        ck_assert_int_eq(sscanf(at, "ital: warning: %llu lines of the log", &dropped), 1);
        sum += dropped;
        gaps++;
    }
    ck_assert_uint_ge(gaps, 1);
    ck_assert_uint_eq(count(text, "debug: line ") + sum, lines);
    ck_assert_uint_gt(count(text, "debug: line "), 1000);
}
END_TEST

START_TEST(log_reader_gone_raises_no_signal)
{
    close(ends[0]);
    ends[0] = -1;
    signal(SIGPIPE, SIG_DFL);
    kal_log(RI_LOG_ERROR, "to nobody");
    be_lane(true);
    kal_log(RI_LOG_ERROR, "to nobody");
    kal_log_reset();
    ck_assert_int_ge(dup2(saved_stderr, STDERR_FILENO), 0);
}
END_TEST

/* For example a stopped terminal: neither a pipe nor a socket. */
START_TEST(log_full_terminal_blocks_nobody)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

    if (master < 0 || grantpt(master) || unlockpt(master))
        tc_skip("no pseudo-terminals here");
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (slave < 0)
        tc_skip("no pseudo-terminals here");
    while (__real_write(slave, "....", 4) > 0)
        ;
    fcntl(slave, F_SETFL, O_RDWR);
    ck_assert_int_ge(dup2(slave, STDERR_FILENO), 0);
    for (int i = 0; i < 10; i++)
        kal_log(RI_LOG_ERROR, "line %d", i);
    close(slave);
    close(ends[0]);
    ends[0] = master;
    ck_assert(tc_until(strstr(slurp(), "line 9"), 10000));
}
END_TEST

START_TEST(log_socket)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_ge(dup2(pair[1], STDERR_FILENO), 0);
    close(pair[1]);
    close(ends[0]);
    ends[0] = pair[0];
    for (int i = 0; i < 5000; i++)
        kal_log(RI_LOG_DEBUG, "line %d", i);
    kal_log(RI_LOG_ERROR, "last words");
    ck_assert(tc_until(strstr(slurp(), "missing here") || strstr(text, "last words"), 10000));
}
END_TEST

/* ---- ends ---- */

/* A lane's last message is written when the process ends. */
/* The descriptor of the log file. */
static int fd_of_file(void)
{
    struct stat file, about;
    int fd = 3;

    ck_assert_int_eq(stat(path, &file), 0);
    while (fd < 1024 && (fstat(fd, &about) || about.st_ino != file.st_ino))
        fd++;
    ck_assert_int_lt(fd, 1024);
    return fd;
}

static bool ends_with(const char *whole, const char *end)
{
    size_t length = strlen(whole), wanted = strlen(end);

    return length >= wanted && !strcmp(whole + length - wanted, end);
}

/* "2026-11-28T17:05:09.123Z test_log[4711] ital: warning: ..."; the time is now. */
START_TEST(log_lines_of_a_file_have_time_program_and_process)
{
    char program[64] = "", utc[64];
    struct tm when = { 0 };
    time_t before = time(NULL), at;
    int milliseconds, process, taken = 0;

    configure("warning", path);
    kal_log(RI_LOG_WARNING, "of a file");
    kal_log_reset();
    ck_assert_int_eq(sscanf(slurp_file(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %63[^[][%d] %n",
                            &when.tm_year, &when.tm_mon, &when.tm_mday, &when.tm_hour, &when.tm_min,
                            &when.tm_sec, &milliseconds, program, &process, &taken),
                     9);
    ck_assert_str_eq(text + taken, "ital: warning: of a file\n");
    ck_assert_str_eq(program, program_invocation_short_name);
    ck_assert_int_eq(process, getpid());
    when.tm_year -= 1900;
    when.tm_mon--;
    at = timegm(&when);
    ck_assert(at >= before && at <= time(NULL));
    ck_assert(strftime(utc, sizeof(utc), "%FT%T.", gmtime(&at)) > 0);
    ck_assert_mem_eq(text, utc, strlen(utc)); /* each number with its zeros */
    used = 0;
    kal_log(RI_LOG_WARNING, "of stderr");
    ck_assert_str_eq(slurp(), "ital: warning: of stderr\n");
}
END_TEST

START_TEST(log_long_line_keeps_its_end)
{
    static char much[2000];

    memset(much, 'x', sizeof(much) - 1);
    configure("warning", path);
    kal_log(RI_LOG_WARNING, "%s", much);
    kal_log(RI_LOG_WARNING, "next");
    kal_log_reset();
    ck_assert(ends_with(slurp_file(), "] ital: warning: next\n"));
    ck_assert_uint_eq(count(text, "\n"), 2);
}
END_TEST

START_TEST(log_file_of_each_process)
{
    char wanted[sizeof(path) + 20];
    size_t length = strlen(path);

    snprintf(wanted, sizeof(wanted), "%s%%p-%%%%-%%d", path);
    configure("warning", wanted);
    kal_log(RI_LOG_WARNING, "mine");
    kal_log_reset();
    snprintf(path + length, sizeof(path) - length, "%d-%%-%%d", (int)getpid());
    ck_assert(ends_with(slurp_file(), "] ital: warning: mine\n"));
    unlink(path);
    path[length] = '\0';
}
END_TEST

START_TEST(log_file_that_cannot_be_opened_is_said_with_the_reason)
{
    char target[4300];
    const char *why;

    snprintf(target, sizeof(target), "info:%s/none/log", path);
    ck_assert(!kal_log_configure(target, &why));
    ck_assert_msg(strstr(why, "/none/log: No such file or directory)") != NULL, "%s", why);
}
END_TEST

/* Two users of a group: the file is there, and neither needs to make it. A new one is for the
 * user's group, unless the umask says otherwise. */
START_TEST(log_file_of_a_group)
{
    struct stat about;
    mode_t before = umask(0007);

    configure("warning", path);
    kal_log_reset();
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0660);
    unlink(path);
    umask(0077);
    configure("warning", path);
    kal_log_reset();
    ck_assert_int_eq(stat(path, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
    umask(before);
}
END_TEST

/* closefrom(3), then a file of the program's own gets the number: no line is written to it, and it
 * stays open. */
START_TEST(log_file_closed_by_somebody_else)
{
    int fd, mine[2];

    configure("warning", path);
    kal_log(RI_LOG_WARNING, "before");
    fd = fd_of_file();
    ck_assert_int_eq(pipe2(mine, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(dup2(mine[1], fd), fd);
    close(mine[1]);
    kal_log(RI_LOG_WARNING, "descriptors were closed");
    ck_assert_uint_eq(count(slurp(), "ital: warning: descriptors were closed\n"), 1);
    kal_log_reset();
    ck_assert_int_eq(write(fd, "x", 1), 1);
    used = 0;
    ck_assert_int_eq(read(mine[0], text, sizeof(text)), 1);
    ck_assert(ends_with(slurp_file(), "] ital: warning: before\n"));
    close(fd);
    close(mine[0]);
}
END_TEST

START_TEST(log_lines_before_exit_are_written)
{
    int status;
    pid_t child = fork();

    if (!child) {
        be_lane(true);
        kal_log(RI_LOG_ERROR, "last words");
        for (int i = 0; i < 25; i++)
            kal_log(RI_LOG_ERROR, "refused");
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count(slurp(), "last words\n"), 1);
    ck_assert_uint_eq(count(text, "refused (24 more like this"), 1);
}
END_TEST

/* LeakSanitizer may write a warning to the full pipe, under load, and then block for ever. */
static bool leaks_unchecked;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return leaks_unchecked;
}

START_TEST(log_full_pipe_keeps_no_process_from_its_end)
{
    uint64_t before = tc_now_ns();
    int status;
    pid_t child;

    fill();
    child = fork();
    if (!child) {
        leaks_unchecked = true;
        be_lane(_i);
        kal_log(RI_LOG_ERROR, "last words");
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_lt((tc_now_ns() - before) / 1000000, tc_timeout_ms(5000));
}
END_TEST

/* Queued lines are the parent's: the child does not write them again at its end. */
START_TEST(log_forked_child_repeats_nothing)
{
    int status;
    pid_t child;

    fill();
    for (int i = 0; i < 10; i++)
        kal_log(RI_LOG_ERROR, "line %d", i);
    tc_await_quiet_for_fork(); /* the thread that waits for the full pipe */
    child = fork();
    if (!child) {
        leaks_unchecked = true;
        configure("debug", path);
        kal_log(RI_LOG_ERROR, "of the child");
        exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(tc_until(strstr(slurp(), "line 9\n"), 10000));
    for (int i = 0; i < 10; i++) {
        char line[64];

        snprintf(line, sizeof(line), "line %d\n", i);
        ck_assert_uint_eq(count(text, line), 1);
    }
    ck_assert(ends_with(slurp_file(), "] ital: error: of the child\n"));
    ck_assert_uint_eq(count(text, "\n"), 1);
}
END_TEST

static _Atomic bool enough;

static void *chatter(void *arg)
{
    (void)arg;
    while (!enough) {
        kal_log(RI_LOG_DEBUG, "chatter");
        kal_log(RI_LOG_WARNING, "chatter, too");
    }
    return NULL;
}

/* Any thread may hold the locks at that moment. */
START_TEST(log_fork_while_others_log)
{
    pthread_t threads[4];
    int status;

#if defined(ITAL_SANITIZERS) && !defined(ITAL_TSAN)
    tc_skip("a child of several threads may find AddressSanitizer's allocator locked for ever");
#endif
    dup2(saved_stderr, STDERR_FILENO);
    configure("debug", "/dev/null");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, chatter, NULL), 0);
    for (unsigned long i = 0; i < tc_count(100); i++) {
        pid_t child = fork();

        if (!child) {
            alarm(tc_timeout_ms(10000) / 1000);
            configure("debug", "/dev/null");
            kal_log(RI_LOG_ERROR, "of the child");
#ifndef ITAL_TSAN /* TSan allows no new threads in such a child */
            be_lane(true);
            kal_log(RI_LOG_ERROR, "of the child, in a lane");
#endif
            kal_log_reset();
            _exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    enough = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

START_TEST(log_reset_beside_others)
{
    pthread_t threads[2];

    enough = false;
    configure("debug", "/dev/null");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, chatter, NULL), 0);
    for (unsigned long i = 0; i < tc_count(300); i++) {
        configure("debug", "/dev/null");
        kal_log_reset();
    }
    enough = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

static void *log_once(void *arg)
{
    kal_log(RI_LOG_DEBUG, "%s", (const char *)arg);
    return NULL;
}

/* The ring is never empty while somebody writes it. */
START_TEST(log_sink_changes_while_others_log_without_end)
{
    pthread_t writer;

    configure("debug", "/dev/null");
    begin_endless();
    ck_assert_int_eq(pthread_create(&writer, NULL, log_once, (void *)"begin"), 0);
    ck_assert(tc_until(endless_writes > 100, 60000));
    configure("debug", path);
    end_endless();
    pthread_join(writer, NULL);
    kal_log(RI_LOG_ERROR, "the last");
    ck_assert(tc_until(strstr(slurp_file(), "the last\n"), 60000));
}
END_TEST

/* Nor does a call that logs stay in it: the writer thread goes on. */
START_TEST(log_call_ends_while_others_log_without_end)
{
    configure("debug", "/dev/null");
    begin_endless();
    kal_log(RI_LOG_DEBUG, "begin");
    end_endless();
    configure("debug", path);
    kal_log(RI_LOG_ERROR, "the last");
    ck_assert(tc_until(strstr(slurp_file(), "the last\n"), 60000));
}
END_TEST

/* ---- syslog ---- */

START_TEST(log_syslog_daemon)
{
    static char where[100];
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char got[2000] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(where, sizeof(where), "%.80s/log.sock", tc_tempdir());
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", where);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    kal_log_syslog_path = where;
    configure("info", "syslog");
    kal_log(RI_LOG_WARNING, "a line");
    ck_assert_int_gt(recv(fd, got, sizeof(got) - 1, 0), 0);
    ck_assert_msg(!strncmp(got, "<12>", 4) && strstr(got, "ital: warning: a line"), "%s", got);
    close(fd); /* a new daemon */
    unlink(where);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    kal_log(RI_LOG_ERROR, "another");
    memset(got, 0, sizeof(got));
    ck_assert_int_gt(recv(fd, got, sizeof(got) - 1, 0), 0);
    ck_assert_msg(!strncmp(got, "<11>", 4) && strstr(got, "ital: error: another"), "%s", got);
    close(fd);
    unlink(where);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("log");
    TCase *t = tc_case(s, "rate", setup, teardown);

    tcase_set_timeout(t, tc_timeout_ms(60000) / 1000.0);
    tc_add_tests(t, log_flood_of_one_cause_is_counted, log_count_comes_though_nobody_logs_again,
                 log_causes_have_rates_of_their_own, log_equal_lines_are_one_cause, log_many_causes,
                 log_line_is_there_on_return, log_lane_writes_to_no_descriptor,
                 log_thread_blocks_all_signals, log_dropped_lines_are_counted,
                 log_reader_gone_raises_no_signal, log_full_terminal_blocks_nobody, log_socket,
                 log_lines_of_a_file_have_time_program_and_process, log_long_line_keeps_its_end,
                 log_file_of_each_process, log_file_that_cannot_be_opened_is_said_with_the_reason,
                 log_file_of_a_group, log_file_closed_by_somebody_else,
                 log_lines_before_exit_are_written, log_forked_child_repeats_nothing,
                 log_fork_while_others_log, log_reset_beside_others,
                 log_sink_changes_while_others_log_without_end,
                 log_call_ends_while_others_log_without_end, log_syslog_daemon);
    tc_add_loops(t, 0, 2, log_full_pipe_blocks_nobody, log_full_pipe_keeps_no_process_from_its_end);
    return s;
}

int main(void)
{
    return tc_main(suite());
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A check's process: its verdict by a pipe, its last line of stderr, its crash, its time limit. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "richeck.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_SECONDS 10u

struct subject subject = { .seed = 1, .seconds = 30 };

/* In the check's process: where the verdict goes. */
static int verdict_fd = -1;
static char note[300];

/* ---- in the check's process ---- */

static void conclude(char verdict, const char *format, va_list args) __attribute__((noreturn));

/* One write: the first thread that reports decides. */
static void conclude(char verdict, const char *format, va_list args)
{
    char line[400] = { verdict };
    ssize_t written;

    vsnprintf(line + 1, sizeof(line) - 1, format, args);
    written = write(verdict_fd, line, strlen(line));
    _exit(written < 0);
}

void check_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('F', format, args);
}

void check_skip(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('N', format, args);
}

static void pass(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void pass(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    conclude('P', format, args);
}

void check_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(note, sizeof(note), format, args);
    va_end(args);
}

/* The operations behind the bed's own functions. */
static const char *operation_of(const char *function, size_t length)
{
    static const char *const behind[][2] = {
        { "try_send", "post_send" },      { "try_recv", "post_recv" },
        { "register_as", "mr_register" }, { "bed_open_device", "open" },
        { "node_modify", "qp_modify" },   { "hand_over", "qp_modify to RTS with a handover" },
    };

    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
        if (strlen(behind[i][0]) == length && !strncmp(behind[i][0], function, length))
            return behind[i][1];
    return NULL;
}

/* call: the source text, as "bed.control.pd_create(...)": the operation's name is enough. */
void check_status(const char *call, enum ri_status got, enum ri_status wanted)
{
    size_t length = strcspn(call, "(");
    const char *operation;

    if (got == wanted)
        return;
    for (size_t i = 0; i < length; i++)
        if (call[i] == '.') {
            call += i + 1;
            length -= i + 1;
            i = 0;
        }
    operation = operation_of(call, length);
    if (operation)
        length = strlen(operation);
    check_fail("%.*s answers %s instead of %s", (int)length, operation ? operation : call,
               ri_status_name(got), ri_status_name(wanted));
}

static void be_the_check(const struct check *check, int verdict, int error)
{
    verdict_fd = verdict;
    dup2(error, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    check->run();
    pass("%s", note);
}

/* ---- in the parent ---- */

struct gathered {
    char verdict[400];
    char error[2000]; /* the end of stderr */
};

static double scale(void)
{
    const char *text = getenv("TEST_TIMEOUT_SCALE");
    double value = text ? atof(text) : 1;

    return value > 1 ? value : 1;
}

/* False: the end of the stream. */
static bool gather(int fd, char *text, size_t room)
{
    size_t length = strlen(text);
    char octets[500];
    ssize_t got = read(fd, octets, sizeof(octets) - 1);

    if (got <= 0)
        return false;
    if (subject.verbose && room > 1000)
        fwrite(octets, 1, (size_t)got, stderr);
    if (length + (size_t)got >= room) {
        memmove(text, text + length / 2, length - length / 2 + 1);
        length = strlen(text);
    }
    memcpy(text + length, octets, (size_t)got);
    text[length + (size_t)got] = '\0';
    return true;
}

/* True: the process has closed both; false: its time is over. */
static bool listen_to(int verdict, int error, uint64_t deadline, struct gathered *gathered)
{
    struct pollfd fds[2] = { { .fd = verdict, .events = POLLIN },
                             { .fd = error, .events = POLLIN } };

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        uint64_t now = tool_now();

        if (now >= deadline)
            return false;
        if (poll(fds, 2, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            return false;
        if (fds[0].revents && !gather(verdict, gathered->verdict, sizeof(gathered->verdict)))
            fds[0].fd = -1;
        if (fds[1].revents && !gather(error, gathered->error, sizeof(gathered->error)))
            fds[1].fd = -1;
    }
    return true;
}

static const char *last_line(char *text)
{
    char *end = text + strlen(text);
    char *line;

    while (end > text && end[-1] == '\n')
        *--end = '\0';
    line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

static void judge(struct result *result, struct gathered *gathered, bool in_time, int status)
{
    const char *line = last_line(gathered->error);

    result->verdict = FAILED;
    if (!in_time && !gathered->verdict[0]) {
        snprintf(result->why, sizeof(result->why), "hangs: no result within %u s",
                 result->check->seconds ? result->check->seconds : DEFAULT_SECONDS);
    } else if (gathered->verdict[0]) {
        result->verdict = gathered->verdict[0] == 'P'   ? PASSED
                          : gathered->verdict[0] == 'N' ? NOT_JUDGED
                                                        : FAILED;
        snprintf(result->why, sizeof(result->why), "%s", gathered->verdict + 1);
    } else if (WIFSIGNALED(status)) {
        snprintf(result->why, sizeof(result->why), "crashes: %s%s%.300s",
                 strsignal(WTERMSIG(status)), *line ? ": " : "", line);
    } else {
        snprintf(result->why, sizeof(result->why), "the process ends: %.300s", line);
    }
}

static bool run_process(const struct check *check, struct result *result, int verdict[2],
                        int error[2])
{
    uint64_t begin = tool_now(), limit = check->seconds ? check->seconds : DEFAULT_SECONDS;
    struct gathered gathered = { .verdict = "" };
    int status = 0;
    bool in_time;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0)
        return false;
    if (!child)
        be_the_check(check, verdict[1], error[1]);
    close(verdict[1]);
    close(error[1]);
    verdict[1] = error[1] = -1;
    in_time = listen_to(verdict[0], error[0], begin + (uint64_t)((double)limit * 1e9 * scale()),
                        &gathered);
    if (!in_time)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    result->microseconds = (tool_now() - begin) / 1000;
    judge(result, &gathered, in_time, status);
    return true;
}

bool check_run(const struct check *check, struct result *result)
{
    int verdict[2] = { -1, -1 }, error[2] = { -1, -1 };
    bool done = false;

    *result = (struct result){ .check = check };
    if (!pipe(verdict) && !pipe(error))
        done = run_process(check, result, verdict, error);
    if (!done)
        tool_error("no process for a check: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        if (verdict[i] >= 0)
            close(verdict[i]);
        if (error[i] >= 0)
            close(error[i]);
    }
    return done;
}

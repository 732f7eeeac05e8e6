/* SPDX-License-Identifier: BSD-3-Clause */
/* A check's process: its verdict by a pipe, its last line of stderr, its crash, its time limit. */
#include "richeck.h"
#include "trace.h"

#include "tools/common/tool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_SECONDS 10u

struct subject subject = { .seed = 1, .seconds = 30 };

/* From the check's process: the verdict, stderr, and where its threads are if it hangs or
 * crashes. */
struct pipes {
    int verdict[2], error[2], trace[2];
};

static void be_the_check(const struct check *check, const struct pipes *pipes)
{
    check_begin(pipes->verdict[1]);
    dup2(pipes->error[1], STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    trace_open(pipes->trace[1]);
    check->run();
    check_pass();
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

static void judge_end(struct result *result, const char *line, bool in_time, int status)
{
    char name[60];
    const char *call = trace_call(result->trace, name, sizeof(name));

    if (!in_time)
        snprintf(result->why, sizeof(result->why), "hangs in %s: no result within %u s",
                 call ? call : "no call of the provider",
                 result->check->seconds ? result->check->seconds : DEFAULT_SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(result->why, sizeof(result->why), "crashes%s%s: %s%s%.300s", call ? " in " : "",
                 call ? call : "", strsignal(WTERMSIG(status)), *line ? ": " : "", line);
    else
        snprintf(result->why, sizeof(result->why), "the process ends%s%s: %.300s",
                 call ? " in " : "", call ? call : "", line);
}

/* A reason that begins with a rule: that one is broken. */
static void take_verdict(struct result *result, const char *verdict)
{
    size_t length = verdict[1] == '{' ? strcspn(verdict + 1, "}") : 0;

    result->verdict = verdict[0] == 'P' ? PASSED : verdict[0] == 'N' ? NOT_JUDGED : FAILED;
    if (length > 1 && length < sizeof(result->clause) && verdict[1 + length] == '}') {
        snprintf(result->clause, sizeof(result->clause), "%.*s", (int)length - 1, verdict + 2);
        verdict += 2 + length;
        verdict += strspn(verdict, " ") - 1;
    }
    snprintf(result->why, sizeof(result->why), "%s", verdict + 1);
}

static void judge(struct result *result, struct gathered *gathered, bool in_time, int status)
{
    result->verdict = FAILED;
    if (gathered->verdict[0])
        take_verdict(result, gathered->verdict);
    else
        judge_end(result, last_line(gathered->error), in_time, status);
}

static void close_ends(struct pipes *pipes, int end)
{
    int *const all[] = { &pipes->verdict[end], &pipes->error[end], &pipes->trace[end] };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (*all[i] >= 0) {
            close(*all[i]);
            *all[i] = -1;
        }
}

static bool run_process(const struct check *check, struct result *result, struct pipes *pipes)
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
        be_the_check(check, pipes);
    close_ends(pipes, 1);
    in_time = listen_to(pipes->verdict[0], pipes->error[0],
                        begin + (uint64_t)((double)limit * 1e9 * scale()), &gathered);
    if (in_time)
        trace_take(pipes->trace[0], result->trace, sizeof(result->trace));
    else
        trace_ask(child, pipes->trace[0], result->trace, sizeof(result->trace));
    if (!in_time)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    result->microseconds = (tool_now() - begin) / 1000;
    judge(result, &gathered, in_time, status);
    return true;
}

static void begin_result(struct result *result, const struct check *check)
{
    *result = (struct result){ .check = check };
    snprintf(result->clause, sizeof(result->clause), "%s", check->clause);
}

void check_leave_out(const struct check *check, const char *needs, struct result *result)
{
    begin_result(result, check);
    result->verdict = NOT_JUDGED;
    snprintf(result->why, sizeof(result->why), "needs %s, which failed", needs);
}

bool check_run(const struct check *check, struct result *result)
{
    struct pipes pipes = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    bool done = false;

    begin_result(result, check);
    if (!pipe(pipes.verdict) && !pipe(pipes.error) && !pipe(pipes.trace))
        done = run_process(check, result, &pipes);
    if (!done)
        tool_error("no process for a check: %s", strerror(errno));
    close_ends(&pipes, 0);
    close_ends(&pipes, 1);
    return done;
}

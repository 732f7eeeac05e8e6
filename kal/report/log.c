/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: levels, destination, and format of lines. Not on the data path. The other files:
 * log_private.h. */
#include "report.h"
#include "log_private.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const levels[] = { [RI_LOG_ERROR] = "error",
                                      [RI_LOG_WARNING] = "warning",
                                      [RI_LOG_INFO] = "info",
                                      [RI_LOG_DEBUG] = "debug" };
#define LEVELS (sizeof(levels) / sizeof(*levels))

static _Atomic int log_level = RI_LOG_WARNING;
static _Atomic(kal_inside_fn) log_inside; /* from ual; NULL: no thread is in a lane */
static pid_t log_process;                 /* process that the threads and lines belong to */

/* Splits "level[:sink]". -1: unknown level. */
static int parse_level(const char *text, const char **rest)
{
    size_t length = strcspn(text, ":");

    for (size_t i = 0; i < LEVELS; i++) {
        if (strlen(levels[i]) == length && !strncasecmp(text, levels[i], length)) {
            *rest = text[length] ? text + length + 1 : "stderr";
            return (int)i;
        }
    }
    return -1;
}

bool kal_log_check(const char *text, const char **why)
{
    const char *rest;

    if (parse_level(text, &rest) < 0) {
        *why = "error, warning, info or debug, and then optionally :stderr, :syslog or :FILE";
        return false;
    }
    if (!*rest) {
        *why = "stderr, syslog or a file name behind the colon";
        return false;
    }
    return true;
}

bool kal_log_configure(const char *text, const char **why)
{
    static _Thread_local char reason[320];
    enum log_sink_kind kind = SINK_FILE;
    struct log_sink sink;
    const char *rest;
    int level;

    if (!kal_log_check(text, why))
        return false;
    level = parse_level(text, &rest);
    if (!strcmp(rest, "stderr"))
        kind = SINK_STDERR;
    else if (!strcmp(rest, "syslog"))
        kind = SINK_SYSLOG;
    if (!log_sink_open(&sink, kind, rest)) {
        snprintf(reason, sizeof(reason), "a file that can be opened for writing (%.200s: %s)", rest,
                 strerror(errno));
        *why = reason;
        return false;
    }
    log_head_set(kind == SINK_FILE);
    if (!log_ring_set_sink(&sink))
        log_ring_wake(log_rate_turn);
    atomic_store(&log_level, level);
    return true;
}

void kal_log_reset(void)
{
    const char *why;

    log_rate_say(true);
    log_ring_stop();
    kal_log_configure("warning:stderr", &why);
    log_ring_stop(); /* others may have begun it again */
}

void kal_log_flush(void)
{
    log_rate_say(false);
    log_ring_stop();
}

void kal_log_lanes(kal_inside_fn inside)
{
    atomic_store(&log_inside, inside);
}

void kal_log_fork_child(void)
{
    log_rate_forget();
    log_head_set(false);
    log_ring_forget();
    log_recent_forget();
    log_process = getpid();
}

/* kal may be used without ual, whose handler is installed with its first interface; installing
 * twice is harmless. */
static void install(void)
{
    log_process = getpid();
    pthread_atfork(NULL, NULL, kal_log_fork_child);
}

/* A child of a bare clone has our lines but not our threads; the lines are the parent's. */
__attribute__((destructor)) static void at_exit(void)
{
    if (log_process != getpid())
        return;
    log_rate_say(true);
    log_ring_finish();
}

bool kal_log_wanted(enum ri_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

/* Makes one line, with its newline. Names and paths may contain newlines, which are replaced. */
static size_t make_line(char line[LOG_LINE_MAX], enum ri_log_level level, const char *prefix,
                        const char *format, va_list args)
{
    int head, body;
    size_t length;

    head = snprintf(line, LOG_LINE_MAX, "ital: %s: %.200s%s", levels[level], prefix ? prefix : "",
                    prefix ? ": " : "");
    if (head < 0)
        return 0;
    body = vsnprintf(line + head, LOG_LINE_MAX - (size_t)head - 1, format, args);
    if (body < 0)
        return 0;
    length = (size_t)head + (size_t)body;
    if (length > LOG_LINE_MAX - 2)
        length = LOG_LINE_MAX - 2;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[length] = '\n';
    return length + 1;
}

void kal_vlog_cause(enum ri_log_level level, const char *prefix, const char *cause,
                    const char *format, va_list args)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    kal_inside_fn inside = atomic_load(&log_inside);
    bool first = false, pass;
    char line[LOG_LINE_MAX];
    int saved = errno;
    size_t length;

    if ((unsigned)level >= LEVELS)
        level = RI_LOG_ERROR;
    if (!kal_log_wanted(level))
        return;
    pthread_once(&once, install);
    length = make_line(line, level, prefix, format, args);
    pass = length && (level == RI_LOG_DEBUG ||
                      log_rate_admit(cause, prefix, level, line, length, clock_now(), &first));
    if (pass && level <= RI_LOG_WARNING)
        log_recent_add(level, line, length);
    if (pass)
        log_ring_push(level, line, length);
    if (first || (pass && ((inside && inside()) || !log_ring_drain())))
        log_ring_wake(log_rate_turn);
    errno = saved;
}

void kal_vlog(enum ri_log_level level, const char *prefix, const char *format, va_list args)
{
    kal_vlog_cause(level, prefix, format, format, args);
}

void kal_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog(level, NULL, format, args);
    va_end(args);
}

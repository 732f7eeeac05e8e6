/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: one line per cause, to stderr, a file or syslog. Not on the data path. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <unistd.h>

enum sink { SINK_STDERR, SINK_FILE, SINK_SYSLOG };

static const struct {
    const char *name;
    int priority;
} levels[] = {
    [RI_LOG_ERROR] = { "error", LOG_ERR },
    [RI_LOG_WARNING] = { "warning", LOG_WARNING },
    [RI_LOG_INFO] = { "info", LOG_INFO },
    [RI_LOG_DEBUG] = { "debug", LOG_DEBUG },
};
#define LEVELS (sizeof levels / sizeof *levels)

/* The lock is a leaf: nothing is called under it but write and syslog. The level is read without
 * it. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int log_level = RI_LOG_WARNING;
static enum sink log_sink = SINK_STDERR;
static int log_fd = -1;

/* Split "level[:sink]". -1: no such level. */
static int parse_level(const char *text, const char **rest)
{
    size_t length = strcspn(text, ":");

    for (size_t i = 0; i < LEVELS; i++) {
        if (strlen(levels[i].name) == length && !strncasecmp(text, levels[i].name, length)) {
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
    const char *rest;
    enum sink sink = SINK_FILE;
    int fd = -1, level, old;

    if (!kal_log_check(text, why))
        return false;
    level = parse_level(text, &rest);
    if (!strcmp(rest, "stderr")) {
        sink = SINK_STDERR;
    } else if (!strcmp(rest, "syslog")) {
        sink = SINK_SYSLOG;
    } else {
        fd = open(rest, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0) {
            *why = "a file that can be opened for writing";
            return false;
        }
    }
    pthread_mutex_lock(&log_lock);
    old = log_fd;
    log_fd = fd;
    log_sink = sink;
    pthread_mutex_unlock(&log_lock);
    atomic_store(&log_level, level);
    if (old >= 0)
        close(old);
    return true;
}

void kal_log_reset(void)
{
    const char *why;

    kal_log_configure("warning:stderr", &why);
}

void kal_log_fork_prepare(void)
{
    pthread_mutex_lock(&log_lock);
}

void kal_log_fork_parent(void)
{
    pthread_mutex_unlock(&log_lock);
}

void kal_log_fork_child(void)
{
    if (log_fd >= 0)
        close(log_fd);
    log_fd = -1;
    log_sink = SINK_STDERR;
    pthread_mutex_unlock(&log_lock);
}

bool kal_log_wanted(enum ri_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

static void emit(enum ri_log_level level, const char *line, size_t length)
{
    ssize_t done;

    pthread_mutex_lock(&log_lock);
    if (log_sink == SINK_SYSLOG) {
        syslog(LOG_USER | levels[level].priority, "%.*s", (int)length - 1, line);
    } else {
        /* One write per line; a log that cannot be written is no reason to disturb the caller. */
        done = write(log_sink == SINK_FILE ? log_fd : STDERR_FILENO, line, length);
        (void)done;
    }
    pthread_mutex_unlock(&log_lock);
}

void kal_vlog(enum ri_log_level level, const char *prefix, const char *format, va_list args)
{
    char line[1024];
    int saved = errno, head, body;
    size_t length;

    if ((unsigned)level >= LEVELS)
        level = RI_LOG_ERROR;
    if (!kal_log_wanted(level))
        return;
    head = snprintf(line, sizeof line, "ital: %s: %.200s%s", levels[level].name,
                    prefix ? prefix : "", prefix ? ": " : "");
    body = head < 0 ? -1 : vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
    if (body >= 0) {
        length = (size_t)head + (size_t)body;
        if (length > sizeof line - 2)
            length = sizeof line - 2;
        for (size_t i = 0; i < length;
             i++) /* names and paths come from outside: one line stays one */
            if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
                line[i] = ' ';
        line[length] = '\n';
        emit(level, line, length + 1);
    }
    errno = saved;
}

void kal_log(enum ri_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    kal_vlog(level, NULL, format, args);
    va_end(args);
}

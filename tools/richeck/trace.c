/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of a check's process: see trace.h. */
#include "trace.h"

#include "calls.h"

#include "tools/common/tool.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAMES    24
#define ANSWER_MS 2000 /* a thread that does not answer within that sleeps in the kernel */
#define END       '\f' /* of one thread's trace */
#define ASK       (SIGRTMAX - 1)
#define NO_CALL   "no call of the provider"

static int trace_fd = -1;

/* ---- in the check's process ---- */

static void put(const char *text, size_t length)
{
    if (write(trace_fd, text, length) < 0)
        return; /* nobody reads: there is nobody to tell */
}

/* The first two frames are this one and the kernel's. */
static void tell(int number)
{
    const char *call = calls_current();
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES), saved = errno;

    (void)number;
    put("in ", 3);
    put(call ? call : NO_CALL, strlen(call ? call : NO_CALL));
    put("\n", 1);
    if (count > 2)
        backtrace_symbols_fd(frames + 2, count - 2, trace_fd);
    put(&(char){ END }, 1);
    errno = saved;
}

static void handle(int number, int flags)
{
    struct sigaction before, own = { .sa_handler = tell, .sa_flags = flags };

    if (!sigaction(number, NULL, &before) && before.sa_handler == SIG_DFL)
        sigaction(number, &own, NULL);
}

void trace_open(int fd)
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    void *frames[1];

    trace_fd = fd;
    backtrace(frames, 1); /* the first call allocates */
    handle(ASK, SA_RESTART);
    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
        handle(crashes[i], (int)SA_RESETHAND);
}

/* ---- in the parent ---- */

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* The calls of one thread, the last one first: without folders and addresses, and without what
 * is richeck's and what called that. */
static void add(char *raw, char *text, size_t room)
{
    bool below = false;

    for (char *rest = raw, *line; (line = strsep(&rest, "\n\f"));) {
        size_t length = strlen(text);
        char *name = line;

        line[strcspn(line, "[")] = '\0';
        for (char *at = line; *at && *at != '('; at++)
            if (*at == '/')
                name = at + 1;
        below = begins(name, "richeck(") || begins(name, "lt-richeck(") ||
                (below && begins(name, "libc.so"));
        if (*name && !below && length + strlen(name) + 2 < room)
            sprintf(text + length, "%s\n", name);
    }
}

/* Octets up to the end of one thread's trace. False: there is no more. */
static bool take_one(int fd, int ms, char *raw, size_t room)
{
    uint64_t end = tool_now() + (uint64_t)ms * 1000000;
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    size_t length = 0;

    do {
        uint64_t now = tool_now();
        ssize_t got;

        if (poll(&ready, 1, now < end ? (int)((end - now) / 1000000) : 0) <= 0)
            break;
        got = read(fd, raw + length, room - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    } while (raw[length - 1] != END && length < room - 1);
    raw[length] = '\0';
    return length;
}

void trace_take(int fd, char *text, size_t room)
{
    char raw[8192];

    text[0] = '\0';
    if (take_one(fd, 0, raw, sizeof(raw)))
        add(raw, text, room);
}

/* The process's first thread is the first entry. */
void trace_ask(pid_t process, int fd, char *text, size_t room)
{
    char path[40], raw[8192];
    const struct dirent *entry;
    DIR *threads;

    text[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
    threads = opendir(path);
    while (threads && (entry = readdir(threads))) {
        pid_t thread = (pid_t)atoi(entry->d_name);

        if (thread && !syscall(SYS_tgkill, process, thread, ASK) &&
            take_one(fd, ANSWER_MS, raw, sizeof(raw)))
            add(raw, text, room);
    }
    if (threads)
        closedir(threads);
}

const char *trace_call(const char *text, char *name, size_t room)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (begins(line, "in ") && !begins(line + 3, NO_CALL)) {
            snprintf(name, room, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
            return name;
        }
    return NULL;
}

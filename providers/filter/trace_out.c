/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers, files and the thread that writes them. */
#include "trace_out.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/thread.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#define BUFFER  (256u * 1024) /* octets that wait; twice that is the memory of an output */
#define CHUNK   4096u         /* what a pipe takes at once when poll says that it takes some */
#define LAST_NS (200 * CLOCK_NS_PER_MS) /* for a slow reader, at the end */

struct trace_out {
    char *path; /* "" is standard error; constant, as are the next three */
    int fd;
    bool regular, sync;
    pid_t process; /* a child of a fork has no thread, and leaves the output alone */
    unsigned users;
    pthread_t thread;
    /* The lock is a leaf and guards what follows. */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    char *waiting, *writing; /* BUFFER octets each; the latter is the thread's */
    size_t length;           /* octets in `waiting` */
    uint64_t room;           /* octets that may still come */
    uint64_t put, written;   /* octets since the beginning; those given up count as written */
    uint64_t lines, left_out;
    uint64_t deadline; /* the thread gives up a slow reader then */
    bool stop, failed;
    struct trace_out *next;
};

/* All outputs since the process began: a file that is opened again is appended to. Under the
 * lock, which comes before that of an output. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct trace_out *list;

/* ---- settings ---- */

static bool read_most(const char *text, size_t length, uint64_t *most)
{
    static const char letters[] = "kmg";
    const char *letter;
    char *end;

    if (!length || !isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *most = strtoull(text, &end, 10);
    if (errno || !*most)
        return false;
    if (end == text + length)
        return true;
    letter = strchr(letters, tolower((unsigned char)*end));
    return letter && end + 1 == text + length &&
           checked_mul(*most, UINT64_C(1) << (10 * (letter - letters + 1)), most);
}

/* One word in front of a colon. False: it is the file. */
static bool take_word(const char *text, size_t length, struct trace_settings *settings)
{
    if (length == 4 && !strncmp(text, "json", 4))
        settings->json = true;
    else if (length == 4 && !strncmp(text, "text", 4))
        settings->json = false;
    else if (length == 4 && !strncmp(text, "sync", 4))
        settings->sync = true;
    else
        return length > 4 && !strncmp(text, "max=", 4) &&
               read_most(text + 4, length - 4, &settings->most);
    return true;
}

/* %p stands for the process. */
static bool read_path(const char *text, struct trace_settings *settings)
{
    char *to = settings->path, *const end = settings->path + sizeof(settings->path);

    while (*text && end - to > 12) {
        if (text[0] == '%' && text[1] == 'p') {
            to += sprintf(to, "%d", (int)getpid());
            text += 2;
        } else {
            *to++ = *text++;
        }
    }
    *to = '\0';
    return !*text;
}

bool trace_settings_read(const char *argument, struct trace_settings *settings, char *why,
                         size_t room)
{
    const char *at = argument ? argument : "";
    size_t length;

    *settings = (struct trace_settings){ .most = UINT64_C(256) << 20 };
    for (; length = strcspn(at, ":"), take_word(at, length, settings); at += length + 1)
        if (!at[length])
            return true; /* no file */
    if (!strncmp(at, "max=", 4)) {
        snprintf(why, room, "\"%s\": allowed is max= and a number from 1, with k, m or g behind it",
                 at);
        return false;
    }
    if (!strcmp(at, "stderr"))
        return true;
    if (read_path(at, settings))
        return true;
    snprintf(why, room, "the file's name is longer than %zu octets", sizeof(settings->path) - 12);
    return false;
}

/* ---- writing ---- */

/* Writes all, or up to the deadline of the output. The lock is not held. */
static bool write_out(struct trace_out *out, const char *text, size_t length)
{
    while (length) {
        struct pollfd ready = { .fd = out->fd, .events = POLLOUT };
        size_t most = out->regular || length < CHUNK ? length : CHUNK;
        ssize_t count;

        if (!out->regular && poll(&ready, 1, 50) <= 0) {
            uint64_t deadline;

            pthread_mutex_lock(&out->lock);
            deadline = out->deadline;
            pthread_mutex_unlock(&out->lock);
            if (clock_now() >= deadline)
                return false;
            continue;
        }
        count = write(out->fd, text, most);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (count < 0)
            return false;
        text += count;
        length -= (size_t)count;
    }
    return true;
}

static uint64_t lines_in(const char *text, size_t length)
{
    uint64_t lines = 0;

    for (const char *at = text; (at = memchr(at, '\n', length - (size_t)(at - text))); at++)
        lines++;
    return lines;
}

/* Takes what waits, and writes it without the lock, which is held before and after. */
static void write_waiting(struct trace_out *out)
{
    size_t length = out->length;
    char *text = out->waiting;
    bool good;

    out->waiting = out->writing;
    out->writing = text;
    out->length = 0;
    pthread_mutex_unlock(&out->lock);
    good = write_out(out, text, length);
    pthread_mutex_lock(&out->lock);
    if (!good) {
        uint64_t lost = lines_in(text, length);

        out->failed = true;
        out->lines -= lost;
        out->left_out += lost;
    }
    out->written += length;
    pthread_cond_broadcast(&out->done);
}

static void *writer(void *arg)
{
    struct trace_out *out = arg;

    pthread_mutex_lock(&out->lock);
    while (out->length || !out->stop) {
        if (out->length)
            write_waiting(out);
        else
            pthread_cond_wait(&out->work, &out->lock);
    }
    pthread_mutex_unlock(&out->lock);
    return NULL;
}

/* The lock is held. */
static void take(struct trace_out *out, const char *text, size_t length)
{
    memcpy(out->waiting + out->length, text, length);
    if (!out->length)
        pthread_cond_signal(&out->work);
    out->length += length;
    out->put += length;
    out->lines++;
}

void trace_out_put(struct trace_out *out, const char *text, size_t length)
{
    uint64_t mine;

    pthread_mutex_lock(&out->lock);
    while (out->sync && !out->failed && out->length + length > BUFFER)
        pthread_cond_wait(&out->done, &out->lock);
    if (out->failed || length > out->room) {
        out->room = 0; /* what comes later would stand behind a gap */
        out->left_out++;
    } else if (out->length + length > BUFFER) {
        out->left_out++;
    } else {
        out->room -= length;
        take(out, text, length);
        for (mine = out->put; out->sync && out->written < mine;)
            pthread_cond_wait(&out->done, &out->lock);
    }
    pthread_mutex_unlock(&out->lock);
}

/* ---- opening and closing ---- */

static int open_file(const struct trace_settings *settings, bool again, bool *regular)
{
    struct stat about;
    int fd;

    if (!*settings->path)
        fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    else
        fd = open(settings->path,
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
                      (again ? 0 : O_TRUNC),
                  0600);
    if (fd >= 0)
        *regular = !fstat(fd, &about) && S_ISREG(about.st_mode);
    return fd;
}

static void output_free(struct trace_out *out)
{
    if (!out)
        return;
    free(out->path);
    free(out->waiting);
    free(out->writing);
    free(out);
}

static struct trace_out *output_new(const struct trace_settings *settings)
{
    struct trace_out *out = calloc(1, sizeof(*out));

    if (!out)
        return NULL;
    out->path = strdup(settings->path);
    if (!out->path) {
        output_free(out);
        return NULL;
    }
    pthread_mutex_init(&out->lock, NULL);
    pthread_cond_init(&out->work, NULL);
    pthread_cond_init(&out->done, NULL);
    return out;
}

/* Begins, or begins again, to write. The list's lock is held. */
static bool begin(struct trace_out *out, const struct trace_settings *settings, bool again,
                  char *why, size_t room)
{
    out->waiting = malloc(BUFFER);
    out->writing = malloc(BUFFER);
    out->fd = open_file(settings, again, &out->regular);
    if (out->fd < 0) {
        snprintf(why, room, "%s: %s", *settings->path ? settings->path : "standard error",
                 errno == ENXIO ? "nobody reads this pipe" : strerror(errno));
        goto fail;
    }
    out->sync = settings->sync;
    out->room = settings->most;
    out->process = getpid();
    out->deadline = CLOCK_NEVER;
    out->stop = out->failed = false;
    out->length = 0;
    out->put = out->written = 0;
    out->lines = out->left_out = 0;
    /* The thread blocks SIGPIPE, too: a reader that is gone ends no process. */
    if (out->waiting && out->writing && !thread_start(&out->thread, "ital-trace", 0, writer, out))
        return true;
    snprintf(why, room, "out of memory");
    close(out->fd);

fail:
    free(out->waiting);
    free(out->writing);
    out->waiting = out->writing = NULL;
    return false;
}

static void lock_list(void)
{
    pthread_mutex_lock(&list_lock);
}

static void unlock_list(void)
{
    pthread_mutex_unlock(&list_lock);
}

static void mind_forks(void)
{
    pthread_atfork(lock_list, unlock_list, unlock_list);
}

struct trace_out *trace_out_open(const struct trace_settings *settings, char *why, size_t room)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool known = false;
    struct trace_out *out;

    pthread_once(&once, mind_forks);
    pthread_mutex_lock(&list_lock);
    LL_FOREACH (list, out) {
        known |= !strcmp(out->path, settings->path);
        if (!strcmp(out->path, settings->path) && (!out->users || out->process == getpid()))
            break;
    }
    if (!out) {
        out = output_new(settings);
        if (out)
            LL_APPEND(list, out);
    }
    if (!out)
        snprintf(why, room, "out of memory");
    else if (!out->users && !begin(out, settings, known, why, room))
        out = NULL;
    if (out)
        out->users++;
    pthread_mutex_unlock(&list_lock);
    return out;
}

/* The last line. It has its place whatever the bound is. */
static void put_end(struct trace_out *out, bool json)
{
    const char *form = json ? "{\"trace\":\"end\",\"lines\":%llu,\"left_out\":%llu}\n"
                            : "# end: %llu lines, %llu left out\n";
    char text[100];
    int length = snprintf(text, sizeof(text), form, (unsigned long long)out->lines,
                          (unsigned long long)out->left_out);

    if (length > 0 && out->length + (size_t)length <= BUFFER)
        take(out, text, (size_t)length);
}

static void finish(struct trace_out *out, bool json)
{
    pthread_mutex_lock(&out->lock);
    put_end(out, json);
    out->stop = true;
    out->deadline = clock_now() + LAST_NS;
    pthread_cond_signal(&out->work);
    pthread_mutex_unlock(&out->lock);
    pthread_join(out->thread, NULL);
    close(out->fd);
    free(out->waiting);
    free(out->writing);
    out->waiting = out->writing = NULL;
}

void trace_out_close(struct trace_out *out, bool json)
{
    pthread_mutex_lock(&list_lock);
    if (!--out->users && out->process == getpid())
        finish(out, json);
    pthread_mutex_unlock(&list_lock);
}

/* A program may end with an open RNIC: what waits is written. */
__attribute__((destructor)) static void write_the_rest(void)
{
    struct timespec deadline;
    struct trace_out *out;

    if (pthread_mutex_trylock(&list_lock))
        return;
    LL_FOREACH (list, out) {
        if (!out->users || out->process != getpid())
            continue;
        pthread_mutex_lock(&out->lock);
        out->deadline = clock_now() + LAST_NS;
        deadline = clock_left(0, clock_wall() + LAST_NS);
        while (out->written < out->put &&
               !pthread_cond_timedwait(&out->done, &out->lock, &deadline))
            ;
        pthread_mutex_unlock(&out->lock);
    }
    pthread_mutex_unlock(&list_lock);
}

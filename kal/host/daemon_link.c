/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's connection to kald.
 *
 * A thread of its own reads what kald sends, and connects again after kald has ended; other threads
 * only send (daemon_lease.c). It sleeps in poll, or on the condition variable while there is no
 * kald; it is woken by the end of the socket. The program may close the socket's descriptor
 * (daemons close all), so each use asks first whether it is still the same socket.
 */
#include "daemon_private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/kald_socket.h"
#include "base/sanitizer.h"
#include "base/thread.h"

/* From one attempt to connect to the next: doubles. */
#define RETRY_LEAST (50 * CLOCK_NS_PER_MS)
#define RETRY_MOST  (5 * CLOCK_NS_PER_S)
/* So long a kald that was there may be away before that is a warning. */
#define MISSED_NS (3 * CLOCK_NS_PER_S)
#define STACK     (256u << 10)

/* ---- what kald sends ---- */

/* The text of the pushed policy, which nobody can change any more. NULL: it is not what it is said
 * to be. */
static uint8_t *text_of(int fd, uint64_t length)
{
    const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    uint8_t *text = NULL;
    struct stat about;
    size_t have = 0;

    if (fd >= 0 && !fstat(fd, &about) && (uint64_t)about.st_size == length &&
        (fcntl(fd, F_GET_SEALS) & sealed) == sealed)
        text = malloc(length + 1);
    while (text && have < length) {
        ssize_t got = pread(fd, text + have, length - have, (off_t)have);

        if (got <= 0 && errno != EINTR) {
            free(text);
            return NULL;
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return text;
}

/* False: it cannot be used, which was logged. */
static bool use_policy(struct kal_host *host, const uint8_t *text, size_t length)
{
    struct policy list = { NULL, 0, NULL, 0 };
    const char *name, *file;
    char why[1024] = "memory is short";
    size_t file_length, at = 0;
    bool wrong;

    while (kald_policy_next(text, length, &at, &name, &file, &file_length, &wrong)) {
        if (policy_read_text(&list, name, file, file_length, &policy_system_names, why,
                             sizeof(why)) == POLICY_OK)
            continue;
        wrong = true;
        break;
    }
    /* No rules at all replace none: nothing to do. */
    if (!wrong && (list.count || atomic_load(&host->governing)))
        wrong = kal_host_push_governing(host, &list) != RI_OK;
    policy_clear(&list);
    if (wrong)
        kal_log(RI_LOG_ERROR,
                "the policy that kald has pushed cannot be used: %s; the earlier one holds", why);
    return !wrong;
}

/* A kald that has started again pushes what is known already. */
static bool on_policy(struct kal_daemon *d, const struct kald_message *message, int fd)
{
    struct kald_message answer = {
        .type = KALD_POLICY, .answer = true, .id = message->id, .generation = message->generation
    };
    uint8_t *text = text_of(fd, message->length);
    bool sent;

    if (!text)
        return false;
    d->has_policy = true;
    if (d->text && d->text_length == message->length && !memcmp(d->text, text, message->length)) {
        free(text);
    } else if (!d->is_roots || use_policy(d->host, text, message->length)) {
        free(d->text);
        d->text = text;
        d->text_length = message->length;
    } else {
        free(text);
        return true;
    }
    pthread_mutex_lock(&d->lock);
    sent = kal_daemon_send(d, &answer);
    pthread_mutex_unlock(&d->lock);
    return sent;
}

/* All that is free goes back. */
static bool on_give(struct kal_daemon *d, const struct kald_message *message)
{
    struct kald_message answer = {
        .type = KALD_GIVE, .answer = true, .id = message->id, .kind = message->kind
    };
    struct slot *slot = &d->slots[message->kind];

    kal_daemon_shrink(d, message->kind, message->total);
    answer.total = d->leased[message->kind];
    answer.used = kal_daemon_used(d, message->kind);
    if (slot->open) {
        slot->open = false;
        slot->is_void = true;
        pthread_cond_broadcast(&d->changed);
    }
    return kal_daemon_send(d, &answer);
}

static void on_take(struct kal_daemon *d, const struct kald_message *message)
{
    struct slot *slot = &d->slots[message->kind];

    if (!slot->open || slot->id != message->id)
        return;
    slot->open = false;
    slot->status = message->status;
    if (message->total > d->leased[message->kind])
        kal_daemon_grow(d, message->kind, message->total);
    else
        d->quiet[message->kind] = clock_after(clock_now(), QUIET_NS);
    pthread_cond_broadcast(&d->changed);
}

/* True: the descriptor has found its owner. */
static bool on_listen(struct kal_daemon *d, const struct kald_message *message, int fd)
{
    struct slot *slot = &d->slots[LISTEN_SLOT];

    if (!slot->open || slot->id != message->id)
        return false;
    slot->open = false;
    slot->error = message->status == KALD_FAILED          ? (int)message->error
                  : message->status == KALD_OK && fd >= 0 ? 0
                                                          : EACCES;
    slot->fd = slot->error ? -1 : fd;
    pthread_cond_broadcast(&d->changed);
    return slot->fd >= 0;
}

/* False: what was reported is not so any more; it is, on a new connection. */
static bool on_hello(struct kal_daemon *d)
{
    d->answered = true;
    d->hangs = false;
    if (d->greeted)
        return true;
    if (d->is_stale)
        return false;
    d->greeted = true;
    kal_log(d->long_missed ? RI_LOG_WARNING : RI_LOG_INFO, "kald at %s %s", d->path,
            d->missed ? "is back" : "keeps the accounts of this process");
    d->missed = d->long_missed = false;
    pthread_cond_broadcast(&d->changed);
    return true;
}

/* False: the connection is at its end; kald is not to be believed, or hears a new report. */
static bool on_message(struct kal_daemon *d, const struct kald_message *message, int fd)
{
    bool believed = true, kept = false;

    if (message->type == KALD_POLICY) {
        believed = on_policy(d, message, fd);
    } else {
        pthread_mutex_lock(&d->lock);
        switch (message->type) {
        case KALD_HELLO: believed = on_hello(d); break;
        case KALD_TAKE: on_take(d, message); break;
        case KALD_GIVE: believed = on_give(d, message); break;
        case KALD_LISTEN: kept = on_listen(d, message, fd); break;
        default: break;
        }
        pthread_mutex_unlock(&d->lock);
    }
    if (fd >= 0 && !kept)
        close(fd);
    return believed;
}

/* Reads one message; waits for it until the deadline: the answer to HELLO comes before that. False:
 * the connection is at its end. */
static bool read_one(struct kal_daemon *d, uint64_t deadline)
{
    struct pollfd entry = { .fd = d->fd, .events = POLLIN };
    struct kald_message message;
    bool silent, late, is_same, stop;
    int fd;

    silent = !poll(&entry, 1, clock_poll_ms(clock_now(), deadline));
    late = silent && clock_now() >= deadline;
    if (silent && !late)
        return true;
    pthread_mutex_lock(&d->lock);
    d->hangs |= late;
    is_same = kal_daemon_is_ours(d);
    stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    if (late || stop || !is_same)
        return false;
    switch (kald_receive(d->fd, true, &message, &fd)) {
    case KALD_GOT: return on_message(d, &message, fd);
    case KALD_NOTHING: return true;
    default: return false;
    }
}

/* ---- begin and end of a connection ---- */

/* All that the process holds; what is free beyond a batch goes back before. */
static bool greet(struct kal_daemon *d)
{
    struct kald_message message = { .type = KALD_HELLO, .id = ++d->next_id };

    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        uint64_t used = kal_daemon_used(d, kind);

        kal_daemon_shrink(d, kind, used + kal_daemon_batch(kind));
        message.counts[kind].total = d->leased[kind];
        message.counts[kind].used = kal_daemon_used(d, kind);
        d->quiet[kind] = 0;
    }
    d->is_stale = d->answered = false;
    return kal_daemon_send(d, &message);
}

/* Returns 0 or an errno value. */
static int connect_to(struct kal_daemon *d)
{
    bool is_roots;
    int fd = kald_connect(d->path, &is_roots), error = errno;
    struct stat about;

    if (fd < 0)
        return error;
    pthread_mutex_lock(&d->lock);
    d->fd = fd;
    d->is_roots = is_roots;
    d->inode = fstat(fd, &about) ? 0 : about.st_ino;
    d->connected = !d->stop && greet(d);
    error = d->connected ? 0 : ECONNRESET;
    if (error) {
        d->fd = -1;
        close(fd);
    }
    d->greet_by = clock_after(clock_now(), ANSWER_NS);
    pthread_mutex_unlock(&d->lock);
    return error;
}

static void disconnect(struct kal_daemon *d)
{
    pthread_mutex_lock(&d->lock);
    kal_daemon_lose(d);
    if (kal_daemon_is_ours(d))
        close(d->fd);
    d->fd = -1;
    pthread_mutex_unlock(&d->lock);
}

/* Until the connection ends. True: it was one, and the next one is worth an attempt soon. */
static bool serve(struct kal_daemon *d)
{
    bool going = true, greeted, any = false;

    while (going) {
        pthread_mutex_lock(&d->lock);
        greeted = d->greeted;
        any = any || d->answered;
        going = !d->stop && (d->connected || greeted);
        pthread_mutex_unlock(&d->lock);
        going = going && read_one(d, greeted ? CLOCK_NEVER : d->greet_by);
    }
    disconnect(d);
    return any;
}

/* A restart takes a moment and is no trouble; a kald that stays away is. */
static void complain(struct kal_daemon *d)
{
    pthread_mutex_lock(&d->lock);
    if (d->missed && !d->long_missed && !d->stop && clock_now() - d->missed_since >= MISSED_NS) {
        d->long_missed = true;
        kal_log(RI_LOG_WARNING,
                "kald at %s does not come back; connections go on, limits are of this process "
                "alone; start it again",
                d->path);
    }
    pthread_mutex_unlock(&d->lock);
}

static void *run(void *arg)
{
    struct kal_daemon *d = arg;
    uint64_t pause = RETRY_LEAST, until;
    bool stop = false;

    sanitizer_ignore_begin();
    serve(d);
    while (!stop) {
        pthread_mutex_lock(&d->lock);
        until = clock_after(clock_now(), pause);
        while (!d->stop && clock_now() < until)
            kal_daemon_wait(d, until);
        stop = d->stop;
        pthread_mutex_unlock(&d->lock);
        pause = 2 * pause < RETRY_MOST ? 2 * pause : RETRY_MOST;
        complain(d);
        if (!stop && !connect_to(d) && serve(d))
            pause = RETRY_LEAST;
    }
    sanitizer_ignore_end();
    return NULL;
}

static void free_daemon(struct kal_daemon *d)
{
    if (d->fd >= 0 && kal_daemon_is_ours(d))
        close(d->fd);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->text);
    free(d->path);
    free(d);
}

static struct kal_daemon *create(struct kal_host *host, const char *path,
                                 const uint64_t quota[POLICY_KINDS])
{
    struct kal_daemon *d = calloc(1, sizeof(*d));
    pthread_condattr_t attr;

    if (!d)
        return NULL;
    d->path = strdup(path);
    if (!d->path) {
        free(d);
        return NULL;
    }
    d->host = host;
    d->fd = -1;
    memcpy(d->quota, quota, sizeof(d->quota));
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    return d;
}

struct kal_daemon *kal_daemon_open(struct kal_host *host, const char *path,
                                   const uint64_t quota[POLICY_KINDS])
{
    struct kal_daemon *d = create(host, path, quota);
    int error;

    if (!d)
        return NULL;
    error = connect_to(d);
    if (error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG || error == EPERM) {
        if (error != ENOENT && error != ENOTDIR)
            kal_log(RI_LOG_WARNING, "no kald at %s: %s; option kald names another, or none", path,
                    error == EPERM ? "it is neither root's nor this user's" : strerror(error));
        free_daemon(d);
        return NULL;
    }
    while (d->connected && !(d->greeted && d->has_policy) && read_one(d, d->greet_by))
        ;
    if (d->connected && !(d->greeted && d->has_policy))
        disconnect(d);
    error = thread_start(&d->thread, "ital-kald", STACK, run, d);
    if (!error)
        return d;
    kal_log(RI_LOG_WARNING, "the process does without kald: no thread: %s", strerror(error));
    free_daemon(d);
    return NULL;
}

void kal_daemon_close(struct kal_daemon *d)
{
    bool can_wake;

    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    can_wake = d->fd < 0 || kal_daemon_is_ours(d);
    kal_daemon_lose(d);
    pthread_mutex_unlock(&d->lock);
    if (!can_wake) {
        /* It sleeps on a socket that nobody can reach any more: its memory is left to it. */
        pthread_detach(d->thread);
        return;
    }
    pthread_join(d->thread, NULL);
    free_daemon(d);
}

void kal_daemon_fork_child(struct kal_daemon *d)
{
    if (d && kal_daemon_is_ours(d))
        close(d->fd);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's connection to kald.
 *
 * A thread of its own reads what kald sends, and connects again after kald has ended; other threads
 * only send. It sleeps in poll, or on the condition variable while there is no kald; it is woken by
 * the end of the socket. The program may close the socket's descriptor (daemons close all), so each
 * use asks first whether it is still the same socket.
 *
 * Each kind has at most one TAKE open. A GIVE makes it void (base/kald_message.h), so that both
 * ends know the same total.
 *
 * `lock` is a leaf but for the log's. A lane only tries it.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/kald_socket.h"
#include "base/sanitizer.h"

/* A kald that does not answer for so long counts as gone. */
#define ANSWER_NS (1 * CLOCK_NS_PER_S)
/* From one attempt to connect to the next: doubles. */
#define RETRY_LEAST (50 * CLOCK_NS_PER_MS)
#define RETRY_MOST  (5 * CLOCK_NS_PER_S)
/* kald has no more: until a thread asks again that does not need it. */
#define QUIET_NS (100 * CLOCK_NS_PER_MS)
#define STACK    (256u << 10)

static const struct {
    enum kal_account_kind account;
    uint64_t batch;
} kinds[KALD_KINDS] = {
    [KALD_ENDPOINTS] = { KAL_ACCOUNT_QP, 16 },
    [KALD_REGIONS] = { KAL_ACCOUNT_MR, 64 },
    [KALD_PINNED] = { KAL_ACCOUNT_PINNED, 16u << 20 },
};

/* One question that is open: one of each kind, and a LISTEN. */
enum { LISTEN_SLOT = KALD_KINDS, SLOTS };

struct slot {
    bool open, is_void;
    uint32_t id;
    enum kald_status status;
    int error, fd;
};

struct kal_daemon {
    struct kal_host *host;
    char *path;
    uint64_t quota[KALD_KINDS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool stop;
    /* HELLO was sent, and was answered */
    bool connected, greeted;
    /* It is root's: only its policy is the host's */
    bool is_roots;
    /* The loss of kald was logged */
    bool missed;
    int fd; /* closed by the thread only */
    ino_t inode;
    uint32_t next_id;
    struct slot slots[SLOTS];
    /* The total that both ends know */
    uint64_t leased[KALD_KINDS];
    uint64_t quiet[KALD_KINDS];
    /* Used by the thread, or before it starts */
    uint64_t generation, greet_by;
    uint8_t *text; /* of the last policy */
    size_t text_length;
};

/* ---- the socket; with the lock ---- */

static bool is_ours(const struct kal_daemon *d)
{
    struct stat about;

    return d->fd >= 0 && !fstat(d->fd, &about) && S_ISSOCK(about.st_mode) &&
           about.st_ino == d->inode;
}

/* kald is gone, or is not to be believed. The thread notices by the end of the socket. */
static void lose(struct kal_daemon *d)
{
    if (d->greeted && !d->stop) {
        kal_log(RI_LOG_WARNING,
                "kald at %s is gone; connections go on, limits are of this process alone", d->path);
        d->missed = true;
    }
    d->connected = d->greeted = false;
    for (int i = 0; i < SLOTS; i++)
        d->slots[i].open = false;
    if (is_ours(d))
        shutdown(d->fd, SHUT_RDWR);
    pthread_cond_broadcast(&d->changed);
}

static bool send_message(struct kal_daemon *d, const struct kald_message *message)
{
    return is_ours(d) && kald_send(d->fd, message, -1);
}

/* ---- leases; with the lock ---- */

static uint64_t used_of(const struct kal_daemon *d, int kind)
{
    uint64_t used = kal_host_holds(d->host, kinds[kind].account);

    return used < d->leased[kind] ? used : d->leased[kind];
}

/* What the quota of the process leaves. */
static uint64_t room_of(const struct kal_daemon *d, int kind)
{
    if (!d->quota[kind])
        return UINT64_MAX / 2 - d->leased[kind];
    return d->quota[kind] > d->leased[kind] ? d->quota[kind] - d->leased[kind] : 0;
}

static void grow(struct kal_daemon *d, int kind, uint64_t total)
{
    kal_host_grant(d->host, kinds[kind].account, total - d->leased[kind]);
    d->leased[kind] = total;
}

static void shrink(struct kal_daemon *d, int kind, uint64_t total)
{
    if (d->leased[kind] > total)
        d->leased[kind] -= kal_host_return(d->host, kinds[kind].account, d->leased[kind] - total);
}

/* Without kald. False: the quota of the process leaves no more. */
static bool lease_alone(struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t room = room_of(d, kind), wish = kinds[kind].batch;

    if (!room || amount > room)
        return false;
    if (wish < d->leased[kind] / 2)
        wish = d->leased[kind] / 2;
    if (wish < amount)
        wish = amount;
    grow(d, kind, d->leased[kind] + (wish < room ? wish : room));
    return true;
}

static bool send_take(struct kal_daemon *d, int kind, uint64_t amount, uint64_t most,
                      uint32_t flags)
{
    struct slot *slot = &d->slots[kind];
    struct kald_message message = { .type = KALD_TAKE,
                                    .id = ++d->next_id,
                                    .kind = (enum kald_kind)kind,
                                    .flags = flags,
                                    .total = d->leased[kind] + most,
                                    .least = d->leased[kind] + amount,
                                    .used = used_of(d, kind) };

    *slot = (struct slot){ .open = true, .id = message.id, .fd = -1 };
    if (send_message(d, &message))
        return true;
    slot->open = false;
    return false;
}

/* A batch, or what is missing if that is more. */
static uint64_t wish_of(const struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t room = room_of(d, kind);
    uint64_t wish = kinds[kind].batch > amount ? kinds[kind].batch : amount;

    return wish < room ? wish : room;
}

/* ---- waiting for an answer; with the lock ---- */

static void wait_until(struct kal_daemon *d, uint64_t deadline)
{
    struct timespec until = { .tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
                              .tv_nsec = (long)(deadline % CLOCK_NS_PER_S) };

    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

/* Until the question `id` of the slot is no longer open; id 0: any. False: kald is gone. */
static bool await(struct kal_daemon *d, int index, uint32_t id)
{
    const struct slot *slot = &d->slots[index];
    uint64_t deadline = clock_after(clock_now(), ANSWER_NS);

    while (d->connected && slot->open && (!id || slot->id == id)) {
        if (clock_now() >= deadline) {
            lose(d);
            return false;
        }
        wait_until(d, deadline);
    }
    return d->connected;
}

enum outcome { GRANTED, REFUSED, AGAIN, ALONE };

/* Sends a TAKE and waits for its answer. */
static enum outcome take(struct kal_daemon *d, int kind, uint64_t amount, uint32_t flags)
{
    uint64_t most = flags & KALD_RAISE ? 0 : wish_of(d, kind, amount);
    const struct slot *slot = &d->slots[kind];
    uint32_t id;

    if (!send_take(d, kind, amount, most, flags)) {
        lose(d);
        return ALONE;
    }
    id = slot->id;
    if (!await(d, kind, id))
        return ALONE;
    if (slot->id != id || slot->is_void)
        return AGAIN;
    return slot->status == KALD_OK ? GRANTED : REFUSED;
}

static bool lease_waiting(struct kal_daemon *d, int kind, uint64_t amount)
{
    uint64_t before = d->leased[kind];
    enum outcome outcome = AGAIN;
    uint32_t flags = 0;

    while (outcome == AGAIN) {
        if (!d->connected || !await(d, kind, 0))
            return lease_alone(d, kind, amount);
        if (d->leased[kind] > before)
            return true; /* it was not known when the amount was */
        if (amount > room_of(d, kind))
            return false;
        outcome = take(d, kind, amount, flags);
        flags = KALD_ALONE; /* two that ask each other would never end */
    }
    return outcome == ALONE ? lease_alone(d, kind, amount) : outcome == GRANTED;
}

bool kal_daemon_lease(struct kal_daemon *d, enum kald_kind kind, uint64_t amount, bool wait)
{
    bool more = false;

    if (wait) {
        pthread_mutex_lock(&d->lock);
        more = lease_waiting(d, kind, amount);
        pthread_mutex_unlock(&d->lock);
        return more;
    }
    if (pthread_mutex_trylock(&d->lock))
        return false;
    if (!d->connected)
        more = lease_alone(d, kind, amount);
    else if (!d->slots[kind].open && clock_now() >= d->quiet[kind] && amount <= room_of(d, kind) &&
             room_of(d, kind))
        send_take(d, kind, 0, wish_of(d, kind, amount), 0);
    pthread_mutex_unlock(&d->lock);
    return more;
}

bool kal_daemon_governs(struct kal_daemon *d)
{
    bool governs;

    pthread_mutex_lock(&d->lock);
    governs = d->greeted && d->is_roots;
    pthread_mutex_unlock(&d->lock);
    return governs;
}

bool kal_daemon_raise_memlock(struct kal_daemon *d)
{
    enum outcome outcome = AGAIN;

    pthread_mutex_lock(&d->lock);
    while (outcome == AGAIN)
        outcome = d->connected && await(d, KALD_PINNED, 0) ? take(d, KALD_PINNED, 0, KALD_RAISE)
                                                           : ALONE;
    pthread_mutex_unlock(&d->lock);
    return outcome == GRANTED;
}

static bool listen_message(const struct sockaddr *address, struct kald_message *message)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    if (address->sa_family == AF_INET) {
        memcpy(&four, address, sizeof four);
        message->family = 4;
        message->port = ntohs(four.sin_port);
        memcpy(message->address, &four.sin_addr, sizeof four.sin_addr);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&six, address, sizeof six);
        message->family = 6;
        message->port = ntohs(six.sin6_port);
        message->scope = six.sin6_scope_id;
        memcpy(message->address, &six.sin6_addr, sizeof six.sin6_addr);
    }
    return message->family != 0;
}

int kal_daemon_listen(struct kal_daemon *d, const struct sockaddr *address, bool v6only,
                      bool share_port, int *fd)
{
    struct kald_message message = { .type = KALD_LISTEN,
                                    .flags = (v6only ? KALD_V6ONLY : 0u) |
                                             (share_port ? KALD_SHARE_PORT : 0u) };
    struct slot *slot = &d->slots[LISTEN_SLOT];
    int error = EACCES;

    if (!listen_message(address, &message))
        return EACCES;
    pthread_mutex_lock(&d->lock);
    if (d->connected && await(d, LISTEN_SLOT, 0)) {
        message.id = ++d->next_id;
        *slot = (struct slot){ .open = true, .id = message.id, .fd = -1 };
        if (!send_message(d, &message))
            lose(d);
        else if (await(d, LISTEN_SLOT, message.id) && slot->id == message.id)
            error = slot->error;
        if (!error)
            *fd = slot->fd;
        slot->fd = -1;
    }
    pthread_mutex_unlock(&d->lock);
    return error;
}

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
                             sizeof why) == POLICY_OK)
            continue;
        wrong = true;
        break;
    }
    /* No rules at all replace none: nothing to do. */
    if (!wrong && (list.count || atomic_load(&host->governing)))
        wrong = kal_host_push_governing(host, &list) != KAL_OK;
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
    d->generation = message->generation;
    pthread_mutex_lock(&d->lock);
    sent = send_message(d, &answer);
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

    shrink(d, message->kind, message->total);
    answer.total = d->leased[message->kind];
    answer.used = used_of(d, message->kind);
    if (slot->open) {
        slot->open = false;
        slot->is_void = true;
        pthread_cond_broadcast(&d->changed);
    }
    return send_message(d, &answer);
}

static void on_take(struct kal_daemon *d, const struct kald_message *message)
{
    struct slot *slot = &d->slots[message->kind];

    if (!slot->open || slot->id != message->id)
        return;
    slot->open = false;
    slot->status = message->status;
    if (message->total > d->leased[message->kind])
        grow(d, message->kind, message->total);
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

static void on_hello(struct kal_daemon *d)
{
    if (d->greeted)
        return;
    d->greeted = true;
    kal_log(d->missed ? RI_LOG_WARNING : RI_LOG_INFO, "kald at %s %s", d->path,
            d->missed ? "is back" : "keeps the accounts of this process");
    d->missed = false;
    pthread_cond_broadcast(&d->changed);
}

/* False: kald is not to be believed. */
static bool on_message(struct kal_daemon *d, const struct kald_message *message, int fd)
{
    bool believed = true, kept = false;

    if (message->type == KALD_POLICY) {
        believed = on_policy(d, message, fd);
    } else {
        pthread_mutex_lock(&d->lock);
        switch (message->type) {
        case KALD_HELLO: on_hello(d); break;
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

/* Reads one message; waits for it until the deadline. False: the connection is at its end. */
static bool read_one(struct kal_daemon *d, uint64_t deadline)
{
    struct pollfd entry = { .fd = d->fd, .events = POLLIN };
    struct kald_message message;
    bool is_same, stop;
    int fd;

    if (!poll(&entry, 1, clock_poll_ms(clock_now(), deadline)))
        return clock_now() < deadline;
    pthread_mutex_lock(&d->lock);
    is_same = is_ours(d);
    stop = d->stop;
    pthread_mutex_unlock(&d->lock);
    if (stop || !is_same)
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

    for (int kind = 0; kind < KALD_KINDS; kind++) {
        uint64_t used = used_of(d, kind);

        shrink(d, kind, used + kinds[kind].batch);
        message.counts[kind].total = d->leased[kind];
        message.counts[kind].used = used_of(d, kind);
        d->quiet[kind] = 0;
    }
    return send_message(d, &message);
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
    lose(d);
    if (is_ours(d))
        close(d->fd);
    d->fd = -1;
    pthread_mutex_unlock(&d->lock);
}

/* Until the connection ends. True: it was one. */
static bool serve(struct kal_daemon *d)
{
    bool going = true, greeted, any = false;

    while (going) {
        pthread_mutex_lock(&d->lock);
        greeted = d->greeted;
        any = any || greeted;
        going = !d->stop && (d->connected || greeted);
        pthread_mutex_unlock(&d->lock);
        going = going && read_one(d, greeted ? CLOCK_NEVER : d->greet_by);
    }
    disconnect(d);
    return any;
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
            wait_until(d, until);
        stop = d->stop;
        pthread_mutex_unlock(&d->lock);
        pause = 2 * pause < RETRY_MOST ? 2 * pause : RETRY_MOST;
        if (!stop && !connect_to(d) && serve(d))
            pause = RETRY_LEAST;
    }
    sanitizer_ignore_end();
    return NULL;
}

static int start_thread(struct kal_daemon *d)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&d->thread, &attr, run, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!error)
        pthread_setname_np(d->thread, "ital-kald");
    return error;
}

static void free_daemon(struct kal_daemon *d)
{
    if (d->fd >= 0 && is_ours(d))
        close(d->fd);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->text);
    free(d->path);
    free(d);
}

static struct kal_daemon *create(struct kal_host *host, const char *path,
                                 const uint64_t quota[KALD_KINDS])
{
    struct kal_daemon *d = calloc(1, sizeof *d);
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
    memcpy(d->quota, quota, sizeof d->quota);
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &attr);
    pthread_condattr_destroy(&attr);
    return d;
}

struct kal_daemon *kal_daemon_open(struct kal_host *host, const char *path,
                                   const uint64_t quota[KALD_KINDS])
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
    while (d->connected && !(d->greeted && d->generation) && read_one(d, d->greet_by))
        ;
    if (d->connected && !(d->greeted && d->generation))
        disconnect(d);
    error = start_thread(d);
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
    can_wake = d->fd < 0 || is_ours(d);
    lose(d);
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
    if (d && is_ours(d))
        close(d->fd);
}

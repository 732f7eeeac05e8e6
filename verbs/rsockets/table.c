/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors to rsockets. An entry counts the calls that are inside, so that rclose frees nothing
 * that another thread uses. Entries are never freed: a lookup takes no lock.
 */
#include "rsockets.h"

#include <stdlib.h>

#define CHUNK  1024u
#define CHUNKS 1024u

struct entry {
    _Atomic(struct rs_socket *) socket;
    atomic_uint users;
};

static _Atomic(struct entry *) chunks[CHUNKS];
static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static atomic_uint removing;

/* ---- forks ---- */

static atomic_uint forks; /* between the first process and this one */
static atomic_bool told;

/* Of all threads only this one is there, and it is in no call: nobody uses an entry. */
static void in_child(void)
{
    atomic_fetch_add(&forks, 1);
    atomic_store(&told, false);
    for (size_t i = 0; i < CHUNKS; i++) {
        struct entry *chunk = atomic_load(&chunks[i]);

        for (size_t j = 0; chunk && j < CHUNK; j++)
            atomic_store(&chunk[j].users, 0);
    }
    leaving = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    atomic_store(&removing, 0);
    rs_sleepers_forked();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

unsigned rs_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    return atomic_load(&forks);
}

bool rs_is_own(const struct rs_socket *socket)
{
    return socket->process == atomic_load(&forks);
}

/* A connection is gone for the child as if its peer had reset it; for a listener, accept(2) has
 * EINVAL where a socket does not listen. */
static int refuse_fork(const struct rs_socket *socket)
{
    if (!atomic_exchange(&told, true))
        ual_log(RI_LOG_WARNING,
                "rsockets: this process was forked, and uses an rsocket of its parent: connections "
                "stay the parent's; accept them in the process that uses them");
    switch (socket->state) {
    case RS_NEW:
    case RS_BOUND: return EOPNOTSUPP;
    case RS_LISTENING: return EINVAL;
    case RS_CONNECTING:
    case RS_ACCEPTING:
    case RS_CONNECTED:
    case RS_ENDED: break;
    }
    return ECONNRESET;
}

/* ---- entries ---- */

static struct entry *entry_of(int fd)
{
    unsigned number = (unsigned)fd;
    struct entry *chunk;

    if (number >= CHUNK * CHUNKS)
        return NULL;
    chunk = atomic_load(&chunks[number / CHUNK]);
    return chunk ? &chunk[number % CHUNK] : NULL;
}

int rs_table_add(struct rs_socket *socket)
{
    unsigned number = (unsigned)socket->fd;
    struct entry *chunk, *none = NULL;

    if (number >= CHUNK * CHUNKS)
        return EMFILE;
    if (!atomic_load(&chunks[number / CHUNK])) {
        chunk = calloc(CHUNK, sizeof(*chunk));
        if (!chunk)
            return ENOMEM;
        if (!atomic_compare_exchange_strong(&chunks[number / CHUNK], &none, chunk))
            free(chunk);
    }
    atomic_store(&entry_of(socket->fd)->socket, socket);
    return 0;
}

struct rs_socket *rs_of_parent(int fd)
{
    struct entry *entry = entry_of(fd);
    struct rs_socket *socket = entry ? atomic_load(&entry->socket) : NULL;

    return socket && !rs_is_own(socket) ? socket : NULL;
}

bool rs_is_rsocket(int fd)
{
    struct entry *entry = entry_of(fd);

    return entry && atomic_load(&entry->socket);
}

void rs_leave(int fd)
{
    struct entry *entry = entry_of(fd);

    if (atomic_fetch_sub(&entry->users, 1) != 1 || !atomic_load(&removing))
        return;
    pthread_mutex_lock(&leaving);
    pthread_cond_broadcast(&left);
    pthread_mutex_unlock(&leaving);
}

struct rs_socket *rs_enter(int fd)
{
    struct entry *entry = entry_of(fd);
    struct rs_socket *socket;

    if (!entry) {
        errno = EBADF;
        return NULL;
    }
    atomic_fetch_add(&entry->users, 1);
    socket = atomic_load(&entry->socket);
    if (socket && rs_is_own(socket))
        return socket;
    errno = socket ? refuse_fork(socket) : EBADF;
    rs_leave(fd);
    return NULL;
}

struct rs_socket *rs_begin_call(int fd)
{
    struct rs_socket *socket = rs_enter(fd);

    if (socket)
        pthread_mutex_lock(&socket->lock);
    return socket;
}

int rs_end_call(int fd, struct rs_socket *socket, int error)
{
    pthread_mutex_unlock(&socket->lock);
    rs_leave(fd);
    return error ? rs_fail(error) : 0;
}

struct rs_socket *rs_table_remove(int fd)
{
    struct entry *entry = entry_of(fd);
    struct rs_socket *socket = entry ? atomic_exchange(&entry->socket, NULL) : NULL;

    if (!socket) {
        errno = EBADF;
        return NULL;
    }
    if (!rs_is_own(socket)) { /* its memory is a copy, which nobody uses */
        errno = EOPNOTSUPP;
        return NULL;
    }
    pthread_mutex_lock(&socket->lock);
    socket->closing = true;
    rs_wake(socket);
    pthread_mutex_unlock(&socket->lock);
    atomic_fetch_add(&removing, 1);
    pthread_mutex_lock(&leaving);
    while (atomic_load(&entry->users))
        pthread_cond_wait(&left, &leaving);
    pthread_mutex_unlock(&leaving);
    atomic_fetch_sub(&removing, 1);
    return socket;
}

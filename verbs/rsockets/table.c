/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors to rsockets. An entry counts the calls that are inside, so that rclose frees nothing
 * that another thread uses. Entries are never freed: a lookup takes no lock.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

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

static atomic_bool used, forked, told;

static void in_child(void)
{
    if (atomic_load(&used))
        atomic_store(&forked, true);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

bool rs_usable(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    if (!atomic_load(&forked))
        return true;
    if (!atomic_exchange(&told, true))
        ual_log(RI_LOG_WARNING, "rsockets: the child of a fork cannot use those of its parent, nor "
                                "create any: the connections are the parent's");
    errno = EOPNOTSUPP;
    return false;
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
        chunk = calloc(CHUNK, sizeof *chunk);
        if (!chunk)
            return ENOMEM;
        if (!atomic_compare_exchange_strong(&chunks[number / CHUNK], &none, chunk))
            free(chunk);
    }
    atomic_store(&used, true);
    atomic_store(&entry_of(socket->fd)->socket, socket);
    return 0;
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
    if (socket && rs_usable())
        return socket;
    if (!socket)
        errno = EBADF;
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
    if (!rs_usable())
        return NULL;
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

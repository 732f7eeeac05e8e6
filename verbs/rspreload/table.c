/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Descriptors to carried sockets. A lookup of a number that stands for none takes no lock: that is
 * what most calls of a program, and all of ital's own, are. Chunks are never freed.
 */
#include "rspreload.h"

#include <stdlib.h>

#define CHUNK  1024u
#define CHUNKS 1024u

typedef _Atomic(struct rp_socket *) slot;

static _Atomic(slot *) chunks[CHUNKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int owner; /* process id; 0: nothing was ever carried */

__thread unsigned rp_inside;

/* ---- processes ---- */

void rp_table_lock(bool locked)
{
    if (locked)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

void rp_own(void)
{
    atomic_store(&owner, getpid());
}

bool rp_is_own(void)
{
    int process = atomic_load(&owner);

    return !process || process == getpid();
}

/* ---- slots ---- */

static slot *slot_of(int fd)
{
    unsigned number = (unsigned)fd;
    slot *chunk;

    if (number >= CHUNK * CHUNKS)
        return NULL;
    chunk = atomic_load(&chunks[number / CHUNK]);
    return chunk ? &chunk[number % CHUNK] : NULL;
}

/* Under the lock. */
static slot *make_slot(int fd)
{
    unsigned number = (unsigned)fd;

    if (number < CHUNK * CHUNKS && !atomic_load(&chunks[number / CHUNK]))
        atomic_store(&chunks[number / CHUNK], (slot *)calloc(CHUNK, sizeof(slot)));
    return slot_of(fd);
}

int rp_share(int fd, struct rp_socket *socket)
{
    slot *place;

    pthread_mutex_lock(&lock);
    place = make_slot(fd);
    if (place) {
        atomic_fetch_add(&socket->users, 1);
        atomic_fetch_add(&socket->descriptors, 1);
        atomic_store(place, socket);
    }
    pthread_mutex_unlock(&lock);
    return place ? 0 : (unsigned)fd < CHUNK * CHUNKS ? ENOMEM : EMFILE;
}

int rp_add(int fd, int rs)
{
    struct rp_socket *socket = calloc(1, sizeof(*socket));
    int error;

    if (!socket)
        return ENOMEM;
    atomic_init(&socket->rs, rs);
    atomic_init(&socket->listener, -1);
    pthread_mutex_init(&socket->lock, NULL);
    error = rp_share(fd, socket);
    if (error)
        free(socket);
    return error;
}

struct rp_socket *rp_get_any(int fd)
{
    slot *place = slot_of(fd);
    struct rp_socket *socket;

    if (!place || !atomic_load_explicit(place, memory_order_acquire))
        return NULL;
    pthread_mutex_lock(&lock);
    socket = atomic_load(place);
    if (socket)
        atomic_fetch_add(&socket->users, 1);
    pthread_mutex_unlock(&lock);
    return socket;
}

struct rp_socket *rp_get(int fd)
{
    struct rp_socket *socket = rp_get_any(fd);

    if (!socket || atomic_load(&socket->rs) >= 0)
        return socket;
    rp_put(socket);
    return NULL;
}

void rp_put(struct rp_socket *socket)
{
    if (atomic_fetch_sub(&socket->users, 1) != 1)
        return;
    pthread_mutex_destroy(&socket->lock);
    free(socket);
}

void rp_remove(int fd)
{
    slot *place = slot_of(fd);
    struct rp_socket *socket = NULL;
    int rs[2] = { -1, -1 };

    if (!place || !atomic_load(place))
        return;
    pthread_mutex_lock(&lock);
    socket = atomic_exchange(place, NULL);
    if (socket && atomic_fetch_sub(&socket->descriptors, 1) == 1) {
        rs[0] = atomic_exchange(&socket->rs, -1);
        rs[1] = atomic_exchange(&socket->listener, -1);
    }
    pthread_mutex_unlock(&lock);
    rp_inside++;
    for (int i = 0; i < 2; i++)
        if (rs[i] >= 0)
            rclose(rs[i]);
    rp_inside--;
    if (socket)
        rp_put(socket);
}

void rp_table_forked(void)
{
    for (unsigned i = 0; i < CHUNKS; i++) {
        slot *chunk = atomic_load(&chunks[i]);

        for (unsigned j = 0; chunk && j < CHUNK; j++) {
            struct rp_socket *socket = atomic_load(&chunk[j]);

            if (socket)
                socket->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        }
    }
}

void rp_remove_range(unsigned first, unsigned last)
{
    for (unsigned i = first / CHUNK; i < CHUNKS && i <= last / CHUNK; i++) {
        slot *chunk = atomic_load(&chunks[i]);

        for (unsigned j = 0; chunk && j < CHUNK; j++)
            if (atomic_load(&chunk[j]) && i * CHUNK + j >= first && i * CHUNK + j <= last)
                rp_remove((int)(i * CHUNK + j));
    }
}

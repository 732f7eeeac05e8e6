/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listeners: the kernel's socket listens, and an rsocket takes what is accepted from it.
 *
 * So the processes of a server that forks share the socket, and no process takes a connection whose
 * program does not accept it. Each process has an rsocket of its own, with devices of its own, from
 * its first accept on. TCP_DEFER_ACCEPT: a peer appears with its request.
 */
#include "rspreload.h"

#include "verbs/rsockets/fed.h"

#include "ual_mechanism.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

/* Seconds that a peer may be silent. */
#define SILENCE 10

static bool is_set(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof(value);

    return !rp_next()->getsockopt(fd, SOL_SOCKET, option, &value, &length) && value;
}

bool rp_bind_shared(int fd, const struct sockaddr *address, socklen_t length, int *result)
{
    if (length < sizeof(struct sockaddr_in) || !is_set(fd, SO_REUSEPORT) ||
        !vb_rsocket_can_be_fed(address))
        return false;
    *result = rp_next()->bind(fd, address, length);
    return true;
}

/* The port has the same place in both families. */
static in_port_t port_of(const struct sockaddr_storage *address)
{
    return ((const struct sockaddr_in *)(const void *)address)->sin_port;
}

int rp_name(int rs, int fd, struct sockaddr *own, socklen_t *length)
{
    struct sockaddr_storage name = { 0 };
    socklen_t size = sizeof(name);

    if (rgetsockname(rs, (struct sockaddr *)&name, &size))
        return -1;
    return port_of(&name) ? rgetsockname(rs, own, length) : rp_next()->getsockname(fd, own, length);
}

static bool is_bound(int fd)
{
    struct sockaddr_storage own = { 0 };
    socklen_t length = sizeof(own);

    return !rp_next()->getsockname(fd, (struct sockaddr *)&own, &length) && port_of(&own);
}

/* As kal does: an address in TIME_WAIT can be bound. The rsocket has given it up. */
static int listen_kernel(int fd, const struct sockaddr_storage *own, socklen_t length, int backlog)
{
    const struct rp_next *next = rp_next();
    int one = 1, silence = SILENCE;

    if (!is_bound(fd)) {
        next->setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (next->bind(fd, (const struct sockaddr *)own, length))
            return -1;
    }
    next->setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silence, sizeof(silence));
    return next->listen(fd, backlog);
}

bool rp_listen(struct rp_socket *socket, int fd, int backlog, int *result)
{
    int rs = atomic_load(&socket->rs);
    struct sockaddr_storage own = { 0 };
    socklen_t length = sizeof(own);

    if (rp_name(rs, fd, (struct sockaddr *)&own, &length) ||
        !vb_rsocket_can_be_fed((struct sockaddr *)&own) ||
        vb_rsocket_listen_fed(rs, (struct sockaddr *)&own, backlog))
        return false;
    *result = listen_kernel(fd, &own, length, backlog);
    if (*result)
        return true;
    atomic_store(&socket->listener_process, getpid());
    atomic_store(&socket->listener, rs);
    atomic_store(&socket->rs, -1);
    return true;
}

/* ---- accepting ---- */

static void log_lost(int process, int error)
{
    static atomic_int told; /* the process */

    if (atomic_exchange(&told, process) != process)
        ual_log(RI_LOG_ERROR,
                "librspreload: this process was forked, and cannot listen as its parent does: %s; "
                "connections that it accepts are closed",
                strerrordesc_np(error));
}

/* In the child of a fork: a listener of its own. */
static int revive(struct rp_socket *socket, int process)
{
    int made = vb_rsocket_listen_again(atomic_load(&socket->listener));

    if (made < 0) {
        log_lost(process, errno);
        return -1;
    }
    atomic_store(&socket->listener, made);
    atomic_store(&socket->listener_process, process);
    return made;
}

/* -1: this process cannot have one now. */
static int listener_of(struct rp_socket *socket)
{
    int process = getpid(), listener;

    pthread_mutex_lock(&socket->lock);
    listener = atomic_load(&socket->listener);
    if (listener >= 0 && atomic_load(&socket->listener_process) != process)
        listener = revive(socket, process);
    pthread_mutex_unlock(&socket->lock);
    return listener;
}

/* A stream that comes to nothing is passed over. */
static int accept_stream(struct rp_socket *socket, int fd)
{
    int stream, rs, error, listener;

    do {
        rp_inside++;
        listener = listener_of(socket);
        rp_inside--;
        stream = rp_next()->accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (stream < 0)
            return -1;
        rp_inside++;
        rs = listener < 0 ? rp_fail(ECONNABORTED) : vb_rsocket_accept_fed(listener, stream);
        error = errno;
        rp_inside--;
        rp_next()->close(stream);
    } while (rs < 0 && listener >= 0 && error == ECONNABORTED);
    errno = error;
    return rs;
}

bool rp_accept(int fd, int *result)
{
    struct rp_socket *socket = rp_get_any(fd);
    bool listens = socket && atomic_load(&socket->listener) >= 0;
    int error;

    if (listens)
        *result = accept_stream(socket, fd);
    error = errno;
    if (socket)
        rp_put(socket);
    errno = error;
    return listens;
}

/* SPDX-License-Identifier: BSD-3-Clause
 * rsocket, rbind, rlisten, raccept, rconnect. */
#include "rsockets.h"

#include "verbs/rdmacm/listen.h"

#include <netinet/in.h>
#include <string.h>

#define SQ_DEFAULT   384u
#define RQ_DEFAULT   384u
#define RING_DEFAULT (256u * 1024)
#define SEND_DEFAULT (256u * 1024)

static const struct rs_options defaults = {
    .send_size = SEND_DEFAULT,
    .ring_size = RING_DEFAULT,
    .send_messages = SQ_DEFAULT,
    .receive_messages = RQ_DEFAULT,
    .small_most = 64,
};

/* Returns 0 or an error number. */
static int check_kind(int domain, int type, int protocol)
{
    if (domain != AF_INET && domain != AF_INET6)
        return EAFNOSUPPORT;
    if (type == SOCK_DGRAM) {
        ual_log(RI_LOG_WARNING, "rsocket: SOCK_DGRAM is not supported: datagrams need queue pairs "
                                "of type UD");
        return EOPNOTSUPP;
    }
    if (type != SOCK_STREAM)
        return ESOCKTNOSUPPORT;
    return protocol && protocol != IPPROTO_TCP ? EPROTONOSUPPORT : 0;
}

static int add(struct rs_socket *socket)
{
    int error = rs_table_add(socket);

    if (!error)
        return socket->fd;
    rs_socket_free(socket);
    return rs_fail(error);
}

VB_PUBLIC int rsocket(int domain, int type, int protocol)
{
    VB_CALL;
    struct rs_options options = defaults;
    struct rs_socket *socket;
    int error = check_kind(domain, type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), protocol);

    if (error)
        return rs_fail(error);
    options.nonblocking = type & SOCK_NONBLOCK;
    socket = rs_socket_new(domain, &options, NULL);
    return socket ? add(socket) : -1;
}

/* ---- the passive side ---- */

static int check_address(const struct rs_socket *socket, const struct sockaddr *address,
                         socklen_t length)
{
    socklen_t least = socket->family == AF_INET ? sizeof(struct sockaddr_in)
                                                : sizeof(struct sockaddr_in6);

    if (!address || length < least)
        return EINVAL;
    return address->sa_family == socket->family ? 0 : EAFNOSUPPORT;
}

static int bind_locked(struct rs_socket *socket, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_storage copy = { 0 };
    int error = check_address(socket, address, length);

    if (error)
        return error;
    if (socket->state != RS_NEW)
        return EINVAL;
    memcpy(&copy, address, length < sizeof(copy) ? length : sizeof(copy));
    if (rdma_bind_addr(socket->id, (struct sockaddr *)&copy))
        return errno;
    socket->state = RS_BOUND;
    return 0;
}

VB_PUBLIC int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own, bind_locked(own, addr, addrlen));
}

static int listen_locked(struct rs_socket *socket, int backlog)
{
    struct sockaddr_storage any = { .ss_family = (sa_family_t)socket->family };
    int error = 0;

    if (socket->state == RS_NEW)
        error = bind_locked(socket, (struct sockaddr *)&any, sizeof(any));
    if (error)
        return error;
    socket->backlog = backlog > 0 ? backlog : 1;
    if (socket->state == RS_LISTENING)
        return 0;
    if (socket->state != RS_BOUND)
        return EINVAL;
    if (rdma_listen(socket->id, socket->backlog))
        return errno;
    rcm_listen_advise(socket->id,
                      "only clients with rsockets may use this port; start the client by 'ital-run "
                      "--rsockets'");
    socket->state = RS_LISTENING;
    return 0;
}

VB_PUBLIC int rlisten(int socket, int backlog)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own, listen_locked(own, backlog));
}

/* A request whose peer has gone is passed over. */
static struct rs_socket *accept_locked(struct rs_socket *socket)
{
    struct rs_socket *made;
    int error;

    for (;;) {
        if (socket->state != RS_LISTENING || socket->read_shut) {
            errno = EINVAL;
            return NULL;
        }
        error = rs_wait(socket, rs_can_read, rs_deadline(socket, 0));
        if (error) {
            errno = error;
            return NULL;
        }
        if (!socket->requests)
            continue;
        made = rs_connection_accept(socket);
        if (made || errno != ECONNABORTED)
            return made;
    }
}

VB_PUBLIC int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    VB_CALL;
    struct rs_socket *own = rs_enter(socket), *made;
    int fd = -1;

    if (!own)
        return -1;
    pthread_mutex_lock(&own->lock);
    made = accept_locked(own);
    pthread_mutex_unlock(&own->lock);
    if (made)
        fd = add(made);
    rs_leave(socket);
    if (fd >= 0 && addr && addrlen)
        rgetpeername(fd, addr, addrlen);
    return fd;
}

/* ---- the active side ---- */

static bool is_decided(const struct rs_socket *socket)
{
    return socket->state != RS_CONNECTING;
}

static int take_error(struct rs_socket *socket, int otherwise)
{
    int error = socket->error;

    socket->error = 0;
    return error ? error : otherwise;
}

static int connect_locked(struct rs_socket *socket, const struct sockaddr *address,
                          socklen_t length)
{
    struct sockaddr_storage copy = { 0 };
    int error = check_address(socket, address, length);

    rs_progress(socket);
    if (error)
        return error;
    switch (socket->state) {
    case RS_NEW:
    case RS_BOUND: break;
    case RS_CONNECTING: return EALREADY;
    case RS_LISTENING: return EOPNOTSUPP;
    case RS_ENDED: return take_error(socket, ECONNABORTED);
    case RS_ACCEPTING:
    case RS_CONNECTED: return EISCONN;
    }
    memcpy(&copy, address, length < sizeof(copy) ? length : sizeof(copy));
    socket->state = RS_CONNECTING;
    error = rs_connection_ask(socket, (struct sockaddr *)&copy);
    if (error) {
        rs_end(socket, 0);
        return error;
    }
    error = rs_wait(socket, is_decided, rs_deadline(socket, 0));
    if (error)
        return error == EAGAIN ? EINPROGRESS : error;
    return socket->state == RS_CONNECTED ? 0 : take_error(socket, ECONNABORTED);
}

VB_PUBLIC int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own, connect_locked(own, addr, addrlen));
}

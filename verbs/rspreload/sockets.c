/* SPDX-License-Identifier: BSD-3-Clause
 * The life of a socket: socket, bind, listen, accept, connect, shutdown, close, its numbers. */
#include "rspreload.h"

#include "ual_mechanism.h"

#include <linux/close_range.h>
#include <stdarg.h>
#include <string.h>

/* What a socket may need and not get; for any other reason it is the kernel's alone. */
static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Closes the kernel's socket. */
static int give_up(int fd, int error)
{
    rp_next()->close(fd);
    return rp_fail(error);
}

RP_PUBLIC int socket(int domain, int type, int protocol)
{
    bool wanted = rp_wanted(domain, type, protocol, __builtin_return_address(0));
    int fd = rp_next()->socket(domain, type, protocol), rs, error;

    if (fd < 0 || !wanted)
        return fd;
    rp_watch_forks();
    rp_inside++;
    rs = rsocket(domain, SOCK_STREAM | (type & SOCK_NONBLOCK), 0);
    error = rs < 0 ? errno : rp_add(fd, rs);
    if (rs >= 0 && error)
        rclose(rs);
    if (error)
        ual_log(RI_LOG_INFO, "librspreload: descriptor %d is no rsocket: %s", fd,
                strerrordesc_np(error));
    rp_inside--;
    return is_shortage(error) ? give_up(fd, error) : fd;
}

/* ---- the passive side ---- */

/* An address that no device has is the kernel's. */
static int bind_kernel(struct rp_socket *socket, int fd, const struct sockaddr *address,
                       socklen_t length)
{
    int result = rp_next()->bind(fd, address, length);

    if (result == 0) {
        rclose(atomic_exchange(&socket->rs, -1));
        ual_log(RI_LOG_WARNING,
                "librspreload: descriptor %d: its address is that of no device: it stays an "
                "ordinary socket",
                fd);
    }
    return result;
}

RP_PUBLIC int bind(int fd, __CONST_SOCKADDR_ARG arg, socklen_t length)
{
    const struct sockaddr *address = (const struct sockaddr *)arg.__sockaddr__;
    struct rp_call call;
    int result;

    if (!rp_begin(&call, fd))
        return rp_next()->bind(fd, arg, length);
    if (rp_bind_shared(fd, address, length, &result))
        return (int)rp_end(&call, result);
    result = rbind(call.rs, address, length);
    if (result == 0 && length <= sizeof(call.socket->bound)) {
        pthread_mutex_lock(&call.socket->lock);
        memcpy(&call.socket->bound, address, length);
        call.socket->bound_length = length;
        pthread_mutex_unlock(&call.socket->lock);
    } else if (errno == ENODEV || errno == EADDRNOTAVAIL) {
        result = bind_kernel(call.socket, fd, address, length);
    }
    return (int)rp_end(&call, result);
}

RP_PUBLIC int listen(int fd, int backlog)
{
    struct rp_call call;
    int result;

    if (!rp_begin(&call, fd))
        return rp_next()->listen(fd, backlog);
    if (!rp_listen(call.socket, fd, backlog, &result))
        result = rlisten(call.rs, backlog);
    return (int)rp_end(&call, result);
}

/* The kernel's socket of an accepted rsocket. Returns its number. */
static int carry_accepted(int rs, int flags)
{
    int fd, domain = AF_INET, error;
    struct sockaddr_storage own = { 0 };
    socklen_t length = sizeof(own);

    if (rgetsockname(rs, (struct sockaddr *)&own, &length) == 0)
        domain = own.ss_family;
    fd = rp_next()->socket(domain, SOCK_STREAM | (flags & (SOCK_NONBLOCK | SOCK_CLOEXEC)), 0);
    error = fd < 0 ? errno : rp_add(fd, rs);
    if (!error && (flags & SOCK_NONBLOCK))
        rfcntl(rs, F_SETFL, O_NONBLOCK);
    if (!error)
        return fd;
    rclose(rs);
    return fd < 0 ? rp_fail(error) : give_up(fd, error);
}

static int accept_carried(struct rp_call *call, struct sockaddr *address, socklen_t *length,
                          int flags)
{
    int rs = raccept(call->rs, address, length);

    return rs < 0 ? -1 : carry_accepted(rs, flags);
}

/* From the kernel's queue. True: the descriptor is such a listener. */
static bool accept_fed(int fd, struct sockaddr *address, socklen_t *length, int flags, int *result)
{
    if (rp_inside || !rp_accept(fd, result))
        return false;
    if (*result < 0)
        return true;
    rp_inside++;
    if (address && length)
        rgetpeername(*result, address, length);
    *result = carry_accepted(*result, flags);
    rp_inside--;
    return true;
}

RP_PUBLIC int accept4(int fd, __SOCKADDR_ARG address, socklen_t *length, int flags)
{
    struct rp_call call;
    int result;

    if (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))
        return rp_next()->accept4(fd, address, length, flags); /* which fails */
    if (accept_fed(fd, address.__sockaddr__, length, flags, &result))
        return result;
    if (!rp_begin(&call, fd))
        return rp_next()->accept4(fd, address, length, flags);
    return (int)rp_end(&call, accept_carried(&call, address.__sockaddr__, length, flags));
}

RP_PUBLIC int accept(int fd, __SOCKADDR_ARG address, socklen_t *length)
{
    return accept4(fd, address, length, 0);
}

/* ---- the active side ---- */

static int connect_carried(struct rp_call *call, int fd, const struct sockaddr *address,
                           socklen_t length)
{
    struct rp_socket *socket = call->socket;
    int error = rconnect(call->rs, address, length) ? errno : 0;

    pthread_mutex_lock(&socket->lock);
    if (error == EINPROGRESS || rp_peer_may_be_plain(error)) {
        socket->peer_length = length < sizeof(socket->peer) ? length : sizeof(socket->peer);
        memcpy(&socket->peer, address, socket->peer_length);
    }
    if (rp_peer_may_be_plain(error)) {
        error = rp_fall_back(socket, fd);
        socket->peer_length = 0;
    }
    pthread_mutex_unlock(&socket->lock);
    return error ? rp_fail(error) : 0;
}

RP_PUBLIC int connect(int fd, __CONST_SOCKADDR_ARG arg, socklen_t length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->connect(fd, arg, length);
    return (int)rp_end(&call, connect_carried(&call, fd, arg.__sockaddr__, length));
}

RP_PUBLIC int shutdown(int fd, int how)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->shutdown(fd, how);
    return (int)rp_end(&call, rshutdown(call.rs, how));
}

/* ---- names ---- */

RP_PUBLIC int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->getsockname(fd, address, length);
    return (int)rp_end(&call, rp_name(call.rs, fd, address.__sockaddr__, length));
}

RP_PUBLIC int getpeername(int fd, __SOCKADDR_ARG address, socklen_t *length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->getpeername(fd, address, length);
    return (int)rp_end(&call, rgetpeername(call.rs, address.__sockaddr__, length));
}

/* ---- numbers ---- */

/* The number is about to stand for another file, or for none. */
static void forget(int fd)
{
    if (rp_inside || !rp_is_own())
        return;
    rp_epoll_closed(fd);
    rp_remove(fd);
}

RP_PUBLIC int close(int fd)
{
    forget(fd);
    return rp_next()->close(fd);
}

RP_PUBLIC int close_range(unsigned first, unsigned last, int flags)
{
    if (!rp_inside && !(flags & (int)CLOSE_RANGE_CLOEXEC) && rp_is_own())
        rp_remove_range(first, last);
    return rp_next()->close_range(first, last, flags);
}

RP_PUBLIC void closefrom(int first)
{
    if (!rp_inside && rp_is_own())
        rp_remove_range(first > 0 ? (unsigned)first : 0, UINT32_MAX);
    rp_next()->closefrom(first);
}

/* Returns `made`, a new number of the same socket. */
static int share(int fd, int made)
{
    struct rp_socket *socket;
    int error;

    if (made < 0 || rp_inside || !rp_is_own() || !(socket = rp_get(fd)))
        return made;
    error = rp_share(made, socket);
    rp_put(socket);
    return error ? give_up(made, error) : made;
}

RP_PUBLIC int dup(int fd)
{
    return share(fd, rp_next()->dup(fd));
}

/* A number is not forgotten for a call that fails. */
static bool replaces(int fd, int other)
{
    return fd != other && rp_next()->fcntl(fd, F_GETFD) >= 0;
}

RP_PUBLIC int dup2(int fd, int other)
{
    if (!replaces(fd, other))
        return rp_next()->dup2(fd, other);
    forget(other);
    return share(fd, rp_next()->dup2(fd, other));
}

RP_PUBLIC int dup3(int fd, int other, int flags)
{
    if (!replaces(fd, other))
        return rp_next()->dup3(fd, other, flags);
    forget(other);
    return share(fd, rp_next()->dup3(fd, other, flags));
}

/* ---- fcntl ---- */

static int control(__typeof__(&fcntl) next, int fd, int command, void *argument)
{
    int result = next(fd, command, argument);
    struct rp_call call;

    if (result < 0)
        return result;
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        return share(fd, result);
    if (command == F_SETFL && rp_begin(&call, fd))
        result = (int)rp_end(&call, rfcntl(call.rs, F_SETFL, (int)(intptr_t)argument));
    return result;
}

#define DEFINE_FCNTL(name)                                      \
    RP_PUBLIC int name(int fd, int command, ...)                \
    {                                                           \
        va_list list;                                           \
        void *argument;                                         \
                                                                \
        va_start(list, command);                                \
        argument = va_arg(list, void *);                        \
        va_end(list);                                           \
        return control(rp_next()->name, fd, command, argument); \
    }
DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)

/* SPDX-License-Identifier: BSD-3-Clause
 * rsetsockopt, rgetsockopt, rfcntl, rgetsockname, rgetpeername. */
#include "rsockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>

/* What a program may take for the size of a segment. */
#define SEGMENT 2048

/* Options that are one number, and how it is kept. */
enum number_kind { FLAG, OCTETS, MESSAGES, SMALL, MAPS };

static const struct number_option {
    int level, name;
    enum number_kind kind;
    size_t offset;
} numbers[] = {
    { SOL_SOCKET, SO_SNDBUF, OCTETS, offsetof(struct rs_options, send_size) },
    { SOL_SOCKET, SO_RCVBUF, OCTETS, offsetof(struct rs_options, ring_size) },
    { SOL_SOCKET, SO_REUSEADDR, FLAG, offsetof(struct rs_options, reuse) },
    { SOL_SOCKET, SO_KEEPALIVE, FLAG, offsetof(struct rs_options, keepalive) },
    { SOL_SOCKET, SO_OOBINLINE, FLAG, offsetof(struct rs_options, oob_inline) },
    { IPPROTO_TCP, TCP_NODELAY, FLAG, offsetof(struct rs_options, nodelay) },
    { IPPROTO_IPV6, IPV6_V6ONLY, FLAG, offsetof(struct rs_options, v6only) },
    { SOL_RDMA, RDMA_SQSIZE, MESSAGES, offsetof(struct rs_options, send_messages) },
    { SOL_RDMA, RDMA_RQSIZE, MESSAGES, offsetof(struct rs_options, receive_messages) },
    { SOL_RDMA, RDMA_INLINE, SMALL, offsetof(struct rs_options, small_most) },
    { SOL_RDMA, RDMA_IOMAPSIZE, MAPS, offsetof(struct rs_options, maps) },
};

static const struct number_option *find_number(int level, int name)
{
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].level == level && numbers[i].name == name)
            return &numbers[i];
    return NULL;
}

static uint32_t between(int value, uint32_t least, uint32_t most)
{
    if (value < 0 || (uint32_t)value < least)
        return least;
    return (uint32_t)value > most ? most : (uint32_t)value;
}

/* Sizes are those of the buffers from connect or accept on: a later change has no effect. */
static bool is_settled(const struct rs_socket *socket)
{
    return socket->state >= RS_CONNECTING;
}

static int set_number(struct rs_socket *socket, const struct number_option *option, int value)
{
    void *place = (uint8_t *)&socket->options + option->offset;

    if (option->kind == FLAG) {
        *(bool *)place = value != 0;
        return 0;
    }
    if (is_settled(socket) && socket->state != RS_LISTENING)
        return option->level == SOL_RDMA ? EINVAL : 0;
    switch (option->kind) {
    case OCTETS: *(uint32_t *)place = between(value, RS_RING_LEAST, RS_RING_MOST); break;
    case MESSAGES: *(uint32_t *)place = between(value, RS_MESSAGES_LEAST, RS_MESSAGES_MOST); break;
    case SMALL: *(uint32_t *)place = between(value, 0, RS_SMALL_MOST); break;
    case MAPS: *(uint16_t *)place = (uint16_t)between(value, 0, UINT16_MAX); break;
    case FLAG: break;
    }
    return 0;
}

static int get_number(const struct rs_socket *socket, const struct number_option *option)
{
    const void *place = (const uint8_t *)&socket->options + option->offset;

    switch (option->kind) {
    case FLAG: return *(const bool *)place;
    case MAPS: return *(const uint16_t *)place;
    case OCTETS:
    case MESSAGES:
    case SMALL: break;
    }
    return (int)*(const uint32_t *)place;
}

static int no_option(const char *call, int level, int name)
{
    if (level == SOL_RDMA && name == RDMA_ROUTE)
        ual_log(RI_LOG_WARNING, "%s: RDMA_ROUTE is not supported: the kernel's routes hold", call);
    else
        ual_log(RI_LOG_INFO, "%s: level %d, option %d is not supported", call, level, name);
    return level == SOL_RDMA && name == RDMA_ROUTE ? EOPNOTSUPP : ENOPROTOOPT;
}

static int set_locked(struct rs_socket *socket, int level, int name, const void *value,
                      socklen_t length)
{
    const struct number_option *option = find_number(level, name);

    if (level == SOL_SOCKET && name == SO_LINGER) {
        if (length < sizeof(struct linger) || ((const struct linger *)value)->l_linger < 0)
            return EINVAL;
        socket->options.linger = *(const struct linger *)value;
        return 0;
    }
    if (!option)
        return no_option("rsetsockopt", level, name);
    return length < sizeof(int) ? EINVAL : set_number(socket, option, *(const int *)value);
}

VB_PUBLIC int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own,
                       optval ? set_locked(own, level, optname, optval, optlen) : EFAULT);
}

static int give(void *to, socklen_t *length, const void *from, socklen_t size)
{
    if (*length > size)
        *length = size;
    memcpy(to, from, *length);
    return 0;
}

static int get_locked(struct rs_socket *socket, int level, int name, void *to, socklen_t *length)
{
    const struct number_option *option = find_number(level, name);
    int value;

    if (option) {
        value = get_number(socket, option);
    } else if (level == SOL_SOCKET && name == SO_LINGER) {
        return give(to, length, &socket->options.linger, sizeof(socket->options.linger));
    } else if (level == SOL_SOCKET && name == SO_ERROR) {
        rs_progress(socket);
        value = socket->error;
        socket->error = 0;
    } else if (level == SOL_SOCKET && name == SO_TYPE) {
        value = SOCK_STREAM;
    } else if (level == SOL_SOCKET && name == SO_ACCEPTCONN) {
        value = socket->state == RS_LISTENING;
    } else if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
        value = SEGMENT;
    } else {
        return no_option("rgetsockopt", level, name);
    }
    return give(to, length, &value, sizeof(value));
}

VB_PUBLIC int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own,
                       optval && optlen ? get_locked(own, level, optname, optval, optlen) : EFAULT);
}

/* ---- flags ---- */

static int control(struct rs_socket *socket, int command, int argument)
{
    switch (command) {
    case F_GETFL: return O_RDWR | (socket->options.nonblocking ? O_NONBLOCK : 0);
    case F_SETFL: socket->options.nonblocking = argument & O_NONBLOCK; return 0;
    case F_GETFD:
    case F_SETFD: return fcntl(socket->fd, command, argument);
    default: return rs_fail(EINVAL);
    }
}

VB_PUBLIC int rfcntl(int socket, int cmd, ...)
{
    VB_CALL;
    struct rs_socket *own = rs_enter(socket);
    int argument = 0, result;
    va_list list;

    if (!own)
        return -1;
    if (cmd == F_SETFL || cmd == F_SETFD) {
        va_start(list, cmd);
        argument = va_arg(list, int);
        va_end(list);
    }
    pthread_mutex_lock(&own->lock);
    result = control(own, cmd, argument);
    pthread_mutex_unlock(&own->lock);
    rs_leave(socket);
    return result;
}

/* ---- names ---- */

static int give_address(const struct sockaddr *from, struct sockaddr *to, socklen_t *length)
{
    socklen_t size = from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                 : sizeof(struct sockaddr_in);

    memcpy(to, from, *length < size ? *length : size);
    *length = size;
    return 0;
}

VB_PUBLIC int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs_socket *own = rs_begin_call(socket);
    int error = ENOTCONN;

    if (!own)
        return -1;
    if (own->state == RS_CONNECTED || own->state == RS_ACCEPTING)
        error = give_address(rdma_get_peer_addr(own->id), addr, addrlen);
    return rs_end_call(socket, own, error);
}

VB_PUBLIC int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs_socket *own = rs_begin_call(socket);
    struct sockaddr_storage none = { 0 };

    if (!own)
        return -1;
    none.ss_family = (sa_family_t)own->family;
    give_address(own->state == RS_NEW ? (const struct sockaddr *)&none
                                      : rdma_get_local_addr(own->id),
                 addr, addrlen);
    return rs_end_call(socket, own, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * getsockopt, setsockopt, ioctl. The rsocket answers what it knows; the kernel's socket keeps the
 * other options, which then change nothing.
 */
#include "rspreload.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The error that a connect under way has left. False: there is none. */
static bool take_error(struct rp_socket *socket, void *value, socklen_t *length)
{
    int error;

    pthread_mutex_lock(&socket->lock);
    error = socket->error;
    socket->error = 0;
    pthread_mutex_unlock(&socket->lock);
    if (!error)
        return false;
    *length = *length < sizeof(error) ? *length : sizeof(error);
    memcpy(value, &error, *length);
    return true;
}

RP_PUBLIC int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
    struct rp_call call;
    struct rp_socket *any;
    bool taken;
    int result;

    if (level == SOL_SOCKET && name == SO_ERROR && !rp_inside && (any = rp_get_any(fd))) {
        taken = take_error(any, value, length);
        rp_put(any);
        if (taken)
            return 0;
    }
    if (!rp_begin(&call, fd))
        return rp_next()->getsockopt(fd, level, name, value, length);
    result = rgetsockopt(call.rs, level, name, value, length);
    if (result && errno == ENOPROTOOPT)
        result = rp_next()->getsockopt(fd, level, name, value, length);
    return (int)rp_end(&call, result);
}

RP_PUBLIC int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    struct rp_call call;
    int result;

    if (!rp_begin(&call, fd))
        return rp_next()->setsockopt(fd, level, name, value, length);
    result = rsetsockopt(call.rs, level, name, value, length);
    if (level != SOL_RDMA && (result == 0 || errno == ENOPROTOOPT))
        result = rp_next()->setsockopt(fd, level, name, value, length);
    return (int)rp_end(&call, result);
}

/* ---- ioctl ---- */

#define PEEKED 65536u

/* FIONREAD: at most PEEKED octets are counted. */
static int count_readable(int rs, int *count)
{
    void *octets = malloc(PEEKED);
    ssize_t got;

    if (!octets)
        return rp_fail(ENOMEM);
    got = rrecv(rs, octets, PEEKED, MSG_PEEK | MSG_DONTWAIT);
    free(octets);
    if (got < 0 && errno != EAGAIN)
        return -1;
    *count = got < 0 ? 0 : (int)got;
    return 0;
}

static int control(struct rp_call *call, int fd, unsigned long request, void *argument)
{
    int result;

    if (request == FIONREAD)
        return count_readable(call->rs, argument);
    result = rp_next()->ioctl(fd, request, argument);
    if (result == 0 && request == FIONBIO)
        result = rfcntl(call->rs, F_SETFL, *(const int *)argument ? O_NONBLOCK : 0);
    return result;
}

RP_PUBLIC int ioctl(int fd, unsigned long request, ...)
{
    struct rp_call call;
    void *argument;
    va_list list;

    va_start(list, request);
    argument = va_arg(list, void *);
    va_end(list);
    if (!rp_begin(&call, fd))
        return rp_next()->ioctl(fd, request, argument);
    return (int)rp_end(&call, control(&call, fd, request, argument));
}

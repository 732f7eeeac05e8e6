/* SPDX-License-Identifier: BSD-3-Clause
 * rsend and its family. No signal is raised where a socket would raise SIGPIPE. */
#include "rsockets.h"
#include "transfer.h"

/* Other flags have no meaning here and are ignored, as the kernel does. */
#define REFUSED_FLAGS MSG_OOB

/* Sends what has room now. Returns 0 or an error number. `writing` is held. */
static int send_part(struct rs_socket *socket, struct rs_cursor *cursor, int flags)
{
    struct rs_cursor before = *cursor;
    uint32_t room = 0;
    uint8_t *at;
    int error;

    pthread_mutex_lock(&socket->lock);
    error = rs_wait(socket, rs_can_write, rs_deadline(socket, flags));
    if (!error)
        error = rs_write_error(socket);
    if (!error)
        room = rs_stream_room(socket, true, &at);
    pthread_mutex_unlock(&socket->lock);
    if (error || !room)
        return error;
    if (room > cursor->left)
        room = (uint32_t)cursor->left;
    rs_cursor_copy(cursor, at, room, false);
    pthread_mutex_lock(&socket->lock);
    if (!rs_stream_write(socket, room))
        *cursor = before; /* the reader took the last message for a CREDIT */
    pthread_mutex_unlock(&socket->lock);
    return 0;
}

static ssize_t send_all(int fd, const struct iovec *iov, size_t count, int flags)
{
    VB_CALL;
    struct rs_socket *socket = rs_enter(fd);
    struct rs_cursor cursor;
    size_t wanted = 0;
    int error = 0;

    if (!socket)
        return -1;
    if (flags & REFUSED_FLAGS)
        error = EOPNOTSUPP;
    else if (!rs_cursor_init(&cursor, iov, count))
        error = EINVAL;
    if (error)
        goto leave;
    wanted = cursor.left;
    pthread_mutex_lock(&socket->writing);
    while (!error && cursor.left)
        error = send_part(socket, &cursor, flags);
    pthread_mutex_unlock(&socket->writing);
    if (cursor.left < wanted)
        error = 0;
    wanted -= cursor.left;
leave:
    rs_leave(fd);
    return error ? rs_fail(error) : (ssize_t)wanted;
}

VB_PUBLIC ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
    struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

    return send_all(socket, &iov, 1, flags);
}

/* The address of a connected stream is ignored, as by sendto(2). */
VB_PUBLIC ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
                          const struct sockaddr *dest_addr, socklen_t addrlen)
{
    (void)dest_addr;
    (void)addrlen;
    return rsend(socket, buf, len, flags);
}

VB_PUBLIC ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
    if (!msg)
        return rs_fail(EFAULT);
    if (msg->msg_control && msg->msg_controllen)
        return rs_fail(EOPNOTSUPP);
    return send_all(socket, msg->msg_iov, msg->msg_iovlen, flags);
}

VB_PUBLIC ssize_t rwrite(int socket, const void *buf, size_t count)
{
    return rsend(socket, buf, count, 0);
}

VB_PUBLIC ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
    return iovcnt < 0 ? rs_fail(EINVAL) : send_all(socket, iov, (size_t)iovcnt, 0);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * rrecv and its family. */
#include "rsockets.h"
#include "transfer.h"

/* Other flags have no meaning here and are ignored, as the kernel does. */
#define REFUSED_FLAGS (MSG_OOB | MSG_ERRQUEUE | MSG_TRUNC)

/* Why nothing is there to be read; 0: the end of the stream. Under the lock. */
static int read_error(struct rs_socket *socket)
{
    int error = socket->error;

    if (socket->read_shut)
        return 0;
    switch (socket->state) {
    case RS_NEW:
    case RS_BOUND:
    case RS_LISTENING: return ENOTCONN;
    case RS_ENDED:
        if (socket->stream.fin_received)
            return 0;
        socket->error = 0;
        return error;
    case RS_CONNECTING:
    case RS_ACCEPTING:
    case RS_CONNECTED: break;
    }
    return 0;
}

/* Copies what is there, without a lock: the sender does not overwrite what is not read. */
static void copy_out(struct rs_socket *socket, struct rs_cursor *cursor, uint32_t length, bool peek)
{
    uint32_t done = 0, part;
    const uint8_t *at;

    while (done < length) {
        pthread_mutex_lock(&socket->lock);
        part = rs_stream_filled(socket, done, &at);
        pthread_mutex_unlock(&socket->lock);
        if (part > length - done)
            part = length - done;
        rs_cursor_copy(cursor, (uint8_t *)(uintptr_t)at, part, true);
        done += part;
    }
    if (peek)
        return;
    pthread_mutex_lock(&socket->lock);
    rs_stream_read(socket, length);
    rs_stream_control(socket);
    pthread_mutex_unlock(&socket->lock);
}

/* *ended: nothing more will come. Returns 0 or an error number. `reading` is held. */
static int receive_part(struct rs_socket *socket, struct rs_cursor *cursor, int flags, bool *ended)
{
    uint32_t length;
    int error;

    pthread_mutex_lock(&socket->lock);
    error = rs_wait(socket, rs_can_read, rs_deadline(socket, flags));
    length = error || socket->read_shut ? 0 : socket->stream.filled;
    if (!error && !length) {
        error = read_error(socket);
        *ended = true;
    }
    pthread_mutex_unlock(&socket->lock);
    if (length > cursor->left)
        length = (uint32_t)cursor->left;
    if (length)
        copy_out(socket, cursor, length, flags & MSG_PEEK);
    return error;
}

static ssize_t receive_all(int fd, const struct iovec *iov, size_t count, int flags)
{
    VB_CALL;
    struct rs_socket *socket = rs_enter(fd);
    bool ended = false, all = (flags & MSG_WAITALL) && !(flags & MSG_PEEK);
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
    pthread_mutex_lock(&socket->reading);
    while (!error && cursor.left && !ended && (all || cursor.left == wanted))
        error = receive_part(socket, &cursor, flags, &ended);
    pthread_mutex_unlock(&socket->reading);
    wanted -= cursor.left;
    if (wanted)
        error = 0;
leave:
    rs_leave(fd);
    return error ? rs_fail(error) : (ssize_t)wanted;
}

VB_PUBLIC ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
    struct iovec iov = { .iov_base = buf, .iov_len = len };

    return receive_all(socket, &iov, 1, flags);
}

/* As recvfrom(2) does for a stream: the address is not returned. */
VB_PUBLIC ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
                            socklen_t *addrlen)
{
    if (src_addr && addrlen)
        *addrlen = 0;
    return rrecv(socket, buf, len, flags);
}

VB_PUBLIC ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    if (!msg)
        return rs_fail(EFAULT);
    msg->msg_namelen = 0;
    msg->msg_controllen = 0;
    msg->msg_flags = 0;
    return receive_all(socket, msg->msg_iov, msg->msg_iovlen, flags);
}

VB_PUBLIC ssize_t rread(int socket, void *buf, size_t count)
{
    return rrecv(socket, buf, count, 0);
}

VB_PUBLIC ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
    return iovcnt < 0 ? rs_fail(EINVAL) : receive_all(socket, iov, (size_t)iovcnt, 0);
}

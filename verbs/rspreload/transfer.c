/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The calls that move octets. Those of the fortified headers (-D_FORTIFY_SOURCE) are functions of
 * their own in libc.
 */
#include "rspreload.h"

/* ---- receiving ---- */

/* Ends a call that receives up to `wanted` octets. */
static ssize_t received(struct rp_call *call, ssize_t got, size_t wanted)
{
    if (got < 0 ? errno == EAGAIN : (size_t)got < wanted)
        atomic_fetch_add(&call->socket->drained_in, 1);
    return rp_end(call, got);
}

static size_t length_of(const struct iovec *iov, size_t count)
{
    size_t length = 0;

    for (size_t i = 0; i < count; i++)
        length += iov[i].iov_len;
    return length;
}

RP_PUBLIC ssize_t recv(int fd, void *buf, size_t length, int flags)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->recv(fd, buf, length, flags);
    return received(&call, rrecv(call.rs, buf, length, flags), length);
}

RP_PUBLIC ssize_t recvfrom(int fd, void *buf, size_t length, int flags, __SOCKADDR_ARG from,
                           socklen_t *from_length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->recvfrom(fd, buf, length, flags, from, from_length);
    return received(&call, rrecvfrom(call.rs, buf, length, flags, from.__sockaddr__, from_length),
                    length);
}

RP_PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->recvmsg(fd, message, flags);
    return received(&call, rrecvmsg(call.rs, message, flags),
                    length_of(message->msg_iov, message->msg_iovlen));
}

RP_PUBLIC ssize_t read(int fd, void *buf, size_t length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->read(fd, buf, length);
    return received(&call, rread(call.rs, buf, length), length);
}

RP_PUBLIC ssize_t readv(int fd, const struct iovec *iov, int count)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->readv(fd, iov, count);
    return received(&call, rreadv(call.rs, iov, count),
                    count > 0 ? length_of(iov, (size_t)count) : 0);
}

ssize_t __read_chk(int fd, void *buf, size_t length, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t length, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t size, int flags,
                       __SOCKADDR_ARG from, socklen_t *from_length);
void __chk_fail(void) __attribute__((noreturn));

static void check(size_t length, size_t size)
{
    if (length > size)
        __chk_fail();
}

RP_PUBLIC ssize_t __read_chk(int fd, void *buf, size_t length, size_t size)
{
    check(length, size);
    return read(fd, buf, length);
}

RP_PUBLIC ssize_t __recv_chk(int fd, void *buf, size_t length, size_t size, int flags)
{
    check(length, size);
    return recv(fd, buf, length, flags);
}

RP_PUBLIC ssize_t __recvfrom_chk(int fd, void *buf, size_t length, size_t size, int flags,
                                 __SOCKADDR_ARG from, socklen_t *from_length)
{
    check(length, size);
    return recvfrom(fd, buf, length, flags, from, from_length);
}

/* ---- sending ---- */

/* Ends a call that sends up to `wanted` octets. Where a socket of the kernel's raises SIGPIPE, this
 * does. */
static ssize_t sent(struct rp_call *call, ssize_t done, size_t wanted, int flags)
{
    if (done < 0 ? errno == EAGAIN : (size_t)done < wanted)
        atomic_fetch_add(&call->socket->drained_out, 1);
    done = rp_end(call, done);
    if (done < 0 && errno == EPIPE && !(flags & MSG_NOSIGNAL)) {
        raise(SIGPIPE);
        errno = EPIPE;
    }
    return done;
}

RP_PUBLIC ssize_t send(int fd, const void *buf, size_t length, int flags)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->send(fd, buf, length, flags);
    return sent(&call, rsend(call.rs, buf, length, flags), length, flags);
}

RP_PUBLIC ssize_t sendto(int fd, const void *buf, size_t length, int flags, __CONST_SOCKADDR_ARG to,
                         socklen_t to_length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->sendto(fd, buf, length, flags, to, to_length);
    return sent(&call, rsend(call.rs, buf, length, flags), length, flags);
}

RP_PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->sendmsg(fd, message, flags);
    return sent(&call, rsendmsg(call.rs, message, flags),
                length_of(message->msg_iov, message->msg_iovlen), flags);
}

RP_PUBLIC ssize_t write(int fd, const void *buf, size_t length)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->write(fd, buf, length);
    return sent(&call, rwrite(call.rs, buf, length), length, 0);
}

RP_PUBLIC ssize_t writev(int fd, const struct iovec *iov, int count)
{
    struct rp_call call;

    if (!rp_begin(&call, fd))
        return rp_next()->writev(fd, iov, count);
    return sent(&call, rwritev(call.rs, iov, count), count > 0 ? length_of(iov, (size_t)count) : 0,
                0);
}

/* ---- sendfile ---- */

#define FILE_PART 65536u

/* Sends from the file's place *at on. Returns the number of octets, or -1 if there are none. */
static ssize_t send_file(int rs, int file, off_t *at, size_t count)
{
    char part[FILE_PART];
    size_t done = 0;

    while (done < count) {
        size_t wanted = count - done < sizeof(part) ? count - done : sizeof(part);
        ssize_t got = pread(file, part, wanted, *at);
        ssize_t gone = got > 0 ? rsend(rs, part, (size_t)got, 0) : got;

        if (gone < 0)
            return done ? (ssize_t)done : -1;
        *at += gone;
        done += (size_t)gone;
        if (gone < got || !got)
            break;
    }
    return (ssize_t)done;
}

/* Without an offset the file's own one is used, and moved. */
static ssize_t send_from(int rs, int file, off_t *offset, size_t count)
{
    off_t at = offset ? *offset : lseek(file, 0, SEEK_CUR);
    ssize_t done = at < 0 ? rp_fail(EINVAL) : send_file(rs, file, &at, count);

    if (done > 0 && offset)
        *offset = at;
    else if (done > 0)
        lseek(file, at, SEEK_SET);
    return done;
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "the two calls have the same offsets");

#define DEFINE_SENDFILE(name)                                                  \
    RP_PUBLIC ssize_t name(int to, int file, off_t *offset, size_t count)      \
    {                                                                          \
        struct rp_call call;                                                   \
                                                                               \
        if (!rp_begin(&call, to))                                              \
            return rp_next()->name(to, file, offset, count);                   \
        return sent(&call, send_from(call.rs, file, offset, count), count, 0); \
    }
DEFINE_SENDFILE(sendfile)
DEFINE_SENDFILE(sendfile64)

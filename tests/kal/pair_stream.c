/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream that is not TCP; see pair_stream.h. */
#include "pair_stream.h"
#include "tc.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#define ENDS  1024
#define QUEUE 8

/* By descriptor. */
static struct end {
    bool used, listens;
    union address local, peer;
    /* Of a listener */
    int queue[QUEUE];
    unsigned waiting;
} ends[ENDS];

static in_port_t ports;

static struct end *end_of(int fd)
{
    ck_assert_int_ge(fd, 0);
    ck_assert_int_lt(fd, ENDS);
    ck_assert_msg(ends[fd].used, "descriptor %d is no stream of this table", fd);
    return &ends[fd];
}

static int new_end(int fd, const union address *local, const union address *peer)
{
    ck_assert_int_lt(fd, ENDS);
    ck_assert(!ends[fd].used);
    ends[fd] = (struct end){ .used = true, .local = *local, .peer = *peer };
    return fd;
}

unsigned pair_open(void)
{
    unsigned count = 0;

    for (size_t i = 0; i < ENDS; i++)
        count += ends[i].used;
    return count;
}

static struct end *listener_at(const union address *address)
{
    for (size_t i = 0; i < ENDS; i++)
        if (ends[i].used && ends[i].listens &&
            ends[i].local.four.sin_port == address->four.sin_port)
            return &ends[i];
    return NULL;
}

static int pair_connect(const union address *source, const union address *destination,
                        const struct cm_stream_options *options, int *fd, int *refused)
{
    struct end *listener = listener_at(destination);
    union address local = *destination;
    uint64_t one = 1;
    int both[2];

    (void)source;
    ck_assert_ptr_nonnull(options->rnic);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both), 0);
    local.four.sin_port = htons(9);
    *fd = new_end(both[0], &local, destination);
    *refused = listener ? 0 : ECONNREFUSED;
    if (!listener) {
        close(both[1]);
        return 0;
    }
    ck_assert_uint_lt(listener->waiting, QUEUE);
    listener->queue[listener->waiting++] = new_end(both[1], destination, &local);
    ck_assert_int_eq(write((int)(listener - ends), &one, sizeof(one)), sizeof(one));
    return 0;
}

static int pair_connected(int fd)
{
    end_of(fd);
    return 0;
}

static int pair_listen(const struct sockaddr *address, bool v6only,
                       const struct cm_stream_options *options, int *fd,
                       struct sockaddr_storage *bound)
{
    union address local, none = { .any = { .sa_family = AF_UNSPEC } };

    (void)v6only;
    (void)options;
    address_set(&local, address);
    if (local.four.sin_port && listener_at(&local))
        return EADDRINUSE;
    if (!local.four.sin_port)
        local.four.sin_port = htons(++ports);
    *fd = new_end(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC), &local, &none);
    ends[*fd].listens = true;
    *bound = address_storage(&local);
    return 0;
}

/* No process is started with one of these. */
static const char *pair_unlike(int fd, union address *bound)
{
    (void)fd;
    (void)bound;
    return "it is no pair";
}

static int pair_inherit(int fd, const struct cm_stream_options *options, int *own)
{
    (void)fd;
    (void)options;
    (void)own;
    return ENOTSUP;
}

static int pair_accept(int fd, int *made, union address *peer)
{
    struct end *listener = end_of(fd);
    uint64_t one;

    ck_assert(listener->listens);
    if (read(fd, &one, sizeof(one)) < 0)
        return errno;
    *made = listener->queue[0];
    *peer = end_of(*made)->peer;
    memmove(listener->queue, listener->queue + 1, --listener->waiting * sizeof(*listener->queue));
    return 0;
}

static const char *pair_unfit(int fd)
{
    int type;
    socklen_t length = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) ? "it is no pair" : NULL;
}

static int pair_adopt(int fd, const struct cm_stream_options *options, int *own)
{
    union address nameless = { .four = { .sin_family = AF_INET } };

    (void)options;
    *own = new_end(fcntl(fd, F_DUPFD_CLOEXEC, 0), &nameless, &nameless);
    return 0;
}

/* A consumer's descriptor has no addresses before it is adopted. */
static void pair_addresses(int fd, union address *local, union address *peer)
{
    if (fd < ENDS && !ends[fd].used)
        return;
    *local = end_of(fd)->local;
    *peer = end_of(fd)->peer;
}

static ssize_t pair_receive(int fd, void *octets, size_t room)
{
    end_of(fd);
    return recv(fd, octets, room, MSG_DONTWAIT);
}

static ssize_t pair_peek(int fd)
{
    char octet;

    end_of(fd);
    return recv(fd, &octet, 1, MSG_DONTWAIT | MSG_PEEK);
}

/* A stream may accept only a few octets at a time. */
static ssize_t pair_send(int fd, const void *octets, size_t length)
{
    end_of(fd);
    return send(fd, octets, length < 7 ? length : 7, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool pair_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    end_of(fd);
    return poll(&p, 1, 0) == 1;
}

static bool pair_delivered(int fd)
{
    end_of(fd);
    return true;
}

static int pair_finish(int fd)
{
    end_of(fd);
    return shutdown(fd, SHUT_WR) ? errno : 0;
}

/* Unix sockets abort by themselves if octets are unread. */
static void pair_abort_on_close(int fd)
{
    end_of(fd);
}

static void pair_shut(int fd)
{
    if (!end_of(fd)->listens)
        shutdown(fd, SHUT_RDWR);
}

static void pair_close(int fd)
{
    end_of(fd)->used = false;
    close(fd);
}

/* ---- what the provider calls ---- */

static int number_of(void *stream)
{
    int fd = (int)((struct end *)stream - ends);

    end_of(fd);
    return fd;
}

static ssize_t carried_send(void *stream, const struct iovec *iov, int count)
{
    ssize_t sent = writev(number_of(stream), iov, count);

    return sent < 0 ? -errno : sent;
}

static ssize_t carried_receive(void *stream, void *octets, size_t room)
{
    ssize_t got = read(number_of(stream), octets, room);

    return got < 0 ? -errno : got;
}

static uint32_t carried_segment(void *stream)
{
    number_of(stream);
    return 1024;
}

static void carried_finish(void *stream)
{
    pair_finish(number_of(stream));
}

static void carried_close(void *stream, bool reset)
{
    (void)reset;
    pair_close(number_of(stream));
}

static const struct ri_stream_ops carried = { .size = sizeof(carried),
                                              .send = carried_send,
                                              .receive = carried_receive,
                                              .segment = carried_segment,
                                              .finish = carried_finish,
                                              .close = carried_close };

static void *pair_carry(int fd)
{
    return end_of(fd);
}

const struct cm_stream_ops pair_stream = {
    .connect = pair_connect,
    .connected = pair_connected,
    .listen = pair_listen,
    .unlike = pair_unlike,
    .inherit = pair_inherit,
    .accept = pair_accept,
    .unfit = pair_unfit,
    .adopt = pair_adopt,
    .addresses = pair_addresses,
    .receive = pair_receive,
    .peek = pair_peek,
    .send = pair_send,
    .readable = pair_readable,
    .delivered = pair_delivered,
    .finish = pair_finish,
    .abort_on_close = pair_abort_on_close,
    .shut = pair_shut,
    .close = pair_close,
    .carried = &carried,
    .carry = pair_carry,
};

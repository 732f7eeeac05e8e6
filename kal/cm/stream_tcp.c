/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP for the connection manager: every socket call on a peer's connection or listener. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel limits it to net.core.somaxconn */
#define LISTEN_QUEUE INT_MAX

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

static socklen_t length_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void set_int(const struct kal_rnic *rnic, int fd, int level, int name, int value,
                    const char *what)
{
    if (setsockopt(fd, level, name, &value, sizeof(value)))
        kal_rnic_log(rnic, RI_LOG_DEBUG, "%s=%d cannot be set on a socket: %s", what, value,
                     strerror(errno));
}

static void set_options(int fd, const struct cm_stream_options *options)
{
    const struct kal_rnic *rnic = options->rnic;

    set_int(rnic, fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    if (options->user_timeout)
        set_int(rnic, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)options->user_timeout,
                "tcp_user_timeout");
    if (!options->keepalive)
        return;
    set_int(rnic, fd, SOL_SOCKET, SO_KEEPALIVE, 1, "keepalive");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPIDLE, options->keepalive_idle, "keepalive_idle");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPINTVL, options->keepalive_interval,
            "keepalive_interval");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPCNT, options->keepalive_count, "keepalive_count");
}

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
}

/* ---- connect ---- */

static int bind_source(int fd, const union address *source)
{
    int one = 1;

    if (source->any.sa_family == AF_UNSPEC)
        return 0;
    /* A fixed port may be in TIME_WAIT from the previous attempt; connect chooses a free one. */
    if (source->any.sa_family == AF_INET ? source->four.sin_port : source->six.sin6_port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    else
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof(one));
    return bind(fd, &source->any, length_of(&source->any));
}

static int tcp_connect(const union address *source, const union address *destination,
                       const struct cm_stream_options *options, int *fd, int *refused)
{
    int made = new_socket(destination->any.sa_family), error = 0;

    if (made < 0)
        return errno;
    set_options(made, options);
    if (bind_source(made, source) || connect(made, &destination->any, length_of(&destination->any)))
        error = errno;
    if (error && error != EINPROGRESS && error != EINTR && error != ECONNREFUSED) {
        close(made);
        return error;
    }
    *refused = error == ECONNREFUSED ? error : 0;
    *fd = made;
    return 0;
}

static int tcp_connected(int fd)
{
    struct sockaddr_storage peer;
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
        return errno;
    length = sizeof(peer);
    if (!error && getpeername(fd, (struct sockaddr *)&peer, &length))
        error = errno == ENOTCONN ? EAGAIN : errno;
    return error;
}

/* ---- listen ---- */

static int tcp_listen(const struct sockaddr *address, bool v6only,
                      const struct cm_stream_options *options, int *fd,
                      struct sockaddr_storage *bound)
{
    int made = new_socket(address->sa_family), one = 1, only = v6only, error;
    int share = options->share_port;
    socklen_t length = sizeof(*bound);

    if (made < 0)
        return errno;
    if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        setsockopt(made, SOL_SOCKET, SO_REUSEPORT, &share, sizeof(share)) ||
        (address->sa_family == AF_INET6 &&
         setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only))) ||
        bind(made, address, length_of(address)) || listen(made, LISTEN_QUEUE)) {
        error = errno;
        close(made);
        return error;
    }
    set_options(made, options);
    memset(bound, 0, sizeof(*bound));
    getsockname(made, (struct sockaddr *)bound, &length);
    *fd = made;
    return 0;
}

/* NULL: a TCP socket that listens. Otherwise what is wrong. */
static const char *tcp_unlike(int fd, union address *bound)
{
    int type = 0, protocol = 0, listens = 0;
    socklen_t length = sizeof(type);

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length))
        return errno == EBADF ? "it is not open" : "it is no socket";
    length = sizeof(protocol);
    if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) ||
        protocol != IPPROTO_TCP)
        return "it is no TCP socket";
    length = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) || !listens)
        return "it does not listen";
    length = sizeof(*bound);
    memset(bound, 0, sizeof(*bound));
    return getsockname(fd, &bound->any, &length) ? "it has no address" : NULL;
}

/* TCP_DEFER_ACCEPT: a peer that has sent nothing stays in the kernel's queue, for whoever listens
 * on the socket next. */
static int tcp_inherit(int fd, const struct cm_stream_options *options, int *own)
{
    int made = fcntl(fd, F_DUPFD_CLOEXEC, 0), error;

    if (made < 0)
        return errno;
    if (fcntl(made, F_SETFL, fcntl(made, F_GETFL) | O_NONBLOCK)) {
        error = errno;
        close(made);
        return error;
    }
    set_options(made, options);
    set_int(options->rnic, made, IPPROTO_TCP, TCP_DEFER_ACCEPT, options->silence,
            "TCP_DEFER_ACCEPT");
    *own = made;
    return 0;
}

/* Returns the peer's address from accept(2): getpeername(2) has none if the peer has reset
 * meanwhile. */
static int tcp_accept(int listener, int *fd, union address *peer)
{
    socklen_t length = sizeof(*peer);
    int made;

    memset(peer, 0, sizeof(*peer));
    made = accept4(listener, &peer->any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0)
        return errno;
    *fd = made;
    return 0;
}

/* ---- conversion ---- */

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

/* True: the kernel transforms the octets (TLS). The protocol's name has at most 16 octets. */
static bool carries_protocol(int fd)
{
    char name[16] = "";
    socklen_t length = sizeof(name);

    return !getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &length) && length && name[0];
}

/* NULL: a TCP connection with both directions open. Otherwise what is wrong. */
static const char *tcp_unfit(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };
    int type = 0, protocol = 0;
    socklen_t length = sizeof(type);
    struct sockaddr_storage address;
    struct tcp_info info;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length))
        return "it is no socket";
    length = sizeof(protocol);
    if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) ||
        protocol != IPPROTO_TCP)
        return "it is no TCP socket";
    length = sizeof(address);
    if (getpeername(fd, (struct sockaddr *)&address, &length))
        return "it is not connected";
    length = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) &&
        info.tcpi_state != TCP_ESTABLISHED)
        return "one of its directions is closed";
    if (poll(&p, 1, 0) == 1 && p.revents & (POLLRDHUP | POLLHUP))
        return "one of its directions is closed";
    if (p.revents & POLLERR) /* it would stay readable for ever */
        return "an error or a notification waits on it (SO_ERROR, MSG_ERRQUEUE); take it first";
    if (carries_protocol(fd))
        return "a protocol of the kernel carries its octets (TCP_ULP, such as TLS)";
    return NULL;
}

/* Undoes options that the consumer may have set and that would hold octets back, or abort at the
 * end. */
static void undo_options(int fd, const struct kal_rnic *rnic)
{
    const struct linger none = { .l_onoff = 0 };

    set_int(rnic, fd, IPPROTO_TCP, TCP_CORK, 0, "TCP_CORK");
    set_int(rnic, fd, SOL_SOCKET, SO_RCVLOWAT, 1, "SO_RCVLOWAT");
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

/* The open file's flags are shared with the consumer and are not changed: every call has
 * MSG_DONTWAIT. */
static int tcp_adopt(int fd, const struct cm_stream_options *options, int *own)
{
    int made = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (made < 0)
        return errno;
    undo_options(made, options->rnic);
    set_options(made, options);
    *own = made;
    return 0;
}

/* ---- addresses ---- */

/* An IPv4 peer of a dual-stack listener is an IPv4 peer for policy and ual. */
static void unmap(union address *address)
{
    const struct sockaddr_in6 *six = &address->six;
    struct sockaddr_in four = { .sin_family = AF_INET };

    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    four.sin_port = six->sin6_port;
    memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof(four.sin_addr));
    memset(address, 0, sizeof(*address));
    memcpy(address, &four, sizeof(four));
}

static void tcp_addresses(int fd, union address *local, union address *peer)
{
    socklen_t length = sizeof(*local);

    if (!getsockname(fd, &local->any, &length))
        unmap(local);
    length = sizeof(*peer);
    getpeername(fd, &peer->any, &length); /* if it fails, the address from accept(2) remains */
    unmap(peer);
}

/* ---- octets ---- */

static ssize_t receive(int fd, void *octets, size_t room, int flags)
{
    ssize_t got;

    do
        got = recv(fd, octets, room, MSG_DONTWAIT | flags);
    while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t tcp_receive(int fd, void *octets, size_t room)
{
    return receive(fd, octets, room, 0);
}

static ssize_t tcp_peek(int fd)
{
    char octet;

    return receive(fd, &octet, 1, MSG_PEEK);
}

static ssize_t tcp_send(int fd, const void *octets, size_t length)
{
    ssize_t sent;

    do
        sent = send(fd, octets, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static bool tcp_readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

static bool tcp_delivered(int fd)
{
    int unacknowledged = 0;

    return !ioctl(fd, SIOCOUTQ, &unacknowledged) && !unacknowledged;
}

/* ---- end ---- */

static int tcp_finish(int fd)
{
    return shutdown(fd, SHUT_WR) ? errno : 0;
}

static void tcp_abort_on_close(int fd)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

static void tcp_shut(int fd)
{
    shutdown(fd, SHUT_RDWR);
}

static void tcp_close(int fd)
{
    close(fd);
}

const struct cm_stream_ops cm_stream_tcp = {
    .connect = tcp_connect,
    .connected = tcp_connected,
    .listen = tcp_listen,
    .unlike = tcp_unlike,
    .inherit = tcp_inherit,
    .accept = tcp_accept,
    .unfit = tcp_unfit,
    .adopt = tcp_adopt,
    .addresses = tcp_addresses,
    .receive = tcp_receive,
    .peek = tcp_peek,
    .send = tcp_send,
    .readable = tcp_readable,
    .delivered = tcp_delivered,
    .finish = tcp_finish,
    .abort_on_close = tcp_abort_on_close,
    .shut = tcp_shut,
    .close = tcp_close,
};

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lower layer: a TCP socket. System calls that libc makes cancellation points are made
 * directly, so that a consumer's thread is never cancelled in the middle of a pass. The open file
 * may be shared with the consumer (socket conversion): its flags stay as they are, MSG_DONTWAIT is
 * given with each call.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h> /* libc's own has fewer members of struct tcp_info */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif
#define SYSTEM_KEEPCNT 9u   /* net.ipv4.tcp_keepalive_probes, unless an administrator changed it */
#define EMSS_UNKNOWN   536u /* RFC 9293 3.7.1: the default MSS of IPv4 */

/*
 * Writes of one end before it sends happen before reads of the other end after it receives.
 * ThreadSanitizer cannot see that through the kernel. If both ends are in one process (tests),
 * these functions tell it: one object per pair of ports.
 */
#if defined(__SANITIZE_THREAD__)
#define TELL_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TELL_ORDER 1
#endif
#endif
#ifdef TELL_ORDER
void __tsan_acquire(void *place);
void __tsan_release(void *place);

static void *wire(int fd)
{
    static char wires[65536];
    struct sockaddr_storage ends[2] = { { 0 } };
    socklen_t lengths[2] = { sizeof(ends[0]), sizeof(ends[1]) };

    if (getsockname(fd, (struct sockaddr *)&ends[0], &lengths[0]) ||
        getpeername(fd, (struct sockaddr *)&ends[1], &lengths[1]))
        return &wires[0];
    return &wires[((struct sockaddr_in *)&ends[0])->sin_port ^
                  ((struct sockaddr_in *)&ends[1])->sin_port];
}
#define order_sent(fd)     __tsan_release(wire(fd))
#define order_received(fd) __tsan_acquire(wire(fd))
#else
#define order_sent(fd)     ((void)(fd))
#define order_received(fd) ((void)(fd))
#endif

/* The system has no memory for it now. That passes, like a full socket, and the octets are still
 * there. */
static ssize_t not_sent(int error)
{
    return error == ENOBUFS || error == ENOMEM ? -EAGAIN : -error;
}

static ssize_t tcp_send(struct stream *stream, const struct iovec *iov, int count)
{
    const struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count };
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    long sent;

    order_sent(stream->fd);
    do
        if (count == 1) /* the kernel copies less */
            sent = syscall(SYS_sendto, stream->fd, iov->iov_base, iov->iov_len, flags, NULL, 0);
        else
            sent = syscall(SYS_sendmsg, stream->fd, &message, flags);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? not_sent(errno) : sent;
}

static ssize_t tcp_receive(struct stream *stream, void *buffer, size_t length)
{
    long received;

    do
        received = syscall(SYS_recvfrom, stream->fd, buffer, length, MSG_DONTWAIT, NULL, NULL);
    while (received < 0 && errno == EINTR);
    if (received >= 0)
        order_received(stream->fd);
    return received < 0 ? -errno : received;
}

static ssize_t tcp_receive_two(struct stream *stream, void *buffer, size_t length, void *behind,
                               size_t more)
{
    struct iovec iov[] = { { buffer, length }, { behind, more } };
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
    long received;

    do
        received = syscall(SYS_recvmsg, stream->fd, &message, MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    if (received >= 0)
        order_received(stream->fd);
    return received < 0 ? -errno : received;
}

static uint32_t tcp_emss(struct stream *stream)
{
    int emss = 0;
    socklen_t length = sizeof(emss);

    if (getsockopt(stream->fd, IPPROTO_TCP, TCP_MAXSEG, &emss, &length) || emss <= 0)
        return EMSS_UNKNOWN;
    return (uint32_t)emss;
}

static void tcp_finish(struct stream *stream)
{
    shutdown(stream->fd, SHUT_WR);
}

/* The child of a fork may hold a copy of the descriptor: to close this one alone would end
 * nothing. */
static void tcp_close(struct stream *stream, bool reset)
{
    if (reset) {
        const struct linger linger = { .l_onoff = 1, .l_linger = 0 };
        const struct sockaddr none = { .sa_family = AF_UNSPEC };

        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        /* "Disconnect": a RST, sent at once. */
        syscall(SYS_connect, stream->fd, &none, sizeof(none));
    } else {
        shutdown(stream->fd, SHUT_RDWR);
    }
    syscall(SYS_close, stream->fd);
    stream->fd = -1;
}

/* A RST empties the queues, but not these counts. That of acknowledged octets has the SYN in it on
 * the side that sent the first one. */
static uint64_t unacknowledged(const struct tcp_info *info)
{
    uint64_t written = info->tcpi_bytes_sent - info->tcpi_bytes_retrans + info->tcpi_notsent_bytes;

    return written > info->tcpi_bytes_acked ? written - info->tcpi_bytes_acked : 0;
}

/* If an acknowledgement came in the same tick in which the last octets left, it counts as
 * theirs. If it was not, they are sent again. */
static void tcp_waits(struct stream *stream, struct llp_wait *wait)
{
    struct tcp_info info = { .tcpi_unacked = 0 };
    socklen_t length = sizeof(info);

    *wait = (struct llp_wait){ .octets = false };
    if (getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
        return;
    wait->octets = info.tcpi_unacked || info.tcpi_notsent_bytes;
    wait->unacknowledged = unacknowledged(&info);
    wait->probes = info.tcpi_probes;
    wait->asked = info.tcpi_probes ||
                  (info.tcpi_unacked && info.tcpi_last_data_sent < info.tcpi_last_ack_recv);
    wait->repeats = info.tcpi_total_retrans;
    wait->heard_ago_ns = info.tcpi_last_ack_recv * CLOCK_NS_PER_MS;
}

const struct llp_ops llp_tcp = {
    .send = tcp_send,
    .receive = tcp_receive,
    .emss = tcp_emss,
    .finish = tcp_finish,
    .close = tcp_close,
    .waits = tcp_waits,
    .receive_two = tcp_receive_two,
};

static void set_option(int fd, int level, int name, uint32_t value)
{
    int number = (int)value;

    setsockopt(fd, level, name, &number, sizeof(number));
}

/* The host may have set the same options during the start-up: the one that it sets last shows
 * that. */
static bool is_prepared(int fd, const struct iwarp_options *options)
{
    unsigned int count = 0;
    socklen_t length = sizeof(count);

    return options->keepalive_idle_s && options->keepalive_count != SYSTEM_KEEPCNT &&
           !getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, &length) &&
           count == options->keepalive_count;
}

/* During an outage, or while the window is closed, TCP probes ever less often. This bounds the
 * interval for ack_timeout. TCP's own bounds are 1 s and 120 s. */
static void bound_backoff(int fd, const struct iwarp_options *options)
{
    uint64_t most = options->ack_timeout_ns / CLOCK_NS_PER_MS / LLP_ACK_LOOKS;

    if (most)
        set_option(fd, IPPROTO_TCP, TCP_RTO_MAX_MS,
                   most < 1000     ? 1000
                   : most > 120000 ? 120000
                                   : (uint32_t)most);
}

static bool is_loopback(const struct in6_addr *address)
{
    bool v4 = IN6_IS_ADDR_V4MAPPED(address);

    return v4 ? address->s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(address);
}

/* IPv4 as mapped into IPv6. False: neither of them. */
static bool ip_address(const struct sockaddr *from, struct in6_addr *address)
{
    if (from->sa_family == AF_INET6) {
        *address = ((const struct sockaddr_in6 *)from)->sin6_addr;
        return true;
    }
    if (from->sa_family != AF_INET)
        return false;
    *address = (struct in6_addr){ .s6_addr = { [10] = 0xFF, [11] = 0xFF } };
    memcpy(&address->s6_addr[12], &((const struct sockaddr_in *)from)->sin_addr, 4);
    return true;
}

bool llp_same_host(const struct sockaddr *local, const struct sockaddr *peer)
{
    struct in6_addr here, there;

    if (!ip_address(local, &here) || !ip_address(peer, &there))
        return false;
    return IN6_ARE_ADDR_EQUAL(&here, &there) || (is_loopback(&here) && is_loopback(&there));
}

static bool can_bind(const struct sockaddr_storage *address, socklen_t length)
{
    int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && !bind(fd, (const struct sockaddr *)address, length);

    if (fd >= 0)
        close(fd);
    return can;
}

/* Of the same kind: one that no host has (240.0.0.1, and of RFC 6666). */
static void make_foreign(struct sockaddr_storage *address)
{
    struct in6_addr *v6 = &((struct sockaddr_in6 *)address)->sin6_addr;

    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(0xF0000001);
    else if (IN6_IS_ADDR_V4MAPPED(v6))
        memcpy(&v6->s6_addr[12], (const uint8_t[]){ 240, 0, 0, 1 }, 4);
    else
        *v6 = (struct in6_addr){ .s6_addr = { [0] = 1, [15] = 1 } };
}

/* An address can be bound to when it is one of this host's; with sysctl ip_nonlocal_bind any can,
 * and nothing is known. */
static bool is_own_address(const struct sockaddr_storage *address, socklen_t length)
{
    struct sockaddr_storage tried = *address;

    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&tried)->sin6_port = 0;
    else if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)&tried)->sin_port = 0;
    else
        return false;
    if (!can_bind(&tried, length))
        return false;
    make_foreign(&tried);
    return !can_bind(&tried, length);
}

static bool is_same_host(int fd)
{
    struct sockaddr_storage ends[2];
    socklen_t lengths[2] = { sizeof(ends[0]), sizeof(ends[1]) };

    if (getsockname(fd, (struct sockaddr *)&ends[0], &lengths[0]) ||
        getpeername(fd, (struct sockaddr *)&ends[1], &lengths[1]))
        return false;
    return llp_same_host((struct sockaddr *)&ends[0], (struct sockaddr *)&ends[1]) ||
           is_own_address(&ends[1], lengths[1]);
}

static bool use_congestion(int fd, const char *name)
{
    return !setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

/* Pacing delays what could be copied at once between two processes of one host. */
static void choose_congestion(int fd, const char *wanted)
{
    if (strcmp(wanted, "auto") != 0) {
        if (wanted[0])
            use_congestion(fd, wanted);
    } else if (is_same_host(fd) && !use_congestion(fd, "reno")) {
        use_congestion(fd, "cubic");
    }
}

static void set_options(int fd, const struct iwarp_options *options)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (options->tcp_user_timeout_ms)
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, options->tcp_user_timeout_ms);
    if (options->keepalive_idle_s) {
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, options->keepalive_idle_s);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, options->keepalive_interval_s);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, options->keepalive_count);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    }
}

/* A refused option is no reason to refuse the connection: each is only an improvement. */
void llp_tcp_prepare(int fd, const struct iwarp_options *options)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags >= 0 && !(flags & FD_CLOEXEC))
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    bound_backoff(fd, options);
    if (!is_prepared(fd, options))
        set_options(fd, options);
    choose_congestion(fd, options->congestion);
}

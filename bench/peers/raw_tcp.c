/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain TCP: the base line of the comparison.
 *
 * The settings are those that trials found best. TCP_NODELAY is on and the kernel sizes the socket
 * buffers. One send() carries a whole message. A polling end spins on MSG_DONTWAIT instead of
 * sleeping in the call. The receiver of a stream reads up to 256 KiB at once into memory that stays
 * in its cache. With --batch many messages leave in one gathered write, each as an element of its
 * own. With --pause both ends of a round trip do nothing for so long before they send: this is the
 * tail of a program that takes so much longer than TCP, and adds no disturbance of its own. With
 * --timer both ends set a timer anew when so much time has passed, while they wait for the answer:
 * this is the tail of a program that notices in time when its caller no longer polls.
 */
#include "peer.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define READ_AT_ONCE (256u << 10)
#define IOV_AT_MOST  1024 /* the kernel's limit */

/* True: the socket would block; try again. */
static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void send_all(int fd, const char *data, size_t length, int flags)
{
    size_t at = 0;

    while (at < length) {
        ssize_t n = send(fd, data + at, length - at, flags | MSG_NOSIGNAL);

        if (n > 0)
            at += (size_t)n;
        else if (!again(n))
            peer_die_errno("send");
    }
}

/* False: the stream has ended before the first octet. */
static bool recv_all(int fd, char *data, size_t length, int flags)
{
    size_t at = 0;

    while (at < length) {
        ssize_t n = recv(fd, data + at, length - at, flags);

        if (n > 0)
            at += (size_t)n;
        else if (n == 0 && at == 0)
            return false;
        else if (!again(n))
            peer_die("the stream ends in the middle of a message");
    }
    return true;
}

/* A timer that is set anew `every` ns, and ends a third of that later if it is not. */
struct put_off {
    int fd;
    uint64_t every, last;
};

static struct put_off put_off_new(uint64_t every)
{
    struct put_off timer = { -1, every, 0 };

    if (every && (timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) < 0)
        peer_die_errno("timerfd_create");
    return timer;
}

static void put_off(struct put_off *timer)
{
    uint64_t now = timer->every ? peer_now() : 0, end = now + timer->every + timer->every / 3;
    struct itimerspec at = { .it_value = { (time_t)(end / 1000000000), (long)(end % 1000000000) } };

    if (!timer->every || now - timer->last < timer->every)
        return;
    if (timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &at, NULL))
        peer_die_errno("timerfd_settime");
    timer->last = now;
}

/* What has been sent needs a while to be answered: time for what is not in a hurry. */
static void send_message(int fd, const char *data, size_t size, int flags, struct put_off *timer)
{
    send_all(fd, data, size, flags);
    put_off(timer);
}

static void pause_ns(uint64_t ns)
{
    uint64_t until = ns ? peer_now() + ns : 0;

    while (until && peer_now() < until)
        ;
}

static void latency(struct peer *peer, int fd, int flags)
{
    size_t size = peer->plan.size;
    char *data = peer_memory(size, 'r');
    struct put_off timer = put_off_new(peer->plan.timer);
    uint64_t count = 0;

    peer_start(peer);
    if (peer->server) {
        for (; recv_all(fd, data, size, flags); count++) {
            pause_ns(peer->plan.pause);
            send_message(fd, data, size, flags, &timer);
        }
    } else {
        do {
            pause_ns(peer->plan.pause);
            send_message(fd, data, size, flags, &timer);
            if (!recv_all(fd, data, size, flags))
                peer_die("the server is gone");
            count++;
        } while (peer_lap(peer));
        shutdown(fd, SHUT_WR);
    }
    peer_finish(peer, 2 * count, 2 * count * size);
}

/* ---- streams ---- */

/* Sends `count` messages by one gathered write, then whatever the socket did not take. */
static void send_batch(int fd, char *data, size_t size, size_t count, int flags)
{
    struct iovec iov[IOV_AT_MOST];
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = count };

    for (size_t i = 0; i < count; i++)
        iov[i] = (struct iovec){ data, size };
    while (message.msg_iovlen) {
        ssize_t n = sendmsg(fd, &message, flags | MSG_NOSIGNAL);

        if (again(n))
            continue;
        if (n < 0)
            peer_die_errno("sendmsg");
        while (message.msg_iovlen && (size_t)n >= message.msg_iov->iov_len) {
            n -= (ssize_t)message.msg_iov->iov_len;
            message.msg_iov++, message.msg_iovlen--;
        }
        if (n) {
            message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + n;
            message.msg_iov->iov_len -= (size_t)n;
        }
    }
}

static void stream_from(struct peer *peer, int fd, int flags)
{
    size_t size = peer->plan.size, batch = peer->plan.batch / size;
    char *data = peer_memory(size, 'r');
    uint64_t count = 0;

    if (batch > IOV_AT_MOST)
        batch = IOV_AT_MOST;
    peer_start(peer);
    while (peer_more(peer, count)) {
        if (batch <= 1) {
            send_all(fd, data, size, flags);
            count++;
        } else {
            size_t now = peer->limit - count < batch ? (size_t)(peer->limit - count) : batch;

            send_batch(fd, data, size, now, flags);
            count += now;
        }
        peer_stream(peer, count);
    }
    shutdown(fd, SHUT_WR);
    peer_finish(peer, count, count * size);
}

static void stream_to(struct peer *peer, int fd, int flags)
{
    size_t room = READ_AT_ONCE;
    char *data = peer_memory(room, 0);
    uint64_t octets = 0, size = peer->plan.size;

    peer_start(peer);
    for (;;) {
        ssize_t n = recv(fd, data, room, flags);

        if (n == 0)
            break;
        if (again(n))
            continue;
        if (n < 0)
            peer_die_errno("recv");
        octets += (uint64_t)n;
        peer_stream(peer, octets / size);
    }
    peer_finish(peer, octets / size, octets);
}

static void run(struct peer *peer)
{
    int fd = peer_data_socket(peer), flags = peer->plan.event ? 0 : MSG_DONTWAIT;
    char congestion[16] = "";
    socklen_t length = sizeof(congestion) - 1;
    struct utsname system;

    uname(&system);
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &length);
    snprintf(peer->library, sizeof(peer->library), "Linux %.30s TCP %s", system.release,
             congestion);
    if (peer->plan.mode == PEER_LAT)
        latency(peer, fd, flags);
    else if (peer->server)
        stream_to(peer, fd, flags);
    else
        stream_from(peer, fd, flags);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct peer_program program = {
        .name = "raw_tcp",
        .ops = PEER_OP(PEER_SEND),
        .batches = true,
        .run = run,
    };

    return peer_main(argc, argv, &program);
}

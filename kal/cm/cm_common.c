/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: who is inside an object (the rules: cm.c), addresses, socket options, reading and writing. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

/* ---- guard ---- */

void cm_guard_init(struct cm_guard *guard)
{
    pthread_mutex_init(&guard->lock, NULL);
    guard->waits = NULL;
    guard->runs = NULL;
    guard->refs = 1;
    guard->dead = false;
}

void cm_guard_end(struct cm_guard *guard)
{
    pthread_mutex_destroy(&guard->lock);
}

void cm_tell(struct cm_guard *guard)
{
    for (struct cm_wait *wait = guard->waits; wait; wait = wait->next)
        pthread_cond_signal(&wait->told);
}

/* Not inlined, as cm_enter. */
__attribute__((noinline)) void cm_wait_told(struct cm_guard *guard)
{
    struct cm_wait wait = { PTHREAD_COND_INITIALIZER, guard->waits };
    struct cm_wait **link = &guard->waits;

    guard->waits = &wait;
    pthread_cond_wait(&wait.told, &guard->lock);
    while (*link != &wait)
        link = &(*link)->next;
    *link = wait.next;
    pthread_cond_destroy(&wait.told);
}

/* Not inlined: gcc 12 takes the run, unlinked by cm_leave, for a dangling pointer. */
__attribute__((noinline)) bool cm_enter(struct cm_guard *guard, struct cm_run *run)
{
    pthread_mutex_lock(&guard->lock);
    if (guard->dead) {
        pthread_mutex_unlock(&guard->lock);
        return false;
    }
    guard->refs++;
    run->thread = pthread_self();
    run->next = guard->runs;
    guard->runs = run;
    return true;
}

bool cm_leave(struct cm_guard *guard, struct cm_run *run)
{
    struct cm_run **link = &guard->runs;
    bool last;

    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    last = --guard->refs == 0;
    cm_tell(guard);
    pthread_mutex_unlock(&guard->lock);
    return last;
}

void cm_hold(struct cm_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    guard->refs++;
    pthread_mutex_unlock(&guard->lock);
}

bool cm_drop(struct cm_guard *guard)
{
    bool last;

    pthread_mutex_lock(&guard->lock);
    last = --guard->refs == 0;
    pthread_mutex_unlock(&guard->lock);
    return last;
}

static bool others_inside(const struct cm_guard *guard)
{
    for (const struct cm_run *run = guard->runs; run; run = run->next)
        if (!pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

bool cm_inside(struct cm_guard *guard)
{
    for (const struct cm_run *run = guard->runs; run; run = run->next)
        if (pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

void cm_wait_others(struct cm_guard *guard)
{
    while (others_inside(guard))
        cm_wait_told(guard);
}

void cm_kill(struct cm_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    guard->dead = true;
    cm_wait_others(guard);
    pthread_mutex_unlock(&guard->lock);
}

/* ---- small things ---- */

bool cm_is_set_a(const struct kal_rnic *rnic)
{
    return rnic->attr.features & RI_FEATURE_CONNECTION_SET_A;
}

uint64_t cm_by(uint64_t deadline, uint64_t own)
{
    if (deadline == RI_NO_DEADLINE || !deadline)
        return clock_after(clock_now(), own);
    return deadline;
}

/* An IPv4 peer of a dual-stack listener is an IPv4 peer for policy and for ual. */
static void unmap(union address *address)
{
    const struct sockaddr_in6 *six = &address->six;
    struct sockaddr_in four = { .sin_family = AF_INET };

    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    four.sin_port = six->sin6_port;
    memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof four.sin_addr);
    memset(address, 0, sizeof *address);
    memcpy(address, &four, sizeof four);
}

void cm_addresses(struct cm_stream *stream)
{
    socklen_t length = sizeof stream->local;

    if (!getsockname(stream->fd, &stream->local.any, &length))
        unmap(&stream->local);
    length = sizeof stream->peer;
    getpeername(stream->fd, &stream->peer.any, &length); /* where it fails: as accept(2) said */
    unmap(&stream->peer);
}

void cm_capture(struct kal_connection *connection)
{
    const struct sockaddr_storage local = address_storage(&connection->stream.local);
    const struct sockaddr_storage peer = address_storage(&connection->stream.peer);

    connection->stream.capture = kal_capture_begin(connection->rnic, &local, &peer,
                                                   connection->initiator);
}

void cm_capture_end(struct cm_stream *stream)
{
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_CLOSE);
    stream->capture = NULL;
}

int cm_send_end(struct cm_stream *stream)
{
    int result;

    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    result = shutdown(stream->fd, SHUT_WR);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_FIN);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
    return result;
}

void cm_reset_on_close(struct cm_stream *stream)
{
    const struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RST);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
}

static void set_int(struct kal_rnic *rnic, int fd, int level, int name, int value, const char *what)
{
    if (setsockopt(fd, level, name, &value, sizeof value))
        kal_rnic_log(rnic, RI_LOG_DEBUG, "%s=%d cannot be set on a socket: %s", what, value,
                     strerror(errno));
}

void cm_socket_options(struct kal_rnic *rnic, int fd)
{
    const struct cm_options *options = &rnic->cm->options;

    set_int(rnic, fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    if (options->tcp_user_timeout)
        set_int(rnic, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)options->tcp_user_timeout,
                "tcp_user_timeout");
    if (!options->keepalive)
        return;
    set_int(rnic, fd, SOL_SOCKET, SO_KEEPALIVE, 1, "keepalive");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPIDLE, options->keepalive_idle, "keepalive_idle");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPINTVL, options->keepalive_interval,
            "keepalive_interval");
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPCNT, options->keepalive_count, "keepalive_count");
}

uint16_t cm_depth(uint32_t asked, uint32_t limit)
{
    if (asked > limit)
        asked = limit;
    return asked < MPA_STARTUP_NO_DEPTH ? (uint16_t)asked : MPA_STARTUP_NO_DEPTH - 1;
}

bool cm_meter(struct cm_meter *meter, char *more, size_t size)
{
    uint64_t now = clock_now();

    if (now < meter->next) {
        meter->held++;
        return false;
    }
    more[0] = '\0';
    if (meter->held)
        snprintf(more, size, " (%llu more of this kind since the last line)",
                 (unsigned long long)meter->held);
    meter->held = 0;
    meter->next = clock_after(now, CLOCK_NS_PER_S);
    return true;
}

ssize_t cm_read(struct cm_stream *stream)
{
    ssize_t got;

    do
        got = recv(stream->fd, stream->octets + stream->length,
                   MPA_STARTUP_FRAME_MAX - stream->length, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        kal_capture_octets(stream->capture, RI_RECEIVE, stream->octets + stream->length,
                           (size_t)got);
        stream->length += (uint32_t)got;
    } else if (got == 0) {
        kal_capture_mark(stream->capture, RI_RECEIVE, RI_CAPTURE_FIN);
    } else if (errno == ECONNRESET) {
        kal_capture_mark(stream->capture, RI_RECEIVE, RI_CAPTURE_RST);
        errno = ECONNRESET;
    }
    return got;
}

static ssize_t send_some(struct cm_stream *stream, const uint8_t *octets, size_t length)
{
    ssize_t n;
    int error;

    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    n = send(stream->fd, octets, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    error = errno;
    if (n > 0)
        kal_capture_octets(stream->capture, RI_TRANSMIT, octets, (size_t)n);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
    errno = error;
    return n;
}

/* Want of memory in the system passes, as a full socket does. */
static bool is_for_now(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

int cm_write(struct cm_stream *stream, const uint8_t *octets, size_t length, size_t *sent)
{
    while (*sent < length) {
        ssize_t n = send_some(stream, octets + *sent, length - *sent);

        if (n >= 0)
            *sent += (size_t)n;
        else if (is_for_now(errno))
            return 0;
        else if (errno != EINTR)
            return -1;
    }
    return 1;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for rsockets. Before it sleeps, a thread enters itself as a sleeper, arms the CQ, and
 * looks again: what changes later wakes it, through the CQ's channel or by another thread.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rsockets.h"

#include <poll.h>
#include <utlist.h>

static void take_channel_events(struct rs_socket *socket)
{
    struct ibv_cq *cq;
    unsigned count = 0;
    void *context;

    socket->ask_cm = true;
    if (!socket->stream.channel)
        return;
    while (!ibv_get_cq_event(socket->stream.channel, &cq, &context))
        count++;
    if (!count)
        return;
    ibv_ack_cq_events(socket->stream.cq, count);
    socket->stream.armed = false;
    rs_wake(socket);
}

void rs_sleep_begin(struct rs_socket *socket, struct rs_sleeper *sleeper)
{
    struct rs_stream *stream = &socket->stream;

    if (stream->cq && !stream->armed)
        stream->armed = ibv_req_notify_cq(stream->cq, 0) == 0;
    rs_progress(socket);
    DL_APPEND(socket->sleepers, sleeper);
}

void rs_sleep_end(struct rs_socket *socket, struct rs_sleeper *sleeper, bool readable)
{
    DL_DELETE(socket->sleepers, sleeper);
    if (readable)
        take_channel_events(socket);
}

/* Under the lock, which is released in between. */
static int sleep_once(struct rs_socket *socket, bool (*ready)(const struct rs_socket *),
                      uint64_t deadline)
{
    struct rs_sleeper sleeper = { .fd = rs_sleeper_fd() };
    struct pollfd fds[] = { { .fd = socket->fd, .events = POLLIN },
                            { .fd = sleeper.fd, .events = POLLIN } };
    int count, error;

    if (sleeper.fd < 0)
        return errno;
    rs_sleep_begin(socket, &sleeper);
    if (socket->closing || ready(socket)) {
        rs_sleep_end(socket, &sleeper, false);
        return 0;
    }
    pthread_mutex_unlock(&socket->lock);
    count = poll(fds, ARRAY_SIZE(fds), clock_poll_ms(clock_now(), deadline));
    error = count < 0 ? errno : 0;
    if (count > 0 && fds[1].revents)
        rs_sleeper_clear();
    pthread_mutex_lock(&socket->lock);
    rs_sleep_end(socket, &sleeper, count > 0 && fds[0].revents);
    return error;
}

/* Lets others in between two looks. */
static void spin(struct rs_socket *socket, bool (*ready)(const struct rs_socket *))
{
    uint64_t end = clock_now() + RS_SPIN_NS;

    do {
        pthread_mutex_unlock(&socket->lock);
        pthread_mutex_lock(&socket->lock);
        rs_progress(socket);
    } while (!socket->closing && !ready(socket) && clock_now() < end);
}

int rs_wait(struct rs_socket *socket, bool (*ready)(const struct rs_socket *), uint64_t deadline)
{
    int error = 0;

    rs_progress(socket);
    if (deadline && !socket->closing && !ready(socket))
        spin(socket, ready);
    for (;;) {
        if (socket->closing)
            return EBADF;
        if (ready(socket))
            return 0;
        if (error)
            return error;
        if (!deadline || clock_now() >= deadline)
            return EAGAIN;
        error = sleep_once(socket, ready, deadline);
        rs_progress(socket);
    }
}

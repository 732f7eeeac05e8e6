/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for rsockets. Before it sleeps, a thread enters itself as a sleeper, arms the CQ, and
 * looks again: what changes later wakes it, through the CQ's channel or by another thread.
 *
 * One thread of a connected rsocket sleeps in a lane first: what arrives wakes it and not a
 * background thread that would wake it. Events of the connection do not, so after LANE_US it sleeps
 * as the others do, in poll(2).
 */
#include "rsockets.h"

#include <poll.h>
#include <utlist.h>

#define LANE_US 10000u

static void on_channel_event(struct rs_socket *socket)
{
    ibv_ack_cq_events(socket->stream.cq, 1);
    socket->stream.armed = false;
    rs_wake(socket);
}

static void take_channel_events(struct rs_socket *socket)
{
    bool was_for_lane = false;
    struct ibv_cq *cq;

    socket->ask_cm = true;
    if (!socket->stream.channel)
        return;
    while (!vb_cq_wait(socket->stream.channel, 0, &cq)) {
        if (cq)
            on_channel_event(socket);
        else
            was_for_lane = true;
    }
    if (!was_for_lane)
        return;
    socket->woken = false;
    if (socket->lane_sleeper)
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

/* Under the lock, which is released in between. 0, EINTR, or EAGAIN: nothing came for LANE_US. */
static int sleep_in_lane(struct rs_socket *socket, bool (*ready)(const struct rs_socket *),
                         uint64_t deadline)
{
    struct rs_sleeper sleeper = { .fd = -1 };
    uint64_t now = clock_now(), most = clock_after(now, LANE_US * CLOCK_NS_PER_US);
    struct ibv_cq *cq = NULL;
    int error = 0;

    if (most > deadline)
        most = deadline > now ? deadline : now + 1;
    rs_sleep_begin(socket, &sleeper);
    if (!socket->closing && !ready(socket)) {
        socket->lane_sleeper = true;
        pthread_mutex_unlock(&socket->lock);
        error = vb_cq_wait(socket->stream.channel, (most - now + 999) / CLOCK_NS_PER_US, &cq);
        pthread_mutex_lock(&socket->lock);
        vb_cq_wait_purge(socket->stream.channel);
        socket->lane_sleeper = socket->woken = false;
    }
    rs_sleep_end(socket, &sleeper, false);
    if (!error && cq)
        on_channel_event(socket);
    return error;
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
    bool lane = true;
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
        lane = lane && socket->state == RS_CONNECTED && !socket->lane_sleeper;
        error = lane ? sleep_in_lane(socket, ready, deadline) : sleep_once(socket, ready, deadline);
        if (lane && error && error != EINTR) {
            lane = false;
            error = 0;
        }
        rs_progress(socket);
    }
}

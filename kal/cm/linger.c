/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: sockets that have sent everything and wait for the peer's end. Closing a
 * socket with unread input resets the connection, and the reset may make the peer lose a rejecting
 * Reply. So input is read and dropped until the peer's FIN, close_timeout, or a bound of octets.
 * The number of lingers is bounded too.
 */
#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <utlist.h>

#define LINGERS_MAX 1024
#define DRAIN_MAX   (256u * 1024) /* octets; a peer that sends more does not read a Reply */

struct cm_linger {
    struct cm_lifetime lifetime;
    struct kal_rnic *rnic;
    void *lane;
    struct cm_stream stream;
    size_t drained;
    struct ri_watch *watch;
    struct ri_timer timer;
    bool taken;                    /* a thread is ending it; under cm->lock */
    struct cm_linger *prev, *next; /* cm->lingers, until only the memory is left */
};

static void linger_free(struct cm_linger *linger)
{
    cm_lifetime_end(&linger->lifetime);
    free(linger);
}

static bool take(struct cm_linger *linger)
{
    struct kal_cm *cm = linger->rnic->cm;
    bool ours;

    pthread_mutex_lock(&cm->lock);
    ours = !linger->taken;
    linger->taken = true;
    pthread_mutex_unlock(&cm->lock);
    return ours;
}

/* Ends a linger that this thread has taken; no other thread is inside. Any thread. After this
 * kal_cm_close may succeed, so the RNIC is not used. */
static void end(struct cm_linger *linger)
{
    const struct kal_upper *upper = linger->rnic->upper;
    struct kal_cm *cm = linger->rnic->cm;

    if (linger->watch)
        upper->unwatch(linger->watch);
    upper->timer_cancel(linger->lane, &linger->timer);
    cm_stream_close(&linger->stream, false);
    pthread_mutex_lock(&cm->lock);
    DL_DELETE(cm->lingers, linger);
    cm->linger_count--;
    pthread_cond_broadcast(&cm->changed);
    pthread_mutex_unlock(&cm->lock);
}

/* Called in a run, whose reference is dropped later. */
static void finish(struct cm_linger *linger)
{
    cm_assert_run(&linger->lifetime);
    if (!take(linger)) /* cm_linger_end_all ends it */
        return;
    linger->lifetime.dead = true;
    linger->lifetime.refs--;
    end(linger);
}

static void ready(void *arg, uint32_t events)
{
    struct cm_linger *linger = arg;
    struct cm_run run;
    char octets[4096];
    ssize_t n;

    (void)events;
    if (!cm_enter(&linger->lifetime, &run))
        return;
    n = linger->stream.ops->receive(linger->stream.fd, octets, sizeof(octets));
    if (n > 0) {
        kal_capture_octets(linger->stream.capture, RI_RECEIVE, octets, (size_t)n);
        linger->drained += (size_t)n;
    } else if (n == 0) {
        kal_capture_mark(linger->stream.capture, RI_RECEIVE, RI_CAPTURE_FIN);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN) || linger->drained > DRAIN_MAX)
        finish(linger);
    if (cm_leave(&linger->lifetime, &run))
        linger_free(linger);
}

static void expired(struct ri_timer *timer)
{
    struct cm_linger *linger = (struct cm_linger *)(void *)((char *)timer -
                                                            offsetof(struct cm_linger, timer));
    struct cm_run run;

    if (!cm_enter(&linger->lifetime, &run))
        return;
    finish(linger);
    if (cm_leave(&linger->lifetime, &run))
        linger_free(linger);
}

void cm_linger(struct kal_rnic *rnic, void *lane, struct cm_stream *stream)
{
    struct kal_cm *cm = rnic->cm;
    struct cm_linger *linger = calloc(1, sizeof(*linger));
    bool room;

    if (!linger) {
        cm_stream_close(stream, false);
        return;
    }
    linger->stream = *stream;
    linger->stream.octets = NULL;
    stream->fd = -1;
    stream->capture = NULL;
    cm_lifetime_init(&linger->lifetime);
    linger->rnic = rnic;
    linger->lane = lane;
    linger->timer.expired = expired;
    linger->timer.deadline = clock_after(clock_now(), cm->options.close_timeout);

    /* Listing, watch and timer are one step: a run waits for the lock. */
    pthread_mutex_lock(&linger->lifetime.lock);
    pthread_mutex_lock(&cm->lock);
    room = cm->linger_count < LINGERS_MAX;
    if (room) {
        DL_APPEND(cm->lingers, linger);
        cm->linger_count++;
    }
    pthread_mutex_unlock(&cm->lock);
    if (room && !rnic->upper->watch(lane, linger->stream.fd, EPOLLIN | EPOLLRDHUP, ready, linger,
                                    &linger->watch)) {
        rnic->upper->timer_set(lane, &linger->timer);
        pthread_mutex_unlock(&linger->lifetime.lock);
        return;
    }
    pthread_mutex_unlock(&linger->lifetime.lock);
    if (!room) {
        cm_stream_close(&linger->stream, false);
        linger_free(linger);
    } else if (take(linger)) { /* without the watch no run can have begun */
        end(linger);
        linger_free(linger);
    }
}

void cm_to_linger(struct kal_connection *connection)
{
    if (connection->stream.fd >= 0)
        cm_linger(connection->rnic, connection->lane, &connection->stream);
}

void cm_linger_end_all(struct kal_rnic *rnic)
{
    struct kal_cm *cm = rnic->cm;
    struct cm_linger *linger;

    pthread_mutex_lock(&cm->lock);
    while (cm->lingers) {
        DL_FOREACH (cm->lingers, linger)
            if (!linger->taken)
                break;
        if (!linger) {
            pthread_cond_wait(&cm->changed, &cm->lock); /* a run is ending it */
            continue;
        }
        linger->taken = true;
        pthread_mutex_unlock(&cm->lock);
        cm_kill(&linger->lifetime);
        end(linger);
        if (cm_drop(&linger->lifetime))
            linger_free(linger);
        pthread_mutex_lock(&cm->lock);
    }
    pthread_mutex_unlock(&cm->lock);
}

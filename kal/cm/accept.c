/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: when a listener accepts, and when it pauses.
 *
 * A listener bounds what unknown peers can make it hold (C-019). Option half_open bounds start-ups
 * whose Request is incomplete. Option backlog bounds undecided requests, including those in the
 * queue of requests.c. At either bound the listener stops accepting, and further peers wait in the
 * kernel's queue. Accepted start-ups are not dropped, and a complete Request is never dropped for
 * lack of room, so start-ups that were under way may exceed the backlog.
 *
 * There is one exception: if a peer waits in the kernel's queue and the oldest start-up is older
 * than GRACE, that start-up is ended. An honest peer sends its Request at once, so no peer can
 * block others by holding places. The same start-up is ended if there are no descriptors. If none
 * is old enough, the listener closes its spare descriptor for a moment, accepts one peer and closes
 * that connection. If even that fails, it tries again a little later.
 *
 * A socket that the process was started with outlives the listener, and another process may accept
 * what this one leaves in the kernel's queue. So that no request is lost when this one stops, its
 * listener takes no peer that it cannot report in the same run: the kernel keeps back those that
 * have sent nothing yet, and while a request waits for room none is accepted.
 *
 * A peer for which there is no memory, place in the quota or descriptor is reset, and the log says
 * so, once a second: it may try again. An orderly end would be the answer of a peer that speaks
 * revision 1 only. One that the policy denies gets that orderly end, before its Request is read.
 *
 * Whoever has a copy of the socket can end it by shutdown(2). Then it is ready for ever, also for
 * no event, and accept(2) fails for ever. Such a listener is not watched any more: it accepts none,
 * and the requests that it has stay what they are.
 */
#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

#define ACCEPTS_PER_RUN 16
#define RESUME_DELAY    (100 * CLOCK_NS_PER_MS)
#define LANE_DELAY      (5 * CLOCK_NS_PER_MS)
#define GRACE           (500 * CLOCK_NS_PER_MS)

/* As ops->accept. */
static int accept_one(struct kal_listener *l, int *fd, union address *peer)
{
    return l->rnic->cm->stream_ops->accept(l->fd, fd, peer);
}

void cm_open_spare(struct kal_cm *cm)
{
    int fd, none = -1;

    if (cm->spare_fd >= 0)
        return;
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !atomic_compare_exchange_strong(&cm->spare_fd, &none, fd))
        close(fd);
}

/* The socket reports an end, as none does that listens. False: it is so, and the listener accepts
 * none from now on. Lane, locked. */
static bool still_listens(struct kal_listener *l)
{
    struct ri_watch *watch = l->watch;
    union address bound;
    const char *why = l->rnic->cm->stream_ops->unlike(l->fd, &bound);

    cm_assert_run(&l->lifetime);
    if (!why)
        return true;
    l->watch = NULL;
    l->paused = l->ended = true;
    l->rnic->upper->unwatch(watch);
    kal_rnic_log(l->rnic, RI_LOG_ERROR,
                 "listener %s accepts no further connection: its socket was ended by this process "
                 "or another that has it (%s); end the listener and create it again",
                 l->name, why);
    return false;
}

static void reset_at_once(const struct kal_listener *l, int fd)
{
    const struct cm_stream_ops *ops = l->rnic->cm->stream_ops;

    ops->abort_on_close(fd);
    ops->close(fd);
}

/* No descriptors: resets the connection of one waiting peer. False: not possible now. */
static bool turn_away(struct kal_listener *l)
{
    struct kal_cm *cm = l->rnic->cm;
    int spare = atomic_exchange(&cm->spare_fd, -1), fd, error;
    union address peer;

    cm_assert_run(&l->lifetime);
    atomic_fetch_add_explicit(&l->no_descriptor, 1, memory_order_relaxed);
    kal_rnic_log(l->rnic, RI_LOG_ERROR,
                 "listener %s: out of file descriptors, connections are turned away; raise the "
                 "limit (ulimit -n; of the whole system: fs.file-max) or close some",
                 l->name);
    if (spare < 0)
        return false;
    close(spare);
    error = accept_one(l, &fd, &peer);
    if (!error)
        reset_at_once(l, fd);
    cm_open_spare(cm);
    return error != EMFILE && error != ENFILE;
}

/* Pauses until that time, or until cm_listener_room. Lane, locked. */
static void pause_accept(struct kal_listener *l, uint64_t until)
{
    cm_assert_run(&l->lifetime);
    l->paused = true;
    l->rnic->upper->rewatch(l->watch, 0);
    if (until == CLOCK_NEVER)
        return;
    cm_show_next(l); /* the timer may have been set to report a request */
    l->resume.deadline = until;
    l->rnic->upper->timer_set(l->lane, &l->resume);
}

bool cm_start_up(struct kal_listener *listener, struct kal_connection *connection)
{
    struct kal_listener *l = listener;
    struct kal_connection *c = connection;
    const struct sockaddr *local = &c->stream.local.any;
    const struct sockaddr *peer = &c->stream.peer.any;

    pthread_mutex_lock(&c->lifetime.lock); /* it can be seen already: kal_cm_connections */
    cm_addresses(&c->stream);
    if (kal_rnic_policy(l->rnic, RI_POLICY_REQUEST, local, peer)) {
        pthread_mutex_unlock(&c->lifetime.lock);
        return false;
    }
    if (!cm_count(c)) { /* which says so itself */
        cm_reset_on_close(&c->stream);
        pthread_mutex_unlock(&c->lifetime.lock);
        return false;
    }
    cm_capture(c);
    cm_hold(&l->lifetime);
    c->listener = l;
    c->role = &cm_passive_role;
    c->state = CM_STARTING;
    pthread_mutex_lock(&l->lifetime.lock);
    DL_APPEND2(l->starting, c, listed_prev, listed_next);
    c->listed = c->fresh = true;
    c->startup->began = clock_now();
    l->half_open++;
    pthread_mutex_unlock(&l->lifetime.lock);

    cm_deadline(c, clock_after(c->startup->began, l->rnic->cm->options.request_timeout));
    if (cm_watch(c, EPOLLIN | EPOLLRDHUP)) {
        cm_reset_on_close(&c->stream);
        pthread_mutex_unlock(&c->lifetime.lock);
        cm_log_memory(l);
        if (!cm_claim(c))
            return true;
        cm_remove(l, c);
        return false;
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    return true;
}

static struct kal_connection *oldest_start_up(const struct kal_listener *l)
{
    struct kal_connection *c;

    cm_assert_locked(&l->lifetime);
    DL_FOREACH2 (l->starting, c, listed_next)
        if (c->fresh && !c->claimed)
            break;
    return c;
}

/* Ends the oldest start-up. Its peer gets a reset: it could take an orderly end for an answer.
 * Lane, locked; the lock is released meanwhile. */
static void evict(struct kal_listener *l, struct kal_connection *oldest)
{
    uint32_t count = l->half_open;

    cm_assert_run(&l->lifetime);
    cm_unlist(l, oldest);
    pthread_mutex_unlock(&l->lifetime.lock);
    atomic_fetch_add_explicit(&l->crowded, 1, memory_order_relaxed);
    kal_rnic_log(l->rnic, RI_LOG_WARNING,
                 "listener %s: %u connections have not sent their MPA Request yet, the oldest is "
                 "dropped for a further one; %s",
                 l->name, count,
                 count < l->half_open_max ? "out of file descriptors: raise the limit (ulimit -n)"
                                          : "raise half_open or lower request_timeout");
    cm_reset_on_close(&oldest->stream);
    kal_connection_destroy(oldest);
    pthread_mutex_lock(&l->lifetime.lock);
}

/* True: a peer waits, or a peer has sent something. */
static bool readable(const struct kal_listener *l, int fd)
{
    return l->rnic->cm->stream_ops->readable(fd);
}

/* True: the listener may accept one more. False: it is paused. Lane, locked. */
static bool has_room(struct kal_listener *l)
{
    struct kal_connection *oldest;
    uint64_t end;

    cm_assert_run(&l->lifetime);
    if (l->undecided + l->queued >= l->backlog) {
        pause_accept(l, CLOCK_NEVER);
        return false;
    }
    if (l->passed && l->queued) {
        pause_accept(l, CLOCK_NEVER);
        return false;
    }
    if (l->half_open < l->half_open_max)
        return true;
    if (!readable(l, l->fd)) /* no peer waits; the next one calls this again */
        return false;
    oldest = oldest_start_up(l);
    end = oldest ? oldest->startup->began + GRACE : CLOCK_NEVER;
    if (end <= clock_now() && !readable(l, oldest->stream.fd)) {
        evict(l, oldest);
        return true;
    }
    if (end <= clock_now()) /* this lane is late: the Request may have come */
        end = clock_after(clock_now(), LANE_DELAY);
    pause_accept(l, end);
    return false;
}

static void take(struct kal_listener *l, int fd, const union address *peer)
{
    struct kal_connection *c;

    c = cm_connection_new(l->rnic, l->lane, NULL);
    if (!c) {
        reset_at_once(l, fd);
        cm_log_memory(l);
        return;
    }
    pthread_mutex_lock(&c->lifetime.lock);
    c->stream.fd = fd;
    c->stream.peer = *peer;
    pthread_mutex_unlock(&c->lifetime.lock);
    if (!cm_start_up(l, c))
        kal_connection_destroy(c);
    else if (l->passed)
        cm_run_now(c);
}

/* No descriptors: ends a start-up that is old enough, or closes one waiting peer's connection.
 * False: paused, or no peer waits (accept(2) checks for descriptors first). Lane, locked. */
static bool make_descriptor(struct kal_listener *l)
{
    struct kal_connection *oldest = oldest_start_up(l);

    cm_assert_run(&l->lifetime);
    if (!readable(l, l->fd))
        return false;
    if (oldest && oldest->startup->began + GRACE <= clock_now() &&
        !readable(l, oldest->stream.fd)) {
        evict(l, oldest);
        return true;
    }
    if (turn_away(l))
        return true;
    pause_accept(l, clock_after(clock_now(), RESUME_DELAY));
    return false;
}

static void log_system_memory(struct kal_listener *l, int error)
{
    cm_assert_locked(&l->lifetime);
    atomic_fetch_add_explicit(&l->no_memory, 1, memory_order_relaxed);
    kal_rnic_log(
        l->rnic, RI_LOG_ERROR,
        "listener %s: no connection can be accepted now: %s; connections wait, free memory",
        l->name, strerror(error));
}

/* Lane, locked; the lock is released for each connection. */
static void accept_some(struct kal_listener *l)
{
    cm_assert_run(&l->lifetime);
    for (int i = 0; i < ACCEPTS_PER_RUN && !l->lifetime.dead && !l->stopped && has_room(l); i++) {
        union address peer;
        int fd, error = accept_one(l, &fd, &peer);

        if (!error) {
            pthread_mutex_unlock(&l->lifetime.lock);
            take(l, fd, &peer);
            pthread_mutex_lock(&l->lifetime.lock);
        } else if (error == EAGAIN || error == EWOULDBLOCK) {
            return;
        } else if (error == EMFILE || error == ENFILE) {
            if (!make_descriptor(l))
                return;
        } else if (error == ENOMEM || error == ENOBUFS) { /* the peer stays in the kernel's queue */
            log_system_memory(l, error);
            pause_accept(l, clock_after(clock_now(), RESUME_DELAY));
            return;
        } /* otherwise that connection has gone, see accept(2); try the next */
    }
}

void cm_accept_ready(void *arg, uint32_t events)
{
    struct kal_listener *l = arg;
    struct cm_run run;

    if (!cm_enter(&l->lifetime, &run))
        return;
    if (!(events & (EPOLLHUP | EPOLLERR)) || still_listens(l))
        accept_some(l);
    if (cm_leave(&l->lifetime, &run))
        cm_listener_free(l);
}

void cm_accept_resumed(struct ri_timer *timer)
{
    struct kal_listener *l = (struct kal_listener *)(void *)((char *)timer -
                                                             offsetof(struct kal_listener, resume));
    struct cm_run run;

    if (!cm_enter(&l->lifetime, &run))
        return;
    if (l->watch) { /* otherwise ended, or set A, which accepts by itself */
        cm_open_spare(l->rnic->cm);
        l->paused = false;
        l->rnic->upper->rewatch(l->watch, EPOLLIN);
        accept_some(l);
    }
    cm_show_next(l);
    if (cm_leave(&l->lifetime, &run))
        cm_listener_free(l);
}

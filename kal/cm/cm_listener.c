/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: listeners, and moving a request from one to another.
 *
 * A listener bounds what strangers can make it hold (C-019): start-ups whose Request is incomplete by option half_open,
 * undecided requests by option backlog, those that wait for room included (cm_hold.c). Where either bound is reached it
 * accepts no more, and the kernel's queue holds the peers: what was accepted is not shed, and a complete Request is never
 * dropped for want of room. So the start-ups that were under way at that moment may exceed the backlog. One thing gives
 * way: the oldest start-up, when it is older than GRACE and somebody waits in the queue: who means it sends the
 * Request with its first octets, so nobody keeps others out by holding places.
 * Without descriptors the same one gives way; else the spare descriptor is given up for a moment to accept and
 * close what waits; where even that fails the listener looks again a little later.
 *
 * IPv6: a listener on [::] takes IPv4 peers too (option v6only=auto), unless somebody listens on the same port for
 * IPv4 already; a fixed IPv6 address is for IPv6 only by itself. IPv4 peers show as IPv4 addresses.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utlist.h>

#define ACCEPTS_PER_RUN 16
#define LISTEN_QUEUE    INT_MAX /* the kernel bounds it by net.core.somaxconn */
#define RESUME_DELAY    (100 * CLOCK_NS_PER_MS)
#define HALF_OPEN_LEAST 16
#define LANE_DELAY      (5 * CLOCK_NS_PER_MS)
#define GRACE           (500 * CLOCK_NS_PER_MS)

/* ---- accept ---- */

/* With the peer's address: one that has reset meanwhile has none that getpeername(2) tells. */
static int accept_one(struct kal_listener *l, union address *peer)
{
    socklen_t length = sizeof *peer;

    memset(peer, 0, sizeof *peer);
    return accept4(l->fd, &peer->any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void open_spare(struct kal_cm *cm)
{
    int fd, none = -1;

    if (cm->spare_fd >= 0)
        return;
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && !atomic_compare_exchange_strong(&cm->spare_fd, &none, fd))
        close(fd);
}

/* Out of descriptors: turn one peer away. False: not even that works now. */
static bool turn_away(struct kal_listener *l)
{
    struct kal_cm *cm = l->rnic->cm;
    int spare = atomic_exchange(&cm->spare_fd, -1), fd;
    union address peer;
    char more[80];

    if (cm_meter(&l->descriptors, more, sizeof more))
        kal_rnic_log(
            l->rnic, RI_LOG_ERROR,
            "listener %s: out of file descriptors, connections are turned away; raise the limit "
            "(ulimit -n) or close some%s",
            l->name, more);
    if (spare < 0)
        return false;
    close(spare);
    fd = accept_one(l, &peer);
    if (fd >= 0)
        close(fd);
    open_spare(cm);
    return fd >= 0 || errno != EMFILE;
}

/* Until then, or until cm_listener_room. Lane, locked. */
static void pause_accept(struct kal_listener *l, uint64_t until)
{
    l->paused = true;
    l->rnic->upper->rewatch(l->watch, 0);
    if (until == CLOCK_NEVER)
        return;
    cm_show_next(l); /* the timer may have been set for that */
    l->resume.deadline = until;
    l->rnic->upper->timer_set(l->lane, &l->resume);
}

void cm_listener_room(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    bool accepts = l->paused && l->undecided + l->held < l->backlog &&
                   l->half_open < l->half_open_max;
    bool shows = l->held && l->undecided + 1 == l->backlog; /* others: kal_listen_room */

    if ((!accepts && !shows) || l->guard.dead)
        return;
    l->resume.deadline = clock_now();
    l->rnic->upper->timer_set(l->lane, &l->resume);
}

/* Take the connection in, or close it. */
static bool start_up(struct kal_listener *l, struct kal_connection *c)
{
    const struct sockaddr *local = &c->stream.local.any;
    const struct sockaddr *peer = &c->stream.peer.any;

    cm_addresses(&c->stream);
    if (kal_rnic_policy(l->rnic, RI_POLICY_REQUEST, local, peer) || !cm_count(c))
        return false;
    cm_capture(c);
    cm_hold(&l->guard);
    c->listener = l;
    c->state = CM_STARTING;
    pthread_mutex_lock(&l->guard.lock);
    DL_APPEND2(l->kept, c, kept_prev, kept_next);
    c->kept = c->fresh = true;
    c->startup->began = clock_now();
    l->half_open++;
    pthread_mutex_unlock(&l->guard.lock);

    pthread_mutex_lock(&c->guard.lock);
    cm_deadline(c, clock_after(c->startup->began, l->rnic->cm->options.request_timeout));
    if (cm_watch(c, EPOLLIN | EPOLLRDHUP)) {
        pthread_mutex_unlock(&c->guard.lock);
        if (!cm_keep_take(c))
            return true;
        cm_keep_remove(l, c);
        return false;
    }
    pthread_mutex_unlock(&c->guard.lock);
    return true;
}

static struct kal_connection *oldest_start_up(const struct kal_listener *l)
{
    struct kal_connection *c;

    DL_FOREACH2 (l->kept, c, kept_next)
        if (c->fresh && !c->taken)
            break;
    return c;
}

/* The oldest start-up ends. Its peer is reset: an orderly end could be taken for an answer. Lane, locked; released meanwhile. */
static void evict(struct kal_listener *l, struct kal_connection *oldest)
{
    uint32_t count = l->half_open;
    char more[80];

    cm_unkeep(l, oldest);
    pthread_mutex_unlock(&l->guard.lock);
    if (cm_meter(&l->full, more, sizeof more))
        kal_rnic_log(
            l->rnic, RI_LOG_WARNING,
            "listener %s: %u connections have not sent their MPA Request yet, the oldest is "
            "dropped for a further one; %s%s",
            l->name, count,
            count < l->half_open_max ? "out of file descriptors: raise the limit (ulimit -n)"
                                     : "raise half_open or lower request_timeout",
            more);
    cm_reset_on_close(&oldest->stream);
    kal_connection_destroy(oldest);
    pthread_mutex_lock(&l->guard.lock);
}

static bool readable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return poll(&p, 1, 0) == 1;
}

/* May one more be accepted? False: paused. Lane, locked. */
static bool has_room(struct kal_listener *l)
{
    struct kal_connection *oldest;
    uint64_t end;

    if (l->undecided + l->held >= l->backlog) {
        pause_accept(l, CLOCK_NEVER);
        return false;
    }
    if (l->half_open < l->half_open_max)
        return true;
    if (!readable(l->fd)) /* the next one's readiness comes here again */
        return false;
    oldest = oldest_start_up(l);
    end = oldest ? oldest->startup->began + GRACE : CLOCK_NEVER;
    if (end <= clock_now() && !readable(oldest->stream.fd)) {
        evict(l, oldest);
        return true;
    }
    if (end <= clock_now()) /* it is this lane that is late: the Request may be there */
        end = clock_after(clock_now(), LANE_DELAY);
    pause_accept(l, end);
    return false;
}

static void take(struct kal_listener *l, int fd, const union address *peer)
{
    struct kal_connection *c;

    c = cm_connection_new(l->rnic, l->lane, NULL);
    if (!c) {
        close(fd);
        return;
    }
    c->stream.fd = fd;
    c->stream.peer = *peer;
    if (!start_up(l, c))
        kal_connection_destroy(c);
}

/* Out of descriptors: a start-up that is old enough ends, or one peer is turned away. False: paused,
 * or nobody waits, which accept(2) does not look at before. Lane, locked. */
static bool make_descriptor(struct kal_listener *l)
{
    struct kal_connection *oldest = oldest_start_up(l);

    if (!readable(l->fd))
        return false;
    if (oldest && oldest->startup->began + GRACE <= clock_now() && !readable(oldest->stream.fd)) {
        evict(l, oldest);
        return true;
    }
    if (turn_away(l))
        return true;
    pause_accept(l, clock_after(clock_now(), RESUME_DELAY));
    return false;
}

/* Lane, locked; the lock is released for each connection. */
static void accept_some(struct kal_listener *l)
{
    for (int i = 0; i < ACCEPTS_PER_RUN && !l->guard.dead && has_room(l); i++) {
        union address peer;
        int fd = accept_one(l, &peer);

        if (fd >= 0) {
            pthread_mutex_unlock(&l->guard.lock);
            take(l, fd, &peer);
            pthread_mutex_lock(&l->guard.lock);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!make_descriptor(l))
                return;
        } else if (errno == ENOMEM || errno == ENOBUFS) {
            pause_accept(l, clock_after(clock_now(), RESUME_DELAY));
            return;
        } /* else: that one connection is gone, accept(2); the next */
    }
}

static void ready(void *arg, uint32_t events)
{
    struct kal_listener *l = arg;
    struct cm_run run;

    (void)events;
    if (!cm_enter(&l->guard, &run))
        return;
    accept_some(l);
    if (cm_leave(&l->guard, &run))
        cm_listener_free(l);
}

static void resumed(struct ri_timer *timer)
{
    struct kal_listener *l = (struct kal_listener *)(void *)((char *)timer -
                                                             offsetof(struct kal_listener, resume));
    struct cm_run run;

    if (!cm_enter(&l->guard, &run))
        return;
    if (l->watch) { /* else set A, which accepts by itself */
        open_spare(l->rnic->cm);
        l->paused = false;
        l->rnic->upper->rewatch(l->watch, EPOLLIN);
        accept_some(l);
    }
    cm_show_next(l);
    if (cm_leave(&l->guard, &run))
        cm_listener_free(l);
}

/* ---- listen ---- */

static int bound_socket(const struct sockaddr *address, bool v6only)
{
    int fd, one = 1, only = v6only, error;

    fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        (address->sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only)) ||
        bind(fd, address, kal_address_length(address)) || listen(fd, LISTEN_QUEUE)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int open_listener(struct kal_rnic *rnic, const struct sockaddr *address)
{
    enum cm_v6only v6only = rnic->cm->options.v6only;
    int fd = bound_socket(address, v6only == CM_V6ONLY_YES);
    char text[120];

    if (fd >= 0 || v6only != CM_V6ONLY_AUTO || address->sa_family != AF_INET6 ||
        errno != EADDRINUSE)
        return fd;
    fd = bound_socket(address, true);
    if (fd >= 0) {
        kal_address_text(address, text, sizeof text);
        kal_rnic_log(rnic, RI_LOG_INFO,
                     "listener %s takes IPv6 only: somebody listens on that port for IPv4", text);
    }
    return fd;
}

static enum kal_status listen_error(struct kal_rnic *rnic, const struct sockaddr *address,
                                    int error)
{
    static const struct {
        int error;
        enum kal_status status;
        const char *advice;
    } table[] = {
        { EADDRINUSE, KAL_ERR_ADDRESS_IN_USE, "choose another port, or end whoever listens there" },
        { EADDRNOTAVAIL, KAL_ERR_UNREACHABLE, "use an address of this host" },
        { EAFNOSUPPORT, KAL_ERR_UNREACHABLE, "this host has no such address family" },
        { ENODEV, KAL_ERR_UNREACHABLE, "the scope of the address names no interface" },
        { EINVAL, KAL_ERR_INVALID_ARGUMENT, "a link-local address needs its scope (%interface)" },
        { EACCES, KAL_ERR_PERMISSION, "choose a port above 1023" },
        { EPERM, KAL_ERR_PERMISSION, "a rule of this host refuses" },
        { EMFILE, KAL_ERR_NO_RESOURCES, "raise the limit on open files (ulimit -n)" },
        { ENFILE, KAL_ERR_NO_RESOURCES, "raise the system's limit on open files (fs.file-max)" },
    };
    enum kal_status status = KAL_ERR_NO_RESOURCES;
    const char *advice = "free memory";
    char text[120];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].error == error) {
            status = table[i].status;
            advice = table[i].advice;
        }
    }
    kal_address_text(address, text, sizeof text);
    kal_rnic_log(rnic, RI_LOG_WARNING, "cannot listen on %s: %s; %s", text, strerror(error),
                 advice);
    return status;
}

/* Strangers have a quarter of the process's descriptors at most, and a few in any case. */
static uint32_t half_open_most(const struct kal_rnic *rnic)
{
    uint32_t most = rnic->cm->options.half_open;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) || most <= limit.rlim_cur / 4)
        return most;
    return limit.rlim_cur / 4 < HALF_OPEN_LEAST ? HALF_OPEN_LEAST : (uint32_t)(limit.rlim_cur / 4);
}

static enum kal_status listen_tcp(struct kal_listener *l, const struct sockaddr *address,
                                  struct sockaddr_storage *bound)
{
    socklen_t length = sizeof *bound;
    enum kal_status status;

    l->fd = open_listener(l->rnic, address);
    if (l->fd < 0)
        return listen_error(l->rnic, address, errno);
    cm_socket_options(l->rnic, l->fd); /* what is accepted has them, too */
    open_spare(l->rnic->cm);
    memset(bound, 0, sizeof *bound);
    getsockname(l->fd, (struct sockaddr *)bound, &length);
    kal_address_text((const struct sockaddr *)bound, l->name, sizeof l->name);
    /* Under the lock: the first run may come before the watch is stored. */
    pthread_mutex_lock(&l->guard.lock);
    status = kal_status_of_ri(l->rnic->upper->watch(l->lane, l->fd, EPOLLIN, ready, l, &l->watch));
    pthread_mutex_unlock(&l->guard.lock);
    return status;
}

void cm_listener_free(struct kal_listener *listener)
{
    cm_guard_end(&listener->guard);
    free(listener);
}

enum kal_status kal_listen(struct kal_rnic *rnic, void *lane_context,
                           const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct kal_listener **listener)
{
    bool set_a = cm_is_set_a(rnic);
    struct sockaddr_storage where;
    struct kal_listener *l;
    enum kal_status status;

    if (!set_a && param->datagram)
        return KAL_ERR_NOT_SUPPORTED;
    if (!set_a && !kal_address_length(param->address))
        return KAL_ERR_INVALID_ARGUMENT;
    if (kal_rnic_policy(rnic, RI_POLICY_LISTEN, param->address, NULL))
        return KAL_ERR_PERMISSION;
    status = kal_rnic_take_now(rnic, KAL_ACCOUNT_LISTENER, 1, NULL);
    if (status)
        return status;
    l = calloc(1, sizeof *l);
    if (!l) {
        kal_rnic_give(rnic, KAL_ACCOUNT_LISTENER, 1);
        return KAL_ERR_NO_RESOURCES;
    }
    cm_guard_init(&l->guard);
    l->rnic = rnic;
    l->lane = lane_context;
    l->context = context;
    l->fd = -1;
    l->resume.expired = resumed;
    l->room.expired = cm_room_made;
    l->backlog = param->backlog > rnic->cm->options.backlog ? param->backlog
                                                            : rnic->cm->options.backlog;
    l->half_open_max = half_open_most(rnic);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->listeners, l);
    pthread_mutex_unlock(&rnic->cm->lock);

    /* Outputs first: a request may come up before we return. */
    status = set_a ? cm_a_listen(l, param, &where) : listen_tcp(l, param->address, &where);
    if (status) {
        kal_listen_destroy(l);
        return status;
    }
    if (bound)
        *bound = where;
    *listener = l;
    return KAL_OK;
}

static struct kal_connection *not_taken(struct kal_connection *list)
{
    struct kal_connection *c;

    DL_FOREACH2 (list, c, kept_next)
        if (!c->taken)
            break;
    return c;
}

/* What ual has not seen goes with the listener: by us, or by a run that is at it already. */
static void end_kept(struct kal_listener *l)
{
    struct kal_connection *c;

    pthread_mutex_lock(&l->guard.lock);
    while (l->kept || l->waiting) {
        c = not_taken(l->kept);
        if (!c)
            c = not_taken(l->waiting);
        if (!c) {
            cm_wait_told(&l->guard);
            continue;
        }
        cm_unkeep(l, c);
        pthread_mutex_unlock(&l->guard.lock);
        kal_connection_destroy(c);
        pthread_mutex_lock(&l->guard.lock);
    }
    pthread_mutex_unlock(&l->guard.lock);
}

void kal_listen_destroy(struct kal_listener *listener)
{
    struct kal_listener *l = listener;
    struct kal_rnic *rnic = l->rnic;

    cm_kill(&l->guard);
    if (l->watch)
        rnic->upper->unwatch(l->watch);
    rnic->upper->timer_cancel(l->lane, &l->resume);
    rnic->upper->timer_cancel(l->lane, &l->room);
    if (l->fd >= 0) {
        /* A forked child may hold a copy of the descriptor: closing alone would keep the port. */
        shutdown(l->fd, SHUT_RDWR);
        close(l->fd);
    }
    if (l->ri)
        cm_a_listen_destroy(l);
    end_kept(l);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_DELETE(rnic->cm->listeners, l);
    pthread_mutex_unlock(&rnic->cm->lock);
    kal_rnic_give(rnic, KAL_ACCOUNT_LISTENER, 1);
    if (cm_drop(&l->guard))
        cm_listener_free(l);
}

/* ---- migration ---- */

/* A place among what the listener keeps. */
static enum kal_status reserve(struct kal_listener *l, struct kal_connection *c)
{
    enum kal_status status = KAL_OK;

    pthread_mutex_lock(&l->guard.lock);
    if (l->guard.dead)
        status = KAL_ERR_INVALID_ARGUMENT;
    else if (l->undecided + l->held >= l->backlog)
        status = KAL_ERR_NO_RESOURCES;
    if (!status) {
        DL_APPEND2(l->kept, c, kept_prev, kept_next);
        c->kept = true;
        l->half_open++;
        l->guard.refs++;
    }
    pthread_mutex_unlock(&l->guard.lock);
    return status;
}

static void unreserve(struct kal_listener *l, struct kal_connection *c)
{
    pthread_mutex_lock(&l->guard.lock);
    cm_unkeep(l, c);
    l->guard.refs--; /* the caller's listener lives */
    pthread_mutex_unlock(&l->guard.lock);
}

/* From the manager and account of one RNIC to those of another. Locked. */
static enum kal_status change_rnic(struct kal_connection *c, struct kal_rnic *rnic)
{
    struct kal_rnic *old = c->rnic;

    if (old == rnic)
        return KAL_OK;
    if (c->ri)
        return KAL_ERR_INVALID_ARGUMENT;
    if (c->counted && kal_rnic_take_now(rnic, KAL_ACCOUNT_CONNECTION, 1, &c->stream.peer.any))
        return KAL_ERR_QUOTA;
    if (c->counted)
        kal_rnic_give(old, KAL_ACCOUNT_CONNECTION, 1);
    pthread_mutex_lock(&old->cm->lock);
    DL_DELETE(old->cm->connections, c);
    pthread_mutex_unlock(&old->cm->lock);
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->connections, c);
    pthread_mutex_unlock(&rnic->cm->lock);
    c->rnic = rnic;
    return KAL_OK;
}

/* It moves: handlers of the old lane find MOVING and leave. Locked; the watch is the caller's. */
static struct ri_watch *begin_move(struct kal_connection *c)
{
    struct ri_watch *watch;

    c->state = CM_MOVING;
    cm_wait_others(&c->guard);
    watch = c->watch;
    c->watch = NULL;
    return watch;
}

/* Out of the old lane, without a lock. */
static void leave_lane(struct kal_connection *c, struct ri_watch *watch)
{
    const struct kal_upper *upper = c->rnic->upper;

    if (watch)
        upper->unwatch(watch);
    upper->timer_cancel(c->lane, &c->startup->kick);
    upper->timer_cancel(c->lane, &c->startup->deadline);
}

/* Without it only the withdrawal shows late, at accept. Locked. */
static void watch_undecided(struct kal_connection *c)
{
    if (!c->ri && cm_watch(c, EPOLLIN | EPOLLRDHUP))
        kal_rnic_log(c->rnic, RI_LOG_ERROR, "out of memory: a request is no longer watched");
}

/*
 * The object itself moves: stream, watch and timers to the listener's lane, where a kick shows it. What is left behind
 * is the upcall that may be running about it in this thread (kal_migrate called from inside).
 */
enum kal_status kal_migrate(struct kal_connection *connection, struct kal_listener *listener)
{
    struct kal_connection *c = connection;
    enum kal_status status = KAL_ERR_INVALID_STATE;
    struct ri_watch *watch;

    if (listener->rnic->kal != c->rnic->kal)
        return KAL_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&c->guard.lock);
    if (c->state != CM_PENDING || c->guard.dead)
        goto unlock;
    if (listener->ri ? !c->ri : c->ri != NULL) {
        status = KAL_ERR_INVALID_ARGUMENT;
        goto unlock;
    }
    watch = begin_move(c);
    pthread_mutex_unlock(&c->guard.lock);
    leave_lane(c, watch);
    pthread_mutex_lock(&c->guard.lock);

    status = reserve(listener, c);
    if (!status) {
        status = change_rnic(c, listener->rnic);
        if (status)
            unreserve(listener, c);
    }
    if (status) {
        c->state = CM_PENDING;
        watch_undecided(c);
        goto unlock;
    }
    cm_listener_leave(c, true);
    c->migrations++;
    c->listener = listener;
    c->lane = listener->lane;
    c->context = NULL;
    c->state = CM_SHOWING;
    watch_undecided(c);
    cm_kick(c);
unlock:
    pthread_mutex_unlock(&c->guard.lock);
    return status;
}

/* What happens while it moves shows in the new lane: readiness is level-triggered. */
void kal_place(struct kal_connection *connection, void *lane_context)
{
    struct kal_connection *c = connection;
    struct ri_watch *watch;

    pthread_mutex_lock(&c->guard.lock);
    if (c->ri || c->lane == lane_context || c->state != CM_PENDING || c->guard.dead)
        goto unlock;
    watch = begin_move(c);
    pthread_mutex_unlock(&c->guard.lock);
    leave_lane(c, watch);
    pthread_mutex_lock(&c->guard.lock);
    c->lane = lane_context;
    c->state = CM_PENDING;
    watch_undecided(c);
unlock:
    pthread_mutex_unlock(&c->guard.lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager, common part: the connection object, its life, the hand-over of its stream.
 *
 * States of a connection (set B, TCP and MPA by kal). "run" is the lane's handler: readiness, deadline or kick.
 *
 *   who moves it              from         to
 *   kal_connect               IDLE         CONNECTING
 *   run: TCP connected        CONNECTING   REQUESTED      the Request leaves in one write
 *   run: peer closed          REQUESTED    CONNECTING     once, when the Request was enhanced (S-020)
 *   run: accepting Reply      REQUESTED    ESTABLISHED    hand-over, event ESTABLISHED
 *   run: anything else        C., R.       ENDED          event REJECTED or FAILED
 *   run of the listener       -            STARTING       kal's own: the Request comes in
 *   run: Request complete     STARTING     SHOWING        kal's own; upcall connection_request in the same run
 *   run: the upcall           SHOWING      PENDING        ual's from here on
 *   run: peer closed or spoke PENDING      ENDED          withdrawn: no event, accept answers INVALID_STATE
 *   kal_accept                PENDING      ACCEPTING      kick
 *   run                       ACCEPTING    ESTABLISHED    hand-over; the Reply is handover.last_message
 *   run                       ACCEPTING    ENDED          event FAILED
 *   kal_reject                PENDING      REJECTING      the Reply has left, then FIN; kick. No event
 *   run                       REJECTING    ENDED          the socket goes to a linger (cm_linger.c)
 *   kal_migrate               PENDING      MOVING SHOWING on the other listener and its lane
 *   kal_convert               IDLE         CONVERTING     no frames: hand-over in the next run
 *                                          CONNECTING     initiator, frames: already connected
 *                                          LAST_WORDS     responder, frames; then STARTING, ACCEPTING
 *
 * The hand-over is always done by a run, also where the call that decides comes from another thread, and the event
 * follows in the same run. So, where the QP is on the same lane, no qp_event overtakes ESTABLISHED.
 *
 * Who says ESTABLISHED. kal does, as connection_event, right after the hand-over: always for the active side, and
 * for a responder in the client-server model (rtr_await false). A responder in the peer-to-peer model
 * (the Request had A=1) is established by the peer's first FPDU: the provider says so by
 * qp_event RI_EVENT_ESTABLISHED, whose context is ual's, and kal is silent; kal_connection_info gives then what the
 * event does not carry. Should the peer's first FPDU not come, the provider's ended event is the answer.
 *
 * Locks, in this order: connection guard.lock, listener or linger guard.lock, cm->lock. The host's watch and timer_set
 * are called under them (they are leaves); unwatch and timer_cancel wait for a running handler, so they are called under
 * a lock inside the object's own lane only, where no handler can be running beside us. Upcalls and qp_modify are called
 * with no lock.
 *
 * Life. Whoever is inside an object (a run) has entered its guard: a reference and an entry in `runs`. Destroying sets
 * `dead`, waits until no other thread is inside, then takes the watch and the timers away; handlers that come
 * late see `dead` and go. A destroy call from inside an upcall of the same object does not wait for itself: the
 * memory goes with the last reference.
 *
 * A passive start-up that ual has not seen is ended by whoever takes it (cm_keep_take): a run, or the listener's end.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

static_assert(MPA_STARTUP_RTR_SEND == RI_RTR_SEND && MPA_STARTUP_RTR_WRITE == RI_RTR_WRITE &&
                  MPA_STARTUP_RTR_READ == RI_RTR_READ,
              "ready-to-receive bits pass from frames to the provider unchanged");

/* ---- guard ---- */

void cm_guard_init(struct cm_guard *guard)
{
    pthread_mutex_init(&guard->lock, NULL);
    pthread_cond_init(&guard->left, NULL);
    guard->runs = NULL;
    guard->refs = 1;
    guard->dead = false;
}

void cm_guard_end(struct cm_guard *guard)
{
    pthread_cond_destroy(&guard->left);
    pthread_mutex_destroy(&guard->lock);
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
    pthread_cond_broadcast(&guard->left);
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

void cm_wait_others(struct cm_guard *guard)
{
    while (others_inside(guard))
        pthread_cond_wait(&guard->left, &guard->lock);
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

socklen_t cm_address_length(const struct sockaddr *address)
{
    if (!address)
        return 0;
    if (address->sa_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

void cm_address_text(const struct sockaddr *address, char *text, size_t size)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo(address, cm_address_length(address), host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, size, "(unknown address)");
    else
        snprintf(text, size, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

/* An IPv4 peer of a dual-stack listener is an IPv4 peer for policy and for ual. */
static void unmap(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    struct sockaddr_in four = { .sin_family = AF_INET };

    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    four.sin_port = six->sin6_port;
    memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof four.sin_addr);
    memset(address, 0, sizeof *address);
    memcpy(address, &four, sizeof four);
}

void cm_addresses(struct cm_stream *stream)
{
    socklen_t length = sizeof stream->local;

    if (!getsockname(stream->fd, (struct sockaddr *)&stream->local, &length))
        unmap(&stream->local);
    length = sizeof stream->peer;
    if (!getpeername(stream->fd, (struct sockaddr *)&stream->peer, &length))
        unmap(&stream->peer);
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
    set_int(rnic, fd, IPPROTO_TCP, TCP_KEEPINTVL, options->keepalive_interval, "keepalive_interval");
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
        got = recv(stream->fd, stream->octets + stream->length, sizeof stream->octets - stream->length,
                   MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        stream->length += (uint32_t)got;
    return got;
}

int cm_write(int fd, const uint8_t *octets, size_t length, size_t *sent)
{
    while (*sent < length) {
        ssize_t n = send(fd, octets + *sent, length - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
            *sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        else if (errno != EINTR)
            return -1;
    }
    return 1;
}

/* ---- the manager of one RNIC ---- */

static const char *option(struct kal_rnic *rnic, const char *name, const char *otherwise)
{
    const char *value = kal_rnic_option(rnic, name);

    return value && *value ? value : otherwise;
}

static uint64_t option_number(struct kal_rnic *rnic, const char *name, uint64_t otherwise, uint64_t min,
                              uint64_t max)
{
    const char *text = kal_rnic_option(rnic, name);
    char *end;
    uint64_t value = otherwise;

    if (text && *text) {
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno || *end || *text == '-')
            value = otherwise;
    }
    return value < min ? min : value > max ? max : value;
}

static bool option_bool(struct kal_rnic *rnic, const char *name, const char *otherwise)
{
    const char *value = option(rnic, name, otherwise);

    return !strcmp(value, "yes") || !strcmp(value, "on");
}

static void read_options(struct kal_rnic *rnic, struct cm_options *o)
{
    const char *rtr = option(rnic, "rtr", "write"), *v6only = option(rnic, "v6only", "auto");
    const uint64_t day = 86400;

    o->mpa_revision = (uint8_t)option_number(rnic, "mpa_revision", 2, 1, 2);
    o->mpa_fallback = option_bool(rnic, "mpa_fallback", "yes");
    o->crc = option_bool(rnic, "crc", "yes");
    if (!strcmp(rtr, "write"))
        o->rtr = MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ;
    else if (!strcmp(rtr, "read"))
        o->rtr = MPA_STARTUP_RTR_READ;
    else
        o->rtr = 0;
    if (!strcmp(v6only, "auto"))
        o->v6only = CM_V6ONLY_AUTO;
    else
        o->v6only = option_bool(rnic, "v6only", "no") ? CM_V6ONLY_YES : CM_V6ONLY_NO;
    o->backlog = (uint32_t)option_number(rnic, "backlog", 128, 1, 65535);
    o->connect_timeout =
        option_number(rnic, "connect_timeout", 30000, 1, day * 1000) * CLOCK_NS_PER_MS;
    o->request_timeout = option_number(rnic, "request_timeout", 5000, 1, day * 1000) * CLOCK_NS_PER_MS;
    o->close_timeout = option_number(rnic, "close_timeout", 10000, 1, day * 1000) * CLOCK_NS_PER_MS;
    o->tcp_user_timeout = (uint32_t)option_number(rnic, "tcp_user_timeout", 30000, 0, day * 1000);
    o->keepalive = option_bool(rnic, "keepalive", "yes");
    o->keepalive_idle = (int)option_number(rnic, "keepalive_idle", 60, 1, 32767);
    o->keepalive_interval = (int)option_number(rnic, "keepalive_interval", 10, 1, 32767);
    o->keepalive_count = (int)option_number(rnic, "keepalive_count", 6, 1, 127);
}

enum kal_status kal_cm_open(struct kal_rnic *rnic)
{
    struct kal_cm *cm = calloc(1, sizeof *cm);

    if (!cm)
        return KAL_ERR_NO_RESOURCES;
    pthread_mutex_init(&cm->lock, NULL);
    pthread_cond_init(&cm->changed, NULL);
    cm->spare_fd = -1;
    read_options(rnic, &cm->options);
    rnic->cm = cm;
    return KAL_OK;
}

static void destroy_orphans(struct kal_cm *cm)
{
    struct kal_connection *c;

    pthread_mutex_lock(&cm->lock);
again:
    DL_FOREACH(cm->connections, c) {
        if (!c->orphan)
            continue;
        c->orphan = false;
        pthread_mutex_unlock(&cm->lock);
        kal_connection_destroy(c);
        pthread_mutex_lock(&cm->lock);
        goto again;
    }
    pthread_mutex_unlock(&cm->lock);
}

enum kal_status kal_cm_close(struct kal_rnic *rnic, bool force)
{
    struct kal_cm *cm = rnic->cm;
    enum kal_status status = KAL_OK;

    if (!cm)
        return KAL_OK;
    destroy_orphans(cm);
    pthread_mutex_lock(&cm->lock);
    if (cm->connections || cm->listeners)
        status = KAL_ERR_BUSY;
    else if (cm->lingers)
        status = KAL_ERR_AGAIN;
    pthread_mutex_unlock(&cm->lock);
    if (status != KAL_ERR_AGAIN || !force)
        return status;
    cm_linger_end_all(rnic);
    return KAL_OK;
}

void kal_cm_free(struct kal_rnic *rnic)
{
    struct kal_cm *cm = rnic->cm;

    if (!cm)
        return;
    rnic->cm = NULL;
    if (cm->spare_fd >= 0)
        close(cm->spare_fd);
    pthread_cond_destroy(&cm->changed);
    pthread_mutex_destroy(&cm->lock);
    free(cm);
}

void kal_cm_fork_child(struct kal_rnic *rnic)
{
    int fd;

    if (!rnic->cm)
        return;
    fd = atomic_exchange(&rnic->cm->spare_fd, -1);
    if (fd >= 0)
        close(fd);
}

/* All of them are ual's: see "Who says ESTABLISHED" above. */
bool kal_cm_qp_event(struct kal_rnic *rnic, void *qp_context, const struct ri_event *event)
{
    (void)rnic;
    (void)qp_context;
    (void)event;
    return false;
}

void kal_cm_qp_destroy(struct kal_rnic *rnic, struct ri_qp *qp)
{
    struct kal_cm *cm = rnic->cm;
    struct kal_connection *c;

    if (!cm)
        return;
    pthread_mutex_lock(&cm->lock);
again:
    DL_FOREACH2(cm->attached, c, attached_next) {
        if (c->qp != qp)
            continue;
        if (c->qp_busy) {
            pthread_cond_wait(&cm->changed, &cm->lock);
            goto again;
        }
        c->qp = NULL;
    }
    pthread_mutex_unlock(&cm->lock);
}

/* ---- the connection object ---- */

static void run_state(struct kal_connection *c)
{
    switch (c->state) {
    case CM_CONNECTING:
    case CM_REQUESTED: cm_active_run(c); break;
    case CM_LAST_WORDS:
    case CM_CONVERTING: cm_convert_run(c); break;
    case CM_STARTING:
    case CM_SHOWING:
    case CM_PENDING:
    case CM_ACCEPTING:
    case CM_REJECTING: cm_passive_run(c); break;
    case CM_ENDED:
        if (c->ri && cm_a_adopt(c)) {
            pthread_mutex_unlock(&c->guard.lock);
            kal_connection_destroy(c);
            pthread_mutex_lock(&c->guard.lock);
        }
        break;
    case CM_IDLE:
    case CM_MOVING:
    case CM_ESTABLISHED:
    case CM_FOREIGN: break;
    }
}

static void ready(void *arg, uint32_t events)
{
    struct kal_connection *c = arg;
    struct cm_run run;

    (void)events; /* what happened shows in what the calls answer */
    if (!cm_enter(&c->guard, &run))
        return;
    if (c->watch)
        run_state(c);
    if (cm_leave(&c->guard, &run))
        cm_connection_free(c);
}

static struct kal_connection *of_timer(struct ri_timer *timer, size_t offset)
{
    return (struct kal_connection *)(void *)((char *)timer - offset);
}

static void kicked(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct kal_connection, kick));
    struct cm_run run;

    if (!cm_enter(&c->guard, &run))
        return;
    run_state(c);
    if (cm_leave(&c->guard, &run))
        cm_connection_free(c);
}

static void expired(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct kal_connection, deadline));
    struct cm_run run;

    if (!cm_enter(&c->guard, &run))
        return;
    switch (c->state) {
    case CM_CONNECTING:
        cm_fail(c, RI_REASON_TIMEOUT,
                "no answer to the TCP connect in time; check that the host is up and no "
                "firewall drops the port, or raise connect_timeout");
        break;
    case CM_REQUESTED:
        cm_fail(c, RI_REASON_TIMEOUT,
                "TCP is connected but no MPA Reply came in time; check that an iWARP server listens "
                "there and accepts, or raise connect_timeout");
        break;
    case CM_LAST_WORDS:
        cm_fail(c, RI_REASON_TIMEOUT, "the peer does not read the last streaming message");
        break;
    case CM_STARTING: cm_passive_expired(c); break;
    default: break;
    }
    if (cm_leave(&c->guard, &run))
        cm_connection_free(c);
}

struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context)
{
    struct kal_connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    cm_guard_init(&c->guard);
    c->rnic = rnic;
    c->lane = lane;
    c->context = context;
    c->stream.fd = -1;
    c->deadline.expired = expired;
    c->kick.expired = kicked;
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->connections, c);
    pthread_mutex_unlock(&rnic->cm->lock);
    return c;
}

/* Everything but the memory went before: the last reference may be dropped after the RNIC was closed. */
void cm_connection_free(struct kal_connection *connection)
{
    free(connection->last_words);
    cm_guard_end(&connection->guard);
    free(connection);
}

bool cm_count(struct kal_connection *connection)
{
    if (!connection->counted)
        connection->counted = !kal_rnic_take(connection->rnic, KAL_ACCOUNT_CONNECTION, 1);
    return connection->counted;
}

void cm_uncount(struct kal_connection *connection)
{
    if (connection->counted)
        kal_rnic_give(connection->rnic, KAL_ACCOUNT_CONNECTION, 1);
    connection->counted = false;
}

void cm_attach(struct kal_connection *connection, struct ri_qp *qp)
{
    struct kal_cm *cm = connection->rnic->cm;

    pthread_mutex_lock(&cm->lock);
    connection->qp = qp;
    DL_APPEND2(cm->attached, connection, attached_prev, attached_next);
    pthread_mutex_unlock(&cm->lock);
}

void cm_detach(struct kal_connection *connection)
{
    struct kal_cm *cm = connection->rnic->cm;

    pthread_mutex_lock(&cm->lock);
    if (connection->attached_prev) {
        DL_DELETE2(cm->attached, connection, attached_prev, attached_next);
        connection->attached_prev = connection->attached_next = NULL;
    }
    connection->qp = NULL;
    pthread_mutex_unlock(&cm->lock);
}

enum kal_status cm_watch(struct kal_connection *connection, uint32_t events)
{
    const struct kal_upper *upper = connection->rnic->upper;

    if (connection->watch)
        return kal_status_of_ri(upper->rewatch(connection->watch, events));
    return kal_status_of_ri(upper->watch(connection->lane, connection->stream.fd, events, ready,
                                         connection, &connection->watch));
}

void cm_unwatch(struct kal_connection *connection)
{
    struct ri_watch *watch = connection->watch;

    connection->watch = NULL;
    if (watch)
        connection->rnic->upper->unwatch(watch);
}

void cm_deadline(struct kal_connection *connection, uint64_t deadline)
{
    connection->deadline.deadline = deadline;
    connection->rnic->upper->timer_set(connection->lane, &connection->deadline);
}

void cm_kick(struct kal_connection *connection)
{
    connection->kick.deadline = clock_now();
    connection->rnic->upper->timer_set(connection->lane, &connection->kick);
}

static void cancel_timers(struct kal_connection *c)
{
    c->rnic->upper->timer_cancel(c->lane, &c->deadline);
    c->rnic->upper->timer_cancel(c->lane, &c->kick);
}

/* A converted socket has another descriptor in the consumer's hands: closing ours would not end it. */
static void close_fd(struct kal_connection *c)
{
    if (c->stream.fd < 0)
        return;
    if (c->conversion)
        shutdown(c->stream.fd, SHUT_RDWR);
    close(c->stream.fd);
    c->stream.fd = -1;
}

void cm_close_stream(struct kal_connection *connection)
{
    cm_unwatch(connection);
    cancel_timers(connection);
    close_fd(connection);
}

bool cm_emit(struct kal_connection *connection, struct ri_connection_event *event)
{
    const struct kal_upper *upper = connection->rnic->upper;
    void *context = connection->context;

    if (connection->guard.dead)
        return false;
    event->size = sizeof *event;
    event->local = connection->stream.local;
    event->peer = connection->stream.peer;
    pthread_mutex_unlock(&connection->guard.lock);
    upper->connection_event(context, event);
    pthread_mutex_lock(&connection->guard.lock);
    return !connection->guard.dead;
}

void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason, const char *format,
             ...)
{
    struct ri_connection_event event = { .type = RI_CONNECTION_FAILED, .reason = reason };
    char text[400], address[120];
    va_list args;

    if (format) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        cm_address_text((const struct sockaddr *)&connection->stream.peer, address, sizeof address);
        kal_rnic_log(connection->rnic, RI_LOG_WARNING, "connection %s %s: %s",
                     connection->initiator ? "to" : "from", address, text);
    }
    cm_close_stream(connection);
    cm_detach(connection);
    cm_uncount(connection);
    connection->state = CM_ENDED;
    cm_emit(connection, &event);
}

void cm_fail_errno(struct kal_connection *connection, const char *doing, int error)
{
    static const struct {
        int error;
        enum ri_connection_reason reason;
        const char *advice;
    } table[] = {
        { ECONNREFUSED, RI_REASON_REFUSED,
          "nobody listens there; start the server, or correct address and port" },
        { ETIMEDOUT, RI_REASON_TIMEOUT, "check that the host is up and no firewall drops the port" },
        { ENETUNREACH, RI_REASON_UNREACHABLE, "check the address and the routes of this host" },
        { EHOSTUNREACH, RI_REASON_UNREACHABLE, "check the address and that the host is up" },
        { ENETDOWN, RI_REASON_UNREACHABLE, "bring the network interface up" },
        { EADDRNOTAVAIL, RI_REASON_UNREACHABLE,
          "check the source address and that local ports are free" },
        { ECONNRESET, RI_REASON_OTHER, "look at the peer's log" },
        { EPIPE, RI_REASON_OTHER, "look at the peer's log" },
        { EPERM, RI_REASON_POLICY, "a firewall rule of this host refuses" },
        { EACCES, RI_REASON_POLICY, "a rule of this host refuses" },
        { ENOMEM, RI_REASON_RESOURCES, "free memory" },
        { ENOBUFS, RI_REASON_RESOURCES, "free memory" },
        { EMFILE, RI_REASON_RESOURCES, "raise the limit on open files (ulimit -n)" },
        { ENFILE, RI_REASON_RESOURCES, "raise the system's limit on open files (fs.file-max)" },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].error == error) {
            cm_fail(connection, table[i].reason, "%s: %s; %s", doing, strerror(error),
                    table[i].advice);
            return;
        }
    }
    cm_fail(connection, RI_REASON_OTHER, "%s: %s; look at the peer's log and the network", doing,
            strerror(error));
}

/*
 * The descriptor is nobody's while the provider decides: it is neither closed by a destroy call from an upcall below
 * qp_modify nor left behind when qp_modify fails.
 */
enum kal_status cm_hand_over(struct kal_connection *connection, struct ri_llp_handover *handover)
{
    struct kal_cm *cm = connection->rnic->cm;
    struct ri_qp_modify modify = {
        .size = sizeof modify,
        .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
        .state = RI_QPS_RTS,
        .handover = handover,
    };
    enum kal_status status;
    struct ri_qp *qp;
    int fd = connection->stream.fd;

    handover->size = sizeof *handover;
    handover->fd = fd;
    handover->initiator = connection->initiator;
    handover->mpa_revision = connection->agreed.rev;
    handover->crc = connection->agreed.crc;
    handover->markers_transmit = connection->agreed.markers_tx;
    handover->markers_receive = connection->agreed.markers_rx;
    handover->ird = connection->agreed.ird;
    handover->ord = connection->agreed.ord;

    cm_unwatch(connection);
    cancel_timers(connection);
    pthread_mutex_lock(&cm->lock);
    qp = connection->qp;
    connection->qp_busy = qp != NULL;
    pthread_mutex_unlock(&cm->lock);
    if (!qp)
        return KAL_ERR_INVALID_STATE;

    connection->stream.fd = -1;
    pthread_mutex_unlock(&connection->guard.lock);
    status = kal_qp_modify(connection->rnic, qp, &modify);
    pthread_mutex_lock(&cm->lock);
    connection->qp_busy = false;
    pthread_cond_broadcast(&cm->changed);
    pthread_mutex_unlock(&cm->lock);
    pthread_mutex_lock(&connection->guard.lock);

    if (status && connection->guard.dead)
        close(fd);
    else if (status)
        connection->stream.fd = fd;
    if (connection->guard.dead)
        return status;
    if (!status) {
        cm_detach(connection);
        cm_uncount(connection);
    }
    return status;
}

void cm_established(struct kal_connection *connection, const void *private_data, uint16_t length)
{
    const struct mpa_startup_agreed *agreed = &connection->agreed;
    struct ri_connection_event event = {
        .type = RI_CONNECTION_ESTABLISHED,
        .private_data = length ? private_data : NULL,
        .private_data_length = length,
        .ird = agreed->ird,
        .ord = agreed->ord,
        .depths_valid = agreed->enhanced && !connection->local.own_depths,
    };

    connection->state = CM_ESTABLISHED;
    cm_emit(connection, &event);
}

/* ---- calls of kal.h that are common to both sides ---- */

enum kal_status kal_connection_create(struct kal_rnic *rnic, void *lane_context, void *context,
                                      struct kal_connection **connection)
{
    struct kal_connection *c = cm_connection_new(rnic, lane_context, context);
    enum kal_status status = c ? KAL_OK : KAL_ERR_NO_RESOURCES;

    if (c && cm_is_set_a(rnic))
        status = cm_a_create(c);
    if (status) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "a connection cannot be created: %s",
                     c ? "the provider refuses" : "out of memory");
        if (c)
            kal_connection_destroy(c);
        return status;
    }
    *connection = c;
    return KAL_OK;
}

void kal_connection_destroy(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct kal_cm *cm = c->rnic->cm;

    cm_kill(&c->guard);
    cm_unwatch(c);
    cancel_timers(c);
    if (c->ri)
        cm_a_destroy(c);
    if (c->listener)
        cm_listener_leave(c, c->state == CM_PENDING);
    if (c->state == CM_REJECTING)
        cm_to_linger(c);
    close_fd(c);
    cm_detach(c);
    cm_uncount(c);
    pthread_mutex_lock(&cm->lock);
    DL_DELETE(cm->connections, c);
    pthread_mutex_unlock(&cm->lock);
    if (cm_drop(&c->guard))
        cm_connection_free(c);
}

enum kal_status kal_disconnect(struct kal_connection *connection, struct ri_qp *qp,
                               const void *private_data, uint16_t private_data_length)
{
    struct ri_qp_modify modify = { .size = sizeof modify, .mask = RI_QPM_STATE };
    enum kal_status status;
    bool established;

    if (connection->ri)
        return cm_a_disconnect(connection, private_data, private_data_length);
    pthread_mutex_lock(&connection->guard.lock);
    established = connection->state == CM_ESTABLISHED;
    pthread_mutex_unlock(&connection->guard.lock);
    if (!established)
        return KAL_ERR_INVALID_STATE;

    /* iWARP has no place for private data here: it is dropped. */
    modify.state = RI_QPS_CLOSING;
    status = kal_qp_modify(connection->rnic, qp, &modify);
    if (!status)
        return KAL_OK;
    modify.state = RI_QPS_ERROR;
    return kal_qp_modify(connection->rnic, qp, &modify);
}

enum kal_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param)
{
    /* TCP and MPA know two legs only. */
    return connection->ri ? cm_a_confirm(connection, param) : KAL_ERR_NOT_SUPPORTED;
}

enum kal_status kal_connection_info(struct kal_connection *connection, struct ri_connection_event *info)
{
    struct ri_connection_event filled = { .size = info->size, .type = RI_CONNECTION_ESTABLISHED };
    enum kal_status status = KAL_ERR_INVALID_STATE;

    pthread_mutex_lock(&connection->guard.lock);
    if (connection->state == CM_ESTABLISHED || (connection->ri && connection->agreed.rev)) {
        filled.ird = connection->agreed.ird;
        filled.ord = connection->agreed.ord;
        filled.depths_valid = connection->agreed.enhanced && !connection->local.own_depths;
        filled.local = connection->stream.local;
        filled.peer = connection->stream.peer;
        memcpy(info, &filled, info->size < sizeof filled ? info->size : sizeof filled);
        status = KAL_OK;
    }
    pthread_mutex_unlock(&connection->guard.lock);
    return status;
}

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
 *   run: others wait          SHOWING      HELD           kal's own; so is what kal_defer gives back inside the upcall
 *   run: room, and its turn   HELD         PENDING        the upcall once more
 *   run: peer closed or spoke HELD         ENDED          so does the deadline
 *   run: peer closed or spoke PENDING      ENDED          withdrawn: no event, accept answers INVALID_STATE
 *   kal_accept                PENDING      ACCEPTING      kick
 *   run                       ACCEPTING    ESTABLISHED    hand-over; the Reply is handover.last_message
 *   run                       ACCEPTING    ENDED          event FAILED
 *   kal_reject                PENDING      REJECTING      the Reply has left, then FIN; kick. No event
 *   run                       REJECTING    ENDED          the socket goes to a linger (cm_linger.c)
 *   kal_migrate               PENDING      MOVING SHOWING on the other listener and its lane
 *   kal_place                 PENDING      MOVING PENDING on the QP's lane
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

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

static_assert(MPA_STARTUP_RTR_SEND == RI_RTR_SEND && MPA_STARTUP_RTR_WRITE == RI_RTR_WRITE &&
                  MPA_STARTUP_RTR_READ == RI_RTR_READ,
              "ready-to-receive bits pass from frames to the provider unchanged");

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
    case CM_HELD:
    case CM_PENDING:
    case CM_ACCEPTING:
    case CM_REJECTING: cm_passive_run(c); break;
    case CM_ENDED:
        if (c->ri && cm_a_adopt(c)) {
            pthread_mutex_unlock(&c->guard.lock);
            cm_connection_end(c);
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
    return ((struct cm_startup *)(void *)((char *)timer - offset))->connection;
}

static void kicked(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct cm_startup, kick));
    struct cm_run run;

    if (!cm_enter(&c->guard, &run))
        return;
    run_state(c);
    if (cm_leave(&c->guard, &run))
        cm_connection_free(c);
}

static void expired(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct cm_startup, deadline));
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
        cm_fail(
            c, RI_REASON_TIMEOUT,
            "TCP is connected but no MPA Reply came in time; check that an iWARP server listens "
            "there and accepts, or raise connect_timeout");
        break;
    case CM_LAST_WORDS:
        cm_fail(c, RI_REASON_TIMEOUT, "the peer does not read the last streaming message");
        break;
    case CM_STARTING:
    case CM_HELD: cm_passive_expired(c); break;
    default: break;
    }
    if (cm_leave(&c->guard, &run))
        cm_connection_free(c);
}

struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context)
{
    struct kal_connection *c = calloc(1, sizeof *c);

    if (c)
        c->startup = calloc(1, sizeof *c->startup);
    if (!c || !c->startup) {
        free(c);
        return NULL;
    }
    c->stream.octets = c->startup->in;
    cm_guard_init(&c->guard);
    c->rnic = rnic;
    c->lane = lane;
    c->context = context;
    c->stream.fd = -1;
    c->startup->connection = c;
    c->startup->deadline.expired = expired;
    c->startup->kick.expired = kicked;
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->connections, c);
    pthread_mutex_unlock(&rnic->cm->lock);
    return c;
}

/* Everything but the memory went before: the last reference may be dropped after the RNIC was closed. */
void cm_connection_free(struct kal_connection *connection)
{
    cm_startup_end(connection);
    cm_guard_end(&connection->guard);
    free(connection);
}

/* The stream is the provider's, its hand-over has cancelled the timers (one may be what runs), and nothing of the frames is
 * looked at any more. */
void cm_startup_end(struct kal_connection *connection)
{
    if (connection->startup)
        free(connection->startup->last_words);
    free(connection->startup);
    connection->startup = NULL;
    connection->stream.octets = NULL;
    connection->stream.length = 0;
}

bool cm_count(struct kal_connection *connection)
{
    if (!connection->counted)
        connection->counted = !kal_rnic_take_now(connection->rnic, KAL_ACCOUNT_CONNECTION, 1,
                                                 &connection->stream.peer.any);
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
    uint32_t before = connection->watched;

    connection->watched = events;
    if (connection->watch)
        return before == events ? KAL_OK
                                : kal_status_of_ri(upper->rewatch(connection->watch, events));
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
    connection->startup->deadline.deadline = deadline;
    connection->rnic->upper->timer_set(connection->lane, &connection->startup->deadline);
}

void cm_kick(struct kal_connection *connection)
{
    connection->startup->kick.deadline = clock_now();
    connection->rnic->upper->timer_set(connection->lane, &connection->startup->kick);
}

static void cancel_timers(struct kal_connection *c)
{
    if (!c->startup)
        return;
    c->rnic->upper->timer_cancel(c->lane, &c->startup->deadline);
    c->rnic->upper->timer_cancel(c->lane, &c->startup->kick);
}

/* A converted socket has another descriptor in the consumer's hands: closing ours would not end it. */
static void close_fd(struct kal_connection *c)
{
    if (c->stream.fd < 0)
        return;
    cm_capture_end(&c->stream); /* first: the peer answers by its own end */
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
    event->local = address_storage(&connection->stream.local);
    event->peer = address_storage(&connection->stream.peer);
    pthread_mutex_unlock(&connection->guard.lock);
    upper->connection_event(context, event);
    pthread_mutex_lock(&connection->guard.lock);
    return !connection->guard.dead;
}

void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason,
             const char *format, ...)
{
    struct ri_connection_event event = { .type = RI_CONNECTION_FAILED, .reason = reason };
    char text[400], address[120];
    va_list args;

    if (format) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        kal_address_text(&connection->stream.peer.any, address, sizeof address);
        kal_rnic_log_cause(connection->rnic, RI_LOG_WARNING, format, "connection %s %s: %s",
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
        { ETIMEDOUT, RI_REASON_TIMEOUT,
          "check that the host is up and no firewall drops the port" },
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
    handover->capture = (uintptr_t)connection->stream.capture;
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
    connection->handed = true;
    pthread_mutex_unlock(&connection->guard.lock);
    status = kal_qp_modify(connection->rnic, qp, &modify);
    pthread_mutex_lock(&cm->lock);
    connection->qp_busy = false;
    pthread_cond_broadcast(&cm->changed);
    pthread_mutex_unlock(&cm->lock);
    pthread_mutex_lock(&connection->guard.lock);

    connection->handed = !status;
    if (status && connection->guard.dead) {
        cm_capture_end(&connection->stream);
        close(fd);
    } else if (status) {
        connection->stream.fd = fd;
    } else {
        connection->stream.capture = NULL; /* the provider's */
    }
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
    if (cm_emit(connection, &event))
        cm_startup_end(connection);
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

void cm_connection_end(struct kal_connection *connection)
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

void kal_connection_destroy(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    bool later;

    /* A provider's own connection may not be destroyed inside its upcall. */
    pthread_mutex_lock(&c->guard.lock);
    later = c->ri && cm_inside(&c->guard);
    if (later) {
        if (c->listener)
            cm_listener_leave(c, c->state == CM_PENDING);
        c->state = CM_ENDED;
        cm_a_orphan(c);
    }
    pthread_mutex_unlock(&c->guard.lock);
    if (!later)
        cm_connection_end(c);
}

enum kal_status kal_disconnect(struct kal_connection *connection, struct ri_qp *qp,
                               const void *private_data, uint16_t private_data_length)
{
    struct ri_qp_modify modify = { .size = sizeof modify, .mask = RI_QPM_STATE };
    enum kal_status status;
    bool handed;

    if (connection->ri)
        return cm_a_disconnect(connection, private_data, private_data_length);
    pthread_mutex_lock(&connection->guard.lock);
    handed = connection->handed;
    pthread_mutex_unlock(&connection->guard.lock);
    if (!handed)
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

enum kal_status kal_connection_info(struct kal_connection *connection,
                                    struct ri_connection_event *info)
{
    struct ri_connection_event filled = { .size = info->size, .type = RI_CONNECTION_ESTABLISHED };
    enum kal_status status = KAL_ERR_INVALID_STATE;

    pthread_mutex_lock(&connection->guard.lock);
    if (connection->handed) {
        filled.ird = connection->agreed.ird;
        filled.ord = connection->agreed.ord;
        filled.depths_valid = connection->agreed.enhanced && !connection->local.own_depths;
        filled.local = address_storage(&connection->stream.local);
        filled.peer = address_storage(&connection->stream.peer);
        memcpy(info, &filled, info->size < sizeof filled ? info->size : sizeof filled);
        status = KAL_OK;
    }
    pthread_mutex_unlock(&connection->guard.lock);
    return status;
}

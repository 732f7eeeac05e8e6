/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: the connection object. destroy.c has its end, handover.c the hand-over of its
 * stream.
 *
 * States of a connection (set B, TCP and MPA by kal). "run" is the lane's handler for readiness, a
 * deadline, or cm_schedule.
 *
 *   changed by             from       to
 *   kal_connect             IDLE       CONNECTING
 *   run: TCP connected      CONNECTING REQUESTED   the Request is sent in one write
 *   run: peer closed        REQUESTED  CONNECTING  once, when the Request was enhanced (S-020)
 *   run: peer reset         C., R.     AGAIN       a few times, before any octet of a Reply came
 *   run: the pause is over  AGAIN      CONNECTING  the same Request once more
 *   run: accepting Reply    REQUESTED  ESTABLISHED hand-over, event ESTABLISHED
 *   run: anything else      C., R.     ENDED       event REJECTED or FAILED
 *   run of the listener     -          STARTING    kal's own: the Request is received
 *   run: Request complete   STARTING   SHOWING     kal's own; upcall connection_request follows
 *   run: the upcall         SHOWING    PENDING     ual's from here on
 *   run: others wait        SHOWING    QUEUED      kal's own; also after kal_defer
 *   run: room, and its turn QUEUED     PENDING     the upcall once more
 *   run: peer ended or sent QUEUED     ENDED       also at the deadline
 *   run: peer ended or sent PENDING    ENDED       withdrawn: no event; accept: INVALID_STATE
 *   kal_accept              PENDING    ACCEPTING   a run is scheduled
 *   run                     ACCEPTING  ESTABLISHED hand-over; handover.last_message is the Reply;
 *                                                  maybe behind a rendezvous (rendezvous.c)
 *   run                     ACCEPTING  ENDED       event FAILED
 *   kal_reject              PENDING    REJECTING   Reply and FIN are sent; a run is scheduled
 *   run                     REJECTING  ENDED       the socket goes to a linger (linger.c)
 *   kal_migrate             PENDING    MOVING      then SHOWING, at the other listener, its lane
 *   kal_place               PENDING    MOVING      then PENDING, on the QP's lane
 *   kal_convert             IDLE       CONVERTING  no frames: hand-over in the next run
 *                                      CONNECTING  initiator, frames: already connected
 *                                      LAST_WORDS  responder, frames; then STARTING, ACCEPTING
 *
 * A connection whose QP is attached later (kal_attach) stays in REQUESTED or ACCEPTING, parked,
 * until then.
 *
 * A run always does the hand-over, even if another thread's call decides it. The event follows in
 * the same run. So, if the QP is on the same lane, no qp_event overtakes ESTABLISHED.
 *
 * Who reports ESTABLISHED. kal does, as connection_event right after the hand-over, for the active
 * side and for a responder in the client-server model (rtr_await false). In the peer-to-peer model
 * (the Request had A=1) the peer's first FPDU establishes a responder: the provider reports it by
 * qp_event RI_EVENT_ESTABLISHED, whose context is ual's, and kal reports nothing;
 * kal_connection_info has the values that this event lacks. If the peer's first FPDU does not
 * arrive, the provider reports an ended event instead.
 *
 * Lock order: lifetime.lock of a connection, then of a listener or linger, cm->lock. The host's
 * watch and timer_set are leaves and are called under them. unwatch and timer_cancel wait for a
 * running handler: they are called under a lock only in the object's own lane, where no handler can
 * run at the same time. Upcalls and qp_modify are called with no lock; local_make, local_take and
 * local_drop under lifetime.lock: of the host they call unwatch alone, for descriptors whose
 * handler takes no lock of kal.
 *
 * Lifetime. A run enters the object's lifetime: it takes a reference and an entry in `runs`.
 * Destroying sets `dead`, waits until no other thread is inside, then removes the watch and the
 * timers. Handlers that come late see `dead` and return. A destroy call from inside an upcall of
 * the same object does not wait for itself: the last reference frees the memory.
 *
 * A passive start-up that was not reported to ual is ended by the one caller that cm_claim admits:
 * a run, or the listener's end.
 */
#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- runs: what they do is the role's ---- */

static void run_state(struct kal_connection *c)
{
    cm_assert_run(&c->lifetime);
    if (c->role)
        c->role->run(c);
}

void cm_run_now(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct cm_run run;

    if (!cm_enter(&c->lifetime, &run))
        return;
    if (c->watch)
        run_state(c);
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

static void ready(void *arg, uint32_t events)
{
    (void)events; /* the system calls return the state */
    cm_run_now(arg);
}

static struct kal_connection *of_timer(struct ri_timer *timer, size_t offset)
{
    return ((struct cm_startup *)(void *)((char *)timer - offset))->connection;
}

static void scheduled_run(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct cm_startup, soon));
    struct cm_run run;

    if (!cm_enter(&c->lifetime, &run))
        return;
    run_state(c);
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

static void expired(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct cm_startup, deadline));
    struct cm_run run;

    if (!cm_enter(&c->lifetime, &run))
        return;
    if (c->role)
        c->role->expired(c);
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

static void rendezvous_ready(void *arg, uint32_t events)
{
    struct kal_connection *c = arg;
    struct cm_run run;

    (void)events;
    if (!cm_enter(&c->lifetime, &run))
        return;
    if (c->startup && cm_rendezvous_run(c))
        run_state(c);
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

static void rendezvous_expired(struct ri_timer *timer)
{
    struct kal_connection *c = of_timer(timer, offsetof(struct cm_startup, rendezvous.limit));
    struct cm_run run;

    if (!cm_enter(&c->lifetime, &run))
        return;
    if (cm_rendezvous_expired(c))
        run_state(c);
    if (cm_leave(&c->lifetime, &run))
        cm_connection_free(c);
}

/* ---- life ---- */

struct kal_connection *cm_connection_new(struct kal_rnic *rnic, void *lane, void *context)
{
    struct kal_connection *c = calloc(1, rnic->cm->kind->connection_size);

    if (c)
        c->startup = calloc(1, sizeof(*c->startup));
    if (!c || !c->startup) {
        free(c);
        return NULL;
    }
    c->stream.octets = c->startup->in;
    cm_lifetime_init(&c->lifetime);
    c->kind = rnic->cm->kind;
    c->rnic = rnic;
    c->lane = lane;
    c->context = context;
    c->stream.ops = rnic->cm->stream_ops;
    c->stream.fd = -1;
    c->startup->connection = c;
    c->startup->deadline.expired = expired;
    c->startup->soon.expired = scheduled_run;
    c->startup->rendezvous.ready = rendezvous_ready;
    c->startup->rendezvous.limit.expired = rendezvous_expired;
    c->local_why = "it is being set up";
    pthread_mutex_lock(&rnic->cm->lock);
    DL_APPEND(rnic->cm->connections, c);
    pthread_mutex_unlock(&rnic->cm->lock);
    return c;
}

/* All but the memory was released before, because the last reference may be dropped after the RNIC
 * was closed. */
void cm_connection_free(struct kal_connection *connection)
{
    cm_startup_end(connection);
    cm_lifetime_end(&connection->lifetime);
    free(connection);
}

/* The provider owns the stream. The hand-over has cancelled the timers (one of them may be
 * running), and the frames are not used any more. */
void cm_startup_end(struct kal_connection *connection)
{
    if (connection->startup) {
        contract(!connection->startup->rendezvous.watch && !connection->startup->rendezvous.local);
        free(connection->startup->last_words);
        free(connection->startup->surplus);
    }
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

/* ---- lane ---- */

enum ri_status cm_watch(struct kal_connection *connection, uint32_t events)
{
    const struct kal_upper *upper = connection->rnic->upper;
    uint32_t before = connection->watched;

    cm_assert_locked(&connection->lifetime);
    connection->watched = events;
    if (connection->watch)
        return before == events ? RI_OK : upper->rewatch(connection->watch, events);
    return upper->watch(connection->lane, connection->stream.fd, events, ready, connection,
                        &connection->watch);
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
    cm_assert_locked(&connection->lifetime);
    connection->startup->deadline.deadline = deadline;
    connection->rnic->upper->timer_set(connection->lane, &connection->startup->deadline);
}

void cm_schedule(struct kal_connection *connection)
{
    connection->startup->soon.deadline = clock_now();
    connection->rnic->upper->timer_set(connection->lane, &connection->startup->soon);
}

void cm_cancel_timers(struct kal_connection *connection)
{
    struct kal_connection *c = connection;

    if (!c->startup)
        return;
    c->rnic->upper->timer_cancel(c->lane, &c->startup->deadline);
    c->rnic->upper->timer_cancel(c->lane, &c->startup->soon);
}

void cm_close_stream(struct kal_connection *connection)
{
    cm_assert_run(&connection->lifetime);
    cm_unwatch(connection);
    cm_cancel_timers(connection);
    cm_rendezvous_end(connection);
    cm_stream_close(&connection->stream, connection->conversion);
}

/* ---- what it says ---- */

/* Counts the outcome of a conversion before it is reported. Later events are those of any
 * connection. */
static void count_conversion(struct kal_rnic *rnic, enum ri_connection_event_type outcome)
{
    if (outcome == RI_CONNECTION_ESTABLISHED)
        atomic_fetch_add(&rnic->conversions, 1);
    else if (outcome == RI_CONNECTION_FAILED || outcome == RI_CONNECTION_REJECTED)
        atomic_fetch_add(&rnic->conversions_failed, 1);
}

bool cm_emit(struct kal_connection *connection, struct ri_connection_event *event)
{
    const struct kal_upper *upper = connection->rnic->upper;
    void *context = connection->context;

    cm_assert_run(&connection->lifetime);
    if (connection->lifetime.dead)
        return false;
    if (connection->conversion)
        count_conversion(connection->rnic, event->type);
    event->size = sizeof(*event);
    event->local = address_storage(&connection->stream.local);
    event->peer = address_storage(&connection->stream.peer);
    pthread_mutex_unlock(&connection->lifetime.lock);
    upper->connection_event(context, event);
    pthread_mutex_lock(&connection->lifetime.lock);
    return !connection->lifetime.dead;
}

/*
 * The peer has asked, and this side gives up: for lack of memory, because the program has destroyed
 * the request, or because nobody decided in time. An orderly end would be an answer: that of a peer
 * that speaks revision 1 only (S-020). A reset is none, and the active side tries again. A
 * conversion's stream is the consumer's, too, and has no second attempt.
 */
void cm_reset_unanswered(struct kal_connection *connection)
{
    const struct kal_connection *c = connection;

    if (c->initiator || c->conversion || c->stream.fd < 0)
        return;
    if (c->state == CM_SHOWING || c->state == CM_QUEUED || c->state == CM_PENDING ||
        c->state == CM_MOVING || c->state == CM_ACCEPTING)
        cm_reset_on_close(&connection->stream);
}

void cm_fail(struct kal_connection *connection, enum ri_connection_reason reason,
             const char *format, ...)
{
    struct ri_connection_event event = { .type = RI_CONNECTION_FAILED, .reason = reason };
    char text[400], address[120];
    va_list args;

    cm_assert_run(&connection->lifetime);
    if (format) {
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        kal_address_text(&connection->stream.peer.any, address, sizeof(address));
        kal_rnic_log_cause(connection->rnic, RI_LOG_WARNING, format, "connection %s %s: %s",
                           connection->initiator ? "to" : "from", address, text);
    }
    cm_reset_unanswered(connection);
    cm_close_stream(connection);
    cm_detach(connection);
    cm_uncount(connection);
    connection->state = CM_ENDED;
    cm_emit(connection, &event);
}

void cm_fail_errno(struct kal_connection *connection, const char *doing, int error)
{
    const struct cm_error means = cm_error_of(error);

    cm_fail(connection, means.reason, "%s: %s; %s", doing, strerror(error), means.advice);
}

/* ---- small things ---- */

uint64_t cm_by(uint64_t deadline, uint64_t own)
{
    if (deadline == RI_NO_DEADLINE || !deadline)
        return clock_after(clock_now(), own);
    return deadline;
}

uint16_t cm_depth(uint32_t asked, uint32_t limit)
{
    if (asked > limit)
        asked = limit;
    return asked < MPA_STARTUP_NO_DEPTH ? (uint16_t)asked : MPA_STARTUP_NO_DEPTH - 1;
}

void cm_capture(struct kal_connection *connection)
{
    const struct sockaddr_storage local = address_storage(&connection->stream.local);
    const struct sockaddr_storage peer = address_storage(&connection->stream.peer);

    connection->stream.capture = kal_capture_begin(connection->rnic, &local, &peer,
                                                   connection->initiator);
}

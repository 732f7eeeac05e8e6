/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager, passive side: a request from accept(2) to its decision.
 *
 * A start-up belongs to its listener (listener->starting) until the upcall passes it to ual, which
 * then owns it. ual accepts, rejects, migrates or defers it (requests.c). In the end ual destroys
 * the object; after a migration, that of the new upcall. An undecided request remains watched: a
 * peer that disconnects, or sends data before the Reply (C-010), withdraws it.
 */
#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utlist.h>

/* ---- errors before the request is reported to ual ---- */

/* One line for the administrator, however many peers cause it. */
static void log_stranger(struct kal_connection *c, const char *what)
{
    const char *advice = atomic_load(&c->listener->advice);
    char address[120], name[CM_NAME_ROOM];

    atomic_fetch_add_explicit(&c->listener->strangers, 1, memory_order_relaxed);
    kal_address_text(&c->stream.peer.any, address, sizeof(address));
    kal_rnic_log(c->rnic, RI_LOG_WARNING, "listener %s: connection from %s closed: %s; %s",
                 cm_listener_name(c->listener, name), address, what,
                 advice ? advice : "only iWARP clients may use this port");
}

void cm_passive_refuse(struct kal_connection *connection)
{
    struct kal_listener *listener = connection->listener;

    cm_assert_run(&connection->lifetime);
    contract(connection->claimed);
    connection->state = CM_ENDED;
    pthread_mutex_unlock(&connection->lifetime.lock);
    kal_connection_destroy(connection);
    cm_fed_in_vain(listener);
    pthread_mutex_lock(&connection->lifetime.lock);
}

/* Ends a start-up that kal still owns. Lane, locked; the caller's run holds a reference. It leaves
 * the listener's list last, when nothing else of it is left in the RNIC. */
static void discard(struct kal_connection *c, const char *why)
{
    struct kal_listener *listener = c->listener;

    cm_assert_run(&c->lifetime);
    if (!cm_claim(c)) /* the listener's end has claimed it */
        return;
    if (why)
        log_stranger(c, why);
    cm_hold(&listener->lifetime);
    c->kind->refuse(c);
    cm_remove(listener, c);
    if (cm_drop(&listener->lifetime))
        cm_listener_free(listener);
}

static void give_up(struct kal_connection *c, enum ri_connection_reason reason, const char *why)
{
    (void)reason;
    discard(c, why);
}

static void log_late(struct kal_connection *c)
{
    char address[120], name[CM_NAME_ROOM];

    atomic_fetch_add_explicit(&c->listener->late, 1, memory_order_relaxed);
    kal_address_text(&c->stream.peer.any, address, sizeof(address));
    kal_rnic_log(
        c->rnic, RI_LOG_WARNING,
        "listener %s: request from %s dropped: the program's event queue has been full for longer "
        "than request_timeout; take requests sooner, or make the queue larger",
        cm_listener_name(c->listener, name), address);
}

void cm_passive_expired(struct kal_connection *connection)
{
    cm_assert_run(&connection->lifetime);
    if (connection->state == CM_ACCEPTING && connection->awaits_qp)
        cm_fail(connection, RI_REASON_TIMEOUT,
                "it was accepted, but no queue pair was attached in time (option request_timeout)");
    if (connection->state != CM_STARTING && connection->state != CM_QUEUED)
        return;
    if (connection->state == CM_QUEUED && connection->listener && cm_stay_queued(connection))
        return;
    if (connection->state == CM_QUEUED) {
        log_late(connection);
        cm_reset_unanswered(connection);
        discard(connection, NULL);
    } else {
        connection->role->give_up(connection, RI_REASON_TIMEOUT,
                                  "no MPA Request in time (option request_timeout)");
    }
}

/* ---- the upcall ---- */

static bool parse_request(const struct kal_connection *c, struct mpa_startup_frame *request)
{
    size_t n;

    return mpa_startup_parse(c->stream.octets, c->stream.length, MPA_STARTUP_REQUEST, request,
                             &n) == MPA_STARTUP_OK;
}

void cm_passive_describe(struct kal_connection *connection, struct ri_connect_request *request)
{
    struct mpa_startup_frame frame;

    if (!parse_request(connection, &frame))
        return;
    request->private_data = frame.pd;
    request->private_data_length = frame.pd_len;
    request->depths_valid = frame.enhanced && frame.ird != MPA_STARTUP_NO_DEPTH &&
                            frame.ord != MPA_STARTUP_NO_DEPTH;
    request->ird = request->depths_valid ? frame.ird : 0;
    request->ord = request->depths_valid ? frame.ord : 0;
}

static void describe(struct kal_connection *c, struct ri_connect_request *request)
{
    *request = (struct ri_connect_request){
        .size = sizeof(*request),
        .local = address_storage(&c->stream.local),
        .peer = address_storage(&c->stream.peer),
    };
    c->kind->describe(c, request);
    if (!request->private_data_length)
        request->private_data = NULL;
}

/* Changes it from kal's to undecided. False: it must wait, or the listener is gone, or a listener
 * of set A is full (then the request is dropped: C-019). */
static bool promote(struct kal_connection *c, struct cm_run *run)
{
    struct kal_listener *listener = c->listener;
    enum cm_place place;
    char name[CM_NAME_ROOM];

    cm_assert_locked(&c->lifetime);
    if (!cm_enter(&listener->lifetime, run))
        return false;
    place = cm_place_for(listener, c);
    if (place == CM_PLACE_SHOW) {
        cm_unlist_shown(listener, c);
        pthread_mutex_unlock(&listener->lifetime.lock);
        return true;
    }
    if (place == CM_PLACE_QUEUE)
        cm_enqueue(listener, c, false);
    cm_leave(&listener->lifetime, run); /* not the last reference: this run holds one */
    if (place != CM_PLACE_NONE)
        return false;
    atomic_fetch_add_explicit(&listener->crowded, 1, memory_order_relaxed);
    kal_rnic_log(c->rnic, RI_LOG_WARNING,
                 "listener %s: %u requests are undecided, a further one is dropped; accept faster "
                 "or raise backlog",
                 cm_listener_name(listener, name), listener->backlog);
    discard(c, NULL);
    return false;
}

/*
 * Releases the lock for the upcall. In the upcall, or in another thread meanwhile, the connection
 * may be decided, migrated or destroyed. Its context is stored unless it has migrated: then the
 * next upcall sets it.
 */
static void show(struct kal_connection *c)
{
    struct kal_listener *listener = c->listener;
    unsigned migrations = c->migrations;
    struct ri_connect_request request;
    struct cm_run run;
    void *context = NULL;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_SHOWING || c->state == CM_QUEUED);
    if (!promote(c, &run))
        return;
    c->state = CM_PENDING; /* the time limit of the queue ends here */
    describe(c, &request);
    pthread_mutex_unlock(&c->lifetime.lock);
    c->rnic->upper->connection_request(listener->context, c, &request, &context);
    pthread_mutex_lock(&c->lifetime.lock);
    if (c->migrations == migrations)
        c->context = context;
    pthread_mutex_lock(&listener->lifetime.lock);
    /* After a migration `queued` belongs to the new listener. */
    if (c->migrations != migrations || !c->queued) {
        listener->taken_at = clock_now();
        cm_show_next(listener);
    }
    if (cm_leave(&listener->lifetime, &run))
        cm_listener_free(listener);
}

/* ---- Request ---- */

static void requested(struct kal_connection *connection)
{
    connection->state = CM_SHOWING;
    show(connection);
}

/* The Request was read. The peer gets a reset and no Reply. */
static void no_memory(struct kal_connection *c)
{
    cm_reset_on_close(&c->stream);
    cm_log_memory(c->listener);
    discard(c, NULL);
}

static void got_request(struct kal_connection *c, const struct mpa_startup_frame *request,
                        size_t used)
{
    cm_assert_run(&c->lifetime);
    contract(c->state == CM_STARTING);
    if (c->stream.length > used) {
        cm_reset_on_close(&c->stream);
        c->role->give_up(c, RI_REASON_PROTOCOL, "it sent data behind its MPA Request"); /* C-010 */
        return;
    }
    if (request->rev > c->rnic->cm->options.mpa_revision) {
        c->role->give_up(c, RI_REASON_PARAMETERS, "its MPA revision is above option mpa_revision");
        return;
    }
    c->rnic->upper->timer_cancel(c->lane, &c->startup->deadline);
    if (cm_watch(c, EPOLLIN | EPOLLRDHUP)) {
        c->role->no_memory(c);
        return;
    }
    c->role->requested(c);
}

void cm_passive_check(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    struct mpa_startup_frame request;
    enum mpa_startup_result result;
    size_t n;

    cm_assert_run(&c->lifetime);
    result = mpa_startup_parse(c->stream.octets, c->stream.length, MPA_STARTUP_REQUEST, &request,
                               &n);
    if (result == MPA_STARTUP_OK)
        got_request(c, &request, n);
    else if (result != MPA_STARTUP_NEED_MORE)
        c->role->give_up(c, RI_REASON_PROTOCOL, mpa_startup_text(result));
}

static void read_request(struct kal_connection *c)
{
    ssize_t got = cm_read(&c->stream);

    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0) {
        c->role->give_up(c, RI_REASON_OTHER,
                         "it ended before its MPA Request was complete"); /* C-002 */
        return;
    }
    cm_passive_check(c);
}

/* The peer of a start-up has to be connected and silent. */
const char *cm_passive_withdrawn(const struct kal_connection *connection)
{
    int heard = cm_heard(&connection->stream);

    if (!heard)
        return NULL;
    return heard > 0 ? "it sent data behind its MPA Request"
                     : "it went away before it was answered";
}

/* ---- decision ---- */

static void log_withdrawn(struct kal_connection *c, const char *why)
{
    char address[120];

    kal_address_text(&c->stream.peer.any, address, sizeof(address));
    kal_rnic_log(c->rnic, RI_LOG_INFO, "request from %s withdrawn: %s", address, why);
}

static void withdraw(struct kal_connection *c, const char *why)
{
    cm_assert_run(&c->lifetime);
    contract(c->state == CM_PENDING);
    log_withdrawn(c, why);
    cm_close_stream(c);
    cm_listener_leave(c, true);
    cm_uncount(c);
    c->state = CM_ENDED;
}

/* Stops the start-up for a reason that prevents the hand-over. The peer gets a rejecting Reply
 * (C-020). */
static void refuse(struct kal_connection *c)
{
    struct mpa_startup_frame request, reply;
    size_t sent = 0;

    if (!parse_request(c, &request) || mpa_startup_reject(&c->local, &request, NULL, 0, &reply) ||
        mpa_startup_encode(&reply, MPA_STARTUP_REPLY, c->startup->out, sizeof(c->startup->out),
                           &c->startup->out_length) ||
        cm_write(&c->stream, c->startup->out, c->startup->out_length, &sent) != 1 ||
        cm_send_end(&c->stream))
        return;
    cm_unwatch(c);
    cm_to_linger(c);
}

static void finish_accept(struct kal_connection *c)
{
    struct ri_llp_handover handover = {
        .rtr_await = c->agreed.peer_to_peer,
        .last_message = c->startup->out,
        .last_message_length = c->startup->out_length,
    };
    enum cm_rendezvous_result wire;
    const char *gone;
    enum ri_status status;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_ACCEPTING);
    if (!cm_has_qp(c))
        return;
    gone = cm_passive_withdrawn(c);
    if (gone) {
        cm_fail(c, RI_REASON_OTHER, "%s", gone);
        return;
    }
    wire = cm_rendezvous_meet(c);
    if (wire == CM_RENDEZVOUS_WAITS)
        return;
    if (wire == CM_RENDEZVOUS_REFUSED) {
        refuse(c);
        cm_fail_not_local(c);
        return;
    }
    status = cm_hand_over(c, &handover);
    if (c->lifetime.dead)
        return;
    if (status) {
        refuse(c);
        cm_fail_hand_over(c, status);
    } else if (handover.rtr_await) {
        c->state = CM_ESTABLISHED; /* the provider reports it by qp_event */
        cm_startup_end(c);
    } else {
        cm_established(c, NULL, 0);
    }
}

/* Sends the rejecting Reply and the FIN; returns as cm_write. */
static int say_no(struct kal_connection *c)
{
    int done = cm_write(&c->stream, c->startup->out, c->startup->out_length, &c->startup->out_sent);

    cm_assert_locked(&c->lifetime);
    if (done)
        cm_send_end(&c->stream);
    return done;
}

static void finish_reject(struct kal_connection *c)
{
    bool later = c->startup->out_sent < c->startup->out_length && !say_no(c);

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REJECTING);
    if (later && !cm_watch(c, EPOLLOUT))
        return;
    if (later) { /* it cannot be watched: the Reply will not be complete */
        cm_reset_on_close(&c->stream);
        cm_close_stream(c);
    }
    cm_unwatch(c);
    cm_to_linger(c);
    c->state = CM_ENDED;
}

static void run_queued(struct kal_connection *c)
{
    const char *gone = c->kind->withdrawn(c);

    if (!gone) {
        show(c);
        return;
    }
    log_withdrawn(c, gone);
    discard(c, NULL);
}

void cm_passive_run(struct kal_connection *connection)
{
    struct kal_connection *c = connection;
    const char *gone;

    cm_assert_run(&c->lifetime);
    switch (c->state) {
    case CM_STARTING: read_request(c); break;
    case CM_SHOWING: /* migrated to this listener */
        gone = c->kind->withdrawn(c);
        if (gone)
            discard(c, gone);
        else
            show(c);
        break;
    case CM_QUEUED: run_queued(c); break;
    case CM_PENDING:
        gone = c->kind->withdrawn(c);
        if (gone)
            withdraw(c, gone);
        break;
    case CM_ACCEPTING: finish_accept(c); break;
    case CM_REJECTING: finish_reject(c); break;
    default: break;
    }
}

void cm_passive_gone(struct kal_connection *connection)
{
    cm_assert_run(&connection->lifetime);
    log_withdrawn(connection, "it went away before it was answered");
    connection->state = CM_ENDED;
    discard(connection, NULL);
}

/* What this side offers in the Reply. Without a slot for it, no ready-to-receive Read. */
static void want(struct kal_connection *c, const struct mpa_startup_frame *request,
                 const struct ri_connect_param *param)
{
    const struct cm_options *options = &c->rnic->cm->options;

    c->local = (struct mpa_startup_local){
        .rev = options->mpa_revision,
        .crc = options->crc,
        .markers = options->markers,
        .rtr = MPA_STARTUP_RTR_WRITE | MPA_STARTUP_RTR_READ,
        .ird = cm_depth(param->ird, c->rnic->attr.max_ird),
        .ord = cm_depth(param->ord, c->rnic->attr.max_ord),
    };
    c->local.ird_max = c->local.ird;
    if (c->local.ird || !(request->enhanced && request->peer_to_peer))
        return;
    if (request->rtr & MPA_STARTUP_RTR_WRITE || !(request->rtr & MPA_STARTUP_RTR_READ))
        c->local.rtr = MPA_STARTUP_RTR_WRITE;
    else
        c->local.ird_max = cm_depth(1, c->rnic->attr.max_ird);
}

enum ri_status cm_passive_reply(struct kal_connection *connection,
                                const struct ri_connect_param *param)
{
    struct kal_connection *c = connection;
    struct mpa_startup_frame request, reply;
    enum mpa_startup_result result;

    cm_assert_locked(&c->lifetime);
    if (!parse_request(c, &request))
        return RI_ERR_INVALID_STATE;
    want(c, &request, param);
    result = mpa_startup_accept(&c->local, &request, param->private_data,
                                param->private_data_length, &reply, &c->agreed);
    if (!result)
        result = mpa_startup_encode(&reply, MPA_STARTUP_REPLY, c->startup->out,
                                    sizeof(c->startup->out), &c->startup->out_length);
    if (!result)
        return RI_OK;
    kal_rnic_log(c->rnic, RI_LOG_ERROR, "the MPA Reply cannot be built: %s",
                 mpa_startup_text(result));
    return RI_ERR_INVALID_ARGUMENT;
}

enum ri_status cm_passive_accept(struct kal_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param)
{
    struct kal_connection *c = connection;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (param->private_data_length && !param->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&c->lifetime.lock);
    if (c->state == CM_PENDING && !c->lifetime.dead && !cm_passive_withdrawn(c))
        status = cm_passive_reply(c, param);
    if (!status) {
        c->state = CM_ACCEPTING;
        cm_listener_leave(c, true);
        c->awaits_qp = !qp;
        if (qp)
            cm_attach(c, qp);
        cm_schedule(c);
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

enum ri_status cm_passive_reject(struct kal_connection *connection, const void *private_data,
                                 uint16_t private_data_length)
{
    static const struct ri_connect_param nothing;
    struct kal_connection *c = connection;
    struct mpa_startup_frame request, reply;
    enum ri_status status = RI_ERR_INVALID_STATE;
    enum mpa_startup_result result;

    if (private_data_length && !private_data)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&c->lifetime.lock);
    if (c->state != CM_PENDING || c->lifetime.dead || !parse_request(c, &request))
        goto unlock;
    want(c, &request, &nothing);
    result = mpa_startup_reject(&c->local, &request, private_data, private_data_length, &reply);
    if (!result)
        result = mpa_startup_encode(&reply, MPA_STARTUP_REPLY, c->startup->out,
                                    sizeof(c->startup->out), &c->startup->out_length);
    if (result) {
        kal_rnic_log(c->rnic, RI_LOG_ERROR, "the rejecting MPA Reply cannot be built: %s",
                     mpa_startup_text(result));
        status = RI_ERR_INVALID_ARGUMENT;
        goto unlock;
    }
    /* An empty send buffer takes the complete Reply; if the system has no memory now, the run sends
     * it. The FIN follows. The run reads what the peer may have sent, because a close with unread
     * input would reset the connection and the peer could lose the Reply. */
    c->startup->out_sent = 0;
    say_no(c);
    c->state = CM_REJECTING;
    cm_listener_leave(c, true);
    cm_uncount(c);
    cm_schedule(c);
    status = RI_OK;
unlock:
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

const struct cm_role cm_passive_role = { .run = cm_passive_run,
                                         .expired = cm_passive_expired,
                                         .requested = requested,
                                         .give_up = give_up,
                                         .no_memory = no_memory };

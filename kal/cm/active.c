/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager, active side: TCP connect, MPA Request, Reply, and further attempts.
 *
 * A peer that closes in order behind our Request of revision 2 may speak revision 1 only: there is
 * one attempt with that (S-020). A peer that resets the stream before it has answered says nothing
 * about revisions. It is short of memory, places or descriptors, or exits. The same Request goes to
 * it again, twice at most, each time behind a longer pause, within the same deadline.
 */
#include "cm.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

/* Begins to connect. Returns 0 or errno. The run reports ECONNREFUSED, even if it is returned at
 * once. */
static int open_stream(struct kal_connection *c)
{
    struct cm_startup *startup = c->startup;
    int error = c->stream.ops->connect(&startup->source, &startup->destination,
                                       &c->rnic->cm->options.stream, &c->stream.fd,
                                       &startup->connect_error);

    if (error)
        return error;
    c->stream.length = 0;
    startup->out_sent = 0;
    return 0;
}

/* Sets watch and deadline of the socket. It becomes writable when it is connected, or reports an
 * error. */
static enum ri_status begin(struct kal_connection *c)
{
    enum ri_status status;

    cm_assert_locked(&c->lifetime);
    c->state = CM_CONNECTING;
    status = cm_watch(c, EPOLLOUT);
    if (!status)
        cm_deadline(c, c->startup->connect_by);
    return status;
}

enum ri_status cm_active_request(struct kal_connection *connection, const void *private_data,
                                 size_t length)
{
    struct mpa_startup_frame frame;
    enum mpa_startup_result result;

    result = mpa_startup_request(&connection->local, private_data, length, &frame);
    if (!result)
        result = mpa_startup_encode(&frame, MPA_STARTUP_REQUEST, connection->startup->out,
                                    sizeof(connection->startup->out),
                                    &connection->startup->out_length);
    if (!result)
        return RI_OK;
    kal_rnic_log(connection->rnic, RI_LOG_ERROR, "the MPA Request cannot be built: %s",
                 mpa_startup_text(result));
    return RI_ERR_INVALID_ARGUMENT;
}

/* The ready-to-receive messages that this side can send; a Read needs a slot of the ORD. */
static uint8_t offered_rtr(const struct kal_connection *c)
{
    uint8_t rtr = c->rnic->cm->options.rtr;

    if (!c->local.ord && (rtr & MPA_STARTUP_RTR_WRITE))
        rtr &= (uint8_t)~MPA_STARTUP_RTR_READ;
    return rtr;
}

static void want(struct kal_connection *c, const struct ri_connect_param *param)
{
    const struct cm_options *options = &c->rnic->cm->options;

    c->local = (struct mpa_startup_local){
        .rev = options->mpa_revision,
        .crc = options->crc,
        .markers = options->markers,
        .allow_unenhanced = options->mpa_fallback,
        .own_depths = !param->negotiate_depths,
        .ird = cm_depth(param->ird, c->rnic->attr.max_ird),
        .ord = cm_depth(param->ord, c->rnic->attr.max_ord),
    };
    c->local.ird_max = c->local.ird;
    if (c->local.rev >= 2) {
        c->local.rtr = offered_rtr(c);
        c->local.peer_to_peer = c->local.rtr != 0;
    }
}

static enum ri_status check(const struct kal_connection *c, const struct ri_qp *qp,
                            const struct ri_connect_param *param)
{
    socklen_t length = kal_address_length(param->destination);

    if (c->state != CM_IDLE || c->lifetime.dead)
        return RI_ERR_INVALID_STATE;
    if (!length || (param->private_data_length && !param->private_data))
        return RI_ERR_INVALID_ARGUMENT;
    if (param->source && param->source->sa_family != param->destination->sa_family)
        return RI_ERR_INVALID_ARGUMENT;
    return param->three_way && qp ? RI_ERR_NOT_SUPPORTED : RI_OK;
}

static enum ri_status start(struct kal_connection *c, struct ri_qp *qp,
                            const struct ri_connect_param *param)
{
    enum ri_status status = check(c, qp, param);
    char text[120];
    int error;

    cm_assert_locked(&c->lifetime);
    if (status)
        return status;
    want(c, param);
    status = cm_active_request(c, param->private_data, param->private_data_length);
    if (status)
        return status;
    address_set(&c->startup->destination, param->destination);
    address_set(&c->startup->source, param->source);
    c->stream.peer = c->startup->destination;
    c->initiator = true;
    c->startup->tells_accept = param->three_way;
    c->startup->connect_by = cm_by(param->deadline, c->rnic->cm->options.connect_timeout);
    if (!cm_count(c))
        return ITAL_ERR_QUOTA;
    error = open_stream(c);
    if (error) {
        kal_address_text(param->destination, text, sizeof(text));
        kal_rnic_log(c->rnic, RI_LOG_WARNING, "connection to %s cannot be started: %s; %s", text,
                     strerror(error), cm_error_of(error).advice);
        status = cm_error_of(error).status;
        goto uncount;
    }
    c->awaits_qp = !qp;
    if (qp)
        cm_attach(c, qp);
    status = begin(c);
    if (!status)
        return RI_OK;
    cm_detach(c);
    cm_stream_close(&c->stream, false);
uncount:
    cm_uncount(c);
    c->state = CM_IDLE;
    return status;
}

/* ---- runs ---- */

/* The next attempt, within the same deadline. */
static void connect_again(struct kal_connection *c)
{
    int error = open_stream(c);

    cm_assert_run(&c->lifetime);
    if (error)
        cm_fail_errno(c, "TCP connect", error);
    else if (begin(c))
        cm_fail(c, RI_REASON_RESOURCES, "the socket cannot be watched; free memory or descriptors");
}

/* Connects once more with revision 1 and the same private data, within the same deadline
 * (S-020). */
static void fall_back(struct kal_connection *c)
{
    uint8_t private_data[MPA_STARTUP_PD_MAX];
    struct mpa_startup_frame sent;
    char text[120];
    size_t n;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED && !c->startup->retried);
    kal_address_text(&c->startup->destination.any, text, sizeof(text));
    kal_rnic_log(
        c->rnic, RI_LOG_INFO,
        "connection to %s: the peer closed after an MPA Request of revision 2; trying revision 1 "
        "(mpa_revision=1 spares the first attempt, mpa_fallback=no forbids the second)",
        text);
    mpa_startup_parse(c->startup->out, c->startup->out_length, MPA_STARTUP_REQUEST, &sent, &n);
    memcpy(private_data, sent.pd, sent.pd_len);
    c->local.rev = 1;
    c->local.peer_to_peer = false;
    c->local.rtr = 0;
    c->startup->retried = true;
    cm_close_stream(c);
    if (cm_active_request(c, private_data, sent.pd_len))
        cm_fail(c, RI_REASON_PARAMETERS, NULL);
    else
        connect_again(c);
}

#define RESETS_MOST 2u
/* Before the next attempt; four times as long before each further one. */
#define PAUSE_AFTER_RESET (50 * CLOCK_NS_PER_MS)

/* The peer has reset the stream and nothing of a Reply has come. True: another attempt follows. */
static bool try_again(struct kal_connection *c)
{
    uint64_t at = clock_after(clock_now(), PAUSE_AFTER_RESET << 2 * c->startup->resets);
    char text[120];

    if (!c->role->dials || c->startup->retried || c->stream.length ||
        c->startup->resets == RESETS_MOST || at >= c->startup->connect_by)
        return false;
    c->startup->resets++;
    kal_address_text(&c->startup->destination.any, text, sizeof(text));
    kal_rnic_log(c->rnic, RI_LOG_INFO,
                 "connection to %s: the peer reset the connection before it answered, it may be "
                 "short of room; trying again (%u of %u)",
                 text, c->startup->resets, RESETS_MOST);
    cm_close_stream(c);
    c->state = CM_AGAIN;
    cm_deadline(c, c->startup->connect_by);
    c->startup->soon.deadline = at;
    c->rnic->upper->timer_set(c->lane, &c->startup->soon);
    return true;
}

/*
 * True: the peer seems not to support revision 2, because it read the complete Request and then
 * closed in order. A reset is no evidence: the peer may lack room, or be exiting. Nor is a close
 * before it has read our octets: a program that closes with unread octets sends a reset. If the
 * peer has read the octets they are acknowledged before its FIN.
 */
static bool request_was_read(const struct kal_connection *c)
{
    return c->startup->out_sent == c->startup->out_length && c->stream.ops->delivered(c->stream.fd);
}

static void no_reply(struct kal_connection *c, int error)
{
    struct mpa_startup_frame sent;
    size_t n;

    if (error && error != ECONNRESET && error != EPIPE) {
        cm_fail_errno(c, "waiting for the MPA Reply", error);
        return;
    }
    if (error == ECONNRESET && try_again(c))
        return;
    mpa_startup_parse(c->startup->out, c->startup->out_length, MPA_STARTUP_REQUEST, &sent, &n);
    if (!error && c->role->dials && !c->startup->retried && request_was_read(c) &&
        mpa_startup_no_reply(&c->local, &sent) == MPA_STARTUP_FALLBACK)
        fall_back(c);
    else
        cm_fail(
            c, RI_REASON_OTHER,
            error ? "the peer reset the connection instead of answering the MPA Request; it may be "
                    "short of room: look at its log, or try again"
                  : "the peer closed instead of answering the MPA Request; check that an iWARP "
                    "server listens there and look at its log");
}

static void rejected(struct kal_connection *c, const struct mpa_startup_frame *reply)
{
    struct ri_connection_event event = {
        .type = RI_CONNECTION_REJECTED,
        .private_data = reply->pd_len ? reply->pd : NULL,
        .private_data_length = reply->pd_len,
        .ird = reply->ird,
        .ord = reply->ord,
        .depths_valid = reply->enhanced,
    };

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED);
    cm_close_stream(c);
    cm_detach(c);
    cm_uncount(c);
    c->state = CM_ENDED;
    cm_emit(c, &event);
}

static void fail_refused(struct kal_connection *c, const struct mpa_startup_outcome *outcome)
{
    bool depth = outcome->reason == MPA_STARTUP_ERR_IRD;

    cm_fail(c, depth ? RI_REASON_READ_DEPTH : RI_REASON_PARAMETERS, "%s; %s",
            mpa_startup_text(outcome->reason),
            depth ? "raise the IRD here or lower the ORD there"
                  : "choose another ready-to-receive message (option rtr), or rtr=none");
}

/* The provider sends the Terminate. Whether it succeeds or not, the connection has failed. If it is
 * three-way it fails at once, because no QP would follow. */
static void refuse(struct kal_connection *c, const struct mpa_startup_outcome *outcome)
{
    struct ri_llp_handover handover = { .refuse_code = outcome->terminate };

    if (!cm_has_qp(c)) {
        if (c->awaits_qp && c->startup->tells_accept)
            fail_refused(c, outcome);
        return;
    }
    cm_hand_over(c, &handover);
    if (!c->lifetime.dead)
        fail_refused(c, outcome);
}

/* Three-way: the Reply is told before the QP is attached, once. */
static void report_accept(struct kal_connection *c, const struct mpa_startup_frame *reply)
{
    struct ri_connection_event event = {
        .type = RI_CONNECTION_ACCEPTED,
        .private_data = reply->pd_len ? reply->pd : NULL,
        .private_data_length = reply->pd_len,
        .ird = c->agreed.ird,
        .ord = c->agreed.ord,
        .depths_valid = c->agreed.enhanced && !c->local.own_depths,
    };

    if (!c->awaits_qp || !c->startup->tells_accept)
        return;
    c->startup->tells_accept = false;
    cm_emit(c, &event);
}

static void accepted(struct kal_connection *c, const struct mpa_startup_frame *reply, size_t used)
{
    struct ri_llp_handover handover = {
        .rtr_send = c->agreed.rtr,
        .bytes_read = c->stream.octets + used,
        .bytes_read_length = c->stream.length - used,
    };
    enum ri_status status;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED);
    if (cm_rendezvous_conclude(c) == CM_RENDEZVOUS_REFUSED) {
        cm_fail_not_local(c);
        return;
    }
    if (!cm_has_qp(c)) {
        report_accept(c, reply);
        return;
    }
    status = cm_hand_over(c, &handover);
    if (c->lifetime.dead)
        return;
    if (status)
        cm_fail_hand_over(c, status);
    else
        cm_established(c, reply->pd, reply->pd_len);
}

static void evaluate(const struct kal_connection *c, const struct mpa_startup_frame *reply,
                     struct mpa_startup_outcome *outcome)
{
    struct mpa_startup_frame sent;
    size_t n;

    mpa_startup_parse(c->startup->out, c->startup->out_length, MPA_STARTUP_REQUEST, &sent, &n);
    mpa_startup_evaluate(&c->local, &sent, reply, outcome);
}

static void got_reply(struct kal_connection *c, const struct mpa_startup_frame *reply, size_t used)
{
    struct mpa_startup_outcome outcome;

    evaluate(c, reply, &outcome);
    c->agreed = outcome.agreed;
    switch (outcome.action) {
    case MPA_STARTUP_ACCEPTED: accepted(c, reply, used); break;
    case MPA_STARTUP_REJECTED: rejected(c, reply); break;
    case MPA_STARTUP_TERMINATE: refuse(c, &outcome); break;
    case MPA_STARTUP_FALLBACK:
        if (c->role->dials && !c->startup->retried) {
            fall_back(c);
            break;
        } /* fall through */
    case MPA_STARTUP_CLOSE:
        cm_fail(c, RI_REASON_PARAMETERS, "%s; set mpa_revision to what the peer speaks",
                mpa_startup_text(outcome.reason));
        break;
    }
}

/* Parses the octets of the Reply that have arrived. */
static void parse_reply(struct kal_connection *c)
{
    struct mpa_startup_frame reply;
    enum mpa_startup_result result;
    size_t n;

    result = mpa_startup_parse(c->stream.octets, c->stream.length, MPA_STARTUP_REPLY, &reply, &n);
    if (result == MPA_STARTUP_NEED_MORE)
        return;
    if (result == MPA_STARTUP_OK)
        got_reply(c, &reply, n);
    else
        cm_fail(c, result == MPA_STARTUP_ERR_REV ? RI_REASON_PARAMETERS : RI_REASON_PROTOCOL,
                "%s; check that an iWARP server listens on that port", mpa_startup_text(result));
}

static void read_reply(struct kal_connection *c)
{
    ssize_t got = cm_read(&c->stream);

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0) {
        no_reply(c, got < 0 ? errno : 0);
        return;
    }
    parse_reply(c);
}

static void send_request(struct kal_connection *c)
{
    int done = cm_write(&c->stream, c->startup->out, c->startup->out_length, &c->startup->out_sent);

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_REQUESTED);
    if (done < 0)
        no_reply(c, errno);
    /* octets of the peer that have arrived are read later */
    else if (cm_watch(c, done ? EPOLLIN : EPOLLOUT))
        cm_fail(c, RI_REASON_RESOURCES, "the socket cannot be watched; free memory or descriptors");
}

static void connected(struct kal_connection *c)
{
    int error = c->startup->connect_error;

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_CONNECTING);
    if (!error)
        error = c->stream.ops->connected(c->stream.fd);
    if (error == EAGAIN) /* a spurious wake-up */
        return;
    if (error == ECONNRESET && try_again(c)) /* it was accepted before */
        return;
    if (error) {
        cm_fail_errno(c, "TCP connect", error);
        return;
    }
    cm_addresses(&c->stream);
    if (!c->conversion)
        cm_capture(c);
    if (cm_rendezvous_listen(c) == CM_RENDEZVOUS_REFUSED) {
        cm_fail_not_local(c);
        return;
    }
    c->state = CM_REQUESTED;
    send_request(c);
}

void cm_active_run(struct kal_connection *connection)
{
    cm_assert_run(&connection->lifetime);
    if (connection->state == CM_CONNECTING)
        connected(connection);
    else if (connection->state == CM_AGAIN)
        connect_again(connection);
    else if (connection->state != CM_REQUESTED)
        return;
    else if (connection->parked)
        parse_reply(connection);
    else if (connection->startup->out_sent < connection->startup->out_length)
        send_request(connection);
    else
        read_reply(connection);
}

/* The Reply was received, but no queue pair was attached in time to take the connection or to send
 * the Terminate. */
static void no_qp_in_time(struct kal_connection *c)
{
    struct mpa_startup_outcome outcome;
    struct mpa_startup_frame reply;
    size_t n;

    mpa_startup_parse(c->stream.octets, c->stream.length, MPA_STARTUP_REPLY, &reply, &n);
    evaluate(c, &reply, &outcome);
    if (outcome.action == MPA_STARTUP_TERMINATE)
        fail_refused(c, &outcome);
    else
        cm_fail(c, RI_REASON_TIMEOUT,
                "the peer has accepted, but no queue pair was attached in time");
}

void cm_active_expired(struct kal_connection *connection)
{
    if (connection->state == CM_CONNECTING)
        cm_fail(connection, RI_REASON_TIMEOUT,
                "no answer to the TCP connect in time; check that the host is up and no firewall "
                "drops the port, or raise connect_timeout");
    else if (connection->state == CM_AGAIN)
        cm_fail(connection, RI_REASON_TIMEOUT,
                "the peer reset the connection before it answered, and the time is over; look at "
                "its log, or raise connect_timeout");
    else if (connection->state == CM_REQUESTED && connection->awaits_qp && connection->parked)
        no_qp_in_time(connection);
    else if (connection->state == CM_REQUESTED)
        cm_fail(
            connection, RI_REASON_TIMEOUT,
            "TCP is connected but no MPA Reply came in time; check that an iWARP server listens "
            "there and accepts, or raise connect_timeout");
}

static const struct cm_role active_role = { .run = cm_active_run,
                                            .expired = cm_active_expired,
                                            .dials = true };

enum ri_status cm_active_connect(struct kal_connection *connection, struct ri_qp *qp,
                                 const struct ri_connect_param *param)
{
    enum ri_status status;

    pthread_mutex_lock(&connection->lifetime.lock);
    status = start(connection, qp, param);
    if (status == RI_OK)
        connection->role = &active_role;
    pthread_mutex_unlock(&connection->lifetime.lock);
    return status;
}

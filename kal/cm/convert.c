/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: converts a consumer's connected TCP socket to a QP's connection.
 *
 *   frames  initiator                          responder
 *   yes     Request (revision 1, no private    sends the last streaming message; awaits the peer's
 *           data), Reply, hand-over            Request and answers it, with our depths
 *   no      hand-over at once; CRC by option   hand-over at once; handover.last_message is the
 *           crc, no markers                    message
 *
 * A consumer that reads through a buffer may have read octets that follow its own protocol. With
 * frames they are the beginning of the Request, without frames FPDUs.
 *
 * The policy is asked as for an outgoing connection (initiator) or an incoming one (responder),
 * because the socket does not show which side connected it.
 *
 * The descriptor is duplicated. The open file's flags are shared with the consumer and are not
 * changed, so no call may block. A conversion that fails shuts the TCP connection down, because the
 * state of the stream is lost.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* In octets; login responses have a few hundred, stdio buffers a few thousand. */
#define LAST_MESSAGE_MAX (1u << 20)
#define OCTETS_READ_MAX  (1u << 16)

static bool arguments_fit(const struct kal_convert_param *param)
{
    if (param->last_message_length && (!param->last_message || param->initiator))
        return false;
    /* The peer cannot have sent a Reply before our Request. */
    return !param->octets_read_length ||
           (param->octets_read && !(param->initiator && param->startup_frames));
}

static size_t octets_read_max(const struct kal_convert_param *param)
{
    return param->startup_frames ? MPA_STARTUP_FRAME_MAX : OCTETS_READ_MAX;
}

static enum ri_status check(const struct kal_connection *c, const struct ri_qp *qp,
                            const struct kal_convert_param *param)
{
    const char *wrong;

    if (!c->kind->takes_sockets || !(c->rnic->attr.features & RI_FEATURE_CONNECTION_SET_B))
        return RI_ERR_NOT_SUPPORTED;
    if (!qp || !arguments_fit(param))
        return RI_ERR_INVALID_ARGUMENT;
    if (param->last_message_length > LAST_MESSAGE_MAX ||
        param->octets_read_length > octets_read_max(param))
        return RI_ERR_LIMIT;
    wrong = c->stream.ops->unfit(param->fd);
    if (!wrong)
        return RI_OK;
    kal_rnic_log(c->rnic, RI_LOG_WARNING, "descriptor %d cannot be converted: %s", param->fd,
                 wrong);
    return RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status permit(const struct kal_connection *c, const struct kal_convert_param *param)
{
    union address local = { .any.sa_family = AF_UNSPEC }, peer = { .any.sa_family = AF_UNSPEC };
    char text[120];

    c->stream.ops->addresses(param->fd, &local, &peer);
    if (kal_host_may_have_rules() &&
        kal_rnic_ask_convert(c->rnic, param->initiator, &local.any, &peer.any))
        return RI_ERR_PERMISSION;
    if (kal_rnic_has_address(c->rnic, &local.any))
        return RI_OK;
    kal_address_text(&local.any, text, sizeof(text));
    kal_rnic_log(
        c->rnic, RI_LOG_WARNING,
        "descriptor %d cannot be converted: its address %s is of no network interface that option "
        "netdev names",
        param->fd, text);
    return RI_ERR_UNREACHABLE;
}

static void want(struct kal_connection *c, const struct kal_convert_param *param)
{
    const struct cm_options *options = &c->rnic->cm->options;

    c->initiator = param->initiator;
    c->local = (struct mpa_startup_local){
        .rev = 1,
        .crc = options->crc,
        .markers = options->markers,
        .own_depths = true, /* revision 1, and a start without frames, do not carry depths */
        .ird = cm_depth(param->ird, c->rnic->attr.max_ird),
        .ord = cm_depth(param->ord, c->rnic->attr.max_ord),
    };
    c->local.ird_max = c->local.ird;
    c->agreed = (struct mpa_startup_agreed){
        .rev = 1,
        .crc = options->crc,
        .ird = c->local.ird,
        .ord = c->local.ord,
    };
}

static bool keep(const void *octets, size_t length, uint8_t **copy, size_t *copied)
{
    if (!length)
        return true;
    *copy = malloc(length);
    if (!*copy)
        return false;
    memcpy(*copy, octets, length);
    *copied = length;
    return true;
}

static void forget(struct cm_startup *startup)
{
    free(startup->last_words);
    free(startup->surplus);
    startup->last_words = startup->surplus = NULL;
    startup->last_length = startup->surplus_length = 0;
}

static bool keep_octets_read(struct kal_connection *c, const struct kal_convert_param *param)
{
    kal_capture_octets(c->stream.capture, RI_RECEIVE, param->octets_read,
                       param->octets_read_length);
    if (!param->startup_frames)
        return keep(param->octets_read, param->octets_read_length, &c->startup->surplus,
                    &c->startup->surplus_length);
    memcpy(c->stream.octets, param->octets_read, param->octets_read_length);
    c->stream.length = (uint32_t)param->octets_read_length;
    return true;
}

/* By role. Everything that can fail for lack of memory comes before the watch. */
static enum ri_status start(struct kal_connection *c, const struct kal_convert_param *param)
{
    enum ri_status status;

    cm_assert_locked(&c->lifetime);
    if (!keep(param->last_message, param->last_message_length, &c->startup->last_words,
              &c->startup->last_length))
        return RI_ERR_NO_RESOURCES;
    if (param->octets_read_length && !keep_octets_read(c, param))
        return RI_ERR_NO_RESOURCES;
    if (!param->startup_frames) {
        c->state = CM_CONVERTING;
        cm_schedule(c);
        return RI_OK;
    }
    if (c->initiator) {
        status = cm_active_request(c, NULL, 0);
        if (status)
            return status;
    }
    c->state = c->initiator ? CM_CONNECTING : CM_LAST_WORDS;
    status = cm_watch(c, EPOLLOUT);
    if (!status)
        cm_deadline(c, c->startup->connect_by);
    return status;
}

static void switch_over(struct kal_connection *c)
{
    struct ri_llp_handover handover = {
        .last_message = c->startup->last_words,
        .last_message_length = c->startup->last_length,
        .bytes_read = c->startup->surplus,
        .bytes_read_length = c->startup->surplus_length,
    };
    enum ri_status status = cm_hand_over(c, &handover);

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_CONVERTING);
    if (c->lifetime.dead)
        return;
    if (status)
        cm_fail(c, RI_REASON_RESOURCES,
                "the queue pair does not take the converted socket: %s; check its state and limits",
                ital_status_name(status));
    else
        cm_established(c, NULL, 0);
}

/* Sends the last message. Then the Request is awaited; it may have arrived already. */
static void say_last_words(struct kal_connection *c)
{
    int done = cm_write(&c->stream, c->startup->last_words, c->startup->last_length,
                        &c->startup->last_sent);

    cm_assert_run(&c->lifetime);
    contract(c->state == CM_LAST_WORDS);
    if (done < 0) {
        cm_fail_errno(c, "sending the last streaming message", errno);
    } else if (done) {
        c->state = CM_STARTING;
        if (cm_watch(c, EPOLLIN | EPOLLRDHUP))
            cm_fail(c, RI_REASON_RESOURCES, "the socket cannot be watched; free memory");
        else if (c->stream.length)
            cm_passive_check(c);
    }
}

/* The peer's Request is complete: accepts it. */
static void requested(struct kal_connection *c)
{
    struct ri_connect_param param = {
        .size = sizeof(param),
        .ird = c->local.ird,
        .ord = c->local.ord,
    };

    cm_assert_run(&c->lifetime);
    if (cm_passive_reply(c, &param)) {
        cm_fail(c, RI_REASON_PARAMETERS, NULL);
        return;
    }
    c->state = CM_ACCEPTING;
    cm_passive_run(c);
}

static void run(struct kal_connection *c)
{
    if (c->state == CM_CONVERTING)
        switch_over(c);
    else if (c->state == CM_LAST_WORDS)
        say_last_words(c);
    else if (c->initiator)
        cm_active_run(c);
    else
        cm_passive_run(c);
}

static void expired(struct kal_connection *c)
{
    if (c->state == CM_LAST_WORDS)
        cm_fail(c, RI_REASON_TIMEOUT, "the peer does not read the last streaming message");
    else if (c->initiator)
        cm_active_expired(c);
    else
        cm_passive_expired(c);
}

/* The consumer gets an event. */
static void give_up(struct kal_connection *c, enum ri_connection_reason reason, const char *why)
{
    cm_fail(c, reason, "%s; check that the peer converts its socket too", why);
}

static void no_memory(struct kal_connection *c)
{
    cm_fail(c, RI_REASON_RESOURCES, "out of memory; free some");
}

static const struct cm_role convert_role = { .run = run,
                                             .expired = expired,
                                             .requested = requested,
                                             .give_up = give_up,
                                             .no_memory = no_memory };

enum ri_status kal_convert(struct kal_connection *connection, struct ri_qp *qp,
                           const struct kal_convert_param *param)
{
    struct kal_connection *c = connection;
    const struct cm_options *options = &c->rnic->cm->options;
    enum ri_status status = check(c, qp, param);
    int error;

    if (!status)
        status = permit(c, param);
    if (status)
        return status;
    pthread_mutex_lock(&c->lifetime.lock);
    if (c->state != CM_IDLE || c->lifetime.dead) {
        status = RI_ERR_INVALID_STATE;
        goto unlock;
    }
    if (!cm_count(c)) {
        status = ITAL_ERR_QUOTA;
        goto unlock;
    }
    error = c->stream.ops->adopt(param->fd, &options->stream, &c->stream.fd);
    if (error) {
        kal_rnic_log(c->rnic, RI_LOG_ERROR,
                     "a socket cannot be duplicated: %s; raise the limit on open files (ulimit -n)",
                     strerror(error));
        status = RI_ERR_NO_RESOURCES;
        goto uncount;
    }
    want(c, param);
    cm_addresses(&c->stream);
    cm_capture(c);
    c->startup->connect_by = cm_by(param->deadline, c->initiator ? options->connect_timeout
                                                                 : options->request_timeout);
    cm_attach(c, qp);
    c->conversion = true;
    c->role = &convert_role;
    status = start(c, param);
    if (!status)
        goto unlock;
    /* Nothing was started: the consumer's socket is unchanged. */
    c->conversion = false;
    c->state = CM_IDLE;
    cm_detach(c);
    cm_stream_close(&c->stream, false);
    c->stream.length = 0;
    forget(c->startup);
uncount:
    cm_uncount(c);
unlock:
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: a consumer's connected TCP socket becomes a QP's connection.
 *
 *   frames  initiator                          responder
 *   yes     Request (revision 1, no private    the last streaming message leaves; the peer's
 *           data), Reply, hand-over            Request is awaited and answered, by our depths
 *   no      hand-over at once; CRC by option   hand-over at once; handover.last_message is the
 *           crc, no markers                    message
 *
 * The descriptor is duplicated. The open file's flags are shared with the consumer and stay as they
 * are, so no call may wait by itself. A conversion that fails shuts the TCP connection down: the
 * stream's state is lost.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define LAST_MESSAGE_MAX (1u << 20) /* octets; login responses are a few hundred */

static enum kal_status check(const struct kal_connection *c, const struct ri_qp *qp,
                             const struct kal_convert_param *param)
{
    const char *wrong;

    if (c->ri || !(c->rnic->attr.features & RI_FEATURE_CONNECTION_SET_B))
        return KAL_ERR_NOT_SUPPORTED;
    if (!qp || (param->last_message_length && (!param->last_message || param->initiator)))
        return KAL_ERR_INVALID_ARGUMENT;
    if (param->last_message_length > LAST_MESSAGE_MAX)
        return KAL_ERR_LIMIT;
    wrong = c->stream.ops->unfit(param->fd);
    if (!wrong)
        return KAL_OK;
    kal_rnic_log(c->rnic, RI_LOG_WARNING, "descriptor %d cannot be converted: %s", param->fd,
                 wrong);
    return KAL_ERR_INVALID_ARGUMENT;
}

static void want(struct kal_connection *c, const struct kal_convert_param *param)
{
    const struct cm_options *options = &c->rnic->cm->options;

    c->initiator = param->initiator;
    c->local = (struct mpa_startup_local){
        .rev = 1,
        .crc = options->crc,
        .markers = options->markers,
        .own_depths = true, /* revision 1 and no frames at all carry none */
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

/* By role; everything that can fail for want of memory comes before the watch. */
static enum kal_status start(struct kal_connection *c, const struct kal_convert_param *param)
{
    enum kal_status status;

    if (param->last_message_length) {
        c->startup->last_words = malloc(param->last_message_length);
        if (!c->startup->last_words)
            return KAL_ERR_NO_RESOURCES;
        memcpy(c->startup->last_words, param->last_message, param->last_message_length);
        c->startup->last_length = param->last_message_length;
    }
    if (!param->startup_frames) {
        c->state = CM_CONVERTING;
        cm_schedule(c);
        return KAL_OK;
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
    };
    enum kal_status status = cm_hand_over(c, &handover);

    if (c->guard.dead)
        return;
    if (status)
        cm_fail(c, RI_REASON_RESOURCES,
                "the queue pair does not take the converted socket: %s; check its state and limits",
                kal_status_name(status));
    else
        cm_established(c, NULL, 0);
}

/* After the message the Request is awaited; it may be there already. */
static void say_last_words(struct kal_connection *c)
{
    int done = cm_write(&c->stream, c->startup->last_words, c->startup->last_length,
                        &c->startup->last_sent);

    if (done < 0) {
        cm_fail_errno(c, "sending the last streaming message", errno);
    } else if (done) {
        c->state = CM_STARTING;
        if (cm_watch(c, EPOLLIN | EPOLLRDHUP))
            cm_fail(c, RI_REASON_RESOURCES, "the socket cannot be watched; free memory");
    }
}

/* The peer's Request is there: it is accepted. */
static void requested(struct kal_connection *c)
{
    struct ri_connect_param param = {
        .size = sizeof param,
        .ird = c->local.ird,
        .ord = c->local.ord,
    };

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

static const struct cm_role convert_role = { .run = run,
                                             .expired = expired,
                                             .requested = requested };

enum kal_status kal_convert(struct kal_connection *connection, struct ri_qp *qp,
                            const struct kal_convert_param *param)
{
    struct kal_connection *c = connection;
    const struct cm_options *options = &c->rnic->cm->options;
    enum kal_status status = check(c, qp, param);
    int error;

    if (status)
        return status;
    pthread_mutex_lock(&c->guard.lock);
    if (c->state != CM_IDLE || c->guard.dead) {
        status = KAL_ERR_INVALID_STATE;
        goto unlock;
    }
    if (!cm_count(c)) {
        status = KAL_ERR_QUOTA;
        goto unlock;
    }
    error = c->stream.ops->adopt(param->fd, &options->stream, &c->stream.fd);
    if (error) {
        kal_rnic_log(c->rnic, RI_LOG_ERROR,
                     "a socket cannot be duplicated: %s; raise the limit on open files (ulimit -n)",
                     strerror(error));
        status = KAL_ERR_NO_RESOURCES;
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
    /* Nothing was started: the consumer's socket is as it was. */
    c->conversion = false;
    c->state = CM_IDLE;
    cm_detach(c);
    cm_stream_close(&c->stream, false);
    free(c->startup->last_words);
    c->startup->last_words = NULL;
    c->startup->last_length = 0;
uncount:
    cm_uncount(c);
unlock:
    pthread_mutex_unlock(&c->guard.lock);
    return status;
}

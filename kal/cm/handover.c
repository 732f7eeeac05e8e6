/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: the hand-over of a stream to the provider, and the result of a start-up. */
#include "cm.h"

#include "base/clock.h"

#include <string.h>

static_assert(MPA_STARTUP_RTR_SEND == RI_RTR_SEND && MPA_STARTUP_RTR_WRITE == RI_RTR_WRITE &&
                  MPA_STARTUP_RTR_READ == RI_RTR_READ,
              "ready-to-receive bits pass from frames to the provider unchanged");

/*
 * Until the QP is attached the stream is not watched: what the peer sends is for the provider. The
 * connection's own run moves it to the QP's lane, because only that run can cancel its timers.
 */
bool cm_has_qp(struct kal_connection *connection)
{
    struct kal_connection *c = connection;

    cm_assert_run(&c->lifetime);
    if (c->awaits_qp) {
        if (!c->parked && !c->initiator) /* the initiator already has a deadline */
            cm_deadline(c, clock_after(clock_now(), c->rnic->cm->options.request_timeout));
        c->parked = true;
        cm_unwatch(c);
        return false;
    }
    if (!c->startup->qp_lane || c->startup->qp_lane == c->lane)
        return true;
    c->parked = true;
    cm_unwatch(c);
    cm_cancel_timers(c);
    c->lane = c->startup->qp_lane;
    cm_schedule(c);
    return false;
}

enum ri_status cm_attach_later(struct kal_connection *connection, struct ri_qp *qp,
                               void *lane_context)
{
    struct kal_connection *c = connection;
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&c->lifetime.lock);
    if (c->awaits_qp && !c->lifetime.dead &&
        (c->state == CM_CONNECTING || c->state == CM_REQUESTED || c->state == CM_AGAIN ||
         c->state == CM_ACCEPTING)) {
        c->awaits_qp = false;
        c->startup->qp_lane = lane_context;
        cm_attach(c, qp);
        if (c->parked)
            cm_schedule(c);
        status = RI_OK;
    }
    pthread_mutex_unlock(&c->lifetime.lock);
    return status;
}

/* The stream as it is: its table with it, if it is no TCP socket. */
static enum ri_status give_stream(const struct kal_connection *connection,
                                  struct ri_llp_handover *handover)
{
    const struct cm_stream *stream = &connection->stream;
    const struct kal_rnic *rnic = connection->rnic;

    handover->fd = stream->fd;
    if (!stream->ops->carried)
        return RI_OK;
    if (!(rnic->attr.features & RI_FEATURE_STREAMS)) {
        kal_rnic_log(rnic, RI_LOG_ERROR,
                     "its provider takes TCP sockets alone (RI_FEATURE_STREAMS is missing), and "
                     "this connection is carried otherwise");
        return RI_ERR_NOT_SUPPORTED;
    }
    handover->stream_ops = stream->ops->carried;
    handover->stream = stream->ops->carry(stream->fd);
    return RI_OK;
}

/*
 * While the provider decides, connection->stream does not own the descriptor. So a destroy call
 * from an upcall in qp_modify does not close it, and it is closed here if qp_modify fails.
 */
enum ri_status cm_hand_over(struct kal_connection *connection, struct ri_llp_handover *handover)
{
    struct kal_cm *cm = connection->rnic->cm;
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .mask = RI_QPM_STATE | RI_QPM_HANDOVER,
        .state = RI_QPS_RTS,
        .handover = handover,
    };
    enum ri_status status = give_stream(connection, handover);
    struct ri_qp *qp;
    int fd = connection->stream.fd;

    cm_assert_run(&connection->lifetime);
    contract(!connection->handed);
    if (status)
        return status;
    handover->size = sizeof(*handover);
    handover->capture = (uintptr_t)connection->stream.capture;
    handover->initiator = connection->initiator;
    handover->mpa_revision = connection->agreed.rev;
    handover->crc = connection->agreed.crc;
    handover->markers_transmit = connection->agreed.markers_tx;
    handover->markers_receive = connection->agreed.markers_rx;
    handover->ird = connection->agreed.ird;
    handover->ord = connection->agreed.ord;

    cm_unwatch(connection);
    cm_cancel_timers(connection);
    pthread_mutex_lock(&cm->lock);
    qp = connection->qp;
    connection->qp_busy = qp != NULL;
    pthread_mutex_unlock(&cm->lock);
    if (!qp)
        return RI_ERR_INVALID_STATE;
    cm_rendezvous_give(connection, handover);

    connection->stream.fd = -1;
    connection->handed = true;
    pthread_mutex_unlock(&connection->lifetime.lock);
    status = kal_qp_modify(connection->rnic, qp, &modify);
    pthread_mutex_lock(&cm->lock);
    connection->qp_busy = false;
    connection->carrier = status ? NULL : qp;
    connection->handover = ++cm->handovers;
    pthread_cond_broadcast(&cm->changed);
    pthread_mutex_unlock(&cm->lock);
    pthread_mutex_lock(&connection->lifetime.lock);

    connection->handed = !status;
    if (status)
        cm_rendezvous_release(connection, handover);
    if (status && connection->lifetime.dead) {
        connection->stream.fd = fd;
        cm_stream_close(&connection->stream, connection->conversion);
    } else if (status) {
        connection->stream.fd = fd;
    } else {
        connection->stream.capture = NULL; /* the provider owns it now */
    }
    if (connection->lifetime.dead)
        return status;
    if (!status) {
        cm_detach(connection);
        cm_uncount(connection);
    }
    return status;
}

void cm_fail_hand_over(struct kal_connection *connection, enum ri_status status)
{
    if (status == RI_ERR_NO_RESOURCES)
        cm_fail(connection, RI_REASON_RESOURCES,
                "memory or descriptors are missing for its queue pair; free some or raise their "
                "limits (ulimit -v, ulimit -n, or those of the control group)");
    else
        cm_fail(connection, RI_REASON_RESOURCES,
                "the queue pair does not take the connection: %s; check its state and limits",
                ital_status_name(status));
}

void cm_fail_not_local(struct kal_connection *connection)
{
    cm_fail(connection, RI_REASON_POLICY,
            "%s, and option local allows no other wire; set local=auto, or see local in "
            "ital.conf(5)",
            connection->local_why);
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

    cm_assert_run(&connection->lifetime);
    connection->state = CM_ESTABLISHED;
    if (cm_emit(connection, &event))
        cm_startup_end(connection);
}

enum ri_status kal_connection_info(struct kal_connection *connection,
                                   struct ri_connection_event *info)
{
    struct ri_connection_event filled = { .size = info->size, .type = RI_CONNECTION_ESTABLISHED };
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&connection->lifetime.lock);
    if (connection->handed) {
        filled.ird = connection->agreed.ird;
        filled.ord = connection->agreed.ord;
        filled.depths_valid = connection->agreed.enhanced && !connection->local.own_depths;
        filled.local = address_storage(&connection->stream.local);
        filled.peer = address_storage(&connection->stream.peer);
        memcpy(info, &filled, info->size < sizeof(filled) ? info->size : sizeof(filled));
        status = RI_OK;
    }
    pthread_mutex_unlock(&connection->lifetime.lock);
    return status;
}

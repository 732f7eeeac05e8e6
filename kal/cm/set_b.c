/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: RNICs whose connections kal manages, over streams of its own, and hands over
 * to the provider (RI_FEATURE_CONNECTION_SET_B). The other files have what a connection does; here
 * are the table and what iWARP has not.
 */
#include "cm.h"

static enum ri_status check(const struct sockaddr *address, bool datagram)
{
    if (datagram)
        return RI_ERR_NOT_SUPPORTED;
    return kal_address_length(address) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status create(struct kal_connection *connection)
{
    (void)connection;
    return RI_OK;
}

/* TCP and MPA have only two-way set-up. */
static enum ri_status confirm(struct kal_connection *connection,
                              const struct ri_connect_param *param)
{
    (void)connection;
    (void)param;
    return RI_ERR_NOT_SUPPORTED;
}

/* iWARP cannot carry private data in a disconnect: it is dropped. */
static enum ri_status disconnect(struct kal_connection *connection, struct ri_qp *qp,
                                 const void *private_data, uint16_t private_data_length)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE };
    enum ri_status status;
    bool handed;

    (void)private_data;
    (void)private_data_length;
    pthread_mutex_lock(&connection->lifetime.lock);
    handed = connection->handed;
    pthread_mutex_unlock(&connection->lifetime.lock);
    if (!handed)
        return RI_ERR_INVALID_STATE;
    modify.state = RI_QPS_CLOSING;
    status = kal_qp_modify(connection->rnic, qp, &modify);
    if (!status)
        return RI_OK;
    modify.state = RI_QPS_ERROR;
    return kal_qp_modify(connection->rnic, qp, &modify);
}

/* A rejecting Reply is still to be read; a peer that was not answered is told so by a reset. */
static void end(struct kal_connection *connection)
{
    struct kal_connection *c = connection;

    contract(c->lifetime.dead);
    cm_unwatch(c);
    cm_rendezvous_end(c);
    cm_reset_unanswered(c);
    if (c->state == CM_REJECTING)
        cm_to_linger(c);
    cm_stream_close(&c->stream, c->conversion);
    cm_detach(c);
}

static enum ri_status service_request(struct kal_connection *connection,
                                      const struct ri_connect_param *param)
{
    (void)connection;
    (void)param;
    return RI_ERR_NOT_SUPPORTED;
}

/* No request of this kind is one for a datagram service. */
static enum ri_status service_reply(struct kal_connection *connection,
                                    const struct ri_service_reply *reply)
{
    (void)connection;
    (void)reply;
    return RI_ERR_INVALID_ARGUMENT;
}

const struct cm_kind cm_set_b = {
    .connection_size = sizeof(struct kal_connection),
    .listener_size = sizeof(struct kal_listener),
    .takes_sockets = true,
    .pauses = true,
    .check = check,
    .create = create,
    .connect = cm_active_connect,
    .attach = cm_attach_later,
    .accept = cm_passive_accept,
    .confirm = confirm,
    .reject = cm_passive_reject,
    .disconnect = disconnect,
    .service_request = service_request,
    .service_reply = service_reply,
    .describe = cm_passive_describe,
    .withdrawn = cm_passive_withdrawn,
    .refuse = cm_passive_refuse,
    .migrate = cm_change_rnic,
    .await = cm_watch_undecided,
    .place = cm_place_start_up,
    .destroy = cm_connection_end,
    .end = end,
    .listen = cm_listener_open,
    .unlisten = cm_listener_close,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: the connection calls of kal.h. The connection's kind does the work (kind.h).
 */
#include "cm.h"

enum ri_status kal_connection_create(struct kal_rnic *rnic, void *lane_context, void *context,
                                     struct kal_connection **connection)
{
    struct kal_connection *c = cm_connection_new(rnic, lane_context, context);
    enum ri_status status = c ? RI_OK : RI_ERR_NO_RESOURCES;

    if (c)
        status = c->kind->create(c);
    if (status) {
        kal_rnic_log(rnic, RI_LOG_ERROR, "a connection cannot be created: %s",
                     c ? "the provider refuses" : "out of memory");
        if (c)
            kal_connection_destroy(c);
        return status;
    }
    *connection = c;
    return RI_OK;
}

enum ri_status kal_connect(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param)
{
    enum ri_status status = connection->kind->check(param->destination, false);

    if (status)
        return status;
    if (kal_rnic_policy(connection->rnic, RI_POLICY_CONNECT, param->source, param->destination))
        return RI_ERR_PERMISSION;
    return connection->kind->connect(connection, qp, param);
}

enum ri_status kal_attach(struct kal_connection *connection, struct ri_qp *qp, void *lane_context)
{
    return connection->kind->attach(connection, qp, lane_context);
}

enum ri_status kal_accept(struct kal_connection *connection, struct ri_qp *qp,
                          const struct ri_connect_param *param)
{
    return connection->kind->accept(connection, qp, param);
}

enum ri_status kal_reject(struct kal_connection *connection, const void *private_data,
                          uint16_t private_data_length)
{
    return connection->kind->reject(connection, private_data, private_data_length);
}

enum ri_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param)
{
    return connection->kind->confirm(connection, param);
}

enum ri_status kal_disconnect(struct kal_connection *connection, struct ri_qp *qp,
                              const void *private_data, uint16_t private_data_length)
{
    return connection->kind->disconnect(connection, qp, private_data, private_data_length);
}

/* ---- datagram service ---- */

enum ri_status kal_service_request(struct kal_connection *connection,
                                   const struct ri_connect_param *param)
{
    if (kal_rnic_policy(connection->rnic, RI_POLICY_CONNECT, param->source, param->destination))
        return RI_ERR_PERMISSION;
    return connection->kind->service_request(connection, param);
}

enum ri_status kal_service_reply(struct kal_connection *connection,
                                 const struct ri_service_reply *reply)
{
    return connection->kind->service_reply(connection, reply);
}

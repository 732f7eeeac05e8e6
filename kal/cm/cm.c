/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: the connection calls of kal.h. They use kal's own start-up over a stream, or
 * the provider's connection manager (set A).
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "cm.h"

enum ri_status kal_connection_create(struct kal_rnic *rnic, void *lane_context, void *context,
                                     struct kal_connection **connection)
{
    struct kal_connection *c = cm_connection_new(rnic, lane_context, context);
    enum ri_status status = c ? RI_OK : RI_ERR_NO_RESOURCES;

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
    return RI_OK;
}

enum ri_status kal_connect(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param)
{
    if (!cm_is_set_a(connection->rnic) && !kal_address_length(param->destination))
        return RI_ERR_INVALID_ARGUMENT;
    if (kal_rnic_policy(connection->rnic, RI_POLICY_CONNECT, param->source, param->destination))
        return RI_ERR_PERMISSION;
    return connection->ri ? cm_a_connect(connection, qp, param)
                          : cm_active_connect(connection, qp, param);
}

enum ri_status kal_accept(struct kal_connection *connection, struct ri_qp *qp,
                          const struct ri_connect_param *param)
{
    return connection->ri ? cm_a_accept(connection, qp, param)
                          : cm_passive_accept(connection, qp, param);
}

enum ri_status kal_reject(struct kal_connection *connection, const void *private_data,
                          uint16_t private_data_length)
{
    return connection->ri ? cm_a_reject(connection, private_data, private_data_length)
                          : cm_passive_reject(connection, private_data, private_data_length);
}

enum ri_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param)
{
    /* TCP and MPA have only two-way set-up. */
    return connection->ri ? cm_a_confirm(connection, param) : RI_ERR_NOT_SUPPORTED;
}

enum ri_status kal_disconnect(struct kal_connection *connection, struct ri_qp *qp,
                              const void *private_data, uint16_t private_data_length)
{
    struct ri_qp_modify modify = { .size = sizeof modify, .mask = RI_QPM_STATE };
    enum ri_status status;
    bool handed;

    if (connection->ri)
        return cm_a_disconnect(connection, private_data, private_data_length);
    pthread_mutex_lock(&connection->guard.lock);
    handed = connection->handed;
    pthread_mutex_unlock(&connection->guard.lock);
    if (!handed)
        return RI_ERR_INVALID_STATE;

    /* iWARP cannot carry private data in a disconnect: it is dropped. */
    modify.state = RI_QPS_CLOSING;
    status = kal_qp_modify(connection->rnic, qp, &modify);
    if (!status)
        return RI_OK;
    modify.state = RI_QPS_ERROR;
    return kal_qp_modify(connection->rnic, qp, &modify);
}

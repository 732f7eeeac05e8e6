/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection verbs, passed to the provider below. */
#include "pass.h"

#include <stdlib.h>

/* A host that gives none gets the answer of the provider below. */
static struct ri_qp *pass_qp_below(struct ri_qp *qp)
{
    return qp ? PASS_OF(qp, qp)->below : NULL;
}

enum ri_status pass_connection_create(struct ri_rnic *ri, void *context,
                                      struct ri_connection **connection)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status = pass_call(rnic, PASS_CONNECTION_CREATE);
    struct pass_connection *made;

    if (status != RI_OK)
        return status;
    made = calloc(1, sizeof(*made));
    if (!made)
        return RI_ERR_NO_RESOURCES;
    status = rnic->ops->connection_create(rnic->below, context, &made->below);
    if (status != RI_OK) {
        free(made);
        return status;
    }
    made->rnic = rnic;
    made->number = pass_number(rnic, PASS_KIND_CONNECTION);
    made->base = (struct ri_connection){ .ops = ri->ops, .context = context };
    *connection = &made->base;
    return RI_OK;
}

enum ri_status pass_connection_destroy(struct ri_connection *connection)
{
    struct pass_connection *old = PASS_OF(connection, connection);
    enum ri_status status = old->rnic->ops->connection_destroy(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

enum ri_status pass_resolve(struct ri_connection *connection, const struct ri_connect_param *param)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_RESOLVE);

    return status != RI_OK ? status : pass->rnic->ops->resolve(pass->below, param);
}

enum ri_status pass_listen(struct ri_rnic *ri, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **listener)
{
    struct pass_rnic *rnic = PASS_OF(rnic, ri);
    enum ri_status status = pass_call(rnic, PASS_LISTEN);
    struct pass_listener *made;

    if (status != RI_OK)
        return status;
    made = calloc(1, sizeof(*made));
    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->rnic = rnic;
    made->base = (struct ri_listener){ .ops = ri->ops, .context = context };
    status = rnic->ops->listen(rnic->below, param, context, bound, &made->below);
    if (status != RI_OK) {
        free(made);
        return status;
    }
    made->number = pass_number(rnic, PASS_KIND_LISTENER);
    *listener = &made->base;
    return RI_OK;
}

enum ri_status pass_listen_destroy(struct ri_listener *listener)
{
    struct pass_listener *old = PASS_OF(listener, listener);
    enum ri_status status = old->rnic->ops->listen_destroy(old->below);

    if (status == RI_OK)
        free(old);
    return status;
}

enum ri_status pass_connect(struct ri_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_CONNECT);

    return status != RI_OK ? status
                           : pass->rnic->ops->connect(pass->below, pass_qp_below(qp), param);
}

enum ri_status pass_accept(struct ri_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_ACCEPT);

    return status != RI_OK ? status
                           : pass->rnic->ops->accept(pass->below, pass_qp_below(qp), param);
}

enum ri_status pass_confirm(struct ri_connection *connection, const struct ri_connect_param *param)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_CONFIRM);

    return status != RI_OK ? status : pass->rnic->ops->confirm(pass->below, param);
}

enum ri_status pass_reject(struct ri_connection *connection, const void *private_data,
                           uint16_t private_data_length)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_REJECT);

    return status != RI_OK
               ? status
               : pass->rnic->ops->reject(pass->below, private_data, private_data_length);
}

enum ri_status pass_disconnect(struct ri_connection *connection, const void *private_data,
                               uint16_t private_data_length)
{
    struct pass_connection *pass = PASS_OF(connection, connection);

    return pass->rnic->ops->disconnect(pass->below, private_data, private_data_length);
}

enum ri_status pass_service_request(struct ri_connection *connection,
                                    const struct ri_connect_param *param)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_SERVICE_REQUEST);

    return status != RI_OK ? status : pass->rnic->ops->service_request(pass->below, param);
}

enum ri_status pass_service_reply(struct ri_connection *connection,
                                  const struct ri_service_reply *reply)
{
    struct pass_connection *pass = PASS_OF(connection, connection);
    enum ri_status status = pass_call(pass->rnic, PASS_SERVICE_REPLY);
    struct ri_service_reply below = { .size = sizeof(below) };

    if (status != RI_OK)
        return status;
    ri_sized_copy(&below, reply, reply->size);
    if (below.qp)
        below.qp = PASS_OF(qp, below.qp)->below;
    return pass->rnic->ops->service_reply(pass->below, &below);
}

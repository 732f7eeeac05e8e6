/* SPDX-License-Identifier: BSD-3-Clause
 * kal.h of the fake kal: connections and listeners. */
#include "fake_kal_private.h"

#include "tc.h"

#include <netinet/in.h>

enum ri_status kal_connection_create(struct kal_rnic *rnic, void *lane, void *context,
                                     struct kal_connection **connection)
{
    enum ri_status status = fk_make(&fk.connections, FK_CONNECTION_CREATE);
    struct kal_connection *made;

    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.connections);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    *connection = made;
    (*connection)->rnic = rnic;
    (*connection)->lane = lane;
    (*connection)->context = context;
    fk.connection = *connection;
    return RI_OK;
}

/* The only upcall that may call this is the one that reports a request: kal frees the connection
 * after it. */
void kal_connection_destroy(struct kal_connection *connection)
{
    bool inside, drop;

    if (fk.during_destroy)
        fk.during_destroy();
    pthread_mutex_lock(&fk_lock);
    inside = connection->upcall && pthread_equal(connection->thread, pthread_self());
    drop = inside && connection->undecided && !connection->context;
    if (inside && !drop)
        fk_violation("a connection is destroyed from inside an upcall about it");
    else if (!drop)
        fk_forget(connection, &connection->upcall);
    connection->dropped = drop;
    fk.connections--;
    if (fk.connection == connection)
        fk.connection = NULL;
    pthread_mutex_unlock(&fk_lock);
    if (!drop)
        free(connection);
}

/* Under lock. */
static enum ri_status use(struct kal_connection *connection, struct ri_qp *qp,
                          const struct ri_connect_param *param, enum fk_call call)
{
    enum ri_status status = fk_planned(call);

    if (status)
        return status;
    if (qp && ((struct fk_qp *)qp)->state != RI_QPS_IDLE)
        fk_violation("a connection is begun on a QP that is not idle");
    connection->qp = (struct fk_qp *)qp;
    connection->param = *param;
    connection->private_data_length = param->private_data_length;
    return RI_OK;
}

enum ri_status kal_connect(struct kal_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = use(connection, qp, param, FK_CONNECT);
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_convert(struct kal_connection *connection, struct ri_qp *qp,
                           const struct kal_convert_param *param)
{
    struct ri_connect_param as = { .size = sizeof(as), .ird = param->ird, .ord = param->ord };
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = use(connection, qp, &as, FK_CONVERT);
    if (!status)
        fk.converted = *param;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_accept(struct kal_connection *connection, struct ri_qp *qp,
                          const struct ri_connect_param *param)
{
    enum ri_status status;

    if (fk.during_accept)
        fk.during_accept();
    pthread_mutex_lock(&fk_lock);
    if (connection->withdrawn || !connection->undecided)
        status = RI_ERR_INVALID_STATE;
    else
        status = use(connection, qp, param, FK_ACCEPT);
    connection->undecided &= status != RI_OK;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

/* The request is reported again, as one of the other listener. */
enum ri_status kal_migrate(struct kal_connection *connection, struct kal_listener *listener)
{
    enum ri_status status;

    if (fk.during_migrate)
        fk.during_migrate();
    pthread_mutex_lock(&fk_lock);
    if (connection->withdrawn || !connection->undecided)
        status = RI_ERR_INVALID_STATE;
    else
        status = fk_planned(FK_MIGRATE);
    if (!status) {
        fk_forget(connection, &connection->upcall);
        fk.connections--;
        fk.connection = NULL;
        fk.migrations++;
    }
    pthread_mutex_unlock(&fk_lock);
    if (status)
        return status;
    fk_request(listener, &connection->asked);
    free(connection);
    return RI_OK;
}

enum ri_status kal_attach(struct kal_connection *connection, struct ri_qp *qp, void *lane_context)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    (void)lane_context;
    pthread_mutex_lock(&fk_lock);
    if (!connection->qp) {
        connection->qp = (struct fk_qp *)qp;
        status = RI_OK;
    }
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_place(struct kal_connection *connection, struct kal_rnic *rnic,
                         void *lane_context)
{
    (void)rnic;
    connection->lane = lane_context; /* there is one */
    return RI_OK;
}

enum ri_status kal_confirm(struct kal_connection *connection, const struct ri_connect_param *param)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_CONFIRM);
    fk.confirms += !status;
    connection->param = *param;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_reject(struct kal_connection *connection, const void *private_data,
                          uint16_t private_data_length)
{
    enum ri_status status;

    (void)private_data;
    (void)private_data_length;
    pthread_mutex_lock(&fk_lock);
    status = connection->withdrawn ? RI_ERR_INVALID_STATE : fk_planned(FK_REJECT);
    fk.rejects += !status;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_disconnect(struct kal_connection *connection, struct ri_qp *ri,
                              const void *private_data, uint16_t private_data_length)
{
    struct fk_qp *qp = (struct fk_qp *)ri;
    enum ri_status status;

    (void)private_data;
    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_DISCONNECT);
    if (!status && qp->state == RI_QPS_IDLE)
        status = RI_ERR_INVALID_STATE;
    if (!status) {
        fk.disconnects++;
        connection->private_data_length = private_data_length;
        if (qp->state == RI_QPS_RTS)
            qp->state = RI_QPS_CLOSING;
    }
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_connection_info(struct kal_connection *connection,
                                   struct ri_connection_event *info)
{
    pthread_mutex_lock(&fk_lock);
    *info = connection->info;
    info->type = RI_CONNECTION_ESTABLISHED;
    pthread_mutex_unlock(&fk_lock);
    return RI_OK;
}

enum ri_status kal_listen(struct kal_rnic *rnic, void *lane, const struct ri_listen_param *param,
                          void *context, struct sockaddr_storage *bound,
                          struct kal_listener **listener)
{
    enum ri_status status = fk.listen_kind[param->datagram];
    struct kal_listener *made;

    (void)lane;
    if (!status)
        status = fk_make(&fk.listeners, FK_LISTEN);
    if (status)
        return status;
    made = fk_new(sizeof(*made), &fk.listeners);
    if (!made)
        return RI_ERR_NO_RESOURCES;
    *listener = made;
    (*listener)->rnic = rnic;
    (*listener)->context = context;
    (*listener)->param = *param;
    fk.listen_param = *param;
    if (param->datagram)
        fk.datagram_port = ntohs(((const struct sockaddr_in *)param->address)->sin_port);
    fk.listener = *listener;
    memset(bound, 0, sizeof(*bound));
    memcpy(bound, param->address,
           param->address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                 : sizeof(struct sockaddr_in));
    if (!((struct sockaddr_in *)bound)->sin_port) /* in the same place in both families */
        ((struct sockaddr_in *)bound)->sin_port = htons(4711);
    return RI_OK;
}

void kal_listen_destroy(struct kal_listener *listener)
{
    pthread_mutex_lock(&fk_lock);
    fk_forget(listener, &listener->upcall);
    fk.listeners--;
    pthread_mutex_unlock(&fk_lock);
    free(listener);
}

/* --- datagram service --- */

enum ri_status kal_service_request(struct kal_connection *connection,
                                   const struct ri_connect_param *param)
{
    enum ri_status status;

    pthread_mutex_lock(&fk_lock);
    status = fk_planned(FK_SERVICE_REQUEST);
    fk.questions += !status;
    connection->param = *param;
    connection->private_data_length = param->private_data_length;
    pthread_mutex_unlock(&fk_lock);
    return status;
}

enum ri_status kal_service_reply(struct kal_connection *connection,
                                 const struct ri_service_reply *reply)
{
    enum ri_status status;

    if (fk.during_reply)
        fk.during_reply();
    pthread_mutex_lock(&fk_lock);
    status = connection->withdrawn || !connection->undecided ? RI_ERR_INVALID_STATE
                                                             : fk_planned(FK_SERVICE_REPLY);
    if (!status) {
        connection->undecided = false;
        fk.replies++;
        fk.service_reply = *reply;
    }
    pthread_mutex_unlock(&fk_lock);
    return status;
}

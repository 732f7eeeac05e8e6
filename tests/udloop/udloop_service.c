/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram service inside the process: the listener on a port gets the request; its answer is
 * returned.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "udloop.h"

#include <stdlib.h>
#include <string.h>

#define SERVICE_ID_UDP UINT64_C(0x0000000001110000) /* RDMA IP CM service */

static struct listener *listeners;
static uint16_t next_port = FIRST_PORT;

static struct sockaddr_storage address(uint16_t port)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_storage storage = { 0 };

    memcpy(&storage, &in, sizeof(in));
    return storage;
}

static uint16_t port_of(const struct sockaddr *address)
{
    return ntohs(address->sa_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static struct listener *on_port(uint16_t port)
{
    struct listener *listener = listeners;

    while (listener && listener->port != port)
        listener = listener->next;
    return listener;
}

/* ID 0: the port is given by itself; else the ID must be that of a UDP port. */
static bool service_port(uint64_t service_id, uint16_t *port)
{
    if (service_id && (service_id & ~UINT64_C(0xffff)) != SERVICE_ID_UDP)
        return false;
    if (service_id)
        *port = (uint16_t)service_id;
    return true;
}

/* ---- listeners ---- */

enum ri_status loop_listen(struct ri_rnic *base, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **out)
{
    uint16_t port = port_of(param->address);
    struct listener *listener;

    if (!param->datagram || !service_port(param->service_id, &port))
        return RI_ERR_NOT_SUPPORTED;
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_lock(&loop_lock);
    while (!port) {
        if (!on_port(next_port))
            port = next_port;
        next_port++;
    }
    if (on_port(port)) {
        pthread_mutex_unlock(&loop_lock);
        free(listener);
        return RI_ERR_ADDRESS_IN_USE;
    }
    listener->base = (struct ri_listener){ base->ops, context };
    listener->rnic = (struct rnic *)base;
    listener->port = port;
    listener->next = listeners;
    listeners = listener;
    pthread_mutex_unlock(&loop_lock);
    *bound = address(port);
    *out = &listener->base;
    return RI_OK;
}

static void connection_free(struct connection *connection)
{
    if (connection->other)
        connection->other->other = NULL;
    free(connection);
}

enum ri_status loop_listen_destroy(struct ri_listener *base)
{
    struct listener *listener = (struct listener *)base, **at = &listeners;

    pthread_mutex_lock(&loop_lock);
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    for (struct queued_event *queued_event = listener->rnic->first; queued_event;
         queued_event = queued_event->next)
        if (queued_event->about == listener) /* not reported yet: still owned here */
            connection_free(queued_event->connection);
    loop_forget(listener->rnic, listener);
    pthread_mutex_unlock(&loop_lock);
    free(listener);
    return RI_OK;
}

/* ---- requests ---- */

/* Under the lock. Reports an answer: of the peer's consumer, or of udloop itself. */
static enum ri_status answer(struct connection *asking, enum ri_connection_event_type type,
                             const struct ri_service_reply *reply)
{
    struct queued_event queued_event = {
        .kind = QUEUED_EVENT,
        .about = asking,
        .connection_event = { .size = sizeof(queued_event.connection_event),
                              .type = type,
                              .reason = RI_REASON_TIMEOUT,
                              .service_status = reply->status,
                              .remote_qkey = reply->qkey,
                              .private_data_length = reply->private_data_length,
                              .local = address(0),
                              .peer = address(0) },
        .path = { .size = sizeof(queued_event.path), .global = 1, .hop_limit = 7 }
    };

    if (reply->qp)
        queued_event.connection_event.remote_qpn = ((struct qp *)reply->qp)->qpn;
    if (reply->private_data_length)
        memcpy(queued_event.data, reply->private_data, reply->private_data_length);
    memcpy(queued_event.path.destination_gid, loop_gid, sizeof(loop_gid));
    if (!loop_queue(asking->rnic, &queued_event))
        return RI_ERR_NO_RESOURCES;
    if (asking->other)
        asking->other->other = NULL;
    asking->other = NULL;
    return RI_OK;
}

static void expired(struct ri_timer *timer)
{
    struct connection *asking = (struct connection *)((char *)timer -
                                                      offsetof(struct connection, timer));

    pthread_mutex_lock(&loop_lock);
    if (asking->other && /* not answered */
        answer(asking, RI_CONNECTION_FAILED, &(struct ri_service_reply){ 0 }) != RI_OK)
        abort(); /* the loss could not be reported */
    pthread_mutex_unlock(&loop_lock);
}

enum ri_status loop_connection_create(struct ri_rnic *base, void *context,
                                      struct ri_connection **out)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (!connection)
        return RI_ERR_NO_RESOURCES;
    connection->base = (struct ri_connection){ base->ops, context };
    connection->rnic = (struct rnic *)base;
    connection->timer.expired = expired;
    *out = &connection->base;
    return RI_OK;
}

enum ri_status loop_connection_destroy(struct ri_connection *base)
{
    struct connection *connection = (struct connection *)base;
    struct rnic *rnic = connection->rnic;

    if (connection->timed)
        rnic->host->timer_cancel(rnic->host, rnic->lane.context, &connection->timer);
    pthread_mutex_lock(&loop_lock);
    loop_forget(rnic, connection);
    connection_free(connection);
    pthread_mutex_unlock(&loop_lock);
    return RI_OK;
}

/* Under the lock. */
static enum ri_status show(struct listener *listener, struct connection *asking,
                           const struct ri_connect_param *param)
{
    struct queued_event queued_event = { .kind = QUEUED_REQUEST,
                                         .about = listener,
                                         .request = {
                                             .size = sizeof(queued_event.request),
                                             .local = address(listener->port),
                                             .peer = address(9),
                                             .private_data_length = param->private_data_length,
                                             .datagram = true } };
    struct ri_connection *shown;

    if (loop_connection_create(&listener->rnic->base, NULL, &shown) != RI_OK)
        return RI_ERR_NO_RESOURCES;
    queued_event.connection = (struct connection *)shown;
    queued_event.connection->other = asking;
    asking->other = queued_event.connection;
    if (param->private_data_length)
        memcpy(queued_event.data, param->private_data, param->private_data_length);
    if (loop_queue(listener->rnic, &queued_event))
        return RI_OK;
    connection_free(queued_event.connection);
    return RI_ERR_NO_RESOURCES;
}

enum ri_status loop_service_request(struct ri_connection *base,
                                    const struct ri_connect_param *param)
{
    struct connection *asking = (struct connection *)base;
    struct rnic *rnic = asking->rnic;
    uint16_t port = port_of(param->destination);
    struct listener *listener;
    enum ri_status status = RI_OK;

    if (!service_port(param->service_id, &port))
        return RI_ERR_NOT_SUPPORTED;
    if (param->private_data_length > DATA_MAX)
        return RI_ERR_LIMIT;
    asking->timed = param->deadline != RI_NO_DEADLINE;
    asking->timer.deadline = param->deadline;
    pthread_mutex_lock(&loop_lock);
    listener = on_port(port);
    if (listener)
        status = show(listener, asking, param);
    else
        status = answer(asking, RI_CONNECTION_SERVICE_REPLY,
                        &(struct ri_service_reply){ .status = RI_SERVICE_NOT_SUPPORTED });
    pthread_mutex_unlock(&loop_lock);
    if (status == RI_OK && asking->timed)
        rnic->host->timer_set(rnic->host, rnic->lane.context, &asking->timer);
    return status;
}

/* The requester may have given up. */
enum ri_status loop_service_reply(struct ri_connection *base, const struct ri_service_reply *reply)
{
    struct connection *shown = (struct connection *)base;
    enum ri_status status = RI_OK;

    if (reply->status == RI_SERVICE_VALID && reply->qkey != SERVICE_QKEY)
        return RI_ERR_INVALID_ARGUMENT;
    pthread_mutex_lock(&loop_lock);
    if (shown->other)
        status = answer(shown->other, RI_CONNECTION_SERVICE_REPLY, reply);
    pthread_mutex_unlock(&loop_lock);
    return status;
}

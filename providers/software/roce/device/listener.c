/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listeners, and services for datagrams (SIDR).
 */
#include "connection.h"

#include <stdlib.h>
#include <utlist.h>

/* Requests that are not decided, at least: instead of a queue of the system, which would hold peers
 * beyond the host's backlog. */
#define BACKLOG 1024u

/* --- listen --- */

static bool is_any(const uint8_t gid[static GID_LEN])
{
    static const uint8_t ipv4[GID_LEN] = { [10] = 0xFF, [11] = 0xFF }, ipv6[GID_LEN];

    return !memcmp(gid, ipv4, GID_LEN) || !memcmp(gid, ipv6, GID_LEN);
}

/* {service} Connections or datagrams: rdma_cm's port spaces are for one kind. */
static bool is_of_kind(const struct ri_listen_param *param, uint64_t service_id)
{
    enum cma_port_space space;
    uint16_t port;

    if (!cma_split_service_id(service_id, &space, &port))
        return true;
    return param->datagram ? space == CMA_PS_UDP || space == CMA_PS_IPOIB
                           : space == CMA_PS_TCP || space == CMA_PS_IB;
}

/* Fewer than the host takes: it counts one as decided only when the call that decides it has
 * returned, and drops what is beyond. */
static uint32_t shown_at_once(uint32_t backlog)
{
    if (!backlog)
        return BACKLOG;
    return backlog > 1 ? backlog - (backlog + 3u) / 4u : 1;
}

static void describe(const struct ri_listen_param *param, const uint8_t gid[static GID_LEN],
                     struct roce_listener *listener)
{
    struct cm_service *service = &listener->service;

    service->datagram = param->datagram;
    listener->limit = shown_at_once(param->backlog);
    service->backlog = param->backlog > BACKLOG ? param->backlog : BACKLOG;
    if (!is_any(gid)) {
        memcpy(service->gid, gid, GID_LEN);
        return;
    }
    service->ipv6 = !gid_is_ipv4(gid);
    service->ipv4 = gid_is_ipv4(gid) || !param->family_only;
}

static enum ri_status bind_service(struct roce_listener *listener, bool reuse, bool any_port,
                                   struct net_why *why)
{
    struct cm_service *service = &listener->service;
    struct gsi *gsi = listener->device->cm.gsi;
    struct gsi_service wanted = { .id = service->service_id,
                                  .scope = listener->scope,
                                  .families = (uint8_t)((service->ipv4 ? GSI_IPV4 : 0) |
                                                        (service->ipv6 ? GSI_IPV6 : 0)),
                                  .reuse = reuse };
    enum ri_status status;

    memcpy(wanted.gid, service->gid, GID_LEN);
    if (any_port)
        status = gsi_bind_any(gsi, service->datagram ? CMA_PS_UDP : CMA_PS_TCP, &wanted,
                              &listener->binding, why);
    else
        status = gsi_bind(gsi, &wanted, &listener->binding, why);
    service->service_id = wanted.id;
    if (status != RI_OK)
        return status;
    status = gsi_listen(gsi, listener->binding, why);
    if (status != RI_OK)
        gsi_unbind(gsi, listener->binding);
    return status;
}

/* As for sockets: if another has the port for IPv4, an IPv6 wildcard stands for IPv6 alone. */
static enum ri_status bind_as_possible(struct roce_listener *listener,
                                       const struct ri_listen_param *param, bool any_port)
{
    struct net_why why = { "" };
    enum ri_status status = bind_service(listener, param->reuse_address, any_port, &why);

    if (status == RI_ERR_ADDRESS_IN_USE && listener->service.ipv4 && listener->service.ipv6) {
        listener->service.ipv4 = false;
        status = bind_service(listener, param->reuse_address, any_port, &why);
    }
    if (status != RI_OK)
        ri_log(listener->device->core.host, RI_LOG_INFO, "a service cannot be had: %s", why.text);
    return status;
}

static enum ri_status open_addresses(struct roce_listener *listener)
{
    if (listener->service.ipv4 || listener->service.ipv6)
        return roce_open_all(listener->device);
    return roce_open_address(listener->device, listener->service.gid, &listener->scope);
}

static enum ri_status start(struct roce_listener *listener, const struct ri_listen_param *param,
                            bool any_port)
{
    struct roce_cm *cm = &listener->device->cm;
    enum ri_status status = open_addresses(listener);
    bool alone;

    if (status != RI_OK)
        return status;
    status = bind_as_possible(listener, param, any_port);
    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&cm->lock);
    alone = cm_service_listen(&cm->manager, &listener->service);
    cm->listeners += alone;
    pthread_mutex_unlock(&cm->lock);
    if (alone)
        return RI_OK;
    gsi_unbind(cm->gsi, listener->binding);
    return RI_ERR_ADDRESS_IN_USE;
}

enum ri_status roce_listen(struct ri_rnic *base, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **out)
{
    struct roce_rnic *device = roce_of(base);
    struct roce_listener *listener;
    uint8_t gid[GID_LEN];
    enum ri_status status;
    uint16_t port;

    if (!param->address || !roce_address_gid(param->address, gid, &port) || param->port)
        return RI_ERR_INVALID_ARGUMENT;
    if (!is_of_kind(param, param->service_id))
        return RI_ERR_NOT_SUPPORTED;
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return RI_ERR_NO_RESOURCES;
    listener->device = device;
    listener->base.ops = device->core.base.ops;
    listener->base.context = context;
    describe(param, gid, listener);
    listener->service.service_id = param->service_id
                                       ? param->service_id
                                       : cma_service_id(param->datagram ? CMA_PS_UDP : CMA_PS_TCP,
                                                        port);
    status = start(listener, param, !param->service_id && !port);
    if (status != RI_OK) {
        free(listener);
        return status;
    }
    memset(bound, 0, sizeof(*bound));
    memcpy(bound, param->address,
           param->address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                : sizeof(struct sockaddr_in6));
    roce_set_port((struct sockaddr *)bound, (uint16_t)listener->service.service_id);
    *out = &listener->base;
    return RI_OK;
}

/* Requests that nobody has heard of. Under cm.lock. */
static void refuse_untold(struct roce_listener *listener)
{
    struct cm_conn *conn, *next;

    DL_FOREACH_SAFE (listener->service.requests, conn, next) {
        struct roce_connection *c = container_of(conn, struct roce_connection, cm);

        if (c->shown_by == listener)
            c->shown_by = NULL;
        if (c->listener != listener)
            continue;
        roce_silence_connection(c);
        roce_connection_release(c);
    }
}

enum ri_status roce_listen_destroy(struct ri_listener *base)
{
    struct roce_listener *listener = container_of(base, struct roce_listener, base);
    struct roce_cm *cm = &listener->device->cm;

    gsi_unbind(cm->gsi, listener->binding);
    pthread_mutex_lock(&cm->lock);
    refuse_untold(listener);
    cm_service_end(&cm->manager, &listener->service);
    cm->listeners--;
    while (listener->upcalls)
        pthread_cond_wait(&cm->reported, &cm->lock);
    pthread_mutex_unlock(&cm->lock);
    free(listener);
    return RI_OK;
}

/* --- datagrams --- */

enum ri_status roce_service_request(struct ri_connection *base,
                                    const struct ri_connect_param *param)
{
    struct roce_connection *c = roce_connection_of(base);
    struct cm_message message = { .sidr_req = { .p_key = BTH_P_KEY } };
    struct roce_question question;
    enum ri_status status;

    if (param->private_data_length && !param->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (param->private_data_length > c->device->core.attr.service_request_private_data)
        return RI_ERR_LIMIT;
    status = roce_prepare(c, param, true, &question);
    if (status != RI_OK)
        return status;
    message.sidr_req.service_id = question.service_id;
    message.private_data = question.data;
    message.private_len = question.length;
    pthread_mutex_lock(&c->device->cm.lock);
    if (c->used || c->cm.state != CM_IDLE || c->cm.passive) {
        status = RI_ERR_INVALID_STATE;
    } else {
        c->used = c->datagram = true;
        cm_conn_ask(&c->cm, &question.address, &message, 20, 15, question.give_up, clock_now());
    }
    pthread_mutex_unlock(&c->device->cm.lock);
    return status;
}

static enum ri_status check_reply(const struct roce_connection *c,
                                  const struct ri_service_reply *reply)
{
    if (reply->private_data_length && !reply->private_data)
        return RI_ERR_INVALID_ARGUMENT;
    if (reply->private_data_length > c->device->core.attr.service_reply_private_data)
        return RI_ERR_LIMIT;
    if (reply->status == RI_SERVICE_VALID && reply->qp && !roce_is_datagram(roce_qp_of(reply->qp)))
        return RI_ERR_INVALID_ARGUMENT;
    return RI_OK;
}

enum ri_status roce_service_reply(struct ri_connection *base, const struct ri_service_reply *reply)
{
    struct roce_connection *c = roce_connection_of(base);
    const bool valid = reply->status == RI_SERVICE_VALID;
    const bool known = reply->status <= RI_SERVICE_NO_QP;
    struct cm_message message = { .private_data = reply->private_data,
                                  .private_len = reply->private_data_length };
    enum ri_status status = check_reply(c, reply);

    if (status != RI_OK)
        return status;
    message.sidr_rep.status = known ? (uint8_t)reply->status : CM_SIDR_REJECT;
    if (valid) {
        message.sidr_rep.qpn = reply->qp ? roce_qp_of(reply->qp)->core.qpn : reply->qpn;
        message.sidr_rep.q_key = reply->qkey;
    }
    pthread_mutex_lock(&c->device->cm.lock);
    if (!c->datagram || !cm_conn_answer(&c->cm, &message, clock_now()))
        status = RI_ERR_INVALID_STATE;
    else
        roce_decided(c);
    pthread_mutex_unlock(&c->device->cm.lock);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause
 * Addresses of ids: bind and resolve. Both report at once: the kernel's routing table has the
 * route, and there is no path record to ask for. */
#include "cm.h"

#include <stdlib.h>

/* Finds the device with that address; for a wildcard the first device. Returns 0 or an error
 * number. */
static int find_context(const struct rcm_id *id, const struct sockaddr *address,
                        struct vb_context **found)
{
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);

    if (!count)
        return ENODEV;
    for (uint32_t i = 0; i < count; i++) {
        if (!rcm_context_serves(contexts[i], rcm_is_datagram(id)) ||
            (!rcm_address_any(address) && !rcm_context_has(contexts[i], address)))
            continue;
        *found = contexts[i];
        return 0;
    }
    return EADDRNOTAVAIL;
}

/* Creates the id's connection object, which reserves the address. Returns 0 or an error number. */
static int hold(struct rcm_id *id, const struct sockaddr *address)
{
    const struct ri_listen_param param = { .size = sizeof(param),
                                           .address = address,
                                           .datagram = rcm_is_datagram(id),
                                           .family_only = id->family_only,
                                           .reuse_address = id->reuse_address };
    struct sockaddr_storage bound;
    struct vb_context *context;
    struct ual_conn *conn;
    int error = find_context(id, address, &context);

    if (error)
        return error;
    error = vb_errno(ual_conn_create(context->device, &rcm_conn_upcalls, id, &conn));
    if (error)
        return error;
    error = vb_errno(ual_conn_bind_as(conn, &param, &bound));
    if (error) {
        ual_conn_free(conn);
        return error;
    }
    id->conn = conn;
    id->context = context;
    if (!rcm_address_any(address))
        rcm_id_set_context(id, context);
    rcm_id_set_local(id, (const struct sockaddr *)&bound);
    return 0;
}

VB_PUBLIC int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    enum rcm_state was;
    int error;

    if (!addr || !rcm_address_length(addr))
        return rcm_fail(addr ? EAFNOSUPPORT : EINVAL);
    if (!rcm_step(own, RCM_DO_BIND, &was))
        return rcm_fail(EINVAL);
    error = hold(own, addr);
    if (!error)
        return 0;
    rcm_step_back(own, was);
    return rcm_fail(error);
}

/* Finds the device with a route to the destination, and its local address on that route. */
static int find_way(struct rcm_id *id, const struct sockaddr *destination,
                    struct vb_context **context, struct sockaddr_storage *source)
{
    struct vb_context **contexts;
    uint32_t count = rcm_contexts(&contexts);

    for (uint32_t i = 0; i < count; i++) {
        if ((id->ibv.verbs && contexts[i] != id->context) ||
            !rcm_context_serves(contexts[i], rcm_is_datagram(id)))
            continue;
        if (ual_device_route(contexts[i]->device, 0, destination, source) == RI_OK) {
            *context = contexts[i];
            return 0;
        }
    }
    return count ? EHOSTUNREACH : ENODEV;
}

/* A group is reached from any address that the id is bound to, without a route. */
static bool is_way(const struct rcm_id *id, const struct sockaddr *destination)
{
    const struct sockaddr *own = &id->ibv.route.addr.src_addr;

    return id->conn && rcm_address_group(destination) && own->sa_family == destination->sa_family &&
           !rcm_address_any(own);
}

/* Returns 0 or an error number; on an error the id is unchanged. */
static int resolve(struct rcm_id *id, const struct sockaddr *source,
                   const struct sockaddr *destination)
{
    struct sockaddr_storage found;
    struct vb_context *context;
    int error = source && !id->conn ? hold(id, source) : 0;

    if (error)
        return error;
    if (is_way(id, destination)) {
        rcm_id_set_peer(id, destination);
        return 0;
    }
    error = find_way(id, destination, &context, &found);
    if (error)
        return error;
    if (id->conn && id->context != context) {
        ual_conn_free(id->conn); /* a wildcard, reserved on another device */
        id->conn = NULL;
    }
    if (rcm_address_any(&id->ibv.route.addr.src_addr) || !id->conn) {
        __be16 port = rdma_get_src_port(&id->ibv);

        ((struct sockaddr_in *)(void *)&found)->sin_port = id->conn ? port : 0;
        rcm_id_set_local(id, (const struct sockaddr *)&found);
    }
    rcm_id_set_context(id, context);
    rcm_id_set_peer(id, destination);
    return 0;
}

VB_PUBLIC int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
                                struct sockaddr *dst_addr, int timeout_ms)
{
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    struct rcm_event *event;
    enum rcm_state was;
    int error;

    (void)timeout_ms;
    if (!dst_addr || !rcm_address_length(dst_addr) || (src_addr && !rcm_address_length(src_addr)))
        return rcm_fail(dst_addr ? EAFNOSUPPORT : EINVAL);
    event = rcm_event_new();
    if (!event)
        return -1;
    if (!rcm_step(own, RCM_DO_RESOLVE_ADDRESS, &was)) {
        free(event);
        return rcm_fail(EINVAL);
    }
    error = resolve(own, src_addr, dst_addr);
    if (error)
        rcm_step_back(own, was);
    rcm_event_post(own, event, own, error ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
                   -error);
    return rcm_event_wait(own);
}

VB_PUBLIC int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    struct rcm_id *own = rcm_id_of(id);
    struct rcm_event *event = rcm_event_new();

    (void)timeout_ms;
    if (!event)
        return -1;
    if (!rcm_step(own, RCM_DO_RESOLVE_ROUTE, NULL)) {
        free(event);
        return rcm_fail(EINVAL);
    }
    rcm_event_post(own, event, own, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return rcm_event_wait(own);
}

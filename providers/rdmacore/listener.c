/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listening points. A wildcard stands for the addresses of the device's port, with one identifier
 * for each. So two devices of a host can listen on the same port number, and requests over other
 * devices are not received. If no address is known the wildcard itself is used.
 */
#include "connection.h"
#include "verbs.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESSES 32u

static bool is_wildcard(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == INADDR_ANY;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* As for sockets, the IPv6 wildcard covers both families, unless it is for one only. */
static bool stands_for(const struct sockaddr *wildcard, bool family_only,
                       const struct sockaddr_storage *address)
{
    return address->ss_family == wildcard->sa_family ||
           (wildcard->sa_family == AF_INET6 && !family_only);
}

static bool is_link_local(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static uint32_t choose(struct rnic *rnic, const struct ri_listen_param *param,
                       struct sockaddr_storage *asked, struct sockaddr_storage *chosen)
{
    struct ri_address *found = calloc(ADDRESSES, sizeof(*found));
    struct ri_port_attr port = { .size = sizeof(port),
                                 .port = param->port,
                                 .addresses = found,
                                 .address_capacity = found ? ADDRESSES : 0 };
    const struct sockaddr *wildcard = (const struct sockaddr *)asked;
    uint32_t count = 0;

    if (found && is_wildcard(wildcard) && rdmacore_query_port(&rnic->base, &port) == RI_OK) {
        for (uint32_t i = 0; i < port.address_count && i < ADDRESSES; i++) {
            if (!stands_for(wildcard, param->family_only, &found[i].sockaddr))
                continue;
            chosen[count] = found[i].sockaddr;
            *service_port(&chosen[count++]) = *service_port(asked);
        }
    }
    free(found);
    if (!count)
        chosen[count++] = *asked;
    return count;
}

static int share_address(struct rdma_cm_id *id)
{
    int yes = 1;

    return rdmacore_errno(
        rdmacore->set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
}

static int listen_on(struct listener *listener, struct sockaddr_storage *address, uint32_t backlog)
{
    struct rdma_cm_id *id;
    int error = rdmacore_errno(
        rdmacore->create_id(listener->rnic->cm, &id, listener_context(listener), listener->ps));

    if (error)
        return error;
    error = listener->reuse ? share_address(id) : 0;
    if (!error)
        error = rdmacore_errno(rdmacore->bind_addr(id, (struct sockaddr *)address));
    if (!error)
        error = rdmacore_errno(rdmacore->listen(id, (int)backlog));
    if (error) {
        rdmacore->destroy_id(id);
        return error;
    }
    if (service_port(address))
        *service_port(address) = *service_port(&id->route.addr.src_storage);
    listener->ids[listener->count++] = id;
    return 0;
}

/* All use the port that the first one got. Some devices cannot listen on link-local addresses
 * besides others. */
static int listen_all(struct listener *listener, struct sockaddr_storage *addresses, uint32_t count,
                      uint32_t backlog)
{
    for (uint32_t i = 0; i < count; i++) {
        int error;

        if (i)
            *service_port(&addresses[i]) = *service_port(&addresses[0]);
        error = listen_on(listener, &addresses[i], backlog);
        if (error && !(listener->count && is_link_local(&addresses[i])))
            return error;
    }
    return 0;
}

static void forget(struct listener *listener)
{
    while (listener->count)
        rdmacore->destroy_id(listener->ids[--listener->count]);
}

static uint32_t without_ipv4(struct sockaddr_storage *addresses, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++)
        if (addresses[i].ss_family == AF_INET6)
            addresses[left++] = addresses[i];
    return left;
}

/* As kal does for sockets: if another listener has the port for IPv4, an IPv6 wildcard stands for
 * IPv6 alone. */
static int listen_as_possible(struct listener *listener, const struct sockaddr *asked,
                              struct sockaddr_storage *addresses, uint32_t count, uint32_t backlog)
{
    int error = listen_all(listener, addresses, count, backlog);

    if (error != EADDRINUSE || !is_wildcard(asked) || asked->sa_family != AF_INET6)
        return error;
    forget(listener);
    count = without_ipv4(addresses, count);
    return count ? listen_all(listener, addresses, count, backlog) : error;
}

enum ri_status rdmacore_listen(struct ri_rnic *base, const struct ri_listen_param *param,
                               void *context, struct sockaddr_storage *bound,
                               struct ri_listener **out)
{
    struct rnic *rnic = rnic_of(base);
    struct sockaddr_storage addresses[ADDRESSES];
    struct listener *listener;
    struct service service;
    enum ri_status status;
    uint32_t count;
    int error;

    if (param->datagram && !(rnic->attr.features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    if (param->port >= rnic->attr.ports)
        return RI_ERR_INVALID_ARGUMENT;
    status = service_to_hear(rnic, param, &service);
    if (status != RI_OK)
        return status;
    count = choose(rnic, param, &service.source, addresses);
    listener = calloc(1, sizeof(*listener) + count * sizeof(listener->ids[0]));
    if (!listener)
        return RI_ERR_NO_RESOURCES;
    listener->base.ops = rnic->base.ops;
    listener->base.context = context;
    listener->rnic = rnic;
    listener->ps = service.ps;
    listener->reuse = param->reuse_address;
    atomic_fetch_add(&rnic->listeners, 1);
    error = listen_as_possible(listener, (struct sockaddr *)&service.source, addresses, count,
                               param->backlog);
    if (error) {
        rdmacore_listen_destroy(&listener->base);
        return rdmacore_status(error);
    }
    memset(bound, 0, sizeof(*bound));
    memcpy(bound, param->address,
           param->address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                 : sizeof(struct sockaddr_in));
    if (service_port(&addresses[0]))
        *service_port(bound) = *service_port(&addresses[0]);
    *out = &listener->base;
    return RI_OK;
}

/* Waits for upcalls about it. */
enum ri_status rdmacore_listen_destroy(struct ri_listener *base)
{
    struct listener *listener = container_of(base, struct listener, base);

    forget(listener);
    atomic_fetch_sub(&listener->rnic->listeners, 1);
    free(listener);
    return RI_OK;
}

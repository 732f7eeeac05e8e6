/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses and InfiniBand service identifiers, in the form of rdma_cm.
 *
 * The connection manager for IP maps port P of connections to the service ID 0x000000000106PPPP and
 * port P of datagrams to 0x000000000111PPPP (IBA annex A11), and puts a header in front of the
 * private data. Here such an ID is converted to the port. Any other ID needs rdma_cm's InfiniBand
 * addresses (AF_IB), which it refuses on Ethernet: there such a service cannot be named. A GID has
 * the form of an IPv6 address; on RoCE it is one, or an IPv4-mapped one.
 */
#include "connection.h"

#include <endian.h>
#include <infiniband/ib.h>
#include <string.h>

#define PARTITION 0xffff /* the default one, as a full member */

in_port_t *service_port(struct sockaddr_storage *address)
{
    switch (address->ss_family) {
    case AF_INET: return &((struct sockaddr_in *)(void *)address)->sin_port;
    case AF_INET6: return &((struct sockaddr_in6 *)(void *)address)->sin6_port;
    default: return NULL;
    }
}

static bool take_address(const struct sockaddr *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof(*to));
    if (from->sa_family == AF_INET)
        memcpy(to, from, sizeof(struct sockaddr_in));
    else if (from->sa_family == AF_INET6)
        memcpy(to, from, sizeof(struct sockaddr_in6));
    return to->ss_family != AF_UNSPEC;
}

/* True: the ID stands for a port, returned in network order. */
static bool is_port(uint64_t id, bool datagram, in_port_t *port)
{
    *port = htons((uint16_t)(id & RDMA_IB_IP_PORT_MASK));
    return (id & RDMA_IB_IP_PS_MASK) == (datagram ? RDMA_IB_IP_PS_UDP : RDMA_IB_IP_PS_TCP);
}

/* ---- GIDs as IP addresses ---- */

static void unmap(struct sockaddr_storage *address, bool also_any)
{
    const struct sockaddr_in6 *from = (const struct sockaddr_in6 *)(const void *)address;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = from->sin6_port };

    if (address->ss_family != AF_INET6 ||
        !(IN6_IS_ADDR_V4MAPPED(&from->sin6_addr) ||
          (also_any && IN6_IS_ADDR_UNSPECIFIED(&from->sin6_addr))))
        return;
    memcpy(&to.sin_addr, from->sin6_addr.s6_addr + 12, sizeof(to.sin_addr));
    memset(address, 0, sizeof(*address));
    memcpy(address, &to, sizeof(to));
}

/* A link-local address needs a scope: the network interface of the device. */
static void name_link(const struct rnic *rnic, struct sockaddr_storage *address)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)address;

    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
        return;
    for (uint32_t i = 0; i < RDMACORE_GIDS && !in6->sin6_scope_id; i++) {
        struct ibv_gid_entry entry;

        memset(&entry, 0, sizeof(entry));
        if (!rdmacore->query_gid(rnic->verbs, 1, i, &entry))
            in6->sin6_scope_id = entry.ndev_ifindex;
    }
}

/* ---- InfiniBand addresses ---- */

static void to_infiniband(struct sockaddr_storage *address, uint64_t id)
{
    struct sockaddr_ib to = { .sib_family = AF_IB,
                              .sib_pkey = htobe16(PARTITION),
                              .sib_sid = htobe64(id),
                              .sib_sid_mask = id ? UINT64_MAX : 0 };

    if (address->ss_family == AF_INET6)
        memcpy(&to.sib_addr, &((struct sockaddr_in6 *)(void *)address)->sin6_addr, 16);
    memset(address, 0, sizeof(*address));
    memcpy(address, &to, sizeof(to));
}

void service_gid_address(const struct sockaddr *from, struct sockaddr_storage *to)
{
    struct sockaddr_in6 gid = { .sin6_family = AF_INET6 };

    memcpy(&gid.sin6_addr, (const char *)from + offsetof(struct sockaddr_ib, sib_addr), 16);
    memset(to, 0, sizeof(*to));
    memcpy(to, &gid, sizeof(gid));
}

static enum rdma_port_space raw_space(bool datagram)
{
    return datagram ? RDMA_PS_UDP : RDMA_PS_IB;
}

/* ---- services ---- */

enum ri_status service_of(const struct rnic *rnic, const struct ri_connect_param *param,
                          bool datagram, struct service *service)
{
    in_port_t port = 0;

    *service = (struct service){ .ps = datagram ? RDMA_PS_UDP : RDMA_PS_TCP };
    if (!take_address(param->destination, &service->destination) ||
        (param->source && !take_address(param->source, &service->source)))
        return RI_ERR_INVALID_ARGUMENT;
    if (param->service_id && !is_port(param->service_id, datagram, &port)) {
        if (rnic->iwarp || rnic->ethernet || param->destination->sa_family != AF_INET6) {
            ri_log(rnic->host, RI_LOG_WARNING,
                   "service ID 0x%016llx cannot be asked for over %s; over Ethernet, and to IP "
                   "addresses, only 0x%llx plus a port number can",
                   (unsigned long long)param->service_id, rnic->device,
                   datagram ? RDMA_IB_IP_PS_UDP : RDMA_IB_IP_PS_TCP);
            return RI_ERR_NOT_SUPPORTED;
        }
        to_infiniband(&service->destination, param->service_id);
        if (param->source)
            to_infiniband(&service->source, 0);
        service->ps = raw_space(datagram);
        return RI_OK;
    }
    unmap(&service->destination, false);
    unmap(&service->source, service->destination.ss_family == AF_INET);
    name_link(rnic, &service->destination);
    if (param->service_id)
        *service_port(&service->destination) = port;
    return RI_OK;
}

enum ri_status service_to_hear(const struct rnic *rnic, const struct ri_listen_param *param,
                               struct service *service)
{
    in_port_t port;

    *service = (struct service){ .ps = param->datagram ? RDMA_PS_UDP : RDMA_PS_TCP };
    if (!param->address || !take_address(param->address, &service->source))
        return RI_ERR_INVALID_ARGUMENT;
    if (!param->service_id)
        return RI_OK;
    if (is_port(param->service_id, param->datagram, &port)) {
        *service_port(&service->source) = port;
        return RI_OK;
    }
    if (rnic->iwarp || rnic->ethernet || is_port(param->service_id, !param->datagram, &port))
        return RI_ERR_NOT_SUPPORTED;
    to_infiniband(&service->source, param->service_id);
    service->ps = raw_space(param->datagram);
    return RI_OK;
}

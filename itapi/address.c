/* SPDX-License-Identifier: BSD-3-Clause
 * Addresses and Paths: between IT-API's structures and socket addresses. */
#include "itapi_private.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

static struct sockaddr_in *as_in(struct sockaddr_storage *address)
{
    return (struct sockaddr_in *)address;
}

static struct sockaddr_in6 *as_in6(struct sockaddr_storage *address)
{
    return (struct sockaddr_in6 *)address;
}

uint16_t itapi_port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)address)->sin6_port;
    return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port : 0;
}

bool itapi_net_addr_of(const struct sockaddr_storage *address, it_net_addr_t *net_addr)
{
    memset(net_addr, 0, sizeof(*net_addr));
    if (address->ss_family == AF_INET) {
        net_addr->addr_type = IT_IPV4;
        net_addr->addr.ipv4 = ((const struct sockaddr_in *)address)->sin_addr;
        return true;
    }
    if (address->ss_family == AF_INET6) {
        net_addr->addr_type = IT_IPV6;
        net_addr->addr.ipv6 = ((const struct sockaddr_in6 *)address)->sin6_addr;
        return true;
    }
    return false;
}

/* --- Paths to socket addresses --- */

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    it_net_addr_t x, y;

    return itapi_net_addr_of(a, &x) && itapi_net_addr_of(b, &y) && x.addr_type == y.addr_type &&
           memcmp(&x.addr, &y.addr,
                  x.addr_type == IT_IPV4 ? sizeof(x.addr.ipv4) : sizeof(x.addr.ipv6)) == 0;
}

/*
 * A link-local address means something on one link only, and a Path has no member for the link: it
 * is the one whose interface owns laddr. With laddr open, it is the first interface that is up and
 * has such an address.
 */
static uint32_t link_scope(const struct in6_addr *local)
{
    struct ifaddrs *list, *entry;
    bool open = IN6_IS_ADDR_UNSPECIFIED(local);
    uint32_t scope = 0;

    if (getifaddrs(&list))
        return 0;
    for (entry = list; entry && !scope; entry = entry->ifa_next) {
        const struct sockaddr_in6 *own = (const struct sockaddr_in6 *)entry->ifa_addr;

        if (!own || own->sin6_family != AF_INET6 || !(entry->ifa_flags & IFF_UP))
            continue;
        if (open ? IN6_IS_ADDR_LINKLOCAL(&own->sin6_addr) && !(entry->ifa_flags & IFF_LOOPBACK)
                 : IN6_ARE_ADDR_EQUAL(&own->sin6_addr, local))
            scope = if_nametoindex(entry->ifa_name);
    }
    freeifaddrs(list);
    return scope;
}

static it_status_t path_v4(const it_iwarp_net_endpoint_t *path, struct sockaddr_in *source,
                           struct sockaddr_in *destination)
{
    uint32_t to = ntohl(path->raddr.ipv4.s_addr);

    if (to == INADDR_ANY || to == INADDR_BROADCAST || IN_MULTICAST(to))
        return IT_ERR_INVALID_NETADDR;
    source->sin_family = AF_INET;
    source->sin_addr = path->laddr.ipv4;
    destination->sin_family = AF_INET;
    destination->sin_addr = path->raddr.ipv4;
    return IT_SUCCESS;
}

static it_status_t path_v6(const it_iwarp_net_endpoint_t *path, struct sockaddr_in6 *source,
                           struct sockaddr_in6 *destination)
{
    const struct in6_addr *to = &path->raddr.ipv6, *from = &path->laddr.ipv6;

    if (IN6_IS_ADDR_UNSPECIFIED(to) || IN6_IS_ADDR_MULTICAST(to))
        return IT_ERR_INVALID_NETADDR;
    source->sin6_family = AF_INET6;
    source->sin6_addr = *from;
    destination->sin6_family = AF_INET6;
    destination->sin6_addr = *to;
    if (IN6_IS_ADDR_LINKLOCAL(to) || IN6_IS_ADDR_LINKLOCAL(from)) {
        uint32_t scope = link_scope(from);

        if (IN6_IS_ADDR_LINKLOCAL(from))
            source->sin6_scope_id = scope;
        if (IN6_IS_ADDR_LINKLOCAL(to))
            destination->sin6_scope_id = scope;
    }
    return IT_SUCCESS;
}

it_status_t itapi_path_addresses(const it_path_t *path, uint16_t local_port, uint16_t remote_port,
                                 struct sockaddr_storage *source, bool *has_source,
                                 struct sockaddr_storage *destination)
{
    const it_iwarp_net_endpoint_t *ends = &path->u.iwarp;
    it_status_t status;

    memset(source, 0, sizeof(*source));
    memset(destination, 0, sizeof(*destination));
    if (ends->ip_vers == IT_IP_VERS_IPV4) {
        status = path_v4(ends, as_in(source), as_in(destination));
        as_in(source)->sin_port = local_port;
        as_in(destination)->sin_port = remote_port;
        *has_source = local_port || ends->laddr.ipv4.s_addr != htonl(INADDR_ANY);
    } else if (ends->ip_vers == IT_IP_VERS_IPV6) {
        status = path_v6(ends, as_in6(source), as_in6(destination));
        as_in6(source)->sin6_port = local_port;
        as_in6(destination)->sin6_port = remote_port;
        *has_source = local_port || !IN6_IS_ADDR_UNSPECIFIED(&ends->laddr.ipv6);
    } else {
        status = IT_ERR_INVALID_NETADDR;
    }
    return status;
}

/* --- socket addresses to Paths --- */

static bool port_has(struct ual_device *ia, uint32_t number, const struct sockaddr_storage *local)
{
    struct ri_address addresses[32];
    struct ri_port_attr port = { .size = sizeof(port),
                                 .port = number,
                                 .addresses = addresses,
                                 .address_capacity = sizeof(addresses) / sizeof(addresses[0]) };

    if (ual_device_port(ia, &port) != RI_OK)
        return false;
    for (uint32_t i = 0; i < port.address_count && i < port.address_capacity; i++) {
        if (same_address(&addresses[i].sockaddr, local))
            return true;
    }
    return false;
}

size_t itapi_spigot_of(struct ual_device *ia, const struct sockaddr_storage *local)
{
    uint32_t ports = ual_device_attr(ia)->ports;

    for (uint32_t i = 1; i < ports; i++) {
        if (port_has(ia, i, local))
            return i;
    }
    return 0;
}

static void put_address(const struct sockaddr_storage *address, it_in_addr_t *to)
{
    if (address->ss_family == AF_INET)
        to->ipv4 = ((const struct sockaddr_in *)address)->sin_addr;
    else if (address->ss_family == AF_INET6)
        to->ipv6 = ((const struct sockaddr_in6 *)address)->sin6_addr;
}

void itapi_path_of(struct ual_device *ia, const struct sockaddr_storage *local,
                   const struct sockaddr_storage *peer, it_path_t *path)
{
    memset(path, 0, sizeof(*path));
    path->spigot_id = ia ? itapi_spigot_of(ia, local) : 0;
    path->timeout = IT_TIMEOUT_INFINITE;
    path->u.iwarp.ip_vers = peer->ss_family == AF_INET6 ? IT_IP_VERS_IPV6 : IT_IP_VERS_IPV4;
    put_address(local, &path->u.iwarp.laddr);
    put_address(peer, &path->u.iwarp.raddr);
}

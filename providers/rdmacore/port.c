/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ports of a device: state, GIDs, and the IP addresses of the network interface that belongs to it.
 */
#include "rdmacore.h"
#include "verbs.h"

#include "base/minmax.h"
#include "base/names.h"

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define IPOIB_OCTETS 20u /* hardware address of IP over InfiniBand: 4 octets, then the port's GID */

uint32_t port_mtu(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static uint8_t prefix_of(const struct sockaddr *mask)
{
    const uint8_t *octets;
    size_t length;
    uint8_t bits = 0;

    if (!mask)
        return 0;
    if (mask->sa_family == AF_INET) {
        octets = (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
        length = 4;
    } else {
        octets = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr;
        length = 16;
    }
    for (size_t i = 0; i < length; i++)
        bits = (uint8_t)(bits + __builtin_popcount(octets[i]));
    return bits;
}

/* ---- which network interface ---- */

/* True: the hardware address corresponds to this GID. iWARP: a MAC address and zeros (RDMAC's
 * EUI-48 form); InfiniBand: IPoIB. */
static bool makes_gid(const struct sockaddr_ll *link, const uint8_t *gid, bool iwarp)
{
    /* The C library stores long addresses beyond the 8 octets of the structure. */
    const uint8_t *octets = (const uint8_t *)link + offsetof(struct sockaddr_ll, sll_addr);

    if (iwarp)
        return link->sll_halen == 6 && !memcmp(octets, gid, 6);
    return link->sll_halen == IPOIB_OCTETS && !memcmp(octets + 4, gid, 16);
}

/* From the GID table if it has the interface, else by hardware addresses. Empty: unknown. */
static void network_interface(const struct rnic *rnic, uint8_t port, const uint8_t *gid,
                              const struct ifaddrs *list, char *name)
{
    struct ibv_gid_entry entry;

    name[0] = 0;
    for (uint32_t i = 0; i < RDMACORE_GIDS && !name[0]; i++) {
        memset(&entry, 0, sizeof(entry));
        if (!rdmacore->query_gid(rnic->verbs, port, i, &entry) && entry.ndev_ifindex &&
            !if_indextoname(entry.ndev_ifindex, name))
            name[0] = 0;
    }
    for (const struct ifaddrs *at = list; at && !name[0]; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_PACKET &&
            makes_gid((const struct sockaddr_ll *)(const void *)at->ifa_addr, gid, rnic->iwarp))
            snprintf(name, IF_NAMESIZE, "%s", at->ifa_name);
}

static void add_addresses(const struct ifaddrs *list, const char *name, struct ri_port_attr *attr)
{
    attr->address_count = 0;
    for (; list; list = list->ifa_next) {
        struct ri_address *address = &attr->addresses[attr->address_count];
        int family = list->ifa_addr ? list->ifa_addr->sa_family : AF_UNSPEC;

        if ((family != AF_INET && family != AF_INET6) || !names_have_netdev(name, list->ifa_name))
            continue;
        if (attr->address_count++ >= attr->address_capacity)
            continue;
        memset(address, 0, sizeof(*address));
        memcpy(&address->sockaddr, list->ifa_addr,
               family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        address->prefix_length = prefix_of(list->ifa_netmask);
    }
}

enum ri_status rdmacore_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    struct rnic *rnic = rnic_of(base);
    uint8_t port = (uint8_t)(attr->port + 1);
    char name[IF_NAMESIZE];
    struct ibv_gid_entry gid;
    struct ibv_port_attr state;
    struct ifaddrs *list;
    int error;

    if (attr->port >= rnic->attr.ports)
        return RI_ERR_INVALID_ARGUMENT;
    memset(&state, 0, sizeof(state));
    memset(&gid, 0, sizeof(gid));
    error = rdmacore_errno(rdmacore->query_port(rnic->verbs, port, &state));
    if (error)
        return rdmacore_status(error);
    rdmacore->query_gid(rnic->verbs, port, 0, &gid);
    if (getifaddrs(&list))
        return RI_ERR_NO_RESOURCES;
    network_interface(rnic, port, gid.gid.raw, list, name);
    add_addresses(list, name, attr);
    freeifaddrs(list);
    attr->online = state.state == IBV_PORT_ACTIVE;
    attr->link_ethernet = state.link_layer == IBV_LINK_LAYER_ETHERNET;
    attr->lid = state.lid;
    memcpy(attr->gid, gid.gid.raw, sizeof(attr->gid));
    attr->mtu = port_mtu(state.active_mtu);
    rdmacore_find_link(rnic, &state, gid.gid.raw, attr);
    snprintf(attr->name, sizeof(attr->name), "%.15s%s%.40s/%u", name, name[0] ? " " : "",
             rnic->device, port);
    return RI_OK;
}

/* ---- the GID table ---- */

static uint32_t type_of(const struct ibv_gid_entry *entry)
{
    static const uint8_t none[16];

    if (!memcmp(entry->gid.raw, none, sizeof(none)))
        return RI_GID_NONE;
    switch (entry->gid_type) {
    case IBV_GID_TYPE_ROCE_V1: return RI_GID_ROCE_V1;
    case IBV_GID_TYPE_ROCE_V2: return RI_GID_ROCE_V2;
    default: return RI_GID_INFINIBAND;
    }
}

/* The kernel refuses an empty place. */
enum ri_status rdmacore_query_gids(struct ri_rnic *base, uint32_t port, struct ri_gid *gids,
                                   uint32_t *count)
{
    struct rnic *rnic = rnic_of(base);
    uint8_t number = (uint8_t)(port + 1);
    struct ibv_port_attr state;
    uint32_t places;
    int error;

    if (rnic->iwarp)
        return RI_ERR_NOT_SUPPORTED;
    if (port >= rnic->attr.ports)
        return RI_ERR_INVALID_ARGUMENT;
    memset(&state, 0, sizeof(state));
    error = rdmacore_errno(rdmacore->query_port(rnic->verbs, number, &state));
    if (error)
        return rdmacore_status(error);
    places = state.gid_tbl_len > 0 ? min_u32((uint32_t)state.gid_tbl_len, RDMACORE_GIDS) : 0;
    for (uint32_t i = 0; i < places && i < *count; i++) {
        struct ibv_gid_entry entry;

        memset(&entry, 0, sizeof(entry));
        if (rdmacore->query_gid(rnic->verbs, number, i, &entry))
            memset(&entry, 0, sizeof(entry));
        gids[i] = (struct ri_gid){ .type = type_of(&entry), .interface = entry.ndev_ifindex };
        memcpy(gids[i].gid, entry.gid.raw, sizeof(gids[i].gid));
    }
    *count = places;
    return RI_OK;
}

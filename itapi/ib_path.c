/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Paths of InfiniBand, RoCE among it. An IA of that transport takes them in two forms. With IP
 * addresses, as on every other transport: what it_get_pathinfo gives for an IP address, so that a
 * program runs unchanged. As a path record: what comes with datagrams and service replies. ip_vers
 * is 1 or 2 and covers partition_key, path_mtu and packet_lifetime of the other form, where a
 * partition key 1 or 2 without an MTU means nothing. GIDs of RoCE are IP addresses, IPv4 ones
 * ::ffff:a.b.c.d.
 */
#include "itapi_private.h"

#include <string.h>

#define HOP_LIMIT         64u     /* where a Path leaves it open */
#define PARTITION_DEFAULT 0xffffu /* full member of the default partition */
#define PATH_BITS         127u    /* LIDs that one port may have, less one */

static bool is_ip_path(const it_path_t *path)
{
    return path->u.iwarp.ip_vers == IT_IP_VERS_IPV4 || path->u.iwarp.ip_vers == IT_IP_VERS_IPV6;
}

static void map_v4(struct in_addr v4, it_ib_gid_t *gid)
{
    memset(gid, 0, sizeof(*gid));
    gid->s6_addr[10] = gid->s6_addr[11] = 0xff;
    memcpy(&gid->s6_addr[12], &v4, sizeof(v4));
}

static bool is_nothing(const it_ib_gid_t *gid)
{
    return IN6_IS_ADDR_UNSPECIFIED(gid);
}

it_ib_gid_t itapi_gid_of(const struct sockaddr_storage *address)
{
    it_ib_gid_t gid = IN6ADDR_ANY_INIT;

    if (address->ss_family == AF_INET)
        map_v4(((const struct sockaddr_in *)address)->sin_addr, &gid);
    else if (address->ss_family == AF_INET6)
        gid = ((const struct sockaddr_in6 *)address)->sin6_addr;
    return gid;
}

/* --- to socket addresses --- */

static struct in_addr v4_of(const it_ib_gid_t *gid)
{
    struct in_addr v4 = { INADDR_ANY };

    if (IN6_IS_ADDR_V4MAPPED(gid))
        memcpy(&v4, &gid->s6_addr[12], sizeof(v4));
    return v4;
}

static it_path_t ip_form(const it_path_t *path)
{
    const it_ib_net_endpoint_t *ib = &path->u.ib;
    it_path_t ip = { .spigot_id = path->spigot_id, .timeout = path->timeout };

    if (IN6_IS_ADDR_V4MAPPED(&ib->remote_port_gid)) {
        ip.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
        ip.u.iwarp.raddr.ipv4 = v4_of(&ib->remote_port_gid);
        ip.u.iwarp.laddr.ipv4 = v4_of(&ib->local_port_gid);
        return ip;
    }
    ip.u.iwarp.ip_vers = IT_IP_VERS_IPV6;
    ip.u.iwarp.raddr.ipv6 = ib->remote_port_gid;
    if (!IN6_IS_ADDR_V4MAPPED(&ib->local_port_gid))
        ip.u.iwarp.laddr.ipv6 = ib->local_port_gid;
    return ip;
}

it_status_t itapi_path_ends(const struct ual_device *ia, const it_path_t *path, uint16_t local_port,
                            uint16_t remote_port, struct sockaddr_storage *source, bool *has_source,
                            struct sockaddr_storage *destination)
{
    it_path_t ip;

    if (!itapi_is_infiniband(ia) || is_ip_path(path))
        return itapi_path_addresses(path, local_port, remote_port, source, has_source, destination);
    ip = ip_form(path);
    return itapi_path_addresses(&ip, local_port, remote_port, source, has_source, destination);
}

/* --- to the way of datagrams --- */

/* Only RoCE's GIDs follow from IP addresses; elsewhere the subnet would have to be asked. */
static it_status_t way_of_ip(const it_path_t *path, const struct ri_port_attr *port,
                             struct ri_ah_attr *way)
{
    struct sockaddr_storage source, destination;
    it_ib_gid_t gid;
    bool has_source;
    it_status_t status = itapi_path_addresses(path, 0, 0, &source, &has_source, &destination);

    if (status != IT_SUCCESS)
        return status;
    if (!port->link_ethernet)
        return IT_ERR_INVALID_NETADDR;
    gid = itapi_gid_of(&destination);
    memcpy(way->destination_gid, &gid, sizeof(way->destination_gid));
    if (has_source) {
        gid = itapi_gid_of(&source);
        memcpy(way->source_gid, &gid, sizeof(way->source_gid));
    }
    way->global = 1;
    way->hop_limit = HOP_LIMIT;
    return IT_SUCCESS;
}

static it_status_t local_lid(const it_ib_net_endpoint_t *ib, const struct ri_port_attr *port,
                             struct ri_ah_attr *way)
{
    if (port->link_ethernet || !ib->local_port_lid)
        return IT_SUCCESS;
    if (ib->local_port_lid < port->lid || ib->local_port_lid - port->lid > (int)PATH_BITS)
        return IT_ERR_INVALID_SOURCE_PATH;
    way->path_bits = (uint8_t)(ib->local_port_lid - port->lid);
    return IT_SUCCESS;
}

static it_status_t way_of_record(const it_ib_net_endpoint_t *ib, bool complete,
                                 const struct ri_port_attr *port, struct ri_ah_attr *way)
{
    way->global = port->link_ethernet || !ib->subnet_local;
    if (way->global && is_nothing(&ib->remote_port_gid))
        return IT_ERR_INVALID_NETADDR;
    if (!port->link_ethernet && !ib->remote_port_lid)
        return IT_ERR_INVALID_NETADDR;
    memcpy(way->destination_gid, &ib->remote_port_gid, sizeof(way->destination_gid));
    memcpy(way->source_gid, &ib->local_port_gid, sizeof(way->source_gid));
    way->destination_lid = port->link_ethernet ? 0 : ib->remote_port_lid;
    way->sl = ib->sl;
    way->static_rate = ib->packet_rate;
    if (way->global) {
        way->flow_label = ib->flow_label;
        way->traffic_class = ib->traffic_class;
        way->hop_limit = ib->hop_limit || complete ? ib->hop_limit : HOP_LIMIT;
    }
    return local_lid(ib, port, way);
}

it_status_t itapi_way_of(struct ual_device *ia, const it_path_t *path, bool complete,
                         struct ri_ah_attr *way)
{
    struct ri_port_attr port = { .size = sizeof(port), .port = (uint32_t)path->spigot_id };
    enum ri_status asked;

    if (path->spigot_id >= ual_device_attr(ia)->ports)
        return IT_ERR_INVALID_SPIGOT;
    asked = ual_device_port(ia, &port);
    if (asked != RI_OK)
        return itapi_status(asked);
    *way = (struct ri_ah_attr){ .size = sizeof(*way), .port = (uint32_t)path->spigot_id };
    return is_ip_path(path) ? way_of_ip(path, &port, way)
                            : way_of_record(&path->u.ib, complete, &port, way);
}

/* --- from it --- */

void itapi_path_of_way(const struct ri_ah_attr *way, it_path_t *path)
{
    it_ib_net_endpoint_t *ib = &path->u.ib;

    memset(path, 0, sizeof(*path));
    path->spigot_id = way->port;
    path->timeout = IT_TIMEOUT_INFINITE;
    ib->partition_key = PARTITION_DEFAULT;
    ib->remote_port_lid = way->destination_lid;
    ib->sl = way->sl & 0xf;
    ib->packet_rate = way->static_rate & 0x3f;
    ib->subnet_local = !way->global;
    if (!way->global)
        return;
    memcpy(&ib->local_port_gid, way->source_gid, sizeof(way->source_gid));
    memcpy(&ib->remote_port_gid, way->destination_gid, sizeof(way->destination_gid));
    ib->flow_label = way->flow_label & 0xfffff;
    ib->traffic_class = way->traffic_class;
    ib->hop_limit = way->hop_limit;
}

void itapi_path_to_sender(const struct ri_wc *wc, size_t spigot, it_path_t *path)
{
    struct ri_ah_attr way = {
        .port = (uint32_t)spigot,
        .destination_lid = wc->source.lid,
        .sl = wc->source.sl,
        .global = wc->flags & RI_WC_GRH ? 1 : 0,
        .hop_limit = HOP_LIMIT,
    };

    memcpy(way.destination_gid, wc->source_gid, sizeof(way.destination_gid));
    itapi_path_of_way(&way, path);
}

/* --- between ports --- */

static uint8_t mtu_code(uint32_t octets)
{
    uint8_t code = 1; /* 256 octets; doubled up to 4096 */

    while (code < 5 && 256u << code <= octets)
        code++;
    return code;
}

/* Where GIDs are IP addresses, routes are theirs. */
static bool source_gid(struct ual_device *ia, const it_path_t *path, it_ib_gid_t *gid)
{
    struct sockaddr_storage source, destination;
    bool has_source;

    if (itapi_path_ends(ia, path, 0, 0, &source, &has_source, &destination) != IT_SUCCESS ||
        ual_device_route(ia, (uint32_t)path->spigot_id, (const struct sockaddr *)&destination,
                         &source) != RI_OK)
        return false;
    *gid = itapi_gid_of(&source);
    return true;
}

/* On a link with LIDs only the own port is known without its subnet's administrator. */
it_status_t itapi_path_to_gid(struct ual_device *ia, size_t spigot, const it_ib_gid_t *gid,
                              it_path_t *path, bool *found)
{
    struct ri_port_attr port = { .size = sizeof(port), .port = (uint32_t)spigot };
    it_ib_net_endpoint_t *ib = &path->u.ib;
    enum ri_status asked = ual_device_port(ia, &port);

    if (is_nothing(gid) || IN6_IS_ADDR_MULTICAST(gid))
        return IT_ERR_INVALID_NETADDR;
    if (asked != RI_OK)
        return itapi_status(asked);
    memset(path, 0, sizeof(*path));
    path->spigot_id = spigot;
    path->timeout = IT_TIMEOUT_INFINITE;
    ib->partition_key = PARTITION_DEFAULT;
    ib->path_mtu = mtu_code(port.mtu) & 0xf;
    ib->remote_port_gid = *gid;
    ib->subnet_local = !port.link_ethernet;
    ib->hop_limit = HOP_LIMIT;
    if (port.link_ethernet) {
        *found = source_gid(ia, path, &ib->local_port_gid);
        return IT_SUCCESS;
    }
    *found = !memcmp(gid, port.gid, sizeof(port.gid));
    memcpy(&ib->local_port_gid, port.gid, sizeof(port.gid));
    ib->local_port_lid = ib->remote_port_lid = port.lid;
    return IT_SUCCESS;
}

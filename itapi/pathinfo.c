/* SPDX-License-Identifier: BSD-3-Clause
 * Paths to a destination, and what kinds of addresses there are. */
#include "itapi_private.h"

#include <string.h>

static it_status_t destination_of(const it_net_addr_t *net_addr,
                                  struct sockaddr_storage *destination)
{
    it_path_t path = { .timeout = 0 };
    struct sockaddr_storage source;
    bool has_source;

    if (net_addr->addr_type == IT_IPV4) {
        path.u.iwarp.ip_vers = IT_IP_VERS_IPV4;
        path.u.iwarp.raddr.ipv4 = net_addr->addr.ipv4;
    } else if (net_addr->addr_type == IT_IPV6) {
        path.u.iwarp.ip_vers = IT_IP_VERS_IPV6;
        path.u.iwarp.raddr.ipv6 = net_addr->addr.ipv6;
    } else {
        return IT_ERR_INVALID_NETADDR;
    }
    return itapi_path_addresses(&path, 0, 0, &source, &has_source, destination);
}

static it_status_t path_to_gid(struct ual_device *ia, size_t spigot_id, const it_ib_gid_t *gid,
                               size_t *num_paths, size_t *total_paths, it_path_t *paths)
{
    it_path_t path;
    bool found = false;
    it_status_t status = itapi_path_to_gid(ia, spigot_id, gid, &path, &found);

    if (status != IT_SUCCESS)
        return status;
    *total_paths = found ? 1 : 0;
    if (*num_paths > *total_paths)
        *num_paths = *total_paths;
    if (*num_paths)
        *paths = path;
    return IT_SUCCESS;
}

it_status_t it_get_pathinfo(it_ia_handle_t ia_handle, size_t spigot_id,
                            const it_net_addr_t *net_addr, size_t *num_paths, size_t *total_paths,
                            it_path_t *paths)
{
    CALL();
    SANITIZER_OUTPUT(num_paths);
    SANITIZER_OUTPUT(total_paths);
    SANITIZER_OUTPUT(paths); /* there is one at most */
    struct ual_device *ia = LOOKUP(struct ual_device, DEVICE, ia_handle);
    struct sockaddr_storage source, destination;
    enum ri_status routed;
    it_status_t status;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_IA);
    if (spigot_id >= ual_device_attr(ia)->ports)
        return IT_ERR_INVALID_SPIGOT;
    if (!net_addr || !num_paths || !total_paths || (*num_paths && !paths))
        return IT_ERR_FAULT;
    if (net_addr->addr_type == IT_IB_GID && itapi_is_infiniband(ia))
        return path_to_gid(ia, spigot_id, &net_addr->addr.gid, num_paths, total_paths, paths);
    status = destination_of(net_addr, &destination);
    if (status != IT_SUCCESS)
        return status;
    routed = ual_device_route(ia, (uint32_t)spigot_id, (const struct sockaddr *)&destination,
                              &source);
    if (routed != RI_OK && routed != RI_ERR_UNREACHABLE)
        return itapi_status(routed);
    *total_paths = routed == RI_OK ? 1 : 0;
    if (*num_paths > *total_paths)
        *num_paths = *total_paths;
    if (*num_paths) {
        itapi_path_of(NULL, &source, &destination, paths);
        paths->spigot_id = spigot_id;
    }
    return IT_SUCCESS;
}

static bool net_addr_valid(const it_net_addr_t *address)
{
    switch (address->addr_type) {
    case IT_IPV4:
    case IT_IPV6:
    case IT_IB_GID: return true;
    case IT_VIA_HOSTADDR: return address->addr.via.len <= IT_MAX_VIA_ADDR_LEN;
    }
    return false;
}

/* GIDs of RoCE: an IPv6 address, or an IPv4 one inside such. Source and destination may be one
 * object. */
static bool convert_ip(const it_net_addr_t *from, it_net_addr_type_t to, it_net_addr_t *out)
{
    struct sockaddr_storage address = { .ss_family = AF_INET6 };
    it_ib_gid_t six;
    struct in_addr four;

    if (from->addr_type == IT_IPV4) {
        address.ss_family = AF_INET;
        ((struct sockaddr_in *)&address)->sin_addr = from->addr.ipv4;
    } else if (from->addr_type == IT_IPV6 || from->addr_type == IT_IB_GID) {
        ((struct sockaddr_in6 *)&address)->sin6_addr =
            from->addr.ipv6; /* gid is the same member type */
    } else {
        return false;
    }
    six = itapi_gid_of(&address);
    memcpy(&four, &six.s6_addr[12], sizeof(four));
    out->addr_type = to;
    switch (to) {
    case IT_IPV4: out->addr.ipv4 = four; return IN6_IS_ADDR_V4MAPPED(&six);
    case IT_IPV6: out->addr.ipv6 = six; return true;
    case IT_IB_GID: out->addr.gid = six; return true;
    default: return false;
    }
}

it_status_t it_convert_net_addr(const it_net_addr_t *source_addr, it_net_addr_type_t addr_type,
                                it_net_addr_t *destination_addr)
{
    SANITIZER_OUTPUT(destination_addr);
    it_net_addr_t converted;

    if (!source_addr || !destination_addr)
        return IT_ERR_FAULT;
    if (!net_addr_valid(source_addr))
        return IT_ERR_INVALID_NETADDR;
    if (source_addr->addr_type == addr_type) {
        *destination_addr = *source_addr;
        return IT_SUCCESS;
    }
    memset(&converted, 0, sizeof(converted));
    if (!convert_ip(source_addr, addr_type, &converted))
        return IT_ERR_INVALID_CONVERSION;
    *destination_addr = converted;
    return IT_SUCCESS;
}

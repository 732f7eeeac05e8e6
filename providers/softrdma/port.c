/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one port: all network interfaces that are up, or those that option netdev names.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "provider.h"

#include "base/names.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static uint8_t count_bits(const uint8_t *mask, size_t octets)
{
    uint8_t bits = 0;

    for (size_t i = 0; i < octets; i++)
        bits = (uint8_t)(bits + __builtin_popcount(mask[i]));
    return bits;
}

/* false: no IP address. */
static bool copy_address(const struct ifaddrs *from, struct ri_address *to)
{
    const struct sockaddr *mask = from->ifa_netmask;
    size_t length = 0, offset = 0, octets = 0;

    if (from->ifa_addr && from->ifa_addr->sa_family == AF_INET) {
        length = sizeof(struct sockaddr_in);
        offset = offsetof(struct sockaddr_in, sin_addr);
        octets = sizeof(struct in_addr);
    } else if (from->ifa_addr && from->ifa_addr->sa_family == AF_INET6) {
        length = sizeof(struct sockaddr_in6);
        offset = offsetof(struct sockaddr_in6, sin6_addr);
        octets = sizeof(struct in6_addr);
    }
    if (!length)
        return false;
    memset(to, 0, sizeof(*to));
    memcpy(&to->sockaddr, from->ifa_addr, length);
    to->prefix_length = mask ? count_bits((const uint8_t *)mask + offset, octets)
                             : (uint8_t)(octets * 8);
    return true;
}

static bool is_of_port(const struct rnic *rnic, const struct ifaddrs *at)
{
    const char *netdevs = rnic->options.netdevs;

    return (at->ifa_flags & IFF_UP) && (!*netdevs || names_have(netdevs, at->ifa_name));
}

/* 0: unknown. */
static uint32_t mtu_of(int fd, const char *name)
{
    struct ifreq request = { 0 };

    if (strlen(name) >= sizeof(request.ifr_name))
        return 0;
    strcpy(request.ifr_name, name);
    return ioctl(fd, SIOCGIFMTU, &request) == 0 ? (uint32_t)request.ifr_mtu : 0;
}

/* The smallest MTU: every path of the port carries it. The list has an interface once per
 * address. */
static uint32_t smallest_mtu(const struct rnic *rnic, const struct ifaddrs *list)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint32_t smallest = 0;

    if (fd < 0)
        fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        uint32_t mtu;

        if (!is_of_port(rnic, at))
            continue;
        mtu = mtu_of(fd, at->ifa_name);
        if (mtu && (!smallest || mtu < smallest))
            smallest = mtu;
    }
    close(fd);
    return smallest;
}

enum ri_status softrdma_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    const struct rnic *rnic = container_of(base, struct rnic, base);
    const char *netdevs = rnic->options.netdevs;
    struct ifaddrs *list;
    uint32_t count = 0;
    bool online = false;

    if (attr->size < offsetof(struct ri_port_attr, reserved) || attr->port != 0)
        return RI_ERR_INVALID_ARGUMENT;
    if (getifaddrs(&list)) {
        ri_log(rnic->host, RI_LOG_ERROR, "network addresses cannot be listed: %s", strerror(errno));
        return RI_ERR_NO_RESOURCES;
    }
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        struct ri_address address;

        if (!is_of_port(rnic, at))
            continue;
        online = online || (at->ifa_flags & IFF_RUNNING);
        if (!copy_address(at, &address))
            continue;
        if (count < attr->address_capacity)
            attr->addresses[count] = address;
        count++;
    }
    attr->online = online;
    attr->link_ethernet = true;
    attr->lid = 0;
    memset(attr->gid, 0, sizeof(attr->gid));
    attr->mtu = smallest_mtu(rnic, list);
    attr->address_count = count;
    if (!*netdevs)
        netdevs = "any";
    strcpy(attr->name, strlen(netdevs) < sizeof(attr->name) ? netdevs : "several");
    freeifaddrs(list);
    return RI_OK;
}

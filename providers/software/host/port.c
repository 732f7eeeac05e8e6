/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The one port: all network interfaces that are up, or those that option netdev names.
 */
#include "port.h"

#include "rnicpi_util.h"

#include "base/names.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
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

static bool is_of_port(const char *netdevs, const struct ifaddrs *at)
{
    return (at->ifa_flags & IFF_UP) && (!*netdevs || names_have_netdev(netdevs, at->ifa_name));
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

/* The kernel's own ethtool_cmd_speed() shifts the upper half into the sign of an int. */
uint64_t host_link_speed(const struct ethtool_cmd *command)
{
    uint32_t mbits = (uint32_t)command->speed_hi << 16 | command->speed;

    return mbits == (uint32_t)SPEED_UNKNOWN ? 0 : UINT64_C(1000000) * mbits;
}

/* Bits per second, as its driver says. 0: unknown, as for the loopback. */
static uint64_t speed_of(int fd, const char *name)
{
    struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
    struct ifreq request = { 0 };

    if (strlen(name) >= sizeof(request.ifr_name))
        return 0;
    strcpy(request.ifr_name, name);
    request.ifr_data = (void *)&command;
    return ioctl(fd, SIOCETHTOOL, &request) == 0 ? host_link_speed(&command) : 0;
}

/* The smallest MTU, which every path of the port carries, and the speed of the slowest link that
 * has one. The list has an interface once per address. */
static void measure(const char *netdevs, const struct ifaddrs *list, struct ri_port_attr *attr)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    attr->mtu = 0;
    attr->link_speed = 0;
    if (fd < 0)
        fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        uint32_t mtu;
        uint64_t speed;

        if (!is_of_port(netdevs, at))
            continue;
        mtu = mtu_of(fd, at->ifa_name);
        if (mtu && (!attr->mtu || mtu < attr->mtu))
            attr->mtu = mtu;
        speed = speed_of(fd, at->ifa_name);
        if (speed && (!attr->link_speed || speed < attr->link_speed))
            attr->link_speed = speed;
    }
    close(fd);
}

/* The EUI-64 of the first network interface that has a MAC address (RFC 4291 appendix A); zeros:
 * none has one. */
static void guid_of(const char *netdevs, const struct ifaddrs *list, uint8_t guid[8])
{
    static const uint8_t middle[] = { 0xff, 0xfe };
    static const uint8_t none[6];

    memset(guid, 0, 8);
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        const struct sockaddr_ll *link = (const struct sockaddr_ll *)(const void *)at->ifa_addr;

        if (!link || link->sll_family != AF_PACKET || !is_of_port(netdevs, at) ||
            link->sll_halen != 6 || !memcmp(link->sll_addr, none, 6))
            continue;
        memcpy(guid, link->sll_addr, 3);
        memcpy(guid + 3, middle, sizeof(middle));
        memcpy(guid + 5, link->sll_addr + 3, 3);
        guid[0] ^= 2;
        return;
    }
}

void host_find_guid(const char *netdevs, uint8_t guid[8])
{
    struct ifaddrs *list;

    if (getifaddrs(&list))
        return; /* it has none */
    guid_of(netdevs, list, guid);
    freeifaddrs(list);
}

enum ri_status host_query_port(const struct ri_host *host, const char *netdevs,
                               struct ri_port_attr *attr)
{
    struct ifaddrs *list;
    uint32_t count = 0;
    bool online = false;

    if (attr->size < offsetof(struct ri_port_attr, reserved) || attr->port != 0)
        return RI_ERR_INVALID_ARGUMENT;
    if (getifaddrs(&list)) {
        ri_log(host, RI_LOG_ERROR, "network addresses cannot be listed: %s", strerror(errno));
        return RI_ERR_NO_RESOURCES;
    }
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
        struct ri_address address;

        if (!is_of_port(netdevs, at))
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
    measure(netdevs, list, attr);
    attr->link_width = 0;
    guid_of(netdevs, list, attr->port_guid);
    attr->address_count = count;
    if (!*netdevs)
        netdevs = "any";
    strcpy(attr->name, strlen(netdevs) < sizeof(attr->name) ? netdevs : "several");
    freeifaddrs(list);
    return RI_OK;
}

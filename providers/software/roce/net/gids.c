/* SPDX-License-Identifier: BSD-3-Clause */
#include "gids.h"

#include "base/compiler.h"
#include "base/names.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t zeros[GID_LEN];

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_of(const struct net_gid *entry, const struct net_address *address)
{
    return !memcmp(entry->was, address->gid, GID_LEN) && entry->scope == address->scope;
}

static bool is_gone(const struct net_gid *entry)
{
    return !memcmp(entry->gid, zeros, GID_LEN);
}

/* In the order of a table that is filled for the first time. */
static unsigned kind_of(const struct net_address *address)
{
    unsigned kind = gid_is_ipv4(address->gid) ? 0 : !net_gid_is_link_local(address->gid) ? 2 : 4;

    return kind + address->loopback;
}
#define KINDS 6u

static struct net_gid *place_of(struct net_gids *gids, const struct net_address *address)
{
    struct net_gid *gone = NULL;

    for (uint32_t i = 0; i < gids->count; i++) {
        if (is_of(&gids->entry[i], address))
            return &gids->entry[i];
        if (!gone && is_gone(&gids->entry[i]))
            gone = &gids->entry[i];
    }
    return gids->count < NET_GIDS_MAX ? &gids->entry[gids->count++] : gone;
}

static bool put(struct net_gids *gids, const struct net_address *address)
{
    struct net_gid *entry = place_of(gids, address), before;

    if (!entry)
        return false;
    before = *entry;
    memset(entry, 0, sizeof(*entry));
    memcpy(entry->gid, address->gid, GID_LEN);
    memcpy(entry->was, address->gid, GID_LEN);
    memcpy(entry->netdev, address->netdev, sizeof(entry->netdev));
    entry->scope = address->scope;
    entry->mtu = address->mtu;
    entry->interface = address->interface;
    return memcmp(&before, entry, sizeof(before)) != 0;
}

static bool is_listed(const struct net_gid *entry, const struct net_address *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_of(entry, &list[i]))
            return true;
    return false;
}

static bool is_first(const struct net_address *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!memcmp(list[i].gid, list[n].gid, GID_LEN) && list[i].scope == list[n].scope)
            return false;
    return true;
}

/* Those that go, go first: a table without room has their places. */
bool net_gids_update(struct net_gids *gids, const struct net_address *list, uint32_t count)
{
    bool changed = false;

    for (uint32_t i = 0; i < gids->count; i++) {
        struct net_gid *entry = &gids->entry[i];

        if (!is_gone(entry) && !is_listed(entry, list, count)) {
            memset(entry->gid, 0, GID_LEN);
            entry->mtu = 0;
            changed = true;
        }
    }
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < count; i++)
            if (kind_of(&list[i]) == kind && is_first(list, i))
                changed = put(gids, &list[i]) || changed;
    return changed;
}

int net_gids_find(const struct net_gids *gids, const uint8_t gid[static GID_LEN], uint32_t scope)
{
    if (!memcmp(gid, zeros, GID_LEN))
        return -1;
    for (uint32_t i = 0; i < gids->count; i++)
        if (!memcmp(gids->entry[i].gid, gid, GID_LEN) && (!scope || gids->entry[i].scope == scope))
            return (int)i;
    return -1;
}

/* ---- the host -------------------------------------------------------------------------------- */

static uint32_t mtu_of(int fd, const char *netdev)
{
    struct ifreq request = { 0 };

    strcpy(request.ifr_name, netdev);
    return fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request) ? (uint32_t)request.ifr_mtu : 0;
}

/* False: no address that packets can come from. */
static bool take_gid(const struct sockaddr *from, struct net_address *to)
{
    if (from->sa_family == AF_INET) {
        uint8_t octets[4];

        memcpy(octets, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        gid_put_ipv4(to->gid, octets);
        return memcmp(octets, zeros, 4) && !gid_is_multicast(to->gid);
    }
    if (from->sa_family != AF_INET6)
        return false;
    memcpy(to->gid, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, GID_LEN);
    return memcmp(to->gid, zeros, GID_LEN) && !gid_is_multicast(to->gid) && !gid_is_ipv4(to->gid);
}

static bool take_address(const struct ifaddrs *from, const char *netdevs, int fd,
                         struct net_address *to)
{
    memset(to, 0, sizeof(*to));
    if (!from->ifa_addr || !(from->ifa_flags & IFF_UP) || strlen(from->ifa_name) >= IFNAMSIZ ||
        (*netdevs && !names_have_netdev(netdevs, from->ifa_name)) || !take_gid(from->ifa_addr, to))
        return false;
    strcpy(to->netdev, from->ifa_name);
    to->mtu = mtu_of(fd, from->ifa_name);
    to->loopback = from->ifa_flags & IFF_LOOPBACK;
    to->interface = if_nametoindex(from->ifa_name);
    if (net_gid_is_link_local(to->gid))
        to->scope = to->interface;
    return true;
}

static uint32_t take_all(const struct ifaddrs *list, const char *netdevs, struct net_address *to)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint32_t count = 0;

    if (fd < 0)
        fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    for (; list; list = list->ifa_next)
        if (take_address(list, netdevs, fd, &to[count]))
            count++;
    if (fd >= 0)
        close(fd);
    return count;
}

enum ri_status net_gids_read(struct net_gids *gids, const char *netdevs, bool *changed)
{
    struct net_address *addresses;
    struct ifaddrs *list;
    uint32_t count = 1;

    if (getifaddrs(&list))
        return RI_ERR_NO_RESOURCES;
    for (const struct ifaddrs *at = list; at; at = at->ifa_next)
        count++;
    addresses = malloc(count * sizeof(*addresses));
    if (addresses)
        *changed = net_gids_update(gids, addresses, take_all(list, netdevs, addresses));
    freeifaddrs(list);
    free(addresses);
    return addresses ? RI_OK : RI_ERR_NO_RESOURCES;
}

int net_gids_watch(void)
{
    const struct sockaddr_nl address = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
    };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

    if (fd < 0 || !bind(fd, (const struct sockaddr *)&address, sizeof(address)))
        return fd;
    close(fd);
    return -1;
}

/* A message only means that something has changed; none is looked at, so a lost one does no
 * harm. */
void net_gids_drain(int fd)
{
    uint8_t octet;

    while (recv(fd, &octet, sizeof(octet), MSG_DONTWAIT) >= 0 || errno == EINTR || errno == ENOBUFS)
        ;
}

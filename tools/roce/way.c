/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a peer is, and the own address that packets to it leave from. */
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IPV6_MTU
#define IPV6_MTU 24
#endif

static void gid_of(const struct sockaddr *address, uint8_t gid[static GID_LEN])
{
    struct sockaddr_in6 ipv6;
    struct sockaddr_in ipv4;
    uint8_t octets[4];

    memset(gid, 0, GID_LEN);
    if (address->sa_family == AF_INET) {
        memcpy(&ipv4, address, sizeof(ipv4));
        memcpy(octets, &ipv4.sin_addr, sizeof(octets));
        gid_put_ipv4(gid, octets);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&ipv6, address, sizeof(ipv6));
        memcpy(gid, &ipv6.sin6_addr, GID_LEN);
    }
}

static bool is_own(const uint8_t gid[static GID_LEN])
{
    uint8_t other[GID_LEN];
    struct ifaddrs *all;
    bool own = false;

    if (gid_is_ipv4(gid) && gid[GID_IPV4] == IN_LOOPBACKNET)
        return true;
    if (getifaddrs(&all))
        return false;
    for (struct ifaddrs *at = all; at && !own; at = at->ifa_next) {
        if (!at->ifa_addr)
            continue;
        gid_of(at->ifa_addr, other);
        own = !memcmp(other, gid, GID_LEN);
    }
    freeifaddrs(all);
    return own;
}

/* The kernel's choice of the source. */
static bool find_own(const struct addrinfo *to, struct raw_way *way)
{
    struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
    socklen_t size = sizeof(own), mtu_size = sizeof(mtu);
    bool ipv4 = to->ai_family == AF_INET;
    bool good = fd >= 0 && !connect(fd, to->ai_addr, to->ai_addrlen) &&
                !getsockname(fd, (struct sockaddr *)&own, &size);
    int error = errno;

    if (good) {
        gid_of((struct sockaddr *)&own, way->own);
        gid_of(to->ai_addr, way->peer);
        if (!ipv4) {
            struct sockaddr_in6 ipv6;

            memcpy(&ipv6, &own, sizeof(ipv6));
            way->scope = ipv6.sin6_scope_id;
        }
        if (!getsockopt(fd, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_MTU : IPV6_MTU, &mtu,
                        &mtu_size) &&
            mtu > 0)
            way->mtu = (uint32_t)mtu;
    }
    if (fd >= 0)
        close(fd);
    errno = error;
    return good;
}

bool raw_resolve(const char *host, struct raw_way *way, char why[static RAW_WHY])
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
    struct addrinfo *list;
    int error = getaddrinfo(host, "4791", &hints, &list);
    bool good;

    *way = (struct raw_way){ .scope = 0 };
    if (error) {
        snprintf(why, RAW_WHY, "%.100s: %s", host, gai_strerror(error));
        return false;
    }
    good = find_own(list, way);
    if (!good)
        snprintf(why, RAW_WHY, "%.100s: there is no way to it: %s", host, strerror(errno));
    freeaddrinfo(list);
    if (good && gid_is_multicast(way->peer)) {
        snprintf(why, RAW_WHY, "%.100s is a group: one host's address is needed", host);
        return false;
    }
    way->local = good && is_own(way->peer);
    return good;
}

const char *raw_name(const uint8_t gid[static GID_LEN], char name[static RAW_NAME])
{
    bool ipv4 = gid_is_ipv4(gid);

    if (!inet_ntop(ipv4 ? AF_INET : AF_INET6, ipv4 ? gid + GID_IPV4 : gid, name, RAW_NAME))
        name[0] = '\0';
    return name;
}

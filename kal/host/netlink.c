/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Network interfaces and routes, as the kernel reports them.
 *
 * A netlink message only means that something changed. Flags and addresses are then read, so a lost
 * message does no harm. The flags are read through the same socket (netdevice(7): any socket will
 * do), so that this works without free descriptors or memory.
 */
#include "netlink.h"

#include "base/names.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_LIBMNL

#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <sys/ioctl.h>

struct kal_links {
    struct mnl_socket *socket;
};

enum ri_status kal_links_open(struct kal_links **links, int *fd)
{
    struct kal_links *made = calloc(1, sizeof(*made));

    if (!made)
        return RI_ERR_NO_RESOURCES;
    made->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!made->socket)
        goto free_links;
    if (mnl_socket_bind(made->socket, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
                        MNL_SOCKET_AUTOPID) < 0)
        goto close_socket;
    *fd = mnl_socket_get_fd(made->socket);
    *links = made;
    return RI_OK;

close_socket:
    mnl_socket_close(made->socket);
free_links:
    free(made);
    return RI_ERR_NO_RESOURCES;
}

bool kal_links_changed(struct kal_links *links)
{
    char buffer[8192];
    ssize_t got;
    bool any = false;

    do {
        got = mnl_socket_recvfrom(links->socket, buffer, sizeof(buffer));
        if (got > 0 || (got < 0 && (errno == ENOBUFS || errno == ENOSPC)))
            any = true;
    } while (got > 0 || (got < 0 && (errno == EINTR || errno == ENOBUFS || errno == ENOSPC)));
    return any;
}

bool kal_link_running(struct kal_links *links, const char *netdev)
{
    struct ifreq request;

    memset(&request, 0, sizeof(request));
    memcpy(request.ifr_name, netdev, strnlen(netdev, sizeof(request.ifr_name) - 1));
    return !ioctl(mnl_socket_get_fd(links->socket), SIOCGIFFLAGS, &request) &&
           (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
}

void kal_links_close(struct kal_links *links)
{
    mnl_socket_close(links->socket);
    free(links);
}

#else

enum ri_status kal_links_open(struct kal_links **links, int *fd)
{
    (void)links;
    (void)fd;
    return RI_ERR_NOT_SUPPORTED;
}

bool kal_links_changed(struct kal_links *links)
{
    (void)links;
    return false;
}

bool kal_link_running(struct kal_links *links, const char *netdev)
{
    (void)links;
    (void)netdev;
    return true;
}

void kal_links_close(struct kal_links *links)
{
    (void)links;
}

#endif

bool kal_netdev_exists(const char *name)
{
    return if_nametoindex(name) != 0;
}

bool kal_same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                   &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

bool kal_netdevs_have(const char *netdevs, const struct sockaddr *address)
{
    struct ifaddrs *list, *entry;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (entry = list; entry && !found; entry = entry->ifa_next)
        found = entry->ifa_addr && names_have_netdev(netdevs, entry->ifa_name) &&
                kal_same_address(entry->ifa_addr, address);
    freeifaddrs(list);
    return found;
}

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t sum, const void *octets, size_t length)
{
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ ((const uint8_t *)octets)[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* 0: no IP address. */
static uint64_t address_sum(const struct ifaddrs *entry)
{
    const uint64_t begin = mix(UINT64_C(0xcbf29ce484222325), entry->ifa_name,
                               strlen(entry->ifa_name));

    if (!entry->ifa_addr)
        return 0;
    if (entry->ifa_addr->sa_family == AF_INET)
        return mix(begin, &((const struct sockaddr_in *)entry->ifa_addr)->sin_addr,
                   sizeof(struct in_addr));
    return entry->ifa_addr->sa_family == AF_INET6
               ? mix(begin, &((const struct sockaddr_in6 *)entry->ifa_addr)->sin6_addr,
                     sizeof(struct in6_addr))
               : 0;
}

/* The order does not matter: the kernel's may change. */
bool kal_links_addresses(struct kal_links *links, const char *netdevs, uint64_t *sum)
{
    struct ifaddrs *list;

    (void)links;
    if (getifaddrs(&list))
        return false;
    *sum = 0;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next)
        if (!netdevs || names_have_netdev(netdevs, entry->ifa_name))
            *sum += address_sum(entry);
    freeifaddrs(list);
    return true;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

/* Connecting a datagram socket sends nothing; it selects route and source. */
enum ri_status kal_source_address(const struct sockaddr *destination,
                                  struct sockaddr_storage *source)
{
    struct sockaddr_storage to, from;
    socklen_t length = destination->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                         : sizeof(struct sockaddr_in6);
    socklen_t from_length = sizeof(from);
    enum ri_status status = RI_OK;
    int fd = socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno == EAFNOSUPPORT ? RI_ERR_UNREACHABLE : RI_ERR_NO_RESOURCES;
    memset(&to, 0, sizeof(to));
    memset(&from, 0, sizeof(from));
    memcpy(&to, destination, length);
    set_port(&to, 9);
    if (connect(fd, (struct sockaddr *)&to, length))
        status = errno == ENOMEM || errno == ENOBUFS ? RI_ERR_NO_RESOURCES : RI_ERR_UNREACHABLE;
    else if (getsockname(fd, (struct sockaddr *)&from, &from_length))
        status = RI_ERR_NO_RESOURCES;
    close(fd);
    if (status != RI_OK)
        return status;
    set_port(&from, 0);
    *source = from;
    return RI_OK;
}

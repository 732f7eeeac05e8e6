/* SPDX-License-Identifier: BSD-3-Clause */
/* Which local address a connection to a destination would have: the kernel's own answer. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kal/kal_private.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_ADDRESSES 64u

static socklen_t length_of(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET: return sizeof(struct sockaddr_in);
    case AF_INET6: return sizeof(struct sockaddr_in6);
    default: return 0;
    }
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
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

/* Connecting a datagram socket sends nothing; it chooses route and source. */
static enum kal_status ask_kernel(const struct sockaddr *destination,
                                  struct sockaddr_storage *source)
{
    struct sockaddr_storage to, from;
    socklen_t length = length_of(destination), from_length = sizeof from;
    enum kal_status status = KAL_OK;
    int fd = socket(destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno == EAFNOSUPPORT ? KAL_ERR_UNREACHABLE : KAL_ERR_NO_RESOURCES;
    memset(&to, 0, sizeof to);
    memset(&from, 0, sizeof from);
    memcpy(&to, destination, length);
    set_port(&to, 9);
    if (connect(fd, (struct sockaddr *)&to, length))
        status = errno == ENOMEM || errno == ENOBUFS ? KAL_ERR_NO_RESOURCES : KAL_ERR_UNREACHABLE;
    else if (getsockname(fd, (struct sockaddr *)&from, &from_length))
        status = KAL_ERR_NO_RESOURCES;
    close(fd);
    if (status != KAL_OK)
        return status;
    set_port(&from, 0);
    *source = from;
    return KAL_OK;
}

/* Does the address belong to the network interface? */
static bool on_netdev(const char *netdev, const struct sockaddr *address)
{
    struct ifaddrs *list, *entry;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (entry = list; entry && !found; entry = entry->ifa_next)
        found = entry->ifa_addr && !strcmp(entry->ifa_name, netdev) &&
                same_address(entry->ifa_addr, address);
    freeifaddrs(list);
    return found;
}

/* Where an RNIC has several ports, the address must be of the one asked for. */
static enum kal_status on_port(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *address)
{
    struct ri_port_attr attr = { .size = sizeof attr,
                                 .port = port,
                                 .address_capacity = PORT_ADDRESSES };
    enum kal_status status = KAL_ERR_NO_RESOURCES;
    uint32_t count;

    attr.addresses = calloc(PORT_ADDRESSES, sizeof *attr.addresses);
    if (!attr.addresses)
        return status;
    status = kal_rnic_port(rnic, &attr);
    if (status == KAL_OK && attr.address_count) {
        count = attr.address_count < PORT_ADDRESSES ? attr.address_count : PORT_ADDRESSES;
        status = KAL_ERR_UNREACHABLE;
        for (uint32_t i = 0; i < count && status != KAL_OK; i++)
            if (same_address((struct sockaddr *)&attr.addresses[i].sockaddr, address))
                status = KAL_OK;
    }
    free(attr.addresses);
    return status;
}

enum kal_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                          struct sockaddr_storage *source)
{
    const char *netdev = kal_rnic_option(rnic, "netdev");
    struct sockaddr_storage found;
    enum kal_status status;

    if (!destination || !length_of(destination) || port >= rnic->attr.ports)
        return KAL_ERR_INVALID_ARGUMENT;
    status = ask_kernel(destination, &found);
    if (status == KAL_OK && *netdev && !on_netdev(netdev, (struct sockaddr *)&found))
        status = KAL_ERR_UNREACHABLE;
    if (status == KAL_OK && rnic->attr.ports > 1)
        status = on_port(rnic, port, (struct sockaddr *)&found);
    if (status == KAL_OK)
        *source = found;
    return status;
}

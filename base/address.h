/* SPDX-License-Identifier: BSD-3-Clause
 * A compact socket address, because every connection stores several: struct sockaddr_storage has
 * 128 octets, an address of IPv4 or IPv6 (or a GID, which is one of IPv6) at most 28. */
#ifndef ITAL_BASE_ADDRESS_H
#define ITAL_BASE_ADDRESS_H

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static inline union address address_keep(const struct sockaddr_storage *storage)
{
    union address address;

    memcpy(&address, storage, sizeof(address));
    return address;
}

static inline struct sockaddr_storage address_storage(const union address *address)
{
    struct sockaddr_storage storage = { 0 };

    memcpy(&storage, address, sizeof(*address));
    return storage;
}

/* Of AF_INET or AF_INET6, as long as its family says; NULL: none. */
static inline void address_set(union address *to, const struct sockaddr *from)
{
    memset(to, 0, sizeof(*to));
    if (from)
        memcpy(to, from, from->sa_family == AF_INET6 ? sizeof(to->six) : sizeof(to->four));
}

#endif

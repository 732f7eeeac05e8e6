/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Socket addresses and GIDs.
 */
#include "connection.h"

bool roce_address_gid(const struct sockaddr *address, uint8_t gid[static GID_LEN], uint16_t *port)
{
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)(const void *)address;

    switch (address->sa_family) {
    case AF_INET:
        gid_put_ipv4(gid, (const uint8_t *)&ipv4->sin_addr);
        *port = ntohs(ipv4->sin_port);
        return true;
    case AF_INET6:
        memcpy(gid, &ipv6->sin6_addr, GID_LEN);
        *port = ntohs(ipv6->sin6_port);
        return true;
    default: return false;
    }
}

void roce_gid_address(const uint8_t gid[static GID_LEN], uint16_t port,
                      struct sockaddr_storage *address)
{
    struct sockaddr_in ipv4 = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

    memset(address, 0, sizeof(*address));
    if (gid_is_ipv4(gid)) {
        memcpy(&ipv4.sin_addr, gid + GID_IPV4, sizeof(ipv4.sin_addr));
        memcpy(address, &ipv4, sizeof(ipv4));
    } else {
        memcpy(&ipv6.sin6_addr, gid, GID_LEN);
        memcpy(address, &ipv6, sizeof(ipv6));
    }
}

void roce_set_port(struct sockaddr *address, uint16_t port)
{
    if (address->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

/* FNV-1a; locally administered. */
uint64_t roce_ca_guid(const uint8_t gid[static GID_LEN])
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (uint32_t i = 0; i < GID_LEN; i++)
        sum = (sum ^ gid[i]) * UINT64_C(0x100000001b3);
    return (sum & ~(UINT64_C(3) << 56)) | UINT64_C(2) << 56;
}

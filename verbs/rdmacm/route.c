/* SPDX-License-Identifier: BSD-3-Clause
 * Socket addresses, and the route that an id shows to the program. */
#include "cm.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

socklen_t rcm_address_length(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return sizeof(struct sockaddr_in);
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

bool rcm_address_same(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && !memcmp(&a6->sin6_addr, &b6->sin6_addr, 16) &&
           (!a6->sin6_scope_id || !b6->sin6_scope_id || a6->sin6_scope_id == b6->sin6_scope_id);
}

bool rcm_address_any(const struct sockaddr *address)
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;

    if (address->sa_family == AF_INET)
        return four->sin_addr.s_addr == htonl(INADDR_ANY);
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

void rcm_address_text(const struct sockaddr *address, char text[VB_PEER_TEXT])
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    char host[INET6_ADDRSTRLEN];

    if (address->sa_family == AF_INET && inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host)))
        snprintf(text, VB_PEER_TEXT, "%s:%u", host, ntohs(four->sin_port));
    else if (address->sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host)))
        snprintf(text, VB_PEER_TEXT, "[%s]:%u", host, ntohs(six->sin6_port));
    else
        snprintf(text, VB_PEER_TEXT, "its peer");
}

void rcm_id_set_local(struct rcm_id *id, const struct sockaddr *address)
{
    struct rdma_addr *addr = &id->ibv.route.addr;

    memcpy(&addr->src_storage, address, rcm_address_length(address));
    if (!rcm_address_any(address))
        vb_gid_of_address(address, &addr->addr.ibaddr.sgid);
    addr->addr.ibaddr.pkey = htons(0xffff);
}

void rcm_id_set_peer(struct rcm_id *id, const struct sockaddr *address)
{
    struct rdma_addr *addr = &id->ibv.route.addr;

    memcpy(&addr->dst_storage, address, rcm_address_length(address));
    vb_gid_of_address(address, &addr->addr.ibaddr.dgid);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The local address that a connection to a destination would have, as the kernel selects it, and
 * whether the connection may have it. */
#include "host.h"
#include "netlink.h"

#include <stdlib.h>

#define PORT_ADDRESSES 64u

/* If an RNIC has several ports, the address must belong to the given one. */
static enum ri_status on_port(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *address)
{
    struct ri_port_attr attr = { .size = sizeof(attr),
                                 .port = port,
                                 .address_capacity = PORT_ADDRESSES };
    enum ri_status status = RI_ERR_NO_RESOURCES;
    uint32_t count;

    attr.addresses = calloc(PORT_ADDRESSES, sizeof(*attr.addresses));
    if (!attr.addresses)
        return status;
    status = kal_rnic_port(rnic, &attr);
    if (status == RI_OK && attr.address_count) {
        count = attr.address_count < PORT_ADDRESSES ? attr.address_count : PORT_ADDRESSES;
        status = RI_ERR_UNREACHABLE;
        for (uint32_t i = 0; i < count && status != RI_OK; i++)
            if (kal_same_address((struct sockaddr *)&attr.addresses[i].sockaddr, address))
                status = RI_OK;
    }
    free(attr.addresses);
    return status;
}

enum ri_status kal_route(struct kal_rnic *rnic, uint32_t port, const struct sockaddr *destination,
                         struct sockaddr_storage *source)
{
    const char *netdevs = kal_rnic_option(rnic, "netdev");
    struct sockaddr_storage found;
    enum ri_status status;

    if (!destination || !kal_address_length(destination) || port >= rnic->attr.ports)
        return RI_ERR_INVALID_ARGUMENT;
    status = kal_source_address(destination, &found);
    if (status == RI_OK && *netdevs && !kal_netdevs_have(netdevs, (struct sockaddr *)&found))
        status = RI_ERR_UNREACHABLE;
    if (status == RI_OK && rnic->attr.ports > 1)
        status = on_port(rnic, port, (struct sockaddr *)&found);
    if (status == RI_OK)
        *source = found;
    return status;
}

bool kal_rnic_has_address(const struct kal_rnic *rnic, const struct sockaddr *local)
{
    const char *netdevs = kal_rnic_option(rnic, "netdev");

    return !*netdevs || kal_netdevs_have(netdevs, local);
}

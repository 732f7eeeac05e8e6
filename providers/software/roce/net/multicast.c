/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups that this process hears (U-041, U-043, U-048). Each has a socket of this process alone,
 * bound to the group's address: of several sockets with SO_REUSEADDR there, also other users',
 * each gets a copy.
 */
#include "port.h"
#include "process.h"
#include "sockets.h"

#include "base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ff?1::, ff?2::: these are of one interface (RFC 4291). */
static bool is_of_one_interface(const uint8_t gid[static GID_LEN])
{
    return !gid_is_ipv4(gid) && ((gid[1] & 15) == 1 || (gid[1] & 15) == 2);
}

static enum ri_status say(struct net_why *why, const char *what)
{
    int error = errno;

    net_say(why, "%s: %s", what, strerror(error));
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS
               ? RI_ERR_NO_RESOURCES
               : RI_ERR_UNREACHABLE;
}

static bool join(const struct net_port *port, uint32_t interface)
{
    const uint8_t *gid = port->key.gid;
    int fd = port->fd[NET_DATA], failed;

    if (port->ipv6) {
        struct ipv6_mreq group = { .ipv6mr_interface = interface };

        memcpy(&group.ipv6mr_multiaddr, gid, GID_LEN);
        failed = setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof(group));
    } else {
        struct ip_mreqn group = { .imr_ifindex = (int)interface };

        memcpy(&group.imr_multiaddr, gid + GID_IPV4, 4);
        failed = setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group));
    }
    return !failed || errno == EADDRINUSE; /* it is joined already */
}

static bool join_all(struct net_port *port, const uint32_t *interfaces, uint32_t count)
{
    bool joined = false;
    int error = ENODEV;

    for (uint32_t i = 0; i < count && !(joined && port->key.scope); i++) {
        if (port->key.scope && interfaces[i] != port->key.scope)
            continue;
        if (join(port, interfaces[i]))
            joined = true;
        else
            error = errno;
    }
    errno = error;
    return joined;
}

static enum ri_status open_socket(struct net_port *port, const uint32_t *interfaces, uint32_t count,
                                  struct net_why *why)
{
    union socket_address address;
    socklen_t len = socket_address_set(&address, &port->key, port->attr.udp_port);
    int *fd = &port->fd[NET_DATA];

    *fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return say(why, "a UDP socket");
    if (!socket_share_group(*fd, port->ipv6) || bind(*fd, &address.any, len))
        return say(why, "to bind a group's UDP port");
    if (!socket_claim(*fd, port->ipv6, false, &port->attr.receive_octets,
                      &port->attr.counts_overflow))
        return say(why, "IP_MTU_DISCOVER");
    return join_all(port, interfaces, count) ? RI_OK : say(why, "to join a group");
}

static struct net_port *make(struct net *net, const uint8_t gid[static GID_LEN],
                             const uint32_t *interfaces, uint32_t count)
{
    struct net_port *made = calloc(1, sizeof(*made));

    if (!made)
        return NULL;
    made->net = net;
    made->users = 1;
    made->multicast = true;
    memcpy(made->key.gid, gid, GID_LEN);
    if (is_of_one_interface(gid) && count)
        made->key.scope = interfaces[0];
    made->ipv6 = !gid_is_ipv4(gid);
    made->fd[NET_DATA] = made->fd[NET_GSI] = -1;
    memcpy(made->attr.gid, gid, GID_LEN);
    made->attr.scope = made->key.scope;
    made->attr.udp_port = net->process->udp_port;
    made->attr.receive_octets = net->options.receive_octets ? net->options.receive_octets
                                                            : PORT_RECEIVE_OCTETS;
    return made;
}

enum ri_status net_multicast_open(struct net *net, const uint8_t gid[static GID_LEN],
                                  const uint32_t *interfaces, uint32_t count,
                                  struct net_port **port, struct net_why *why)
{
    struct net_port *made = make(net, gid, interfaces, count);
    enum ri_status status;

    contract(gid_is_multicast(gid));
    if (!made) {
        net_say(why, "no memory");
        return RI_ERR_NO_RESOURCES;
    }
    net_lock();
    status = net->process->dead ? RI_ERR_DEVICE : open_socket(made, interfaces, count, why);
    if (status == RI_OK) {
        made->next = net->ports;
        net->ports = *port = made;
    } else if (made->fd[NET_DATA] >= 0) {
        close(made->fd[NET_DATA]);
    }
    net_unlock();
    if (status == RI_ERR_DEVICE)
        net_say(why, "it was opened before a fork");
    if (status != RI_OK)
        free(made);
    return status;
}

void net_multicast_join(struct net_port *port, const uint32_t *interfaces, uint32_t count)
{
    contract(port->multicast);
    join_all(port, interfaces, count);
}

/* The descriptor stays valid for a thread that is about to read it: it is an empty socket's. */
void net_multicast_leave(struct net_port *port)
{
    int family = port->ipv6 ? AF_INET6 : AF_INET;
    int empty = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    contract(port->multicast);
    if (empty < 0)
        return; /* it is left when the port is closed */
    net_lock();
    if (!port->net->process->dead)
        dup3(empty, port->fd[NET_DATA], O_CLOEXEC);
    net_unlock();
    close(empty);
}

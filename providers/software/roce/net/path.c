/* SPDX-License-Identifier: BSD-3-Clause */
/* Where packets of an address handle go, made ready for sendmmsg(2). */
#include "port.h"
#include "sockets.h"

#include "base/compiler.h"

#include <string.h>
#include <sys/socket.h>

static void add_control(struct net_path *path, int level, int type, int value)
{
    struct cmsghdr head = { .cmsg_len = CMSG_LEN(sizeof(value)),
                            .cmsg_level = level,
                            .cmsg_type = type };

    contract(path->control_len + CMSG_SPACE(sizeof(value)) <= NET_PATH_CONTROL);
    memcpy(path->control + path->control_len, &head, sizeof(head));
    memcpy(path->control + path->control_len + CMSG_LEN(0), &value, sizeof(value));
    path->control_len = (uint8_t)(path->control_len + CMSG_SPACE(sizeof(value)));
}

/* What the socket is set to needs no control message. */
static void set_control(struct net_path *path, const struct net_to *to, bool ipv6)
{
    if (to->traffic_class != NET_TRAFFIC_CLASS_DEFAULT)
        add_control(path, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS,
                    to->traffic_class);
    if (to->hop_limit && to->hop_limit != NET_HOP_LIMIT_DEFAULT)
        add_control(path, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_HOPLIMIT : IP_TTL,
                    to->hop_limit);
}

enum ri_status net_path_init(struct net_path *path, const struct net_port *port,
                             const struct net_to *to)
{
    static const uint8_t zeros[GID_LEN];
    const bool ipv6 = !gid_is_ipv4(to->gid);
    struct share_key key = { .scope = port->key.scope };
    union socket_address address;

    if (ipv6 != port->ipv6 || !memcmp(to->gid, zeros, GID_LEN) ||
        (!ipv6 && !memcmp(to->gid + GID_IPV4, zeros, 4)))
        return RI_ERR_INVALID_ARGUMENT;
    memset(path, 0, sizeof(*path));
    memcpy(key.gid, to->gid, GID_LEN);
    socket_address_set(&address, &key, port->attr.udp_port);
    if (ipv6)
        path->to.ipv6 = address.ipv6;
    else
        path->to.ipv4 = address.ipv4;
    if (ipv6)
        path->to.ipv6.sin6_flowinfo = htonl(to->flow_label & 0xFFFFFu);
    /* The host's own copy is not cut by all kernels as the device cuts */
    path->no_segments = gid_is_multicast(to->gid);
    set_control(path, to, ipv6);
    icrc_path_init(&path->icrc, port->key.gid, to->gid, port->attr.udp_port);
    return RI_OK;
}

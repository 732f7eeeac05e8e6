/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of one address, and their options.
 *
 * group_make() binds the first socket alone (no SO_REUSEPORT), which the kernel refuses if anybody
 * has the UDP port: so one process only can make the sockets of an address. Then it sets
 * SO_REUSEPORT and binds the others behind it. Their order is the index that the program of steer.h
 * picks; it stays as long as any process holds them all.
 */
#ifndef ITAL_SOFTROCE_SOCKETS_H
#define ITAL_SOFTROCE_SOCKETS_H

#include <netinet/in.h>

#include "rnicpi.h"

#include "share_message.h"
#include "why.h"

union socket_address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/* Returns the length. */
socklen_t socket_address_set(union socket_address *address, const struct share_key *key,
                             uint16_t udp_port);
/* The GID of a socket address; false: neither IPv4 nor IPv6. */
bool socket_address_gid(const union socket_address *address, socklen_t len,
                        uint8_t gid[static GID_LEN]);

/* Binds slots + 1 sockets. RI_ERR_ADDRESS_IN_USE: somebody has the port, *why is not set.
 * RI_ERR_UNREACHABLE, RI_ERR_NO_RESOURCES, RI_ERR_NOT_SUPPORTED: *why. */
enum ri_status group_make(const struct share_key *key, uint16_t udp_port, uint32_t slots, int *fds,
                          struct net_why *why);
/* Are these sockets of that address? */
bool group_check(const struct share_key *key, uint16_t udp_port, const int *fds, uint32_t count);

/* What the kernel can do, tried on sockets of their own. */
struct socket_abilities {
    bool segments; /* UDP_SEGMENT cuts as it says */
    bool gro;      /* UDP_GRO says how it has merged */
};
void socket_probe(const struct share_key *key, struct socket_abilities *abilities);

/* Options of the data socket that this process has claimed; drops what came for the slot before.
 * False: it cannot carry RoCE. *receive_octets: asked for, then what there is. */
bool socket_claim(int fd, bool ipv6, bool gro, uint32_t *receive_octets, bool *counts_overflow);
/* Before a bind to a group: others may bind it, too, and nothing comes of groups that it has not
 * joined. */
bool socket_share_group(int fd, bool ipv6);
/* What is sent to groups leaves by this interface. */
void socket_send_to_groups_by(int fd, bool ipv6, uint32_t interface);
/* It is given back: what comes is dropped soon. */
void socket_release(int fd);

#endif

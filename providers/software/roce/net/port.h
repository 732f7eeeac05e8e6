/* SPDX-License-Identifier: BSD-3-Clause */
/* An open address. */
#ifndef ITAL_SOFTROCE_PORT_H
#define ITAL_SOFTROCE_PORT_H

#include <stdatomic.h>

#include "ids.h"
#include "net.h"
#include "share_message.h"

struct net;
struct net_group;

/* As struct net_counters; one thread counts up. */
struct port_counters {
    _Atomic uint64_t packets, icrc_wrong, solved, outside, malformed, overflow;
};

static inline void port_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1u,
                          memory_order_relaxed);
}

#define PORT_RECEIVE_OCTETS (4u << 20)

/* Of a group (`multicast`), or by kald: `group` is NULL, and the one socket is the port's own. */
struct net_port {
    struct net *net;
    struct net_port *next;
    uint32_t users;
    struct share_key key;
    bool ipv6, multicast;
    struct net_port_attr attr;
    struct net_group *group;
    int fd[NET_QUEUES];       /* two of the group's */
    uint32_t overflow_before; /* SO_RXQ_OVFL, of who had the slot before */
    _Atomic bool errors;
    _Atomic bool want_hop_limit;
    struct port_counters counters;
    struct ids ids; /* of the receiving thread */
};

/* One packet, whole, by itself; any thread. What the socket or the network device has no room for
 * is lost, as on the way. Returns 0 or an error number. */
int port_send(struct net_port *port, const struct net_path *path, const void *octets, size_t len);

#endif

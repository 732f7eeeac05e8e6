/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GID table: this host's addresses. An index, once given, never changes: an address that goes
 * becomes zeros in its place, and takes that place when it comes back. First come those of IPv4,
 * then those of IPv6, then link-local ones; in each kind the loopback's last. What appears later is
 * appended. P-010, P-011.
 */
#ifndef ITAL_SOFTROCE_GIDS_H
#define ITAL_SOFTROCE_GIDS_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "rnicpi.h"

#include "providers/software/roce/codec/gid.h"

#define NET_GIDS_MAX 256u

struct net_gid {
    uint8_t gid[GID_LEN]; /* zeros: gone */
    uint8_t was[GID_LEN]; /* what the place is kept for */
    uint32_t scope;       /* index of the interface of a link-local address, else 0 */
    uint32_t mtu;         /* of the interface, octets of an IP packet; 0 unknown */
    uint32_t interface;   /* its index; 0 unknown */
    char netdev[IFNAMSIZ];
};

struct net_gids {
    uint32_t count; /* places given so far */
    struct net_gid entry[NET_GIDS_MAX];
};

/* An address as the kernel lists it. */
struct net_address {
    uint8_t gid[GID_LEN];
    uint32_t scope;
    uint32_t mtu, interface;
    bool loopback; /* of the loopback interface */
    char netdev[IFNAMSIZ];
};

/* Is it fe80::/10? */
static inline bool net_gid_is_link_local(const uint8_t gid[static GID_LEN])
{
    return gid[0] == 0xFE && (gid[1] & 0xC0) == 0x80;
}

/* Takes the list over: all addresses that there are now, in the kernel's order; two that are equal
 * (address and scope) count once. When all places are given, new addresses take those of gone ones,
 * and are left out if there is none. True: the table has changed. */
bool net_gids_update(struct net_gids *gids, const struct net_address *list, uint32_t count);
/* The place of an address; -1: it has none. scope 0: any. */
int net_gids_find(const struct net_gids *gids, const uint8_t gid[static GID_LEN], uint32_t scope);

/* Lists the addresses of interfaces that are up, of those in `netdevs` (base/names.h; "" all), and
 * takes them over. Multicast, the unspecified address and broadcast are left out. May block.
 * RI_ERR_NO_RESOURCES: nothing changed. */
enum ri_status net_gids_read(struct net_gids *gids, const char *netdevs, bool *changed);

/* A descriptor that is readable when addresses or interfaces may have changed; net_gids_drain()
 * makes it unreadable again: then net_gids_read(). -1: errno. */
int net_gids_watch(void);
void net_gids_drain(int fd);

#endif

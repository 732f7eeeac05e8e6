/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of RoCEv2: GIDs, which are IP addresses, and UDP ports. P-: a requirement of the RoCE
 * suite.
 */
#ifndef ITAL_SOFTROCE_GID_H
#define ITAL_SOFTROCE_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GID_LEN      16u
#define GID_IPV4     12u   /* where the IPv4 address of a mapped GID begins */
#define GID_UDP_PORT 4791u /* destination in both directions (P-001) */

/* Does it select IPv4 on the wire (P-010)? 80 zero bits, 16 ones, then the address. */
static inline bool gid_is_ipv4(const uint8_t gid[static GID_LEN])
{
    static const uint8_t mapped[GID_IPV4] = { [10] = 0xFF, [11] = 0xFF };

    return !memcmp(gid, mapped, sizeof(mapped));
}

/* The GID of an IPv4 address in network order (P-010). That of an IPv6 address is the address. */
static inline void gid_put_ipv4(uint8_t gid[static GID_LEN], const uint8_t address[static 4])
{
    memset(gid, 0, 10);
    memset(gid + 10, 0xFF, 2);
    memcpy(gid + GID_IPV4, address, 4);
}

/* Is it a group's (U-041, U-043)? */
static inline bool gid_is_multicast(const uint8_t gid[static GID_LEN])
{
    return gid_is_ipv4(gid) ? gid[GID_IPV4] >> 4 == 0xE : gid[0] == 0xFF;
}

/*
 * The UDP source port of a QP (P-050): C000 to FFFF, of the flow label (20 bits) or, where that is
 * 0, of both QPNs (24 bits). Bits beyond are ignored.
 */
static inline uint16_t gid_source_port(uint32_t flow_label, uint32_t own_qpn, uint32_t peer_qpn)
{
    uint32_t label = flow_label & 0xFFFFFu;

    if (!label) {
        uint64_t mixed = (uint64_t)(own_qpn & 0xFFFFFFu) * (peer_qpn & 0xFFFFFFu);

        mixed ^= mixed >> 20;
        mixed ^= mixed >> 40;
        label = (uint32_t)mixed & 0xFFFFFu;
    }
    return (uint16_t)(0xC000u | ((label & 0x3FFFu) ^ label >> 14));
}

#endif

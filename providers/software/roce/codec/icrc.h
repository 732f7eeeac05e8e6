/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The invariant CRC of RoCEv2 packets: the CRC-32 over 64 ones and the packet from its IP header
 * to the pad, with ones in the fields that a router may change. P-: a requirement of the RoCE
 * suite.
 *
 * A value is a finished CRC, as in crc32.h: a sum may be continued and is always what would be
 * sent if the packet ended there.
 *
 *     icrc_path_init(&path, source, destination, port);          once for each pair of addresses
 *     crc = icrc_begin(&path, ICRC_DF, udp_len, bth);             IP, UDP and BTH
 *     crc = icrc_add(crc, extension headers, payload, pad ...);   or icrc_add_iov()
 *     icrc_put(out, crc);
 */
#ifndef ITAL_SOFTROCE_ICRC_H
#define ITAL_SOFTROCE_ICRC_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "bth.h"
#include "crc32.h"
#include "gid.h"

#define ICRC_IPV4_LEN 20u
#define ICRC_IPV6_LEN 40u
#define ICRC_UDP_LEN  8u

/* The CRC-32 of the 64 ones in front. */
#define ICRC_ONES UINT32_C(0x2144DF1C)

/*
 * IPv4's identification (upper 16 bits), flags and fragment offset (lower 16 bits) as one number, a
 * fragment word. Senders of this project send ICRC_DF (P-060), or count up in segments of one call
 * (P-062).
 */
#define ICRC_DF               UINT32_C(0x4000)
#define ICRC_FRAGMENT_WORD(n) ((uint32_t)(uint16_t)(n) << 16 | ICRC_DF)

/* IP and UDP headers of one direction of a path, masked, with lengths and identification 0. */
struct icrc_path {
    uint8_t octets[ICRC_IPV6_LEN + ICRC_UDP_LEN];
    uint8_t len; /* 28 or 48 */
};

/*
 * Both GIDs are of one family; the source's decides (P-010). The IPv4 header has no options
 * (P-044), the IPv6 header no extension headers.
 */
void icrc_path_init(struct icrc_path *path, const uint8_t source[static GID_LEN],
                    const uint8_t destination[static GID_LEN], uint16_t source_port);

/* Is a fragment word part of what is covered? */
static inline bool icrc_path_is_ipv4(const struct icrc_path *path)
{
    return path->len == ICRC_IPV4_LEN + ICRC_UDP_LEN;
}

/*
 * Begins the ICRC of a packet: IP header, UDP header and BTH. `udp_len` is the UDP length field,
 * 8 + BTH to ICRC; at most 65,515. `fragment_word` counts over IPv4 only.
 */
uint32_t icrc_begin(const struct icrc_path *path, uint32_t fragment_word, uint32_t udp_len,
                    const uint8_t bth[static BTH_LEN]);

/* Continues over extension headers, payload, pad, in any portions. */
static inline uint32_t icrc_add(uint32_t crc, const void *p, size_t n)
{
    return crc32_add(crc, p, n);
}

/* Continues over all octets of `count` vectors; empty ones are passed over. */
uint32_t icrc_add_iov(uint32_t crc, const struct iovec *iov, size_t count);

/* Continues over `pad` zero octets, 0 to 3. */
static inline uint32_t icrc_add_pad(uint32_t crc, uint32_t pad)
{
    static const uint8_t zeros[4];

    return crc32_add(crc, zeros, pad & 3u);
}

/* The field, least significant octet first. */
static inline void icrc_put(uint8_t out[static BTH_ICRC_LEN], uint32_t crc)
{
    crc = htole32(crc);
    memcpy(out, &crc, sizeof(crc));
}

static inline uint32_t icrc_get(const uint8_t in[static BTH_ICRC_LEN])
{
    uint32_t crc;

    memcpy(&crc, in, sizeof(crc));
    return le32toh(crc);
}

/* The ICRC of a whole packet: `len` octets from the BTH to the ICRC field, 16 to 65,507. */
uint32_t icrc_of_packet(const struct icrc_path *path, uint32_t fragment_word, const void *packet,
                        size_t len);

/*
 * A datagram socket does not show the fragment word of a datagram over IPv4, which is covered. But
 * the CRC is linear: two packets that differ in this word alone have ICRCs whose exclusive or
 * belongs to one difference of the word only.
 */

/*
 * What has to be changed in the four octets that have `octets` octets covered behind them (a
 * multiple of 4, at most 65,524), so that the CRC changes by `difference`: the exclusive or, the
 * first octet on top.
 */
uint32_t icrc_change_before(uint32_t difference, uint32_t octets);

/* The identifications that are expected next: `count` of them, modulo 2^16, from `first`. */
struct icrc_window {
    uint16_t first;
    uint32_t count; /* 0 to 65,536 */
};

enum icrc_match {
    ICRC_WRONG,   /* no identification makes the ICRC right: drop, count (P-040) */
    ICRC_OUTSIDE, /* one does, and it is not in the window */
    ICRC_INSIDE,
};

/*
 * Finds the fragment word of a packet over IPv4 that arrived without it: `len` octets from the BTH
 * to the ICRC field, `computed` its ICRC with `assumed` as the fragment word. Only words with no
 * flag but DF and no offset are taken (P-043, P-004), of which there are 2^17; so of packets that
 * were damaged one in 2^15 finds a word, and one in 2^15 * 65,536 / count one in the window
 * (P-042). *found is set unless ICRC_WRONG.
 */
enum icrc_match icrc_find_fragment_word(const void *packet, size_t len, uint32_t computed,
                                        uint32_t assumed, struct icrc_window window,
                                        uint32_t *found);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The 40 octets that a device puts in front of a datagram: a header of IPv6 or IPv4, of which. */
#ifndef ITAL_BASE_IPV4_HEADER_H
#define ITAL_BASE_IPV4_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPV4_HEADER_ROOM 40u /* that of IPv6 */
#define IPV4_HEADER_LEN  20u

/* The ones' complement sum over a correct header is all ones (RFC 1071). */
static inline bool ipv4_header_sum_is_right(const uint8_t header[static IPV4_HEADER_LEN])
{
    uint32_t sum = 0;

    for (unsigned int i = 0; i < IPV4_HEADER_LEN; i += 2)
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    return ((sum + (sum >> 16)) & 0xffff) == 0xffff;
}

/* A header of IPv4 is the last 20 octets. What is in front of it is undefined, and may look like a
 * header of IPv6: then the sum decides, which a device may leave out. NULL: it is one of IPv6. */
static inline const uint8_t *ipv4_header_in(const uint8_t octets[static IPV4_HEADER_ROOM])
{
    const uint8_t *ipv4 = octets + IPV4_HEADER_ROOM - IPV4_HEADER_LEN;
    bool is = ipv4[0] == 0x45 && (octets[0] >> 4 != 6 || ipv4_header_sum_is_right(ipv4));

    return is ? ipv4 : NULL;
}

#endif

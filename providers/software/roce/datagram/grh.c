/* SPDX-License-Identifier: BSD-3-Clause */
/* The network header in front of a received message (U-020 to U-023). */
#include "datagram.h"

#include "base/be.h"

#define UDP_HEADER  8u
#define IPV4_HEADER 20u
#define DF          0x4000u
#define UDP         17u

/* RFC 1071 */
static uint16_t checksum(const uint8_t *header)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < IPV4_HEADER; i += 2)
        sum += be_get16(header + i);
    sum = (sum & 0xFFFFu) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

static void put_ipv4(uint8_t *header, const struct ud_origin *from, uint32_t octets)
{
    header[0] = 0x45;
    header[1] = from->traffic_class;
    be_put16(header + 2, (uint16_t)(IPV4_HEADER + UDP_HEADER + octets));
    be_put16(header + 4, 0);
    be_put16(header + 6, DF);
    header[8] = from->hop_limit;
    header[9] = UDP;
    be_put16(header + 10, 0);
    memcpy(header + 12, from->source + GID_IPV4, 4);
    memcpy(header + 16, from->destination + GID_IPV4, 4);
    be_put16(header + 10, checksum(header));
}

void ud_put_grh(uint8_t out[static UD_GRH], const struct ud_origin *from, uint32_t octets)
{
    memset(out, 0, UD_GRH);
    if (gid_is_ipv4(from->destination)) {
        put_ipv4(out + UD_GRH - IPV4_HEADER, from, octets);
        return;
    }
    be_put32(out, UINT32_C(6) << 28 | (uint32_t)from->traffic_class << 20);
    be_put16(out + 4, (uint16_t)(UDP_HEADER + octets));
    out[6] = UDP;
    out[7] = from->hop_limit;
    memcpy(out + 8, from->source, GID_LEN);
    memcpy(out + 24, from->destination, GID_LEN);
}

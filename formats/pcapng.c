/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of a pcapng file; IP, TCP and UDP headers with their checksums. */
#include "pcapng.h"

#include "base/be.h"

#include <netinet/in.h>
#include <string.h>

/* ---- blocks: type, length, body, length again; everything a multiple of four octets ---- */

#define BLOCK_SECTION    0x0A0D0D0Au
#define BLOCK_INTERFACE  1u
#define BLOCK_STATISTICS 5u
#define BLOCK_PACKET     6u

#define BYTE_ORDER_MAGIC 0x1A2B3C4Du
#define LINKTYPE_RAW     101u

#define OPTION_END         0u
#define OPTION_APPLICATION 4u /* of the section */
#define OPTION_NAME        2u /* of the interface */
#define OPTION_RESOLUTION  9u
#define OPTION_FLAGS       2u /* of a packet */
#define OPTION_RECEIVED    4u /* of statistics */
#define OPTION_DROPPED     5u

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static uint8_t *put16(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static uint8_t *put_time(uint8_t *at, uint64_t ns)
{
    return put32(put32(at, (uint32_t)(ns >> 32)), (uint32_t)ns);
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *value, size_t length)
{
    at = put16(put16(at, code), (uint16_t)length);
    if (length)
        memcpy(at, value, length);
    memset(at + length, 0, -length & 3);
    return at + length + (-length & 3);
}

static uint8_t *put_text(uint8_t *at, uint16_t code, const char *text)
{
    return put_option(at, code, text, strnlen(text, PCAPNG_TEXT_MAX));
}

/* The body stands behind eight octets that are still free: type and length go
 * there, and the length behind it. */
static size_t close_block(uint8_t *out, uint32_t type, const uint8_t *end)
{
    uint32_t length = (uint32_t)(end - out) + 4;

    put32(put32(out, type), length);
    put32(out + length - 4, length);
    return length;
}

size_t pcapng_start(uint8_t *out, const char *application, const char *interface)
{
    static const uint8_t nanoseconds = 9;
    uint8_t *at = put32(out + 8, BYTE_ORDER_MAGIC);
    size_t section;

    at = put16(put16(at, 1), 0);                   /* version 1.0 */
    at = put32(put32(at, UINT32_MAX), UINT32_MAX); /* length of the section: not known */
    at = put_text(at, OPTION_APPLICATION, application);
    section = close_block(out, BLOCK_SECTION, put_option(at, OPTION_END, NULL, 0));

    out += section;
    at = put16(put16(out + 8, LINKTYPE_RAW), 0);
    at = put32(at, 0); /* packets are whole */
    at = put_text(at, OPTION_NAME, interface);
    at = put_option(at, OPTION_RESOLUTION, &nanoseconds, 1);
    return section + close_block(out, BLOCK_INTERFACE, put_option(at, OPTION_END, NULL, 0));
}

size_t pcapng_packet_size(uint32_t length)
{
    return PCAPNG_PACKET_HEAD + (((size_t)length + 3) & ~(size_t)3) + 8 + 4 + 4;
}

size_t pcapng_packet_head(uint8_t *out, uint64_t time_ns, uint32_t length)
{
    uint8_t *at = put32(put32(out, BLOCK_PACKET), (uint32_t)pcapng_packet_size(length));

    at = put_time(put32(at, 0), time_ns);
    put32(put32(at, length), length);
    return PCAPNG_PACKET_HEAD;
}

size_t pcapng_packet_tail(uint8_t *out, uint32_t length, bool outbound)
{
    uint32_t flags = outbound ? 2 : 1, padding = -length & 3;
    uint8_t *at = out + padding;

    memset(out, 0, padding);
    at = put_option(at, OPTION_FLAGS, &flags, sizeof(flags));
    at = put_option(at, OPTION_END, NULL, 0);
    at = put32(at, (uint32_t)pcapng_packet_size(length));
    return (size_t)(at - out);
}

size_t pcapng_end(uint8_t *out, uint64_t time_ns, uint64_t packets, uint64_t missing)
{
    uint8_t *at = put_time(put32(out + 8, 0), time_ns);

    packets += missing; /* received: seen at all */
    at = put_option(at, OPTION_RECEIVED, &packets, sizeof(packets));
    at = put_option(at, OPTION_DROPPED, &missing, sizeof(missing));
    return close_block(out, BLOCK_STATISTICS, put_option(at, OPTION_END, NULL, 0));
}

size_t pcapng_whole(const uint8_t *octets, size_t length)
{
    size_t at = 0;
    uint32_t size;

    while (length - at >= 8) {
        memcpy(&size, octets + at + 4, sizeof(size));
        if (size > length - at)
            break;
        at += size;
    }
    return at;
}

/* ---- IP and TCP ---- */

#define IPV4_LEN        20u
#define IPV6_LEN        40u
#define TCP_LEN         20u
#define SYN_OPTIONS_LEN 8u
#define TTL             64u

/* Octets as 16-bit words in network order, added up: folded at the end. An
 * odd last octet counts as a word. */
static uint64_t sum(uint64_t so_far, const uint8_t *octets, size_t length)
{
    while (length >= 4) {
        so_far += be_get32(octets);
        octets += 4;
        length -= 4;
    }
    if (length >= 2) {
        so_far += be_get16(octets);
        octets += 2;
        length -= 2;
    }
    return length ? so_far + ((uint64_t)octets[0] << 8) : so_far;
}

static uint16_t checksum(uint64_t total)
{
    while (total >> 16)
        total = (total & 0xFFFF) + (total >> 16);
    return (uint16_t)~total;
}

static bool is_ipv4(const struct tcpip_segment *segment)
{
    return segment->from->ss_family == AF_INET;
}

static size_t tcp_size(const struct tcpip_segment *segment)
{
    return TCP_LEN + (segment->flags & TCPIP_SYN ? SYN_OPTIONS_LEN : 0);
}

size_t tcpip_headers_size(const struct tcpip_segment *segment)
{
    return (is_ipv4(segment) ? IPV4_LEN : IPV6_LEN) + tcp_size(segment);
}

/* Returns the sum of the pseudo-header without its length. */
static uint64_t put_ipv4(uint8_t *out, const struct tcpip_segment *segment, size_t total)
{
    const struct sockaddr_in *from = (const struct sockaddr_in *)segment->from;
    const struct sockaddr_in *to = (const struct sockaddr_in *)segment->to;

    memset(out, 0, IPV4_LEN);
    out[0] = 0x45;
    be_put16(out + 2, (uint16_t)total);
    be_put16(out + 4, segment->ident);
    be_put16(out + 6, 0x4000); /* do not fragment */
    out[8] = TTL;
    out[9] = IPPROTO_TCP;
    memcpy(out + 12, &from->sin_addr, 4);
    memcpy(out + 16, &to->sin_addr, 4);
    be_put16(out + 10, checksum(sum(0, out, IPV4_LEN)));
    return sum(IPPROTO_TCP, out + 12, 8);
}

static uint64_t put_ipv6(uint8_t *out, const struct tcpip_segment *segment, size_t total)
{
    const struct sockaddr_in6 *from = (const struct sockaddr_in6 *)segment->from;
    const struct sockaddr_in6 *to = (const struct sockaddr_in6 *)segment->to;

    memset(out, 0, IPV6_LEN);
    out[0] = 0x60;
    be_put16(out + 4, (uint16_t)(total - IPV6_LEN));
    out[6] = IPPROTO_TCP;
    out[7] = TTL;
    memcpy(out + 8, &from->sin6_addr, 16);
    memcpy(out + 24, &to->sin6_addr, 16);
    return sum(IPPROTO_TCP, out + 8, 32);
}

static uint16_t port_of(const struct sockaddr_storage *address) /* as on the wire */
{
    return address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                         : ((const struct sockaddr_in6 *)address)->sin6_port;
}

static void put_tcp(uint8_t *out, const struct tcpip_segment *segment)
{
    static const uint8_t options[SYN_OPTIONS_LEN] = { 2, 4, 0xFF, 0xC3, 1, 3, 3, 14 };
    uint16_t from = port_of(segment->from), to = port_of(segment->to);

    memset(out, 0, TCP_LEN);
    memcpy(out, &from, 2);
    memcpy(out + 2, &to, 2);
    be_put32(out + 4, segment->seq);
    be_put32(out + 8, segment->flags & TCPIP_ACK ? segment->ack : 0);
    out[12] = (uint8_t)(tcp_size(segment) / 4 << 4);
    out[13] = segment->flags;
    be_put16(out + 14, 0xFFFF); /* by the scale of the SYN: never full */
    if (segment->flags & TCPIP_SYN)
        memcpy(out + TCP_LEN, options, sizeof(options));
}

size_t tcpip_headers(uint8_t *out, const struct tcpip_segment *segment, size_t payload)
{
    size_t headers = tcpip_headers_size(segment), tcp = tcp_size(segment), ip = headers - tcp;
    uint64_t pseudo = is_ipv4(segment) ? put_ipv4(out, segment, headers + payload)
                                       : put_ipv6(out, segment, headers + payload);

    put_tcp(out + ip, segment);
    pseudo += tcp + payload;
    be_put16(out + ip + 16, checksum(sum(pseudo, out + ip, tcp + payload)));
    return headers;
}

/* ---- UDP ---- */

#define UDP_LEN 8u

/* A portion that begins at an odd octet is summed with its octets exchanged. */
static uint64_t sum_portions(const struct iovec *payload, size_t count, size_t *length)
{
    uint64_t total = 0;

    *length = 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t one = (uint16_t)~checksum(sum(0, payload[i].iov_base, payload[i].iov_len));

        total += *length & 1 ? (uint64_t)(uint16_t)(one << 8 | one >> 8) : one;
        *length += payload[i].iov_len;
    }
    return total;
}

static size_t put_ip(uint8_t *out, const struct udpip_datagram *datagram, size_t udp)
{
    if (datagram->ipv4) {
        memset(out, 0, IPV4_LEN);
        out[0] = 0x45;
        out[1] = datagram->traffic_class;
        be_put16(out + 2, (uint16_t)(IPV4_LEN + udp));
        be_put32(out + 4, datagram->fragment_word);
        out[8] = datagram->hop_limit;
        out[9] = IPPROTO_UDP;
        memcpy(out + 12, datagram->from, 4);
        memcpy(out + 16, datagram->to, 4);
        be_put16(out + 10, checksum(sum(0, out, IPV4_LEN)));
        return IPV4_LEN;
    }
    memset(out, 0, IPV6_LEN);
    be_put32(out, UINT32_C(6) << 28 | (uint32_t)datagram->traffic_class << 20);
    be_put16(out + 4, (uint16_t)udp);
    out[6] = IPPROTO_UDP;
    out[7] = datagram->hop_limit;
    memcpy(out + 8, datagram->from, 16);
    memcpy(out + 24, datagram->to, 16);
    return IPV6_LEN;
}

size_t udpip_headers(uint8_t out[static UDPIP_HEADERS_MAX], const struct udpip_datagram *datagram,
                     const struct iovec *payload, size_t count)
{
    size_t length, ip, addresses = datagram->ipv4 ? 8 : 32;
    uint64_t total = sum_portions(payload, count, &length);
    uint16_t field;
    uint8_t *udp;

    length += UDP_LEN;
    ip = put_ip(out, datagram, length);
    udp = out + ip;
    be_put16(udp, datagram->from_port);
    be_put16(udp + 2, datagram->to_port);
    be_put16(udp + 4, (uint16_t)length);
    be_put16(udp + 6, 0);
    field = checksum(
        sum(sum(total + IPPROTO_UDP + length, out + ip - addresses, addresses), udp, UDP_LEN));
    /* 0 would say that there is none */
    be_put16(udp + 6, field ? field : 0xFFFF);
    return ip + UDP_LEN;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of a pcapng file (draft-ietf-opsawg-pcapng), IP and TCP headers for octets whose real
 * packets are not known, and IP and UDP headers of datagrams. Pure functions into the caller's
 * buffer; each returns the octets written. One interface per section, raw IP, times in
 * nanoseconds, numbers in the byte order of the machine.
 */
#ifndef ITAL_FORMATS_PCAPNG_H
#define ITAL_FORMATS_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PCAPNG_TEXT_MAX    64u /* names are cut there */
#define PCAPNG_START_MAX   (2u * (PCAPNG_TEXT_MAX + 48u))
#define PCAPNG_PACKET_HEAD 28u
#define PCAPNG_PACKET_TAIL 19u /* at most: padding, direction, length */
#define PCAPNG_END_LEN     52u

/* The start of a file: section header and interface description; at most PCAPNG_START_MAX
 * octets. */
size_t pcapng_start(uint8_t *out, const char *application, const char *interface);

/* A packet of `length` octets is these PCAPNG_PACKET_HEAD octets, the
 * packet, and the tail behind it. */
size_t pcapng_packet_head(uint8_t *out, uint64_t time_ns, uint32_t length);
size_t pcapng_packet_tail(uint8_t *out, uint32_t length, bool outbound);
/* Octets of the whole block. */
size_t pcapng_packet_size(uint32_t length);

/* An optional end: the numbers of packets in the file and of missing ones; PCAPNG_END_LEN
 * octets. */
size_t pcapng_end(uint8_t *out, uint64_t time_ns, uint64_t packets, uint64_t missing);

/* The octets, at most `length`, that are complete blocks. `octets` begins with a block. */
size_t pcapng_whole(const uint8_t *octets, size_t length);

#define TCPIP_HEADERS_MAX 68u    /* IPv6, TCP, options of a SYN */
#define TCPIP_PAYLOAD_MAX 65475u /* fits with either version of IP */

#define TCPIP_FIN 0x01u
#define TCPIP_SYN 0x02u
#define TCPIP_RST 0x04u
#define TCPIP_PSH 0x08u
#define TCPIP_ACK 0x10u

/* A segment between two addresses of one family, AF_INET or AF_INET6. */
struct tcpip_segment {
    const struct sockaddr_storage *from, *to;
    uint32_t seq, ack;
    uint16_t ident; /* IPv4 identification */
    uint8_t flags;  /* TCPIP_; a SYN carries maximum segment size and window scale */
};

/* Octets of its headers. */
size_t tcpip_headers_size(const struct tcpip_segment *segment);
/* The payload stands right behind where the headers go:
 * out[tcpip_headers_size()]. Checksums are right. */
size_t tcpip_headers(uint8_t *out, const struct tcpip_segment *segment, size_t payload);

/* A datagram of UDP. */
struct udpip_datagram {
    bool ipv4;
    const uint8_t *from, *to; /* addresses, of 4 or 16 octets */
    uint16_t from_port, to_port;
    uint8_t traffic_class, hop_limit;
    uint32_t fragment_word; /* IPv4: identification, then flags and fragment offset */
};
#define UDPIP_HEADERS_MAX 48u

/* Its headers, for a payload in any portions of 65,507 octets at most, which is not copied.
 * Checksums are right. */
size_t udpip_headers(uint8_t out[static UDPIP_HEADERS_MAX], const struct udpip_datagram *datagram,
                     const struct iovec *payload, size_t count);

#endif

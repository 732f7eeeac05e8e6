/* SPDX-License-Identifier: BSD-3-Clause */
/* pcapng blocks and TCP/IP headers, octet by octet, with checksums computed by a simple
 * reference. */
#include "tc.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "formats/pcapng.h"

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, 4);
    return value;
}

static uint16_t get16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, 2);
    return value;
}

static unsigned be16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)be16(at) << 16 | be16(at + 2);
}

/* Checks that the block at `at` has this type, and the same length at both ends; returns the
 * length. */
static uint32_t block(const uint8_t *at, uint32_t type)
{
    uint32_t length = get32(at + 4);

    ck_assert_uint_eq(get32(at), type);
    ck_assert_uint_eq(length % 4, 0);
    ck_assert_uint_eq(get32(at + length - 4), length);
    return length;
}

/* The value of an option in the list at `at`, which ends with the end option. */
static const uint8_t *option(const uint8_t *at, unsigned code, unsigned length)
{
    while (get16(at) != code) {
        ck_assert_uint_ne(get16(at), 0);
        at += 4 + (get16(at + 2) + 3u) / 4 * 4;
    }
    ck_assert_uint_eq(get16(at + 2), length);
    return at + 4;
}

START_TEST(start_of_a_file)
{
    char name[PCAPNG_TEXT_MAX + 20];
    uint8_t out[PCAPNG_START_MAX];
    size_t length = pcapng_start(out, "ital", "soft0");
    uint32_t section = block(out, 0x0A0D0D0A), interface;

    ck_assert_uint_eq(get32(out + 8), 0x1A2B3C4D);
    ck_assert(get16(out + 12) == 1 && get16(out + 14) == 0);
    ck_assert_uint_eq(get32(out + 16) & get32(out + 20), UINT32_MAX);
    ck_assert_mem_eq(option(out + 24, 4, 4), "ital", 4);
    interface = block(out + section, 1);
    ck_assert_uint_eq(section + interface, length);
    ck_assert_uint_eq(get16(out + section + 8), 101); /* raw IP */
    ck_assert_uint_eq(get32(out + section + 12), 0);
    ck_assert_mem_eq(option(out + section + 16, 2, 5), "soft0", 5);
    ck_assert_uint_eq(*option(out + section + 16, 9, 1), 9);
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    ck_assert_uint_le(pcapng_start(out, name, name), sizeof(out));
    option(out + block(out, 0x0A0D0D0A) + 16, 2, PCAPNG_TEXT_MAX);
}
END_TEST

START_TEST(packets_of_every_padding)
{
    for (uint32_t length = 0; length < 70; length++) {
        size_t size = pcapng_packet_size(length);
        uint8_t *out = malloc(size);
        const uint64_t time = 0x0123456789ABCDEFu;

        memset(out, 0xEE, size);
        ck_assert_uint_eq(pcapng_packet_head(out, time, length), PCAPNG_PACKET_HEAD);
        ck_assert_uint_eq(
            PCAPNG_PACKET_HEAD + length +
                pcapng_packet_tail(out + PCAPNG_PACKET_HEAD + length, length, length % 2),
            size);
        ck_assert_uint_le(size - PCAPNG_PACKET_HEAD - length, PCAPNG_PACKET_TAIL);
        ck_assert_uint_eq(block(out, 6), size);
        ck_assert_uint_eq(get32(out + 8), 0);
        ck_assert(get32(out + 12) == 0x01234567 && get32(out + 16) == 0x89ABCDEF);
        ck_assert(get32(out + 20) == length && get32(out + 24) == length);
        ck_assert_uint_eq(get32(option(out + PCAPNG_PACKET_HEAD + (length + 3) / 4 * 4, 2, 4)),
                          length % 2 ? 2 : 1);
        for (uint32_t i = length; i % 4; i++)
            ck_assert_uint_eq(out[PCAPNG_PACKET_HEAD + i], 0);
        free(out);
    }
}
END_TEST

START_TEST(end_of_a_file)
{
    uint8_t out[PCAPNG_END_LEN];
    uint64_t value;

    ck_assert_uint_eq(pcapng_end(out, 1, 40, 2), sizeof(out));
    ck_assert_uint_eq(block(out, 5), sizeof(out));
    memcpy(&value, option(out + 20, 4, 8), 8);
    ck_assert_uint_eq(value, 42);
    memcpy(&value, option(out + 20, 5, 8), 8);
    ck_assert_uint_eq(value, 2);
}
END_TEST

START_TEST(whole_blocks_of_a_prefix)
{
    uint8_t out[PCAPNG_START_MAX + PCAPNG_END_LEN];
    size_t start = pcapng_start(out, "a", "b"), section = block(out, 0x0A0D0D0A);
    size_t total = start + pcapng_end(out + start, 0, 0, 0);

    for (size_t cut = 0; cut <= total; cut++)
        ck_assert_uint_eq(pcapng_whole(out, cut), cut < section ? 0
                                                  : cut < start ? section
                                                  : cut < total ? start
                                                                : total);
}
END_TEST

/* ---- headers ---- */

/* RFC 1071, word by word. */
static unsigned slow_sum(unsigned long sum, const uint8_t *octets, size_t length)
{
    for (size_t i = 0; i < length; i += 2)
        sum += (unsigned long)octets[i] << 8 | (i + 1 < length ? octets[i + 1] : 0);
    while (sum > 0xFFFF)
        sum = (sum & 0xFFFF) + (sum >> 16);
    return (unsigned)sum;
}

static struct sockaddr_storage address(int family, const char *text, uint16_t port)
{
    struct sockaddr_storage out = { .ss_family = (sa_family_t)family };

    if (family == AF_INET) {
        inet_pton(family, text, &((struct sockaddr_in *)&out)->sin_addr);
        ((struct sockaddr_in *)&out)->sin_port = htons(port);
    } else {
        inet_pton(family, text, &((struct sockaddr_in6 *)&out)->sin6_addr);
        ((struct sockaddr_in6 *)&out)->sin6_port = htons(port);
    }
    return out;
}

static void headers(int family, uint8_t flags, size_t payload)
{
    struct sockaddr_storage from = address(family, family == AF_INET ? "10.1.2.3" : "fe80::1:2", 7);
    struct sockaddr_storage to = address(family, family == AF_INET ? "192.0.2.9" : "::1", 51234);
    const struct tcpip_segment segment = {
        .from = &from, .to = &to, .seq = 0xFEDCBA98, .ack = 0x11223344, .ident = 77, .flags = flags
    };
    size_t head = tcpip_headers_size(&segment), ip = family == AF_INET ? 20 : 40;
    uint8_t *out = malloc(head + payload);
    struct tc_rng rng = tc_rng(payload);
    const uint8_t *tcp = out + ip;

    ck_assert_uint_le(head, TCPIP_HEADERS_MAX);
    tc_fill(&rng, out, head + payload);
    ck_assert_uint_eq(tcpip_headers(out, &segment, payload), head);
    if (family == AF_INET) {
        ck_assert(out[0] == 0x45 && out[9] == 6 && out[8]);
        ck_assert_uint_eq(be16(out + 2), head + payload);
        ck_assert_uint_eq(be16(out + 4), 77);
        ck_assert_uint_eq(slow_sum(0, out, 20), 0xFFFF);
        ck_assert_mem_eq(out + 12, "\x0A\x01\x02\x03\xC0\x00\x02\x09", 8);
        ck_assert_uint_eq(slow_sum(6 + slow_sum(0, out + 12, 8) + (head + payload - ip), tcp,
                                   head + payload - ip),
                          0xFFFF);
    } else {
        ck_assert(out[0] == 0x60 && out[6] == 6 && out[7]);
        ck_assert_uint_eq(be16(out + 4), head + payload - ip);
        ck_assert_mem_eq(out + 8, &((struct sockaddr_in6 *)&from)->sin6_addr, 16);
        ck_assert_mem_eq(out + 24, &((struct sockaddr_in6 *)&to)->sin6_addr, 16);
        ck_assert_uint_eq(slow_sum(6 + slow_sum(0, out + 8, 32) + (head + payload - ip), tcp,
                                   head + payload - ip),
                          0xFFFF);
    }
    ck_assert(be16(tcp) == 7 && be16(tcp + 2) == 51234);
    ck_assert_uint_eq(be32(tcp + 4), 0xFEDCBA98);
    ck_assert_uint_eq(be32(tcp + 8), flags & TCPIP_ACK ? 0x11223344 : 0);
    ck_assert_uint_eq(tcp[12] >> 4, (head - ip) / 4);
    ck_assert_uint_eq(tcp[13], flags);
    if (flags & TCPIP_SYN)
        ck_assert(tcp[20] == 2 && tcp[21] == 4 && tcp[24] == 1 && tcp[25] == 3 && tcp[26] == 3);
    free(out);
}

START_TEST(headers_of_every_kind)
{
    static const size_t lengths[] = { 0, 1, 2, 3, 5, 1460, 65534 - 60, TCPIP_PAYLOAD_MAX };
    static const uint8_t flags[] = { TCPIP_SYN,
                                     TCPIP_SYN | TCPIP_ACK,
                                     TCPIP_ACK,
                                     TCPIP_ACK | TCPIP_PSH,
                                     TCPIP_ACK | TCPIP_FIN,
                                     TCPIP_RST | TCPIP_ACK };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < sizeof(flags); k++) {
            headers(AF_INET, flags[k], flags[k] & TCPIP_SYN ? 0 : lengths[i]);
            headers(AF_INET6, flags[k], flags[k] & TCPIP_SYN ? 0 : lengths[i]);
        }
    }
}
END_TEST

/* Portions of odd lengths, as one. */
static void datagram(bool ipv4, size_t cut, size_t more)
{
    static const uint8_t from[16] = "abcdefghijklmnop", to[16] = "qrstuvwxyz012345";
    const struct udpip_datagram datagram = { .ipv4 = ipv4,
                                             .from = from,
                                             .to = to,
                                             .from_port = 51234,
                                             .to_port = 4791,
                                             .traffic_class = 0xA2,
                                             .hop_limit = 9,
                                             .fragment_word = 0x12344000 };
    const size_t ip = ipv4 ? 20 : 40, payload = cut + more;
    uint8_t out[UDPIP_HEADERS_MAX + 4000];
    uint8_t octets[4000];
    const struct iovec iov[] = { { octets, cut }, { octets + cut, 0 }, { octets + cut, more } };

    for (size_t i = 0; i < payload; i++)
        octets[i] = (uint8_t)(i * 77 + 5);
    ck_assert_uint_eq(udpip_headers(out, &datagram, iov, 3), ip + 8);
    memcpy(out + ip + 8, octets, payload);
    ck_assert(be16(out + ip) == 51234 && be16(out + ip + 2) == 4791);
    ck_assert_uint_eq(be16(out + ip + 4), 8 + payload);
    ck_assert_uint_eq(
        slow_sum(17 + slow_sum(0, out + ip - (ipv4 ? 8 : 32), ipv4 ? 8 : 32) + 8 + payload,
                 out + ip, 8 + payload),
        0xFFFF);
    if (!ipv4) {
        ck_assert(be32(out) == 0x6A200000 && be16(out + 4) == 8 + payload);
        ck_assert(out[6] == 17 && out[7] == 9);
        return;
    }
    ck_assert(out[0] == 0x45 && out[1] == 0xA2 && out[8] == 9 && out[9] == 17);
    ck_assert(be16(out + 2) == 28 + payload && be32(out + 4) == 0x12344000);
    ck_assert_uint_eq(slow_sum(0, out, 20), 0xFFFF);
}

START_TEST(datagrams_in_portions)
{
    for (size_t cut = 0; cut < 9; cut++)
        for (size_t more = 0; more < 9; more++) {
            datagram(true, cut, more);
            datagram(false, cut, more);
        }
    datagram(true, 1237, 2001);
    datagram(false, 1236, 2001);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("capture files");
    TCase *blocks = tcase_create("blocks"), *packets = tcase_create("packets");

    tc_add_tests(blocks, start_of_a_file, packets_of_every_padding, end_of_a_file,
                 whole_blocks_of_a_prefix);
    suite_add_tcase(s, blocks);
    tc_add_tests(packets, headers_of_every_kind, datagrams_in_portions);
    suite_add_tcase(s, packets);
    return tc_main(s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ICRC: masked headers, sums, and the fragment word from the ICRC.
 */
#include "icrc.h"

#include <byteswap.h>

#include "base/be.h"

/* Offsets in the IP headers. */
#define IPV4_LENGTH   2u
#define IPV4_FRAGMENT 4u
#define IPV6_LENGTH   4u
#define UDP_LENGTH    4u

/* Octets covered behind the fragment word and in front of the BTH: 12 of IPv4, 8 of UDP. */
#define BEHIND_FRAGMENT_WORD 20u

/* Steps of 32 bits by which two tables with 128 entries each go back. */
#define STEPS 128u

static void put_udp(uint8_t *out, uint16_t source_port)
{
    be_put16(out, source_port);
    be_put16(out + 2, GID_UDP_PORT);
    memset(out + 6, 0xFF, 2); /* checksum; the length is each packet's */
}

void icrc_path_init(struct icrc_path *path, const uint8_t source[static GID_LEN],
                    const uint8_t destination[static GID_LEN], uint16_t source_port)
{
    uint8_t *ip = path->octets;

    memset(path, 0, sizeof(*path));
    if (gid_is_ipv4(source)) {
        ip[0] = 0x45;
        ip[1] = 0xFF; /* type of service */
        ip[8] = 0xFF; /* time to live */
        ip[9] = 17;
        memset(ip + 10, 0xFF, 2); /* header checksum */
        memcpy(ip + 12, source + GID_IPV4, 4);
        memcpy(ip + 16, destination + GID_IPV4, 4);
        path->len = ICRC_IPV4_LEN + ICRC_UDP_LEN;
    } else {
        ip[0] = 0x6F; /* traffic class and flow label follow */
        memset(ip + 1, 0xFF, 3);
        ip[6] = 17;
        ip[7] = 0xFF; /* hop limit */
        memcpy(ip + 8, source, GID_LEN);
        memcpy(ip + 24, destination, GID_LEN);
        path->len = ICRC_IPV6_LEN + ICRC_UDP_LEN;
    }
    put_udp(ip + path->len - ICRC_UDP_LEN, source_port);
}

uint32_t icrc_begin(const struct icrc_path *path, uint32_t fragment_word, uint32_t udp_len,
                    const uint8_t bth[static BTH_LEN])
{
    uint8_t covered[ICRC_IPV6_LEN + ICRC_UDP_LEN + BTH_LEN];
    uint8_t *udp = covered + path->len - ICRC_UDP_LEN;

    memcpy(covered, path->octets, sizeof(path->octets));
    if (icrc_path_is_ipv4(path)) {
        be_put16(covered + IPV4_LENGTH, (uint16_t)(udp_len + ICRC_IPV4_LEN));
        be_put32(covered + IPV4_FRAGMENT, fragment_word);
    } else {
        be_put16(covered + IPV6_LENGTH, (uint16_t)udp_len);
    }
    be_put16(udp + UDP_LENGTH, (uint16_t)udp_len);
    memcpy(udp + ICRC_UDP_LEN, bth, BTH_LEN);
    udp[ICRC_UDP_LEN + BTH_MASKED_OCTET] = 0xFF;
    return crc32_add(ICRC_ONES, covered, path->len + BTH_LEN);
}

uint32_t icrc_add_iov(uint32_t crc, const struct iovec *iov, size_t count)
{
    for (size_t i = 0; i < count; i++)
        crc = crc32_add(crc, iov[i].iov_base, iov[i].iov_len);
    return crc;
}

uint32_t icrc_of_packet(const struct icrc_path *path, uint32_t fragment_word, const void *packet,
                        size_t len)
{
    const uint8_t *bth = packet;
    uint32_t crc = icrc_begin(path, fragment_word, (uint32_t)len + ICRC_UDP_LEN, bth);

    return crc32_add(crc, bth + BTH_LEN, len - BTH_LEN - BTH_ICRC_LEN);
}

/*
 * Polynomials modulo the generator, in reflected form: bit 31 is the coefficient of x^0. Entry i of
 * `near` is x^(-32 i), of `far` x^(-32 * 128 i).
 */
static const uint32_t near[STEPS] = {
    0x80000000, 0x5b358fd3, 0x2e9bb40b, 0x36511375, 0x12a59a49, 0x278d6e4e, 0x21280f27, 0x24ac08d5,
    0x8df9403d, 0xd50cbcf7, 0xebd369b3, 0x3c790f42, 0x9d764201, 0x4cc54c19, 0xe364fe50, 0x6fef6bf6,
    0x5139de12, 0xbb26d682, 0x1a28419b, 0xb34f4a13, 0x17958e0b, 0x9887f8d0, 0xa3b110ee, 0xa06cd294,
    0xdb1c4863, 0x18760b90, 0xf11d96dd, 0x23744737, 0xc31ec6b9, 0x1332af98, 0x6d1a2ff6, 0x16438de9,
    0xba340226, 0x1d7f767c, 0xcb8e5729, 0xaf65782a, 0x6b85d37b, 0xd8648965, 0x2e07262b, 0xefbdbf5c,
    0x0ba861bc, 0xe29c7f35, 0x55fcdb99, 0x280b8715, 0x39b0d61c, 0x981dd259, 0x3a8200bc, 0x05b82f81,
    0xfb844d1f, 0x257371e5, 0x215d9507, 0xf8566b8b, 0xc9771684, 0xcaec2434, 0x9e170c4c, 0x01c28130,
    0x8073ef0c, 0xa9619345, 0xba692cac, 0xc352b0a1, 0xc3f881be, 0x64cb76db, 0xe39a0f29, 0xa6bde77c,
    0x29c45641, 0xc43db4b0, 0xfcf597e5, 0x41976fb7, 0x53c2226c, 0xad1edce9, 0x4e6cb6d3, 0x1d9db45e,
    0x5d833f05, 0x30a8f578, 0x7ae82124, 0x8d11ea66, 0xd7d92155, 0x369b65e3, 0x878d3f74, 0xf9411b3c,
    0xa6c0c5ab, 0x93db4871, 0x20f7fd76, 0x500d4443, 0x7e77a9fb, 0x8ca1a4e6, 0x83ecfc59, 0xd9083089,
    0x21e82b05, 0x735b9b2e, 0x0e18a650, 0xb1259a02, 0xab41075b, 0xe48dfa8b, 0x112d85da, 0x8f6ffb05,
    0x2c87538c, 0xfaa083cc, 0x3cffea33, 0x09b290e1, 0x6389c9d4, 0x57b8e779, 0x3d88b7cc, 0xc56989d2,
    0x52d65112, 0xd556d799, 0x96722ed8, 0xd58f8027, 0x5989e126, 0x76a459da, 0xd21bc47c, 0xe542a121,
    0x418e4cb6, 0x68d2b22b, 0x43ad03d1, 0xb7e108a3, 0x88194f64, 0xd0cefad8, 0xe848ca85, 0xbc6f7df3,
    0x1bf9e49e, 0x89ec6ccc, 0xf6de18a7, 0x72c86c22, 0xb5a1f9e3, 0x921e9939, 0x47ffb763, 0xa342457b,
};

static const uint32_t far[STEPS] = {
    0x80000000, 0x12fbc105, 0xecd30c55, 0x3c4c471a, 0x3755ebd8, 0xc3a68b42, 0x75cc86fa, 0x84773a36,
    0x24ee460c, 0x95b5d523, 0x712715c6, 0x01e906a1, 0x66c5cb48, 0x451d0b9b, 0xfbbed370, 0x6ea3d5cf,
    0x23783fcf, 0x8417ef98, 0x7ce6bf1a, 0xd7d066e0, 0xdf40f597, 0x18196752, 0x1870849b, 0x32700815,
    0xea8683d0, 0xefde76f8, 0x811bebd2, 0x69618e0a, 0x5d6763d0, 0x29ed326a, 0x4c6ca8ef, 0xd7a4ec6f,
    0x479933fc, 0xda3eff13, 0x032d0446, 0x1c049b38, 0x584cdccf, 0xf481eeb3, 0x1da9a888, 0x2fa23089,
    0x1e25ac62, 0x49828cc6, 0xa623dc31, 0xf8275a77, 0x1ae91433, 0x08769b29, 0x38340190, 0x4b4e828a,
    0x6523628c, 0x91fa341f, 0x17faab59, 0x3f3198af, 0x862bf870, 0x7436e51e, 0x8b090317, 0xbab9268d,
    0x3704e154, 0xec7dd4ed, 0x3e3d4238, 0x02c81e9b, 0x0dfd4e40, 0x9dd62ef8, 0xc0a8f12a, 0x1ed6619b,
    0xa39442a5, 0x80cd6814, 0xac5a2037, 0xe4349b36, 0xc845ed31, 0x8934d9ea, 0x20b4a100, 0xa7fb4548,
    0x4ff1fa8c, 0x003e9422, 0x97ece30b, 0x986bc3d1, 0xd62eb660, 0xfb88b804, 0x4e1a0426, 0x0d8dbf67,
    0xbc26806e, 0x92df5dc3, 0xdfc36570, 0x0fa96a69, 0xb9693b7a, 0x03a636ba, 0x76efd7e1, 0x02887b72,
    0x1b2888be, 0xec975faf, 0x8b1997ed, 0xdd42d68d, 0xda07a74c, 0xc223fcd3, 0xcc33acd4, 0x212decba,
    0x7910287d, 0xea389d76, 0xd6014a3b, 0xe5502198, 0x5cbc3d65, 0xcf7670fe, 0xff6fc31c, 0xee11ca07,
    0xb8721901, 0xe7e38e9e, 0xdec48256, 0x4e8905c0, 0xb66e733c, 0x0c632679, 0xdf596614, 0xbb37ca88,
    0x7bea74c8, 0xb1cb648f, 0x35f51192, 0xb77dbd24, 0x19d1938f, 0x3c95a72e, 0xe88d6efc, 0xdf5b730c,
    0x655ffa6b, 0x6a7b1416, 0xd3117276, 0xbb3f8c54, 0x82cb6f98, 0xebe5fe73, 0x657ef1e1, 0xc4753001,
};

static uint32_t product(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;

    for (int i = 0; i < 32; i++) {
        sum ^= a & (0u - (b >> 31));
        b <<= 1;
        a = a >> 1 ^ (CRC32_POLYNOMIAL & (0u - (a & 1u)));
    }
    return sum;
}

uint32_t icrc_change_before(uint32_t difference, uint32_t octets)
{
    uint32_t steps = octets / 4u + 1u;

    difference = product(difference, near[steps % STEPS]);
    difference = product(difference, far[steps / STEPS % STEPS]);
    return bswap_32(difference); /* the register takes the first octet lowest */
}

enum icrc_match icrc_find_fragment_word(const void *packet, size_t len, uint32_t computed,
                                        uint32_t assumed, struct icrc_window window,
                                        uint32_t *found)
{
    const uint8_t *p = packet;
    uint32_t difference, word;
    uint16_t from_first;

    if (len < BTH_PACKET_MIN || len > BTH_PACKET_MAX || len % 4u)
        return ICRC_WRONG;
    difference = computed ^ icrc_get(p + len - BTH_ICRC_LEN);
    word = assumed ^
           icrc_change_before(difference, BEHIND_FRAGMENT_WORD + (uint32_t)len - BTH_ICRC_LEN);
    if (word & 0xFFFFu & ~ICRC_DF)
        return ICRC_WRONG;
    *found = word;
    from_first = (uint16_t)((word >> 16) - window.first);
    return from_first < window.count ? ICRC_INSIDE : ICRC_OUTSIDE;
}

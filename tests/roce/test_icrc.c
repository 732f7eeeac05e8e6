/* SPDX-License-Identifier: BSD-3-Clause */
/* ICRC: the sum itself, the vectors, what it covers, and the identification found from it. */
#include "tc.h"

#include "base/be.h"
#include "packets.h"
#include "providers/software/roce/codec/icrc.h"

/* Bit by bit, without preset and inversion. */
static uint32_t shift(uint32_t reg, uint8_t octet)
{
    reg ^= octet;
    for (int i = 0; i < 8; i++)
        reg = reg >> 1 ^ (reg & 1 ? 0xEDB88320u : 0);
    return reg;
}

static uint32_t bitwise(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    while (n--)
        crc = shift(crc, *p++);
    return ~crc;
}

START_TEST(crc32_by_library_by_table_and_bit_by_bit)
{
    struct tc_rng rng = tc_rng(1);
    uint8_t octets[1200];

    ck_assert_uint_eq(crc32_add(0, "123456789", 9), 0xCBF43926);
    ck_assert_uint_eq(crc32_add(7, NULL, 0), 7);
    ck_assert_uint_eq(crc32_add_by_table(7, NULL, 0), 7);
    tc_fill(&rng, octets, sizeof(octets));
    for (size_t n = 0; n < sizeof(octets) - 16; n++) {
        const uint8_t *p = octets + n % 16;
        uint32_t begun = (uint32_t)tc_rand(&rng), want = bitwise(begun, p, n);

        ck_assert_uint_eq(crc32_add(begun, p, n), want);
        ck_assert_uint_eq(crc32_add_by_table(begun, p, n), want);
        ck_assert_uint_eq(crc32_add(crc32_add(begun, p, n / 3), p + n / 3, n - n / 3), want);
    }
}
END_TEST

START_TEST(icrc_begins_behind_64_ones)
{
    uint8_t ones[8];

    memset(ones, 0xFF, sizeof(ones));
    ck_assert_uint_eq(bitwise(0, ones, 8), ICRC_ONES);
    ck_assert_uint_eq(~ICRC_ONES, 0xDEBB20E3);
}
END_TEST

static uint32_t icrc_of(const struct packet_vector *v)
{
    struct icrc_path path;

    packet_path(v, &path);
    ck_assert_int_eq(icrc_path_is_ipv4(&path), v->ip_len == ICRC_IPV4_LEN);
    return icrc_of_packet(&path, v->fragment_word, v->packet, v->len);
}

START_TEST(P040_every_vector)
{
    const struct packet_vectors *all = packet_vectors();
    unsigned ipv6 = 0;

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        uint8_t field[BTH_ICRC_LEN], want[BTH_ICRC_LEN];
        uint32_t crc = icrc_of(v);

        ck_assert(packet_octets(v, "icrc.wire", want, sizeof(want)));
        icrc_put(field, crc);
        ck_assert_msg(!memcmp(field, want, sizeof(field)), "%s", v->title);
        ck_assert_mem_eq(field, v->packet + v->len - BTH_ICRC_LEN, sizeof(field));
        ck_assert_uint_eq(icrc_get(field), crc);
        ipv6 += v->ip_len == ICRC_IPV6_LEN;
    }
    ck_assert_uint_ge(ipv6, 3);
}
END_TEST

/* Extension headers, payload and pad in portions. */
START_TEST(P040_in_any_portions)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        uint8_t *rest = v->packet + BTH_LEN;
        size_t n = v->len - BTH_LEN - BTH_ICRC_LEN;
        uint32_t pad = v->packet[1] >> 4 & 3, want = icrc_of(v), begun;
        struct icrc_path path;

        packet_path(v, &path);
        begun = icrc_begin(&path, v->fragment_word, (uint32_t)v->len + 8, v->packet);
        ck_assert_uint_eq(icrc_add_pad(icrc_add(begun, rest, n - pad), pad), want);
        for (size_t cut = 0; cut <= n; cut++) {
            struct iovec iov[] = { { rest, cut / 2 },
                                   { rest + cut / 2, cut - cut / 2 },
                                   { NULL, 0 },
                                   { rest + cut, n - cut } };

            ck_assert_uint_eq(icrc_add_iov(begun, iov, 4), want);
        }
        ck_assert_uint_eq(icrc_add_iov(begun, NULL, 0), begun);
    }
}
END_TEST

/* Every bit but those of octet 4 of the BTH; of the IP and UDP headers what a path has. */
START_TEST(P040_what_is_covered_and_what_is_not)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        bool ipv4 = v->ip_len == ICRC_IPV4_LEN;
        struct packet_vector changed = *v;
        uint32_t want = icrc_of(v);
        size_t addresses = ipv4 ? 12 : 8;

        for (size_t bit = 0; bit < 8 * (v->len - BTH_ICRC_LEN); bit += 1 + (bit > 400) * 7) {
            v->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ck_assert_int_eq(icrc_of(v) == want, bit / 8 == BTH_MASKED_OCTET);
            v->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (size_t bit = 8 * addresses; bit < 8 * v->ip_len; bit++) {
            v->ip[bit / 8] ^= (uint8_t)(1u << bit % 8);
            ck_assert_uint_ne(icrc_of(v), want);
            v->ip[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        for (int bit = 0; bit < 16; bit++) {
            changed.source_port = (uint16_t)(v->source_port ^ 1u << bit);
            ck_assert_uint_ne(icrc_of(&changed), want);
        }
        changed.source_port = v->source_port;
        for (int bit = 0; bit < 32; bit++) {
            changed.fragment_word = v->fragment_word ^ 1u << bit;
            ck_assert_int_eq(icrc_of(&changed) == want, !ipv4);
        }
    }
}
END_TEST

/* The datagrams written out in the fact sheet: headers as a router changes them. */
START_TEST(P040_masked_headers_octet_by_octet)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        uint8_t udp[8], bth[BTH_LEN], ip[40], ones[8];
        uint32_t crc;

        memset(ones, 0xFF, sizeof(ones));
        memcpy(ip, v->ip, v->ip_len);
        if (v->ip_len == 20) {
            ip[1] = ip[8] = ip[10] = ip[11] = 0xFF;
        } else {
            ip[0] |= 0x0F;
            ip[1] = ip[2] = ip[3] = ip[7] = 0xFF;
        }
        be_put16(udp, v->source_port);
        be_put16(udp + 2, 4791);
        be_put16(udp + 4, (uint16_t)(v->len + 8));
        udp[6] = udp[7] = 0xFF;
        memcpy(bth, v->packet, BTH_LEN);
        bth[4] = 0xFF;
        crc = bitwise(bitwise(bitwise(0, ones, 8), ip, v->ip_len), udp, 8);
        crc = bitwise(crc, bth, BTH_LEN);
        crc = bitwise(crc, v->packet + BTH_LEN, v->len - BTH_LEN - BTH_ICRC_LEN);
        ck_assert_uint_eq(crc, icrc_of(v));
    }
}
END_TEST

/* One word is changed, then zeros follow: each constant of the tables is used. */
START_TEST(P042_change_before_every_length)
{
    struct tc_rng rng = tc_rng(2);
    uint32_t word = (uint32_t)tc_rand(&rng), difference;
    uint8_t octets[4];

    be_put32(octets, word);
    difference = 0;
    for (int i = 0; i < 4; i++)
        difference = shift(difference, octets[i]);
    for (uint32_t behind = 0; behind <= 65524; behind += 4) {
        ck_assert_uint_eq(icrc_change_before(difference, behind), word);
        for (int i = 0; i < 4; i++)
            difference = shift(difference, 0);
    }
    ck_assert_uint_eq(icrc_change_before(0, 100), 0);
}
END_TEST

START_TEST(P042_P043_identifications_of_the_vectors)
{
    const struct packet_vectors *all = packet_vectors();

    ck_assert_uint_ge(all->n_ids, 12);
    for (size_t i = 0; i < all->n_ids; i++) {
        const struct id_vector *v = &all->ids[i];
        uint32_t flags = v->packet.fragment_word & 0xFFFF, found = 0, computed, change;
        struct packet_vector zero = v->packet;
        struct icrc_window window = { (uint16_t)v->id, 1 };
        uint8_t wire[BTH_ICRC_LEN];

        zero.fragment_word = flags;
        computed = icrc_of(&zero);
        icrc_put(wire, computed);
        ck_assert_uint_eq(be_get32(wire), v->icrc_with_id_0);
        ck_assert_uint_eq(computed ^ icrc_get(zero.packet + zero.len - BTH_ICRC_LEN), v->d);
        ck_assert_uint_eq(v->n, zero.len - BTH_ICRC_LEN + 22);
        /* t of the vectors, in front of the identification's two octets; here in front of four */
        change = icrc_change_before(v->d, v->n - 2);
        ck_assert_uint_eq(change, v->id << 16);
        ck_assert_uint_eq(v->t, (v->id & 255) << 24 | v->id >> 8 << 16);
        ck_assert_int_eq(
            icrc_find_fragment_word(zero.packet, zero.len, computed, flags, window, &found),
            ICRC_INSIDE);
        ck_assert_uint_eq(found, v->packet.fragment_word);
        ck_assert_uint_eq(found >> 16, v->id);
    }
}
END_TEST

/* A packet over a random IPv4 path. */
struct random_packet {
    struct icrc_path path;
    uint32_t len;
    uint8_t octets[600];
};

static void make_packet(struct tc_rng *rng, struct random_packet *r)
{
    uint8_t source[GID_LEN], destination[GID_LEN], addresses[8];

    tc_fill(rng, addresses, sizeof(addresses));
    gid_put_ipv4(source, addresses);
    gid_put_ipv4(destination, addresses + 4);
    icrc_path_init(&r->path, source, destination, (uint16_t)tc_rand(rng));
    r->len = BTH_PACKET_MIN + 4 * (uint32_t)tc_below(rng, 140);
    tc_fill(rng, r->octets, sizeof(r->octets));
}

static uint32_t sum_with(const struct random_packet *r, uint32_t word)
{
    return icrc_of_packet(&r->path, word, r->octets, r->len);
}

static void sign_with(struct random_packet *r, uint32_t word)
{
    icrc_put(r->octets + r->len - BTH_ICRC_LEN, sum_with(r, word));
}

/* All words without an offset and with no flag but DF: how many make the ICRC right. */
static unsigned brute_force(const struct random_packet *r, uint32_t *word)
{
    uint32_t wire = icrc_get(r->octets + r->len - BTH_ICRC_LEN);
    unsigned hits = 0;

    for (uint32_t id = 0; id < 0x10000; id++) {
        for (uint32_t flags = 0; flags <= ICRC_DF; flags += ICRC_DF) {
            if (sum_with(r, id << 16 | flags) != wire)
                continue;
            *word = id << 16 | flags;
            hits++;
        }
    }
    return hits;
}

START_TEST(P042_P043_found_as_by_brute_force)
{
    static const struct icrc_window every = { 0, 0x10000 };
    struct tc_rng rng = tc_rng(3);

    for (unsigned long i = 0; i < tc_count(20); i++) {
        uint32_t df = i % 4 ? ICRC_DF : 0, assumed = (uint32_t)tc_rand(&rng) & ~0xFFFFu;
        uint32_t sent = (uint32_t)tc_rand(&rng) << 16 | df, found = 0, by_force = 0;
        struct random_packet r;

        make_packet(&rng, &r);
        sign_with(&r, sent);
        ck_assert_uint_eq(brute_force(&r, &by_force), 1);
        ck_assert_uint_eq(by_force, sent);
        assumed |= i % 3 ? ICRC_DF : 0;
        ck_assert_int_eq(
            icrc_find_fragment_word(r.octets, r.len, sum_with(&r, assumed), assumed, every, &found),
            ICRC_INSIDE);
        ck_assert_uint_eq(found, sent);
    }
}
END_TEST

START_TEST(P040_P042_damaged_packets_as_by_brute_force)
{
    static const struct icrc_window every = { 0, 0x10000 };
    struct tc_rng rng = tc_rng(4);

    for (unsigned long i = 0; i < tc_count(20); i++) {
        uint32_t found = 0xDEAD, by_force = 0;
        struct random_packet r;
        enum icrc_match match;

        make_packet(&rng, &r);
        sign_with(&r, ICRC_DF);
        r.octets[tc_below(&rng, r.len)] ^= (uint8_t)(1 + tc_below(&rng, 255));
        match = icrc_find_fragment_word(r.octets, r.len, sum_with(&r, ICRC_DF), ICRC_DF, every,
                                        &found);
        ck_assert_int_eq(match == ICRC_INSIDE, brute_force(&r, &by_force) == 1);
        ck_assert_uint_eq(found, match == ICRC_INSIDE ? by_force : 0xDEAD);
    }
}
END_TEST

/* Packets with each flag and offset that must not occur. */
START_TEST(P004_fragments_are_not_found)
{
    struct tc_rng rng = tc_rng(5);
    struct random_packet r;

    make_packet(&rng, &r);
    for (uint32_t bit = 0; bit < 16; bit++) {
        struct icrc_window every = { 0, 0x10000 };
        uint32_t found = 7;

        sign_with(&r, 0x12340000u ^ 1u << bit);
        ck_assert_int_eq(
            icrc_find_fragment_word(r.octets, r.len, sum_with(&r, 0), 0, every, &found),
            bit == 14 ? ICRC_INSIDE : ICRC_WRONG);
        ck_assert_uint_eq(found, bit == 14 ? 0x12344000 : 7);
    }
}
END_TEST

static enum icrc_match find_in(struct random_packet *r, uint16_t id, uint16_t first, uint32_t count)
{
    struct icrc_window window = { first, count };
    uint32_t found = 0;
    enum icrc_match match;

    sign_with(r, ICRC_FRAGMENT_WORD(id));
    match = icrc_find_fragment_word(r->octets, r->len, sum_with(r, ICRC_DF), ICRC_DF, window,
                                    &found);
    ck_assert_uint_eq(found, (uint32_t)id << 16 | ICRC_DF);
    return match;
}

START_TEST(P042_window_of_expected_identifications)
{
    struct tc_rng rng = tc_rng(6);
    struct random_packet r;

    make_packet(&rng, &r);
    ck_assert_int_eq(find_in(&r, 100, 100, 1024), ICRC_INSIDE);
    ck_assert_int_eq(find_in(&r, 1123, 100, 1024), ICRC_INSIDE);
    ck_assert_int_eq(find_in(&r, 1124, 100, 1024), ICRC_OUTSIDE);
    ck_assert_int_eq(find_in(&r, 99, 100, 1024), ICRC_OUTSIDE);
    ck_assert_int_eq(find_in(&r, 0xFFFF, 0xFFF0, 1024), ICRC_INSIDE);
    ck_assert_int_eq(find_in(&r, 1007, 0xFFF0, 1024), ICRC_INSIDE);
    ck_assert_int_eq(find_in(&r, 1008, 0xFFF0, 1024), ICRC_OUTSIDE);
    ck_assert_int_eq(find_in(&r, 100, 100, 0), ICRC_OUTSIDE);
    ck_assert_int_eq(find_in(&r, 99, 100, 0x10000), ICRC_INSIDE);
}
END_TEST

START_TEST(P003_no_identification_of_what_is_no_packet)
{
    struct icrc_window every = { 0, 0x10000 };
    struct tc_rng rng = tc_rng(7);
    struct random_packet r;
    uint32_t found = 7;

    make_packet(&rng, &r);
    for (size_t len = 0; len < 40; len++) {
        /* A difference of 0 would be found wherever one is looked for. */
        uint32_t wire = len >= 4 ? icrc_get(r.octets + len - 4) : 0;

        ck_assert_int_eq(icrc_find_fragment_word(r.octets, len, wire, 0, every, &found),
                         len >= 16 && len % 4 == 0 ? ICRC_INSIDE : ICRC_WRONG);
    }
    ck_assert_int_eq(icrc_find_fragment_word(r.octets, 65508, 0, 0, every, &found), ICRC_WRONG);
    ck_assert_int_eq(icrc_find_fragment_word(r.octets, SIZE_MAX - 3, 0, 0, every, &found),
                     ICRC_WRONG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("icrc");
    TCase *t;

    tc_add_tests(tc_case(s, "sum", NULL, NULL), crc32_by_library_by_table_and_bit_by_bit,
                 icrc_begins_behind_64_ones);
    tc_add_tests(tc_case(s, "vectors", NULL, NULL), P040_every_vector, P040_in_any_portions,
                 P040_what_is_covered_and_what_is_not, P040_masked_headers_octet_by_octet,
                 P042_P043_identifications_of_the_vectors);
    t = tc_case(s, "identification", NULL, NULL);
    tc_add_tests(t, P042_change_before_every_length, P042_P043_found_as_by_brute_force,
                 P040_P042_damaged_packets_as_by_brute_force, P004_fragments_are_not_found,
                 P042_window_of_expected_identifications,
                 P003_no_identification_of_what_is_no_packet);
    return tc_main(s);
}

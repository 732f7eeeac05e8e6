/* SPDX-License-Identifier: BSD-3-Clause */
/* BTH and extension headers: the opcode table, the vectors, every refusal, arithmetic of fields. */
#include "tc.h"

#include "packets.h"
#include "providers/software/roce/codec/bth.h"
#include "providers/software/roce/codec/gid.h"

/*
 * The opcodes written a second time: opcode, octets of extension headers, payload (M: exactly the
 * MTU, S: 1 to MTU, A: 0 to MTU, -: none), place, and letters of the headers: d DETH, r RETH,
 * t AtomicETH, a AETH, k AtomicAckETH, i ImmDt, e IETH, c reserved octets.
 */
static const struct row {
    uint8_t opcode, extension;
    char payload, place;
    const char *headers;
} sheet[] = {
    { 0x00, 0, 'M', 'F', "" },    { 0x01, 0, 'M', 'M', "" },    { 0x02, 0, 'S', 'L', "" },
    { 0x03, 4, 'S', 'L', "i" },   { 0x04, 0, 'A', 'O', "" },    { 0x05, 4, 'A', 'O', "i" },
    { 0x06, 16, 'M', 'F', "r" },  { 0x07, 0, 'M', 'M', "" },    { 0x08, 0, 'S', 'L', "" },
    { 0x09, 4, 'S', 'L', "i" },   { 0x0A, 16, 'A', 'O', "r" },  { 0x0B, 20, 'A', 'O', "ri" },
    { 0x0C, 16, '-', 'O', "r" },  { 0x0D, 4, 'M', 'F', "a" },   { 0x0E, 0, 'M', 'M', "" },
    { 0x0F, 4, 'S', 'L', "a" },   { 0x10, 4, 'A', 'O', "a" },   { 0x11, 4, '-', 'O', "a" },
    { 0x12, 12, '-', 'O', "ak" }, { 0x13, 28, '-', 'O', "t" },  { 0x14, 28, '-', 'O', "t" },
    { 0x16, 4, 'S', 'L', "e" },   { 0x17, 4, 'A', 'O', "e" },   { 0x20, 0, 'M', 'F', "" },
    { 0x21, 0, 'M', 'M', "" },    { 0x22, 0, 'S', 'L', "" },    { 0x23, 4, 'S', 'L', "i" },
    { 0x24, 0, 'A', 'O', "" },    { 0x25, 4, 'A', 'O', "i" },   { 0x26, 16, 'M', 'F', "r" },
    { 0x27, 0, 'M', 'M', "" },    { 0x28, 0, 'S', 'L', "" },    { 0x29, 4, 'S', 'L', "i" },
    { 0x2A, 16, 'A', 'O', "r" },  { 0x2B, 20, 'A', 'O', "ri" }, { 0x64, 8, 'A', 'O', "d" },
    { 0x65, 12, 'A', 'O', "di" }, { 0x81, 16, '-', 'O', "c" },
};

static const struct row *row_of(uint8_t opcode)
{
    for (size_t i = 0; i < sizeof(sheet) / sizeof(sheet[0]); i++) {
        if (sheet[i].opcode == opcode)
            return &sheet[i];
    }
    return NULL;
}

static bool has(const struct row *row, char letter)
{
    return strchr(row->headers, letter);
}

START_TEST(P030_opcode_table)
{
    static const char letters[] = "drtakiec"; /* in the order of the bits */

    for (unsigned opcode = 0; opcode < BTH_OPCODES; opcode++) {
        const struct row *row = row_of((uint8_t)opcode);
        const struct bth_op *op = &bth_ops[opcode];

        ck_assert_msg(!op->name == !row, "opcode %02x", opcode);
        if (!row)
            continue;
        ck_assert_uint_eq(op->service, opcode & 0xE0);
        ck_assert_uint_eq(op->header_len, 12u + row->extension);
        ck_assert_uint_le(op->header_len, BTH_HEADERS_MAX);
        ck_assert_uint_eq(op->place, (unsigned)(strchr("FMLO", row->place) - "FMLO"));
        ck_assert_uint_eq(op->payload, (unsigned)(strchr("-MSA", row->payload) - "-MSA"));
        ck_assert_int_eq(bth_is_begin(op), row->place == 'F' || row->place == 'O');
        ck_assert_int_eq(bth_is_end(op), row->place == 'L' || row->place == 'O');
        ck_assert_int_eq(bth_is_response(op), opcode >= 0x0D && opcode <= 0x12);
        for (unsigned bit = 0; bit < 8; bit++)
            ck_assert_int_eq(op->headers >> bit & 1, has(row, letters[bit]));
    }
}
END_TEST

/* What bth_parse() has to say, written after the requirements. */
static enum bth_result expected(const uint8_t *p, size_t len)
{
    const struct row *row;
    uint8_t syndrome;
    size_t headers;

    if (len < 16)
        return BTH_ERR_SHORT;
    if (len > 65507)
        return BTH_ERR_LONG;
    if (len & 3)
        return BTH_ERR_UNALIGNED;
    if (p[1] & 0xF)
        return BTH_ERR_VERSION;
    row = row_of(p[0]);
    if (!row)
        return BTH_ERR_OPCODE;
    if (!p[5] && !p[6] && !p[7])
        return BTH_ERR_QPN;
    if ((p[2] & 0x7F) != 0x7F || p[3] != 0xFF)
        return BTH_ERR_P_KEY;
    headers = 12u + row->extension;
    if (len < headers + 4)
        return BTH_ERR_HEADERS;
    if (len - headers - 4 < (p[1] >> 4 & 3u))
        return BTH_ERR_PAD;
    syndrome = p[12];
    if (has(row, 'a')) {
        bool ack = syndrome < 0x20, rnr = syndrome >= 0x20 && syndrome < 0x40;
        bool nak = syndrome >= 0x60 && syndrome <= 0x63;

        if (!ack && (p[0] != 0x11 || (!rnr && !nak)))
            return BTH_ERR_SYNDROME;
    }
    return BTH_OK;
}

/* Over a copy of its exact size: a read behind its end shows under ASan. */
static enum bth_result parse_copy(const uint8_t *p, size_t len, struct bth_packet *packet)
{
    uint8_t *copy = malloc(len ? len : 1);
    enum bth_result result;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, p, len);
    result = bth_parse(copy, len, packet);
    if (result == BTH_OK) {
        ck_assert_ptr_eq(packet->payload, copy + packet->op->header_len);
        ck_assert_uint_eq(packet->op->header_len + packet->payload_len + packet->pad + 4, len);
        packet->payload = p + packet->op->header_len;
        ck_assert_uint_lt(packet->dest_qpn | packet->psn, 1u << 24);
        if (packet->op->headers & BTH_HAS_DETH)
            ck_assert_uint_lt(packet->src_qpn, 1u << 24);
        if (packet->op->headers & BTH_HAS_AETH)
            ck_assert_uint_lt(packet->msn, 1u << 24);
    }
    free(copy);
    return result;
}

static void same_field(const struct packet_vector *v, const char *path, uint64_t value)
{
    ck_assert_msg(packet_need(v, path) == value, "%s: %s is %llx, not %llx", v->title, path,
                  (unsigned long long)value, (unsigned long long)packet_need(v, path));
}

static void same_base(const struct packet_vector *v, const struct bth_packet *packet)
{
    same_field(v, "bth.opcode", packet->opcode);
    same_field(v, "bth.se", packet->solicited);
    same_field(v, "bth.mig", packet->mig_req);
    same_field(v, "bth.pad", packet->pad);
    same_field(v, "bth.p_key", packet->p_key);
    same_field(v, "bth.fecn", packet->fecn);
    same_field(v, "bth.becn", packet->becn);
    same_field(v, "bth.dest_qp", packet->dest_qpn);
    same_field(v, "bth.ack_req", packet->ack_req);
    same_field(v, "bth.psn", packet->psn);
}

static void same_extensions(const struct packet_vector *v, const struct bth_packet *packet)
{
    unsigned headers = packet->op->headers;

    if (headers & BTH_HAS_DETH) {
        same_field(v, "deth.q_key", packet->q_key);
        same_field(v, "deth.src_qp", packet->src_qpn);
    }
    if (headers & BTH_HAS_RETH) {
        same_field(v, "reth.va", packet->va);
        same_field(v, "reth.r_key", packet->r_key);
        same_field(v, "reth.dma_length", packet->dma_length);
    }
    if (headers & BTH_HAS_ATOMIC) {
        same_field(v, "atomic.va", packet->va);
        same_field(v, "atomic.r_key", packet->r_key);
        same_field(v, "atomic.swap_add", packet->swap_add);
        same_field(v, "atomic.compare", packet->compare);
    }
    if (headers & BTH_HAS_AETH) {
        same_field(v, "aeth.syndrome", packet->syndrome);
        same_field(v, "aeth.msn", packet->msn);
    }
    if (headers & BTH_HAS_ATOMIC_ACK)
        same_field(v, "atomicack.value", packet->original);
    if (headers & BTH_HAS_IMM)
        same_field(v, "immdt.value", packet->imm);
    if (headers & BTH_HAS_IETH)
        same_field(v, "ieth.value", packet->invalidate_key);
}

START_TEST(P002_P003_R053_U004_R090_R091_every_vector_parses)
{
    const struct packet_vectors *all = packet_vectors();

    ck_assert_uint_ge(all->n_packets, 118);
    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        struct bth_packet packet;
        uint32_t cnp = 0;

        ck_assert_int_eq(parse_copy(v->packet, v->len, &packet), BTH_OK);
        same_base(v, &packet);
        same_extensions(v, &packet);
        if (packet.op->kind == BTH_KIND_CNP)
            cnp = BTH_CNP_LEN; /* payload there, a header here */
        same_field(v, "payload_length", packet.payload_len + cnp);
        ck_assert_int_eq(bth_check(&packet, 1024), BTH_OK);
    }
}
END_TEST

START_TEST(P030_every_vector_encodes_to_its_octets)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        struct bth_packet packet;
        uint8_t out[BTH_HEADERS_MAX];
        uint32_t len;

        ck_assert_int_eq(bth_parse(v->packet, v->len, &packet), BTH_OK);
        packet.pad = 3; /* is computed */
        len = bth_put(out, &packet);
        ck_assert_uint_eq(len, packet.op->header_len);
        ck_assert_msg(!memcmp(out, v->packet, len), "%s", v->title);
        ck_assert_uint_eq(bth_packet_len(packet.op, packet.payload_len), v->len);
    }
}
END_TEST

START_TEST(P002_P003_vectors_cut_at_every_length)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        struct bth_packet packet;

        for (size_t len = 0; len <= v->len; len++)
            ck_assert_int_eq(parse_copy(v->packet, len, &packet), expected(v->packet, len));
    }
}
END_TEST

/* Reserved bits, ignored on receipt. */
static bool is_reserved(const struct row *row, unsigned octet, unsigned bit)
{
    if (octet == 4)
        return bit < 6;
    if (octet == 8)
        return bit < 7;
    return (has(row, 'd') && octet == 16) || (has(row, 'c') && octet >= 12);
}

static bool same_headers(const struct bth_packet *a, const struct bth_packet *b)
{
    uint8_t out_a[BTH_HEADERS_MAX], out_b[BTH_HEADERS_MAX];
    uint32_t len = bth_put(out_a, a);

    return len == bth_put(out_b, b) && !memcmp(out_a, out_b, len) &&
           a->payload_len == b->payload_len;
}

START_TEST(R017_R060_every_bit_of_the_headers_counts_or_is_reserved)
{
    const struct packet_vectors *all = packet_vectors();

    for (size_t i = 0; i < all->n_packets; i++) {
        const struct packet_vector *v = &all->packets[i];
        const struct row *row = row_of(v->packet[0]);
        struct bth_packet packet, flipped;

        ck_assert_int_eq(bth_parse(v->packet, v->len, &packet), BTH_OK);
        for (unsigned bit = 0; bit < 8 * (12u + row->extension); bit++) {
            enum bth_result result;

            v->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
            result = parse_copy(v->packet, v->len, &flipped);
            ck_assert_int_eq(result, expected(v->packet, v->len));
            if (is_reserved(row, bit / 8, bit % 8))
                ck_assert(result == BTH_OK && same_headers(&packet, &flipped));
            else
                ck_assert_msg(result != BTH_OK || !same_headers(&packet, &flipped),
                              "%s: bit %u of octet %u", v->title, bit % 8, bit / 8);
            v->packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}
END_TEST

/* Every opcode with every octet 1 and length: the order of the checks. */
START_TEST(P020_P025_R060_refusals_and_their_order)
{
    static const uint32_t qpns[] = { 0, 1, 0x10000, 0xFFFFFF };
    static const uint16_t p_keys[] = { 0xFFFF, 0x7FFF, 0xFFFE, 0x8000, 0 };
    struct tc_rng rng = tc_rng(1);
    unsigned seen[BTH_RESULTS] = { 0 };
    struct bth_packet packet;
    uint8_t p[72];

    tc_fill(&rng, p, sizeof(p));
    for (unsigned head = 0; head < 0x10000; head++) {
        be_put16(p, (uint16_t)head);
        be_put16(p + 2, p_keys[tc_below(&rng, 8) % 5]);
        be_put32(p + 4, (uint32_t)tc_rand(&rng) << 24 | qpns[tc_below(&rng, 4)]);
        p[12] = (uint8_t)tc_rand(&rng);
        for (size_t len = 0; len <= sizeof(p); len += head % 7 ? 4 : 1) {
            enum bth_result result = bth_parse(p, len, &packet);

            if (result != expected(p, len)) /* Check keeps the place of each assertion in a file */
                ck_abort_msg("head %04x, %zu octets: %d, not %d", head, len, result,
                             expected(p, len));
            seen[result]++;
        }
    }
    for (int result = BTH_OK; result <= BTH_ERR_SYNDROME; result++)
        ck_assert_msg(seen[result] || result == BTH_ERR_LONG, "result %d", result);
}
END_TEST

START_TEST(P002_no_more_than_a_datagram)
{
    uint8_t *p = calloc(1, 65540);
    struct bth_packet packet;

    ck_assert_ptr_nonnull(p);
    bth_put_base(p, BTH_RC | BTH_SEND_ONLY, 0, 17, 0);
    ck_assert_int_eq(bth_parse(p, 65504, &packet), BTH_OK);
    ck_assert_uint_eq(packet.payload_len, 65504 - 16);
    ck_assert_int_eq(bth_parse(p, 65507, &packet), BTH_ERR_UNALIGNED);
    ck_assert_int_eq(bth_parse(p, 65508, &packet), BTH_ERR_LONG);
    ck_assert_int_eq(bth_parse(p, SIZE_MAX, &packet), BTH_ERR_LONG);
    free(p);
}
END_TEST

static void fill_extensions(struct tc_rng *rng, struct bth_packet *packet, unsigned headers)
{
    if (headers & BTH_HAS_DETH) {
        packet->q_key = (uint32_t)tc_rand(rng);
        packet->src_qpn = (uint32_t)tc_below(rng, 1 << 24);
    }
    if (headers & (BTH_HAS_RETH | BTH_HAS_ATOMIC)) {
        packet->va = tc_rand(rng);
        packet->r_key = (uint32_t)tc_rand(rng);
    }
    if (headers & BTH_HAS_RETH)
        packet->dma_length = (uint32_t)tc_rand(rng);
    if (headers & BTH_HAS_ATOMIC) {
        packet->swap_add = tc_rand(rng);
        packet->compare = tc_rand(rng);
    }
    if (headers & BTH_HAS_AETH) {
        packet->syndrome = (uint8_t)tc_below(rng, 0x20);
        packet->msn = (uint32_t)tc_below(rng, 1 << 24);
    }
    if (headers & BTH_HAS_ATOMIC_ACK)
        packet->original = tc_rand(rng);
    if (headers & BTH_HAS_IMM)
        packet->imm = (uint32_t)tc_rand(rng);
    if (headers & BTH_HAS_IETH)
        packet->invalidate_key = (uint32_t)tc_rand(rng);
}

START_TEST(random_round_trips)
{
    struct tc_rng rng = tc_rng(2);

    for (unsigned long i = 0; i < tc_count(20000); i++) {
        const struct row *row = &sheet[tc_below(&rng, sizeof(sheet) / sizeof(sheet[0]))];
        struct bth_packet packet, again;
        uint8_t octets[1 + BTH_HEADERS_MAX + 8 + BTH_ICRC_LEN] = { 0 };
        uint8_t *p = octets + i % 2; /* odd addresses, too */
        uint32_t len;

        memset(&packet, 0, sizeof(packet));
        memset(&again, 0, sizeof(again));
        packet.opcode = row->opcode;
        packet.op = &bth_ops[row->opcode];
        packet.solicited = tc_below(&rng, 2);
        packet.mig_req = tc_below(&rng, 2);
        packet.fecn = tc_below(&rng, 2);
        packet.becn = tc_below(&rng, 2);
        packet.ack_req = tc_below(&rng, 2);
        packet.p_key = tc_below(&rng, 2) ? 0xFFFF : 0x7FFF;
        packet.dest_qpn = 1 + (uint32_t)tc_below(&rng, 0xFFFFFF);
        packet.psn = (uint32_t)tc_below(&rng, 1 << 24);
        packet.payload_len = (uint32_t)tc_below(&rng, 9);
        packet.pad = (uint8_t)(-packet.payload_len & 3);
        fill_extensions(&rng, &packet, packet.op->headers);
        len = bth_put(p, &packet);
        packet.payload = p + len;
        len += packet.payload_len + packet.pad + BTH_ICRC_LEN;
        ck_assert_uint_eq(len, bth_packet_len(packet.op, packet.payload_len));
        ck_assert_int_eq(bth_parse(p, len, &again), BTH_OK);
        ck_assert_mem_eq(&packet, &again, sizeof(packet));
    }
}
END_TEST

START_TEST(P030_encode_cuts_off_what_has_no_room)
{
    struct bth_packet packet = { .opcode = BTH_UD | BTH_SEND_ONLY, .p_key = BTH_P_KEY };
    uint8_t out[BTH_HEADERS_MAX];

    packet.dest_qpn = packet.src_qpn = 0xFF000011;
    packet.psn = 0x80000022;
    ck_assert_uint_eq(bth_put(out, &packet), 20);
    ck_assert_mem_eq(out, "\x64\0\xFF\xFF\0\0\0\x11\0\0\0\x22\0\0\0\0\0\0\0\x11", 20);

    packet.opcode = BTH_RC | BTH_ACKNOWLEDGE;
    packet.syndrome = 0x1F;
    packet.msn = 0xFF000033;
    ck_assert_uint_eq(bth_put(out, &packet), 16);
    ck_assert_mem_eq(out + 12, "\x1F\0\0\x33", 4);

    packet.opcode = 0x15;
    ck_assert_uint_eq(bth_put(out, &packet), 0);
}
END_TEST

/* The fast writers and the general one write the same. */
START_TEST(fast_writers)
{
    struct bth_packet packet = { .opcode = BTH_RC | BTH_WRITE_ONLY, .p_key = BTH_P_KEY };
    uint8_t fast[BTH_HEADERS_MAX], general[BTH_HEADERS_MAX];

    packet.solicited = packet.mig_req = packet.ack_req = true;
    packet.payload_len = 5;
    packet.dest_qpn = 0x123456;
    packet.psn = 0xFEDCBA;
    packet.va = UINT64_C(0x1122334455667788);
    packet.r_key = 0xA1B2C3D4;
    packet.dma_length = 5;
    bth_put_base(fast, packet.opcode, BTH_SE | BTH_M | bth_pad(5) << 4, packet.dest_qpn,
                 BTH_WORD_ACK | 0x7F000000 | packet.psn); /* the other bits are cut off */
    bth_put_reth(fast + BTH_LEN, packet.va, packet.r_key, packet.dma_length);
    ck_assert_uint_eq(bth_put(general, &packet), BTH_LEN + BTH_RETH_LEN);
    ck_assert_mem_eq(fast, general, BTH_LEN + BTH_RETH_LEN);
}
END_TEST

static enum bth_result check_of(uint8_t opcode, uint32_t payload_len, uint32_t dma_length,
                                uint32_t mtu)
{
    struct bth_packet packet = { .opcode = opcode, .op = &bth_ops[opcode] };

    packet.payload_len = payload_len;
    packet.dma_length = dma_length;
    return bth_check(&packet, mtu);
}

START_TEST(R053_U001_payload_by_opcode_and_mtu)
{
    for (uint32_t code = 1; code <= 5; code++) {
        uint32_t mtu = bth_mtu_octets(code);
        const uint32_t lengths[] = { 0, 1, mtu / 2, mtu - 1, mtu, mtu + 1, 2 * mtu, 65000 };

        for (size_t i = 0; i < sizeof(sheet) / sizeof(sheet[0]); i++) {
            const struct row *row = &sheet[i];

            for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
                uint32_t len = lengths[k], dma = row->place == 'F' ? 2 * mtu : len;
                bool ok = row->payload == '-'   ? len == 0
                          : row->payload == 'M' ? len == mtu
                          : row->payload == 'S' ? len >= 1 && len <= mtu
                                                : len <= mtu;

                ck_assert_int_eq(check_of(row->opcode, len, dma, mtu),
                                 ok ? BTH_OK : BTH_ERR_PAYLOAD);
            }
        }
    }
}
END_TEST

START_TEST(R003_R053_P032_dma_length)
{
    static const uint8_t services[] = { BTH_RC, BTH_UC };

    for (int i = 0; i < 2; i++) {
        uint8_t first = services[i] | BTH_WRITE_FIRST, only = services[i] | BTH_WRITE_ONLY;
        uint8_t imm = services[i] | BTH_WRITE_ONLY_IMM;

        ck_assert_int_eq(check_of(first, 256, 257, 256), BTH_OK);
        ck_assert_int_eq(check_of(first, 256, 1u << 31, 256), BTH_OK);
        ck_assert_int_eq(check_of(first, 256, (1u << 31) + 1, 256), BTH_ERR_MESSAGE);
        ck_assert_int_eq(check_of(first, 256, 256, 256), BTH_ERR_DMA_LENGTH);
        ck_assert_int_eq(check_of(first, 256, 0, 256), BTH_ERR_DMA_LENGTH);
        ck_assert_int_eq(check_of(only, 5, 5, 256), BTH_OK);
        ck_assert_int_eq(check_of(only, 0, 0, 256), BTH_OK);
        ck_assert_int_eq(check_of(only, 5, 4, 256), BTH_ERR_DMA_LENGTH);
        ck_assert_int_eq(check_of(imm, 5, 6, 256), BTH_ERR_DMA_LENGTH);
        ck_assert_int_eq(check_of(imm, 5, UINT32_MAX, 256), BTH_ERR_MESSAGE);
    }
    ck_assert_int_eq(check_of(BTH_READ_REQUEST, 0, 0, 256), BTH_OK);
    ck_assert_int_eq(check_of(BTH_READ_REQUEST, 0, 1u << 31, 256), BTH_OK);
    ck_assert_int_eq(check_of(BTH_READ_REQUEST, 0, (1u << 31) + 1, 256), BTH_ERR_MESSAGE);
}
END_TEST

START_TEST(R055_atomics_are_aligned)
{
    static const uint8_t opcodes[] = { BTH_COMPARE_SWAP, BTH_FETCH_ADD };

    for (int i = 0; i < 2; i++) {
        for (uint64_t va = 0; va < 16; va++) {
            struct bth_packet packet = { .opcode = opcodes[i], .op = &bth_ops[opcodes[i]] };

            packet.va = UINT64_C(0xFFFFFFFFFFFFFFF0) + va;
            ck_assert_int_eq(bth_check(&packet, 256), va % 8 ? BTH_ERR_ADDRESS : BTH_OK);
        }
    }
}
END_TEST

START_TEST(P021_R065_psn_distance)
{
    ck_assert_int_eq(bth_psn_diff(5, 5), 0);
    ck_assert_int_eq(bth_psn_diff(0, 0xFFFFFF), 1);
    ck_assert_int_eq(bth_psn_diff(0xFFFFFF, 0), -1);
    ck_assert_int_eq(bth_psn_diff(0x8000FF, 0x100), 0x7FFFFF);
    ck_assert_int_eq(bth_psn_diff(0x800100, 0x100), -0x800000);
    ck_assert_int_eq(bth_psn_diff(0xFF000005, 5), 0);
    ck_assert_uint_eq(bth_psn_add(0xFFFFFF, 1), 0);
    ck_assert_uint_eq(bth_psn_add(2, 0xFFFFFFFF), 1);
}
END_TEST

START_TEST(P022_R001_R002_packets_of_a_message)
{
    ck_assert_uint_eq(bth_packets(0, 256), 1);
    ck_assert_uint_eq(bth_packets(1, 256), 1);
    ck_assert_uint_eq(bth_packets(256, 256), 1);
    ck_assert_uint_eq(bth_packets(257, 256), 2);
    ck_assert_uint_eq(bth_packets(BTH_MESSAGE_MAX, 256), 1u << 23);
    ck_assert_uint_eq(bth_packets(UINT32_MAX, 4096), 1u << 20);
}
END_TEST

START_TEST(P024_path_mtu)
{
    static const uint32_t octets[] = { 0, 256, 512, 1024, 2048, 4096, 0, 0 };

    for (uint32_t code = 0; code < 8; code++)
        ck_assert_uint_eq(bth_mtu_octets(code), octets[code]);
    ck_assert_uint_eq(bth_mtu_octets(UINT32_MAX), 0);
    ck_assert_uint_eq(bth_mtu_code(0), 0);
    ck_assert_uint_eq(bth_mtu_code(335), 0);
    ck_assert_uint_eq(bth_mtu_code(336), 1);
    ck_assert_uint_eq(bth_mtu_code(1500), 3);
    ck_assert_uint_eq(bth_mtu_code(4175), 4);
    ck_assert_uint_eq(bth_mtu_code(4176), 5);
    ck_assert_uint_eq(bth_mtu_code(UINT32_MAX), 5);
}
END_TEST

START_TEST(P025_p_keys)
{
    ck_assert(bth_p_key_match(0xFFFF, 0xFFFF));
    ck_assert(bth_p_key_match(0xFFFF, 0x7FFF));
    ck_assert(bth_p_key_match(0x7FFF, 0xFFFF));
    ck_assert(!bth_p_key_match(0x7FFF, 0x7FFF));
    ck_assert(!bth_p_key_match(0xFFFF, 0xFFFE));
}
END_TEST

START_TEST(R017_R024_R030_syndromes)
{
    for (unsigned s = 0; s < 256; s++) {
        ck_assert_int_eq(aeth_is_ack((uint8_t)s), s < 0x20);
        ck_assert_int_eq(aeth_is_rnr_nak((uint8_t)s), s >= 0x20 && s < 0x40);
        ck_assert_int_eq(aeth_is_known((uint8_t)s), s < 0x40 || (s >= 0x60 && s <= 0x63));
    }
    ck_assert_uint_eq(aeth_rnr_timer_us(0), 655360);
    ck_assert_uint_eq(aeth_rnr_timer_us(1), 10);
    ck_assert_uint_eq(aeth_rnr_timer_us(AETH_RNR_NAK | 14), 1280);
    ck_assert_uint_eq(aeth_rnr_timer_us(31), 491520);
    for (uint8_t t = 2; t < 32; t++) /* each is 4/3 to 2 times the one before */
        ck_assert(aeth_rnr_timer_us(t) > aeth_rnr_timer_us(t - 1) &&
                  aeth_rnr_timer_us(t) <= 2 * aeth_rnr_timer_us(t - 1));
}
END_TEST

START_TEST(P010_U041_gids)
{
    uint8_t gid[GID_LEN] = { 0 };

    ck_assert(!gid_is_ipv4(gid));
    gid_put_ipv4(gid, (const uint8_t[]){ 10, 7, 0, 2 });
    ck_assert_mem_eq(gid, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\x0A\7\0\2", GID_LEN);
    ck_assert(gid_is_ipv4(gid) && !gid_is_multicast(gid));
    gid_put_ipv4(gid, (const uint8_t[]){ 239, 1, 2, 3 });
    ck_assert(gid_is_multicast(gid));
    gid[0] = 0xFF;
    ck_assert(!gid_is_ipv4(gid) && gid_is_multicast(gid));
    gid[0] = 0xFE;
    ck_assert(!gid_is_ipv4(gid) && !gid_is_multicast(gid));
}
END_TEST

START_TEST(P050_source_ports)
{
    /* Label 337354: that of rdma_cm's ports 44476 and 7174. */
    ck_assert_uint_eq(gid_source_port(337354, 0, 0), 0xC000 | ((337354 & 0x3FFF) ^ 337354 >> 14));
    ck_assert_uint_eq(gid_source_port(337354, 1, 2), gid_source_port(337354, 3, 4));
    ck_assert_uint_eq(gid_source_port(0, 17, 17), 0xC000 | 289);
    ck_assert_uint_eq(gid_source_port(0, 0, 0), 0xC000);
    /* FFFFFF squared is FFFFFE000001; xor >> 20 is FFFFF1FFFFE1; xor >> 40 has its low 20 bits
     * FFF1E. */
    ck_assert_uint_eq(gid_source_port(0, 0xFFFFFF, 0xFFFFFF), 0xC000 | (0x3F1E ^ 0x3F));
    ck_assert_uint_eq(gid_source_port(0xFFF00000, 17, 17), gid_source_port(0, 17, 17));
}
END_TEST

START_TEST(results_have_names)
{
    for (int result = 0; result < BTH_RESULTS; result++) {
        const char *requirement = bth_result_requirement(result);

        ck_assert(*bth_result_text(result));
        ck_assert_int_eq(!*requirement, result == BTH_OK);
        if (result != BTH_OK)
            ck_assert_msg(strlen(requirement) == 5 && strchr("PR", requirement[0]), "%d", result);
    }
    ck_assert_str_eq(bth_result_text(BTH_RESULTS), "unknown result");
    ck_assert_str_eq(bth_result_requirement(BTH_RESULTS), "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bth");

    tc_add_tests(tc_case(s, "vectors", NULL, NULL),
                 P002_P003_R053_U004_R090_R091_every_vector_parses,
                 P030_every_vector_encodes_to_its_octets, P002_P003_vectors_cut_at_every_length,
                 R017_R060_every_bit_of_the_headers_counts_or_is_reserved);
    tc_add_tests(tc_case(s, "headers", NULL, NULL), P030_opcode_table,
                 P020_P025_R060_refusals_and_their_order, P002_no_more_than_a_datagram,
                 random_round_trips, P030_encode_cuts_off_what_has_no_room, fast_writers,
                 R053_U001_payload_by_opcode_and_mtu, R003_R053_P032_dma_length,
                 R055_atomics_are_aligned, results_have_names);
    tc_add_tests(tc_case(s, "fields", NULL, NULL), P021_R065_psn_distance,
                 P022_R001_R002_packets_of_a_message, P024_path_mtu, P025_p_keys,
                 R017_R024_R030_syndromes, P010_U041_gids, P050_source_ports);
    return tc_main(s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 4, MPA: the stream of octets, FPDUs and their CRC, PAD and length (C-047, C-048,
 * C-050 to C-052, C-055 to C-057). */
#include "peer.h"

static const struct connection no_crc = { .no_crc = true };
static uint8_t frame[FPDU_ROOM], ulpdu[ULPDU_MAX + 1];

/* ---- one stream, split in many ways ---- */

#define STORY_READ 9u

/* Write, Send of two segments with a Write in between, zero-length Send, Read Request: every form
 * of header. The PADs are 1, 3, 2, 0. Returns the octets; ends[] holds the FPDU boundaries. */
static size_t story(uint8_t *out, size_t *ends)
{
    uint32_t stag = env_stag(ENV_W);
    uint64_t base = wire.base[ENV_W];
    size_t used = 0;
    int n = 0;

    used += peer_frame(out, ulpdu, put_write(ulpdu, true, stag, base, "write", 5));
    ends[n++] = used;
    used += peer_frame(out + used, ulpdu, put_send(ulpdu, false, 1, 0, "abcde", 5));
    ends[n++] = used;
    used += peer_frame(out + used, ulpdu, put_write(ulpdu, true, stag, base + 8, "between", 7));
    ends[n++] = used;
    used += peer_frame(out + used, ulpdu, put_send(ulpdu, true, 1, 5, "fgh", 3));
    ends[n++] = used;
    used += peer_frame(out + used, ulpdu, put_send(ulpdu, true, 2, 0, NULL, 0));
    ends[n++] = used;
    used += peer_frame(out + used, ulpdu,
                       put_read(ulpdu, 1, 5, 6, STORY_READ, env_stag(ENV_R), wire.base[ENV_R]));
    ends[n++] = used;
    return used;
}

static void story_happened(void)
{
    uint8_t data[STORY_READ];

    memset(data, PATTERN, sizeof(data));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_SUCCESS, 0);
    wire_expect(true, OP_RESPONSE, STORY_READ);
    ck_assert(!memcmp(wire.seen.payload, data, STORY_READ));
    ck_assert(env_is(ENV_W, 0,
                     "write\xa5\xa5\xa5"
                     "between",
                     15));
    ck_assert(env_is(ENV_RECV, 0, "abcdefgh\xa5", 9));
    ck_assert(wire_alive());
}

/* The result is the same for a split in two at every place. */
START_TEST(C047_split_in_two_anywhere)
{
    size_t ends[6], length, cut = 0;
    uint8_t octets[1024];

    do {
        wire_open(_i ? &no_crc : NULL);
        length = story(octets, ends);
        cut++;
        peer_octets(octets, cut);
        wire_pass(2);
        peer_octets(octets + cut, length - cut);
        story_happened();
    } while (cut < length - 1);
}
END_TEST

START_TEST(C047_single_octets)
{
    uint8_t octets[1024];
    size_t ends[6];

    wire_open(_i ? &no_crc : NULL);
    peer_single(octets, story(octets, ends));
    story_happened();
    wire_goes_on(3, 2, 3);
}
END_TEST

START_TEST(C047_several_in_one_segment)
{
    uint8_t octets[1024];
    size_t ends[6];

    wire_open(_i ? &no_crc : NULL);
    peer_octets(octets, story(octets, ends));
    story_happened();
}
END_TEST

START_TEST(C047_random_pieces)
{
    struct tc_rng rng = tc_rng(47);
    size_t ends[6], length, at;
    uint8_t octets[1024];

    for (unsigned long round = tc_count(40); round; round--) {
        wire_open(NULL);
        length = story(octets, ends);
        for (at = 0; at < length;) {
            size_t part = 1 + tc_below(&rng, length - at < 60 ? length - at : 60);

            peer_octets(octets + at, part);
            wire_pass((int)tc_below(&rng, 3));
            at += part;
        }
        story_happened();
    }
}
END_TEST

/* The first FPDU too may come in any parts, from its first octet on (passive, before any other
 * input). */
START_TEST(C047_first_fpdu_in_single_octets)
{
    const struct connection fresh = { .fresh = true };
    uint8_t octets[1024];
    size_t ends[6], length;

    wire_open(&fresh);
    length = story(octets, ends);
    for (size_t i = 0; i < ends[0] - 1; i++) {
        peer_single(octets + i, 1);
        ck_assert(side_query(wire.side).holding);
    }
    peer_single(octets + ends[0] - 1, 1);
    ck_assert(!side_query(wire.side).holding);
    peer_octets(octets + ends[0], length - ends[0]);
    story_happened();
}
END_TEST

/* ---- lengths ---- */

static const uint32_t lengths[] = { 14,    15,    16,    17,    64767, 64768,
                                    64769, 65474, 65532, 65533, 65534, 65535 };

/* Writes of each length, and each length between small ones. */
START_TEST(C048_any_length)
{
    uint32_t length = lengths[_i], payload = length - TAGGED_LEN;
    struct tc_rng rng = tc_rng(48);
    struct region big;
    uint8_t *data = malloc(ULPDU_MAX);

    wire_open(NULL);
    big = region_new(wire.side, 70000, TESTBED_ALL);
    tc_fill(&rng, data, ULPDU_MAX);
    for (int round = 0; round < 3; round++) {
        memset(big.octets, 0, 70000);
        put_write(ulpdu, true, big.keys.rkey, (uintptr_t)big.octets + 1, data, payload);
        peer_ulpdu(ulpdu, length);
        wire_goes_on((uint32_t)round + 1, (uint32_t)round + 1, (uint64_t)round + 1);
        ck_assert(big.octets[0] == 0 && !memcmp(big.octets + 1, data, payload) &&
                  big.octets[1 + payload] == 0);
    }
    free(data);
}
END_TEST

START_TEST(C048_longest_send)
{
    uint32_t payload = ULPDU_MAX - UNTAGGED_LEN;
    struct tc_rng rng = tc_rng(49);
    const struct connection bare = { .no_receives = true };
    struct region big;
    uint8_t *data = malloc(ULPDU_MAX);

    wire_open(&bare);
    big = region_new(wire.side, 70000, TESTBED_ALL);
    tc_fill(&rng, data, ULPDU_MAX);
    side_receive(wire.side, 1, region_sge(&big, 0, payload));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, data, payload));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, payload);
    ck_assert(!memcmp(big.octets, data, payload) && big.octets[payload] == 0);
    ck_assert(wire_alive());
    free(data);
}
END_TEST

/* Without room for the control octets no header can be parsed, so none comes back. The CRC is
 * correct, so the length is the error. */
START_TEST(C055_X026_too_short)
{
    const uint8_t octets[2] = { C_LAST | C_DV, C_RV | OP_SEND };

    wire_open(_i < 2 ? NULL : &no_crc);
    wire_refused(octets, (uint32_t)_i % 2, 0x1000, RI_EVENT_INTEGRITY);
    wire_flushed(1);
}
END_TEST

/* Two octets suffice for the next row's check. */
START_TEST(C055_two_octets_are_judged)
{
    const uint8_t untagged[2] = { C_LAST | 2, C_RV | OP_SEND }, tagged[2] = { C_TAGGED | 2, C_RV };

    wire_open(NULL);
    wire_refused(_i ? tagged : untagged, 2, _i ? 0x1104 : 0x1206, RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
}
END_TEST

/* ---- CRC ---- */

/* One wrong bit anywhere in the octets that the CRC covers, or in the CRC itself: nothing of the
 * FPDU reaches memory. The length stays correct, because a wrong one moves the CRC (next test). */
START_TEST(C050_C056_X027_one_wrong_bit)
{
    size_t length, at = 2;
    unsigned int bit = 0;

    do {
        wire_open(NULL);
        if (_i)
            put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "data!", 5);
        else
            put_send(ulpdu, true, 1, 0, "data!", 5);
        length = peer_frame(frame, ulpdu, (_i ? TAGGED_LEN : UNTAGGED_LEN) + 5);
        frame[at] ^= (uint8_t)(1u << bit++ % 8);
        wire_refused_octets(frame, length, 0x2002, RI_EVENT_INTEGRITY, NULL, 0);
        wire_flushed(1);
    } while (++at < length);
}
END_TEST

/* With the wrong length other octets are the CRC; enough octets follow. */
START_TEST(C050_wrong_length)
{
    size_t length;

    wire_open(NULL);
    put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], NULL, 0);
    memset(ulpdu + TAGGED_LEN, 'x', 300);
    length = peer_frame(frame, ulpdu, TAGGED_LEN + 300);
    put16(frame, (uint32_t[]){ 0, 1, 13, TAGGED_LEN, TAGGED_LEN + 299, TAGGED_LEN + 301 }[_i]);
    wire_refused_octets(frame, length, 0x2002, RI_EVENT_INTEGRITY, NULL, 0);
    wire_flushed(1);
}
END_TEST

/* A CRC with the most significant octet first; the complement; none at all; a CRC without the
 * length field. */
START_TEST(C050_crc_of_another_kind)
{
    uint32_t crc;
    size_t length;
    uint8_t *field;

    wire_open(NULL);
    length = peer_frame(frame, ulpdu, put_send(ulpdu, true, 1, 0, "abcd", 4));
    field = frame + length - 4;
    crc = octets_crc(0, frame, length - 4);
    switch (_i) {
    case 0: put32(field, crc); break;
    case 1: put32(field, ~__builtin_bswap32(crc)); break;
    case 2: put32(field, 0); break;
    default: put32(field, __builtin_bswap32(octets_crc(0, frame + 2, length - 6)));
    }
    wire_refused_octets(frame, length, 0x2002, RI_EVENT_INTEGRITY, NULL, 0);
    wire_flushed(1);
}
END_TEST

/* After the error nothing is delivered, even if it comes long after the Terminate, while the peer
 * does not read. */
START_TEST(C056_X027_nothing_is_passed_up)
{
    wire_open(NULL);
    peer_frame(frame, ulpdu, put_send(ulpdu, true, 1, 0, "abcd", 4));
    frame[20] ^= 1;
    peer_octets(frame, 28);
    side_expect_event(wire.side, RI_EVENT_INTEGRITY, 0x2002);
    for (uint32_t i = 0; i < 100; i++) {
        peer_ulpdu(ulpdu, put_send(ulpdu, true, 1 + i, 0, "abcd", 4));
        peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "abcd", 4));
        wire_pass(1);
    }
    wire_flushed(1);
    ck_assert(env_untouched());
    wire_terminate(0x2002, NULL, 0);
}
END_TEST

/* CRC not in use: any value is accepted, and the QP sends a field of four octets (wire_next counts
 * them). */
START_TEST(C051_crc_not_in_use)
{
    const uint32_t fields[] = { 0, 1, 0xffffffff, 0x12345678 };

    wire_open(&no_crc);
    for (uint32_t i = 0; i < 4; i++) {
        wire.peer.crc_xor = fields[i];
        wire_goes_on(i + 1, i + 1, i + 1);
    }
    wire.peer.crc_xor = 0;
}
END_TEST

START_TEST(C052_pad_is_not_looked_at)
{
    const struct connection *connection = _i % 2 ? &no_crc : NULL;

    wire_open(connection);
    wire.peer.pad = _i < 2 ? 0xff : 0x01;
    for (uint32_t payload = 1; payload <= 4; payload++) { /* 3, 2, 1, 0 octets of PAD */
        peer_ulpdu(ulpdu, put_send(ulpdu, true, payload, 0, "12345", payload + 1));
        side_expect(wire.side, wire.side->recv_cq, payload, RI_WC_SUCCESS, payload + 1);
        ck_assert(env_is(ENV_RECV, (payload - 1) * RECEIVE_LEN, "12345", payload + 1));
        ck_assert_uint_eq(wire.env[ENV_RECV].octets[(payload - 1) * RECEIVE_LEN + payload + 1],
                          PATTERN);
    }
    ck_assert(wire_alive());
}
END_TEST

/* ---- the end of the stream at any octet ---- */

static bool is_end(const size_t *ends, size_t at)
{
    bool found = at == 0;

    for (int i = 0; i < 6; i++)
        found |= ends[i] == at;
    return found;
}

/* Complete FPDUs were accepted, nothing of the partial one. */
static void story_up_to(const size_t *ends, size_t cut)
{
    struct ri_cq *cq = wire.side->recv_cq;

    ck_assert_int_eq(env_is(ENV_W, 0, "write", 5), cut >= ends[0]);
    ck_assert_int_eq(wire.env[ENV_W].octets[0] == PATTERN, cut < ends[0]);
    ck_assert_int_eq(env_is(ENV_RECV, 0, "abcde", 5), cut >= ends[1]);
    ck_assert_int_eq(env_is(ENV_W, 8, "between", 7), cut >= ends[2]);
    ck_assert_int_eq(env_is(ENV_RECV, 5, "fgh", 3), cut >= ends[3]);
    side_expect(wire.side, cq, 1, cut >= ends[3] ? RI_WC_SUCCESS : RI_WC_FLUSHED,
                cut >= ends[3] ? 8 : 0);
    side_expect(wire.side, cq, 2, cut >= ends[4] ? RI_WC_SUCCESS : RI_WC_FLUSHED, 0);
    side_expect(wire.side, cq, 3, RI_WC_FLUSHED, 0);
    side_expect(wire.side, cq, 4, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(wire.side, cq));
}

/* C-148 at a boundary, C-057 elsewhere: in either case the QP sends no Terminate, but FIN. */
START_TEST(C057_C148_X031_fin_at_every_octet)
{
    uint8_t octets[1024];
    size_t ends[6], length, cut = 0;

    do {
        wire_open(NULL);
        length = story(octets, ends);
        peer_octets(octets, cut);
        if (_i)
            wire_pass(2);
        peer_fin();
        side_expect_event(wire.side, is_end(ends, cut) ? RI_EVENT_LLP_CLOSED : RI_EVENT_LLP_LOST,
                          0);
        story_up_to(ends, cut);
        if (cut == ends[5])
            wire_expect(true, OP_RESPONSE, STORY_READ);
        wire_fin();
        ck_assert_int_eq(side_query(wire.side).state, RI_QPS_ERROR);
    } while (cut++ < length);
}
END_TEST

START_TEST(C057_C152_X031_rst_at_every_octet)
{
    uint8_t octets[1024];
    size_t ends[6], length, cut = 0;

    do {
        wire_open(NULL);
        length = story(octets, ends);
        peer_octets(octets, cut);
        wire_pass(2);
        peer_rst();
        side_expect_event(wire.side, RI_EVENT_LLP_RESET, 0);
        story_up_to(ends, cut);
        ck_assert_int_eq(side_query(wire.side).state, RI_QPS_ERROR);
        ck_assert_uint_eq(side_query(wire.side).terminate_sent, 0);
    } while (cut++ < length);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: MPA stream");
    TCase *tc = tc_case(suite, "FPDUs", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tc_add_loops(tc, 0, 2, C047_split_in_two_anywhere, C047_single_octets,
                 C047_several_in_one_segment);
    tc_add_tests(tc, C047_random_pieces, C047_first_fpdu_in_single_octets);
    tc_add_rows(tc, C048_any_length, lengths);
    tcase_add_test(tc, C048_longest_send);
    tcase_add_loop_test(tc, C050_C056_X027_one_wrong_bit, 0, 2);
    tcase_add_loop_test(tc, C050_wrong_length, 0, 6);
    tcase_add_loop_test(tc, C050_crc_of_another_kind, 0, 4);
    tcase_add_test(tc, C051_crc_not_in_use);
    tc_add_loops(tc, 0, 4, C052_pad_is_not_looked_at, C055_X026_too_short);
    tcase_add_loop_test(tc, C055_two_octets_are_judged, 0, 2);
    tcase_add_test(tc, C056_X027_nothing_is_passed_up);
    tcase_add_loop_test(tc, C057_C148_X031_fin_at_every_octet, 0, 2);
    tcase_add_test(tc, C057_C152_X031_rst_at_every_octet);
    return tc_main(suite);
}

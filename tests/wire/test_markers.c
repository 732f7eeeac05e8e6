/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 4 with markers in the QP's input (C-049, C-053, C-054), against the peer's own arithmetic
 * (peer_octets.c). */
#include "peer.h"

static const struct connection kinds[] = {
    { .markers_in = true, .no_receives = true },
    { .markers_in = true, .no_receives = true, .no_crc = true },
    { .markers_in = true, .no_receives = true, .role = ACTIVE },
    { .markers_in = true, .no_receives = true, .markers_out = true },
};

static uint8_t ulpdu[ULPDU_MAX], frame[FPDU_ROOM], data[ULPDU_MAX];
static struct region target;
static uint32_t msn;

static void setup(void)
{
    struct tc_rng rng = tc_rng(49);

    wire_setup();
    target = region_new(wire.side, 70000, TESTBED_ALL);
    tc_fill(&rng, data, sizeof(data));
}

static void teardown(void)
{
    region_free(wire.side, &target);
    wire_teardown();
}

static void open_kind(const struct connection *kind)
{
    wire_open(kind);
    msn = 1;
}

/* Sends a Send of this length, whole, as single octets, or in two parts, and waits for its
 * delivery. */
static void sent(uint32_t length, int how)
{
    size_t octets;

    side_receive(wire.side, msn, region_sge(&target, 0, 70000));
    memset(target.octets, 0, length + 1);
    octets = peer_frame(frame, ulpdu, put_send(ulpdu, true, msn, 0, data, length));
    if (how == 0) {
        peer_octets(frame, octets);
    } else if (how == 1) {
        peer_single(frame, octets);
    } else {
        peer_octets(frame, octets / 2);
        wire_pass(2);
        peer_octets(frame + octets / 2, octets - octets / 2);
    }
    side_expect(wire.side, wire.side->recv_cq, msn++, RI_WC_SUCCESS, length);
    ck_assert(!memcmp(target.octets, data, length) && target.octets[length] == 0);
}

/* Small FPDUs: over half a period the marker appears at every place of an FPDU, in front, behind
 * PAD, inside the header. */
START_TEST(C049_markers_everywhere)
{
    open_kind(&kinds[_i]);
    for (uint32_t i = 0; i < 700; i++)
        sent(i * 5 % 91, 0);
    ck_assert(wire_alive());
}
END_TEST

START_TEST(C049_single_octets)
{
    open_kind(&kinds[_i]);
    for (uint32_t i = 0; i < 40; i++)
        sent(i * 13 % 101, 1);
    ck_assert(wire_alive());
}
END_TEST

START_TEST(C049_C048_long)
{
    static const uint32_t lengths[] = { 466,  470,  474,   478,   482,
                                        486,  490,  494,   508,   512,
                                        1000, 5000, 20000, 64750, ULPDU_MAX - UNTAGGED_LEN };

    open_kind(&kinds[_i]);
    for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        sent(lengths[i], 2 * (int)(i % 2));
    ck_assert(wire_alive());
}
END_TEST

/* Several FPDUs that contain three markers, split in two at every octet. */
START_TEST(C049_split_in_two_anywhere)
{
    static uint8_t octets[3 * FPDU_ROOM];
    size_t length, cut = 0;

    do {
        open_kind(&kinds[_i]);
        for (uint32_t i = 1; i <= 3; i++)
            side_receive(wire.side, i, region_sge(&target, i * 1000, 1000));
        length = peer_frame(octets, ulpdu, put_send(ulpdu, true, 1, 0, data, 451));
        length += peer_frame(octets + length, ulpdu, put_send(ulpdu, true, 2, 0, data, 463));
        length += peer_frame(octets + length, ulpdu, put_send(ulpdu, true, 3, 0, data, 5));
        cut++;
        peer_octets(octets, cut);
        wire_pass(2);
        peer_octets(octets + cut, length - cut);
        side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 451);
        side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_SUCCESS, 463);
        side_expect(wire.side, wire.side->recv_cq, 3, RI_WC_SUCCESS, 5);
        ck_assert(!memcmp(target.octets + 1000, data, 451) &&
                  !memcmp(target.octets + 2000, data, 463) &&
                  !memcmp(target.octets + 3000, data, 5));
    } while (cut < length - 1);
}
END_TEST

/* RESERVED has any value, as have the low two bits of FPDUPTR; the CRC covers them as they are. */
START_TEST(C053_reserved_bits)
{
    open_kind(&kinds[_i % 2]);
    wire.peer.marker_reserved = _i < 2 ? 0xffff : 0x8001;
    wire.peer.marker_xor = _i < 2 ? 3 : 1;
    for (uint32_t i = 0; i < 40; i++)
        sent(i * 37 % 300, 0);
    sent(3000, 0);
    ck_assert(wire_alive());
}
END_TEST

/* Behind a first FPDU of 20 octets comes one with a marker inside, and behind it one with a marker
 * in front. */
START_TEST(C054_pointer_is_wrong)
{
    const uint16_t damage = (uint16_t[]){ 4, 8, 0x200, 0x8000 }[_i];

    open_kind(&kinds[0]);
    side_receive(wire.side, 1, region_sge(&target, 0, 70000));
    wire.peer.marker_xor = damage;
    wire_refused(ulpdu, put_send(ulpdu, true, 1, 0, data, 600), 0x2003, RI_EVENT_INTEGRITY);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert_uint_eq(target.octets[0], 0);
}
END_TEST

/* Each of four markers alone. */
START_TEST(C054_each_pointer)
{
    open_kind(&kinds[0]);
    side_receive(wire.side, 1, region_sge(&target, 0, 70000));
    wire.peer.marker_xor = 4;
    wire.peer.marker_only = _i;
    wire_refused(ulpdu, put_send(ulpdu, true, 1, 0, data, 1900), 0x2003, RI_EVENT_INTEGRITY);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* In front of ULPDU_Length it is 0, also for the first marker of the stream. */
START_TEST(C054_pointer_in_front)
{
    const struct connection fresh = { .markers_in = true, .fresh = true };

    if (_i) {
        wire_open(&fresh);
    } else {
        open_kind(&kinds[0]);
        wire.peer.marker_only = -1;
        sent(462, 0); /* 4 + 20 + 488 are 512 octets */
        ck_assert_uint_eq(wire.peer.sent, 512);
    }
    wire.peer.marker_xor = 4;
    wire_refused(ulpdu, put_send(ulpdu, true, msn, 0, "data", 4), 0x2003, RI_EVENT_INTEGRITY);
}
END_TEST

/* A CRC that is wrong because of the marker is a CRC error: that row precedes. */
START_TEST(C050_before_C054)
{
    open_kind(&kinds[0]);
    side_receive(wire.side, 1, region_sge(&target, 0, 70000));
    wire.peer.marker_xor = 4;
    wire.peer.crc_xor = _i ? 1 : 0x80000000;
    wire_refused(ulpdu, put_send(ulpdu, true, 1, 0, data, 600), 0x2002, RI_EVENT_INTEGRITY);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* Any bit of any marker, with CRC in use and not corrected. */
START_TEST(C050_S028_markers_are_covered)
{
    size_t octets;

    open_kind(&kinds[0]);
    side_receive(wire.side, 1, region_sge(&target, 0, 70000));
    octets = peer_frame(frame, ulpdu, put_send(ulpdu, true, 1, 0, data, 600));
    frame[512 - 24 + _i] ^= 0x10; /* the connection began with 24 octets */
    wire_refused_octets(frame, octets, 0x2002, RI_EVENT_INTEGRITY, NULL, 0);
}
END_TEST

/* Other refusals are the same as without markers. */
START_TEST(C049_C090_refusals)
{
    open_kind(&kinds[_i]);
    for (uint32_t i = 0; i < 9; i++)
        sent(50, 0);
    wire_refused(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), UINT64_MAX, data, 300), 0x1103,
                 RI_EVENT_WRITE_ACCESS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: markers received");
    TCase *tc = tc_case(suite, "receiver", setup, teardown);

    tcase_set_timeout(tc, 120);
    tc_add_loops(tc, 0, 4, C049_markers_everywhere, C049_single_octets, C049_C048_long);
    tcase_add_loop_test(tc, C049_split_in_two_anywhere, 0, 2);
    tc_add_loops(tc, 0, 4, C053_reserved_bits, C054_pointer_is_wrong);
    tcase_add_loop_test(tc, C054_each_pointer, 0, 3);
    tc_add_loops(tc, 0, 2, C054_pointer_in_front, C050_before_C054);
    tc_add_loops(tc, 0, 4, C050_S028_markers_are_covered, C049_C090_refusals);
    return tc_main(suite);
}

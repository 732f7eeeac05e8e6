/* SPDX-License-Identifier: BSD-3-Clause */
/* Without CRC long payload goes straight to its place (rx_direct.c): the same checks, the same
 * octets, however the stream is cut. */
#include "peer.h"

#define MOST  60000u
#define SHORT 1000u

enum kind { KIND_WRITE, KIND_SEND, KIND_RESPONSE, KINDS };

static const struct connection no_crc = { .no_crc = true, .no_receives = true };
static uint8_t data[MOST], ulpdu[ULPDU_MAX], frames[4 * 65536];
static struct region target;
static struct tc_rng rng;
static uint32_t sink_stag;
static uint64_t sink_to;

static void setup(void)
{
    wire_setup();
    rng = tc_rng(0);
    for (uint32_t i = 0; i < MOST; i++)
        data[i] = (uint8_t)(tc_below(&rng, 255) + 1);
    target = region_new(wire.side, MOST, TESTBED_ALL);
}

static void teardown(void)
{
    region_free(wire.side, &target);
    wire_teardown();
}

/* Posts what takes the message, of `length` octets. */
static void await_message(enum kind kind, uint32_t length)
{
    memset(target.octets, 0, MOST);
    if (kind == KIND_SEND)
        side_receive(wire.side, 1, region_sge(&target, 0, length));
    if (kind != KIND_RESPONSE)
        return;
    side_read(wire.side, 1, region_sge(&target, 0, length), 0x1000, 0x77);
    wire_expect(true, OP_READ, READ_LEN);
    sink_stag = get32(wire.seen.payload);
    sink_to = get64(wire.seen.payload + 4);
}

/* A segment of the message, as an FPDU. */
static size_t put_segment(uint8_t *out, enum kind kind, uint32_t msn, bool last, uint32_t offset,
                          uint32_t length)
{
    const uint8_t *from = data + offset;
    uint32_t octets;

    if (kind == KIND_SEND)
        octets = put_send(ulpdu, last, msn, offset, from, length);
    else if (kind == KIND_WRITE)
        octets = put_write(ulpdu, last, target.keys.rkey, (uintptr_t)target.octets + offset, from,
                           length);
    else
        octets = put_response(ulpdu, last, sink_stag, sink_to + offset, from, length);
    return peer_frame(out, ulpdu, octets);
}

/* Two segments: the first opens the message of a Send. */
static size_t put_message(enum kind kind, uint32_t msn, uint32_t length)
{
    size_t used = put_segment(frames, kind, msn, false, 0, SHORT);

    return used + put_segment(frames + used, kind, msn, true, SHORT, length - SHORT);
}

/* Connects, and half of the octets of the message arrive; returns how many. *all: of the whole. */
static size_t begin_message(const struct connection *connection, enum kind kind, size_t *all)
{
    wire_open(connection);
    await_message(kind, MOST);
    *all = put_message(kind, 1, MOST);
    peer_octets(frames, *all / 2);
    wire_pass(8);
    return *all / 2;
}

static bool untouched_from(size_t from)
{
    for (size_t i = from; i < MOST; i++)
        if (target.octets[i])
            return false;
    return true;
}

static void expect_message(enum kind kind, uint32_t length)
{
    ck_assert_mem_eq(target.octets, data, length);
    if (kind == KIND_SEND)
        side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, length);
    else if (kind == KIND_RESPONSE)
        side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, length);
    ck_assert(untouched_from(length));
}

/* What has come is in its place before the FPDU is complete, but for its last octets. With CRC
 * nothing is. */
START_TEST(payload_is_placed_as_it_comes)
{
    const struct connection connection = { .no_crc = _i != KINDS, .no_receives = true };
    enum kind kind = _i == KINDS ? KIND_WRITE : (enum kind)_i;
    size_t all, half = begin_message(&connection, kind, &all);

    ck_assert_int_eq(target.octets[SHORT + 20000] == data[SHORT + 20000], connection.no_crc);
    ck_assert_uint_eq(target.octets[half + 64], 0);
    peer_octets(frames + half, all - half - 1);
    wire_pass(8);
    ck_assert_int_eq(target.octets[MOST - 64] == data[MOST - 64], connection.no_crc);
    ck_assert_uint_eq(target.octets[MOST - 1], 0); /* consumers look at it */
    peer_octets(frames + all - 1, 1);
    wire_pass(8);
    expect_message(kind, MOST);
    ck_assert(wire_alive());
}
END_TEST

/* Messages of any length behind each other, in pieces of any size. */
START_TEST(cuts_change_nothing)
{
    wire_open(&no_crc);
    for (uint32_t round = 1; round <= 60; round++) {
        uint32_t length = 12000 + SHORT + tc_below(&rng, MOST - 12000 - SHORT);
        size_t all, at = 0, part;

        await_message((enum kind)_i, length);
        all = put_message((enum kind)_i, round, length);
        for (; at < all; at += part) {
            part = 1 + tc_below(&rng, tc_below(&rng, 2) ? 64 : 20000);
            part = part < all - at ? part : all - at;
            peer_octets(frames + at, part);
            wire_pass(2);
        }
        wire_pass(8);
        expect_message((enum kind)_i, length);
    }
    ck_assert(wire_alive());
}
END_TEST

/* The peer is told of the whole segment (C-083, C-098); no octet is placed any more. */
START_TEST(memory_that_goes_is_refused)
{
    static const uint16_t values[] = { 0x1100, 0x0000, 0x1100 };
    static const enum ri_event_type events[] = { RI_EVENT_WRITE_ACCESS, RI_EVENT_RECV_ACCESS,
                                                 RI_EVENT_RESPONSE_ERROR };
    enum kind kind = (enum kind)_i;
    size_t all, half = begin_message(&no_crc, kind, &all);

    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(target.mr), RI_OK);
    target.mr = NULL;
    peer_octets(frames + half, all - half);
    wire_pass(8);
    ck_assert(untouched_from(half));
    if (kind == KIND_SEND) /* a local error: no header */
        wire_terminate(values[kind], NULL, 0);
    else
        wire_terminate(values[kind], ulpdu, (uint32_t)(MOST - SHORT + TAGGED_LEN));
    side_expect_event(wire.side, events[kind], values[kind]);
}
END_TEST

START_TEST(an_end_inside_is_an_error)
{
    size_t all;

    begin_message(&no_crc, (enum kind)_i, &all);
    peer_fin();
    side_expect_event(wire.side, RI_EVENT_LLP_LOST, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("direct placement");
    TCase *tc = tc_case(suite, "receiver", setup, teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, payload_is_placed_as_it_comes, 0, KINDS + 1);
    tc_add_loops(tc, 0, KINDS, cuts_change_nothing, memory_that_goes_is_refused,
                 an_end_inside_is_an_error);
    return tc_main(suite);
}

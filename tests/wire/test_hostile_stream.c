/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile peers in Full Operation: stalls in the middle of an FPDU, floods of requests and of
 * zero-length segments, connections that come and go. Memory stays bounded, and messages of another
 * connection on the same lane arrive in time.
 */
#include "peer.h"

#include <sys/socket.h>

#define BIG        (8u << 20)
#define IN_TIME_MS 2000u       /* for ten round trips, whatever happens beside them */
#define SLACK      (64u << 10) /* octets of heap that caches keep */
#define STALLED    48u         /* connections at once; fake_host keeps 64 timers */

static uint8_t ulpdu[ULPDU_MAX], frame[FPDU_ROOM];
static struct region big;
static struct side good[2]; /* a well-behaved connection */
static struct region page[2];
static uint64_t trips;

/* ---- the well-behaved connection ---- */

static void setup(void)
{
    const struct shape shape = { .depth = 16 };
    int fds[2];

    wire_setup();
    big = region_new(wire.side, BIG, TESTBED_ALL);
    testbed_tcp(fds, 0);
    for (int i = 0; i < 2; i++) {
        side_open(&wire.bed, &good[i], &shape);
        side_start(&good[i], fds[i], i == 0, NULL);
        page[i] = region_new(&good[i], 4096, TESTBED_ALL);
    }
    trips = 0;
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++) {
        side_close(&good[i]);
    }
    region_free(wire.side, &big);
    wire_teardown();
}

/* One message in each direction, whole. */
static void round_trip(void)
{
    for (int i = 0; i < 2; i++) {
        memset(page[i].octets, (int)trips, 4096);
        side_receive(&good[!i], trips, region_sge(&page[!i], 0, 4096));
        side_send(&good[i], trips, region_sge(&page[i], 0, 4096));
        side_expect(&good[!i], good[!i].recv_cq, trips, RI_WC_SUCCESS, 4096);
        side_expect(&good[i], good[i].send_cq, trips, RI_WC_SUCCESS, 4096);
    }
    trips++;
}

static void ten_round_trips(void)
{
    uint64_t end = tc_deadline(IN_TIME_MS);

    for (int i = 0; i < 10; i++)
        round_trip();
    ck_assert_msg(!tc_expired(end), "ten round trips took longer than %u ms", IN_TIME_MS);
}

/* ---- memory ---- */

static void bounded(size_t before, size_t growth)
{
    size_t now = tc_heap();

    ck_assert_msg(now <= before + growth, "%zu octets of heap, %zu before, %zu allowed", now,
                  before, growth);
}

/* ---- floods ---- */

/* Sends the same FPDUs again and again, as much as the socket takes, with ten round trips in
 * between. Returns the octets sent. */
static size_t flood(const uint8_t *octets, size_t length, int rounds)
{
    size_t at = 0, total = 0;

    while (rounds--) {
        ssize_t sent;

        while ((sent = send(wire.peer.fd, octets + at, length - at, MSG_DONTWAIT | MSG_NOSIGNAL)) >
               0) {
            at = (at + (size_t)sent) % length;
            total += (size_t)sent;
            if (total > (256u << 20))
                break;
        }
        ck_assert(sent > 0 || errno == EAGAIN);
        ten_round_trips();
    }
    while (at) { /* up to the end of an FPDU */
        peer_octets(octets + at, length - at);
        total += length - at;
        at = 0;
    }
    return total;
}

enum storm { ZERO_WRITES, ZERO_WRITES_OPEN, ZERO_SEND_SEGMENTS, ZERO_RESPONSES, STORMS };

/* Legal but useless: accepted, and nothing is kept of it. */
START_TEST(X023_storm_of_segments_without_octets)
{
    static uint8_t many[1u << 16];
    const uint8_t *payload = NULL;
    size_t used = 0, before, total;

    wire_open(NULL);
    if (_i == ZERO_RESPONSES) {
        side_read(wire.side, 1, region_sge(&big, 0, 4), 0, 1);
        wire_expect(true, 1, READ_LEN);
    }
    while (used + 64 < sizeof(many)) {
        uint32_t length;

        switch (_i) {
        case ZERO_WRITES: length = put_write(ulpdu, true, 1, 2, payload, 0); break;
        case ZERO_WRITES_OPEN: length = put_write(ulpdu, false, 1, 2, payload, 0); break;
        case ZERO_RESPONSES: length = put_response(ulpdu, false, 1, 2, payload, 0); break;
        default: length = put_send(ulpdu, false, 1, 0, payload, 0);
        }
        used += peer_frame(many + used, ulpdu, length);
    }
    ten_round_trips();
    before = tc_heap();
    total = flood(many, used, (int)tc_count(30));
    ck_assert_uint_gt(total, 1u << 20);
    bounded(before, SLACK);
    ck_assert(wire_alive());
    if (_i == ZERO_SEND_SEGMENTS)
        return;
    wire_goes_on(1, 1, 1);
}
END_TEST

/* The first one ends the connection. The QP drops the following octets until the peer closes, at no
 * cost. */
START_TEST(X019_X038_storm_of_sends_without_receives)
{
    const struct connection bare = { .no_receives = true };
    static uint8_t many[1u << 16];
    size_t used = 0, before;
    uint32_t first;

    wire_open(&bare);
    first = put_send(ulpdu, true, 1, 0, NULL, 0);
    for (uint32_t msn = 1; used + 64 < sizeof(many); msn++)
        used += peer_frame(many + used, ulpdu, put_send(ulpdu, true, msn, 0, NULL, 0));
    ten_round_trips();
    before = tc_heap();
    flood(many, used, (int)tc_count(30));
    bounded(before, SLACK);
    side_expect_event(wire.side, RI_EVENT_NO_RECEIVE, 0x1202);
    put_send(ulpdu, true, 1, 0, NULL, 0);
    wire_terminate(0x1202, ulpdu, first);
}
END_TEST

/* ---- Reads ---- */

/* Ten thousand Requests with an IRD of eight, and the peer does not read: the ninth ends the
 * connection; no list grows. */
START_TEST(X016_X038_read_requests_over_ird)
{
    static uint8_t many[10000 * 52];
    size_t used = 0, before;

    wire_open(NULL);
    for (uint32_t msn = 1; msn <= 10000; msn++)
        used += peer_frame(many + used, ulpdu,
                           put_read(ulpdu, msn, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets));
    ten_round_trips();
    before = tc_heap();
    peer_octets(many, used);
    side_expect_event(wire.side, RI_EVENT_REMOTE_OPERATION, 0x1203);
    ten_round_trips();
    bounded(before, (2u << 20) + SLACK); /* the batch in progress gets a tail of its own */
    put_read(ulpdu, 9, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets);
    wire_terminate(0x1203, ulpdu, UNTAGGED_LEN + READ_LEN);
}
END_TEST

/* Eight requests of 28 octets ask for four gigabytes, and the peer does not read: the QP answers as
 * far as the socket has room, not farther. */
START_TEST(X018_read_amplification)
{
    size_t before;

    wire_open(NULL);
    ten_round_trips();
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 1, 2, 1000, big.keys.rkey, (uintptr_t)big.octets));
    wire_expect(true, OP_RESPONSE, 1000); /* one-time allocations are made here */
    before = tc_heap();
    for (uint32_t msn = 2; msn <= 9; msn++)
        peer_ulpdu(ulpdu, put_read(ulpdu, msn, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets));
    for (int i = 0; i < 20; i++)
        ten_round_trips();
    bounded(before, SLACK);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    for (uint32_t left = BIG / 4; left < BIG; left -= wire.seen.payload_length)
        ck_assert(wire_next()); /* it continues when the peer reads */
}
END_TEST

/* Zero-length Reads, answered as fast as they come; the peer reads the responses or not. */
START_TEST(X023_storm_of_reads_without_octets)
{
    size_t before;
    uint32_t msn = 1;

    wire_open(NULL);
    ten_round_trips();
    peer_ulpdu(ulpdu, put_read(ulpdu, msn++, 1, 2, 0, 0, 0));
    wire_expect(true, OP_RESPONSE, 0); /* one-time allocations are made here */
    before = tc_heap();
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 8; i++)
            peer_ulpdu(ulpdu, put_read(ulpdu, msn++, 1, 2, 0, 0, 0));
        if (_i)
            for (int i = 0; i < 8; i++)
                wire_expect(true, OP_RESPONSE, 0);
        round_trip();
    }
    bounded(before, SLACK);
    ten_round_trips();
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
}
END_TEST

/* ---- octets in the smallest parts ---- */

START_TEST(X023_one_octet_segments)
{
    const uint32_t count = (uint32_t)tc_count(50000);
    size_t before;

    wire_open(NULL);
    side_receive(wire.side, 5, region_sge(&big, 0, BIG)); /* the fifth */
    for (uint32_t msn = 1; msn <= 4; msn++) {
        peer_ulpdu(ulpdu, put_send(ulpdu, true, msn, 0, NULL, 0));
        side_expect(wire.side, wire.side->recv_cq, msn, RI_WC_SUCCESS, 0);
    }
    ten_round_trips();
    before = tc_heap();
    for (uint32_t i = 0; i < count; i++) {
        peer_ulpdu(ulpdu, put_send(ulpdu, i == count - 1, 5, i, "x", 1));
        if (i % 2000 == 0)
            ten_round_trips();
    }
    side_expect(wire.side, wire.side->recv_cq, 5, RI_WC_SUCCESS, count);
    bounded(before, SLACK);
}
END_TEST

START_TEST(X023_single_octets_of_a_long_fpdu)
{
    size_t octets, before;

    wire_open(NULL);
    ten_round_trips();
    before = tc_heap();
    put_write(ulpdu, true, big.keys.rkey, (uintptr_t)big.octets, NULL, 0);
    octets = peer_frame(frame, ulpdu, 2000);
    for (size_t i = 0; i < octets; i++) {
        peer_single(frame + i, 1);
        if (i % 200 == 0)
            ten_round_trips();
    }
    ck_assert(wire_alive());
    bounded(before, SLACK);
    wire_goes_on(1, 1, 1);
}
END_TEST

/* ---- many connections ---- */

struct stalled {
    struct side side;
    int fd;
};

/* All but the last octet of the longest FPDU, on each of many connections. One reassembly buffer
 * per connection is kept, and released with the QP. */
START_TEST(X024_stalled_inside_an_fpdu)
{
    static struct stalled all[STALLED];
    const struct shape shape = { .depth = 4, .cqe = 16 };
    size_t octets, before, start;

    wire_open(NULL);
    put_write(ulpdu, true, 1, 2, NULL, 0);
    ten_round_trips();
    start = tc_heap();
    octets = peer_frame(frame, ulpdu, _i ? 1000 : ULPDU_MAX);
    for (uint32_t i = 0; i < STALLED; i++) {
        int fds[2];

        testbed_tcp(fds, 0);
        all[i].fd = fds[1];
        side_open(&wire.bed, &all[i].side, &shape);
        side_start(&all[i].side, fds[0], false, NULL);
    }
    ten_round_trips();
    before = tc_heap();
    for (uint32_t i = 0; i < STALLED; i++) {
        for (size_t at = 0; at < octets - 1;) {
            ssize_t sent = send(all[i].fd, frame + at, octets - 1 - at,
                                MSG_DONTWAIT | MSG_NOSIGNAL);

            at += sent > 0 ? (size_t)sent : 0;
            wire_pass(1);
        }
        round_trip();
    }
    ten_round_trips();
    bounded(before, STALLED * tc_heap_cost(octets + 256) + SLACK);
    for (uint32_t i = 0; i < STALLED; i++) {
        ck_assert_uint_eq(atomic_load(&all[i].side.events.count), 0);
        close(all[i].fd);
        side_expect_event(&all[i].side, RI_EVENT_LLP_LOST, 0);
    }
    for (uint32_t i = 0; i < STALLED; i++)
        side_close(&all[i].side);
    ten_round_trips();
    bounded(start, SLACK);
    wire_goes_on(1, 1, 1);
}
END_TEST

/* A thousand connections end in the middle of an FPDU, by FIN or RST: memory does not grow. */
START_TEST(X031_X038_opened_and_abandoned)
{
    struct tc_rng rng = tc_rng(1000);
    const unsigned long count = tc_count(1000), step = count / 10;
    size_t octets, before = 0;

    for (unsigned long i = 0; i < count; i++) {
        wire_open(NULL);
        put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], NULL, 0);
        octets = peer_frame(frame, ulpdu, TAGGED_LEN + (uint32_t)tc_below(&rng, 4000));
        peer_octets(frame, tc_below(&rng, octets));
        wire_pass(1);
        if (i % 2)
            peer_fin();
        wire_end();
        if (i % step == step / 2) {
            ten_round_trips();
            before = before ? before : tc_heap();
            bounded(before, SLACK);
        }
    }
}
END_TEST

/* Random octets: one event and one end each time. */
START_TEST(X031_noise)
{
    struct tc_rng rng = tc_rng(4711);
    const unsigned long count = tc_count(300), step = count / 6;
    size_t before = 0;

    for (unsigned long i = 0; i < count; i++) {
        const struct connection connection = { .no_crc = i % 2, .role = i % 3 ? PASSIVE : ACTIVE };

        wire_open(&connection);
        tc_fill(&rng, frame, 8192);
        if (i % 4)
            put16(frame, (uint32_t)tc_below(&rng, 200)); /* otherwise it waits for octets */
        if (i % 8 > 4)
            frame[2] = (uint8_t)(0x41 | (tc_rand(&rng) & 0x80)), frame[3] = 0x40 | i % 16;
        peer_octets(frame, 8192);
        wire_pass(2);
        peer_fin();
        ck_assert(fake_host_until(&wire.bed.fake, atomic_load(&wire.side->events.count) != 0,
                                  TESTBED_TIMEOUT));
        while (wire_next())
            ck_assert_int_eq(wire.seen.op, OP_TERMINATE);
        ck_assert(!wire.peer.reset);
        ck_assert_uint_eq(atomic_load(&wire.side->events.count), 1);
        ck_assert(env_untouched());
        if (i % step == step / 5) {
            wire_end();
            ten_round_trips();
            before = before ? before : tc_heap();
            bounded(before, SLACK);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: hostile peers");
    TCase *tc = tc_case(suite, "stream", setup, teardown);

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, X023_storm_of_segments_without_octets, 0, STORMS);
    tc_add_tests(tc, X019_X038_storm_of_sends_without_receives, X016_X038_read_requests_over_ird,
                 X018_read_amplification);
    tcase_add_loop_test(tc, X023_storm_of_reads_without_octets, 0, 2);
    tc_add_tests(tc, X023_one_octet_segments, X023_single_octets_of_a_long_fpdu);
    tcase_add_loop_test(tc, X024_stalled_inside_an_fpdu, 0, 2);
    tc_add_tests(tc, X031_X038_opened_and_abandoned, X031_noise);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the QP, S-022 to S-056. The peer (peer_octets.c) parses every FPDU and checks the rules
 * that hold for each; this file checks messages and their order.
 */
#include "peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "providers/software/iwarp/wire_iwarp.h" /* sets an MSN that would take days to reach */

#define ROOM (1u << 18)

static uint8_t ulpdu[512];
static struct region source;
static struct tc_rng rng;

static void open_with(const char *const *options)
{
    wire_setup_options(options);
    rng = tc_rng(22);
    source = region_new(wire.side, ROOM, TESTBED_ALL);
    tc_fill(&rng, source.octets, ROOM);
}

static void setup(void)
{
    open_with(NULL);
}

static void teardown(void)
{
    region_free(wire.side, &source);
    wire_teardown();
}

/* The current EMSS, which grows with the peer's window. */
static uint32_t emss_now(void)
{
    socklen_t length = sizeof(int);
    int maxseg;

    ck_assert_int_eq(getsockopt(wire.peer.qp_fd, IPPROTO_TCP, TCP_MAXSEG, &maxseg, &length), 0);
    return (uint32_t)maxseg;
}

/* RFC 5044 4.5, computed here independently. */
static uint32_t mulpdu(void)
{
    uint32_t emss = emss_now(), overhead = 6 + emss % 4;

    if (wire.peer.markers_out)
        overhead += 4 * ((emss + 511) / 512);
    if (emss < 128 + overhead)
        return 128;
    return emss - overhead < 64768 ? emss - overhead : 64768;
}

/* ---- one message ---- */

enum kind { SEND, SEND_SE, WRITE, RESPONSE, KINDS };

static const uint8_t ops[] = { OP_SEND, OP_SEND_SE, OP_WRITE, OP_RESPONSE };

#define FREELY 16000u /* TCP payload size from which on the sender may use smaller segments */

/* Checks the next segment of a message with `left` octets to come: it fills the MULPDU, or has a
 * size of the sender's choice. Returns its octets. */
static uint32_t segment(uint8_t op, uint32_t left, uint32_t room)
{
    uint32_t part = left < room ? left : room;

    if (room < FREELY) {
        wire_expect(part == left, op, part);
        return part;
    }
    ck_assert_msg(wire_next(), "the stream ended, opcode %u was expected", op);
    part = wire.seen.payload_length;
    ck_assert_msg(part <= room && part <= left && (part || !left), "%u octets of %u", part, left);
    ck_assert(wire.seen.op == op && wire.seen.last == (part == left));
    return part;
}

/* Checks its segments one after another: S-033 to S-035, S-037 to S-041, S-050, S-056. */
static void message(enum kind kind, uint32_t msn, uint32_t stag, uint64_t to, const uint8_t *data,
                    uint32_t length)
{
    const struct seen *seen = &wire.seen;
    uint32_t at = 0, part;

    do {
        part = segment(ops[kind], length - at,
                       mulpdu() - (kind < WRITE ? UNTAGGED_LEN : TAGGED_LEN));
        ck_assert_uint_le(seen->length, mulpdu());
        if (kind < WRITE) {
            ck_assert_uint_eq(seen->msn, msn);
            ck_assert_uint_eq(seen->mo, at);
        } else {
            ck_assert_uint_eq(seen->stag, stag);
            ck_assert_uint_eq(seen->to, to + at);
        }
        ck_assert(!memcmp(seen->payload, data + at, part));
        at += part;
    } while (at < length);
}

static void post(enum kind kind, uint64_t cookie, const struct ri_sge *sges, uint32_t count,
                 uint64_t to, uint32_t stag)
{
    uint16_t flags = RI_WR_SIGNALED | (kind == SEND_SE ? RI_WR_SOLICITED : 0);

    ck_assert_int_eq(side_post(wire.side, kind == WRITE ? RI_WR_RDMA_WRITE : RI_WR_SEND, cookie,
                               flags, sges, count, to, stag),
                     RI_OK);
}

/* One whole message of the QP. `request` is the MSN of the Read that causes a response. */
static void one(enum kind kind, uint32_t msn, uint32_t request, uint32_t length)
{
    const uint64_t to = 0xfffffffffffff000; /* wraps on the way: 2^64 is 0 */
    struct ri_sge sge = region_sge(&source, length % 7, length);

    if (kind == RESPONSE) {
        peer_ulpdu(ulpdu, put_read(ulpdu, request, 0x12345678, to, length, source.keys.rkey,
                                   (uintptr_t)source.octets + length % 7));
    } else {
        post(kind, 1, &sge, 1, to, 0x12345678);
    }
    message(kind, msn, 0x12345678, to, source.octets + length % 7, length);
    if (kind != RESPONSE)
        side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, length);
}

static const struct connection shapes[] = {
    { .maxseg = 0 },
    { .maxseg = 0, .no_crc = true },
    { .maxseg = 88 }, /* MULPDU at its minimum of 128 */
    { .maxseg = 536 },
    { .maxseg = 537 },
    { .maxseg = 538, .no_crc = true },
    { .maxseg = 1460 },
    { .maxseg = 1463 },
    { .maxseg = 9000, .role = ACTIVE },
    { .maxseg = 1460, .markers_out = true },
    { .maxseg = 0, .markers_out = true },
    { .maxseg = 536, .markers_out = true, .markers_in = true, .role = ACTIVE },
    { .maxseg = 88, .markers_out = true, .no_crc = true },
};
#define PLAIN_SHAPES  9
#define MARKER_SHAPES 4

/* Kinds first to last, all significant lengths. */
static void all_lengths(const struct connection *connection, enum kind first, enum kind last)
{
    for (enum kind kind = first; kind <= last; kind++) {
        uint32_t room, lengths[16], n = 0, request = 1, msn = 1;

        wire_open(connection);
        room = mulpdu() - (kind < WRITE ? UNTAGGED_LEN : TAGGED_LEN);
        for (uint32_t i = 0; i < 6; i++)
            lengths[n++] = i;
        for (uint32_t i = 0; i < 3; i++)
            lengths[n++] = room - 1 + i;
        if (room < 20000)
            for (uint32_t i = 0; i < 3; i++)
                lengths[n++] = 3 * room - 1 + i;
        for (uint32_t i = 0; i < n; i++) {
            one(kind, msn, request, lengths[i]);
            msn += kind < WRITE;
            request += kind == RESPONSE;
        }
        ck_assert(wire_alive());
    }
}

START_TEST(S033_S034_S035_S037_S038_S040_S041_S054_sends)
{
    all_lengths(&shapes[_i], SEND, SEND_SE);
}
END_TEST

START_TEST(S033_S034_S035_S039_S040_S041_S056_writes)
{
    all_lengths(&shapes[_i], WRITE, WRITE);
}
END_TEST

START_TEST(S033_S034_S035_S039_S041_S050_S052_responses)
{
    all_lengths(&shapes[_i], RESPONSE, RESPONSE);
}
END_TEST

/* wire_next() checks each FPDU; here none is longer than the MULPDU. */
START_TEST(S022_S024_S026_S027_S032_S043_S044_X010_every_fpdu)
{
    all_lengths(&shapes[2 * _i], SEND, RESPONSE);
}
END_TEST

START_TEST(S024_S026_S028_S029_with_markers)
{
    all_lengths(&shapes[PLAIN_SHAPES + _i], SEND, RESPONSE);
}
END_TEST

/* Many FPDUs, so that markers fall on every place of an FPDU. */
START_TEST(S028_S029_markers_everywhere)
{
    const struct connection connection = { .markers_out = true, .no_crc = _i };
    uint32_t markers = 0;

    wire_open(&connection);
    for (uint32_t i = 0; i < 600; i++) {
        one(i % 3 ? SEND : WRITE, i - i / 3, 0, (i * 5) % 77);
        markers += wire.seen.markers;
        if (i % 3 == 0)
            continue;
        ck_assert_uint_eq(wire.seen.qn, 0);
    }
    ck_assert_uint_gt(markers, 20);
}
END_TEST

/* FPDUs of the largest size that the protocol allows, not larger. */
START_TEST(S023_longest_ulpdu)
{
    static const char *const options[] = { "fpdu", "max", NULL };
    uint32_t length = 0;

    region_free(wire.side, &source);
    wire_teardown();
    open_with(options);
    wire_open(NULL);
    side_send(wire.side, 1, region_sge(&source, 0, 200000));
    for (uint32_t at = 0; at < 200000; at += wire.seen.payload_length) {
        ck_assert(wire_next());
        length = length < wire.seen.length ? wire.seen.length : length;
        ck_assert(!memcmp(wire.seen.payload, source.octets + at, wire.seen.payload_length));
    }
    ck_assert(wire.seen.last);
    ck_assert_uint_eq(length, 64768);
}
END_TEST

/* The elements of a request make one message, in their order: lengths 1, 0 and primes, up to eight
 * elements. */
START_TEST(S033_S056_several_elements)
{
    static const uint32_t parts[] = { 1, 0, 3, 511, 0, 257, 1031, 2 };
    const struct connection connection = { .maxseg = _i < 3 ? 536 : 0, .no_crc = _i % 2 };
    struct ri_sge sges[8];
    uint8_t data[4096];
    uint32_t length = 0, at = 0;

    wire_open(&connection);
    for (uint32_t count = 0; count <= 8; count++) {
        for (uint32_t i = 0; i < count; i++) {
            sges[i] = region_sge(&source, i * 3000 + i, parts[i]);
            memcpy(data + at, source.octets + i * 3001, parts[i]);
            at += parts[i];
        }
        length = at;
        at = 0;
        post((enum kind)(_i % 3), count, sges, count, 1000, 9);
        message((enum kind)(_i % 3), count + 1, 9, 1000, data, length);
        side_expect(wire.side, wire.side->send_cq, count, RI_WC_SUCCESS, length);
    }
}
END_TEST

/* Each queue has its own MSN sequence, tagged messages have none; 0 follows 2^32 - 1. */
START_TEST(S037_message_numbers)
{
    struct iwarp_qp *qp = qp_of(wire.side);
    struct ri_sge sge = region_sge(&source, 0, 4);
    uint32_t first = _i ? 0xfffffffe : 1;

    wire_open(NULL);
    if (_i)
        qp->tx.send_msn = qp->tx.read_msn = first;
    for (uint32_t i = 0; i < 5; i++) {
        post(WRITE, 1, &sge, 1, 0, 1);
        post(SEND, 2, &sge, 1, 0, 0);
        post(SEND_SE, 3, &sge, 1, 0, 0);
        side_read(wire.side, 4, sge, 0, 1);
        wire_expect(true, OP_WRITE, 4);
        wire_expect(true, OP_SEND, 4);
        ck_assert_uint_eq(wire.seen.msn, first + 2 * i);
        wire_expect(true, OP_SEND_SE, 4);
        ck_assert_uint_eq(wire.seen.msn, first + 2 * i + 1);
        wire_expect(true, OP_READ, READ_LEN);
        ck_assert_uint_eq(wire.seen.msn, first + i);
    }
}
END_TEST

/* ---- several messages ---- */

/* Messages leave in the order of the posts, whatever their types, unsignalled ones too. No
 * Terminate, nothing else (S-045). */
START_TEST(S036_S045_S046_order_of_posts)
{
    const struct connection connection = { .maxseg = 536, .ord = 16 };
    uint32_t msn = 1, reads = 0;
    uint8_t posted[40];

    wire_open(&connection);
    for (uint32_t i = 0; i < 40; i++) {
        struct ri_sge sge = region_sge(&source, i * 1000, (uint32_t)tc_below(&rng, 1500));

        posted[i] = (uint8_t)tc_below(&rng, reads < 16 ? 4 : 3);
        reads += posted[i] == 3;
        if (posted[i] == 3)
            side_read(wire.side, i, sge, i, i);
        else
            post((enum kind)posted[i], i, &sge, 1, i * 0x100000, i);
        sge.length = 0;
    }
    for (uint32_t i = 0; i < 40; i++) {
        do {
            ck_assert(wire_next());
            ck_assert_uint_eq(wire.seen.op, posted[i] == 3 ? OP_READ : ops[posted[i]]);
            if (posted[i] < 2)
                ck_assert_uint_eq(wire.seen.msn, msn);
            if (posted[i] == 2)
                ck_assert_uint_eq(wire.seen.stag, i);
            if (posted[i] == 3)
                ck_assert_uint_eq(get32(wire.seen.payload + 16), i);
        } while (!wire.seen.last);
        msn += posted[i] < 2;
    }
    ck_assert(wire_alive());
}
END_TEST

/* ---- Reads ---- */

START_TEST(S048_read_request)
{
    const uint32_t length = (uint32_t[]){ 1, 0, 4096, ROOM }[_i];
    const struct seen *seen = &wire.seen;

    wire_open(NULL);
    side_read(wire.side, 1, region_sge(&source, 0, length), 0x1122334455667788, 0x99aabbcc);
    wire_expect(true, OP_READ, READ_LEN);
    ck_assert_uint_eq(seen->qn, 1);
    ck_assert_uint_eq(seen->msn, 1);
    ck_assert_uint_eq(seen->mo, 0);
    ck_assert_uint_eq(get32(seen->payload + 12), length);
    ck_assert_uint_eq(get32(seen->payload + 16), 0x99aabbcc);
    ck_assert_uint_eq(get64(seen->payload + 20), 0x1122334455667788);
    if (length) {
        ck_assert_uint_eq(get32(seen->payload), source.keys.lkey);
        ck_assert_uint_eq(get64(seen->payload + 4), (uintptr_t)source.octets);
    }
}
END_TEST

/* ORD Reads leave, and requests behind them wait too. A response makes room for exactly one. */
START_TEST(S049_not_more_than_ord)
{
    const struct connection connection = { .ord = (uint32_t[]){ 1, 2, 8 }[_i] };
    struct ri_sge sge = region_sge(&source, 0, 4);

    wire_open(&connection);
    for (uint32_t i = 0; i < connection.ord + 3; i++)
        side_read(wire.side, i, sge, i, i);
    post(SEND, 100, &sge, 1, 0, 0);
    for (uint32_t i = 0; i < connection.ord; i++)
        wire_expect(true, OP_READ, READ_LEN);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(wire_silent());
        peer_ulpdu(ulpdu, put_response(ulpdu, true, source.keys.lkey, (uintptr_t)source.octets,
                                       "data", 4));
        wire_expect(true, OP_READ, READ_LEN);
        ck_assert_uint_eq(wire.seen.msn, connection.ord + i + 1);
    }
    wire_expect(true, OP_SEND, 4);
}
END_TEST

/* ---- the stream ---- */

START_TEST(S030_no_delay)
{
    socklen_t length = sizeof(int);
    int on = 0;

    wire_open(NULL);
    ck_assert_int_eq(getsockopt(wire.peer.qp_fd, IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
    ck_assert_int_ne(on, 0);
}
END_TEST

/* Revisions 1 and 2 of MPA both use version 1 of DDP and RDMAP: wire_next() checks it. */
START_TEST(S031_S032_S043_versions)
{
    const struct connection connection = { .revision = (uint8_t)(1 + _i) };

    wire_open(&connection);
    wire_goes_on(1, 1, 1);
    one(SEND, 1, 0, 10);
    side_read(wire.side, 2, region_sge(&source, 0, 8), 1, 1);
    wire_expect(true, OP_READ, READ_LEN);
    wire_refused(ulpdu, put_send(ulpdu, true, 9, 0, NULL, 0), 0x1203, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* The socket is full in the middle of an FPDU: output continues at that octet, and Responses do not
 * interrupt messages. */
START_TEST(S022_S036_S051_socket_full)
{
    const uint32_t length = 8u << 20;
    const struct connection connection = { .maxseg = _i ? 1460 : 0 };
    struct region big = region_new(wire.side, length, TESTBED_ALL);
    uint32_t left[2] = { length, length };
    int inside = -1;

    tc_fill(&rng, big.octets, length);
    wire_open(&connection);
    side_write(wire.side, 1, region_sge(&big, 0, length), 0, 1);
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 2, 0, length, big.keys.rkey, (uintptr_t)big.octets));
    wire_pass(20); /* the peer does not read */
    while (left[0] || left[1]) {
        int which;

        ck_assert(wire_next());
        which = wire.seen.op == OP_RESPONSE;
        ck_assert(inside < 0 || inside == which);
        ck_assert_uint_eq(wire.seen.stag, which + 1);
        ck_assert_uint_eq(wire.seen.to, length - left[which]);
        ck_assert(!memcmp(wire.seen.payload, big.octets + length - left[which],
                          wire.seen.payload_length));
        left[which] -= wire.seen.payload_length;
        ck_assert_int_eq(wire.seen.last, left[which] == 0);
        inside = wire.seen.last ? -1 : which;
    }
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, length);
}
END_TEST

/*
 * Data that the consumer may change is read once: the list of elements at the post, the source of a
 * Response when its segment is built. Each FPDU is consistent (wire_next checks its CRC), has the
 * requested lengths and offsets, and holds one of both patterns.
 */
START_TEST(X013_what_changes_meanwhile)
{
    const uint32_t length = 8u << 20;
    struct region big = region_new(wire.side, length, TESTBED_ALL);
    struct ri_sge sge = region_sge(&source, 0, 1000);
    uint32_t at = 0;

    memset(big.octets, 0x11, length);
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 2, 0, length, big.keys.rkey, (uintptr_t)big.octets));
    wire_pass(20); /* the peer does not read: the Send waits */
    post(SEND, 1, &sge, 1, 0, 0);
    memset(&sge, 0xff, sizeof(sge));
    memset(big.octets, 0x22, length);
    while (at < length) {
        ck_assert(wire_next());
        ck_assert_uint_eq(wire.seen.op, OP_RESPONSE);
        ck_assert_uint_eq(wire.seen.to, at);
        ck_assert(wire.seen.payload[0] == 0x11 || wire.seen.payload[0] == 0x22);
        at += wire.seen.payload_length;
    }
    ck_assert_uint_eq(at, length);
    ck_assert_uint_eq(wire.seen.payload[0], 0x22); /* it changed in between */
    message(SEND, 1, 0, 0, source.octets, 1000);
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: transmit");
    TCase *tc = tc_case(suite, "sender", setup, teardown);

    tcase_set_timeout(tc, 120);
    tc_add_loops(tc, 0, PLAIN_SHAPES, S033_S034_S035_S037_S038_S040_S041_S054_sends,
                 S033_S034_S035_S039_S040_S041_S056_writes,
                 S033_S034_S035_S039_S041_S050_S052_responses);
    tcase_add_loop_test(tc, S022_S024_S026_S027_S032_S043_S044_X010_every_fpdu, 0, 2);
    tcase_add_loop_test(tc, S024_S026_S028_S029_with_markers, 0, MARKER_SHAPES);
    tcase_add_loop_test(tc, S028_S029_markers_everywhere, 0, 2);
    tcase_add_test(tc, S023_longest_ulpdu);
    tcase_add_loop_test(tc, S033_S056_several_elements, 0, 6);
    tcase_add_loop_test(tc, S037_message_numbers, 0, 2);
    tcase_add_test(tc, S036_S045_S046_order_of_posts);
    tcase_add_loop_test(tc, S048_read_request, 0, 4);
    tcase_add_loop_test(tc, S049_not_more_than_ord, 0, 3);
    tc_add_tests(tc, X013_what_changes_meanwhile, S030_no_delay);
    tc_add_loops(tc, 0, 2, S031_S032_S043_versions, S022_S036_S051_socket_full);
    return tc_main(suite);
}

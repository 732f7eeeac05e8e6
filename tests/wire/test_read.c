/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 9: RDMA Read Requests of the peer (C-104 to C-117). */
#include "peer.h"

#include "providers/software/iwarp/wire_iwarp.h" /* sets an MSN that would take days to reach */

#define BIG (8u << 20)
#define ASK (UNTAGGED_LEN + READ_LEN)

static uint8_t ulpdu[512];

static void refuse(uint32_t length, uint16_t value, enum ri_event_type event)
{
    wire_refused(ulpdu, length, value, event);
    wire_flushed(1);
}

/* A Read from this source, the first one of the connection. */
static void refuse_source(uint32_t stag, uint64_t to, uint32_t size, uint16_t value)
{
    wire_open(NULL);
    put_read(ulpdu, 1, 0x5a5a5a5a, 0x1122334455667788, size, stag, to);
    refuse(ASK, value, RI_EVENT_READ_ACCESS);
}

static void answered(uint32_t msn, uint32_t size)
{
    peer_ulpdu(ulpdu, put_read(ulpdu, msn, 1, 2, size, env_stag(ENV_R), wire.base[ENV_R]));
    wire_expect(true, OP_RESPONSE, size);
}

/* ---- the message ---- */

START_TEST(C104_payload_not_of_28_octets)
{
    const uint32_t octets = (uint32_t[]){ 0, 1, 12, 27, 29, 30, 31, 32, 52, 300 }[_i];

    wire_open(NULL);
    put_read(ulpdu, 1, 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    refuse(UNTAGGED_LEN + octets, octets < READ_LEN ? 0x1000 : 0x1205, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

START_TEST(C105_offset)
{
    wire_open(NULL);
    put_read(ulpdu, 1, 1, 2, _i ? 4 : 0, env_stag(ENV_R), wire.base[ENV_R]);
    put32(ulpdu + 14, (uint32_t[]){ 1, 28, 0x80000000, 0xffffffff }[_i]);
    refuse(ASK, 0x1204, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

START_TEST(C106_msn)
{
    const uint32_t first[] = { 0, 2, 0xffffffff, 0x80000001 }, third[] = { 1, 2, 4, 0 };

    wire_open(NULL);
    if (_i >= 4) {
        answered(1, 4);
        answered(2, 4);
    }
    put_read(ulpdu, _i < 4 ? first[_i] : third[_i - 4], 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    refuse(ASK, 0x1203, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* The MSN of Reads is a sequence of its own, independent of Sends, and wraps. */
START_TEST(C106_msn_wraps)
{
    struct iwarp_qp *qp = qp_of(wire.side);

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, "x", 1));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 1);
    env_restore();
    qp->rx.expect_read_msn = 0xfffffffe;
    answered(0xfffffffe, 4);
    answered(0xffffffff, 4);
    answered(0, 4);
    if (!_i)
        answered(1, 4);
    put_read(ulpdu, _i ? 0xffffffff : 3, 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    wire_refused(ulpdu, ASK, 0x1203, RI_EVENT_REMOTE_OPERATION);
    wire_flushed(2);
}
END_TEST

/* ---- depth ---- */

/* IRD requests that wait because the socket has no room for responses; one more is an error. */
START_TEST(C107_X016_more_than_ird)
{
    const struct connection connection = { .ird = (uint32_t[]){ 1, 2, 8, 128 }[_i] };
    struct region big;

    wire_open(&connection);
    big = region_new(wire.side, BIG, TESTBED_ALL);
    for (uint32_t msn = 1; msn <= connection.ird; msn++)
        peer_ulpdu(ulpdu, put_read(ulpdu, msn, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets));
    wire_pass(10);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    put_read(ulpdu, connection.ird + 1, 1, 2, 1, big.keys.rkey, (uintptr_t)big.octets);
    refuse(ASK, 0x1203, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* A zero-length Read counts like any other. */
START_TEST(C107_C109_of_no_length_too)
{
    const struct connection connection = { .ird = 1 };
    struct region big;

    wire_open(&connection);
    big = region_new(wire.side, BIG, TESTBED_ALL);
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets));
    put_read(ulpdu, 2, 1, 2, 0, 0, 0);
    refuse(ASK, 0x1203, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* An IRD entry is free again when its response has left. */
START_TEST(C107_places_are_used_again)
{
    const struct connection connection = { .ird = 1 };

    wire_open(&connection);
    for (uint32_t msn = 1; msn <= 300; msn++)
        answered(msn, msn % 8);
    wire_goes_on(1, 301, 1);
}
END_TEST

START_TEST(C108_read_not_enabled)
{
    const struct connection off = { .no_read = true }, none = { .no_ird = true };

    wire_open(_i < 2 ? &off : &none);
    put_read(ulpdu, 1, 1, 2, _i % 2 ? 4 : 0, env_stag(ENV_R), wire.base[ENV_R]);
    refuse(ASK, 0x1201, RI_EVENT_READ_ACCESS);
}
END_TEST

/* STag and TO of the source are not checked; those of the sink come back. */
START_TEST(C109_C115_X007_of_no_length)
{
    const uint32_t stags[] = { 0, 1, 0xffffffff, env_stag(ENV_W), env_stag(ENV_OPD) };
    const uint64_t tos[] = { 0, UINT64_MAX, 1, wire.base[ENV_W], 1ull << 63 };

    wire_open(NULL);
    for (uint32_t i = 0; i < 5; i++) {
        peer_ulpdu(ulpdu, put_read(ulpdu, i + 1, stags[4 - i], tos[4 - i], 0, stags[i], tos[i]));
        wire_expect(true, OP_RESPONSE, 0);
        ck_assert_uint_eq(wire.seen.stag, stags[4 - i]);
        ck_assert_uint_eq(wire.seen.to, tos[4 - i]);
    }
    wire_goes_on(1, 6, 1);
}
END_TEST

/* ---- the source ---- */

START_TEST(C110_source_stag)
{
    struct region gone = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    uint32_t stag = env_stag(ENV_R);

    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(gone.mr), RI_OK);
    refuse_source(0, wire.base[ENV_R], 4, 0x0100);
    for (uint32_t key = 1; key < 256; key *= 2)
        refuse_source(stag ^ key, wire.base[ENV_R], 4, 0x0100);
    refuse_source(stag ^ 0x5a5a5a00, wire.base[ENV_R], 4, 0x0100);
    refuse_source(gone.keys.rkey, (uintptr_t)gone.octets, 4, 0x0100);
    gone.mr = NULL;
}
END_TEST

START_TEST(C111_X003_source_of_another_pd)
{
    refuse_source(env_stag(ENV_OPD), wire.base[ENV_OPD], 1, 0x0103);
    refuse_source(env_stag(ENV_OPD), wire.base[ENV_OPD], REGION_LEN, 0x0103);
}
END_TEST

START_TEST(C111_X004_window_of_another_qp)
{
    uint32_t stag;

    wire_open(NULL);
    stag = wire_window(_i, RI_ACCESS_REMOTE_READ);
    put_read(ulpdu, 1, 1, 2, 4, stag, wire.base[ENV_A]);
    if (!_i) {
        refuse(ASK, 0x0103, RI_EVENT_READ_ACCESS);
        return;
    }
    peer_ulpdu(ulpdu, ASK);
    wire_expect(true, OP_RESPONSE, 4);
}
END_TEST

/* Allocated, but made invalid. */
START_TEST(C110_source_invalidated)
{
    wire_open(NULL);
    answered(1, 4);
    wire_invalidate(env_stag(ENV_R));
    put_read(ulpdu, 2, 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    refuse(ASK, 0x0100, RI_EVENT_READ_ACCESS);
}
END_TEST

START_TEST(C112_X007_no_remote_read)
{
    enum env env = _i ? ENV_LOC : ENV_W;

    refuse_source(env_stag(env), wire.base[env], 1, 0x0102);
    refuse_source(env_stag(env), wire.base[env], REGION_LEN, 0x0102);
}
END_TEST

/* The sum 2^64 itself does not wrap. */
START_TEST(C113_C114_X005_wrap)
{
    uint32_t stag = env_stag(_i ? ENV_ZERO : ENV_R);

    refuse_source(stag, UINT64_MAX - 3, 4, 0x0101);
    refuse_source(stag, UINT64_MAX - 3, 5, 0x0104);
    refuse_source(stag, UINT64_MAX, 1, 0x0101);
    refuse_source(stag, UINT64_MAX, 2, 0x0104);
    refuse_source(stag, UINT64_MAX, 0xffffffff, 0x0104);
    refuse_source(stag, UINT64_MAX - 0xfffffffe, 0xffffffff, 0x0101);
    refuse_source(stag, UINT64_MAX - 0xfffffffd, 0xffffffff, 0x0104);
}
END_TEST

START_TEST(C114_bounds)
{
    enum env env = _i ? ENV_ZERO : ENV_R;
    uint64_t base = wire.base[env], end = base + REGION_LEN;
    uint32_t stag = env_stag(env);

    if (base) {
        refuse_source(stag, base - 1, 1, 0x0101);
        refuse_source(stag, base - 4, 5, 0x0101);
        refuse_source(stag, 0, 1, 0x0101);
    }
    refuse_source(stag, end, 1, 0x0101);
    refuse_source(stag, end - 1, 2, 0x0101);
    refuse_source(stag, base, REGION_LEN + 1, 0x0101);
    refuse_source(stag, base, 0xffffffff, 0x0101);
    refuse_source(stag, base + (1ull << 32), 1, 0x0101);
    refuse_source(stag, base ^ 1ull << 63, 1, 0x0101);
}
END_TEST

START_TEST(C114_X005_to_the_octet)
{
    enum env env = _i ? ENV_ZERO : ENV_R;
    const uint32_t places[][2] = { { 0, 1 },    { 0, REGION_LEN },     { REGION_LEN - 1, 1 },
                                   { 4092, 4 }, { 1, REGION_LEN - 1 }, { 2049, 1 } };

    wire_open(NULL);
    for (uint32_t i = 0; i < REGION_LEN; i++)
        wire.env[env].octets[i] = (uint8_t)(i ^ i >> 8);
    for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const uint32_t *place = places[i];

        peer_ulpdu(ulpdu, put_read(ulpdu, i + 1, 7, 8, place[1], env_stag(env),
                                   wire.base[env] + place[0]));
        wire_expect(true, OP_RESPONSE, place[1]);
        ck_assert(env_is(env, place[0], wire.seen.payload, place[1]));
    }
}
END_TEST

/* The sink belongs to the requester: zero, one of the QP's STags, the end of the address range. */
START_TEST(C115_sink_is_opaque)
{
    const uint32_t stags[] = { 0, env_stag(ENV_OPD), 0xffffffff, env_stag(ENV_R) };
    const uint64_t tos[] = { 0, UINT64_MAX, UINT64_MAX - 3, wire.base[ENV_R] };

    wire_open(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        peer_ulpdu(ulpdu,
                   put_read(ulpdu, i + 1, stags[i], tos[i], 8, env_stag(ENV_R), wire.base[ENV_R]));
        wire_expect(true, OP_RESPONSE, 8);
        ck_assert_uint_eq(wire.seen.stag, stags[i]);
        ck_assert_uint_eq(wire.seen.to, tos[i]);
    }
    ck_assert(env_untouched());
}
END_TEST

/* ---- revoked in progress ---- */

/* Reads responses up to the Terminate; returns the octets that were answered. */
static uint32_t answered_so_far(uint64_t sink_to)
{
    uint32_t octets = 0;

    for (;;) {
        ck_assert(wire_next());
        if (wire.seen.op != OP_RESPONSE)
            return octets;
        ck_assert(!wire.seen.last);
        ck_assert_uint_eq(wire.seen.to, sink_to + octets);
        octets += wire.seen.payload_length;
    }
}

/* Checks the Terminate in wire.seen: headers of `cause`, with the Read header advanced by the
 * answered octets. */
static void advanced(const uint8_t *cause, uint32_t octets)
{
    uint8_t expected[ASK + 24];
    const uint8_t *seen = wire.seen.payload;

    put32(expected, 0x0100e000);
    put16(expected + 4, ASK);
    memcpy(expected + 6, cause, ASK);
    put64(expected + 6 + 22, get64(cause + 22) + octets);
    put32(expected + 6 + 30, get32(cause + 30) - octets);
    put64(expected + 6 + 38, get64(cause + 38) + octets);
    ck_assert_int_eq(wire.seen.op, OP_TERMINATE);
    ck_assert_uint_eq(wire.seen.payload_length, 6 + ASK);
    for (uint32_t i = 0; i < 6 + ASK; i++)
        ck_assert_msg(seen[i] == expected[i], "octet %u of the Terminate: %02x, not %02x", i,
                      seen[i], expected[i]);
    wire_fin();
    side_expect_event(wire.side, RI_EVENT_READ_ACCESS, 0x0100);
    wire_flushed(1);
}

/* The peer reads nothing until the source is revoked. */
START_TEST(C116_S058_X006_revoked_under_way)
{
    struct region big = region_new(wire.side, BIG, TESTBED_ALL);
    uint32_t octets;

    wire_open(NULL);
    put_read(ulpdu, 1, 0xabcdef01, 0x1122334455667788, BIG - 5, big.keys.rkey,
             (uintptr_t)big.octets + 5);
    if (_i) { /* ignored fields come back too */
        ulpdu[0] |= 0x3c;
        ulpdu[1] |= 0x30;
        put32(ulpdu + 2, 0xfeedface);
    }
    peer_ulpdu(ulpdu, ASK);
    wire_pass(20);
    ck_assert_uint_eq(atomic_load(&wire.side->events.count), 0);
    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(big.mr), RI_OK);
    big.mr = NULL;
    octets = answered_so_far(0x1122334455667788);
    ck_assert_uint_gt(octets, 0);
    ck_assert_uint_lt(octets, BIG - 5);
    advanced(ulpdu, octets);
}
END_TEST

/* The second of two Reads, before its turn came: the header has its original values. */
START_TEST(C116_revoked_before_its_turn)
{
    struct region big = region_new(wire.side, BIG, TESTBED_ALL), other;

    wire_open(NULL);
    other = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 1, 2, BIG, big.keys.rkey, (uintptr_t)big.octets));
    put_read(ulpdu, 2, 0xabcdef01, 0x1122334455667788, 99, other.keys.rkey,
             (uintptr_t)other.octets + 5);
    peer_ulpdu(ulpdu, ASK);
    wire_pass(20);
    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(other.mr), RI_OK);
    other.mr = NULL;
    for (uint32_t octets = 0; octets < BIG; octets += wire.seen.payload_length) {
        ck_assert(wire_next());
        ck_assert_int_eq(wire.seen.op, OP_RESPONSE);
    }
    ck_assert(wire.seen.last);
    ck_assert(wire_next());
    advanced(ulpdu, 0);
}
END_TEST

/* ---- order ---- */

/* A Read behind a Write of the same peer sees its data. Responses come in order, and none
 * interrupts another. */
START_TEST(C117_S051_S053_in_order)
{
    const struct connection small = { .maxseg = 536 };

    wire_open(&small);
    for (uint32_t i = 0; i < 8; i++) {
        memset(ulpdu + TAGGED_LEN, (int)i + 1, 100);
        peer_ulpdu(ulpdu,
                   put_write(ulpdu, true, env_stag(ENV_A), wire.base[ENV_A] + i * 500, NULL, 100));
        peer_ulpdu(ulpdu, put_read(ulpdu, i + 1, i, i * 0x10000, 100 + i * 400, env_stag(ENV_A),
                                   wire.base[ENV_A] + i * 100));
    }
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t octets = 0; octets < 100 + i * 400; octets += wire.seen.payload_length) {
            ck_assert(wire_next());
            ck_assert_int_eq(wire.seen.op, OP_RESPONSE);
            ck_assert_uint_eq(wire.seen.stag, i);
            ck_assert_uint_eq(wire.seen.to, i * 0x10000 + octets);
            ck_assert_int_eq(wire.seen.last, octets + wire.seen.payload_length == 100 + i * 400);
            if (i * 400 >= octets && i * 400 < octets + wire.seen.payload_length)
                ck_assert_uint_eq(wire.seen.payload[i * 400 - octets], i + 1);
        }
    }
    ck_assert(wire_alive());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: Read Request");
    TCase *tc = tc_case(suite, "receiver", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C104_payload_not_of_28_octets, 0, 10);
    tcase_add_loop_test(tc, C105_offset, 0, 4);
    tcase_add_loop_test(tc, C106_msn, 0, 8);
    tcase_add_loop_test(tc, C106_msn_wraps, 0, 2);
    tcase_add_loop_test(tc, C107_X016_more_than_ird, 0, 4);
    tc_add_tests(tc, C107_C109_of_no_length_too, C107_places_are_used_again);
    tcase_add_loop_test(tc, C108_read_not_enabled, 0, 4);
    tc_add_tests(tc, C109_C115_X007_of_no_length, C110_source_stag, C111_X003_source_of_another_pd);
    tcase_add_loop_test(tc, C111_X004_window_of_another_qp, 0, 2);
    tcase_add_test(tc, C110_source_invalidated);
    tc_add_loops(tc, 0, 2, C112_X007_no_remote_read, C113_C114_X005_wrap, C114_bounds,
                 C114_X005_to_the_octet);
    tcase_add_test(tc, C115_sink_is_opaque);
    tcase_add_loop_test(tc, C116_S058_X006_revoked_under_way, 0, 2);
    tc_add_tests(tc, C116_revoked_before_its_turn, C117_S051_S053_in_order);
    return tc_main(suite);
}

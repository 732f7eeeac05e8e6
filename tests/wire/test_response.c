/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 8: RDMA Read Responses to Reads of the QP (C-095 to C-103). */
#include "peer.h"

static uint8_t ulpdu[2048], data[256];

/* The QP's last Read Request. */
static struct {
    uint32_t stag;
    uint64_t to;
    uint32_t size;
} sink;

static void setup(void)
{
    wire_setup();
    for (uint32_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + 1);
}

/* Posts a Read of the QP into octets of a region and reads its Request. */
static void read_into(enum env env, uint64_t cookie, uint64_t offset, uint32_t length)
{
    struct ri_sge sge = region_sge(&wire.env[env], offset, length);

    sge.lkey = wire.env[env].keys.lkey;
    if (env == ENV_ZERO)
        sge.addr = offset;
    side_read(wire.side, cookie, sge, 0x1000, 0x77);
    wire_expect(true, OP_READ, READ_LEN);
    sink.stag = get32(wire.seen.payload);
    sink.to = get64(wire.seen.payload + 4);
    sink.size = get32(wire.seen.payload + 12);
    ck_assert_uint_eq(sink.size, length);
}

static void respond(bool last, uint64_t offset, uint32_t length)
{
    peer_ulpdu(ulpdu,
               put_response(ulpdu, last, sink.stag, sink.to + offset, data + offset, length));
}

static void done(uint64_t cookie, uint32_t length)
{
    side_expect(wire.side, wire.side->send_cq, cookie, RI_WC_SUCCESS, length);
}

/* The ULPDU ends the connection, and the Read fails. */
static void fails(uint32_t length, uint16_t value, uint64_t cookie, enum ri_wc_status status)
{
    env_restore();
    wire_refused(ulpdu, length, value, RI_EVENT_RESPONSE_ERROR);
    side_expect(wire.side, wire.side->send_cq, cookie, status, 0);
    wire_flushed(1);
}

/* ---- with and without a request ---- */

START_TEST(C095_nobody_asked)
{
    wire_open(NULL);
    if (_i > 1) { /* an answered one is not outstanding any more */
        read_into(ENV_A, 1, 0, 8);
        respond(true, 0, 8);
        done(1, 8);
        env_restore();
    }
    wire_refused(ulpdu,
                 put_response(ulpdu, true, env_stag(ENV_A), wire.base[ENV_A], data, _i % 2 ? 0 : 4),
                 0x0206, RI_EVENT_BAD_OPCODE);
    wire_flushed(1);
}
END_TEST

/* The second of two Reads is answered first: another sink in the same region has the wrong offset,
 * one in another region the wrong STag. */
START_TEST(C095_C096_C097_out_of_order)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, 8);
    read_into(_i ? ENV_LOC : ENV_A, 2, 100, 8);
    env_restore();
    wire_refused(ulpdu, put_response(ulpdu, true, sink.stag, sink.to, data, 8),
                 _i ? 0x1100 : 0x1101, RI_EVENT_RESPONSE_ERROR);
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_BAD_RESPONSE, 0);
    side_expect(wire.side, wire.side->send_cq, 2, RI_WC_FLUSHED, 0);
    wire_flushed(1);
}
END_TEST

/* ---- sink ---- */

START_TEST(C096_other_stag)
{
    const uint32_t stags[] = { env_stag(ENV_A) ^ 1, env_stag(ENV_A) ^ 0x100, 0,
                               env_stag(ENV_W),     env_stag(ENV_OPD),       0xffffffff };

    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    if (_i > 5)
        respond(false, 0, 8);
    ck_assert(wire_alive());
    put_response(ulpdu, true, stags[_i % 6], sink.to + (_i > 5 ? 8 : 0), data, _i > 5 ? 8 : 16);
    fails(TAGGED_LEN + (_i > 5 ? 8 : 16), 0x1100, 1, RI_WC_BAD_RESPONSE);
}
END_TEST

START_TEST(C097_other_offset)
{
    const uint64_t offsets[] = { 1, UINT64_MAX, 8, 1ull << 32, 1ull << 63 };

    wire_open(NULL);
    read_into(_i < 5 ? ENV_A : ENV_ZERO, 1, 0, 16);
    fails(put_response(ulpdu, true, sink.stag, sink.to + offsets[_i % 5], data, 16), 0x1101, 1,
          RI_WC_BAD_RESPONSE);
}
END_TEST

/* Eight of sixteen octets are placed; the next segment repeats them, overlaps them, or leaves a
 * gap. */
START_TEST(C097_next_offset)
{
    const uint64_t offsets[] = { 0, 7, 9, 16 };

    wire_open(NULL);
    read_into(ENV_A, 1, 64, 16);
    respond(false, 0, 8);
    ck_assert(wire_alive());
    fails(put_response(ulpdu, true, sink.stag, sink.to + offsets[_i], data, 8), 0x1101, 1,
          RI_WC_BAD_RESPONSE);
}
END_TEST

/* ---- length ---- */

/* Sixteen octets were requested; the last segment has the wrong number of them. */
static void in_two(uint32_t first, uint32_t second, uint16_t value)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    if (first)
        respond(false, 0, first);
    ck_assert(wire_alive());
    fails(put_response(ulpdu, true, sink.stag, sink.to + first, data, second), value, 1,
          RI_WC_LOCAL_LENGTH);
}

START_TEST(C098_too_much)
{
    in_two((uint32_t[]){ 0, 0, 8, 15, 16 }[_i], (uint32_t[]){ 17, 64, 9, 2, 1 }[_i], 0x1101);
}
END_TEST

START_TEST(C098_read_of_no_length)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, 0);
    fails(put_response(ulpdu, true, sink.stag, sink.to, data, 1), 0x1101, 1, RI_WC_LOCAL_LENGTH);
}
END_TEST

START_TEST(C099_too_little)
{
    in_two((uint32_t[]){ 0, 0, 8, 8, 15 }[_i], (uint32_t[]){ 15, 0, 7, 0, 0 }[_i], 0x0207);
}
END_TEST

/* All octets come without L: a zero-length segment with L ends the message. */
START_TEST(C100_last_behind_the_data)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    respond(false, 0, 16);
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    peer_ulpdu(ulpdu, put_response(ulpdu, true, _i ? 0 : sink.stag, sink.to + 16, NULL, 0));
    done(1, 16);
    ck_assert(env_is(ENV_A, 0, data, 16));
    wire_goes_on(1, 1, 1);
}
END_TEST

/* All octets came without L: a further segment without L is an error. A zero-length Read has all
 * its octets with the first segment. */
START_TEST(C100_no_last)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, _i ? 0 : 16);
    respond(false, 0, _i ? 0 : 16);
    ck_assert(wire_alive());
    fails(put_response(ulpdu, false, sink.stag, sink.to + (_i ? 0 : 16), NULL, 0), 0x0207, 1,
          RI_WC_BAD_RESPONSE);
}
END_TEST

/* The next Read's response does not complete this one. */
START_TEST(C100_next_response_instead)
{
    uint64_t first;

    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    first = sink.to;
    read_into(ENV_A, 2, 16, 16);
    peer_ulpdu(ulpdu, put_response(ulpdu, false, sink.stag, first, data, 16));
    ck_assert(wire_alive());
    env_restore();
    wire_refused(ulpdu, put_response(ulpdu, true, sink.stag, sink.to, data, 16), 0x1101,
                 RI_EVENT_RESPONSE_ERROR);
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_LOCAL_LENGTH, 0);
    side_expect(wire.side, wire.side->send_cq, 2, RI_WC_FLUSHED, 0);
    wire_flushed(1);
}
END_TEST

/* STag and TO of a response without data are ignored. */
START_TEST(C101_read_of_no_length)
{
    const uint32_t stag = (uint32_t[]){ 0, 1, 0xffffffff, env_stag(ENV_OPD) }[_i];

    wire_open(NULL);
    read_into(ENV_A, 1, 0, 0);
    peer_ulpdu(ulpdu, put_response(ulpdu, true, stag, UINT64_MAX, NULL, 0));
    done(1, 0);
    ck_assert(env_untouched());
    wire_goes_on(1, 1, 1);
}
END_TEST

/* Zero-length segments in the middle have no effect. */
START_TEST(C101_segments_of_no_length)
{
    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    for (int i = 0; i < 50; i++)
        peer_ulpdu(ulpdu, put_response(ulpdu, false, 0, 0, NULL, 0));
    respond(false, 0, 7);
    for (int i = 0; i < 50; i++)
        peer_ulpdu(ulpdu, put_response(ulpdu, false, sink.stag, sink.to + 7, NULL, 0));
    respond(true, 7, 9);
    done(1, 16);
    ck_assert(env_is(ENV_A, 0, data, 16));
    wire_goes_on(1, 1, 1);
}
END_TEST

/* ---- the sink is revoked ---- */

START_TEST(C102_sink_is_gone)
{
    struct region gone = region_new(wire.side, REGION_LEN, TESTBED_ALL);

    wire_open(NULL);
    side_read(wire.side, 1, region_sge(&gone, 0, 16), 0x1000, 0x77);
    wire_expect(true, OP_READ, READ_LEN);
    sink.stag = get32(wire.seen.payload);
    sink.to = get64(wire.seen.payload + 4);
    if (_i)
        respond(false, 0, 8);
    ck_assert(wire_alive());
    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(gone.mr), RI_OK);
    gone.mr = NULL;
    memset(gone.octets, 0, 16);
    put_response(ulpdu, true, sink.stag, sink.to + (_i ? 8 : 0), data, _i ? 8 : 16);
    fails(TAGGED_LEN + (_i ? 8 : 16), 0x1100, 1, RI_WC_LOCAL_PROTECTION);
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(gone.octets[i], 0);
}
END_TEST

/* Local rights suffice for a sink (D-14). */
START_TEST(C102_local_sink)
{
    wire_open(NULL);
    read_into(_i == 0 ? ENV_LOC : _i == 1 ? ENV_W : ENV_ZERO, 1, 9, 33);
    respond(true, 0, 33);
    done(1, 33);
    ck_assert(env_is(_i == 0 ? ENV_LOC : _i == 1 ? ENV_W : ENV_ZERO, 9, data, 33));
}
END_TEST

/* ---- completion ---- */

/* In any segmentation, one completion with the last segment, not before. */
START_TEST(C103_in_segments)
{
    const uint32_t step = (uint32_t)_i + 1, size = 33;

    wire_open(NULL);
    read_into(ENV_A, 1, 5, size);
    for (uint32_t at = 0; at < size; at += step) {
        uint32_t part = size - at < step ? size - at : step;

        ck_assert_int_eq(atomic_load(&wire.side->send_events.count), 0);
        respond(at + part == size, at, part);
    }
    done(1, size);
    ck_assert(env_is(ENV_A, 5, data, size) && env_is(ENV_A, 5 + size, "\xa5", 1));
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    wire_goes_on(1, 1, 1);
}
END_TEST

/* Completions come in the order of the requests: a Write that left long ago waits for the Read
 * before it. Writes and Sends of the peer may come in between. */
START_TEST(C103_S047_in_order)
{
    uint64_t first;

    wire_open(NULL);
    read_into(ENV_A, 1, 0, 16);
    first = sink.to;
    read_into(ENV_A, 2, 100, 8);
    side_write(wire.side, 3, region_sge(&wire.env[ENV_LOC], 0, 4), 0, 1);
    wire_expect(true, OP_WRITE, 4);
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    peer_ulpdu(ulpdu, put_response(ulpdu, false, sink.stag, first, data, 10));
    peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], data, 9));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, data, 11));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 11);
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    peer_ulpdu(ulpdu, put_response(ulpdu, true, sink.stag, first + 10, data + 10, 6));
    done(1, 16);
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    respond(true, 0, 8);
    done(2, 8);
    done(3, 4);
    ck_assert(env_is(ENV_A, 0, data, 16) && env_is(ENV_A, 100, data, 8) &&
              env_is(ENV_W, 0, data, 9));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: Read Response");
    TCase *tc = tc_case(suite, "receiver", setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C095_nobody_asked, 0, 4);
    tcase_add_loop_test(tc, C095_C096_C097_out_of_order, 0, 2);
    tcase_add_loop_test(tc, C096_other_stag, 0, 12);
    tcase_add_loop_test(tc, C097_other_offset, 0, 10);
    tcase_add_loop_test(tc, C097_next_offset, 0, 4);
    tcase_add_loop_test(tc, C098_too_much, 0, 5);
    tcase_add_test(tc, C098_read_of_no_length);
    tcase_add_loop_test(tc, C099_too_little, 0, 5);
    tc_add_loops(tc, 0, 2, C100_last_behind_the_data, C100_no_last);
    tcase_add_test(tc, C100_next_response_instead);
    tcase_add_loop_test(tc, C101_read_of_no_length, 0, 4);
    tcase_add_test(tc, C101_segments_of_no_length);
    tcase_add_loop_test(tc, C102_sink_is_gone, 0, 2);
    tcase_add_loop_test(tc, C102_local_sink, 0, 3);
    tcase_add_loop_test(tc, C103_in_segments, 0, 34);
    tcase_add_test(tc, C103_S047_in_order);
    return tc_main(suite);
}

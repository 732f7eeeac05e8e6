/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 6: Sends, their MSN, buffer, offset and delivery (C-070 to C-080). */
#include "peer.h"

#include "base/compiler.h"

#include "providers/software/iwarp/wire_iwarp.h" /* sets an MSN that would take days to reach */

static const struct connection bare = { .no_receives = true };
static uint8_t ulpdu[2048];

static void sent(uint32_t msn, uint64_t receive)
{
    peer_ulpdu(ulpdu, put_send(ulpdu, true, msn, 0, "data", 4));
    side_expect(wire.side, wire.side->recv_cq, receive, RI_WC_SUCCESS, 4);
}

static void expect_msn(uint32_t msn)
{
    qp_of(wire.side)->rx.expect_send_msn = msn;
}

/* Receive `receive` fails with this status; the others are flushed. */
static void fails(uint64_t receive, uint32_t length, uint16_t value, enum ri_event_type event,
                  enum ri_wc_status status)
{
    env_restore();
    wire_refused(ulpdu, length, value, event);
    side_expect(wire.side, wire.side->recv_cq, receive, status, 0);
    wire_flushed(receive + 1);
}

/* ---- MSN ---- */

static const uint32_t old_msns[] = { 0, 0xffffffff, 0x80000001, 0x80000002 };

START_TEST(C070_msn_below_the_first)
{
    wire_open(NULL);
    wire_refused(ulpdu, put_send(ulpdu, true, old_msns[_i], 0, "data", 4), 0x1203,
                 RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
}
END_TEST

START_TEST(C070_msn_repeats)
{
    wire_open(NULL);
    sent(1, 1);
    sent(2, 2);
    env_restore();
    wire_refused(ulpdu, put_send(ulpdu, true, (uint32_t)_i, 0, "data", _i ? 4 : 0), 0x1203,
                 RI_EVENT_REMOTE_OPERATION);
    wire_flushed(3);
}
END_TEST

static const uint32_t gaps[] = { 2, 3, 0x80000000 };

START_TEST(C071_msn_gap)
{
    wire_open(NULL);
    wire_refused(ulpdu, put_send(ulpdu, true, gaps[_i], 0, "data", 4), 0x1203,
                 RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
}
END_TEST

/* Another MSN in the middle of a message: gap and repetition are both refused. */
START_TEST(C071_C070_msn_changes_inside_a_message)
{
    wire_open(NULL);
    sent(1, 1);
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 2, 0, "data", 4));
    ck_assert(wire_alive());
    env_restore();
    wire_refused(ulpdu, put_send(ulpdu, true, _i ? 3 : 1, 4, "data", 4), 0x1203,
                 RI_EVENT_REMOTE_OPERATION);
    wire_flushed(2);
}
END_TEST

/* ... fffffffe, ffffffff, 0, 1: one sequence. */
START_TEST(C070_C071_msn_wraps)
{
    wire_open(NULL);
    expect_msn(0xfffffffe);
    sent(0xfffffffe, 1);
    sent(0xffffffff, 2);
    sent(0, 3);
    sent(1, 4);
    side_receive(wire.side, 5, region_sge(&wire.env[ENV_RECV], 0, 16));
    env_restore();
    wire_refused(
        ulpdu,
        put_send(ulpdu, true, (uint32_t[]){ 0xffffffff, 0, 3, 0x80000001 }[_i], 0, "data", 4),
        0x1203, RI_EVENT_REMOTE_OPERATION);
    side_expect(wire.side, wire.side->recv_cq, 5, RI_WC_FLUSHED, 0);
}
END_TEST

START_TEST(C070_C071_at_the_wrap)
{
    wire_open(NULL);
    expect_msn(_i < 2 ? 0 : 0xffffffff);
    wire_refused(
        ulpdu,
        put_send(ulpdu, true, (uint32_t[]){ 0xffffffff, 1, 0xfffffffe, 0 }[_i], 0, "data", 4),
        0x1203, RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
}
END_TEST

/* ---- buffers ---- */

/* No receive at all; for a zero-length message too. With no receive posted, a gap in the MSN is
 * still an MSN error. */
START_TEST(C072_X019_no_receive)
{
    wire_open(&bare);
    wire_refused(ulpdu, put_send(ulpdu, _i != 3, _i == 2 ? 2 : 1, 0, "data", _i ? 4 : 0), 0x1202,
                 RI_EVENT_NO_RECEIVE);
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
}
END_TEST

START_TEST(C072_receives_used_up)
{
    wire_open(NULL);
    for (uint32_t msn = 1; msn <= RECEIVES; msn++)
        sent(msn, msn);
    side_receive(wire.side, 5, region_sge(&wire.env[ENV_RECV], 0, 16));
    sent(5, 5); /* a receive that was posted in time */
    env_restore();
    wire_refused(ulpdu, put_send(ulpdu, true, 6, 0, "data", 4), 0x1202, RI_EVENT_NO_RECEIVE);
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
}
END_TEST

/* ---- offset and length ---- */

START_TEST(C073_offset_beyond_the_buffer)
{
    const uint32_t mo = (uint32_t[]){ 257, 258, 0x1000, 0x7fffffff, 0x80000000, 0xffffffff }[_i];

    wire_open(NULL);
    fails(1, put_send(ulpdu, true, 1, mo, "data", 4), 0x1204, RI_EVENT_RECV_LENGTH,
          RI_WC_LOCAL_LENGTH);
}
END_TEST

START_TEST(C074_first_offset)
{
    const uint32_t mo = (uint32_t[]){ 1, 4, 255, 256 }[_i];

    wire_open(NULL);
    fails(1, put_send(ulpdu, true, 1, mo, "data", _i % 2 ? 4 : 0), 0x1204, RI_EVENT_RECV_LENGTH,
          RI_WC_LOCAL_LENGTH);
}
END_TEST

/* 5 octets are placed; the next segment lies before, behind, at the start again, at the end. */
START_TEST(C074_next_offset)
{
    const uint32_t mo = (uint32_t[]){ 4, 6, 0, 256 }[_i];

    wire_open(NULL);
    sent(1, 1);
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 2, 0, "abcde", 5));
    ck_assert(wire_alive());
    fails(2, put_send(ulpdu, true, 2, mo, "f", 1), 0x1204, RI_EVENT_RECV_LENGTH,
          RI_WC_LOCAL_LENGTH);
}
END_TEST

START_TEST(C075_exactly_the_buffer)
{
    uint8_t data[RECEIVE_LEN + 1];

    wire_open(NULL);
    memset(data, 'x', sizeof(data));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, data, RECEIVE_LEN));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, RECEIVE_LEN);
    ck_assert(env_is(ENV_RECV, 0, data, RECEIVE_LEN));
    ck_assert_uint_eq(wire.env[ENV_RECV].octets[RECEIVE_LEN], PATTERN);
    fails(2, put_send(ulpdu, true, 2, 0, data, RECEIVE_LEN + 1), 0x1205, RI_EVENT_RECV_LENGTH,
          RI_WC_LOCAL_LENGTH);
}
END_TEST

/* In two segments: 200 and 56 make 256, one more octet is an error. Also 256 and 0, 256 and 1. */
START_TEST(C075_in_two_segments)
{
    uint32_t first = _i < 2 ? 200 : RECEIVE_LEN, second = RECEIVE_LEN - first + (uint32_t)_i % 2;
    uint8_t data[RECEIVE_LEN];

    wire_open(NULL);
    memset(data, 'x', sizeof(data));
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, data, first));
    ck_assert(wire_alive());
    put_send(ulpdu, true, 1, first, data, second);
    if (_i % 2) {
        fails(1, UNTAGGED_LEN + second, 0x1205, RI_EVENT_RECV_LENGTH, RI_WC_LOCAL_LENGTH);
        return;
    }
    peer_ulpdu(ulpdu, UNTAGGED_LEN + second);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, RECEIVE_LEN);
    ck_assert(env_is(ENV_RECV, 0, data, RECEIVE_LEN));
    wire_goes_on(2, 1, 2);
}
END_TEST

/* A receive without elements takes only a zero-length message. */
START_TEST(C075_C078_receive_of_no_length)
{
    wire_open(&bare);
    ck_assert_int_eq(side_post_receive(wire.side, 1, NULL, 0), RI_OK);
    ck_assert_int_eq(side_post_receive(wire.side, 2, NULL, 0), RI_OK);
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, NULL, 0));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 0);
    wire_refused(ulpdu, put_send(ulpdu, true, 2, 0, "x", 1), 0x1205, RI_EVENT_RECV_LENGTH);
    side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_LOCAL_LENGTH, 0);
}
END_TEST

static const uint8_t changes[][2] = {
    { OP_SEND, OP_SEND_SE },  { OP_SEND_SE, OP_SEND },         { OP_SEND, OP_SEND_INV },
    { OP_SEND_INV, OP_SEND }, { OP_SEND_SE_INV, OP_SEND_INV }, { OP_SEND_SE, OP_SEND_SE_INV },
};

START_TEST(C076_opcode_changes)
{
    const uint8_t *change = changes[_i];

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, C_DV, C_RV | change[0], 0, 0, 1, 0, "data", 4));
    ck_assert(wire_alive());
    put_untagged(ulpdu, C_LAST | C_DV, C_RV | change[1], 0, 0, 1, 4, "data", 4);
    fails(1, UNTAGGED_LEN + 4, 0x0206, RI_EVENT_BAD_OPCODE, RI_WC_LOCAL_QP);
}
END_TEST

/* ---- the receive's own memory ---- */

enum { READ_ONLY, FOREIGN, BELOW, BEYOND, KEY, GONE, BAD_RECEIVES };

/* A local error, not the peer's: the Terminate has no header. */
START_TEST(C077_receive_not_usable)
{
    struct region gone = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    struct ri_sge sge = region_sge(&wire.env[ENV_A], 0, 16);

    wire_open(&bare);
    switch (_i) {
    case READ_ONLY: sge = region_sge(&wire.env[ENV_R], 0, 16); break;
    case FOREIGN: sge = region_sge(&wire.env[ENV_OPD], 0, 16); break;
    case BELOW: sge.addr--; break;
    case BEYOND: sge.addr += REGION_LEN - 15; break;
    case KEY: sge.lkey ^= 1; break;
    case GONE: sge = region_sge(&gone, 0, 16); break;
    }
    side_receive(wire.side, 1, sge);
    side_receive(wire.side, 2, region_sge(&wire.env[ENV_A], 0, 16));
    if (_i == GONE)
        ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(gone.mr), RI_OK);
    wire_refused(ulpdu, put_send(ulpdu, true, 1, 0, "0123456789abcdef", 16), 0x0000,
                 RI_EVENT_RECV_ACCESS);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_FLUSHED, 0);
    if (_i == GONE)
        gone.mr = NULL;
}
END_TEST

/* ---- zero length ---- */

START_TEST(C078_send_of_no_length)
{
    wire_open(NULL);
    for (uint32_t msn = 1; msn <= 3; msn++) {
        peer_ulpdu(ulpdu, put_send(ulpdu, true, msn, 0, NULL, 0));
        side_expect(wire.side, wire.side->recv_cq, msn, RI_WC_SUCCESS, 0);
    }
    ck_assert(env_untouched());
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    wire_goes_on(4, 1, 4);
}
END_TEST

/* Zero-length segments: first, in the middle, last; alone without L. */
START_TEST(C079_segments_of_no_length)
{
    const bool last_is_empty = _i % 2;
    uint32_t empty = _i < 2 ? 1 : 500;

    wire_open(NULL);
    for (uint32_t i = 0; i < empty; i++)
        peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, NULL, 0));
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, "abc", 3));
    for (uint32_t i = 0; i < empty; i++)
        peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 3, NULL, 0));
    peer_ulpdu(ulpdu, put_send(ulpdu, !last_is_empty, 1, 3, "def", 3));
    if (last_is_empty)
        peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 6, NULL, 0));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 6);
    ck_assert(env_is(ENV_RECV, 0, "abcdef\xa5", 7));
    wire_goes_on(2, 1, 2);
}
END_TEST

START_TEST(C079_but_where_it_belongs)
{
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, "abc", 3));
    ck_assert(wire_alive());
    fails(1, put_send(ulpdu, _i % 2, 1, _i < 2 ? 0 : 4, NULL, 0), 0x1204, RI_EVENT_RECV_LENGTH,
          RI_WC_LOCAL_LENGTH);
}
END_TEST

/* ---- delivery ---- */

/* No delivery before the segment with L, then exactly one. Earlier Writes are placed by then.
 * Deliveries are in order. */
START_TEST(C080_delivery)
{
    struct ri_wc wc;

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "before", 6));
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, "ab", 2));
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    peer_ulpdu(ulpdu, put_write(ulpdu, false, env_stag(ENV_W), wire.base[ENV_W] + 16, "in", 2));
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 2, "cd", 2));
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 4, "e", 1));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, C_LAST | C_DV, C_RV | OP_SEND_SE, 0, 0, 2, 0, "f", 1));
    wc = side_next(wire.side, wire.side->recv_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 5);
    ck_assert(!(wc.flags & RI_WC_SOLICITED));
    ck_assert(env_is(ENV_RECV, 0, "abcde\xa5", 6) && env_is(ENV_W, 0, "before", 6) &&
              env_is(ENV_W, 16, "in", 2));
    wc = side_next(wire.side, wire.side->recv_cq);
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert(wc.flags & RI_WC_SOLICITED); /* C-118 */
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    wire_goes_on(3, 1, 3);
}
END_TEST

/* Into elements of 1, 0, 5 and 250 octets, in segments of every size. */
START_TEST(C080_into_several_elements)
{
    const uint32_t step = (uint32_t)_i + 1, total = 64;
    struct ri_sge sges[4];
    uint8_t data[64];

    wire_open(&bare);
    for (uint32_t i = 0; i < total; i++)
        data[i] = (uint8_t)i;
    sges[0] = region_sge(&wire.env[ENV_A], 100, 1);
    sges[1] = region_sge(&wire.env[ENV_A], 300, 0);
    sges[2] = region_sge(&wire.env[ENV_A], 0, 5);
    sges[3] = region_sge(&wire.env[ENV_RECV], 0, 250);
    ck_assert_int_eq(side_post_receive(wire.side, 1, sges, 4), RI_OK);
    for (uint32_t at = 0; at < total; at += step) {
        uint32_t part = total - at < step ? total - at : step;

        peer_ulpdu(ulpdu, put_send(ulpdu, at + part == total, 1, at, data + at, part));
    }
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, total);
    ck_assert(env_is(ENV_A, 100, data, 1) && env_is(ENV_A, 0, data + 1, 5) &&
              env_is(ENV_RECV, 0, data + 6, total - 6));
    ck_assert(env_is(ENV_A, 101, "\xa5", 1) && env_is(ENV_A, 5, "\xa5", 1) &&
              env_is(ENV_RECV, total - 6, "\xa5", 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: Send");
    TCase *tc = tc_case(suite, "receiver", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C070_msn_below_the_first, 0, ARRAY_SIZE(old_msns));
    tcase_add_loop_test(tc, C070_msn_repeats, 0, 3);
    tcase_add_loop_test(tc, C071_msn_gap, 0, ARRAY_SIZE(gaps));
    tcase_add_loop_test(tc, C071_C070_msn_changes_inside_a_message, 0, 2);
    tc_add_loops(tc, 0, 4, C070_C071_msn_wraps, C070_C071_at_the_wrap, C072_X019_no_receive);
    tcase_add_test(tc, C072_receives_used_up);
    tcase_add_loop_test(tc, C073_offset_beyond_the_buffer, 0, 6);
    tc_add_loops(tc, 0, 4, C074_first_offset, C074_next_offset);
    tcase_add_test(tc, C075_exactly_the_buffer);
    tcase_add_loop_test(tc, C075_in_two_segments, 0, 4);
    tcase_add_test(tc, C075_C078_receive_of_no_length);
    tcase_add_loop_test(tc, C076_opcode_changes, 0, ARRAY_SIZE(changes));
    tcase_add_loop_test(tc, C077_receive_not_usable, 0, BAD_RECEIVES);
    tcase_add_test(tc, C078_send_of_no_length);
    tc_add_loops(tc, 0, 4, C079_segments_of_no_length, C079_but_where_it_belongs);
    tcase_add_test(tc, C080_delivery);
    tcase_add_loop_test(tc, C080_into_several_elements, 0, 66);
    return tc_main(suite);
}

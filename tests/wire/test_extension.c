/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages 11 and 12, RFC 7306: Immediate Data and Atomics (C-124 to C-141, S-065 to S-073). */
#include "peer.h"

#define LAST      (C_LAST | C_DV)
#define IMM       8
#define IMM_SE    9
#define ATOMIC    10
#define ANSWER    11
#define FETCH_ADD 0
#define CMP_SWAP  2
#define REQUEST   (UNTAGGED_LEN + 52)
#define ALL       UINT64_MAX

static uint8_t ulpdu[1024];

/* ---- Immediate Data ---- */

static uint32_t put_imm(uint8_t op, uint32_t msn, uint32_t mo, uint32_t length)
{
    memset(ulpdu, 0, 64);
    put32(ulpdu + UNTAGGED_LEN + 4, 0x11223344);
    put_untagged(ulpdu, LAST, C_RV | op, 0, 0, msn, mo, NULL, 0);
    return UNTAGGED_LEN + length;
}

START_TEST(C124_immediate_of_wrong_form)
{
    static const uint32_t lengths[] = { 0, 1, 4, 7, 9, 16, 8, 8 },
                          offsets[] = { 0, 0, 0, 0, 0, 0, 8, 1 };
    struct ri_wc wc;

    wire_open(NULL);
    put_imm(_i % 2 ? IMM_SE : IMM, 1, offsets[_i / 2], 8);
    wire_refused(ulpdu, UNTAGGED_LEN + lengths[_i / 2], 0x0207, RI_EVENT_REMOTE_OPERATION);
    wc = side_next(wire.side, wire.side->recv_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_ne(wc.status, RI_WC_SUCCESS);
    wire_flushed(2);
}
END_TEST

/* Takes one receive and one MSN of the Sends. The value is in the completion, memory does not
 * change. */
START_TEST(C125_C126_immediate)
{
    struct ri_wc wc;

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], "before", 6));
    peer_ulpdu(ulpdu, put_imm(_i ? IMM_SE : IMM, 1, 0, 8));
    wc = side_next(wire.side, wire.side->recv_cq);
    ck_assert(env_is(ENV_W, 0, "before", 6));
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV_IMMEDIATE);
    ck_assert(wc.flags & RI_WC_WITH_IMMEDIATE);
    ck_assert_uint_eq(wc.immediate, 0x11223344);
    ck_assert_int_eq(!!(wc.flags & RI_WC_SOLICITED), _i);
    env_restore();
    wire_goes_on(2, 1, 2);
}
END_TEST

START_TEST(C125_immediate_without_receive)
{
    const struct connection bare = { .no_receives = true };

    wire_open(&bare);
    wire_refused(ulpdu, put_imm(IMM, 1, 0, 8), 0x1202, RI_EVENT_NO_RECEIVE);
}
END_TEST

START_TEST(S072_S073_our_immediate)
{
    const struct ri_sge sge = region_sge(&wire.env[ENV_LOC], 0, 5);
    const bool write = _i > 1;
    struct ri_send_wr *bad,
        wr = { .cookie = 1,
               .opcode = write ? RI_WR_RDMA_WRITE_IMMEDIATE : RI_WR_SEND_IMMEDIATE,
               .flags = RI_WR_SIGNALED | (_i % 2 ? RI_WR_SOLICITED : 0),
               .sg_list = &sge,
               .num_sge = write,
               .immediate = 0xa1b2c3d4,
               .rdma = { .remote_addr = 7, .rkey = 9 } };

    wire_open(NULL);
    ck_assert_int_eq(wire.bed.fake.user.post_send(wire.side->qp, &wr, &bad), RI_OK);
    if (write)
        wire_expect(true, OP_WRITE, 5);
    wire_expect(true, _i % 2 ? IMM_SE : IMM, 8);
    ck_assert_uint_eq(wire.seen.msn, 1);
    ck_assert_uint_eq(wire.seen.mo, 0);
    ck_assert_uint_eq(get64(wire.seen.payload), 0xa1b2c3d4);
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, write ? 5 : 0);
}
END_TEST

/* ---- Atomic Requests of the peer ---- */

static uint32_t put_atomic(uint32_t msn, uint32_t op, uint32_t id, uint32_t stag, uint64_t to,
                           const uint64_t numbers[4])
{
    uint8_t payload[52];

    put32(payload, op);
    put32(payload + 4, id);
    put32(payload + 8, stag);
    put64(payload + 12, to);
    for (int i = 0; i < 4; i++)
        put64(payload + 20 + 8 * i, numbers[i]);
    return put_untagged(ulpdu, LAST, C_RV | ATOMIC, 0, 1, msn, 0, payload, 52);
}

static const uint64_t add_5[] = { 5, 0, 0, ALL };
static uint32_t operation = FETCH_ADD; /* of refuse_target */

static void refuse(uint32_t length, uint16_t value, enum ri_event_type event)
{
    wire_refused(ulpdu, length, value, event);
    wire_flushed(1);
}

static void refuse_target(uint32_t stag, uint64_t to, uint16_t value, enum ri_event_type event)
{
    wire_open(NULL);
    refuse(put_atomic(1, operation, 1, stag, to, add_5), value, event);
}

static uint64_t *word(void)
{
    return (uint64_t *)(void *)wire.env[ENV_A].octets;
}

static void answered(uint32_t answer_msn, uint32_t id, uint64_t before)
{
    wire_expect(true, ANSWER, 12);
    ck_assert_uint_eq(wire.seen.qn, 3); /* S-067 */
    ck_assert_uint_eq(wire.seen.msn, answer_msn);
    ck_assert_uint_eq(wire.seen.mo, 0);
    ck_assert_uint_eq(get32(wire.seen.payload), id);
    ck_assert_uint_eq(get64(wire.seen.payload + 4), before);
}

START_TEST(C127_payload_not_of_52_octets)
{
    const uint32_t octets = (uint32_t[]){ 0, 28, 51, 53, 60, 52 }[_i];

    wire_open(NULL);
    memset(ulpdu, 0, sizeof(ulpdu));
    put_atomic(1, FETCH_ADD, 1, env_stag(ENV_A), wire.base[ENV_A], add_5);
    if (_i == 5)
        put32(ulpdu + 14, 8);
    refuse(UNTAGGED_LEN + octets, octets < 52 ? 0x1000 : 0x1205, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

START_TEST(C128_msn_and_depth)
{
    const struct connection two = { .ird = 2 };
    static uint8_t all[4096];
    size_t used = 0;

    wire_open(&two);
    if (_i < 3) {
        put_atomic((uint32_t[]){ 0, 2, 0x80000001 }[_i], FETCH_ADD, 1, env_stag(ENV_A),
                   wire.base[ENV_A], add_5);
        refuse(REQUEST, 0x1203, RI_EVENT_REMOTE_OPERATION);
        return;
    }
    for (uint32_t msn = 1; msn <= 3; msn++) /* in one read: no answer comes in between */
        used += peer_frame(
            all + used, ulpdu,
            put_atomic(msn, FETCH_ADD, msn, env_stag(ENV_A), wire.base[ENV_A], add_5));
    peer_octets(all, used);
    side_expect_event(wire.side, RI_EVENT_REMOTE_OPERATION, 0x1203);
}
END_TEST

/* Reserved fields, and fields that the operation does not use. */
START_TEST(C129_C137_S068_operations)
{
    static const struct {
        uint32_t op;
        uint64_t numbers[4], before, after;
    } cases[] = {
        { FETCH_ADD, { 5, 0, 0, ALL }, 10, 15 },
        { FETCH_ADD | 0xfffffff0, { 1, 0, 77, 88 }, ALL, 0 },
        { FETCH_ADD, { 0x0000000100000001, 0x80000000, 0, ALL }, 0x00000000ffffffff, 0x100000000 },
        { CMP_SWAP, { 7, ALL, 10, ALL }, 10, 7 },
        { CMP_SWAP, { 7, ALL, 11, ALL }, 10, 10 },
        { CMP_SWAP | 0x12345670, { 0xff, 0x0f, 0x1000, 0xf000 }, 0x12f0, 0x12ff },
        { CMP_SWAP, { 7, 0, 0, 0 }, 10, 10 },
    };
    const uint32_t count = sizeof(cases) / sizeof(cases[0]);

    wire_open(NULL);
    for (uint32_t i = 0; i < count; i++) {
        word()[i] = cases[i].before;
        peer_ulpdu(ulpdu, put_atomic(i + 1, cases[i].op, 1000 + i, env_stag(ENV_A),
                                     wire.base[ENV_A] + 8 * i, cases[i].numbers));
        answered(i + 1, 1000 + i, cases[i].before);
        ck_assert_msg(word()[i] == cases[i].after, "case %u: %llx, not %llx", i,
                      (unsigned long long)word()[i], (unsigned long long)cases[i].after);
    }
    wire_goes_on(1, count + 1, 1); /* the Read shares the MSN */
}
END_TEST

START_TEST(C130_operation)
{
    wire_open(NULL);
    refuse(put_atomic(1, (uint32_t[]){ 1, 3, 15, 0xfffffff1 }[_i], 1, env_stag(ENV_A),
                      wire.base[ENV_A], add_5),
           0x0206, RI_EVENT_BAD_OPCODE);
}
END_TEST

START_TEST(C131_stag)
{
    operation = _i ? CMP_SWAP : FETCH_ADD;
    refuse_target(0, wire.base[ENV_A], 0x0100, RI_EVENT_READ_ACCESS);
    refuse_target(env_stag(ENV_A) ^ 1, wire.base[ENV_A], 0x0100, RI_EVENT_READ_ACCESS);
    refuse_target(env_stag(ENV_A) ^ 0x5a5a5a00, wire.base[ENV_A], 0x0100, RI_EVENT_READ_ACCESS);
    wire_open(NULL);
    wire_invalidate(env_stag(ENV_A));
    refuse(put_atomic(1, FETCH_ADD, 1, env_stag(ENV_A), wire.base[ENV_A], add_5), 0x0100,
           RI_EVENT_READ_ACCESS);
}
END_TEST

START_TEST(C132_C133_pd_and_right)
{
    operation = _i ? CMP_SWAP : FETCH_ADD;
    refuse_target(env_stag(ENV_OPD), wire.base[ENV_OPD], 0x0103, RI_EVENT_READ_ACCESS);
    refuse_target(env_stag(ENV_W), wire.base[ENV_W], 0x0102, RI_EVENT_READ_ACCESS);
    refuse_target(env_stag(ENV_R), wire.base[ENV_R], 0x0102, RI_EVENT_READ_ACCESS);
    refuse_target(env_stag(ENV_LOC), wire.base[ENV_LOC], 0x0102, RI_EVENT_READ_ACCESS);
}
END_TEST

/* The sum 2^64 itself does not wrap. Out of bounds, alignment is not checked. */
START_TEST(C134_C135_C136_S070_address)
{
    uint32_t stag = env_stag(ENV_A);
    uint64_t base = wire.base[ENV_A];

    operation = _i ? CMP_SWAP : FETCH_ADD;
    refuse_target(stag, UINT64_MAX - 7, 0x0101, RI_EVENT_READ_ACCESS);
    refuse_target(stag, UINT64_MAX - 6, 0x0104, RI_EVENT_READ_ACCESS);
    refuse_target(stag, UINT64_MAX, 0x0104, RI_EVENT_READ_ACCESS);
    refuse_target(stag, base - 8, 0x0101, RI_EVENT_READ_ACCESS);
    refuse_target(stag, base - 1, 0x0101, RI_EVENT_READ_ACCESS);
    refuse_target(stag, base + REGION_LEN, 0x0101, RI_EVENT_READ_ACCESS);
    refuse_target(stag, base + REGION_LEN - 7, 0x0101, RI_EVENT_READ_ACCESS);
    for (uint32_t i = 1; i < 8; i++)
        refuse_target(stag, base + i, 0x0207, RI_EVENT_REMOTE_OPERATION);
    wire_open(NULL);
    word()[REGION_LEN / 8 - 1] = 1;
    peer_ulpdu(ulpdu, put_atomic(1, FETCH_ADD, 3, stag, base + REGION_LEN - 8, add_5));
    answered(1, 3, 1);
}
END_TEST

/* Without atomics the opcode does not exist. */
START_TEST(C062_C133_atomics_not_enabled)
{
    const struct connection off = { .no_atomic = true };

    wire_open(&off);
    refuse(put_atomic(1, FETCH_ADD, 1, env_stag(ENV_A), wire.base[ENV_A], add_5), 0x0206,
           RI_EVENT_BAD_OPCODE);
}
END_TEST

/* ---- Atomic Responses to requests of the QP ---- */

static uint32_t put_answer(uint32_t msn, uint32_t mo, uint32_t id, uint64_t value, uint32_t length)
{
    uint8_t payload[64] = { 0 };

    put32(payload, id);
    put64(payload + 4, value);
    return put_untagged(ulpdu, LAST, C_RV | ANSWER, 0, 3, msn, mo, payload, length);
}

static const struct ri_sge *sink(void)
{
    static struct ri_sge sge;

    sge = region_sge(&wire.env[ENV_LOC], 0, 8);
    return &sge;
}

/* Reads the request and returns its identifier. S-065, S-066: its form. */
static uint32_t ask(bool swap, uint64_t cookie, uint32_t msn)
{
    struct ri_send_wr *bad,
        wr = { .cookie = cookie,
               .opcode = swap ? RI_WR_ATOMIC_COMPARE_SWAP : RI_WR_ATOMIC_FETCH_ADD,
               .flags = RI_WR_SIGNALED,
               .sg_list = sink(),
               .num_sge = 1,
               .atomic = { .remote_addr = 0x1122334455667788,
                           .swap_or_add = 0x99,
                           .compare = 0xaa,
                           .rkey = 0xbbccddee } };
    const uint8_t *at = wire.seen.payload;

    ck_assert_int_eq(wire.bed.fake.user.post_send(wire.side->qp, &wr, &bad), RI_OK);
    wire_expect(true, ATOMIC, 52);
    at = wire.seen.payload;
    ck_assert_uint_eq(wire.seen.qn, 1);
    ck_assert_uint_eq(wire.seen.msn, msn);
    ck_assert_uint_eq(wire.seen.mo, 0);
    ck_assert_uint_eq(get32(at), swap ? CMP_SWAP : FETCH_ADD);
    ck_assert_uint_eq(get32(at + 8), 0xbbccddee);
    ck_assert_uint_eq(get64(at + 12), 0x1122334455667788);
    ck_assert_uint_eq(get64(at + 20), 0x99);
    ck_assert_uint_eq(get64(at + 28), swap ? ALL : 0);
    ck_assert_uint_eq(get64(at + 36), swap ? 0xaa : 0);
    ck_assert_uint_eq(get64(at + 44), ALL);
    return get32(at + 4);
}

static void fails(uint32_t length, uint16_t value, enum ri_wc_status status)
{
    wire_refused(ulpdu, length, value, RI_EVENT_RESPONSE_ERROR);
    side_expect(wire.side, wire.side->send_cq, 1, status, 0);
    wire_flushed(1);
}

START_TEST(S065_S066_S067_S069_our_atomics)
{
    uint64_t value;
    uint32_t id;

    wire_open(NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        id = ask(i % 2, i, i);
        peer_ulpdu(ulpdu, put_answer(i, 0, id, 0x0102030405060708 + i, 12));
        side_expect(wire.side, wire.side->send_cq, i, RI_WC_SUCCESS, 8);
        memcpy(&value, wire.env[ENV_LOC].octets, 8);
        ck_assert_uint_eq(value, 0x0102030405060708 + i);
    }
}
END_TEST

/* No request; or a Read is older. */
START_TEST(C138_not_asked_for)
{
    wire_open(NULL);
    if (_i) {
        side_read(wire.side, 1, region_sge(&wire.env[ENV_LOC], 8, 8), 0, 1);
        wire_expect(true, OP_READ, READ_LEN);
        ask(false, 2, 2);
    }
    wire_refused(ulpdu, put_answer(1, 0, 1, 0, 12), 0x0206, RI_EVENT_BAD_OPCODE);
}
END_TEST

START_TEST(C139_C140_C141_wrong_answer)
{
    uint32_t id;

    wire_open(NULL);
    id = ask(_i % 2, 1, 1);
    switch (_i / 2) {
    case 0: fails(put_answer(2, 0, id, 0, 12), 0x1203, RI_WC_BAD_RESPONSE); break;
    case 1: fails(put_answer(0, 0, id, 0, 12), 0x1203, RI_WC_BAD_RESPONSE); break;
    case 2: fails(put_answer(1, 4, id, 0, 12), 0x1203, RI_WC_BAD_RESPONSE); break;
    case 3: fails(put_answer(1, 0, id, 0, 11), 0x1205, RI_WC_LOCAL_LENGTH); break;
    case 4: fails(put_answer(1, 0, id, 0, 13), 0x1205, RI_WC_LOCAL_LENGTH); break;
    case 5: fails(put_answer(1, 0, id, 0, 32), 0x1205, RI_WC_LOCAL_LENGTH); break;
    default: fails(put_answer(1, 0, id + 1, 0, 12), 0x0207, RI_WC_BAD_RESPONSE);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: RFC 7306");
    TCase *tc = tc_case(suite, "both sides", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C124_immediate_of_wrong_form, 0, 16);
    tcase_add_loop_test(tc, C125_C126_immediate, 0, 2);
    tcase_add_test(tc, C125_immediate_without_receive);
    tcase_add_loop_test(tc, S072_S073_our_immediate, 0, 4);
    tcase_add_loop_test(tc, C127_payload_not_of_52_octets, 0, 6);
    tcase_add_loop_test(tc, C128_msn_and_depth, 0, 4);
    tcase_add_test(tc, C129_C137_S068_operations);
    tcase_add_loop_test(tc, C130_operation, 0, 4);
    tc_add_loops(tc, 0, 2, C131_stag, C132_C133_pd_and_right, C134_C135_C136_S070_address);
    tc_add_tests(tc, C062_C133_atomics_not_enabled, S065_S066_S067_S069_our_atomics);
    tcase_add_loop_test(tc, C138_not_asked_for, 0, 2);
    tcase_add_loop_test(tc, C139_C140_C141_wrong_answer, 0, 14);
    return tc_main(suite);
}

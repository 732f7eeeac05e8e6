/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused immediate data (RI_QPM_IMMEDIATE): a Send with immediate is one message, a Write with
 * immediate tells its length; on the wire, between two QPs, and what is refused. */
#include "one_qp.h"

#include "providers/software/iwarp/wire_iwarp.h"

static void agree(struct side *side, bool fused)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_IMMEDIATE,
                                   .fused_immediate = fused };

    OK(bed.fake.privileged.qp_modify(side->qp, &modify));
}

static enum ri_status post(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                           uint16_t flags, struct ri_sge sge, const struct region *target,
                           uint32_t immediate)
{
    struct ri_send_wr *bad = NULL, wr = {
        .cookie = cookie,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = (uint16_t)opcode,
        .flags = (uint16_t)(flags | RI_WR_SIGNALED),
        .immediate = immediate,
        .rdma = { .remote_addr = target ? (uintptr_t)target->octets : 0x1000,
                  .rkey = target ? target->keys.rkey : 0x100 },
    };

    return side->bed->fake.user.post_send(side->qp, &wr, &bad);
}

static void expect(struct side *side, uint64_t cookie, enum ri_wc_opcode opcode, uint32_t octets,
                   unsigned int flags, uint32_t immediate)
{
    struct ri_wc wc = side_next(side, side->recv_cq);

    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, opcode);
    ck_assert_uint_eq(wc.byte_len, octets);
    ck_assert_uint_eq(wc.flags, flags);
    ck_assert_uint_eq(wc.immediate, immediate);
    ck_assert_uint_eq(wc.immediate_high, 0);
}

/* ---- on the wire ---- */

static void next_ulpdu(void)
{
    frame.length = raw_next(&raw, frame.ulpdu, sizeof(frame.ulpdu));
    ck_assert_uint_gt(frame.length, 0);
}

/* The immediate data is in the DDP header of each segment; behind a Write the upper half of the 8
 * octets is the Write's length. */
START_TEST(on_the_wire)
{
    struct region from;
    uint8_t expected[DDP_UNTAGGED_LEN + RDMAP_IMM_LEN] = { 0x41, 0x40 | RDMAP_IMM };

    open_raw(NULL, &plain);
    agree(a, true);
    from = region_new(a, 64, TESTBED_ALL);
    memcpy(from.octets, "payload", 8);
    OK(post(a, RI_WR_SEND_IMMEDIATE, 1, 0, region_sge(&from, 0, 8), NULL, 0x89abcdef));
    OK(post(a, RI_WR_SEND_IMMEDIATE, 2, RI_WR_SOLICITED, region_sge(&from, 0, 0), NULL, 7));
    OK(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 3, 0, region_sge(&from, 0, 8), NULL, 9));
    next_ulpdu();
    ck_assert_uint_eq(frame.ulpdu[0], 0x41);
    ck_assert_uint_eq(frame.ulpdu[1], 0x4c);
    ck_assert_uint_eq(be_get32(frame.ulpdu + 2), 0x89abcdef);
    ck_assert_uint_eq(be_get32(frame.ulpdu + 10), 1); /* MSN */
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN + 8);
    ck_assert_mem_eq(frame.ulpdu + DDP_UNTAGGED_LEN, "payload", 8);
    next_ulpdu();
    ck_assert_uint_eq(frame.ulpdu[1], 0x4e);
    ck_assert_uint_eq(be_get32(frame.ulpdu + 2), 7);
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN);
    next_ulpdu();
    ck_assert_uint_eq(frame.ulpdu[1], 0x40 | RDMAP_WRITE);
    be_put32(expected + 10, 3);
    be_put32(expected + 18, 8);
    be_put32(expected + 22, 9);
    next_ulpdu();
    ck_assert_uint_eq(frame.length, sizeof(expected));
    ck_assert_mem_eq(frame.ulpdu, expected, sizeof(expected));
    for (uint64_t cookie = 1; cookie <= 3; cookie++)
        side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, cookie == 2 ? 0 : 8);
}
END_TEST

/* ---- between two QPs ---- */

#define LONG 200000u

/* One receive and one completion each; a long Send takes several segments. Without CRC, long
 * payload goes straight to its place. */
START_TEST(between_two)
{
    struct ri_llp_handover handover = plain;
    struct region from, to;

    handover.crc = _i == 0;
    testbed_connect(&bed, NULL, &handover);
    agree(a, true);
    agree(b, true);
    from = region_new(a, LONG, TESTBED_ALL);
    to = region_new(b, LONG, TESTBED_ALL);
    region_fill(&from);
    for (uint64_t i = 0; i < 5; i++)
        side_receive(b, i, region_sge(&to, 0, LONG));
    OK(post(a, RI_WR_SEND_IMMEDIATE, 0, 0, region_sge(&from, 0, 16), NULL, 1));
    expect(b, 0, RI_WC_RECV, 16, RI_WC_WITH_IMMEDIATE, 1);
    OK(post(a, RI_WR_SEND_IMMEDIATE, 1, RI_WR_SOLICITED, region_sge(&from, 0, LONG), NULL, 2));
    expect(b, 1, RI_WC_RECV, LONG, RI_WC_WITH_IMMEDIATE | RI_WC_SOLICITED, 2);
    ck_assert_mem_eq(to.octets, from.octets, LONG);
    OK(post(a, RI_WR_SEND_IMMEDIATE, 2, 0, region_sge(&from, 0, 0), NULL, UINT32_MAX));
    expect(b, 2, RI_WC_RECV, 0, RI_WC_WITH_IMMEDIATE, UINT32_MAX);
    memset(to.octets, 0, LONG);
    OK(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 3, 0, region_sge(&from, 0, LONG), &to, 4));
    expect(b, 3, RI_WC_RECV_IMMEDIATE, LONG, RI_WC_WITH_IMMEDIATE, 4);
    ck_assert_mem_eq(to.octets, from.octets, LONG);
    OK(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 4, RI_WR_SOLICITED, region_sge(&from, 0, 0), &to, 5));
    expect(b, 4, RI_WC_RECV_IMMEDIATE, 0, RI_WC_WITH_IMMEDIATE | RI_WC_SOLICITED, 5);
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_uint_eq(side_next(a, a->send_cq).cookie, i);
}
END_TEST

/* They wait for a receive, too. */
START_TEST(waits_for_a_receive)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 7 };
    struct region from, to;

    testbed_connect(&bed, NULL, NULL);
    agree(a, true);
    agree(b, true);
    OK(bed.fake.privileged.qp_modify(b->qp, &modify));
    from = region_new(a, LONG, TESTBED_ALL);
    to = region_new(b, LONG, TESTBED_ALL);
    region_fill(&from);
    OK(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 0, 0, region_sge(&from, 0, LONG), &to, 1));
    OK(post(a, RI_WR_SEND_IMMEDIATE, 1, 0, region_sge(&from, 0, LONG), NULL, 2));
    ck_assert(side_idle(b, b->recv_cq));
    ck_assert_mem_eq(to.octets, from.octets, LONG);
    memset(to.octets, 0, LONG);
    side_receive(b, 0, region_sge(&to, 0, 0));
    side_receive(b, 1, region_sge(&to, 0, LONG));
    expect(b, 0, RI_WC_RECV_IMMEDIATE, LONG, RI_WC_WITH_IMMEDIATE, 1);
    expect(b, 1, RI_WC_RECV, LONG, RI_WC_WITH_IMMEDIATE, 2);
    ck_assert_mem_eq(to.octets, from.octets, LONG);
}
END_TEST

/* ---- what is refused ---- */

static void say(bool last, uint32_t word, uint32_t mo, const char *octets)
{
    uint8_t ulpdu[128];

    ddp_put_untagged(ulpdu, last, rdmap_ctrl(RDMAP_SEND_IMM), word, DDP_QN_SEND, 1, mo);
    memcpy(ulpdu + DDP_UNTAGGED_LEN, octets, strlen(octets));
    raw_send(&raw, ulpdu, DDP_UNTAGGED_LEN + (uint32_t)strlen(octets));
}

/* Without the agreement there is no such opcode, and a Send with octets is refused at the post. */
START_TEST(not_agreed)
{
    struct region region;

    open_raw(NULL, &plain);
    agree(a, true);
    agree(a, false);
    region = region_new(a, 64, TESTBED_ALL);
    ck_assert_int_eq(post(a, RI_WR_SEND_IMMEDIATE, 1, 0, region_sge(&region, 0, 8), NULL, 1),
                     RI_ERR_NOT_SUPPORTED);
    side_receive(a, 1, region_sge(&region, 0, 64));
    say(true, 1, 0, "x");
    raw_expect_terminate(&raw, TERMINATE_OPCODE);
    side_expect_event(a, RI_EVENT_BAD_OPCODE, TERMINATE_OPCODE);
}
END_TEST

/* The immediate data is the same in all segments of a message. */
START_TEST(changes_inside_a_message)
{
    struct region region;

    open_raw(NULL, &plain);
    agree(a, true);
    region = region_new(a, 64, TESTBED_ALL);
    side_receive(a, 1, region_sge(&region, 0, 64));
    say(false, 1, 0, "one");
    say(true, 2, 3, "two");
    raw_expect_terminate(&raw, TERMINATE_OPCODE);
    side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_QP, 0);
}
END_TEST

/* The length that goes into the completion is that of what was written just before: the peer's word
 * is compared, whether the message waits for a receive or not. */
static const struct {
    uint32_t written, last, told;
    bool right;
} told_lengths[] = {
    { 4, true, 4, true },         { 4, true, UINT32_MAX, false }, { 4, true, 3, false },
    { 0, true, 0, true },         { 0, true, 1, false },          { 4, false, 4, false },
    { 40000, true, 40000, true }, { 40000, true, 39999, false },
};

static void write_and_tell(const struct region *to, uint32_t written, bool last, uint32_t told,
                           uint32_t msn)
{
    static const uint8_t octets[40000];
    uint8_t immediate[RDMAP_IMM_LEN];

    raw_tagged(&raw, RDMAP_WRITE, last, to->keys.rkey, (uintptr_t)to->octets, octets, written);
    rdmap_put_imm(immediate, (uint64_t)told << 32 | 7);
    raw_untagged(&raw, RDMAP_IMM, true, DDP_QN_SEND, msn, 0, immediate, sizeof(immediate));
}

/* What was received neither completes a receive nor waits for one. */
static void expect_refused(bool waits)
{
    atomic_uint *events = &a->events.count;
    atomic_ullong *stashed = &iwarp_rnic(qp_of(a)->core.rnic)->stash_octets;

    if (waits) {
        ck_assert(fake_host_until(&bed.fake, atomic_load(events) || atomic_load(stashed),
                                  TESTBED_TIMEOUT));
        ck_assert_msg(atomic_load(events), "it waits for a receive");
    } else {
        side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    }
    raw_expect_terminate(&raw, TERMINATE_STREAM);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, TERMINATE_STREAM);
}

START_TEST(told_length_is_compared)
{
    const int row = _i / 2;
    const bool waits = _i % 2;
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 7 };
    struct region to;

    open_raw(NULL, &plain);
    agree(a, true);
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    to = region_new(a, 40000, TESTBED_ALL);
    if (!waits)
        side_receive(a, 1, region_sge(&to, 0, 64));
    write_and_tell(&to, told_lengths[row].written, told_lengths[row].last, told_lengths[row].told,
                   1);
    testbed_passes(&bed, 5);
    if (waits && told_lengths[row].right)
        side_receive(a, 1, region_sge(&to, 0, 64));
    if (told_lengths[row].right) {
        expect(a, 1, RI_WC_RECV_IMMEDIATE, told_lengths[row].written, RI_WC_WITH_IMMEDIATE, 7);
    } else {
        expect_refused(waits);
    }
}
END_TEST

/* One Write, and Immediate Data twice. */
START_TEST(a_length_is_told_once)
{
    uint8_t immediate[RDMAP_IMM_LEN];
    struct region to;

    open_raw(NULL, &plain);
    agree(a, true);
    to = region_new(a, 64, TESTBED_ALL);
    side_receive(a, 1, region_sge(&to, 0, 64));
    side_receive(a, 2, region_sge(&to, 0, 64));
    write_and_tell(&to, 4, true, 4, 1);
    rdmap_put_imm(immediate, UINT64_C(4) << 32);
    raw_untagged(&raw, RDMAP_IMM, true, DDP_QN_SEND, 2, 0, immediate, sizeof(immediate));
    expect(a, 1, RI_WC_RECV_IMMEDIATE, 4, RI_WC_WITH_IMMEDIATE, 7);
    raw_expect_terminate(&raw, TERMINATE_STREAM);
    side_expect(a, a->recv_cq, 2, RI_WC_FLUSHED, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fused immediate data");
    TCase *tc = new_case(suite, "fused", bed_open, bed_close);

    tcase_add_test(tc, on_the_wire);
    tcase_add_loop_test(tc, between_two, 0, 2);
    tc_add_tests(tc, waits_for_a_receive, not_agreed, changes_inside_a_message);
    tcase_add_loop_test(tc, told_length_is_compared, 0, 2 * (int)ARRAY_SIZE(told_lengths));
    tcase_add_test(tc, a_length_is_told_once);
    return tc_main(suite);
}

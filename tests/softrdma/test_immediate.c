/* SPDX-License-Identifier: BSD-3-Clause */
/* Immediate Data (RFC 7306 6): on the wire, between two QPs, and every refused form. */
#include "one_qp.h"

#include "tests/common/vectors_tc.h"

static enum ri_status post(struct side *side, enum ri_wr_opcode opcode, uint64_t cookie,
                           uint16_t flags, const struct ri_sge *sges, uint32_t count,
                           const struct region *target, uint32_t immediate)
{
    struct ri_send_wr *bad = NULL, wr = {
        .cookie = cookie,
        .sg_list = sges,
        .num_sge = count,
        .opcode = (uint16_t)opcode,
        .flags = (uint16_t)(flags | RI_WR_SIGNALED),
        .immediate = immediate,
        .rdma = { .remote_addr = target ? (uintptr_t)target->octets : 0x1000,
                  .rkey = target ? target->keys.rkey : 0x100 },
    };

    return side->bed->fake.user.post_send(side->qp, &wr, &bad);
}

static void expect_immediate(uint8_t opcode, uint32_t msn, uint32_t value)
{
    uint8_t expected[DDP_UNTAGGED_LEN + RDMAP_IMM_LEN] = { 0x41, (uint8_t)(0x40 | opcode) };

    be_put32(expected + 10, msn);
    be_put32(expected + 22, value); /* S-073: four octets of zero before it */
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.length, sizeof(expected));
    ck_assert_mem_eq(frame.ulpdu, expected, sizeof(expected));
}

/* ---- on the wire ---- */

/* A message of its own behind the Write, on the Sends' queue and with their MSN. */
START_TEST(S072_S073_S054_on_the_wire)
{
    struct region from;
    struct ri_sge sge;

    open_raw(NULL, &plain);
    from = region_new(a, 64, TESTBED_ALL);
    memcpy(from.octets, "written", 8);
    sge = region_sge(&from, 0, 8);
    side_send(a, 1, region_sge(&from, 0, 0));
    ck_assert_int_eq(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 2, 0, &sge, 1, NULL, 0x89abcdef), RI_OK);
    ck_assert_int_eq(post(a, RI_WR_SEND_IMMEDIATE, 3, RI_WR_SOLICITED, NULL, 0, NULL, 7), RI_OK);
    ck_assert_int_eq(
        post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 4, RI_WR_SOLICITED, NULL, 0, NULL, UINT32_MAX), RI_OK);
    side_send(a, 5, region_sge(&from, 0, 0));
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
    ck_assert(frame.segment.hdr.last);
    ck_assert_uint_eq(frame.segment.payload_len, 8);
    ck_assert_mem_eq(frame.segment.payload, "written", 8);
    expect_immediate(RDMAP_IMM, 2, 0x89abcdef);
    expect_immediate(RDMAP_IMM_SE, 3, 7);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
    ck_assert_uint_eq(frame.segment.payload_len, 0);
    expect_immediate(RDMAP_IMM_SE, 4, UINT32_MAX);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    ck_assert_uint_eq(frame.segment.hdr.msn, 5);
    for (uint64_t cookie = 1; cookie <= 5; cookie++) {
        static const uint8_t opcodes[] = { 0,          RI_WC_SEND,       RI_WC_RDMA_WRITE,
                                           RI_WC_SEND, RI_WC_RDMA_WRITE, RI_WC_SEND };
        struct ri_wc wc = side_next(a, a->send_cq);

        ck_assert_uint_eq(wc.cookie, cookie);
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.opcode, opcodes[cookie]);
        ck_assert_uint_eq(wc.byte_len, cookie == 2 ? 8 : 0);
        ck_assert_uint_eq(wc.flags, 0);
    }
}
END_TEST

/* S-074: opcodes that a peer may not know are not sent unless requested. Plain requests use opcodes
 * below 8. */
START_TEST(S074_plain_requests_stay_plain)
{
    struct region from;

    open_raw(NULL, &plain);
    from = region_new(a, 64, TESTBED_ALL);
    side_send(a, 1, region_sge(&from, 0, 8));
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SOLICITED, NULL, 0, 0, 0), RI_OK);
    side_write(a, 3, region_sge(&from, 0, 8), 0, 1);
    side_read(a, 4, region_sge(&from, 0, 8), 0, 1);
    for (int i = 0; i < 4; i++) {
        ck_assert(next_frame());
        ck_assert_int_lt(frame.segment.opcode, 8);
    }
    ck_assert(raw_silent(&raw));
    side_modify(a, RI_QPS_ERROR);
}
END_TEST

/* Payload and Immediate Data would be two messages and take two receives: refused at the post. */
START_TEST(send_with_payload_is_refused)
{
    struct region from;
    struct ri_sge sge[2];

    open_raw(NULL, &plain);
    from = region_new(a, 64, TESTBED_ALL);
    sge[0] = region_sge(&from, 0, 0);
    sge[1] = region_sge(&from, 0, 1);
    ck_assert_int_eq(post(a, RI_WR_SEND_IMMEDIATE, 1, 0, sge, 2, NULL, 0), RI_ERR_NOT_SUPPORTED);
    ck_assert(raw_silent(&raw));
    ck_assert_int_eq(post(a, RI_WR_SEND_IMMEDIATE, 2, 0, sge, 1, NULL, 5), RI_OK);
    expect_immediate(RDMAP_IMM, 1, 5);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
}
END_TEST

/* A Write that fails takes its immediate data with it. */
START_TEST(bad_source)
{
    struct region from;
    struct ri_sge sge;

    open_raw(NULL, &plain);
    from = region_new(a, 64, RI_ACCESS_LOCAL_READ);
    sge = region_sge(&from, 60, 8);
    ck_assert_int_eq(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 1, 0, &sge, 1, NULL, 1), RI_OK);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_TERMINATE);
    ck_assert(!next_frame());
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
}
END_TEST

/* ---- two QPs ---- */

static const uint32_t sizes[] = { 0, 1, 100, 4096, 70000, 3 << 20 };

/* The Write's octets are in memory when the Immediate Data arrives. It consumes a receive and does
 * not write to it. */
START_TEST(C125_C126_C118_write_with_immediate)
{
    const uint32_t size = sizes[_i];
    const bool solicited = _i & 1;
    struct tc_rng rng = tc_rng(7);
    struct region from, to, receive;
    struct ri_sge sge;
    struct ri_wc wc;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, size + 1, TESTBED_ALL);
    to = region_new(b, size + 1, TESTBED_ALL);
    receive = region_new(b, 64, TESTBED_ALL);
    tc_fill(&rng, from.octets, size);
    for (uint64_t cookie = 1; cookie <= 3; cookie++)
        side_receive(b, cookie, region_sge(&receive, 16 * cookie, 16));
    ck_assert_int_eq(bed.fake.user.arm(b->recv_cq, RI_ARM_SOLICITED, 0), RI_OK);
    side_send(a, 1, region_sge(&from, 0, 0));
    sge = region_sge(&from, 0, size);
    ck_assert_int_eq(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, 2, solicited ? RI_WR_SOLICITED : 0, &sge,
                          1, &to, 0xfedcba98),
                     RI_OK);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 0);
    wc = side_next(b, b->recv_cq);
    ck_assert(!memcmp(from.octets, to.octets, size));
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV_IMMEDIATE);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_IMMEDIATE | (solicited ? RI_WC_SOLICITED : 0));
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert_uint_eq(wc.immediate, 0xfedcba98);
    ck_assert_uint_eq(wc.immediate_high, 0);
    ck_assert_uint_eq(atomic_load(&b->recv_events.count), solicited);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, size);
    /* The next Send takes the next receive and has no Immediate Data. */
    memset(from.octets, 0x77, 1);
    side_send(a, 3, region_sge(&from, 0, 1));
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.cookie, 3);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV);
    ck_assert_uint_eq(wc.flags, 0);
    ck_assert_uint_eq(wc.byte_len, 1);
    for (int i = 0; i < 48; i++)
        ck_assert_uint_eq(receive.octets[i], 0);
    ck_assert_uint_eq(receive.octets[48], 0x77);
}
END_TEST

/* More than fit into a batch, between other requests. */
START_TEST(C126_S046_order)
{
    const struct shape deep = { .depth = 1024, .cqe = 4096 };
    const uint32_t rounds = 300;
    struct region from, to;
    struct ri_sge sge;

    testbed_connect(&bed, &deep, &plain);
    from = region_new(a, 16384, TESTBED_ALL);
    to = region_new(b, 16384, TESTBED_ALL);
    for (uint32_t i = 0; i < 2 * rounds; i++)
        ck_assert_int_eq(side_post_receive(b, i, NULL, 0), RI_OK);
    for (uint32_t i = 0; i < rounds; i++) {
        sge = region_sge(&from, 0, 16384);
        ck_assert_int_eq(post(a, RI_WR_RDMA_WRITE_IMMEDIATE, i, 0, &sge, 1, &to, i), RI_OK);
        ck_assert_int_eq(post(a, RI_WR_SEND_IMMEDIATE, rounds + i, 0, NULL, 0, NULL, ~i), RI_OK);
    }
    for (uint32_t i = 0; i < 2 * rounds; i++) {
        struct ri_wc wc = side_next(b, b->recv_cq);

        ck_assert_uint_eq(wc.cookie, i);
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(wc.immediate, i & 1 ? ~(i / 2) : i / 2);
    }
    ck_assert(side_idle(b, b->recv_cq));
    for (uint32_t i = 0; i < 2 * rounds; i++)
        side_expect(a, a->send_cq, (i & 1 ? rounds : 0) + i / 2, RI_WC_SUCCESS, i & 1 ? 0 : 16384);
    ck_assert_uint_eq(atomic_load(&b->events.count), 0);
}
END_TEST

/* All 8 octets reach the completion. */
START_TEST(C125_upper_half)
{
    struct ri_wc wc;

    open_raw(NULL, &plain);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
    raw_untagged(&raw, RDMAP_IMM_SE, true, DDP_QN_SEND, 1, 0, "\1\2\3\4\5\6\7\10", 8);
    wc = side_next(a, a->recv_cq);
    ck_assert_uint_eq(wc.immediate_high, 0x01020304);
    ck_assert_uint_eq(wc.immediate, 0x05060708);
    ck_assert_uint_eq(wc.flags, RI_WC_WITH_IMMEDIATE | RI_WC_SOLICITED);
}
END_TEST

/* ---- refused ---- */

static const struct {
    const char *what;
    bool receive, inside; /* a receive is posted; a Send of two segments has begun */
    uint32_t qn, msn, mo, length;
    bool last;
    uint16_t value;
    enum ri_event_type event;
    enum ri_wc_status status;
} bad[] = {
    { "C-124 empty", true, false, 0, 1, 0, 0, true, 0x0207, RI_EVENT_REMOTE_OPERATION,
      RI_WC_LOCAL_LENGTH },
    { "C-124 short", true, false, 0, 1, 0, 7, true, 0x0207, RI_EVENT_REMOTE_OPERATION,
      RI_WC_LOCAL_LENGTH },
    { "C-124 long", true, false, 0, 1, 0, 9, true, 0x0207, RI_EVENT_REMOTE_OPERATION,
      RI_WC_LOCAL_LENGTH },
    { "C-124 MO", true, false, 0, 1, 8, 8, true, 0x0207, RI_EVENT_REMOTE_OPERATION,
      RI_WC_LOCAL_LENGTH },
    { "C-066 L", true, false, 0, 1, 0, 8, false, 0x0207, RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-068 QN", true, false, 1, 1, 0, 8, true, 0x1201, RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-070 old", true, false, 0, 0, 0, 8, true, 0x1203, RI_EVENT_REMOTE_OPERATION,
      RI_WC_FLUSHED },
    { "C-071 gap", true, false, 0, 2, 0, 8, true, 0x1203, RI_EVENT_REMOTE_OPERATION,
      RI_WC_FLUSHED },
    { "C-072", false, false, 0, 1, 0, 8, true, 0x1202, RI_EVENT_NO_RECEIVE, 0 },
    { "C-076", true, true, 0, 1, 0, 8, true, 0x0206, RI_EVENT_BAD_OPCODE, RI_WC_LOCAL_QP },
};

START_TEST(C124_C125_refused)
{
    for (int solicited = 0; solicited < 2; solicited++) {
        uint8_t ulpdu[DDP_UNTAGGED_LEN + 16] = { 0 };
        const uint32_t length = DDP_UNTAGGED_LEN + bad[_i].length;
        struct region to;

        open_raw(NULL, &plain);
        to = region_new(a, 64, TESTBED_ALL);
        if (bad[_i].receive)
            side_receive(a, 1, region_sge(&to, 0, 64));
        if (bad[_i].inside)
            raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 1, 0, NULL, 0);
        ddp_put_untagged(ulpdu, bad[_i].last, rdmap_ctrl(solicited ? RDMAP_IMM_SE : RDMAP_IMM), 0,
                         bad[_i].qn, bad[_i].msn, bad[_i].mo);
        memset(ulpdu + DDP_UNTAGGED_LEN, 0xee, 16);
        raw_send(&raw, ulpdu, length);
        expect_terminate(bad[_i].value, ulpdu, length);
        side_expect_event(a, bad[_i].event, bad[_i].value);
        if (bad[_i].receive)
            side_expect(a, a->recv_cq, 1, bad[_i].status, 0);
        for (int i = 0; i < 64; i++)
            ck_assert_uint_eq(to.octets[i], 0);
        region_free(a, &to);
        raw_close(&raw);
        side_close(a);
    }
}
END_TEST

START_TEST(C124_vectors)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];
        uint8_t opcode;

        if (s->accept || s->n != 1 || s->ulpdus[0].len < DDP_UNTAGGED_LEN)
            continue;
        opcode = s->ulpdus[0].p[1] & RDMAP_CTRL_OP;
        if (opcode != RDMAP_IMM && opcode != RDMAP_IMM_SE)
            continue;
        seen++;
        open_raw(NULL, &plain);
        ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_OK);
        raw_send(&raw, s->ulpdus[0].p, (uint32_t)s->ulpdus[0].len);
        ck_assert(next_frame());
        ck_assert_msg(frame.length == s->terminate_ulpdu.len &&
                          !memcmp(frame.ulpdu, s->terminate_ulpdu.p, frame.length),
                      "%s", s->id);
        raw_wait_end(&raw);
        raw_close(&raw);
        side_close(a);
    }
    ck_assert_int_ge(seen, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma immediate data");
    TCase *tc = new_case(suite, "wire", bed_open, bed_close);

    tc_add_tests(tc, S072_S073_S054_on_the_wire, S074_plain_requests_stay_plain,
                 send_with_payload_is_refused, bad_source);
    tc = new_case(suite, "two QPs", bed_open, bed_close);
    tcase_add_loop_test(tc, C125_C126_C118_write_with_immediate, 0, ARRAY_SIZE(sizes));
    tc_add_tests(tc, C126_S046_order, C125_upper_half);
    tc = new_case(suite, "refused", bed_open, bed_close);
    tcase_add_loop_test(tc, C124_C125_refused, 0, ARRAY_SIZE(bad));
    tcase_add_test(tc, C124_vectors);
    return tc_main(suite);
}

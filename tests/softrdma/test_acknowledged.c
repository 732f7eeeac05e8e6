/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledged requests (RI_QPM_ACKNOWLEDGED): a Send or Write completes when the peer has taken
 * it, and with the error that the peer has found in it; on the wire, between two QPs, at ends. */
#include "one_qp.h"

#define LENGTH 64u

static struct region from, to;

static void acknowledge(struct side *side, bool on)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_ACKNOWLEDGED,
                                   .acknowledged = on };

    OK(bed.fake.privileged.qp_modify(side->qp, &modify));
}

static void connect_both(const struct shape *shape)
{
    testbed_connect(&bed, shape, NULL);
    acknowledge(a, true);
    acknowledge(b, true);
    from = region_new(a, LENGTH, TESTBED_ALL);
    to = region_new(b, LENGTH, TESTBED_ALL);
}

/* Side a with a hand-written peer. */
static void connect_raw(void)
{
    open_raw(NULL, &plain);
    acknowledge(a, true);
    from = region_new(a, LENGTH, TESTBED_ALL);
}

static void write_to(uint64_t cookie, uint32_t rkey)
{
    side_write(a, cookie, region_sge(&from, 0, 8), (uintptr_t)to.octets, rkey);
}

/* The next FPDU of side a is an empty Read Request with this MSN. */
static void expect_question(uint32_t msn)
{
    struct rdmap_read_req request;

    ck_assert(next_frame());
    ck_assert_uint_eq(frame.segment.opcode, RDMAP_READ_REQ);
    ck_assert_uint_eq(frame.segment.hdr.msn, msn);
    rdmap_get_read_req(frame.segment.payload, &request);
    ck_assert_uint_eq(request.size, 0);
}

static void expect_frame(enum rdmap_opcode opcode)
{
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.segment.opcode, opcode);
}

static void answer(void)
{
    raw_tagged(&raw, rdmap_ctrl(RDMAP_READ_RESP), true, 0, 0, NULL, 0);
}

/* ---- on the wire ---- */

/* Nothing is complete before the answer, and one question is under way at a time. */
START_TEST(completes_at_the_answer)
{
    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    ck_assert(side_idle(a, a->send_cq));
    side_write(a, 2, region_sge(&from, 0, 8), 0x1000, 0x100);
    expect_frame(RDMAP_WRITE);
    ck_assert(raw_silent(&raw));
    answer();
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    expect_question(2);
    ck_assert(side_idle(a, a->send_cq));
    answer();
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    ck_assert(raw_silent(&raw));
}
END_TEST

/* The answer to a Read means that what was sent before it was taken, too: no question is needed. */
START_TEST(a_read_is_a_question)
{
    struct ri_send_wr *bad, read = { .cookie = 2,
                                     .num_sge = 0,
                                     .opcode = RI_WR_RDMA_READ,
                                     .flags = RI_WR_SIGNALED,
                                     .rdma = { .remote_addr = 0x1000, .rkey = 0x100 } };
    struct ri_sge sge;
    struct ri_send_wr send = { .next = &read,
                               .cookie = 1,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .opcode = RI_WR_SEND,
                               .flags = RI_WR_SIGNALED };

    connect_raw();
    sge = region_sge(&from, 0, 8);
    OK(bed.fake.user.post_send(a->qp, &send, &bad));
    expect_frame(RDMAP_SEND);
    expect_frame(RDMAP_READ_REQ);
    ck_assert(raw_silent(&raw));
    ck_assert(side_idle(a, a->send_cq));
    answer();
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
    ck_assert(raw_silent(&raw));
}
END_TEST

/* A peer that closes in order has read what came before; one that resets may not have. */
START_TEST(the_peer_closes)
{
    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
}
END_TEST

/* A Send that came too late was not taken, though the FIN is what is read first. */
START_TEST(the_peer_closes_before)
{
    connect_raw();
    raw_close(&raw);
    side_send(a, 1, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* What came before its end was read, and what came behind it was not. */
START_TEST(the_peer_closes_in_between)
{
    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    raw_close(&raw);
    side_send(a, 2, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
}
END_TEST

START_TEST(the_peer_resets)
{
    struct linger now = { .l_onoff = 1 };

    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    ck_assert_int_eq(setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    raw_close(&raw);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect_event(a, RI_EVENT_LLP_RESET, 0);
}
END_TEST

/* The answer may come while this side closes; the consumer hears of an orderly end. */
START_TEST(closing_with_a_question)
{
    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    side_modify(a, RI_QPS_CLOSING);
    answer();
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
}
END_TEST

/* Turned off, requests are complete when they are sent, those that wait among them. */
START_TEST(turned_off)
{
    connect_raw();
    side_send(a, 1, region_sge(&from, 0, 8));
    expect_frame(RDMAP_SEND);
    expect_question(1);
    acknowledge(a, false);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_send(a, 2, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    answer();
    expect_frame(RDMAP_SEND);
    ck_assert(raw_silent(&raw));
}
END_TEST

/* ---- between two QPs ---- */

/* The octets of a Write are in the peer's memory when it completes. */
START_TEST(octets_are_there)
{
    connect_both(NULL);
    for (uint32_t i = 1; i <= 200; i++) {
        memset(from.octets, (int)i, 8);
        write_to(i, to.keys.rkey);
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 8);
        ck_assert_mem_eq(to.octets, from.octets, 8);
    }
}
END_TEST

/* More than a question's worth of requests, of all kinds, and the least depth of Reads. */
START_TEST(all_kinds_in_order)
{
    const struct shape shape = { .depth = 64, .ird = 1, .ord = 1 };
    struct region received;

    connect_both(&shape);
    received = region_new(b, LENGTH, TESTBED_ALL);
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 3 == 0) {
            side_receive(b, i, region_sge(&received, 0, LENGTH));
            side_send(a, i, region_sge(&from, 0, LENGTH));
        } else if (i % 3 == 1) {
            write_to(i, to.keys.rkey);
        } else {
            side_read(a, i, region_sge(&from, 0, 8), (uintptr_t)to.octets, to.keys.rkey);
        }
    }
    for (uint32_t i = 0; i < 60; i++)
        ck_assert_uint_eq(side_next(a, a->send_cq).cookie, i);
    for (uint32_t i = 0; i < 60; i += 3)
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, LENGTH);
}
END_TEST

/* Of many requests that are under way the one that the peer refuses fails: those before it have
 * succeeded, those behind it are flushed. `i`: 1 a Write, 2 a Send into memory that is gone, 3 one
 * that is too long, 4 one without a receive. */
START_TEST(the_right_one_fails)
{
    static const enum ri_wc_status statuses[] = { 0, RI_WC_REMOTE_ACCESS, RI_WC_REMOTE_OPERATION,
                                                  RI_WC_REMOTE_INVALID_REQUEST, RI_WC_RNR };
    struct region received, gone;

    connect_both(NULL);
    received = region_new(b, LENGTH, TESTBED_ALL);
    gone = region_new(b, LENGTH, TESTBED_ALL);
    side_receive(b, 0, region_sge(&received, 0, LENGTH));
    side_receive(b, 1, region_sge(&received, 0, LENGTH));
    if (_i == 2)
        side_receive(b, 2, region_sge(&gone, 0, LENGTH));
    else if (_i == 3)
        side_receive(b, 2, region_sge(&received, 0, 4));
    region_free(b, &gone);
    side_send(a, 0, region_sge(&from, 0, 8));
    write_to(1, to.keys.rkey);
    side_send(a, 2, region_sge(&from, 0, 8));
    if (_i == 1)
        write_to(3, to.keys.rkey ^ 0x5500);
    else
        side_send(a, 3, region_sge(&from, 0, 8));
    write_to(4, to.keys.rkey);
    side_send(a, 5, region_sge(&from, 0, 8));
    for (uint64_t cookie = 0; cookie < 3; cookie++)
        side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 3, statuses[_i], 0);
    side_expect(a, a->send_cq, 4, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 5, RI_WC_FLUSHED, 0);
}
END_TEST

/* Agreed on when requests are under way already: those complete, and errors are found in the right
 * ones. */
START_TEST(begins_later)
{
    struct region received;

    testbed_connect(&bed, NULL, NULL);
    from = region_new(a, LENGTH, TESTBED_ALL);
    to = region_new(b, LENGTH, TESTBED_ALL);
    received = region_new(b, LENGTH, TESTBED_ALL);
    for (uint64_t cookie = 0; cookie < 4; cookie++)
        side_receive(b, cookie, region_sge(&received, 0, LENGTH));
    side_send(a, 0, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 8);
    side_send(a, 1, region_sge(&from, 0, 8));
    acknowledge(b, true);
    acknowledge(a, true);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_send(a, 2, region_sge(&from, 0, 8));
    side_send(a, 3, region_sge(&from, 0, 8));
    side_send(a, 4, region_sge(&from, 0, 8));
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 4, RI_WC_RNR, 0);
}
END_TEST

/* A QP that permits no Reads answers the question all the same, but no Read of octets. */
START_TEST(without_reads)
{
    const struct shape shape = { .no_read = true };

    connect_both(&shape);
    write_to(1, to.keys.rkey);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_read(a, 2, region_sge(&from, 0, 8), (uintptr_t)to.octets, to.keys.rkey);
    side_expect(a, a->send_cq, 2, RI_WC_REMOTE_ACCESS, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("acknowledged requests");
    TCase *tc = new_case(suite, "wire", bed_open, bed_close);

    tc_add_tests(tc, completes_at_the_answer, a_read_is_a_question, the_peer_closes,
                 the_peer_closes_before, the_peer_closes_in_between, the_peer_resets,
                 closing_with_a_question, turned_off);
    tc = new_case(suite, "two", bed_open, bed_close);
    tc_add_tests(tc, octets_are_there, all_kinds_in_order);
    tcase_add_loop_test(tc, the_right_one_fails, 1, 5);
    tc_add_tests(tc, begins_later, without_reads);
    return tc_main(suite);
}

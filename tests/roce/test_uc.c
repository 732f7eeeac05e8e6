/* SPDX-License-Identifier: BSD-3-Clause */
/* An unreliable connection against a peer that the test is. */
#include "one_end.h"

#include <string.h>

#define UC(operation) ((uint8_t)(BTH_UC | (operation)))

static void open_unreliable(void)
{
    one_open();
    attr.unreliable = true;
    attr.ird = attr.ord = 0;
    one_connect();
}

static uint64_t dropped(void)
{
    return atomic_load(&sim_qp(&sim, 0)->counters.dropped);
}

/* A Send of three packets, of which those in the mask come. */
static void ask_send(uint32_t n, uint32_t mask)
{
    static const uint8_t opcodes[] = { UC(BTH_SEND_FIRST), UC(BTH_SEND_MIDDLE), UC(BTH_SEND_LAST) };

    for (uint32_t i = 0; i < 3; i++)
        if (mask & 1u << i)
            ask(request(opcodes[i], PEER(n + i), i < 2 ? MTU : 10));
}

/* --- sends --- */

START_TEST(R120_a_request_is_done_when_its_packets_are_sent)
{
    post_send(0);
    post_send(2 * MTU + 1);
    post_flags(RI_WR_RDMA_WRITE_IMMEDIATE, MTU, RI_WR_SIGNALED | RI_WR_SOLICITED);
    post_write(2 * MTU);
    for (uint64_t i = 1; i <= 4; i++)
        expect_wc(SENDS, i, RI_WC_SUCCESS);
    expect_packet(UC(BTH_SEND_ONLY), PSN(0));
    expect_packet(UC(BTH_SEND_FIRST), PSN(1));
    expect_packet(UC(BTH_SEND_MIDDLE), PSN(2));
    expect_packet(UC(BTH_SEND_LAST), PSN(3));
    expect_packet(UC(BTH_WRITE_ONLY_IMM), PSN(4));
    expect_packet(UC(BTH_WRITE_FIRST), PSN(5));
    expect_packet(UC(BTH_WRITE_LAST), PSN(6));
    pass_time(60000 * SIM_MS); /* nothing is sent again */
    expect_silence();
    for (uint32_t i = 0; i < sim.logged; i++)
        ck_assert(!sim.log[i].ack_req);
}
END_TEST

START_TEST(R120_a_long_message_leaves_in_turns)
{
    post_write(REGION); /* more than a carrier's batch */
    post_write(REGION);
    post_write(REGION);
    post_send(1);
    for (uint64_t i = 1; i <= 4; i++)
        expect_wc(SENDS, i, RI_WC_SUCCESS);
    ck_assert_uint_eq(count_sent(), 3 * REGION / MTU + 1);
    ck_assert_uint_eq(sim.log[sim.logged - 1].psn, PSN(3 * REGION / MTU));
}
END_TEST

START_TEST(R120_what_the_carrier_does_not_take_waits)
{
    sim.link.refuse = 500;
    for (int i = 0; i < 20; i++)
        post_send(3 * MTU);
    sim_settle(&sim);
    for (uint64_t i = 1; i <= 20; i++)
        expect_wc(SENDS, i, RI_WC_SUCCESS);
    for (uint32_t i = 0; i < 60; i++)
        ck_assert_uint_eq(next_sent().psn, PSN(i));
    expect_silence();
}
END_TEST

/* {qp-states} SQE */
START_TEST(R120_one_that_fails_flushes_those_behind_it_and_receives_go_on)
{
    struct ri_sge sge = sim_sge(&region, 0, 10);
    struct ri_send_wr wr = { .cookie = 77, .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND };

    sge.lkey ^= 0x5a5a00;
    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
    expect_wc(SENDS, 77, RI_WC_LOCAL_PROTECTION);
    post_send(1);
    expect_wc(SENDS, 1, RI_WC_FLUSHED);
    expect_silence();
    post_receive(5, 0, 100);
    ask(request(UC(BTH_SEND_ONLY), PEER(0), 100));
    expect_wc(RECEIVES, 5, RI_WC_SUCCESS);
    tx_enter(&sim_qp(&sim, 0)->core);
    rc_recover(sim_qp(&sim, 0));
    tx_leave(&sim_qp(&sim, 0)->core);
    post_send(1);
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
    expect_packet(UC(BTH_SEND_ONLY), PSN(0));
}
END_TEST

/* --- receives --- */

START_TEST(R121_messages_in_order_arrive_and_nothing_is_answered)
{
    struct bth_packet packet;
    struct ri_wc wc;

    post_receive(1, 0, 1024);
    ask_send(0, 7);
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    ck_assert(!memcmp(region.octets, pattern, MTU));
    ask(write_request(UC(BTH_WRITE_FIRST), PEER(3), MTU, 4096, MTU + 8));
    packet = request(UC(BTH_WRITE_LAST_IMM), PEER(4), 8);
    packet.imm = 0xcafe0003;
    packet.ack_req = true; /* which nobody asks over UC */
    post_receive(2, 0, 0);
    ask(packet);
    wc = next_wc(RECEIVES);
    ck_assert_int_eq(wc.opcode, RI_WC_RECV_IMMEDIATE);
    ck_assert_uint_eq(wc.immediate, 0xcafe0003);
    ck_assert_uint_eq(wc.byte_len, MTU + 8);
    ck_assert(!memcmp(region.octets + 4096, pattern, MTU));
    expect_silence();
}
END_TEST

/* Any of its packets is lost. */
START_TEST(R121_a_message_that_broke_off_is_dropped_and_its_receive_is_used_again)
{
    struct ri_wc wc;

    post_receive(1, 0, 1024);
    post_receive(2, 2048, 1024);
    ask_send(0, 7u & ~(1u << _i));
    expect_no_wc(RECEIVES);
    ask_send(3, 7);
    wc = next_wc(RECEIVES);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.byte_len, 2 * MTU + 10);
    ck_assert(!memcmp(region.octets + 2 * MTU, pattern, 10));
    ask(request(UC(BTH_SEND_ONLY), PEER(6), 5));
    expect_wc(RECEIVES, 2, RI_WC_SUCCESS);
    ck_assert_uint_eq(dropped(), _i ? 1 : 0); /* one whose first is lost has not begun */
    expect_silence();
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(R121_any_PSN_may_begin_a_message)
{
    post_receive(1, 0, 100);
    post_receive(2, 0, 100);
    ask(request(UC(BTH_SEND_ONLY), PEER(1000), 100));
    ask(request(UC(BTH_SEND_ONLY), PEER(3), 100));
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_wc(RECEIVES, 2, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R122_without_a_receive_the_message_is_dropped)
{
    ask_send(0, 1);
    post_receive(1, 0, 1024);
    ask(request(UC(BTH_SEND_MIDDLE), PEER(1), MTU));
    ask(request(UC(BTH_SEND_LAST), PEER(2), 1));
    expect_no_wc(RECEIVES);
    ck_assert_uint_eq(dropped(), 1);
    ask_send(3, 7);
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_silence();
}
END_TEST

START_TEST(R122_every_error_drops_its_message_alone)
{
    struct bth_packet bad[8];
    uint32_t n = 0;

    post_receive(1, 0, 100);
    bad[n++] = request(UC(BTH_SEND_ONLY), 0, 101);                     /* longer than the receive */
    bad[n++] = request(UC(BTH_SEND_FIRST), 0, 100);                    /* no MTU */
    bad[n++] = write_request(UC(BTH_WRITE_ONLY), 0, 8, REGION - 4, 8); /* out of range */
    bad[n] = write_request(UC(BTH_WRITE_ONLY), 0, 8, 0, 8);
    bad[n++].r_key ^= 0x5a5a00;
    bad[n++] = write_request(UC(BTH_WRITE_ONLY), 0, 8, 0, 9); /* of another length */
    bad[n++] = write_request(UC(BTH_WRITE_FIRST), 0, MTU, 0, MTU);
    for (uint32_t i = 0; i < n; i++) {
        bad[i].psn = PEER(i);
        ask(bad[i]);
        ck_assert_uint_eq(dropped(), i + 1);
    }
    ck_assert_int_eq(state(), RI_QPS_RTS);
    ask(request(UC(BTH_SEND_ONLY), PEER(n), 100));
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_silence();
}
END_TEST

START_TEST(R122_packets_in_a_wrong_order_are_dropped)
{
    post_receive(1, 0, 1024);
    ask(request(UC(BTH_SEND_MIDDLE), PEER(0), MTU));
    ask(request(UC(BTH_WRITE_LAST), PEER(1), 1));
    ask(request(UC(BTH_SEND_FIRST), PEER(2), MTU));
    ask(request(UC(BTH_WRITE_LAST), PEER(3), 1)); /* of another kind */
    ask(request(UC(BTH_SEND_LAST), PEER(4), 1));
    expect_no_wc(RECEIVES);
    ask(request(UC(BTH_SEND_FIRST), PEER(5), MTU));
    ask(request(UC(BTH_SEND_ONLY), PEER(6), 7)); /* it is taken */
    ck_assert_uint_eq(next_wc(RECEIVES).byte_len, 7);
    expect_silence();
}
END_TEST

START_TEST(R060_packets_of_RC_and_what_UC_has_not_are_dropped)
{
    post_receive(1, 0, 1024);
    for (uint32_t operation = 0; operation < 0x20; operation++) {
        ask(request((uint8_t)operation, PEER(0), 0));
        if (operation > BTH_WRITE_ONLY_IMM)
            ask(request(UC(operation), PEER(0), 0));
    }
    expect_no_wc(RECEIVES);
    expect_silence();
    ck_assert_uint_eq(sim_qp(&sim, 0)->rsp.epsn, PEER(0));
}
END_TEST

START_TEST(R122_memory_of_this_side_that_is_gone_ends_the_QP)
{
    struct ri_sge sge = sim_sge(&region, 0, 100);

    sge.lkey ^= 0x5a5a00;
    ck_assert_int_eq(sim_post_recv(&sim, 0, 1, sge), RI_OK);
    ask(request(UC(BTH_SEND_ONLY), PEER(0), 100));
    expect_wc(RECEIVES, 1, RI_WC_LOCAL_PROTECTION);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
    expect_silence();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("uc");
    TCase *sends = tc_case(suite, "sends", open_unreliable, one_close);
    TCase *receives = tc_case(suite, "receives", open_unreliable, one_close);

    tc_add_tests(sends, R120_a_request_is_done_when_its_packets_are_sent,
                 R120_a_long_message_leaves_in_turns, R120_what_the_carrier_does_not_take_waits,
                 R120_one_that_fails_flushes_those_behind_it_and_receives_go_on);
    tc_add_tests(receives, R121_messages_in_order_arrive_and_nothing_is_answered);
    tcase_add_loop_test(
        receives, R121_a_message_that_broke_off_is_dropped_and_its_receive_is_used_again, 0, 3);
    tc_add_tests(
        receives, R121_any_PSN_may_begin_a_message, R122_without_a_receive_the_message_is_dropped,
        R122_every_error_drops_its_message_alone, R122_packets_in_a_wrong_order_are_dropped,
        R060_packets_of_RC_and_what_UC_has_not_are_dropped,
        R122_memory_of_this_side_that_is_gone_ends_the_QP);
    return tc_main(suite);
}

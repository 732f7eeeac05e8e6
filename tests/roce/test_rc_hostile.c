/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer, or somebody who pretends to be it, sends what no peer would: defined answers, bounded
 * output, nothing outside of the region; what is honest goes on.
 */
#include "one_end.h"

static struct tc_rng rng;

static void open_seeded(void)
{
    one_open_connected();
    rng = tc_rng(11);
}

/* Any PSN but those that are near. */
static uint32_t far_off(uint32_t from)
{
    return bth_psn_add(from, 1000 + (uint32_t)tc_below(&rng, 0x1000000 - 2000));
}

static uint8_t some_opcode(void)
{
    uint8_t opcode;

    do
        opcode = (uint8_t)tc_below(&rng, 0x18);
    while (!bth_ops[opcode].name);
    return opcode;
}

static uint32_t fitting_length(uint8_t opcode)
{
    switch (bth_ops[opcode].payload) {
    case BTH_PAYLOAD_NONE: return 0;
    case BTH_PAYLOAD_MTU: return MTU;
    default: return 1 + (uint32_t)tc_below(&rng, MTU);
    }
}

START_TEST(R017_R041_R048_psns_far_off_get_one_nak_and_change_nothing)
{
    uint8_t before[256];

    memset(region.octets, 0x55, 256);
    memcpy(before, region.octets, 256);
    post_receive(90, 0, 4096);
    post_send(1);
    post_read(3 * MTU);
    skip_sent();
    for (unsigned long i = 0; i < tc_count(5000); i++) {
        uint8_t opcode = some_opcode();
        bool is_answer = bth_is_response(&bth_ops[opcode]);
        struct bth_packet packet = write_request(opcode, 0, fitting_length(opcode), 0, MTU);

        packet.psn = far_off(is_answer ? PSN(0) : PEER(0));
        if (is_answer)
            packet.syndrome = AETH_ACK_NO_LIMIT;
        ask_ack(packet);
    }
    /* One NAK, and an acknowledgement for each duplicate at most. */
    ck_assert_uint_le(count_sent(), tc_count(5000));
    for (uint32_t i = 0, naks = 0; i < sim.logged && i < SIM_LOG; i++) {
        naks += sim.log[i].opcode == BTH_ACKNOWLEDGE && sim.log[i].syndrome == AETH_NAK_SEQUENCE;
        ck_assert_uint_le(naks, 1);
        ck_assert_uint_ne(sim.log[i].opcode, BTH_READ_RESPONSE_ONLY);
    }
    ck_assert(!memcmp(region.octets, before, 256));
    expect_no_wc(SENDS);
    expect_no_wc(RECEIVES);
    ck_assert_int_eq(state(), RI_QPS_RTS);
    /* What is honest goes on. */
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    skip_sent();
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 4));
    expect_answer(PEER(0), AETH_ACK_NO_LIMIT, 1);
    expect_wc(RECEIVES, 90, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R046_replays_of_atomics_execute_nothing)
{
    uint64_t *word = (uint64_t *)(void *)region.octets;

    for (uint32_t i = 0; i < 4; i++)
        ask(atomic_request(PEER(i), 0, 1));
    skip_sent();
    for (int i = 0; i < 1000; i++)
        ask(atomic_request(PEER(tc_below(&rng, 4)), 0, 1));
    ck_assert_uint_eq(*word, 4);
    ck_assert_uint_eq(count_sent(), 1000); /* one for one */
}
END_TEST

START_TEST(a_peer_that_is_silent_costs_ever_less)
{
    one_close();
    one_open();
    attr.timeout = 0;
    one_connect();
    post_write(100 * MTU);
    skip_sent();
    pass_time(60000 * SIM_MS);
    ck_assert_uint_le(count_sent(), 80);
}
END_TEST

/* Every packet that a RC QP could get, near to what it expects, until the QP ends. */
START_TEST(random_packets_near_to_what_is_expected)
{
    uint32_t completions = 0;
    struct ri_wc wc;

    rng = tc_rng(100 + (uint64_t)_i);
    for (uint32_t i = 0; i < 8; i++)
        post_receive(90 + i, 0, 1000);
    post_read(5 * MTU);
    post_write(3 * MTU);
    post_atomic();
    post_send(10);
    for (int i = 0; i < 200 && state() == RI_QPS_RTS; i++) {
        const struct rc_qp *qp = sim_qp(&sim, 0);
        uint8_t opcode = some_opcode();
        bool is_answer = bth_is_response(&bth_ops[opcode]);
        struct bth_packet packet = write_request(opcode, 0, fitting_length(opcode),
                                                 (uint32_t)tc_below(&rng, 4096) * 8,
                                                 (uint32_t)tc_below(&rng, 3 * MTU));

        packet.psn = bth_psn_add(is_answer ? qp->req.una : qp->rsp.epsn,
                                 (uint32_t)tc_below(&rng, 8) + 0xFFFFFD);
        if (is_answer) {
            packet.syndrome = opcode == BTH_ACKNOWLEDGE && !tc_below(&rng, 8)
                                  ? (uint8_t)tc_below(&rng, 0x64)
                                  : AETH_ACK_NO_LIMIT;
            if (!aeth_is_known(packet.syndrome))
                continue;
        }
        ask_ack(packet);
        if (!tc_below(&rng, 10))
            pass_time(SIM_MS);
    }
    ck_assert_uint_le(count_sent(), 200 * 80);
    while (sim_poll(&sim, SENDS, &wc) || sim_poll(&sim, RECEIVES, &wc))
        completions++;
    ck_assert_uint_le(completions, 12);
    if (state() == RI_QPS_ERROR)
        ck_assert_uint_eq(completions, 12);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc hostile");
    TCase *t = tc_case(s, "hostile", open_seeded, one_close);

    tc_add_tests(t, R017_R041_R048_psns_far_off_get_one_nak_and_change_nothing,
                 R046_replays_of_atomics_execute_nothing, a_peer_that_is_silent_costs_ever_less);
    tcase_add_loop_test(t, random_packets_near_to_what_is_expected, 0, 50);
    return tc_main(s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester of a reliable connection against a peer that the test is. */
#include "one_end.h"

/* ---- packets of requests ---- */

START_TEST(R001_R003_R004_a_message_is_cut_at_the_mtu)
{
    struct sim_sent sent;

    post_send(2 * MTU + 1);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint8_t opcodes[] = { BTH_SEND_FIRST, BTH_SEND_MIDDLE, BTH_SEND_LAST };

        sent = next_sent();
        ck_assert_uint_eq(sent.opcode, opcodes[i]);
        ck_assert_uint_eq(sent.psn, PSN(i));
        ck_assert_uint_eq(sent.payload_len, i < 2 ? MTU : 1);
        ck_assert_int_eq(sent.ack_req, i == 2);
    }
    post_write(MTU + 1);
    sent = next_sent();
    ck_assert_uint_eq(sent.opcode, BTH_WRITE_FIRST);
    ck_assert_uint_eq(sent.dma_length, MTU + 1);
    ck_assert_uint_eq(sent.va, 0x10000);
    expect_packet(BTH_WRITE_LAST, PSN(4));
    post_send(MTU);
    expect_packet(BTH_SEND_ONLY, PSN(5));
    post_send(0);
    expect_packet(BTH_SEND_ONLY, PSN(6));
    post_write(0);
    expect_packet(BTH_WRITE_ONLY, PSN(7));
    expect_silence();
}
END_TEST

START_TEST(R002_a_read_takes_the_psns_of_its_responses)
{
    post_read(3 * MTU + 1);
    post_read(0);
    post_send(1);
    expect_packet(BTH_READ_REQUEST, PSN(0));
    expect_packet(BTH_READ_REQUEST, PSN(4));
    expect_packet(BTH_SEND_ONLY, PSN(5));
    expect_silence();
}
END_TEST

START_TEST(R090_R091_R110_immediate_key_and_event_are_in_the_last_packet)
{
    struct sim_sent sent;

    post_flags(RI_WR_SEND_IMMEDIATE, MTU + 1, RI_WR_SOLICITED);
    sent = next_sent();
    ck_assert(sent.opcode == BTH_SEND_FIRST && !sent.solicited);
    sent = next_sent();
    ck_assert(sent.opcode == BTH_SEND_LAST_IMM && sent.solicited);
    post_flags(RI_WR_SEND_INVALIDATE, 1, 0);
    expect_packet(BTH_SEND_ONLY_INV, PSN(2));
    post_flags(RI_WR_RDMA_WRITE_IMMEDIATE, 1, RI_WR_SOLICITED);
    sent = next_sent();
    ck_assert(sent.opcode == BTH_WRITE_ONLY_IMM && sent.solicited);
    post_flags(RI_WR_RDMA_WRITE, 1, RI_WR_SOLICITED);
    sent = next_sent();
    ck_assert(sent.opcode == BTH_WRITE_ONLY && !sent.solicited);
}
END_TEST

START_TEST(R004_R005_a_window_of_packets_and_its_last_asks)
{
    struct sim_sent sent = { .psn = 0 };
    uint32_t count = 0, asked = 0;

    post_write(200 * MTU);
    for (; count < RC_WINDOW_FIRST; count++) {
        sent = next_sent();
        asked += sent.ack_req;
    }
    expect_silence();
    ck_assert(sent.ack_req);
    ck_assert_uint_ge(asked, 2);
    /* What is acknowledged makes room, and the window grows. */
    answer_ack(PSN(RC_WINDOW_FIRST - 1));
    ck_assert_uint_ge(count_sent(), RC_WINDOW_FIRST + 1);
}
END_TEST

START_TEST(R006_reads_beyond_ord_wait_and_all_behind_them)
{
    attr.ord = 2;
    one_connect();
    post_read(1);
    post_read(1);
    post_read(1);
    post_send(1);
    ck_assert_uint_eq(count_sent(), 2);
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(0), "x", 1);
    expect_packet(BTH_READ_REQUEST, PSN(2));
    expect_packet(BTH_SEND_ONLY, PSN(3));
    expect_silence();
}
END_TEST

START_TEST(R021_a_fence_waits_for_reads_but_not_for_sends)
{
    post_send(1);
    post_read(1);
    post_flags(RI_WR_SEND, 1, RI_WR_SIGNALED | RI_WR_READ_FENCE);
    ck_assert_uint_eq(count_sent(), 2);
    answer_ack(PSN(0));
    expect_silence();
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(1), "x", 1);
    expect_packet(BTH_SEND_ONLY, PSN(2));
    post_flags(RI_WR_SEND, 1, RI_WR_SIGNALED | RI_WR_READ_FENCE);
    expect_packet(BTH_SEND_ONLY, PSN(3));
}
END_TEST

/* ---- acknowledgements ---- */

START_TEST(R007_R019_R022_R023_one_acknowledges_all_before_it)
{
    post_send(1);
    post_flags(RI_WR_SEND, 1, 0);
    post_write(2 * MTU);
    post_send(1);
    expect_no_wc(SENDS);
    answer_ack(PSN(2));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_no_wc(SENDS);
    answer_ack(PSN(1));
    answer_ack(PSN(2));
    expect_no_wc(SENDS);
    answer_ack(PSN(4));
    expect_wc(SENDS, 3, RI_WC_SUCCESS);
    expect_wc(SENDS, 4, RI_WC_SUCCESS);
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(R009_a_response_acknowledges_what_is_before_it)
{
    post_send(1);
    post_read(4);
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(1), "abcd", 4);
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
    ck_assert(!memcmp(region.octets, "abcd", 4));
    post_atomic();
    answer_atomic(PSN(2), 0x1122334455667788);
    expect_wc(SENDS, 3, RI_WC_SUCCESS);
    ck_assert_uint_eq(*(uint64_t *)(void *)region.octets, 0x1122334455667788);
}
END_TEST

START_TEST(R008_a_read_completes_by_its_own_response)
{
    post_read(2 * MTU);
    post_send(1);
    skip_sent();
    answer_read(BTH_READ_RESPONSE_FIRST, PSN(0), pattern, MTU);
    answer_ack(PSN(2));
    expect_no_wc(SENDS);
    /* what is missing. */
    struct sim_sent sent = next_sent();
    ck_assert_uint_eq(sent.opcode, BTH_READ_REQUEST);
    ck_assert_uint_eq(sent.psn, PSN(1));
    ck_assert_uint_eq(sent.va, 0x10000 + MTU);
    ck_assert_uint_eq(sent.dma_length, MTU);
    expect_packet(BTH_SEND_ONLY, PSN(2));
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(1), pattern + MTU, MTU);
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    ck_assert(!memcmp(region.octets, pattern, 2 * MTU));
    answer_ack(PSN(2));
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R014_a_response_in_the_middle_may_begin_anew_or_go_on)
{
    post_read(3 * MTU);
    answer_read(BTH_READ_RESPONSE_FIRST, PSN(0), pattern, MTU);
    answer_read(BTH_READ_RESPONSE_MIDDLE, PSN(1), pattern + MTU, MTU);
    answer_read(BTH_READ_RESPONSE_LAST, PSN(2), pattern + 2 * MTU, MTU);
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    ck_assert(!memcmp(region.octets, pattern, 3 * MTU));
    memset(region.octets, 0, 3 * MTU);
    post_read(3 * MTU);
    answer_read(BTH_READ_RESPONSE_FIRST, PSN(3), pattern, MTU);
    answer_read(BTH_READ_RESPONSE_LAST, PSN(5), pattern, MTU); /* lost: PSN 4 */
    answer_read(BTH_READ_RESPONSE_MIDDLE, PSN(4), pattern + MTU, MTU);
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(5), pattern + 2 * MTU, MTU);
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
    ck_assert(!memcmp(region.octets, pattern, 3 * MTU));
}
END_TEST

START_TEST(R017_stray_answers_are_dropped)
{
    post_send(1);
    skip_sent();
    answer_ack(PSN(1)); /* never sent */
    answer_ack(bth_psn_add(PSN(0), 0x7FFFFF));
    answer(PSN(1), AETH_NAK_REMOTE_ACCESS);
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(0), "x", 1);
    answer_atomic(PSN(0), 1);
    expect_no_wc(SENDS);
    expect_silence();
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    answer(PSN(0), AETH_NAK_REMOTE_ACCESS); /* it was acknowledged */
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(R018_a_response_of_another_length_ends_the_read)
{
    post_read(MTU + 10);
    post_send(1);
    answer_read(BTH_READ_RESPONSE_FIRST, PSN(0), pattern, MTU);
    answer_read(BTH_READ_RESPONSE_LAST, PSN(1), pattern, 11);
    expect_wc(SENDS, 1, RI_WC_BAD_RESPONSE);
    expect_wc(SENDS, 2, RI_WC_FLUSHED);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
}
END_TEST

START_TEST(R018_a_sink_that_has_gone_ends_the_read)
{
    post_read(10);
    sim.fake.privileged.mr_deregister(region.mr);
    region.mr = NULL;
    answer_read(BTH_READ_RESPONSE_ONLY, PSN(0), pattern, 10);
    expect_wc(SENDS, 1, RI_WC_LOCAL_PROTECTION);
    ck_assert_int_eq(region.octets[1], 0);
}
END_TEST

/* ---- refusals ---- */

START_TEST(R010_R013_R015_R020_a_sequence_nak_sends_again_from_there)
{
    post_write(4 * MTU);
    post_send(1);
    skip_sent();
    answer(PSN(2), AETH_NAK_SEQUENCE);
    expect_packet(BTH_WRITE_MIDDLE, PSN(2));
    expect_packet(BTH_WRITE_LAST, PSN(3));
    expect_packet(BTH_SEND_ONLY, PSN(4));
    answer(PSN(2), AETH_NAK_SEQUENCE); /* of the same loss */
    answer_ack(PSN(1));
    expect_silence();
    answer_ack(PSN(4));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R010_R072_sequence_naks_use_up_the_retries)
{
    attr.retry_cnt = 2;
    one_connect();
    post_send(1);
    for (int i = 0; i < 2; i++) {
        answer(PSN(0), AETH_NAK_SEQUENCE);
        expect_no_wc(SENDS);
        sim.now += SIM_MS / 2; /* a round trip after going back it is lost again */
    }
    ck_assert_uint_eq(count_sent(), 3);
    answer(PSN(0), AETH_NAK_SEQUENCE);
    expect_wc(SENDS, 1, RI_WC_TRANSPORT);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
}
END_TEST

START_TEST(R016_progress_gives_the_retries_back)
{
    attr.retry_cnt = 1;
    one_connect();
    post_write(6 * MTU);
    for (uint32_t i = 0; i < 5; i++) {
        answer(PSN(i), AETH_NAK_SEQUENCE);
        sim.now += SIM_MS / 2;
    }
    answer_ack(PSN(5));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R011_R072_a_receiver_that_is_not_ready_gives_the_retries_back)
{
    attr.retry_cnt = 1;
    one_connect();
    post_send(1);
    for (uint32_t i = 0; i < 5; i++) {
        answer(PSN(0), AETH_NAK_SEQUENCE);
        answer(PSN(0), AETH_RNR_NAK | 1);
        pass_time(SIM_MS / 2);
        expect_no_wc(SENDS);
    }
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R011_R064_R074_a_receiver_that_is_not_ready_is_waited_for)
{
    post_send(1);
    post_send(1);
    skip_sent();
    answer(PSN(0), AETH_RNR_NAK | 14); /* 1.28 ms */
    answer(PSN(0), AETH_NAK_SEQUENCE); /* rxe sends that, too */
    pass_time(1270 * SIM_US);
    expect_silence();
    pass_time(20 * SIM_US);
    expect_packet(BTH_SEND_ONLY, PSN(0));
    expect_packet(BTH_SEND_ONLY, PSN(1));
    answer_ack(PSN(1));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 2, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R011_R073_rnr_retry_and_one_sends)
{
    attr.rnr_retry = 2;
    one_connect();
    post_send(1);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(count_sent(), 1);
        expect_no_wc(SENDS);
        answer(PSN(0), AETH_RNR_NAK | 1);
        pass_time(20 * SIM_US);
    }
    expect_wc(SENDS, 1, RI_WC_RNR);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
}
END_TEST

START_TEST(R073_seven_is_for_ever)
{
    post_send(1);
    for (int i = 0; i < 100; i++) {
        answer(PSN(0), AETH_RNR_NAK | 1);
        pass_time(20 * SIM_US);
    }
    expect_no_wc(SENDS);
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
}
END_TEST

START_TEST(R012_R080_the_refused_request_fails_and_those_behind_it_are_flushed)
{
    static const struct {
        uint8_t syndrome;
        enum ri_wc_status status;
    } refusals[] = {
        { AETH_NAK_INVALID_REQUEST, RI_WC_REMOTE_INVALID_REQUEST },
        { AETH_NAK_REMOTE_ACCESS, RI_WC_REMOTE_ACCESS },
        { AETH_NAK_REMOTE_OPERATION, RI_WC_REMOTE_OPERATION },
    };

    post_send(1);
    post_write(3 * MTU);
    post_send(1);
    post_receive(90, 0, 10);
    answer(PSN(2), refusals[_i].syndrome);
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 2, refusals[_i].status);
    expect_wc(SENDS, 3, RI_WC_FLUSHED);
    expect_wc(RECEIVES, 90, RI_WC_FLUSHED);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
    skip_sent();
    post_send(1); /* */
    expect_wc(SENDS, 4, RI_WC_FLUSHED);
    expect_silence();
}
END_TEST

/* ---- silence ---- */

START_TEST(R013_R070_R071_time_outs_use_up_the_retries)
{
    uint64_t begin = sim.now, length = UINT64_C(4096) << 17, at;

    attr.timeout = 17;
    attr.retry_cnt = 2;
    one_connect();
    post_send(1);
    post_send(1);
    skip_sent();
    for (uint32_t i = 1; i <= 2; i++) {
        sim_run(&sim, begin + i * length - SIM_US, 10000);
        skip_sent(); /* probes */
        sim_run(&sim, begin + i * length + SIM_US, 10000);
        expect_packet(BTH_SEND_ONLY, PSN(0));
        expect_packet(BTH_SEND_ONLY, PSN(1));
        expect_no_wc(SENDS);
    }
    at = begin + 3 * length;
    sim_run(&sim, at - SIM_US, 10000);
    expect_no_wc(SENDS);
    sim_run(&sim, at + SIM_US, 10000);
    expect_wc(SENDS, 1, RI_WC_TRANSPORT);
    expect_wc(SENDS, 2, RI_WC_FLUSHED);
}
END_TEST

/* A peer that has answered is gone; one that never has may be on its way, and has all retries. */
START_TEST(R072_the_network_refuses_a_peer)
{
    const bool answered = _i;
    uint64_t length = UINT64_C(4096) << 17;

    attr.timeout = 17;
    attr.retry_cnt = 2;
    sim.end[0].unreachable = "nobody is there";
    one_connect();
    if (answered) {
        post_send(1);
        pass_time(3 * SIM_MS); /* it was probed: no round trip is known */
        answer_ack(PSN(0));
        expect_wc(SENDS, 1, RI_WC_SUCCESS);
    }
    post_send(1);
    pass_time(length + SIM_US);
    ck_assert_uint_eq(sim.end[0].silences, 1);
    if (!answered) {
        expect_no_wc(SENDS);
        pass_time(2 * length + SIM_US);
        ck_assert_uint_eq(sim.end[0].silences, 3);
    }
    expect_wc(SENDS, answered ? 2 : 1, RI_WC_TRANSPORT);
    ck_assert_int_eq(sim.end[0].events.type[0], RI_EVENT_LLP_LOST);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
}
END_TEST

/* Also a QP that only answers. */
START_TEST(R072_a_broken_way_ends_the_QP)
{
    const bool outstanding = _i;

    one_connect();
    if (outstanding)
        post_send(1);
    rc_break(rc_qp(container_of(sim.end[0].qp, struct qp, base)), "too long");
    pass_time(SIM_US);
    if (outstanding)
        expect_wc(SENDS, 1, RI_WC_TRANSPORT);
    ck_assert_int_eq(sim.end[0].events.type[0], RI_EVENT_LLP_LOST);
    ck_assert_int_eq(state(), RI_QPS_ERROR);
}
END_TEST

START_TEST(R070_without_a_time_out_nothing_ends)
{
    attr.timeout = 0;
    attr.retry_cnt = 0;
    one_connect();
    post_send(1);
    pass_time(20000 * SIM_MS);
    expect_no_wc(SENDS);
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
}
END_TEST

START_TEST(probes_are_the_oldest_packet_and_use_up_no_retry)
{
    attr.retry_cnt = 0;
    attr.timeout = 20;
    one_connect();
    post_write(3 * MTU);
    skip_sent();
    for (int i = 0; i < 5; i++) {
        pass_time(SIM_MS << i);
        struct sim_sent sent = next_sent();
        ck_assert_uint_eq(sent.opcode, BTH_WRITE_FIRST);
        ck_assert_uint_eq(sent.psn, PSN(0));
        ck_assert(sent.ack_req);
        expect_silence();
    }
    expect_no_wc(SENDS);
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(a_probe_that_was_the_lost_packet_sends_what_is_behind_it)
{
    post_write(3 * MTU);
    skip_sent();
    pass_time(SIM_MS);
    expect_packet(BTH_WRITE_FIRST, PSN(0));
    answer_ack(PSN(0));
    expect_packet(BTH_WRITE_MIDDLE, PSN(1));
    expect_packet(BTH_WRITE_LAST, PSN(2));
    expect_silence();
}
END_TEST

/* ---- errors of this side ---- */

START_TEST(R080_a_local_error_waits_for_what_is_before_it)
{
    struct ri_sge sge = { (uintptr_t)region.octets, 10, region.keys.lkey + 1 };
    struct ri_send_wr wr = {
        .cookie = 77, .sg_list = &sge, .num_sge = 1, .opcode = RI_WR_SEND, .flags = 0
    };

    post_send(1);
    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
    post_send(1);
    ck_assert_uint_eq(count_sent(), 1);
    expect_no_wc(SENDS);
    answer_ack(PSN(0));
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 77, RI_WC_LOCAL_PROTECTION);
    expect_wc(SENDS, 2, RI_WC_FLUSHED);
    expect_silence();
}
END_TEST

START_TEST(R094_local_requests_wait_for_those_before_them)
{
    struct sim_region other = sim_region(&sim, 0, 4096, RI_ACCESS_LOCAL_READ);
    struct ri_send_wr wr = { .cookie = 77,
                             .opcode = RI_WR_LOCAL_INVALIDATE,
                             .flags = RI_WR_SIGNALED,
                             .invalidate_stag = other.keys.lkey };

    post_send(1);
    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
    post_send(1);
    ck_assert_uint_eq(count_sent(), 1);
    answer_ack(PSN(0));
    sim_pass(&sim);
    expect_wc(SENDS, 1, RI_WC_SUCCESS);
    expect_wc(SENDS, 77, RI_WC_SUCCESS);
    expect_packet(BTH_SEND_ONLY, PSN(1));
    sim_region_free(&sim, &other);
}
END_TEST

START_TEST(a_message_beyond_2_31_octets_is_too_long)
{
    struct ri_sge sges[2] = { { (uintptr_t)region.octets, 0x80000000u, region.keys.lkey },
                              { (uintptr_t)region.octets, 1, region.keys.lkey } };
    struct ri_send_wr wr = {
        .cookie = 77, .sg_list = sges, .num_sge = 2, .opcode = RI_WR_SEND, .flags = RI_WR_SIGNALED
    };

    ck_assert_int_eq(sim_post(&sim, 0, &wr), RI_OK);
    expect_wc(SENDS, 77, RI_WC_LOCAL_LENGTH);
    expect_silence();
}
END_TEST

START_TEST(R081_posts_are_flushed_by_the_end)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_STATE,
                                   .state = RI_QPS_ERROR };

    post_send(1);
    post_read(1);
    post_receive(90, 0, 10);
    ck_assert_int_eq(sim.fake.privileged.qp_modify(sim.end[0].qp, &modify), RI_OK);
    expect_wc(SENDS, 1, RI_WC_FLUSHED);
    expect_wc(SENDS, 2, RI_WC_FLUSHED);
    expect_wc(RECEIVES, 90, RI_WC_FLUSHED);
    skip_sent();
    pass_time(1000 * SIM_MS);
    expect_silence();
}
END_TEST

START_TEST(a_carrier_without_room_is_asked_again)
{
    sim.link.refuse = 900; /* it takes fewer than all */
    post_write(20 * MTU);
    for (int i = 0; i < 2000 && sim_qp(&sim, 0)->req.max != PSN(20); i++)
        sim_step(&sim);
    sim.link.refuse = 0;
    for (uint32_t psn = 0, found; psn < 20; psn++) {
        found = 0;
        for (uint32_t i = 0; i < sim.logged; i++)
            found += sim.log[i].psn == PSN(psn);
        ck_assert_uint_ge(found, 1);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc requester");
    TCase *t = one_case(s, "packets"), *own = tc_case(s, "own attributes", one_open, one_close);

    tc_add_tests(t, R001_R003_R004_a_message_is_cut_at_the_mtu,
                 R002_a_read_takes_the_psns_of_its_responses,
                 R090_R091_R110_immediate_key_and_event_are_in_the_last_packet,
                 R004_R005_a_window_of_packets_and_its_last_asks,
                 R021_a_fence_waits_for_reads_but_not_for_sends);
    tc_add_tests(
        one_case(s, "answers"), R007_R019_R022_R023_one_acknowledges_all_before_it,
        R009_a_response_acknowledges_what_is_before_it, R008_a_read_completes_by_its_own_response,
        R014_a_response_in_the_middle_may_begin_anew_or_go_on, R017_stray_answers_are_dropped,
        R018_a_response_of_another_length_ends_the_read, R018_a_sink_that_has_gone_ends_the_read);
    t = one_case(s, "refusals");
    tc_add_tests(t, R010_R013_R015_R020_a_sequence_nak_sends_again_from_there,
                 R011_R064_R074_a_receiver_that_is_not_ready_is_waited_for, R073_seven_is_for_ever);
    tcase_add_loop_test(t, R012_R080_the_refused_request_fails_and_those_behind_it_are_flushed, 0,
                        3);
    tc_add_tests(own, R006_reads_beyond_ord_wait_and_all_behind_them,
                 R010_R072_sequence_naks_use_up_the_retries, R016_progress_gives_the_retries_back,
                 R011_R072_a_receiver_that_is_not_ready_gives_the_retries_back,
                 R011_R073_rnr_retry_and_one_sends, R013_R070_R071_time_outs_use_up_the_retries,
                 R070_without_a_time_out_nothing_ends,
                 probes_are_the_oldest_packet_and_use_up_no_retry);
    tcase_add_loop_test(own, R072_the_network_refuses_a_peer, 0, 2);
    tcase_add_loop_test(own, R072_a_broken_way_ends_the_QP, 0, 2);
    tc_add_tests(one_case(s, "this side"), a_probe_that_was_the_lost_packet_sends_what_is_behind_it,
                 R080_a_local_error_waits_for_what_is_before_it,
                 R094_local_requests_wait_for_those_before_them,
                 a_message_beyond_2_31_octets_is_too_long, R081_posts_are_flushed_by_the_end,
                 a_carrier_without_room_is_asked_again);
    return tc_main(s);
}

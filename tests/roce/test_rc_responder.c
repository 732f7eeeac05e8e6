/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of a reliable connection against a peer that the test is. */
#include "one_end.h"

#define ACK       AETH_ACK_NO_LIMIT
#define SEQUENCE  AETH_NAK_SEQUENCE
#define INVALID   AETH_NAK_INVALID_REQUEST
#define ACCESS    AETH_NAK_REMOTE_ACCESS
#define OPERATION AETH_NAK_REMOTE_OPERATION

/* The QP has ended: whatever comes is not answered. */
static void expect_ended(uint32_t psn)
{
    ck_assert_int_eq(state(), RI_QPS_ERROR);
    expect_silence();
    ask_ack(request(BTH_SEND_ONLY, psn, 1));
    expect_silence();
}

/* ---- in order ---- */

START_TEST(R030_R031_R040_R043_R059_messages_are_counted_and_acknowledged)
{
    post_receive(1, 0, 1024);
    post_receive(2, 1024, 1024);
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 5));
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_answer(PEER(0), ACK, 1);
    ask(request(BTH_SEND_FIRST, PEER(1), MTU));
    ask(request(BTH_SEND_MIDDLE, PEER(2), MTU));
    expect_silence();
    ask_ack(request(BTH_SEND_LAST, PEER(3), 1));
    expect_wc(RECEIVES, 2, RI_WC_SUCCESS);
    expect_answer(PEER(3), ACK, 2);
    ask_ack(read_request(PEER(4), 0, 2 * MTU));
    ck_assert_uint_eq(next_sent().msn, 3);
    expect_packet(BTH_READ_RESPONSE_LAST, PEER(5));
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(6), 1, 0, 1));
    expect_answer(PEER(6), ACK, 4);
    ck_assert(!memcmp(region.octets + 1024, pattern, MTU));
}
END_TEST

START_TEST(R041_R042_one_nak_for_each_gap)
{
    post_receive(1, 0, 10);
    post_receive(2, 0, 10);
    ask_ack(request(BTH_SEND_ONLY, PEER(1), 1));
    expect_answer(PEER(0), SEQUENCE, 0);
    ask_ack(request(BTH_SEND_ONLY, PEER(2), 1));
    ask_ack(request(BTH_SEND_ONLY, PEER(5), 1));
    expect_silence();
    ask_ack(request(BTH_SEND_ONLY, PEER(-1), 1)); /* a duplicate changes nothing */
    expect_answer(PEER(-1), ACK, 0);
    ask_ack(request(BTH_SEND_ONLY, PEER(5), 1));
    expect_silence();
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_answer(PEER(0), ACK, 1);
    ask_ack(request(BTH_SEND_ONLY, PEER(2), 1));
    expect_answer(PEER(1), SEQUENCE, 1);
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_no_wc(RECEIVES);
}
END_TEST

START_TEST(R065_half_of_all_psns_are_before)
{
    ask_ack(request(BTH_SEND_ONLY, PEER(0x800000), 1));
    expect_answer(PEER(-1), ACK, 0); /* */
    ask_ack(request(BTH_SEND_ONLY, PEER(0x7FFFFF), 1));
    expect_answer(PEER(0), SEQUENCE, 0);
}
END_TEST

static struct bth_packet with_ack(struct bth_packet packet)
{
    packet.ack_req = true;
    return packet;
}

/* Several packets of one pass. */
static void ask_together(const struct bth_packet *packets, uint32_t count)
{
    uint8_t octets[BTH_HEADERS_MAX + BTH_MTU_MAX + 8];

    sim.link.delay = 0;
    sim.alone = false;
    for (uint32_t i = 0; i < count; i++) {
        struct bth_packet packet = packets[i];
        struct sim_packet *queued;
        uint32_t len;

        packet.p_key = BTH_P_KEY;
        packet.dest_qpn = SIM_QPN;
        len = bth_put(octets, &packet);
        if (packet.payload_len)
            memcpy(octets + len, packet.payload, packet.payload_len);
        len += packet.payload_len;
        memset(octets + len, 0, 8);
        len += bth_pad(packet.payload_len) + BTH_ICRC_LEN;
        queued = malloc(sizeof(*queued) + len);
        *queued = (struct sim_packet){ .at = sim.now, .side = 0, .len = len };
        memcpy(queued->octets, octets, len);
        struct sim_packet **place = &sim.queue;
        while (*place)
            place = &(*place)->next;
        *place = queued;
        sim.queued++;
    }
    sim.alone = true;
    sim_pass(&sim);
}

START_TEST(R044_acknowledgements_of_one_pass_are_merged)
{
    const struct bth_packet packets[] = {
        with_ack(write_request(BTH_WRITE_ONLY, PEER(0), 1, 0, 1)),
        with_ack(write_request(BTH_WRITE_ONLY, PEER(1), 1, 1, 1)),
        write_request(BTH_WRITE_ONLY, PEER(2), 1, 2, 1),
    };
    const struct bth_packet gap[] = {
        with_ack(write_request(BTH_WRITE_ONLY, PEER(3), 1, 0, 1)),
        with_ack(write_request(BTH_WRITE_ONLY, PEER(5), 1, 1, 1)),
        with_ack(write_request(BTH_WRITE_ONLY, PEER(1), 1, 1, 1)),
    };

    ask_together(packets, 3);
    expect_answer(PEER(2), ACK, 3);
    expect_silence();
    ask_together(gap, 3); /* the NAK acknowledges what is before it, and is not lost */
    expect_answer(PEER(4), SEQUENCE, 4);
    expect_silence();
}
END_TEST

START_TEST(R063_an_answer_of_a_read_is_not_overtaken)
{
    const struct bth_packet packets[] = {
        with_ack(write_request(BTH_WRITE_ONLY, PEER(0), 4, 0, 4)),
        with_ack(read_request(PEER(1), 0, 4)),
        with_ack(write_request(BTH_WRITE_ONLY, PEER(2), 1, 8, 1)),
    };

    ask_together(packets, 3);
    expect_packet(BTH_READ_RESPONSE_ONLY, PEER(1));
    expect_answer(PEER(2), ACK, 3);
    expect_silence();
}
END_TEST

START_TEST(R056_R090_R100_immediate_takes_a_receive_and_no_octet)
{
    struct bth_packet packet = write_request(BTH_WRITE_ONLY_IMM, PEER(0), 5, 100, 5);
    struct ri_wc wc;

    post_receive(1, 0, 10);
    post_receive(2, 0, 10);
    post_receive(3, 0, 10);
    packet.imm = 0xCAFE0003;
    packet.solicited = true;
    ask_ack(packet);
    wc = next_wc(RECEIVES);
    ck_assert(wc.cookie == 1 && wc.opcode == RI_WC_RECV_IMMEDIATE && wc.byte_len == 5 &&
              wc.immediate == 0xCAFE0003 && wc.flags & RI_WC_SOLICITED);
    ck_assert(!memcmp(region.octets + 100, pattern, 5));
    packet = request(BTH_SEND_ONLY_IMM, PEER(1), 0);
    packet.imm = 7;
    ask_ack(packet);
    wc = next_wc(RECEIVES);
    ck_assert(wc.cookie == 2 && wc.opcode == RI_WC_RECV && !wc.byte_len && wc.immediate == 7);
    packet = write_request(BTH_WRITE_ONLY_IMM, PEER(2), 0, 0, 0);
    packet.r_key = 0; /* */
    ask_ack(packet);
    wc = next_wc(RECEIVES);
    ck_assert(wc.cookie == 3 && wc.opcode == RI_WC_RECV_IMMEDIATE && !wc.byte_len);
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(R003_R100_empty_reads_and_writes_may_name_anything)
{
    struct bth_packet packet = read_request(PEER(0), 0, 0);

    packet.r_key = 0;
    ask_ack(packet);
    expect_packet(BTH_READ_RESPONSE_ONLY, PEER(0));
    packet = write_request(BTH_WRITE_ONLY, PEER(1), 0, 0, 0);
    packet.r_key = 0;
    ask_ack(packet);
    expect_answer(PEER(1), ACK, 2);
}
END_TEST

/* ---- duplicates ---- */

START_TEST(R045_R066_a_duplicate_is_acknowledged_and_not_executed)
{
    post_receive(1, 0, 10);
    post_receive(2, 0, 10);
    ask(request(BTH_SEND_ONLY, PEER(-1), 1));
    expect_answer(PEER(-1), ACK, 0);
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    ask(write_request(BTH_WRITE_ONLY, PEER(1), 1, 100, 1));
    skip_sent();
    region.octets[100] = 99;
    ask(write_request(BTH_WRITE_ONLY, PEER(1), 1, 100, 1)); /* also without AckReq */
    expect_answer(PEER(1), ACK, 2);
    ck_assert_uint_eq(region.octets[100], 99);
    ask(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_answer(PEER(1), ACK, 2);
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_no_wc(RECEIVES);
}
END_TEST

START_TEST(R046_a_duplicate_atomic_gets_the_kept_result)
{
    uint64_t *word = (uint64_t *)(void *)region.octets;

    *word = 1000;
    ask_ack(atomic_request(PEER(0), 0, 5));
    expect_packet(BTH_ATOMIC_ACKNOWLEDGE, PEER(0));
    ask_ack(atomic_request(PEER(1), 0, 5));
    skip_sent();
    ask_ack(atomic_request(PEER(0), 0, 77)); /* known by its PSN alone */
    expect_packet(BTH_ATOMIC_ACKNOWLEDGE, PEER(0));
    ck_assert_uint_eq(*word, 1010);
    expect_silence();
}
END_TEST

START_TEST(R047_a_duplicate_read_is_read_again_also_from_its_middle)
{
    ask_ack(read_request(PEER(0), 0, 3 * MTU));
    skip_sent();
    ask_ack(read_request(PEER(0), 0, 3 * MTU));
    expect_packet(BTH_READ_RESPONSE_FIRST, PEER(0));
    expect_packet(BTH_READ_RESPONSE_MIDDLE, PEER(1));
    expect_packet(BTH_READ_RESPONSE_LAST, PEER(2));
    ask_ack(read_request(PEER(1), MTU, 2 * MTU));
    expect_packet(BTH_READ_RESPONSE_FIRST, PEER(1));
    expect_packet(BTH_READ_RESPONSE_LAST, PEER(2));
    ask_ack(read_request(PEER(1), MTU, MTU));
    expect_packet(BTH_READ_RESPONSE_ONLY, PEER(1));
    expect_silence();
}
END_TEST

START_TEST(R048_what_is_not_kept_is_not_answered)
{
    ask_ack(read_request(PEER(0), 0, 2 * MTU));
    skip_sent();
    ask_ack(read_request(PEER(-1), 0, MTU));      /* before anything */
    ask_ack(read_request(PEER(1), MTU, 2 * MTU)); /* beyond it */
    ask_ack(read_request(PEER(1), MTU + 1, MTU)); /* elsewhere */
    ask_ack(atomic_request(PEER(0), 0, 1));       /* of another kind */
    expect_silence();
    for (uint32_t i = 0; i < 8; i++) /* IRD */
        ask_ack(atomic_request(PEER(2 + i), 0, 1));
    skip_sent();
    ask_ack(read_request(PEER(0), 0, 2 * MTU));
    expect_silence();
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

START_TEST(R047_a_duplicate_read_repeats_the_checks)
{
    ask_ack(read_request(PEER(0), 0, MTU));
    skip_sent();
    sim.fake.privileged.mr_deregister(region.mr);
    region.mr = NULL;
    ask_ack(read_request(PEER(0), 0, MTU));
    expect_silence();
    ck_assert_int_eq(state(), RI_QPS_RTS);
}
END_TEST

/* ---- refusals ---- */

START_TEST(R050_R058_packets_in_a_wrong_order)
{
    static const uint8_t begins[] = { BTH_SEND_FIRST, BTH_WRITE_FIRST, 0xFF };
    static const uint8_t wrong[][6] = {
        { BTH_SEND_ONLY, BTH_SEND_FIRST, BTH_WRITE_MIDDLE, BTH_WRITE_LAST, BTH_READ_REQUEST,
          BTH_FETCH_ADD },
        { BTH_WRITE_ONLY, BTH_WRITE_FIRST, BTH_SEND_MIDDLE, BTH_SEND_LAST, BTH_READ_REQUEST,
          BTH_COMPARE_SWAP },
        { BTH_SEND_MIDDLE, BTH_SEND_LAST, BTH_WRITE_MIDDLE, BTH_WRITE_LAST, BTH_SEND_LAST_IMM,
          BTH_WRITE_LAST_IMM },
    };
    uint8_t begin = begins[_i / 6], opcode = wrong[_i / 6][_i % 6];
    uint32_t msn = 0, psn = 0;

    post_receive(1, 0, 4096);
    post_receive(2, 0, 4096);
    if (begin != 0xFF)
        ask(write_request(begin, PEER(psn++), MTU, 0, 2 * MTU));
    ask_ack(write_request(opcode, PEER(psn), bth_ops[opcode].payload == BTH_PAYLOAD_NONE ? 0 : MTU,
                          0, 2 * MTU));
    expect_answer(PEER(psn), INVALID, msn);
    expect_wc(RECEIVES, 1, begin == BTH_SEND_FIRST ? RI_WC_REMOTE_INVALID_REQUEST : RI_WC_FLUSHED);
    expect_wc(RECEIVES, 2, RI_WC_FLUSHED);
    expect_ended(PEER(psn));
}
END_TEST

static void refused_by_flags(struct bth_packet packet)
{
    static const struct sim_link clean;
    const struct sim_shape shape = { .flags = RI_QP_BIND_ENABLE };

    sim_region_free(&sim, &region);
    sim_close(&sim);
    sim_open(&sim, &clean, 1, &shape);
    region = sim_region(&sim, 0, REGION, ALL_RIGHTS);
    one_connect();
    packet.va = (uintptr_t)region.octets;
    packet.r_key = region.keys.rkey;
    ask_ack(packet);
    skip_sent();
    ck_assert_uint_eq(sim.log[0].syndrome, INVALID);
    expect_ended(PEER(1));
}

START_TEST(R051_operations_that_are_not_enabled)
{
    if (_i == 0)
        refused_by_flags(write_request(BTH_WRITE_ONLY, PEER(0), 1, 0, 1));
    else if (_i == 1)
        refused_by_flags(read_request(PEER(0), 0, 1));
    else
        refused_by_flags(atomic_request(PEER(0), 0, 1));
}
END_TEST

START_TEST(R052_without_a_receive_the_peer_tries_again)
{
    struct bth_packet packet = write_request(BTH_WRITE_LAST_IMM, PEER(2), 1, MTU, 1);

    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_answer(PEER(0), AETH_RNR_NAK | 12, 0);
    ask_ack(request(BTH_SEND_ONLY, PEER(1), 1));
    expect_answer(PEER(0), SEQUENCE, 0); /* as rxe */
    post_receive(1, 0, 10);
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_answer(PEER(0), ACK, 1);
    ask(write_request(BTH_WRITE_FIRST, PEER(1), MTU, 100, MTU + 1));
    ask_ack(packet);
    expect_answer(PEER(2), AETH_RNR_NAK | 12, 1);
    post_receive(2, 0, 10);
    ask_ack(packet);
    expect_answer(PEER(2), ACK, 2);
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    ck_assert_uint_eq(next_wc(RECEIVES).byte_len, MTU + 1);
}
END_TEST

START_TEST(R053_lengths_that_do_not_fit)
{
    const struct {
        struct bth_packet first, second;
    } cases[] = {
        { request(BTH_SEND_FIRST, PEER(0), MTU - 4), { 0 } },
        { request(BTH_SEND_FIRST, PEER(0), MTU + 4), { 0 } },
        { request(BTH_SEND_ONLY, PEER(0), MTU + 4), { 0 } },
        { request(BTH_SEND_FIRST, PEER(0), MTU), request(BTH_SEND_LAST, PEER(1), 0) },
        { request(BTH_SEND_FIRST, PEER(0), MTU), request(BTH_SEND_MIDDLE, PEER(1), 8) },
        { write_request(BTH_WRITE_ONLY, PEER(0), 8, 0, 9), { 0 } },
        { write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, MTU), { 0 } },
        { write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, 2 * MTU),
          write_request(BTH_WRITE_LAST, PEER(1), MTU - 1, 0, 0) },
        { write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, MTU + 5),
          write_request(BTH_WRITE_LAST, PEER(1), 6, 0, 0) },
        { write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, 2 * MTU),
          write_request(BTH_WRITE_MIDDLE, PEER(1), MTU, 0, 0) },
    };
    bool two = cases[_i].second.psn;

    post_receive(1, 0, 4096);
    ask(cases[_i].first);
    if (two) {
        expect_silence();
        ask(cases[_i].second);
    }
    expect_answer(PEER(two), INVALID, 0);
    expect_ended(PEER(two));
}
END_TEST
#define LENGTH_CASES 10

START_TEST(R054_keys_and_ranges_are_checked_before_anything_is_written)
{
    struct bth_packet packet = write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, 2 * MTU);

    switch (_i) {
    case 0: packet.r_key++; break;
    case 1: packet.dma_length = REGION + 1; break;
    case 2: packet.va--; break;
    case 3: packet.va = UINT64_MAX - MTU; break;
    default: packet.r_key = 0; break;
    }
    ask(packet);
    expect_answer(PEER(0), ACCESS, 0);
    ck_assert_uint_eq(region.octets[1], 0);
    expect_ended(PEER(0));
}
END_TEST

START_TEST(R054_a_region_that_goes_within_a_message)
{
    ask(write_request(BTH_WRITE_FIRST, PEER(0), MTU, 0, 2 * MTU));
    sim.fake.privileged.mr_deregister(region.mr);
    region.mr = NULL;
    ask(write_request(BTH_WRITE_LAST, PEER(1), MTU, 0, 0));
    expect_answer(PEER(1), ACCESS, 0);
    ck_assert_uint_eq(region.octets[MTU + 1], 0);
    expect_ended(PEER(1));
}
END_TEST

START_TEST(R054_rights_of_the_region)
{
    struct sim_region poor = sim_region(&sim, 0, 4096,
                                        RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
    struct bth_packet packet = _i == 0   ? write_request(BTH_WRITE_ONLY, PEER(0), 8, 0, 8)
                               : _i == 1 ? read_request(PEER(0), 0, 8)
                                         : atomic_request(PEER(0), 0, 8);

    packet.va = (uintptr_t)poor.octets;
    packet.r_key = poor.keys.rkey;
    ask(packet);
    expect_answer(PEER(0), ACCESS, 0);
    expect_ended(PEER(0));
    sim_region_free(&sim, &poor);
}
END_TEST

START_TEST(R055_an_atomic_is_aligned)
{
    ask(atomic_request(PEER(0), 4, 1));
    expect_answer(PEER(0), INVALID, 0);
    expect_ended(PEER(0));
}
END_TEST

START_TEST(R055_atomics_by_value)
{
    struct bth_packet swap = atomic_request(PEER(1), 8, 0);
    uint64_t *words = (uint64_t *)(void *)region.octets;

    words[0] = 0x0102030405060708;
    words[1] = 5;
    ask(atomic_request(PEER(0), 0, 0xFFFFFFFFFFFFFFFF));
    ck_assert_uint_eq(words[0], 0x0102030405060707);
    swap.opcode = BTH_COMPARE_SWAP;
    swap.swap_add = 9;
    swap.compare = 4;
    ask(swap);
    ck_assert_uint_eq(words[1], 5);
    swap.psn = PEER(2);
    swap.compare = 5;
    ask(swap);
    ck_assert_uint_eq(words[1], 9);
    ck_assert_uint_eq(count_sent(), 3);
}
END_TEST

START_TEST(R032_a_send_longer_than_its_receive)
{
    post_receive(1, 0, MTU);
    post_receive(2, 0, MTU);
    ask(request(BTH_SEND_FIRST, PEER(0), MTU));
    ask(request(BTH_SEND_LAST, PEER(1), 1));
    expect_answer(PEER(1), INVALID, 0);
    expect_wc(RECEIVES, 1, RI_WC_LOCAL_LENGTH);
    expect_wc(RECEIVES, 2, RI_WC_FLUSHED);
    expect_ended(PEER(1));
}
END_TEST

START_TEST(a_receive_that_is_not_usable)
{
    ck_assert_int_eq(
        sim_post_recv(&sim, 0, 1,
                      (struct ri_sge){ (uintptr_t)region.octets, 10, region.keys.lkey + 1 }),
        RI_OK);
    ask(request(BTH_SEND_ONLY, PEER(0), 8));
    expect_answer(PEER(0), OPERATION, 0);
    expect_wc(RECEIVES, 1, RI_WC_LOCAL_PROTECTION);
    expect_ended(PEER(0));
}
END_TEST

START_TEST(R033_R091_send_with_invalidate)
{
    struct bth_packet packet = request(BTH_SEND_ONLY_INV, PEER(0), 4);
    struct ri_wc wc;

    post_receive(1, 0, 10);
    post_receive(2, 0, 10);
    packet.invalidate_key = region.keys.rkey;
    ask_ack(packet);
    expect_answer(PEER(0), ACK, 1);
    wc = next_wc(RECEIVES);
    ck_assert(wc.status == RI_WC_SUCCESS && wc.flags & RI_WC_WITH_INVALIDATE &&
              wc.immediate == region.keys.rkey);
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(1), 1, 0, 1));
    expect_answer(PEER(1), ACCESS, 1);
    expect_wc(RECEIVES, 2, RI_WC_FLUSHED);
}
END_TEST

START_TEST(R033_send_with_invalidate_of_a_bad_key)
{
    struct bth_packet packet = request(BTH_SEND_ONLY_INV, PEER(0), 4);

    post_receive(1, 0, 10);
    packet.invalidate_key = 0x4711;
    ask_ack(packet);
    expect_answer(PEER(0), ACCESS, 0);
    expect_wc(RECEIVES, 1, RI_WC_REMOTE_INVALID_REQUEST);
    expect_ended(PEER(0));
}
END_TEST

/* ---- what is not answered ---- */

START_TEST(R060_packets_of_other_transports_are_dropped)
{
    post_receive(1, 0, 10);
    ask_ack(request(BTH_UC | BTH_SEND_ONLY, PEER(0), 1));
    ask_ack(request(BTH_UD | BTH_SEND_ONLY, PEER(0), 1));
    ask((struct bth_packet){ .opcode = BTH_CNP });
    expect_silence();
    expect_no_wc(RECEIVES);
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_answer(PEER(0), ACK, 1);
}
END_TEST

START_TEST(R062_the_answer_goes_to_the_peer_of_the_qp)
{
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(0), 1, 0, 1));
    ck_assert_uint_eq(sim_qp(&sim, 0)->attr.dest_qpn, SIM_QPN + 1);
    expect_answer(PEER(0), ACK, 1);
}
END_TEST

START_TEST(R044_an_acknowledgement_leaves_with_what_is_posted)
{
    sim.keep_owed = true;
    post_receive(1, 0, 10);
    ask_ack(request(BTH_SEND_ONLY, PEER(0), 1));
    expect_wc(RECEIVES, 1, RI_WC_SUCCESS);
    expect_silence();
    post_send(1);
    ck_assert_uint_eq(sim.calls, 1);
    expect_answer(PEER(0), ACK, 1);
    expect_packet(BTH_SEND_ONLY, PSN(0));
}
END_TEST

/* ---- long Reads ---- */

START_TEST(R063_nothing_is_executed_behind_a_read_that_is_not_read_yet)
{
    struct sim_sent sent;

    region.octets[REGION - 1] = 1;
    ask(read_request(PEER(0), 0, REGION)); /* more than one turn */
    count_sent();
    ck_assert(sim_qp(&sim, 0)->rsp.reading.active);
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(REGION / MTU), 1, REGION - 1, 1));
    ck_assert_uint_eq(region.octets[REGION - 1], 1);
    sim_settle(&sim);
    do
        sent = next_sent();
    while (sent.opcode != BTH_READ_RESPONSE_LAST);
    expect_answer(PEER(REGION / MTU), SEQUENCE, 1); /* what was dropped is asked for */
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(REGION / MTU), 1, REGION - 1, 1));
    expect_answer(PEER(REGION / MTU), ACK, 2);
    ck_assert_uint_eq(region.octets[REGION - 1], pattern[0]);
}
END_TEST

START_TEST(R045_while_a_read_is_answered_its_psns_are_not_acknowledged)
{
    ask_ack(write_request(BTH_WRITE_ONLY, PEER(0), 1, 0, 1));
    sim.link.refuse = 1000;
    ask(read_request(PEER(1), 0, REGION));
    sim.link.refuse = 0;
    skip_sent();
    ask(write_request(BTH_WRITE_ONLY, PEER(0), 1, 0, 1));
    for (uint32_t i = 0; i < sim.logged; i++)
        if (sim.log[i].opcode == BTH_ACKNOWLEDGE)
            ck_assert_int_lt(bth_psn_diff(sim.log[i].psn, sim_qp(&sim, 0)->rsp.reading.psn), 0);
}
END_TEST

START_TEST(replays_of_reads_have_a_budget)
{
    uint64_t octets;

    ask(read_request(PEER(0), 0, REGION));
    sim_settle(&sim);
    skip_sent();
    for (int i = 0; i < 1000; i++)
        ask(read_request(PEER(0), 0, REGION));
    octets = (uint64_t)count_sent() * MTU;
    ck_assert_uint_le(octets, (1u << 20) + REGION);
    sim_settle(&sim); /* and it ends */
    ck_assert(!sim_qp(&sim, 0)->rsp.reading.active);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rc responder");
    TCase *t;

    tc_add_tests(
        one_case(s, "order"), R030_R031_R040_R043_R059_messages_are_counted_and_acknowledged,
        R041_R042_one_nak_for_each_gap, R065_half_of_all_psns_are_before,
        R044_acknowledgements_of_one_pass_are_merged, R063_an_answer_of_a_read_is_not_overtaken,
        R056_R090_R100_immediate_takes_a_receive_and_no_octet,
        R003_R100_empty_reads_and_writes_may_name_anything,
        R044_an_acknowledgement_leaves_with_what_is_posted);
    tc_add_tests(one_case(s, "duplicates"), R045_R066_a_duplicate_is_acknowledged_and_not_executed,
                 R046_a_duplicate_atomic_gets_the_kept_result,
                 R047_a_duplicate_read_is_read_again_also_from_its_middle,
                 R048_what_is_not_kept_is_not_answered, R047_a_duplicate_read_repeats_the_checks,
                 replays_of_reads_have_a_budget);
    t = one_case(s, "refusals");
    tcase_add_loop_test(t, R050_R058_packets_in_a_wrong_order, 0, 18);
    tcase_add_loop_test(t, R051_operations_that_are_not_enabled, 0, 3);
    tcase_add_loop_test(t, R053_lengths_that_do_not_fit, 0, LENGTH_CASES);
    tcase_add_loop_test(t, R054_keys_and_ranges_are_checked_before_anything_is_written, 0, 5);
    tcase_add_loop_test(t, R054_rights_of_the_region, 0, 3);
    tc_add_tests(t, R052_without_a_receive_the_peer_tries_again,
                 R054_a_region_that_goes_within_a_message, R055_an_atomic_is_aligned,
                 R055_atomics_by_value, R032_a_send_longer_than_its_receive,
                 a_receive_that_is_not_usable, R033_R091_send_with_invalidate,
                 R033_send_with_invalidate_of_a_bad_key);
    tc_add_tests(one_case(s, "silence"), R060_packets_of_other_transports_are_dropped,
                 R062_the_answer_goes_to_the_peer_of_the_qp,
                 R063_nothing_is_executed_behind_a_read_that_is_not_read_yet,
                 R045_while_a_read_is_answered_its_psns_are_not_acknowledged);
    return tc_main(s);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Order: of the checks on a received message, of messages in the stream, of visitors at the
 * lane. */
#include "engine.h"

#include "iwarp_over.h"

#include "providers/software/iwarp/codec/mpa.h"

/* ---- checks ---- */

/* C-073 to C-076 in their order. */
START_TEST(C076_order_of_checks)
{
    struct region region;
    uint8_t octets[64] = { 0 };

    connect_raw(true, &plain);
    region = region_new(a, 64, TESTBED_ALL);
    side_receive(a, 1, region_sge(&region, 0, 64));
    raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 1, 0, octets, 32);
    raw_untagged(&raw, RDMAP_SEND_SE, true, DDP_QN_SEND, 1, _i == 0 ? 31 : 32, octets,
                 _i == 1 ? 33 : 32);
    expect_terminate(_i == 0 ? TERMINATE_U_MO : _i == 1 ? TERMINATE_U_LONG : TERMINATE_OPCODE);
    side_expect(a, a->recv_cq, 1, _i == 2 ? RI_WC_LOCAL_QP : RI_WC_LOCAL_LENGTH, 0);
}
END_TEST

/* C-119, C-120, C-121 in their order; the Terminate carries the DDP header. */
START_TEST(C119_invalidate)
{
    static const uint16_t values[] = { TERMINATE_R_STAG, TERMINATE_R_INVALIDATE,
                                       TERMINATE_R_ACCESS };
    struct region own, foreign;
    uint8_t ulpdu[DDP_UNTAGGED_LEN];
    uint32_t stags[3] = { 0 };

    side_open(&bed, b, NULL);
    connect_raw(true, &plain);
    own = region_new(a, 64, TESTBED_ALL);
    foreign = region_new(b, 64, TESTBED_ALL);
    stags[0] = own.keys.rkey ^ 0xff;
    stags[1] = foreign.keys.rkey;
    stags[2] = own.keys.rkey;
    side_receive(a, 1, region_sge(&own, 0, 64));
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_SEND_INV), stags[_i], DDP_QN_SEND, 1, 0);
    raw_send(&raw, ulpdu, sizeof(ulpdu));
    expect_terminate(values[_i]);
    ck_assert_uint_eq(frame.segment.payload_len, 24);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
}
END_TEST

/* C-142: a Terminate, malformed or not, ends the stream and gets no answer. */
START_TEST(C142_terminate_without_last)
{
    uint8_t payload[4] = { 0x02, 0x07 };

    connect_raw(true, &plain);
    raw_untagged(&raw, RDMAP_TERMINATE, false, DDP_QN_TERMINATE, 1, 0, payload, sizeof(payload));
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, 0x0207);
    ck_assert(!next_frame());
    ck_assert_uint_eq(side_query(a).terminate_length, 4);
}
END_TEST

/* ---- order of output ---- */

#define BIG (3u << 20)

/* A Write in progress, a Read Request in the middle, another Write behind: no message interrupts
 * another one. */
START_TEST(S051_messages_are_not_mixed)
{
    struct region region;
    uint32_t left = BIG, writes = 0, responses = 0;
    bool write = true;

    connect_raw(true, &plain);
    region = region_new(a, BIG, TESTBED_ALL);
    side_write(a, 1, region_sge(&region, 0, BIG), 0, 1);
    for (uint32_t msn = 1; msn <= 3; msn++)
        read_request(msn, BIG, &region, 0);
    testbed_passes(&bed, 10); /* the Requests arrive before the Write has left */
    side_write(a, 2, region_sge(&region, 0, BIG), 0, 2);
    side_write(a, 3, region_sge(&region, 0, BIG), 0, 3);
    while (writes + responses < 6) {
        ck_assert(next_frame());
        if (left == BIG)
            write = frame.segment.opcode == RDMAP_WRITE;
        ck_assert_int_eq(frame.segment.opcode, write ? RDMAP_WRITE : RDMAP_READ_RESP);
        ck_assert_uint_eq(frame.segment.hdr.to, BIG - left);
        left -= frame.segment.payload_len;
        ck_assert_int_eq(frame.segment.hdr.last, left == 0);
        if (left)
            continue;
        left = BIG;
        *(write ? &writes : &responses) += 1;
        /* Writes and responses take turns. */
        ck_assert_uint_le(writes, responses + 2);
        ck_assert_uint_le(responses, writes + 1);
    }
    for (uint64_t i = 1; i <= 3; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, BIG);
}
END_TEST

/* RI_WR_COALESCE: batched, but never forgotten. The lane does not sleep while posts are batched. */
START_TEST(coalesced_posts)
{
    connect_raw(true, &plain);
    testbed_passes(&bed, 3);
    ck_assert(bed.fake.user.lane_arm(bed.fake.lane));
    for (uint64_t i = 0; i < 3; i++)
        ck_assert_int_eq(
            side_post(a, RI_WR_RDMA_WRITE, i, RI_WR_SIGNALED | RI_WR_COALESCE, NULL, 0, 0, 0),
            RI_OK);
    ck_assert(!bed.fake.user.lane_arm(bed.fake.lane));
    fake_host_run(&bed.fake, NULL);
    ck_assert(bed.fake.user.lane_arm(bed.fake.lane));
    for (uint64_t i = 0; i < 3; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
    for (int i = 0; i < 3; i++)
        ck_assert(next_frame());
}
END_TEST

/* ---- fairness ---- */

/* A peer that sends more than a pass's budget does not delay the others. */
START_TEST(flood)
{
    static uint8_t fpdus[400 * 20];
    struct raw other = { .fd = -1 };
    struct ri_wc wc;
    uint32_t got = 0;

    for (int i = 0; i < 400; i++) {
        uint8_t *fpdu = fpdus + 20 * i;

        mpa_put_len(fpdu, DDP_TAGGED_LEN);
        ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), 0, 0);
        memset(fpdu + MPA_HDR_LEN + DDP_TAGGED_LEN, 0, 4);
    }
    {
        struct ri_llp_handover no_crc = plain;

        no_crc.crc = false;
        side_open(&bed, a, NULL);
        side_open(&bed, b, NULL);
        raw_open(&raw, &bed, a, false, &no_crc);
        raw_open(&other, &bed, b, false, &no_crc);
    }
    ck_assert_int_eq(side_post_receive(b, 1, NULL, 0), RI_OK);
    testbed_passes(&bed, 3);
    for (int pass = 0; pass < 3 && !got; pass++) {
        raw_octets(&raw, fpdus, sizeof(fpdus));
        if (!pass)
            raw_untagged(&other, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, NULL, 0);
        fake_host_run(&bed.fake, NULL); /* without epoll: polled connections take turns */
        got = bed.fake.user.poll(b->recv_cq, 1, &wc);
    }
    ck_assert_uint_eq(got, 1);
    raw_close(&other);
}
END_TEST

/* FPDUs whose payload goes straight to its place: one a pass, so others have their turn between. */
START_TEST(long_fpdus)
{
    enum { COUNT = 5, PAYLOAD = 60000, FPDU = MPA_HDR_LEN + DDP_TAGGED_LEN + PAYLOAD + 4 };
    const size_t begun = 30000, all = (size_t)COUNT * FPDU;
    struct ri_llp_handover no_crc = plain;
    uint8_t *fpdus = calloc(COUNT, FPDU);
    struct raw other = { .fd = -1 };
    struct region target;
    struct ri_wc wc;
    uint32_t got = 0;

    no_crc.crc = false;
    side_open(&bed, a, NULL);
    side_open(&bed, b, NULL);
    raw_open(&raw, &bed, a, false, &no_crc);
    raw_open(&other, &bed, b, false, &no_crc);
    target = region_new(a, COUNT * PAYLOAD, TESTBED_ALL);
    memset(target.octets, 0, COUNT * PAYLOAD);
    memset(fpdus, 'x', all);
    for (uint32_t i = 0; i < COUNT; i++) {
        mpa_put_len(fpdus + i * FPDU, DDP_TAGGED_LEN + PAYLOAD);
        ddp_put_tagged(fpdus + i * FPDU + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE),
                       target.keys.rkey, (uintptr_t)target.octets + (uint64_t)i * PAYLOAD);
    }
    ck_assert_int_eq(side_post_receive(b, 1, NULL, 0), RI_OK);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0); /* the first FPDU is never one of them */
    testbed_passes(&bed, 3);
    raw_octets(&raw, fpdus, begun);
    testbed_passes(&bed, 3);
    ck_assert_int_eq(target.octets[begun / 2], 'x'); /* before its FPDU is complete */
    raw_octets(&raw, fpdus + begun, all - begun);
    raw_untagged(&other, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, NULL, 0);
    for (int pass = 0; pass < 2 && !got; pass++) {
        fake_host_run(&bed.fake, NULL);
        got = bed.fake.user.poll(b->recv_cq, 1, &wc);
    }
    ck_assert_uint_eq(got, 1);
    ck_assert_int_eq(target.octets[COUNT * PAYLOAD - 1], 0);
    testbed_passes(&bed, 3 * COUNT);
    ck_assert_int_eq(target.octets[COUNT * PAYLOAD - 1], 'x');
    free(fpdus);
    region_free(a, &target);
    raw_close(&other);
}
END_TEST

/* A lower layer that accepts everything at once, and ends when it is told to. */
static unsigned int null_sends;
static bool null_ended;
static uint32_t null_mss;

static ssize_t null_send(struct stream *stream, const struct iovec *iov, int count)
{
    ssize_t octets = 0;

    (void)stream;
    for (int i = 0; i < count; i++)
        octets += (ssize_t)iov[i].iov_len;
    null_sends++;
    return octets;
}

static ssize_t null_receive(struct stream *stream, void *buffer, size_t length)
{
    (void)stream;
    (void)buffer;
    (void)length;
    return null_ended ? 0 : -EAGAIN;
}

static uint32_t null_emss(struct stream *stream)
{
    (void)stream;
    return null_mss;
}

static void null_finish(struct stream *stream)
{
    (void)stream;
}

static void null_close(struct stream *stream, bool reset)
{
    (void)reset;
    close(stream->fd);
}

/* One visitor writes a bounded amount, even if each write is one segment. The remaining output
 * follows in later passes. */
START_TEST(X018_one_visitor_does_not_write_for_ever)
{
    static const struct llp_ops null = { null_send,  null_receive, null_emss, null_finish,
                                         null_close, NULL,         NULL };
    const uint32_t size = 64u << 20;
    struct ri_llp_handover handover = plain;
    struct region region;
    int fds[2];

    null_mss = _i ? 65483 : 1460;
    side_open(&bed, a, NULL);
    testbed_tcp(fds, 0);
    handover.fd = fds[0];
    handover.initiator = true;
    ck_assert_int_eq(iwarp_over(qp_of(a), &handover, &null), RI_OK);
    region = region_new(a, size, TESTBED_ALL);
    null_sends = 0;
    side_write(a, 1, region_sge(&region, 0, size), 0, 0);
    ck_assert_uint_le(null_sends, 2 * TX_ROUNDS * (_i ? TX_BATCH_OCTETS / 60000 : 1));
    ck_assert(!bed.fake.user.lane_arm(bed.fake.lane));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    ck_assert_uint_ge(null_sends, size / TX_BATCH_OCTETS);
    region_free(a, &region);
    null_ended = true;
    close(fds[1]);
}
END_TEST

/* ---- polled connections: read without epoll ---- */

static bool is_hot(const struct side *side)
{
    return qp_of(side)->stream->polled;
}

static void speak(struct side *from, const struct region *source, struct side *to,
                  const struct region *target)
{
    side_receive(to, 1, region_sge(target, 0, 8));
    side_send(from, 2, region_sge(source, 0, 8));
    side_expect(to, to->recv_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(from, from->send_cq, 2, RI_WC_SUCCESS, 8);
}

/* A connection that falls silent while another one is active does not delay the other one. epoll
 * finds it when it receives again. */
START_TEST(silent_streams_cool_down)
{
    struct region here, there;

    testbed_connect(&bed, NULL, NULL);
    here = region_new(a, 8, TESTBED_ALL);
    there = region_new(b, 8, TESTBED_ALL);
    for (uint32_t i = 0; i < POLLED_UNTIL; i++) { /* both receive */
        speak(a, &here, b, &there);
        speak(b, &there, a, &here);
    }
    ck_assert(is_hot(a) && is_hot(b));
    for (uint32_t i = 0; i < POLLED_UNTIL / 2; i++)
        speak(a, &here, b, &there);
    ck_assert(is_hot(a) && is_hot(b));
    for (uint32_t i = 0; i < POLLED_UNTIL; i++)
        speak(a, &here, b, &there);
    ck_assert(!is_hot(a) && is_hot(b));
    ck_assert_uint_eq(iwarp_lane(qp_of(a)->core.lane)->polled_count, 1);
    speak(b, &there, a, &here);
    ck_assert(is_hot(a) && is_hot(b));
}
END_TEST

/* Each of two consumers polls its own connections: a connection that the lane leaves to its own
 * consumer is not silent. */
START_TEST(streams_of_other_pollers_stay_hot)
{
    struct region here, there;

    testbed_connect(&bed, NULL, NULL);
    here = region_new(a, 8, TESTBED_ALL);
    there = region_new(b, 8, TESTBED_ALL);
    speak(a, &here, b, &there);
    speak(b, &there, a, &here);
    for (uint32_t i = 0; i < 2 * POLLED_UNTIL; i++) {
        struct ri_wc wc[2];

        side_receive(b, 1, region_sge(&there, 0, 8));
        side_send(a, 2, region_sge(&here, 0, 8));
        fake_host_run(&bed.fake, b->recv_cq);
        ck_assert_uint_eq(bed.fake.user.poll(b->recv_cq, 2, wc), 1);
        ck_assert_uint_eq(bed.fake.user.poll(a->send_cq, 2, wc), 1);
        fake_host_run(&bed.fake, a->send_cq);
        fake_host_run(&bed.fake, b->recv_cq); /* without result */
    }
    ck_assert(is_hot(a) && is_hot(b));
}
END_TEST

/* A connection with a full socket continues when it has room; the lane checks for that in turn. */
START_TEST(streams_with_output_stay_hot)
{
    const uint32_t size = 64u << 20;
    uint8_t octets[8] = { 0 };
    struct region big, small;
    struct raw other;

    connect_raw(true, &plain);
    side_open(&bed, b, NULL);
    raw_open(&other, &bed, b, true, &plain);
    big = region_new(a, size, TESTBED_ALL);
    small = region_new(b, 8, TESTBED_ALL);
    raw_tagged(&raw, RDMAP_WRITE, true, big.keys.rkey, (uintptr_t)big.octets, octets, 8);
    testbed_passes(&bed, 5);
    side_write(a, 1, region_sge(&big, 0, size), 0, 1);
    for (uint32_t i = 1; i <= 2 * POLLED_UNTIL; i++) {
        side_receive(b, i, region_sge(&small, 0, 8));
        raw_untagged(&other, RDMAP_SEND, true, DDP_QN_SEND, i, 0, octets, 8);
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 8);
    }
    ck_assert(atomic_load(&qp_of(a)->stream->want_output));
    ck_assert(is_hot(a) && is_hot(b));
    raw_close(&raw);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    raw_close(&other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma engine: order");
    TCase *tc = new_case(suite, "checks", bed_open, bed_close);

    tc_add_loops(tc, 0, 3, C076_order_of_checks, C119_invalidate);
    tcase_add_test(tc, C142_terminate_without_last);
    tc = new_case(suite, "order", bed_open, bed_close);
    tc_add_tests(tc, S051_messages_are_not_mixed, coalesced_posts);
    tc = new_case(suite, "fairness", bed_open, bed_close);
    tc_add_tests(tc, flood, long_fpdus);
    tcase_add_loop_test(tc, X018_one_visitor_does_not_write_for_ever, 0, 2);
    tc_add_tests(tc, silent_streams_cool_down, streams_of_other_pollers_stay_hot,
                 streams_with_output_stay_hot);
    return tc_main(suite);
}

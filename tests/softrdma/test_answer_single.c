/* SPDX-License-Identifier: BSD-3-Clause */
/* Events while a lone response is sent, or while a lone response completes (tx_single.c); the
 * length of responses and of their writes. */
#include "answers.h"

/* ---- concurrent events ---- */

static void post_a_send(void)
{
    ck_assert_int_eq(post(&twins[ALONE], RI_WR_SEND, 5, RI_WR_SIGNALED, 0, 16), RI_OK);
}

/* The consumer posts a request while the response is being written: it leaves in the same pass. */
START_TEST(a_post_meanwhile_leaves)
{
    struct twin *twin = &twins[ALONE];
    size_t before;

    start(twin, true, 0);
    before = wires[ALONE].used;
    wires[ALONE].alone = 0;
    recording_meanwhile = post_a_send;
    put_plain_request(twin, 0, 64);
    arrive_all(twin);
    ck_assert_uint_eq(wires[ALONE].alone, 1);
    ck_assert_uint_eq(wires[ALONE].used - before,
                      mpa_fpdu_len(DDP_TAGGED_LEN + 64) + mpa_fpdu_len(DDP_UNTAGGED_LEN + 16));
    ck_assert_uint_eq(atomic_load(&twin_qp(twin)->core.tx.requests), 0);
    ck_assert_uint_eq(poll_cq(twin, side_of(twin)->send_cq, 1), 1);
    ck_assert_uint_eq(twin->wc[0].cookie, 5);
    finish(twin);
}
END_TEST

/* The consumer posted a request that only the lane can send, as while memory is revoked in a
 * pass. */
START_TEST(what_waits_leaves_with_the_answer)
{
    struct twin *twin = &twins[ALONE];
    struct iwarp_qp *qp;

    start(twin, true, 0);
    qp = twin_qp(twin);
    wires[ALONE].writes = wires[ALONE].alone = 0;
    atomic_store(&qp->core.tx.requests, 1);
    post_a_send();
    atomic_store(&qp->core.tx.wanted, true);
    atomic_store(&qp->core.tx.requests, 0);
    put_plain_request(twin, 0, 64);
    arrive_all(twin);
    ck_assert_uint_eq(wires[ALONE].writes, 1);
    ck_assert_uint_eq(wires[ALONE].alone, 0);
    ck_assert_uint_eq(poll_cq(twin, side_of(twin)->send_cq, 1), 1);
    finish(twin);
}
END_TEST

/* The socket has accepted a part of a message and has room again: the response follows that
 * message. */
START_TEST(no_answer_inside_a_message)
{
    enum { LENGTH = TX_BATCH_OCTETS + TX_BATCH_OCTETS / 2 };
    struct twin *twin = &twins[ALONE];
    bool inside = true;
    struct region large;
    struct mpa_fpdu fpdu;
    struct ri_sge sge;
    size_t need;

    start(twin, false, 0);
    large = region_new(side_of(twin), LENGTH, TESTBED_ALL);
    sge = region_sge(&large, 0, LENGTH);
    wires[ALONE].used = 0;
    recording_takes = 70000;
    ck_assert_int_eq(side_post(side_of(twin), RI_WR_RDMA_WRITE, 1, RI_WR_SIGNALED, &sge, 1, 0, 5),
                     RI_OK);
    ck_assert(twin_qp(twin)->tx.message_begun);
    recording_takes = SIZE_MAX;
    put_plain_request(twin, 0, 64);
    arrive_all(twin);
    ck_assert(fake_host_until(&twin->bed.fake, all_answered(twin), TESTBED_TIMEOUT));
    for (size_t at = 0; at < wires[ALONE].used; at += fpdu.size) {
        ck_assert_int_eq(mpa_scan(wires[ALONE].octets + at, wires[ALONE].used - at, &fpdu, &need),
                         MPA_OK);
        ck_assert_uint_eq(fpdu.ulpdu[1] & RDMAP_CTRL_OP, inside ? RDMAP_WRITE : RDMAP_READ_RESP);
        inside = inside && !(fpdu.ulpdu[0] & DDP_CTRL_L);
    }
    ck_assert(!inside);
    ck_assert_uint_eq(poll_cq(twin, side_of(twin)->send_cq, 1), 1);
    region_free(side_of(twin), &large);
    finish(twin);
}
END_TEST

static void answer_the_read(void)
{
    struct twin *twin = &twins[ALONE];

    put_tagged(twin, RDMAP_READ_RESP, 0, 64, true);
    arrive_all(twin);
    ck_assert_uint_eq(poll_cq(twin, side_of(twin)->send_cq, 1), 0);
}

/* The response arrives before the write of the request returns. The slot is still in use, and the
 * completion waits. */
START_TEST(a_response_meanwhile_waits)
{
    struct twin *twin = &twins[ALONE];

    start(twin, true, 0);
    recording_meanwhile = answer_the_read;
    ck_assert_int_eq(post(twin, RI_WR_RDMA_READ, 3, RI_WR_SIGNALED, 0, 64), RI_OK);
    ck_assert_uint_eq(atomic_load(&twin_qp(twin)->reads.ord_out), 1);
    ck_assert_uint_eq(poll_cq(twin, side_of(twin)->send_cq, 1), 1);
    ck_assert_uint_eq(twin->wc[0].cookie, 3);
    finish(twin);
}
END_TEST

/* One pass receives a message, and the socket accepts the end of a Write: the same pass reports the
 * Write's completion. */
START_TEST(output_that_a_pass_completes_is_told)
{
    struct twin *twin = &twins[ALONE];
    struct side *side = side_of(twin);

    start(twin, true, 0);
    if (_i == 0)
        ck_assert_int_eq(post(twin, RI_WR_RDMA_READ, 1, 0, 0, 64), RI_OK);
    side_receive(side, 2, sge_of(twin, 3000, 256));
    recording_takes = 10;
    ck_assert_int_eq(post(twin, RI_WR_RDMA_WRITE, 3, RI_WR_SIGNALED, 0, 64), RI_OK);
    ck_assert(atomic_load(&twin_qp(twin)->stream->want_output));
    ck_assert_int_eq(twin->bed.fake.user.arm(side->send_cq, RI_ARM_NEXT, 0), RI_OK);
    recording_takes = SIZE_MAX;
    atomic_store(&twin_qp(twin)->tx.retry_at, 0);
    if (_i == 0)
        put_tagged(twin, RDMAP_READ_RESP, 0, 64, true);
    else if (_i == 1)
        put_send(twin, 8);
    else
        put_plain_request(twin, 0, 64);
    arrive_all(twin);
    ck_assert_uint_eq(atomic_load(&side->send_events.count), 1);
    ck_assert_uint_eq(poll_cq(twin, side->send_cq, 2), 1);
    ck_assert_uint_eq(twin->wc[0].cookie, 3);
    finish(twin);
}
END_TEST

/* ---- length ---- */

/* Everything written from `at` on are responses of these lengths from the region's first octet on.
 * Each FPDU fits the EMSS that was known when it was built. Returns how many they are. */
static uint32_t expect_answers(size_t at, const uint8_t *octets, const uint32_t *lengths,
                               uint32_t count)
{
    uint32_t offset = 0, fpdus = 0;
    struct mpa_fpdu fpdu;
    struct ddp_hdr hdr;
    size_t need;

    for (; at < wires[ALONE].used; at += fpdu.size, fpdus++) {
        uint32_t part;

        ck_assert_int_eq(mpa_scan(wires[ALONE].octets + at, wires[ALONE].used - at, &fpdu, &need),
                         MPA_OK);
        ck_assert_int_eq(mpa_check(&fpdu, twin_qp(&twins[ALONE])->framing.crc), MPA_OK);
        ck_assert_uint_le(fpdu.size, recording_emss_at(&wires[ALONE], at));
        ck_assert_int_eq(ddp_get(fpdu.ulpdu, fpdu.ulpdu_len, &hdr), DDP_OK);
        part = fpdu.ulpdu_len - DDP_TAGGED_LEN;
        ck_assert_uint_gt(count, 0);
        ck_assert_uint_le(offset + part, *lengths);
        ck_assert(!memcmp(fpdu.ulpdu + DDP_TAGGED_LEN, octets + offset, part));
        offset += part;
        ck_assert(hdr.last == (offset == *lengths));
        if (hdr.last) {
            offset = 0;
            lengths++;
            count--;
        }
    }
    ck_assert_uint_eq(count, 0);
    return fpdus;
}

/* Where an FPDU holds less than TX_COPY_OCTETS, a response of that length is segmented, on either
 * path. */
START_TEST(short_answers_fit_a_small_emss)
{
    struct twin *twin = &twins[ALONE];
    uint32_t lengths[300];
    size_t before;

    recording_emss = 200;
    start(twin, true, 0);
    before = wires[ALONE].used;
    wires[ALONE].alone = 0;
    for (uint32_t i = 0; i < 300; i++) {
        lengths[i] = i;
        put_plain_request(twin, 0, i);
        if (_i)
            twin_qp(twin)->tx.single_below = 0;
        arrive_all(twin);
    }
    expect_answers(before, twin->region[READABLE].octets, lengths, 300);
    ck_assert_uint_eq(wires[ALONE].alone, _i ? 0 : twin_qp(twin)->tx.short_below - 1);
    ck_assert_uint_lt(twin_qp(twin)->tx.short_below, 200);
    finish(twin);
}
END_TEST

/* The EMSS changes. The QP asks for it from time to time, and the new value applies from then
 * on. */
START_TEST(answers_fit_the_emss_that_was_known)
{
    enum { COUNT = 4000 };
    static const uint32_t emss[] = { 1460, 200, 65483, 300, 536 };
    static uint32_t lengths[COUNT];
    struct tc_rng rng = tc_rng((uint64_t)_i);
    struct twin *twin = &twins[ALONE];
    size_t before;

    start(twin, true, 0);
    before = wires[ALONE].used;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (!(i % 100))
            recording_emss = emss[tc_below(&rng, 5)];
        lengths[i] = 1 + (uint32_t)tc_below(&rng, _i & 1 ? 100 : 300);
        put_plain_request(twin, 0, lengths[i]);
        arrive_all(twin);
    }
    expect_answers(before, twin->region[READABLE].octets, lengths, COUNT);
    ck_assert_uint_gt(wires[ALONE].answer_count, wires[ALONE].used / EARLY_OCTETS / 2);
    ck_assert_uint_gt(wires[ALONE].alone, COUNT / 2);
    finish(twin);
}
END_TEST

/* Responses leave in writes of WRITE_SEGMENTS TCP segments, as messages of a stream do; with CRC
 * those that are longer do not follow segments, so their FPDUs are longer. Messages behind them
 * follow segments again. */
START_TEST(long_answers_leave_in_long_writes)
{
    enum { POSTS = 4, SEGMENTS = 4 /* of a post */ };
    static const struct {
        uint32_t octets, writes, fpdus;
        bool crc;
    } cases[] = {
        { 60000, 1, 4, true },     { LONG_RESPONSE, 1, 17, true },
        { 400000, 1, 13, true },   { LONG_RESPONSE + 1, 1, 9, true },
        { 400000, 1, 7, false },   { WRITE_SEGMENTS * 64000, 1, 16, false },
        { 1 << 20, 2, 17, false },
    };
    const uint32_t octets = cases[_i].octets;
    struct twin *twin = &twins[ALONE];
    struct region large;
    size_t before;

    recording_emss = 65483;
    start(twin, cases[_i].crc, 0);
    twin_qp(twin)->tx.learn_at = UINT64_MAX; /* otherwise it would call choose_size again */
    large = region_new(side_of(twin), 1 << 20, TESTBED_ALL | RI_ACCESS_ZERO_BASED);
    region_fill(&large);
    for (int round = 0; round < 2; round++) {
        before = wires[ALONE].used;
        wires[ALONE].writes = 0;
        put_request(twin, &(struct odd){ .stag = large.keys.rkey - twin->region[READABLE].keys.rkey,
                                         .octets = octets });
        arrive_all(twin);
        ck_assert_uint_eq(expect_answers(before, large.octets, &octets, 1), cases[_i].fpdus);
        ck_assert_uint_eq(wires[ALONE].writes, cases[_i].writes);
        wires[ALONE].writes = 0;
        for (uint32_t i = 0; i < POSTS; i++) {
            struct ri_sge sge = { 0, SEGMENTS * 65536, large.keys.lkey };

            ck_assert_int_eq(side_post(side_of(twin), RI_WR_RDMA_WRITE, i,
                                       i < POSTS - 1 ? RI_WR_COALESCE : RI_WR_SIGNALED, &sge, 1, 0,
                                       5),
                             RI_OK);
        }
        ck_assert_uint_eq(wires[ALONE].writes, POSTS * SEGMENTS / WRITE_SEGMENTS + 1);
        poll_cq(twin, side_of(twin)->send_cq, POSTS);
        wires[ALONE].used = 0;
    }
    region_free(side_of(twin), &large);
    finish(twin);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma lone answers");
    TCase *meanwhile = tc_case(suite, "meanwhile", setup, NULL),
          *size = tc_case(suite, "how long", setup, NULL);

    tc_add_tests(meanwhile, a_post_meanwhile_leaves, what_waits_leaves_with_the_answer,
                 no_answer_inside_a_message, a_response_meanwhile_waits);
    tcase_add_loop_test(meanwhile, output_that_a_pass_completes_is_told, 0, 3);
    tcase_add_loop_test(size, short_answers_fit_a_small_emss, 0, 2);
    tcase_add_loop_test(size, answers_fit_the_emss_that_was_known, 0, 4);
    tcase_add_loop_test(size, long_answers_leave_in_long_writes, 0, 7);
    return tc_main(suite);
}

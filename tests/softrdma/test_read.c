/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Read, row by row: requests and their depth, responses in any segmentation, sources and sinks
 * that are revoked meanwhile. */
#include "one_qp.h"

#include "providers/software/iwarp/objects/iwarp.h"
#include "tests/common/vectors_tc.h"

/* ---- responses to a Read of ital: 16 octets into the middle of 32 ---- */

#define SINK 8u
#define SIZE 16u

static struct region sink;

static void post_read(uint32_t size)
{
    struct rdmap_read_req request;

    open_raw(NULL, &plain);
    sink = region_new(a, 32, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, SINK, size), 0x77, 0x100);
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
    rdmap_get_read_req(frame.segment.payload, &request);
    ck_assert_uint_eq(request.size, size);
}

struct piece {
    uint32_t at, length; /* offset and length in the sink */
    bool last;
    uint32_t stag_change;
};

static uint32_t put_piece(uint8_t ulpdu[static 64], const struct piece *piece)
{
    ddp_put_tagged(ulpdu, piece->last, rdmap_ctrl(RDMAP_READ_RESP),
                   sink.keys.lkey ^ piece->stag_change, (uintptr_t)sink.octets + SINK + piece->at);
    for (uint32_t i = 0; i < piece->length; i++)
        ulpdu[DDP_TAGGED_LEN + i] = (uint8_t)(0x40 + piece->at + i);
    return DDP_TAGGED_LEN + piece->length;
}

/* Valid segmentations. A zero-length segment gets no further check (C-101), and a message whose
 * data ends without L may end by a zero-length segment with L (C-100). */
static const struct {
    uint32_t size, count;
    struct piece pieces[6];
} good[] = {
    { 16, 1, { { 0, 16, true, 0 } } },
    { 16, 2, { { 0, 1, false, 0 }, { 1, 15, true, 0 } } },
    { 16, 4, { { 0, 5, false, 0 }, { 5, 5, false, 0 }, { 10, 5, false, 0 }, { 15, 1, true, 0 } } },
    { 16, 2, { { 0, 16, false, 0 }, { 16, 0, true, 0 } } },
    { 16, 2, { { 0, 16, false, 0 }, { 3, 0, true, 1 } } },
    { 16, 4, { { 9, 0, false, 1 }, { 0, 8, false, 0 }, { 0, 0, false, 0 }, { 8, 8, true, 0 } } },
    { 0, 1, { { 0, 0, true, 0 } } },
    { 0, 1, { { 77, 0, true, 0xffff } } },
    { 0, 2, { { 0, 0, false, 0 }, { 0, 0, true, 0 } } },
};

START_TEST(C100_C101_C103_shapes_of_responses)
{
    const struct ri_wc none = { 0 };
    struct ri_wc wc = none;

    post_read(good[_i].size);
    for (uint32_t i = 0; i < good[_i].count; i++) {
        uint8_t ulpdu[64];

        ck_assert(side_idle(a, a->send_cq)); /* not before the segment with L */
        raw_send(&raw, ulpdu, put_piece(ulpdu, &good[_i].pieces[i]));
    }
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, good[_i].size);
    ck_assert_uint_eq(wc.opcode, RI_WC_RDMA_READ);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert_uint_eq(sink.octets[i],
                          i >= SINK && i < SINK + good[_i].size ? 0x40 + i - SINK : 0);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* The last segment is the refused one. */
static const struct {
    const char *what;
    uint32_t size, count;
    struct piece pieces[4];
    uint16_t value;
    enum ri_wc_status status;
} wrong[] = {
    { "C-096", 16, 1, { { 0, 16, true, 1 } }, 0x1100, RI_WC_BAD_RESPONSE },
    { "C-096 second",
      16,
      2,
      { { 0, 8, false, 0 }, { 8, 8, true, 0x100 } },
      0x1100,
      RI_WC_BAD_RESPONSE },
    { "C-096 before C-097", 16, 1, { { 4, 16, true, 1 } }, 0x1100, RI_WC_BAD_RESPONSE },
    { "C-097 late", 16, 1, { { 1, 8, false, 0 } }, 0x1101, RI_WC_BAD_RESPONSE },
    { "C-097 again",
      16,
      2,
      { { 0, 8, false, 0 }, { 0, 8, false, 0 } },
      0x1101,
      RI_WC_BAD_RESPONSE },
    { "C-097 early", 16, 2, { { 0, 8, false, 0 }, { 7, 8, true, 0 } }, 0x1101, RI_WC_BAD_RESPONSE },
    { "C-098", 16, 1, { { 0, 17, true, 0 } }, 0x1101, RI_WC_LOCAL_LENGTH },
    { "C-098 second",
      16,
      2,
      { { 0, 15, false, 0 }, { 15, 2, true, 0 } },
      0x1101,
      RI_WC_LOCAL_LENGTH },
    { "C-098 behind the end",
      16,
      2,
      { { 0, 16, false, 0 }, { 16, 1, true, 0 } },
      0x1101,
      RI_WC_LOCAL_LENGTH },
    { "C-098 of nothing", 0, 1, { { 0, 1, true, 0 } }, 0x1100, RI_WC_BAD_RESPONSE },
    { "C-099", 16, 1, { { 0, 15, true, 0 } }, 0x0207, RI_WC_LOCAL_LENGTH },
    { "C-099 empty", 16, 1, { { 0, 0, true, 0 } }, 0x0207, RI_WC_LOCAL_LENGTH },
    { "C-099 second",
      16,
      2,
      { { 0, 8, false, 0 }, { 8, 4, true, 0 } },
      0x0207,
      RI_WC_LOCAL_LENGTH },
    { "C-100", 16, 2, { { 0, 16, false, 0 }, { 16, 0, false, 0 } }, 0x0207, RI_WC_BAD_RESPONSE },
    { "C-100 of nothing",
      0,
      2,
      { { 0, 0, false, 0 }, { 0, 0, false, 0 } },
      0x0207,
      RI_WC_BAD_RESPONSE },
};

START_TEST(C096_C097_C098_C099_C100_wrong_responses)
{
    uint8_t ulpdu[64];
    uint32_t length = 0, right = 0;

    post_read(wrong[_i].size);
    for (uint32_t i = 0; i < wrong[_i].count; i++) {
        length = put_piece(ulpdu, &wrong[_i].pieces[i]);
        raw_send(&raw, ulpdu, length);
        if (i + 1 < wrong[_i].count)
            right += wrong[_i].pieces[i].length;
    }
    expect_terminate(wrong[_i].value, ulpdu, length);
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, wrong[_i].value);
    side_expect(a, a->send_cq, 1, wrong[_i].status, 0);
    for (uint32_t i = 0; i < 32; i++) /* nothing of the last segment was placed */
        ck_assert_uint_eq(sink.octets[i], i >= SINK && i < SINK + right ? 0x40 + i - SINK : 0);
}
END_TEST

/* Only the oldest request counts: the response to the second Read comes first. */
START_TEST(C096_C095_oldest_first)
{
    const struct piece second = { 8, 8, true, 0 };
    uint8_t ulpdu[64];
    uint32_t length;

    open_raw(NULL, &plain);
    sink = region_new(a, 32, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, SINK, 8), 0, 1);
    side_read(a, 2, region_sge(&sink, SINK + 8, 8), 0, 1);
    ck_assert(next_frame() && next_frame());
    length = put_piece(ulpdu, &second);
    raw_send(&raw, ulpdu, length);
    expect_terminate(TERMINATE_T_BOUNDS, ulpdu, length);
    side_expect(a, a->send_cq, 1, RI_WC_BAD_RESPONSE, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
}
END_TEST

/* No Read was posted, or all have been answered. */
START_TEST(C095_nothing_outstanding)
{
    const struct piece all = { 0, SIZE, true, 0 };
    uint8_t ulpdu[64];
    uint32_t length;

    post_read(SIZE);
    length = put_piece(ulpdu, &all);
    raw_send(&raw, ulpdu, length);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, SIZE);
    raw_send(&raw, ulpdu, length);
    expect_terminate(TERMINATE_OPCODE, ulpdu, length);
    side_expect_event(a, RI_EVENT_BAD_OPCODE, TERMINATE_OPCODE);
}
END_TEST

START_TEST(C102_sink_revoked)
{
    const struct piece pieces[] = { { 0, 8, false, 0 }, { 8, 8, true, 0 } };
    uint8_t ulpdu[64];
    uint32_t length;

    post_read(SIZE);
    raw_send(&raw, ulpdu, put_piece(ulpdu, &pieces[0]));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert_uint_eq(sink.octets[SINK], 0x40);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(sink.mr), RI_OK);
    sink.mr = NULL;
    length = put_piece(ulpdu, &pieces[1]);
    raw_send(&raw, ulpdu, length);
    expect_terminate(TERMINATE_T_STAG, ulpdu, length);
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, TERMINATE_T_STAG);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_eq(sink.octets[SINK + 8], 0);
}
END_TEST

/* The socket has accepted a Write behind a Read. The Write still completes behind the Read. */
START_TEST(C103_S047_completes_in_order)
{
    const struct piece all = { 0, SIZE, true, 0 };
    uint8_t ulpdu[64];

    post_read(SIZE);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 2, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
    ck_assert(side_idle(a, a->send_cq));
    raw_send(&raw, ulpdu, put_piece(ulpdu, &all));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, SIZE);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
}
END_TEST

/* ---- requests of ital ---- */

/* S-048, octet for octet. */
START_TEST(S048_S044_request)
{
    uint8_t expected[DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN] = { 0x41, 0x41 };

    open_raw(NULL, &plain);
    sink = region_new(a, 32, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, SINK, SIZE), 0x1122334455667788, 0x99aabbcc);
    be_put32(expected + 6, 1);  /* QN */
    be_put32(expected + 10, 1); /* MSN */
    be_put32(expected + 18, sink.keys.lkey);
    be_put64(expected + 22, (uintptr_t)sink.octets + SINK);
    be_put32(expected + 30, SIZE);
    be_put32(expected + 34, 0x99aabbcc);
    be_put64(expected + 38, 0x1122334455667788);
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.length, sizeof(expected));
    ck_assert_mem_eq(frame.ulpdu, expected, sizeof(expected));
    side_modify(a, RI_QPS_ERROR);
}
END_TEST

/* A zero-length Read counts too. Later requests of any type wait behind the one that waits for
 * ORD. */
START_TEST(S049_S046_depth)
{
    struct ri_llp_handover handover = plain;
    const uint32_t ord = (uint32_t)_i + 1;

    handover.ord = ord;
    open_raw(NULL, &handover);
    for (uint32_t i = 0; i < 2 * ord; i++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, i, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2 * ord, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    for (uint32_t i = 0; i < ord; i++) {
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    }
    for (uint32_t i = 0; i < ord; i++) {
        ck_assert(raw_silent(&raw));
        raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
        ck_assert_uint_eq(frame.segment.hdr.msn, ord + i + 1);
    }
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    for (uint32_t i = 0; i < ord; i++)
        raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
    for (uint32_t i = 0; i <= 2 * ord; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
}
END_TEST

/* Posted requests continue one after the other when ORD falls, to zero too. */
START_TEST(S049_depth_falls_behind_posts)
{
    const struct ri_qp_modify lower = { .size = sizeof(lower), .mask = RI_QPM_ORD, .ord = 0 };
    struct ri_llp_handover handover = plain;

    handover.ord = 2;
    open_raw(NULL, &handover);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, i, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert(next_frame());
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &lower), RI_OK);
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
    ck_assert(raw_silent(&raw));
    for (uint32_t i = 2; i < 4; i++) {
        raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
        ck_assert_uint_eq(frame.segment.hdr.msn, i + 1);
    }
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0, 0, NULL, 0);
    for (uint32_t i = 0; i < 4; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
}
END_TEST

/* ---- requests of the peer ---- */

static struct region source;

static uint32_t put_request(uint8_t ulpdu[static 64], uint32_t msn, uint32_t size, uint64_t offset)
{
    const struct rdmap_read_req request = { .sink_stag = 0xdeadbe00 + msn,
                                            .sink_to = UINT64_MAX - 1000, /* opaque: C-115 */
                                            .size = size,
                                            .src_stag = source.keys.rkey,
                                            .src_to = (uintptr_t)source.octets + offset };

    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_READ_REQ), 0, DDP_QN_READ, msn, 0);
    rdmap_put_read_req(ulpdu + DDP_UNTAGGED_LEN, &request);
    return DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN;
}

/* Responses come in the order of the requests, each whole, with the sink and offset of its request.
 * A zero-length Read ignores the source. */
START_TEST(C109_C115_C117_S050_S051_S052_responses)
{
    static const uint32_t sizes_of[] = { 100, 0, 70000, 1, 0, 3000, 200000, 8 };
    const uint32_t size = 200000;
    struct tc_rng rng = tc_rng(7);

    open_raw(NULL, &plain);
    source = region_new(a, size, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
    tc_fill(&rng, source.octets, size);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t ulpdu[64];
        uint32_t length = put_request(ulpdu, i + 1, sizes_of[i], size - sizes_of[i]);

        if (!sizes_of[i]) { /* STag and TO of a zero-length Read */
            be_put32(ulpdu + DDP_UNTAGGED_LEN + 16, 0xbad);
            be_put64(ulpdu + DDP_UNTAGGED_LEN + 20, UINT64_MAX);
        }
        raw_send(&raw, ulpdu, length);
    }
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t got = 0;

        do {
            ck_assert(next_frame());
            ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
            ck_assert_uint_eq(frame.segment.hdr.stag, 0xdeadbe01 + i);
            ck_assert_uint_eq(frame.segment.hdr.to, UINT64_MAX - 1000 + got);
            ck_assert(!memcmp(frame.segment.payload, source.octets + size - sizes_of[i] + got,
                              frame.segment.payload_len));
            got += frame.segment.payload_len;
            ck_assert_int_eq(frame.segment.hdr.last, got == sizes_of[i]);
            ck_assert(frame.segment.payload_len || !sizes_of[i]);
        } while (!frame.segment.hdr.last);
    }
    ck_assert(raw_silent(&raw));
}
END_TEST

/* Refused by form; the first error counts. */
static const struct {
    const char *what;
    uint32_t msn, mo, length;
    bool no_read, no_ird;
    uint16_t value;
} forms[] = {
    { "C-104 short", 1, 0, 27, false, false, 0x1000 },
    { "C-104 empty", 1, 0, 0, false, false, 0x1000 },
    { "C-104 long", 1, 0, 29, false, false, 0x1205 },
    { "C-104 before C-105", 1, 4, 29, false, false, 0x1205 },
    { "C-105", 1, 4, 28, false, false, 0x1204 },
    { "C-105 before C-106", 2, 4, 28, false, false, 0x1204 },
    { "C-106 gap", 2, 0, 28, false, false, 0x1203 },
    { "C-106 old", 0, 0, 28, false, false, 0x1203 },
    { "C-106 before C-108", 3, 0, 28, true, false, 0x1203 },
    { "C-108", 1, 0, 28, true, false, 0x1201 },
    { "C-108 IRD 0", 1, 0, 28, false, true, 0x1201 },
};

START_TEST(C104_C105_C106_C108_forms)
{
    const struct shape shape = { .no_read = forms[_i].no_read };
    struct ri_llp_handover handover = plain;
    uint8_t ulpdu[64] = { 0 };
    uint32_t length = DDP_UNTAGGED_LEN + forms[_i].length;

    if (forms[_i].no_ird)
        handover.ird = 0;
    open_raw(&shape, &handover);
    source = region_new(a, 64, TESTBED_ALL);
    put_request(ulpdu, forms[_i].msn, 8, 0);
    be_put32(ulpdu + 14, forms[_i].mo);
    raw_send(&raw, ulpdu, length);
    expect_terminate(forms[_i].value, ulpdu, length);
    side_expect_event(a,
                      forms[_i].value == 0x1201 ? RI_EVENT_READ_ACCESS : RI_EVENT_REMOTE_OPERATION,
                      forms[_i].value);
}
END_TEST

/* IRD requests may wait, not one more. Answered ones do not count. */
START_TEST(C107_depth)
{
    const uint32_t ird = 3, size = 8u << 20;
    struct ri_llp_handover handover = plain;
    uint8_t ulpdu[64];
    uint32_t got = 0, length = 0;

    handover.ird = ird;
    open_raw_narrow(NULL, &handover);
    source = region_new(a, size, TESTBED_ALL);
    for (uint32_t i = 0; i < 2 * ird; i++) { /* one by one: any number */
        raw_send(&raw, ulpdu, put_request(ulpdu, i + 1, 8, 0));
        ck_assert(next_frame());
    }
    for (uint32_t i = 0; i < ird; i++)
        raw_send(&raw, ulpdu, put_request(ulpdu, 2 * ird + i + 1, size, 0));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    length = put_request(ulpdu, 3 * ird + 1, 0, 0);
    raw_send(&raw, ulpdu, length);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, TERMINATE_U_MSN);
    do { /* until the built segments of the first have left */
        ck_assert(next_frame());
        got += frame.segment.opcode == RDMAP_READ_RESP ? frame.segment.payload_len : 0;
    } while (frame.segment.opcode == RDMAP_READ_RESP);
    ck_assert_uint_lt(got, ird * size);
    ck_assert_int_eq(frame.segment.opcode, RDMAP_TERMINATE);
    ck_assert_uint_eq(be_get16(frame.segment.payload), TERMINATE_U_MSN);
}
END_TEST

/* Output that waits for room refers to the region's memory. */
static bool is_named(const struct iwarp_qp *qp, const struct region *region, uint32_t size)
{
    const struct tx_batch *batch = &qp->tx.batch;

    for (uint32_t i = batch->first; i < batch->count; i++) {
        const uint8_t *octets = batch->iov[i].iov_base;

        if (octets >= region->octets && octets < region->octets + size)
            return true;
    }
    return false;
}

static void deregister_source(void)
{
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(source.mr), RI_OK);
    source.mr = NULL;
}

static void reregister_source(void)
{
    struct ri_mr_attr attr = { .size = sizeof(attr), .access = TESTBED_ALL };
    struct ri_mr_keys keys;

    ck_assert_int_eq(bed.fake.privileged.mr_reregister(source.mr, NULL, &attr, &keys), RI_OK);
}

/* The STag stays, and the peer may not read any more. */
static void forbid_reads(void)
{
    struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = (TESTBED_ALL & ~RI_ACCESS_REMOTE_READ) | RI_ACCESS_KEEP_KEYS
    };
    struct ri_mr_keys keys;

    ck_assert_int_eq(bed.fake.privileged.mr_reregister(source.mr, NULL, &attr, &keys), RI_OK);
}

static struct ri_mw *window;

/* The peer names the window. */
static void bind_source(uint32_t size)
{
    struct ri_send_wr wr = { .cookie = 3, .opcode = RI_WR_BIND_WINDOW, .flags = RI_WR_SIGNALED };
    struct ri_send_wr *bad;
    uint32_t stag;

    ck_assert_int_eq(bed.fake.privileged.mw_allocate(a->pd, false, NULL, &stag, &window), RI_OK);
    wr.bind.mw = window;
    wr.bind.mr = source.mr;
    wr.bind.addr = (uintptr_t)source.octets;
    wr.bind.length = size;
    wr.bind.access = RI_ACCESS_REMOTE_READ;
    wr.bind.new_key = stag + 1;
    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &wr, &bad), RI_OK);
    raw_tagged(&raw, RDMAP_WRITE, true, 0, 0, NULL, 0); /* from now on it speaks */
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 0);
    source.keys.rkey = (stag & ~0xffu) | ((stag + 1) & 0xff);
}

static void free_window(void)
{
    ck_assert_int_eq(bed.fake.privileged.mw_free(window), RI_OK);
}

/* With CRC, without, and there also the source is registered anew, is a window, or loses
 * the right. */
static void (*const revocations[])(void) = { deregister_source, deregister_source,
                                             reregister_source, free_window, forbid_reads };

/* The source is revoked while its response is in progress: all three fields of the Terminate give
 * the progress. What was built before leaves as it was: copied, or, of a region without
 * CRC, named by the batch. */
START_TEST(C116_S058_source_revoked)
{
    const struct shape binding = { .flags = RI_QP_BIND_ENABLE };
    const uint32_t size = 16u << 20;
    uint8_t request[64], header[DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN], expected[128];
    const struct terminate_cause cause = { header, sizeof(header), sizeof(header), NULL };
    struct ri_llp_handover handover = plain;
    struct rdmap_read_req advanced;
    struct tc_rng rng = tc_rng(8);
    uint8_t *before = malloc(size);
    bool copied = revocations[_i] == free_window || !_i;
    uint16_t value = revocations[_i] == forbid_reads ? TERMINATE_R_ACCESS : TERMINATE_R_STAG;
    uint32_t got = 0;

    handover.crc = _i == 0;
    open_raw_narrow(&binding, &handover);
    source = region_new(a, size, TESTBED_ALL | RI_ACCESS_BIND);
    tc_fill(&rng, source.octets, size);
    memcpy(before, source.octets, size);
    if (revocations[_i] == free_window)
        bind_source(size);
    raw_send(&raw, request, put_request(request, 1, size, 0));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert(is_named(qp_of(a), &source, size) == !copied);
    ck_assert((qp_of(a)->tx.batch.bounce != NULL) == copied);
    revocations[_i]();
    ck_assert(!is_named(qp_of(a), &source, size));
    memset(source.octets, 0, size);
    for (;;) {
        ck_assert(next_frame());
        if (frame.segment.opcode != RDMAP_READ_RESP)
            break;
        ck_assert(!frame.segment.hdr.last);
        ck_assert(!memcmp(frame.segment.payload, before + got, frame.segment.payload_len));
        got += frame.segment.payload_len;
    }
    free(before);
    ck_assert_uint_gt(got, 0);
    ck_assert_uint_lt(got, size);
    memcpy(header, request, sizeof(header));
    rdmap_get_read_req(request + DDP_UNTAGGED_LEN, &advanced);
    advanced.sink_to += got;
    advanced.size -= got;
    advanced.src_to += got;
    rdmap_put_read_req(header + DDP_UNTAGGED_LEN, &advanced);
    ck_assert_uint_eq(frame.length, terminate_build_ulpdu(expected, value, &cause));
    ck_assert_mem_eq(frame.ulpdu, expected, frame.length);
    side_expect_event(a, RI_EVENT_READ_ACCESS, value);
}
END_TEST

/* C-117, S-053: the data sent before the request is placed when the request is processed. */
START_TEST(C117_S053_after_earlier_messages)
{
    const uint32_t size = 100000;
    struct region from, to, back;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, size, TESTBED_ALL);
    back = region_new(a, size, TESTBED_ALL);
    to = region_new(b, size, TESTBED_ALL);
    for (int round = 1; round <= 50; round++) {
        memset(from.octets, round, size);
        side_write(a, 1, region_sge(&from, 0, size), (uintptr_t)to.octets, to.keys.rkey);
        side_read(a, 2, region_sge(&back, 0, size), (uintptr_t)to.octets, to.keys.rkey);
        side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
        side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, size);
        ck_assert(!memcmp(from.octets, back.octets, size));
    }
}
END_TEST

/* ---- vectors ---- */

/* Refused Read Responses. The vector's Read is of 16 octets at offset 0x100 of sink STag
 * 66000001. */
START_TEST(C095_to_C100_vectors)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];
        const struct terminate_cause cause = { frame.ulpdu, 0, 0, NULL };
        struct terminate_cause now = cause;
        uint8_t ulpdu[128], expected[TERMINATE_ULPDU_MAX];

        if (s->accept || s->ulpdus[s->n - 1].len < DDP_TAGGED_LEN ||
            (s->ulpdus[s->n - 1].p[1] & RDMAP_CTRL_OP) != RDMAP_READ_RESP || !s->setup[0])
            continue;
        seen++;
        post_read(SIZE);
        for (size_t k = 0; k < s->n; k++) {
            memcpy(ulpdu, s->ulpdus[k].p, s->ulpdus[k].len);
            be_put32(ulpdu + 2, be_get32(ulpdu + 2) - 0x66000001 + sink.keys.lkey);
            be_put64(ulpdu + 6, be_get64(ulpdu + 6) - 0x100 + (uintptr_t)sink.octets + SINK);
            raw_send(&raw, ulpdu, (uint32_t)s->ulpdus[k].len);
            now = (struct terminate_cause){ ulpdu, s->ulpdus[k].len, (uint32_t)s->ulpdus[k].len,
                                            NULL };
        }
        ck_assert(next_frame());
        ck_assert_uint_eq(frame.length, terminate_build_ulpdu(expected, s->terminate, &now));
        ck_assert_msg(!memcmp(frame.ulpdu, expected, frame.length), "%s", s->id);
        raw_wait_end(&raw);
        region_free(a, &sink);
        raw_close(&raw);
        side_close(a);
    }
    ck_assert_int_ge(seen, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma reads");
    TCase *tc = new_case(suite, "responses received", bed_open, bed_close);

    tcase_add_loop_test(tc, C100_C101_C103_shapes_of_responses, 0, ARRAY_SIZE(good));
    tcase_add_loop_test(tc, C096_C097_C098_C099_C100_wrong_responses, 0, ARRAY_SIZE(wrong));
    tc_add_tests(tc, C096_C095_oldest_first, C095_nothing_outstanding, C102_sink_revoked,
                 C103_S047_completes_in_order);
    tc = new_case(suite, "requests sent", bed_open, bed_close);
    tcase_add_test(tc, S048_S044_request);
    tcase_add_loop_test(tc, S049_S046_depth, 0, 3);
    tcase_add_test(tc, S049_depth_falls_behind_posts);
    tc = new_case(suite, "requests received", bed_open, bed_close);
    tcase_add_test(tc, C109_C115_C117_S050_S051_S052_responses);
    tcase_add_loop_test(tc, C104_C105_C106_C108_forms, 0, ARRAY_SIZE(forms));
    tcase_add_test(tc, C107_depth);
    tcase_add_loop_test(tc, C116_S058_source_revoked, 0, ARRAY_SIZE(revocations));
    tcase_add_test(tc, C117_S053_after_earlier_messages);
    tc = new_case(suite, "vectors", bed_open, bed_close);
    tcase_add_test(tc, C095_to_C100_vectors);
    return tc_main(suite);
}

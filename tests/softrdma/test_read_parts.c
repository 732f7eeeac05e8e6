/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA Reads into several elements: one Read Request per element, one completion for all. */
#include "one_qp.h"

#define PARTS  4u
#define EMPTY  2u /* the zero-length element */
#define OCTETS 8u /* of the first of the others; each has one more than the previous one */
#define SOURCE 0x1000u
#define DEPTH  4u

static struct region sink;
static struct ri_sge sges[PARTS];

static const struct shape shape = { .depth = DEPTH, .read_sge = PARTS };

static void open_parts(void)
{
    open_raw(&shape, &plain);
    sink = region_new(a, 256, TESTBED_ALL);
    for (uint32_t i = 0; i < PARTS; i++)
        sges[i] = region_sge(&sink, 64 * i, i == EMPTY ? 0 : OCTETS + i);
    sges[EMPTY].lkey = 0x66; /* ignored */
}

static enum ri_status read_parts(uint64_t cookie, uint16_t flags)
{
    return side_post(a, RI_WR_RDMA_READ, cookie, flags, sges, PARTS, SOURCE, 0x77);
}

/* The peer's next request is for that element. */
static void expect_part(uint32_t part, uint64_t source)
{
    struct rdmap_read_req request;

    ck_assert(next_frame());
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
    rdmap_get_read_req(frame.segment.payload, &request);
    ck_assert_uint_eq(request.sink_stag, sges[part].lkey);
    ck_assert_uint_eq(request.sink_to, sges[part].addr);
    ck_assert_uint_eq(request.size, sges[part].length);
    ck_assert_uint_eq(request.src_stag, 0x77);
    ck_assert_uint_eq(request.src_to, source);
}

static uint32_t expect_parts(void)
{
    uint32_t octets = 0;

    for (uint32_t i = 0; i < PARTS; i++) {
        if (i == EMPTY)
            continue;
        expect_part(i, SOURCE + octets);
        octets += sges[i].length;
    }
    return octets;
}

static void answer(uint32_t part, uint8_t value)
{
    uint8_t octets[OCTETS + PARTS];

    memset(octets, value, sizeof(octets));
    raw_tagged(&raw, RDMAP_READ_RESP, true, sges[part].lkey, sges[part].addr, octets,
               sges[part].length);
}

/* Only the first request has the fence: the others would wait for it. */
START_TEST(one_request_for_each)
{
    uint32_t octets;
    struct ri_wc wc;

    open_parts();
    OK(read_parts(1, RI_WR_SIGNALED | RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE | RI_WR_NOTIFY));
    octets = expect_parts();
    for (uint32_t i = 0; i < PARTS; i++) {
        ck_assert(side_idle(a, a->send_cq)); /* not before the last response */
        if (i != EMPTY)
            answer(i, (uint8_t)(0x40 + i));
    }
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RDMA_READ);
    ck_assert_uint_eq(wc.byte_len, octets);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    for (uint32_t i = 0; i < PARTS; i++)
        for (uint32_t k = 0; k < sges[i].length; k++)
            ck_assert_uint_eq(sink.octets[64 * i + k], 0x40 + i);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* As many as the QP's depth allows. The next one is accepted when one was polled. */
START_TEST(places_for_all)
{
    open_parts();
    for (uint64_t round = 0; round < 3; round++) {
        uint32_t posted = 0;

        while (read_parts(posted, posted == DEPTH ? 0 : RI_WR_SIGNALED) == RI_OK)
            posted++;
        ck_assert_uint_ge(posted, DEPTH);
        for (uint32_t i = 0; i < posted; i++) {
            expect_parts();
            for (uint32_t part = 0; part < PARTS; part++)
                if (part != EMPTY)
                    answer(part, 1);
        }
        for (uint32_t i = 0; i < posted; i++)
            if (i != DEPTH)
                ck_assert_uint_eq(side_next(a, a->send_cq).cookie, i);
        ck_assert(side_idle(a, a->send_cq));
    }
}
END_TEST

START_TEST(refused)
{
    struct ri_sge many[PARTS + 1] = { { 0 } };

    open_parts();
    ck_assert_int_eq(
        side_post(a, RI_WR_RDMA_READ, 1, RI_WR_SIGNALED, many, PARTS + 1, SOURCE, 0x77),
        RI_ERR_INVALID_ARGUMENT);
    sges[0].length = sges[1].length = UINT32_MAX / 2 + 1;
    ck_assert_int_eq(read_parts(1, RI_WR_SIGNALED), RI_ERR_LIMIT);
    ck_assert_int_eq(read_parts(1, RI_WR_SIGNALED | RI_WR_INLINE), RI_ERR_INVALID_ARGUMENT);
    ck_assert(raw_silent(&raw));
    sges[0].length = sges[1].length = sges[3].length = 0; /* nothing is left: one request */
    OK(read_parts(1, RI_WR_SIGNALED));
    ck_assert(next_frame());
    ck_assert(raw_silent(&raw));
}
END_TEST

/* An invalid sink ends the connection. The request reports the error once, although the parts
 * before it were flushed. */
START_TEST(an_element_that_is_wrong)
{
    struct ri_wc wc;

    open_parts();
    sges[_i ? PARTS - 1 : 0].lkey ^= 0x1000; /* the first, the last */
    OK(read_parts(1, RI_WR_SIGNALED));
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_LOCAL_PROTECTION);
    ck_assert_uint_eq(wc.byte_len, 0);
    ck_assert(side_idle(a, a->send_cq));
    OK(read_parts(2, 0));
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    OK(read_parts(3, 0));
    side_expect(a, a->send_cq, 3, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* An invalid response: to the first part, to one in the middle, to the last. */
START_TEST(an_answer_that_is_wrong)
{
    static const uint32_t order[] = { 0, 1, 3 };
    struct ri_wc wc;

    open_parts();
    OK(read_parts(1, 0));
    OK(read_parts(2, RI_WR_SIGNALED));
    expect_parts();
    for (int i = 0; i < _i; i++)
        answer(order[i], 1);
    raw_tagged(&raw, RDMAP_READ_RESP, true, 0x5555, 0, "x", 1);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_BAD_RESPONSE);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* A QP that has ended and is reset. */
START_TEST(after_a_reset)
{
    open_parts();
    OK(read_parts(1, RI_WR_SIGNALED));
    expect_parts();
    side_modify(a, RI_QPS_ERROR);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
    side_modify(a, RI_QPS_IDLE);
    side_modify(a, RI_QPS_ERROR); /* in this state posts are accepted, and all slots are free */
    for (uint64_t i = 0; i < DEPTH * PARTS; i++)
        OK(side_post(a, RI_WR_RDMA_READ, i, RI_WR_SIGNALED, sges, 1, SOURCE, 0x77));
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 0, 0, sges, 1, SOURCE, 0x77), RI_ERR_QUEUE_FULL);
    for (uint64_t i = 0; i < DEPTH * PARTS; i++)
        side_expect(a, a->send_cq, i, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma reads of several elements");
    TCase *tc = new_case(suite, "work", bed_open, bed_close);

    tc_add_tests(tc, one_request_for_each, places_for_all, refused);
    tc = new_case(suite, "ends", bed_open, bed_close);
    tcase_add_loop_test(tc, an_element_that_is_wrong, 0, 2);
    tcase_add_loop_test(tc, an_answer_that_is_wrong, 0, 3);
    tcase_add_test(tc, after_a_reset);
    return tc_main(suite);
}

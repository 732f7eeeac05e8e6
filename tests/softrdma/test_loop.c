/* SPDX-License-Identifier: BSD-3-Clause */
/* Two QPs over loopback: data of every size, shapes of requests, slots and completions.
 * Against a hand-written peer: test_loop_peer.c; random: test_soak.c; ends and errors:
 * test_loop_end.c, test_loop_errors.c. */
#include "loop.h"

/* ---- sizes ---- */

static const uint32_t sizes[] = { 0,    1,    3,    4,     7,     255,     256,     257,
                                  1447, 1448, 4096, 65535, 65536, 1 << 20, 16 << 20 };
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static void transfer_send(uint32_t size)
{
    struct region from = region_new(a, size + 16, TESTBED_ALL),
                  to = region_new(b, size + 16, TESTBED_ALL);
    struct ri_wc wc;

    tc_fill(&bed_rng, from.octets, size);
    side_receive(b, 2, region_sge(&to, 0, size + 16));
    side_send(a, 1, region_sge(&from, 0, size));
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.cookie, 2);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, size);
    ck_assert_uint_eq(wc.opcode, RI_WC_RECV);
    ck_assert_uint_eq(wc.flags, 0);
    ck_assert(!memcmp(from.octets, to.octets, size));
    for (uint32_t i = size; i < size + 16; i++)
        ck_assert_uint_eq(to.octets[i], 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    region_free(a, &from);
    region_free(b, &to);
}

START_TEST(S033_sends)
{
    testbed_connect(&bed, NULL, &plain);
    transfer_send(sizes[_i]);
    transfer_send(sizes[_i]);
}
END_TEST

START_TEST(S027_sends_without_crc)
{
    testbed_connect(&bed, NULL, &no_crc);
    transfer_send(sizes[_i]);
}
END_TEST

/* The octets before and behind the target do not change. A Send behind the Write shows that it was
 * placed (C-094). */
static void transfer_write(uint32_t size, const struct ri_llp_handover *handover)
{
    struct region from, to, note;

    testbed_connect(&bed, NULL, handover);
    from = region_new(a, size + 16, RI_ACCESS_LOCAL_READ);
    to = region_new(b, size + 32, TESTBED_ALL);
    note = region_new(b, 16, RI_ACCESS_LOCAL_WRITE);
    tc_fill(&bed_rng, from.octets, size);
    side_receive(b, 3, region_sge(&note, 0, 16));
    side_write(a, 1, region_sge(&from, 0, size), (uintptr_t)to.octets + 13, to.keys.rkey);
    side_send(a, 2, region_sge(&from, 0, 0));
    side_expect(b, b->recv_cq, 3, RI_WC_SUCCESS, 0);
    ck_assert(!memcmp(from.octets, to.octets + 13, size));
    for (uint32_t i = 0; i < 13; i++)
        ck_assert(!to.octets[i] && !to.octets[size + 13 + i]);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, size);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
    region_free(a, &from);
    region_free(b, &to);
    region_free(b, &note);
}

START_TEST(C094_writes)
{
    transfer_write(sizes[_i], &plain);
}
END_TEST

START_TEST(C094_writes_without_crc)
{
    transfer_write(sizes[_i], &no_crc);
}
END_TEST

static void transfer_read(uint32_t size, const struct ri_llp_handover *handover)
{
    struct region source, sink;
    struct ri_wc wc;

    testbed_connect(&bed, NULL, handover);
    source = region_new(b, size + 16, RI_ACCESS_LOCAL_READ | RI_ACCESS_REMOTE_READ);
    sink = region_new(a, size + 16, RI_ACCESS_LOCAL_WRITE);
    ck_assert_uint_eq(sink.keys.rkey, 0); /* and yet it is a sink */
    tc_fill(&bed_rng, source.octets, size + 16);
    side_read(a, 1, region_sge(&sink, 5, size), (uintptr_t)source.octets + 3, source.keys.rkey);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_RDMA_READ);
    ck_assert_uint_eq(wc.byte_len, size);
    ck_assert(!memcmp(sink.octets + 5, source.octets + 3, size));
    ck_assert_uint_eq(sink.octets[4], 0);
    ck_assert_uint_eq(sink.octets[size + 5], 0);
    region_free(b, &source);
    region_free(a, &sink);
}

START_TEST(C103_reads)
{
    transfer_read(sizes[_i], &plain);
}
END_TEST

START_TEST(C103_reads_without_crc)
{
    transfer_read(sizes[_i], &no_crc);
}
END_TEST

/* Both directions at once; also from the side that may not send first. */
START_TEST(both_directions)
{
    const uint32_t size = 1 << 20;
    struct region from[2], to[2];

    testbed_connect(&bed, NULL, &plain);
    for (int i = 0; i < 2; i++) {
        from[i] = region_new(&bed.side[i], size, TESTBED_ALL);
        to[i] = region_new(&bed.side[i], size, TESTBED_ALL);
        tc_fill(&bed_rng, from[i].octets, size);
        side_receive(&bed.side[i], 1, region_sge(&to[i], 0, size));
    }
    side_send(b, 2, region_sge(&from[1], 0, size));
    side_send(a, 2, region_sge(&from[0], 0, size));
    for (int i = 0; i < 2; i++) {
        side_expect(&bed.side[i], bed.side[i].recv_cq, 1, RI_WC_SUCCESS, size);
        side_expect(&bed.side[i], bed.side[i].send_cq, 2, RI_WC_SUCCESS, size);
        ck_assert(!memcmp(to[i].octets, from[!i].octets, size));
    }
    for (int i = 0; i < 2; i++) {
        region_free(&bed.side[i], &from[i]);
        region_free(&bed.side[i], &to[i]);
    }
}
END_TEST

/* ---- shapes of requests ---- */

/* S-041, C-078, C-081, C-101, C-109: no element, a zero-length element, no STag. */
START_TEST(S041_zero_length)
{
    struct region region;

    testbed_connect(&bed, NULL, &plain);
    region = region_new(b, 64, TESTBED_ALL);
    ck_assert_int_eq(side_post_receive(b, 10, NULL, 0), RI_OK);
    side_receive(b, 11, region_sge(&region, 0, 64));
    side_receive(b, 12, (struct ri_sge){ .addr = 1, .lkey = 0xdeadbeef });
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 2, RI_WR_SIGNALED, NULL, 0, 5, 0xbad), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 3, RI_WR_SIGNALED, NULL, 0, 5, 0xbad), RI_OK);
    side_send(a, 4, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef });
    side_write(a, 5, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef }, 0, 0);
    side_read(a, 6, (struct ri_sge){ .addr = 7, .lkey = 0xdeadbeef }, 0, 0);
    side_send(a, 7, (struct ri_sge){ 0 });
    for (uint64_t i = 1; i < 8; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 0);
    for (uint64_t i = 10; i < 13; i++)
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 0);
    ck_assert_uint_eq(atomic_load(&a->events.count) + atomic_load(&b->events.count), 0);
}
END_TEST

/* Gather and scatter over elements of all lengths, zero included, divided differently at each
 * side. */
START_TEST(several_elements)
{
    const uint32_t part = _i ? 30000 : 70;
    struct region from, to;
    struct ri_sge out[8], in[8];
    uint8_t *want = malloc(8 * part), *got = malloc(8 * part);
    uint32_t total = 0, at = 0;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, 16 * part, TESTBED_ALL);
    to = region_new(b, 16 * part, TESTBED_ALL);
    tc_fill(&bed_rng, from.octets, 16 * part);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t length = i % 3 == 0 ? 0 : part - i;

        out[i] = region_sge(&from, (15 - 2 * i) * part, length);
        memcpy(want + total, from.octets + (15 - 2 * i) * part, length);
        total += length;
    }
    for (uint32_t i = 0; i < 8; i++)
        in[i] = region_sge(&to, 2 * i * part,
                           i == 2   ? 0
                           : i == 7 ? total - at
                                    : (at += part / 2 + i, part / 2 + i));
    ck_assert_int_eq(side_post_receive(b, 1, in, 8), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED, out, 8, 0, 0), RI_OK);
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, total);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, total);
    at = 0;
    for (uint32_t i = 0; i < 8; at += in[i++].length)
        memcpy(got + at, to.octets + 2 * i * part, in[i].length);
    ck_assert(!memcmp(want, got, total));

    memset(to.octets, 0, total); /* the same as a Write into one place */
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 3, RI_WR_SIGNALED, out, 8, (uintptr_t)to.octets,
                               to.keys.rkey),
                     RI_OK);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, total);
    ck_assert(fake_host_until(&bed.fake, !memcmp(want, to.octets, total), TESTBED_TIMEOUT));
    free(want);
    free(got);
}
END_TEST

START_TEST(refused_posts)
{
    struct ri_sge sges[9] = { { 0 } };
    struct ri_sge huge[2] = { { .length = UINT32_MAX }, { .length = 1 } };
    struct ri_send_wr good = { .opcode = RI_WR_RDMA_WRITE, .flags = RI_WR_SIGNALED }, *bad = NULL;
    struct ri_send_wr wrong = { .opcode = RI_WR_SEND, .sg_list = sges, .num_sge = 9 };

    side_open(&bed, a, NULL);
    /* IDLE */
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, NULL, 0, 0, 0), RI_ERR_INVALID_STATE);
    side_close(a);
    testbed_connect(&bed, NULL, &plain);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, sges, 9, 0, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_READ, 0, 0, sges, 2, 0, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 0, 0, huge, 2, 0, 0), RI_ERR_LIMIT);
    ck_assert_int_eq(side_post_receive(a, 0, sges, 9), RI_ERR_INVALID_ARGUMENT);
    good.next = &wrong; /* the first of the list is posted, the second is returned as bad */
    good.cookie = 77;
    ck_assert_int_eq(bed.fake.user.post_send(a->qp, &good, &bad), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_eq(bad, &wrong);
    side_expect(a, a->send_cq, 77, RI_WC_SUCCESS, 0);
    ck_assert_int_eq(atomic_load(&a->events.count), 0);
}
END_TEST

/* ---- slots and completions ---- */

/* Completed requests still fill the queue until they are polled. One completion releases all before
 * it. */
START_TEST(queue_full_and_slots)
{
    const struct shape shape = { .depth = 5 };
    struct ri_wc wc;

    testbed_connect(&bed, &shape, &plain);
    for (uint64_t i = 0; i < 5; i++) {
        uint16_t flags = i == 4 ? RI_WR_SIGNALED : 0;

        ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, i, flags, NULL, 0, 0, 0), RI_OK);
    }
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 5, 0, NULL, 0, 0, 0), RI_ERR_QUEUE_FULL);
    wc = side_next(a, a->send_cq); /* of the signalled request */
    ck_assert_uint_eq(wc.cookie, 4);
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, i, 0, NULL, 0, 0, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_RDMA_WRITE, 5, 0, NULL, 0, 0, 0), RI_ERR_QUEUE_FULL);
    ck_assert(side_idle(a, a->send_cq));
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_int_eq(side_post_receive(b, i, NULL, 0), RI_OK);
    ck_assert_int_eq(side_post_receive(b, 5, NULL, 0), RI_ERR_QUEUE_FULL);
}
END_TEST

START_TEST(marks_of_completions)
{
    struct ri_recv_wr *bad = NULL, receive = { .cookie = 1, .flags = RI_WR_NOTIFY };
    struct ri_wc wc;

    testbed_connect(&bed, NULL, &plain);
    ck_assert_int_eq(bed.fake.user.post_recv(b->qp, &receive, &bad), RI_OK);
    ck_assert_int_eq(side_post_receive(b, 2, NULL, 0), RI_OK);
    ck_assert_int_eq(bed.fake.user.arm(b->recv_cq, RI_ARM_SOLICITED, 0), RI_OK);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, RI_WR_SIGNALED | RI_WR_NOTIFY, NULL, 0, 0, 0),
                     RI_OK);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_NOTIFY);
    ck_assert_uint_eq(atomic_load(&b->recv_events.count), 0);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED | RI_WR_SOLICITED, NULL, 0, 0, 0),
                     RI_OK);
    wc = side_next(b, b->recv_cq);
    ck_assert_uint_eq(wc.flags, RI_WC_SOLICITED);
    ck_assert_uint_eq(atomic_load(&b->recv_events.count), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma loop");
    TCase *tc = new_case(suite, "data", bed_open, bed_close);

    tc_add_loops(tc, 0, SIZES, S033_sends, S027_sends_without_crc, C094_writes,
                 C094_writes_without_crc, C103_reads, C103_reads_without_crc);
    tcase_add_test(tc, both_directions);
    tc = new_case(suite, "requests", bed_open, bed_close);
    tcase_add_test(tc, S041_zero_length);
    tcase_add_loop_test(tc, several_elements, 0, 2);
    tc_add_tests(tc, refused_posts, queue_full_and_slots, marks_of_completions);
    return tc_main(suite);
}

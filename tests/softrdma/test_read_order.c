/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes behind a Read of the same peer: its source is fetched before a later Send, Write or
 * refused request is executed, whatever is under way; nothing waits without end. */
#include "one_qp.h"

#include "providers/software/iwarp/wire_iwarp.h"

#define OLD   0x11
#define NEW   0x22
#define PIECE 30000u

static struct region memory;
static uint32_t read_msn, send_msn;

static void open_with(uint32_t octets, const struct ri_llp_handover *handover)
{
    const struct shape shape = { .atomics = true };

    open_raw_narrow(&shape, handover);
    memory = region_new(a, octets, ATOMIC);
    memset(memory.octets, OLD, octets);
    read_msn = send_msn = 0;
}

/* ---- what the peer sends ---- */

static void request_read(uint64_t at, uint32_t octets, uint32_t stag)
{
    const struct rdmap_read_req request = { .size = octets,
                                            .src_stag = stag,
                                            .src_to = (uintptr_t)memory.octets + at };
    uint8_t payload[RDMAP_READ_REQ_LEN];

    rdmap_put_read_req(payload, &request);
    raw_untagged(&raw, RDMAP_READ_REQ, true, DDP_QN_READ, ++read_msn, 0, payload, sizeof(payload));
}

static void request_add(uint64_t at, uint64_t add)
{
    const struct rdmap_atomic_req request = { .op = RDMAP_FETCH_ADD,
                                              .id = 7,
                                              .stag = memory.keys.rkey,
                                              .to = (uintptr_t)memory.octets + at,
                                              .data = add };
    uint8_t payload[RDMAP_ATOMIC_REQ_LEN];

    rdmap_put_atomic_req(payload, &request);
    raw_untagged(&raw, RDMAP_ATOMIC_REQ, true, DDP_QN_READ, ++read_msn, 0, payload,
                 sizeof(payload));
}

/* The same octet everywhere. */
static void write_over(uint64_t at, uint64_t octets, uint8_t value)
{
    uint8_t piece[PIECE];

    memset(piece, value, sizeof(piece));
    for (uint64_t done = 0; done < octets;) {
        uint32_t part = octets - done < PIECE ? (uint32_t)(octets - done) : PIECE;

        raw_tagged(&raw, RDMAP_WRITE, done + part == octets, memory.keys.rkey,
                   (uintptr_t)memory.octets + at + done, piece, part);
        done += part;
    }
}

static void send_octet(void)
{
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, ++send_msn, 0, "x", 1);
}

/* ---- what it gets ---- */

static bool is_all(const uint8_t *octets, uint64_t length, uint8_t value)
{
    return !length || (octets[0] == value && !memcmp(octets, octets + 1, length - 1));
}

/* A Read Response that has begun with `frame`. */
static void expect_read_on(uint32_t octets, uint8_t value)
{
    uint32_t got = 0;

    for (;;) {
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
        ck_assert(is_all(frame.segment.payload, frame.segment.payload_len, value));
        got += frame.segment.payload_len;
        if (frame.segment.hdr.last)
            break;
        ck_assert(next_frame());
    }
    ck_assert_uint_eq(got, octets);
}

static void expect_read(uint32_t octets, uint8_t value)
{
    ck_assert(next_frame());
    expect_read_on(octets, value);
}

static void expect_old_value(uint64_t value)
{
    struct rdmap_atomic_resp response;

    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_ATOMIC_RESP);
    rdmap_get_atomic_resp(frame.segment.payload, &response);
    ck_assert_uint_eq(response.value, value);
}

static void expect_memory(uint64_t octets, uint8_t value)
{
    ck_assert(is_all(memory.octets, octets, value));
}

/* ---- rows: short Reads, one batch, more than one, more than is kept; with CRC, without; with
 * markers ---- */

static const uint32_t sizes[] = { 1, 8, 300, 70000, 1200000, 4u << 20 };

static struct ri_llp_handover row(int i)
{
    struct ri_llp_handover handover = plain;

    handover.crc = i % 2 == 0;
    return handover;
}

/* All have arrived before the first is taken. */
START_TEST(a_write_behind_a_read)
{
    const uint32_t size = sizes[_i / 2];
    const struct ri_llp_handover handover = row(_i);

    open_with(size, &handover);
    request_read(0, size, memory.keys.rkey);
    write_over(0, size < 100000 ? size : 100000, NEW);
    request_read(0, size < 100000 ? size : 100000, memory.keys.rkey);
    expect_read(size, OLD);
    expect_read(size < 100000 ? size : 100000, NEW);
}
END_TEST

/* The consumer sees the Send, and writes to the source. */
START_TEST(a_send_behind_a_read)
{
    const uint32_t size = sizes[_i / 2];
    const struct ri_llp_handover handover = row(_i);
    struct region own;

    open_with(size, &handover);
    own = region_new(a, 8, TESTBED_ALL);
    side_receive(a, 1, region_sge(&own, 0, 8));
    request_read(0, size, memory.keys.rkey);
    send_octet();
    if (size > READS_AHEAD) {
        ck_assert(side_idle(a, a->recv_cq));
        expect_read(size, OLD);
    }
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 1);
    memset(memory.octets, NEW, size);
    if (size <= READS_AHEAD)
        expect_read(size, OLD);
}
END_TEST

/* A good Read, and one with an STag that is not there. The good one is answered. */
START_TEST(a_refused_read_behind_a_read)
{
    const uint32_t size = sizes[_i / 2];
    const struct ri_llp_handover handover = row(_i);

    open_with(size, &handover);
    request_read(0, size, memory.keys.rkey);
    request_read(0, 8, 0xff);
    expect_read(size, OLD);
    raw_expect_terminate(&raw, TERMINATE_R_STAG);
    side_expect_event(a, RI_EVENT_READ_ACCESS, TERMINATE_R_STAG);
}
END_TEST

START_TEST(a_refused_write_behind_reads_and_an_atomic)
{
    const uint32_t size = sizes[_i / 2];
    const struct ri_llp_handover handover = row(_i);

    open_with(size + 8, &handover);
    request_read(8, size, memory.keys.rkey);
    request_add(0, 1);
    request_read(0, 8, memory.keys.rkey);
    raw_tagged(&raw, RDMAP_WRITE, true, 0xff, 0, "x", 1);
    expect_read(size, OLD);
    expect_old_value(0x1111111111111111);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_mem_eq(frame.segment.payload, memory.octets, 8);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
}
END_TEST

/* Read, add, Write, Read of one word. */
START_TEST(an_atomic_between_a_read_and_a_write)
{
    const uint64_t old = 0x1111111111111111;
    const struct ri_llp_handover handover = row(_i);

    open_with(1000000, &handover);
    for (int round = 0; round < 2; round++) {
        memset(memory.octets, OLD, 8);
        if (round) /* the batch has no room */
            request_read(8, 999992, memory.keys.rkey);
        request_read(0, 8, memory.keys.rkey);
        request_add(0, 5);
        write_over(0, 8, NEW);
        request_read(0, 8, memory.keys.rkey);
        if (round)
            expect_read(999992, OLD);
        expect_read(8, OLD);
        expect_old_value(old);
        expect_read(8, NEW);
    }
}
END_TEST

/* ---- output is under way ---- */

/* A long message of this side has begun, so no answer can be built. Its octets are kept; the source
 * may even go away. */
START_TEST(kept_behind_a_message_of_this_side)
{
    const struct ri_llp_handover handover = row(_i);
    const uint32_t large = 4u << 20, size = 50000;
    struct region own;
    uint64_t got = 0;

    open_with(size, &handover);
    own = region_new(a, large, TESTBED_ALL);
    side_write(a, 1, region_sge(&own, 0, large), 0, 0x77);
    testbed_passes(&bed, 3);
    ck_assert(qp_of(a)->tx.message_begun);
    request_read(0, size, memory.keys.rkey);
    write_over(0, size, NEW);
    ck_assert(fake_host_until(&bed.fake, memory.octets[size - 1] == NEW, TESTBED_TIMEOUT));
    ck_assert_uint_eq(qp_of(a)->tx.kept, size);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(memory.mr), RI_OK);
    memory.mr = NULL;
    while (got < large) {
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
        got += frame.segment.payload_len;
    }
    expect_read(size, OLD);
    ck_assert_uint_eq(qp_of(a)->tx.kept, 0);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, large);
}
END_TEST

/* Without CRC a full socket has not taken what the batch names: that is copied. */
START_TEST(a_batch_that_names_the_source)
{
    const struct ri_llp_handover handover = row(1);
    const uint32_t size = 600000;

    open_with(size, &handover);
    request_read(0, size, memory.keys.rkey);
    testbed_passes(&bed, 3);
    ck_assert(atomic_load(&qp_of(a)->tx.names_source));
    write_over(0, size, NEW);
    ck_assert(fake_host_until(&bed.fake, memory.octets[size - 1] == NEW, TESTBED_TIMEOUT));
    expect_read(size, OLD);
}
END_TEST

/* A message of this side has begun, and a Write is refused: what is kept leaves before the
 * Terminate. */
START_TEST(kept_before_a_terminate)
{
    const struct ri_llp_handover handover = row(_i);
    const uint32_t large = 4u << 20, size = 50000;
    struct region own;

    open_with(size + 8, &handover);
    own = region_new(a, large, TESTBED_ALL);
    side_write(a, 1, region_sge(&own, 0, large), 0, 0x77);
    testbed_passes(&bed, 3);
    ck_assert(qp_of(a)->tx.message_begun);
    request_read(8, size, memory.keys.rkey);
    request_add(0, 1);
    raw_tagged(&raw, RDMAP_WRITE, true, 0xff, 0, "x", 1);
    side_expect_event(a, RI_EVENT_WRITE_ACCESS, TERMINATE_T_STAG);
    memset(memory.octets, NEW, size + 8);
    do
        ck_assert(next_frame());
    while (frame.segment.opcode == RDMAP_WRITE);
    expect_read_on(size, OLD);
    expect_old_value(0x1111111111111111);
    raw_expect_terminate(&raw, TERMINATE_T_STAG);
    ck_assert_uint_eq(qp_of(a)->tx.kept, 0);
}
END_TEST

/* The peer reads much and takes nothing: so much is kept, and what follows waits; it goes on when
 * the answers leave. */
START_TEST(more_than_is_kept)
{
    const struct ri_llp_handover handover = row(_i);
    const uint32_t size = 4u << 20, over = 1u << 20;

    open_with(size, &handover);
    request_read(0, size, memory.keys.rkey);
    write_over(0, over, NEW);
    testbed_passes(&bed, 20);
    expect_memory(size, OLD);
    ck_assert_uint_le(qp_of(a)->tx.kept, READS_AHEAD);
    ck_assert(atomic_load(&qp_of(a)->stream->attention) & ATTEND_BEHIND);
    expect_read(size, OLD);
    ck_assert(fake_host_until(&bed.fake, memory.octets[over - 1] == NEW, TESTBED_TIMEOUT));
    expect_memory(over, NEW);
    ck_assert(!(atomic_load(&qp_of(a)->stream->attention) & ATTEND_BEHIND));
}
END_TEST

/* ... but not without end: after stall_timeout what follows is executed, as the standard allows. */
START_TEST(a_peer_that_takes_nothing_loses_the_order)
{
    const uint32_t size = 4u << 20;

    open_with(size, &plain);
    request_read(0, size, memory.keys.rkey);
    write_over(0, 8, NEW);
    testbed_passes(&bed, 20);
    expect_memory(8, OLD);
    for (int i = 0; i < 1000 && memory.octets[0] == OLD; i++) { /* until the socket takes no more */
        fake_host_expire_timers(&bed.fake);
        testbed_passes(&bed, 20);
    }
    expect_memory(8, NEW);
    ck_assert_int_eq(side_query(a).state, RI_QPS_RTS);
}
END_TEST

/* What waits goes with the connection, whichever side ends it. */
START_TEST(an_end_while_a_write_waits)
{
    const uint32_t size = 4u << 20;

    open_with(size, &plain);
    request_read(0, size, memory.keys.rkey);
    write_over(0, 100, NEW);
    testbed_passes(&bed, 20);
    ck_assert(qp_of(a)->stream->behind != NULL);
    if (_i)
        side_modify(a, RI_QPS_ERROR);
    else
        raw_close(&raw); /* unread octets: RST */
    ck_assert(fake_host_until(&bed.fake, side_query(a).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
    ck_assert(!qp_of(a)->stream->behind);
}
END_TEST

/* ---- this side's requests ---- */

/* A Write leaves behind Reads of READS_AHEAD octets, not behind more: both ends could wait for each
 * other. A further Read may leave. */
START_TEST(a_write_waits_behind_long_reads)
{
    const uint32_t size = READS_AHEAD / 2 + (uint32_t)_i;
    uint32_t reads = 0;

    open_with(2 * size, &plain);
    side_read(a, 1, region_sge(&memory, 0, size), 0, 0x77);
    side_read(a, 2, region_sge(&memory, size, size), 0, 0x77);
    side_write(a, 3, region_sge(&memory, 0, 8), 0, 0x77);
    for (; reads < 2; reads++) {
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    }
    if (_i)
        ck_assert(raw_silent(&raw));
    for (uint32_t at = 0; _i && at < size; at += PIECE) {
        uint32_t part = size - at < PIECE ? size - at : PIECE;

        raw_tagged(&raw, RDMAP_READ_RESP, at + part == size, memory.keys.lkey,
                   (uintptr_t)memory.octets + at, memory.octets, part);
        testbed_passes(&bed, 2);
    }
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_WRITE);
}
END_TEST

/* One Read alone, and a single Write posted later. */
START_TEST(a_single_write_waits_behind_a_long_read)
{
    const uint32_t size = READS_AHEAD + 1;

    open_with(size, &plain);
    side_write(a, 1, region_sge(&memory, 0, 8), 0, 0x77);
    ck_assert(next_frame());
    side_read(a, 2, region_sge(&memory, 0, size), 0, 0x77);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    side_write(a, 3, region_sge(&memory, 0, 8), 0, 0x77);
    ck_assert(raw_silent(&raw));
}
END_TEST

/* Both read much from each other and write behind it, again and again. */
START_TEST(two_ends_that_read_much_and_write)
{
    const uint32_t size = 16u << 20, rounds = 3;
    const struct ri_llp_handover handover = row(_i);
    struct region own[2], sink[2];
    struct side *sides[2] = { a, b };

    testbed_connect(&bed, NULL, &handover);
    for (int i = 0; i < 2; i++) {
        own[i] = region_new(sides[i], size, TESTBED_ALL);
        sink[i] = region_new(sides[i], size, TESTBED_ALL);
        memset(own[i].octets, 1, size);
    }
    for (uint32_t round = 1; round <= rounds; round++) {
        for (int i = 0; i < 2; i++) {
            memset(sink[i].octets, (int)round + 1, size);
            side_read(sides[i], 1, region_sge(&sink[i], 0, size), (uintptr_t)own[!i].octets,
                      own[!i].keys.rkey);
            side_write(sides[i], 2, region_sge(&sink[i], 0, 8), (uintptr_t)own[!i].octets,
                       own[!i].keys.rkey);
        }
        for (int i = 0; i < 2; i++) {
            side_expect(sides[i], sides[i]->send_cq, 1, RI_WC_SUCCESS, size);
            side_expect(sides[i], sides[i]->send_cq, 2, RI_WC_SUCCESS, 8);
            ck_assert(is_all(sink[i].octets, size, 1));
        }
    }
    for (int i = 0; i < 2; i++) {
        region_free(sides[i], &own[i]);
        region_free(sides[i], &sink[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma order behind reads");
    TCase *tc = new_case(suite, "requests of the peer", bed_open, bed_close);
    int rows = 2 * (int)ARRAY_SIZE(sizes);

    tc_add_loops(tc, 0, rows, a_write_behind_a_read, a_send_behind_a_read,
                 a_refused_read_behind_a_read, a_refused_write_behind_reads_and_an_atomic);
    tcase_add_loop_test(tc, an_atomic_between_a_read_and_a_write, 0, 2);
    tc = new_case(suite, "output is under way", bed_open, bed_close);
    tcase_add_loop_test(tc, kept_behind_a_message_of_this_side, 0, 2);
    tcase_add_test(tc, a_batch_that_names_the_source);
    tc_add_loops(tc, 0, 2, kept_before_a_terminate, more_than_is_kept);
    tcase_add_test(tc, a_peer_that_takes_nothing_loses_the_order);
    tcase_add_loop_test(tc, an_end_while_a_write_waits, 0, 2);
    tc = new_case(suite, "requests of this side", bed_open, bed_close);
    tcase_add_loop_test(tc, a_write_waits_behind_long_reads, 0, 2);
    tcase_add_test(tc, a_single_write_waits_behind_a_long_read);
    tc = new_case(suite, "two ends", bed_open, bed_close);
    tcase_add_loop_test(tc, two_ends_that_read_much_and_write, 0, 2);
    return tc_main(suite);
}

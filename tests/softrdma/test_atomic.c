/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics (RFC 7306) that ital posts: two QPs over loopback, one QP against a hand-written peer,
 * several threads on one word. */
#include "one_qp.h"

#include <pthread.h>

static const struct shape shape = { .atomics = true };

static void connect_both(void)
{
    testbed_connect(&bed, &shape, &plain);
}

/* ---- two QPs ---- */

START_TEST(S069_features)
{
    struct ri_rnic_attr attr = { .size = sizeof(attr) };

    ck_assert_int_eq(bed.fake.privileged.query(bed.fake.rnic, &attr), RI_OK);
    ck_assert(attr.features & RI_FEATURE_ATOMICS);
    ck_assert(attr.features & RI_FEATURE_IMMEDIATE);
}
END_TEST

/* The old value arrives in host order, also in an unaligned sink; the word holds the new value. */
START_TEST(C137_S067_add_and_swap)
{
    struct region sink, target;
    struct ri_wc wc;
    uint64_t value;

    connect_both();
    sink = region_new(a, 64, TESTBED_ALL);
    target = region_new(b, 64, RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_ATOMIC);
    set_word(&target, 2, 0x0102030405060708);
    fetch_add(a, 1, region_sge(&sink, 3, 8), &target, 16, 0xff);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.cookie, 1);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.opcode, RI_WC_FETCH_ADD);
    ck_assert_uint_eq(wc.byte_len, 8);
    memcpy(&value, sink.octets + 3, 8);
    ck_assert_uint_eq(value, 0x0102030405060708);
    ck_assert_uint_eq(word(&target, 2), 0x0102030405060807);
    fetch_add(a, 2, region_sge(&sink, 8, 8), &target, 16, (uint64_t)-0x0102030405060808);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 1), 0x0102030405060807);
    ck_assert_uint_eq(word(&target, 2), UINT64_MAX);
    fetch_add(a, 3, region_sge(&sink, 8, 8), &target, 16, 5);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&target, 2), 4); /* modulo 2^64; the next word is unchanged */
    ck_assert_uint_eq(word(&target, 3), 0);
    compare_swap(a, 4, region_sge(&sink, 16, 8), &target, 16, 5, 77);
    wc = side_next(a, a->send_cq);
    ck_assert_uint_eq(wc.opcode, RI_WC_COMPARE_SWAP);
    ck_assert_uint_eq(wc.byte_len, 8);
    ck_assert_uint_eq(word(&sink, 2), 4);
    ck_assert_uint_eq(word(&target, 2), 4);
    compare_swap(a, 5, region_sge(&sink, 16, 8), &target, 16, 4, 77);
    side_expect(a, a->send_cq, 5, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 2), 4);
    ck_assert_uint_eq(word(&target, 2), 77);
}
END_TEST

/* Requests execute in the order of posting: each Read sees the atomics before it and none behind
 * it. */
START_TEST(S068_S047_C117_mixed_with_reads)
{
    const uint32_t rounds = 60; /* more than ORD, so that some wait */
    struct region sink, target;

    connect_both();
    sink = region_new(a, 16 * (uint64_t)rounds, TESTBED_ALL);
    target = region_new(b, 8, ATOMIC);
    for (uint32_t i = 0; i < rounds / 2; i++) {
        fetch_add(a, 2 * i, region_sge(&sink, 16 * (uint64_t)i, 8), &target, 0, 3);
        side_read(a, 2 * i + 1, region_sge(&sink, 16 * (uint64_t)i + 8, 8),
                  (uintptr_t)target.octets, target.keys.rkey);
    }
    for (uint32_t i = 0; i < rounds; i++) {
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 8);
        ck_assert_uint_eq(word(&sink, i), 3 * ((i + 1) / 2));
    }
    /* A Write and a Send in front of an atomic are placed before it executes. */
    set_word(&sink, 0, 1000);
    side_receive(b, 9, region_sge(&target, 0, 8));
    side_write(a, 100, region_sge(&sink, 0, 8), (uintptr_t)target.octets, target.keys.rkey);
    fetch_add(a, 101, region_sge(&sink, 8, 8), &target, 0, 1);
    side_expect(a, a->send_cq, 100, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 101, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 1), 1000);
    ck_assert_uint_eq(word(&target, 0), 1001);
    side_modify(b, RI_QPS_ERROR);
}
END_TEST

/* Eight octets of a longer element are used, whatever is behind them. */
START_TEST(a_long_element_gets_eight_octets)
{
    struct region sink, target;

    connect_both();
    sink = region_new(a, 16, TESTBED_ALL);
    target = region_new(b, 8, ATOMIC);
    set_word(&sink, 1, 0x5555);
    set_word(&target, 0, 3);
    fetch_add(a, 1, region_sge(&sink, 0, 16), &target, 0, 4);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 0), 3);
    ck_assert_uint_eq(word(&sink, 1), 0x5555);
    compare_swap(a, 2, region_sge(&sink, 8, UINT32_MAX), &target, 0, 7, 1);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 1), 7);
    ck_assert_uint_eq(word(&target, 0), 1);
}
END_TEST

START_TEST(posts_refused)
{
    struct region sink;
    struct ri_sge sges[2];

    connect_both();
    sink = region_new(a, 64, TESTBED_ALL);
    for (int op = RI_WR_ATOMIC_FETCH_ADD; op <= RI_WR_ATOMIC_COMPARE_SWAP; op++) {
        sges[0] = region_sge(&sink, 0, 8);
        sges[1] = region_sge(&sink, 8, 8);
        ck_assert_int_eq(post_atomic(a, (enum ri_wr_opcode)op, 1, sges, 2, 0, 0, 0, 0),
                         RI_ERR_INVALID_ARGUMENT);
        ck_assert_int_eq(post_atomic(a, (enum ri_wr_opcode)op, 1, sges, 0, 0, 0, 0, 0),
                         RI_ERR_INVALID_ARGUMENT);
        sges[0].length = 7;
        ck_assert_int_eq(post_atomic(a, (enum ri_wr_opcode)op, 1, sges, 1, 0, 0, 0, 0),
                         RI_ERR_INVALID_ARGUMENT);
    }
    ck_assert(side_idle(a, a->send_cq));
}
END_TEST

/* A sink that may not be written, or an ORD of 0: the completion reports it, and nothing leaves. */
START_TEST(local_errors)
{
    struct ri_llp_handover handover = plain;
    struct region sink;

    handover.ord = _i ? 8 : 0;
    open_raw(&shape, &handover);
    sink = region_new(a, 64, _i ? RI_ACCESS_LOCAL_READ : TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 1);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_TERMINATE);
    ck_assert_uint_eq(be_get16(frame.segment.payload), TERMINATE_LOCAL);
    side_expect(a, a->send_cq, 1, _i ? RI_WC_LOCAL_PROTECTION : RI_WC_LOCAL_QP, 0);
    side_expect_event(a, RI_EVENT_LOCAL_ERROR, 0);
}
END_TEST

/* ---- requests of ital on the wire ---- */

static void respond(uint32_t msn, uint32_t id, uint64_t value)
{
    const struct rdmap_atomic_resp response = { .id = id, .value = value };
    uint8_t payload[RDMAP_ATOMIC_RESP_LEN];

    rdmap_put_atomic_resp(payload, &response);
    raw_untagged(&raw, RDMAP_ATOMIC_RESP, true, DDP_QN_ATOMIC, msn, 0, payload, sizeof(payload));
}

/* Reads and atomics share ORD and MSN; identifiers differ. */
START_TEST(S065_S066_S049_requests)
{
    struct ri_llp_handover handover = plain;
    struct rdmap_atomic_req first, second, third;
    struct rdmap_read_req read;
    struct region sink;

    handover.ord = 2;
    open_raw(&shape, &handover);
    sink = region_new(a, 64, TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 0x1122334455667788);
    side_read(a, 2, region_sge(&sink, 8, 8), 0, 0x100);
    compare_swap(a, 3, region_sge(&sink, 16, 8), &sink, 24, 5, 6);
    fetch_add(a, 4, region_sge(&sink, 24, 8), &sink, 3, 1); /* not aligned: the peer checks this */
    first = expect_request(1);
    ck_assert_uint_eq(first.op, RDMAP_FETCH_ADD);
    ck_assert_uint_eq(first.stag, sink.keys.rkey);
    ck_assert_uint_eq(first.to, (uintptr_t)sink.octets);
    ck_assert_uint_eq(first.data, 0x1122334455667788);
    ck_assert_uint_eq(first.mask, 0);
    ck_assert_uint_eq(first.compare, 0);
    ck_assert_uint_eq(first.compare_mask, UINT64_MAX);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_REQ);
    ck_assert_uint_eq(frame.segment.hdr.msn, 2);
    rdmap_get_read_req(frame.segment.payload, &read);
    ck_assert(raw_silent(&raw));
    respond(1, first.id, 0xaabb);
    second = expect_request(3);
    ck_assert_uint_eq(second.op, RDMAP_CMP_SWAP);
    ck_assert_uint_eq(second.data, 6);
    ck_assert_uint_eq(second.mask, UINT64_MAX);
    ck_assert_uint_eq(second.compare, 5);
    ck_assert_uint_eq(second.compare_mask, UINT64_MAX);
    ck_assert_uint_ne(second.id, first.id);
    ck_assert(raw_silent(&raw));
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 0), 0xaabb);
    raw_tagged(&raw, RDMAP_READ_RESP, true, read.sink_stag, read.sink_to, "answered", 8);
    third = expect_request(4);
    ck_assert_uint_eq(third.to, (uintptr_t)sink.octets + 3); /* S-070: sent unchanged */
    respond(2, second.id, 1);
    respond(3, third.id, 2);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 4, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 2), 1);
    ck_assert_uint_eq(word(&sink, 3), 2);
}
END_TEST

/* S-064: both fences wait for atomics too. */
START_TEST(S064_fences)
{
    const uint16_t fence = _i ? RI_WR_LOCAL_FENCE : RI_WR_READ_FENCE;
    struct region sink;
    uint32_t id;

    open_raw(&shape, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 1);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 2, RI_WR_SIGNALED | fence, NULL, 0, 0, 0), RI_OK);
    id = expect_request(1).id;
    ck_assert(raw_silent(&raw));
    respond(1, id, 0);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_SEND);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 2, RI_WC_SUCCESS, 0);
}
END_TEST

/* ---- invalid responses ---- */

enum { NOTHING, ATOMIC_OLDEST, READ_OLDEST };

static const struct {
    const char *what;
    int outstanding;
    uint32_t msn, mo, change_id, length;
    uint16_t value;
    enum ri_event_type event;
    enum ri_wc_status status;
} bad_responses[] = {
    { "C-138 nothing", NOTHING, 1, 0, 0, 12, 0x0206, RI_EVENT_BAD_OPCODE, 0 },
    { "C-138 a Read", READ_OLDEST, 1, 0, 0, 12, 0x0206, RI_EVENT_BAD_OPCODE, RI_WC_FLUSHED },
    { "C-139 MSN", ATOMIC_OLDEST, 2, 0, 0, 12, 0x1203, RI_EVENT_RESPONSE_ERROR,
      RI_WC_BAD_RESPONSE },
    { "C-139 MSN 0", ATOMIC_OLDEST, 0, 0, 0, 12, 0x1203, RI_EVENT_RESPONSE_ERROR,
      RI_WC_BAD_RESPONSE },
    { "C-139 MO", ATOMIC_OLDEST, 1, 4, 0, 12, 0x1203, RI_EVENT_RESPONSE_ERROR, RI_WC_BAD_RESPONSE },
    { "C-140 short", ATOMIC_OLDEST, 1, 0, 0, 11, 0x1205, RI_EVENT_RESPONSE_ERROR,
      RI_WC_LOCAL_LENGTH },
    { "C-140 empty", ATOMIC_OLDEST, 1, 0, 0, 0, 0x1205, RI_EVENT_RESPONSE_ERROR,
      RI_WC_LOCAL_LENGTH },
    { "C-140 long", ATOMIC_OLDEST, 1, 0, 0, 28, 0x1205, RI_EVENT_RESPONSE_ERROR,
      RI_WC_LOCAL_LENGTH },
    { "C-141 identifier", ATOMIC_OLDEST, 1, 0, 1, 12, 0x0207, RI_EVENT_RESPONSE_ERROR,
      RI_WC_BAD_RESPONSE },
};

START_TEST(C138_C139_C140_C141_bad_responses)
{
    const uint32_t length = DDP_UNTAGGED_LEN + bad_responses[_i].length;
    struct rdmap_atomic_resp response = { .value = 0x5555 };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 32] = { 0 };
    struct region sink;

    open_raw(&shape, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    if (bad_responses[_i].outstanding == READ_OLDEST)
        side_read(a, 1, region_sge(&sink, 0, 8), 0, 0x100);
    else if (bad_responses[_i].outstanding == ATOMIC_OLDEST)
        fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 1);
    if (bad_responses[_i].outstanding) {
        ck_assert(next_frame());
        response.id = be_get32(frame.segment.payload + 4) + bad_responses[_i].change_id;
    }
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_ATOMIC_RESP), 0, DDP_QN_ATOMIC,
                     bad_responses[_i].msn, bad_responses[_i].mo);
    rdmap_put_atomic_resp(ulpdu + DDP_UNTAGGED_LEN, &response);
    raw_send(&raw, ulpdu, length);
    expect_terminate(bad_responses[_i].value, ulpdu, length);
    side_expect_event(a, bad_responses[_i].event, bad_responses[_i].value);
    if (bad_responses[_i].outstanding)
        side_expect(a, a->send_cq, 1, bad_responses[_i].status, 0);
    ck_assert_uint_eq(word(&sink, 0), 0);
}
END_TEST

/* C-095 reversed: a Read Response while an atomic is the oldest request. */
START_TEST(C095_read_response_for_an_atomic)
{
    struct region sink;
    uint8_t ulpdu[DDP_TAGGED_LEN + 8];

    open_raw(&shape, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 1);
    side_read(a, 2, region_sge(&sink, 8, 8), 0, 0x100);
    ck_assert(next_frame() && next_frame());
    ddp_put_tagged(ulpdu, true, rdmap_ctrl(RDMAP_READ_RESP), sink.keys.lkey,
                   (uintptr_t)sink.octets + 8);
    memcpy(ulpdu + DDP_TAGGED_LEN, "too soon", 8);
    raw_send(&raw, ulpdu, sizeof(ulpdu));
    expect_terminate(TERMINATE_OPCODE, ulpdu, sizeof(ulpdu));
    side_expect_event(a, RI_EVENT_BAD_OPCODE, TERMINATE_OPCODE);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
    side_expect(a, a->send_cq, 2, RI_WC_FLUSHED, 0);
    ck_assert_uint_eq(word(&sink, 1), 0);
}
END_TEST

START_TEST(sink_revoked_meanwhile)
{
    struct region sink, other;
    uint8_t *octets;
    uint32_t id;

    open_raw(&shape, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    other = region_new(a, 64, TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &other, 0, 1);
    id = expect_request(1).id;
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(sink.mr), RI_OK);
    sink.mr = NULL;
    octets = sink.octets;
    respond(1, id, 0x5555);
    expect_terminate(TERMINATE_LOCAL, NULL, 0);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_eq(octets[0], 0);
}
END_TEST

/* The peer's Terminate names a Read or atomic of ital by its MSN. */
static const struct {
    uint16_t value;
    uint32_t qn, msn;
    uint32_t blamed; /* cookie; 0: none */
    enum ri_wc_status status;
} named[] = {
    { 0x0100, DDP_QN_READ, 2, 2, RI_WC_REMOTE_ACCESS },
    { 0x0102, DDP_QN_READ, 1, 1, RI_WC_REMOTE_ACCESS },
    { 0x0207, DDP_QN_READ, 3, 3, RI_WC_REMOTE_INVALID_REQUEST }, /* not aligned */
    { 0x0206, DDP_QN_READ, 1, 1, RI_WC_REMOTE_INVALID_REQUEST }, /* not known */
    { 0x02FF, DDP_QN_READ, 1, 1, RI_WC_REMOTE_OPERATION },
    { 0x0207, DDP_QN_READ, 4, 0, 0 },
    { 0x0207, DDP_QN_SEND, 1, 0, 0 },
    { 0x1203, DDP_QN_READ, 1, 1, RI_WC_REMOTE_OPERATION }, /* so do DDP errors */
    { 0x1201, DDP_QN_READ, 2, 2, RI_WC_REMOTE_ACCESS },
    { 0x1202, DDP_QN_SEND, 1, 0, 0 },
    { 0x1201, DDP_QN_READ, 4, 0, 0 },
};

START_TEST(C147_terminate_names_an_atomic)
{
    uint8_t ulpdu[TERMINATE_ULPDU_MAX], header[DDP_UNTAGGED_LEN];
    const struct terminate_cause cause = { header, sizeof(header), 70, NULL };
    struct region sink;
    struct ri_wc wc;
    uint32_t length;

    open_raw(&shape, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    for (uint32_t i = 1; i <= 3; i++) {
        fetch_add(a, i, region_sge(&sink, 0, 8), &sink, 0, 1);
        expect_request(i);
    }
    ddp_put_untagged(header, true,
                     rdmap_ctrl(named[_i].qn == DDP_QN_READ ? RDMAP_ATOMIC_REQ : RDMAP_SEND), 0,
                     named[_i].qn, named[_i].msn, 0);
    length = (uint32_t)terminate_build_ulpdu(ulpdu, named[_i].value, &cause);
    ck_assert_uint_eq(length, 42); /* no RDMA header */
    raw_send(&raw, ulpdu, length);
    side_expect_event(a, RI_EVENT_TERMINATE_RECEIVED, named[_i].value);
    ck_assert(a->events.explained[0] == (named[_i].blamed != 0));
    for (uint32_t i = 1; i <= 3; i++) {
        wc = side_next(a, a->send_cq);
        ck_assert_uint_eq(wc.cookie, i);
        ck_assert_uint_eq(wc.status, i == named[_i].blamed ? named[_i].status : RI_WC_FLUSHED);
        ck_assert_uint_eq(wc.vendor_error, i == named[_i].blamed ? named[_i].value : 0);
    }
}
END_TEST

START_TEST(C138_answers_come_without_leave)
{
    struct region sink;

    open_raw(NULL, &plain);
    sink = region_new(a, 8, TESTBED_ALL);
    fetch_add(a, 1, region_sge(&sink, 0, 8), &sink, 0, 1);
    respond(1, expect_request(1).id, 99);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 8);
    ck_assert_uint_eq(word(&sink, 0), 99);
}
END_TEST

/* ---- threads ---- */

#define PAIRS  2
#define WINDOW 32u

static atomic_uint adding; /* number of threads */

struct adder {
    struct side *side;
    struct region sink;
    const struct region *target;
    unsigned long count, wrong;
    uint64_t last; /* observed values never decrease */
};

static bool wait_one(struct side *side, struct ri_wc *wc, uint64_t end)
{
    while (bed.fake.user.poll(side->send_cq, 1, wc) == 0) {
        if (tc_expired(end))
            return false;
        sched_yield();
    }
    return true;
}

/* Several at a time, so that the whole queue executes in one pass. */
static void *add_many(void *arg)
{
    struct adder *adder = arg;
    uint64_t end = tc_deadline(60000);
    unsigned long posted = 0;
    struct ri_wc wc;

    for (unsigned long i = 0; i < adder->count && !adder->wrong; i++) {
        for (; posted < adder->count && posted < i + WINDOW; posted++)
            fetch_add(adder->side, posted, region_sge(&adder->sink, 8 * (posted % WINDOW), 8),
                      adder->target, 0, 1);
        if (!wait_one(adder->side, &wc, end) || wc.cookie != i || wc.status != RI_WC_SUCCESS) {
            adder->wrong++;
        } else {
            adder->wrong += i && word(&adder->sink, (uint32_t)(i % WINDOW)) <= adder->last;
            adder->last = word(&adder->sink, (uint32_t)(i % WINDOW));
        }
    }
    atomic_fetch_sub(&adding, 1);
    return NULL;
}

/* The responders post too, so that responses are built in their threads as well as in the
 * lane's. */
static void *write_many(void *arg)
{
    struct adder *adder = arg;
    uint64_t end = tc_deadline(60000);
    struct ri_wc wc;

    for (unsigned long i = 0; i < adder->count && !adder->wrong; i++) {
        ck_assert_int_eq(side_post(adder->side, RI_WR_RDMA_WRITE, i, RI_WR_SIGNALED, NULL, 0, 0, 0),
                         RI_OK);
        adder->wrong += !wait_one(adder->side, &wc, end) || wc.status != RI_WC_SUCCESS;
    }
    return NULL;
}

/* All QPs of an RNIC, and the processor itself, add to one word: no addition is lost. */
START_TEST(C137_concurrent_additions)
{
    static struct side sides[PAIRS][2];
    struct adder adders[PAIRS][2] = { 0 };
    pthread_t threads[PAIRS][2];
    const unsigned long count = tc_count(4000);
    struct region shared[PAIRS];
    struct ri_pd *pd;
    uint64_t *memory, own = 0;

    atomic_store(&adding, PAIRS);
    testbed_lane_start(&bed);
    for (int pair = 0; pair < PAIRS; pair++) {
        for (int i = 0; i < 2; i++)
            side_open(&bed, &sides[pair][i], &shape);
        sides_connect(&sides[pair][0], &sides[pair][1], &plain);
    }
    shared[0] = region_new(&sides[0][1], 64, ATOMIC);
    memory = (uint64_t *)(void *)shared[0].octets;
    for (int pair = 0; pair < PAIRS; pair++) {
        struct ri_mr_attr attr = {
            .size = sizeof(attr), .access = ATOMIC, .addr = shared[0].octets, .length = 64
        };

        pd = sides[pair][1].pd;
        shared[pair].octets = shared[0].octets;
        if (pair)
            ck_assert_int_eq(
                bed.fake.privileged.mr_register(pd, &attr, &shared[pair].keys, &shared[pair].mr),
                RI_OK);
        for (int i = 0; i < 2; i++) {
            adders[pair][i] =
                (struct adder){ .side = &sides[pair][i], .target = &shared[pair], .count = count };
            adders[pair][i].sink = region_new(&sides[pair][i], 8 * WINDOW, TESTBED_ALL);
            ck_assert_int_eq(pthread_create(&threads[pair][i], NULL, i ? write_many : add_many,
                                            &adders[pair][i]),
                             0);
        }
    }
    for (; atomic_load(&adding); own++)
        __atomic_fetch_add(memory, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2 * PAIRS; i++)
        ck_assert_int_eq(pthread_join(threads[i / 2][i % 2], NULL), 0);
    for (int i = 0; i < 2 * PAIRS; i++)
        ck_assert_uint_eq(adders[i / 2][i % 2].wrong, 0);
    ck_assert_uint_eq(__atomic_load_n(memory, __ATOMIC_SEQ_CST), PAIRS * count + own);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(shared[1].mr), RI_OK);
    for (int i = 0; i < 2 * PAIRS; i++)
        region_free(&sides[i / 2][i % 2], &adders[i / 2][i % 2].sink);
    region_free(&sides[0][1], &shared[0]);
    for (int i = 0; i < 2 * PAIRS; i++)
        side_close(&sides[i / 2][i % 2]);
    testbed_lane_stop(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma atomics");
    TCase *tc = new_case(suite, "two QPs", bed_open, bed_close);

    tc_add_tests(tc, S069_features, C137_S067_add_and_swap, S068_S047_C117_mixed_with_reads,
                 a_long_element_gets_eight_octets, posts_refused);
    tc = new_case(suite, "requester", bed_open, bed_close);
    tcase_add_loop_test(tc, local_errors, 0, 2);
    tcase_add_test(tc, S065_S066_S049_requests);
    tcase_add_loop_test(tc, S064_fences, 0, 2);
    tcase_add_loop_test(tc, C138_C139_C140_C141_bad_responses, 0, ARRAY_SIZE(bad_responses));
    tc_add_tests(tc, C095_read_response_for_an_atomic, C138_answers_come_without_leave,
                 sink_revoked_meanwhile);
    tcase_add_loop_test(tc, C147_terminate_names_an_atomic, 0, ARRAY_SIZE(named));
    tc = new_case(suite, "threads", bed_open, bed_close);
    tcase_add_test(tc, C137_concurrent_additions);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics (RFC 7306) that the peer sends: executed once and in order, with masks; every refused
 * form; the vectors. */
#include "one_qp.h"

#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "tests/common/vectors_tc.h"

static const struct shape shape = { .atomics = true };

/* ---- requests of the peer ---- */

static struct region target;

static uint32_t put_request(uint8_t ulpdu[static DDP_UNTAGGED_LEN + 64], uint32_t msn, uint32_t mo,
                            const struct rdmap_atomic_req *request)
{
    memset(ulpdu, 0, DDP_UNTAGGED_LEN + 64);
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_ATOMIC_REQ), 0, DDP_QN_READ, msn, mo);
    rdmap_put_atomic_req(ulpdu + DDP_UNTAGGED_LEN, request);
    return DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN;
}

static void request_of_peer(uint32_t msn, const struct rdmap_atomic_req *request)
{
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64];

    raw_send(&raw, ulpdu, put_request(ulpdu, msn, 0, request));
}

/* One FPDU at the end of those that leave in one write. */
static uint32_t put_fpdu(uint8_t *at, const uint8_t *ulpdu, uint32_t length, bool crc)
{
    uint32_t head = MPA_HDR_LEN + length;

    mpa_put_len(at, length);
    memcpy(at + MPA_HDR_LEN, ulpdu, length);
    return head + mpa_put_trailer(at + head, length, crc32c(0, at, head), crc);
}

static void expect_response(uint32_t msn, uint32_t id, uint64_t value)
{
    struct rdmap_atomic_resp response;

    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_ATOMIC_RESP);
    ck_assert_uint_eq(frame.length, DDP_UNTAGGED_LEN + RDMAP_ATOMIC_RESP_LEN);
    ck_assert_uint_eq(frame.segment.hdr.qn, DDP_QN_ATOMIC);
    ck_assert_uint_eq(frame.segment.hdr.msn, msn);
    ck_assert_uint_eq(frame.segment.hdr.mo, 0);
    rdmap_get_atomic_resp(frame.segment.payload, &response);
    ck_assert_uint_eq(response.id, id);
    ck_assert_msg(response.value == value, "value %llx; expected %llx",
                  (unsigned long long)response.value, (unsigned long long)value);
}

static const struct {
    const char *what;
    enum { OWN, WRONG_KEY, ZERO, OTHER_PD, NO_RIGHT, DEREGISTERED } stag;
    uint64_t to; /* relative to the region, unless absolute */
    bool absolute;
    uint32_t msn, mo, length;
    uint8_t op;
    uint16_t value;
    enum ri_event_type event;
} bad_requests[] = {
    { "C-127 short", OWN, 0, false, 1, 0, 51, 0, 0x1000, RI_EVENT_REMOTE_OPERATION },
    { "C-127 empty", OWN, 0, false, 1, 0, 0, 0, 0x1000, RI_EVENT_REMOTE_OPERATION },
    { "C-127 long", OWN, 0, false, 1, 0, 53, 0, 0x1205, RI_EVENT_REMOTE_OPERATION },
    { "C-127 MO", OWN, 0, false, 1, 1, 52, 0, 0x1205, RI_EVENT_REMOTE_OPERATION },
    { "C-127 before C-128", OWN, 0, false, 2, 0, 53, 0, 0x1205, RI_EVENT_REMOTE_OPERATION },
    { "C-128 gap", OWN, 0, false, 2, 0, 52, 0, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C-128 old", OWN, 0, false, 0, 0, 52, 0, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C-128 before C-130", OWN, 0, false, 2, 0, 52, 1, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C-130 1", OWN, 0, false, 1, 0, 52, 1, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C-130 3", OWN, 0, false, 1, 0, 52, 3, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C-130 15", ZERO, 0, false, 1, 0, 52, 15, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C-131 key", WRONG_KEY, 0, false, 1, 0, 52, 0, 0x0100, RI_EVENT_READ_ACCESS },
    { "C-131 zero", ZERO, 0, false, 1, 0, 52, 2, 0x0100, RI_EVENT_READ_ACCESS },
    { "C-131 gone", DEREGISTERED, 0, false, 1, 0, 52, 0, 0x0100, RI_EVENT_READ_ACCESS },
    { "C-132", OTHER_PD, 0, false, 1, 0, 52, 0, 0x0103, RI_EVENT_READ_ACCESS },
    { "C-133", NO_RIGHT, 0, false, 1, 0, 52, 0, 0x0102, RI_EVENT_READ_ACCESS },
    { "C-134", OWN, UINT64_MAX - 3, true, 1, 0, 52, 0, 0x0104, RI_EVENT_READ_ACCESS },
    { "C-135 before", OWN, (uint64_t)-8, false, 1, 0, 52, 0, 0x0101, RI_EVENT_READ_ACCESS },
    { "C-135 behind", OWN, 64, false, 1, 0, 52, 0, 0x0101, RI_EVENT_READ_ACCESS },
    { "C-135 half behind", OWN, 60, false, 1, 0, 52, 0, 0x0101, RI_EVENT_READ_ACCESS },
    { "C-136 1", OWN, 1, false, 1, 0, 52, 0, 0x0207, RI_EVENT_REMOTE_OPERATION },
    { "C-136 4", OWN, 4, false, 1, 0, 52, 2, 0x0207, RI_EVENT_REMOTE_OPERATION },
};

START_TEST(C127_C128_C130_C131_C132_C133_C134_C135_C136_bad_requests)
{
    struct rdmap_atomic_req request = { .op = bad_requests[_i].op,
                                        .id = 5,
                                        .data = 7,
                                        .mask = bad_requests[_i].op ? UINT64_MAX : 0,
                                        .compare_mask = bad_requests[_i].op ? 0 : UINT64_MAX };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64];
    struct region other;
    uint32_t length;

    open_raw(&shape, &plain);
    side_open(&bed, b, NULL);
    target = region_new(a, 64, bad_requests[_i].stag == NO_RIGHT ? TESTBED_ALL : ATOMIC);
    other = region_new(b, 64, ATOMIC);
    request.stag = bad_requests[_i].stag == ZERO ? 0
                   : bad_requests[_i].stag == OTHER_PD
                       ? other.keys.rkey
                       : target.keys.rkey ^ (bad_requests[_i].stag == WRONG_KEY);
    request.to = bad_requests[_i].to;
    if (!bad_requests[_i].absolute)
        request.to += (uintptr_t)(bad_requests[_i].stag == OTHER_PD ? other.octets : target.octets);
    if (bad_requests[_i].stag == DEREGISTERED) {
        ck_assert_int_eq(bed.fake.privileged.mr_deregister(target.mr), RI_OK);
        target.mr = NULL;
    }
    put_request(ulpdu, bad_requests[_i].msn, bad_requests[_i].mo, &request);
    length = DDP_UNTAGGED_LEN + bad_requests[_i].length;
    raw_send(&raw, ulpdu, length);
    expect_terminate(bad_requests[_i].value, ulpdu, length);
    side_expect_event(a, bad_requests[_i].event, bad_requests[_i].value);
    for (int i = 0; i < 64; i++)
        ck_assert(!target.octets[i] && !other.octets[i]);
}
END_TEST

/* A QP without atomics does not know the opcode, whatever else is wrong. It accepts responses to
 * its own atomics (above). */
START_TEST(C062_not_enabled)
{
    const struct rdmap_atomic_req request = { .op = _i ? 9 : 0 };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64];
    uint32_t length;

    open_raw(NULL, &plain);
    length = put_request(ulpdu, 1, 0, &request);
    raw_send(&raw, ulpdu, length);
    expect_terminate(TERMINATE_OPCODE, ulpdu, length);
    side_expect_event(a, RI_EVENT_BAD_OPCODE, TERMINATE_OPCODE);
}
END_TEST

/* IRD 1 and two atomics in one write; IRD 0, which allows none. */
START_TEST(C128_ird)
{
    struct ri_llp_handover handover = plain;
    struct rdmap_atomic_req request = { .id = 1, .compare_mask = UINT64_MAX };
    uint8_t octets[2 * 128], ulpdu[DDP_UNTAGGED_LEN + 64];
    uint32_t used = 0, requests = _i ? 1 : 2;

    handover.ird = _i ? 0 : 1;
    open_raw(&shape, &handover);
    target = region_new(a, 64, ATOMIC);
    request.stag = target.keys.rkey;
    request.to = (uintptr_t)target.octets;
    for (uint32_t msn = 1; msn <= requests; msn++) {
        uint32_t length = put_request(ulpdu, msn, 0, &request);

        used += put_fpdu(octets + used, ulpdu, length, true);
    }
    raw_octets(&raw, octets, used);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, TERMINATE_U_MSN);
    expect_terminate(TERMINATE_U_MSN, ulpdu, DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN);
}
END_TEST

/* Reserved bits are ignored, and so is the compare field of an addition. Only the bits of the
 * operation code count. */
START_TEST(C129_reserved_bits)
{
    const struct rdmap_atomic_req request = {
        .id = 0xfedcba98, .stag = 0, .data = 1, .compare = 0x1234, .compare_mask = 0x5678
    };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64];

    open_raw(&shape, &plain);
    target = region_new(a, 64, ATOMIC);
    set_word(&target, 1, 41);
    put_request(ulpdu, 1, 0, &request);
    memset(ulpdu + 2, 0xff, 4); /* C-069 */
    memset(ulpdu + DDP_UNTAGGED_LEN, 0xff, 3);
    ulpdu[DDP_UNTAGGED_LEN + 3] = 0xf0;
    be_put32(ulpdu + 26, target.keys.rkey);
    be_put64(ulpdu + 30, (uintptr_t)target.octets + 8);
    raw_send(&raw, ulpdu, DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN);
    expect_response(1, 0xfedcba98, 41);
    ck_assert_uint_eq(word(&target, 1), 42);
}
END_TEST

/* Alignment applies to the consumer's memory, not to the offset: a zero-based region begins off an
 * 8-octet boundary. */
START_TEST(C136_alignment_is_of_the_address)
{
    struct rdmap_atomic_req request = { .id = 1, .data = 1 };
    struct ri_mr_attr attr = { .size = sizeof(attr),
                               .access = ATOMIC | RI_ACCESS_ZERO_BASED,
                               .length = 32 };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64];
    struct ri_mr_keys keys;
    struct ri_mr *mr;

    open_raw(&shape, &plain);
    target = region_new(a, 64, ATOMIC);
    attr.addr = target.octets + 3;
    ck_assert_int_eq(bed.fake.privileged.mr_register(a->pd, &attr, &keys, &mr), RI_OK);
    request.stag = keys.rkey;
    request.to = 5; /* octet 8 of the memory */
    request_of_peer(1, &request);
    expect_response(1, 1, 0);
    ck_assert_uint_eq(word(&target, 1), 1);
    request.to = 8;
    raw_send(&raw, ulpdu, put_request(ulpdu, 2, 0, &request));
    expect_terminate(TERMINATE_STREAM, ulpdu, DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQ_LEN);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(mr), RI_OK);
}
END_TEST

/* ---- masks ---- */

/* The RFC's definition, bit by bit. */
static uint64_t model_add(uint64_t old, uint64_t add, uint64_t mask)
{
    uint64_t result = 0;
    unsigned carry = 0;

    for (int bit = 0; bit < 64; bit++) {
        unsigned sum = (old >> bit & 1) + (add >> bit & 1) + carry;

        result |= (uint64_t)(sum & 1) << bit;
        carry = mask >> bit & 1 ? 0 : sum >> 1;
    }
    return result;
}

static uint64_t model_swap(uint64_t old, const struct rdmap_atomic_req *request)
{
    for (int bit = 0; bit < 64; bit++)
        if ((request->compare_mask >> bit & 1) && ((request->compare ^ old) >> bit & 1))
            return old;
    for (int bit = 0; bit < 64; bit++)
        if (request->mask >> bit & 1) {
            old &= ~(UINT64_C(1) << bit);
            old |= request->data & UINT64_C(1) << bit;
        }
    return old;
}

START_TEST(C137_masks)
{
    static const uint64_t masks[] = { 0, 1, UINT64_MAX, 0x8000000080000000, 0x8080808080808080, 2 };
    struct tc_rng rng = tc_rng(7);
    uint64_t value = 0x00ff00ff7fffffff;

    open_raw(&shape, &plain);
    target = region_new(a, 8, ATOMIC);
    set_word(&target, 0, value);
    for (uint32_t i = 1; i <= 300; i++) {
        struct rdmap_atomic_req request = {
            .op = i & 1 ? RDMAP_FETCH_ADD : RDMAP_CMP_SWAP,
            .id = (uint32_t)tc_rand(&rng),
            .stag = target.keys.rkey,
            .to = (uintptr_t)target.octets,
            .data = i % 3 ? tc_rand(&rng) : UINT64_MAX,
            .mask = i % 4 < 2 ? masks[tc_below(&rng, 6)] : tc_rand(&rng),
            .compare = i % 5 ? value : tc_rand(&rng),
            .compare_mask = i % 7 ? tc_rand(&rng) : masks[tc_below(&rng, 6)],
        };

        request_of_peer(i, &request);
        expect_response(i, request.id, value);
        value = request.op == RDMAP_FETCH_ADD ? model_add(value, request.data, request.mask)
                                              : model_swap(value, &request);
        ck_assert_uint_eq(word(&target, 0), value);
    }
}
END_TEST

/* ---- revoked between request and response ---- */

/* The response to a large Read keeps the stream busy; the atomic behind it waits. Its target is
 * revoked meanwhile: the memory does not change, and the Terminate is about the Atomic Request. */
START_TEST(C131_revoked_before_it_is_executed)
{
    const uint32_t size = 16u << 20;
    struct rdmap_atomic_req request = { .id = 3, .data = 1 };
    struct rdmap_read_req read = { .sink_stag = 9, .size = size };
    uint8_t payload[RDMAP_READ_REQ_LEN], ulpdu[DDP_UNTAGGED_LEN + 64], expected[128];
    const struct terminate_cause cause = { ulpdu, sizeof(ulpdu), 70, NULL };
    struct region source;
    uint32_t got = 0;

    open_raw_narrow(&shape, &plain);
    source = region_new(a, size, TESTBED_ALL);
    target = region_new(a, 8, ATOMIC);
    read.src_stag = source.keys.rkey;
    read.src_to = (uintptr_t)source.octets;
    rdmap_put_read_req(payload, &read);
    raw_untagged(&raw, RDMAP_READ_REQ, true, DDP_QN_READ, 1, 0, payload, sizeof(payload));
    request.stag = target.keys.rkey;
    request.to = (uintptr_t)target.octets;
    raw_send(&raw, ulpdu, put_request(ulpdu, 2, 0, &request));
    ck_assert(side_idle(a, a->send_cq));
    ck_assert_uint_eq(word(&target, 0), 0);
    ck_assert_int_eq(bed.fake.privileged.mr_deregister(target.mr), RI_OK);
    target.mr = NULL;
    while (got < size) {
        ck_assert(next_frame());
        ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
        got += frame.segment.payload_len;
    }
    ck_assert(next_frame());
    ck_assert_uint_eq(frame.length, terminate_build_ulpdu(expected, TERMINATE_R_STAG, &cause));
    ck_assert_mem_eq(frame.ulpdu, expected, frame.length);
    side_expect_event(a, RI_EVENT_READ_ACCESS, TERMINATE_R_STAG);
    ck_assert_uint_eq(word(&target, 0), 0);
}
END_TEST

/* ---- behind a Read of the same memory ---- */

/* The Read fetches its data before the atomic that follows it in the same read is executed: with
 * CRC, and without, where the answer to the Read refers to the memory. */
START_TEST(S068_a_read_before_it_sees_the_value_before_it)
{
    const uint32_t size = 4096;
    struct ri_llp_handover handover = plain;
    struct rdmap_atomic_req request = { .id = 3, .data = 1 };
    struct rdmap_read_req read = { .sink_stag = 9, .size = size };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 64], octets[256];
    uint32_t used;
    uint64_t seen;

    handover.crc = _i == 0;
    open_raw(&shape, &handover);
    target = region_new(a, size, ATOMIC);
    set_word(&target, size / 8 - 1, 41);
    read.src_stag = request.stag = target.keys.rkey;
    read.src_to = (uintptr_t)target.octets;
    request.to = read.src_to + size - 8;
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(RDMAP_READ_REQ), 0, DDP_QN_READ, 1, 0);
    rdmap_put_read_req(ulpdu + DDP_UNTAGGED_LEN, &read);
    used = put_fpdu(octets, ulpdu, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN, handover.crc);
    used += put_fpdu(octets + used, ulpdu, put_request(ulpdu, 2, 0, &request), handover.crc);
    raw_octets(&raw, octets, used);
    ck_assert(next_frame());
    ck_assert_int_eq(frame.segment.opcode, RDMAP_READ_RESP);
    ck_assert_uint_eq(frame.segment.payload_len, size);
    memcpy(&seen, frame.segment.payload + size - 8, sizeof(seen));
    ck_assert_uint_eq(seen, 41);
    expect_response(1, 3, 41);
    ck_assert_uint_eq(word(&target, size / 8 - 1), 42);
}
END_TEST

/* ---- vectors ---- */

/* Exchanges with Atomic Requests. Sends what the vector's initiator sends, with ital's STag and
 * address in it, and expects the responder's octets. Offsets: WIRE-2 2.4. */
static void play(const struct vectors *v, const char *exchange)
{
    uint64_t first = 0;
    bool seen = false;

    for (size_t i = 0; i < v->n_frames; i++) {
        const struct vec_frame *f = &v->frames[i];
        const uint32_t at =
            f->kind == VEC_FPDU && vec_need(&f->fields, "opcode") == RDMAP_ATOMIC_REQ ? 26 : 34;
        uint8_t ulpdu[128];

        if (strcmp(f->exchange, exchange) || f->kind != VEC_FPDU)
            continue;
        ck_assert_uint_le(f->ulpdu.len, sizeof(ulpdu));
        memcpy(ulpdu, f->ulpdu.p, f->ulpdu.len);
        if (f->dir == 'R') {
            ck_assert(next_frame());
            ck_assert_uint_eq(frame.length, f->ulpdu.len);
            ck_assert_mem_eq(frame.ulpdu, ulpdu, frame.length);
            continue;
        }
        if (!seen)
            first = be_get64(ulpdu + at + 4) & ~UINT64_C(7);
        seen = true;
        be_put32(ulpdu + at, target.keys.rkey);
        be_put64(ulpdu + at + 4, be_get64(ulpdu + at + 4) - first + (uintptr_t)target.octets);
        raw_send(&raw, ulpdu, (uint32_t)f->ulpdu.len);
    }
    ck_assert(seen);
}

START_TEST(S068_C136_vectors_of_exchanges)
{
    static const char *const exchanges[] = { "V-25", "V-26" };
    const struct vectors *v = tc_vectors();

    open_raw(&shape, &plain);
    target = region_new(a, 64, ATOMIC);
    set_word(&target, 0, _i ? 0 : 0x1122334455667788);
    play(v, exchanges[_i]);
    ck_assert_uint_eq(word(&target, 0), _i ? 0 : 0xaabbccddeeff0099);
}
END_TEST

/* Refused segments with opcodes A and B: the Terminate of the vector. */
START_TEST(C127_to_C141_vectors)
{
    const struct vectors *v = tc_vectors();
    int seen = 0;

    for (size_t i = 0; i < v->n_negatives; i++) {
        const struct vec_segments *s = &v->negatives[i];
        uint64_t stag, id;
        struct region own, other, writable;
        uint8_t ulpdu[128], opcode;

        if (s->accept || s->ulpdus[s->n - 1].len < DDP_UNTAGGED_LEN)
            continue;
        opcode = s->ulpdus[s->n - 1].p[1] & RDMAP_CTRL_OP;
        if (opcode != RDMAP_ATOMIC_REQ && opcode != RDMAP_ATOMIC_RESP)
            continue;
        seen++;
        ck_assert_uint_eq(s->n, 1);
        memcpy(ulpdu, s->ulpdus[0].p, s->ulpdus[0].len);
        open_raw(&shape, &plain);
        side_open(&bed, b, NULL);
        own = region_new(a, 4096, ATOMIC);
        writable = region_new(a, 4096, RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE);
        other = region_new(b, 4096, ATOMIC);
        if (opcode == RDMAP_ATOMIC_REQ) {
            const struct region *region;

            stag = be_get32(ulpdu + 26);
            region = stag == 0x10545 ? &own : stag == 0x10343 ? &other : &writable;
            if (stag && region != &writable)
                be_put32(ulpdu + 26, region->keys.rkey);
            if (stag == 0x10141)
                be_put32(ulpdu + 26, writable.keys.rkey);
            if (be_get64(ulpdu + 30) < UINT32_MAX)
                be_put64(ulpdu + 30, (be_get64(ulpdu + 30) & 0xffff) + (uintptr_t)region->octets);
        } else if (s->setup[0]) { /* one outstanding; its identifier in the vector is 9 */
            fetch_add(a, 1, region_sge(&own, 0, 8), &own, 0, 1);
            id = expect_request(1).id;
            be_put32(ulpdu + 18, (uint32_t)(id + be_get32(ulpdu + 18) - 9));
        }
        raw_send(&raw, ulpdu, (uint32_t)s->ulpdus[0].len);
        ck_assert(next_frame());
        ck_assert_msg(frame.length == s->terminate_ulpdu.len &&
                          !memcmp(frame.ulpdu, s->terminate_ulpdu.p, frame.length),
                      "%s", s->id);
        for (int k = 0; k < 4096; k++)
            ck_assert(!own.octets[k] && !other.octets[k] && !writable.octets[k]);
        raw_wait_end(&raw);
        region_free(a, &own);
        region_free(a, &writable);
        region_free(b, &other);
        raw_close(&raw);
        side_close(a);
        side_close(b);
        memset(a, 0, sizeof(*a));
        memset(b, 0, sizeof(*b));
    }
    ck_assert_int_ge(seen, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma atomics of the peer");
    TCase *tc = new_case(suite, "responder", bed_open, bed_close);

    tcase_add_loop_test(tc, C127_C128_C130_C131_C132_C133_C134_C135_C136_bad_requests, 0,
                        ARRAY_SIZE(bad_requests));
    tc_add_loops(tc, 0, 2, C062_not_enabled, C128_ird);
    tc_add_tests(tc, C129_reserved_bits, C136_alignment_is_of_the_address, C137_masks,
                 C131_revoked_before_it_is_executed);
    tcase_add_loop_test(tc, S068_a_read_before_it_sees_the_value_before_it, 0, 2);
    tc = new_case(suite, "vectors", bed_open, bed_close);
    tcase_add_loop_test(tc, S068_C136_vectors_of_exchanges, 0, 2);
    tcase_add_test(tc, C127_to_C141_vectors);
    return tc_main(suite);
}

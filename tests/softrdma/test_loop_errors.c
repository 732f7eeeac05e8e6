/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalid messages of a peer, and a CQ that is not polled: the exact Terminate, one event, no
 * change of memory. */
#include "loop.h"

#include "base/compiler.h"
#include "base/crc32c.h"
#include "providers/software/iwarp/codec/mpa.h"

/* ---- by the peer's messages ---- */

static struct region target; /* of a, 64 octets */

/* Writes: STag, TO relative to the region's, octets. */
static const struct {
    const char *what;
    enum { OWN, WRONG_KEY, ZERO, OTHER_PD, LOCAL_ONLY, READ_ONLY, DEREGISTERED } stag;
    uint64_t to;
    bool absolute, disabled;
    uint32_t length;
    uint16_t value;
} bad_writes[] = {

    { "C-082 STag 0", ZERO, 0, false, false, 8, TERMINATE_T_STAG },
    { "C-084 key", WRONG_KEY, 0, false, false, 8, TERMINATE_T_STAG },
    { "C-085 deregistered", DEREGISTERED, 0, false, false, 8, TERMINATE_T_STAG },
    { "C-086 PD", OTHER_PD, 0, false, false, 8, TERMINATE_T_STREAM },
    { "C-088 no remote right", LOCAL_ONLY, 0, false, false, 8, TERMINATE_T_STREAM },
    { "C-088 remote read only", READ_ONLY, 0, false, false, 8, TERMINATE_T_STREAM },
    { "C-089 QP", OWN, 0, false, true, 8, TERMINATE_T_STREAM },
    { "C-090 wrap", OWN, UINT64_MAX - 3, true, false, 8, TERMINATE_T_WRAP },
    { "C-091 before", OWN, (uint64_t)-1, false, false, 8, TERMINATE_T_BOUNDS },
    { "C-092 behind", OWN, 57, false, false, 8, TERMINATE_T_BOUNDS },
    { "C-092 behind by far", OWN, 1 << 30, false, false, 1, TERMINATE_T_BOUNDS },
};

START_TEST(bad_write)
{
    const struct shape shape = { .no_write = bad_writes[_i].disabled };
    struct terminate_info info;
    struct region other, own;
    uint8_t ulpdu[128], header[DDP_TAGGED_LEN];
    uint32_t stag = 0;
    uint64_t to = bad_writes[_i].to;

    open_speaking(&raw, &shape, &plain);
    side_open(&bed, b, NULL);
    target = region_new(a, 64,
                        bad_writes[_i].stag == LOCAL_ONLY ? RI_ACCESS_LOCAL_WRITE
                        : bad_writes[_i].stag == READ_ONLY
                            ? RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ
                            : TESTBED_ALL);
    own = target;
    other = region_new(b, 64, TESTBED_ALL);
    stag = target.keys.lkey;
    if (bad_writes[_i].stag == WRONG_KEY)
        stag ^= 1;
    if (bad_writes[_i].stag == ZERO)
        stag = 0;
    if (bad_writes[_i].stag == OTHER_PD) {
        stag = other.keys.rkey;
        own = other;
    }
    if (bad_writes[_i].stag == DEREGISTERED) {
        ck_assert_int_eq(bed.fake.privileged.mr_deregister(target.mr), RI_OK);
        target.mr = NULL;
    }
    if (!bad_writes[_i].absolute)
        to += (uintptr_t)own.octets;
    raw_tagged(&raw, RDMAP_WRITE, true, stag, to, "12345678", bad_writes[_i].length);
    info = expect_terminate(&raw, bad_writes[_i].value, ulpdu);
    side_expect_event(a, RI_EVENT_WRITE_ACCESS, bad_writes[_i].value);
    ddp_put_tagged(header, true, rdmap_ctrl(RDMAP_WRITE), stag, to); /* S-058, S-060 */
    ck_assert(info.has_len && info.ddp_hdr && !info.rdma_hdr);
    ck_assert_uint_eq(info.ddp_segment_len, DDP_TAGGED_LEN + bad_writes[_i].length);
    ck_assert_uint_eq(info.ddp_hdr_len, sizeof(header));
    ck_assert_mem_eq(info.ddp_hdr, header, sizeof(header));
    for (int i = 0; i < 64; i++)
        ck_assert(!target.octets[i] && !other.octets[i]);
    ck_assert_uint_eq(side_query(a).terminate_sent, bad_writes[_i].value);
}
END_TEST

static const struct {
    const char *what;
    enum { R_OWN, R_WRONG_KEY, R_ZERO, R_OTHER_PD, R_NO_RIGHT } stag;
    uint64_t to;
    bool absolute, disabled;
    uint32_t size;
    uint16_t value;
    enum ri_event_type event;
} bad_reads[] = {

    { "C-110 key", R_WRONG_KEY, 0, false, false, 8, TERMINATE_R_STAG, RI_EVENT_READ_ACCESS },
    { "C-110 STag 0", R_ZERO, 0, false, false, 8, TERMINATE_R_STAG, RI_EVENT_READ_ACCESS },
    { "C-111 PD", R_OTHER_PD, 0, false, false, 8, TERMINATE_R_STREAM, RI_EVENT_READ_ACCESS },
    { "C-112 right", R_NO_RIGHT, 0, false, false, 8, TERMINATE_R_ACCESS, RI_EVENT_READ_ACCESS },
    { "C-113 wrap", R_OWN, UINT64_MAX, true, false, 2, TERMINATE_R_WRAP, RI_EVENT_READ_ACCESS },
    { "C-114 before", R_OWN, (uint64_t)-1, false, false, 1, TERMINATE_R_BOUNDS,
      RI_EVENT_READ_ACCESS },
    { "C-114 behind", R_OWN, 1, false, false, 64, TERMINATE_R_BOUNDS, RI_EVENT_READ_ACCESS },
    { "C-108 QP", R_OWN, 0, false, true, 8, TERMINATE_U_QN, RI_EVENT_READ_ACCESS },
};

START_TEST(bad_read)
{
    const struct shape shape = { .no_read = bad_reads[_i].disabled };
    struct rdmap_read_req request = { .sink_stag = 0x11223344,
                                      .sink_to = 0x99,
                                      .size = bad_reads[_i].size };
    uint8_t payload[RDMAP_READ_REQ_LEN], ulpdu[128];
    struct terminate_info info;
    struct region other;

    open_speaking(&raw, &shape, &plain);
    side_open(&bed, b, NULL);
    target = region_new(a, 64,
                        bad_reads[_i].stag == R_NO_RIGHT
                            ? RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_WRITE
                            : TESTBED_ALL);
    other = region_new(b, 64, TESTBED_ALL);
    request.src_stag = target.keys.lkey ^ (bad_reads[_i].stag == R_WRONG_KEY);
    request.src_to = bad_reads[_i].to;
    if (bad_reads[_i].stag == R_ZERO)
        request.src_stag = 0;
    if (bad_reads[_i].stag == R_OTHER_PD)
        request.src_stag = other.keys.rkey;
    if (!bad_reads[_i].absolute)
        request.src_to += (uintptr_t)(bad_reads[_i].stag == R_OTHER_PD ? other.octets
                                                                       : target.octets);
    rdmap_put_read_req(payload, &request);
    raw_untagged(&raw, RDMAP_READ_REQ, true, DDP_QN_READ, 1, 0, payload, sizeof(payload));
    info = expect_terminate(&raw, bad_reads[_i].value, ulpdu);
    side_expect_event(a, bad_reads[_i].event, bad_reads[_i].value);
    if (!bad_reads[_i].disabled) {
        ck_assert_uint_eq(info.ddp_segment_len, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
        ck_assert_uint_eq(info.rdma_hdr_len, sizeof(payload));
        ck_assert_mem_eq(info.rdma_hdr, payload, sizeof(payload));
    }
}
END_TEST

/* Invalid untagged segments. If `receive` says so, one receive of 16 octets is posted. */
static const struct {
    const char *what;
    uint8_t opcode;
    bool last, receive;
    uint32_t qn, msn, mo, length;
    uint16_t value;
    enum ri_event_type event;
    enum ri_wc_status status; /* of the receive */
} bad_untagged[] = {

    { "C-072 no receive", RDMAP_SEND, true, false, 0, 1, 0, 4, TERMINATE_U_NOBUF,
      RI_EVENT_NO_RECEIVE, 0 },
    { "C-070 old MSN", RDMAP_SEND, true, true, 0, 0, 0, 4, TERMINATE_U_MSN,
      RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-071 gap", RDMAP_SEND, true, true, 0, 2, 0, 4, TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION,
      RI_WC_FLUSHED },
    { "C-074 MO", RDMAP_SEND, true, true, 0, 1, 4, 4, TERMINATE_U_MO, RI_EVENT_RECV_LENGTH,
      RI_WC_LOCAL_LENGTH },
    { "C-073 MO behind", RDMAP_SEND, true, true, 0, 1, 17, 4, TERMINATE_U_MO, RI_EVENT_RECV_LENGTH,
      RI_WC_LOCAL_LENGTH },
    { "C-075 too long", RDMAP_SEND, true, true, 0, 1, 0, 17, TERMINATE_U_LONG, RI_EVENT_RECV_LENGTH,
      RI_WC_LOCAL_LENGTH },
    { "C-067 queue", RDMAP_SEND, true, true, 4, 1, 0, 4, TERMINATE_U_QN, RI_EVENT_REMOTE_OPERATION,
      RI_WC_FLUSHED },
    { "C-062 opcode", 0xC, true, true, 0, 1, 0, 4, TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE,
      RI_WC_FLUSHED },
    { "C-062 atomics", RDMAP_ATOMIC_REQ, true, true, 1, 1, 0, 52, TERMINATE_OPCODE,
      RI_EVENT_BAD_OPCODE, RI_WC_FLUSHED },
    { "C-104 short", RDMAP_READ_REQ, true, true, 1, 1, 0, 27, TERMINATE_DDP_LOCAL,
      RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-104 long", RDMAP_READ_REQ, true, true, 1, 1, 0, 29, TERMINATE_U_LONG,
      RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-105 MO", RDMAP_READ_REQ, true, true, 1, 1, 1, 28, TERMINATE_U_MO,
      RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
    { "C-106 MSN", RDMAP_READ_REQ, true, true, 1, 2, 0, 28, TERMINATE_U_MSN,
      RI_EVENT_REMOTE_OPERATION, RI_WC_FLUSHED },
};

START_TEST(bad_segment)
{
    uint8_t payload[64] = { 0 }, ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, 16, TESTBED_ALL);
    if (bad_untagged[_i].receive)
        side_receive(a, 1, region_sge(&target, 0, 16));
    raw_untagged(&raw, bad_untagged[_i].opcode, bad_untagged[_i].last, bad_untagged[_i].qn,
                 bad_untagged[_i].msn, bad_untagged[_i].mo, payload, bad_untagged[_i].length);
    expect_terminate(&raw, bad_untagged[_i].value, ulpdu);
    side_expect_event(a, bad_untagged[_i].event, bad_untagged[_i].value);
    if (bad_untagged[_i].receive)
        side_expect(a, a->recv_cq, 1, bad_untagged[_i].status, 0);
}
END_TEST

/* C-119, C-120, C-121: the Terminate has the first error of the STag. */
START_TEST(C119_send_with_invalidate)
{
    static const uint16_t values[] = { TERMINATE_R_STAG, TERMINATE_R_INVALIDATE,
                                       TERMINATE_R_ACCESS };
    uint8_t segment[DDP_UNTAGGED_LEN + 4], ulpdu[128];
    struct region other;
    uint32_t stag;

    open_speaking(&raw, NULL, &plain);
    side_open(&bed, b, NULL);
    target = region_new(a, 16, TESTBED_ALL);
    other = region_new(b, 16, TESTBED_ALL);
    side_receive(a, 1, region_sge(&target, 0, 16));
    stag = _i == 0 ? target.keys.rkey ^ 1 : _i == 1 ? other.keys.rkey : target.keys.rkey;
    ddp_put_untagged(segment, true, rdmap_ctrl(RDMAP_SEND_INV), stag, DDP_QN_SEND, 1, 0);
    memcpy(segment + DDP_UNTAGGED_LEN, "data", 4);
    raw_send(&raw, segment, sizeof(segment));
    expect_terminate(&raw, values[_i], ulpdu);
    side_expect_event(a, RI_EVENT_INVALIDATE_ACCESS, values[_i]);
    side_expect(a, a->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
}
END_TEST

/* C-077: a receive whose memory is not usable is a local error, not the peer's. */
START_TEST(C077_bad_receive)
{
    uint8_t ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, 16, RI_ACCESS_LOCAL_READ);
    side_receive(a, 1, region_sge(&target, 0, 16));
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "data", 4);
    expect_terminate(&raw, TERMINATE_LOCAL, ulpdu);
    side_expect_event(a, RI_EVENT_RECV_ACCESS, 0);
    side_expect(a, a->recv_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_eq(target.octets[0], 0);
}
END_TEST

/* Versions in the first two octets of the ULPDU. */
static const struct {
    uint8_t ddp, rdmap;
    uint16_t value;
} bad_versions[] = {

    { DDP_CTRL_T | DDP_CTRL_L | 0, RDMAP_VERSION << 6 | RDMAP_WRITE, TERMINATE_T_DV },
    { DDP_CTRL_T | DDP_CTRL_L | 2, RDMAP_VERSION << 6 | RDMAP_WRITE, TERMINATE_T_DV },
    { DDP_CTRL_L | 0, RDMAP_VERSION << 6 | RDMAP_SEND, TERMINATE_U_DV },
    { DDP_CTRL_L | 3, RDMAP_VERSION << 6 | RDMAP_SEND, TERMINATE_U_DV },
    { DDP_CTRL_L | DDP_VERSION, 0 << 6 | RDMAP_SEND, TERMINATE_RV },
    { DDP_CTRL_T | DDP_CTRL_L | DDP_VERSION, 3 << 6 | RDMAP_WRITE, TERMINATE_RV },
};

START_TEST(C058_versions)
{
    uint8_t segment[DDP_HDR_MAX] = { bad_versions[_i].ddp, bad_versions[_i].rdmap }, ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    raw_send(&raw, segment, segment[0] & DDP_CTRL_T ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
    expect_terminate(&raw, bad_versions[_i].value, ulpdu);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, bad_versions[_i].value);
}
END_TEST

/* C-107: IRD 1, two requests in one write. */
START_TEST(C107_ird)
{
    struct ri_llp_handover handover = plain;
    uint8_t two[2 * (MPA_HDR_LEN + DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN + MPA_TRAILER_MAX)],
        ulpdu[128];
    struct rdmap_read_req request = { .size = 64 };
    uint32_t used = 0, length;
    struct rdmap_segment segment;

    handover.ird = 1;
    open_speaking(&raw, NULL, &handover);
    target = region_new(a, 64, TESTBED_ALL);
    request.src_stag = target.keys.rkey;
    request.src_to = (uintptr_t)target.octets;
    for (uint32_t msn = 1; msn < 3; msn++) {
        uint8_t *fpdu = two + used;

        mpa_put_len(fpdu, DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
        ddp_put_untagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_READ_REQ), 0, DDP_QN_READ, msn,
                         0);
        rdmap_put_read_req(fpdu + MPA_HDR_LEN + DDP_UNTAGGED_LEN, &request);
        length = MPA_HDR_LEN + DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN;
        used += length +
                mpa_put_trailer(fpdu + length, length - MPA_HDR_LEN, crc32c(0, fpdu, length), true);
    }
    raw_octets(&raw, two, used);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, TERMINATE_U_MSN);
    do { /* the first may have been answered */
        length = raw_next(&raw, ulpdu, sizeof(ulpdu));
        ck_assert_uint_gt(length, 0);
        ck_assert_int_eq(rdmap_check(ulpdu, length, 0, &segment), RDMAP_OK);
    } while (segment.opcode == RDMAP_READ_RESP);
    ck_assert_int_eq(segment.opcode, RDMAP_TERMINATE);
    ck_assert_uint_eq(be_get16(segment.payload), TERMINATE_U_MSN);
}
END_TEST

/* ---- invalid responses ---- */

static const struct {
    const char *what;
    uint32_t stag_change, to_change, length;
    bool last;
    uint16_t value;
    enum ri_wc_status status;
} bad_responses[] = {

    { "C-096", 1, 0, 8, true, TERMINATE_T_STAG, RI_WC_BAD_RESPONSE },
    { "C-097", 0, 1, 8, true, TERMINATE_T_BOUNDS, RI_WC_BAD_RESPONSE },
    { "C-098", 0, 0, 33, false, TERMINATE_T_BOUNDS, RI_WC_LOCAL_LENGTH },
    { "C-099", 0, 0, 31, true, TERMINATE_STREAM, RI_WC_LOCAL_LENGTH },
};

START_TEST(bad_response)
{
    struct rdmap_read_req request;
    struct region sink;
    uint8_t ulpdu[128], data[64];

    memset(data, 0xee, sizeof(data));
    open_speaking(&raw, NULL, &plain);
    sink = region_new(a, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 32), 0, 0x100);
    ck_assert_uint_eq(raw_next(&raw, ulpdu, sizeof(ulpdu)), DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN);
    rdmap_get_read_req(ulpdu + DDP_UNTAGGED_LEN, &request);
    raw_tagged(&raw, RDMAP_READ_RESP, bad_responses[_i].last,
               request.sink_stag ^ bad_responses[_i].stag_change,
               request.sink_to + bad_responses[_i].to_change, data, bad_responses[_i].length);
    expect_terminate(&raw, bad_responses[_i].value, ulpdu);
    side_expect_event(a, RI_EVENT_RESPONSE_ERROR, bad_responses[_i].value);
    side_expect(a, a->send_cq, 1, bad_responses[_i].status, 0);
    ck_assert_uint_eq(sink.octets[0], 0);
    ck_assert_uint_eq(sink.octets[32], 0);
}
END_TEST

/* C-095: a response without a request. */
START_TEST(C095_unasked_response)
{
    uint8_t ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, 64, TESTBED_ALL);
    raw_tagged(&raw, RDMAP_READ_RESP, true, target.keys.rkey, (uintptr_t)target.octets, "data", 4);
    expect_terminate(&raw, TERMINATE_OPCODE, ulpdu);
    side_expect_event(a, RI_EVENT_BAD_OPCODE, TERMINATE_OPCODE);
    ck_assert_uint_eq(target.octets[0], 0);
}
END_TEST

/* ---- integrity ---- */

/* C-050: one bit error anywhere in the FPDU. Neither a tagged nor an untagged FPDU reaches memory,
 * also if the error is in the length. */
START_TEST(C050_bad_crc)
{
    const bool tagged = _i & 1;
    const uint32_t header = tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN, size = 40;
    static const uint32_t bits[] = { 8 * 2, 8 * 4 + 3, 8 * 25, 8 * 50 + 7, 8 * 59 };
    uint8_t fpdu[128], ulpdu[128];
    uint32_t length = MPA_HDR_LEN + header + size, bit = bits[_i / 2];

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, 64, TESTBED_ALL);
    side_receive(a, 1, region_sge(&target, 0, 64));
    mpa_put_len(fpdu, header + size);
    if (tagged)
        ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), target.keys.rkey,
                       (uintptr_t)target.octets);
    else
        ddp_put_untagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_SEND), 0, DDP_QN_SEND, 1, 0);
    memset(fpdu + MPA_HDR_LEN + header, 0x77, size);
    length += mpa_put_trailer(fpdu + length, header + size, crc32c(0, fpdu, length), true);
    ck_assert_uint_lt(bit / 8, length);
    fpdu[bit / 8] ^= (uint8_t)(1u << bit % 8);
    raw_octets(&raw, fpdu, length);
    expect_terminate(&raw, TERMINATE_CRC, ulpdu);
    side_expect_event(a, RI_EVENT_INTEGRITY, TERMINATE_CRC);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(target.octets[i], 0);
}
END_TEST

/* An FPDU of a Write into the region, at its offset `at`. */
static uint32_t put_write(uint8_t *fpdu, const struct region *region, uint32_t at, uint32_t size)
{
    uint32_t length = MPA_HDR_LEN + DDP_TAGGED_LEN + size;

    mpa_put_len(fpdu, DDP_TAGGED_LEN + size);
    ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), region->keys.rkey,
                   (uintptr_t)region->octets + at);
    memset(fpdu + MPA_HDR_LEN + DDP_TAGGED_LEN, 0x77, size);
    return length +
           mpa_put_trailer(fpdu + length, DDP_TAGGED_LEN + size, crc32c(0, fpdu, length), true);
}

/* A long Write whose last octet is wrong, behind a good one in the same read: no octet of it
 * reaches memory, whether it comes at once or in two parts. */
START_TEST(C050_no_octet_of_a_long_write_before_its_sum)
{
    enum { GOOD = 20000, BAD = 30000 };
    static uint8_t octets[GOOD + BAD + 256];
    uint8_t ulpdu[128];
    uint32_t first, used;

    open_speaking(&raw, NULL, &plain);
    target = region_new(a, GOOD + BAD, TESTBED_ALL);
    first = put_write(octets, &target, 0, GOOD);
    used = first + put_write(octets + first, &target, GOOD, BAD);
    octets[used - MPA_CRC_LEN - 1 - mpa_pad(DDP_TAGGED_LEN + BAD)] ^= 1;
    if (_i) {
        raw_octets(&raw, octets, first + BAD / 2);
        ck_assert(side_idle(a, a->send_cq));
        first += BAD / 2;
    } else {
        first = 0;
    }
    raw_octets(&raw, octets + first, used - first);
    expect_terminate(&raw, TERMINATE_CRC, ulpdu);
    side_expect_event(a, RI_EVENT_INTEGRITY, TERMINATE_CRC);
    for (uint32_t i = 0; i < GOOD + BAD; i++)
        ck_assert_uint_eq(target.octets[i], i < GOOD ? 0x77 : 0);
}
END_TEST

/* C-055: too short for the control octets. */
START_TEST(C055_tiny_fpdu)
{
    uint8_t nothing[2] = { 0 }, ulpdu[128], rest[128];
    uint32_t length;

    open_speaking(&raw, NULL, &plain);
    raw_send(&raw, nothing, (uint32_t)_i);
    length = raw_next(&raw, ulpdu, sizeof(ulpdu));
    ck_assert_uint_gt(length, DDP_UNTAGGED_LEN);
    ck_assert_int_eq(ulpdu[1] & RDMAP_CTRL_OP, RDMAP_TERMINATE);
    ck_assert_uint_eq(be_get16(ulpdu + DDP_UNTAGGED_LEN), mpa_terminate_value(MPA_ERR_LENGTH));
    ck_assert_uint_eq(raw_next(&raw, rest, sizeof(rest)), 0);
    side_expect_event(a, RI_EVENT_INTEGRITY, mpa_terminate_value(MPA_ERR_LENGTH));
}
END_TEST

/* ---- overflow ---- */

/* A CQ of two entries that is not polled. The overflow is reported once per CQ and once per QP,
 * which ends. Earlier successes are there, in order; the requests behind them are flushed. */
START_TEST(X021_cq_overflow)
{
    const struct shape shape = { .cqe = 2 };
    uint64_t next = 0;
    bool flushed = false;

    open_speaking(&raw, &shape, &plain);
    for (uint64_t i = 0; i < 6; i++)
        ck_assert_int_eq(side_post(a, RI_WR_SEND, i, RI_WR_SIGNALED, NULL, 0, 0, 0), RI_OK);
    side_expect_event(a, RI_EVENT_QP_OVERFLOW, TERMINATE_STREAM);
    ck_assert_uint_eq(atomic_load(&a->send_events.cq_errors), 1);
    ck_assert_uint_eq(atomic_load(&a->recv_events.cq_errors), 0);
    for (; next < 6; next++) {
        struct ri_wc wc = side_next(a, a->send_cq);

        ck_assert_uint_eq(wc.cookie, next);
        ck_assert(wc.status == RI_WC_FLUSHED || (wc.status == RI_WC_SUCCESS && !flushed));
        flushed = wc.status == RI_WC_FLUSHED;
        ck_assert(next > 1 || !flushed);
    }
    ck_assert(side_idle(a, a->send_cq));
    raw_wait_end(&raw);
    ck_assert(!raw.reset);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma errors");
    TCase *tc = new_case(suite, "by errors", bed_open, bed_close);

    tcase_add_loop_test(tc, bad_write, 0, ARRAY_SIZE(bad_writes));
    tcase_add_loop_test(tc, bad_read, 0, ARRAY_SIZE(bad_reads));
    tcase_add_loop_test(tc, bad_segment, 0, ARRAY_SIZE(bad_untagged));
    tcase_add_loop_test(tc, C119_send_with_invalidate, 0, 3);
    tcase_add_test(tc, C077_bad_receive);
    tcase_add_loop_test(tc, C058_versions, 0, ARRAY_SIZE(bad_versions));
    tcase_add_test(tc, C107_ird);
    tcase_add_loop_test(tc, bad_response, 0, ARRAY_SIZE(bad_responses));
    tcase_add_test(tc, C095_unasked_response);
    tcase_add_loop_test(tc, C050_bad_crc, 0, 10);
    tc_add_loops(tc, 0, 2, C050_no_octet_of_a_long_write_before_its_sum, C055_tiny_fpdu);
    tcase_add_test(tc, X021_cq_overflow);
    return tc_main(suite);
}

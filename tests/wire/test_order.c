/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The QP checks the rows in the order of the table: a segment that violates two is refused by the
 * first. Tested for each pair of neighbours that one segment can violate, and for some distant
 * pairs.
 */
#include "peer.h"

#include "base/compiler.h"

#define SEND (C_RV | OP_SEND)
#define LAST (C_LAST | C_DV)
#define TAG  (C_TAGGED | C_LAST | C_DV)
#define ASK  (UNTAGGED_LEN + READ_LEN)

static const struct connection bare = { .no_receives = true }, no_write = { .no_write = true },
                               no_read = { .no_read = true };
static uint8_t ulpdu[1024], frame[FPDU_ROOM];
static struct region foreign; /* in another PD, local rights only */

static void setup(void)
{
    wire_setup();
    foreign = region_new(wire.other, REGION_LEN, RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE);
    memset(foreign.octets, PATTERN, REGION_LEN);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < REGION_LEN; i++)
        ck_assert_uint_eq(foreign.octets[i], PATTERN);
    region_free(wire.other, &foreign);
    wire_teardown();
}

/* ---- stage 4 ---- */

/* An FPDU without room for control octets and with a wrong CRC; and a CRC error in each segment
 * that would be refused otherwise. */
START_TEST(C050_X027_before_C055_and_all_others)
{
    uint32_t length;
    size_t octets;

    wire_open(NULL);
    length = _i < 2 ? (uint32_t)_i : put_tagged(ulpdu, 0xff, 0xff, 0, 0, "data", 4);
    octets = peer_frame(frame, ulpdu, length);
    frame[octets - 1] ^= 1;
    wire_refused_octets(frame, octets, 0x2002, RI_EVENT_INTEGRITY, NULL, 0);
    wire_flushed(1);
}
END_TEST

START_TEST(C055_before_C058)
{
    const uint8_t version = 0;

    wire_open(NULL);
    wire_refused(&version, 1, 0x1000, RI_EVENT_INTEGRITY);
    wire_flushed(1);
}
END_TEST

/* ---- stages 5 and 6, without state ---- */

static const struct {
    const char *rows;
    uint8_t ddp, rdmap;
    uint32_t qn, msn, mo, length; /* of the ULPDU; the rest is a Read Request of ENV_R */
    uint16_t value;
    enum ri_event_type event;
} stateless[] = {
    { "C058 C060", C_LAST | 0, 0x80 | OP_SEND, 0, 1, 0, 22, 0x1206, RI_EVENT_REMOTE_OPERATION },
    { "C058 C062", C_LAST | 2, C_RV | 0xf, 0, 1, 0, 22, 0x1206, RI_EVENT_REMOTE_OPERATION },
    { "C058 C063", C_TAGGED | 3, SEND, 0, 1, 0, 22, 0x1104, RI_EVENT_REMOTE_OPERATION },
    { "C058 C064", C_TAGGED | 3, C_RV | OP_WRITE, 0, 1, 0, 13, 0x1104, RI_EVENT_REMOTE_OPERATION },
    { "C058 C065", 3, SEND, 0, 1, 0, 17, 0x1206, RI_EVENT_REMOTE_OPERATION },
    { "C060 C062", LAST, 0xc0 | 0xd, 0, 1, 0, 22, 0x0205, RI_EVENT_REMOTE_OPERATION },
    { "C060 C063", TAG, 0x00 | OP_SEND, 0, 1, 0, 22, 0x0205, RI_EVENT_REMOTE_OPERATION },
    { "C060 C065", LAST, 0x00 | OP_SEND, 0, 1, 0, 17, 0x0205, RI_EVENT_REMOTE_OPERATION },
    { "C062 C064", TAG, C_RV | 0xe, 0, 1, 0, 13, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C062 C065", LAST, C_RV | 0xe, 0, 1, 0, 2, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C063 C064", TAG, SEND, 0, 1, 0, 13, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C063 C065", LAST, C_RV | OP_WRITE, 0, 1, 0, 17, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C063 C067", LAST, C_RV | OP_RESPONSE, 9, 1, 0, 46, 0x0206, RI_EVENT_BAD_OPCODE },
    { "C065 C066", C_DV, C_RV | OP_READ, 1, 1, 0, 17, 0x1000, RI_EVENT_INTEGRITY },
    { "C066 C067", C_DV, C_RV | OP_READ, 9, 1, 0, 46, 0x0207, RI_EVENT_REMOTE_OPERATION },
    { "C066 C068", C_DV, C_RV | OP_READ, 0, 1, 0, 46, 0x0207, RI_EVENT_REMOTE_OPERATION },
    { "C066 C104", C_DV, C_RV | OP_READ, 1, 1, 0, 45, 0x0207, RI_EVENT_REMOTE_OPERATION },
    { "C067 C070", LAST, SEND, 9, 0, 0, 22, 0x1201, RI_EVENT_REMOTE_OPERATION },
    { "C068 C070", LAST, SEND, 1, 0, 0, 22, 0x1201, RI_EVENT_REMOTE_OPERATION },
    { "C068 C071", LAST, SEND, 2, 9, 0, 22, 0x1201, RI_EVENT_REMOTE_OPERATION },
    { "C068 C104", LAST, C_RV | OP_READ, 0, 1, 0, 45, 0x1201, RI_EVENT_REMOTE_OPERATION },
    { "C070 C073", LAST, SEND, 0, 0, 999, 22, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C071 C073", LAST, SEND, 0, 2, 999, 22, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C104 C105", LAST, C_RV | OP_READ, 1, 1, 1, 45, 0x1000, RI_EVENT_REMOTE_OPERATION },
    { "C104 C105", LAST, C_RV | OP_READ, 1, 1, 1, 47, 0x1205, RI_EVENT_REMOTE_OPERATION },
    { "C104 C106", LAST, C_RV | OP_READ, 1, 9, 0, 47, 0x1205, RI_EVENT_REMOTE_OPERATION },
    { "C105 C106", LAST, C_RV | OP_READ, 1, 9, 1, 46, 0x1204, RI_EVENT_REMOTE_OPERATION },
};

START_TEST(C058_to_C071_C104_C105_pairs)
{
    wire_open(NULL);
    put_read(ulpdu, stateless[_i].msn, 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    ulpdu[0] = stateless[_i].ddp;
    ulpdu[1] = stateless[_i].rdmap;
    put32(ulpdu + 6, stateless[_i].qn);
    put32(ulpdu + 14, stateless[_i].mo);
    wire_refused(ulpdu, stateless[_i].length, stateless[_i].value, stateless[_i].event);
    wire_flushed(1);
}
END_TEST

/* ---- stage 6, Sends ---- */

START_TEST(C070_before_C072)
{
    wire_open(&bare);
    wire_refused(ulpdu, put_send(ulpdu, true, 0, 0, "data", 4), 0x1203, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

START_TEST(C072_before_C073_C071)
{
    wire_open(&bare);
    wire_refused(ulpdu, put_send(ulpdu, true, _i ? 9 : 1, 999, "data", 4), 0x1202,
                 RI_EVENT_NO_RECEIVE);
}
END_TEST

/* A second segment of this opcode, offset and length behind four octets of a Send, into 256
 * octets. */
static void second_segment(uint8_t op, uint32_t mo, uint32_t length, uint16_t value,
                           enum ri_wc_status status, enum ri_event_type event)
{
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, "data", 4));
    ck_assert(wire_alive());
    env_restore();
    memset(ulpdu, 'x', sizeof(ulpdu));
    put_untagged(ulpdu, LAST, C_RV | op, 0, 0, 1, mo, NULL, 0);
    wire_refused(ulpdu, UNTAGGED_LEN + length, value, event);
    side_expect(wire.side, wire.side->recv_cq, 1, status, 0);
    wire_flushed(2);
}

START_TEST(C073_C074_before_C075_C076)
{
    const uint8_t op = _i % 2 ? OP_SEND_SE : OP_SEND;

    second_segment(op, _i < 2 ? 257 : 5, 300, 0x1204, RI_WC_LOCAL_LENGTH, RI_EVENT_RECV_LENGTH);
}
END_TEST

START_TEST(C075_before_C076)
{
    second_segment(OP_SEND_SE, 4, 253, 0x1205, RI_WC_LOCAL_LENGTH, RI_EVENT_RECV_LENGTH);
}
END_TEST

/* If unusable memory were checked first, its error would come first. */
START_TEST(C073_C075_C076_before_C077)
{
    const uint32_t mo = (uint32_t[]){ 17, 1, 0, 0 }[_i], length = _i == 2 ? 17 : 4;

    wire_open(&bare);
    side_receive(wire.side, 1, region_sge(&wire.env[ENV_R], 0, 16));
    if (_i == 3)
        peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, NULL, 0));
    ck_assert(wire_alive());
    memset(ulpdu, 'x', sizeof(ulpdu));
    put_untagged(ulpdu, LAST, _i == 3 ? C_RV | OP_SEND_SE : SEND, 0, 0, 1, mo, NULL, 0);
    wire_refused(ulpdu, UNTAGGED_LEN + length,
                 _i == 3   ? 0x0206
                 : _i == 2 ? 0x1205
                           : 0x1204,
                 _i == 3 ? RI_EVENT_BAD_OPCODE : RI_EVENT_RECV_LENGTH);
    side_expect(wire.side, wire.side->recv_cq, 1, _i == 3 ? RI_WC_LOCAL_QP : RI_WC_LOCAL_LENGTH, 0);
}
END_TEST

/* ---- stage 7 ---- */

enum { W_ZERO, W_KEY, W_INDEX, W_OPD, W_OPD_KEY, W_FOREIGN, W_READ_ONLY, W_RIGHT };

static uint32_t stag_of(int kind)
{
    switch (kind) {
    case W_ZERO: return 0;
    case W_KEY: return env_stag(ENV_W) ^ 1;
    case W_INDEX: return env_stag(ENV_W) ^ 0x5a5a5a00;
    case W_OPD: return env_stag(ENV_OPD);
    case W_OPD_KEY: return env_stag(ENV_OPD) ^ 1;
    case W_FOREIGN: return foreign.keys.lkey;
    case W_READ_ONLY: return env_stag(ENV_R);
    default: return env_stag(ENV_W);
    }
}

#define WRAPS  (UINT64_MAX - 1) /* with a length of four octets */
#define BOUNDS 16u              /* outside of all regions except the one addressed from zero */

static const struct {
    const char *rows;
    int stag;
    uint64_t to;
    bool no_write;
    uint16_t value;
    enum ri_event_type event;
} writes[] = {
    { "C082 C090", W_ZERO, WRAPS, false, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C082 C089", W_ZERO, BOUNDS, true, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C083 C090", W_INDEX, WRAPS, false, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C084 C086", W_OPD_KEY, BOUNDS, false, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C084 C089", W_KEY, BOUNDS, true, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C084 C090", W_KEY, WRAPS, false, 0x1100, RI_EVENT_WRITE_ACCESS },
    { "C086 C090", W_OPD, WRAPS, false, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C086 C091", W_OPD, BOUNDS, false, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C086 C088", W_FOREIGN, WRAPS, false, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C088 C090", W_READ_ONLY, WRAPS, false, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C088 C091", W_READ_ONLY, BOUNDS, false, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C088 C089", W_READ_ONLY, WRAPS, true, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C089 C090", W_RIGHT, WRAPS, true, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C089 C091", W_RIGHT, BOUNDS, true, 0x1102, RI_EVENT_WRITE_ACCESS },
    { "C090 C091", W_RIGHT, WRAPS, false, 0x1103, RI_EVENT_WRITE_ACCESS },
};

START_TEST(C082_to_C092_pairs)
{
    wire_open(writes[_i].no_write ? &no_write : NULL);
    put_write(ulpdu, true, stag_of(writes[_i].stag), writes[_i].to, "data", 4);
    wire_refused(ulpdu, TAGGED_LEN + 4, writes[_i].value, writes[_i].event);
    wire_flushed(1);
}
END_TEST

/* ---- stage 8 ---- */

/* No request is outstanding: neither STag nor TO is checked. */
START_TEST(C095_before_C096_and_stage_7)
{
    wire_open(NULL);
    put_response(ulpdu, true, stag_of(_i), _i % 2 ? WRAPS : BOUNDS, "data", 4);
    wire_refused(ulpdu, TAGGED_LEN + 4, 0x0206, RI_EVENT_BAD_OPCODE);
    wire_flushed(1);
}
END_TEST

static const struct {
    const char *rows;
    uint32_t stag_xor, offset, length;
    bool gone;
    uint16_t value;
    enum ri_wc_status status;
} responses[] = {
    { "C096 C097", 1, 1, 4, false, 0x1100, RI_WC_BAD_RESPONSE },
    { "C096 C098", 1, 0, 17, false, 0x1100, RI_WC_BAD_RESPONSE },
    { "C096 C102", 1, 0, 16, true, 0x1100, RI_WC_BAD_RESPONSE },
    { "C097 C098", 0, 1, 17, false, 0x1101, RI_WC_BAD_RESPONSE },
    { "C097 C099", 0, 1, 4, false, 0x1101, RI_WC_BAD_RESPONSE },
    { "C097 C102", 0, 1, 16, true, 0x1101, RI_WC_BAD_RESPONSE },
    { "C098 C102", 0, 0, 17, true, 0x1101, RI_WC_LOCAL_LENGTH },
    { "C099 C102", 0, 0, 15, true, 0x0207, RI_WC_LOCAL_LENGTH },
};

START_TEST(C096_to_C102_pairs)
{
    struct region sink = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    uint8_t request[ASK];

    wire_open(NULL);
    side_read(wire.side, 1, region_sge(&sink, 0, 16), 0x1000, 0x77);
    wire_expect(true, OP_READ, READ_LEN);
    memcpy(request, wire.seen.ulpdu, ASK);
    if (responses[_i].gone) {
        ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(sink.mr), RI_OK);
        sink.mr = NULL;
    }
    memset(ulpdu, 'x', sizeof(ulpdu));
    put_response(ulpdu, true, get32(request + 18) ^ responses[_i].stag_xor,
                 get64(request + 22) + responses[_i].offset, NULL, 0);
    wire_refused(ulpdu, TAGGED_LEN + responses[_i].length, responses[_i].value,
                 RI_EVENT_RESPONSE_ERROR);
    side_expect(wire.side, wire.side->send_cq, 1, responses[_i].status, 0);
    wire_flushed(1);
}
END_TEST

/* ---- stage 9 ---- */

static const struct {
    const char *rows;
    int stag;
    uint64_t to;
    uint32_t msn, size;
    bool no_read;
    uint16_t value;
    enum ri_event_type event;
} reads[] = {
    { "C106 C108", W_RIGHT, 0, 9, 4, true, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C106 C110", W_ZERO, 0, 9, 4, false, 0x1203, RI_EVENT_REMOTE_OPERATION },
    { "C108 C109", W_RIGHT, 0, 1, 0, true, 0x1201, RI_EVENT_READ_ACCESS },
    { "C108 C110", W_ZERO, 0, 1, 4, true, 0x1201, RI_EVENT_READ_ACCESS },
    { "C108 C113", W_RIGHT, WRAPS, 1, 4, true, 0x1201, RI_EVENT_READ_ACCESS },
    { "C110 C111", W_OPD_KEY, BOUNDS, 1, 4, false, 0x0100, RI_EVENT_READ_ACCESS },
    { "C110 C113", W_ZERO, WRAPS, 1, 4, false, 0x0100, RI_EVENT_READ_ACCESS },
    { "C110 C112", W_KEY, WRAPS, 1, 4, false, 0x0100, RI_EVENT_READ_ACCESS },
    { "C111 C112", W_FOREIGN, BOUNDS, 1, 4, false, 0x0103, RI_EVENT_READ_ACCESS },
    { "C111 C113", W_OPD, WRAPS, 1, 4, false, 0x0103, RI_EVENT_READ_ACCESS },
    { "C112 C113", W_RIGHT, WRAPS, 1, 4, false, 0x0102, RI_EVENT_READ_ACCESS },
    { "C112 C114", W_RIGHT, BOUNDS, 1, 4, false, 0x0102, RI_EVENT_READ_ACCESS },
    { "C113 C114", W_READ_ONLY, WRAPS, 1, 4, false, 0x0104, RI_EVENT_READ_ACCESS },
};

/* The peer may write to W_RIGHT but not read it, and may read W_READ_ONLY. */
START_TEST(C106_to_C114_pairs)
{
    wire_open(reads[_i].no_read ? &no_read : NULL);
    put_read(ulpdu, reads[_i].msn, 1, 2, reads[_i].size, stag_of(reads[_i].stag), reads[_i].to);
    wire_refused(ulpdu, ASK, reads[_i].value, reads[_i].event);
    wire_flushed(1);
}
END_TEST

/* The depth is full and the source is not allowed. */
START_TEST(C107_before_C110)
{
    const struct connection one = { .ird = 1 };
    const uint32_t size = 8u << 20;
    struct region big;

    wire_open(&one);
    big = region_new(wire.side, size, TESTBED_ALL);
    peer_ulpdu(ulpdu, put_read(ulpdu, 1, 1, 2, size, big.keys.rkey, (uintptr_t)big.octets));
    wire_refused(ulpdu, put_read(ulpdu, 2, 1, 2, 4, 0, 0), 0x1203, RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: order of checks");
    TCase *tc = tc_case(suite, "first row decides", setup, teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C050_X027_before_C055_and_all_others, 0, 3);
    tcase_add_test(tc, C055_before_C058);
    tcase_add_loop_test(tc, C058_to_C071_C104_C105_pairs, 0, ARRAY_SIZE(stateless));
    tcase_add_test(tc, C070_before_C072);
    tcase_add_loop_test(tc, C072_before_C073_C071, 0, 2);
    tcase_add_loop_test(tc, C073_C074_before_C075_C076, 0, 4);
    tcase_add_test(tc, C075_before_C076);
    tcase_add_loop_test(tc, C073_C075_C076_before_C077, 0, 4);
    tcase_add_loop_test(tc, C082_to_C092_pairs, 0, ARRAY_SIZE(writes));
    tcase_add_loop_test(tc, C095_before_C096_and_stage_7, 0, W_RIGHT + 1);
    tcase_add_loop_test(tc, C096_to_C102_pairs, 0, ARRAY_SIZE(responses));
    tcase_add_loop_test(tc, C106_to_C114_pairs, 0, ARRAY_SIZE(reads));
    tcase_add_test(tc, C107_before_C110);
    return tc_main(suite);
}

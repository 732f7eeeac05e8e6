/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 5: rules for every DDP and RDMAP header (C-058 to C-066), and the queue of an untagged one
 * (C-067 to C-069). */
#include "peer.h"

#define SEND (C_RV | OP_SEND)
#define LAST (C_LAST | C_DV)

static uint8_t ulpdu[512];

static void refuse(uint32_t length, uint16_t value, enum ri_event_type event)
{
    wire_refused(ulpdu, length, value, event);
    wire_flushed(1);
}

/* ---- stage 5 ---- */

static const uint8_t versions[] = { 0, 2, 3 };

START_TEST(C058_ddp_version)
{
    const uint8_t version = versions[_i % 3];
    uint32_t length;

    wire_open(NULL);
    if (_i < 3)
        length = put_untagged(ulpdu, C_LAST | version, SEND, 0, 0, 1, 0, "data", 4);
    else
        length = put_tagged(ulpdu, C_TAGGED | C_LAST | version, C_RV | OP_WRITE, env_stag(ENV_W),
                            wire.base[ENV_W], "data", 4);
    refuse(length, _i < 3 ? 0x1206 : 0x1104, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* Each bit alone, and all: in a Send, a Write and a Read Request. */
START_TEST(C059_ddp_reserved_bits)
{
    const uint8_t bits = (uint8_t[]){ 0x04, 0x08, 0x10, 0x20, 0x3c }[_i];

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_tagged(ulpdu, C_TAGGED | LAST | bits, C_RV | OP_WRITE, env_stag(ENV_W),
                                 wire.base[ENV_W], "write", 5));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST | bits, SEND, 0, 0, 1, 0, "data", 4));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 4);
    ck_assert(env_is(ENV_W, 0, "write", 5) && env_is(ENV_RECV, 0, "data", 4));
    put_read(ulpdu, 1, 1, 2, 3, env_stag(ENV_R), wire.base[ENV_R]);
    ulpdu[0] |= bits;
    peer_ulpdu(ulpdu, UNTAGGED_LEN + READ_LEN);
    wire_expect(true, OP_RESPONSE, 3);
    wire_goes_on(2, 2, 2);
}
END_TEST

START_TEST(C060_rdmap_version)
{
    const uint8_t version = (uint8_t)(versions[_i % 3] << 6);
    uint32_t length;

    wire_open(NULL);
    if (_i < 3)
        length = put_untagged(ulpdu, LAST, version | OP_SEND, 0, 0, 1, 0, "data", 4);
    else
        length = put_tagged(ulpdu, C_TAGGED | LAST, version | OP_WRITE, env_stag(ENV_W),
                            wire.base[ENV_W], "data", 4);
    refuse(length, 0x0205, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

START_TEST(C061_rdmap_reserved_bits)
{
    const uint8_t bits = (uint8_t[]){ 0x10, 0x20, 0x30 }[_i];

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_tagged(ulpdu, C_TAGGED | LAST, C_RV | bits | OP_WRITE, env_stag(ENV_W),
                                 wire.base[ENV_W], "write", 5));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, SEND | bits, 0, 0, 1, 0, "data", 4));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 4);
    ck_assert(env_is(ENV_W, 0, "write", 5) && env_is(ENV_RECV, 0, "data", 4));
    put_read(ulpdu, 1, 1, 2, 3, env_stag(ENV_R), wire.base[ENV_R]);
    ulpdu[1] |= bits;
    peer_ulpdu(ulpdu, UNTAGGED_LEN + READ_LEN);
    wire_expect(true, OP_RESPONSE, 3);
    wire_goes_on(2, 2, 2);
}
END_TEST

START_TEST(C062_opcode)
{
    const uint8_t op = (uint8_t)(C_RV | (0xc + _i % 4));
    uint32_t length;

    wire_open(NULL);
    if (_i < 4)
        length = put_untagged(ulpdu, LAST, op, 0, 0, 1, 0, "data", 4);
    else
        length = put_tagged(ulpdu, C_TAGGED | LAST, op, env_stag(ENV_W), wire.base[ENV_W], "data",
                            4);
    refuse(length, 0x0206, RI_EVENT_BAD_OPCODE);
}
END_TEST

/* For every assigned opcode, the header type that is not its own. */
START_TEST(C063_tagged_or_not)
{
    const uint8_t op = (uint8_t)_i;
    const bool tagged = op == OP_WRITE || op == OP_RESPONSE;
    uint32_t length;

    wire_open(NULL);
    if (tagged)
        length = put_untagged(ulpdu, LAST, C_RV | op, 0, 0, 1, 0, "data", 4);
    else
        length = put_tagged(ulpdu, C_TAGGED | LAST, C_RV | op, env_stag(ENV_W), wire.base[ENV_W],
                            "data", 4);
    refuse(length, 0x0206, RI_EVENT_BAD_OPCODE);
}
END_TEST

/* Thirteen octets and less. The Terminate contains only the octets that came. */
START_TEST(C064_X026_tagged_header_cut)
{
    for (uint32_t length = 2; length < TAGGED_LEN; length++) {
        wire_open(NULL);
        put_tagged(ulpdu, C_TAGGED | LAST, C_RV | (_i ? OP_RESPONSE : OP_WRITE), env_stag(ENV_W),
                   wire.base[ENV_W], NULL, 0);
        refuse(length, 0x1000, RI_EVENT_INTEGRITY);
    }
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_write(ulpdu, true, 1, 2, NULL, 0));
    wire_goes_on(1, 1, 1);
}
END_TEST

START_TEST(C065_X026_untagged_header_cut)
{
    static const uint8_t ops[] = { OP_READ, OP_SEND, OP_SEND_SE };

    for (uint32_t length = 2; length < UNTAGGED_LEN; length++) {
        wire_open(NULL);
        put_untagged(ulpdu, LAST, C_RV | ops[_i], 0, ops[_i] == OP_READ, 1, 0, NULL, 0);
        refuse(length, 0x1000, RI_EVENT_INTEGRITY);
    }
    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, NULL, 0));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 0);
    wire_goes_on(2, 1, 2);
}
END_TEST

START_TEST(C066_read_request_without_last)
{
    uint32_t length;

    wire_open(NULL);
    length = put_read(ulpdu, 1, 1, 2, (uint32_t)_i, env_stag(ENV_R), wire.base[ENV_R]);
    ulpdu[0] &= (uint8_t)~C_LAST;
    refuse(length, 0x0207, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* ---- stage 6: the queue ---- */

static const uint32_t no_queues[] = { 4, 5, 0x100, 0x01000000, 0xffffffff };

START_TEST(C067_no_such_queue)
{
    const uint32_t qn = no_queues[_i % 5];
    uint32_t length;

    wire_open(NULL);
    if (_i < 5) {
        length = put_untagged(ulpdu, LAST, SEND, 0, qn, 1, 0, "data", 4);
    } else if (_i < 10) {
        length = put_read(ulpdu, 1, 1, 2, 0, 0, 0);
        put32(ulpdu + 6, qn);
    } else { /* zero-length too: a message consumes a buffer of its queue */
        length = put_untagged(ulpdu, LAST, SEND, 0, qn, 1, 0, NULL, 0);
    }
    refuse(length, 0x1201, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

static const struct {
    uint8_t op;
    uint32_t qn;
} wrong_queues[] = {
    { OP_SEND, 1 },     { OP_SEND, 2 },        { OP_SEND, 3 }, { OP_SEND_SE, 1 }, { OP_SEND_SE, 2 },
    { OP_SEND_INV, 1 }, { OP_SEND_SE_INV, 2 }, { OP_READ, 0 }, { OP_READ, 2 },    { OP_READ, 3 },
};

START_TEST(C068_queue_of_another_opcode)
{
    uint32_t length;

    wire_open(NULL);
    length = put_read(ulpdu, 1, 1, 2, 4, env_stag(ENV_R), wire.base[ENV_R]);
    ulpdu[1] = C_RV | wrong_queues[_i].op;
    put32(ulpdu + 6, wrong_queues[_i].qn);
    refuse(length, 0x1201, RI_EVENT_REMOTE_OPERATION);
}
END_TEST

/* Octets 2 to 5 mean something in Send with Invalidate only. */
START_TEST(C069_invalidate_stag_is_ignored)
{
    const uint32_t word = (uint32_t[]){ 1, 0x80000000, 0xffffffff, 0 }[_i];
    uint32_t stag = word ? word : env_stag(ENV_W);

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, SEND, stag, 0, 1, 0, "one", 3));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, C_DV, C_RV | OP_SEND_SE, stag, 0, 2, 0, "t", 1));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, C_RV | OP_SEND_SE, ~stag, 0, 2, 1, "wo", 2));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 3);
    side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_SUCCESS, 3);
    put_read(ulpdu, 1, 1, 2, 3, env_stag(ENV_R), wire.base[ENV_R]);
    put32(ulpdu + 2, stag);
    peer_ulpdu(ulpdu, UNTAGGED_LEN + READ_LEN);
    wire_expect(true, OP_RESPONSE, 3);
    wire_goes_on(3, 2, 3); /* writes to ENV_W: the STag is as valid as before */
}
END_TEST

/* The Terminate returns the header as it came, with ignored bits and fields (S-058, S-060). */
START_TEST(S058_S060_X028_header_as_received)
{
    uint32_t length;

    wire_open(NULL);
    switch (_i) {
    case 0:
        length = put_untagged(ulpdu, LAST | 0x3c, SEND | 0x30, 0x12345678, 0, 9, 0, "data", 4);
        refuse(length, 0x1203, RI_EVENT_REMOTE_OPERATION);
        break;
    case 1:
        length = put_tagged(ulpdu, C_TAGGED | C_DV | 0x2c, C_RV | 0x10 | OP_WRITE, 0x12345600,
                            0x1122334455667788, "data", 4);
        refuse(length, 0x1100, RI_EVENT_WRITE_ACCESS);
        break;
    default:
        length = put_read(ulpdu, 1, 0xaabbccdd, 0x1122334455667788, 5, 0x12345600, 0x99);
        ulpdu[0] |= 0x3c;
        ulpdu[1] |= 0x30;
        put32(ulpdu + 2, 0xfeedface);
        refuse(length, 0x0100, RI_EVENT_READ_ACCESS);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: headers");
    TCase *tc = tc_case(suite, "checks", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, C058_ddp_version, 0, 6);
    tcase_add_loop_test(tc, C059_ddp_reserved_bits, 0, 5);
    tcase_add_loop_test(tc, C060_rdmap_version, 0, 6);
    tcase_add_loop_test(tc, C061_rdmap_reserved_bits, 0, 3);
    tcase_add_loop_test(tc, C062_opcode, 0, 8);
    tcase_add_loop_test(tc, C063_tagged_or_not, 0, 12);
    tcase_add_loop_test(tc, C064_X026_tagged_header_cut, 0, 2);
    tcase_add_loop_test(tc, C065_X026_untagged_header_cut, 0, 3);
    tcase_add_loop_test(tc, C066_read_request_without_last, 0, 2);
    tcase_add_loop_test(tc, C067_no_such_queue, 0, 15);
    tc_add_rows(tc, C068_queue_of_another_opcode, wrong_queues);
    tcase_add_loop_test(tc, C069_invalidate_stag_is_ignored, 0, 4);
    tcase_add_loop_test(tc, S058_S060_X028_header_as_received, 0, 3);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 10: solicited events and Send with Invalidate (C-118 to C-123), and those of the QP
 * (S-055). */
#include "peer.h"

#define LAST (C_LAST | C_DV)

static uint8_t ulpdu[512];

static uint32_t put_invalidate(uint8_t op, uint32_t msn, uint32_t stag, uint32_t length)
{
    return put_untagged(ulpdu, LAST, C_RV | op, stag, 0, msn, 0, "data", length);
}

static struct ri_wc received(uint64_t cookie, uint32_t length)
{
    struct ri_wc wc = side_next(wire.side, wire.side->recv_cq);

    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, length);
    return wc;
}

/* A message without payload, so that no memory changes; its receive fails. */
static void refuse(uint8_t op, uint32_t stag, uint16_t value)
{
    wire_refused(ulpdu, put_invalidate(op, 1, stag, 0), value, RI_EVENT_INVALIDATE_ACCESS);
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_REMOTE_INVALID_REQUEST, 0);
    wire_flushed(2);
}

static uint8_t op_of(int i)
{
    return i ? OP_SEND_SE_INV : OP_SEND_INV;
}

START_TEST(C118_solicited_or_not)
{
    static const uint8_t ops[] = { OP_SEND, OP_SEND_INV, OP_SEND_SE, OP_SEND_SE_INV };
    const enum env envs[] = { ENV_W, ENV_W, ENV_W, ENV_R };
    struct ri_wc wc;

    wire_open(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        peer_ulpdu(ulpdu, put_invalidate(ops[i], i + 1, env_stag(envs[i]), i));
        wc = received(i + 1, i);
        ck_assert_int_eq(!!(wc.flags & RI_WC_SOLICITED), i >= 2);
        ck_assert_int_eq(!!(wc.flags & RI_WC_WITH_INVALIDATE), i % 2);
    }
}
END_TEST

/* Index and key; an STag that is invalid already is no error. */
START_TEST(C119_stag)
{
    const uint32_t wrong[] = { env_stag(ENV_W) ^ 1, env_stag(ENV_W) ^ 0xff,
                               env_stag(ENV_W) ^ 0x5a5a5a00, env_stag(ENV_OPD) ^ 1 };
    struct ri_wc wc;

    wire_open(NULL);
    if (_i < 8) {
        refuse(op_of(_i % 2), wrong[_i / 2], 0x0100);
        return;
    }
    wire_invalidate(env_stag(ENV_W));
    peer_ulpdu(ulpdu, put_invalidate(op_of(_i % 2), 1, env_stag(ENV_W), 4));
    wc = received(1, 4);
    ck_assert_uint_eq(wc.invalidated_stag, env_stag(ENV_W));
    ck_assert(wire_alive());
}
END_TEST

START_TEST(C120_whose)
{
    uint32_t stag = env_stag(ENV_OPD);

    wire_open(NULL);
    if (_i > 1)
        stag = wire_window(false, RI_ACCESS_REMOTE_READ);
    refuse(op_of(_i % 2), stag, 0x0109);
}
END_TEST

START_TEST(C121_rights)
{
    const struct connection connection = { .no_invalidate = _i > 1 };

    wire_open(&connection);
    refuse(op_of(_i % 2), env_stag(_i > 1 ? ENV_W : ENV_LOC), 0x0102);
}
END_TEST

/* another QP in the PD, the third QP of wire_window. The region does not change. */
START_TEST(C122_X012_region_of_two_streams)
{
    wire_open(NULL);
    wire_window(false, RI_ACCESS_REMOTE_READ); /* on ENV_A, which makes the region busy too */
    refuse(op_of(_i % 2), env_stag(ENV_W), 0x0109);
    ck_assert_int_eq(side_query(&wire.third).state, RI_QPS_RTS);
}
END_TEST

/* With the interface's option off a peer cannot invalidate a region, only a narrow window. */
START_TEST(C122_option_off)
{
    static const char *const options[] = { "remote_invalidate", "off", NULL };
    uint32_t window;

    wire_teardown();
    wire_setup_options(options);
    wire_open(NULL);
    window = wire_window(true, RI_ACCESS_REMOTE_READ);
    peer_ulpdu(ulpdu, put_invalidate(op_of(_i), 1, window, 4));
    ck_assert_uint_eq(received(1, 4).invalidated_stag, window);
    env_restore();
    wire_refused(ulpdu, put_invalidate(op_of(_i), 2, env_stag(ENV_W), 0), 0x0109,
                 RI_EVENT_INVALIDATE_ACCESS);
    side_expect(wire.side, wire.side->recv_cq, 2, RI_WC_REMOTE_INVALID_REQUEST, 0);
    wire_flushed(3);
}
END_TEST

/* STag 0, and a region with bound windows. */
START_TEST(C122_kind)
{
    wire_open(NULL);
    if (_i > 1)
        wire_window(true, RI_ACCESS_REMOTE_READ);
    refuse(op_of(_i % 2), _i > 1 ? env_stag(ENV_A) : 0, 0x0109);
}
END_TEST

/* It takes effect with the completion, not before the last segment; region or window. */
START_TEST(C123_takes_effect)
{
    const bool window = _i > 1;
    const enum env env = window ? ENV_A : ENV_W;
    struct ri_wc wc;
    uint32_t stag;

    wire_open(NULL);
    stag = window ? wire_window(true, RI_ACCESS_REMOTE_WRITE) : env_stag(ENV_W);
    peer_ulpdu(ulpdu, put_untagged(ulpdu, C_DV, C_RV | op_of(_i % 2), stag, 0, 1, 0, "da", 2));
    peer_ulpdu(ulpdu, put_write(ulpdu, true, stag, wire.base[env], "before", 6));
    peer_ulpdu(ulpdu, put_untagged(ulpdu, LAST, C_RV | op_of(_i % 2), stag, 0, 1, 2, "ta", 2));
    wc = received(1, 4);
    ck_assert(wc.flags & RI_WC_WITH_INVALIDATE);
    ck_assert_uint_eq(wc.invalidated_stag, stag);
    ck_assert(env_is(env, 0, "before", 6) && env_is(ENV_RECV, 0, "data", 4));
    env_restore();
    put_write(ulpdu, true, stag, wire.base[env], "after", 5);
    wire_refused(ulpdu, TAGGED_LEN + 5, 0x1100, RI_EVENT_WRITE_ACCESS);
    wire_flushed(2);
}
END_TEST

/* All segments carry the peer's STag. */
START_TEST(S055_S040_our_own)
{
    const struct connection small = { .maxseg = 536 };
    const struct ri_sge sge = region_sge(&wire.env[ENV_LOC], 0, 2000);
    struct ri_send_wr *bad, wr = { .cookie = 1,
                                   .opcode = RI_WR_SEND_INVALIDATE,
                                   .flags = RI_WR_SIGNALED | (_i ? RI_WR_SOLICITED : 0),
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .invalidate_stag = 0x12345678 };
    uint32_t at = 0;

    wire_open(&small);
    ck_assert_int_eq(wire.bed.fake.user.post_send(wire.side->qp, &wr, &bad), RI_OK);
    do {
        ck_assert(wire_next());
        ck_assert_uint_eq(wire.seen.op, op_of(_i));
        ck_assert_uint_eq(wire.seen.stag, 0x12345678);
        ck_assert_uint_eq(wire.seen.mo, at);
        ck_assert_uint_eq(wire.seen.msn, 1);
        at += wire.seen.payload_length;
    } while (!wire.seen.last);
    ck_assert_uint_eq(at, 2000);
    side_expect(wire.side, wire.side->send_cq, 1, RI_WC_SUCCESS, 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: Send with Invalidate");
    TCase *tc = tc_case(suite, "both sides", wire_setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, C118_solicited_or_not);
    tcase_add_loop_test(tc, C119_stag, 0, 10);
    tc_add_loops(tc, 0, 4, C120_whose, C121_rights, C122_kind);
    tc_add_loops(tc, 0, 2, C122_X012_region_of_two_streams, C122_option_off);
    tcase_add_loop_test(tc, C123_takes_effect, 0, 4);
    tcase_add_loop_test(tc, S055_S040_our_own, 0, 2);
    return tc_main(suite);
}

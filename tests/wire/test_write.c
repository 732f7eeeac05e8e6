/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 7: RDMA Write (C-081 to C-094). */
#include "peer.h"

static uint8_t ulpdu[8192], data[8192];

static void setup(void)
{
    wire_setup();
    for (uint32_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + 1);
}

static void refuse(uint32_t stag, uint64_t to, uint32_t length, uint16_t value)
{
    wire_open(NULL);
    wire_refused(ulpdu, put_write(ulpdu, length % 2, stag, to, data, length), value,
                 RI_EVENT_WRITE_ACCESS);
    wire_flushed(1);
}

static bool is_known(uint32_t stag)
{
    bool known = false;

    for (int env = 0; env < ENV_COUNT; env++)
        known |= (env_stag((enum env)env) ^ stag) < 0x100;
    return known;
}

/* ---- zero length ---- */

/* Whatever the STag, the TO and the rights of the QP. */
START_TEST(C081_X007_of_no_length)
{
    const struct connection connection = { .no_write = _i };
    const uint32_t stags[] = {
        0, 1, 0xffffffff, env_stag(ENV_W), env_stag(ENV_R), env_stag(ENV_OPD), env_stag(ENV_W) ^ 1
    };
    const uint64_t tos[] = { 0, 1, UINT64_MAX, wire.base[ENV_W], wire.base[ENV_W] + REGION_LEN };

    wire_open(&connection);
    for (uint32_t s = 0; s < sizeof(stags) / sizeof(stags[0]); s++)
        for (uint32_t t = 0; t < sizeof(tos) / sizeof(tos[0]); t++)
            peer_ulpdu(ulpdu, put_write(ulpdu, (s + t) % 2, stags[s], tos[t], NULL, 0));
    ck_assert(wire_alive());
    ck_assert(env_untouched());
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    if (!_i)
        wire_goes_on(1, 1, 1);
}
END_TEST

/* ---- STags ---- */

START_TEST(C082_X008_stag_zero)
{
    refuse(0, _i ? 0 : wire.base[ENV_W], 1 + (uint32_t)_i * 3, 0x1100);
}
END_TEST

/* An index with one bit wrong, one never allocated, one released. */
START_TEST(C083_stag_not_allocated)
{
    struct region gone;

    for (int bit = 8; bit < 32; bit++)
        if (!is_known(env_stag(ENV_W) ^ 1u << bit))
            refuse(env_stag(ENV_W) ^ 1u << bit, wire.base[ENV_W], 4, 0x1100);
    refuse(env_stag(ENV_W) ^ 0x5a5a5a00, wire.base[ENV_W], 4, 0x1100);
    gone = region_new(wire.side, REGION_LEN, TESTBED_ALL);
    ck_assert_int_eq(wire.bed.fake.privileged.mr_deregister(gone.mr), RI_OK);
    refuse(gone.keys.rkey, (uintptr_t)gone.octets, 4, 0x1100);
    ck_assert_uint_eq(gone.octets[0], 0);
    gone.mr = NULL;
}
END_TEST

START_TEST(C084_stag_key)
{
    for (uint32_t key = 1; key < 256; key += tc_long() ? 1 : 7)
        refuse(env_stag(ENV_W) ^ key, wire.base[ENV_W], 4, 0x1100);
    refuse(env_stag(ENV_W) ^ 0x80, wire.base[ENV_W], 4, 0x1100);
}
END_TEST

START_TEST(C085_stag_invalidated)
{
    uint32_t stag = env_stag(ENV_W);

    wire_open(NULL);
    if (_i)
        stag = wire_window(true, RI_ACCESS_REMOTE_WRITE);
    peer_ulpdu(ulpdu, put_write(ulpdu, true, stag, wire.base[_i ? ENV_A : ENV_W], data, 4));
    ck_assert(wire_alive());
    ck_assert(env_is(_i ? ENV_A : ENV_W, 0, data, 4));
    env_restore();
    wire_invalidate(stag);
    put_write(ulpdu, true, stag, wire.base[_i ? ENV_A : ENV_W], data, 4);
    wire_refused(ulpdu, TAGGED_LEN + 4, 0x1100, RI_EVENT_WRITE_ACCESS);
    wire_flushed(1);
}
END_TEST

/* A window of another QP, whatever its rights. One of this QP works like a region. */
START_TEST(C087_X004_window_of_another_qp)
{
    uint32_t stag;

    wire_open(NULL);
    stag = wire_window(_i, RI_ACCESS_REMOTE_WRITE);
    put_write(ulpdu, true, stag, wire.base[ENV_A], data, 4);
    if (!_i) {
        wire_refused(ulpdu, TAGGED_LEN + 4, 0x1102, RI_EVENT_WRITE_ACCESS);
        wire_flushed(1);
        return;
    }
    peer_ulpdu(ulpdu, TAGGED_LEN + 4);
    ck_assert(wire_alive());
    ck_assert(env_is(ENV_A, 0, data, 4));
}
END_TEST

START_TEST(C086_X003_stag_of_another_pd)
{
    refuse(env_stag(ENV_OPD), wire.base[ENV_OPD], 1 + (uint32_t)_i, 0x1102);
}
END_TEST

START_TEST(C088_X007_no_remote_write)
{
    enum env env = _i ? ENV_LOC : ENV_R;

    refuse(env_stag(env), wire.base[env], 1, 0x1102);
    refuse(env_stag(env), wire.base[env], REGION_LEN, 0x1102);
}
END_TEST

START_TEST(C089_X007_write_not_enabled)
{
    const struct connection connection = { .no_write = true };

    wire_open(&connection);
    wire_refused(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W], data, 4), 0x1102,
                 RI_EVENT_WRITE_ACCESS);
    wire_flushed(1);
}
END_TEST

/* ---- addresses ---- */

/* The sum 2^64 itself does not wrap: it is a bounds error. */
START_TEST(C090_C092_X005_wrap)
{
    enum env env = _i ? ENV_ZERO : ENV_W;
    uint32_t stag = env_stag(env);

    refuse(stag, UINT64_MAX - 3, 4, 0x1101);
    refuse(stag, UINT64_MAX - 3, 5, 0x1103);
    refuse(stag, UINT64_MAX, 1, 0x1101);
    refuse(stag, UINT64_MAX, 2, 0x1103);
    refuse(stag, UINT64_MAX, 4096, 0x1103);
    refuse(stag, UINT64_MAX - 4095, 4096, 0x1101);
    refuse(stag, UINT64_MAX - 4094, 4096, 0x1103);
}
END_TEST

START_TEST(C091_below_the_base)
{
    uint64_t base = wire.base[ENV_W];

    refuse(env_stag(ENV_W), base - 1, 1, 0x1101);
    refuse(env_stag(ENV_W), base - 1, 2, 0x1101);
    refuse(env_stag(ENV_W), base - 4, 4, 0x1101);
    refuse(env_stag(ENV_W), base - REGION_LEN, REGION_LEN, 0x1101);
    refuse(env_stag(ENV_W), 0, 1, 0x1101);
    refuse(env_stag(ENV_W), base & 0xffffffff, 1, 0x1101); /* the upper half counts too */
}
END_TEST

START_TEST(C092_beyond_the_end)
{
    enum env env = _i ? ENV_ZERO : ENV_W;
    uint64_t base = wire.base[env], end = base + REGION_LEN;
    uint32_t stag = env_stag(env);

    refuse(stag, end, 1, 0x1101);
    refuse(stag, end - 1, 2, 0x1101);
    refuse(stag, end - 3, 4, 0x1101);
    refuse(stag, base, REGION_LEN + 1, 0x1101);
    refuse(stag, base + 1, REGION_LEN, 0x1101);
    refuse(stag, base + (1ull << 32), 1, 0x1101);
    refuse(stag, base ^ 1ull << 63, 1, 0x1101);
}
END_TEST

/* And the largest allowed range. */
START_TEST(C091_C092_X005_to_the_octet)
{
    enum env env = _i ? ENV_ZERO : ENV_W;
    const uint32_t places[][2] = { { 0, 1 },    { 0, REGION_LEN },     { REGION_LEN - 1, 1 },
                                   { 4092, 4 }, { 1, REGION_LEN - 1 }, { 2049, 1 } };

    wire_open(NULL);
    for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const uint32_t *place = places[i];

        env_restore();
        peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(env), wire.base[env] + place[0], data,
                                    place[1]));
        ck_assert(wire_alive());
        ck_assert(env_is(env, place[0], data, place[1]));
        for (uint32_t at = 0; at < REGION_LEN; at++)
            if (at < place[0] || at >= place[0] + place[1])
                ck_assert_uint_eq(wire.env[env].octets[at], PATTERN);
    }
    wire_goes_on(1, 1, 1);
}
END_TEST

/* ---- segments ---- */

/* Each segment is checked alone: backwards, twice, to two regions, without a last one, Sends in
 * between. */
START_TEST(C093_segments_stand_alone)
{
    uint32_t w = env_stag(ENV_W), any = env_stag(ENV_A);
    uint64_t base = wire.base[ENV_W];

    wire_open(NULL);
    peer_ulpdu(ulpdu, put_send(ulpdu, false, 1, 0, "se", 2));
    peer_ulpdu(ulpdu, put_write(ulpdu, false, w, base + 8, data + 8, 8));
    peer_ulpdu(ulpdu, put_write(ulpdu, false, w, base, data, 8));
    peer_ulpdu(ulpdu, put_write(ulpdu, false, any, wire.base[ENV_A], data, 3));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 2, "nd", 2));
    peer_ulpdu(ulpdu, put_write(ulpdu, false, w, base + 16, "nothing", 7));
    peer_ulpdu(ulpdu, put_write(ulpdu, true, w, base + 16, data + 16, 8));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 4);
    ck_assert(wire_alive());
    ck_assert(env_is(ENV_W, 0, data, 24) && env_is(ENV_A, 0, data, 3) &&
              env_is(ENV_RECV, 0, "send\xa5", 5));
    /* An error of one segment does not affect earlier ones. */
    peer_ulpdu(ulpdu, put_write(ulpdu, false, w, base, "kept", 4));
    peer_ulpdu(ulpdu, put_write(ulpdu, true, w, base + REGION_LEN - 2, "lost", 4));
    wire_terminate(0x1101, ulpdu, TAGGED_LEN + 4);
    ck_assert(env_is(ENV_W, 0, "kept", 4) && env_is(ENV_W, REGION_LEN - 2, "\xa5\xa5", 2));
}
END_TEST

/* No completion, and no receive consumed. When a later Send is delivered the data has been
 * placed. */
START_TEST(C094_never_delivered)
{
    wire_open(NULL);
    for (uint32_t i = 0; i < 100; i++)
        peer_ulpdu(ulpdu, put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W] + i * 40,
                                    data + i * 40, 40));
    ck_assert(wire_alive());
    ck_assert(side_idle(wire.side, wire.side->recv_cq));
    ck_assert(side_idle(wire.side, wire.side->send_cq));
    peer_ulpdu(ulpdu,
               put_write(ulpdu, true, env_stag(ENV_W), wire.base[ENV_W] + 4000, data + 4000, 96));
    peer_ulpdu(ulpdu, put_send(ulpdu, true, 1, 0, NULL, 0));
    side_expect(wire.side, wire.side->recv_cq, 1, RI_WC_SUCCESS, 0);
    ck_assert(env_is(ENV_W, 0, data, REGION_LEN));
}
END_TEST

static uint64_t told(const char *name, bool of_qp)
{
    const struct ri_privileged_ops *ops = &wire.bed.fake.privileged;
    const char *names[32];
    uint64_t values[32];
    size_t count = 32;

    ck_assert_int_eq(of_qp ? ops->qp_counters(wire.side->qp, names, values, &count)
                           : ops->rnic_counters(wire.bed.fake.rnic, names, values, &count),
                     RI_OK);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return values[i];
    ck_abort_msg("no counter %s", name);
}

/* Counted over several connections, for the endpoint that the peer connects to; other errors do not
 * count. */
START_TEST(X040_guesses_are_counted)
{
    static const char name[] = "access errors of peers";

    for (uint64_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(told(name, true), i);
        ck_assert_uint_eq(told(name, false), i);
        refuse(env_stag(ENV_W) ^ 1, wire.base[ENV_W], 4, 0x1100);
    }
    wire_open(NULL);
    wire_refused(ulpdu, put_send(ulpdu, true, 9, 0, NULL, 0), 0x1203, RI_EVENT_REMOTE_OPERATION);
    wire_flushed(1);
    ck_assert_uint_eq(told(name, true), 5);
    ck_assert_uint_eq(told(name, false), 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire: Write");
    TCase *tc = tc_case(suite, "receiver", setup, wire_teardown);

    tcase_set_timeout(tc, 120);
    tc_add_loops(tc, 0, 2, C081_X007_of_no_length, C082_X008_stag_zero);
    tc_add_tests(tc, C083_stag_not_allocated, C084_stag_key);
    tc_add_loops(tc, 0, 2, C085_stag_invalidated, C087_X004_window_of_another_qp,
                 C086_X003_stag_of_another_pd, C088_X007_no_remote_write);
    tcase_add_test(tc, C089_X007_write_not_enabled);
    tcase_add_loop_test(tc, C090_C092_X005_wrap, 0, 2);
    tcase_add_test(tc, C091_below_the_base);
    tc_add_loops(tc, 0, 2, C092_beyond_the_end, C091_C092_X005_to_the_octet);
    tc_add_tests(tc, C093_segments_stand_alone, C094_never_delivered, X040_guesses_are_counted);
    return tc_main(suite);
}

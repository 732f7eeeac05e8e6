/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The response to a lone short Read is sent from inside the receive that checked the request
 * (tx_single.c), and a lone Read Response completes at once. Two connections, each over an RNIC of
 * its own, get the same input; one of them takes the general path only. What both write, complete,
 * place and report must be the same.
 */
#include "answers.h"

/* ---- same behaviour ---- */

static void expect_same_octets(void)
{
    recording_expect_same();
    for (uint32_t i = 0; i < REGIONS; i++)
        ck_assert(!memcmp(twins[ALONE].region[i].octets, twins[GENERAL].region[i].octets, OCTETS));
}

static void expect_same_completions(void)
{
    ck_assert_uint_eq(twins[ALONE].completions, twins[GENERAL].completions);
    for (uint32_t i = 0; i < twins[ALONE].completions; i++)
        ck_assert_msg(!memcmp(&twins[ALONE].wc[i], &twins[GENERAL].wc[i], sizeof(struct ri_wc)),
                      "completion %u", i);
}

#define SAME(field)        ck_assert_uint_eq(one->field, other->field)
#define SAME_ATOMIC(field) ck_assert_uint_eq(atomic_load(&one->field), atomic_load(&other->field))

static void expect_same_qps(void)
{
    struct iwarp_qp *one = twin_qp(&twins[ALONE]), *other = twin_qp(&twins[GENERAL]);

    SAME(rx.expect_read_msn);
    SAME(rx.expect_send_msn);
    SAME(tx.send_msn);
    SAME(tx.read_msn);
    SAME(tx.position);
    SAME(tx.accepted);
    SAME_ATOMIC(core.sq.posted);
    SAME_ATOMIC(core.sq.next);
    SAME_ATOMIC(core.sq.done);
    SAME_ATOMIC(core.sq.freed);
    SAME_ATOMIC(core.sq.sent);
    SAME_ATOMIC(core.rq.next);
    SAME_ATOMIC(core.rq.done);
    SAME_ATOMIC(reads.ord_in);
    SAME_ATOMIC(reads.ord_out);
    SAME_ATOMIC(core.counters.sent_messages);
    SAME_ATOMIC(core.counters.sent_octets);
    SAME_ATOMIC(core.counters.received_messages);
    SAME_ATOMIC(core.counters.received_octets);
    SAME_ATOMIC(core.life.state);
    SAME(core.life.terminate_sent);
}

static void expect_same_events(void)
{
    const struct side *one = side_of(&twins[ALONE]), *other = side_of(&twins[GENERAL]);

    SAME_ATOMIC(send_events.count);
    SAME_ATOMIC(recv_events.count);
    SAME_ATOMIC(events.count);
    for (uint32_t i = 0; i < atomic_load(&one->events.count); i++) {
        SAME(events.type[i]);
        SAME(events.code[i]);
    }
}

static void expect_same(void)
{
    expect_same_octets();
    ck_assert_uint_eq(wires[ALONE].writes, wires[GENERAL].writes);
    ck_assert_uint_eq(twin_qp(&twins[ALONE])->tx.requests_first,
                      twin_qp(&twins[GENERAL])->tx.requests_first);
    expect_same_qps();
    expect_same_events();
}

/* ---- random steps ---- */

static void random_requests(struct twin *twin, struct tc_rng *rng)
{
    uint32_t count = tc_below(rng, 4) ? 1 : 1 + (uint32_t)tc_below(rng, 3);
    uint32_t before = (uint32_t)tc_below(rng, 16);

    if (before == 0) {
        side_receive(side_of(twin), 7, sge_of(twin, 3000, 256));
        put_send(twin, (uint32_t)tc_below(rng, 200));
    } else if (before == 1) {
        put_tagged(twin, RDMAP_WRITE, tc_below(rng, 1000), 1 + (uint32_t)tc_below(rng, 200), true);
    }
    while (count--)
        put_plain_request(twin, tc_below(rng, OCTETS / 2), (uint32_t)tc_below(rng, 300));
    if (!tc_below(rng, 8))
        arrive(twin, 1 + tc_below(rng, twin->used - 1));
    arrive_all(twin);
}

static void random_post(struct twin *twin, struct tc_rng *rng, uint64_t cookie)
{
    static const enum ri_wr_opcode opcodes[] = { RI_WR_SEND, RI_WR_RDMA_WRITE, RI_WR_RDMA_READ };
    uint16_t flags = (uint16_t)((tc_below(rng, 4) ? RI_WR_SIGNALED : 0) |
                                (tc_below(rng, 8) ? 0 : RI_WR_COALESCE) |
                                (tc_below(rng, 10) ? 0 : RI_WR_NOTIFY));
    enum ri_wr_opcode opcode = opcodes[tc_below(rng, 3)];
    uint32_t offset = (uint32_t)tc_below(rng, 1000);
    enum ri_status status = post(twin, opcode, cookie, flags, offset, (uint32_t)tc_below(rng, 300));

    ck_assert(status == RI_OK || status == RI_ERR_QUEUE_FULL);
}

/* Answers the consumer's oldest Read, in one segment or two, in one read or two; some have more
 * FPDUs behind them. */
static void random_response(struct twin *twin, struct tc_rng *rng)
{
    struct iwarp_qp *qp = twin_qp(twin);
    uint32_t out = atomic_load(&qp->reads.ord_out), first;
    const struct outstanding_read *read = &qp->reads.ord_ring[out & (qp->reads.ord_size - 1)];
    uint64_t to = read->sink_to;
    uint32_t size = read->size;

    if (out == atomic_load(&qp->reads.ord_in))
        return;
    first = tc_below(rng, 4) || !size ? 0 : (uint32_t)tc_below(rng, size);
    if (first) {
        put_tagged(twin, RDMAP_READ_RESP, to, first, false);
        if (tc_below(rng, 2))
            arrive_all(twin);
    }
    put_tagged(twin, RDMAP_READ_RESP, to + first, size - first, true);
    if (!tc_below(rng, 6))
        put_plain_request(twin, tc_below(rng, OCTETS / 2), (uint32_t)tc_below(rng, 300));
    arrive_all(twin);
}

static void random_step(struct twin *twin, struct tc_rng *rng, uint64_t cookie)
{
    struct side *side = side_of(twin);

    keep_general(twin);
    switch (tc_below(rng, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: random_requests(twin, rng); break;
    case 4:
    case 5: random_post(twin, rng, cookie); break;
    case 6:
    case 7:
    case 8: random_response(twin, rng); break;
    case 9: poll_both(twin, 1 + (uint32_t)tc_below(rng, DEPTH)); break;
    case 10:
        if (tc_below(rng, 3))
            poll_both(twin, 1);
        else
            twin->bed.fake.user.arm(side->send_cq, RI_ARM_NEXT, 0);
        break;
    default: fake_host_run(&twin->bed.fake, side->recv_cq);
    }
}

/* Requests alone and together, mixed with the consumer's own requests, their responses, batching
 * and arming. */
START_TEST(same_for_random_steps)
{
    struct tc_rng rng = tc_rng((uint64_t)_i), copy;

    start_both(_i & 1, 0);
    for (uint32_t i = 0; i < STEPS; i++) {
        copy = rng;
        random_step(&twins[ALONE], &rng, i);
        random_step(&twins[GENERAL], &copy, i);
        ck_assert_uint_eq(tc_below(&copy, UINT32_MAX), tc_below(&rng, UINT32_MAX));
        expect_same();
    }
    expect_same_completions();
    ck_assert_int_eq(qp_state(&twin_qp(&twins[ALONE])->core), RI_QPS_RTS);
    ck_assert_uint_gt(twins[ALONE].completions, STEPS / 20);
    ck_assert_uint_gt(wires[ALONE].alone, STEPS / 10);
    ck_assert_uint_eq(wires[GENERAL].alone, 0);
    finish_both();
}
END_TEST

/* The socket accepts parts of a write, or nothing. */
START_TEST(same_over_a_full_socket)
{
    static const size_t takes[] = { SIZE_MAX, SIZE_MAX, 0, 1, 61 };
    struct tc_rng rng = tc_rng((uint64_t)_i);

    start_both(_i & 1, 0);
    for (uint32_t i = 0; i < STEPS / 4 * 4; i++) {
        const bool last = i % 4 == 3; /* the last of the requests that may wait */

        uint64_t from = tc_below(&rng, OCTETS / 2);
        uint32_t octets = 1 + (uint32_t)tc_below(&rng, 256);

        recording_takes = takes[tc_below(&rng, 5)];
        for (int way = 0; way < WAYS; way++) {
            put_plain_request(&twins[way], from, octets);
            arrive_all(&twins[way]);
        }
        recording_takes = last ? SIZE_MAX : recording_takes;
        for (int way = 0; way < WAYS && last; way++)
            ck_assert(
                fake_host_until(&twins[way].bed.fake, all_answered(&twins[way]), TESTBED_TIMEOUT));
    }
    expect_same_octets();
    expect_same_qps();
    ck_assert_uint_gt(wires[ALONE].alone, 100);
    finish_both();
}
END_TEST

static const struct odd odds[] = {
    { "C-050", .octets = 64, .damaged = true, .value = 0x2002 },
    { "C-067", .octets = 64, .qn = 5, .value = 0x1201 },
    { "C-068", .octets = 64, .qn = (uint32_t)-1, .value = 0x1201 },
    { "C-104 short", .octets = 64, .length = (uint32_t)-1, .value = 0x1000 },
    { "C-104 long", .octets = 64, .length = 1, .value = 0x1205 },
    { "C-105", .octets = 64, .mo = 4, .value = 0x1204 },
    { "C-106 gap", .octets = 64, .msn = 1, .value = 0x1203 },
    { "C-106 old", .octets = 64, .msn = (uint32_t)-1, .value = 0x1203 },
    { "C-110 key", .octets = 64, .stag = 0x80, .value = 0x0100 },
    { "C-110 none", .octets = 64, .stag = 0x1234500, .value = 0x0100 },
    { "C-111", .octets = 64, .region = FOREIGN, .value = 0x0103 },
    { "C-112", .octets = 64, .region = LOCAL, .value = 0x0102 },
    { "C-113", .octets = 64, .from = OCTETS - 63, .value = 0x0101 },
    { "C-113 far", .octets = 64, .from = OCTETS + 1, .value = 0x0101 },
    { "C-114", .octets = 64, .from = UINT64_MAX - 62, .value = 0x0104 },
};
#define ODDS (int)(sizeof(odds) / sizeof(odds[0]))

/* Refusals are the same on both paths, also behind responses that were sent. */
START_TEST(same_refusals)
{
    start_both(true, 0);
    for (int way = 0; way < WAYS; way++) {
        put_plain_request(&twins[way], 8, 64);
        arrive_all(&twins[way]);
        put_request(&twins[way], &odds[_i]);
        arrive_all(&twins[way]);
        fake_host_run(&twins[way].bed.fake, NULL);
        ck_assert_uint_eq(twin_qp(&twins[way])->core.life.terminate_sent, odds[_i].value);
    }
    ck_assert_uint_eq(wires[ALONE].alone, 1 + 1); /* the Terminate leaves alone too */
    expect_same();
    finish_both();
}
END_TEST

/* A QP that does not allow Reads, or does not any more. */
START_TEST(same_when_not_allowed)
{
    start_both(true, 0);
    for (int way = 0; way < WAYS; way++) {
        put_plain_request(&twins[way], 8, 64);
        arrive_all(&twins[way]);
        if (_i)
            twin_qp(&twins[way])->core.attr.ird = 0;
        else
            twin_qp(&twins[way])->core.attr.flags &= ~(uint32_t)RI_QP_READ_ENABLE;
        put_plain_request(&twins[way], 8, 64);
        arrive_all(&twins[way]);
        fake_host_run(&twins[way].bed.fake, NULL);
        ck_assert_uint_eq(twin_qp(&twins[way])->core.life.terminate_sent, 0x1201);
    }
    expect_same();
    finish_both();
}
END_TEST

/* More Reads than the CQ holds: the connection ends, and completed work is not lost. */
START_TEST(same_over_a_full_cq)
{
    enum { READS = 4, CQE = 2 };

    start_both(true, CQE);
    for (int way = 0; way < WAYS; way++) {
        struct twin *twin = &twins[way];

        for (uint32_t i = 0; i < READS; i++)
            ck_assert_int_eq(post(twin, RI_WR_RDMA_READ, i, RI_WR_SIGNALED, 100 * i, 64), RI_OK);
        fake_host_run(&twin->bed.fake, side_of(twin)->send_cq);
        for (uint32_t i = 0; i <= CQE; i++) {
            put_tagged(twin, RDMAP_READ_RESP, 100 * i, 64, true);
            arrive_all(twin);
        }
        while (poll_cq(twin, side_of(twin)->send_cq, 1))
            ;
        ck_assert_uint_eq(twin->completions, READS);
        ck_assert_uint_eq(twin_qp(twin)->core.life.terminate_sent, 0x0207);
    }
    expect_same_completions();
    expect_same();
    finish_both();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma answers");
    TCase *same = tc_case(suite, "same", setup, NULL);

    tcase_add_loop_test(same, same_for_random_steps, 0, 8);
    tcase_add_loop_test(same, same_over_a_full_socket, 0, 4);
    tcase_add_loop_test(same, same_refusals, 0, ODDS);
    tcase_add_loop_test(same, same_when_not_allowed, 0, 2);
    tcase_add_test(same, same_over_a_full_cq);
    return tc_main(suite);
}

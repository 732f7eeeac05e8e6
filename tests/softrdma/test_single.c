/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lone short posts go from the work request to the socket and the completion in one function
 * (tx_single.c). Two connections, each over an RNIC of its own, get the same requests; one of them
 * may not take that path. What both write, complete and report must be the same.
 */
#include "recording_llp.h"

#include "providers/software/iwarp/codec/mpa.h"

#define DEPTH     16u
#define LIST_MOST 4u
#define STEPS     3000u
#define OCTETS    4096u

enum { ALONE, GENERAL, WAYS };

struct twin {
    struct testbed bed;
    struct region region;
    int far_end;
    uint32_t completions;
    struct ri_wc wc[STEPS * LIST_MOST];
};
static struct twin twins[WAYS];

static struct side *side_of(struct twin *twin)
{
    return &twin->bed.side[0];
}

static struct iwarp_qp *twin_qp(struct twin *twin)
{
    return qp_of(side_of(twin));
}

static void start(struct twin *twin, bool crc)
{
    testbed_open(&twin->bed, NULL);
    side_open(&twin->bed, side_of(twin), &(struct shape){ .depth = DEPTH, .cqe = 2 * DEPTH });
    twin->far_end = recording_start(side_of(twin), crc, 8, 8);
    twin->region = region_new(side_of(twin), OCTETS, TESTBED_ALL);
    region_fill(&twin->region);
    twin->completions = 0;
    tx_run(&twin_qp(twin)->core); /* its first message has left */
    fake_host_run(&twin->bed.fake, NULL);
}

static void finish(struct twin *twin)
{
    region_free(side_of(twin), &twin->region);
    testbed_close(&twin->bed);
    close(twin->far_end);
}

static void setup(void)
{
    memset(wires, 0, sizeof(wires));
    recording_takes = SIZE_MAX;
    recording_emss = 1460;
}

/* ---- steps ---- */

/* A step that both connections take. */
struct step {
    enum { POST, POLL, ARM, PASS, KINDS } kind;
    uint32_t count; /* requests, or completions to poll */
    struct {
        enum ri_wr_opcode opcode;
        uint16_t flags;
        uint32_t offset, length, elements;
        bool foreign; /* memory without read access */
    } request[LIST_MOST];
    uint64_t cookie; /* of the first */
    enum ri_arm arm;
};

static void random_request(struct tc_rng *rng, struct step *step, uint32_t i)
{
    bool send = tc_below(rng, 2);
    uint16_t flags = 0;

    flags |= tc_below(rng, 4) ? RI_WR_SIGNALED : 0;
    flags |= send && !tc_below(rng, 4) ? RI_WR_SOLICITED : 0;
    flags |= tc_below(rng, 10) ? 0 : RI_WR_NOTIFY;
    flags |= tc_below(rng, 16) ? 0 : RI_WR_READ_FENCE;
    flags |= tc_below(rng, 12) ? 0 : RI_WR_COALESCE;
    step->request[i].opcode = send ? RI_WR_SEND : RI_WR_RDMA_WRITE;
    step->request[i].flags = flags;
    step->request[i].length = (uint32_t)tc_below(rng, tc_below(rng, 8) ? 100 : 300);
    step->request[i].offset = (uint32_t)tc_below(rng, OCTETS / 2);
    step->request[i].elements = tc_below(rng, 10) ? 1 : (uint32_t)tc_below(rng, 3);
    step->request[i].foreign = false;
}

static struct step random_step(struct tc_rng *rng, uint64_t cookie)
{
    static const uint32_t kinds[] = { POST, POST, POST, POLL, POLL, PASS, ARM };
    struct step step = { .kind = kinds[tc_below(rng, 7)], .cookie = cookie };

    if (step.kind == ARM && tc_below(rng, 4))
        step.kind = POLL;
    step.arm = (enum ri_arm)tc_below(rng, RI_ARM_NTH);
    step.count = tc_below(rng, 8) ? 1 : 1 + (uint32_t)tc_below(rng, LIST_MOST);
    for (uint32_t i = 0; i < step.count && step.kind == POST; i++)
        random_request(rng, &step, i);
    return step;
}

/* RI_OK, or why a request was refused; *posted is the number of requests before it. */
static enum ri_status post(struct twin *twin, const struct step *step, uint32_t *posted)
{
    struct ri_send_wr wr[LIST_MOST] = { { .next = NULL } }, *bad = NULL;
    struct ri_sge sges[LIST_MOST][2];
    enum ri_status status;

    for (uint32_t i = 0; i < step->count; i++) {
        uint32_t offset = step->request[i].foreign ? OCTETS - 1 : step->request[i].offset;

        sges[i][0] = sges[i][1] = region_sge(&twin->region, offset, step->request[i].length);
        wr[i].next = i + 1 < step->count ? &wr[i + 1] : NULL;
        wr[i].cookie = step->cookie + i;
        wr[i].sg_list = sges[i];
        wr[i].num_sge = step->request[i].elements;
        wr[i].opcode = step->request[i].opcode;
        wr[i].flags = step->request[i].flags;
        wr[i].rdma.remote_addr = 0x1122334455667700 + step->cookie;
        wr[i].rdma.rkey = 0xa1b2c3d4;
    }
    status = twin->bed.fake.user.post_send(side_of(twin)->qp, wr, &bad);
    *posted = status == RI_OK ? step->count : (uint32_t)(bad - wr);
    return status;
}

static uint32_t poll(struct twin *twin, uint32_t count)
{
    uint32_t taken;

    ck_assert_uint_le(twin->completions + count, STEPS * LIST_MOST);
    taken = twin->bed.fake.user.poll(side_of(twin)->send_cq, count, twin->wc + twin->completions);
    for (uint32_t i = 0; i < taken; i++)
        twin->wc[twin->completions + i].context = NULL; /* the contexts differ by nature */
    twin->completions += taken;
    return taken;
}

static enum ri_status take_step(struct twin *twin, const struct step *step, uint32_t *result)
{
    struct side *side = side_of(twin);

    if (twin == &twins[GENERAL]) {
        twin_qp(twin)->tx.short_below = twin_qp(twin)->tx.single_below = 0;
        twin_qp(twin)->tx.learn_at = UINT64_MAX;
    }
    *result = 0;
    switch (step->kind) {
    case POST: return post(twin, step, result);
    case POLL: *result = poll(twin, step->count); break;
    case ARM: return twin->bed.fake.user.arm(side->send_cq, step->arm, 0);
    default: fake_host_run(&twin->bed.fake, side->send_cq);
    }
    return RI_OK;
}

static void expect_same_completions(uint32_t from)
{
    ck_assert_uint_eq(twins[ALONE].completions, twins[GENERAL].completions);
    for (uint32_t i = from; i < twins[ALONE].completions; i++)
        ck_assert_msg(!memcmp(&twins[ALONE].wc[i], &twins[GENERAL].wc[i], sizeof(struct ri_wc)),
                      "completion %u", i);
}

static void expect_same_octets(void)
{
    recording_expect_same();
    if (wires[ALONE].used > RECORDING_ROOM / 2)
        wires[ALONE].used = wires[GENERAL].used = wires[ALONE].compared = 0;
}

static void expect_same(void)
{
    const struct iwarp_qp *one = twin_qp(&twins[ALONE]), *other = twin_qp(&twins[GENERAL]);

    expect_same_octets();
    ck_assert_uint_eq(wires[ALONE].writes, wires[GENERAL].writes);
    ck_assert_uint_eq(atomic_load(&one->core.sq.posted), atomic_load(&other->core.sq.posted));
    ck_assert_uint_eq(atomic_load(&one->core.sq.next), atomic_load(&other->core.sq.next));
    ck_assert_uint_eq(atomic_load(&one->core.sq.done), atomic_load(&other->core.sq.done));
    ck_assert_uint_eq(atomic_load(&one->core.sq.freed), atomic_load(&other->core.sq.freed));
    ck_assert_uint_eq(atomic_load(&one->core.sq.sent), atomic_load(&other->core.sq.sent));
    ck_assert_uint_eq(one->tx.send_msn, other->tx.send_msn);
    ck_assert_uint_eq(one->tx.position, other->tx.position);
    ck_assert_uint_eq(one->tx.accepted, other->tx.accepted);
    ck_assert_uint_eq(atomic_load(&one->core.counters.sent_messages),
                      atomic_load(&other->core.counters.sent_messages));
    ck_assert_uint_eq(atomic_load(&one->core.counters.sent_octets),
                      atomic_load(&other->core.counters.sent_octets));
    ck_assert_uint_eq(atomic_load(&side_of(&twins[ALONE])->send_events.count),
                      atomic_load(&side_of(&twins[GENERAL])->send_events.count));
}

/* ---- tests ---- */

static void start_both(bool crc)
{
    for (int way = 0; way < WAYS; way++)
        start(&twins[way], crc);
}

static void finish_both(void)
{
    for (int way = 0; way < WAYS; way++)
        finish(&twins[way]);
}

/* All requests in any order, with full queues, lists, batching and arming. */
START_TEST(same_for_random_steps)
{
    struct tc_rng rng = tc_rng((uint64_t)_i);
    uint64_t cookie = 0;

    start_both(_i & 1);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct step step = random_step(&rng, cookie);
        uint32_t from = twins[ALONE].completions, result[WAYS];
        enum ri_status status[WAYS];

        for (int way = 0; way < WAYS; way++)
            status[way] = take_step(&twins[way], &step, &result[way]);
        ck_assert_int_eq(status[ALONE], status[GENERAL]);
        ck_assert_uint_eq(result[ALONE], result[GENERAL]);
        expect_same_completions(from);
        expect_same();
        cookie += step.count;
    }
    ck_assert_uint_gt(wires[ALONE].alone, STEPS / 20);
    ck_assert_uint_eq(wires[GENERAL].alone, 0);
    finish_both();
}
END_TEST

static bool all_sent(struct twin *twin)
{
    struct iwarp_qp *qp = twin_qp(twin);

    return atomic_load(&qp->core.sq.next) == atomic_load(&qp->core.sq.posted) &&
           !qp->tx.batch.octets;
}

static uint32_t room_of(struct twin *twin)
{
    struct iwarp_qp *qp = twin_qp(twin);

    return DEPTH - (atomic_load(&qp->core.sq.posted) - atomic_load(&qp->core.sq.freed));
}

/* The socket accepts parts of a write, or nothing. The two paths may retry at different times, but
 * the octets are the same. */
START_TEST(same_over_a_full_socket)
{
    static const size_t takes[] = { SIZE_MAX, SIZE_MAX, 0, 1, 61, 300 };
    struct tc_rng rng = tc_rng((uint64_t)_i);
    uint64_t cookie = 0;

    start_both(_i & 1);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct step step = random_step(&rng, cookie);

        if (step.kind == ARM || (step.kind == POST && (room_of(&twins[ALONE]) < step.count ||
                                                       room_of(&twins[GENERAL]) < step.count)))
            step.kind = PASS;
        recording_takes = takes[tc_below(&rng, 6)];
        for (uint32_t k = 0; step.kind == POST && k < step.count; k++)
            step.request[k].flags |= RI_WR_SIGNALED; /* each has room in its CQ */
        for (int way = 0; way < WAYS; way++) {
            uint32_t result;

            ck_assert_int_eq(take_step(&twins[way], &step, &result), RI_OK);
        }
        cookie += step.kind == POST ? step.count : 0;
    }
    recording_takes = SIZE_MAX;
    for (int way = 0; way < WAYS; way++) {
        ck_assert(fake_host_until(&twins[way].bed.fake, all_sent(&twins[way]), TESTBED_TIMEOUT));
        while (poll(&twins[way], 4))
            ;
    }
    expect_same_completions(0);
    expect_same_octets();
    ck_assert_uint_eq(twins[ALONE].completions, cookie);
    ck_assert_uint_gt(wires[ALONE].alone, 10);
    finish_both();
}
END_TEST

/* Memory without read access ends the connection, and requests behind it are flushed. */
START_TEST(same_end)
{
    struct step step = { .kind = POST, .count = 1 };
    uint32_t result;

    start_both(true);
    for (uint32_t i = 0; i < 6; i++) {
        step.cookie = i;
        step.request[0].opcode = _i & 1 ? RI_WR_SEND : RI_WR_RDMA_WRITE;
        step.request[0].flags = _i & 2 ? RI_WR_SIGNALED : 0;
        step.request[0].length = 64;
        step.request[0].elements = 1;
        step.request[0].foreign = i == 3;
        for (int way = 0; way < WAYS; way++)
            ck_assert_int_eq(take_step(&twins[way], &step, &result), RI_OK);
    }
    for (int way = 0; way < WAYS; way++) {
        while (poll(&twins[way], 4))
            ;
        side_expect_event(side_of(&twins[way]), RI_EVENT_LOCAL_ERROR, 0);
    }
    expect_same_completions(0);
    ck_assert_uint_eq(twins[ALONE].completions, _i & 2 ? 6 : 3);
    ck_assert_uint_eq(twins[ALONE].wc[_i & 2 ? 3 : 0].status, RI_WC_LOCAL_PROTECTION);
    expect_same_octets();
    finish_both();
}
END_TEST

/* ---- Reads ---- */

#define REQUEST 52u /* octets of its FPDU */
#define SINK_AT 20u /* their offset in it; the values differ between the RNICs */
#define SINK    12u

static enum ri_status post_read(struct twin *twin, uint64_t cookie, uint32_t length, uint16_t flags)
{
    struct ri_sge sge = region_sge(&twin->region, 0, length);

    if (twin == &twins[GENERAL])
        twin_qp(twin)->tx.short_below = twin_qp(twin)->tx.single_below = 0;
    return side_post(side_of(twin), RI_WR_RDMA_READ, cookie, flags, &sge, 1,
                     0x1122334455667700 + cookie, 0xa1b2c3d4);
}

static void expect_same_requests(uint32_t count)
{
    uint8_t *one = wires[ALONE].octets, *other = wires[GENERAL].octets;

    ck_assert_uint_eq(wires[ALONE].used, count * REQUEST);
    ck_assert_uint_eq(wires[GENERAL].used, count * REQUEST);
    for (uint32_t i = 0; i < count; i++, one += REQUEST, other += REQUEST) {
        ck_assert(!twin_qp(&twins[ALONE])->framing.crc || mpa_crc_right(one, REQUEST));
        ck_assert(twin_qp(&twins[ALONE])->framing.crc || !mpa_get_crc(one + REQUEST - MPA_CRC_LEN));
        ck_assert_uint_eq(be_get32(one + SINK_AT), twins[ALONE].region.keys.lkey);
        ck_assert_uint_eq(be_get64(one + SINK_AT + 4), (uintptr_t)twins[ALONE].region.octets);
        memset(one + SINK_AT, 0, SINK);
        memset(other + SINK_AT, 0, SINK);
        ck_assert(!memcmp(one, other, REQUEST - MPA_CRC_LEN));
    }
}

/* As many as ORD allows, in whole or in parts. The others wait, and complete with their
 * responses. */
START_TEST(same_reads)
{
    enum { ORD = 8, COUNT = 12 };

    start_both(_i & 1);
    wires[ALONE].used = wires[GENERAL].used = wires[ALONE].compared = 0;
    recording_takes = _i & 2 ? 20 : SIZE_MAX;
    for (uint32_t i = 0; i < COUNT; i++)
        for (int way = 0; way < WAYS; way++) {
            ck_assert_int_eq(post_read(&twins[way], i, 1 + 100 * i, i & 1 ? RI_WR_SIGNALED : 0),
                             RI_OK);
            fake_host_run(&twins[way].bed.fake, side_of(&twins[way])->send_cq);
        }
    recording_takes = SIZE_MAX;
    for (int way = 0; way < WAYS; way++) {
        struct iwarp_qp *qp = twin_qp(&twins[way]);

        ck_assert(fake_host_until(&twins[way].bed.fake, !qp->tx.batch.octets, TESTBED_TIMEOUT));
        ck_assert_uint_eq(atomic_load(&qp->reads.ord_in), ORD);
        ck_assert_uint_eq(atomic_load(&qp->core.sq.sent), ORD);
        ck_assert_uint_eq(atomic_load(&qp->core.sq.done), 0);
        ck_assert_uint_eq(poll(&twins[way], 4), 0);
    }
    expect_same_requests(ORD);
    ck_assert_uint_gt(wires[ALONE].alone, 0);
    ck_assert_uint_eq(wires[GENERAL].alone, 0);
    finish_both();
}
END_TEST

/* A sink without write access ends the connection. */
START_TEST(same_end_of_a_read)
{
    start_both(true);
    for (int way = 0; way < WAYS; way++) {
        ck_assert_int_eq(post_read(&twins[way], 1, OCTETS + 1, _i ? RI_WR_SIGNALED : 0), RI_OK);
        while (poll(&twins[way], 4))
            ;
        side_expect_event(side_of(&twins[way]), RI_EVENT_LOCAL_ERROR, 0);
    }
    expect_same_completions(0);
    ck_assert_uint_eq(twins[ALONE].wc[0].status, RI_WC_LOCAL_PROTECTION);
    expect_same_octets();
    finish_both();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma lone posts");
    TCase *same = tc_case(suite, "same", setup, NULL);

    tc_add_loops(same, 0, 4, same_for_random_steps, same_over_a_full_socket, same_end, same_reads);
    tcase_add_loop_test(same, same_end_of_a_read, 0, 2);
    return tc_main(suite);
}

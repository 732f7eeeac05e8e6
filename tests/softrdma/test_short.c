/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Short messages are built in one step, others the general way: the octets are the same. And which posts gather, in which
 * writes they leave, over a lower layer that notes each write.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "noted.h"

#include "providers/softrdma/ddp.h"
#include "providers/softrdma/mpa.h"
#include "providers/softrdma/softrdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct rig rig;
static struct side *const a = &rig.side[0], *const b = &rig.side[1];
static struct region region[2];
static int far_ends[2];

static struct qp *qp_of(struct side *side)
{
    return container_of(side->qp, struct qp, base);
}

static void start(struct side *side, bool crc)
{
    struct ri_llp_handover handover = {
        .size = sizeof(handover), .initiator = true, .mpa_revision = 2, .crc = crc
    };
    int fds[2], who = side != a;

    side_open(&rig, side, &(struct shape){ .depth = 512, .cqe = 1024 });
    rig_tcp(fds, 0);
    handover.fd = fds[0];
    far_ends[who] = fds[1];
    ck_assert_int_eq(qp_start(qp_of(side), &handover, &noted), RI_OK);
    region[who] = region_new(side, 4096, RIG_ALL);
    for (uint32_t i = 0; i < 4096; i++)
        region[who].octets[i] = (uint8_t)(i * 7 + (i >> 8));
    tx_kick(qp_of(side)); /* its first message is out */
}

static void finish(struct side *side)
{
    region_free(side, &region[side != a]);
    close(far_ends[side != a]);
}

static void setup(void)
{
    memset(wires, 0, sizeof(wires));
    noted_takes = SIZE_MAX;
    noted_emss = 1460;
    rig_open(&rig, NULL);
}

static void teardown(void)
{
    rig_close(&rig);
}

static void post(struct side *side, enum ri_wr_opcode opcode, uint16_t flags, uint64_t cookie,
                 uint32_t offset, uint32_t length)
{
    struct ri_sge sge = region_sge(&region[side != a], offset, length);

    ck_assert_int_eq(
        side_post(side, opcode, cookie, flags, &sge, 1, 0x1122334455667700 + offset, 0xa1b2c3d4),
        RI_OK);
}

/* ---- both ways ---- */

/* Until the EMSS is looked at again: nothing of this side takes a short way. */
static void general_only(struct side *side)
{
    qp_of(side)->short_below = qp_of(side)->alone_below = 0;
}

static void take_all(struct side *side, uint64_t from, uint64_t count, uint32_t length)
{
    for (uint64_t i = from; i < from + count; i++)
        side_expect(side, side->send_cq, i, RI_WC_SUCCESS, length);
}

/* With CRC and without, all lengths around what is short, all offsets in a word, whole and in little writes. */
START_TEST(same_octets_both_ways)
{
    static const struct {
        enum ri_wr_opcode opcode;
        uint16_t flags;
    } kinds[] = { { RI_WR_SEND, 0 }, { RI_WR_SEND, RI_WR_SOLICITED }, { RI_WR_RDMA_WRITE, 0 } };
    uint64_t cookie = 0;

    start(a, _i & 1);
    start(b, _i & 1);
    noted_takes = _i & 2 ? 61 : SIZE_MAX;
    for (uint32_t kind = 0; kind < 3; kind++) {
        for (uint32_t length = 0; length <= TX_COPY_OCTETS + 2; length++, cookie++) {
            for (int who = 0; who < 2; who++) {
                struct side *side = &rig.side[who];

                if (who)
                    general_only(side);
                post(side, kinds[kind].opcode, kinds[kind].flags | RI_WR_SIGNALED, cookie,
                     length % 9, length);
                take_all(side, cookie, 1, length);
            }
            ck_assert_uint_eq(wires[0].used, wires[1].used);
            ck_assert_msg(!memcmp(wires[0].octets, wires[1].octets, wires[0].used),
                          "kind %u, %u octets", kind, length);
            if (wires[0].used > NOTED_ROOM / 2)
                wires[0].used = wires[1].used = 0;
        }
    }
    ck_assert_uint_eq(qp_of(a)->send_msn, qp_of(b)->send_msn);
    finish(a);
    finish(b);
}
END_TEST

/* Many in one write, short and long mixed. */
START_TEST(same_octets_in_batches)
{
    struct tc_rng rng = tc_rng(1);

    start(a, true);
    start(b, true);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t lengths[32];

        for (uint32_t i = 0; i < 32; i++)
            lengths[i] = (uint32_t)tc_below(&rng, tc_below(&rng, 4) ? 257 : 3000);
        for (int who = 0; who < 2; who++) {
            uint32_t before = wires[who].writes;

            if (who)
                general_only(b);
            for (uint32_t i = 0; i < 32; i++)
                post(&rig.side[who], i & 1 ? RI_WR_SEND : RI_WR_RDMA_WRITE,
                     RI_WR_SIGNALED | (i < 31 ? RI_WR_COALESCE : 0), i, 0, lengths[i]);
            ck_assert_uint_eq(wires[who].writes, before + 1);
            for (uint32_t i = 0; i < 32; i++)
                side_expect(&rig.side[who], rig.side[who].send_cq, i, RI_WC_SUCCESS, lengths[i]);
        }
        ck_assert_uint_eq(wires[0].used, wires[1].used);
        ck_assert(!memcmp(wires[0].octets, wires[1].octets, wires[0].used));
    }
    finish(a);
    finish(b);
}
END_TEST

/* What the short way refuses fails as ever, and nothing of it leaves. */
START_TEST(short_request_of_foreign_memory)
{
    struct ri_sge sge;
    size_t before;

    start(a, true);
    before = wires[0].used;
    sge = region_sge(&region[0], 4096 - 8, 9);
    ck_assert_int_eq(side_post(a, RI_WR_SEND, 1, 0, &sge, 1, 0, 0), RI_OK);
    side_expect(a, a->send_cq, 1, RI_WC_LOCAL_PROTECTION, 0);
    ck_assert_uint_le(wires[0].used, before + 2 + 18 + 4 + 4); /* a Terminate */
    finish(a);
}
END_TEST

/* ---- gathering ---- */

static void pass(struct ri_cq *cq)
{
    fake_host_run(&rig.fake, cq);
}

static struct ri_wc take_one(void)
{
    struct ri_wc wc = { .cookie = UINT64_MAX };

    rig.fake.user.poll(a->send_cq, 1, &wc);
    return wc;
}

/* Two passes that find nothing. */
static void become_poller(void)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig.fake.user.poll(a->send_cq, 1, &(struct ri_wc){ .cookie = 0 }), 0);
        pass(a->send_cq);
    }
}

static void expect_writes(uint32_t writes)
{
    ck_assert_uint_eq(wires[0].writes, writes);
    wires[0].writes = 0;
}

static void open_a(void)
{
    start(a, true);
    wires[0].writes = 0;
}

START_TEST(who_does_not_poll_gathers_nothing)
{
    open_a();
    if (_i) { /* he did, and waits now */
        become_poller();
        ck_assert_int_eq(rig.fake.user.arm(_i == 1 ? a->send_cq : a->recv_cq, RI_ARM_NEXT, 0),
                         RI_OK);
    }
    for (uint64_t i = 0; i < 5; i++)
        post(a, RI_WR_SEND, RI_WR_SIGNALED, i, 0, 8);
    expect_writes(5);
    take_all(a, 0, 5, 8);
    if (_i == 1) { /* the completion ended a wait; the first pass of the next one changes nothing */
        ck_assert_int_eq(rig.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0), RI_OK);
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 5, 0, 8);
        ck_assert_uint_eq(take_one().cookie, 5);
        pass(a->send_cq);
        wires[0].writes = 0;
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 6, 0, 8);
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 7, 0, 8);
        expect_writes(2);
    }
    finish(a);
}
END_TEST

/* The first leaves, others with the next look: a poll that takes the last completion, a pass, arming. */
START_TEST(posts_behind_the_first_gather)
{
    enum { POLL, PASS, ARM, CLOSE };

    open_a();
    become_poller();
    post(a, RI_WR_SEND, RI_WR_SIGNALED, 0, 0, 8);
    expect_writes(1);
    for (uint64_t i = 1; i < 5; i++)
        post(a, RI_WR_SEND, RI_WR_SIGNALED, i, 0, 8);
    expect_writes(0);
    ck_assert(!rig.fake.user.lane_arm(rig.fake.lane)); /* nobody sleeps over it */
    switch (_i) {
    case POLL: ck_assert_uint_eq(take_one().cookie, 0); break;
    case PASS: pass(NULL); break;
    case ARM: ck_assert_int_eq(rig.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0), RI_OK); break;
    default: side_modify(a, RI_QPS_CLOSING);
    }
    expect_writes(_i == CLOSE ? wires[0].writes : 1);
    ck_assert(_i == CLOSE || rig.fake.user.lane_arm(rig.fake.lane));
    take_all(a, _i == POLL, _i == POLL ? 4 : 5, 8);
    finish(a);
}
END_TEST

/* A lone post after each look never waits. */
START_TEST(lone_posts_leave_at_once)
{
    open_a();
    become_poller();
    for (uint64_t i = 0; i < 40; i++) {
        post(a, RI_WR_SEND, RI_WR_SIGNALED, i, 0, 8);
        expect_writes(1);
        ck_assert_uint_eq(take_one().cookie, i);
    }
    finish(a);
}
END_TEST

static bool woken(void)
{
    eventfd_t count = 0;

    eventfd_read(rig.fake.event, &count);
    ck_assert_uint_le(count, 1);
    return count;
}

/* Who sleeps for the lane is woken when something begins to gather, once; a consumer's pass tells that nobody does. */
START_TEST(a_sleeper_is_woken_once)
{
    open_a();
    become_poller();
    woken();
    for (int asked = 0; asked < 2; asked++) {
        ck_assert(rig.fake.user.lane_arm(rig.fake.lane));
        for (uint64_t i = 0; i < 3; i++)
            post(a, RI_WR_SEND, asked ? RI_WR_COALESCE : 0, i, 0, 8);
        expect_writes(!asked);
        ck_assert(woken());
        ck_assert(!rig.fake.user.lane_arm(rig.fake.lane));
        pass(a->send_cq);
        expect_writes(1);
        post(a, RI_WR_SEND, 0, 3, 0, 8);
        post(a, RI_WR_SEND, 0, 4, 0, 8);
        pass(a->send_cq);
        ck_assert(!woken());
        wires[0].writes = 0;
    }
    finish(a);
}
END_TEST

/* A batch that is full leaves without a look; and a stream of posts gathers from its first one on. */
START_TEST(full_batches_leave)
{
    uint32_t writes;

    open_a();
    become_poller();
    for (uint64_t i = 0; i < 400; i++)
        post(a, RI_WR_RDMA_WRITE, 0, i, 0, 256);
    writes = wires[0].writes;
    ck_assert_uint_ge(writes, 2);
    ck_assert_uint_le(writes, 4);
    post(a, RI_WR_RDMA_WRITE, RI_WR_SIGNALED, 400, 0, 256);
    pass(a->send_cq);
    ck_assert_uint_eq(take_one().cookie, 400);
    wires[0].writes = 0;
    post(a, RI_WR_RDMA_WRITE, 0, 401, 0, 256);
    expect_writes(0);
    pass(a->send_cq);
    expect_writes(1);
    finish(a);
}
END_TEST

/* With the EMSS of loopback the last of 16 messages of 64 KiB ends a little behind the aimed-at length: no write for that alone. */
START_TEST(no_message_in_several_writes)
{
    enum { LARGE = 65536, COUNT = 16 };
    struct region large;
    struct ri_sge sge;

    noted_emss = 65483;
    open_a();
    large = region_new(a, LARGE, RIG_ALL);
    sge = region_sge(&large, 0, LARGE);
    become_poller();
    post(a, RI_WR_SEND, 0, 0, 0, 8);
    expect_writes(1);
    for (uint64_t i = 1; i <= COUNT; i++)
        ck_assert_int_eq(
            side_post(a, _i ? RI_WR_RDMA_WRITE : RI_WR_SEND, i, RI_WR_SIGNALED, &sge, 1, 0, 0),
            RI_OK);
    expect_writes(1);
    take_all(a, 1, COUNT, LARGE);
    region_free(a, &large);
    finish(a);
}
END_TEST

/* ---- leads ---- */

/* All that was written is one message, from the region's first octet on, in whole FPDUs with a right CRC. Octets of the first. */
static size_t expect_message(const struct region *from, uint32_t length, bool tagged, uint64_t to)
{
    const uint32_t header = ddp_hdr_len(tagged);
    size_t at = 0, first = 0, need;
    struct mpa_fpdu fpdu;
    struct ddp_hdr hdr;
    uint32_t offset = 0;

    for (; at < wires[0].used; at += fpdu.size) {
        ck_assert_int_eq(mpa_scan(wires[0].octets + at, wires[0].used - at, &fpdu, &need), MPA_OK);
        ck_assert_int_eq(mpa_check(&fpdu, true), MPA_OK);
        ck_assert_int_eq(ddp_get(fpdu.ulpdu, fpdu.ulpdu_len, &hdr), DDP_OK);
        ck_assert(hdr.tagged == tagged && (tagged ? hdr.to == to + offset : hdr.mo == offset));
        ck_assert(!memcmp(fpdu.ulpdu + header, from->octets + offset, fpdu.ulpdu_len - header));
        offset += fpdu.ulpdu_len - header;
        ck_assert(hdr.last == (offset == length));
        ck_assert_uint_le(fpdu.size, noted_emss);
        ck_assert(!at || fpdu.ulpdu_len - header <= SEGMENT_MOST);
        first = first ? first : fpdu.size;
    }
    ck_assert_uint_eq(offset, length);
    return first;
}

/* A lone message longer than a large TCP segment leaves in two writes, the first one FPDU; others, and those of several, in one. */
START_TEST(lone_long_messages_have_a_lead)
{
    enum { SEGMENT = 64768 - DDP_UNTAGGED_LEN, MOST = LEAD_SEGMENTS * SEGMENT };
    static const struct {
        uint32_t emss, length, lead;
    } cases[] = {
        { 65483, 65536, 40960 },    { 65483, SEGMENT, 0 },    { 65483, SEGMENT + 1, 40465 },
        { 65483, 110000, SEGMENT }, { 65483, MOST, SEGMENT }, { 65483, MOST + 1, 0 },
        { 8948, 65536, 0 },
    };
    struct region large;
    struct ri_sge sge;

    noted_emss = cases[_i / 2].emss;
    open_a();
    large = region_new(a, MOST + 1, RIG_ALL);
    for (uint32_t i = 0; i < MOST + 1; i++)
        large.octets[i] = (uint8_t)(i * 7 + (i >> 8));
    sge = region_sge(&large, 0, cases[_i / 2].length);
    for (uint32_t posts = 1; posts <= 2; posts++) {
        uint32_t lead = posts == 1 ? cases[_i / 2].lead : 0;
        size_t first = 0;

        wires[0].used = 0;
        for (uint32_t i = 1; i <= posts; i++)
            side_post(a, _i & 1 ? RI_WR_RDMA_WRITE : RI_WR_SEND, i,
                      RI_WR_SIGNALED | (i < posts ? RI_WR_COALESCE : 0), &sge, 1, 4096, 5);
        if (posts == 1)
            first = expect_message(&large, sge.length, _i & 1, 4096);
        if (lead)
            ck_assert_uint_eq(first, mpa_fpdu_len(ddp_hdr_len(_i & 1) + lead));
        ck_assert(!lead || first == wires[0].first);
        expect_writes(lead ? 2 : 1);
        take_all(a, 1, posts, sge.length);
    }
    region_free(a, &large);
    finish(a);
}
END_TEST

/* Destroyed with posts held: they leave. */
START_TEST(destroy_sends_what_gathers)
{
    open_a();
    become_poller();
    post(a, RI_WR_SEND, 0, 0, 0, 8);
    post(a, RI_WR_SEND, 0, 1, 0, 8);
    expect_writes(1);
    finish(a);
    side_close(a);
    ck_assert_uint_ge(wires[0].writes, 1);
    pass(NULL);
}
END_TEST

static void *run_pass(void *unused)
{
    (void)unused;
    pass(NULL);
    return NULL;
}

/* A pass has taken the QP off the list; before it goes on one list of posts ends and another begins. */
START_TEST(destroy_after_a_pass_was_overtaken)
{
    struct lane *lane;
    pthread_t passing;
    struct qp *qp;

    open_a();
    qp = qp_of(a);
    lane = qp->lane;
    post(a, RI_WR_SEND, RI_WR_COALESCE, 0, 0, 8);
    ck_assert_ptr_eq(lane->gathered, qp);
    spinlock_lock(&qp->sq.posting);
    pthread_create(&passing, NULL, run_pass, NULL);
    ck_assert(tc_until(!atomic_load(&lane->gathered_count), RIG_TIMEOUT));
    tx_gather_slowly(qp, &(struct gather_post){ .requests = 2 });
    tx_gather_slowly(qp, &(struct gather_post){ .requests = 1, .small = 8, .asked = true });
    spinlock_unlock(&qp->sq.posting);
    pthread_join(passing, NULL);
    finish(a);
    side_close(a);
    ck_assert_ptr_null(lane->gathered); /* nobody meets a QP that is gone */
}
END_TEST

/* Another thread has taken it off the list and is about to send it. */
START_TEST(close_while_another_sends_what_gathers)
{
    open_a();
    post(a, RI_WR_SEND, RI_WR_COALESCE | RI_WR_SIGNALED, 0, 0, 8);
    spinlock_lock(&qp_of(a)->sq.posting);
    qp_of(a)->gathering = false;
    spinlock_unlock(&qp_of(a)->sq.posting);
    side_modify(a, RI_QPS_CLOSING);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 8);
    finish(a);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("softrdma short messages");
    TCase *both = tcase_create("both ways"), *gather = tcase_create("gathering");

    tcase_add_checked_fixture(both, setup, teardown);
    tcase_add_checked_fixture(gather, setup, teardown);
    tcase_add_loop_test(both, same_octets_both_ways, 0, 4);
    tcase_add_test(both, same_octets_in_batches);
    tcase_add_test(both, short_request_of_foreign_memory);
    suite_add_tcase(suite, both);
    tcase_add_loop_test(gather, who_does_not_poll_gathers_nothing, 0, 3);
    tcase_add_loop_test(gather, posts_behind_the_first_gather, 0, 4);
    tcase_add_test(gather, lone_posts_leave_at_once);
    tcase_add_test(gather, a_sleeper_is_woken_once);
    tcase_add_test(gather, full_batches_leave);
    tcase_add_loop_test(gather, lone_long_messages_have_a_lead, 0, 14);
    tcase_add_loop_test(gather, no_message_in_several_writes, 0, 2);
    tcase_add_test(gather, destroy_sends_what_gathers);
    tcase_add_test(gather, destroy_after_a_pass_was_overtaken);
    tcase_add_test(gather, close_while_another_sends_what_gathers);
    suite_add_tcase(suite, gather);
    return suite;
}

int main(void)
{
    return tc_main(suite());
}

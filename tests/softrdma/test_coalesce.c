/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which posts wait for others, and in which writes they leave, over a lower layer that records each
 * write.
 */
#include "short_bed.h"

#include "base/compiler.h"
#include "base/crc32c.h"
#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/wire_iwarp.h"

#include <sys/eventfd.h>

static void pass(struct ri_cq *cq)
{
    fake_host_run(&bed.fake, cq);
}

static struct ri_wc take_one(void)
{
    struct ri_wc wc = { .cookie = UINT64_MAX };

    bed.fake.user.poll(a->send_cq, 1, &wc);
    return wc;
}

/* Two passes without result. */
static void become_poller(void)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(bed.fake.user.poll(a->send_cq, 1, &(struct ri_wc){ .cookie = 0 }), 0);
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
    if (_i) { /* polled before and waits now */
        become_poller();
        ck_assert_int_eq(bed.fake.user.arm(_i == 1 ? a->send_cq : a->recv_cq, RI_ARM_NEXT, 0),
                         RI_OK);
    }
    for (uint64_t i = 0; i < 5; i++)
        post(a, RI_WR_SEND, RI_WR_SIGNALED, i, 0, 8);
    expect_writes(5);
    take_all(a, 0, 5, 8);
    if (_i == 1) { /* a completion ended the wait; the first pass of the next one has no effect */
        ck_assert_int_eq(bed.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0), RI_OK);
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 5, 0, 8);
        ck_assert_uint_eq(take_one().cookie, 5);
        pass(a->send_cq);
        wires[0].writes = 0;
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 6, 0, 8);
        post(a, RI_WR_SEND, RI_WR_SIGNALED, 7, 0, 8);
        expect_writes(2);
    }
}
END_TEST

/* The first post leaves at once. The others leave with the next poll: one that takes the last
 * completion, a pass, or arming. */
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
    ck_assert(!bed.fake.user.lane_arm(bed.fake.lane)); /* the lane may not sleep */
    switch (_i) {
    case POLL: ck_assert_uint_eq(take_one().cookie, 0); break;
    case PASS: pass(NULL); break;
    case ARM: ck_assert_int_eq(bed.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0), RI_OK); break;
    default: side_modify(a, RI_QPS_CLOSING);
    }
    expect_writes(_i == CLOSE ? wires[0].writes : 1);
    ck_assert(_i == CLOSE || bed.fake.user.lane_arm(bed.fake.lane));
    take_all(a, _i == POLL, _i == POLL ? 4 : 5, 8);
}
END_TEST

/* A lone post after each poll never waits. */
START_TEST(lone_posts_leave_at_once)
{
    open_a();
    become_poller();
    for (uint64_t i = 0; i < 40; i++) {
        post(a, RI_WR_SEND, RI_WR_SIGNALED, i, 0, 8);
        expect_writes(1);
        ck_assert_uint_eq(take_one().cookie, i);
    }
}
END_TEST

static bool woken(void)
{
    eventfd_t count = 0;

    eventfd_read(bed.fake.events.event, &count);
    ck_assert_uint_le(count, 1);
    return count;
}

/* A thread that sleeps for the lane is woken once when the first post is batched. A consumer's pass
 * shows that no thread sleeps. */
START_TEST(a_sleeper_is_woken_once)
{
    open_a();
    become_poller();
    woken();
    for (int asked = 0; asked < 2; asked++) {
        ck_assert(bed.fake.user.lane_arm(bed.fake.lane));
        for (uint64_t i = 0; i < 3; i++)
            post(a, RI_WR_SEND, asked ? RI_WR_COALESCE : 0, i, 0, 8);
        expect_writes(!asked);
        ck_assert(woken());
        ck_assert(!bed.fake.user.lane_arm(bed.fake.lane));
        pass(a->send_cq);
        expect_writes(1);
        post(a, RI_WR_SEND, 0, 3, 0, 8);
        post(a, RI_WR_SEND, 0, 4, 0, 8);
        pass(a->send_cq);
        ck_assert(!woken());
        wires[0].writes = 0;
    }
}
END_TEST

static bool arm_lane(void)
{
    return bed.fake.user.lane_arm(bed.fake.lane);
}

static uint64_t deadline_of_pass(void)
{
    uint64_t deadline;

    bed.fake.user.progress(bed.fake.lane, NULL, 64, &deadline);
    return deadline;
}

/* A lane refuses to be armed if the pass before did not say until when, or that is over. */
static uint64_t deadline_of_armed_lane(void)
{
    uint64_t deadline;
    int tries = 0;

    do {
        deadline = deadline_of_pass();
        ck_assert_int_lt(tries++, 100);
    } while (!arm_lane());
    return deadline;
}

static void await(uint64_t when)
{
    while (tc_now_ns() < when)
        ;
}

/* Without posts that wait the sleep has no end. */
static void arm_without_end(void)
{
    uint64_t deadline;

    while ((deadline = deadline_of_armed_lane()) != RI_NO_DEADLINE)
        await(deadline);
    woken();
}

/* A consumer that polls, large TCP segments, and what its large Writes send. */
static struct region open_streaming_poller(void)
{
    recording_emss = 65483;
    open_a();
    become_poller();
    return region_new(a, 65536, TESTBED_ALL);
}

/* A large post wakes nobody: it leaves at once while a thread sleeps, and waits for others while
 * none does. Octets of one Write, below and above the bound. */
START_TEST(large_posts_wake_nobody)
{
    const bool large = _i == 1;
    struct region source;
    struct ri_sge sge;

    source = open_streaming_poller();
    sge = region_sge(&source, 0, large ? 65536 : 16384);
    for (int sleeper = 1; sleeper >= 0; sleeper--) {
        woken();
        ck_assert(!sleeper || arm_lane());
        wires[0].writes = 0;
        for (uint64_t i = 0; i < 3; i++)
            side_post(a, RI_WR_RDMA_WRITE, i, 0, &sge, 1, 4096, 5);
        ck_assert(woken() == (sleeper && !large));
        ck_assert(arm_lane() == (sleeper && large));
        pass(a->send_cq);
    }
}
END_TEST

/* The CQ is never empty, so the consumer makes no pass. */
static void post_large(const struct ri_sge *sge)
{
    static uint64_t cookie;

    wires[0].used = 0;
    side_post(a, RI_WR_RDMA_WRITE, ++cookie, RI_WR_SIGNALED, sge, 1, 4096, 5);
    if (ri_ring_count(&container_of(a->send_cq, struct cq, base)->ring) > 1)
        take_one();
}

static uint32_t large_posts_until_woken(const struct ri_sge *sge)
{
    uint32_t posts = 1;

    pass(a->send_cq);
    arm_without_end();
    for (post_large(sge); !woken() && posts < 1000; posts++)
        post_large(sge);
    return posts;
}

/* A sleeper whose consumer needs no pass is woken after a while: then large posts wait for others,
 * too. If a thread is soon asleep again the next one is woken later. */
START_TEST(large_posts_that_go_on_wake_once)
{
    struct region source;
    struct ri_sge sge;
    uint32_t first, second;

    source = open_streaming_poller();
    sge = region_sge(&source, 0, 65536);
    first = large_posts_until_woken(&sge);
    ck_assert_uint_gt(first, 16);
    second = large_posts_until_woken(&sge);
    ck_assert_uint_gt(second, first + first / 2);
    ck_assert_uint_gt(large_posts_until_woken(&sge), second + second / 2);
    wires[0].writes = 0;
    for (int i = 0; i < 200; i++)
        post_large(&sge);
    ck_assert_uint_lt(wires[0].writes, 100);
    ck_assert(!woken());
    ck_assert_uint_le(large_posts_until_woken(&sge), first + 1); /* it was worth it */
}
END_TEST

/* An event-driven consumer that always finds completions. A sleep for the lane after large posts
 * waited lasts a millisecond at most, and is not woken: the posts leave by then. Each sleep
 * is as short while posts wait; then it has no end. */
START_TEST(posts_that_wait_bound_the_sleep)
{
    struct region source;
    struct ri_sge sge;
    uint64_t deadline;

    source = open_streaming_poller();
    sge = region_sge(&source, 0, 65536);
    large_posts_until_woken(&sge);
    for (uint64_t i = 0; i < 4; i++) {
        deadline = deadline_of_armed_lane();
        ck_assert_uint_le(deadline, tc_now_ns() + 1000000);
        for (uint64_t j = 0; j < 2; j++)
            if (i & 1)
                post(a, RI_WR_SEND, 0, j, 0, 8);
            else
                side_post(a, RI_WR_RDMA_WRITE, j, 0, &sge, 1, 4096, 5);
        ck_assert(!woken());
        wires[0].writes = 0;
        await(deadline);
        deadline_of_pass();
        expect_writes(1);
    }
    await(deadline_of_armed_lane());
    ck_assert_uint_eq(deadline_of_armed_lane(), RI_NO_DEADLINE);
}
END_TEST

/* What is left to the lane does not wait for the end of a short sleep. */
START_TEST(work_for_the_lane_ends_a_short_sleep)
{
    struct region source;
    struct ri_sge sge;

    source = open_streaming_poller();
    sge = region_sge(&source, 0, 65536);
    large_posts_until_woken(&sge);
    ck_assert_uint_ne(deadline_of_armed_lane(), RI_NO_DEADLINE);
    side_post(a, RI_WR_RDMA_WRITE, 1, 0, &sge, 1, 4096, 5);
    side_post(a, RI_WR_RDMA_WRITE, 2, 0, &sge, 1, 4096, 5);
    ck_assert(!woken());
    tx_defer_to_lane(container_of(a->qp, struct qp, base));
    ck_assert(woken());
}
END_TEST

/* A full batch leaves without a poll. A continuous stream of posts is batched from its first one
 * on. */
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
}
END_TEST

/* ---- how much leaves in one write ---- */

/* Everything written so far is `count` messages of this length, each from the region's first octet
 * on, in whole FPDUs with a correct CRC. */
static void expect_messages(const struct region *from, uint32_t length, uint32_t count, bool tagged,
                            bool crc)
{
    const uint32_t header = ddp_hdr_len(tagged);
    uint32_t offset = 0, write = 0;
    struct mpa_fpdu fpdu;
    struct ddp_hdr hdr;
    size_t need;

    for (size_t at = 0; at < wires[0].used; at += fpdu.size) {
        ck_assert_int_eq(mpa_scan(wires[0].octets + at, wires[0].used - at, &fpdu, &need), MPA_OK);
        ck_assert_int_eq(mpa_check(&fpdu, crc), MPA_OK);
        ck_assert_int_eq(ddp_get(fpdu.ulpdu, fpdu.ulpdu_len, &hdr), DDP_OK);
        ck_assert(hdr.tagged == tagged && (tagged ? hdr.to == 4096 + offset : hdr.mo == offset));
        ck_assert(!memcmp(fpdu.ulpdu + header, from->octets + offset, fpdu.ulpdu_len - header));
        ck_assert_uint_le(fpdu.size, recording_emss);
        offset += fpdu.ulpdu_len - header;
        ck_assert(hdr.last == (offset == length));
        count -= hdr.last;
        offset = hdr.last ? 0 : offset;
        ck_assert_uint_le(at + fpdu.size, wires[0].ends[write]);
        write += at + fpdu.size == wires[0].ends[write];
    }
    ck_assert_uint_eq(offset, 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(write, wires[0].writes);
}

/* Writes that follow segments: of a lone message none is longer than one, of a stream none longer
 * than WRITE_SEGMENTS. All are nearly full except the two halves at the end of a lone message, or
 * the end of a stream. A half is one FPDU where nothing is summed. */
static void expect_segments(uint32_t posts, bool crc)
{
    uint32_t full = wires[0].writes - (posts == 1 ? 2 : 1);
    uint32_t most = posts == 1 ? recording_emss : WRITE_SEGMENTS * recording_emss;

    for (uint32_t i = 0; i < wires[0].writes; i++) {
        size_t octets = wires[0].ends[i] - (i ? wires[0].ends[i - 1] : 0);

        ck_assert_uint_le(octets, most);
        ck_assert(i >= full || octets + FPDU_LEAST > most - most / 16);
    }
    if (posts == 1) {
        size_t before = full ? wires[0].ends[full - 1] : 0, rest = wires[0].used - before;

        ck_assert_uint_ge(wires[0].ends[full] - before, rest / 2);
        ck_assert_uint_le(wires[0].ends[full] - before, rest / 2 + rest / 16);
        ck_assert(crc || before + mpa_fpdu_len(mpa_get_len(wires[0].octets + before)) ==
                             wires[0].ends[full]);
    }
}

/* With large TCP segments a write is some of them, otherwise it is as long as possible. */
START_TEST(writes_follow_large_segments)
{
    enum { LONGEST = 1 << 20 };
    static const struct {
        uint32_t emss, length, posts, writes;
        bool crc, segments;
    } cases[] = {
        { 65483, 65536, 1, 2, true, true },    { 65483, 65536, 1, 2, false, true },
        { 65483, 64000, 1, 1, true, false },   { 65483, 30000, 1, 1, true, false },
        { 65483, 262144, 1, 5, true, true },   { 65483, 262144, 1, 5, false, true },
        { 65483, LONGEST, 1, 17, true, true }, { 65483, LONGEST, 1, 17, false, true },
        { 65483, 65536, 16, 2, true, true },   { 65483, 65536, 16, 2, false, true },
        { 26000, 40000, 1, 2, true, true },    { 26000, 65536, 16, 3, true, false },
        { 8948, 262144, 1, 1, true, false },   { 1448, 65536, 1, 1, false, false },
    };
    const uint32_t length = cases[_i / 2].length, posts = cases[_i / 2].posts;
    const bool crc = cases[_i / 2].crc;
    struct region large;
    struct ri_sge sge;

    recording_emss = cases[_i / 2].emss;
    start(a, crc);
    large = region_new(a, LONGEST, TESTBED_ALL);
    region_fill(&large);
    sge = region_sge(&large, 0, length);
    wires[0].used = wires[0].writes = 0;
    for (uint32_t i = 1; i <= posts; i++)
        side_post(a, _i & 1 ? RI_WR_RDMA_WRITE : RI_WR_SEND, i,
                  RI_WR_SIGNALED | (i < posts ? RI_WR_COALESCE : 0), &sge, 1, 4096, 5);
    expect_messages(&large, length, posts, _i & 1, crc);
    ck_assert_uint_eq(wires[0].writes, cases[_i / 2].writes);
    if (cases[_i / 2].segments)
        expect_segments(posts, crc);
    take_all(a, 1, posts, length);
}
END_TEST

/* The peer says something: it writes one octet. */
static void hear(bool crc)
{
    static uint8_t fpdu[64];
    uint32_t length = DDP_TAGGED_LEN + 1, head = MPA_HDR_LEN + length;

    mpa_put_len(fpdu, length);
    ddp_put_tagged(fpdu + MPA_HDR_LEN, true, rdmap_ctrl(RDMAP_WRITE), region[0].keys.rkey,
                   (uintptr_t)region[0].octets);
    wires[0].arriving = fpdu;
    wires[0].arriving_octets = head +
                               mpa_put_trailer(fpdu + head, length, crc32c(0, fpdu, head), crc);
    lane_mark_ready(qp_of(a)->stream);
    pass(a->send_cq);
    ck_assert_uint_eq(wires[0].arriving_octets, 0);
}

/* A consumer that streams has one request to post for each completion: a message that follows
 * another without a word of the peer is not cut as a lone one. The first is, and the one that
 * answers the peer. */
START_TEST(messages_one_by_one_are_a_stream)
{
    enum { LONG = 1200000 }; /* 18 to 19 segments */
    static const struct {
        bool heard;
        uint32_t length, writes;
    } steps[] = {
        { false, 65536, 2 }, { false, 65536, 1 }, { false, LONG, 2 }, { true, 65536, 2 },
        { false, 65536, 1 }, { true, LONG, 19 },  { false, LONG, 2 }, { false, 64000, 1 }
    };
    const bool crc = _i < 2;
    struct region large;

    recording_emss = 65483;
    start(a, crc);
    large = region_new(a, LONG, TESTBED_ALL);
    region_fill(&large);
    for (uint32_t i = 0; i < ARRAY_SIZE(steps); i++) {
        struct ri_sge sge = region_sge(&large, 0, steps[i].length);

        if (steps[i].heard)
            hear(crc);
        wires[0].used = wires[0].writes = 0;
        side_post(a, _i & 1 ? RI_WR_RDMA_WRITE : RI_WR_SEND, i, RI_WR_SIGNALED, &sge, 1, 4096, 5);
        expect_messages(&large, steps[i].length, 1, _i & 1, crc);
        ck_assert_msg(wires[0].writes == steps[i].writes, "step %u: %u writes, expected %u", i,
                      wires[0].writes, steps[i].writes);
        take_all(a, i, 1, steps[i].length);
    }
}
END_TEST

/* On loopback a connection's first EMSS is small: half of the peer's first window. */
START_TEST(the_emss_is_learned_soon)
{
    enum { LENGTH = 65536 };
    struct region large;
    struct ri_sge sge;

    recording_emss = 32768;
    open_a();
    large = region_new(a, LENGTH, TESTBED_ALL);
    sge = region_sge(&large, 0, LENGTH);
    for (uint32_t i = 1; i <= 2; i++) {
        hear(true); /* each is a lone message */
        wires[0].used = wires[0].writes = 0;
        side_post(a, RI_WR_SEND, i, RI_WR_SIGNALED, &sge, 1, 0, 0);
        expect_messages(&large, LENGTH, 1, false, true);
        ck_assert_uint_eq(wires[0].writes, i == 1 ? 3 : 2);
        recording_emss = 65483;
    }
    take_all(a, 1, 2, LENGTH);
}
END_TEST

/* Messages that left whole before the first one with this RDMAP opcode. */
static uint32_t messages_before(uint8_t opcode)
{
    uint32_t count = 0;
    struct mpa_fpdu fpdu;
    size_t need;

    for (size_t at = 0; at < wires[0].used; at += fpdu.size) {
        ck_assert_int_eq(mpa_scan(wires[0].octets + at, wires[0].used - at, &fpdu, &need), MPA_OK);
        if ((fpdu.ulpdu[1] & RDMAP_CTRL_OP) == opcode)
            return count;
        count += (fpdu.ulpdu[0] & DDP_CTRL_L) != 0;
    }
    ck_abort_msg("no opcode %u in %zu octets", opcode, wires[0].used);
}

/* The next inbound Reads, each of `octets` from the region's first one on. */
static void ask(const struct region *from, uint32_t octets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        qp_of(a)->reads.ird_ring[i] = (struct inbound_read){ .source_stag = from->keys.rkey,
                                                             .source_to = (uintptr_t)from->octets,
                                                             .size = octets };
    atomic_store(&qp_of(a)->reads.ird_in, count);
}

/* Messages that fill exactly two batches have no room behind their ends: an answer leaves after
 * one of them, not after all. */
START_TEST(answers_have_their_turn)
{
    enum { LENGTH = 2 * WRITE_SEGMENTS * 64512, COUNT = 4 };
    struct region large;
    struct ri_sge sge;

    recording_emss = 65483;
    open_a();
    large = region_new(a, LENGTH, TESTBED_ALL);
    sge = region_sge(&large, 0, LENGTH);
    recording_takes = 0;
    wires[0].used = 0;
    for (uint32_t i = 1; i <= COUNT; i++)
        side_post(a, RI_WR_RDMA_WRITE, i, RI_WR_SIGNALED | (i < COUNT ? RI_WR_COALESCE : 0), &sge,
                  1, 4096, 5);
    ask(&region[0], 64, 1);
    recording_takes = SIZE_MAX;
    take_all(a, 1, COUNT, LENGTH);
    ck_assert_uint_le(messages_before(RDMAP_READ_RESP), 2);
}
END_TEST

/* The same of a request behind answers: without CRC those follow segments, too. */
START_TEST(requests_have_their_turn)
{
    enum { LENGTH = 2 * WRITE_SEGMENTS * 64704, COUNT = 3 };
    struct region large;

    recording_emss = 65483;
    start(a, false);
    large = region_new(a, LENGTH, TESTBED_ALL);
    recording_takes = 0;
    wires[0].used = 0;
    post(a, RI_WR_RDMA_WRITE, RI_WR_SIGNALED, 1, 0, 8);
    ask(&large, LENGTH, COUNT);
    post(a, RI_WR_SEND, RI_WR_SIGNALED, 2, 0, 8);
    recording_takes = SIZE_MAX;
    take_all(a, 1, 2, 8);
    ck_assert_uint_le(messages_before(RDMAP_SEND), 2); /* the Write and one answer */
    ck_assert(tc_until(atomic_load(&qp_of(a)->reads.ird_out) == COUNT, TESTBED_TIMEOUT));
}
END_TEST

/* A QP that is destroyed with batched posts sends them. */
START_TEST(destroy_sends_what_gathers)
{
    open_a();
    become_poller();
    post(a, RI_WR_SEND, 0, 0, 0, 8);
    post(a, RI_WR_SEND, 0, 1, 0, 8);
    expect_writes(1);
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

/* A pass has taken the QP off the list. Before the pass continues, one list of posts ends and
 * another begins. */
START_TEST(destroy_after_a_pass_was_overtaken)
{
    struct lane *lane;
    pthread_t passing;
    struct iwarp_qp *qp;

    open_a();
    qp = qp_of(a);
    lane = qp->core.lane;
    post(a, RI_WR_SEND, RI_WR_COALESCE, 0, 0, 8);
    ck_assert_ptr_eq(lane->coalesce.qps, qp);
    spinlock_lock(&qp->core.sq.posting);
    pthread_create(&passing, NULL, run_pass, NULL);
    ck_assert(tc_until(!atomic_load(&lane->coalesce.count), TESTBED_TIMEOUT));
    tx_coalesce_slowly(qp, &(struct coalesce_post){ .requests = 2 });
    tx_coalesce_slowly(qp, &(struct coalesce_post){ .requests = 1, .small = 8, .asked = true });
    spinlock_unlock(&qp->core.sq.posting);
    pthread_join(passing, NULL);
    side_close(a);
    ck_assert_ptr_null(lane->coalesce.qps); /* the list has no destroyed QP */
}
END_TEST

/* Another thread has taken it off the list and is about to send. */
START_TEST(close_while_another_sends_what_gathers)
{
    open_a();
    post(a, RI_WR_SEND, RI_WR_COALESCE | RI_WR_SIGNALED, 0, 0, 8);
    spinlock_lock(&qp_of(a)->core.sq.posting);
    qp_of(a)->coalesce.active = false;
    spinlock_unlock(&qp_of(a)->core.sq.posting);
    side_modify(a, RI_QPS_CLOSING);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma coalescing");
    TCase *gather = tc_case(suite, "gathering", setup, teardown);

    tcase_add_loop_test(gather, who_does_not_poll_gathers_nothing, 0, 3);
    tcase_add_loop_test(gather, posts_behind_the_first_gather, 0, 4);
    tc_add_tests(gather, lone_posts_leave_at_once, a_sleeper_is_woken_once);
    tcase_add_loop_test(gather, large_posts_wake_nobody, 0, 2);
    tc_add_tests(gather, large_posts_that_go_on_wake_once, posts_that_wait_bound_the_sleep,
                 work_for_the_lane_ends_a_short_sleep, full_batches_leave);
    tcase_add_loop_test(gather, writes_follow_large_segments, 0, 28);
    tcase_add_loop_test(gather, messages_one_by_one_are_a_stream, 0, 4);
    tc_add_tests(gather, the_emss_is_learned_soon, answers_have_their_turn,
                 requests_have_their_turn, destroy_sends_what_gathers,
                 destroy_after_a_pass_was_overtaken, close_while_another_sends_what_gathers);
    return tc_main(suite);
}

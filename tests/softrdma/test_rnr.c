/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiver not ready (RI_QPM_RNR): Sends that find no receive wait for one, other messages go on;
 * a full stash, spent retries, ends meanwhile. */
#include "loop.h"

#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "providers/software/iwarp/wire_iwarp.h"

#define FOREVER    7u
#define STASH_MOST (1024u * 1024u + RX_RING_OCTETS + 64u * 1024u)
#define PIECE      (64u * 1024u)

static struct region from, to;

static void agree(struct side *side, uint8_t retry, uint8_t timer)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = retry, .rnr_timer = timer
    };

    OK(bed.fake.privileged.qp_modify(side->qp, &modify));
}

/* Two connected sides, of which b lets Sends wait. */
static void connect_agreed(uint8_t retry, uint8_t timer)
{
    const struct shape shape = { .atomics = true };

    testbed_connect(&bed, &shape, &plain);
    testbed_passes(&bed, 5);
    fake_host_expire_timers(&bed.fake); /* that of the first message */
    testbed_passes(&bed, 1);
    agree(a, retry, timer);
    agree(b, retry, timer);
    from = region_new(a, 2 * PIECE, TESTBED_ALL | RI_ACCESS_REMOTE_ATOMIC);
    to = region_new(b, 2 * PIECE, TESTBED_ALL);
    region_fill(&from);
}

static void send_text(uint64_t cookie, const char *text)
{
    static uint64_t at;

    at = (at + 256) % PIECE;
    memcpy(from.octets + at, text, strlen(text));
    side_send(a, cookie, region_sge(&from, at, (uint32_t)strlen(text)));
}

static uint64_t counter(struct side *side, const char *name)
{
    const char *names[16];
    uint64_t values[16];
    size_t count = 16;

    OK(bed.fake.privileged.qp_counters(side->qp, names, values, &count));
    for (size_t i = 0; i < count && i < 16; i++)
        if (!strcmp(names[i], name))
            return values[i];
    ck_abort_msg("no counter '%s'", name);
}

static size_t stashed(struct side *side)
{
    struct stash *stash = qp_of(side)->stream->stash;

    return stash ? stash->octets : 0;
}

/* ---- waiting ---- */

/* Three Sends without a receive; a Write, a Read and an atomic behind them are processed. Then each
 * receive gets its Send, in order, and later Sends go the usual way. */
START_TEST(sends_wait_and_the_rest_goes_on)
{
    static const char *const texts[] = { "first", "second one", "3" };

    connect_agreed(FOREVER, 0);
    for (uint64_t i = 0; i < 3; i++)
        send_text(i, texts[i]);
    memcpy(from.octets + PIECE, "written", 8);
    side_write(a, 3, region_sge(&from, PIECE, 8), (uintptr_t)to.octets + PIECE, to.keys.rkey);
    memcpy(to.octets + PIECE + 64, "to read", 8);
    side_read(a, 4, region_sge(&from, PIECE + 64, 8), (uintptr_t)to.octets + PIECE + 64,
              to.keys.rkey);
    for (uint64_t i = 0; i < 3; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, (uint32_t)strlen(texts[i]));
    side_expect(a, a->send_cq, 3, RI_WC_SUCCESS, 8);
    side_expect(a, a->send_cq, 4, RI_WC_SUCCESS, 8);
    ck_assert_mem_eq(to.octets + PIECE, "written", 8);
    ck_assert_mem_eq(from.octets + PIECE + 64, "to read", 8);
    ck_assert(side_idle(b, b->recv_cq));
    ck_assert_uint_eq(counter(b, "waits for a receive"), 1);
    ck_assert_int_eq(side_query(b).state, RI_QPS_RTS);
    ck_assert_uint_eq(bed.fake.events.timer_count, 0);
    for (uint64_t i = 0; i < 3; i++) {
        side_receive(b, 10 + i, region_sge(&to, 64 * i, 64));
        side_expect(b, b->recv_cq, 10 + i, RI_WC_SUCCESS, (uint32_t)strlen(texts[i]));
        ck_assert_mem_eq(to.octets + 64 * i, texts[i], strlen(texts[i]));
    }
    ck_assert_uint_eq(stashed(b), 0);
    ck_assert(qp_of(b)->rx.fast);
    side_receive(b, 20, region_sge(&to, 0, 64));
    send_text(5, "again");
    side_expect(b, b->recv_cq, 20, RI_WC_SUCCESS, 5);
    ck_assert_uint_eq(counter(b, "waits for a receive"), 1);
}
END_TEST

/* One receive for two waiting Sends: a third Send does not overtake the second. */
START_TEST(the_order_holds)
{
    connect_agreed(FOREVER, 0);
    send_text(1, "one");
    send_text(2, "two");
    ck_assert(side_idle(b, b->recv_cq));
    side_receive(b, 11, region_sge(&to, 0, 64));
    side_expect(b, b->recv_cq, 11, RI_WC_SUCCESS, 3);
    send_text(3, "three");
    ck_assert(side_idle(b, b->recv_cq));
    side_receive(b, 12, region_sge(&to, 64, 64));
    side_receive(b, 13, region_sge(&to, 128, 64));
    side_expect(b, b->recv_cq, 12, RI_WC_SUCCESS, 3);
    side_expect(b, b->recv_cq, 13, RI_WC_SUCCESS, 5);
    ck_assert_mem_eq(to.octets, "one", 3);
    ck_assert_mem_eq(to.octets + 64, "two", 3);
    ck_assert_mem_eq(to.octets + 128, "three", 5);
}
END_TEST

/* The receive comes between the segments of the message, whose rest has not arrived. */
START_TEST(delivered_in_the_middle_of_a_message)
{
    struct region region;

    open_speaking(&raw, NULL, &plain);
    agree(a, FOREVER, 0);
    region = region_new(a, 64, TESTBED_ALL);
    raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 1, 0, "begin ", 6);
    ck_assert(raw_silent(&raw));
    side_receive(a, 1, region_sge(&region, 0, 64));
    ck_assert(side_idle(a, a->recv_cq));
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 6, "end", 3);
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 9);
    ck_assert_mem_eq(region.octets, "begin end", 9);
    raw_untagged(&raw, RDMAP_IMM, true, DDP_QN_SEND, 2, 0, "\0\0\0\0\0\0\0\7", 8);
    ck_assert(side_idle(a, a->recv_cq));
    side_receive(a, 2, region_sge(&region, 0, 64));
    ck_assert_uint_eq(side_next(a, a->recv_cq).immediate, 7);
}
END_TEST

/* What is wrong with a waiting Send is found when it is delivered; the Terminate names it. */
START_TEST(faults_are_found_at_delivery)
{
    struct region region;
    uint8_t ulpdu[128];

    open_speaking(&raw, NULL, &plain);
    agree(a, FOREVER, 0);
    region = region_new(a, 64, TESTBED_ALL);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "good", 4);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 3, 0, "a gap", 5);
    ck_assert(raw_silent(&raw));
    side_receive(a, 1, region_sge(&region, 0, 64));
    side_expect(a, a->recv_cq, 1, RI_WC_SUCCESS, 4);
    ck_assert(raw_silent(&raw));
    side_receive(a, 2, region_sge(&region, 0, 64));
    expect_terminate(&raw, TERMINATE_U_MSN, ulpdu);
    side_expect(a, a->recv_cq, 2, RI_WC_FLUSHED, 0);
}
END_TEST

/* With an MSN that leaves a gap, or without the agreement, nothing waits. */
START_TEST(who_does_not_wait)
{
    open_speaking(&raw, NULL, &plain);
    agree(a, _i ? FOREVER : 0, 0);
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, _i ? 2 : 1, 0, "x", 1);
    raw_expect_terminate(&raw, TERMINATE_U_NOBUF);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
}
END_TEST

START_TEST(arguments)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_RNR, .rnr_retry = 8 };

    testbed_connect(&bed, NULL, &plain);
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_INVALID_ARGUMENT);
    modify.rnr_retry = 7;
    modify.rnr_timer = 32;
    ck_assert_int_eq(bed.fake.privileged.qp_modify(a->qp, &modify), RI_ERR_INVALID_ARGUMENT);
}
END_TEST

/* ---- threads ---- */

static void *post_all(void *arg)
{
    uint64_t count = *(uint64_t *)arg;

    for (uint64_t i = 0; i < count; i++)
        side_receive(b, i, region_sge(&to, 0, 64));
    return NULL;
}

/* The lane's thread alone runs passes. */
static void expect_polled(struct ri_cq *cq, uint64_t cookie)
{
    uint64_t end = tc_deadline(TESTBED_TIMEOUT);
    struct ri_wc wc;

    while (bed.fake.user.poll(cq, 1, &wc) != 1) {
        ck_assert_msg(tc_remaining_ms(end), "no completion");
        sched_yield();
    }
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wc.byte_len, 16);
}

/* The lane sleeps, and another thread posts. A lost wake-up hangs. */
START_TEST(another_thread_posts)
{
    uint64_t count = 32;
    pthread_t thread;

    connect_agreed(FOREVER, 0);
    testbed_lane_start(&bed);
    for (uint64_t round = 0; round < 50; round++) {
        for (uint64_t i = 0; i < count; i++)
            side_send(a, i, region_sge(&from, 0, 16));
        ck_assert_int_eq(pthread_create(&thread, NULL, post_all, &count), 0);
        for (uint64_t i = 0; i < count; i++)
            expect_polled(b->recv_cq, i);
        for (uint64_t i = 0; i < count; i++)
            expect_polled(a->send_cq, i);
        pthread_join(thread, NULL);
    }
    testbed_lane_stop(&bed);
}
END_TEST

/* ---- shared receive queues ---- */

static struct side owner, second;
static struct ri_srq *srq;
static struct ri_pd *pd;

static void give(uint64_t cookie, struct ri_sge sge)
{
    struct ri_recv_wr *bad = NULL, wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 };

    OK(bed.fake.user.post_srq_recv(srq, &wr, &bad));
}

static struct side *who_received(uint64_t cookie)
{
    struct ri_wc wc;
    struct side *side = NULL;

    ck_assert(
        fake_host_until(&bed.fake,
                        (bed.fake.user.poll(a->recv_cq, 1, &wc) == 1 && (side = a)) ||
                            (bed.fake.user.poll(second.recv_cq, 1, &wc) == 1 && (side = &second)),
                        TESTBED_TIMEOUT));
    ck_assert_uint_eq(wc.cookie, cookie);
    ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
    return side;
}

/* Two QPs wait for one SRQ: each post is taken by one, and the other waits on. */
START_TEST(two_wait_for_a_shared_queue)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 8, .max_sge = 1 };
    struct shape shape = { 0 };
    struct raw raws[2];
    struct region region;
    struct side *one, *two;

    OK(bed.fake.privileged.pd_create(bed.fake.rnic, NULL, &pd));
    owner = (struct side){ .bed = &bed, .pd = pd };
    OK(bed.fake.privileged.srq_create(pd, &attr, &srq));
    region = region_new(&owner, 512, TESTBED_ALL);
    shape.srq = srq;
    raw_open_speaking(&raws[0], &bed, a, &shape, &plain);
    raw_open_speaking(&raws[1], &bed, &second, &shape, &plain);
    agree(a, FOREVER, 0);
    agree(&second, FOREVER, 0);
    for (int i = 0; i < 2; i++) {
        raw_untagged(&raws[i], RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "x", 1);
        ck_assert(raw_silent(&raws[i]));
    }
    give(1, region_sge(&region, 0, 64));
    one = who_received(1);
    ck_assert(side_idle(a, a->recv_cq) && side_idle(&second, second.recv_cq));
    give(2, region_sge(&region, 64, 64));
    two = who_received(2);
    ck_assert_ptr_ne(one, two);
    ck_assert_uint_eq(stashed(a) + stashed(&second), 0);
    region_free(&owner, &region);
    side_close(a);
    side_close(&second);
    raw_close(&raws[0]);
    raw_close(&raws[1]);
    OK(bed.fake.privileged.srq_destroy(srq));
    OK(bed.fake.privileged.pd_destroy(pd));
}
END_TEST

/* ---- a full stash ---- */

static bool is_held(struct side *side)
{
    return atomic_load(&qp_of(side)->stream->attention) & ATTEND_HELD;
}

/* Posts Sends of PIECE octets as long as the peer takes them; returns how many were posted, of
 * which the last one is not taken. */
static uint64_t fill_up(void)
{
    uint64_t posted = 0, done = 0;
    struct ri_wc wc;

    for (;;) {
        while (posted - done < 4)
            side_send(a, posted++, region_sge(&from, 0, PIECE));
        if (!fake_host_until(&bed.fake, bed.fake.user.poll(a->send_cq, 1, &wc) == 1,
                             tc_timeout_ms(200))) {
            if (is_held(b)) /* a busy machine is silent, too */
                return posted;
            continue;
        }
        ck_assert_uint_eq(wc.cookie, done++);
        ck_assert_uint_lt(posted, 4096);
    }
}

/* Nothing is read any more and little memory is used. Everything arrives when receives come, and
 * the sender goes on. */
START_TEST(full_stops_reading)
{
    struct stream *stream;
    uint64_t posted;

    connect_agreed(FOREVER, 0);
    posted = fill_up();
    stream = qp_of(b)->stream;
    ck_assert_uint_ge(stashed(b), 1024 * 1024);
    ck_assert_uint_lt(stashed(b), STASH_MOST);
    ck_assert(atomic_load(&stream->attention) & ATTEND_HELD);
    ck_assert_int_eq(side_query(a).state, RI_QPS_RTS);
    for (uint64_t i = 0; i < posted; i++) {
        memset(to.octets, 0, PIECE);
        side_receive(b, i, region_sge(&to, 0, PIECE));
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, PIECE);
        ck_assert_mem_eq(to.octets, from.octets, PIECE);
    }
    ck_assert_uint_eq(stashed(b), 0);
    ck_assert(!(atomic_load(&stream->attention) & (ATTEND_HELD | ATTEND_STASH)));
}
END_TEST

static void raw_send_octets(struct raw *peer, uint32_t *msn)
{
    static uint8_t octets[60000];

    raw_untagged(peer, RDMAP_SEND, true, DDP_QN_SEND, ++*msn, 0, octets, sizeof(octets));
}

static void acknowledge(struct side *side)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_ACKNOWLEDGED,
                                   .acknowledged = true };

    OK(bed.fake.privileged.qp_modify(side->qp, &modify));
}

static const enum ri_wr_opcode own_requests[] = { RI_WR_RDMA_READ, RI_WR_ATOMIC_FETCH_ADD,
                                                  RI_WR_RDMA_WRITE, RI_WR_SEND };

static void post_own(enum ri_wr_opcode opcode)
{
    struct ri_sge sge = region_sge(&to, 0, 8);
    struct ri_send_wr wr = { .cookie = 5000,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = (uint16_t)opcode,
                             .flags = RI_WR_SIGNALED },
                      *bad;

    if (opcode == RI_WR_ATOMIC_FETCH_ADD) {
        wr.atomic.remote_addr = (uintptr_t)from.octets;
        wr.atomic.rkey = from.keys.rkey;
    } else {
        wr.rdma.remote_addr = (uintptr_t)from.octets;
        wr.rdma.rkey = from.keys.rkey;
    }
    OK(bed.fake.user.post_send(b->qp, &wr, &bad));
}

/* The answer to a request of the receiver, or its acknowledgement, is behind a full stash: the
 * stash grows. */
START_TEST(own_requests_go_on_behind_a_full_stash)
{
    enum ri_wr_opcode opcode = own_requests[_i];
    uint64_t posted;

    connect_agreed(FOREVER, 0);
    acknowledge(a);
    acknowledge(b);
    side_receive(a, 6000, region_sge(&from, PIECE, 8));
    posted = fill_up();
    post_own(opcode);
    side_expect(b, b->send_cq, 5000, RI_WC_SUCCESS, 8);
    if (opcode == RI_WR_SEND)
        side_expect(a, a->recv_cq, 6000, RI_WC_SUCCESS, 8);
    else if (opcode != RI_WR_ATOMIC_FETCH_ADD)
        ck_assert_mem_eq(to.octets, from.octets, 8);
    for (uint64_t i = 0; i < posted; i++) {
        side_receive(b, i, region_sge(&to, 0, PIECE));
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, PIECE);
    }
    ck_assert_uint_eq(stashed(b), 0);
}
END_TEST

/* A Read that another thread sends after the pass has looked, and before input is held. */
static struct {
    bool due, released;
    unsigned int held_in, released_in; /* lane.passes */
} late;

void __real_stream_hold_input(struct stream *stream, enum attention reason, bool hold);
void __wrap_stream_hold_input(struct stream *stream, enum attention reason, bool hold);
void __wrap_stream_hold_input(struct stream *stream, enum attention reason, bool hold)
{
    if (reason == ATTEND_HELD && hold && late.due) {
        late.due = false;
        late.held_in = atomic_load(&stream->lane->passes);
        side_read(b, 5000, region_sge(&to, 0, 8), (uintptr_t)from.octets, from.keys.rkey);
    } else if (reason == ATTEND_HELD && !hold && !late.released && late.held_in) {
        late.released = true;
        late.released_in = atomic_load(&stream->lane->passes);
    }
    __real_stream_hold_input(stream, reason, hold);
}

/* No later pass need come: the consumer may sleep until the answer is there. */
START_TEST(a_request_sent_while_input_is_being_held)
{
    connect_agreed(FOREVER, 0);
    memset(&late, 0, sizeof(late));
    late.due = true;
    fill_up();
    ck_assert(!late.due);
    ck_assert(late.released);
    ck_assert_uint_eq(late.released_in, late.held_in);
    side_expect(b, b->send_cq, 5000, RI_WC_SUCCESS, 8);
    ck_assert_mem_eq(to.octets, from.octets, 8);
}
END_TEST

/* It grows up to a bound, and then the connection ends; the reason is said once. */
static uint64_t ended_stuck(void)
{
    const char *names[32];
    uint64_t values[32];
    size_t count = 32;

    ck_assert_int_eq(bed.fake.privileged.rnic_counters(bed.fake.rnic, names, values, &count),
                     RI_OK);
    for (size_t i = 0; i < count && i < 32; i++)
        if (!strcmp(names[i], "connections ended behind waiting sends"))
            return values[i];
    ck_abort_msg("no such counter");
}

START_TEST(a_stash_that_is_stuck_ends_the_connection)
{
    uint8_t ulpdu[128];
    struct region sink;
    uint32_t msn = 0;

    open_speaking(&raw, NULL, &plain);
    agree(a, FOREVER, 0);
    sink = region_new(a, 64, TESTBED_ALL);
    side_read(a, 1, region_sge(&sink, 0, 8), 0, 0x77);
    ck_assert_uint_gt(raw_next(&raw, ulpdu, sizeof(ulpdu)), 0);
    while (!is_held(a)) {
        raw_send_octets(&raw, &msn);
        testbed_passes(&bed, 2);
        ck_assert_uint_lt(stashed(a), 17u << 20);
    }
    ck_assert_uint_ge(stashed(a), 16u << 20);
    ck_assert_uint_ne(qp_of(a)->stream->stash->stuck_at, CLOCK_NEVER);
    qp_of(a)->stream->stash->stuck_at = clock_now();
    ck_assert_uint_eq(ended_stuck(), 0);
    fake_host_expire_timers(&bed.fake);
    expect_terminate(&raw, TERMINATE_U_NOBUF, ulpdu);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
    ck_assert_uint_eq(ended_stuck(), 1);
    side_expect(a, a->send_cq, 1, RI_WC_FLUSHED, 0);
}
END_TEST

/* An FPDU that stays incomplete because this side does not read is no fault of the peer. */
START_TEST(held_input_is_no_stall)
{
    static const char *const options[] = { "stall_timeout", "50", NULL };
    uint64_t posted;

    bed_close();
    testbed_open(&bed, options);
    connect_agreed(FOREVER, 0);
    posted = fill_up(); /* which lasts longer than that */
    ck_assert_int_eq(side_query(b).state, RI_QPS_RTS);
    for (uint64_t i = 0; i < posted; i++) {
        side_receive(b, i, region_sge(&to, 0, PIECE));
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, PIECE);
    }
}
END_TEST

/* ---- ends ---- */

/* The peer closes in order: what it had sent is delivered first, if receives come soon. */
START_TEST(an_end_waits_behind_the_sends)
{
    connect_agreed(FOREVER, 0);
    send_text(1, "last words");
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 10);
    side_modify(a, RI_QPS_CLOSING);
    ck_assert(fake_host_until(&bed.fake, qp_of(b)->stream->stash->over_at != CLOCK_NEVER,
                              TESTBED_TIMEOUT));
    qp_of(b)->stream->stash->over_at = CLOCK_NEVER - 1; /* however slow this machine is */
    ck_assert(side_idle(b, b->recv_cq));
    ck_assert_int_eq(side_query(b).state, RI_QPS_RTS);
    side_receive(b, 2, region_sge(&to, 0, 64));
    side_expect(b, b->recv_cq, 2, RI_WC_SUCCESS, 10);
    side_expect_event(b, RI_EVENT_LLP_CLOSED, 0);
}
END_TEST

/* When an end behind the stash is taken up. */
static uint64_t end_is_due(struct side *side)
{
    struct stash *stash = qp_of(side)->stream->stash;

    return stash ? stash->over_at : CLOCK_NEVER;
}

/* No receive comes: the end is taken up within a second, behind one Send and behind a full stash
 * and octets that nobody reads. */
START_TEST(an_end_is_seen_whatever_waits)
{
    uint64_t begin = clock_now();
    uint32_t msn = 0;

    open_speaking(&raw, NULL, &plain);
    agree(a, FOREVER, 0);
    raw_send_octets(&raw, &msn);
    while (_i && !is_held(a)) {
        raw_send_octets(&raw, &msn);
        testbed_passes(&bed, 2);
    }
    if (_i)
        raw_send_octets(&raw, &msn);
    ck_assert_int_eq(shutdown(raw.fd, SHUT_WR), 0);
    while (end_is_due(a) == CLOCK_NEVER)
        testbed_passes(&bed, 1);
    ck_assert_uint_le(end_is_due(a), clock_now() + CLOCK_NS_PER_S);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    ck_assert_uint_ge(clock_now() - begin, 500 * CLOCK_NS_PER_MS);
    ck_assert_int_eq(side_query(a).state, RI_QPS_ERROR);
    ck_assert_uint_eq(atomic_load(&iwarp_rnic(qp_of(a)->core.rnic)->stash_octets), 0);
}
END_TEST

/* A reset ends the connection at once, also while nothing is read. */
START_TEST(a_reset_is_seen)
{
    connect_agreed(FOREVER, 0);
    if (_i)
        fill_up();
    else
        send_text(1, "x");
    ck_assert(side_idle(b, b->recv_cq));
    side_modify(a, RI_QPS_ERROR);
    side_expect_event(b, RI_EVENT_LLP_RESET, 0);
}
END_TEST

/* The peer's Terminate is obeyed. */
START_TEST(a_terminate_is_obeyed)
{
    connect_agreed(FOREVER, 0);
    send_text(1, "x");
    ck_assert(side_idle(b, b->recv_cq));
    side_modify(a, RI_QPS_TERMINATE);
    side_expect_event(b, RI_EVENT_TERMINATE_RECEIVED, 0);
}
END_TEST

/* Whatever ends the receiver's connection frees what waits (the sanitizers tell). */
START_TEST(ended_while_sends_wait)
{
    connect_agreed(FOREVER, 0);
    send_text(1, "x");
    send_text(2, "y");
    ck_assert(side_idle(b, b->recv_cq));
    ck_assert_uint_gt(stashed(b), 0);
    if (_i == 0)
        side_modify(b, RI_QPS_ERROR);
    else if (_i == 1)
        side_modify(b, RI_QPS_CLOSING);
    if (_i < 2) {
        ck_assert(fake_host_until(&bed.fake, side_query(b).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
        ck_assert_uint_eq(stashed(b), 0);
        side_modify(b, RI_QPS_IDLE);
    }
}
END_TEST

/* ---- spent retries ---- */

/* No receive within the retries: a Terminate for the first Send that waits. It takes half a second
 * at least, as receivers in software are slow. */
START_TEST(retries_are_over)
{
    uint8_t ulpdu[128];
    uint64_t begin;

    open_speaking(&raw, NULL, &plain);
    agree(a, 1, 1);
    begin = clock_now();
    raw_untagged(&raw, RDMAP_SEND, true, DDP_QN_SEND, 1, 0, "x", 1);
    expect_terminate(&raw, TERMINATE_U_NOBUF, ulpdu);
    ck_assert_uint_ge(clock_now() - begin, 500 * CLOCK_NS_PER_MS);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
}
END_TEST

/* A delivery begins the retries again. */
START_TEST(a_delivery_begins_them_again)
{
    uint64_t begin, between;

    connect_agreed(1, 1);
    send_text(1, "one");
    send_text(2, "two");
    ck_assert(side_idle(b, b->recv_cq));
    side_receive(b, 1, region_sge(&to, 0, 64));
    side_expect(b, b->recv_cq, 1, RI_WC_SUCCESS, 3);
    begin = clock_now();
    side_expect_event(b, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
    between = clock_now() - begin;
    ck_assert_uint_ge(between, 400 * CLOCK_NS_PER_MS);
}
END_TEST

/* The sender's oldest Send that the socket has not taken fails with that reason. */
START_TEST(the_sender_is_told)
{
    uint64_t posted;
    struct ri_wc wc;

    connect_agreed(FOREVER, 0);
    posted = fill_up();
    ck_assert_uint_gt(posted, 0);
    agree(b, 1, 1);
    while ((wc = side_next(a, a->send_cq)).status == RI_WC_SUCCESS) /* the socket may take some */
        side_send(a, posted++, region_sge(&from, 0, PIECE));
    ck_assert_uint_eq(wc.status, RI_WC_RNR);
    ck_assert_uint_eq(side_next(a, a->send_cq).status, RI_WC_FLUSHED);
    side_expect_event(b, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("receiver not ready");
    TCase *tc = new_case(suite, "waiting", bed_open, bed_close);

    tc_add_tests(tc, sends_wait_and_the_rest_goes_on, the_order_holds,
                 delivered_in_the_middle_of_a_message, faults_are_found_at_delivery);
    tcase_add_loop_test(tc, who_does_not_wait, 0, 2);
    tc_add_tests(tc, arguments, another_thread_posts, two_wait_for_a_shared_queue);
    tc = new_case(suite, "a full stash", bed_open, bed_close);
    tcase_add_test(tc, full_stops_reading);
    tc_add_rows(tc, own_requests_go_on_behind_a_full_stash, own_requests);
    tc_add_tests(tc, a_request_sent_while_input_is_being_held,
                 a_stash_that_is_stuck_ends_the_connection, held_input_is_no_stall);
    tc = new_case(suite, "ends", bed_open, bed_close);
    tcase_add_test(tc, an_end_waits_behind_the_sends);
    tc_add_loops(tc, 0, 2, an_end_is_seen_whatever_waits, a_reset_is_seen);
    tcase_add_test(tc, a_terminate_is_obeyed);
    tcase_add_loop_test(tc, ended_while_sends_wait, 0, 3);
    tc = new_case(suite, "retries", bed_open, bed_close);
    tc_add_tests(tc, retries_are_over, a_delivery_begins_them_again, the_sender_is_told);
    return tc_main(suite);
}

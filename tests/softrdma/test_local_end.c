/* SPDX-License-Identifier: BSD-3-Clause */
/* How connections over shared memory end, at each moment; what they share with connections over a
 * network; sleep and wake. */
#include "local_bed.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define LONG (1u << 20)

static struct testbed bed;
static struct side *const a = &bed.side[0], *const b = &bed.side[1];
static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 8, .ord = 8 };

static void setup(void)
{
    local_open(&bed, NULL);
}

static void teardown(void)
{
    testbed_close(&bed);
}

static void expect_state(struct side *side, enum ri_qp_state state)
{
    ck_assert_msg(fake_host_until(&bed.fake, side_query(side).state == state, TESTBED_TIMEOUT),
                  "state %d", side_query(side).state);
}

static void expect_flushed(struct side *side, struct ri_cq *cq, uint64_t first, uint64_t end)
{
    for (; first < end; first++)
        side_expect(side, cq, first, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(side, cq));
}

/* --- in order --- */

/* What was published is executed, in order, and the peer learns of the end behind it. */
START_TEST(a_close_is_behind_what_was_published)
{
    struct region from, to;

    testbed_connect(&bed, NULL, &plain);
    from = region_new(a, LONG, TESTBED_ALL);
    to = region_new(b, LONG, TESTBED_ALL);
    region_fill(&from);
    for (uint64_t i = 0; i < 20; i++)
        side_receive(b, i, region_sge(&to, i * 64, 64));
    for (uint64_t i = 0; i < 16; i++)
        side_send(a, i, region_sge(&from, i * 64, 64));
    side_write(a, 16, region_sge(&from, 4096, 4096), (uintptr_t)to.octets + 4096, to.keys.rkey);
    side_modify(a, RI_QPS_CLOSING); /* nobody has executed one of them */
    for (uint64_t i = 0; i < 16; i++)
        side_expect(b, b->recv_cq, i, RI_WC_SUCCESS, 64);
    expect_flushed(b, b->recv_cq, 16, 20);
    for (uint64_t i = 0; i < 17; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, i == 16 ? 4096 : 64);
    ck_assert_mem_eq(from.octets, to.octets, 16 * 64);
    ck_assert_mem_eq(from.octets + 4096, to.octets + 4096, 4096);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    side_expect_event(b, RI_EVENT_LLP_CLOSED, 0);
    expect_state(a, RI_QPS_ERROR);
    expect_state(b, RI_QPS_ERROR);
}
END_TEST

/* The peer never answers: the time for it is over once. */
START_TEST(a_close_without_an_answer_is_bounded)
{
    struct hand hand;

    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    testbed_passes(&bed, 2);
    side_modify(a, RI_QPS_CLOSING);
    testbed_passes(&bed, 4);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    ck_assert_uint_eq(bed.fake.events.timer_count, 1);
    ck_assert_uint_eq(hand_ended(&hand), LOCAL_CLOSED);
    fake_host_expire_timers(&bed.fake);
    expect_state(a, RI_QPS_ERROR);
    ck_assert_uint_eq(atomic_load(&a->events.count), 1);
    hand_close(&hand);
}
END_TEST

/* --- by this side, at each moment of a transfer --- */

enum way { TERMINATE, ABORT, CLOSE, DESTROY, WAYS };

static void end_side(struct side *side, enum way way)
{
    static const enum ri_qp_state states[] = {
        [TERMINATE] = RI_QPS_TERMINATE, [ABORT] = RI_QPS_ERROR, [CLOSE] = RI_QPS_CLOSING
    };

    if (way != DESTROY) {
        side_modify(side, states[way]);
        return;
    }
    OK(bed.fake.privileged.qp_destroy(side->qp));
    side->qp = NULL;
}

/* Completions of a queue, in order, each once: successes, then flushed ones. */
struct seen {
    uint32_t successes, others;
};

static void see(struct ri_cq *cq, struct seen *seen)
{
    struct ri_wc wc;

    while (bed.fake.user.poll(cq, 1, &wc) == 1) {
        ck_assert_uint_eq(wc.cookie, seen->successes + seen->others);
        if (wc.status == RI_WC_SUCCESS)
            ck_assert_uint_eq(seen->others, 0);
        *(wc.status == RI_WC_SUCCESS ? &seen->successes : &seen->others) += 1;
    }
}

#define MESSAGES 6u

/* Either side ends after so many passes; the other one is told once, and keeps what it has got. */
START_TEST(an_end_at_each_moment_of_a_transfer)
{
    const enum way way = (enum way)(_i % WAYS);
    const bool receiver_ends = _i / WAYS;

    for (int moment = 0; moment < 40; moment++) {
        struct seen sent = { 0 }, got = { 0 };
        struct side *ends, *other;
        struct region from, to;

        testbed_connect(&bed, NULL, &plain);
        from = region_new(a, LONG, TESTBED_ALL);
        to = region_new(b, LONG, TESTBED_ALL);
        region_fill(&from);
        ends = receiver_ends ? b : a;
        other = receiver_ends ? a : b;
        for (uint64_t i = 0; i < MESSAGES; i++) {
            side_receive(b, i, region_sge(&to, i * LONG / 8, LONG / 8));
            side_send(a, i, region_sge(&from, i * LONG / 8, LONG / 8));
        }
        for (int pass = 0; pass < moment; pass++)
            fake_host_run(&bed.fake, NULL);
        end_side(ends, way);
        ck_assert_msg(
            fake_host_until(&bed.fake, atomic_load(&other->events.count), TESTBED_TIMEOUT),
            "moment %d: the other side is not told", moment);
        testbed_passes(&bed, 4);
        if (way != DESTROY || receiver_ends)
            ck_assert(fake_host_until(
                &bed.fake, (see(a->send_cq, &sent), sent.successes + sent.others == MESSAGES),
                TESTBED_TIMEOUT));
        if (way != DESTROY || !receiver_ends)
            ck_assert(fake_host_until(
                &bed.fake, (see(b->recv_cq, &got), got.successes + got.others == MESSAGES),
                TESTBED_TIMEOUT));
        ck_assert_uint_eq(atomic_load(&other->events.count), 1);
        ck_assert(!memcmp(from.octets, to.octets, (size_t)got.successes * LONG / 8));
        side_close(a);
        side_close(b);
    }
}
END_TEST

/* --- by the peer's death --- */

/* What the peer has executed by its last word succeeds, the rest is flushed. */
START_TEST(the_peer_is_gone_without_a_word)
{
    struct region region;
    struct hand hand;

    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    region = region_new(a, 4096, TESTBED_ALL);
    side_receive(a, 9, region_sge(&region, 0, 64));
    for (uint64_t i = 0; i < 5; i++)
        side_send(a, i, region_sge(&region, 0, 64));
    testbed_passes(&bed, 2);
    atomic_store(&hand.own->executed, (uint32_t)_i);
    hand_die(&hand);
    for (uint64_t i = 0; i < (uint64_t)_i; i++)
        side_expect(a, a->send_cq, i, RI_WC_SUCCESS, 64);
    expect_flushed(a, a->send_cq, (uint64_t)_i, 5);
    expect_flushed(a, a->recv_cq, 9, 10);
    side_expect_event(a, _i < 5 ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_CLOSED, 0);
    hand_close(&hand);
}
END_TEST

/* --- behind Sends that wait for receives --- */

/* The peer's last Send waits when it ends: in order, or as its process does. */
static void end_behind_a_send(struct hand *hand, bool in_order)
{
    static const struct ri_qp_modify agreed = { .size = sizeof(agreed),
                                                .mask = RI_QPM_RNR,
                                                .rnr_retry = 7 };

    side_open(&bed, a, NULL);
    hand_open(hand, a, NULL);
    OK(bed.fake.privileged.qp_modify(a->qp, &agreed));
    hand_request(hand, RI_WR_SEND, "last words", 10, 0, 0);
    hand_ring(hand);
    ck_assert(side_idle(a, a->recv_cq));
    if (in_order)
        hand_end(hand, LOCAL_CLOSED, 0, 0, 0);
    hand_die(hand);
    ck_assert(fake_host_until(&bed.fake, local_of(a)->end_waits, TESTBED_TIMEOUT));
}

START_TEST(an_end_waits_behind_the_sends)
{
    struct ri_timer *timer;
    struct region region;
    struct hand hand;

    end_behind_a_send(&hand, _i);
    timer = &local_of(a)->close_timer;
    timer->deadline = CLOCK_NEVER - 1; /* however slow this machine is */
    fake_lane_timer_set(&bed.fake.events, timer);
    ck_assert(side_idle(a, a->recv_cq));
    ck_assert_int_eq(side_query(a).state, RI_QPS_RTS);
    region = region_new(a, 4096, TESTBED_ALL);
    side_receive(a, 2, region_sge(&region, 0, 64));
    side_expect(a, a->recv_cq, 2, RI_WC_SUCCESS, 10);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    hand_close(&hand);
}
END_TEST

START_TEST(an_end_is_seen_whatever_waits)
{
    uint64_t begin = clock_now();
    struct hand hand;

    end_behind_a_send(&hand, _i);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    ck_assert_uint_ge(clock_now() - begin, 500 * CLOCK_NS_PER_MS);
    expect_state(a, RI_QPS_ERROR);
    hand_close(&hand);
}
END_TEST

/* The peer's last words come while a pass is under way: behind the look at what is executed, before
 * that at the end. */
static struct hand *speaks;
static uint32_t last_word;

uint32_t __real_local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon);
uint32_t __wrap_local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon);
uint32_t __wrap_local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon)
{
    uint32_t done = __real_local_execute(qp, budget, answers_soon);

    if (!speaks)
        return done;
    atomic_store(&speaks->own->executed, 2);
    hand_end(speaks, last_word, 2, 0x0207, RI_WC_REMOTE_ACCESS);
    speaks = NULL;
    return done;
}

START_TEST(what_is_executed_before_an_end_succeeds)
{
    static const uint32_t words[] = { LOCAL_CLOSED, LOCAL_TERMINATED, LOCAL_REFUSED, LOCAL_RESET };
    struct region region;
    struct hand hand;

    last_word = words[_i];
    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    region = region_new(a, 4096, TESTBED_ALL);
    for (uint64_t i = 0; i < 4; i++)
        side_send(a, i, region_sge(&region, 0, 64));
    hand_ring(&hand);
    testbed_passes(&bed, 2);
    speaks = &hand;
    hand_execute(&hand, 1); /* a look that finds nothing executes nothing */
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 2, last_word == LOCAL_REFUSED ? RI_WC_REMOTE_ACCESS : RI_WC_FLUSHED,
                0);
    side_expect(a, a->send_cq, 3, RI_WC_FLUSHED, 0);
    hand_close(&hand);
}
END_TEST

/* --- requests that send nothing --- */

static void post_bind(uint64_t cookie, struct ri_mw *mw, const struct region *region)
{
    struct ri_send_wr *bad, wr = { .cookie = cookie,
                                   .opcode = RI_WR_BIND_WINDOW,
                                   .flags = RI_WR_SIGNALED,
                                   .bind = { .mr = region->mr,
                                             .mw = mw,
                                             .addr = (uintptr_t)region->octets,
                                             .length = 64,
                                             .access = RI_ACCESS_REMOTE_WRITE,
                                             .new_key = (uint8_t)cookie } };

    OK(a->qp->ops->post_send(a->qp, &wr, &bad));
}

/* A bind has its turn when what was posted before it is executed, and is flushed if that fails. */
START_TEST(nothing_succeeds_behind_what_is_flushed)
{
    const struct shape shape = { .flags = RI_QP_BIND_ENABLE };
    struct region region;
    struct ri_mw *mw;
    struct hand hand;
    uint32_t stag;

    side_open(&bed, a, &shape);
    hand_open(&hand, a, NULL);
    region = region_new(a, 4096, TESTBED_ALL | RI_ACCESS_BIND);
    OK(bed.fake.privileged.mw_allocate(a->pd, false, NULL, &stag, &mw));
    side_send(a, 0, region_sge(&region, 0, 64));
    post_bind(1, mw, &region);
    side_send(a, 2, region_sge(&region, 0, 64));
    post_bind(3, mw, &region);
    testbed_passes(&bed, 2);
    ck_assert(side_idle(a, a->send_cq));
    hand_execute(&hand, 1);
    side_expect(a, a->send_cq, 0, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, 1, RI_WC_SUCCESS, 0);
    hand_end(&hand, _i ? LOCAL_RESET : LOCAL_CLOSED, 0, 0, 0);
    hand_die(&hand);
    expect_flushed(a, a->send_cq, 2, 4);
    hand_close(&hand);
    OK(bed.fake.privileged.mw_free(mw));
    region_free(a, &region);
}
END_TEST

/* --- a CQ without room --- */

/* At the receiver, at the sender: the connection ends, and both learn of it. */
START_TEST(an_overflow_ends_the_connection)
{
    struct side *const full = _i ? a : b, *const other = _i ? b : a;
    struct region from, to;

    side_open(&bed, full, &(struct shape){ .cqe = 4 });
    side_open(&bed, other, NULL);
    sides_connect(a, b, &plain);
    from = region_new(a, 4096, TESTBED_ALL);
    to = region_new(b, 4096, TESTBED_ALL);
    for (uint64_t i = 0; i < 16; i++)
        side_receive(b, i, region_sge(&to, i * 64, 64));
    for (uint64_t i = 0; i < 16; i++)
        side_send(a, i, region_sge(&from, i * 64, 64));
    ck_assert(fake_host_until(&bed.fake, atomic_load(&full->events.count), TESTBED_TIMEOUT));
    ck_assert_int_eq(full->events.type[0], RI_EVENT_QP_OVERFLOW);
    side_expect_event(other, RI_EVENT_TERMINATE_RECEIVED, 0x0207);
    expect_state(full, RI_QPS_ERROR);
    expect_state(other, RI_QPS_ERROR);
    for (uint64_t i = 0; i < 4; i++)
        side_expect(full, _i ? a->send_cq : b->recv_cq, i, RI_WC_SUCCESS, 64);
}
END_TEST

/* --- again --- */

static void send_one(uint64_t cookie, struct region *from, struct region *to)
{
    memset(from->octets, (int)cookie + 1, 64);
    side_receive(b, cookie, region_sge(to, 0, 64));
    side_send(a, cookie, region_sge(from, 0, 64));
    side_expect(b, b->recv_cq, cookie, RI_WC_SUCCESS, 64);
    side_expect(a, a->send_cq, cookie, RI_WC_SUCCESS, 64);
    ck_assert_mem_eq(from->octets, to->octets, 64);
}

static void start_over_tcp(struct side *initiator, struct side *responder)
{
    int fds[2];

    testbed_tcp(fds, 0);
    side_start(initiator, fds[0], true, &plain);
    side_start(responder, fds[1], false, &plain);
}

/* The same QPs, over shared memory and a network in turn. */
START_TEST(a_qp_connects_again_by_either_wire)
{
    struct region from, to;

    side_open(&bed, a, NULL);
    side_open(&bed, b, NULL);
    from = region_new(a, 64, TESTBED_ALL);
    to = region_new(b, 64, TESTBED_ALL);
    for (uint32_t round = 0; round < 8; round++) {
        if (round & 1)
            start_over_tcp(a, b);
        else
            sides_connect(a, b, &plain);
        for (uint64_t i = 0; i < 3; i++)
            send_one(round * 3 + i, &from, &to);
        side_modify(round & 2 ? a : b, RI_QPS_CLOSING);
        expect_state(a, RI_QPS_ERROR);
        expect_state(b, RI_QPS_ERROR);
        side_modify(a, RI_QPS_IDLE);
        side_modify(b, RI_QPS_IDLE);
    }
}
END_TEST

/* --- memory that is taken away --- */

static struct region target;
static struct side writers[2];
static atomic_bool writing_stops;

/* Writes as much as goes, until the connection ends. */
static void *write_all_the_time(void *arg)
{
    struct region source = region_new(&writers[0], LONG, TESTBED_ALL);
    uint32_t posted = 0, done = 0;
    struct ri_wc wc;

    memset(source.octets, 'w', LONG);
    while (!atomic_load(&writing_stops)) {
        if (posted - done < 8)
            side_write(&writers[0], posted++, region_sge(&source, 0, (uint32_t)target.length),
                       (uintptr_t)target.octets, target.keys.rkey);
        if (bed.fake.user.poll(writers[0].send_cq, 1, &wc) == 1) {
            done++;
            if (wc.status != RI_WC_SUCCESS)
                break;
        }
        sched_yield();
    }
    *(struct region *)arg = source;
    return NULL;
}

/* Nothing is written once the call has returned. */
START_TEST(nothing_is_written_after_deregistration)
{
    testbed_lane_start(&bed);
    for (unsigned long round = 0; round < tc_count(100); round++) {
        struct region source;
        pthread_t writer;
        uint8_t *octets;

        for (int i = 0; i < 2; i++)
            side_open(&bed, &writers[i], NULL);
        sides_connect(&writers[0], &writers[1], &plain);
        target = region_new(&writers[1], _i ? LONG : 256, TESTBED_ALL);
        octets = target.octets;
        atomic_store(&writing_stops, false);
        ck_assert_int_eq(pthread_create(&writer, NULL, write_all_the_time, &source), 0);
        /* The last octets are stored last, and atomically. */
        ck_assert(tc_until(__atomic_load_n(octets + target.length - 1, __ATOMIC_ACQUIRE) == 'w',
                           TESTBED_TIMEOUT));
        OK(bed.fake.privileged.mr_deregister(target.mr));
        target.mr = NULL;
        memset(octets, 'x', target.length);
        ck_assert(tc_until(atomic_load(&writers[0].events.count), TESTBED_TIMEOUT));
        for (uint64_t i = 0; i < target.length; i++)
            if (octets[i] != 'x')
                ck_abort_msg("round %lu: octet %llu was written", round, (unsigned long long)i);
        atomic_store(&writing_stops, true);
        ck_assert_int_eq(pthread_join(writer, NULL), 0);
        region_free(&writers[1], &target);
        region_free(&writers[0], &source);
        for (int i = 0; i < 2; i++)
            side_close(&writers[i]);
    }
    testbed_lane_stop(&bed);
}
END_TEST

/* --- both wires --- */

static struct side owner, taker; /* taker: of the CQs and the S-RQ that both QPs share */
static struct ri_srq *srq;

/* A QP on what `taker` has; `other` is its event record. */
static void open_beside(struct side *other)
{
    struct ri_qp_attr attr = { .size = sizeof(attr),
                               .type = RI_QP_RC,
                               .context = &other->events,
                               .send_cq = taker.send_cq,
                               .recv_cq = taker.recv_cq,
                               .lane = bed.fake.lane,
                               .max_send_wr = 64,
                               .max_send_sge = 4,
                               .srq = srq };

    *other = (struct side){ .bed = &bed, .pd = owner.pd };
    OK(bed.fake.privileged.qp_create(owner.pd, &attr, &other->qp));
}

static void open_shared(void)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 64, .max_sge = 4 };

    side_open(&bed, &owner, NULL);
    OK(bed.fake.privileged.srq_create(owner.pd, &attr, &srq));
    side_open(&bed, &taker, &(struct shape){ .pd = owner.pd, .srq = srq });
    side_open(&bed, a, NULL);
    side_open(&bed, b, NULL);
}

static void post_shared(uint64_t cookie, struct ri_sge sge)
{
    struct ri_recv_wr *bad = NULL, wr = { .cookie = cookie, .sg_list = &sge, .num_sge = 1 };

    OK(bed.fake.user.post_srq_recv(srq, &wr, &bad));
}

/* One CQ and one S-RQ, of QPs of both wires: each receive gets one message, those of a connection
 * in order. */
START_TEST(both_wires_feed_one_queue)
{
    struct region from[2], to;
    uint32_t seen = 0, numbers[2] = { 0, 0 };
    struct side network;

    open_shared();
    open_beside(&network);
    to = region_new(&owner, 4096, TESTBED_ALL);
    from[0] = region_new(a, 4096, TESTBED_ALL);
    from[1] = region_new(b, 4096, TESTBED_ALL);
    sides_connect(a, &taker, &plain);
    start_over_tcp(b, &network);
    for (uint64_t i = 0; i < 32; i++)
        post_shared(i, region_sge(&to, i * 64, 64));
    for (uint64_t i = 0; i < 16; i++) {
        memset(from[0].octets + i * 64, (int)i, 64);
        memset(from[1].octets + i * 64, 0x80 + (int)i, 64);
        side_send(a, i, region_sge(&from[0], i * 64, 64));
        side_send(b, i, region_sge(&from[1], i * 64, 64));
    }
    for (uint32_t number = 0; number < 32; number++) {
        struct ri_wc wc;
        int which;

        ck_assert(fake_host_until(&bed.fake, bed.fake.user.poll(taker.recv_cq, 1, &wc) == 1,
                                  TESTBED_TIMEOUT));
        which = wc.context == &network.events;
        ck_assert(which || wc.context == &taker.events);
        ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq(to.octets[wc.cookie * 64], (which ? 0x80 : 0) + numbers[which]++);
        ck_assert(!(seen & 1u << wc.cookie));
        seen |= 1u << wc.cookie;
    }
    ck_assert_uint_eq(numbers[0], 16);
    ck_assert_uint_eq(numbers[1], 16);
    region_free(a, &from[0]);
    region_free(b, &from[1]);
    OK(bed.fake.privileged.qp_destroy(network.qp));
    side_close(&taker);
    OK(bed.fake.privileged.srq_destroy(srq));
    side_close(&owner);
}
END_TEST

/* --- sleep and wake --- */

static struct testbed far; /* the other end's host, with a thread of its own */

/* The lane sleeps as soon as it may, without a time-out that helps. */
static bool sleep_for(struct testbed *of, struct ri_cq *cq, struct ri_wc *wc)
{
    return fake_host_until(&of->fake, of->fake.user.poll(cq, 1, wc) == 1, TESTBED_TIMEOUT);
}

struct end {
    struct testbed *bed;
    struct side *side;
    struct region region;
    struct tc_rng rng;
    unsigned long rounds;
    bool first, failed;
};

static bool say(struct end *end, unsigned long round)
{
    side_send(end->side, round, region_sge(&end->region, 0, 8));
    return true;
}

/* In turn; each waits for a random time, so that the other sleeps, or is about to. */
static void *talk(void *arg)
{
    struct end *end = arg;
    struct ri_wc wc;

    side_receive(end->side, 0, region_sge(&end->region, 64, 64));
    for (unsigned long round = 0; round < end->rounds && !end->failed; round++) {
        if (end->first)
            say(end, round);
        end->failed |= !sleep_for(end->bed, end->side->recv_cq, &wc) ||
                       wc.status != RI_WC_SUCCESS || wc.byte_len != 8;
        side_receive(end->side, round + 1, region_sge(&end->region, 64, 64));
        for (uint64_t i = tc_below(&end->rng, 8) ? 0 : tc_below(&end->rng, 40); i; i--)
            sched_yield();
        if (!end->first)
            say(end, round);
        end->failed |= !sleep_for(end->bed, end->side->send_cq, &wc) || wc.status != RI_WC_SUCCESS;
    }
    return NULL;
}

static void connect_far(void)
{
    struct ri_llp_handover own[2] = { plain, plain };
    struct ri_local *both[2];
    int fds[2], bells[2];

    side_open(&bed, a, NULL);
    side_open(&far, &far.side[0], NULL);
    close(local_segment(&bed, both));
    testbed_tcp(fds, 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bells), 0);
    for (int i = 0; i < 2; i++) {
        own[i].local = both[i];
        own[i].local_fd = bells[i];
    }
    side_start(a, fds[0], true, &own[0]);
    side_start(&far.side[0], fds[1], false, &own[1]);
}

START_TEST(no_wake_up_is_lost)
{
    struct end ends[2] = { { .bed = &bed, .side = a, .first = true },
                           { .bed = &far, .side = &far.side[0] } };
    pthread_t threads[2];

    local_open(&far, NULL);
    connect_far();
    for (int i = 0; i < 2; i++) {
        ends[i].rounds = tc_count(20000);
        ends[i].rng = tc_rng(20 + (uint64_t)i);
        ends[i].region = region_new(ends[i].side, 128, TESTBED_ALL);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, talk, &ends[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert(!ends[0].failed && !ends[1].failed);
    ck_assert_uint_gt(bed.fake.sleeps, 0);
    for (int i = 0; i < 2; i++)
        region_free(ends[i].side, &ends[i].region);
    testbed_close(&far);
}
END_TEST

/* One octet by the socket wakes a lane that sleeps, and is sent to no lane that looks. */
START_TEST(a_sleeper_is_woken_by_one_octet)
{
    uint8_t octets[8];
    struct hand hand;

    side_open(&bed, a, NULL);
    hand_open(&hand, a, NULL);
    testbed_passes(&bed, 3);
    ck_assert_uint_eq(atomic_load(&hand.peer->asleep), LOCAL_COOL);
    ck_assert_int_lt(recv(hand.bell, octets, sizeof(octets), MSG_DONTWAIT), 0);
    atomic_store(&hand.own->asleep, 1);
    for (uint64_t i = 0; i < 5; i++)
        OK(side_post(a, RI_WR_SEND, i, 0, NULL, 0, 0, 0));
    testbed_passes(&bed, 1);
    ck_assert_int_eq(recv(hand.bell, octets, sizeof(octets), MSG_DONTWAIT), 1);
    ck_assert_uint_eq(atomic_load(&hand.own->asleep), 0);
    atomic_store(&hand.own->asleep, 1);
    OK(side_post(a, RI_WR_SEND, 5, 0, NULL, 0, 0, 0));
    testbed_passes(&bed, 1);
    ck_assert_int_eq(recv(hand.bell, octets, sizeof(octets), MSG_DONTWAIT), 1);
    hand_close(&hand);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_end");
    TCase *ends = tc_case(suite, "ends", setup, teardown);
    TCase *shared = tc_case(suite, "both wires", setup, teardown);
    TCase *sleep = tc_case(suite, "sleep", setup, teardown);

    tcase_set_timeout(ends, 0.001 * tc_timeout_ms(90000));
    tc_add_tests(ends, a_close_is_behind_what_was_published, a_close_without_an_answer_is_bounded);
    tcase_add_loop_test(ends, an_end_at_each_moment_of_a_transfer, 0, 2 * WAYS);
    tcase_add_loop_test(ends, the_peer_is_gone_without_a_word, 0, 6);
    tcase_add_loop_test(ends, an_end_waits_behind_the_sends, 0, 2);
    tcase_add_loop_test(ends, an_end_is_seen_whatever_waits, 0, 2);
    tcase_add_loop_test(ends, what_is_executed_before_an_end_succeeds, 0, 4);
    tcase_add_loop_test(ends, nothing_succeeds_behind_what_is_flushed, 0, 2);
    tcase_add_loop_test(ends, an_overflow_ends_the_connection, 0, 2);
    tcase_add_loop_test(ends, nothing_is_written_after_deregistration, 0, 2);
    tc_add_tests(shared, a_qp_connects_again_by_either_wire, both_wires_feed_one_queue);
    tcase_set_timeout(sleep, 0.001 * tc_timeout_ms(300000));
    tc_add_tests(sleep, no_wake_up_is_lost, a_sleeper_is_woken_by_one_octet);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: which QP gets which receive, limits, protection, ends, resizing, and
 * several QPs at once. */
#include "bed.h"

#include <pthread.h>

static struct side other; /* a second QP on the SRQ, in a's PD */
static struct ri_pd *pd;  /* of the SRQ */
static struct side owner; /* for region_new: only bed and pd */
static struct ri_srq *srq;
static struct fake_record srq_events;

static void open_srq(uint32_t max_wr, uint32_t low)
{
    struct ri_srq_attr attr = {
        .size = sizeof(attr), .max_wr = max_wr, .max_sge = 2, .limit = low, .context = &srq_events
    };

    memset(&srq_events, 0, sizeof(srq_events));
    testbed_open(&bed, NULL);
    OK(bed.fake.privileged.pd_create(bed.fake.rnic, NULL, &pd));
    owner = (struct side){ .bed = &bed, .pd = pd };
    OK(bed.fake.privileged.srq_create(pd, &attr, &srq));
}

static void close_srq(void)
{
    OK(bed.fake.privileged.srq_destroy(srq));
    OK(bed.fake.privileged.pd_destroy(pd));
    bed_close();
}

static enum ri_status post(uint64_t cookie, const struct ri_sge *sges, uint32_t count)
{
    struct ri_recv_wr *bad = NULL, wr = { .cookie = cookie, .sg_list = sges, .num_sge = count };
    enum ri_status status = bed.fake.user.post_srq_recv(srq, &wr, &bad);

    ck_assert_ptr_eq(bad, status == RI_OK ? NULL : &wr);
    return status;
}

static void give(uint64_t cookie, struct ri_sge sge)
{
    OK(post(cookie, &sge, 1));
}

static struct ri_srq_attr query(void)
{
    struct ri_srq_attr attr = { .size = sizeof(attr) };

    OK(bed.fake.privileged.srq_query(srq, &attr));
    return attr;
}

static void set_low(uint32_t low)
{
    const struct ri_srq_attr attr = { .size = sizeof(attr), .limit = low };

    OK(bed.fake.privileged.srq_modify(srq, 2, &attr));
}

static enum ri_status resize(uint32_t max_wr)
{
    const struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = max_wr };

    return bed.fake.privileged.srq_modify(srq, 1, &attr);
}

/* A QP on the SRQ with a hand-written peer. The side is the responder and has received the peer's
 * first FPDU. */
static void open_taker(struct side *side, struct raw *peer, const struct shape *more)
{
    struct shape shape = more ? *more : (struct shape){ 0 };

    shape.srq = srq;
    raw_open_speaking(peer, &bed, side, &shape, &plain);
}

/* Two such QPs, a and other, each with its peer. */
static struct raw first, second;

static void open_two(uint32_t max_wr, const struct shape *of_a)
{
    open_srq(max_wr, 0);
    open_taker(a, &first, of_a);
    open_taker(&other, &second, NULL);
}

static void close_two(void)
{
    side_close(a);
    side_close(&other);
    raw_close(&first);
    raw_close(&second);
    close_srq();
}

static void say(struct raw *peer, uint32_t msn, const char *text)
{
    raw_untagged(peer, RDMAP_SEND, true, DDP_QN_SEND, msn, 0, text, (uint32_t)strlen(text));
}

static void expect(struct side *side, uint64_t cookie, uint32_t octets)
{
    side_expect(side, side->recv_cq, cookie, RI_WC_SUCCESS, octets);
}

/* ---- assignment of receives ---- */

/* Receives go in the order of posting to the QP whose message begins first. Completions name the
 * QP. */
START_TEST(taken_in_order_by_two)
{
    struct region region;

    open_two(8, NULL);
    region = region_new(&owner, 4096, TESTBED_ALL);
    for (uint64_t i = 0; i < 4; i++)
        give(i, region_sge(&region, i * 64, 64));
    say(&first, 1, "one");
    expect(a, 0, 3);
    say(&second, 1, "three");
    expect(&other, 1, 5);
    say(&second, 2, "fours");
    expect(&other, 2, 5);
    say(&first, 2, "two");
    expect(a, 3, 3);
    ck_assert_mem_eq(region.octets, "one", 3);
    ck_assert_mem_eq(region.octets + 64, "three", 5);
    ck_assert_mem_eq(region.octets + 192, "two", 3);
    region_free(&owner, &region);
    close_two();
}
END_TEST

/* A receive belongs to a message from its first segment on. Another QP's message takes the next
 * receive meanwhile. */
START_TEST(taken_at_the_first_segment)
{
    struct region region;

    open_two(8, NULL);
    region = region_new(&owner, 4096, TESTBED_ALL);
    for (uint64_t i = 0; i < 2; i++)
        OK(post(i,
                (struct ri_sge[]){ region_sge(&region, i * 64, 5),
                                   region_sge(&region, 1000 + i * 64, 59) },
                2));
    raw_untagged(&first, RDMAP_SEND, false, DDP_QN_SEND, 1, 0, "begin", 5);
    ck_assert(raw_silent(&first));
    say(&second, 1, "whole");
    expect(&other, 1, 5);
    ck_assert(side_idle(a, a->recv_cq));
    raw_untagged(&first, RDMAP_SEND, true, DDP_QN_SEND, 1, 5, "end", 3);
    expect(a, 0, 8);
    ck_assert_mem_eq(region.octets, "begin", 5);
    ck_assert_mem_eq(region.octets + 1000, "end", 3);
    ck_assert_mem_eq(region.octets + 64, "whole", 5);
    region_free(&owner, &region);
    close_two();
}
END_TEST

/* C-072: no receive. The MSN is checked in the same order as for a QP's own queue, and does not
 * advance. */
START_TEST(C072_empty)
{
    open_srq(8, 0);
    open_taker(a, &raw, NULL);
    say(&raw, _i ? 2 : 1, "x");
    raw_expect_terminate(&raw, TERMINATE_U_NOBUF);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

START_TEST(C071_a_gap_takes_nothing)
{
    struct region region;

    open_two(8, NULL);
    region = region_new(&owner, 64, TESTBED_ALL);
    give(7, region_sge(&region, 0, 64));
    say(&first, 2, "x");
    raw_expect_terminate(&first, TERMINATE_U_MSN);
    side_expect_event(a, RI_EVENT_REMOTE_OPERATION, TERMINATE_U_MSN);
    ck_assert(side_idle(a, a->recv_cq));
    say(&second, 1, "there");
    expect(&other, 7, 5);
    region_free(&owner, &region);
    close_two();
}
END_TEST

/* C-077: the PD of the SRQ applies to the elements, not the QP's. */
START_TEST(C077_protection_is_the_srqs)
{
    struct region theirs, own;

    open_srq(8, 0);
    theirs = region_new(&owner, 64, TESTBED_ALL);
    open_taker(a, &raw, NULL);
    own = region_new(a, 64, TESTBED_ALL);
    give(1, region_sge(&theirs, 0, 64));
    give(2, region_sge(&own, 0, 64));
    say(&raw, 1, "good");
    expect(a, 1, 4);
    say(&raw, 2, "bad");
    raw_expect_terminate(&raw, TERMINATE_LOCAL);
    side_expect(a, a->recv_cq, 2, RI_WC_LOCAL_PROTECTION, 0);
    side_expect_event(a, RI_EVENT_RECV_ACCESS, 0);
    ck_assert_uint_eq(own.octets[0], 0);
    region_free(&owner, &theirs);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

/* ---- limits ---- */

START_TEST(arguments)
{
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = 0 };
    struct ri_sge sges[3] = { { 0, 0, 0 } };
    struct ri_srq *none;

    open_srq(4, 3);
    ck_assert_int_eq(bed.fake.privileged.srq_create(pd, &attr, &none), RI_ERR_INVALID_ARGUMENT);
    attr.max_wr = 1u << 20;
    ck_assert_int_eq(bed.fake.privileged.srq_create(pd, &attr, &none), RI_ERR_LIMIT);
    attr = (struct ri_srq_attr){ .size = sizeof(attr), .max_wr = 1, .max_sge = 1000 };
    ck_assert_int_eq(bed.fake.privileged.srq_create(pd, &attr, &none), RI_ERR_LIMIT);
    attr = query();
    ck_assert_uint_eq(attr.max_wr, 4);
    ck_assert_uint_eq(attr.max_sge, 2);
    ck_assert_uint_eq(attr.limit, 3);
    ck_assert_ptr_eq(attr.context, &srq_events);
    ck_assert_int_eq(post(1, sges, 3), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(bed.fake.privileged.srq_modify(srq, 4, &attr), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(bed.fake.privileged.pd_destroy(pd), RI_ERR_BUSY);
    side_open(&bed, a, &(struct shape){ .srq = srq });
    ck_assert_uint_eq(side_query(a).max_recv_wr, 0);
    ck_assert_int_eq(side_post_receive(a, 1, NULL, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(bed.fake.privileged.srq_destroy(srq), RI_ERR_BUSY);
    side_close(a);
    close_srq();
}
END_TEST

/* A slot is free again when the completion was polled, or its QP is destroyed. */
START_TEST(full_until_polled)
{
    struct region region;

    open_srq(3, 0);
    region = region_new(&owner, 64, TESTBED_ALL);
    open_taker(a, &raw, NULL);
    for (uint64_t i = 0; i < 3; i++)
        give(i, region_sge(&region, 0, 64));
    ck_assert_int_eq(post(3, NULL, 0), RI_ERR_QUEUE_FULL);
    say(&raw, 1, "x");
    ck_assert(raw_silent(&raw));
    ck_assert_int_eq(post(3, NULL, 0), RI_ERR_QUEUE_FULL);
    expect(a, 0, 1);
    give(3, region_sge(&region, 0, 64));
    ck_assert_int_eq(post(4, NULL, 0), RI_ERR_QUEUE_FULL);
    say(&raw, 2, "x");
    raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 3, 0, "y", 1);
    ck_assert(raw_silent(&raw));
    side_close(a); /* one completion unpolled, one message in progress */
    OK(post(4, NULL, 0));
    OK(post(5, NULL, 0));
    ck_assert_int_eq(post(6, NULL, 0), RI_ERR_QUEUE_FULL);
    region_free(&owner, &region);
    raw_close(&raw);
    close_srq();
}
END_TEST

START_TEST(X020_X025_srq_limit_once)
{
    struct region region;

    open_srq(8, 2);
    region = region_new(&owner, 64, TESTBED_ALL);
    open_taker(a, &raw, NULL);
    for (uint64_t i = 0; i < 5; i++)
        give(i, region_sge(&region, 0, 64));
    for (uint32_t msn = 1; msn <= 3; msn++) {
        say(&raw, msn, "x");
        expect(a, msn - 1, 1);
    }
    ck_assert_uint_eq(atomic_load(&srq_events.count), 0); /* two are left */
    say(&raw, 4, "x");
    expect(a, 3, 1);
    ck_assert_uint_eq(atomic_load(&srq_events.count), 1);
    ck_assert_int_eq(srq_events.type[0], RI_EVENT_SRQ_LIMIT_REACHED);
    ck_assert_uint_eq(query().limit, 0);
    for (uint64_t i = 5; i < 8; i++)
        give(i, region_sge(&region, 0, 64));
    say(&raw, 5, "x");
    expect(a, 4, 1);
    say(&raw, 6, "x");
    expect(a, 5, 1);
    say(&raw, 7, "x");
    expect(a, 6, 1);
    ck_assert_uint_eq(atomic_load(&srq_events.count), 1);
    set_low(1);
    say(&raw, 8, "x");
    expect(a, 7, 1);
    ck_assert_uint_eq(atomic_load(&srq_events.count), 2);
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    region_free(&owner, &region);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

/* One event beyond the limit, until the limit is set anew. */
START_TEST(rq_limit)
{
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = RI_QPM_RQ_LIMITS,
                                   .rq_limit = 1 };

    open_srq(16, 0);
    open_taker(a, &raw, &(struct shape){ .rq_limit = 2 });
    for (uint64_t i = 0; i < 8; i++)
        OK(post(i, NULL, 0));
    say(&raw, 1, "");
    say(&raw, 2, "");
    ck_assert(raw_silent(&raw));
    ck_assert_uint_eq(atomic_load(&a->events.count), 0);
    say(&raw, 3, "");
    side_expect_event(a, RI_EVENT_QP_RQ_LIMIT_REACHED, 0);
    say(&raw, 4, "");
    for (uint64_t i = 0; i < 4; i++)
        expect(a, i, 0);
    OK(bed.fake.privileged.qp_modify(a->qp, &modify));
    say(&raw, 5, "");
    ck_assert(raw_silent(&raw));
    ck_assert_uint_eq(atomic_load(&a->events.count), 1);
    say(&raw, 6, "");
    ck_assert(fake_host_until(&bed.fake, atomic_load(&a->events.count) == 2, TESTBED_TIMEOUT));
    ck_assert_int_eq(a->events.type[1], RI_EVENT_QP_RQ_LIMIT_REACHED);
    ck_assert_int_eq(side_query(a).state, RI_QPS_RTS);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

/* The QP ends. Receives that it did not take stay for the others. */
START_TEST(X020_rq_hard_limit)
{
    open_two(16, &(struct shape){ .rq_hard_limit = 2 });
    for (uint64_t i = 0; i < 3; i++)
        OK(post(i, NULL, 0));
    say(&first, 1, "");
    say(&first, 2, "");
    expect(a, 0, 0); /* one is in use */
    say(&first, 3, "");
    ck_assert(raw_silent(&first));
    OK(post(3, NULL, 0));
    say(&first, 4, "");
    raw_expect_terminate(&first, TERMINATE_U_NOBUF);
    side_expect_event(a, RI_EVENT_NO_RECEIVE, TERMINATE_U_NOBUF);
    expect(a, 1, 0);
    expect(a, 2, 0);
    ck_assert(side_idle(a, a->recv_cq));
    say(&second, 1, "");
    expect(&other, 3, 0);
    close_two();
}
END_TEST

/* ---- ends ---- */

/* Receives that a QP has in use are flushed with it, the others stay. The same QP may connect
 * again. */
START_TEST(error_flushes_what_is_in_use)
{
    struct region region;

    open_srq(8, 0);
    region = region_new(&owner, 64, TESTBED_ALL);
    open_taker(a, &raw, NULL);
    for (uint64_t i = 0; i < 3; i++)
        give(i, region_sge(&region, 0, 64));
    say(&raw, 1, "done");
    raw_untagged(&raw, RDMAP_SEND, false, DDP_QN_SEND, 2, 0, "half", 4);
    ck_assert(raw_silent(&raw));
    raw_close(&raw);
    side_expect_event(a, RI_EVENT_LLP_CLOSED, 0);
    expect(a, 0, 4);
    side_expect(a, a->recv_cq, 1, RI_WC_FLUSHED, 0);
    ck_assert(side_idle(a, a->recv_cq));
    side_modify(a, RI_QPS_IDLE);
    raw_open(&raw, &bed, a, false, &plain);
    say(&raw, 1, "again");
    expect(a, 2, 5);
    region_free(&owner, &region);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

/* ---- resize ---- */

START_TEST(resize_keeps_requests)
{
    uint64_t cookie = 0;

    open_srq(3, 0);
    open_taker(a, &raw, NULL);
    for (int i = 0; i < 3; i++)
        OK(post(cookie++, NULL, 0));
    say(&raw, 1, "");
    ck_assert(raw_silent(&raw));
    ck_assert_int_eq(resize(2), RI_ERR_BUSY);
    ck_assert_int_eq(resize(0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(resize(1u << 20), RI_ERR_LIMIT);
    ck_assert_uint_eq(query().max_wr, 3);
    OK(resize(40));
    ck_assert_uint_eq(query().max_wr, 40);
    while (cookie < 40)
        OK(post(cookie++, NULL, 0));
    ck_assert_int_eq(post(40, NULL, 0), RI_ERR_QUEUE_FULL);
    for (uint32_t msn = 2; msn <= 40; msn++)
        say(&raw, msn, "");
    for (uint64_t i = 0; i < 40; i++)
        expect(a, i, 0);
    OK(resize(1));
    OK(post(99, NULL, 0));
    ck_assert_int_eq(post(100, NULL, 0), RI_ERR_QUEUE_FULL);
    say(&raw, 41, "");
    expect(a, 99, 0);
    side_close(a);
    raw_close(&raw);
    close_srq();
}
END_TEST

/* ---- threads ---- */

#define TAKERS 3
#define ROOM   32u

struct crowd {
    struct side sender, taker;
    uint32_t sent, completed, received;
    atomic_uint acknowledged;
    bool wrong;
};

static struct crowd crowd[TAKERS];
static atomic_uint uses[ROOM]; /* 1: posted */
static struct region buffers;
static unsigned long messages;

static void give_slot(uint32_t slot)
{
    if (atomic_exchange(&uses[slot], 1))
        ck_abort_msg("slot %u is given twice", slot);
    while (post(slot, (struct ri_sge[]){ region_sge(&buffers, slot * 64, 64) }, 1) != RI_OK)
        sched_yield(); /* during the resizing */
}

static void take_one(struct crowd *c)
{
    uint32_t found[2];
    struct ri_wc wc;

    if (!bed.fake.user.poll(c->taker.recv_cq, 1, &wc))
        return;
    memcpy(found, buffers.octets + wc.cookie * 64, sizeof(found));
    c->wrong |= wc.status != RI_WC_SUCCESS || wc.context != &c->taker.events ||
                wc.byte_len != sizeof(found) || found[0] != (uint32_t)(c - crowd) ||
                found[1] != c->received++ || !atomic_exchange(&uses[wc.cookie], 0);
    give_slot((uint32_t)wc.cookie);
    atomic_fetch_add(&c->acknowledged, 1);
}

/* The receives in use never exceed the depth of the SRQ. */
static void *send_and_take(void *arg)
{
    struct crowd *c = arg;
    struct region out = region_new(&c->sender, 4096, TESTBED_ALL);
    uint64_t end = tc_deadline(60000);
    struct ri_wc wc;

    while (c->received < messages && !c->wrong && !tc_expired(end)) {
        if (c->sent < messages && c->sent - c->completed < 64 &&
            c->sent - atomic_load(&c->acknowledged) < ROOM / TAKERS / 2) {
            uint32_t now[2] = { (uint32_t)(c - crowd), c->sent };
            uint64_t at = c->sent % 64 * 8;

            memcpy(out.octets + at, now, sizeof(now));
            side_send(&c->sender, c->sent++, region_sge(&out, at, sizeof(now)));
        }
        if (bed.fake.user.poll(c->sender.send_cq, 1, &wc))
            c->wrong |= wc.status != RI_WC_SUCCESS || wc.cookie != c->completed++;
        take_one(c);
        sched_yield();
    }
    region_free(&c->sender, &out);
    return NULL;
}

/* Several QPs in several threads, one of which resizes and arms all the time: each receive gets one
 * message, in order. */
START_TEST(many_takers)
{
    pthread_t threads[TAKERS];

    messages = tc_count(3000);
    open_srq(ROOM, 0);
    buffers = region_new(&owner, ROOM * 64, TESTBED_ALL);
    testbed_lane_start(&bed);
    for (uint32_t slot = 0; slot < ROOM; slot++)
        give_slot(slot);
    for (int i = 0; i < TAKERS; i++) {
        side_open(&bed, &crowd[i].sender, NULL);
        side_open(&bed, &crowd[i].taker, &(struct shape){ .srq = srq });
        sides_connect(&crowd[i].sender, &crowd[i].taker, &plain);
    }
    for (int i = 0; i < TAKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_and_take, &crowd[i]), 0);
    for (uint32_t i = 0; i < 40; i++) {
        OK(resize(ROOM + 37 * i));
        set_low(ROOM / 4);
        fake_host_wake(&bed.fake);
        sched_yield();
    }
    for (int i = 0; i < TAKERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < TAKERS; i++) {
        ck_assert(!crowd[i].wrong);
        ck_assert_uint_eq(crowd[i].received, messages);
        side_close(&crowd[i].sender);
        side_close(&crowd[i].taker);
    }
    testbed_lane_stop(&bed);
    region_free(&owner, &buffers);
    close_srq();
}
END_TEST

static atomic_bool stop;

/* Posts to a QP that has ended. The completion of each is reported before the next one comes. */
static void *post_and_wait(void *missed)
{
    struct ri_send_wr *bad, wr = { .opcode = RI_WR_RDMA_WRITE, .flags = RI_WR_SIGNALED };
    struct ri_wc wc;

    for (uint32_t i = 1; !atomic_load(&stop) && !*(bool *)missed; i++) {
        OK(bed.fake.user.arm(a->send_cq, RI_ARM_NEXT, 0));
        OK(bed.fake.user.post_send(a->qp, &wr, &bad));
        *(bool *)missed = !tc_until(atomic_load(&a->send_events.count) == i, TESTBED_TIMEOUT / 10);
        bed.fake.user.poll(a->send_cq, 1, &wc);
    }
    return NULL;
}

/* Requests of other threads for a QP whose queue is being replaced are executed and reported. */
START_TEST(resize_loses_no_event)
{
    const uint32_t depths = 8 + (uint32_t)tc_count(8000);
    bool missed = false;
    pthread_t poster;

    atomic_store(&stop, false);
    open_srq(8, 0);
    side_open(&bed, a, &(struct shape){ .srq = srq });
    side_modify(a, RI_QPS_ERROR);
    ck_assert_int_eq(pthread_create(&poster, NULL, post_and_wait, &missed), 0);
    for (uint32_t depth = 9; depth < depths; depth++)
        OK(resize(depth));
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(poster, NULL), 0);
    ck_assert(!missed);
    side_close(a);
    close_srq();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared receive queue");
    TCase *tc = tc_case(suite, "requests", NULL, NULL);

    tcase_set_timeout(tc, 120);
    tc_add_tests(tc, taken_in_order_by_two, taken_at_the_first_segment);
    tcase_add_loop_test(tc, C072_empty, 0, 2);
    tc_add_tests(tc, C071_a_gap_takes_nothing, C077_protection_is_the_srqs);
    tc = tc_case(suite, "limits", NULL, NULL);
    tc_add_tests(tc, arguments, full_until_polled, X020_X025_srq_limit_once, rq_limit,
                 X020_rq_hard_limit, error_flushes_what_is_in_use, resize_keeps_requests);
    tc = tc_case(suite, "threads", NULL, NULL);
    tcase_set_timeout(tc, 240);
    tc_add_tests(tc, many_takers, resize_loses_no_event);
    return tc_main(suite);
}

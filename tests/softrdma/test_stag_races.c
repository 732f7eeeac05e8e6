/* SPDX-License-Identifier: BSD-3-Clause */
/* Races: windows are bound and unbound, and memory is invalidated, during traffic. */
#include "two_qps.h"

#include <pthread.h>

/* ---- the lane, connections ---- */

static struct ri_wc wait_wc(struct ri_cq *cq)
{
    uint64_t end = tc_deadline(TESTBED_TIMEOUT);
    struct ri_wc wc;

    while (!bed.fake.user.poll(cq, 1, &wc)) {
        if (tc_expired(end))
            ck_abort_msg("no completion");
        sched_yield();
    }
    return wc;
}

static void start_lane(void)
{
    testbed_open(&bed, NULL);
    testbed_lane_start(&bed);
}

static void stop_lane(void)
{
    testbed_lane_stop(&bed);
    bed_close();
}

/* A connection with its thread. */
struct pair {
    struct side sides[2];
    struct side *exposes, *writes; /* each is one of the two sides */
    bool narrow, remote;
    unsigned long rounds, wrong;
    pthread_t thread;
};

#define PAIRS 4

static struct pair pairs[PAIRS];

/* Connections, all of one PD. */
/* All in one PD. With `apart` the first side of every other pair has its own, because its peer
 * invalidates there. */
static void open_pairs(bool apart)
{
    for (int i = 0; i < PAIRS; i++) {
        struct side *sides = pairs[i].sides;
        struct shape shape = willing;

        shape.pd = i && !(apart && i & 1) ? pairs[0].sides[0].pd : NULL;
        for (int j = 0; j < 2; j++) {
            side_open(&bed, &sides[j], &shape);
            shape.pd = pairs[0].sides[0].pd;
        }
        sides_connect(&sides[0], &sides[1], &plain);
    }
    for (int i = 0; i < PAIRS; i++) /* responders wait for the first FPDU */
        ck_assert(tc_until(!side_query(&pairs[i].sides[1]).holding, TESTBED_TIMEOUT));
}

static void start_threads(void *(*work)(void *))
{
    for (int i = 0; i < PAIRS; i++)
        ck_assert_int_eq(pthread_create(&pairs[i].thread, NULL, work, &pairs[i]), 0);
}

static void join_threads(void)
{
    for (int i = 0; i < PAIRS; i++) {
        ck_assert_int_eq(pthread_join(pairs[i].thread, NULL), 0);
        ck_assert_uint_eq(pairs[i].wrong, 0);
    }
}

static void close_pairs(void)
{
    for (int i = PAIRS - 1; i >= 0; i--)
        for (int j = 1; j >= 0; j--)
            side_close(&pairs[i].sides[j]);
}

/* ---- windows ---- */

/* Binds a window, lets the peer's side write through it, unbinds it. The octets of the next round
 * must not appear before their bind. */
static void *bind_and_write(void *arg)
{
    struct pair *t = arg;
    struct region exposed = region_new(t->exposes, 256, BINDABLE);
    struct region source = region_new(t->writes, 256, LOCAL);
    struct window window = window_new(t->exposes, t->narrow);

    for (uint32_t round = 1; round <= t->rounds && !t->wrong; round++) {
        uint64_t at = round % 4 * 64;
        struct ri_send_wr wr = bind_request(&window, &exposed, at, 64, REMOTE, true);
        struct ri_send_wr undo = { .opcode = RI_WR_LOCAL_INVALIDATE, .flags = RI_WR_SIGNALED };
        uint32_t found;

        post(t->exposes, &wr);
        t->wrong += wait_wc(t->exposes->send_cq).status != RI_WC_SUCCESS;
        memcpy(source.octets, &round, sizeof(round));
        side_write(t->writes, 1, region_sge(&source, 0, 64), 0, window.stag);
        t->wrong += wait_wc(t->writes->send_cq).status != RI_WC_SUCCESS;
        side_read(t->writes, 2, region_sge(&source, 128, 64), 0, window.stag);
        t->wrong += wait_wc(t->writes->send_cq).status != RI_WC_SUCCESS;
        memcpy(&found, source.octets + 128, sizeof(found));
        t->wrong += found != round;
        memcpy(&found, exposed.octets + at, sizeof(found));
        t->wrong += found != round;
        undo.invalidate_stag = window.stag;
        if (t->narrow || round % 3) {
            post(t->exposes, &undo);
            t->wrong += wait_wc(t->exposes->send_cq).status != RI_WC_SUCCESS;
        }
    }
    window_free(&window);
    region_free(t->exposes, &exposed);
    region_free(t->writes, &source);
    return NULL;
}

START_TEST(bind_and_unbind_under_traffic)
{
    start_lane();
    open_pairs(false);
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].exposes = &pairs[i].sides[i & 1];
        pairs[i].writes = &pairs[i].sides[!(i & 1)];
        pairs[i].narrow = i & 2;
        pairs[i].rounds = tc_count(600);
    }
    start_threads(bind_and_write);
    join_threads();
    close_pairs();
    stop_lane();
}
END_TEST

/* ---- invalidation ---- */

#define LENGTH 30000u

static atomic_uint working;

static unsigned long not_all(const uint8_t *octets, uint8_t value)
{
    unsigned long wrong = 0;

    for (uint32_t i = 0; i < LENGTH; i++)
        wrong += octets[i] != value;
    return wrong;
}

/* One round: register a region, send from it, let the peer write to it, invalidate it (by the peer,
 * which has received the Send, or by a local request behind it), change the memory at once,
 * deregister. The Send has arrived unchanged, and the Write is whole. */
static void one_round(struct pair *p, struct region *theirs, uint8_t *memory, uint32_t round)
{
    struct side *one = &p->sides[0], *two = &p->sides[1];
    const struct ri_mr_attr attr = {
        .size = sizeof(attr), .access = TESTBED_ALL, .addr = memory, .length = 2 * LENGTH
    };
    struct region mine = { .octets = memory, .length = 2 * LENGTH };
    struct ri_send_wr inv = { .opcode = p->remote ? RI_WR_SEND_INVALIDATE : RI_WR_LOCAL_INVALIDATE,
                              .flags = RI_WR_SIGNALED };

    OK(bed.fake.privileged.mr_register(one->pd, &attr, &mine.keys, &mine.mr));
    memset(memory, (int)(round & 0x7f), LENGTH);
    memset(theirs->octets, (int)(round & 0x7f) | 0x80, LENGTH);
    side_receive(two, 1, region_sge(theirs, LENGTH, LENGTH));
    side_receive(one, 2, region_sge(&mine, 0, 0));
    side_send(one, 3, region_sge(&mine, 0, LENGTH));
    side_write(two, 4, region_sge(theirs, 0, LENGTH), (uintptr_t)memory + LENGTH, mine.keys.rkey);
    inv.invalidate_stag = mine.keys.rkey;
    if (p->remote) {
        p->wrong += wait_wc(two->recv_cq).status != RI_WC_SUCCESS;
        post(two, &inv);
        p->wrong += wait_wc(one->recv_cq).flags != RI_WC_WITH_INVALIDATE;
    } else {
        side_send(two, 5, region_sge(theirs, 0, 0));
        p->wrong += wait_wc(one->recv_cq).status != RI_WC_SUCCESS;
        post(one, &inv);
    }
    p->wrong += wait_wc(one->send_cq).status != RI_WC_SUCCESS;
    if (!p->remote)
        p->wrong += wait_wc(one->send_cq).opcode != RI_WC_LOCAL_INVALIDATE;
    p->wrong += not_all(memory + LENGTH, (uint8_t)((round & 0x7f) | 0x80));
    memset(memory, 0xff, 2 * LENGTH);
    if (!p->remote)
        p->wrong += wait_wc(two->recv_cq).status != RI_WC_SUCCESS;
    p->wrong += not_all(theirs->octets + LENGTH, (uint8_t)(round & 0x7f));
    for (int i = 0; i < 2; i++)
        p->wrong += wait_wc(two->send_cq).status != RI_WC_SUCCESS;
    OK(bed.fake.privileged.mr_deregister(mine.mr));
}

static void *work(void *arg)
{
    struct pair *p = arg;
    struct region theirs = region_new(&p->sides[1], 2 * LENGTH, TESTBED_ALL);
    uint8_t *memory = malloc(2 * LENGTH);

    memset(memory, 0, 2 * LENGTH);
    for (uint32_t round = 0; round < p->rounds && !p->wrong; round++)
        one_round(p, &theirs, memory, round);
    free(memory);
    region_free(&p->sides[1], &theirs);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void set_ord(struct side *side, uint32_t ord)
{
    const struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_ORD, .ord = ord };

    OK(bed.fake.privileged.qp_modify(side->qp, &modify));
    sched_yield();
}

/* Each invalidation checks the output of all connections of its PD. */
START_TEST(invalidate_under_traffic)
{
    start_lane();
    open_pairs(true);
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].remote = i & 1;
        pairs[i].rounds = tc_count(200);
    }
    atomic_store(&working, PAIRS);
    start_threads(work);
    for (uint32_t i = 0; atomic_load(&working); i++) /* a control verb that needs tx and rx */
        set_ord(&pairs[i % PAIRS].sides[i / PAIRS % 2], 4 + i % 5);
    join_threads();
    close_pairs();
    stop_lane();
}
END_TEST

static struct pair writer_pair;

/* Writes into a region until the connection has ended. */
static void *write_for_ever(void *arg)
{
    struct side *side = &writer_pair.sides[1];
    const struct region *target = arg;
    struct region source = region_new(side, LENGTH, TESTBED_ALL);
    struct ri_wc wc = { .status = RI_WC_SUCCESS };

    memset(source.octets, 'w', LENGTH);
    for (uint32_t posted = 0, done = 0; wc.status == RI_WC_SUCCESS;) {
        if (posted - done < 8)
            side_write(side, posted++, region_sge(&source, 0, LENGTH), (uintptr_t)target->octets,
                       target->keys.rkey);
        else
            done += bed.fake.user.poll(side->send_cq, 1, &wc);
    }
    region_free(side, &source);
    return NULL;
}

/* after the completion of the invalidation nothing is placed, even in the middle of the
 * peer's Writes. */
START_TEST(nothing_is_placed_afterwards)
{
    pthread_t writer;

    start_lane();
    for (unsigned long round = 0; round < tc_count(60); round++) {
        struct side *const one = &writer_pair.sides[0];
        struct ri_send_wr wr = { .opcode = RI_WR_LOCAL_INVALIDATE, .flags = RI_WR_SIGNALED };
        struct region target;

        for (int j = 0; j < 2; j++)
            side_open(&bed, &writer_pair.sides[j], &willing);
        target = region_new(one, LENGTH, TESTBED_ALL);
        sides_connect(&writer_pair.sides[1], one, &plain);
        ck_assert(tc_until(!side_query(one).holding, TESTBED_TIMEOUT));
        ck_assert_int_eq(pthread_create(&writer, NULL, write_for_ever, &target), 0);
        ck_assert(tc_until(__atomic_load_n(&target.octets[LENGTH - 1], __ATOMIC_ACQUIRE) == 'w',
                           TESTBED_TIMEOUT));
        wr.invalidate_stag = target.keys.lkey;
        post(one, &wr);
        /* In the other case a Write came between the revocation and its completion, and ended the
         * connection. */
        if (wait_wc(one->send_cq).status == RI_WC_SUCCESS) {
            memset(target.octets, 0, LENGTH);
            ck_assert(tc_until(side_query(one).state == RI_QPS_ERROR, TESTBED_TIMEOUT));
            for (uint32_t i = 0; i < LENGTH; i++)
                ck_assert_uint_eq(target.octets[i], 0);
        }
        ck_assert_int_eq(pthread_join(writer, NULL), 0);
        side_close(one);
        side_close(&writer_pair.sides[1]);
    }
    stop_lane();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("windows and invalidation under traffic");
    TCase *tc = tc_case(suite, "races", NULL, NULL);

    tcase_set_timeout(tc, 240);
    tc_add_tests(tc, bind_and_unbind_under_traffic, invalidate_under_traffic,
                 nothing_is_placed_afterwards);
    return tc_main(suite);
}

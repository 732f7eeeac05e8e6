/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop with one thread that runs the lane and others that concurrently post, poll, register,
 * connect and destroy. */
#include "bed.h"

#include <pthread.h>
#include <sys/mman.h>

static void connect_sides_with(struct side sides[2], const struct ri_llp_handover *handover)
{
    for (int i = 0; i < 2; i++)
        side_open(&bed, &sides[i], NULL);
    sides_connect(&sides[0], &sides[1], handover);
}

static void connect_sides(struct side sides[2])
{
    connect_sides_with(sides, &plain);
}

static bool poll_one(struct ri_cq *cq, struct ri_wc *wc)
{
    return bed.fake.user.poll(cq, 1, wc) == 1;
}

/* ---- data ---- */

#define PAIRS   2
#define WINDOW  16u
#define MESSAGE 20000u

struct worker {
    struct side *side;
    struct worker *peer;
    struct region out, in; /* WINDOW messages each */
    atomic_uint received;  /* received messages, reported to the peer's sender */
    uint32_t sent, completed;
    unsigned long count, wrong;
    struct tc_rng rng;
};

static void stamp(uint8_t *octets, uint32_t length, uint32_t number)
{
    memset(octets, (int)(number & 0xff), length);
    memcpy(octets, &number, sizeof(number));
}

static bool stamped(const uint8_t *octets, uint32_t length, uint32_t number)
{
    uint32_t found;

    memcpy(&found, octets, sizeof(found));
    return found == number && octets[length - 1] == (uint8_t)number &&
           octets[length / 2] == (uint8_t)number;
}

static void send_more(struct worker *w)
{
    uint32_t length, slot = w->sent % WINDOW;

    if (w->sent == w->count || w->sent - w->completed == WINDOW ||
        w->sent - atomic_load(&w->peer->received) >= WINDOW)
        return;
    length = 16 + (uint32_t)tc_below(&w->rng, tc_below(&w->rng, 3) ? 400 : MESSAGE - 16);
    stamp(w->out.octets + (size_t)slot * MESSAGE, length, w->sent);
    side_send(w->side, w->sent++, region_sge(&w->out, (uint64_t)slot * MESSAGE, length));
}

static bool poll_both(struct worker *w)
{
    struct ri_wc wc;
    bool any = false;

    if (poll_one(w->side->send_cq, &wc)) {
        w->wrong += wc.status != RI_WC_SUCCESS || wc.cookie != w->completed++;
        any = true;
    }
    if (poll_one(w->side->recv_cq, &wc)) {
        uint32_t number = atomic_load(&w->received);
        const uint8_t *octets = w->in.octets + (size_t)(number % WINDOW) * MESSAGE;

        w->wrong += wc.status != RI_WC_SUCCESS || wc.cookie != number % WINDOW ||
                    !stamped(octets, wc.byte_len, number);
        side_receive(w->side, number % WINDOW,
                     region_sge(&w->in, (uint64_t)(number % WINDOW) * MESSAGE, MESSAGE));
        atomic_store(&w->received, number + 1);
        any = true;
    }
    return any;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t end = tc_deadline(60000);

    while ((w->completed < w->count || atomic_load(&w->received) < w->count) && !w->wrong) {
        send_more(w);
        if (!poll_both(w))
            sched_yield();
        if (tc_expired(end))
            w->wrong = 1000000;
    }
    return NULL;
}

/* Every side has a thread of its own; order, data and count are correct. */
START_TEST(S036_messages_in_order)
{
    static struct side sides[PAIRS][2];
    static struct worker workers[PAIRS][2];
    pthread_t threads[PAIRS][2];

    memset(workers, 0, sizeof(workers));
    for (int pair = 0; pair < PAIRS; pair++) {
        connect_sides(sides[pair]);
        for (int i = 0; i < 2; i++) {
            struct worker *w = &workers[pair][i];

            w->side = &sides[pair][i];
            w->peer = &workers[pair][!i];
            w->count = tc_count(2000);
            w->rng = tc_rng((uint64_t)(pair * 2 + i));
            w->out = region_new(w->side, WINDOW * MESSAGE, TESTBED_ALL);
            w->in = region_new(w->side, WINDOW * MESSAGE, TESTBED_ALL);
            for (uint32_t slot = 0; slot < WINDOW; slot++)
                side_receive(w->side, slot, region_sge(&w->in, (uint64_t)slot * MESSAGE, MESSAGE));
        }
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        ck_assert_int_eq(pthread_create(&threads[i / 2][i % 2], NULL, work, &workers[i / 2][i % 2]),
                         0);
    for (int i = 0; i < 2 * PAIRS; i++)
        ck_assert_int_eq(pthread_join(threads[i / 2][i % 2], NULL), 0);
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct worker *w = &workers[i / 2][i % 2];

        ck_assert_msg(!w->wrong, "worker %d: %lu wrong, %u of %lu sent, %u received", i, w->wrong,
                      w->completed, w->count, atomic_load(&w->received));
        ck_assert_uint_eq(atomic_load(&w->side->events.count), 0);
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        struct worker *w = &workers[i / 2][i % 2];

        side_modify(w->side, RI_QPS_ERROR); /* receives that are left are flushed */
        region_free(w->side, &w->out);
        region_free(w->side, &w->in);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        side_close(&sides[i / 2][i % 2]);
}
END_TEST

/* Two threads post on one QP. Each sees its own requests complete in its order. */
struct poster {
    struct side *side;
    uint32_t id;
    unsigned long count;
    uint64_t end;
};

static void *post_many(void *arg)
{
    struct poster *p = arg;

    for (unsigned long i = 0; i < p->count && !tc_expired(p->end);) {
        enum ri_status status = side_post(p->side, RI_WR_RDMA_WRITE, (uint64_t)p->id << 32 | i,
                                          RI_WR_SIGNALED, NULL, 0, 0, 0);

        if (status == RI_OK)
            i++;
        else if (status == RI_ERR_QUEUE_FULL)
            sched_yield();
        else
            break;
    }
    return NULL;
}

START_TEST(two_threads_post)
{
    static struct side sides[2];
    struct poster posters[2];
    pthread_t threads[2];
    uint64_t next[2] = { 0 }, end = tc_deadline(60000);
    unsigned long count = tc_count(3000), total = 0;
    struct ri_wc wc;

    connect_sides(sides);
    for (uint32_t i = 0; i < 2; i++) {
        posters[i] = (struct poster){ &sides[0], i, count, end };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    }
    while (total < 2 * count && !tc_expired(end)) {
        if (!poll_one(sides[0].send_cq, &wc)) {
            sched_yield();
            continue;
        }
        ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        ck_assert_uint_eq((uint32_t)wc.cookie, next[wc.cookie >> 32]);
        next[wc.cookie >> 32]++;
        total++;
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(total, 2 * count);
    side_close(&sides[0]);
    side_close(&sides[1]);
}
END_TEST

/* ---- connections begin and end while the lane runs ---- */

/* Connect, send, and destroy either side first, at any moment of the transfer. */
START_TEST(connections_come_and_go)
{
    struct tc_rng rng = tc_rng(3);
    unsigned long rounds = tc_count(100);

    for (unsigned long i = 0; i < rounds; i++) {
        static struct side sides[2];
        struct region from, to;
        struct ri_wc wc;
        int first = (int)tc_below(&rng, 2);
        bool wait = tc_below(&rng, 2);

        connect_sides(sides);
        from = region_new(&sides[0], 100000, TESTBED_ALL);
        to = region_new(&sides[1], 100000, TESTBED_ALL);
        side_receive(&sides[1], 1, region_sge(&to, 0, 100000));
        side_send(&sides[0], 2, region_sge(&from, 0, 1 + (uint32_t)tc_below(&rng, 100000)));
        if (wait) {
            ck_assert(tc_until(poll_one(sides[1].recv_cq, &wc), TESTBED_TIMEOUT));
            ck_assert_uint_eq(wc.status, RI_WC_SUCCESS);
        }
        if (tc_below(&rng, 3) == 0)
            side_modify(&sides[first], RI_QPS_CLOSING);
        for (int k = 0; k < 2; k++) {
            struct side *side = &sides[first ^ k];
            unsigned int told;

            ck_assert_int_eq(bed.fake.privileged.qp_destroy(side->qp), RI_OK);
            side->qp = NULL;
            told = atomic_load(&side->events.count);
            /* No completion of the destroyed QP is polled. */
            ck_assert(!poll_one(side->send_cq, &wc));
            ck_assert(!poll_one(side->recv_cq, &wc));
            ck_assert_uint_eq(atomic_load(&side->events.count), told);
        }
        side_close(&sides[0]);
        side_close(&sides[1]);
    }
}
END_TEST

/* The peer writes without end. The region is deregistered and its memory protected, so a later
 * access would crash. The same for Reads, with and without CRC: without, output refers to the
 * region's memory, and an access would end the connection otherwise. */
START_TEST(X006_deregistered_memory_is_not_touched)
{
    unsigned long rounds = tc_count(30);
    const enum ri_wr_opcode opcode = _i ? RI_WR_RDMA_READ : RI_WR_RDMA_WRITE;
    const uint32_t size = 200000;
    struct ri_llp_handover handover = plain;

    handover.crc = _i < 2;
    for (unsigned long i = 0; i < rounds; i++) {
        static struct side sides[2];
        struct region own, target;
        struct ri_wc wc;
        uint64_t end = tc_deadline(TESTBED_TIMEOUT);
        unsigned int done = 0;
        bool gone = false;
        uint8_t *hole;

        connect_sides_with(sides, &handover);
        own = region_new(&sides[0], size, TESTBED_ALL);
        target = region_new(&sides[1], size, TESTBED_ALL);
        hole = target.octets;
        for (;;) {
            struct ri_sge sge = region_sge(&own, 0, size);

            (void)side_post(&sides[0], opcode, 1, RI_WR_SIGNALED, &sge, 1, (uintptr_t)hole,
                            target.keys.rkey);
            while (poll_one(sides[0].send_cq, &wc))
                done++;
            if (!gone && done > i % 7) {
                ck_assert_int_eq(bed.fake.privileged.mr_deregister(target.mr), RI_OK);
                ck_assert_int_eq(mprotect(hole, size, PROT_NONE), 0);
                gone = true;
            }
            if (atomic_load(&sides[1].events.count) && atomic_load(&sides[0].events.count))
                break;
            ck_assert(!tc_expired(end));
        }
        ck_assert(gone);
        ck_assert_int_eq(sides[1].events.type[0],
                         _i ? RI_EVENT_READ_ACCESS : RI_EVENT_WRITE_ACCESS);
        side_close(&sides[0]);
        side_close(&sides[1]);
    }
}
END_TEST

/* The local source is deregistered while its octets may still wait for the socket. The peer gets
 * the whole message, or the connection ends; the memory is not read any more. */
START_TEST(X006_deregistered_source_is_not_touched)
{
    unsigned long rounds = tc_count(30);
    const uint32_t size = 4 << 20;

    for (unsigned long i = 0; i < rounds; i++) {
        static struct side sides[2];
        struct region own, target;
        struct ri_sge sge;
        struct ri_wc wc;

        connect_sides(sides);
        own = region_new(&sides[0], size, TESTBED_ALL);
        target = region_new(&sides[1], size, TESTBED_ALL);
        sge = region_sge(&own, 0, size);
        ck_assert_int_eq(side_post(&sides[0], RI_WR_RDMA_WRITE, 1, RI_WR_SIGNALED, &sge, 1,
                                   (uintptr_t)target.octets, target.keys.rkey),
                         RI_OK);
        region_free(&sides[0], &own); /* unmaps it too */
        ck_assert(tc_until(poll_one(sides[0].send_cq, &wc), TESTBED_TIMEOUT));
        ck_assert(wc.status == RI_WC_SUCCESS || wc.status == RI_WC_LOCAL_PROTECTION ||
                  wc.status == RI_WC_FLUSHED);
        side_close(&sides[0]);
        side_close(&sides[1]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma loop with threads");
    TCase *tc = tc_case(suite, "threads", bed_open_running, bed_close_running);

    tcase_set_timeout(tc, 0.001 * tc_timeout_ms(120000));
    tc_add_tests(tc, S036_messages_in_order, two_threads_post, connections_come_and_go);
    tcase_add_loop_test(tc, X006_deregistered_memory_is_not_touched, 0, 3);
    tcase_add_test(tc, X006_deregistered_source_is_not_touched);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of an idle QP: no transmit memory, however many were active before; rings as deep as
 * requested. */
#include "testbed.h"

#include <pthread.h>

#include "providers/software/iwarp/wire_iwarp.h"

#define PAIRS   12u
#define THREADS 3u
#define OCTETS  600u /* more than is copied next to a header */

static struct testbed bed;
static struct side sides[PAIRS][2]; /* the initiators first */
static struct region regions[PAIRS][2];

static const struct shape small = { .depth = 8, .sge = 1, .ird = 1, .ord = 1 };
static const struct ri_llp_handover plain = { .mpa_revision = 2, .crc = true, .ird = 1, .ord = 1 };

static void setup(void)
{
    testbed_open(&bed, NULL);
    for (uint32_t i = 0; i < PAIRS; i++) {
        int fds[2];

        testbed_tcp(fds, 0);
        for (int end = 0; end < 2; end++) {
            side_open(&bed, &sides[i][end], &small);
            side_start(&sides[i][end], fds[end], end == 0, &plain);
            regions[i][end] = region_new(&sides[i][end], OCTETS, TESTBED_ALL);
        }
    }
}

static void teardown(void)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        for (int end = 0; end < 2; end++) {
            side_close(&sides[i][end]);
        }
    }
    testbed_close(&bed);
}

static uint32_t with_memory(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < PAIRS; i++)
        for (int end = 0; end < 2; end++)
            count += qp_of(&sides[i][end])->tx.batch.memory != NULL;
    return count;
}

static void read_and_send(uint32_t pair)
{
    struct side *from = &sides[pair][0], *to = &sides[pair][1];
    struct region *own = &regions[pair][0], *far = &regions[pair][1];

    memset(far->octets, (int)pair + 1, OCTETS);
    side_read(from, 1, region_sge(own, 0, OCTETS), (uintptr_t)far->octets, far->keys.rkey);
    side_expect(from, from->send_cq, 1, RI_WC_SUCCESS, OCTETS);
    ck_assert_uint_eq(own->octets[OCTETS - 1], pair + 1);
    side_receive(from, 2, region_sge(own, 0, OCTETS));
    side_send(to, 3, region_sge(far, 0, 100));
    side_expect(to, to->send_cq, 3, RI_WC_SUCCESS, 100);
    side_expect(from, from->recv_cq, 2, RI_WC_SUCCESS, 100);
}

/* Also a second and a third time, by QPs that had returned theirs. */
START_TEST(only_a_few_keep_transmit_memory)
{
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < PAIRS; i++)
            read_and_send(i);
    ck_assert_uint_le(with_memory(), TX_KEEPERS);
    ck_assert_uint_gt(with_memory(), 0);
    ck_assert_ptr_eq(qp_of(&sides[0][0])->tx.batch.memory, NULL);
    ck_assert_ptr_ne(qp_of(&sides[PAIRS - 1][1])->tx.batch.memory, NULL);
}
END_TEST

static bool is_named(const struct iwarp_qp *qp)
{
    const struct iwarp_lane *lane = iwarp_lane(
        container_of(bed.fake.rnic, struct rnic, base)->lanes[0]);
    bool named = false;

    for (uint32_t i = 0; i < TX_KEEPERS; i++)
        named |= lane->keepers[i] == qp;
    return named;
}

/* It keeps its memory for the next connection, and nothing names it when it is gone: what has its
 * memory next would take that of a freed QP. */
START_TEST(a_reset_qp_keeps_its_memory_until_it_is_destroyed)
{
    struct side other;
    const struct iwarp_qp *qp;
    int fds[2];

    memset(&other, 0, sizeof(other));
    testbed_tcp(fds, 0);
    side_open(&bed, &other, &small);
    side_start(&other, fds[0], true, &plain);
    qp = qp_of(&other);
    ck_assert(is_named(qp)); /* by its ready-to-receive message */
    side_modify(&other, RI_QPS_ERROR);
    side_expect_event(&other, RI_EVENT_LLP_RESET, 0);
    side_modify(&other, RI_QPS_IDLE);
    ck_assert(is_named(qp));
    side_close(&other);
    ck_assert(!is_named(qp));
    close(fds[1]);
}
END_TEST

START_TEST(rings_are_as_deep_as_asked_for)
{
    const struct iwarp_qp *qp = qp_of(&sides[0][0]);

    ck_assert_uint_eq(qp->reads.ird_size, 2); /* one for the ready-to-receive Read */
    ck_assert_uint_eq(qp->reads.ord_size, 2);
    ck_assert_uint_eq(qp->core.sq.mask, 7);
    ck_assert_ptr_eq(qp->core.srq_sges, NULL);
}
END_TEST

/* Outstanding Reads wait for their responses while their ring is replaced by a larger one. */
START_TEST(a_ring_grows_with_what_it_holds)
{
    struct side *from = &sides[0][0], *to = &sides[0][1];
    struct ri_qp_modify raise = { .size = sizeof(raise), .mask = RI_QPM_ORD, .ord = 6 };
    struct ri_qp_modify room = { .size = sizeof(room), .mask = RI_QPM_IRD, .ird = 6 };

    for (uint64_t i = 0; i < 6; i++)
        side_read(from, i, region_sge(&regions[0][0], i * 100, 100),
                  (uintptr_t)regions[0][1].octets + i * 100, regions[0][1].keys.rkey);
    ck_assert_uint_eq(
        atomic_load(&qp_of(from)->reads.ord_in) - atomic_load(&qp_of(from)->reads.ord_out), 1);
    ck_assert_int_eq(bed.fake.privileged.qp_modify(to->qp, &room), RI_OK);
    ck_assert_int_eq(bed.fake.privileged.qp_modify(from->qp, &raise), RI_OK);
    ck_assert_uint_eq(qp_of(to)->reads.ird_size, 8);
    ck_assert_uint_eq(qp_of(from)->reads.ord_size, 8);
    ck_assert_uint_eq(
        atomic_load(&qp_of(from)->reads.ord_in) - atomic_load(&qp_of(from)->reads.ord_out), 6);
    for (uint64_t i = 0; i < 6; i++)
        side_expect(from, from->send_cq, i, RI_WC_SUCCESS, 100);
}
END_TEST

/* --- several threads take transmit memory from each other --- */

struct worker {
    pthread_t thread;
    uint32_t number;
    atomic_bool done;
};

static void write_one(uint32_t pair)
{
    struct side *from = &sides[pair][0];
    struct ri_wc wc;

    side_write(from, pair, region_sge(&regions[pair][0], 0, OCTETS),
               (uintptr_t)regions[pair][1].octets, regions[pair][1].keys.rkey);
    while (bed.fake.user.poll(from->send_cq, 1, &wc) != 1)
        sched_yield();
    ck_assert_int_eq(wc.status, RI_WC_SUCCESS);
}

static void *write_by_turns(void *arg)
{
    struct worker *worker = arg;

    for (unsigned long i = 0; i < tc_count(3000); i++)
        write_one((uint32_t)(i % (PAIRS / THREADS)) * THREADS + worker->number);
    atomic_store(&worker->done, true);
    fake_host_wake(&bed.fake);
    return NULL;
}

static bool all_done(const struct worker *workers)
{
    bool done = true;

    for (uint32_t i = 0; i < THREADS; i++)
        done &= atomic_load(&workers[i].done);
    return done;
}

START_TEST(threads_take_it_from_each_other)
{
    struct worker workers[THREADS] = { 0 };

    for (uint32_t i = 0; i < PAIRS; i++)
        read_and_send(i); /* each may send, and is not polled any more */
    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i].number = i;
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, write_by_turns, &workers[i]), 0);
    }
    ck_assert(fake_host_until(&bed.fake, all_done(workers), 60000));
    for (uint32_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    ck_assert_uint_le(with_memory(), TX_KEEPERS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("an idle QP holds little");
    TCase *tc = tc_case(suite, "idle", setup, teardown);

    tc_add_tests(tc, only_a_few_keep_transmit_memory,
                 a_reset_qp_keeps_its_memory_until_it_is_destroyed, rings_are_as_deep_as_asked_for,
                 a_ring_grows_with_what_it_holds, threads_take_it_from_each_other);
    return tc_main(suite);
}

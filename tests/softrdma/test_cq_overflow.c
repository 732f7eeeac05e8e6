/* SPDX-License-Identifier: BSD-3-Clause */
/* Full completion queues: an overflow loses and reorders nothing, and is reported once. */
#include "cq_fixture.h"

#include "providers/software/core/cq.h"

#include <pthread.h>
#include <sched.h>

/* ---- overflow ---- */

/* Two queues of one QP and one queue of another complete into a CQ of two entries. Each queue's
 * order holds, nothing is lost, and each overflow is reported once. */
START_TEST(X021_overflow_holds_order)
{
    uint64_t next[3] = { 0 }, total = 0;
    struct cq *cq = new_cq(2);
    struct qp one, two;
    struct ri_wc wc[3];

    new_qp(&one, cq, cq, 16);
    new_qp(&two, cq, cq, 16);
    for (uint64_t i = 0; i < 10; i++) {
        complete_send(&one, 100 + i);
        complete_receive(&one, 200 + i);
        complete_send(&two, 300 + i);
    }
    expect_count(cq, 2, 0);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    while (total < 30) {
        uint32_t count = core_poll(&cq->base, 1 + (uint32_t)(total % 3), wc);

        ck_assert_uint_gt(count, 0);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t queue = wc[i].cookie / 100 - 1;

            ck_assert_uint_eq(wc[i].cookie % 100, next[queue]);
            next[queue]++;
        }
        total += count;
        if (total == 12) /* it comes later and must not overtake */
            ck_assert_uint_lt(next[0], 10);
    }
    expect_nothing(cq);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    for (uint64_t i = 0; i < 3; i++)
        complete_send(&one, i); /* the CQ was empty in between: a new overflow */
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 2);
    for (uint64_t i = 0; i < 3; i++)
        expect(cq, i);
    end_qp(&one);
    end_qp(&two);
    end_cq(cq);
}
END_TEST

/* The overflow lasts until all queued completions have been taken, by poll or by purge. */
START_TEST(one_overflow_is_told_once)
{
    struct cq *cq = new_cq(1);
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    for (unsigned int overflow = 1; overflow <= 3; overflow++) {
        for (uint64_t i = 0; i < 10; i++)
            complete_send(&qp, i);
        for (uint64_t i = 0; i < 10; i++)
            expect(cq, i);
        ck_assert_uint_eq(atomic_load(&record.cq_errors), overflow);
        expect_nothing(cq);
    }
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

/* One thread retries a blocked queue. Another one has found the ring empty, and its poll ends
 * between the first one's steps. */
START_TEST(a_retry_does_not_end_an_overflow)
{
    struct cq *cq = new_cq(1);
    struct qp qp, *taken;
    int which = CQ_SENDS;

    new_qp(&qp, cq, cq, 16);
    for (uint64_t i = 0; i < 10; i++)
        complete_send(&qp, i);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    ri_ring_take_to(&cq->ring, ri_ring_head(&cq->ring) + 1); /* the first thread polled */
    taken = cq_take_blocked(cq, &which);
    ck_assert_ptr_eq(taken, &qp);
    spinlock_lock(&cq->lock); /* the second one */
    cq_end_overflow(cq);
    spinlock_unlock(&cq->lock);
    qp_retire(&qp, &qp.sq); /* the first one goes on: the CQ is full again */
    cq_retried(cq);
    qp_deliver(&qp);
    cq_deliver(cq);
    atomic_fetch_sub(&qp.upcalls, 1);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 1);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    for (uint64_t i = 1; i < 10; i++)
        expect(cq, i);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    for (uint64_t i = 0; i < 3; i++)
        complete_send(&qp, i);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 2);
    for (uint64_t i = 0; i < 3; i++)
        expect(cq, i);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

START_TEST(a_purge_does_not_end_an_overflow)
{
    struct cq *cq = new_cq(1);
    struct qp one, two;

    new_qp(&one, cq, cq, 8);
    new_qp(&two, cq, cq, 8);
    complete_send(&one, 1);
    complete_send(&two, 11);
    complete_send(&two, 12);
    cq_purge(cq, &one);
    cq_retry_blocked(cq);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 1);
    expect(cq, 11);
    expect(cq, 12);
    complete_send(&two, 13);
    complete_send(&two, 14);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 2);
    cq_purge(cq, &two); /* no queued completion is left */
    end_qp(&two);
    new_qp(&two, cq, cq, 8);
    complete_send(&two, 15);
    complete_send(&two, 16);
    ck_assert_uint_eq(atomic_load(&record.cq_errors), 3);
    end_qp(&one);
    end_qp(&two);
    end_cq(cq);
}
END_TEST

/* A queue with queued completions must wait its turn even if the CQ has room. */
START_TEST(blocked_queue_is_not_overtaken)
{
    struct cq *cq = new_cq(1);
    struct qp one, two;

    new_qp(&one, cq, cq, 8);
    new_qp(&two, cq, cq, 8);
    complete_send(&one, 1);
    complete_send(&one, 2);
    complete_send(&one, 3);
    complete_send(&two, 11);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 2);
    expect(cq, 1); /* 2 takes its place, 3 waits behind the other QP */
    complete_send(&one, 4);
    expect(cq, 2);
    expect(cq, 11);
    expect(cq, 3);
    expect(cq, 4);
    expect_nothing(cq);
    end_qp(&one);
    end_qp(&two);
    end_cq(cq);
}
END_TEST

/* An armed CQ fires for a queued completion when it enters the CQ. */
START_TEST(overflow_and_arm)
{
    struct cq *cq = new_cq(1);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    complete_send(&qp, 1);
    complete_send(&qp, 2);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NEXT, 0), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    expect(cq, 1);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    expect(cq, 2);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

START_TEST(resize_keeps_what_is_there)
{
    struct cq *cq = new_cq(3);
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    ck_assert_int_eq(resize_to(cq, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(resize_to(cq, 1001), RI_ERR_LIMIT);
    for (uint64_t i = 0; i < 5; i++) /* two of them do not fit */
        complete_send(&qp, i);
    ck_assert_int_eq(resize_to(cq, 2), RI_ERR_BUSY);
    ck_assert_int_eq(resize_to(cq, 5), RI_OK);
    expect_count(cq, 5, 0);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    expect(cq, 0);
    expect(cq, 1);
    ck_assert_int_eq(resize_to(cq, 3), RI_OK);
    complete_send(&qp, 5);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 1); /* the CQ is full at three entries */
    for (uint64_t i = 2; i < 6; i++)
        expect(cq, i);
    expect_nothing(cq);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

/* ---- purge ---- */

START_TEST(purge_removes_one_qp)
{
    struct cq *cq = new_cq(6), *other_cq = new_cq(6);
    struct qp one, two;

    new_qp(&one, cq, cq, 16);
    new_qp(&two, cq, other_cq, 16);
    for (uint64_t i = 0; i < 3; i++) {
        complete(&one, &one.sq, i, RI_WR_SIGNALED | RI_WR_NOTIFY, 0, RI_WC_SUCCESS);
        complete(&two, &two.sq, 10 + i, RI_WR_SIGNALED | RI_WR_NOTIFY, 0, RI_WC_SUCCESS);
    }
    complete_receive(&one, 3); /* these are queued */
    complete_send(&two, 13);
    complete_send(&two, 14);
    complete_receive(&two, 99);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 2);
    cq_purge(cq, &one);
    cq_purge(cq, &one); /* send and receive CQ are the same, so it is called twice */
    cq_retry_blocked(cq);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    expect_count(cq, 5, 3); /* queued completions entered without a poll */
    for (uint64_t i = 10; i < 15; i++)
        expect(cq, i);
    expect_nothing(cq);
    complete_send(&one, 4); /* a late completion of the destroyed QP is refused */
    complete_receive(&one, 5);
    expect_nothing(cq);
    expect(other_cq, 99);
    end_qp(&one);
    end_qp(&two);
    end_cq(cq);
    end_cq(other_cq);
}
END_TEST

/* ---- threads ---- */

/*
 * One thread per QP completes sends and receives as slots are released, into a CQ that is far too
 * small; two threads poll. Two polling threads cannot compare their order, so this run checks only
 * that each entry appears once. The run with one polling thread checks the order.
 */
#define THREADS 2
static struct cq *shared;
static struct qp shared_qp[THREADS];
static unsigned long rounds;
static atomic_uint polled;
static atomic_uchar seen[THREADS][2][200000];

static void fill(struct qp *qp, struct wq *wq, unsigned long *posted)
{
    struct wqe *wqe;
    enum ri_status status;

    if (*posted == rounds)
        return;
    spinlock_lock(&wq->posting);
    status = wq_take(wq, NULL, 0, 0, &wqe);
    if (status == RI_OK) {
        wqe->cookie = (*posted)++;
        wqe->flags = RI_WR_SIGNALED;
        wqe->opcode = RI_WR_SEND;
        wqe_finish(wqe, RI_WC_SUCCESS, 0);
        wq_publish(wq);
    }
    spinlock_unlock(&wq->posting);
    if (status == RI_OK) {
        mark_sent(qp, wq);
        qp_retire(qp, wq);
        qp_deliver(qp);
    } else {
        sched_yield();
    }
}

static void *produce(void *arg)
{
    struct qp *qp = arg;
    unsigned long sends = 0, receives = 0;

    while (sends < rounds || receives < rounds) {
        fill(qp, &qp->sq, &sends);
        fill(qp, &qp->rq, &receives);
    }
    return NULL;
}

static void *consume(void *arg)
{
    const bool alone = arg != NULL;
    unsigned int total = (unsigned int)(rounds * 2 * THREADS);
    uint64_t next[THREADS][2] = { { 0 } };
    unsigned long wrong = 0;
    struct ri_wc wc[3];

    while (atomic_load(&polled) < total) {
        uint32_t count = core_poll(&shared->base, 3, wc);

        for (uint32_t i = 0; i < count; i++) {
            int qp = (int)((struct qp *)wc[i].context - shared_qp),
                queue = wc[i].opcode == RI_WC_RECV;

            wrong += atomic_fetch_add(&seen[qp][queue][wc[i].cookie], 1) != 0;
            wrong += alone && wc[i].cookie != next[qp][queue]++;
        }
        atomic_fetch_add(&polled, count);
        if (!count)
            sched_yield();
    }
    return (void *)wrong;
}

/* Resizes the CQ all the time. */
static void *resize(void *arg)
{
    struct tc_rng rng = tc_rng(7);
    unsigned int total = (unsigned int)(rounds * 2 * THREADS);

    (void)arg;
    while (atomic_load(&polled) < total) {
        uint32_t depth = 1 + (uint32_t)tc_below(&rng, 9);
        enum ri_status status = core_cq_resize(&shared->base, &depth);

        ck_assert(status == RI_OK || status == RI_ERR_BUSY);
        sched_yield();
    }
    return NULL;
}

START_TEST(concurrent_push_and_poll)
{
    pthread_t producers[THREADS], consumers[2], resizer;
    int consuming = _i % 2 + 1;
    bool resizing = _i >= 2;

    rounds = tc_count(5000);
    if (rounds > sizeof(seen[0][0]) / sizeof(seen[0][0][0]))
        rounds = sizeof(seen[0][0]) / sizeof(seen[0][0][0]);
    shared = new_cq(5);
    for (int i = 0; i < THREADS; i++)
        new_qp(&shared_qp[i], shared, shared, 4);
    for (int i = 0; i < consuming; i++)
        ck_assert_int_eq(
            pthread_create(&consumers[i], NULL, consume, consuming == 1 ? shared : NULL), 0);
    if (resizing)
        ck_assert_int_eq(pthread_create(&resizer, NULL, resize, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&producers[i], NULL, produce, &shared_qp[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(producers[i], NULL), 0);
    for (int i = 0; i < consuming; i++) {
        void *wrong;

        ck_assert_int_eq(pthread_join(consumers[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    if (resizing)
        ck_assert_int_eq(pthread_join(resizer, NULL), 0);
    expect_nothing(shared);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(atomic_load(&shared_qp[i].upcalls), 0);
        end_qp(&shared_qp[i]);
    }
    end_cq(shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma completion queues that are full");
    TCase *tc = tc_case(suite, "overflow", cq_setup, NULL);

    tc_add_tests(tc, X021_overflow_holds_order, one_overflow_is_told_once,
                 a_retry_does_not_end_an_overflow, a_purge_does_not_end_an_overflow,
                 blocked_queue_is_not_overtaken, overflow_and_arm, purge_removes_one_qp,
                 resize_keeps_what_is_there);
    tc = tc_case(suite, "threads", cq_setup, NULL);
    tcase_add_loop_test(tc, concurrent_push_and_poll, 0, 4);
    return tc_main(suite);
}

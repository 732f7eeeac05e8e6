/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: order, arming, and that an overflow loses and reorders nothing. Work queues
 * are real, requests are finished by hand, no connection is needed. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fake_host.h"
#include "tc.h"

#include <pthread.h>
#include <string.h>

#include "providers/softrdma/softrdma.h"

/* ---- a host without its own lane ---- */

static struct fake_host fake;
static struct fake_record record; /* of all CQs */

/* A QP's context is the QP itself, no record. */
static void drop_event(const struct ri_host *host, void *context, const struct ri_event *event)
{
    (void)host, (void)context, (void)event;
}

static struct rnic rnic;
static struct lane lane;

static void setup(void)
{
    memset(&rnic, 0, sizeof(rnic));
    fake_host_init(&fake, NULL, false);
    memset(&record, 0, sizeof(record));
    fake.host.qp_event = drop_event;
    rnic.host = &fake.host;
    rnic.lanes[0] = &lane;
    rnic.options.lanes = 1;
    rnic.attr.max_cq = 100;
    rnic.attr.max_cqe = 1000;
}

static struct cq *new_cq(uint32_t depth)
{
    struct ri_cq_attr attr = { .size = sizeof(attr), .depth = depth, .context = &record };
    struct ri_cq *cq;

    ck_assert_int_eq(softrdma_cq_create(&rnic.base, &attr, &cq), RI_OK);
    ck_assert_uint_ge(attr.depth, depth);
    return container_of(cq, struct cq, base);
}

static void new_qp(struct qp *qp, struct cq *send, struct cq *receive, uint32_t depth)
{
    memset(qp, 0, sizeof(*qp));
    qp->base.context = qp;
    qp->rnic = &rnic;
    qp->lane = &lane;
    qp->send_cq = send;
    qp->recv_cq = receive;
    ck_assert_int_eq(wq_open(&qp->sq, false, depth, 1), RI_OK);
    ck_assert_int_eq(wq_open(&qp->rq, true, depth, 1), RI_OK);
}

static void end_qp(struct qp *qp)
{
    wq_close(&qp->sq);
    wq_close(&qp->rq);
}

static void expect_full(struct wq *wq)
{
    struct wqe *wqe;

    spinlock_lock(&wq->posting);
    ck_assert_int_eq(wq_take(wq, NULL, 0, 0, &wqe), RI_ERR_QUEUE_FULL);
    spinlock_unlock(&wq->posting);
}

static struct wqe *post(struct wq *wq, uint64_t cookie, uint16_t flags)
{
    struct wqe *wqe;

    spinlock_lock(&wq->posting);
    ck_assert_int_eq(wq_take(wq, NULL, 0, 0, &wqe), RI_OK);
    wqe->cookie = cookie;
    wqe->flags = flags;
    wqe->opcode = RI_WR_SEND;
    wq_publish(wq);
    spinlock_unlock(&wq->posting);
    return wqe;
}

/* tx has sent what is posted, and looks at none of it any more. */
static void let_go(struct qp *qp, const struct wq *wq)
{
    if (!wq->receive)
        atomic_store(&qp->tx.sq_sent, atomic_load(&wq->posted));
}

static void finish(struct qp *qp, struct wq *wq, struct wqe *wqe, enum ri_wc_status status)
{
    let_go(qp, wq);
    wqe_finish(wqe, status, 0);
    qp_retire(qp, wq);
    qp_deliver(qp);
}

/* Post and complete; flags of the request, flags of the completion. */
static void complete(struct qp *qp, struct wq *wq, uint64_t cookie, uint16_t flags,
                     uint8_t wc_flags, enum ri_wc_status status)
{
    struct wqe *wqe = post(wq, cookie, flags);

    wqe->wc_flags = wc_flags;
    finish(qp, wq, wqe, status);
}

static void complete_send(struct qp *qp, uint64_t cookie)
{
    complete(qp, &qp->sq, cookie, RI_WR_SIGNALED, 0, RI_WC_SUCCESS);
}

static void complete_receive(struct qp *qp, uint64_t cookie)
{
    complete(qp, &qp->rq, cookie, 0, 0, RI_WC_SUCCESS);
}

static void expect(struct cq *cq, uint64_t cookie)
{
    struct ri_wc wc;

    ck_assert_uint_eq(softrdma_poll(&cq->base, 1, &wc), 1);
    ck_assert_uint_eq(wc.cookie, cookie);
}

static void expect_nothing(struct cq *cq)
{
    struct ri_wc wc;

    ck_assert_uint_eq(softrdma_poll(&cq->base, 1, &wc), 0);
}

static void expect_count(struct cq *cq, uint32_t total, uint32_t notable)
{
    uint32_t found, marked;

    ck_assert_int_eq(softrdma_cq_peek(&cq->base, &found, &marked), RI_OK);
    ck_assert_uint_eq(found, total);
    ck_assert_uint_eq(marked, notable);
}

/* ---- life ---- */

START_TEST(limits)
{
    struct ri_cq_attr attr = { .size = sizeof(attr) };
    struct ri_cq *base = NULL;
    struct cq *cq = new_cq(1000);

    ck_assert_int_eq(softrdma_cq_create(&rnic.base, &attr, &base), RI_ERR_INVALID_ARGUMENT);
    attr.depth = 1001;
    ck_assert_int_eq(softrdma_cq_create(&rnic.base, &attr, &base), RI_ERR_LIMIT);
    rnic.attr.max_cq = 1;
    attr.depth = 1;
    ck_assert_int_eq(softrdma_cq_create(&rnic.base, &attr, &base), RI_ERR_LIMIT);
    ck_assert_ptr_null(base);
    atomic_fetch_add(&cq->users, 1);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_ERR_BUSY);
    atomic_fetch_sub(&cq->users, 1);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
    ck_assert_uint_eq(atomic_load(&rnic.cqs), 0);
}
END_TEST

START_TEST(oldest_first)
{
    struct cq *cq = new_cq(7);
    struct ri_wc wc[10];
    uint64_t in = 0, out = 0;
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    for (int round = 0; round < 50; round++) { /* the ring wraps */
        uint32_t count = (uint32_t)round % 8, took;

        for (uint32_t i = 0; i < count; i++, in++)
            in % 3 ? complete_send(&qp, in) : complete_receive(&qp, in);
        expect_count(cq, count, 0);
        took = softrdma_poll(&cq->base, 10, wc);
        ck_assert_uint_eq(took, count);
        for (uint32_t i = 0; i < took; i++, out++) {
            ck_assert_uint_eq(wc[i].cookie, out);
            ck_assert_ptr_eq(wc[i].context, &qp);
            ck_assert_uint_eq(wc[i].opcode, out % 3 ? RI_WC_SEND : RI_WC_RECV);
        }
    }
    expect_nothing(cq);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* A request that is done waits for those before it. */
START_TEST(S047_queue_order)
{
    struct cq *cq = new_cq(8);
    struct wqe *first, *second;
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    first = post(&qp.sq, 1, RI_WR_SIGNALED);
    second = post(&qp.sq, 2, RI_WR_SIGNALED);
    finish(&qp, &qp.sq, second, RI_WC_SUCCESS);
    expect_nothing(cq);
    finish(&qp, &qp.sq, first, RI_WC_SUCCESS);
    expect(cq, 1);
    expect(cq, 2);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* Unsignalled requests make no completion, their slots come free
 * with the next one that is polled. */
START_TEST(slots_come_free_by_polling)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 3);
    complete(&qp, &qp.sq, 1, 0, 0, RI_WC_SUCCESS);
    complete(&qp, &qp.sq, 2, 0, 0, RI_WC_SUCCESS);
    expect_nothing(cq);
    complete_send(&qp, 3);
    expect_full(&qp.sq);
    expect(cq, 3);
    for (uint64_t i = 4; i < 7; i++)
        post(&qp.sq, i, 0);
    expect_full(&qp.sq);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* Failure always makes a completion. */
START_TEST(unsignalled_failure_is_told)
{
    struct cq *cq = new_cq(8);
    struct qp qp;
    struct ri_wc wc;

    new_qp(&qp, cq, cq, 3);
    complete(&qp, &qp.sq, 1, 0, 0, RI_WC_FLUSHED);
    ck_assert_uint_eq(softrdma_poll(&cq->base, 1, &wc), 1);
    ck_assert_uint_eq(wc.status, RI_WC_FLUSHED);
    ck_assert_uint_eq(wc.opcode, RI_WC_SEND);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* ---- arming ---- */

static const struct {
    enum ri_arm kind;
    uint16_t flags;
    uint8_t wc_flags;
    enum ri_wc_status status;
    bool fires;
} arm_cases[] = {
    { RI_ARM_NEXT, 0, 0, RI_WC_SUCCESS, true },
    { RI_ARM_NEXT, 0, 0, RI_WC_FLUSHED, true },
    { RI_ARM_SOLICITED, 0, 0, RI_WC_SUCCESS, false },
    { RI_ARM_SOLICITED, RI_WR_NOTIFY, 0, RI_WC_SUCCESS, false },
    { RI_ARM_SOLICITED, 0, RI_WC_SOLICITED, RI_WC_SUCCESS, true },
    { RI_ARM_SOLICITED, 0, 0, RI_WC_LOCAL_LENGTH, true },
    { RI_ARM_SOLICITED, 0, 0, RI_WC_FLUSHED, true },
    { RI_ARM_NOTIFY_MARKED, 0, 0, RI_WC_SUCCESS, false },
    { RI_ARM_NOTIFY_MARKED, RI_WR_NOTIFY, 0, RI_WC_SUCCESS, true },
    { RI_ARM_NOTIFY_MARKED, 0, RI_WC_SOLICITED, RI_WC_SUCCESS, true },
    { RI_ARM_NOTIFY_MARKED, 0, 0, RI_WC_FLUSHED, true },
};

START_TEST(C118_arm_kinds)
{
    struct cq *cq = new_cq(8);
    bool notable = arm_cases[_i].flags || arm_cases[_i].wc_flags ||
                   arm_cases[_i].status != RI_WC_SUCCESS;
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    ck_assert_int_eq(softrdma_arm(&cq->base, arm_cases[_i].kind, 0), RI_OK);
    complete(&qp, &qp.rq, 1, arm_cases[_i].flags, arm_cases[_i].wc_flags, arm_cases[_i].status);
    ck_assert_uint_eq(atomic_load(&record.count), arm_cases[_i].fires);
    expect_count(cq, 1, notable);
    /* would fire any kind */
    complete(&qp, &qp.rq, 2, RI_WR_NOTIFY, RI_WC_SOLICITED, RI_WC_SUCCESS);
    ck_assert_uint_eq(atomic_load(&record.count), 1); /* once only */
    expect(cq, 1);
    expect(cq, 2);
    expect_count(cq, 0, 0);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

START_TEST(what_is_there_does_not_fire)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    complete(&qp, &qp.rq, 1, RI_WR_NOTIFY, RI_WC_SOLICITED, RI_WC_SUCCESS);
    for (int kind = RI_ARM_NEXT; kind <= RI_ARM_NOTIFY_MARKED; kind++) {
        ck_assert_int_eq(softrdma_arm(&cq->base, (enum ri_arm)kind, 0), RI_OK);
        ck_assert_uint_eq(atomic_load(&record.count), 0);
    }
    ck_assert_int_eq(softrdma_arm(&cq->base, (enum ri_arm)(RI_ARM_NTH + 1), 1),
                     RI_ERR_INVALID_ARGUMENT);
    complete_send(&qp, 2); /* armed for marked ones */
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NEXT, 0), RI_OK); /* replaces */
    complete_send(&qp, 3);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

START_TEST(arm_nth)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 9), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 3), RI_OK);
    complete_send(&qp, 1);
    complete_send(&qp, 2);
    expect(cq, 1); /* one less again */
    complete_send(&qp, 3);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    complete_send(&qp, 4);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 3), RI_OK); /* they are there: at once */
    ck_assert_uint_eq(atomic_load(&record.count), 2);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* ---- overflow ---- */

/* Two queues of a QP and one of another, all into a CQ of two: each queue's order holds, nothing
 * is lost, one error per overflow. */
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
        uint32_t count = softrdma_poll(&cq->base, 1 + (uint32_t)(total % 3), wc);

        ck_assert_uint_gt(count, 0);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t queue = wc[i].cookie / 100 - 1;

            ck_assert_uint_eq(wc[i].cookie % 100, next[queue]);
            next[queue]++;
        }
        total += count;
        if (total == 12) /* comes later, must not overtake */
            ck_assert_uint_lt(next[0], 10);
    }
    expect_nothing(cq);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    for (uint64_t i = 0; i < 3; i++)
        complete_send(&one, i); /* it had run empty: a second overflow is told again */
    ck_assert_uint_ge(atomic_load(&record.cq_errors), 2);
    for (uint64_t i = 0; i < 3; i++)
        expect(cq, i);
    end_qp(&one);
    end_qp(&two);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* A queue that waits is refused also when there is room, until it had its turn. */
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
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* An armed CQ fires for a completion that had to wait, when it gets in. */
START_TEST(overflow_and_arm)
{
    struct cq *cq = new_cq(1);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    complete_send(&qp, 1);
    complete_send(&qp, 2);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NEXT, 0), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    expect(cq, 1);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    expect(cq, 2);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* ---- resize ---- */

static enum ri_status resize_to(struct cq *cq, uint32_t depth)
{
    return softrdma_cq_resize(&cq->base, &depth);
}

START_TEST(resize_keeps_what_is_there)
{
    struct cq *cq = new_cq(3);
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    ck_assert_int_eq(resize_to(cq, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(resize_to(cq, 1001), RI_ERR_LIMIT);
    for (uint64_t i = 0; i < 5; i++) /* two of them wait outside */
        complete_send(&qp, i);
    ck_assert_int_eq(resize_to(cq, 2), RI_ERR_BUSY);
    ck_assert_int_eq(resize_to(cq, 5), RI_OK);
    expect_count(cq, 5, 0);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    expect(cq, 0);
    expect(cq, 1);
    ck_assert_int_eq(resize_to(cq, 3), RI_OK);
    complete_send(&qp, 5);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 1); /* it is full at three */
    for (uint64_t i = 2; i < 6; i++)
        expect(cq, i);
    expect_nothing(cq);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
}
END_TEST

/* A wish for more completions than a smaller CQ holds is fulfilled when it is full. */
START_TEST(resize_keeps_the_wake_up)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    complete_send(&qp, 0);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 8), RI_OK);
    ck_assert_int_eq(resize_to(cq, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    complete_send(&qp, 1);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(resize_to(cq, 8), RI_OK);
    ck_assert_int_eq(softrdma_arm(&cq->base, RI_ARM_NTH, 3), RI_OK);
    ck_assert_int_eq(resize_to(cq, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 2);
    end_qp(&qp);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
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
    complete_receive(&one, 3); /* these wait */
    complete_send(&two, 13);
    complete_send(&two, 14);
    complete_receive(&two, 99);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 2);
    cq_purge(cq, &one);
    cq_purge(cq, &one); /* send and receive CQ are the same: called twice */
    cq_retry_blocked(cq);
    ck_assert_uint_eq(atomic_load(&cq->blocked), 0);
    expect_count(cq, 5, 3); /* those that waited came in without a poll */
    for (uint64_t i = 10; i < 15; i++)
        expect(cq, i);
    expect_nothing(cq);
    complete_send(&one, 4); /* a straggler of the dead QP is refused */
    complete_receive(&one, 5);
    expect_nothing(cq);
    expect(other_cq, 99);
    end_qp(&one);
    end_qp(&two);
    ck_assert_int_eq(softrdma_cq_destroy(&cq->base), RI_OK);
    ck_assert_int_eq(softrdma_cq_destroy(&other_cq->base), RI_OK);
}
END_TEST

/* ---- threads ---- */

/*
 * A thread per QP completes sends and receives as slots come free, into a CQ that is far too small;
 * two threads poll. Two polling threads cannot compare what they saw, so each entry is checked for
 * being there once, and by one of them alone for order (the other run).
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
        let_go(qp, wq);
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
        uint32_t count = softrdma_poll(&shared->base, 3, wc);

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

/* The CQ never keeps a size for long. */
static void *resize(void *arg)
{
    struct tc_rng rng = tc_rng(7);
    unsigned int total = (unsigned int)(rounds * 2 * THREADS);

    (void)arg;
    while (atomic_load(&polled) < total) {
        uint32_t depth = 1 + (uint32_t)tc_below(&rng, 9);
        enum ri_status status = softrdma_cq_resize(&shared->base, &depth);

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
    ck_assert_int_eq(softrdma_cq_destroy(&shared->base), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma completion queues");
    TCase *tc = tcase_create("ring");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, limits);
    tcase_add_test(tc, oldest_first);
    tcase_add_test(tc, S047_queue_order);
    tcase_add_test(tc, slots_come_free_by_polling);
    tcase_add_test(tc, unsignalled_failure_is_told);
    suite_add_tcase(suite, tc);
    tc = tcase_create("arm");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, C118_arm_kinds, 0, (int)(sizeof(arm_cases) / sizeof(arm_cases[0])));
    tcase_add_test(tc, what_is_there_does_not_fire);
    tcase_add_test(tc, arm_nth);
    suite_add_tcase(suite, tc);
    tc = tcase_create("overflow");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, X021_overflow_holds_order);
    tcase_add_test(tc, blocked_queue_is_not_overtaken);
    tcase_add_test(tc, overflow_and_arm);
    tcase_add_test(tc, purge_removes_one_qp);
    tcase_add_test(tc, resize_keeps_what_is_there);
    tcase_add_test(tc, resize_keeps_the_wake_up);
    suite_add_tcase(suite, tc);
    tc = tcase_create("threads");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc, concurrent_push_and_poll, 0, 4);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: limits, order, release of slots, arming. */
#include "cq_fixture.h"

/* ---- create and destroy ---- */

START_TEST(limits)
{
    struct ri_cq_attr attr = { .size = sizeof(attr) };
    struct ri_cq *base = NULL;
    struct cq *cq = new_cq(1000);

    ck_assert_int_eq(core_cq_create(&rnic.base, &attr, &base), RI_ERR_INVALID_ARGUMENT);
    attr.depth = 1001;
    ck_assert_int_eq(core_cq_create(&rnic.base, &attr, &base), RI_ERR_LIMIT);
    rnic.attr.max_cq = 1;
    attr.depth = 1;
    ck_assert_int_eq(core_cq_create(&rnic.base, &attr, &base), RI_ERR_LIMIT);
    ck_assert_ptr_null(base);
    atomic_fetch_add(&cq->users, 1);
    ck_assert_int_eq(core_cq_destroy(&cq->base), RI_ERR_BUSY);
    atomic_fetch_sub(&cq->users, 1);
    end_cq(cq);
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
        took = core_poll(&cq->base, 10, wc);
        ck_assert_uint_eq(took, count);
        for (uint32_t i = 0; i < took; i++, out++) {
            ck_assert_uint_eq(wc[i].cookie, out);
            ck_assert_ptr_eq(wc[i].context, &qp);
            ck_assert_uint_eq(wc[i].opcode, out % 3 ? RI_WC_SEND : RI_WC_RECV);
        }
    }
    expect_nothing(cq);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

/* A completed request waits for those before it. */
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
    end_cq(cq);
}
END_TEST

static void expect_full(struct wq *wq)
{
    struct wqe *wqe;

    spinlock_lock(&wq->posting);
    ck_assert_int_eq(wq_take(wq, NULL, 0, 0, &wqe), RI_ERR_QUEUE_FULL);
    spinlock_unlock(&wq->posting);
}

/* Unsignalled requests make no completion. Their slots are released when the next completion is
 * polled. */
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
    end_cq(cq);
}
END_TEST

/* A failure always makes a completion. */
START_TEST(unsignalled_failure_is_told)
{
    struct cq *cq = new_cq(8);
    struct qp qp;
    struct ri_wc wc;

    new_qp(&qp, cq, cq, 3);
    complete(&qp, &qp.sq, 1, 0, 0, RI_WC_FLUSHED);
    ck_assert_uint_eq(core_poll(&cq->base, 1, &wc), 1);
    ck_assert_uint_eq(wc.status, RI_WC_FLUSHED);
    ck_assert_uint_eq(wc.opcode, RI_WC_SEND);
    end_qp(&qp);
    end_cq(cq);
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
    ck_assert_int_eq(core_arm(&cq->base, arm_cases[_i].kind, 0), RI_OK);
    complete(&qp, &qp.rq, 1, arm_cases[_i].flags, arm_cases[_i].wc_flags, arm_cases[_i].status);
    ck_assert_uint_eq(atomic_load(&record.count), arm_cases[_i].fires);
    expect_count(cq, 1, notable);
    /* It would fire any kind of arming. */
    complete(&qp, &qp.rq, 2, RI_WR_NOTIFY, RI_WC_SOLICITED, RI_WC_SUCCESS);
    ck_assert_uint_eq(atomic_load(&record.count), 1); /* once only */
    expect(cq, 1);
    expect(cq, 2);
    expect_count(cq, 0, 0);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

START_TEST(what_is_there_does_not_fire)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    complete(&qp, &qp.rq, 1, RI_WR_NOTIFY, RI_WC_SOLICITED, RI_WC_SUCCESS);
    for (int kind = RI_ARM_NEXT; kind <= RI_ARM_NOTIFY_MARKED; kind++) {
        ck_assert_int_eq(core_arm(&cq->base, (enum ri_arm)kind, 0), RI_OK);
        ck_assert_uint_eq(atomic_load(&record.count), 0);
    }
    ck_assert_int_eq(core_arm(&cq->base, (enum ri_arm)(RI_ARM_NTH + 1), 1),
                     RI_ERR_INVALID_ARGUMENT);
    complete_send(&qp, 2); /* armed for solicited completions */
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NEXT, 0), RI_OK); /* replaces it */
    complete_send(&qp, 3);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

START_TEST(arm_nth)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 8);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 9), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 3), RI_OK);
    complete_send(&qp, 1);
    complete_send(&qp, 2);
    expect(cq, 1); /* one fewer again */
    complete_send(&qp, 3);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    complete_send(&qp, 4);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 4), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 3), RI_OK); /* fires at once */
    ck_assert_uint_eq(atomic_load(&record.count), 2);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

/* If more completions are requested than a resized, smaller CQ holds, it fires when it is full. */
START_TEST(resize_keeps_the_wake_up)
{
    struct cq *cq = new_cq(8);
    struct qp qp;

    new_qp(&qp, cq, cq, 16);
    complete_send(&qp, 0);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 8), RI_OK);
    ck_assert_int_eq(resize_to(cq, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 0);
    complete_send(&qp, 1);
    ck_assert_uint_eq(atomic_load(&record.count), 1);
    ck_assert_int_eq(resize_to(cq, 8), RI_OK);
    ck_assert_int_eq(core_arm(&cq->base, RI_ARM_NTH, 3), RI_OK);
    ck_assert_int_eq(resize_to(cq, 2), RI_OK);
    ck_assert_uint_eq(atomic_load(&record.count), 2);
    end_qp(&qp);
    end_cq(cq);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma completion queues");
    TCase *tc = tc_case(suite, "ring", cq_setup, NULL);

    tc_add_tests(tc, limits, oldest_first, S047_queue_order, slots_come_free_by_polling,
                 unsignalled_failure_is_told);
    tc = tc_case(suite, "arm", cq_setup, NULL);
    tc_add_rows(tc, C118_arm_kinds, arm_cases);
    tc_add_tests(tc, what_is_there_does_not_fire, arm_nth, resize_keeps_the_wake_up);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues: the number of posts they accept, and the release of slots. */
#include "tc.h"

#include "providers/software/iwarp/wire_iwarp.h"

static enum ri_status post(struct wq *wq, const struct ri_sge *sges, uint32_t count,
                           uint64_t cookie)
{
    struct wqe *wqe;
    enum ri_status status;

    spinlock_lock(&wq->posting);
    status = wq_take(wq, sges, count, wq->max_sge, &wqe);
    if (status == RI_OK) {
        wqe->cookie = cookie;
        wq_publish(wq);
    }
    spinlock_unlock(&wq->posting);
    return status;
}

static void poll_up_to(struct wq *wq, uint32_t index)
{
    atomic_store(&wq->freed, index + 1);
}

/* The number of slots is a power of two; the number of posts is the requested depth. */
START_TEST(depth_bounds_posts)
{
    static const uint32_t depths[] = { 1, 2, 3, 5, 8, 100, MAX_WR };
    uint32_t depth = depths[_i];
    struct wq wq;

    ck_assert_int_eq(wq_open(&wq, false, depth, 1), RI_OK);
    ck_assert_uint_ge(wq.mask + 1, depth);
    ck_assert_uint_eq(wq.mask & (wq.mask + 1), 0);
    if (depth > 16) {
        ck_assert_uint_eq(wq.stride % 64, 0);
        ck_assert_uint_eq((uintptr_t)wq.slots % 64, 0);
    } else { /* of many idle QPs: packed */
        ck_assert_uint_lt(wq.stride, sizeof(struct wqe) + sizeof(struct ri_sge) + 16);
        ck_assert_uint_eq((uintptr_t)wq.slots % _Alignof(struct wqe), 0);
    }
    for (uint32_t i = 0; i < depth; i++)
        if (post(&wq, NULL, 0, i) != RI_OK)
            ck_abort_msg("refused at %u of %u", i, depth);
    ck_assert_int_eq(post(&wq, NULL, 0, depth), RI_ERR_QUEUE_FULL);
    poll_up_to(&wq, 0);
    ck_assert_int_eq(post(&wq, NULL, 0, depth), RI_OK);
    ck_assert_int_eq(post(&wq, NULL, 0, depth), RI_ERR_QUEUE_FULL);
    poll_up_to(&wq, depth); /* one completion releases all before it */
    for (uint32_t i = 0; i < depth; i++)
        if (post(&wq, NULL, 0, i) != RI_OK)
            ck_abort_msg("refused at %u of %u after all were freed", i, depth);
    ck_assert_int_eq(post(&wq, NULL, 0, 0), RI_ERR_QUEUE_FULL);
    wq_close(&wq);
}
END_TEST

START_TEST(indices_wrap)
{
    const uint32_t start = UINT32_MAX - 2;
    struct wq wq;

    ck_assert_int_eq(wq_open(&wq, true, 3, 1), RI_OK);
    atomic_store(&wq.posted, start);
    atomic_store(&wq.next, start);
    atomic_store(&wq.done, start);
    atomic_store(&wq.freed, start);
    ck_assert(!wq_pending(&wq));
    for (uint32_t i = 0; i < 20; i++) {
        ck_assert_int_eq(post(&wq, NULL, 0, i), RI_OK);
        ck_assert(wq_pending(&wq));
        ck_assert_uint_eq(wq_slot(&wq, start + i)->cookie, i);
        poll_up_to(&wq, start + i);
        atomic_store(&wq.next, start + i + 1);
    }
    wq_close(&wq);
}
END_TEST

START_TEST(elements_are_copied)
{
    struct ri_sge sges[4] = { { 1, 10, 100 }, { 2, 20, 200 }, { 3, 0, 300 }, { 4, 40, 400 } },
                  copy[4];
    struct wq wq;

    memcpy(copy, sges, sizeof(copy));
    ck_assert_int_eq(wq_open(&wq, false, 4, 4), RI_OK);
    ck_assert_int_eq(post(&wq, sges, 4, 7), RI_OK);
    memset(sges, 0xff, sizeof(sges));
    ck_assert_uint_eq(wq_slot(&wq, 0)->num_sge, 4);
    ck_assert_uint_eq(wq_slot(&wq, 0)->length, 70);
    ck_assert_mem_eq(wq_slot(&wq, 0)->sges, copy, sizeof(copy));
    wq_close(&wq);
}
END_TEST

START_TEST(too_many_elements)
{
    struct ri_sge sges[5] = { { 0 } };
    struct wqe *wqe = NULL;
    struct wq wq;

    ck_assert_int_eq(wq_open(&wq, false, 4, 4), RI_OK);
    ck_assert_int_eq(post(&wq, sges, 5, 0), RI_ERR_INVALID_ARGUMENT);
    spinlock_lock(&wq.posting);
    ck_assert_int_eq(wq_take(&wq, sges, 2, 1, &wqe), RI_ERR_INVALID_ARGUMENT); /* a Read has one */
    ck_assert_int_eq(wq_take(&wq, sges, 5, 9, &wqe), RI_ERR_INVALID_ARGUMENT);
    ck_assert_ptr_null(wqe);
    ck_assert_int_eq(wq_take(&wq, sges, 1, 1, &wqe), RI_OK);
    spinlock_unlock(&wq.posting);
    ck_assert_uint_eq(atomic_load(&wq.posted), 0); /* taken, but not posted */
    wq_close(&wq);
    ck_assert_int_eq(wq_open(&wq, false, 4, MAX_SGE + 1), RI_ERR_LIMIT);
    ck_assert_int_eq(wq_open(&wq, false, MAX_WR + 1, 1), RI_ERR_LIMIT);
}
END_TEST

START_TEST(length_of_a_message)
{
    struct ri_sge sges[MAX_SGE];
    struct wq wq;

    for (uint32_t i = 0; i < MAX_SGE; i++)
        sges[i] = (struct ri_sge){ .length = UINT32_MAX };
    ck_assert_int_eq(wq_open(&wq, false, 4, MAX_SGE), RI_OK);
    ck_assert_int_eq(post(&wq, sges, 1, 0), RI_OK);
    ck_assert(wq_slot(&wq, 0)->length == UINT32_MAX);
    ck_assert_int_eq(post(&wq, sges, MAX_SGE, 0), RI_ERR_LIMIT);
    ck_assert_int_eq(post(&wq, sges, 2, 0), RI_ERR_LIMIT);
    sges[1].length = 1;
    ck_assert_int_eq(post(&wq, sges, 2, 0), RI_ERR_LIMIT); /* 2^32 */
    sges[1].length = 0;
    ck_assert_int_eq(post(&wq, sges, 2, 0), RI_OK);
    wq_close(&wq);
}
END_TEST

/* A slot that was used before has no stale flag: `done` would retire the new request at once. */
START_TEST(reused_slot_is_clean)
{
    struct wqe *wqe;
    struct wq wq;

    ck_assert_int_eq(wq_open(&wq, false, 1, 1), RI_OK);
    ck_assert_int_eq(post(&wq, NULL, 0, 1), RI_OK);
    wqe = wq_slot(&wq, 0);
    wqe->status = RI_WC_FLUSHED;
    wqe->byte_len = 5;
    wqe->wc_flags = RI_WC_SOLICITED;
    wqe->vendor_error = 9;
    atomic_store(&wqe->done, true);
    poll_up_to(&wq, 0);
    ck_assert_int_eq(post(&wq, NULL, 0, 2), RI_OK);
    ck_assert_ptr_eq(wq_slot(&wq, 1), wqe);
    ck_assert(!atomic_load(&wqe->done));
    ck_assert_uint_eq(wqe->status, RI_WC_SUCCESS);
    ck_assert_uint_eq(wqe->byte_len, 0);
    ck_assert_uint_eq(wqe->wc_flags, 0);
    ck_assert_uint_eq(wqe->vendor_error, 0);
    wq_close(&wq);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("softrdma work queues");
    TCase *tc = tc_case(suite, "wq", NULL, NULL);

    tcase_add_loop_test(tc, depth_bounds_posts, 0, 7);
    tc_add_tests(tc, indices_wrap, elements_are_copied, too_many_elements, length_of_a_message,
                 reused_slot_is_clean);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * The pairing heap against a plain array. */
#include "tc.h"

#include "ual/progress/timers.h"

#define MANY 10000

struct model {
    struct ri_timer timer;
    uint64_t deadline; /* the deadline in the heap */
    bool queued;
};

static struct model all[MANY];
static struct timers timers;

static void start(void)
{
    memset(all, 0, sizeof(all));
    memset(&timers, 0, sizeof(timers));
}

static void set(struct model *model, uint64_t deadline)
{
    model->timer.deadline = model->deadline = deadline;
    model->queued = true;
    timers_set(&timers, &model->timer);
}

static uint64_t expected_next(size_t count)
{
    uint64_t next = RI_NO_DEADLINE;

    for (size_t i = 0; i < count; i++)
        if (all[i].queued && all[i].deadline < next)
            next = all[i].deadline;
    return next;
}

static struct model *expire(uint64_t now)
{
    struct model *model = (struct model *)timers_expired(&timers, now);

    if (model) {
        ck_assert(model->queued);
        ck_assert_uint_le(model->deadline, now);
        model->queued = false;
    }
    return model;
}

START_TEST(empty)
{
    start();
    ck_assert_uint_eq(timers_next(&timers), RI_NO_DEADLINE);
    ck_assert_ptr_null(timers_expired(&timers, UINT64_MAX));
    ck_assert(!timers_remove(&timers, &all[0].timer));
    set(&all[0], 7);
    ck_assert_ptr_null(timers_expired(&timers, 6));
    ck_assert_ptr_eq(timers_expired(&timers, 7), &all[0].timer);
    ck_assert(!timers_remove(&timers, &all[0].timer));
    ck_assert_uint_eq(timers_next(&timers), RI_NO_DEADLINE);
}
END_TEST

/* After every operation, the earliest deadline and the expired timers equal those of the array. */
START_TEST(property)
{
    enum { FEW = 40 };
    struct tc_rng rng = tc_rng((uint64_t)_i);
    uint64_t range = _i % 2 ? 10 : 1000000; /* many equal deadlines, or few */

    start();
    for (unsigned long step = 0; step < tc_count(20000); step++) {
        struct model *model = &all[tc_below(&rng, FEW)];

        switch (tc_below(&rng, 4)) {
        case 0:
        case 1: set(model, tc_below(&rng, range)); break;
        case 2:
            ck_assert(timers_remove(&timers, &model->timer) == model->queued);
            model->queued = false;
            break;
        default: {
            uint64_t now = tc_below(&rng, range), next = expected_next(FEW);
            struct model *expired = expire(now);

            ck_assert((expired != NULL) == (next <= now));
            ck_assert(!expired || expired->deadline == next);
        }
        }
        ck_assert_uint_eq(timers_next(&timers), expected_next(FEW));
    }
}
END_TEST

static int by_deadline(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

START_TEST(ten_thousand_come_out_sorted)
{
    static uint64_t sorted[MANY];
    struct tc_rng rng = tc_rng(100);

    start();
    for (size_t i = 0; i < MANY; i++)
        set(&all[i], sorted[i] = tc_below(&rng, MANY));
    for (size_t i = 0; i < MANY; i += 3) /* moved */
        set(&all[i], sorted[i] = tc_below(&rng, MANY));
    for (size_t i = 1; i < MANY; i += 3) { /* cancelled */
        ck_assert(timers_remove(&timers, &all[i].timer));
        all[i].queued = false;
        sorted[i] = UINT64_MAX;
    }
    qsort(sorted, MANY, sizeof(sorted[0]), by_deadline);
    for (size_t i = 0; sorted[i] != UINT64_MAX; i++) {
        struct model *model = expire(MANY);

        ck_assert_ptr_nonnull(model);
        ck_assert_uint_eq(model->deadline, sorted[i]);
    }
    ck_assert_ptr_null(expire(UINT64_MAX - 1));
}
END_TEST

/* An owner writes the new deadline before it asks for the move; meanwhile others use the heap. */
START_TEST(deadline_written_before_the_move)
{
    start();
    set(&all[0], 10);
    set(&all[1], 20);
    set(&all[2], 30);
    all[0].timer.deadline = 100;
    ck_assert_uint_eq(timers_next(&timers), 10);
    set(&all[3], 50);
    ck_assert_uint_eq(timers_next(&timers), 10);
    ck_assert_ptr_eq(expire(60), &all[0]);
    ck_assert_ptr_eq(expire(60), &all[1]);
    ck_assert_ptr_eq(expire(60), &all[2]);
    ck_assert_ptr_eq(expire(60), &all[3]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timers expire in order");
    TCase *tc = tc_case(suite, "heap", NULL, NULL);

    tcase_add_test(tc, empty);
    tcase_add_loop_test(tc, property, 0, 6);
    tc_add_tests(tc, ten_thousand_come_out_sorted, deadline_written_before_the_move);
    return tc_main(suite);
}

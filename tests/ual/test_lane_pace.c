/* SPDX-License-Identifier: BSD-3-Clause
 * How long the background thread leaves the lane to its consumers. */
#include "tc.h"

#include "ual/progress/lane_pace.h"

#define POLLS_PER_US 3

/* An interval in which consumers polled evenly until `end` of it. */
static uint64_t step(struct pace *pace, uint64_t interval, uint64_t end)
{
    return pace_next(pace, interval, (uint32_t)(end * POLLS_PER_US / CLOCK_NS_PER_US), interval);
}

/* The pace after two of the longest intervals. */
static struct pace grown(void)
{
    struct pace pace = { 0 };
    uint64_t interval = PACE_FIRST;

    for (int i = 0; i < 10; i++)
        interval = step(&pace, interval, interval);
    ck_assert_uint_eq(interval, PACE_LAST);
    return pace;
}

START_TEST(intervals_double_up_to_the_last)
{
    struct pace pace = { 0 };
    uint64_t interval = PACE_FIRST, longer;

    while (interval < PACE_LAST) {
        longer = step(&pace, interval, interval);
        ck_assert(longer == interval * 2 || longer == PACE_LAST);
        interval = longer;
    }
    ck_assert_uint_eq(step(&pace, interval, interval), PACE_LAST);
}
END_TEST

START_TEST(an_end_within_an_interval_is_missed_after_one_and_a_half)
{
    uint64_t worst = 0;

    for (uint64_t end = 1; end < PACE_LAST; end += PACE_LAST / 64) {
        struct pace pace = grown();
        uint64_t next = step(&pace, PACE_LAST, end); /* the next interval has no polls */

        if (PACE_LAST - end + next > worst)
            worst = PACE_LAST - end + next;
    }
    ck_assert_uint_le(worst, PACE_LAST * 3 / 2 + PACE_FIRST);
    ck_assert_uint_le(PACE_LAST * 3 / 2 + PACE_SHORT_MOST, PACE_END);
}
END_TEST

START_TEST(slower_consumers_cost_one_short_interval)
{
    struct pace pace = grown();
    uint64_t interval = step(&pace, PACE_LAST, PACE_LAST / 4);

    ck_assert_uint_eq(interval, PACE_FIRST);
    interval = step(&pace, interval, interval / 4);
    ck_assert_uint_eq(interval, PACE_LAST);
    ck_assert_uint_eq(step(&pace, interval, interval / 4), PACE_LAST);
}
END_TEST

START_TEST(an_interval_that_took_long_is_no_slower_one)
{
    struct pace pace = grown();

    /* The thread woke late, the consumers polled all the time. */
    ck_assert_uint_eq(pace_next(&pace, PACE_LAST,
                                (uint32_t)(10 * PACE_LAST * POLLS_PER_US / CLOCK_NS_PER_US),
                                10 * PACE_LAST),
                      PACE_LAST);
}
END_TEST

START_TEST(nothing_known_and_no_time_at_all)
{
    struct pace pace = { 0 };

    ck_assert_uint_eq(pace_next(&pace, PACE_FIRST, 0, 0), PACE_FIRST * 2);
    ck_assert_uint_eq(pace_next(&pace, PACE_LAST, UINT32_MAX, 0), PACE_LAST);
}
END_TEST

/* The end of polling is noticed within 2 ms, however long after the last postponed check it
 * comes. */
START_TEST(polling_that_put_looks_off_ends)
{
    struct pace pace = grown();
    uint64_t interval = pace_after_put_off(&pace);

    ck_assert_uint_eq(interval, PACE_FIRST);
    ck_assert_uint_le(PACE_PUT_OFF + interval, PACE_END);
    ck_assert_uint_lt(PACE_PUT_OFF_EVERY, PACE_PUT_OFF);
    ck_assert_uint_eq(step(&pace, interval, interval), PACE_LAST); /* it had not ended */
    while (pace_short(&pace) < PACE_SHORT_MOST)
        pace_after_service(&pace, 1);
    ck_assert_uint_le(PACE_PUT_OFF + pace_after_put_off(&pace), PACE_END);
}
END_TEST

/* A thread that polls seldom, because each call takes long, is not repeatedly mistaken for gone. */
START_TEST(service_in_vain_lengthens_the_short_interval)
{
    struct pace pace = { 0 };
    uint64_t interval = PACE_FIRST;

    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(pace_after_service(&pace, PACE_LAST - 1), interval * 2);
        interval *= 2;
    }
    ck_assert_uint_eq(pace_after_service(&pace, 0), PACE_SHORT_MOST);
    ck_assert_uint_eq(pace_after_service(&pace, 0), PACE_SHORT_MOST);
    ck_assert_uint_eq(step(&pace, PACE_LAST, PACE_LAST), PACE_LAST);
    ck_assert_uint_eq(step(&pace, PACE_LAST, PACE_LAST / 4), PACE_SHORT_MOST); /* slower */
}
END_TEST

START_TEST(service_for_long_shortens_it)
{
    struct pace pace = { 0 };

    pace_after_service(&pace, 0);
    ck_assert_uint_eq(pace_after_service(&pace, PACE_LAST), PACE_FIRST);
    ck_assert_uint_eq(pace_short(&pace), PACE_FIRST);
}
END_TEST

/* They are counted some at a time: a short interval would find none. */
START_TEST(who_leaves_the_lane_to_consumers_looks_late)
{
    struct pace pace = { 0 };

    ck_assert_uint_eq(pace_after_leaving(&pace, PACE_LAST - 1), PACE_SHORT_MOST);
    ck_assert_uint_eq(step(&pace, PACE_LAST, PACE_LAST), PACE_LAST);
    ck_assert_uint_eq(step(&pace, PACE_LAST, PACE_LAST / 4), PACE_SHORT_MOST); /* slower */
    ck_assert_uint_le(PACE_LAST * 3 / 2 + pace_short(&pace), PACE_END);
    ck_assert_uint_eq(pace_after_leaving(&pace, PACE_LAST), PACE_FIRST); /* they had been away */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("the background thread's intervals");
    TCase *tc = tc_case(suite, "pace", NULL, NULL);

    tc_add_tests(tc, intervals_double_up_to_the_last,
                 an_end_within_an_interval_is_missed_after_one_and_a_half,
                 slower_consumers_cost_one_short_interval, polling_that_put_looks_off_ends,
                 service_in_vain_lengthens_the_short_interval, service_for_long_shortens_it,
                 an_interval_that_took_long_is_no_slower_one, nothing_known_and_no_time_at_all,
                 who_leaves_the_lane_to_consumers_looks_late);
    return tc_main(suite);
}

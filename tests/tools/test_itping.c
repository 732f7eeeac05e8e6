/* SPDX-License-Identifier: BSD-3-Clause
 *
 * itping without a connection: the pattern, the greeting.
 */

#include "tc.h"
#include "tools/itping/itping.h"

START_TEST(every_spoilt_byte_is_found)
{
    uint8_t data[67];

    for (size_t length = 1; length <= sizeof(data); length++) {
        for (size_t at = 0; at < length; at++) {
            struct ping_tally tally = { 0 };

            pattern_fill(data, length, 42, 7, PING_THERE, 3);
            ck_assert(pattern_check(data, length, 42, 7, PING_THERE, 3, &tally));
            data[at] ^= 1;
            ck_assert(!pattern_check(data, length, 42, 7, PING_THERE, 3, &tally));
            ck_assert_uint_eq(tally.offset, at);
            ck_assert_uint_eq(tally.expected ^ tally.found, 1);
            ck_assert(tally.verified == 1 && tally.damaged == 1 && tally.message == 7);
        }
    }
}
END_TEST

START_TEST(patterns_differ)
{
    struct ping_tally tally = { 0 };
    uint8_t data[64], whole[128];

    pattern_fill(data, sizeof(data), 1, 1, PING_THERE, 0);
    ck_assert(!pattern_check(data, sizeof(data), 2, 1, PING_THERE, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 2, PING_THERE, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 1, PING_BACK, 0, &tally));
    ck_assert(!pattern_check(data, sizeof(data), 1, 1, PING_THERE, 1, &tally));
    /* A part from the middle equals that part of the whole. */
    pattern_fill(whole, sizeof(whole), 1, 0, PING_FIXED, 0);
    ck_assert(pattern_check(whole + 13, 70, 1, 0, PING_FIXED, 13, &tally));
}
END_TEST

START_TEST(ping_hello_is_checked)
{
    struct ping_hello hello = { .op = PING_WRITE,
                                .flags = PING_FLAG_TCP,
                                .size = 77,
                                .seed = 5,
                                .address = 6,
                                .context = 7 },
                      got;
    struct tc_rng rng = tc_rng(2);
    uint8_t data[PING_PRIVATE], random[PING_PRIVATE];
    size_t length = ping_put_hello(data, &hello);

    ck_assert_int_eq(ping_get_hello(data, length, &got), 0);
    ck_assert(got.op == PING_WRITE && got.flags == PING_FLAG_TCP && got.size == 77 &&
              got.seed == 5 && got.address == 6 && got.context == 7);
    for (size_t i = 0; i < length; i++)
        ck_assert_int_eq(ping_get_hello(data, i, &got), PING_REFUSED_VERSION);
    data[5]++;
    ck_assert_int_eq(ping_get_hello(data, length, &got), PING_REFUSED_VERSION);
    hello.size = PING_SIZE_MAX + 1;
    ping_put_hello(data, &hello);
    ck_assert_int_eq(ping_get_hello(data, length, &got), PING_REFUSED_PARAMETER);
    for (unsigned long i = 0; i < tc_count(20000); i++) {
        tc_fill(&rng, random, sizeof(random));
        if (tc_below(&rng, 2))
            memcpy(random, data, 6);
        if (ping_get_hello(random, tc_below(&rng, sizeof(random) + 1), &got) == 0)
            ck_assert(got.size >= 1 && got.size <= PING_SIZE_MAX && got.op >= PING_SEND &&
                      got.op <= PING_READ);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("itping");
    TCase *parts = tc_case(suite, "parts", NULL, NULL);

    tc_add_tests(parts, every_spoilt_byte_is_found, patterns_differ, ping_hello_is_checked);
    return suite;
}

int main(void)
{
    return tc_main(make_suite());
}

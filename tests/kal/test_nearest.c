/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearest known word. */
#include "tc.h"

#include "base/nearest.h"

#include <limits.h>

static const struct {
    const char *a, *b;
    unsigned distance;
} pairs[] = {
    { "", "", 0 },
    { "", "abc", 3 },
    { "abc", "", 3 },
    { "spin", "spin", 0 },
    { "SPIN", "spin", 0 },
    { "spni", "spin", 1 }, /* neighbours exchanged */
    { "sipn", "spin", 1 },
    { "spn", "spin", 1 },
    { "spinn", "spin", 1 },
    { "spun", "spin", 1 },
    { "kitten", "sitting", 3 },
    { "ca", "abc", 3 }, /* restricted: no edit between exchanged letters */
};

START_TEST(test_distance)
{
    ck_assert_uint_eq(nearest_distance(pairs[_i].a, pairs[_i].b), pairs[_i].distance);
    ck_assert_uint_eq(nearest_distance(pairs[_i].b, pairs[_i].a), pairs[_i].distance);
}
END_TEST

START_TEST(test_long_words_are_far)
{
    char longest[64], longer[65];

    memset(longest, 'x', 63);
    longest[63] = '\0';
    memset(longer, 'x', 64);
    longer[64] = '\0';
    ck_assert_uint_eq(nearest_distance(longest, longest), 0);
    ck_assert_uint_eq(nearest_distance(longest, ""), 63);
    ck_assert_uint_eq(nearest_distance(longer, longest), UINT_MAX);
    ck_assert_uint_eq(nearest_distance(longest, longer), UINT_MAX);
}
END_TEST

START_TEST(test_choice)
{
    struct nearest near = { .word = NULL };

    nearest_try(&near, "provder", "policy");
    ck_assert_ptr_null(near.word);
    nearest_try(&near, "provder", "provided");
    nearest_try(&near, "provder", "provider");
    nearest_try(&near, "provder", "device");
    ck_assert_str_eq(near.word, "provider");
    ck_assert_uint_eq(near.distance, 1);
}
END_TEST

START_TEST(test_short_words_need_to_be_equal)
{
    struct nearest near = { .word = NULL };

    nearest_try(&near, "ab", "cd");
    nearest_try(&near, "ab", "ac");
    nearest_try(&near, "a", "ab");
    nearest_try(&near, "", "a");
    ck_assert_ptr_null(near.word);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nearest");
    TCase *tc = tc_case(suite, "nearest", NULL, NULL);

    tc_add_rows(tc, test_distance, pairs);
    tc_add_tests(tc, test_long_words_are_far, test_choice, test_short_words_need_to_be_equal);
    return tc_main(suite);
}

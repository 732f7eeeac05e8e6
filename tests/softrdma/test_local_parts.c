/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts in which the kernel writes a peer's memory: of all places and lengths about the end of
 * a page, on machines that keep the order of stores, and on those that do not. */
#include "tc.h"

#include "providers/software/local/parts.h"

#define PAGE     4096u
#define LONGEST  64u
#define IN_ORDER 2 /* loops: does the machine keep the order? */

static struct iovec parts[2];

static uint64_t place(unsigned int number)
{
    return (uintptr_t)parts[number].iov_base;
}

static void check_whole(uint64_t address, uint32_t octets)
{
    ck_assert_uint_eq(place(0), address);
    ck_assert_uint_eq(parts[0].iov_len, octets);
}

/* Nothing is missing, doubled or empty. */
static void check_both(uint64_t address, uint32_t octets)
{
    ck_assert_uint_eq(place(0), address);
    ck_assert_uint_eq(place(1), address + parts[0].iov_len);
    ck_assert_uint_ge(parts[0].iov_len, 1);
    ck_assert_uint_ge(parts[1].iov_len, 1);
    ck_assert_uint_eq(parts[0].iov_len + parts[1].iov_len, octets);
}

static void each_place(void (*check)(uint64_t address, uint32_t octets, bool in_order),
                       bool in_order)
{
    for (uint64_t address = 2 * PAGE - 40; address < 2 * PAGE + 16; address++)
        for (uint32_t octets = 1; octets <= LONGEST; octets++)
            check(address, octets, in_order);
}

static void is_one_part(uint64_t address, uint32_t octets, bool in_order)
{
    ck_assert_int_eq(local_parts(address, octets, false, in_order, parts), 1);
    check_whole(address, octets);
}

START_TEST(what_does_not_end_a_write_is_one_part)
{
    each_place(is_one_part, _i);
}
END_TEST

/* Behind the page's end the kernel looks for a page first: there the last word is seen late. */
static void ends_in_order(uint64_t address, uint32_t octets, bool in_order)
{
    bool crosses = address / PAGE != (address + octets - 1) / PAGE;

    if (local_parts(address, octets, true, in_order, parts) == 1) {
        check_whole(address, octets);
        ck_assert(!crosses || address / 8 == (address + octets - 1) / 8);
        return;
    }
    ck_assert(crosses);
    check_both(address, octets);
    ck_assert_uint_eq(place(1) % 8, 0);
    ck_assert_uint_eq(place(1) / 8, (address + octets - 1) / 8);
}

START_TEST(where_stores_are_seen_in_order_the_last_word_is_a_part_behind_a_page)
{
    each_place(ends_in_order, true);
}
END_TEST

/* One store of the kernel: the last octet, or the word that ends with it, if all of it is
 * written. */
static bool is_one_store(uint64_t address, uint64_t octets)
{
    return octets == 1 || (octets == 8 && !(address % 8));
}

static void ends_alone(uint64_t address, uint32_t octets, bool in_order)
{
    if (local_parts(address, octets, true, in_order, parts) == 1) {
        check_whole(address, octets);
        ck_assert(is_one_store(address, octets));
        return;
    }
    check_both(address, octets);
    ck_assert(is_one_store(place(1), parts[1].iov_len));
}

START_TEST(where_they_are_not_what_is_polled_is_a_part_of_one_store)
{
    each_place(ends_alone, false);
}
END_TEST

START_TEST(the_order_of_this_machine_is_known)
{
#if defined(__x86_64__)
    ck_assert(LOCAL_STORES_IN_ORDER);
#elif defined(__aarch64__)
    ck_assert(!LOCAL_STORES_IN_ORDER);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_parts");
    TCase *cases = tc_case(suite, "parts", NULL, NULL);

    tcase_add_loop_test(cases, what_does_not_end_a_write_is_one_part, 0, IN_ORDER);
    tc_add_tests(cases, where_stores_are_seen_in_order_the_last_word_is_a_part_behind_a_page,
                 where_they_are_not_what_is_polled_is_a_part_of_one_store,
                 the_order_of_this_machine_is_known);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * The requests that the filter `guard` waits for: which completions are true. */
#include "providers/filter/guard_queue.h"

#include "tc.h"

static struct guard_queue queue;

static void setup(void)
{
    queue = (struct guard_queue){ .size = 0 };
}

static void teardown(void)
{
    guard_queue_close(&queue);
}

static void add(uint64_t from, uint64_t to)
{
    for (; from < to; from++)
        guard_queue_add(&queue, from, false, true);
}

START_TEST(each_request_completes_once)
{
    ck_assert(!guard_queue_complete(&queue, 0, true));
    for (uint64_t round = 0; round < 100; round++) {
        add(0, 37);
        for (uint64_t i = 0; i < 37; i++) {
            ck_assert(guard_queue_complete(&queue, i, true));
            ck_assert(!guard_queue_complete(&queue, i, true));
        }
    }
    ck_assert_uint_eq(queue.count, 0);
    ck_assert_uint_le(queue.size, 64);
}
END_TEST

START_TEST(equal_cookies_are_counted)
{
    for (unsigned int i = 0; i < 5; i++)
        guard_queue_add(&queue, 7, false, true);
    for (unsigned int i = 0; i < 5; i++)
        ck_assert(guard_queue_complete(&queue, 7, true));
    ck_assert(!guard_queue_complete(&queue, 7, true));
}
END_TEST

START_TEST(any_order_of_a_shared_queue)
{
    add(0, 100);
    for (uint64_t i = 100; i-- > 0;)
        ck_assert(guard_queue_complete(&queue, i, true));
    ck_assert(!guard_queue_complete(&queue, 50, true));
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

START_TEST(one_that_never_completes_holds_no_others)
{
    guard_queue_add(&queue, UINT64_MAX, false, true);
    for (uint64_t i = 0; i < 10000; i++) {
        guard_queue_add(&queue, i, false, true);
        ck_assert(guard_queue_complete(&queue, i, true));
    }
    ck_assert_uint_le(queue.size, 16);
    ck_assert(guard_queue_complete(&queue, UINT64_MAX, true));
}
END_TEST

/* One that failed has a completion; those that succeeded are covered by the next one. */
START_TEST(silent_requests)
{
    guard_queue_add(&queue, 1, true, true);
    guard_queue_add(&queue, 2, true, true);
    guard_queue_add(&queue, 3, false, true);
    guard_queue_add(&queue, 4, true, true);
    ck_assert(guard_queue_complete(&queue, 3, true));
    ck_assert(!guard_queue_complete(&queue, 1, true));
    ck_assert(!guard_queue_complete(&queue, 2, true));
    ck_assert(!guard_queue_complete(&queue, 4, true)); /* its success is silent */
    ck_assert(guard_queue_complete(&queue, 4, false));
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

/* Those with the cookie of the others are no others. */
START_TEST(silent_requests_with_one_cookie_leave_nothing)
{
    for (unsigned int i = 0; i < 1000; i++) {
        guard_queue_add(&queue, 7, true, true);
        guard_queue_add(&queue, 7, false, true);
        ck_assert(guard_queue_complete(&queue, 7, true));
        ck_assert(!guard_queue_complete(&queue, 7, true));
    }
    ck_assert_uint_eq(queue.count, 0);
    ck_assert_uint_le(queue.size, 16);
}
END_TEST

START_TEST(refused_posts_are_taken_back)
{
    add(0, 3);
    guard_queue_add(&queue, 1, false, true);
    guard_queue_retract(&queue, 1); /* the newer one */
    ck_assert_uint_eq(queue.count, 3);
    guard_queue_retract(&queue, 1);
    ck_assert(guard_queue_complete(&queue, 0, true));
    ck_assert(!guard_queue_complete(&queue, 1, true));
    ck_assert(guard_queue_complete(&queue, 2, true));
    guard_queue_retract(&queue, 2); /* nothing is there */
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

/* A queue that it cannot follow is believed: no true completion is dropped. */
START_TEST(too_many_requests)
{
    add(0, (1u << 20) + 1);
    ck_assert(queue.blind);
    ck_assert(guard_queue_complete(&queue, 0, true));
    ck_assert(guard_queue_complete(&queue, 0, true));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("filter: guard");

    tc_add_tests(tc_case(suite, "queue", setup, teardown), each_request_completes_once,
                 equal_cookies_are_counted, any_order_of_a_shared_queue,
                 one_that_never_completes_holds_no_others, silent_requests,
                 silent_requests_with_one_cookie_leave_nothing, refused_posts_are_taken_back,
                 too_many_requests);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned pages, in both ways: nesting, what the kernel reports, limits, threads, and that a refusal
 * changes nothing. */
#include "pin_fixture.h"

#include <pthread.h>
#include <sys/mman.h>

static const enum kal_pin_way ways[] = { KAL_PIN_LOCK, KAL_PIN_HOLD };
#define WAYS 2

static uint64_t reported(void)
{
    return pins->ops == &kal_pin_lock ? pin_locked() : pin_held();
}

/* The account and the kernel have these pages. */
static void check(size_t pages)
{
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), pages * page);
    ck_assert_uint_eq(atomic_load(&pins->octets), pages * page);
    if (pins->ops == &kal_pin_lock)
        ck_assert_uint_eq(pin_locked(), pages * page);
    else
        pin_await_held(pages * page);
}

/* The same where the way decides: held pages stay until all of their block are unpinned. */
static void check_by_way(size_t locked, size_t held)
{
    check(pins->ops == &kal_pin_lock ? locked : held);
}

START_TEST(test_overlapping_ranges_nest)
{
    pin_use(ways[_i]);
    ck_assert_int_eq(pin(2, 4), RI_OK);
    check(4);
    ck_assert_int_eq(pin(4, 4), RI_OK);
    check(6);
    ck_assert_int_eq(pin(0, 10), RI_OK);
    check(10);
    unpin(2, 4);
    check(10);
    unpin(0, 10);
    check_by_way(4, 6); /* of pages 2 to 5, the last two are pinned */
    unpin(4, 4);
    check(0);
    ck_assert_uint_eq(pins->used, 0);
    ck_assert_uint_eq(pins->blocks, 0);
}
END_TEST

START_TEST(test_partial_pages_count_whole)
{
    pin_use(ways[_i]);
    ck_assert_int_eq(kal_pin(pins, area + 100, 1, false, &refusal), RI_OK);
    check(1);
    ck_assert_int_eq(kal_pin(pins, area + page - 1, 2, false, &refusal), RI_OK);
    check(2);
    kal_unpin(pins, area + page - 1, 2);
    check(1);
    kal_unpin(pins, area + 100, 1);
    check(0);
}
END_TEST

START_TEST(test_neighbours_are_joined)
{
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_int_eq(pin(8, 4), RI_OK);
    ck_assert_uint_eq(pins->used, 2);
    ck_assert_int_eq(pin(4, 4), RI_OK);
    ck_assert_uint_eq(pins->used, 1);
    check(12);
    unpin(4, 4);
    ck_assert_uint_eq(pins->used, 2);
    check(8);
}
END_TEST

START_TEST(test_impossible_ranges)
{
    static const struct {
        uintptr_t at; /* 0: the area */
        uint64_t length;
    } wrong[] = { { 0, 0 }, { 0, UINT64_MAX }, { UINTPTR_MAX - 10, 5 } };

    pin_use(ways[_i]);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(kal_pin(pins, wrong[i].at ? (void *)wrong[i].at : area, wrong[i].length,
                                 true, &refusal),
                         RI_ERR_INVALID_ARGUMENT);
    check(0);
    ck_assert_int_eq(munmap(area + 8 * page, page), 0);
    ck_assert_int_eq(pin(0, 2), RI_OK);
    ck_assert_int_eq(pin(0, 16), RI_ERR_ADDRESS);
    ck_assert_str_eq(refusal.why, "not all of it is mapped");
    check(2);
    ck_assert_uint_eq(pins->used, 1);
    ck_assert_uint_eq(asked_for, 0);
    unpin(0, 2);
    check(0);
}
END_TEST

START_TEST(test_quota)
{
    pin_use(ways[_i]);
    pin_host_again(4 * page);
    ck_assert_int_eq(pin(1, 2), RI_OK);
    ck_assert_int_eq(pin(0, 5), RI_ERR_NO_RESOURCES); /* the first gap fits, the second does not */
    ck_assert_ptr_nonnull(strstr(refusal.why, "raise max_pinned in section [quota]"));
    ck_assert_ptr_nonnull(strstr(refusal.why, "12288 more octets would pass the quota of 16384, of "
                                              "which 8192 are used"));
    check(2);
    /* The same where the host may be waited for, which keeps no lane from its pins */
    ck_assert_int_eq(kal_pin(pins, area, 5 * page, true, &refusal), RI_ERR_NO_RESOURCES);
    ck_assert_ptr_nonnull(strstr(refusal.why, "12288 more octets would pass the quota of 16384"));
    ck_assert(!lock_was_held);
    check(2);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    check(4);
    unpin(1, 2);
    unpin(0, 4);
    check(0);
}
END_TEST

/* A name and a number in a sentence. */
static bool says(const char *before, uint64_t number)
{
    char text[200];

    snprintf(text, sizeof(text), "%s%llu", before, (unsigned long long)number);
    return strstr(refusal.why, text) != NULL;
}

START_TEST(test_memlock_limit_is_explained)
{
    uint64_t more = ways[_i] == KAL_PIN_HOLD ? 2 * page : 0; /* a ring */

    pin_use(ways[_i]);
    pin_as_user(2 * page + more);
    if (pin(0, PIN_PAGES) == RI_OK)
        tc_skip("the limit of locked memory is not enforced here");
    asked_for = 0;
    ck_assert_int_eq(kal_pin(pins, area, 8 * page, false, &refusal), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(asked_for, 0); /* a lane does not ask the host, which may wait */
    ck_assert_int_eq(kal_pin(pins, area, 8 * page, true, &refusal), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(asked_for, 8 * page + more);
    check(0);
    ck_assert(says("", 8 * page) && says("limit of locked memory is ", 2 * page + more));
    ck_assert(says("before the program starts: ulimit -l ", (8 * page + more) / 1024));
    ck_assert_ptr_nonnull(strstr(refusal.why, pins->ops == &kal_pin_lock
                                                  ? "for this process;"
                                                  : "for all processes of user"));
    /* Beyond the hard limit only root can help */
    ck_assert_int_eq(pin(0, PIN_PAGES), RI_ERR_NO_RESOURCES);
    ck_assert(says("--memlock=", PIN_PAGES * page + more));
    ck_assert(says("LimitMEMLOCK=", (PIN_PAGES * page + more) / 1024));
    /* The same, where the host can raise the limit */
    raises = true;
    ck_assert_int_eq(kal_pin(pins, area, 4 * page, true, &refusal), RI_OK);
    ck_assert_int_eq(kal_pin(pins, area + 4 * page, 4 * page, true, &refusal), RI_OK);
    ck_assert_uint_eq(asked_for, 8 * page + more);
    ck_assert(!lock_was_held);
    check(8);
    unpin(0, 4);
    unpin(4, 4);
    check(0);
    pin_as_root();
}
END_TEST

/* ---- compared with an array of counts ---- */

/* Blocks: each is as large as said, and its live octets are those in the table. *distinct: their
 * number. The result is their sum with the ranges that have none. */
static uint64_t check_blocks(size_t *distinct)
{
    uint64_t sum = 0;

    *distinct = 0;
    for (size_t r = 0; r < pins->used; r++) {
        const struct kal_pin_range *range = &pins->ranges[r];
        uint64_t live = 0;
        size_t first = pins->used;

        if (!range->block) {
            sum += range->end - range->start;
            continue;
        }
        ck_assert(range->start >= range->block->start &&
                  range->end <= range->block->start + range->block->size);
        for (size_t other = 0; other < pins->used; other++) {
            if (pins->ranges[other].block != range->block)
                continue;
            live += pins->ranges[other].end - pins->ranges[other].start;
            first = other < first ? other : first;
        }
        ck_assert_uint_eq(live, range->block->live);
        if (first == r) {
            sum += range->block->size;
            ++*distinct;
        }
    }
    return sum;
}

static void check_ranges(const unsigned *counts)
{
    uint64_t sum;
    size_t distinct;

    for (size_t r = 0; r < pins->used; r++) {
        const struct kal_pin_range *range = &pins->ranges[r];

        for (uintptr_t at = range->start; at < range->end; at += page)
            ck_assert_uint_eq(range->count, counts[(at - (uintptr_t)area) / page]);
        ck_assert(!r || range[-1].end < range->start ||
                  (range[-1].end == range->start &&
                   (range[-1].count != range->count || range[-1].block != range->block)));
    }
    sum = check_blocks(&distinct);
    ck_assert_uint_eq(distinct, pins->blocks);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), sum);
    ck_assert_uint_le(pins->used, 2 * pins->live + 2 * pins->blocks);
    ck_assert_uint_le(2 * pins->live + 2 * pins->blocks, pins->room);
}

START_TEST(test_random_ranges)
{
    struct tc_rng rng = tc_rng(7);
    unsigned counts[PIN_PAGES] = { 0 };
    struct {
        size_t first, count;
    } held[40];
    size_t used = 0;

    pin_use(ways[_i]);
    for (unsigned long round = tc_count(2000); round || used; round -= round > 0) {
        size_t expected = 0;

        if (!round || used == 40 || (used && tc_below(&rng, 2))) {
            size_t i = tc_below(&rng, used);

            unpin(held[i].first, held[i].count);
            for (size_t p = 0; p < held[i].count; p++)
                counts[held[i].first + p]--;
            held[i] = held[--used];
        } else {
            held[used].first = tc_below(&rng, PIN_PAGES);
            held[used].count = 1 + tc_below(&rng, PIN_PAGES - held[used].first);
            ck_assert_int_eq(pin(held[used].first, held[used].count), RI_OK);
            for (size_t p = 0; p < held[used].count; p++)
                counts[held[used].first + p]++;
            used++;
        }
        for (size_t p = 0; p < PIN_PAGES; p++)
            expected += counts[p] > 0;
        check_ranges(counts);
        if (pins->ops == &kal_pin_lock)
            ck_assert_uint_eq(atomic_load(&pins->octets), expected * page);
        else
            ck_assert_uint_ge(atomic_load(&pins->octets), expected * page);
        if (round % 100 == 0)
            check(kal_host_holds(host, KAL_ACCOUNT_PINNED) / page);
    }
    check(0);
}
END_TEST

/* A pin among many checks its neighbours, not all ranges after it. */
START_TEST(test_a_pin_looks_at_its_neighbours)
{
    const size_t count = 500;
    char *many = mmap(NULL, 2 * count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);

    ck_assert_ptr_ne(many, MAP_FAILED);
    pin_use(ways[_i]);
    for (size_t i = count; i > 0; i--) /* each before all others */
        if (kal_pin(pins, many + 2 * (i - 1) * page, page, false, &refusal) != RI_OK)
            tc_skip("%zu pages may not be pinned here: %s", count, refusal.why);
    for (size_t i = 0; i < count; i += 2)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pins->used, count / 2);
    ck_assert_uint_le(pins->looked, 4 * count);
    for (size_t i = 1; i < count; i += 2)
        kal_unpin(pins, many + 2 * i * page, page);
    ck_assert_uint_eq(pins->used, 0);
    munmap(many, 2 * count * page);
}
END_TEST

/* ---- threads ---- */

#define THREADS 4

/* Pins and unpins overlapping ranges; while it has one, its pages are in the table. */
static void *pin_some(void *arg)
{
    struct tc_rng rng = *(struct tc_rng *)arg;
    struct kal_pin_refusal why;

    for (unsigned long round = tc_count(300); round; round--) {
        size_t first = tc_below(&rng, PIN_PAGES), count = 1 + tc_below(&rng, PIN_PAGES - first);
        enum ri_status status = kal_pin(pins, area + first * page, count * page, true, &why);

        if (status != RI_OK)
            return strdup(why.why);
        if (reported() < count * page)
            return strdup("the kernel has fewer octets than this thread has pinned");
        __atomic_store_n(&area[first * page], 1, __ATOMIC_RELAXED); /* others may write there */
        kal_unpin(pins, area + first * page, count * page);
    }
    return NULL;
}

START_TEST(test_threads_pin_at_once)
{
    struct tc_rng rng[THREADS];
    pthread_t threads[THREADS];
    void *wrong;

    pin_use(ways[_i]);
    area[0] = 1;
    for (size_t i = 0; i < THREADS; i++) {
        rng[i] = tc_rng(100 + i);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pin_some, &rng[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
    ck_assert_uint_eq(pins->used, 0);
    ck_assert_uint_eq(pins->blocks, 0);
    check(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin");
    TCase *tc = tc_case(suite, "pin", pin_setup, pin_teardown);

    tc_add_loops(tc, 0, WAYS, test_overlapping_ranges_nest, test_partial_pages_count_whole);
    tcase_add_test(tc, test_neighbours_are_joined);
    tc_add_loops(tc, 0, WAYS, test_a_pin_looks_at_its_neighbours, test_impossible_ranges,
                 test_quota, test_memlock_limit_is_explained, test_random_ranges,
                 test_threads_pin_at_once);
    return tc_main(suite);
}

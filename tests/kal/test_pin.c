/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned pages: nesting, what is really locked, limits, and that a refusal changes nothing. */
#include "kal/host/host_private.h"
#include "kal_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGES 32u

static struct kal_host *host;
static uint64_t quota, asked_for;
static char *area;
static size_t page;
static bool kernel_asked; /* false: sanitizers make mlock do nothing */

static size_t locked(void);

/* ---- a host that leases nothing more, and raises the memlock limit if the test allows it ---- */

static bool raises;

static bool no_lease(void *state, enum kal_account_kind kind, uint64_t amount, bool wait)
{
    (void)state;
    (void)kind;
    (void)amount;
    (void)wait;
    return false;
}

static uint64_t the_quota(void *state, enum kal_account_kind kind)
{
    (void)state;
    (void)kind;
    return quota;
}

static bool raise_memlock(void *state, uint64_t octets)
{
    struct rlimit limit;

    (void)state;
    asked_for = octets;
    if (!raises || getrlimit(RLIMIT_MEMLOCK, &limit))
        return false;
    limit.rlim_cur = octets;
    return !setrlimit(RLIMIT_MEMLOCK, &limit);
}

static const struct kal_host_ops host_ops = { .lease = no_lease,
                                              .quota = the_quota,
                                              .raise_memlock = raise_memlock };

static void setup(void)
{
    const char *why;

    fixture_setup();
    ck_assert(kal_log_configure(getenv("ITAL_LOG"), &why));
    page = (size_t)sysconf(_SC_PAGESIZE);
    area = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(area, MAP_FAILED);
    ck_assert_int_eq(mlock(area, page), 0);
    kernel_asked = locked() == page;
    munlock(area, page);
    host = kal_host_create(&host_ops, NULL);
    ck_assert_ptr_nonnull(host);
    quota = UINT64_MAX;
    kal_host_grant(host, KAL_ACCOUNT_PINNED, quota);
    asked_for = 0;
    raises = false;
}

static void teardown(void)
{
    kal_host_destroy(host);
    munmap(area, PAGES * page);
    kal_log_reset();
}

/* Octets of the area that the kernel reports as locked. */
static size_t locked(void)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    unsigned long start, end, kib;
    bool ours = false;
    char line[512];
    size_t sum = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            ours = start >= (uintptr_t)area && end <= (uintptr_t)area + PAGES * page;
        else if (ours && sscanf(line, "Locked: %lu kB", &kib) == 1)
            sum += kib * 1024;
    }
    fclose(maps);
    return sum;
}

static enum ri_status pin(size_t first, size_t count)
{
    return kal_pin(&host->pins, area + first * page, count * page);
}

static void unpin(size_t first, size_t count)
{
    kal_unpin(&host->pins, area + first * page, count * page);
}

static void check(size_t pages)
{
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), pages * page);
    if (kernel_asked)
        ck_assert_uint_eq(locked(), pages * page);
}

START_TEST(test_overlapping_ranges_nest)
{
    ck_assert_int_eq(pin(2, 4), RI_OK);
    check(4);
    ck_assert_int_eq(pin(4, 4), RI_OK);
    check(6);
    ck_assert_int_eq(pin(0, 10), RI_OK);
    check(10);
    unpin(2, 4);
    check(10);
    unpin(0, 10);
    check(4);
    unpin(4, 4);
    check(0);
    ck_assert_uint_eq(host->pins.used, 0);
}
END_TEST

START_TEST(test_partial_pages_count_whole)
{
    ck_assert_int_eq(kal_pin(&host->pins, area + 100, 1), RI_OK);
    check(1);
    ck_assert_int_eq(kal_pin(&host->pins, area + page - 1, 2), RI_OK);
    check(2);
    kal_unpin(&host->pins, area + page - 1, 2);
    check(1);
    kal_unpin(&host->pins, area + 100, 1);
    check(0);
}
END_TEST

START_TEST(test_neighbours_are_joined)
{
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_int_eq(pin(8, 4), RI_OK);
    ck_assert_uint_eq(host->pins.used, 2);
    ck_assert_int_eq(pin(4, 4), RI_OK);
    ck_assert_uint_eq(host->pins.used, 1);
    check(12);
    unpin(4, 4);
    ck_assert_uint_eq(host->pins.used, 2);
    check(8);
}
END_TEST

START_TEST(test_impossible_ranges)
{
    ck_assert_int_eq(kal_pin(&host->pins, area, 0), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_pin(&host->pins, area, UINT64_MAX), RI_ERR_INVALID_ARGUMENT);
    ck_assert_int_eq(kal_pin(&host->pins, (void *)(UINTPTR_MAX - 10), 5), RI_ERR_INVALID_ARGUMENT);
    check(0);
    if (!kernel_asked)
        tc_skip("mlock does nothing in this build");
    ck_assert_int_eq(munmap(area + 8 * page, page), 0);
    ck_assert_int_eq(pin(0, 2), RI_OK);
    ck_assert_int_eq(pin(0, 16), RI_ERR_ADDRESS);
    ck_assert_uint_eq(fixture_log_count("not all of them are mapped"), 1);
    check(2);
    ck_assert_uint_eq(host->pins.used, 1);
    unpin(0, 2);
    check(0);
}
END_TEST

START_TEST(test_quota)
{
    kal_host_destroy(host);
    host = kal_host_create(&host_ops, NULL);
    ck_assert_ptr_nonnull(host);
    quota = 4 * page;
    kal_host_grant(host, KAL_ACCOUNT_PINNED, quota);
    ck_assert_int_eq(pin(1, 2), RI_OK);
    ck_assert_int_eq(pin(0, 5), RI_ERR_NO_RESOURCES); /* the first gap fits, the second does not */
    ck_assert_uint_eq(fixture_log_count("raise max_pinned in section [quota]"), 1);
    check(2);
    ck_assert_int_eq(pin(0, 4), RI_OK);
    check(4);
    unpin(1, 2);
    unpin(0, 4);
    check(0);
}
END_TEST

START_TEST(test_memlock_limit_is_explained)
{
    struct rlimit limit = { 2 * page, 8 * page };

    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0 && seteuid(65534)) /* root has no limit */
        tc_skip("this user cannot give up its right to lock memory");
    if (mlock(area, PAGES * page) == 0)
        tc_skip("the limit of locked memory is not enforced here");
    munlock(area, PAGES * page);
    ck_assert_int_eq(pin(0, 8), RI_ERR_NO_RESOURCES);
    ck_assert_uint_eq(asked_for, 8 * page);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
    /* The same, where the host can raise the limit */
    raises = true;
    ck_assert_int_eq(pin(0, 4), RI_OK);
    ck_assert_int_eq(pin(4, 4), RI_OK);
    ck_assert_uint_eq(asked_for, 8 * page);
    unpin(0, 4);
    unpin(4, 4);
    if (geteuid() == 65534)
        ck_assert_int_eq(seteuid(0), 0);
    ck_assert_uint_eq(fixture_log_count("raise it (ulimit -l, LimitMEMLOCK="), 1);
    ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), 0);
}
END_TEST

/* Compared with an array of counts. */
START_TEST(test_random_ranges)
{
    struct tc_rng rng = tc_rng(7);
    unsigned counts[PAGES] = { 0 };
    struct {
        size_t first, count;
    } held[40];
    size_t used = 0;

    for (unsigned long round = tc_count(2000); round; round--) {
        size_t expected = 0;

        if (used == 40 || (used && tc_below(&rng, 2))) {
            size_t i = tc_below(&rng, used);

            unpin(held[i].first, held[i].count);
            for (size_t p = 0; p < held[i].count; p++)
                counts[held[i].first + p]--;
            held[i] = held[--used];
        } else {
            held[used].first = tc_below(&rng, PAGES);
            held[used].count = 1 + tc_below(&rng, PAGES - held[used].first);
            ck_assert_int_eq(pin(held[used].first, held[used].count), RI_OK);
            for (size_t p = 0; p < held[used].count; p++)
                counts[held[used].first + p]++;
            used++;
        }
        for (size_t p = 0; p < PAGES; p++)
            expected += counts[p] > 0;
        ck_assert_uint_eq(kal_host_holds(host, KAL_ACCOUNT_PINNED), expected * page);
        for (size_t r = 0; r < host->pins.used; r++) {
            const struct kal_pin_range *range = &host->pins.ranges[r];

            for (uintptr_t at = range->start; at < range->end; at += page)
                ck_assert_uint_eq(range->count, counts[(at - (uintptr_t)area) / page]);
            ck_assert(!r || range[-1].end < range->start ||
                      (range[-1].end == range->start && range[-1].count != range->count));
        }
        if (round % 100 == 0)
            check(expected);
    }
}
END_TEST

/* A pin among many checks its neighbours, not all ranges after it. */
START_TEST(test_a_pin_looks_at_its_neighbours)
{
    const size_t count = 500;
    char *many = mmap(NULL, 2 * count * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(many, MAP_FAILED);
    for (size_t i = count; i > 0; i--) /* each before all others */
        if (kal_pin(&host->pins, many + 2 * (i - 1) * page, page) != RI_OK)
            tc_skip("%zu pages may not be locked here", count);
    for (size_t i = 0; i < count; i += 2)
        kal_unpin(&host->pins, many + 2 * i * page, page);
    ck_assert_uint_eq(host->pins.used, count / 2);
    ck_assert_uint_le(host->pins.looked, 4 * count);
    for (size_t i = 1; i < count; i += 2)
        kal_unpin(&host->pins, many + 2 * i * page, page);
    ck_assert_uint_eq(host->pins.used, 0);
    munmap(many, 2 * count * page);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pin");
    TCase *tc = tc_case(suite, "pin", setup, teardown);

    tcase_add_test(tc, test_overlapping_ranges_nest);
    tcase_add_test(tc, test_partial_pages_count_whole);
    tcase_add_test(tc, test_neighbours_are_joined);
    tcase_add_test(tc, test_a_pin_looks_at_its_neighbours);
    tcase_add_test(tc, test_impossible_ranges);
    tcase_add_test(tc, test_quota);
    tcase_add_test(tc, test_memlock_limit_is_explained);
    tcase_add_test(tc, test_random_ranges);
    return tc_main(suite);
}

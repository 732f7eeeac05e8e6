/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic over two endpoints by many threads, against a model: see traffic.h. */
#include "traffic.h"

#define SECONDS 12u
#define WARM    3u /* histories that make the allocations that the process keeps */
/* Octets: the library's tables keep the size of the highest number of open objects. */
#define KEPT    16384u
#define TIMED_S 600u

static uint64_t first_seed(void)
{
    const char *asked = getenv("ITAL_PROPERTY_SEED");

    return asked ? strtoull(asked, NULL, 0) : tc_seed();
}

/* Runs histories until the time is over; then no resources of them are left. */
START_TEST(every_request_completes_once_and_nothing_is_left)
{
    static struct traffic traffic;
    uint64_t seed = first_seed(), end = 0, calls = 0, misused = 0;
    unsigned long histories = 0;
    struct tc_fds fds;
    size_t heap = 0;
    int threads = 0;

    fprintf(stderr, "# %s: histories from seed %llu (ITAL_PROPERTY_SEED)\n", IFACE,
            (unsigned long long)seed);
    for (; histories < WARM || tc_now_ns() < end; histories++, seed++) {
        if (histories == WARM - 1) {
            fds = tc_fds();
            heap = tc_heap();
            threads = tc_thread_count();
            end = tc_now_ns() + tc_count(SECONDS) * 1000000000u;
        }
        traffic_history(IFACE, seed, &traffic);
        calls += traffic.calls;
        misused += traffic.misused;
    }
    fprintf(stderr, "# %lu histories, %llu posts, %llu illegal calls\n", histories,
            (unsigned long long)calls, (unsigned long long)misused);
    ck_assert_msg(!tc_fds_differ(&fds), "descriptors: %s", tc_fds_differ(&fds));
    ck_assert_int_eq(tc_thread_count(), threads);
    ck_assert_msg(tc_heap() <= heap + KEPT, "%zu octets of heap are left, %zu before", tc_heap(),
                  heap);
}
END_TEST

/* Blocks in a thread's malloc cache count as used: without the cache the heap shows leaks
 * exactly. */
static void without_cache(char **arguments)
{
    if (getenv("GLIBC_TUNABLES"))
        return;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", arguments);
}

int main(int count, char **arguments)
{
    Suite *suite = suite_create("property");
    TCase *tc = tc_case(suite, "traffic", NULL, NULL);

    (void)count;
    without_cache(arguments);
    tcase_set_timeout(tc, TIMED_S * (tc_long() ? 3 : 1));
    add_each(tc, every_request_completes_once_and_nothing_is_left);
    return tc_main(suite);
}

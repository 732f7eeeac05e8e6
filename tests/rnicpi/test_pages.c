/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that may be registered: every page is checked, by each way to ask the kernel, and
 * the check touches no page. */
#include "tc.h"

#include "rnicpi_pages.h"

#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* The ways: a query, as since Linux 6.11; the text of all mappings; page by page, as without
 * /proc. */
enum way { QUERY, TEXT, TRIAL, WAYS };
#define PAGES 64u

static bool no_query;
static unsigned int queries;
static struct rlimit descriptors;
static size_t page;
static uint8_t *map;

/* The provider's own calls come here. */
int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    void *arg;
    long result;

    va_start(args, request);
    arg = va_arg(args, void *);
    va_end(args);
    if (no_query) {
        errno = ENOTTY;
        return -1;
    }
    result = syscall(SYS_ioctl, fd, request, arg);
    queries += result == 0;
    return (int)result;
}

static void setup(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    map = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(map != MAP_FAILED);
    queries = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
}

static void teardown(void)
{
    setrlimit(RLIMIT_NOFILE, &descriptors);
    munmap(map, PAGES * page);
}

/* Without a free descriptor there is no /proc. */
static void go(enum way way)
{
    const struct rlimit none = { 0, descriptors.rlim_max };

    no_query = way != QUERY;
    if (way == TRIAL)
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void expect(enum ri_status status, size_t from, size_t length, bool read, bool write)
{
    enum ri_status got = ri_pages_check(map + from, length, read, write);

    ck_assert_msg(got == status, "octets %zu+%zu, read %d, write %d: %d, not %d", from, length,
                  read, write, (int)got, (int)status);
}

static void protect(size_t at, size_t pages, int rights)
{
    ck_assert_int_eq(mprotect(map + at * page, pages * page, rights), 0);
}

START_TEST(X009_all_is_mapped)
{
    go(_i);
    expect(RI_OK, 0, PAGES * page, true, true);
    expect(RI_OK, 5, 1, true, true);
    expect(RI_OK, PAGES * page - 1, 1, true, true);
    ck_assert_int_eq(munmap(map + 20 * page, page), 0);
    expect(RI_ERR_ADDRESS, 0, PAGES * page, true, true);
    expect(RI_ERR_ADDRESS, 0, 20 * page + 1, false, false);
    expect(RI_ERR_ADDRESS, 21 * page - 1, 2, true, false);
    expect(RI_OK, 0, 20 * page, true, true);
    expect(RI_OK, 21 * page, 1, true, true);
}
END_TEST

/* The page is the first, one in the middle, or the last. */
START_TEST(X009_one_page_may_not_be_written)
{
    static const size_t which[] = { 0, 1, PAGES / 2, PAGES - 2, PAGES - 1 };

    protect(which[_i / WAYS], 1, PROT_READ);
    go(_i % WAYS);
    expect(RI_ERR_ACCESS, 0, PAGES * page, true, true);
    expect(RI_ERR_ACCESS, 0, PAGES * page, false, true);
    expect(RI_OK, 0, PAGES * page, true, false);
    expect(RI_OK, 0, PAGES * page, false, false);
}
END_TEST

START_TEST(X009_one_page_may_not_be_read)
{
    static const size_t which[] = { 0, 1, PAGES / 2, PAGES - 2, PAGES - 1 };

    protect(which[_i / WAYS], 1, PROT_NONE);
    go(_i % WAYS);
    expect(RI_ERR_ACCESS, 0, PAGES * page, true, false);
    expect(RI_ERR_ACCESS, 0, PAGES * page, true, true);
    expect(RI_ERR_ACCESS, which[_i / WAYS] * page, 1, true, false);
    expect(RI_OK, 0, PAGES * page, false, false);
}
END_TEST

/* Different mappings, each valid. Memory that may only be read is registered for reading. */
START_TEST(X009_many_mappings)
{
    for (size_t i = 0; i < PAGES; i += 2)
        protect(i, 1, i % 4 ? PROT_WRITE : PROT_READ | PROT_WRITE | PROT_EXEC);
    go(_i);
    expect(RI_OK, 0, PAGES * page, true, true);
    expect(RI_OK, 3 * page - 1, 40 * page, true, true);
    protect(41, 1, PROT_READ);
    expect(RI_ERR_ACCESS, 3 * page - 1, 40 * page, true, true);
    expect(RI_OK, 3 * page - 1, 38 * page + 1, true, true);
}
END_TEST

/* The text is longer than one read of it: a line is split over two reads. */
START_TEST(a_thousand_mappings)
{
    const size_t count = 2000;
    uint8_t *many = mmap(NULL, count * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);

    ck_assert(many != MAP_FAILED);
    for (size_t i = 0; i < count; i += 2)
        ck_assert_int_eq(mprotect(many + i * page, page, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    go(_i);
    for (size_t i = 0; i < count; i += 97)
        ck_assert_int_eq(ri_pages_check(many + i * page, (count - i) * page, true, true), RI_OK);
    ck_assert_int_eq(mprotect(many + (count - 1) * page, page, PROT_READ), 0);
    ck_assert_int_eq(ri_pages_check(many, count * page, true, true), RI_ERR_ACCESS);
    ck_assert_int_eq(ri_pages_check(many, (count - 1) * page, true, true), RI_OK);
    munmap(many, count * page);
}
END_TEST

static size_t resident(void)
{
    uint8_t in[PAGES];
    size_t count = 0;

    ck_assert_int_eq(mincore(map, PAGES * page, in), 0);
    for (size_t i = 0; i < PAGES; i++)
        count += in[i] & 1;
    return count;
}

/* Memory that is not populated yet stays so. */
START_TEST(nothing_is_populated)
{
    go(_i);
    ck_assert_uint_eq(resident(), 0);
    expect(RI_OK, 0, PAGES * page, true, true);
    ck_assert_uint_eq(resident(), 0);
    map[3 * page] = 'x';
    expect(RI_OK, 0, PAGES * page, true, true);
    ck_assert_uint_eq(resident(), 1);
    ck_assert_uint_eq(map[3 * page], 'x');
}
END_TEST

/* If the kernel has the fast way, this run tests that the fast way is used. */
START_TEST(one_query_is_enough)
{
    go(QUERY);
    expect(RI_OK, 0, PAGES * page, true, true);
    if (!queries)
        tc_skip("the kernel has no PROCMAP_QUERY (Linux 6.11)");
    ck_assert_uint_eq(queries, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages");
    TCase *tc = tc_case(suite, "every page counts", setup, teardown);

    tcase_add_loop_test(tc, X009_all_is_mapped, 0, WAYS);
    tc_add_loops(tc, 0, 5 * WAYS, X009_one_page_may_not_be_written, X009_one_page_may_not_be_read);
    tc_add_loops(tc, 0, WAYS, X009_many_mappings, a_thousand_mappings);
    tcase_add_loop_test(tc, nothing_is_populated, 0, TRIAL);
    tcase_add_test(tc, one_query_is_enough);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out at the n-th allocation of kal or of the provider, for every n: no crash, no leak,
 * and the next try works. Linked with --wrap: only calls of kal's own objects are wrapped, not
 * those of libraries.
 */
#include "kal_fixture.h"

#include <dirent.h>
#include <stdarg.h>

/* -1: never; else how many more succeed. */
static long left = -1;
static unsigned long failed;
static long balance; /* allocations of wrapped calls not freed yet */

static bool fails(void)
{
    if (left < 0)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    failed++;
    return true;
}

static void *got(void *memory)
{
    balance += memory != NULL;
    return memory;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t most);
int __real_vasprintf(char **out, const char *format, va_list args);
ssize_t __real___getdelim(char **line, size_t *room, int end, FILE *file);
int __real_scandir(const char *folder, struct dirent ***entries,
                   int (*select)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
char *__real_realpath(const char *path, char *resolved);
void __real_free(void *memory);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
int __wrap_vasprintf(char **out, const char *format, va_list args);
ssize_t __wrap_getline(char **line, size_t *room, FILE *file);
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file);
int __wrap_scandir(const char *folder, struct dirent ***entries,
                   int (*select)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **));
char *__wrap_realpath(const char *path, char *resolved);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : got(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : got(__real_calloc(count, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    void *more = fails() ? NULL : __real_realloc(memory, size);

    balance += !memory && more;
    return more;
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : got(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t most)
{
    return fails() ? NULL : got(__real_strndup(text, most));
}

int __wrap_vasprintf(char **out, const char *format, va_list args)
{
    int length = fails() ? -1 : __real_vasprintf(out, format, args);

    balance += length >= 0;
    return length;
}

/* getline, whether inlined or not. */
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file)
{
    bool none = !*line;
    ssize_t length;

    if (none && fails()) {
        errno = ENOMEM;
        return -1;
    }
    length = __real___getdelim(line, room, end, file);
    balance += none && *line;
    return length;
}

ssize_t __wrap_getline(char **line, size_t *room, FILE *file)
{
    return __wrap___getdelim(line, room, '\n', file);
}

int __wrap_scandir(const char *folder, struct dirent ***entries,
                   int (*select)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    int count;

    if (fails()) {
        errno = ENOMEM;
        return -1;
    }
    count = __real_scandir(folder, entries, select, compare);
    if (count >= 0)
        balance += count + (*entries != NULL);
    return count;
}

char *__wrap_realpath(const char *path, char *resolved)
{
    char *real;

    if (!resolved && fails()) {
        errno = ENOMEM;
        return NULL;
    }
    real = __real_realpath(path, resolved);
    balance += real && !resolved;
    return real;
}

void __wrap_free(void *memory)
{
    balance -= memory != NULL;
    __real_free(memory);
}

/* Check's assertions allocate, and are wrapped too. */
#define MUST(condition)                     \
    do {                                    \
        if (!(condition)) {                 \
            left = -1;                      \
            ck_abort_msg("%s", #condition); \
        }                                   \
    } while (0)

/* An RNIC with a region, from open to close. */
static enum ri_status live(void)
{
    static char area[8192];
    struct ri_mr_attr attr = { .size = sizeof(attr), .addr = area, .length = sizeof(area) };
    struct kal_region *region;
    struct sockaddr_storage from, to = { .ss_family = AF_INET };
    struct kal_rnic *rnic;
    struct kal *own;
    struct ri_pd *pd;
    enum ri_status status = kal_get(&fake_upper, &own), routed;

    if (status != RI_OK)
        return status;
    status = kal_rnic_open(own, "a", NULL, &rnic);
    if (status != RI_OK)
        goto put;
    memcpy((char *)&to + 4, "\x7f\x00\x00\x01", 4);
    routed = kal_route(rnic, 0, (struct sockaddr *)&to, &from);
    status = kal_pd_create(rnic, NULL, &pd);
    if (status == RI_OK) {
        status = kal_region_create(rnic, pd, &attr, &region);
        if (status == RI_OK)
            MUST(kal_region_destroy(rnic, region) == RI_OK);
        MUST(kal_pd_destroy(rnic, pd) == RI_OK);
    }
    if (status == RI_OK)
        status = routed;
    MUST(kal_rnic_close(rnic, false) == RI_OK);
put:
    for (int kind = 0; kind < KAL_ACCOUNT_KINDS; kind++)
        MUST(kal_host_holds(own->host, (enum kal_account_kind)kind) == 0);
    kal_put(own);
    return status;
}

static const char conf[] = "[ital]\nprovider_path = /nonexistent/one:/nonexistent/two\nspin = 3\n"
                           "[quota]\nmax_qp = 7\n[policy]\nrule1 = deny any to 192.0.2.0/24\n"
                           "[interface a]\nprovider = test\ndevice = none\nfallback = real\n"
                           "[interface real]\nprovider = test\ndevice = test\nmode = fast\n"
                           "[interface b]\nprovider = none\n[interface c]\nprovider = spoilt\n";

START_TEST(test_every_allocation_may_fail)
{
    enum ri_status status = RI_OK;
    long n;

    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_foreign", NULL);
    fixture_file("vp_spoilt.so", "x", 1);
    fixture_conf(conf);
    fixture_folder_made("conf.d");
    fixture_file("conf.d/1.conf", "[ital]\nspin = 4\n", 16);
    fixture_file("conf.d/2.conf", "[quota]\nmax_cq = 4\n", 18);
    setenv("ITAL_TEST_VP", "dma,ports2", 1);
    ck_assert_int_eq(live(), RI_OK); /* libraries have initialised themselves */
    balance = 0;
    for (n = 0; n < 100000; n++) {
        unsigned long before = failed;

        left = n;
        status = live();
        left = -1;
#if !defined _FORTIFY_SOURCE || !_FORTIFY_SOURCE /* its vasprintf has another name */
        ck_assert_msg(balance == 0, "allocation %ld: %ld are left", n, balance);
#endif
        if (failed == before)
            break; /* every allocation was tried */
        ck_assert_msg(status == RI_ERR_NO_RESOURCES || status == RI_OK, "allocation %ld: %s", n,
                      ital_status_name(status));
    }
    ck_assert_int_eq(status, RI_OK);
    ck_assert_int_gt(n, 50);
    ck_assert_int_eq(live(), RI_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tc = tc_case(suite, "memory", fixture_setup, fixture_put);

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_every_allocation_may_fail);
    return tc_main(suite);
}

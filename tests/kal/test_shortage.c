/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory or descriptors run out anywhere in the process while interfaces are listed and one is
 * opened: in kal, in the dynamic linker, in libltdl. Each try is in a process of its own: it
 * succeeds or ends in a clean error, and afterwards, with enough of both, it works. test_memory
 * tests kal's own allocations, one by one, and its leaks.
 */
#include "kal_fixture.h"
#include "tc_allocator.h"

#include <ltdl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- one try ---- */

static void count_usable(const struct kal_interface_info *info, void *arg)
{
    *(unsigned *)arg += info->usable;
}

/* List, then open and close. */
static enum ri_status use(unsigned *usable)
{
    struct kal_rnic *rnic;
    enum ri_status status;
    struct kal *own;

    *usable = 0;
    status = kal_get(&fake_upper, &own);
    if (status != RI_OK)
        return status;
    status = kal_interface_list(own, count_usable, usable);
    if (status == RI_OK)
        status = kal_rnic_open(own, "a", NULL, &rnic);
    if (status == RI_OK)
        status = kal_rnic_close(rnic, true);
    kal_put(own);
    return status;
}

#define INTERFACES 3 /* two files, and one inside the program */

/* The exit status of a try. */
enum { GOOD, WRONG_ERROR, NOT_AFTERWARDS, LESS_AFTERWARDS };

static bool is_clean(enum ri_status status)
{
    return status == RI_OK || status == RI_ERR_NO_RESOURCES;
}

/* A second instance exists all the time: what the first search found remains. */
static int try_memory(unsigned int which, enum allocator_failing how)
{
    struct kal *held = NULL;
    enum ri_status status;
    unsigned usable;

    if (kal_get(&fake_upper, &held) != RI_OK)
        return NOT_AFTERWARDS;
    allocator_arm(which, how);
    status = use(&usable);
    allocator_disarm();
    if (!is_clean(status))
        return WRONG_ERROR;
    if (use(&usable) != RI_OK || use(&usable) != RI_OK)
        return NOT_AFTERWARDS;
    return usable == INTERFACES ? GOOD : LESS_AFTERWARDS;
}

static void expect_good(pid_t child, const char *what, long number)
{
    static const char *const words[] = { "good", "another error than want of resources",
                                         "it does not work afterwards",
                                         "a provider stays refused" };
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "%s %ld: signal %d", what, number, WTERMSIG(status));
    ck_assert_msg(WEXITSTATUS(status) == GOOD, "%s %ld: %s", what, number,
                  words[WEXITSTATUS(status) & 3]);
}

/* The symbol that -dlpreopen gives a module. */
extern const struct ri_provider vp_test_LTX_rnicpi_provider_v1;
static const lt_dlsymlist inside[] = {
    { "@PROGRAM@", NULL },
    { "vp_pre.a", NULL },
    { RI_PROVIDER_SYMBOL, (void *)&vp_test_LTX_rnicpi_provider_v1 },
    { NULL, NULL },
};

static void prepare(void)
{
    ck_assert_int_eq(lt_dlpreload_default(inside), 0);
    fixture_module("vp_test", NULL);
    fixture_module("broken/vp_oldminor", NULL);
    fixture_conf("[ital]\ndefault_interfaces = no\n[interface a]\nprovider = test\n"
                 "[interface b]\nprovider = oldminor\n[interface c]\nprovider = pre\n");
    setenv("ITAL_LOG", "error", 1);
}

/* The number of allocations of a try without a failure. */
static long allocations_of_a_try(void)
{
    int fds[2];
    pid_t child;
    long count = 0;

    ck_assert_int_eq(pipe(fds), 0);
    child = fork();
    if (child == 0) {
        unsigned usable;

        allocator_arm(0, ALLOCATOR_ONE);
        count = use(&usable) == RI_OK ? (long)allocator_made() : 0;
        _exit(write(fds[1], &count, sizeof(count)) == sizeof(count) ? GOOD : NOT_AFTERWARDS);
    }
    expect_good(child, "without a failure", 0);
    ck_assert_int_eq(read(fds[0], &count, sizeof(count)), sizeof(count));
    close(fds[0]);
    close(fds[1]);
    return count;
}

START_TEST(every_kth_allocation)
{
    long total, stride, first;

    allocator_needed();
    prepare();
    total = allocations_of_a_try();
    ck_assert_int_gt(total, 100);
    stride = 1 + total / (long)tc_count(200);
    first = (long)(tc_seed() % (uint64_t)stride);
    for (long n = first; n < total; n += stride) {
        pid_t child = fork();

        if (child == 0)
            _exit(try_memory((unsigned)n + 1, _i ? ALLOCATOR_ALL_FROM : ALLOCATOR_ONE));
        expect_good(child, _i ? "from allocation on" : "allocation", n);
    }
}
END_TEST

#ifndef ITAL_SANITIZERS /* they need descriptors themselves */
static int try_descriptors(long number)
{
    struct rlimit before, few;
    enum ri_status status;
    struct kal *held = NULL;
    unsigned usable;

    if (kal_get(&fake_upper, &held) != RI_OK)
        return NOT_AFTERWARDS;
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){ (rlim_t)number, before.rlim_max };
    setrlimit(RLIMIT_NOFILE, &few);
    status = use(&usable);
    setrlimit(RLIMIT_NOFILE, &before);
    if (!is_clean(status))
        return WRONG_ERROR;
    if (use(&usable) != RI_OK)
        return NOT_AFTERWARDS;
    return usable == INTERFACES ? GOOD : LESS_AFTERWARDS;
}

START_TEST(every_number_of_descriptors)
{
    int first;

    prepare();
    first = tc_fd_count();
    for (long n = first; n < first + 12; n++) {
        pid_t child = fork();

        if (child == 0)
            _exit(try_descriptors(n));
        expect_good(child, "descriptors", n);
    }
}
END_TEST

#else
START_TEST(every_number_of_descriptors)
{
    tc_skip("the sanitizer needs descriptors itself");
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("shortage");
    TCase *tc = tc_case(suite, "list and open", fixture_setup, fixture_put);

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_kth_allocation, 0, 2);
    tcase_add_test(tc, every_number_of_descriptors);
    return tc_main(suite);
}

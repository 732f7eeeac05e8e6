/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processor time: the smallest quota between a control group and the root counts, in both versions
 * of control groups.
 */
#include "tc.h"

#include "base/cpus.h"

#include <sched.h>
#include <sys/stat.h>

static const char *root;
static char groups[160];

static void setup(void)
{
    root = tc_tempdir();
    snprintf(groups, sizeof(groups), "%s/groups", root);
}

static void folder(const char *name)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void put(const char *name, const char *text)
{
    char path[160];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", root, name);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(the_least_quota_of_the_way_up_counts)
{
    folder("a");
    folder("a/b");
    put("groups", "0::/a/b\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
    put("a/b/cpu.max", "max 100000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
    put("a/cpu.max", "350000 100000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), 3);
    put("a/b/cpu.max", "150000 100000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), 1);
    put("a/b/cpu.max", "50000 100000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), 0);
}
END_TEST

START_TEST(version_one_is_read_too)
{
    folder("cpu");
    folder("cpu/a");
    put("groups", "5:memory:/a\n4:cpu,cpuacct:/a\nnonsense\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
    put("cpu/a/cpu.cfs_quota_us", "-1\n");
    put("cpu/a/cpu.cfs_period_us", "100000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
    put("cpu/a/cpu.cfs_quota_us", "200000\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), 2);
    put("groups", "6:cpuset:/a\n"); /* no quota, and another path */
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
}
END_TEST

START_TEST(what_cannot_be_read_limits_nothing)
{
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
    put("groups", "0::\n");
    ck_assert_uint_eq(cpus_in_quota(root, groups), CPUS_UNLIMITED);
}
END_TEST

START_TEST(the_mask_is_the_callers)
{
    cpu_set_t all, one;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    ck_assert_uint_eq(cpus_in_mask(), (unsigned int)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    ck_assert_uint_eq(cpus_in_mask(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("processor time is known");
    TCase *all = tc_case(suite, "cpus", setup, NULL);

    tc_add_tests(all, the_least_quota_of_the_way_up_counts, version_one_is_read_too,
                 what_cannot_be_read_limits_nothing, the_mask_is_the_callers);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the providers of this tree support, as the suite expects it. Only this file knows their
 * names. The suite skips the tests of what an interface lacks, so a wrong attribute would otherwise
 * remove its tests silently.
 */
#include "fixture.h"

static const struct {
    const char *name;
    unsigned features;
} expected[] = {
    { "softrdma", FX_ALL & ~(unsigned)(FX_DATAGRAMS | FX_SERVICE_IDS | FX_THREE_WAY) },
    { "memory", FX_DATAGRAMS | FX_READ_DEPTHS | FX_SERVICE_IDS },
};

/* softrdma, unless the environment or tests/sdk/over_memory.h names another provider; never a
 * device of this host. */
static void __attribute__((constructor)) choose(void)
{
    setenv("ITAL_TEST_INTERFACES", "softrdma", 0);
}

START_TEST(has_what_its_tests_are_registered_for)
{
    ck_assert(fx_opens(_i));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (!strcmp(IFACE, expected[i].name)) {
            ck_assert_msg(fx_features(_i) == expected[i].features, "%s has %#x, not %#x", IFACE,
                          fx_features(_i), expected[i].features);
            return;
        }
    }
    ck_abort_msg("nobody said what %s has", IFACE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("features");
    TCase *tc = tcase_create("features");

    add_each(tc, has_what_its_tests_are_registered_for);
    suite_add_tcase(suite, tc);
    return tc_main(suite);
}

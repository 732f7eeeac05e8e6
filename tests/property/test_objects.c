/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls, legal and illegal, against a model of the objects: see objects.h. */
#include "objects.h"

#define HISTORIES 200u
#define CALLS     1500u

static void histories(const char *interface, uint64_t seed, unsigned long count, uint64_t *calls,
                      uint64_t *refused)
{
    static struct model model;

    for (unsigned long i = 0; i < count; i++) {
        objects_history(&model, interface, seed + i, CALLS);
        *calls += model.calls;
        *refused += model.refused;
    }
}

START_TEST(every_answer_is_that_of_the_model)
{
    const char *asked = getenv("ITAL_PROPERTY_SEED");
    uint64_t seed = asked ? strtoull(asked, NULL, 0) : tc_seed(), calls = 0, refused = 0;
    struct tc_fds fds;
    int threads;

    histories(IFACE, seed, 1, &calls, &refused); /* makes lasting allocations */
    fds = tc_fds();
    threads = tc_thread_count();
    histories(IFACE, seed, asked ? 1 : tc_count(HISTORIES), &calls, &refused);
    fprintf(stderr, "# %s: %llu calls, %llu of them illegal, from seed %llu (ITAL_PROPERTY_SEED)\n",
            IFACE, (unsigned long long)calls, (unsigned long long)refused,
            (unsigned long long)seed);
    ck_assert_msg(!tc_fds_differ(&fds), "descriptors: %s", tc_fds_differ(&fds));
    ck_assert_int_eq(tc_thread_count(), threads);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("property");
    TCase *tc = tc_case(suite, "objects", NULL, NULL);

    tcase_set_timeout(tc, 600);
    add_each(tc, every_answer_is_that_of_the_model);
    return tc_main(suite);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire vectors inside a Check test. */
#ifndef ITAL_TESTS_VECTORS_TC_H
#define ITAL_TESTS_VECTORS_TC_H

#include "tests/common/vectors.h"

#include "tc.h"

/* Skips the test if the program cannot read them; a missing or damaged file fails it. */
static inline const struct vectors *tc_vectors(void)
{
    const char *why = "";
    const struct vectors *v = vectors_load(tc_data("vectors.json"), &why);

    if (!v && vectors_readable())
        ck_abort_msg("%s", why);
    if (!v)
        tc_skip("%s", why);
    return v;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The suite's programs look at the interfaces that their environment names: here at that of this
 * folder's provider. Included by one file of each. */
#ifndef ITAL_TESTS_UDLOOP_WHERE_H
#define ITAL_TESTS_UDLOOP_WHERE_H

#include <stdlib.h>

static void __attribute__((constructor)) where(void)
{
    setenv("ITAL_PROVIDER_PATH", UDLOOP_FOLDER, 1);
    setenv("ITAL_TEST_INTERFACES", "udloop", 1);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The suite's programs test the interfaces that their environment names; this names the one of
 * sdk/examples/memory. Included by one file of each program.
 */
#ifndef ITAL_TESTS_SDK_OVER_MEMORY_H
#define ITAL_TESTS_SDK_OVER_MEMORY_H

#include <stdlib.h>

static void __attribute__((constructor)) choose_memory(void)
{
    setenv("ITAL_PROVIDER_PATH", MEMORY_FOLDER, 1);
    setenv("ITAL_TEST_INTERFACES", "memory", 1);
}

#endif

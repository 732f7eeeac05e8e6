/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The suite's programs test the interfaces that their environment names; this names the interface
 * of this folder's provider. Included by one file of each program.
 */
#ifndef ITAL_TESTS_UDLOOP_WHERE_H
#define ITAL_TESTS_UDLOOP_WHERE_H

#include <stdlib.h>

static void __attribute__((constructor)) where(void)
{
    setenv("ITAL_PROVIDER_PATH", UDLOOP_FOLDER, 1);
    setenv("ITAL_TEST_INTERFACES", "udloop", 1);
}

#endif

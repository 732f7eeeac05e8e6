/* SPDX-License-Identifier: BSD-3-Clause */
/* Aborts when it is loaded. */
#include <stdlib.h>

#define VP_NAME "bursts"
#include "../vp_test.c"

__attribute__((constructor)) static void burst(void)
{
    abort();
}

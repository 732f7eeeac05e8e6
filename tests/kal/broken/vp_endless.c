/* SPDX-License-Identifier: BSD-3-Clause */
/* Its major is 5 * 2^32 + 1, which is not 1; running any of its code would end the test. */
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void)
{
    abort();
}

extern const int rnicpi_provider_v21474836481;
__attribute__((visibility("default"))) const int rnicpi_provider_v21474836481 = 1;

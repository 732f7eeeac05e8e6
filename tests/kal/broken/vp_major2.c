/* SPDX-License-Identifier: BSD-3-Clause */
/* Has another major version; running any of its code would end the test. */
#include "rnicpi.h"

#include <stdlib.h>

__attribute__((constructor)) static void loaded(void)
{
    abort();
}

extern const struct ri_provider rnicpi_provider_v2;
RI_PROVIDER_EXPORT const struct ri_provider rnicpi_provider_v2 = {
    .size = sizeof(struct ri_provider), .abi_major = 2, .name = "major2"
};

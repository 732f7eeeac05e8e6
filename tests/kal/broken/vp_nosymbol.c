/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared object that is no provider; running any of its code would end the test. */
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void)
{
    abort();
}

extern const int some_other_symbol;
__attribute__((visibility("default"))) const int some_other_symbol = 1;

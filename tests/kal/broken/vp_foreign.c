/* SPDX-License-Identifier: BSD-3-Clause */
/* A sound provider that exports more than it should. */
#define VP_NAME "foreign"
#include "../vp_test.c"

extern int foreign_symbol;
RI_PROVIDER_EXPORT int foreign_symbol = 1;

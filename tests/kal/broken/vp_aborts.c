/* SPDX-License-Identifier: BSD-3-Clause */
/* Works until it lists its devices, then aborts. */
#include <stdlib.h>

#define VP_NAME           "aborts"
#define VP_BEFORE_DEVICES abort()
#include "../vp_test.c"

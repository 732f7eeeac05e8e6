/* SPDX-License-Identifier: BSD-3-Clause */
/* Declares no option. */
#define VP_NAME "plain"
#define VP_NO_OPTIONS
#include "vp_test.c"

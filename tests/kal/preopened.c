/* SPDX-License-Identifier: BSD-3-Clause */
/* The test provider, linked into a program. */
#define RI_PREOPEN
#define VP_NAME "pre"
#include "vp_test.c"

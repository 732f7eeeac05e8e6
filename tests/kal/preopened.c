/* SPDX-License-Identifier: BSD-3-Clause */
/* The test provider as a program has it inside. */
#define RI_PREOPEN
#define VP_NAME "pre"
#include "vp_test.c"

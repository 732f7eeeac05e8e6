/* SPDX-License-Identifier: BSD-3-Clause */
/* A newer minor version: its table is longer than this library's. */
#define VP_NAME     "newminor"
#define VP_MINOR    99
#define VP_OPS_SIZE (sizeof(struct ri_privileged_ops) + 3 * sizeof(void *))
#include "../vp_test.c"

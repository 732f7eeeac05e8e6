/* SPDX-License-Identifier: BSD-3-Clause */
/* An older minor version: its table ends before the window operations. */
#define VP_NAME "oldminor"
#define VP_SHORT
#define VP_OPS_SIZE offsetof(struct ri_privileged_ops, mw_allocate)
#include "../vp_test.c"

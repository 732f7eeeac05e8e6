/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes for one of the tree's own providers, which stand first. */
#define VP_NAME "softrdma"
#include "../vp_test.c"

/* SPDX-License-Identifier: BSD-3-Clause */
/* Uses the name of one of the tree's own providers, which are listed first. */
#define VP_NAME "softrdma"
#include "../vp_test.c"

/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives its device the name of another provider, and sorts before that one. */
#define VP_NAME   "aaa"
#define VP_DEVICE "test"
#include "../vp_test.c"

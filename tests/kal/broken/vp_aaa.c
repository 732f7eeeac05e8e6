/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls its device as another provider is called, and comes before
 * that one in every order of names. */
#define VP_NAME   "aaa"
#define VP_DEVICE "test"
#include "../vp_test.c"

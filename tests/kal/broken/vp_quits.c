/* SPDX-License-Identifier: BSD-3-Clause */
/* Exits with status 0 when it lists its devices. */
#include <stdlib.h>

#define VP_NAME           "quits"
#define VP_BEFORE_DEVICES exit(0)
#include "../vp_test.c"

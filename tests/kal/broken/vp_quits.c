/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends the process when it lists its devices, and says that all is well. */
#include <stdlib.h>

#define VP_NAME           "quits"
#define VP_BEFORE_DEVICES exit(0)
#include "../vp_test.c"

/* SPDX-License-Identifier: BSD-3-Clause */
/* Never returns from its list of devices, and has a child that keeps all inherited descriptors
 * open. */
#include <unistd.h>

#define VP_NAME "hangs"
#define VP_BEFORE_DEVICES \
    do {                  \
        fork();           \
        for (;;)          \
            pause();      \
    } while (0)
#include "../vp_test.c"

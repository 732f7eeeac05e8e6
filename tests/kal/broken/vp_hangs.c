/* SPDX-License-Identifier: BSD-3-Clause */
/* Never has its list of devices, and a child that holds on to whatever it was given. */
#include <unistd.h>

#define VP_NAME "hangs"
#define VP_BEFORE_DEVICES \
    do {                  \
        fork();           \
        for (;;)          \
            pause();      \
    } while (0)
#include "../vp_test.c"

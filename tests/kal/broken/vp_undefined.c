/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls an undefined function: with lazy binding the first call would end the program. */
#include "rnicpi.h"

enum ri_status ital_test_nobody_defines_this(struct ri_rnic *rnic);

static enum ri_status close_it(struct ri_rnic *rnic, bool force)
{
    (void)force;
    return ital_test_nobody_defines_this(rnic);
}

static const struct ri_privileged_ops privileged = { .size = sizeof(privileged),
                                                     .abi_major = RI_ABI_MAJOR,
                                                     .close = close_it };
static const struct ri_user_ops user = { .size = sizeof(user), .abi_major = RI_ABI_MAJOR };

RI_PROVIDER(vp_undefined) = { .size = sizeof(struct ri_provider),
                              .abi_major = RI_ABI_MAJOR,
                              .name = "undefined",
                              .version = "1",
                              .description = "needs what is not there",
                              .privileged = &privileged,
                              .user = &user };

/* SPDX-License-Identifier: BSD-3-Clause */
/* Its table gives one of kal's options an invalid default. */
#include "rnicpi.h"

static const struct ri_privileged_ops privileged = { .size = sizeof(privileged),
                                                     .abi_major = RI_ABI_MAJOR };
static const struct ri_user_ops user = { .size = sizeof(user), .abi_major = RI_ABI_MAJOR };
static const struct ri_option options[] = { RI_OPTION_DEFAULT("backlog", "0") };

RI_PROVIDER(vp_default) = { .size = sizeof(struct ri_provider),
                            .abi_major = RI_ABI_MAJOR,
                            .name = "default",
                            .privileged = &privileged,
                            .user = &user,
                            .options = options,
                            .option_count = 1 };

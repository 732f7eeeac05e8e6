/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor without a name. */
#include "rnicpi.h"

static const struct ri_privileged_ops privileged = { .size = sizeof(privileged),
                                                     .abi_major = RI_ABI_MAJOR };
static const struct ri_user_ops user = { .size = sizeof(user), .abi_major = RI_ABI_MAJOR };

RI_PROVIDER(vp_noname) = { .size = sizeof(struct ri_provider),
                           .abi_major = RI_ABI_MAJOR,
                           .privileged = &privileged,
                           .user = &user };

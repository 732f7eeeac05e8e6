/* SPDX-License-Identifier: BSD-3-Clause */
/* Needs a symbol that nobody has: the dynamic linker refuses it. */
#include "rnicpi.h"

extern const struct ri_privileged_ops ital_test_nobody_defines_this;

RI_PROVIDER(vp_undefined) = { .size = sizeof(struct ri_provider),
                              .abi_major = RI_ABI_MAJOR,
                              .name = "undefined",
                              .privileged = &ital_test_nobody_defines_this };

/* SPDX-License-Identifier: BSD-3-Clause
 * libhns.so.1: programs that use hns adapters can be loaded, and find none. */
#include "verbs/refuse.h"

/* The answer is false, not an error: no device here is an hns adapter. */
VB_PUBLIC bool hnsdv_is_supported(void);
VB_PUBLIC bool hnsdv_is_supported(void)
{
    return false;
}

/* clang-format off */
VB_REFUSE_NULL(hnsdv_create_qp)
VB_REFUSE_ERROR(hnsdv_query_device)

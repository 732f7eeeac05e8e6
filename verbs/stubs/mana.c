/* SPDX-License-Identifier: BSD-3-Clause
 * libmana.so.1: programs that use mana adapters can be loaded, and find none. */
#include "verbs/refuse.h"

/* clang-format off */
VB_REFUSE_NULL(manadv_alloc_pd)
VB_REFUSE_ERROR(manadv_init_obj)
VB_REFUSE_ERROR(manadv_set_context_attr)

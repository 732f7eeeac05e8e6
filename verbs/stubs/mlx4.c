/* SPDX-License-Identifier: BSD-3-Clause
 * libmlx4.so.1: programs that use mlx4 adapters can be loaded, and find none. */
#include "verbs/refuse.h"

/* clang-format off */
VB_REFUSE_NULL(mlx4dv_create_qp)
VB_REFUSE_ERROR(mlx4dv_init_obj)
VB_REFUSE_ERROR(mlx4dv_query_device)
VB_REFUSE_ERROR(mlx4dv_set_context_attr)

/* SPDX-License-Identifier: BSD-3-Clause
 * libefa.so.1: programs that use EFA adapters can be loaded, and find none. */
#include "verbs/refuse.h"

/* clang-format off */
VB_REFUSE_NULL(efadv_cq_from_ibv_cq_ex)
VB_REFUSE_NULL(efadv_create_comp_cntr)
VB_REFUSE_NULL(efadv_create_cq)
VB_REFUSE_NULL(efadv_create_driver_qp)
VB_REFUSE_NULL(efadv_create_qp_ex)
VB_REFUSE_NEGATIVE(efadv_get_max_rq_depth)
VB_REFUSE_NEGATIVE(efadv_get_max_sq_depth)
VB_REFUSE_NULL(efadv_qp_from_ibv_qp_ex)
VB_REFUSE_ERROR(efadv_query_ah)
VB_REFUSE_ERROR(efadv_query_cq)
VB_REFUSE_ERROR(efadv_query_device)
VB_REFUSE_ERROR(efadv_query_mr)
VB_REFUSE_ERROR(efadv_query_qp_wqs)

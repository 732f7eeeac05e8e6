/* SPDX-License-Identifier: BSD-3-Clause
 * Calls as they were in libibverbs 1.0, whose structures had another layout: they are refused, as
 * no program that was linked after 2007 asks for them. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "verbs/refuse.h"

/* clang-format off */
VB_REFUSE_OLD(VB_REFUSE_VOID, ibv_ack_async_event, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_VOID, ibv_ack_cq_events, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_alloc_pd, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_attach_mcast, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_close_device, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_create_ah, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_create_cq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_create_qp, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_create_srq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_dealloc_pd, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_dereg_mr, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_destroy_ah, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_destroy_cq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_destroy_qp, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_destroy_srq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_detach_mcast, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_VOID, ibv_free_device_list, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_MINUS, ibv_get_async_event, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_MINUS, ibv_get_cq_event, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ZERO, ibv_get_device_guid, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_get_device_list, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_get_device_name, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_modify_qp, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_modify_srq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_open_device, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_query_device, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_MINUS, ibv_query_gid, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_MINUS, ibv_query_pkey, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_query_port, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_query_qp, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_query_srq, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_NULL, ibv_reg_mr, IBVERBS_1.0)
VB_REFUSE_OLD(VB_REFUSE_ERROR, ibv_resize_cq, IBVERBS_1.0)

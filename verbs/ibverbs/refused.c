/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of libibverbs, each refused where no other file has it: see refuse.h. */
#include "verbs/optional.h"
#include "verbs/refuse.h"

#include "ual_report.h"

int vb_refused(const char *call, atomic_bool *told)
{
    static const char old[] = "_old"; /* VB_REFUSE_OLD */
    size_t length = strlen(call);

    if (atomic_exchange_explicit(told, true, memory_order_relaxed)) {
        /* it was said */
    } else if (length > strlen(old) && !strcmp(call + length - strlen(old), old)) {
        ual_log(RI_LOG_WARNING,
                "%.*s of the library's first version is not supported; link the program anew",
                (int)(length - strlen(old)), call);
    } else {
        ual_log(vb_is_optional(call) ? RI_LOG_INFO : RI_LOG_WARNING, "%s is not supported", call);
    }
    errno = EOPNOTSUPP;
    return EOPNOTSUPP;
}

/* clang-format off */
VB_REFUSE_ERROR(_ibv_query_comp_cntr_caps)
VB_REFUSE_ERROR(_ibv_query_gid_ex)
VB_REFUSE(long, _ibv_query_gid_table, -error)
VB_REFUSE_VOID(ibv_ack_async_event)
VB_REFUSE_VOID(ibv_ack_cq_events)
VB_REFUSE_NULL(ibv_alloc_buf)
VB_REFUSE_NULL(ibv_alloc_dmah)
VB_REFUSE_NULL(ibv_alloc_pd)
VB_REFUSE_ERROR(ibv_attach_mcast)
VB_REFUSE_ERROR(ibv_close_device)
VB_REFUSE_VOID(ibv_copy_ah_attr_from_kern)
VB_REFUSE_VOID(ibv_copy_path_rec_from_kern)
VB_REFUSE_VOID(ibv_copy_path_rec_to_kern)
VB_REFUSE_VOID(ibv_copy_qp_attr_from_kern)
VB_REFUSE_NULL(ibv_create_ah)
VB_REFUSE_NULL(ibv_create_ah_from_wc)
VB_REFUSE_NULL(ibv_create_comp_channel)
VB_REFUSE_NULL(ibv_create_comp_cntr)
VB_REFUSE_NULL(ibv_create_cq)
VB_REFUSE_NULL(ibv_create_qp)
VB_REFUSE_NULL(ibv_create_srq)
VB_REFUSE_ERROR(ibv_dealloc_dmah)
VB_REFUSE_ERROR(ibv_dealloc_pd)
VB_REFUSE_ERROR(ibv_dereg_mr)
VB_REFUSE_ERROR(ibv_destroy_ah)
VB_REFUSE_ERROR(ibv_destroy_comp_channel)
VB_REFUSE_ERROR(ibv_destroy_comp_cntr)
VB_REFUSE_ERROR(ibv_destroy_cq)
VB_REFUSE_ERROR(ibv_destroy_qp)
VB_REFUSE_ERROR(ibv_destroy_srq)
VB_REFUSE_ERROR(ibv_detach_mcast)
VB_REFUSE_MINUS(ibv_dm_export_dmabuf_fd)
VB_REFUSE_ERROR(ibv_dofork_range)
VB_REFUSE_ERROR(ibv_dontfork_range)
VB_REFUSE_NULL(ibv_event_type_str)
VB_REFUSE_MINUS(ibv_export_buf_dmabuf_fd)
VB_REFUSE_ERROR(ibv_fork_init)
VB_REFUSE_VOID(ibv_free_buf)
VB_REFUSE_VOID(ibv_free_device_list)
VB_REFUSE_MINUS(ibv_get_async_event)
VB_REFUSE_MINUS(ibv_get_cq_event)
VB_REFUSE_ZERO(ibv_get_device_guid)
VB_REFUSE_MINUS(ibv_get_device_index)
VB_REFUSE_NULL(ibv_get_device_list)
VB_REFUSE_NULL(ibv_get_device_name)
VB_REFUSE_MINUS(ibv_get_pkey_index)
VB_REFUSE_NULL(ibv_get_sysfs_path)
VB_REFUSE_NULL(ibv_import_device)
VB_REFUSE_NULL(ibv_import_dm)
VB_REFUSE_NULL(ibv_import_mr)
VB_REFUSE_NULL(ibv_import_pd)
VB_REFUSE_ERROR(ibv_inc_comp_cntr)
VB_REFUSE_ERROR(ibv_inc_err_comp_cntr)
VB_REFUSE_MINUS(ibv_init_ah_from_wc)
VB_REFUSE_ZERO(ibv_is_fork_initialized)
VB_REFUSE_ERROR(ibv_modify_qp)
VB_REFUSE_ERROR(ibv_modify_srq)
VB_REFUSE_NULL(ibv_node_type_str)
VB_REFUSE_NULL(ibv_open_device)
VB_REFUSE_NULL(ibv_port_state_str)
VB_REFUSE_ERROR(ibv_qp_attach_comp_cntr)
VB_REFUSE_NULL(ibv_qp_to_qp_ex)
VB_REFUSE_ERROR(ibv_query_device)
VB_REFUSE_ERROR(ibv_query_ece)
VB_REFUSE_MINUS(ibv_query_gid)
VB_REFUSE_MINUS(ibv_query_pkey)
VB_REFUSE_ERROR(ibv_query_port)
VB_REFUSE_ERROR(ibv_query_port_speed)
VB_REFUSE_ERROR(ibv_query_qp)
VB_REFUSE_ZERO(ibv_query_qp_data_in_order)
VB_REFUSE_ERROR(ibv_query_srq)
VB_REFUSE_ZERO(ibv_rate_to_mbps)
VB_REFUSE_ZERO(ibv_rate_to_mult)
VB_REFUSE_ERROR(ibv_read_comp_cntr)
VB_REFUSE_ERROR(ibv_read_err_comp_cntr)
VB_REFUSE_MINUS(ibv_read_sysfs_file)
VB_REFUSE_NULL(ibv_reg_buf_mr)
VB_REFUSE_NULL(ibv_reg_dmabuf_mr)
VB_REFUSE_NULL(ibv_reg_mr)
VB_REFUSE_NULL(ibv_reg_mr_ex)
VB_REFUSE_NULL(ibv_reg_mr_iova)
VB_REFUSE_NULL(ibv_reg_mr_iova2)
VB_REFUSE_VOID(ibv_register_driver)
VB_REFUSE_ERROR(ibv_rereg_mr)
VB_REFUSE_ERROR(ibv_resize_cq)
VB_REFUSE_ERROR(ibv_resolve_eth_l2_from_gid)
VB_REFUSE_ERROR(ibv_set_comp_cntr)
VB_REFUSE_ERROR(ibv_set_ece)
VB_REFUSE_ERROR(ibv_set_err_comp_cntr)
VB_REFUSE_VOID(ibv_unimport_dm)
VB_REFUSE_VOID(ibv_unimport_mr)
VB_REFUSE_VOID(ibv_unimport_pd)
VB_REFUSE_NULL(ibv_wc_status_str)
VB_REFUSE_ZERO(mbps_to_ibv_rate)
VB_REFUSE_ZERO(mult_to_ibv_rate)

/* SPDX-License-Identifier: BSD-3-Clause
 * Operations of a context that the device does not offer: they fail with EOPNOTSUPP. */
#include "ibverbs_private.h"
#include "verbs/refuse.h"

/* The functions ignore their parameters, so all have one type. */
#define REFUSE(name, type, value)                    \
    static type refuse_##name(void)                  \
    {                                                \
        static atomic_bool told;                     \
        int error = vb_refused("ibv_" #name, &told); \
                                                     \
        (void)error;                                 \
        return value;                                \
    }
#define REFUSE_ERROR(name) REFUSE(name, int, error)
#define REFUSE_NULL(name)  REFUSE(name, void *, NULL)

/* clang-format off */
REFUSE_NULL(alloc_null_mr)
REFUSE_ERROR(read_counters)
REFUSE_ERROR(attach_counters_point_flow)
REFUSE_NULL(create_counters)
REFUSE_ERROR(destroy_counters)
REFUSE_ERROR(modify_flow_action_esp)
REFUSE_ERROR(destroy_flow_action)
REFUSE_NULL(create_flow_action_esp)
REFUSE_ERROR(modify_qp_rate_limit)
REFUSE_ERROR(modify_cq)
REFUSE_ERROR(destroy_rwq_ind_table)
REFUSE_NULL(create_rwq_ind_table)
REFUSE_ERROR(destroy_wq)
REFUSE_ERROR(modify_wq)
REFUSE_NULL(create_wq)
REFUSE_ERROR(destroy_flow)
REFUSE_NULL(create_flow)
REFUSE_NULL(open_qp)
REFUSE_NULL(open_xrcd)
REFUSE_ERROR(close_xrcd)
/* clang-format on */

static int refuse_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
    static atomic_bool told;

    (void)srq;
    *bad_op = op;
    return vb_refused("ibv_post_srq_ops", &told);
}

/* void (*)(void) stands for any function type. */
#define SET_AS(member, name) \
    (verbs->member = (__typeof__(verbs->member))(void (*)(void))refuse_##name)
#define SET(name) SET_AS(name, name)

void vb_refuse_operations(struct verbs_context *verbs)
{
    SET(alloc_null_mr);
    SET(read_counters);
    SET(attach_counters_point_flow);
    SET(create_counters);
    SET(destroy_counters);
    SET(modify_flow_action_esp);
    SET(destroy_flow_action);
    SET(create_flow_action_esp);
    SET(modify_qp_rate_limit);
    SET(modify_cq);
    SET(destroy_rwq_ind_table);
    SET(create_rwq_ind_table);
    SET(destroy_wq);
    SET(modify_wq);
    SET(create_wq);
    SET_AS(ibv_destroy_flow, destroy_flow);
    SET_AS(ibv_create_flow, create_flow);
    SET(open_qp);
    SET(open_xrcd);
    SET(close_xrcd);
    verbs->post_srq_ops = refuse_srq_ops;
}

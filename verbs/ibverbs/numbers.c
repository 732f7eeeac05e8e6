/* SPDX-License-Identifier: BSD-3-Clause
 * Connections by numbers: not built yet. QPs get a number, and RTR is refused. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ibverbs_private.h"

static int take(struct vb_context *context, struct vb_qp *qp, uint32_t *number)
{
    (void)context;
    (void)qp;
    return vb_number_take(number);
}

static void give_back(struct vb_context *context, struct vb_qp *qp, uint32_t number)
{
    (void)context;
    (void)qp;
    vb_number_give_back(number);
}

static int modify(void *context, struct vb_qp *qp, enum ibv_qp_state to,
                  const struct ibv_qp_attr *attr, int mask)
{
    (void)context;
    (void)qp;
    (void)attr;
    (void)mask;
    if (to != IBV_QPS_RTR && to != IBV_QPS_RTS)
        return 0;
    ual_log(RI_LOG_WARNING, "ibv_modify_qp: connections without rdma_cm are not built");
    return EOPNOTSUPP;
}

const struct vb_numbers vb_numbers = {
    .take = take,
    .give_back = give_back,
    .connector = { .modify = modify },
};

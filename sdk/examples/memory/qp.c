/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs: what UD QPs have beside those of reliable connections (rnicpi_set_a_rc.h). */
#include "memory.h"

enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct ri_qp_attr given = *attr;
    struct ri_qp *qp;
    enum ri_status status;

    if (attr->type == RI_QP_UD && (attr->qkey & CONTROLLED_QKEY))
        return RI_ERR_PERMISSION;
    status = ri_rc_qp_create(pd, &given, &qp);
    if (status == RI_OK && attr->type == RI_QP_UD) {
        status = mailbox_open((struct qp *)qp);
        if (status != RI_OK)
            ri_rc_qp_destroy(qp);
    }
    if (status != RI_OK)
        return status;
    *attr = given;
    *out = qp;
    return RI_OK;
}

static enum ri_status change_state(struct ri_mem_qp *qp, enum ri_qp_state state)
{
    if (qp->type != RI_QP_UD || state != RI_QPS_RTS)
        return ri_rc_qp_change(qp, state);
    if (qp->state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    qp->state = RI_QPS_RTS;
    return RI_OK;
}

enum ri_status vp_qp_modify(struct ri_qp *ri_qp, const struct ri_qp_modify *modify)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)ri_qp;
    uint32_t known = RI_QPM_STATE | (qp->type == RI_QP_UD ? RI_QPM_QKEY : 0);
    enum ri_status status = RI_OK;

    if (modify->mask & ~known)
        return RI_ERR_NOT_SUPPORTED;
    if ((modify->mask & RI_QPM_QKEY) && (modify->qkey & CONTROLLED_QKEY))
        return RI_ERR_PERMISSION;
    pthread_mutex_lock(&qp->rnic->lock);
    if (modify->mask & RI_QPM_QKEY)
        qp->qkey = modify->qkey;
    if (modify->mask & RI_QPM_STATE)
        status = change_state(qp, modify->state);
    ri_mem_report(qp);
    return status;
}

enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;
    pthread_mutex_t *lock = &qp->rc.qp.rnic->lock;

    pthread_mutex_lock(lock);
    mailbox_close(qp);
    pthread_mutex_unlock(lock);
    return ri_rc_qp_destroy(base);
}

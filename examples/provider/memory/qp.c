/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs: their states, their end. */
#include "memory.h"

#include <stdlib.h>

enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct qp *qp = calloc(1, sizeof(*qp));
    enum ri_status status = RI_ERR_NO_RESOURCES;
    struct ri_qp_attr given = *attr;

    if (qp)
        status = ri_mem_qp_open(&qp->rc.qp, (struct ri_mem_pd *)pd, &given);
    if (status == RI_OK && attr->type == RI_QP_UD) {
        status = mailbox_open(qp);
        if (status != RI_OK)
            ri_mem_qp_close(&qp->rc.qp);
    }
    if (status != RI_OK) {
        free(qp);
        return status;
    }
    qp->rc.put = rc_put;
    qp->rc.end = rc_end;
    *attr = given;
    *out = &qp->rc.qp.base;
    return RI_OK;
}

/* The connection verbs bring an RC QP to RTS and end its connection. */
static enum ri_status change_state(struct qp *qp, enum ri_qp_state state)
{
    struct ri_mem_qp *base = &qp->rc.qp;

    switch (state) {
    case RI_QPS_ERROR:
        if (base->connection && base->state == RI_QPS_RTS)
            ri_set_a_end(base->connection, 0, 0, false);
        ri_mem_qp_end(base, 0, 0, false);
        return RI_OK;
    case RI_QPS_IDLE: ri_rc_reset(&qp->rc); return ri_mem_qp_idle(base);
    case RI_QPS_RTS:
        if (base->type != RI_QP_UD)
            return RI_ERR_NOT_SUPPORTED;
        if (base->state != RI_QPS_IDLE)
            return RI_ERR_INVALID_STATE;
        base->state = RI_QPS_RTS;
        return RI_OK;
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

enum ri_status vp_qp_modify(struct ri_qp *ri_qp, const struct ri_qp_modify *modify)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)ri_qp;
    uint32_t known = RI_QPM_STATE | (qp->type == RI_QP_UD ? RI_QPM_QKEY : 0);
    enum ri_status status = RI_OK;

    if (modify->mask & ~known)
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&qp->rnic->lock);
    if (modify->mask & RI_QPM_QKEY)
        qp->qkey = modify->qkey;
    if (modify->mask & RI_QPM_STATE)
        status = change_state((struct qp *)qp, modify->state);
    ri_mem_report(qp);
    return status;
}

/* The peer reads what is in its ring, then sees the end. */
enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;
    struct ri_mem_rnic *rnic = qp->rc.qp.rnic;

    pthread_mutex_lock(&rnic->lock);
    ri_set_a_part(&qp->rc.qp);
    mailbox_close(qp);
    pthread_mutex_unlock(&rnic->lock);
    ri_mem_qp_close(&qp->rc.qp);
    free(qp);
    return RI_OK;
}

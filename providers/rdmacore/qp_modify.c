/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: modify and query. numbers.c has what is connected by numbers.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <string.h>

/* The device's QP has a new number, which identifies receives of an SRQ. ENOMEM: the number is not
 * changed; the next exchange tries again. */
static int exchange(struct qp *qp, struct ibv_qp *fresh)
{
    struct cq *cq = qp->recv_cq;
    bool told = true;

    spinlock_lock(&qp->sq.lock);
    spinlock_lock(&qp->rq.lock);
    spinlock_lock(&cq->lock);
    qp_unindex(qp);
    qp->ibv = fresh;
    qp->number = fresh->qp_num;
    if (qp->srq)
        told = qp_index(qp);
    spinlock_unlock(&cq->lock);
    spinlock_unlock(&qp->rq.lock);
    spinlock_unlock(&qp->sq.lock);
    return told ? 0 : ENOMEM;
}

/*
 * A new QP of the device replaces the old one. Some drivers let no QP leave the error state, and a
 * peer may still associate the old number with the old connection (IB's time wait). Completions of
 * the old QP are saved first, because its library may remove them from the CQ with the QP.
 */
static enum ri_status rewind(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;
    enum ri_qp_state state = qp_state(qp);
    struct ibv_qp *old = qp->ibv, *fresh = NULL;
    int error = 0;

    if (state != RI_QPS_ERROR && state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    /* A UD QP keeps its number, which peers use; the device drops its requests. */
    if (!qp->datagram)
        error = qp_create_ibv(qp, &fresh);
    if (error)
        return rdmacore_status(error);
    rnic->host->timer_cancel(rnic->host, rnic->lane.base.context, &qp->sweep);
    qp_set_state(qp, RI_QPS_ERROR); /* requests posted meanwhile are flushed, too */
    cq_drain(qp->send_cq, NULL);
    cq_drain(qp->recv_cq, NULL);
    if (fresh) {
        error = exchange(qp, fresh);
        rdmacore->destroy_qp(old);
        rdmacore_windows_leave(qp);
    } else {
        error = qp_to_state(qp, IBV_QPS_RESET);
    }
    qp_flush(qp);
    if (!error)
        error = qp_to_init(qp, qp->port);
    if (error)
        return rdmacore_status(error);
    atomic_store(&qp->failing, false);
    atomic_store(&qp->cut, false);
    atomic_store(&qp->filler_status, 0);
    qp_set_state(qp, RI_QPS_IDLE);
    return RI_OK;
}

static enum ri_status to(struct qp *qp, const struct ri_qp_modify *modify)
{
    switch (modify->state) {
    case RI_QPS_IDLE: return rewind(qp);
    case RI_QPS_RTS: return qp->datagram ? datagram_start(qp) : RI_ERR_NOT_SUPPORTED;
    case RI_QPS_ERROR:
        qp_to_error(qp);
        qp_notify_peer(qp);
        return RI_OK;
    /* disconnect leads to CLOSING, connect and accept lead to RTS */
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

static enum ri_status change_access(struct qp *qp, uint32_t flags)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    uint32_t before = qp->flags;
    int error = 0;

    if (qp->datagram) /* for datagrams only */
        return flags ? RI_ERR_INVALID_ARGUMENT : RI_OK;
    qp->flags = flags;
    attr.qp_access_flags = (unsigned int)qp_access(qp);
    if (atomic_load(&qp->state) == RI_QPS_RTS) {
        if (qp->rnic->iwarp)
            error = EOPNOTSUPP;
        else
            error = rdmacore_errno(
                rdmacore->modify_qp(qp->ibv, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
    } else if (atomic_load(&qp->state) == RI_QPS_IDLE) {
        error = qp_to_init(qp, 1);
    }
    if (error)
        qp->flags = before;
    return rdmacore_status(error);
}

/* The read depths that connect and accept will request. On a connection the device cannot change
 * them; requesting less than it has is harmless. */
static enum ri_status change_depths(struct qp *qp, const struct ri_qp_modify *modify)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;
    uint32_t ird = modify->mask & RI_QPM_IRD ? modify->ird : qp->ird;
    uint32_t ord = modify->mask & RI_QPM_ORD ? modify->ord : qp->ord;

    if (ird > limits->max_ird || ord > limits->max_ord)
        return RI_ERR_LIMIT;
    if (atomic_load(&qp->state) == RI_QPS_RTS && (ird != qp->ird || ord > qp->ord))
        return RI_ERR_NOT_SUPPORTED;
    qp->ird = ird;
    qp->ord = ord;
    return RI_OK;
}

enum ri_status rdmacore_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = container_of(base, struct qp, base);
    const uint32_t known = RI_QPM_STATE | RI_QPM_ORD | RI_QPM_IRD | RI_QPM_FLAGS |
                           (uint32_t)(qp->datagram ? RI_QPM_QKEY : 0);
    enum ri_status status = RI_OK;

    if (numbers_takes(qp, modify))
        return numbers_modify(qp, modify);
    if (modify->mask & ~known)
        return RI_ERR_NOT_SUPPORTED;
    if (modify->mask & (RI_QPM_IRD | RI_QPM_ORD))
        status = change_depths(qp, modify);
    if (status == RI_OK && (modify->mask & RI_QPM_FLAGS))
        status = change_access(qp, modify->flags);
    if (status == RI_OK && (modify->mask & RI_QPM_QKEY))
        status = datagram_set_qkey(qp, modify->qkey);
    if (status == RI_OK && (modify->mask & RI_QPM_STATE))
        status = to(qp, modify);
    return status;
}

enum ri_status rdmacore_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct ri_qp_info filled = {
        .state = qp_state(qp),
        .qpn = qp->number,
        .max_send_wr = qp->sq.size,
        .max_recv_wr = qp->srq ? 0 : qp->rq.size,
        .max_send_sge = qp->max_send_sge,
        .max_recv_sge = qp->max_recv_sge,
        .max_read_sge = qp->max_read_sge,
        .max_write_sge = qp->max_write_sge,
        .ird = qp->ird,
        .ord = qp->ord,
        .flags = qp->flags,
    };

    if (qp->numbered)
        numbers_query(qp, &filled);
    return ri_sized_copy(info, &filled, sizeof(filled)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs: what they are made of, their states, their end. */
#include "memory.h"

#include <stdlib.h>
#include <sys/random.h>

/* The event that a QP has to tell, and the completions of its end. */
static bool qp_tell(struct teller *teller)
{
    struct qp *qp = (struct qp *)((char *)teller - offsetof(struct qp, teller));
    struct rnic *rnic = qp->rnic;
    const struct ri_event event = qp->event;

    qp->event.type = 0;
    if (event.type) {
        pthread_mutex_unlock(&rnic->lock);
        rnic->host->qp_event(rnic->host, qp->base.context, &event);
        pthread_mutex_lock(&rnic->lock);
    }
    report(qp);
    pthread_mutex_lock(&rnic->lock);
    return false;
}

void qp_end(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    qp->state = RI_QPS_ERROR;
    flush(qp);
    qp->event = (struct ri_event){
        .size = sizeof(qp->event), .type = type, .terminate_code = code, .explained = explained
    };
    tell_later(qp->rnic, &qp->teller);
}

static enum ri_status check_qp(const struct ri_qp_attr *attr)
{
    if ((attr->type != RI_QP_RC && attr->type != RI_QP_UD) || attr->srq ||
        (attr->flags & RI_QP_PRIVILEGED))
        return RI_ERR_NOT_SUPPORTED;
    if (attr->type == RI_QP_UD && attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_send_wr > MAX_WR || attr->max_recv_wr > MAX_WR || attr->max_send_sge > MAX_SGE ||
        attr->max_recv_sge > MAX_SGE || attr->max_read_sge > 1 || attr->max_write_sge > MAX_SGE ||
        attr->max_inline || attr->ird > MAX_DEPTH || attr->ord > MAX_DEPTH)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static void qp_free(struct qp *qp)
{
    queue_close(&qp->send);
    queue_close(&qp->receive);
    count_object(qp->rnic, QPS, -1);
    free(qp);
}

static enum ri_status qp_fill(struct qp *qp, struct ri_qp_attr *attr)
{
    attr->max_send_wr += !attr->max_send_wr;
    attr->max_recv_wr += !attr->max_recv_wr;
    if (getrandom(&qp->number, sizeof(qp->number), 0) != sizeof(qp->number) ||
        !queue_open(&qp->send, qp, attr->send_cq, attr->max_send_wr, false) ||
        !queue_open(&qp->receive, qp, attr->recv_cq, attr->max_recv_wr, true))
        return RI_ERR_NO_RESOURCES;
    qp->number = (qp->number & 0xffffff) | 2; /* 0 and 1 are InfiniBand's own */
    attr->max_send_sge = attr->max_recv_sge = attr->max_write_sge = MAX_SGE;
    attr->max_read_sge = 1;
    return qp->type == RI_QP_UD ? mailbox_open(qp) : RI_OK;
}

enum ri_status vp_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    enum ri_status status = check_qp(attr);
    struct ri_qp_attr given = *attr;
    struct qp *qp;

    if (status != RI_OK)
        return status;
    qp = calloc(1, sizeof(*qp));
    if (!qp || !count_object(((struct pd *)base)->rnic, QPS, 1)) {
        free(qp);
        return RI_ERR_NO_RESOURCES;
    }
    qp->pd = (struct pd *)base;
    qp->rnic = qp->pd->rnic;
    qp->base = (struct ri_qp){ qp->rnic->user, attr->context };
    qp->teller.tell = qp_tell;
    qp->type = attr->type;
    qp->flags = attr->flags;
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    qp->qkey = attr->qkey;
    status = qp_fill(qp, &given);
    if (status != RI_OK) {
        qp_free(qp);
        return status;
    }
    *attr = given;
    pthread_mutex_lock(&qp->rnic->lock);
    ((struct cq *)attr->send_cq)->queues++;
    ((struct cq *)attr->recv_cq)->queues++;
    qp->pd->users++;
    pthread_mutex_unlock(&qp->rnic->lock);
    *out = &qp->base;
    return RI_OK;
}

enum ri_status vp_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = (struct qp *)base;
    struct ri_qp_info now = { .qpn = qp->number,
                              .max_send_wr = qp->send.ring.depth,
                              .max_recv_wr = qp->receive.ring.depth,
                              .max_send_sge = MAX_SGE,
                              .max_recv_sge = MAX_SGE,
                              .max_read_sge = 1,
                              .max_write_sge = MAX_SGE,
                              .flags = qp->flags };

    pthread_mutex_lock(&qp->rnic->lock);
    now.state = qp->state;
    now.ird = qp->ird;
    now.ord = qp->ord;
    pthread_mutex_unlock(&qp->rnic->lock);
    return ri_sized_copy(info, &now, sizeof(now)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* The connection verbs bring an RC QP to RTS and end its connection. */
static enum ri_status change_state(struct qp *qp, enum ri_qp_state state)
{
    switch (state) {
    case RI_QPS_ERROR:
        if (qp->connection && qp->state == RI_QPS_RTS)
            connection_end(qp->connection, 0, 0, false);
        qp->state = RI_QPS_ERROR;
        flush(qp);
        return RI_OK;
    case RI_QPS_IDLE:
        if (qp->state == RI_QPS_RTS)
            return RI_ERR_INVALID_STATE;
        flush(qp);
        qp->reads = qp->answer_count = 0;
        qp->state = RI_QPS_IDLE;
        free_uncovered(&qp->send);
        return RI_OK;
    case RI_QPS_RTS:
        if (qp->type != RI_QP_UD)
            return RI_ERR_NOT_SUPPORTED;
        if (qp->state != RI_QPS_IDLE)
            return RI_ERR_INVALID_STATE;
        qp->state = RI_QPS_RTS;
        return RI_OK;
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;
    uint32_t known = RI_QPM_STATE | (qp->type == RI_QP_UD ? RI_QPM_QKEY : 0);

    if (modify->mask & ~known)
        return RI_ERR_NOT_SUPPORTED;
    pthread_mutex_lock(&qp->rnic->lock);
    if (modify->mask & RI_QPM_QKEY)
        qp->qkey = modify->qkey;
    if (modify->mask & RI_QPM_STATE)
        status = change_state(qp, modify->state);
    report(qp);
    return status;
}

/* The peer reads what is in its ring, then sees the end. */
enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;
    struct rnic *rnic = qp->rnic;

    pthread_mutex_lock(&rnic->lock);
    ((struct cq *)qp->send.source.cq)->queues--;
    ((struct cq *)qp->receive.source.cq)->queues--;
    if (qp->connection && qp->state == RI_QPS_RTS)
        connection_end(qp->connection, 0, 0, false);
    if (qp->connection)
        qp->connection->qp = NULL;
    forget(rnic, &qp->teller, NULL);
    mailbox_close(qp);
    qp->pd->users--;
    pthread_mutex_unlock(&rnic->lock);
    qp_free(qp);
    return RI_OK;
}

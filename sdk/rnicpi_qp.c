/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs in memory: life, events, posts. See rnicpi_mem.h. */
#include "rnicpi_mem.h"
#include "rnicpi_util.h"

/* ---- what is reported ---- */

/* Why a connection broke, for whoever reads the log. */
static const char *const reasons[] = {
    [RI_EVENT_LLP_CLOSED_BUSY] = "the peer closed the connection while requests were outstanding",
    [RI_EVENT_LLP_RESET] = "the peer ended the connection",
    [RI_EVENT_LLP_LOST] = "the peer does not answer any more",
    [RI_EVENT_TERMINATE_RECEIVED] = "the peer refused what this side sent",
    [RI_EVENT_INTEGRITY] = "what the peer sent is damaged",
    [RI_EVENT_REMOTE_OPERATION] = "the peer sent what the protocol does not allow",
    [RI_EVENT_BAD_OPCODE] = "the peer sent an unknown operation",
    [RI_EVENT_NO_RECEIVE] = "a Send came and no receive was posted",
    [RI_EVENT_WRITE_ACCESS] = "the peer may not write there",
    [RI_EVENT_READ_ACCESS] = "the peer may not read there",
    [RI_EVENT_RECV_ACCESS] = "a receive has memory that may not be written",
    [RI_EVENT_RECV_LENGTH] = "a message is longer than the receive",
    [RI_EVENT_INVALIDATE_ACCESS] = "the peer invalidated what it may not",
    [RI_EVENT_RESPONSE_ERROR] = "an answer does not fit its request",
    [RI_EVENT_QP_FATAL] = "the device cannot go on with this queue pair",
    [RI_EVENT_QP_OVERFLOW] = "a completion queue was full",
};

static const char *reason_of(enum ri_event_type type)
{
    return (size_t)type < sizeof(reasons) / sizeof(reasons[0]) ? reasons[type] : NULL;
}

/* One event, or the completions of an end. */
static bool qp_report(struct ri_deferred *deferred)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)((char *)deferred -
                                                offsetof(struct ri_mem_qp, deferred));
    struct ri_mem_rnic *rnic = qp->rnic;
    const struct ri_event event = qp->events[0];

    if (qp->event_count) {
        qp->events[0] = qp->events[1];
        qp->event_count--;
        pthread_mutex_unlock(&rnic->lock);
        rnic->host->qp_event(rnic->host, qp->base.context, &event);
        pthread_mutex_lock(&rnic->lock);
    }
    ri_mem_report(qp);
    pthread_mutex_lock(&rnic->lock);
    return qp->event_count;
}

void ri_mem_qp_note(struct ri_mem_qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    if (qp->event_count < 2)
        qp->events[qp->event_count++] = (struct ri_event){ .size = sizeof(struct ri_event),
                                                           .type = type,
                                                           .terminate_code = code,
                                                           .explained = explained,
                                                           .detail = reason_of(type) };
    ri_upcall_defer(&qp->rnic->upcalls, &qp->deferred);
}

/* The CQ may be gone when it returns. */
static void deliver(struct ri_mem_rnic_cq *cq)
{
    ri_cq_deliver(&cq->mem);
    atomic_fetch_sub(&cq->reports, 1);
}

void ri_mem_report(struct ri_mem_qp *qp)
{
    struct ri_mem_rnic_cq *send = (struct ri_mem_rnic_cq *)qp->send.source.cq;
    struct ri_mem_rnic_cq *receive = (struct ri_mem_rnic_cq *)qp->receive.source.cq;

    atomic_fetch_add(&send->reports, 1);
    atomic_fetch_add(&receive->reports, 1);
    ri_cq_collect(&qp->send.source);
    ri_cq_collect(&qp->receive.source);
    pthread_mutex_unlock(&qp->rnic->lock);
    deliver(send);
    deliver(receive);
}

void ri_mem_report_later(struct ri_mem_qp *qp)
{
    ri_upcall_defer(&qp->rnic->upcalls, &qp->deferred);
}

/* ---- states ---- */

void ri_mem_qp_end(struct ri_mem_qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    bool first = qp->state != RI_QPS_ERROR;

    qp->state = RI_QPS_ERROR;
    ri_queue_flush(&qp->send);
    ri_queue_flush(&qp->receive);
    if (first && type)
        ri_mem_qp_note(qp, type, code, explained);
    else
        ri_mem_report_later(qp);
}

enum ri_status ri_mem_qp_idle(struct ri_mem_qp *qp)
{
    if (qp->state != RI_QPS_ERROR && qp->state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    ri_queue_flush(&qp->send);
    ri_queue_flush(&qp->receive);
    qp->state = RI_QPS_IDLE;
    ri_queue_free_uncovered(&qp->send);
    return RI_OK;
}

/* ---- life ---- */

static enum ri_status check(const struct ri_rnic_attr *most, const struct ri_qp_attr *attr)
{
    if (attr->type != RI_QP_RC && (attr->type != RI_QP_UD || !(most->features & RI_FEATURE_UD)))
        return RI_ERR_NOT_SUPPORTED;
    if (attr->srq || (attr->flags & RI_QP_PRIVILEGED))
        return RI_ERR_NOT_SUPPORTED;
    if (attr->type == RI_QP_UD && attr->port >= most->ports)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_send_wr > most->max_send_wr || attr->max_recv_wr > most->max_recv_wr ||
        attr->max_send_sge > most->max_send_sge || attr->max_recv_sge > most->max_recv_sge ||
        attr->max_read_sge > most->max_read_sge || attr->max_write_sge > most->max_write_sge ||
        attr->max_inline || attr->ird > most->max_ird || attr->ord > most->max_ord)
        return RI_ERR_LIMIT;
    return RI_OK;
}

/* The send queue takes what any request may have. */
static uint32_t send_sges(const struct ri_rnic_attr *most)
{
    uint32_t sges = most->max_send_sge > most->max_write_sge ? most->max_send_sge
                                                             : most->max_write_sge;

    return sges > most->max_read_sge ? sges : most->max_read_sge;
}

void ri_mem_qp_renumber(struct ri_mem_qp *qp)
{
    do
        qp->number = qp->rnic->next_qpn++ & 0xffffff;
    while (qp->number < 2);
}

enum ri_status ri_mem_qp_open(struct ri_mem_qp *qp, struct ri_mem_pd *pd, struct ri_qp_attr *attr)
{
    struct ri_mem_rnic *rnic = pd->rnic;
    const struct ri_rnic_attr *most = rnic->attr;
    enum ri_status status = check(most, attr);
    uint32_t send = attr->max_send_wr + !attr->max_send_wr;
    uint32_t receive = attr->max_recv_wr + !attr->max_recv_wr;

    if (status != RI_OK)
        return status;
    if (!ri_mem_count(rnic, RI_MEM_QPS, 1))
        return RI_ERR_NO_RESOURCES;
    status = ri_queue_open(&qp->send, &qp->base, (struct ri_mem_cq *)attr->send_cq, send,
                           send_sges(most), false);
    if (status == RI_OK)
        status = ri_queue_open(&qp->receive, &qp->base, (struct ri_mem_cq *)attr->recv_cq, receive,
                               most->max_recv_sge, true);
    if (status != RI_OK) {
        ri_queue_close(&qp->send);
        ri_mem_count(rnic, RI_MEM_QPS, -1);
        return status;
    }
    qp->base = (struct ri_qp){ rnic->user, attr->context };
    qp->deferred.make = qp_report;
    qp->rnic = rnic;
    qp->pd = pd;
    qp->type = attr->type;
    qp->flags = attr->flags;
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    qp->qkey = attr->qkey;
    attr->max_send_wr = send;
    attr->max_recv_wr = receive;
    attr->max_send_sge = most->max_send_sge;
    attr->max_recv_sge = most->max_recv_sge;
    attr->max_read_sge = most->max_read_sge;
    attr->max_write_sge = most->max_write_sge;
    pthread_mutex_lock(&rnic->lock);
    ri_mem_qp_renumber(qp);
    pd->users++;
    pthread_mutex_unlock(&rnic->lock);
    return RI_OK;
}

void ri_mem_qp_close(struct ri_mem_qp *qp)
{
    struct ri_mem_rnic *rnic = qp->rnic;

    pthread_mutex_lock(&rnic->lock);
    ri_upcall_cancel(&rnic->upcalls, &qp->deferred, NULL);
    qp->pd->users--;
    pthread_mutex_unlock(&rnic->lock);
    ri_queue_close(&qp->send);
    ri_queue_close(&qp->receive);
    ri_mem_count(rnic, RI_MEM_QPS, -1);
}

enum ri_status ri_mem_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    const struct ri_rnic_attr *most = qp->rnic->attr;
    struct ri_qp_info now = { .qpn = qp->number,
                              .max_send_wr = qp->send.ring.depth,
                              .max_recv_wr = qp->receive.ring.depth,
                              .max_send_sge = most->max_send_sge,
                              .max_recv_sge = most->max_recv_sge,
                              .max_read_sge = most->max_read_sge,
                              .max_write_sge = most->max_write_sge,
                              .flags = qp->flags };

    pthread_mutex_lock(&qp->rnic->lock);
    now.state = qp->state;
    now.ird = qp->ird;
    now.ord = qp->ord;
    pthread_mutex_unlock(&qp->rnic->lock);
    return ri_sized_copy(info, &now, sizeof(now)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* ---- posts ---- */

static uint32_t most_sges(const struct ri_rnic_attr *most, uint16_t opcode)
{
    return opcode == RI_WR_RDMA_READ    ? most->max_read_sge
           : opcode == RI_WR_RDMA_WRITE ? most->max_write_sge
                                        : most->max_send_sge;
}

static enum ri_status send_one(struct ri_mem_qp *qp, const struct ri_send_wr *wr)
{
    const struct ri_rnic_attr *most = qp->rnic->attr;
    struct ri_request request = { .cookie = wr->cookie, .opcode = wr->opcode, .flags = wr->flags };
    bool ud = qp->type == RI_QP_UD, send = wr->opcode == RI_WR_SEND;
    uint64_t max_length = ud ? most->max_ud_send : send ? most->max_send : most->max_message;

    if (qp->state == RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if ((!send && (ud || (wr->opcode != RI_WR_RDMA_WRITE && wr->opcode != RI_WR_RDMA_READ))) ||
        (wr->flags & RI_WR_INLINE) || wr->num_sge > most_sges(most, wr->opcode) ||
        (ud && (!wr->ud.ah || ((const struct ri_mem_ah *)wr->ud.ah)->pd != qp->pd)))
        return RI_ERR_INVALID_ARGUMENT;
    if (ud) {
        request.ah = wr->ud.ah;
        request.remote_qpn = wr->ud.remote_qpn;
        request.rkey = wr->ud.remote_qkey;
    } else {
        request.remote_addr = wr->rdma.remote_addr;
        request.rkey = wr->rdma.rkey;
    }
    return ri_queue_put(&qp->send, &request, wr->sg_list, wr->num_sge, max_length);
}

static enum ri_status receive_one(struct ri_mem_qp *qp, const struct ri_recv_wr *wr)
{
    struct ri_request request = { .cookie = wr->cookie, .flags = (uint16_t)wr->flags };

    return ri_queue_put(&qp->receive, &request, wr->sg_list, wr->num_sge,
                        qp->rnic->attr->max_message);
}

/* In the thread that posts. Releases the lock. */
static void posted(struct ri_mem_qp *qp)
{
    if (qp->state == RI_QPS_ERROR || qp->state == RI_QPS_CLOSING) {
        ri_queue_flush(&qp->send);
        ri_queue_flush(&qp->receive);
    } else if (qp->state != RI_QPS_IDLE) {
        qp->rnic->serve(qp);
    }
    ri_mem_report(qp);
}

enum ri_status ri_mem_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = send_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    posted(qp);
    return status;
}

enum ri_status ri_mem_post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct ri_mem_qp *qp = (struct ri_mem_qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = receive_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    posted(qp);
    return status;
}

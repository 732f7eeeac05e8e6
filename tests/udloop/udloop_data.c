/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams inside the process: posts, completions, delivery. The thread that posts a datagram
 * copies it.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "udloop.h"

#include <stdlib.h>
#include <string.h>

static struct mr *regions;
static struct qp *qps;
static uint32_t next_key = 0x100, next_qpn = 17;

void loop_mr_add(struct mr *mr)
{
    mr->lkey = next_key++;
    mr->next = regions;
    regions = mr;
}

void loop_mr_remove(struct mr *mr)
{
    struct mr **at = &regions;

    while (*at != mr)
        at = &(*at)->next;
    *at = mr->next;
}

void loop_qp_add(struct qp *qp)
{
    qp->qpn = next_qpn++;
    qp->next = qps;
    qps = qp;
}

/* No completion of the QP is polled afterwards. */
static void drop_completions(struct cq *cq, const struct qp *qp)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cq->count; i++) {
        if (cq->of[i] == qp)
            continue;
        cq->ring[kept] = cq->ring[i];
        cq->of[kept++] = cq->of[i];
    }
    cq->count = kept;
}

void loop_qp_remove(struct qp *qp)
{
    struct qp **at = &qps;

    while (*at != qp)
        at = &(*at)->next;
    *at = qp->next;
    drop_completions((struct cq *)qp->attr.send_cq, qp);
    drop_completions((struct cq *)qp->attr.recv_cq, qp);
}

/* ---- completions ---- */

void loop_complete(struct qp *qp, struct cq *cq, const struct ri_wc *wc)
{
    struct queued_event queued_event = { .kind = QUEUED_CQ, .about = cq };

    if (cq->count == cq->depth) /* the tests' queues are large enough */
        return;
    cq->of[cq->count] = qp;
    cq->ring[cq->count] = *wc;
    cq->ring[cq->count++].context = qp->base.context;
    if (!cq->armed)
        return;
    cq->armed = false;
    if (!loop_queue(cq->rnic, &queued_event))
        abort(); /* the loss could not be reported */
}

static void complete_receive(struct qp *qp, struct ri_wc *wc)
{
    const struct receive *receive = &qp->receives[qp->first];

    wc->opcode = RI_WC_RECV_DATAGRAM;
    wc->cookie = receive->cookie;
    wc->flags |= receive->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0;
    qp->first = (qp->first + 1) % qp->attr.max_recv_wr;
    qp->count--;
    loop_complete(qp, (struct cq *)qp->attr.recv_cq, wc);
}

void loop_flush(struct qp *qp)
{
    while (qp->count) {
        struct ri_wc wc = { .status = RI_WC_FLUSHED };

        complete_receive(qp, &wc);
    }
}

static void fail(struct qp *qp)
{
    struct queued_event queued_event = { .kind = QUEUED_QP,
                                         .about = qp,
                                         .event = { .size = sizeof(queued_event.event),
                                                    .type = RI_EVENT_LOCAL_ERROR } };

    qp->state = RI_QPS_ERROR;
    loop_flush(qp);
    if (!loop_queue(qp->rnic, &queued_event))
        abort(); /* the loss could not be reported */
}

/* ---- memory ---- */

static const struct mr *region_of(const struct pd *pd, const struct ri_sge *sge, uint32_t access)
{
    const struct mr *mr = regions;

    while (mr && mr->lkey != sge->lkey)
        mr = mr->next;
    return mr && mr->pd == pd && (mr->attr.access & access) == access &&
                   sge->addr >= (uintptr_t)mr->attr.addr &&
                   sge->addr + sge->length <= (uintptr_t)mr->attr.addr + mr->attr.length
               ? mr
               : NULL;
}

static bool memory_ok(const struct pd *pd, const struct ri_sge *sges, uint32_t count,
                      uint32_t access)
{
    for (uint32_t i = 0; i < count; i++)
        if (sges[i].length && !region_of(pd, &sges[i], access))
            return false;
    return true;
}

static uint32_t room(const struct ri_sge *sges, uint32_t count)
{
    uint32_t octets = 0;

    for (uint32_t i = 0; i < count; i++)
        octets += sges[i].length;
    return octets;
}

static void gather(uint8_t *to, const struct ri_sge *sges, uint32_t count)
{
    for (uint32_t i = 0; i < count; to += sges[i++].length)
        if (sges[i].length) /* an empty segment has no address */
            memcpy(to, (const void *)(uintptr_t)sges[i].addr, sges[i].length);
}

static void scatter(const struct ri_sge *sges, const uint8_t *from, uint32_t length)
{
    for (uint32_t i = 0; length; i++) {
        uint32_t part = sges[i].length < length ? sges[i].length : length;

        if (part)
            memcpy((void *)(uintptr_t)sges[i].addr, from, part);
        from += part;
        length -= part;
    }
}

/* ---- one datagram ---- */

static struct qp *target(const struct ri_send_wr *wr)
{
    const struct ah *ah = (const struct ah *)wr->ud.ah;
    struct qp *qp = qps;

    while (qp && qp->qpn != wr->ud.remote_qpn)
        qp = qp->next;
    return qp && loop_own_gid(ah->attr.destination_gid) && qp->state == RI_QPS_RTS &&
                   qp->attr.qkey == wr->ud.remote_qkey && qp->count
               ? qp
               : NULL;
}

/* A destination that is missing, not ready, has another key or no room loses the datagram. */
static void deliver(const struct qp *from, const struct ri_send_wr *wr, const uint8_t *octets,
                    uint32_t length)
{
    struct ri_wc wc = { .byte_len = GRH_OCTETS + length,
                        .flags = RI_WC_GRH,
                        .source.qpn = from->qpn };
    uint8_t message[GRH_OCTETS + MTU] = { 0 };
    struct qp *qp = target(wr);
    const struct receive *receive;

    if (!qp)
        return;
    receive = &qp->receives[qp->first];
    if (room(receive->sges, receive->num_sge) < wc.byte_len)
        return;
    memcpy(message + 8, loop_gid, 16); /* at their place in a global route header */
    memcpy(message + 24, loop_gid, 16);
    memcpy(message + GRH_OCTETS, octets, length);
    memcpy(wc.source_gid, loop_gid, 16);
    if (wr->flags & RI_WR_SOLICITED)
        wc.flags |= RI_WC_SOLICITED;
    if (!memory_ok(qp->pd, receive->sges, receive->num_sge, RI_ACCESS_LOCAL_WRITE)) {
        wc = (struct ri_wc){ .status = RI_WC_LOCAL_PROTECTION };
        complete_receive(qp, &wc);
        fail(qp);
        return;
    }
    scatter(receive->sges, message, wc.byte_len);
    complete_receive(qp, &wc);
}

static void send_one(struct qp *qp, const struct ri_send_wr *wr)
{
    struct ri_wc wc = { .cookie = wr->cookie,
                        .opcode = RI_WC_SEND,
                        .flags = wr->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0 };
    uint8_t octets[MTU];

    if (qp->state == RI_QPS_ERROR)
        wc.status = RI_WC_FLUSHED;
    else if (!memory_ok(qp->pd, wr->sg_list, wr->num_sge, 0))
        wc.status = RI_WC_LOCAL_PROTECTION;
    if (wc.status == RI_WC_SUCCESS) {
        wc.byte_len = room(wr->sg_list, wr->num_sge);
        gather(octets, wr->sg_list, wr->num_sge);
        deliver(qp, wr, octets, wc.byte_len);
        if (!(wr->flags & RI_WR_SIGNALED))
            return;
    }
    qp->sends++;
    loop_complete(qp, (struct cq *)qp->attr.send_cq, &wc);
    if (wc.status == RI_WC_LOCAL_PROTECTION)
        fail(qp);
}

/* ---- the user half ---- */

static enum ri_status check_send(const struct qp *qp, const struct ri_send_wr *wr)
{
    if (wr->opcode != RI_WR_SEND || wr->num_sge > qp->attr.max_send_sge ||
        ((const struct ah *)wr->ud.ah)->pd != qp->pd)
        return RI_ERR_INVALID_ARGUMENT;
    if (qp->state == RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (room(wr->sg_list, wr->num_sge) > MTU)
        return RI_ERR_LIMIT;
    return qp->sends < qp->attr.max_send_wr ? RI_OK : RI_ERR_QUEUE_FULL;
}

static enum ri_status post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&loop_lock);
    for (; wr && status == RI_OK; wr = wr->next) {
        status = check_send(qp, wr);
        if (status == RI_OK)
            send_one(qp, wr);
        else
            *bad = wr;
    }
    pthread_mutex_unlock(&loop_lock);
    return status;
}

static enum ri_status receive_one(struct qp *qp, const struct ri_recv_wr *wr)
{
    struct receive *receive = &qp->receives[(qp->first + qp->count) % qp->attr.max_recv_wr];

    if (wr->num_sge > qp->attr.max_recv_sge)
        return RI_ERR_INVALID_ARGUMENT;
    if (qp->count == qp->attr.max_recv_wr)
        return RI_ERR_QUEUE_FULL;
    *receive = (struct receive){ wr->cookie, wr->flags, wr->num_sge, { { 0 } } };
    for (uint32_t i = 0; i < wr->num_sge; i++)
        receive->sges[i] = wr->sg_list[i];
    qp->count++;
    if (qp->state == RI_QPS_ERROR)
        loop_flush(qp);
    return RI_OK;
}

static enum ri_status post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&loop_lock);
    for (; wr && status == RI_OK; wr = wr->next) {
        status = receive_one((struct qp *)base, wr);
        if (status != RI_OK)
            *bad = wr;
    }
    pthread_mutex_unlock(&loop_lock);
    return status;
}

static uint32_t poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct cq *cq = (struct cq *)base;

    pthread_mutex_lock(&loop_lock);
    if (count > cq->count)
        count = cq->count;
    for (uint32_t i = 0; i < count; i++) {
        wc[i] = cq->ring[i];
        cq->of[i]->sends -= wc[i].opcode == RI_WC_SEND;
    }
    cq->count -= count;
    memmove(cq->ring, cq->ring + count, cq->count * sizeof(*cq->ring));
    memmove(cq->of, cq->of + count, cq->count * sizeof(*cq->of));
    pthread_mutex_unlock(&loop_lock);
    return count;
}

static enum ri_status arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    (void)kind;
    (void)count;
    pthread_mutex_lock(&loop_lock);
    ((struct cq *)base)->armed = true;
    pthread_mutex_unlock(&loop_lock);
    return RI_OK;
}

static void make_upcall(struct rnic *rnic, struct queued_event *queued_event)
{
    const struct ri_host *host = rnic->host;
    void *context = NULL;

    switch (queued_event->kind) {
    case QUEUED_CQ: host->cq_event(host, ((struct cq *)queued_event->about)->base.context); break;
    case QUEUED_QP:
        host->qp_event(host, ((struct qp *)queued_event->about)->base.context,
                       &queued_event->event);
        break;
    case QUEUED_REQUEST:
        queued_event->request.private_data = queued_event->request.private_data_length
                                                 ? queued_event->data
                                                 : NULL;
        host->connection_request(host, ((struct listener *)queued_event->about)->base.context,
                                 &queued_event->connection->base, &queued_event->request, &context);
        queued_event->connection->base.context = context;
        if (!context)
            loop_connection_destroy(&queued_event->connection->base);
        break;
    case QUEUED_EVENT:
        queued_event->connection_event.private_data =
            queued_event->connection_event.private_data_length ? queued_event->data : NULL;
        queued_event->connection_event.path = &queued_event->path;
        host->connection_event(host, ((struct connection *)queued_event->about)->base.context,
                               &queued_event->connection_event);
        break;
    }
}

static uint32_t progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                         uint64_t *next_deadline)
{
    struct rnic *rnic = (struct rnic *)((char *)lane - offsetof(struct rnic, lane));
    struct queued_event queued_event;
    uint32_t done = 0;

    (void)first;
    *next_deadline = RI_NO_DEADLINE;
    pthread_mutex_lock(&loop_lock);
    while (done < budget && loop_begin(rnic, &queued_event)) {
        pthread_mutex_unlock(&loop_lock);
        make_upcall(rnic, &queued_event);
        pthread_mutex_lock(&loop_lock);
        loop_end(rnic);
        done++;
    }
    pthread_mutex_unlock(&loop_lock);
    return done;
}

static bool lane_arm(struct ri_lane *lane)
{
    struct rnic *rnic = (struct rnic *)((char *)lane - offsetof(struct rnic, lane));
    bool armed;

    pthread_mutex_lock(&loop_lock);
    armed = !rnic->first;
    pthread_mutex_unlock(&loop_lock);
    return armed;
}

const struct ri_user_ops loop_user_ops = {
    .size = sizeof(loop_user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = post_send,
    .post_recv = post_recv,
    .poll = poll,
    .arm = arm,
    .progress = progress,
    .lane_arm = lane_arm,
};

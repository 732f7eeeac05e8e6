/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues: posts, what completes, and the completions that librnicpi asks for. */
#include "memory.h"

#include <stdlib.h>

static bool makes_completion(const struct queue *queue, const struct request *request)
{
    return queue->receive || (request->flags & RI_WR_SIGNALED) || request->status;
}

struct request *request_at(struct queue *queue, uint32_t at)
{
    return &queue->requests[at & queue->ring.mask];
}

static uint8_t opcode_of(const struct queue *queue, const struct request *request)
{
    if (queue->receive)
        return queue->qp->type == RI_QP_UD ? RI_WC_RECV_DATAGRAM : RI_WC_RECV;
    return request->opcode == RI_WR_RDMA_WRITE  ? RI_WC_RDMA_WRITE
           : request->opcode == RI_WR_RDMA_READ ? RI_WC_RDMA_READ
                                                : RI_WC_SEND;
}

static void fill(const struct queue *queue, const struct request *request, struct ri_wc *wc)
{
    *wc = (struct ri_wc){
        .context = queue->qp->base.context,
        .cookie = request->cookie,
        .status = request->status,
        .opcode = opcode_of(queue, request),
        .flags = (uint8_t)((request->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0) |
                           (request->solicited ? RI_WC_SOLICITED : 0)),
    };
    if (request->status)
        return;
    wc->byte_len = queue->receive ? request->moved : request->length;
    if (wc->opcode == RI_WC_RECV_DATAGRAM) {
        wc->flags |= RI_WC_GRH;
        wc->source.qpn = request->remote_qpn;
        memcpy(wc->source_gid, own_gid, sizeof(wc->source_gid));
    }
}

static bool next_completion(struct ri_cq_source *source, struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;

    for (; queue->told != atomic_load(&queue->done); queue->told++) {
        const struct request *request = request_at(queue, queue->told);

        if (!makes_completion(queue, request))
            continue;
        if (wc) {
            fill(queue, request, wc);
            queue->told++;
        }
        return true;
    }
    return false;
}

/* A polled completion frees its slot and those of unsignalled requests before it. */
static void polled(struct ri_cq_source *source, const struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;
    uint32_t head = ri_ring_head(&queue->ring);

    (void)wc;
    while (!makes_completion(queue, request_at(queue, head)))
        head++;
    ri_ring_take_to(&queue->ring, head + 1);
}

bool queue_open(struct queue *queue, struct qp *qp, struct ri_cq *cq, uint32_t depth, bool receive)
{
    queue->requests = calloc(ri_ring_slots(depth), sizeof(*queue->requests));
    if (!queue->requests)
        return false;
    queue->qp = qp;
    queue->receive = receive;
    queue->source.next = next_completion;
    queue->source.polled = polled;
    ri_ring_init(&queue->ring, depth);
    ri_cq_source_add(&queue->source, &((struct cq *)cq)->mem);
    return true;
}

void queue_close(struct queue *queue)
{
    if (!queue->requests)
        return;
    ri_cq_source_remove(&queue->source);
    free(queue->requests);
}

void finish(struct queue *queue, enum ri_wc_status status)
{
    request_at(queue, queue->done)->status = (uint16_t)status;
    atomic_fetch_add(&queue->done, 1);
}

void flush(struct qp *qp)
{
    while (qp->send.done != ri_ring_tail(&qp->send.ring))
        finish(&qp->send, RI_WC_FLUSHED);
    while (qp->receive.done != ri_ring_tail(&qp->receive.ring))
        finish(&qp->receive, RI_WC_FLUSHED);
    qp->send.sent = qp->send.done;
}

void free_uncovered(struct queue *queue)
{
    uint32_t head = ri_ring_head(&queue->ring);

    while (head != ri_ring_tail(&queue->ring) && !makes_completion(queue, request_at(queue, head)))
        head++;
    if (head == ri_ring_tail(&queue->ring))
        ri_ring_take_to(&queue->ring, head);
}

/* ---- posts ---- */

/* The last part of both posts. */
static enum ri_status put(struct queue *queue, struct request *request, const struct ri_sge *sges,
                          uint32_t count, uint32_t most)
{
    uint32_t tail = ri_ring_tail(&queue->ring);
    uint64_t length = 0;

    for (uint32_t i = 0; i < count; i++) {
        request->sges[i] = sges[i];
        length += sges[i].length;
    }
    if (length > most)
        return RI_ERR_LIMIT;
    if (!ri_ring_room(&queue->ring))
        return RI_ERR_QUEUE_FULL;
    request->num_sge = count;
    request->length = (uint32_t)length;
    *request_at(queue, tail) = *request;
    ri_ring_put(&queue->ring, tail);
    return RI_OK;
}

static enum ri_status post_one(struct qp *qp, const struct ri_send_wr *wr)
{
    struct request request = { .cookie = wr->cookie, .opcode = wr->opcode, .flags = wr->flags };
    bool ud = qp->type == RI_QP_UD;
    bool known = wr->opcode == RI_WR_SEND ||
                 (!ud && (wr->opcode == RI_WR_RDMA_WRITE || wr->opcode == RI_WR_RDMA_READ));

    if (qp->state == RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (!known || (wr->flags & RI_WR_INLINE) ||
        wr->num_sge > (wr->opcode == RI_WR_RDMA_READ ? 1 : MAX_SGE) ||
        (ud && (!wr->ud.ah || ((const struct ah *)wr->ud.ah)->pd != qp->pd)))
        return RI_ERR_INVALID_ARGUMENT;
    if (ud) {
        request.ah = (const struct ah *)wr->ud.ah;
        request.remote_qpn = wr->ud.remote_qpn;
        request.rkey = wr->ud.remote_qkey;
    } else {
        request.remote_addr = wr->rdma.remote_addr;
        request.rkey = wr->rdma.rkey;
    }
    return put(&qp->send, &request, wr->sg_list, wr->num_sge, ud ? MAX_UD : MAX_MESSAGE);
}

static enum ri_status receive_one(struct qp *qp, const struct ri_recv_wr *wr)
{
    struct request request = { .cookie = wr->cookie, .flags = (uint16_t)wr->flags };

    if (wr->num_sge > MAX_SGE)
        return RI_ERR_INVALID_ARGUMENT;
    return put(&qp->receive, &request, wr->sg_list, wr->num_sge, MAX_MESSAGE);
}

/* What was posted leaves at once, in the thread that posts. */
enum ri_status vp_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = post_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    serve(qp);
    report(qp);
    return status;
}

enum ri_status vp_post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = receive_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    if (qp->state == RI_QPS_ERROR)
        flush(qp);
    report(qp);
    return status;
}

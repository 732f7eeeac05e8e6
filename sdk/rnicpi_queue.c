/* SPDX-License-Identifier: BSD-3-Clause */
/* Work queues in memory: see rnicpi_queue.h. */
#include "rnicpi_queue.h"

#include <stdlib.h>

/* ---- completions: rnicpi_cq.c asks for them under the CQ's lock ---- */

static bool makes_completion(const struct ri_queue *queue, const struct ri_request *request)
{
    return queue->receive || (request->flags & RI_WR_SIGNALED) || request->status;
}

static uint8_t opcode_of(const struct ri_queue *queue, const struct ri_request *request)
{
    if (queue->receive)
        return RI_WC_RECV;
    return request->opcode == RI_WR_RDMA_WRITE  ? RI_WC_RDMA_WRITE
           : request->opcode == RI_WR_RDMA_READ ? RI_WC_RDMA_READ
                                                : RI_WC_SEND;
}

static void fill(const struct ri_queue *queue, const struct ri_request *request, struct ri_wc *wc)
{
    *wc = (struct ri_wc){
        .context = queue->qp->context,
        .cookie = request->cookie,
        .status = request->status,
        .opcode = opcode_of(queue, request),
        .flags = (uint8_t)((request->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0) |
                           (request->solicited ? RI_WC_SOLICITED : 0)),
    };
    if (!request->status)
        wc->byte_len = queue->receive ? request->moved : request->length;
    if (queue->fill)
        queue->fill(queue, request, wc);
}

static bool next_completion(struct ri_cq_source *source, struct ri_wc *wc)
{
    struct ri_queue *queue = (struct ri_queue *)source;

    for (; queue->told != atomic_load(&queue->done); queue->told++) {
        const struct ri_request *request = ri_queue_at(queue, queue->told);

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
    struct ri_queue *queue = (struct ri_queue *)source;
    uint32_t head = ri_ring_head(&queue->ring);

    (void)wc;
    while (!makes_completion(queue, ri_queue_at(queue, head)))
        head++;
    ri_ring_take_to(&queue->ring, head + 1);
}

/* ---- life ---- */

enum ri_status ri_queue_open(struct ri_queue *queue, const struct ri_qp *qp, struct ri_mem_cq *cq,
                             uint32_t depth, uint32_t max_sge, bool receive)
{
    uint32_t slots = ri_ring_slots(depth);
    struct ri_request *requests = calloc(slots, sizeof(*requests));
    struct ri_sge *sges = calloc(slots, sizeof(*sges) * (max_sge ? max_sge : 1));

    if (!requests || !sges) {
        free(requests);
        free(sges);
        return RI_ERR_NO_RESOURCES;
    }
    *queue = (struct ri_queue){ .source = { .next = next_completion, .polled = polled },
                                .qp = qp,
                                .receive = receive,
                                .max_sge = max_sge,
                                .requests = requests,
                                .sges = sges };
    ri_ring_init(&queue->ring, depth);
    ri_cq_source_add(&queue->source, cq);
    return RI_OK;
}

void ri_queue_close(struct ri_queue *queue)
{
    if (!queue->requests)
        return;
    ri_cq_source_remove(&queue->source);
    free(queue->requests);
    free(queue->sges);
    queue->requests = NULL;
    queue->sges = NULL;
}

/* ---- requests ---- */

enum ri_status ri_queue_put(struct ri_queue *queue, const struct ri_request *request,
                            const struct ri_sge *sges, uint32_t count, uint64_t max_length)
{
    uint32_t tail = ri_ring_tail(&queue->ring);
    struct ri_request *slot = ri_queue_at(queue, tail);
    uint64_t length = 0;

    if (count > queue->max_sge)
        return RI_ERR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < count; i++)
        length += sges[i].length;
    if (length > max_length || length > UINT32_MAX)
        return RI_ERR_LIMIT;
    if (!ri_ring_room(&queue->ring))
        return RI_ERR_QUEUE_FULL;
    *slot = *request;
    slot->sges = &queue->sges[(size_t)(tail & queue->ring.mask) * queue->max_sge];
    for (uint32_t i = 0; i < count; i++)
        slot->sges[i] = sges[i];
    slot->num_sge = count;
    slot->length = (uint32_t)length;
    ri_ring_put(&queue->ring, tail);
    return RI_OK;
}

void ri_queue_finish(struct ri_queue *queue, enum ri_wc_status status)
{
    ri_queue_at(queue, atomic_load(&queue->done))->status = (uint16_t)status;
    atomic_fetch_add(&queue->done, 1);
}

void ri_queue_finish_ready(struct ri_queue *queue)
{
    while (atomic_load(&queue->done) != queue->sent && ri_queue_oldest(queue)->finished)
        ri_queue_finish(queue, RI_WC_SUCCESS);
}

void ri_queue_flush(struct ri_queue *queue)
{
    while (ri_queue_oldest(queue))
        ri_queue_finish(queue, RI_WC_FLUSHED);
    queue->sent = atomic_load(&queue->done);
}

void ri_queue_free_uncovered(struct ri_queue *queue)
{
    uint32_t head = ri_ring_head(&queue->ring), tail = ri_ring_tail(&queue->ring);

    while (head != tail && !makes_completion(queue, ri_queue_at(queue, head)))
        head++;
    if (head == tail)
        ri_ring_take_to(&queue->ring, head);
}

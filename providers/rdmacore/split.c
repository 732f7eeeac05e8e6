/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Writes and Reads with more elements than the device supports. Each becomes several requests of
 * the device, one after the other in its queue, for consecutive parts of the peer's memory. A queue
 * keeps the order, so only the last one is signalled, and its completion is that of the request.
 *
 * Each part has a slot; all but the last are marked PART. A device completes failed requests even
 * if they are not signalled. The first failure is reported as that of the request, with its cookie
 * and status; completions of the other parts are dropped (wq_was_reported).
 *
 * A Send cannot be split, because each message takes one Receive; nor can a Receive.
 */
#include "qp.h"
#include "verbs.h"

#include "base/clock.h"

/* The most additional places of a send queue. Split requests may fill it earlier than others do. */
#define ROOM_MAX 1024u

static uint32_t parts_of(uint32_t elements, uint32_t limit)
{
    return elements > limit ? (elements + limit - 1) / limit : 1;
}

uint32_t split_room(const struct qp *qp, uint32_t size)
{
    uint32_t writes = parts_of(qp->max_write_sge, qp->rnic->write_elements);
    uint32_t reads = parts_of(qp->max_read_sge, qp->rnic->read_elements);
    uint64_t room = (uint64_t)size * ((writes > reads ? writes : reads) - 1);

    return room < ROOM_MAX ? (uint32_t)room : ROOM_MAX;
}

/* The number of elements with octets: the lkey of an empty one must not be used. */
static uint32_t solid_elements(const struct ri_send_wr *wr, struct ibv_sge *sges, uint32_t *octets)
{
    uint32_t kept = 0;

    *octets = 0;
    for (uint32_t i = 0; i < wr->num_sge; i++) {
        const struct ri_sge *from = &wr->sg_list[i];

        if (from->length)
            sges[kept++] = (struct ibv_sge){ from->addr, from->length, from->lkey };
        *octets += from->length;
    }
    return kept;
}

/* The device has taken only the first parts. The slot of the next part stands for the rest of the
 * request: it is reported as flushed, and the connection ends. The state changes at once, under
 * the lock of the queue: the device must not execute what is posted behind this request. */
static enum ri_status cut_off(struct qp *qp, struct slot *slot)
{
    spinlock_lock(&qp->rq.lock);
    atomic_store_explicit(&qp->state, RI_QPS_ERROR, memory_order_relaxed);
    spinlock_unlock(&qp->rq.lock);
    spinlock_lock(&qp->send_cq->lock); /* a thread that flushes reads its flags */
    slot->flags &= (uint8_t)~SLOT_PART;
    spinlock_unlock(&qp->send_cq->lock);
    wq_soften(&qp->sq, qp->send_cq, slot);
    atomic_store(&qp->cut, true);
    return RI_OK;
}

/* Posts one part. first: the first one of its request. */
static enum ri_status send_part(struct qp *qp, struct ibv_send_wr *raw, struct slot *slot,
                                bool first)
{
    struct ibv_send_wr *bad;
    int error;

    raw->wr_id = (uintptr_t)slot;
    error = ibv_post_send(qp->ibv, raw, &bad);
    if (!error || post_is_queued(error))
        return RI_OK;
    if (!first)
        return cut_off(qp, slot);
    wq_drop_slot(&qp->sq);
    return rdmacore_post_status(rdmacore_errno(error));
}

static uint32_t sum_of(const struct ibv_sge *sges, uint32_t count)
{
    uint32_t octets = 0;

    for (uint32_t i = 0; i < count; i++)
        octets += sges[i].length;
    return octets;
}

enum ri_status split_send(struct qp *qp, const struct ri_send_wr *wr, uint8_t completion,
                          struct ibv_send_wr *raw)
{
    const uint32_t limit = qp->sge_limits[wr->opcode];
    const unsigned int flags = raw->send_flags;
    const enum ibv_wr_opcode opcode = raw->opcode;
    struct ibv_sge sges[SPLIT_ELEMENTS];
    uint32_t octets, kept = solid_elements(wr, sges, &octets);
    uint32_t parts = parts_of(kept, limit);
    enum ri_status status = RI_OK;

    if (wq_room(&qp->sq) < parts)
        return RI_ERR_QUEUE_FULL;
    raw->next = NULL;
    for (uint32_t i = 0; i < parts && status == RI_OK && !atomic_load(&qp->cut); i++) {
        bool last = i + 1 == parts;
        struct slot *slot = wq_take_slot(
            &qp->sq, wr->cookie, completion,
            (uint8_t)((wr->flags & RI_WR_NOTIFY ? SLOT_NOTIFY : 0) | (last ? 0 : SLOT_PART)),
            octets);

        raw->sg_list = &sges[i * limit];
        raw->num_sge = (int)(last ? kept - i * limit : limit);
        /* Immediate data and the solicited event belong to the last part, a fence to the first. */
        raw->opcode = !last && opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WR_RDMA_WRITE : opcode;
        raw->send_flags = flags &
                          ~(unsigned int)((i ? IBV_SEND_FENCE : 0) |
                                          (last ? 0 : IBV_SEND_SIGNALED | IBV_SEND_SOLICITED));
        status = send_part(qp, raw, slot, !i);
        raw->wr.rdma.remote_addr += sum_of(raw->sg_list, (uint32_t)raw->num_sge);
    }
    return status;
}

/* The device flushes the requests that it has; others are flushed at once. */
void split_cut(struct qp *qp)
{
    const struct ri_host *host = qp->rnic->host;

    qp_to_state(qp, IBV_QPS_ERR); /* refused if the device is gone */
    qp->sweep.deadline = clock_now();
    host->timer_set(host, qp->rnic->lane.base.context, &qp->sweep);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends: posts into the queue, and packets of them, one for each request (U-001 to U-006).
 */
#include "datagram.h"

#include "providers/software/core/post.h"

#define FLAGS (RI_WR_SIGNALED | RI_WR_SOLICITED | RI_WR_NOTIFY | RI_WR_COALESCE)

/* --- posts --- */

static const struct ud_ah *handle_of(const struct wqe *wqe)
{
    return (const struct ud_ah *)(uintptr_t)wqe->remote_addr;
}

/* {datagram} */
static enum ri_status check(const struct ud_qp *qp, const struct ri_send_wr *wr)
{
    const struct ud_ah *ah = (const struct ud_ah *)(const void *)wr->ud.ah;

    if ((wr->opcode != RI_WR_SEND && wr->opcode != RI_WR_SEND_IMMEDIATE) ||
        wr->flags & ~(uint32_t)FLAGS || !ah || ah->pd != qp->core.pd || wr->ud.remote_qpn >> 24)
        return RI_ERR_INVALID_ARGUMENT;
    return RI_OK;
}

static enum ri_status append(struct ud_qp *qp, const struct ri_send_wr *wr)
{
    struct wq *sq = &qp->core.sq;
    enum ri_status status = check(qp, wr);
    struct wqe *wqe;

    spinlock_assert_held(&sq->posting);
    if (status == RI_OK)
        status = wq_take(sq, wr->sg_list, wr->num_sge, sq->max_sge, &wqe);
    if (status != RI_OK)
        return status;
    if (wqe->length > qp->core.rnic->attr.max_ud_send) /* U-002; the slot is not published */
        return RI_ERR_LIMIT;
    wqe->cookie = wr->cookie;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->flags = wr->flags;
    wqe->remote_addr = (uintptr_t)wr->ud.ah;
    wqe->rkey = wr->ud.remote_qkey;
    wqe->operand = (uint64_t)wr->ud.remote_qpn << 32 | wr->immediate;
    wq_publish(sq);
    TRACE3(post, qp->core.qpn, wr->cookie, wr->opcode);
    return RI_OK;
}

enum ri_status ud_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *core = container_of(base, struct qp, base);
    enum ri_status status;

    spinlock_lock(&core->sq.posting);
    /* under posting: see reset_to_idle() of the core */
    status = qp_state(core) == RI_QPS_IDLE ? RI_ERR_INVALID_STATE : RI_OK;
    for (; wr; wr = wr->next) {
        if (status == RI_OK)
            status = append(ud_qp(core), wr);
        if (status != RI_OK) {
            *bad = wr;
            break;
        }
    }
    spinlock_unlock(&core->sq.posting);
    tx_run(core);
    qp_deliver(core);
    return status;
}

/* --- packets: inside tx --- */

/* Names the payload. False: an element is not usable. */
static bool gather(struct ud_qp *qp, struct ud_batch *batch, const struct wqe *wqe)
{
    struct qp *core = &qp->core;
    uint8_t *memory;

    for (uint32_t i = 0; i < wqe->num_sge; i++) {
        const struct ri_sge *sge = &wqe->sges[i];

        if (!sge->length)
            continue;
        if (stag_check_hinted(&core->rnic->stags, &qp->send_hint, sge->lkey, core->pd,
                              RI_ACCESS_LOCAL_READ, sge->addr, sge->length, &memory) != STAG_OK)
            return false;
        batch->iov[batch->iovs++] = (struct iovec){ memory, sge->length };
    }
    return true;
}

/* U-006 */
static uint32_t key_of(const struct ud_qp *qp, const struct wqe *wqe)
{
    return wqe->rkey & UD_CONTROLLED_KEY ? atomic_load_explicit(&qp->q_key, memory_order_relaxed)
                                         : wqe->rkey;
}

static bool build(struct ud_qp *qp, struct ud_batch *batch, const struct wqe *wqe)
{
    struct ud_out *out = &batch->packets[batch->count];
    uint32_t first = batch->iovs;
    uint8_t header[BTH_HEADERS_MAX];
    const struct bth_packet packet = {
        .opcode = (uint8_t)(BTH_UD | (wqe->opcode == RI_WR_SEND_IMMEDIATE ? BTH_SEND_ONLY_IMM
                                                                          : BTH_SEND_ONLY)),
        .solicited = wqe->flags & RI_WR_SOLICITED,
        .mig_req = true,
        .p_key = BTH_P_KEY,
        .dest_qpn = (uint32_t)(wqe->operand >> 32),
        .psn = bth_psn_add(qp->psn, batch->count),
        .q_key = key_of(qp, wqe),
        .src_qpn = qp->core.qpn,
        .imm = (uint32_t)wqe->operand,
        .payload_len = (uint32_t)wqe->length,
    };

    if (!gather(qp, batch, wqe)) {
        batch->iovs = first;
        return false;
    }
    out->ah = handle_of(wqe);
    out->header_len = (uint8_t)bth_put(header, &packet);
    memcpy(out->header, header, UD_HEADERS_MAX);
    out->iov = (uint16_t)first;
    out->iovs = (uint16_t)(batch->iovs - first);
    out->payload_len = packet.payload_len;
    batch->count++;
    return true;
}

static void fail(struct ud_qp *qp, struct wqe *wqe)
{
    const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                .state = RI_QPS_ERROR,
                                .by_this_side = true,
                                .wqe = wqe,
                                .status = RI_WC_LOCAL_PROTECTION,
                                .detail = "a datagram's memory is not usable" };

    qp_end(&qp->core, &end);
}

/* The first `taken` of the batch have left. */
static void complete(struct ud_qp *qp, uint32_t index, uint32_t taken)
{
    struct qp *core = &qp->core;
    uint64_t octets = 0;

    qp->psn = bth_psn_add(qp->psn, taken);
    for (uint32_t i = 0; i < taken; i++) {
        struct wqe *wqe = wq_slot(&core->sq, index + i);

        octets += wqe->length;
        wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
    }
    count_up(&core->counters.sent_messages, taken);
    count_up(&core->counters.sent_octets, octets);
    count_up(&qp->counters.sent, taken);
    atomic_store_explicit(&core->sq.next, index + taken, memory_order_relaxed);
    atomic_store_explicit(&core->sq.sent, index + taken, memory_order_release);
}

static bool has_room(const struct ud_batch *batch)
{
    return batch->count < UD_BATCH && batch->iovs + MAX_SGE <= UD_BATCH_IOVS;
}

/* True: there may be more. */
static bool send_batch(struct ud_qp *qp, struct ud_batch *batch)
{
    struct wq *sq = &qp->core.sq;
    uint32_t first = atomic_load_explicit(&sq->next, memory_order_relaxed);
    uint32_t left = atomic_load_explicit(&sq->posted, memory_order_acquire) - first;
    bool usable = true;

    batch->count = batch->iovs = 0;
    while (batch->count < left && has_room(batch) && usable)
        usable = build(qp, batch, wq_slot(sq, first + batch->count));
    if (batch->count) {
        uint32_t taken = qp->attr.carrier->send(qp, batch);

        complete(qp, first, taken);
        qp->blocked = taken < batch->count;
    } else if (left) {
        fail(qp, wq_slot(sq, first));
        return false;
    }
    return left && !qp->blocked;
}

void ud_send(struct qp *core)
{
    struct ud_qp *qp = ud_qp(core);
    struct ud_batch batch;

    tx_assert_inside(core);
    while (!qp->blocked && wq_pending(&core->sq) && send_batch(qp, &batch))
        ;
}

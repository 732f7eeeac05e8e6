/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requester: the packets of a request. A packet is made from the
 * request and its PSN alone, so one that is sent again is as the first.
 */
#include "engine.h"

#include "base/minmax.h"

/* Place of a packet in its message, as index of the tables below. */
static uint32_t place_of(bool first, bool last)
{
    return first ? (last ? BTH_ONLY : BTH_FIRST) : (last ? BTH_LAST : BTH_MIDDLE);
}

static uint8_t send_opcode(const struct wqe *wqe, bool first, bool last)
{
    static const uint8_t plain[] = { BTH_SEND_FIRST, BTH_SEND_MIDDLE, BTH_SEND_LAST,
                                     BTH_SEND_ONLY };
    static const uint8_t immediate[] = { BTH_SEND_FIRST, BTH_SEND_MIDDLE, BTH_SEND_LAST_IMM,
                                         BTH_SEND_ONLY_IMM };
    static const uint8_t invalidate[] = { BTH_SEND_FIRST, BTH_SEND_MIDDLE, BTH_SEND_LAST_INV,
                                          BTH_SEND_ONLY_INV };
    static const uint8_t write[] = { BTH_WRITE_FIRST, BTH_WRITE_MIDDLE, BTH_WRITE_LAST,
                                     BTH_WRITE_ONLY };
    static const uint8_t write_immediate[] = { BTH_WRITE_FIRST, BTH_WRITE_MIDDLE,
                                               BTH_WRITE_LAST_IMM, BTH_WRITE_ONLY_IMM };
    uint32_t place = place_of(first, last);

    switch (wqe->opcode) {
    case RI_WR_SEND_IMMEDIATE: return immediate[place];
    case RI_WR_SEND_INVALIDATE: return invalidate[place];
    case RI_WR_RDMA_WRITE: return write[place];
    case RI_WR_RDMA_WRITE_IMMEDIATE: return write_immediate[place];
    default: return plain[place];
    }
}

uint32_t rc_request_packets(const struct rc_qp *qp, const struct wqe *wqe)
{
    return rc_is_atomic(wqe) ? 1 : bth_packets((uint32_t)wqe->length, qp->attr.mtu);
}

/* Names `octets` of the payload from `offset` on. False: an element is not usable. */
static bool gather(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe, uint64_t offset,
                   uint32_t octets)
{
    struct qp *core = &qp->core;
    uint8_t *memory;

    for (uint32_t i = 0; octets; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        uint32_t part;

        contract(i < wqe->num_sge);
        if (sge->length <= offset) {
            offset -= sge->length;
            continue;
        }
        part = min_u32(sge->length - (uint32_t)offset, octets);
        if (stag_check_hinted(&core->rnic->stags, &qp->req.hint, sge->lkey, core->pd,
                              RI_ACCESS_LOCAL_READ, sge->addr + offset, part, &memory) != STAG_OK)
            return false;
        batch_add_octets(batch, memory, part);
        octets -= part;
        offset = 0;
    }
    return true;
}

static bool build_message(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe,
                          uint32_t psn, enum ri_wc_status *status)
{
    uint64_t offset = (uint64_t)((psn - wqe->byte_len) & BTH_MASK24) * qp->attr.mtu;
    uint32_t octets = (uint32_t)min_u64(wqe->length - offset, qp->attr.mtu);
    uint32_t first_iov = batch->iovs;
    bool last = offset + octets == wqe->length;
    struct bth_packet packet = rc_header(qp, send_opcode(wqe, !offset, last), psn);

    packet.ack_req = last;
    packet.solicited = last && (wqe->flags & RI_WR_SOLICITED) && wqe->opcode != RI_WR_RDMA_WRITE;
    packet.payload_len = octets;
    packet.va = wqe->remote_addr;
    packet.r_key = wqe->rkey;
    packet.dma_length = (uint32_t)wqe->length;
    packet.imm = (uint32_t)wqe->operand; /* or the key to invalidate */
    if (!gather(qp, batch, wqe, offset, octets)) {
        *status = RI_WC_LOCAL_PROTECTION;
        batch->iovs = first_iov;
        return false;
    }
    batch_add(batch, &packet, first_iov);
    return true;
}

/* The sink: of all elements, before the peer is asked. */
static bool sink_is_usable(struct rc_qp *qp, const struct wqe *wqe)
{
    uint8_t *memory;

    for (uint32_t i = 0; i < wqe->num_sge; i++)
        if (wqe->sges[i].length &&
            stag_check_hinted(&qp->core.rnic->stags, &qp->req.hint, wqe->sges[i].lkey, qp->core.pd,
                              RI_ACCESS_LOCAL_WRITE, wqe->sges[i].addr, wqe->sges[i].length,
                              &memory) != STAG_OK)
            return false;
    return true;
}

#define PART 16u /* packets */

uint32_t rc_part(const struct rc_qp *qp, const struct wqe *wqe, uint32_t psn)
{
    uint32_t done = (psn - wqe->byte_len) & BTH_MASK24;

    if (!wqe_is_answered(wqe) || rc_is_atomic(wqe))
        return 1;
    return min_u32(rc_request_packets(qp, wqe) - done, PART - done % PART);
}

/* What is missing of its part. */
static void build_read(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe,
                       uint32_t psn)
{
    uint64_t offset = (uint64_t)((psn - wqe->byte_len) & BTH_MASK24) * qp->attr.mtu;
    uint64_t octets = (uint64_t)rc_part(qp, wqe, psn) * qp->attr.mtu;
    struct bth_packet packet = rc_header(qp, BTH_READ_REQUEST, psn);

    packet.ack_req = true;
    packet.va = wqe->remote_addr + offset;
    packet.r_key = wqe->rkey;
    packet.dma_length = (uint32_t)min_u64(wqe->length - offset, octets);
    batch_add(batch, &packet, batch->iovs);
}

static void build_atomic(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe,
                         uint32_t psn)
{
    bool swap = wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP;
    struct bth_packet packet = rc_header(qp, swap ? BTH_COMPARE_SWAP : BTH_FETCH_ADD, psn);

    packet.ack_req = true;
    packet.va = wqe->remote_addr;
    packet.r_key = wqe->rkey;
    packet.swap_add = wqe->operand;
    packet.compare = swap ? wqe->compare : 0;
    batch_add(batch, &packet, batch->iovs);
}

/* Before anything of it is sent, and again with each packet: memory may have gone. */
static enum ri_wc_status check(struct rc_qp *qp, const struct wqe *wqe)
{
    if (wqe->opcode == RI_WR_RDMA_READ_INVALIDATE || (wqe_is_answered(wqe) && !qp->attr.ord))
        return RI_WC_LOCAL_QP;
    if (wqe->length > BTH_MESSAGE_MAX)
        return RI_WC_LOCAL_LENGTH;
    if (wqe_is_answered(wqe) && !sink_is_usable(qp, wqe))
        return RI_WC_LOCAL_PROTECTION;
    return RI_WC_SUCCESS;
}

bool rc_build(struct rc_qp *qp, struct rc_batch *batch, const struct wqe *wqe, uint32_t psn,
              enum ri_wc_status *status)
{
    *status = check(qp, wqe);
    if (*status != RI_WC_SUCCESS)
        return false;
    if (!wqe_is_answered(wqe))
        return build_message(qp, batch, wqe, psn, status);
    if (rc_is_atomic(wqe))
        build_atomic(qp, batch, wqe, psn);
    else
        build_read(qp, batch, wqe, psn);
    return true;
}

/* A request ends the connection. */
void rc_fail(struct rc_qp *qp, struct wqe *wqe, enum ri_wc_status status, enum ri_event_type event,
             uint8_t syndrome, const char *detail)
{
    const struct qp_end end = { .event = event,
                                .state = RI_QPS_ERROR,
                                .terminate_value = syndrome,
                                .by_this_side = !syndrome,
                                .wqe = wqe,
                                .status = status,
                                .detail = detail };

    tx_assert_inside(&qp->core);
    qp_end(&qp->core, &end);
}

/* --- UC --- */

void rc_flush_sends(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint32_t posted = atomic_load_explicit(&qp->core.sq.posted, memory_order_acquire);

    for (; req->index != posted; req->index++)
        wqe_finish(rc_request(qp, req->index), RI_WC_FLUSHED, 0);
    rc_set_index(qp, posted);
    req->head = req->fresh = posted;
    atomic_store_explicit(&qp->core.sq.sent, posted, memory_order_release);
}

void rc_fail_unreliable(struct rc_qp *qp, struct wqe *wqe, enum ri_wc_status status)
{
    tx_assert_inside(&qp->core);
    contract(rc_request(qp, qp->req.index) == wqe);
    wqe_finish(wqe, status, 0);
    rc_set_index(qp, qp->req.index + 1);
    atomic_store(&qp->req.failed, true);
    rc_flush_sends(qp);
}

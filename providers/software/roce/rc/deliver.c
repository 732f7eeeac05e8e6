/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responder: Sends and Writes in order. The checks of a packet come before anything of it is
 * stored, in the order of the suite: receive, length, key and range. Under rx.
 */
#include "engine.h"
#include "providers/software/core/quiescence.h"

/* --- receives --- */

static struct wqe *next_receive(const struct rc_qp *qp)
{
    return wq_slot(&qp->core.rq, atomic_load_explicit(&qp->core.rq.next, memory_order_relaxed));
}

struct wqe *rc_receive_in_use(const struct rc_qp *qp)
{
    return qp->rsp.message == RC_IN_SEND ? next_receive(qp) : NULL;
}

static const struct ri_sge *elements_of(const struct rc_qp *qp, const struct wqe *receive)
{
    return qp->core.srq ? qp->core.srq_sges : receive->sges;
}

/* The receive of a message; NULL: the peer has to try again. One that was taken for a
 * message of UC that broke off is used again. */
static struct wqe *take_receive(struct rc_qp *qp)
{
    const char *why;

    if (wq_pending(&qp->core.rq) || (qp->core.srq && qp_take_shared(&qp->core, &why)))
        return next_receive(qp);
    qp->rsp.owes = RC_OWES_RNR;
    count_up(&qp->core.counters.waits, 1);
    return NULL;
}

static void finish_receive(struct rc_qp *qp, const struct bth_packet *packet, struct wqe *receive,
                           uint32_t octets)
{
    struct qp *core = &qp->core;

    if (packet->solicited)
        receive->wc_flags |= RI_WC_SOLICITED;
    if (packet->op->headers & BTH_HAS_IMM) {
        receive->operand = packet->imm;
        receive->wc_flags |= RI_WC_WITH_IMMEDIATE;
        if (packet->op->kind == BTH_KIND_SEND)
            receive->wc_flags |= WC_OF_SEND;
    }
    count_up(&core->counters.received_messages, 1);
    count_up(&core->counters.received_octets, octets);
    atomic_store_explicit(&core->rq.next,
                          atomic_load_explicit(&core->rq.next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    wqe_finish(receive, RI_WC_SUCCESS, octets);
}

static void message_done(struct rc_responder *rsp)
{
    rsp->message = RC_NO_MESSAGE;
    rsp->msn = bth_psn_add(rsp->msn, 1);
}

/* --- Send --- */

static void refuse_send(struct rc_qp *qp, const struct bth_packet *packet, struct wqe *receive,
                        enum bth_result result)
{
    rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, receive, RI_WC_REMOTE_INVALID_REQUEST,
              RI_EVENT_REMOTE_OPERATION, bth_result_text(result));
}

/* Invalidates what the Send names. Waits for others that use it with rx released.
 * False: the QP has ended. */
static bool invalidate(struct rc_qp *qp, const struct bth_packet *packet, struct wqe *receive)
{
    struct rnic *rnic = qp->core.rnic;

    switch (invalidate_begin(&qp->core, packet->invalidate_key, true)) {
    case INVALIDATE_DONE: break;
    case INVALIDATE_REVOKED:
        spinlock_unlock(&qp->rx);
        invalidate_quiet(rnic, stag_find(&rnic->stags, packet->invalidate_key));
        spinlock_lock(&qp->rx);
        if (qp_state(&qp->core) != RI_QPS_RTS)
            return false;
        break;
    default:
        rc_refuse(qp, packet->psn, AETH_NAK_REMOTE_ACCESS, receive, RI_WC_REMOTE_INVALID_REQUEST,
                  RI_EVENT_INVALIDATE_ACCESS, "Send with Invalidate is not allowed here");
        return false;
    }
    receive->operand = packet->invalidate_key;
    receive->wc_flags |= RI_WC_WITH_INVALIDATE;
    return true;
}

/* False: the QP has ended. */
static bool place_send(struct rc_qp *qp, const struct bth_packet *packet, struct wqe *receive)
{
    struct rc_responder *rsp = &qp->rsp;
    enum bth_result result = bth_check(packet, qp->attr.mtu);

    if (result != BTH_OK) {
        refuse_send(qp, packet, receive, result);
        return false;
    }
    if (packet->payload_len > receive->length - rsp->offset) {
        rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, receive, RI_WC_LOCAL_LENGTH,
                  RI_EVENT_RECV_LENGTH, "message longer than the receive"); /* */
        return false;
    }
    if (!roce_scatter(&qp->core, &rsp->receive_hint, qp->core.recv_pd, elements_of(qp, receive),
                      receive->num_sge, rsp->offset, packet->payload, packet->payload_len,
                      USE_RECEIVE, bth_is_end(packet->op))) {
        rc_refuse(qp, packet->psn, AETH_NAK_REMOTE_OPERATION, receive, RI_WC_LOCAL_PROTECTION,
                  RI_EVENT_RECV_ACCESS, "receive buffer is not usable");
        return false;
    }
    return true;
}

void rc_take_send(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    bool begin = bth_is_begin(packet->op);
    struct wqe *receive = begin ? take_receive(qp) : next_receive(qp);

    if (!receive)
        return;
    if (begin)
        rsp->offset = 0;
    rsp->message = RC_IN_SEND;
    if (!place_send(qp, packet, receive))
        return;
    rsp->offset += packet->payload_len;
    if (bth_is_end(packet->op)) {
        if (packet->op->headers & BTH_HAS_IETH && !invalidate(qp, packet, receive))
            return;
        finish_receive(qp, packet, receive, rsp->offset);
        message_done(rsp);
    }
    rc_accept(qp, 1, packet->ack_req);
}

/* --- Write --- */

static void refuse_key(struct rc_qp *qp, const struct bth_packet *packet)
{
    rc_refuse(qp, packet->psn, AETH_NAK_REMOTE_ACCESS, NULL, 0, RI_EVENT_WRITE_ACCESS,
              "RDMA Write to memory that the peer may not use");
}

static enum bth_result check_length(const struct rc_qp *qp, const struct bth_packet *packet)
{
    const struct rc_responder *rsp = &qp->rsp;
    enum bth_result result = bth_check(packet, qp->attr.mtu);

    if (result != BTH_OK || bth_is_begin(packet->op))
        return result;
    if (bth_is_end(packet->op) ? packet->payload_len != rsp->left
                               : packet->payload_len >= rsp->left)
        return BTH_ERR_DMA_LENGTH;
    return BTH_OK;
}

/* All of it, before anything is stored. A Write of no octet may name anything. */
static bool begin_write(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    uint8_t *memory;

    rsp->va = packet->va;
    rsp->rkey = packet->r_key;
    rsp->left = rsp->length = packet->dma_length;
    return !rsp->length || qp_check_remote(&qp->core, &rsp->hint, rsp->rkey, RI_ACCESS_REMOTE_WRITE,
                                           rsp->va, rsp->length, &memory) == STAG_OK;
}

/* The region may have gone since. */
static bool place_write(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    uint32_t octets = packet->payload_len;
    uint8_t *memory;

    if (!octets)
        return true;
    if (qp_check_remote(&qp->core, &rsp->hint, rsp->rkey, RI_ACCESS_REMOTE_WRITE, rsp->va, octets,
                        &memory) != STAG_OK ||
        !roce_store(&qp->core, rsp->rkey, memory, packet->payload, octets, USE_REMOTE_WRITE,
                    bth_is_end(packet->op)))
        return false;
    rsp->va += octets;
    rsp->left -= octets;
    return true;
}

void rc_take_write(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    struct wqe *receive = NULL;
    enum bth_result result;

    if (packet->op->headers & BTH_HAS_IMM) {
        receive = take_receive(qp);
        if (!receive)
            return;
    }
    result = check_length(qp, packet);
    if (result != BTH_OK) {
        refuse_send(qp, packet, receive, result);
        return;
    }
    if ((bth_is_begin(packet->op) && !begin_write(qp, packet)) || !place_write(qp, packet)) {
        refuse_key(qp, packet);
        return;
    }
    rsp->message = RC_IN_WRITE;
    if (bth_is_end(packet->op)) {
        if (receive)
            finish_receive(qp, packet, receive, rsp->length);
        message_done(rsp);
    }
    rc_accept(qp, 1, packet->ack_req);
}

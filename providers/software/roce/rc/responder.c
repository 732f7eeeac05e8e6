/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responder: order of PSNs. Under rx, in a pass of the lane. owed.c has what it
 * answers.
 *
 * Requests are executed in order; while the responses of a Read are being sent nothing behind it
 * is executed. What comes meanwhile is dropped, and asked for again when they are sent.
 */
#include "engine.h"

/* --- packets --- */

/* it changes nothing. */
static void take_duplicate(struct rc_qp *qp, const struct bth_packet *packet)
{
    count_up(&qp->counters.duplicates, 1);
    if (packet->op->kind == BTH_KIND_READ || packet->op->kind == BTH_KIND_ATOMIC)
        rc_take_duplicate_answered(qp, packet);
    else
        rc_owe_ack(&qp->rsp);
}

/* */
bool rc_is_in_turn(const struct rc_responder *rsp, const struct bth_op *op)
{
    if (bth_is_begin(op))
        return rsp->message == RC_NO_MESSAGE;
    return rsp->message == (op->kind == BTH_KIND_SEND ? RC_IN_SEND : RC_IN_WRITE);
}

/* */
bool rc_is_allowed(const struct rc_qp *qp, const struct bth_op *op)
{
    switch (op->kind) {
    case BTH_KIND_WRITE: return qp_allows(&qp->core, RI_QP_WRITE_ENABLE);
    case BTH_KIND_READ: return qp->attr.ird && qp_allows(&qp->core, RI_QP_READ_ENABLE);
    case BTH_KIND_ATOMIC: return qp->attr.ird && qp_allows(&qp->core, RI_QP_ATOMIC_ENABLE);
    default: return true;
    }
}

static void take_in_order(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    const struct bth_op *op = packet->op;

    rsp->nak_sent = false; /* */
    if (rsp->owes > RC_OWES_ACK)
        rsp->owes = RC_OWES_ACK;
    if (!rc_is_in_turn(rsp, op) || !rc_is_allowed(qp, op)) {
        rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, rc_receive_in_use(qp),
                  RI_WC_REMOTE_INVALID_REQUEST, RI_EVENT_BAD_OPCODE,
                  rc_is_in_turn(rsp, op) ? "the peer's operation is not enabled here"
                                         : "packets of the peer's message are in a wrong order");
        return;
    }
    switch (op->kind) {
    case BTH_KIND_SEND: rc_take_send(qp, packet); break;
    case BTH_KIND_WRITE: rc_take_write(qp, packet); break;
    case BTH_KIND_READ: rc_take_read(qp, packet); break;
    default: rc_take_atomic(qp, packet); break;
    }
}

void rc_responder_take(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    int32_t distance = bth_psn_diff(packet->psn, rsp->epsn);

    spinlock_assert_held(&qp->rx);
    if (distance < 0) {
        take_duplicate(qp, packet);
    } else if (rsp->reading.active && !rsp->reading.replay) {
        rsp->dropped = true;
    } else if (distance > 0) {
        count_up(&qp->counters.out_of_order, 1);
        rc_owe_nak(rsp);
    } else {
        take_in_order(qp, packet);
    }
}

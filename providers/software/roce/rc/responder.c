/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responder: order of PSNs, what it answers. Under rx, in a pass of the lane.
 *
 * Requests are executed in order; while the responses of a Read are being sent nothing behind it
 * is executed. What comes meanwhile is dropped, and asked for again when they are sent.
 */
#include "engine.h"

/* --- what it owes --- */

/* A NAK acknowledges what is before it, too. */
static void owe_ack(struct rc_responder *rsp)
{
    if (rsp->owes == RC_OWES_NOTHING)
        rsp->owes = RC_OWES_ACK;
}

/* One for each gap. The requester that waits for a receive needs none. */
static void owe_nak(struct rc_responder *rsp)
{
    if (rsp->nak_sent || rsp->owes == RC_OWES_RNR)
        return;
    rsp->nak_sent = true;
    rsp->owes = RC_OWES_NAK;
}

void rc_accept(struct rc_qp *qp, uint32_t packets, bool ack_req)
{
    struct rc_responder *rsp = &qp->rsp;

    rsp->epsn = bth_psn_add(rsp->epsn, packets);
    if (ack_req)
        owe_ack(rsp);
}

static uint64_t word_of(uint8_t syndrome, uint32_t psn, uint32_t msn)
{
    return UINT64_C(1) << 63 | (uint64_t)syndrome << 48 | (uint64_t)(psn & BTH_MASK24) << 24 |
           (msn & BTH_MASK24);
}

/* The last PSN that is really acknowledged: not that of a response that is not sent. */
static uint32_t last_done(const struct rc_responder *rsp)
{
    const struct rc_reading *reading = &rsp->reading;
    uint32_t next = reading->active && !reading->replay ? reading->psn : rsp->epsn;

    return bth_psn_add(next, BTH_MASK24);
}

/* Is a NAK about what is expected still to be sent? It says more than an acknowledgement of what
 * is before it. */
static bool owes_more(const struct rc_qp *qp)
{
    uint64_t word = atomic_load_explicit(&qp->owed, memory_order_relaxed);

    return word && !aeth_is_ack((uint8_t)(word >> 48)) &&
           ((uint32_t)(word >> 24) & BTH_MASK24) == qp->rsp.epsn;
}

void rc_responder_publish(struct rc_qp *qp)
{
    struct rc_responder *rsp = &qp->rsp;
    uint64_t word;

    spinlock_assert_held(&qp->rx);
    if (rsp->owes == RC_OWES_NOTHING)
        return;
    if (rsp->owes == RC_OWES_ACK && owes_more(qp)) {
        rsp->owes = RC_OWES_NOTHING;
        return;
    }
    if (rsp->owes == RC_OWES_ACK) {
        word = word_of(AETH_ACK_NO_LIMIT, last_done(rsp), rsp->msn);
    } else if (rsp->owes == RC_OWES_NAK) {
        word = word_of(AETH_NAK_SEQUENCE, rsp->epsn, rsp->msn);
        count_up(&qp->counters.naks_sent, 1);
    } else {
        word = word_of(AETH_RNR_NAK | (qp->attr.rnr_timer & AETH_VALUE), rsp->epsn, rsp->msn);
        count_up(&qp->counters.rnr_sent, 1);
    }
    rsp->owes = RC_OWES_NOTHING;
    atomic_store_explicit(&qp->owed, word, memory_order_release);
}

static void add_acknowledgement(struct rc_qp *qp, struct rc_batch *batch, uint64_t word)
{
    struct bth_packet packet = rc_header(qp, BTH_ACKNOWLEDGE, (uint32_t)(word >> 24) & BTH_MASK24);

    packet.syndrome = (uint8_t)(word >> 48);
    packet.msn = (uint32_t)word & BTH_MASK24;
    batch_add(batch, &packet, batch->iovs);
}

uint64_t rc_take_owed(struct rc_qp *qp, struct rc_batch *batch)
{
    uint64_t word = 0;

    if (atomic_load_explicit(&qp->owed, memory_order_relaxed))
        word = atomic_exchange(&qp->owed, 0);
    if (word)
        add_acknowledgement(qp, batch, word);
    return word;
}

void rc_owe_again(struct rc_qp *qp, uint64_t owed)
{
    unsigned long long none = 0;

    atomic_compare_exchange_strong(&qp->owed, &none, owed);
}

void rc_flush(struct rc_qp *qp)
{
    struct rc_batch batch;
    uint64_t owed;

    if (!atomic_load_explicit(&qp->owed, memory_order_relaxed))
        return;
    batch_open(&batch);
    owed = rc_take_owed(qp, &batch);
    if (!owed)
        return;
    if (rc_transmit(qp, &batch))
        rc_count(&qp->counters.packets_sent, 1);
    else
        rc_owe_again(qp, owed);
}

/* At once: nobody flushes anything for a QP that has ended. */
void rc_refuse(struct rc_qp *qp, uint32_t psn, uint8_t syndrome, struct wqe *receive,
               enum ri_wc_status status, enum ri_event_type event, const char *detail)
{
    const struct qp_end end = { .event = event,
                                .state = RI_QPS_ERROR,
                                .terminate_value = syndrome,
                                .bad_access = syndrome == AETH_NAK_REMOTE_ACCESS,
                                .wqe = receive,
                                .status = status,
                                .detail = detail };
    struct rc_batch batch;

    spinlock_assert_held(&qp->rx);
    qp_retire(&qp->core, &qp->core.rq); /* it acknowledges, too */
    batch_open(&batch);
    add_acknowledgement(qp, &batch, word_of(syndrome, psn, qp->rsp.msn));
    rc_transmit(qp, &batch);
    rc_count(&qp->counters.packets_sent, 1);
    count_up(&qp->counters.naks_sent, 1);
    atomic_store(&qp->owed, 0);
    qp->rsp.owes = RC_OWES_NOTHING;
    qp_end(&qp->core, &end);
}

/* --- packets --- */

/* it changes nothing. */
static void take_duplicate(struct rc_qp *qp, const struct bth_packet *packet)
{
    count_up(&qp->counters.duplicates, 1);
    if (packet->op->kind == BTH_KIND_READ || packet->op->kind == BTH_KIND_ATOMIC)
        rc_take_duplicate_answered(qp, packet);
    else
        owe_ack(&qp->rsp);
}

/* */
static bool is_in_turn(const struct rc_responder *rsp, const struct bth_op *op)
{
    if (bth_is_begin(op))
        return rsp->message == RC_NO_MESSAGE;
    return rsp->message == (op->kind == BTH_KIND_SEND ? RC_IN_SEND : RC_IN_WRITE);
}

/* */
static bool is_allowed(const struct rc_qp *qp, const struct bth_op *op)
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
    if (!is_in_turn(rsp, op) || !is_allowed(qp, op)) {
        rc_refuse(qp, packet->psn, AETH_NAK_INVALID_REQUEST, rc_receive_in_use(qp),
                  RI_WC_REMOTE_INVALID_REQUEST, RI_EVENT_BAD_OPCODE,
                  is_in_turn(rsp, op) ? "the peer's operation is not enabled here"
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
        owe_nak(rsp);
    } else {
        take_in_order(qp, packet);
    }
}

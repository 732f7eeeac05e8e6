/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the responder owes the requester: acknowledgements, NAKs, and the refusal that ends the
 * connection. Noted under rx, in a pass of the lane; sent by rc_flush(), or
 * with what is posted meanwhile.
 */
#include "engine.h"

/* A NAK acknowledges what is before it, too. */
void rc_owe_ack(struct rc_responder *rsp)
{
    if (rsp->owes == RC_OWES_NOTHING)
        rsp->owes = RC_OWES_ACK;
}

/* One for each gap. The requester that waits for a receive needs none. */
void rc_owe_nak(struct rc_responder *rsp)
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
        rc_owe_ack(rsp);
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

void rc_drop_message(struct rc_qp *qp)
{
    spinlock_assert_held(&qp->rx);
    qp->rsp.message = RC_NO_MESSAGE;
    count_up(&qp->counters.dropped, 1);
}

/* Over an unreliable connection only what is this side's fault ends it. At once:
 * nobody flushes anything for a QP that has ended. */
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
    if (qp->attr.unreliable && status != RI_WC_LOCAL_PROTECTION) {
        rc_drop_message(qp);
        return;
    }
    qp_retire(&qp->core, &qp->core.rq); /* it acknowledges, too */
    if (!qp->attr.unreliable) {
        batch_open(&batch);
        add_acknowledgement(qp, &batch, word_of(syndrome, psn, qp->rsp.msn));
        rc_transmit(qp, &batch);
        rc_count(&qp->counters.packets_sent, 1);
        count_up(&qp->counters.naks_sent, 1);
    }
    atomic_store(&qp->owed, 0);
    qp->rsp.owes = RC_OWES_NOTHING;
    qp_end(&qp->core, &end);
}

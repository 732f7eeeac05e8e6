/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable connections: the packets of a reliable one without an answer. What is
 * sent is done; what comes in a wrong order is dropped, up to the begin of the next message.
 */
#include "engine.h"

/* Packets of one turn of tx, at most: the lane goes on. */
#define TURN 256u

/* --- sends: inside tx --- */

/* Of a batch: the cursor before each packet. */
struct mark {
    uint32_t index, psn;
};

struct sending {
    struct rc_batch batch;
    struct mark marks[RC_BATCH];
};

void rc_recover(struct rc_qp *qp)
{
    tx_assert_inside(&qp->core);
    atomic_store(&qp->req.failed, false);
}

static enum rc_step step(struct rc_qp *qp, struct sending *sending)
{
    struct rc_requester *req = &qp->req;
    struct rc_batch *batch = &sending->batch;
    struct wqe *wqe = rc_request(qp, req->index);
    enum ri_wc_status status;

    if (req->suspended && req->index == req->fresh)
        return RC_STALLED;
    if (wqe_is_local(wqe))
        return batch->count ? RC_STALLED : rc_execute_local(qp, wqe);
    if (req->index == req->fresh) {
        wqe->byte_len = req->psn;
        req->fresh++;
    }
    sending->marks[batch->count] = (struct mark){ req->index, req->psn };
    if (!rc_build(qp, batch, wqe, req->psn, &status)) {
        if (batch->count)
            return RC_STALLED;
        rc_fail_unreliable(qp, wqe, status);
        return RC_ENDED;
    }
    batch->packets[batch->count - 1].header[8] &= (uint8_t)~BTH_ACK_REQ; /* */
    req->psn = bth_psn_add(req->psn, 1);
    if (((req->psn - wqe->byte_len) & BTH_MASK24) == (rc_request_packets(qp, wqe) & BTH_MASK24))
        rc_set_index(qp, req->index + 1);
    return RC_BUILT;
}

/* What the carrier does not take is built again later. */
static void transmit(struct rc_qp *qp, struct sending *sending)
{
    struct rc_requester *req = &qp->req;
    uint32_t taken = rc_transmit(qp, &sending->batch);

    rc_count(&qp->counters.packets_sent, taken);
    if (taken < sending->batch.count) {
        req->blocked = true;
        rc_set_index(qp, sending->marks[taken].index);
        req->psn = sending->marks[taken].psn;
    }
    req->una = req->max = req->psn;
    while (req->head != req->index)
        rc_finish_head(qp, rc_request(qp, req->head));
}

static bool has_more(const struct rc_qp *qp)
{
    return qp->req.index != atomic_load_explicit(&qp->core.sq.posted, memory_order_acquire);
}

/* Returns the packets that were built. */
static uint32_t send_batch(struct rc_qp *qp, struct sending *sending, bool *more)
{
    enum rc_step made = RC_BUILT;

    batch_open(&sending->batch);
    while (made == RC_BUILT && rc_batch_has_room(&sending->batch) && has_more(qp))
        made = step(qp, sending);
    *more = made == RC_BUILT || (made == RC_STALLED && sending->batch.count);
    if (sending->batch.count)
        transmit(qp, sending);
    return sending->batch.count;
}

void rc_send_unreliable(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    struct sending sending;
    uint32_t sent = 0;
    bool more = true;

    if (atomic_load_explicit(&req->failed, memory_order_relaxed))
        rc_flush_sends(qp);
    while (more && !req->blocked && has_more(qp) && sent < TURN)
        sent += send_batch(qp, &sending, &more);
    if (sent >= TURN && has_more(qp) && !req->blocked)
        tx_defer_to_lane(&qp->core);
    if (req->suspended)
        rc_note_drained(qp);
}

/* --- receives: under rx --- */

/* Is it the next one of its message, or the first of one? */
static bool goes_on(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    bool expected = packet->psn == rsp->epsn, begins = bth_is_begin(packet->op);

    if (!expected)
        count_up(&qp->counters.out_of_order, 1);
    if (rsp->message != RC_NO_MESSAGE && (!expected || begins))
        rc_drop_message(qp);
    return begins || (expected && rsp->message != RC_NO_MESSAGE);
}

void rc_take_unreliable(struct rc_qp *qp, const struct bth_packet *packet)
{
    struct rc_responder *rsp = &qp->rsp;
    bool taken = goes_on(qp, packet);

    spinlock_assert_held(&qp->rx);
    rsp->epsn = packet->psn;
    if (taken && (!rc_is_in_turn(rsp, packet->op) || !rc_is_allowed(qp, packet->op))) {
        rc_drop_message(qp);
        taken = false;
    }
    if (taken && packet->op->kind == BTH_KIND_SEND)
        rc_take_send(qp, packet);
    else if (taken)
        rc_take_write(qp, packet);
    if (rsp->owes == RC_OWES_RNR) /* there was no receive */
        rc_drop_message(qp);
    rsp->owes = RC_OWES_NOTHING;
    rsp->epsn = bth_psn_add(packet->psn, 1);
}

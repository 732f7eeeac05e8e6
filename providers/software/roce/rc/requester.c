/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requester: what is sent next. The cursor (index, psn) goes over the requests; a retry sets it
 * back to what is outstanding (go back N), and the same code sends again. Inside tx.
 */
#include "engine.h"

#include "base/minmax.h"

/* Of a batch: the cursor before each packet, for those that the carrier does not take. */
struct mark {
    uint32_t index, psn, asked_in, unasked;
};

struct sending {
    struct rc_batch batch;
    struct mark marks[RC_BATCH];
    uint32_t skipped; /* packets in front that are none of a request: an acknowledgement */
};

static uint32_t reads_asked(const struct rc_requester *req)
{
    return req->asked_in - req->asked_out;
}

/* May the request at the cursor begin, or go on to be asked for? Of local ones each
 * waits for all before it: what they revoke may have to be sent again. */
static bool may_send(const struct rc_qp *qp, const struct wqe *wqe)
{
    const struct rc_requester *req = &qp->req;

    if (req->suspended && req->index == req->fresh)
        return false;
    if ((wqe_is_local(wqe) || (wqe->flags & RI_WR_LOCAL_FENCE)) && req->head != req->index)
        return false;
    if ((wqe->flags & RI_WR_READ_FENCE) && req->head != req->index && reads_asked(req))
        return false;
    return !wqe_is_answered(wqe) || !qp->attr.ord || reads_asked(req) < qp->attr.ord;
}

/* The request at the cursor fails, when all before it are done. */
static enum rc_step fail_here(struct rc_qp *qp, struct wqe *wqe, enum ri_wc_status status)
{
    if (qp->req.head != qp->req.index)
        return RC_STALLED;
    if (qp->attr.unreliable) {
        rc_fail_unreliable(qp, wqe, status);
        return RC_ENDED;
    }
    rc_fail(qp, wqe, status, RI_EVENT_LOCAL_ERROR, 0, "a work request failed locally");
    return RC_ENDED;
}

/* One that sends nothing. */
enum rc_step rc_execute_local(struct rc_qp *qp, struct wqe *wqe)
{
    struct rc_requester *req = &qp->req;

    switch (own_execute(&qp->core, &req->own, wqe)) {
    case OWN_REQUEST_WAITS: tx_defer_to_lane(&qp->core); return RC_STALLED;
    case OWN_REQUEST_REFUSED: return fail_here(qp, wqe, own_refusal(&qp->core, wqe));
    case OWN_REQUEST_DONE: break;
    }
    wqe_finish(wqe, RI_WC_SUCCESS, 0);
    rc_set_index(qp, req->index + 1);
    req->head = req->fresh = req->index;
    atomic_store_explicit(&qp->core.sq.sent, req->head, memory_order_release);
    return RC_BUILT;
}

/* Does the window have room for `packets` more? */
static bool has_window(const struct rc_requester *req, uint32_t packets)
{
    uint32_t used = (req->psn - req->una) & BTH_MASK24;

    return !used || used + packets <= rc_window_limit(req->window);
}

/* The cursor moves over `packets` PSNs of the request. */
static void advance(struct rc_qp *qp, const struct wqe *wqe, uint32_t packets)
{
    struct rc_requester *req = &qp->req;

    req->psn = bth_psn_add(req->psn, packets);
    if (wqe_is_answered(wqe))
        req->asked[req->asked_in++ % RC_DEPTH] = req->psn;
    if (((req->psn - wqe->byte_len) & BTH_MASK24) == (rc_request_packets(qp, wqe) & BTH_MASK24))
        rc_set_index(qp, req->index + 1);
}

/* the last of a message, and some within a long one. */
static void choose_ack(struct rc_qp *qp, struct rc_batch *batch)
{
    struct rc_requester *req = &qp->req;
    const struct rc_out *out = &batch->packets[batch->count - 1];

    req->unasked++;
    if (!(out->header[8] & BTH_ACK_REQ) && req->unasked >= rc_window_limit(req->window) / 4)
        batch_ask(batch, batch->count - 1);
    if (out->header[8] & BTH_ACK_REQ)
        req->unasked = 0;
}

static enum rc_step step(struct rc_qp *qp, struct sending *sending)
{
    struct rc_requester *req = &qp->req;
    struct rc_batch *batch = &sending->batch;
    struct wqe *wqe = rc_request(qp, req->index);
    enum ri_wc_status status;
    uint32_t packets;

    if (!may_send(qp, wqe))
        return RC_STALLED;
    if (wqe_is_local(wqe))
        return rc_execute_local(qp, wqe);
    if (req->index == req->fresh) {
        wqe->byte_len = req->psn;
        req->fresh++;
    }
    packets = rc_part(qp, wqe, req->psn);
    if (!has_window(req, packets))
        return RC_STALLED;
    sending->marks[batch->count] = (struct mark){ req->index, req->psn, req->asked_in,
                                                  req->unasked };
    if (!rc_build(qp, batch, wqe, req->psn, &status))
        return batch->count > sending->skipped ? RC_STALLED : fail_here(qp, wqe, status);
    advance(qp, wqe, packets);
    choose_ack(qp, batch);
    return RC_BUILT;
}

/* Of what is sent for the first time one packet that is acknowledged for sure is timed. */
static void time_batch(struct rc_qp *qp, const struct sending *sending, uint32_t taken)
{
    struct rc_requester *req = &qp->req;

    for (uint32_t i = taken; !req->timed && i-- > sending->skipped;) {
        const struct mark *mark = &sending->marks[i];

        if (bth_psn_diff(mark->psn, req->max) < 0)
            break;
        if (!(sending->batch.packets[i].header[8] & BTH_ACK_REQ))
            continue;
        req->timed = true;
        req->timed_psn = mark->psn;
        req->timed_at = rc_now(qp);
    }
}

/* True: all was taken. */
static bool transmit(struct rc_qp *qp, struct sending *sending, uint64_t owed)
{
    struct rc_requester *req = &qp->req;
    struct rc_batch *batch = &sending->batch;
    uint32_t taken;

    if (batch->count > sending->skipped) {
        batch_ask(batch, batch->count - 1);
        req->unasked = 0;
    }
    taken = rc_transmit(qp, batch);
    if (owed && !taken)
        rc_owe_again(qp, owed);
    rc_count(&qp->counters.packets_sent, taken);
    for (uint32_t i = sending->skipped; i < taken; i++)
        if (bth_psn_diff(sending->marks[i].psn, req->max) < 0)
            rc_count(&qp->counters.retransmitted, 1);
    time_batch(qp, sending, taken);
    if (taken < batch->count) {
        const struct mark *mark = &sending->marks[max_u32(taken, sending->skipped)];

        req->blocked = true;
        if (batch->count > sending->skipped) {
            rc_set_index(qp, mark->index);
            req->psn = mark->psn;
            req->asked_in = mark->asked_in;
            req->unasked = mark->unasked;
        }
    }
    if (bth_psn_diff(req->psn, req->max) > 0)
        req->max = req->psn;
    return taken == batch->count;
}

bool rc_batch_has_room(const struct rc_batch *batch)
{
    return batch->count < RC_BATCH && batch->iovs + MAX_SGE <= RC_BATCH_IOVS;
}

/* True: there may be more. */
static bool send_batch(struct rc_qp *qp, struct sending *sending)
{
    struct rc_requester *req = &qp->req;
    enum rc_step made = RC_BUILT;
    uint64_t owed;

    batch_open(&sending->batch);
    owed = rc_take_owed(qp, &sending->batch);
    sending->skipped = sending->batch.count;
    while (made == RC_BUILT && rc_batch_has_room(&sending->batch) &&
           req->index != atomic_load_explicit(&qp->core.sq.posted, memory_order_acquire))
        made = step(qp, sending);
    if (made == RC_ENDED) {
        if (owed)
            rc_owe_again(qp, owed);
        return false;
    }
    if (!sending->batch.count)
        return false;
    if (!transmit(qp, sending, owed))
        return false;
    return sending->batch.count > sending->skipped;
}

void rc_note_drained(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;

    if (req->drained || req->head != req->fresh)
        return;
    req->drained = true;
    qp_record_drained(&qp->core);
}

void rc_send_reliable(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    struct qp *base = &qp->core;
    struct sending sending;

    tx_assert_inside(base);
    if (req->suspended)
        rc_note_drained(qp);
    if (req->blocked || req->rnr_until || !wq_pending(&base->sq))
        return;
    while (send_batch(qp, &sending))
        ;
    if (qp_state(base) == RI_QPS_RTS)
        rc_watch(qp);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requester: loss. Three ways to learn of it, all inside tx: an answer says so (a NAK, or a Read
 * Response that is missing), a probe is answered, the time-out of the attributes passes.
 *
 * A probe is the oldest packet, alone and with AckReq, after four round trips of silence. It uses
 * up no retry, so it may be repeated; its distance doubles. A time-out does, and sends all again.
 */
#include "engine.h"

#include "base/minmax.h"

#define PROBE_LEAST     CLOCK_NS_PER_MS
#define PROBE_SHIFT_MAX 10u
#define LOST_LEAST      (100 * CLOCK_NS_PER_US)
#define FOR_EVER        7u

static uint64_t probe_interval(const struct rc_requester *req)
{
    return max_u64(4 * req->srtt, PROBE_LEAST) << req->probe_shift;
}

static void set_cursor(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;

    req->psn = req->una;
    req->index = req->head;
    req->asked_out = req->asked_in;
    req->unasked = 0;
    req->timed = false;
    atomic_store_explicit(&qp->core.sq.next, req->index, memory_order_relaxed);
}

void rc_go_back(struct rc_qp *qp)
{
    if (rc_outstanding(&qp->req))
        set_cursor(qp);
}

void rc_unreachable(struct rc_qp *qp, const char *why)
{
    struct qp_end end = {
        .event = RI_EVENT_LLP_LOST, .state = RI_QPS_ERROR, .by_this_side = true, .detail = why
    };

    tx_assert_inside(&qp->core);
    if (rc_outstanding(&qp->req)) {
        end.wqe = rc_request(qp, qp->req.head);
        end.status = RI_WC_TRANSPORT;
    }
    qp_end(&qp->core, &end);
}

/* One of retry_cnt is used up. False: there was none left. why: NULL, or what is known of
 * the silence. */
static bool use_retry(struct rc_qp *qp, const char *why)
{
    if (qp->req.retries >= qp->attr.retry_cnt) {
        rc_unreachable(qp, why ? why : "the peer does not answer: retry_cnt is used up");
        return false;
    }
    qp->req.retries++;
    return true;
}

bool rc_lost(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint64_t now = rc_now(qp);

    if (!rc_outstanding(req) || req->rnr_until)
        return true;
    /* The same loss again, while the retry is under way. */
    if (req->lost_psn == req->una && now < req->lost_until)
        return true;
    if (!use_retry(qp, NULL))
        return false;
    req->lost_psn = req->una;
    req->lost_until = now + max_u64(req->srtt, LOST_LEAST);
    rc_window_lost(req->window, now, req->srtt);
    rc_go_back(qp);
    return true;
}

void rc_wait_for_receiver(struct rc_qp *qp, uint8_t syndrome)
{
    struct rc_requester *req = &qp->req;

    if (qp->attr.rnr_retry != FOR_EVER && req->rnr_retries >= qp->attr.rnr_retry) {
        rc_fail(qp, rc_request(qp, req->head), RI_WC_RNR, RI_EVENT_NO_RECEIVE, syndrome,
                "the peer has posted no receive: rnr_retry is used up");
        return;
    }
    req->rnr_retries++;
    req->retries = 0; /* una has come: its loss is over, however long the receiver lets wait */
    req->rnr_until = rc_now(qp) + aeth_rnr_timer_us(syndrome) * CLOCK_NS_PER_US;
    req->probe_at = req->timeout_at = 0;
    rc_go_back(qp);
    rc_arm(qp);
}

static void take_time(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint64_t rtt;

    if (!req->timed || bth_psn_diff(req->una, req->timed_psn) <= 0)
        return;
    req->timed = false;
    rtt = rc_now(qp) - req->timed_at;
    req->srtt = req->srtt ? (7 * req->srtt + rtt) / 8 : max_u64(rtt, 1);
}

void rc_progress(struct rc_qp *qp, uint32_t packets, bool by_probe)
{
    struct rc_requester *req = &qp->req;

    atomic_store_explicit(&req->answered, true, memory_order_relaxed);
    req->retries = req->rnr_retries = 0; /* */
    req->rnr_until = 0;
    req->probe_shift = 0;
    req->probed = false;
    req->probe_at = req->timeout_at = 0;
    take_time(qp);
    while (req->asked_out != req->asked_in &&
           bth_psn_diff(req->una, req->asked[req->asked_out % RC_DEPTH]) >= 0)
        req->asked_out++;
    rc_window_acknowledged(req->window, packets);
    if (bth_psn_diff(req->psn, req->una) < 0 || (by_probe && rc_outstanding(req)))
        set_cursor(qp);
    rc_watch(qp);
}

void rc_watch(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint64_t now, timeout = rc_timeout_ns(qp);

    if (!rc_outstanding(req)) {
        req->probe_at = req->timeout_at = 0;
        return;
    }
    if (req->probe_at || req->rnr_until)
        return;
    now = rc_now(qp);
    req->probe_at = now + probe_interval(req);
    req->timeout_at = timeout ? now + timeout : 0;
    rc_arm(qp);
}

/* The carrier's timer is set where it would be late; one that is early finds nothing to do. */
void rc_arm(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint64_t at = req->rnr_until ? req->rnr_until : req->probe_at;

    if (!req->rnr_until && req->timeout_at && req->timeout_at < at)
        at = req->timeout_at;
    if (!at || (req->armed && req->armed <= at))
        return;
    req->armed = at;
    qp->attr.carrier->timer_set(qp, RC_REQUESTER, at);
}

/* The oldest packet, as it was. Of a Read what is missing of its part. */
static void probe(struct rc_qp *qp, uint64_t now)
{
    struct rc_requester *req = &qp->req;
    struct wqe *wqe = rc_request(qp, req->head);
    enum ri_wc_status status;
    struct rc_batch batch;

    batch_open(&batch);
    if (!rc_build(qp, &batch, wqe, req->una, &status)) {
        rc_fail(qp, wqe, status, RI_EVENT_LOCAL_ERROR, 0, "a work request failed locally");
        return;
    }
    batch_ask(&batch, 0);
    if (rc_transmit(qp, &batch)) {
        req->probed = true;
        rc_count(&qp->counters.packets_sent, 1);
        rc_count(&qp->counters.probes, 1);
    }
    req->timed = false;
    if (req->probe_shift < PROBE_SHIFT_MAX)
        req->probe_shift++;
    req->probe_at = now + probe_interval(req);
}

/* A peer that has answered before is gone when the network refuses what is for it. One that never
 * has may still be on its way to RTR, so it has all its retries. */
static void time_out(struct rc_qp *qp, uint64_t now)
{
    struct rc_requester *req = &qp->req;
    const char *why;

    rc_count(&qp->counters.timeouts, 1);
    why = qp->attr.carrier->silent(qp);
    if (why && req->answered) {
        rc_unreachable(qp, why);
        return;
    }
    if (!use_retry(qp, why))
        return;
    rc_window_silent(req->window);
    rc_go_back(qp);
    req->timeout_at = now + rc_timeout_ns(qp);
    req->probe_at = now + probe_interval(req);
}

void rc_requester_expired(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint64_t now = rc_now(qp);

    req->armed = 0;
    if (req->rnr_until) {
        if (now >= req->rnr_until)
            req->rnr_until = 0;
    } else if (rc_outstanding(req)) {
        if (req->timeout_at && now >= req->timeout_at)
            time_out(qp, now);
        else if (req->probe_at && now >= req->probe_at)
            probe(qp, now);
    }
    if (qp_state(&qp->core) == RI_QPS_RTS)
        rc_arm(qp);
}

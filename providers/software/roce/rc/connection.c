/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: begin and end, what the carrier brings, turns of the lane. The members of struct
 * wire that have nothing to say about packets.
 */
#include "engine.h"

#include "providers/software/core/post.h"

/* --- begin --- */

static bool is_valid(const struct rc_attr *attr)
{
    return attr->mtu >= BTH_MTU_MIN && attr->mtu <= BTH_MTU_MAX && !(attr->mtu & (attr->mtu - 1)) &&
           attr->timeout <= 31 && attr->retry_cnt <= 7 && attr->rnr_retry <= 7 &&
           attr->rnr_timer <= 31 && attr->ird <= RC_DEPTH && attr->ord <= RC_DEPTH;
}

static void open_requester(struct rc_qp *qp)
{
    struct rc_requester *req = &qp->req;
    uint32_t next = atomic_load(&qp->core.sq.next);

    *req = (struct rc_requester){ .una = qp->attr.sq_psn & BTH_MASK24 };
    req->psn = req->max = req->una;
    req->head = req->index = req->fresh = next;
    req->window = qp->attr.window ? qp->attr.window : &req->own_window;
    if (!qp->attr.window)
        rc_window_open(req->window);
}

static void open_responder(struct rc_qp *qp)
{
    struct rc_responder *rsp = &qp->rsp;

    spinlock_lock(&qp->rx);
    *rsp = (struct rc_responder){ .epsn = qp->attr.rq_psn & BTH_MASK24 };
    rsp->replay_octets = RC_REPLAY_MOST;
    rsp->replay_at = rc_now(qp);
    spinlock_unlock(&qp->rx);
}

enum ri_status rc_start_requester(struct rc_qp *qp, const struct rc_attr *attr)
{
    struct rc_attr whole = qp->attr;

    tx_assert_inside(&qp->core);
    contract(!wq_pending(&qp->core.sq) && !rc_outstanding(&qp->req));
    whole.sq_psn = attr->sq_psn;
    whole.timeout = attr->timeout;
    whole.retry_cnt = attr->retry_cnt;
    whole.rnr_retry = attr->rnr_retry;
    whole.ord = attr->ord;
    if (!is_valid(&whole))
        return RI_ERR_INVALID_ARGUMENT;
    qp->attr = whole;
    open_requester(qp);
    return RI_OK;
}

void rc_suspend(struct rc_qp *qp, bool on)
{
    tx_assert_inside(&qp->core);
    qp->req.suspended = on;
    qp->req.drained = false;
}

enum ri_status rc_start(struct rc_qp *qp, const struct rc_attr *attr)
{
    tx_assert_inside(&qp->core);
    if (!is_valid(attr))
        return RI_ERR_INVALID_ARGUMENT;
    qp->attr = *attr;
    open_requester(qp);
    open_responder(qp);
    atomic_store(&qp->owed, 0);
    atomic_store(&qp->expired, 0);
    atomic_store(&qp->resumed, 0);
    atomic_store(&qp->broken, NULL);
    qp->core.attr.rnr_retry = attr->rnr_retry;
    qp->core.attr.rnr_timer = attr->rnr_timer;
    atomic_store(&qp->core.attr.fused, true); /* an immediate is of its message */
    qp_connected(&qp->core, attr->wire, attr->ird, attr->ord);
    return RI_OK;
}

/* --- the carrier --- */

static void take_requests(struct rc_qp *qp, const struct bth_packet *packets, uint32_t count)
{
    spinlock_lock(&qp->rx);
    for (uint32_t i = 0; i < count && qp_state(&qp->core) == RI_QPS_RTS; i++)
        if (likely(!qp->attr.unreliable))
            rc_responder_take(qp, &packets[i]);
        else
            rc_take_unreliable(qp, &packets[i]);
    qp_retire(&qp->core, &qp->core.rq); /* */
    if (qp_state(&qp->core) == RI_QPS_RTS)
        rc_responder_publish(qp);
    spinlock_unlock(&qp->rx);
}

static void take_answers(struct rc_qp *qp, const struct bth_packet *packets, uint32_t count)
{
    tx_enter(&qp->core);
    for (uint32_t i = 0; i < count && qp_state(&qp->core) == RI_QPS_RTS; i++)
        rc_answer(qp, &packets[i]);
    tx_go_on(&qp->core);
}

static bool is_answer(const struct bth_packet *packet)
{
    return bth_is_response(packet->op);
}

/* A switch has marked a packet of ours (P-031). */
static void slow_down(struct rc_qp *qp)
{
    rc_count(&qp->counters.cnps, 1);
    tx_enter(&qp->core);
    rc_window_lost(qp->req.window, rc_now(qp), qp->req.srtt);
    tx_leave(&qp->core);
}

void rc_receive(struct rc_qp *qp, const struct bth_packet *packets, uint32_t count)
{
    lane_assert_run(qp->core.lane);
    qp_assert_unlocked(&qp->core);
    count_up(&qp->counters.packets_received, count);
    for (uint32_t i = 0, run; i < count; i += run) {
        const struct bth_packet *first = &packets[i];

        run = 1;
        if (first->op->kind == BTH_KIND_CNP) {
            slow_down(qp);
            continue;
        }
        if (first->op->service != rc_service(qp)) /* */
            continue;
        while (i + run < count && packets[i + run].op->service == first->op->service &&
               is_answer(&packets[i + run]) == is_answer(first))
            run++;
        if (is_answer(first))
            take_answers(qp, first, run);
        else
            take_requests(qp, first, run);
    }
    qp_deliver(&qp->core);
}

void rc_expired(struct rc_qp *qp, enum rc_side side)
{
    atomic_fetch_or(&qp->expired, 1u << side);
    tx_defer_to_lane(&qp->core);
}

void rc_resume(struct rc_qp *qp)
{
    atomic_fetch_or(&qp->resumed, 1u << RC_REQUESTER | 1u << RC_RESPONDER);
    tx_defer_to_lane(&qp->core);
}

void rc_break(struct rc_qp *qp, const char *why)
{
    contract(why);
    atomic_store(&qp->broken, why);
    tx_defer_to_lane(&qp->core);
}

/* --- turns --- */

void rc_send(struct qp *base)
{
    struct rc_qp *qp = rc_qp(base);

    if (unlikely(qp->held) && !qp->req.suspended)
        qp->attr.carrier->held(qp);
    else if (likely(!qp->attr.unreliable))
        rc_send_reliable(qp);
    else
        rc_send_unreliable(qp);
}

static bool take_flag(atomic_uint *flags, enum rc_side side)
{
    return atomic_load(flags) & 1u << side && atomic_fetch_and(flags, ~(1u << side)) & 1u << side;
}

/* In a pass: what uses the consumer's memory outside of tx. */
static void turn_responder(struct rc_qp *qp)
{
    bool wanted = take_flag(&qp->expired, RC_RESPONDER);

    wanted |= take_flag(&qp->resumed, RC_RESPONDER);
    own_make_quiet(&qp->core, &qp->req.own);
    if (!wanted)
        return;
    spinlock_lock(&qp->rx);
    if (qp_state(&qp->core) == RI_QPS_RTS) {
        rc_read_on(qp);
        rc_responder_publish(qp);
    }
    spinlock_unlock(&qp->rx);
}

static bool responder_waits(const struct rc_qp *qp)
{
    return ((atomic_load(&qp->expired) | atomic_load(&qp->resumed)) & 1u << RC_RESPONDER) ||
           atomic_load(&qp->req.own.unquiet);
}

/* The acknowledgement goes last: one that the requester could not send is owed again by then. */
void rc_turn(struct qp *base)
{
    struct rc_qp *qp = rc_qp(base);
    bool inside = lane_inside(base->lane);

    if (inside)
        turn_responder(qp);
    else if (responder_waits(qp))
        tx_defer_to_lane(base);
    tx_enter(base);
    if (take_flag(&qp->resumed, RC_REQUESTER))
        qp->req.blocked = false;
    if (take_flag(&qp->expired, RC_REQUESTER) && qp_state(base) == RI_QPS_RTS)
        rc_requester_expired(qp);
    if (unlikely(atomic_load_explicit(&qp->broken, memory_order_relaxed)) &&
        qp_state(base) == RI_QPS_RTS)
        rc_unreachable(qp, atomic_load(&qp->broken));
    tx_go_on(base);
    if (inside && qp_state(base) == RI_QPS_RTS)
        rc_flush(qp);
    qp_deliver(base);
}

/* --- the end --- */

/* Nobody waits for tx with rx held. */
void rc_stop(struct qp *base)
{
    struct rc_qp *qp = rc_qp(base);

    tx_assert_inside(base);
    atomic_store(&base->tx.stopped, true);
    atomic_store(&qp->owed, 0);
    own_forget(&qp->req.own);
    spinlock_lock(&qp->rx);
    if (qp_state(base) == RI_QPS_TERMINATE || qp_state(base) == RI_QPS_CLOSING)
        atomic_store(&base->life.state, RI_QPS_ERROR);
    qp->rsp.reading.active = false;
    qp_flush_ended(base);
    spinlock_unlock(&qp->rx);
}

void rc_rest(struct qp *qp)
{
    (void)qp;
}

/* A packet under way is inside tx. Those of the responder are in a pass, for which the caller has
 * waited. */
void rc_leave(struct qp *qp, enum leave what, const struct memory_range *range, bool in_pass)
{
    (void)what, (void)range, (void)in_pass;
    tx_enter(qp);
    tx_leave(qp);
}

/* RoCE has no orderly close: the peer is told by other means. */
bool rc_close(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_CLOSED,
                                       .state = RI_QPS_ERROR,
                                       .by_this_side = true,
                                       .detail = "closed by the consumer" };

    return qp_end(qp, &end);
}

bool rc_terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    struct qp_end whole = *end;

    (void)cause;
    whole.state = RI_QPS_ERROR;
    whole.by_this_side = true;
    return qp_end(qp, &whole);
}

void rc_cut(struct qp *qp)
{
    if (!qp->tx.stopped)
        rc_stop(qp);
}

void rc_hide(struct qp *base)
{
    struct rc_qp *qp = rc_qp(base);

    if (qp->attr.carrier)
        qp->attr.carrier->hide(qp);
}

void rc_release(struct qp *base)
{
    if (!base->tx.stopped)
        rc_stop(base);
    rc_hide(base);
    rc_qp(base)->attr.carrier = NULL;
}

void rc_qp_free(struct qp *qp)
{
    (void)qp;
}

/* --- attributes, posts --- */

bool rc_try_hold(struct qp *qp)
{
    return spinlock_try(&rc_qp(qp)->rx);
}

void rc_unhold(struct qp *qp)
{
    spinlock_unlock(&rc_qp(qp)->rx);
}

enum ri_status rc_set_depths(struct qp *qp, uint32_t ird, uint32_t ord)
{
    (void)qp;
    return ird <= RC_DEPTH && ord <= RC_DEPTH ? RI_OK : RI_ERR_LIMIT;
}

/* Each request is acknowledged. */
void rc_set_acknowledged(struct qp *qp, bool on)
{
    (void)qp, (void)on;
}

/* Fewer saved results than before are of no use for those before: they are forgotten. */
void rc_attributes_changed(struct qp *base)
{
    struct rc_qp *qp = rc_qp(base);

    if (qp->attr.ird != base->attr.ird)
        memset(qp->rsp.saved, 0, sizeof(qp->rsp.saved));
    qp->attr.ird = base->attr.ird;
    qp->attr.ord = base->attr.ord;
    qp->attr.rnr_retry = base->attr.rnr_retry;
    qp->attr.rnr_timer = base->attr.rnr_timer;
    atomic_store(&base->attr.fused, true);
}

uint32_t rc_answered_request(const struct qp *qp)
{
    return atomic_load_explicit(&qp->sq.sent, memory_order_relaxed);
}

void rc_send_waiting(struct qp *qp)
{
    tx_run(qp);
    qp_deliver(qp);
}

/* The peer tries again by itself. */
void rc_receive_posted(struct qp *qp)
{
    (void)qp;
}

bool rc_counter(const struct qp *base, uint32_t number, const char **name, uint64_t *value)
{
    const struct rc_counters *counters = &container_of(base, const struct rc_qp, core)->counters;
    const struct {
        const char *name;
        const atomic_ullong *value;
    } rows[] = {
        { "packets sent", &counters->packets_sent },
        { "packets retransmitted", &counters->retransmitted },
        { "probes", &counters->probes },
        { "time-outs", &counters->timeouts },
        { "NAKs received", &counters->naks_received },
        { "RNR NAKs received", &counters->rnr_received },
        { "packets received", &counters->packets_received },
        { "NAKs sent", &counters->naks_sent },
        { "RNR NAKs sent", &counters->rnr_sent },
        { "duplicate packets", &counters->duplicates },
        { "packets out of order", &counters->out_of_order },
        { "octets of Reads repeated", &counters->replayed_octets },
        { "stray answers", &counters->ghosts },
        { "CNPs received", &counters->cnps },
        { "CNPs sent", &counters->cnps_sent },
        { "messages dropped", &counters->dropped },
    };

    if (number >= sizeof(rows) / sizeof(rows[0]))
        return false;
    *name = rows[number].name;
    *value = atomic_load_explicit(rows[number].value, memory_order_relaxed);
    return true;
}

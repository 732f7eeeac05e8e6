/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: modify, its transitions and attributes. The states: qp_state.c. What it
 * means for a connection is the wire's.
 */
#include "core.h"
#include "sanitizer.h"

#include "base/trace.h"

#include <sched.h>

/* --- transitions --- */

/* From CLOSING: the peer is cut off now. */
static void cut(struct qp *qp)
{
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_CLOSING) {
        qp->life.lost = true;
        qp_wire(qp)->cut(qp);
        qp_closed(qp, "aborted by the consumer");
    }
    tx_leave(qp);
    tx_run(qp);
}

/* From IDLE: posted requests are flushed. */
static void stop_idle(struct qp *qp)
{
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_IDLE) {
        atomic_store(&qp->tx.stopped, true);
        atomic_store(&qp->life.state, RI_QPS_ERROR);
    }
    tx_leave(qp);
    tx_run(qp);
}

/* Those that outlived the connection. */
static void let_receives_go(struct qp *qp)
{
    if (qp_state(qp) != RI_QPS_ERROR)
        return;
    atomic_store(&qp->life.tells_leave, false);
    if (atomic_exchange(&qp->life.keeps_receives, false))
        tx_run(qp);
}

static enum ri_status to_error(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_RESET,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .by_this_side = true,
                                       .detail = "aborted by the consumer" };

    if (qp_state(qp) == RI_QPS_IDLE)
        stop_idle(qp);
    if (!qp_end(qp, &end) && qp_state(qp) == RI_QPS_CLOSING)
        cut(qp);
    let_receives_go(qp);
    return RI_OK;
}

/* From here on posts are refused; earlier requests are flushed. Inside tx. */
static void reset_to_idle(struct qp *qp)
{
    tx_assert_inside(qp);
    contract(qp_state(qp) == RI_QPS_ERROR);
    atomic_store(&qp->tx.stopped, false);
    spinlock_lock(&qp->sq.posting);
    atomic_store(&qp->life.state, RI_QPS_IDLE);
    spinlock_unlock(&qp->sq.posting);
    qp_flush(qp, &qp->sq);
    qp_retire(qp, &qp->sq);
    qp_free_unsignalled(qp);
}

static enum ri_status to_idle(struct qp *qp)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    /* Receives may have been posted: they complete flushed, as always. */
    if (qp_state(qp) == RI_QPS_IDLE)
        stop_idle(qp);
    tx_run(qp);
    lane_wait_pass(qp->lane);
    /* Events of the ended connection are reported now, not later. */
    qp_report(qp);
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_ERROR) {
        qp_release(qp);
        atomic_store(&qp->life.keeps_receives, false);
        qp_flush_ended(qp);
        reset_to_idle(qp);
        status = RI_OK;
    }
    tx_leave(qp);
    return status;
}

static enum ri_status to_closing(struct qp *qp)
{
    bool ended;

    tx_enter(qp);
    ended = qp_wire(qp)->close(qp);
    tx_leave(qp);
    return ended ? RI_OK : RI_ERR_INVALID_STATE;
}

static enum ri_status to_terminate(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR };

    return qp_wire(qp)->terminate(qp, QP_CAUSE_CONSUMER, &end) ? RI_OK : RI_ERR_INVALID_STATE;
}

/* From IDLE: the wire takes over what kal has connected. */
static enum ri_status to_rts(struct qp *qp, const struct ri_llp_handover *handover)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;
    const struct wire *wire = qp->rnic->wires[handover->local ? WIRE_LOCAL : WIRE_NETWORK];
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (!wire)
        return RI_ERR_NOT_SUPPORTED;
    if (handover->ird > limits->max_ird || handover->ord > limits->max_ord)
        return RI_ERR_LIMIT;
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_IDLE)
        status = wire->start(qp, handover);
    tx_leave(qp);
    if (status == RI_OK) {
        TRACE2(connect, qp->qpn, handover->initiator);
        tx_run(qp);
    }
    return status;
}

static enum ri_status change_state(struct qp *qp, const struct ri_qp_modify *modify)
{
    switch (modify->state) {
    case RI_QPS_RTS:
        if (!(modify->mask & RI_QPM_HANDOVER))
            return RI_ERR_INVALID_ARGUMENT;
        return to_rts(qp, modify->handover);
    case RI_QPS_CLOSING: qp_wire(qp)->send_waiting(qp); return to_closing(qp);
    case RI_QPS_TERMINATE: qp_wire(qp)->send_waiting(qp); return to_terminate(qp);
    case RI_QPS_ERROR: return to_error(qp);
    case RI_QPS_IDLE: return to_idle(qp);
    case RI_QPS_INIT:
    case RI_QPS_RTR:
    case RI_QPS_SQD:
    case RI_QPS_SQE: return RI_ERR_NOT_SUPPORTED; /* RI_FEATURE_QP_NUMBERS */
    }
    return RI_ERR_INVALID_ARGUMENT;
}

/* --- attributes --- */

void qp_hold(struct qp *qp)
{
    for (;;) {
        tx_enter(qp);
        if (qp_wire(qp)->try_hold(qp))
            return;
        tx_leave(qp);
        sched_yield();
    }
}

void qp_unhold(struct qp *qp)
{
    tx_assert_inside(qp);
    qp_wire(qp)->unhold(qp);
    tx_leave(qp);
}

#define ATTRIBUTES                                                                               \
    (RI_QPM_ORD | RI_QPM_IRD | RI_QPM_FLAGS | RI_QPM_RQ_LIMITS | RI_QPM_RNR | RI_QPM_IMMEDIATE | \
     RI_QPM_ACKNOWLEDGED)
#define RNR_RETRY_MOST 7u
#define RNR_TIMER_MOST 31u

/* Under rx and life.lock, inside tx: a reader holds one of them. */
static void set_attributes(struct qp *qp, const struct ri_qp_modify *modify)
{
    tx_assert_inside(qp);
    spinlock_assert_held(&qp->life.lock);
    if (modify->mask & RI_QPM_ORD) {
        qp->attr.ord = modify->ord;
        qp->attr.reads_agreed |= qp->attr.ord > 0;
    }
    if (modify->mask & RI_QPM_IRD)
        qp->attr.ird = modify->ird;
    if (modify->mask & RI_QPM_FLAGS)
        atomic_store_explicit(&qp->attr.flags, modify->flags, memory_order_relaxed);
    if (modify->mask & RI_QPM_RQ_LIMITS)
        qp_set_rq_limits(qp, modify->rq_limit, modify->rq_hard_limit);
    if (modify->mask & RI_QPM_RNR) {
        qp->attr.rnr_retry = modify->rnr_retry;
        qp->attr.rnr_timer = modify->rnr_timer;
    }
    if (modify->mask & RI_QPM_IMMEDIATE)
        atomic_store_explicit(&qp->attr.fused, modify->fused_immediate, memory_order_relaxed);
    if (modify->mask & RI_QPM_ACKNOWLEDGED) {
        qp_wire(qp)->set_acknowledged(qp, modify->acknowledged);
        atomic_store_explicit(&qp->attr.acknowledged, modify->acknowledged, memory_order_relaxed);
    }
}

/* With a place for the request for an acknowledgement in each direction. */
static enum ri_status make_room(struct qp *qp, const struct ri_qp_modify *modify)
{
    bool acknowledged = modify->mask & RI_QPM_ACKNOWLEDGED ? modify->acknowledged
                                                           : qp_is_acknowledged(qp);
    uint32_t ird = modify->mask & RI_QPM_IRD ? modify->ird : qp->attr.ird;
    uint32_t ord = modify->mask & RI_QPM_ORD ? modify->ord : qp->attr.ord;

    tx_assert_inside(qp);
    return qp_wire(qp)->set_depths(qp, ird + acknowledged, ord + acknowledged);
}

/* In RTS too (RDMAC 9.2.5): the consumers of both sides agree on IRD and ORD by themselves.
 * Outstanding requests stay. */
static enum ri_status change_attributes(struct qp *qp, const struct ri_qp_modify *modify)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if ((modify->mask & RI_QPM_ORD && modify->ord > limits->max_ord) ||
        (modify->mask & RI_QPM_IRD && modify->ird > limits->max_ird))
        return RI_ERR_LIMIT;
    if (modify->mask & RI_QPM_RNR &&
        (modify->rnr_retry > RNR_RETRY_MOST || modify->rnr_timer > RNR_TIMER_MOST))
        return RI_ERR_INVALID_ARGUMENT;
    qp_hold(qp);
    if (qp_state(qp) == RI_QPS_IDLE || qp_state(qp) == RI_QPS_RTS)
        status = make_room(qp, modify);
    if (status == RI_OK) {
        spinlock_lock(&qp->life.lock);
        set_attributes(qp, modify);
        spinlock_unlock(&qp->life.lock);
        qp_wire(qp)->attributes_changed(qp);
    }
    qp_unhold(qp);
    if (status == RI_OK && qp_state(qp) == RI_QPS_RTS)
        tx_run(qp); /* a Read may have waited for ORD */
    return status;
}

enum ri_status core_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;

    if (modify->mask & ~(RI_QPM_STATE | RI_QPM_HANDOVER | ATTRIBUTES))
        return RI_ERR_NOT_SUPPORTED;
    if (modify->mask & ATTRIBUTES)
        status = change_attributes(qp, modify);
    if (status == RI_OK && (modify->mask & RI_QPM_STATE))
        status = change_state(qp, modify);
    if (qp->rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_left(qp->rnic);
    qp_deliver(qp);
    return status;
}

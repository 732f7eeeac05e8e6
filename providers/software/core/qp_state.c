/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: RDMAC states, the end of a connection, what is told of it.
 *
 *   IDLE --- hand-over ---> RTS --- modify CLOSING ---> CLOSING --- both FINs or bound ---> ERROR
 *                           |--- local or remote error ---> TERMINATE (Terminate is sent) --> ERROR
 *                           |--- peer's FIN, RST, Terminate, modify ERROR -----------------> ERROR
 *   ERROR --- modify IDLE ---> IDLE
 *
 * RDMAC lets CLOSING end in IDLE; here it ends in ERROR, so that requests posted meanwhile complete
 * flushed instead of waiting for the next connection. Leaving RTS is one function (qp_end); what
 * follows, stopping output, flushing both queues, is done by whoever holds tx next (tx_stop).
 * Exactly one event of the "ended" group is told per connection.
 */
#include "tx.h"

#include <string.h>

/* --- flush --- */

/* Under posting: a thread that posts a receive after this call sees the new state of the QP. */
static uint32_t posted_before(struct wq *wq)
{
    uint32_t posted;

    spinlock_lock(&wq->posting);
    posted = atomic_load_explicit(&wq->posted, memory_order_relaxed);
    spinlock_unlock(&wq->posting);
    return posted;
}

/* With the first unfinished request receives are kept no longer: before it can be polled. As over
 * InfiniBand it tells that the peer does not answer. */
static enum ri_wc_status status_of_unfinished(struct qp *qp, const struct wq *wq)
{
    if (wq->receive)
        return RI_WC_FLUSHED;
    atomic_store(&qp->life.keeps_receives, false);
    return atomic_exchange(&qp->life.tells_leave, false) ? RI_WC_TRANSPORT : RI_WC_FLUSHED;
}

/* Under the lock of the CQ: no slot is retired, polled and filled again meanwhile. */
void qp_flush(struct qp *qp, struct wq *wq)
{
    uint32_t posted = posted_before(wq);

    contract(qp_state(qp) != RI_QPS_RTS);
    spinlock_lock(&qp_cq(qp, wq)->lock);
    for (uint32_t index = atomic_load(&wq->done); index != posted; index++) {
        struct wqe *wqe = wq_slot(wq, index);

        if (atomic_load_explicit(&wqe->done, memory_order_relaxed))
            continue;
        wqe_finish(wqe, status_of_unfinished(qp, wq), 0);
    }
    atomic_store(&wq->next, posted);
    if (!wq->receive)
        atomic_store(&wq->sent, posted);
    spinlock_unlock(&qp_cq(qp, wq)->lock);
}

void qp_flush_ended(struct qp *qp)
{
    tx_assert_inside(qp);
    contract(qp_state(qp) != RI_QPS_RTS);
    qp_flush(qp, &qp->sq);
    if (!atomic_load(&qp->life.keeps_receives))
        qp_flush(qp, &qp->rq);
}

/* --- events to report --- */

/* Once per connection. Under life.lock. */
static void record_end(struct qp *qp, enum ri_event_type type, uint16_t code, const char *detail,
                       bool explained)
{
    spinlock_assert_held(&qp->life.lock);
    if (qp->life.reported || qp->life.destroyed)
        return;
    qp->life.reported = true;
    qp->life.end_event = (struct ri_event){
        .size = sizeof(qp->life.end_event),
        .type = type,
        .terminate_code = code,
        .explained = explained,
        .detail = detail,
    };
    qp->life.end_pending = true;
    atomic_store(&qp->life.pending, true);
}

void qp_record_established(struct qp *qp)
{
    spinlock_lock(&qp->life.lock);
    qp->life.established_pending = true;
    atomic_store(&qp->life.pending, true);
    spinlock_unlock(&qp->life.lock);
}

void qp_record_rq_limit(struct qp *qp)
{
    spinlock_lock(&qp->life.lock);
    qp->life.rq_limit_pending = true;
    atomic_store(&qp->life.pending, true);
    spinlock_unlock(&qp->life.lock);
}

void qp_record_communication(struct qp *qp)
{
    spinlock_lock(&qp->life.lock);
    qp->life.communication_pending = true;
    atomic_store(&qp->life.pending, true);
    spinlock_unlock(&qp->life.lock);
}

void qp_record_drained(struct qp *qp)
{
    spinlock_lock(&qp->life.lock);
    qp->life.drained_pending = true;
    atomic_store(&qp->life.pending, true);
    spinlock_unlock(&qp->life.lock);
}

/* Under the lock: a thread that finds no event in the QP afterwards checks the SRQ. */
void qp_record_srq(struct qp *qp)
{
    spinlock_lock(&qp->life.lock);
    atomic_store(&qp->life.pending, true);
    spinlock_unlock(&qp->life.lock);
}

static void end_of_close(struct qp *qp, enum ri_event_type type, const char *detail)
{
    spinlock_lock(&qp->life.lock);
    record_end(qp, type, 0, detail, false);
    atomic_store(&qp->life.state, RI_QPS_ERROR);
    spinlock_unlock(&qp->life.lock);
}

void qp_closed(struct qp *qp, const char *detail)
{
    end_of_close(qp, RI_EVENT_LLP_CLOSED, detail);
}

void qp_closed_badly(struct qp *qp, const char *detail)
{
    end_of_close(qp, RI_EVENT_LLP_RESET, detail);
}

/* The next event to report, in the order of a connection's life. Under life.lock. */
static bool take_pending(struct qp *qp, struct ri_event *event)
{
    struct qp_life *life = &qp->life;
    const struct {
        bool *pending;
        enum ri_event_type type;
    } order[] = {
        { &life->established_pending, RI_EVENT_ESTABLISHED },
        { &life->communication_pending, RI_EVENT_COMMUNICATION_ESTABLISHED },
        { &life->rq_limit_pending, RI_EVENT_QP_RQ_LIMIT_REACHED },
        { &life->drained_pending, RI_EVENT_SEND_QUEUE_DRAINED },
        { &life->end_pending, life->end_event.type },
    };

    spinlock_assert_held(&life->lock);
    for (size_t i = 0; !life->destroyed && i < ARRAY_SIZE(order); i++) {
        if (!*order[i].pending)
            continue;
        *event = (struct ri_event){ .size = sizeof(*event), .type = order[i].type };
        if (order[i].pending == &life->end_pending)
            *event = life->end_event;
        *order[i].pending = false;
        return true;
    }
    atomic_store(&life->pending, false);
    return false;
}

/* Under life.lock, which is released meanwhile. */
static void tell(struct qp *qp, const struct ri_event *event)
{
    const struct ri_host *host = qp->rnic->host;

    spinlock_assert_held(&qp->life.lock);
    contract(!qp->life.reporting && !qp->life.destroyed);
    qp->life.reporting = true;
    atomic_fetch_add(&qp->upcalls, 1);
    spinlock_unlock(&qp->life.lock);
    host->qp_event(host, qp->base.context, event);
    atomic_fetch_sub(&qp->upcalls, 1);
    spinlock_lock(&qp->life.lock);
    qp->life.reporting = false;
}

/* One thread at a time reports, so that the order holds. Another one leaves: the reporting
 * thread checks again. */
void qp_report(struct qp *qp)
{
    struct ri_event event;

    qp_assert_unlocked(qp);
    spinlock_lock(&qp->life.lock);
    while (!qp->life.reporting && take_pending(qp, &event))
        tell(qp, &event);
    spinlock_unlock(&qp->life.lock);
    if (qp->srq)
        srq_deliver(qp->srq);
}

/* `pending` stays set for qp_report(). */
void qp_report_established(struct qp *qp)
{
    struct ri_event event;

    qp_assert_unlocked(qp);
    spinlock_lock(&qp->life.lock);
    if (qp->life.established_pending && !qp->life.reporting && take_pending(qp, &event))
        tell(qp, &event);
    spinlock_unlock(&qp->life.lock);
}

/* --- leaving RTS --- */

/* A responder that has heard nothing yet must not speak (S-011). Under life.lock. */
static void record_terminate(struct qp *qp, const struct qp_end *end)
{
    bool silent = atomic_load(&qp->tx.holding) && !end->heard;

    spinlock_assert_held(&qp->life.lock);
    contract(end->terminate_length <= QP_TERMINATE_OCTETS);
    qp->life.terminate_wanted = end->send_terminate && !silent;
    if (qp->life.terminate_wanted) {
        qp->life.terminate_sent = end->terminate_value;
        qp->life.terminate_length = end->terminate_length;
        memcpy(qp->life.terminate, end->terminate, end->terminate_length);
    }
    if (end->terminate_received) {
        qp->life.terminate_received = end->terminate_value;
        qp->life.terminate_length = end->terminate_length;
        memcpy(qp->life.terminate, end->terminate, end->terminate_length);
    }
}

/* The peer named memory that it may not use. A peer that guesses STags does so repeatedly, with
 * a new connection each time. */
static void count_access_error(struct qp *qp)
{
    atomic_fetch_add(&qp->counters.access_errors, 1);
    atomic_fetch_add(&qp->rnic->access_errors, 1);
}

static bool ends_by_peer(const struct qp_end *end)
{
    return end->state == RI_QPS_ERROR && !end->by_this_side && !end->wqe;
}

/* Without an error that either side tells. */
static bool peer_leaves(const struct qp_end *end)
{
    if (end->by_this_side || end->wqe)
        return false;
    switch (end->event) {
    case RI_EVENT_LLP_CLOSED:
    case RI_EVENT_LLP_CLOSED_BUSY:
    case RI_EVENT_LLP_RESET:
    case RI_EVENT_LLP_LOST: return true;
    case RI_EVENT_TERMINATE_RECEIVED: return !end->terminate_value;
    default: return false;
    }
}

bool qp_end(struct qp *qp, const struct qp_end *end)
{
    bool first;

    qp_assert_unlocked(qp);
    contract(end->state == RI_QPS_TERMINATE || end->state == RI_QPS_CLOSING ||
             end->state == RI_QPS_ERROR);
    spinlock_lock(&qp->life.lock);
    first = qp_state(qp) == RI_QPS_RTS;
    if (first) {
        qp->life.lost = end->lost;
        atomic_store(&qp->life.keeps_receives,
                     qp_allows(qp, RI_QP_KEEP_RECEIVES) && ends_by_peer(end));
        atomic_store(&qp->life.tells_leave, qp_allows(qp, RI_QP_KEEP_RECEIVES) && peer_leaves(end));
        record_terminate(qp, end);
        if (end->bad_access)
            count_access_error(qp);
        if (end->wqe) {
            end->wqe->vendor_error = end->terminate_value;
            wqe_finish(end->wqe, end->status, 0);
        }
        if (end->event)
            record_end(qp, end->event, end->terminate_value, end->detail, end->wqe != NULL);
        /* Last: a thread inside tx acts on it at once. */
        atomic_store(&qp->life.state, end->state);
        atomic_store(&qp->tx.wanted, true);
    }
    spinlock_unlock(&qp->life.lock);
    return first;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: RDMAC states, ends, create and destroy. Posts: post.c, completion of work: cq.c, transitions by modify: qp_modify.c.
 *
 *   IDLE --- hand-over ---> RTS --- modify CLOSING ---> CLOSING --- both FINs or bound ---> ERROR
 *                            |--- local or remote error ---> TERMINATE (Terminate is sent) ---> ERROR
 *                            |--- peer's FIN, RST, Terminate, modify ERROR ------------------> ERROR
 *   ERROR --- modify IDLE ---> IDLE
 *
 * RDMAC lets CLOSING end in IDLE; here it ends in ERROR, so that requests posted meanwhile complete flushed instead of
 * waiting for the next connection. Leaving RTS is one function (qp_end); what follows, stopping output, flushing both
 * queues, is done by whoever holds tx next (tx_stop). Exactly one event of the "ended" group is told per connection.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"
#include "providers/softrdma/codec/terminate.h"

#include <stdlib.h>
#include <string.h>

/* --- flush --- */

/* Under posting: who posts a receive after this look sees the state that the QP has got before it. */
static uint32_t posted_before(struct wq *wq)
{
    uint32_t posted;

    spinlock_lock(&wq->posting);
    posted = atomic_load_explicit(&wq->posted, memory_order_relaxed);
    spinlock_unlock(&wq->posting);
    return posted;
}

/* Under the lock of the CQ, so that none of the slots is retired, polled and filled anew meanwhile. */
void qp_flush(struct qp *qp, struct wq *wq)
{
    uint32_t posted = posted_before(wq);

    spinlock_lock(&qp_cq(qp, wq)->lock);
    for (uint32_t index = atomic_load(&wq->done); index != posted; index++) {
        struct wqe *wqe = wq_slot(wq, index);

        if (!atomic_load_explicit(&wqe->done, memory_order_relaxed))
            wqe_finish(wqe, RI_WC_FLUSHED, 0);
    }
    atomic_store(&wq->next, posted);
    if (!wq->receive)
        atomic_store(&qp->sq_sent, posted);
    spinlock_unlock(&qp_cq(qp, wq)->lock);
}

/* --- what has to be told --- */

/* Once per connection. Under state_lock. */
static void note_end(struct qp *qp, enum ri_event_type type, uint16_t code, const char *detail,
                     bool explained)
{
    if (qp->told || qp->destroyed)
        return;
    qp->told = true;
    qp->event = (struct ri_event){
        .size = sizeof(qp->event),
        .type = type,
        .terminate_code = code,
        .explained = explained,
        .detail = detail,
    };
    qp->event_pending = true;
    atomic_store(&qp->news, true);
}

void qp_note_established(struct qp *qp)
{
    spinlock_lock(&qp->state_lock);
    qp->established_pending = true;
    atomic_store(&qp->news, true);
    spinlock_unlock(&qp->state_lock);
}

void qp_note_rq_limit(struct qp *qp)
{
    spinlock_lock(&qp->state_lock);
    qp->soft_pending = true;
    atomic_store(&qp->news, true);
    spinlock_unlock(&qp->state_lock);
}

/* Under the lock, so that whoever finds no news in the QP afterwards looks at the SRQ. */
void qp_note_srq(struct qp *qp)
{
    spinlock_lock(&qp->state_lock);
    atomic_store(&qp->news, true);
    spinlock_unlock(&qp->state_lock);
}

static void end_of_close(struct qp *qp, enum ri_event_type type, const char *detail)
{
    spinlock_lock(&qp->state_lock);
    note_end(qp, type, 0, detail, false);
    atomic_store(&qp->state, RI_QPS_ERROR);
    spinlock_unlock(&qp->state_lock);
}

void qp_closed(struct qp *qp, const char *detail)
{
    end_of_close(qp, RI_EVENT_LLP_CLOSED, detail);
}

bool qp_is_starting(struct qp *qp)
{
    uint32_t out = atomic_load(&qp->ord_out);

    return atomic_load(&qp->holding) ||
           (out != atomic_load(&qp->ord_in) && qp->ord_ring[out & (qp->ord_size - 1)].rtr);
}

void qp_closed_badly(struct qp *qp)
{
    end_of_close(qp, RI_EVENT_LLP_RESET, "the peer went on sending while this side was closing");
}

/* The next thing to tell, in the order of a connection's life. Under state_lock. */
static bool take_news(struct qp *qp, struct ri_event *event)
{
    bool *pending = qp->established_pending ? &qp->established_pending
                    : qp->soft_pending      ? &qp->soft_pending
                    : qp->event_pending     ? &qp->event_pending
                                            : NULL;

    if (qp->destroyed || !pending) {
        atomic_store(&qp->news, false);
        return false;
    }
    *event = (struct ri_event){ .size = sizeof(*event), .type = RI_EVENT_ESTABLISHED };
    if (pending == &qp->soft_pending)
        event->type = RI_EVENT_QP_RQ_LIMIT_REACHED;
    else if (pending == &qp->event_pending)
        *event = qp->event;
    *pending = false;
    return true;
}

/* By one thread at a time, so that nothing is told out of order; who finds another at it leaves: that one looks again. */
void qp_tell(struct qp *qp)
{
    const struct ri_host *host = qp->rnic->host;
    struct ri_event event;

    spinlock_lock(&qp->state_lock);
    while (!qp->telling && take_news(qp, &event)) {
        qp->telling = true;
        atomic_fetch_add(&qp->upcalls, 1);
        spinlock_unlock(&qp->state_lock);
        host->qp_event(host, qp->base.context, &event);
        atomic_fetch_sub(&qp->upcalls, 1);
        spinlock_lock(&qp->state_lock);
        qp->telling = false;
    }
    spinlock_unlock(&qp->state_lock);
    if (qp->srq)
        srq_settle(qp->srq);
}

void qp_settle_now(struct qp *qp)
{
    if (atomic_load_explicit(&qp->tx_wanted, memory_order_relaxed) &&
        atomic_exchange(&qp->tx_wanted, false))
        tx_kick(qp);
    if (cq_has_news(qp->send_cq))
        cq_settle(qp->send_cq);
    if (cq_has_news(qp->recv_cq))
        cq_settle(qp->recv_cq);
    if (atomic_load_explicit(&qp->news, memory_order_acquire))
        qp_tell(qp);
}

/* --- leaving RTS --- */

/* A responder that has heard nothing yet must not speak (S-011). Under state_lock. */
static void note_terminate(struct qp *qp, const struct qp_end *end)
{
    bool silent = atomic_load(&qp->holding) && !end->heard;

    qp->terminate_wanted = end->send_terminate && !silent;
    if (qp->terminate_wanted) {
        qp->terminate_sent = end->terminate_value;
        qp->terminate_length = end->terminate_length;
        memcpy(qp->terminate, end->terminate, end->terminate_length);
    }
    if (end->terminate_received) {
        qp->terminate_received = end->terminate_value;
        qp->terminate_length = end->terminate_length;
        memcpy(qp->terminate, end->terminate, end->terminate_length);
    }
}

/* The peer named memory that it may not use. Who guesses STags does it again and again, with a connection each. */
static void count_access_error(struct qp *qp, const struct qp_end *end)
{
    unsigned int kind = end->terminate_value >> 8;

    if (!end->send_terminate || (kind != TERMINATE_R_STAG >> 8 && kind != TERMINATE_T_STAG >> 8))
        return;
    atomic_fetch_add(&qp->access_errors, 1);
    atomic_fetch_add(&qp->rnic->access_errors, 1);
}

bool qp_end(struct qp *qp, const struct qp_end *end)
{
    bool first;

    spinlock_lock(&qp->state_lock);
    first = qp_state(qp) == RI_QPS_RTS;
    if (first) {
        qp->lost = end->lost;
        note_terminate(qp, end);
        count_access_error(qp, end);
        if (end->wqe) {
            end->wqe->vendor_error = end->terminate_value;
            wqe_finish(end->wqe, end->status, 0);
        }
        if (end->event)
            note_end(qp, end->event, end->terminate_value, end->detail, end->wqe != NULL);
        atomic_store(&qp->state, end->state); /* last: whoever is inside tx acts on it at once */
        atomic_store(&qp->tx_wanted, true);
    }
    spinlock_unlock(&qp->state_lock);
    return first;
}

bool qp_terminate(struct qp *qp, const struct qp_end *end, const struct terminate_cause *cause)
{
    uint8_t payload[TERMINATE_PAYLOAD_MAX];
    struct qp_end whole = *end;

    whole.state = RI_QPS_TERMINATE;
    whole.send_terminate = true;
    whole.terminate = payload;
    whole.terminate_length = (uint32_t)terminate_build(payload, end->terminate_value, cause);
    return qp_end(qp, &whole);
}

/* --- create and destroy --- */

static enum ri_status check_attr(const struct ri_rnic_attr *limits, const struct ri_qp_attr *attr)
{
    bool own = !attr->srq; /* else the receive queue's sizes are not looked at */

    if (attr->type != RI_QP_RC || (attr->flags & RI_QP_PRIVILEGED))
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->send_cq || !attr->recv_cq)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_send_wr > limits->max_send_wr ||
        (own && attr->max_recv_wr > limits->max_recv_wr) ||
        attr->max_send_sge > limits->max_send_sge ||
        (own && attr->max_recv_sge > limits->max_recv_sge) ||
        attr->max_read_sge > limits->max_read_sge || attr->max_write_sge > limits->max_write_sge ||
        attr->ird > limits->max_ird || attr->ord > limits->max_ord || attr->max_inline)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void give_attr(const struct qp *qp, struct ri_qp_attr *attr)
{
    attr->max_send_wr = qp->sq.depth;
    attr->max_recv_wr = qp->srq ? 0 : qp->rq.depth;
    attr->max_send_sge = qp->sq.max_sge;
    attr->max_recv_sge = qp->rq.max_sge;
    attr->max_read_sge = qp->max_read_sge;
    attr->max_write_sge = qp->max_write_sge;
}

static enum ri_status open_receive_queue(struct qp *qp, const struct ri_qp_attr *attr)
{
    if (attr->srq)
        return srq_attach(container_of(attr->srq, struct srq, base), qp);
    qp->recv_pd = qp->pd;
    return wq_open(&qp->rq, true, most(attr->max_recv_wr, 1), most(attr->max_recv_sge, 1));
}

/* One more than asked for: the ready-to-receive Read of either side. */
static bool enlarge(void **ring, uint32_t *size, uint32_t entries, size_t octets, uint32_t from,
                    uint32_t to)
{
    uint32_t larger = power_of_two(entries + 1);
    uint8_t *fresh;

    if (larger <= *size)
        return true;
    fresh = calloc(larger, octets);
    if (!fresh)
        return false;
    for (uint32_t at = from; at != to; at++)
        memcpy(fresh + (at & (larger - 1)) * octets, (uint8_t *)*ring + (at & (*size - 1)) * octets,
               octets);
    free(*ring);
    *ring = fresh;
    *size = larger;
    return true;
}

enum ri_status qp_open_reads(struct qp *qp, uint32_t ird, uint32_t ord)
{
    void *ird_ring = qp->ird_ring, *ord_ring = qp->ord_ring;
    bool ird_fits = enlarge(&ird_ring, &qp->ird_size, ird, sizeof(*qp->ird_ring),
                            atomic_load(&qp->ird_out), atomic_load(&qp->ird_in));
    bool ord_fits = enlarge(&ord_ring, &qp->ord_size, ord, sizeof(*qp->ord_ring),
                            atomic_load(&qp->ord_out), atomic_load(&qp->ord_in));

    qp->ird_ring = ird_ring;
    qp->ord_ring = ord_ring;
    return ird_fits && ord_fits ? RI_OK : RI_ERR_NO_RESOURCES;
}

static enum ri_status open_queues(struct qp *qp, const struct ri_qp_attr *attr)
{
    enum ri_status status = wq_open(&qp->sq, false, most(attr->max_send_wr, 1),
                                    most(most(attr->max_send_sge, attr->max_write_sge), 1));
    if (status == RI_OK)
        status = open_receive_queue(qp, attr); /* last: from here on the SRQ names the QP */
    return status;
}

void qp_free(struct qp *qp)
{
    wq_close(&qp->sq);
    wq_close(&qp->rq);
    tx_close(qp);
    free(qp->ord_ring);
    free(qp->ird_ring);
    free(qp->srq_sges);
    free(qp);
}

enum ri_status softrdma_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = check_attr(&rnic->attr, attr);
    struct qp *qp;

    if (status != RI_OK)
        return status;
    if (atomic_fetch_add(&rnic->qps, 1) >= rnic->attr.max_qp) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        status = RI_ERR_NO_RESOURCES;
        goto uncount;
    }
    qp->base.ops = rnic->user;
    qp->base.context = attr->context;
    qp->rnic = rnic;
    qp->lane = attr->lane ? container_of(attr->lane, struct lane, base) : rnic->lanes[0];
    qp->pd = pd;
    qp->send_cq = container_of(attr->send_cq, struct cq, base);
    qp->recv_cq = container_of(attr->recv_cq, struct cq, base);
    qp->qpn = atomic_fetch_add(&rnic->next_qpn, 1) + 1;
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    qp->flags = attr->flags;
    qp_set_rq_limits(qp, attr->rq_limit, attr->rq_hard_limit);
    qp->max_read_sge = most(attr->max_read_sge, 1);
    qp->max_write_sge = most(attr->max_write_sge, 1);
    status = open_queues(qp, attr);
    if (status != RI_OK)
        goto free_qp;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&pd->streams, 1);
    cq_attach(qp->send_cq, qp->lane);
    cq_attach(qp->recv_cq, qp->lane);
    give_attr(qp, attr);
    *out = &qp->base;
    return RI_OK;
free_qp:
    qp_free(qp);
uncount:
    atomic_fetch_sub(&rnic->qps, 1);
    return status;
}

/* The stream goes on without the QP. Inside tx. */
void qp_let_go(struct qp *qp)
{
    struct stream *stream = qp->stream;

    if (!stream)
        return;
    if (!qp->stopped)
        tx_stop(qp);
    stream_release(stream);
    qp->stream = NULL;
}

static void await_upcalls(struct qp *qp)
{
    while (atomic_load(&qp->upcalls))
        sched_yield();
}

/*
 * In this order: nothing new is told; no pass, timer or walk finds the QP (each was waited for, or counts in upcalls); no CQ
 * names it; nobody is inside tx. Nobody comes in any more: tx is never left.
 */
enum ri_status softrdma_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct lane *lane = qp->lane;
    struct rnic *rnic = qp->rnic;
    struct stream *stream = qp->stream;

    tx_send_gathered(qp);
    spinlock_lock(&qp->state_lock);
    qp->destroyed = true;
    atomic_store(&qp->state, RI_QPS_ERROR);
    spinlock_unlock(&qp->state_lock);
    if (stream) {
        spinlock_lock(&stream->rx);
        atomic_store(&stream->qp, NULL);
        spinlock_unlock(&stream->rx);
    }
    tx_keep_no_memory(qp);
    lane_wait_pass(lane);
    cq_purge(qp->send_cq, qp);
    cq_purge(qp->recv_cq, qp);
    await_upcalls(qp);
    tx_forget_gathered(qp); /* they may have left work to the lane */
    await_upcalls(qp);
    if (qp->srq)
        srq_detach(qp->srq, qp);
    tx_enter(qp);
    qp_let_go(qp);
    mw_unbind_qp(qp);
    cq_detach(qp->send_cq);
    cq_detach(qp->recv_cq);
    atomic_fetch_sub(&qp->pd->streams, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&rnic->qps, 1);
    spinlock_lock(&lane->lock);
    qp->grave_next = lane->qp_graves;
    lane->qp_graves = qp;
    atomic_fetch_add(&lane->version, 1);
    spinlock_unlock(&lane->lock);
    return RI_OK;
}

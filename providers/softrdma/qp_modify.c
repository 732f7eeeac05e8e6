/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: what modify does, the start with a stream that is handed over among it; query and counters. The states: objects/qp_state.c.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"
#include "providers/softrdma/codec/terminate.h"

#include "base/trace.h"

#include <string.h>
#include <sys/epoll.h>

/* --- hand-over --- */

/* A stream is made, or a reason why not. Inside tx. */
static enum ri_status check_handover(const struct qp *qp, const struct ri_llp_handover *handover)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;

    if (qp_state(qp) != RI_QPS_IDLE || qp->stream)
        return RI_ERR_INVALID_STATE;
    if (handover->ird > limits->max_ird || handover->ord > limits->max_ord ||
        handover->bytes_read_length > RX_RING_OCTETS)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static enum ri_status watch_stream(struct qp *qp, struct stream *stream, int fd)
{
    const struct ri_host *host = qp->rnic->host;

    return host->watch(host, qp->lane->base.context, fd, EPOLLIN | EPOLLRDHUP, stream_ready, stream,
                       &stream->watch);
}

static void keep_open(struct stream *stream, bool reset)
{
    (void)stream;
    (void)reset;
}
static const struct llp_ops llp_none = { .close = keep_open };

/* A stream whose start failed: the descriptor stays the caller's. */
static void unmake_stream(struct stream *stream)
{
    spinlock_lock(&stream->rx);
    stream->llp = &llp_none;
    stream_abort(stream, false);
    spinlock_unlock(&stream->rx);
    stream_release(stream);
}

/* The octets of a Terminate with code only are the whole connection: refuse. Inside tx. */
static enum ri_status refuse(struct qp *qp, const struct ri_llp_handover *handover,
                             const struct llp_ops *llp)
{
    struct stream *stream;
    size_t length = 0;
    uint8_t *tail;
    enum ri_status status = stream_open(qp->lane, NULL, handover, llp, &qp_stream_timers, &stream);

    if (status != RI_OK)
        return status;
    status = watch_stream(qp, stream, handover->fd);
    if (status != RI_OK) {
        unmake_stream(stream);
        return status;
    }
    qp->framing.crc = handover->crc;
    qp->framing.markers_transmit = handover->markers_transmit;
    qp->tx.position = qp->tx.full_operation = 0;
    spinlock_lock(&qp->life.lock);
    qp->life.terminate_length = (uint32_t)terminate_build(qp->life.terminate, handover->refuse_code,
                                                          NULL);
    qp->life.terminate_sent = handover->refuse_code;
    spinlock_unlock(&qp->life.lock);
    tail = tx_terminate_fpdu(qp, &length);
    spinlock_lock(&stream->rx);
    stream_begin_close(stream, tail, length, false);
    spinlock_unlock(&stream->rx);
    stream_release(stream);
    atomic_store(&qp->tx.stopped, true);
    atomic_store(&qp->life.state, RI_QPS_ERROR);
    return RI_OK;
}

/* The first pass takes octets that came with the hand-over, and makes the stream hot. Inside tx. */
static enum ri_status begin(struct qp *qp, const struct ri_llp_handover *handover,
                            const struct llp_ops *llp)
{
    const struct ri_host *host = qp->rnic->host;
    struct lane *lane = qp->lane;
    struct stream *stream;
    enum ri_status status;

    qp->attr.ird = handover->ird;
    qp->attr.ord = handover->ord;
    qp->attr.reads_agreed = qp->attr.ord > 0;
    status = qp_open_reads(qp, qp->attr.ird, qp->attr.ord);
    if (status == RI_OK)
        status = stream_open(qp->lane, qp, handover, llp, &qp_stream_timers, &stream);
    if (status != RI_OK)
        return status;
    qp->stream = stream;
    status = tx_start(qp, handover);
    if (status == RI_OK)
        status = watch_stream(qp, stream, handover->fd);
    if (status != RI_OK) {
        qp->stream = NULL;
        unmake_stream(stream);
        return status;
    }
    qp->framing.markers_receive = handover->markers_receive;
    qp->rx.position = 0;
    qp->rx.expect_send_msn = qp->rx.expect_read_msn = qp->rx.expect_atomic_msn = 1;
    qp->rx.message_open = false;
    qp->rx.rtr_await = handover->rtr_await;
    rx_choose_way(qp);
    if (qp->rx.rtr_await) {
        stream->timer.deadline = clock_after(clock_now(), qp->rnic->options.rtr_timeout_ns);
        host->timer_set(host, lane->base.context, &stream->timer);
    } else if (qp->tx.rtr_to_send && qp->rnic->options.rtr_repeat_ns) {
        atomic_fetch_or(&stream->attention, ATTEND_SILENT);
        stream->timer.deadline = clock_after(clock_now(), qp->rnic->options.rtr_repeat_ns);
        host->timer_set(host, lane->base.context, &stream->timer);
    }
    spinlock_lock(&qp->life.lock);
    qp->life.reported = qp->life.lost = qp->life.terminate_wanted = false;
    qp->life.terminate_sent = qp->life.terminate_received = 0;
    qp->life.terminate_length = 0;
    atomic_store(&qp->life.state, RI_QPS_RTS);
    spinlock_unlock(&qp->life.lock);
    lane_call(stream);
    return RI_OK;
}

enum ri_status qp_start(struct qp *qp, const struct ri_llp_handover *handover,
                        const struct llp_ops *llp)
{
    enum ri_status status;

    tx_enter(qp);
    status = check_handover(qp, handover);
    if (status == RI_OK)
        status = handover->refuse_code ? refuse(qp, handover, llp) : begin(qp, handover, llp);
    tx_leave(qp);
    if (status == RI_OK) {
        TRACE2(connect, qp->qpn, handover->initiator);
        tx_kick(qp);
    }
    return status;
}

/* --- transitions --- */

/* From CLOSING: the peer gets a RST, now. */
static void cut(struct qp *qp)
{
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_CLOSING) {
        struct stream *stream = qp->stream;

        qp->life.lost = true;
        if (!qp->tx.stopped)
            tx_stop(qp);
        spinlock_lock(&stream->rx);
        stream_abort(stream, true);
        spinlock_unlock(&stream->rx);
        qp_closed(qp, "aborted by the consumer");
    }
    tx_leave(qp);
    tx_kick(qp);
}

/* From IDLE: what was posted is flushed. */
static void stop_idle(struct qp *qp)
{
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_IDLE) {
        atomic_store(&qp->tx.stopped, true);
        atomic_store(&qp->life.state, RI_QPS_ERROR);
    }
    tx_leave(qp);
    tx_kick(qp);
}

static enum ri_status to_error(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_RESET,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .detail = "aborted by the consumer" };

    if (qp_state(qp) == RI_QPS_IDLE)
        stop_idle(qp);
    if (!qp_end(qp, &end) && qp_state(qp) == RI_QPS_CLOSING)
        cut(qp);
    return RI_OK;
}

/* From here on posts are refused; those before are flushed. Inside tx. */
static void rest(struct qp *qp)
{
    atomic_store(&qp->tx.stopped, false);
    atomic_store(&qp->reads.ord_out, atomic_load(&qp->reads.ord_in));
    atomic_store(&qp->reads.ird_out, atomic_load(&qp->reads.ird_in));
    spinlock_lock(&qp->sq.posting);
    atomic_store(&qp->life.state, RI_QPS_IDLE);
    spinlock_unlock(&qp->sq.posting);
    qp_flush(qp, &qp->sq);
    qp_retire(qp, &qp->sq);
}

static enum ri_status to_idle(struct qp *qp)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    if (qp_state(qp) ==
        RI_QPS_IDLE) /* receives were posted perhaps: they complete flushed, as anywhere */
        stop_idle(qp);
    tx_kick(qp);
    lane_wait_pass(qp->lane);
    qp_tell(qp); /* of the connection that ends here, not later */
    tx_enter(qp);
    if (qp_state(qp) == RI_QPS_ERROR) {
        qp_let_go(qp);
        rest(qp);
        status = RI_OK;
    }
    tx_leave(qp);
    return status;
}

/* A FIN while own Reads are unanswered would break the peer off in the middle of the answer: it is a bad close then (S-076). */
static enum ri_status to_closing(struct qp *qp)
{
    static const struct qp_end in_order = { .state = RI_QPS_CLOSING };
    static const struct qp_end reset = { .event = RI_EVENT_LLP_RESET,
                                         .state = RI_QPS_ERROR,
                                         .lost = true,
                                         .detail = "closed while Reads were unanswered" };
    uint32_t unanswered;
    bool ended;

    tx_enter(qp); /* no further Read leaves meanwhile */
    unanswered = atomic_load(&qp->reads.ord_in) - atomic_load(&qp->reads.ord_out);
    ended = qp_end(qp, unanswered > qp_is_starting(qp) ? &reset : &in_order);
    tx_leave(qp);
    return ended ? RI_OK : RI_ERR_INVALID_STATE;
}

static enum ri_status to_terminate(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                       .terminate_value = TERMINATE_LOCAL };

    return qp_terminate(qp, &end, NULL) ? RI_OK : RI_ERR_INVALID_STATE;
}

static enum ri_status change_state(struct qp *qp, const struct ri_qp_modify *modify)
{
    switch (modify->state) {
    case RI_QPS_RTS:
        if (!(modify->mask & RI_QPM_HANDOVER))
            return RI_ERR_INVALID_ARGUMENT;
        llp_tcp_prepare(modify->handover->fd, &qp->rnic->options);
        return qp_start(qp, modify->handover, &llp_tcp);
    case RI_QPS_CLOSING: tx_send_gathered(qp); return to_closing(qp);
    case RI_QPS_TERMINATE: tx_send_gathered(qp); return to_terminate(qp);
    case RI_QPS_ERROR: return to_error(qp);
    case RI_QPS_IDLE: return to_idle(qp);
    case RI_QPS_INIT:
    case RI_QPS_RTR: return RI_ERR_NOT_SUPPORTED; /* RI_FEATURE_QP_INIT_RTR */
    }
    return RI_ERR_INVALID_ARGUMENT;
}

/* --- attributes --- */

void qp_hold(struct qp *qp)
{
    for (;;) {
        tx_enter(qp);
        if (!qp->stream || spinlock_try(&qp->stream->rx))
            return;
        tx_leave(qp);
        sched_yield();
    }
}

void qp_unhold(struct qp *qp)
{
    if (qp->stream)
        spinlock_unlock(&qp->stream->rx);
    tx_leave(qp);
}

#define ATTRIBUTES (RI_QPM_ORD | RI_QPM_IRD | RI_QPM_FLAGS | RI_QPM_RQ_LIMITS)

/* Under rx and life.lock, inside tx: whoever reads holds one of them. */
static void set_attributes(struct qp *qp, const struct ri_qp_modify *modify)
{
    if (modify->mask & RI_QPM_ORD) {
        qp->attr.ord = modify->ord;
        qp->attr.reads_agreed |= qp->attr.ord > 0;
    }
    if (modify->mask & RI_QPM_IRD)
        qp->attr.ird = modify->ird;
    if (modify->mask & RI_QPM_FLAGS)
        qp->attr.flags = modify->flags;
    if (modify->mask & RI_QPM_RQ_LIMITS)
        qp_set_rq_limits(qp, modify->rq_limit, modify->rq_hard_limit);
}

/* In RTS too (RDMAC 9.2.5): both sides have to agree on IRD and ORD by themselves. What is outstanding stays. */
static enum ri_status change_attributes(struct qp *qp, const struct ri_qp_modify *modify)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;
    enum ri_status status = RI_ERR_INVALID_STATE;

    if ((modify->mask & RI_QPM_ORD && modify->ord > limits->max_ord) ||
        (modify->mask & RI_QPM_IRD && modify->ird > limits->max_ird))
        return RI_ERR_LIMIT;
    qp_hold(qp);
    if (qp_state(qp) == RI_QPS_IDLE || qp_state(qp) == RI_QPS_RTS)
        status = qp_open_reads(qp, modify->mask & RI_QPM_IRD ? modify->ird : 0,
                               modify->mask & RI_QPM_ORD ? modify->ord : 0);
    if (status == RI_OK) {
        spinlock_lock(&qp->life.lock);
        set_attributes(qp, modify);
        spinlock_unlock(&qp->life.lock);
    }
    qp_unhold(qp);
    if (status == RI_OK && qp_state(qp) == RI_QPS_RTS)
        tx_kick(qp); /* a Read may have waited for ORD */
    return status;
}

enum ri_status softrdma_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;

    if ((modify->mask & ~(RI_QPM_STATE | RI_QPM_HANDOVER | ATTRIBUTES)) ||
        ((modify->mask & RI_QPM_FLAGS) && (modify->flags & RI_QP_PRIVILEGED)))
        return RI_ERR_NOT_SUPPORTED;
    if (modify->mask & ATTRIBUTES)
        status = change_attributes(qp, modify);
    if (status == RI_OK && (modify->mask & RI_QPM_STATE))
        status = change_state(qp, modify);
    qp_settle(qp);
    return status;
}

/* --- query --- */

enum ri_status softrdma_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = container_of(base, struct qp, base);

    spinlock_lock(&qp->life.lock);
    *info = (struct ri_qp_info){
        .size = sizeof(*info),
        .state = qp_state(qp),
        .qpn = qp->qpn,
        .max_send_wr = qp->sq.depth,
        .max_recv_wr = qp->srq ? 0 : qp->rq.depth,
        .max_send_sge = qp->sq.max_sge,
        .max_recv_sge = qp->rq.max_sge,
        .max_read_sge = qp->max_read_sge,
        .max_write_sge = qp->max_write_sge,
        .ird = qp->attr.ird,
        .ord = qp->attr.ord,
        .flags = qp->attr.flags,
        .holding = atomic_load(&qp->tx.holding),
        .terminate_sent = qp->life.terminate_sent,
        .terminate_received = qp->life.terminate_received,
        .terminate_length = qp->life.terminate_length,
    };
    if (qp->life.terminate_length)
        memcpy(info->terminate, qp->life.terminate, qp->life.terminate_length);
    spinlock_unlock(&qp->life.lock);
    return RI_OK;
}

enum ri_status softrdma_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                    size_t *count)
{
    struct qp *qp = container_of(base, struct qp, base);
    const char *const all[] = { "messages sent",          "octets sent",
                                "messages received",      "octets received",
                                "access errors of peers", "empty writes received" };
    const uint64_t now[] = { qp->counters.sent_messages,
                             qp->counters.sent_octets,
                             qp->counters.received_messages,
                             qp->counters.received_octets,
                             atomic_load(&qp->counters.access_errors),
                             qp->counters.empty_writes };
    const size_t total = sizeof(now) / sizeof(now[0]);

    for (size_t i = 0; i < total && i < *count; i++) {
        names[i] = all[i];
        values[i] = now[i];
    }
    *count = total;
    return RI_OK;
}

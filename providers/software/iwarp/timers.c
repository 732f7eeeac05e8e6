/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The timers of a connection: what their expiry means for the QP. llp/connection.c has the timers,
 * and does not know QPs.
 *
 * A timer is never cancelled with rx held, because the host waits for its handler. So a handler may
 * run late and find nothing to do.
 */
#include "wire_iwarp.h"

/* C-044 */
static void first_message_overdue(struct iwarp_qp *qp)
{
    const struct qp_end end = {
        .event = RI_EVENT_LLP_LOST,
        .state = RI_QPS_ERROR,
        .lost = true,
        .detail = "the peer's ready-to-receive message did not come in time",
    };

    rx_assert_held(qp->stream);
    if (qp->rx.rtr_await)
        qp_end(&qp->core, &end);
}

/* The peer promised no first message (MPA revision 1, or client-server model), and none has come.
 * With option first_message_wait qp_deliver() sends what was posted; else the log says what that
 * waits for. Under rx. */
static void first_message_missing(struct iwarp_qp *qp)
{
    struct rnic *rnic = qp->core.rnic;

    rx_assert_held(qp->stream);
    if (qp->rx.rtr_await || !atomic_load(&qp->core.tx.holding))
        return;
    if (iwarp_rnic(rnic)->options.first_message_wait_ns)
        rx_end_holding(qp);
    else if (wq_pending(&qp->core.sq) &&
             !atomic_exchange(&iwarp_rnic(rnic)->holding_reported, true))
        ri_log(rnic->host, RI_LOG_WARNING,
               "QP %u: its requests wait for the peer's first message, because the active side "
               "speaks first (RFC 5044 7.1.2); if the peer's program waits, too, option "
               "first_message_wait helps (told once)",
               qp->core.qpn);
}

/* A peer that was silent the first time may be slow: it gets four times as long before each
 * further repetition. True: repeat. */
static bool still_silent(struct stream *stream)
{
    const struct ri_host *host = stream->lane->rnic->host;
    uint64_t silence = iwarp_rnic(stream->lane->rnic)->options.rtr_repeat_ns;

    rx_assert_held(stream);
    if (!(atomic_load(&stream->attention) & ATTEND_SILENT))
        return false;
    if (++stream->rtr_repeats < RTR_REPEATS) {
        stream->timer.deadline = clock_after(clock_now(), silence << 2 * stream->rtr_repeats);
        host->timer_set(host, stream->lane->base.context, &stream->timer);
    }
    return true;
}

static void stream_expired(struct ri_timer *timer)
{
    struct stream *stream = container_of(timer, struct stream, timer);
    struct iwarp_qp *qp;

    bool repeat = false, ended;

    spinlock_lock(&stream->rx);
    qp = stream->qp;
    if (qp)
        atomic_fetch_add(&qp->core.upcalls, 1); /* destroy waits: no pass protects the QP here */
    if (timer->deadline > clock_now()) {
        /* it was set again before this handler ran */
    } else if (stream->state == STREAM_OPEN && qp) {
        repeat = still_silent(stream);
        first_message_missing(qp);
        first_message_overdue(qp);
    } else if (stream->state == STREAM_CLOSING && stream->closing.looks) {
        stream->closing.looks = false;
        stream_continue_close(stream, &ended);
    } else if (stream->state == STREAM_CLOSING) {
        if (qp && stream->closing.announce)
            qp_closed(&qp->core, "the peer did not close in time");
        stream_abort(stream, true);
    }
    spinlock_unlock(&stream->rx);
    if (!qp)
        return;
    if (repeat)
        tx_repeat_rtr(qp);
    qp_deliver(&qp->core);
    atomic_fetch_sub(&qp->core.upcalls, 1);
}

/* The peer acknowledges nothing any more: option ack_timeout. */
static void acks_expired(struct ri_timer *timer)
{
    static const struct qp_end end = {
        .event = RI_EVENT_LLP_LOST,
        .state = RI_QPS_ERROR,
        .lost = true,
        .detail = "the peer has acknowledged nothing for too long (ack_timeout)",
    };
    struct stream *stream = container_of(timer, struct stream, acks.timer);
    struct iwarp_qp *qp;

    spinlock_lock(&stream->rx);
    qp = stream->state == STREAM_OPEN ? stream->qp : NULL;
    if (qp) {
        atomic_fetch_add(&qp->core.upcalls, 1);
        if (llp_acks_check(stream, qp))
            qp_end(&qp->core, &end);
    }
    spinlock_unlock(&stream->rx);
    if (!qp)
        return;
    qp_deliver(&qp->core);
    atomic_fetch_sub(&qp->core.upcalls, 1);
}

const struct stream_timers iwarp_stream_timers = {
    .expired = stream_expired,
    .stalled = partial_stalled,
    .acks = acks_expired,
};

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit: one gathered write for as many FPDUs as fit. What is built into it: tx_build.c. Who is
 * inside tx: core/tx.c.
 */
#include "fpdu.h"
#include "request.h"

#include "base/trace.h"

#include <errno.h>

/* --- the socket --- */

/* The socket is full: the interval doubles each time that it takes nothing. */
static void leave_alone(struct iwarp_qp *qp, bool took)
{
    qp->tx.retry_ns = took ? TX_RETRY_NS : 2 * qp->tx.retry_ns;
    qp->tx.retry_ns = qp->tx.retry_ns < TX_RETRY_NS        ? TX_RETRY_NS
                      : qp->tx.retry_ns > TX_RETRY_MOST_NS ? TX_RETRY_MOST_NS
                                                           : qp->tx.retry_ns;
    atomic_store_explicit(&qp->tx.retry_at, clock_now() + qp->tx.retry_ns, memory_order_relaxed);
}

bool tx_take_up(struct iwarp_qp *qp, ssize_t sent)
{
    struct tx_batch *batch = &qp->tx.batch;
    struct stream *stream = qp->stream;
    size_t wanted = batch->octets;

    tx_assert_inside(&qp->core);
    if (sent < 0 && sent != -EAGAIN) {
        /* The receive side ends the connection, after the octets that can still be read. */
        atomic_store(&qp->tx.error, (int)-sent);
        qp->tx.single_below = 0;
        lane_call(stream);
        return false;
    }
    if (sent > 0) {
        if ((size_t)sent == wanted) {
            batch->octets = 0;
            batch->first = batch->count;
            atomic_store_explicit(&qp->tx.names_source, false, memory_order_release);
        } else {
            batch_advance(batch, (size_t)sent);
        }
        qp->tx.accepted += (uint64_t)sent;
        tx_finish_accepted(qp);
    }
    if (unlikely(sent < 0 || (size_t)sent < wanted))
        leave_alone(qp, sent > 0);
    stream_want_output(stream, sent < 0 || (size_t)sent < wanted);
    return sent > 0 && (size_t)sent == wanted;
}

/* True: the whole batch is in the socket. */
static bool transmit(struct iwarp_qp *qp)
{
    const struct tx_batch *batch = &qp->tx.batch;
    struct stream *stream = qp->stream;
    ssize_t sent = stream->sender->send(stream, batch->iov + batch->first,
                                        (int)(batch->count - batch->first));

    TRACE3(send, qp->core.qpn, batch->octets, sent);
    return tx_take_up(qp, sent);
}

/* --- batches --- */

/* A cheap test: a single post would otherwise build an empty batch each time. */
static bool anything_to_build(const struct iwarp_qp *qp)
{
    return wq_pending(&qp->core.sq) || qp->tx.rtr_to_send || tx_ack_is_due(qp) ||
           atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed) !=
               atomic_load_explicit(&qp->reads.ird_out, memory_order_relaxed);
}

/* The socket was full a moment ago: a little room makes small writes. A pass or readiness will
 * continue. */
static bool waits_for_room(struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->stream->want_output, memory_order_relaxed) &&
           clock_now() < atomic_load_explicit(&qp->tx.retry_at, memory_order_relaxed);
}

/* Octets of a visit as a measure of time. Many short requests take as long as a batch of long
 * ones, and a call has its cost. */
static uint32_t cost(const struct tx_batch *batch)
{
    uint32_t octets = batch->octets < TX_WRITE_COST ? TX_WRITE_COST : (uint32_t)batch->octets;

    return batch->arena_used < TX_ARENA_OCTETS / 16 ? octets : TX_BATCH_OCTETS;
}

/* False: more is left and can be sent now. */
static bool write_batches(struct iwarp_qp *qp)
{
    uint32_t spent = 0;

    tx_assert_inside(&qp->core);
    if (qp->tx.batch.octets && waits_for_room(qp))
        return true;
    while (qp->tx.batch.octets || (anything_to_build(qp) && tx_build(qp))) {
        if (spent >= TX_ROUNDS * TX_BATCH_OCTETS)
            return false;
        spent += cost(&qp->tx.batch);
        if (!transmit(qp))
            return true;
    }
    return true;
}

/* What is left after TX_ROUNDS long batches, or what takes as long, is the lane's. */
void tx_send(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    if (!atomic_load_explicit(&qp->tx.error, memory_order_relaxed) && !write_batches(qp)) {
        atomic_store(&qp->core.tx.wanted, true);
        lane_call(qp->stream);
    }
}

/* --- once more --- */

/* Some receivers do not process octets that come right after the start-up until more come. A
 * zero-length Write does nothing, so it may come twice. It is sent between messages only, and
 * not while other output wakes the peer anyway. */
void tx_repeat_rtr(struct iwarp_qp *qp)
{
    tx_enter(&qp->core);
    if (qp_state(&qp->core) == RI_QPS_RTS && !qp->core.tx.stopped && !qp->tx.batch.octets &&
        !qp->tx.message_begun && !qp->tx.response_begun)
        qp->tx.rtr_to_send = RI_RTR_WRITE;
    qp->tx.single_below = 0;
    tx_leave(&qp->core);
    tx_run(&qp->core);
}

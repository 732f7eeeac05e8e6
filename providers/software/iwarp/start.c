/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hand-over of a stream to a QP, from IDLE to RTS; or the refusal of its peer.
 */
#include "wire_iwarp.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <string.h>
#include <sys/epoll.h>

static enum ri_status watch_stream(struct iwarp_qp *qp, struct stream *stream, int fd)
{
    const struct ri_host *host = qp->core.rnic->host;

    return host->watch(host, qp->core.lane->base.context, fd, EPOLLIN | EPOLLRDHUP, stream_ready,
                       stream, &stream->watch);
}

static void keep_open(struct stream *stream, bool reset)
{
    (void)stream;
    (void)reset;
}
static const struct llp_ops llp_none = { .close = keep_open };

/* The start of the stream failed: its holder gives it up, and the descriptor stays the caller's. */
static void unmake_stream(struct stream *stream)
{
    spinlock_lock(&stream->rx);
    stream->llp = &llp_none;
    stream_abort(stream, false);
    spinlock_unlock(&stream->rx);
    stream_release(stream);
}

/* The Terminate that tells the refusal, as an FPDU of the caller's. NULL: no memory. Inside tx. */
static uint8_t *refusal(struct iwarp_qp *qp, const struct ri_llp_handover *handover, size_t *length)
{
    tx_assert_inside(&qp->core);
    qp->framing.crc = handover->crc;
    qp->framing.markers_transmit = handover->markers_transmit;
    qp->tx.position = qp->tx.full_operation = 0;
    spinlock_lock(&qp->core.life.lock);
    qp->core.life.terminate_length = (uint32_t)terminate_build(qp->core.life.terminate,
                                                               handover->refuse_code, NULL);
    qp->core.life.terminate_sent = handover->refuse_code;
    spinlock_unlock(&qp->core.life.lock);
    return tx_terminate_fpdu(qp, length);
}

/* Refuse: a Terminate without headers is all that the connection sends. No QP names the stream:
 * this function holds it, also while it ends at once because the peer has closed already, and gives
 * it up at the end. Inside tx. */
static enum ri_status refuse(struct iwarp_qp *qp, const struct ri_llp_handover *handover,
                             const struct llp_ops *llp)
{
    struct stream *stream;
    size_t length = 0;
    uint8_t *tail;
    enum ri_status status = stream_open(qp->core.lane, NULL, handover, llp, &iwarp_stream_timers,
                                        &stream);

    if (status != RI_OK)
        return status;
    status = watch_stream(qp, stream, handover->fd);
    if (status != RI_OK) {
        unmake_stream(stream);
        return status;
    }
    tail = refusal(qp, handover, &length);
    spinlock_lock(&stream->rx);
    if (tail)
        stream_begin_close(stream, tail, length, false);
    else
        stream_abort(stream, true); /* a FIN alone would be an orderly end */
    spinlock_unlock(&stream->rx);
    stream_release(stream);
    atomic_store(&qp->core.tx.stopped, true);
    atomic_store(&qp->core.life.state, RI_QPS_ERROR);
    return RI_OK;
}

/* What happens if the peer stays silent is in timers.c. */
static void await_first_message(struct iwarp_qp *qp, struct stream *stream)
{
    const struct iwarp_options *options = &iwarp_rnic(qp->core.rnic)->options;
    const struct ri_host *host = qp->core.rnic->host;
    uint64_t wait = options->rtr_timeout_ns;

    if (qp->tx.rtr_to_send) {
        wait = options->rtr_repeat_ns;
        if (!wait)
            return;
        atomic_fetch_or(&stream->attention, ATTEND_SILENT);
    } else if (!qp->rx.rtr_await && options->first_message_wait_ns) {
        wait = options->first_message_wait_ns;
    }
    stream->timer.deadline = clock_after(clock_now(), wait);
    host->timer_set(host, qp->core.lane->base.context, &stream->timer);
}

/* The first pass takes octets that came with the hand-over, and has the stream polled. Inside
 * tx. */
static enum ri_status begin(struct iwarp_qp *qp, const struct ri_llp_handover *handover,
                            const struct llp_ops *llp)
{
    struct stream *stream;
    enum ri_status status;

    status = iwarp_open_reads(qp, handover->ird + qp_is_acknowledged(&qp->core),
                              handover->ord + qp_is_acknowledged(&qp->core));
    if (status == RI_OK)
        status = stream_open(qp->core.lane, qp, handover, llp, &iwarp_stream_timers, &stream);
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
    qp->rx.any = 0;
    qp->rx.write_octets = qp->rx.write_length = 0;
    atomic_store(&qp->rx.behind_stash, false);
    qp->rx.rtr_await = handover->rtr_await;
    rx_choose_path(qp);
    await_first_message(qp, stream);
    qp_connected(&qp->core, qp->core.rnic->wires[WIRE_NETWORK], handover->ird, handover->ord);
    lane_call(stream);
    return RI_OK;
}

enum ri_status iwarp_start(struct iwarp_qp *qp, const struct ri_llp_handover *handover,
                           const struct llp_ops *llp)
{
    tx_assert_inside(&qp->core);
    contract(qp_state(&qp->core) == RI_QPS_IDLE && !qp->stream);
    if (handover->bytes_read_length > RX_RING_OCTETS)
        return RI_ERR_LIMIT;
    return handover->refuse_code ? refuse(qp, handover, llp) : begin(qp, handover, llp);
}

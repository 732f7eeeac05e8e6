/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive: one large read into the lane's ring -> FPDUs -> CRC -> checks in the order of the specification -> place ->
 * deliver. Nothing of an FPDU touches the consumer's memory before its CRC was found right. What is left over at the
 * end of a run, less than one FPDU, moves to the stream's own buffer, and the ring is free again.
 *
 * A check that fails makes a `fault`: the Terminate value, the event, and what the current receive or Read completes with.
 * The first fault ends the connection (5040 7.1); everything read behind it is dropped.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "mpa.h"
#include "rx.h"
#include "terminate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- Terminate received, stage 13 --- */

/* The Read whose Request the peer sends back, known by its MSN; the oldest one where that tells nothing. */
static struct wqe *blamed_read(struct qp *qp, const struct terminate_info *info)
{
    uint32_t out = atomic_load(&qp->ord_out), in = atomic_load(&qp->ord_in), at = out;
    const struct outstanding_read *read;
    struct ddp_hdr hdr;

    if (!info->rdma_hdr || out == in)
        return NULL;
    if (info->ddp_hdr && ddp_get(info->ddp_hdr, info->ddp_hdr_len, &hdr) == DDP_OK && !hdr.tagged) {
        while (at != in && qp->ord_ring[at & (qp->ord_size - 1)].msn != hdr.msn)
            at++;
    }
    read = &qp->ord_ring[(at == in ? out : at) & (qp->ord_size - 1)];
    return read->rtr ? NULL : wq_slot(&qp->sq, read->index);
}

static void on_terminate(struct qp *qp, const struct rdmap_segment *segment)
{
    struct terminate_info info = { .value = 0x01FF };
    struct qp_end end = { .event = RI_EVENT_TERMINATE_RECEIVED,
                          .state = RI_QPS_ERROR,
                          .terminate_received = true,
                          .terminate = segment->payload };

    if (terminate_parse(segment->payload, segment->payload_len, false, &info) == TERMINATE_OK)
        end.wqe = blamed_read(qp, &info);
    end.status = info.value >> 8 == 0x01 ? RI_WC_REMOTE_ACCESS : RI_WC_REMOTE_OPERATION;
    end.terminate_length = segment->payload_len < sizeof(qp->terminate)
                               ? segment->payload_len
                               : (uint32_t)sizeof(qp->terminate);
    end.terminate_value = info.value;
    end.detail = terminate_text(info.value);
    qp_end(qp, &end);
}

/* --- one FPDU --- */

static void end_by_fault(struct qp *qp, const struct mpa_fpdu *fpdu, const struct fault *fault)
{
    uint8_t payload[TERMINATE_PAYLOAD_MAX];
    const struct terminate_cause cause = { fpdu->ulpdu, fpdu->ulpdu_len, fpdu->ulpdu_len, NULL };
    struct qp_end end = { .event = fault->event,
                          .state = RI_QPS_TERMINATE,
                          .send_terminate = true,
                          .terminate_value = fault->value,
                          .terminate = payload,
                          .heard = true,
                          .wqe = fault->wqe,
                          .status = fault->status,
                          .detail = fault->detail };

    end.terminate_length = (uint32_t)terminate_build(payload, fault->value, &cause);
    qp_end(qp, &end);
}

static bool dispatch(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    switch (segment->opcode) {
    case RDMAP_WRITE: return rx_on_write(qp, segment, fault);
    case RDMAP_READ_REQ: return rx_on_read_request(qp, segment, fault);
    case RDMAP_READ_RESP: return rx_on_read_response(qp, segment, fault);
    default: return rx_on_send(qp, segment, fault);
    }
}

/* A Terminate without its L bit ends the stream as any other: no Terminate answers it (C-142). */
static bool is_terminate(enum rdmap_result result, const struct mpa_fpdu *fpdu,
                         struct rdmap_segment *segment)
{
    const uint8_t *ulpdu = fpdu->ulpdu;

    if (result == RDMAP_OK)
        return segment->opcode == RDMAP_TERMINATE;
    if (result != RDMAP_ERR_L || (ulpdu[1] & RDMAP_CTRL_OP) != RDMAP_TERMINATE)
        return false;
    segment->opcode = RDMAP_TERMINATE;
    segment->payload = ulpdu + DDP_UNTAGGED_LEN;
    segment->payload_len = fpdu->ulpdu_len - DDP_UNTAGGED_LEN;
    return true;
}

static enum ri_event_type event_of(enum rdmap_result result)
{
    switch (result) {
    case RDMAP_ERR_MIN:
    case RDMAP_ERR_HDR_TAGGED:
    case RDMAP_ERR_HDR_UNTAGGED: return RI_EVENT_INTEGRITY;
    case RDMAP_ERR_OPCODE:
    case RDMAP_ERR_T: return RI_EVENT_BAD_OPCODE;
    default: return RI_EVENT_REMOTE_OPERATION;
    }
}

/* Stages 4 to 6 that need no state. */
static bool check_segment(struct qp *qp, const struct mpa_fpdu *fpdu, struct rdmap_segment *segment,
                          struct fault *fault)
{
    enum mpa_result framing = mpa_check(fpdu, qp->crc);
    enum rdmap_result result;

    if (framing != MPA_OK)
        return FAULT(mpa_terminate_value(framing), RI_EVENT_INTEGRITY,
                     framing == MPA_ERR_CRC ? "CRC error" : "FPDU of impossible length");
    result = rdmap_check(fpdu->ulpdu, fpdu->ulpdu_len, 0, segment);
    if (is_terminate(result, fpdu, segment))
        return true; /* whatever its queue: the stream has ended (C-142) */
    if (result == RDMAP_OK)
        result = rdmap_check_queue(segment, 0);
    if (result == RDMAP_OK)
        result = rdmap_check_payload(segment);
    if (result != RDMAP_OK)
        return FAULT(rdmap_terminate_value(result), event_of(result), rdmap_result_text(result));
    return true;
}

/* The first valid FPDU lets a responder speak (C-040, C-041). */
static void first_fpdu(struct qp *qp)
{
    atomic_store_explicit(&qp->holding, false, memory_order_release);
    atomic_store(&qp->tx_wanted, true);
    if (qp->rtr_await)
        qp_note_established(qp);
    qp->rtr_await = false;
}

/* False: the stream has ended. */
static bool on_fpdu(struct qp *qp, const struct mpa_fpdu *fpdu)
{
    struct rdmap_segment segment;
    struct fault fault;

    if (!check_segment(qp, fpdu, &segment, &fault)) {
        end_by_fault(qp, fpdu, &fault);
        return false;
    }
    if (segment.opcode == RDMAP_TERMINATE) {
        on_terminate(qp, &segment);
        return false;
    }
    if (!dispatch(qp, &segment, &fault)) {
        end_by_fault(qp, fpdu, &fault);
        return false;
    }
    if (atomic_load_explicit(&qp->holding, memory_order_relaxed))
        first_fpdu(qp);
    return true;
}

/* --- the stream of octets --- */

/* Whole FPDUs from the front; returns the octets left over (0 when the stream has ended). */
static size_t parse(struct qp *qp, uint8_t *octets, size_t length, uint32_t *pieces)
{
    while (length && qp_state(qp) == RI_QPS_RTS) {
        struct mpa_fpdu fpdu;
        size_t need;

        if (mpa_scan(octets, length, &fpdu, &need) != MPA_OK)
            return length;
        ++*pieces;
        if (!on_fpdu(qp, &fpdu))
            return 0;
        octets += fpdu.size;
        length -= fpdu.size;
    }
    return 0;
}

/* Requests whose outcome is known and that only wait to be retired do not count. */
static bool unfinished_request(struct wq *wq)
{
    uint32_t posted = atomic_load(&wq->posted), index;
    bool unfinished = false;

    spinlock_lock(&wq->retire);
    for (index = atomic_load(&wq->done); index != posted && !unfinished; index++)
        unfinished = !atomic_load(&wq_slot(wq, index)->done);
    spinlock_unlock(&wq->retire);
    return unfinished;
}

static bool work_outstanding(struct qp *qp)
{
    return unfinished_request(&qp->sq) || atomic_load(&qp->ord_in) != atomic_load(&qp->ord_out) ||
           atomic_load(&qp->ird_in) != atomic_load(&qp->ird_out);
}

/* The peer's FIN (C-148, C-149, C-057). */
static void on_end(struct qp *qp, struct stream *stream)
{
    uint8_t payload[TERMINATE_PAYLOAD_MAX];
    struct qp_end end = { .event = RI_EVENT_LLP_CLOSED, .state = RI_QPS_ERROR };

    atomic_store(&stream->input_ended, true);
    if (stream->rest_length) {
        end.event = RI_EVENT_LLP_LOST;
        end.detail = "the peer closed inside an FPDU";
    } else if (work_outstanding(qp)) {
        end = (struct qp_end){ .event = RI_EVENT_LLP_CLOSED_BUSY,
                               .state = RI_QPS_TERMINATE,
                               .send_terminate = true,
                               .terminate_value = TERMINATE_STREAM,
                               .terminate = payload,
                               .detail = "the peer closed while work was outstanding" };
        end.terminate_length = (uint32_t)terminate_build(payload, TERMINATE_STREAM, NULL);
    }
    qp_end(qp, &end);
}

static void on_failure(struct qp *qp, struct stream *stream, int error)
{
    bool reset = error == ECONNRESET || error == EPIPE;
    const struct qp_end end = {
        .event = reset ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_LOST,
        .state = RI_QPS_ERROR,
        .lost = true,
        .detail = reset ? "the peer reset the connection" : "the connection is lost",
    };

    atomic_store(&stream->input_ended, true);
    qp_end(qp, &end);
}

/* Nothing was read: not now, the end, or an error; or the send side found one, and what came before it has been read.
 * True: the stream has ended. */
static bool on_nothing(struct qp *qp, struct stream *stream, ssize_t got)
{
    int error = atomic_load(&qp->tx_error);

    if (got < 0 && got != -EAGAIN)
        on_failure(qp, stream, (int)-got);
    else if (error)
        on_failure(qp, stream, error);
    else if (got == 0)
        on_end(qp, stream);
    else
        return false;
    return true;
}

static bool keep_rest(struct stream *stream, const uint8_t *octets, size_t length)
{
    uint8_t *room;

    if (length > stream->rest_room) {
        room = realloc(stream->rest, length);
        if (!room)
            return false;
        stream->rest = room;
        stream->rest_room = (uint32_t)length;
    }
    if (length) {
        memcpy(stream->rest, octets, length);
    } else if (stream->rest_room > REST_KEPT) {
        free(stream->rest);
        stream->rest = NULL;
        stream->rest_room = 0;
    }
    stream->rest_length = (uint32_t)length;
    return true;
}

static uint32_t receive(struct qp *qp, struct stream *stream)
{
    uint8_t *ring = stream->lane->ring;
    size_t before = stream->rest_length, length, left;
    uint32_t pieces = 0;
    ssize_t got = 0;

    if (!stream->rest_fresh) {
        got = stream->llp->receive(stream, ring + before, RX_RING_OCTETS - before);
        if (got <= 0)
            return on_nothing(qp, stream, got);
    }
    if (before)
        memcpy(ring, stream->rest, before);
    stream->rest_fresh = false;
    length = before + (size_t)got;
    left = parse(qp, ring, length, &pieces);
    if ((before || left) && !keep_rest(stream, ring + length - left, left))
        on_failure(qp, stream, ENOMEM);
    if (atomic_load_explicit(&qp->tx_error, memory_order_relaxed))
        lane_mark_ready(stream); /* to the end of what can be read */
    return pieces;
}

uint32_t rx_run(struct stream *stream, uint32_t budget)
{
    uint32_t pieces = 0;
    struct qp *qp;
    bool ended;

    (void)budget;
    if (!spinlock_try(&stream->rx)) {
        lane_mark_ready(stream); /* why it was ready may not be seen again */
        return 0;
    }
    qp = stream->qp;
    if (stream->state == STREAM_CLOSING) {
        stream_continue_close(stream, &ended);
        pieces = ended; /* whoever waits in close has to come again */
    } else if (stream->state == STREAM_OPEN && qp && qp_state(qp) == RI_QPS_RTS) {
        pieces = receive(qp, stream);
    }
    spinlock_unlock(&stream->rx);
    if (!qp)
        return pieces;
    if (atomic_load_explicit(&stream->want_output, memory_order_relaxed))
        tx_kick(qp);
    if (pieces) {
        qp_retire(qp, &qp->rq);
        qp_retire(qp, &qp->sq);
    }
    qp_settle(qp);
    return pieces;
}

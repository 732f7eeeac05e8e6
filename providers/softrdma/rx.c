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
#include "rdmap.h"
#include "softrdma.h"
#include "terminate.h"

#include "base/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fault {
    uint16_t value; /* Terminate to send */
    enum ri_event_type event;
    const char *detail;
    struct wqe *wqe; /* the receive or Read that fails by it, or NULL */
    enum ri_wc_status status;
};

static bool fail(struct fault *fault, struct wqe *wqe, enum ri_wc_status status, uint16_t value,
                 enum ri_event_type event, const char *detail)
{
    *fault = (struct fault){ value, event, detail, wqe, status };
    return false;
}
#define FAULT(value, event, detail) fail(fault, NULL, RI_WC_SUCCESS, value, event, detail)

/* --- placement --- */

/*
 * Consumers poll memory for the end of what the peer writes, and memcpy promises no order: the octets from the last
 * 8-octet boundary to the end are stored last, each with release order (a fence would do; race detectors know none).
 */
static void place(uint8_t *to, const uint8_t *from, uint32_t octets)
{
    uintptr_t end = (uintptr_t)to + octets, boundary = (end - 1) & ~(uintptr_t)7;
    uint32_t head = boundary > (uintptr_t)to ? (uint32_t)(boundary - (uintptr_t)to) : 0;
    uint64_t word;

    memcpy(to, from, head);
    if (octets - head == 8 && boundary >= (uintptr_t)to) {
        memcpy(&word, from + head, sizeof(word));
        __atomic_store_n((uint64_t *)(void *)(to + head), word, __ATOMIC_RELEASE);
        return;
    }
    for (uint32_t i = head; i < octets; i++)
        __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}

/* Place into the elements of a receive, from octet `offset` of the message on. False: an element is not usable. */
static bool scatter(struct qp *qp, const struct wqe *wqe, uint32_t offset, const uint8_t *from,
                    uint32_t octets)
{
    for (uint32_t i = 0; i < wqe->num_sge && octets; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        uint32_t part = sge->length > offset ? sge->length - offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (stag_check_hinted(&qp->rnic->stags, &qp->rx_hint, sge->lkey, qp->pd,
                                  RI_ACCESS_LOCAL_WRITE, sge->addr + offset, part,
                                  &memory) != STAG_OK)
                return false;
            memcpy(memory, from, part);
        }
        from += part;
        octets -= part;
        offset -= part ? offset : sge->length;
    }
    return true;
}

/* --- RDMA Write, stage 7 --- */

static bool on_write(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    static const uint16_t values[] = {
        [STAG_INVALID] = TERMINATE_T_STAG,  [STAG_PD] = TERMINATE_T_STREAM,
        [STAG_ACCESS] = TERMINATE_T_STREAM, [STAG_WRAP] = TERMINATE_T_WRAP,
        [STAG_BOUNDS] = TERMINATE_T_BOUNDS,
    };
    enum stag_result result;
    uint8_t *memory;

    if (!segment->payload_len)
        return true; /* C-081 */
    result = stag_check_hinted(&qp->rnic->stags, &qp->rx_hint, segment->hdr.stag, qp->pd,
                               RI_ACCESS_REMOTE_WRITE, segment->hdr.to, segment->payload_len,
                               &memory);
    if (!(qp->flags & RI_QP_WRITE_ENABLE) &&
        (result == STAG_OK || result == STAG_WRAP || result == STAG_BOUNDS))
        return FAULT(TERMINATE_T_STREAM, RI_EVENT_WRITE_ACCESS, "RDMA Write is not enabled here");
    if (result != STAG_OK)
        return FAULT(values[result], RI_EVENT_WRITE_ACCESS,
                     "RDMA Write beyond what the STag allows");
    place(memory, segment->payload, segment->payload_len);
    TRACE3(place, qp->qpn, memory, segment->payload_len);
    if (segment->hdr.last)
        count_up(&qp->received_messages, 1);
    return true;
}

/* --- Send, stages 6 and 10 --- */

static struct wqe *current_receive(struct qp *qp)
{
    return wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
}

/* The receive under way completes; the queue moves on. */
static void finish_receive(struct qp *qp, struct wqe *wqe, uint32_t octets)
{
    wqe_finish(wqe, RI_WC_SUCCESS, octets);
    atomic_store_explicit(&qp->rq.next,
                          atomic_load_explicit(&qp->rq.next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    qp->message_open = false;
}

/* MSN and buffer (C-070..C-072), or the message under way. */
static bool match_message(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    int32_t distance = ddp_msn_diff(segment->hdr.msn, qp->expect_send_msn);

    if (distance < 0)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send repeats");
    if (!qp->message_open && !wq_pending(&qp->rq))
        return FAULT(TERMINATE_U_NOBUF, RI_EVENT_NO_RECEIVE,
                     "a Send came and no receive is posted");
    if (distance > 0)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "MSN of a Send leaves a gap");
    if (!qp->message_open) {
        qp->message_open = true;
        qp->message_opcode = (uint8_t)segment->opcode;
        qp->message_received = 0;
    }
    return true;
}

#define RECEIVE_FAULT(status, value, event, detail) fail(fault, wqe, status, value, event, detail)

/* Send with Invalidate: no QP can enable it yet, so it ends at C-121 at the latest. */
static bool refuse_invalidate(struct qp *qp, struct wqe *wqe, uint32_t stag, struct fault *fault)
{
    uint8_t *memory;
    uint16_t value = TERMINATE_R_ACCESS;

    switch (stag_check(&qp->rnic->stags, stag, qp->pd, 0, 0, 0, &memory, NULL)) {
    case STAG_INVALID: value = TERMINATE_R_STAG; break;
    case STAG_PD: value = TERMINATE_R_INVALIDATE; break;
    default: break;
    }
    return RECEIVE_FAULT(RI_WC_REMOTE_INVALID_REQUEST, value, RI_EVENT_INVALIDATE_ACCESS,
                         "Send with Invalidate is not enabled here");
}

static bool on_send(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t offset = segment->hdr.mo, octets = segment->payload_len;
    struct wqe *wqe;

    if (!match_message(qp, segment, fault))
        return false;
    wqe = current_receive(qp);
    if (offset > wqe->length || offset != qp->message_received)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_MO, RI_EVENT_RECV_LENGTH,
                             "message offset out of order");
    if (octets > wqe->length - offset)
        return RECEIVE_FAULT(RI_WC_LOCAL_LENGTH, TERMINATE_U_LONG, RI_EVENT_RECV_LENGTH,
                             "message longer than the receive");
    if (qp->message_opcode != segment->opcode)
        return RECEIVE_FAULT(RI_WC_LOCAL_QP, TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE,
                             "the opcode changes inside a message");
    if (!scatter(qp, wqe, offset, segment->payload, octets))
        return RECEIVE_FAULT(RI_WC_LOCAL_PROTECTION, TERMINATE_LOCAL, RI_EVENT_RECV_ACCESS,
                             "receive buffer is not usable");
    qp->message_received += octets;
    if (!segment->hdr.last)
        return true;
    if (segment->op->invalidates)
        return refuse_invalidate(qp, wqe, segment->hdr.ulp_word, fault);
    wqe->wc_flags = segment->op->solicited ? RI_WC_SOLICITED : 0;
    finish_receive(qp, wqe, qp->message_received);
    qp->expect_send_msn++;
    count_up(&qp->received_messages, 1);
    count_up(&qp->received_octets, qp->message_received);
    return true;
}

/* --- Read Request, stage 9 --- */

static bool check_source(struct qp *qp, const struct rdmap_read_req *request, struct fault *fault)
{
    static const uint16_t values[] = {
        [STAG_INVALID] = TERMINATE_R_STAG,  [STAG_PD] = TERMINATE_R_STREAM,
        [STAG_ACCESS] = TERMINATE_R_ACCESS, [STAG_WRAP] = TERMINATE_R_WRAP,
        [STAG_BOUNDS] = TERMINATE_R_BOUNDS,
    };
    enum stag_result result;
    uint8_t *memory;

    if (!request->size)
        return true; /* C-109 */
    result = stag_check(&qp->rnic->stags, request->src_stag, qp->pd, RI_ACCESS_REMOTE_READ,
                        request->src_to, request->size, &memory, NULL);
    if (result != STAG_OK)
        return FAULT(values[result], RI_EVENT_READ_ACCESS, "RDMA Read beyond what the STag allows");
    return true;
}

/* Requests taken and not yet answered may be IRD. A ready-to-receive Read (C-042), the very first FPDU and of no length, needs
 * neither IRD nor the QP's leave. */
static bool on_read_request(struct qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t in = atomic_load_explicit(&qp->ird_in, memory_order_relaxed);
    uint32_t waiting = in - atomic_load_explicit(&qp->ird_out, memory_order_acquire);
    struct rdmap_read_req request;
    bool rtr;

    if (segment->hdr.msn != qp->expect_read_msn)
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION,
                     "MSN of a Read Request out of order");
    rdmap_get_read_req(segment->payload, &request);
    if (waiting >= (qp->ird ? qp->ird : 1u))
        return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION, "more RDMA Reads than IRD");
    rtr = !request.size && atomic_load_explicit(&qp->holding, memory_order_relaxed);
    if (!rtr && (!(qp->flags & RI_QP_READ_ENABLE) || !qp->ird))
        return FAULT(TERMINATE_U_QN, RI_EVENT_READ_ACCESS, "RDMA Read is not enabled here");
    if (!check_source(qp, &request, fault))
        return false;
    qp->ird_ring[in & (qp->ird_size - 1)] = (struct inbound_read){
        .sink_stag = request.sink_stag,
        .sink_to = request.sink_to,
        .source_stag = request.src_stag,
        .source_to = request.src_to,
        .size = request.size,
        .msn = qp->expect_read_msn++,
    };
    atomic_store_explicit(&qp->ird_in, in + 1, memory_order_release);
    atomic_store(&qp->tx_wanted, true);
    return true;
}

/* --- Read Response, stage 8 --- */

static bool response_fault(struct qp *qp, const struct outstanding_read *read,
                           enum ri_wc_status status, struct fault *fault, uint16_t value,
                           const char *detail)
{
    struct wqe *wqe = read->rtr ? NULL : wq_slot(&qp->sq, read->index);

    return fail(fault, wqe, status, value, RI_EVENT_RESPONSE_ERROR, detail);
}

static void finish_read(struct qp *qp, const struct outstanding_read *read)
{
    uint32_t size = read->size;

    if (!read->rtr)
        wqe_finish(wq_slot(&qp->sq, read->index), RI_WC_SUCCESS, size);
    atomic_store_explicit(&qp->ord_out,
                          atomic_load_explicit(&qp->ord_out, memory_order_relaxed) + 1,
                          memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* see must_wait() in tx.c */
    if (wq_pending(&qp->sq))
        atomic_store(&qp->tx_wanted, true); /* something may have waited for it */
}

static bool on_read_response(struct qp *qp, const struct rdmap_segment *segment,
                             struct fault *fault)
{
    uint32_t out = atomic_load_explicit(&qp->ord_out, memory_order_relaxed);
    struct outstanding_read *read = &qp->ord_ring[out & (qp->ord_size - 1)];
    uint32_t octets = segment->payload_len;
    uint8_t *memory;

    if (out == atomic_load_explicit(&qp->ord_in, memory_order_acquire))
        return FAULT(TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE, "Read Response that nobody asked for");
    if (octets && segment->hdr.stag != read->sink_stag)
        return response_fault(qp, read, RI_WC_BAD_RESPONSE, fault, TERMINATE_T_STAG,
                              "Read Response for another sink STag");
    if (octets && segment->hdr.to != read->sink_to + read->received)
        return response_fault(qp, read, RI_WC_BAD_RESPONSE, fault, TERMINATE_T_BOUNDS,
                              "Read Response out of order");
    if (octets > read->size - read->received)
        return response_fault(qp, read, RI_WC_LOCAL_LENGTH, fault, TERMINATE_T_BOUNDS,
                              "Read Response longer than the Read");
    if (segment->hdr.last && read->received + octets != read->size)
        return response_fault(qp, read, RI_WC_LOCAL_LENGTH, fault, TERMINATE_STREAM,
                              "Read Response shorter than the Read");
    if (octets) {
        if (stag_check_hinted(&qp->rnic->stags, &qp->rx_hint, read->sink_stag, qp->pd,
                              RI_ACCESS_LOCAL_WRITE, segment->hdr.to, octets, &memory) != STAG_OK)
            return response_fault(qp, read, RI_WC_LOCAL_PROTECTION, fault, TERMINATE_T_STAG,
                                  "sink of an RDMA Read was revoked");
        place(memory, segment->payload, octets);
        TRACE3(place, qp->qpn, memory, octets);
        read->received += octets;
    }
    if (segment->hdr.last)
        finish_read(qp, read);
    return true;
}

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
    case RDMAP_WRITE: return on_write(qp, segment, fault);
    case RDMAP_READ_REQ: return on_read_request(qp, segment, fault);
    case RDMAP_READ_RESP: return on_read_response(qp, segment, fault);
    default: return on_send(qp, segment, fault);
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

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, the next batch: work requests -> messages -> segments -> FPDUs. Inside tx only.
 *
 * ORDER in a batch: what the hand-over left (MPA Reply), the ready-to-receive message, then Read
 * Responses and requests, which take turns at being first. A message that was begun is finished
 * before anything else is sent: some receivers take no segments of another message in between. A
 * responder holds its requests until one valid FPDU has come (RFC 5044 7.1.2).
 */
#include "headers.h"
#include "request.h"

/* --- requests --- */

/* Payload of the next segment. */
static uint32_t segment_octets(const struct iwarp_qp *qp, const struct wqe *wqe, bool tagged)
{
    return min_u64(wqe->length - qp->tx.message_offset, fpdu_payload_max(qp, tagged));
}

static enum rdmap_opcode opcode_of_send(const struct wqe *wqe)
{
    switch (wqe->opcode) {
    case RI_WR_SEND_INVALIDATE: return RDMAP_SEND_INV;
    case RI_WR_SEND_IMMEDIATE: return RDMAP_SEND_IMM;
    default: return RDMAP_SEND;
    }
}

/* The other end agreed that immediate data may come with a Send. */
static bool is_fused(const struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->core.attr.fused, memory_order_relaxed);
}

static bool send_segment(struct iwarp_qp *qp, const struct wqe *wqe)
{
    uint32_t octets = segment_octets(qp, wqe, false);
    bool last = qp->tx.message_offset + octets == wqe->length;
    struct fpdu fpdu;
    uint32_t head = tx_put_send(qp, fpdu_begin(qp, &fpdu), wqe, opcode_of_send(wqe),
                                (uint32_t)qp->tx.message_offset, octets, last);

    fpdu_send_payload(qp, wqe, &fpdu, head, octets);
    qp->tx.message_offset += octets;
    return last;
}

static bool write_segment(struct iwarp_qp *qp, const struct wqe *wqe)
{
    uint32_t octets = segment_octets(qp, wqe, true);
    bool last = qp->tx.message_offset + octets == wqe->length;
    struct fpdu fpdu;
    uint32_t head = tx_put_write(fpdu_begin(qp, &fpdu), wqe, qp->tx.message_offset, octets, last);

    fpdu_send_payload(qp, wqe, &fpdu, head, octets);
    qp->tx.message_offset += octets;
    return last;
}

static void send_read_request(struct iwarp_qp *qp, const struct outstanding_read *record,
                              const struct rdmap_read_req *request)
{
    struct fpdu fpdu;
    uint8_t *at = fpdu_begin(qp, &fpdu);

    *tx_outstanding_place(qp) = *record;
    fpdu_end_short(qp, &fpdu, tx_put_read_request(at, request, tx_note_awaited(qp)));
}

/* A Read of no octets names no sink. */
static bool read_request(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    const struct rdmap_read_req nothing = { .src_stag = wqe->rkey, .src_to = wqe->remote_addr };
    const struct rdmap_read_req request = wqe->length ? tx_describe_read(wqe) : nothing;
    const struct outstanding_read record = {
        .index = index,
        .sink_stag = request.sink_stag,
        .sink_to = request.sink_to,
        .size = request.size,
        .invalidates = wqe->opcode == RI_WR_RDMA_READ_INVALIDATE,
    };

    if (request.size > SMALL_READ) {
        qp->tx.long_reads = true;
        qp->tx.single_below = 0;
    }
    send_read_request(qp, &record, &request);
    return true;
}

/* The sink of a Read, and of an atomic, may be a window that the peer may write to. */
static bool is_window_sink(struct iwarp_qp *qp, const struct ri_sge *sge)
{
    struct stag_entry *entry;
    uint8_t *memory;

    if (qp_enter_remote(&qp->core, &qp->tx.answer_hint, sge->lkey, RI_ACCESS_REMOTE_WRITE,
                        sge->addr, sge->length, &memory, &entry) != STAG_OK)
        return false;
    stag_leave(entry);
    return true;
}

/* A request's elements must lie in regions of the QP's PD and have the right. Addresses of
 * sources are replaced by pointers. Elements of length 0 are removed. */
static enum ri_wc_status check_local(struct iwarp_qp *qp, struct wqe *wqe)
{
    bool answered = wqe_is_answered(wqe);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < wqe->num_sge; i++) {
        struct ri_sge sge = wqe->sges[i];
        uint8_t *memory;

        if (!sge.length)
            continue;
        if (!tx_find_local(qp, &sge, answered ? RI_ACCESS_LOCAL_WRITE : RI_ACCESS_LOCAL_READ,
                           sge.length, &memory) &&
            !(answered && is_window_sink(qp, &sge)))
            return RI_WC_LOCAL_PROTECTION;
        if (!answered)
            sge.addr = (uintptr_t)memory;
        wqe->sges[kept++] = sge;
    }
    wqe->num_sge = kept;
    return answered && !qp->core.attr.reads_agreed ? RI_WC_LOCAL_QP : RI_WC_SUCCESS;
}

/* --- how much leaves in one write --- */

/*
 * WRITES FOLLOW SEGMENTS. Both ends spend time on each octet: one sums it and copies it into the
 * kernel, the other copies it out, sums and places it. If TCP segments are large (loopback: 64 KiB)
 * a write is some segments, each cut into FPDUs that fill it, so that FPDUs do not lie in two. A
 * stream takes WRITE_SEGMENTS a write: with fewer, calls and the socket's lock take more of the
 * time. A message that is alone (is_single) takes one, so that the peer works on it while the next
 * one is summed. The last two segments of a single message leave in halves, the first half a little
 * longer: no later output keeps both ends busy. With CRC off nothing is summed, and a segment of a
 * stream, or such a half, is one FPDU. If segments are small the kernel cuts a long write better
 * than this code would.
 */
static void size_segments(struct iwarp_qp *qp, uint32_t segments)
{
    uint32_t pieces = qp->framing.crc ? qp->tx.fpdus : segments == 1 ? 2 : 1;

    batch_fill_segments(&qp->tx.batch, qp->tx.fpdu_size * qp->tx.fpdus / pieces & ~3u,
                        pieces * segments);
}

static void choose_size(struct iwarp_qp *qp)
{
    if (qp->tx.split)
        batch_fill_tail(&qp->tx.batch, qp->tx.fpdu_size * qp->tx.fpdus);
    else if (qp->tx.fpdu_size)
        size_segments(qp, WRITE_SEGMENTS);
    else
        batch_fill_any(&qp->tx.batch);
    qp->tx.resize_batch = qp->tx.split;
}

/* The batch is empty, and `left` octets of a single message are next. */
static void size_single(struct iwarp_qp *qp, uint64_t left)
{
    uint32_t segment = qp->tx.fpdu_size * qp->tx.fpdus, payload;
    uint32_t count = qp->framing.crc ? (qp->tx.fpdus + 1) / 2 : 1;

    qp->tx.resize_batch = true;
    batch_fill_tail(&qp->tx.batch, segment);
    if (left <= ddp_payload_max(qp->tx.mulpdu, false))
        return;
    size_segments(qp, 1);
    if (left > 2 * (uint64_t)segment)
        return;
    payload = ((uint32_t)left / 32 * 17 / count + FPDU_ALIGN) & ~(FPDU_ALIGN - 1);
    qp->tx.split = payload + FPDU_OVERHEAD <= segment / count;
    if (qp->tx.split)
        batch_fill_segments(&qp->tx.batch, payload + FPDU_OVERHEAD, count);
}

/*
 * No other message is with it, and the peer said something since the last single one. A consumer
 * that streams has one request to post for each completion that it finds: its messages come one by
 * one, too, and their halves and single segments would cost both ends twice the calls and the
 * acknowledgements.
 */
static bool is_single(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    uint64_t heard;

    if (!qp->tx.fpdu_size || qp->tx.batch.count || qp->tx.split || wqe_is_answered(wqe) ||
        index + 1 != atomic_load_explicit(&qp->core.sq.posted, memory_order_acquire))
        return false;
    if (!qp->tx.message_offset) {
        heard = atomic_load_explicit(&qp->core.counters.received_messages, memory_order_relaxed);
        qp->tx.single = heard != qp->tx.heard;
        qp->tx.heard = heard;
    }
    return qp->tx.single;
}

/* --- one request --- */

static bool begin_message(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index)
{
    enum ri_wc_status status;

    if ((wqe->flags & TX_MAY_WAIT) && tx_must_wait(qp, wqe, index))
        return false;
    status = check_local(qp, wqe);
    if (status != RI_WC_SUCCESS) {
        tx_end_locally(qp, wqe, status);
        return false;
    }
    qp->tx.message_begun = true;
    qp->tx.single = false;
    qp->tx.message_offset = 0;
    qp->tx.cursor_sge = qp->tx.cursor_offset = 0;
    return true;
}

static bool next_segment(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index)
{
    switch (wqe->opcode) {
    case RI_WR_SEND:
    case RI_WR_SEND_INVALIDATE: return send_segment(qp, wqe);
    case RI_WR_RDMA_WRITE: return write_segment(qp, wqe);
    case RI_WR_RDMA_WRITE_IMMEDIATE:
        if (qp->tx.immediate_due)
            return tx_immediate(qp, wqe);
        qp->tx.immediate_due = write_segment(qp, wqe);
        return false;
    case RI_WR_SEND_IMMEDIATE: return is_fused(qp) ? send_segment(qp, wqe) : tx_immediate(qp, wqe);
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: return tx_atomic_request(qp, wqe, index);
    default: return read_request(qp, wqe, index);
    }
}

enum step { STEP_STOP, STEP_AGAIN, STEP_BUILT };

/* Option guard: the payload of the next segment is read first. False: there is no room now, or the
 * stream has ended. */
static __attribute__((noinline)) bool fetch_segment(struct iwarp_qp *qp, struct wqe *wqe)
{
    bool tagged = wqe->opcode == RI_WR_RDMA_WRITE || wqe->opcode == RI_WR_RDMA_WRITE_IMMEDIATE;

    if (wqe_is_answered(wqe) || qp->tx.immediate_due ||
        (wqe->opcode == RI_WR_SEND_IMMEDIATE && !is_fused(qp)))
        return true;
    if (qp->tx.batch.bounce_used + qp->tx.mulpdu > TX_BOUNCE_OCTETS ||
        (!qp->tx.batch.bounce && !tx_borrow_bounce(qp)))
        return false;
    if (fpdu_fetch_payload(qp, wqe, segment_octets(qp, wqe, tagged)))
        return true;
    tx_end_locally(qp, wqe, RI_WC_LOCAL_PROTECTION);
    return false;
}

/* The next segment of any request, begun or not. */
static enum step step_of_message(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index)
{
    if (!qp->tx.message_begun) {
        if (wqe_is_local(wqe))
            return tx_local(qp, wqe, index) ? STEP_AGAIN : STEP_STOP;
        if (!begin_message(qp, wqe, index))
            return STEP_STOP;
    }
    if (unlikely(qp->tx.source_gone)) {
        tx_end_locally(qp, wqe, RI_WC_LOCAL_PROTECTION);
        return STEP_STOP;
    }
    if (is_single(qp, wqe, index))
        size_single(qp, wqe->length - qp->tx.message_offset);
    if (unlikely(qp->core.rnic->options.guard) && !fetch_segment(qp, wqe))
        return STEP_STOP;
    if (!next_segment(qp, wqe, index))
        return STEP_AGAIN;
    qp->tx.message_begun = qp->tx.split = false;
    return STEP_BUILT;
}

static inline bool room(const struct iwarp_qp *qp)
{
    return batch_room(qp) || (qp->tx.message_begun && batch_room_begun(qp));
}

/* Build requests, as many as fit, or only the message under way. */
static void build_requests(struct iwarp_qp *qp, bool only_one)
{
    tx_assert_inside(&qp->core);
    while (room(qp) && qp_state(&qp->core) == RI_QPS_RTS && wq_pending(&qp->core.sq)) {
        uint32_t index = atomic_load_explicit(&qp->core.sq.next, memory_order_relaxed);
        struct wqe *wqe = wq_slot(&qp->core.sq, index);
        enum step step = STEP_BUILT;

        if (unlikely(qp->tx.long_reads) && !qp->tx.message_begun && tx_is_far_ahead(qp, wqe))
            return;
        if (qp->tx.message_begun || !tx_is_short(qp, wqe) || !tx_short(qp, wqe))
            step = step_of_message(qp, wqe, index);
        if (step == STEP_STOP)
            return;
        if (step == STEP_AGAIN)
            continue;
        wqe->end = qp->tx.position;
        if (qp_is_acknowledged(&qp->core))
            qp->tx.unasked = wqe_is_answered(wqe) ? 0 : qp->tx.unasked + 1;
        atomic_store_explicit(&qp->core.sq.next, index + 1, memory_order_release);
        count_up(&qp->core.counters.sent_messages, 1);
        count_up(&qp->core.counters.sent_octets, wqe->length);
        if (only_one)
            return;
    }
}

/* --- messages of its own --- */

static void build_ack_request(struct iwarp_qp *qp)
{
    const struct outstanding_read record = { .index = atomic_load_explicit(&qp->core.sq.next,
                                                                           memory_order_relaxed),
                                             .own = true,
                                             .ack = true };
    const struct rdmap_read_req nothing = { .size = 0 };

    atomic_store_explicit(&qp->reads.ack_asked, true, memory_order_relaxed);
    qp->tx.unasked = 0;
    send_read_request(qp, &record, &nothing);
}

static void build_rtr(struct iwarp_qp *qp)
{
    const struct outstanding_read record = { .index = UINT32_MAX, .own = true };
    const struct rdmap_read_req nothing = { .size = 0 };
    const struct wqe empty = { 0 };
    struct fpdu fpdu;
    uint8_t *at = fpdu_begin(qp, &fpdu);

    switch (qp->tx.rtr_to_send) {
    case RI_RTR_READ: send_read_request(qp, &record, &nothing); break;
    case RI_RTR_SEND:
        fpdu_end_short(qp, &fpdu, tx_put_send(qp, at, &empty, RDMAP_SEND, 0, 0, true));
        break;
    case RI_RTR_WRITE: fpdu_end_short(qp, &fpdu, tx_put_write(at, &empty, 0, 0, true)); break;
    default: break;
    }
    qp->tx.rtr_to_send = RI_RTR_NONE;
}

/* Responses and requests take turns: with batches, and with messages that take several batches.
 * A message that was begun continues first. */
static void build_messages(struct iwarp_qp *qp)
{
    bool requests = qp->tx.requests_first, full;

    if (qp->tx.message_begun) {
        build_requests(qp, true);
        requests = false;
    } else if (qp->tx.response_begun) {
        tx_build_responses(qp, true);
        requests = true;
    }
    if (qp->tx.message_begun || qp->tx.response_begun)
        return;
    full = qp->tx.batch.octets >= qp->tx.batch.full;
    qp->tx.requests_first = requests == full; /* without room it was no turn */
    if (requests)
        build_requests(qp, false);
    if (!qp->tx.message_begun)
        tx_build_responses(qp, false);
    if (!requests && !qp->tx.response_begun)
        build_requests(qp, false);
}

bool tx_begin_batch(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    if (unlikely(!qp->tx.batch.memory) && !tx_borrow(qp))
        return false;
    batch_reset(&qp->tx.batch);
    if (qp->tx.position >= qp->tx.learn_at)
        fpdu_learn_mulpdu(qp);
    if (unlikely(qp->tx.resize_batch))
        choose_size(qp);
    return true;
}

bool tx_build(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    if (!tx_begin_batch(qp))
        return false;
    if (qp->tx.rtr_to_send)
        build_rtr(qp);
    qp->tx.single_below = qp_is_acknowledged(&qp->core) || qp->tx.long_reads ? 0
                                                                             : qp->tx.short_below;
    if (atomic_load_explicit(&qp->core.tx.holding, memory_order_acquire)) {
        qp->tx.single_below = 0;
        tx_build_responses(qp, false);
    } else if (atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed) !=
               atomic_load_explicit(&qp->reads.ird_out, memory_order_relaxed))
        build_messages(qp);
    else
        build_requests(qp, false);
    if (unlikely(qp->tx.unasked) && batch_room(qp) && tx_ack_is_due(qp))
        build_ack_request(qp);
    return qp->tx.batch.octets != 0;
}

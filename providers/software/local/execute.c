/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The peer's requests, executed in the order in which it has published them. Under rx, in a pass.
 *
 * A message comes in pieces, and each piece is placed when it is found. A Send without a receive
 * stays in the ring, with all that is behind it, until one is posted or the patience of the two
 * ends is over (RI_QPM_RNR: the peer's count, the timer of this side). A Read whose octets have no
 * room in the answers stays there until the peer has taken some; a Send by reference, until its
 * octets are copied (reference.c).
 */
#include "execute.h"

#include "memory.h"

#include "base/trace.h"

/* --- errors --- */

static const struct refusal broken = { RI_EVENT_REMOTE_OPERATION, 0x0207, RI_WC_REMOTE_OPERATION, 0,
                                       "what the peer has published is no request" };
static const struct refusal no_receive = { RI_EVENT_NO_RECEIVE, 0x1202, RI_WC_REMOTE_OPERATION, 0,
                                           "a Send came and no receive is posted" };
static const struct refusal not_ready = {
    RI_EVENT_NO_RECEIVE, 0x1202, RI_WC_RNR, 0,
    "a Send came and no receive was posted within the agreed retries (rnr_retry)"
};
static const struct refusal too_long = { RI_EVENT_RECV_LENGTH, 0x1205, RI_WC_REMOTE_INVALID_REQUEST,
                                         RI_WC_LOCAL_LENGTH, "message longer than the receive" };
static const struct refusal receive_gone = { RI_EVENT_RECV_ACCESS, 0x0000, RI_WC_REMOTE_OPERATION,
                                             RI_WC_LOCAL_PROTECTION,
                                             "receive buffer is not usable" };
static const struct refusal write_disabled = { RI_EVENT_WRITE_ACCESS, 0x1102, RI_WC_REMOTE_ACCESS,
                                               0, "RDMA Write is not enabled here" };
static const struct refusal write_gone = { RI_EVENT_WRITE_ACCESS, 0x1000, RI_WC_REMOTE_ACCESS, 0,
                                           "memory of an RDMA Write is gone" };

/* Of the STag that a Write names. */
static const uint16_t write_codes[] = { [STAG_INVALID] = 0x1100,
                                        [STAG_PD] = 0x1102,
                                        [STAG_ACCESS] = 0x1102,
                                        [STAG_WRAP] = 0x1103,
                                        [STAG_BOUNDS] = 0x1101 };

/* --- receives --- */

static void end_waiting(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    host->timer_cancel(host, qp->core->lane->base.context, &qp->patience);
    atomic_store(&qp->patience_over, false);
    atomic_store(&qp->waits, false);
}

static void begin_waiting(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    atomic_store(&qp->waits, true);
    count_up(&qp->core->counters.waits, 1);
    qp->patience.deadline = qp->rules ? clock_after(clock_now(), local_sender_patience(qp))
                                      : qp_patience_over(qp->core, clock_now());
    if (qp->patience.deadline != CLOCK_NEVER)
        host->timer_set(host, qp->core->lane->base.context, &qp->patience);
}

/* The receive was posted meanwhile, or its post lets a pass look. */
static enum outcome wait_for_post(struct local_qp *qp)
{
    struct qp *core = qp->core;

    if (!atomic_load(&qp->waits))
        begin_waiting(qp);
    if (!wq_await_post(core->srq ? &core->srq->queue : &core->rq))
        tx_defer_to_lane(core); /* posted meanwhile */
    return OUTCOME_WAIT;
}

/* InfiniBand's: the Send fails at its sender alone, and nothing that is behind it is executed. */
static void refuse_not_ready(struct local_qp *qp)
{
    struct local_page *own = qp->own;

    local_assert_rx(qp);
    qp->deaf = true;
    qp->refused = (struct refused){ true, atomic_load_explicit(&qp->done, memory_order_relaxed), 0,
                                    RI_WC_RNR };
    local_tell_progress(qp);
    atomic_store_explicit(&own->number, qp->refused.number, memory_order_relaxed);
    atomic_store_explicit(&own->status, qp->refused.status, memory_order_relaxed);
    atomic_store_explicit(&own->code, qp->refused.code, memory_order_relaxed);
    atomic_store_explicit(&own->ended, LOCAL_REFUSED, memory_order_release);
    local_wake_peer(qp);
}

/* InfiniBand's: only the sender's retries count. */
static enum outcome await_receive_for_sender(struct local_qp *qp)
{
    if (!atomic_load(&qp->patience_over) && local_sender_patience(qp))
        return wait_for_post(qp);
    refuse_not_ready(qp);
    return OUTCOME_ENDED;
}

static enum outcome await_receive(struct local_qp *qp, const struct refusal *why)
{
    struct qp *core = qp->core;
    struct refusal refusal = *why;

    if (qp->rules)
        return await_receive_for_sender(qp);
    if (qp_is_acknowledged(core)) /* InfiniBand's word for it */
        refusal.status = RI_WC_RNR;
    if (!core->attr.rnr_retry || core->attr.rq_hard_limit != UINT32_MAX)
        return local_refuse(qp, &refusal);
    if (atomic_load(&qp->patience_over))
        return local_refuse(qp, &not_ready);
    return wait_for_post(qp);
}

/* It is at rq.next. */
static enum outcome take_receive(struct local_qp *qp)
{
    struct qp *core = qp->core;
    struct refusal why = no_receive;

    if (qp->has_receive)
        return OUTCOME_DONE;
    if (!(core->srq ? qp_take_shared(core, &why.detail) : wq_pending(&core->rq)))
        return await_receive(qp, &why);
    if (atomic_load_explicit(&qp->waits, memory_order_relaxed))
        end_waiting(qp);
    qp->has_receive = true;
    return OUTCOME_DONE;
}

static inline void finish_receive(struct local_qp *qp, uint16_t flags, uint32_t octets)
{
    struct qp *core = qp->core;
    struct wqe *receive = local_next_receive(core);

    if (flags & RING_SOLICITED)
        receive->wc_flags |= RI_WC_SOLICITED;
    count_up(&core->counters.received_messages, 1);
    count_up(&core->counters.received_octets, octets);
    atomic_store_explicit(&core->rq.next,
                          atomic_load_explicit(&core->rq.next, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    qp->has_receive = false;
    wqe_finish(receive, RI_WC_SUCCESS, octets);
}

/* Octets of the message from `placed` on, into the elements of the receive. False: one of them is
 * not usable. */
static bool scatter(struct local_qp *qp, const uint8_t *from, uint32_t octets)
{
    struct qp *core = qp->core;
    const struct wqe *receive = local_next_receive(core);
    const struct ri_sge *sges = core->srq ? core->srq_sges : receive->sges;
    uint64_t offset = qp->placed;

    for (uint32_t i = 0; i < receive->num_sge && octets; i++) {
        uint32_t part = sges[i].length > offset ? sges[i].length - (uint32_t)offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part && (stag_check_hinted(&core->rnic->stags, &qp->receive_hint, sges[i].lkey,
                                       core->recv_pd, RI_ACCESS_LOCAL_WRITE, sges[i].addr + offset,
                                       part, &memory) != STAG_OK ||
                     !local_place(qp, sges[i].lkey, memory, from, part, USE_RECEIVE)))
            return false;
        from += part;
        octets -= part;
        offset -= part ? offset : sges[i].length;
    }
    return true;
}

/* --- Send, immediate data --- */

/* The message is placed. What it invalidates is quiet before its receive completes. */
static enum outcome invalidate_named(struct local_qp *qp)
{
    static const struct {
        uint16_t code;
        const char *detail;
    } reasons[] = {
        [INVALIDATE_STAG] = { 0x0100, "Send with Invalidate of an unknown STag" },
        [INVALIDATE_SCOPE] = { 0x0109,
                               "Send with Invalidate of an STag that is not of this connection" },
        [INVALIDATE_ACCESS] = { 0x0102, "Send with Invalidate is not allowed here" },
        [INVALIDATE_KIND] = { 0x0109,
                              "Send with Invalidate of an STag that no peer may invalidate" },
    };
    uint32_t stag = (uint32_t)qp->message.operand;
    enum invalidate_result result = invalidate_begin(qp->core, stag, true);
    struct wqe *receive = local_next_receive(qp->core);

    if (result == INVALIDATE_REVOKED)
        invalidate_quiet(qp->core->rnic, stag_find(&qp->core->rnic->stags, stag));
    else if (result != INVALIDATE_DONE)
        return local_refuse(qp,
                            &(struct refusal){ RI_EVENT_INVALIDATE_ACCESS, reasons[result].code,
                                               RI_WC_REMOTE_ACCESS, RI_WC_REMOTE_INVALID_REQUEST,
                                               reasons[result].detail });
    receive->operand = stag;
    receive->wc_flags |= RI_WC_WITH_INVALIDATE;
    return OUTCOME_DONE;
}

static enum outcome end_message(struct local_qp *qp)
{
    struct wqe *receive = local_next_receive(qp->core);

    if (qp->message.opcode == RI_WR_SEND_INVALIDATE) {
        enum outcome outcome = invalidate_named(qp);

        if (outcome != OUTCOME_DONE)
            return outcome;
    }
    if (qp->message.opcode == RI_WR_SEND_IMMEDIATE) {
        receive->operand = qp->message.operand & UINT32_MAX;
        receive->wc_flags |= RI_WC_WITH_IMMEDIATE | WC_OF_SEND;
    }
    finish_receive(qp, qp->message.flags, qp->message.length);
    return OUTCOME_DONE;
}

static enum outcome place_message(struct local_qp *qp, const uint8_t *octets, uint32_t piece)
{
    enum outcome outcome = take_receive(qp);

    if (outcome != OUTCOME_DONE)
        return outcome;
    if (qp->message.length > local_next_receive(qp->core)->length)
        return local_refuse(qp, &too_long);
    if (!scatter(qp, octets, piece))
        return local_refuse(qp, &receive_gone);
    qp->placed += piece;
    return qp->placed == qp->message.length ? end_message(qp) : OUTCOME_DONE;
}

/* Where no way leads to them, the peer is asked for the octets: they come as further pieces. */
static enum outcome place_reference(struct local_qp *qp)
{
    enum outcome outcome = take_receive(qp);

    if (outcome != OUTCOME_DONE)
        return outcome;
    if (qp->message.length > local_next_receive(qp->core)->length)
        return local_refuse(qp, &too_long);
    switch (local_copy_reference(qp)) {
    case LOCAL_COPY_DONE: return end_message(qp);
    case LOCAL_COPY_MORE: return OUTCOME_WAIT;
    case LOCAL_COPY_GONE: return local_refuse(qp, &receive_gone);
    default: break;
    }
    qp->placed = 0;
    qp->no_references = true;
    local_tell_progress(qp); /* which one it is */
    atomic_store_explicit(&qp->own->no_references, 1, memory_order_release);
    return OUTCOME_DONE;
}

/* Alone, or behind a Write. Fused, it tells the length of that; else it has 8 octets. */
static enum outcome take_immediate(struct local_qp *qp)
{
    const bool fused = qp->message.flags & RING_FUSED;
    enum outcome outcome = take_receive(qp);
    struct wqe *receive = local_next_receive(qp->core);

    if (outcome != OUTCOME_DONE)
        return outcome;
    receive->operand = fused ? qp->message.operand & UINT32_MAX : qp->message.operand;
    receive->wc_flags |= RI_WC_WITH_IMMEDIATE;
    finish_receive(qp, qp->message.flags, fused ? qp->message.length : 0);
    return OUTCOME_DONE;
}

/* --- RDMA Write --- */

static enum outcome place_write(struct local_qp *qp, const uint8_t *octets, uint32_t piece)
{
    struct qp *core = qp->core;
    enum stag_result result;
    uint8_t *memory;

    if (!piece)
        return OUTCOME_DONE;
    result = qp_check_remote(core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_WRITE,
                             qp->message.remote_addr + qp->placed, piece, &memory);
    if (result == STAG_OK && !qp_allows(core, RI_QP_WRITE_ENABLE))
        return local_refuse_disabled(qp, &write_disabled);
    if (result != STAG_OK)
        return local_refuse_stag(qp, RI_EVENT_WRITE_ACCESS, write_codes[result],
                                 "RDMA Write with an invalid STag, or beyond what it allows");
    if (!local_place_seen(qp, qp->message.rkey, memory, octets, piece, USE_REMOTE_WRITE))
        return local_refuse(qp, &write_gone);
    TRACE3(place, core->qpn, memory, piece);
    qp->placed += piece;
    return OUTCOME_DONE;
}

/* As a whole, before the first octet is placed: no part of a Write that is refused is seen. */
static enum outcome begin_write(struct local_qp *qp)
{
    enum stag_result result;
    uint8_t *memory;

    if (unlikely(qp->rules != NULL) && !qp_allows(qp->core, RI_QP_WRITE_ENABLE))
        return local_refuse_disabled(qp, &write_disabled);
    if (!qp->message.length) {
        count_up(&qp->core->counters.empty_writes, 1);
        count_up(&qp->core->lane->empty_writes, 1);
        return OUTCOME_DONE;
    }
    if (qp->message.length <= RING_PIECE)
        return OUTCOME_DONE; /* place_write() checks all of it */
    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_WRITE,
                             qp->message.remote_addr, qp->message.length, &memory);
    return result == STAG_OK
               ? OUTCOME_DONE
               : local_refuse_stag(qp, RI_EVENT_WRITE_ACCESS, write_codes[result],
                                   "RDMA Write with an invalid STag, or beyond what it allows");
}

static enum outcome end_write(struct local_qp *qp)
{
    if (qp->message.opcode == RI_WR_RDMA_WRITE_IMMEDIATE)
        return take_immediate(qp);
    count_up(&qp->core->counters.received_messages, 1);
    return OUTCOME_DONE;
}

/* --- records --- */

static bool is_send(uint8_t opcode)
{
    return opcode == RI_WR_SEND || opcode == RI_WR_SEND_INVALIDATE ||
           opcode == RI_WR_SEND_IMMEDIATE;
}

static bool carries_octets(uint8_t opcode)
{
    return is_send(opcode) || opcode == RI_WR_RDMA_WRITE || opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
}

static bool is_atomic(uint8_t opcode)
{
    return opcode == RI_WR_ATOMIC_FETCH_ADD || opcode == RI_WR_ATOMIC_COMPARE_SWAP;
}

static bool is_known(uint8_t opcode)
{
    return carries_octets(opcode) || opcode == RI_WR_RDMA_READ ||
           opcode == RI_WR_RDMA_READ_INVALIDATE || is_atomic(opcode);
}

/* Does the record fit the message that it begins or continues? */
static bool is_in_turn(const struct local_qp *qp, const struct ring_header *header)
{
    if (qp->open)
        return header->kind == RING_MORE && header->piece &&
               header->piece <= qp->message.length - qp->placed;
    if (header->kind == RING_REFERENCE)
        return is_send(header->opcode);
    return header->kind == RING_REQUEST && is_known(header->opcode) &&
           (carries_octets(header->opcode)
                ? header->piece <= header->length && (header->piece || !header->length)
                : !header->piece);
}

static bool is_write(const struct local_qp *qp)
{
    return qp->message.opcode == RI_WR_RDMA_WRITE ||
           qp->message.opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
}

/* Of a message that begins: what is checked of it as a whole. */
static enum outcome begin(struct local_qp *qp, const struct ring_header *header,
                          const uint8_t *octets)
{
    qp->message = *header;
    qp->open = true;
    qp->placed = 0;
    if (header->kind == RING_REFERENCE && !local_begin_reference(qp, header, octets))
        return local_refuse(qp, &broken);
    if (is_write(qp))
        return begin_write(qp);
    if (header->opcode == RI_WR_RDMA_READ || header->opcode == RI_WR_RDMA_READ_INVALIDATE)
        return local_check_read(qp);
    return OUTCOME_DONE;
}

static bool is_bare_immediate(const struct local_qp *qp)
{
    return qp->message.opcode == RI_WR_SEND_IMMEDIATE && !(qp->message.flags & RING_FUSED);
}

/* The piece, and what is due behind the last one. A record that has to wait is executed again: its
 * octets are placed once, as `placed` tells. */
static enum outcome execute(struct local_qp *qp, const struct ring_header *header,
                            const uint8_t *octets, bool again)
{
    enum outcome outcome;

    if (!carries_octets(qp->message.opcode))
        return local_execute_answered(qp);
    if (is_bare_immediate(qp))
        return take_immediate(qp);
    if (header->kind == RING_REFERENCE)
        return place_reference(qp);
    if (!is_write(qp))
        return place_message(qp, octets, header->piece);
    outcome = again ? OUTCOME_DONE : place_write(qp, octets, header->piece);
    return outcome == OUTCOME_DONE && qp->placed == qp->message.length ? end_write(qp) : outcome;
}

static bool is_complete(const struct local_qp *qp)
{
    return !carries_octets(qp->message.opcode) || is_bare_immediate(qp) ||
           qp->placed == qp->message.length;
}

static inline void count_request(struct local_qp *qp, uint64_t octets)
{
    atomic_store_explicit(&qp->done, atomic_load_explicit(&qp->done, memory_order_relaxed) + 1,
                          memory_order_release);
    count_up(&qp->counters.for_peer, 1);
    count_up(&qp->counters.for_peer_octets, octets);
}

static void end_request(struct local_qp *qp)
{
    qp->open = false;
    count_request(qp, is_atomic(qp->message.opcode) ? ATOMIC_OCTETS : qp->placed);
}

/* What the peer says of the own requests: they complete before what it says behind that. Its page
 * may have told more. */
static inline enum outcome hear_progress(struct local_qp *qp, const struct ring_header *header)
{
    if (!(header->flags & RING_TELLS) || (int32_t)(header->executed - local_heard(qp)) <= 0)
        return OUTCOME_DONE;
    atomic_store_explicit(&qp->heard, header->executed, memory_order_release);
    local_take_answers(qp);
    return qp_state(qp->core) == RI_QPS_RTS ? OUTCOME_DONE : OUTCOME_ENDED;
}

/* --- a Send of one record --- */

/* A Send that is whole, not empty, and begins and ends here. */
static inline bool is_single(const struct local_qp *qp, const struct ring_header *header)
{
    return header->kind == RING_REQUEST && header->opcode == RI_WR_SEND &&
           header->piece == header->length && header->piece && !qp->open && !qp->has_receive;
}

/* Into the first element of an own receive. False, and nothing has changed: it goes the way of
 * every record, which finds what is wrong, if anything is. */
static inline bool take_single(struct local_qp *qp, const struct ring_header *header,
                               const uint8_t *octets)
{
    struct qp *core = qp->core;
    const struct wqe *receive = local_next_receive(core);
    const struct ri_sge *sge = receive->sges;
    uint8_t *memory;

    if (core->srq || !wq_pending(&core->rq) || !receive->num_sge || sge->length < header->piece ||
        atomic_load_explicit(&qp->waits, memory_order_relaxed) || core->rnic->options.guard ||
        stag_check_hinted(&core->rnic->stags, &qp->receive_hint, sge->lkey, core->recv_pd,
                          RI_ACCESS_LOCAL_WRITE, sge->addr, header->piece, &memory) != STAG_OK)
        return false;
    copy_short(memory, octets, header->piece);
    finish_receive(qp, header->flags, header->piece);
    count_request(qp, header->piece);
    ring_pass(&qp->take, header);
    return true;
}

/* --- all records --- */

/* The peer publishes the request once more. */
static enum outcome pass_over(struct local_qp *qp, const struct ring_header *header)
{
    enum outcome outcome = hear_progress(qp, header);

    if (outcome == OUTCOME_DONE)
        ring_pass(&qp->take, header);
    return outcome;
}

/* One record. OUTCOME_WAIT: it stays; what was judged is kept, for the peer may change it. */
static enum outcome take_record(struct local_qp *qp, const struct ring_header *header,
                                const uint8_t *octets)
{
    const bool again = qp->waiting;
    const bool single = !again && is_single(qp, header);
    enum outcome outcome = OUTCOME_DONE;

    local_has_found(qp->memory);
    if (single) {
        outcome = hear_progress(qp, header);
        if (outcome != OUTCOME_DONE || take_single(qp, header, octets))
            return outcome;
    }
    if (!again && header->kind == RING_REFERENCE && qp->no_references)
        return pass_over(qp, header);
    if (!again) {
        qp->record = *header;
        if (!is_in_turn(qp, header))
            return local_refuse(qp, &broken);
        if (header->kind != RING_MORE && !single)
            outcome = hear_progress(qp, header);
        if (outcome == OUTCOME_DONE && !qp->open)
            outcome = begin(qp, header, octets);
    }
    if (outcome == OUTCOME_DONE)
        outcome = execute(qp, &qp->record, octets, again);
    qp->waiting = outcome == OUTCOME_WAIT;
    if (outcome != OUTCOME_DONE)
        return outcome;
    if (is_complete(qp))
        end_request(qp);
    ring_pass(&qp->take, &qp->record);
    if (qp->record.kind == RING_REFERENCE)
        local_tell_progress(qp); /* the peer waits for it */
    return OUTCOME_DONE;
}

void local_tell_progress(struct local_qp *qp)
{
    const uint32_t done = atomic_load_explicit(&qp->done, memory_order_relaxed);

    local_assert_rx(qp);
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->consumed, qp->take.at, memory_order_release);
    atomic_store_explicit(&qp->own->executed, done, memory_order_release);
    atomic_store_explicit(&qp->told, done, memory_order_relaxed);
    local_wake_peer(qp);
}

/* One that waits was judged, and its header is kept. */
static enum ring_found next_record(struct local_qp *qp, struct ring_header *header,
                                   const uint8_t **octets)
{
    if (likely(!qp->waiting))
        return ring_look(&qp->take, header, octets);
    *octets = ring_octets(&qp->take);
    return RING_RECORD_FOUND;
}

static inline bool uses_ring(struct local_qp *qp)
{
    if (unlikely(!qp->looks))
        qp->looks = atomic_load_explicit(&qp->peer->used, memory_order_acquire);
    return qp->looks;
}

uint32_t local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon)
{
    const uint64_t at = qp->take.at, fetched = qp->fetch_at;
    struct ring_header header;
    const uint8_t *octets;
    enum ring_found found = RING_NONE;
    uint32_t records = 0;

    local_assert_rx(qp);
    lane_assert_run(qp->core->lane);
    if (unlikely(qp->deaf) || unlikely(!uses_ring(qp)))
        return 0;
    while (records < budget && (found = next_record(qp, &header, &octets)) != RING_NONE) {
        if (found == RING_BROKEN)
            local_refuse(qp, &broken);
        if (found == RING_BROKEN || take_record(qp, &header, octets) != OUTCOME_DONE)
            break;
        records++;
        /* Long messages: the peer goes on meanwhile. */
        if (qp->take.at - atomic_load_explicit(&qp->own->consumed, memory_order_relaxed) >=
            LOCAL_REQUESTS / 4)
            local_tell_progress(qp);
    }
    if (qp->take.at != at || qp->fetch_at != fetched)
        if (!answers_soon || qp->open || qp->fetch_at != fetched)
            local_tell_progress(qp);
    return records;
}

bool local_has_request(const struct local_qp *qp)
{
    if (unlikely(qp->deaf))
        return false;
    if (atomic_load_explicit(&qp->waits, memory_order_relaxed))
        return atomic_load(&qp->patience_over);
    if (!qp->waiting)
        return local_has_record(qp);
    if (qp->record.kind == RING_REFERENCE)
        return true;
    return local_answer_room(qp) >= (is_atomic(qp->message.opcode) ? ATOMIC_OCTETS : 1);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The peer's requests, executed in the order in which it has published them. Under rx, in a pass.
 *
 * A message comes in pieces, and each piece is placed when it is found. A Send without a receive
 * stays in the ring, with all that is behind it, until one is posted or the patience of the two
 * ends is over (RI_QPM_RNR: the peer's count, the timer of this side). A Read whose octets have no
 * room in the answers stays there until the peer has taken some.
 */
#include "memory.h"

#include "base/trace.h"

enum outcome { OUTCOME_DONE, OUTCOME_WAIT, OUTCOME_ENDED };

/* --- errors --- */

/* An error in what the peer asks for: the event and code here, the status of its request, and of
 * the receive, if one was taken. */
struct refusal {
    enum ri_event_type event;
    uint16_t code; /* as a Terminate of iWARP has it: 0xLECC */
    enum ri_wc_status status, receive_status;
    const char *detail;
};

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
static const struct refusal read_disabled = { RI_EVENT_READ_ACCESS, 0x1201, RI_WC_REMOTE_ACCESS, 0,
                                              "RDMA Read is not enabled here" };
static const struct refusal read_gone = { RI_EVENT_READ_ACCESS, 0x0000, RI_WC_REMOTE_ACCESS, 0,
                                          "memory of an RDMA Read is gone" };
static const struct refusal too_many = { RI_EVENT_REMOTE_OPERATION, 0x1203, RI_WC_REMOTE_OPERATION,
                                         0, "more RDMA Reads and atomics than IRD" };
static const struct refusal no_atomics = { RI_EVENT_BAD_OPCODE, 0x0206, RI_WC_REMOTE_OPERATION, 0,
                                           "atomics are not enabled here" };
static const struct refusal not_aligned = { RI_EVENT_REMOTE_OPERATION, 0x0207,
                                            RI_WC_REMOTE_INVALID_REQUEST, 0,
                                            "target of an atomic is not aligned" };

/* Of the STag that a Write names; of one that a Read or an atomic names. */
static const uint16_t write_codes[] = { [STAG_INVALID] = 0x1100,
                                        [STAG_PD] = 0x1102,
                                        [STAG_ACCESS] = 0x1102,
                                        [STAG_WRAP] = 0x1103,
                                        [STAG_BOUNDS] = 0x1101 };
static const uint16_t read_codes[] = { [STAG_INVALID] = 0x0100,
                                       [STAG_PD] = 0x0103,
                                       [STAG_ACCESS] = 0x0102,
                                       [STAG_WRAP] = 0x0104,
                                       [STAG_BOUNDS] = 0x0101 };

static bool is_about_memory(enum ri_event_type event)
{
    return event == RI_EVENT_WRITE_ACCESS || event == RI_EVENT_READ_ACCESS ||
           event == RI_EVENT_INVALIDATE_ACCESS;
}

static struct wqe *next_receive(struct qp *qp)
{
    return wq_slot(&qp->rq, atomic_load_explicit(&qp->rq.next, memory_order_relaxed));
}

/* The connection ends: local_stop() tells the peer. */
static enum outcome refuse(struct local_qp *qp, const struct refusal *why)
{
    const struct qp_end end = {
        .event = why->event,
        .state = RI_QPS_ERROR,
        .terminate_value = why->code,
        .bad_access = is_about_memory(why->event),
        .wqe = qp->has_receive && why->receive_status ? next_receive(qp->core) : NULL,
        .status = why->receive_status,
        .detail = why->detail,
    };

    local_assert_rx(qp);
    qp->refused = (struct refused){ true, atomic_load_explicit(&qp->done, memory_order_relaxed),
                                    why->code, (uint16_t)why->status };
    if (!qp_end(qp->core, &end))
        qp->refused.is_set = false;
    return OUTCOME_ENDED;
}

static enum outcome refuse_stag(struct local_qp *qp, enum ri_event_type event, uint16_t code,
                                const char *detail)
{
    const struct refusal why = { event, code, RI_WC_REMOTE_ACCESS, 0, detail };

    return refuse(qp, &why);
}

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
    qp->patience.deadline = qp_patience_over(qp->core, clock_now());
    if (qp->patience.deadline != CLOCK_NEVER)
        host->timer_set(host, qp->core->lane->base.context, &qp->patience);
}

static enum outcome await_receive(struct local_qp *qp, const struct refusal *why)
{
    struct qp *core = qp->core;
    struct refusal refusal = *why;

    if (qp_is_acknowledged(core)) /* InfiniBand's word for it */
        refusal.status = RI_WC_RNR;
    if (!core->attr.rnr_retry || core->attr.rq_hard_limit != UINT32_MAX)
        return refuse(qp, &refusal);
    if (atomic_load(&qp->patience_over))
        return refuse(qp, &not_ready);
    if (!atomic_load(&qp->waits))
        begin_waiting(qp);
    if (!wq_await_post(core->srq ? &core->srq->queue : &core->rq))
        tx_defer_to_lane(core); /* posted meanwhile */
    return OUTCOME_WAIT;
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

static void finish_receive(struct local_qp *qp, uint32_t octets)
{
    struct qp *core = qp->core;
    struct wqe *receive = next_receive(core);

    if (qp->message.flags & RING_SOLICITED)
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
    const struct wqe *receive = next_receive(core);
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
    struct wqe *receive = next_receive(qp->core);

    if (result == INVALIDATE_REVOKED)
        invalidate_quiet(qp->core->rnic, stag_find(&qp->core->rnic->stags, stag));
    else if (result != INVALIDATE_DONE)
        return refuse(qp, &(struct refusal){ RI_EVENT_INVALIDATE_ACCESS, reasons[result].code,
                                             RI_WC_REMOTE_ACCESS, RI_WC_REMOTE_INVALID_REQUEST,
                                             reasons[result].detail });
    receive->operand = stag;
    receive->wc_flags |= RI_WC_WITH_INVALIDATE;
    return OUTCOME_DONE;
}

static enum outcome end_message(struct local_qp *qp)
{
    struct wqe *receive = next_receive(qp->core);

    if (qp->message.opcode == RI_WR_SEND_INVALIDATE) {
        enum outcome outcome = invalidate_named(qp);

        if (outcome != OUTCOME_DONE)
            return outcome;
    }
    if (qp->message.opcode == RI_WR_SEND_IMMEDIATE) {
        receive->operand = qp->message.operand & UINT32_MAX;
        receive->wc_flags |= RI_WC_WITH_IMMEDIATE | WC_OF_SEND;
    }
    finish_receive(qp, qp->message.length);
    return OUTCOME_DONE;
}

static enum outcome place_message(struct local_qp *qp, const uint8_t *octets, uint32_t piece)
{
    enum outcome outcome = take_receive(qp);

    if (outcome != OUTCOME_DONE)
        return outcome;
    if (qp->message.length > next_receive(qp->core)->length)
        return refuse(qp, &too_long);
    if (!scatter(qp, octets, piece))
        return refuse(qp, &receive_gone);
    qp->placed += piece;
    return qp->placed == qp->message.length ? end_message(qp) : OUTCOME_DONE;
}

/* Alone, or behind a Write. Fused, it tells the length of that; else it has 8 octets. */
static enum outcome take_immediate(struct local_qp *qp)
{
    const bool fused = qp->message.flags & RING_FUSED;
    enum outcome outcome = take_receive(qp);
    struct wqe *receive = next_receive(qp->core);

    if (outcome != OUTCOME_DONE)
        return outcome;
    receive->operand = fused ? qp->message.operand & UINT32_MAX : qp->message.operand;
    receive->wc_flags |= RI_WC_WITH_IMMEDIATE;
    finish_receive(qp, fused ? qp->message.length : 0);
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
        return refuse(qp, &write_disabled);
    if (result != STAG_OK)
        return refuse_stag(qp, RI_EVENT_WRITE_ACCESS, write_codes[result],
                           "RDMA Write with an invalid STag, or beyond what it allows");
    if (!local_place_seen(qp, qp->message.rkey, memory, octets, piece, USE_REMOTE_WRITE))
        return refuse(qp, &write_gone);
    TRACE3(place, core->qpn, memory, piece);
    qp->placed += piece;
    return OUTCOME_DONE;
}

/* As a whole, before the first octet is placed: no part of a Write that is refused is seen. */
static enum outcome begin_write(struct local_qp *qp)
{
    enum stag_result result;
    uint8_t *memory;

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
               : refuse_stag(qp, RI_EVENT_WRITE_ACCESS, write_codes[result],
                             "RDMA Write with an invalid STag, or beyond what it allows");
}

static enum outcome end_write(struct local_qp *qp)
{
    if (qp->message.opcode == RI_WR_RDMA_WRITE_IMMEDIATE)
        return take_immediate(qp);
    count_up(&qp->core->counters.received_messages, 1);
    return OUTCOME_DONE;
}

/* --- RDMA Read, atomics --- */

/* Octets that the answers have room for. What the peer says is believed as far as it can be
 * true. */
static uint32_t answer_room(const struct local_qp *qp)
{
    uint64_t taken = atomic_load_explicit(&qp->peer->taken, memory_order_acquire);
    uint64_t untaken = qp->fetch_at - taken;

    return untaken <= LOCAL_ANSWERS ? LOCAL_ANSWERS - (uint32_t)untaken : 0;
}

/* Two parts at most: the ring's end is between them. */
static bool answer(struct local_qp *qp, const uint8_t *from, uint32_t octets)
{
    uint8_t *ring = local_answers(qp->memory, qp->memory->side);

    while (octets) {
        uint32_t offset = (uint32_t)(qp->fetch_at & (LOCAL_ANSWERS - 1));
        uint32_t part = LOCAL_ANSWERS - offset < octets ? LOCAL_ANSWERS - offset : octets;

        if (!local_fetch(qp, qp->message.rkey, ring + offset, from, part, USE_REMOTE_READ))
            return false;
        qp->fetch_at += part;
        from += part;
        octets -= part;
    }
    return true;
}

static enum outcome fetch_some(struct local_qp *qp, uint32_t octets)
{
    enum stag_result result;
    uint8_t *memory;

    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_READ,
                             qp->message.remote_addr + qp->placed, octets, &memory);
    if (result != STAG_OK)
        return refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                           "RDMA Read with an invalid STag, or beyond what it allows");
    if (!answer(qp, memory, octets))
        return refuse(qp, &read_gone);
    qp->placed += octets;
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->answered, qp->fetch_at, memory_order_release);
    return OUTCOME_DONE;
}

static enum outcome check_read(struct local_qp *qp)
{
    enum stag_result result;
    uint8_t *memory;

    if (!qp_allows(qp->core, RI_QP_READ_ENABLE) || !qp->core->attr.ird)
        return refuse(qp, &read_disabled);
    if (!qp->message.length)
        return OUTCOME_DONE;
    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_READ,
                             qp->message.remote_addr, qp->message.length, &memory);
    return result == STAG_OK
               ? OUTCOME_DONE
               : refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                             "RDMA Read with an invalid STag, or beyond what it allows");
}

static enum outcome fetch_read(struct local_qp *qp)
{
    while (qp->placed < qp->message.length) {
        uint64_t left = qp->message.length - qp->placed;
        uint32_t room = answer_room(qp), octets = left < room ? (uint32_t)left : room;
        enum outcome outcome;

        if (!octets)
            return OUTCOME_WAIT;
        outcome = fetch_some(qp, octets);
        if (outcome != OUTCOME_DONE)
            return outcome;
    }
    return OUTCOME_DONE;
}

/* The word is the consumer's: a sanitizer is told, and with option guard the kernel asked. */
static bool atomic_on(struct local_qp *qp, uint8_t *word, uint64_t *old)
{
    const bool guarded = qp->core->rnic->options.guard;

    if (guarded && !guard_word(qp->core, qp->message.rkey, word))
        return false;
    *old = atomic_on_word((uint64_t *)(void *)word, qp->message.opcode, qp->message.operand,
                          qp->message.compare);
    if (guarded)
        sanitizer_behind(qp->core, word, ATOMIC_OCTETS, USE_REMOTE_WRITE);
    return true;
}

static void answer_word(struct local_qp *qp, uint64_t word)
{
    uint8_t *ring = local_answers(qp->memory, qp->memory->side);

    for (uint32_t i = 0; i < sizeof(word); i++)
        ring[(qp->fetch_at + i) & (LOCAL_ANSWERS - 1)] = ((uint8_t *)&word)[i];
    qp->fetch_at += sizeof(word);
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->answered, qp->fetch_at, memory_order_release);
}

static enum outcome execute_atomic(struct local_qp *qp)
{
    enum stag_result result;
    uint64_t old;
    uint8_t *word;

    if (!qp_allows(qp->core, RI_QP_ATOMIC_ENABLE))
        return refuse(qp, &no_atomics);
    if (answer_room(qp) < sizeof(old))
        return OUTCOME_WAIT;
    if (!qp->core->attr.ird)
        return refuse(qp, &read_disabled);
    result = qp_check_remote(qp->core, &qp->remote_hint, qp->message.rkey, RI_ACCESS_REMOTE_ATOMIC,
                             qp->message.remote_addr, ATOMIC_OCTETS, &word);
    if (result != STAG_OK)
        return refuse_stag(qp, RI_EVENT_READ_ACCESS, read_codes[result],
                           "atomic with an invalid STag, or beyond what it allows");
    if ((uintptr_t)word % ATOMIC_OCTETS)
        return refuse(qp, &not_aligned);
    if (!atomic_on(qp, word, &old))
        return refuse(qp, &read_gone);
    answer_word(qp, old);
    return OUTCOME_DONE;
}

static enum outcome execute_answered(struct local_qp *qp)
{
    if (qp->core->attr.ird && qp->message.fetching > qp->core->attr.ird)
        return refuse(qp, &too_many);
    return qp->message.opcode == RI_WR_RDMA_READ || qp->message.opcode == RI_WR_RDMA_READ_INVALIDATE
               ? fetch_read(qp)
               : execute_atomic(qp);
}

/* --- records --- */

static bool carries_octets(uint8_t opcode)
{
    return opcode == RI_WR_SEND || opcode == RI_WR_SEND_INVALIDATE ||
           opcode == RI_WR_SEND_IMMEDIATE || opcode == RI_WR_RDMA_WRITE ||
           opcode == RI_WR_RDMA_WRITE_IMMEDIATE;
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
static enum outcome begin(struct local_qp *qp, const struct ring_header *header)
{
    qp->message = *header;
    qp->open = true;
    qp->placed = 0;
    if (is_write(qp))
        return begin_write(qp);
    if (header->opcode == RI_WR_RDMA_READ || header->opcode == RI_WR_RDMA_READ_INVALIDATE)
        return check_read(qp);
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
        return execute_answered(qp);
    if (is_bare_immediate(qp))
        return take_immediate(qp);
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

static void end_request(struct local_qp *qp)
{
    qp->open = false;
    atomic_store_explicit(&qp->done, atomic_load_explicit(&qp->done, memory_order_relaxed) + 1,
                          memory_order_release);
    count_up(&qp->counters.for_peer, 1);
    count_up(&qp->counters.for_peer_octets,
             is_atomic(qp->message.opcode) ? ATOMIC_OCTETS : qp->placed);
}

/* What the peer says of the own requests: they complete before what it says behind that. Its page
 * may have told more. */
static enum outcome hear_progress(struct local_qp *qp, const struct ring_header *header)
{
    if (!(header->flags & RING_TELLS) || (int32_t)(header->executed - local_heard(qp)) <= 0)
        return OUTCOME_DONE;
    atomic_store_explicit(&qp->heard, header->executed, memory_order_release);
    local_take_answers(qp);
    return qp_state(qp->core) == RI_QPS_RTS ? OUTCOME_DONE : OUTCOME_ENDED;
}

/* One record. OUTCOME_WAIT: it stays; what was judged is kept, for the peer may change it. */
static enum outcome take_record(struct local_qp *qp, const struct ring_header *header,
                                const uint8_t *octets)
{
    const bool again = qp->waiting;
    enum outcome outcome = OUTCOME_DONE;

    local_has_found(qp->memory);
    if (!again) {
        qp->record = *header;
        if (!is_in_turn(qp, header))
            return refuse(qp, &broken);
        if (header->kind == RING_REQUEST)
            outcome = hear_progress(qp, header);
        if (outcome == OUTCOME_DONE && !qp->open)
            outcome = begin(qp, header);
    }
    if (outcome == OUTCOME_DONE)
        outcome = execute(qp, &qp->record, octets, again);
    qp->waiting = outcome == OUTCOME_WAIT;
    if (outcome != OUTCOME_DONE)
        return outcome;
    if (is_complete(qp))
        end_request(qp);
    ring_pass(&qp->take, &qp->record);
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

uint32_t local_execute(struct local_qp *qp, uint32_t budget, bool answers_soon)
{
    const uint64_t at = qp->take.at, fetched = qp->fetch_at;
    struct ring_header header;
    const uint8_t *octets;
    enum ring_found found = RING_NONE;
    uint32_t records = 0;

    local_assert_rx(qp);
    lane_assert_run(qp->core->lane);
    while (records < budget && (found = next_record(qp, &header, &octets)) != RING_NONE) {
        if (found == RING_BROKEN)
            refuse(qp, &broken);
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
    if (atomic_load_explicit(&qp->waits, memory_order_relaxed))
        return atomic_load(&qp->patience_over);
    if (!qp->waiting)
        return ring_has(&qp->take);
    return answer_room(qp) >= (is_atomic(qp->message.opcode) ? ATOMIC_OCTETS : 1);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is posted is published, in order. Inside tx. A request leaves its slot's elements when its
 * last octet is in the ring; it completes when the peer has executed it (answers.c).
 *
 * LONG SENDS are published by reference, where the peer may get at them: the record says where the
 * octets are, and the peer copies them from there (reference.c). A request keeps its slot until the
 * peer has executed it, and only others by reference are published behind it. If the peer cannot
 * copy, it says so once: it passes over the references behind that request, the octets follow as
 * further pieces, and all later Sends go through the ring.
 */
#include "memory.h"

/* Of a visit: octets that are published, pieces that are executed directly. What is left is the
 * lane's. */
#define AT_ONCE        (4u * LOCAL_REQUESTS)
#define PIECES_AT_ONCE 32u

/* Sends of so many octets are published by reference. */
#define BY_REFERENCE (32u << 10)

/* --- order --- */

static uint32_t reads_under_way(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->fetching, memory_order_relaxed) -
           atomic_load_explicit(&qp->fetched, memory_order_acquire);
}

/* Fences, and ORD: later requests wait, too. */
static bool may_be_given(const struct local_qp *qp, const struct wqe *wqe, uint32_t index)
{
    uint32_t reads = reads_under_way(qp);

    if ((wqe->flags & RI_WR_READ_FENCE) && reads)
        return false;
    if ((wqe->flags & RI_WR_LOCAL_FENCE) && atomic_load(&qp->core->sq.done) != index)
        return false;
    return !wqe_is_answered(wqe) || !reads || reads < qp->core->attr.ord;
}

/* Requests that send nothing have completed, and may not be retired yet. A pass that completes a
 * request has a fence before it looks whether the queue waits. */
static bool must_wait(struct local_qp *qp, const struct wqe *wqe, uint32_t index)
{
    if (may_be_given(qp, wqe, index))
        return false;
    qp_retire(qp->core, &qp->core->sq);
    atomic_thread_fence(memory_order_seq_cst);
    return !may_be_given(qp, wqe, index);
}

/* --- payload --- */

/* An element that is not empty, or a part of it. */
static inline bool find_payload(struct local_qp *qp, const struct ri_sge *sge, uint64_t offset,
                                uint32_t octets, uint8_t **memory)
{
    struct qp *core = qp->core;

    return stag_check_hinted(&core->rnic->stags, &qp->payload_hint, sge->lkey, core->pd,
                             RI_ACCESS_LOCAL_READ, sge->addr + offset, octets, memory) == STAG_OK;
}

/* A message is refused as a whole: no piece of it was published. */
static bool payload_is_usable(struct local_qp *qp, const struct wqe *wqe)
{
    uint8_t *memory;

    for (uint32_t i = 0; i < wqe->num_sge; i++)
        if (wqe->sges[i].length &&
            !find_payload(qp, &wqe->sges[i], 0, wqe->sges[i].length, &memory))
            return false;
    return true;
}

/* Octets of the message from `published` on. False: an element is not usable any more. */
static bool gather(struct local_qp *qp, const struct wqe *wqe, uint8_t *to, uint32_t octets)
{
    uint64_t offset = qp->published;

    for (uint32_t i = 0; octets; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        uint32_t part = sge->length > offset ? sge->length - (uint32_t)offset : 0;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part && (!find_payload(qp, sge, offset, part, &memory) ||
                     !local_fetch(qp, sge->lkey, to, memory, part, USE_PAYLOAD)))
            return false;
        to += part;
        octets -= part;
        offset -= part ? offset : sge->length;
    }
    return true;
}

/* --- messages --- */

static uint32_t advance_next(struct local_qp *qp)
{
    struct wq *sq = &qp->core->sq;
    uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed) + 1;

    atomic_store_explicit(&sq->next, next, memory_order_release);
    qp->refused_directly = false;
    return next;
}

static void advance(struct local_qp *qp)
{
    atomic_store_explicit(&qp->core->sq.sent, advance_next(qp), memory_order_release);
}

static void count_given(struct local_qp *qp)
{
    atomic_store_explicit(&qp->given, atomic_load_explicit(&qp->given, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* The slot is not needed any more. Before the peer can execute the request: what it says of it then
 * finds the request given. */
static void give(struct local_qp *qp)
{
    advance(qp);
    count_given(qp);
}

static bool refers(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->refers, memory_order_relaxed);
}

/* The slot is needed still. */
static void give_reference(struct local_qp *qp)
{
    qp->begun = true;
    qp->referred++;
    atomic_store_explicit(&qp->refers, true, memory_order_relaxed);
    advance_next(qp);
    count_given(qp);
}

static void end_references(struct local_qp *qp)
{
    struct wq *sq = &qp->core->sq;

    qp->begun = qp->gives_octets = false;
    qp->published = qp->referred = 0;
    atomic_store_explicit(&sq->sent, atomic_load_explicit(&sq->next, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(&qp->refers, false, memory_order_relaxed);
}

enum step { STEP_ON, STEP_WAIT, STEP_ENDED };

bool local_fail(struct local_qp *qp, struct wqe *wqe, enum ri_wc_status status)
{
    const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                .state = qp->rules ? RI_QPS_ERROR : RI_QPS_TERMINATE,
                                .send_terminate = !qp->rules,
                                .by_this_side = qp->rules != NULL,
                                .terminate = "",
                                .wqe = wqe,
                                .status = status,
                                .detail = "a work request failed locally" };

    qp_end(qp->core, &end);
    return false;
}

/* The request at sq.next; or the one before it, whose octets the peer wants. */
static bool is_first(const struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;

    return atomic_load(&sq->done) + qp->gives_octets ==
           atomic_load_explicit(&sq->next, memory_order_relaxed);
}

/* Have all before it completed? The peer executes them still. Requests that send nothing may not be
 * retired yet. */
static bool has_its_turn(const struct local_qp *qp)
{
    if (is_first(qp))
        return true;
    qp_retire(qp->core, &qp->core->sq);
    atomic_thread_fence(memory_order_seq_cst); /* as in must_wait() */
    return is_first(qp);
}

static enum step fail(struct local_qp *qp, struct wqe *wqe, enum ri_wc_status status)
{
    if (!has_its_turn(qp))
        return STEP_WAIT;
    local_fail(qp, wqe, status);
    return STEP_ENDED;
}

static void describe(const struct local_qp *qp, const struct wqe *wqe, struct ring_header *header)
{
    *header = (struct ring_header){
        .kind = RING_REQUEST,
        .opcode = wqe->opcode,
        .flags = (uint16_t)((wqe->flags & RI_WR_SOLICITED ? RING_SOLICITED : 0) |
                            (atomic_load_explicit(&qp->core->attr.fused, memory_order_relaxed)
                                 ? RING_FUSED
                                 : 0)),
        .length = (uint32_t)wqe->length,
        .operand = wqe->operand,
        .remote_addr = wqe->remote_addr,
        .rkey = wqe->rkey,
    };
    if (wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP)
        header->compare = wqe->compare;
}

/* What this end has executed for the peer: by the message that begins, in the line that the peer
 * looks at anyway. */
static void tell(struct local_qp *qp, struct ring_header *header)
{
    header->flags |= RING_TELLS;
    header->executed = atomic_load_explicit(&qp->done, memory_order_acquire);
    atomic_store_explicit(&qp->told, header->executed, memory_order_relaxed);
}

static enum step publish_answered(struct local_qp *qp, struct wqe *wqe)
{
    struct ring_header header;

    if (!qp->core->attr.reads_agreed)
        return fail(qp, wqe, RI_WC_LOCAL_QP);
    if (!ring_reserve(&qp->put, 0))
        return STEP_WAIT;
    describe(qp, wqe, &header);
    atomic_fetch_add_explicit(&qp->fetching, 1, memory_order_relaxed);
    header.fetching = reads_under_way(qp);
    give(qp);
    local_stores(qp->memory);
    ring_publish(&qp->put, &header);
    return STEP_ON;
}

/* The next piece; the message begins with the first one. */
static enum step publish_piece(struct local_qp *qp, struct wqe *wqe)
{
    uint64_t left = wqe->length - qp->published;
    struct ring_header header = { .kind = RING_MORE };
    uint8_t *place;

    if (!qp->begun)
        describe(qp, wqe, &header);
    header.piece = left < RING_PIECE ? (uint32_t)left : RING_PIECE;
    place = ring_reserve(&qp->put, header.piece);
    if (!place)
        return STEP_WAIT;
    if (!gather(qp, wqe, place, header.piece))
        return fail(qp, wqe, RI_WC_LOCAL_PROTECTION);
    if (!qp->begun)
        tell(qp, &header);
    qp->begun = header.piece < left;
    qp->published = qp->begun ? qp->published + header.piece : 0;
    if (!qp->begun)
        refers(qp) ? end_references(qp) : give(qp);
    local_stores(qp->memory);
    ring_publish(&qp->put, &header);
    return STEP_ON;
}

/* --- long Sends --- */

static bool may_refer(const struct local_qp *qp, const struct wqe *wqe)
{
    const uint32_t sends = 1u << RI_WR_SEND | 1u << RI_WR_SEND_INVALIDATE |
                           1u << RI_WR_SEND_IMMEDIATE;

    return wqe->length >= BY_REFERENCE && (sends >> wqe->opcode & 1) && local_shows_memory(qp) &&
           !atomic_load_explicit(&qp->peer->no_references, memory_order_relaxed);
}

static enum step publish_reference(struct local_qp *qp, struct wqe *wqe)
{
    struct ring_header header;
    uint8_t *place;

    if (!payload_is_usable(qp, wqe))
        return fail(qp, wqe, RI_WC_LOCAL_PROTECTION);
    describe(qp, wqe, &header);
    header.kind = RING_REFERENCE;
    header.piece = wqe->num_sge * (uint32_t)sizeof(struct ring_part);
    place = ring_reserve(&qp->put, header.piece);
    if (!place)
        return STEP_WAIT;
    for (uint32_t i = 0; i < wqe->num_sge; i++) {
        const struct ri_sge *sge = &wqe->sges[i];
        const struct ring_part part = { sge->addr, sge->length, sge->lkey };

        memcpy(place + i * sizeof(part), &part, sizeof(part));
    }
    tell(qp, &header);
    give_reference(qp);
    local_stores(qp->memory);
    ring_publish(&qp->put, &header);
    return STEP_ON;
}

static bool may_follow(struct local_qp *qp, const struct wqe *wqe, uint32_t index)
{
    return !atomic_load_explicit(&qp->suspended, memory_order_relaxed) && may_refer(qp, wqe) &&
           !must_wait(qp, wqe, index);
}

/* Those that the peer has executed leave their slots. It may not have executed requests before
 * them; or told what is impossible, which the pass finds out. */
static void note_executed(struct local_qp *qp)
{
    struct wq *sq = &qp->core->sq;
    uint32_t left = atomic_load_explicit(&qp->given, memory_order_relaxed) - local_heard(qp);

    if (left > qp->referred)
        return;
    qp->referred = left;
    atomic_store_explicit(&sq->sent, atomic_load_explicit(&sq->next, memory_order_relaxed) - left,
                          memory_order_release);
}

/* The peer wants the octets of the oldest one, and passes over those behind it: they are published
 * once more. False: what it has told is impossible. */
static bool begin_octets(struct local_qp *qp)
{
    struct wq *sq = &qp->core->sq;
    uint32_t executed = atomic_load_explicit(&qp->peer->executed, memory_order_acquire);
    uint32_t left = atomic_load_explicit(&qp->given, memory_order_relaxed) - executed;

    if (!left || left > qp->referred)
        return false;
    atomic_store_explicit(&qp->given, executed + 1, memory_order_release);
    atomic_store_explicit(&sq->next,
                          atomic_load_explicit(&sq->next, memory_order_relaxed) - (left - 1),
                          memory_order_release);
    qp->referred = 1;
    qp->gives_octets = true;
    return true;
}

static enum step publish_octets(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;

    return publish_piece(qp,
                         wq_slot(sq, atomic_load_explicit(&sq->next, memory_order_relaxed) - 1));
}

/* References are under way: others may follow. */
static enum step go_on_with_references(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    const uint32_t index = atomic_load_explicit(&sq->next, memory_order_relaxed);
    struct wqe *next = wq_slot(sq, index);

    local_end_executed_references(qp);
    if (!refers(qp))
        return STEP_ON;
    if (qp->gives_octets)
        return publish_octets(qp);
    if (atomic_load_explicit(&qp->peer->no_references, memory_order_acquire))
        return begin_octets(qp) ? STEP_ON : STEP_WAIT;
    return wq_pending(sq) && may_follow(qp, next, index) ? publish_reference(qp, next) : STEP_WAIT;
}

static enum step publish_message(struct local_qp *qp, struct wqe *wqe)
{
    enum step step;

    if (!qp->begun && may_refer(qp, wqe))
        return publish_reference(qp, wqe);
    if (!qp->begun && wqe->num_sge > 1 && !payload_is_usable(qp, wqe))
        return fail(qp, wqe, RI_WC_LOCAL_PROTECTION);
    do
        step = publish_piece(qp, wqe);
    while (step == STEP_ON && qp->begun);
    return step;
}

/* --- short Sends --- */

/* So many are published at once, at most. */
#define TOGETHER 32u

/* A Send that is one record is in the ring, but it is not given. `tells`: as tell(). False: nothing
 * has changed, and publish_piece() finds out why. */
static inline bool put_short(struct local_qp *qp, const struct wqe *wqe, bool tells)
{
    const uint32_t octets = (uint32_t)wqe->length;
    struct ring_header header = { .kind = RING_REQUEST,
                                  .opcode = RI_WR_SEND,
                                  .flags = wqe->flags & RI_WR_SOLICITED ? RING_SOLICITED : 0,
                                  .piece = octets,
                                  .length = octets };
    uint8_t *memory, *place;

    if (unlikely(!find_payload(qp, &wqe->sges[0], 0, octets, &memory)))
        return false;
    place = ring_reserve(&qp->put, octets);
    if (unlikely(!place))
        return false;
    copy_short(place, memory, octets);
    if (tells)
        tell(qp, &header);
    ring_publish_bare(&qp->put, &header);
    return true;
}

/* give() of several. */
static inline void give_many(struct local_qp *qp, uint32_t count)
{
    struct wq *sq = &qp->core->sq;
    const uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed) + count;

    atomic_store_explicit(&sq->next, next, memory_order_release);
    atomic_store_explicit(&sq->sent, next, memory_order_release);
    atomic_store_explicit(&qp->given,
                          atomic_load_explicit(&qp->given, memory_order_relaxed) + count,
                          memory_order_release);
    qp->refused_directly = false;
}

static inline bool is_short_send(const struct wqe *wqe)
{
    return (wqe->flags & WQE_SHORT) && wqe->opcode == RI_WR_SEND && wqe->length;
}

/* From sq.next on, as far as they are short Sends, which have no fences. The peer finds them when
 * all are given. */
static void publish_shorts(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    const uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);
    const uint32_t pending = atomic_load_explicit(&sq->posted, memory_order_acquire) - next;
    const uint32_t most = pending < TOGETHER ? pending : TOGETHER;
    uint32_t count = 0;

    ring_hold(&qp->put);
    while (count < most) {
        const struct wqe *wqe = wq_slot(sq, next + count);

        if (!is_short_send(wqe) || !put_short(qp, wqe, !count))
            break;
        count++;
    }
    if (count)
        give_many(qp, count);
    local_stores(qp->memory);
    ring_release(&qp->put);
}

/* Nothing of another message stands before it, and no octets are watched. */
static inline bool is_plain(const struct local_qp *qp)
{
    return likely(!qp->begun) && likely(!qp->core->rnic->options.guard);
}

/* Connected by this wire, in full operation, and the request is the next one. */
static inline bool is_next(const struct qp *base, const struct local_qp *qp, uint32_t index)
{
    return likely(qp->memory != NULL) && likely(qp_state(base) == RI_QPS_RTS) &&
           likely(atomic_load_explicit(&base->sq.next, memory_order_relaxed) == index);
}

bool local_publish_single(struct qp *base, const struct wqe *wqe, uint32_t index)
{
    struct local_qp *qp = local_qp(base);
    bool done;

    tx_assert_inside(base);
    if (!is_next(base, qp, index) || !is_plain(qp))
        return false;
    ring_hold(&qp->put);
    done = put_short(qp, wqe, true);
    if (likely(done))
        give_many(qp, 1);
    local_stores(qp->memory);
    ring_release(&qp->put);
    if (likely(done))
        local_wake_peer(qp);
    return done;
}

/* --- the queue --- */

/* It completes at once, so it waits for those before it: if one of them fails, it is flushed. */
static enum step execute_own(struct local_qp *qp, struct wqe *wqe)
{
    if (!has_its_turn(qp))
        return STEP_WAIT;
    switch (own_execute(qp->core, &qp->requests, wqe)) {
    case OWN_REQUEST_DONE: break;
    case OWN_REQUEST_REFUSED: return fail(qp, wqe, own_refusal(qp->core, wqe));
    default: tx_defer_to_lane(qp->core); return STEP_WAIT;
    }
    wqe_finish(wqe, RI_WC_SUCCESS, 0);
    advance(qp);
    return STEP_ON;
}

/* STEP_WAIT: it is to be published. */
static enum step execute_directly(struct local_qp *qp, struct wqe *wqe, uint32_t *pieces)
{
    enum local_direct outcome = local_execute_directly(qp, wqe);

    ++*pieces;
    if (outcome == LOCAL_DIRECT_NOT)
        return STEP_WAIT;
    if (outcome == LOCAL_DIRECT_DONE) {
        wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
        advance(qp);
    }
    return STEP_ON;
}

/* Several at once. False: one at a time. */
static bool execute_together(struct local_qp *qp, uint32_t *pieces)
{
    struct wq *sq = &qp->core->sq;
    const uint32_t count = local_execute_together(qp);

    ++*pieces;
    for (uint32_t i = 0; i < count; i++) {
        struct wqe *wqe = wq_slot(sq, atomic_load_explicit(&sq->next, memory_order_relaxed));

        wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
        advance(qp);
    }
    return count;
}

static enum step publish_next(struct local_qp *qp, uint32_t *pieces)
{
    uint32_t index = atomic_load_explicit(&qp->core->sq.next, memory_order_relaxed);
    struct wqe *wqe = wq_slot(&qp->core->sq, index);

    if (is_short_send(wqe) && is_plain(qp)) {
        publish_shorts(qp);
        if (atomic_load_explicit(&qp->core->sq.next, memory_order_relaxed) != index)
            return STEP_ON;
    }
    if (!qp->begun && must_wait(qp, wqe, index))
        return STEP_WAIT;
    if (wqe_is_local(wqe))
        return execute_own(qp, wqe);
    if (!qp->begun && local_may_execute(qp, wqe) &&
        (execute_together(qp, pieces) || execute_directly(qp, wqe, pieces) == STEP_ON))
        return STEP_ON;
    return wqe_is_answered(wqe) ? publish_answered(qp, wqe) : publish_message(qp, wqe);
}

/* The ring has no room: the peer may have made some. */
static bool has_got_room(struct local_qp *qp)
{
    uint64_t before = qp->put.free_until;

    if (!qp->uses) { /* it had none, so that the first request comes here */
        qp->uses = true;
        atomic_store(&qp->own->used, 1);
    }
    ring_note_taken(&qp->put, atomic_load_explicit(&qp->peer->consumed, memory_order_acquire));
    return qp->put.free_until != before;
}

void local_end_executed_references(struct local_qp *qp)
{
    tx_assert_inside(qp->core);
    if (!refers(qp))
        return;
    note_executed(qp);
    if (!qp->referred)
        end_references(qp);
}

bool local_publish_begun(struct local_qp *qp)
{
    const uint64_t at = qp->put.at;
    const struct wq *sq = &qp->core->sq;
    enum step step = STEP_ON;

    tx_assert_inside(qp->core);
    while (step == STEP_ON && (refers(qp) || qp->begun)) {
        step = refers(qp) ? go_on_with_references(qp)
                          : publish_message(qp, wq_slot(sq, atomic_load(&sq->next)));
        if (step == STEP_WAIT && has_got_room(qp))
            step = STEP_ON;
    }
    if (qp->put.at != at)
        local_wake_peer(qp);
    return step == STEP_ON;
}

static bool has_more(const struct local_qp *qp)
{
    return wq_pending(&qp->core->sq) || unlikely(refers(qp));
}

void local_publish(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    const uint64_t at = qp->put.at;
    enum step step = STEP_ON;
    uint32_t pieces = 0;

    tx_assert_inside(base);
    while (step == STEP_ON && has_more(qp) && qp->put.at - at < AT_ONCE &&
           pieces < PIECES_AT_ONCE) {
        step = unlikely(refers(qp)) ? go_on_with_references(qp) : publish_next(qp, &pieces);
        if (step == STEP_WAIT && has_got_room(qp))
            step = STEP_ON;
    }
    if (qp->put.at != at)
        local_wake_peer(qp);
    if (step == STEP_ON && has_more(qp))
        tx_defer_to_lane(base);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The requests of a QP, executed at its peer. Inside tx of the initiator, and but for requests that
 * need no peer under rx of the peer's end.
 */
#include "queue.h"

#define AT_ONCE 64u /* requests; the others are left to the lane */

enum outcome { OUTCOME_DONE, OUTCOME_WAIT, OUTCOME_ENDED };

void queue_tell(struct qp *qp)
{
    if (atomic_load(&qp->tx.wanted) || cq_has_pending_events(qp->send_cq) ||
        cq_has_pending_events(qp->recv_cq) || atomic_load(&qp->life.pending))
        tx_defer_to_lane(qp);
}

/* --- errors --- */

/* An error that the peer finds in a request: its event and code, the status of the request, and of
 * the receive, if it has taken one. */
struct refusal {
    enum ri_event_type event;
    uint16_t code;
    enum ri_wc_status status, receive_status;
    const char *detail;
};

static const struct refusal no_receive = { RI_EVENT_NO_RECEIVE, 0x1202, RI_WC_REMOTE_OPERATION, 0,
                                           "a Send came and no receive is posted" };
static const struct refusal not_ready = {
    RI_EVENT_NO_RECEIVE, 0x1202, RI_WC_RNR, 0,
    "a Send came and no receive was posted within the agreed retries (rnr_retry)"
};
static const struct refusal too_long = { RI_EVENT_RECV_LENGTH, 0x1205, RI_WC_REMOTE_INVALID_REQUEST,
                                         RI_WC_LOCAL_LENGTH, "message longer than the receive" };
static const struct refusal receive_gone = { RI_EVENT_RECV_ACCESS, CODE_LOCAL,
                                             RI_WC_REMOTE_OPERATION, RI_WC_LOCAL_PROTECTION,
                                             "receive buffer is not usable" };
static const struct refusal bad_write = { RI_EVENT_WRITE_ACCESS, 0x1100, RI_WC_REMOTE_ACCESS, 0,
                                          "RDMA Write to memory that the peer may not use" };
static const struct refusal bad_read = {
    RI_EVENT_READ_ACCESS, 0x0100, RI_WC_REMOTE_ACCESS, 0,
    "RDMA Read or atomic of memory that the peer may not use"
};
static const struct refusal too_many = { RI_EVENT_REMOTE_OPERATION, 0x1203, RI_WC_REMOTE_OPERATION,
                                         0, "more RDMA Reads and atomics than IRD" };
static const struct refusal no_atomics = { RI_EVENT_BAD_OPCODE, 0x0206, RI_WC_REMOTE_OPERATION, 0,
                                           "atomics are not enabled here" };
static const struct refusal not_aligned = { RI_EVENT_REMOTE_OPERATION, CODE_STREAM,
                                            RI_WC_REMOTE_INVALID_REQUEST, 0,
                                            "target of an atomic is not aligned" };
static const struct refusal bad_invalidate = { RI_EVENT_INVALIDATE_ACCESS, 0x0109,
                                               RI_WC_REMOTE_ACCESS, RI_WC_REMOTE_INVALID_REQUEST,
                                               "Send with Invalidate is not allowed here" };

/* Ends both QPs. receive: of the peer, or NULL. Under its rx. */
static enum outcome refuse(struct qp *from, struct wqe *wqe, struct qp *to, struct wqe *receive,
                           const struct refusal *why)
{
    const struct qp_end at_peer = { .event = why->event,
                                    .state = RI_QPS_ERROR,
                                    .terminate_value = why->code,
                                    .bad_access = why->event == RI_EVENT_WRITE_ACCESS ||
                                                  why->event == RI_EVENT_READ_ACCESS ||
                                                  why->event == RI_EVENT_INVALIDATE_ACCESS,
                                    .wqe = receive,
                                    .status = why->receive_status,
                                    .detail = why->detail };
    const struct qp_end here = { .event = RI_EVENT_TERMINATE_RECEIVED,
                                 .state = RI_QPS_ERROR,
                                 .terminate_value = why->code,
                                 .wqe = wqe,
                                 .status = why->status,
                                 .detail = why->detail };

    qp_end(to, &at_peer);
    queue_tell(to);
    qp_end(from, &here);
    return OUTCOME_ENDED;
}

/* An error that needs no peer; stop() tells it. */
static enum outcome fail_here(struct qp *from, struct wqe *wqe, enum ri_wc_status status)
{
    const struct qp_end end = { .event = RI_EVENT_LOCAL_ERROR,
                                .state = RI_QPS_TERMINATE,
                                .send_terminate = true,
                                .terminate_value = CODE_LOCAL,
                                .terminate = "",
                                .wqe = wqe,
                                .status = status,
                                .detail = "a work request failed locally" };

    qp_end(from, &end);
    return OUTCOME_ENDED;
}

/* --- memory --- */

/* The octets that a consumer polls, the last ones, are stored last. */
static void store(uint8_t *to, const uint8_t *from, uint64_t octets)
{
    uint64_t tail = octets < 8 ? octets : 8;
    uint8_t last[8];

    memcpy(last, from + octets - tail, tail);
    memmove(to, from, octets - tail);
    atomic_thread_fence(memory_order_release);
    memcpy(to + octets - tail, last, tail);
}

/* An element of the initiator that is not empty. */
static bool find_own(struct queue_qp *from, const struct ri_sge *sge, uint32_t access,
                     uint8_t **memory)
{
    return stag_check_hinted(&from->core.rnic->stags, &from->own_hint, sge->lkey, from->core.pd,
                             access, sge->addr, sge->length, memory) == STAG_OK;
}

/* The sink of a Read or an atomic: a region, or a window that the peer may write to. */
static bool find_sink(struct queue_qp *from, const struct ri_sge *sge, uint8_t **memory)
{
    return find_own(from, sge, RI_ACCESS_LOCAL_WRITE, memory) ||
           qp_check_remote(&from->core, &from->own_hint, sge->lkey, RI_ACCESS_REMOTE_WRITE,
                           sge->addr, sge->length, memory) == STAG_OK;
}

static bool sources_are_usable(struct queue_qp *from, const struct wqe *wqe)
{
    uint8_t *memory;

    for (uint32_t i = 0; i < wqe->num_sge; i++)
        if (wqe->sges[i].length && !find_own(from, &wqe->sges[i], RI_ACCESS_LOCAL_READ, &memory))
            return false;
    return true;
}

/* Octets of the message from `offset` on, into the elements of a receive. False: one of them is not
 * usable. */
static bool scatter(struct queue_qp *to, const struct ri_sge *sges, uint32_t count, uint64_t offset,
                    const uint8_t *from, uint32_t octets)
{
    for (uint32_t i = 0; i < count && octets; i++) {
        uint32_t part = sges[i].length > offset ? sges[i].length - (uint32_t)offset : 0;
        struct stag_entry *entry;
        uint8_t *memory;

        part = part < octets ? part : octets;
        if (part) {
            if (stag_enter_hinted(&to->core.rnic->stags, &to->peer_hint, sges[i].lkey,
                                  to->core.recv_pd, RI_ACCESS_LOCAL_WRITE, sges[i].addr + offset,
                                  part, &memory, &entry) != STAG_OK)
                return false;
            store(memory, from, part);
            stag_leave(entry);
        }
        from += part;
        octets -= part;
        offset -= part ? offset : sges[i].length;
    }
    return true;
}

/* --- receives of the peer --- */

static struct wqe *next_receive(struct qp *to)
{
    return wq_slot(&to->rq, atomic_load(&to->rq.next));
}

static enum outcome await_receive(struct queue_qp *from, struct wqe *wqe, struct qp *to,
                                  const struct refusal *why)
{
    const struct ri_host *host = from->core.rnic->host;

    if (!to->attr.rnr_retry || to->attr.rq_hard_limit != UINT32_MAX)
        return refuse(&from->core, wqe, to, NULL, why);
    if (atomic_load(&from->patience_over))
        return refuse(&from->core, wqe, to, NULL, &not_ready);
    if (!from->waits) {
        from->waits = true;
        count_up(&to->counters.waits, 1);
        from->patience.deadline = qp_patience_over(to, clock_now());
        if (from->patience.deadline != CLOCK_NEVER)
            host->timer_set(host, from->core.lane->base.context, &from->patience);
    }
    if (!wq_await_post(to->srq ? &to->srq->queue : &to->rq))
        tx_defer_to_lane(&from->core); /* posted meanwhile */
    return OUTCOME_WAIT;
}

static void end_waiting(struct queue_qp *from)
{
    const struct ri_host *host = from->core.rnic->host;

    host->timer_cancel(host, from->core.lane->base.context, &from->patience);
    atomic_store(&from->patience_over, false);
    from->waits = false;
}

/* *receive: it is at rq.next, its elements *sges. */
static enum outcome take_receive(struct queue_qp *from, struct wqe *wqe, struct qp *to,
                                 struct wqe **receive, const struct ri_sge **sges)
{
    struct refusal why = no_receive;

    if (!(to->srq ? qp_take_shared(to, &why.detail) : wq_pending(&to->rq)))
        return await_receive(from, wqe, to, &why);
    if (from->waits)
        end_waiting(from);
    *receive = next_receive(to);
    *sges = to->srq ? to->srq_sges : (*receive)->sges;
    return OUTCOME_DONE;
}

static void finish_receive(struct qp *to, const struct wqe *wqe, struct wqe *receive,
                           uint64_t octets)
{
    if (wqe->flags & RI_WR_SOLICITED)
        receive->wc_flags |= RI_WC_SOLICITED;
    count_up(&to->counters.received_messages, 1);
    count_up(&to->counters.received_octets, octets);
    atomic_store(&to->rq.next, atomic_load(&to->rq.next) + 1);
    wqe_finish(receive, RI_WC_SUCCESS, (uint32_t)octets);
    qp_retire(to, &to->rq);
}

/* --- Send, immediate data --- */

/* The message is placed. What it invalidates is quiet behind it, before its receive completes. */
static enum outcome invalidate_at_peer(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    struct wqe *receive = next_receive(&to->core);
    uint32_t stag = (uint32_t)wqe->operand;

    if (from->revoked && atomic_load(&to->unquiet[UNQUIET_PEER]))
        return OUTCOME_WAIT;
    if (!from->revoked) {
        switch (invalidate_begin(&to->core, stag, true)) {
        case INVALIDATE_DONE: break;
        case INVALIDATE_REVOKED:
            from->revoked = true;
            atomic_store(&to->unquiet[UNQUIET_PEER], stag_find(&to->core.rnic->stags, stag));
            tx_defer_to_lane(&to->core);
            return OUTCOME_WAIT;
        default: return refuse(&from->core, wqe, &to->core, receive, &bad_invalidate);
        }
    }
    from->revoked = false;
    receive->operand = stag;
    receive->wc_flags |= RI_WC_WITH_INVALIDATE;
    finish_receive(&to->core, wqe, receive, wqe->length);
    return OUTCOME_DONE;
}

static enum outcome place_message(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to,
                                  struct wqe *receive, const struct ri_sge *sges)
{
    uint64_t offset = 0;
    uint8_t *memory;

    if (wqe->length > receive->length)
        return refuse(&from->core, wqe, &to->core, receive, &too_long);
    for (uint32_t i = 0; i < wqe->num_sge; offset += wqe->sges[i++].length) {
        if (!wqe->sges[i].length)
            continue;
        if (!find_own(from, &wqe->sges[i], RI_ACCESS_LOCAL_READ, &memory))
            return fail_here(&from->core, wqe, RI_WC_LOCAL_PROTECTION);
        if (!scatter(to, sges, receive->num_sge, offset, memory, wqe->sges[i].length))
            return refuse(&from->core, wqe, &to->core, receive, &receive_gone);
    }
    return OUTCOME_DONE;
}

static enum outcome send_message(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    const struct ri_sge *sges;
    struct wqe *receive;
    enum outcome outcome;

    if (from->revoked)
        return invalidate_at_peer(from, wqe, to);
    if (!sources_are_usable(from, wqe))
        return fail_here(&from->core, wqe, RI_WC_LOCAL_PROTECTION);
    outcome = take_receive(from, wqe, &to->core, &receive, &sges);
    if (outcome == OUTCOME_DONE)
        outcome = place_message(from, wqe, to, receive, sges);
    if (outcome != OUTCOME_DONE)
        return outcome;
    if (wqe->opcode == RI_WR_SEND_INVALIDATE)
        return invalidate_at_peer(from, wqe, to);
    if (wqe->opcode == RI_WR_SEND_IMMEDIATE) {
        receive->operand = wqe->operand & UINT32_MAX;
        receive->wc_flags |= RI_WC_WITH_IMMEDIATE | WC_OF_SEND;
    }
    finish_receive(&to->core, wqe, receive, wqe->length);
    return OUTCOME_DONE;
}

/* Alone, or behind a Write. Fused, it tells the length of that; else it has 8 octets. */
static enum outcome send_immediate(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to,
                                   bool fused)
{
    const struct ri_sge *sges;
    struct wqe *receive;
    enum outcome outcome = take_receive(from, wqe, &to->core, &receive, &sges);

    if (outcome != OUTCOME_DONE)
        return outcome;
    receive->operand = fused ? wqe->operand & UINT32_MAX : wqe->operand;
    receive->wc_flags |= RI_WC_WITH_IMMEDIATE;
    finish_receive(&to->core, wqe, receive, fused ? wqe->length : 0);
    return OUTCOME_DONE;
}

/* --- RDMA Write, Read, atomics --- */

static enum outcome write_memory(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    struct stag_entry *entry;
    uint8_t *target, *source;

    if (!sources_are_usable(from, wqe))
        return fail_here(&from->core, wqe, RI_WC_LOCAL_PROTECTION);
    if (!wqe->length)
        return OUTCOME_DONE;
    if (!qp_allows(&to->core, RI_QP_WRITE_ENABLE) ||
        qp_enter_remote(&to->core, &to->peer_hint, wqe->rkey, RI_ACCESS_REMOTE_WRITE,
                        wqe->remote_addr, wqe->length, &target, &entry) != STAG_OK)
        return refuse(&from->core, wqe, &to->core, NULL, &bad_write);
    for (uint32_t i = 0; i < wqe->num_sge; target += wqe->sges[i++].length)
        if (wqe->sges[i].length && find_own(from, &wqe->sges[i], RI_ACCESS_LOCAL_READ, &source))
            store(target, source, wqe->sges[i].length);
    stag_leave(entry);
    return OUTCOME_DONE;
}

/* Once for each request: a Write that waits for a receive is not executed again. */
static enum outcome write_immediate(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    enum outcome outcome = from->waits ? OUTCOME_DONE : write_memory(from, wqe, to);

    return outcome == OUTCOME_DONE
               ? send_immediate(from, wqe, to, atomic_load(&from->core.attr.fused))
               : outcome;
}

/* The sink is invalidated before the completion can be seen. */
static enum outcome invalidate_sink(struct queue_qp *from, struct wqe *wqe)
{
    uint32_t stag = (uint32_t)wqe->operand;

    if (from->revoked && atomic_load(&from->unquiet[UNQUIET_OWN]))
        return OUTCOME_WAIT;
    if (!from->revoked) {
        switch (invalidate_begin(&from->core, stag, false)) {
        case INVALIDATE_DONE: break;
        case INVALIDATE_REVOKED:
            from->revoked = true;
            atomic_store(&from->unquiet[UNQUIET_OWN], stag_find(&from->core.rnic->stags, stag));
            tx_defer_to_lane(&from->core);
            return OUTCOME_WAIT;
        default: return fail_here(&from->core, wqe, RI_WC_MM_OPERATION);
        }
    }
    from->revoked = false;
    wqe->wc_flags |= RI_WC_WITH_INVALIDATE;
    return OUTCOME_DONE;
}

static enum outcome read_memory(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    uint8_t *source, *sink;
    struct stag_entry *entry;

    if (from->revoked)
        return invalidate_sink(from, wqe);
    if (!qp_allows(&to->core, RI_QP_READ_ENABLE) || !to->core.attr.ird)
        return refuse(&from->core, wqe, &to->core, NULL, &bad_read);
    if (wqe->length) {
        if (!find_sink(from, &wqe->sges[0], &sink))
            return fail_here(&from->core, wqe, RI_WC_LOCAL_PROTECTION);
        if (qp_enter_remote(&to->core, &to->peer_hint, wqe->rkey, RI_ACCESS_REMOTE_READ,
                            wqe->remote_addr, wqe->length, &source, &entry) != STAG_OK)
            return refuse(&from->core, wqe, &to->core, NULL, &bad_read);
        store(sink, source, wqe->length);
        stag_leave(entry);
    }
    return wqe->opcode == RI_WR_RDMA_READ_INVALIDATE ? invalidate_sink(from, wqe) : OUTCOME_DONE;
}

static enum outcome execute_atomic(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    struct stag_entry *entry;
    uint8_t *word, *sink;
    uint64_t old;

    if (!qp_allows(&to->core, RI_QP_ATOMIC_ENABLE))
        return refuse(&from->core, wqe, &to->core, NULL, &no_atomics);
    if (!find_sink(from, &wqe->sges[0], &sink))
        return fail_here(&from->core, wqe, RI_WC_LOCAL_PROTECTION);
    if (!to->core.attr.ird ||
        qp_enter_remote(&to->core, &to->peer_hint, wqe->rkey, RI_ACCESS_REMOTE_ATOMIC,
                        wqe->remote_addr, ATOMIC_OCTETS, &word, &entry) != STAG_OK)
        return refuse(&from->core, wqe, &to->core, NULL, &bad_read);
    if ((uintptr_t)word % ATOMIC_OCTETS) {
        stag_leave(entry);
        return refuse(&from->core, wqe, &to->core, NULL, &not_aligned);
    }
    old = atomic_on_word((uint64_t *)(void *)word, wqe->opcode, wqe->operand, wqe->compare);
    stag_leave(entry);
    store(sink, (const uint8_t *)&old, sizeof(old));
    return OUTCOME_DONE;
}

/* Reads and atomics at the head of the queue that a wire with a round trip would have under way. */
static uint32_t count_at_once(const struct qp *qp)
{
    uint32_t next = atomic_load(&qp->sq.next), index = next, posted = atomic_load(&qp->sq.posted);

    while (index != posted && index - next < qp->attr.ord &&
           wqe_is_answered(wq_slot(&qp->sq, index)) &&
           (index == next || !(wq_slot(&qp->sq, index)->flags & RI_WR_READ_FENCE)))
        index++;
    return index - next;
}

static enum outcome execute_answered(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    if (!from->core.attr.reads_agreed)
        return fail_here(&from->core, wqe, RI_WC_LOCAL_QP);
    if (to->core.attr.ird && count_at_once(&from->core) > to->core.attr.ird)
        return refuse(&from->core, wqe, &to->core, NULL, &too_many);
    return wqe->opcode == RI_WR_ATOMIC_FETCH_ADD || wqe->opcode == RI_WR_ATOMIC_COMPARE_SWAP
               ? execute_atomic(from, wqe, to)
               : read_memory(from, wqe, to);
}

static enum outcome execute_at_peer(struct queue_qp *from, struct wqe *wqe, struct queue_qp *to)
{
    bool fused = atomic_load(&from->core.attr.fused);

    switch (wqe->opcode) {
    case RI_WR_SEND_IMMEDIATE:
        return fused ? send_message(from, wqe, to) : send_immediate(from, wqe, to, false);
    case RI_WR_SEND:
    case RI_WR_SEND_INVALIDATE: return send_message(from, wqe, to);
    case RI_WR_RDMA_WRITE: return write_memory(from, wqe, to);
    case RI_WR_RDMA_WRITE_IMMEDIATE: return write_immediate(from, wqe, to);
    default: return execute_answered(from, wqe, to);
    }
}

/* OUTCOME_WAIT also if the peer is not there yet, or not any more: its start or its end has the
 * queue taken up again. */
static enum outcome execute_remote(struct queue_qp *from, struct wqe *wqe)
{
    struct link_end *end = link_peer(from);
    enum outcome outcome = OUTCOME_WAIT;

    spinlock_lock(&end->rx);
    if (end->qp && qp_state(&end->qp->core) == RI_QPS_RTS) {
        outcome = execute_at_peer(from, wqe, end->qp);
        queue_tell(&end->qp->core);
    }
    spinlock_unlock(&end->rx);
    return outcome;
}

/* --- requests that need no peer --- */

/* RDMAC: a refusal for a window is a bind error, one for a region an error of memory management. */
static enum outcome refuse_local(struct queue_qp *qp, struct wqe *wqe)
{
    const struct stag_entry *entry = stag_find(&qp->core.rnic->stags, (uint32_t)wqe->operand);
    bool window = wqe->opcode == RI_WR_BIND_WINDOW || (entry && entry->kind != STAG_REGION);

    return fail_here(&qp->core, wqe, window ? RI_WC_BIND : RI_WC_MM_OPERATION);
}

static enum outcome wait_for_lane(struct queue_qp *qp, struct stag_entry *entry)
{
    atomic_store(&qp->unquiet[UNQUIET_OWN], entry);
    tx_defer_to_lane(&qp->core);
    return OUTCOME_WAIT;
}

/* A window that was revoked and is quiet is bound as if it had never been. */
static enum outcome bind_window(struct queue_qp *qp, struct wqe *wqe)
{
    struct stag_entry *window;

    switch (mw_bind(&qp->core, wqe, &window)) {
    case BIND_DONE: return OUTCOME_DONE;
    case BIND_REVOKED: return wait_for_lane(qp, window);
    default: return refuse_local(qp, wqe);
    }
}

static enum outcome invalidate(struct queue_qp *qp, struct wqe *wqe)
{
    if (qp->revoked) {
        qp->revoked = false;
        return OUTCOME_DONE;
    }
    switch (invalidate_begin(&qp->core, (uint32_t)wqe->operand, false)) {
    case INVALIDATE_DONE: return OUTCOME_DONE;
    case INVALIDATE_REVOKED:
        qp->revoked = true;
        return wait_for_lane(qp, stag_find(&qp->core.rnic->stags, (uint32_t)wqe->operand));
    default: return refuse_local(qp, wqe);
    }
}

static enum outcome execute(struct queue_qp *qp, struct wqe *wqe)
{
    if (atomic_load(&qp->unquiet[UNQUIET_OWN]))
        return OUTCOME_WAIT;
    switch (wqe->opcode) {
    case RI_WR_BIND_WINDOW: return bind_window(qp, wqe);
    case RI_WR_LOCAL_INVALIDATE: return invalidate(qp, wqe);
    case RI_WR_FAST_REGISTER:
        return mr_fast_register(&qp->core, wqe) ? OUTCOME_DONE : refuse_local(qp, wqe);
    default: return execute_remote(qp, wqe);
    }
}

/* --- the queue --- */

static bool is_local(const struct wqe *wqe)
{
    return wqe->opcode == RI_WR_BIND_WINDOW || wqe->opcode == RI_WR_LOCAL_INVALIDATE ||
           wqe->opcode == RI_WR_FAST_REGISTER;
}

static void finish(struct qp *qp, struct wqe *wqe, uint32_t index)
{
    bool local = is_local(wqe);

    if (!local && !wqe_is_answered(wqe)) {
        count_up(&qp->counters.sent_messages, 1);
        count_up(&qp->counters.sent_octets, wqe->length);
    }
    atomic_store(&qp->sq.next, index + 1);
    wqe_finish(wqe, RI_WC_SUCCESS, local ? 0 : (uint32_t)wqe->length);
    atomic_store(&qp->sq.sent, index + 1);
    atomic_fetch_add(&queue_lane(qp->lane)->executed, 1);
}

/* A post executes what needs no peer, and leaves the rest to the lane. */
void queue_send(struct qp *base)
{
    struct queue_qp *qp = queue_qp(base);
    bool go = atomic_exchange(&qp->go, false);

    for (uint32_t turn = 0; turn < AT_ONCE && wq_pending(&base->sq); turn++) {
        uint32_t index = atomic_load(&base->sq.next);
        struct wqe *wqe = wq_slot(&base->sq, index);

        if (!go && !is_local(wqe))
            break;
        if (qp_state(base) != RI_QPS_RTS || execute(qp, wqe) != OUTCOME_DONE)
            return;
        finish(base, wqe, index);
    }
    if (wq_pending(&base->sq))
        tx_defer_to_lane(base);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Own requests are completed by what the peer says of them. Under rx, in a pass.
 *
 * The peer stores the octets that a Read fetches, then how many there are, then that the Read is
 * executed. So who reads in the other order finds the octets of each Read that is said to be
 * executed; if they are missing, the peer does not keep the rules.
 */
#include "memory.h"

/* What the peer has said by now. */
struct said {
    uint32_t executed; /* requests that are not completed here yet */
    uint64_t answers;  /* octets of answers that are not taken yet */
};

/* It tells so in its page, and by its requests: the later number counts. */
static bool hear_executed(struct local_qp *qp)
{
    uint32_t page = local_page_tells(qp);
    bool forwards = (int32_t)(page - qp->heard_of_page) >= 0;

    qp->heard_of_page = page;
    if ((int32_t)(page - local_heard(qp)) > 0)
        atomic_store_explicit(&qp->heard, page, memory_order_release);
    return forwards;
}

/* False: it is impossible. */
static bool hear(struct local_qp *qp, struct said *said)
{
    if (!hear_executed(qp))
        return false;
    said->executed = local_heard(qp) - qp->executed;
    said->answers = atomic_load_explicit(&qp->peer->answered, memory_order_acquire) - qp->answer_at;
    local_has_found(qp->memory);
    return said->executed <= local_unexecuted(qp) && said->answers <= LOCAL_ANSWERS;
}

static bool break_off(struct local_qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_RESPONSE_ERROR,
                                       .state = RI_QPS_TERMINATE,
                                       .send_terminate = true,
                                       .terminate_value = 0x0207,
                                       .terminate = "",
                                       .detail = "what the peer says of its progress is "
                                                 "impossible" };

    qp_end(qp->core, &end);
    return false;
}

/* --- Reads and atomics --- */

/* The sink: a region, or a window that the peer may write to. */
static bool find_sink(struct local_qp *qp, const struct ri_sge *sge, uint64_t offset,
                      uint32_t octets, uint8_t **memory)
{
    struct qp *core = qp->core;

    return stag_check_hinted(&core->rnic->stags, &qp->sink_hint, sge->lkey, core->pd,
                             RI_ACCESS_LOCAL_WRITE, sge->addr + offset, octets,
                             memory) == STAG_OK ||
           qp_check_remote(core, &qp->sink_hint, sge->lkey, RI_ACCESS_REMOTE_WRITE,
                           sge->addr + offset, octets, memory) == STAG_OK;
}

/* Two parts at most. False: the sink is not usable. */
static bool take_octets(struct local_qp *qp, const struct wqe *wqe, uint32_t octets)
{
    const uint8_t *ring = local_answers(qp->memory, !qp->memory->side);
    uint8_t *memory;

    if (!find_sink(qp, &wqe->sges[0], qp->answer_placed, octets, &memory))
        return false;
    while (octets) {
        uint32_t offset = (uint32_t)(qp->answer_at & (LOCAL_ANSWERS - 1));
        uint32_t part = LOCAL_ANSWERS - offset < octets ? LOCAL_ANSWERS - offset : octets;

        if (!local_place_seen(qp, wqe->sges[0].lkey, memory, ring + offset, part, USE_SINK))
            return false;
        qp->answer_at += part;
        qp->answer_placed += part;
        memory += part;
        octets -= part;
    }
    local_stores(qp->memory);
    atomic_store_explicit(&qp->own->taken, qp->answer_at, memory_order_release);
    return true;
}

/* The sink is invalid before the completion can be seen. */
static bool invalidate_sink(struct local_qp *qp, struct wqe *wqe)
{
    uint32_t stag = (uint32_t)wqe->operand;

    switch (invalidate_begin(qp->core, stag, false)) {
    case INVALIDATE_DONE: break;
    case INVALIDATE_REVOKED:
        invalidate_quiet(qp->core->rnic, stag_find(&qp->core->rnic->stags, stag));
        break;
    default: return local_fail(qp, wqe, RI_WC_MM_OPERATION);
    }
    wqe->wc_flags |= RI_WC_WITH_INVALIDATE;
    return true;
}

/* False: it is not complete, or the connection has ended. */
static bool take_answer(struct local_qp *qp, struct wqe *wqe, struct said *said)
{
    uint64_t left = wqe->length - qp->answer_placed;
    uint32_t octets = (uint32_t)(left < said->answers ? left : said->answers);

    if (octets && !take_octets(qp, wqe, octets))
        return local_fail(qp, wqe, RI_WC_LOCAL_PROTECTION);
    said->answers -= octets;
    if (qp->answer_placed < wqe->length)
        return said->executed ? break_off(qp) : false;
    if (!said->executed)
        return false;
    qp->answer_placed = 0;
    if (wqe->opcode == RI_WR_RDMA_READ_INVALIDATE && !invalidate_sink(qp, wqe))
        return false;
    /* Seen by a thread that stalls the queue for it (publish.c). */
    atomic_fetch_add(&qp->fetched, 1);
    return true;
}

/* --- completion --- */

/* Of the requests that one look completes. */
struct tally {
    uint64_t requests, octets;           /* all */
    uint64_t sent_messages, sent_octets; /* those that are not answered by octets */
};

static inline void finish(struct local_qp *qp, struct wqe *wqe, struct tally *tally)
{
    tally->requests++;
    tally->octets += wqe->length;
    if (!wqe_is_answered(wqe)) {
        tally->sent_messages++;
        tally->sent_octets += wqe->length;
    }
    wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
    qp->answered++;
    qp->executed++;
}

static void count(struct local_qp *qp, const struct tally *tally)
{
    count_up(&qp->counters.by_peer, tally->requests);
    count_up(&qp->counters.by_peer_octets, tally->octets);
    count_up(&qp->core->counters.sent_messages, tally->sent_messages);
    count_up(&qp->core->counters.sent_octets, tally->sent_octets);
}

static inline bool is_complete(const struct wqe *wqe)
{
    return atomic_load_explicit(&wqe->done, memory_order_acquire);
}

/* Requests that are not published have completed in their turn. Slots before sq.done may have been
 * taken by later ones. */
static inline void skip_done(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    uint32_t done = atomic_load_explicit(&sq->done, memory_order_acquire);

    local_assert_rx(qp);
    if (unlikely((int32_t)(done - qp->answered) > 0))
        qp->answered = done;
    while (qp->answered != atomic_load_explicit(&sq->posted, memory_order_acquire) &&
           is_complete(wq_slot(sq, qp->answered)))
        qp->answered++;
}

void local_skip_done(struct local_qp *qp)
{
    skip_done(qp);
}

/* There is one that is published. */
static inline struct wqe *oldest(struct local_qp *qp)
{
    skip_done(qp);
    return wq_slot(&qp->core->sq, qp->answered);
}

struct wqe *local_oldest(struct local_qp *qp)
{
    local_assert_rx(qp);
    return local_unexecuted(qp) ? oldest(qp) : NULL;
}

uint32_t local_take_answers(struct local_qp *qp)
{
    const uint64_t at = qp->answer_at;
    struct tally tally = { 0 };
    struct said said;
    struct wqe *wqe;

    local_assert_rx(qp);
    lane_assert_run(qp->core->lane);
    if (!hear(qp, &said)) {
        break_off(qp);
        return 0;
    }
    while ((said.executed || said.answers) && local_unexecuted(qp)) {
        wqe = oldest(qp);
        if (wqe_is_answered(wqe) ? !take_answer(qp, wqe, &said) : !said.executed)
            break;
        finish(qp, wqe, &tally);
        said.executed--;
    }
    count(qp, &tally);
    if (qp->answer_at != at)
        local_wake_peer(qp);
    return (uint32_t)tally.requests;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a connection ends: what is said to the peer, and what is made of what it has said.
 */
#include "local.h"

#include "wire_local.h"

/* How long Sends wait for receives behind the peer's orderly end. */
#define END_PATIENCE (500 * CLOCK_NS_PER_MS)

/* --- this side --- */

static enum local_end own_end(const struct local_qp *qp)
{
    if (qp->refused.is_set)
        return LOCAL_REFUSED;
    if (qp->core->life.terminate_wanted)
        return LOCAL_TERMINATED;
    return qp->core->life.lost ? LOCAL_RESET : LOCAL_CLOSED;
}

/* What is executed and was not told yet. A pass may tell meanwhile: the larger number stays. */
static void tell_rest(struct local_qp *qp)
{
    const uint32_t done = atomic_load_explicit(&qp->done, memory_order_acquire);
    unsigned int told = atomic_load(&qp->own->executed);

    local_stores(qp->memory);
    while ((int32_t)(done - told) > 0 &&
           !atomic_compare_exchange_weak(&qp->own->executed, &told, done))
        ;
}

/* Once per connection. What was published stays valid behind it. */
static void say_end(struct local_qp *qp)
{
    struct local_page *own = qp->own;
    uint32_t code;

    tx_assert_inside(qp->core);
    tell_rest(qp);
    spinlock_lock(&qp->core->life.lock);
    code = qp->refused.is_set ? qp->refused.code : qp->core->life.terminate_sent;
    atomic_store_explicit(&own->number, qp->refused.number, memory_order_relaxed);
    atomic_store_explicit(&own->status, qp->refused.status, memory_order_relaxed);
    atomic_store_explicit(&own->code, code, memory_order_relaxed);
    atomic_store_explicit(&own->ended, own_end(qp), memory_order_release);
    spinlock_unlock(&qp->core->life.lock);
    local_wake_peer(qp);
}

/* The oldest request that is published is one by reference: its octets are here. Inside tx. */
static bool is_referred(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->refers, memory_order_relaxed) &&
           local_unexecuted(qp) <= qp->referred;
}

/* In an orderly close, as over a network: what the peer will find is sent. Those that tell by their
 * completion that the peer has taken them are flushed with the rest. Under rx. */
static void complete_published(struct local_qp *qp)
{
    struct wqe *wqe;

    local_assert_rx(qp);
    if (qp_is_acknowledged(qp->core))
        return;
    while ((wqe = local_oldest(qp)) && !wqe_is_answered(wqe) && !is_referred(qp)) {
        wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
        qp->answered++;
        qp->executed++;
    }
}

void local_close(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    tx_assert_inside(qp->core);
    host->timer_cancel(host, qp->core->lane->base.context, &qp->close_timer);
    if (!qp->bell)
        return;
    local_close_tcp(qp);
    local_bell_leave(qp);
}

void local_set_close_timer(struct local_qp *qp, uint64_t ns)
{
    const struct ri_host *host = qp->core->rnic->host;

    qp->close_timer.deadline = clock_after(clock_now(), ns);
    host->timer_set(host, qp->core->lane->base.context, &qp->close_timer);
}

/* The peer's end is awaited for so long. */
static void finish_in_order(struct local_qp *qp)
{
    local_finish_tcp(qp);
    local_set_close_timer(qp, local_rnic(qp->core->rnic)->close_timeout_ns);
}

/* Under rx. */
static void forget_rest(struct local_qp *qp)
{
    const struct ri_host *host = qp->core->rnic->host;

    local_assert_rx(qp);
    qp->resting = false;
    host->timer_cancel(host, qp->core->lane->base.context, &qp->rest_timer);
    atomic_store(&qp->rest_over, false);
}

void local_stop(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    const struct ri_host *host = base->rnic->host;
    enum ri_qp_state state = qp_state(base);

    tx_assert_inside(base);
    local_close_gate(qp);
    say_end(qp);
    atomic_store(&base->tx.stopped, true); /* before rx is awaited: see leave() */
    host->timer_cancel(host, base->lane->base.context, &qp->patience);
    own_forget(&qp->requests);
    spinlock_lock(&qp->rx);
    forget_rest(qp);
    qp->end_waits = false;
    if (state == RI_QPS_CLOSING)
        complete_published(qp);
    else if (state == RI_QPS_TERMINATE)
        atomic_store(&base->life.state, RI_QPS_ERROR);
    qp_flush_ended(base);
    spinlock_unlock(&qp->rx);
    if (state == RI_QPS_CLOSING)
        finish_in_order(qp);
    else
        local_close(qp);
}

/* --- the peer --- */

static enum local_end peer_end(const struct local_qp *qp)
{
    return (enum local_end)atomic_load_explicit(&qp->peer->ended, memory_order_acquire);
}

/* An orderly close is told by the FIN behind the word, if there is a TCP socket: who closes first
 * has the port that rests, as over TCP. */
bool local_has_end(const struct local_qp *qp)
{
    enum local_end end = peer_end(qp);
    bool told = atomic_load(&qp->witnessed) || (end == LOCAL_CLOSED && !qp->keeps_tcp);

    if (atomic_load(&qp->gone)) /* nothing new */
        return false;
    if (atomic_load(&qp->close_over) || (end != LOCAL_OPEN && end != LOCAL_CLOSED))
        return true;
    return told && !(qp->end_waits && atomic_load(&qp->waits));
}

/* The request that the peer has refused: the oldest that it has not executed, which may not be
 * published as a whole. NULL: it names another. */
static struct wqe *refused_request(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    uint32_t posted = atomic_load_explicit(&sq->posted, memory_order_acquire);

    if (atomic_load_explicit(&qp->peer->number, memory_order_relaxed) != qp->executed)
        return NULL;
    local_skip_done(qp);
    return qp->answered != posted ? wq_slot(sq, qp->answered) : NULL;
}

/* Of a status that a peer can give a request. */
static enum ri_wc_status peer_status(const struct local_qp *qp)
{
    uint32_t status = atomic_load_explicit(&qp->peer->status, memory_order_relaxed);

    switch (status) {
    case RI_WC_REMOTE_ACCESS:
    case RI_WC_REMOTE_INVALID_REQUEST:
    case RI_WC_RNR: return (enum ri_wc_status)status;
    default: return RI_WC_REMOTE_OPERATION;
    }
}

static void end_by_error(struct local_qp *qp, bool refused)
{
    struct qp_end end = {
        .event = RI_EVENT_TERMINATE_RECEIVED,
        .state = RI_QPS_ERROR,
        .terminate_received = true,
        .terminate_value = (uint16_t)atomic_load_explicit(&qp->peer->code, memory_order_relaxed),
        .terminate = "",
        .detail = refused ? "the peer has refused a request" : "the peer had an error",
    };

    if (refused) {
        end.wqe = refused_request(qp);
        end.status = peer_status(qp);
    }
    qp_end(qp->core, &end);
}

/* The peer has not executed all that was posted. */
static bool has_unfinished(const struct local_qp *qp)
{
    return wq_pending(&qp->core->sq) || atomic_load(&qp->given) != qp->executed;
}

static void end_by_close(struct local_qp *qp)
{
    static const struct qp_end unheard = {
        .event = RI_EVENT_LLP_CLOSED,
        .state = RI_QPS_ERROR,
        .detail = "the peer closed, and no receive was posted for Sends that came before",
    };
    const struct qp_end end = { .event = has_unfinished(qp) ? RI_EVENT_LLP_CLOSED_BUSY
                                                            : RI_EVENT_LLP_CLOSED,
                                .state = RI_QPS_ERROR,
                                .detail = "the peer has closed the connection" };

    qp_end(qp->core, atomic_load(&qp->waits) ? &unheard : &end);
}

static void end_by_reset(struct local_qp *qp, const char *detail)
{
    const struct qp_end end = {
        .event = RI_EVENT_LLP_RESET, .state = RI_QPS_ERROR, .lost = true, .detail = detail
    };

    qp_end(qp->core, &end);
}

/* The peer's process has ended. As over TCP, octets that it had not taken make it a reset. */
static void end_by_death(struct local_qp *qp)
{
    if (has_unfinished(qp) || atomic_load(&qp->witnessed) & WITNESSED_RESET)
        end_by_reset(qp, "the peer's process has ended");
    else
        end_by_close(qp);
}

/* As over TCP: Sends that came before an orderly end still find receives, if those come soon. */
static bool await_receives(struct local_qp *qp)
{
    if (!atomic_load(&qp->waits) || atomic_load(&qp->close_over))
        return false;
    qp->end_waits = true;
    local_set_close_timer(qp, END_PATIENCE);
    return true;
}

/* --- InfiniBand's rules --- */

/* The peer's word for a request of this side. False: it names none. */
static bool end_by_word(struct local_qp *qp)
{
    struct qp_end end = {
        .event = RI_EVENT_TERMINATE_RECEIVED,
        .state = RI_QPS_ERROR,
        .terminate_value = (uint16_t)atomic_load_explicit(&qp->peer->code, memory_order_relaxed),
        .wqe = refused_request(qp),
        .status = peer_status(qp),
        .detail = "the peer has refused a request",
    };

    if (!end.wqe)
        return false;
    if (end.status == RI_WC_RNR) {
        end.event = RI_EVENT_NO_RECEIVE;
        end.detail = "the peer has posted no receive: rnr_retry is used up";
    }
    qp_end(qp->core, &end);
    return true;
}

/* What it has published is executed, but for a Send that has found no receive: over a network it
 * would not be sent again. */
static void end_by_rules(struct local_qp *qp, enum local_end end)
{
    local_assert_rx(qp);
    if (end == LOCAL_REFUSED && end_by_word(qp))
        return;
    qp->deaf = true;
    atomic_store(&qp->gone, true);
}

/* In RTS: behind what was published before. */
void local_note_end(struct local_qp *qp)
{
    const enum local_end end = peer_end(qp);

    local_assert_rx(qp);
    if (end != LOCAL_RESET && local_has_request(qp))
        return;
    if (!qp->rules && (end == LOCAL_OPEN || end == LOCAL_CLOSED) && await_receives(qp))
        return;
    /* The peer said before its end what it has executed: this pass may have looked earlier. */
    local_take_answers(qp);
    if (qp_state(qp->core) != RI_QPS_RTS)
        return;
    if (qp->rules) {
        end_by_rules(qp, end);
        return;
    }
    switch (end) {
    case LOCAL_OPEN: end_by_death(qp); break;
    case LOCAL_CLOSED: end_by_close(qp); break;
    case LOCAL_TERMINATED: end_by_error(qp, false); break;
    case LOCAL_REFUSED: end_by_error(qp, true); break;
    default: end_by_reset(qp, "the peer has reset the connection"); break;
    }
}

/* In CLOSING the peer's end, or that of the time for it, is the end. */
void local_rest(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    const enum local_end end = qp->memory ? peer_end(qp) : LOCAL_OPEN;
    bool closed = end == LOCAL_CLOSED || (end == LOCAL_OPEN && atomic_load(&qp->witnessed));

    tx_assert_inside(base);
    if (qp_state(base) != RI_QPS_CLOSING || !qp->memory || !local_has_end(qp))
        return;
    if (closed)
        qp_closed(base, "closed in order");
    else
        qp_closed_badly(base, end == LOCAL_OPEN ? "the peer did not close within close_timeout"
                                                : "the peer has reset the connection");
    local_close(qp);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of the wire queue: a connection's begin and end.
 */
#include "providers/software/core/post.h"
#include "queue.h"

#include <sys/epoll.h>

/* --- lanes --- */

static enum ri_status lane_open(struct lane *lane)
{
    (void)lane;
    return RI_OK;
}

static void lane_close(struct lane *lane)
{
    (void)lane; /* there is no QP any more, and nothing outlives one */
}

/* The pass has visited the QPs that had work (coalesced.c). */
static uint32_t serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    (void)first, (void)budget;
    return atomic_exchange(&queue_lane(lane)->executed, 0);
}

static bool is_idle(const struct lane *lane)
{
    (void)lane;
    return true;
}

static void count(struct lane *lane, uint32_t *connections, uint32_t *closing)
{
    (void)closing;
    spinlock_lock(&lane->lock);
    for (const struct qp *qp = lane->connected; qp; qp = qp->on_lane.connected_next)
        ++*connections;
    spinlock_unlock(&lane->lock);
}

/* --- posts --- */

static void send_waiting(struct qp *base)
{
    atomic_store(&queue_qp(base)->go, true);
    tx_run(base);
    qp_deliver(base);
}

/* The peer's request goes on behind an entry of this side that is quiet now. */
static void call_peer(struct queue_qp *qp)
{
    struct link_end *end;

    tx_enter(&qp->core); /* the link stays */
    if (qp->link) {
        end = link_peer(qp);
        spinlock_lock(&end->rx);
        if (end->qp)
            tx_defer_to_lane(&end->qp->core);
        spinlock_unlock(&end->rx);
    }
    tx_leave(&qp->core);
}

static void make_quiet(struct queue_qp *qp, int which)
{
    struct stag_entry *entry = atomic_load(&qp->unquiet[which]);

    if (!entry)
        return;
    if (!lane_inside(qp->core.lane)) {
        tx_defer_to_lane(&qp->core);
        return;
    }
    invalidate_quiet(qp->core.rnic, entry);
    atomic_store(&qp->unquiet[which], NULL);
    if (which == UNQUIET_PEER)
        call_peer(qp);
}

static void leave_together(struct qp *base)
{
    for (int which = 0; which < UNQUIETS; which++)
        make_quiet(queue_qp(base), which);
    send_waiting(base);
}

static void receive_posted(struct qp *base)
{
    call_peer(queue_qp(base));
}

/* --- output --- */

static void close_witness(struct queue_qp *qp)
{
    const struct ri_host *host = qp->core.rnic->host;

    if (qp->watch)
        host->unwatch(host, qp->watch);
    qp->watch = NULL;
    if (qp->fd >= 0)
        link_close(qp->fd);
    qp->fd = -1;
}

/* What ended this side, for the peer. An orderly close is told by the FIN. */
static void tell_end(struct queue_qp *qp)
{
    const bool refused = qp->core.life.terminate_wanted;
    const struct qp_end end = { .event = refused ? RI_EVENT_TERMINATE_RECEIVED : RI_EVENT_LLP_RESET,
                                .state = RI_QPS_ERROR,
                                .lost = !refused,
                                .terminate_received = refused,
                                .terminate_value = refused ? qp->core.life.terminate_sent : 0,
                                .terminate = "",
                                .detail = refused ? "the peer had an error"
                                                  : "the peer has reset" };
    struct link_end *peer = link_peer(qp);

    if (!refused && !qp->core.life.lost)
        return;
    spinlock_lock(&peer->rx);
    if (peer->qp) {
        qp_end(&peer->qp->core, &end);
        queue_tell(&peer->qp->core);
    }
    spinlock_unlock(&peer->rx);
}

static void stop(struct qp *base)
{
    struct queue_qp *qp = queue_qp(base);
    const struct ri_host *host = base->rnic->host;
    enum ri_qp_state state = qp_state(base);

    tell_end(qp);
    atomic_store(&base->tx.stopped, true);
    host->timer_cancel(host, base->lane->base.context, &qp->patience);
    qp->waits = qp->revoked = false;
    spinlock_lock(&link_own(qp)->rx);
    if (state == RI_QPS_TERMINATE)
        atomic_store(&base->life.state, RI_QPS_ERROR);
    qp_flush_ended(base);
    spinlock_unlock(&link_own(qp)->rx);
    if (state == RI_QPS_CLOSING)
        link_finish(qp->fd);
    else
        close_witness(qp);
}

/* The witness has seen the peer's end, of which the peer may have told more. */
static void note_end(struct queue_qp *qp, unsigned int seen)
{
    const bool busy = wq_pending(&qp->core.sq);
    const struct qp_end end = { .event = seen & SEEN_RESET ? RI_EVENT_LLP_RESET
                                         : busy            ? RI_EVENT_LLP_CLOSED_BUSY
                                                           : RI_EVENT_LLP_CLOSED,
                                .state = RI_QPS_ERROR,
                                .lost = seen & SEEN_RESET,
                                .detail = "the peer has closed the connection" };

    if (qp_end(&qp->core, &end) || qp_state(&qp->core) != RI_QPS_CLOSING)
        return;
    if (seen & SEEN_RESET)
        qp_closed_badly(&qp->core, "the peer has reset the connection");
    else
        qp_closed(&qp->core, "closed in order");
}

static void send_posted(struct qp *base)
{
    unsigned int seen = atomic_load(&queue_qp(base)->seen);

    if (seen)
        note_end(queue_qp(base), seen);
    else
        queue_send(base);
}

static void rest(struct qp *base)
{
    struct queue_qp *qp = queue_qp(base);
    unsigned int seen = atomic_load(&qp->seen);

    if (!seen || !qp->watch)
        return;
    note_end(qp, seen);
    if (base->tx.stopped)
        close_witness(qp);
}

/* A request that is under way is inside tx. */
static void leave(struct qp *base, enum leave what, const struct memory_range *range, bool in_pass)
{
    (void)what, (void)range, (void)in_pass;
    tx_enter(base);
    tx_leave(base);
}

/* --- a connection --- */

/* Level-triggered: the next pass takes it up, and the descriptor is watched no more. */
static void ready(void *arg, uint32_t events)
{
    struct queue_qp *qp = arg;

    atomic_fetch_or(&qp->seen, link_look(qp->fd, events));
    tx_defer_to_lane(&qp->core);
}

static void patience_over(struct ri_timer *timer)
{
    struct queue_qp *qp = container_of(timer, struct queue_qp, patience);

    atomic_store(&qp->patience_over, true);
    tx_defer_to_lane(&qp->core);
}

static void tell_start(struct queue_qp *qp)
{
    if (atomic_exchange(&qp->awaits_start, false))
        qp_record_established(&qp->core);
    tx_defer_to_lane(&qp->core);
}

/* Each end shows itself before it looks for the other one: the later one finds both. */
static void show(struct queue_qp *qp)
{
    struct link_end *own = link_own(qp), *peer = link_peer(qp);
    bool both;

    spinlock_lock(&own->rx);
    own->qp = qp;
    spinlock_unlock(&own->rx);
    spinlock_lock(&peer->rx);
    both = peer->qp;
    if (both)
        tell_start(peer->qp);
    spinlock_unlock(&peer->rx);
    if (both)
        tell_start(qp);
}

/* The start has failed: the descriptor stays the caller's. Also of a refusal. */
static void let_go(struct queue_qp *qp)
{
    link_leave(qp->link);
    qp->link = NULL;
    qp->fd = -1;
}

/* A peer that has not started yet sees the FIN. */
static void refuse(struct queue_qp *qp, uint16_t code)
{
    const struct qp_end end = { .event = RI_EVENT_TERMINATE_RECEIVED,
                                .state = RI_QPS_ERROR,
                                .terminate_received = true,
                                .terminate_value = code,
                                .terminate = "",
                                .detail = "the peer has refused the connection" };
    struct link_end *peer = link_peer(qp);

    spinlock_lock(&peer->rx);
    if (peer->qp) {
        qp_end(&peer->qp->core, &end);
        queue_tell(&peer->qp->core);
    }
    spinlock_unlock(&peer->rx);
    link_close(qp->fd);
    let_go(qp);
    atomic_store(&qp->core.tx.stopped, true);
    atomic_store(&qp->core.life.state, RI_QPS_ERROR);
}

static enum ri_status join(struct queue_qp *qp, const struct ri_llp_handover *handover)
{
    enum ri_status status = handover->bytes_read_length
                                ? RI_ERR_NOT_SUPPORTED
                                : link_join(handover->fd, &qp->link, &qp->side);

    if (status == RI_ERR_NOT_SUPPORTED)
        ri_log(qp->core.rnic->host, RI_LOG_ERROR,
               "the other end of a connection is not in this process, or has sent more than its "
               "start-up: the wire queue joins two endpoints of one process");
    return status;
}

static void begin(struct queue_qp *qp, const struct ri_llp_handover *handover)
{
    static const struct qp_end lost = { .event = RI_EVENT_LLP_LOST,
                                        .state = RI_QPS_ERROR,
                                        .lost = true,
                                        .detail = "the last message of the start-up was not sent" };

    qp_connected(&qp->core, &queue_wire, handover->ird, handover->ord);
    show(qp);
    if (!link_say(qp->fd, handover->last_message, handover->last_message_length))
        qp_end(&qp->core, &lost);
}

static enum ri_status start(struct qp *base, const struct ri_llp_handover *handover)
{
    struct queue_qp *qp = queue_qp(base);
    const struct ri_host *host = base->rnic->host;
    enum ri_status status = join(qp, handover);

    if (status != RI_OK)
        return status;
    qp->fd = handover->fd;
    if (handover->refuse_code) {
        refuse(qp, handover->refuse_code);
        return RI_OK;
    }
    atomic_store(&qp->seen, 0);
    atomic_store(&qp->patience_over, false);
    atomic_store(&qp->awaits_start, handover->rtr_await);
    qp->patience.expired = patience_over;
    status = host->watch(host, base->lane->base.context, qp->fd, EPOLLRDHUP, ready, qp, &qp->watch);
    if (status == RI_OK)
        begin(qp, handover);
    else
        let_go(qp);
    return status;
}

static bool close_connection(struct qp *qp)
{
    static const struct qp_end in_order = { .state = RI_QPS_CLOSING };

    return qp_end(qp, &in_order);
}

static bool terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    struct qp_end whole = *end;

    whole.state = RI_QPS_TERMINATE;
    whole.send_terminate = true;
    whole.terminate_value = cause == QP_CAUSE_CONSUMER ? CODE_LOCAL : CODE_STREAM;
    whole.terminate = "";
    return qp_end(qp, &whole);
}

static void cut(struct qp *qp)
{
    tell_end(queue_qp(qp));
    if (!qp->tx.stopped)
        stop(qp);
    close_witness(queue_qp(qp));
}

/* Also of a QP that has let go of its connection. */
static void hide(struct qp *base)
{
    struct link_end *own;

    if (!queue_qp(base)->link)
        return;
    own = link_own(queue_qp(base));
    spinlock_lock(&own->rx);
    own->qp = NULL;
    spinlock_unlock(&own->rx);
}

static void release(struct qp *base)
{
    struct queue_qp *qp = queue_qp(base);

    if (!base->tx.stopped)
        stop(base);
    close_witness(qp);
    hide(base);
    let_go(qp);
    for (int which = 0; which < UNQUIETS; which++)
        atomic_store(&qp->unquiet[which], NULL);
}

static void qp_free_part(struct qp *qp)
{
    (void)qp;
}

/* --- attributes --- */

static bool try_hold(struct qp *qp)
{
    return spinlock_try(&link_own(queue_qp(qp))->rx);
}

static void unhold(struct qp *qp)
{
    spinlock_unlock(&link_own(queue_qp(qp))->rx);
}

/* One request of a direction is under way at most. */
static enum ri_status set_depths(struct qp *qp, uint32_t ird, uint32_t ord)
{
    (void)qp, (void)ird, (void)ord;
    return RI_OK;
}

/* Each request completes when it is executed, in either mode. */
static void set_acknowledged(struct qp *qp, bool on)
{
    (void)qp, (void)on;
}

static void attributes_changed(struct qp *qp)
{
    (void)qp;
}

static uint32_t answered_request(const struct qp *qp)
{
    return atomic_load(&qp->sq.next);
}

const struct wire queue_wire = {
    .name = "queue",
    .slot = WIRE_NETWORK,
    .qp_octets = sizeof(struct queue_qp),
    .lane_octets = sizeof(struct queue_lane),
    .lane_open = lane_open,
    .lane_close = lane_close,
    .serve = serve,
    .is_idle = is_idle,
    .count = count,
    .post_send = wire_post_send,
    .leave_together = leave_together,
    .send_waiting = send_waiting,
    .receive_posted = receive_posted,
    .send = send_posted,
    .stop = stop,
    .rest = rest,
    .leave = leave,
    .start = start,
    .close = close_connection,
    .terminate = terminate,
    .cut = cut,
    .hide = hide,
    .release = release,
    .qp_free = qp_free_part,
    .try_hold = try_hold,
    .unhold = unhold,
    .set_depths = set_depths,
    .set_acknowledged = set_acknowledged,
    .attributes_changed = attributes_changed,
    .answered_request = answered_request,
    .way = wire_has_no_way,
    .counter = wire_has_no_counter,
};

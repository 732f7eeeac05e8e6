/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of the wire iwarp: what the core asks of it, in the words of its folders.
 */
#include "wire_iwarp.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <stdlib.h>

/* --- lanes --- */

static bool is_idle(const struct lane *lane)
{
    spinlock_assert_held(&lane->lock);
    return !iwarp_lane(lane)->ready;
}

static void count(struct lane *lane, uint32_t *connections, uint32_t *closing)
{
    spinlock_lock(&lane->lock);
    *connections += iwarp_lane(lane)->stream_count;
    *closing += iwarp_lane(lane)->closing_count;
    spinlock_unlock(&lane->lock);
}

/* --- posts --- */

/* A single short request goes the fast path (tx/tx_single.c), any list the general one. */
static enum ri_status post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct iwarp_qp *qp = container_of(base, struct iwarp_qp, core.base);

    if (post_is_short(wr))
        return tx_post_single(qp, wr, bad);
    if (post_is_single_read(wr))
        return tx_post_single_read(qp, wr, bad);
    return post_list(qp, wr, bad);
}

static void leave_together(struct qp *qp)
{
    tx_leave_together(iwarp_qp(qp));
}

static void send_waiting(struct qp *qp)
{
    tx_send_coalesced(iwarp_qp(qp));
}

/* The next pass delivers what waits in the QP's stash. Several QPs may wait for one post to their
 * SRQ: those that get none mark the queue again. */
static void receive_posted(struct qp *base)
{
    struct iwarp_qp *qp = iwarp_qp(base);

    if (base->srq && !atomic_load(&qp->rx.behind_stash))
        return;
    tx_enter(base); /* the stream stays */
    if (qp->stream)
        lane_call(qp->stream);
    tx_leave(base);
}

/* --- output --- */

static void send_posted(struct qp *qp)
{
    tx_send(iwarp_qp(qp));
}

static void stop(struct qp *qp)
{
    tx_assert_inside(qp);
    tx_stop(iwarp_qp(qp));
}

static void rest(struct qp *qp)
{
    tx_assert_inside(qp);
    if (tx_holds_idle_memory(iwarp_qp(qp)))
        tx_release_batch(iwarp_qp(qp));
}

static void leave(struct qp *base, enum leave what, const struct memory_range *range, bool in_pass)
{
    struct iwarp_qp *qp = iwarp_qp(base);

    if (in_pass)
        tx_detach_in_pass(qp, range);
    else if (what == LEAVE_MEMORY)
        tx_detach(qp, range);
    else
        tx_detach_output(qp, range);
}

/* --- a connection --- */

static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    if (handover->stream_ops) {
        if (!llp_may_carry(handover->stream_ops))
            return RI_ERR_INVALID_ARGUMENT;
        return iwarp_start(iwarp_qp(qp), handover, &llp_handed);
    }
    llp_tcp_prepare(handover->fd, &iwarp_rnic(qp->rnic)->options);
    return iwarp_start(iwarp_qp(qp), handover, &llp_tcp);
}

/* A FIN while own Reads are unanswered would cut the peer off in the middle of the answer: it is
 * a bad close then (S-076). Inside tx, so no further Read leaves meanwhile. */
static bool close_connection(struct qp *base)
{
    static const struct qp_end in_order = { .state = RI_QPS_CLOSING };
    static const struct qp_end reset = { .event = RI_EVENT_LLP_RESET,
                                         .state = RI_QPS_ERROR,
                                         .lost = true,
                                         .by_this_side = true,
                                         .detail = "closed while Reads were unanswered" };
    struct iwarp_qp *qp = iwarp_qp(base);
    uint32_t unanswered = atomic_load(&qp->reads.ord_in) - atomic_load(&qp->reads.ord_out);

    tx_assert_inside(base);
    return qp_end(base, unanswered > iwarp_may_hear(qp) ? &reset : &in_order);
}

static bool terminate(struct qp *qp, enum qp_cause cause, const struct qp_end *end)
{
    static const uint16_t values[] = {
        [QP_CAUSE_CONSUMER] = TERMINATE_LOCAL, [QP_CAUSE_CQ_OVERFLOW] = TERMINATE_STREAM
    };
    struct qp_end whole = *end;

    whole.terminate_value = values[cause];
    return iwarp_terminate(iwarp_qp(qp), &whole, NULL);
}

static void cut(struct qp *base)
{
    struct iwarp_qp *qp = iwarp_qp(base);

    tx_assert_inside(base);
    if (!base->tx.stopped)
        tx_stop(qp);
    spinlock_lock(&qp->stream->rx);
    stream_abort(qp->stream, true);
    spinlock_unlock(&qp->stream->rx);
}

static void hide(struct qp *base)
{
    struct stream *stream = iwarp_qp(base)->stream;

    if (stream) {
        spinlock_lock(&stream->rx);
        atomic_store(&stream->qp, NULL);
        spinlock_unlock(&stream->rx);
    }
    tx_keep_no_memory(iwarp_qp(base));
}

static void release(struct qp *base)
{
    struct iwarp_qp *qp = iwarp_qp(base);
    struct stream *stream = qp->stream;

    tx_assert_inside(base);
    if (!base->tx.stopped)
        tx_stop(qp);
    stream_release(stream);
    qp->stream = NULL;
    atomic_store(&qp->reads.ord_out, atomic_load(&qp->reads.ord_in));
    atomic_store(&qp->reads.ird_out, atomic_load(&qp->reads.ird_in));
}

static void qp_free_part(struct qp *base)
{
    struct iwarp_qp *qp = iwarp_qp(base);

    tx_close(qp);
    free(qp->reads.ord_ring);
    free(qp->reads.ird_ring);
}

/* --- attributes --- */

static bool try_hold(struct qp *qp)
{
    tx_assert_inside(qp);
    return spinlock_try(&iwarp_qp(qp)->stream->rx);
}

static void unhold(struct qp *qp)
{
    tx_assert_inside(qp);
    rx_assert_held(iwarp_qp(qp)->stream);
    spinlock_unlock(&iwarp_qp(qp)->stream->rx);
}

static enum ri_status set_depths(struct qp *qp, uint32_t ird, uint32_t ord)
{
    tx_assert_inside(qp);
    rx_assert_held(iwarp_qp(qp)->stream);
    return iwarp_open_reads(iwarp_qp(qp), ird, ord);
}

static void set_acknowledged(struct qp *qp, bool on)
{
    spinlock_assert_held(&qp->life.lock);
    rx_set_acknowledged(iwarp_qp(qp), on);
}

static void attributes_changed(struct qp *qp)
{
    rx_assert_held(iwarp_qp(qp)->stream);
    rx_stash_patience(iwarp_qp(qp));
}

static uint32_t answered_request(const struct qp *base)
{
    const struct iwarp_reads *reads = &container_of(base, struct iwarp_qp, core)->reads;
    uint32_t out = atomic_load_explicit(&reads->ord_out, memory_order_relaxed);

    return reads->ord_ring[out & (reads->ord_size - 1)].index;
}

const struct wire iwarp_wire = {
    .name = "iwarp",
    .slot = WIRE_NETWORK,
    .qp_octets = sizeof(struct iwarp_qp),
    .lane_octets = sizeof(struct iwarp_lane),
    .lane_open = iwarp_lane_open,
    .lane_close = iwarp_lane_close,
    .serve = iwarp_serve,
    .is_idle = is_idle,
    .count = count,
    .post_send = post_send,
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

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, receiver not ready: Sends and Immediate Data that find no receive, on a QP whose
 * consumers have agreed that they wait (RI_QPM_RNR).
 *
 * The stash keeps their segments as they came. While it is not empty every segment of queue 0 goes
 * to its end, so that the order holds; all other messages are processed. With STASH_OCTETS of
 * memory in it nothing is read any more, so the peer's window closes. But the answers to requests
 * of this side come behind it, and its consumer may wait for them before it posts receives: while
 * some are awaited the stash grows up to STASH_MOST (all of them together to STASH_ALL), and then
 * the connection ends after STUCK_PATIENCE.
 *
 * The peer's FIN is taken up when all that came before it is delivered, or when none of it was for
 * END_PATIENCE; a reset at once.
 *
 * A post to a queue that a message waits for (wq.special) calls the lane, whose pass delivers from
 * the stash by the same functions as from the stream (rx.c). A fault is found then, and not before.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <stdlib.h>

#define STASH_OCTETS   (1024u * 1024u)
#define STASH_MOST     (16 * STASH_OCTETS)
#define STASH_ALL      (64 * STASH_OCTETS)
#define END_PATIENCE   (500 * CLOCK_NS_PER_MS)
#define STUCK_PATIENCE (10000 * CLOCK_NS_PER_MS)

/* --- how long a message waits --- */

/* CLOCK_NEVER: it waits without end. */
static uint64_t retries_over_at(const struct iwarp_qp *qp, const struct stash *stash)
{
    return qp_patience_over(&qp->core, stash->since);
}

static void set_timer(const struct iwarp_qp *qp, struct stash *stash)
{
    const struct ri_host *host = qp->core.rnic->host;
    uint64_t deadline = retries_over_at(qp, stash);

    rx_assert_held(stash->stream);
    deadline = deadline < stash->over_at ? deadline : stash->over_at;
    deadline = deadline < stash->stuck_at ? deadline : stash->stuck_at;
    if (deadline == CLOCK_NEVER || (stash->timer_set && stash->timer.deadline <= deadline))
        return;
    stash->timer.deadline = deadline;
    stash->timer_set = true;
    host->timer_set(host, qp->core.lane->base.context, &stash->timer);
}

void rx_stash_patience(struct iwarp_qp *qp)
{
    struct stash *stash = qp->stream ? qp->stream->stash : NULL;

    if (stash && stash->first)
        set_timer(qp, stash);
}

/* Under rx. As plain iWARP ends at once. */
static void give_up(struct iwarp_qp *qp, const struct stash_entry *entry, const char *detail)
{
    const struct terminate_cause cause = { entry->ulpdu, entry->length, entry->length, NULL };
    const struct qp_end end = {
        .event = RI_EVENT_NO_RECEIVE,
        .terminate_value = TERMINATE_U_NOBUF,
        .heard = true,
        .detail = detail,
    };

    rx_assert_held(qp->stream);
    iwarp_terminate(qp, &end, &cause);
}

static void end_stuck(struct iwarp_qp *qp, const struct stash *stash)
{
    atomic_fetch_add(&iwarp_rnic(qp->core.rnic)->stuck_ends, 1);
    ri_log(qp->core.rnic->host, RI_LOG_WARNING,
           "QP %u: its requests wait for answers that are behind %zu octets of Sends for which no "
           "receive is posted: the connection ends (the program has to post receives before it "
           "waits for its own requests, or its peer to send less ahead)",
           qp->core.qpn, stash->octets);
    give_up(qp, stash->first,
            "answers to its requests are behind too many Sends for which no receive is posted");
}

/* Under rx. Something waits. */
static void on_time(struct iwarp_qp *qp, struct stash *stash)
{
    uint64_t now = clock_now();

    rx_assert_held(stash->stream);
    contract(stash->first);
    if (retries_over_at(qp, stash) <= now)
        give_up(qp, stash->first,
                "a Send came and no receive was posted within the agreed retries (rnr_retry)");
    else if (stash->over_at <= now)
        lane_mark_ready(stash->stream); /* the next pass takes up the end */
    else if (stash->stuck_at <= now)
        end_stuck(qp, stash);
    else
        set_timer(qp, stash);
}

/* As the timers of a stream, this may be late. */
static void patience_over(struct ri_timer *timer)
{
    struct stash *stash = container_of(timer, struct stash, timer);
    struct stream *stream = stash->stream;
    struct iwarp_qp *qp;

    spinlock_lock(&stream->rx);
    stash->timer_set = false;
    qp = stream->state == STREAM_OPEN && stash->first ? stream->qp : NULL;
    if (qp) {
        atomic_fetch_add(&qp->core.upcalls, 1); /* destroy waits: no pass protects the QP here */
        on_time(qp, stash);
    }
    spinlock_unlock(&stream->rx);
    if (!qp)
        return;
    qp_deliver(&qp->core);
    atomic_fetch_sub(&qp->core.upcalls, 1);
}

/* --- into the stash --- */

/* Once for a connection. NULL: no memory. */
static struct stash *open_stash(struct iwarp_qp *qp, struct stream *stream)
{
    struct stash *stash = calloc(1, sizeof(*stash));

    if (!stash)
        return NULL;
    stash->stream = stream;
    stash->end = &stash->first;
    stash->over_at = stash->stuck_at = CLOCK_NEVER;
    stash->timer.expired = patience_over;
    stream->stash = stash;
    ri_log(qp->core.rnic->host, RI_LOG_INFO,
           "QP %u: a Send came and no receive is posted; it waits for one (told once for a "
           "connection)",
           qp->core.qpn);
    return stash;
}

bool rx_may_wait(const struct iwarp_qp *qp, const struct rdmap_segment *segment,
                 const struct fault *fault)
{
    return qp->core.attr.rnr_retry && fault->value == TERMINATE_U_NOBUF &&
           qp->core.attr.rq_hard_limit == UINT32_MAX && segment->hdr.msn == qp->rx.expect_send_msn;
}

/* The first message begins to wait. */
static void begin_waiting(struct iwarp_qp *qp, struct stash *stash)
{
    atomic_fetch_or(&stash->stream->attention, ATTEND_STASH);
    atomic_store(&qp->rx.behind_stash, true);
    rx_choose_path(qp);
    stash->since = clock_now();
    count_up(&qp->core.counters.waits, 1);
    set_timer(qp, stash);
    if (rx_stash_ready(qp))
        lane_mark_ready(stash->stream); /* posted meanwhile */
}

/* --- a full one --- */

/* A peer's answer is awaited: to a Read, an atomic or a request for an acknowledgement. */
static bool awaits_answers(const struct iwarp_qp *qp)
{
    return atomic_load(&qp->reads.ord_in) != atomic_load(&qp->reads.ord_out);
}

/* A request that is posted and not sent may await one, too. */
static bool is_full(const struct iwarp_qp *qp, const struct stash *stash)
{
    if (stash->octets < STASH_OCTETS)
        return false;
    return !(awaits_answers(qp) || wq_pending(&qp->core.sq)) || stash->octets >= STASH_MOST ||
           atomic_load_explicit(&iwarp_rnic(qp->core.rnic)->stash_octets, memory_order_relaxed) >=
               STASH_ALL;
}

static void watch_posts(struct iwarp_qp *qp, bool watched)
{
    spinlock_lock(&qp->core.sq.posting);
    qp->coalesce.watched = watched;
    spinlock_unlock(&qp->core.sq.posting);
}

static bool is_to_be_held(const struct iwarp_qp *qp, const struct stash *stash)
{
    return is_full(qp, stash) || stash->over_at != CLOCK_NEVER;
}

/* A request may have been sent between the look and the hold. Its thread sees that input is held,
 * or this one sees that its answer is awaited: there is a fence on both sides (tx_note_awaited). */
void rx_stash_hold(struct iwarp_qp *qp, struct stream *stream)
{
    struct stash *stash = stream->stash;
    bool held = atomic_load(&stream->attention) & ATTEND_HELD, hold;

    rx_assert_held(stream);
    watch_posts(qp, stash->octets >= STASH_OCTETS); /* first: a later post is seen */
    hold = is_to_be_held(qp, stash);
    if (hold && !held) {
        stream_hold_input(stream, ATTEND_HELD, true);
        held = true;
        atomic_thread_fence(memory_order_seq_cst);
        hold = is_to_be_held(qp, stash);
    }
    if (held && !hold)
        stream_hold_input(stream, ATTEND_HELD, false);
    if (!hold || !awaits_answers(qp))
        stash->stuck_at = CLOCK_NEVER;
    else if (stash->stuck_at == CLOCK_NEVER)
        stash->stuck_at = clock_after(clock_now(), STUCK_PATIENCE);
    if (stash->first)
        set_timer(qp, stash);
}

bool rx_stash_is_over(struct iwarp_qp *qp, struct stream *stream)
{
    struct stash *stash = stream->stash;

    if (stash->over_at <= clock_now())
        return true;
    if (stash->over_at == CLOCK_NEVER) {
        stash->over_at = clock_after(clock_now(), END_PATIENCE);
        atomic_fetch_or(&stream->attention, ATTEND_OVER);
        stream_hold_input(stream, ATTEND_HELD, true);
        set_timer(qp, stash);
    }
    return false;
}

bool rx_stash(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    struct stream *stream = qp->stream;
    struct stash *stash = stream->stash ? stream->stash : open_stash(qp, stream);
    uint32_t length = segment->payload_len + DDP_UNTAGGED_LEN;
    struct stash_entry *entry;

    rx_assert_held(stream);
    if (stash && stash->delivering) {
        stash->again = true;
        return true;
    }
    entry = stash ? malloc(sizeof(*entry) + length) : NULL;
    if (!entry)
        return FAULT(TERMINATE_LOCAL, RI_EVENT_LLP_LOST, QP_NO_MEMORY("a Send that has to wait"));
    entry->next = NULL;
    entry->length = length;
    memcpy(entry->ulpdu, segment->payload - DDP_UNTAGGED_LEN, length);
    *stash->end = entry;
    stash->end = &entry->next;
    stash_charge(stash, sizeof(*entry) + length, 0);
    if (stash->first == entry)
        begin_waiting(qp, stash);
    if (stash->octets >= STASH_OCTETS && !(atomic_load(&stream->attention) & ATTEND_HELD))
        rx_stash_hold(qp, stream);
    return true;
}

/* --- out of it --- */

bool rx_stash_ready(struct iwarp_qp *qp)
{
    struct wq *queue = qp->core.srq ? &qp->core.srq->queue : &qp->core.rq;

    return qp->rx.message_open || wq_pending(queue) || !wq_await_post(queue);
}

struct stash_entry *rx_stash_begin(struct iwarp_qp *qp, struct stash *stash)
{
    atomic_store(&qp->rx.behind_stash, false);
    stash->delivering = true;
    stash->again = false;
    return stash->first;
}

/* Takes the entry off, unless it goes on waiting. */
static void take_off(struct stash *stash)
{
    struct stash_entry *entry = stash->first;

    rx_assert_held(stash->stream);
    if (stash->again)
        return;
    stash->first = entry->next;
    if (!stash->first)
        stash->end = &stash->first;
    stash_charge(stash, 0, sizeof(*entry) + entry->length);
    free(entry);
}

bool rx_stash_end(struct iwarp_qp *qp, struct stash *stash)
{
    stash->delivering = false;
    take_off(stash);
    atomic_store(&qp->rx.behind_stash, stash->first != NULL);
    return !stash->again;
}

void rx_stash_delivered(struct iwarp_qp *qp, struct stream *stream)
{
    struct stash *stash = stream->stash;

    rx_assert_held(stream);
    stash->stuck_at = CLOCK_NEVER;
    stash->over_at = CLOCK_NEVER; /* the consumer takes what came before the end */
    if (stash->first) {
        stash->since = clock_now();
    } else {
        atomic_fetch_and(&stream->attention, ~(unsigned int)ATTEND_STASH);
        rx_choose_path(qp);
    }
    rx_stash_hold(qp, stream);
}

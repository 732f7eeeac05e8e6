/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream: a connection's life and end.
 *
 *   OPEN ----- qp stops (tx_stop) or goes away ----> CLOSING ---- both FINs, or bound ----> CLOSED
 *     \____________ reset, lost, forced ______________________________________________/
 *
 * CLOSING needs no QP: the tail (output built before, a Terminate) goes out, then FIN; input is
 * read and dropped to the peer's FIN, so that nothing that the peer has not read is destroyed by a
 * RST; the timer bounds it. A peer that goes on sending gets a RST (C-151), but only when it has
 * acknowledged the tail and the FIN: a RST destroys octets that are still on their way. So the peer
 * reads everything that was sent before, then the FIN: an end in order, as for the side that
 * closes. TCP reports no acknowledgement, so the timer looks, ever less often. The descriptor is
 * shut down before it is closed, because a forked child may hold a copy.
 *
 * Who owns it. stream_open gives the stream to its caller, which `holds` it: nobody else frees it,
 * whatever ends it meanwhile (FIN, reset, a timer, the close of the RNIC). The holder gives it up
 * once, by stream_release: the QP's life does that (qp_release_stream), or, where no QP follows,
 * the function that opened it (qp_start.c). From then on the lane owns it. It is given to
 * free_later once, at the moment when both have happened: it is CLOSED, and nobody holds it.
 *
 *   held, OPEN or CLOSING -- stream_abort ---> held, CLOSED -- stream_release --> free_later
 *   held, OPEN or CLOSING -- stream_release -> the lane's   -- stream_abort ----> free_later
 *
 * So a stream is released when it is CLOSING or CLOSED: an OPEN one without a holder would be ended
 * by nobody.
 */
#include "connection.h"
#include "providers/software/iwarp/objects/iwarp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

/* Between two looks at what the peer of a bad close has acknowledged. */
#define POLL_FIRST_NS CLOCK_NS_PER_MS
#define POLL_LAST_NS  (64 * CLOCK_NS_PER_MS)

static enum ri_status keep_bytes(struct stream *stream, const struct ri_llp_handover *handover)
{
    if (!handover->bytes_read_length)
        return RI_OK;
    stream->partial.octets = malloc(handover->bytes_read_length);
    if (!stream->partial.octets)
        return RI_ERR_NO_RESOURCES;
    memcpy(stream->partial.octets, handover->bytes_read, handover->bytes_read_length);
    stream->partial.length = (uint32_t)handover->bytes_read_length;
    /* The stream itself is not counted; its growth is. */
    atomic_store(&stream->attention, ATTEND_FRESH);
    return RI_OK;
}

static void enlist(struct stream *stream)
{
    struct lane *lane = stream->lane;

    spinlock_lock(&lane->lock);
    DL_APPEND(iwarp_lane(lane)->streams, stream);
    iwarp_lane(lane)->stream_count++;
    spinlock_unlock(&lane->lock);
}

enum ri_status stream_open(struct lane *lane, struct iwarp_qp *qp,
                           const struct ri_llp_handover *handover, const struct llp_ops *llp,
                           const struct stream_timers *timers, struct stream **out)
{
    struct stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return RI_ERR_NO_RESOURCES;
    stream->llp = llp;
    stream->fd = handover->fd;
    stream->handed.ops = handover->stream_ops;
    stream->handed.stream = handover->stream;
    stream->lane = lane;
    stream->qp = qp;
    stream->held = true;
    llp_capture_insert(stream, handover->capture);
    llp_acks_insert(stream);
    stream->timer.expired = timers->expired;
    stream->partial.stall.expired = timers->stalled;
    stream->acks.timer.expired = timers->acks;
    stream->read.most = stream->read.next = READ_MOST;
    if (keep_bytes(stream, handover) != RI_OK) {
        free(stream);
        return RI_ERR_NO_RESOURCES;
    }
    enlist(stream);
    *out = stream;
    return RI_OK;
}

/* The host reports readiness inside a run. An error is reported whether or not it is watched. */
void stream_ready(void *arg, uint32_t events)
{
    struct stream *stream = arg;

    if (unlikely(events & (EPOLLERR | EPOLLHUP)) &&
        (atomic_load(&stream->attention) & ATTEND_UNREAD))
        atomic_fetch_or(&stream->attention, ATTEND_BROKEN);
    if (unlikely(events & EPOLLRDHUP) && (atomic_load(&stream->attention) & ATTEND_HELD))
        atomic_fetch_or(&stream->attention, ATTEND_OVER);
    lane_mark_ready(stream);
}

/* The set is level-triggered: an end of stream that was read, or noted, would be reported for
 * ever. Behind a full stash it is told before it is read. */
static uint32_t watched_input(struct stream *stream)
{
    unsigned int attention = atomic_load(&stream->attention);

    if (atomic_load(&stream->input_ended) || (attention & ATTEND_BEHIND))
        return 0;
    if (attention & ATTEND_HELD)
        return attention & ATTEND_OVER ? 0 : EPOLLRDHUP;
    return EPOLLIN | EPOLLRDHUP;
}

static uint32_t watched_events(struct stream *stream)
{
    return watched_input(stream) | (atomic_load(&stream->want_output) ? EPOLLOUT : 0);
}

/* Two threads may be here at once, for input and for output: the last one to tell the host sees
 * what the other has changed. */
static void watch_again(struct stream *stream)
{
    const struct ri_host *host = stream->lane->rnic->host;
    uint32_t events;

    if (!stream->watch)
        return;
    do {
        events = watched_events(stream);
        host->rewatch(host, stream->watch, events);
    } while (events != watched_events(stream));
}

void stream_hold_input(struct stream *stream, enum attention reason, bool hold)
{
    spinlock_assert_held(&stream->rx);
    if (hold)
        atomic_fetch_or(&stream->attention, reason);
    else
        atomic_fetch_and(&stream->attention, ~(unsigned int)reason);
    watch_again(stream);
}

/* Inside tx; from CLOSING on under rx. */
void stream_want_output(struct stream *stream, bool want)
{
    if (atomic_load_explicit(&stream->want_output, memory_order_relaxed) == want)
        return;
    atomic_store(&stream->want_output, want);
    watch_again(stream);
}

/* Take the stream off all lists. Under rx. */
static void delist(struct stream *stream)
{
    struct lane *lane = stream->lane;

    rx_assert_held(stream);
    contract(stream->state != STREAM_CLOSED);
    spinlock_lock(&lane->lock);
    DL_DELETE(iwarp_lane(lane)->streams, stream);
    iwarp_lane(lane)->stream_count--;
    if (stream->state == STREAM_CLOSING)
        iwarp_lane(lane)->closing_count--;
    if (stream->on_ready)
        DL_DELETE2(iwarp_lane(lane)->ready, stream, ready_prev, ready_next);
    stream->on_ready = false;
    for (uint32_t i = 0; stream->polled && i < iwarp_lane(lane)->polled_count; i++) {
        if (iwarp_lane(lane)->polled[i] == stream) {
            iwarp_lane(lane)->polled[i] =
                iwarp_lane(lane)->polled[--iwarp_lane(lane)->polled_count];
            break;
        }
    }
    if (iwarp_lane(lane)->latest == stream)
        iwarp_lane(lane)->latest = NULL;
    stream->polled = false;
    stream->state = STREAM_CLOSED;
    atomic_fetch_add_explicit(&lane->version, 1, memory_order_release);
    spinlock_unlock(&lane->lock);
}

void partial_charge(struct stream *stream, uint32_t room)
{
    struct rnic *rnic = stream->lane->rnic;

    rx_assert_held(stream);
    atomic_fetch_add_explicit(&iwarp_rnic(rnic)->partial_octets,
                              (uint64_t)room - stream->partial.room, memory_order_relaxed);
    stream->partial.room = room;
}

void partial_drop(struct stream *stream)
{
    rx_assert_held(stream);
    free(stream->partial.octets);
    stream->partial.octets = NULL;
    partial_charge(stream, 0);
    stream->partial.length = stream->partial.whole = 0;
    stream->partial.direct = false;
    atomic_store_explicit(&stream->partial.since, 0, memory_order_relaxed);
}

void stash_charge(struct stash *stash, size_t more, size_t less)
{
    rx_assert_held(stash->stream);
    stash->octets += more - less;
    atomic_fetch_add_explicit(&iwarp_rnic(stash->stream->lane->rnic)->stash_octets,
                              (uint64_t)more - less, memory_order_relaxed);
}

void stash_drop(struct stream *stream)
{
    struct stash *stash = stream->stash;
    struct stash_entry *entry, *next;

    rx_assert_held(stream);
    if (!stash)
        return;
    for (entry = stash->first; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
    stash->first = NULL;
    stash->end = &stash->first;
    stash_charge(stash, 0, stash->octets);
    atomic_fetch_and(&stream->attention, ~(unsigned int)ATTEND_STASH);
}

static void behind_drop(struct stream *stream)
{
    rx_assert_held(stream);
    free(stream->behind);
    stream->behind = NULL;
}

/* No list and no holder names the stream: it is freed when no pass can hold it any more. Once. */
static void free_later(struct stream *stream)
{
    struct lane *lane = stream->lane;

    spinlock_lock(&lane->lock);
    contract(stream->state == STREAM_CLOSED && !stream->held && !stream->freed);
    stream->freed = true;
    stream->free_next = iwarp_lane(lane)->freed_streams;
    iwarp_lane(lane)->freed_streams = stream;
    atomic_fetch_add_explicit(&lane->version, 1, memory_order_release);
    spinlock_unlock(&lane->lock);
}

void stream_abort(struct stream *stream, bool reset)
{
    const struct ri_host *host = stream->lane->rnic->host;

    spinlock_assert_held(&stream->rx);
    if (stream->state == STREAM_CLOSED)
        return;
    if (stream->watch)
        host->unwatch(host, stream->watch);
    stream->watch = NULL;
    partial_drop(stream);
    stash_drop(stream);
    behind_drop(stream);
    stream->llp->close(stream, reset);
    stream->fd = -1;
    delist(stream);
    if (!stream->held)
        free_later(stream);
}

void stream_release(struct stream *stream)
{
    bool closed;

    spinlock_lock(&stream->rx);
    contract(stream->held && stream->state != STREAM_OPEN);
    stream->qp = NULL;
    stream->held = false;
    closed = stream->state == STREAM_CLOSED;
    spinlock_unlock(&stream->rx);
    /* Nothing else names it. After the unlock, because the lane may free it at once. */
    if (closed)
        free_later(stream);
}

void stream_begin_close(struct stream *stream, uint8_t *tail, size_t length, bool announce)
{
    const struct ri_host *host = stream->lane->rnic->host;
    struct lane *lane = stream->lane;
    bool ended;

    spinlock_assert_held(&stream->rx);
    stream->closing.starting = stream->qp && iwarp_may_hear(stream->qp);
    stream->closing.spoken_to = stream->partial.length &&
                                !stream->closing.starting; /* in the middle of an FPDU */
    partial_drop(stream);
    stash_drop(stream);
    behind_drop(stream);
    stream->closing.tail = tail;
    stream->closing.tail_length = length;
    stream->closing.announce = announce;
    spinlock_lock(&lane->lock);
    stream->state = STREAM_CLOSING;
    iwarp_lane(lane)->closing_count++;
    spinlock_unlock(&lane->lock);
    stream->closing.until = clock_after(clock_now(),
                                        iwarp_rnic(lane->rnic)->options.close_timeout_ns);
    stream->timer.deadline = stream->closing.until;
    host->timer_set(host, lane->base.context, &stream->timer);
    if (atomic_load(&stream->attention) & ATTEND_UNREAD)
        stream_hold_input(stream, ATTEND_UNREAD, false);
    else if (atomic_load(&stream->input_ended))
        watch_again(stream);
    stream_continue_close(stream, &ended);
}

/* True: all output has left, FIN too. */
static bool push_tail(struct stream *stream)
{
    rx_assert_held(stream);
    contract(stream->state == STREAM_CLOSING);
    while (stream->closing.tail_sent < stream->closing.tail_length) {
        struct iovec iov = { stream->closing.tail + stream->closing.tail_sent,
                             stream->closing.tail_length - stream->closing.tail_sent };
        ssize_t sent = stream->llp->send(stream, &iov, 1);

        if (sent == -EAGAIN) {
            stream_want_output(stream, true);
            return false;
        }
        if (sent < 0)
            sent = (ssize_t)iov.iov_len; /* nothing reads it any more */
        stream->closing.tail_sent += (size_t)sent;
    }
    if (!stream->closing.output_ended)
        stream->llp->finish(stream);
    stream->closing.output_ended = true;
    stream_want_output(stream, false);
    return true;
}

/* Read and drop. */
static void drain(struct stream *stream)
{
    uint8_t bin[16384];

    rx_assert_held(stream);
    contract(stream->state == STREAM_CLOSING);
    for (int i = 0; i < 64 && !stream->input_ended; i++) {
        ssize_t got = stream->llp->receive(stream, bin, sizeof(bin));

        if (got == -EAGAIN)
            return;
        if (got <= 0) {
            atomic_store(&stream->input_ended, true);
            watch_again(stream);
        } else {
            stream->closing.spoken_to |= !stream->closing.starting;
        }
    }
}

/* True: the peer has all that this side has sent, or will never. */
static bool is_acknowledged(struct stream *stream)
{
    struct llp_wait wait = { .octets = false };

    if (stream->llp->waits)
        stream->llp->waits(stream, &wait);
    return !wait.octets;
}

static void poll_later(struct stream *stream)
{
    const struct ri_host *host = stream->lane->rnic->host;
    uint64_t next;

    rx_assert_held(stream);
    if (!stream->closing.poll_ns)
        stream->closing.poll_ns = POLL_FIRST_NS;
    else if (stream->closing.poll_ns < POLL_LAST_NS)
        stream->closing.poll_ns *= 2;
    next = clock_after(clock_now(), stream->closing.poll_ns);
    stream->closing.looks = next < stream->closing.until;
    stream->timer.deadline = stream->closing.looks ? next : stream->closing.until;
    host->timer_set(host, stream->lane->base.context, &stream->timer);
}

void stream_continue_close(struct stream *stream, bool *ended)
{
    bool out, bad;

    rx_assert_held(stream);
    *ended = false;
    if (stream->state != STREAM_CLOSING)
        return;
    out = push_tail(stream);
    drain(stream);
    bad = stream->closing.spoken_to &&
          /* C-151: in CLOSING, not after a Terminate. */
          stream->closing.announce;
    if (!out || !(stream->input_ended || bad))
        return;
    if (bad && !is_acknowledged(stream)) {
        if (!stream->closing.looks)
            poll_later(stream);
        return;
    }
    *ended = true;
    if (stream->qp && bad)
        qp_closed_badly(&stream->qp->core, "the peer went on sending while this side was closing");
    else if (stream->qp && stream->closing.announce)
        qp_closed(&stream->qp->core, NULL);
    stream_abort(stream, bad);
}

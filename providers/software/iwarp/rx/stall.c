/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The stall time of a stream: a partial FPDU waits for octets, or one that is complete waits behind
 * Reads (rx_behind.c).
 *
 * Option stall_timeout bounds the time in which no octet of a partial FPDU arrives (C-155, X-015).
 * A slow peer is not stalled: each octet counts. The timer is set once and is set again when it
 * expires, so a flowing stream pays nothing for it. Expiry alone does not end the connection: if
 * this process was stopped, octets may be in the socket. The next pass reads, and resets the
 * connection only if it finds nothing.
 */
#include "rx.h"

/* The time by which another octet of the FPDU must arrive. */
static uint64_t overdue_at(const struct stream *stream)
{
    return clock_after(stream->partial.fed_at,
                       iwarp_rnic(stream->lane->rnic)->options.stall_timeout_ns);
}

void partial_check(struct iwarp_qp *qp, struct stream *stream)
{
    rx_assert_held(stream);
    if (atomic_load_explicit(&stream->partial.since, memory_order_relaxed))
        partial_end(qp, false);
    atomic_fetch_and(&stream->attention, ~(unsigned int)ATTEND_STALLED);
}

/* As stream_expired, this may be late. It is done in a run, so that the next pass serves the
 * stream. */
void partial_stalled(struct ri_timer *timer)
{
    struct stream *stream = container_of(timer, struct stream, partial.stall);
    const struct ri_host *host = stream->lane->rnic->host;

    spinlock_lock(&stream->rx);
    stream->partial.stall_set = false;
    if (stream->state == STREAM_OPEN && stream->behind) {
        if (rx_behind_moves(stream->qp, stream))
            partial_fed(stream);
        lane_mark_ready(stream);
    } else if (stream->state != STREAM_OPEN ||
               !atomic_load_explicit(&stream->partial.since, memory_order_relaxed)) {
        /* the next incomplete FPDU sets it again */
    } else if (atomic_load(&stream->attention) & ATTEND_HELD) { /* this side does not read */
        stream->partial.fed_at = clock_now();
        stream->partial.stall_set = true;
        timer->deadline = overdue_at(stream);
        host->timer_set(host, stream->lane->base.context, timer);
    } else if (overdue_at(stream) > clock_now()) {
        stream->partial.stall_set = true;
        timer->deadline = overdue_at(stream);
        host->timer_set(host, stream->lane->base.context, timer);
    } else { /* data in the socket sets it again */
        atomic_fetch_or(&stream->attention, ATTEND_STALLED);
        lane_mark_ready(stream);
    }
    spinlock_unlock(&stream->rx);
}

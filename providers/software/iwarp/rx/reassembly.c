/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly: the octets of a partial FPDU, kept by the stream between two reads. Two bounds limit
 * the memory that peers can occupy. A reassembly buffer grows with the octets that have arrived,
 * never beyond its FPDU. The buffers of an RNIC together never exceed option reassembly_limit by
 * much: over the limit, reset the connection whose FPDU has been incomplete longest, not the one
 * that exceeded it. (The buffer of a peer that keeps sending is young.) The next pass resets it, in
 * that connection's own run: rx locks are not nested.
 */
#include "providers/software/iwarp/codec/mpa_marker.h"
#include "rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTIAL_FIRST 1024u /* octets of the first buffer */

/* The stream whose FPDU has been incomplete longest, except streams that will be reset already, and
 * those that this side does not read. */
static struct stream *oldest(struct lane *lane)
{
    struct stream *stream, *found = NULL;
    uint64_t least = UINT64_MAX;

    spinlock_assert_held(&lane->lock);
    for (stream = iwarp_lane(lane)->streams; stream; stream = stream->next) {
        uint64_t since = atomic_load_explicit(&stream->partial.since, memory_order_relaxed);

        if (since && since < least &&
            !(atomic_load(&stream->attention) & (ATTEND_EVICT | ATTEND_HELD))) {
            least = since;
            found = stream;
        }
    }
    return found;
}

/* The lane of that stream. */
static struct lane *lane_of_oldest(struct rnic *rnic)
{
    uint64_t least = UINT64_MAX;
    struct lane *found = NULL;

    for (uint32_t i = 0; i < rnic->options.lanes; i++) {
        struct lane *lane = rnic->lanes[i];
        const struct stream *stream;
        uint64_t since;

        spinlock_lock(&lane->lock);
        stream = oldest(lane);
        since = stream ? atomic_load_explicit(&stream->partial.since, memory_order_relaxed) : 0;
        spinlock_unlock(&lane->lock);
        if (since && since < least) {
            least = since;
            found = lane;
        }
    }
    return found;
}

/* Over the limit: marks one connection to be reset. While the lock is held it is on its lane's
 * list, so it exists. */
static void evict(struct rnic *rnic)
{
    struct lane *lane = lane_of_oldest(rnic);
    struct stream *stream;

    if (!lane)
        return;
    spinlock_lock(&lane->lock);
    stream = oldest(lane);
    if (stream) {
        atomic_fetch_or(&stream->attention, ATTEND_EVICT);
        lane_mark_ready_locked(stream);
    }
    spinlock_unlock(&lane->lock);
    if (!lane_inside(lane))
        rnic->host->wake(rnic->host, lane->base.context);
}

/* Doubles the buffer, so that small reads do not move octets each time; at most to the size of the
 * FPDU. */
static bool make_room(struct stream *stream, size_t length, uint32_t whole)
{
    uint32_t room = stream->partial.room ? stream->partial.room : PARTIAL_FIRST;
    struct rnic *rnic = stream->lane->rnic;
    uint8_t *octets;

    rx_assert_held(stream);
    while (room < length)
        room *= 2;
    if (whole && room > whole)
        room = whole;
    if (room <= stream->partial.room)
        return true;
    octets = realloc(stream->partial.octets, room);
    if (!octets)
        return false;
    stream->partial.octets = octets;
    partial_charge(stream, room);
    if (atomic_load_explicit(&iwarp_rnic(rnic)->partial_octets, memory_order_relaxed) >
        iwarp_rnic(rnic)->options.reassembly_limit)
        evict(rnic);
    return true;
}

/* Octets of a partial FPDU have arrived: the stall time begins again. */
void partial_fed(struct stream *stream)
{
    const struct ri_host *host = stream->lane->rnic->host;
    uint64_t timeout = iwarp_rnic(stream->lane->rnic)->options.stall_timeout_ns;

    rx_assert_held(stream);
    stream->partial.fed_at = clock_now();
    if (unlikely(atomic_load_explicit(&stream->attention, memory_order_relaxed) & ATTEND_STALLED))
        atomic_fetch_and(&stream->attention, ~(unsigned int)ATTEND_STALLED);
    if (!timeout || stream->partial.stall_set)
        return;
    stream->partial.stall_set = true;
    stream->partial.stall.deadline = clock_after(stream->partial.fed_at, timeout);
    host->timer_set(host, stream->lane->base.context, &stream->partial.stall);
}

bool partial_keep(struct stream *stream, const uint8_t *octets, size_t length, uint32_t whole,
                  bool another)
{
    rx_assert_held(stream);
    stream->partial.direct = false;
    if (!length) {
        if (stream->partial.room > PARTIAL_KEPT)
            partial_drop(stream);
        stream->partial.length = 0;
        atomic_store_explicit(&stream->partial.since, 0, memory_order_relaxed);
        return true;
    }
    partial_fed(stream);
    if (another ||
        !atomic_load_explicit(&stream->partial.since, memory_order_relaxed)) /* hand-over */
        atomic_store_explicit(&stream->partial.since, stream->partial.fed_at, memory_order_relaxed);
    if (!make_room(stream, length, whole))
        return false;
    memcpy(stream->partial.octets, octets, length);
    stream->partial.length = (uint32_t)length;
    stream->partial.whole = whole;
    return true;
}

ssize_t partial_fill(struct stream *stream)
{
    uint32_t most = stream->partial.whole;
    ssize_t got;

    rx_assert_held(stream);
    contract(stream->partial.length < stream->partial.whole);
    if (!make_room(stream, stream->partial.length + 1, most))
        return -ENOMEM;
    if (most > stream->partial.room)
        most = stream->partial.room;
    got = stream->llp->receive(stream, stream->partial.octets + stream->partial.length,
                               most - stream->partial.length);
    if (got > 0) {
        stream->partial.length += (uint32_t)got;
        partial_fed(stream);
    }
    return got;
}

void partial_end(struct iwarp_qp *qp, bool evicted)
{
    const struct qp_end end = {
        .event = RI_EVENT_LLP_LOST,
        .state = RI_QPS_ERROR,
        .lost = true,
        .detail = evicted
                      ? "the peer left an FPDU incomplete while memory was short (reassembly_limit)"
                      : "the peer left an FPDU incomplete for too long (stall_timeout)",
    };

    rx_assert_held(qp->stream);
    qp_end(&qp->core, &end);
}

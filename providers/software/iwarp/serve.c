/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams that a pass serves. Every open connection is in the host's epoll set,
 * level-triggered; stream_ready puts a readable one on the ready list. The few streams that were
 * active last are `polled`: the pass reads them directly, without asking epoll. A polled stream
 * that is silent while others are active is dropped, because each read that finds nothing delays
 * the others. If there are more than a few streams, the host asks epoll in every pass anyway: then
 * only the latest stream is polled, in case it is the only busy one. The lane's lock guards the
 * lists. A pass works on its own copy of polled[] and copies again when `version` has changed.
 */
#include "wire_iwarp.h"
#include "providers/software/core/progress.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define FEW_STREAMS 6u

enum ri_status iwarp_lane_open(struct lane *lane)
{
    iwarp_lane(lane)->pass.ring = malloc(RX_RING_OCTETS);
    return iwarp_lane(lane)->pass.ring ? RI_OK : RI_ERR_NO_RESOURCES;
}

static void free_deferred(struct lane *lane)
{
    const struct ri_host *host = lane->rnic->host;
    struct stream *stream, *next_stream;

    contract(lane_inside(lane) || !atomic_load(&lane->runner));
    spinlock_lock(&lane->lock);
    stream = iwarp_lane(lane)->freed_streams;
    iwarp_lane(lane)->freed_streams = NULL;
    spinlock_unlock(&lane->lock);
    for (; stream; stream = next_stream) {
        next_stream = stream->free_next;
        host->timer_cancel(host, lane->base.context, &stream->timer);
        host->timer_cancel(host, lane->base.context, &stream->partial.stall);
        host->timer_cancel(host, lane->base.context, &stream->acks.timer);
        if (stream->stash)
            host->timer_cancel(host, lane->base.context, &stream->stash->timer);
        free(stream->stash);
        free(stream->partial.octets);
        free(stream->closing.tail);
        free(stream);
    }
}

void iwarp_lane_close(struct lane *lane)
{
    struct iwarp_lane *own = iwarp_lane(lane);

    while (own->streams) {
        struct stream *stream = own->streams;

        spinlock_lock(&stream->rx);
        contract(!stream->held); /* there is no QP any more */
        stream_abort(stream, true);
        spinlock_unlock(&stream->rx);
    }
    free_deferred(lane);
    tx_free_spares(lane);
    free(own->pass.ring);
}

/* An active stream replaces the polled one that was added first. Under the lock. */
static void keep_polled(struct lane *lane, struct stream *stream)
{
    uint32_t most = iwarp_rnic(lane->rnic)->options.polled < POLLED_MAX
                        ? iwarp_rnic(lane->rnic)->options.polled
                        : POLLED_MAX;

    spinlock_assert_held(&lane->lock);
    stream->heard = iwarp_lane(lane)->pass.heard;
    if (stream->polled || !most || stream->state != STREAM_OPEN)
        return;
    if (iwarp_lane(lane)->polled_count < most) {
        iwarp_lane(lane)->polled[iwarp_lane(lane)->polled_count++] = stream;
    } else {
        uint32_t place = iwarp_lane(lane)->polled_clock++ % most;

        iwarp_lane(lane)->polled[place]->polled = false;
        iwarp_lane(lane)->polled[place] = stream;
    }
    stream->polled = true;
}

/* Drop streams that were silent for long. A stream that waits for room in the socket stays: its
 * turn in the pass drives it. */
static __attribute__((noinline)) void drop_silent(struct lane *lane)
{
    uint32_t kept = 0;

    lane_assert_run(lane);
    spinlock_lock(&lane->lock);
    for (uint32_t i = 0; i < iwarp_lane(lane)->polled_count; i++) {
        struct stream *stream = iwarp_lane(lane)->polled[i];

        stream->polled = iwarp_lane(lane)->pass.heard - stream->heard < POLLED_UNTIL ||
                         atomic_load_explicit(&stream->want_output, memory_order_relaxed);
        if (stream->polled)
            iwarp_lane(lane)->polled[kept++] = stream;
    }
    if (kept != iwarp_lane(lane)->polled_count)
        atomic_fetch_add_explicit(&lane->version, 1, memory_order_release);
    iwarp_lane(lane)->polled_count = kept;
    spinlock_unlock(&lane->lock);
}

/* A polled stream has brought something; there are others. */
static inline void note_heard(struct lane *lane, struct stream *stream)
{
    stream->heard = ++iwarp_lane(lane)->pass.heard;
    if (unlikely(!(iwarp_lane(lane)->pass.heard % (POLLED_UNTIL / 4))))
        drop_silent(lane);
}

static struct stream *next_ready(struct lane *lane)
{
    struct stream *stream;

    lane_assert_run(lane);
    spinlock_lock(&lane->lock);
    stream = iwarp_lane(lane)->ready;
    if (stream) {
        DL_DELETE2(iwarp_lane(lane)->ready, stream, ready_prev, ready_next);
        stream->on_ready = false;
        keep_polled(lane, stream);
        iwarp_lane(lane)->latest = stream;
    }
    spinlock_unlock(&lane->lock);
    return stream;
}

/* While work is left for the next pass, the copy counts as outdated. */
static void copy_hot(struct lane *lane)
{
    bool left;

    lane_assert_run(lane);
    spinlock_lock(&lane->lock);
    left = iwarp_lane(lane)->ready || iwarp_lane(lane)->freed_streams || lane->freed;
    iwarp_lane(lane)->pass.served_version =
        atomic_load_explicit(&lane->version, memory_order_relaxed) - left;
    iwarp_lane(lane)->pass.served_streams = iwarp_lane(lane)->stream_count;
    iwarp_lane(lane)->pass.served_count = iwarp_lane(lane)->polled_count;
    for (uint32_t i = 0; i < iwarp_lane(lane)->polled_count; i++)
        iwarp_lane(lane)->pass.served[i] = iwarp_lane(lane)->polled[i];
    if (iwarp_lane(lane)->stream_count > FEW_STREAMS && iwarp_lane(lane)->polled_count) {
        iwarp_lane(lane)->pass.served_count = iwarp_lane(lane)->latest &&
                                              iwarp_lane(lane)->latest->polled;
        iwarp_lane(lane)->pass.served[0] = iwarp_lane(lane)->latest;
    }
    spinlock_unlock(&lane->lock);
}

static bool has_event(struct cq *cq)
{
    return cq && ri_ring_count(&cq->ring);
}

/* Serve the streams that were reported ready, as many as there are now: a stream that stays
 * ready cannot hold up the pass. */
static uint32_t serve_ready(struct lane *lane, uint32_t budget)
{
    uint32_t work_done = 0;

    for (uint32_t count = iwarp_lane(lane)->pass.served_streams; count-- && work_done < budget;) {
        struct stream *stream = next_ready(lane);

        if (!stream)
            break;
        work_done += rx_run(stream);
    }
    return work_done;
}

/* The streams that feed the caller's CQ come first, the others only if those brought nothing.
 * The stream that uses up the budget is the last one in the next pass. */
static __attribute__((noinline)) uint32_t serve_polled(struct lane *lane, struct cq *first,
                                                       uint32_t budget)
{
    uint32_t work_done = 0, got, at = iwarp_lane(lane)->pass.served_first;

    for (int own = first ? 1 : 0; own >= 0 && work_done < budget; own--) {
        for (uint32_t i = 0; i < iwarp_lane(lane)->pass.served_count && work_done < budget; i++) {
            struct stream *stream;
            struct iwarp_qp *qp;
            bool feeds;

            at = at < iwarp_lane(lane)->pass.served_count ? at : 0;
            stream = iwarp_lane(lane)->pass.served[at++];
            /* Behind the store that began the pass, for which a destroy waits (lane_wait_pass). */
            qp = atomic_load(&stream->qp);
            feeds = first && qp && (qp->core.recv_cq == first || qp->core.send_cq == first);
            if (feeds != (own == 1))
                continue;
            if (!feeds && qp && qp_is_left_to_consumer(&qp->core, first)) {
                /* By another thread, as far as this one knows. */
                stream->heard = iwarp_lane(lane)->pass.heard;
                continue;
            }
            got = rx_run(stream);
            work_done += got;
            if (got)
                note_heard(lane, stream);
        }
        if (has_event(first))
            break;
    }
    iwarp_lane(lane)->pass.served_first = work_done < budget ? iwarp_lane(lane)->pass.served_first
                                                             : at;
    return work_done;
}

/* The lists have changed. */
static __attribute__((noinline)) uint32_t serve_changed(struct lane *lane, uint32_t budget)
{
    uint32_t work_done;

    free_deferred(lane);
    lane_free_qps(lane);
    copy_hot(lane);
    work_done = serve_ready(lane, budget);
    copy_hot(lane);
    return work_done;
}

static inline uint32_t serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    struct iwarp_pass *pass = &iwarp_lane(lane)->pass;
    uint32_t work_done = 0;

    lane_assert_run(lane);
    if (unlikely(atomic_load_explicit(&lane->version, memory_order_acquire) !=
                 pass->served_version))
        work_done = serve_changed(lane, budget);
    /* The ready streams included the polled ones. */
    if (!work_done && !has_event(first))
        work_done = pass->served_count == 1 ? rx_run(pass->served[0])
                    : pass->served_count    ? serve_polled(lane, first, budget)
                                            : 0;
    return work_done;
}

uint32_t iwarp_serve(struct lane *lane, struct cq *first, uint32_t budget)
{
    return serve(lane, first, budget);
}

uint32_t iwarp_progress(struct ri_lane *base, struct ri_cq *first, uint32_t budget,
                        uint64_t *next_deadline)
{
    return lane_pass(base, first, budget, next_deadline, serve);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lane: the streams that a pass serves. Every open connection is in the host's epoll set,
 * level-triggered; stream_ready puts a readable one on the ready list. The few streams that were
 * active last are `polled`: the pass reads them directly, without asking epoll. A polled stream
 * that is silent while others are active is dropped, because each read that finds nothing delays
 * the others. If there are more than a few streams, the host asks epoll in every pass anyway: then
 * only the latest stream is polled, in case it is the only busy one. The lane's lock guards the
 * lists. A pass works on its own copy of polled[] and copies again when `version` has changed. The
 * host never runs two passes of one lane at once.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane.h"
#include "softrdma.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define FEW_STREAMS 6u
#define LINE_OCTETS 128u /* two cache lines: processors fetch pairs */

enum ri_status lane_create(struct rnic *rnic, struct lane **out)
{
    /* Own cache lines: no two lanes share one. */
    struct lane *lane = aligned_alloc(LINE_OCTETS, (sizeof(*lane) + LINE_OCTETS - 1) / LINE_OCTETS *
                                                       LINE_OCTETS);

    if (!lane)
        return RI_ERR_NO_RESOURCES;
    memset(lane, 0, sizeof(*lane));
    lane->pass.ring = malloc(RX_RING_OCTETS);
    if (!lane->pass.ring) {
        free(lane);
        return RI_ERR_NO_RESOURCES;
    }
    lane->rnic = rnic;
    atomic_init(&lane->coalesce.wake_at, RI_NO_DEADLINE);
    lane->base.ops = rnic->user;
    *out = lane;
    return RI_OK;
}

enum ri_status softrdma_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                  struct ri_lane **out)
{
    struct rnic *rnic = container_of(base, struct rnic, base);

    if (index >= rnic->options.lanes)
        return RI_ERR_INVALID_ARGUMENT;
    rnic->lanes[index]->base.context = context;
    *out = &rnic->lanes[index]->base;
    return RI_OK;
}

static void free_deferred(struct lane *lane)
{
    const struct ri_host *host = lane->rnic->host;
    struct stream *stream, *next_stream;
    struct qp *qp, *next_qp;

    spinlock_lock(&lane->lock);
    stream = lane->freed_streams;
    qp = lane->freed_qps;
    lane->freed_streams = NULL;
    lane->freed_qps = NULL;
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
    for (; qp; qp = next_qp) {
        next_qp = qp->on_lane.free_next;
        qp_free(qp);
    }
}

/* At close: nothing runs any more. Open streams are reset. */
void lane_destroy(struct lane *lane)
{
    while (lane->streams) {
        struct stream *stream = lane->streams;

        spinlock_lock(&stream->rx);
        contract(!stream->held); /* there is no QP any more */
        stream_abort(stream, true);
        spinlock_unlock(&stream->rx);
    }
    free_deferred(lane);
    tx_free_spares(lane);
    free(lane->pass.ring);
    free(lane);
}

/* An active stream replaces the polled one that was added first. Under the lock. */
static void make_hot(struct lane *lane, struct stream *stream)
{
    uint32_t most = lane->rnic->options.polled < POLLED_MAX ? lane->rnic->options.polled
                                                            : POLLED_MAX;

    stream->heard = lane->pass.heard;
    if (stream->polled || !most || stream->state != STREAM_OPEN)
        return;
    if (lane->polled_count < most) {
        lane->polled[lane->polled_count++] = stream;
    } else {
        uint32_t place = lane->polled_clock++ % most;

        lane->polled[place]->polled = false;
        lane->polled[place] = stream;
    }
    stream->polled = true;
}

/* Drop streams that were silent for long. A stream that waits for room in the socket stays: its
 * turn in the pass drives it. */
static __attribute__((noinline)) void drop_silent(struct lane *lane)
{
    uint32_t kept = 0;

    spinlock_lock(&lane->lock);
    for (uint32_t i = 0; i < lane->polled_count; i++) {
        struct stream *stream = lane->polled[i];

        stream->polled = lane->pass.heard - stream->heard < POLLED_UNTIL ||
                         atomic_load_explicit(&stream->want_output, memory_order_relaxed);
        if (stream->polled)
            lane->polled[kept++] = stream;
    }
    if (kept != lane->polled_count)
        atomic_fetch_add_explicit(&lane->version, 1, memory_order_release);
    lane->polled_count = kept;
    spinlock_unlock(&lane->lock);
}

/* A polled stream has brought something; there are others. */
static inline void note_heard(struct lane *lane, struct stream *stream)
{
    stream->heard = ++lane->pass.heard;
    if (unlikely(!(lane->pass.heard % (POLLED_UNTIL / 4))))
        drop_silent(lane);
}

static struct stream *next_ready(struct lane *lane)
{
    struct stream *stream;

    spinlock_lock(&lane->lock);
    stream = lane->ready;
    if (stream) {
        DL_DELETE2(lane->ready, stream, ready_prev, ready_next);
        stream->on_ready = false;
        make_hot(lane, stream);
        lane->latest = stream;
    }
    spinlock_unlock(&lane->lock);
    return stream;
}

/* While work is left for the next pass, the copy counts as outdated. */
static void copy_hot(struct lane *lane)
{
    bool left;

    spinlock_lock(&lane->lock);
    left = lane->ready || lane->freed_streams || lane->freed_qps;
    lane->pass.served_version = atomic_load_explicit(&lane->version, memory_order_relaxed) - left;
    lane->pass.served_streams = lane->stream_count;
    lane->pass.served_count = lane->polled_count;
    for (uint32_t i = 0; i < lane->polled_count; i++)
        lane->pass.served[i] = lane->polled[i];
    if (lane->stream_count > FEW_STREAMS && lane->polled_count) {
        lane->pass.served_count = lane->latest && lane->latest->polled;
        lane->pass.served[0] = lane->latest;
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

    for (uint32_t count = lane->pass.served_streams; count-- && work_done < budget;) {
        struct stream *stream = next_ready(lane);

        if (!stream)
            break;
        work_done += rx_run(stream);
    }
    return work_done;
}

/* The streams that feed the caller's CQ come first, the others only if those brought nothing.
 * The stream that uses up the budget is the last one in the next pass. */
static __attribute__((noinline)) uint32_t serve_hot(struct lane *lane, struct cq *first,
                                                    uint32_t budget)
{
    uint32_t work_done = 0, got, at = lane->pass.served_first;

    for (int own = first ? 1 : 0; own >= 0 && work_done < budget; own--) {
        for (uint32_t i = 0; i < lane->pass.served_count && work_done < budget; i++) {
            struct stream *stream;
            struct qp *qp;
            bool feeds;

            at = at < lane->pass.served_count ? at : 0;
            stream = lane->pass.served[at++];
            /* Behind the store that began the pass, for which a destroy waits (lane_wait_pass). */
            qp = atomic_load(&stream->qp);
            feeds = first && qp && (qp->recv_cq == first || qp->send_cq == first);
            if (feeds != (own == 1))
                continue;
            if (!feeds && qp && qp_is_left_to_consumer(qp, first)) {
                /* By another thread, as far as this one knows. */
                stream->heard = lane->pass.heard;
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
    lane->pass.served_first = work_done < budget ? lane->pass.served_first : at;
    return work_done;
}

/* The lists have changed. */
static __attribute__((noinline)) uint32_t serve_changed(struct lane *lane, uint32_t budget)
{
    uint32_t work_done;

    free_deferred(lane);
    copy_hot(lane);
    work_done = serve_ready(lane, budget);
    copy_hot(lane);
    return work_done;
}

uint32_t softrdma_progress(struct ri_lane *base, struct ri_cq *first_base, uint32_t budget,
                           uint64_t *next_deadline)
{
    struct lane *lane = container_of(base, struct lane, base);
    struct cq *first = first_base ? container_of(first_base, struct cq, base) : NULL;
    uint32_t work_done = 0, pass;

    *next_deadline = atomic_load_explicit(&lane->coalesce.wake_at, memory_order_relaxed);
    atomic_store_explicit(&lane->runner, (unsigned long)pthread_self(), memory_order_relaxed);
    pass = atomic_fetch_add(&lane->passes, 1) + 1;
    if (first) {
        if (atomic_load_explicit(&lane->armed, memory_order_relaxed))
            atomic_store_explicit(&lane->armed, LANE_NOT_ARMED, memory_order_relaxed);
        tx_note_pass(first, lane);
        atomic_store_explicit(&first->seen, pass, memory_order_relaxed);
    }
    tx_note_poll(lane, first);
    if (__builtin_expect(atomic_load_explicit(&lane->version, memory_order_acquire) !=
                             lane->pass.served_version,
                         0))
        work_done = serve_changed(lane, budget);
    /* The ready streams included the polled ones. */
    if (!work_done && !has_event(first))
        work_done = lane->pass.served_count == 1 ? rx_run(lane->pass.served[0])
                                                 : serve_hot(lane, first, budget);
    atomic_store_explicit(&lane->runner, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->passes,
                          atomic_load_explicit(&lane->passes, memory_order_relaxed) + 1,
                          memory_order_release);
    return work_done;
}

/* epoll reports unread octets. Only work that the lane itself has left keeps the host awake. */
bool softrdma_lane_arm(struct ri_lane *base)
{
    struct lane *lane = container_of(base, struct lane, base);
    enum lane_armed armed = LANE_NOT_ARMED;

    spinlock_lock(&lane->lock);
    if (!lane->ready && !lane->coalesce.qps)
        armed = tx_choose_sleep(lane);
    atomic_store_explicit(&lane->armed, armed, memory_order_relaxed);
    spinlock_unlock(&lane->lock);
    return armed != LANE_NOT_ARMED;
}

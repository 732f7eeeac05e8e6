/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams that a lane has to serve in its next pass.
 */
#include "connection.h"

#include <utlist.h>

void lane_mark_ready_locked(struct stream *stream)
{
    struct lane *lane = stream->lane;

    spinlock_assert_held(&lane->lock);
    if (stream->on_ready || stream->state == STREAM_CLOSED)
        return;
    stream->on_ready = true;
    DL_APPEND2(iwarp_lane(lane)->ready, stream, ready_prev, ready_next);
    atomic_fetch_add_explicit(&lane->version, 1, memory_order_release);
}

void lane_mark_ready(struct stream *stream)
{
    struct lane *lane = stream->lane;

    spinlock_lock(&lane->lock);
    lane_mark_ready_locked(stream);
    spinlock_unlock(&lane->lock);
}

void lane_call(struct stream *stream)
{
    const struct lane *lane = stream->lane;

    lane_mark_ready(stream);
    if (!lane_inside(lane))
        lane->rnic->host->wake(lane->rnic->host, lane->base.context);
}

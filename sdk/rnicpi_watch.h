/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_watch.h - taking descriptors off the host's set, for providers (librnicpi.a).
 *
 * ri_host.unwatch waits for a `ready` that runs in another thread. So it must not be called with a
 * lock held that `ready` takes, nor may what `ready` uses be freed before it. A provider finds out
 * that a connection is over in the middle of its work, with locks held. It puts the descriptor on a
 * list then, and takes it off later, in its next pass over the lane:
 *
 *     ri_unwatch_later(&lane->leaving, &connection->watched);       any lock held; wakes the lane
 *     ...
 *     ri_unwatch_now(&lane->leaving);                               in progress, no lock held;
 *     calls `gone`
 *
 * lane_arm answers false while ri_unwatch_pending(); close runs ri_unwatch_now() before it frees
 * the lane.
 */
#ifndef RNICPI_WATCH_H
#define RNICPI_WATCH_H

#ifdef __cplusplus
#error "rnicpi_watch.h is C only (atomic members): from C++ include rnicpi.h, call this from C."
#endif

#include <stdatomic.h>

#include "rnicpi.h"

/* Descriptors of one lane that are to be unwatched. */
struct ri_unwatch_list {
    const struct ri_host *host;
    void *lane_context;
    _Atomic(struct ri_watched *) first;
};

/* One descriptor; embed it in the connection. */
struct ri_watched {
    struct ri_watch *watch; /* NULL: not watched */
    int fd;                 /* the provider's */
    /* Set by ri_unwatch_later: a call of `ready` that still comes has nothing to do. */
    atomic_bool leaving;
    /* No thread is in `ready` or enters it any more: close the descriptor, free the connection.
     * Called by ri_unwatch_now. */
    void (*gone)(struct ri_watched *watched);
    struct ri_watched *next;
};

/* Watch the descriptor: as ri_host.watch, whose status it returns. The caller sets `gone` and
 * `fd`. Outside of a run of the lane the caller holds the lock that `ready` takes: `ready` may
 * run in another thread at once and must find `watch` set. */
enum ri_status ri_watched_add(const struct ri_unwatch_list *list, struct ri_watched *watched,
                              uint32_t events, ri_ready_fn ready, void *arg);
/* Have it unwatched. Any thread, any lock held; never blocks. A second call for the same one
 * does nothing. */
void ri_unwatch_later(struct ri_unwatch_list *list, struct ri_watched *watched);
/* Unwatch all that are on the list; returns their number. No lock held; inside a run of the
 * lane, or when no run is possible any more. */
uint32_t ri_unwatch_now(struct ri_unwatch_list *list);

static inline bool ri_unwatch_pending(const struct ri_unwatch_list *list)
{
    return atomic_load_explicit(&list->first, memory_order_relaxed) != NULL;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_upcalls.h - upcalls that are made later, with no lock held, for providers (librnicpi.a).
 *
 * A provider finds out what it has to report (the end of a connection, an event of a QP) in the
 * middle of its work, with its lock held; and no upcall may come with a lock held {upcall}. So it
 * puts the object on a list, and the next run of the lane makes the upcall:
 *
 *     ri_upcall_defer(&upcalls, &qp->deferred);         under the lock, any thread; wakes the lane
 *     ...
 *     ri_upcalls_run(&upcalls);              in progress, under the lock; calls qp->deferred.make
 *     ...
 *     ri_upcall_cancel(&upcalls, &qp->deferred, NULL);   in the destroy operation, under the lock
 *
 * Upcalls about one object come in their order, and one at a time; objects take their turns in the
 * order in which they were put on the list. lane_arm answers false while ri_upcalls_pending().
 */
#ifndef RNICPI_UPCALLS_H
#define RNICPI_UPCALLS_H

#include <pthread.h>

#include "rnicpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object with something to report: embed it. The user sets `make`. */
struct ri_deferred {
    struct ri_deferred *next; /* the library's */
    bool listed;              /* likewise */
    /* Called by ri_upcalls_run with the lock held. It releases the lock, makes one upcall, and
     * takes the lock again. True: there is more to report. */
    bool (*make)(struct ri_deferred *deferred);
};

/* The deferred upcalls of one lane. The library's, but for `about`. */
struct ri_upcalls {
    const struct ri_host *host;
    void *lane_context; /* set when the lane is opened; nothing is deferred before */
    pthread_mutex_t *lock;
    pthread_cond_t made;
    struct ri_deferred *first, *last;
    const struct ri_deferred *running; /* the object of the upcall under way */
    pthread_t thread;                  /* that makes it */
    /* A second object that the upcall is about: the listener of a request. Set by `make`, reset
     * by ri_upcalls_run. */
    const void *about;
};

/* `lock`: the provider's; all others are called with it held. */
void ri_upcalls_open(struct ri_upcalls *upcalls, const struct ri_host *host, pthread_mutex_t *lock);
void ri_upcalls_close(struct ri_upcalls *upcalls);

/* The next run makes the object's upcalls. A second call before that does nothing. */
void ri_upcall_defer(struct ri_upcalls *upcalls, struct ri_deferred *deferred);

/* Makes all that are due; returns their number at most. In a run of the lane. */
uint32_t ri_upcalls_run(struct ri_upcalls *upcalls);

/*
 * For destroy operations {upcall-destroy}: waits until no other thread makes an upcall about
 * `deferred` or `about` (either may be NULL), and takes the object off the list. Releases the lock
 * while it waits, so what the caller knows of its objects it has to look up again. In the thread
 * that makes the upcall it does not wait.
 */
void ri_upcall_cancel(struct ri_upcalls *upcalls, struct ri_deferred *deferred, const void *about);

static inline bool ri_upcalls_pending(const struct ri_upcalls *upcalls)
{
    return upcalls->first != NULL;
}

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rnicpi_tell.h - upcalls that are made later, with no lock held, for providers (librnicpi.a).
 *
 * A provider finds out what it has to tell (the end of a connection, an event of a QP) in the
 * middle of its work, with its lock held; and no upcall may come with a lock held {upcall}. So it
 * puts the object on a list, and the next run of the lane tells:
 *
 *     ri_tell_later(&tellers, &qp->teller);      under the lock, any thread; wakes the lane
 *     ...
 *     ri_tell_now(&tellers);                     in progress, under the lock; calls qp->teller.tell
 *     ...
 *     ri_tell_forget(&tellers, &qp->teller, NULL);      in the destroy operation, under the lock
 *
 * What is told of one object comes in its order, and one at a time; objects take their turns in the
 * order in which they were put on the list. lane_arm answers false while ri_tell_pending().
 */
#ifndef RNICPI_TELL_H
#define RNICPI_TELL_H

#include <pthread.h>

#include "rnicpi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object with something to tell: embed it. The user sets `tell`. */
struct ri_teller {
    struct ri_teller *next; /* the library's */
    bool listed;            /* likewise */
    /* Called by ri_tell_now with the lock held. It releases the lock, makes one upcall, and takes
     * the lock again. True: there is more to tell. */
    bool (*tell)(struct ri_teller *teller);
};

/* What one lane has to tell. The library's, but for `about`. */
struct ri_tellers {
    const struct ri_host *host;
    void *lane_context; /* set when the lane is opened; nothing is told later before */
    pthread_mutex_t *lock;
    pthread_cond_t told;
    struct ri_teller *first, *last;
    const struct ri_teller *telling; /* whom the upcall that runs is about */
    pthread_t thread;                /* that makes it */
    /* A second object that the upcall is about: the listener of a request. Set by `tell`, reset
     * by ri_tell_now. */
    const void *about;
};

/* `lock`: the provider's; all others are called with it held. */
void ri_tellers_open(struct ri_tellers *tellers, const struct ri_host *host, pthread_mutex_t *lock);
void ri_tellers_close(struct ri_tellers *tellers);

/* Have it told in the next run. A second call before that does nothing. */
void ri_tell_later(struct ri_tellers *tellers, struct ri_teller *teller);

/* Tell all that there is to tell; returns how many upcalls were made at most. In a run of the
 * lane. */
uint32_t ri_tell_now(struct ri_tellers *tellers);

/*
 * For destroy operations {upcall-destroy}: waits until no other thread makes an upcall about
 * `teller` or `about` (either may be NULL), and takes the teller off the list. Releases the lock
 * while it waits, so what the caller knows of its objects it has to look up again. In the thread
 * that makes the upcall it does not wait.
 */
void ri_tell_forget(struct ri_tellers *tellers, struct ri_teller *teller, const void *about);

static inline bool ri_tell_pending(const struct ri_tellers *tellers)
{
    return tellers->first != NULL;
}

#ifdef __cplusplus
}
#endif

#endif

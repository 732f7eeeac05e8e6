/* SPDX-License-Identifier: BSD-3-Clause */
/* The lifetime of a connection, listener or linger: lock, references, and the threads inside.
 * Rules: connection.c. */
#ifndef ITAL_KAL_CM_LIFETIME_H
#define ITAL_KAL_CM_LIFETIME_H

#include "base/mutex.h"

#include <pthread.h>
#include <stdbool.h>

/* A thread inside an object, on its stack. */
struct cm_run {
    pthread_t thread;
    struct cm_run *next;
};

/* A waiting thread, on its stack: there are many connections, but few are waited for. */
struct cm_waiter {
    pthread_cond_t signalled;
    struct cm_waiter *next;
};

struct cm_lifetime {
    pthread_mutex_t lock;
    /* Threads that wait until another one leaves */
    struct cm_waiter *waits;
    struct cm_run *runs;
    unsigned refs;
    /* Destroyed: no thread enters any more */
    bool dead;
};

/* Begins with one reference, the owner's. */
void cm_lifetime_init(struct cm_lifetime *lifetime);
/* True: the thread is inside, holds the lock and one more reference. */
bool cm_enter(struct cm_lifetime *lifetime, struct cm_run *run);
/* The lock is held; it is released. True: free the object. */
bool cm_leave(struct cm_lifetime *lifetime, struct cm_run *run);
/* True: this thread is inside. The lock is held. */
bool cm_inside(struct cm_lifetime *lifetime);
/* Debug builds check: the lock is held; the thread is inside, too ("Lane, locked"). */
static inline void cm_assert_locked(const struct cm_lifetime *lifetime)
{
    mutex_assert_held(&lifetime->lock);
}
static inline void cm_assert_run(struct cm_lifetime *lifetime)
{
    cm_assert_locked(lifetime);
    contract(cm_inside(lifetime));
}
void cm_hold(struct cm_lifetime *lifetime);
/* True: free the object. */
bool cm_drop(struct cm_lifetime *lifetime);
/* Sets `dead` and waits until other threads have left. The lock is not held. */
void cm_kill(struct cm_lifetime *lifetime);
/* Waits for runs of other threads. The lock is held. */
void cm_lifetime_wait_others(struct cm_lifetime *lifetime);
/* Waits for cm_lifetime_signal, which leaving also does; may return early. Both with the lock
 * held. */
void cm_lifetime_wait(struct cm_lifetime *lifetime);
void cm_lifetime_signal(struct cm_lifetime *lifetime);
/* Call before free. */
void cm_lifetime_end(struct cm_lifetime *lifetime);

#endif

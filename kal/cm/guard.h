/* SPDX-License-Identifier: BSD-3-Clause */
/* The lifetime of a connection, listener or linger: lock, references, and the threads inside.
 * Rules: connection.c. */
#ifndef ITAL_KAL_CM_GUARD_H
#define ITAL_KAL_CM_GUARD_H

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

struct cm_guard {
    pthread_mutex_t lock;
    /* Threads that wait until another one leaves */
    struct cm_waiter *waits;
    struct cm_run *runs;
    unsigned refs;
    /* Destroyed: no thread enters any more */
    bool dead;
};

/* Begins with one reference, the owner's. */
void cm_guard_init(struct cm_guard *guard);
/* True: the thread is inside, holds the lock and one more reference. */
bool cm_enter(struct cm_guard *guard, struct cm_run *run);
/* The lock is held; it is released. True: free the object. */
bool cm_leave(struct cm_guard *guard, struct cm_run *run);
/* True: this thread is inside. The lock is held. */
bool cm_inside(struct cm_guard *guard);
/* Debug builds check: the lock is held; the thread is inside, too ("Lane, locked"). */
static inline void cm_assert_locked(const struct cm_guard *guard)
{
    mutex_assert_held(&guard->lock);
}
static inline void cm_assert_run(struct cm_guard *guard)
{
    cm_assert_locked(guard);
    contract(cm_inside(guard));
}
void cm_hold(struct cm_guard *guard);
/* True: free the object. */
bool cm_drop(struct cm_guard *guard);
/* Sets `dead` and waits until other threads have left. The lock is not held. */
void cm_kill(struct cm_guard *guard);
/* Waits for runs of other threads. The lock is held. */
void cm_guard_wait_others(struct cm_guard *guard);
/* Waits for cm_guard_signal, which leaving also does; may return early. Both with the lock held. */
void cm_guard_wait(struct cm_guard *guard);
void cm_guard_signal(struct cm_guard *guard);
/* Call before free. */
void cm_guard_end(struct cm_guard *guard);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a connection, listener or linger: lock, references, and the threads inside. The
 * rules: connection.c. */
#ifndef ITAL_KAL_CM_GUARD_H
#define ITAL_KAL_CM_GUARD_H

#include <pthread.h>
#include <stdbool.h>

/* A thread inside an object, on its stack. */
struct cm_run {
    pthread_t thread;
    struct cm_run *next;
};

/* A thread that waits, on its stack: connections are many, those that are waited for are few. */
struct cm_waiter {
    pthread_cond_t signalled;
    struct cm_waiter *next;
};

/* Life of a connection, listener or linger: lock, references, and the threads inside. */
struct cm_guard {
    pthread_mutex_t lock;
    /* Threads that wait until another one leaves */
    struct cm_waiter *waits;
    struct cm_run *runs;
    unsigned refs;
    /* Destroyed: no thread enters any more */
    bool dead;
};

/* One reference: the owner's. */
void cm_guard_init(struct cm_guard *guard);
/* True: inside, the lock is held, one reference more. */
bool cm_enter(struct cm_guard *guard, struct cm_run *run);
/* The lock is held, and released. True: free the object. */
bool cm_leave(struct cm_guard *guard, struct cm_run *run);
/* Is this thread inside? */
bool cm_inside(struct cm_guard *guard);
void cm_hold(struct cm_guard *guard);
/* True: free the object. */
bool cm_drop(struct cm_guard *guard);
/* Dead; others are out. The lock is not held. */
void cm_kill(struct cm_guard *guard);
/* Waits for runs of other threads; the lock is held. */
void cm_guard_wait_others(struct cm_guard *guard);
/* Wait for cm_guard_signal, which leaving is too; may return early. Both with the lock held. */
void cm_guard_wait(struct cm_guard *guard);
void cm_guard_signal(struct cm_guard *guard);
/* Before free. */
void cm_guard_end(struct cm_guard *guard);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The threads that wait for one object, an EVD or a channel. */
#ifndef ITAL_UAL_WAITERS_H
#define ITAL_UAL_WAITERS_H

#include "lane.h"

#include "base/spinlock.h"

/* The most threads that may wait for one object. */
#define UAL_WAITERS_MOST 64u

/* Zero to begin with. The lock is a leaf. */
struct waiters {
    struct spinlock lock;
    struct ual_waiter *sleepers; /* those that may sleep */
    atomic_uint inside;          /* threads between enter and leave; futex for abort */
    atomic_bool aborting;
    atomic_int refusal; /* enum ri_status: why threads may not wait; RI_OK: they may */
};

/*
 * A waiting thread calls enter, (add, remove), leave. Between enter and leave the object and its
 * lane exist: abort waits. enter: ITAL_ERR_WAITER_LIMIT, ITAL_ERR_ABORTED, the refusal. From add to
 * remove events wake it. remove: if it was woken, or takes an event (took), it wakes another
 * waiter, because a CQ fires once for all.
 */
enum ri_status waiters_enter(struct waiters *waiters);
void waiters_add(struct waiters *waiters, struct ual_waiter *waiter);
void waiters_remove(struct waiters *waiters, struct ual_waiter *waiter, bool took);
void waiters_leave(struct waiters *waiters);
/* Wakes one waiter that was not woken yet, or all. Any thread. */
void waiters_wake_one(struct waiters *waiters);
void waiters_wake_all(struct waiters *waiters);
/* From now on no thread may wait: wakes all, and returns when the last has left. */
void waiters_abort(struct waiters *waiters);
/* Waiting is possible again. */
void waiters_reopen(struct waiters *waiters);
/* From now on no thread may wait: enter returns this status. RI_ERR_BUSY: a thread waits. */
enum ri_status waiters_refuse(struct waiters *waiters, enum ri_status why);
/* Waiting is allowed again. */
void waiters_admit(struct waiters *waiters);
static inline enum ri_status waiters_refusal(struct waiters *waiters)
{
    return (enum ri_status)atomic_load_explicit(&waiters->refusal, memory_order_relaxed);
}
/* Waits until threads that have left have released the lock. */
void waiters_await_leavers(struct waiters *waiters);

static inline bool waiters_any(struct waiters *waiters)
{
    return atomic_load(&waiters->inside) != 0;
}
static inline bool waiters_aborting(struct waiters *waiters)
{
    return atomic_load(&waiters->aborting);
}

#endif

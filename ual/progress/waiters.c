/* SPDX-License-Identifier: BSD-3-Clause */
#include "waiters.h"

#include "base/clock.h"
#include "base/futex.h"

#include <limits.h>
#include <utlist.h>

/* Under the lock, which keeps the waiter alive. A waiter with WAITER_CHECK checks anyway. */
static void wake_one(struct waiters *waiters)
{
    struct ual_waiter *waiter;

    for (waiter = waiters->sleepers; waiter; waiter = waiter->next_of_owner) {
        if (!(atomic_load(&waiter->word) & WAITER_CHECK)) {
            ual_lane_wake_waiter(waiter);
            return;
        }
    }
}

static void wake_all(struct waiters *waiters)
{
    struct ual_waiter *waiter;

    for (waiter = waiters->sleepers; waiter; waiter = waiter->next_of_owner)
        ual_lane_wake_waiter(waiter);
}

void waiters_wake_one(struct waiters *waiters)
{
    spinlock_lock(&waiters->lock);
    wake_one(waiters);
    spinlock_unlock(&waiters->lock);
}

void waiters_wake_all(struct waiters *waiters)
{
    spinlock_lock(&waiters->lock);
    wake_all(waiters);
    spinlock_unlock(&waiters->lock);
}

enum ri_status waiters_enter(struct waiters *waiters)
{
    enum ri_status status;

    spinlock_lock(&waiters->lock);
    status = atomic_load(&waiters->aborting) ? ITAL_ERR_ABORTED : waiters_refusal(waiters);
    if (status == RI_OK && atomic_load(&waiters->inside) >= UAL_WAITERS_MOST)
        status = ITAL_ERR_WAITER_LIMIT;
    if (status == RI_OK)
        atomic_fetch_add(&waiters->inside, 1);
    spinlock_unlock(&waiters->lock);
    return status;
}

void waiters_add(struct waiters *waiters, struct ual_waiter *waiter)
{
    spinlock_lock(&waiters->lock);
    DL_APPEND2(waiters->sleepers, waiter, prev_of_owner, next_of_owner);
    spinlock_unlock(&waiters->lock);
}

void waiters_remove(struct waiters *waiters, struct ual_waiter *waiter, bool took)
{
    spinlock_lock(&waiters->lock);
    DL_DELETE2(waiters->sleepers, waiter, prev_of_owner, next_of_owner);
    if (took || (atomic_load(&waiter->word) & WAITER_CHECK))
        wake_one(waiters);
    spinlock_unlock(&waiters->lock);
}

void waiters_leave(struct waiters *waiters)
{
    spinlock_lock(&waiters->lock);
    atomic_fetch_sub(&waiters->inside, 1);
    if (atomic_load(&waiters->aborting))
        futex_wake(&waiters->inside, INT_MAX);
    spinlock_unlock(&waiters->lock);
}

void waiters_abort(struct waiters *waiters)
{
    unsigned int left;

    spinlock_lock(&waiters->lock);
    atomic_store(&waiters->aborting, true);
    wake_all(waiters);
    spinlock_unlock(&waiters->lock);
    while ((left = atomic_load(&waiters->inside)) != 0)
        futex_wait(&waiters->inside, left, CLOCK_NEVER);
    waiters_await_leavers(waiters);
}

void waiters_reopen(struct waiters *waiters)
{
    atomic_store(&waiters->aborting, false);
}

enum ri_status waiters_refuse(struct waiters *waiters, enum ri_status why)
{
    enum ri_status status = RI_ERR_BUSY;

    spinlock_lock(&waiters->lock);
    if (!atomic_load(&waiters->inside)) {
        atomic_store_explicit(&waiters->refusal, why, memory_order_relaxed);
        status = RI_OK;
    }
    spinlock_unlock(&waiters->lock);
    return status;
}

void waiters_admit(struct waiters *waiters)
{
    atomic_store_explicit(&waiters->refusal, RI_OK, memory_order_relaxed);
}

void waiters_await_leavers(struct waiters *waiters)
{
    spinlock_lock(&waiters->lock);
    spinlock_unlock(&waiters->lock);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "notifier.h"

#include "base/futex.h"

#include <string.h>
#include <sys/eventfd.h>
#include <utlist.h>

enum ual_status notifier_open(struct notifier *notifier, struct ual_lane *lane, bool with_fd)
{
    *notifier = (struct notifier){ .lane = lane, .fd = -1 };
    if (!with_fd)
        return UAL_OK;
    notifier->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (notifier->fd < 0) {
        kal_log(RI_LOG_ERROR, "cannot make the descriptor of an EVD: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        return UAL_ERR_NO_RESOURCES;
    }
    ual_fork_track(notifier->fd);
    return UAL_OK;
}

void notifier_close(struct notifier *notifier)
{
    spinlock_lock(&notifier->lock); /* the last one that left may be about to drop it */
    spinlock_unlock(&notifier->lock);
    if (notifier->fd < 0)
        return;
    ual_fork_forget(notifier->fd);
    close(notifier->fd);
    notifier->fd = -1;
}

void notifier_raise_fd(struct notifier *notifier)
{
    uint64_t one = 1;

    if (!atomic_exchange(&notifier->fd_raised, true))
        syscall(SYS_write, notifier->fd, &one, sizeof(one));
}

/* Under the lock, which keeps the waiter there. One that has WAITER_LOOK looks anyway. */
static void wake_one(struct notifier *notifier)
{
    struct ual_waiter *waiter;

    for (waiter = notifier->waiters; waiter; waiter = waiter->evd_next) {
        if (!(atomic_load(&waiter->word) & WAITER_LOOK)) {
            ual_lane_wake_waiter(notifier->lane, waiter);
            return;
        }
    }
}

void notifier_raise(struct notifier *notifier)
{
    if (notifier->fd >= 0)
        notifier_raise_fd(notifier);
    spinlock_lock(&notifier->lock);
    wake_one(notifier);
    spinlock_unlock(&notifier->lock);
}

/* Read first: what is raised between the two is not written, but the caller looks after the second. */
void notifier_lower(struct notifier *notifier)
{
    uint64_t count;

    if (notifier->fd < 0 || !atomic_load(&notifier->fd_raised))
        return;
    syscall(SYS_read, notifier->fd, &count, sizeof(count));
    atomic_store(&notifier->fd_raised, false);
}

enum ual_status notifier_enter(struct notifier *notifier)
{
    enum ual_status status = UAL_OK;

    spinlock_lock(&notifier->lock);
    if (atomic_load(&notifier->aborting))
        status = UAL_ERR_ABORTED;
    else if (atomic_load(&notifier->inside) >= NOTIFIER_WAITERS_MAX)
        status = UAL_ERR_WAITER_LIMIT;
    else
        atomic_fetch_add(&notifier->inside, 1);
    spinlock_unlock(&notifier->lock);
    return status;
}

void notifier_add(struct notifier *notifier, struct ual_waiter *waiter)
{
    spinlock_lock(&notifier->lock);
    DL_APPEND2(notifier->waiters, waiter, evd_prev, evd_next);
    spinlock_unlock(&notifier->lock);
}

void notifier_remove(struct notifier *notifier, struct ual_waiter *waiter, bool took)
{
    spinlock_lock(&notifier->lock);
    DL_DELETE2(notifier->waiters, waiter, evd_prev, evd_next);
    if (took || (atomic_load(&waiter->word) & WAITER_LOOK))
        wake_one(notifier);
    spinlock_unlock(&notifier->lock);
}

void notifier_leave(struct notifier *notifier)
{
    spinlock_lock(&notifier->lock);
    atomic_fetch_sub(&notifier->inside, 1);
    if (atomic_load(&notifier->aborting))
        futex_wake(&notifier->inside, INT_MAX);
    spinlock_unlock(&notifier->lock);
}

void notifier_abort(struct notifier *notifier)
{
    struct ual_waiter *waiter;
    unsigned int left;

    spinlock_lock(&notifier->lock);
    atomic_store(&notifier->aborting, true);
    for (waiter = notifier->waiters; waiter; waiter = waiter->evd_next)
        ual_lane_wake_waiter(notifier->lane, waiter);
    spinlock_unlock(&notifier->lock);
    while ((left = atomic_load(&notifier->inside)) != 0)
        futex_wait(&notifier->inside, left, CLOCK_NEVER);
    spinlock_lock(&notifier->lock); /* the last one is out of its critical section */
    spinlock_unlock(&notifier->lock);
}

void notifier_reopen(struct notifier *notifier)
{
    atomic_store(&notifier->aborting, false);
}

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
    *notifier = (struct notifier){.lane = lane, .fd = -1};
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
    if (notifier->fd < 0)
        return;
    ual_fork_forget(notifier->fd);
    close(notifier->fd);
    notifier->fd = -1;
}

static void raise_fd(struct notifier *notifier)
{
    uint64_t one = 1;

    if (!atomic_exchange(&notifier->fd_raised, true))
        syscall(SYS_write, notifier->fd, &one, sizeof(one));
}

void notifier_raise(struct notifier *notifier)
{
    struct ual_waiter *waiter;

    if (notifier->fd >= 0)
        raise_fd(notifier);
    spinlock_lock(&notifier->lock);
    for (waiter = notifier->waiters; waiter; waiter = waiter->evd_next) {
        if (!atomic_load(&waiter->word)) {
            ual_lane_wake_waiter(notifier->lane, waiter);
            break;
        }
    }
    spinlock_unlock(&notifier->lock);
}

void notifier_lower(struct notifier *notifier)
{
    uint64_t count;

    if (notifier->fd < 0 || !atomic_load(&notifier->fd_raised))
        return;
    syscall(SYS_read, notifier->fd, &count, sizeof(count));
    atomic_store(&notifier->fd_raised, false);
}

enum ual_status notifier_join(struct notifier *notifier, struct ual_waiter *waiter)
{
    enum ual_status status = UAL_OK;

    spinlock_lock(&notifier->lock);
    if (atomic_load(&notifier->aborting))
        status = UAL_ERR_ABORTED;
    else if (atomic_load(&notifier->waiter_count) >= NOTIFIER_WAITERS_MAX)
        status = UAL_ERR_WAITER_LIMIT;
    if (status == UAL_OK) {
        DL_APPEND2(notifier->waiters, waiter, evd_prev, evd_next);
        atomic_fetch_add(&notifier->waiter_count, 1);
    }
    spinlock_unlock(&notifier->lock);
    return status;
}

void notifier_leave(struct notifier *notifier, struct ual_waiter *waiter)
{
    spinlock_lock(&notifier->lock);
    DL_DELETE2(notifier->waiters, waiter, evd_prev, evd_next);
    atomic_fetch_sub(&notifier->waiter_count, 1);
    if (atomic_load(&notifier->aborting))
        futex_wake(&notifier->waiter_count, INT_MAX);
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
    while ((left = atomic_load(&notifier->waiter_count)) != 0)
        futex_wait(&notifier->waiter_count, left, CLOCK_NEVER);
    spinlock_lock(&notifier->lock); /* the last one is out of its critical section */
    spinlock_unlock(&notifier->lock);
}

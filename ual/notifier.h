/* SPDX-License-Identifier: BSD-3-Clause
 * Notifier: how the arrival of an event on an EVD becomes known: a waiting thread, a descriptor. Leaf lock. */
#ifndef ITAL_UAL_NOTIFIER_H
#define ITAL_UAL_NOTIFIER_H

#include "lane.h"

#include "base/spinlock.h"

#define NOTIFIER_WAITERS_MAX 64u /* threads that may wait on one EVD */

struct notifier {
    struct ual_lane *lane;
    struct spinlock lock;
    struct ual_waiter *waiters; /* linked by evd_prev, evd_next */
    atomic_uint waiter_count;   /* futex for notifier_abort */
    atomic_bool aborting;
    int fd;                     /* eventfd, -1 none */
    atomic_bool fd_raised;
};

enum ual_status notifier_open(struct notifier *notifier, struct ual_lane *lane, bool with_fd);
void notifier_close(struct notifier *notifier);
/* An event came, or more are left: wake one waiter that was not woken yet, raise the descriptor. Any thread. */
void notifier_raise(struct notifier *notifier);
/* The consumer found nothing: lower the descriptor; the caller looks again afterwards. */
void notifier_lower(struct notifier *notifier);
/* UAL_ERR_WAITER_LIMIT, UAL_ERR_ABORTED. */
enum ual_status notifier_join(struct notifier *notifier, struct ual_waiter *waiter);
void notifier_leave(struct notifier *notifier, struct ual_waiter *waiter);
/* From now on nobody waits: wakes all and returns when the last has left. */
void notifier_abort(struct notifier *notifier);

static inline bool notifier_waited_on(struct notifier *notifier)
{
    return atomic_load_explicit(&notifier->waiter_count, memory_order_relaxed) != 0;
}

#endif

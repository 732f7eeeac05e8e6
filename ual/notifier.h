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
    struct ual_waiter *waiters; /* those that may sleep; linked by evd_prev, evd_next */
    atomic_uint inside;         /* threads between enter and leave; futex for notifier_abort */
    atomic_bool aborting;
    int fd; /* eventfd, -1 none */
    atomic_bool fd_raised;
};

enum ual_status notifier_open(struct notifier *notifier, struct ual_lane *lane, bool with_fd);
void notifier_close(struct notifier *notifier);
/* An event came: raise the descriptor, wake one waiter that was not woken yet. Any thread. */
void notifier_raise(struct notifier *notifier);
/* The descriptor only: events are left although it was lowered. */
void notifier_raise_fd(struct notifier *notifier);
/* The consumer found nothing: lower the descriptor; the caller looks again afterwards. */
void notifier_lower(struct notifier *notifier);

/*
 * A waiting thread: enter, (add, remove), leave. Between enter and leave the EVD and its lane stay: abort waits.
 * enter: UAL_ERR_WAITER_LIMIT, UAL_ERR_ABORTED. From add to remove events wake it. remove: when it was woken, or takes an
 * event away (took), another one has to look: the CQ fires once for all.
 */
enum ual_status notifier_enter(struct notifier *notifier);
void notifier_add(struct notifier *notifier, struct ual_waiter *waiter);
void notifier_remove(struct notifier *notifier, struct ual_waiter *waiter, bool took);
void notifier_leave(struct notifier *notifier);
/* From now on nobody waits: wakes all and returns when the last has left. */
void notifier_abort(struct notifier *notifier);
/* Waiting is possible again. */
void notifier_reopen(struct notifier *notifier);

static inline bool notifier_waited_on(struct notifier *notifier)
{
    return atomic_load(&notifier->inside) != 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's list of QPs that a pass has to visit: see coalesced.h.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "coalesced.h"

#include <utlist.h>

bool tx_enlist(struct qp *qp)
{
    struct lane *lane = qp->lane;
    bool armed;

    spinlock_lock(&lane->lock);
    armed = atomic_load_explicit(&lane->armed, memory_order_relaxed);
    atomic_store_explicit(&lane->armed, false, memory_order_relaxed);
    if (!qp->on_lane.listed) {
        qp->on_lane.listed = true;
        DL_APPEND2(lane->coalesce.qps, qp, on_lane.prev, on_lane.next);
        atomic_fetch_add_explicit(&lane->coalesce.count, 1, memory_order_relaxed);
    }
    spinlock_unlock(&lane->lock);
    return armed;
}

void tx_unlist(struct qp *qp)
{
    struct lane *lane = qp->lane;

    spinlock_lock(&lane->lock);
    if (qp->on_lane.listed) {
        qp->on_lane.listed = false;
        DL_DELETE2(lane->coalesce.qps, qp, on_lane.prev, on_lane.next);
        atomic_fetch_sub_explicit(&lane->coalesce.count, 1, memory_order_relaxed);
    }
    spinlock_unlock(&lane->lock);
}

struct qp *tx_take_enlisted(struct lane *lane, const struct cq *first)
{
    struct qp *qp;

    spinlock_lock(&lane->lock);
    for (qp = lane->coalesce.qps; qp && qp_is_left_to_consumer(qp, first); qp = qp->on_lane.next)
        ;
    if (qp) {
        qp->on_lane.listed = false;
        DL_DELETE2(lane->coalesce.qps, qp, on_lane.prev, on_lane.next);
        atomic_fetch_sub_explicit(&lane->coalesce.count, 1, memory_order_relaxed);
        atomic_fetch_add(&qp->upcalls, 1);
    }
    spinlock_unlock(&lane->lock);
    return qp;
}

/* As for a QP with coalesced posts: the next pass visits it, whether it has a stream or not. */
void tx_defer_to_lane(struct qp *qp)
{
    const struct ri_host *host = qp->rnic->host;

    if (tx_enlist(qp))
        host->wake(host, qp->lane->base.context);
}

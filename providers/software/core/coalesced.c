/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lane's list of QPs that a pass has to visit: see coalesced.h.
 *
 * SHORT SLEEPS. A thread that sleeps for the lane is woken when posts are to wait, or nobody would
 * send them. An event-driven consumer that streams would wake it again and again: it takes
 * completions without a pass. So when large posts have waited, the next sleep for the lane ends by
 * coalesce.wake_at, and posts that wait until then wake nobody. It is followed by another short one
 * if posts waited meanwhile. The host learns the end from the pass before it arms the lane: so
 * tx_choose_sleep, which changes it, asks for another pass.
 */
#include "coalesced.h"

#include <utlist.h>

#define SHORT_SLEEP CLOCK_NS_PER_MS

enum lane_armed tx_choose_sleep(struct lane *lane)
{
    uint64_t at = atomic_load_explicit(&lane->coalesce.wake_at, memory_order_relaxed), now;

    spinlock_assert_held(&lane->lock);
    if (at == RI_NO_DEADLINE && !lane->coalesce.waited)
        return LANE_ARMED;
    now = clock_now();
    if (at != RI_NO_DEADLINE && now < at)
        return LANE_ARMED_SHORTLY;
    at = lane->coalesce.waited ? now + SHORT_SLEEP : RI_NO_DEADLINE;
    atomic_store_explicit(&lane->coalesce.wake_at, at, memory_order_relaxed);
    lane->coalesce.waited = false;
    return LANE_NOT_ARMED;
}

static void append(struct lane *lane, struct qp *qp)
{
    spinlock_assert_held(&lane->lock);
    if (!qp->on_lane.listed) {
        qp->on_lane.listed = true;
        DL_APPEND2(lane->coalesce.qps, qp, on_lane.prev, on_lane.next);
        atomic_fetch_add_explicit(&lane->coalesce.count, 1, memory_order_relaxed);
    }
}

/* Under the lane's lock. True: a thread may sleep, and is told to wake. */
static bool disarm(struct lane *lane)
{
    bool armed = atomic_load_explicit(&lane->armed, memory_order_relaxed) != LANE_NOT_ARMED;

    spinlock_assert_held(&lane->lock);
    atomic_store_explicit(&lane->armed, LANE_NOT_ARMED, memory_order_relaxed);
    return armed;
}

bool tx_enlist(struct qp *qp, bool worth)
{
    struct lane *lane = qp->lane;
    bool wake = false;

    spinlock_assert_held(&qp->sq.posting);
    spinlock_lock(&lane->lock);
    if (worth || lane->coalesce.wake_at != RI_NO_DEADLINE)
        lane->coalesce.waited = true;
    if (atomic_load_explicit(&lane->armed, memory_order_relaxed) != LANE_ARMED_SHORTLY)
        wake = disarm(lane);
    append(lane, qp);
    spinlock_unlock(&lane->lock);
    return wake;
}

void tx_unlist(struct qp *qp)
{
    struct lane *lane = qp->lane;

    spinlock_assert_held(&qp->sq.posting);
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
    struct lane *lane = qp->lane;
    bool wake;

    spinlock_assert_not_held(&lane->lock);
    spinlock_lock(&lane->lock);
    wake = disarm(lane);
    append(lane, qp);
    spinlock_unlock(&lane->lock);
    if (wake)
        host->wake(host, lane->base.context);
}

/* As many QPs as are listed now: others may be added meanwhile. */
void tx_send_all_coalesced(struct lane *lane, const struct cq *first)
{
    uint32_t count = atomic_load_explicit(&lane->coalesce.count, memory_order_relaxed);
    struct qp *qp;

    spinlock_assert_not_held(&lane->lock);
    while (count-- && (qp = tx_take_enlisted(lane, first))) {
        qp_wire(qp)->leave_together(qp);
        atomic_fetch_sub(&qp->upcalls, 1);
    }
}

void tx_note_poll_everywhere(struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        tx_note_poll(rnic->lanes[i], NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Quiescence: the end of passes that may still use memory, and the QPs whose output may name it.
 *
 * REVOKED MEMORY. An STag is valid on every lane, so its end waits for the passes of all lanes: for
 * each pass that was under way at the revocation until it is over. The thread that waits may be a
 * pass itself (invalidate_quiet()), and two of them would wait for each other. So a waiting
 * thread is `quiet` (lane->quiets is odd), and nobody waits for it: it places nothing, and checks
 * STags again when it continues. The count shows a quiet moment between two reads of it.
 */
#include "quiescence.h"

#include <sched.h>

void lane_wait_pass(struct lane *lane)
{
    unsigned int passes = atomic_load(&lane->passes);

    spinlock_assert_not_held(&lane->lock);
    if (!(passes & 1) || lane_inside(lane))
        return;
    while (atomic_load(&lane->passes) == passes)
        sched_yield();
}

/* Some of the QPs of the PD behind `*after`, each counted as in an upcall: destroy takes them off
 * the list and then waits. */
static uint32_t next_qps(struct lane *lane, const struct pd *pd, uint64_t *after, struct qp **qps,
                         uint32_t room)
{
    struct qp *qp;
    uint32_t count = 0;

    spinlock_lock(&lane->lock);
    for (qp = lane->connected; qp && count < room; qp = qp->on_lane.connected_next) {
        if (qp->on_lane.number <= *after || qp->pd != pd)
            continue;
        *after = qp->on_lane.number;
        atomic_fetch_add(&qp->upcalls, 1);
        qps[count++] = qp;
    }
    spinlock_unlock(&lane->lock);
    return count;
}

/* Several walks may be under way at once, also one inside another: no walk leaves a mark that
 * another would read. */
static void leave_qps(struct lane *lane, const struct pd *pd, enum leave what,
                      const struct memory_range *range, bool in_pass)
{
    struct qp *qps[64];
    uint64_t after = 0;
    uint32_t count;

    while ((count = next_qps(lane, pd, &after, qps, ARRAY_SIZE(qps)))) {
        for (uint32_t i = 0; i < count; i++) {
            qp_wire(qps[i])->leave(qps[i], what, range, in_pass);
            atomic_fetch_sub(&qps[i]->upcalls, 1);
        }
    }
}

static struct lane *own_pass(const struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        if (lane_inside(rnic->lanes[i]))
            return rnic->lanes[i];
    return NULL;
}

static void wait_placing(const struct lane *lane)
{
    unsigned int passes = atomic_load(&lane->passes), quiets = atomic_load(&lane->quiets);

    if (!(passes & 1) || (quiets & 1))
        return;
    while (atomic_load(&lane->passes) == passes && atomic_load(&lane->quiets) == quiets)
        sched_yield();
}

void lanes_leave(struct rnic *rnic, const struct pd *pd, enum leave what,
                 const struct memory_range *range)
{
    struct lane *own = own_pass(rnic);

    if (own)
        atomic_fetch_add(&own->quiets, 1);
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        if (rnic->lanes[i] != own)
            wait_placing(rnic->lanes[i]);
    for (uint32_t i = 0; pd && i < rnic->options.lanes; i++)
        leave_qps(rnic->lanes[i], pd, what, range, own != NULL);
    if (own)
        atomic_fetch_add(&own->quiets, 1);
}

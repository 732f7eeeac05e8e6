/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lanes: what concerns all of an RNIC's. A QP stays on the lane that it was created for; a CQ may be fed by several. Lanes
 * share no lock: what one of them waits for in another is in this file.
 *
 * MEMORY THAT GOES AWAY. An STag is valid on every lane, so its end waits for the passes of all of them: for each that was under way
 * when the STag had been revoked until it is over. A pass may be the one that waits (invalidate.c). Two of them would wait for
 * each other: so who waits is `quiet` (lane->quiets odd), and is not waited for: he places nothing, and judges
 * STags anew when he goes on. A quiet moment between two looks at it shows by the count.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"

enum ri_status lanes_create(struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes; i++) {
        enum ri_status status = lane_create(rnic, &rnic->lanes[i]);

        if (status != RI_OK) {
            lanes_destroy(rnic);
            return status;
        }
    }
    return RI_OK;
}

void lanes_destroy(struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes && rnic->lanes[i]; i++)
        lane_destroy(rnic->lanes[i]);
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

void lanes_leave_memory(struct rnic *rnic, const struct pd *pd,
                        void (*visit)(struct qp *qp, void *arg), void *arg)
{
    struct lane *own = own_pass(rnic);

    if (own)
        atomic_fetch_add(&own->quiets, 1);
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        if (rnic->lanes[i] != own)
            wait_placing(rnic->lanes[i]);
    for (uint32_t i = 0; pd && i < rnic->options.lanes; i++)
        lane_visit_qps(rnic->lanes[i], pd, visit, arg);
    if (own)
        atomic_fetch_add(&own->quiets, 1);
}

void lanes_count(struct rnic *rnic, uint32_t *streams, uint32_t *closing)
{
    *streams = *closing = 0;
    for (uint32_t i = 0; i < rnic->options.lanes; i++) {
        struct lane *lane = rnic->lanes[i];

        spinlock_lock(&lane->lock);
        *streams += lane->stream_count;
        *closing += lane->closing_count;
        spinlock_unlock(&lane->lock);
    }
}

uint64_t lanes_empty_writes(const struct rnic *rnic)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        sum += atomic_load_explicit(&rnic->lanes[i]->empty_writes, memory_order_relaxed);
    return sum;
}

void lanes_note_look(struct rnic *rnic)
{
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        tx_note_look(rnic->lanes[i], NULL);
}

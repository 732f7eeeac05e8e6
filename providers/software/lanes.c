/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All lanes of an RNIC. A QP stays on the lane that it was created for; several lanes may feed a
 * CQ. Lanes share no lock. llp/quiescence.c has the only waits of one lane for another.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane.h"

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

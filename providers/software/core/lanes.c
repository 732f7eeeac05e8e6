/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lanes of an RNIC. A QP stays on the lane that it was created for; several lanes may feed a
 * CQ. Lanes share no lock. quiescence.c has the only waits of one lane for another.
 */
#include "lane.h"
#include "qp.h"

#include <stdlib.h>

#define LINE_OCTETS 128u /* two cache lines: processors fetch pairs */

static void close_parts(struct lane *lane, int slots)
{
    for (int slot = 0; slot < slots; slot++)
        if (lane->rnic->wires[slot])
            lane->rnic->wires[slot]->lane_close(lane);
}

static enum ri_status open_parts(struct lane *lane)
{
    for (int slot = 0; slot < WIRE_SLOTS; slot++) {
        const struct wire *wire = lane->rnic->wires[slot];
        enum ri_status status = wire ? wire->lane_open(lane) : RI_OK;

        if (status != RI_OK) {
            close_parts(lane, slot);
            return status;
        }
    }
    return RI_OK;
}

static enum ri_status lane_create(struct rnic *rnic, struct lane **out)
{
    const struct wire *network = rnic->wires[WIRE_NETWORK];
    size_t octets = network ? network->lane_octets : sizeof(struct lane);
    enum ri_status status;
    struct lane *lane;

    /* Own cache lines: no two lanes share one. */
    octets = (octets + LINE_OCTETS - 1) / LINE_OCTETS * LINE_OCTETS;
    lane = aligned_alloc(LINE_OCTETS, octets);
    if (!lane)
        return RI_ERR_NO_RESOURCES;
    memset(lane, 0, octets);
    lane->rnic = rnic;
    atomic_init(&lane->coalesce.wake_at, RI_NO_DEADLINE);
    lane->base.ops = rnic->lane_user ? rnic->lane_user : rnic->user;
    status = open_parts(lane);
    if (status != RI_OK) {
        free(lane);
        return status;
    }
    *out = lane;
    return RI_OK;
}

void lane_free_qps(struct lane *lane)
{
    struct qp *qp, *next;

    contract(lane_inside(lane) || !atomic_load(&lane->runner));
    spinlock_lock(&lane->lock);
    qp = atomic_exchange_explicit(&lane->freed, NULL, memory_order_relaxed);
    spinlock_unlock(&lane->lock);
    for (; qp; qp = next) {
        next = qp->on_lane.free_next;
        qp_free(qp);
    }
}

static void lane_destroy(struct lane *lane)
{
    close_parts(lane, WIRE_SLOTS);
    lane_free_qps(lane);
    free(lane);
}

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

void lanes_count(struct rnic *rnic, uint32_t *connections, uint32_t *closing)
{
    *connections = *closing = 0;
    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        for (int slot = 0; slot < WIRE_SLOTS; slot++)
            if (rnic->wires[slot])
                rnic->wires[slot]->count(rnic->lanes[i], connections, closing);
}

uint64_t lanes_empty_writes(const struct rnic *rnic)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < rnic->options.lanes; i++)
        sum += atomic_load_explicit(&rnic->lanes[i]->empty_writes, memory_order_relaxed);
    return sum;
}

enum ri_status core_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                              struct ri_lane **out)
{
    struct rnic *rnic = container_of(base, struct rnic, base);

    if (index >= rnic->options.lanes)
        return RI_ERR_INVALID_ARGUMENT;
    rnic->lanes[index]->base.context = context;
    *out = &rnic->lanes[index]->base;
    return RI_OK;
}

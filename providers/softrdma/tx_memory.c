/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, the memory of a batch. A QP has it while a batch of it is on the way to the socket; afterwards those that
 * are hot (lane.c) keep it, and the others hand it back. So an idle QP has none, however many there are, and the few that
 * work do not pass it around. A few spare ones are kept in the lane, where who needs one takes it by one exchange.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "fpdu.h"

struct tx_memory {
    uint8_t *bounce; /* TX_BOUNCE_OCTETS; NULL: was not needed yet */
    struct iovec iov[TX_IOV];
    uint8_t arena[TX_ARENA_OCTETS];
};

static void free_memory(struct tx_memory *memory)
{
    if (memory)
        free(memory->bounce);
    free(memory);
}

static struct tx_memory *take_spare(struct lane *lane)
{
    struct tx_memory *memory = NULL;

    for (uint32_t i = 0; i < TX_SPARES && !memory; i++)
        if (atomic_load_explicit(&lane->spares[i], memory_order_relaxed))
            memory = atomic_exchange_explicit(&lane->spares[i], NULL, memory_order_acquire);
    return memory;
}

bool tx_borrow(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .detail = "no memory for its output" };
    struct tx_batch *batch = &qp->batch;

    batch->memory = take_spare(qp->rnic->lane);
    if (!batch->memory) {
        batch->memory = malloc(sizeof(*batch->memory));
        if (!batch->memory) {
            qp_end(qp, &end);
            return false;
        }
        batch->memory->bounce = NULL;
    }
    batch->iov = batch->memory->iov;
    batch->arena = batch->memory->arena;
    batch->bounce = batch->memory->bounce;
    return true;
}

bool tx_borrow_bounce(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .detail = "no memory for answers to its peer" };
    struct tx_batch *batch = &qp->batch;

    batch->bounce = batch->memory->bounce = malloc(TX_BOUNCE_OCTETS);
    if (batch->bounce)
        return true;
    qp_end(qp, &end);
    return false;
}

void tx_give_back(struct qp *qp)
{
    struct tx_batch *batch = &qp->batch;
    struct lane *lane = qp->rnic->lane;
    struct tx_memory *memory = batch->memory;

    batch_reset(batch);
    batch->memory = NULL;
    batch->iov = NULL;
    batch->arena = batch->bounce = NULL;
    for (uint32_t i = 0; i < TX_SPARES; i++) {
        struct tx_memory *none = NULL;

        if (!atomic_load_explicit(&lane->spares[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&lane->spares[i], &none, memory,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    free_memory(memory);
}

void tx_close(struct qp *qp)
{
    free_memory(qp->batch.memory);
    free(qp->batch.own);
}

void tx_free_spares(struct lane *lane)
{
    for (uint32_t i = 0; i < TX_SPARES; i++)
        free_memory(atomic_exchange(&lane->spares[i], NULL));
}

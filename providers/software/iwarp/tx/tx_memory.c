/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, the memory of a batch. A QP has it while a batch of it is on the way to the socket. The
 * TX_KEEPERS QPs that took memory last keep it between batches. So all but a few idle QPs have
 * none, and the few busy ones do not pass it around. A QP that needs memory takes a spare one of
 * the lane and becomes a keeper. The keeper that it replaces returns its own.
 *
 * Copies of what is to be sent, too: of output whose memory is released, of sources that are
 * fetched early (tx_fetch.c).
 */
#include "fpdu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        if (atomic_load_explicit(&iwarp_lane(lane)->spares[i], memory_order_relaxed))
            memory = atomic_exchange_explicit(&iwarp_lane(lane)->spares[i], NULL,
                                              memory_order_acquire);
    return memory;
}

/* The QP that this one replaces as a keeper, or NULL. It is counted as in an upcall, so that
 * destroy waits. */
static struct iwarp_qp *become_keeper(struct lane *lane, struct iwarp_qp *qp)
{
    struct iwarp_qp *displaced = NULL;

    spinlock_lock(&lane->lock);
    if (!qp->keeps_none && !qp->tx.keeps_memory) {
        uint32_t place = iwarp_lane(lane)->keeper_clock++ % TX_KEEPERS;

        displaced = iwarp_lane(lane)->keepers[place];
        iwarp_lane(lane)->keepers[place] = qp;
        atomic_store_explicit(&qp->tx.keeps_memory, true, memory_order_relaxed);
    }
    if (displaced) {
        atomic_store_explicit(&displaced->tx.keeps_memory, false, memory_order_relaxed);
        atomic_fetch_add(&displaced->core.upcalls, 1);
    }
    spinlock_unlock(&lane->lock);
    return displaced;
}

/*
 * Reclaim another QP's memory from inside tx of one. A thread inside tx of the other sees the
 * raised counter and returns the memory; else this thread is inside. Work that comes meanwhile is
 * left to the lane: it may take rx, for which no thread waits inside tx of another QP.
 */
static void reclaim(struct iwarp_qp *qp)
{
    unsigned int alone = 1;

    if (tx_begin(&qp->core)) {
        if (tx_holds_idle_memory(qp)) /* it may be a keeper again */
            tx_release_batch(qp);
        tx_note_inside(&qp->core, false);
        if (!atomic_compare_exchange_strong(&qp->core.tx.requests, &alone, 0)) {
            atomic_store(&qp->core.tx.requests, 0);
            tx_defer_to_lane(&qp->core);
        }
    }
    atomic_fetch_sub(&qp->core.upcalls, 1);
}

void tx_keep_no_memory(struct iwarp_qp *qp)
{
    struct lane *lane = qp->core.lane;

    spinlock_lock(&lane->lock);
    qp->keeps_none = true;
    atomic_store_explicit(&qp->tx.keeps_memory, false, memory_order_relaxed);
    for (uint32_t i = 0; i < TX_KEEPERS; i++)
        if (iwarp_lane(lane)->keepers[i] == qp)
            iwarp_lane(lane)->keepers[i] = NULL;
    spinlock_unlock(&lane->lock);
}

bool tx_borrow(struct iwarp_qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .by_this_side = true,
                                       .detail = QP_NO_MEMORY("its output") };
    struct tx_batch *batch = &qp->tx.batch;
    struct lane *lane = qp->core.lane;
    struct iwarp_qp *displaced = become_keeper(lane, qp);

    tx_assert_inside(&qp->core);
    if (displaced)
        reclaim(displaced);
    batch->memory = take_spare(lane);
    if (!batch->memory) {
        batch->memory = malloc(sizeof(*batch->memory));
        if (!batch->memory) {
            qp_end(&qp->core, &end);
            return false;
        }
        batch->memory->bounce = NULL;
    }
    batch->iov = batch->memory->iov;
    batch->arena = batch->memory->arena;
    batch->bounce = batch->memory->bounce;
    return true;
}

bool tx_borrow_bounce(struct iwarp_qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .by_this_side = true,
                                       .detail = QP_NO_MEMORY("answers to its peer") };
    struct tx_batch *batch = &qp->tx.batch;

    tx_assert_inside(&qp->core);
    batch->bounce = batch->memory->bounce = malloc(TX_BOUNCE_OCTETS);
    if (batch->bounce)
        return true;
    qp_end(&qp->core, &end);
    return false;
}

void tx_release_batch(struct iwarp_qp *qp)
{
    struct tx_batch *batch = &qp->tx.batch;
    struct lane *lane = qp->core.lane;
    struct tx_memory *memory = batch->memory;

    tx_assert_inside(&qp->core);
    contract(!batch->octets);
    batch_reset(batch);
    batch->memory = NULL;
    batch->iov = NULL;
    batch->arena = batch->bounce = NULL;
    for (uint32_t i = 0; i < TX_SPARES; i++) {
        struct tx_memory *none = NULL;

        if (!atomic_load_explicit(&iwarp_lane(lane)->spares[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&iwarp_lane(lane)->spares[i], &none, memory,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    free_memory(memory);
}

/* Move the unsent octets of the batch to memory of its own. False: there is none. */
static bool own_batch(struct tx_batch *batch)
{
    uint8_t *own = malloc(batch->octets);
    size_t used = 0;

    if (!own)
        return false;
    for (uint32_t i = batch->first; i < batch->count; i++) {
        memcpy(own + used, batch->iov[i].iov_base, batch->iov[i].iov_len);
        used += batch->iov[i].iov_len;
    }
    free(batch->own);
    batch->own = own;
    batch->iov[0] = (struct iovec){ own, used };
    batch->first = 0;
    batch->count = 1;
    return true;
}

bool tx_own_batch(struct iwarp_qp *qp, const char *detail)
{
    const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                .state = RI_QPS_ERROR,
                                .lost = true,
                                .by_this_side = true,
                                .detail = detail };

    tx_assert_inside(&qp->core);
    if (own_batch(&qp->tx.batch)) {
        atomic_store(&qp->tx.names_source, false);
        return true;
    }
    /* Nothing may follow the missing octets. */
    batch_reset(&qp->tx.batch);
    atomic_store(&qp->tx.error, ENOMEM);
    qp_end(&qp->core, &end);
    return false;
}

void tx_drop_kept(struct iwarp_qp *qp, struct inbound_read *read)
{
    tx_assert_inside(&qp->core);
    contract(read->kept);
    qp->tx.kept -= read->size - read->kept_from;
    free(read->kept);
    read->kept = NULL;
}

void tx_close(struct iwarp_qp *qp)
{
    free_memory(qp->tx.batch.memory);
    free(qp->tx.batch.own);
}

void tx_free_spares(struct lane *lane)
{
    for (uint32_t i = 0; i < TX_SPARES; i++)
        free_memory(atomic_exchange(&iwarp_lane(lane)->spares[i], NULL));
}

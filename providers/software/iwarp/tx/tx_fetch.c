/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, sources fetched early. A later Send or Write of the peer, and the Terminate that
 * refuses a request of it, must not come before the Reads and atomics that it sent earlier
 * (DESIGN: Order). So rx calls tx_fetch() first: of the requests that have no answer yet
 *
 *   - the answers are built into the batch, as long as it has room and no message of this side is
 *     under way; memory that a batch names is copied;
 *   - of the others the source is copied, and an atomic is executed: at most READS_AHEAD octets are
 *     kept, and the answers are built from them in their turn;
 *   - if that is not enough, input waits: what has been built is sent, and rx tries again.
 *
 * A peer of this kind never sends so much ahead (tx_is_far_ahead), so the last case is for others,
 * and for a request that is refused behind long Reads.
 */
#include "fpdu.h"
#include "providers/software/iwarp/codec/terminate.h"
#include "providers/software/core/guard.h"
#include "providers/software/core/regions.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next_read(const struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->reads.ird_out, memory_order_acquire);
}

/* Acquire: tx reads the entries before it, which rx may just have written. */
static uint32_t last_read(const struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->reads.ird_in, memory_order_acquire);
}

static struct inbound_read *read_at(const struct iwarp_qp *qp, uint32_t index)
{
    return &qp->reads.ird_ring[index & (qp->reads.ird_size - 1)];
}

/* Hint outside of tx. ird_out is read first: names_source is set before. */
static bool is_unfetched(const struct iwarp_qp *qp)
{
    return next_read(qp) != last_read(qp) ||
           atomic_load_explicit(&qp->tx.names_source, memory_order_acquire);
}

/* --- what is kept --- */

void tx_drop_all_kept(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    for (uint32_t at = next_read(qp); qp->tx.kept && at != last_read(qp); at++)
        if (read_at(qp, at)->kept)
            tx_drop_kept(qp, read_at(qp, at));
}

static bool copy_source(struct iwarp_qp *qp, const struct inbound_read *read, uint8_t *to,
                        uint8_t *source, uint32_t octets)
{
    if (qp->core.rnic->options.guard)
        return guard_read(&qp->core, read->source_stag, to, source, octets, USE_REMOTE_READ);
    memcpy(to, source, octets);
    return true;
}

static void end_without_memory(struct iwarp_qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                       .state = RI_QPS_ERROR,
                                       .lost = true,
                                       .by_this_side = true,
                                       .detail = QP_NO_MEMORY("answers to its peer") };

    qp_end(&qp->core, &end);
}

/* False: the stream has ended. */
static bool keep_source(struct iwarp_qp *qp, struct inbound_read *read)
{
    uint32_t octets = read->size - read->sent;
    struct stag_entry *entry;
    enum stag_result result;
    uint8_t *source;
    bool copied;

    if (!octets || read->kept)
        return true;
    result = qp_enter_remote(&qp->core, &qp->tx.answer_hint, read->source_stag,
                             RI_ACCESS_REMOTE_READ, read->source_to + read->sent, octets, &source,
                             &entry);
    if (result != STAG_OK) {
        tx_refuse_answer(qp, read, tx_protection_value(result), RI_EVENT_READ_ACCESS);
        return false;
    }
    read->kept = malloc(octets);
    read->kept_from = read->sent;
    qp->tx.kept += read->kept ? octets : 0;
    copied = read->kept && copy_source(qp, read, read->kept, source, octets);
    stag_leave(entry);
    if (!read->kept)
        end_without_memory(qp);
    else if (!copied)
        tx_refuse_answer(qp, read, TERMINATE_LOCAL, RI_EVENT_READ_ACCESS);
    return copied;
}

/* May everything that is not built be kept? */
static bool may_keep(const struct iwarp_qp *qp)
{
    uint64_t octets = qp->tx.kept;

    for (uint32_t at = next_read(qp); at != last_read(qp); at++)
        if (!read_at(qp, at)->kept)
            octets += read_at(qp, at)->size - read_at(qp, at)->sent;
    return octets <= READS_AHEAD;
}

/* In the order of the requests. */
static void keep_all(struct iwarp_qp *qp)
{
    bool on = true;

    tx_assert_inside(&qp->core);
    qp->tx.keeps = true;
    for (uint32_t at = next_read(qp); on && at != last_read(qp); at++) {
        struct inbound_read *read = read_at(qp, at);

        on = read->atomic ? tx_execute_atomic(qp, read) : keep_source(qp, read);
    }
}

/* --- fetch --- */

/* Into the batch, which is sent at the end of the pass. */
static void build_now(struct iwarp_qp *qp)
{
    if (qp->tx.message_begun || qp->tx.rtr_to_send || (!qp->tx.batch.octets && !tx_begin_batch(qp)))
        return;
    qp->tx.fetching = true;
    tx_build_responses(qp, false);
    qp->tx.fetching = false;
    qp->tx.requests_first = true; /* it was a turn */
}

/* Inside tx. False: input waits. After an end of the stream nothing waits. */
static bool fetch(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    if (qp_state(&qp->core) != RI_QPS_RTS || atomic_load(&qp->tx.error))
        return true;
    if (atomic_load(&qp->tx.names_source) && !tx_own_batch(qp, QP_NO_MEMORY("answers to its peer")))
        return true;
    build_now(qp);
    if (qp_state(&qp->core) != RI_QPS_RTS || next_read(qp) == last_read(qp))
        return true;
    qp->tx.input_waits = !may_keep(qp);
    if (!qp->tx.input_waits)
        keep_all(qp);
    return !qp->tx.input_waits;
}

/* A thread that is inside fetches by itself, or leaves soon; it waits for rx only when the
 * connection has ended (tx.stopped). */
bool tx_fetch(struct iwarp_qp *qp)
{
    bool fetched;

    rx_assert_held(qp->stream);
    lane_assert_run(qp->core.lane);
    do {
        if (!is_unfetched(qp) || atomic_load(&qp->core.tx.stopped))
            return true;
        if (tx_try_enter(&qp->core))
            break;
        sched_yield();
    } while (true);
    fetched = fetch(qp);
    tx_leave_work(&qp->core);
    atomic_store(&qp->core.tx.wanted, true);
    return fetched;
}

static bool is_next_kept(const struct iwarp_qp *qp)
{
    const struct inbound_read *read = read_at(qp, next_read(qp));

    return next_read(qp) != last_read(qp) &&
           (read->atomic ? read->executed : read->kept || read->sent == read->size);
}

bool tx_has_kept(const struct iwarp_qp *qp)
{
    return qp->tx.keeps && is_next_kept(qp);
}

bool tx_build_kept(struct iwarp_qp *qp)
{
    uint32_t before;

    tx_assert_inside(&qp->core);
    if (!tx_begin_batch(qp))
        return false;
    batch_fill_any(&qp->tx.batch);
    qp->tx.resize_batch = true;
    do {
        before = next_read(qp);
        tx_build_responses(qp, true);
    } while (next_read(qp) != before && is_next_kept(qp));
    return qp->tx.batch.octets != 0;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, answers to the peer's requests. Inside tx only; a source is looked up again for each
 * segment.
 */
#include "headers.h"
#include "providers/software/core/guard.h"
#include "providers/software/iwarp/codec/terminate.h"

#include "base/crc32c.h"

#include <string.h>

/* Without a sum it does not matter when the source changes, but for atomics of the same stream
 * (names_source). Only deregistering and invalidating a region make batches leave its memory
 * (lanes_leave), so the payload of a window is copied. */
static bool is_named(const struct iwarp_qp *qp, const struct stag_entry *entry)
{
    return !qp->framing.crc && !qp->core.rnic->options.guard && !qp->tx.fetching && entry &&
           entry->kind == STAG_REGION;
}

/* So is what is summed, or read by the kernel. False: there is no memory for it, and the stream has
 * ended. */
static bool has_bounce(struct iwarp_qp *qp, const struct stag_entry *entry, uint32_t octets)
{
    uint32_t beside = qp->core.rnic->options.guard ? 0 : TX_COPY_OCTETS;

    return likely(qp->tx.batch.bounce != NULL) || octets <= beside || is_named(qp, entry) ||
           tx_borrow_bounce(qp);
}

/* The source follows the header: copied behind it if it is short, named by the batch, or copied
 * into the bounce buffer. entry: NULL if there are no octets. */
static void send_source(struct iwarp_qp *qp, struct fpdu *fpdu, uint32_t head, uint8_t *source,
                        uint32_t octets, const struct stag_entry *entry)
{
    uint8_t *to;

    if (octets <= TX_COPY_OCTETS) {
        if (octets) /* without octets there may be no source */
            memcpy(fpdu->start + head, source, octets);
        fpdu_end_short(qp, fpdu, head + octets);
        return;
    }
    fpdu_head(qp, fpdu, head);
    if (is_named(qp, entry)) {
        fpdu_name_payload(qp, fpdu, source, octets, 0);
        atomic_store_explicit(&qp->tx.names_source, true, memory_order_relaxed);
        fpdu_end(qp, fpdu, head + octets);
        return;
    }
    to = qp->tx.batch.bounce + qp->tx.batch.bounce_used;
    if (source == to) /* the kernel has copied it already */
        fpdu->crc = qp->framing.crc ? crc32c(fpdu->crc, to, octets) : 0;
    else if (qp->framing.crc)
        fpdu->crc = crc32c_copy(to, source, octets, fpdu->crc);
    else
        memcpy(to, source, octets);
    batch_add(&qp->tx.batch, to, octets);
    qp->tx.batch.bounce_used += octets;
    fpdu_end(qp, fpdu, head + octets);
}

/* Option guard: the kernel reads the source into the bounce buffer, which becomes the source.
 * False: it cannot be read. */
static bool read_source(struct iwarp_qp *qp, const struct inbound_read *read, uint8_t **source,
                        uint32_t octets)
{
    uint8_t *to = qp->tx.batch.bounce + qp->tx.batch.bounce_used;

    if (!guard_read(&qp->core, read->source_stag, to, *source, octets, USE_REMOTE_READ))
        return false;
    *source = to;
    return true;
}

/* One segment; the source is looked up again for each, unless it is kept. False: the stream has
 * ended. */
static bool response_segment(struct iwarp_qp *qp, struct inbound_read *read)
{
    uint32_t octets = read->size - read->sent, head;
    struct stag_entry *entry = NULL;
    enum stag_result result = STAG_OK;
    uint8_t *source = NULL;
    struct fpdu fpdu;

    if (octets >= qp->tx.short_below)
        octets = min_u64(octets, fpdu_payload_max(qp, true));
    if (read->kept)
        source = tx_kept(read);
    else if (octets)
        result = qp_enter_remote(&qp->core, &qp->tx.answer_hint, read->source_stag,
                                 RI_ACCESS_REMOTE_READ, read->source_to + read->sent, octets,
                                 &source, &entry);
    if (result != STAG_OK) {
        tx_refuse_answer(qp, read, tx_protection_value(result), RI_EVENT_READ_ACCESS);
        return false;
    }
    if (!has_bounce(qp, entry, octets)) {
        if (entry)
            stag_leave(entry);
        return false;
    }
    if (unlikely(qp->core.rnic->options.guard) && entry &&
        !read_source(qp, read, &source, octets)) {
        stag_leave(entry);
        tx_refuse_answer(qp, read, TERMINATE_LOCAL, RI_EVENT_READ_ACCESS);
        return false;
    }
    head = tx_put_response(fpdu_begin(qp, &fpdu), read->sink_stag, read->sink_to + read->sent,
                           octets, read->sent + octets == read->size);
    send_source(qp, &fpdu, head, source, octets, entry);
    if (entry)
        stag_leave(entry);
    read->sent += octets;
    if (unlikely(read->kept != NULL) && read->sent == read->size)
        tx_drop_kept(qp, read);
    return true;
}

/* The answer is built, or as much of it as there is room for. False: not all of it is. */
static bool build_response(struct iwarp_qp *qp, struct inbound_read *read)
{
    tx_assert_inside(&qp->core);
    do {
        if (!batch_room(qp) || qp->tx.batch.bounce_used + qp->tx.mulpdu > TX_BOUNCE_OCTETS)
            return false;
        if (read->atomic ? !tx_atomic_response(qp, read) : !response_segment(qp, read))
            return false;
        qp->tx.response_begun = read->sent != read->size;
    } while (qp->tx.response_begun);
    return true;
}

/* An answer of the peer's requests is built: what waited for it is looked at again. */
static __attribute__((noinline)) void resume_input(struct iwarp_qp *qp)
{
    qp->tx.input_waits = false;
    lane_call(qp->stream);
}

void tx_build_responses(struct iwarp_qp *qp, bool only_one)
{
    uint32_t out = atomic_load_explicit(&qp->reads.ird_out, memory_order_relaxed);

    tx_assert_inside(&qp->core);
    while (out != atomic_load_explicit(&qp->reads.ird_in, memory_order_acquire)) {
        struct inbound_read *read = &qp->reads.ird_ring[out & (qp->reads.ird_size - 1)];

        if (unlikely(read->size > LONG_RESPONSE) && qp->framing.crc && !qp->tx.batch.octets) {
            /* copied anyway: segments bring nothing for a long one */
            batch_fill_any(&qp->tx.batch);
            qp->tx.resize_batch = true;
        }
        if (read->atomic && atomic_load_explicit(&qp->tx.names_source, memory_order_relaxed) &&
            !read->executed)
            return; /* the Read before it has not fetched its data yet */
        if (!build_response(qp, read))
            return;
        atomic_store_explicit(&qp->reads.ird_out, ++out, memory_order_release);
        if (unlikely(qp->tx.input_waits))
            resume_input(qp);
        if (only_one)
            return;
    }
}

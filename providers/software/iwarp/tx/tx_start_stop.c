/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit, what happens once: start with a stream, stop when the connection ends. Memory that is
 * deregistered: tx_detach.c.
 */
#include "fpdu.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "transmit.h"

#include "base/crc32c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- start --- */

static enum ri_status add_last_message(struct iwarp_qp *qp, const struct ri_llp_handover *handover)
{
    size_t length = handover->last_message_length;

    if (!length)
        return RI_OK;
    if (!qp->tx.batch.memory && !tx_borrow(qp))
        return RI_ERR_NO_RESOURCES;
    qp->tx.batch.own = malloc(length);
    if (!qp->tx.batch.own)
        return RI_ERR_NO_RESOURCES;
    memcpy(qp->tx.batch.own, handover->last_message, length);
    batch_add(&qp->tx.batch, qp->tx.batch.own, length);
    qp->tx.position = qp->tx.full_operation = length;
    return RI_OK;
}

enum ri_status tx_start(struct iwarp_qp *qp, const struct ri_llp_handover *handover)
{
    tx_assert_inside(&qp->core);
    contract(qp_state(&qp->core) == RI_QPS_IDLE);
    batch_reset(&qp->tx.batch);
    qp->framing.crc = handover->crc;
    qp->framing.markers_transmit = handover->markers_transmit;
    batch_bound(&qp->tx.batch, qp->framing.markers_transmit);
    qp->tx.send_msn = qp->tx.read_msn = qp->tx.atomic_msn = 1;
    qp->tx.position = qp->tx.accepted = qp->tx.full_operation = 0;
    qp->tx.message_begun = qp->tx.response_begun = qp->tx.requests_first = qp->tx.source_gone =
        false;
    qp->tx.split = qp->tx.fetching = qp->tx.keeps = false;
    qp->tx.input_waits = false;
    qp->tx.long_reads = qp->core.rnic->attr.max_ord > READS_MANY;
    atomic_store(&qp->tx.names_source, false);
    qp->tx.heard = UINT64_MAX;
    qp->tx.immediate_due = false;
    own_forget(&qp->tx.own);
    atomic_store(&qp->tx.error, 0);
    qp->tx.unasked = 0;
    qp->reads.acked = atomic_load(&qp->core.sq.next);
    qp->reads.acked_msn = 1;
    atomic_store(&qp->reads.ack_asked, false);
    atomic_store(&qp->core.sq.sent, qp->reads.acked);
    atomic_store(&qp->core.tx.holding, !handover->initiator);
    qp->tx.rtr_to_send = RI_RTR_NONE;
    if (handover->initiator)
        qp->tx.rtr_to_send = handover->rtr_send ? handover->rtr_send : RI_RTR_WRITE;
    fpdu_learn_mulpdu(qp);
    qp->tx.single_below = 0;
    spinlock_lock(&qp->core.sq.posting);
    qp->coalesce.watched = false;
    spinlock_unlock(&qp->core.sq.posting);
    return add_last_message(qp, handover);
}

/* --- stop --- */

/* Copy a short FPDU with its markers. */
static size_t copy_marked(struct iwarp_qp *qp, uint8_t *to, uint8_t *fpdu, size_t length)
{
    const struct iovec in = { fpdu, length };
    uint8_t markers[2 * MPA_MARKER_LEN];
    struct iovec out[5];
    struct mpa_weave weave = {
        .out = out, .markers = markers, .pos = fpdu_position(qp), .crc_on = qp->framing.crc
    };
    size_t used = 0;

    mpa_marker_weave(&weave, &in, 1);
    for (uint32_t i = 0; i < weave.count; i++) {
        memcpy(to + used, out[i].iov_base, out[i].iov_len);
        used += out[i].iov_len;
    }
    return used;
}

uint8_t *tx_terminate_fpdu(struct iwarp_qp *qp, size_t *length)
{
    uint8_t
        fpdu[MPA_HDR_LEN + DDP_UNTAGGED_LEN + sizeof(qp->core.life.terminate) + MPA_TRAILER_MAX];
    uint8_t *own = malloc(sizeof(fpdu) + 2 * MPA_MARKER_LEN);
    uint32_t octets = qp->core.life.terminate_length, head;

    static_assert(sizeof(fpdu) < MPA_MARKER_PERIOD - MPA_MARKER_LEN, "two markers at most");
    *length = 0;
    if (!own)
        return NULL;
    head = ddp_put_untagged_fpdu(fpdu, octets, true, rdmap_ctrl(RDMAP_TERMINATE), 0,
                                 DDP_QN_TERMINATE, 1, 0);
    memcpy(fpdu + head, qp->core.life.terminate, octets);
    head += octets;
    head += mpa_put_trailer(fpdu + head, head - MPA_HDR_LEN,
                            qp->framing.crc ? crc32c(0, fpdu, head) : 0, qp->framing.crc);
    if (qp->framing.markers_transmit)
        *length = copy_marked(qp, own, fpdu, head);
    else
        memcpy(own, fpdu, *length = head);
    return own;
}

/* Memory for `more` octets behind those of the tail, or NULL. */
static uint8_t *grow_tail(uint8_t **tail, size_t used, size_t more)
{
    uint8_t *grown = realloc(*tail, used + more);

    if (!grown)
        return NULL;
    *tail = grown;
    return grown + used;
}

/* Adds the unsent octets of the batch, and empties it. False: no memory. */
static bool add_batch(struct tx_batch *batch, uint8_t **tail, size_t *used)
{
    uint8_t *to = batch->octets ? grow_tail(tail, *used, batch->octets) : NULL;
    bool done = to || !batch->octets;

    for (uint32_t i = batch->first; to && i < batch->count; i++) {
        memcpy(to, batch->iov[i].iov_base, batch->iov[i].iov_len);
        to += batch->iov[i].iov_len;
        *used += batch->iov[i].iov_len;
    }
    batch_reset(batch);
    return done;
}

/* Adds the Terminate, if one is wanted. False: no memory. */
static bool add_terminate(struct iwarp_qp *qp, uint8_t **tail, size_t *used)
{
    uint8_t *terminate, *to;
    size_t length;

    if (!qp->core.life.terminate_wanted)
        return true;
    terminate = tx_terminate_fpdu(qp, &length);
    to = terminate ? grow_tail(tail, *used, length) : NULL;
    if (to) {
        memcpy(to, terminate, length);
        *used += length;
    }
    free(terminate);
    return to != NULL;
}

/* The answers that are fetched leave before the Terminate: they are of earlier requests. */
bool tx_take_tail(struct iwarp_qp *qp, uint8_t **tail, size_t *length)
{
    uint8_t *made = NULL;
    size_t used = 0;
    bool whole = add_batch(&qp->tx.batch, &made, &used);

    tx_assert_inside(&qp->core);
    while (whole && tx_has_kept(qp))
        whole = tx_build_kept(qp) && add_batch(&qp->tx.batch, &made, &used);
    if (!whole || !add_terminate(qp, &made, &used)) {
        free(made);
        return false;
    }
    *tail = made;
    *length = used;
    return true;
}

/* A FIN would hide what is missing. Under rx. */
static void end_without_tail(struct iwarp_qp *qp, enum ri_qp_state state)
{
    rx_assert_held(qp->stream);
    if (state == RI_QPS_CLOSING)
        qp_closed_badly(&qp->core, QP_NO_MEMORY("what was to be sent before the end"));
    stream_abort(qp->stream, true);
}

void tx_stop(struct iwarp_qp *qp)
{
    struct stream *stream = qp->stream;
    enum ri_qp_state state = qp_state(&qp->core);
    size_t length = 0;
    uint8_t *tail = NULL;
    bool whole = qp->core.life.lost || atomic_load(&qp->tx.error) ||
                 tx_take_tail(qp, &tail, &length);

    tx_assert_inside(&qp->core);
    contract(state != RI_QPS_IDLE && state != RI_QPS_RTS && !qp->core.tx.stopped);
    tx_drop_all_kept(qp);
    qp->tx.single_below = 0;
    atomic_store(&qp->core.tx.stopped, true); /* before rx: its holder may wait for this */
    spinlock_lock(&stream->rx);
    if (stream->state != STREAM_OPEN)
        free(tail);
    else if (qp->core.life.lost)
        stream_abort(stream, true);
    else if (!whole)
        end_without_tail(qp, state);
    else
        stream_begin_close(stream, tail, length, state == RI_QPS_CLOSING);
    if (state == RI_QPS_TERMINATE)
        atomic_store(&qp->core.life.state, RI_QPS_ERROR);
    qp_flush_ended(&qp->core);
    spinlock_unlock(&stream->rx);
}

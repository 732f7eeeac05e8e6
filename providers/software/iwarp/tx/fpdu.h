/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of transmit share: the batch, and one FPDU of it. Inside tx only.
 *
 * A BATCH is what one write is meant to take: an array of iovecs over the arena (headers, trailers
 * and small payload), the consumer's memory (large payload of Sends and Writes, and of Read
 * Responses without CRC) and the bounce buffer (Read Response payload with CRC, copied and summed
 * in one pass: its source may legally change meanwhile, and the sum has to be that of what leaves).
 * A new batch is built when the last one is in the socket. A request is complete
 * when the socket took its last octet. Memory of the consumer is named by a batch only while it is
 * registered: deregistering copies what is still to go (tx_detach).
 */
#ifndef ITAL_SOFTRDMA_FPDU_H
#define ITAL_SOFTRDMA_FPDU_H

#include "providers/software/iwarp/codec/ddp.h"
#include "providers/software/iwarp/codec/mpa.h"
#include "providers/software/iwarp/codec/mpa_marker.h"
#include "transmit.h"

#include "base/compiler.h"
#include "base/crc32c.h"
#include "base/minmax.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_ARENA (MPA_HDR_LEN + DDP_HDR_MAX + TX_COPY_OCTETS + MPA_TRAILER_MAX)

/* --- batch --- */

/* How full the batch may be and still take any segment; markers take two entries and four octets
 * each. */
static inline void batch_bound(struct tx_batch *batch, bool markers)
{
    batch->count_most = TX_IOV - MAX_SGE - 3 - (markers ? 2 * MPA_MARKERS_MAX : 0);
    batch->arena_most = TX_ARENA_OCTETS - SEGMENT_ARENA -
                        (markers ? MPA_MARKERS_MAX * MPA_MARKER_LEN : 0);
}

static inline void batch_reset(struct tx_batch *batch)
{
    batch->count = batch->first = 0;
    batch->octets = 0;
    batch->arena_used = batch->bounce_used = 0;
    if (batch->own) {
        free(batch->own);
        batch->own = NULL;
    }
}

/* Is there room for one more segment of any kind? */
static inline bool batch_room_up_to(const struct iwarp_qp *qp, size_t octets)
{
    const struct tx_batch *batch = &qp->tx.batch;

    return batch->octets < octets && batch->count <= batch->count_most &&
           batch->arena_used <= batch->arena_most;
}

static inline bool batch_room(const struct iwarp_qp *qp)
{
    return batch_room_up_to(qp, qp->tx.batch.full);
}

/* The end of a message should not need a call of its own. */
static inline bool batch_room_begun(const struct iwarp_qp *qp)
{
    return batch_room_up_to(qp, qp->tx.batch.full_begun);
}

/* Whole TCP segments: `count` FPDUs of `piece` octets. */
static inline void batch_fill_segments(struct tx_batch *batch, uint32_t piece, uint32_t count)
{
    batch->fpdu_size = piece;
    batch->segment = piece * count;
    batch->full = batch->full_begun = batch->segment - FPDU_LEAST;
}

static inline void batch_fill_any(struct tx_batch *batch)
{
    batch->fpdu_size = batch->segment = 0;
    batch->full = TX_BATCH_OCTETS;
    batch->full_begun = TX_BATCH_OCTETS + TX_BATCH_TAIL;
}

/* The end of a message in one write, followed by others while it is less than a segment. */
static inline void batch_fill_tail(struct tx_batch *batch, uint32_t segment)
{
    batch_fill_any(batch);
    batch->full = segment - FPDU_LEAST;
}

void batch_add(struct tx_batch *batch, void *octets, size_t length);

/* The socket has accepted `sent` octets. */
static inline void batch_advance(struct tx_batch *batch, size_t sent)
{
    batch->octets -= sent;
    while (sent) {
        struct iovec *iov = &batch->iov[batch->first];

        if (sent < iov->iov_len) {
            iov->iov_base = (uint8_t *)iov->iov_base + sent;
            iov->iov_len -= sent;
            return;
        }
        sent -= iov->iov_len;
        batch->first++;
    }
}

/* --- one FPDU --- */

/* Stream position of the next FPDU, as the peer counts octets since Full Operation. */
static inline uint32_t fpdu_position(const struct iwarp_qp *qp)
{
    return (uint32_t)(qp->tx.position - qp->tx.full_operation);
}

#define FPDU_OVERHEAD (MPA_HDR_LEN + DDP_HDR_MAX + MPA_CRC_LEN)

/* Largest payload of a segment. Long segments are cut smaller than they could be: each is
 * summed, then copied, while it is in the cache. */
static inline uint32_t fpdu_payload_max(const struct iwarp_qp *qp, bool tagged)
{
    uint32_t most = ddp_payload_max(qp->tx.mulpdu, tagged), left;

    if (qp->tx.batch.segment) {
        left = min_u64(qp->tx.batch.segment - qp->tx.batch.octets, qp->tx.batch.fpdu_size);
        return (left - MPA_HDR_LEN - ddp_hdr_len(tagged) - MPA_CRC_LEN) & ~(FPDU_ALIGN - 1);
    }
    return most < SEGMENT_MOST || iwarp_rnic(qp->core.rnic)->options.fpdu_max ? most : SEGMENT_MOST;
}

struct fpdu {
    uint8_t *start; /* in the arena, at ULPDU_Length */
    uint32_t crc;
};

/* Where ULPDU_Length and the DDP header go. */
static inline uint8_t *fpdu_begin(struct iwarp_qp *qp, struct fpdu *fpdu)
{
    fpdu->start = qp->tx.batch.arena + qp->tx.batch.arena_used;
    return fpdu->start;
}

/* The first `octets` of the FPDU are in the arena: add them to the CRC and to the batch. */
static inline void fpdu_head(struct iwarp_qp *qp, struct fpdu *fpdu, uint32_t octets)
{
    fpdu->crc = qp->framing.crc ? crc32c(0, fpdu->start, octets) : 0;
    batch_add(&qp->tx.batch, fpdu->start, octets);
    qp->tx.batch.arena_used += octets;
}

/* PAD and CRC of an FPDU whose first `octets`, from ULPDU_Length on, are at `fpdu`; returns the
 * octets with them. */
static inline __attribute__((always_inline)) uint32_t fpdu_seal(const struct iwarp_qp *qp,
                                                                uint8_t *fpdu, uint32_t octets)
{
    memset(fpdu + octets, 0, 4); /* the PAD, and more */
    octets = (octets + 3u) & ~3u;
    mpa_put_crc(fpdu + octets, qp->framing.crc ? crc32c_fours(0, fpdu, octets) : 0);
    return octets + MPA_CRC_LEN;
}

/* The next `octets` of the arena are a sealed FPDU: add it to the batch. Stream without markers
 * only. */
static inline void fpdu_append(struct iwarp_qp *qp, uint32_t octets)
{
    struct tx_batch *batch = &qp->tx.batch;
    uint8_t *fpdu = batch->arena + batch->arena_used;
    struct iovec *last = batch->count ? &batch->iov[batch->count - 1] : NULL;

    batch->octets += octets;
    batch->arena_used += octets;
    qp->tx.position += octets;
    if (last && (uint8_t *)last->iov_base + last->iov_len == fpdu)
        last->iov_len += octets;
    else
        batch->iov[batch->count++] = (struct iovec){ fpdu, octets };
}

/* End the FPDU behind its payload, `octets` from ULPDU_Length on: PAD and CRC, and markers if
 * the peer asked for them. */
void fpdu_end(struct iwarp_qp *qp, struct fpdu *fpdu, uint32_t octets);
/* The same if the whole FPDU is in the arena and nothing of it in the batch. */
void fpdu_end_short(struct iwarp_qp *qp, const struct fpdu *fpdu, uint32_t octets);
/* The next `octets` of the message under way as payload of an FPDU whose headers, `head` octets
 * from ULPDU_Length on, are written. */
void fpdu_send_payload(struct iwarp_qp *qp, const struct wqe *wqe, struct fpdu *fpdu, uint32_t head,
                       uint32_t octets);
/* The batch names this memory as the next part of the payload. `ahead` octets behind it are likely
 * to be the next FPDU's. */
void fpdu_name_payload(struct iwarp_qp *qp, struct fpdu *fpdu, uint8_t *from, uint32_t octets,
                       uint32_t ahead);
/* Option guard, before that: read the payload. False: the memory cannot be read. */
bool fpdu_fetch_payload(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t octets);
/* Read the path's EMSS again: it may change. */
void fpdu_learn_mulpdu(struct iwarp_qp *qp);

/* A request that the peer answers goes into the ORD ring before an octet of it can leave: the
 * place to fill, then the entry. Returns its MSN. */
static inline struct outstanding_read *tx_outstanding_place(const struct iwarp_qp *qp)
{
    uint32_t in = atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed);

    return &qp->reads.ord_ring[in & (qp->reads.ord_size - 1)];
}
static inline uint32_t tx_note_outstanding(struct iwarp_qp *qp)
{
    tx_outstanding_place(qp)->msn = qp->tx.read_msn;
    atomic_store_explicit(&qp->reads.ord_in,
                          atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed) + 1,
                          memory_order_release);
    return qp->tx.read_msn++;
}
/* The same on the general path: a full stash may take more now (rx_stash_hold). */
static inline uint32_t tx_note_awaited(struct iwarp_qp *qp)
{
    uint32_t msn = tx_note_outstanding(qp);

    if (unlikely(qp->core.attr.rnr_retry))
        atomic_thread_fence(memory_order_seq_cst);
    if (unlikely(atomic_load(&qp->stream->attention) & ATTEND_HELD))
        lane_call(qp->stream);
    return msn;
}

/* tx_atomic.c: one segment each. True: the request is built. */
bool tx_atomic_request(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index);
bool tx_immediate(struct iwarp_qp *qp, const struct wqe *wqe);
/* Execute the peer's request and answer it. False: the stream has ended. */
bool tx_atomic_response(struct iwarp_qp *qp, struct inbound_read *request);

/* End the stream: the request was allowed when it came, and is not any more (C-116).
 * tx_refuse.c. */
void tx_refuse_answer(struct iwarp_qp *qp, const struct inbound_read *request, uint16_t value,
                      enum ri_event_type event);

/* Build answers to the peer's requests, as many as fit, or one message only. tx_response.c. */
void tx_build_responses(struct iwarp_qp *qp, bool only_one);
/* Begin an empty batch (tx_build.c). False: no memory, the stream has ended. */
bool tx_begin_batch(struct iwarp_qp *qp);
/* Move the unsent octets of the batch to memory of its own (tx_memory.c). False: there is none, and
 * the connection has ended; `detail` says why. */
bool tx_own_batch(struct iwarp_qp *qp, const char *detail);

/* --- tx_fetch.c --- */

/* Where the octets of the Read from read->sent on are kept. */
static inline uint8_t *tx_kept(const struct inbound_read *read)
{
    return read->kept + (read->sent - read->kept_from);
}
/* They are not needed any more (tx_memory.c). */
void tx_drop_kept(struct iwarp_qp *qp, struct inbound_read *read);
/* The connection has ended: no answer is built any more. */
void tx_drop_all_kept(struct iwarp_qp *qp);
/* Are there answers that are fetched and not built? */
bool tx_has_kept(const struct iwarp_qp *qp);
/* A batch of them, after the end of the connection. There are some. False: no memory. */
bool tx_build_kept(struct iwarp_qp *qp);
/* Execute the peer's atomic, if that has not been done. False: the stream has ended.
 * tx_atomic.c. */
bool tx_execute_atomic(struct iwarp_qp *qp, struct inbound_read *request);

#endif

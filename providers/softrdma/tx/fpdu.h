/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of transmit share: the batch, and one FPDU of it. Inside tx only.
 *
 * A BATCH is what one write is meant to take: an array of iovecs over the arena (headers, trailers
 * and small payload), the consumer's memory (large payload of Sends and Writes) and the bounce
 * buffer (Read Response payload, copied and summed in one pass because its source may legally
 * change meanwhile). A new batch is built when the last one is in the socket. A request is complete
 * when the socket took its last octet. Memory of the consumer is named by a batch only while it is
 * registered: deregistering copies what is still to go (tx_detach).
 */
#ifndef ITAL_SOFTRDMA_FPDU_H
#define ITAL_SOFTRDMA_FPDU_H

#include "providers/softrdma/codec/ddp.h"
#include "providers/softrdma/codec/mpa.h"
#include "providers/softrdma/codec/mpa_marker.h"
#include "transmit.h"

#include "base/crc32c.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_ARENA (MPA_HDR_LEN + DDP_HDR_MAX + TX_COPY_OCTETS + MPA_TRAILER_MAX)

/* --- batch --- */

/* How full it may be and still take a segment of any shape; markers take two entries and four
 * octets each. */
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

/* Room for one more segment of any shape? */
static inline bool batch_room_up_to(const struct qp *qp, size_t octets)
{
    const struct tx_batch *batch = &qp->tx.batch;

    return batch->octets < octets && batch->count <= batch->count_most &&
           batch->arena_used <= batch->arena_most;
}

static inline bool batch_room(const struct qp *qp)
{
    return batch_room_up_to(qp, qp->tx.batch.full);
}

/* The end of a message does not take a call of its own. */
static inline bool batch_room_begun(const struct qp *qp)
{
    return batch_room_up_to(qp, qp->tx.batch.full_begun);
}

/* One TCP segment: `count` FPDUs of `piece` octets. */
static inline void batch_fill_segment(struct tx_batch *batch, uint32_t piece, uint32_t count)
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

/* What ends a message, whole; behind it others while that is less than a segment. */
static inline void batch_fill_tail(struct tx_batch *batch, uint32_t segment)
{
    batch_fill_any(batch);
    batch->full = segment - FPDU_LEAST;
}

void batch_add(struct tx_batch *batch, void *octets, size_t length);

/* The socket took `sent` octets. */
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

static inline uint32_t smaller(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

/* Of the next FPDU in the peer's count of octets since Full Operation. */
static inline uint32_t fpdu_position(const struct qp *qp)
{
    return (uint32_t)(qp->tx.position - qp->tx.full_operation);
}

#define FPDU_OVERHEAD (MPA_HDR_LEN + DDP_HDR_MAX + MPA_CRC_LEN)

/* Payload of a segment at most. Large ones are cut smaller than they might be: each is summed, then
 * copied. */
static inline uint32_t fpdu_payload_max(const struct qp *qp, bool tagged)
{
    uint32_t most = ddp_payload_max(qp->tx.mulpdu, tagged), left;

    if (qp->tx.batch.segment) {
        left = smaller(qp->tx.batch.segment - qp->tx.batch.octets, qp->tx.batch.fpdu_size);
        return (left - MPA_HDR_LEN - ddp_hdr_len(tagged) - MPA_CRC_LEN) & ~(FPDU_ALIGN - 1);
    }
    return most < SEGMENT_MOST || qp->rnic->options.fpdu_max ? most : SEGMENT_MOST;
}

struct fpdu {
    uint8_t *start; /* in the arena, at ULPDU_Length */
    uint32_t crc;
};

/* Where ULPDU_Length and the DDP header go. */
static inline uint8_t *fpdu_begin(struct qp *qp, struct fpdu *fpdu)
{
    fpdu->start = qp->tx.batch.arena + qp->tx.batch.arena_used;
    return fpdu->start;
}

/* The arena holds the FPDU's first `octets`: sum them and put them into the batch. */
static inline void fpdu_head(struct qp *qp, struct fpdu *fpdu, uint32_t octets)
{
    fpdu->crc = qp->framing.crc ? crc32c(0, fpdu->start, octets) : 0;
    batch_add(&qp->tx.batch, fpdu->start, octets);
    qp->tx.batch.arena_used += octets;
}

/* PAD and CRC of an FPDU whose first `octets`, from ULPDU_Length on, are at `fpdu`; returns the
 * octets with them. */
static inline __attribute__((always_inline)) uint32_t fpdu_seal(const struct qp *qp, uint8_t *fpdu,
                                                                uint32_t octets)
{
    memset(fpdu + octets, 0, 4); /* the PAD, and more */
    octets = (octets + 3u) & ~3u;
    mpa_put_crc(fpdu + octets, qp->framing.crc ? crc32c_fours(0, fpdu, octets) : 0);
    return octets + MPA_CRC_LEN;
}

/* The next `octets` of the arena are a sealed FPDU: into the batch. Of a stream without markers. */
static inline void fpdu_append(struct qp *qp, uint32_t octets)
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

/* Behind the payload, `octets` from ULPDU_Length on: PAD and CRC, and markers into all of it when
 * the peer asked for them. */
void fpdu_end(struct qp *qp, struct fpdu *fpdu, uint32_t octets);
/* The same where all of it is in the arena and nothing yet in the batch. */
void fpdu_end_short(struct qp *qp, const struct fpdu *fpdu, uint32_t octets);
/* What follows in an FPDU whose headers are written, `head` octets from ULPDU_Length on: the next
 * `octets` of the message under way. */
void fpdu_send_payload(struct qp *qp, const struct wqe *wqe, struct fpdu *fpdu, uint32_t head,
                       uint32_t octets);
/* With option guard, before that: the octets come from memory that can be read. False: they do
 * not. */
bool fpdu_fetch_payload(struct qp *qp, const struct wqe *wqe, uint32_t octets);
/* The path may change: looked at from time to time. */
void fpdu_learn_mulpdu(struct qp *qp);

/* A request to be answered goes into the ORD ring, before an octet of it can leave: its place, to
 * be filled, and that it is. Its MSN. */
static inline struct outstanding_read *tx_outstanding_place(const struct qp *qp)
{
    uint32_t in = atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed);

    return &qp->reads.ord_ring[in & (qp->reads.ord_size - 1)];
}
static inline uint32_t tx_note_outstanding(struct qp *qp)
{
    tx_outstanding_place(qp)->msn = qp->tx.read_msn;
    atomic_store_explicit(&qp->reads.ord_in,
                          atomic_load_explicit(&qp->reads.ord_in, memory_order_relaxed) + 1,
                          memory_order_release);
    return qp->tx.read_msn++;
}

/* tx_atomic.c: one segment each. True: the request is built. */
bool tx_atomic_request(struct qp *qp, const struct wqe *wqe, uint32_t index);
bool tx_immediate(struct qp *qp, const struct wqe *wqe);
/* Executes the peer's request and answers. False: the stream has ended. */
bool tx_atomic_response(struct qp *qp, const struct inbound_read *request);

/* tx_refuse.c. What a request may not do any more that it might when it came (C-116) ends the
 * stream. */
void tx_refuse_answer(struct qp *qp, const struct inbound_read *request, uint16_t value,
                      enum ri_event_type event);

/* tx_response.c. Answers to the peer's requests, as many as fit; or one message only. */
void tx_build_responses(struct qp *qp, bool only_one);

#endif

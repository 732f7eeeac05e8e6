/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Filling a batch: FPDUs, their payload and their size. Requests and responses: tx.c.
 */
#include "fpdu.h"
#include "providers/software/core/guard.h"

#include <string.h>

/* --- batch --- */

void batch_add(struct tx_batch *batch, void *octets, size_t length)
{
    struct iovec *last = batch->count ? &batch->iov[batch->count - 1] : NULL;

    if (!length)
        return;
    batch->octets += length;
    if (last && (uint8_t *)last->iov_base + last->iov_len == octets)
        last->iov_len += length;
    else
        batch->iov[batch->count++] = (struct iovec){ octets, length };
}

/* --- one FPDU --- */

/* Remove the last `octets` of the batch, as iovecs; returns their number. */
static uint32_t take_back(struct tx_batch *batch, uint32_t octets, struct iovec *pieces)
{
    uint32_t count = 0, left = octets, at = batch->count;

    while (left) {
        const struct iovec *iov = &batch->iov[--at];

        left -= iov->iov_len < left ? (uint32_t)iov->iov_len : left;
        count++;
    }
    left = octets;
    for (uint32_t i = count; i--;) {
        struct iovec *iov = &batch->iov[--batch->count];
        uint32_t part = iov->iov_len < left ? (uint32_t)iov->iov_len : left;

        iov->iov_len -= part;
        pieces[i] = (struct iovec){ (uint8_t *)iov->iov_base + iov->iov_len, part };
        left -= part;
    }
    batch->octets -= octets;
    batch->count += batch->iov[batch->count].iov_len != 0;
    return count;
}

/* Insert markers into the FPDU just built, of so many octets, and compute the CRC over them. */
static void mark(struct iwarp_qp *qp, uint32_t octets)
{
    struct tx_batch *batch = &qp->tx.batch;
    uint32_t start = fpdu_position(qp);
    struct iovec pieces[MAX_SGE + 3];
    struct mpa_weave weave = { .out = batch->iov,
                               .markers = batch->arena + batch->arena_used,
                               .pos = start,
                               .crc_on = qp->framing.crc };
    uint32_t count = take_back(batch, octets, pieces);

    weave.count = batch->count;
    mpa_marker_weave(&weave, pieces, count);
    batch->count = weave.count;
    batch->arena_used = (uint32_t)(weave.markers - batch->arena);
    batch->octets += weave.pos - start;
    qp->tx.position += weave.pos - start;
}

void fpdu_end(struct iwarp_qp *qp, struct fpdu *fpdu, uint32_t octets)
{
    uint8_t *trailer = qp->tx.batch.arena + qp->tx.batch.arena_used;
    uint32_t length = mpa_put_trailer(trailer, octets - MPA_HDR_LEN, fpdu->crc, qp->framing.crc);

    batch_add(&qp->tx.batch, trailer, length);
    qp->tx.batch.arena_used += length;
    if (unlikely(qp->framing.markers_transmit))
        mark(qp, octets + length);
    else
        qp->tx.position += octets + length;
}

void fpdu_end_short(struct iwarp_qp *qp, const struct fpdu *fpdu, uint32_t octets)
{
    uint32_t size = fpdu_seal(qp, fpdu->start, octets);

    if (likely(!qp->framing.markers_transmit)) {
        fpdu_append(qp, size);
        return;
    }
    batch_add(&qp->tx.batch, fpdu->start, size);
    qp->tx.batch.arena_used += size;
    mark(qp, size);
}

/* Markers would make an FPDU longer than its limit. */
static void learn_pieces(struct iwarp_qp *qp)
{
    uint32_t segment = mpa_fpdu_len(qp->tx.mulpdu),
             pieces = (segment + FPDU_OCTETS / 2) / FPDU_OCTETS;

    qp->tx.resize_batch = true;
    qp->tx.fpdus = qp->tx.fpdu_size = 0;
    if (pieces < FPDUS_LEAST || qp->framing.markers_transmit ||
        iwarp_rnic(qp->core.rnic)->options.fpdu_max)
        return;
    qp->tx.fpdus = pieces;
    qp->tx.fpdu_size = segment / pieces & ~3u;
}

void fpdu_learn_mulpdu(struct iwarp_qp *qp)
{
    tx_assert_inside(&qp->core);
    qp->tx.mulpdu = iwarp_rnic(qp->core.rnic)->options.fpdu_max
                        ? mpa_mulpdu_unbound()
                        : mpa_mulpdu(qp->stream->llp->emss(qp->stream),
                                     qp->framing.markers_transmit);
    qp->tx.short_below = min_u64(qp->tx.mulpdu - DDP_HDR_MAX, TX_COPY_OCTETS) + 1;
    if (qp->framing.markers_transmit || qp->core.rnic->options.guard)
        qp->tx.short_below = 0;
    qp->tx.learn_at = qp->tx.position +
                      (qp->tx.position < MULPDU_OCTETS ? EARLY_OCTETS : MULPDU_OCTETS);
    learn_pieces(qp);
}

/* --- payload of requests: a cursor over the elements of the message under way --- */

/* Addresses in the elements were replaced by pointers when the message began. */
static void payload_copy(struct iwarp_qp *qp, const struct wqe *wqe, uint8_t *to, uint32_t octets)
{
    while (octets) {
        const struct ri_sge *sge = &wqe->sges[qp->tx.cursor_sge];
        uint32_t left = sge->length - qp->tx.cursor_offset, part = left < octets ? left : octets;

        memcpy(to, (const uint8_t *)(uintptr_t)sge->addr + qp->tx.cursor_offset, part);
        to += part;
        octets -= part;
        qp->tx.cursor_offset += part;
        if (qp->tx.cursor_offset == sge->length) {
            qp->tx.cursor_sge++;
            qp->tx.cursor_offset = 0;
        }
    }
}

void fpdu_name_payload(struct iwarp_qp *qp, struct fpdu *fpdu, uint8_t *from, uint32_t octets,
                       uint32_t ahead)
{
    if (qp->framing.crc)
        fpdu->crc = crc32c_far(fpdu->crc, from, octets, ahead);
    batch_add(&qp->tx.batch, from, octets);
}

static void payload_reference(struct iwarp_qp *qp, const struct wqe *wqe, struct fpdu *fpdu,
                              uint32_t octets)
{
    while (octets) {
        const struct ri_sge *sge = &wqe->sges[qp->tx.cursor_sge];
        uint32_t left = sge->length - qp->tx.cursor_offset, part = left < octets ? left : octets;

        fpdu_name_payload(qp, fpdu, (uint8_t *)(uintptr_t)sge->addr + qp->tx.cursor_offset, part,
                          left - part);
        octets -= part;
        qp->tx.cursor_offset += part;
        if (qp->tx.cursor_offset == sge->length) {
            qp->tx.cursor_sge++;
            qp->tx.cursor_offset = 0;
        }
    }
}

/*
 * Option guard: the kernel reads the payload into the bounce buffer before anything of the FPDU is
 * in the batch, so no batch names memory of the consumer. Octets that were read before a fault are
 * dropped at the end of the batch.
 */
bool fpdu_fetch_payload(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t octets)
{
    uint8_t *to = qp->tx.batch.bounce + qp->tx.batch.bounce_used;

    tx_assert_inside(&qp->core);
    qp->tx.batch.fetched = to;
    while (octets) {
        const struct ri_sge *sge = &wqe->sges[qp->tx.cursor_sge];
        uint32_t left = sge->length - qp->tx.cursor_offset, part = left < octets ? left : octets;

        if (!guard_read(&qp->core, sge->lkey, to,
                        (uint8_t *)(uintptr_t)sge->addr + qp->tx.cursor_offset, part, USE_PAYLOAD))
            return false;
        to += part;
        octets -= part;
        qp->tx.cursor_offset += part;
        if (qp->tx.cursor_offset == sge->length) {
            qp->tx.cursor_sge++;
            qp->tx.cursor_offset = 0;
        }
    }
    return true;
}

static void payload_fetched(struct iwarp_qp *qp, struct fpdu *fpdu, uint32_t octets)
{
    struct tx_batch *batch = &qp->tx.batch;

    if (qp->framing.crc)
        fpdu->crc = crc32c(fpdu->crc, batch->fetched, octets);
    batch_add(batch, batch->fetched, octets);
    batch->bounce_used += octets;
}

void fpdu_send_payload(struct iwarp_qp *qp, const struct wqe *wqe, struct fpdu *fpdu, uint32_t head,
                       uint32_t octets)
{
    if (octets <= TX_COPY_OCTETS) {
        if (unlikely(qp->core.rnic->options.guard))
            memcpy(fpdu->start + head, qp->tx.batch.fetched, octets);
        else
            payload_copy(qp, wqe, fpdu->start + head, octets);
        fpdu_end_short(qp, fpdu, head + octets);
        return;
    }
    fpdu_head(qp, fpdu, head);
    if (unlikely(qp->core.rnic->options.guard))
        payload_fetched(qp, fpdu, octets);
    else
        payload_reference(qp, wqe, fpdu, octets);
    fpdu_end(qp, fpdu, head + octets);
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the fast path: the kinds of FPDU of which a busy stream consists.
 *
 *   Send, Send with Solicited Event   the whole message in one segment, into the first element of
 *                                     an own receive
 *   RDMA Write                        any segment
 *   RDMA Read Request                 of some octets
 *   RDMA Read Response                any segment, into a region; not the last one where the sink
 *                                     is invalidated
 *
 * What is not plainly in order is left, untouched, to the general path (rx.c), which finds out what
 * it is or what is wrong with it: nothing is refused here, and nothing changes before the last
 * check. So both paths do the same; a check that is added there needs one here that lets nothing
 * pass which fails it.
 *
 * Reserved bits that are set lead to the general path, too: so tests send what they like through
 * either.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "providers/softrdma/codec/mpa.h"
#include "rx.h"

/* The control octets of DDP and RDMAP. */
#define CONTROL(ddp, opcode) (((ddp) | DDP_VERSION) << 8 | RDMAP_VERSION << 6 | (opcode))
#define SEND                 CONTROL(DDP_CTRL_L, RDMAP_SEND)
#define SEND_SE              CONTROL(DDP_CTRL_L, RDMAP_SEND_SE)
#define WRITE                CONTROL(DDP_CTRL_T, RDMAP_WRITE)
#define WRITE_LAST           CONTROL(DDP_CTRL_T | DDP_CTRL_L, RDMAP_WRITE)
#define RESPONSE             CONTROL(DDP_CTRL_T, RDMAP_READ_RESP)
#define RESPONSE_LAST        CONTROL(DDP_CTRL_T | DDP_CTRL_L, RDMAP_READ_RESP)

/* Its length before it, for it has only one. */
#define READ_REQUEST_LEN (DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN)
#define READ_REQUEST     (READ_REQUEST_LEN << 16 | CONTROL(DDP_CTRL_L, RDMAP_READ_REQ))

/* Streams with markers do not go this path, nor what comes before both sides may speak, nor what
 * option guard places. */
void rx_choose_path(struct qp *qp)
{
    qp->rx.fast = !qp->srq && !qp->framing.markers_receive && !qp->rx.rtr_await &&
                  !atomic_load(&qp->tx.holding) && !qp->rnic->options.guard;
}

/*
 * One function for each kind: check a segment at `octets`, of `size` octets as an FPDU, and when it
 * is in order place and count it.
 */

static inline __attribute__((always_inline)) bool crc_right(const struct qp *qp,
                                                            const uint8_t *octets, uint32_t size)
{
    return !qp->framing.crc || mpa_crc_right(octets, size);
}

static inline __attribute__((always_inline)) bool take_send(struct qp *qp, const uint8_t *octets,
                                                            uint32_t size, uint32_t length,
                                                            bool solicited)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    const struct ri_sge *sge;
    uint8_t *memory;
    struct wqe *wqe;
    uint32_t next;

    if (be_get32(ddp + 6) != DDP_QN_SEND || be_get32(ddp + 10) != qp->rx.expect_send_msn ||
        be_get32(ddp + 14) || qp->rx.message_open || !crc_right(qp, octets, size))
        return false;
    next = atomic_load_explicit(&qp->rq.next, memory_order_relaxed);
    if (next == atomic_load_explicit(&qp->rq.posted, memory_order_acquire))
        return false;
    wqe = wq_slot(&qp->rq, next);
    sge = wqe->sges;
    if (!wqe->num_sge || length > sge->length ||
        stag_check_hinted(&qp->rnic->stags, &qp->rx.local_hint, sge->lkey, qp->recv_pd,
                          RI_ACCESS_LOCAL_WRITE, sge->addr, length, &memory) != STAG_OK)
        return false;
    copy_short(memory, ddp + DDP_UNTAGGED_LEN, length);
    if (solicited)
        wqe->wc_flags = RI_WC_SOLICITED;
    wqe->byte_len = length;
    qp->rx.expect_send_msn++;
    count_up(&qp->counters.received_messages, 1);
    count_up(&qp->counters.received_octets, length);
    atomic_store_explicit(&qp->rq.next, next + 1, memory_order_relaxed);
    atomic_store_explicit(&wqe->done, true, memory_order_release);
    return true;
}

static __attribute__((noinline)) bool take_write(struct qp *qp, const uint8_t *octets,
                                                 uint32_t size, uint32_t length, bool last)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    uint8_t *memory;

    if (!(qp->attr.flags & RI_QP_WRITE_ENABLE) ||
        qp_check_remote(qp, &qp->rx.remote_hint, be_get32(ddp + 2), RI_ACCESS_REMOTE_WRITE,
                        be_get64(ddp + 6), length, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return false;
    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    TRACE3(place, qp->qpn, memory, length);
    if (last)
        count_up(&qp->counters.received_messages, 1);
    return true;
}

/* `alone`: nothing else was read with it. */
static inline uint64_t take_request(struct qp *qp, const uint8_t *octets, bool alone)
{
    const uint32_t size = MPA_HDR_LEN + READ_REQUEST_LEN + MPA_CRC_LEN;
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    struct rdmap_read_req request;
    uint8_t *memory;

    rdmap_get_read_req(ddp + DDP_UNTAGGED_LEN, &request);
    if (be_get32(ddp + 6) != DDP_QN_READ || be_get32(ddp + 10) != qp->rx.expect_read_msn ||
        be_get32(ddp + 14) || rx_requests_waiting(qp) >= qp->attr.ird ||
        !(qp->attr.flags & RI_QP_READ_ENABLE) || !request.size ||
        qp_check_remote(qp, &qp->rx.remote_hint, request.src_stag, RI_ACCESS_REMOTE_READ,
                        request.src_to, request.size, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return 0;
    if (alone && tx_answer_single(qp, ddp + DDP_UNTAGGED_LEN, memory, request.size)) {
        qp->rx.expect_read_msn++;
        return RX_TAKEN_ANSWERED;
    }
    rx_queue_request(qp, ddp,
                     &(struct inbound_read){ .sink_stag = request.sink_stag,
                                             .sink_to = request.sink_to,
                                             .source_stag = request.src_stag,
                                             .source_to = request.src_to,
                                             .size = request.size });
    return RX_TAKEN_READS;
}

static inline uint64_t take_response(struct qp *qp, const uint8_t *octets, uint32_t size,
                                     uint32_t length, bool last, bool alone)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    uint32_t out = atomic_load_explicit(&qp->reads.ord_out, memory_order_relaxed);
    struct outstanding_read *read = &qp->reads.ord_ring[out & (qp->reads.ord_size - 1)];
    uint64_t to = be_get64(ddp + 6);
    uint8_t *memory;

    if (out == atomic_load_explicit(&qp->reads.ord_in, memory_order_acquire) || read->atomic ||
        read->full || be_get32(ddp + 2) != read->sink_stag ||
        to != read->sink_to + read->received || length > read->size - read->received ||
        last != (length == read->size - read->received) || (last && read->invalidates) ||
        stag_check_hinted(&qp->rnic->stags, &qp->rx.remote_hint, read->sink_stag, qp->pd,
                          RI_ACCESS_LOCAL_WRITE, to, length, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return 0;
    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    TRACE3(place, qp->qpn, memory, length);
    read->received += length;
    if (last)
        rx_finish_answered(qp, read);
    return alone ? RX_TAKEN_RESPONSE : RX_TAKEN_READS;
}

/* What has to do with Reads: out of the way of the others. Returns what it was (RX_TAKEN_...); 0:
 * it is left. */
static __attribute__((noinline)) uint64_t take_read(struct qp *qp, const uint8_t *octets,
                                                    uint32_t size, uint32_t front, bool alone)
{
    uint32_t control = front & 0xFFFF, ulpdu_len = front >> 16;

    if (front == READ_REQUEST)
        return take_request(qp, octets, alone);
    if (control == RESPONSE || control == RESPONSE_LAST)
        return take_response(qp, octets, size, ulpdu_len - DDP_TAGGED_LEN, control == RESPONSE_LAST,
                             alone);
    return 0;
}

/* The FPDU at the front: its octets when it is done, 0 when it has to go the general path. */
static inline __attribute__((always_inline)) uint32_t take_one(struct qp *qp, const uint8_t *octets,
                                                               size_t length, uint64_t *pieces)
{
    uint32_t front, control, ulpdu_len, size;
    uint64_t taken;

    if (length < MPA_HDR_LEN + DDP_UNTAGGED_LEN + MPA_CRC_LEN)
        return 0;
    front = be_get32(octets);
    ulpdu_len = front >> 16;
    size = mpa_fpdu_len(ulpdu_len);
    control = front & 0xFFFF;
    if (size > length || ulpdu_len <= DDP_UNTAGGED_LEN)
        return 0;
    if (control == SEND || control == SEND_SE)
        taken = take_send(qp, octets, size, ulpdu_len - DDP_UNTAGGED_LEN, control == SEND_SE);
    else if (control == WRITE || control == WRITE_LAST)
        taken = take_write(qp, octets, size, ulpdu_len - DDP_TAGGED_LEN, control == WRITE_LAST);
    else
        *pieces |= taken = take_read(qp, octets, size, front, !*pieces && size == length);
    return taken ? size : 0;
}

struct rx_taken rx_fast(struct qp *qp, const uint8_t *octets, const uint8_t *end)
{
    uint64_t pieces = 0;
    uint32_t size;

    while (octets != end && (size = take_one(qp, octets, (size_t)(end - octets), &pieces))) {
        octets += size;
        pieces++;
        if (unlikely(qp_state(qp) != RI_QPS_RTS))
            break;
    }
    return (struct rx_taken){ octets, pieces };
}

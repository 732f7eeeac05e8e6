/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, the fast path: the kinds of FPDU that are frequent in a busy stream.
 *
 *   Send, Send with Solicited Event   the whole message in one segment, into the first element of
 *                                     an own receive
 *   RDMA Write                        any segment
 *   RDMA Read Request                 not empty
 *   RDMA Read Response                any segment, into a region; not the last one if the sink is
 *                                     to be invalidated
 *
 * All bits of the control octets, and the length, are compared with those of the kind, so no check
 * of them can fail (test_rdmap calls rdmap_check for each kind). The other checks are those of the
 * general path (checks.h, mpa.h). A segment that fails one is left untouched to the general path
 * (rx.c), which finds the error. The fast path refuses nothing, and changes nothing before the last
 * check.
 *
 * Reserved bits that are set lead to the general path too. Tests use this to send the same segments
 * by either path.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/mpa.h"

/* The length comes before it, because it has only one. */
#define READ_REQUEST_LEN (DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN)
#define READ_REQUEST     (READ_REQUEST_LEN << 16 | RDMAP_READ_REQ_WORD)

/* The fast path does not take: streams with markers, FPDUs before both sides may send, FPDUs while
 * Sends wait in the stash, and placement with option guard. */
void rx_choose_path(struct iwarp_qp *qp)
{
    qp->rx.fast = !qp->core.srq && !qp->framing.markers_receive && !qp->rx.rtr_await &&
                  !atomic_load(&qp->core.tx.holding) && !qp->rx.behind_stash &&
                  !qp->core.rnic->options.guard;
}

/*
 * One function for each kind. It checks a segment at `octets`, of `size` octets as an FPDU, and if
 * it is in order places and counts it.
 */

static ALWAYS_INLINE bool crc_right(const struct iwarp_qp *qp, const uint8_t *octets, uint32_t size)
{
    return !qp->framing.crc || mpa_crc_right(octets, size);
}

static ALWAYS_INLINE bool take_send(struct iwarp_qp *qp, const uint8_t *octets, uint32_t size,
                                    uint32_t length, bool solicited)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    const struct ri_sge *sge;
    struct ddp_hdr hdr;
    uint8_t *memory;
    struct wqe *wqe;
    uint32_t next;

    ddp_get_whole(ddp, false, &hdr);
    if (hdr.qn != DDP_QN_SEND || qp->rx.any || !crc_right(qp, octets, size))
        return false;
    next = atomic_load_explicit(&qp->core.rq.next, memory_order_relaxed);
    if (!rx_send_in_turn(qp, &hdr, false,
                         next != atomic_load_explicit(&qp->core.rq.posted, memory_order_acquire)))
        return false;
    wqe = wq_slot(&qp->core.rq, next);
    sge = wqe->sges;
    if (!wqe->num_sge || !rx_send_fits(&hdr, length, 0, sge->length) ||
        !rx_find_receive(qp, sge, 0, length, &memory))
        return false;
    copy_short(memory, ddp + DDP_UNTAGGED_LEN, length);
    if (solicited)
        wqe->wc_flags = RI_WC_SOLICITED;
    rx_finish_receive(qp, wqe, next, length);
    return true;
}

static __attribute__((noinline)) bool take_write(struct iwarp_qp *qp, const uint8_t *octets,
                                                 uint32_t size, uint32_t length, bool last)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    enum stag_result result;
    struct ddp_hdr hdr;
    uint8_t *memory;

    ddp_get_whole(ddp, true, &hdr);
    if (unlikely(qp->rx.unfetched) || !rx_write_allowed(qp, &hdr, length, &result, &memory) ||
        !crc_right(qp, octets, size))
        return false;
    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    rx_finish_write(qp, memory, length, last);
    return true;
}

/* `alone`: the read returned nothing else. */
static inline uint64_t take_request(struct iwarp_qp *qp, const uint8_t *octets, bool alone)
{
    const uint32_t size = MPA_HDR_LEN + READ_REQUEST_LEN + MPA_CRC_LEN;
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    struct rdmap_read_req request;
    struct ddp_hdr hdr;
    uint8_t *memory;

    ddp_get_whole(ddp, false, &hdr);
    rdmap_get_read_req(ddp + DDP_UNTAGGED_LEN, &request);
    if (hdr.qn != DDP_QN_READ || !rdmap_read_request_ok(&hdr, RDMAP_READ_REQ_LEN) ||
        !rx_request_counts(qp, &hdr, qp->core.attr.ird) || !rx_read_allowed(qp) || !request.size ||
        rx_check_source(qp, &request, &memory) != STAG_OK || !crc_right(qp, octets, size))
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

/* The L bit is set with the last octet, and nothing is to be invalidated. */
static ALWAYS_INLINE bool ends_plainly(const struct outstanding_read *read, uint32_t octets,
                                       bool last)
{
    return last == (octets == read->size - read->received) && !(last && read->invalidates);
}

static inline uint64_t take_response(struct iwarp_qp *qp, const uint8_t *octets, uint32_t size,
                                     uint32_t length, bool last, bool alone)
{
    const uint8_t *ddp = octets + MPA_HDR_LEN;
    struct outstanding_read *read;
    struct ddp_hdr hdr;
    uint8_t *memory;

    ddp_get_whole(ddp, true, &hdr);
    if (!rx_oldest_request(qp, &read) || read->atomic || !rx_response_goes_on(read, &hdr) ||
        !ends_plainly(read, length, last) || !rx_response_fits(read, length, last) ||
        rx_check_sink(qp, read->sink_stag, hdr.to, length, &memory) != STAG_OK ||
        !crc_right(qp, octets, size))
        return 0;
    rx_place(memory, ddp + DDP_TAGGED_LEN, length);
    rx_finish_response(qp, read, memory, length);
    if (last)
        rx_finish_answered(qp, read);
    return alone ? RX_TAKEN_RESPONSE : RX_TAKEN_READS;
}

/* The kinds that concern Reads, in a function of their own. Returns the kind (RX_TAKEN_...), or 0
 * if the FPDU is left to the general path. */
static __attribute__((noinline)) uint64_t take_read(struct iwarp_qp *qp, const uint8_t *octets,
                                                    uint32_t size, uint32_t front, bool alone)
{
    uint32_t control = front & 0xFFFF, ulpdu_len = front >> 16;

    if (front == READ_REQUEST)
        return take_request(qp, octets, alone);
    if (control == RDMAP_READ_RESP_WORD || control == RDMAP_READ_RESP_LAST_WORD)
        return take_response(qp, octets, size, ulpdu_len - DDP_TAGGED_LEN,
                             control == RDMAP_READ_RESP_LAST_WORD, alone);
    return 0;
}

/* Takes the FPDU at the front. Returns its octets, or 0 if it is left to the general path. */
static ALWAYS_INLINE uint32_t take_one(struct iwarp_qp *qp, const uint8_t *octets, size_t length,
                                       uint64_t *fpdus)
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
    if (control == RDMAP_SEND_WORD || control == RDMAP_SEND_SE_WORD)
        taken = take_send(qp, octets, size, ulpdu_len - DDP_UNTAGGED_LEN,
                          control == RDMAP_SEND_SE_WORD);
    else if (control == RDMAP_WRITE_WORD || control == RDMAP_WRITE_LAST_WORD)
        taken = take_write(qp, octets, size, ulpdu_len - DDP_TAGGED_LEN,
                           control == RDMAP_WRITE_LAST_WORD);
    else
        *fpdus |= taken = take_read(qp, octets, size, front, !*fpdus && size == length);
    return taken ? size : 0;
}

struct rx_taken rx_fast(struct iwarp_qp *qp, const uint8_t *octets, const uint8_t *end)
{
    uint64_t fpdus = 0;
    uint32_t size;

    while (octets != end && (size = take_one(qp, octets, (size_t)(end - octets), &fpdus))) {
        octets += size;
        fpdus++;
        if (unlikely(qp_state(&qp->core) != RI_QPS_RTS))
            break;
    }
    return (struct rx_taken){ octets, fpdus };
}

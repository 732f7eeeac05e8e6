/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, tagged messages: RDMA Write and Read Response. Each segment is checked by itself and
 * placed at once.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/terminate.h"

/* --- placement --- */

/* Here too, the octets that consumers poll are stored last. */
bool rx_place_guarded(const struct iwarp_qp *qp, uint32_t stag, uint8_t *to, const uint8_t *from,
                      uint32_t octets, enum memory_use use)
{
    uint32_t tail = (uint32_t)(((uintptr_t)to + octets - 1) & 7) + 1;

    tail = tail < octets ? tail : octets;
    if (!guard_write(&qp->core, stag, to, from, octets - tail, use))
        return false;
    atomic_thread_fence(memory_order_release);
    return guard_write(&qp->core, stag, to + octets - tail, from + octets - tail, tail, use);
}

/* --- RDMA Write, stage 7 --- */

/* C-082..C-088: refuses for the STag first, then for the QP's permission, then for bounds. */
static bool refuse_write(enum stag_result result, struct fault *fault)
{
    static const uint16_t values[] = {
        [STAG_INVALID] = TERMINATE_T_STAG,  [STAG_PD] = TERMINATE_T_STREAM,
        [STAG_ACCESS] = TERMINATE_T_STREAM, [STAG_WRAP] = TERMINATE_T_WRAP,
        [STAG_BOUNDS] = TERMINATE_T_BOUNDS,
    };

    return FAULT(values[result], RI_EVENT_WRITE_ACCESS,
                 "RDMA Write with an invalid STag, or beyond what it allows");
}

bool rx_check_write(struct iwarp_qp *qp, const struct rdmap_segment *segment, uint8_t **memory,
                    struct fault *fault)
{
    enum stag_result result;

    if (rx_write_allowed(qp, &segment->hdr, segment->payload_len, &result, memory))
        return true;
    if (result == STAG_OK || (!qp_allows(&qp->core, RI_QP_WRITE_ENABLE) &&
                              (result == STAG_WRAP || result == STAG_BOUNDS)))
        return FAULT(TERMINATE_T_STREAM, RI_EVENT_WRITE_ACCESS, "RDMA Write is not enabled here");
    return refuse_write(result, fault);
}

bool rx_on_write(struct iwarp_qp *qp, const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t octets = segment->payload_len;
    uint8_t *memory;

    rx_assert_held(qp->stream);
    if (!octets) { /* C-081; harmless, but they take time: X-023 */
        count_up(&qp->core.counters.empty_writes, 1);
        count_up(&qp->core.lane->empty_writes, 1);
        if (segment->hdr.last)
            rx_end_write(qp);
        return true;
    }
    if (!rx_check_write(qp, segment, &memory, fault))
        return false;
    if (!rx_put(qp, segment->hdr.stag, memory, segment->payload, octets, USE_REMOTE_WRITE))
        return FAULT(TERMINATE_DDP_LOCAL, RI_EVENT_WRITE_ACCESS, "memory of an RDMA Write is gone");
    rx_finish_write(qp, memory, octets, segment->hdr.last);
    return true;
}

/* --- Read Response, stage 8 --- */

static bool response_fault(struct iwarp_qp *qp, const struct outstanding_read *read,
                           enum ri_wc_status status, struct fault *fault, uint16_t value,
                           const char *detail)
{
    struct wqe *wqe = read->own ? NULL : wq_slot(&qp->core.sq, read->index);

    return fail(fault, wqe, status, value, RI_EVENT_RESPONSE_ERROR, detail);
}

/* No request waits for it, or not only one. */
static __attribute__((noinline)) void finish_specially(struct iwarp_qp *qp,
                                                       const struct outstanding_read *read)
{
    if (qp_is_acknowledged(&qp->core) && read->own == read->ack)
        rx_acknowledge(qp, read->index, read->ack);
    if (!read->own)
        wqe_finish(wq_slot(&qp->core.sq, read->index), RI_WC_SUCCESS, read->size);
    if (read->ack)
        atomic_store_explicit(&qp->reads.ack_asked, false, memory_order_release);
}

void rx_finish_answered(struct iwarp_qp *qp, const struct outstanding_read *read)
{
    bool special = unlikely(read->own) || qp_is_acknowledged(&qp->core);

    rx_assert_held(qp->stream);
    if (unlikely(special))
        finish_specially(qp, read);
    else
        wqe_finish(wq_slot(&qp->core.sq, read->index), RI_WC_SUCCESS, read->size);
    atomic_store_explicit(&qp->reads.ord_out,
                          atomic_load_explicit(&qp->reads.ord_out, memory_order_relaxed) + 1,
                          memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* see tx_must_wait() in tx_order.c */
    if (special || wq_pending(&qp->core.sq))
        atomic_store(&qp->core.tx.wanted, true); /* a request may have waited for this response */
}

enum stag_result rx_check_window_sink(struct iwarp_qp *qp, uint32_t stag, uint64_t to,
                                      uint64_t length, uint8_t **memory)
{
    return qp_check_remote(&qp->core, &qp->rx.remote_hint, stag, RI_ACCESS_REMOTE_WRITE, to, length,
                           memory);
}

/* C-103: before the completion can be seen. */
static bool invalidate_sink(struct iwarp_qp *qp, const struct outstanding_read *read,
                            struct fault *fault)
{
    struct wqe *wqe = wq_slot(&qp->core.sq, read->index);
    enum invalidate_result result;

    if (!read->invalidates)
        return true;
    if (!invalidate_now(qp, (uint32_t)wqe->operand, false, &result))
        return fail(fault, wqe, RI_WC_MM_OPERATION, TERMINATE_LOCAL, RI_EVENT_LOCAL_ERROR,
                    "the sink of an RDMA Read could not be invalidated");
    wqe->wc_flags |= RI_WC_WITH_INVALIDATE;
    return true;
}

/* C-096..C-100: refuses a segment that is not the next part of the response. */
static bool refuse_response(struct iwarp_qp *qp, const struct outstanding_read *read,
                            const struct rdmap_segment *segment, struct fault *fault)
{
    uint32_t octets = segment->payload_len, left = read->size - read->received;

    if (octets && segment->hdr.stag != read->sink_stag)
        return response_fault(qp, read, RI_WC_BAD_RESPONSE, fault, TERMINATE_T_STAG,
                              "Read Response for another sink STag");
    if (octets && segment->hdr.to != read->sink_to + read->received)
        return response_fault(qp, read, RI_WC_BAD_RESPONSE, fault, TERMINATE_T_BOUNDS,
                              "Read Response out of order");
    if (octets > left)
        return response_fault(qp, read, RI_WC_LOCAL_LENGTH, fault, TERMINATE_T_BOUNDS,
                              "Read Response longer than the Read");
    if (segment->hdr.last)
        return response_fault(qp, read, RI_WC_LOCAL_LENGTH, fault, TERMINATE_STREAM,
                              "Read Response shorter than the Read");
    return response_fault(qp, read, RI_WC_BAD_RESPONSE, fault, TERMINATE_STREAM,
                          "Read Response goes on without its last segment");
}

bool rx_check_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                       struct outstanding_read **read, uint8_t **memory, struct fault *fault)
{
    uint32_t octets = segment->payload_len;

    if (!rx_oldest_request(qp, read) || (*read)->atomic)
        return FAULT(TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE, "Read Response without a request");
    if ((octets && !rx_response_goes_on(*read, &segment->hdr)) ||
        !rx_response_fits(*read, octets, segment->hdr.last))
        return refuse_response(qp, *read, segment, fault);
    if (octets && rx_check_sink(qp, (*read)->sink_stag, segment->hdr.to, octets, memory) != STAG_OK)
        return response_fault(qp, *read, RI_WC_LOCAL_PROTECTION, fault, TERMINATE_T_STAG,
                              "sink of an RDMA Read was revoked");
    return true;
}

bool rx_on_read_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                         struct fault *fault)
{
    uint32_t octets = segment->payload_len;
    struct outstanding_read *read;
    uint8_t *memory;

    rx_assert_held(qp->stream);
    if (!rx_check_response(qp, segment, &read, &memory, fault))
        return false;
    if (octets) {
        if (!rx_put(qp, read->sink_stag, memory, segment->payload, octets, USE_SINK))
            return response_fault(qp, read, RI_WC_LOCAL_PROTECTION, fault, TERMINATE_DDP_LOCAL,
                                  "sink of an RDMA Read is gone");
        rx_finish_response(qp, read, memory, octets);
    }
    if (segment->hdr.last && !invalidate_sink(qp, read, fault))
        return false;
    if (segment->hdr.last)
        rx_finish_answered(qp, read);
    else
        read->full = read->received == read->size;
    return true;
}

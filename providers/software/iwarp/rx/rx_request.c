/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, requests of the peer that need a response: each takes a place of the IRD until its
 * response is built.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <string.h>

/* --- what Reads and atomics share --- */

bool rx_request_in_turn(const struct iwarp_qp *qp, const struct rdmap_segment *segment,
                        uint32_t depth, struct fault *fault)
{
    enum rdmap_result result = rdmap_check_payload(segment);

    rx_assert_held(qp->stream);
    if (result != RDMAP_OK)
        return FAULT(rdmap_terminate_value(result), RI_EVENT_REMOTE_OPERATION,
                     rdmap_result_text(result));
    if (rx_request_counts(qp, &segment->hdr, depth))
        return true;
    return FAULT(TERMINATE_U_MSN, RI_EVENT_REMOTE_OPERATION,
                 segment->hdr.msn != qp->rx.expect_read_msn
                     ? "MSN of a Read or Atomic Request out of order"
                     : "more RDMA Reads and atomics than IRD");
}

void rx_queue_request(struct iwarp_qp *qp, const uint8_t *ulpdu, const struct inbound_read *request)
{
    uint32_t in = atomic_load_explicit(&qp->reads.ird_in, memory_order_relaxed);
    struct inbound_read *place = &qp->reads.ird_ring[in & (qp->reads.ird_size - 1)];

    rx_assert_held(qp->stream);
    *place = *request;
    place->msn = qp->rx.expect_read_msn++;
    memcpy(place->header, ulpdu, sizeof(place->header));
    qp->rx.unfetched |= request->size || request->atomic;
    atomic_store_explicit(&qp->reads.ird_in, in + 1, memory_order_release);
    atomic_store(&qp->core.tx.wanted, true);
}

/* --- Read Request, stage 9 --- */

static bool check_source(struct iwarp_qp *qp, const struct rdmap_read_req *request,
                         struct fault *fault)
{
    enum stag_result result;
    uint8_t *memory;

    if (!request->size)
        return true; /* C-109 */
    result = rx_check_source(qp, request, &memory);
    if (result != STAG_OK)
        return FAULT(tx_protection_value(result), RI_EVENT_READ_ACCESS,
                     "RDMA Read with an invalid STag, or beyond what it allows");
    return true;
}

/* Up to IRD requests may be taken and unanswered. A ready-to-receive Read (C-042), which is the
 * first FPDU and has length 0, needs neither IRD nor the QP's permission; nor does a request for
 * an acknowledgement. */
bool rx_on_read_request(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                        struct fault *fault)
{
    uint32_t depth = qp->core.attr.ird + qp_is_acknowledged(&qp->core);
    struct rdmap_read_req request;
    bool rtr, ack;

    if (!rx_request_in_turn(qp, segment, depth ? depth : 1u, fault))
        return false;
    rdmap_get_read_req(segment->payload, &request);
    rtr = !request.size && atomic_load_explicit(&qp->core.tx.holding, memory_order_relaxed);
    ack = !request.size && qp_is_acknowledged(&qp->core);
    if (!rtr && !ack && (!rx_read_allowed(qp) || !qp->core.attr.ird))
        return FAULT(TERMINATE_U_QN, RI_EVENT_READ_ACCESS, "RDMA Read is not enabled here");
    if (!check_source(qp, &request, fault))
        return false;
    rx_queue_request(qp, segment->payload - DDP_UNTAGGED_LEN,
                     &(struct inbound_read){ .sink_stag = request.sink_stag,
                                             .sink_to = request.sink_to,
                                             .source_stag = request.src_stag,
                                             .source_to = request.src_to,
                                             .size = request.size });
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive, atomics (RFC 7306). A request of the peer takes a place of the IRD, like a Read, and is
 * executed when its response is built (tx_atomic.c). A response ends the oldest of our requests.
 */
#include "checks.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <string.h>

/* --- Atomic Request, stage 12 --- */

/* Checks STag, PD, access right, wrap and bounds, and returns the target address. */
static bool check_target(struct iwarp_qp *qp, const struct rdmap_atomic_req *request,
                         struct fault *fault)
{
    uint8_t *memory;
    enum stag_result result = qp_check_remote(&qp->core, &qp->rx.remote_hint, request->stag,
                                              RI_ACCESS_REMOTE_ATOMIC, request->to, ATOMIC_OCTETS,
                                              &memory);

    if (result != STAG_OK)
        return FAULT(tx_protection_value(result), RI_EVENT_READ_ACCESS,
                     "atomic with an invalid STag, or beyond what it allows");
    if ((uintptr_t)memory % ATOMIC_OCTETS)
        return FAULT(TERMINATE_STREAM, RI_EVENT_REMOTE_OPERATION,
                     "target of an atomic is not aligned");
    return true;
}

/* For a QP without RI_QP_ATOMIC_ENABLE the opcode is unknown (C-062). */
bool rx_on_atomic_request(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                          struct fault *fault)
{
    struct rdmap_atomic_req request;
    enum rdmap_result result;

    if (!qp_allows(&qp->core, RI_QP_ATOMIC_ENABLE))
        return FAULT(TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE, "atomics are not enabled here");
    if (!rx_request_in_turn(qp, segment, qp->core.attr.ird + qp_is_acknowledged(&qp->core), fault))
        return false;
    rdmap_get_atomic_req(segment->payload, &request);
    result = rdmap_check_atomic_op(request.op);
    if (result != RDMAP_OK)
        return FAULT(rdmap_terminate_value(result), RI_EVENT_BAD_OPCODE, rdmap_result_text(result));
    if (!check_target(qp, &request, fault))
        return false;
    rx_queue_request(qp, segment->payload - DDP_UNTAGGED_LEN,
                     &(struct inbound_read){ .atomic = true,
                                             .atomic_op = request.op,
                                             .sink_stag = request.id,
                                             .source_stag = request.stag,
                                             .source_to = request.to,
                                             .data = request.data,
                                             .mask = request.mask,
                                             .compare = request.compare,
                                             .compare_mask = request.compare_mask });
    return true;
}

/* --- Atomic Response --- */

#define RESPONSE_FAULT(status, value, detail) \
    fail(fault, wq_slot(&qp->core.sq, read->index), status, value, RI_EVENT_RESPONSE_ERROR, detail)

bool rx_on_atomic_response(struct iwarp_qp *qp, const struct rdmap_segment *segment,
                           struct fault *fault)
{
    enum rdmap_result result = rdmap_check_payload(segment);
    struct rdmap_atomic_resp response;
    struct outstanding_read *read;
    uint8_t *memory;

    rx_assert_held(qp->stream);
    if (!rx_oldest_request(qp, &read) || !read->atomic)
        return FAULT(TERMINATE_OPCODE, RI_EVENT_BAD_OPCODE, "Atomic Response without a request");
    if (segment->hdr.msn != qp->rx.expect_atomic_msn || segment->hdr.mo)
        return RESPONSE_FAULT(RI_WC_BAD_RESPONSE, TERMINATE_U_MSN,
                              "MSN or offset of an Atomic Response out of order");
    if (result != RDMAP_OK)
        return RESPONSE_FAULT(RI_WC_LOCAL_LENGTH, rdmap_terminate_value(result),
                              rdmap_result_text(result));
    rdmap_get_atomic_resp(segment->payload, &response);
    if (response.id != read->msn)
        return RESPONSE_FAULT(RI_WC_BAD_RESPONSE, TERMINATE_STREAM,
                              "Atomic Response to another request");
    if (rx_check_sink(qp, read->sink_stag, read->sink_to, ATOMIC_OCTETS, &memory) != STAG_OK)
        return RESPONSE_FAULT(RI_WC_LOCAL_PROTECTION, TERMINATE_LOCAL,
                              "sink of an atomic was revoked");
    if (likely(!qp->core.rnic->options.guard))
        memcpy(memory, &response.value, sizeof(response.value));
    else if (!rx_place_guarded(qp, read->sink_stag, memory, (const uint8_t *)&response.value,
                               sizeof(response.value), USE_SINK))
        return RESPONSE_FAULT(RI_WC_LOCAL_PROTECTION, TERMINATE_DDP_LOCAL,
                              "sink of an atomic is gone");
    qp->rx.expect_atomic_msn++;
    rx_finish_answered(qp, read);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit: a request of the peer that cannot be answered any more ends the stream. Inside tx only.
 */
#include "fpdu.h"
#include "providers/software/iwarp/codec/rdmap.h"
#include "providers/software/iwarp/codec/terminate.h"

#include <string.h>

uint16_t tx_protection_value(enum stag_result result)
{
    static const uint16_t values[] = {
        [STAG_INVALID] = TERMINATE_R_STAG,  [STAG_PD] = TERMINATE_R_STREAM,
        [STAG_ACCESS] = TERMINATE_R_ACCESS, [STAG_WRAP] = TERMINATE_R_WRAP,
        [STAG_BOUNDS] = TERMINATE_R_BOUNDS,
    };

    return values[result];
}

/* The header of a Read (C-116) tells how far the response came. An atomic has no such header
 * (RFC 7306 8.1). */
void tx_refuse_answer(struct iwarp_qp *qp, const struct inbound_read *read, uint16_t value,
                      enum ri_event_type event)
{
    const struct rdmap_read_req now = {
        .sink_stag = read->sink_stag,
        .sink_to = read->sink_to + read->sent,
        .size = read->size - read->sent,
        .src_stag = read->source_stag,
        .src_to = read->source_to + read->sent,
    };
    uint8_t ulpdu[DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN];
    const uint32_t length = DDP_UNTAGGED_LEN +
                            (read->atomic ? RDMAP_ATOMIC_REQ_LEN : RDMAP_READ_REQ_LEN);
    const struct terminate_cause cause = { ulpdu, sizeof(ulpdu), length, NULL };
    const struct qp_end end = { .event = event,
                                .terminate_value = value,
                                .detail = value == TERMINATE_LOCAL
                                              ? "memory that the peer asked for is gone"
                                          : read->atomic ? "target of an atomic was revoked"
                                                         : "source of an RDMA Read was revoked" };

    tx_assert_inside(&qp->core);
    ddp_put_untagged(ulpdu, true, rdmap_ctrl(read->atomic ? RDMAP_ATOMIC_REQ : RDMAP_READ_REQ), 0,
                     DDP_QN_READ, read->msn, 0);
    memcpy(ulpdu, read->header, sizeof(read->header));
    rdmap_put_read_req(ulpdu + DDP_UNTAGGED_LEN, &now);
    iwarp_terminate(qp, &end, &cause);
}

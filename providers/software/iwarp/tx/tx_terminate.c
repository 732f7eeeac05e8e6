/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transmit: the connection ends with a Terminate of this side.
 */
#include "providers/software/iwarp/codec/terminate.h"
#include "transmit.h"

static_assert(TERMINATE_PAYLOAD_MAX <= QP_TERMINATE_OCTETS, "the core keeps all of it");

/* The peer named memory that it may not use. */
static bool is_bad_access(uint16_t value)
{
    return value >> 8 == TERMINATE_R_STAG >> 8 || value >> 8 == TERMINATE_T_STAG >> 8;
}

bool iwarp_terminate(struct iwarp_qp *qp, const struct qp_end *end,
                     const struct terminate_cause *cause)
{
    uint8_t payload[TERMINATE_PAYLOAD_MAX];
    struct qp_end whole = *end;

    qp_assert_unlocked(&qp->core);
    whole.state = RI_QPS_TERMINATE;
    whole.send_terminate = true;
    whole.bad_access = is_bad_access(end->terminate_value);
    whole.terminate = payload;
    whole.terminate_length = (uint32_t)terminate_build(payload, end->terminate_value, cause);
    return qp_end(&qp->core, &whole);
}

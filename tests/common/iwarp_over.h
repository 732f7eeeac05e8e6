/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand-over of a stream over a lower layer of the test's own: what the core does around the wire's
 * start, with llp_tcp. */
#ifndef ITAL_TESTS_IWARP_OVER_H
#define ITAL_TESTS_IWARP_OVER_H

#include "providers/software/iwarp/wire_iwarp.h"

static inline enum ri_status iwarp_over(struct iwarp_qp *qp, const struct ri_llp_handover *handover,
                                        const struct llp_ops *llp)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    tx_enter(&qp->core);
    if (qp_state(&qp->core) == RI_QPS_IDLE)
        status = iwarp_start(qp, handover, llp);
    tx_leave(&qp->core);
    if (status == RI_OK)
        tx_run(&qp->core);
    return status;
}

#endif

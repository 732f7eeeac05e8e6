/* SPDX-License-Identifier: BSD-3-Clause
 *
 * InfiniBand's rules: how long a sender tries again, and what a refusal is called.
 */
#include "local.h"

#include "base/minmax.h"

#define RETRY_FOREVER 7u
/* Of all retries: a receiver in software may be slower than an adapter. */
#define RETRIES_LEAST (10 * CLOCK_NS_PER_MS)

void local_tell_retries(const struct local_qp *qp)
{
    tx_assert_inside(qp->core);
    atomic_store_explicit(&qp->own->rnr_retry, qp->core->attr.rnr_retry, memory_order_relaxed);
}

uint64_t local_sender_patience(const struct local_qp *qp)
{
    uint32_t retries = atomic_load_explicit(&qp->peer->rnr_retry, memory_order_relaxed);

    if (!retries)
        return 0;
    if (retries >= RETRY_FOREVER)
        return CLOCK_NEVER;
    return max_u64(retries * qp_rnr_interval(qp->core->attr.rnr_timer), RETRIES_LEAST);
}

enum { NAK_INVALID_REQUEST = 0x61, NAK_REMOTE_ACCESS = 0x62, NAK_REMOTE_OPERATION = 0x63 };

uint16_t local_syndrome(enum ri_wc_status status)
{
    switch (status) {
    case RI_WC_REMOTE_INVALID_REQUEST: return NAK_INVALID_REQUEST;
    case RI_WC_REMOTE_ACCESS: return NAK_REMOTE_ACCESS;
    default: return NAK_REMOTE_OPERATION;
    }
}

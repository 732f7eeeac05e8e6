/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives for messages that arrive: one of the SRQ, and how long a message waits for one
 * (RI_QPM_RNR).
 */
#include "qp.h"

#include "base/clock.h"

#define RETRY_FOREVER 7u
/* A receiver in software may be slower than an adapter: the retries take this long at least. */
#define PATIENCE_LEAST (500 * CLOCK_NS_PER_MS)

/* In units of 10 us. */
uint64_t qp_rnr_interval(uint8_t code)
{
    static const uint32_t intervals[32] = {
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    };

    return intervals[code & 31] * (10 * CLOCK_NS_PER_US);
}

uint64_t qp_patience_over(const struct qp *qp, uint64_t since)
{
    uint64_t patience = qp->attr.rnr_retry * qp_rnr_interval(qp->attr.rnr_timer);

    if (qp->attr.rnr_retry >= RETRY_FOREVER)
        return CLOCK_NEVER;
    return clock_after(since, patience > PATIENCE_LEAST ? patience : PATIENCE_LEAST);
}

bool qp_take_shared(struct qp *qp, const char **why)
{
    uint32_t used = atomic_load_explicit(&qp->rq.posted, memory_order_relaxed) -
                    atomic_load_explicit(&qp->rq.freed, memory_order_acquire);

    if (used >= qp->attr.rq_hard_limit) {
        *why = "the QP uses as many receives of its SRQ as its hard limit allows";
        return false;
    }
    if (!srq_take(qp->srq, qp)) {
        *why = "a Send came and no receive is posted to the SRQ";
        return false;
    }
    if (srq_has_pending_events(qp->srq))
        qp_record_srq(qp);
    if (used + 1 > qp->attr.rq_limit) {
        qp->attr.rq_limit = UINT32_MAX; /* the event comes once, until the limit is set again */
        qp_record_rq_limit(qp);
    }
    return true;
}

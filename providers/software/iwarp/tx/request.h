/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Declarations about one request of the send queue. Inside tx only.
 */
#ifndef ITAL_SOFTRDMA_REQUEST_H
#define ITAL_SOFTRDMA_REQUEST_H

#include "transmit.h"

/* --- tx_build.c --- */

/* Build the next batch of what fits. False: there is nothing. The last batch is in the socket. */
bool tx_build(struct iwarp_qp *qp);

/* --- tx_order.c --- */

/* Requests without these flags can always start at once. */
#define TX_MAY_WAIT (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE | WQE_ANSWERED)

/* Must the request wait, by fences or ORD? */
bool tx_must_wait(struct iwarp_qp *qp, const struct wqe *wqe, uint32_t index);
/* Has it to wait because it is no Read or atomic, and Reads of more than READS_AHEAD octets before
 * it are unanswered? Only if tx.long_reads is set, which it clears. */
bool tx_is_far_ahead(struct iwarp_qp *qp, const struct wqe *wqe);
/* The request fails here: the connection ends. */
void tx_end_locally(struct iwarp_qp *qp, struct wqe *wqe, enum ri_wc_status status);

/* Has the peer to be asked for an acknowledgement now? */
bool tx_ack_is_due(const struct iwarp_qp *qp);

/* --- tx_local.c: bind, fast register, local invalidate, in their turn --- */

/* True: done, continue with the queue. */
bool tx_local(struct iwarp_qp *qp, struct wqe *wqe, uint32_t index);

/* Handle requests whose last octet is in the socket: Sends and Writes are done unless they wait for
 * an acknowledgement (rx_ack.c); Reads and atomics wait for their responses. Those may have arrived
 * already: none is retired, and no slot filled again, before sq_sent has passed it. */
static inline void tx_finish_accepted(struct iwarp_qp *qp)
{
    uint32_t next = atomic_load_explicit(&qp->core.sq.next, memory_order_relaxed);
    uint32_t sent = atomic_load_explicit(&qp->core.sq.sent, memory_order_relaxed);

    while (sent != next) {
        struct wqe *wqe = wq_slot(&qp->core.sq, sent);

        if (wqe->end > qp->tx.accepted)
            break;
        if (!wqe_is_answered(wqe) && !qp_is_acknowledged(&qp->core))
            wqe_finish(wqe, RI_WC_SUCCESS, (uint32_t)wqe->length);
        sent++;
    }
    atomic_store_explicit(&qp->core.sq.sent, sent, memory_order_release);
}

#endif

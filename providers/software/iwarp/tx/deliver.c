/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Work and events that were noted with locks held: tx runs if a thread has found work for it, then
 * events are reported.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "transmit.h"

void qp_deliver_now(struct qp *qp)
{
    if (atomic_load_explicit(&qp->tx.wanted, memory_order_relaxed) &&
        atomic_exchange(&qp->tx.wanted, false))
        tx_run(qp);
    if (cq_has_news(qp->send_cq))
        cq_deliver(qp->send_cq);
    if (cq_has_news(qp->recv_cq))
        cq_deliver(qp->recv_cq);
    if (atomic_load_explicit(&qp->life.pending, memory_order_acquire))
        qp_report(qp);
}

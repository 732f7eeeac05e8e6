/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a QP: who is inside tx. What is sent there is the wire's.
 */
#ifndef ITAL_SOFTWARE_TX_H
#define ITAL_SOFTWARE_TX_H

#include "qp.h"

/* Work if nobody is inside; else the one inside works once more. */
void tx_run(struct qp *qp);
/* tx_run() for a thread that is inside already: works, then leaves. */
void tx_go_on(struct qp *qp);
/* Enter tx alone: wait for the thread inside, which works for a bounded time. Not from inside. */
void tx_enter(struct qp *qp);
void tx_leave(struct qp *qp);
/* Inside tx alone, without waiting: false, somebody is there. What comes meanwhile is left to
 * qp_deliver(), as rx may be held. */
static inline bool tx_try_enter(struct qp *qp)
{
    unsigned int nobody = 0;

    return atomic_compare_exchange_strong(&qp->tx.requests, &nobody, 1);
}
static inline void tx_leave_work(struct qp *qp)
{
    if (atomic_exchange(&qp->tx.requests, 0) != 1)
        atomic_store(&qp->tx.wanted, true);
}
/* Somebody is inside, perhaps this thread. */
static inline void tx_assert_inside(const struct qp *qp)
{
    (void)qp;
    contract(atomic_load_explicit(&qp->tx.requests, memory_order_relaxed));
}

/* Report the noted events; run tx if it is wanted. No lock held. */
void qp_deliver_now(struct qp *qp);
static inline void qp_deliver(struct qp *qp)
{
    if (__builtin_expect(atomic_load_explicit(&qp->tx.wanted, memory_order_relaxed) ||
                             cq_has_news(qp->send_cq) || cq_has_news(qp->recv_cq) ||
                             atomic_load_explicit(&qp->life.pending, memory_order_acquire),
                         0))
        qp_deliver_now(qp);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a QP: who is inside tx. What is sent there is the wire's.
 */
#ifndef ITAL_SOFTWARE_TX_H
#define ITAL_SOFTWARE_TX_H

#include "lane.h"
#include "qp.h"
#include "base/compiler.h"

/* Work if nobody is inside; else the one inside works once more. No lock held. */
void tx_run(struct qp *qp);
/* tx_run() for a thread that is inside already: works, then leaves. */
void tx_go_on(struct qp *qp);
/* Enter tx alone: wait for the thread inside, which works for a bounded time. Not from inside. */
void tx_enter(struct qp *qp);
void tx_leave(struct qp *qp);

/* Debug builds know the thread that is inside: it has entered, or is about to leave. */
static inline void tx_note_inside(struct qp *qp, bool inside)
{
#ifdef ITAL_DEBUG
    atomic_store_explicit(&qp->tx.inside, inside ? (unsigned long)pthread_self() : 0,
                          memory_order_relaxed);
#else
    (void)qp, (void)inside;
#endif
}
static inline void tx_assert_inside(const struct qp *qp)
{
#ifdef ITAL_DEBUG
    contract(atomic_load_explicit(&qp->tx.inside, memory_order_relaxed) ==
             (unsigned long)pthread_self());
#else
    (void)qp;
#endif
}
/* Another thread may be inside. */
static inline void tx_assert_outside(const struct qp *qp)
{
#ifdef ITAL_DEBUG
    contract(atomic_load_explicit(&qp->tx.inside, memory_order_relaxed) !=
             (unsigned long)pthread_self());
#else
    (void)qp;
#endif
}
/* The calling thread holds no lock of the QP, of its lane or of its CQs; it may hold rx, which is
 * the wire's. */
static inline void qp_assert_unlocked(const struct qp *qp)
{
    spinlock_assert_not_held(&qp->life.lock);
    spinlock_assert_not_held(&qp->sq.posting);
    spinlock_assert_not_held(&qp->rq.posting);
    spinlock_assert_not_held(&qp->lane->lock);
    spinlock_assert_not_held(&qp->send_cq->lock);
    spinlock_assert_not_held(&qp->recv_cq->lock);
}

/* True: inside tx, alone. False: the thread inside works once more. */
static inline bool tx_begin(struct qp *qp)
{
    bool alone = atomic_fetch_add(&qp->tx.requests, 1) == 0;

    if (alone)
        tx_note_inside(qp, true);
    return alone;
}
/* Leaves tx. False: there is more to do, so the thread is inside still (tx_go_on). */
static inline bool tx_end(struct qp *qp)
{
    tx_assert_inside(qp);
    tx_note_inside(qp, false);
    if (likely(atomic_fetch_sub(&qp->tx.requests, 1) == 1))
        return true;
    tx_note_inside(qp, true);
    return false;
}
/* Inside tx alone, without waiting: false, somebody is there. What comes meanwhile is left to
 * qp_deliver(), as rx may be held. */
static inline bool tx_try_enter(struct qp *qp)
{
    unsigned int nobody = 0;
    bool alone = atomic_compare_exchange_strong(&qp->tx.requests, &nobody, 1);

    if (alone)
        tx_note_inside(qp, true);
    return alone;
}
static inline void tx_leave_work(struct qp *qp)
{
    tx_assert_inside(qp);
    tx_note_inside(qp, false);
    if (atomic_exchange(&qp->tx.requests, 0) != 1)
        atomic_store(&qp->tx.wanted, true);
}

/* Report the noted events; run tx if it is wanted. No lock held. */
void qp_deliver_now(struct qp *qp);
static inline void qp_deliver(struct qp *qp)
{
    if (unlikely(atomic_load_explicit(&qp->tx.wanted, memory_order_relaxed) ||
                 cq_has_pending_events(qp->send_cq) || cq_has_pending_events(qp->recv_cq) ||
                 atomic_load_explicit(&qp->life.pending, memory_order_acquire)))
        qp_deliver_now(qp);
}

#endif

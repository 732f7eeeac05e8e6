/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a QP: who transmits, and what is done in which state.
 *
 * WHO TRANSMITS. tx is a counter of requests, not a lock that anybody waits for. The thread that
 * raises it from 0 is inside and works; one that finds it raised leaves: the thread inside
 * subtracts, when it has done its work, what it had seen, and works again if more came meanwhile.
 * So a request that was appended (release) before the raise is seen by the one inside: either it
 * reads the raised counter and looks at the queue again, or it had subtracted to 0 before and the
 * newcomer is inside. Nobody stays inside for ever: a wire leaves the rest of long work to the
 * lane. Control verbs come in alone (tx_enter), so that what they change does not change under
 * somebody's feet.
 */
#include "tx.h"

#include <sched.h>

static void work(struct qp *qp)
{
    const struct wire *wire = qp_wire(qp);
    enum ri_qp_state state = qp_state(qp);

    tx_assert_inside(qp);
    if (state == RI_QPS_RTS) {
        wire->send(qp);
        state = qp_state(qp);
    }
    if (state == RI_QPS_RTS || state == RI_QPS_IDLE) {
        wire->rest(qp);
        qp_retire(qp, &qp->sq);
        return;
    }
    if (!qp->tx.stopped)
        wire->stop(qp);
    else
        qp_flush_ended(qp);
    wire->rest(qp);
    qp_retire(qp, &qp->sq);
    qp_retire(qp, &qp->rq);
}

/* Subtract the requests that were seen once they are done. Requests that came meanwhile are new
 * work. */
void tx_go_on(struct qp *qp)
{
    unsigned int seen = atomic_load(&qp->tx.requests);

    tx_assert_inside(qp);
    for (;;) {
        work(qp);
        tx_note_inside(qp, false);
        seen = atomic_fetch_sub(&qp->tx.requests, seen) - seen;
        if (!seen)
            return;
        tx_note_inside(qp, true);
    }
}

void tx_run(struct qp *qp)
{
    qp_assert_unlocked(qp);
    if (tx_begin(qp))
        tx_go_on(qp);
}

void tx_enter(struct qp *qp)
{
    tx_assert_outside(qp);
    qp_assert_unlocked(qp);
    while (!tx_try_enter(qp))
        sched_yield();
}

void tx_leave(struct qp *qp)
{
    if (!tx_end(qp))
        tx_go_on(qp);
}

void qp_deliver_now(struct qp *qp)
{
    qp_assert_unlocked(qp);
    if (atomic_load_explicit(&qp->tx.wanted, memory_order_relaxed) &&
        atomic_exchange(&qp->tx.wanted, false))
        tx_run(qp);
    if (cq_has_pending_events(qp->send_cq))
        cq_deliver(qp->send_cq);
    if (cq_has_pending_events(qp->recv_cq))
        cq_deliver(qp->recv_cq);
    if (atomic_load_explicit(&qp->life.pending, memory_order_acquire))
        qp_report(qp);
}

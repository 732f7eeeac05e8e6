/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections by InfiniBand's rules (struct local_rules), where they differ from iWARP's:
 *
 * - A side that leaves RTS says nothing to the other, which stays in RTS. What that one has posted,
 *   or posts later, fails as over a network on which nobody answers (RI_WC_TRANSPORT): after the
 *   time that the device gives for it, so that the word of a connection manager comes first.
 * - A Send without a receive fails at its sender alone, when the sender's retries by the timer of
 *   the receiver are over. Its receiver stays in RTS.
 * - A request that is refused ends both sides. Its code is the syndrome of the NAK.
 * - No request begins in SQD.
 */
#include "local.h"

#include "wire_local.h"

/* Of what a peer that takes its leave has published before: a bound for one that goes on. */
#define LAST_LOOKS  64u
#define LAST_BUDGET 64u

/* --- own requests: inside tx --- */

static bool is_dead(const struct local_qp *qp)
{
    return atomic_load_explicit(&qp->peer->ended, memory_order_acquire) == LOCAL_OPEN;
}

/* The first request that is not executed. Under rx. NULL: there is none. */
static struct wqe *unexecuted(struct local_qp *qp)
{
    const struct wq *sq = &qp->core->sq;
    uint32_t posted = atomic_load_explicit(&sq->posted, memory_order_acquire);

    local_assert_rx(qp);
    local_skip_done(qp);
    return qp->answered != posted ? wq_slot(sq, qp->answered) : NULL;
}

static bool has_unexecuted(struct local_qp *qp)
{
    bool has;

    spinlock_lock(&qp->rx);
    has = unexecuted(qp) != NULL;
    spinlock_unlock(&qp->rx);
    return has;
}

static void fail_unexecuted(struct local_qp *qp)
{
    struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                          .state = RI_QPS_ERROR,
                          .by_this_side = true,
                          .status = RI_WC_TRANSPORT,
                          .detail = is_dead(qp) ? "the peer's process has ended"
                                                : "the peer's queue pair has left the connection" };

    spinlock_lock(&qp->rx);
    end.wqe = unexecuted(qp);
    spinlock_unlock(&qp->rx);
    if (end.wqe)
        qp_end(qp->core, &end);
}

/* The sockets have nothing more to tell, and nothing is published (local_publish_single() finds no
 * room). The time begins with the first request that waits. */
static void wait_without_peer(struct local_qp *qp)
{
    const bool over = atomic_exchange(&qp->close_over, false);
    uint64_t patience;

    if (qp->bell)
        local_close(qp);
    qp->put.free_until = qp->put.at;
    local_end_executed_references(qp);
    if (over)
        qp->leaves = false;
    if (!has_unexecuted(qp))
        return;
    if (over) {
        fail_unexecuted(qp);
        return;
    }
    patience = qp->leaves ? 0 : qp->rules->patience(qp->core, is_dead(qp));
    if (patience) {
        qp->leaves = true;
        local_set_close_timer(qp, patience);
    }
}

static void note_drained(struct local_qp *qp)
{
    uint32_t unexecuted_count;

    spinlock_lock(&qp->rx);
    unexecuted_count = local_unexecuted(qp);
    spinlock_unlock(&qp->rx);
    if (qp->drained || unexecuted_count)
        return;
    qp->drained = true;
    qp_record_drained(qp->core);
}

void local_send_infiniband(struct qp *base)
{
    struct local_qp *qp = local_qp(base);

    tx_assert_inside(base);
    if (unlikely(atomic_load_explicit(&qp->gone, memory_order_acquire)))
        wait_without_peer(qp);
    else if (likely(!atomic_load_explicit(&qp->suspended, memory_order_relaxed)))
        local_publish(base);
    else if (local_publish_begun(qp))
        note_drained(qp);
}

void local_suspend(struct qp *base, bool on, bool drained)
{
    struct local_qp *qp = local_qp(base);

    tx_assert_inside(base);
    atomic_store(&qp->suspended, on);
    qp->drained = drained;
}

void local_take_last(struct qp *base)
{
    struct local_qp *qp = local_qp(base);
    uint32_t looks = 0;

    do
        local_look(qp, LAST_BUDGET, false);
    while (++looks < LAST_LOOKS && qp_state(base) == RI_QPS_RTS &&
           (local_has_request(qp) || local_has_end(qp)));
}

bool local_is_drained(const struct qp *base)
{
    return local_qp(base)->drained;
}

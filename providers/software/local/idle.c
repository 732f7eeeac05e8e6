/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of rings that rest goes back to the system. The rings of a connection that was used keep
 * up to 256 KiB otherwise, and many connections are idle for most of their time.
 *
 * Nobody looks into a ring before the peer has said that it uses it (local_page.used): a look at a
 * hole takes a page. A look that finds something begins the rest. When its time is over and nothing
 * has moved since the time before, no pass of this end looks there any more (local_cool_down). When
 * the peer is as cool, this end makes holes where it is the producer: in its requests, inside tx,
 * if the peer has consumed all of them; in its answers, under rx, if the peer has taken all. What
 * is read there afterwards is 0, as the word is where the next record will begin.
 */
#include "local.h"

#define AWAITS 20u /* times; then the memory stays until there is something to do again */

/* By either end, in any of the four rings. */
static uint64_t all_moved(const struct local_qp *qp)
{
    return qp->put.at + qp->take.at + qp->fetch_at + qp->answer_at;
}

/* What the peer says is believed: it loses what it has not taken. */
static void give_back(struct local_qp *qp)
{
    const struct ri_local *memory = qp->memory;

    tx_assert_inside(qp->core);
    local_assert_rx(qp);
    if (!qp->begun && atomic_load(&qp->peer->consumed) == qp->put.at)
        local_forget_requests(memory, memory->side);
    if (atomic_load(&qp->peer->taken) == qp->fetch_at)
        local_forget_answers(memory, memory->side);
}

/* No pass looks, and the peer has published nothing since: it would have cleared the word. */
static bool is_cool(const struct local_qp *qp)
{
    return atomic_load(&qp->own->asleep) == LOCAL_COOL && !wq_pending(&qp->core->sq);
}

/* Nothing has moved. Inside tx and under rx. True: once more. */
static bool cool_or_give_back(struct local_qp *qp)
{
    if (!is_cool(qp))
        local_cool_down(qp);
    else if (atomic_load(&qp->peer->asleep) == LOCAL_COOL) {
        give_back(qp);
        return false;
    }
    return ++qp->awaited < AWAITS;
}

/* Inside tx and under rx. True: once more. */
static bool is_restless(struct local_qp *qp)
{
    uint64_t moved = all_moved(qp);

    if (moved == qp->moved)
        return cool_or_give_back(qp);
    qp->moved = moved;
    qp->awaited = 0;
    return true;
}

/* Nothing else is due in this visit. Under rx. */
static bool is_all(const struct local_qp *qp)
{
    return is_cool(qp) && !atomic_load(&qp->patience_over) && !atomic_load(&qp->close_over) &&
           !atomic_load(&qp->witnessed);
}

bool local_end_rest(struct local_qp *qp)
{
    bool inside, all = false;

    lane_assert_run(qp->core->lane);
    if (likely(!atomic_load_explicit(&qp->rest_over, memory_order_relaxed)))
        return false;
    atomic_store(&qp->rest_over, false);
    inside = tx_try_enter(qp->core); /* no: somebody posts */
    spinlock_lock(&qp->rx);
    if (qp->memory && qp->resting && qp_state(qp->core) == RI_QPS_RTS) {
        all = is_all(qp);
        qp->resting = !inside || is_restless(qp);
        if (qp->resting)
            local_set_rest(qp);
    }
    spinlock_unlock(&qp->rx);
    if (inside)
        tx_leave_work(qp->core);
    return all;
}

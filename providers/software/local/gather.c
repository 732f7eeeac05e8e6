/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Posts of a local QP. Short requests leave together where the consumer streams: it has posted one
 * since it last polled, so those behind it wait until it polls again, or until there are several.
 * Writes of the way `vm` take one system call then; Sends, one look whether the peer sleeps, and
 * the peer does not wait for the cache line that the next one changes. Writes of other ways leave
 * at once.
 *
 * NOTHING IS LOST, as in coalescing over a network: requests wait while the QP is on the lane's
 * list, so nobody sleeps for the lane, and a pass or a poll that takes the QP off has them leave.
 * That takes sq.posting between taking the QP off and running tx, so it sees what was posted
 * before.
 */
#include "local.h"

#include "providers/software/core/coalesced.h"
#include "providers/software/core/post.h"

/* So many wait at most. */
#define SENDS  16u
#define WRITES 64u

enum leaving { LEAVES, WAITS, WAITS_WAKE };

/* What a short request does that was posted just now. Under posting. */
static enum leaving choose(struct local_qp *qp, uint32_t most)
{
    const uint32_t polls = lane_polls(qp->core->lane);

    spinlock_assert_held(&qp->core->sq.posting);
    if (!qp->gathered && (qp->left_at != polls || !qp_consumer_polls(qp->core) ||
                          qp_state(qp->core) != RI_QPS_RTS)) {
        qp->left_at = polls;
        return LEAVES;
    }
    if (++qp->gathered >= most) {
        qp->gathered = 0;
        return LEAVES;
    }
    return qp->gathered == 1 && tx_enlist(qp->core, false) ? WAITS_WAKE : WAITS;
}

static bool may_wait(const struct local_qp *qp, const struct ri_send_wr *wr)
{
    return wr->opcode == RI_WR_SEND || atomic_load_explicit(&qp->by_kernel, memory_order_relaxed);
}

/* Inside tx. False: there is more to do. */
static inline bool leave(struct qp *base, const struct wqe *wqe, uint32_t index)
{
    return likely(wqe->opcode == RI_WR_SEND) && local_publish_single(base, wqe, index) &&
           tx_end(base);
}

/* Under no lock. False: it is not posted. */
static bool post_short(struct qp *base, const struct ri_send_wr *wr)
{
    enum leaving leaving = LEAVES;
    struct wqe *wqe = NULL;
    uint32_t index;

    if (unlikely(!spinlock_try_blind(&base->sq.posting)))
        return false;
    index = atomic_load_explicit(&base->sq.posted, memory_order_relaxed);
    if (likely(qp_state(base) != RI_QPS_IDLE))
        wqe = post_plain(base, wr, wr->sg_list->length, index, WQE_SHORT);
    if (wqe && may_wait(local_qp(base), wr))
        leaving = choose(local_qp(base), wr->opcode == RI_WR_SEND ? SENDS : WRITES);
    spinlock_unlock(&base->sq.posting);
    if (unlikely(leaving == WAITS_WAKE))
        base->rnic->host->wake(base->rnic->host, base->lane->base.context);
    if (leaving != LEAVES)
        return true;
    if (unlikely(!wqe))
        return false;
    if (likely(tx_begin(base)) && !leave(base, wqe, index))
        tx_go_on(base);
    return true;
}

enum ri_status local_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);

    if (!post_is_short(wr) || !post_short(qp, wr))
        return wire_post_send(base, wr, bad);
    qp_deliver(qp);
    return RI_OK;
}

void local_leave_together(struct local_qp *qp)
{
    qp_assert_unlocked(qp->core);
    spinlock_lock(&qp->core->sq.posting);
    qp->gathered = 0;
    spinlock_unlock(&qp->core->sq.posting);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that are held until it is known which wire the QP goes on by, and how long one waits for
 * a peer that does nothing.
 */
#include "device.h"

#include "base/minmax.h"

/* The two processes take several turns to meet, and may have to wait for a processor at each. */
#define HELD_LEAST (5000 * CLOCK_NS_PER_MS)

/* As over UDP, where the second question finds that a dead peer's port is closed (silence.c). */
uint64_t roce_patience(const struct qp *core, bool dead)
{
    const struct rc_qp *qp = container_of(core, const struct rc_qp, core);
    uint32_t timeouts = qp->attr.retry_cnt + 1u;

    return rc_timeout_ns(qp) * (dead && timeouts > 2 ? 2 : timeouts);
}

static void held_over(struct ri_timer *timer)
{
    struct roce_qp *qp = container_of(timer, struct roce_qp, held_timer);

    atomic_store(&qp->held_over, true);
    tx_defer_to_lane(&qp->core);
}

static void end_held(struct roce_qp *qp)
{
    const struct wq *sq = &qp->core.sq;
    const struct qp_end end = { .event = RI_EVENT_LLP_LOST,
                                .state = RI_QPS_ERROR,
                                .by_this_side = true,
                                .wqe = wq_slot(sq, atomic_load(&sq->next)),
                                .status = RI_WC_TRANSPORT,
                                .detail = "the peer's queue pair does not come to receive: "
                                          "retry_cnt is used up" };

    qp_end(&qp->core, &end);
}

void roce_wait_anew(struct roce_qp *qp)
{
    const struct ri_host *host = qp->core.rnic->host;

    tx_assert_inside(&qp->core);
    host->timer_cancel(host, qp->core.lane->base.context, &qp->held_timer);
    atomic_store(&qp->held_over, false);
    qp->held_timed = false;
}

/* The peer would not acknowledge them either. */
void roce_held(struct rc_qp *rc)
{
    const struct ri_host *host = rc->core.rnic->host;
    struct roce_qp *qp = roce_qp(rc);
    uint64_t patience = roce_patience(&rc->core, false);
    uint64_t timeout = patience ? max_u64(patience, HELD_LEAST) : 0;

    tx_assert_inside(&rc->core);
    if (!wq_pending(&rc->core.sq))
        return;
    if (atomic_load(&qp->held_over)) {
        end_held(qp);
    } else if (!qp->held_timed && timeout) {
        qp->held_timed = true;
        qp->held_timer.expired = held_over;
        qp->held_timer.deadline = clock_after(clock_now(), timeout);
        host->timer_set(host, rc->core.lane->base.context, &qp->held_timer);
    }
}

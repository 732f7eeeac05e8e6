/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of the filter `fault`: other statuses, delays, another order. A CQ holds one
 * completion that is delayed, and gives none while it does: so the order stays. It holds two where
 * one lets that of another queue go first, if it is there already. A consumer that armed the CQ
 * hears of it when it is due, by a timer of the QP's lane.
 */
#include "fault.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>

#include <utlist.h>

static struct fault_cq *cq_of(struct pass_cq *cq)
{
    return (struct fault_cq *)cq; /* its first member */
}

/* ---- one completion ---- */

static void change_status(struct fault_rnic *rnic, const struct fault_qp *qp,
                          const struct fault_rule *rule, struct ri_wc *wc)
{
    if (wc->status == RI_WC_SUCCESS || wc->status == RI_WC_FLUSHED)
        return;
    wc->status = rule->wc_status;
    atomic_fetch_add(&rnic->injected, 1);
    ri_log(rnic->pass.upper, RI_LOG_INFO,
           "filter fault: a request of QP %" PRIu64 " completes with %s (line %u)", qp->number,
           fault_wc_name(rule->wc_status), rule->line);
}

/* Takes what is expected of this completion, next; NULL: nothing. SRQ: receives complete in any
 * order. */
static const struct fault_rule *take(struct fault_queue *queue, uint64_t cookie, bool in_order)
{
    struct fault_pending *pending;
    const struct fault_rule *rule;

    LL_FOREACH (queue->pending, pending)
        if (pending->cookie == cookie && (!in_order || !pending->ahead))
            break;
    if (!pending)
        return NULL;
    rule = pending->rule;
    LL_DELETE(queue->pending, pending);
    free(pending);
    return rule;
}

static void count_completion(struct fault_queue *queue)
{
    struct fault_pending *pending;

    queue->outstanding -= queue->outstanding > 0;
    LL_FOREACH (queue->pending, pending)
        pending->ahead -= pending->ahead > 0;
}

/* What the script says of one completion. */
struct verdict {
    uint64_t delay; /* ns */
    const struct fault_rule *reorder;
    void *lane; /* of its QP */
};

/* Changes the completion as the script says. The lock is held. */
static struct verdict judge(struct fault_rnic *rnic, struct ri_wc *wc)
{
    struct verdict verdict = { .delay = 0 };
    const struct fault_rule *rule;
    struct fault_queue *queue;
    struct fault_qp *qp;
    bool shared;

    HASH_FIND_PTR(rnic->qps, &wc->context, qp);
    if (!qp)
        return verdict;
    shared = wc->opcode >= RI_WC_RECV && qp->pass.srq;
    queue = shared                     ? &((struct fault_srq *)qp->pass.srq)->queue
            : wc->opcode >= RI_WC_RECV ? &qp->recv
                                       : &qp->send;
    while ((rule = take(queue, wc->cookie, !shared))) {
        if (rule->action == FAULT_ERROR)
            change_status(rnic, qp, rule, wc);
        else if (rule->action == FAULT_REORDER)
            verdict.reorder = rule;
        else
            verdict.delay = rule->delay_ns;
    }
    count_completion(queue);
    verdict.lane = qp->pass.lane_context;
    if (verdict.delay)
        atomic_fetch_add(&rnic->injected, 1);
    return verdict;
}

/* ---- delays ---- */

static void tell(struct fault_cq *cq)
{
    const struct ri_host *upper = cq->pass.rnic->upper;

    if (atomic_exchange(&cq->armed, false))
        upper->cq_event(upper, cq->pass.base.context);
}

static void due(struct ri_timer *timer)
{
    tell((struct fault_cq *)((char *)timer - offsetof(struct fault_cq, timer)));
}

static void set_timer(struct fault_cq *cq, void *lane, uint64_t deadline)
{
    const struct ri_host *upper = cq->pass.rnic->upper;

    if (cq->timer_lane == lane && cq->timer.deadline == deadline)
        return; /* it is set */
    if (cq->timer_lane && cq->timer_lane != lane)
        upper->timer_cancel(upper, cq->timer_lane, &cq->timer);
    cq->timer_lane = lane;
    cq->timer.expired = due;
    cq->timer.deadline = deadline;
    upper->timer_set(upper, lane, &cq->timer);
}

/* Each work queue's completions keep their order: nothing says more of two queues. */
static bool are_of_one_queue(const struct ri_wc *one, const struct ri_wc *other)
{
    return one->context == other->context &&
           (one->opcode >= RI_WC_RECV) == (other->opcode >= RI_WC_RECV);
}

/* Puts the completion behind the one that is held, or in front of it. The lock is held. */
static void hold_another(struct fault_cq *cq, const struct fault_rule *reorder,
                         const struct fault_held *other)
{
    struct fault_rnic *rnic = fault_rnic_of(cq->pass.rnic);

    cq->holds = 2;
    if (are_of_one_queue(&cq->held[0].wc, &other->wc)) {
        cq->held[1] = *other;
        return;
    }
    cq->held[1] = cq->held[0];
    cq->held[0] = *other;
    atomic_fetch_add(&rnic->injected, 1);
    ri_log(rnic->pass.upper, RI_LOG_INFO,
           "filter fault: a completion lets that of another queue go first (line %u)",
           reorder->line);
}

/* Takes one completion from the CQ below; false: there is none. The caller is the one that
 * takes. */
static bool take_below(struct fault_cq *cq, uint64_t now, struct fault_held *held,
                       const struct fault_rule **reorder)
{
    struct fault_rnic *rnic = fault_rnic_of(cq->pass.rnic);
    struct ri_cq *below = cq->pass.below;
    struct verdict verdict;

    if (!below->ops->poll(below, 1, &held->wc))
        return false;
    pthread_mutex_lock(&rnic->lock);
    verdict = judge(rnic, &held->wc);
    pthread_mutex_unlock(&rnic->lock);
    held->due = now + verdict.delay;
    held->lane = verdict.lane;
    *reorder = verdict.reorder;
    return true;
}

/* Holds the next completion of the CQ below, or the next two. now: without delay they can be taken
 * at once. False: there is none. The caller is the one that takes. */
static bool fetch(struct fault_cq *cq, uint64_t now)
{
    struct fault_rnic *rnic = fault_rnic_of(cq->pass.rnic);
    const struct fault_rule *reorder, *ignored;
    struct fault_held first, second;
    bool another;

    if (!take_below(cq, now, &first, &reorder))
        return false;
    another = reorder && take_below(cq, now, &second, &ignored);
    pthread_mutex_lock(&rnic->lock);
    cq->holds = 1;
    cq->held[0] = first;
    if (another)
        hold_another(cq, reorder, &second);
    pthread_mutex_unlock(&rnic->lock);
    return true;
}

enum held { HOLDS_NONE, HOLDS_LATER, HOLDS_DUE };

/* The first one that is held. wc not NULL: takes it, if it is due. Sets the timer of one that is
 * due later. */
static enum held look(struct fault_cq *cq, uint64_t now, struct ri_wc *wc)
{
    struct fault_rnic *rnic = fault_rnic_of(cq->pass.rnic);
    struct fault_held first;
    enum held held;

    pthread_mutex_lock(&rnic->lock);
    first = cq->held[0];
    held = !cq->holds ? HOLDS_NONE : now < first.due ? HOLDS_LATER : HOLDS_DUE;
    if (held == HOLDS_DUE && wc) {
        *wc = first.wc;
        cq->held[0] = cq->held[1];
        cq->holds--;
    }
    pthread_mutex_unlock(&rnic->lock);
    if (held == HOLDS_LATER)
        set_timer(cq, first.lane, first.due);
    return held;
}

static uint32_t take_due(struct fault_cq *cq, uint32_t count, struct ri_wc *wc)
{
    uint64_t now = clock_now();
    uint32_t taken = 0;

    while (taken < count) {
        enum held held = look(cq, now, &wc[taken]);

        if (held == HOLDS_DUE)
            taken++;
        else if (held == HOLDS_LATER || !fetch(cq, now))
            break;
    }
    return taken;
}

static uint32_t poll_delayed(struct fault_cq *cq, uint32_t count, struct ri_wc *wc)
{
    uint32_t taken = 0;

    do {
        if (atomic_flag_test_and_set(&cq->taking)) {
            atomic_store(&cq->missed, true);
            if (atomic_flag_test_and_set(&cq->taking))
                return taken; /* the other one looks once more */
        }
        atomic_store(&cq->missed, false);
        taken += take_due(cq, count - taken, wc + taken);
        atomic_flag_clear(&cq->taking);
    } while (atomic_load(&cq->missed) && taken < count);
    if (atomic_exchange(&cq->missed, false))
        tell(cq);
    return taken;
}

uint32_t fault_poll(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct fault_cq *cq = (struct fault_cq *)ri;
    struct fault_rnic *rnic = fault_rnic_of(cq->pass.rnic);
    struct ri_cq *below = cq->pass.below;
    uint32_t taken;

    if (rnic->script.delays && count)
        return poll_delayed(cq, count, wc);
    taken = below->ops->poll(below, count, wc);
    if (!taken)
        return 0;
    pthread_mutex_lock(&rnic->lock);
    for (uint32_t i = 0; i < taken; i++)
        judge(rnic, &wc[i]);
    pthread_mutex_unlock(&rnic->lock);
    return taken;
}

/* ---- arming ---- */

enum ri_status fault_arm(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct fault_cq *cq = (struct fault_cq *)ri;
    enum ri_status status = fault_call(cq->pass.rnic, PASS_ARM);

    if (status != RI_OK)
        return status;
    atomic_store(&cq->armed, true);
    return cq->pass.below->ops->arm(cq->pass.below, kind, count);
}

enum ri_status fault_cq_peek(struct ri_cq *ri, uint32_t *total, uint32_t *notify)
{
    struct fault_cq *cq = (struct fault_cq *)ri;

    if (fault_rnic_of(cq->pass.rnic)->script.delays)
        return RI_ERR_NOT_SUPPORTED;
    return pass_cq_peek(ri, total, notify);
}

/* The next completion may be one that is delayed: then the consumer does not hear of it now. */
void fault_cq_event(struct pass_cq *pass)
{
    struct fault_cq *cq = cq_of(pass);
    uint64_t now;
    bool later = false;

    if (fault_rnic_of(pass->rnic)->script.delays && !atomic_flag_test_and_set(&cq->taking)) {
        now = clock_now();
        if (look(cq, now, NULL) == HOLDS_NONE)
            fetch(cq, now);
        later = look(cq, now, NULL) == HOLDS_LATER;
        atomic_flag_clear(&cq->taking);
        if (atomic_exchange(&cq->missed, false))
            later = false;
    }
    if (!later)
        tell(cq);
}

void fault_cq_forget(struct pass_cq *pass, const void *qp_context)
{
    struct fault_rnic *rnic = fault_rnic_of(pass->rnic);
    struct fault_cq *cq = cq_of(pass);

    pthread_mutex_lock(&rnic->lock);
    if (cq->holds == 2 && cq->held[1].wc.context == qp_context)
        cq->holds = 1;
    if (cq->holds && cq->held[0].wc.context == qp_context) {
        cq->held[0] = cq->held[1];
        cq->holds--;
    }
    pthread_mutex_unlock(&rnic->lock);
}

void fault_cq_close(struct pass_cq *pass)
{
    struct fault_cq *cq = cq_of(pass);
    const struct ri_host *upper = pass->rnic->upper;

    if (cq->timer_lane)
        upper->timer_cancel(upper, cq->timer_lane, &cq->timer);
}

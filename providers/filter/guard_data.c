/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts and polls of the filter `guard`. A request is noted before it is posted: another thread may
 * poll its completion before the post returns. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "guard.h"

#include <string.h>

#define GROUP 16u       /* completions taken at once */
#define SLACK 16u       /* room behind them, for a provider that writes more */
#define MARK  UINT8_MAX /* what that room is filled with */
#define TAKES 64u       /* at most in one poll, or a provider that only lies would hold it */

/* ---- posts ---- */

enum ri_status guard_post_send(struct ri_qp *ri, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct guard_qp *qp = (struct guard_qp *)ri;
    struct guard_rnic *rnic = guard_rnic_of(qp->pass.rnic);
    enum ri_status status = RI_OK;

    for (; wr && status == RI_OK; wr = wr->next) {
        struct ri_send_wr below, *ignored;

        pass_send_wr(&qp->pass, wr, &below);
        pthread_mutex_lock(&rnic->lock);
        guard_queue_add(&qp->send, wr->cookie, !(wr->flags & RI_WR_SIGNALED));
        pthread_mutex_unlock(&rnic->lock);
        status = qp->pass.below->ops->post_send(qp->pass.below, &below, &ignored);
        if (status == RI_OK)
            continue;
        pthread_mutex_lock(&rnic->lock);
        guard_queue_retract(&qp->send, wr->cookie);
        pthread_mutex_unlock(&rnic->lock);
        *bad = wr;
    }
    return status;
}

/* Where receives go: qp or srq is NULL. */
struct target {
    struct guard_rnic *rnic;
    struct guard_queue *queue;
    struct ri_qp *qp;
    struct ri_srq *srq;
};

static enum ri_status post_receives(const struct target *to, struct ri_recv_wr *wr,
                                    struct ri_recv_wr **bad)
{
    enum ri_status status = RI_OK;

    for (; wr && status == RI_OK; wr = wr->next) {
        struct ri_recv_wr below = *wr, *ignored;

        below.next = NULL;
        pthread_mutex_lock(&to->rnic->lock);
        guard_queue_add(to->queue, wr->cookie, false);
        pthread_mutex_unlock(&to->rnic->lock);
        status = to->qp ? to->qp->ops->post_recv(to->qp, &below, &ignored)
                        : to->srq->ops->post_srq_recv(to->srq, &below, &ignored);
        if (status == RI_OK)
            continue;
        pthread_mutex_lock(&to->rnic->lock);
        guard_queue_retract(to->queue, wr->cookie);
        pthread_mutex_unlock(&to->rnic->lock);
        *bad = wr;
    }
    return status;
}

enum ri_status guard_post_recv(struct ri_qp *ri, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct guard_qp *qp = (struct guard_qp *)ri;
    const struct target to = { .rnic = guard_rnic_of(qp->pass.rnic),
                               .queue = &qp->recv,
                               .qp = qp->pass.below };

    return post_receives(&to, wr, bad);
}

enum ri_status guard_post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad)
{
    struct guard_srq *srq = (struct guard_srq *)ri;
    const struct target to = { .rnic = guard_rnic_of(srq->pass.rnic),
                               .queue = &srq->queue,
                               .srq = srq->pass.below };

    return post_receives(&to, wr, bad);
}

/* ---- polls ---- */

/* Under the lock. */
static bool is_true(struct guard_rnic *rnic, const struct ri_wc *wc, enum guard_lie *lie)
{
    struct guard_qp *qp = guard_find(rnic, wc->context);
    struct guard_queue *queue;

    *lie = GUARD_UNKNOWN;
    if (!qp)
        return false;
    *lie = GUARD_TWICE;
    queue = wc->opcode < RI_WC_RECV ? &qp->send
            : qp->pass.srq          ? &((struct guard_srq *)qp->pass.srq)->queue
                                    : &qp->recv;
    return guard_queue_complete(queue, wc->cookie);
}

/* Copies those that are true; returns how many. */
static uint32_t keep(struct guard_rnic *rnic, const struct ri_wc *from, uint32_t count,
                     struct ri_wc *wc)
{
    uint32_t lies[GUARD_LIES] = { 0 }, kept = 0;
    enum guard_lie lie;

    pthread_mutex_lock(&rnic->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (is_true(rnic, &from[i], &lie))
            wc[kept++] = from[i];
        else
            lies[lie]++;
    }
    pthread_mutex_unlock(&rnic->lock);
    for (lie = GUARD_TWICE; lie < GUARD_LIES; lie++)
        if (lies[lie])
            guard_note(rnic, lie, lies[lie]);
    return kept;
}

static bool is_written(const struct ri_wc *slack)
{
    const uint8_t *octets = (const uint8_t *)slack;

    for (size_t i = 0; i < sizeof *slack; i++)
        if (octets[i] != MARK)
            return true;
    return false;
}

/* Takes up to `count`, at most GROUP, from the CQ below. *more: there may be more; so it is behind
 * completions that were dropped, and a consumer that finds none would not look again. */
static uint32_t take(struct pass_cq *cq, uint32_t count, struct ri_wc *wc, bool *more)
{
    struct guard_rnic *rnic = guard_rnic_of(cq->rnic);
    struct ri_wc taken[GROUP + SLACK];
    uint32_t got, kept;

    memset(&taken[count], MARK, sizeof *taken);
    got = cq->below->ops->poll(cq->below, count, taken);
    if (is_written(&taken[count]))
        guard_note(rnic, GUARD_BEHIND, 0);
    if (got > count) {
        guard_note(rnic, GUARD_MORE, got - count);
        got = count;
    }
    kept = got ? keep(rnic, taken, got, wc) : 0;
    *more = got == count || kept < got;
    return kept;
}

uint32_t guard_poll(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct pass_cq *cq = PASS_OF(cq, ri);
    bool more = true;
    uint32_t done = 0, takes = 0;

    if (!count)
        return cq->below->ops->poll(cq->below, 0, NULL);
    while (more && done < count && (done || takes++ < TAKES)) {
        const uint32_t room = count - done;

        done += take(cq, room < GROUP ? room : GROUP, wc + done, &more);
    }
    return done;
}

enum ri_status guard_arm(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct ri_cq *below = PASS_OF(cq, ri)->below;

    return below->ops->arm(below, kind, count);
}

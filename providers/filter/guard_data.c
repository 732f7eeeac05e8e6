/* SPDX-License-Identifier: BSD-3-Clause */
/* Posts and polls of the filter `guard`. A request is noted before it is posted: another thread may
 * poll its completion before the post returns. */
#include "guard.h"

#include <string.h>

#define GROUP 16u       /* completions taken at once */
#define SLACK 16u       /* room behind them, for a provider that writes more */
#define MARK  UINT8_MAX /* what that room is filled with */
#define LIES  64u       /* takes of nothing else in a poll, or a provider could hold it for ever */

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
        guard_queue_add(&qp->send, wr->cookie, !(wr->flags & RI_WR_SIGNALED), !qp->posting);
        qp->posting++;
        pthread_mutex_unlock(&rnic->lock);
        status = ri_qp_ops(qp->pass.below)->post_send(qp->pass.below, &below, &ignored);
        pthread_mutex_lock(&rnic->lock);
        qp->posting--;
        if (status != RI_OK)
            guard_queue_retract(&qp->send, wr->cookie);
        pthread_mutex_unlock(&rnic->lock);
        if (status != RI_OK)
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
        guard_queue_add(to->queue, wr->cookie, false, true);
        pthread_mutex_unlock(&to->rnic->lock);
        status = to->qp ? ri_qp_ops(to->qp)->post_recv(to->qp, &below, &ignored)
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

static struct guard_queue *queue_of(struct guard_qp *qp, const struct ri_wc *wc)
{
    if (wc->opcode < RI_WC_RECV)
        return &qp->send;
    return qp->pass.srq ? &((struct guard_srq *)qp->pass.srq)->queue : &qp->recv;
}

/* Under the lock. */
static bool is_true(struct guard_rnic *rnic, const struct ri_wc *wc, enum guard_lie *lie)
{
    struct guard_qp *qp = guard_find(rnic, wc->context);

    *lie = qp ? GUARD_TWICE : GUARD_UNKNOWN;
    for (; qp; qp = qp->older)
        if (guard_queue_complete(queue_of(qp, wc), wc->cookie, wc->status == RI_WC_SUCCESS))
            return true;
    return false;
}

/* Copies those that are true; returns how many. closed: the number of closed QPs before these were
 * polled. If one was closed since, its completions are dropped, but they are no lies. */
static uint32_t keep(struct guard_rnic *rnic, uint32_t closed, const struct ri_wc *from,
                     uint32_t count, struct ri_wc *wc)
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
    if (atomic_load(&rnic->closed) != closed)
        lies[GUARD_UNKNOWN] = 0;
    pthread_mutex_unlock(&rnic->lock);
    for (lie = GUARD_TWICE; lie < GUARD_LIES; lie++)
        if (lies[lie])
            guard_note(rnic, lie, lies[lie]);
    return kept;
}

static bool is_written(const struct ri_wc *slack)
{
    const uint8_t *octets = (const uint8_t *)slack;

    for (size_t i = 0; i < sizeof(*slack); i++)
        if (octets[i] != MARK)
            return true;
    return false;
}

/* Takes up to `count`, at most GROUP, from the CQ below. *more: there may be more; so it is behind
 * completions that were dropped, and a consumer that finds none would not look again. */
static uint32_t take(struct pass_cq *cq, uint32_t count, struct ri_wc *wc, bool *more)
{
    struct guard_rnic *rnic = guard_rnic_of(cq->rnic);
    const uint32_t closed = atomic_load(&rnic->closed);
    struct ri_wc taken[GROUP + SLACK];
    uint32_t got, kept;

    memset(&taken[count], MARK, sizeof(*taken));
    got = cq->below->ops->poll(cq->below, count, taken);
    if (is_written(&taken[count]))
        guard_note(rnic, GUARD_BEHIND, 0);
    if (got > count) {
        guard_note(rnic, GUARD_MORE, got - count);
        got = count;
    }
    kept = got ? keep(rnic, closed, taken, got, wc) : 0;
    *more = got == count || kept < got;
    return kept;
}

uint32_t guard_poll(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct pass_cq *cq = PASS_OF(cq, ri);
    bool more = true;
    uint32_t done = 0, lies = 0;

    if (!count)
        return cq->below->ops->poll(cq->below, 0, NULL);
    while (more && done < count && lies < LIES) {
        const uint32_t room = count - done;
        const uint32_t kept = take(cq, room < GROUP ? room : GROUP, wc + done, &more);

        lies = kept ? 0 : lies + 1;
        done += kept;
    }
    return done;
}

enum ri_status guard_arm(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct ri_cq *below = PASS_OF(cq, ri)->below;

    return below->ops->arm(below, kind, count);
}

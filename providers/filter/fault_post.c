/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts of the filter `fault`. A request that is to complete in error is passed on with an element
 * that no region has: the provider below refuses it in its turn, ends the connection and flushes,
 * as after any local error. Only the status of its completion is changed (fault_poll.c).
 */
#include "fault.h"

#include <inttypes.h>
#include <stdlib.h>

#include <utlist.h>

/* 8 octets, for atomics. */
static const struct ri_sge nowhere = { .addr = UINT64_MAX - 15,
                                       .length = 8,
                                       .lkey = UINT32_C(0xffffff5a) };

/* What the script says of one request. */
struct verdict {
    const struct fault_rule *error, *delay, *drop, *reorder;
};

void fault_queue_clear(struct fault_queue *queue)
{
    struct fault_pending *pending, *next;

    LL_FOREACH_SAFE (queue->pending, pending, next)
        free(pending);
    queue->pending = NULL;
    queue->outstanding = 0;
}

static unsigned kind_of(uint16_t opcode)
{
    switch (opcode) {
    case RI_WR_SEND:
    case RI_WR_SEND_INVALIDATE:
    case RI_WR_SEND_IMMEDIATE: return FAULT_SEND;
    case RI_WR_RDMA_WRITE:
    case RI_WR_RDMA_WRITE_IMMEDIATE: return FAULT_WRITE;
    case RI_WR_RDMA_READ:
    case RI_WR_RDMA_READ_INVALIDATE: return FAULT_READ;
    case RI_WR_ATOMIC_FETCH_ADD:
    case RI_WR_ATOMIC_COMPARE_SWAP: return FAULT_ATOMIC;
    default: return FAULT_OTHER;
    }
}

/* A list that the provider will refuse is not looked at. */
static uint64_t octets_of(const struct fault_qp *qp, const struct ri_send_wr *wr)
{
    unsigned int kind = kind_of(wr->opcode);
    uint64_t sum = 0;

    if (kind == FAULT_ATOMIC)
        return 8;
    if (kind == FAULT_OTHER)
        return 0;
    for (uint32_t i = 0; i < wr->num_sge && wr->num_sge <= qp->pass.max_sge; i++)
        sum += wr->sg_list[i].length;
    return sum;
}

/* Of a rule by octets: counts those of the connection's life. */
static bool drops_by_octets(const struct fault_script *script, const struct fault_rule *rule,
                            struct fault_count *count, uint64_t octets, uint64_t stream)
{
    count->octets += octets;
    if (count->octets <= rule->octets)
        return false;
    count->octets = 0;
    return fault_rule_hits(script, rule, count, stream);
}

/* Rules about completions count requests that make one. */
static bool is_of_completion(const struct fault_rule *rule)
{
    return rule->action == FAULT_DELAY || rule->action == FAULT_REORDER;
}

/* number: of the QP; 0: of an SRQ. signaled: the request makes a completion. The lock is held. */
static struct verdict judge(const struct fault_script *script, struct fault_count *counts,
                            unsigned kind, uint64_t number, bool signaled, uint64_t octets)
{
    struct verdict verdict = { .error = NULL };

    for (size_t i = 0; i < script->count; i++) {
        const struct fault_rule *rule = &script->rules[i];
        const struct fault_rule **hit = rule->action == FAULT_ERROR     ? &verdict.error
                                        : rule->action == FAULT_DELAY   ? &verdict.delay
                                        : rule->action == FAULT_REORDER ? &verdict.reorder
                                                                        : &verdict.drop;

        if (rule->action == FAULT_FAIL || !(rule->requests & kind) ||
            (rule->qp && rule->qp != number) || (is_of_completion(rule) && !signaled))
            continue;
        if (rule->octets ? drops_by_octets(script, rule, &counts[i], octets, number)
                         : fault_rule_hits(script, rule, &counts[i], number))
            *hit = *hit ? *hit : rule;
    }
    return verdict;
}

/* The lock is held. False: no memory. */
static bool expect(struct fault_queue *queue, const struct fault_rule *rule, uint64_t cookie)
{
    struct fault_pending *pending = rule ? malloc(sizeof(*pending)) : NULL;

    if (!rule)
        return true;
    if (!pending)
        return false;
    *pending =
        (struct fault_pending){ .rule = rule, .cookie = cookie, .ahead = queue->outstanding };
    LL_APPEND(queue->pending, pending);
    return true;
}

/* What its completion is to become. The same. */
static bool expect_all(struct fault_queue *queue, const struct verdict *verdict, uint64_t cookie)
{
    return expect(queue, verdict->error, cookie) && expect(queue, verdict->delay, cookie) &&
           expect(queue, verdict->reorder, cookie);
}

/* The request was not posted after all: takes back what was expected of it. The lock is held. */
static void take_back(struct fault_queue *queue, const struct verdict *verdict, uint64_t cookie)
{
    struct fault_pending *pending, *next;

    LL_FOREACH_SAFE (queue->pending, pending, next) {
        if (pending->cookie != cookie ||
            (pending->rule != verdict->error && pending->rule != verdict->delay &&
             pending->rule != verdict->reorder))
            continue;
        LL_DELETE(queue->pending, pending);
        free(pending);
    }
}

static void say(struct fault_rnic *rnic, const struct fault_qp *qp, const struct fault_rule *rule)
{
    atomic_fetch_add(&rnic->injected, 1);
    if (rule->action == FAULT_DROP)
        ri_log(rnic->pass.upper, RI_LOG_INFO,
               "filter fault: the connection of QP %" PRIu64 " is dropped (line %u)", qp->number,
               rule->line);
}

/* The peer sees a reset. */
static void drop(struct fault_rnic *rnic, struct fault_qp *qp, const struct fault_rule *rule)
{
    const struct ri_qp_modify error = { .size = sizeof(error),
                                        .mask = RI_QPM_STATE,
                                        .state = RI_QPS_ERROR };

    say(rnic, qp, rule);
    rnic->pass.ops->qp_modify(qp->pass.below, &error);
}

static enum ri_status post_one(struct fault_rnic *rnic, struct fault_qp *qp,
                               const struct ri_send_wr *wr)
{
    bool signaled = wr->flags & RI_WR_SIGNALED, known;
    struct ri_send_wr below, *bad;
    struct verdict verdict;
    enum ri_status status;

    pass_send_wr(&qp->pass, wr, &below);
    pthread_mutex_lock(&rnic->lock);
    verdict = judge(&rnic->script, qp->counts, kind_of(wr->opcode), qp->number, signaled,
                    octets_of(qp, wr));
    known = expect_all(&qp->send, &verdict, wr->cookie);
    qp->send.outstanding += known && signaled;
    pthread_mutex_unlock(&rnic->lock);
    if (!known)
        return RI_ERR_NO_RESOURCES;
    if (verdict.drop)
        drop(rnic, qp, verdict.drop);
    if (verdict.error) {
        below.sg_list = &nowhere;
        below.num_sge = 1;
        below.flags &= (uint16_t)~RI_WR_INLINE;
        if (below.opcode == RI_WR_SEND_IMMEDIATE)
            below.opcode = RI_WR_SEND; /* over iWARP it may not have octets */
    }
    status = ri_qp_ops(qp->pass.below)->post_send(qp->pass.below, &below, &bad);
    if (status != RI_OK) {
        pthread_mutex_lock(&rnic->lock);
        take_back(&qp->send, &verdict, wr->cookie);
        qp->send.outstanding -= signaled && qp->send.outstanding;
        pthread_mutex_unlock(&rnic->lock);
    }
    return status;
}

enum ri_status fault_post_send(struct ri_qp *ri, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct fault_qp *qp = (struct fault_qp *)ri;
    struct fault_rnic *rnic = fault_rnic_of(qp->pass.rnic);
    enum ri_status status = fault_call(qp->pass.rnic, PASS_POST_SEND);

    for (; status == RI_OK && wr; wr = wr->next) {
        status = post_one(rnic, qp, wr);
        if (status != RI_OK)
            break;
    }
    if (status != RI_OK)
        *bad = wr;
    return status;
}

/* ---- receives ---- */

/* Of a QP, or of an SRQ (number 0). */
struct receives {
    struct fault_rnic *rnic;
    struct fault_count *counts;
    struct fault_queue *queue;
    uint64_t number;
    struct ri_qp *qp;
    struct ri_srq *srq;
};

static enum ri_status pass_recv(const struct receives *to, struct ri_recv_wr *below)
{
    struct ri_recv_wr *bad;

    return to->qp ? ri_qp_ops(to->qp)->post_recv(to->qp, below, &bad)
                  : to->srq->ops->post_srq_recv(to->srq, below, &bad);
}

static enum ri_status post_receive(const struct receives *to, const struct ri_recv_wr *wr)
{
    struct ri_recv_wr below = *wr;
    struct verdict verdict;
    enum ri_status status;
    bool known;

    below.next = NULL;
    pthread_mutex_lock(&to->rnic->lock);
    verdict = judge(&to->rnic->script, to->counts, FAULT_RECEIVE, to->number, true, 0);
    known = expect_all(to->queue, &verdict, wr->cookie);
    to->queue->outstanding += known;
    pthread_mutex_unlock(&to->rnic->lock);
    if (!known)
        return RI_ERR_NO_RESOURCES;
    if (verdict.error) {
        below.sg_list = &nowhere;
        below.num_sge = 1;
    }
    status = pass_recv(to, &below);
    if (status != RI_OK) {
        pthread_mutex_lock(&to->rnic->lock);
        take_back(to->queue, &verdict, wr->cookie);
        to->queue->outstanding -= to->queue->outstanding > 0;
        pthread_mutex_unlock(&to->rnic->lock);
    }
    return status;
}

static enum ri_status post_receives(const struct receives *to, enum pass_verb verb,
                                    struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    enum ri_status status = fault_call(&to->rnic->pass, verb);

    for (; status == RI_OK && wr; wr = wr->next) {
        status = post_receive(to, wr);
        if (status != RI_OK)
            break;
    }
    if (status != RI_OK)
        *bad = wr;
    return status;
}

enum ri_status fault_post_recv(struct ri_qp *ri, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct fault_qp *qp = (struct fault_qp *)ri;
    const struct receives to = { .rnic = fault_rnic_of(qp->pass.rnic),
                                 .counts = qp->counts,
                                 .queue = &qp->recv,
                                 .number = qp->number,
                                 .qp = qp->pass.below };

    return post_receives(&to, PASS_POST_RECV, wr, bad);
}

enum ri_status fault_post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad)
{
    struct fault_srq *srq = (struct fault_srq *)ri;
    const struct receives to = { .rnic = fault_rnic_of(srq->pass.rnic),
                                 .counts = srq->counts,
                                 .queue = &srq->queue,
                                 .srq = srq->pass.below };

    return post_receives(&to, PASS_POST_SRQ_RECV, wr, bad);
}

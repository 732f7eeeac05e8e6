/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: create and destroy. Its states: core/qp_state.c; transitions: qp_modify.c; posts:
 * post.c.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"
#include "providers/software/core/sanitizer.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static_assert(offsetof(struct qp, upcalls) >= offsetof(struct qp, cq_wait) + 64,
              "the count of upcalls is in no cache line of posts and passes");

/* Places of a send queue beside its requests, at most: Reads into several elements may fill it
 * sooner than others. */
#define PART_ROOM_MAX 1024u

static enum ri_status check_attr(const struct ri_rnic_attr *limits, const struct ri_qp_attr *attr)
{
    bool own = !attr->srq; /* else the receive queue's sizes are not looked at */

    if (attr->type != RI_QP_RC)
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->send_cq || !attr->recv_cq)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_send_wr > limits->max_send_wr ||
        (own && attr->max_recv_wr > limits->max_recv_wr) ||
        attr->max_send_sge > limits->max_send_sge ||
        (own && attr->max_recv_sge > limits->max_recv_sge) ||
        attr->max_read_sge > limits->max_read_sge || attr->max_write_sge > limits->max_write_sge ||
        attr->ird > limits->max_ird || attr->ord > limits->max_ord || attr->max_inline)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void give_attr(const struct qp *qp, struct ri_qp_attr *attr)
{
    attr->max_send_wr = qp->sq.depth;
    attr->max_recv_wr = qp->srq ? 0 : qp->rq.depth;
    attr->max_send_sge = qp->sq.max_sge;
    attr->max_recv_sge = qp->rq.max_sge;
    attr->max_read_sge = qp->max_read_sge;
    attr->max_write_sge = qp->max_write_sge;
}

static enum ri_status open_receive_queue(struct qp *qp, const struct ri_qp_attr *attr)
{
    if (attr->srq)
        return srq_attach(container_of(attr->srq, struct srq, base), qp);
    qp->recv_pd = qp->pd;
    return wq_open(&qp->rq, true, most(attr->max_recv_wr, 1), most(attr->max_recv_sge, 1));
}

/* One more than asked for: the ready-to-receive Read of either side. */
static bool enlarge(void **ring, uint32_t *size, uint32_t entries, size_t octets, uint32_t from,
                    uint32_t to)
{
    uint32_t larger = power_of_two(entries + 1);
    uint8_t *fresh;

    if (larger <= *size)
        return true;
    fresh = calloc(larger, octets);
    if (!fresh)
        return false;
    for (uint32_t at = from; at != to; at++)
        memcpy(fresh + (at & (larger - 1)) * octets, (uint8_t *)*ring + (at & (*size - 1)) * octets,
               octets);
    free(*ring);
    *ring = fresh;
    *size = larger;
    return true;
}

enum ri_status qp_open_reads(struct qp *qp, uint32_t ird, uint32_t ord)
{
    void *ird_ring = qp->reads.ird_ring, *ord_ring = qp->reads.ord_ring;
    bool ird_fits = enlarge(&ird_ring, &qp->reads.ird_size, ird, sizeof(*qp->reads.ird_ring),
                            atomic_load(&qp->reads.ird_out), atomic_load(&qp->reads.ird_in));
    bool ord_fits = enlarge(&ord_ring, &qp->reads.ord_size, ord, sizeof(*qp->reads.ord_ring),
                            atomic_load(&qp->reads.ord_out), atomic_load(&qp->reads.ord_in));

    qp->reads.ird_ring = ird_ring;
    qp->reads.ord_ring = ord_ring;
    return ird_fits && ord_fits ? RI_OK : RI_ERR_NO_RESOURCES;
}

/* With the places for Reads of several elements, which take one for each. */
static uint32_t send_depth(const struct qp *qp, uint32_t requests)
{
    uint64_t room = (uint64_t)requests * (qp->max_read_sge - 1);
    uint64_t depth = requests + (room < PART_ROOM_MAX ? room : PART_ROOM_MAX);

    return depth < MAX_WR ? (uint32_t)depth : MAX_WR;
}

static enum ri_status open_queues(struct qp *qp, const struct ri_qp_attr *attr)
{
    enum ri_status status = wq_open(&qp->sq, false, send_depth(qp, most(attr->max_send_wr, 1)),
                                    most(most(attr->max_send_sge, attr->max_write_sge), 1));
    if (status == RI_OK)
        status = open_receive_queue(qp, attr); /* last: from here on the SRQ names the QP */
    return status;
}

void qp_free(struct qp *qp)
{
    wq_close(&qp->sq);
    wq_close(&qp->rq);
    tx_close(qp);
    free(qp->reads.ord_ring);
    free(qp->reads.ird_ring);
    free(qp->rx.srq_sges);
    sanitizer_close(qp->watch);
    free(qp);
}

enum ri_status softrdma_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = check_attr(&rnic->attr, attr);
    struct qp *qp;

    if (status != RI_OK)
        return status;
    if (atomic_fetch_add(&rnic->qps, 1) >= rnic->attr.max_qp) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        status = RI_ERR_NO_RESOURCES;
        goto uncount;
    }
    qp->base.ops = rnic->user;
    qp->base.context = attr->context;
    qp->rnic = rnic;
    qp->lane = attr->lane ? container_of(attr->lane, struct lane, base) : rnic->lanes[0];
    qp->pd = pd;
    qp->send_cq = container_of(attr->send_cq, struct cq, base);
    qp->recv_cq = container_of(attr->recv_cq, struct cq, base);
    qp->qpn = atomic_fetch_add(&rnic->next_qpn, 1) + 1;
    qp->attr.ird = attr->ird;
    qp->attr.ord = attr->ord;
    atomic_init(&qp->attr.flags, attr->flags);
    qp_set_rq_limits(qp, attr->rq_limit, attr->rq_hard_limit);
    qp->max_read_sge = most(attr->max_read_sge, 1);
    qp->max_write_sge = most(attr->max_write_sge, 1);
    if (rnic->options.sanitizers != SANITIZER_OFF)
        qp->watch = sanitizer_open(rnic, qp->qpn);
    status = open_queues(qp, attr);
    if (status != RI_OK)
        goto free_qp;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&pd->streams, 1);
    cq_attach(qp->send_cq, qp->lane);
    cq_attach(qp->recv_cq, qp->lane);
    give_attr(qp, attr);
    *out = &qp->base;
    return RI_OK;
free_qp:
    qp_free(qp);
uncount:
    atomic_fetch_sub(&rnic->qps, 1);
    return status;
}

/* The stream goes on without the QP. Inside tx. */
void qp_release_stream(struct qp *qp)
{
    struct stream *stream = qp->stream;

    if (!stream)
        return;
    if (!qp->tx.stopped)
        tx_stop(qp);
    stream_release(stream);
    qp->stream = NULL;
}

static void await_upcalls(struct qp *qp)
{
    while (atomic_load(&qp->upcalls))
        sched_yield();
}

/*
 * In this order: nothing new is told; no pass, timer or walk finds the QP (each was waited for, or
 * counts in upcalls); no CQ names it; nobody is inside tx. Nobody comes in any more: tx is never
 * left.
 */
enum ri_status softrdma_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct lane *lane = qp->lane;
    struct rnic *rnic = qp->rnic;
    struct stream *stream = qp->stream;

    tx_send_coalesced(qp);
    spinlock_lock(&qp->life.lock);
    qp->life.destroyed = true;
    atomic_store(&qp->life.state, RI_QPS_ERROR);
    spinlock_unlock(&qp->life.lock);
    if (stream) {
        spinlock_lock(&stream->rx);
        atomic_store(&stream->qp, NULL);
        spinlock_unlock(&stream->rx);
    }
    tx_keep_no_memory(qp);
    lane_wait_pass(lane);
    cq_purge(qp->send_cq, qp);
    cq_retry_blocked(qp->send_cq);
    cq_purge(qp->recv_cq, qp);
    cq_retry_blocked(qp->recv_cq);
    await_upcalls(qp);
    tx_forget_coalesced(qp); /* they may have left work to the lane */
    await_upcalls(qp);
    if (qp->srq)
        srq_detach(qp->srq, qp);
    tx_enter(qp);
    qp_release_stream(qp);
    mw_unbind_qp(qp);
    cq_detach(qp->send_cq);
    cq_detach(qp->recv_cq);
    atomic_fetch_sub(&qp->pd->streams, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&rnic->qps, 1);
    spinlock_lock(&lane->lock);
    qp->on_lane.free_next = lane->freed_qps;
    lane->freed_qps = qp;
    atomic_fetch_add(&lane->version, 1);
    spinlock_unlock(&lane->lock);
    if (rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_left(rnic);
    return RI_OK;
}

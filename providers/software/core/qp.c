/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: create, connect and destroy. Its states: qp_state.c; transitions: qp_modify.c.
 */
#include "core.h"
#include "sanitizer.h"
#include "base/minmax.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static_assert(offsetof(struct qp, upcalls) >= offsetof(struct qp, cq_wait) + 64,
              "the count of upcalls is in no cache line of posts and passes");

/* Places of a send queue beside its requests, at most: Reads into several elements may fill it
 * sooner than others. */
#define PART_ROOM_MAX 1024u

static bool has_type(const struct ri_rnic_attr *limits, enum ri_qp_type type)
{
    switch (type) {
    case RI_QP_RC: return true;
    case RI_QP_UD: return limits->features & RI_FEATURE_UD;
    case RI_QP_UC: return limits->features & RI_FEATURE_UC;
    }
    return false;
}

static enum ri_status check_attr(const struct ri_rnic_attr *limits, const struct ri_qp_attr *attr)
{
    bool own = !attr->srq; /* else the receive queue's sizes are not looked at */

    if (!has_type(limits, attr->type))
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->send_cq || !attr->recv_cq || (attr->type == RI_QP_UD && attr->port >= limits->ports))
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
    return wq_open(&qp->rq, true, max_u32(attr->max_recv_wr, 1), max_u32(attr->max_recv_sge, 1));
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
    enum ri_status status = wq_open(&qp->sq, false, send_depth(qp, max_u32(attr->max_send_wr, 1)),
                                    max_u32(max_u32(attr->max_send_sge, attr->max_write_sge), 1));
    if (status == RI_OK)
        status = open_receive_queue(qp, attr); /* last: from here on the SRQ names the QP */
    return status;
}

void qp_free(struct qp *qp)
{
    contract(!qp->on_lane.listed && !qp->on_lane.number);
    for (int slot = 0; slot < WIRE_SLOTS; slot++)
        if (qp->rnic->wires[slot])
            qp->rnic->wires[slot]->qp_free(qp);
    wq_close(&qp->sq);
    wq_close(&qp->rq);
    free(qp->srq_sges);
    sanitizer_close(qp->watch);
    free(qp);
}

enum ri_status core_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
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
    qp = calloc(1, rnic->qp_octets);
    if (!qp) {
        status = RI_ERR_NO_RESOURCES;
        goto uncount;
    }
    qp->base.ops = rnic->user;
    qp->base.context = attr->context;
    qp->rnic = rnic;
    atomic_init(&qp->wire, &no_wire);
    qp->lane = attr->lane ? container_of(attr->lane, struct lane, base) : rnic->lanes[0];
    qp->pd = pd;
    qp->send_cq = container_of(attr->send_cq, struct cq, base);
    qp->recv_cq = container_of(attr->recv_cq, struct cq, base);
    qp->qpn = atomic_fetch_add(&rnic->next_qpn, 1) + 1;
    qp->type = (uint8_t)attr->type;
    qp->attr.ird = attr->ird;
    qp->attr.ord = attr->ord;
    atomic_init(&qp->attr.flags, attr->flags);
    qp_set_rq_limits(qp, attr->rq_limit, attr->rq_hard_limit);
    qp->max_read_sge = max_u32(attr->max_read_sge, 1);
    qp->max_write_sge = max_u32(attr->max_write_sge, 1);
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

/* --- the wire --- */

/* Both under posting: a post that finds one finds the other. */
static void set_wire(struct qp *qp, const struct wire *wire, const struct ri_user_ops *ops)
{
    spinlock_assert_held(&qp->sq.posting);
    atomic_store_explicit(&qp->wire, wire, memory_order_relaxed);
    __atomic_store_n(&qp->base.ops, ops, __ATOMIC_RELEASE);
}

static void enlist(struct qp *qp)
{
    struct lane *lane = qp->lane;

    tx_assert_inside(qp);
    spinlock_lock(&lane->lock);
    qp->on_lane.number = ++lane->numbers;
    DL_APPEND2(lane->connected, qp, on_lane.connected_prev, on_lane.connected_next);
    spinlock_unlock(&lane->lock);
}

static void unlist(struct qp *qp)
{
    struct lane *lane = qp->lane;

    spinlock_lock(&lane->lock);
    if (qp->on_lane.number)
        DL_DELETE2(lane->connected, qp, on_lane.connected_prev, on_lane.connected_next);
    qp->on_lane.number = 0;
    spinlock_unlock(&lane->lock);
}

void qp_connected(struct qp *qp, const struct wire *wire, uint32_t ird, uint32_t ord)
{
    struct rnic *rnic = qp->rnic;

    tx_assert_inside(qp);
    contract(qp_state(qp) == RI_QPS_IDLE && qp_wire(qp) == &no_wire);
    enlist(qp);
    spinlock_lock(&qp->sq.posting);
    set_wire(qp, wire, &rnic->connected[wire->slot]);
    spinlock_unlock(&qp->sq.posting);
    spinlock_lock(&qp->life.lock);
    qp->attr.ird = ird;
    qp->attr.ord = ord;
    qp->attr.reads_agreed = ord > 0;
    qp->life.reported = qp->life.lost = qp->life.terminate_wanted = false;
    qp->life.terminate_sent = qp->life.terminate_received = 0;
    qp->life.terminate_length = 0;
    atomic_store(&qp->life.state, RI_QPS_RTS);
    spinlock_unlock(&qp->life.lock);
}

/* A post that found the wire before has appended its requests under posting, or will: tx sends them
 * by the new one. */
void qp_change_wire(struct qp *qp, const struct wire *wire)
{
    tx_assert_inside(qp);
    contract(qp_state(qp) == RI_QPS_RTS && qp_wire(qp) != &no_wire);
    spinlock_lock(&qp->sq.posting);
    set_wire(qp, wire, &qp->rnic->connected[wire->slot]);
    spinlock_unlock(&qp->sq.posting);
}

void qp_release(struct qp *qp)
{
    tx_assert_inside(qp);
    qp_wire(qp)->release(qp);
    unlist(qp); /* behind it: a release of memory meanwhile asks the wire still */
    spinlock_lock(&qp->sq.posting);
    set_wire(qp, &no_wire, qp->rnic->user);
    spinlock_unlock(&qp->sq.posting);
}

/* --- the end --- */

/* From every wire: one that has connected it before may still name it. */
static void hide(struct qp *qp)
{
    for (int slot = 0; slot < WIRE_SLOTS; slot++)
        if (qp->rnic->wires[slot])
            qp->rnic->wires[slot]->hide(qp);
}

static void await_upcalls(struct qp *qp)
{
    qp_assert_unlocked(qp);
    while (atomic_load(&qp->upcalls))
        sched_yield();
}

/*
 * In this order: nothing new is told; no pass, timer or walk finds the QP (each was waited for, or
 * counts in upcalls); no CQ names it; nobody is inside tx. Nobody comes in any more: tx is never
 * left.
 */
enum ri_status core_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct lane *lane = qp->lane;
    struct rnic *rnic = qp->rnic;

    qp_wire(qp)->send_waiting(qp);
    spinlock_lock(&qp->life.lock);
    qp->life.destroyed = true;
    atomic_store(&qp->life.state, RI_QPS_ERROR);
    spinlock_unlock(&qp->life.lock);
    hide(qp);
    unlist(qp);
    lane_wait_pass(lane);
    cq_purge(qp->send_cq, qp);
    cq_retry_blocked(qp->send_cq);
    cq_purge(qp->recv_cq, qp);
    cq_retry_blocked(qp->recv_cq);
    await_upcalls(qp);
    spinlock_lock(&qp->sq.posting); /* as a post that puts it on the list */
    tx_unlist(qp);
    spinlock_unlock(&qp->sq.posting);
    await_upcalls(qp);
    if (qp->srq)
        srq_detach(qp->srq, qp);
    tx_enter(qp);
    qp_release(qp);
    mw_unbind_qp(qp);
    cq_detach(qp->send_cq);
    cq_detach(qp->recv_cq);
    atomic_fetch_sub(&qp->pd->streams, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&rnic->qps, 1);
    spinlock_lock(&lane->lock);
    qp->on_lane.free_next = atomic_load_explicit(&lane->freed, memory_order_relaxed);
    atomic_store_explicit(&lane->freed, qp, memory_order_relaxed);
    atomic_fetch_add(&lane->version, 1);
    spinlock_unlock(&lane->lock);
    if (rnic->options.sanitizers != SANITIZER_OFF)
        sanitizer_left(rnic);
    return RI_OK;
}

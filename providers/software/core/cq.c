/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues: a ring under a spinlock. Here requests whose outcome is known become
 * completions, in order. Each is written once, straight into its slot of the ring. All completions
 * that a work queue has ready are pushed under one hold of the lock.
 *
 * Nothing is lost when a CQ is full (RI_FEATURE_CQ_HOLDS_OVERFLOW): the completion stays in its
 * work queue, and the QP goes onto the CQ's list of blocked queues. While a queue is on the list
 * none of its completions enters the ring, so that later ones do not overtake. A thread that makes
 * room (poll, purge: poll.c) takes queues off the list, oldest first, and has them retired again
 * with the lock dropped. qp->upcalls is counted before the lock is dropped, so that qp_destroy
 * waits.
 *
 * Firing is noted in to_report under the lock; cq_deliver() reports it with no lock held.
 */
#include "cq.h"
#include "tx.h"

#include <stdlib.h>
#include <string.h>

#define SEND    CQ_SENDS
#define RECEIVE CQ_RECEIVES

/* ---- the ring; under the lock ---- */

static void fire_if_wanted(struct cq *cq, const struct ri_wc *wc)
{
    spinlock_assert_held(&cq->lock);
    if (ri_arming_wants(&cq->arming, wc, ri_ring_count(&cq->ring)))
        cq_fire(cq);
}

void cq_end_overflow(struct cq *cq)
{
    spinlock_assert_held(&cq->lock);
    if (ri_ring_is_empty(&cq->ring) && !atomic_load_explicit(&cq->blocked, memory_order_relaxed))
        atomic_store_explicit(&cq->overflowed, false, memory_order_relaxed);
}

/* ---- blocked queues; under the lock ---- */

static void block(struct cq *cq, struct qp *qp, int which)
{
    spinlock_assert_held(&cq->lock);
    contract(!qp->cq_wait[which].on);
    ri_queued_add(&cq->queued[which], &qp->cq_wait[which]);
    atomic_fetch_add_explicit(&cq->blocked, 1, memory_order_relaxed);
    if (!atomic_load_explicit(&cq->overflowed, memory_order_relaxed)) {
        atomic_store_explicit(&cq->overflowed, true, memory_order_relaxed);
        atomic_fetch_or_explicit(&cq->to_report, CQ_OVERFLOWED, memory_order_relaxed);
    }
}

static void unblock(struct cq *cq, struct qp *qp, int which)
{
    spinlock_assert_held(&cq->lock);
    if (ri_queued_remove(&cq->queued[which], &qp->cq_wait[which]))
        atomic_fetch_sub_explicit(&cq->blocked, 1, memory_order_relaxed);
}

struct qp *cq_take_blocked(struct cq *cq, int *which)
{
    struct ri_queued *queued = NULL;
    struct qp *qp = NULL;

    spinlock_assert_not_held(&cq->lock);
    spinlock_lock(&cq->lock);
    if (ri_ring_room(&cq->ring)) {
        if (!cq->queued[*which].first)
            *which = !*which;
        queued = cq->queued[*which].first;
    }
    if (queued) {
        qp = container_of(queued - *which, struct qp, cq_wait[0]);
        ri_queued_remove(&cq->queued[*which], &qp->cq_wait[*which]);
        atomic_fetch_add(&qp->upcalls, 1);
    }
    spinlock_unlock(&cq->lock);
    return qp;
}

void cq_retried(struct cq *cq)
{
    spinlock_lock(&cq->lock);
    atomic_fetch_sub_explicit(&cq->blocked, 1, memory_order_relaxed);
    cq_end_overflow(cq);
    spinlock_unlock(&cq->lock);
}

/* ---- retirement ---- */

static const uint8_t wc_opcodes[] = {
    [RI_WR_SEND] = RI_WC_SEND,
    [RI_WR_RDMA_WRITE] = RI_WC_RDMA_WRITE,
    [RI_WR_RDMA_READ] = RI_WC_RDMA_READ,
    [RI_WR_RDMA_WRITE_IMMEDIATE] = RI_WC_RDMA_WRITE,
    [RI_WR_ATOMIC_FETCH_ADD] = RI_WC_FETCH_ADD,
    [RI_WR_ATOMIC_COMPARE_SWAP] = RI_WC_COMPARE_SWAP,
    [RI_WR_SEND_IMMEDIATE] = RI_WC_SEND,
    [RI_WR_SEND_INVALIDATE] = RI_WC_SEND,
    [RI_WR_RDMA_READ_INVALIDATE] = RI_WC_RDMA_READ,
    [RI_WR_BIND_WINDOW] = RI_WC_BIND_WINDOW,
    [RI_WR_LOCAL_INVALIDATE] = RI_WC_LOCAL_INVALIDATE,
    [RI_WR_FAST_REGISTER] = RI_WC_FAST_REGISTER,
};

/* Otherwise the request is done without a completion. */
static inline bool completes(const struct wqe *wqe, bool receive)
{
    return receive || (wqe->flags & RI_WR_SIGNALED) || wqe->status != RI_WC_SUCCESS;
}

static inline bool is_done(const struct wqe *wqe)
{
    return atomic_load_explicit(&wqe->done, memory_order_acquire);
}

static inline enum ri_wc_opcode opcode_of(const struct wqe *wqe, bool receive)
{
    return receive ? RI_WC_RECV : wc_opcodes[wqe->opcode];
}

/* Does the completion report success and at most its mark? */
static inline bool is_plain(const struct wqe *wqe)
{
    return !(wqe->status | wqe->wc_flags);
}

/* Of a receive of datagrams, which is never plain. */
static void describe_datagram(struct ri_wc *wc, const struct wqe *wqe)
{
    wc->opcode = RI_WC_RECV_DATAGRAM;
    wc->source.qpn = wqe->rkey;
    wc->source.sl = wqe->opcode;
    memcpy(wc->source_gid, &wqe->remote_addr, sizeof(wqe->remote_addr));
    memcpy(wc->source_gid + sizeof(wqe->remote_addr), &wqe->compare, sizeof(wqe->compare));
}

/* The members of a completion that is not plain. */
static void describe_more(struct ri_wc *wc, const struct wqe *wqe)
{
    wc->status = wqe->status;
    wc->vendor_error = wqe->vendor_error;
    wc->flags |= wqe->wc_flags & (uint8_t) ~(WC_NAMES_STAG | WC_WHOLE | WC_OF_SEND);
    if ((wqe->wc_flags & WC_WHOLE) && wqe->status == RI_WC_SUCCESS)
        wc->byte_len = (uint32_t)wqe->operand;
    if (wqe->wc_flags & (RI_WC_WITH_IMMEDIATE | RI_WC_WITH_INVALIDATE | WC_NAMES_STAG))
        wc->immediate = (uint32_t)wqe->operand; /* or the STag */
    if (wqe->wc_flags & RI_WC_WITH_IMMEDIATE) {
        wc->opcode = wqe->wc_flags & WC_OF_SEND ? RI_WC_RECV : RI_WC_RECV_IMMEDIATE;
        wc->immediate_high = (uint32_t)(wqe->operand >> 32);
    }
}

/* Of a part that was flushed, the status of the one behind it that ended the connection. */
static const struct wqe *culprit(struct wq *wq, uint32_t index, uint32_t posted)
{
    const struct wqe *first = wq_slot(wq, index), *wqe = first;

    while (wqe->status == RI_WC_FLUSHED && (wqe->flags & WQE_PART) && ++index != posted) {
        wqe = wq_slot(wq, index);
        if (!is_done(wqe))
            return first;
    }
    return wqe->status == RI_WC_SUCCESS ? first : wqe;
}

/* Push completions of any kind from `index` on. Under the lock. False: the ring is full. */
static __attribute__((noinline)) bool retire(struct cq *cq, struct qp *qp, struct wq *wq,
                                             uint32_t index, uint32_t posted)
{
    const int which = wq->receive ? RECEIVE : SEND;
    bool room = true;

    spinlock_assert_held(&cq->lock);
    for (; index != posted; index++) {
        struct wqe *wqe = wq_slot(wq, index);
        struct ri_wc *wc;

        if (!is_done(wqe))
            break;
        if (!completes(wqe, wq->receive))
            continue;
        if (wq->part_failed) { /* its request was reported: it is as one that nobody hears of */
            wq->part_failed = wqe->flags & WQE_PART;
            wqe->flags &= (uint16_t)~RI_WR_SIGNALED;
            wqe->status = RI_WC_SUCCESS;
            continue;
        }
        room = !qp->cq_wait[which].on && ri_ring_room(&cq->ring);
        if (!room) {
            if (!qp->cq_wait[which].on)
                block(cq, qp, which);
            break;
        }
        wc = cq_push(cq, qp, wq, wqe, index, wqe->byte_len, opcode_of(wqe, wq->receive),
                     wq->receive && qp->srq);
        cq->marked -= cq_marked(wc);
        describe_more(wc, wqe);
        if (wq->receive && qp->type == RI_QP_UD)
            describe_datagram(wc, wqe);
        if (wqe->flags & WQE_PART && !wq->receive) {
            wc->status = culprit(wq, index, posted)->status;
            wq->part_failed = true;
        }
        cq->marked += cq_marked(wc);
        fire_if_wanted(cq, wc);
    }
    atomic_store_explicit(&wq->done, index, memory_order_release);
    return room;
}

/* The same as long as completions are plain and the CQ is not armed: the data path. */
static inline __attribute__((always_inline)) bool retire_plain(struct cq *cq, struct qp *qp,
                                                               struct wq *wq, bool receive)
{
    spinlock_assert_held(&cq->lock);
    /* Requests behind `sent` may be done by their answers while tx still reads them. */
    const uint32_t posted = atomic_load_explicit(receive ? &wq->posted : &wq->sent,
                                                 memory_order_acquire);
    uint32_t index = atomic_load_explicit(&wq->done, memory_order_relaxed);
    uint32_t room = ri_ring_room(&cq->ring);

    if (cq->arming.kind != RI_NOT_ARMED || qp->cq_wait[receive ? RECEIVE : SEND].on)
        return retire(cq, qp, wq, index, posted);
    for (; index != posted; index++) {
        const struct wqe *wqe = wq_slot(wq, index);

        if (!is_done(wqe))
            break;
        if (!completes(wqe, receive))
            continue;
        if (!is_plain(wqe) || !room--)
            return retire(cq, qp, wq, index, posted);
        cq_push(cq, qp, wq, wqe, index, wqe->byte_len, opcode_of(wqe, receive), receive && qp->srq);
    }
    atomic_store_explicit(&wq->done, index, memory_order_release);
    return true;
}

/* The completions wait in the work queue, but the connection ends (WIRE: 0x0207). */
static void overflow(struct qp *qp)
{
    static const struct qp_end end = { .event = RI_EVENT_QP_OVERFLOW,
                                       .detail = "its completion queue is full" };

    qp_wire(qp)->terminate(qp, QP_CAUSE_CQ_OVERFLOW, &end);
}

void qp_retire_sends(struct qp *qp)
{
    struct cq *cq = qp->send_cq;
    bool room;

    qp_assert_unlocked(qp);
    spinlock_lock(&cq->lock);
    room = retire_plain(cq, qp, &qp->sq, false);
    spinlock_unlock(&cq->lock);
    if (unlikely(!room))
        overflow(qp);
}

void qp_retire_receives(struct qp *qp)
{
    struct cq *cq = qp->recv_cq;
    bool room;

    qp_assert_unlocked(qp);
    spinlock_lock(&cq->lock);
    room = retire_plain(cq, qp, &qp->rq, true);
    spinlock_unlock(&cq->lock);
    if (unlikely(!room))
        overflow(qp);
}

/* The same for the fast path: completions are plain, the CQ is not armed, receives come from no
 * SRQ. False: the others are left to qp_retire(). */
static inline __attribute__((always_inline)) bool retire_fast(struct cq *cq, struct qp *qp,
                                                              struct wq *wq, bool receive)
{
    const struct wqe *wqe;
    uint32_t index, posted, room;

    if (unlikely(!spinlock_try_blind(&cq->lock)))
        return false;
    posted = atomic_load_explicit(receive ? &wq->posted : &wq->sent, memory_order_acquire);
    index = atomic_load_explicit(&wq->done, memory_order_relaxed);
    room = ri_ring_room(&cq->ring);
    if (unlikely(cq->arming.kind != RI_NOT_ARMED) ||
        unlikely(qp->cq_wait[receive ? RECEIVE : SEND].on))
        goto later;
    for (; index != posted; index++) {
        wqe = wq_slot(wq, index);
        if (!is_done(wqe))
            break;
        if (!completes(wqe, receive))
            continue;
        if (unlikely(!is_plain(wqe)) || unlikely(!room--))
            goto later;
        cq_push(cq, qp, wq, wqe, index, wqe->byte_len, opcode_of(wqe, receive), false);
    }
    atomic_store_explicit(&wq->done, index, memory_order_release);
    spinlock_unlock(&cq->lock);
    return true;

later:
    atomic_store_explicit(&wq->done, index, memory_order_release);
    spinlock_unlock(&cq->lock);
    return false;
}

bool qp_retire_received(struct qp *qp)
{
    contract(!qp->srq);
    return retire_fast(qp->recv_cq, qp, &qp->rq, true);
}

bool qp_retire_answered(struct qp *qp)
{
    return retire_fast(qp->send_cq, qp, &qp->sq, false);
}

/* They stand behind the last request that completes. A later completion would free them, and there
 * is none: the queue takes their indices again. */
void qp_free_unsignalled(struct qp *qp)
{
    struct cq *cq = qp->send_cq;
    struct wq *sq = &qp->sq;
    uint32_t end;

    tx_assert_inside(qp);
    contract(qp_state(qp) == RI_QPS_IDLE);
    spinlock_lock(&cq->lock);
    end = atomic_load(&sq->posted);
    while (end != atomic_load(&sq->freed) && !completes(wq_slot(sq, end - 1), false))
        end--;
    atomic_store(&sq->posted, end);
    atomic_store(&sq->next, end);
    atomic_store(&sq->sent, end);
    if ((int32_t)(atomic_load(&sq->done) - end) > 0)
        atomic_store(&sq->done, end);
    spinlock_unlock(&cq->lock);
}

/* ---- for the QP ---- */

void cq_deliver(struct cq *cq)
{
    const struct ri_host *host = cq->rnic->host;
    unsigned int to_report;

    spinlock_assert_not_held(&cq->lock);
    if (!cq_has_pending_events(cq))
        return;
    atomic_fetch_add(&cq->upcalls, 1);
    to_report = atomic_exchange(&cq->to_report, 0);
    if (to_report & CQ_OVERFLOWED) {
        const struct ri_event event = {
            .size = sizeof(event),
            .type = RI_EVENT_CQ_OVERFLOW,
            .detail = "the completion queue is full; completions wait in their queue pairs",
        };

        host->cq_error(host, cq->base.context, &event);
    }
    if (to_report & CQ_FIRED)
        host->cq_event(host, cq->base.context);
    atomic_fetch_sub(&cq->upcalls, 1);
}

/* Upper bound for the completions of the queue that are not polled yet. Under the lock. */
static uint32_t waiting_most(const struct wq *wq)
{
    return atomic_load_explicit(&wq->done, memory_order_relaxed) -
           atomic_load_explicit(&wq->freed, memory_order_relaxed);
}

/* The position behind the newest completion of the QP. The scan begins with the oldest entry and
 * ends when it has found as many as there can be: otherwise each of many QPs that share a CQ and
 * end together would scan all entries. Under the lock. */
static uint32_t end_of_own(const struct cq *cq, const struct qp *qp, uint32_t head)
{
    uint32_t tail = ri_ring_tail(&cq->ring), end = head;
    uint32_t left = (qp->send_cq == cq ? waiting_most(&qp->sq) : 0) +
                    (qp->recv_cq == cq ? waiting_most(&qp->rq) : 0);

    spinlock_assert_held(&cq->lock);
    for (uint32_t at = head; at != tail && left; at++) {
        const struct wq *wq = cq->entries[at & cq->ring.mask].wq;

        if (wq == &qp->sq || wq == &qp->rq) {
            end = at + 1;
            left--;
        }
    }
    return end;
}

/* The other entries keep their order; the ring is closed up towards the newest. The queues of
 * the QP stay marked as blocked: a retry in another thread pushes nothing more for it. */
static void purge(struct cq *cq, struct qp *qp)
{
    uint32_t head, to;

    spinlock_assert_held(&cq->lock);
    head = ri_ring_head(&cq->ring);
    to = end_of_own(cq, qp, head);
    for (uint32_t from = to; from != head;) {
        struct cq_entry *entry = &cq->entries[--from & cq->ring.mask];

        if (entry->wq == &qp->sq || entry->wq == &qp->rq) {
            cq->marked -= cq_marked(&entry->wc);
            continue;
        }
        to--;
        if (to != from)
            cq->entries[to & cq->ring.mask] = *entry;
    }
    ri_ring_take_to(&cq->ring, to);
    for (int which = SEND; which <= RECEIVE; which++)
        if ((which == RECEIVE ? qp->recv_cq : qp->send_cq) == cq) {
            unblock(cq, qp, which);
            qp->cq_wait[which].on = true;
        }
    cq_end_overflow(cq);
}

void cq_purge(struct cq *cq, struct qp *qp)
{
    spinlock_lock(&cq->lock);
    purge(cq, qp);
    spinlock_unlock(&cq->lock);
}

/* Under the CQ's lock, and under posting. */
static void forget(struct qp *qp, struct wq *wq)
{
    uint32_t posted = atomic_load_explicit(&wq->posted, memory_order_relaxed);

    if (wq->receive && qp->srq)
        atomic_fetch_sub(&qp->srq->outstanding,
                         posted - atomic_load_explicit(&wq->freed, memory_order_relaxed));
    atomic_store_explicit(&wq->done, posted, memory_order_relaxed);
    atomic_store_explicit(&wq->freed, posted, memory_order_release);
    wq->part_failed = false;
    qp->cq_wait[wq->receive ? RECEIVE : SEND].on = false;
}

void cq_forget(struct cq *cq, struct qp *qp)
{
    contract(qp_state(qp) == RI_QPS_IDLE);
    spinlock_lock(&qp->sq.posting);
    spinlock_lock(&qp->rq.posting);
    spinlock_lock(&cq->lock);
    purge(cq, qp);
    if (qp->send_cq == cq)
        forget(qp, &qp->sq);
    if (qp->recv_cq == cq)
        forget(qp, &qp->rq);
    spinlock_unlock(&cq->lock);
    spinlock_unlock(&qp->rq.posting);
    spinlock_unlock(&qp->sq.posting);
}

/* ---- operations ---- */

enum ri_status core_cq_peek(struct ri_cq *base, uint32_t *total, uint32_t *notify)
{
    struct cq *cq = container_of(base, struct cq, base);

    spinlock_lock(&cq->lock);
    *total = ri_ring_count(&cq->ring);
    *notify = cq->marked;
    spinlock_unlock(&cq->lock);
    return RI_OK;
}

void cq_attach(struct cq *cq, struct lane *lane)
{
    spinlock_lock(&cq->lock);
    if (!atomic_fetch_add(&cq->users, 1)) {
        atomic_store_explicit(&cq->home, lane, memory_order_relaxed);
        atomic_store_explicit(&cq->lane, lane, memory_order_relaxed);
    } else if (atomic_load_explicit(&cq->lane, memory_order_relaxed) != lane) {
        atomic_store_explicit(&cq->lane, NULL, memory_order_relaxed);
    }
    spinlock_unlock(&cq->lock);
}

void cq_detach(struct cq *cq)
{
    atomic_fetch_sub(&cq->users, 1);
}

enum ri_status core_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr, struct ri_cq **out)
{
    struct rnic *rnic = container_of(base, struct rnic, base);
    enum ri_status status = RI_ERR_NO_RESOURCES;
    struct cq *cq;

    if (!attr->depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->depth > rnic->attr.max_cqe)
        return RI_ERR_LIMIT;
    if (atomic_fetch_add(&rnic->cqs, 1) >= rnic->attr.max_cq) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq)
        goto uncount;
    cq->entries = calloc(ri_ring_slots(attr->depth), sizeof(*cq->entries));
    if (!cq->entries)
        goto free_cq;
    cq->base.ops = rnic->user;
    cq->base.context = attr->context;
    cq->rnic = rnic;
    spinlock_init(&cq->lock);
    ri_ring_init(&cq->ring, attr->depth);
    cq->arming.kind = RI_NOT_ARMED;
    *out = &cq->base;
    return RI_OK;

free_cq:
    free(cq);
uncount:
    atomic_fetch_sub(&rnic->cqs, 1);
    return status;
}

enum ri_status core_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = container_of(base, struct cq, base);

    if (atomic_load(&cq->users))
        return RI_ERR_BUSY;
    while (atomic_load(&cq->upcalls))
        sched_yield();
    atomic_fetch_sub(&cq->rnic->cqs, 1);
    free(cq->entries);
    free(cq);
    return RI_OK;
}

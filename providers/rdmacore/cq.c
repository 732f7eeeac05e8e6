/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues: poll, arm, the completion channel. The slot of a request has what its
 * completion lacks.
 *
 * Watching for errors. A failed request ends its connection, and this must be reported even if the
 * consumer does not poll. For the requester InfiniBand has no asynchronous event for it. But a CQ
 * armed for solicited completions fires for every completion in error. So a CQ that the consumer
 * has not armed is armed in that way, and when it fires its completions are checked.
 *
 * Wake-ups. The channel is in the lane's epoll set. Its event is acknowledged after the upcall, so
 * that the CQ exists until then (async.c), and the device's CQ is not destroyed before the upcall
 * is over (cq_enter). Completions that go to the stash instead of the device's CQ fire by cq_fire.
 * In both cases the consumer arms and then polls again, so that it misses nothing in between.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 16

static struct cq *cq_of(struct ri_cq *base)
{
    return container_of(base, struct cq, base);
}

/* Under the lock. */
static void purge(struct cq *cq, const struct qp *gone)
{
    uint32_t to = cq->stash_head;

    for (uint32_t at = to; at != cq->stash_tail; at++)
        if (cq->stash[at].qp != gone)
            cq->stash[to++] = cq->stash[at];
    cq->stash_tail = to;
}

/* ---- one completion; under the lock ---- */

/* The QP of a completion. For a receive of an SRQ it is found by number. NULL: the QP was
 * destroyed. */
static struct qp *owner(struct cq *cq, const struct ibv_wc *raw, struct slot *slot)
{
    struct qp *qp;

    HASH_FIND(hh, cq->by_number, &raw->qp_num, sizeof(raw->qp_num), qp);
    srq_put(slot->srq, slot);
    return qp;
}

/* A filler failed, and the request behind it fails with its status: see window.c. */
static struct qp *filler_failed(struct qp *qp, const struct ibv_wc *raw)
{
    if (raw->status != IBV_WC_WR_FLUSH_ERR)
        atomic_store(&qp->filler_status, (unsigned int)rdmacore_wc_status(raw->status));
    return NULL;
}

/* Completes a bind or an invalidate; if it failed, restores the count of keys. */
static void complete_window(struct cq *cq, const struct slot *slot, bool good, struct ri_wc *wc)
{
    wc->invalidated_stag = slot->stag;
    wc->byte_len = 0;
    if (!good)
        window_failed(cq->rnic, slot);
}

static void receive_flags(struct cq *cq, const struct ibv_wc *raw, struct ri_wc *wc)
{
    if (raw->wc_flags & IBV_WC_WITH_INV) {
        struct mw *mw = rdmacore_window(cq->rnic, raw->invalidated_rkey);

        if (mw)
            rdmacore_window_unbound(mw);
        wc->flags |= RI_WC_WITH_INVALIDATE;
        wc->invalidated_stag = raw->invalidated_rkey;
    } else if (raw->wc_flags & IBV_WC_WITH_IMM) {
        wc->flags |= RI_WC_WITH_IMMEDIATE;
        wc->immediate = be32toh(raw->imm_data);
    }
    if (raw->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        wc->opcode = RI_WC_RECV_IMMEDIATE;
}

static void datagram_received(const struct ibv_wc *raw, const struct slot *slot, struct ri_wc *wc)
{
    wc->opcode = RI_WC_RECV_DATAGRAM;
    if (raw->status == IBV_WC_SUCCESS)
        datagram_source(raw, slot->header, wc);
}

static inline void fill(const struct slot *slot, const struct ibv_wc *raw, struct ri_wc *wc)
{
    uint8_t opcode = slot->opcode;

    wc->cookie = slot->cookie;
    wc->byte_len = opcode >= RI_WC_RECV ? raw->byte_len : slot->length;
    wc->status = RI_WC_SUCCESS;
    wc->opcode = opcode;
    wc->flags = 0;
    wc->invalidated_stag = 0;
    wc->vendor_error = 0;
    wc->immediate_high = 0;
}

static void fail(struct qp *qp, const struct slot *slot, const struct ibv_wc *raw, struct ri_wc *wc)
{
    wc->status = (uint16_t)rdmacore_wc_status(raw->status);
    if (wc->status == RI_WC_FLUSHED && (slot->flags & SLOT_STAG) && atomic_load(&qp->filler_status))
        wc->status = (uint16_t)atomic_exchange(&qp->filler_status, 0);
    wc->byte_len = 0;
    wc->vendor_error = raw->vendor_err;
}

/* True: this request's failure was reported already. What is flushed behind it follows. */
static bool request_failed(struct wq *wq, struct cq *cq, const struct slot *slot)
{
    bool reported = wq_was_reported(wq, slot->flags);

    wq_flush(wq, cq);
    return reported;
}

/* Errors, receives of an SRQ, datagrams, and completions with more than a length. NULL: dropped. */
static struct qp *__attribute__((noinline))
translate_special(struct cq *cq, const struct ibv_wc *raw, struct ri_wc *wc)
{
    struct slot *slot = (struct slot *)(uintptr_t)raw->wr_id, copy = *slot;
    bool good = raw->status == IBV_WC_SUCCESS;
    struct qp *qp = slot->qp;

    if (copy.flags & SLOT_FILLER)
        return filler_failed(qp, raw);
    fill(&copy, raw, wc);
    if (copy.flags & SLOT_NOTIFY)
        wc->flags |= RI_WC_NOTIFY;
    if (good && copy.opcode >= RI_WC_RECV)
        receive_flags(cq, raw, wc);
    if (!qp) {
        qp = owner(cq, raw, slot);
        if (!qp)
            return NULL;
    } else {
        struct wq *wq = slot->wq;

        /* A late completion of a request that was flushed already. */
        if (!good && (int32_t)(copy.index - wq_completed(wq)) < 0)
            return NULL;
        wq_free_up_to(wq, copy.index + 1);
        if (good ? copy.flags & SLOT_PART : request_failed(wq, cq, &copy))
            return NULL;
    }
    if (copy.flags & SLOT_STAG)
        complete_window(cq, &copy, good, wc);
    if (qp->datagram && copy.opcode >= RI_WC_RECV)
        datagram_received(raw, &copy, wc);
    wc->context = qp->base.context;
    if (!good)
        fail(qp, &copy, raw, wc);
    return qp;
}

/* Converts a completion. NULL: dropped. */
static inline struct qp *translate(struct cq *cq, const struct ibv_wc *raw, struct ri_wc *wc)
{
    const struct slot *slot = (const struct slot *)(uintptr_t)raw->wr_id;
    struct qp *qp = slot->qp;

    if (unlikely(!qp || ((uint32_t)raw->status | raw->wc_flags | slot->flags)))
        return translate_special(cq, raw, wc);
    /* The completion covers all earlier requests: unsignalled ones are free too. */
    wq_free_up_to(slot->wq, slot->index + 1);
    wc->context = qp->base.context;
    fill(slot, raw, wc);
    return qp;
}

/* ---- failures ---- */

/* A failed request has ended its connection. This is reported after the lock is released. */
static void __attribute__((cold, noinline))
queue_failed(struct qp *qp, const struct ri_wc *wc, struct qp **failed)
{
    if (wc->status == RI_WC_FLUSHED || atomic_exchange(&qp->failing, true))
        return;
    atomic_fetch_add(&qp->upcalls, 1);
    qp->next_failed = *failed;
    *failed = qp;
}

static void __attribute__((cold, noinline)) report_failed(struct qp *failed)
{
    struct qp *next;

    for (; failed; failed = next) {
        next = failed->next_failed;
        failed->request_failed(failed);
        atomic_fetch_sub(&failed->upcalls, 1);
    }
}

void cq_drain(struct cq *cq, const struct qp *gone)
{
    struct ibv_wc raw[BATCH];
    struct qp *failed = NULL;
    int got;

    spinlock_lock(&cq->lock);
    if (gone)
        purge(cq, gone);
    do {
        got = ibv_poll_cq(cq->ibv, BATCH, raw);
        for (int i = 0; i < got; i++) {
            struct ri_wc wc = { .context = NULL };
            struct qp *qp = translate(cq, &raw[i], &wc);

            if (!qp || qp == gone)
                continue;
            cq_stash(cq, &wc, qp, NULL, false);
            if (wc.status != RI_WC_SUCCESS)
                queue_failed(qp, &wc, &failed);
        }
    } while (got == BATCH);
    if (gone) /* requests that became complete with the last completions */
        purge(cq, gone);
    spinlock_unlock(&cq->lock);
    report_failed(failed);
}

void cq_drop(struct cq *cq, struct qp *qp, struct wq *wq)
{
    uint32_t tail;

    cq_drain(cq, qp);
    spinlock_lock(&wq->lock);
    spinlock_lock(&cq->lock);
    tail = atomic_load_explicit(&wq->tail, memory_order_relaxed);
    for (uint32_t at = wq_completed(wq); at != tail; at++)
        if (wq->slots[at & wq->mask].flags & SLOT_STAG)
            window_failed(qp->rnic, &wq->slots[at & wq->mask]);
    purge(cq, qp);
    wq->pending = 0;
    wq->part_failed = false;
    wq_free_up_to(wq, tail);
    spinlock_unlock(&cq->lock);
    spinlock_unlock(&wq->lock);
}

/* ---- poll ---- */

static uint32_t take_stashed(struct cq *cq, uint32_t count, struct ri_wc *wc, struct qp **failed)
{
    uint32_t taken = 0;

    while (taken < count && cq->stash_head != cq->stash_tail) {
        const struct stashed *at = &cq->stash[cq->stash_head++];

        if (at->wq) {
            at->wq->pending--;
            wq_free_up_to(at->wq, wq_freed(at->wq) + 1);
        }
        if (at->silent)
            continue;
        wc[taken] = at->wc;
        if (at->wc.status != RI_WC_SUCCESS)
            queue_failed(at->qp, &at->wc, failed);
        taken++;
    }
    if (cq->stash_head == cq->stash_tail)
        cq->stash_head = cq->stash_tail = 0;
    return taken;
}

/* For more than one, or with completions in the stash. Releases the lock. */
static uint32_t __attribute__((noinline)) poll_many(struct cq *cq, uint32_t count, struct ri_wc *wc)
{
    struct ibv_wc raw[BATCH];
    struct qp *failed = NULL;
    uint32_t taken = take_stashed(cq, count, wc, &failed);

    while (taken < count) {
        int want = count - taken < BATCH ? (int)(count - taken) : BATCH;
        int got = ibv_poll_cq(cq->ibv, want, raw);

        for (int i = 0; i < got; i++) {
            struct qp *qp = translate(cq, &raw[i], &wc[taken]);

            if (unlikely(!qp))
                continue;
            if (unlikely(wc[taken].status != RI_WC_SUCCESS))
                queue_failed(qp, &wc[taken], &failed);
            taken++;
        }
        if (got < want)
            break;
    }
    /* Errors may have completed soft requests, for which no wake-up would come. */
    if (taken < count)
        taken += take_stashed(cq, count - taken, wc + taken, &failed);
    spinlock_unlock(&cq->lock);
    report_failed(failed);
    return taken;
}

static uint32_t __attribute__((cold, noinline))
poll_contended(struct cq *cq, uint32_t count, struct ri_wc *wc)
{
    spinlock_lock(&cq->lock);
    return poll_many(cq, count, wc);
}

/* The completion that was taken is an error, or is dropped. Releases the lock. */
static uint32_t __attribute__((cold, noinline))
poll_failed(struct cq *cq, struct qp *qp, struct ri_wc *wc)
{
    struct qp *failed = NULL;

    if (!qp)
        return poll_many(cq, 1, wc);
    queue_failed(qp, wc, &failed);
    spinlock_unlock(&cq->lock);
    report_failed(failed);
    return 1;
}

uint32_t rdmacore_poll(struct ri_cq *base, uint32_t count, struct ri_wc *wc)
{
    struct cq *cq = cq_of(base);
    struct ibv_wc raw;
    struct qp *qp;

    if (unlikely(!spinlock_try_blind(&cq->lock)))
        return poll_contended(cq, count, wc);
    if (count != 1 || unlikely(cq->stash_head != cq->stash_tail))
        return poll_many(cq, count, wc);
    if (ibv_poll_cq(cq->ibv, 1, &raw) <= 0) {
        spinlock_unlock(&cq->lock);
        return 0;
    }
    qp = translate(cq, &raw, wc);
    if (unlikely(!qp || wc->status != RI_WC_SUCCESS))
        return poll_failed(cq, qp, wc);
    spinlock_unlock(&cq->lock);
    return 1;
}

/* ---- arm and fire ---- */

enum ri_status rdmacore_arm(struct ri_cq *base, enum ri_arm kind, uint32_t count)
{
    struct cq *cq = cq_of(base);
    int cancel, error;

    (void)count;
    if ((unsigned int)kind > RI_ARM_SOLICITED)
        return (unsigned int)kind > RI_ARM_NTH ? RI_ERR_INVALID_ARGUMENT : RI_ERR_NOT_SUPPORTED;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    error = ibv_req_notify_cq(cq->ibv, kind == RI_ARM_SOLICITED);
    pthread_setcancelstate(cancel, NULL);
    /* Last: if a completion fires before this, the caller finds it, because it polls after
     * arming. */
    atomic_store(&cq->armed, true);
    return error ? RI_ERR_DEVICE : RI_OK;
}

void cq_watch_errors(struct cq *cq)
{
    if (!cq->rnic->iwarp) /* otherwise the end of the stream is reported */
        ibv_req_notify_cq(cq->ibv, 1);
}

void cq_fire(struct cq *cq)
{
    const struct ri_host *host = cq->rnic->host;
    bool any;

    spinlock_lock(&cq->lock);
    any = cq->stash_head != cq->stash_tail;
    atomic_fetch_add(&cq->upcalls, 1);
    spinlock_unlock(&cq->lock);
    if (any && atomic_exchange(&cq->armed, false))
        host->cq_event(host, cq->base.context);
    atomic_fetch_sub(&cq->upcalls, 1);
}

bool cq_enter(struct cq *cq)
{
    atomic_fetch_add(&cq->upcalls, 1);
    if (!atomic_load(&cq->leaving))
        return true;
    atomic_store(&cq->missed, true);
    cq_leave(cq);
    return false;
}

void cq_leave(struct cq *cq)
{
    atomic_fetch_sub(&cq->upcalls, 1);
}

/* Arms before it reads the CQ: a failure after that fires. */
static void handle_event(struct cq *cq)
{
    const struct ri_host *host = cq->rnic->host;
    bool wanted = atomic_exchange(&cq->armed, false);

    cq_watch_errors(cq);
    if (wanted)
        host->cq_event(host, cq->base.context);
    else
        cq_drain(cq, NULL);
}

void cq_fired(struct cq *cq)
{
    if (cq_enter(cq)) {
        handle_event(cq);
        cq_leave(cq);
    }
}

/* ---- life ---- */

enum ri_status rdmacore_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr, struct ri_cq **out)
{
    struct rnic *rnic = rnic_of(base);
    struct cq *cq;
    int error;

    if (!attr->depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->depth > rnic->attr.max_cqe)
        return RI_ERR_LIMIT;
    cq = calloc(1, sizeof(*cq));
    if (!cq)
        return RI_ERR_NO_RESOURCES;
    cq->base.ops = rnic->user;
    cq->base.context = attr->context;
    cq->rnic = rnic;
    cq->depth = attr->depth;
    pthread_mutex_init(&cq->sizing, NULL);
    spinlock_init(&cq->lock);
    cq->ibv = rdmacore->create_cq(rnic->verbs, (int)attr->depth, cq, rnic->channel, 0);
    if (!cq->ibv) {
        error = errno;
        pthread_mutex_destroy(&cq->sizing);
        free(cq);
        return rdmacore_status(error);
    }
    if (cq->ibv->cqe > 0 && (uint32_t)cq->ibv->cqe > attr->depth)
        attr->depth = (uint32_t)cq->ibv->cqe;
    atomic_fetch_add(&rnic->cqs, 1);
    *out = &cq->base;
    return RI_OK;
}

/* Under sizing: the depth that the device's CQ needs. */
static int device_depth(const struct cq *cq, uint32_t depth)
{
    uint64_t wanted = (uint64_t)depth + cq->parts;

    return (int)(wanted < cq->rnic->attr.max_cqe ? wanted : cq->rnic->attr.max_cqe);
}

/* A device that cannot resize, or has no memory now, keeps its depth: then a consumer whose CQ has
 * a place for each request and no more may lose it when all parts of all requests fail. */
void cq_reserve(struct cq *cq, uint32_t parts)
{
    int wanted;

    if (!parts || !(cq->rnic->attr.features & RI_FEATURE_CQ_RESIZE))
        return;
    pthread_mutex_lock(&cq->sizing);
    cq->parts += parts;
    wanted = device_depth(cq, cq->depth);
    if (wanted > cq->ibv->cqe)
        rdmacore->resize_cq(cq->ibv, wanted);
    pthread_mutex_unlock(&cq->sizing);
}

void cq_release(struct cq *cq, uint32_t parts)
{
    if (!parts || !(cq->rnic->attr.features & RI_FEATURE_CQ_RESIZE))
        return;
    pthread_mutex_lock(&cq->sizing);
    cq->parts -= parts;
    pthread_mutex_unlock(&cq->sizing);
}

static int resize(struct cq *cq, uint32_t *depth)
{
    int error;

    pthread_mutex_lock(&cq->sizing);
    error = rdmacore_errno(rdmacore->resize_cq(cq->ibv, device_depth(cq, *depth)));
    if (!error) {
        cq->depth = *depth;
        if (cq->ibv->cqe > 0 && (uint32_t)cq->ibv->cqe > *depth + cq->parts)
            *depth = (uint32_t)cq->ibv->cqe - cq->parts;
    }
    pthread_mutex_unlock(&cq->sizing);
    return error;
}

/* If a device has no room it returns the same error as for an invalid depth; invalid depths were
 * refused before. */
enum ri_status rdmacore_cq_resize(struct ri_cq *base, uint32_t *depth)
{
    struct cq *cq = cq_of(base);
    const struct ri_rnic_attr *limits = &cq->rnic->attr;
    int error;

    if (!(limits->features & RI_FEATURE_CQ_RESIZE))
        return RI_ERR_NOT_SUPPORTED;
    if (!*depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (*depth > limits->max_cqe)
        return RI_ERR_LIMIT;
    error = resize(cq, depth);
    if (error)
        return error == EINVAL ? RI_ERR_BUSY : rdmacore_status(error);
    return RI_OK;
}

static void await_upcalls(struct cq *cq)
{
    while (atomic_load(&cq->upcalls))
        sched_yield();
}

/* On return no thread uses the device's CQ, nor will one. */
static void shut(struct cq *cq)
{
    atomic_store(&cq->leaving, true);
    await_upcalls(cq);
}

/* The device has refused the destruction. An event that came meanwhile is handled now; the thread
 * that took it is counted until it has said so. */
static void reopen(struct cq *cq)
{
    atomic_store(&cq->leaving, false);
    await_upcalls(cq);
    if (atomic_exchange(&cq->missed, false))
        cq_fired(cq);
}

enum ri_status rdmacore_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = cq_of(base);
    struct rnic *rnic = cq->rnic;
    int error;

    if (atomic_load(&cq->users))
        return RI_ERR_BUSY;
    shut(cq);
    error = rdmacore_errno(rdmacore->destroy_cq(cq->ibv));
    if (!rdmacore_destroyed(rnic, error)) {
        reopen(cq);
        return rdmacore_status(error);
    }
    await_upcalls(cq);
    atomic_fetch_sub(&rnic->cqs, 1);
    free(cq->stash);
    pthread_mutex_destroy(&cq->sizing);
    free(cq);
    return RI_OK;
}

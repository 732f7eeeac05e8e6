/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A CQ whose completions are counted: it is put over the provider's CQ, and has a ring for
 * completions that were taken for a counter before the program polled. The program polls the ring
 * first, which keeps the order. See counting.h. [data]
 *
 * An event may come for a completion that is dropped: the program polls in vain then, as it has to
 * expect of each event. A ring that is full is not passed: counting goes on when the program has
 * polled.
 */
#include "counting.h"

#include <stdlib.h>
#include <utlist.h>

#define GROUP   16u
#define BUCKETS 64u

struct vb_cq_counting {
    struct ri_cq base; /* first: what is polled */
    struct ri_cq *below;
    struct ual_cq *ual;
    uint32_t reserved;    /* places for completions that the program does not see */
    struct spinlock lock; /* what follows */
    struct vb_qp_counting *senders[BUCKETS], *receivers[BUCKETS]; /* by slot */
    struct ri_wc *ring;
    uint32_t depth, head, held;
};

static struct vb_cq_counting *counting_of(struct ri_cq *base)
{
    return (struct vb_cq_counting *)base; /* its first member */
}

/* --- one completion; under the lock --- */

static const uint8_t kinds[UINT8_MAX + 1] = {
    [RI_WC_SEND] = VB_COUNTED_SEND + 1,           [RI_WC_RDMA_WRITE] = VB_COUNTED_WRITE + 1,
    [RI_WC_RDMA_READ] = VB_COUNTED_READ + 1,      [RI_WC_RECV] = VB_COUNTED_RECV + 1,
    [RI_WC_RECV_IMMEDIATE] = VB_COUNTED_RECV + 1, [RI_WC_RECV_DATAGRAM] = VB_COUNTED_RECV + 1,
};

static void count(struct vb_count *count, const struct ri_wc *wc)
{
    if (wc->status != RI_WC_SUCCESS)
        atomic_fetch_add_explicit(&count->failed, 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&count->done, count->of_octets ? wc->byte_len : 1,
                                  memory_order_relaxed);
}

static const struct vb_qp_counting *find(const struct vb_cq_counting *counting, ual_handle handle,
                                         bool receives)
{
    uint32_t bucket = vb_slot_of(handle) % BUCKETS;
    const struct vb_qp_counting *qp = receives ? counting->receivers[bucket]
                                               : counting->senders[bucket];

    while (qp && qp->handle != handle)
        qp = receives ? qp->next_receiver : qp->next_sender;
    return qp;
}

/* Counts it. False: the program did not ask for it. */
static bool take_one(const struct vb_cq_counting *counting, const struct ri_wc *wc)
{
    bool receives = wc->opcode >= RI_WC_RECV;
    const struct vb_qp_counting *qp = find(counting, (ual_handle)wc->context, receives);
    unsigned int kind = kinds[wc->opcode];

    if (!qp)
        return true;
    if (kind && qp->count[kind - 1])
        count(qp->count[kind - 1], wc);
    return receives || wc->status != RI_WC_SUCCESS || (wc->flags & RI_WC_NOTIFY);
}

/* Takes up to `most` completions out of the provider's CQ. Returns how many; *shown: how many of
 * them stand in wc, for the program. */
static uint32_t take_below(struct vb_cq_counting *counting, uint32_t most, struct ri_wc *wc,
                           uint32_t *shown)
{
    uint32_t got = counting->below->ops->poll(counting->below, most, wc);

    if (unlikely(got > most))
        got = ual_cq_reported_more(counting->ual, got, most);
    *shown = 0;
    for (uint32_t i = 0; i < got; i++) {
        if (take_one(counting, &wc[i]))
            wc[(*shown)++] = wc[i];
        else if (ual_memory_completion(&wc[i]))
            ual_memory_of(counting->ual->device, &wc[i]);
    }
    return got;
}

/* --- what is polled --- */

static uint32_t take_held(struct vb_cq_counting *counting, uint32_t most, struct ri_wc *wc)
{
    uint32_t taken = 0;

    for (; taken < most && counting->held; taken++, counting->held--) {
        wc[taken] = counting->ring[counting->head];
        counting->head = (counting->head + 1) % counting->depth;
    }
    return taken;
}

static uint32_t poll_counting(struct ri_cq *base, uint32_t most, struct ri_wc *wc)
{
    struct vb_cq_counting *counting = counting_of(base);
    uint32_t taken, got, shown;

    spinlock_lock(&counting->lock);
    taken = take_held(counting, most, wc);
    do {
        got = taken < most ? take_below(counting, most - taken, wc + taken, &shown) : 0;
        taken += got ? shown : 0;
    } while (got);
    spinlock_unlock(&counting->lock);
    return taken;
}

/* What is in the ring has arrived before, and does not fire. */
static enum ri_status arm_counting(struct ri_cq *base, enum ri_arm kind, uint32_t number)
{
    struct ri_cq *below = counting_of(base)->below;

    return below->ops->arm(below, kind, number);
}

static enum ri_status peek_counting(struct ri_cq *base, uint32_t *total, uint32_t *notify)
{
    (void)base;
    (void)total;
    (void)notify;
    return RI_ERR_NOT_SUPPORTED;
}

static const struct ri_user_ops counting_ops = {
    .size = sizeof(counting_ops),
    .abi_major = RI_ABI_MAJOR,
    .poll = poll_counting,
    .arm = arm_counting,
    .cq_peek = peek_counting,
};

/* --- what is taken for a counter --- */

static void hold(struct vb_cq_counting *counting, const struct ri_wc *wc, uint32_t number)
{
    for (uint32_t i = 0; i < number; i++, counting->held++)
        counting->ring[(counting->head + counting->held) % counting->depth] = wc[i];
}

uint32_t vb_cq_counting_take(struct vb_cq *cq)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    struct ri_wc taken[GROUP];
    uint32_t total = 0, got, shown;

    spinlock_lock(&counting->lock);
    do {
        uint32_t room = counting->depth - counting->held;

        got = room ? take_below(counting, room < GROUP ? room : GROUP, taken, &shown) : 0;
        if (got)
            hold(counting, taken, shown);
        total += got;
    } while (got);
    spinlock_unlock(&counting->lock);
    return total;
}

/* --- its QPs --- */

void vb_cq_counting_enter(struct vb_cq *cq, struct vb_qp_counting *qp, bool receives)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    uint32_t bucket = vb_slot_of(qp->handle) % BUCKETS;

    spinlock_lock(&counting->lock);
    if (receives)
        LL_PREPEND2(counting->receivers[bucket], qp, next_receiver);
    else
        LL_PREPEND2(counting->senders[bucket], qp, next_sender);
    spinlock_unlock(&counting->lock);
}

void vb_cq_counting_leave(struct vb_cq *cq, struct vb_qp_counting *qp, bool receives)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    uint32_t bucket = vb_slot_of(qp->handle) % BUCKETS;

    spinlock_lock(&counting->lock);
    if (receives)
        LL_DELETE2(counting->receivers[bucket], qp, next_receiver);
    else
        LL_DELETE2(counting->senders[bucket], qp, next_sender);
    spinlock_unlock(&counting->lock);
}

void vb_cq_counting_set(struct vb_cq *cq, struct vb_qp_counting *qp, enum vb_counted kind,
                        struct vb_count *count)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);

    spinlock_lock(&counting->lock);
    qp->count[kind] = count;
    spinlock_unlock(&counting->lock);
}

void vb_cq_counting_forget(struct vb_cq *cq, ual_handle qp)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    uint32_t left = 0;

    if (!counting)
        return;
    spinlock_lock(&counting->lock);
    for (uint32_t i = 0; i < counting->held; i++) {
        const struct ri_wc *wc = &counting->ring[(counting->head + i) % counting->depth];

        if ((ual_handle)wc->context != qp)
            counting->ring[(counting->head + left++) % counting->depth] = *wc;
    }
    counting->held = left;
    spinlock_unlock(&counting->lock);
}

void vb_qp_counting_take(struct vb_qp *qp)
{
    if (qp->counting && qp->counting->sends)
        vb_cq_counting_take(vb_counted_cq(qp, VB_COUNTED_SEND));
    if (qp->counting && qp->counting->receives)
        vb_cq_counting_take(vb_counted_cq(qp, VB_COUNTED_RECV));
}

/* A counter of another QP may have taken completions of this one out of their CQ, too. */
void vb_qp_counting_forget(struct vb_qp *qp)
{
    vb_cq_counting_forget(vb_counted_cq(qp, VB_COUNTED_SEND), qp->ual.object.handle);
    vb_cq_counting_forget(vb_counted_cq(qp, VB_COUNTED_RECV), qp->ual.object.handle);
}

/* --- life; under the context's mutex --- */

int vb_cq_counting_open(struct vb_cq *cq)
{
    struct vb_cq_counting *counting;

    if (atomic_load(&cq->counting))
        return 0;
    counting = calloc(1, sizeof(*counting));
    if (!counting)
        return ENOMEM;
    counting->depth = (uint32_t)cq->ibv.cqe;
    counting->ring = calloc(counting->depth, sizeof(*counting->ring));
    if (!counting->ring) {
        free(counting);
        return ENOMEM;
    }
    counting->base.ops = &counting_ops;
    counting->below = atomic_load(&cq->ual->polled);
    counting->ual = cq->ual;
    spinlock_init(&counting->lock);
    atomic_store(&cq->counting, counting);
    ual_cq_put_over(cq->ual, &counting->base);
    return 0;
}

void vb_cq_counting_close(struct vb_cq *cq)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);

    if (!counting)
        return;
    free(counting->ring);
    free(counting);
}

/* The provider's CQ has room for `cqe` completions and the reserved ones. */
static int fit(struct vb_cq *cq, uint32_t cqe, uint32_t reserved)
{
    uint32_t depth;

    if (__builtin_add_overflow(cqe, reserved, &depth))
        return EINVAL;
    return cq->ual->depth < depth ? vb_errno(ual_cq_resize(cq->ual, depth)) : 0;
}

int vb_cq_counting_reserve(struct vb_cq *cq, uint32_t requests)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    int error = fit(cq, (uint32_t)cq->ibv.cqe, counting->reserved + requests);

    if (error)
        ual_log(RI_LOG_WARNING,
                "%s: ibv_qp_attach_comp_cntr: a completion queue of %d entries has no room for the "
                "%u requests of the queue pair that are not signaled (%s): create it with so many "
                "entries less, or attach no counter of sends",
                cq->ibv.context->device->name, cq->ibv.cqe, requests, strerror(error));
    else
        counting->reserved += requests;
    return error == EINVAL ? ENOMEM : error;
}

void vb_cq_counting_unreserve(struct vb_cq *cq, uint32_t requests)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);

    counting->reserved -= requests;
}

/* The ring is never made smaller: what is in it stays. */
static int resize_ring(struct vb_cq_counting *counting, uint32_t depth)
{
    struct ri_wc *ring, *old;

    if (depth <= counting->depth)
        return 0;
    ring = calloc(depth, sizeof(*ring));
    if (!ring)
        return ENOMEM;
    spinlock_lock(&counting->lock);
    for (uint32_t i = 0; i < counting->held; i++)
        ring[i] = counting->ring[(counting->head + i) % counting->depth];
    old = counting->ring;
    counting->ring = ring;
    counting->depth = depth;
    counting->head = 0;
    spinlock_unlock(&counting->lock);
    free(old);
    return 0;
}

int vb_cq_counting_resize(struct vb_cq *cq, uint32_t cqe)
{
    struct vb_cq_counting *counting = atomic_load(&cq->counting);
    int error;

    pthread_mutex_lock(&cq->ibv.context->mutex);
    error = resize_ring(counting, cqe);
    if (!error)
        error = fit(cq, cqe, counting->reserved);
    if (!error)
        cq->ibv.cqe = (int)cqe;
    pthread_mutex_unlock(&cq->ibv.context->mutex);
    return error == EBUSY ? EINVAL : error;
}

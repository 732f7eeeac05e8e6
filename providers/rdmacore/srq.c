/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared receive queues. Their requests complete in any order, so slots have a free list.
 */
#include "qp.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>

static struct srq *srq_of(struct ri_srq *base)
{
    return container_of(base, struct srq, base);
}

void srq_put(struct srq *srq, struct slot *slot)
{
    spinlock_lock(&srq->lock);
    slot->link = srq->free;
    srq->free = slot;
    srq->posted--;
    spinlock_unlock(&srq->lock);
}

/* Slots for `count` more requests. */
static struct srq_slots *new_slots(struct srq *srq, uint32_t count)
{
    struct srq_slots *block = calloc(1, sizeof(*block) + count * sizeof(block->slots[0]));

    for (uint32_t i = 0; block && i < count; i++) {
        block->slots[i].srq = srq;
        block->slots[i].link = i + 1 < count ? &block->slots[i + 1] : NULL;
    }
    return block;
}

/* Under the lock, or before other threads know the SRQ. */
static void add_slots(struct srq *srq, struct srq_slots *block, uint32_t count)
{
    block->slots[count - 1].link = srq->free;
    srq->free = block->slots;
    block->next = srq->blocks;
    srq->blocks = block;
    srq->slots += count;
}

static void free_slots(struct srq *srq)
{
    struct srq_slots *next;

    for (struct srq_slots *block = srq->blocks; block; block = next) {
        next = block->next;
        free(block);
    }
}

static int arm_limit(struct srq *srq, uint32_t limit)
{
    struct ibv_srq_attr verbs = { .srq_limit = limit };
    int error = 0;

    if (limit)
        error = rdmacore_errno(rdmacore->modify_srq(srq->ibv, &verbs, IBV_SRQ_LIMIT));
    if (!error)
        atomic_store(&srq->limit, limit);
    return error;
}

enum ri_status rdmacore_srq_create(struct ri_pd *base, struct ri_srq_attr *attr,
                                   struct ri_srq **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    struct ibv_srq_init_attr init = { .attr = { .max_wr = attr->max_wr,
                                                .max_sge = attr->max_sge } };
    struct srq_slots *block = NULL;
    struct srq *srq;
    int error;

    if (!(rnic->attr.features & RI_FEATURE_SRQ))
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->max_wr || !attr->max_sge)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_wr > rnic->attr.max_srq_wr || attr->max_sge > rnic->attr.max_srq_sge)
        return RI_ERR_LIMIT;
    srq = calloc(1, sizeof(*srq));
    if (srq)
        block = new_slots(srq, attr->max_wr);
    if (!block) {
        free(srq);
        return RI_ERR_NO_RESOURCES;
    }
    spinlock_init(&srq->lock);
    add_slots(srq, block, attr->max_wr);
    init.srq_context = srq;
    srq->ibv = rdmacore->create_srq(pd->ibv, &init);
    if (!srq->ibv) {
        error = errno;
        free_slots(srq);
        free(srq);
        return rdmacore_status(error);
    }
    srq->base.ops = rnic->user;
    srq->base.context = attr->context;
    srq->pd = pd;
    srq->max_wr = attr->max_wr;
    srq->max_sge = attr->max_sge;
    error = arm_limit(srq, attr->limit); /* create does not look at it */
    if (error) {
        rdmacore->destroy_srq(srq->ibv);
        free_slots(srq);
        free(srq);
        return rdmacore_status(error);
    }
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&rnic->srqs, 1);
    *out = &srq->base;
    return RI_OK;
}

/* A larger size gets new slots; a smaller one only limits posts. The device checks its own
 * content. */
static enum ri_status resize(struct srq *srq, uint32_t max_wr)
{
    struct ibv_srq_attr verbs = { .max_wr = max_wr };
    uint32_t more = max_wr > srq->slots ? max_wr - srq->slots : 0;
    struct srq_slots *block = NULL;
    enum ri_status status = RI_OK;
    bool fits;
    int error;

    if (!(srq->pd->rnic->attr.features & RI_FEATURE_SRQ_RESIZE))
        return RI_ERR_NOT_SUPPORTED;
    if (!max_wr)
        return RI_ERR_INVALID_ARGUMENT;
    if (max_wr > srq->pd->rnic->attr.max_srq_wr)
        return RI_ERR_LIMIT;
    if (more) {
        block = new_slots(srq, more);
        if (!block)
            return RI_ERR_NO_RESOURCES;
    }
    spinlock_lock(&srq->lock);
    fits = srq->posted <= max_wr;
    spinlock_unlock(&srq->lock);
    error = fits ? rdmacore_errno(rdmacore->modify_srq(srq->ibv, &verbs, IBV_SRQ_MAX_WR)) : EINVAL;
    if (error)
        status = error == EINVAL ? RI_ERR_BUSY : rdmacore_status(error);
    spinlock_lock(&srq->lock);
    if (status == RI_OK) {
        srq->max_wr = max_wr;
        if (block)
            add_slots(srq, block, more);
        block = NULL;
    }
    spinlock_unlock(&srq->lock);
    free(block);
    return status;
}

enum ri_status rdmacore_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);
    struct ibv_srq_attr verbs = { .srq_limit = attr->limit };
    enum ri_status status = mask & 1 ? resize(srq, attr->max_wr) : RI_OK;

    if (status != RI_OK || !(mask & 2))
        return status;
    if (attr->limit > srq->max_wr)
        return RI_ERR_LIMIT;
    status = rdmacore_status(rdmacore_errno(rdmacore->modify_srq(srq->ibv, &verbs, IBV_SRQ_LIMIT)));
    if (status == RI_OK)
        atomic_store(&srq->limit, attr->limit);
    return status;
}

/* Some drivers have no query. */
enum ri_status rdmacore_srq_query(struct ri_srq *base, struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);

    attr->max_wr = srq->max_wr;
    attr->max_sge = srq->max_sge;
    attr->limit = atomic_load(&srq->limit);
    attr->context = srq->base.context;
    return RI_OK;
}

enum ri_status rdmacore_srq_destroy(struct ri_srq *base)
{
    struct srq *srq = srq_of(base);
    struct rnic *rnic = srq->pd->rnic;
    int error;

    if (atomic_load(&srq->users))
        return RI_ERR_BUSY;
    error = rdmacore_errno(rdmacore->destroy_srq(srq->ibv));
    if (!rdmacore_destroyed(rnic, error))
        return rdmacore_status(error);
    atomic_fetch_sub(&srq->pd->users, 1);
    atomic_fetch_sub(&rnic->srqs, 1);
    free_slots(srq);
    free(srq);
    return RI_OK;
}

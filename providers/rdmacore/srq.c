/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared receive queues. Their requests complete in any order, so slots have a free list, linked by `index`.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "rdmacore.h"

#include <errno.h>
#include <stdlib.h>

static struct srq *srq_of(struct ri_srq *base)
{
    return container_of(base, struct srq, base);
}

void srq_put(struct srq *srq, struct slot *slot)
{
    spinlock_lock(&srq->lock);
    slot->index = srq->free;
    srq->free = (uint32_t)(slot - srq->slots);
    spinlock_unlock(&srq->lock);
}

static bool open_slots(struct srq *srq, uint32_t count)
{
    srq->slots = calloc(count, sizeof(*srq->slots));
    if (!srq->slots)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        srq->slots[i].srq = srq;
        srq->slots[i].index = i + 1;
    }
    srq->size = count;
    spinlock_init(&srq->lock);
    return true;
}

enum ri_status rdmacore_srq_create(struct ri_pd *base, struct ri_srq_attr *attr,
                                   struct ri_srq **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    struct ibv_srq_init_attr init = { .attr = { .max_wr = attr->max_wr,
                                                .max_sge = attr->max_sge } };
    struct srq *srq;
    int error;

    if (!(rnic->attr.features & RI_FEATURE_SRQ))
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->max_wr || !attr->max_sge)
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_wr > rnic->attr.max_srq_wr || attr->max_sge > rnic->attr.max_srq_sge)
        return RI_ERR_LIMIT;
    srq = calloc(1, sizeof(*srq));
    if (!srq || !open_slots(srq, attr->max_wr)) {
        free(srq);
        return RI_ERR_NO_RESOURCES;
    }
    init.srq_context = srq;
    srq->ibv = rdmacore->create_srq(pd->ibv, &init);
    if (!srq->ibv) {
        error = errno;
        free(srq->slots);
        free(srq);
        return rdmacore_status(error);
    }
    srq->base.ops = rnic->user;
    srq->base.context = attr->context;
    srq->pd = pd;
    srq->max_wr = attr->max_wr;
    srq->max_sge = attr->max_sge;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&rnic->srqs, 1);
    *out = &srq->base;
    return RI_OK;
}

enum ri_status rdmacore_srq_modify(struct ri_srq *base, uint32_t mask,
                                   const struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);
    struct ibv_srq_attr verbs = { .srq_limit = attr->low_watermark };
    enum ri_status status;

    if (mask & 1) /* no resizing: slots in the device cannot move */
        return RI_ERR_NOT_SUPPORTED;
    if (!(mask & 2))
        return RI_OK;
    if (attr->low_watermark > srq->max_wr)
        return RI_ERR_LIMIT;
    status = rdmacore_status(rdmacore_errno(rdmacore->modify_srq(srq->ibv, &verbs, IBV_SRQ_LIMIT)));
    if (status == RI_OK)
        atomic_store(&srq->low_watermark, attr->low_watermark);
    return status;
}

/* Not all drivers have a query. */
enum ri_status rdmacore_srq_query(struct ri_srq *base, struct ri_srq_attr *attr)
{
    struct srq *srq = srq_of(base);

    attr->max_wr = srq->max_wr;
    attr->max_sge = srq->max_sge;
    attr->low_watermark = atomic_load(&srq->low_watermark);
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
    if (error && !atomic_load(&rnic->failed))
        return rdmacore_status(error);
    atomic_fetch_sub(&srq->pd->users, 1);
    atomic_fetch_sub(&rnic->srqs, 1);
    free(srq->slots);
    free(srq);
    return RI_OK;
}

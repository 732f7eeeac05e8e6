/* SPDX-License-Identifier: BSD-3-Clause
 * Shared receive queues. */
#include "ibverbs_private.h"

#include <stdlib.h>

static void describe(struct vb_srq *srq, struct ibv_pd *pd, void *srq_context)
{
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = srq_context;
    srq->ibv.pd = pd;
    srq->ibv.handle = vb_slot_of(srq->ual->object.handle);
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    vb_source_init(&srq->async, VB_SOURCE_SRQ);
    atomic_fetch_add(&vb_context_of(pd->context)->srqs, 1);
    ual_context_set(&srq->ual->object, (uintptr_t)srq);
}

static uint32_t at_least_one(uint32_t count)
{
    return count ? count : 1;
}

/* attr is also an output: the actual sizes. */
static struct ibv_srq *create(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr)
{
    struct vb_srq *srq = calloc(1, sizeof(*srq));
    struct ri_srq_attr given = { .size = sizeof(given) };
    enum ri_status status;

    if (!srq)
        return NULL;
    status = ual_srq_create(vb_pd_of(pd)->ual, at_least_one(attr->max_wr),
                            at_least_one(attr->max_sge), &srq->ual);
    if (status != RI_OK) {
        free(srq);
        errno = vb_errno(status);
        return NULL;
    }
    describe(srq, pd, srq_context);
    if (ual_srq_query(srq->ual, &given) == RI_OK) {
        attr->max_wr = given.max_wr;
        attr->max_sge = given.max_sge;
    }
    return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    SANITIZER_OUTPUT(attr);

    return create(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *vb_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    VB_CALL;
    VB_OWN(context, NULL);
    SANITIZER_OUTPUT(attr);
    bool is_basic = !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC;
    bool has_pd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) && attr->pd->context == context;

    if (!is_basic) {
        ual_log(RI_LOG_WARNING, "ibv_create_srq_ex: XRC and tag matching are not built");
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (!has_pd || attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED) {
        errno = EINVAL;
        return NULL;
    }
    return create(attr->pd, attr->srq_context, &attr->attr);
}

/* The limit that is asked for, or has been set, is within the size. */
static int check_limit(const struct vb_srq *srq, const struct ri_srq_attr *asked, uint32_t mask)
{
    struct ri_srq_attr now = { .size = sizeof(now) };
    enum ri_status status = ual_srq_query(srq->ual, &now);
    uint32_t most = mask & RI_SRQM_MAX_WR ? asked->max_wr : now.max_wr;

    if (status != RI_OK)
        return vb_errno(status);
    return (mask & RI_SRQM_LIMIT ? asked->limit : now.limit) > most ? EINVAL : 0;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    VB_CALL;
    VB_OWN(srq->context, EIO);
    struct ri_srq_attr asked = { .size = sizeof(asked),
                                 .max_wr = attr->max_wr,
                                 .limit = attr->srq_limit };
    uint32_t ri = 0;
    int error;

    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return EINVAL;
    if (mask & IBV_SRQ_MAX_WR)
        ri |= RI_SRQM_MAX_WR;
    if (mask & IBV_SRQ_LIMIT)
        ri |= RI_SRQM_LIMIT;
    error = check_limit(vb_srq_of(srq), &asked, ri);
    if (error || !ri)
        return error;
    return vb_errno(ual_srq_modify(vb_srq_of(srq)->ual, ri, &asked));
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    VB_CALL;
    VB_OWN(srq->context, EIO);
    SANITIZER_OUTPUT(attr);
    struct ri_srq_attr given = { .size = sizeof(given) };
    enum ri_status status = ual_srq_query(vb_srq_of(srq)->ual, &given);

    if (status == RI_OK)
        *attr = (struct ibv_srq_attr){ .max_wr = given.max_wr,
                                       .max_sge = given.max_sge,
                                       .srq_limit = given.limit };
    return vb_errno(status);
}

int vb_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    VB_OWN(srq->context, EIO);
    SANITIZER_OUTPUT(number);

    *number = srq->handle;
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_srq *srq = vb_srq_of(ibv);
    enum ri_status status = ual_srq_free(srq->ual);

    if (status != RI_OK)
        return vb_errno(status);
    vb_source_end(vb_context_of(ibv->context)->async, &srq->async);
    vb_await_acknowledged(&ibv->mutex, &ibv->cond, &ibv->events_completed, &srq->async);
    atomic_fetch_sub(&vb_context_of(ibv->context)->srqs, 1);
    pthread_cond_destroy(&ibv->cond);
    pthread_mutex_destroy(&ibv->mutex);
    free(srq);
    return 0;
}

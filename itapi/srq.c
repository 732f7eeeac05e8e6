/* SPDX-License-Identifier: BSD-3-Clause
 * Shared receive queues. Receives are posted in post.c. */
#include "itapi_private.h"
#include "wide.h"

it_status_t it_srq_create(it_pz_handle_t pz_handle, size_t max_recv_segments, size_t max_recv_dtos,
                          it_srq_handle_t *srq_handle)
{
    CALL();
    SANITIZER_OUTPUT(srq_handle);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    const struct ri_rnic_attr *rnic;
    uint32_t segments;
    enum ri_status created;
    struct ual_srq *srq;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    if (!has_feature(pz->device, RI_FEATURE_SRQ))
        return IT_ERR_SRQ_NOT_SUPPORTED;
    rnic = ual_device_attr(pz->device);
    segments = rnic->max_srq_sge < SEGMENTS_MAX ? rnic->max_srq_sge : SEGMENTS_MAX;
    if (max_recv_dtos == 0)
        return IT_ERR_INVALID_SRQ_SIZE;
    if (max_recv_dtos > rnic->max_srq_wr)
        return IT_ERR_RESOURCE_RECV_DTO;
    if (max_recv_segments > segments)
        return IT_ERR_RESOURCE_RSEG;
    if (!srq_handle)
        return IT_ERR_FAULT;
    created = ual_srq_create((struct ual_pd *)pz, (uint32_t)max_recv_dtos,
                             max_recv_segments ? (uint32_t)max_recv_segments : 1, &srq);
    if (created == RI_OK)
        *srq_handle = (it_srq_handle_t)srq->object.handle;
    return itapi_status(created);
}

it_status_t it_srq_free(it_srq_handle_t srq_handle)
{
    CALL();
    struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, srq_handle);
    enum ri_status status;
    uint32_t note;
    CANCEL_OFF();

    if (!srq)
        return itapi_bad_handle(IT_ERR_INVALID_SRQ);
    note = atomic_load(&srq->object.note);
    status = ual_srq_free(srq);
    if (status == RI_OK)
        wide_forget(note);
    return status == RI_ERR_BUSY ? IT_ERR_SRQ_BUSY : itapi_status(status);
}

/* --- query and modify --- */

#define PARAMS_KNOWN                                                                    \
    (IT_SRQ_PARAM_ALL | IT_SRQ_PARAM_IA | IT_SRQ_PARAM_PZ | IT_SRQ_PARAM_MAX_RECV_DTO | \
     IT_SRQ_PARAM_MAX_RECV_SEG | IT_SRQ_PARAM_LOW_WATERMARK)
#define PARAMS_MODIFIABLE (IT_SRQ_PARAM_MAX_RECV_DTO | IT_SRQ_PARAM_LOW_WATERMARK)

it_status_t it_srq_query(it_srq_handle_t srq_handle, it_srq_param_mask_t mask,
                         it_srq_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, srq_handle);
    struct ri_srq_attr attr = { .size = sizeof(attr) };
    enum ri_status status = RI_OK;

    if (!srq)
        return itapi_bad_handle(IT_ERR_INVALID_SRQ);
    if (!mask_ok(mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, PARAMS_MODIFIABLE))
        status = ual_srq_query(srq, &attr);
    if (status != RI_OK)
        return itapi_status(status);
    if (mask_has(mask, IT_SRQ_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(srq->object.device);
    if (mask_has(mask, IT_SRQ_PARAM_PZ))
        params->pz = (it_pz_handle_t)ual_handle_of(srq->pd);
    if (mask_has(mask, IT_SRQ_PARAM_MAX_RECV_DTO))
        params->max_recv_dtos = attr.max_wr;
    if (mask_has(mask, IT_SRQ_PARAM_MAX_RECV_SEG))
        params->max_recv_segs = srq->max_sge < SEGMENTS_MAX ? srq->max_sge : SEGMENTS_MAX;
    if (mask_has(mask, IT_SRQ_PARAM_LOW_WATERMARK))
        params->low_watermark = attr.limit;
    return IT_SUCCESS;
}

static it_status_t check_size(const struct ual_device *ia, size_t size)
{
    if (!has_feature(ia, RI_FEATURE_SRQ_RESIZE))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (size == 0)
        return IT_ERR_INVALID_SRQ_SIZE;
    return size > ual_device_attr(ia)->max_srq_wr ? IT_ERR_RESOURCE_RECV_DTO : IT_SUCCESS;
}

static it_status_t modified(enum ri_status status)
{
    switch (status) {
    case RI_ERR_BUSY:
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_SRQ_SIZE; /* below what is posted */
    case RI_ERR_LIMIT: return IT_ERR_RESOURCE_RECV_DTO;
    default: return itapi_status(status);
    }
}

it_status_t it_srq_modify(it_srq_handle_t srq_handle, it_srq_param_mask_t mask,
                          const it_srq_param_t *params)
{
    CALL();
    struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, srq_handle);
    struct ri_srq_attr attr = { .size = sizeof(attr) };
    enum ri_status queried;
    uint32_t changes = 0;
    CANCEL_OFF();

    if (!srq)
        return itapi_bad_handle(IT_ERR_INVALID_SRQ);
    if (!mask_ok(mask, PARAMS_MODIFIABLE))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    queried = ual_srq_query(srq, &attr);
    if (queried != RI_OK)
        return itapi_status(queried);
    if (mask & IT_SRQ_PARAM_MAX_RECV_DTO) {
        it_status_t status = check_size(srq->object.device, params->max_recv_dtos);

        if (status != IT_SUCCESS)
            return status;
        attr.max_wr = (uint32_t)params->max_recv_dtos;
        changes |= RI_SRQM_MAX_WR;
    }
    if (mask & IT_SRQ_PARAM_LOW_WATERMARK) {
        if (params->low_watermark > attr.max_wr)
            return IT_ERR_SRQ_LOW_WATERMARK;
        attr.limit = (uint32_t)params->low_watermark;
        changes |= RI_SRQM_LIMIT;
    }
    return modified(ual_srq_modify(srq, changes, &attr));
}

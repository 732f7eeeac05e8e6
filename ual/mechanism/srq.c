/* SPDX-License-Identifier: BSD-3-Clause
 * Shared receive queues. The provider has their limits and posted requests. */
#include "mechanism_private.h"

#include <stdlib.h>
#include <utlist.h>

enum ri_status ual_srq_create(struct ual_pd *pd, uint32_t max_wr, uint32_t max_sge,
                              struct ual_srq **out)
{
    struct ual_device *device = pd->object.device;
    const struct ri_rnic_attr *rnic = ual_device_attr(device);
    enum ri_status status = ual_device_alive(device);
    struct ri_srq_attr attr = { .size = sizeof(attr), .max_wr = max_wr, .max_sge = max_sge };
    struct ual_srq_record *record;
    struct ual_srq *srq;

    if (status != RI_OK)
        return status;
    if (!(rnic->features & RI_FEATURE_SRQ))
        return RI_ERR_NOT_SUPPORTED;
    if (!max_wr || !max_sge)
        return RI_ERR_INVALID_ARGUMENT;
    if (max_wr > rnic->max_srq_wr || max_sge > rnic->max_srq_sge)
        return RI_ERR_LIMIT;
    record = calloc(1, sizeof(*record));
    if (!record)
        return RI_ERR_NO_RESOURCES;
    srq = &record->srq;
    srq->pd = pd;
    status = ual_handle_take(&srq->object, UAL_SRQ, device);
    if (status != RI_OK)
        goto free_record;
    attr.context = srq;
    status = kal_srq_create(rnic_of(device), pd->pd, &attr, &srq->srq);
    if (status != RI_OK)
        goto drop_handle;
    srq->max_sge = attr.max_sge;
    atomic_fetch_add(&pd->users, 1);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_APPEND(device_inside(device)->srqs, record);
    pthread_mutex_unlock(&device_inside(device)->lock);
    *out = srq;
    return RI_OK;
drop_handle:
    ual_handle_drop(&srq->object);
free_record:
    free(record);
    return status;
}

/* After the destruction no upcall about it comes, so the purge is final. */
enum ri_status ual_srq_free(struct ual_srq *srq)
{
    struct ual_srq_record *record = (struct ual_srq_record *)srq; /* its first member */
    struct ual_device *device = srq->object.device;
    ual_handle handle = srq->object.handle;
    enum ri_status status;

    if (atomic_load(&srq->users))
        return RI_ERR_BUSY;
    status = kal_srq_destroy(rnic_of(device), srq->srq);
    if (status != RI_OK)
        return status;
    ual_handle_drop(&srq->object);
    pthread_mutex_lock(&device_inside(device)->lock);
    DL_DELETE(device_inside(device)->srqs, record);
    pthread_mutex_unlock(&device_inside(device)->lock);
    ual_async_forget(device, &srq->object, handle);
    atomic_fetch_sub(&srq->pd->users, 1);
    free(record);
    return RI_OK;
}

enum ri_status ual_srq_modify(struct ual_srq *srq, uint32_t mask, const struct ri_srq_attr *attr)
{
    struct ual_device *device = srq->object.device;
    const struct ri_rnic_attr *rnic = ual_device_attr(device);
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (mask & ~(uint32_t)(RI_SRQM_MAX_WR | RI_SRQM_LIMIT))
        return RI_ERR_INVALID_ARGUMENT;
    if (mask & RI_SRQM_MAX_WR) {
        if (!(rnic->features & RI_FEATURE_SRQ_RESIZE))
            return RI_ERR_NOT_SUPPORTED;
        if (!attr->max_wr)
            return RI_ERR_INVALID_ARGUMENT;
        if (attr->max_wr > rnic->max_srq_wr)
            return RI_ERR_LIMIT;
    }
    return kal_srq_modify(rnic_of(device), srq->srq, mask, attr);
}

enum ri_status ual_srq_query(struct ual_srq *srq, struct ri_srq_attr *attr)
{
    struct ri_srq_attr filled = { .size = sizeof(filled) };
    enum ri_status status = ual_device_alive(srq->object.device);

    if (status == RI_OK)
        status = kal_srq_query(rnic_of(srq->object.device), srq->srq, &filled);
    if (status == RI_OK)
        *attr = filled;
    return status;
}

void ual_srq_event(void *srq_context, const struct ri_event *event)
{
    struct ual_srq *srq = srq_context;

    ual_async_report(srq->object.device, event, &srq->object, NULL);
}

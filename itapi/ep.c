/* SPDX-License-Identifier: BSD-3-Clause
 * Endpoints: creation, attributes, reset, free. Connections are in connect.c. */
#include "itapi_private.h"
#include "wide.h"

#include <string.h>

/* --- creation --- */

static it_status_t check_evd(const struct ual_device *ia, it_evd_handle_t handle,
                             enum ual_stream stream, it_status_t invalid, struct ual_evd **evd)
{
    *evd = LOOKUP(struct ual_evd, EVD, handle);
    if (!*evd || ((struct ual_object *)*evd)->device != ia)
        return itapi_bad_handle(invalid);
    return ual_evd_stream(*evd) == stream ? IT_SUCCESS : IT_ERR_INVALID_EVD_TYPE;
}

it_status_t itapi_check_dto_evds(const struct ual_device *ia, it_evd_handle_t request_handle,
                                 it_evd_handle_t recv_handle, struct ual_evd **request,
                                 struct ual_evd **receive)
{
    it_status_t status = check_evd(ia, request_handle, UAL_STREAM_DTO, IT_ERR_INVALID_REQ_EVD,
                                   request);

    if (status != IT_SUCCESS)
        return status;
    return check_evd(ia, recv_handle, UAL_STREAM_DTO, IT_ERR_INVALID_RECV_EVD, receive);
}

it_status_t itapi_amount(size_t asked, uint32_t limit, it_status_t beyond, uint32_t *given)
{
    if (asked > limit)
        return beyond;
    *given = asked ? (uint32_t)asked : min_u32(1, limit);
    return IT_SUCCESS;
}

it_status_t itapi_take_sizes(const struct ri_rnic_attr *rnic, const it_ep_attributes_t *asked,
                             struct ual_ep_attr *attr)
{
    const struct {
        size_t asked;
        uint32_t limit;
        it_status_t beyond;
        uint32_t *given;
    } sizes[] = {
        { asked->max_request_dtos, rnic->max_send_wr, IT_ERR_RESOURCE_REQ_DTO, &attr->max_send_wr },
        { asked->max_recv_dtos, rnic->max_recv_wr, IT_ERR_RESOURCE_RECV_DTO, &attr->max_recv_wr },
        { asked->max_send_segments, min_u32(rnic->max_send_sge, SEGMENTS_MAX), IT_ERR_RESOURCE_SSEG,
          &attr->max_send_sge },
        { asked->max_recv_segments, min_u32(rnic->max_recv_sge, SEGMENTS_MAX), IT_ERR_RESOURCE_RSEG,
          &attr->max_recv_sge },
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        it_status_t status = itapi_amount(sizes[i].asked, sizes[i].limit, sizes[i].beyond,
                                          sizes[i].given);

        if (status != IT_SUCCESS)
            return status;
    }
    return IT_SUCCESS;
}

/* Some programs ask for few segments and post up to SEGMENTS_MAX of them in a Write: from so many
 * on an endpoint gets all that the adapter has. */
#define WRITE_SEGMENTS_MANY 8u

/* Read segments and read depths beyond the adapter's are lowered to it: programs ask for the depths
 * of one adapter and run over another. it_ep_query returns them. */
static it_status_t take_rdma_sizes(const struct ri_rnic_attr *rnic,
                                   const it_rc_only_attributes_t *rc, struct ual_ep_attr *attr)
{
    uint32_t read_limit = min_u32(rnic->max_read_sge, SEGMENTS_MAX);
    uint32_t write_limit = min_u32(rnic->max_write_sge, SEGMENTS_MAX);
    it_status_t status = itapi_amount(rc->max_rdma_write_segments, write_limit,
                                      IT_ERR_RESOURCE_RWSEG, &attr->max_write_sge);

    if (status != IT_SUCCESS)
        return status;
    if (attr->max_write_sge >= WRITE_SEGMENTS_MANY)
        attr->max_write_sge = write_limit;
    attr->max_read_sge = rc->max_rdma_read_segments < read_limit
                             ? (uint32_t)rc->max_rdma_read_segments
                             : read_limit;
    attr->max_read_sge += !attr->max_read_sge && read_limit;
    attr->ird = min_u32(rc->rdma_read_ird, rnic->max_ird);
    attr->ord = min_u32(rc->rdma_read_ord, rnic->max_ord);
    return IT_SUCCESS;
}

static it_status_t take_attributes(const struct ri_rnic_attr *rnic, const it_ep_attributes_t *asked,
                                   struct ual_ep_attr *attr)
{
    const it_rc_only_attributes_t *rc = &asked->srv.rc;
    it_status_t status;

    if (asked->priv_ops_enable && !(rnic->features & RI_FEATURE_PRIVILEGED_QP))
        return IT_ERR_PRIV_OPS_UNAVAILABLE;
    if (rc->atomics_enable && !(rnic->features & RI_FEATURE_ATOMICS))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (asked->max_dto_payload_size > rnic->max_send)
        return IT_ERR_PAYLOAD_SIZE;
    status = itapi_take_sizes(rnic, asked, attr);
    if (status == IT_SUCCESS)
        status = take_rdma_sizes(rnic, rc, attr);
    if (status != IT_SUCCESS)
        return status;
    attr->srq = NULL;
    attr->rq_limit = attr->rq_hard_limit = 0;
    attr->flags = (rc->rdma_read_enable ? RI_QP_READ_ENABLE : 0u) |
                  (rc->rdma_write_enable ? RI_QP_WRITE_ENABLE : 0u) |
                  (rc->atomics_enable ? RI_QP_ATOMIC_ENABLE : 0u) |
                  (asked->priv_ops_enable ? RI_QP_PRIVILEGED : 0u) |
                  (rnic->features & FEATURES_RMR ? RI_QP_BIND_ENABLE : 0u) |
                  (rnic->features & RI_FEATURE_SEND_INVALIDATE ? RI_QP_INVALIDATE_ENABLE : 0u);
    attr->max_payload = asked->max_dto_payload_size;
    return IT_SUCCESS;
}

static it_status_t check_flags(const struct ual_device *ia, unsigned int flags)
{
    if (flags & ~(unsigned int)(IT_EP_REUSEADDR | IT_EP_SRQ))
        return IT_ERR_INVALID_FLAGS;
    return flags & IT_EP_SRQ && !has_feature(ia, RI_FEATURE_SRQ) ? IT_ERR_SRQ_NOT_SUPPORTED
                                                                 : IT_SUCCESS;
}

/* A hard mark of 0 would break the connection at the first message: it is taken as none, as
 * attributes are the least that is wanted, and it_ep_query says so. */
it_status_t itapi_take_watermarks(const it_rc_only_attributes_t *rc, struct ual_ep_attr *attr)
{
    bool hard = rc->hard_hi_watermark != IT_HARD_HI_WATERMARK_DISABLE && rc->hard_hi_watermark;

    if (rc->soft_hi_watermark > UINT32_MAX)
        return IT_ERR_SOFT_HI_WATERMARK;
    if (hard && rc->hard_hi_watermark > UINT32_MAX)
        return IT_ERR_HARD_HI_WATERMARK;
    if (hard && rc->soft_hi_watermark > rc->hard_hi_watermark)
        return IT_ERR_INVALID_WATERMARK;
    attr->rq_limit = (uint32_t)rc->soft_hi_watermark;
    attr->rq_hard_limit = hard ? (uint32_t)rc->hard_hi_watermark : 0;
    return IT_SUCCESS;
}

static it_status_t take_srq(const struct ual_pd *pz, const it_rc_only_attributes_t *rc,
                            struct ual_ep_attr *attr)
{
    struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, rc->srq);

    if (!srq || srq->pd != pz)
        return itapi_bad_handle(IT_ERR_INVALID_SRQ);
    attr->srq = srq;
    attr->max_recv_wr = attr->max_recv_sge = 0;
    return itapi_take_watermarks(rc, attr);
}

/* With an S-RQ the sizes of an own queue are not looked at. */
static it_status_t take_all(const struct ual_object *pz, unsigned int flags,
                            const it_ep_attributes_t *asked, struct ual_ep_attr *attr)
{
    it_ep_attributes_t looked_at = *asked;
    it_status_t status;

    if (flags & IT_EP_SRQ)
        looked_at.max_recv_dtos = looked_at.max_recv_segments = 0;
    status = take_attributes(ual_device_attr(pz->device), &looked_at, attr);
    if (status == IT_SUCCESS && (flags & IT_EP_SRQ))
        status = take_srq((const struct ual_pd *)pz, &asked->srv.rc, attr);
    return status;
}

it_status_t it_ep_rc_create(it_pz_handle_t pz_handle, it_evd_handle_t request_sevd_handle,
                            it_evd_handle_t recv_sevd_handle, it_evd_handle_t connect_sevd_handle,
                            it_ep_rc_creation_flags_t flags, const it_ep_attributes_t *ep_attr,
                            it_ep_handle_t *ep_handle)
{
    CALL();
    SANITIZER_OUTPUT(ep_handle);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    struct ual_evd *request, *receive, *connect;
    struct ual_ep_attr attr;
    struct ual_ep *ep;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    status = itapi_check_dto_evds(pz->device, request_sevd_handle, recv_sevd_handle, &request,
                                  &receive);
    if (status == IT_SUCCESS)
        status = check_evd(pz->device, connect_sevd_handle, UAL_STREAM_CONNECTION,
                           IT_ERR_INVALID_CONN_EVD, &connect);
    if (status == IT_SUCCESS)
        status = check_flags(pz->device, flags);
    if (status == IT_SUCCESS && (!ep_attr || !ep_handle))
        status = IT_ERR_FAULT;
    if (status == IT_SUCCESS)
        status = take_all(pz, flags, ep_attr, &attr);
    if (status != IT_SUCCESS)
        return status;
    created = ual_ep_create((struct ual_pd *)pz, request, receive, connect, &attr, &ep);
    if (created == RI_OK)
        *ep_handle = (it_ep_handle_t)ep->qp.object.handle;
    return itapi_status(created);
}

it_status_t it_ep_free(it_ep_handle_t ep_handle)
{
    CALL();
    struct ual_ep *ep = ual_ep_of((ual_handle)ep_handle);
    enum ri_status status;
    uint32_t note;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    note = atomic_load(&ep->qp.object.note);
    status = ual_ep_free(ep);
    if (status == RI_OK)
        wide_forget(note);
    return itapi_status(status);
}

it_status_t it_ep_reset(it_ep_handle_t ep_handle)
{
    CALL();
    struct ual_ep *ep = ual_ep_of((ual_handle)ep_handle);
    enum ri_status status;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    status = ual_ep_reset(ep);
    if (status == RI_OK)
        wide_reset(atomic_load(&ep->qp.object.note));
    return status == RI_ERR_INVALID_STATE ? IT_ERR_CANNOT_RESET : itapi_status(status);
}

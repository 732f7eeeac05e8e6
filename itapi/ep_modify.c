/* SPDX-License-Identifier: BSD-3-Clause
 * Attributes of an endpoint that change after its creation. ual checks what the state and the
 * adapter allow. This file handles members that never change, or only up to the given value. */
#include "itapi_private.h"

#define SIZES (IT_EP_PARAM_MAX_REQ_DTO | IT_EP_PARAM_MAX_RECV_DTO)
#define SEGMENTS                                                                           \
    (IT_EP_PARAM_MAX_SEND_SEG | IT_EP_PARAM_MAX_RECV_SEG | IT_EP_PARAM_MAX_RDMA_READ_SEG | \
     IT_EP_PARAM_MAX_RDMA_WRITE_SEG)
#define ENABLES \
    (IT_EP_PARAM_RDMA_RD_ENABLE | IT_EP_PARAM_RDMA_WR_ENABLE | IT_EP_PARAM_ATOMICS_ENABLE)
#define WATERMARKS (IT_EP_PARAM_SOFT_HI_WATERMARK | IT_EP_PARAM_HARD_HI_WATERMARK)
#define UNCONNECTED_ONLY \
    (SEGMENTS | IT_EP_PARAM_MAX_PAYLOAD | IT_EP_PARAM_SRQ | IT_EP_PARAM_PRIV_OPS_ENABLE)
#define MODIFIABLE \
    (SIZES | ENABLES | WATERMARKS | UNCONNECTED_ONLY | IT_EP_PARAM_MAX_ORD | IT_EP_PARAM_MAX_IRD)

static it_status_t check_state(const struct ual_ep *ep, unsigned int mask)
{
    int state = atomic_load(&ep->state);

    if (state == UAL_EP_UNCONNECTED || (state == UAL_EP_CONNECTED && !(mask & UNCONNECTED_ONLY)))
        return IT_SUCCESS;
    return IT_ERR_INVALID_EP_STATE;
}

/* The room for segments is what was given at creation: fewer are within it, more would need another
 * QP. */
static it_status_t check_segments(const struct ual_ep *ep, unsigned int mask,
                                  const it_ep_attributes_t *asked)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->qp.object.device);
    const it_rc_only_attributes_t *rc = &asked->srv.rc;
    const struct {
        unsigned int bit;
        size_t asked;
        uint32_t given, limit;
        it_status_t beyond;
    } rows[] = {
        { IT_EP_PARAM_MAX_SEND_SEG, asked->max_send_segments, ep->attr.max_send_sge,
          rnic->max_send_sge, IT_ERR_RESOURCE_SSEG },
        { ep->attr.srq ? 0 : IT_EP_PARAM_MAX_RECV_SEG, asked->max_recv_segments,
          ep->attr.max_recv_sge, rnic->max_recv_sge, IT_ERR_RESOURCE_RSEG },
        { IT_EP_PARAM_MAX_RDMA_READ_SEG, rc->max_rdma_read_segments, ep->attr.max_read_sge,
          rnic->max_read_sge, IT_ERR_RESOURCE_RRSEG },
        { IT_EP_PARAM_MAX_RDMA_WRITE_SEG, rc->max_rdma_write_segments, ep->attr.max_write_sge,
          rnic->max_write_sge, IT_ERR_RESOURCE_RWSEG },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!(mask & rows[i].bit) || rows[i].asked <= rows[i].given)
            continue;
        return rows[i].asked > rows[i].limit || rows[i].asked > SEGMENTS_MAX
                   ? rows[i].beyond
                   : IT_ERR_OP_NOT_SUPPORTED;
    }
    return IT_SUCCESS;
}

static it_status_t take_sizes(const struct ual_ep *ep, unsigned int mask,
                              const it_ep_attributes_t *asked, struct ual_ep_attr *attr,
                              uint32_t *changes)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->qp.object.device);

    if ((mask & SIZES) && !(rnic->features & RI_FEATURE_QP_RESIZE))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (mask & IT_EP_PARAM_MAX_REQ_DTO) {
        if (asked->max_request_dtos > rnic->max_send_wr)
            return IT_ERR_RESOURCE_REQ_DTO;
        attr->max_send_wr = asked->max_request_dtos ? (uint32_t)asked->max_request_dtos : 1;
        *changes |= UAL_EP_SEND_WR;
    }
    if ((mask & IT_EP_PARAM_MAX_RECV_DTO) && !ep->attr.srq) {
        if (asked->max_recv_dtos > rnic->max_recv_wr)
            return IT_ERR_RESOURCE_RECV_DTO;
        attr->max_recv_wr = asked->max_recv_dtos ? (uint32_t)asked->max_recv_dtos : 1;
        *changes |= UAL_EP_RECV_WR;
    }
    if (mask & IT_EP_PARAM_MAX_PAYLOAD) {
        if (asked->max_dto_payload_size > rnic->max_send)
            return IT_ERR_PAYLOAD_SIZE;
        attr->max_payload = asked->max_dto_payload_size;
        *changes |= UAL_EP_PAYLOAD;
    }
    return check_segments(ep, mask, asked);
}

static it_status_t take_flags(const struct ual_ep *ep, unsigned int mask,
                              const it_ep_attributes_t *asked, struct ual_ep_attr *attr,
                              uint32_t *flags)
{
    const it_rc_only_attributes_t *rc = &asked->srv.rc;
    const struct {
        unsigned int bit;
        uint32_t flag;
        it_boolean_t on;
        uint64_t feature;
        it_status_t missing;
    } rows[] = {
        { IT_EP_PARAM_RDMA_RD_ENABLE, RI_QP_READ_ENABLE, rc->rdma_read_enable, 0, IT_SUCCESS },
        { IT_EP_PARAM_RDMA_WR_ENABLE, RI_QP_WRITE_ENABLE, rc->rdma_write_enable, 0, IT_SUCCESS },
        { IT_EP_PARAM_ATOMICS_ENABLE, RI_QP_ATOMIC_ENABLE, rc->atomics_enable, RI_FEATURE_ATOMICS,
          IT_ERR_OP_NOT_SUPPORTED },
        { IT_EP_PARAM_PRIV_OPS_ENABLE, RI_QP_PRIVILEGED, asked->priv_ops_enable,
          RI_FEATURE_PRIVILEGED_QP, IT_ERR_PRIV_OPS_UNAVAILABLE },
    };
    uint32_t wanted = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!(mask & rows[i].bit))
            continue;
        if (rows[i].on && rows[i].feature && !has_feature(ep->qp.object.device, rows[i].feature))
            return rows[i].missing;
        *flags |= rows[i].flag;
        wanted |= rows[i].on ? rows[i].flag : 0;
    }
    attr->flags = wanted;
    return IT_SUCCESS;
}

static it_status_t take_depths(const struct ual_ep *ep, unsigned int mask,
                               const it_rc_only_attributes_t *rc, struct ual_ep_attr *attr,
                               uint32_t *changes)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->qp.object.device);

    if (mask & IT_EP_PARAM_MAX_ORD) {
        if (rc->rdma_read_ord > rnic->max_ord)
            return IT_ERR_RESOURCE_ORD;
        attr->ord = rc->rdma_read_ord;
        *changes |= UAL_EP_ORD;
    }
    if (mask & IT_EP_PARAM_MAX_IRD) {
        if (rc->rdma_read_ird > rnic->max_ird)
            return IT_ERR_RESOURCE_IRD;
        attr->ird = rc->rdma_read_ird;
        *changes |= UAL_EP_IRD;
    }
    return IT_SUCCESS;
}

/* The S-RQ is part of the QP: naming the one that it has changes nothing. */
static it_status_t take_srq(const struct ual_ep *ep, unsigned int mask,
                            const it_rc_only_attributes_t *asked, struct ual_ep_attr *attr,
                            uint32_t *changes)
{
    it_rc_only_attributes_t marks = *asked;

    if (mask & IT_EP_PARAM_SRQ) {
        struct ual_srq *srq = LOOKUP(struct ual_srq, SRQ, asked->srq);

        if (!srq || srq->pd != ep->qp.pd)
            return itapi_bad_handle(IT_ERR_INVALID_SRQ);
        if (srq != ep->attr.srq)
            return IT_ERR_OP_NOT_SUPPORTED;
    }
    if (!(mask & WATERMARKS))
        return IT_SUCCESS;
    if (!ep->attr.srq)
        return mask & IT_EP_PARAM_SOFT_HI_WATERMARK ? IT_ERR_SOFT_HI_WATERMARK
                                                    : IT_ERR_HARD_HI_WATERMARK;
    if (mask & IT_EP_PARAM_SOFT_HI_WATERMARK)
        *changes |= UAL_EP_RQ_LIMIT;
    else
        marks.soft_hi_watermark = ep->attr.rq_limit;
    if (mask & IT_EP_PARAM_HARD_HI_WATERMARK)
        *changes |= UAL_EP_RQ_HARD_LIMIT;
    else
        marks.hard_hi_watermark = ep->attr.rq_hard_limit;
    return itapi_take_watermarks(&marks, attr);
}

it_status_t it_ep_modify(it_ep_handle_t ep_handle, it_ep_param_mask_t mask,
                         const it_ep_attributes_t *ep_attr)
{
    CALL();
    struct ual_ep *ep = ual_ep_of((ual_handle)ep_handle);
    struct ual_ep_attr attr = { 0 };
    uint32_t changes = 0, flags = 0;
    enum ri_status modified;
    it_status_t status;
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    if (!mask_ok((unsigned int)mask, MODIFIABLE | IT_EP_PARAM_EP_KEY))
        return IT_ERR_INVALID_MASK;
    if ((mask & IT_EP_PARAM_EP_KEY) && !ual_ep_is_ud(ep))
        return IT_ERR_INVALID_EP_TYPE;
    if (!ep_attr)
        return IT_ERR_FAULT;
    if (ual_ep_is_ud(ep))
        return itapi_modify_ud(ep, (unsigned int)mask, ep_attr);
    status = check_state(ep, (unsigned int)mask);
    if (status != IT_SUCCESS)
        return status;
    status = take_sizes(ep, (unsigned int)mask, ep_attr, &attr, &changes);
    if (status == IT_SUCCESS)
        status = take_flags(ep, (unsigned int)mask, ep_attr, &attr, &flags);
    if (status == IT_SUCCESS)
        status = take_depths(ep, (unsigned int)mask, &ep_attr->srv.rc, &attr, &changes);
    if (status == IT_SUCCESS)
        status = take_srq(ep, (unsigned int)mask, &ep_attr->srv.rc, &attr, &changes);
    if (status != IT_SUCCESS)
        return status;
    if (flags)
        changes |= UAL_EP_FLAGS;
    modified = ual_ep_modify(ep, changes, &attr, flags);
    /* the adapter's limits were checked before */
    if (modified == RI_ERR_LIMIT && (changes & UAL_EP_ORD))
        return IT_ERR_RESOURCE_ORD;
    return itapi_status(modified);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * What endpoints are: it_ep_query. */
#include "itapi_private.h"

#include <string.h>

static_assert((int)IT_EP_STATE_UNCONNECTED == (int)UAL_EP_UNCONNECTED, "states have one numbering");
static_assert((int)IT_EP_STATE_CONNECTED == (int)UAL_EP_CONNECTED, "states have one numbering");
static_assert((int)IT_EP_STATE_PASSIVE_WAIT_RDMA_TRANS_REQ == (int)UAL_EP_PASSIVE_WAIT_REQUEST,
              "states have one numbering");

#define PARAMS_KNOWN 0x0fffffffu /* IT_EP_PARAM_ALL .. IT_EP_PARAM_PRIV_OPS_ENABLE, without gaps */

static void query_connection(struct ual_ep *ep, unsigned int mask, it_ep_param_t *params)
{
    struct sockaddr_storage local, peer;
    bool known = ual_ep_addresses(ep, &local, &peer) == RI_OK;

    if (mask_has(mask, IT_EP_PARAM_SPIGOT))
        params->spigot_id = known ? itapi_spigot_of(ep->qp.object.device, &local) : 0;
    if (!mask_has(mask, IT_EP_PARAM_PATH))
        return;
    if (known)
        itapi_path_of(ep->qp.object.device, &local, &peer, &params->dst_path);
    else
        memset(&params->dst_path, 0, sizeof(params->dst_path));
}

static it_boolean_t flag(const struct ual_ep *ep, uint32_t bit)
{
    return ep->attr.flags & bit ? IT_TRUE : IT_FALSE;
}

/* Read depths: those of the connection, if there is one. */
static void query_depths(struct ual_ep *ep, unsigned int mask, it_rc_only_attributes_t *rc)
{
    struct ri_qp_info info = { .size = sizeof(info), .ird = ep->attr.ird, .ord = ep->attr.ord };
    bool connected = atomic_load(&ep->state) == UAL_EP_CONNECTED;
    bool told = connected && ual_ep_query(ep, &info) == RI_OK;

    if (mask_has(mask, IT_EP_PARAM_MAX_IRD))
        rc->rdma_read_ird = told ? info.ird : ep->attr.ird;
    if (mask_has(mask, IT_EP_PARAM_MAX_ORD))
        rc->rdma_read_ord = told ? info.ord : ep->attr.ord;
}

static void query_rc(struct ual_ep *ep, unsigned int mask, it_rc_only_attributes_t *rc)
{
    if (mask_has(mask, IT_EP_PARAM_RDMA_RD_ENABLE))
        rc->rdma_read_enable = flag(ep, RI_QP_READ_ENABLE);
    if (mask_has(mask, IT_EP_PARAM_RDMA_WR_ENABLE))
        rc->rdma_write_enable = flag(ep, RI_QP_WRITE_ENABLE);
    if (mask_has(mask, IT_EP_PARAM_MAX_RDMA_READ_SEG))
        rc->max_rdma_read_segments = min_u32(ep->attr.max_read_sge, SEGMENTS_MAX);
    if (mask_has(mask, IT_EP_PARAM_MAX_RDMA_WRITE_SEG))
        rc->max_rdma_write_segments = min_u32(ep->attr.max_write_sge, SEGMENTS_MAX);
    if (mask_has(mask, IT_EP_PARAM_MAX_IRD | IT_EP_PARAM_MAX_ORD))
        query_depths(ep, mask, rc);
    if (mask_has(mask, IT_EP_PARAM_SRQ))
        rc->srq = ep->attr.srq ? (it_srq_handle_t)ual_handle_of(ep->attr.srq) : NULL;
    if (mask_has(mask, IT_EP_PARAM_SOFT_HI_WATERMARK))
        rc->soft_hi_watermark = ep->attr.rq_limit;
    if (mask_has(mask, IT_EP_PARAM_HARD_HI_WATERMARK))
        rc->hard_hi_watermark = ep->attr.rq_hard_limit ? ep->attr.rq_hard_limit
                                                       : IT_HARD_HI_WATERMARK_DISABLE;
    if (mask_has(mask, IT_EP_PARAM_ATOMICS_ENABLE))
        rc->atomics_enable = flag(ep, RI_QP_ATOMIC_ENABLE);
}

static void query_attributes(struct ual_ep *ep, unsigned int mask, it_ep_attributes_t *attr)
{
    if (mask_has(mask, IT_EP_PARAM_MAX_PAYLOAD))
        attr->max_dto_payload_size = ep->attr.max_payload;
    if (mask_has(mask, IT_EP_PARAM_MAX_REQ_DTO))
        attr->max_request_dtos = ep->attr.max_send_wr;
    if (mask_has(mask, IT_EP_PARAM_MAX_RECV_DTO))
        attr->max_recv_dtos = ep->attr.max_recv_wr;
    if (mask_has(mask, IT_EP_PARAM_MAX_SEND_SEG))
        attr->max_send_segments = min_u32(ep->attr.max_send_sge, SEGMENTS_MAX);
    if (mask_has(mask, IT_EP_PARAM_MAX_RECV_SEG))
        attr->max_recv_segments = min_u32(ep->attr.max_recv_sge, SEGMENTS_MAX);
    if (mask_has(mask, IT_EP_PARAM_PRIV_OPS_ENABLE))
        attr->priv_ops_enable = flag(ep, RI_QP_PRIVILEGED);
}

/* Members of UD EPs have bits of their own, and the other way round: nothing is written for
 * them. */
static void query_service(struct ual_ep *ep, unsigned int mask, it_ep_param_t *params)
{
    if (ual_ep_is_ud(ep)) {
        itapi_query_ud(ep, mask, params);
        return;
    }
    if (mask_has(mask, IT_EP_PARAM_STATE))
        params->ep_state.rc = (it_ep_state_rc_t)atomic_load(&ep->state);
    if (mask_has(mask, IT_EP_PARAM_SERV_TYPE))
        params->service_type = IT_RC_SERVICE;
    if (mask_has(mask, IT_EP_PARAM_SPIGOT | IT_EP_PARAM_PATH))
        query_connection(ep, mask, params);
    if (mask_has(mask, IT_EP_PARAM_CONN_SEVD))
        params->connect_sevd = (it_evd_handle_t)ual_handle_of(ep->connect_evd);
    query_rc(ep, mask, &params->attr.srv.rc);
}

it_status_t it_ep_query(it_ep_handle_t ep_handle, it_ep_param_mask_t mask, it_ep_param_t *params)
{
    CALL();
    SANITIZER_OUTPUT(params);
    struct ual_ep *ep = ual_ep_of((ual_handle)ep_handle);

    if (!ep)
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    if (!mask_ok(mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, IT_EP_PARAM_IA))
        params->ia = (it_ia_handle_t)ual_handle_of(ep->qp.object.device);
    if (mask_has(mask, IT_EP_PARAM_PZ))
        params->pz = (it_pz_handle_t)ual_handle_of(ep->qp.pd);
    if (mask_has(mask, IT_EP_PARAM_REQ_SEVD))
        params->request_sevd = (it_evd_handle_t)ual_handle_of(ual_ep_request_evd(ep));
    if (mask_has(mask, IT_EP_PARAM_RECV_SEVD))
        params->recv_sevd = (it_evd_handle_t)ual_handle_of(ual_ep_receive_evd(ep));
    query_attributes(ep, mask, &params->attr);
    query_service(ep, mask, params);
    return IT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause
 * UD endpoints: creation, attributes. */
#include "itapi_private.h"

#include <string.h>

/* --- creation --- */

static it_status_t take_attributes(const struct ri_rnic_attr *rnic, const it_ep_attributes_t *asked,
                                   struct ual_ep_attr *attr)
{
    it_status_t status;

    if (asked->priv_ops_enable) /* memory is linked by requests of RC EPs */
        return IT_ERR_PRIV_OPS_UNAVAILABLE;
    if (asked->max_dto_payload_size > rnic->max_ud_send)
        return IT_ERR_PAYLOAD_SIZE;
    status = itapi_take_sizes(rnic, asked, attr);
    if (status != IT_SUCCESS)
        return status;
    attr->max_payload = asked->max_dto_payload_size;
    attr->qkey = asked->srv.ud.ep_info.ud_ep_key;
    return IT_SUCCESS;
}

/* A key that the adapter keeps for the privileged. */
static it_status_t key_status(enum ri_status status)
{
    return status == RI_ERR_PERMISSION ? IT_ERR_INVALID_EP_KEY : itapi_status(status);
}

it_status_t it_ep_ud_create(it_pz_handle_t pz_handle, it_evd_handle_t request_sevd_handle,
                            it_evd_handle_t recv_sevd_handle, const it_ep_attributes_t *ep_attr,
                            size_t spigot_id, it_ep_handle_t *ep_handle)
{
    CALL();
    SANITIZER_OUTPUT(ep_handle);
    struct ual_object *pz = LOOKUP(struct ual_object, PD, pz_handle);
    struct ual_ep_attr attr = { .port = (uint32_t)spigot_id };
    struct ual_evd *request, *receive;
    struct ual_ep *ep;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!pz)
        return itapi_bad_handle(IT_ERR_INVALID_PZ);
    status = itapi_check_dto_evds(pz->device, request_sevd_handle, recv_sevd_handle, &request,
                                  &receive);
    if (status == IT_SUCCESS && !has_feature(pz->device, RI_FEATURE_UD))
        status = IT_ERR_OP_NOT_SUPPORTED;
    if (status == IT_SUCCESS && spigot_id >= ual_device_attr(pz->device)->ports)
        status = IT_ERR_INVALID_SPIGOT;
    if (status == IT_SUCCESS && (!ep_attr || !ep_handle))
        status = IT_ERR_FAULT;
    if (status == IT_SUCCESS)
        status = take_attributes(ual_device_attr(pz->device), ep_attr, &attr);
    if (status != IT_SUCCESS)
        return status;
    created = ual_ep_create_ud((struct ual_pd *)pz, request, receive, &attr, &ep);
    if (created == RI_OK)
        *ep_handle = (it_ep_handle_t)ep->qp.object.handle;
    return key_status(created);
}

/* --- query --- */

void itapi_query_ud(const struct ual_ep *ep, unsigned int mask, it_ep_param_t *params)
{
    it_remote_ep_info_t *own = &params->attr.srv.ud.ep_info;

    if (mask_has(mask, IT_EP_PARAM_STATE))
        params->ep_state.ud = atomic_load(&ep->state) == UAL_EP_CONNECTED
                                  ? IT_EP_STATE_UD_OPERATIONAL
                                  : IT_EP_STATE_UD_NONOPERATIONAL;
    if (mask_has(mask, IT_EP_PARAM_SERV_TYPE))
        params->service_type = IT_UD_SERVICE;
    if (mask_has(mask, IT_EP_PARAM_SPIGOT))
        params->spigot_id = ep->attr.port;
    if (mask_has(mask, IT_EP_PARAM_PATH))
        memset(&params->dst_path, 0, sizeof(params->dst_path));
    if (mask_has(mask, IT_EP_PARAM_CONN_SEVD))
        params->connect_sevd = NULL;
    if (mask_has(mask, IT_EP_PARAM_EP_ID))
        own->ud_ep_id = ep->qpn;
    if (mask_has(mask, IT_EP_PARAM_EP_KEY))
        own->ud_ep_key = ep->attr.qkey;
}

/* --- modify --- */

#define SIZES      (IT_EP_PARAM_MAX_REQ_DTO | IT_EP_PARAM_MAX_RECV_DTO)
#define SEGMENTS   (IT_EP_PARAM_MAX_SEND_SEG | IT_EP_PARAM_MAX_RECV_SEG)
#define MODIFIABLE (SIZES | SEGMENTS | IT_EP_PARAM_MAX_PAYLOAD | IT_EP_PARAM_EP_KEY)

static bool within(size_t asked, uint32_t given)
{
    return asked <= given;
}

/* The room for segments is what was given at creation: fewer are within it, more would need another
 * QP. */
static it_status_t check_segments(const struct ual_ep *ep, unsigned int mask,
                                  const it_ep_attributes_t *asked)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->qp.object.device);

    if ((mask & IT_EP_PARAM_MAX_SEND_SEG) &&
        !within(asked->max_send_segments, ep->attr.max_send_sge))
        return within(asked->max_send_segments, min_u32(rnic->max_send_sge, SEGMENTS_MAX))
                   ? IT_ERR_OP_NOT_SUPPORTED
                   : IT_ERR_RESOURCE_SSEG;
    if ((mask & IT_EP_PARAM_MAX_RECV_SEG) &&
        !within(asked->max_recv_segments, ep->attr.max_recv_sge))
        return within(asked->max_recv_segments, min_u32(rnic->max_recv_sge, SEGMENTS_MAX))
                   ? IT_ERR_OP_NOT_SUPPORTED
                   : IT_ERR_RESOURCE_RSEG;
    return IT_SUCCESS;
}

static it_status_t take_changes(const struct ual_ep *ep, unsigned int mask,
                                const it_ep_attributes_t *asked, struct ual_ep_attr *attr,
                                uint32_t *changes)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->qp.object.device);
    it_status_t status = IT_SUCCESS;

    if ((mask & SIZES) && !(rnic->features & RI_FEATURE_QP_RESIZE))
        return IT_ERR_OP_NOT_SUPPORTED;
    if ((mask & IT_EP_PARAM_MAX_PAYLOAD) && asked->max_dto_payload_size > rnic->max_ud_send)
        return IT_ERR_PAYLOAD_SIZE;
    if (mask & IT_EP_PARAM_MAX_REQ_DTO)
        status = itapi_amount(asked->max_request_dtos, rnic->max_send_wr, IT_ERR_RESOURCE_REQ_DTO,
                              &attr->max_send_wr);
    if (status == IT_SUCCESS && (mask & IT_EP_PARAM_MAX_RECV_DTO))
        status = itapi_amount(asked->max_recv_dtos, rnic->max_recv_wr, IT_ERR_RESOURCE_RECV_DTO,
                              &attr->max_recv_wr);
    attr->max_payload = asked->max_dto_payload_size;
    attr->qkey = asked->srv.ud.ep_info.ud_ep_key;
    *changes = (mask & IT_EP_PARAM_MAX_PAYLOAD ? UAL_EP_PAYLOAD : 0u) |
               (mask & IT_EP_PARAM_MAX_REQ_DTO ? UAL_EP_SEND_WR : 0u) |
               (mask & IT_EP_PARAM_MAX_RECV_DTO ? UAL_EP_RECV_WR : 0u) |
               (mask & IT_EP_PARAM_EP_KEY ? UAL_EP_QKEY : 0u);
    return status;
}

it_status_t itapi_modify_ud(struct ual_ep *ep, unsigned int mask, const it_ep_attributes_t *asked)
{
    struct ual_ep_attr attr = { 0 };
    uint32_t changes;
    it_status_t status;

    if (mask & ~(unsigned int)MODIFIABLE) /* of RC EPs */
        return IT_ERR_INVALID_EP_TYPE;
    if ((mask & ~(unsigned int)IT_EP_PARAM_EP_KEY) && atomic_load(&ep->state) != UAL_EP_CONNECTED)
        return IT_ERR_INVALID_EP_STATE;
    status = check_segments(ep, mask, asked);
    if (status == IT_SUCCESS)
        status = take_changes(ep, mask, asked, &attr, &changes);
    return status == IT_SUCCESS ? key_status(ual_ep_modify(ep, changes, &attr, 0)) : status;
}

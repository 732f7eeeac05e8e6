/* SPDX-License-Identifier: BSD-3-Clause
 * Finding UD endpoints: questions to a service, and their answers. */
#include "itapi_private.h"

#include <string.h>

/* Members of a query that ual does not know. */
struct asked {
    it_conn_qual_t qualifier;
    it_path_t path;
};

/* --- the asking side --- */

static it_status_t read_arguments(const struct ual_device *ia, const it_conn_qual_t *qualifier,
                                  const it_path_t *path, struct ual_connect *ask,
                                  struct sockaddr_storage *source,
                                  struct sockaddr_storage *destination)
{
    struct itapi_service service;
    bool has_source;
    it_status_t status;

    if (!itapi_read_qualifier(ia, qualifier, false, &service) ||
        (!service.remote_port && !service.service_id))
        return IT_ERR_INVALID_CONN_QUAL;
    if (path->spigot_id >= ual_device_attr(ia)->ports)
        return IT_ERR_INVALID_SPIGOT;
    status = itapi_path_status(itapi_path_ends(ia, path, service.local_port, service.remote_port,
                                               source, &has_source, destination));
    ask->source = has_source ? (const struct sockaddr *)source : NULL;
    ask->destination = (const struct sockaddr *)destination;
    ask->service_id = service.service_id;
    ask->timeout_us = itapi_timeout_of(path);
    return status;
}

it_status_t it_ud_service_request_handle_create(const it_conn_qual_t *conn_qual,
                                                it_evd_handle_t reply_evd,
                                                const it_path_t *destination_path,
                                                const unsigned char *private_data,
                                                size_t private_data_length,
                                                it_ud_svc_req_handle_t *ud_svc_handle)
{
    CALL();
    SANITIZER_OUTPUT(ud_svc_handle);
    struct ual_evd *evd = LOOKUP(struct ual_evd, EVD, reply_evd);
    struct ual_device *ia = evd ? ((struct ual_object *)evd)->device : NULL;
    struct sockaddr_storage source, destination;
    struct ual_connect ask = { .private_data = private_data };
    struct ual_ud_request *request;
    enum ri_status created;
    it_status_t status;
    CANCEL_OFF();

    if (!evd)
        return itapi_bad_handle(IT_ERR_INVALID_CONN_EVD);
    if (!has_feature(ia, RI_FEATURE_UD))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (ual_evd_stream(evd) != UAL_STREAM_CONNECTION)
        return IT_ERR_INVALID_EVD_TYPE;
    status = itapi_check_private_data(private_data, private_data_length,
                                      ual_device_attr(ia)->service_request_private_data);
    if (status != IT_SUCCESS)
        return status;
    if (!conn_qual || !destination_path || !ud_svc_handle)
        return IT_ERR_FAULT;
    status = read_arguments(ia, conn_qual, destination_path, &ask, &source, &destination);
    if (status != IT_SUCCESS)
        return status;
    ask.private_data_length = (uint16_t)private_data_length;
    created = ual_ud_request_create(evd, &ask, sizeof(struct asked), &request);
    if (created != RI_OK)
        return itapi_status(created);
    memcpy(request->own, &(struct asked){ *conn_qual, *destination_path }, sizeof(struct asked));
    *ud_svc_handle = (it_ud_svc_req_handle_t)ual_handle_of(request);
    return IT_SUCCESS;
}

it_status_t it_ud_service_request(it_ud_svc_req_handle_t ud_svc_handle)
{
    CALL();
    struct ual_ud_request *request = LOOKUP(struct ual_ud_request, UD_REQUEST, ud_svc_handle);
    enum ri_status status;
    CANCEL_OFF();

    if (!request)
        return itapi_bad_handle(IT_ERR_INVALID_UD_SVC);
    status = ual_ud_request_send(request);
    return status == RI_ERR_NOT_SUPPORTED || status == RI_ERR_INVALID_ARGUMENT
               ? IT_ERR_INVALID_CONN_QUAL /* a service ID that this transport cannot request */
               : itapi_status(status);
}

#define PARAMS_KNOWN 0xffu /* IT_UD_PARAM_ALL .. IT_UD_PARAM_PRIV_DATA_LENGTH, without gaps */

static void query_asked(const struct ual_ud_request *request, unsigned int mask,
                        it_ud_svc_req_param_t *params)
{
    struct asked asked;

    memcpy(&asked, request->own, sizeof(asked));
    if (mask_has(mask, IT_UD_PARAM_CONN_QUAL))
        params->conn_qual = asked.qualifier;
    if (mask_has(mask, IT_UD_PARAM_DEST_PATH))
        params->destination_path = asked.path;
}

it_status_t it_ud_service_request_handle_query(it_ud_svc_req_handle_t ud_svc_handle,
                                               it_ud_svc_req_param_mask_t mask,
                                               it_ud_svc_req_param_t *ud_svc_handle_info)
{
    CALL();
    SANITIZER_OUTPUT(ud_svc_handle_info);
    struct ual_ud_request *request = LOOKUP(struct ual_ud_request, UD_REQUEST, ud_svc_handle);
    it_ud_svc_req_param_t *params = ud_svc_handle_info;

    if (!request)
        return itapi_bad_handle(IT_ERR_INVALID_UD_SVC);
    if (!mask_ok((unsigned int)mask, PARAMS_KNOWN))
        return IT_ERR_INVALID_MASK;
    if (!params)
        return IT_ERR_FAULT;
    if (mask_has(mask, IT_UD_PARAM_IA_HANDLE))
        params->ia = (it_ia_handle_t)ual_handle_of(request->object.device);
    if (mask_has(mask, IT_UD_PARAM_REQ_ID)) /* the number of the handle's slot and use */
        params->request_id = (uint32_t)(request->object.handle >> 4);
    if (mask_has(mask, IT_UD_PARAM_REPLY_EVD))
        params->reply_evd = (it_evd_handle_t)ual_handle_of(request->evd);
    query_asked(request, (unsigned int)mask, params);
    if (mask_has(mask, IT_UD_PARAM_PRIV_DATA))
        memcpy(params->private_data, request->private_data, request->private_data_length);
    if (mask_has(mask, IT_UD_PARAM_PRIV_DATA_LENGTH))
        params->private_data_length = request->private_data_length;
    return IT_SUCCESS;
}

it_status_t it_ud_service_request_handle_free(it_ud_svc_req_handle_t ud_svc_handle)
{
    CALL();
    struct ual_ud_request *request = LOOKUP(struct ual_ud_request, UD_REQUEST, ud_svc_handle);
    CANCEL_OFF();

    if (!request)
        return itapi_bad_handle(IT_ERR_INVALID_UD_SVC);
    return itapi_status(ual_ud_request_free(request));
}

/* --- the answering side --- */

static_assert((int)IT_UD_SVC_EP_INFO_VALID == (int)RI_SERVICE_VALID, "one numbering");
static_assert((int)IT_UD_SVC_ID_NOT_SUPPORTED == (int)RI_SERVICE_NOT_SUPPORTED, "one numbering");
static_assert((int)IT_UD_SVC_REQ_REJECTED == (int)RI_SERVICE_REJECTED, "one numbering");
static_assert((int)IT_UD_NO_EP_AVAILABLE == (int)RI_SERVICE_NO_QP, "one numbering");
static_assert((int)IT_UD_REQ_REDIRECTED == (int)RI_SERVICE_REDIRECTED, "one numbering");

static it_status_t reply_status(enum ri_status status)
{
    switch ((int)status) {
    case ITAL_ERR_INVALID_HANDLE: return IT_ERR_INVALID_UD_SVC_REQ_ID;
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_EP;
    case RI_ERR_ACCESS: return IT_ERR_INVALID_EP_KEY;
    default: return itapi_status(status);
    }
}

it_status_t it_ud_service_reply(it_ud_svc_req_identifier_t ud_svc_req_id,
                                it_ud_svc_req_status_t status, it_remote_ep_info_t ep_info,
                                const unsigned char *private_data, size_t private_data_length)
{
    CALL();
    struct ual_device *ia = ual_service_request_ia((ual_handle)ud_svc_req_id);
    struct ual_service_reply reply = {
        .status = (uint32_t)status,
        .qpn = ep_info.ud_ep_id,
        .qkey = ep_info.ud_ep_key,
        .private_data = private_data,
        .private_data_length = (uint16_t)private_data_length,
    };
    it_status_t checked;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_UD_SVC_REQ_ID);
    if ((unsigned int)status > IT_UD_REQ_REDIRECTED)
        return IT_ERR_INVALID_UD_STATUS;
    checked = itapi_check_private_data(private_data, private_data_length,
                                       ual_device_attr(ia)->service_reply_private_data);
    if (checked != IT_SUCCESS)
        return checked;
    return reply_status(ual_service_reply((ual_handle)ud_svc_req_id, &reply));
}

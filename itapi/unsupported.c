/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that this release does not build (docs/status.md). Each looks at its handles, so that a wrong one is told
 * as what it is, and does nothing else. Objects that only such calls could make do not exist: every handle
 * of theirs is a wrong one. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "itapi_private.h"

/* One handle argument: its kind and what to say when it is not of that kind. */
struct argument {
    const void *handle;
    enum ual_type type;
    it_status_t invalid;
};

static it_status_t refuse(const struct argument *arguments, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!ual_lookup((ual_handle)arguments[i].handle, arguments[i].type))
            return itapi_bad_handle(arguments[i].invalid);
    }
    return itapi_bad_handle(IT_ERR_OP_NOT_SUPPORTED); /* a forked child: IT_ERR_IA_CATASTROPHE */
}

#define REFUSE(...)                                                         \
    do {                                                                    \
        const struct argument arguments[] = { __VA_ARGS__ };                \
                                                                            \
        return refuse(arguments, sizeof(arguments) / sizeof(arguments[0])); \
    } while (0)

#define ARGUMENT(handle, type, invalid) ((struct argument){ handle, type, invalid })
#define IA(handle)                      ARGUMENT(handle, UAL_IA, IT_ERR_INVALID_IA)
#define PZ(handle)                      ARGUMENT(handle, UAL_PZ, IT_ERR_INVALID_PZ)
#define EVD(handle)                     ARGUMENT(handle, UAL_EVD, IT_ERR_INVALID_EVD)
#define EP(handle)                      ARGUMENT(handle, UAL_EP, IT_ERR_INVALID_EP)
#define AH(handle)                      ARGUMENT(handle, UAL_AH, IT_ERR_INVALID_AH)
#define UD_SVC(handle)                  ARGUMENT(handle, UAL_UD_REQUEST, IT_ERR_INVALID_UD_SVC)

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* --- memory --- */

it_status_t it_mem_map(it_ia_handle_t ia_handle, void *vaddr, uint64_t aspace_id, size_t len,
                       it_io_addr_t *io_addr, size_t *mapped_len)
{
    REFUSE(IA(ia_handle));
}

it_status_t it_mem_unmap(it_ia_handle_t ia_handle, it_io_addr_t io_addr, size_t mapped_len)
{
    REFUSE(IA(ia_handle));
}

/* --- event dispatchers --- */

it_status_t it_evd_modify(it_evd_handle_t evd_handle, it_evd_param_mask_t mask,
                          const it_evd_param_t *params)
{
    REFUSE(EVD(evd_handle));
}

it_status_t it_evd_callback_attach(it_evd_handle_t evd_handle, it_evd_callback_rtn_t callback,
                                   void *arg)
{
    REFUSE(EVD(evd_handle));
}

it_status_t it_evd_callback_detach(it_evd_handle_t evd_handle)
{
    REFUSE(EVD(evd_handle));
}

/* No AEVD can be made: an EVD that is none has its own code. */
it_status_t itx_aevd_wait(it_evd_handle_t evd_handle, uint64_t timeout, size_t max_event_count,
                          it_event_t *events, size_t *events_count)
{
    REFUSE(ARGUMENT(evd_handle, UAL_EVD, IT_ERR_INVALID_AEVD));
}

/* --- endpoints and connections --- */

it_status_t it_ep_ud_create(it_pz_handle_t pz_handle, it_evd_handle_t request_sevd_handle,
                            it_evd_handle_t recv_sevd_handle, const it_ep_attributes_t *ep_attr,
                            size_t spigot_id, it_ep_handle_t *ep_handle)
{
    REFUSE(PZ(pz_handle), ARGUMENT(request_sevd_handle, UAL_EVD, IT_ERR_INVALID_REQ_EVD),
           ARGUMENT(recv_sevd_handle, UAL_EVD, IT_ERR_INVALID_RECV_EVD));
}

it_status_t it_handoff(const it_conn_qual_t *conn_qual, size_t spigot_id,
                       it_cn_est_identifier_t cn_est_id)
{
    if (!ual_request_ia((ual_handle)cn_est_id))
        return itapi_bad_handle(IT_ERR_INVALID_CN_EST_ID);
    return IT_ERR_OP_NOT_SUPPORTED;
}

it_status_t it_socket_convert(int sd, it_ep_handle_t ep_handle, it_sc_flags_t flags,
                              const unsigned char *msg, size_t len)
{
    REFUSE(EP(ep_handle));
}

/* --- data transfer --- */

it_status_t it_post_sendto(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                           size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                           const it_dg_remote_ep_addr_t *remote_ep_addr)
{
    REFUSE(EP(ep_handle));
}

it_status_t it_post_recvfrom(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                             size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    REFUSE(EP(ep_handle));
}

/* --- datagram service --- */

it_status_t it_address_handle_create(it_pz_handle_t pz_handle, const it_path_t *destination_path,
                                     it_ah_flags_t ah_flags, it_addr_handle_t *addr_handle)
{
    REFUSE(PZ(pz_handle));
}

it_status_t it_address_handle_free(it_addr_handle_t addr_handle)
{
    REFUSE(AH(addr_handle));
}

it_status_t it_address_handle_modify(it_addr_handle_t addr_handle, it_addr_param_mask_t mask,
                                     const it_addr_param_t *params)
{
    REFUSE(AH(addr_handle));
}

it_status_t it_address_handle_query(it_addr_handle_t addr_handle, it_addr_param_mask_t mask,
                                    it_addr_param_t *params)
{
    REFUSE(AH(addr_handle));
}

it_status_t it_ud_service_request_handle_create(const it_conn_qual_t *conn_qual,
                                                it_evd_handle_t reply_evd,
                                                const it_path_t *destination_path,
                                                const unsigned char *private_data,
                                                size_t private_data_length,
                                                it_ud_svc_req_handle_t *ud_svc_handle)
{
    REFUSE(ARGUMENT(reply_evd, UAL_EVD, IT_ERR_INVALID_CONN_EVD));
}

it_status_t it_ud_service_request(it_ud_svc_req_handle_t ud_svc_handle)
{
    REFUSE(UD_SVC(ud_svc_handle));
}

it_status_t it_ud_service_request_handle_query(it_ud_svc_req_handle_t ud_svc_handle,
                                               it_ud_svc_req_param_mask_t mask,
                                               it_ud_svc_req_param_t *ud_svc_handle_info)
{
    REFUSE(UD_SVC(ud_svc_handle));
}

it_status_t it_ud_service_request_handle_free(it_ud_svc_req_handle_t ud_svc_handle)
{
    REFUSE(UD_SVC(ud_svc_handle));
}

/* No UD service request can arrive, so no identifier is known. */
it_status_t it_ud_service_reply(it_ud_svc_req_identifier_t ud_svc_req_id,
                                it_ud_svc_req_status_t status, it_remote_ep_info_t ep_info,
                                const unsigned char *private_data, size_t private_data_length)
{
    return itapi_bad_handle(IT_ERR_INVALID_UD_SVC_REQ_ID);
}

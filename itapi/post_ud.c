/* SPDX-License-Identifier: BSD-3-Clause
 * Datagrams: work requests of UD endpoints. */
#include "work.h"

#define FLAGS_SENDTO (FLAGS_COMMON | IT_SOLICITED_WAIT_FLAG)
#define GRH_OCTETS   40u /* in front of every datagram that is received */

/* The handle is not that of a UD EP. */
static it_status_t __attribute__((cold, noinline)) not_ud(it_ep_handle_t handle)
{
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, handle);

    if (!ep)
        return itapi_bad_handle(IT_ERR_INVALID_EP);
    return has_feature(ep->qp.object.device, RI_FEATURE_UD) ? IT_ERR_INVALID_EP_TYPE
                                                            : IT_ERR_OP_NOT_SUPPORTED;
}

/* A datagram leaves by the port of its EP, so the handle must be of the same. */
static it_status_t check_destination(const struct ual_ep *ep, const it_dg_remote_ep_addr_t *to,
                                     const struct ual_ah **ah)
{
    if (unlikely(!to))
        return IT_ERR_FAULT;
    if (unlikely(to->type != IT_DG_TYPE_IB_UD))
        return IT_ERR_INVALID_AH;
    *ah = LOOKUP(struct ual_ah, AH, to->addr.ud.addr);
    if (unlikely(!*ah))
        return itapi_bad_handle(IT_ERR_INVALID_AH);
    return unlikely((*ah)->pd != ep->qp.pd || (*ah)->attr.port != ep->attr.port) ? IT_ERR_INVALID_AH
                                                                                 : IT_SUCCESS;
}

it_status_t it_post_sendto(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                           size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags,
                           const it_dg_remote_ep_addr_t *remote_ep_addr)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, UD_EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    const struct ual_ah *ah;
    struct ri_send_wr wr;
    enum ri_status posted;
    it_status_t status;

    if (unlikely(!ep))
        return not_ud(ep_handle);
    if (unlikely(dto_flags & ~(unsigned int)FLAGS_SENDTO))
        return IT_ERR_INVALID_DTO_FLAGS;
    status = check_destination(ep, remote_ep_addr, &ah);
    if (status == IT_SUCCESS)
        status = itapi_message(ep, local_segments, num_segments, RI_WR_SEND, cookie, dto_flags,
                               sges, &wr);
    if (unlikely(status != IT_SUCCESS))
        return status;
    wr.ud.ah = ah->ah;
    wr.ud.remote_qpn = remote_ep_addr->addr.ud.ep_info.ud_ep_id;
    wr.ud.remote_qkey = remote_ep_addr->addr.ud.ep_info.ud_ep_key;
    posted = ual_post_send(ep, &wr);
    return unlikely(posted != RI_OK) ? itapi_post_status(posted) : IT_SUCCESS;
}

it_status_t it_post_recvfrom(it_ep_handle_t ep_handle, const it_lmr_triplet_t *local_segments,
                             size_t num_segments, it_dto_cookie_t cookie, it_dto_flags_t dto_flags)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, UD_EP, ep_handle);
    struct ri_sge sges[SEGMENTS_MAX];
    struct ri_recv_wr wr;
    enum ri_status posted;
    uint64_t total;
    it_status_t status;

    if (unlikely(!ep))
        return not_ud(ep_handle);
    status = itapi_receive(local_segments, num_segments, ep->attr.max_recv_sge, ep->qp.pd, cookie,
                           dto_flags, sges, &wr, &total);
    if (unlikely(status != IT_SUCCESS))
        return status;
    if (unlikely(total < GRH_OCTETS || total - GRH_OCTETS > ep->attr.max_payload))
        return IT_ERR_INVALID_LENGTH;
    posted = ual_post_recv(ep, &wr);
    return unlikely(posted != RI_OK) ? itapi_post_status(posted) : IT_SUCCESS;
}

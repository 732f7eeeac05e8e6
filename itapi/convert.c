/* SPDX-License-Identifier: BSD-3-Clause
 * Sockets that become RDMA connections; requests that go to another listen point. */
#include "itapi_private.h"

/* --- socket conversion --- */

static it_status_t convert_status(enum ri_status status)
{
    switch (status) {
    case RI_ERR_INVALID_ARGUMENT: return IT_ERR_INVALID_CONVERSION;
    case RI_ERR_LIMIT: return IT_ERR_INVALID_LENGTH;
    default: return itapi_status(status);
    }
}

/* how: NULL where the Consumer gave none. */
static it_status_t convert(it_ep_handle_t ep_handle, it_sc_flags_t flags,
                           const struct ual_convert *how)
{
    CALL();
    struct ual_ep *ep = LOOKUP(struct ual_ep, EP, ep_handle);
    CANCEL_OFF();

    if (!ep)
        return itapi_bad_ep(ep_handle);
    if (!(ual_device_attr(ep->qp.object.device)->features & RI_FEATURE_CONNECTION_SET_B))
        return IT_ERR_OP_NOT_SUPPORTED;
    if (atomic_load(&ep->state) != UAL_EP_UNCONNECTED)
        return IT_ERR_INVALID_EP_STATE;
    if ((unsigned int)flags & ~(unsigned int)IT_SC_NO_REQ_REP)
        return IT_ERR_INVALID_FLAGS;
    if (!how)
        return IT_ERR_FAULT;
    if (how->message_length && how->initiator)
        return IT_ERR_INVALID_LENGTH;
    if (how->octets_read_length && how->initiator && how->startup_frames)
        return IT_ERR_INVALID_LENGTH;
    if ((how->message_length && !how->message) || (how->octets_read_length && !how->octets_read))
        return IT_ERR_FAULT;
    return convert_status(ual_ep_convert(ep, how));
}

/* A side that gives a message is the responder. */
it_status_t it_socket_convert(int sd, it_ep_handle_t ep_handle, it_sc_flags_t flags,
                              const unsigned char *msg, size_t len)
{
    const struct ual_convert how = {
        .fd = sd,
        .initiator = !len,
        .startup_frames = !(flags & IT_SC_NO_REQ_REP),
        .message = msg,
        .message_length = len,
        .timeout_us = UINT64_MAX,
    };

    return convert(ep_handle, flags, &how);
}

it_status_t itx_socket_convert(int sd, it_ep_handle_t ep_handle, it_sc_flags_t flags,
                               const struct itx_conversion *conversion)
{
    struct ual_convert how = { .fd = sd, .startup_frames = !(flags & IT_SC_NO_REQ_REP) };

    if (!conversion)
        return convert(ep_handle, flags, NULL);
    how.initiator = conversion->initiator;
    how.message = conversion->msg;
    how.message_length = conversion->len;
    how.octets_read = conversion->octets_read;
    how.octets_read_length = conversion->octets_read_len;
    how.timeout_us = conversion->timeout ? conversion->timeout : UINT64_MAX;
    return convert(ep_handle, flags, &how);
}

/* --- hand-off --- */

static it_status_t handoff_status(enum ri_status status)
{
    switch ((int)status) {
    case ITAL_ERR_INVALID_HANDLE: return IT_ERR_INVALID_CN_EST_ID;
    case RI_ERR_UNREACHABLE:
    case RI_ERR_INVALID_ARGUMENT: /* it listens no more */ return IT_ERR_INVALID_CONN_QUAL;
    default: return itapi_status(status);
    }
}

/* A listen point with a port has the service ID of that port, too. */
static enum ri_status hand_off(ual_handle request, uint32_t spigot,
                               const struct itapi_service *service)
{
    enum ri_status status = ual_handoff(request, spigot, service->local_port, service->service_id);
    uint16_t port;

    if (status == RI_ERR_UNREACHABLE && itapi_port_of_service(service->service_id, &port))
        status = ual_handoff(request, spigot, port, 0);
    return status;
}

it_status_t it_handoff(const it_conn_qual_t *conn_qual, size_t spigot_id,
                       it_cn_est_identifier_t cn_est_id)
{
    CALL();
    struct ual_device *ia = ual_request_ia((ual_handle)cn_est_id);
    struct itapi_service service;
    CANCEL_OFF();

    if (!ia)
        return itapi_bad_handle(IT_ERR_INVALID_CN_EST_ID);
    if (!conn_qual)
        return IT_ERR_FAULT;
    if (spigot_id >= ual_device_attr(ia)->ports)
        return IT_ERR_INVALID_SPIGOT;
    if (!itapi_read_qualifier(ia, conn_qual, true, &service) ||
        (!service.local_port && !service.service_id))
        return IT_ERR_INVALID_CONN_QUAL;
    return handoff_status(hand_off((ual_handle)cn_est_id, (uint32_t)spigot_id, &service));
}

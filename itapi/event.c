/* SPDX-License-Identifier: BSD-3-Clause
 * From ual's events to IT-API's: tables, one per stream. Writes the members that an event has, and
 * no more. */
#include "itapi_private.h"

#include <string.h>

static_assert(UAL_PRIVATE_DATA_MAX == IT_MAX_PRIV_DATA, "private data of events");

/* --- completions [data] --- */

#define WC_OPCODES (RI_WC_RECV_IMMEDIATE + 1) /* without datagrams */

static const uint8_t dto_events[WC_OPCODES] = {
    [RI_WC_SEND] = IT_DTO_SEND_CMPL_EVENT,
    [RI_WC_RDMA_WRITE] = IT_DTO_RDMA_WRITE_CMPL_EVENT,
    [RI_WC_RDMA_READ] = IT_DTO_RDMA_READ_CMPL_EVENT,
    [RI_WC_FETCH_ADD] = IT_DTO_FETCH_ADD_CMPL_EVENT,
    [RI_WC_COMPARE_SWAP] = IT_DTO_CMP_SWAP_CMPL_EVENT,
    [RI_WC_BIND_WINDOW] = IT_RMR_LINK_CMPL_EVENT,
    [RI_WC_LOCAL_INVALIDATE] = IT_LMR_LINK_CMPL_EVENT,
    [RI_WC_FAST_REGISTER] = IT_LMR_LINK_CMPL_EVENT,
    [RI_WC_RECV] = IT_DTO_RC_RECV_CMPL_EVENT,
    [RI_WC_RECV_IMMEDIATE] = IT_DTO_RC_RECV_CMPL_EVENT,
};

static const uint8_t dto_statuses[] = {
    [RI_WC_SUCCESS] = IT_DTO_SUCCESS,
    [RI_WC_LOCAL_LENGTH] = IT_DTO_ERR_LOCAL_LENGTH,
    [RI_WC_LOCAL_QP] = IT_DTO_ERR_LOCAL_EP,
    [RI_WC_LOCAL_PROTECTION] = IT_DTO_ERR_LOCAL_PROTECTION,
    [RI_WC_FLUSHED] = IT_DTO_ERR_FLUSHED,
    [RI_WC_BIND] = IT_RMR_OPERATION_FAILED,
    [RI_WC_BAD_RESPONSE] = IT_DTO_ERR_BAD_RESPONSE,
    [RI_WC_REMOTE_ACCESS] = IT_DTO_ERR_REMOTE_ACCESS,
    [RI_WC_REMOTE_OPERATION] = IT_DTO_ERR_REMOTE_RESPONDER,
    [RI_WC_REMOTE_INVALID_REQUEST] = IT_DTO_ERR_REMOTE_RESPONDER,
    [RI_WC_TRANSPORT] = IT_DTO_ERR_TRANSPORT,
    [RI_WC_RNR] = IT_DTO_ERR_RECEIVER_NOT_READY,
    [RI_WC_MM_OPERATION] = IT_DTO_ERR_LOCAL_MM_OPERATION,
    [RI_WC_GENERAL] = IT_DTO_ERR_TRANSPORT,
};

/* The object is named where its unlinking was not asked for here, or only as a side effect. Of an
 * object that was freed meanwhile nothing is known: regions are unlinked by few, and RMRs may be
 * freed at any time. */
static void __attribute__((cold, noinline))
translate_memory(const struct ual_event *from, it_dto_cmpl_event_t *to)
{
    const struct ri_wc *wc = &from->wc;
    ual_handle memory = ual_event_memory(from);

    if (wc->flags & RI_WC_WITH_INVALIDATE)
        to->unlinked_mr_handle = (it_handle_t)memory;
    if (wc->opcode == RI_WC_LOCAL_INVALIDATE && !ual_lookup(memory, UAL_MR))
        to->event_number = IT_RMR_LINK_CMPL_EVENT;
}

/* If this side refuses to unlink what a Send of the peer names, its own operation has failed. The
 * peer sees the end of the connection. */
static it_dto_status_t __attribute__((cold, noinline)) failure_of(const struct ri_wc *wc)
{
    bool received = wc->opcode == RI_WC_RECV || wc->opcode == RI_WC_RECV_IMMEDIATE;

    if (wc->status == RI_WC_REMOTE_INVALID_REQUEST && received)
        return IT_DTO_ERR_LOCAL_MM_OPERATION;
    if (wc->status >= sizeof(dto_statuses))
        return IT_DTO_ERR_TRANSPORT;
    return (it_dto_status_t)dto_statuses[wc->status];
}

static inline void put_completion(const struct ual_event *from, unsigned int number,
                                  it_dto_cmpl_event_t *to)
{
    const struct ri_wc *wc = &from->wc;
    bool good = likely(wc->status == RI_WC_SUCCESS);

    to->event_number = (it_event_type_t)number;
    to->evd = (it_evd_handle_t)from->evd;
    to->ep = (it_ep_handle_t)wc->context;
    to->cookie = wc->cookie;
    to->dto_status = good ? IT_DTO_SUCCESS : failure_of(wc);
    to->transferred_length = good ? wc->byte_len : 0;
    to->unlinked_mr_handle = IT_NULL_HANDLE;
}

/* A UD Receive also names its sender. Its structure begins with that of other completions. */
static void __attribute__((noinline))
translate_datagram(const struct ual_event *from, it_event_t *to)
{
    const struct ual_ep *ep = LOOKUP(struct ual_ep, UD_EP, from->wc.context); /* may be gone */
    it_all_dto_cmpl_event_t *all = &to->all_dto_cmpl;
    bool good = from->wc.status == RI_WC_SUCCESS;

    put_completion(from, IT_DTO_UD_RECV_CMPL_EVENT, &to->dto_cmpl);
    all->flags = (it_dto_ud_flags_t)(good && (from->wc.flags & RI_WC_GRH) ? IT_UD_IB_GRH_PRESENT
                                                                          : 0);
    all->ud_ep_id = good ? from->wc.source.qpn : 0;
    if (good)
        itapi_path_to_sender(&from->wc, ep ? ep->attr.port : 0, &all->src_path);
    else
        memset(&all->src_path, 0, sizeof(all->src_path));
}

static void translate_completion(const struct ual_event *from, it_event_t *to)
{
    if (unlikely(from->wc.opcode >= WC_OPCODES)) {
        translate_datagram(from, to);
        return;
    }
    put_completion(from, dto_events[from->wc.opcode], &to->dto_cmpl);
    if (unlikely(ual_memory_completion(&from->wc)))
        translate_memory(from, &to->dto_cmpl);
}

/* --- connection management --- */

static it_boolean_t put_private_data(const uint8_t *data, size_t length, unsigned char *to)
{
    size_t octets = length < IT_MAX_PRIV_DATA ? length : IT_MAX_PRIV_DATA;

    memcpy(to, data, octets);
    memset(to + octets, 0, IT_MAX_PRIV_DATA - octets);
    return octets ? IT_TRUE : IT_FALSE;
}

static void translate_service_request(const struct ual_event *from, it_ud_svc_request_event_t *to)
{
    const struct ual_request_event *request = &from->request;

    to->event_number = IT_CM_REQ_UD_SERVICE_REQUEST_EVENT;
    to->evd = (it_evd_handle_t)from->evd;
    to->private_data_present = put_private_data(request->private_data, request->private_data_length,
                                                to->private_data);
    to->ud_svc_req_id = request->request;
    to->conn_qual = itapi_conn_qual_of(request->listen, &request->local, &request->peer);
    itapi_net_addr_of(&request->peer, &to->source_addr);
    to->spigot_id = request->port;
}

static void translate_request(const struct ual_event *from, it_conn_request_event_t *to)
{
    const struct ual_request_event *request = &from->request;

    to->event_number = IT_CM_REQ_CONN_REQUEST_EVENT;
    to->evd = (it_evd_handle_t)from->evd;
    to->private_data_present = put_private_data(request->private_data, request->private_data_length,
                                                to->private_data);
    to->cn_est_id = request->request;
    to->conn_qual = itapi_conn_qual_of(request->listen, &request->local, &request->peer);
    itapi_net_addr_of(&request->peer, &to->source_addr);
    to->spigot_id = request->port;
    to->max_message_size = 0;
    to->rdma_read_ird = request->depths_valid ? request->ird : 0;
    to->rdma_read_ord = request->depths_valid ? request->ord : 0;
}

static const it_event_type_t connection_events[] = {
    [UAL_ACCEPT_ARRIVED] = IT_CM_MSG_CONN_ACCEPT_ARRIVAL_EVENT,
    [UAL_ESTABLISHED] = IT_CM_MSG_CONN_ESTABLISHED_EVENT,
    [UAL_DISCONNECTED] = IT_CM_MSG_CONN_DISCONNECT_EVENT,
    [UAL_PEER_REJECTED] = IT_CM_MSG_CONN_PEER_REJECT_EVENT,
    [UAL_NONPEER_REJECTED] = IT_CM_MSG_CONN_NONPEER_REJECT_EVENT,
    [UAL_BROKEN] = IT_CM_MSG_CONN_BROKEN_EVENT,
};

static const uint8_t reject_codes[] = {
    [RI_REASON_OTHER] = IT_CN_REJ_OTHER,
    [RI_REASON_TIMEOUT] = IT_CN_REJ_TIMEOUT,
    [RI_REASON_UNREACHABLE] = IT_CN_REJ_BAD_PATH,
    [RI_REASON_REFUSED] = IT_CN_REJ_OTHER,
    [RI_REASON_STALE] = IT_CN_REJ_STALE_CONN,
    [RI_REASON_READ_DEPTH] = IT_CN_REJ_BAD_ORD,
    [RI_REASON_RESOURCES] = IT_CN_REJ_RESOURCES,
    [RI_REASON_PARAMETERS] = IT_CN_REJ_BAD_CONN_PARMS,
    [RI_REASON_PROTOCOL] = IT_CN_REJ_BAD_CONN_PARMS,
    [RI_REASON_POLICY] = IT_CN_REJ_OTHER,
};

static void translate_connection(const struct ual_event *from, it_connection_event_t *to)
{
    const struct ual_connection_event *connection = &from->connection;
    bool up = connection->message == UAL_ESTABLISHED || connection->message == UAL_ACCEPT_ARRIVED;
    bool failed = connection->message == UAL_NONPEER_REJECTED &&
                  (size_t)connection->reason < sizeof(reject_codes);

    to->event_number = connection_events[connection->message];
    to->evd = (it_evd_handle_t)from->evd;
    to->private_data_present = put_private_data(connection->private_data,
                                                connection->private_data_length, to->private_data);
    to->cn_est_id = connection->request;
    to->ep = (it_ep_handle_t)connection->ep;
    to->rdma_read_ird = connection->depths_valid ? connection->ird : 0;
    to->rdma_read_ord = connection->depths_valid ? connection->ord : 0;
    to->reject_reason_code = (it_conn_reject_code_t)(failed ? reject_codes[connection->reason]
                                                            : IT_CN_REJ_OTHER);
    if (up) {
        struct ual_object *evd = LOOKUP(struct ual_object, EVD, from->evd); /* the EP may be gone */

        itapi_path_of(evd ? evd->device : NULL, &connection->local, &connection->peer,
                      &to->dst_path);
    }
}

/* A reply without a path is RoCE: the peer's address is the GID. */
static void put_path(const struct ual_connection_event *reply, it_path_t *path)
{
    struct ri_ah_attr way = { .global = 1, .hop_limit = 64 };
    it_ib_gid_t gid = itapi_gid_of(&reply->peer);

    memcpy(way.destination_gid, &gid, sizeof(way.destination_gid));
    itapi_path_of_way(reply->service.path_known ? &reply->service.path : &way, path);
}

static void translate_service_reply(const struct ual_event *from, it_ud_svc_reply_event_t *to)
{
    const struct ual_connection_event *reply = &from->connection;
    uint32_t status = reply->service.status;

    to->event_number = IT_CM_MSG_UD_SERVICE_REPLY_EVENT;
    to->evd = (it_evd_handle_t)from->evd;
    to->private_data_present = put_private_data(reply->private_data, reply->private_data_length,
                                                to->private_data);
    to->ud_svc = (it_ud_svc_req_handle_t)reply->ep;
    to->status = status <= RI_SERVICE_REDIRECTED ? (it_ud_svc_req_status_t)status
                                                 : IT_UD_SVC_REQ_REJECTED;
    to->ep_info.ud_ep_id = reply->service.qpn;
    to->ep_info.ud_ep_key = reply->service.qkey;
    if (status == RI_SERVICE_VALID || status == RI_SERVICE_REDIRECTED)
        put_path(reply, &to->dst_path);
}

/* --- asynchronous events --- */

/* A type without a row is IT_ASYNC_AFF_EP_FAILURE. */
static const struct {
    enum ri_event_type from;
    it_event_type_t to;
} affiliated_events[] = {
    { RI_EVENT_LLP_RESET, IT_ASYNC_AFF_EP_L_LLP_ERROR },
    { RI_EVENT_LLP_LOST, IT_ASYNC_AFF_EP_L_LLP_ERROR },
    { RI_EVENT_INTEGRITY, IT_ASYNC_AFF_EP_L_LLP_ERROR },
    { RI_EVENT_REMOTE_OPERATION, IT_ASYNC_AFF_EP_L_TRANSPORT_ERROR },
    { RI_EVENT_RESPONSE_ERROR, IT_ASYNC_AFF_EP_L_TRANSPORT_ERROR },
    { RI_EVENT_BAD_OPCODE, IT_ASYNC_AFF_EP_BAD_TRANSPORT_OPCODE },
    { RI_EVENT_NO_RECEIVE, IT_ASYNC_AFF_EP_REQ_DROPPED },
    { RI_EVENT_WRITE_ACCESS, IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION },
    { RI_EVENT_READ_ACCESS, IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION },
    { RI_EVENT_RECV_ACCESS, IT_ASYNC_AFF_EP_L_RECV_ACCESS_VIOLATION },
    { RI_EVENT_RECV_LENGTH, IT_ASYNC_AFF_EP_L_RECV_ACCESS_VIOLATION },
    { RI_EVENT_INVALIDATE_ACCESS, IT_ASYNC_AFF_EP_L_ACCESS_VIOLATION },
    { RI_EVENT_QP_OVERFLOW, IT_ASYNC_AFF_EP_SEVD_FULL_ERROR },
    { RI_EVENT_QP_RQ_LIMIT_REACHED, IT_ASYNC_AFF_EP_SOFT_HI_WATERMARK },
    { RI_EVENT_QP_SRQ_ERROR, IT_ASYNC_AFF_EP_SRQ_ERROR },
    { RI_EVENT_SRQ_LIMIT_REACHED, IT_ASYNC_AFF_SRQ_LOW_WATERMARK },
    { RI_EVENT_SRQ_FATAL, IT_ASYNC_AFF_SRQ_CATASTROPHIC },
    { RI_EVENT_CQ_OVERFLOW, IT_ASYNC_AFF_SEVD_FULL_ERROR },
    { RI_EVENT_CQ_ERROR, IT_ASYNC_AFF_SEVD_OP_ERROR },
};

/* The peer's Terminate about a request that had completed here. */
static it_event_type_t reported_by_peer(uint16_t code)
{
    if (code >> 8 == 0x01 ||
        (code >= 0x1100 && code <= 0x1103)) /* protection errors of RDMAP, DDP */
        return IT_ASYNC_AFF_EP_R_ACCESS_VIOLATION;
    return code == 0x1205 ? IT_ASYNC_AFF_EP_R_RECV_LENGTH_ERROR : IT_ASYNC_AFF_EP_R_ERROR;
}

#define LOCAL_CATASTROPHIC(code) (((code)&0x0fff) == 0) /* of RDMAP, DDP, MPA; or none told */

/* The peer's access was permitted, but the memory of the region could not be accessed. */
static it_event_type_t memory_gone(const struct ual_async_event *async, it_event_type_t otherwise)
{
    if (!LOCAL_CATASTROPHIC(async->terminate_code))
        return otherwise;
    if (async->type == RI_EVENT_READ_ACCESS)
        return IT_ASYNC_AFF_EP_L_IRRQ_ACCESS_VIOLATION;
    return async->type == RI_EVENT_WRITE_ACCESS && async->terminate_code
               ? IT_ASYNC_AFF_EP_L_ACCESS_VIOLATION
               : otherwise;
}

static void translate_affiliated(const struct ual_event *from, it_affiliated_event_t *to)
{
    to->event_number = IT_ASYNC_AFF_EP_FAILURE;
    for (size_t i = 0; i < sizeof(affiliated_events) / sizeof(affiliated_events[0]); i++) {
        if (affiliated_events[i].from == from->async.type)
            to->event_number = affiliated_events[i].to;
    }
    if (from->async.type == RI_EVENT_TERMINATE_RECEIVED)
        to->event_number = reported_by_peer(from->async.terminate_code);
    to->event_number = memory_gone(&from->async, to->event_number);
    to->evd = (it_evd_handle_t)from->evd;
    to->cause.ep = (it_ep_handle_t)from->async.cause; /* all members are a handle */
}

static void translate_unaffiliated(const struct ual_event *from, it_unaffiliated_event_t *to)
{
    struct ual_object *evd = LOOKUP(struct ual_object, EVD, from->evd);

    to->event_number = from->async.type == RI_EVENT_CQ_OVERFLOW
                           ? IT_ASYNC_UNAFF_SEVD_ENQUEUE_FAILURE
                       : from->async.type == RI_EVENT_PORT_UP ? IT_ASYNC_UNAFF_SPIGOT_ONLINE
                                                              : IT_ASYNC_UNAFF_SPIGOT_OFFLINE;
    to->evd = (it_evd_handle_t)from->evd;
    to->ia = evd ? (it_ia_handle_t)ual_handle_of(evd->device) : NULL;
    to->spigot_id = from->async.port;
}

void itapi_translate(const struct ual_event *from, it_event_t *to)
{
    if (likely(from->stream == UAL_STREAM_DTO)) {
        translate_completion(from, to);
        return;
    }
    switch (from->stream) {
    case UAL_STREAM_REQUEST:
        if (from->request.datagram)
            translate_service_request(from, &to->ud_svc_request);
        else
            translate_request(from, &to->conn_req);
        break;
    case UAL_STREAM_CONNECTION:
        if (from->connection.message == UAL_SERVICE_REPLY)
            translate_service_reply(from, &to->ud_svc_reply);
        else
            translate_connection(from, &to->conn);
        break;
    case UAL_STREAM_AFFILIATED: translate_affiliated(from, &to->aff_async); break;
    case UAL_STREAM_UNAFFILIATED: translate_unaffiliated(from, &to->unaff_async); break;
    case UAL_STREAM_SOFTWARE:
        to->sw.event_number = IT_SOFTWARE_EVENT;
        to->sw.evd = (it_evd_handle_t)from->evd;
        to->sw.data = from->software;
        break;
    case UAL_STREAM_NOTIFICATION:
        to->aevd_notify.event_number = IT_AEVD_NOTIFICATION_EVENT;
        to->aevd_notify.aevd = (it_evd_handle_t)from->evd;
        to->aevd_notify.sevd = (it_evd_handle_t)from->ready;
        break;
    case UAL_STREAM_DTO: break;
    }
}

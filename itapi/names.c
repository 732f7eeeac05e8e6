/* SPDX-License-Identifier: BSD-3-Clause
 * Names and texts for people. */
#include "itapi_private.h"

#include "base/compiler.h"

#define TEXT(value, sentence) [value] = { #value, sentence }
static const struct {
    const char *name, *text;
} statuses[] = {
    TEXT(IT_SUCCESS, "done"),
    TEXT(IT_ERR_ABORT, "given up: the object was freed meanwhile, or the operating system failed"),
    TEXT(IT_ERR_ACCESS,
         "the memory does not grant a privilege that is needed; register or link it with more"),
    TEXT(IT_ERR_ADDRESS, "the memory range is not mapped in this process"),
    TEXT(IT_ERR_AEVD_NOT_ALLOWED, "an aggregate EVD cannot be given here"),
    TEXT(IT_ERR_ASYNC_AFF_EVD_EXISTS,
         "the interface adapter has an EVD for affiliated events already; use that one"),
    TEXT(IT_ERR_ASYNC_UNAFF_EVD_EXISTS,
         "the interface adapter has an EVD for unaffiliated events already; use that one"),
    TEXT(IT_ERR_CALLBACK_EXISTS, "a callback is attached to the EVD; detach it first"),
    TEXT(IT_ERR_CANNOT_RESET,
         "the endpoint is connected or about to be; disconnect it before the reset"),
    TEXT(IT_ERR_CONN_QUAL_BUSY, "the port or service identifier is in use; choose another one"),
    TEXT(IT_ERR_EP_BUSY, "the endpoint has outstanding work; wait for its completion first"),
    TEXT(IT_ERR_EP_TIMEWAIT, "the endpoint's last connection is in its time-wait; try again later"),
    TEXT(IT_ERR_EVD_BUSY, "the EVD is in use; free what feeds it and end the waits on it first"),
    TEXT(IT_ERR_EVD_WAIT, "a thread waits on the EVD; end its wait first"),
    TEXT(IT_ERR_EVD_QUEUE_FULL,
         "the EVD has no room for another software event; dequeue some first"),
    TEXT(IT_ERR_FAULT, "a pointer is NULL where data is needed"),
    TEXT(IT_ERR_HARD_HI_WATERMARK, "the hard high watermark is not available, or too large"),
    TEXT(IT_ERR_IA_CATASTROPHE, "the interface adapter has failed, or this process is a forked "
                                "copy of the one that opened it"),
    TEXT(IT_ERR_INTERRUPT, "a signal handler ran and ended the wait; wait again"),
    TEXT(IT_ERR_INVALID_ADDR_MODE,
         "the addressing mode is unknown, not supported, or not possible with this memory region"),
    TEXT(IT_ERR_INVALID_ADDRESS, "the address cannot be used, perhaps for its alignment"),
    TEXT(IT_ERR_INVALID_AEVD, "the handle is not that of an aggregate EVD"),
    TEXT(IT_ERR_INVALID_AH, "the handle is not that of an address handle"),
    TEXT(IT_ERR_INVALID_ATIMEOUT, "the InfiniBand attribute local_ack_timeout is out of range"),
    TEXT(IT_ERR_INVALID_ATOMIC_OP, "the atomic operation is unknown"),
    TEXT(IT_ERR_INVALID_CM_RETRY, "the InfiniBand attribute max_cm_retries is out of range"),
    TEXT(IT_ERR_INVALID_CN_EST_FLAGS,
         "the flags do not choose one kind of connection set-up that the interface has"),
    TEXT(IT_ERR_INVALID_CN_EST_ID,
         "the connection request is unknown, was answered already, or was withdrawn by the peer"),
    TEXT(IT_ERR_INVALID_CONN_EVD, "the connect EVD is not an EVD of this interface adapter"),
    TEXT(IT_ERR_INVALID_CONN_QUAL,
         "the connection qualifier has a kind or value that cannot be used here"),
    TEXT(IT_ERR_INVALID_CONVERSION, "the address or socket cannot be converted"),
    TEXT(IT_ERR_INVALID_DTO_FLAGS, "the flags do not suit the operation"),
    TEXT(IT_ERR_INVALID_EP, "the handle is not that of an endpoint, or of one that cannot do this: "
                            "it has an S-RQ, or the narrow RMR is linked on another"),
    TEXT(IT_ERR_INVALID_EP_ATTR, "an endpoint attribute cannot be used"),
    TEXT(IT_ERR_INVALID_EP_KEY, "the datagram key cannot be used"),
    TEXT(IT_ERR_INVALID_EP_STATE,
         "not possible in the present state of the endpoint, which it_ep_query returns"),
    TEXT(IT_ERR_INVALID_EP_TYPE, "not possible for an endpoint of this service type"),
    TEXT(IT_ERR_INVALID_EVD, "the handle is not that of an EVD"),
    TEXT(IT_ERR_INVALID_EVD_STATE,
         "the EVD is disabled, has overflowed, or is collected by an aggregate EVD"),
    TEXT(IT_ERR_INVALID_EVD_TYPE,
         "the EVD is of another event stream than needed, or the stream is unknown"),
    TEXT(IT_ERR_INVALID_FLAGS, "the flags are unknown or contradict each other"),
    TEXT(IT_ERR_INVALID_HANDLE, "the handle is not valid, or its object has been freed"),
    TEXT(IT_ERR_INVALID_IA, "the handle is not that of an interface adapter"),
    TEXT(IT_ERR_INVALID_IOBL, "the I/O buffer list cannot be used"),
    TEXT(IT_ERR_INVALID_LENGTH, "the length is zero or too large"),
    TEXT(IT_ERR_INVALID_LISTEN, "the handle is not that of a listen point"),
    TEXT(IT_ERR_INVALID_LMR, "the handle is not that of a memory region of the protection zone"),
    TEXT(IT_ERR_INVALID_LTIMEOUT, "the InfiniBand attribute local_cm_timeout is out of range"),
    TEXT(IT_ERR_INVALID_MAJOR_VERSION,
         "this major version of the interface is not supported; ask for 1 or 2"),
    TEXT(IT_ERR_INVALID_MASK,
         "the mask is empty, has an unknown bit, or names a member that cannot be changed"),
    TEXT(IT_ERR_INVALID_MINOR_VERSION, "this minor version of the interface is not supported"),
    TEXT(IT_ERR_INVALID_NAME,
         "no usable interface has that name; itinfo lists them and says why others are not usable"),
    TEXT(IT_ERR_INVALID_NETADDR, "the network address is of an unknown type or not that of a host"),
    TEXT(IT_ERR_INVALID_NUM_SEGMENTS, "more segments than the endpoint takes"),
    TEXT(IT_ERR_INVALID_PDATA_LENGTH, "the private data is longer than this message carries"),
    TEXT(IT_ERR_INVALID_PRIVS,
         "the privileges are unknown or contradict each other: remote write needs local write"),
    TEXT(IT_ERR_INVALID_PZ,
         "the handle is not that of a protection zone, or the objects belong to different ones"),
    TEXT(IT_ERR_INVALID_QUEUE_SIZE, "the queue size is zero or below what is queued"),
    TEXT(IT_ERR_INVALID_RECV_DTO, "the number of receives cannot be used"),
    TEXT(IT_ERR_INVALID_RECV_EVD, "the receive EVD is not an EVD of this interface adapter"),
    TEXT(IT_ERR_INVALID_RECV_EVD_STATE, "the receive EVD is disabled or has overflowed"),
    TEXT(IT_ERR_INVALID_REQ_EVD, "the request EVD is not an EVD of this interface adapter"),
    TEXT(IT_ERR_INVALID_REQ_EVD_STATE, "the request EVD is disabled or has overflowed"),
    TEXT(IT_ERR_INVALID_RETRY, "the InfiniBand attribute retry_count is out of range"),
    TEXT(IT_ERR_INVALID_RMR, "the handle is not that of a remote memory region"),
    TEXT(IT_ERR_INVALID_RNR_RETRY, "the InfiniBand attribute rnr_retry_count is out of range"),
    TEXT(IT_ERR_INVALID_RMR_TYPE, "the type of remote memory region is unknown or not supported"),
    TEXT(IT_ERR_INVALID_RTIMEOUT, "the InfiniBand attribute remote_cm_timeout is out of range"),
    TEXT(IT_ERR_INVALID_SOFT_EVD, "the EVD is not one for software events"),
    TEXT(IT_ERR_INVALID_SOURCE_PATH,
         "the path's source address is not of this interface, or has no route to the peer"),
    TEXT(IT_ERR_INVALID_SPIGOT, "the interface has no such spigot"),
    TEXT(IT_ERR_INVALID_SRQ, "the handle is not that of a shared receive queue, or that of one in "
                             "another protection zone"),
    TEXT(IT_ERR_INVALID_SRQ_SIZE, "the size of the shared receive queue cannot be used"),
    TEXT(IT_ERR_INVALID_THRESHOLD, "the threshold is larger than the queue"),
    TEXT(IT_ERR_INVALID_UD_STATUS, "the status of the datagram service reply is unknown"),
    TEXT(IT_ERR_INVALID_UD_SVC, "the handle is not that of a datagram service request"),
    TEXT(IT_ERR_INVALID_UD_SVC_REQ_ID,
         "the datagram service request is unknown or was answered already"),
    TEXT(IT_ERR_INVALID_WATERMARK, "the soft watermark is above the hard one"),
    TEXT(IT_ERR_LMR_BUSY, "remote memory regions are linked to the memory region, or it is linked "
                          "itself; unlink first"),
    TEXT(IT_ERR_MISMATCH_FD,
         "the flag for a descriptor and the place to store it do not fit together"),
    TEXT(IT_ERR_NO_CONTEXT, "no context was set for the object; it_set_consumer_context sets one"),
    TEXT(IT_ERR_NO_PERMISSION, "the operating system or the configured policy refuses"),
    TEXT(IT_ERR_OP_NOT_SUPPORTED,
         "the interface, its transport or this release of the library does not have this"),
    TEXT(IT_ERR_PAYLOAD_SIZE, "messages of that size are beyond the interface adapter"),
    TEXT(IT_ERR_PDATA_NOT_SUPPORTED, "private data cannot be sent here"),
    TEXT(IT_ERR_PRIV_OPS_UNAVAILABLE,
         "privileged operations are not available, or not enabled for the endpoint"),
    TEXT(IT_ERR_PZ_BUSY, "objects of the protection zone exist; free them first"),
    TEXT(IT_ERR_QUEUE_EMPTY, "no event is queued"),
    TEXT(IT_ERR_RANGE, "a segment is outside its memory region, or a number is out of range"),
    TEXT(IT_ERR_RESOURCES, "out of memory, descriptors, quota or resources of the adapter; free "
                           "some or raise the limit"),
    TEXT(IT_ERR_RESOURCE_IRD,
         "more incoming RDMA reads than available: rdma_read_ird is beyond the interface adapter"),
    TEXT(IT_ERR_RESOURCE_LMR_LENGTH, "the memory region is longer than the adapter can register"),
    TEXT(IT_ERR_RESOURCE_ORD, "more outgoing RDMA reads than available: rdma_read_ord of this "
                              "endpoint and rdma_read_ird of the peer's bound them"),
    TEXT(IT_ERR_RESOURCE_QUEUE_SIZE,
         "the EVD is larger than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_RECV_DTO, "more receives than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_REQ_DTO, "more requests than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_RRSEG,
         "more segments of an RDMA read than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_RSEG,
         "more segments of a receive than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_RWSEG,
         "more segments of an RDMA write than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_RESOURCE_SSEG,
         "more segments of a send than available; it_ia_query returns the limit"),
    TEXT(IT_ERR_SOFT_HI_WATERMARK, "the soft high watermark is not available, or too large"),
    TEXT(IT_ERR_SRQ_BUSY, "endpoints use the shared receive queue; free them first"),
    TEXT(IT_ERR_SRQ_LOW_WATERMARK,
         "the low watermark is above the size of the shared receive queue"),
    TEXT(IT_ERR_SRQ_NOT_SUPPORTED, "the interface adapter has no shared receive queues"),
    TEXT(IT_ERR_TIMEOUT_EXPIRED, "nothing happened in time"),
    TEXT(IT_ERR_TOO_MANY_POSTS, "the work queue is full; dequeue completions and try again"),
    TEXT(IT_ERR_WAITER_LIMIT, "too many threads wait on the EVD; let fewer wait"),
};

#define NAME(value)   \
    {                 \
        value, #value \
    }
static const struct {
    it_event_type_t event;
    const char *name;
} events[] = {
    NAME(IT_DTO_EVENT_STREAM),
    NAME(IT_DTO_SEND_CMPL_EVENT),
    NAME(IT_DTO_RC_RECV_CMPL_EVENT),
    NAME(IT_DTO_UD_RECV_CMPL_EVENT),
    NAME(IT_DTO_RDMA_WRITE_CMPL_EVENT),
    NAME(IT_DTO_RDMA_READ_CMPL_EVENT),
    NAME(IT_RMR_LINK_CMPL_EVENT),
    NAME(IT_DTO_FETCH_ADD_CMPL_EVENT),
    NAME(IT_DTO_CMP_SWAP_CMPL_EVENT),
    NAME(IT_LMR_LINK_CMPL_EVENT),
    NAME(IT_CM_REQ_EVENT_STREAM),
    NAME(IT_CM_REQ_CONN_REQUEST_EVENT),
    NAME(IT_CM_REQ_UD_SERVICE_REQUEST_EVENT),
    NAME(IT_CM_MSG_EVENT_STREAM),
    NAME(IT_CM_MSG_CONN_ACCEPT_ARRIVAL_EVENT),
    NAME(IT_CM_MSG_CONN_ESTABLISHED_EVENT),
    NAME(IT_CM_MSG_CONN_DISCONNECT_EVENT),
    NAME(IT_CM_MSG_CONN_PEER_REJECT_EVENT),
    NAME(IT_CM_MSG_CONN_NONPEER_REJECT_EVENT),
    NAME(IT_CM_MSG_CONN_BROKEN_EVENT),
    NAME(IT_CM_MSG_UD_SERVICE_REPLY_EVENT),
    NAME(IT_ASYNC_AFF_EVENT_STREAM),
    NAME(IT_ASYNC_AFF_EP_SEVD_FULL_ERROR),
    NAME(IT_ASYNC_AFF_EP_FAILURE),
    NAME(IT_ASYNC_AFF_EP_BAD_TRANSPORT_OPCODE),
    NAME(IT_ASYNC_AFF_EP_REQ_DROPPED),
    NAME(IT_ASYNC_AFF_EP_RDMAW_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_RDMAW_CORRUPT_DATA),
    NAME(IT_ASYNC_AFF_EP_RDMAR_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_L_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_L_RECV_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_L_IRRQ_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_L_TRANSPORT_ERROR),
    NAME(IT_ASYNC_AFF_EP_L_LLP_ERROR),
    NAME(IT_ASYNC_AFF_EP_R_ERROR),
    NAME(IT_ASYNC_AFF_EP_R_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_R_RECV_ACCESS_VIOLATION),
    NAME(IT_ASYNC_AFF_EP_R_RECV_LENGTH_ERROR),
    NAME(IT_ASYNC_AFF_EP_SOFT_HI_WATERMARK),
    NAME(IT_ASYNC_AFF_EP_SRQ_ERROR),
    NAME(IT_ASYNC_AFF_SRQ_LOW_WATERMARK),
    NAME(IT_ASYNC_AFF_SRQ_CATASTROPHIC),
    NAME(IT_ASYNC_AFF_SEVD_FULL_ERROR),
    NAME(IT_ASYNC_AFF_SEVD_OP_ERROR),
    NAME(IT_ASYNC_UNAFF_EVENT_STREAM),
    NAME(IT_ASYNC_UNAFF_SPIGOT_ONLINE),
    NAME(IT_ASYNC_UNAFF_SPIGOT_OFFLINE),
    NAME(IT_ASYNC_UNAFF_SEVD_ENQUEUE_FAILURE),
    NAME(IT_SOFTWARE_EVENT_STREAM),
    NAME(IT_SOFTWARE_EVENT),
    NAME(IT_AEVD_NOTIFICATION_EVENT_STREAM),
    NAME(IT_AEVD_NOTIFICATION_EVENT),
};

#define ENTRY(value) [value] = #value
static const char *const dto_statuses[] = {
    ENTRY(IT_DTO_SUCCESS),
    ENTRY(IT_DTO_ERR_LOCAL_LENGTH),
    ENTRY(IT_DTO_ERR_LOCAL_EP),
    ENTRY(IT_DTO_ERR_LOCAL_PROTECTION),
    ENTRY(IT_DTO_ERR_FLUSHED),
    ENTRY(IT_RMR_OPERATION_FAILED),
    ENTRY(IT_DTO_ERR_BAD_RESPONSE),
    ENTRY(IT_DTO_ERR_REMOTE_ACCESS),
    ENTRY(IT_DTO_ERR_REMOTE_RESPONDER),
    ENTRY(IT_DTO_ERR_TRANSPORT),
    ENTRY(IT_DTO_ERR_RECEIVER_NOT_READY),
    ENTRY(IT_DTO_ERR_PARTIAL_PACKET),
    ENTRY(IT_DTO_ERR_LOCAL_MM_OPERATION),
};

static const char *const reject_codes[] = {
    ENTRY(IT_CN_REJ_OTHER),          ENTRY(IT_CN_REJ_TIMEOUT), ENTRY(IT_CN_REJ_BAD_PATH),
    ENTRY(IT_CN_REJ_STALE_CONN),     ENTRY(IT_CN_REJ_BAD_ORD), ENTRY(IT_CN_REJ_RESOURCES),
    ENTRY(IT_CN_REJ_BAD_CONN_PARMS),
};

const char *itx_status_name(it_status_t status)
{
    return (size_t)status < ARRAY_SIZE(statuses) ? statuses[status].name : "(no it_status_t)";
}

const char *itx_status_text(it_status_t status)
{
    return (size_t)status < ARRAY_SIZE(statuses) ? statuses[status].text
                                                 : "a status that does not exist";
}

const char *itx_event_name(it_event_type_t event)
{
    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        if (events[i].event == event)
            return events[i].name;
    }
    return "(no it_event_type_t)";
}

const char *itx_dto_status_name(it_dto_status_t status)
{
    return (size_t)status < ARRAY_SIZE(dto_statuses) ? dto_statuses[status]
                                                     : "(no it_dto_status_t)";
}

const char *itx_reject_name(it_conn_reject_code_t code)
{
    return (size_t)code < ARRAY_SIZE(reject_codes) ? reject_codes[code]
                                                   : "(no it_conn_reject_code_t)";
}

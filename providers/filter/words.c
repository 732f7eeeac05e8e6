/* SPDX-License-Identifier: BSD-3-Clause */
/* Words for the numbers of rnicpi.h. */
#include "words.h"

#define FUNCTION(name, type, table)                                                \
    const char *name(type value)                                                   \
    {                                                                              \
        const size_t at = (size_t)value;                                           \
                                                                                   \
        return at < sizeof(table) / sizeof(*table) && table[at] ? table[at] : "?"; \
    }

static const char *const statuses[] = {
    [RI_OK] = "ok",
    [RI_ERR_NOT_SUPPORTED] = "not_supported",
    [RI_ERR_INVALID_ARGUMENT] = "invalid_argument",
    [RI_ERR_INVALID_STATE] = "invalid_state",
    [RI_ERR_NO_RESOURCES] = "no_resources",
    [RI_ERR_LIMIT] = "limit",
    [RI_ERR_QUEUE_FULL] = "queue_full",
    [RI_ERR_BUSY] = "busy",
    [RI_ERR_AGAIN] = "again",
    [RI_ERR_ADDRESS] = "address",
    [RI_ERR_ACCESS] = "access",
    [RI_ERR_PERMISSION] = "permission",
    [RI_ERR_ADDRESS_IN_USE] = "address_in_use",
    [RI_ERR_UNREACHABLE] = "unreachable",
    [RI_ERR_TIMED_OUT] = "timed_out",
    [RI_ERR_DEVICE] = "device",
};
FUNCTION(word_of_status, enum ri_status, statuses)

static const char *const requests[] = {
    [RI_WR_SEND] = "send",
    [RI_WR_SEND_INVALIDATE] = "send_invalidate",
    [RI_WR_RDMA_WRITE] = "write",
    [RI_WR_RDMA_WRITE_IMMEDIATE] = "write_immediate",
    [RI_WR_RDMA_READ] = "read",
    [RI_WR_RDMA_READ_INVALIDATE] = "read_invalidate",
    [RI_WR_ATOMIC_FETCH_ADD] = "fetch_add",
    [RI_WR_ATOMIC_COMPARE_SWAP] = "compare_swap",
    [RI_WR_SEND_IMMEDIATE] = "send_immediate",
    [RI_WR_BIND_WINDOW] = "bind_window",
    [RI_WR_LOCAL_INVALIDATE] = "local_invalidate",
    [RI_WR_FAST_REGISTER] = "fast_register",
};
FUNCTION(word_of_wr, uint16_t, requests)

static const char *const completions[] = {
    [RI_WC_SEND] = "send",
    [RI_WC_RDMA_WRITE] = "write",
    [RI_WC_RDMA_READ] = "read",
    [RI_WC_FETCH_ADD] = "fetch_add",
    [RI_WC_COMPARE_SWAP] = "compare_swap",
    [RI_WC_BIND_WINDOW] = "bind_window",
    [RI_WC_LOCAL_INVALIDATE] = "local_invalidate",
    [RI_WC_FAST_REGISTER] = "fast_register",
    [RI_WC_RECV] = "receive",
    [RI_WC_RECV_IMMEDIATE] = "receive_immediate",
    [RI_WC_RECV_DATAGRAM] = "receive_datagram",
};
FUNCTION(word_of_wc, uint8_t, completions)

static const char *const wc_statuses[] = {
    [RI_WC_SUCCESS] = "success",
    [RI_WC_LOCAL_LENGTH] = "local_length",
    [RI_WC_LOCAL_QP] = "local_qp",
    [RI_WC_LOCAL_PROTECTION] = "local_protection",
    [RI_WC_FLUSHED] = "flushed",
    [RI_WC_BIND] = "bind",
    [RI_WC_BAD_RESPONSE] = "bad_response",
    [RI_WC_REMOTE_ACCESS] = "remote_access",
    [RI_WC_REMOTE_OPERATION] = "remote_operation",
    [RI_WC_REMOTE_INVALID_REQUEST] = "remote_invalid_request",
    [RI_WC_TRANSPORT] = "transport",
    [RI_WC_RNR] = "rnr",
    [RI_WC_MM_OPERATION] = "mm_operation",
    [RI_WC_GENERAL] = "general",
};
FUNCTION(word_of_wc_status, uint16_t, wc_statuses)

static const char *const states[] = {
    [RI_QPS_IDLE] = "idle",       [RI_QPS_RTS] = "rts",     [RI_QPS_TERMINATE] = "terminate",
    [RI_QPS_CLOSING] = "closing", [RI_QPS_ERROR] = "error", [RI_QPS_INIT] = "init",
    [RI_QPS_RTR] = "rtr",         [RI_QPS_SQD] = "sqd",     [RI_QPS_SQE] = "sqe",
};
FUNCTION(word_of_qp_state, enum ri_qp_state, states)

static const char *const qp_types[] = {
    [RI_QP_RC] = "rc",
    [RI_QP_UD] = "ud",
    [RI_QP_UC] = "uc",
};
FUNCTION(word_of_qp_type, enum ri_qp_type, qp_types)

static const char *const events[] = {
    [RI_EVENT_ESTABLISHED] = "established",
    [RI_EVENT_LLP_CLOSED] = "llp_closed",
    [RI_EVENT_LLP_CLOSED_BUSY] = "llp_closed_busy",
    [RI_EVENT_LLP_RESET] = "llp_reset",
    [RI_EVENT_LLP_LOST] = "llp_lost",
    [RI_EVENT_TERMINATE_RECEIVED] = "terminate_received",
    [RI_EVENT_LOCAL_ERROR] = "local_error",
    [RI_EVENT_INTEGRITY] = "integrity",
    [RI_EVENT_REMOTE_OPERATION] = "remote_operation",
    [RI_EVENT_BAD_OPCODE] = "bad_opcode",
    [RI_EVENT_NO_RECEIVE] = "no_receive",
    [RI_EVENT_WRITE_ACCESS] = "write_access",
    [RI_EVENT_READ_ACCESS] = "read_access",
    [RI_EVENT_RECV_ACCESS] = "recv_access",
    [RI_EVENT_RECV_LENGTH] = "recv_length",
    [RI_EVENT_INVALIDATE_ACCESS] = "invalidate_access",
    [RI_EVENT_RESPONSE_ERROR] = "response_error",
    [RI_EVENT_QP_FATAL] = "qp_fatal",
    [RI_EVENT_QP_RQ_LIMIT_REACHED] = "qp_rq_limit_reached",
    [RI_EVENT_QP_SRQ_ERROR] = "qp_srq_error",
    [RI_EVENT_SRQ_LIMIT_REACHED] = "srq_limit_reached",
    [RI_EVENT_SRQ_FATAL] = "srq_fatal",
    [RI_EVENT_CQ_OVERFLOW] = "cq_overflow",
    [RI_EVENT_QP_OVERFLOW] = "qp_overflow",
    [RI_EVENT_CQ_ERROR] = "cq_error",
    [RI_EVENT_PORT_UP] = "port_up",
    [RI_EVENT_PORT_DOWN] = "port_down",
    [RI_EVENT_RNIC_FATAL] = "rnic_fatal",
    [RI_EVENT_GID_CHANGE] = "gid_change",
    [RI_EVENT_ADDRESS_CHANGE] = "address_change",
    [RI_EVENT_DEVICE_GONE] = "device_gone",
    [RI_EVENT_COMMUNICATION_ESTABLISHED] = "communication_established",
    [RI_EVENT_SEND_QUEUE_DRAINED] = "send_queue_drained",
};
FUNCTION(word_of_event, enum ri_event_type, events)

static const char *const connection_events[] = {
    [RI_CONNECTION_RESOLVED] = "resolved",
    [RI_CONNECTION_ACCEPTED] = "accepted",
    [RI_CONNECTION_ESTABLISHED] = "established",
    [RI_CONNECTION_REJECTED] = "rejected",
    [RI_CONNECTION_FAILED] = "failed",
    [RI_CONNECTION_DISCONNECTED] = "disconnected",
    [RI_CONNECTION_SERVICE_REPLY] = "service_reply",
    [RI_CONNECTION_TIME_WAIT_EXIT] = "time_wait_exit",
};
FUNCTION(word_of_connection_event, enum ri_connection_event_type, connection_events)

static const char *const reasons[] = {
    [RI_REASON_OTHER] = "other",
    [RI_REASON_TIMEOUT] = "timeout",
    [RI_REASON_UNREACHABLE] = "unreachable",
    [RI_REASON_REFUSED] = "refused",
    [RI_REASON_STALE] = "stale",
    [RI_REASON_READ_DEPTH] = "read_depth",
    [RI_REASON_RESOURCES] = "resources",
    [RI_REASON_PARAMETERS] = "parameters",
    [RI_REASON_PROTOCOL] = "protocol",
    [RI_REASON_POLICY] = "policy",
};
FUNCTION(word_of_reason, enum ri_connection_reason, reasons)

static const char *const arms[] = {
    [RI_ARM_NEXT] = "next",
    [RI_ARM_SOLICITED] = "solicited",
    [RI_ARM_NOTIFY_MARKED] = "notify_marked",
    [RI_ARM_NTH] = "nth",
};
FUNCTION(word_of_arm, enum ri_arm, arms)

const struct word_bit words_wr_flags[] = {
    { RI_WR_SIGNALED, "signaled" },     { RI_WR_SOLICITED, "solicited" },
    { RI_WR_READ_FENCE, "read_fence" }, { RI_WR_LOCAL_FENCE, "local_fence" },
    { RI_WR_INLINE, "inline" },         { RI_WR_NOTIFY, "notify" },
    { RI_WR_COALESCE, "coalesce" },     { 0, NULL },
};

const struct word_bit words_wc_flags[] = {
    { RI_WC_WITH_IMMEDIATE, "immediate" },
    { RI_WC_WITH_INVALIDATE, "invalidate" },
    { RI_WC_SOLICITED, "solicited" },
    { RI_WC_NOTIFY, "notify" },
    { RI_WC_GRH, "grh" },
    { 0, NULL },
};

const struct word_bit words_access[] = {
    { RI_ACCESS_LOCAL_READ, "local_read" },       { RI_ACCESS_LOCAL_WRITE, "local_write" },
    { RI_ACCESS_REMOTE_READ, "remote_read" },     { RI_ACCESS_REMOTE_WRITE, "remote_write" },
    { RI_ACCESS_REMOTE_ATOMIC, "remote_atomic" }, { RI_ACCESS_BIND, "bind" },
    { RI_ACCESS_ZERO_BASED, "zero_based" },       { RI_ACCESS_IO_ADDR, "io_addr" },
    { RI_ACCESS_KEEP_KEYS, "keep_keys" },         { 0, NULL },
};

const struct word_bit words_qp_flags[] = {
    { RI_QP_READ_ENABLE, "read" },
    { RI_QP_WRITE_ENABLE, "write" },
    { RI_QP_ATOMIC_ENABLE, "atomic" },
    { RI_QP_BIND_ENABLE, "bind" },
    { RI_QP_PRIVILEGED, "privileged" },
    { RI_QP_INVALIDATE_ENABLE, "invalidate" },
    { RI_QP_KEEP_RECEIVES, "keep_receives" },
    { 0, NULL },
};

const struct word_bit words_qp_modify[] = {
    { RI_QPM_STATE, "state" },
    { RI_QPM_ORD, "ord" },
    { RI_QPM_IRD, "ird" },
    { RI_QPM_FLAGS, "flags" },
    { RI_QPM_MAX_SEND_WR, "max_send_wr" },
    { RI_QPM_MAX_RECV_WR, "max_recv_wr" },
    { RI_QPM_RQ_LIMITS, "rq_limits" },
    { RI_QPM_HANDOVER, "handover" },
    { RI_QPM_QKEY, "qkey" },
    { RI_QPM_RNR, "rnr" },
    { RI_QPM_IMMEDIATE, "fused_immediate" },
    { RI_QPM_ACKNOWLEDGED, "acknowledged" },
    { RI_QPM_PORT, "port" },
    { RI_QPM_PATH, "path" },
    { RI_QPM_PATH_MTU, "path_mtu" },
    { RI_QPM_DESTINATION_QPN, "destination_qpn" },
    { RI_QPM_RECEIVE_PSN, "receive_psn" },
    { RI_QPM_SEND_PSN, "send_psn" },
    { RI_QPM_TIMEOUT, "timeout" },
    { RI_QPM_RETRY_COUNT, "retry_count" },
    { RI_QPM_RNR_RETRY, "rnr_retry" },
    { RI_QPM_RNR_TIMER, "rnr_timer" },
    { 0, NULL },
};

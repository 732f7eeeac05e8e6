/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of communication management: encode and parse, in the words of the
 * InfiniBand specification. M-: a requirement of the RoCE suite.
 *
 * Numbers are in the order of the machine; QPNs, PSNs and EECNs have 24 bits,
 * other widths are said where they are not those of the type. cm_put() cuts off
 * bits beyond. All fields have fixed places; no length of the peer is followed
 * (M-003).
 */
#ifndef ITAL_SOFTROCE_CM_H
#define ITAL_SOFTROCE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gid.h"
#include "mad.h"

enum cm_attribute {
    CM_REQ = 0x10,
    CM_MRA = 0x11,
    CM_REJ = 0x12,
    CM_REP = 0x13,
    CM_RTU = 0x14,
    CM_DREQ = 0x15,
    CM_DREP = 0x16,
    CM_SIDR_REQ = 0x17,
    CM_SIDR_REP = 0x18,
    CM_LAP = 0x19, /* not parsed: MAD_ERR_PATH */
    CM_APR = 0x1A,
};

#define CM_INFORMATION_LEN \
    72u /* additional information of REJ and SIDR_REP                            \
       */

/* Private data, octets (M-022); a front end of rdma_cm has less in REQ and
 * SIDR_REQ (cma.h). */
#define CM_REQ_PRIVATE      92u
#define CM_MRA_PRIVATE      222u
#define CM_REJ_PRIVATE      148u
#define CM_REP_PRIVATE      196u
#define CM_RTU_PRIVATE      224u
#define CM_DREQ_PRIVATE     220u
#define CM_DREP_PRIVATE     224u
#define CM_SIDR_REQ_PRIVATE 216u
#define CM_SIDR_REP_PRIVATE 136u

/* A path of a REQ. */
struct cm_path {
    uint16_t local_lid; /* FFFF, as Linux sends over RoCE; ignored on receipt */
    uint16_t remote_lid;
    uint8_t local_gid[GID_LEN];
    uint8_t remote_gid[GID_LEN];
    uint32_t flow_label; /* 20 bits */
    uint8_t packet_rate; /* 6 bits */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t sl; /* 4 bits */
    bool subnet_local;
    uint8_t local_ack_timeout; /* 5 bits, code (M-040) */
};

enum cm_transport {
    CM_TRANSPORT_RC = 0,
    CM_TRANSPORT_UC = 1,
    CM_TRANSPORT_RD = 2,
    CM_TRANSPORT_OTHER = 3,
};

struct cm_req {
    uint32_t local_comm_id;
    uint32_t vendor_id; /* 24 bits */
    uint64_t service_id;
    uint64_t local_ca_guid;
    uint32_t local_q_key;
    uint32_t local_qpn;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint32_t local_eecn;
    uint32_t remote_eecn;
    uint8_t remote_cm_response_timeout; /* 5 bits, code (cm_timeout_ns) */
    uint8_t transport_service_type;     /* 2 bits, enum cm_transport */
    bool end_to_end_flow_control;
    uint32_t starting_psn;             /* of the receiver's send queue (M-010) */
    uint8_t local_cm_response_timeout; /* 5 bits, code */
    uint8_t retry_count;               /* 3 bits */
    uint16_t p_key;
    uint8_t path_mtu; /* 4 bits, code of P-024 */
    bool rdc_exists;
    uint8_t rnr_retry_count; /* 3 bits */
    uint8_t max_cm_retries;  /* 4 bits */
    bool srq;
    uint8_t extended_transport_type; /* 3 bits */
    struct cm_path primary;
    struct cm_path alternate; /* all 0: none */
};

/* Which message a MRA or a REJ answers. */
enum cm_answered {
    CM_ANSWERED_REQ = 0,
    CM_ANSWERED_REP = 1,
    CM_ANSWERED_LAP = 2,  /* of MRA */
    CM_ANSWERED_NONE = 2, /* of REJ */
};

struct cm_mra {
    uint32_t local_comm_id;
    uint32_t remote_comm_id;
    uint8_t message_mraed;   /* 2 bits, enum cm_answered */
    uint8_t service_timeout; /* 5 bits, code */
};

/* Reasons of a REJ. */
enum cm_reason {
    CM_REJ_NO_QP = 1,
    CM_REJ_NO_EEC = 2,
    CM_REJ_NO_RESOURCES = 3,
    CM_REJ_TIMEOUT = 4,
    CM_REJ_UNSUPPORTED = 5,
    CM_REJ_INVALID_COMM_ID = 6,
    CM_REJ_INVALID_COMM_INSTANCE = 7,
    CM_REJ_INVALID_SERVICE_ID = 8,
    CM_REJ_INVALID_TRANSPORT_TYPE = 9,
    CM_REJ_STALE_CONN = 10,
    CM_REJ_RDC_NOT_EXIST = 11,
    CM_REJ_INVALID_GID = 12,
    CM_REJ_INVALID_LID = 13,
    CM_REJ_INVALID_SL = 14,
    CM_REJ_INVALID_TRAFFIC_CLASS = 15,
    CM_REJ_INVALID_HOP_LIMIT = 16,
    CM_REJ_INVALID_PACKET_RATE = 17,
    CM_REJ_INVALID_ALT_GID = 18,
    CM_REJ_INVALID_ALT_LID = 19,
    CM_REJ_INVALID_ALT_SL = 20,
    CM_REJ_INVALID_ALT_TRAFFIC_CLASS = 21,
    CM_REJ_INVALID_ALT_HOP_LIMIT = 22,
    CM_REJ_INVALID_ALT_PACKET_RATE = 23,
    CM_REJ_PORT_CM_REDIRECT = 24,
    CM_REJ_PORT_REDIRECT = 25,
    CM_REJ_INVALID_MTU = 26,
    CM_REJ_INSUFFICIENT_RESP_RESOURCES = 27,
    CM_REJ_CONSUMER_DEFINED = 28,
    CM_REJ_INVALID_RNR_RETRY = 29,
    CM_REJ_DUPLICATE_LOCAL_COMM_ID = 30,
    CM_REJ_INVALID_CLASS_VERSION = 31,
    CM_REJ_INVALID_FLOW_LABEL = 32,
    CM_REJ_INVALID_ALT_FLOW_LABEL = 33,
    CM_REJ_VENDOR_OPTION = 35,
};

struct cm_rej {
    uint32_t local_comm_id; /* 0: there is none (M-050) */
    uint32_t remote_comm_id;
    uint8_t message_rejected;   /* 2 bits, enum cm_answered */
    uint8_t reject_info_length; /* octets of ari that count, 0 to 72 */
    uint16_t reason;            /* enum cm_reason */
    const uint8_t *ari;         /* parsed: 72 octets of the MAD; to be put:
                                 reject_info_length octets */
};

struct cm_rep {
    uint32_t local_comm_id;
    uint32_t remote_comm_id;
    uint32_t local_q_key;
    uint32_t local_qpn;
    uint32_t vendor_id; /* 24 bits, from three places */
    uint32_t local_eecn;
    uint32_t starting_psn; /* of the receiver's send queue (M-010) */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t target_ack_delay;  /* 5 bits, code */
    uint8_t failover_accepted; /* 2 bits */
    bool end_to_end_flow_control;
    uint8_t rnr_retry_count; /* 3 bits */
    bool srq;
    uint64_t local_ca_guid;
};

/* RTU and DREP. */
struct cm_ids {
    uint32_t local_comm_id;
    uint32_t remote_comm_id;
};

struct cm_dreq {
    uint32_t local_comm_id;
    uint32_t remote_comm_id;
    uint32_t remote_qpn; /* of the receiver of the DREQ */
};

struct cm_sidr_req {
    uint32_t request_id;
    uint16_t p_key;
    uint64_t service_id;
};

/* Statuses of a SIDR_REP (M-061). */
enum cm_sidr_status {
    CM_SIDR_SUCCESS = 0,
    CM_SIDR_UNSUPPORTED = 1,
    CM_SIDR_REJECT = 2,
    CM_SIDR_NO_QP = 3,
    CM_SIDR_REDIRECT = 4,
    CM_SIDR_UNSUPPORTED_VERSION = 5,
};

struct cm_sidr_rep {
    uint32_t request_id;
    uint8_t status;                 /* enum cm_sidr_status */
    uint8_t additional_info_length; /* octets of additional_info that count, 0 to
                                     72 */
    uint32_t vendor_id;             /* 24 bits, from two places */
    uint32_t qpn;
    uint64_t service_id;
    uint32_t q_key;
    const uint8_t *additional_info; /* as ari of a REJ */
};

/* One message. */
struct cm_message {
    uint16_t attribute_id; /* enum cm_attribute: which of the union */
    uint64_t transaction_id;
    uint32_t attribute_modifier;
    union {
        struct cm_req req;
        struct cm_mra mra;
        struct cm_rej rej;
        struct cm_rep rep;
        struct cm_ids rtu;
        struct cm_dreq dreq;
        struct cm_ids drep;
        struct cm_sidr_req sidr_req;
        struct cm_sidr_rep sidr_rep;
    };
    /*
   * Parsed: in the caller's MAD, all that the message has room for, as the wire
   * has no length (M-022). To be put: that many octets; zeros follow. NULL only
   * with length 0.
   */
    const uint8_t *private_data;
    uint32_t private_len;
};

/* Octets of private data that a message has room for; 0 for an unknown
 * attribute, LAP and APR. */
uint32_t cm_private_max(uint16_t attribute_id);

/*
 * Reads a MAD of `len` octets. *message is set on MAD_OK; its pointers are into
 * the MAD. Reserved bits are ignored. Values are as received: which are right
 * is the connection manager's to say.
 */
enum mad_result cm_parse(const void *mad, size_t len, struct cm_message *message);

/*
 * Writes a message; what is unused is 0. MAD_ERR_ATTRIBUTE, MAD_ERR_PATH,
 * MAD_ERR_INFORMATION, MAD_ERR_PRIVATE_DATA: `out` is not changed.
 */
enum mad_result cm_put(uint8_t out[static MAD_LEN], const struct cm_message *message);

/* Nanoseconds of a time-out code of 5 bits: 4096 * 2^code (M-031, R-070). Bits
 * beyond are ignored. */
static inline uint64_t cm_timeout_ns(uint8_t code)
{
    return UINT64_C(4096) << (code & 31u);
}

/* Code of the local ACK timeout for a packet life time and an ACK delay, codes
 * of 5 bits (M-040). */
static inline uint8_t cm_ack_timeout(uint8_t life_time, uint8_t ack_delay)
{
    int t = (life_time & 31) + 1, delay = ack_delay & 31;

    if (t >= delay)
        t += delay >= t - 1;
    else
        t = delay + (t >= delay - 1);
    return (uint8_t)(t < 31 ? t : 31);
}

#endif

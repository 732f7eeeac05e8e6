/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMAP messages (RFC 5040, RFC 7306): opcodes, message headers, and every check of a segment
 * that needs no state of the connection. Pure functions over bytes.
 */
#ifndef ITAL_SOFTRDMA_RDMAP_H
#define ITAL_SOFTRDMA_RDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddp.h"

#define RDMAP_VERSION 1u
#define RDMAP_CTRL_RV 0xC0u
#define RDMAP_CTRL_OP 0x0Fu /* 0x30 is reserved: sent 0, ignored on receipt (C-061) */

#define RDMAP_READ_REQ_LEN    28u
#define RDMAP_ATOMIC_REQ_LEN  52u
#define RDMAP_ATOMIC_RESP_LEN 12u
#define RDMAP_IMM_LEN         8u
#define RDMAP_TERMINATE_MIN   4u

enum rdmap_opcode {
    RDMAP_WRITE = 0x0,
    RDMAP_READ_REQ = 0x1,
    RDMAP_READ_RESP = 0x2,
    RDMAP_SEND = 0x3,
    RDMAP_SEND_INV = 0x4,
    RDMAP_SEND_SE = 0x5,
    RDMAP_SEND_SE_INV = 0x6,
    RDMAP_TERMINATE = 0x7,
    RDMAP_IMM = 0x8,
    RDMAP_IMM_SE = 0x9,
    RDMAP_ATOMIC_REQ = 0xA,
    RDMAP_ATOMIC_RESP = 0xB,
    /* Of ital, between two ends that agreed to it (RI_QPM_IMMEDIATE): a Send whose ulp_word is
     * immediate data. */
    RDMAP_SEND_IMM = 0xC,
    RDMAP_SEND_SE_IMM = 0xE,
    RDMAP_OPCODES = 16, /* the others are never valid */
};

/* Optional parts of the protocol that a stack may support (C-062). */
#define RDMAP_FEATURE_IMM    0x1u
#define RDMAP_FEATURE_ATOMIC 0x2u
#define RDMAP_FEATURE_FUSED  0x4u

/* What follows the DDP header. */
enum rdmap_payload {
    RDMAP_PAYLOAD_NONE, /* unassigned opcode */
    RDMAP_PAYLOAD_DATA,
    RDMAP_PAYLOAD_READ_REQ,
    RDMAP_PAYLOAD_TERMINATE,
    RDMAP_PAYLOAD_IMM,
    RDMAP_PAYLOAD_ATOMIC_REQ,
    RDMAP_PAYLOAD_ATOMIC_RESP,
};

/* One row of the opcode table. */
struct rdmap_op {
    const char *name; /* NULL: unassigned */
    bool tagged;
    bool single;      /* one segment only: L=1 required */
    bool invalidates; /* ulp_word is an Invalidate STag */
    bool immediate;   /* ulp_word is immediate data */
    bool solicited;
    uint8_t qn;       /* untagged only */
    uint8_t payload;  /* enum rdmap_payload */
    uint8_t features; /* RDMAP_FEATURE_ bits needed */
};

extern const struct rdmap_op rdmap_ops[RDMAP_OPCODES];

/* Control octet to send for an opcode. */
static inline uint8_t rdmap_ctrl(enum rdmap_opcode opcode)
{
    return (uint8_t)(RDMAP_VERSION << 6 | (unsigned)opcode);
}

/*
 * The first word of an FPDU without its length, as the sender writes it: the control octets of the
 * kinds that the receiver's fast path takes.
 */
#define RDMAP_WORD(ddp_ctrl, opcode) \
    DDP_FIRST_WORD(0, ddp_ctrl, (uint32_t)RDMAP_VERSION << 6 | (uint32_t)(opcode))
#define RDMAP_SEND_WORD           RDMAP_WORD(DDP_CTRL_L, RDMAP_SEND)
#define RDMAP_SEND_SE_WORD        RDMAP_WORD(DDP_CTRL_L, RDMAP_SEND_SE)
#define RDMAP_WRITE_WORD          RDMAP_WORD(DDP_CTRL_T, RDMAP_WRITE)
#define RDMAP_WRITE_LAST_WORD     RDMAP_WORD(DDP_CTRL_T | DDP_CTRL_L, RDMAP_WRITE)
#define RDMAP_READ_REQ_WORD       RDMAP_WORD(DDP_CTRL_L, RDMAP_READ_REQ)
#define RDMAP_READ_RESP_WORD      RDMAP_WORD(DDP_CTRL_T, RDMAP_READ_RESP)
#define RDMAP_READ_RESP_LAST_WORD RDMAP_WORD(DDP_CTRL_T | DDP_CTRL_L, RDMAP_READ_RESP)

/* Why a segment is refused. rdmap_terminate_value() gives the value to send for each. */
enum rdmap_result {
    RDMAP_OK,
    RDMAP_ERR_MIN,             /* C-055 no control octets */
    RDMAP_ERR_DV_TAGGED,       /* C-058 DDP version */
    RDMAP_ERR_DV_UNTAGGED,     /* C-058 */
    RDMAP_ERR_RV,              /* C-060 RDMAP version */
    RDMAP_ERR_OPCODE,          /* C-062 unassigned or not supported */
    RDMAP_ERR_T,               /* C-063 T bit does not fit the opcode */
    RDMAP_ERR_HDR_TAGGED,      /* C-064 too short for the header */
    RDMAP_ERR_HDR_UNTAGGED,    /* C-065 */
    RDMAP_ERR_L,               /* C-066 single-segment message without L */
    RDMAP_ERR_QN,              /* C-067 no such queue */
    RDMAP_ERR_OPCODE_QN,       /* C-068 queue does not fit the opcode */
    RDMAP_ERR_READ_SHORT,      /* C-104 Read Request under 28 octets */
    RDMAP_ERR_READ_LONG,       /* C-104 over 28 octets */
    RDMAP_ERR_READ_MO,         /* C-105 */
    RDMAP_ERR_IMM,             /* C-124 length or MO */
    RDMAP_ERR_ATOMIC_SHORT,    /* C-127 Atomic Request under 52 octets */
    RDMAP_ERR_ATOMIC_LONG,     /* C-127 over 52 octets, or MO not 0 */
    RDMAP_ERR_ATOMIC_OP,       /* C-130 */
    RDMAP_ERR_ATOMIC_RESP_LEN, /* C-140 */
    RDMAP_RESULTS,
};

/* Terminate value (0xLECC) of a refusal; 0xFFFF for RDMAP_OK. */
uint16_t rdmap_terminate_value(enum rdmap_result result);

/* Short English text for logs, never NULL. */
const char *rdmap_result_text(enum rdmap_result result);

/* A segment that passed rdmap_check(). Points into the caller's ULPDU. */
struct rdmap_segment {
    struct ddp_hdr hdr;
    enum rdmap_opcode opcode;
    const struct rdmap_op *op;
    const uint8_t *payload;
    uint32_t payload_len;
};

/*
 * Stage 5 (and the stateless C-055): minimum length, DV, RV, opcode, T, header length, L; the
 * first failure decides. `features` is what this connection supports. *seg is set on RDMAP_OK.
 */
enum rdmap_result rdmap_check(const void *ulpdu, size_t len, unsigned features,
                              struct rdmap_segment *seg);

/* First two rows of stage 6: queue number exists and fits the opcode. Tagged segments pass. */
enum rdmap_result rdmap_check_queue(const struct rdmap_segment *seg, unsigned features);

/* A Read Request's length and offset (C-104, C-105). */
static inline bool rdmap_read_request_ok(const struct ddp_hdr *hdr, uint32_t payload_len)
{
    return payload_len == RDMAP_READ_REQ_LEN && !hdr->mo;
}

/*
 * Length and offset of fixed-size messages (C-104, C-105, C-124, C-127, C-140); for other opcodes
 * RDMAP_OK. The check comes before the MSN check for requests, after MSN and receive for Immediate
 * Data, and after "is one outstanding" and MSN/MO (C-138, C-139) for Atomic Responses.
 */
enum rdmap_result rdmap_check_payload(const struct rdmap_segment *seg);

/* RDMA Read Request. */
struct rdmap_read_req {
    uint32_t sink_stag;
    uint32_t size;
    uint64_t sink_to;
    uint64_t src_to;
    uint32_t src_stag;
};

static inline void rdmap_put_read_req(uint8_t out[static RDMAP_READ_REQ_LEN],
                                      const struct rdmap_read_req *req)
{
    be_put32(out, req->sink_stag);
    be_put64(out + 4, req->sink_to);
    be_put32(out + 12, req->size);
    be_put32(out + 16, req->src_stag);
    be_put64(out + 20, req->src_to);
}

static inline void rdmap_get_read_req(const uint8_t in[static RDMAP_READ_REQ_LEN],
                                      struct rdmap_read_req *req)
{
    req->sink_stag = be_get32(in);
    req->sink_to = be_get64(in + 4);
    req->size = be_get32(in + 12);
    req->src_stag = be_get32(in + 16);
    req->src_to = be_get64(in + 20);
}

/* Atomics (RFC 7306). */
enum rdmap_atomic_op {
    RDMAP_FETCH_ADD = 0,
    RDMAP_CMP_SWAP = 2,
};

struct rdmap_atomic_req {
    uint8_t op; /* low 4 bits as received; rdmap_check_atomic_op() checks them */
    uint32_t id;
    uint32_t stag;
    uint64_t to;
    uint64_t data; /* addend or swap value */
    uint64_t mask;
    uint64_t compare;
    uint64_t compare_mask;
};

struct rdmap_atomic_resp {
    uint32_t id;
    uint64_t value; /* before the operation */
};

void rdmap_put_atomic_req(uint8_t out[static RDMAP_ATOMIC_REQ_LEN],
                          const struct rdmap_atomic_req *req);
/* The 28 reserved bits are ignored (C-129). */
void rdmap_get_atomic_req(const uint8_t in[static RDMAP_ATOMIC_REQ_LEN],
                          struct rdmap_atomic_req *req);
enum rdmap_result rdmap_check_atomic_op(uint8_t op);
void rdmap_put_atomic_resp(uint8_t out[static RDMAP_ATOMIC_RESP_LEN],
                           const struct rdmap_atomic_resp *resp);
void rdmap_get_atomic_resp(const uint8_t in[static RDMAP_ATOMIC_RESP_LEN],
                           struct rdmap_atomic_resp *resp);

/*
 * Immediate Data: 8 octets on the wire as one big-endian number. A 32-bit immediate of verbs
 * is its low half, the upper half zero (S-073). With RI_QPM_IMMEDIATE the upper half is the length
 * of the RDMA Write before it.
 */
static inline void rdmap_put_imm(uint8_t out[static RDMAP_IMM_LEN], uint64_t value)
{
    be_put64(out, value);
}

static inline uint64_t rdmap_get_imm(const uint8_t in[static RDMAP_IMM_LEN])
{
    return be_get64(in);
}

#endif

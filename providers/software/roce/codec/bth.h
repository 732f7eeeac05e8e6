/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of RoCEv2 from the BTH on: base transport header, extension headers, payload. One table
 * says what each opcode of RC, UC and UD, and CNP, has. Pure functions over octets.
 *
 * P-, R-, U-: requirements of the RoCE suite. Numbers are in the order of the machine; QPNs, PSNs
 * and MSNs have 24 bits.
 */
#ifndef ITAL_SOFTROCE_BTH_H
#define ITAL_SOFTROCE_BTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/be.h"

#define BTH_LEN            12u
#define BTH_DETH_LEN       8u
#define BTH_RETH_LEN       16u
#define BTH_ATOMIC_LEN     28u /* AtomicETH */
#define BTH_AETH_LEN       4u
#define BTH_ATOMIC_ACK_LEN 8u /* AtomicAckETH */
#define BTH_IMM_LEN        4u /* ImmDt */
#define BTH_IETH_LEN       4u
#define BTH_CNP_LEN        16u /* reserved octets of a CNP */
#define BTH_ICRC_LEN       4u
#define BTH_HEADERS_MAX    (BTH_LEN + BTH_ATOMIC_LEN)

/* Octets from the BTH to the ICRC: what one UDP datagram carries. */
#define BTH_PACKET_MIN (BTH_LEN + BTH_ICRC_LEN)
#define BTH_PACKET_MAX 65507u

/* The octet that the ICRC takes for ones: FECN, BECN and reserved bits. */
#define BTH_MASKED_OCTET 4u

#define BTH_MASK24      UINT32_C(0xFFFFFF)
#define BTH_P_KEY       0xFFFFu             /* the only one of RoCE's tables (P-025) */
#define BTH_MESSAGE_MAX (UINT32_C(1) << 31) /* octets (P-032) */
#define BTH_MTU_MIN     256u
#define BTH_MTU_MAX     4096u

/* Queue pairs with a meaning of their own (P-020, U-040). */
#define BTH_QPN_SMI       UINT32_C(0) /* dropped */
#define BTH_QPN_GSI       UINT32_C(1)
#define BTH_QPN_MULTICAST UINT32_C(0xFFFFFF)

/* Octets 1, 4 and 8. Other bits are reserved: sent 0, ignored on receipt. */
#define BTH_SE       0x80u
#define BTH_M        0x40u
#define BTH_PAD      0x30u
#define BTH_TVER     0x0Fu
#define BTH_FECN     0x80u
#define BTH_BECN     0x40u
#define BTH_ACK_REQ  0x80u
#define BTH_WORD_ACK UINT32_C(0x80000000) /* AckReq in front of the PSN */

/* Bits 7 to 5 of an opcode. */
enum bth_service {
    BTH_RC = 0x00,
    BTH_UC = 0x20,
    BTH_UD = 0x60,
    BTH_CONGESTION = 0x80, /* CNP alone */
};

/* Bits 4 to 0: opcode = service | operation. */
enum bth_operation {
    BTH_SEND_FIRST = 0x00,
    BTH_SEND_MIDDLE = 0x01,
    BTH_SEND_LAST = 0x02,
    BTH_SEND_LAST_IMM = 0x03,
    BTH_SEND_ONLY = 0x04,
    BTH_SEND_ONLY_IMM = 0x05,
    BTH_WRITE_FIRST = 0x06,
    BTH_WRITE_MIDDLE = 0x07,
    BTH_WRITE_LAST = 0x08,
    BTH_WRITE_LAST_IMM = 0x09,
    BTH_WRITE_ONLY = 0x0A,
    BTH_WRITE_ONLY_IMM = 0x0B,
    BTH_READ_REQUEST = 0x0C,
    BTH_READ_RESPONSE_FIRST = 0x0D,
    BTH_READ_RESPONSE_MIDDLE = 0x0E,
    BTH_READ_RESPONSE_LAST = 0x0F,
    BTH_READ_RESPONSE_ONLY = 0x10,
    BTH_ACKNOWLEDGE = 0x11,
    BTH_ATOMIC_ACKNOWLEDGE = 0x12,
    BTH_COMPARE_SWAP = 0x13,
    BTH_FETCH_ADD = 0x14,
    BTH_SEND_LAST_INV = 0x16,
    BTH_SEND_ONLY_INV = 0x17,
};
#define BTH_CNP     0x81u
#define BTH_OPCODES 256u

/* Extension headers; on the wire in this order. */
enum bth_headers {
    BTH_HAS_DETH = 0x01,
    BTH_HAS_RETH = 0x02,
    BTH_HAS_ATOMIC = 0x04,
    BTH_HAS_AETH = 0x08,
    BTH_HAS_ATOMIC_ACK = 0x10,
    BTH_HAS_IMM = 0x20,
    BTH_HAS_IETH = 0x40,
    BTH_HAS_CNP = 0x80,
};

enum bth_kind {
    BTH_KIND_SEND,
    BTH_KIND_WRITE,
    BTH_KIND_READ,
    BTH_KIND_ATOMIC,
    BTH_KIND_READ_RESPONSE,
    BTH_KIND_ACKNOWLEDGE,
    BTH_KIND_ATOMIC_ACKNOWLEDGE,
    BTH_KIND_CNP,
};

/* Place of a packet in its message. */
enum bth_place {
    BTH_FIRST,
    BTH_MIDDLE,
    BTH_LAST,
    BTH_ONLY,
};

/* Octets of payload. */
enum bth_payload {
    BTH_PAYLOAD_NONE,
    BTH_PAYLOAD_MTU,  /* exactly the MTU */
    BTH_PAYLOAD_SOME, /* 1 to MTU */
    BTH_PAYLOAD_ANY,  /* 0 to MTU */
};

/* One row of the opcode table. */
struct bth_op {
    const char *name;   /* NULL: unknown, to be dropped */
    uint8_t service;    /* enum bth_service */
    uint8_t kind;       /* enum bth_kind */
    uint8_t place;      /* enum bth_place */
    uint8_t headers;    /* enum bth_headers */
    uint8_t header_len; /* octets from the BTH to the payload: 12 to 40 */
    uint8_t payload;    /* enum bth_payload */
};

extern const struct bth_op bth_ops[BTH_OPCODES];

/* Is it an answer, for the requester? */
static inline bool bth_is_response(const struct bth_op *op)
{
    return op->kind >= BTH_KIND_READ_RESPONSE && op->kind != BTH_KIND_CNP;
}

static inline bool bth_is_begin(const struct bth_op *op)
{
    return op->place == BTH_FIRST || op->place == BTH_ONLY;
}

static inline bool bth_is_end(const struct bth_op *op)
{
    return op->place == BTH_LAST || op->place == BTH_ONLY;
}

/* Why a packet is refused. */
enum bth_result {
    BTH_OK,
    /* Of bth_parse(): drop without an answer. */
    BTH_ERR_SHORT,     /* P-002 no room for BTH and ICRC */
    BTH_ERR_LONG,      /* P-002 more than a UDP datagram has */
    BTH_ERR_UNALIGNED, /* P-003 length not a multiple of 4 */
    BTH_ERR_VERSION,   /* R-060 TVer not 0 */
    BTH_ERR_OPCODE,    /* R-060 unknown opcode */
    BTH_ERR_QPN,       /* P-020 destination QPN 0 */
    BTH_ERR_P_KEY,     /* P-025 */
    BTH_ERR_HEADERS,   /* P-002 no room for the extension headers */
    BTH_ERR_PAD,       /* P-002 no room for the pad */
    BTH_ERR_SYNDROME,  /* R-017 unknown, or no acknowledgement where data come with it */
    /* Of bth_check(): NAK 61 for requests of RC; else drop (R-122, R-018, U-001). */
    BTH_ERR_PAYLOAD,    /* R-053 payload does not fit opcode and MTU */
    BTH_ERR_MESSAGE,    /* P-032 DMA length beyond 2^31 */
    BTH_ERR_DMA_LENGTH, /* R-053 DMA length does not fit Write First or Only */
    BTH_ERR_ADDRESS,    /* R-055 address of an atomic not a multiple of 8 */
    BTH_RESULTS,
};

/* Requirement ("P-003") and short English text for logs; never NULL. */
const char *bth_result_requirement(enum bth_result result);
const char *bth_result_text(enum bth_result result);

/*
 * A packet's headers. Of the extension headers only those that the opcode has are set by
 * bth_parse() and read by bth_put().
 */
struct bth_packet {
    uint8_t opcode;
    uint8_t pad;     /* 0 to 3; bth_put() computes it */
    bool solicited;  /* SE */
    bool mig_req;    /* M: sent 1 (P-030), ignored on receipt */
    bool fecn, becn; /* sent 0; BECN is 1 in a CNP (P-031) */
    bool ack_req;    /* A */
    uint16_t p_key;
    uint32_t dest_qpn;
    uint32_t psn;

    uint32_t q_key; /* DETH */
    uint32_t src_qpn;
    union {
        struct { /* RETH and AtomicETH */
            uint64_t va;
            uint32_t r_key;
            uint32_t dma_length; /* of the whole message; RETH only */
            uint64_t swap_add;   /* AtomicETH only */
            uint64_t compare;
        };
        struct { /* AETH and AtomicAckETH */
            uint8_t syndrome;
            uint32_t msn;
            uint64_t original;
        };
    };
    union {
        uint32_t imm;            /* ImmDt: the four octets, the first on top */
        uint32_t invalidate_key; /* IETH: R_Key */
    };

    const struct bth_op *op; /* set by bth_parse(); bth_put() goes by `opcode` */
    const uint8_t *payload;  /* in the caller's packet; not read by bth_put() */
    uint32_t payload_len;
};

/*
 * Reads a packet of `len` octets, from the BTH to the ICRC field, as one datagram carried it.
 * Lengths and what has no state are checked; ICRC, addresses, QP and payload (bth_check) are not.
 * The pad's octets are not looked at. *packet is set on BTH_OK.
 */
enum bth_result bth_parse(const void *packet_octets, size_t len, struct bth_packet *packet);

/*
 * What a receiver checks behind PSN, order and permission: payload against opcode and MTU, DMA
 * length, alignment of atomics; the first failure decides. `mtu`: octets of payload (P-024). A pad
 * count always fits, as the length of the packet is a multiple of 4.
 */
enum bth_result bth_check(const struct bth_packet *packet, uint32_t mtu);

/*
 * Writes BTH and extension headers for a payload of packet->payload_len octets; reserved fields are
 * 0. Returns the octets before the payload, 12 to 40; 0 for an unknown opcode. Bits beyond 24 of
 * QPNs, PSN and MSN are cut off.
 */
uint32_t bth_put(uint8_t out[static BTH_HEADERS_MAX], const struct bth_packet *packet);

/* Octets of pad behind a payload. */
static inline uint32_t bth_pad(uint32_t payload_len)
{
    return -payload_len & 3u;
}

/* Octets of a packet of this opcode from the BTH to the ICRC; payload_len at most 65,507. */
static inline uint32_t bth_packet_len(const struct bth_op *op, uint32_t payload_len)
{
    return op->header_len + payload_len + bth_pad(payload_len) + BTH_ICRC_LEN;
}

/* The BTH alone: `flags` is octet 1 (BTH_SE, BTH_M, pad count << 4), `psn_word` the PSN or
 * BTH_WORD_ACK | PSN. */
static inline void bth_put_base(uint8_t out[static BTH_LEN], uint8_t opcode, uint32_t flags,
                                uint32_t dest_qpn, uint32_t psn_word)
{
    be_put32(out, (uint32_t)opcode << 24 | (flags & 0xFFu) << 16 | BTH_P_KEY);
    be_put32(out + 4, dest_qpn & BTH_MASK24);
    be_put32(out + 8, psn_word & (BTH_WORD_ACK | BTH_MASK24));
}

static inline void bth_put_deth(uint8_t out[static BTH_DETH_LEN], uint32_t q_key, uint32_t src_qpn)
{
    be_put32(out, q_key);
    be_put32(out + 4, src_qpn & BTH_MASK24);
}

static inline void bth_put_reth(uint8_t out[static BTH_RETH_LEN], uint64_t va, uint32_t r_key,
                                uint32_t dma_length)
{
    be_put64(out, va);
    be_put32(out + 8, r_key);
    be_put32(out + 12, dma_length);
}

static inline void bth_put_atomic(uint8_t out[static BTH_ATOMIC_LEN], uint64_t va, uint32_t r_key,
                                  uint64_t swap_add, uint64_t compare)
{
    be_put64(out, va);
    be_put32(out + 8, r_key);
    be_put64(out + 12, swap_add);
    be_put64(out + 20, compare);
}

static inline void bth_put_aeth(uint8_t out[static BTH_AETH_LEN], uint8_t syndrome, uint32_t msn)
{
    be_put32(out, (uint32_t)syndrome << 24 | (msn & BTH_MASK24));
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Low 15 bits equal, and not both of limited members (P-025). */
static inline bool bth_p_key_match(uint16_t a, uint16_t b)
{
    return !((a ^ b) & 0x7FFFu) && (a | b) & 0x8000u;
}

/* AETH: the kind in bits 6 and 5, credits, timer or code in bits 4 to 0. Bit 7 is 0. */
#define AETH_ACK          0x00u
#define AETH_ACK_NO_LIMIT 0x1Fu /* an ACK without a limit of credits */
#define AETH_RNR_NAK      0x20u
#define AETH_NAK          0x60u
#define AETH_KIND         0xE0u
#define AETH_VALUE        0x1Fu

/* Syndromes of NAKs. */
#define AETH_NAK_SEQUENCE         0x60u
#define AETH_NAK_INVALID_REQUEST  0x61u
#define AETH_NAK_REMOTE_ACCESS    0x62u
#define AETH_NAK_REMOTE_OPERATION 0x63u

static inline bool aeth_is_ack(uint8_t syndrome)
{
    return (syndrome & AETH_KIND) == AETH_ACK;
}

static inline bool aeth_is_rnr_nak(uint8_t syndrome)
{
    return (syndrome & AETH_KIND) == AETH_RNR_NAK;
}

/* Is it one that RC knows? Bit 7, the reserved kind, and codes of NAK beyond 63 are not. */
static inline bool aeth_is_known(uint8_t syndrome)
{
    return syndrome <= AETH_NAK_REMOTE_OPERATION && (syndrome & AETH_KIND) != 0x40u;
}

/* Microseconds of a RNR NAK's timer code: 10 to 655,360. Bits beyond the low 5 are ignored. */
uint32_t aeth_rnr_timer_us(uint8_t code);

/* Distance of PSN a from b modulo 2^24: < 0 before, > 0 after. 2^23 counts as before (P-021,
 * */
static inline int32_t bth_psn_diff(uint32_t a, uint32_t b)
{
    uint32_t diff = (a - b) & BTH_MASK24;

    return diff & 0x800000u ? (int32_t)diff - 0x1000000 : (int32_t)diff;
}

static inline uint32_t bth_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & BTH_MASK24;
}

/* Packets of a message, and PSNs of a Read: max(1, ceil(len / mtu)) (P-022, R-001). mtu > 0. */
static inline uint32_t bth_packets(uint32_t len, uint32_t mtu)
{
    return len ? (len - 1u) / mtu + 1u : 1u;
}

/* Octets of a path MTU code (P-024); 0 for a code that there is not. */
static inline uint32_t bth_mtu_octets(uint32_t code)
{
    return code >= 1u && code <= 5u ? 128u << code : 0u;
}

/* The largest code for an interface's MTU, 80 octets of which are for headers (P-024); 0: none. */
static inline uint32_t bth_mtu_code(uint32_t interface_mtu)
{
    uint32_t code = 5;

    while (code && interface_mtu < bth_mtu_octets(code) + 80u)
        code--;
    return code;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMAP Terminate (RFC 5040 section 4.8): builds ours, reads the peer's, names the errors.
 * An error is one 16-bit number 0xLECC: layer, error type, error code.
 */
#ifndef ITAL_SOFTRDMA_TERMINATE_H
#define ITAL_SOFTRDMA_TERMINATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddp.h"
#include "rdmap.h"

#define TERMINATE_CTRL_LEN    4u
#define TERMINATE_PAYLOAD_MAX 52u
#define TERMINATE_ULPDU_MAX   (DDP_UNTAGGED_LEN + TERMINATE_PAYLOAD_MAX)

/* The upper four bits of a value: the layer of the error. */
#define TERMINATE_RDMAP 0u
#define TERMINATE_DDP   1u

/* Values that this stack sends (WIRE-3, column Emit). */
enum terminate_value {
    TERMINATE_LOCAL = 0x0000,
    TERMINATE_R_STAG = 0x0100, /* RDMAP remote protection: Read Request, Atomic, Send with Inv. */
    TERMINATE_R_BOUNDS = 0x0101,
    TERMINATE_R_ACCESS = 0x0102,
    TERMINATE_R_STREAM = 0x0103,
    TERMINATE_R_WRAP = 0x0104,
    TERMINATE_R_INVALIDATE = 0x0109,
    TERMINATE_RV = 0x0205, /* RDMAP remote operation */
    TERMINATE_OPCODE = 0x0206,
    TERMINATE_STREAM = 0x0207,
    TERMINATE_DDP_LOCAL = 0x1000,
    TERMINATE_T_STAG = 0x1100, /* DDP tagged buffer */
    TERMINATE_T_BOUNDS = 0x1101,
    TERMINATE_T_STREAM = 0x1102,
    TERMINATE_T_WRAP = 0x1103,
    TERMINATE_T_DV = 0x1104,
    TERMINATE_U_QN = 0x1201, /* DDP untagged buffer */
    TERMINATE_U_NOBUF = 0x1202,
    TERMINATE_U_MSN = 0x1203,
    TERMINATE_U_MO = 0x1204,
    TERMINATE_U_LONG = 0x1205,
    TERMINATE_U_DV = 0x1206,
    TERMINATE_LLP_LOST = 0x2001, /* MPA */
    TERMINATE_CRC = 0x2002,
    TERMINATE_MARKER = 0x2003,
    TERMINATE_STARTUP = 0x2004,
    TERMINATE_MPA_LOCAL = 0x2005,
    TERMINATE_IRD = 0x2006,
    TERMINATE_RTR = 0x2007,
};

/* The segment that a Terminate is about. */
struct terminate_cause {
    const void *ulpdu;  /* its first octets: DDP header and, for a Read Request, 28 more */
    size_t have;        /* octets readable at ulpdu; fewer than a header: no headers are sent */
    uint32_t ulpdu_len; /* length as received, for DDP Segment Length (S-060) */
    /* Read Request as far as it was answered (C-116). NULL: as it is in the ULPDU. */
    const struct rdmap_read_req *advanced;
};

/*
 * Writes the Terminate payload (control, length, headers as the error's kind wants them) and
 * returns its length: 4, 20, 24 or 52. `cause` may be NULL. Absent headers are left out.
 */
size_t terminate_build(uint8_t out[static TERMINATE_PAYLOAD_MAX], uint16_t value,
                       const struct terminate_cause *cause);

/* The same behind its DDP header (QN 2, MSN 1, MO 0, L): a whole ULPDU of 22, 38, 42 or 70. */
size_t terminate_build_ulpdu(uint8_t out[static TERMINATE_ULPDU_MAX], uint16_t value,
                             const struct terminate_cause *cause);

enum terminate_result {
    TERMINATE_OK,
    TERMINATE_ERR_SHORT, /* under 4 octets: nothing can be said, the stream has ended anyway */
};

/* A received Terminate. Pointers are into the caller's payload. */
struct terminate_info {
    uint16_t value; /* in RFC order, whatever form the peer used */
    bool swapped;   /* the peer used the bit order of Linux siw (C-145) */
    bool uncertain; /* both readings are possible; see terminate_parse() */
    bool truncated; /* announced headers are not all there (C-144) */
    bool has_len;   /* M */
    uint16_t ddp_segment_len;
    const uint8_t *ddp_hdr; /* NULL if absent */
    uint8_t ddp_hdr_len;    /* 14 or 18; fewer when truncated */
    const uint8_t *rdma_hdr;
    uint8_t rdma_hdr_len; /* 28; fewer when truncated */
};

/*
 * Reads a Terminate payload of either form; never reads past len. `peer_is_siw` decides the
 * cases that the octets leave open.
 */
enum terminate_result terminate_parse(const void *payload, size_t len, bool peer_is_siw,
                                      struct terminate_info *info);

/* C-142: is the DDP header of a received Terminate as it must be? The stream ends either way. */
bool terminate_well_formed(const struct rdmap_segment *seg);

/*
 * Maps the ways in which stacks write the same MPA error to one: layer 2 type 3 becomes type 0, the
 * RDMAC values 0202 and 0203 become 2002 and 2003. Other values stay.
 */
uint16_t terminate_canonical(uint16_t value);

/* Texts for logs and `itstat`; never NULL. The text of an unknown value says so. */
const char *terminate_text(uint16_t value);
const char *terminate_layer_text(uint16_t value);

#endif

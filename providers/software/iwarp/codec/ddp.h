/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DDP segment headers (RFC 5041): encode and decode without checks. rdmap.h, which knows the
 * opcodes, checks them.
 */
#ifndef ITAL_SOFTRDMA_DDP_H
#define ITAL_SOFTRDMA_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/be.h"
#include "mpa.h"

#define DDP_TAGGED_LEN   14u
#define DDP_UNTAGGED_LEN 18u
#define DDP_HDR_MAX      18u
#define DDP_VERSION      1u

/* Control octet. 0x3C is reserved: sent 0, ignored on receipt (C-059). */
#define DDP_CTRL_T  0x80u
#define DDP_CTRL_L  0x40u
#define DDP_CTRL_DV 0x03u

/* Untagged queues. */
#define DDP_QN_SEND      0u
#define DDP_QN_READ      1u /* Read and Atomic Requests */
#define DDP_QN_TERMINATE 2u
#define DDP_QN_ATOMIC    3u /* Atomic Responses */

enum ddp_result {
    DDP_OK,
    DDP_ERR_SHORT, /* fewer octets than the header needs */
};

struct ddp_hdr {
    bool tagged;
    bool last;
    uint8_t dv;
    uint8_t ulp_ctrl; /* first RsvdULP octet: the RDMAP control octet */
    uint8_t len;      /* octets of this header: 14 or 18 */
    union {
        struct { /* tagged */
            uint32_t stag;
            uint64_t to;
        };
        struct {               /* untagged */
            uint32_t ulp_word; /* other RsvdULP octets: the Invalidate STag */
            uint32_t qn;
            uint32_t msn;
            uint32_t mo;
        };
    };
};

static inline uint32_t ddp_hdr_len(bool tagged)
{
    return tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
}

/* Payload octets that fit into a segment. mulpdu > DDP_HDR_MAX. */
static inline uint32_t ddp_payload_max(uint32_t mulpdu, bool tagged)
{
    return mulpdu - ddp_hdr_len(tagged);
}

/* Segments of a message of `len` octets; a message of length zero takes one (S-041). */
static inline uint32_t ddp_segments(uint32_t len, uint32_t payload_max)
{
    return len ? (len - 1u) / payload_max + 1u : 1u;
}

/* Distance of a MSN from the expected one, modulo 2^32: < 0 old, 0 equal, > 0 gap (C-070,
 * C-071). */
static inline int32_t ddp_msn_diff(uint32_t msn, uint32_t expected)
{
    return (int32_t)(msn - expected);
}

/*
 * ULPDU_Length, the DDP control octet and the RDMAP control octet as one number: the first word of
 * an FPDU. The sender writes it, the receiver's fast path compares it, so it is a constant on both
 * sides.
 */
#define DDP_FIRST_WORD(ulpdu_octets, ddp_ctrl, ulp_ctrl) \
    ((uint32_t)(ulpdu_octets) << 16 | ((uint32_t)(ddp_ctrl) | DDP_VERSION) << 8 | (ulp_ctrl))

/*
 * Both write the front of an FPDU whose segment has `payload` octets, and return the octets before
 * the payload. Headers are stored eight octets at once, as the CRC reads them: the processor would
 * stall on a load of parts. `out` has room for MPA_HDR_LEN + DDP_HDR_MAX.
 */
static inline uint32_t ddp_put_tagged_fpdu(uint8_t *out, uint32_t payload, bool last,
                                           uint32_t ulp_ctrl, uint32_t stag, uint64_t to)
{
    uint32_t first = DDP_FIRST_WORD(DDP_TAGGED_LEN + payload, DDP_CTRL_T | (last ? DDP_CTRL_L : 0u),
                                    ulp_ctrl);

    be_put64(out, (uint64_t)first << 32 | stag);
    be_put64(out + 8, to);
    return MPA_HDR_LEN + DDP_TAGGED_LEN;
}

static inline uint32_t ddp_put_untagged_fpdu(uint8_t *out, uint32_t payload, bool last,
                                             uint32_t ulp_ctrl, uint32_t ulp_word, uint32_t qn,
                                             uint32_t msn, uint32_t mo)
{
    uint32_t first = DDP_FIRST_WORD(DDP_UNTAGGED_LEN + payload, last ? DDP_CTRL_L : 0u, ulp_ctrl);

    be_put32(out, first);
    be_put64(out + 4, (uint64_t)ulp_word << 32 | qn);
    be_put64(out + 12, (uint64_t)msn << 32 | mo);
    return MPA_HDR_LEN + DDP_UNTAGGED_LEN;
}

/* The header alone. */
static inline void ddp_put_tagged(uint8_t out[static DDP_TAGGED_LEN], bool last, uint8_t ulp_ctrl,
                                  uint32_t stag, uint64_t to)
{
    uint8_t fpdu[MPA_HDR_LEN + DDP_TAGGED_LEN];

    ddp_put_tagged_fpdu(fpdu, 0, last, ulp_ctrl, stag, to);
    memcpy(out, fpdu + MPA_HDR_LEN, DDP_TAGGED_LEN);
}

static inline void ddp_put_untagged(uint8_t out[static DDP_UNTAGGED_LEN], bool last,
                                    uint8_t ulp_ctrl, uint32_t ulp_word, uint32_t qn, uint32_t msn,
                                    uint32_t mo)
{
    uint8_t fpdu[MPA_HDR_LEN + DDP_UNTAGGED_LEN];

    ddp_put_untagged_fpdu(fpdu, 0, last, ulp_ctrl, ulp_word, qn, msn, mo);
    memcpy(out, fpdu + MPA_HDR_LEN, DDP_UNTAGGED_LEN);
}

/* The whole header is there, and its T bit is known. */
static inline void ddp_get_whole(const uint8_t *p, bool tagged, struct ddp_hdr *hdr)
{
    hdr->tagged = tagged;
    hdr->last = p[0] & DDP_CTRL_L;
    hdr->dv = p[0] & DDP_CTRL_DV;
    hdr->ulp_ctrl = p[1];
    hdr->len = (uint8_t)ddp_hdr_len(tagged);
    if (tagged) {
        hdr->stag = be_get32(p + 2);
        hdr->to = be_get64(p + 6);
    } else {
        hdr->ulp_word = be_get32(p + 2);
        hdr->qn = be_get32(p + 6);
        hdr->msn = be_get32(p + 10);
        hdr->mo = be_get32(p + 14);
    }
}

/* Reads the header that the T bit announces from the first octets of a ULPDU. No other test. */
enum ddp_result ddp_get(const void *ulpdu, size_t len, struct ddp_hdr *hdr);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA framing (RFC 5044): FPDU geometry, CRC and marker arithmetic. Pure functions over bytes.
 *
 *   FPDU:  ULPDU_Length (2) | ULPDU | PAD (0..3, zero) | CRC32C (4, least significant octet first)
 *
 * 2 + ULPDU + PAD is a multiple of 4. Markers (4 octets each) lie at every stream position that
 * is a multiple of 512, counted from the first octet of Full Operation in that direction.
 */
#ifndef ITAL_SOFTRDMA_MPA_H
#define ITAL_SOFTRDMA_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/be.h"
#include "base/crc32c.h"

#define MPA_HDR_LEN       2u
#define MPA_CRC_LEN       4u
#define MPA_TRAILER_MAX   7u /* three octets of PAD and the CRC */
#define MPA_MARKER_LEN    4u
#define MPA_MARKER_PERIOD 512u
#define MPA_MULPDU_MIN    128u   /* RFC 5044 section 3: MULPDU never goes below */
#define MPA_MULPDU_MAX    64768u /* sender's limit; S-023 */
#define MPA_ULPDU_MAX     65535u /* what the length field can say, and what we receive; C-048 */
#define MPA_FPDU_MAX      65544u /* 2 + 65535 + 3 + 4, without markers */

enum mpa_result {
    MPA_OK,
    MPA_NEED_MORE,  /* not an error: the FPDU is not complete yet */
    MPA_ERR_CRC,    /* C-050 */
    MPA_ERR_MARKER, /* C-054 */
    MPA_ERR_LENGTH, /* C-055: no room for the control octets */
};

/* Terminate value (0xLECC) for an MPA_ERR_ result; MPA_OK and MPA_NEED_MORE have none (0xFFFF). */
uint16_t mpa_terminate_value(enum mpa_result result);

/* Short English text for events, never NULL. */
const char *mpa_result_text(enum mpa_result result);

/* PAD octets behind a ULPDU of n octets: 0..3. */
static inline uint32_t mpa_pad(uint32_t n)
{
    return (0u - (MPA_HDR_LEN + n)) & 3u;
}

/* Octets of an FPDU without markers for a ULPDU of n octets, n <= 65535; a multiple of 4. */
static inline uint32_t mpa_fpdu_len(uint32_t n)
{
    return ((MPA_HDR_LEN + n + 3u) & ~3u) + MPA_CRC_LEN; /* with PAD */
}

/*
 * Largest ULPDU for an effective MSS (S-024): fills at most one TCP segment, with room for the
 * worst case of markers when `markers` is set. Between 128 and 64768 whatever emss is.
 */
uint32_t mpa_mulpdu(uint32_t emss, bool markers);

/* MULPDU when FPDUs may exceed the MSS (`fpdu=max`): the sender's limit of the protocol. */
static inline uint32_t mpa_mulpdu_unbound(void)
{
    return MPA_MULPDU_MAX;
}

static inline void mpa_put_len(uint8_t out[static MPA_HDR_LEN], uint32_t ulpdu_len)
{
    be_put16(out, (uint16_t)ulpdu_len);
}

static inline uint32_t mpa_get_len(const uint8_t in[static MPA_HDR_LEN])
{
    return be_get16(in);
}

/* The CRC field is the only little-endian number of the suite. */
static inline void mpa_put_crc(uint8_t out[static MPA_CRC_LEN], uint32_t crc)
{
    crc = htole32(crc);
    memcpy(out, &crc, sizeof(crc));
}

static inline uint32_t mpa_get_crc(const uint8_t in[static MPA_CRC_LEN])
{
    uint32_t crc;

    memcpy(&crc, in, sizeof(crc));
    return le32toh(crc);
}

/*
 * Writes PAD and CRC field behind a ULPDU of ulpdu_len octets of a stream without markers; returns
 * the octets written, 4..7. `crc` is the CRC of ULPDU_Length and ULPDU; this function adds PAD to
 * it. With crc_on false the field is zero (S-027: it is always present).
 */
uint32_t mpa_put_trailer(uint8_t out[static MPA_TRAILER_MAX], uint32_t ulpdu_len, uint32_t crc,
                         bool crc_on);

/* One complete FPDU inside the caller's buffer, without markers. */
struct mpa_fpdu {
    const uint8_t *start; /* at ULPDU_Length */
    const uint8_t *ulpdu;
    uint32_t ulpdu_len; /* 0..65535; mpa_check() checks it */
    uint32_t size;      /* octets from start to the next FPDU */
};

/*
 * Looks at `len` octets that begin at an FPDU and carry no markers.
 *   MPA_OK         *fpdu describes the first FPDU; more may follow at buf + fpdu->size.
 *   MPA_NEED_MORE  *need is how many further octets are needed at least before asking again.
 * It never fails: what the octets are worth is mpa_check()'s, because a damaged length must be
 * reported as a CRC error (the CRC row comes first).
 */
enum mpa_result mpa_scan(const void *buf, size_t len, struct mpa_fpdu *fpdu, size_t *need);

/* Checks stage 4 of a complete FPDU: CRC if in use, then ULPDU_Length >= 2. PAD is not tested. */
enum mpa_result mpa_check(const struct mpa_fpdu *fpdu, bool crc_on);

/* Is the CRC field right? `size`, the octets of the FPDU, is a multiple of 4, as always. */
static inline __attribute__((always_inline)) bool mpa_crc_right(const uint8_t *start, uint32_t size)
{
    return crc32c_fours(0, start, size - MPA_CRC_LEN) == mpa_get_crc(start + size - MPA_CRC_LEN);
}

/* The same for an FPDU that mpa_scan() has found. */
bool mpa_crc_ok(const struct mpa_fpdu *fpdu);

/*
 * Markers. A stream position counts all octets of one direction since Full Operation, markers
 * included, modulo 2^32 (512 divides it).
 */

/* Octets from `pos` to the first octet of the next marker: 0..511; 0 means one is due now. */
static inline uint32_t mpa_marker_gap(uint32_t pos)
{
    return (0u - pos) & (MPA_MARKER_PERIOD - 1u);
}

/*
 * Markers that are emitted with an FPDU of `ulpdu_len` octets whose first octet (or the marker
 * in front of it) goes to stream position `pos`. A marker due right behind the CRC is not
 * counted: it belongs to the next FPDU.
 */
uint32_t mpa_marker_count(uint32_t pos, uint32_t ulpdu_len);

/* Octets that the same FPDU takes in the stream, markers included. */
uint32_t mpa_fpdu_len_markers(uint32_t pos, uint32_t ulpdu_len);

/*
 * FPDUPTR of a marker at `marker_pos` in an FPDU whose first item (ULPDU_Length, or the marker
 * in front of it) stands at `pos`: 0 for the marker in front, else the distance from ULPDU_Length.
 */
uint16_t mpa_marker_ptr(uint32_t pos, uint32_t marker_pos);

void mpa_put_marker(uint8_t out[static MPA_MARKER_LEN], uint16_t fpduptr);

/* FPDUPTR of a received marker; reserved bits and the low two bits are ignored (C-053). */
uint16_t mpa_get_marker(const uint8_t in[static MPA_MARKER_LEN]);

#endif

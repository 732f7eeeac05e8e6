/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA framing (RFC 5044): FPDU geometry, scan, CRC test, marker arithmetic.
 */
#include "mpa.h"

uint16_t mpa_terminate_value(enum mpa_result result)
{
    switch (result) {
    case MPA_ERR_CRC: return 0x2002;
    case MPA_ERR_MARKER: return 0x2003;
    case MPA_ERR_LENGTH: return 0x1000; /* D-04: the RFCs are silent, RDMAC names this one */
    case MPA_OK:
    case MPA_NEED_MORE: break;
    }
    return 0xFFFF;
}

const char *mpa_result_text(enum mpa_result result)
{
    switch (result) {
    case MPA_ERR_CRC: return "CRC error";
    case MPA_ERR_MARKER: return "marker that does not point to its FPDU";
    case MPA_ERR_LENGTH: return "FPDU of impossible length";
    case MPA_OK:
    case MPA_NEED_MORE: break;
    }
    return "no error";
}

uint32_t mpa_mulpdu(uint32_t emss, bool markers)
{
    uint64_t overhead = MPA_HDR_LEN + MPA_CRC_LEN + emss % 4u;
    uint32_t n;

    if (markers)
        overhead += MPA_MARKER_LEN * (((uint64_t)emss + MPA_MARKER_PERIOD - 1) / MPA_MARKER_PERIOD);
    if (emss < overhead + MPA_MULPDU_MIN)
        return MPA_MULPDU_MIN;
    n = emss - (uint32_t)overhead;
    return n < MPA_MULPDU_MAX ? n : MPA_MULPDU_MAX;
}

uint32_t mpa_put_trailer(uint8_t out[static MPA_TRAILER_MAX], uint32_t ulpdu_len, uint32_t crc,
                         bool crc_on)
{
    uint32_t pad = mpa_pad(ulpdu_len);

    memset(out, 0, pad);
    if (crc_on && pad)
        crc = crc32c(crc, out, pad);
    mpa_put_crc(out + pad, crc_on ? crc : 0);
    return pad + MPA_CRC_LEN;
}

enum mpa_result mpa_scan(const void *buf, size_t len, struct mpa_fpdu *fpdu, size_t *need)
{
    const uint8_t *p = buf;
    uint32_t n, size;

    if (len < MPA_HDR_LEN) {
        *need = MPA_HDR_LEN - len;
        return MPA_NEED_MORE;
    }
    n = mpa_get_len(p);
    size = mpa_fpdu_len(n);
    if (len < size) {
        *need = size - len;
        return MPA_NEED_MORE;
    }
    fpdu->start = p;
    fpdu->ulpdu = p + MPA_HDR_LEN;
    fpdu->ulpdu_len = n;
    fpdu->size = size;
    return MPA_OK;
}

bool mpa_crc_ok(const struct mpa_fpdu *fpdu)
{
    return mpa_crc_right(fpdu->start, fpdu->size);
}

enum mpa_result mpa_check(const struct mpa_fpdu *fpdu, bool crc_on)
{
    if (crc_on && !mpa_crc_ok(fpdu))
        return MPA_ERR_CRC;
    if (fpdu->ulpdu_len < 2)
        return MPA_ERR_LENGTH;
    return MPA_OK;
}

uint32_t mpa_marker_count(uint32_t pos, uint32_t ulpdu_len)
{
    uint32_t gap = mpa_marker_gap(pos);
    uint32_t units = mpa_fpdu_len(ulpdu_len);

    /*
     * The first marker comes after `gap` octets of FPDU, each further one after 508 more: a period
     * is the marker itself and 508 octets. A marker behind the last octet belongs to the next FPDU.
     */
    if (gap >= units)
        return 0;
    return (units - gap - 1u) / (MPA_MARKER_PERIOD - MPA_MARKER_LEN) + 1u;
}

uint32_t mpa_fpdu_len_markers(uint32_t pos, uint32_t ulpdu_len)
{
    return mpa_fpdu_len(ulpdu_len) + MPA_MARKER_LEN * mpa_marker_count(pos, ulpdu_len);
}

uint16_t mpa_marker_ptr(uint32_t pos, uint32_t marker_pos)
{
    if (marker_pos == pos)
        return 0;
    if (mpa_marker_gap(pos) == 0)
        pos += MPA_MARKER_LEN; /* ULPDU_Length stands behind the marker in front of it */
    return (uint16_t)(marker_pos - pos);
}

void mpa_put_marker(uint8_t out[static MPA_MARKER_LEN], uint16_t fpduptr)
{
    be_put16(out, 0);
    be_put16(out + 2, fpduptr & 0xFFFCu);
}

uint16_t mpa_get_marker(const uint8_t in[static MPA_MARKER_LEN])
{
    return be_get16(in + 2) & 0xFFFCu;
}

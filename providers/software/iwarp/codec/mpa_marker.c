/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA markers of whole FPDUs. Everything from the start of Full Operation on comes in units of four
 * octets, markers too: a marker never splits ULPDU_Length or the CRC field.
 */
#include "mpa_marker.h"

#include "base/crc32c.h"

#include <assert.h>

static_assert(MPA_MARKERS_MAX * (MPA_MARKER_PERIOD - MPA_MARKER_LEN) >= MPA_FPDU_MAX,
              "one marker per 508 octets of an FPDU");

/* ---- received ---- */

/* Do the markers of an FPDU of `size` octets at `pos` point to its ULPDU_Length? */
static bool pointers_right(const uint8_t *octets, uint32_t size, uint32_t pos)
{
    uint32_t at;

    for (at = mpa_marker_gap(pos); at < size; at += MPA_MARKER_PERIOD)
        if (mpa_get_marker(octets + at) != mpa_marker_ptr(pos, pos + at))
            return false;
    return true;
}

/* Move the octets between markers down to `to`, which is in the same buffer at or below them. */
static void close_gaps(uint8_t *to, const uint8_t *octets, uint32_t size, uint32_t pos)
{
    uint32_t at = 0;

    while (at < size) {
        uint32_t gap = mpa_marker_gap(pos + at), run = gap < size - at ? gap : size - at;

        memmove(to, octets + at, run);
        to += run;
        at += run + (gap == run ? MPA_MARKER_LEN : 0);
    }
}

static enum mpa_result check_fpdu(const uint8_t *octets, uint32_t size, uint32_t pos,
                                  uint32_t ulpdu_len, bool crc_on)
{
    uint32_t covered = size - MPA_CRC_LEN;

    if (crc_on && crc32c(0, octets, covered) != mpa_get_crc(octets + covered))
        return MPA_ERR_CRC;
    if (!pointers_right(octets, size, pos))
        return MPA_ERR_MARKER;
    return ulpdu_len < 2 ? MPA_ERR_LENGTH : MPA_OK;
}

enum mpa_result mpa_marker_take(uint8_t *octets, size_t length, uint32_t pos, bool crc_on,
                                struct mpa_fpdu *fpdu, size_t *need, enum mpa_result *verdict)
{
    uint32_t front = mpa_marker_gap(pos) ? 0 : MPA_MARKER_LEN, size, n;

    if (length < front + MPA_HDR_LEN) {
        *need = front + MPA_HDR_LEN - length;
        return MPA_NEED_MORE;
    }
    n = mpa_get_len(octets + front);
    size = mpa_fpdu_len_markers(pos, n);
    if (length < size) {
        *need = size - length;
        return MPA_NEED_MORE;
    }
    *verdict = check_fpdu(octets, size, pos, n, crc_on);
    close_gaps(octets, octets, size, pos);
    fpdu->start = octets;
    fpdu->ulpdu = octets + MPA_HDR_LEN;
    fpdu->ulpdu_len = n;
    fpdu->size = size;
    return MPA_OK;
}

/* ---- sent ---- */

static void add(struct mpa_weave *weave, const void *octets, size_t length)
{
    struct iovec *last = weave->count ? &weave->out[weave->count - 1] : NULL;

    if (last && (const uint8_t *)last->iov_base + last->iov_len == octets)
        last->iov_len += length;
    else
        weave->out[weave->count++] = (struct iovec){ (void *)(uintptr_t)octets, length };
    weave->pos += (uint32_t)length;
}

static void add_marker(struct mpa_weave *weave, uint32_t start, uint32_t *crc)
{
    uint8_t *marker = weave->markers;

    weave->markers += MPA_MARKER_LEN;
    mpa_put_marker(marker, mpa_marker_ptr(start, weave->pos));
    if (weave->crc_on)
        *crc = crc32c(*crc, marker, MPA_MARKER_LEN);
    add(weave, marker, MPA_MARKER_LEN);
}

/* Add the octets of the FPDU that begins at `start`, and the markers that are due before and
 * between them. */
static void weave_octets(struct mpa_weave *weave, uint32_t start, uint32_t *crc,
                         const uint8_t *octets, size_t length)
{
    while (length) {
        uint32_t gap = mpa_marker_gap(weave->pos);
        size_t run = gap < length ? gap : length;

        if (!gap) {
            add_marker(weave, start, crc);
            continue;
        }
        if (weave->crc_on)
            *crc = crc32c(*crc, octets, run);
        add(weave, octets, run);
        octets += run;
        length -= run;
    }
}

void mpa_marker_weave(struct mpa_weave *weave, const struct iovec *in, uint32_t count)
{
    uint32_t start = weave->pos, crc = 0;
    const struct iovec *last = &in[count - 1];
    uint8_t *field = (uint8_t *)last->iov_base + last->iov_len - MPA_CRC_LEN;

    for (uint32_t i = 0; i < count; i++)
        weave_octets(weave, start, &crc, in[i].iov_base,
                     in[i].iov_len - (i == count - 1 ? MPA_CRC_LEN : 0));
    if (!mpa_marker_gap(weave->pos)) /* the marker precedes the CRC field, which covers it */
        add_marker(weave, start, &crc);
    mpa_put_crc(field, crc);
    add(weave, field, MPA_CRC_LEN);
}

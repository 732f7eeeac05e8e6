/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPA markers (RFC 5044 4.2 to 4.4) of whole FPDUs: removed on receipt, inserted on sending. Pure
 * functions over bytes; the arithmetic of positions is in mpa.h. A stream position counts the
 * octets of one direction since Full Operation, markers included, modulo 2^32. An FPDU always
 * begins at a multiple of 4.
 */
#ifndef ITAL_SOFTRDMA_MPA_MARKER_H
#define ITAL_SOFTRDMA_MPA_MARKER_H

#include "mpa.h"

#include <sys/uio.h>

/* Most markers that one FPDU can take. */
#define MPA_MARKERS_MAX      (MPA_FPDU_MAX / (MPA_MARKER_PERIOD - MPA_MARKER_LEN) + 1u)
#define MPA_FPDU_MAX_MARKERS (MPA_FPDU_MAX + MPA_MARKERS_MAX * MPA_MARKER_LEN)

/*
 * Checks `length` octets from stream position `pos`, where an FPDU (or the marker in front of it)
 * begins.
 *   MPA_OK         *fpdu describes the first FPDU, whose octets have been moved together in place:
 *                  the markers are gone (CRC and PAD stay behind the ULPDU); fpdu->size is its
 *                  length in the stream, markers included. *verdict is the result of stage 4, in
 *                  this order: CRC if in use (over the markers too), markers (C-054), length.
 *   MPA_NEED_MORE  nothing was touched; *need further octets are needed at least.
 */
enum mpa_result mpa_marker_take(uint8_t *octets, size_t length, uint32_t pos, bool crc_on,
                                struct mpa_fpdu *fpdu, size_t *need, enum mpa_result *verdict);

/* Inserts markers into an FPDU that is given as a list of segments. `out` and `markers` have
 * room for two entries and four octets per marker more than the FPDU has without. */
struct mpa_weave {
    struct iovec *
        /* Grows from `count`. An entry that continues the last one is joined to it. */
        out;
    uint32_t count;
    /* Room for the markers; advances. */
    uint8_t *markers;
    uint32_t pos; /* position in the stream; advances */
    bool crc_on;
};

/* `in`: one whole FPDU without markers; its CRC field, the last four octets, lies in one piece and
 * is written anew (0 with CRC off). */
void mpa_marker_weave(struct mpa_weave *weave, const struct iovec *in, uint32_t count);

#endif

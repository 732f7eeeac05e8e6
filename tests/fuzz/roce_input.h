/* SPDX-License-Identifier: BSD-3-Clause */
/* How the targets of RoCE cut their input into packets. */
#ifndef ITAL_TESTS_FUZZ_ROCE_INPUT_H
#define ITAL_TESTS_FUZZ_ROCE_INPUT_H

#include "providers/software/roce/codec/bth.h"

#include <string.h>

#define ROCE_INPUT_MAX (1024u + 8u)

/* The next packet: an octet of its length in words, one that the target reads as it likes, then the
 * packet, which is filled up by zeros to the shortest that there is. False: no more. */
static inline bool roce_input_next(const uint8_t **data, size_t *size,
                                   uint8_t packet[static ROCE_INPUT_MAX], uint32_t *len,
                                   uint8_t *how)
{
    size_t octets;

    if (*size <= 2)
        return false;
    octets = (*data)[0] * 4u;
    *how = (*data)[1];
    *data += 2;
    *size -= 2;
    if (octets > *size)
        octets = *size & ~(size_t)3;
    memset(packet, 0, ROCE_INPUT_MAX);
    memcpy(packet, *data, octets);
    *data += octets;
    *size -= octets;
    *len = octets < BTH_PACKET_MIN ? BTH_PACKET_MIN : (uint32_t)octets;
    return true;
}

#endif

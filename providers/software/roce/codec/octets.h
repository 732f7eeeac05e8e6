/* SPDX-License-Identifier: BSD-3-Clause */
/* Big-endian numbers of 24 bits, beside base/be.h. The caller guarantees that the octets exist. */
#ifndef ITAL_SOFTROCE_OCTETS_H
#define ITAL_SOFTROCE_OCTETS_H

#include <stdint.h>

static inline uint32_t get24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* Bits beyond 24 are cut off. */
static inline void put24(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 16);
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)v;
}

#endif

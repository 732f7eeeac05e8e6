/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Big-endian numbers in octet buffers. Every access goes through memcpy, so any alignment and
 * either byte order of the machine are fine; compilers turn each call into one load or store.
 * The caller guarantees that the octets exist.
 */
#ifndef ITAL_BASE_BE_H
#define ITAL_BASE_BE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t be_get16(const void *p)
{
    uint16_t v;

    memcpy(&v, p, sizeof(v));
    return be16toh(v);
}

static inline uint32_t be_get32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

static inline uint64_t be_get64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

static inline void be_put16(void *p, uint16_t v)
{
    v = htobe16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void be_put32(void *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void be_put64(void *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof(v));
}

#endif

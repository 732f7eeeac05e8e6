/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (Castagnoli, reflected 0x82F63B78), the checksum of MPA FPDUs.
 *
 * Convention: register preset and final inversion happen inside every call, so that values are
 * finished CRCs and still compose: crc32c(crc32c(0, a), b) equals crc32c(0, a followed by b).
 * Start with 0. The CRC of no octets is 0; that of "123456789" is 0xE3069283.
 */
#ifndef ITAL_BASE_CRC32C_H
#define ITAL_BASE_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* CRC over some data followed by its own CRC, least significant octet first. */
#define CRC32C_RESIDUE UINT32_C(0x48674BC7)

/* Continues `crc` over n octets at p. p may be NULL when n is 0. Any thread, no state. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

#if defined(__x86_64__) && defined(__GNUC__)
static inline uint64_t crc32c_eight_(uint64_t reg, const uint8_t *p)
{
    typedef uint64_t eight __attribute__((may_alias, aligned(1)));

    __asm__("crc32q %1, %0" : "+r"(reg) : "m"(*(const eight *)p));
    return reg;
}
#endif

/* As crc32c(), where n is a multiple of 4 and mostly small (an FPDU's): without a
 * call and a loop up to 128 octets. */
static inline __attribute__((always_inline)) uint32_t crc32c_fours(uint32_t crc, const void *octets,
                                                                   size_t n)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (n < 136 && __builtin_cpu_supports("sse4.2")) {
        const uint8_t *end = (const uint8_t *)octets + (n & ~(size_t)7);
        uint64_t reg = ~crc;

        switch (n / 8) {
#define CRC32C_CASE_(number) \
    case number: reg = crc32c_eight_(reg, end - 8 * number); __attribute__((fallthrough));
            CRC32C_CASE_(16)
            CRC32C_CASE_(15)
            CRC32C_CASE_(14)
            CRC32C_CASE_(13)
            CRC32C_CASE_(12)
            CRC32C_CASE_(11)
            CRC32C_CASE_(10)
            CRC32C_CASE_(9)
            CRC32C_CASE_(8)
            CRC32C_CASE_(7)
            CRC32C_CASE_(6)
            CRC32C_CASE_(5)
            CRC32C_CASE_(4)
            CRC32C_CASE_(3)
            CRC32C_CASE_(2)
            CRC32C_CASE_(1)
#undef CRC32C_CASE_
        case 0: break;
        default: __builtin_unreachable();
        }
        if (n & 4) {
            uint32_t last;

            memcpy(&last, end, sizeof(last));
            __asm__("crc32l %1, %k0" : "+r"(reg) : "rm"(last));
        }
        return ~(uint32_t)reg;
    }
#endif
    return crc32c(crc, octets, n);
}

/*
 * As crc32c(), over memory that is probably in no cache: what comes next is fetched while the rest
 * is summed. `ahead` octets behind p + n are summed next, by another call: they are fetched, too.
 */
uint32_t crc32c_far(uint32_t crc, const void *p, size_t n, size_t ahead);

/*
 * Copies n octets from src to dst and continues `crc` over what arrived in dst, in one pass where
 * the processor can (crc32c_lanes.c). The CRC is right for dst even if another thread changes src
 * meanwhile (an RDMA Read source may legally change). The ranges must not overlap.
 */
uint32_t crc32c_copy(void *dst, const void *src, size_t n, uint32_t crc);

/* The ways to compute it; crc32c() chooses by length and CPU. For tests and for `itinfo`. */
enum crc32c_engine {
    CRC32C_TABLE, /* everywhere */
    CRC32C_SSE42, /* crc32 instruction of x86-64 */
    CRC32C_ARMV8, /* crc32c instructions of ARMv8, where the processor has them */
    CRC32C_ISAL,  /* ISA-L, when built with it */
    CRC32C_ENGINES,
};

/* True if this build on this CPU can run the engine. CRC32C_TABLE always can. */
bool crc32c_engine_usable(enum crc32c_engine engine);

/* As crc32c() with a fixed engine; the engine must be usable. */
uint32_t crc32c_engine_run(enum crc32c_engine engine, uint32_t crc, const void *p, size_t n);

#endif

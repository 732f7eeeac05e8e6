/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C of memory that is in no cache, and copy and CRC32C in one pass. ISA-L has neither.
 *
 * A block is three lanes. The crc32 instruction takes three cycles, and one begins in each cycle:
 * so three sums run side by side, and are joined at the end of the block. They go on with what has
 * arrived while other cache lines are on their way, and the next block is fetched meanwhile. The
 * copy is one cache line ahead of its sums, which read what it has written. So a sum takes little
 * longer than reading, and copy and sum little longer than memcpy.
 *
 * Without these instructions a block is fetched, or copied, while ISA-L sums the one before it.
 */
#include "base/crc32c.h"

#include <string.h>

/* CRC32C_WITHOUT_LANES: a test and bench/sums want the other way. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(CRC32C_WITHOUT_LANES)
#define LANES 1
#include <immintrin.h>
#endif

#define CACHE_LINE 64u
#define BLOCK      4096u /* without lanes */

#ifdef LANES
#define LANE        512u
#define LANES_BLOCK (3u * LANE)
/* To follow a sum by n octets is to multiply it by x^(8n); the crc32 instruction on a product of 64
 * bits multiplies by x^33 more, which the factor leaves out. */
#define BEFORE_ONE_LANE  0xdd7e3b0cu /* x^(8 * LANE - 33), reflected */
#define BEFORE_TWO_LANES 0x170076fau /* x^(16 * LANE - 33) */

/* libgcc detects the CPU once, at load. */
static inline bool has_lanes(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("avx");
}

/* There ISA-L sums several times as fast as the crc32 instruction. */
static inline bool sums_without_lanes(void)
{
#ifdef HAVE_ISAL
    return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

__attribute__((target("sse4.2"))) static inline uint64_t sum_8(uint64_t sum, const uint8_t *octets)
{
    uint64_t value;

    memcpy(&value, octets, sizeof(value));
    return _mm_crc32_u64(sum, value);
}

__attribute__((target("sse4.2"))) static inline uint64_t sum_line(uint64_t sum,
                                                                  const uint8_t *octets)
{
    sum = sum_8(sum_8(sum_8(sum_8(sum, octets), octets + 8), octets + 16), octets + 24);
    octets += 32;
    return sum_8(sum_8(sum_8(sum_8(sum, octets), octets + 8), octets + 16), octets + 24);
}

__attribute__((target("avx"))) static inline void copy_line(uint8_t *to, const uint8_t *from)
{
    __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)from);
    __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));

    _mm256_storeu_si256((__m256i *)(void *)to, first);
    _mm256_storeu_si256((__m256i *)(void *)(to + 32), second);
}

__attribute__((target("avx"))) static inline void copy_lines(uint8_t *to, const uint8_t *from)
{
    copy_line(to, from);
    copy_line(to + LANE, from + LANE);
    copy_line(to + 2 * LANE, from + 2 * LANE);
}

static inline void fetch_lines(const uint8_t *from)
{
    __builtin_prefetch(from, 0, 3);
    __builtin_prefetch(from + LANE, 0, 3);
    __builtin_prefetch(from + 2 * LANE, 0, 3);
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t followed(uint64_t sum,
                                                                         uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)sum),
                                           _mm_cvtsi32_si128((int)factor), 0);

    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The raw register behind the three lanes. */
__attribute__((target("sse4.2,pclmul"))) static inline uint32_t join(uint64_t first,
                                                                     uint64_t second,
                                                                     uint64_t third)
{
    return (uint32_t)(followed(first, BEFORE_TWO_LANES) ^ followed(second, BEFORE_ONE_LANE) ^
                      third);
}

/* next: the block behind it, or this one where there is none. */
__attribute__((target("sse4.2,pclmul,avx"))) static uint32_t copy_block(uint8_t *to,
                                                                        const uint8_t *from,
                                                                        const uint8_t *next,
                                                                        uint32_t reg)
{
    uint64_t first = reg, second = 0, third = 0;

    copy_lines(to, from);
    for (uint32_t at = 0; at < LANE; at += CACHE_LINE) {
        fetch_lines(next + at);
        if (at + CACHE_LINE < LANE)
            copy_lines(to + at + CACHE_LINE, from + at + CACHE_LINE);
        first = sum_line(first, to + at);
        second = sum_line(second, to + LANE + at);
        third = sum_line(third, to + 2 * LANE + at);
    }
    return join(first, second, third);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t sum_block(const uint8_t *from,
                                                                   const uint8_t *next,
                                                                   uint32_t reg)
{
    uint64_t first = reg, second = 0, third = 0;

    for (uint32_t at = 0; at < LANE; at += CACHE_LINE) {
        fetch_lines(next + at);
        first = sum_line(first, from + at);
        second = sum_line(second, from + LANE + at);
        third = sum_line(third, from + 2 * LANE + at);
    }
    return join(first, second, third);
}

static inline const uint8_t *block_behind(const uint8_t *from, size_t left)
{
    return from + (left >= 2 * LANES_BLOCK ? LANES_BLOCK : 0);
}

/* Whole blocks; returns their octets. */
static size_t copy_blocks(uint8_t *to, const uint8_t *from, size_t n, uint32_t *crc)
{
    uint32_t reg = ~*crc;
    size_t done = 0;

    for (; n - done >= LANES_BLOCK; done += LANES_BLOCK)
        reg = copy_block(to + done, from + done, block_behind(from + done, n - done), reg);
    *crc = ~reg;
    return done;
}

static size_t sum_blocks(const uint8_t *from, size_t n, size_t ahead, uint32_t *crc)
{
    uint32_t reg = ~*crc;
    size_t done = 0;

    for (; n - done >= LANES_BLOCK; done += LANES_BLOCK)
        reg = sum_block(from + done, block_behind(from + done, n - done + ahead), reg);
    *crc = ~reg;
    return done;
}
#endif

/* The block behind `from`, of `left` octets from there on. */
static inline void fetch_next(const uint8_t *from, size_t left)
{
    size_t octets = left <= BLOCK ? 0 : left - BLOCK < BLOCK ? left - BLOCK : BLOCK;

    for (size_t at = 0; at < octets; at += CACHE_LINE)
        __builtin_prefetch(from + BLOCK + at, 0, 3);
}

uint32_t crc32c_far(uint32_t crc, const void *p, size_t n, size_t ahead)
{
    const uint8_t *from = p;

#ifdef LANES
    if (has_lanes() && !sums_without_lanes()) {
        size_t done = sum_blocks(from, n, ahead, &crc);

        return crc32c(crc, from + done, n - done);
    }
#endif
    for (; n > BLOCK; n -= BLOCK, from += BLOCK) {
        fetch_next(from, n + ahead);
        crc = crc32c(crc, from, BLOCK);
    }
    fetch_next(from, n + ahead);
    return crc32c(crc, from, n);
}

uint32_t crc32c_copy(void *dst, const void *src, size_t n, uint32_t crc)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    size_t done = 0;

#ifdef LANES
    if (has_lanes())
        done = copy_blocks(to, from, n, &crc);
#endif
    while (done < n) {
        size_t block = n - done < BLOCK ? n - done : BLOCK;

        memcpy(to + done, from + done, block);
        fetch_next(from + done, n - done);
        crc = crc32c(crc, to + done, block); /* of the copy: the source may change under us */
        done += block;
    }
    return crc;
}

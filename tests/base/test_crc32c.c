/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C: known values, every engine against a bit-by-bit reference, composition, copy. */
#include "tc.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "base/crc32c.h"
#include "tests/common/vectors_tc.h"

/* The definition, one bit at a time. */
static uint32_t reference(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    while (n--) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

static void check_all(uint32_t crc, const uint8_t *p, size_t n, uint32_t want)
{
    ck_assert_uint_eq(crc32c(crc, p, n), want);
    for (int e = 0; e < CRC32C_ENGINES; e++) {
        if (crc32c_engine_usable(e))
            ck_assert_msg(crc32c_engine_run(e, crc, p, n) == want, "engine %d, %zu octets", e, n);
    }
}

START_TEST(check_value)
{
    check_all(0, (const uint8_t *)"123456789", 9, 0xE3069283u);
    ck_assert_uint_eq(crc32c(0, NULL, 0), 0);
    ck_assert_uint_eq(crc32c(0x1234567u, NULL, 0), 0x1234567u);
    ck_assert(crc32c_engine_usable(CRC32C_TABLE));
    ck_assert(!crc32c_engine_usable(CRC32C_ENGINES));
#ifdef HAVE_ISAL
    ck_assert(crc32c_engine_usable(CRC32C_ISAL));
#endif
#ifdef __aarch64__
    ck_assert_int_eq(crc32c_engine_usable(CRC32C_ARMV8), (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0);
#endif
}
END_TEST

START_TEST(vectors)
{
    const struct vectors *v = tc_vectors();

    ck_assert_uint_ge(v->n_crcs, 8);
    ck_assert_uint_eq(v->residue, CRC32C_RESIDUE);
    for (size_t i = 0; i < v->n_crcs; i++) {
        const struct vec_crc *c = &v->crcs[i];
        uint8_t wire[4] = { (uint8_t)c->crc, (uint8_t)(c->crc >> 8), (uint8_t)(c->crc >> 16),
                            (uint8_t)(c->crc >> 24) };

        check_all(0, c->data.p, c->data.len, c->crc);
        ck_assert_mem_eq(wire, c->wire.p, 4);
        check_all(c->crc, c->wire.p, 4, v->residue);
    }
}
END_TEST

START_TEST(lengths_and_alignments)
{
    struct tc_rng rng = tc_rng(1);

    /* Lengths around the change of engine at 128 and the 8-octet steps; buffers have their exact
     * size. */
    for (size_t n = 0; n <= 300; n++) {
        for (size_t offset = 0; offset < 8; offset++) {
            uint8_t *buf = malloc(offset + n);
            uint32_t start = (uint32_t)tc_rand(&rng);

            tc_fill(&rng, buf, offset + n);
            check_all(start, buf + offset, n, reference(start, buf + offset, n));
            free(buf);
        }
    }
}
END_TEST

START_TEST(fours)
{
    uint8_t octets[4 + 304];

    for (size_t i = 0; i < sizeof(octets); i++)
        octets[i] = (uint8_t)(i * 37 + (i >> 3));
    for (size_t n = 0; n <= 300; n += 4)
        for (size_t at = 0; at < 4; at++) {
            ck_assert_uint_eq(crc32c_fours(0, octets + at, n), reference(0, octets + at, n));
            ck_assert_uint_eq(crc32c_fours(0xE3069283u, octets + at, n),
                              reference(0xE3069283u, octets + at, n));
        }
}
END_TEST

START_TEST(pieces_compose)
{
    struct tc_rng rng = tc_rng(2);
    static uint8_t buf[9000];

    tc_fill(&rng, buf, sizeof(buf));
    for (int i = 0; i < 300; i++) {
        size_t n = tc_below(&rng, sizeof(buf)), a = tc_below(&rng, n + 1);
        uint32_t whole = reference(0, buf, n);

        ck_assert_uint_eq(crc32c(crc32c(0, buf, a), buf + a, n - a), whole);
    }
}
END_TEST

/* Lengths around its blocks; buffers have their exact size. */
START_TEST(far_is_the_same)
{
    static const size_t lengths[] = { 0,    1,    1535, 1536, 1537, 3071, 3072,  3073,
                                      4095, 4096, 4097, 8191, 8192, 8193, 16368, 70001 };
    struct tc_rng rng = tc_rng(3);

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        uint8_t *octets = malloc(lengths[i] + 1);
        uint32_t start = (uint32_t)tc_rand(&rng);

        tc_fill(&rng, octets, lengths[i] + 1);
        ck_assert_uint_eq(crc32c_far(start, octets + 1, lengths[i], 0),
                          crc32c(start, octets + 1, lengths[i]));
        ck_assert_uint_eq(crc32c_far(start, octets + 1, lengths[i] / 2, lengths[i] / 2),
                          crc32c(start, octets + 1, lengths[i] / 2));
        free(octets);
    }
}
END_TEST

static void check_copy(struct tc_rng *rng, size_t n, size_t offset)
{
    uint8_t *src = malloc(offset + n + 1), *dst = malloc(offset + n + 1);
    uint32_t start = (uint32_t)tc_rand(rng);

    tc_fill(rng, src, offset + n + 1);
    memset(dst, 0x5A, offset + n + 1);
    ck_assert_msg(crc32c_copy(dst + offset, src + offset, n, start) ==
                      reference(start, src + offset, n),
                  "%zu octets at %zu", n, offset);
    ck_assert_int_eq(memcmp(dst + offset, src + offset, n), 0);
    ck_assert_uint_eq(dst[offset + n], 0x5A);
    if (offset)
        ck_assert_uint_eq(dst[offset - 1], 0x5A);
    free(src);
    free(dst);
}

/* Lengths around its blocks of 1,536 and 4,096 octets. */
START_TEST(copy_copies_and_sums)
{
    static const size_t sizes[] = { 0,    1,    127,  128,  1535, 1536, 1537, 3071,  3072, 3073,
                                    4095, 4096, 4097, 5631, 5632, 5633, 8192, 16364, 20000 };
    struct tc_rng rng = tc_rng(3);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t offset = 0; offset < 9; offset++)
            check_copy(&rng, sizes[i], offset);
    for (int i = 0; i < 300; i++)
        check_copy(&rng, tc_below(&rng, 9000), tc_below(&rng, 64));
}
END_TEST

/* The CRC is that of the copy, also of octets that change meanwhile; another process changes them.
 */
START_TEST(copy_of_a_source_that_changes)
{
    static uint8_t copy[16384];
    volatile uint8_t *octets = mmap(NULL, sizeof(copy), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long changed = 0;
    pid_t child;

    ck_assert_ptr_ne((void *)octets, MAP_FAILED);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned int i = 0;; i++)
            octets[i * 997 % sizeof(copy)] = (uint8_t)(i / 7);
    }
    for (int i = 0; i < 2000 || !changed; i++) {
        uint32_t crc = crc32c_copy(copy, (const void *)octets, sizeof(copy), 0);

        ck_assert_uint_eq(crc, crc32c(0, copy, sizeof(copy)));
        changed += memcmp(copy, (const void *)octets, sizeof(copy)) != 0;
    }
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(munmap((void *)octets, sizeof(copy)), 0);
}
END_TEST

#if defined(__x86_64__) && defined(__GNUC__)
#define UPPER_HALVES (1u << 2 | 1u << 6) /* of YMM0 to 15, of ZMM0 to 15; XCR0's bits */

/* In assembler: compilers clear the upper halves at the end of each function that uses them. */
static void clear_upper_halves(void)
{
    __asm__ volatile("vzeroupper");
}

static void use_upper_halves(void)
{
    __asm__ volatile("vcmptrueps %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
}

/* XGETBV with ECX 1, which tools that translate code may not support. */
static unsigned int upper_halves_in_use(void)
{
    unsigned int low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & UPPER_HALVES;
}

static bool can_tell(void)
{
    unsigned int a = 0, b, c, d;
    bool tells;

    if (!__builtin_cpu_supports("avx") || !__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & 4))
        return false;
    use_upper_halves();
    tells = upper_halves_in_use() != 0;
    clear_upper_halves();
    return tells && !upper_halves_in_use();
}

/* Otherwise each later change between AVX and SSE in the thread costs a hundred nanoseconds on some
 * processors. */
START_TEST(upper_halves_are_left_clear)
{
    static uint8_t octets[65536], copy[65536];

    if (!can_tell())
        tc_skip("the processor does not tell what is in use");
    for (size_t n = 1; n <= sizeof(octets); n *= 2) {
        crc32c(0, octets, n);
        ck_assert_msg(!upper_halves_in_use(), "crc32c of %zu octets", n);
        crc32c_copy(copy, octets, n, 0);
        ck_assert_msg(!upper_halves_in_use(), "crc32c_copy of %zu octets", n);
        for (int e = 0; e < CRC32C_ENGINES; e++) {
            if (crc32c_engine_usable(e))
                crc32c_engine_run(e, 0, octets, n);
            ck_assert_msg(!upper_halves_in_use(), "engine %d, %zu octets", e, n);
        }
    }
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("crc32c");
    TCase *t = tc_case(s, "crc32c", NULL, NULL);

    tc_add_tests(t, check_value, vectors, lengths_and_alignments, fours, pieces_compose,
                 far_is_the_same, copy_copies_and_sums, copy_of_a_source_that_changes);
#if defined(__x86_64__) && defined(__GNUC__)
    tcase_add_test(t, upper_halves_are_left_clear);
#endif
    return tc_main(s);
}

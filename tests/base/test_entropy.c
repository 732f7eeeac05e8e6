/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random octets: a pool returns octets of the kernel, each once, also across fork; a kernel that
 * gives none is reported.
 */
#include "tc.h"

#include "base/entropy.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool none;
static size_t at_most; /* octets of a call; 0: all */
static unsigned int interruptions, calls;

/* Replaces libc's getrandom for the pool. */
ssize_t getrandom(void *octets, size_t length, unsigned int flags)
{
    calls++;
    if (none) {
        errno = ENOSYS;
        return -1;
    }
    if (interruptions) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_getrandom, octets, at_most && at_most < length ? at_most : length, flags);
}

START_TEST(no_octet_twice)
{
    uint8_t taken[64][4];
    struct entropy *pool = entropy_open();

    ck_assert_ptr_nonnull(pool);
    for (int i = 0; i < 64; i++)
        ck_assert(entropy_take(pool, taken[i], 4));
    ck_assert_uint_eq(calls, 1);
    for (int i = 0; i < 64;
         i++) /* 2000 pairs of 32 bits: equal by chance in one of two million runs */
        for (int j = 0; j < i; j++)
            ck_assert_mem_ne(taken[i], taken[j], 4);
    entropy_close(pool);
}
END_TEST

/* A child of fork takes octets of its own. */
START_TEST(a_child_does_not_repeat)
{
    uint8_t mine[64], childs[64];
    struct entropy *pool = entropy_open();
    int fds[2], status;
    pid_t child;

    ck_assert_int_eq(pipe(fds), 0);
    ck_assert(entropy_take(pool, mine, 8)); /* it is filled */
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool good = entropy_take(pool, childs, sizeof(childs));

        _exit(!good || write(fds[1], childs, sizeof(childs)) != sizeof(childs));
    }
    ck_assert(entropy_take(pool, mine, sizeof(mine)));
    ck_assert_int_eq(read(fds[0], childs, sizeof(childs)), sizeof(childs));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_mem_ne(mine, childs, sizeof(mine));
    entropy_close(pool);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(none_is_told)
{
    struct entropy *pool = entropy_open();
    uint8_t octets[ENTROPY_POOL];

    none = true;
    ck_assert(!entropy_draw(octets, 1));
    ck_assert(!entropy_take(pool, octets, 1));
    none = false;
    ck_assert(entropy_take(pool, octets, sizeof(octets)));
    none = true;
    ck_assert(!entropy_take(pool, octets, 1));
    entropy_close(pool);
}
END_TEST

/* In parts, and interrupted: all octets are filled. */
START_TEST(in_parts)
{
    uint8_t octets[4096] = { 0 };
    uint32_t zeros = 0;

    at_most = 100;
    interruptions = 3;
    ck_assert(entropy_draw(octets, sizeof(octets)));
    ck_assert_uint_eq(calls, 3 + 41);
    for (uint32_t i = 0; i < sizeof(octets); i++)
        zeros += !octets[i];
    ck_assert_uint_lt(zeros, 60); /* expected 16 */
}
END_TEST

/* Chi-square over the 256 values: 255 degrees of freedom, standard deviation 22.6. A value above
 * 400 is expected once in a hundred million runs. */
START_TEST(evenly_spread)
{
    enum { COUNT = 256 * 400 };
    uint32_t found[256] = { 0 };
    double chi = 0;
    struct entropy *pool = entropy_open();

    for (uint32_t i = 0; i < COUNT; i++) {
        uint8_t octet;

        ck_assert(entropy_take(pool, &octet, 1));
        found[octet]++;
    }
    for (int i = 0; i < 256; i++)
        chi += (found[i] - 400.0) * (found[i] - 400.0) / 400.0;
    printf("# chi-square of %d octets: %.1f, expected 255\n", COUNT, chi);
    ck_assert(chi > 140 && chi < 400);
    entropy_close(pool);
}
END_TEST

static void setup(void)
{
    none = false;
    at_most = interruptions = calls = 0;
}

int main(void)
{
    Suite *suite = suite_create("entropy");
    TCase *tc = tc_case(suite, "pool", setup, NULL);

    tc_add_tests(tc, no_octet_twice, a_child_does_not_repeat, none_is_told, in_parts,
                 evenly_spread);
    return tc_main(suite);
}

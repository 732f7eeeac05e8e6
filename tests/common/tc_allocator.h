/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tc_allocator.h - an allocator that fails on request, for a program of tests. Include it in one
 * file of the program, and nowhere else: it defines malloc, calloc, realloc, free and those of
 * aligned memory for the whole program and its libraries. Any thread.
 */
#ifndef TESTS_COMMON_TC_ALLOCATOR_H
#define TESTS_COMMON_TC_ALLOCATOR_H

#include "tc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Of the allocations that are counted, which fail: that number; each of its multiples; it and all
 * that follow. */
enum allocator_failing { ALLOCATOR_ONE, ALLOCATOR_MULTIPLES, ALLOCATOR_ALL_FROM };

/* Only what is allocated while this is set counts: not what Check takes for itself. */
static atomic_bool counts;
/* Allocations that were counted, and which of them fails; from 1, 0: none. */
static atomic_uint made, fail_at;
static _Atomic enum allocator_failing failing;
/* Blocks of memory that the program has now, counted always. */
static atomic_long blocks;

/* From now on allocations count, from 1, and the which-th fails. */
static inline void allocator_arm(unsigned int which, enum allocator_failing how)
{
    atomic_store(&made, 0);
    atomic_store(&fail_at, which);
    atomic_store(&failing, how);
    atomic_store(&counts, true);
}

/* From now on none counts and none fails. */
static inline void allocator_disarm(void)
{
    atomic_store(&counts, false);
}

/* How many counted since allocator_arm. */
static inline unsigned int allocator_made(void)
{
    return atomic_load(&made);
}

static inline long allocator_blocks(void)
{
    return atomic_load(&blocks);
}

#if defined(__GLIBC__) && !defined(ITAL_SANITIZERS)
#define EVERYBODYS __attribute__((visibility("default"))) /* programs hide symbols */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static bool is_failing(unsigned int number)
{
    unsigned int which = atomic_load(&fail_at);

    if (!which)
        return false;
    switch (atomic_load(&failing)) {
    case ALLOCATOR_ONE: return number == which;
    case ALLOCATOR_MULTIPLES: return number % which == 0;
    case ALLOCATOR_ALL_FROM: return number >= which;
    }
    return false;
}

static bool allocation_fails(void)
{
    if (!atomic_load(&counts) || !is_failing(atomic_fetch_add(&made, 1) + 1))
        return false;
    errno = ENOMEM;
    return true;
}

static void *one_more(void *memory)
{
    if (memory)
        atomic_fetch_add(&blocks, 1);
    return memory;
}

EVERYBODYS void *malloc(size_t size)
{
    return allocation_fails() ? NULL : one_more(__libc_malloc(size));
}

EVERYBODYS void *calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : one_more(__libc_calloc(count, size));
}

/* glibc frees a block that shrinks to no octets. */
EVERYBODYS void *realloc(void *memory, size_t size)
{
    void *more;

    if (allocation_fails())
        return NULL;
    more = __libc_realloc(memory, size);
    if (memory && !size)
        atomic_fetch_sub(&blocks, 1);
    return memory ? more : one_more(more);
}

EVERYBODYS void *aligned_alloc(size_t alignment, size_t size)
{
    return allocation_fails() ? NULL : one_more(__libc_memalign(alignment, size));
}

EVERYBODYS int posix_memalign(void **memory, size_t alignment, size_t size)
{
    void *got = aligned_alloc(alignment, size);

    if (got)
        *memory = got;
    return got ? 0 : ENOMEM;
}

EVERYBODYS void free(void *memory)
{
    if (memory)
        atomic_fetch_sub(&blocks, 1);
    __libc_free(memory);
}

/* Skips the test where there is no such allocator. */
static inline void allocator_needed(void)
{
}
#else
static inline void allocator_needed(void)
{
    tc_skip("the allocator is the sanitizer's, or not glibc's");
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tc_allocator.h - an allocator that fails once, for a program of tests. Include it in one file of
 * the program, and nowhere else: it defines malloc, calloc and realloc for the whole program.
 */
#ifndef TESTS_COMMON_TC_ALLOCATOR_H
#define TESTS_COMMON_TC_ALLOCATOR_H

#include "tc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Only what is allocated while this is set counts: not what Check takes for itself. */
static atomic_bool counts;
/* Allocations that were counted, and which of them fails; from 1, 0: none. */
static atomic_uint made, fail_at;

#if defined(__GLIBC__) && !defined(ITAL_SANITIZERS)
#define EVERYBODYS __attribute__((visibility("default"))) /* programs hide symbols */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static bool fails(void)
{
    if (!atomic_load(&counts) || atomic_fetch_add(&made, 1) + 1 != atomic_load(&fail_at))
        return false;
    errno = ENOMEM;
    return true;
}

EVERYBODYS void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

EVERYBODYS void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

EVERYBODYS void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}

/* Skips the test where there is no such allocator. */
static void allocator_needed(void)
{
}
#else
static void allocator_needed(void)
{
    tc_skip("the allocator is the sanitizer's, or not glibc's");
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * Extensions of C: hints to the compiler, the object around a member, the length of an array; and
 * contracts. */
#ifndef ITAL_BASE_COMPILER_H
#define ITAL_BASE_COMPILER_H

#include <assert.h>
#include <stddef.h>

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* By way of void *, because the compiler cannot know that the object around a member is aligned as
 * its type is. */
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Elements of an array; not of a pointer. */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* What a function's callers, or the states before it, have made sure of. Checked in debug builds
 * (--enable-debug), where a breach ends the program; not evaluated in others. */
#ifdef ITAL_DEBUG
#define contract(condition) assert(condition)
#else
#define contract(condition) ((void)sizeof(!(condition)))
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * Checked arithmetic for values that a peer or a consumer chose. */
#ifndef ITAL_BASE_CHECKED_H
#define ITAL_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Each stores the result and returns true; false (nothing stored is
 * to be used) when it overflows. */
#define checked_add(a, b, result) (!__builtin_add_overflow((a), (b), (result)))
#define checked_sub(a, b, result) (!__builtin_sub_overflow((a), (b), (result)))
#define checked_mul(a, b, result) (!__builtin_mul_overflow((a), (b), (result)))

/* Is [start, start + length) inside [base, base + size)? Neither sum needs to fit: an end at
 * exactly 2^64 is inside when the outer range ends there too. */
static inline bool checked_inside(uint64_t start, uint64_t length, uint64_t base, uint64_t size)
{
    return start >= base && start - base <= size && length <= size - (start - base);
}

/* Does [start, start + length) pass 2^64? An end at exactly 2^64 does not. */
static inline bool checked_wraps(uint64_t start, uint64_t length)
{
    return length != 0 && start > UINT64_MAX - (length - 1);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The secret permutation between the index in an STag and a place in the table: a Feistel network
 * over 24 bits, whose round functions are tables of random numbers (stag.c).
 */
#ifndef ITAL_SOFTWARE_STAG_INDEX_H
#define ITAL_SOFTWARE_STAG_INDEX_H

#include <stdint.h>

#define STAG_ROUNDS    6u
#define STAG_HALF_BITS 12
#define STAG_HALF_MASK ((1u << STAG_HALF_BITS) - 1)

typedef uint16_t stag_rounds[STAG_ROUNDS][1 << STAG_HALF_BITS];

/* The index of a place. */
static inline uint32_t stag_permute(const uint16_t (*rounds)[1 << STAG_HALF_BITS], uint32_t place)
{
    uint32_t left = place >> STAG_HALF_BITS, right = place & STAG_HALF_MASK;

    for (uint32_t round = 0; round < STAG_ROUNDS; round++) {
        uint32_t next = left ^ (rounds[round][right] & STAG_HALF_MASK);

        left = right;
        right = next;
    }
    return left << STAG_HALF_BITS | right;
}

/* The place of an index of 24 bits. */
static inline uint32_t stag_unpermute(const uint16_t (*rounds)[1 << STAG_HALF_BITS], uint32_t index)
{
    uint32_t left = index >> STAG_HALF_BITS, right = index & STAG_HALF_MASK;

    for (uint32_t round = STAG_ROUNDS; round--;) {
        uint32_t before = right ^ (rounds[round][left] & STAG_HALF_MASK);

        right = left;
        left = before;
    }
    return left << STAG_HALF_BITS | right;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearest known word to a mistyped one. */
#ifndef ITAL_BASE_NEAREST_H
#define ITAL_BASE_NEAREST_H

#include <stddef.h>

/* Damerau-Levenshtein distance (restricted), letter case ignored; words longer than 63 octets count
 * as far. */
unsigned nearest_distance(const char *a, const char *b);

/* Feed candidates one by one; `word` of the result is the nearest within a third of the longer
 * length, or NULL. Start with {.word = NULL}. The candidate's pointer is kept. */
struct nearest {
    const char *word;
    unsigned distance;
};
void nearest_try(struct nearest *nearest, const char *word, const char *candidate);

#endif

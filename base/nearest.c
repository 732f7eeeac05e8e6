/* SPDX-License-Identifier: BSD-3-Clause */
/* The nearest known word to a mistyped one. */
#include "base/nearest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define LONGEST 63u

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;

    return ab < c ? ab : c;
}

unsigned nearest_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), i, j;
    unsigned rows[3][LONGEST + 1]; /* the row in work and the two before it */
    char x[LONGEST], y[LONGEST];

    if (la > LONGEST || lb > LONGEST)
        return UINT_MAX;
    for (i = 0; i < la; i++)
        x[i] = (char)tolower((unsigned char)a[i]);
    for (j = 0; j < lb; j++)
        y[j] = (char)tolower((unsigned char)b[j]);
    for (j = 0; j <= lb; j++)
        rows[0][j] = (unsigned)j;
    for (i = 1; i <= la; i++) {
        unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        now[0] = (unsigned)i;
        for (j = 1; j <= lb; j++) {
            now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + (x[i - 1] != y[j - 1]));
            if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1] &&
                before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
    }
    return rows[la % 3][lb];
}

void nearest_try(struct nearest *nearest, const char *word, const char *candidate)
{
    size_t lw = strlen(word), lc = strlen(candidate);
    size_t longer = lw > lc ? lw : lc;
    unsigned distance = nearest_distance(word, candidate);
    unsigned allowed = longer < 3 ? 0 : (unsigned)(longer + 2) / 3;

    if (distance > allowed || (nearest->word && distance >= nearest->distance))
        return;
    nearest->word = candidate;
    nearest->distance = distance;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator of the program's own, which stands before libc's and fails where it is told to. Only
 * programs that name shortage.c among their sources have it.
 */
#ifndef ITAL_TESTS_ITAPI_SHORTAGE_H
#define ITAL_TESTS_ITAPI_SHORTAGE_H

#include "fixture.h"

/* Skips the test where the allocator is a sanitizer's, or not glibc's. */
void shortage_needed(void);
/* From here on the which-th allocation of the process fails; `again`: each of its multiples. */
void shortage_arm(unsigned int which, bool again);
void shortage_disarm(void);
unsigned int shortage_made(void); /* allocations in between */

/*
 * A call, its name, and what it needs: `before` makes what the call is about; `after` undoes a
 * success, or, with `always`, whatever came of it. Both may be NULL.
 */
struct shortage_row {
    const char *name;
    it_status_t (*call)(void);
    void (*before)(void);
    void (*after)(void);
    bool always;
    unsigned int features; /* of the interface (enum fx_feature) */
};
/* The call, with one allocation failing after the other: it succeeds or answers IT_ERR_RESOURCES,
 * and once at least it does that. */
void shortage_run(const struct shortage_row *row);
/* Registers the test for each row that each interface has the features for, with the loop variable
 * interface * count + row. */
void shortage_add(TCase *tc, const TTest *test, const struct shortage_row *rows, int count);

#endif

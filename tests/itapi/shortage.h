/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allocator of the program's own, which replaces libc's and fails on request. Only programs that
 * name shortage.c among their sources have it.
 */
#ifndef ITAL_TESTS_ITAPI_SHORTAGE_H
#define ITAL_TESTS_ITAPI_SHORTAGE_H

#include "fixture.h"

/* Skips the test where the allocator is a sanitizer's, or not glibc's. */
void shortage_needed(void);
/* From now on the which-th allocation of the process fails; with `again` each multiple of it. */
void shortage_arm(unsigned int which, bool again);
void shortage_disarm(void);
unsigned int shortage_made(void); /* allocations since then */

/*
 * A call, its name, and what it needs: `before` prepares its arguments; `after` undoes a success
 * or, with `always`, any outcome. Both may be NULL.
 */
struct shortage_row {
    const char *name;
    it_status_t (*call)(void);
    void (*before)(void);
    void (*after)(void);
    bool always;
    unsigned int features; /* needed of the interface (enum fx_feature) */
};
/* Repeats the call and fails one allocation after the other: each call succeeds or returns
 * IT_ERR_RESOURCES, at least one the latter. */
void shortage_run(const struct shortage_row *row);
/* Registers the test for each row on each interface that has its features. The loop variable is
 * interface * count + row. */
void shortage_add(TCase *tc, const TTest *test, const struct shortage_row *rows, int count);

#endif

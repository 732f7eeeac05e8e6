/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a test program crashes. The handlers are set before main; this is the runner's side. */
#ifndef ITAL_TESTS_TC_CRASH_H
#define ITAL_TESTS_TC_CRASH_H

#include <stdio.h>

/* From now on what crashes in children of this process is recorded in the folder. */
void tc_crash_begin(const char *folder);

/* The records, from the first one on; the caller closes it. NULL: nothing has crashed. */
FILE *tc_crash_records(void);

/* Prints the next record as comments of TAP. Nothing if it is of another signal: SIGKILL leaves
 * none. */
void tc_crash_print(FILE *from, int number, FILE *out);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A line that shows the progress of a long operation: bytes, share, rate, time left. Redrawn at
 * most ten times a second, in place on a terminal; with PROGRESS_ALWAYS elsewhere a plain line each
 * second.
 */
#ifndef ITAL_TOOLS_PROGRESS_H
#define ITAL_TOOLS_PROGRESS_H

#include <stdint.h>

enum progress_mode { PROGRESS_TERMINAL, PROGRESS_ALWAYS, PROGRESS_NEVER };

/* One bar per process. total: bytes, 0 if not known. */
void progress_start(enum progress_mode mode, uint64_t total);
/* name (may be NULL) is lent until the next call. Cheap enough to be called for every block. */
void progress_show(uint64_t done, const char *name);
/* Removes the line from a terminal. */
void progress_clear(void);
/* Draws the last state and ends the line. */
void progress_end(uint64_t done);

#endif /* ITAL_TOOLS_PROGRESS_H */

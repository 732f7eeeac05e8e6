/* SPDX-License-Identifier: BSD-3-Clause */
/* The log as a program's user sees it, on standard error. For tests that run in a child of their
 * own (Check's default). */
#ifndef TESTS_VERBS_LOG_LINES_H
#define TESTS_VERBS_LOG_LINES_H

#define LOG_ROOM 16384u

/* From here on standard error is read by the two functions below. */
void log_capture(void);
/* Reads until a line with `text` is there; fails the test if none comes. Returns all that was read
 * so far. */
const char *log_await(const char *text);
/* All that was logged so far. */
const char *log_so_far(void);

#endif

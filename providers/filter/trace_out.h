/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace_out.h - where the lines of a trace go. A line is copied into a buffer of bounded size,
 * which a thread writes; if there is no room in it the line is left out and counted. So nobody
 * waits for a slow reader, unless asked for (`sync`). The RNICs of a process that name one file
 * share it.
 */
#ifndef ITAL_FILTER_TRACE_OUT_H
#define ITAL_FILTER_TRACE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stands behind the filter's name. */
struct trace_settings {
    bool json, sync;
    uint64_t most;  /* octets that are written at most */
    char path[512]; /* empty: standard error */
};

/* False: `why` has what is wrong and what is allowed. argument: NULL is the empty one. */
bool trace_settings_read(const char *argument, struct trace_settings *settings, char *why,
                         size_t room);

struct trace_out;

/* The output of these settings; the first one in the process makes the file, later ones append.
 * NULL: `why` has the reason. */
struct trace_out *trace_out_open(const struct trace_settings *settings, char *why, size_t room);
/* Any thread. The text ends with a newline. */
void trace_out_put(struct trace_out *out, const char *text, size_t length);
/* The lines are in the file when it returns, if its reader takes them in time. json: the form of
 * the last line, which says how many there were. */
void trace_out_close(struct trace_out *out, bool json);

#endif

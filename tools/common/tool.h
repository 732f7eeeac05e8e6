/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Code for every tool: arguments, error lines, signals, exit codes, the clock.
 */
#ifndef ITAL_TOOLS_TOOL_H
#define ITAL_TOOLS_TOOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Exit codes of all tools. */
enum tool_exit { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

#define TOOL_PORT 7471 /* default port of servers */

/* Set by SIGINT and SIGTERM once tool_catch_signals() was called; every wait checks it. */
extern atomic_bool tool_stop;
extern const char *tool_name;

/* First call of every main(): sets the name before each error line, and ignores SIGPIPE. */
void tool_init(const char *name);
void tool_catch_signals(void);

/*
 * One line on stderr: "NAME: ...", made printable as by tool_printable and cut at 6000 octets. Any
 * thread; lines do not mix.
 */
void tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * For servers, whose peers cause lines: from now on lines of one cause (one format) are printed ten
 * times at once and then once a second. Suppressed lines are counted, and the count is printed with
 * the next line, or by tool_flush_errors, which the accept loop calls (all: at the end, even if
 * recent).
 */
void tool_limit_errors(void);
void tool_flush_errors(bool all);
/* A line as tool_error writes it, followed by a pointer to --help; returns TOOL_USAGE. */
int tool_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tool_version(void);
/* wipe is called before every other line to the terminal: removes a progress bar. */
void tool_on_output(void (*wipe)(void));

/*
 * Numbers of the command line. false: not a number, or out of range; nothing is written. Sizes take
 * k, M, G (powers of 1024, also with B or iB); seconds may have a fraction.
 */
bool tool_parse_size(const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool tool_parse_seconds(const char *text, double least, double most, uint64_t *microseconds);

/*
 * The printable form of a text from the file system or the peer, cut at the end of buffer. Octets
 * that are not UTF-8 and those of control characters become \ooo each: C0, DEL, C1, and characters
 * that change the direction of writing, begin a line or are invisible (U+061C, U+200B..F,
 * U+2028..E, U+2060..206F, U+FEFF). Every tool shows such texts only by this function.
 */
const char *tool_printable(const char *name, char *buffer, size_t size);

/* "1.5 MiB"; buffer of at least TOOL_HUMAN bytes. */
#define TOOL_HUMAN 32
const char *tool_human(double bytes, char *buffer);

/* Monotonic nanoseconds. */
static inline uint64_t tool_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Sleeps for so long. False: a signal came, the tool is to end. */
bool tool_pause(uint64_t microseconds);

#endif /* ITAL_TOOLS_TOOL_H */

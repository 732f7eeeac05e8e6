/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The parts of the log: log.c makes lines, log_head.c their heads in files, log_rate.c limits them
 * by cause, log_ring.c keeps them until log_sink.c has written them. Lock order, both leaves:
 * rate, ring. No system call is made under either.
 */
#ifndef ITAL_KAL_LOG_PRIVATE_H
#define ITAL_KAL_LOG_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rnicpi.h"

/* octets, with the newline; below PIPE_BUF, so a pipe takes all or nothing */
#define LOG_LINE_MAX 1024

/* ---- log_sink.c: destinations ---- */

enum log_sink_kind { SINK_STDERR, SINK_FILE, SINK_SYSLOG };
struct log_sink {
    enum log_sink_kind kind;
    int fd;       /* of FILE and SYSLOG; -1: none */
    dev_t device; /* of the file opened as fd: the program may reuse the number */
    ino_t inode;
};
extern const char *kal_log_syslog_path; /* tests change it */

/* path: "%p" is the number of the process, "%%" a percent sign. A new file has mode 0660, less the
 * umask. False, with errno: the file cannot be opened. */
bool log_sink_open(struct log_sink *sink, enum log_sink_kind kind, const char *path);
void log_sink_close(struct log_sink *sink);
/* Never blocks, raises no signal and changes no flag of the descriptor. Returns the octets written;
 * 0: try later; -1: never possible. One thread at a time. */
ssize_t log_sink_write(struct log_sink *sink, enum ri_log_level level, const char *line,
                       size_t length);

/* ---- log_head.c: the head of a line in a file ---- */

/* Whether lines of this process have a head from now on. Stores only. */
void log_head_set(bool wanted);
/* Writes "2026-11-28T17:05:09.123Z PROGRAM[PROCESS] " for that clock_wall(); returns its length
 * without the NUL. 0: no head is wanted, or it does not fit. No system call. */
size_t log_head(char *line, size_t size, uint64_t wall);

/* ---- log_ring.c: waiting lines, and the thread that writes for the lanes ---- */

/* Adds a line with its newline, behind its head; if there is no room it is only counted. Never
 * blocks. */
void log_ring_push(enum ri_log_level level, const char *line, size_t length);
/* Writes lines to the sink, as far as it takes them, and a ring's worth at most. False: lines are
 * left, and the thread is to be woken. Not in a lane. */
bool log_ring_drain(void);
/* Called by the thread before it writes: adds lines that are due. Returns when the next ones are
 * due; CLOCK_NEVER: never. */
typedef uint64_t (*log_turn_fn)(uint64_t now);
/* Wakes the thread, or starts it with this turn function. Never blocks. */
void log_ring_wake(log_turn_fn turn);
/* Replaces and closes the sink, however much others log. Lines that the old sink has not taken go
 * to the new one. As log_ring_drain. */
bool log_ring_set_sink(const struct log_sink *sink);
/* Ends the thread; writes what the sink takes. */
void log_ring_stop(void);
/* At the end of the process: as stop, but waits a moment for a slow reader. */
void log_ring_finish(void);
/* In a forked child: drops the lines, which are the parent's. Stores only. */
void log_ring_forget(void);

/* ---- log_recent.c: the newest errors and warnings, for kal_log_recent ---- */

/* level is error or warning. Leaf lock. */
void log_recent_add(enum ri_log_level level, const char *line, size_t length);
void log_recent_forget(void); /* in a forked child; stores only */

/* ---- log_rate.c: the rate limit of a cause ---- */

/* True: write this line. The cause is the address `key`, usually that of the format, together with
 * the prefix. An error or warning that equals one of its newest lines is not written. *first: this
 * cause is suppressed from now on, and the caller has log_rate_turn called when its time is
 * over. */
bool log_rate_admit(const char *key, const char *prefix, enum ri_log_level level, const char *line,
                    size_t length, uint64_t now, bool *first);
/* A log_turn_fn: adds "n more" for causes whose time is over. Returns when the next one's time is
 * over; CLOCK_NEVER: none is suppressed. */
uint64_t log_rate_turn(uint64_t now);
/* Adds the counts of all causes now. Their times continue, unless `forget` is set. */
void log_rate_say(bool forget);
void log_rate_forget(void); /* in a forked child; stores only */

#endif

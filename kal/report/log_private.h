/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rooms of the log: log.c makes lines, log_rate.c counts them by cause, log_ring.c keeps them
 * until log_sink.c has taken them. Locks, leaves both, in this order: rate, ring. No system call is
 * made under either.
 */
#ifndef ITAL_KAL_LOG_PRIVATE_H
#define ITAL_KAL_LOG_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rnicpi.h"

#define LOG_LINE_MAX 1024 /* octets, with the newline; below PIPE_BUF: a pipe takes all or none */

/* ---- log_sink.c: where lines go ---- */

enum log_sink_kind { SINK_STDERR, SINK_FILE, SINK_SYSLOG };
struct log_sink {
    enum log_sink_kind kind;
    int fd;       /* of FILE and SYSLOG; -1: none */
    dev_t device; /* what fd was opened for: the number may come to be another file's */
    ino_t inode;
};
extern const char *kal_log_syslog_path; /* tests set another one */

/* False with errno: a file that cannot be opened. */
bool log_sink_open(struct log_sink *sink, enum log_sink_kind kind, const char *path);
void log_sink_close(struct log_sink *sink);
/* Never blocks, raises no signal and changes no flag of the descriptor. Returns the octets taken;
 * 0: later; -1: never. Not from several threads at once. */
ssize_t log_sink_write(struct log_sink *sink, enum ri_log_level level, const char *line,
                       size_t length);

/* ---- log_ring.c: lines that wait, and the thread that writes for the lanes ---- */

/* A line with its newline; counted where there is no room. Never blocks. */
void log_ring_push(enum ri_log_level level, const char *line, size_t length);
/* Pass lines to the sink, as far as it takes them. False: lines are left. Not in a lane. */
bool log_ring_drain(void);
/* What the thread does before it writes: push the lines that are due. Returns when the next ones
 * are; CLOCK_NEVER: never. */
typedef uint64_t (*log_turn_fn)(uint64_t now);
/* The thread writes; it is started where there is none, with this turn. Never blocks. */
void log_ring_wake(log_turn_fn turn);
/* Lines that the old sink has not taken go to the new one. The old one is closed. */
void log_ring_set_sink(const struct log_sink *sink);
/* The thread ends; what the sink takes is written. */
void log_ring_stop(void);
/* The process ends: as stop, and a slow reader gets a moment. */
void log_ring_finish(void);
/* In a forked child: the lines are the parent's. Stores only. */
void log_ring_forget(void);

/* ---- log_rate.c: how often a cause may speak ---- */

/* Is this line to be written? The cause is the address `key`, usually that of the format, and
 * the prefix. *first: this cause is suppressed from now on, and the caller has log_rate_turn
 * called when its time is over. */
bool log_rate_admit(const char *key, const char *prefix, enum ri_log_level level, const char *line,
                    size_t length, uint64_t now, bool *first);
/* A log_turn_fn: push "n more" of those whose time is over. Returns when the next one's is;
 * CLOCK_NEVER: none is held back. */
uint64_t log_rate_turn(uint64_t now);
/* Push the counts of all causes now. Their times continue, unless they are forgotten. */
void log_rate_say(bool forget);
void log_rate_forget(void); /* in a forked child; stores only */

#endif

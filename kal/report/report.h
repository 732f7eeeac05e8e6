/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports: addresses as text, and the log. kal_log, kal_vlog and the names of statuses are in
 * kal.h. */
#ifndef ITAL_KAL_REPORT_H
#define ITAL_KAL_REPORT_H

#include <stdarg.h>

#include "kal.h"

/* ---- report/address.c ---- */
/* The length of an address that TCP can use; 0: another family. Its text: "host:port",
 * "[host]:port". */
socklen_t kal_address_length(const struct sockaddr *address);
void kal_address_text(const struct sockaddr *address, char *text, size_t size);

/* ---- report/log.c ---- */
/* cause: a string whose address identifies the kind of line; the text is not used. */
void kal_vlog_cause(enum ri_log_level level, const char *prefix, const char *cause,
                    const char *format, va_list args);
bool kal_log_wanted(enum ri_log_level level);
/* Parses "level[:stderr|syslog|FILE]" and applies it at once. False: *why is a sentence, valid
 * until the thread's next call. */
bool kal_log_configure(const char *text, const char **why);
bool kal_log_check(const char *text, const char **why); /* only checks it */
/* Warnings go to stderr; closes the file, and ends the thread that writes for the lanes. */
void kal_log_reset(void);
/* No lane is left: ends the thread and reports counts. Levels and rates stay. */
void kal_log_flush(void);
/* The newest lines of levels error and warning that were logged, the oldest first, at most `room`,
 * and how many there were since the process began (or, in a child, the fork). Any thread. */
#define KAL_LOG_RECENT     16u
#define KAL_LOG_RECENT_MAX 256u
struct kal_log_line {
    uint64_t wall;                 /* clock_wall() */
    char text[KAL_LOG_RECENT_MAX]; /* without its newline; may be cut */
};
size_t kal_log_recent(struct kal_log_line *lines, size_t room, uint64_t *errors,
                      uint64_t *warnings);
/* In a forked child: the log goes to stderr until an instance is created, and earlier lines are
 * dropped. Async-signal-safe. */
void kal_log_fork_child(void);
/* True: the calling thread is in a run of a lane, and so may not write to a descriptor. NULL: none
 * is. */
typedef bool (*kal_inside_fn)(void);
void kal_log_lanes(kal_inside_fn inside);

#endif

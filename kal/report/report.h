/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports: addresses as text, and the log. kal_log, kal_vlog and the names of statuses are in
 * kal.h. */
#ifndef ITAL_KAL_REPORT_H
#define ITAL_KAL_REPORT_H

#include <stdarg.h>

#include "kal.h"

/* ---- report/address.c ---- */
/* Of an address that TCP runs on; 0: of another family. Its text: "host:port", "[host]:port". */
socklen_t kal_address_length(const struct sockaddr *address);
void kal_address_text(const struct sockaddr *address, char *text, size_t size);

/* ---- report/log.c ---- */
/* cause: a string whose address, and no more, stands for the kind of line. */
void kal_vlog_cause(enum ri_log_level level, const char *prefix, const char *cause,
                    const char *format, va_list args);
bool kal_log_wanted(enum ri_log_level level);
/* "level[:stderr|syslog|FILE]". False with *why a static sentence. Takes effect at once. */
bool kal_log_configure(const char *text, const char **why);
bool kal_log_check(const char *text, const char **why); /* the same without effect */
/* Warnings to stderr; closes the file, and ends the thread that writes for the lanes. */
void kal_log_reset(void);
/* No lane is left: the thread ends, counts are reported, and levels and rates stay. */
void kal_log_flush(void);
/* The log of the child goes to stderr until an instance is made there, and knows nothing of before;
 * async-signal-safe. */
void kal_log_fork_child(void);
/* Is the calling thread in a run of a lane? Such a thread writes to no descriptor. NULL: none
 * is. */
typedef bool (*kal_inside_fn)(void);
void kal_log_lanes(kal_inside_fn inside);

#endif

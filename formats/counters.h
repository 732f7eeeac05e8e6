/* SPDX-License-Identifier: BSD-3-Clause
 * The numbers that a process shows of itself: counters_table.h. */
#ifndef ITAL_FORMATS_COUNTERS_H
#define ITAL_FORMATS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>

enum counter_scope {
    COUNTER_PROCESS,
    COUNTER_INTERFACE,
    COUNTER_LISTENER,
    COUNTER_ENDPOINT,
    COUNTER_LANE,
    COUNTER_SCOPES
};

/* Members: counters_table.h. */
struct counter {
    enum counter_scope scope;
    const char *group, *name, *said;
    bool rises;
    const char *metric, *text;
};

extern const struct counter counters[];
extern const size_t counter_count;

/* The number of that scope and group that a provider calls so. NULL: none. */
const struct counter *counter_said(enum counter_scope scope, const char *group, const char *said);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that a process shows of itself. */
#include "counters.h"

#include <string.h>

#define COUNTER(scope, group, name, said, rises, metric, text) \
    { COUNTER_##scope, group, name, said, rises, metric, text },
const struct counter counters[] = {
#include "counters_table.h"
};
#undef COUNTER

const size_t counter_count = sizeof(counters) / sizeof(*counters);

const struct counter *counter_said(enum counter_scope scope, const char *group, const char *said)
{
    for (size_t i = 0; i < counter_count; i++)
        if (counters[i].scope == scope && counters[i].said && !strcmp(counters[i].said, said) &&
            !strcmp(counters[i].group, group))
            return &counters[i];
    return NULL;
}

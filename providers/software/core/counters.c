/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as the host gets them: see counters.h. */
#include "counters.h"

#include <stdatomic.h>

enum ri_status core_counters_give(const struct core_counter *rows, size_t total, const void *object,
                                  const char **names, uint64_t *values, size_t *count)
{
    for (size_t i = 0; i < total && i < *count; i++) {
        names[i] = rows[i].name;
        values[i] = atomic_load_explicit(
            (const atomic_ullong *)((const char *)object + rows[i].offset), memory_order_relaxed);
    }
    *count = total;
    return RI_OK;
}

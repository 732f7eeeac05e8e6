/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters as the host gets them: a row each, which names a member of the object that counts. */
#ifndef ITAL_SOFTRDMA_CORE_COUNTERS_H
#define ITAL_SOFTRDMA_CORE_COUNTERS_H

#include "rnicpi.h"

#include <stddef.h>
#include <stdint.h>

/* The name is words for people, as formats/counters_table.h has it, which says the text. The member
 * is an atomic_ullong. */
struct core_counter {
    const char *name;
    size_t offset;
};

/* Answers ri_privileged_ops.rnic_counters and qp_counters from `total` rows. */
enum ri_status core_counters_give(const struct core_counter *rows, size_t total, const void *object,
                                  const char **names, uint64_t *values, size_t *count);

#endif

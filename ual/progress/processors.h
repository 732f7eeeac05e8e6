/* SPDX-License-Identifier: BSD-3-Clause
 * Which processors the background threads of an RNIC's lanes get. */
#ifndef ITAL_UAL_PROGRESS_PROCESSORS_H
#define ITAL_UAL_PROGRESS_PROCESSORS_H

#include "rnicpi_status.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* The options of the process that say how its lanes are served. */
struct ual_progress {
    uint64_t spin_ns;
    bool dedicated;   /* progress = dedicated */
    const char *cpus; /* progress_cpus, numbers separated by blanks; NULL or empty: none */
};

#define UAL_PROCESSORS_MOST 256u /* more than the value of an option has room for */

struct ual_processors {
    bool dedicated; /* each background thread polls all the time while it has QPs */
    unsigned int count;
    uint16_t cpu[UAL_PROCESSORS_MOST]; /* `count` of them; the threads are pinned to them in turn */
};

/*
 * For that many lanes, in a thread with the affinity mask `allowed`, in a process with that quota
 * (cpus_quota). Threads that poll all the time need a processor each, and the program one more:
 * where there are fewer, *processors says that they do not, and a warning says why.
 * ITAL_ERR_CONFIGURATION, with a log line: `cpus` has something that is not the number of an
 * allowed processor.
 */
enum ri_status ual_processors_choose(const struct ual_progress *progress, uint32_t lanes,
                                     const cpu_set_t *allowed, unsigned int quota,
                                     struct ual_processors *processors);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * How much processor time is available: a thread that spins on a single core blocks the one that it
 * waits for. */
#ifndef ITAL_BASE_CPUS_H
#define ITAL_BASE_CPUS_H

#include <limits.h>
#include <sched.h>

#define CPUS_UNLIMITED UINT_MAX

/* The calling thread's affinity mask; all, where there are more processors than the set has room
 * for. One system call. */
void cpus_mask(cpu_set_t *set);

/* Processors in the calling thread's affinity mask; one system call. */
unsigned int cpus_in_mask(void);

/* Whole processors that the CPU quotas of the process's control group and those above it allow;
 * CPUS_UNLIMITED: there is none, or it cannot be read. `root`: where the control groups are
 * mounted; `groups`: a file as /proc/self/cgroup. Reads files. */
unsigned int cpus_in_quota(const char *root, const char *groups);

/* The quota of this process, read once. */
unsigned int cpus_quota(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * Affinity mask and CPU quota (control groups, version 2: cpu.max; version 1: cpu.cfs_quota_us). */
#include "cpus.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void cpus_mask(cpu_set_t *set)
{
    if (sched_getaffinity(0, sizeof(*set), set) < 0)
        memset(set, 0xff, sizeof(*set));
}

unsigned int cpus_in_mask(void)
{
    cpu_set_t set;

    cpus_mask(&set);
    return (unsigned int)CPU_COUNT(&set);
}

static bool read_line(const char *folder, const char *name, char *line, int size)
{
    char path[PATH_MAX];
    bool got = false;
    FILE *file;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return false;
    file = fopen(path, "re");
    if (!file)
        return false;
    got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

static unsigned int whole(long long quota, long long period)
{
    return quota <= 0 || period <= 0 || quota / period >= (long long)CPUS_UNLIMITED
               ? CPUS_UNLIMITED
               : (unsigned int)(quota / period);
}

/* Of one group. "max" is no number. */
static unsigned int quota_of(const char *folder)
{
    long long quota, period;
    char line[80];

    if (read_line(folder, "cpu.max", line, sizeof(line)))
        return sscanf(line, "%lld %lld", &quota, &period) == 2 ? whole(quota, period)
                                                               : CPUS_UNLIMITED;
    if (!read_line(folder, "cpu.cfs_quota_us", line, sizeof(line)) ||
        sscanf(line, "%lld", &quota) != 1 ||
        !read_line(folder, "cpu.cfs_period_us", line, sizeof(line)) ||
        sscanf(line, "%lld", &period) != 1)
        return CPUS_UNLIMITED;
    return whole(quota, period);
}

/* Of the group `path` below `root` and all between them. */
static unsigned int quota_up_to(const char *root, const char *path)
{
    unsigned int least = CPUS_UNLIMITED, quota;
    char folder[PATH_MAX];
    size_t stem = strlen(root);

    if (snprintf(folder, sizeof(folder), "%s%s", root, path) >= (int)sizeof(folder))
        return CPUS_UNLIMITED;
    for (;;) {
        char *slash;

        quota = quota_of(folder);
        least = quota < least ? quota : least;
        slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < stem)
            return least;
        *slash = '\0';
    }
}

/* "cpu" among words separated by commas; "cpuset" is another controller. */
static bool names_cpu(const char *controllers)
{
    size_t length = strcspn(controllers, ",");

    while ((length != 3 || strncmp(controllers, "cpu", 3)) && controllers[length]) {
        controllers += length + 1;
        length = strcspn(controllers, ",");
    }
    return length == 3 && !strncmp(controllers, "cpu", 3);
}

/* A line is "number:controllers:path"; of version 2 the controllers are empty. */
unsigned int cpus_in_quota(const char *root, const char *groups)
{
    unsigned int least = CPUS_UNLIMITED;
    char line[PATH_MAX], mount[PATH_MAX];
    FILE *file = fopen(groups, "re");

    if (!file)
        return CPUS_UNLIMITED;
    while (fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *path;
        unsigned int quota;

        path = controllers ? strchr(++controllers, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (*controllers && !names_cpu(controllers))
            continue;
        snprintf(mount, sizeof(mount), "%s%s%s", root, *controllers ? "/" : "",
                 *controllers ? "cpu" : "");
        quota = quota_up_to(mount, path);
        least = quota < least ? quota : least;
    }
    fclose(file);
    return least;
}

static unsigned int own_quota;

static void read_own_quota(void)
{
    own_quota = cpus_in_quota("/sys/fs/cgroup", "/proc/self/cgroup");
}

unsigned int cpus_quota(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_own_quota);
    return own_quota;
}

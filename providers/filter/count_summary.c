/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The filter `count`, argument "summary": a table on standard error when the process ends, as
 * `strace -c` has. What the RNICs of one device count is added up when each is closed, or at the
 * end; many programs leave theirs open.
 */
#include "count.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

struct sums {
    char device[64];
    struct {
        uint64_t calls, errors, ns;
    } verb[COUNT_KINDS];
    struct sums *next;
};

/* A leaf. Guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sums *devices;
static struct count_rnic *open_rnics;
static pid_t process; /* a child of a fork has its parent's numbers, and says nothing */
static uint64_t began;
static struct stat at_begin; /* standard error: the program may close it and reuse its number */

static struct sums *sums_of(const char *device)
{
    struct sums *sums;

    LL_FOREACH (devices, sums)
        if (!strcmp(sums->device, device))
            return sums;
    sums = calloc(1, sizeof(*sums));
    if (!sums)
        return NULL;
    snprintf(sums->device, sizeof(sums->device), "%s", device);
    LL_APPEND(devices, sums);
    return sums;
}

bool count_summary_begin(struct count_rnic *rnic)
{
    pthread_mutex_lock(&lock);
    if (!process) {
        process = getpid();
        began = clock_now();
        fstat(STDERR_FILENO, &at_begin);
    }
    rnic->sums = sums_of(rnic->file->device);
    if (rnic->sums)
        LL_PREPEND(open_rnics, rnic);
    pthread_mutex_unlock(&lock);
    return rnic->sums != NULL;
}

static void add(const struct count_rnic *rnic)
{
    for (size_t i = 0; i < COUNT_KINDS; i++) {
        const struct count_entry *entry = &rnic->file->entry[i];

        rnic->sums->verb[i].calls += count_calls(entry);
        rnic->sums->verb[i].errors += atomic_load_explicit(&entry->errors, memory_order_relaxed);
        rnic->sums->verb[i].ns += atomic_load_explicit(&entry->ns, memory_order_relaxed);
    }
}

void count_summary_end(struct count_rnic *rnic)
{
    if (!rnic->sums)
        return;
    pthread_mutex_lock(&lock);
    add(rnic);
    LL_DELETE(open_rnics, rnic);
    pthread_mutex_unlock(&lock);
}

static void print(const struct sums *sums)
{
    dprintf(STDERR_FILENO,
            "# ital count: %s, process %d, device %s, %.3f s\n"
            "#    calls     errors     mean us    total ms  verb\n",
            program_invocation_short_name, (int)process, sums->device,
            (double)(clock_now() - began) / 1e9);
    for (size_t i = 0; i < COUNT_KINDS; i++) {
        uint64_t calls = sums->verb[i].calls, ns = sums->verb[i].ns;

        if (calls && ns)
            dprintf(STDERR_FILENO, "%10llu %10llu %11.3f %11.3f  %s\n", (unsigned long long)calls,
                    (unsigned long long)sums->verb[i].errors, (double)ns / (double)calls / 1e3,
                    (double)ns / 1e6, count_names[i]);
        else if (calls) /* a completion: it has no time of its own */
            dprintf(STDERR_FILENO, "%10llu %10llu %11s %11s  %s\n", (unsigned long long)calls,
                    (unsigned long long)sums->verb[i].errors, "-", "-", count_names[i]);
    }
}

static bool is_stderr_there(void)
{
    struct stat now;

    return fstat(STDERR_FILENO, &now) == 0 && now.st_dev == at_begin.st_dev &&
           now.st_ino == at_begin.st_ino;
}

/* At the end of the process, or where the filter is unloaded. */
__attribute__((destructor)) static void print_all(void)
{
    struct count_rnic *rnic;
    struct sums *sums;

    if (process != getpid() || !is_stderr_there() || pthread_mutex_trylock(&lock))
        return;
    LL_FOREACH (open_rnics, rnic) {
        add(rnic);
        count_file_forget(rnic);
    }
    LL_FOREACH (devices, sums)
        print(sums);
    pthread_mutex_unlock(&lock);
}

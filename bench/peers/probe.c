/* SPDX-License-Identifier: BSD-3-Clause
 *
 * probe A B: in which state are these two cpus? Prints one JSON line:
 *   handoff_ns  median time that a cache line takes from one to the other and is seen there; on
 *               virtual machines it has two values, near (same cache) and far; figures follow it
 *   lost        part of the time that each of the two lost to others while it spun: the time in
 *               gaps of more than 20 us between two looks at the clock
 * Takes about 0.1 s. Status 2: arguments; 1: cannot run there.
 */
#include "peer.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPS_PER_SAMPLE 16
#define SAMPLES_AT_MOST  65536
#define HANDOFF_NS       (20 * 1000000ull)
#define SPIN_NS          (60 * 1000000ull)
#define GAP_NS           20000
#define STOP             UINT32_MAX

/* The cache line that goes back and forth, alone in its line and the adjacent one. */
static struct {
    _Alignas(128) _Atomic uint32_t value;
    char rest[124];
} line;

static pthread_barrier_t both;
static _Atomic int failed;
static uint32_t samples[SAMPLES_AT_MOST];
static size_t sample_count;

struct end {
    pthread_t thread;
    int cpu;
    bool first;
    double lost;
};

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set)) {
        fprintf(stderr, "probe: cpu %d: %s\n", cpu, strerror(errno));
        failed = 1;
    }
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void throw_line(void)
{
    uint32_t value = 0;
    uint64_t last = peer_now(), end = last + HANDOFF_NS, now;

    do {
        for (int i = 0; i < TRIPS_PER_SAMPLE; i++) {
            atomic_store_explicit(&line.value, ++value, memory_order_release);
            ++value;
            while (atomic_load_explicit(&line.value, memory_order_acquire) != value)
                relax();
        }
        now = peer_now();
        samples[sample_count++] = (uint32_t)(now - last);
        last = now;
    } while (now < end && sample_count < SAMPLES_AT_MOST);
    atomic_store_explicit(&line.value, STOP, memory_order_release);
}

static void return_line(void)
{
    uint32_t value;

    while ((value = atomic_load_explicit(&line.value, memory_order_acquire)) != STOP) {
        if (value & 1)
            atomic_store_explicit(&line.value, value + 1, memory_order_release);
        else
            relax();
    }
}

static double lost_share(void)
{
    uint64_t start = peer_now(), last = start, lost = 0, now;

    do {
        now = peer_now();
        if (now - last > GAP_NS)
            lost += now - last;
        last = now;
    } while (now - start < SPIN_NS);
    return (double)lost / (double)(now - start);
}

static void *run(void *argument)
{
    struct end *end = argument;

    pin(end->cpu);
    pthread_barrier_wait(&both);
    if (failed)
        return NULL;
    if (end->first)
        throw_line();
    else
        return_line();
    pthread_barrier_wait(&both);
    end->lost = lost_share();
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static bool cpu_number(const char *text, int *cpu)
{
    char *end;
    long value = strtol(text, &end, 10);

    *cpu = (int)value;
    return end != text && !*end && value >= 0 && value < CPU_SETSIZE;
}

int main(int argc, char **argv)
{
    struct end ends[2] = { { .first = true }, { .first = false } };

    if (argc != 3 || !cpu_number(argv[1], &ends[0].cpu) || !cpu_number(argv[2], &ends[1].cpu) ||
        ends[0].cpu == ends[1].cpu) {
        fprintf(stderr, "usage: probe CPU CPU (two different ones)\n");
        return 2;
    }
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&ends[i].thread, NULL, run, &ends[i])) {
            fprintf(stderr, "probe: no thread\n");
            return 1;
        }
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ends[i].thread, NULL);
    if (failed)
        return 1;
    qsort(samples, sample_count, sizeof(*samples), by_value);
    printf("{\"cpus\":[%d,%d],\"handoff_ns\":%.1f,\"lost\":[%.4f,%.4f]}\n", ends[0].cpu,
           ends[1].cpu, samples[sample_count / 2] / (2.0 * TRIPS_PER_SAMPLE), ends[0].lost,
           ends[1].lost);
    return 0;
}

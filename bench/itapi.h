/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the benchmarks over IT-API share. Every call must succeed; otherwise the program ends.
 */
#ifndef ITAL_BENCH_ITAPI_H
#define ITAL_BENCH_ITAPI_H

#define ITAPI_ENABLE_V21_BINDINGS
#include <it_api.h>
#include <itx_api.h>

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(what)                                                                \
    do {                                                                          \
        it_status_t must_ = (what);                                               \
        if (must_ != IT_SUCCESS) {                                                \
            fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, #what, \
                    itx_status_text(must_));                                      \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/* Opens the first interface, by version 2.1 of the API. */
static inline it_ia_handle_t open_first_ia(void)
{
    it_interface_t interface;
    size_t room = 1, total = 0;
    it_ia_handle_t ia;

    it_interface_list(&interface, &room, &total);
    if (!room) {
        fprintf(stderr, "%s: no usable interface; see itinfo --why\n",
                program_invocation_short_name);
        exit(1);
    }
    MUST(it_ia_create(interface.name, 2, 1, &ia));
    return ia;
}

/* In nanoseconds. */
static inline uint64_t read_clock(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline it_evd_handle_t new_evd(it_ia_handle_t ia, it_event_type_t stream, size_t room)
{
    it_evd_handle_t evd;

    MUST(it_evd_create(ia, stream, IT_EVD_OVERFLOW_DEFAULT, room, IT_THRESHOLD_DISABLE, NULL, &evd,
                       NULL));
    return evd;
}

/* An option's value, from 1 to `most`; others end the program. */
static inline uint32_t number_of(const char *text, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end || !value || value > most) {
        fprintf(stderr, "%s: \"%s\" is not a number from 1 to %u\n", program_invocation_short_name,
                text, most);
        exit(2);
    }
    return (uint32_t)value;
}

/* The first `count` processors that the program may use. */
static inline void first_processors(int *cpus, uint32_t count)
{
    uint32_t placed = 0;
    cpu_set_t allowed;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && placed < count; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpus[placed++] = cpu;
    if (placed < count) {
        fprintf(stderr, "%s: needs %u processors\n", program_invocation_short_name, count);
        exit(1);
    }
}

static inline int less_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sorts them. Of none: 0. */
static inline double median(double *values, uint32_t count)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof(*values), less_first);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif

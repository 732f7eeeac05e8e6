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

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * The clock: CLOCK_MONOTONIC in nanoseconds. Nothing else of the floors reads it, but ri_now() for
 * vendors. About 20 ns a read (vdso). */
#ifndef ITAL_BASE_CLOCK_H
#define ITAL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_US UINT64_C(1000)
#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S  UINT64_C(1000000000)
#define CLOCK_NEVER     UINT64_MAX /* a deadline that is never reached */

static inline uint64_t clock_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The wall clock: since 1970. For time stamps only. */
static inline uint64_t clock_wall(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* now + delay, saturating at CLOCK_NEVER. */
static inline uint64_t clock_after(uint64_t now, uint64_t delay_ns)
{
    return delay_ns >= CLOCK_NEVER - now ? CLOCK_NEVER : now + delay_ns;
}

/* Milliseconds for epoll_wait and poll until a deadline: -1 never, 0 passed, else rounded up. */
static inline int clock_poll_ms(uint64_t now, uint64_t deadline)
{
    uint64_t ms;

    if (deadline == CLOCK_NEVER)
        return -1;
    if (deadline <= now)
        return 0;
    ms = (deadline - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms > 86400000 ? 86400000 : (int)ms;
}

/* For epoll_pwait2, ppoll and futex: the time left, zero when passed. */
static inline struct timespec clock_left(uint64_t now, uint64_t deadline)
{
    uint64_t left = deadline > now ? deadline - now : 0;
    struct timespec ts = { .tv_sec = (time_t)(left / CLOCK_NS_PER_S),
                           .tv_nsec = (long)(left % CLOCK_NS_PER_S) };
    return ts;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause
 * Sleep on and wake a 32-bit word. Within one process only. */
#ifndef ITAL_BASE_FUTEX_H
#define ITAL_BASE_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Sleep while *word == expected, until an absolute CLOCK_MONOTONIC deadline (CLOCK_NEVER: none).
 * Returns 0 (woken, or the word differed), ETIMEDOUT or EINTR. */
static inline int futex_wait(atomic_uint *word, uint32_t expected, uint64_t deadline)
{
    struct timespec ts = { .tv_sec = (time_t)(deadline / CLOCK_NS_PER_S),
                           .tv_nsec = (long)(deadline % CLOCK_NS_PER_S) };
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                      deadline == CLOCK_NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);

    return rc == 0 || errno == EAGAIN ? 0 : errno;
}

static inline void futex_wake(atomic_uint *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts one thread's calls of sched_yield, in programs linked with -Wl,--wrap=sched_yield. A
 * thread that yields YIELDS_OF_A_WAIT times waits for another: no lock is contended for so long. So
 * a test can detect that a call waits, without a fixed delay.
 */
#ifndef ITAL_TESTS_YIELDS_H
#define ITAL_TESTS_YIELDS_H

#include <sched.h>
#include <stdatomic.h>

#include "tc.h"

#define YIELDS_OF_A_WAIT 1000

/* Calls by the threads that called yields_count. */
static atomic_uint yields;
static _Thread_local bool yields_counted;

static inline void yields_count(void)
{
    yields_counted = true;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (yields_counted)
        atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

/* True: the counted thread waits. False: it has set `over`, or neither happened before the
 * deadline. */
static inline bool yields_wait(const atomic_bool *over)
{
    return tc_until(atomic_load(&yields) >= YIELDS_OF_A_WAIT || atomic_load(over), 10000) &&
           !atomic_load(over);
}

#endif

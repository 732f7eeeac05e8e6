/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A mutex of which a function can assert that its caller holds it. In debug builds it is of the
 * error-checking kind, which knows its owner; in others it is a plain one, and the assertion is
 * nothing. Not for a mutex that is locked around a fork: an error-checking one cannot be unlocked
 * in the child.
 */
#ifndef ITAL_BASE_MUTEX_H
#define ITAL_BASE_MUTEX_H

#include "base/compiler.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline void mutex_init(pthread_mutex_t *mutex)
{
#ifdef ITAL_DEBUG
    pthread_mutexattr_t kind;

    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(mutex, &kind);
    pthread_mutexattr_destroy(&kind);
#else
    pthread_mutex_init(mutex, NULL);
#endif
}

/* The calling thread holds it; it was made by mutex_init. An attempt of the owner to lock it again
 * is refused and changes nothing. One of another thread does not wait, and ends the program. */
static inline void mutex_assert_held(const pthread_mutex_t *mutex)
{
#ifdef ITAL_DEBUG
    static const struct timespec past = { 0, 0 };

    contract(pthread_mutex_timedlock((pthread_mutex_t *)(uintptr_t)mutex, &past) == EDEADLK);
#else
    (void)mutex;
#endif
}

#endif

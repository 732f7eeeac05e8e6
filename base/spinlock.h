/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lock for sections of a few dozen instructions: one atomic read-modify-write to take, a plain
 * release store to drop (a pthread mutex costs a second read-modify-write). After a short spin the
 * waiter yields its core, so that a descheduled holder can run on a machine with few cores. Not
 * recursive, not fair. With ITAL_DEBUG the holder is recorded, and spinlock_assert_held() and
 * spinlock_assert_not_held() check it.
 */
#ifndef ITAL_BASE_SPINLOCK_H
#define ITAL_BASE_SPINLOCK_H

#include "base/compiler.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#ifdef ITAL_DEBUG
#include <assert.h>
#include <pthread.h>
#endif

struct spinlock {
    atomic_int taken;
#ifdef ITAL_DEBUG
    /* pthread_t of the thread that has it; 0: none. */
    atomic_ulong holder;
#endif
};

static inline void spinlock_init(struct spinlock *lock)
{
    atomic_init(&lock->taken, 0);
#ifdef ITAL_DEBUG
    atomic_init(&lock->holder, 0);
#endif
}

/* Debug builds: the calling thread has it, or has it no more. */
static inline void spinlock_note(struct spinlock *lock, bool taken)
{
#ifdef ITAL_DEBUG
    atomic_store_explicit(&lock->holder, taken ? (unsigned long)pthread_self() : 0,
                          memory_order_relaxed);
#else
    (void)lock, (void)taken;
#endif
}

static inline void spinlock_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline bool spinlock_try(struct spinlock *lock)
{
    if (atomic_load_explicit(&lock->taken, memory_order_relaxed) ||
        atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
        return false;
    spinlock_note(lock, true);
    return true;
}

/* The same without the load before it, for locks that are rarely contended: three instructions
 * fewer. */
static inline bool spinlock_try_blind(struct spinlock *lock)
{
    if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
        return false;
    spinlock_note(lock, true);
    return true;
}

/* Out of line, so that callers that find the lock free need no register for it. */
static __attribute__((noinline, cold, unused)) void spinlock_wait(struct spinlock *lock)
{
    for (unsigned int spins = 0; !spinlock_try(lock); spins++) {
        if (spins < 100)
            spinlock_pause();
        else
            sched_yield();
    }
}

static inline void spinlock_lock(struct spinlock *lock)
{
    if (unlikely(atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))) {
        spinlock_wait(lock);
        return;
    }
    spinlock_note(lock, true);
}

static inline void spinlock_unlock(struct spinlock *lock)
{
    spinlock_note(lock, false);
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

/* The calling thread has it. Debug builds check that; the lock stays as it is. */
static inline void spinlock_assert_held(const struct spinlock *lock)
{
#ifdef ITAL_DEBUG
    assert(atomic_load_explicit(&lock->holder, memory_order_relaxed) ==
           (unsigned long)pthread_self());
#else
    (void)lock;
#endif
}

/* It does not have it: another thread may. Likewise. */
static inline void spinlock_assert_not_held(const struct spinlock *lock)
{
#ifdef ITAL_DEBUG
    assert(atomic_load_explicit(&lock->holder, memory_order_relaxed) !=
           (unsigned long)pthread_self());
#else
    (void)lock;
#endif
}

#endif

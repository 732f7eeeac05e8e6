/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lock for sections of a few dozen instructions: one atomic read-modify-write to take, a plain
 * release store to drop (a pthread mutex costs a second read-modify-write). After a short spin the
 * waiter yields its core, so that a descheduled holder can run on a machine with few cores. Not
 * recursive, not fair. With ITAL_DEBUG the holder is recorded and spinlock_assert_held() checks it.
 */
#ifndef ITAL_BASE_SPINLOCK_H
#define ITAL_BASE_SPINLOCK_H

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
    pthread_t holder;
#endif
};

static inline void spinlock_init(struct spinlock *lock)
{
    atomic_init(&lock->taken, 0);
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
#ifdef ITAL_DEBUG
    lock->holder = pthread_self();
#endif
    return true;
}

/* The same without the load before it, for locks that are rarely contended: three instructions
 * fewer. */
static inline bool spinlock_try_blind(struct spinlock *lock)
{
    if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
        return false;
#ifdef ITAL_DEBUG
    lock->holder = pthread_self();
#endif
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
    if (__builtin_expect(atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire), 0)) {
        spinlock_wait(lock);
        return;
    }
#ifdef ITAL_DEBUG
    lock->holder = pthread_self();
#endif
}

static inline void spinlock_unlock(struct spinlock *lock)
{
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

static inline void spinlock_assert_held(struct spinlock *lock)
{
#ifdef ITAL_DEBUG
    assert(atomic_load_explicit(&lock->taken, memory_order_relaxed));
    assert(pthread_equal(lock->holder, pthread_self()));
#else
    (void)lock;
#endif
}

#endif

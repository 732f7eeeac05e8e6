/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which threads are inside a call. An IA may be freed while other threads are in calls on its
 * objects, and the objects that such a call uses must exist until it ends. Objects are not counted:
 * that would be an atomic operation on shared memory in each post.
 *
 * Instead each thread counts its own calls in its own memory: the count is odd while the thread is
 * inside. A thread that frees an IA first hides all its handles, then waits until each count that
 * was odd has changed (ual_calls_drain). A call that begins later finds no handle.
 *
 * ORDER. A call stores its count, then reads the handle; the freeing thread stores the handle, then
 * reads the counts. One of the two must see the other's store, which needs a fence on both sides.
 * The calls have none: membarrier(2) makes all other threads of the process execute one when an IA
 * is freed. If the kernel has no such call a count stays negative; then each call goes through
 * ual_call_begin_slowly, which has the fence.
 *
 * The counts are in a list. A thread enters it with its first call (the negative initial value
 * leads there) and leaves it when the thread ends, by a key's destructor.
 */
#include "mechanism_private.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#define YIELDS    64u /* before the wait for a call sleeps between its checks */
#define SLEEP_MAX CLOCK_NS_PER_MS

_Thread_local struct ual_caller ual_caller = { .count = INT64_MIN };

static pthread_mutex_t callers_lock = PTHREAD_MUTEX_INITIALIZER; /* the list; a leaf */
static pthread_mutex_t drain_lock = PTHREAD_MUTEX_INITIALIZER;   /* ual_caller.seen; above it */
static struct ual_caller *callers;
static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_ending, has_barrier;

static bool barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* Other keys' destructors may still make calls, so this one runs again until the last round but
 * one: the last is that of sanitizers. A thread that makes a call even later is not waited for. */
static void end_thread(void *round)
{
    uintptr_t next = (uintptr_t)round + 1;

    if (next < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(ending, (void *)next) == 0)
        return;
    pthread_mutex_lock(&callers_lock);
    DL_DELETE(callers, &ual_caller);
    pthread_mutex_unlock(&callers_lock);
    atomic_store(&ual_caller.count, INT64_MIN);
}

static void prepare(void)
{
    has_ending = pthread_key_create(&ending, end_thread) == 0;
    has_barrier = barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/* A thread whose end cannot be noticed is not listed: its count would be read after it. */
static bool enter_list(void)
{
    pthread_once(&once, prepare);
    if (!has_ending || pthread_setspecific(ending, (void *)1) != 0)
        return false;
    pthread_mutex_lock(&callers_lock);
    DL_APPEND(callers, &ual_caller);
    ual_caller.listed = true;
    pthread_mutex_unlock(&callers_lock);
    return true;
}

void ual_call_begin_slowly(void)
{
    if (!ual_caller.listed && enter_list() && has_barrier)
        atomic_store(&ual_caller.count, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

/* True: a call that was seen is still under way. */
static bool any_left(void)
{
    struct ual_caller *caller;
    bool left = false;

    pthread_mutex_lock(&callers_lock);
    DL_FOREACH (callers, caller)
        left |= (caller->seen & 1) &&
                atomic_load_explicit(&caller->count, memory_order_acquire) == caller->seen;
    pthread_mutex_unlock(&callers_lock);
    return left;
}

/* A call's end wakes nobody, because each call would pay for that. So this waits by checking. */
static void wait_for_calls(void)
{
    uint64_t sleep_ns = CLOCK_NS_PER_US;

    for (unsigned int rounds = 0; any_left(); rounds++) {
        struct timespec time = clock_left(0, sleep_ns);

        if (rounds < YIELDS) {
            sched_yield();
            continue;
        }
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
        sleep_ns = sleep_ns < SLEEP_MAX ? 2 * sleep_ns : SLEEP_MAX;
    }
}

void ual_calls_drain(void)
{
    struct ual_caller *caller;

    pthread_once(&once, prepare);
    atomic_thread_fence(memory_order_seq_cst);
    if (has_barrier)
        barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    pthread_mutex_lock(&drain_lock);
    pthread_mutex_lock(&callers_lock);
    DL_FOREACH (callers, caller)
        caller->seen = atomic_load_explicit(&caller->count, memory_order_acquire);
    pthread_mutex_unlock(&callers_lock);
    wait_for_calls();
    pthread_mutex_unlock(&drain_lock);
}

/* In the child of a fork: of all threads only this one is there. Stores only. */
void ual_calls_forked(void)
{
    callers_lock = drain_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    callers = NULL;
    if (ual_caller.listed) /* a thread that has left the list runs destructors and cannot fork */
        DL_APPEND(callers, &ual_caller);
}

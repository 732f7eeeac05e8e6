/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library's own in a program that knows nothing of them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * The signals that a thread of the library blocks: all, so that no handler of the program runs in
 * it, but for those of its own faults. What a blocked one of these does is undefined (POSIX,
 * pthread_sigmask); Linux ends the process at once, and the program's handler, or a sanitizer's,
 * reports nothing.
 */
static inline void thread_blocked(sigset_t *set)
{
    static const int faults[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };

    sigfillset(set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(set, faults[i]);
}

/*
 * Starts a thread that blocks these signals. name: at most 15 octets. stack: octets; 0: as the
 * system has it. Returns 0, or an error number. Any thread.
 */
static inline int thread_start(pthread_t *thread, const char *name, size_t stack,
                               void *(*run)(void *), void *arg)
{
    sigset_t blocked, before;
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    if (stack)
        pthread_attr_setstacksize(&attr, stack);
    thread_blocked(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}

#endif

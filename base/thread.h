/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library's own in a program that knows nothing of them. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/*
 * Starts a thread that blocks all signals: no handler of the program runs in it. name: at most 15
 * octets. stack: octets; 0: as the system has it. Returns 0, or an error number. Any thread.
 */
static inline int thread_start(pthread_t *thread, const char *name, size_t stack,
                               void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    if (stack)
        pthread_attr_setstacksize(&attr, stack);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (!error)
        pthread_setname_np(*thread, name);
    return error;
}

#endif

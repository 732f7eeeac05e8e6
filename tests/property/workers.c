/* SPDX-License-Identifier: BSD-3-Clause */
/* Long-lived threads: see workers.h. */
#include "workers.h"

#include "tc.h"

#include <pthread.h>

#define WORKERS 8

struct worker {
    pthread_t thread;
    bool taken; /* the caller's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *(*task)(void *argument); /* NULL: idle */
    void *argument;
};

static struct worker workers[WORKERS];
static int started;

static void *work(void *argument)
{
    struct worker *worker = argument;

    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (!worker->task)
            pthread_cond_wait(&worker->changed, &worker->lock);
        pthread_mutex_unlock(&worker->lock);
        worker->task(worker->argument);
        pthread_mutex_lock(&worker->lock);
        worker->task = NULL;
        pthread_cond_broadcast(&worker->changed);
    }
    return NULL;
}

static void start(struct worker *worker)
{
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static struct worker *idle(void)
{
    for (; started < WORKERS; started++)
        start(&workers[started]);
    for (int i = 0; i < WORKERS; i++)
        if (!workers[i].taken)
            return &workers[i];
    ck_abort_msg("more tasks at once than workers");
    return NULL;
}

struct worker *workers_run(void *(*task)(void *argument), void *argument)
{
    struct worker *worker = idle();

    worker->taken = true;
    pthread_mutex_lock(&worker->lock);
    worker->task = task;
    worker->argument = argument;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return worker;
}

void workers_join(struct worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->task)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
    worker->taken = false;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: lifetime of an object and the threads inside it. Rules: connection.c. */
#include "guard.h"

void cm_guard_init(struct cm_guard *guard)
{
    mutex_init(&guard->lock);
    guard->waits = NULL;
    guard->runs = NULL;
    guard->refs = 1;
    guard->dead = false;
}

void cm_guard_end(struct cm_guard *guard)
{
    contract(!guard->runs && !guard->waits);
    pthread_mutex_destroy(&guard->lock);
}

void cm_guard_signal(struct cm_guard *guard)
{
    mutex_assert_held(&guard->lock);
    for (struct cm_waiter *wait = guard->waits; wait; wait = wait->next)
        pthread_cond_signal(&wait->signalled);
}

/* Not inlined, as cm_enter. */
__attribute__((noinline)) void cm_guard_wait(struct cm_guard *guard)
{
    struct cm_waiter wait = { PTHREAD_COND_INITIALIZER, guard->waits };
    struct cm_waiter **link = &guard->waits;

    mutex_assert_held(&guard->lock);
    guard->waits = &wait;
    pthread_cond_wait(&wait.signalled, &guard->lock);
    while (*link != &wait)
        link = &(*link)->next;
    *link = wait.next;
    pthread_cond_destroy(&wait.signalled);
}

/* Not inlined: gcc 12 takes the run, unlinked by cm_leave, for a dangling pointer. */
__attribute__((noinline)) bool cm_enter(struct cm_guard *guard, struct cm_run *run)
{
    pthread_mutex_lock(&guard->lock);
    if (guard->dead) {
        pthread_mutex_unlock(&guard->lock);
        return false;
    }
    guard->refs++;
    run->thread = pthread_self();
    run->next = guard->runs;
    guard->runs = run;
    return true;
}

bool cm_leave(struct cm_guard *guard, struct cm_run *run)
{
    struct cm_run **link = &guard->runs;
    bool last;

    cm_assert_run(guard);
    contract(guard->refs > 0);
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    last = --guard->refs == 0;
    cm_guard_signal(guard);
    pthread_mutex_unlock(&guard->lock);
    return last;
}

void cm_hold(struct cm_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    guard->refs++;
    pthread_mutex_unlock(&guard->lock);
}

bool cm_drop(struct cm_guard *guard)
{
    bool last;

    pthread_mutex_lock(&guard->lock);
    last = --guard->refs == 0;
    pthread_mutex_unlock(&guard->lock);
    return last;
}

static bool others_inside(const struct cm_guard *guard)
{
    mutex_assert_held(&guard->lock);
    for (const struct cm_run *run = guard->runs; run; run = run->next)
        if (!pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

bool cm_inside(struct cm_guard *guard)
{
    mutex_assert_held(&guard->lock);
    for (const struct cm_run *run = guard->runs; run; run = run->next)
        if (pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

void cm_guard_wait_others(struct cm_guard *guard)
{
    while (others_inside(guard))
        cm_guard_wait(guard);
}

void cm_kill(struct cm_guard *guard)
{
    pthread_mutex_lock(&guard->lock);
    guard->dead = true;
    cm_guard_wait_others(guard);
    pthread_mutex_unlock(&guard->lock);
}

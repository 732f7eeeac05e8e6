/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: lifetime of an object and the threads inside it. Rules: connection.c. */
#include "lifetime.h"

void cm_lifetime_init(struct cm_lifetime *lifetime)
{
    mutex_init(&lifetime->lock);
    lifetime->waits = NULL;
    lifetime->runs = NULL;
    lifetime->refs = 1;
    lifetime->dead = false;
}

void cm_lifetime_end(struct cm_lifetime *lifetime)
{
    contract(!lifetime->runs && !lifetime->waits);
    pthread_mutex_destroy(&lifetime->lock);
}

void cm_lifetime_signal(struct cm_lifetime *lifetime)
{
    mutex_assert_held(&lifetime->lock);
    for (struct cm_waiter *wait = lifetime->waits; wait; wait = wait->next)
        pthread_cond_signal(&wait->signalled);
}

/* Not inlined, as cm_enter. */
__attribute__((noinline)) void cm_lifetime_wait(struct cm_lifetime *lifetime)
{
    struct cm_waiter wait = { PTHREAD_COND_INITIALIZER, lifetime->waits };
    struct cm_waiter **link = &lifetime->waits;

    mutex_assert_held(&lifetime->lock);
    lifetime->waits = &wait;
    pthread_cond_wait(&wait.signalled, &lifetime->lock);
    while (*link != &wait)
        link = &(*link)->next;
    *link = wait.next;
    pthread_cond_destroy(&wait.signalled);
}

/* Not inlined: gcc 12 takes the run, unlinked by cm_leave, for a dangling pointer. */
__attribute__((noinline)) bool cm_enter(struct cm_lifetime *lifetime, struct cm_run *run)
{
    pthread_mutex_lock(&lifetime->lock);
    if (lifetime->dead) {
        pthread_mutex_unlock(&lifetime->lock);
        return false;
    }
    lifetime->refs++;
    run->thread = pthread_self();
    run->next = lifetime->runs;
    lifetime->runs = run;
    return true;
}

bool cm_leave(struct cm_lifetime *lifetime, struct cm_run *run)
{
    struct cm_run **link = &lifetime->runs;
    bool last;

    cm_assert_run(lifetime);
    contract(lifetime->refs > 0);
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    last = --lifetime->refs == 0;
    cm_lifetime_signal(lifetime);
    pthread_mutex_unlock(&lifetime->lock);
    return last;
}

void cm_hold(struct cm_lifetime *lifetime)
{
    pthread_mutex_lock(&lifetime->lock);
    lifetime->refs++;
    pthread_mutex_unlock(&lifetime->lock);
}

bool cm_drop(struct cm_lifetime *lifetime)
{
    bool last;

    pthread_mutex_lock(&lifetime->lock);
    last = --lifetime->refs == 0;
    pthread_mutex_unlock(&lifetime->lock);
    return last;
}

static bool others_inside(const struct cm_lifetime *lifetime)
{
    mutex_assert_held(&lifetime->lock);
    for (const struct cm_run *run = lifetime->runs; run; run = run->next)
        if (!pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

bool cm_inside(struct cm_lifetime *lifetime)
{
    mutex_assert_held(&lifetime->lock);
    for (const struct cm_run *run = lifetime->runs; run; run = run->next)
        if (pthread_equal(run->thread, pthread_self()))
            return true;
    return false;
}

void cm_lifetime_wait_others(struct cm_lifetime *lifetime)
{
    while (others_inside(lifetime))
        cm_lifetime_wait(lifetime);
}

void cm_kill(struct cm_lifetime *lifetime)
{
    pthread_mutex_lock(&lifetime->lock);
    lifetime->dead = true;
    cm_lifetime_wait_others(lifetime);
    pthread_mutex_unlock(&lifetime->lock);
}

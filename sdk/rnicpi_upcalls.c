/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred upcalls: see rnicpi_upcalls.h. */
#include "rnicpi_upcalls.h"

void ri_upcalls_open(struct ri_upcalls *upcalls, const struct ri_host *host, pthread_mutex_t *lock)
{
    *upcalls = (struct ri_upcalls){ .host = host, .lock = lock };
    pthread_cond_init(&upcalls->made, NULL);
}

void ri_upcalls_close(struct ri_upcalls *upcalls)
{
    pthread_cond_destroy(&upcalls->made);
}

static void append(struct ri_upcalls *upcalls, struct ri_deferred *deferred)
{
    deferred->listed = true;
    deferred->next = NULL;
    if (upcalls->last)
        upcalls->last->next = deferred;
    else
        upcalls->first = deferred;
    upcalls->last = deferred;
}

static void take_off(struct ri_upcalls *upcalls, struct ri_deferred *deferred)
{
    struct ri_deferred *before = NULL, *at = upcalls->first;

    if (!deferred->listed)
        return;
    for (; at != deferred; at = at->next)
        before = at;
    if (before)
        before->next = deferred->next;
    else
        upcalls->first = deferred->next;
    if (upcalls->last == deferred)
        upcalls->last = before;
    deferred->listed = false;
}

void ri_upcall_defer(struct ri_upcalls *upcalls, struct ri_deferred *deferred)
{
    if (!deferred->listed)
        append(upcalls, deferred);
    upcalls->host->wake(upcalls->host, upcalls->lane_context);
}

/* One run at a time: so one upcall at a time is about an object. */
uint32_t ri_upcalls_run(struct ri_upcalls *upcalls)
{
    struct ri_deferred *deferred;
    uint32_t work = 0;

    while ((deferred = upcalls->first)) {
        take_off(upcalls, deferred);
        upcalls->running = deferred;
        upcalls->thread = pthread_self();
        if (deferred->make(deferred) && !deferred->listed)
            append(upcalls, deferred);
        upcalls->running = NULL;
        upcalls->about = NULL;
        pthread_cond_broadcast(&upcalls->made);
        work++;
    }
    return work;
}

static bool is_made_elsewhere(const struct ri_upcalls *upcalls, const struct ri_deferred *deferred,
                              const void *about)
{
    return ((deferred && upcalls->running == deferred) || (about && upcalls->about == about)) &&
           !pthread_equal(upcalls->thread, pthread_self());
}

void ri_upcall_cancel(struct ri_upcalls *upcalls, struct ri_deferred *deferred, const void *about)
{
    while (is_made_elsewhere(upcalls, deferred, about))
        pthread_cond_wait(&upcalls->made, upcalls->lock);
    if (deferred)
        take_off(upcalls, deferred);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred unwatch: see rnicpi_watch.h. */
#include "rnicpi_watch.h"

enum ri_status ri_watched_add(const struct ri_unwatch_list *list, struct ri_watched *watched,
                              uint32_t events, ri_ready_fn ready, void *arg)
{
    atomic_store(&watched->leaving, false);
    watched->watch = NULL;
    return list->host->watch(list->host, list->lane_context, watched->fd, events, ready, arg,
                             &watched->watch);
}

void ri_unwatch_later(struct ri_unwatch_list *list, struct ri_watched *watched)
{
    if (atomic_exchange(&watched->leaving, true))
        return;
    watched->next = atomic_load(&list->first);
    while (!atomic_compare_exchange_weak(&list->first, &watched->next, watched))
        ;
    list->host->wake(list->host, list->lane_context);
}

uint32_t ri_unwatch_now(struct ri_unwatch_list *list)
{
    struct ri_watched *watched, *next;
    uint32_t count = 0;

    if (!ri_unwatch_pending(list))
        return 0;
    for (watched = atomic_exchange(&list->first, NULL); watched; watched = next) {
        next = watched->next;
        if (watched->watch)
            list->host->unwatch(list->host, watched->watch);
        watched->watch = NULL;
        watched->gone(watched);
        count++;
    }
    return count;
}

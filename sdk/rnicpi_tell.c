/* SPDX-License-Identifier: BSD-3-Clause */
/* Deferred upcalls: see rnicpi_tell.h. */
#include "rnicpi_tell.h"

void ri_tellers_open(struct ri_tellers *tellers, const struct ri_host *host, pthread_mutex_t *lock)
{
    *tellers = (struct ri_tellers){ .host = host, .lock = lock };
    pthread_cond_init(&tellers->told, NULL);
}

void ri_tellers_close(struct ri_tellers *tellers)
{
    pthread_cond_destroy(&tellers->told);
}

static void append(struct ri_tellers *tellers, struct ri_teller *teller)
{
    teller->listed = true;
    teller->next = NULL;
    if (tellers->last)
        tellers->last->next = teller;
    else
        tellers->first = teller;
    tellers->last = teller;
}

static void take_off(struct ri_tellers *tellers, struct ri_teller *teller)
{
    struct ri_teller *before = NULL, *at = tellers->first;

    if (!teller->listed)
        return;
    for (; at != teller; at = at->next)
        before = at;
    if (before)
        before->next = teller->next;
    else
        tellers->first = teller->next;
    if (tellers->last == teller)
        tellers->last = before;
    teller->listed = false;
}

void ri_tell_later(struct ri_tellers *tellers, struct ri_teller *teller)
{
    if (!teller->listed)
        append(tellers, teller);
    tellers->host->wake(tellers->host, tellers->lane_context);
}

/* One run at a time: so one upcall at a time is about a teller. */
uint32_t ri_tell_now(struct ri_tellers *tellers)
{
    struct ri_teller *teller;
    uint32_t work = 0;

    while ((teller = tellers->first)) {
        take_off(tellers, teller);
        tellers->telling = teller;
        tellers->thread = pthread_self();
        if (teller->tell(teller) && !teller->listed)
            append(tellers, teller);
        tellers->telling = NULL;
        tellers->about = NULL;
        pthread_cond_broadcast(&tellers->told);
        work++;
    }
    return work;
}

static bool is_told_elsewhere(const struct ri_tellers *tellers, const struct ri_teller *teller,
                              const void *about)
{
    return ((teller && tellers->telling == teller) || (about && tellers->about == about)) &&
           !pthread_equal(tellers->thread, pthread_self());
}

void ri_tell_forget(struct ri_tellers *tellers, struct ri_teller *teller, const void *about)
{
    while (is_told_elsewhere(tellers, teller, about))
        pthread_cond_wait(&tellers->told, tellers->lock);
    if (teller)
        take_off(tellers, teller);
}

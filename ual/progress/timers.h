/* SPDX-License-Identifier: BSD-3-Clause
 * A pairing heap of struct ri_timer, linked through the timers themselves: no allocation. The
 * caller locks. The heap keeps its own copy of each deadline: an owner writes timer->deadline
 * before it asks for the move. */
#ifndef ITAL_UAL_TIMERS_H
#define ITAL_UAL_TIMERS_H

#include "rnicpi.h"

struct timers {
    struct ri_timer *root; /* earliest deadline */
    uint64_t next;         /* deadline of root; undefined without one */
};

/* Inserts the timer, or moves it if it is in the heap. */
void timers_set(struct timers *timers, struct ri_timer *timer);
/* Removes the timer. False: it was not in the heap. */
bool timers_remove(struct timers *timers, struct ri_timer *timer);
/* Removes and returns the earliest timer if its deadline has passed, else NULL. */
struct ri_timer *timers_expired(struct timers *timers, uint64_t now);

static inline uint64_t timers_next(const struct timers *timers)
{
    return timers->root ? timers->next : RI_NO_DEADLINE;
}

#endif

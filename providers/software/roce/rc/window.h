/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many packets may be outstanding towards one peer: additive increase, multiplicative decrease.
 * Pure functions on one structure. A QP has its own, or shares that of its peer: then any thread
 * may change it, and of two changes at once one may be lost.
 */
#ifndef ITAL_SOFTROCE_WINDOW_H
#define ITAL_SOFTROCE_WINDOW_H

#include <stdatomic.h>
#include <stdint.h>

#define RC_WINDOW_FIRST 32u
#define RC_WINDOW_LEAST 4u
#define RC_WINDOW_MOST  256u

struct rc_window {
    atomic_uint limit;       /* packets, RC_WINDOW_LEAST to RC_WINDOW_MOST */
    atomic_uint threshold;   /* below it the limit grows by each acknowledged packet */
    atomic_uint credit;      /* acknowledged packets that have not raised it yet */
    atomic_ullong cut_until; /* losses before that time are of the window that was cut */
};

void rc_window_open(struct rc_window *window);
void rc_window_acknowledged(struct rc_window *window, uint32_t packets);
/* A packet was lost, or a switch has marked one. One cut in `rtt` nanoseconds. */
void rc_window_lost(struct rc_window *window, uint64_t now, uint64_t rtt);
/* Nothing is heard of the peer. */
void rc_window_silent(struct rc_window *window);

static inline uint32_t rc_window_limit(const struct rc_window *window)
{
    return atomic_load_explicit(&window->limit, memory_order_relaxed);
}

#endif

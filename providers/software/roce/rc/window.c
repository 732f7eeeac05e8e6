/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of packets: see window.h. */
#include "window.h"

#include "base/minmax.h"

static uint32_t get(const atomic_uint *member)
{
    return atomic_load_explicit(member, memory_order_relaxed);
}

static void set(atomic_uint *member, uint32_t value)
{
    atomic_store_explicit(member, value, memory_order_relaxed);
}

void rc_window_open(struct rc_window *window)
{
    set(&window->limit, RC_WINDOW_FIRST);
    set(&window->threshold, RC_WINDOW_MOST);
    set(&window->credit, 0);
    atomic_store_explicit(&window->cut_until, 0, memory_order_relaxed);
}

void rc_window_acknowledged(struct rc_window *window, uint32_t packets)
{
    uint32_t limit = get(&window->limit), credit = get(&window->credit) + packets;

    if (limit < get(&window->threshold)) {
        limit += packets;
    } else if (credit >= limit) {
        credit = 0;
        limit++;
    }
    set(&window->credit, credit);
    set(&window->limit, min_u32(limit, RC_WINDOW_MOST));
}

void rc_window_lost(struct rc_window *window, uint64_t now, uint64_t rtt)
{
    uint32_t half = max_u32(get(&window->limit) / 2, RC_WINDOW_LEAST);

    if (now < atomic_load_explicit(&window->cut_until, memory_order_relaxed))
        return;
    atomic_store_explicit(&window->cut_until, now + rtt, memory_order_relaxed);
    set(&window->limit, half);
    set(&window->threshold, half);
    set(&window->credit, 0);
}

void rc_window_silent(struct rc_window *window)
{
    set(&window->threshold, max_u32(get(&window->limit) / 2, RC_WINDOW_LEAST));
    set(&window->limit, RC_WINDOW_LEAST);
    set(&window->credit, 0);
}

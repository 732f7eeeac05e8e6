/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: rate limit of log lines about peers, one per second. */
#include "cm.h"

#include "base/clock.h"

#include <stdio.h>

bool cm_meter(struct cm_meter *meter, char *more, size_t size)
{
    uint64_t now = clock_now();

    atomic_fetch_add_explicit(&meter->count, 1, memory_order_relaxed);
    if (now < meter->next) {
        meter->suppressed++;
        return false;
    }
    more[0] = '\0';
    if (meter->suppressed)
        snprintf(more, size, " (%llu more of this kind since the last line)",
                 (unsigned long long)meter->suppressed);
    meter->suppressed = 0;
    meter->next = clock_after(now, CLOCK_NS_PER_S);
    return true;
}

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How long the background thread waits before it checks again whether consumers run the lane. Each
 * check costs a timer and two context switches, so the intervals grow. A message that arrives after
 * the last poll waits for the next check, so they do not grow beyond PACE_LAST. All state is the
 * caller's; one thread, no lock.
 *
 * Some consumers poll rarely: one that streams long messages stays in a call for hundreds of
 * microseconds. A short interval would miss them, and the background thread would compete with
 * them. So the short interval grows to what they need.
 */
#ifndef ITAL_UAL_LANE_PACE_H
#define ITAL_UAL_LANE_PACE_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* ns */
#define PACE_FIRST (50 * CLOCK_NS_PER_US)
#define PACE_LAST  (1000 * CLOCK_NS_PER_US)

/* The upper bound of the short interval, which grows when PACE_FIRST was too short. */
#define PACE_SHORT_MOST (400 * CLOCK_NS_PER_US)

/* The end of polling is noticed within this time. */
#define PACE_END (2 * CLOCK_NS_PER_MS)

/*
 * Postponing a check costs one system call, far less than the check. So a consumer that polls all
 * the time postpones it to PACE_PUT_OFF from now, once every PACE_PUT_OFF_EVERY. That a consumer
 * has stopped polling is noticed within PACE_END.
 */
#define PACE_PUT_OFF       (1800 * CLOCK_NS_PER_US)
#define PACE_PUT_OFF_EVERY (1500 * CLOCK_NS_PER_US)
#define PACE_PUT_OFF_SPARE ((PACE_PUT_OFF - PACE_PUT_OFF_EVERY) / 2) /* a better moment may come */

struct pace {           /* zero to begin with */
    uint64_t poll_rate; /* polls per ms in the interval before; 0: unknown */
    uint64_t resume;    /* ns, the interval before the short one; 0: none */
    uint64_t longer;    /* ns, growth of the short interval */
};

static inline uint64_t pace_short(const struct pace *pace)
{
    return PACE_FIRST + pace->longer;
}

/*
 * The interval after one of `interval` ns that took `elapsed` ns and in which consumers polled
 * `polls` times: twice as long, up to PACE_LAST. If they polled less than half as often as in the
 * interval before, they may have stopped: then a short interval follows, which either sees no poll,
 * or continues as before. So the end of polling is noticed after at most PACE_LAST * 3 / 2 +
 * pace_short(), which is within PACE_END.
 */
static inline uint64_t pace_next(struct pace *pace, uint64_t interval, uint32_t polls,
                                 uint64_t elapsed)
{
    uint64_t rate = polls * CLOCK_NS_PER_MS / (elapsed ? elapsed : 1);
    uint64_t next = pace->resume ? pace->resume : interval * 2;
    bool slowed = rate < pace->poll_rate / 2;

    pace->poll_rate = slowed ? 0 : rate;
    pace->resume = slowed ? interval : 0;
    if (slowed)
        return pace_short(pace);
    return next < PACE_LAST ? next : PACE_LAST;
}

/* The interval after consumers postponed a check and then stopped doing so: as after fewer
 * polls. */
static inline uint64_t pace_after_put_off(struct pace *pace)
{
    uint64_t most = PACE_END - PACE_PUT_OFF;

    pace->poll_rate = 0;
    pace->resume = PACE_LAST;
    return pace_short(pace) < most ? pace_short(pace) : most;
}

/* The interval after one without a poll, and `served` ns in which the background thread served. */
static inline uint64_t pace_after_service(struct pace *pace, uint64_t served)
{
    uint64_t grown = pace_short(pace) * 2;

    if (served >= PACE_LAST)
        grown = PACE_FIRST;
    pace->longer = (grown < PACE_SHORT_MOST ? grown : PACE_SHORT_MOST) - PACE_FIRST;
    return pace_short(pace);
}

/* The interval after `served` ns of service that ended because consumers polled or took
 * completions. They count what they take in the lane some at a time, so a short interval would miss
 * them; unless they were away for long. */
static inline uint64_t pace_after_leaving(struct pace *pace, uint64_t served)
{
    pace->longer = served < PACE_LAST ? PACE_SHORT_MOST - PACE_FIRST : 0;
    return pace_short(pace);
}

#endif

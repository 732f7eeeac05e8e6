/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of lane_fake with one EVD and its pipe, for each test. */
#ifndef ITAL_TESTS_LANE_ONE_H
#define ITAL_TESTS_LANE_ONE_H

#include "lane_fake.h"

#define MS CLOCK_NS_PER_MS

static struct ual_evd *evd;
static struct lf_pipe *feed;

static inline void setup(void)
{
    lf_open(0);
    evd = lf_evd(UAL_STREAM_DTO, 64, 0);
    feed = lf_pipe(evd);
}

static inline void teardown(void)
{
    lf_pipe_close(feed);
    lf_close();
}

/* Timers that have fired, and the deadlines of the last ones. */
static atomic_uint fires;
static uint64_t order[16];

static inline void fired(struct ri_timer *timer)
{
    uint64_t now = clock_now();
    unsigned int place = atomic_load(&fires);

    if (now < timer->deadline)
        ck_abort_msg("a timer is early");
    order[place % 16] = timer->deadline;
    atomic_store(&fires, place + 1);
}

#endif

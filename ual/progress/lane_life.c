/* SPDX-License-Identifier: BSD-3-Clause
 * Opens and closes a lane. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "lane_private.h"
#include "lanes.h"
#include "status.h"

#include "base/cpus.h"
#include "base/futex.h"

#include <stdlib.h>

enum ual_status ual_lane_open(struct ual_lanes *lanes, uint32_t index, uint64_t spin_ns,
                              struct ual_lane **out)
{
    struct ual_lane *lane = calloc(1, sizeof(*lane));
    enum ual_status status;

    if (!lane)
        return UAL_ERR_NO_RESOURCES;
    lane->lanes = lanes;
    lane->epoll_fd = lane->kick_fd = lane->watch_fd = -1;
    lane->spin_ns = cpus_quota() >= 2 ? spin_ns : 0;
    atomic_init(&lane->provider_deadline, RI_NO_DEADLINE);
    atomic_init(&lane->put_off_at, CLOCK_NEVER);
    status = ual_lane_open_descriptors(lane);
    if (status != UAL_OK)
        goto close;
    status = ual_lane_start_background(lane);
    if (status != UAL_OK)
        goto close;
    /* Last, because a provider's lane cannot be closed again; the thread waits for it. */
    status = ual_status_of_kal(kal_lane_open(lanes->rnic, index, lane, &lane->provider));
    if (status != UAL_OK)
        goto stop;
    ual_lane_enlist(lane);
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    *out = lane;
    return UAL_OK;
stop:
    ual_lane_stop(lane);
close:
    ual_lane_close_descriptors(lane);
    free(lane);
    return status;
}

void ual_lane_stop(struct ual_lane *lane)
{
    atomic_store(&lane->stop, true);
    ual_lane_set_watch(lane, 1); /* a time in the past: it expires at once */
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    ual_lane_kick(lane);
    pthread_join(lane->thread, NULL);
}

void ual_lane_close(struct ual_lane *lane)
{
    ual_lane_delist(lane);
    ual_lane_free_dead_watches(lane);
    ual_lane_close_descriptors(lane);
    free(lane);
}

struct ri_lane *ual_lane_provider(struct ual_lane *lane)
{
    return lane->provider;
}

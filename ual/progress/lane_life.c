/* SPDX-License-Identifier: BSD-3-Clause
 * Opens and closes a lane. */
#include "lane_private.h"
#include "lanes.h"
#include "processors.h"

#include "base/cpus.h"
#include "base/futex.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* The thread waits for background_word until then. */
static enum ri_status pin_background(struct ual_lane *lane, unsigned int cpu)
{
    cpu_set_t set;
    int error;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    error = pthread_setaffinity_np(lane->thread, sizeof(set), &set);
    if (!error)
        return RI_OK;
    kal_log(RI_LOG_ERROR, "progress_cpus: cannot pin the progress thread to processor %u: %s", cpu,
            strerrordesc_np(error));
    return ITAL_ERR_CONFIGURATION;
}

enum ri_status ual_lane_open(struct ual_lanes *lanes, uint32_t index, uint64_t spin_ns,
                             const struct ual_processors *processors, struct ual_lane **out)
{
    struct ual_lane *lane = calloc(1, sizeof(*lane));
    enum ri_status status;

    if (!lane)
        return RI_ERR_NO_RESOURCES;
    lane->lanes = lanes;
    lane->epoll_fd = lane->kick_fd = lane->watch_fd = -1;
    lane->dedicated = processors->dedicated;
    lane->spin_ns = cpus_quota() >= 2 ? spin_ns : 0;
    atomic_init(&lane->provider_deadline, RI_NO_DEADLINE);
    atomic_init(&lane->put_off_at, CLOCK_NEVER);
    status = ual_lane_open_descriptors(lane);
    if (status != RI_OK)
        goto close;
    status = ual_lane_start_background(lane);
    if (status != RI_OK)
        goto close;
    if (processors->count)
        status = pin_background(lane, processors->cpu[index % processors->count]);
    if (status != RI_OK)
        goto stop;
    /* Last, because a provider's lane cannot be closed again; the thread waits for it. */
    status = kal_lane_open(lanes->rnic, index, lane, &lane->provider);
    if (status != RI_OK)
        goto stop;
    ual_lane_enlist(lane);
    atomic_fetch_add(&lane->background_word, 1);
    futex_wake(&lane->background_word, 1);
    *out = lane;
    return RI_OK;
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
    ual_lane_rouse_background(lane);
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

/* SPDX-License-Identifier: BSD-3-Clause
 * Devices: open and close. */
#include "memory.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A connection may end without readiness: check again. */
#define CLOSE_RETRY (20 * CLOCK_NS_PER_MS)

/* --- open --- */

static void free_device(struct device_inside *device)
{
    pthread_mutex_destroy(&device->lock);
    pthread_mutex_destroy(&device->seen_lock);
    free(device->name);
    free(device);
}

static struct device_inside *new_device(const char *interface,
                                        const struct ual_device_upcalls *upcalls, void *context)
{
    struct device_inside *device = calloc(1, sizeof(*device));

    if (!device)
        return NULL;
    device->name = strdup(interface);
    if (!device->name) {
        free(device);
        return NULL;
    }
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->seen_lock, NULL);
    for (uint32_t i = 0; i < UAL_STRIPES; i++)
        spinlock_init(&device->stripes[i].lock);
    device->device.context = context;
    device->upcalls = upcalls;
    return device;
}

enum { PROGRESS_SHARED, PROGRESS_DEDICATED }; /* the words of option progress */

static enum ri_status open_lanes(struct device_inside *device)
{
    const struct ual_progress progress = {
        .spin_ns = kal_config_ns(device->kal, "spin"),
        .dedicated = kal_config_word(device->kal, "progress") == PROGRESS_DEDICATED,
        .cpus = kal_config_value(device->kal, "progress_cpus"),
    };

    spinlock_init(&device->lanes.place_lock);
    device->lanes.rnic = device->rnic;
    device->lanes.failed = ual_device_rnic_event;
    device->lanes.context = device;
    return ual_lanes_open(&device->lanes, &progress);
}

enum ri_status ual_device_open(const char *interface, const struct ual_device_upcalls *upcalls,
                               void *context, struct ual_device **out)
{
    struct device_inside *device;
    enum ri_status status;

    if (!interface)
        return RI_ERR_INVALID_ARGUMENT;
    device = new_device(interface, upcalls, context);
    if (!device)
        return RI_ERR_NO_RESOURCES;
    status = ual_instance_get(&device->kal);
    if (status != RI_OK)
        goto free_device;
    status = kal_rnic_open(device->kal, interface, device, &device->rnic);
    if (status != RI_OK)
        goto put_instance;
    status = open_lanes(device);
    if (status != RI_OK)
        goto close_rnic;
    status = ual_handle_take(&device->device.object, UAL_DEVICE, &device->device);
    if (status != RI_OK)
        goto stop_lanes;
    ual_lanes_show(device, true);
    *out = &device->device;
    return RI_OK;
stop_lanes:
    ual_lanes_stop(&device->lanes);
close_rnic:
    kal_rnic_close(device->rnic, true);
    ual_lanes_close(&device->lanes);
put_instance:
    ual_instance_put(device->kal);
free_device:
    free_device(device);
    return status;
}

/* --- timers --- */

static struct ual_lane *lane_of_timers(const struct ual_device *device)
{
    return ual_lanes_first(ual_device_lanes(device));
}

void ual_timer_set(struct ual_device *device, struct ri_timer *timer)
{
    ual_lane_timer_set(lane_of_timers(device), timer);
}

void ual_timer_cancel(struct ual_device *device, struct ri_timer *timer)
{
    ual_lane_timer_cancel(lane_of_timers(device), timer);
}

/* --- close --- */

/* A step of the tear-down that should not fail. An object that cannot be freed stops it. */
static bool gone(const struct device_inside *device, enum ri_status status, const char *what)
{
    if (status != RI_OK)
        kal_log(RI_LOG_ERROR,
                "%s: %s cannot be freed when the interface is closed: %s; this is a defect",
                device->name, what, ital_status_name(status));
    return status == RI_OK;
}

/* Frees users before the objects that they use. */
static bool free_objects(struct device_inside *device)
{
    while (device->ahs)
        if (!gone(device, ual_ah_free(device->ahs), "an address handle"))
            return false;
    while (device->mws)
        if (!gone(device, ual_mw_free(device->mws), "a memory window"))
            return false;
    while (device->srqs)
        if (!gone(device, ual_srq_free(&device->srqs->srq), "a shared receive queue"))
            return false;
    while (device->mrs)
        if (!gone(device, ual_mr_free(&device->mrs->mr), "a memory region"))
            return false;
    while (device->pds)
        if (!gone(device, ual_pd_free(device->pds), "a protection domain"))
            return false;
    return true;
}

static uint64_t close_deadline(const struct device_inside *device)
{
    return clock_after(clock_now(), kal_rnic_option_ns(device->rnic, "close_timeout"));
}

/* Runs the lanes, with sleeps between, until the provider has closed its last connection or the
 * time is over. */
static enum ri_status wait_for_connections(struct device_inside *device)
{
    struct ual_lane *lane = ual_lanes_first(&device->lanes);
    struct ual_waiter waiter = { .thread = pthread_self() };
    uint64_t now, retry, deadline = close_deadline(device);
    enum ri_status status = RI_ERR_AGAIN;

    ual_lanes_join_begin(&device->lanes);
    ual_lane_wait_begin(lane, &waiter);
    while (status == RI_ERR_AGAIN && (now = clock_now()) < deadline) {
        retry = clock_after(now, CLOSE_RETRY);
        ual_lane_wait_reset(&waiter);
        if (ual_lane_wait_arm(lane, &waiter, NULL))
            ual_lane_wait_sleep(lane, &waiter, NULL, retry < deadline ? retry : deadline);
        ual_lanes_run_others(&device->lanes); /* their timers */
        status = kal_rnic_close(device->rnic, false);
    }
    ual_lane_wait_end(lane, &waiter);
    ual_lanes_join_end(&device->lanes);
    return status;
}

static enum ri_status close_rnic(struct device_inside *device)
{
    enum ri_status status = kal_rnic_close(device->rnic, false);

    if (status != RI_ERR_AGAIN)
        return status;
    if (atomic_load(&device->device.dead)) /* a dead device reports nothing more */
        return kal_rnic_close(device->rnic, true);
    status = wait_for_connections(device);
    if (status != RI_ERR_AGAIN)
        return status;
    kal_log(RI_LOG_WARNING,
            "%s: connections that did not close in time are reset; option close_timeout gives them "
            "longer",
            device->name);
    return kal_rnic_close(device->rnic, true);
}

bool ual_device_claim(struct ual_device *device)
{
    return ual_handle_close_device(device);
}

void ual_device_drain(struct ual_device *device)
{
    ual_calls_drain();
    ual_handle_drop(&device->object);
}

enum ri_status ual_device_close(struct ual_device *public)
{
    struct device_inside *device = device_inside(public);
    enum ri_status status;

    if (atomic_load(&device->users))
        return RI_ERR_BUSY;
    ual_async_end(public);
    if (!free_objects(device))
        return RI_ERR_BUSY;
    ual_lanes_show(device, false);
    ual_lanes_stop(&device->lanes);
    status = close_rnic(device);
    if (!gone(device, status, "the device"))
        return status;
    ual_lanes_close(&device->lanes);
    ual_instance_put(device->kal);
    free_device(device);
    return RI_OK;
}

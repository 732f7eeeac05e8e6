/* SPDX-License-Identifier: BSD-3-Clause
 * Interface adapters: open, tear-down, attributes, asynchronous events that belong to no endpoint. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "ual/policy/connect.h"
#include "ual/progress/lanes.h"
#include "memory.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A connection may end without readiness: look again. */
#define CLOSE_RETRY (20 * CLOCK_NS_PER_MS)

/* --- open --- */

static void free_ia(struct ual_device *device)
{
    pthread_mutex_destroy(&device->lock);
    free(device->name);
    free(device);
}

enum ual_status ual_ia_open(const char *interface, struct ual_device **out)
{
    enum ual_status status;
    uint64_t spin_ns;
    struct ual_device *device;

    if (!interface)
        return UAL_ERR_INVALID_ARGUMENT;
    device = calloc(1, sizeof(*device));
    if (!device)
        return UAL_ERR_NO_RESOURCES;
    pthread_mutex_init(&device->lock, NULL);
    for (uint32_t i = 0; i < UAL_STRIPES; i++)
        spinlock_init(&device->stripes[i].lock);
    device->reaper.expired = ual_request_reap;
    device->name = strdup(interface);
    status = device->name ? ual_instance_get(&device->kal) : UAL_ERR_NO_RESOURCES;
    if (status != UAL_OK)
        goto free_ia;
    status = ual_status_of_kal(kal_rnic_open(device->kal, interface, device, &device->rnic));
    if (status != UAL_OK)
        goto put_instance;
    spin_ns = kal_config_ns(device->kal, "spin");
    status = ual_lanes_open(device, spin_ns);
    if (status != UAL_OK)
        goto close_rnic;
    status = ual_handle_take(&device->object, UAL_DEVICE, device);
    if (status != UAL_OK)
        goto stop_lanes;
    *out = device;
    return UAL_OK;
stop_lanes:
    ual_lanes_stop(device);
close_rnic:
    kal_rnic_close(device->rnic, true);
    ual_lanes_close(device);
put_instance:
    ual_instance_put(device->kal);
free_ia:
    free_ia(device);
    return status;
}

/* --- close --- */

/* A step of the tear-down that should not fail. What cannot be freed stops it. */
static bool gone(const struct ual_device *device, enum ual_status status, const char *what)
{
    if (status != UAL_OK)
        kal_log(RI_LOG_ERROR,
                "%s: %s cannot be freed when the interface is closed: %s; this is a defect",
                device->name, what, ual_status_name(status));
    return status == UAL_OK;
}

/*
 * Whatever the consumer left open, users before what they use: no new requests, then undecided ones, endpoints (open
 * connections go on closing in the background), UD requests, address handles, windows, regions, shared receive queues, EVDs after their waiters left,
 * zones.
 */
static bool free_objects(struct ual_device *device)
{
    while (device->listens)
        if (!gone(device, ual_listen_free(device->listens), "a listen point"))
            return false;
    ual_request_destroy_all(device);
    while (device->eps)
        if (!gone(device, ual_ep_free(&device->eps->ep), "an endpoint"))
            return false;
    while (device->ud_requests)
        if (!gone(device, ual_ud_request_free((struct ual_ud_request *)device->ud_requests),
                  "a UD request"))
            return false;
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
    while (device->evds) {
        ual_evd_abort(device->evds);
        if (!gone(device, ual_evd_free(device->evds), "an EVD"))
            return false;
    }
    while (device->pzs)
        if (!gone(device, ual_pd_free(device->pzs), "a protection zone"))
            return false;
    return true;
}

static uint64_t close_deadline(const struct ual_device *device)
{
    return clock_after(clock_now(), kal_rnic_option_ns(device->rnic, "close_timeout"));
}

/* Run the lanes, asleep in between, until the provider has closed its last connection or time is up. */
static enum kal_status close_rnic(struct ual_device *device)
{
    enum kal_status status = kal_rnic_close(device->rnic, false);
    uint64_t now, retry, deadline;
    struct ual_waiter waiter = { .thread = pthread_self() };

    if (status != KAL_ERR_AGAIN)
        return status;
    if (atomic_load(&device->dead)) /* nothing more comes of it */
        return kal_rnic_close(device->rnic, true);
    deadline = close_deadline(device);
    ual_lanes_join_begin(device);
    ual_lane_wait_begin(device->lane, &waiter);
    while (status == KAL_ERR_AGAIN && (now = clock_now()) < deadline) {
        retry = clock_after(now, CLOSE_RETRY);
        ual_lane_wait_reset(&waiter);
        if (ual_lane_wait_arm(device->lane, &waiter, NULL))
            ual_lane_wait_sleep(device->lane, &waiter, NULL, retry < deadline ? retry : deadline);
        ual_lanes_run_others(device); /* their timers */
        status = kal_rnic_close(device->rnic, false);
    }
    ual_lane_wait_end(device->lane, &waiter);
    ual_lanes_join_end(device);
    if (status != KAL_ERR_AGAIN)
        return status;
    kal_log(RI_LOG_WARNING,
            "%s: connections that did not close in time are reset; option close_timeout gives them "
            "longer",
            device->name);
    return kal_rnic_close(device->rnic, true);
}

static enum ual_status close_claimed(struct ual_device *device)
{
    enum ual_status status;

    ual_calls_settle();
    ual_handle_drop(&device->object);
    if (!free_objects(device))
        return UAL_ERR_BUSY;
    ual_lanes_stop(device);
    ual_lane_timer_cancel(device->lane, &device->reaper);
    status = ual_status_of_kal(close_rnic(device));
    if (!gone(device, status, "the device"))
        return status;
    ual_lanes_close(device);
    ual_instance_put(device->kal);
    free_ia(device);
    return UAL_OK;
}

enum ual_status ual_ia_close(struct ual_device *device)
{
    return ual_handle_close_device(device) ? close_claimed(device) : UAL_ERR_INVALID_HANDLE;
}

/* This thread leaves its own call first: two that close two IAs would wait for each other. */
enum ual_status ual_ia_close_on(ual_handle handle)
{
    struct ual_device *device;
    bool claimed;

    ual_call_begin();
    device = ual_lookup(handle, UAL_DEVICE);
    claimed = device && ual_handle_close_device(device);
    ual_call_end();
    return claimed ? close_claimed(device) : ual_lookup_failed();
}

/* --- attributes --- */

const struct ri_rnic_attr *ual_device_attr(const struct ual_device *device)
{
    return kal_rnic_attr(device->rnic);
}

const char *ual_device_name(const struct ual_device *device)
{
    return device->name;
}

const char *ual_device_provider(const struct ual_device *device)
{
    return kal_rnic_provider(device->rnic);
}

const char *ual_device_option(const struct ual_device *device, const char *name)
{
    return kal_rnic_option(device->rnic, name);
}

enum ual_status ual_device_port(struct ual_device *device, struct ri_port_attr *attr)
{
    enum ual_status status = ual_device_alive(device);

    if (status != UAL_OK)
        return status;
    if (attr->port >= ual_device_attr(device)->ports)
        return UAL_ERR_INVALID_ARGUMENT;
    return ual_status_of_kal(kal_rnic_port(device->rnic, attr));
}

enum ual_status ual_device_route(struct ual_device *device, uint32_t port, const struct sockaddr *destination,
                             struct sockaddr_storage *source)
{
    enum ual_status status = ual_device_alive(device);

    if (status != UAL_OK)
        return status;
    if (!destination || port >= ual_device_attr(device)->ports)
        return UAL_ERR_INVALID_ARGUMENT;
    return ual_status_of_kal(kal_route(device->rnic, port, destination, source));
}

static ual_handle async_handle(const struct ual_device *device, struct ual_evd *const *place)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&device->lock;
    ual_handle handle;

    pthread_mutex_lock(lock);
    handle = *place ? ual_handle_of(*place) : 0;
    pthread_mutex_unlock(lock);
    return handle;
}

ual_handle ual_ia_affiliated(const struct ual_device *device)
{
    return async_handle(device, &device->affiliated);
}

ual_handle ual_ia_unaffiliated(const struct ual_device *device)
{
    return async_handle(device, &device->unaffiliated);
}

enum ual_status ual_counters(struct ual_object *object, const char **names, uint64_t *values,
                             size_t *count)
{
    enum ual_status status = ual_device_alive(object->device);

    if (status != UAL_OK)
        return status;
    switch (object->type) {
    case UAL_DEVICE:
        return ual_status_of_kal(kal_rnic_counters(object->device->rnic, names, values, count));
    case UAL_EP:
    case UAL_UD_EP:
        return ual_status_of_kal(
            kal_qp_counters(object->device->rnic, ((struct ual_ep *)object)->qp, names, values, count));
    default: return UAL_ERR_NOT_SUPPORTED;
    }
}

/* --- asynchronous events --- */

void ual_ia_affiliated_event(struct ual_device *device, const struct ri_event *report, ual_handle cause)
{
    struct ual_event event = {
        .stream = UAL_STREAM_AFFILIATED,
        .async = { .type = report->type, .cause = cause, .terminate_code = report->terminate_code },
    };

    pthread_mutex_lock(&device->lock);
    if (device->affiliated)
        ual_evd_push_reserved(device->affiliated, &event);
    pthread_mutex_unlock(&device->lock);
}

void ual_ia_rnic_event(void *rnic_context, const struct ri_event *event)
{
    struct ual_device *device = rnic_context;
    struct ual_event report = {
        .stream = UAL_STREAM_UNAFFILIATED,
        .async = { .type = event->type, .port = event->port },
    };

    if (event->type == RI_EVENT_RNIC_FATAL) {
        if (atomic_exchange(&device->dead, true))
            return;
        kal_log(RI_LOG_ERROR,
                "%s: the device has failed: %s; close the interface and open it again", device->name,
                event->detail ? event->detail : "no details");
        ual_evd_all_dead(device);
        return;
    }
    pthread_mutex_lock(&device->lock);
    if (device->unaffiliated)
        ual_evd_push_reserved(device->unaffiliated, &report);
    pthread_mutex_unlock(&device->lock);
}

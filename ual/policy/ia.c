/* SPDX-License-Identifier: BSD-3-Clause
 * Interface adapters: open, tear-down, counters. */
#include "callback.h"
#include "connect.h"

#include <stdlib.h>

static void fork_lock(void)
{
    ual_request_fork_lock();
    ual_evd_fork_lock();
}

static void fork_unlock(bool child)
{
    ual_evd_fork_unlock(child);
    if (child)
        callback_forked();
    ual_request_fork_unlock();
}

static const struct ual_fork_hooks fork_hooks = { .lock = fork_lock, .unlock = fork_unlock };

static void free_ia(struct ual_ia *ia)
{
    pthread_mutex_destroy(&ia->lock);
    free(ia);
}

enum ri_status ual_ia_open(const char *interface, struct ual_device **device)
{
    enum ri_status status = ual_fork_hold(&fork_hooks);
    struct ual_ia *ia;

    if (status != RI_OK)
        return status;
    ia = calloc(1, sizeof(*ia));
    if (!ia)
        return RI_ERR_NO_RESOURCES;
    mutex_init(&ia->lock);
    ia->reaper.expired = ual_request_reap;
    status = ual_device_open(interface, &ual_ia_upcalls, ia, &ia->device);
    if (status != RI_OK) {
        free_ia(ia);
        return status;
    }
    *device = ia->device;
    return RI_OK;
}

/* A step of the tear-down that should not fail. What cannot be freed stops it. */
static bool gone(const struct ual_ia *ia, enum ri_status status, const char *what)
{
    if (status != RI_OK)
        kal_log(RI_LOG_ERROR,
                "%s: %s cannot be freed when the interface is closed: %s; this is a defect",
                ual_device_name(ia->device), what, ital_status_name(status));
    return status == RI_OK;
}

/*
 * Whatever the consumer left open, users before what they use: no new requests, then undecided
 * ones, endpoints (open connections go on closing in the background), UD requests, EVDs after their
 * waiters left. The rest is the device's.
 */
static bool free_objects(struct ual_ia *ia)
{
    while (ia->listens)
        if (!gone(ia, ual_listen_free(ia->listens), "a listen point"))
            return false;
    ual_request_destroy_all(ia);
    while (ia->eps)
        if (!gone(ia, ual_ep_free(&ia->eps->ep), "an endpoint"))
            return false;
    while (ia->ud_requests)
        if (!gone(ia, ual_ud_request_free(ual_ud_first(ia)), "a UD request"))
            return false;
    return gone(ia, ual_evd_free_all(ia), "an EVD");
}

static enum ri_status close_shut(struct ual_ia *ia)
{
    enum ri_status status;

    if (!free_objects(ia))
        return RI_ERR_BUSY;
    ual_lane_timer_cancel(ual_ia_lane(ia), &ia->reaper);
    status = ual_device_close(ia->device);
    if (status == RI_OK)
        free_ia(ia);
    return status;
}

enum ri_status ual_ia_close(struct ual_device *device)
{
    struct ual_ia *ia = ual_ia_of(device);

    if (!ual_device_claim(device))
        return ITAL_ERR_INVALID_HANDLE;
    ual_device_drain(device);
    return close_shut(ia);
}

/* This thread leaves its own call first: two that close two IAs would wait for each other. */
enum ri_status ual_ia_close_on(ual_handle handle)
{
    struct ual_device *device;
    struct ual_ia *ia = NULL;

    ual_call_begin();
    device = ual_lookup(handle, UAL_DEVICE);
    if (device && ual_device_claim(device))
        ia = ual_ia_of(device);
    ual_call_end();
    if (!ia)
        return ual_lookup_failed();
    ual_device_drain(ia->device);
    return close_shut(ia);
}

static ual_handle async_handle(struct ual_ia *ia, struct ual_evd *const *place)
{
    ual_handle handle;

    pthread_mutex_lock(&ia->lock);
    handle = *place ? ual_handle_of(*place) : 0;
    pthread_mutex_unlock(&ia->lock);
    return handle;
}

ual_handle ual_ia_affiliated(const struct ual_device *device)
{
    return async_handle(ual_ia_of(device), &ual_ia_of(device)->affiliated);
}

ual_handle ual_ia_unaffiliated(const struct ual_device *device)
{
    return async_handle(ual_ia_of(device), &ual_ia_of(device)->unaffiliated);
}

enum ri_status ual_counters(struct ual_object *object, const char **names, uint64_t *values,
                            size_t *count)
{
    if (object->type == UAL_DEVICE)
        return ual_device_counters(object->device, names, values, count);
    if (object->type == UAL_EP || object->type == UAL_UD_EP)
        return ual_qp_counters(&((struct ual_ep *)object)->qp, names, values, count);
    return ual_device_alive(object->device) == RI_OK ? RI_ERR_NOT_SUPPORTED : RI_ERR_DEVICE;
}

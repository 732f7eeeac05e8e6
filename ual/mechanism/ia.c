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

static void free_ia(struct ual_ia *ia)
{
    pthread_mutex_destroy(&ia->lock);
    free(ia->name);
    free(ia);
}

enum ual_status ual_ia_open(const char *interface, struct ual_ia **out)
{
    enum ual_status status;
    uint64_t spin_ns;
    struct ual_ia *ia;

    if (!interface)
        return UAL_ERR_INVALID_ARGUMENT;
    ia = calloc(1, sizeof(*ia));
    if (!ia)
        return UAL_ERR_NO_RESOURCES;
    pthread_mutex_init(&ia->lock, NULL);
    for (uint32_t i = 0; i < UAL_STRIPES; i++)
        spinlock_init(&ia->stripes[i].lock);
    ia->reaper.expired = ual_request_reap;
    ia->name = strdup(interface);
    status = ia->name ? ual_instance_get(&ia->kal) : UAL_ERR_NO_RESOURCES;
    if (status != UAL_OK)
        goto free_ia;
    status = ual_status_of_kal(kal_rnic_open(ia->kal, interface, ia, &ia->rnic));
    if (status != UAL_OK)
        goto put_instance;
    spin_ns = kal_config_ns(ia->kal, "spin");
    status = ual_lanes_open(ia, spin_ns);
    if (status != UAL_OK)
        goto close_rnic;
    status = ual_handle_take(&ia->object, UAL_IA, ia);
    if (status != UAL_OK)
        goto stop_lanes;
    *out = ia;
    return UAL_OK;
stop_lanes:
    ual_lanes_stop(ia);
close_rnic:
    kal_rnic_close(ia->rnic, true);
    ual_lanes_close(ia);
put_instance:
    ual_instance_put(ia->kal);
free_ia:
    free_ia(ia);
    return status;
}

/* --- close --- */

/* A step of the tear-down that should not fail. What cannot be freed stops it. */
static bool gone(const struct ual_ia *ia, enum ual_status status, const char *what)
{
    if (status != UAL_OK)
        kal_log(RI_LOG_ERROR,
                "%s: %s cannot be freed when the interface is closed: %s; this is a defect",
                ia->name, what, ual_status_name(status));
    return status == UAL_OK;
}

/*
 * Whatever the consumer left open, users before what they use: no new requests, then undecided ones, endpoints (open
 * connections go on closing in the background), UD requests, address handles, windows, regions, shared receive queues, EVDs after their waiters left,
 * zones.
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
        if (!gone(ia, ual_ud_request_free((struct ual_ud_request *)ia->ud_requests),
                  "a UD request"))
            return false;
    while (ia->ahs)
        if (!gone(ia, ual_ah_free(ia->ahs), "an address handle"))
            return false;
    while (ia->mws)
        if (!gone(ia, ual_mw_free(ia->mws), "a memory window"))
            return false;
    while (ia->srqs)
        if (!gone(ia, ual_srq_free(&ia->srqs->srq), "a shared receive queue"))
            return false;
    while (ia->mrs)
        if (!gone(ia, ual_mr_free(&ia->mrs->mr), "a memory region"))
            return false;
    while (ia->evds) {
        ual_evd_abort(ia->evds);
        if (!gone(ia, ual_evd_free(ia->evds), "an EVD"))
            return false;
    }
    while (ia->pzs)
        if (!gone(ia, ual_pz_free(ia->pzs), "a protection zone"))
            return false;
    return true;
}

static uint64_t close_deadline(const struct ual_ia *ia)
{
    return clock_after(clock_now(), kal_rnic_option_ns(ia->rnic, "close_timeout"));
}

/* Run the lanes, asleep in between, until the provider has closed its last connection or time is up. */
static enum kal_status close_rnic(struct ual_ia *ia)
{
    enum kal_status status = kal_rnic_close(ia->rnic, false);
    uint64_t now, retry, deadline;
    struct ual_waiter waiter = { .thread = pthread_self() };

    if (status != KAL_ERR_AGAIN)
        return status;
    if (atomic_load(&ia->dead)) /* nothing more comes of it */
        return kal_rnic_close(ia->rnic, true);
    deadline = close_deadline(ia);
    ual_lanes_join_begin(ia);
    ual_lane_wait_begin(ia->lane, &waiter);
    while (status == KAL_ERR_AGAIN && (now = clock_now()) < deadline) {
        retry = clock_after(now, CLOSE_RETRY);
        ual_lane_wait_reset(&waiter);
        if (ual_lane_wait_arm(ia->lane, &waiter, NULL))
            ual_lane_wait_sleep(ia->lane, &waiter, NULL, retry < deadline ? retry : deadline);
        ual_lanes_run_others(ia); /* their timers */
        status = kal_rnic_close(ia->rnic, false);
    }
    ual_lane_wait_end(ia->lane, &waiter);
    ual_lanes_join_end(ia);
    if (status != KAL_ERR_AGAIN)
        return status;
    kal_log(RI_LOG_WARNING,
            "%s: connections that did not close in time are reset; option close_timeout gives them "
            "longer",
            ia->name);
    return kal_rnic_close(ia->rnic, true);
}

static enum ual_status close_claimed(struct ual_ia *ia)
{
    enum ual_status status;

    ual_calls_settle();
    ual_handle_drop(&ia->object);
    if (!free_objects(ia))
        return UAL_ERR_BUSY;
    ual_lanes_stop(ia);
    ual_lane_timer_cancel(ia->lane, &ia->reaper);
    status = ual_status_of_kal(close_rnic(ia));
    if (!gone(ia, status, "the device"))
        return status;
    ual_lanes_close(ia);
    ual_instance_put(ia->kal);
    free_ia(ia);
    return UAL_OK;
}

enum ual_status ual_ia_close(struct ual_ia *ia)
{
    return ual_handle_close_ia(ia) ? close_claimed(ia) : UAL_ERR_INVALID_HANDLE;
}

/* This thread leaves its own call first: two that close two IAs would wait for each other. */
enum ual_status ual_ia_close_on(ual_handle handle)
{
    struct ual_ia *ia;
    bool claimed;

    ual_call_begin();
    ia = ual_lookup(handle, UAL_IA);
    claimed = ia && ual_handle_close_ia(ia);
    ual_call_end();
    return claimed ? close_claimed(ia) : ual_lookup_failed();
}

/* --- attributes --- */

const struct ri_rnic_attr *ual_ia_attr(const struct ual_ia *ia)
{
    return kal_rnic_attr(ia->rnic);
}

const char *ual_ia_name(const struct ual_ia *ia)
{
    return ia->name;
}

const char *ual_ia_provider(const struct ual_ia *ia)
{
    return kal_rnic_provider(ia->rnic);
}

const char *ual_ia_option(const struct ual_ia *ia, const char *name)
{
    return kal_rnic_option(ia->rnic, name);
}

enum ual_status ual_ia_port(struct ual_ia *ia, struct ri_port_attr *attr)
{
    enum ual_status status = ual_ia_alive(ia);

    if (status != UAL_OK)
        return status;
    if (attr->port >= ual_ia_attr(ia)->ports)
        return UAL_ERR_INVALID_ARGUMENT;
    return ual_status_of_kal(kal_rnic_port(ia->rnic, attr));
}

enum ual_status ual_ia_route(struct ual_ia *ia, uint32_t port, const struct sockaddr *destination,
                             struct sockaddr_storage *source)
{
    enum ual_status status = ual_ia_alive(ia);

    if (status != UAL_OK)
        return status;
    if (!destination || port >= ual_ia_attr(ia)->ports)
        return UAL_ERR_INVALID_ARGUMENT;
    return ual_status_of_kal(kal_route(ia->rnic, port, destination, source));
}

static ual_handle async_handle(const struct ual_ia *ia, struct ual_evd *const *place)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&ia->lock;
    ual_handle handle;

    pthread_mutex_lock(lock);
    handle = *place ? ual_handle_of(*place) : 0;
    pthread_mutex_unlock(lock);
    return handle;
}

ual_handle ual_ia_affiliated(const struct ual_ia *ia)
{
    return async_handle(ia, &ia->affiliated);
}

ual_handle ual_ia_unaffiliated(const struct ual_ia *ia)
{
    return async_handle(ia, &ia->unaffiliated);
}

enum ual_status ual_counters(struct ual_object *object, const char **names, uint64_t *values,
                             size_t *count)
{
    enum ual_status status = ual_ia_alive(object->ia);

    if (status != UAL_OK)
        return status;
    switch (object->type) {
    case UAL_IA:
        return ual_status_of_kal(kal_rnic_counters(object->ia->rnic, names, values, count));
    case UAL_EP:
    case UAL_UD_EP:
        return ual_status_of_kal(
            kal_qp_counters(object->ia->rnic, ((struct ual_ep *)object)->qp, names, values, count));
    default: return UAL_ERR_NOT_SUPPORTED;
    }
}

/* --- asynchronous events --- */

void ual_ia_affiliated_event(struct ual_ia *ia, const struct ri_event *report, ual_handle cause)
{
    struct ual_event event = {
        .stream = UAL_STREAM_AFFILIATED,
        .async = { .type = report->type, .cause = cause, .terminate_code = report->terminate_code },
    };

    pthread_mutex_lock(&ia->lock);
    if (ia->affiliated)
        ual_evd_push_reserved(ia->affiliated, &event);
    pthread_mutex_unlock(&ia->lock);
}

void ual_ia_rnic_event(void *rnic_context, const struct ri_event *event)
{
    struct ual_ia *ia = rnic_context;
    struct ual_event report = {
        .stream = UAL_STREAM_UNAFFILIATED,
        .async = { .type = event->type, .port = event->port },
    };

    if (event->type == RI_EVENT_RNIC_FATAL) {
        if (atomic_exchange(&ia->dead, true))
            return;
        kal_log(RI_LOG_ERROR,
                "%s: the device has failed: %s; close the interface and open it again", ia->name,
                event->detail ? event->detail : "no details");
        ual_evd_all_dead(ia);
        return;
    }
    pthread_mutex_lock(&ia->lock);
    if (ia->unaffiliated)
        ual_evd_push_reserved(ia->unaffiliated, &report);
    pthread_mutex_unlock(&ia->lock);
}

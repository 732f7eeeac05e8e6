/* SPDX-License-Identifier: BSD-3-Clause
 * Asynchronous events that a device reports to its IA. */
#include "evd.h"

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

static void unaffiliated_event(struct ual_ia *ia, const struct ri_event *report)
{
    struct ual_event event = {
        .stream = UAL_STREAM_UNAFFILIATED,
        .async = { .type = report->type, .port = report->port },
    };

    pthread_mutex_lock(&ia->lock);
    if (ia->unaffiliated)
        ual_evd_push_reserved(ia->unaffiliated, &event);
    pthread_mutex_unlock(&ia->lock);
}

/* IT-API has no event of GIDs or addresses: it_ia_query tells those of now. */
static bool is_reported(enum ri_event_type type)
{
    return type != RI_EVENT_GID_CHANGE && type != RI_EVENT_ADDRESS_CHANGE;
}

static void async_event(void *context, const struct ri_event *event, const struct ual_object *about)
{
    struct ual_ia *ia = context;

    if (about)
        ual_ia_affiliated_event(ia, event, about->handle);
    else if (event->type == RI_EVENT_RNIC_FATAL || event->type == RI_EVENT_DEVICE_GONE)
        ual_evd_all_dead(ia);
    else if (is_reported(event->type))
        unaffiliated_event(ia, event);
}

static void forget(void *context, ual_handle handle)
{
    struct ual_ia *ia = context;

    pthread_mutex_lock(&ia->lock);
    if (ia->affiliated)
        ual_evd_purge(ia->affiliated, handle);
    pthread_mutex_unlock(&ia->lock);
}

const struct ual_device_upcalls ual_ia_upcalls = { .async = async_event, .forget = forget };

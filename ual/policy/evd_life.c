/* SPDX-License-Identifier: BSD-3-Clause
 * Event dispatcher: life of EVDs, and of the CQ of one that is a CQ. */
#include "aevd.h"
#include "callback.h"

#include <stdlib.h>
#include <utlist.h>

#define LIST_SIZE_MAX (1u << 20)

void ual_evd_bind(struct ual_evd *evd, uint32_t lane)
{
    atomic_fetch_add(&evd->bound, 1);
    if (!evd->cq) /* a CQ counts its own QPs */
        feed_add(&evd->feed, lane);
}

/* The EVD may be gone as soon as it is not bound. */
void ual_evd_unbind(struct ual_evd *evd, uint32_t lane)
{
    if (!evd->cq)
        feed_remove(&evd->feed, lane);
    atomic_fetch_sub(&evd->bound, 1);
}

const struct feed *ual_evd_feed(const struct ual_evd *evd)
{
    return &evd->feed;
}

bool ual_evd_bound(const struct ual_evd *evd)
{
    return evd->stream == UAL_STREAM_AFFILIATED || evd->stream == UAL_STREAM_UNAFFILIATED ||
           atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

struct ual_cq *ual_evd_cq(const struct ual_evd *evd)
{
    return evd->cq;
}

int ual_evd_fd(const struct ual_evd *evd)
{
    return evd->notifier.fd;
}

enum ual_stream ual_evd_stream(const struct ual_evd *evd)
{
    return evd->stream;
}

uint32_t ual_evd_size(const struct ual_evd *evd)
{
    return atomic_load_explicit(&evd->size, memory_order_relaxed);
}

uint32_t ual_evd_threshold(const struct ual_evd *evd)
{
    return atomic_load_explicit(&evd->threshold, memory_order_relaxed);
}

bool ual_evd_enabled(const struct ual_evd *evd)
{
    return !notifier_is_muted(&evd->notifier);
}

void ual_evd_all_dead(struct ual_ia *ia)
{
    struct ual_evd *evd;

    pthread_mutex_lock(&ia->lock);
    DL_FOREACH (ia->evds, evd)
        notifier_raise_for_all(&evd->notifier);
    pthread_mutex_unlock(&ia->lock);
}

void ual_evd_abort(struct ual_evd *evd)
{
    waiters_abort(&evd->notifier.waiters);
}

/* --- a CQ --- */

/* Upcall. A CQ that was armed for the n-th completion may have fired with too few that notify. One
 * that does not notify is armed again when it does. */
static void fired(void *context)
{
    struct ual_evd *evd = context;

    if (notifier_is_muted(&evd->notifier))
        return;
    if (evd_wanted(evd) == 1 || evd_is_reached(evd) || ual_evd_notify_again(evd))
        notifier_raise(&evd->notifier);
}

static enum ri_status open_cq(struct ual_evd *evd)
{
    struct ual_cq_attr attr = {
        .depth = evd->size,
        .fired = fired,
        .error = evd_cq_failed,
        .context = evd,
        .feed = &evd->feed,
        .criteria = true,
    };
    enum ri_status status = ual_cq_create(evd->object.device, &attr, &evd->cq);

    if (status == RI_OK)
        evd->size = evd->cq->depth;
    return status;
}

/* --- life --- */

/* Where the EVD of this stream is, of which the IA has one at most; ia->lock guards it. NULL: the
 * stream is none of the asynchronous ones. */
static struct ual_evd **async_place(struct ual_ia *ia, enum ual_stream stream)
{
    return stream == UAL_STREAM_AFFILIATED     ? &ia->affiliated
           : stream == UAL_STREAM_UNAFFILIATED ? &ia->unaffiliated
                                               : NULL;
}

/* A thread that reports an overflow holds async_lock only. */
static void set_place(struct ual_ia *ia, struct ual_evd **place, struct ual_evd *evd)
{
    spinlock_lock(&ia->async_lock);
    *place = evd;
    spinlock_unlock(&ia->async_lock);
}

static enum ri_status enlist(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_evd **place = async_place(ia, evd->stream);
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&ia->lock);
    if (place && *place)
        status = ITAL_ERR_EXISTS;
    else if (place)
        set_place(ia, place, evd);
    if (status == RI_OK)
        DL_APPEND(ia->evds, evd);
    pthread_mutex_unlock(&ia->lock);
    return status;
}

static void delist(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_evd **place = async_place(ia, evd->stream);

    pthread_mutex_lock(&ia->lock);
    if (place)
        set_place(ia, place, NULL);
    DL_DELETE(ia->evds, evd);
    pthread_mutex_unlock(&ia->lock);
}

/* Opens what it takes events from. */
static enum ri_status open_source(struct ual_evd *evd, const struct ual_evd_attr *attr)
{
    enum ri_status status;

    evd->take = ual_evd_take_listed;
    if (attr->stream == UAL_STREAM_DTO)
        return open_cq(evd);
    if (attr->stream == UAL_STREAM_NOTIFICATION)
        return aevd_open(evd, attr->flags & UAL_EVD_NOTIFICATIONS);
    status = evd_spares_open(evd, attr->size);
    if (status != RI_OK)
        evd_spares_close(evd);
    return status;
}

static enum ri_status close_source(struct ual_evd *evd)
{
    enum ri_status status = evd->cq ? ual_cq_free(evd->cq) : RI_OK;

    if (status != RI_OK)
        return status;
    aevd_close(evd);
    evd_spares_close(evd);
    return RI_OK;
}

bool evd_size_fits(const struct ual_device *device, enum ual_stream stream, uint32_t size)
{
    return size <= (stream == UAL_STREAM_DTO ? ual_device_attr(device)->max_cqe : LIST_SIZE_MAX);
}

static enum ri_status check_attr(struct ual_device *device, const struct ual_evd_attr *attr)
{
    const uint32_t known = UAL_EVD_FD | UAL_EVD_OVERFLOW_FLAGS;

    if (attr->stream == UAL_STREAM_NOTIFICATION)
        return attr->aggregate || (attr->flags & UAL_EVD_OVERFLOW_FLAGS) ? RI_ERR_INVALID_ARGUMENT
                                                                         : RI_OK;
    if (attr->size == 0 || attr->threshold > attr->size || (attr->flags & ~known) ||
        !evd_overflow_flags_fit(attr->stream, attr->flags))
        return RI_ERR_INVALID_ARGUMENT;
    return evd_size_fits(device, attr->stream, attr->size) ? RI_OK : RI_ERR_LIMIT;
}

enum ri_status ual_evd_create(struct ual_device *device, const struct ual_evd_attr *attr,
                              struct ual_evd **out)
{
    enum ri_status status = check_attr(device, attr);
    struct ual_evd *evd;

    if (status != RI_OK)
        return status;
    evd = calloc(1, sizeof(*evd));
    if (!evd)
        return RI_ERR_NO_RESOURCES;
    evd->stream = attr->stream;
    evd->size = attr->size;
    evd->threshold = attr->stream == UAL_STREAM_NOTIFICATION ? 0 : attr->threshold;
    evd->overflow_flags = attr->flags & UAL_EVD_OVERFLOW_FLAGS;
    pthread_mutex_init(&evd->modify_lock, NULL);
    evd->object.device = device;
    evd_index_init(&evd->index);
    status = feed_open(&evd->feed, ual_device_lanes(device),
                       attr->stream != UAL_STREAM_DTO && attr->stream != UAL_STREAM_NOTIFICATION);
    if (status != RI_OK)
        goto free_evd;
    status = notifier_open(&evd->notifier, &evd->feed, attr->flags & UAL_EVD_FD);
    if (status != RI_OK)
        goto close_feed;
    status = open_source(evd, attr);
    if (status != RI_OK)
        goto close_notifier;
    status = ual_handle_take(&evd->object, UAL_EVD, device);
    if (status != RI_OK)
        goto close_source;
    if (attr->aggregate)
        status = ual_evd_set_aggregate(evd, attr->aggregate);
    if (status != RI_OK)
        goto drop_handle;
    status = enlist(evd); /* last: events may be queued from here on */
    if (status != RI_OK)
        goto leave_aggregate;
    if (evd->notifier.fd >= 0)
        ual_evd_arm(evd);
    *out = evd;
    return RI_OK;
leave_aggregate:
    aevd_detach(evd);
drop_handle:
    ual_handle_drop(&evd->object);
close_source:
    close_source(evd);
close_notifier:
    notifier_close(&evd->notifier);
close_feed:
    feed_close(&evd->feed);
free_evd:
    free(evd);
    return status;
}

bool ual_evd_is_busy(struct ual_evd *evd)
{
    return atomic_load(&evd->bound) || waiters_any(&evd->notifier.waiters);
}

/* Detaches its callback and its aggregate: afterwards nobody takes from it but the caller. */
static void leave_observers(struct ual_evd *evd)
{
    struct ual_callback *running = NULL;

    ual_evd_callback_detach(evd, &running);
    ual_callback_drain(running);
    aevd_detach(evd);
}

/* A wait that found the EVD before its handle was hidden returns ITAL_ERR_ABORTED. If the provider
 * refuses to destroy the CQ the EVD stays, without aggregate and callback. */
enum ri_status ual_evd_free(struct ual_evd *evd)
{
    enum ri_status status;
    struct node *node, *next;

    if (ual_evd_is_busy(evd))
        return RI_ERR_BUSY;
    ual_handle_hide(&evd->object);
    ual_evd_drain_waits();
    waiters_abort(&evd->notifier.waiters);
    leave_observers(evd);
    status = close_source(evd);
    if (status != RI_OK) {
        waiters_reopen(&evd->notifier.waiters);
        ual_handle_show(&evd->object);
        return status;
    }
    ual_handle_drop(&evd->object);
    delist(evd);
    notifier_close(&evd->notifier);
    feed_close(&evd->feed);
    DL_FOREACH_SAFE (evd->queue, node, next)
        free(node);
    evd_index_end(&evd->index);
    free(evd);
    return RI_OK;
}

enum ri_status ual_evd_free_all(struct ual_ia *ia)
{
    enum ri_status status = RI_OK;
    struct ual_evd *evd;

    DL_FOREACH (ia->evds, evd)
        ual_evd_abort(evd);
    callbacks_end(ia);
    DL_FOREACH (ia->evds, evd)
        aevd_detach(evd);
    while (ia->evds && status == RI_OK)
        status = ual_evd_free(ia->evds);
    return status;
}

/* 0 also where the EVD was freed: the device is not known then. */
ual_handle ual_event_memory(const struct ual_event *event)
{
    const struct ual_object *evd = ual_lookup(event->evd, UAL_EVD);

    return evd ? ual_memory_of(evd->device, &event->wc) : 0;
}

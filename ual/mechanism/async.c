/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Asynchronous events of a device: reported to its upcall, or to the channel that requested them.
 *
 * The item of an event is allocated. Errors come when memory is short, so a device whose events go
 * to a channel has spare items; a used one is returned when its event was taken.
 */
#include "mechanism_private.h"

#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

#define SPARES 16u

/* --- items --- */

static void free_spares(struct device_inside *device)
{
    struct async_item *item;

    while ((item = device->spares)) {
        LL_DELETE2(device->spares, item, next_spare);
        free(item);
    }
}

/* Under device->lock. */
static enum ri_status make_spares(struct device_inside *device)
{
    for (uint32_t i = 0; i < SPARES; i++) {
        struct async_item *item = calloc(1, sizeof(*item));

        if (!item) {
            free_spares(device);
            return RI_ERR_NO_RESOURCES;
        }
        LL_PREPEND2(device->spares, item, next_spare);
    }
    return RI_OK;
}

static void item_done(struct ual_channel_item *item)
{
    struct async_item *async = container_of(item, struct async_item, item);
    struct device_inside *device = async->device;

    if (!async->spare) { /* its device may have been freed */
        free(async);
        return;
    }
    pthread_mutex_lock(&device->lock);
    LL_PREPEND2(device->spares, async, next_spare);
    device->spares_out--;
    pthread_mutex_unlock(&device->lock);
}

/* Under device->lock. NULL: none is left. */
static struct async_item *make_item(struct device_inside *device)
{
    struct async_item *item = calloc(1, sizeof(*item));

    if (item) {
        item->device = device;
        return item;
    }
    item = device->spares;
    if (!item)
        return NULL;
    LL_DELETE2(device->spares, item, next_spare);
    *item = (struct async_item){ .device = device, .spare = true };
    device->spares_out++;
    return item;
}

/* --- reports --- */

/* Under device->lock, so that the channel stays. */
static void queue_in_channel(struct device_inside *device, const struct ri_event *event,
                             const struct ual_object *object, struct ual_cq *cq)
{
    struct async_item *item = make_item(device);

    if (!item) {
        kal_log(RI_LOG_ERROR, "%s: no memory for an asynchronous event; take them sooner",
                device->name);
        return;
    }
    item->item = (struct ual_channel_item){
        .kind = UAL_ITEM_ASYNC,
        .context = device->device.context,
        .about = object ? (const void *)object : cq,
        .done = item_done,
    };
    item->event = *event;
    item->event.detail = NULL;
    item->object = object;
    item->cq = cq;
    ual_channel_push(device->async_channel, &item->item);
}

void ual_async_report(struct ual_device *public, const struct ri_event *event,
                      const struct ual_object *object, struct ual_cq *cq)
{
    struct device_inside *device = device_inside(public);

    pthread_mutex_lock(&device->lock);
    if (device->async_channel && !device->async_ending)
        queue_in_channel(device, event, object, cq);
    pthread_mutex_unlock(&device->lock);
    if (device->upcalls && device->upcalls->async)
        device->upcalls->async(public->context, event, object);
}

void ual_device_rnic_event(void *rnic_context, const struct ri_event *event)
{
    struct device_inside *device = rnic_context;

    bool gone = event->type == RI_EVENT_DEVICE_GONE, dead = gone;

    dead |= event->type == RI_EVENT_RNIC_FATAL;
    if (dead && atomic_exchange(&device->device.dead, true))
        return;
    if (dead)
        kal_log(RI_LOG_ERROR, "%s: the device %s: %s; close the interface and open it %s",
                device->name, gone ? "was removed" : "has failed",
                event->detail ? event->detail : "no details",
                gone ? "when it is there again" : "again");
    ual_async_report(&device->device, event, NULL, NULL);
    if (dead)
        ual_channels_wake(device);
}

void ual_async_forget(struct ual_device *public, const void *about, ual_handle handle)
{
    struct device_inside *device = device_inside(public);
    struct ual_channel *channel;

    pthread_mutex_lock(&device->lock);
    channel = device->async_channel;
    if (channel)
        ual_channel_use(channel, 1);
    pthread_mutex_unlock(&device->lock);
    if (channel) {
        ual_channel_purge_about(channel, about);
        ual_channel_use(channel, -1);
    }
    if (handle && device->upcalls && device->upcalls->forget)
        device->upcalls->forget(public->context, handle);
}

/* --- the channel --- */

/* Nothing more is queued in the channel. Another thread that ends it, or begins again, finds it
 * taken. */
static struct ual_channel *begin_end(struct device_inside *device)
{
    struct ual_channel *channel;

    pthread_mutex_lock(&device->lock);
    channel = device->async_ending ? NULL : device->async_channel;
    device->async_ending |= channel != NULL;
    pthread_mutex_unlock(&device->lock);
    return channel;
}

static void finish_end(struct device_inside *device)
{
    pthread_mutex_lock(&device->lock);
    free_spares(device);
    device->async_channel = NULL;
    device->async_ending = false;
    pthread_mutex_unlock(&device->lock);
}

/* A get in another thread that has taken a spare item returns it at once. */
static void await_spares(struct device_inside *device)
{
    bool out = true;

    while (out) {
        pthread_mutex_lock(&device->lock);
        out = device->spares_out != 0;
        pthread_mutex_unlock(&device->lock);
        if (out)
            sched_yield();
    }
}

/* Its items point to the device, so none stays queued; the spare items are returned before they are
 * freed. */
void ual_async_end(struct ual_device *public)
{
    struct device_inside *device = device_inside(public);
    struct ual_channel *channel = begin_end(device);

    if (!channel)
        return;
    ual_channel_purge_async(channel, device);
    await_spares(device);
    finish_end(device);
    ual_channel_use(channel, -1);
}

enum ri_status ual_async_to(struct ual_device *public, struct ual_channel *channel)
{
    struct device_inside *device = device_inside(public);
    enum ri_status status = ual_device_alive(public);

    if (!channel) {
        ual_async_end(public);
        return RI_OK;
    }
    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->async_channel)
        status = ITAL_ERR_EXISTS;
    else
        status = make_spares(device);
    if (status == RI_OK) {
        device->async_channel = channel;
        ual_channel_use(channel, 1);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

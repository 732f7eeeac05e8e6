/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completion queues: a provider's CQ, the lanes that feed it, and the receiver of its events.
 */
#include "cq_stash.h"
#include "mechanism_private.h"

#include <stdlib.h>

struct cq_inside {
    struct ual_cq cq;  /* first: the part that users see */
    struct feed *feed; /* its own, or the feed of the object that waits */
    struct feed own_feed;
    struct ual_cq_stash *stash; /* NULL: the provider's CQ supports all that is needed */
    struct ual_channel *channel;
    struct ual_channel_item item; /* queued in the channel once for each time the CQ fires */
    void (*fired)(void *context);
    void (*error)(void *context, const struct ri_event *event);
    atomic_uint users; /* QPs */
};

static struct cq_inside *inside_of(struct ual_cq *cq)
{
    return (struct cq_inside *)cq; /* its first member */
}

static void close_feed(struct cq_inside *inside)
{
    if (inside->feed == &inside->own_feed)
        feed_close(inside->feed);
}

static enum ri_status check(const struct ual_device *device, const struct ual_cq_attr *attr)
{
    const struct ual_device *of = attr->channel ? ual_channel_device(attr->channel) : NULL;

    if (!attr->depth || (of && of != device) || attr->lane_plus_one > ual_device_lane_count(device))
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->depth > ual_device_attr(device)->max_cqe)
        return RI_ERR_LIMIT;
    return ual_device_alive(device);
}

static void report_fired(void *context)
{
    struct cq_inside *inside = context;

    if (inside->fired)
        inside->fired(inside->cq.context);
    else if (inside->channel)
        ual_channel_push(inside->channel, &inside->item);
}

static void report_more(void *context, uint32_t told, uint32_t asked)
{
    const struct cq_inside *inside = context;

    ual_cq_reported_more(&inside->cq, told, asked);
}

static const struct ual_cq_stash_upper stash_upper = { .fired = report_fired,
                                                       .reported_more = report_more };

static enum ri_status open_stash(struct cq_inside *inside, const struct ri_rnic_attr *attr)
{
    if (!ual_cq_stash_needed(attr))
        return RI_OK;
    inside->stash = ual_cq_stash_open(inside->cq.cq, inside->cq.depth,
                                      attr->features & RI_FEATURE_CQ_ARM_NOTIFY, &stash_upper,
                                      inside);
    if (!inside->stash)
        return RI_ERR_NO_RESOURCES;
    inside->cq.polled = ual_cq_stash_cq(inside->stash);
    inside->cq.receives_marked = !(attr->features & RI_FEATURE_CQ_ARM_NOTIFY);
    return RI_OK;
}

enum ri_status ual_cq_create(struct ual_device *device, const struct ual_cq_attr *attr,
                             struct ual_cq **out)
{
    enum ri_status status = check(device, attr);
    struct ri_cq_attr asked = { .size = sizeof(asked), .depth = attr->depth };
    struct cq_inside *inside;

    if (status != RI_OK)
        return status;
    inside = calloc(1, sizeof(*inside));
    if (!inside)
        return RI_ERR_NO_RESOURCES;
    inside->cq.device = device;
    inside->cq.context = attr->context;
    inside->channel = attr->channel;
    inside->item =
        (struct ual_channel_item){ .kind = UAL_ITEM_CQ, .context = attr->context, .about = inside };
    inside->fired = attr->fired;
    inside->error = attr->error;
    inside->feed = attr->feed ? attr->feed : &inside->own_feed;
    if (!attr->feed)
        status = feed_open(inside->feed, ual_device_lanes(device), false);
    if (status != RI_OK)
        goto free_cq;
    asked.context = inside;
    if (attr->lane_plus_one)
        asked.lane = ual_lane_provider(ual_device_lanes(device)->lane[attr->lane_plus_one - 1]);
    status = kal_cq_create(rnic_of(device), &asked, &inside->cq.cq);
    if (status != RI_OK)
        goto close_feed;
    inside->cq.depth = asked.depth;
    inside->cq.polled = inside->cq.cq;
    if (attr->criteria)
        status = open_stash(inside, ual_device_attr(device));
    if (status != RI_OK)
        goto destroy_cq;
    if (inside->channel)
        ual_channel_use(inside->channel, 1);
    atomic_fetch_add(&device_inside(device)->users, 1);
    *out = &inside->cq;
    return RI_OK;
destroy_cq:
    kal_cq_destroy(rnic_of(device), inside->cq.cq);
close_feed:
    close_feed(inside);
free_cq:
    free(inside);
    return status;
}

/* After the destruction no upcall about it comes, so the purge is final. */
enum ri_status ual_cq_free(struct ual_cq *cq)
{
    struct cq_inside *inside = inside_of(cq);
    enum ri_status status;

    if (atomic_load(&inside->users))
        return RI_ERR_BUSY;
    status = kal_cq_destroy(rnic_of(cq->device), cq->cq);
    if (status != RI_OK)
        return status;
    if (inside->channel) {
        ual_channel_purge_about(inside->channel, inside);
        ual_channel_use(inside->channel, -1);
    }
    ual_async_forget(cq->device, inside, 0);
    if (inside->stash)
        ual_cq_stash_close(inside->stash);
    close_feed(inside);
    atomic_fetch_sub(&device_inside(cq->device)->users, 1);
    free(inside);
    return RI_OK;
}

/* If the provider then refuses to resize the CQ, the stash may be larger than the CQ. */
static enum ri_status resize_stash(struct ual_cq_stash *stash, uint32_t depth)
{
    return stash ? ual_cq_stash_resize(stash, depth) : RI_OK;
}

enum ri_status ual_cq_resize(struct ual_cq *cq, uint32_t depth)
{
    enum ri_status status = ual_device_alive(cq->device);
    uint32_t given = depth;

    if (status != RI_OK)
        return status;
    if (!depth)
        return RI_ERR_INVALID_ARGUMENT;
    if (depth > ual_device_attr(cq->device)->max_cqe)
        return RI_ERR_LIMIT;
    status = resize_stash(inside_of(cq)->stash, depth);
    if (status == RI_OK)
        status = kal_cq_resize(rnic_of(cq->device), cq->cq, &given);
    if (status == RI_OK)
        cq->depth = inside_of(cq)->stash ? depth : given;
    return status;
}

uint32_t ual_cq_reported_more(const struct ual_cq *cq, uint32_t told, uint32_t asked)
{
    if (!atomic_exchange(&device_inside(cq->device)->reported_more, true))
        kal_log(RI_LOG_ERROR,
                "%s: provider %s answers %u to a poll for %u completions: %u are taken; filter "
                "guard drops what is wrong",
                ual_device_name(cq->device), ual_device_provider(cq->device), told, asked, asked);
    return asked;
}

void ual_cq_forget(struct ual_cq *cq, ual_handle qp)
{
    struct ual_cq_stash *stash = inside_of(cq)->stash;

    if (stash)
        ual_cq_stash_forget(stash, (const void *)qp);
}

uint32_t ual_cq_run(struct ual_cq *cq)
{
    struct feed *feed = inside_of(cq)->feed;
    struct ual_lane *lane = feed_only(feed);

    return lane ? ual_lane_poll(lane, cq->cq) : feed_poll(feed, cq->cq);
}

uint32_t ual_cq_count(struct ual_cq *cq, uint32_t *marked)
{
    struct ri_cq *polled = atomic_load(&cq->polled);
    uint32_t total = 0;

    *marked = 0;
    return polled->ops->cq_peek(polled, &total, marked) == RI_OK ? total : 0;
}

uint32_t ual_cq_peek(struct ual_cq *cq)
{
    uint32_t marked;

    return ual_cq_count(cq, &marked);
}

const struct feed *ual_cq_feed(const struct ual_cq *cq)
{
    return ((const struct cq_inside *)cq)->feed; /* its first member */
}

/* --- its QPs --- */

static struct feed *feed_of_channel(const struct cq_inside *inside)
{
    return inside->channel ? ual_channel_feed(inside->channel) : NULL;
}

void ual_cq_use(struct ual_cq *cq, uint32_t lane)
{
    struct cq_inside *inside = inside_of(cq);
    struct feed *of_channel = feed_of_channel(inside);

    atomic_fetch_add(&inside->users, 1);
    feed_add(inside->feed, lane);
    if (of_channel)
        feed_add(of_channel, lane);
}

/* The CQ may be freed as soon as it is not used. */
void ual_cq_leave(struct ual_cq *cq, uint32_t lane)
{
    struct cq_inside *inside = inside_of(cq);
    struct feed *of_channel = feed_of_channel(inside);

    if (of_channel)
        feed_remove(of_channel, lane);
    feed_remove(inside->feed, lane);
    atomic_fetch_sub(&inside->users, 1);
}

/* --- upcalls --- */

void ual_cq_fired(void *cq_context)
{
    struct cq_inside *inside = cq_context;

    if (inside->stash)
        ual_cq_stash_fired(inside->stash);
    else
        report_fired(inside);
}

void ual_cq_error(void *cq_context, const struct ri_event *event)
{
    struct cq_inside *inside = cq_context;

    if (inside->error)
        inside->error(inside->cq.context, event);
    else
        ual_async_report(inside->cq.device, event, NULL, &inside->cq);
}

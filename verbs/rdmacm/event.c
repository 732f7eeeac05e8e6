/* SPDX-License-Identifier: BSD-3-Clause
 * Event channels. Events of ids: post, get, acknowledge. */
#include "cm.h"
#include "later.h"

#include "base/kept.h"

#include <stdlib.h>
#include <string.h>

VB_PUBLIC struct rdma_event_channel *rdma_create_event_channel(void)
{
    VB_CALL;
    struct vb_context **contexts;
    struct rcm_channel *channel;
    int error;

    if (!rcm_contexts(&contexts))
        return NULL;
    channel = calloc(1, sizeof(*channel));
    if (!channel)
        return NULL;
    error = vb_errno(ual_channel_create(NULL, UAL_CHANNEL_FD, &channel->ual));
    if (error) {
        free(channel);
        errno = error;
        return NULL;
    }
    channel->ibv.fd = ual_channel_fd(channel->ual);
    channel->process = vb_process();
    return &channel->ibv;
}

VB_PUBLIC void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    VB_CALL;
    static struct kept destroyed; /* for a thread that is about to call rdma_get_cm_event */

    if (rcm_channel_of(channel)->process != vb_process())
        return;                                     /* the parent's */
    ual_channel_free(rcm_channel_of(channel)->ual); /* CQs and devices have channels of their own */
    free(kept_put(&destroyed, channel));
}

/* ---- posting ---- */

struct rcm_event *rcm_event_new(void)
{
    struct rcm_event *event = calloc(1, sizeof(*event));

    if (event)
        event->allocated = true;
    return event;
}

void rcm_event_data(struct rcm_event *event, const void *data, size_t length)
{
    if (!data || !length)
        return;
    if (length > RCM_PRIVATE_DATA)
        length = RCM_PRIVATE_DATA;
    memcpy(event->private_data, data, length);
    event->ibv.param.conn.private_data = event->private_data;
    event->ibv.param.conn.private_data_len = (uint8_t)length;
}

void rcm_event_padded(struct rcm_event *event, const void *data, size_t length, size_t most)
{
    rcm_event_data(event, data, length < most ? length : most);
    event->ibv.param.conn.private_data = event->private_data;
    event->ibv.param.conn.private_data_len = (uint8_t)most;
}

void rcm_event_post(struct rcm_id *owner, struct rcm_event *event, struct rcm_id *about,
                    enum rdma_cm_event_type type, int status)
{
    event->ibv.id = &about->ibv;
    event->ibv.event = type;
    event->ibv.status = status;
    event->owner = owner;
    event->item.context = owner;
    pthread_mutex_lock(&owner->lock);
    owner->pending++;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) /* the listener may have moved to another channel */
        about->ibv.channel = owner->ibv.channel;
    ual_channel_post(rcm_channel_of(owner->ibv.channel)->ual, &event->item);
    pthread_mutex_unlock(&owner->lock);
}

VB_PUBLIC int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
                                  uint64_t arg)
{
    VB_CALL;
    struct rcm_event *made;

    if (!id || (int)event != RCM_EVENT_USER)
        return rcm_fail(EINVAL);
    RCM_OWN(id, -1);
    made = rcm_event_new();
    if (!made)
        return rcm_fail(ENOMEM);
    memcpy(&made->ibv.param, &arg, sizeof(arg)); /* a member of the union in later headers */
    rcm_event_post(rcm_id_of(id), made, rcm_id_of(id), event, status);
    return 0;
}

/* ---- taking ---- */

/* The event and the ids that it names are the program's to read from now on. */
static void define(const struct rdma_cm_event *event)
{
    sanitizer_defined(event, sizeof(*event));
    sanitizer_defined(event->param.conn.private_data, event->param.conn.private_data_len);
    sanitizer_defined(event->id, sizeof(*event->id));
    sanitizer_defined(event->listen_id, sizeof(*event->listen_id));
}

VB_PUBLIC int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    SANITIZER_OUTPUT(event);
    struct ual_channel_event got;
    struct rcm_event *taken;
    int error;

    if (!channel || !event)
        return rcm_fail(EINVAL);
    if (rcm_channel_of(channel)->process != vb_process())
        return rcm_fail(EIO);
    error = vb_channel_get(rcm_channel_of(channel)->ual, &got);
    if (error)
        return rcm_fail(error);
    taken = container_of(got.item, struct rcm_event, item);
    pthread_mutex_lock(&taken->owner->lock);
    taken->owner->taken++;
    if (taken == &taken->owner->end)
        taken->owner->end_taken = true;
    pthread_mutex_unlock(&taken->owner->lock);
    define(&taken->ibv);
    *event = &taken->ibv;
    return 0;
}

VB_PUBLIC int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    struct rcm_event *taken = (struct rcm_event *)event;
    struct rcm_id *owner;

    if (!event)
        return rcm_fail(EINVAL);
    owner = taken->owner;
    RCM_OWN(&owner->ibv, -1);
    if (taken->allocated)
        free(taken);
    pthread_mutex_lock(&owner->lock);
    owner->pending--;
    owner->taken--;
    pthread_cond_broadcast(&owner->changed);
    pthread_mutex_unlock(&owner->lock); /* the id may be freed from here on */
    return 0;
}

/* The return value of a synchronous call that this event ends. */
static int outcome_of(const struct rdma_cm_event *event)
{
    int status = event->status;

    if (!status)
        return 0;
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return rcm_fail(ECONNREFUSED);
    return rcm_fail(status < 0 ? -status : status);
}

int rcm_event_wait(struct rcm_id *id)
{
    if (!id->synchronous)
        return 0;
    if (id->ibv.event) {
        rdma_ack_cm_event(id->ibv.event);
        id->ibv.event = NULL;
    }
    if (rdma_get_cm_event(id->ibv.channel, &id->ibv.event))
        return -1;
    return outcome_of(id->ibv.event);
}

/* ---- ids that go, or go elsewhere ---- */

/* Collects an item from the channel, oldest first. */
static void collect(struct ual_channel_item *item)
{
    struct rcm_event *event = container_of(item, struct rcm_event, item);

    event->next = NULL;
    *event->owner->moving_end = event;
    event->owner->moving_end = &event->next;
}

static uint32_t purge(struct rcm_id *id)
{
    id->moving = NULL;
    id->moving_end = &id->moving;
    return ual_channel_purge(rcm_channel_of(id->ibv.channel)->ual, id, collect);
}

void rcm_event_drain(struct rcm_id *id, int (*forget)(struct rdma_cm_id *request))
{
    struct rcm_event *event;
    uint32_t dropped;

    if (id->ibv.event) {
        rdma_ack_cm_event(id->ibv.event);
        id->ibv.event = NULL;
    }
    dropped = purge(id);
    while ((event = id->moving)) {
        id->moving = event->next;
        if (event->ibv.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            forget(event->ibv.id);
        if (event->allocated)
            free(event);
    }
    pthread_mutex_lock(&id->lock);
    id->pending -= dropped;
    while (id->pending)
        pthread_cond_wait(&id->changed, &id->lock);
    pthread_mutex_unlock(&id->lock);
}

void rcm_event_move(struct rcm_id *id, struct rdma_event_channel *channel)
{
    struct rcm_event *event;

    pthread_mutex_lock(&id->lock);
    while (id->taken)
        pthread_cond_wait(&id->changed, &id->lock);
    purge(id);
    id->ibv.channel = channel;
    while ((event = id->moving)) {
        id->moving = event->next;
        ual_channel_post(rcm_channel_of(channel)->ual, &event->item);
        /* the program does not have this id yet: a thread that takes the event waits for this
         * lock */
        if (event->ibv.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            rcm_event_move(rcm_id_of(event->ibv.id), channel);
    }
    pthread_mutex_unlock(&id->lock);
}

VB_PUBLIC const char *rdma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
        "RDMA_CM_EVENT_ADDR_RESOLVED",
        "RDMA_CM_EVENT_ADDR_ERROR",
        "RDMA_CM_EVENT_ROUTE_RESOLVED",
        "RDMA_CM_EVENT_ROUTE_ERROR",
        "RDMA_CM_EVENT_CONNECT_REQUEST",
        "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",
        "RDMA_CM_EVENT_UNREACHABLE",
        "RDMA_CM_EVENT_REJECTED",
        "RDMA_CM_EVENT_ESTABLISHED",
        "RDMA_CM_EVENT_DISCONNECTED",
        "RDMA_CM_EVENT_DEVICE_REMOVAL",
        "RDMA_CM_EVENT_MULTICAST_JOIN",
        "RDMA_CM_EVENT_MULTICAST_ERROR",
        "RDMA_CM_EVENT_ADDR_CHANGE",
        "RDMA_CM_EVENT_TIMEWAIT_EXIT",
        "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        "RDMA_CM_EVENT_ADDRINFO_ERROR",
        "RDMA_CM_EVENT_USER",
    };

    return (unsigned)event < ARRAY_SIZE(names) ? names[event] : "UNKNOWN EVENT";
}

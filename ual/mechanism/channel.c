/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Channels: events of several sources in one queue.
 *
 * THE DESCRIPTOR is an eventfd. The first event in an empty queue writes it, the get that takes the
 * last event reads it. Both hold the lock, so it is readable exactly while an event is queued. It
 * is created without O_NONBLOCK, which belongs to the user; reads here never block, whatever he has
 * set and read: RWF_NOWAIT, and where there is none (Linux before 5.8, filters of containers), only
 * behind poll(2).
 *
 * WAITING. A thread waits for a channel of a device as for an EVD: it sleeps in a lane that feeds
 * the channel. A channel without a device has no lane: its threads sleep on a word, and the
 * background threads of the lanes bring the events.
 *
 * THE END. There are programs whose thread takes events in a loop that nothing ends when another
 * thread frees the channel (rping of rdma-core before 56.3 and 59). So a get that begins late, or
 * has not come as far as to wait, finds the channel's memory, which is kept, and that it is
 * aborted. Beyond the check for an event each get is between waiters_enter and waiters_leave, and
 * free waits for those.
 *
 * MEMORY of an item belongs to the object that queues it: a CQ has its item, a front end those that
 * it posts, a device its spare items. So no event is lost for lack of memory, and a lane allocates
 * nothing.
 */
#include "mechanism_private.h"

#include "ual/progress/descriptors.h"
#include "ual/progress/waiters.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/kept.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utlist.h>

struct ual_channel {
    struct ual_device *device; /* NULL: of several devices */
    struct feed feed;          /* with a device */
    atomic_uint users;
    struct waiters waiters;
    pthread_mutex_t lock; /* the queue and the descriptor; a leaf, above that of waiters */
    struct ual_channel_item *queue;
    atomic_uint queued; /* events; one item may stand for several */
    atomic_uint word;   /* futex of a channel without a device; changes with each event */
    atomic_int fd;      /* -1: none, or freed */
    struct ual_channel *prev, *next; /* of the device */
};

/* --- the queue --- */

/* False: the program has closed a lane's descriptors, and so the channel's; the number may belong
 * to another file. */
static bool has_own_fd(const struct ual_channel *channel)
{
    return channel->fd >= 0 && !(channel->device && ual_lane_is_broken(feed_first(&channel->feed)));
}

/* Under the lock. */
static void raise_fd(struct ual_channel *channel)
{
    uint64_t one = 1;

    if (has_own_fd(channel))
        syscall(SYS_write, channel->fd, &one, sizeof(one));
}

static void lower_fd(struct ual_channel *channel)
{
    uint64_t count;
    struct iovec vector = { &count, sizeof(count) };
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };

    if (!has_own_fd(channel))
        return;
    if (syscall(SYS_preadv2, channel->fd, &vector, 1ul, -1l, -1l, RWF_NOWAIT) != sizeof(count) &&
        poll(&readable, 1, 0) == 1)
        syscall(SYS_read, channel->fd, &count, sizeof(count));
}

/* Another thread may free the item as soon as the lock is dropped. */
void ual_channel_push(struct ual_channel *channel, struct ual_channel_item *item)
{
    bool was_empty;

    pthread_mutex_lock(&channel->lock);
    was_empty = !channel->queue;
    if (item->queued) {
        item->times++;
    } else {
        item->queued = true;
        item->times = 1;
        DL_APPEND(channel->queue, item);
    }
    atomic_fetch_add(&channel->queued, 1);
    /* after the count, which a get behind poll(2) checks without the lock */
    if (was_empty)
        raise_fd(channel);
    atomic_fetch_add(&channel->word, 1);
    if (channel->device)
        waiters_wake_one(&channel->waiters);
    else
        futex_wake(&channel->word, 1);
    pthread_mutex_unlock(&channel->lock); /* from here on the channel may be freed */
}

void ual_channel_post(struct ual_channel *channel, struct ual_channel_item *item)
{
    *item = (struct ual_channel_item){ .kind = UAL_ITEM_POSTED, .context = item->context };
    ual_channel_push(channel, item);
}

/* Under the lock. */
static void remove_item(struct ual_channel *channel, struct ual_channel_item *item)
{
    DL_DELETE(channel->queue, item);
    item->queued = false;
    if (!channel->queue)
        lower_fd(channel);
}

static void describe(struct ual_channel_event *event, struct ual_channel_item *item)
{
    event->kind = item->kind;
    event->context = item->context;
    if (item->kind == UAL_ITEM_ASYNC) {
        const struct async_item *async = container_of(item, struct async_item, item);

        event->async.event = async->event;
        event->async.object = async->object;
        event->async.cq = async->cq;
    } else if (item->kind == UAL_ITEM_CQ) {
        event->cq = (struct ual_cq *)item->about;
    } else {
        event->item = item;
    }
}

/* An item that stands for several events goes to the end. Under the lock. */
static void take_item(struct ual_channel *channel, struct ual_channel_item *item)
{
    atomic_fetch_sub(&channel->queued, 1);
    if (--item->times == 0) {
        remove_item(channel, item);
        return;
    }
    DL_DELETE(channel->queue, item);
    DL_APPEND(channel->queue, item);
}

/* An item without `done`, a CQ's, may be freed as soon as the lock is dropped. */
static bool take(struct ual_channel *channel, struct ual_channel_event *event)
{
    struct ual_channel_item *item, *done = NULL;

    if (!atomic_load(&channel->queued))
        return false;
    pthread_mutex_lock(&channel->lock);
    item = waiters_aborting(&channel->waiters) ? NULL : channel->queue;
    if (item) {
        describe(event, item);
        take_item(channel, item);
        done = item->done ? item : NULL;
    }
    pthread_mutex_unlock(&channel->lock);
    if (done)
        done->done(done);
    return item != NULL;
}

static void drop_all(struct ual_channel_item *items, void (*drop)(struct ual_channel_item *item))
{
    struct ual_channel_item *item, *next;

    DL_FOREACH_SAFE (items, item, next) {
        if (item->done)
            item->done(item);
        else if (item->kind == UAL_ITEM_POSTED && drop)
            drop(item);
    }
}

/* The events that a purge removes: those about one object, a device's asynchronous events, or all
 * events of one context. */
struct purged {
    const void *context, *about;
    const struct device_inside *async_of;
};

static bool is_purged(const struct ual_channel_item *item, const struct purged *which)
{
    if (which->about)
        return item->about == which->about;
    if (which->async_of)
        return item->kind == UAL_ITEM_ASYNC &&
               container_of(item, struct async_item, item)->device == which->async_of;
    return item->context == which->context;
}

static uint32_t purge(struct ual_channel *channel, struct purged which,
                      void (*drop)(struct ual_channel_item *item))
{
    struct ual_channel_item *item, *next, *purged = NULL;
    uint32_t count = 0;

    pthread_mutex_lock(&channel->lock);
    DL_FOREACH_SAFE (channel->queue, item, next) {
        if (!is_purged(item, &which))
            continue;
        count += item->times;
        remove_item(channel, item);
        /* a CQ's item may be queued again at once and has no owner to notify */
        if (item->kind != UAL_ITEM_CQ)
            DL_APPEND(purged, item);
    }
    atomic_fetch_sub(&channel->queued, count);
    pthread_mutex_unlock(&channel->lock);
    drop_all(purged, drop);
    return count;
}

uint32_t ual_channel_purge(struct ual_channel *channel, void *context,
                           void (*drop)(struct ual_channel_item *item))
{
    return purge(channel, (struct purged){ .context = context }, drop);
}

void ual_channel_purge_about(struct ual_channel *channel, const void *about)
{
    purge(channel, (struct purged){ .about = about }, NULL);
}

void ual_channel_purge_async(struct ual_channel *channel, const struct device_inside *device)
{
    purge(channel, (struct purged){ .async_of = device }, NULL);
}

/* --- waiting --- */

static bool passed(uint64_t deadline)
{
    return deadline != CLOCK_NEVER && clock_now() >= deadline;
}

static enum ri_status found_nothing(const struct ual_channel *channel)
{
    if (waiters_aborting((struct waiters *)&channel->waiters))
        return ITAL_ERR_ABORTED;
    return channel->device ? ual_device_alive(channel->device) : RI_OK;
}

static enum ri_status sleep_in_lane(struct ual_channel *channel, struct ual_waiter *waiter,
                                    uint64_t deadline, struct ual_channel_event *event)
{
    struct ual_lane *lane = waiter->lane;
    enum ri_status status;
    bool armed;

    for (;;) {
        int rc = 0;

        ual_lane_wait_reset(waiter);
        feed_delegate_others(&channel->feed, lane);
        armed = ual_lane_wait_arm(lane, waiter, NULL);
        if (take(channel, event))
            return RI_OK;
        /* checked after the reset, because abort wakes once only */
        status = found_nothing(channel);
        if (status != RI_OK)
            return status;
        if (armed)
            rc = ual_lane_wait_sleep(lane, waiter, NULL, deadline);
        if (armed && take(channel, event))
            return RI_OK;
        if (rc == EINTR)
            return ITAL_ERR_INTERRUPTED;
        if (passed(deadline))
            return RI_ERR_TIMED_OUT;
    }
}

static enum ri_status wait_in_lane(struct ual_channel *channel, uint64_t deadline,
                                   struct ual_channel_event *event)
{
    struct ual_waiter waiter;
    enum ri_status status;

    ual_lane_wait_begin(feed_place_to_sleep(&channel->feed), &waiter);
    waiters_add(&channel->waiters, &waiter);
    status = sleep_in_lane(channel, &waiter, deadline, event);
    waiters_remove(&channel->waiters, &waiter, status == RI_OK);
    ual_lane_wait_end(waiter.lane, &waiter);
    return status;
}

static enum ri_status wait_on_word(struct ual_channel *channel, uint64_t deadline,
                                   struct ual_channel_event *event)
{
    for (;;) {
        unsigned int word = atomic_load(&channel->word);
        enum ri_status status;
        int rc;

        if (take(channel, event))
            return RI_OK;
        status = found_nothing(channel);
        if (status != RI_OK)
            return status;
        if (passed(deadline))
            return RI_ERR_TIMED_OUT;
        /* Never without a deadline, see sleep_on_word in lane_wait.c. */
        rc = futex_wait(&channel->word, word, deadline == CLOCK_NEVER ? CLOCK_NEVER - 1 : deadline);
        if (rc == EINTR)
            return take(channel, event) ? RI_OK : ITAL_ERR_INTERRUPTED;
    }
}

/* Runs the lanes once, for a get that does not wait. */
static enum ri_status get_at_once(struct ual_channel *channel, struct ual_channel_event *event)
{
    enum ri_status status;

    if (channel->device)
        feed_poll_all(&channel->feed, NULL, false, false);
    if (take(channel, event))
        return RI_OK;
    status = found_nothing(channel);
    return status == RI_OK ? ITAL_ERR_EMPTY : status;
}

static enum ri_status wait_for_event(struct ual_channel *channel, uint64_t timeout_us,
                                     struct ual_channel_event *event)
{
    uint64_t deadline = CLOCK_NEVER;

    if (timeout_us < UINT64_MAX / CLOCK_NS_PER_US)
        deadline = clock_after(clock_now(), timeout_us * CLOCK_NS_PER_US);
    return channel->device ? wait_in_lane(channel, deadline, event)
                           : wait_on_word(channel, deadline, event);
}

enum ri_status ual_channel_get(struct ual_channel *channel, uint64_t timeout_us,
                               struct ual_channel_event *event)
{
    enum ri_status status;

    if (take(channel, event))
        return RI_OK;
    status = waiters_enter(&channel->waiters);
    if (status == ITAL_ERR_WAITER_LIMIT && timeout_us == 0)
        return ITAL_ERR_EMPTY; /* those that wait run the lanes */
    if (status != RI_OK)
        return status;
    status = timeout_us == 0 ? get_at_once(channel, event)
                             : wait_for_event(channel, timeout_us, event);
    waiters_leave(&channel->waiters);
    return status;
}

static void wake_all(struct ual_channel *channel)
{
    atomic_fetch_add(&channel->word, 1);
    futex_wake(&channel->word, INT_MAX);
    waiters_wake_all(&channel->waiters);
}

/* --- life --- */

static enum ri_status open_fd(struct ual_channel *channel)
{
    channel->fd = eventfd(0, EFD_CLOEXEC);
    if (channel->fd < 0) {
        kal_log(RI_LOG_ERROR, "cannot make the descriptor of a channel: %s; raise RLIMIT_NOFILE",
                strerrordesc_np(errno));
        return RI_ERR_NO_RESOURCES;
    }
    ual_fd_track(channel->fd);
    return RI_OK;
}

static void enlist(struct ual_channel *channel)
{
    struct device_inside *device;

    if (!channel->device)
        return;
    device = device_inside(channel->device);
    atomic_fetch_add(&device->users, 1);
    pthread_mutex_lock(&device->lock);
    DL_APPEND(device->channels, channel);
    pthread_mutex_unlock(&device->lock);
}

static void delist(struct ual_channel *channel)
{
    struct device_inside *device;

    if (!channel->device)
        return;
    device = device_inside(channel->device);
    pthread_mutex_lock(&device->lock);
    DL_DELETE(device->channels, channel);
    pthread_mutex_unlock(&device->lock);
    atomic_fetch_sub(&device->users, 1);
}

enum ri_status ual_channel_create(struct ual_device *device, uint32_t flags,
                                  struct ual_channel **out)
{
    enum ri_status status = device ? ual_device_alive(device) : RI_OK;
    struct ual_channel *channel;

    if (status != RI_OK)
        return status;
    if (flags & ~(uint32_t)UAL_CHANNEL_FD)
        return RI_ERR_INVALID_ARGUMENT;
    channel = calloc(1, sizeof(*channel));
    if (!channel)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_init(&channel->lock, NULL);
    channel->device = device;
    channel->fd = -1;
    status = ual_fork_prepare(); /* a channel may exist before the first device */
    if (status == RI_OK && device)
        status = feed_open(&channel->feed, ual_device_lanes(device), true);
    if (status != RI_OK)
        goto free_channel;
    if (flags & UAL_CHANNEL_FD)
        status = open_fd(channel);
    if (status != RI_OK)
        goto close_feed;
    enlist(channel);
    *out = channel;
    return RI_OK;
close_feed:
    if (device)
        feed_close(&channel->feed);
free_channel:
    pthread_mutex_destroy(&channel->lock);
    free(channel);
    return status;
}

/* The last push and the last get have ended, and a thread that begins a get finds nothing. What
 * front ends have posted stays for their purge: an id of librdmacm may outlive its channel. Returns
 * the rest.
 */
static struct ual_channel_item *take_out(struct ual_channel *channel)
{
    struct ual_channel_item *item, *next, *out = NULL;

    pthread_mutex_lock(&channel->lock);
    DL_FOREACH_SAFE (channel->queue, item, next) {
        if (item->kind == UAL_ITEM_POSTED)
            continue;
        DL_DELETE(channel->queue, item);
        atomic_fetch_sub(&channel->queued, item->times);
        DL_APPEND(out, item);
    }
    pthread_mutex_unlock(&channel->lock);
    return out;
}

/* Its number may be another file's from here on. */
static void close_fd(struct ual_channel *channel)
{
    int fd;

    pthread_mutex_lock(&channel->lock);
    fd = has_own_fd(channel) ? channel->fd : -1;
    if (channel->fd >= 0)
        ual_fd_forget(channel->fd);
    channel->fd = -1;
    pthread_mutex_unlock(&channel->lock);
    if (fd >= 0)
        close(fd);
}

/* NULL: none. */
static void release(struct ual_channel *channel)
{
    if (!channel)
        return;
    pthread_mutex_destroy(&channel->lock);
    free(channel);
}

enum ri_status ual_channel_free(struct ual_channel *channel)
{
    static struct kept freed;

    if (atomic_load(&channel->users))
        return RI_ERR_BUSY;
    /* set before the threads on the word wake and check it */
    atomic_store(&channel->waiters.aborting, true);
    wake_all(channel);
    waiters_abort(&channel->waiters);
    drop_all(take_out(channel), NULL);
    close_fd(channel);
    delist(channel);
    if (channel->device)
        feed_close(&channel->feed);
    release(kept_put(&freed, channel));
    return RI_OK;
}

/* --- for the other objects --- */

void ual_channel_use(struct ual_channel *channel, int users)
{
    atomic_fetch_add(&channel->users, (unsigned int)users);
}

void ual_channels_wake(struct device_inside *device)
{
    struct ual_channel *channel;

    pthread_mutex_lock(&device->lock);
    DL_FOREACH (device->channels, channel)
        wake_all(channel);
    pthread_mutex_unlock(&device->lock);
}

int ual_channel_fd(const struct ual_channel *channel)
{
    return channel->fd;
}

struct ual_device *ual_channel_device(const struct ual_channel *channel)
{
    return channel->device;
}

struct feed *ual_channel_feed(struct ual_channel *channel)
{
    return channel->device ? &channel->feed : NULL;
}

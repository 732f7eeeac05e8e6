/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event dispatcher: what arrives. Events that find no room: completions wait in their work queues,
 * requests in kal (listen.c); software events are refused; messages and asynchronous events are
 * dropped. Dropping is an overflow. It lasts until it is reset, and is reported once in that time.
 */
#include "evd_private.h"

#include <utlist.h>

#define RESERVED_PER_EP 2u /* places: ESTABLISHED, then DISCONNECTED or BROKEN */

static ual_handle source_of(const struct ual_evd *evd, const struct ual_event *event)
{
    return evd->stream == UAL_STREAM_CONNECTION ? event->connection.ep
           : evd->stream == UAL_STREAM_REQUEST  ? event->request.listen
           : evd->stream == UAL_STREAM_SOFTWARE ? 0
                                                : event->async.cause;
}

/* Under queue_lock. */
static void enqueue(struct ual_evd *evd, struct node *node)
{
    spinlock_assert_held(&evd->queue_lock);
    DL_APPEND(evd->queue, node);
    evd_index_add(&evd->index, node,
                  node->end ? node->source : source_of(evd, evd_node_event(node)));
    evd->datagrams += evd_is_datagram(evd, node);
    atomic_fetch_add_explicit(&evd->queued, 1, memory_order_release);
}

static uint32_t capacity(const struct ual_evd *evd)
{
    if (evd->stream != UAL_STREAM_CONNECTION)
        return evd->size;
    return evd->size + RESERVED_PER_EP * atomic_load_explicit(&evd->bound, memory_order_relaxed);
}

/* The number of queued events that use the same room. Any peer can send any number of service
 * requests: they use no room of connection requests. */
static uint32_t sharing_room(const struct ual_evd *evd, struct node *node)
{
    uint32_t all = atomic_load_explicit(&evd->queued, memory_order_relaxed);

    return evd_is_datagram(evd, node) ? evd->datagrams : all - evd->datagrams;
}

static void report_overflow(struct ual_evd *evd)
{
    struct ual_ia *ia = ual_ia_of(evd->object.device);
    struct ual_event report = { .async = { .type = RI_EVENT_CQ_OVERFLOW,
                                           .cause = evd->object.handle } };

    spinlock_lock(&ia->async_lock);
    if (ia->unaffiliated)
        ual_evd_push_reserved(ia->unaffiliated, &report);
    spinlock_unlock(&ia->async_lock);
}

/* An event found no room. True: an overflow begins. Under queue_lock, as the reset by the next
 * event that is taken. */
static bool refuse(struct ual_evd *evd)
{
    evd->refused = true;
    return evd->stream != UAL_STREAM_SOFTWARE && evd->stream != UAL_STREAM_REQUEST &&
           !atomic_exchange(&evd->overflowed, true);
}

/* No lock of an EVD held. Waiters are woken because they may not go on waiting (evd_may_wait). */
static void overflow_begins(struct ual_evd *evd)
{
    if (atomic_load(&evd->overflow_flags) & UAL_EVD_OVERFLOW_NOTIFY)
        report_overflow(evd);
    waiters_wake_all(&evd->notifier.waiters);
}

bool ual_evd_push_node(struct ual_evd *evd, struct node *node)
{
    bool fits, begins = false;

    spinlock_lock(&evd->queue_lock);
    fits = sharing_room(evd, node) < capacity(evd);
    if (fits)
        enqueue(evd, node);
    else
        begins = refuse(evd);
    spinlock_unlock(&evd->queue_lock);
    if (!fits) {
        evd_node_release(evd, node);
        if (begins)
            overflow_begins(evd);
        return false;
    }
    if (evd_index_is_crowded(&evd->index, atomic_load_explicit(&evd->queued, memory_order_relaxed)))
        evd_index_grow(evd);
    atomic_thread_fence(memory_order_seq_cst);
    if (evd_is_reached(evd))
        notifier_raise(&evd->notifier);
    return true;
}

/* node: NULL where there was no memory. */
static enum ri_status push_new(struct ual_evd *evd, struct node *node)
{
    if (!node)
        return RI_ERR_NO_RESOURCES;
    return ual_evd_push_node(evd, node) ? RI_OK : RI_ERR_QUEUE_FULL;
}

enum ri_status ual_evd_push(struct ual_evd *evd, const struct ual_event *event)
{
    return push_new(evd, ual_evd_node(evd, event));
}

enum ri_status ual_evd_push_reserved(struct ual_evd *evd, const struct ual_event *event)
{
    return push_new(evd, evd_node_or_spare(evd, event));
}

enum ri_status ual_evd_push_message(struct ual_evd *evd, const struct ual_event *event,
                                    struct node **kept, struct node *own)
{
    return push_new(evd, evd_message_node(evd, event, kept, own));
}

enum ri_status ual_evd_post(struct ual_evd *evd, void *data)
{
    struct ual_event event;

    if (evd->stream != UAL_STREAM_SOFTWARE)
        return RI_ERR_INVALID_ARGUMENT;
    event.software = data;
    return ual_evd_push(evd, &event);
}

void ual_evd_report_room(struct ual_evd *evd, void (*room)(struct ual_evd *evd))
{
    spinlock_lock(&evd->queue_lock);
    evd->room = room;
    spinlock_unlock(&evd->queue_lock);
}

void ual_evd_purge(struct ual_evd *evd, ual_handle source)
{
    struct node *node, *next, *purged = NULL;

    spinlock_lock(&evd->queue_lock);
    while ((node = evd_index_find(&evd->index, source))) {
        evd_unqueue(evd, node);
        DL_APPEND(purged, node);
    }
    spinlock_unlock(&evd->queue_lock);
    DL_FOREACH_SAFE (purged, node, next)
        evd_node_release(evd, node);
}

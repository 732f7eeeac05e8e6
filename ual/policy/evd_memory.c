/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of queued events. Events that must not be lost have memory taken in advance:
 *
 *   errors, asynchronous     spares of the EVD
 *   first of an attempt      taken by the call that begins it, which fails without (ep_connect.c)
 *   end of a connection      a node without an event, in each endpoint: so it is small
 *
 * The endpoint's own node is used only where there is no other memory. It has no addresses, which
 * an end does not need, and no private data, whose delivery is not promised.
 */
#include "evd_private.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Of an asynchronous EVD, at most: errors are frequent when memory is short. */
#define ASYNC_SPARES 64u

size_t evd_event_bytes(enum ual_stream stream)
{
    switch (stream) {
    case UAL_STREAM_REQUEST:
        return offsetof(struct ual_event, request) + sizeof(struct ual_request_event);
    case UAL_STREAM_CONNECTION:
        return offsetof(struct ual_event, connection) + sizeof(struct ual_connection_event);
    case UAL_STREAM_AFFILIATED:
    case UAL_STREAM_UNAFFILIATED:
        return offsetof(struct ual_event, async) + sizeof(struct ual_async_event);
    default: return offsetof(struct ual_event, software) + sizeof(void *);
    }
}

/* --- nodes --- */

static struct node *new_node(const struct ual_evd *evd)
{
    struct node *node = malloc(offsetof(struct whole_node, event) + evd_event_bytes(evd->stream));

    if (node)
        node->end = 0;
    return node;
}

static void fill_node(const struct ual_evd *evd, struct node *node, const struct ual_event *event)
{
    struct ual_event *copy = evd_node_event(node);

    memcpy(copy, event, evd_event_bytes(evd->stream));
    copy->stream = evd->stream;
    copy->evd = evd->object.handle;
}

struct node *ual_evd_node(const struct ual_evd *evd, const struct ual_event *event)
{
    struct node *node = new_node(evd);

    if (node && event)
        fill_node(evd, node, event);
    return node;
}

void ual_evd_drop_node(struct node *node)
{
    free(node);
}

void evd_node_release(struct ual_evd *evd, struct node *node)
{
    bool kept = true;

    spinlock_lock(&evd->queue_lock);
    if (node->end) {
        node->end = 0;
    } else if (evd->spares < evd->spares_due) {
        DL_APPEND(evd->spare, node);
        evd->spares++;
    } else {
        kept = false;
    }
    spinlock_unlock(&evd->queue_lock);
    if (!kept)
        free(node);
}

/* --- spares --- */

static struct node *take_spare(struct ual_evd *evd)
{
    struct node *node;

    spinlock_lock(&evd->queue_lock);
    node = evd->spare;
    if (node) {
        DL_DELETE(evd->spare, node);
        evd->spares--;
    }
    spinlock_unlock(&evd->queue_lock);
    return node;
}

void evd_spares_close(struct ual_evd *evd)
{
    struct node *node;

    while ((node = take_spare(evd)))
        free(node);
}

static void add_spare(struct ual_evd *evd, struct node *node)
{
    spinlock_lock(&evd->queue_lock);
    DL_APPEND(evd->spare, node);
    evd->spares++;
    evd->spares_due++;
    spinlock_unlock(&evd->queue_lock);
}

enum ri_status evd_spares_open(struct ual_evd *evd, uint32_t size)
{
    uint32_t count = size < ASYNC_SPARES ? size : ASYNC_SPARES;

    if (evd->stream != UAL_STREAM_AFFILIATED && evd->stream != UAL_STREAM_UNAFFILIATED)
        return RI_OK;
    while (evd->spares_due < count) {
        struct node *node = new_node(evd);

        if (!node)
            return RI_ERR_NO_RESOURCES;
        add_spare(evd, node);
    }
    return RI_OK;
}

struct node *evd_node_or_spare(struct ual_evd *evd, const struct ual_event *event)
{
    struct node *node = new_node(evd);

    if (!node)
        node = take_spare(evd);
    if (node)
        fill_node(evd, node, event);
    return node;
}

/* --- endpoints --- */

static bool is_end(enum ual_connection_message message)
{
    return message == UAL_DISCONNECTED || message == UAL_BROKEN || message == UAL_PEER_REJECTED ||
           message == UAL_NONPEER_REJECTED;
}

bool ual_evd_own_is_queued(struct ual_evd *evd, const struct node *own)
{
    bool queued;

    spinlock_lock(&evd->queue_lock);
    queued = own->end;
    spinlock_unlock(&evd->queue_lock);
    return queued;
}

void evd_end_take(struct ual_evd *evd, struct node *node, struct ual_event *event)
{
    event->stream = evd->stream;
    event->evd = evd->object.handle;
    event->connection = (struct ual_connection_event){
        .message = (enum ual_connection_message)node->end,
        .ep = node->source,
        .reason = (enum ri_connection_reason)node->reason,
    };
    node->end = 0;
}

struct node *evd_message_node(struct ual_evd *evd, const struct ual_event *event,
                              struct node **kept, struct node *own)
{
    const struct ual_connection_event *message = &event->connection;
    struct node *node = *kept ? *kept : new_node(evd);

    *kept = NULL;
    if (node) {
        fill_node(evd, node, event);
    } else if (is_end(message->message) && !ual_evd_own_is_queued(evd, own)) {
        node = own;
        node->source = message->ep;
        node->reason = (uint16_t)message->reason;
        node->end = (uint16_t)message->message;
    }
    return node;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring that grows, in the order of posts. Requests of a shared queue complete in any order. */
#include "guard_queue.h"

#include <stdlib.h>

#define FIRST_SIZE 16u
#define MOST       (1u << 20)

static struct guard_entry *entry_at(const struct guard_queue *queue, uint32_t place)
{
    return &queue->ring[(queue->head + place) & (queue->size - 1)];
}

void guard_queue_close(struct guard_queue *queue)
{
    free(queue->ring);
    *queue = (struct guard_queue){ .size = 0 };
}

/* Closes the gaps. A receive that a QP took before it was destroyed never completes, and those
 * behind it that do would stay. */
static void compact(struct guard_queue *queue)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < queue->count; i++)
        if (!entry_at(queue, i)->done)
            *entry_at(queue, kept++) = *entry_at(queue, i);
    queue->count = kept;
}

static bool grow(struct guard_queue *queue)
{
    const uint32_t size = queue->size ? 2 * queue->size : FIRST_SIZE;
    struct guard_entry *ring = size <= MOST ? calloc(size, sizeof(*ring)) : NULL;

    if (!ring)
        return false;
    for (uint32_t i = 0; i < queue->count; i++)
        ring[i] = *entry_at(queue, i);
    free(queue->ring);
    queue->ring = ring;
    queue->size = size;
    queue->head = 0;
    return true;
}

/* Half of it is free then, so that the gaps are not sought at each request. */
static bool make_room(struct guard_queue *queue)
{
    compact(queue);
    return (queue->size && queue->count <= queue->size / 2) || grow(queue);
}

void guard_queue_add(struct guard_queue *queue, uint64_t cookie, bool silent, bool ordered)
{
    if (queue->count == queue->size && !make_room(queue))
        queue->blind = true;
    if (queue->blind)
        return;
    *entry_at(queue, queue->count++) =
        (struct guard_entry){ .cookie = cookie, .silent = silent, .ordered = ordered };
}

void guard_queue_retract(struct guard_queue *queue, uint64_t cookie)
{
    for (uint32_t i = queue->count; i-- > 0;) {
        struct guard_entry *entry = entry_at(queue, i);

        if (entry->done || entry->cookie != cookie)
            continue;
        entry->done = true;
        break;
    }
    while (queue->count && entry_at(queue, queue->count - 1)->done)
        queue->count--;
}

static void drop_done(struct guard_queue *queue)
{
    while (queue->count && entry_at(queue, 0)->done) {
        queue->head = (queue->head + 1) & (queue->size - 1);
        queue->count--;
    }
}

bool guard_queue_complete(struct guard_queue *queue, uint64_t cookie, bool success)
{
    struct guard_entry *entry = NULL;
    uint32_t place = 0;

    for (; place < queue->count; place++) {
        entry = entry_at(queue, place);
        if (!entry->done && entry->cookie == cookie && !(success && entry->silent))
            break;
    }
    if (place == queue->count)
        return queue->blind;
    entry->done = true;
    for (uint32_t i = 0; success && entry->ordered && i < place; i++)
        entry_at(queue, i)->done |= entry_at(queue, i)->silent;
    drop_done(queue);
    return true;
}

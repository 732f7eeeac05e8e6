/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Timers of connections: a binary heap, which has room for all of them.
 */
#include "internal.h"

#include <stdlib.h>

bool cm_heap_reserve(struct cm_manager *manager)
{
    uint32_t room = manager->heap_room ? 2 * manager->heap_room : 16;
    struct cm_conn **heap;

    if (manager->conns < manager->heap_room)
        return true;
    heap = realloc(manager->heap, room * sizeof(*heap));
    if (!heap)
        return false;
    manager->heap = heap;
    manager->heap_room = room;
    return true;
}

void cm_heap_release(struct cm_manager *manager)
{
    free(manager->heap);
    manager->heap = NULL;
    manager->heap_room = manager->heap_count = 0;
}

static void put(struct cm_manager *manager, uint32_t place, struct cm_conn *conn)
{
    manager->heap[place] = conn;
    conn->place = place + 1;
}

static void up(struct cm_manager *manager, uint32_t place)
{
    struct cm_conn *conn = manager->heap[place];

    for (; place && manager->heap[(place - 1) / 2]->at > conn->at; place = (place - 1) / 2)
        put(manager, place, manager->heap[(place - 1) / 2]);
    put(manager, place, conn);
}

static void down(struct cm_manager *manager, uint32_t place)
{
    struct cm_conn *conn = manager->heap[place];
    uint32_t child;

    for (; (child = 2 * place + 1) < manager->heap_count; place = child) {
        if (child + 1 < manager->heap_count &&
            manager->heap[child + 1]->at < manager->heap[child]->at)
            child++;
        if (manager->heap[child]->at >= conn->at)
            break;
        put(manager, place, manager->heap[child]);
    }
    put(manager, place, conn);
}

static void take_out(struct cm_conn *conn)
{
    struct cm_manager *manager = conn->manager;
    uint32_t place = conn->place - 1;
    struct cm_conn *last = manager->heap[--manager->heap_count];

    conn->place = 0;
    if (last == conn)
        return;
    put(manager, place, last);
    up(manager, place);
    down(manager, last->place - 1);
}

void cm_heap_set(struct cm_conn *conn, uint64_t at)
{
    struct cm_manager *manager = conn->manager;

    if (conn->place)
        take_out(conn);
    conn->at = at;
    if (at == CM_NEVER)
        return;
    contract(manager->heap_count < manager->heap_room);
    put(manager, manager->heap_count++, conn);
    up(manager, conn->place - 1);
}

struct cm_conn *cm_heap_due(struct cm_manager *manager, uint64_t now)
{
    struct cm_conn *conn = manager->heap_count ? manager->heap[0] : NULL;

    if (!conn || conn->at > now)
        return NULL;
    cm_heap_set(conn, CM_NEVER);
    return conn;
}

uint64_t cm_heap_next(const struct cm_manager *manager)
{
    return manager->heap_count ? manager->heap[0]->at : CM_NEVER;
}

/* SPDX-License-Identifier: BSD-3-Clause
 * riomap, riounmap, riowrite: memory of one end that the other writes to. */
#include "rsockets.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* ---- the own memory ---- */

static bool overlaps(const struct rs_map *map, uint64_t offset, uint64_t length)
{
    return map->length && offset < map->offset + map->length && map->offset < offset + length;
}

/* A place for a mapping; the peer has told how many it keeps. */
static struct rs_local_map *free_place(struct rs_socket *socket)
{
    uint16_t most = socket->stream.peer.maps;
    struct rs_local_map *grown;

    for (uint16_t i = 0; i < socket->local_map_count; i++)
        if (!socket->local_maps[i].mr && socket->local_maps[i].told)
            return &socket->local_maps[i];
    if (socket->local_map_count == most)
        return NULL;
    grown = realloc(socket->local_maps, (socket->local_map_count + 1u) * sizeof(*grown));
    if (!grown)
        return NULL;
    socket->local_maps = grown;
    grown += socket->local_map_count++;
    *grown = (struct rs_local_map){ .told = true };
    return grown;
}

static int map_locked(struct rs_socket *socket, void *buf, size_t len, uint64_t offset)
{
    struct rs_local_map *place;
    struct ibv_mr *mr;

    /* the peer of an accepted rsocket is known before the connection is established */
    if (socket->state != RS_CONNECTED && socket->state != RS_ACCEPTING)
        return ENOTCONN;
    for (uint16_t i = 0; i < socket->local_map_count; i++)
        if (socket->local_maps[i].mr && overlaps(&socket->local_maps[i].map, offset, len))
            return EINVAL;
    place = free_place(socket);
    if (!place)
        return ENOMEM;
    mr = ibv_reg_mr(socket->id->pd, buf, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!mr)
        return errno;
    *place = (struct rs_local_map){
        .mr = mr,
        .map = { .offset = offset, .address = (uintptr_t)buf, .length = len, .stag = mr->rkey },
    };
    rs_stream_control(socket);
    return 0;
}

/* Memory for local use needs no mapping: riowrite copies. */
VB_PUBLIC off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
    VB_CALL;
    uint64_t from = offset == -1 ? (uintptr_t)buf : (uint64_t)offset;
    struct rs_socket *own;

    if (!buf || !len || flags || offset < -1 || checked_wraps(from, len))
        return rs_fail(EINVAL);
    if (prot != PROT_WRITE)
        return rs_fail(prot == PROT_NONE ? EOPNOTSUPP : EINVAL);
    own = rs_begin_call(socket);
    if (!own)
        return -1;
    rs_progress(own);
    return rs_end_call(socket, own, map_locked(own, buf, len, from)) ? -1 : (off_t)from;
}

static int unmap_locked(struct rs_socket *socket, const void *buf, size_t len)
{
    for (uint16_t i = 0; i < socket->local_map_count; i++) {
        struct rs_local_map *local = &socket->local_maps[i];

        if (!local->mr || local->map.address != (uintptr_t)buf || local->map.length != len)
            continue;
        if (ibv_dereg_mr(local->mr))
            return errno;
        *local = (struct rs_local_map){ 0 };
        rs_progress(socket);
        return 0;
    }
    return EINVAL;
}

VB_PUBLIC int riounmap(int socket, void *buf, size_t len)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);

    if (!own)
        return -1;
    return rs_end_call(socket, own, unmap_locked(own, buf, len));
}

/* ---- the peer's memory ---- */

/* The mapping of the offset; NULL: none. */
static const struct rs_map *find_map(const struct rs_socket *socket, uint64_t offset)
{
    if (!socket->stream.maps)
        return NULL;
    for (uint16_t i = 0; i < socket->options.maps; i++) {
        const struct rs_map *map = &socket->stream.maps[i];

        if (map->length && offset >= map->offset && offset - map->offset < map->length)
            return map;
    }
    return NULL;
}

static int write_part_locked(struct rs_socket *socket, const uint8_t *from, size_t left,
                             uint64_t offset, int flags, uint32_t *done)
{
    int error = rs_wait(socket, rs_can_write_map, rs_deadline(socket, flags));
    const struct rs_map *map;
    uint64_t inside;
    uint32_t room;
    uint8_t *at;

    *done = 0;
    if (!error)
        error = rs_write_error(socket);
    if (error)
        return error;
    map = find_map(socket, offset);
    if (!map)
        return EINVAL;
    inside = offset - map->offset;
    room = rs_stream_room(socket, false, &at);
    if (room > map->length - inside)
        room = (uint32_t)(map->length - inside);
    if (room > left)
        room = (uint32_t)left;
    memcpy(at, from, room);
    if (room && rs_stream_write_map(socket, room, map->address + inside, map->stag))
        *done = room;
    return 0;
}

VB_PUBLIC size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
    VB_CALL;
    struct rs_socket *own = rs_enter(socket);
    uint64_t to = (uint64_t)offset;
    size_t written = 0;
    uint32_t done;
    int error = 0;

    if (!own)
        return (size_t)-1;
    if (offset < 0 || (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)))
        error = EINVAL;
    pthread_mutex_lock(&own->writing);
    while (!error && written < count) {
        pthread_mutex_lock(&own->lock);
        error = write_part_locked(own, (const uint8_t *)buf + written, count - written,
                                  to + written, flags, &done);
        pthread_mutex_unlock(&own->lock);
        written += done;
    }
    pthread_mutex_unlock(&own->writing);
    rs_leave(socket);
    return error && !written ? (size_t)rs_fail(error) : written;
}

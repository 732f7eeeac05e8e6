/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection manager: listeners without a socket. Processes that share a listening socket, as
 * servers do that fork, accept from it themselves, each when its program waits for a connection.
 * What they accept is a start-up here as any other. So no process takes a peer out of the kernel's
 * queue that its program does not ask for.
 */
#include "cm.h"

static bool has_room(struct kal_listener *l)
{
    bool room;

    pthread_mutex_lock(&l->lifetime.lock);
    room = l->undecided + l->queued < l->backlog && l->half_open < l->half_open_max;
    pthread_mutex_unlock(&l->lifetime.lock);
    return room;
}

enum ri_status kal_listen_feed(struct kal_listener *listener, int fd)
{
    struct kal_listener *l = listener;
    const struct kal_cm *cm = l->rnic->cm;
    struct kal_connection *c;
    int error;

    if (!l->fed || cm->stream_ops->unfit(fd))
        return RI_ERR_INVALID_ARGUMENT;
    c = has_room(l) ? cm_connection_new(l->rnic, l->lane, NULL) : NULL;
    if (!c) {
        cm->stream_ops->abort_on_close(fd); /* the caller closes it: no answer to the peer */
        return RI_ERR_NO_RESOURCES;
    }
    pthread_mutex_lock(&c->lifetime.lock);
    error = cm->stream_ops->adopt(fd, &cm->options.stream, &c->stream.fd);
    pthread_mutex_unlock(&c->lifetime.lock);
    if (!error && cm_start_up(l, c))
        return RI_OK;
    if (error)
        cm->stream_ops->abort_on_close(fd);
    kal_connection_destroy(c);
    return error ? RI_ERR_NO_RESOURCES : RI_ERR_PERMISSION;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets as channels of set A: see rnicpi_channel.h. */
#include "rnicpi_channel.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURN 64 /* peers that a listener lets in before others have their turn */

/* ---- connections ---- */

/* No lock held, nobody is in `ready`. */
static void channel_gone(struct ri_watched *watched)
{
    struct ri_channel *channel = (struct ri_channel *)((char *)watched -
                                                       offsetof(struct ri_channel, watched));

    close(watched->fd);
    ri_set_a_closed(&channel->mem);
}

enum ri_status ri_channel_open(struct ri_channel *channel, int fd, uint32_t events,
                               ri_ready_fn ready)
{
    enum ri_status status;

    channel->watched.fd = fd;
    channel->watched.gone = channel_gone;
    channel->events = events;
    channel->awaits_room = false;
    status = ri_watched_add(&channel->mem.set->rnic->leaving, &channel->watched, events, ready,
                            channel);
    if (status == RI_OK)
        ri_set_a_opened(&channel->mem);
    return status;
}

void ri_channel_close(struct ri_mem_connection *c)
{
    struct ri_channel *channel = (struct ri_channel *)c;

    shutdown(channel->watched.fd, SHUT_RDWR);
    ri_unwatch_later(&c->set->rnic->leaving, &channel->watched);
}

static void watch_room(struct ri_channel *channel, bool await)
{
    const struct ri_host *host = channel->mem.set->rnic->host;

    if (await == channel->awaits_room || atomic_load(&channel->watched.leaving))
        return;
    channel->awaits_room = await;
    host->rewatch(host, channel->watched.watch, channel->events | (await ? EPOLLOUT : 0));
}

void ri_channel_await_room(struct ri_mem_connection *c)
{
    watch_room((struct ri_channel *)c, true);
}

void ri_channel_has_room(struct ri_mem_connection *c)
{
    watch_room((struct ri_channel *)c, false);
}

/* ---- listeners ---- */

static void let_in(struct ri_channel_listener *listener, int fd)
{
    struct ri_mem_connection *c = ri_set_a_incoming(listener->mem.set, &listener->mem);

    if (c &&
        ri_channel_open((struct ri_channel *)c, fd, listener->events, listener->ready) == RI_OK)
        return;
    close(fd);
    if (c)
        ri_set_a_drop(c);
}

static void listener_ready(void *arg, uint32_t events)
{
    struct ri_channel_listener *listener = arg;
    pthread_mutex_t *lock = &listener->mem.set->rnic->lock;
    int fd;

    (void)events;
    pthread_mutex_lock(lock);
    for (int i = 0; i < TURN && !atomic_load(&listener->watched.leaving); i++) {
        fd = accept4(listener->watched.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            break;
        let_in(listener, fd);
    }
    pthread_mutex_unlock(lock);
}

/* Not in the lane's next pass: the port is free for others when listen_destroy has returned. */
static void listener_end(struct ri_mem_listener *base)
{
    struct ri_channel_listener *listener = (struct ri_channel_listener *)base;
    const struct ri_host *host = base->set->rnic->host;

    host->unwatch(host, listener->watched.watch);
    close(listener->watched.fd);
    free(listener);
}

enum ri_status ri_channel_listen(struct ri_mem_listener *base, int fd, uint32_t events,
                                 ri_ready_fn ready)
{
    struct ri_channel_listener *listener = (struct ri_channel_listener *)base;

    listener->watched.fd = fd;
    base->end = listener_end;
    listener->events = events;
    listener->ready = ready;
    return ri_watched_add(&base->set->rnic->leaving, &listener->watched, EPOLLIN, listener_ready,
                          listener);
}

void ri_channel_unlisten(struct ri_mem_listener *base)
{
    struct ri_channel_listener *listener = (struct ri_channel_listener *)base;

    atomic_store(&listener->watched.leaving, true);
    shutdown(listener->watched.fd, SHUT_RDWR); /* who connects is refused from now on */
}

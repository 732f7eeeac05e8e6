/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The channel of a connection, as rnicpi_set_a.h asks for it: a UNIX socket with message boundaries
 * beside the rings. The active side makes the rings and sends them with its request. Whoever closes
 * its socket ends the connection: the other reads what its ring still has, and hears of it.
 */
#include "memory.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* No thread is in ready(). */
static void gone(struct ri_watched *watched)
{
    struct connection *c = (struct connection *)((char *)watched -
                                                 offsetof(struct connection, watched));

    close(watched->fd);
    ri_set_a_closed(&c->mem);
}

static void on_message(struct connection *c, const struct message *message, int *memory)
{
    if (message->bell)
        return;
    if (c->mem.state == RI_CM_GREETING && !c->mem.datagram && !shared_open(c, memory))
        ri_set_a_left(&c->mem);
    else
        ri_set_a_message(&c->mem, &message->cm);
}

/* The peer has closed its socket, or does not exist any more. */
static void on_end(struct connection *c)
{
    while (c->mem.state == RI_CM_CONNECTED && c->mem.qp && ring_in(&c->in))
        serve_qp((struct qp *)c->mem.qp);
    ri_set_a_left(&c->mem);
}

static void ready(void *arg, uint32_t events)
{
    struct connection *c = arg;
    struct ri_mem_rnic *rnic = c->mem.set->rnic;
    struct message message;
    int memory, got;

    (void)events;
    pthread_mutex_lock(&rnic->lock);
    while (!atomic_load(&c->watched.leaving)) {
        got = socket_receive(c->watched.fd, &message, &memory);
        if (got < 0)
            break;
        if (got)
            on_message(c, &message, &memory);
        else
            on_end(c);
        if (memory >= 0)
            close(memory);
    }
    pthread_mutex_unlock(&rnic->lock);
}

/* Watches the socket, which is the connection's from then on. Under the lock. */
static enum ri_status open_socket(struct connection *c, int fd)
{
    enum ri_status status;

    c->watched.fd = fd;
    c->watched.gone = gone;
    status = ri_watched_add(&c->mem.set->rnic->leaving, &c->watched, EPOLLIN | EPOLLRDHUP, ready,
                            c);
    if (status == RI_OK)
        ri_set_a_opened(&c->mem);
    return status;
}

void connection_accepted(struct listener *listener, int fd)
{
    struct ri_mem_connection *c = ri_set_a_incoming(&listener->rnic->set, &listener->mem);

    if (c && open_socket((struct connection *)c, fd) == RI_OK)
        return;
    close(fd);
    if (c)
        ri_set_a_drop(c);
}

/* ---- what rnicpi_set_a.h asks for ---- */

static bool carrier_send(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    const struct message whole = { .cm = *message };

    return socket_send(((struct connection *)c)->watched.fd, &whole, -1);
}

/* The peer sees the end at once; the descriptor is closed in the lane's next pass. */
static void carrier_close(struct ri_mem_connection *base)
{
    struct connection *c = (struct connection *)base;

    shutdown(c->watched.fd, SHUT_RDWR);
    ri_unwatch_later(&base->set->rnic->leaving, &c->watched);
}

static void carrier_release(struct ri_mem_connection *c)
{
    shared_close((struct connection *)c);
}

/* Rings, the request, and the socket watched. */
static enum ri_status introduce(struct connection *c, int fd, const struct ri_cm_message *request,
                                enum ri_connection_reason *reason)
{
    const struct message message = { .cm = *request };
    enum ri_status status = RI_OK;
    int memory = -1;

    if (!c->mem.datagram && !shared_open(c, &memory))
        status = RI_ERR_NO_RESOURCES;
    else if (!socket_send(fd, &message, memory))
        *reason = RI_REASON_REFUSED; /* the listener went meanwhile */
    else
        status = open_socket(c, fd);
    if (memory >= 0)
        close(memory);
    return status;
}

static enum ri_status carrier_start(struct ri_mem_connection *base, uint16_t port,
                                    const struct ri_cm_message *request,
                                    enum ri_connection_reason *reason)
{
    struct connection *c = (struct connection *)base;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    enum ri_status status = RI_OK;
    struct sockaddr_un name;
    socklen_t length = socket_name(&name, port, base->datagram);

    if (fd < 0)
        return RI_ERR_NO_RESOURCES;
    c->path = (struct ri_ah_attr){ .size = sizeof(c->path), .global = 1, .hop_limit = 1 };
    memcpy(c->path.destination_gid, own_gid, sizeof(own_gid));
    base->path = &c->path;
    if (connect(fd, (struct sockaddr *)&name, length))
        *reason = errno == ECONNREFUSED ? RI_REASON_REFUSED : RI_REASON_RESOURCES;
    else
        status = introduce(c, fd, request, reason);
    if (!base->open) {
        close(fd);
        shared_close(c);
    }
    return status;
}

static const struct sockaddr loopback = { .sa_family = AF_INET, .sa_data = { 0, 0, 127, 0, 0, 1 } };

const struct ri_carrier carrier = {
    .connection_size = sizeof(struct connection),
    .now = ri_now,
    .source = &loopback,
    .port_of = port_of,
    .start = carrier_start,
    .send = carrier_send,
    .close = carrier_close,
    .release = carrier_release,
};

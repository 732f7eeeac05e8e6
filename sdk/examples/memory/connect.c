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

static void on_message(struct connection *c, const struct message *message, int *memory)
{
    if (message->bell)
        return;
    if (c->channel.mem.state == RI_CM_GREETING && !c->channel.mem.datagram &&
        !shared_open(c, memory))
        ri_set_a_left(&c->channel.mem);
    else
        ri_set_a_message(&c->channel.mem, &message->cm);
}

/* The peer has closed its socket, or does not exist any more. */
static void on_end(struct connection *c)
{
    while (c->channel.mem.state == RI_CM_CONNECTED && c->channel.mem.qp && ring_in(&c->in))
        serve_qp((struct qp *)c->channel.mem.qp);
    ri_set_a_left(&c->channel.mem);
}

void connection_ready(void *arg, uint32_t events)
{
    struct connection *c = arg;
    struct ri_mem_rnic *rnic = c->channel.mem.set->rnic;
    struct message message;
    int memory, got;

    (void)events;
    pthread_mutex_lock(&rnic->lock);
    while (!atomic_load(&c->channel.watched.leaving)) {
        got = socket_receive(c->channel.watched.fd, &message, &memory);
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

/* ---- what rnicpi_set_a.h asks for ---- */

static bool carrier_send(struct ri_mem_connection *c, const struct ri_cm_message *message)
{
    const struct message whole = { .cm = *message };

    return socket_send(((struct ri_channel *)c)->watched.fd, &whole, -1);
}

static void carrier_flush(struct ri_mem_connection *base)
{
    struct connection *c = (struct connection *)base;

    ring_publish(c, &c->out);
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

    if (!c->channel.mem.datagram && !shared_open(c, &memory))
        status = RI_ERR_NO_RESOURCES;
    else if (!socket_send(fd, &message, memory))
        *reason = RI_REASON_REFUSED; /* the listener went meanwhile */
    else
        status = ri_channel_open(&c->channel, fd, EPOLLIN | EPOLLRDHUP, connection_ready);
    if (memory >= 0)
        close(memory);
    return status;
}

static enum ri_status carrier_start(struct ri_mem_connection *base, uint16_t port,
                                    struct ri_cm_message *request,
                                    enum ri_connection_reason *reason)
{
    struct connection *c = (struct connection *)base;
    uint16_t own = ri_address_port((const struct sockaddr *)&base->local);
    struct sockaddr_un name;
    socklen_t length = socket_name(&name, port, base->datagram);
    int fd = -1;
    enum ri_status status = socket_open(&own, base->datagram, &fd);

    if (status != RI_OK)
        return status;
    ri_set_a_from(base, request, own);
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
    .close = ri_channel_close,
    .release = carrier_release,
    .listener_size = sizeof(struct ri_channel_listener),
    .listen = socket_listen,
    .unlisten = ri_channel_unlisten,
    .qp_size = sizeof(struct qp),
    .put = rc_put,
    .flush = carrier_flush,
};

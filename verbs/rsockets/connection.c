/* SPDX-License-Identifier: BSD-3-Clause
 * An rsocket's id of rdma_cm: its events, connecting, accepting. */
#include "rsockets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Time-out of address and route resolution, milliseconds. */
#define RESOLVE_MS 2000
/* The event channel of a connection is read after so many calls without another change. */
#define QUIET 64u

/* ---- creating, freeing ---- */

static int watch(struct rs_socket *socket, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return epoll_ctl(socket->fd, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

/* A channel fails with ENOMEM for want of descriptors, too. */
static int shortage(struct rs_socket *socket, int error)
{
    int probe = error == ENOMEM ? dup(socket->fd) : -1;

    if (error == ENOMEM && probe < 0)
        return errno;
    if (probe >= 0)
        close(probe);
    return error;
}

/* The id becomes the rsocket's last: where this fails it is the caller's. */
static int make_id(struct rs_socket *socket, struct rdma_cm_id *id)
{
    int error;

    socket->channel = rdma_create_event_channel();
    if (!socket->channel)
        return shortage(socket, errno);
    if (fcntl(socket->channel->fd, F_SETFL, O_NONBLOCK))
        return errno;
    error = watch(socket, socket->channel->fd);
    if (error)
        return error;
    if (id ? rdma_migrate_id(id, socket->channel)
           : rdma_create_id(socket->channel, &socket->id, socket, RDMA_PS_TCP))
        return errno;
    if (id)
        socket->id = id;
    return 0;
}

struct rs_socket *rs_socket_new(int family, const struct rs_options *options, struct rdma_cm_id *id)
{
    struct rs_socket *socket = calloc(1, sizeof(*socket));
    int error;

    if (!socket)
        return NULL;
    socket->family = family;
    socket->process = rs_process();
    socket->options = *options;
    socket->requests_end = &socket->requests;
    pthread_mutex_init(&socket->reading, NULL);
    pthread_mutex_init(&socket->writing, NULL);
    pthread_mutex_init(&socket->lock, NULL);
    socket->fd = epoll_create1(EPOLL_CLOEXEC);
    error = socket->fd < 0 ? errno : make_id(socket, id);
    if (!error)
        return socket;
    rs_socket_free(socket);
    errno = error;
    return NULL;
}

static void refuse(struct rdma_cm_id *id)
{
    rdma_reject(id, NULL, 0);
    rdma_destroy_id(id);
}

static void free_maps(struct rs_socket *socket)
{
    for (uint16_t i = 0; i < socket->local_map_count; i++)
        if (socket->local_maps[i].mr)
            ibv_dereg_mr(socket->local_maps[i].mr);
    free(socket->local_maps);
}

void rs_socket_free(struct rs_socket *socket)
{
    struct rs_request *request;

    while ((request = socket->requests)) {
        socket->requests = request->next;
        refuse(request->id);
        free(request);
    }
    rs_stream_destroy(socket);
    free_maps(socket);
    if (socket->id)
        rdma_destroy_id(socket->id);
    if (socket->channel)
        rdma_destroy_event_channel(socket->channel);
    if (socket->fd >= 0)
        close(socket->fd);
    pthread_mutex_destroy(&socket->lock);
    pthread_mutex_destroy(&socket->writing);
    pthread_mutex_destroy(&socket->reading);
    free(socket);
}

/* ---- the buffers and their peer ---- */

static int make_stream(struct rs_socket *socket)
{
    int error = rs_stream_create(socket);

    if (!error)
        error = watch(socket, socket->stream.channel->fd);
    if (error)
        rs_stream_destroy(socket);
    return error;
}

/* Each end has one Read, that of its close. */
static struct rdma_conn_param conn_param(const struct rs_socket *socket,
                                         uint8_t hello[RS_HELLO_OCTETS])
{
    rs_stream_hello(socket, hello);
    return (struct rdma_conn_param){ .private_data = hello,
                                     .private_data_len = RS_HELLO_OCTETS,
                                     .responder_resources = 1,
                                     .initiator_depth = 1,
                                     .retry_count = 7,
                                     .rnr_retry_count = 7 };
}

int rs_connection_ask(struct rs_socket *socket, struct sockaddr *to)
{
    return rdma_resolve_addr(socket->id, NULL, to, RESOLVE_MS) ? errno : 0;
}

static int connect_now(struct rs_socket *socket)
{
    uint8_t hello[RS_HELLO_OCTETS];
    struct rdma_conn_param param;
    int error = make_stream(socket);

    if (error)
        return error;
    param = conn_param(socket, hello);
    return rdma_connect(socket->id, &param) ? errno : 0;
}

static void on_established(struct rs_socket *socket, const struct rdma_cm_event *event)
{
    const struct rdma_conn_param *conn = &event->param.conn;
    struct rs_hello peer;
    int error = 0;

    /* a wrong message may have come before this event */
    if (socket->state == RS_ENDED)
        return;
    if (socket->state == RS_CONNECTING) {
        if (rs_hello_decode(conn->private_data, conn->private_data_len, &peer)) {
            rs_stream_meet(socket, &peer);
        } else {
            ual_log(RI_LOG_WARNING, "rsockets: the peer accepted, but does not speak this "
                                    "protocol: is it an rsocket of ital's?");
            error = EPROTO;
        }
    }
    if (error) {
        rs_end(socket, error);
        return;
    }
    socket->state = RS_CONNECTED;
    ual_log(RI_LOG_INFO, "rsockets: descriptor %d is connected", socket->fd);
}

/* ---- listening ---- */

static void on_request(struct rs_socket *socket, const struct rdma_cm_event *event)
{
    const struct rdma_conn_param *conn = &event->param.conn;
    struct rs_request *request = NULL;
    struct rs_hello peer;

    if (!rs_hello_decode(conn->private_data, conn->private_data_len, &peer))
        ual_log(RI_LOG_WARNING, "rsockets: a connect request is rejected: it is none of an rsocket "
                                "of ital's");
    else if (socket->waiting < socket->backlog)
        request = calloc(1, sizeof(*request));
    else
        ual_log(RI_LOG_WARNING,
                "rsockets: a connect request is rejected: %d wait already, as many as the backlog "
                "of rlisten; accept faster, or give more",
                socket->waiting);
    if (!request) {
        refuse(event->id);
        socket->in_vain++;
        return;
    }
    request->id = event->id;
    request->hello = peer;
    *socket->requests_end = request;
    socket->requests_end = &request->next;
    socket->waiting++;
}

static struct rs_request *take_request(struct rs_socket *socket, struct rs_request **link)
{
    struct rs_request *request = *link;

    *link = request->next;
    if (!*link)
        socket->requests_end = link;
    socket->waiting--;
    return request;
}

/* The peer of a request that nobody took has gone. */
static void on_request_gone(struct rs_socket *socket, const struct rdma_cm_id *id)
{
    for (struct rs_request **link = &socket->requests; *link; link = &(*link)->next) {
        struct rs_request *request;

        if ((*link)->id != id)
            continue;
        request = take_request(socket, link);
        rdma_destroy_id(request->id);
        free(request);
        socket->in_vain++;
        return;
    }
}

static int accept_now(struct rs_socket *socket, const struct rs_hello *peer)
{
    uint8_t hello[RS_HELLO_OCTETS];
    struct rdma_conn_param param;
    int error = make_stream(socket);

    if (error)
        return error;
    rs_stream_meet(socket, peer);
    param = conn_param(socket, hello);
    socket->state = RS_ACCEPTING;
    return rdma_accept(socket->id, &param) ? ECONNABORTED : 0;
}

struct rs_socket *rs_connection_accept(struct rs_socket *listener)
{
    struct rs_options options = listener->options;
    struct rs_request *request;
    struct rs_socket *made;
    int error;

    if (!listener->requests) {
        errno = EAGAIN;
        return NULL;
    }
    request = take_request(listener, &listener->requests);
    options.nonblocking = false;
    made = rs_socket_new(listener->family, &options, request->id);
    if (!made) {
        error = errno;
        refuse(request->id);
        free(request);
        errno = error;
        return NULL;
    }
    error = accept_now(made, &request->hello);
    free(request);
    if (!error)
        return made;
    if (error != ECONNABORTED)
        rdma_reject(made->id, NULL, 0);
    rs_socket_free(made);
    errno = error;
    return NULL;
}

/* ---- events ---- */

/* In order, if the peer had said that it closes. */
static void on_disconnected(struct rs_socket *socket)
{
    while (rs_stream_poll(socket)) /* what came before the end */
        ;
    rs_end(socket, socket->stream.fin_received ? 0 : ECONNRESET);
}

static void on_failure(struct rs_socket *socket, const struct rdma_cm_event *event)
{
    int error = event->status < 0 ? -event->status : event->status;

    if (event->event == RDMA_CM_EVENT_REJECTED)
        error = ECONNREFUSED;
    rs_end(socket, error ? error : ECONNABORTED);
}

static void on_step(struct rs_socket *socket, int error)
{
    if (error)
        rs_end(socket, error);
}

static void on_event(struct rs_socket *socket, const struct rdma_cm_event *event)
{
    if (event->id != socket->id && event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        on_request_gone(socket, event->id);
        return;
    }
    if (socket->state == RS_LISTENING && event->event == RDMA_CM_EVENT_CONNECT_ERROR) {
        socket->in_vain++;
        return;
    }
    switch (event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: on_request(socket, event); break;
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        on_step(socket, rdma_resolve_route(socket->id, RESOLVE_MS) ? errno : 0);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: on_step(socket, connect_now(socket)); break;
    case RDMA_CM_EVENT_ESTABLISHED: on_established(socket, event); break;
    case RDMA_CM_EVENT_DISCONNECTED: on_disconnected(socket); break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: rs_end(socket, ENODEV); break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED: on_failure(socket, event); break;
    default: break;
    }
}

/* An event is acknowledged before what follows from it: an id cannot be destroyed before. */
bool rs_connection_events(struct rs_socket *socket)
{
    struct rdma_cm_event *event, copy;
    uint8_t data[UINT8_MAX];
    bool changed = false;

    while (!rdma_get_cm_event(socket->channel, &event)) {
        copy = *event;
        if (copy.param.conn.private_data) {
            memcpy(data, copy.param.conn.private_data, copy.param.conn.private_data_len);
            copy.param.conn.private_data = data;
        }
        rdma_ack_cm_event(event);
        on_event(socket, &copy);
        changed = true;
    }
    return changed;
}

static bool due(struct rs_socket *socket)
{
    if (socket->state == RS_CONNECTED && !socket->ask_cm && socket->quiet < QUIET)
        return false;
    socket->ask_cm = false;
    socket->quiet = 0;
    return socket->state > RS_BOUND;
}

void rs_progress(struct rs_socket *socket)
{
    bool changed = rs_stream_poll(socket);

    socket->quiet = changed ? 0 : socket->quiet + 1;
    if (due(socket) && rs_connection_events(socket))
        changed = true;
    rs_stream_control(socket);
    if (changed)
        rs_wake(socket);
}

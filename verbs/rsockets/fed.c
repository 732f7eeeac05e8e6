/* SPDX-License-Identifier: BSD-3-Clause
 * Listeners that are given streams, and the same ones in the child of a fork. */
#include "fed.h"
#include "rsockets.h"

#include "verbs/rdmacm/listen.h"

#include <poll.h>
#include <unistd.h>

/* An honest peer sends its request at once. A peer that does not is ended, and told of soon
 * after. */
#define GRACE_NS (500 * CLOCK_NS_PER_MS)
#define END_NS   (10 * CLOCK_NS_PER_S)

bool vb_rsocket_can_be_fed(const struct sockaddr *address)
{
    VB_CALL;

    return rcm_can_be_fed(address);
}

static int listen_fed(struct rs_socket *socket, const struct sockaddr *address, int backlog)
{
    int error = rcm_listen_fed(socket->id, address, backlog);

    if (error)
        return error;
    rcm_listen_advise(socket->id,
                      "only clients with rsockets may use this port; start the client by 'ital-run "
                      "--rsockets'");
    socket->backlog = backlog > 0 ? backlog : 1;
    socket->fed = true;
    socket->state = RS_LISTENING;
    return 0;
}

/* The id holds its address by a socket of its own: another id takes its place. */
static int release_address(struct rs_socket *socket)
{
    struct rdma_cm_id *fresh;

    if (socket->state != RS_BOUND)
        return 0;
    if (rdma_create_id(socket->channel, &fresh, socket, RDMA_PS_TCP))
        return errno;
    rdma_destroy_id(socket->id);
    socket->id = fresh;
    socket->state = RS_NEW;
    return 0;
}

int vb_rsocket_listen_fed(int socket, const struct sockaddr *address, int backlog)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);
    int error;

    if (!own)
        return -1;
    error = own->state == RS_NEW || own->state == RS_BOUND ? release_address(own) : EINVAL;
    if (!error)
        error = listen_fed(own, address, backlog);
    return rs_end_call(socket, own, error);
}

int vb_rsocket_listen_again(int socket)
{
    VB_CALL;
    const struct rs_socket *of_parent = rs_of_parent(socket);
    struct rs_socket *made;
    int error;

    if (!of_parent || !of_parent->fed)
        return rs_fail(EINVAL);
    made = rs_socket_new(of_parent->family, &of_parent->options, NULL);
    if (!made)
        return -1;
    error = listen_fed(made, &of_parent->id->route.addr.src_addr, of_parent->backlog);
    if (!error)
        error = rs_table_add(made);
    if (error) {
        rs_socket_free(made);
        return rs_fail(error);
    }
    rclose(socket);
    return made->fd;
}

/* Under the lock, which is released in between. */
static void await_event(struct rs_socket *socket, uint64_t deadline)
{
    struct pollfd fd = { .fd = socket->channel->fd, .events = POLLIN };

    pthread_mutex_unlock(&socket->lock);
    poll(&fd, 1, clock_poll_ms(clock_now(), deadline));
    pthread_mutex_lock(&socket->lock);
}

/* Under `reading` and the lock: the next request, or the next stream in vain, is of this one. */
static struct rs_socket *accept_stream(struct rs_socket *socket, int stream)
{
    uint64_t deadline = clock_after(clock_now(), GRACE_NS);
    bool ended = false;
    int error = rcm_listen_feed(socket->id, stream);

    while (!error) {
        rs_connection_events(socket);
        if (socket->requests)
            return rs_connection_accept(socket);
        if (socket->in_vain) {
            socket->in_vain--;
            error = ECONNABORTED;
        } else if (clock_now() < deadline) {
            await_event(socket, deadline);
        } else if (!ended) {
            ended = true;
            rcm_fed_stream_end(stream);
            deadline = clock_after(clock_now(), END_NS);
        } else {
            error = ECONNABORTED;
        }
    }
    errno = error == EACCES ? ECONNABORTED : error;
    return NULL;
}

int vb_rsocket_accept_fed(int socket, int stream)
{
    VB_CALL;
    struct rs_socket *own = rs_enter(socket), *made = NULL;
    int error;

    if (!own)
        return -1;
    pthread_mutex_lock(&own->reading);
    pthread_mutex_lock(&own->lock);
    errno = EINVAL;
    if (own->fed)
        made = accept_stream(own, stream);
    error = errno;
    pthread_mutex_unlock(&own->lock);
    pthread_mutex_unlock(&own->reading);
    rs_leave(socket);
    if (!made)
        return rs_fail(error);
    error = rs_table_add(made);
    if (!error)
        return made->fd;
    rs_socket_free(made);
    return rs_fail(error);
}

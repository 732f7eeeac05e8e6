/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rshutdown, rclose.
 *
 * An end closes in this order: CLOSE, and behind it a Read of the peer's memory. The answer to the
 * Read shows that the peer has all octets and the CLOSE, though its program may not have called
 * for them. So a message of the peer that arrives after the disconnect, and resets the connection,
 * takes nothing from the peer. If both close at the same time, FIN and END may be there earlier.
 * A peer that is stopped, or cannot be reached, does not answer: then the end disconnects after a
 * while.
 */
#include "repoll.h"
#include "rsockets.h"

#include <unistd.h>

#define LINGER_NS (5 * CLOCK_NS_PER_S)

VB_PUBLIC int rshutdown(int socket, int how)
{
    VB_CALL;
    struct rs_socket *own = rs_begin_call(socket);
    int error = 0;

    if (!own)
        return -1;
    rs_progress(own);
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        error = EINVAL;
    else if (own->state != RS_CONNECTED && own->state != RS_ENDED && own->state != RS_LISTENING)
        error = ENOTCONN;
    if (!error && how != SHUT_WR)
        own->read_shut = true;
    if (!error && how != SHUT_RD)
        own->stream.fin_wanted = true;
    rs_progress(own);
    rs_wake(own);
    return rs_end_call(socket, own, error);
}

static bool has_ended(const struct rs_socket *socket)
{
    return socket->state == RS_ENDED;
}

static bool is_finished(const struct rs_socket *socket)
{
    const struct rs_stream *stream = &socket->stream;

    return has_ended(socket) || stream->read_done ||
           (stream->end_sent && stream->end_received && rs_stream_idle(socket));
}

/* A signal does not shorten the end. */
static void await(struct rs_socket *socket, bool (*ready)(const struct rs_socket *),
                  uint64_t deadline)
{
    while (rs_wait(socket, ready, deadline) == EINTR)
        ;
}

static bool is_established(const struct rs_socket *socket)
{
    return socket->state != RS_ACCEPTING;
}

static void finish(struct rs_socket *socket, uint64_t deadline)
{
    await(socket, is_established, deadline);
    if (socket->state != RS_CONNECTED)
        return;
    socket->stream.close_wanted = true;
    /* a peer that closes at the same time may end the connection before it answers the Read */
    atomic_store(&vb_qp_of(socket->id->qp)->aborts, true);
    rs_progress(socket);
    rs_stream_read_peer(socket);
    await(socket, is_finished, deadline);
    if (socket->state != RS_CONNECTED || rdma_disconnect(socket->id))
        return;
    socket->ask_cm = true;
    await(socket, has_ended, deadline);
}

VB_PUBLIC int rclose(int socket)
{
    VB_CALL;
    struct rs_socket *own;
    uint64_t ns = LINGER_NS;

    if (!rs_is_rsocket(socket) && rs_repoll_close(socket))
        return 0;
    own = rs_table_remove(socket);
    if (!own && errno == EOPNOTSUPP)
        return close(socket);
    if (!own)
        return -1;
    rs_repoll_forget(socket);
    own->closing = false;
    if (own->options.linger.l_onoff)
        ns = (uint64_t)own->options.linger.l_linger * CLOCK_NS_PER_S;
    pthread_mutex_lock(&own->lock);
    if (ns)
        finish(own, clock_after(clock_now(), ns));
    pthread_mutex_unlock(&own->lock);
    rs_socket_free(own);
    return 0;
}

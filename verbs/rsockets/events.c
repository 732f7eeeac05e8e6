/* SPDX-License-Identifier: BSD-3-Clause
 * What an rsocket is ready for. */
#include "rsockets.h"

#include <poll.h>

/* A read, an accept, or what reports an error or the end does not wait. */
bool rs_can_read(const struct rs_socket *socket)
{
    switch (socket->state) {
    case RS_LISTENING: return socket->requests || socket->read_shut;
    case RS_CONNECTED:
        return socket->stream.filled || socket->stream.fin_received || socket->read_shut;
    case RS_CONNECTING:
    case RS_ACCEPTING: return socket->read_shut;
    case RS_NEW:
    case RS_BOUND:
    case RS_ENDED: break;
    }
    return true;
}

static bool writes_fail(const struct rs_stream *stream)
{
    return stream->fin_wanted || stream->close_received;
}

bool rs_can_write(const struct rs_socket *socket)
{
    uint8_t *at;

    if (socket->state == RS_CONNECTING || socket->state == RS_ACCEPTING)
        return false;
    return socket->state != RS_CONNECTED || writes_fail(&socket->stream) ||
           rs_stream_room(socket, true, &at);
}

bool rs_can_write_map(const struct rs_socket *socket)
{
    uint8_t *at;

    return rs_can_write(socket) || rs_stream_room(socket, false, &at);
}

int rs_write_error(struct rs_socket *socket)
{
    int error = socket->error;

    switch (socket->state) {
    case RS_NEW:
    case RS_BOUND:
    case RS_LISTENING: return ENOTCONN;
    case RS_ENDED: socket->error = 0; return error ? error : EPIPE;
    case RS_CONNECTING:
    case RS_ACCEPTING: return EAGAIN;
    case RS_CONNECTED: break;
    }
    return writes_fail(&socket->stream) ? EPIPE : 0;
}

/* Programs take POLLHUP for the end although octets are left to be read. */
static int hang_up(const struct rs_socket *socket)
{
    return socket->stream.filled ? 0 : POLLHUP;
}

short rs_events(const struct rs_socket *socket)
{
    int events = 0;

    switch (socket->state) {
    case RS_NEW:
    case RS_BOUND: return POLLOUT | POLLHUP;
    case RS_LISTENING: return rs_can_read(socket) ? POLLIN | POLLRDNORM : 0;
    case RS_ENDED:
        return (short)(POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | hang_up(socket) |
                       (socket->error ? POLLERR : 0));
    case RS_CONNECTING:
    case RS_ACCEPTING:
    case RS_CONNECTED: break;
    }
    if (rs_can_read(socket))
        events |= POLLIN | POLLRDNORM;
    if (rs_can_write(socket))
        events |= POLLOUT | POLLWRNORM;
    if (socket->stream.fin_received)
        events |= POLLRDHUP;
    if (socket->stream.fin_received && writes_fail(&socket->stream))
        events |= hang_up(socket);
    return (short)events;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer's stream during start-up: reading and writing, with copies for the capture. */
#include "stream.h"
#include "mpa_startup.h"

#include <errno.h>

void cm_addresses(struct cm_stream *stream)
{
    stream->ops->addresses(stream->fd, &stream->local, &stream->peer);
}

void cm_capture_end(struct cm_stream *stream)
{
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_CLOSE);
    stream->capture = NULL;
}

int cm_send_end(struct cm_stream *stream)
{
    int error;

    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    error = stream->ops->finish(stream->fd);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_FIN);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
    return error ? -1 : 0;
}

void cm_reset_on_close(struct cm_stream *stream)
{
    stream->ops->abort_on_close(stream->fd);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RST);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
}

/* The capture ends first: the peer may react at once to the close. */
void cm_stream_close(struct cm_stream *stream, bool copies)
{
    if (stream->fd < 0)
        return;
    cm_capture_end(stream);
    if (copies)
        stream->ops->shut(stream->fd);
    stream->ops->close(stream->fd);
    stream->fd = -1;
}

ssize_t cm_read(struct cm_stream *stream)
{
    ssize_t got = stream->ops->receive(stream->fd, stream->octets + stream->length,
                                       MPA_STARTUP_FRAME_MAX - stream->length);

    if (got > 0) {
        kal_capture_octets(stream->capture, RI_RECEIVE, stream->octets + stream->length,
                           (size_t)got);
        stream->length += (uint32_t)got;
    } else if (got == 0) {
        kal_capture_mark(stream->capture, RI_RECEIVE, RI_CAPTURE_FIN);
    } else if (errno == ECONNRESET) {
        kal_capture_mark(stream->capture, RI_RECEIVE, RI_CAPTURE_RST);
        errno = ECONNRESET;
    }
    return got;
}

int cm_heard(const struct cm_stream *stream)
{
    ssize_t got = stream->ops->peek(stream->fd);

    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    return got > 0 ? 1 : -1;
}

static ssize_t send_some(struct cm_stream *stream, const uint8_t *octets, size_t length)
{
    ssize_t n;
    int error;

    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_HOLD);
    n = stream->ops->send(stream->fd, octets, length);
    error = errno;
    if (n > 0)
        kal_capture_octets(stream->capture, RI_TRANSMIT, octets, (size_t)n);
    kal_capture_mark(stream->capture, RI_TRANSMIT, RI_CAPTURE_RELEASE);
    errno = error;
    return n;
}

/* The system's lack of memory passes, like a full socket. */
static bool is_for_now(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

int cm_write(struct cm_stream *stream, const uint8_t *octets, size_t length, size_t *sent)
{
    while (*sent < length) {
        ssize_t n = send_some(stream, octets + *sent, length - *sent);

        if (n >= 0)
            *sent += (size_t)n;
        else
            return is_for_now(errno) ? 0 : -1;
    }
    return 1;
}

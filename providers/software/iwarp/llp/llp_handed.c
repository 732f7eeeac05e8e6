/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lower layer: a stream that the host hands over with its table (struct ri_stream_ops). What it
 * does not tell, what the peer has acknowledged, is not looked at (ack_timeout).
 */
#include "connection.h"

#include <errno.h>

static ssize_t handed_send(struct stream *stream, const struct iovec *iov, int count)
{
    return stream->handed.ops->send(stream->handed.stream, iov, count);
}

static ssize_t handed_receive(struct stream *stream, void *buffer, size_t length)
{
    return stream->handed.ops->receive(stream->handed.stream, buffer, length);
}

/* A stream may count in units of its own: below this an FPDU has no room for a header. */
#define SEGMENT_LEAST 128u

static uint32_t handed_emss(struct stream *stream)
{
    uint32_t octets = stream->handed.ops->segment(stream->handed.stream);

    return octets < SEGMENT_LEAST ? SEGMENT_LEAST : octets;
}

static void handed_finish(struct stream *stream)
{
    stream->handed.ops->finish(stream->handed.stream);
}

static void handed_close(struct stream *stream, bool reset)
{
    stream->handed.ops->close(stream->handed.stream, reset);
    stream->fd = -1;
}

const struct llp_ops llp_handed = {
    .send = handed_send,
    .receive = handed_receive,
    .emss = handed_emss,
    .finish = handed_finish,
    .close = handed_close,
};

bool llp_may_carry(const struct ri_stream_ops *ops)
{
    return ops->size >= sizeof(*ops) && ops->send && ops->receive && ops->segment && ops->finish &&
           ops->close;
}

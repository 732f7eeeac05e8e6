/* SPDX-License-Identifier: BSD-3-Clause */
/* A lower layer that notes what is written: see noted.h. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "noted.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct wire wires[2];
size_t noted_takes = SIZE_MAX;
uint32_t noted_emss = 1460;

static struct wire *wire_of(struct stream *stream)
{
    struct wire *wire = wires;

    if (wire->stream && wire->stream != stream)
        wire++;
    wire->stream = stream;
    return wire;
}

/* Batches are described in their own memory, lone posts are not. */
static bool is_batch(struct stream *stream, const struct iovec *iov)
{
    const struct qp *qp = stream->qp;

    return !qp || (iov >= qp->batch.iov && iov < qp->batch.iov + TX_IOV);
}

static ssize_t note_send(struct stream *stream, const struct iovec *iov, int count)
{
    struct wire *wire = wire_of(stream);
    size_t taken = 0;

    wire->writes++;
    wire->alone += !is_batch(stream, iov);
    if (!noted_takes)
        return -EAGAIN;
    for (int i = 0; i < count && taken < noted_takes; i++) {
        size_t left = noted_takes - taken, part = iov[i].iov_len < left ? iov[i].iov_len : left;

        ck_assert_uint_le(wire->used + part, NOTED_ROOM);
        memcpy(wire->octets + wire->used, iov[i].iov_base, part);
        wire->used += part;
        taken += part;
    }
    if (wire->writes == 1)
        wire->first = taken;
    return (ssize_t)taken;
}

static ssize_t note_receive(struct stream *stream, void *buffer, size_t length)
{
    (void)buffer, (void)length;
    return stream->state == STREAM_CLOSING ? 0 : -EAGAIN; /* the peer hangs up too */
}

static uint32_t note_emss(struct stream *stream)
{
    (void)stream;
    return noted_emss;
}

static void note_finish(struct stream *stream)
{
    (void)stream;
}

static void note_close(struct stream *stream, bool reset)
{
    (void)reset;
    close(stream->fd);
}

const struct llp_ops noted = { note_send, note_receive, note_emss, note_finish, note_close };

/* SPDX-License-Identifier: BSD-3-Clause */
/* A lower layer that records writes: see recording_llp.h. */
#include "recording_llp.h"

#include "iwarp_over.h"

struct recorded_wire wires[2];
size_t recording_takes = SIZE_MAX;
uint32_t recording_emss = 1460;
void (*recording_meanwhile)(void);

static struct recorded_wire *wire_of(struct stream *stream)
{
    struct recorded_wire *wire = wires;

    if (wire->stream && wire->stream != stream)
        wire++;
    wire->stream = stream;
    return wire;
}

/* The iovecs of a batch are in the batch's own memory, those of a lone post are not. */
static bool is_batch(struct stream *stream, const struct iovec *iov)
{
    const struct iwarp_qp *qp = stream->qp;

    return !qp || (iov >= qp->tx.batch.iov && iov < qp->tx.batch.iov + TX_IOV);
}

static ssize_t record_send(struct stream *stream, const struct iovec *iov, int count)
{
    struct recorded_wire *wire = wire_of(stream);
    size_t taken = 0;

    void (*meanwhile)(void) = recording_meanwhile;

    recording_meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    wire->writes++;
    wire->alone += !is_batch(stream, iov);
    if (!recording_takes)
        return -EAGAIN;
    for (int i = 0; i < count && taken < recording_takes; i++) {
        size_t left = recording_takes - taken, part = iov[i].iov_len < left ? iov[i].iov_len : left;

        ck_assert_uint_le(wire->used + part, RECORDING_ROOM);
        memcpy(wire->octets + wire->used, iov[i].iov_base, part);
        wire->used += part;
        taken += part;
    }
    if (wire->writes <= RECORDING_WRITES)
        wire->ends[wire->writes - 1] = wire->used;
    return (ssize_t)taken;
}

static ssize_t record_receive(struct stream *stream, void *buffer, size_t length)
{
    struct recorded_wire *wire = wire_of(stream);
    size_t octets = wire->arriving_octets;

    if (!octets)
        return stream->state == STREAM_CLOSING ? 0 : -EAGAIN; /* the peer hangs up too */
    ck_assert_uint_le(octets, length);
    memcpy(buffer, wire->arriving, octets);
    wire->arriving_octets = 0;
    return (ssize_t)octets;
}

static uint32_t record_emss(struct stream *stream)
{
    struct recorded_wire *wire = wire_of(stream);

    ck_assert_uint_lt(wire->answer_count, RECORDING_ANSWERS);
    wire->answers[wire->answer_count].at = wire->used;
    wire->answers[wire->answer_count++].emss = recording_emss;
    return recording_emss;
}

uint32_t recording_emss_at(const struct recorded_wire *wire, size_t at)
{
    uint32_t i = 0;

    while (i + 1 < wire->answer_count && wire->answers[i + 1].at <= at)
        i++;
    return wire->answers[i].emss;
}

static void record_finish(struct stream *stream)
{
    (void)stream;
}

static void record_close(struct stream *stream, bool reset)
{
    (void)reset;
    close(stream->fd);
}

const struct llp_ops recording_llp = { record_send,  record_receive, record_emss, record_finish,
                                       record_close, NULL,           NULL };

int recording_start(struct side *side, bool crc, uint16_t ird, uint16_t ord)
{
    struct ri_llp_handover handover = { .size = sizeof(handover),
                                        .initiator = true,
                                        .mpa_revision = 2,
                                        .crc = crc,
                                        .ird = ird,
                                        .ord = ord };
    int fds[2];

    testbed_tcp(fds, 0);
    handover.fd = fds[0];
    ck_assert_int_eq(iwarp_over(qp_of(side), &handover, &recording_llp), RI_OK);
    return fds[1];
}

void recording_expect_same(void)
{
    struct recorded_wire *one = &wires[0], *other = &wires[1];
    size_t from = one->compared <= one->used ? one->compared : 0;

    ck_assert_uint_eq(one->used, other->used);
    ck_assert(!memcmp(one->octets + from, other->octets + from, one->used - from));
    one->compared = one->used;
}

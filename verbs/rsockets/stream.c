/* SPDX-License-Identifier: BSD-3-Clause
 * A connection's buffers and queue pair. */
#include "rsockets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

void rs_end(struct rs_socket *socket, int error)
{
    if (socket->state == RS_ENDED)
        return;
    socket->state = RS_ENDED;
    socket->error = error;
    rs_wake(socket);
}

/* No more than the device has. A message needs up to two requests. */
static int fit_device(struct rs_socket *socket)
{
    struct rs_options *options = &socket->options;
    struct ibv_device_attr attr;
    uint32_t most;
    int error = ibv_query_device(socket->id->verbs, &attr);

    if (error)
        return error;
    most = attr.max_qp_wr > 0 ? (uint32_t)attr.max_qp_wr : 0;
    if (options->send_messages > most / 2)
        options->send_messages = most / 2;
    if (options->receive_messages > most)
        options->receive_messages = most;
    return options->send_messages < RS_MESSAGES_LEAST ||
                   options->receive_messages < RS_MESSAGES_LEAST
               ? ENOMEM
               : 0;
}

static int make_buffers(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;
    const struct rs_options *options = &socket->options;
    size_t receives = (size_t)options->receive_messages * RS_SLOT_OCTETS;
    size_t sends = (size_t)options->send_messages * RS_SLOT_OCTETS;
    size_t local = receives + sends + options->send_size;
    size_t ring = (size_t)options->ring_size + RS_BEHIND_RING;

    stream->memory = calloc(1, ring + local);
    stream->releases = calloc(options->send_messages, sizeof(*stream->releases));
    /* a peer's mapping may arrive before the event that the connection is established */
    stream->maps = calloc(options->maps + 1u, sizeof(*stream->maps));
    if (!stream->memory || !stream->releases || !stream->maps)
        return ENOMEM;
    stream->ring = stream->memory;
    stream->receive_slots = stream->ring + ring;
    stream->send_slots = stream->receive_slots + receives;
    stream->send_buffer = stream->send_slots + sends;
    /* an iWARP adapter places the answer to a Read as it places a Write */
    stream->ring_mr = ibv_reg_mr(socket->id->pd, stream->ring, ring,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                     IBV_ACCESS_REMOTE_READ);
    if (!stream->ring_mr)
        return errno;
    stream->local_mr = ibv_reg_mr(socket->id->pd, stream->receive_slots, local,
                                  IBV_ACCESS_LOCAL_WRITE);
    return stream->local_mr ? 0 : errno;
}

static int make_qp(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;
    const struct rs_options *options = &socket->options;
    struct ibv_qp_init_attr attr = {
        .cap = { .max_send_wr = 2 * options->send_messages,
                 .max_recv_wr = options->receive_messages,
                 .max_send_sge = 1,
                 .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC,
    };

    stream->channel = ibv_create_comp_channel(socket->id->verbs);
    if (!stream->channel || fcntl(stream->channel->fd, F_SETFL, O_NONBLOCK))
        return errno;
    stream->cq = ibv_create_cq(socket->id->verbs,
                               (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr), socket,
                               stream->channel, 0);
    if (!stream->cq)
        return errno;
    attr.send_cq = attr.recv_cq = stream->cq;
    return rdma_create_qp(socket->id, socket->id->pd, &attr) ? errno : 0;
}

static int post_receives(struct rs_socket *socket)
{
    struct ibv_sge sge = { .length = RS_SLOT_OCTETS, .lkey = socket->stream.local_mr->lkey };
    struct ibv_recv_wr *bad, request = { .sg_list = &sge, .num_sge = 1 };
    int error = 0;

    for (uint32_t i = 0; !error && i < socket->options.receive_messages; i++) {
        request.wr_id = i;
        sge.addr = (uintptr_t)(socket->stream.receive_slots + (size_t)i * RS_SLOT_OCTETS);
        error = ibv_post_recv(socket->id->qp, &request, &bad);
    }
    return error;
}

int rs_stream_create(struct rs_socket *socket)
{
    int error = fit_device(socket);

    if (!error)
        error = make_buffers(socket);
    if (!error)
        error = make_qp(socket);
    if (!error)
        error = post_receives(socket);
    if (error)
        rs_stream_destroy(socket);
    return error;
}

void rs_stream_destroy(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;

    if (socket->id && socket->id->qp)
        rdma_destroy_qp(socket->id);
    if (stream->cq)
        ibv_destroy_cq(stream->cq);
    if (stream->channel)
        ibv_destroy_comp_channel(stream->channel);
    if (stream->ring_mr)
        ibv_dereg_mr(stream->ring_mr);
    if (stream->local_mr)
        ibv_dereg_mr(stream->local_mr);
    free(stream->maps);
    free(stream->releases);
    free(stream->memory);
    *stream = (struct rs_stream){ 0 };
}

void rs_stream_hello(const struct rs_socket *socket, uint8_t octets[RS_HELLO_OCTETS])
{
    const struct rs_hello hello = {
        .maps = socket->options.maps,
        .messages = socket->options.receive_messages,
        .ring_size = socket->options.ring_size,
        .ring_stag = socket->stream.ring_mr->rkey,
        .ring_address = (uintptr_t)socket->stream.ring,
    };

    rs_hello_encode(&hello, octets);
}

void rs_stream_meet(struct rs_socket *socket, const struct rs_hello *peer)
{
    socket->stream.peer = *peer;
}

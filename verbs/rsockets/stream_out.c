/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an end sends: octets of the stream, octets for mappings, messages. Each request that is
 * signalled has a slot for its message; slots are used in turn.
 */
#include "rsockets.h"
#include "base/minmax.h"

#include <string.h>

/* The largest part that is sent at once: the peer can read it while the next is written. */
#define PART_MOST 65536u

/* Messages that may be sent: receives that the peer has left, and slots of the own send queue. */
static uint32_t messages_left(const struct rs_socket *socket)
{
    const struct rs_stream *stream = &socket->stream;

    return min_u32(stream->peer.messages - (stream->sent_messages - stream->peer_took_messages),
                   socket->options.send_messages - (stream->posted - stream->completed));
}

static bool post(struct rs_socket *socket, struct ibv_send_wr *first, struct ibv_send_wr *last,
                 uint32_t release)
{
    struct rs_stream *stream = &socket->stream;
    struct ibv_send_wr *bad;
    uint32_t slot = stream->posted % socket->options.send_messages;

    last->wr_id = UINT64_MAX;
    last->send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(socket->id->qp, first, &bad)) {
        rs_end(socket, ECONNRESET);
        return false;
    }
    stream->releases[slot] = release;
    stream->posted++;
    return true;
}

/* Sends a message, behind the request `before` if that is not NULL. */
static bool send_message(struct rs_socket *socket, struct rs_message *message,
                         struct ibv_send_wr *before, uint32_t release)
{
    struct rs_stream *stream = &socket->stream;
    uint8_t *octets = stream->send_slots +
                      (size_t)(stream->posted % socket->options.send_messages) * RS_SLOT_OCTETS;
    struct ibv_sge sge = { .addr = (uintptr_t)octets, .lkey = stream->local_mr->lkey };
    struct ibv_send_wr request = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

    message->taken_messages = stream->taken_messages;
    message->taken_octets = stream->taken_octets;
    sge.length = rs_message_encode(message, octets);
    if (before)
        before->next = &request;
    if (!post(socket, before ? before : &request, &request, release))
        return false;
    stream->credited_messages = stream->taken_messages;
    stream->credited_octets = stream->taken_octets;
    stream->credit_wanted = false;
    stream->sent_messages++;
    return true;
}

/* ---- octets of the stream ---- */

uint32_t rs_stream_room(const struct rs_socket *socket, bool to_ring, uint8_t **at)
{
    const struct rs_stream *stream = &socket->stream;
    uint32_t own = socket->options.send_size, room;

    if (socket->state != RS_CONNECTED || messages_left(socket) <= RS_RESERVED_CREDIT)
        return 0;
    *at = stream->send_buffer + stream->buffer_at;
    room = min_u32(own - stream->buffered, own - stream->buffer_at);
    room = min_u32(room, PART_MOST);
    if (!to_ring)
        return room;
    room = min_u32(room, stream->peer.ring_size - stream->peer_at);
    return min_u32(room, stream->peer.ring_size - (stream->sent_octets - stream->peer_took_octets));
}

static void buffer_advance(struct rs_socket *socket, uint32_t length)
{
    struct rs_stream *stream = &socket->stream;

    stream->buffered += length;
    stream->buffer_at = (stream->buffer_at + length) % socket->options.send_size;
}

bool rs_stream_write(struct rs_socket *socket, uint32_t length)
{
    struct rs_stream *stream = &socket->stream;
    uint8_t *from = stream->send_buffer + stream->buffer_at;
    struct rs_message message = { .kind = RS_DATA, .length = length, .octets = from };
    struct ibv_sge sge = { .addr = (uintptr_t)from,
                           .length = length,
                           .lkey = stream->local_mr->lkey };
    struct ibv_send_wr request = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = { .remote_addr = stream->peer.ring_address + stream->peer_at,
                     .rkey = stream->peer.ring_stag },
    };
    bool small = length <= socket->options.small_most;

    if (socket->state != RS_CONNECTED || messages_left(socket) <= RS_RESERVED_CREDIT)
        return false;
    if (small)
        message.kind = RS_SMALL;
    if (!send_message(socket, &message, small ? NULL : &request, length))
        return false;
    buffer_advance(socket, length);
    stream->sent_octets += length;
    stream->peer_at = (stream->peer_at + length) % stream->peer.ring_size;
    return true;
}

/* The peer is not told, so no message of its receives is needed. */
bool rs_stream_write_map(struct rs_socket *socket, uint32_t length, uint64_t address, uint32_t stag)
{
    struct rs_stream *stream = &socket->stream;
    struct ibv_sge sge = { .addr = (uintptr_t)(stream->send_buffer + stream->buffer_at),
                           .length = length,
                           .lkey = stream->local_mr->lkey };
    struct ibv_send_wr request = { .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .wr.rdma = { .remote_addr = address, .rkey = stag } };

    if (socket->state != RS_CONNECTED || messages_left(socket) <= RS_RESERVED_CREDIT ||
        !post(socket, &request, &request, length))
        return false;
    buffer_advance(socket, length);
    return true;
}

void rs_stream_read_peer(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;
    uint8_t *behind = stream->ring + socket->options.ring_size;
    struct ibv_sge sge = { .addr = (uintptr_t)(behind + RS_ANSWER_OCTET),
                           .length = 1,
                           .lkey = stream->ring_mr->lkey };
    struct ibv_send_wr request = { .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_READ,
                                   .wr.rdma = { .remote_addr = stream->peer.ring_address +
                                                               stream->peer.ring_size +
                                                               RS_ASKED_OCTET,
                                                .rkey = stream->peer.ring_stag } };

    if (socket->state == RS_CONNECTED && !stream->read_sent)
        stream->read_sent = post(socket, &request, &request, 0);
}

bool rs_stream_idle(const struct rs_socket *socket)
{
    return socket->stream.posted == socket->stream.completed;
}

/* ---- messages without octets ---- */

static bool send_plain(struct rs_socket *socket, enum rs_kind kind)
{
    struct rs_message message = { .kind = kind };

    return send_message(socket, &message, NULL, 0);
}

/* The peer's next messages and octets wait for this one if half of its room is not reported. */
static bool owes_credit(const struct rs_socket *socket)
{
    const struct rs_stream *stream = &socket->stream;

    return stream->taken_messages - stream->credited_messages >=
               socket->options.receive_messages / 2 ||
           stream->taken_octets - stream->credited_octets >= socket->options.ring_size / 2;
}

static void send_maps(struct rs_socket *socket)
{
    for (uint16_t i = 0; i < socket->local_map_count; i++) {
        struct rs_local_map *local = &socket->local_maps[i];
        struct rs_message message = { .kind = local->mr ? RS_MAP : RS_UNMAP,
                                      .index = i,
                                      .map = local->map };

        if (local->told)
            continue;
        if (messages_left(socket) <= RS_RESERVED_CREDIT || !send_message(socket, &message, NULL, 0))
            return;
        local->told = true;
    }
}

void rs_stream_control(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;

    if (socket->state != RS_CONNECTED || stream->end_sent)
        return;
    if (!stream->fin_sent && !stream->close_sent)
        send_maps(socket);
    if (stream->close_wanted && !stream->close_sent)
        stream->fin_sent = stream->close_sent = send_plain(socket, RS_CLOSE);
    else if ((stream->fin_wanted || stream->close_received) && !stream->fin_sent)
        stream->fin_sent = send_plain(socket, RS_FIN);
    if (stream->fin_sent && stream->fin_received && socket->state == RS_CONNECTED) {
        stream->end_sent = send_plain(socket, RS_END);
        return;
    }
    if (owes_credit(socket) && messages_left(socket) > RS_RESERVED_ONCE)
        send_plain(socket, RS_CREDIT);
}

/* SPDX-License-Identifier: BSD-3-Clause
 * What an end receives: completions and the peer's messages, which are checked. */
#include "rsockets.h"

#include <string.h>

#define BATCH 16

/* ---- messages ---- */

/* Counts only go up, and not beyond what was sent. */
static bool take_counts(struct rs_stream *stream, const struct rs_message *message)
{
    if (message->taken_messages - stream->peer_took_messages >
            stream->sent_messages - stream->peer_took_messages ||
        message->taken_octets - stream->peer_took_octets >
            stream->sent_octets - stream->peer_took_octets)
        return false;
    stream->peer_took_messages = message->taken_messages;
    stream->peer_took_octets = message->taken_octets;
    return true;
}

static void copy_to_ring(struct rs_socket *socket, const uint8_t *octets, uint32_t length)
{
    struct rs_stream *stream = &socket->stream;
    uint32_t straight = socket->options.ring_size - stream->write_at;

    if (straight > length)
        straight = length;
    memcpy(stream->ring + stream->write_at, octets, straight);
    memcpy(stream->ring, octets + straight, length - straight);
}

static bool take_octets(struct rs_socket *socket, const struct rs_message *message)
{
    struct rs_stream *stream = &socket->stream;

    if (stream->fin_received || message->length > socket->options.ring_size - stream->filled)
        return false;
    if (message->kind == RS_SMALL)
        copy_to_ring(socket, message->octets, message->length);
    stream->write_at = (stream->write_at + message->length) % socket->options.ring_size;
    stream->filled += message->length;
    return true;
}

static bool take_map(struct rs_socket *socket, const struct rs_message *message)
{
    if (message->index >= socket->options.maps)
        return false;
    socket->stream.maps[message->index] = message->kind == RS_MAP ? message->map
                                                                  : (struct rs_map){ 0 };
    return true;
}

/* False: the peer breaks the protocol. */
static bool take_message(struct rs_socket *socket, const struct rs_message *message)
{
    struct rs_stream *stream = &socket->stream;

    if (stream->end_received || !take_counts(stream, message))
        return false;
    switch (message->kind) {
    case RS_DATA:
    case RS_SMALL: return take_octets(socket, message);
    case RS_CREDIT: return true;
    case RS_CLOSE:
    case RS_FIN:
        stream->fin_received = true;
        stream->close_received |= message->kind == RS_CLOSE;
        return true;
    case RS_END: stream->end_received = true; return stream->fin_received;
    case RS_MAP:
    case RS_UNMAP: return take_map(socket, message);
    }
    return false;
}

/* ---- completions ---- */

static bool post_receive(struct rs_socket *socket, uint32_t slot)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)(socket->stream.receive_slots + (size_t)slot * RS_SLOT_OCTETS),
        .length = RS_SLOT_OCTETS,
        .lkey = socket->stream.local_mr->lkey,
    };
    struct ibv_recv_wr *bad, request = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

    return ibv_post_recv(socket->id->qp, &request, &bad) == 0;
}

static void break_off(struct rs_socket *socket)
{
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };

    ual_log(RI_LOG_WARNING,
            "rsockets: the peer of descriptor %d sent a message that breaks the protocol: the "
            "connection ends",
            socket->fd);
    ibv_modify_qp(socket->id->qp, &error, IBV_QP_STATE);
    rs_end(socket, EPROTO);
}

static void on_receive(struct rs_socket *socket, const struct ibv_wc *wc)
{
    uint32_t slot = (uint32_t)wc->wr_id;
    const uint8_t *octets = socket->stream.receive_slots + (size_t)slot * RS_SLOT_OCTETS;
    struct rs_message message;

    if (!rs_message_decode(octets, wc->byte_len, &message) || !take_message(socket, &message)) {
        break_off(socket);
        return;
    }
    /* if the connection has ended meanwhile, its flushed requests follow */
    if (post_receive(socket, slot))
        socket->stream.taken_messages++;
}

static void on_sent(struct rs_socket *socket)
{
    struct rs_stream *stream = &socket->stream;

    stream->buffered -= stream->releases[stream->completed % socket->options.send_messages];
    stream->completed++;
}

static void on_completion(struct rs_socket *socket, const struct ibv_wc *wc)
{
    if (socket->state == RS_ENDED && socket->error == EPROTO)
        return;
    if (wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV)) {
        on_receive(socket, wc);
        return;
    }
    if (wc->status == IBV_WC_SUCCESS) {
        socket->stream.read_done |= wc->opcode == IBV_WC_RDMA_READ;
        on_sent(socket);
        return;
    }
    /* the event of the connection's end tells why; it may be in order */
    socket->ask_cm = true;
}

bool rs_stream_poll(struct rs_socket *socket)
{
    struct ibv_wc wc[BATCH];
    bool changed = false;
    int count;

    if (!socket->stream.cq)
        return false;
    while ((count = ibv_poll_cq(socket->stream.cq, BATCH, wc)) > 0) {
        for (int i = 0; i < count; i++)
            on_completion(socket, &wc[i]);
        changed = true;
        if (count < BATCH)
            break;
    }
    return changed;
}

/* ---- reading ---- */

uint32_t rs_stream_filled(const struct rs_socket *socket, uint32_t skip, const uint8_t **at)
{
    const struct rs_stream *stream = &socket->stream;
    uint32_t size = socket->options.ring_size, from, length;

    if (skip >= stream->filled)
        return 0;
    from = (uint32_t)(((uint64_t)stream->read_at + skip) % size);
    length = stream->filled - skip;
    *at = stream->ring + from;
    return length < size - from ? length : size - from;
}

void rs_stream_read(struct rs_socket *socket, uint32_t length)
{
    struct rs_stream *stream = &socket->stream;

    stream->read_at = (uint32_t)(((uint64_t)stream->read_at + length) % socket->options.ring_size);
    stream->filled -= length;
    stream->taken_octets += length;
}

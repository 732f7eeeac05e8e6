/* SPDX-License-Identifier: BSD-3-Clause */
/* What a request becomes, and what arrives: frames in the rings. Everything is under the lock. */
#include "memory.h"

enum frame_type { FRAME_SEND = 1, FRAME_WRITE, FRAME_READ, FRAME_ANSWER, FRAME_END };

#define FRAME_LAST      1u /* of its message */
#define FRAME_SOLICITED 2u

/* Terminate values, as iWARP has them. */
#define CODE_READ_ACCESS 0x0100
#define CODE_PAYLOAD     0x2002

struct frame {
    uint32_t length; /* octets that follow */
    uint8_t type, flags;
    uint16_t code;    /* END: why */
    uint32_t key;     /* WRITE, READ */
    uint32_t wanted;  /* READ: octets */
    uint64_t address; /* WRITE, READ; SEND, ANSWER: offset in the message */
};

static uint8_t *at_position(const struct half *half)
{
    return half->octets + (half->position & (ROOM - 1));
}

/* A frame's head; its octets are put behind it. The peer sees it after ring_publish(). */
static uint8_t *put_frame(struct connection *c, const struct frame *frame)
{
    uint8_t *at = at_position(&c->out);

    memcpy(at, frame, sizeof(*frame));
    c->out.position += (uint32_t)sizeof(*frame) + frame->length;
    return at + sizeof(*frame);
}

/* Tell the peer why, in a last frame; then the end. */
static void fail(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    struct connection *c = qp->connection;

    if (ring_has_room(&c->out))
        put_frame(c, &(struct frame){ .type = FRAME_END, .code = code });
    ring_publish(c, &c->out);
    connection_end(c, type, code, explained);
}

/* ---- sending ---- */

/* Requests whose outcome is known, up to the first one that still waits for something. */
static void complete(struct qp *qp)
{
    while (qp->send.done != qp->send.sent && request_at(&qp->send, qp->send.done)->finished)
        finish(&qp->send, RI_WC_SUCCESS);
}

/* The request at `sent` cannot be executed. All before it have completed: Reads are waited for. */
static void refuse(struct qp *qp, enum ri_wc_status status)
{
    finish(&qp->send, status);
    fail(qp, RI_EVENT_LOCAL_ERROR, 0, true);
}

static bool cut_answer(struct qp *qp)
{
    struct answer *answer = &qp->answers[qp->answer_first];
    uint32_t part = answer->length - answer->moved;
    struct frame frame = { .type = FRAME_ANSWER, .address = answer->moved };
    uint8_t *to;

    if (!qp->answer_count)
        return false;
    frame.length = part < PAYLOAD ? part : PAYLOAD;
    frame.flags = part <= PAYLOAD ? FRAME_LAST : 0;
    if (part && !memory(qp->pd, answer->key, (uintptr_t)answer->from, answer->length,
                        RI_ACCESS_REMOTE_READ)) {
        fail(qp, RI_EVENT_READ_ACCESS, CODE_READ_ACCESS, false);
        return false;
    }
    to = put_frame(qp->connection, &frame);
    if (part)
        memcpy(to, answer->from + answer->moved, frame.length);
    answer->moved += frame.length;
    if (frame.flags & FRAME_LAST) {
        qp->answer_first = (qp->answer_first + 1) % MAX_DEPTH;
        qp->answer_count--;
    }
    return true;
}

static bool cut_read(struct qp *qp, const struct request *request)
{
    const struct frame frame = { .type = FRAME_READ,
                                 .key = request->rkey,
                                 .wanted = request->length,
                                 .address = request->remote_addr };

    if (qp->reads == qp->ord)
        return false;
    put_frame(qp->connection, &frame);
    qp->reads++;
    qp->send.sent++;
    return true;
}

/* May the request at `sent` begin? It waits for Reads, and is refused if it cannot be executed. */
static bool may_begin(struct qp *qp, const struct request *request)
{
    bool read = request->opcode == RI_WR_RDMA_READ;

    if (qp->send.sent == ri_ring_tail(&qp->send.ring) ||
        ((request->flags & (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE)) && qp->reads))
        return false;
    if (request->moved ||
        ((!read || qp->ord) &&
         elements_are_good(qp, request, read ? RI_ACCESS_LOCAL_WRITE : RI_ACCESS_LOCAL_READ)))
        return true;
    if (qp->send.done == qp->send.sent)
        refuse(qp, read && !qp->ord ? RI_WC_LOCAL_QP : RI_WC_LOCAL_PROTECTION);
    return false;
}

/* A frame of the next request. False: nothing can be sent now. */
static bool cut_request(struct qp *qp)
{
    struct request *request = request_at(&qp->send, qp->send.sent);
    struct frame frame = { .type = FRAME_SEND, .address = request->moved };
    uint32_t left = request->length - request->moved, before;

    if (!may_begin(qp, request))
        return false;
    if (request->opcode == RI_WR_RDMA_READ)
        return cut_read(qp, request);
    frame.length = left < PAYLOAD ? left : PAYLOAD;
    frame.flags = (uint8_t)((left <= PAYLOAD ? FRAME_LAST : 0) |
                            (request->flags & RI_WR_SOLICITED ? FRAME_SOLICITED : 0));
    if (request->opcode == RI_WR_RDMA_WRITE) {
        frame.type = FRAME_WRITE;
        frame.key = request->rkey;
        frame.address = request->remote_addr + request->moved;
    }
    before = qp->connection->out.position;
    if (!copy(qp, request, request->moved, frame.length, put_frame(qp->connection, &frame),
              RI_ACCESS_LOCAL_READ)) {
        qp->connection->out.position = before;
        fail(qp, RI_EVENT_LOCAL_ERROR, 0, false); /* deregistered while it was sent */
        return false;
    }
    request->moved += frame.length;
    if (frame.flags & FRAME_LAST) {
        request->finished = true;
        qp->send.sent++;
    }
    return true;
}

/* ---- receiving ---- */

static void take_send(struct qp *qp, const struct frame *frame, uint8_t *octets)
{
    struct request *into = request_at(&qp->receive, qp->receive.done);

    if (qp->receive.done == ri_ring_tail(&qp->receive.ring)) {
        fail(qp, RI_EVENT_NO_RECEIVE, 0x1202, false);
        return;
    }
    if (into->length - into->moved < frame->length) {
        finish(&qp->receive, RI_WC_LOCAL_LENGTH);
        fail(qp, RI_EVENT_RECV_LENGTH, 0x1205, true);
        return;
    }
    if (!copy(qp, into, into->moved, frame->length, octets, RI_ACCESS_LOCAL_WRITE)) {
        finish(&qp->receive, RI_WC_LOCAL_PROTECTION);
        fail(qp, RI_EVENT_RECV_ACCESS, 0x1000, true);
        return;
    }
    into->moved += frame->length;
    into->solicited = frame->flags & FRAME_SOLICITED;
    if (frame->flags & FRAME_LAST)
        finish(&qp->receive, RI_WC_SUCCESS);
}

static void take_write(struct qp *qp, const struct frame *frame, uint8_t *octets)
{
    uint8_t *to = memory(qp->pd, frame->key, frame->address, frame->length, RI_ACCESS_REMOTE_WRITE);

    if (!frame->length)
        return;
    if (!to || !(qp->flags & RI_QP_WRITE_ENABLE))
        fail(qp, RI_EVENT_WRITE_ACCESS, 0x1100, false);
    else
        memcpy(to, octets, frame->length);
}

static void take_read(struct qp *qp, const struct frame *frame)
{
    const uint8_t *from = memory(qp->pd, frame->key, frame->address, frame->wanted,
                                 RI_ACCESS_REMOTE_READ);

    if (!qp->ird || !(qp->flags & RI_QP_READ_ENABLE) || (frame->wanted && !from)) {
        fail(qp, RI_EVENT_READ_ACCESS, CODE_READ_ACCESS, false);
    } else if (qp->answer_count == qp->ird) {
        fail(qp, RI_EVENT_REMOTE_OPERATION, 0x0200, false);
    } else {
        qp->answers[(qp->answer_first + qp->answer_count) % MAX_DEPTH] =
            (struct answer){ .from = from, .key = frame->key, .length = frame->wanted };
        qp->answer_count++;
    }
}

/* The oldest Read that is not answered. */
static struct request *oldest_read(struct qp *qp)
{
    for (uint32_t at = qp->send.done; at != qp->send.sent; at++) {
        struct request *request = request_at(&qp->send, at);

        if (request->opcode == RI_WR_RDMA_READ && !request->finished)
            return request;
    }
    return NULL;
}

static void take_answer(struct qp *qp, const struct frame *frame, uint8_t *octets)
{
    struct request *read = oldest_read(qp);

    if (!read || read->length - read->moved < frame->length) {
        fail(qp, RI_EVENT_RESPONSE_ERROR, 0x1200, false);
        return;
    }
    if (!copy(qp, read, read->moved, frame->length, octets, RI_ACCESS_LOCAL_WRITE)) {
        if (read == request_at(&qp->send, qp->send.done))
            finish(&qp->send, RI_WC_LOCAL_PROTECTION);
        fail(qp, RI_EVENT_LOCAL_ERROR, 0, true);
        return;
    }
    read->moved += frame->length;
    if (!(frame->flags & FRAME_LAST))
        return;
    qp->reads--;
    read->finished = true;
    complete(qp);
}

static void take_end(struct qp *qp, const struct frame *frame)
{
    struct request *read = oldest_read(qp);
    bool refused = read && read == request_at(&qp->send, qp->send.done) &&
                   frame->code == CODE_READ_ACCESS;

    if (refused)
        finish(&qp->send, RI_WC_REMOTE_ACCESS);
    connection_end(qp->connection, RI_EVENT_TERMINATE_RECEIVED, frame->code, refused);
}

static void take(struct qp *qp, const struct frame *frame, uint8_t *octets)
{
    switch (frame->type) {
    case FRAME_SEND: take_send(qp, frame, octets); break;
    case FRAME_WRITE: take_write(qp, frame, octets); break;
    case FRAME_READ: take_read(qp, frame); break;
    case FRAME_ANSWER: take_answer(qp, frame, octets); break;
    case FRAME_END: take_end(qp, frame); break;
    default: fail(qp, RI_EVENT_BAD_OPCODE, 0x0206, false);
    }
}

/* One frame of the ring. The head is copied before it is looked at: the peer could change it. */
static bool take_frame(struct qp *qp)
{
    struct connection *c = qp->connection;
    uint32_t there = ring_in(&c->in);
    struct frame frame;

    if (!there)
        return false;
    memcpy(&frame, at_position(&c->in), sizeof(frame));
    if (there > ROOM || frame.length > PAYLOAD || there < sizeof(frame) + frame.length) {
        fail(qp, RI_EVENT_INTEGRITY, CODE_PAYLOAD, false);
        return false;
    }
    take(qp, &frame, at_position(&c->in) + sizeof(frame));
    if (qp->connection != c)
        return true;
    c->in.position += (uint32_t)sizeof(frame) + frame.length;
    ring_publish(c, &c->in);
    return true;
}

/* ---- both ---- */

#define FRAMES 64u /* taken at once: others have their turn */

static bool is_connected(const struct qp *qp)
{
    return qp->connection && qp->connection->state == CONNECTED;
}

uint32_t serve(struct qp *qp)
{
    uint32_t work = 0, before;

    if (qp->state == RI_QPS_ERROR)
        flush(qp);
    if (qp->type == RI_QP_UD) {
        if (qp->state == RI_QPS_RTS)
            send_datagrams(qp);
        return 0;
    }
    while (work < FRAMES && is_connected(qp) && take_frame(qp))
        work++;
    if (!is_connected(qp))
        return work;
    before = qp->connection->out.position;
    while (is_connected(qp) && ring_has_room(&qp->connection->out) &&
           (cut_answer(qp) || (is_connected(qp) && cut_request(qp)))) {
        complete(qp);
        work++;
    }
    if (is_connected(qp) && qp->connection->out.position != before)
        ring_publish(qp->connection, &qp->connection->out);
    return work;
}

/* The peer rings the bell from now on; what it did before is seen here. */
bool is_quiet(struct connection *c)
{
    struct qp *qp = c->qp;
    bool wants;

    if (c->state != CONNECTED || !qp)
        return true;
    atomic_store(&c->in.ring->sleeps, 1);
    wants = qp->answer_count || (qp->send.sent != ri_ring_tail(&qp->send.ring) && !qp->reads);
    return !ring_in(&c->in) && !(wants && ring_has_room(&c->out));
}

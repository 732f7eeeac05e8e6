/* SPDX-License-Identifier: BSD-3-Clause */
/* A reliable connection in software: see rnicpi_rc.h. */
#include "rnicpi_rc.h"

#include <string.h>

/* Terminate values, as iWARP has them. */
#define CODE_READ_ACCESS  0x0100
#define CODE_READ_DEPTH   0x0200
#define CODE_BAD_OPCODE   0x0206
#define CODE_RECV_ACCESS  0x1000
#define CODE_WRITE_ACCESS 0x1100
#define CODE_RESPONSE     0x1200
#define CODE_NO_RECEIVE   0x1202
#define CODE_RECV_LENGTH  0x1205
#define CODE_PAYLOAD      0x2002

void ri_rc_fail(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained)
{
    rc->put(rc, &(struct ri_segment){ .type = RI_SEGMENT_END, .code = code });
    rc->end(rc, type, code, explained);
}

void ri_rc_reset(struct ri_rc *rc)
{
    rc->reads = rc->answer_count = 0;
}

/* ---- sending ---- */

static bool cut_answer(struct ri_rc *rc)
{
    struct ri_rc_answer *answer = &rc->answers[rc->answer_first];
    uint32_t part = answer->length - answer->moved;
    struct ri_segment segment = { .type = RI_SEGMENT_ANSWER, .address = answer->moved };
    const uint8_t *from;
    uint8_t *to;

    if (!rc->answer_count)
        return false;
    segment.length = part < RI_RC_PAYLOAD ? part : RI_RC_PAYLOAD;
    segment.flags = part <= RI_RC_PAYLOAD ? RI_SEGMENT_LAST : 0;
    from = ri_mem_at(&rc->qp, answer->key, answer->from, answer->length, RI_ACCESS_REMOTE_READ);
    if (part && !from) {
        ri_rc_fail(rc, RI_EVENT_READ_ACCESS, CODE_READ_ACCESS, false);
        return false;
    }
    to = rc->put(rc, &segment);
    if (!to)
        return false;
    if (part)
        memcpy(to, from + answer->moved, segment.length);
    answer->moved += segment.length;
    if (segment.flags & RI_SEGMENT_LAST) {
        rc->answer_first = (rc->answer_first + 1) % RI_RC_DEPTH;
        rc->answer_count--;
    }
    return true;
}

static bool cut_read(struct ri_rc *rc, const struct ri_request *request)
{
    const struct ri_segment segment = { .type = RI_SEGMENT_READ,
                                        .key = request->rkey,
                                        .wanted = request->length,
                                        .address = request->remote_addr };

    if (rc->reads == rc->qp.ord || !rc->put(rc, &segment))
        return false;
    rc->reads++;
    rc->qp.send.sent++;
    return true;
}

/* May the request go on? It waits for Reads. One that cannot be executed waits until all before it
 * have completed, then ends the connection. */
static bool may_go_on(struct ri_rc *rc, const struct ri_request *request)
{
    struct ri_queue *queue = &rc->qp.send;
    bool read = request->opcode == RI_WR_RDMA_READ, depth = !read || rc->qp.ord;
    bool first = atomic_load(&queue->done) == queue->sent;

    if ((request->flags & (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE)) && rc->reads)
        return false;
    if (depth && ri_mem_elements_are_good(&rc->qp, request,
                                          read ? RI_ACCESS_LOCAL_WRITE : RI_ACCESS_LOCAL_READ))
        return true;
    if (!first && !request->moved)
        return false;
    if (first)
        ri_queue_finish(queue, depth ? RI_WC_LOCAL_PROTECTION : RI_WC_LOCAL_QP);
    ri_rc_fail(rc, RI_EVENT_LOCAL_ERROR, 0, first);
    return false;
}

/* A segment of the next request. */
static bool cut_request(struct ri_rc *rc)
{
    struct ri_queue *queue = &rc->qp.send;
    struct ri_request *request = ri_queue_at(queue, queue->sent);
    struct ri_segment segment = { .type = RI_SEGMENT_SEND };
    uint32_t left;
    uint8_t *to;

    if (queue->sent == ri_ring_tail(&queue->ring) || !may_go_on(rc, request))
        return false;
    if (request->opcode == RI_WR_RDMA_READ)
        return cut_read(rc, request);
    left = request->length - request->moved;
    segment.address = request->moved;
    segment.length = left < RI_RC_PAYLOAD ? left : RI_RC_PAYLOAD;
    segment.flags = (uint8_t)((left <= RI_RC_PAYLOAD ? RI_SEGMENT_LAST : 0) |
                              (request->flags & RI_WR_SOLICITED ? RI_SEGMENT_SOLICITED : 0));
    if (request->opcode == RI_WR_RDMA_WRITE) {
        segment.type = RI_SEGMENT_WRITE;
        segment.key = request->rkey;
        segment.address += request->remote_addr;
    }
    to = rc->put(rc, &segment);
    if (!to)
        return false;
    ri_mem_copy(&rc->qp, request, request->moved, segment.length, to, RI_ACCESS_LOCAL_READ);
    request->moved += segment.length;
    if (segment.flags & RI_SEGMENT_LAST) {
        request->finished = true;
        queue->sent++;
    }
    return true;
}

bool ri_rc_send(struct ri_rc *rc)
{
    bool sent = cut_answer(rc) || (rc->qp.state == RI_QPS_RTS && cut_request(rc));

    if (sent)
        ri_queue_finish_ready(&rc->qp.send);
    return sent;
}

bool ri_rc_wants(const struct ri_rc *rc)
{
    return rc->answer_count || (rc->qp.send.sent != ri_ring_tail(&rc->qp.send.ring) && !rc->reads);
}

/* ---- receiving ---- */

static void take_send(struct ri_rc *rc, const struct ri_segment *segment, const uint8_t *octets)
{
    struct ri_queue *queue = &rc->qp.receive;
    struct ri_request *into = ri_queue_oldest(queue);

    if (!into) {
        ri_rc_fail(rc, RI_EVENT_NO_RECEIVE, CODE_NO_RECEIVE, false);
        return;
    }
    if (into->length - into->moved < segment->length) {
        ri_queue_finish(queue, RI_WC_LOCAL_LENGTH);
        ri_rc_fail(rc, RI_EVENT_RECV_LENGTH, CODE_RECV_LENGTH, true);
        return;
    }
    if (!ri_mem_copy(&rc->qp, into, into->moved, segment->length, (uint8_t *)(uintptr_t)octets,
                     RI_ACCESS_LOCAL_WRITE)) {
        ri_queue_finish(queue, RI_WC_LOCAL_PROTECTION);
        ri_rc_fail(rc, RI_EVENT_RECV_ACCESS, CODE_RECV_ACCESS, true);
        return;
    }
    into->moved += segment->length;
    into->solicited = segment->flags & RI_SEGMENT_SOLICITED;
    if (segment->flags & RI_SEGMENT_LAST)
        ri_queue_finish(queue, RI_WC_SUCCESS);
}

static void take_write(struct ri_rc *rc, const struct ri_segment *segment, const uint8_t *octets)
{
    uint8_t *to = ri_mem_at(&rc->qp, segment->key, segment->address, segment->length,
                            RI_ACCESS_REMOTE_WRITE);

    if (!segment->length)
        return;
    if (!to || !(rc->qp.flags & RI_QP_WRITE_ENABLE))
        ri_rc_fail(rc, RI_EVENT_WRITE_ACCESS, CODE_WRITE_ACCESS, false);
    else
        memcpy(to, octets, segment->length);
}

static void take_read(struct ri_rc *rc, const struct ri_segment *segment)
{
    struct ri_mem_qp *qp = &rc->qp;
    bool good = !segment->wanted || ri_mem_at(qp, segment->key, segment->address, segment->wanted,
                                              RI_ACCESS_REMOTE_READ);

    if (!good || !qp->ird || !(qp->flags & RI_QP_READ_ENABLE)) {
        ri_rc_fail(rc, RI_EVENT_READ_ACCESS, CODE_READ_ACCESS, false);
    } else if (rc->answer_count >= qp->ird || rc->answer_count == RI_RC_DEPTH) {
        ri_rc_fail(rc, RI_EVENT_REMOTE_OPERATION, CODE_READ_DEPTH, false);
    } else {
        rc->answers[(rc->answer_first + rc->answer_count) % RI_RC_DEPTH] = (struct ri_rc_answer){
            .from = segment->address, .key = segment->key, .length = segment->wanted
        };
        rc->answer_count++;
    }
}

/* The oldest Read that is not answered. */
static struct ri_request *oldest_read(struct ri_rc *rc)
{
    struct ri_queue *queue = &rc->qp.send;

    for (uint32_t at = atomic_load(&queue->done); at != queue->sent; at++) {
        struct ri_request *request = ri_queue_at(queue, at);

        if (request->opcode == RI_WR_RDMA_READ && !request->finished)
            return request;
    }
    return NULL;
}

static void take_answer(struct ri_rc *rc, const struct ri_segment *segment, const uint8_t *octets)
{
    struct ri_queue *queue = &rc->qp.send;
    struct ri_request *read = oldest_read(rc);
    uint32_t left = read ? read->length - read->moved : 0;
    bool last = segment->flags & RI_SEGMENT_LAST;

    if (!read || left < segment->length || (last && left != segment->length)) {
        ri_rc_fail(rc, RI_EVENT_RESPONSE_ERROR, CODE_RESPONSE, false);
        return;
    }
    if (!ri_mem_copy(&rc->qp, read, read->moved, segment->length, (uint8_t *)(uintptr_t)octets,
                     RI_ACCESS_LOCAL_WRITE)) {
        if (read == ri_queue_oldest(queue))
            ri_queue_finish(queue, RI_WC_LOCAL_PROTECTION);
        ri_rc_fail(rc, RI_EVENT_LOCAL_ERROR, 0, true);
        return;
    }
    read->moved += segment->length;
    if (!last)
        return;
    rc->reads--;
    read->finished = true;
    ri_queue_finish_ready(queue);
}

static void take_end(struct ri_rc *rc, const struct ri_segment *segment)
{
    struct ri_request *read = oldest_read(rc);
    bool refused = read && read == ri_queue_oldest(&rc->qp.send) &&
                   segment->code == CODE_READ_ACCESS;

    if (refused)
        ri_queue_finish(&rc->qp.send, RI_WC_REMOTE_ACCESS);
    rc->end(rc, RI_EVENT_TERMINATE_RECEIVED, segment->code, refused);
}

void ri_rc_take(struct ri_rc *rc, const struct ri_segment *segment, const uint8_t *octets)
{
    if (segment->length > RI_RC_PAYLOAD) {
        ri_rc_fail(rc, RI_EVENT_INTEGRITY, CODE_PAYLOAD, false);
        return;
    }
    switch (segment->type) {
    case RI_SEGMENT_READY: break;
    case RI_SEGMENT_SEND: take_send(rc, segment, octets); break;
    case RI_SEGMENT_WRITE: take_write(rc, segment, octets); break;
    case RI_SEGMENT_READ: take_read(rc, segment); break;
    case RI_SEGMENT_ANSWER: take_answer(rc, segment, octets); break;
    case RI_SEGMENT_END: take_end(rc, segment); break;
    default: ri_rc_fail(rc, RI_EVENT_BAD_OPCODE, CODE_BAD_OPCODE, false);
    }
}

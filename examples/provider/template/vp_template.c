/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider to copy: the smallest one that carries Sends, RDMA Writes and RDMA Reads, with
 * connection set B. ital connects and negotiates; this provider gets the TCP socket and moves
 * requests over it in frames of its own. So both ends have to be this provider.
 *
 * Begin with the descriptor at the end of the file, then follow vp_post_send() and ready().
 * Locks: one lock per RNIC guards everything but the CQs, which librnicpi guards. No upcall and no
 * unwatch is made under it: what there is to report is noted, and reported after unlocking. That is
 * what report() is for; each function that takes the lock ends by it.
 */
#include <rnicpi.h>
#include <rnicpi_cq.h>
#include <rnicpi_ring.h>
#include <rnicpi_util.h>
#include <rnicpi_watch.h>

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MAX_WR      4096u
#define MAX_SGE     4u
#define MAX_DEPTH   64u /* IRD and ORD */
#define MAX_MR      4096u
#define MAX_OBJECTS 65536u /* PDs, CQs, QPs, of each */
#define MAX_CQE     (1u << 20)
#define MAX_MESSAGE (UINT32_C(1) << 30)
#define PAYLOAD     16384u /* octets of a frame at most */
#define ROOM        (4 * (PAYLOAD + (uint32_t)sizeof(struct frame)))

/* ---- what goes over the wire ---- */

enum frame_type { FRAME_READY = 1, FRAME_SEND, FRAME_WRITE, FRAME_READ, FRAME_ANSWER, FRAME_END };

#define FRAME_LAST      1u /* of its message */
#define FRAME_SOLICITED 2u

/* Both ends are this program on machines of one byte order. A real wire has a fixed one. */
struct frame {
    uint32_t length; /* octets that follow */
    uint8_t type, flags;
    uint16_t code;    /* END: the Terminate value */
    uint32_t key;     /* WRITE, READ */
    uint32_t wanted;  /* READ: octets */
    uint64_t address; /* WRITE, READ; SEND, ANSWER: offset in the message */
};

/* ---- objects: each begins with its structure of rnicpi.h ---- */

enum kind { PDS, CQS, QPS, KINDS };

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    struct ri_lane lane;
    struct ri_unwatch_list leaving;
    pthread_mutex_t lock;
    struct mr *regions[MAX_MR];
    struct stream *streams;
    uint32_t count[KINDS], next_qpn; /* what is there; QPs so far */
    uint32_t closing;                /* streams with a deadline */
    uint64_t close_timeout;          /* ns */
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
    uint32_t users;
};

struct mr {
    struct ri_mr base;
    struct pd *pd;
    struct ri_mr_attr attr;
    uint32_t key, place;
};

struct cq {
    struct ri_mem_cq mem;
    struct rnic *rnic;
};

struct request {
    uint64_t cookie, remote_addr;
    struct ri_sge sges[MAX_SGE];
    uint32_t num_sge, rkey;
    uint32_t length; /* of all elements */
    uint32_t moved;  /* octets that were sent, received, or answered */
    uint16_t opcode, flags, status;
    bool finished, solicited;
};

/* ring: posted and not polled. Of these: below `done` the outcome is known; below `told` (under the
 * CQ's lock) the completion is in the CQ; below `sent` (send queue) the request is on the wire. */
struct queue {
    struct ri_cq_source source;
    struct qp *qp;
    bool receive;
    struct ri_ring ring;
    atomic_uint done;
    uint32_t told, sent;
    struct request *requests;
};

/* A Read of the peer that is not answered yet. */
struct answer {
    const uint8_t *from;
    uint32_t key, length, moved;
};

struct qp {
    struct ri_qp base;
    struct rnic *rnic;
    struct pd *pd;
    enum ri_qp_state state;
    uint32_t number, flags, ird, ord, max_sge;
    uint32_t reads; /* own ones that are not answered */
    struct answer answers[MAX_DEPTH];
    uint32_t answer_first, answer_count;
    struct queue send, receive;
    struct stream *stream;
    bool await_first; /* report ESTABLISHED at the first frame */
    /* What report() has to do; and how many threads are in an upcall about this QP. */
    struct ri_event events[2];
    unsigned int event_count;
    atomic_uint upcalls;
};

/* The socket outlives its QP: it sends what is left, and waits for the peer's end. */
struct stream {
    struct ri_watched watched;
    struct rnic *rnic;
    struct qp *qp; /* NULL: it is only closing */
    struct stream *next;
    bool closing, shut, writes;
    uint64_t deadline; /* of a closing one */
    uint32_t in_length, out_length;
    uint8_t in[ROOM], out[ROOM];
};

static void report(struct qp *qp);

/* False: there are as many as vp_query says. */
static bool count_object(struct rnic *rnic, enum kind kind, int more)
{
    bool room;

    pthread_mutex_lock(&rnic->lock);
    room = more < 0 || rnic->count[kind] < MAX_OBJECTS;
    rnic->count[kind] += room ? (uint32_t)more : 0;
    pthread_mutex_unlock(&rnic->lock);
    return room;
}

/* ---- memory ---- */

/* Which keys exist must not be guessed: place and key are random. */
static bool key_add(struct rnic *rnic, struct mr *mr)
{
    uint32_t random, place;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return false;
    place = random % MAX_MR;
    for (uint32_t i = 0; i < MAX_MR; i++, place = (place + 1) % MAX_MR) {
        if (rnic->regions[place])
            continue;
        mr->place = place;
        mr->key = (random & 0xfff000ff) | place << 8;
        if (!(mr->key >> 8)) /* STag 0 is not for us */
            continue;
        rnic->regions[place] = mr;
        return true;
    }
    return false;
}

/* The memory that a key gives access to; NULL: it does not. */
static uint8_t *memory(const struct pd *pd, uint32_t key, uint64_t address, uint64_t length,
                       uint32_t access)
{
    const struct mr *mr = pd->rnic->regions[key >> 8 & (MAX_MR - 1)];
    uint64_t offset;

    if (!mr || mr->key != key || mr->pd != pd || (mr->attr.access & access) != access)
        return NULL;
    offset = address - (uintptr_t)mr->attr.addr;
    if (address < (uintptr_t)mr->attr.addr || offset > mr->attr.length ||
        length > mr->attr.length - offset)
        return NULL;
    return (uint8_t *)(uintptr_t)address;
}

static enum ri_status check_region(const struct ri_mr_attr *attr)
{
    uint32_t access = attr->access;
    uint64_t from = (uintptr_t)attr->addr;

    if (!attr->length || from + attr->length < from ||
        ((access & RI_ACCESS_REMOTE_WRITE) && !(access & RI_ACCESS_LOCAL_WRITE)) ||
        ((access & RI_ACCESS_REMOTE_READ) && !(access & RI_ACCESS_LOCAL_READ)))
        return RI_ERR_INVALID_ARGUMENT;
    if (access & ~(uint32_t)(RI_ACCESS_LOCAL_READ | RI_ACCESS_LOCAL_WRITE | RI_ACCESS_REMOTE_READ |
                             RI_ACCESS_REMOTE_WRITE))
        return RI_ERR_NOT_SUPPORTED;
    if (!attr->addr || attr->shared)
        return RI_ERR_NOT_SUPPORTED;
    return ri_check_memory(attr->addr, attr->length, access & RI_ACCESS_LOCAL_WRITE);
}

static enum ri_status vp_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                     struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct pd *pd = (struct pd *)base;
    enum ri_status status = check_region(attr);
    struct mr *mr;
    bool added;

    if (status != RI_OK)
        return status;
    mr = calloc(1, sizeof(*mr));
    if (!mr)
        return RI_ERR_NO_RESOURCES;
    mr->base = (struct ri_mr){ base->ops, attr->context };
    mr->pd = pd;
    mr->attr = *attr;
    pthread_mutex_lock(&pd->rnic->lock);
    added = key_add(pd->rnic, mr);
    pd->users += added;
    pthread_mutex_unlock(&pd->rnic->lock);
    if (!added) {
        free(mr);
        return RI_ERR_NO_RESOURCES;
    }
    keys->lkey = mr->key;
    keys->rkey = attr->access & (RI_ACCESS_REMOTE_READ | RI_ACCESS_REMOTE_WRITE) ? mr->key : 0;
    *out = &mr->base;
    return RI_OK;
}

/* The lock is held while data is copied: nobody copies to or from the region afterwards. */
static enum ri_status vp_mr_deregister(struct ri_mr *base)
{
    struct mr *mr = (struct mr *)base;
    struct rnic *rnic = mr->pd->rnic;

    pthread_mutex_lock(&rnic->lock);
    rnic->regions[mr->place] = NULL;
    mr->pd->users--;
    pthread_mutex_unlock(&rnic->lock);
    free(mr);
    return RI_OK;
}

/* ---- completions: librnicpi asks for them under the CQ's lock ---- */

static bool makes_completion(const struct queue *queue, const struct request *request)
{
    return queue->receive || (request->flags & RI_WR_SIGNALED) || request->status;
}

static struct request *request_at(struct queue *queue, uint32_t at)
{
    return &queue->requests[at & queue->ring.mask];
}

static uint8_t opcode_of(const struct queue *queue, const struct request *request)
{
    return queue->receive                        ? RI_WC_RECV
           : request->opcode == RI_WR_RDMA_WRITE ? RI_WC_RDMA_WRITE
           : request->opcode == RI_WR_RDMA_READ  ? RI_WC_RDMA_READ
                                                 : RI_WC_SEND;
}

static bool next_completion(struct ri_cq_source *source, struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;

    for (; queue->told != atomic_load(&queue->done); queue->told++) {
        const struct request *request = request_at(queue, queue->told);

        if (!makes_completion(queue, request))
            continue;
        if (!wc)
            return true;
        *wc = (struct ri_wc){
            .context = queue->qp->base.context,
            .cookie = request->cookie,
            .byte_len = request->status  ? 0
                        : queue->receive ? request->moved
                                         : request->length,
            .status = request->status,
            .opcode = opcode_of(queue, request),
            .flags = (uint8_t)((request->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0) |
                               (request->solicited ? RI_WC_SOLICITED : 0)),
        };
        queue->told++;
        return true;
    }
    return false;
}

/* A polled completion frees its slot and those of unsignalled requests before it. */
static void polled(struct ri_cq_source *source, const struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;
    uint32_t head = ri_ring_head(&queue->ring);

    (void)wc;
    while (!makes_completion(queue, request_at(queue, head)))
        head++;
    ri_ring_take_to(&queue->ring, head + 1);
}

static bool queue_open(struct queue *queue, struct qp *qp, struct ri_cq *cq, uint32_t depth,
                       bool receive)
{
    queue->requests = calloc(ri_ring_slots(depth), sizeof(*queue->requests));
    if (!queue->requests)
        return false;
    queue->qp = qp;
    queue->receive = receive;
    queue->source.next = next_completion;
    queue->source.polled = polled;
    ri_ring_init(&queue->ring, depth);
    ri_cq_source_add(&queue->source, &((struct cq *)cq)->mem);
    return true;
}

static void queue_close(struct queue *queue)
{
    if (!queue->requests)
        return;
    ri_cq_source_remove(&queue->source);
    free(queue->requests);
}

/* Under the lock. Requests complete in their order. */
static void finish(struct queue *queue, enum ri_wc_status status)
{
    request_at(queue, queue->done)->status = (uint16_t)status;
    atomic_fetch_add(&queue->done, 1);
}

static void flush(struct qp *qp)
{
    while (qp->send.done != ri_ring_tail(&qp->send.ring))
        finish(&qp->send, RI_WC_FLUSHED);
    while (qp->receive.done != ri_ring_tail(&qp->receive.ring))
        finish(&qp->receive, RI_WC_FLUSHED);
    qp->send.sent = qp->send.done;
}

/* ---- streams: what stands between a QP and its socket ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Under the lock; the descriptor is closed in the lane's next pass. */
static void stream_drop(struct stream *stream, bool reset)
{
    const struct linger none = { .l_onoff = 1 };

    if (reset && !atomic_load(&stream->watched.leaving))
        setsockopt(stream->watched.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    ri_unwatch_later(&stream->rnic->leaving, &stream->watched);
}

/* No lock held, nobody is in ready(): see rnicpi_watch.h. */
static void stream_gone(struct ri_watched *watched)
{
    struct stream *stream = (struct stream *)watched, **at;
    struct rnic *rnic = stream->rnic;

    close(watched->fd);
    pthread_mutex_lock(&rnic->lock);
    for (at = &rnic->streams; *at != stream; at = &(*at)->next)
        ;
    *at = stream->next;
    rnic->closing -= stream->closing;
    pthread_mutex_unlock(&rnic->lock);
    free(stream);
}

/* Writes what is there; what does not fit into the socket waits for EPOLLOUT. */
static void stream_write(struct stream *stream)
{
    struct rnic *rnic = stream->rnic;
    uint32_t done = 0;
    bool blocked = false;

    while (done < stream->out_length && !blocked) {
        ssize_t got = send(stream->watched.fd, stream->out + done, stream->out_length - done,
                           MSG_NOSIGNAL | MSG_DONTWAIT);

        blocked = got <= 0;
        done += got > 0 ? (uint32_t)got : 0;
    }
    memmove(stream->out, stream->out + done, stream->out_length - done);
    stream->out_length -= done;
    if (stream->closing && !stream->out_length && !stream->shut) {
        shutdown(stream->watched.fd, SHUT_WR);
        stream->shut = true;
    }
    if (blocked != stream->writes && stream->watched.watch && !stream->watched.leaving) {
        stream->writes = blocked;
        rnic->host->rewatch(rnic->host, stream->watched.watch,
                            EPOLLIN | EPOLLRDHUP | (blocked ? EPOLLOUT : 0));
    }
}

static bool stream_has_room(const struct stream *stream)
{
    return ROOM - stream->out_length >= PAYLOAD + sizeof(struct frame) && !stream->closing;
}

/* A frame's head; its octets are put behind it. */
static uint8_t *stream_frame(struct stream *stream, const struct frame *frame)
{
    uint8_t *at = stream->out + stream->out_length;

    memcpy(at, frame, sizeof(*frame));
    stream->out_length += (uint32_t)sizeof(*frame) + frame->length;
    return at + sizeof(*frame);
}

/* Send what is left, then our end. The peer's end closes the socket, or progress, later. */
static void stream_close(struct stream *stream)
{
    struct rnic *rnic = stream->rnic;

    if (stream->closing)
        return;
    stream->closing = true;
    stream->deadline = now_ns() + rnic->close_timeout;
    rnic->closing++;
    stream_write(stream);
    rnic->host->wake(rnic->host, rnic->lane.context); /* for the deadline */
}

/* ---- the end of a connection. Under the lock ---- */

static void note(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    if (qp->event_count < 2)
        qp->events[qp->event_count++] = (struct ri_event){ .size = sizeof(struct ri_event),
                                                           .type = type,
                                                           .terminate_code = code,
                                                           .explained = explained };
}

enum how { CLOSE, RESET, DROP };

/* The one end of a connection: state, event, flush, stream. */
static void end(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained, enum how how)
{
    struct stream *stream = qp->stream;

    if (qp->state != RI_QPS_RTS && qp->state != RI_QPS_CLOSING)
        return;
    qp->state = RI_QPS_ERROR;
    note(qp, type, code, explained);
    flush(qp);
    if (!stream)
        return;
    qp->stream = NULL;
    stream->qp = NULL;
    if (how == CLOSE)
        stream_close(stream);
    else
        stream_drop(stream, how == RESET);
}

/* Tell the peer why, in a last frame; then the end. */
static void fail(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained)
{
    if (!qp->stream->closing && ROOM - qp->stream->out_length >= sizeof(struct frame))
        stream_frame(qp->stream, &(struct frame){ .type = FRAME_END, .code = code });
    end(qp, type, code, explained, CLOSE);
}

/* ---- sending. Under the lock ---- */

/* Copies length octets between `octets` and the elements, from their octet `offset` on. `access`
 * says the direction: LOCAL_READ is out of the elements. False: one of them is not to be used. */
static bool copy(const struct qp *qp, const struct request *request, uint32_t offset,
                 uint32_t length, uint8_t *octets, uint32_t access)
{
    for (uint32_t i = 0; i < request->num_sge && length; i++) {
        const struct ri_sge *sge = &request->sges[i];
        uint8_t *at = memory(qp->pd, sge->lkey, sge->addr, sge->length, access);
        uint32_t part;

        if (offset >= sge->length) {
            offset -= sge->length;
            continue;
        }
        if (!at)
            return false;
        part = sge->length - offset < length ? sge->length - offset : length;
        if (access == RI_ACCESS_LOCAL_READ)
            memcpy(octets, at + offset, part);
        else
            memcpy(at + offset, octets, part);
        octets += part;
        length -= part;
        offset = 0;
    }
    return true;
}

static bool elements_are_good(const struct qp *qp, const struct request *request, uint32_t access)
{
    for (uint32_t i = 0; i < request->num_sge; i++)
        if (request->sges[i].length && !memory(qp->pd, request->sges[i].lkey, request->sges[i].addr,
                                               request->sges[i].length, access))
            return false;
    return true;
}

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
    fail(qp, RI_EVENT_LOCAL_ERROR, 0x0000, true);
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
        fail(qp, RI_EVENT_READ_ACCESS, 0x0100, false);
        return false;
    }
    to = stream_frame(qp->stream, &frame);
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
    stream_frame(qp->stream, &frame);
    qp->reads++;
    qp->send.sent++;
    return true;
}

/* A frame of the next request. False: nothing can be sent now. */
static bool cut_request(struct qp *qp)
{
    struct request *request = request_at(&qp->send, qp->send.sent);
    bool read = request->opcode == RI_WR_RDMA_READ;
    struct frame frame = { .type = FRAME_SEND, .address = request->moved };
    uint32_t left;

    if (qp->send.sent == ri_ring_tail(&qp->send.ring))
        return false;
    if ((request->flags & (RI_WR_READ_FENCE | RI_WR_LOCAL_FENCE)) && qp->reads)
        return false;
    if (!request->moved &&
        ((read && !qp->ord) ||
         !elements_are_good(qp, request, read ? RI_ACCESS_LOCAL_WRITE : RI_ACCESS_LOCAL_READ))) {
        if (qp->send.done == qp->send.sent)
            refuse(qp, read && !qp->ord ? RI_WC_LOCAL_QP : RI_WC_LOCAL_PROTECTION);
        return false;
    }
    if (read)
        return cut_read(qp, request);
    left = request->length - request->moved;
    frame.length = left < PAYLOAD ? left : PAYLOAD;
    frame.flags = (uint8_t)((left <= PAYLOAD ? FRAME_LAST : 0) |
                            (request->flags & RI_WR_SOLICITED ? FRAME_SOLICITED : 0));
    if (request->opcode == RI_WR_RDMA_WRITE) {
        frame.type = FRAME_WRITE;
        frame.key = request->rkey;
        frame.address = request->remote_addr + request->moved;
    }
    if (!copy(qp, request, request->moved, frame.length, stream_frame(qp->stream, &frame),
              RI_ACCESS_LOCAL_READ)) {
        qp->stream->out_length -= (uint32_t)sizeof(frame) + frame.length;
        fail(qp, RI_EVENT_LOCAL_ERROR, 0x0000, false); /* deregistered while it was sent */
        return false;
    }
    request->moved += frame.length;
    if (frame.flags & FRAME_LAST) {
        request->finished = true;
        qp->send.sent++;
    }
    return true;
}

/* Everything that can be done for a QP without the peer. Under the lock; report() follows. */
static void serve(struct qp *qp)
{
    while (qp->state == RI_QPS_RTS) {
        while (qp->state == RI_QPS_RTS && stream_has_room(qp->stream) &&
               (cut_answer(qp) || (qp->state == RI_QPS_RTS && cut_request(qp))))
            complete(qp);
        if (qp->state != RI_QPS_RTS || !qp->stream->out_length)
            break;
        stream_write(qp->stream);
        if (qp->stream->out_length)
            break;
    }
    if (qp->state == RI_QPS_ERROR || qp->state == RI_QPS_CLOSING)
        flush(qp);
    ri_cq_collect(&qp->send.source);
    ri_cq_collect(&qp->receive.source);
}

/* ---- receiving. Under the lock ---- */

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
        fail(qp, RI_EVENT_READ_ACCESS, 0x0100, false);
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
        fail(qp, RI_EVENT_LOCAL_ERROR, 0x0000, true);
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
    bool refused = read && read == request_at(&qp->send, qp->send.done) && frame->code == 0x0100;

    if (refused)
        finish(&qp->send, RI_WC_REMOTE_ACCESS);
    end(qp, RI_EVENT_TERMINATE_RECEIVED, frame->code, refused, CLOSE);
}

static void take(struct qp *qp, const struct frame *frame, uint8_t *octets)
{
    if (qp->await_first)
        note(qp, RI_EVENT_ESTABLISHED, 0, false);
    qp->await_first = false;
    switch (frame->type) {
    case FRAME_READY: break;
    case FRAME_SEND: take_send(qp, frame, octets); break;
    case FRAME_WRITE: take_write(qp, frame, octets); break;
    case FRAME_READ: take_read(qp, frame); break;
    case FRAME_ANSWER: take_answer(qp, frame, octets); break;
    case FRAME_END: take_end(qp, frame); break;
    default: fail(qp, RI_EVENT_BAD_OPCODE, 0x0206, false);
    }
}

/* The whole frames in the buffer. What comes after the end is dropped. */
static void parse(struct stream *stream)
{
    uint32_t at = 0;
    struct frame frame;

    while (stream->qp && stream->in_length - at >= sizeof(frame)) {
        memcpy(&frame, stream->in + at, sizeof(frame));
        if (frame.length > PAYLOAD) {
            fail(stream->qp, RI_EVENT_INTEGRITY, 0x2002, false);
            break;
        }
        if (stream->in_length - at < sizeof(frame) + frame.length)
            break;
        at += (uint32_t)sizeof(frame);
        if (stream->qp->state == RI_QPS_CLOSING && frame.type != FRAME_END)
            end(stream->qp, RI_EVENT_LLP_RESET, 0, false, RESET); /* a bad close */
        else
            take(stream->qp, &frame, stream->in + at);
        at += frame.length;
    }
    if (!stream->qp)
        at = stream->in_length;
    memmove(stream->in, stream->in + at, stream->in_length - at);
    stream->in_length -= at;
}

static void peer_closed(struct stream *stream)
{
    struct qp *qp = stream->qp;
    bool busy = qp && qp->send.done != ri_ring_tail(&qp->send.ring);

    if (!qp)
        stream_drop(stream, false);
    else
        end(qp,
            stream->in_length ? RI_EVENT_LLP_LOST
            : busy            ? RI_EVENT_LLP_CLOSED_BUSY
                              : RI_EVENT_LLP_CLOSED,
            0, false, DROP);
}

/* Reads what the socket has, at most a few buffers: readiness is reported again. */
static void receive(struct stream *stream)
{
    for (int i = 0; i < 8 && !atomic_load(&stream->watched.leaving); i++) {
        ssize_t got = recv(stream->watched.fd, stream->in + stream->in_length,
                           ROOM - stream->in_length, MSG_DONTWAIT);

        if (got > 0) {
            stream->in_length += (uint32_t)got;
            parse(stream);
            continue;
        }
        if (!got)
            peer_closed(stream);
        else if (errno != EAGAIN && errno != EINTR && stream->qp)
            end(stream->qp, errno == ECONNRESET ? RI_EVENT_LLP_RESET : RI_EVENT_LLP_LOST, 0, false,
                RESET);
        else if (errno != EAGAIN && errno != EINTR)
            stream_drop(stream, true);
        return;
    }
}

/* The host calls this in a run of the lane. */
static void ready(void *arg, uint32_t events)
{
    struct stream *stream = arg;
    struct rnic *rnic = stream->rnic;
    struct qp *qp;

    pthread_mutex_lock(&rnic->lock);
    if (atomic_load(&stream->watched.leaving)) {
        pthread_mutex_unlock(&rnic->lock);
        return;
    }
    qp = stream->qp;
    if (events & EPOLLOUT)
        stream_write(stream);
    receive(stream);
    if (qp)
        report(qp);
    else
        pthread_mutex_unlock(&rnic->lock);
}

/* Does what there is to do, unlocks, makes the upcalls that were noted. Their objects exist: the
 * QP is counted, and a CQ is not destroyed between collect and deliver. */
static void report(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;
    struct ri_mem_cq *send = qp->send.source.cq, *receive = qp->receive.source.cq;
    struct ri_event events[2];
    unsigned int count;

    serve(qp);
    count = qp->event_count;
    memcpy(events, qp->events, sizeof(events));
    qp->event_count = 0;
    atomic_fetch_add(&qp->upcalls, 1);
    pthread_mutex_unlock(&rnic->lock);
    for (unsigned int i = 0; i < count; i++)
        rnic->host->qp_event(rnic->host, qp->base.context, &events[i]);
    atomic_fetch_sub(&qp->upcalls, 1);
    ri_cq_deliver(send);
    ri_cq_deliver(receive);
}

/* ---- QPs ---- */

static enum ri_status check_qp(const struct ri_qp_attr *attr)
{
    if (attr->type != RI_QP_RC || attr->srq || (attr->flags & RI_QP_PRIVILEGED))
        return RI_ERR_NOT_SUPPORTED;
    if (attr->max_send_wr > MAX_WR || attr->max_recv_wr > MAX_WR || attr->max_send_sge > MAX_SGE ||
        attr->max_recv_sge > MAX_SGE || attr->max_read_sge > 1 || attr->max_write_sge > MAX_SGE ||
        attr->max_inline || attr->ird > MAX_DEPTH || attr->ord > MAX_DEPTH)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static void qp_free(struct qp *qp)
{
    queue_close(&qp->send);
    queue_close(&qp->receive);
    count_object(qp->rnic, QPS, -1);
    free(qp);
}

static enum ri_status vp_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    enum ri_status status = check_qp(attr);
    struct qp *qp;

    if (status != RI_OK)
        return status;
    qp = calloc(1, sizeof(*qp));
    if (!qp || !count_object(((struct pd *)base)->rnic, QPS, 1)) {
        free(qp);
        return RI_ERR_NO_RESOURCES;
    }
    qp->pd = (struct pd *)base;
    qp->rnic = qp->pd->rnic;
    qp->base = (struct ri_qp){ qp->rnic->user, attr->context };
    qp->flags = attr->flags;
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    attr->max_send_wr += !attr->max_send_wr;
    attr->max_recv_wr += !attr->max_recv_wr;
    if (!queue_open(&qp->send, qp, attr->send_cq, attr->max_send_wr, false) ||
        !queue_open(&qp->receive, qp, attr->recv_cq, attr->max_recv_wr, true)) {
        qp_free(qp);
        return RI_ERR_NO_RESOURCES;
    }
    attr->max_send_sge = attr->max_recv_sge = attr->max_write_sge = MAX_SGE;
    attr->max_read_sge = 1;
    pthread_mutex_lock(&qp->rnic->lock);
    qp->number = ++qp->rnic->next_qpn;
    qp->pd->users++;
    pthread_mutex_unlock(&qp->rnic->lock);
    *out = &qp->base;
    return RI_OK;
}

static enum ri_status vp_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = (struct qp *)base;
    struct ri_qp_info now = { .qpn = qp->number,
                              .max_send_wr = qp->send.ring.depth,
                              .max_recv_wr = qp->receive.ring.depth,
                              .max_send_sge = MAX_SGE,
                              .max_recv_sge = MAX_SGE,
                              .max_read_sge = 1,
                              .max_write_sge = MAX_SGE,
                              .flags = qp->flags };

    pthread_mutex_lock(&qp->rnic->lock);
    now.state = qp->state;
    now.ird = qp->ird;
    now.ord = qp->ord;
    pthread_mutex_unlock(&qp->rnic->lock);
    return ri_sized_copy(info, &now, sizeof(now)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* What the host has read already, and what it wants to be sent first. */
static enum ri_status take_over(struct stream *stream, const struct ri_llp_handover *handover)
{
    if (handover->bytes_read_length > ROOM || handover->last_message_length > ROOM - PAYLOAD)
        return RI_ERR_INVALID_ARGUMENT;
    if (handover->bytes_read_length)
        memcpy(stream->in, handover->bytes_read, handover->bytes_read_length);
    if (handover->last_message_length)
        memcpy(stream->out, handover->last_message, handover->last_message_length);
    stream->in_length = (uint32_t)handover->bytes_read_length;
    stream->out_length = (uint32_t)handover->last_message_length;
    if (handover->rtr_send)
        stream_frame(stream, &(struct frame){ .type = FRAME_READY });
    stream->watched.fd = handover->fd;
    stream->watched.gone = stream_gone;
    return RI_OK;
}

/* Under the lock. */
static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    struct rnic *rnic = qp->rnic;
    struct stream *stream;
    enum ri_status status;

    if (qp->state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (!handover)
        return RI_ERR_INVALID_ARGUMENT;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return RI_ERR_NO_RESOURCES;
    stream->rnic = rnic;
    status = take_over(stream, handover);
    if (status == RI_OK)
        status = ri_watched_add(&rnic->leaving, &stream->watched, EPOLLIN | EPOLLRDHUP, ready,
                                stream);
    if (status != RI_OK) {
        free(stream);
        return status;
    }
    stream->next = rnic->streams;
    rnic->streams = stream;
    stream->qp = qp;
    qp->stream = stream;
    qp->state = RI_QPS_RTS;
    qp->ird = handover->ird < MAX_DEPTH ? handover->ird : MAX_DEPTH;
    qp->ord = handover->ord < MAX_DEPTH ? handover->ord : MAX_DEPTH;
    qp->await_first = handover->rtr_await;
    if (handover->refuse_code)
        fail(qp, RI_EVENT_LOCAL_ERROR, handover->refuse_code, false);
    else
        parse(stream);
    return RI_OK;
}

static enum ri_status start_closing(struct qp *qp)
{
    if (qp->state != RI_QPS_RTS)
        return RI_ERR_INVALID_STATE;
    if (qp->reads) {
        end(qp, RI_EVENT_LLP_RESET, 0, false, RESET);
        return RI_OK;
    }
    qp->state = RI_QPS_CLOSING;
    stream_close(qp->stream);
    return RI_OK;
}

static enum ri_status go_idle(struct qp *qp)
{
    struct queue *send = &qp->send;
    uint32_t head = ri_ring_head(&send->ring);

    if (qp->state != RI_QPS_ERROR && qp->state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    flush(qp);
    qp->reads = qp->answer_count = 0;
    qp->state = RI_QPS_IDLE;
    /* Unsignalled requests that no completion will cover. */
    while (head != ri_ring_tail(&send->ring) && !makes_completion(send, request_at(send, head)))
        head++;
    if (head == ri_ring_tail(&send->ring))
        ri_ring_take_to(&send->ring, head);
    return RI_OK;
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_ERR_NOT_SUPPORTED;

    if (modify->mask & ~(uint32_t)(RI_QPM_STATE | RI_QPM_HANDOVER))
        return RI_ERR_NOT_SUPPORTED;
    if (!(modify->mask & RI_QPM_STATE))
        return RI_OK;
    pthread_mutex_lock(&qp->rnic->lock);
    switch (modify->state) {
    case RI_QPS_RTS:
        status = start(qp, modify->mask & RI_QPM_HANDOVER ? modify->handover : NULL);
        break;
    case RI_QPS_CLOSING: status = start_closing(qp); break;
    case RI_QPS_TERMINATE:
        status = qp->state == RI_QPS_RTS ? RI_OK : RI_ERR_INVALID_STATE;
        if (status == RI_OK)
            fail(qp, RI_EVENT_LOCAL_ERROR, 0x0000, false);
        break;
    case RI_QPS_ERROR:
        end(qp, qp->state == RI_QPS_CLOSING ? RI_EVENT_LLP_CLOSED : RI_EVENT_LLP_RESET, 0, false,
            RESET);
        qp->state = RI_QPS_ERROR;
        status = RI_OK;
        break;
    case RI_QPS_IDLE: status = go_idle(qp); break;
    default: break;
    }
    report(qp);
    return status;
}

/* An open connection goes on closing without the QP. */
static enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;
    struct rnic *rnic = qp->rnic;

    pthread_mutex_lock(&rnic->lock);
    qp->state = RI_QPS_ERROR;
    if (qp->stream) {
        qp->stream->qp = NULL;
        stream_close(qp->stream);
    }
    qp->stream = NULL;
    qp->pd->users--;
    pthread_mutex_unlock(&rnic->lock);
    while (atomic_load(&qp->upcalls))
        sched_yield();
    qp_free(qp);
    return RI_OK;
}

/* ---- posts ---- */

/* The last part of both posts. */
static enum ri_status put(struct queue *queue, struct request *request, const struct ri_sge *sges,
                          uint32_t count)
{
    uint32_t tail = ri_ring_tail(&queue->ring);
    uint64_t length = 0;

    for (uint32_t i = 0; i < count; i++) {
        request->sges[i] = sges[i];
        length += sges[i].length;
    }
    if (length > MAX_MESSAGE)
        return RI_ERR_LIMIT;
    if (!ri_ring_room(&queue->ring))
        return RI_ERR_QUEUE_FULL;
    request->num_sge = count;
    request->length = (uint32_t)length;
    *request_at(queue, tail) = *request;
    ri_ring_put(&queue->ring, tail);
    return RI_OK;
}

static enum ri_status post_one(struct qp *qp, const struct ri_send_wr *wr)
{
    struct request request = { .cookie = wr->cookie,
                               .opcode = wr->opcode,
                               .flags = wr->flags,
                               .remote_addr = wr->rdma.remote_addr,
                               .rkey = wr->rdma.rkey };
    bool known = wr->opcode == RI_WR_SEND || wr->opcode == RI_WR_RDMA_WRITE ||
                 wr->opcode == RI_WR_RDMA_READ;

    if (qp->state == RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (!known || (wr->flags & RI_WR_INLINE) ||
        wr->num_sge > (wr->opcode == RI_WR_RDMA_READ ? 1 : MAX_SGE))
        return RI_ERR_INVALID_ARGUMENT;
    return put(&qp->send, &request, wr->sg_list, wr->num_sge);
}

static enum ri_status receive_one(struct qp *qp, const struct ri_recv_wr *wr)
{
    struct request request = { .cookie = wr->cookie, .flags = (uint16_t)wr->flags };

    if (wr->num_sge > MAX_SGE)
        return RI_ERR_INVALID_ARGUMENT;
    return put(&qp->receive, &request, wr->sg_list, wr->num_sge);
}

static enum ri_status vp_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                   struct ri_send_wr **bad)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = post_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    report(qp);
    return status;
}

static enum ri_status vp_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                   struct ri_recv_wr **bad)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->rnic->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = receive_one(qp, wr);
    if (status != RI_OK)
        *bad = wr;
    report(qp);
    return status;
}

/* ---- PDs and CQs ---- */

static enum ri_status vp_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct rnic *rnic = (struct rnic *)base;
    struct pd *pd = calloc(1, sizeof(*pd));

    if (!pd || !count_object(rnic, PDS, 1)) {
        free(pd);
        return RI_ERR_NO_RESOURCES;
    }
    pd->base = (struct ri_pd){ base->ops, context };
    pd->rnic = rnic;
    *out = &pd->base;
    return RI_OK;
}

static enum ri_status vp_pd_destroy(struct ri_pd *base)
{
    struct pd *pd = (struct pd *)base;
    struct rnic *rnic = pd->rnic;
    bool busy;

    pthread_mutex_lock(&rnic->lock);
    busy = pd->users;
    rnic->count[PDS] -= !busy;
    pthread_mutex_unlock(&rnic->lock);
    if (busy)
        return RI_ERR_BUSY;
    free(pd);
    return RI_OK;
}

static enum ri_status vp_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                   struct ri_cq **out)
{
    struct rnic *rnic = (struct rnic *)base;
    struct cq *cq;
    enum ri_status status;

    if (attr->depth > MAX_CQE)
        return RI_ERR_LIMIT;
    cq = calloc(1, sizeof(*cq));
    if (!cq || !count_object(rnic, CQS, 1)) {
        free(cq);
        return RI_ERR_NO_RESOURCES;
    }
    cq->rnic = rnic;
    status = ri_mem_cq_open(&cq->mem, rnic->host, rnic->user, attr);
    if (status != RI_OK) {
        count_object(rnic, CQS, -1);
        free(cq);
        return status;
    }
    *out = &cq->mem.base;
    return RI_OK;
}

static enum ri_status vp_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = (struct cq *)base;
    struct rnic *rnic = cq->rnic;
    enum ri_status status = ri_mem_cq_close(&cq->mem);

    if (status != RI_OK)
        return status;
    count_object(rnic, CQS, -1);
    free(cq);
    return RI_OK;
}

/* ---- the RNIC ---- */

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = "template", .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;
    uint64_t ms;

    if (open->device && strcmp(open->device, "template"))
        return RI_ERR_INVALID_ARGUMENT;
    if (ri_option_number(open->host, "close_timeout", &ms) != RI_OK)
        return RI_ERR_INVALID_ARGUMENT;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base = (struct ri_rnic){ open->privileged, open->context };
    rnic->host = open->host;
    rnic->user = open->user;
    rnic->close_timeout = ms * 1000000;
    pthread_mutex_init(&rnic->lock, NULL);
    *out = &rnic->base;
    return RI_OK;
}

static enum ri_status vp_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = (struct rnic *)base;
    bool busy;

    pthread_mutex_lock(&rnic->lock);
    busy = rnic->count[PDS] || rnic->count[CQS];
    for (struct stream *stream = rnic->streams; stream && force && !busy; stream = stream->next)
        stream_drop(stream, true);
    pthread_mutex_unlock(&rnic->lock);
    if (busy)
        return RI_ERR_BUSY;
    ri_unwatch_now(&rnic->leaving);
    if (rnic->streams)
        return RI_ERR_AGAIN;
    pthread_mutex_destroy(&rnic->lock);
    free(rnic);
    return RI_OK;
}

static enum ri_status vp_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    static const struct ri_rnic_attr all = {
        .transport = RI_TRANSPORT_IWARP,
        .features = RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_ARM_NOTIFY |
                    RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW,
        .max_mr_length = UINT64_C(1) << 47,
        .max_message = MAX_MESSAGE,
        .max_send = MAX_MESSAGE,
        .max_pd = MAX_OBJECTS,
        .max_cq = MAX_OBJECTS,
        .max_qp = MAX_OBJECTS,
        .max_mr = MAX_MR,
        .max_cqe = MAX_CQE,
        .max_send_wr = MAX_WR,
        .max_recv_wr = MAX_WR,
        .max_send_sge = MAX_SGE,
        .max_recv_sge = MAX_SGE,
        .max_read_sge = 1,
        .max_write_sge = MAX_SGE,
        .max_ird = MAX_DEPTH,
        .max_ord = MAX_DEPTH,
        .ports = 1,
        .lanes = 1,
        .alignment_hint = 64,
        .connect_private_data = RI_MAX_PRIVATE_DATA,
        .accept_private_data = RI_MAX_PRIVATE_DATA,
        .reject_private_data = RI_MAX_PRIVATE_DATA,
        .wire = "template frames/TCP",
    };

    (void)base;
    return ri_sized_copy(attr, &all, sizeof(all)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static void add_address(struct ri_port_attr *attr, const struct sockaddr *address)
{
    bool v4 = address->sa_family == AF_INET;
    struct ri_address to = { .prefix_length = v4 ? 32 : 128 };

    memcpy(&to.sockaddr, address, v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    if (attr->address_count < attr->address_capacity)
        attr->addresses[attr->address_count] = to;
    attr->address_count++;
}

/* Every address of this host: TCP connects them all. */
static enum ri_status vp_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    struct ifaddrs *all, *at;

    (void)base;
    if (attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    if (getifaddrs(&all))
        return RI_ERR_NO_RESOURCES;
    attr->online = true;
    attr->link_ethernet = true;
    attr->mtu = 1500;
    attr->address_count = 0;
    snprintf(attr->name, sizeof(attr->name), "lo");
    for (at = all; at; at = at->ifa_next)
        if (at->ifa_addr && (at->ifa_flags & IFF_UP) &&
            (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6))
            add_address(attr, at->ifa_addr);
    freeifaddrs(all);
    return RI_OK;
}

/* ---- the lane ---- */

static enum ri_status vp_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                   struct ri_lane **out)
{
    struct rnic *rnic = (struct rnic *)base;

    if (index)
        return RI_ERR_INVALID_ARGUMENT;
    rnic->lane = (struct ri_lane){ rnic->user, context };
    rnic->leaving.host = rnic->host;
    rnic->leaving.lane_context = context;
    *out = &rnic->lane;
    return RI_OK;
}

static struct rnic *rnic_of_lane(struct ri_lane *lane)
{
    return (struct rnic *)((char *)lane - offsetof(struct rnic, lane));
}

/* A closing stream whose time is over; the others set when to look again. Under the lock. */
static struct stream *find_late(struct rnic *rnic, uint64_t *next)
{
    uint64_t now = rnic->closing ? now_ns() : 0;

    *next = RI_NO_DEADLINE;
    for (struct stream *stream = rnic->closing ? rnic->streams : NULL; stream;
         stream = stream->next) {
        if (!stream->closing || atomic_load(&stream->watched.leaving))
            continue;
        if (stream->deadline <= now)
            return stream;
        if (stream->deadline < *next)
            *next = stream->deadline;
    }
    return NULL;
}

/* Sockets are read by ready(): all that is left are streams that end. */
static uint32_t vp_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                            uint64_t *next_deadline)
{
    struct rnic *rnic = rnic_of_lane(lane);
    uint32_t work = 0;
    struct stream *late;

    (void)first, (void)budget;
    for (;;) {
        struct qp *qp;

        pthread_mutex_lock(&rnic->lock);
        late = find_late(rnic, next_deadline);
        qp = late ? late->qp : NULL;
        if (qp) {
            end(qp, RI_EVENT_LLP_LOST, 0, false, RESET);
            report(qp);
        } else {
            if (late)
                stream_drop(late, true);
            pthread_mutex_unlock(&rnic->lock);
        }
        if (!late)
            break;
        work++;
    }
    return work + ri_unwatch_now(&rnic->leaving);
}

static bool vp_lane_arm(struct ri_lane *lane)
{
    return !ri_unwatch_pending(&rnic_of_lane(lane)->leaving);
}

/* ---- the descriptor ---- */

static const struct ri_privileged_ops privileged = {
    .size = sizeof(privileged),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = vp_enumerate,
    .open = vp_open,
    .close = vp_close,
    .query = vp_query,
    .query_port = vp_query_port,
    .lane_open = vp_lane_open,
    .pd_create = vp_pd_create,
    .pd_destroy = vp_pd_destroy,
    .cq_create = vp_cq_create,
    .cq_destroy = vp_cq_destroy,
    .qp_create = vp_qp_create,
    .qp_modify = vp_qp_modify,
    .qp_query = vp_qp_query,
    .qp_destroy = vp_qp_destroy,
    .mr_register = vp_mr_register,
    .mr_deregister = vp_mr_deregister,
};

static const struct ri_user_ops user = {
    .size = sizeof(user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = vp_post_send,
    .post_recv = vp_post_recv,
    .poll = ri_mem_cq_poll,
    .arm = ri_mem_cq_arm,
    .cq_peek = ri_mem_cq_peek,
    .progress = vp_progress,
    .lane_arm = vp_lane_arm,
};

RI_PROVIDER(vp_template) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "template",
    .description = "Sends, Writes and Reads over TCP, in frames of its own: to be copied",
    .version = "1",
    .privileged = &privileged,
    .user = &user,
};

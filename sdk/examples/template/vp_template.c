/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider to copy: Sends, RDMA Writes and RDMA Reads with connection set B. ital connects
 * and negotiates; this provider gets the TCP socket and moves segments of requests over it, in a
 * form of its own. So both ends have to be this provider.
 *
 * What a provider needs whatever its device is comes from librnicpi.a, and stands in the tables at
 * the end of the file as ri_mem_...: PDs, CQs, regions, posts (rnicpi_mem.h). What requests become
 * is rnicpi_rc.h's; a device that executes requests by itself takes the place of that. Here are the
 * sockets, the states of a QP, and the attributes.
 *
 * Begin with the tables, then follow serve() and ready(). Locks: the RNIC's lock guards everything
 * but the CQs. No upcall and no unwatch is made under it: events are noted and told by the next run
 * of the lane, completions by ri_mem_report(), which releases the lock.
 */
#include <rnicpi.h>
#include <rnicpi_mem.h>
#include <rnicpi_rc.h>
#include <rnicpi_util.h>

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MAX_DEPTH   RI_RC_DEPTH /* IRD and ORD */
#define MAX_MESSAGE (UINT32_C(1) << 30)
#define SEGMENT     (RI_RC_PAYLOAD + (uint32_t)sizeof(struct ri_segment))
#define ROOM        (4 * SEGMENT)

/* ---- objects: each begins with the library's, which begins with that of rnicpi.h ---- */

struct rnic {
    struct ri_mem_rnic mem;
    struct stream *streams;
    uint32_t closing;       /* streams with a deadline */
    uint64_t close_timeout; /* ns */
};

struct qp {
    struct ri_rc rc;
    struct stream *stream;
    bool await_first; /* report ESTABLISHED at the first segment */
};

/* The socket outlives its QP: it sends what is left, and waits for the peer's end. */
struct stream {
    struct ri_watched watched;
    struct rnic *rnic;
    struct qp *qp; /* NULL: it is only closing */
    struct stream *next;
    bool closing, shut, writes, reset;
    uint64_t deadline; /* of a closing one */
    uint32_t in_length, out_length;
    uint8_t in[ROOM], out[ROOM];
};

/* ---- streams: what stands between a QP and its socket. Under the lock ---- */

/* The connection ends in the lane's next pass. */
static void stream_drop(struct stream *stream, bool reset)
{
    if (!atomic_load(&stream->watched.leaving))
        stream->reset = reset;
    ri_unwatch_later(&stream->rnic->mem.leaving, &stream->watched);
}

/* The consumer of a converted socket, or a forked child, may hold the socket, too: closing the
 * descriptor alone would end nothing. */
static void end_connection(int fd, bool reset)
{
    const struct linger none = { .l_onoff = 1 };
    const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

    if (reset) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        connect(fd, &nobody, sizeof(nobody)); /* a RST, sent at once */
    } else {
        shutdown(fd, SHUT_RDWR);
    }
    close(fd);
}

/* No lock held, nobody is in ready(): see rnicpi_watch.h. */
static void stream_gone(struct ri_watched *watched)
{
    struct stream *stream = (struct stream *)watched, **at;
    struct rnic *rnic = stream->rnic;

    end_connection(watched->fd, stream->reset);
    pthread_mutex_lock(&rnic->mem.lock);
    for (at = &rnic->streams; *at != stream; at = &(*at)->next)
        ;
    *at = stream->next;
    rnic->closing -= stream->closing;
    pthread_mutex_unlock(&rnic->mem.lock);
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
        rnic->mem.host->rewatch(rnic->mem.host, stream->watched.watch,
                                EPOLLIN | EPOLLRDHUP | (blocked ? EPOLLOUT : 0));
    }
}

/* See ri_rc.put. A last message may go when a segment would not. */
static uint8_t *stream_put(struct stream *stream, const struct ri_segment *segment)
{
    uint8_t *at = stream->out + stream->out_length;
    uint32_t octets = (uint32_t)sizeof(*segment) + segment->length;

    if (stream->closing || ROOM - stream->out_length < octets)
        return NULL;
    memcpy(at, segment, sizeof(*segment));
    stream->out_length += octets;
    return at + sizeof(*segment);
}

/* Send what is left, then our end. The peer's end closes the socket, or progress, later. */
static void stream_close(struct stream *stream)
{
    struct rnic *rnic = stream->rnic;

    if (stream->closing)
        return;
    stream->closing = true;
    stream->deadline = ri_now() + rnic->close_timeout;
    rnic->closing++;
    stream_write(stream);
    rnic->mem.host->wake(rnic->mem.host, rnic->mem.lane.context); /* for the deadline */
}

/* ---- the end of a connection. Under the lock ---- */

enum how { CLOSE, RESET, DROP };

/* The one end of a connection: state, event, flush, stream. */
static void end(struct qp *qp, enum ri_event_type type, uint16_t code, bool explained, enum how how)
{
    struct stream *stream = qp->stream;

    if (qp->rc.qp.state != RI_QPS_RTS && qp->rc.qp.state != RI_QPS_CLOSING)
        return;
    ri_mem_qp_end(&qp->rc.qp, type, code, explained);
    if (!stream)
        return;
    qp->stream = NULL;
    stream->qp = NULL;
    if (how == CLOSE)
        stream_close(stream);
    else
        stream_drop(stream, how == RESET);
}

/* ---- what rnicpi_rc.h asks for ---- */

static uint8_t *rc_put(struct ri_rc *rc, const struct ri_segment *segment)
{
    return stream_put(((struct qp *)rc)->stream, segment);
}

static void rc_end(struct ri_rc *rc, enum ri_event_type type, uint16_t code, bool explained)
{
    end((struct qp *)rc, type, code, explained, CLOSE);
}

/* Everything that can be done for a QP without the peer; ri_mem_report() follows. */
static void serve(struct ri_mem_qp *base)
{
    struct qp *qp = (struct qp *)base;

    while (base->state == RI_QPS_RTS) {
        while (base->state == RI_QPS_RTS && ri_rc_send(&qp->rc))
            ;
        if (base->state != RI_QPS_RTS || !qp->stream->out_length)
            break;
        stream_write(qp->stream);
        if (qp->stream->out_length)
            break;
    }
}

/* ---- receiving. Under the lock ---- */

static void take(struct qp *qp, const struct ri_segment *segment, const uint8_t *octets)
{
    if (qp->await_first)
        ri_mem_qp_note(&qp->rc.qp, RI_EVENT_ESTABLISHED, 0, false);
    qp->await_first = false;
    if (qp->rc.qp.state == RI_QPS_CLOSING && segment->type != RI_SEGMENT_END)
        end(qp, RI_EVENT_LLP_RESET, 0, false, RESET); /* a bad close */
    else
        ri_rc_take(&qp->rc, segment, octets);
}

/* The whole segments in the buffer. What comes after the end is dropped. */
static void parse(struct stream *stream)
{
    uint32_t at = 0;
    struct ri_segment segment;

    while (stream->qp && stream->in_length - at >= sizeof(segment)) {
        memcpy(&segment, stream->in + at, sizeof(segment));
        if (segment.length <= RI_RC_PAYLOAD &&
            stream->in_length - at < sizeof(segment) + segment.length)
            break;
        take(stream->qp, &segment, stream->in + at + sizeof(segment));
        at += (uint32_t)sizeof(segment) + segment.length; /* too long: it was the end */
    }
    if (!stream->qp)
        at = stream->in_length;
    memmove(stream->in, stream->in + at, stream->in_length - at);
    stream->in_length -= at;
}

static void peer_closed(struct stream *stream)
{
    struct qp *qp = stream->qp;

    if (!qp)
        stream_drop(stream, false);
    else
        end(qp,
            stream->in_length                  ? RI_EVENT_LLP_LOST
            : ri_queue_oldest(&qp->rc.qp.send) ? RI_EVENT_LLP_CLOSED_BUSY
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

    pthread_mutex_lock(&rnic->mem.lock);
    if (atomic_load(&stream->watched.leaving)) {
        pthread_mutex_unlock(&rnic->mem.lock);
        return;
    }
    qp = stream->qp;
    if (events & EPOLLOUT)
        stream_write(stream);
    receive(stream);
    if (!qp) {
        pthread_mutex_unlock(&rnic->mem.lock);
        return;
    }
    serve(&qp->rc.qp);
    ri_mem_report(&qp->rc.qp);
}

/* ---- QPs ---- */

static enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct qp *qp = calloc(1, sizeof(*qp));
    enum ri_status status;

    if (!qp)
        return RI_ERR_NO_RESOURCES;
    qp->rc.put = rc_put;
    qp->rc.end = rc_end;
    status = ri_mem_qp_open(&qp->rc.qp, (struct ri_mem_pd *)pd, attr);
    if (status != RI_OK) {
        free(qp);
        return status;
    }
    *out = &qp->rc.qp.base;
    return RI_OK;
}

/* What the host has read already, and what it wants to be sent first. */
static enum ri_status take_over(struct stream *stream, const struct ri_llp_handover *handover)
{
    if (handover->bytes_read_length > ROOM || handover->last_message_length > ROOM - SEGMENT)
        return RI_ERR_INVALID_ARGUMENT;
    if (handover->bytes_read_length)
        memcpy(stream->in, handover->bytes_read, handover->bytes_read_length);
    if (handover->last_message_length)
        memcpy(stream->out, handover->last_message, handover->last_message_length);
    stream->in_length = (uint32_t)handover->bytes_read_length;
    stream->out_length = (uint32_t)handover->last_message_length;
    if (handover->rtr_send)
        stream_put(stream, &(struct ri_segment){ .type = RI_SEGMENT_READY });
    stream->watched.fd = handover->fd;
    stream->watched.gone = stream_gone;
    return RI_OK;
}

/* Under the lock. */
static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    struct rnic *rnic = (struct rnic *)qp->rc.qp.rnic;
    struct stream *stream;
    enum ri_status status;

    if (qp->rc.qp.state != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (!handover)
        return RI_ERR_INVALID_ARGUMENT;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return RI_ERR_NO_RESOURCES;
    stream->rnic = rnic;
    status = take_over(stream, handover);
    if (status == RI_OK)
        status = ri_watched_add(&rnic->mem.leaving, &stream->watched, EPOLLIN | EPOLLRDHUP, ready,
                                stream);
    if (status != RI_OK) {
        free(stream);
        return status;
    }
    stream->next = rnic->streams;
    rnic->streams = stream;
    stream->qp = qp;
    qp->stream = stream;
    qp->rc.qp.state = RI_QPS_RTS;
    qp->rc.qp.ird = handover->ird < MAX_DEPTH ? handover->ird : MAX_DEPTH;
    qp->rc.qp.ord = handover->ord < MAX_DEPTH ? handover->ord : MAX_DEPTH;
    qp->await_first = handover->rtr_await;
    if (handover->refuse_code)
        ri_rc_fail(&qp->rc, RI_EVENT_LOCAL_ERROR, handover->refuse_code, false);
    else
        parse(stream);
    return RI_OK;
}

static enum ri_status start_closing(struct qp *qp)
{
    if (qp->rc.qp.state != RI_QPS_RTS)
        return RI_ERR_INVALID_STATE;
    if (qp->rc.reads) {
        end(qp, RI_EVENT_LLP_RESET, 0, false, RESET);
        return RI_OK;
    }
    qp->rc.qp.state = RI_QPS_CLOSING;
    ri_queue_flush(&qp->rc.qp.send);
    ri_queue_flush(&qp->rc.qp.receive);
    stream_close(qp->stream);
    return RI_OK;
}

static enum ri_status change_state(struct qp *qp, const struct ri_qp_modify *modify)
{
    struct ri_mem_qp *base = &qp->rc.qp;
    enum ri_status status;

    switch (modify->state) {
    case RI_QPS_RTS: return start(qp, modify->mask & RI_QPM_HANDOVER ? modify->handover : NULL);
    case RI_QPS_CLOSING: return start_closing(qp);
    case RI_QPS_TERMINATE:
        if (base->state != RI_QPS_RTS)
            return RI_ERR_INVALID_STATE;
        ri_rc_fail(&qp->rc, RI_EVENT_LOCAL_ERROR, 0x0000, false);
        return RI_OK;
    case RI_QPS_ERROR:
        end(qp, base->state == RI_QPS_CLOSING ? RI_EVENT_LLP_CLOSED : RI_EVENT_LLP_RESET, 0, false,
            RESET);
        ri_mem_qp_end(base, 0, 0, false); /* from IDLE: no event */
        return RI_OK;
    case RI_QPS_IDLE:
        status = ri_mem_qp_idle(base);
        if (status == RI_OK)
            ri_rc_reset(&qp->rc);
        return status;
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status;

    if (modify->mask & ~(uint32_t)(RI_QPM_STATE | RI_QPM_HANDOVER))
        return RI_ERR_NOT_SUPPORTED;
    if (!(modify->mask & RI_QPM_STATE))
        return RI_OK;
    pthread_mutex_lock(&qp->rc.qp.rnic->lock);
    status = change_state(qp, modify);
    serve(&qp->rc.qp);
    ri_mem_report(&qp->rc.qp);
    return status;
}

/* An open connection goes on closing without the QP. */
static enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;

    pthread_mutex_lock(&qp->rc.qp.rnic->lock);
    qp->rc.qp.state = RI_QPS_ERROR;
    if (qp->stream) {
        qp->stream->qp = NULL;
        stream_close(qp->stream);
    }
    qp->stream = NULL;
    pthread_mutex_unlock(&qp->rc.qp.rnic->lock);
    ri_mem_qp_close(&qp->rc.qp);
    free(qp);
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

static const struct ri_rnic_attr attributes = {
    .transport = RI_TRANSPORT_IWARP,
    .features = RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_ARM_NOTIFY |
                RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW,
    .max_mr_length = UINT64_C(1) << 47,
    .max_message = MAX_MESSAGE,
    .max_send = MAX_MESSAGE,
    .max_pd = 65536,
    .max_cq = 65536,
    .max_qp = 65536,
    .max_mr = 4096,
    .max_cqe = 1u << 20,
    .max_send_wr = 4096,
    .max_recv_wr = 4096,
    .max_send_sge = 4,
    .max_recv_sge = 4,
    .max_read_sge = 1,
    .max_write_sge = 4,
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

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;
    uint64_t ms;

    if (open->device && strcmp(open->device, "template"))
        return RI_ERR_INVALID_ARGUMENT;
    if (ri_option_number(open->host, "close_timeout", &ms) != RI_OK)
        return RI_ERR_INVALID_ARGUMENT;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic || ri_mem_rnic_open(&rnic->mem, open, &attributes, serve) != RI_OK) {
        free(rnic);
        return RI_ERR_NO_RESOURCES;
    }
    rnic->close_timeout = ms * 1000000;
    *out = &rnic->mem.base;
    return RI_OK;
}

/* A stream is an object that is not there: the sockets of QPs that are gone. */
static enum ri_status vp_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = (struct rnic *)base;
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&rnic->mem.lock);
    if (rnic->mem.count[RI_MEM_PDS] || rnic->mem.count[RI_MEM_CQS])
        status = RI_ERR_BUSY;
    for (struct stream *stream = rnic->streams; stream && force && status == RI_OK;
         stream = stream->next)
        stream_drop(stream, true);
    pthread_mutex_unlock(&rnic->mem.lock);
    if (status != RI_OK)
        return status;
    ri_unwatch_now(&rnic->mem.leaving);
    if (rnic->streams)
        return RI_ERR_AGAIN;
    status = ri_mem_rnic_close(&rnic->mem);
    if (status == RI_OK)
        free(rnic);
    return status;
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
            ri_port_add_address(attr, at->ifa_addr, at->ifa_addr->sa_family == AF_INET ? 32 : 128);
    freeifaddrs(all);
    return RI_OK;
}

/* ---- the lane ---- */

/* A closing stream whose time is over; the others set when to look again. Under the lock. */
static struct stream *find_late(struct rnic *rnic, uint64_t *next)
{
    uint64_t now = rnic->closing ? ri_now() : 0;

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

/* Sockets are read by ready(): all that is left are streams that end, and what is to be told. */
static uint32_t vp_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                            uint64_t *next_deadline)
{
    struct rnic *rnic = (struct rnic *)ri_mem_rnic_of_lane(lane);
    uint32_t work = 0;
    struct stream *late;
    uint64_t next, never;

    pthread_mutex_lock(&rnic->mem.lock);
    while ((late = find_late(rnic, &next))) {
        if (late->qp)
            end(late->qp, RI_EVENT_LLP_LOST, 0, false, RESET);
        else
            stream_drop(late, true);
        work++;
    }
    pthread_mutex_unlock(&rnic->mem.lock);
    *next_deadline = next;
    return work + ri_mem_progress(lane, first, budget, &never);
}

/* ---- the tables and the descriptor ---- */

/* RI_MEM_...: see rnicpi_mem.h. What your device does itself is written out instead. */
static const struct ri_privileged_ops privileged = {
    RI_MEM_PRIVILEGED_OPS,     .enumerate = vp_enumerate,   .open = vp_open,
    .close = vp_close,         .query_port = vp_query_port, .qp_create = vp_qp_create,
    .qp_modify = vp_qp_modify, .qp_destroy = vp_qp_destroy,
};

static const struct ri_user_ops user = {
    RI_MEM_USER_OPS,
    .progress = vp_progress,
    .lane_arm = ri_mem_lane_arm,
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

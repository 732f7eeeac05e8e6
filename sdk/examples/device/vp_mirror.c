/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider with an engine of its own, as small as the contract allows, built by a plain cc
 * -shared with the flags of rnicpi.pc, from the installed headers and librnicpi.a alone. Its device
 * is a mirror: everything that a QP sends comes back to it. A connection is handed over (set B)
 * only so that its peer can close it.
 */
#include <rnicpi.h>
#include <rnicpi_cq.h>
#include <rnicpi_ring.h>
#include <rnicpi_util.h>
#include <rnicpi_watch.h>

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DEPTH 64u

struct rnic {
    struct ri_rnic base;
    const struct ri_host *host;
    const struct ri_user_ops *user;
    struct ri_lane lane;
    struct ri_unwatch_list leaving;
    atomic_uint keys, qps;
};

struct pd {
    struct ri_pd base;
    struct rnic *rnic;
};

struct mr {
    struct ri_mr base;
};

struct request {
    uint64_t cookie;
    struct ri_sge sge;
    uint32_t octets;
    uint16_t flags, status;
};

/* ring: posted, not polled. Positions below done have an outcome (written under the QP's lock),
 * those below told are in the CQ (under the CQ's lock). */
struct queue {
    struct ri_cq_source source;
    struct qp *qp;
    bool receive;
    struct ri_ring ring;
    atomic_uint done;
    uint32_t told;
    struct request requests[DEPTH];
};

struct qp {
    struct ri_qp base;
    struct rnic *rnic;
    pthread_mutex_t lock;
    enum ri_qp_state state;
    uint32_t number;
    struct queue send, receive;
    struct ri_watched stream;
    atomic_bool streaming;
};

static struct rnic *rnic_of(struct ri_rnic *base)
{
    return (struct rnic *)base;
}

static struct qp *qp_of(struct ri_qp *base)
{
    return (struct qp *)base;
}

/* ---- completions: called by librnicpi under the lock of the CQ, and by us under ours and that
 * ---- */

static bool tells(const struct queue *queue, const struct request *request)
{
    return queue->receive || (request->flags & RI_WR_SIGNALED) || request->status;
}

static bool next_completion(struct ri_cq_source *source, struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;
    const struct request *request;

    for (; queue->told != queue->done; queue->told++) {
        request = &queue->requests[queue->told & queue->ring.mask];
        if (!tells(queue, request))
            continue;
        if (!wc)
            return true;
        *wc = (struct ri_wc){ .context = queue->qp->base.context,
                              .cookie = request->cookie,
                              .byte_len = request->octets,
                              .status = request->status,
                              .opcode = queue->receive ? RI_WC_RECV : RI_WC_SEND,
                              .flags = (request->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0) |
                                       (request->flags & RI_WR_SOLICITED ? RI_WC_SOLICITED : 0) };
        queue->told++;
        return true;
    }
    return false;
}

/* A completion also releases the unsignalled requests before it. */
static void polled(struct ri_cq_source *source, const struct ri_wc *wc)
{
    struct queue *queue = (struct queue *)source;
    uint32_t head = ri_ring_head(&queue->ring);

    (void)wc;
    while (!tells(queue, &queue->requests[head & queue->ring.mask]))
        head++;
    ri_ring_take_to(&queue->ring, head + 1);
}

static void queue_open(struct queue *queue, struct qp *qp, struct ri_cq *cq, bool receive)
{
    queue->qp = qp;
    queue->receive = receive;
    queue->source.next = next_completion;
    queue->source.polled = polled;
    ri_ring_init(&queue->ring, DEPTH);
    ri_cq_source_add(&queue->source, (struct ri_mem_cq *)cq);
}

/* Under the QP's lock. */
static void finish(struct queue *queue, enum ri_wc_status status, uint32_t octets)
{
    struct request *request = &queue->requests[queue->done & queue->ring.mask];

    request->status = (uint16_t)status;
    request->octets = octets;
    queue->done++;
}

static void tell(struct qp *qp)
{
    ri_cq_deliver(qp->send.source.cq);
    ri_cq_deliver(qp->receive.source.cq);
}

/* ---- the device ---- */

static void mirror(struct qp *qp)
{
    struct queue *from = &qp->send, *to = &qp->receive;

    while (from->done != ri_ring_tail(&from->ring) && to->done != ri_ring_tail(&to->ring)) {
        const struct request *message = &from->requests[from->done & from->ring.mask];
        struct request *into = &to->requests[to->done & to->ring.mask];
        uint32_t octets = message->sge.length;

        if (octets > into->sge.length)
            octets = into->sge.length;
        memcpy((void *)(uintptr_t)into->sge.addr, (const void *)(uintptr_t)message->sge.addr,
               octets);
        into->flags |= message->flags & RI_WR_SOLICITED;
        finish(to, RI_WC_SUCCESS, octets);
        finish(from, RI_WC_SUCCESS, octets);
    }
}

/* Under the QP's lock. */
static void work(struct qp *qp)
{
    struct queue *queues[] = { &qp->send, &qp->receive };

    if (qp->state == RI_QPS_RTS)
        mirror(qp);
    for (int i = 0; i < 2; i++) {
        while (qp->state == RI_QPS_ERROR && queues[i]->done != ri_ring_tail(&queues[i]->ring))
            finish(queues[i], RI_WC_FLUSHED, 0);
        ri_cq_collect(&queues[i]->source);
    }
}

static enum ri_status post(struct qp *qp, struct queue *queue, uint64_t cookie, uint16_t flags,
                           const struct ri_sge *sges, uint32_t count)
{
    uint32_t tail = ri_ring_tail(&queue->ring);

    if (count > 1)
        return RI_ERR_INVALID_ARGUMENT;
    if (!queue->receive && qp->state == RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if (!ri_ring_room(&queue->ring))
        return RI_ERR_QUEUE_FULL;
    queue->requests[tail & queue->ring.mask] = (struct request){
        .cookie = cookie, .sge = count ? *sges : (struct ri_sge){ .addr = 0 }, .flags = flags
    };
    ri_ring_put(&queue->ring, tail);
    return RI_OK;
}

static enum ri_status vendor_post_send(struct ri_qp *base, struct ri_send_wr *wr,
                                       struct ri_send_wr **bad)
{
    struct qp *qp = qp_of(base);
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = wr->opcode == RI_WR_SEND
                     ? post(qp, &qp->send, wr->cookie, wr->flags, wr->sg_list, wr->num_sge)
                     : RI_ERR_NOT_SUPPORTED;
    work(qp);
    pthread_mutex_unlock(&qp->lock);
    tell(qp);
    if (status != RI_OK)
        *bad = wr;
    return status;
}

static enum ri_status vendor_post_recv(struct ri_qp *base, struct ri_recv_wr *wr,
                                       struct ri_recv_wr **bad)
{
    struct qp *qp = qp_of(base);
    enum ri_status status = RI_OK;

    pthread_mutex_lock(&qp->lock);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr)
        status = post(qp, &qp->receive, wr->cookie, (uint16_t)wr->flags, wr->sg_list, wr->num_sge);
    work(qp);
    pthread_mutex_unlock(&qp->lock);
    tell(qp);
    if (status != RI_OK)
        *bad = wr;
    return status;
}

/* ---- the connection ---- */

static void stream_gone(struct ri_watched *watched)
{
    struct qp *qp = (struct qp *)((char *)watched - offsetof(struct qp, stream));

    close(watched->fd);
    atomic_store(&qp->streaming, false);
}

static void end(struct qp *qp, enum ri_event_type type)
{
    const struct ri_event event = { .size = sizeof(event), .type = type };
    bool first;

    pthread_mutex_lock(&qp->lock);
    first = qp->state == RI_QPS_RTS;
    qp->state = RI_QPS_ERROR;
    if (first)
        ri_unwatch_later(&qp->rnic->leaving, &qp->stream); /* `ready` takes the lock, too */
    work(qp);
    pthread_mutex_unlock(&qp->lock);
    tell(qp);
    if (first)
        qp->rnic->host->qp_event(qp->rnic->host, qp->base.context, &event);
}

static void stream_ready(void *arg, uint32_t events)
{
    struct qp *qp = arg;
    char octet;

    (void)events;
    if (!atomic_load(&qp->stream.leaving) && read(qp->stream.fd, &octet, 1) == 0)
        end(qp, RI_EVENT_LLP_CLOSED);
}

static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    enum ri_status status = RI_ERR_INVALID_STATE;

    pthread_mutex_lock(&qp->lock);
    if (qp->state == RI_QPS_IDLE) {
        qp->stream.fd = handover->fd;
        qp->stream.gone = stream_gone;
        status = ri_watched_add(&qp->rnic->leaving, &qp->stream, EPOLLIN | EPOLLRDHUP, stream_ready,
                                qp);
    }
    if (status == RI_OK) {
        atomic_store(&qp->streaming, true);
        qp->state = RI_QPS_RTS;
        work(qp);
    }
    pthread_mutex_unlock(&qp->lock);
    tell(qp);
    return status;
}

static enum ri_status vendor_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = qp_of(base);

    if (modify->mask & ~(uint32_t)(RI_QPM_STATE | RI_QPM_HANDOVER))
        return RI_ERR_NOT_SUPPORTED;
    switch (modify->state) {
    case RI_QPS_RTS: return start(qp, modify->handover);
    case RI_QPS_CLOSING: end(qp, RI_EVENT_LLP_CLOSED); return RI_OK;
    case RI_QPS_ERROR: end(qp, RI_EVENT_LLP_RESET); return RI_OK;
    case RI_QPS_IDLE: qp->state = RI_QPS_IDLE; return RI_OK;
    default: return RI_ERR_NOT_SUPPORTED;
    }
}

static enum ri_status vendor_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    const struct qp *qp = qp_of(base);
    const struct ri_qp_info now = { .state = qp->state,
                                    .qpn = qp->number,
                                    .max_send_wr = DEPTH,
                                    .max_recv_wr = DEPTH,
                                    .max_send_sge = 1,
                                    .max_recv_sge = 1 };

    return ri_sized_copy(info, &now, sizeof(now)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status vendor_qp_create(struct ri_pd *base, struct ri_qp_attr *attr,
                                       struct ri_qp **out)
{
    struct rnic *rnic = ((struct pd *)base)->rnic;
    struct qp *qp;

    if (attr->type != RI_QP_RC || attr->srq)
        return RI_ERR_NOT_SUPPORTED;
    qp = calloc(1, sizeof(*qp));
    if (!qp)
        return RI_ERR_NO_RESOURCES;
    qp->base = (struct ri_qp){ rnic->user, attr->context };
    qp->rnic = rnic;
    qp->number = atomic_fetch_add(&rnic->qps, 1) + 1;
    pthread_mutex_init(&qp->lock, NULL);
    queue_open(&qp->send, qp, attr->send_cq, false);
    queue_open(&qp->receive, qp, attr->recv_cq, true);
    attr->max_send_wr = attr->max_recv_wr = DEPTH;
    *out = &qp->base;
    return RI_OK;
}

/* The caller runs the lane meanwhile, or is it: what leaves is taken off here, with no lock held.
 */
static enum ri_status vendor_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = qp_of(base);

    if (atomic_load(&qp->streaming)) {
        ri_unwatch_later(&qp->rnic->leaving, &qp->stream);
        ri_unwatch_now(&qp->rnic->leaving);
    }
    ri_cq_source_remove(&qp->send.source);
    ri_cq_source_remove(&qp->receive.source);
    pthread_mutex_destroy(&qp->lock);
    free(qp);
    return RI_OK;
}

/* ---- memory ---- */

static enum ri_status vendor_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct rnic *rnic = rnic_of(base);
    struct pd *pd = calloc(1, sizeof(*pd));

    if (!pd)
        return RI_ERR_NO_RESOURCES;
    pd->base = (struct ri_pd){ base->ops, context };
    pd->rnic = rnic;
    *out = &pd->base;
    return RI_OK;
}

static enum ri_status vendor_pd_destroy(struct ri_pd *base)
{
    free(base);
    return RI_OK;
}

static enum ri_status vendor_mr_register(struct ri_pd *base, const struct ri_mr_attr *attr,
                                         struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct mr *mr = calloc(1, sizeof(*mr));

    if (!mr)
        return RI_ERR_NO_RESOURCES;
    mr->base = (struct ri_mr){ base->ops, attr->context };
    keys->lkey = (atomic_fetch_add(&((struct pd *)base)->rnic->keys, 1) + 1) << 8;
    keys->rkey = 0;
    *out = &mr->base;
    return RI_OK;
}

static enum ri_status vendor_mr_deregister(struct ri_mr *base)
{
    free(base);
    return RI_OK;
}

/* ---- CQs: librnicpi's ---- */

static enum ri_status vendor_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                       struct ri_cq **out)
{
    const struct rnic *rnic = rnic_of(base);
    struct ri_mem_cq *cq = malloc(sizeof(*cq));
    enum ri_status status = cq ? ri_mem_cq_open(cq, rnic->host, rnic->user, attr)
                               : RI_ERR_NO_RESOURCES;

    if (status != RI_OK)
        free(cq);
    else
        *out = &cq->base;
    return status;
}

static enum ri_status vendor_cq_resize(struct ri_cq *base, uint32_t *depth)
{
    return ri_mem_cq_resize((struct ri_mem_cq *)base, *depth);
}

static enum ri_status vendor_cq_destroy(struct ri_cq *base)
{
    enum ri_status status = ri_mem_cq_close((struct ri_mem_cq *)base);

    if (status == RI_OK)
        free(base);
    return status;
}

/* ---- the RNIC ---- */

static enum ri_status vendor_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = {
        .size = sizeof(device), .name = "mirror", .transport = RI_TRANSPORT_IWARP, .usable = true
    };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

static enum ri_status vendor_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic = calloc(1, sizeof(*rnic));

    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base = (struct ri_rnic){ open->privileged, open->context };
    rnic->host = open->host;
    rnic->user = open->user;
    ri_log(rnic->host, RI_LOG_DEBUG, "opened: %s", ri_status_name(RI_OK));
    *out = &rnic->base;
    return RI_OK;
}

static enum ri_status vendor_close(struct ri_rnic *base, bool force)
{
    (void)force;
    ri_unwatch_now(&rnic_of(base)->leaving);
    free(base);
    return RI_OK;
}

static enum ri_status vendor_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    static const struct ri_rnic_attr mirror_attr = {
        .transport = RI_TRANSPORT_IWARP,
        .features = RI_FEATURE_CONNECTION_SET_B | RI_FEATURE_CQ_RESIZE | RI_FEATURE_CQ_PEEK |
                    RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW,
        .max_mr_length = UINT64_MAX,
        .max_message = UINT32_MAX,
        .max_send = UINT32_MAX,
        .max_pd = 1000,
        .max_cq = 1000,
        .max_qp = 1000,
        .max_mr = 1000,
        .max_cqe = 1u << 16,
        .max_send_wr = DEPTH,
        .max_recv_wr = DEPTH,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .max_read_sge = 1,
        .max_write_sge = 1,
        .ports = 1,
        .lanes = 1,
    };

    (void)base;
    return ri_sized_copy(attr, &mirror_attr, sizeof(mirror_attr)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

static enum ri_status vendor_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    (void)base;
    if (attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    attr->online = true;
    attr->mtu = 1500;
    attr->address_count = 0;
    return RI_OK;
}

static enum ri_status vendor_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                       struct ri_lane **out)
{
    struct rnic *rnic = rnic_of(base);

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

static uint32_t vendor_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                                uint64_t *next_deadline)
{
    (void)first;
    (void)budget;
    *next_deadline = RI_NO_DEADLINE;
    return ri_unwatch_now(&rnic_of_lane(lane)->leaving);
}

static bool vendor_lane_arm(struct ri_lane *lane)
{
    return !ri_unwatch_pending(&rnic_of_lane(lane)->leaving);
}

static const struct ri_privileged_ops privileged = {
    .size = sizeof(privileged),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = vendor_enumerate,
    .open = vendor_open,
    .close = vendor_close,
    .query = vendor_query,
    .query_port = vendor_query_port,
    .lane_open = vendor_lane_open,
    .pd_create = vendor_pd_create,
    .pd_destroy = vendor_pd_destroy,
    .cq_create = vendor_cq_create,
    .cq_resize = vendor_cq_resize,
    .cq_destroy = vendor_cq_destroy,
    .qp_create = vendor_qp_create,
    .qp_modify = vendor_qp_modify,
    .qp_query = vendor_qp_query,
    .qp_destroy = vendor_qp_destroy,
    .mr_register = vendor_mr_register,
    .mr_deregister = vendor_mr_deregister,
};

static const struct ri_user_ops user = {
    .size = sizeof(user),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = vendor_post_send,
    .post_recv = vendor_post_recv,
    .poll = ri_mem_cq_poll,
    .arm = ri_mem_cq_arm,
    .cq_peek = ri_mem_cq_peek,
    .progress = vendor_progress,
    .lane_arm = vendor_lane_arm,
};

RI_PROVIDER(vp_mirror) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "mirror",
    .description = "what a QP sends comes back to it",
    .version = "1",
    .privileged = &privileged,
    .user = &user,
};

/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pair: RDMAC states, control, completion of work.
 *
 *   IDLE --- hand-over ---> RTS --- modify CLOSING ---> CLOSING --- both FINs or bound ---> ERROR
 *                            |--- local or remote error ---> TERMINATE (Terminate is sent) ---> ERROR
 *                            |--- peer's FIN, RST, Terminate, modify ERROR ------------------> ERROR
 *   ERROR --- modify IDLE ---> IDLE
 *
 * RDMAC lets CLOSING end in IDLE; here it ends in ERROR, so that requests posted meanwhile complete flushed instead of
 * waiting for the next connection. Leaving RTS is one function (qp_end); what follows, stopping output, flushing both
 * queues, is done by whoever holds tx next (tx_stop). Exactly one event of the "ended" group is told per connection.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "softrdma.h"
#include "terminate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* --- completion --- */

static const uint8_t wc_opcodes[] = {
    [RI_WR_SEND] = RI_WC_SEND,
    [RI_WR_RDMA_WRITE] = RI_WC_RDMA_WRITE,
    [RI_WR_RDMA_READ] = RI_WC_RDMA_READ,
};

void wqe_finish(struct wqe *wqe, enum ri_wc_status status, uint32_t byte_len)
{
    wqe->status = (uint16_t)status;
    wqe->byte_len = byte_len;
    atomic_store_explicit(&wqe->done, true, memory_order_release);
}

static bool complete(struct qp *qp, struct wq *wq, struct wqe *wqe, uint32_t index)
{
    struct ri_wc wc = {
        .context = qp->base.context,
        .cookie = wqe->cookie,
        .byte_len = wqe->byte_len,
        .status = wqe->status,
        .opcode = wq->receive ? RI_WC_RECV : wc_opcodes[wqe->opcode],
        .flags = (uint8_t)(wqe->wc_flags | (wqe->flags & RI_WR_NOTIFY ? RI_WC_NOTIFY : 0)),
        .vendor_error = wqe->vendor_error,
    };

    return cq_push(wq->receive ? qp->recv_cq : qp->send_cq, qp, wq, &wc, index);
}

void qp_retire(struct qp *qp, struct wq *wq)
{
    uint32_t index;

    spinlock_lock(&wq->retire);
    for (index = atomic_load_explicit(&wq->done, memory_order_relaxed);
         index != atomic_load_explicit(&wq->posted, memory_order_acquire); index++) {
        struct wqe *wqe = wq_slot(wq, index);

        if (!atomic_load_explicit(&wqe->done, memory_order_acquire))
            break;
        if ((wq->receive || (wqe->flags & RI_WR_SIGNALED) || wqe->status != RI_WC_SUCCESS) &&
            !complete(qp, wq, wqe, index))
            break;
        atomic_store_explicit(&wq->done, index + 1, memory_order_release);
    }
    spinlock_unlock(&wq->retire);
}

void qp_flush(struct qp *qp, struct wq *wq)
{
    uint32_t posted = atomic_load_explicit(&wq->posted, memory_order_acquire);

    (void)qp;
    for (uint32_t index = atomic_load(&wq->done); index != posted; index++) {
        struct wqe *wqe = wq_slot(wq, index);

        if (!atomic_load_explicit(&wqe->done, memory_order_relaxed))
            wqe_finish(wqe, RI_WC_FLUSHED, 0);
    }
    atomic_store(&wq->next, posted);
}

/* --- what has to be told --- */

void qp_note_event(struct qp *qp, enum ri_event_type type, uint16_t code, const char *detail)
{
    spinlock_lock(&qp->state_lock);
    if (!qp->told && !qp->destroyed) {
        qp->told = true;
        qp->event = (struct ri_event){
            .size = sizeof(qp->event), .type = type, .terminate_code = code, .detail = detail};
        atomic_store(&qp->event_pending, true);
    }
    spinlock_unlock(&qp->state_lock);
}

void qp_note_established(struct qp *qp)
{
    atomic_store(&qp->established_pending, true);
}

void qp_closed(struct qp *qp, const char *detail)
{
    atomic_store(&qp->state, RI_QPS_ERROR);
    qp_note_event(qp, RI_EVENT_LLP_CLOSED, 0, detail);
}

static void tell(struct qp *qp, atomic_bool *pending, const struct ri_event *event)
{
    const struct ri_host *host = qp->rnic->host;
    struct ri_event copy;
    bool go;

    if (!atomic_load_explicit(pending, memory_order_acquire))
        return;
    spinlock_lock(&qp->state_lock);
    go = !qp->destroyed && atomic_exchange(pending, false);
    copy = *event;
    if (go)
        atomic_fetch_add(&qp->upcalls, 1);
    spinlock_unlock(&qp->state_lock);
    if (!go)
        return;
    host->qp_event(host, qp->base.context, &copy);
    atomic_fetch_sub(&qp->upcalls, 1);
}

void qp_settle(struct qp *qp)
{
    static const struct ri_event established = {.size = sizeof(established),
                                                .type = RI_EVENT_ESTABLISHED};

    if (atomic_load_explicit(&qp->tx_wanted, memory_order_relaxed) &&
        atomic_exchange(&qp->tx_wanted, false))
        tx_kick(qp);
    cq_settle(qp->send_cq);
    if (qp->recv_cq != qp->send_cq)
        cq_settle(qp->recv_cq);
    tell(qp, &qp->established_pending, &established);
    tell(qp, &qp->event_pending, &qp->event);
}

/* --- leaving RTS --- */

bool qp_end(struct qp *qp, const struct qp_end *end)
{
    bool first;

    spinlock_lock(&qp->state_lock);
    first = qp_state(qp) == RI_QPS_RTS;
    if (first) {
        atomic_store(&qp->state, end->state);
        qp->lost = end->lost;
        qp->terminate_wanted = end->send_terminate;
        if (end->send_terminate) {
            qp->terminate_sent = end->terminate_value;
            qp->terminate_length = end->terminate_length;
            memcpy(qp->terminate, end->terminate, end->terminate_length);
        }
        if (!end->send_terminate && end->terminate_value)
            qp->terminate_received = end->terminate_value;
    }
    spinlock_unlock(&qp->state_lock);
    if (!first)
        return false;
    if (end->event)
        qp_note_event(qp, end->event, end->terminate_value, end->detail);
    atomic_store(&qp->tx_wanted, true);
    return true;
}

/* --- create and destroy --- */

static enum ri_status check_attr(const struct ri_rnic_attr *limits, const struct ri_qp_attr *attr)
{
    if (attr->type != RI_QP_RC || attr->srq || !attr->send_cq || !attr->recv_cq)
        return attr->type == RI_QP_RC && !attr->srq ? RI_ERR_INVALID_ARGUMENT : RI_ERR_NOT_SUPPORTED;
    if (attr->max_send_wr > limits->max_send_wr || attr->max_recv_wr > limits->max_recv_wr ||
        attr->max_send_sge > limits->max_send_sge || attr->max_recv_sge > limits->max_recv_sge ||
        attr->max_read_sge > limits->max_read_sge || attr->max_write_sge > limits->max_write_sge ||
        attr->ird > limits->max_ird || attr->ord > limits->max_ord || attr->max_inline)
        return RI_ERR_LIMIT;
    return RI_OK;
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static enum ri_status open_queues(struct qp *qp, const struct ri_qp_attr *attr)
{
    enum ri_status status;

    /* One read beyond the depth: the ready-to-receive Read of either side. */
    qp->ord_size = power_of_two(qp->rnic->attr.max_ord + 1);
    qp->ird_size = power_of_two(qp->rnic->attr.max_ird + 1);
    qp->ord_ring = calloc(qp->ord_size, sizeof(*qp->ord_ring));
    qp->ird_ring = calloc(qp->ird_size, sizeof(*qp->ird_ring));
    if (!qp->ord_ring || !qp->ird_ring)
        return RI_ERR_NO_RESOURCES;
    status = wq_open(&qp->sq, false, most(attr->max_send_wr, 1),
                     most(most(attr->max_send_sge, attr->max_write_sge), 1));
    if (status == RI_OK)
        status = wq_open(&qp->rq, true, most(attr->max_recv_wr, 1), most(attr->max_recv_sge, 1));
    return status;
}

void qp_free(struct qp *qp)
{
    wq_close(&qp->sq);
    wq_close(&qp->rq);
    tx_close(qp);
    free(qp->ord_ring);
    free(qp->ird_ring);
    free(qp);
}

enum ri_status softrdma_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = check_attr(&rnic->attr, attr);
    struct qp *qp;

    if (status != RI_OK)
        return status;
    if (atomic_fetch_add(&rnic->qps, 1) >= rnic->attr.max_qp) {
        status = RI_ERR_LIMIT;
        goto uncount;
    }
    qp = calloc(1, sizeof(*qp));
    if (!qp) {
        status = RI_ERR_NO_RESOURCES;
        goto uncount;
    }
    qp->base.ops = rnic->user;
    qp->base.context = attr->context;
    qp->rnic = rnic;
    qp->pd = pd;
    qp->send_cq = container_of(attr->send_cq, struct cq, base);
    qp->recv_cq = container_of(attr->recv_cq, struct cq, base);
    qp->qpn = atomic_fetch_add(&rnic->next_qpn, 1) + 1;
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    qp->flags = attr->flags;
    qp->max_read_sge = most(attr->max_read_sge, 1);
    qp->max_write_sge = most(attr->max_write_sge, 1);
    status = open_queues(qp, attr);
    if (status != RI_OK)
        goto free_qp;
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&qp->send_cq->users, 1);
    atomic_fetch_add(&qp->recv_cq->users, 1);
    *out = &qp->base;
    return RI_OK;
free_qp:
    qp_free(qp);
uncount:
    atomic_fetch_sub(&rnic->qps, 1);
    return status;
}

/* Output that was built goes out without the QP; nobody is inside tx any more. */
static void let_go(struct qp *qp)
{
    struct stream *stream = qp->stream;
    size_t length = 0;
    uint8_t *tail = NULL;

    if (!stream)
        return;
    if (!qp->stopped)
        tail = tx_take_tail(qp, &length);
    spinlock_lock(&stream->rx);
    if (stream->state == STREAM_OPEN)
        stream_begin_close(stream, tail, length, false);
    else
        free(tail);
    spinlock_unlock(&stream->rx);
    stream_release(stream);
    qp->stream = NULL;
}

enum ri_status softrdma_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct lane *lane = qp->rnic->lane;
    struct rnic *rnic = qp->rnic;

    spinlock_lock(&qp->state_lock);
    qp->destroyed = true;
    qp->told = true;
    atomic_store(&qp->state, RI_QPS_ERROR);
    spinlock_unlock(&qp->state_lock);
    if (qp->stream) {
        spinlock_lock(&qp->stream->rx); /* rx_run finds no QP from here on */
        atomic_store(&qp->stream->qp, NULL);
        spinlock_unlock(&qp->stream->rx);
    }
    lane_wait_pass(lane);
    tx_wait_idle(qp);
    let_go(qp);
    cq_purge(qp->send_cq, qp);
    cq_purge(qp->recv_cq, qp);
    while (atomic_load(&qp->upcalls))
        sched_yield();
    atomic_fetch_sub(&qp->send_cq->users, 1);
    atomic_fetch_sub(&qp->recv_cq->users, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&rnic->qps, 1);
    spinlock_lock(&lane->lock);
    qp->grave_next = lane->qp_graves;
    lane->qp_graves = qp;
    atomic_fetch_add(&lane->version, 1);
    spinlock_unlock(&lane->lock);
    return RI_OK;
}

/* --- modify --- */

/* The octets of a Terminate with code only are the whole connection: refuse. */
static enum ri_status refuse(struct qp *qp, const struct ri_llp_handover *handover)
{
    struct stream *stream;
    size_t length = 0;
    uint8_t *tail;
    enum ri_status status = stream_open(qp->rnic, NULL, handover, &llp_tcp, &stream);

    if (status != RI_OK)
        return status;
    qp->crc = handover->crc;
    qp->terminate_length = (uint32_t)terminate_build(qp->terminate, handover->refuse_code, NULL);
    qp->terminate_sent = handover->refuse_code;
    tail = tx_terminate_fpdu(qp, &length);
    qp->rnic->host->watch(qp->rnic->host, qp->rnic->lane->base.context, handover->fd,
                          EPOLLIN | EPOLLRDHUP, stream_ready, stream, &stream->watch);
    spinlock_lock(&stream->rx);
    stream_begin_close(stream, tail, length, false);
    spinlock_unlock(&stream->rx);
    atomic_store(&qp->state, RI_QPS_ERROR);
    qp->stopped = true;
    tx_kick(qp);
    return RI_OK;
}

static void keep_open(struct stream *stream, bool reset)
{
    (void)stream;
    (void)reset;
}
static const struct llp_ops llp_none = {.close = keep_open};

/* A stream whose start failed: the descriptor stays the caller's. */
static void unmake_stream(struct qp *qp)
{
    struct stream *stream = qp->stream;

    qp->stream = NULL;
    spinlock_lock(&stream->rx);
    stream->llp = &llp_none;
    stream->qp = NULL;
    stream->held = false;
    stream_abort(stream, false);
    spinlock_unlock(&stream->rx);
}

static enum ri_status start(struct qp *qp, const struct ri_llp_handover *handover)
{
    const struct ri_host *host = qp->rnic->host;
    enum ri_status status;

    if (qp_state(qp) != RI_QPS_IDLE || qp->stream)
        return RI_ERR_INVALID_STATE;
    if (handover->markers_transmit || handover->markers_receive)
        return RI_ERR_NOT_SUPPORTED;
    llp_tcp_prepare(handover->fd, &qp->rnic->options);
    if (handover->refuse_code)
        return refuse(qp, handover);
    status = tx_open(qp);
    if (status != RI_OK)
        return status;
    status = stream_open(qp->rnic, qp, handover, &llp_tcp, &qp->stream);
    if (status != RI_OK)
        return status;
    qp->told = qp->lost = qp->terminate_wanted = false;
    qp->terminate_sent = qp->terminate_received = 0;
    qp->expect_send_msn = qp->expect_read_msn = 1;
    qp->message_open = false;
    qp->rtr_await = handover->rtr_await;
    qp->ird = handover->ird;
    qp->ord = handover->ord;
    tx_start(qp, handover);
    atomic_store(&qp->state, RI_QPS_RTS);
    status = host->watch(host, qp->rnic->lane->base.context, handover->fd, EPOLLIN | EPOLLRDHUP,
                         stream_ready, qp->stream, &qp->stream->watch);
    if (status != RI_OK) {
        atomic_store(&qp->state, RI_QPS_IDLE);
        unmake_stream(qp);
        return status;
    }
    lane_mark_ready(qp->stream); /* octets that came with the hand-over; and hot from the start */
    host->wake(host, qp->rnic->lane->base.context);
    tx_kick(qp);
    return RI_OK;
}

static enum ri_status to_error(struct qp *qp)
{
    const struct qp_end end = {.event = RI_EVENT_LLP_RESET, .state = RI_QPS_ERROR, .lost = true,
                               .detail = "aborted by the consumer"};
    struct stream *stream = qp->stream;

    switch (qp_state(qp)) {
    case RI_QPS_IDLE:
        atomic_store(&qp->state, RI_QPS_ERROR);
        qp->stopped = true;
        tx_kick(qp);
        return RI_OK;
    case RI_QPS_RTS:
        qp_end(qp, &end);
        return RI_OK;
    case RI_QPS_CLOSING:
        spinlock_lock(&stream->rx);
        if (stream->state == STREAM_CLOSING)
            qp_closed(qp, "aborted by the consumer");
        stream_abort(stream, true);
        spinlock_unlock(&stream->rx);
        return RI_OK;
    default:
        return RI_OK;
    }
}

static enum ri_status to_idle(struct qp *qp)
{
    switch (qp_state(qp)) {
    case RI_QPS_IDLE: /* receives were posted perhaps: they complete flushed, as anywhere */
        to_error(qp);
        break;
    case RI_QPS_ERROR:
        break;
    default:
        return RI_ERR_INVALID_STATE;
    }
    tx_kick(qp);
    lane_wait_pass(qp->rnic->lane);
    tx_wait_idle(qp);
    let_go(qp);
    atomic_store(&qp->ord_out, atomic_load(&qp->ord_in));
    atomic_store(&qp->ird_out, atomic_load(&qp->ird_in));
    atomic_store(&qp->event_pending, false);
    atomic_store(&qp->established_pending, false);
    qp->stopped = false;
    atomic_store(&qp->state, RI_QPS_IDLE);
    return RI_OK;
}

static enum ri_status to_closing(struct qp *qp)
{
    const struct qp_end end = {.state = RI_QPS_CLOSING};

    return qp_end(qp, &end) ? RI_OK : RI_ERR_INVALID_STATE;
}

static enum ri_status to_terminate(struct qp *qp)
{
    uint8_t payload[TERMINATE_PAYLOAD_MAX];
    struct qp_end end = {.event = RI_EVENT_LOCAL_ERROR, .state = RI_QPS_TERMINATE,
                         .send_terminate = true, .terminate = payload};

    end.terminate_length = (uint32_t)terminate_build(payload, TERMINATE_LOCAL, NULL);
    return qp_end(qp, &end) ? RI_OK : RI_ERR_INVALID_STATE;
}

static enum ri_status change_state(struct qp *qp, const struct ri_qp_modify *modify)
{
    switch (modify->state) {
    case RI_QPS_RTS:
        return modify->mask & RI_QPM_HANDOVER ? start(qp, modify->handover) : RI_ERR_INVALID_ARGUMENT;
    case RI_QPS_CLOSING:
        return to_closing(qp);
    case RI_QPS_TERMINATE:
        return to_terminate(qp);
    case RI_QPS_ERROR:
        return to_error(qp);
    case RI_QPS_IDLE:
        return to_idle(qp);
    }
    return RI_ERR_INVALID_ARGUMENT;
}

enum ri_status softrdma_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = container_of(base, struct qp, base);
    const uint32_t built = RI_QPM_STATE | RI_QPM_HANDOVER | RI_QPM_ORD | RI_QPM_IRD | RI_QPM_FLAGS;
    enum ri_status status = RI_OK;

    if (modify->mask & ~built)
        return RI_ERR_NOT_SUPPORTED;
    if ((modify->mask & (RI_QPM_ORD | RI_QPM_IRD | RI_QPM_FLAGS)) && qp_state(qp) != RI_QPS_IDLE)
        return RI_ERR_INVALID_STATE;
    if ((modify->mask & RI_QPM_ORD && modify->ord > qp->rnic->attr.max_ord) ||
        (modify->mask & RI_QPM_IRD && modify->ird > qp->rnic->attr.max_ird))
        return RI_ERR_LIMIT;
    if (modify->mask & RI_QPM_ORD)
        qp->ord = modify->ord;
    if (modify->mask & RI_QPM_IRD)
        qp->ird = modify->ird;
    if (modify->mask & RI_QPM_FLAGS)
        qp->flags = modify->flags;
    if (modify->mask & RI_QPM_STATE)
        status = change_state(qp, modify);
    qp_settle(qp);
    return status;
}

enum ri_status softrdma_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    struct qp *qp = container_of(base, struct qp, base);

    spinlock_lock(&qp->state_lock);
    *info = (struct ri_qp_info){
        .size = sizeof(*info),
        .state = qp_state(qp),
        .qpn = qp->qpn,
        .max_send_wr = qp->sq.depth,
        .max_recv_wr = qp->rq.depth,
        .max_send_sge = qp->sq.max_sge,
        .max_recv_sge = qp->rq.max_sge,
        .max_read_sge = qp->max_read_sge,
        .max_write_sge = qp->max_write_sge,
        .ird = qp->ird,
        .ord = qp->ord,
        .flags = qp->flags,
        .holding = atomic_load(&qp->holding),
        .terminate_sent = qp->terminate_sent,
        .terminate_received = qp->terminate_received,
        .terminate_length = qp->terminate_length,
    };
    memcpy(info->terminate, qp->terminate, qp->terminate_length);
    spinlock_unlock(&qp->state_lock);
    return RI_OK;
}

enum ri_status softrdma_qp_counters(struct ri_qp *base, const char **names, uint64_t *values,
                                    size_t *count)
{
    struct qp *qp = container_of(base, struct qp, base);
    const char *const all[] = {"messages sent", "octets sent", "messages received",
                               "octets received"};
    const uint64_t now[] = {qp->sent_messages, qp->sent_octets, qp->received_messages,
                            qp->received_octets};
    const size_t total = sizeof(now) / sizeof(now[0]);

    for (size_t i = 0; i < total && i < *count; i++) {
        names[i] = all[i];
        values[i] = now[i];
    }
    *count = total;
    return RI_OK;
}

/* --- posts --- */

static enum ri_status check_send(const struct qp *qp, const struct ri_send_wr *wr, uint32_t *limit)
{
    switch (wr->opcode) {
    case RI_WR_SEND:
        *limit = qp->sq.max_sge;
        break;
    case RI_WR_RDMA_WRITE:
        *limit = qp->max_write_sge;
        break;
    case RI_WR_RDMA_READ:
        *limit = qp->max_read_sge;
        break;
    default:
        return RI_ERR_NOT_SUPPORTED;
    }
    return wr->flags & RI_WR_INLINE ? RI_ERR_INVALID_ARGUMENT : RI_OK;
}

static enum ri_status append_send(struct qp *qp, const struct ri_send_wr *wr)
{
    struct wqe *wqe;
    uint32_t limit;
    enum ri_status status = check_send(qp, wr, &limit);

    if (status == RI_OK)
        status = wq_take(&qp->sq, wr->sg_list, wr->num_sge, limit, &wqe);
    if (status != RI_OK)
        return status;
    wqe->cookie = wr->cookie;
    wqe->opcode = (uint8_t)wr->opcode;
    wqe->flags = wr->flags;
    wqe->wc_flags = 0;
    wqe->vendor_error = 0;
    wqe->remote_addr = wr->rdma.remote_addr;
    wqe->rkey = wr->rdma.rkey;
    atomic_store_explicit(&wqe->done, false, memory_order_relaxed);
    wq_publish(&qp->sq);
    return RI_OK;
}

enum ri_status softrdma_post_send(struct ri_qp *base, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;
    bool hold = false;

    if (qp_state(qp) == RI_QPS_IDLE) {
        *bad = wr;
        return RI_ERR_INVALID_STATE;
    }
    spinlock_lock(&qp->sq.posting);
    for (; wr && status == RI_OK; wr = status == RI_OK ? wr->next : wr) {
        status = append_send(qp, wr);
        hold = wr->flags & RI_WR_COALESCE;
    }
    spinlock_unlock(&qp->sq.posting);
    if (status != RI_OK)
        *bad = wr;
    if (hold && qp_state(qp) == RI_QPS_RTS) {
        atomic_store(&qp->tx_wanted, true); /* goes out with the next post, or when the lane runs */
        lane_mark_ready(qp->stream);
        return status;
    }
    tx_kick(qp);
    qp_settle(qp);
    return status;
}

enum ri_status softrdma_post_recv(struct ri_qp *base, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    struct qp *qp = container_of(base, struct qp, base);
    enum ri_status status = RI_OK;
    struct wqe *wqe;

    spinlock_lock(&qp->rq.posting);
    for (; wr; wr = wr->next) {
        status = wq_take(&qp->rq, wr->sg_list, wr->num_sge, qp->rq.max_sge, &wqe);
        if (status != RI_OK) {
            *bad = wr;
            break;
        }
        wqe->cookie = wr->cookie;
        wqe->flags = (uint16_t)wr->flags;
        wqe->wc_flags = 0;
        wqe->vendor_error = 0;
        atomic_store_explicit(&wqe->done, false, memory_order_relaxed);
        wq_publish(&qp->rq);
    }
    spinlock_unlock(&qp->rq.posting);
    atomic_thread_fence(memory_order_seq_cst); /* tx_stop: state first, then the queue; here the other way round */
    if (qp_state(qp) != RI_QPS_RTS && qp_state(qp) != RI_QPS_IDLE) {
        tx_kick(qp); /* flushes */
        qp_settle(qp);
    }
    return status;
}

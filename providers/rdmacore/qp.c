/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: create and destroy. The device's QP is in INIT from the beginning, so receives can
 * be posted.
 */
#include "connection.h"
#include "verbs.h"
#include "base/minmax.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

static enum ri_status check(const struct rnic *rnic, const struct ri_qp_attr *attr)
{
    const struct ri_rnic_attr *limits = &rnic->attr;

    if ((attr->type == RI_QP_UD && !(limits->features & RI_FEATURE_UD)) ||
        (attr->type == RI_QP_UC && !(limits->features & RI_FEATURE_UC)))
        return RI_ERR_NOT_SUPPORTED;
    if ((attr->type != RI_QP_RC && attr->type != RI_QP_UD && attr->type != RI_QP_UC) ||
        !attr->send_cq || !attr->recv_cq || (attr->type == RI_QP_UD && attr->port >= limits->ports))
        return RI_ERR_INVALID_ARGUMENT;
    if ((attr->flags & RI_QP_PRIVILEGED) || attr->rq_limit || attr->rq_hard_limit)
        return RI_ERR_NOT_SUPPORTED;
    if (attr->max_send_wr > limits->max_send_wr || attr->max_recv_wr > limits->max_recv_wr ||
        attr->max_send_sge > limits->max_send_sge || attr->max_recv_sge > limits->max_recv_sge ||
        attr->max_read_sge > limits->max_read_sge || attr->max_write_sge > limits->max_write_sge ||
        attr->max_inline > limits->max_inline || attr->ird > limits->max_ird ||
        attr->ord > limits->max_ord)
        return RI_ERR_LIMIT;
    return RI_OK;
}

/* Requests the inline data of the interface's option. If the device has less, tries again
 * without. */
int qp_create_ibv(struct qp *qp, struct ibv_qp **out)
{
    uint32_t octets = max_u32(qp->min_inline, qp->rnic->inline_octets);
    struct ibv_qp_init_attr init = {
        .qp_context = qp,
        .send_cq = qp->send_cq->ibv,
        .recv_cq = qp->recv_cq->ibv,
        .srq = qp->srq ? qp->srq->ibv : NULL,
        .qp_type = qp->datagram     ? IBV_QPT_UD
                   : qp->unreliable ? IBV_QPT_UC
                                    : IBV_QPT_RC,
    };
    uint32_t room = (qp->rnic->attr.features & RI_FEATURE_MW_WIDE ? WINDOW_FILLERS : 0) +
                    (qp->rnic->drowsy ? CONNECTION_WAKES : 0);

    for (;;) {
        init.cap = (struct ibv_qp_cap){
            .max_send_wr = min_u32(qp->sq.size + room, qp->rnic->attr.max_send_wr),
            .max_recv_wr = qp->srq ? 0 : qp->rq.size,
            .max_send_sge = max_u32(max_u32(qp->max_send_sge, qp->sge_limits[RI_WR_RDMA_WRITE]),
                                    qp->sge_limits[RI_WR_RDMA_READ]),
            .max_recv_sge = qp->srq ? 0 : qp->max_recv_sge,
            .max_inline_data = octets,
        };
        *out = rdmacore->create_qp(qp->pd->ibv, &init);
        if (*out) {
            qp->max_inline = octets;
            return 0;
        }
        if (octets == qp->min_inline)
            return errno;
        octets = qp->min_inline;
    }
}

static void take_attr(struct qp *qp, const struct ri_qp_attr *attr)
{
    qp->send_cq = container_of(attr->send_cq, struct cq, base);
    qp->recv_cq = container_of(attr->recv_cq, struct cq, base);
    qp->srq = attr->srq ? container_of(attr->srq, struct srq, base) : NULL;
    qp->max_send_sge = max_u32(attr->max_send_sge, 1);
    qp->max_recv_sge = max_u32(attr->max_recv_sge, 1);
    qp->max_read_sge = max_u32(attr->max_read_sge, 1);
    qp->max_write_sge = max_u32(attr->max_write_sge, 1);
    qp->min_inline = attr->max_inline;
    qp_limit_elements(qp);
    qp->ird = attr->ird;
    qp->ord = attr->ord;
    qp->flags = attr->flags;
    qp->datagram = attr->type == RI_QP_UD;
    qp->unreliable = attr->type == RI_QP_UC;
    qp->port = (uint8_t)(qp->datagram ? attr->port + 1 : 1);
    qp->qkey = attr->qkey;
    qp->filler = (struct slot){ .qp = qp, .wq = &qp->sq, .flags = SLOT_FILLER };
    qp->sweep.expired = qp_swept;
    qp->request_failed = qp_request_failed;
    atomic_init(&qp->ended, true);
    atomic_init(&qp->state, qp->datagram ? DATAGRAM_IDLE : RI_QPS_IDLE);
}

static void give_attr(const struct qp *qp, struct ri_qp_attr *attr)
{
    attr->max_send_wr = qp->sq.size;
    attr->max_recv_wr = qp->srq ? 0 : qp->rq.size;
    attr->max_send_sge = qp->max_send_sge;
    attr->max_recv_sge = qp->max_recv_sge;
    attr->max_read_sge = qp->max_read_sge;
    attr->max_write_sge = qp->max_write_sge;
    attr->max_inline = qp->max_inline;
}

bool qp_index(struct qp *qp)
{
    HASH_ADD(hh, qp->recv_cq->by_number, number, sizeof(qp->number), qp);
    return qp->hh.tbl != NULL;
}

void qp_unindex(struct qp *qp)
{
    if (!qp->hh.tbl)
        return;
    HASH_DELETE(hh, qp->recv_cq->by_number, qp);
    qp->hh.tbl = NULL;
}

/* False: out of memory. */
static bool index_number(struct qp *qp)
{
    bool told;

    if (!qp->srq)
        return true;
    spinlock_lock(&qp->recv_cq->lock);
    told = qp_index(qp);
    spinlock_unlock(&qp->recv_cq->lock);
    return told;
}

static void enter(struct qp *qp)
{
    atomic_fetch_add(&qp->pd->users, 1);
    atomic_fetch_add(&qp->send_cq->users, 1);
    atomic_fetch_add(&qp->recv_cq->users, 1);
    if (qp->srq)
        atomic_fetch_add(&qp->srq->users, 1);
    atomic_fetch_add(&qp->rnic->qps, 1);
    cq_reserve(qp->send_cq, qp->parts);
    pthread_mutex_lock(&qp->rnic->lock);
    DL_APPEND(qp->rnic->all, qp);
    pthread_mutex_unlock(&qp->rnic->lock);
}

enum ri_status rdmacore_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct pd *pd = container_of(base, struct pd, base);
    struct rnic *rnic = pd->rnic;
    enum ri_status status = check(rnic, attr);
    struct qp *qp;
    uint32_t size;
    int error;

    if (status != RI_OK)
        return status;
    qp = calloc(1, sizeof(*qp));
    if (!qp)
        return RI_ERR_NO_RESOURCES;
    qp->base.ops = rnic->user;
    qp->base.context = attr->context;
    qp->pd = pd;
    qp->rnic = rnic;
    take_attr(qp, attr);
    error = ENOMEM;
    size = max_u32(attr->max_send_wr, 1);
    if (!wq_open(&qp->sq, qp, min_u32(size + split_room(qp, size), rnic->attr.max_send_wr), false))
        goto free_qp;
    if (!wq_open(&qp->rq, qp, max_u32(attr->max_recv_wr, 1), true))
        goto close_sq;
    qp->parts = qp->sq.size - size;
    error = qp_create_ibv(qp, &qp->ibv);
    if (error)
        goto close_rq;
    qp->number = qp->ibv->qp_num;
    error = qp_to_init(qp, qp->port);
    if (error)
        goto destroy_ibv;
    error = ENOMEM;
    if (!index_number(qp))
        goto destroy_ibv;
    enter(qp);
    give_attr(qp, attr);
    *out = &qp->base;
    return RI_OK;

destroy_ibv:
    rdmacore->destroy_qp(qp->ibv);
close_rq:
    wq_close(&qp->rq);
close_sq:
    wq_close(&qp->sq);
free_qp:
    free(qp);
    if (error == ENOMEM && rdmacore->memlock() != UINT64_MAX)
        ri_log(rnic->host, RI_LOG_ERROR,
               "a queue pair cannot be created: out of memory that may be locked; raise "
               "RLIMIT_MEMLOCK (ulimit -l), now %llu KiB",
               (unsigned long long)(rdmacore->memlock() >> 10));
    return rdmacore_status(error);
}

/* Returns the QP's connection, locked. Its lock comes before the RNIC's, but only the RNIC's lock
 * guards the pointer. NULL: none. Called with the RNIC's lock. */
static struct connection *lock_connection(struct qp *qp)
{
    while (qp->connection && pthread_mutex_trylock(&qp->connection->lock)) {
        pthread_mutex_unlock(&qp->rnic->lock);
        sched_yield();
        pthread_mutex_lock(&qp->rnic->lock);
    }
    return qp->connection;
}

static void detach(struct qp *qp)
{
    struct connection *connection;

    pthread_mutex_lock(&qp->rnic->lock);
    connection = lock_connection(qp);
    if (connection) {
        connection->qp = NULL;
        pthread_mutex_unlock(&connection->lock);
    }
    qp->connection = NULL;
    DL_DELETE(qp->rnic->all, qp);
    pthread_mutex_unlock(&qp->rnic->lock);
}

/* From here on a thread that reads a CQ under its lock finds nothing to report about the QP. On
 * return the upcalls that had begun are over. So neither the device's QP nor the timer is used
 * afterwards. */
static void silence(struct qp *qp)
{
    struct cq *cqs[] = { qp->send_cq, qp->recv_cq };

    atomic_store(&qp->ended, true);
    atomic_store(&qp->failing, true);
    for (size_t i = 0; i < 2; i++) {
        spinlock_lock(&cqs[i]->lock);
        spinlock_unlock(&cqs[i]->lock);
    }
    while (atomic_load(&qp->upcalls))
        sched_yield();
    qp->rnic->host->timer_cancel(qp->rnic->host, qp->rnic->lane.base.context, &qp->sweep);
}

/* The device has refused the destruction: undoes it. */
static void bring_back(struct qp *qp, bool ended)
{
    atomic_store(&qp->ended, ended);
    atomic_store(&qp->failing, false);
    pthread_mutex_lock(&qp->rnic->lock);
    DL_APPEND(qp->rnic->all, qp);
    pthread_mutex_unlock(&qp->rnic->lock);
}

/* The consumer may have freed its memory with the endpoint, so the headers of datagrams that are
 * drained now are not read. */
static void forget_headers(struct qp *qp)
{
    spinlock_lock(&qp->recv_cq->lock);
    for (uint32_t i = 0; i <= qp->rq.mask; i++)
        qp->rq.slots[i].header = NULL;
    spinlock_unlock(&qp->recv_cq->lock);
}

static void leave(struct qp *qp)
{
    cq_release(qp->send_cq, qp->parts);
    atomic_fetch_sub(&qp->rnic->qps, 1);
    if (qp->srq)
        atomic_fetch_sub(&qp->srq->users, 1);
    atomic_fetch_sub(&qp->recv_cq->users, 1);
    atomic_fetch_sub(&qp->send_cq->users, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
}

/* Software devices leave the QP's completions in the CQ: they are removed here. */
enum ri_status rdmacore_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = container_of(base, struct qp, base);
    struct rnic *rnic = qp->rnic;
    bool ended = atomic_load(&qp->ended);
    int error;

    if (qp_is_attached(qp))
        return RI_ERR_BUSY;
    qp_notify_peer(qp);
    detach(qp);
    silence(qp);
    error = rdmacore_errno(rdmacore->destroy_qp(qp->ibv));
    if (!rdmacore_destroyed(rnic, error)) {
        bring_back(qp, ended);
        return rdmacore_status(error);
    }
    rdmacore_windows_leave(qp);
    spinlock_lock(&qp->recv_cq->lock);
    qp_unindex(qp);
    spinlock_unlock(&qp->recv_cq->lock);
    if (qp->datagram)
        forget_headers(qp);
    cq_drain(qp->send_cq, qp);
    cq_drain(qp->recv_cq, qp);
    cq_fire(qp->send_cq); /* the events of other QPs' drained completions are lost: fire instead */
    cq_fire(qp->recv_cq);
    leave(qp);
    wq_close(&qp->rq);
    wq_close(&qp->sq);
    free(qp);
    return RI_OK;
}

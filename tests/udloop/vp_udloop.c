/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider whose RNICs exchange datagrams with each other inside the process, for tests on hosts
 * without an InfiniBand device: RoCE by its attributes, one port with the address 127.0.0.1,
 * unreliable datagrams and their service only.
 */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "udloop.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t loop_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
const uint8_t loop_gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

bool loop_own_gid(const uint8_t gid[16])
{
    return !memcmp(gid, loop_gid, sizeof(loop_gid));
}

/* ---- queued events ---- */

bool loop_queue(struct rnic *rnic, const struct queued_event *queued_event)
{
    struct queued_event *copy = malloc(sizeof(*copy)), **at = &rnic->first;

    if (!copy)
        return false;
    *copy = *queued_event;
    copy->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = copy;
    rnic->host->wake(rnic->host, rnic->lane.context);
    return true;
}

bool loop_begin(struct rnic *rnic, struct queued_event *queued_event)
{
    struct queued_event *first = rnic->first;

    if (!first)
        return false;
    *queued_event = *first;
    rnic->first = first->next;
    free(first);
    rnic->delivering[0] = queued_event->about;
    rnic->delivering[1] = queued_event->connection;
    rnic->teller = pthread_self();
    return true;
}

void loop_end(struct rnic *rnic)
{
    rnic->delivering[0] = rnic->delivering[1] = NULL;
    pthread_cond_broadcast(&told);
}

void loop_forget(struct rnic *rnic, const void *about)
{
    struct queued_event **at = &rnic->first, *gone;

    while ((gone = *at)) {
        if (gone->about != about) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone);
    }
    while ((rnic->delivering[0] == about || rnic->delivering[1] == about) &&
           !pthread_equal(rnic->teller, pthread_self()))
        pthread_cond_wait(&told, &loop_lock);
}

/* ---- RNIC ---- */

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    struct ri_device device = { .size = sizeof(device),
                                .name = "udloop",
                                .transport = RI_TRANSPORT_INFINIBAND,
                                .usable = true };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic = calloc(1, sizeof(*rnic));

    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base = (struct ri_rnic){ open->privileged, open->context };
    rnic->host = open->host;
    rnic->user = open->user;
    *out = &rnic->base;
    return RI_OK;
}

static enum ri_status vp_close(struct ri_rnic *base, bool force)
{
    (void)force;
    free(base);
    return RI_OK;
}

static enum ri_status vp_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    (void)base;
    *attr = (struct ri_rnic_attr){
        .size = sizeof(*attr),
        .transport = RI_TRANSPORT_INFINIBAND,
        .features = RI_FEATURE_UD | RI_FEATURE_CONNECTION_SET_A,
        .max_mr_length = 1u << 30,
        .max_message = 1u << 30,
        .max_send = 1u << 30,
        .max_ud_send = MTU,
        .max_pd = 100,
        .max_cq = 100,
        .max_qp = 100,
        .max_mr = 100,
        .max_ah = 100,
        .max_cqe = 4096,
        .max_send_wr = 256,
        .max_recv_wr = 256,
        .max_send_sge = 4,
        .max_recv_sge = 4,
        .ports = 1,
        .lanes = 1,
        .alignment_hint = 64,
        .connect_private_data = 56,
        .accept_private_data = 196,
        .reject_private_data = 148,
        .service_request_private_data = DATA_MAX,
        .service_reply_private_data = 136,
        .service_qkey = SERVICE_QKEY,
    };
    return RI_OK;
}

static enum ri_status vp_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

    (void)base;
    attr->online = true;
    attr->link_ethernet = true;
    attr->mtu = MTU;
    attr->address_count = 1;
    memcpy(attr->gid, loop_gid, sizeof(attr->gid));
    if (attr->address_capacity)
        memcpy(&attr->addresses[0].sockaddr, &own, sizeof(own));
    return RI_OK;
}

static enum ri_status vp_lane_open(struct ri_rnic *base, uint32_t index, void *context,
                                   struct ri_lane **lane)
{
    struct rnic *rnic = (struct rnic *)base;

    (void)index;
    rnic->lane = (struct ri_lane){ rnic->user, context };
    *lane = &rnic->lane;
    return RI_OK;
}

/* ---- objects ---- */

static enum ri_status vp_pd_create(struct ri_rnic *base, void *context, struct ri_pd **out)
{
    struct pd *pd = calloc(1, sizeof(*pd));

    if (!pd)
        return RI_ERR_NO_RESOURCES;
    pd->base = (struct ri_pd){ base->ops, context };
    pd->rnic = (struct rnic *)base;
    *out = &pd->base;
    return RI_OK;
}

static enum ri_status vp_pd_destroy(struct ri_pd *base)
{
    free(base);
    return RI_OK;
}

static enum ri_status vp_cq_create(struct ri_rnic *base, struct ri_cq_attr *attr,
                                   struct ri_cq **out)
{
    struct cq *cq = calloc(1, sizeof(*cq));

    if (cq)
        cq->ring = calloc(attr->depth, sizeof(*cq->ring));
    if (cq)
        cq->of = calloc(attr->depth, sizeof(struct qp *));
    if (!cq || !cq->ring || !cq->of) {
        if (cq) {
            free(cq->ring);
            free(cq->of);
        }
        free(cq);
        return RI_ERR_NO_RESOURCES;
    }
    cq->rnic = (struct rnic *)base;
    cq->base = (struct ri_cq){ cq->rnic->user, attr->context };
    cq->depth = attr->depth;
    *out = &cq->base;
    return RI_OK;
}

static enum ri_status vp_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = (struct cq *)base;

    pthread_mutex_lock(&loop_lock);
    loop_forget(cq->rnic, cq);
    pthread_mutex_unlock(&loop_lock);
    free(cq->ring);
    free(cq->of);
    free(cq);
    return RI_OK;
}

/* Q_Keys with that bit need privileges (InfiniBand 1 3.5.3); nobody has them on this adapter. */
#define CONTROLLED_QKEY 0x80000000u

static enum ri_status vp_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **out)
{
    struct qp *qp;

    if (attr->type != RI_QP_UD)
        return RI_ERR_NOT_SUPPORTED;
    if (attr->qkey & CONTROLLED_QKEY)
        return RI_ERR_PERMISSION;
    qp = calloc(1, sizeof(*qp));
    if (qp)
        qp->receives = calloc(attr->max_recv_wr, sizeof(*qp->receives));
    if (!qp || !qp->receives) {
        free(qp);
        return RI_ERR_NO_RESOURCES;
    }
    qp->pd = (struct pd *)pd;
    qp->rnic = qp->pd->rnic;
    qp->base = (struct ri_qp){ qp->rnic->user, attr->context };
    qp->attr = *attr;
    qp->state = RI_QPS_IDLE;
    pthread_mutex_lock(&loop_lock);
    loop_qp_add(qp);
    pthread_mutex_unlock(&loop_lock);
    *out = &qp->base;
    return RI_OK;
}

static enum ri_status vp_qp_modify(struct ri_qp *base, const struct ri_qp_modify *modify)
{
    struct qp *qp = (struct qp *)base;
    enum ri_status status = RI_OK;

    if (modify->mask & ~(uint32_t)(RI_QPM_STATE | RI_QPM_QKEY))
        return RI_ERR_NOT_SUPPORTED;
    if ((modify->mask & RI_QPM_STATE) && modify->state != RI_QPS_IDLE &&
        modify->state != RI_QPS_RTS && modify->state != RI_QPS_ERROR)
        return RI_ERR_NOT_SUPPORTED;
    if ((modify->mask & RI_QPM_QKEY) && (modify->qkey & CONTROLLED_QKEY))
        return RI_ERR_PERMISSION;
    pthread_mutex_lock(&loop_lock);
    if (modify->mask & RI_QPM_QKEY)
        qp->attr.qkey = modify->qkey;
    if (modify->mask & RI_QPM_STATE) {
        if (modify->state == RI_QPS_RTS ? qp->state != RI_QPS_IDLE
                                        : modify->state == RI_QPS_IDLE && qp->state == RI_QPS_RTS)
            status = RI_ERR_INVALID_STATE;
        else
            qp->state = modify->state;
        if (status == RI_OK && modify->state != RI_QPS_RTS)
            loop_flush(qp);
    }
    pthread_mutex_unlock(&loop_lock);
    return status;
}

static enum ri_status vp_qp_query(struct ri_qp *base, struct ri_qp_info *info)
{
    const struct qp *qp = (const struct qp *)base;

    *info = (struct ri_qp_info){ .size = info->size, .state = qp->state, .qpn = qp->qpn };
    return RI_OK;
}

static enum ri_status vp_qp_destroy(struct ri_qp *base)
{
    struct qp *qp = (struct qp *)base;

    pthread_mutex_lock(&loop_lock);
    loop_forget(qp->rnic, qp);
    loop_qp_remove(qp);
    pthread_mutex_unlock(&loop_lock);
    free(qp->receives);
    free(qp);
    return RI_OK;
}

static enum ri_status vp_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                     struct ri_mr_keys *keys, struct ri_mr **out)
{
    struct mr *mr = calloc(1, sizeof(*mr));

    if (!mr)
        return RI_ERR_NO_RESOURCES;
    mr->base = (struct ri_mr){ pd->ops, attr->context };
    mr->pd = (struct pd *)pd;
    mr->attr = *attr;
    pthread_mutex_lock(&loop_lock);
    loop_mr_add(mr);
    pthread_mutex_unlock(&loop_lock);
    *keys = (struct ri_mr_keys){ mr->lkey, 0 };
    *out = &mr->base;
    return RI_OK;
}

static enum ri_status vp_mr_deregister(struct ri_mr *base)
{
    pthread_mutex_lock(&loop_lock);
    loop_mr_remove((struct mr *)base);
    pthread_mutex_unlock(&loop_lock);
    free(base);
    return RI_OK;
}

/* ---- address handles ---- */

static enum ri_status check_way(const struct ri_ah_attr *attr)
{
    static const uint8_t any[16];

    if (!attr->global || attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    return memcmp(attr->source_gid, any, sizeof(any)) && !loop_own_gid(attr->source_gid)
               ? RI_ERR_UNREACHABLE
               : RI_OK;
}

static enum ri_status vp_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr,
                                   struct ri_ah **out)
{
    enum ri_status status = check_way(attr);
    struct ah *ah;

    if (status != RI_OK)
        return status;
    ah = calloc(1, sizeof(*ah));
    if (!ah)
        return RI_ERR_NO_RESOURCES;
    ah->base = (struct ri_ah){ pd->ops, attr->context };
    ah->pd = (struct pd *)pd;
    ah->attr = *attr;
    *out = &ah->base;
    return RI_OK;
}

static enum ri_status vp_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr)
{
    enum ri_status status = check_way(attr);

    pthread_mutex_lock(&loop_lock);
    if (status == RI_OK)
        ((struct ah *)ah)->attr = *attr;
    pthread_mutex_unlock(&loop_lock);
    return status;
}

static enum ri_status vp_ah_destroy(struct ri_ah *ah)
{
    free(ah);
    return RI_OK;
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
    .ah_create = vp_ah_create,
    .ah_modify = vp_ah_modify,
    .ah_destroy = vp_ah_destroy,
    .connection_create = loop_connection_create,
    .connection_destroy = loop_connection_destroy,
    .listen = loop_listen,
    .listen_destroy = loop_listen_destroy,
    .service_request = loop_service_request,
    .service_reply = loop_service_reply,
};

RI_PROVIDER(vp_udloop) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "udloop",
    .description = "datagrams inside the process, for tests",
    .version = "1",
    .privileged = &privileged,
    .user = &loop_user_ops,
};

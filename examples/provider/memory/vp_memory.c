/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider between processes of one host: reliable connections over shared memory, with
 * connection verbs of its own (set A), and unreliable datagrams. It asks the host to pin memory, as
 * hardware does.
 *
 * This file: the descriptor (at its end), the RNIC, PDs, CQs, the lane. memory.h says where to go
 * from here.
 */
#include "memory.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const uint8_t own_gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- upcalls ---- */

void tell_later(struct rnic *rnic, struct teller *teller)
{
    if (!teller->listed)
        TAILQ_INSERT_TAIL(&rnic->tellers, teller, link);
    teller->listed = true;
    rnic->host->wake(rnic->host, rnic->lane.context);
}

void forget(struct rnic *rnic, struct teller *teller, const struct listener *listener)
{
    while (((teller && rnic->telling == teller) || (listener && rnic->hearing == listener)) &&
           !pthread_equal(rnic->telling_thread, pthread_self()))
        pthread_cond_wait(&rnic->told, &rnic->lock);
    if (teller && teller->listed)
        TAILQ_REMOVE(&rnic->tellers, teller, link);
    if (teller)
        teller->listed = false;
}

/* One run at a time: so one upcall at a time is about a teller. Under the lock. */
static uint32_t tell_all(struct rnic *rnic)
{
    struct teller *teller;
    uint32_t work = 0;

    while ((teller = TAILQ_FIRST(&rnic->tellers))) {
        TAILQ_REMOVE(&rnic->tellers, teller, link);
        teller->listed = false;
        rnic->telling = teller;
        rnic->telling_thread = pthread_self();
        if (teller->tell(teller))
            tell_later(rnic, teller);
        rnic->telling = NULL;
        rnic->hearing = NULL;
        pthread_cond_broadcast(&rnic->told);
        work++;
    }
    return work;
}

/* The QP may be destroyed between collect and deliver, its CQs may not: see vp_cq_destroy(). */
void report(struct qp *qp)
{
    struct ri_mem_cq *send = qp->send.source.cq, *receive = qp->receive.source.cq;
    struct rnic *rnic = qp->rnic;

    ri_cq_collect(&qp->send.source);
    ri_cq_collect(&qp->receive.source);
    pthread_mutex_unlock(&rnic->lock);
    ri_cq_deliver(send);
    ri_cq_deliver(receive);
}

/* ---- PDs and CQs ---- */

bool count_object(struct rnic *rnic, enum kind kind, int more)
{
    bool room;

    pthread_mutex_lock(&rnic->lock);
    room = more < 0 || rnic->count[kind] < MAX_OBJECTS;
    rnic->count[kind] += room ? (uint32_t)more : 0;
    pthread_mutex_unlock(&rnic->lock);
    return room;
}

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

static enum ri_status vp_cq_resize(struct ri_cq *base, uint32_t *depth)
{
    return *depth > MAX_CQE ? RI_ERR_LIMIT : ri_mem_cq_resize(&((struct cq *)base)->mem, *depth);
}

static enum ri_status vp_cq_destroy(struct ri_cq *base)
{
    struct cq *cq = (struct cq *)base;
    struct rnic *rnic = cq->rnic;
    bool busy;

    pthread_mutex_lock(&rnic->lock);
    busy = cq->queues;
    pthread_mutex_unlock(&rnic->lock);
    if (busy)
        return RI_ERR_BUSY;
    while (ri_mem_cq_close(&cq->mem) == RI_ERR_BUSY)
        sched_yield(); /* another thread is between collect and deliver */
    count_object(rnic, CQS, -1);
    free(cq);
    return RI_OK;
}

/* ---- the RNIC ---- */

static enum ri_status vp_enumerate(const struct ri_host *host, ri_found_fn found, void *arg)
{
    const struct ri_device device = { .size = sizeof(device),
                                      .name = "memory",
                                      .transport = RI_TRANSPORT_INFINIBAND,
                                      .usable = true };

    (void)host;
    found(arg, &device);
    return RI_OK;
}

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;

    if (open->device && strcmp(open->device, "memory"))
        return RI_ERR_INVALID_ARGUMENT;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic)
        return RI_ERR_NO_RESOURCES;
    rnic->base = (struct ri_rnic){ open->privileged, open->context };
    rnic->host = open->host;
    rnic->user = open->user;
    TAILQ_INIT(&rnic->tellers);
    TAILQ_INIT(&rnic->connections);
    TAILQ_INIT(&rnic->mailboxes);
    pthread_mutex_init(&rnic->lock, NULL);
    pthread_cond_init(&rnic->told, NULL);
    *out = &rnic->base;
    return RI_OK;
}

/* No object is left, so nothing but sockets that nobody reads any more. */
static enum ri_status vp_close(struct ri_rnic *base, bool force)
{
    struct rnic *rnic = (struct rnic *)base;
    bool busy;

    (void)force;
    pthread_mutex_lock(&rnic->lock);
    busy = rnic->objects || rnic->count[PDS] || rnic->count[CQS];
    pthread_mutex_unlock(&rnic->lock);
    if (busy)
        return RI_ERR_BUSY;
    ri_unwatch_now(&rnic->leaving);
    pthread_cond_destroy(&rnic->told);
    pthread_mutex_destroy(&rnic->lock);
    free(rnic);
    return RI_OK;
}

static enum ri_status vp_query(struct ri_rnic *base, struct ri_rnic_attr *attr)
{
    static const struct ri_rnic_attr all = {
        .transport = RI_TRANSPORT_INFINIBAND,
        .wire = "shared memory of this host",
        .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_UD | RI_FEATURE_DMA |
                    RI_FEATURE_CQ_PEEK | RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH |
                    RI_FEATURE_CQ_HOLDS_OVERFLOW | RI_FEATURE_CQ_RESIZE,
        .max_mr_length = MAX_MR_LENGTH,
        .max_message = MAX_MESSAGE,
        .max_send = MAX_MESSAGE,
        .max_ud_send = MAX_UD,
        .max_pd = MAX_OBJECTS,
        .max_cq = MAX_OBJECTS,
        .max_qp = MAX_OBJECTS,
        .max_mr = MAX_MR,
        .max_ah = MAX_OBJECTS,
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
        .service_request_private_data = RI_MAX_PRIVATE_DATA,
        .service_reply_private_data = RI_MAX_PRIVATE_DATA,
    };

    (void)base;
    return ri_sized_copy(attr, &all, sizeof(all)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

/* The host itself: 127.0.0.1, and ::1. */
static enum ri_status vp_query_port(struct ri_rnic *base, struct ri_port_attr *attr)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

    (void)base;
    if (attr->port)
        return RI_ERR_INVALID_ARGUMENT;
    attr->online = true;
    attr->link_ethernet = true; /* GIDs are made of IP addresses */
    attr->mtu = MAX_UD;
    memcpy(attr->gid, own_gid, sizeof(attr->gid));
    snprintf(attr->name, sizeof(attr->name), "lo");
    attr->address_count = 2;
    if (attr->address_capacity > 0) {
        attr->addresses[0] = (struct ri_address){ .prefix_length = 8 };
        memcpy(&attr->addresses[0].sockaddr, &v4, sizeof(v4));
    }
    if (attr->address_capacity > 1) {
        attr->addresses[1] = (struct ri_address){ .prefix_length = 128 };
        memcpy(&attr->addresses[1].sockaddr, &v6, sizeof(v6));
    }
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

/* Each connection once, the one that was served longest ago first. Under the lock. */
static uint32_t serve_all(struct rnic *rnic, uint32_t budget)
{
    uint32_t pass = ++rnic->pass, work = 0;
    struct connection *c;

    while (work < budget && (c = TAILQ_FIRST(&rnic->connections)) && c->pass != pass) {
        struct qp *qp = c->qp;
        uint32_t done;

        TAILQ_REMOVE(&rnic->connections, c, link);
        TAILQ_INSERT_TAIL(&rnic->connections, c, link);
        c->pass = pass;
        if (!qp || c->state != CONNECTED)
            continue;
        done = serve(qp);
        work += done;
        if (!done)
            continue;
        report(qp);
        pthread_mutex_lock(&rnic->lock);
    }
    return work;
}

/* The rings are looked at in each run: nobody rings a bell while the lane is awake. */
static uint32_t vp_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                            uint64_t *next_deadline)
{
    struct rnic *rnic = rnic_of_lane(lane);
    uint32_t work;
    uint64_t next;

    (void)first;
    pthread_mutex_lock(&rnic->lock);
    work = serve_all(rnic, budget);
    next = mailboxes_serve(rnic);
    *next_deadline = connections_expire(rnic);
    if (next < *next_deadline)
        *next_deadline = next;
    work += tell_all(rnic);
    pthread_mutex_unlock(&rnic->lock);
    return work + ri_unwatch_now(&rnic->leaving);
}

static bool vp_lane_arm(struct ri_lane *lane)
{
    struct rnic *rnic = rnic_of_lane(lane);
    bool quiet = !ri_unwatch_pending(&rnic->leaving);
    struct connection *c;

    pthread_mutex_lock(&rnic->lock);
    quiet &= TAILQ_EMPTY(&rnic->tellers);
    TAILQ_FOREACH(c, &rnic->connections, link)
    quiet &= is_quiet(c);
    pthread_mutex_unlock(&rnic->lock);
    return quiet;
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
    .cq_resize = vp_cq_resize,
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
    .connection_create = vp_connection_create,
    .connection_destroy = vp_connection_destroy,
    .resolve = vp_resolve,
    .listen = vp_listen,
    .listen_destroy = vp_listen_destroy,
    .connect = vp_connect,
    .accept = vp_accept,
    .reject = vp_reject,
    .disconnect = vp_disconnect,
    .service_request = vp_service_request,
    .service_reply = vp_service_reply,
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

RI_PROVIDER(vp_memory) = {
    .size = sizeof(struct ri_provider),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .name = "memory",
    .description = "Connections and datagrams between the processes of one host",
    .version = "1",
    .privileged = &privileged,
    .user = &user,
};

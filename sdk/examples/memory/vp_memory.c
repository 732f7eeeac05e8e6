/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs provider between processes of one host: reliable connections over shared memory, with
 * connection verbs of its own (set A), and unreliable datagrams. It asks the host to pin memory, as
 * hardware does.
 *
 * This file: the descriptor (at its end), the RNIC, the lane. memory.h says where to go from here.
 */
#include "memory.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

const uint8_t own_gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

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

static const struct ri_rnic_attr attributes = {
    .transport = RI_TRANSPORT_INFINIBAND,
    .wire = "shared memory of this host",
    .features = RI_FEATURE_CONNECTION_SET_A | RI_FEATURE_UD | RI_FEATURE_DMA | RI_FEATURE_CQ_PEEK |
                RI_FEATURE_CQ_ARM_NOTIFY | RI_FEATURE_CQ_ARM_NTH | RI_FEATURE_CQ_HOLDS_OVERFLOW |
                RI_FEATURE_CQ_RESIZE,
    .max_mr_length = UINT64_C(1) << 47,
    .max_message = MAX_MESSAGE,
    .max_send = MAX_MESSAGE,
    .max_ud_send = MAX_UD,
    .max_pd = MAX_OBJECTS,
    .max_cq = MAX_OBJECTS,
    .max_qp = MAX_OBJECTS,
    .max_mr = 4096,
    .max_ah = MAX_OBJECTS,
    .max_cqe = 1u << 20,
    .max_send_wr = 4096,
    .max_recv_wr = 4096,
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

static enum ri_status vp_open(const struct ri_open *open, struct ri_rnic **out)
{
    struct rnic *rnic;

    if (open->device && strcmp(open->device, "memory"))
        return RI_ERR_INVALID_ARGUMENT;
    rnic = calloc(1, sizeof(*rnic));
    if (!rnic || ri_mem_rnic_open(&rnic->mem, open, &attributes, serve) != RI_OK) {
        free(rnic);
        return RI_ERR_NO_RESOURCES;
    }
    ri_set_a_open(&rnic->set, &rnic->mem, &carrier);
    TAILQ_INIT(&rnic->mailboxes);
    *out = &rnic->mem.base;
    return RI_OK;
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
    attr->address_count = 0;
    ri_port_add_address(attr, (const struct sockaddr *)&v4, 8);
    ri_port_add_address(attr, (const struct sockaddr *)&v6, 128);
    return RI_OK;
}

/* ---- the lane ---- */

/* Each connection once, the one that was served longest ago first. Under the lock. */
static uint32_t serve_all(struct rnic *rnic, uint32_t budget)
{
    uint32_t pass = ++rnic->pass, work = 0;
    struct ri_mem_connection *c;

    while (work < budget && (c = TAILQ_FIRST(&rnic->set.connections)) &&
           ((struct connection *)c)->pass != pass) {
        struct ri_mem_qp *qp = c->qp;
        uint32_t done;

        TAILQ_REMOVE(&rnic->set.connections, c, link);
        TAILQ_INSERT_TAIL(&rnic->set.connections, c, link);
        ((struct connection *)c)->pass = pass;
        if (!qp || c->state != RI_CM_CONNECTED)
            continue;
        done = serve_qp((struct qp *)qp);
        work += done;
        if (!done)
            continue;
        ri_mem_report(qp);
        pthread_mutex_lock(&rnic->mem.lock);
    }
    return work;
}

/* The rings are looked at in each run: nobody rings a bell while the lane is awake. */
static uint32_t vp_progress(struct ri_lane *lane, struct ri_cq *first, uint32_t budget,
                            uint64_t *next_deadline)
{
    struct rnic *rnic = (struct rnic *)ri_mem_rnic_of_lane(lane);
    uint32_t work;
    uint64_t next;

    pthread_mutex_lock(&rnic->mem.lock);
    work = serve_all(rnic, budget);
    next = mailboxes_serve(rnic);
    pthread_mutex_unlock(&rnic->mem.lock);
    work += ri_set_a_progress(lane, first, budget, next_deadline);
    if (next < *next_deadline)
        *next_deadline = next;
    return work;
}

static bool vp_lane_arm(struct ri_lane *lane)
{
    struct rnic *rnic = (struct rnic *)ri_mem_rnic_of_lane(lane);
    bool quiet = ri_mem_lane_arm(lane);
    struct ri_mem_connection *c;

    pthread_mutex_lock(&rnic->mem.lock);
    TAILQ_FOREACH(c, &rnic->set.connections, link)
    quiet &= is_quiet((struct connection *)c);
    pthread_mutex_unlock(&rnic->mem.lock);
    return quiet;
}

/* ---- the descriptor ---- */

static const struct ri_privileged_ops privileged = {
    RI_MEM_PRIVILEGED_OPS,
    RI_SET_A_OPS,
    .enumerate = vp_enumerate,
    .open = vp_open,
    .close = ri_mem_close,
    .query_port = vp_query_port,
    .cq_resize = ri_mem_cq_set_depth,
    .qp_create = vp_qp_create,
    .qp_modify = vp_qp_modify,
    .qp_destroy = vp_qp_destroy,
    .ah_create = vp_ah_create,
    .ah_modify = vp_ah_modify,
    .ah_destroy = ri_mem_ah_destroy,
    .service_request = ri_mem_service_request,
    .service_reply = ri_mem_service_reply,
};

static const struct ri_user_ops user = {
    RI_MEM_USER_OPS,
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

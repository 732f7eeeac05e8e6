/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of operations that a provider does not have, and how a table gets them. */
#include "rnicpi_host.h"
#include "rnicpi_tables.h"

#include <string.h>

/* One line for each operation: its name and its parameters, which are not used. */
#define ABSENT(operation, ...)                        \
    static enum ri_status no_##operation(__VA_ARGS__) \
    {                                                 \
        return RI_ERR_NOT_SUPPORTED;                  \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

ABSENT(enumerate, const struct ri_host *host, ri_found_fn found, void *arg)
ABSENT(open, const struct ri_open *open, struct ri_rnic **rnic)
ABSENT(close, struct ri_rnic *rnic, bool force)
ABSENT(query, struct ri_rnic *rnic, struct ri_rnic_attr *attr)
ABSENT(query_port, struct ri_rnic *rnic, struct ri_port_attr *attr)
ABSENT(query_gids, struct ri_rnic *rnic, uint32_t port, struct ri_gid *gids, uint32_t *count)
ABSENT(lane_open, struct ri_rnic *rnic, uint32_t index, void *context, struct ri_lane **lane)
ABSENT(pd_create, struct ri_rnic *rnic, void *context, struct ri_pd **pd)
ABSENT(pd_destroy, struct ri_pd *pd)
ABSENT(cq_create, struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq)
ABSENT(cq_resize, struct ri_cq *cq, uint32_t *depth)
ABSENT(cq_destroy, struct ri_cq *cq)
ABSENT(qp_create, struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp)
ABSENT(qp_modify, struct ri_qp *qp, const struct ri_qp_modify *modify)
ABSENT(qp_query, struct ri_qp *qp, struct ri_qp_info *info)
ABSENT(qp_destroy, struct ri_qp *qp)
ABSENT(srq_create, struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq)
ABSENT(srq_modify, struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr)
ABSENT(srq_query, struct ri_srq *srq, struct ri_srq_attr *attr)
ABSENT(srq_destroy, struct ri_srq *srq)
ABSENT(mr_register, struct ri_pd *pd, const struct ri_mr_attr *attr, struct ri_mr_keys *keys,
       struct ri_mr **mr)
ABSENT(mr_reregister, struct ri_mr *mr, struct ri_pd *pd, const struct ri_mr_attr *attr,
       struct ri_mr_keys *keys)
ABSENT(mr_deregister, struct ri_mr *mr)
ABSENT(mw_allocate, struct ri_pd *pd, bool narrow, void *context, uint32_t *stag, struct ri_mw **mw)
ABSENT(mw_free, struct ri_mw *mw)
ABSENT(ah_create, struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah)
ABSENT(ah_modify, struct ri_ah *ah, const struct ri_ah_attr *attr)
ABSENT(ah_destroy, struct ri_ah *ah)
ABSENT(multicast_attach, struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
ABSENT(multicast_detach, struct ri_qp *qp, const uint8_t gid[16], uint16_t lid)
ABSENT(connection_create, struct ri_rnic *rnic, void *context, struct ri_connection **connection)
ABSENT(connection_destroy, struct ri_connection *connection)
ABSENT(resolve, struct ri_connection *connection, const struct ri_connect_param *param)
ABSENT(listen, struct ri_rnic *rnic, const struct ri_listen_param *param, void *context,
       struct sockaddr_storage *bound, struct ri_listener **listener)
ABSENT(listen_destroy, struct ri_listener *listener)
ABSENT(connect, struct ri_connection *connection, struct ri_qp *qp,
       const struct ri_connect_param *param)
ABSENT(accept, struct ri_connection *connection, struct ri_qp *qp,
       const struct ri_connect_param *param)
ABSENT(confirm, struct ri_connection *connection, const struct ri_connect_param *param)
ABSENT(reject, struct ri_connection *connection, const void *private_data, uint16_t length)
ABSENT(disconnect, struct ri_connection *connection, const void *private_data, uint16_t length)
ABSENT(service_request, struct ri_connection *connection, const struct ri_connect_param *param)
ABSENT(service_reply, struct ri_connection *connection, const struct ri_service_reply *reply)
ABSENT(rnic_counters, struct ri_rnic *rnic, const char **names, uint64_t *values, size_t *count)
ABSENT(qp_counters, struct ri_qp *qp, const char **names, uint64_t *values, size_t *count)

static enum ri_status no_local_make(struct ri_rnic *rnic, int socket, struct ri_local **local,
                                    int *fd, const char **why)
{
    *why = "the provider has no memory that ends of a connection share";
    return RI_ERR_NOT_SUPPORTED;
}

static enum ri_status no_local_take(struct ri_rnic *rnic, int socket, int fd,
                                    struct ri_local **local, const char **why)
{
    *why = "the provider has no memory that ends of a connection share";
    return RI_ERR_NOT_SUPPORTED;
}

static void no_local_drop(struct ri_rnic *rnic, struct ri_local *local)
{
}

ABSENT(arm, struct ri_cq *cq, enum ri_arm kind, uint32_t count)
ABSENT(cq_peek, struct ri_cq *cq, uint32_t *total, uint32_t *notify)

static enum ri_status no_post_send(struct ri_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    *bad = wr;
    return RI_ERR_NOT_SUPPORTED;
}

static enum ri_status no_post_recv(struct ri_qp *qp, struct ri_recv_wr *wr, struct ri_recv_wr **bad)
{
    *bad = wr;
    return RI_ERR_NOT_SUPPORTED;
}

static enum ri_status no_post_srq_recv(struct ri_srq *srq, struct ri_recv_wr *wr,
                                       struct ri_recv_wr **bad)
{
    *bad = wr;
    return RI_ERR_NOT_SUPPORTED;
}

static uint32_t no_poll(struct ri_cq *cq, uint32_t count, struct ri_wc *wc)
{
    return 0;
}

static uint32_t no_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                            uint64_t *next_deadline)
{
    *next_deadline = RI_NO_DEADLINE;
    return 0;
}

static bool no_lane_arm(struct ri_lane *lane)
{
    return true;
}

#pragma GCC diagnostic pop

const struct ri_privileged_ops ri_default_privileged_ops = {
    .size = sizeof(struct ri_privileged_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .enumerate = no_enumerate,
    .open = no_open,
    .close = no_close,
    .query = no_query,
    .query_port = no_query_port,
    .lane_open = no_lane_open,
    .pd_create = no_pd_create,
    .pd_destroy = no_pd_destroy,
    .cq_create = no_cq_create,
    .cq_resize = no_cq_resize,
    .cq_destroy = no_cq_destroy,
    .qp_create = no_qp_create,
    .qp_modify = no_qp_modify,
    .qp_query = no_qp_query,
    .qp_destroy = no_qp_destroy,
    .srq_create = no_srq_create,
    .srq_modify = no_srq_modify,
    .srq_query = no_srq_query,
    .srq_destroy = no_srq_destroy,
    .mr_register = no_mr_register,
    .mr_reregister = no_mr_reregister,
    .mr_deregister = no_mr_deregister,
    .mw_allocate = no_mw_allocate,
    .mw_free = no_mw_free,
    .ah_create = no_ah_create,
    .ah_modify = no_ah_modify,
    .ah_destroy = no_ah_destroy,
    .connection_create = no_connection_create,
    .connection_destroy = no_connection_destroy,
    .resolve = no_resolve,
    .listen = no_listen,
    .listen_destroy = no_listen_destroy,
    .connect = no_connect,
    .accept = no_accept,
    .confirm = no_confirm,
    .reject = no_reject,
    .disconnect = no_disconnect,
    .service_request = no_service_request,
    .service_reply = no_service_reply,
    .rnic_counters = no_rnic_counters,
    .qp_counters = no_qp_counters,
    .local_make = no_local_make,
    .local_take = no_local_take,
    .local_drop = no_local_drop,
    .query_gids = no_query_gids,
    .multicast_attach = no_multicast_attach,
    .multicast_detach = no_multicast_detach,
};

const struct ri_user_ops ri_default_user_ops = {
    .size = sizeof(struct ri_user_ops),
    .abi_major = RI_ABI_MAJOR,
    .abi_minor = RI_ABI_MINOR,
    .post_send = no_post_send,
    .post_recv = no_post_recv,
    .post_srq_recv = no_post_srq_recv,
    .poll = no_poll,
    .arm = no_arm,
    .cq_peek = no_cq_peek,
    .progress = no_progress,
    .lane_arm = no_lane_arm,
};

/* Neither table has more than `room` octets. An operation that is NULL or past in_size is not
 * copied. */
static void complete(void *out, size_t room, const void *in, size_t in_size, size_t head)
{
    static void (*const absent)(void);
    const char *from = in;
    char *to = out;

    for (size_t at = head; at + SLOT <= room && at + SLOT <= in_size; at += SLOT)
        if (memcmp(from + at, &absent, SLOT))
            memcpy(to + at, from + at, SLOT);
}

void ri_complete_privileged_ops(struct ri_privileged_ops *out, const struct ri_privileged_ops *in)
{
    struct ri_privileged_ops table = ri_default_privileged_ops;

    complete(&table, sizeof(table), in, in->size, PRIVILEGED_HEAD);
    *out = table;
}

void ri_complete_user_ops(struct ri_user_ops *out, const struct ri_user_ops *in)
{
    struct ri_user_ops table = ri_default_user_ops;

    complete(&table, sizeof(table), in, in->size, USER_HEAD);
    *out = table;
}

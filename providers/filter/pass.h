/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pass.h - what every filter needs. A filter is a provider that is opened over another one (struct
 * ri_lower): it opens the one below with a host table of its own, and wraps each of its objects.
 * The functions here pass every call down and every upcall up. A filter replaces those that it has
 * business with in its tables, and hears of the others by struct pass_filter.
 *
 * Contexts are passed down unchanged, except those of CQs: a CQ below has its wrapper as context.
 * So completions and events need no translation.
 */
#ifndef ITAL_FILTER_PASS_H
#define ITAL_FILTER_PASS_H

#include "rnicpi.h"
#include "rnicpi_util.h"

#include <stdatomic.h>

/* The verbs of which a filter hears before they are passed on. Not among them: what ends or
 * queries an object. Their names are in pass_verb_names. */
enum pass_verb {
    PASS_PD_CREATE,
    PASS_CQ_CREATE,
    PASS_CQ_RESIZE,
    PASS_QP_CREATE,
    PASS_QP_MODIFY,
    PASS_SRQ_CREATE,
    PASS_SRQ_MODIFY,
    PASS_MR_REGISTER,
    PASS_MR_REREGISTER,
    PASS_MW_ALLOCATE,
    PASS_AH_CREATE,
    PASS_AH_MODIFY,
    PASS_MULTICAST_ATTACH,
    PASS_CONNECTION_CREATE,
    PASS_RESOLVE,
    PASS_LISTEN,
    PASS_CONNECT,
    PASS_ACCEPT,
    PASS_CONFIRM,
    PASS_REJECT,
    PASS_SERVICE_REQUEST,
    PASS_SERVICE_REPLY,
    PASS_POST_SEND,
    PASS_POST_RECV,
    PASS_POST_SRQ_RECV,
    PASS_ARM,
    PASS_VERBS
};
extern const char *const pass_verb_names[PASS_VERBS];

/* Kinds of objects. The names are those of filters' messages. */
enum pass_kind {
    PASS_KIND_PD,
    PASS_KIND_CQ,
    PASS_KIND_QP,
    PASS_KIND_SRQ,
    PASS_KIND_MR,
    PASS_KIND_MW,
    PASS_KIND_AH,
    PASS_KIND_CONNECTION,
    PASS_KIND_LISTENER,
    PASS_KIND_LANE,
    PASS_KIND_RNIC,
    PASS_KINDS
};
extern const char *const pass_kind_names[PASS_KINDS];

struct pass_rnic;
struct pass_lane;
struct pass_cq;
struct pass_qp;
struct pass_srq;
struct pass_connection;

/* What a filter is. Constant. */
struct pass_filter {
    /* Octets of its structures, which begin with those below. */
    size_t rnic_size, cq_size, qp_size, srq_size;
    /* The RNIC below is not open yet; argument: what stands behind the filter's name in the
     * configuration, or NULL. */
    enum ri_status (*open)(struct pass_rnic *rnic, const char *argument);
    void (*close)(struct pass_rnic *rnic); /* the RNIC below is closed, or was never open */
    /* Those that follow may be NULL: nothing happens then, and events of CQs go up. */
    /* Before a verb is passed on. Anything but RI_OK is its answer. */
    enum ri_status (*call)(struct pass_rnic *rnic, enum pass_verb verb);
    void (*query)(struct pass_rnic *rnic, struct ri_rnic_attr *attr);
    enum ri_status (*srq_open)(struct pass_srq *srq);
    void (*srq_close)(struct pass_srq *srq);
    enum ri_status (*qp_open)(struct pass_qp *qp, const struct ri_qp_attr *attr);
    /* The QP below is gone, and the wrapper is freed next. */
    void (*qp_close)(struct pass_qp *qp);
    void (*qp_modified)(struct pass_qp *qp, const struct ri_qp_modify *modify);
    /* The CQ below was armed and has fired. */
    void (*cq_event)(struct pass_cq *cq);
    void (*cq_close)(struct pass_cq *cq);
    /* The host has taken a peer's request, and the connection has its context. */
    void (*requested)(struct pass_connection *connection, void *listener_context,
                      const struct ri_connect_request *request);
};

/* number: from 1, in the order of creation, of its kind and RNIC; 0 before it is made. */
#define PASS_OBJECT(kind)    \
    struct ri_##kind base;   \
    struct ri_##kind *below; \
    struct pass_rnic *rnic;  \
    uint64_t number

struct pass_rnic {
    struct ri_rnic base;
    struct ri_rnic *below;
    const struct ri_privileged_ops *ops; /* of the provider below */
    const struct ri_user_ops *own_user;  /* this filter's */
    const char *device;                  /* of the undermost provider; NULL: its default */
    const char *provider;                /* its name */
    const struct ri_host *upper;
    struct ri_host host; /* for the provider below */
    const struct pass_filter *filter;
    struct pass_lane *lanes; /* one thread at a time opens lanes, and closes */
    _Atomic uint64_t made[PASS_KINDS];
};

static inline uint64_t pass_number(struct pass_rnic *rnic, enum pass_kind kind)
{
    return atomic_fetch_add(&rnic->made[kind], 1) + 1;
}

struct pass_pd {
    PASS_OBJECT(pd);
};
struct pass_mr {
    PASS_OBJECT(mr);
};
struct pass_mw {
    PASS_OBJECT(mw);
};
struct pass_ah {
    PASS_OBJECT(ah);
};
struct pass_connection {
    PASS_OBJECT(connection);
};
struct pass_listener {
    PASS_OBJECT(listener);
};
struct pass_lane {
    PASS_OBJECT(lane);
    struct pass_lane *next;
};
struct pass_cq {
    PASS_OBJECT(cq);
};
struct pass_srq {
    PASS_OBJECT(srq);
};
struct pass_qp {
    PASS_OBJECT(qp);
    struct pass_cq *send_cq, *recv_cq;
    struct pass_srq *srq; /* NULL: none */
    void *lane_context;
    uint32_t max_sge; /* of a request: more are refused, and their list may be shorter */
    bool datagram;
};

/* The first member of each wrapper is the object that the host holds. */
#define PASS_OF(kind, object) ((struct pass_##kind *)(object))

/* The filter's word on a verb, before it is passed on. */
static inline enum ri_status pass_call(struct pass_rnic *rnic, enum pass_verb verb)
{
    return rnic->filter->call ? rnic->filter->call(rnic, verb) : RI_OK;
}

/* Opens the provider below. Called by the filter's own open. */
enum ri_status pass_open(const struct pass_filter *filter, const struct ri_open *open,
                         struct ri_rnic **rnic);
/* A filter has no device of its own. */
enum ri_status pass_enumerate(const struct ri_host *host, ri_found_fn found, void *arg);
void pass_host_init(struct pass_rnic *rnic);

/* The request for the provider below. */
void pass_send_wr(const struct pass_qp *qp, const struct ri_send_wr *wr, struct ri_send_wr *below);

/* ---- pass_objects.c ---- */
enum ri_status pass_close(struct ri_rnic *rnic, bool force);
enum ri_status pass_query(struct ri_rnic *rnic, struct ri_rnic_attr *attr);
enum ri_status pass_query_port(struct ri_rnic *rnic, struct ri_port_attr *attr);
enum ri_status pass_query_gids(struct ri_rnic *rnic, uint32_t port, struct ri_gid *gids,
                               uint32_t *count);
enum ri_status pass_lane_open(struct ri_rnic *rnic, uint32_t index, void *context,
                              struct ri_lane **lane);
enum ri_status pass_pd_create(struct ri_rnic *rnic, void *context, struct ri_pd **pd);
enum ri_status pass_pd_destroy(struct ri_pd *pd);
enum ri_status pass_cq_create(struct ri_rnic *rnic, struct ri_cq_attr *attr, struct ri_cq **cq);
enum ri_status pass_cq_resize(struct ri_cq *cq, uint32_t *depth);
enum ri_status pass_cq_destroy(struct ri_cq *cq);
enum ri_status pass_qp_create(struct ri_pd *pd, struct ri_qp_attr *attr, struct ri_qp **qp);
enum ri_status pass_qp_modify(struct ri_qp *qp, const struct ri_qp_modify *modify);
enum ri_status pass_qp_query(struct ri_qp *qp, struct ri_qp_info *info);
enum ri_status pass_qp_destroy(struct ri_qp *qp);
enum ri_status pass_srq_create(struct ri_pd *pd, struct ri_srq_attr *attr, struct ri_srq **srq);
enum ri_status pass_srq_modify(struct ri_srq *srq, uint32_t mask, const struct ri_srq_attr *attr);
enum ri_status pass_srq_query(struct ri_srq *srq, struct ri_srq_attr *attr);
enum ri_status pass_srq_destroy(struct ri_srq *srq);
enum ri_status pass_mr_register(struct ri_pd *pd, const struct ri_mr_attr *attr,
                                struct ri_mr_keys *keys, struct ri_mr **mr);
enum ri_status pass_mr_reregister(struct ri_mr *mr, struct ri_pd *pd, const struct ri_mr_attr *attr,
                                  struct ri_mr_keys *keys);
enum ri_status pass_mr_deregister(struct ri_mr *mr);
enum ri_status pass_mw_allocate(struct ri_pd *pd, bool narrow, void *context, uint32_t *stag,
                                struct ri_mw **mw);
enum ri_status pass_mw_free(struct ri_mw *mw);
enum ri_status pass_ah_create(struct ri_pd *pd, const struct ri_ah_attr *attr, struct ri_ah **ah);
enum ri_status pass_ah_modify(struct ri_ah *ah, const struct ri_ah_attr *attr);
enum ri_status pass_ah_destroy(struct ri_ah *ah);
enum ri_status pass_multicast_attach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
enum ri_status pass_multicast_detach(struct ri_qp *qp, const uint8_t gid[16], uint16_t lid);
enum ri_status pass_rnic_counters(struct ri_rnic *rnic, const char **names, uint64_t *values,
                                  size_t *count);
enum ri_status pass_qp_counters(struct ri_qp *qp, const char **names, uint64_t *values,
                                size_t *count);

/* The memory passes as it is: a hand-over has it next. */
enum ri_status pass_local_make(struct ri_rnic *rnic, int socket, struct ri_local **local, int *fd,
                               const char **why);
enum ri_status pass_local_take(struct ri_rnic *rnic, int socket, int fd, struct ri_local **local,
                               const char **why);
void pass_local_drop(struct ri_rnic *rnic, struct ri_local *local);

/* The counters of the RNIC below, and one of the filter's own. */
enum ri_status pass_counters_and(struct ri_rnic *rnic, const char *name, uint64_t value,
                                 const char **names, uint64_t *values, size_t *count);

/* ---- pass_connections.c ---- */
enum ri_status pass_connection_create(struct ri_rnic *rnic, void *context,
                                      struct ri_connection **connection);
enum ri_status pass_connection_destroy(struct ri_connection *connection);
enum ri_status pass_resolve(struct ri_connection *connection, const struct ri_connect_param *param);
enum ri_status pass_listen(struct ri_rnic *rnic, const struct ri_listen_param *param, void *context,
                           struct sockaddr_storage *bound, struct ri_listener **listener);
enum ri_status pass_listen_destroy(struct ri_listener *listener);
enum ri_status pass_connect(struct ri_connection *connection, struct ri_qp *qp,
                            const struct ri_connect_param *param);
enum ri_status pass_accept(struct ri_connection *connection, struct ri_qp *qp,
                           const struct ri_connect_param *param);
enum ri_status pass_confirm(struct ri_connection *connection, const struct ri_connect_param *param);
enum ri_status pass_reject(struct ri_connection *connection, const void *private_data,
                           uint16_t private_data_length);
enum ri_status pass_disconnect(struct ri_connection *connection, const void *private_data,
                               uint16_t private_data_length);
enum ri_status pass_service_request(struct ri_connection *connection,
                                    const struct ri_connect_param *param);
enum ri_status pass_service_reply(struct ri_connection *connection,
                                  const struct ri_service_reply *reply);

/* ---- pass.c ---- */
enum ri_status pass_cq_peek(struct ri_cq *cq, uint32_t *total, uint32_t *notify);
uint32_t pass_progress(struct ri_lane *lane, struct ri_cq *first_cq, uint32_t budget,
                       uint64_t *next_deadline);
bool pass_lane_arm(struct ri_lane *lane);

/* ---- tables ---- */

/* A filter's table of control: the functions begin with `of`, which is pass_ where it changes none.
 * It adds open, close and rnic_counters. */
#define PASS_CONTROL_TABLE(of)                                                                   \
    .size = sizeof(struct ri_privileged_ops), .abi_major = RI_ABI_MAJOR,                         \
    .abi_minor = RI_ABI_MINOR, .enumerate = pass_enumerate, .query = of##query,                  \
    .query_port = of##query_port, .lane_open = of##lane_open, .pd_create = of##pd_create,        \
    .pd_destroy = of##pd_destroy, .cq_create = of##cq_create, .cq_resize = of##cq_resize,        \
    .cq_destroy = of##cq_destroy, .qp_create = of##qp_create, .qp_modify = of##qp_modify,        \
    .qp_query = of##qp_query, .qp_destroy = of##qp_destroy, .srq_create = of##srq_create,        \
    .srq_modify = of##srq_modify, .srq_query = of##srq_query, .srq_destroy = of##srq_destroy,    \
    .mr_register = of##mr_register, .mr_reregister = of##mr_reregister,                          \
    .mr_deregister = of##mr_deregister, .mw_allocate = of##mw_allocate, .mw_free = of##mw_free,  \
    .ah_create = of##ah_create, .ah_modify = of##ah_modify, .ah_destroy = of##ah_destroy,        \
    .connection_create = of##connection_create, .connection_destroy = of##connection_destroy,    \
    .resolve = of##resolve, .listen = of##listen, .listen_destroy = of##listen_destroy,          \
    .connect = of##connect, .accept = of##accept, .confirm = of##confirm, .reject = of##reject,  \
    .disconnect = of##disconnect, .service_request = of##service_request,                        \
    .service_reply = of##service_reply, .qp_counters = pass_qp_counters,                         \
    .local_make = pass_local_make, .local_take = pass_local_take, .local_drop = pass_local_drop, \
    .query_gids = of##query_gids, .multicast_attach = of##multicast_attach,                      \
    .multicast_detach = of##multicast_detach

/* The same of the data path; it adds cq_peek. */
#define PASS_DATA_TABLE(of)                                                                     \
    .size = sizeof(struct ri_user_ops), .abi_major = RI_ABI_MAJOR, .abi_minor = RI_ABI_MINOR,   \
    .post_send = of##post_send, .post_recv = of##post_recv, .post_srq_recv = of##post_srq_recv, \
    .poll = of##poll, .arm = of##arm, .progress = pass_progress, .lane_arm = pass_lane_arm

/* The descriptor of vf_NAME, with the tables `privileged` and `user`. */
#define PASS_PROVIDER(name_, text)          \
    RI_PROVIDER(vf_##name_) = {             \
        .size = sizeof(struct ri_provider), \
        .abi_major = RI_ABI_MAJOR,          \
        .abi_minor = RI_ABI_MINOR,          \
        .name = #name_,                     \
        .description = (text),              \
        .version = PACKAGE_VERSION,         \
        .privileged = &privileged,          \
        .user = &user,                      \
        .flags = RI_PROVIDER_FILTER,        \
    }

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter `count`: each verb with its time around it, and the descriptor. */
#include "count.h"

#include <string.h>

/* ---- the RNIC ---- */

/* True: "summary" stands in front. *folder: what is behind it, or NULL. */
static bool wants_summary(const char *argument, const char **folder)
{
    size_t length = argument ? strcspn(argument, ":") : 0;
    bool wants = length == strlen("summary") && !strncmp(argument, "summary", length);

    *folder = wants ? argument + length + (argument[length] == ':') : argument;
    if (*folder && !**folder)
        *folder = NULL;
    return wants;
}

static enum ri_status count_open_filter(struct pass_rnic *pass, const char *argument)
{
    struct count_rnic *rnic = count_rnic_of(pass);
    const char *folder;
    bool summary = wants_summary(argument, &folder);

    if (!count_file_make(rnic, folder))
        return RI_ERR_INVALID_ARGUMENT;
    if (!summary || count_summary_begin(rnic))
        return RI_OK;
    count_file_remove(rnic);
    return RI_ERR_NO_RESOURCES;
}

static void count_close_filter(struct pass_rnic *pass)
{
    count_summary_end(count_rnic_of(pass));
    count_file_remove(count_rnic_of(pass));
}

static void count_cq_event(struct pass_cq *cq)
{
    const struct ri_host *upper = cq->rnic->upper;

    count_add(&count_rnic_of(cq->rnic)->file->entry[COUNT_cq_event].bucket[0], 1);
    upper->cq_event(upper, cq->base.context);
}

/* ---- control: the verb of pass.h, timed ---- */

/* object: has ->rnic, and may be gone afterwards. */
#define TIMED(verb, rnic_, parameters, arguments)            \
    static enum ri_status count_##verb parameters            \
    {                                                        \
        struct pass_rnic *const of = (rnic_);                \
        const uint64_t began = clock_now();                  \
        const enum ri_status status = pass_##verb arguments; \
                                                             \
        count_note(of, COUNT_##verb, began, status);         \
        return status;                                       \
    }
#define RNIC(object)          PASS_OF(rnic, object)
#define RNIC_OF(kind, object) (PASS_OF(kind, object)->rnic)

TIMED(query, RNIC(ri), (struct ri_rnic * ri, struct ri_rnic_attr *attr), (ri, attr))
TIMED(query_port, RNIC(ri), (struct ri_rnic * ri, struct ri_port_attr *attr), (ri, attr))
TIMED(query_gids, RNIC(ri),
      (struct ri_rnic * ri, uint32_t port, struct ri_gid *gids, uint32_t *count),
      (ri, port, gids, count))
TIMED(lane_open, RNIC(ri),
      (struct ri_rnic * ri, uint32_t index, void *context, struct ri_lane **lane),
      (ri, index, context, lane))
TIMED(pd_create, RNIC(ri), (struct ri_rnic * ri, void *context, struct ri_pd **pd),
      (ri, context, pd))
TIMED(pd_destroy, RNIC_OF(pd, pd), (struct ri_pd * pd), (pd))
TIMED(cq_create, RNIC(ri), (struct ri_rnic * ri, struct ri_cq_attr *attr, struct ri_cq **cq),
      (ri, attr, cq))
TIMED(cq_resize, RNIC_OF(cq, cq), (struct ri_cq * cq, uint32_t *depth), (cq, depth))
TIMED(cq_destroy, RNIC_OF(cq, cq), (struct ri_cq * cq), (cq))
TIMED(qp_create, RNIC_OF(pd, pd), (struct ri_pd * pd, struct ri_qp_attr *attr, struct ri_qp **qp),
      (pd, attr, qp))
TIMED(qp_modify, RNIC_OF(qp, qp), (struct ri_qp * qp, const struct ri_qp_modify *modify),
      (qp, modify))
TIMED(qp_query, RNIC_OF(qp, qp), (struct ri_qp * qp, struct ri_qp_info *info), (qp, info))
TIMED(qp_destroy, RNIC_OF(qp, qp), (struct ri_qp * qp), (qp))
TIMED(srq_create, RNIC_OF(pd, pd),
      (struct ri_pd * pd, struct ri_srq_attr *attr, struct ri_srq **srq), (pd, attr, srq))
TIMED(srq_modify, RNIC_OF(srq, srq),
      (struct ri_srq * srq, uint32_t mask, const struct ri_srq_attr *attr), (srq, mask, attr))
TIMED(srq_query, RNIC_OF(srq, srq), (struct ri_srq * srq, struct ri_srq_attr *attr), (srq, attr))
TIMED(srq_destroy, RNIC_OF(srq, srq), (struct ri_srq * srq), (srq))
TIMED(mr_register, RNIC_OF(pd, pd),
      (struct ri_pd * pd, const struct ri_mr_attr *attr, struct ri_mr_keys *keys,
       struct ri_mr **mr),
      (pd, attr, keys, mr))
TIMED(mr_reregister, RNIC_OF(mr, mr),
      (struct ri_mr * mr, struct ri_pd *pd, const struct ri_mr_attr *attr, struct ri_mr_keys *keys),
      (mr, pd, attr, keys))
TIMED(mr_deregister, RNIC_OF(mr, mr), (struct ri_mr * mr), (mr))
TIMED(mw_allocate, RNIC_OF(pd, pd),
      (struct ri_pd * pd, bool narrow, void *context, uint32_t *stag, struct ri_mw **mw),
      (pd, narrow, context, stag, mw))
TIMED(mw_free, RNIC_OF(mw, mw), (struct ri_mw * mw), (mw))
TIMED(ah_create, RNIC_OF(pd, pd),
      (struct ri_pd * pd, const struct ri_ah_attr *attr, struct ri_ah **ah), (pd, attr, ah))
TIMED(ah_modify, RNIC_OF(ah, ah), (struct ri_ah * ah, const struct ri_ah_attr *attr), (ah, attr))
TIMED(ah_destroy, RNIC_OF(ah, ah), (struct ri_ah * ah), (ah))
TIMED(multicast_attach, RNIC_OF(qp, qp), (struct ri_qp * qp, const uint8_t gid[16], uint16_t lid),
      (qp, gid, lid))
TIMED(multicast_detach, RNIC_OF(qp, qp), (struct ri_qp * qp, const uint8_t gid[16], uint16_t lid),
      (qp, gid, lid))
TIMED(connection_create, RNIC(ri),
      (struct ri_rnic * ri, void *context, struct ri_connection **connection),
      (ri, context, connection))
TIMED(connection_destroy, RNIC_OF(connection, connection), (struct ri_connection * connection),
      (connection))
TIMED(resolve, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const struct ri_connect_param *param),
      (connection, param))
TIMED(listen, RNIC(ri),
      (struct ri_rnic * ri, const struct ri_listen_param *param, void *context,
       struct sockaddr_storage *bound, struct ri_listener **listener),
      (ri, param, context, bound, listener))
TIMED(listen_destroy, RNIC_OF(listener, listener), (struct ri_listener * listener), (listener))
TIMED(connect, RNIC_OF(connection, connection),
      (struct ri_connection * connection, struct ri_qp *qp, const struct ri_connect_param *param),
      (connection, qp, param))
TIMED(accept, RNIC_OF(connection, connection),
      (struct ri_connection * connection, struct ri_qp *qp, const struct ri_connect_param *param),
      (connection, qp, param))
TIMED(confirm, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const struct ri_connect_param *param),
      (connection, param))
TIMED(reject, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const void *data, uint16_t length),
      (connection, data, length))
TIMED(disconnect, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const void *data, uint16_t length),
      (connection, data, length))
TIMED(service_request, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const struct ri_connect_param *param),
      (connection, param))
TIMED(service_reply, RNIC_OF(connection, connection),
      (struct ri_connection * connection, const struct ri_service_reply *reply),
      (connection, reply))

/* ---- data ---- */

/* False: a request names an object, which is another one below. Those are passed one by one. */
static bool is_plain(const struct pass_qp *qp, const struct ri_send_wr *wr)
{
    if (qp->datagram)
        return false;
    for (; wr; wr = wr->next)
        if (wr->opcode == RI_WR_BIND_WINDOW || wr->opcode == RI_WR_FAST_REGISTER)
            return false;
    return true;
}

static enum ri_status post_each(struct pass_qp *qp, struct ri_send_wr *wr, struct ri_send_wr **bad)
{
    enum ri_status status = RI_OK;

    for (; wr; wr = wr->next) {
        struct ri_send_wr below, *its;

        pass_send_wr(qp, wr, &below);
        status = ri_qp_ops(qp->below)->post_send(qp->below, &below, &its);
        if (status == RI_OK)
            continue;
        *bad = wr;
        break;
    }
    return status;
}

static enum ri_status count_post_send(struct ri_qp *ri, struct ri_send_wr *wr,
                                      struct ri_send_wr **bad)
{
    struct pass_qp *qp = PASS_OF(qp, ri);
    const uint64_t began = clock_now();
    const enum ri_status status = is_plain(qp, wr)
                                      ? ri_qp_ops(qp->below)->post_send(qp->below, wr, bad)
                                      : post_each(qp, wr, bad);

    count_note(qp->rnic, COUNT_post_send, began, status);
    return status;
}

static enum ri_status count_post_recv(struct ri_qp *ri, struct ri_recv_wr *wr,
                                      struct ri_recv_wr **bad)
{
    struct pass_qp *qp = PASS_OF(qp, ri);
    const uint64_t began = clock_now();
    const enum ri_status status = ri_qp_ops(qp->below)->post_recv(qp->below, wr, bad);

    count_note(qp->rnic, COUNT_post_recv, began, status);
    return status;
}

static enum ri_status count_post_srq_recv(struct ri_srq *ri, struct ri_recv_wr *wr,
                                          struct ri_recv_wr **bad)
{
    struct pass_srq *srq = PASS_OF(srq, ri);
    const uint64_t began = clock_now();
    const enum ri_status status = srq->below->ops->post_srq_recv(srq->below, wr, bad);

    count_note(srq->rnic, COUNT_post_srq_recv, began, status);
    return status;
}

static enum count_verb kind_of(uint8_t opcode)
{
    switch (opcode) {
    case RI_WC_SEND: return COUNT_completed_send;
    case RI_WC_RDMA_WRITE: return COUNT_completed_write;
    case RI_WC_RDMA_READ: return COUNT_completed_read;
    case RI_WC_FETCH_ADD:
    case RI_WC_COMPARE_SWAP: return COUNT_completed_atomic;
    default: return opcode >= RI_WC_RECV ? COUNT_completed_receive : COUNT_completed_other;
    }
}

/* Completions have no time of their own: only their number is kept. */
static uint32_t count_poll(struct ri_cq *ri, uint32_t count, struct ri_wc *wc)
{
    struct pass_cq *cq = PASS_OF(cq, ri);
    uint32_t taken = cq->below->ops->poll(cq->below, count, wc);

    for (uint32_t i = 0; i < taken; i++) {
        struct count_file *file = count_rnic_of(cq->rnic)->file;
        struct count_entry *entry = &file->entry[kind_of(wc[i].opcode)];

        count_add(&entry->bucket[0], 1);
        if (wc[i].status != RI_WC_SUCCESS)
            count_add(&entry->errors, 1);
    }
    return taken;
}

static enum ri_status count_arm(struct ri_cq *ri, enum ri_arm kind, uint32_t count)
{
    struct pass_cq *cq = PASS_OF(cq, ri);
    const uint64_t began = clock_now();
    const enum ri_status status = cq->below->ops->arm(cq->below, kind, count);

    count_note(cq->rnic, COUNT_arm, began, status);
    return status;
}

/* ---- the descriptor ---- */

static const struct pass_filter filter = {
    .rnic_size = sizeof(struct count_rnic),
    .cq_size = sizeof(struct pass_cq),
    .qp_size = sizeof(struct pass_qp),
    .srq_size = sizeof(struct pass_srq),
    .open = count_open_filter,
    .close = count_close_filter,
    .cq_event = count_cq_event,
};

static enum ri_status count_open(const struct ri_open *open, struct ri_rnic **rnic)
{
    return pass_open(&filter, open, rnic);
}

static const struct ri_privileged_ops privileged = {
    PASS_CONTROL_TABLE(count_),
    .open = count_open,
    .close = pass_close,
    .rnic_counters = count_counters,
};

static const struct ri_user_ops user = {
    PASS_DATA_TABLE(count_),
    .cq_peek = pass_cq_peek,
};

PASS_PROVIDER(count, "filter: counts calls and their time, for itstat, over another provider");

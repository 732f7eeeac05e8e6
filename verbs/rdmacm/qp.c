/* SPDX-License-Identifier: BSD-3-Clause
 * Queue pairs, shared receive queues and CQs that belong to an id. */
#include "cm.h"

#include <string.h>

/* Adapters give some inline data even if none is requested, and programs use it. */
#define LEAST_INLINE 64u

static void free_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
    if (*cq)
        ibv_destroy_cq(*cq);
    if (*channel)
        ibv_destroy_comp_channel(*channel);
    *cq = NULL;
    *channel = NULL;
}

void rcm_free_cqs(struct rcm_id *id)
{
    free_cq(&id->ibv.recv_cq, &id->ibv.recv_cq_channel);
    free_cq(&id->ibv.send_cq, &id->ibv.send_cq_channel);
}

/* Creates a CQ with a channel; its context is the id. */
static int make_cq(struct rcm_id *id, uint32_t depth, struct ibv_cq **cq,
                   struct ibv_comp_channel **channel)
{
    *channel = ibv_create_comp_channel(id->ibv.verbs);
    if (!*channel)
        return -1;
    *cq = ibv_create_cq(id->ibv.verbs, depth ? (int)depth : 1, id, *channel, 0);
    return *cq ? 0 : -1;
}

static int make_cqs(struct rcm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
    if (!attr->recv_cq &&
        make_cq(id, attr->cap.max_recv_wr, &id->ibv.recv_cq, &id->ibv.recv_cq_channel))
        return -1;
    if (!attr->send_cq &&
        make_cq(id, attr->cap.max_send_wr, &id->ibv.send_cq, &id->ibv.send_cq_channel))
        return -1;
    return 0;
}

/* Completes the program's attributes with the objects of the id. */
static struct ibv_qp_init_attr_ex complete(const struct rcm_id *id,
                                           const struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp_init_attr_ex full = *attr;

    if (!(full.comp_mask & IBV_QP_INIT_ATTR_PD)) {
        full.comp_mask |= IBV_QP_INIT_ATTR_PD;
        full.pd = id->ibv.pd;
    }
    if (!full.send_cq)
        full.send_cq = id->ibv.send_cq;
    if (!full.recv_cq)
        full.recv_cq = id->ibv.recv_cq;
    if (!full.srq)
        full.srq = id->ibv.srq;
    if (full.cap.max_inline_data < LEAST_INLINE)
        full.cap.max_inline_data = LEAST_INLINE;
    return full;
}

static int create(struct rcm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp_init_attr_ex full;
    struct ibv_qp *qp;
    int error = 0;

    if (!id->ibv.verbs || id->ibv.qp || (attr->qp_type == IBV_QPT_UD) != rcm_is_datagram(id))
        return rcm_fail(EINVAL);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) && attr->pd->context != id->ibv.verbs)
        return rcm_fail(EINVAL);
    if (make_cqs(id, attr))
        goto free_cqs;
    full = complete(id, attr);
    qp = vb_qp_create(id->ibv.verbs, &full, rcm_is_datagram(id) ? 0 : VB_QP_BY_ADDRESS);
    if (!qp)
        goto free_cqs;
    error = rcm_is_datagram(id) ? rcm_datagram_start(qp) : rcm_id_take_qp(id, vb_qp_of(qp));
    if (error)
        goto free_qp;
    attr->cap = full.cap;
    id->ibv.pd = full.pd;
    id->ibv.qp = qp;
    if (rcm_is_datagram(id))
        return 0;
    vb_qp_of(qp)->modified.timeout = id->ack_timeout;
    /* from now on receives may be posted */
    vb_qp_enter(vb_qp_of(qp), IBV_QPS_INIT, VB_GATE_SHUT);
    return 0;
free_qp:
    ibv_destroy_qp(qp);
free_cqs:
    error = error ? error : errno;
    rcm_free_cqs(id);
    return rcm_fail(error);
}

VB_PUBLIC int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    SANITIZER_OUTPUT(qp_init_attr);

    return create(rcm_id_of(id), qp_init_attr);
}

VB_PUBLIC int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *qp_init_attr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(id);
    SANITIZER_OUTPUT(qp_init_attr);
    struct ibv_qp_init_attr_ex attr = { 0 };

    /* the first members are the same; comp_mask is where that structure has padding */
    memcpy(&attr, qp_init_attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
    if (pd) {
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.pd = pd;
    }
    if (create(rcm_id_of(id), &attr))
        return -1;
    qp_init_attr->cap = attr.cap;
    return 0;
}

VB_PUBLIC void rdma_destroy_qp(struct rdma_cm_id *id)
{
    VB_CALL;
    RCM_OWN(id, );

    if (!id->qp)
        return;
    rcm_groups_detach(rcm_id_of(id));
    ibv_destroy_qp(id->qp);
    id->qp = NULL;
    rcm_free_cqs(rcm_id_of(id));
}

VB_PUBLIC int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
                              struct ibv_srq_init_attr *attr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(attr);

    if (!pd)
        pd = id->pd;
    if (!pd || id->srq || pd->context != id->verbs)
        return rcm_fail(EINVAL);
    id->srq = ibv_create_srq(pd, attr);
    if (!id->srq)
        return -1;
    id->pd = pd;
    return 0;
}

VB_PUBLIC int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(attr);
    struct ibv_srq_init_attr plain = { .srq_context = attr->srq_context, .attr = attr->attr };
    struct ibv_pd *pd = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? attr->pd : NULL;

    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC) {
        ual_log(RI_LOG_WARNING, "rdma_create_srq_ex: SRQs of type %d are not supported",
                (int)attr->srq_type);
        return rcm_fail(EOPNOTSUPP);
    }
    if (rdma_create_srq(id, pd, &plain))
        return -1;
    attr->attr = plain.attr;
    return 0;
}

VB_PUBLIC void rdma_destroy_srq(struct rdma_cm_id *id)
{
    VB_CALL;
    RCM_OWN(id, );

    if (id->srq)
        ibv_destroy_srq(id->srq);
    id->srq = NULL;
}

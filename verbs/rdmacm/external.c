/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ids without a QP of librdmacm: the program creates its QP by ibv_create_qp, names it in
 * rdma_conn_param.qp_num and moves it by ibv_modify_qp, with the attributes of rdma_init_qp_attr.
 *
 * The active side hears CONNECT_RESPONSE when the peer has accepted. Its QP gets the connection
 * when it goes to RTS or by rdma_establish, whichever comes first; until then nothing that the
 * peer sends arrives. On the passive side such a QP has no connector before rdma_accept:
 * libibverbs knows it by its peer's number, VB_QPN_BY_ADDRESS.
 *
 * Where the device manages connections the QP is connected by numbers, which rdma_init_qp_attr
 * gives (infiniband.c), and the id has nothing to do with it: rdma_establish sends the third leg.
 */
#include "cm.h"

void rcm_external_begin(struct rcm_id *id, struct ri_connect_param *param)
{
    uint64_t features = ual_device_attr(id->context->device)->features;

    id->external = true;
    id->leg = features & RI_FEATURE_THREE_WAY ? RCM_LEG_CONFIRM : RCM_LEG_ATTACH;
    param->three_way = true;
}

void rcm_external_drain(struct rcm_id *id)
{
    pthread_mutex_lock(&id->lock);
    id->settled = true;
    pthread_cond_broadcast(&id->changed);
    pthread_mutex_unlock(&id->lock);
}

static enum ri_status third_leg(struct rcm_id *id)
{
    struct ri_connect_param param = { .size = sizeof(param) };

    return id->leg == RCM_LEG_ATTACH ? ual_conn_attach(id->conn, &id->qp->ual)
                                     : ual_conn_confirm(id->conn, &param);
}

/* The hand-over takes microseconds in the lane; after it the program may post. */
static int wait_until_drained(struct rcm_id *id)
{
    bool connected;

    pthread_mutex_lock(&id->lock);
    while (!id->settled)
        pthread_cond_wait(&id->changed, &id->lock);
    connected = id->state == RCM_CONNECTED || id->state == RCM_CLOSING;
    pthread_mutex_unlock(&id->lock);
    return connected ? 0 : ECONNRESET;
}

/* Returns 0 or an error number. */
static int establish(struct rcm_id *id)
{
    enum rcm_state was;
    enum ri_status status;
    bool first;

    if (rcm_step(id, RCM_DO_ESTABLISH, &was)) {
        status = third_leg(id);
        if (status == RI_OK)
            return wait_until_drained(id);
        rcm_step_back(id, was);
        return vb_errno(status);
    }
    if (was != RCM_CONNECTED)
        return EINVAL;
    /* the provider has not waited for this call */
    pthread_mutex_lock(&id->lock);
    first = !id->settled;
    id->settled = true;
    pthread_mutex_unlock(&id->lock);
    if (first && id->qp)
        vb_qp_enter(id->qp, IBV_QPS_RTS, VB_GATE_OPEN);
    return 0;
}

int rcm_external_modify(struct rcm_id *id, struct vb_qp *qp, enum ibv_qp_state to)
{
    enum rcm_state state = rcm_state(id);

    if (to == IBV_QPS_RTS)
        return establish(id);
    if (to != IBV_QPS_RTR)
        return 0;
    if (state != RCM_RESPONDED && state != RCM_CONNECTED)
        return EINVAL;
    vb_qp_enter(qp, IBV_QPS_RTR, VB_GATE_SHUT);
    return 0;
}

VB_PUBLIC int rdma_establish(struct rdma_cm_id *id)
{
    VB_CALL;
    RCM_OWN(id, -1);
    struct rcm_id *own = rcm_id_of(id);
    int error = id->qp || !own->external ? EINVAL : establish(own);

    return error ? rcm_fail(error) : 0;
}

/* ---- attributes ---- */

static void init_attr(struct ibv_qp_attr *attr, int *mask)
{
    attr->pkey_index = 0;
    attr->port_num = 1;
    attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static void rtr_attr(struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(id->context->device);
    uint32_t index = 0;

    vb_gid_index(id->context, &id->ibv.route.addr.src_addr, &index);
    attr->ah_attr = (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = 1,
        .grh = { .dgid = id->ibv.route.addr.addr.ibaddr.dgid,
                 .sgid_index = (uint8_t)index,
                 .hop_limit = 64 },
    };
    attr->path_mtu = IBV_MTU_1024;
    attr->dest_qp_num = VB_QPN_BY_ADDRESS;
    attr->rq_psn = 0;
    attr->max_dest_rd_atomic = (uint8_t)(rnic->max_ird < UINT8_MAX ? rnic->max_ird : UINT8_MAX);
    attr->min_rnr_timer = 0;
    *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(const struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(id->context->device);

    attr->sq_psn = 0;
    attr->timeout = 0;
    attr->retry_cnt = 7;
    attr->rnr_retry = 7;
    attr->max_rd_atomic = (uint8_t)(rnic->max_ord < UINT8_MAX ? rnic->max_ord : UINT8_MAX);
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC;
}

/* The peer is known: it has asked or answered. */
static bool has_peer(enum rcm_state state)
{
    return state == RCM_RESPONDED || state == RCM_ESTABLISHING || state == RCM_REQUESTED ||
           state == RCM_ACCEPTING || state == RCM_CONNECTED;
}

VB_PUBLIC int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
                                int *qp_attr_mask)
{
    VB_CALL;
    RCM_OWN(id, -1);
    SANITIZER_OUTPUT(qp_attr);
    SANITIZER_OUTPUT(qp_attr_mask);
    struct rcm_id *own = rcm_id_of(id);
    enum ibv_qp_state to = qp_attr->qp_state;

    if (!id->verbs || (to != IBV_QPS_INIT && !rcm_is_datagram(own) && !has_peer(rcm_state(own))))
        return rcm_fail(EINVAL);
    if (rcm_is_managed(own)) {
        int error = rcm_managed_attr(own, qp_attr, qp_attr_mask);

        return error ? rcm_fail(error) : 0;
    }
    switch (to) {
    case IBV_QPS_INIT: init_attr(qp_attr, qp_attr_mask); return 0;
    case IBV_QPS_RTR: rtr_attr(own, qp_attr, qp_attr_mask); return 0;
    case IBV_QPS_RTS: rts_attr(own, qp_attr, qp_attr_mask); return 0;
    default: return rcm_fail(EINVAL);
    }
}

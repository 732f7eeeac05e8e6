/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ids of devices that manage connections themselves, by InfiniBand's messages: what a program's
 * parameters become there, and what moves a QP of the program's own.
 */
#include "cm.h"

#define COUNT_MOST 7u /* of retries: three bits */

static uint8_t count_of(uint8_t given)
{
    return given < COUNT_MOST ? given : COUNT_MOST;
}

void rcm_managed_ask(const struct rcm_id *id, const struct rdma_conn_param *param,
                     struct ri_connect_param *to)
{
    to->retries_given = true;
    to->retry_count = param ? count_of(param->retry_count) : COUNT_MOST;
    to->rnr_retry_count = param ? count_of(param->rnr_retry_count) : COUNT_MOST;
    to->flow_control = param ? param->flow_control : true;
    to->traffic_class = id->tos;
    to->ack_timeout_given = id->has_ack_timeout;
    to->local_ack_timeout = id->ack_timeout;
    to->outlives_qp = true;
    if (id->ibv.qp || !param)
        return;
    to->qpn = param->qp_num;
    to->srq = param->srq;
}

void rcm_managed_take(struct rcm_id *id, const struct ri_connection_numbers *numbers,
                      struct rdma_conn_param *conn)
{
    if (!numbers)
        return;
    pthread_mutex_lock(&id->lock);
    id->numbers = *numbers;
    pthread_mutex_unlock(&id->lock);
    conn->qp_num = numbers->destination_qpn;
    conn->srq = numbers->srq;
    conn->retry_count = numbers->retry_count;
    conn->rnr_retry_count = numbers->rnr_retry;
}

/* ---- attributes (IBTA 12.9.7, 11.2.5.2) ---- */

static enum ibv_mtu mtu_of(uint32_t octets)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && octets >= UINT32_C(256) << mtu)
        mtu++;
    return mtu;
}

static void init_attr(const struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    bool atomics = ual_device_attr(id->context->device)->features & RI_FEATURE_ATOMICS;

    attr->pkey_index = 0;
    attr->port_num = 1;
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (rcm_is_datagram(id)) {
        attr->qkey = RDMA_UDP_QKEY;
        *mask |= IBV_QP_QKEY;
        return;
    }
    attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ |
                            (atomics ? (unsigned int)IBV_ACCESS_REMOTE_ATOMIC : 0);
    *mask |= IBV_QP_ACCESS_FLAGS;
}

static void rtr_attr(struct rcm_id *id, const struct ri_connection_numbers *numbers,
                     struct ibv_qp_attr *attr, int *mask)
{
    attr->ah_attr = (struct ibv_ah_attr){ .is_global = 1 };
    vb_path_describe(id->context, &numbers->path, &attr->ah_attr);
    attr->path_mtu = mtu_of(numbers->path_mtu);
    attr->dest_qp_num = numbers->destination_qpn;
    attr->rq_psn = numbers->receive_psn;
    attr->max_dest_rd_atomic = id->ird;
    attr->min_rnr_timer = 0;
    *mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(const struct rcm_id *id, const struct ri_connection_numbers *numbers,
                     struct ibv_qp_attr *attr, int *mask)
{
    attr->sq_psn = numbers->send_psn;
    attr->timeout = numbers->timeout;
    attr->retry_cnt = numbers->retry_count;
    attr->rnr_retry = numbers->rnr_retry;
    attr->max_rd_atomic = id->ord;
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC;
}

int rcm_managed_attr(struct rcm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    struct ri_connection_numbers numbers;

    pthread_mutex_lock(&id->lock);
    numbers = id->numbers;
    pthread_mutex_unlock(&id->lock);
    if (attr->qp_state == IBV_QPS_INIT) {
        init_attr(id, attr, mask);
        return 0;
    }
    if (rcm_is_datagram(id)) {
        attr->sq_psn = 0;
        *mask = IBV_QP_STATE | (attr->qp_state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0);
        return attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS ? 0 : EINVAL;
    }
    if (!numbers.size)
        return EINVAL;
    if (attr->qp_state == IBV_QPS_RTR)
        rtr_attr(id, &numbers, attr, mask);
    else if (attr->qp_state == IBV_QPS_RTS)
        rts_attr(id, &numbers, attr, mask);
    else
        return EINVAL;
    return 0;
}

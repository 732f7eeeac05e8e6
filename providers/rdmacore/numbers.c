/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QPs that their consumers connect by numbers: InfiniBand's transitions and attributes, passed on
 * to the device. InfiniBand and RoCE only.
 */
#include "qp.h"

#include <errno.h>
#include <string.h>

/* Of struct ri_qp_modify, as in {numbers-needed} of rnicpi.h. */
#define PATH_BITS (RI_QPM_PATH | RI_QPM_PATH_MTU | RI_QPM_DESTINATION_QPN | RI_QPM_RECEIVE_PSN)
#define RELIABLE_BITS                                                                   \
    (RI_QPM_IRD | RI_QPM_ORD | RI_QPM_RNR_TIMER | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | \
     RI_QPM_RNR_RETRY)
#define NUMBERS_BITS (RI_QPM_PORT | PATH_BITS | RI_QPM_SEND_PSN | RELIABLE_BITS)

static const struct transition {
    enum ri_qp_state from, to;
    uint32_t needed, allowed;
} transitions[] = {
    { RI_QPS_IDLE, RI_QPS_INIT, RI_QPM_PORT | RI_QPM_FLAGS, 0 },
    { RI_QPS_INIT, RI_QPS_INIT, 0, RI_QPM_PORT | RI_QPM_FLAGS },
    { RI_QPS_INIT, RI_QPS_RTR, PATH_BITS | RI_QPM_IRD | RI_QPM_RNR_TIMER, RI_QPM_FLAGS },
    { RI_QPS_RTR, RI_QPS_RTS,
      RI_QPM_SEND_PSN | RI_QPM_TIMEOUT | RI_QPM_RETRY_COUNT | RI_QPM_RNR_RETRY | RI_QPM_ORD,
      RI_QPM_FLAGS | RI_QPM_RNR_TIMER },
    { RI_QPS_RTS, RI_QPS_RTS, 0, RI_QPM_FLAGS | RI_QPM_RNR_TIMER },
    { RI_QPS_SQE, RI_QPS_RTS, 0, RI_QPM_FLAGS },
    { RI_QPS_SQD, RI_QPS_RTS, 0, RI_QPM_FLAGS | RI_QPM_RNR_TIMER },
    { RI_QPS_RTS, RI_QPS_SQD, 0, 0 },
    { RI_QPS_SQD, RI_QPS_SQD, 0, 0 },
};

/* ---- attributes ---- */

static enum ibv_mtu mtu_of(uint32_t octets)
{
    for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
        if (port_mtu(mtu) == octets)
            return mtu;
    return (enum ibv_mtu)0;
}

static bool in_range(const struct qp *qp, const struct ri_qp_modify *modify)
{
    const uint32_t mask = modify->mask;

    if ((mask & RI_QPM_PORT) && modify->port >= qp->rnic->attr.ports)
        return false;
    if ((mask & RI_QPM_PATH_MTU) && !mtu_of(modify->path_mtu))
        return false;
    if ((mask & RI_QPM_PATH) && (!modify->path || modify->path->port + 1 != qp->port))
        return false;
    if (((mask & RI_QPM_DESTINATION_QPN) && modify->destination_qpn >> 24) ||
        ((mask & RI_QPM_RECEIVE_PSN) && modify->receive_psn >> 24) ||
        ((mask & RI_QPM_SEND_PSN) && modify->send_psn >> 24))
        return false;
    return !(((mask & RI_QPM_TIMEOUT) && modify->timeout > 31) ||
             ((mask & RI_QPM_RETRY_COUNT) && modify->retry_count > 7) ||
             ((mask & RI_QPM_RNR_RETRY) && modify->rnr_retry > 7) ||
             ((mask & RI_QPM_RNR_TIMER) && modify->rnr_timer > 31));
}

static enum ri_status check(const struct qp *qp, const struct ri_qp_modify *modify,
                            const struct transition *way)
{
    const struct ri_rnic_attr *limits = &qp->rnic->attr;
    const uint32_t reliable = qp->unreliable ? (uint32_t)RELIABLE_BITS : 0;
    const uint32_t mask = modify->mask & ~(uint32_t)RI_QPM_STATE;
    const uint32_t needed = way->needed & ~reliable, allowed = way->allowed & ~reliable;

    if ((mask & needed) != needed || mask & ~(needed | allowed) || !in_range(qp, modify))
        return RI_ERR_INVALID_ARGUMENT;
    if (((mask & RI_QPM_IRD) && modify->ird > limits->max_ird) ||
        ((mask & RI_QPM_ORD) && modify->ord > limits->max_ord))
        return RI_ERR_LIMIT;
    return RI_OK;
}

/* Returns an error number. */
static int to_verbs(const struct qp *qp, const struct ri_qp_modify *modify,
                    struct ibv_qp_attr *attr, int *mask)
{
    static const struct {
        uint32_t ri;
        int ibv;
    } bits[] = {
        { RI_QPM_PORT, IBV_QP_PORT },
        { RI_QPM_PATH, IBV_QP_AV },
        { RI_QPM_PATH_MTU, IBV_QP_PATH_MTU },
        { RI_QPM_DESTINATION_QPN, IBV_QP_DEST_QPN },
        { RI_QPM_RECEIVE_PSN, IBV_QP_RQ_PSN },
        { RI_QPM_SEND_PSN, IBV_QP_SQ_PSN },
        { RI_QPM_TIMEOUT, IBV_QP_TIMEOUT },
        { RI_QPM_RETRY_COUNT, IBV_QP_RETRY_CNT },
        { RI_QPM_RNR_RETRY, IBV_QP_RNR_RETRY },
        { RI_QPM_RNR_TIMER, IBV_QP_MIN_RNR_TIMER },
        { RI_QPM_IRD, IBV_QP_MAX_DEST_RD_ATOMIC },
        { RI_QPM_ORD, IBV_QP_MAX_QP_RD_ATOMIC },
        { RI_QPM_FLAGS, IBV_QP_ACCESS_FLAGS },
    };

    *mask = IBV_QP_STATE;
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        *mask |= modify->mask & bits[i].ri ? bits[i].ibv : 0;
    attr->port_num = (uint8_t)(modify->port + 1);
    attr->path_mtu = mtu_of(modify->path_mtu);
    attr->dest_qp_num = modify->destination_qpn;
    attr->rq_psn = modify->receive_psn;
    attr->sq_psn = modify->send_psn;
    attr->timeout = modify->timeout;
    attr->retry_cnt = modify->retry_count;
    attr->rnr_retry = modify->rnr_retry;
    attr->min_rnr_timer = modify->rnr_timer;
    attr->max_dest_rd_atomic = (uint8_t)modify->ird;
    attr->max_rd_atomic = (uint8_t)modify->ord;
    attr->qp_access_flags = (unsigned int)qp_access(qp);
    return modify->mask & RI_QPM_PATH ? path_to_verbs(qp->rnic, modify->path, &attr->ah_attr) : 0;
}

/* The device has them. */
static void take(struct qp *qp, const struct ri_qp_modify *modify)
{
    qp->known |= modify->mask & NUMBERS_BITS;
    if (modify->mask & RI_QPM_PORT)
        qp->port = (uint8_t)(modify->port + 1);
    if (modify->mask & RI_QPM_IRD)
        qp->ird = modify->ird;
    if (modify->mask & RI_QPM_ORD)
        qp->ord = modify->ord;
}

/* ---- states ---- */

static enum ri_qp_state state_of(enum ibv_qp_state state, enum ri_qp_state ours)
{
    if (ours != RI_QPS_RTS)
        return ours;
    switch (state) {
    case IBV_QPS_SQD: return RI_QPS_SQD;
    case IBV_QPS_SQE: return RI_QPS_SQE;
    case IBV_QPS_ERR: return RI_QPS_ERROR;
    default: return ours;
    }
}

static enum ri_qp_state state_now(struct qp *qp)
{
    enum ri_qp_state ours = qp_state(qp);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    if (ours != RI_QPS_RTS || rdmacore->query_qp(qp->ibv, &attr, IBV_QP_STATE, &init))
        return ours;
    return state_of(attr.qp_state, ours);
}

static enum ibv_qp_state to_verbs_state(enum ri_qp_state state)
{
    switch (state) {
    case RI_QPS_INIT: return IBV_QPS_INIT;
    case RI_QPS_RTR: return IBV_QPS_RTR;
    case RI_QPS_SQD: return IBV_QPS_SQD;
    default: return IBV_QPS_RTS;
    }
}

/* Everything that can end the connection is reported from now on. */
static void begin(struct qp *qp)
{
    atomic_store(&qp->failing, false);
    atomic_store(&qp->ended, false);
    cq_watch_errors(qp->send_cq);
    cq_watch_errors(qp->recv_cq);
}

/* The QP stays as it is where the device refuses. */
static enum ri_status go(struct qp *qp, const struct ri_qp_modify *modify,
                         const struct transition *way)
{
    struct ibv_qp_attr attr = { .qp_state = to_verbs_state(way->to) };
    enum ri_status status = check(qp, modify, way);
    uint32_t before = qp->flags;
    int mask, error;

    if (status != RI_OK)
        return status;
    if (modify->mask & RI_QPM_FLAGS)
        qp->flags = modify->flags;
    error = to_verbs(qp, modify, &attr, &mask);
    if (way->to == RI_QPS_INIT)
        mask |= IBV_QP_PKEY_INDEX;
    if (way->to == RI_QPS_SQD) {
        mask |= way->from == RI_QPS_RTS ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0;
        attr.en_sqd_async_notify = 1;
    }
    if (!error && way->to == RI_QPS_RTR)
        begin(qp);
    if (!error)
        error = rdmacore_errno(rdmacore->modify_qp(qp->ibv, &attr, mask));
    if (error) {
        qp->flags = before;
        return rdmacore_status(error);
    }
    take(qp, modify);
    qp->numbered = true;
    if (way->from != way->to && way->from != RI_QPS_SQE && way->from != RI_QPS_SQD)
        qp_set_state(qp, way->to == RI_QPS_SQD ? RI_QPS_RTS : way->to);
    return RI_OK;
}

/* From any state: the device forgets the requests, and keeps the number. It is in INIT then, as a
 * new one. */
static enum ri_status reset(struct qp *qp)
{
    struct rnic *rnic = qp->rnic;
    int error;

    atomic_store(&qp->ended, true);
    rnic->host->timer_cancel(rnic->host, rnic->lane.base.context, &qp->sweep);
    qp_set_state(qp, RI_QPS_ERROR); /* nothing reaches the device meanwhile */
    error = qp_to_state(qp, IBV_QPS_RESET);
    if (!error)
        error = qp_to_init(qp, qp->port);
    if (error)
        return rdmacore_status(error);
    cq_drop(qp->send_cq, qp, &qp->sq);
    cq_drop(qp->recv_cq, qp, &qp->rq);
    cq_fire(qp->send_cq); /* the events of other QPs' drained completions are lost */
    cq_fire(qp->recv_cq);
    rdmacore_windows_leave(qp);
    qp->known = 0;
    atomic_store(&qp->failing, false);
    atomic_store(&qp->cut, false);
    atomic_store(&qp->filler_status, 0);
    qp_set_state(qp, RI_QPS_IDLE);
    return RI_OK;
}

static enum ri_status to_error(struct qp *qp)
{
    atomic_store(&qp->ended, true);
    qp_to_error(qp);
    qp_notify_peer(qp);
    return RI_OK;
}

bool numbers_takes(const struct qp *qp, const struct ri_qp_modify *modify)
{
    const uint32_t own = NUMBERS_BITS & ~(uint32_t)(RI_QPM_IRD | RI_QPM_ORD);

    if (qp->datagram || !(qp->rnic->attr.features & RI_FEATURE_QP_NUMBERS))
        return false;
    if (qp->numbered || modify->mask & own)
        return true;
    return modify->mask & RI_QPM_STATE &&
           (modify->state == RI_QPS_INIT || modify->state == RI_QPS_RTR ||
            modify->state == RI_QPS_SQD || modify->state == RI_QPS_SQE);
}

enum ri_status numbers_modify(struct qp *qp, const struct ri_qp_modify *modify)
{
    const uint32_t known = RI_QPM_STATE | RI_QPM_FLAGS | NUMBERS_BITS;
    enum ri_qp_state from = state_now(qp);
    enum ri_qp_state to = modify->mask & RI_QPM_STATE ? modify->state : from;

    if (modify->mask & ~known)
        return RI_ERR_NOT_SUPPORTED;
    if (to == RI_QPS_ERROR && (modify->mask & RI_QPM_STATE))
        return to_error(qp);
    if (to == RI_QPS_IDLE && (modify->mask & RI_QPM_STATE))
        return reset(qp);
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++)
        if (transitions[i].from == from && transitions[i].to == to)
            return go(qp, modify, &transitions[i]);
    return RI_ERR_INVALID_STATE;
}

/* ---- query ---- */

void numbers_query(struct qp *qp, struct ri_qp_info *info)
{
    const int all = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                    IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    if (rdmacore->query_qp(qp->ibv, &attr, all, &init))
        return;
    info->state = state_of(attr.qp_state, info->state);
    info->draining = info->state == RI_QPS_SQD && attr.sq_draining;
    info->known = qp->known;
    info->port = attr.port_num - 1u;
    info->path_mtu = port_mtu(attr.path_mtu);
    info->destination_qpn = attr.dest_qp_num;
    info->receive_psn = attr.rq_psn;
    info->send_psn = attr.sq_psn;
    info->timeout = attr.timeout;
    info->retry_count = attr.retry_cnt;
    info->rnr_retry = attr.rnr_retry;
    info->rnr_timer = attr.min_rnr_timer;
    if (qp->known & RI_QPM_PATH)
        path_from_verbs(qp->rnic, &attr.ah_attr, &info->path);
}

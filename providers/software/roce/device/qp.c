/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: the core's, with a number of the process's slot; what is told of them.
 */
#include "device.h"

enum ri_status roce_qp_create(struct ri_pd *base, struct ri_qp_attr *attr, struct ri_qp **out)
{
    enum ri_status status;
    struct roce_qp *qp;
    uint32_t qpn;

    if (attr->type == RI_QP_UD && (attr->qkey & UD_CONTROLLED_KEY))
        return RI_ERR_PERMISSION;
    status = core_qp_create(base, attr, out);
    if (status != RI_OK)
        return status;
    qp = roce_qp_of(*out);
    qpn = net_qpn_take(roce_rnic(qp->core.rnic)->net);
    if (!qpn) {
        core_qp_destroy(*out);
        return RI_ERR_LIMIT;
    }
    qp->core.qpn = qpn;
    if (roce_is_datagram(qp)) {
        atomic_store(&qp->core.attr.fused, true);
        atomic_store(&qp->ud.q_key, attr->qkey);
    } else {
        roce_timers_init(qp);
        roce_meet_show(qp, true);
    }
    return RI_OK;
}

static bool is_attached(struct roce_qp *qp)
{
    struct roce_rnic *device = roce_rnic(qp->core.rnic);
    bool attached;

    pthread_mutex_lock(&device->lock);
    attached = qp->groups;
    pthread_mutex_unlock(&device->lock);
    return attached;
}

enum ri_status roce_qp_destroy(struct ri_qp *base)
{
    struct roce_qp *qp = roce_qp_of(base);
    struct net *net = roce_rnic(qp->core.rnic)->net;
    uint32_t qpn = qp->core.qpn;
    enum ri_status status;

    if (roce_is_datagram(qp) && is_attached(qp)) /* {multicast-destroy} */
        return RI_ERR_BUSY;
    roce_rnic(qp->core.rnic)->above->qp_gone(qp);
    if (!roce_is_datagram(qp))
        roce_meet_show(qp, false);
    status = core_qp_destroy(base);

    if (status == RI_OK)
        net_qpn_release(net, qpn);
    return status;
}

enum ri_qp_state roce_qp_state(const struct roce_qp *qp)
{
    static const enum ri_qp_state states[] = {
        [PHASE_IDLE] = RI_QPS_IDLE, [PHASE_INIT] = RI_QPS_INIT, [PHASE_RTR] = RI_QPS_RTR,
        [PHASE_RTS] = RI_QPS_RTS,   [PHASE_SQD] = RI_QPS_SQD,
    };
    enum ri_qp_state core = qp_state(&qp->core);

    if (core != RI_QPS_IDLE && core != RI_QPS_RTS)
        return RI_QPS_ERROR;
    if (core == RI_QPS_RTS && qp->core.type == RI_QP_UC && atomic_load(&qp->rc.req.failed))
        return RI_QPS_SQE;
    return states[roce_phase(qp)];
}

/* {numbers-query} */
static void describe(struct roce_qp *qp, struct ri_qp_info *info)
{
    struct rc_qp *rc = &qp->rc;

    info->state = roce_qp_state(qp);
    info->known = qp->known;
    info->draining = info->state == RI_QPS_SQD &&
                     !(roce_is_local(qp) ? local_is_drained(&qp->core) : rc->req.drained);
    if (qp_state(&qp->core) == RI_QPS_RTS && !rc->held) {
        info->wire = roce_is_local(qp) ? "local" : "udp";
        info->local_why = atomic_load(&qp->local_why);
    }
    info->timeout = rc->attr.timeout;
    info->retry_count = rc->attr.retry_cnt;
    info->rnr_retry = rc->attr.rnr_retry;
    info->rnr_timer = rc->attr.rnr_timer;
    info->path_mtu = rc->attr.mtu;
    info->destination_qpn = rc->attr.dest_qpn;
    info->receive_psn = rc->rsp.epsn;
    info->send_psn = rc->req.psn;
    if (qp->known & RI_QPM_PATH)
        info->path = qp->ah;
}

enum ri_status roce_qp_query(struct ri_qp *base, struct ri_qp_info *out)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    struct roce_qp *qp = roce_qp_of(base);
    enum ri_status status = core_qp_query(base, &info);

    if (status != RI_OK)
        return status;
    if (!roce_is_datagram(qp)) {
        qp_hold(&qp->core);
        describe(qp, &info);
        qp_unhold(&qp->core);
    } else if (info.state != RI_QPS_IDLE && info.state != RI_QPS_RTS) {
        info.state = RI_QPS_ERROR;
    }
    return ri_sized_copy(out, &info, sizeof(info)) ? RI_OK : RI_ERR_INVALID_ARGUMENT;
}

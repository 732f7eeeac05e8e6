/* SPDX-License-Identifier: BSD-3-Clause
 *
 * QPs of a device that connects them by their numbers itself (RI_FEATURE_QP_NUMBERS): what the
 * program gives to ibv_modify_qp passes to the provider, and comes back from it. The program's QP
 * numbers are the device's. QPs that rdma_cm connects, and those of other devices, are served by
 * their connector (qp_modify.c).
 */
#include "ibverbs_private.h"

bool vb_is_by_device(const struct vb_qp *qp)
{
    return vb_connects_numbers(vb_qp_context((struct vb_qp *)(uintptr_t)qp)) &&
           !(qp->flags & VB_QP_BY_ADDRESS) && !atomic_load(&qp->connector);
}

bool vb_has_device_number(const struct vb_qp *qp)
{
    const struct vb_context *context = vb_qp_context((struct vb_qp *)(uintptr_t)qp);

    return vb_connects_numbers(context) && (!(qp->flags & VB_QP_BY_ADDRESS) || vb_manages(context));
}

/* --- values --- */

static uint32_t octets_of(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? UINT32_C(128) << mtu : 0;
}

static enum ibv_mtu mtu_of(uint32_t octets)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && octets >= UINT32_C(256) << mtu)
        mtu++;
    return mtu;
}

static enum ri_qp_state state_to(enum ibv_qp_state state)
{
    static const enum ri_qp_state states[] = {
        [IBV_QPS_RESET] = RI_QPS_IDLE, [IBV_QPS_INIT] = RI_QPS_INIT, [IBV_QPS_RTR] = RI_QPS_RTR,
        [IBV_QPS_RTS] = RI_QPS_RTS,    [IBV_QPS_SQD] = RI_QPS_SQD,   [IBV_QPS_SQE] = RI_QPS_SQE,
        [IBV_QPS_ERR] = RI_QPS_ERROR,
    };

    return states[state];
}

static enum ibv_qp_state state_from(enum ri_qp_state state)
{
    switch (state) {
    case RI_QPS_IDLE: return IBV_QPS_RESET;
    case RI_QPS_INIT: return IBV_QPS_INIT;
    case RI_QPS_RTR: return IBV_QPS_RTR;
    case RI_QPS_RTS: return IBV_QPS_RTS;
    case RI_QPS_SQD: return IBV_QPS_SQD;
    case RI_QPS_SQE: return IBV_QPS_SQE;
    default: return IBV_QPS_ERR;
    }
}

/* --- modify --- */

/* What passes as it is; IBV_QP_STATE, access and path are converted. */
static void fill_numbers(const struct ibv_qp_attr *attr, int mask, struct ri_qp_modify *modify)
{
    static const struct {
        int ibv;
        uint32_t ri;
    } bits[] = {
        { IBV_QP_PORT, RI_QPM_PORT },
        { IBV_QP_PATH_MTU, RI_QPM_PATH_MTU },
        { IBV_QP_DEST_QPN, RI_QPM_DESTINATION_QPN },
        { IBV_QP_RQ_PSN, RI_QPM_RECEIVE_PSN },
        { IBV_QP_SQ_PSN, RI_QPM_SEND_PSN },
        { IBV_QP_TIMEOUT, RI_QPM_TIMEOUT },
        { IBV_QP_RETRY_CNT, RI_QPM_RETRY_COUNT },
        { IBV_QP_RNR_RETRY, RI_QPM_RNR_RETRY },
        { IBV_QP_MIN_RNR_TIMER, RI_QPM_RNR_TIMER },
        { IBV_QP_MAX_QP_RD_ATOMIC, RI_QPM_ORD },
        { IBV_QP_MAX_DEST_RD_ATOMIC, RI_QPM_IRD },
    };

    for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
        modify->mask |= mask & bits[i].ibv ? bits[i].ri : 0;
    modify->port = attr->port_num - 1u;
    modify->path_mtu = octets_of(attr->path_mtu);
    modify->destination_qpn = attr->dest_qp_num;
    modify->receive_psn = attr->rq_psn & 0xffffff;
    modify->send_psn = attr->sq_psn & 0xffffff;
    modify->timeout = attr->timeout;
    modify->retry_count = attr->retry_cnt;
    modify->rnr_retry = attr->rnr_retry;
    modify->rnr_timer = attr->min_rnr_timer;
    modify->ord = attr->max_rd_atomic;
    modify->ird = attr->max_dest_rd_atomic;
}

int vb_modify_by_device(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct ri_qp_modify modify = { .size = sizeof(modify) };
    struct ri_ah_attr path;
    int error = 0;

    fill_numbers(attr, mask, &modify);
    if (mask & IBV_QP_ACCESS_FLAGS) {
        modify.mask |= RI_QPM_FLAGS;
        modify.flags = vb_qp_flags_of(qp, attr->qp_access_flags);
    }
    if (mask & IBV_QP_AV) {
        error = vb_path(vb_qp_context(qp), &attr->ah_attr, &path);
        modify.mask |= RI_QPM_PATH;
        modify.path = &path;
    }
    if (mask & IBV_QP_STATE) {
        modify.mask |= RI_QPM_STATE;
        modify.state = state_to(attr->qp_state);
    }
    if (!error && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR)
        atomic_store(&qp->aborts, true);
    /* the event may come before the call returns */
    if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
        qp->modified.en_sqd_async_notify = attr->en_sqd_async_notify;
    if (!error)
        error = vb_errno(ual_qp_modify(&qp->ual, &modify));
    if (!error && (mask & IBV_QP_STATE))
        vb_qp_note_state(qp, attr->qp_state);
    return error;
}

/* --- query --- */

void vb_refresh_by_device(struct vb_qp *qp)
{
    struct ri_qp_info info = { .size = sizeof(info) };

    if (ual_qp_query(&qp->ual, &info) == RI_OK && info.state == RI_QPS_SQE)
        vb_qp_note_state(qp, IBV_QPS_SQE);
}

/* The source keeps the place that the program gave, as long as the GID there is the one in use. */
void vb_path_describe(struct vb_context *context, const struct ri_ah_attr *path,
                      struct ibv_ah_attr *to)
{
    uint8_t source[16];

    to->dlid = path->destination_lid;
    to->sl = path->sl;
    to->src_path_bits = path->path_bits;
    to->static_rate = path->static_rate;
    to->is_global = path->global;
    to->port_num = (uint8_t)(path->port + 1);
    if (!path->global)
        return;
    memcpy(to->grh.dgid.raw, path->destination_gid, sizeof(to->grh.dgid.raw));
    to->grh.flow_label = path->flow_label;
    to->grh.hop_limit = path->hop_limit;
    to->grh.traffic_class = path->traffic_class;
    for (unsigned int i = to->grh.sgid_index, n = 0; n <= UINT8_MAX; n++, i = (i + 1) & UINT8_MAX)
        if (!vb_gid_at(context, to->port_num, i, source) &&
            !memcmp(source, path->source_gid, sizeof(source))) {
            to->grh.sgid_index = (uint8_t)i;
            return;
        }
}

void vb_describe_by_device(struct vb_qp *qp, const struct ri_qp_info *info,
                           struct ibv_qp_attr *attr)
{
    /* UD has no INIT and RTR at the device */
    if (qp->ibv.qp_base.qp_type != IBV_QPT_UD)
        attr->qp_state = state_from(info->state);
    attr->cur_qp_state = attr->qp_state;
    attr->sq_draining = info->draining;
    attr->max_rd_atomic = (uint8_t)info->ord;
    attr->max_dest_rd_atomic = (uint8_t)info->ird;
#define TAKE(bit, member, value) attr->member = info->known & (bit) ? (value) : attr->member
    TAKE(RI_QPM_PORT, port_num, (uint8_t)(info->port + 1));
    TAKE(RI_QPM_PATH_MTU, path_mtu, mtu_of(info->path_mtu));
    TAKE(RI_QPM_DESTINATION_QPN, dest_qp_num, info->destination_qpn);
    TAKE(RI_QPM_RECEIVE_PSN, rq_psn, info->receive_psn);
    TAKE(RI_QPM_SEND_PSN, sq_psn, info->send_psn);
    TAKE(RI_QPM_TIMEOUT, timeout, info->timeout);
    TAKE(RI_QPM_RETRY_COUNT, retry_cnt, info->retry_count);
    TAKE(RI_QPM_RNR_RETRY, rnr_retry, info->rnr_retry);
    TAKE(RI_QPM_RNR_TIMER, min_rnr_timer, info->rnr_timer);
#undef TAKE
    if (info->known & RI_QPM_PATH)
        vb_path_describe(vb_qp_context(qp), &info->path, &attr->ah_attr);
}

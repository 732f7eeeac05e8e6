/* SPDX-License-Identifier: BSD-3-Clause
 *
 * States of a QP, as the program sees them.
 *
 * A QP that its device connects by numbers has the device's states (qp_by_device.c). Of any other
 * the provider's QP is IDLE until it has a connection. INIT and RTR exist in this file only, and so
 * does RTS before the connection is established. RESET renews the provider's QP. For QPs that are
 * connected by numbers this file checks the attributes that InfiniBand requires for each
 * transition; rdma_cm sets its own.
 */
#include "ibverbs_private.h"

/* --- state --- */

enum ibv_qp_state vb_qp_state(const struct vb_qp *qp)
{
    return __atomic_load_n(&qp->ibv.qp_base.state, __ATOMIC_RELAXED);
}

void vb_qp_abort(struct vb_qp *qp)
{
    atomic_store(&qp->aborts, true);
    ual_qp_set_state(&qp->ual, RI_QPS_ERROR);
}

void vb_qp_enter(struct vb_qp *qp, enum ibv_qp_state state, enum vb_gate gate)
{
    if (state == IBV_QPS_ERR)
        vb_qp_abort(qp);
    vb_qp_note_state(qp, state);
    if (state == IBV_QPS_RTS)
        atomic_store_explicit(&qp->gate, gate, memory_order_release);
}

bool vb_qp_gate(struct vb_qp *qp, enum vb_gate from, enum vb_gate to)
{
    uint32_t gate = from;

    return atomic_compare_exchange_strong(&qp->gate, &gate, (uint32_t)to);
}

int vb_qp_connector(struct vb_qp *qp, const struct vb_connector *connector, void *context)
{
    const struct vb_connector *before = atomic_load(&qp->connector);

    if (connector && before && (before != connector || qp->connector_context != context))
        return EBUSY;
    if (before && !connector && before->release)
        before->release(qp->connector_context, qp);
    if (connector)
        qp->connector_context = context;
    atomic_store_explicit(&qp->connector, connector, memory_order_release);
    return 0;
}

/* --- what InfiniBand has and iWARP lacks --- */

bool vb_can_rnr(const struct vb_context *context)
{
    return ual_device_attr(context->device)->features & RI_FEATURE_RNR;
}

bool vb_can_fuse(const struct vb_context *context)
{
    return ual_device_attr(context->device)->features & RI_FEATURE_FUSED_IMMEDIATE;
}

bool vb_can_acknowledge(const struct vb_context *context)
{
    return vb_is_roce() && ual_device_attr(context->device)->features & RI_FEATURE_ACKNOWLEDGE;
}

/* A QP whose connection has ended does not take them, and does not need them. */
void vb_qp_agree(struct vb_qp *qp, const struct vb_terms *terms)
{
    const struct vb_context *context = vb_qp_context(qp);
    struct ri_qp_modify modify = { .size = sizeof(modify),
                                   .mask = (vb_can_rnr(context) ? RI_QPM_RNR : 0u) |
                                           (vb_can_fuse(context) ? RI_QPM_IMMEDIATE : 0u) |
                                           (vb_can_acknowledge(context) ? RI_QPM_ACKNOWLEDGED : 0u),
                                   .rnr_retry = terms->rnr_retry,
                                   .rnr_timer = terms->rnr_timer,
                                   .fused_immediate = terms->fused_immediate,
                                   .acknowledged = terms->acknowledged };

    atomic_store(&qp->rnr_retry, terms->rnr_retry);
    if (modify.mask)
        ual_qp_modify(&qp->ual, &modify);
}

/* --- transitions --- */

#define RC(bits) ((bits) | IBV_QP_STATE)

/* The attributes that InfiniBand requires of a program that connects the QP itself. -1: no such
 * transition. */
static int needed(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type)
{
    bool is_rc = type == IBV_QPT_RC;

    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
        return IBV_QP_STATE;
    if (type == IBV_QPT_UD && from == IBV_QPS_RESET && to == IBV_QPS_INIT)
        return RC(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (type == IBV_QPT_UD)
        return from == IBV_QPS_RTR && to == IBV_QPS_RTS ? RC(IBV_QP_SQ_PSN) : IBV_QP_STATE;
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
        return RC(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
        return RC(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
               (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
        return RC(IBV_QP_SQ_PSN) | (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                IBV_QP_MAX_QP_RD_ATOMIC
                                          : 0);
    return 0;
}

/* The attributes that InfiniBand allows besides (IBTA, 11.2.5.2), also where the state stays. */
static int allowed(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type)
{
    const int path = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS;
    const int late = IBV_QP_CUR_STATE | path | IBV_QP_PATH_MIG_STATE |
                     (type == IBV_QPT_RC ? IBV_QP_MIN_RNR_TIMER : 0);
    bool is_ud = type == IBV_QPT_UD;

    if (from == IBV_QPS_INIT && to == IBV_QPS_INIT)
        return IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
        return IBV_QP_PKEY_INDEX | (is_ud ? IBV_QP_QKEY : path);
    if (to == IBV_QPS_SQD)
        return from == IBV_QPS_RTS ? IBV_QP_EN_SQD_ASYNC_NOTIFY : 0;
    if (to == IBV_QPS_RTS)
        return is_ud ? IBV_QP_CUR_STATE | IBV_QP_QKEY : late;
    return 0;
}

static bool is_transition(enum ibv_qp_state from, enum ibv_qp_state to)
{
    static const uint8_t nexts[] = {
        [IBV_QPS_RESET] = 1u << IBV_QPS_INIT,
        [IBV_QPS_INIT] = 1u << IBV_QPS_INIT | 1u << IBV_QPS_RTR,
        [IBV_QPS_RTR] = 1u << IBV_QPS_RTS,
        [IBV_QPS_RTS] = 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD,
        [IBV_QPS_SQD] = 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD,
        [IBV_QPS_SQE] = 1u << IBV_QPS_RTS,
        [IBV_QPS_ERR] = 0,
    };

    return to == IBV_QPS_RESET || to == IBV_QPS_ERR ||
           (from < ARRAY_SIZE(nexts) && to < ARRAY_SIZE(nexts) && (nexts[from] & 1u << to));
}

static int check_values(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct vb_context *context = vb_qp_context(qp);
    const struct ri_rnic_attr *rnic = ual_device_attr(context->device);

    if ((mask & IBV_QP_PORT) && (attr->port_num < 1 || attr->port_num > rnic->ports))
        return EINVAL;
    if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index)
        return EINVAL;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > rnic->max_ord)
        return EINVAL;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > rnic->max_ird)
        return EINVAL;
    if (((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31))
        return EINVAL;
    if ((mask & IBV_QP_AV) && attr->ah_attr.is_global &&
        attr->ah_attr.grh.sgid_index >= vb_gids_count(context))
        return EINVAL;
    return 0;
}

static bool can_drain(const struct vb_qp *qp)
{
    const struct vb_context *context = vb_context_of(qp->ibv.qp_base.context);

    return vb_is_by_device(qp) && qp->ibv.qp_base.qp_type != IBV_QPT_UD &&
           ual_device_attr(context->device)->features & RI_FEATURE_SQD;
}

static int check(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask, bool by_program)
{
    enum ibv_qp_state from = vb_qp_state(qp);
    enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
    enum ibv_qp_type type = qp->ibv.qp_base.qp_type;
    int wanted = by_program && (mask & IBV_QP_STATE) ? needed(from, to, type) : 0;

    if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
        return EINVAL;
    if (by_program && (mask & ~(wanted | allowed(from, to, type) | IBV_QP_STATE)))
        return EINVAL;
    if (!(mask & IBV_QP_STATE))
        return check_values(qp, attr, mask);
    if (to == IBV_QPS_SQD && !can_drain(qp)) {
        ual_log(RI_LOG_WARNING, "ibv_modify_qp: the device has no state SQD");
        return EOPNOTSUPP;
    }
    if (!is_transition(from, to) || (wanted & ~mask))
        return EINVAL;
    return check_values(qp, attr, mask);
}

/* --- attributes --- */

static int apply(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(vb_qp_context(qp)->device);
    struct ri_qp_modify modify = { .size = sizeof(modify) };

    if ((mask & IBV_QP_ACCESS_FLAGS) && (rnic->features & RI_FEATURE_ACCESS_MODIFY)) {
        modify.mask |= RI_QPM_FLAGS;
        modify.flags = vb_qp_flags_of(qp, attr->qp_access_flags);
    }
    if ((mask & IBV_QP_MIN_RNR_TIMER) && atomic_load(&qp->rnr_retry)) {
        modify.mask |= RI_QPM_RNR;
        modify.rnr_retry = atomic_load(&qp->rnr_retry);
        modify.rnr_timer = attr->min_rnr_timer;
    }
    if (mask & IBV_QP_QKEY && qp->ibv.qp_base.qp_type == IBV_QPT_UD) {
        modify.mask |= RI_QPM_QKEY;
        modify.qkey = attr->qkey;
    }
    return modify.mask ? vb_errno(ual_qp_modify(&qp->ual, &modify)) : 0;
}

/* Keeps the attributes for ibv_query_qp. */
static void note(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct ibv_qp_attr *noted = &qp->modified;

#define NOTE(bit, member)                 \
    do {                                  \
        if (mask & (bit))                 \
            noted->member = attr->member; \
    } while (0)
    NOTE(IBV_QP_PKEY_INDEX, pkey_index);
    NOTE(IBV_QP_PORT, port_num);
    NOTE(IBV_QP_QKEY, qkey);
    NOTE(IBV_QP_AV, ah_attr);
    NOTE(IBV_QP_PATH_MTU, path_mtu);
    NOTE(IBV_QP_TIMEOUT, timeout);
    NOTE(IBV_QP_RETRY_CNT, retry_cnt);
    NOTE(IBV_QP_RNR_RETRY, rnr_retry);
    NOTE(IBV_QP_RQ_PSN, rq_psn);
    NOTE(IBV_QP_SQ_PSN, sq_psn);
    NOTE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    NOTE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    NOTE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    NOTE(IBV_QP_DEST_QPN, dest_qp_num);
    NOTE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef NOTE
}

/* --- the call --- */

/* RESET is noted twice: first to refuse posts, then because the connection may have ended before
 * ual_qp_renew has waited for its upcalls. */
static int reset(struct vb_qp *qp)
{
    struct ual_qp_attr attr = qp->attr;
    enum ri_status status;

    vb_qp_note_state(qp, IBV_QPS_RESET);
    atomic_store(&qp->rnr_retry, 0);
    vb_qp_failed(qp, IBV_WC_SUCCESS);
    if (qp->flags & VB_QP_BY_ADDRESS) {
        const struct vb_connector *connector = atomic_load(&qp->connector);

        if (connector && connector->release)
            connector->release(qp->connector_context, qp);
    } else {
        vb_qp_connector(qp, NULL, NULL);
    }
    vb_qp_counting_take(qp);
    /* a device's number stays */
    if (vb_connects_numbers(vb_qp_context(qp)) && !(qp->flags & VB_QP_BY_ADDRESS))
        status = ual_qp_reset(&qp->ual);
    else
        status = ual_qp_renew(&qp->ual, &attr);
    vb_qp_note_state(qp, IBV_QPS_RESET);
    atomic_store(&qp->aborts, false);
    if (status == RI_OK) {
        vb_qp_counting_forget(qp);
        memset(&qp->modified, 0, sizeof(qp->modified));
    }
    return vb_errno(status);
}

/* It receives from RTR on, so the device's is in RTS then; the gate is open in RTS. */
static int modify_ud(struct vb_qp *qp, enum ibv_qp_state to)
{
    enum ri_status status = RI_OK;

    if (to == IBV_QPS_RTR && vb_qp_state(qp) == IBV_QPS_INIT)
        status = ual_qp_set_state(&qp->ual, RI_QPS_RTS);
    if (status == RI_OK)
        vb_qp_enter(qp, to, VB_GATE_OPEN);
    return vb_errno(status);
}

/* A QP of the program's that rdma_accept will connect, see VB_QPN_BY_ADDRESS. Its gate is shut
 * until then. */
static bool awaits_accept(const struct vb_qp *qp, enum ibv_qp_state to,
                          const struct ibv_qp_attr *attr)
{
    return (to == IBV_QPS_RTR && attr->dest_qp_num == VB_QPN_BY_ADDRESS) ||
           (to == IBV_QPS_RTS && vb_qp_state(qp) == IBV_QPS_RTR &&
            qp->modified.dest_qp_num == VB_QPN_BY_ADDRESS);
}

/* The provider does all of it. */
static bool goes_to_device(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if (!vb_is_by_device(qp) || qp->ibv.qp_base.qp_type == IBV_QPT_UD)
        return false;
    return !(mask & IBV_QP_STATE) ||
           (attr->qp_state != IBV_QPS_RESET && !awaits_accept(qp, attr->qp_state, attr));
}

/* A program that moves the QP to RTR without rdma_cm connects it by numbers. */
static int ask_connector(struct vb_qp *qp, enum ibv_qp_state to, const struct ibv_qp_attr *attr,
                         int mask)
{
    const struct vb_connector *connector = atomic_load(&qp->connector);
    int error;

    if (!connector && awaits_accept(qp, to, attr)) {
        vb_qp_enter(qp, to, VB_GATE_SHUT);
        return 0;
    }
    if (!connector && to == IBV_QPS_RTR && vb_qp_state(qp) == IBV_QPS_INIT) {
        if (qp->flags & VB_QP_BY_ADDRESS)
            return EINVAL; /* its number names no port */
        error = vb_qp_connector(qp, &vb_numbers->connector, vb_qp_context(qp));
        if (error)
            return error;
        connector = &vb_numbers->connector;
    }
    if (!connector || !connector->modify)
        return 0;
    return connector->modify(qp->connector_context, qp, to, attr, mask);
}

static int change_state(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    enum ibv_qp_state to = attr->qp_state;
    int error;

    if (to == IBV_QPS_RESET)
        return reset(qp);
    if (qp->ibv.qp_base.qp_type == IBV_QPT_UD)
        return modify_ud(qp, to);
    error = ask_connector(qp, to, attr, mask);
    if (!error && (to == IBV_QPS_INIT || to == IBV_QPS_ERR))
        vb_qp_enter(qp, to, VB_GATE_OPEN);
    return error;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_qp *qp = vb_qp_of(ibv);
    const struct vb_connector *connector = atomic_load(&qp->connector);
    bool by_program = !connector || connector == &vb_numbers->connector;
    int error;

    if (qp->attr.type == RI_QP_UC)
        vb_refresh_by_device(qp);
    error = check(qp, attr, mask, by_program);
    if (!error && goes_to_device(qp, attr, mask)) {
        error = vb_modify_by_device(qp, attr, mask);
    } else if (!error) {
        error = apply(qp, attr, mask);
        if (!error && (mask & IBV_QP_STATE))
            error = change_state(qp, attr, mask);
    }
    if (!error && !((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET))
        note(qp, attr, mask);
    return error;
}

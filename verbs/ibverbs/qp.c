/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue pairs: create, destroy, query. UC runs over the same reliable transport as RC, unless the
 * device has it.
 */
#include "ibverbs_private.h"
#include "base/minmax.h"

#include <stdlib.h>

/* IRD and ORD of a new QP; a connection may agree on less. */
#define DEPTH_AT_FIRST 1u

#define KNOWN_ATTRIBUTES                                                \
    ((uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | \
                IBV_QP_INIT_ATTR_CREATE_FLAGS))
#define WR_OPERATIONS                                                                           \
    ((uint64_t)(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                \
                IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
                IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |       \
                IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV))

static uint32_t at_least_one(uint32_t count)
{
    return count ? count : 1;
}

/* --- attributes --- */

static const char *type_name(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_UD: return "UD";
    case IBV_QPT_UC: return "UC";
    case IBV_QPT_RAW_PACKET: return "raw packets";
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: return "XRC";
    case IBV_QPT_DRIVER: return "a driver's own";
    default: return "unknown";
    }
}

/* A QP was created in this process, or one for one request was asked for. */
static atomic_bool has_asked;

/* Does a program that asks for a type that is not there look for what the device can do, and goes
 * on without? It has had other queue pairs, or asks for the smallest one first, as libfabric. */
static bool is_question(const struct ibv_qp_init_attr_ex *attr)
{
    if (attr->cap.max_send_wr <= 1 && attr->cap.max_recv_wr <= 1)
        atomic_store_explicit(&has_asked, true, memory_order_relaxed);
    return atomic_load_explicit(&has_asked, memory_order_relaxed);
}

static int check_type(const struct vb_context *context, const struct ibv_qp_init_attr_ex *attr,
                      bool by_address)
{
    uint64_t features = ual_device_attr(context->device)->features;
    bool has_ud = features & RI_FEATURE_UD;
    bool has_uc = by_address || !(features & RI_FEATURE_QP_NUMBERS) || features & RI_FEATURE_UC;
    enum ibv_qp_type type = attr->qp_type;

    if (type == IBV_QPT_RC || (type == IBV_QPT_UC && has_uc) || (type == IBV_QPT_UD && has_ud))
        return 0;
    ual_log(is_question(attr) ? RI_LOG_INFO : RI_LOG_WARNING,
            "%s: ibv_create_qp: a queue pair of type %d (%s) is refused: there are RC%s%s",
            context->verbs.context.device->name, (int)type, type_name(type), has_ud ? ", UD" : "",
            has_uc ? " and UC" : "");
    return EOPNOTSUPP;
}

static int check_objects(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->pd->context != context ||
        !attr->send_cq || attr->send_cq->context != context || !attr->recv_cq ||
        attr->recv_cq->context != context || (attr->srq && !vb_same_pd(attr->srq->pd, attr->pd)))
        return EINVAL;
    return 0;
}

static int check_capacity(const struct vb_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(context->device);
    const struct ibv_qp_cap *cap = &attr->cap;

    if (cap->max_send_wr > rnic->max_send_wr || cap->max_send_sge > rnic->max_send_sge ||
        cap->max_inline_data > VB_INLINE_MAX)
        return EINVAL;
    if (!attr->srq &&
        (cap->max_recv_wr > rnic->max_recv_wr || cap->max_recv_sge > rnic->max_recv_sge))
        return EINVAL;
    return 0;
}

static int check(const struct vb_context *context, const struct ibv_qp_init_attr_ex *attr,
                 uint32_t flags)
{
    int error = check_objects(&context->verbs.context, attr);

    if (!error && (attr->comp_mask & ~KNOWN_ATTRIBUTES))
        error = EOPNOTSUPP;
    if (!error && (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
        error = EOPNOTSUPP;
    if (!error && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
        (attr->send_ops_flags & ~WR_OPERATIONS))
        error = EOPNOTSUPP;
    if (!error)
        error = check_type(context, attr, flags & VB_QP_BY_ADDRESS);
    return error ? error : check_capacity(context, attr);
}

static enum ri_qp_type type_of(const struct vb_context *context, enum ibv_qp_type type,
                               uint32_t flags)
{
    uint64_t features = ual_device_attr(context->device)->features;

    if (type == IBV_QPT_UD)
        return RI_QP_UD;
    return type == IBV_QPT_UC && features & RI_FEATURE_UC && !(flags & VB_QP_BY_ADDRESS) ? RI_QP_UC
                                                                                         : RI_QP_RC;
}

static uint32_t flags_of(const struct vb_context *context, uint32_t flags)
{
    bool by_device = vb_connects_numbers(context) || flags & VB_QP_BY_ADDRESS;

    return RI_QP_READ_ENABLE | RI_QP_WRITE_ENABLE | RI_QP_BIND_ENABLE | RI_QP_INVALIDATE_ENABLE |
           (by_device ? 0 : RI_QP_KEEP_RECEIVES) |
           (ual_device_attr(context->device)->features & RI_FEATURE_ATOMICS ? RI_QP_ATOMIC_ENABLE
                                                                            : 0);
}

static void convert(const struct vb_context *context, const struct ibv_qp_init_attr_ex *attr,
                    uint32_t flags, struct ual_qp_attr *to)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(context->device);
    uint32_t sges = at_least_one(attr->cap.max_send_sge);
    bool is_ud = attr->qp_type == IBV_QPT_UD;

    *to = (struct ual_qp_attr){
        .type = type_of(context, attr->qp_type, flags),
        .send_cq = vb_cq_of(attr->send_cq)->ual,
        .recv_cq = vb_cq_of(attr->recv_cq)->ual,
        .srq = attr->srq ? vb_srq_of(attr->srq)->ual : NULL,
        .max_send_wr = at_least_one(attr->cap.max_send_wr),
        .max_recv_wr = attr->srq ? 0 : at_least_one(attr->cap.max_recv_wr),
        .max_send_sge = sges,
        .max_recv_sge = attr->srq ? 0 : at_least_one(attr->cap.max_recv_sge),
        .flags = flags_of(context, flags),
    };
    if (is_ud)
        return;
    to->max_read_sge = min_u32(sges, rnic->max_read_sge);
    to->max_write_sge = min_u32(sges, rnic->max_write_sge);
    to->ird = min_u32(DEPTH_AT_FIRST, rnic->max_ird);
    to->ord = min_u32(DEPTH_AT_FIRST, rnic->max_ord);
}

void vb_qp_describe_capacity(const struct vb_qp *qp, struct ibv_qp_cap *cap)
{
    *cap = (struct ibv_qp_cap){
        .max_send_wr = qp->attr.max_send_wr,
        .max_recv_wr = qp->ual.srq ? 0 : qp->attr.max_recv_wr,
        .max_send_sge = qp->attr.max_send_sge,
        .max_recv_sge = qp->ual.srq ? 0 : qp->attr.max_recv_sge,
        .max_inline_data = qp->init.cap.max_inline_data,
    };
}

/* --- life --- */

static void set_up(struct vb_qp *qp, struct ibv_context *context,
                   const struct ibv_qp_init_attr_ex *attr, uint32_t flags)
{
    struct ibv_qp *ibv = &qp->ibv.qp_base;

    ibv->context = context;
    ibv->qp_context = attr->qp_context;
    ibv->pd = attr->pd;
    ibv->send_cq = attr->send_cq;
    ibv->recv_cq = attr->recv_cq;
    ibv->srq = attr->srq;
    ibv->qp_type = attr->qp_type;
    pthread_mutex_init(&ibv->mutex, NULL);
    pthread_cond_init(&ibv->cond, NULL);
    vb_source_init(&qp->async, VB_SOURCE_QP);
    spinlock_init(&qp->lock);
    qp->flags = flags;
    qp->send_flags = vb_send_flags[attr->sq_sig_all ? VB_FLAGS_ALL : VB_FLAGS_ASKED];
    memcpy(&qp->init, attr, sizeof(qp->init)); /* the extended structure begins with the other */
    vb_qp_note_state(qp, IBV_QPS_RESET);
}

static void tear_down(struct vb_qp *qp)
{
    vb_batch_close(qp);
    pthread_cond_destroy(&qp->ibv.qp_base.cond);
    pthread_mutex_destroy(&qp->ibv.qp_base.mutex);
    free(qp);
}

static int open_extras(struct vb_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    uint32_t requests = qp->attr.max_send_wr, ahead = VB_GROUP;
    int error = 0;

    if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
        error = vb_batch_open(qp, requests, qp->attr.max_send_sge);
        ahead = requests > ahead ? requests : ahead;
    }
    if (!error && attr->cap.max_inline_data)
        error = vb_inline_open(qp, qp->ual.pd, requests + ahead, attr->cap.max_inline_data);
    return error;
}

static int device_number(struct vb_qp *qp, uint32_t *number)
{
    struct ri_qp_info info = { .size = sizeof(info) };
    enum ri_status status = ual_qp_query(&qp->ual, &info);

    *number = info.qpn;
    return vb_errno(status);
}

static void release_number(struct vb_qp *qp, uint32_t number)
{
    if (vb_has_device_number(qp))
        return;
    if (qp->flags & VB_QP_BY_ADDRESS)
        vb_number_release(number);
    else
        vb_numbers->release_number(vb_qp_context(qp), qp, number);
}

static int find_number(struct vb_qp *qp, uint32_t *number)
{
    if (vb_has_device_number(qp))
        return device_number(qp, number);
    return qp->flags & VB_QP_BY_ADDRESS ? vb_number_take(number)
                                        : vb_numbers->take(vb_qp_context(qp), qp, number);
}

static int take_number(struct vb_qp *qp)
{
    uint32_t number = 0;
    int error = find_number(qp, &number);

    if (error)
        return error;
    error = vb_number_enter(number, qp);
    if (error) {
        release_number(qp, number);
        return error;
    }
    qp->ibv.qp_base.qp_num = number;
    qp->ibv.qp_base.handle = vb_slot_of(qp->ual.object.handle);
    vb_qp_failed(qp, IBV_WC_SUCCESS); /* of the slot's earlier QP */
    atomic_store(&vb_qp_numbers[qp->ibv.qp_base.handle], number);
    return 0;
}

static void give_number_back(struct vb_qp *qp)
{
    uint32_t number = qp->ibv.qp_base.qp_num;

    vb_number_leave(number, qp);
    release_number(qp, number);
}

static int open_qp(struct vb_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
    struct vb_context *context = vb_qp_context(qp);
    int error;

    convert(context, attr, qp->flags, &qp->attr);
    error = vb_errno(ual_qp_open(&qp->ual, vb_pd_of(attr->pd)->ual, &qp->attr, vb_qp_event, qp));
    if (error)
        return error;
    error = open_extras(qp, attr);
    if (!error)
        error = take_number(qp);
    if (error) {
        ual_qp_close(&qp->ual);
        vb_inline_close(qp);
    }
    return error;
}

struct ibv_qp *vb_qp_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                            uint32_t flags)
{
    int error = check(vb_context_of(context), attr, flags);
    struct vb_qp *qp = error ? NULL : calloc(1, sizeof(*qp));

    if (!qp) {
        errno = error ? error : ENOMEM;
        return NULL;
    }
    set_up(qp, context, attr, flags);
    error = open_qp(qp, attr);
    if (error) {
        tear_down(qp);
        errno = error;
        return NULL;
    }
    atomic_store_explicit(&has_asked, true, memory_order_relaxed);
    vb_qp_describe_capacity(qp, &qp->init.cap);
    attr->cap = qp->init.cap;
    return &qp->ibv.qp_base;
}

struct ibv_qp *vb_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    VB_CALL;
    VB_OWN(context, NULL);
    SANITIZER_OUTPUT(attr);

    return vb_qp_create(context, attr, 0);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    VB_CALL;
    VB_OWN(pd->context, NULL);
    SANITIZER_OUTPUT(attr);
    struct ibv_qp_init_attr_ex full = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
    struct ibv_qp *qp;

    memcpy(&full, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
    qp = vb_qp_create(pd->context, &full, 0);
    if (qp)
        attr->cap = full.cap;
    return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
    struct vb_qp *qp = vb_qp_of(ibv);

    return qp->batch ? &qp->ibv : NULL;
}

/* A CQ that has no QP any more can be destroyed, but not before its completions of this one are
 * dropped. */
static void pin_cqs(struct vb_qp *qp, int change)
{
    struct ibv_qp *ibv = &qp->ibv.qp_base;

    pthread_mutex_lock(&ibv->context->mutex);
    vb_cq_of(ibv->send_cq)->pins += (uint32_t)change;
    vb_cq_of(ibv->recv_cq)->pins += (uint32_t)change;
    pthread_mutex_unlock(&ibv->context->mutex);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    struct vb_qp *qp = vb_qp_of(ibv);
    enum ri_status status;

    if (vb_qp_is_attached(qp))
        return EBUSY;
    vb_qp_connector(qp, NULL, NULL);
    pin_cqs(qp, 1);
    vb_qp_counting_take(qp);
    status = ual_qp_close(&qp->ual);
    if (status == RI_OK)
        vb_qp_counting_close(qp);
    pin_cqs(qp, -1);
    if (status != RI_OK)
        return vb_errno(status);
    vb_inline_close(qp);
    give_number_back(qp);
    vb_source_end(vb_context_of(ibv->context)->async, &qp->async);
    vb_await_acknowledged(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async);
    tear_down(qp);
    return 0;
}

/* --- query --- */

static unsigned int access_of(uint32_t flags)
{
    unsigned int access = IBV_ACCESS_LOCAL_WRITE;

    if (flags & RI_QP_READ_ENABLE)
        access |= IBV_ACCESS_REMOTE_READ;
    if (flags & RI_QP_WRITE_ENABLE)
        access |= IBV_ACCESS_REMOTE_WRITE;
    if (flags & RI_QP_ATOMIC_ENABLE)
        access |= IBV_ACCESS_REMOTE_ATOMIC;
    return access;
}

static bool is_ended(enum ri_qp_state state)
{
    return state == RI_QPS_ERROR || state == RI_QPS_TERMINATE || state == RI_QPS_CLOSING;
}

/* If the connection has ended the QP is in ERR, even if its event was not reported yet. Not so a QP
 * whose connector may let it outlive its connection, while its receives are kept: the peer has
 * left, and no request has failed of it. */
static enum ibv_qp_state state_now(const struct vb_qp *qp, const struct ri_qp_info *info)
{
    const struct vb_connector *connector = atomic_load(&qp->connector);
    enum ibv_qp_state state = vb_qp_state(qp);
    bool outlives;

    if (state == IBV_QPS_RESET)
        /* as the kernel's iWARP drivers, which have no RESET */
        return qp->ibv.qp_base.context->device->node_type == IBV_NODE_RNIC ? IBV_QPS_INIT : state;
    outlives = connector && connector->outlives && (info->flags & RI_QP_KEEP_RECEIVES);
    return is_ended(info->state) && !outlives ? IBV_QPS_ERR : state;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init)
{
    VB_CALL;
    VB_OWN(ibv->context, EIO);
    SANITIZER_OUTPUT(attr);
    SANITIZER_OUTPUT(init);
    struct vb_qp *qp = vb_qp_of(ibv);
    struct ri_qp_info info = { .size = sizeof(info) };
    enum ri_status status = ual_qp_query(&qp->ual, &info);

    (void)mask;
    if (status != RI_OK)
        return vb_errno(status);
    *attr = qp->modified;
    attr->qp_state = state_now(qp, &info);
    attr->cur_qp_state = attr->qp_state;
    attr->qp_access_flags = access_of(info.flags);
    attr->port_num = attr->port_num ? attr->port_num : 1;
    if (vb_is_by_device(qp))
        vb_describe_by_device(qp, &info, attr);
    vb_qp_describe_capacity(qp, &attr->cap);
    *init = qp->init;
    return 0;
}

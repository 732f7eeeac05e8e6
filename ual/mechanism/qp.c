/* SPDX-License-Identifier: BSD-3-Clause
 * Queue pairs: life, renewal, modify, query. Posts are inline in ual_mechanism.h. */
#include "mechanism_private.h"

#include <stdlib.h>

static struct ual_lane *lane_of(const struct ual_qp *qp)
{
    return ual_device_lanes(qp->object.device)->lane[qp->lane];
}

/* --- life --- */

static enum ri_status make(struct ual_qp *qp, struct ual_qp_attr *attr, struct ri_qp **made)
{
    struct ri_qp_attr asked = {
        .size = sizeof(asked),
        .type = attr->type,
        .context = (void *)qp->object.handle, /* completions that were polled may outlive the QP */
        .send_cq = qp->send_cq->cq,
        .recv_cq = qp->recv_cq->cq,
        .srq = qp->srq ? qp->srq->srq : NULL,
        .lane = ual_lane_provider(lane_of(qp)),
        .max_send_wr = attr->max_send_wr,
        .max_recv_wr = attr->max_recv_wr,
        .max_send_sge = attr->max_send_sge,
        .max_recv_sge = attr->max_recv_sge,
        .max_read_sge = attr->max_read_sge,
        .max_write_sge = attr->max_write_sge,
        .ird = attr->ird,
        .ord = attr->ord,
        .flags = attr->flags,
        .rq_limit = attr->rq_limit,
        .rq_hard_limit = attr->rq_hard_limit,
        .port = attr->port,
        .qkey = attr->qkey,
    };
    enum ri_status status = kal_qp_create(rnic_of(qp->object.device), qp->pd->pd, &asked, made);

    if (status != RI_OK)
        return status;
    attr->max_send_wr = asked.max_send_wr;
    attr->max_recv_wr = asked.max_recv_wr;
    attr->max_send_sge = asked.max_send_sge;
    attr->max_recv_sge = asked.max_recv_sge;
    attr->max_read_sge = asked.max_read_sge;
    attr->max_write_sge = asked.max_write_sge;
    attr->ird = asked.ird;
    attr->ord = asked.ord;
    attr->flags = asked.flags;
    return RI_OK;
}

static void use_others(struct ual_qp *qp)
{
    ual_cq_use(qp->send_cq, qp->lane);
    ual_cq_use(qp->recv_cq, qp->lane);
    if (qp->srq)
        atomic_fetch_add(&qp->srq->users, 1);
    atomic_fetch_add(&qp->pd->users, 1);
    atomic_fetch_add(&device_inside(qp->object.device)->users, 1);
}

static void leave_others(struct ual_qp *qp)
{
    ual_cq_leave(qp->send_cq, qp->lane);
    ual_cq_leave(qp->recv_cq, qp->lane);
    ual_lanes_leave(ual_device_lanes(qp->object.device), qp->lane);
    if (qp->srq)
        atomic_fetch_sub(&qp->srq->users, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&device_inside(qp->object.device)->users, 1);
}

static bool fits(const struct ual_cq *cq, const struct ual_device *device)
{
    return cq && cq->device == device;
}

enum ri_status ual_qp_open(struct ual_qp *qp, struct ual_pd *pd, struct ual_qp_attr *attr,
                           ual_qp_event_fn event, void *context)
{
    struct ual_device *device = pd->object.device;
    struct ual_lanes *lanes = ual_device_lanes(device);
    enum ri_status status = ual_device_alive(device);

    if (status != RI_OK)
        return status;
    if (!fits(attr->send_cq, device) || !fits(attr->recv_cq, device) ||
        (attr->srq && attr->srq->pd != pd))
        return RI_ERR_INVALID_ARGUMENT;
    qp->object.device = device;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->srq = attr->srq;
    qp->event = event;
    qp->context = context;
    status = ual_handle_take(&qp->object, attr->object_type ? attr->object_type : UAL_QP, device);
    if (status != RI_OK)
        return status;
    qp->lane = ual_lanes_place(lanes, ual_cq_feed(qp->recv_cq), ual_cq_feed(qp->send_cq));
    status = make(qp, attr, &qp->qp);
    if (status != RI_OK)
        goto leave_lane;
    use_others(qp);
    ual_qp_enlist(qp);
    return RI_OK;
leave_lane:
    ual_lanes_leave(lanes, qp->lane);
    ual_handle_drop(&qp->object);
    return status;
}

static void forget_completions(struct ual_qp *qp)
{
    ual_cq_forget(qp->send_cq, qp->object.handle);
    ual_cq_forget(qp->recv_cq, qp->object.handle);
}

/* After the destruction no upcall about it runs or comes. */
enum ri_status ual_qp_close(struct ual_qp *qp)
{
    struct ual_device *device = qp->object.device;
    enum ri_status status;

    ual_qp_delist(qp);
    status = kal_qp_destroy(rnic_of(device), qp->qp);
    if (status != RI_OK) {
        ual_qp_enlist(qp);
        kal_log(RI_LOG_ERROR, "%s: a QP cannot be freed: the provider answers %s; this is a defect",
                ual_device_name(device), ital_status_name(status));
        return status;
    }
    forget_completions(qp);
    ual_handle_drop(&qp->object);
    ual_async_forget(device, qp, qp->object.handle);
    leave_others(qp);
    return RI_OK;
}

enum ri_status ual_qp_create(struct ual_pd *pd, struct ual_qp_attr *attr, ual_qp_event_fn event,
                             void *context, struct ual_qp **out)
{
    struct ual_qp *qp = calloc(1, sizeof(*qp));
    enum ri_status status = qp ? ual_qp_open(qp, pd, attr, event, context) : RI_ERR_NO_RESOURCES;

    if (status == RI_OK)
        *out = qp;
    else
        free(qp);
    return status;
}

enum ri_status ual_qp_free(struct ual_qp *qp)
{
    enum ri_status status = ual_qp_close(qp);

    if (status == RI_OK)
        free(qp);
    return status;
}

/* --- state and attributes --- */

enum ri_status ual_qp_modify(struct ual_qp *qp, const struct ri_qp_modify *modify)
{
    return kal_qp_modify(rnic_of(qp->object.device), qp->qp, modify);
}

enum ri_status ual_qp_set_state(struct ual_qp *qp, enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };

    return ual_qp_modify(qp, &modify);
}

enum ri_status ual_qp_query(struct ual_qp *qp, struct ri_qp_info *info)
{
    struct ri_qp_info filled = { .size = sizeof(filled) };
    enum ri_status status = ual_device_alive(qp->object.device);

    if (status == RI_OK)
        status = kal_qp_query(rnic_of(qp->object.device), qp->qp, &filled);
    if (status == RI_OK)
        *info = filled;
    return status;
}

enum ri_status ual_qp_attach(struct ual_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    enum ri_status status = ual_device_alive(qp->object.device);

    return status == RI_OK ? kal_multicast_attach(rnic_of(qp->object.device), qp->qp, gid, lid)
                           : status;
}

enum ri_status ual_qp_detach(struct ual_qp *qp, const uint8_t gid[16], uint16_t lid)
{
    return kal_multicast_detach(rnic_of(qp->object.device), qp->qp, gid, lid);
}

enum ri_status ual_qp_counters(struct ual_qp *qp, const char **names, uint64_t *values,
                               size_t *count)
{
    enum ri_status status = ual_device_alive(qp->object.device);

    if (status != RI_OK)
        return status;
    return kal_qp_counters(rnic_of(qp->object.device), qp->qp, names, values, count);
}

/* Waits until an upcall that a run has begun has ended. */
static void wait_for_upcalls(struct ual_qp *qp)
{
    ual_lane_pause(lane_of(qp));
    ual_lane_resume(lane_of(qp));
}

/* Goes through ERROR if the QP is still open. */
enum ri_status ual_qp_rewind(struct ual_qp *qp)
{
    enum ri_status status = ual_qp_set_state(qp, RI_QPS_IDLE);

    if (status == RI_ERR_INVALID_STATE) {
        ual_qp_set_state(qp, RI_QPS_ERROR);
        status = ual_qp_set_state(qp, RI_QPS_IDLE);
    }
    if (status == RI_OK)
        wait_for_upcalls(qp);
    return status;
}

enum ri_status ual_qp_reset(struct ual_qp *qp)
{
    enum ri_status status = ual_qp_rewind(qp);

    if (status != RI_OK)
        return status;
    forget_completions(qp);
    ual_async_forget(qp->object.device, qp, 0);
    return RI_OK;
}

/* The provider drops the completions of a QP that it destroys. The new QP is created first, so a
 * failure changes nothing. */
enum ri_status ual_qp_renew(struct ual_qp *qp, struct ual_qp_attr *attr)
{
    struct ual_device *device = qp->object.device;
    enum ri_status status = ual_device_alive(device);
    struct ri_qp *old = qp->qp, *fresh;

    if (status == RI_OK)
        status = make(qp, attr, &fresh);
    if (status != RI_OK)
        return status;
    ual_qp_delist(qp);
    status = kal_qp_destroy(rnic_of(device), old);
    if (status == RI_OK)
        qp->qp = fresh;
    else
        kal_qp_destroy(rnic_of(device), fresh);
    ual_qp_enlist(qp);
    if (status != RI_OK)
        return status;
    forget_completions(qp);
    ual_async_forget(device, qp, 0);
    return RI_OK;
}

/* --- upcalls --- */

bool ual_qp_event(void *qp_context, const struct ri_event *event)
{
    const ual_handle handle = (ual_handle)qp_context;
    const unsigned int type = handle & 15;
    struct ual_qp *qp = (struct ual_qp *)ual_handle_object(handle);

    if (!qp || (type != UAL_QP && type < UAL_TYPE_FRONT))
        return false;
    if (qp->event)
        qp->event(qp, event);
    else
        ual_async_report(qp->object.device, event, &qp->object, NULL);
    return true;
}

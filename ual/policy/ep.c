/* SPDX-License-Identifier: BSD-3-Clause
 * Endpoints: life, reset, query. Posts are inline in ual.h. Their connections are in ep_connect.c, their states in ep_fsm.c. */
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "connect.h"
#include "ual/progress/lanes.h"

#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

/* --- life --- */

static bool fits(struct ual_evd *evd, enum ual_stream stream, const struct ual_device *device)
{
    return evd && ual_evd_stream(evd) == stream && ((struct ual_object *)evd)->device == device;
}

static enum ual_status open_qp(struct ual_ep *ep)
{
    struct ual_device *device = ep->object.device;
    struct ri_qp_attr attr = {
        .size = sizeof(attr),
        .type = ual_ep_is_ud(ep) ? RI_QP_UD : RI_QP_RC,
        .context = (void *)ep->object.handle, /* completions that were taken outlive the endpoint */
        .send_cq = ual_evd_cq(ep->request_evd),
        .recv_cq = ual_evd_cq(ep->receive_evd),
        .srq = ep->attr.srq ? ep->attr.srq->srq : NULL,
        .lane = ual_lane_provider(ual_ep_lane(ep)),
        .max_send_wr = ep->attr.max_send_wr,
        .max_recv_wr = ep->attr.max_recv_wr,
        .max_send_sge = ep->attr.max_send_sge,
        .max_recv_sge = ep->attr.max_recv_sge,
        .max_read_sge = ep->attr.max_read_sge,
        .max_write_sge = ep->attr.max_write_sge,
        .ird = ep->attr.ird,
        .ord = ep->attr.ord,
        .flags = ep->attr.flags,
        .rq_limit = ep->attr.soft_high_watermark,
        .rq_hard_limit = ep->attr.hard_high_watermark,
        .port = ep->attr.port,
        .qkey = ep->attr.qkey,
    };
    enum ual_status status = ual_status_of_kal(kal_qp_create(device->rnic, ep->pd->pd, &attr, &ep->qp));

    if (status != UAL_OK)
        return status;
    ep->attr.max_send_wr = attr.max_send_wr;
    ep->attr.max_recv_wr = attr.max_recv_wr;
    ep->attr.max_send_sge = attr.max_send_sge;
    ep->attr.max_recv_sge = attr.max_recv_sge;
    ep->attr.max_read_sge = attr.max_read_sge;
    ep->attr.max_write_sge = attr.max_write_sge;
    ep->attr.ird = attr.ird;
    ep->attr.ord = ep->ord = attr.ord;
    ep->attr.flags = attr.flags;
    return UAL_OK;
}

static void bind_users(struct ual_ep *ep)
{
    uint32_t lane = ual_ep_inside(ep)->lane;

    ual_evd_bind(ep->request_evd, lane);
    ual_evd_bind(ep->receive_evd, lane);
    if (ep->connect_evd)
        ual_evd_bind(ep->connect_evd, lane);
    if (ep->attr.srq)
        atomic_fetch_add(&ep->attr.srq->users, 1);
    atomic_fetch_add(&ep->pd->users, 1);
}

static void unbind_users(struct ual_ep *ep)
{
    uint32_t lane = ual_ep_inside(ep)->lane;

    ual_evd_unbind(ep->request_evd, lane);
    ual_evd_unbind(ep->receive_evd, lane);
    if (ep->connect_evd)
        ual_evd_unbind(ep->connect_evd, lane);
    ual_lanes_leave(ep->object.device, lane);
    if (ep->attr.srq)
        atomic_fetch_sub(&ep->attr.srq->users, 1);
    atomic_fetch_sub(&ep->pd->users, 1);
}

static void free_memory(struct ual_ep_private *inside)
{
    ual_evd_drop_node(inside->first);
    pthread_mutex_destroy(&inside->control);
    free(inside);
}

static uint64_t payload_limit(const struct ual_device *device, enum ual_type type)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(device);

    return type == UAL_UD_EP ? rnic->max_ud_send : rnic->max_send;
}

/* Datagrams need no peer: the QP runs at once. */
static enum ual_status start_datagrams(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ri_qp_info info;
    enum ual_status status = ual_ep_modify_qp(ep, RI_QPS_RTS);

    if (status == UAL_OK)
        status = ual_ep_query(ep, &info);
    if (status != UAL_OK)
        return status;
    ep->qpn = info.qpn;
    inside->state = EP_UD_OPERATIONAL;
    atomic_store(&ep->state, (int)ep_fsm_public(inside->state));
    return UAL_OK;
}

static void enlist(struct ual_ep_private *inside)
{
    struct ual_device *device = inside->ep.object.device;

    pthread_mutex_lock(&device->lock);
    DL_APPEND(device->eps, inside);
    pthread_mutex_unlock(&device->lock);
}

static enum ual_status create(enum ual_type type, struct ual_pd *pd, struct ual_evd *request_evd,
                              struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                              const struct ual_ep_attr *attr, struct ual_ep **out)
{
    struct ual_device *device = pd->object.device;
    enum ual_status status = ual_device_alive(device);
    struct ual_ep_private *inside;
    struct ual_ep *ep;

    if (status != UAL_OK)
        return status;
    if (!fits(request_evd, UAL_STREAM_DTO, device) || !fits(receive_evd, UAL_STREAM_DTO, device) ||
        (connect_evd && !fits(connect_evd, UAL_STREAM_CONNECTION, device)) ||
        (attr->srq && attr->srq->pd != pd))
        return UAL_ERR_INVALID_ARGUMENT;
    if (attr->max_payload > payload_limit(device, type))
        return UAL_ERR_LIMIT;
    inside = calloc(1, sizeof(*inside));
    if (!inside)
        return UAL_ERR_NO_RESOURCES;
    pthread_mutex_init(&inside->control, NULL);
    spinlock_init(&inside->lock);
    ep = &inside->ep;
    ep->private_part = inside;
    ep->object.device = device;
    ep->pd = pd;
    ep->request_evd = request_evd;
    ep->receive_evd = receive_evd;
    ep->connect_evd = connect_evd;
    ep->attr = *attr;
    status = ual_handle_take(&ep->object, type, device);
    if (status != UAL_OK)
        goto free_ep;
    inside->lane = ual_lanes_place(device, ual_evd_feed(receive_evd), ual_evd_feed(request_evd));
    status = open_qp(ep);
    if (status != UAL_OK)
        goto leave_lane;
    if (type == UAL_UD_EP)
        status = start_datagrams(ep);
    if (status != UAL_OK)
        goto destroy_qp;
    bind_users(ep);
    enlist(inside);
    *out = ep;
    return UAL_OK;
destroy_qp:
    kal_qp_destroy(device->rnic, ep->qp);
leave_lane:
    ual_lanes_leave(device, inside->lane);
    ual_handle_drop(&ep->object);
free_ep:
    free_memory(inside);
    return status;
}

enum ual_status ual_ep_create(struct ual_pd *pd, struct ual_evd *request_evd,
                              struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                              const struct ual_ep_attr *attr, struct ual_ep **ep)
{
    return create(UAL_EP, pd, request_evd, receive_evd, connect_evd, attr, ep);
}

static uint32_t qkey_of(const struct ual_device *device, uint32_t asked)
{
    return asked ? asked : ual_device_attr(device)->service_qkey;
}

enum ual_status ual_ep_create_ud(struct ual_pd *pd, struct ual_evd *request_evd,
                                 struct ual_evd *receive_evd, const struct ual_ep_attr *attr,
                                 struct ual_ep **ep)
{
    struct ual_device *device = pd->object.device;
    struct ual_ep_attr own = {
        .max_send_wr = attr->max_send_wr,
        .max_recv_wr = attr->max_recv_wr,
        .max_send_sge = attr->max_send_sge,
        .max_recv_sge = attr->max_recv_sge,
        .max_payload = attr->max_payload,
        .qkey = qkey_of(device, attr->qkey),
        .port = attr->port,
    };

    if (!(ual_device_attr(device)->features & RI_FEATURE_UD))
        return UAL_ERR_NOT_SUPPORTED;
    if (attr->port >= ual_device_attr(device)->ports)
        return UAL_ERR_INVALID_ARGUMENT;
    return create(UAL_UD_EP, pd, request_evd, receive_evd, NULL, &own, ep);
}

static void purge_events(struct ual_ep *ep, ual_handle handle)
{
    struct ual_device *device = ep->object.device;

    if (ep->connect_evd)
        ual_evd_purge(ep->connect_evd, handle);
    pthread_mutex_lock(&device->lock);
    if (device->affiliated)
        ual_evd_purge(device->affiliated, handle);
    pthread_mutex_unlock(&device->lock);
}

/*
 * After the connection and the QP are destroyed no upcall about the endpoint runs or comes, so what is purged then is
 * all that there ever is. The provider closes an open connection in the background.
 */
/* No service reply finds it any more; those that have are over when this returns. */
static void delist(struct ual_ep_private *inside)
{
    struct ual_device *device = inside->ep.object.device;

    pthread_mutex_lock(&device->lock);
    DL_DELETE(device->eps, inside);
    pthread_mutex_unlock(&device->lock);
    while (atomic_load(&inside->answers))
        sched_yield();
}

enum ual_status ual_ep_free(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_device *device = ep->object.device;
    ual_handle handle = ep->object.handle;
    enum ual_status status;

    ual_ep_drop_connection(ep);
    delist(inside);
    status = ual_status_of_kal(kal_qp_destroy(device->rnic, ep->qp));
    if (status != UAL_OK) {
        enlist(inside);
        kal_log(RI_LOG_ERROR,
                "%s: an endpoint cannot be freed: the provider answers %s; this is a defect",
                device->name, ual_status_name(status));
        return status;
    }
    ual_handle_drop(&ep->object);
    ual_request_forget_arrival(inside->arrival);
    purge_events(ep, handle);
    unbind_users(ep);
    free_memory(inside);
    return UAL_OK;
}

/* --- state --- */

enum ual_status ual_ep_modify_qp(struct ual_ep *ep, enum ri_qp_state state)
{
    struct ri_qp_modify modify = { .size = sizeof(modify), .mask = RI_QPM_STATE, .state = state };

    return ual_status_of_kal(kal_qp_modify(ep->object.device->rnic, ep->qp, &modify));
}

/* To IDLE, by ERROR where the QP is still open; outstanding work completes flushed on the way. For datagrams it runs again. */
static enum ual_status rewind_qp(struct ual_ep *ep)
{
    struct ual_lane *lane = ual_ep_lane(ep);
    enum ual_status status;

    ual_ep_drop_connection(ep);
    status = ual_ep_modify_qp(ep, RI_QPS_IDLE);
    if (status == UAL_ERR_INVALID_STATE) {
        ual_ep_modify_qp(ep, RI_QPS_ERROR);
        status = ual_ep_modify_qp(ep, RI_QPS_IDLE);
    }
    if (status != UAL_OK)
        return status;
    /* An upcall about the old connection that a run has begun must not be taken for the next one's. */
    ual_lane_pause(lane);
    ual_lane_resume(lane);
    return ual_ep_is_ud(ep) ? ual_ep_modify_qp(ep, RI_QPS_RTS) : UAL_OK;
}

enum ual_status ual_ep_reset(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = ual_device_alive(ep->object.device);

    if (status != UAL_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    if (!ual_ep_feed(ep, EP_RESET, NULL, NULL))
        status = UAL_ERR_INVALID_STATE;
    else
        status = rewind_qp(ep);
    if (status == UAL_OK)
        ual_ep_feed(ep, EP_RESET_DONE, NULL, NULL);
    pthread_mutex_unlock(&inside->control);
    return status;
}

/* --- attributes --- */

#define WATERMARKS (UAL_EP_SOFT_WATERMARK | UAL_EP_HARD_WATERMARK)

static const struct {
    uint32_t asked, passed;
} modify_bits[] = {
    { UAL_EP_ORD, RI_QPM_ORD },
    { UAL_EP_IRD, RI_QPM_IRD },
    { UAL_EP_FLAGS, RI_QPM_FLAGS },
    { UAL_EP_SEND_WR, RI_QPM_MAX_SEND_WR },
    { UAL_EP_RECV_WR, RI_QPM_MAX_RECV_WR },
    { WATERMARKS, RI_QPM_RQ_LIMITS },
    { UAL_EP_QKEY, RI_QPM_QKEY },
};

/* What the endpoint will have. */
static struct ual_ep_attr merged(const struct ual_ep *ep, uint32_t mask,
                                 const struct ual_ep_attr *attr, uint32_t flags)
{
    struct ual_ep_attr all = ep->attr;

    if (mask & UAL_EP_PAYLOAD)
        all.max_payload = attr->max_payload;
    if (mask & UAL_EP_ORD)
        all.ord = attr->ord;
    if (mask & UAL_EP_IRD)
        all.ird = attr->ird;
    if (mask & UAL_EP_FLAGS)
        all.flags = (all.flags & ~flags) | (attr->flags & flags);
    if (mask & UAL_EP_SEND_WR)
        all.max_send_wr = attr->max_send_wr;
    if (mask & UAL_EP_RECV_WR)
        all.max_recv_wr = attr->max_recv_wr;
    if (mask & UAL_EP_SOFT_WATERMARK)
        all.soft_high_watermark = attr->soft_high_watermark;
    if (mask & UAL_EP_HARD_WATERMARK)
        all.hard_high_watermark = attr->hard_high_watermark;
    if (mask & UAL_EP_QKEY)
        all.qkey = qkey_of(ep->object.device, attr->qkey);
    return all;
}

/* On a connection the depth is what was agreed, which may be less than what the endpoint was made for. */
static bool raises_ord(struct ual_ep *ep, uint32_t ord)
{
    struct ri_qp_info info;

    return ual_ep_query(ep, &info) != UAL_OK || ord > info.ord;
}

static bool possible_when_connected(struct ual_ep *ep, uint32_t mask,
                                    const struct ual_ep_attr *attr)
{
    uint64_t features = ual_device_attr(ep->object.device)->features;

    return !(mask & UAL_EP_PAYLOAD) &&
           (!(mask & UAL_EP_IRD) || (features & RI_FEATURE_IRD_MODIFY)) &&
           (!(mask & UAL_EP_FLAGS) || (features & RI_FEATURE_ACCESS_MODIFY)) &&
           (!(mask & UAL_EP_ORD) || (features & RI_FEATURE_ORD_RAISE) ||
            !raises_ord(ep, attr->ord));
}

#define UD_ALWAYS      UAL_EP_QKEY
#define UD_OPERATIONAL (UAL_EP_PAYLOAD | UAL_EP_SEND_WR | UAL_EP_RECV_WR)

static bool possible_now(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    int state = atomic_load(&ep->state);

    if (ual_ep_is_ud(ep))
        return !(mask & ~(UD_ALWAYS | (state == UAL_EP_CONNECTED ? UD_OPERATIONAL : 0u)));
    return !(mask & UAL_EP_QKEY) &&
           (state == UAL_EP_UNCONNECTED ||
            (state == UAL_EP_CONNECTED && possible_when_connected(ep, mask, attr)));
}

/* What the peer did not agree to serve would end the connection. */
static bool beyond_agreed(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    return (mask & UAL_EP_ORD) && atomic_load(&ep->state) == UAL_EP_CONNECTED &&
           attr->ord > ual_ep_inside(ep)->agreed_ord;
}

static enum ual_status check_modify(struct ual_ep *ep, uint32_t mask,
                                    const struct ual_ep_attr *attr)
{
    const struct ri_rnic_attr *rnic = ual_device_attr(ep->object.device);

    if (!possible_now(ep, mask, attr))
        return UAL_ERR_INVALID_STATE;
    if (beyond_agreed(ep, mask, attr))
        return UAL_ERR_LIMIT;
    if ((mask & (UAL_EP_SEND_WR | UAL_EP_RECV_WR)) && !(rnic->features & RI_FEATURE_QP_RESIZE))
        return UAL_ERR_NOT_SUPPORTED;
    return (mask & UAL_EP_PAYLOAD) &&
                   attr->max_payload > payload_limit(ep->object.device, ep->object.type)
               ? UAL_ERR_LIMIT
               : UAL_OK;
}

static enum ual_status modify_qp(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr)
{
    struct ri_qp_modify modify = {
        .size = sizeof(modify),
        .ord = attr->ord,
        .ird = attr->ird,
        .flags = attr->flags,
        .max_send_wr = attr->max_send_wr,
        .max_recv_wr = attr->max_recv_wr,
        .rq_limit = attr->soft_high_watermark,
        .rq_hard_limit = attr->hard_high_watermark,
        .qkey = attr->qkey,
    };

    for (size_t i = 0; i < sizeof(modify_bits) / sizeof(modify_bits[0]); i++)
        if (mask & modify_bits[i].asked)
            modify.mask |= modify_bits[i].passed;
    if (!modify.mask)
        return UAL_OK;
    return ual_status_of_kal(kal_qp_modify(ep->object.device->rnic, ep->qp, &modify));
}

/* Posts and queries may be reading: what did not change is not written. */
static void take_modified(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *all)
{
    if (mask & UAL_EP_ORD)
        ep->ord = all->ord;
    if (mask & UAL_EP_SEND_WR)
        ep->attr.max_send_wr = all->max_send_wr;
    if (mask & UAL_EP_RECV_WR)
        ep->attr.max_recv_wr = all->max_recv_wr;
    ep->attr.max_payload = all->max_payload;
    ep->attr.ord = all->ord;
    ep->attr.ird = all->ird;
    ep->attr.flags = all->flags;
    ep->attr.soft_high_watermark = all->soft_high_watermark;
    ep->attr.hard_high_watermark = all->hard_high_watermark;
    ep->attr.qkey = all->qkey;
}

enum ual_status ual_ep_modify(struct ual_ep *ep, uint32_t mask, const struct ual_ep_attr *attr,
                              uint32_t flags)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = ual_device_alive(ep->object.device);
    struct ual_ep_attr all;

    if (status != UAL_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    all = merged(ep, mask, attr, flags);
    status = check_modify(ep, mask, &all);
    if (status == UAL_OK)
        status = modify_qp(ep, mask, &all);
    if (status == UAL_OK)
        take_modified(ep, mask, &all);
    pthread_mutex_unlock(&inside->control);
    return status;
}

enum ual_status ual_ep_query(struct ual_ep *ep, struct ri_qp_info *info)
{
    struct ri_qp_info filled = { .size = sizeof(filled) };
    enum ual_status status = ual_device_alive(ep->object.device);

    if (status == UAL_OK)
        status = ual_status_of_kal(kal_qp_query(ep->object.device->rnic, ep->qp, &filled));
    if (status == UAL_OK)
        *info = filled;
    return status;
}

enum ual_status ual_ep_addresses(struct ual_ep *ep, struct sockaddr_storage *local,
                                 struct sockaddr_storage *peer)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ual_status status = UAL_OK;

    spinlock_lock(&inside->lock);
    if (ual_ep_is_ud(ep) || inside->state == EP_UNCONNECTED || inside->state == EP_NONOPERATIONAL ||
        inside->state == EP_DISCONNECTING) {
        status = UAL_ERR_INVALID_STATE;
    } else {
        *local = address_storage(&inside->local);
        *peer = address_storage(&inside->peer);
    }
    spinlock_unlock(&inside->lock);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause
 * Endpoints: life, reset. Posts are inline in ual_policy.h. Connections: ep_connect.c; states:
 * ep_fsm.c; attributes: ep_modify.c. */
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

static enum ri_status open_qp(struct ual_ep *ep, enum ual_type type, struct ual_pd *pd,
                              struct ual_evd *request_evd, struct ual_evd *receive_evd)
{
    struct ual_qp_attr attr = {
        .type = type == UAL_UD_EP ? RI_QP_UD : RI_QP_RC,
        .object_type = type,
        .send_cq = ual_evd_cq(request_evd),
        .recv_cq = ual_evd_cq(receive_evd),
        .srq = ep->attr.srq,
        .max_send_wr = ep->attr.max_send_wr,
        .max_recv_wr = ep->attr.max_recv_wr,
        .max_send_sge = ep->attr.max_send_sge,
        .max_recv_sge = ep->attr.max_recv_sge,
        .max_read_sge = ep->attr.max_read_sge,
        .max_write_sge = ep->attr.max_write_sge,
        .ird = ep->attr.ird,
        .ord = ep->attr.ord,
        .flags = ep->attr.flags,
        .rq_limit = ep->attr.rq_limit,
        .rq_hard_limit = ep->attr.rq_hard_limit,
        .port = ep->attr.port,
        .qkey = ep->attr.qkey,
    };
    enum ri_status status = ual_qp_open(&ep->qp, pd, &attr, ual_ep_qp_event, ep);

    if (status != RI_OK)
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
    return RI_OK;
}

static void bind_evds(struct ual_ep *ep)
{
    ual_evd_bind(ual_ep_request_evd(ep), ep->qp.lane);
    ual_evd_bind(ual_ep_receive_evd(ep), ep->qp.lane);
    if (ep->connect_evd)
        ual_evd_bind(ep->connect_evd, ep->qp.lane);
}

static void unbind_evds(struct ual_evd *request_evd, struct ual_evd *receive_evd,
                        struct ual_evd *connect_evd, uint32_t lane)
{
    ual_evd_unbind(request_evd, lane);
    ual_evd_unbind(receive_evd, lane);
    if (connect_evd)
        ual_evd_unbind(connect_evd, lane);
}

static void free_memory(struct ual_ep_private *inside)
{
    ual_evd_drop_node(inside->first);
    pthread_mutex_destroy(&inside->control);
    free(inside);
}

/* Datagrams need no peer: the QP runs at once. */
static enum ri_status start_datagrams(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ri_qp_info info;
    enum ri_status status = ual_qp_set_state(&ep->qp, RI_QPS_RTS);

    if (status == RI_OK)
        status = ual_qp_query(&ep->qp, &info);
    if (status != RI_OK)
        return status;
    ep->qpn = info.qpn;
    inside->state = EP_UD_OPERATIONAL;
    atomic_store(&ep->state, (int)ep_fsm_public(inside->state));
    return RI_OK;
}

static void enlist(struct ual_ep_private *inside)
{
    struct ual_ia *ia = ual_ia_of(ual_ep_device(&inside->ep));

    pthread_mutex_lock(&ia->lock);
    DL_APPEND(ia->eps, inside);
    pthread_mutex_unlock(&ia->lock);
}

static enum ri_status create(enum ual_type type, struct ual_pd *pd, struct ual_evd *request_evd,
                             struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                             const struct ual_ep_attr *attr, struct ual_ep **out)
{
    struct ual_device *device = ((struct ual_object *)pd)->device;
    enum ri_status status = ual_device_alive(device);
    struct ual_ep_private *inside;
    struct ual_ep *ep;

    if (status != RI_OK)
        return status;
    if (!fits(request_evd, UAL_STREAM_DTO, device) || !fits(receive_evd, UAL_STREAM_DTO, device) ||
        (connect_evd && !fits(connect_evd, UAL_STREAM_CONNECTION, device)) ||
        (attr->srq && attr->srq->pd != pd))
        return RI_ERR_INVALID_ARGUMENT;
    if (attr->max_payload > ual_ep_payload_limit(device, type))
        return RI_ERR_LIMIT;
    inside = calloc(1, sizeof(*inside));
    if (!inside)
        return RI_ERR_NO_RESOURCES;
    pthread_mutex_init(&inside->control, NULL);
    spinlock_init(&inside->lock);
    ep = &inside->ep;
    ep->connect_evd = connect_evd;
    ep->attr = *attr;
    status = open_qp(ep, type, pd, request_evd, receive_evd);
    if (status != RI_OK)
        goto free_ep;
    if (type == UAL_UD_EP)
        status = start_datagrams(ep);
    if (status != RI_OK)
        goto close_qp;
    bind_evds(ep);
    enlist(inside);
    *out = ep;
    return RI_OK;
close_qp:
    if (ual_qp_close(&ep->qp) != RI_OK) /* its handle and its QP stay, and need the memory */
        return status;
free_ep:
    free_memory(inside);
    return status;
}

enum ri_status ual_ep_create(struct ual_pd *pd, struct ual_evd *request_evd,
                             struct ual_evd *receive_evd, struct ual_evd *connect_evd,
                             const struct ual_ep_attr *attr, struct ual_ep **ep)
{
    return create(UAL_EP, pd, request_evd, receive_evd, connect_evd, attr, ep);
}

enum ri_status ual_ep_create_ud(struct ual_pd *pd, struct ual_evd *request_evd,
                                struct ual_evd *receive_evd, const struct ual_ep_attr *attr,
                                struct ual_ep **ep)
{
    struct ual_device *device = ((struct ual_object *)pd)->device;
    struct ual_ep_attr own = {
        .max_send_wr = attr->max_send_wr,
        .max_recv_wr = attr->max_recv_wr,
        .max_send_sge = attr->max_send_sge,
        .max_recv_sge = attr->max_recv_sge,
        .max_payload = attr->max_payload,
        .qkey = ual_ep_qkey(device, attr->qkey),
        .port = attr->port,
    };

    if (!(ual_device_attr(device)->features & RI_FEATURE_UD))
        return RI_ERR_NOT_SUPPORTED;
    if (attr->port >= ual_device_attr(device)->ports)
        return RI_ERR_INVALID_ARGUMENT;
    return create(UAL_UD_EP, pd, request_evd, receive_evd, NULL, &own, ep);
}

/* From now on no service reply finds it. Returns when replies that have found it are over. */
static void delist(struct ual_ep_private *inside)
{
    struct ual_ia *ia = ual_ia_of(ual_ep_device(&inside->ep));

    pthread_mutex_lock(&ia->lock);
    DL_DELETE(ia->eps, inside);
    pthread_mutex_unlock(&ia->lock);
    while (atomic_load(&inside->answers))
        sched_yield();
}

/*
 * After the connection and the QP are closed no upcall about the endpoint runs or comes. So the
 * purge then finds all its events. The provider closes an open connection in the background.
 */
enum ri_status ual_ep_free(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    struct ual_evd *request_evd = ual_ep_request_evd(ep), *receive_evd = ual_ep_receive_evd(ep);
    ual_handle handle = ep->qp.object.handle;
    enum ri_status status;

    ual_ep_drop_connection(ep);
    delist(inside);
    status = ual_qp_close(&ep->qp);
    if (status != RI_OK) {
        enlist(inside);
        return status;
    }
    ual_request_forget_arrival(inside->arrival);
    if (ep->connect_evd)
        ual_evd_purge(ep->connect_evd, handle);
    unbind_evds(request_evd, receive_evd, ep->connect_evd, ep->qp.lane);
    free_memory(inside);
    return RI_OK;
}

/* --- state --- */

/* The old connection goes first: its upcalls must not be taken for those of the next one. For
 * datagrams the QP runs again. */
static enum ri_status rewind_qp(struct ual_ep *ep)
{
    enum ri_status status;

    ual_ep_drop_connection(ep);
    status = ual_qp_rewind(&ep->qp);
    if (status != RI_OK)
        return status;
    return ual_ep_is_ud(ep) ? ual_qp_set_state(&ep->qp, RI_QPS_RTS) : RI_OK;
}

enum ri_status ual_ep_reset(struct ual_ep *ep)
{
    struct ual_ep_private *inside = ual_ep_inside(ep);
    enum ri_status status = ual_device_alive(ual_ep_device(ep));

    if (status != RI_OK)
        return status;
    pthread_mutex_lock(&inside->control);
    if (!ual_ep_feed(ep, EP_RESET, NULL, NULL))
        status = RI_ERR_INVALID_STATE;
    else
        status = rewind_qp(ep);
    if (status == RI_OK)
        ual_ep_feed(ep, EP_RESET_DONE, NULL, NULL);
    pthread_mutex_unlock(&inside->control);
    return status;
}
